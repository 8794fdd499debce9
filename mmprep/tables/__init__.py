"""Tables: specs, kinds and units of columns; blocks of text; Parquet. Sole owner of pyarrow."""

from mmprep.tables.arrays import BLOCK_BYTES, ArrayTable, Rows
from mmprep.tables.events import EventTable, read_events
from mmprep.tables.layout import NULLS, Layout, RateTime, Span
from mmprep.tables.parquet import (
    TableInfo,
    TableWriter,
    TimeFacts,
    encodings_of,
    iter_stream,
    join_streams,
    read_columns,
    read_stream,
    table_info,
    write_stream,
    write_table,
)
from mmprep.tables.rejects import RejectsFile
from mmprep.tables.rowreader import (
    BAD_ROW_POLICIES,
    ReadOptions,
    first_stamp,
    sample_columns,
)
from mmprep.tables.schema import (
    EVIDENCE,
    RESERVED,
    Column,
    Declared,
    TableSchema,
    TimeColumn,
    Widen,
    conform,
    declared,
    merge_schemas,
    table_name,
    with_units,
)
from mmprep.tables.spread import HEAD_BYTES, Spread
from mmprep.tables.stamps import NULL_STAMP_NS
from mmprep.tables.target import TableFacts, Target
from mmprep.tables.text import (
    Counter,
    Padding,
    Part,
    Squeezing,
    TextTable,
    keys_of,
    no_unix_time,
)

__all__ = [
    "BAD_ROW_POLICIES",
    "BLOCK_BYTES",
    "EVIDENCE",
    "HEAD_BYTES",
    "NULLS",
    "NULL_STAMP_NS",
    "RESERVED",
    "ArrayTable",
    "Column",
    "Counter",
    "Declared",
    "EventTable",
    "Layout",
    "Padding",
    "Part",
    "RateTime",
    "ReadOptions",
    "RejectsFile",
    "Rows",
    "Span",
    "Spread",
    "Squeezing",
    "TableFacts",
    "TableInfo",
    "TableSchema",
    "TableWriter",
    "Target",
    "TextTable",
    "TimeColumn",
    "TimeFacts",
    "Widen",
    "conform",
    "declared",
    "encodings_of",
    "first_stamp",
    "iter_stream",
    "join_streams",
    "keys_of",
    "merge_schemas",
    "no_unix_time",
    "read_columns",
    "read_events",
    "read_stream",
    "sample_columns",
    "table_info",
    "table_name",
    "with_units",
    "write_stream",
    "write_table",
]
