"""CSV: one row a record, its fields, and where its rows are.

Rules
-----
- Columns: those of `base.scalars`; for each stream `<stream>.file`, `.begin`, `.end`, `.rate_hz`,
  `.offset_s`, `.valid` (the share of true samples) and `.bound_s`.
- All records have all columns, in the order in which they first occur, those of streams last; what
  a record lacks is an empty cell.
- UTF-8, commas, newlines; cells are quoted where they must be. Numbers are as the manifest has
  them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from mmprep.exporters.base import check_names, scalars
from mmprep.manifest.model import Record, label_name

Row = dict[str, Any]


def row_of(fields: Mapping[str, Any], record: Record, paths: Mapping[str, str]) -> tuple[Row, Row]:
    """Give the cells of a record: those of its fields, and those of its streams.

    Parameters
    ----------
    fields : dict
        See `base.fields_of`.
    paths : dict
        Stream -> its file, as it shall stand there.
    """
    streams: Row = {}
    for name, ref in record.streams.items():
        begin, end = ref.rows
        cells = {"file": paths[name], "begin": begin, "end": end}
        cells |= {"rate_hz": ref.rate_hz, "offset_s": ref.offset_s}
        cells["valid"] = (record.valid or {}).get(name)
        cells["bound_s"] = (record.bound_s or {}).get(name)
        streams |= {f"{name}.{key}": value for key, value in cells.items()}
    return scalars(fields), streams


def encode(rows: Sequence[tuple[Row, Row]]) -> bytes:
    """Write rows as a table with a header.

    Raises
    ------
    UsageError
        A stream has the name of another column.
    """
    plain = dict.fromkeys(name for first, _ in rows for name in first)
    streams = dict.fromkeys(name for _, second in rows for name in second)
    check_names([*plain, *streams])
    file = io.StringIO()
    writer = csv.DictWriter(file, [*plain, *streams], restval="", lineterminator="\n")
    writer.writeheader()
    for first, second in rows:
        writer.writerow({name: _cell(value) for name, value in {**first, **second}.items()})
    return file.getvalue().encode()


def _cell(value: Any) -> str:
    return "" if value is None else label_name(value)
