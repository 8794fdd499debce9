"""Tables: specs, kinds and units of columns; blocks of text; Parquet. Sole owner of pyarrow."""

from mmprep.tables.convert import (
    BAD_ROW_POLICIES,
    ReadOptions,
    TableFacts,
    convert_text,
    sample_columns,
    stream_of_text,
)
from mmprep.tables.parquet import (
    TableInfo,
    TableWriter,
    TimeFacts,
    iter_stream,
    read_columns,
    read_stream,
    table_info,
    write_stream,
    write_table,
)
from mmprep.tables.parse import NULLS, Layout, RateTime
from mmprep.tables.schema import (
    Column,
    TableSchema,
    TimeColumn,
    Widen,
    conform,
    merge_schemas,
    table_name,
)
from mmprep.tables.stamps import NULL_STAMP_NS

__all__ = [
    "BAD_ROW_POLICIES",
    "NULLS",
    "NULL_STAMP_NS",
    "Column",
    "Layout",
    "RateTime",
    "ReadOptions",
    "TableFacts",
    "TableInfo",
    "TableSchema",
    "TableWriter",
    "TimeColumn",
    "TimeFacts",
    "Widen",
    "conform",
    "convert_text",
    "iter_stream",
    "merge_schemas",
    "read_columns",
    "read_stream",
    "sample_columns",
    "stream_of_text",
    "table_info",
    "table_name",
    "write_stream",
    "write_table",
]
