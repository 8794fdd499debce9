"""ARFF, the text tables of Weka, as of the EEG Eye State recording.

Rules (Weka's description of the format)
-----
- `@RELATION`, an `@ATTRIBUTE name type` for each column, `@DATA`, in any case; then rows of cells
  with commas between them. `%` begins a comment line, `?` is a missing value.
- Numeric columns hold numbers alone; of others the values tell, so that classes `{0,1}` are
  integers.
- Times are those of a column called time or timestamp, or named by `--time`; else rows come at
  `--rate`.
- Sparse rows (`{1 X, 3 Y}`) are refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mmprep import tables
from mmprep.errors import DataError, UsageError
from mmprep.sources.base import (
    OWN,
    Claim,
    Finder,
    Looks,
    TextOptions,
    file_claims,
    file_of,
    first_lines,
    nulls_of,
)
from mmprep.tables import stamps
from mmprep.tables.schema import Column, TimeColumn
from mmprep.tables.text import TextTable

READER = "arff"
SUFFIXES = (".arff",)
HEAD_BYTES = 256 << 10
MISSING = "?"

_ATTRIBUTE = re.compile(
    r"""^@attribute\s+(?:'([^']*)'|"([^"]*)"|(\S+))\s+(.+?)\s*$""", re.IGNORECASE
)
_NUMERIC = ("numeric", "real", "integer")


@dataclass(frozen=True, slots=True)
class _Head:
    """What stands before the rows."""

    names: tuple[str, ...]
    numeric: frozenset[str]
    n_preamble: int
    rows: tuple[str, ...]


def claim(folder: str, names: Sequence[str], root: Path) -> list[Claim]:
    """Claim the files of a folder that declare attributes."""
    return file_claims(READER, folder, names, root, suffixes=SUFFIXES, knows=is_arff)


def is_arff(path: Path) -> bool:
    """Say whether a file declares attributes."""
    return any(_ATTRIBUTE.match(line.strip()) for line in first_lines(path, HEAD_BYTES))


def _head(path: Path, where: str) -> _Head:
    lines = first_lines(path, HEAD_BYTES)
    begin = next((k for k, text in enumerate(lines) if text.strip().lower() == "@data"), None)
    if begin is None:
        raise DataError(f"no line @DATA in its first {HEAD_BYTES >> 10} KiB", where=where)
    found = [match for line in lines[:begin] if (match := _ATTRIBUTE.match(line.strip()))]
    names = tuple(match[1] or match[2] or match[3] for match in found)
    if not names:
        raise DataError("declares no @ATTRIBUTE", where=where)
    if doubled := next((name for name in names if names.count(name) > 1), None):
        raise DataError(f"the header names {doubled!r} {names.count(doubled)} times", where=where)
    rows = tuple(line for line in lines[begin + 1 :] if line.strip() and not line.startswith("%"))
    if rows and rows[0].startswith("{"):
        raise DataError("sparse rows are not read", where=where, hint="write it as plain rows")
    numeric = frozenset(n for n, match in zip(names, found, strict=True) if _is_numeric(match[4]))
    return _Head(names, numeric, begin + 1, rows)


def _is_numeric(kind: str) -> bool:
    return kind.lower() in _NUMERIC


def _find(claim: Claim, root: Path, options: TextOptions) -> Looks:
    (name,) = claim.files
    return {OWN: lambda: _table(file_of(root, name), name, options)}


def _table(path: Path, where: str, options: TextOptions) -> TextTable:
    head = _head(path, where)
    time_cell = _time_cell(head.names, where, options)
    texts = () if time_cell is None else _texts(head, time_cell)
    unit = options.time_unit
    judged = stamps.judge(head.names[time_cell or 0], texts, unit=unit, tz=options.tz)
    is_timed = time_cell is not None
    reader = stamps.stamp_reader(judged.time.unit, texts, tz=options.tz) if is_timed else None
    rate = tables.RateTime(options.rate_hz) if options.rate_hz and not is_timed else None
    layout = tables.Layout(
        path,
        where,
        _table_names(head.names, time_cell),
        delimiter=",",
        quote="'" if any("'" in row for row in head.rows) else '"',
        n_preamble=head.n_preamble,
        comment=b"%",
        nulls=(*nulls_of(options), MISSING),
        time_cell=time_cell,
        stamps=reader,
        rate=rate,
    )
    columns = tuple(
        Column(name, "null", head.names[index], stamps.named_unit(head.names[index])[1])
        for name, index in layout.channels.items()
    )
    return TextTable(
        layout,
        columns,
        judged.time if is_timed else TimeColumn("rate", "given"),
        rate_hz=options.rate_hz,
        text=frozenset(c.name for c in columns if c.source_name not in head.numeric),
        notes=(judged.note,) if is_timed and judged.note else (),
    )


def _time_cell(names: Sequence[str], where: str, options: TextOptions) -> int | None:
    if options.time is not None and options.time not in names:
        hint = f"there are {', '.join(names)}"
        raise UsageError(f"no column {options.time!r}", where=where, hint=hint)
    found = names.index(options.time) if options.time else stamps.find_time(names)
    if found is None and options.rate_hz is None:
        raise DataError(
            f"no time column among {', '.join(names)}",
            where=where,
            hint="name it by --time COLUMN, or give --rate HZ for rows without stamps",
        )
    return found


def _texts(head: _Head, cell: int) -> tuple[str, ...]:
    """Give the first stamps; the last line may be cut."""
    cells = [row.split(",") for row in head.rows[:1000]]
    found = [row[cell].strip() for row in cells if len(row) == len(head.names)]
    return tuple(text for text in found if text not in (MISSING, ""))


def _table_names(names: Sequence[str], time_cell: int | None) -> tuple[str, ...]:
    return tuple(
        name if k == time_cell else tables.table_name(name, [n for n in names if n != name])
        for k, name in enumerate(names)
    )


_FINDER = Finder(_find)
streams = _FINDER.streams
probe = _FINDER.probe
write = _FINDER.write
read_stream = _FINDER.read_stream
