"""A table of labels, joined to records by a key, or as intervals onto the windows they cover.

Rules
-----
- `--on KEY[=COLUMN]`: KEY is a field of the record (id, session, subject or another), COLUMN that
  of the table, by default of the same name. Keys match as text.
- All other columns go into `labels`; a column called `label` fills `label`.
- A column is numbers if all its cells are, else text; `07` is text.
- With `begin_s` and `end_s` the rows are intervals on the session clock: a window takes the row
  that covers all of it, `begin_s <= begin and end <= end_s`.
- Two rows of one key that say different things of the same time are an error.
- Rows and records without a partner are counted and said; no partner at all is an error.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from mmprep import files
from mmprep.errors import DataError, UsageError
from mmprep.manifest.model import LabelValue, Record, field_value

NULLS = frozenset({"", "n/a", "N/A", "NA", "NaN", "nan", "NULL", "null"})
INTERVAL = ("begin_s", "end_s")
_LOOK_ALIKE = frozenset({"start", "stop", "begin", "end", "onset", "offset", "duration"})
MAX_INT = 2**63  # larger ones are ids, and no JSON writer takes them


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its values, and its interval where it has one."""

    line: int
    values: Mapping[str, LabelValue]
    begin_s: float | None = None
    end_s: float | None = None

    def covers(self, begin_s: float, end_s: float) -> bool:
        """Say whether the row holds for all of `[begin_s, end_s)`; without an interval it does."""
        if self.begin_s is None or self.end_s is None:
            return True
        return self.begin_s <= begin_s and end_s <= self.end_s


@dataclass(frozen=True, slots=True)
class LabelTable:
    """Rows by key."""

    path: str
    key: str
    rows: Mapping[str, Sequence[Row]]
    has_intervals: bool
    intervals_like: tuple[str, ...] = ()

    def apply(self, records: Sequence[Record]) -> tuple[list[Record], list[str]]:
        """Join the table.

        Returns
        -------
        records, list of str
            The records with their labels, and what is worth saying: how many got some, what found
            no partner.

        Raises
        ------
        DataError
            No record matches at all, or no interval covers a window.
        """
        used: set[str] = set()
        lines: set[int] = set()
        joined = [self._joined(record, used, lines) for record in records]
        if records and not used:
            raise DataError(
                f"no row matches any record by {self.key!r}",
                where=self.path,
                hint=f"the records have {self.key} {_key(records[0], self.key)!r}, the table"
                f" {next(iter(self.rows), 'no rows')!r}",
            )
        if records and not lines:
            last = max(record.end_s for record in records if _key(record, self.key) in used)
            raise DataError(
                f"no interval covers a window: the windows lie in 0 to {last:g} s",
                where=self.path,
                hint="begin_s and end_s are seconds after the origin of the aligned session",
            )
        n_labelled = sum(new is not old for new, old in zip(joined, records, strict=True))
        said = [f"{self.path}: {n_labelled} of {len(records)} records have labels"]
        if not self.has_intervals and self.intervals_like:
            names = ", ".join(self.intervals_like)
            said.append(
                f"{self.path}: {names}: no begin_s and end_s, so labels hold for whole {self.key}s"
            )
        remark = self._unmatched(records, used, lines)
        return joined, said + ([remark] if remark else [])

    def _joined(self, record: Record, used: set[str], lines: set[int]) -> Record:
        key = _key(record, self.key)
        if key not in self.rows:
            return record
        used.add(key)
        rows = (row for row in self.rows[key] if row.covers(record.begin_s, record.end_s))
        row = next(rows, None)
        if row is None:
            return record
        lines.add(row.line)
        labels = {**record.labels, **row.values}
        label = row.values.get("label", record.label)
        return msgspec.structs.replace(record, labels=labels, label=label)

    def _unmatched(self, records: Sequence[Record], used: set[str], lines: set[int]) -> str | None:
        waste = [row.line for key in used for row in self.rows[key] if row.line not in lines]
        idle = [key for key in self.rows if key not in used]
        bare = {_key(record, self.key) for record in records} - self.rows.keys()
        parts = []
        if idle:
            parts.append(f"{len(idle)} keys of the table match no record ({_some(idle)})")
        if bare:
            parts.append(f"{len(bare)} of the records have no row ({_some(sorted(bare))})")
        if waste:
            parts.append(f"{len(waste)} intervals cover no window (line {min(waste)}, ...)")
        return f"{self.path}: {'; '.join(parts)}" if parts else None


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def _key(record: Record, name: str) -> str:
    return field_value(record, name) or ""


def read(path: str, on: str | None) -> LabelTable:
    """Read a table of labels (TSV, or CSV with comma or semicolon).

    Raises
    ------
    UsageError
        No file, no `--on`, or no such column.
    DataError
        A row has another number of cells, or an interval is no number or ends before it begins.
    """
    if not on:
        raise UsageError("--labels needs --on KEY", hint="for example: --on session")
    key, _, column = on.partition("=")
    column = column or key
    header, cells = _cells(path)
    if column not in header:
        raise UsageError(
            f"there is no column {column!r}", where=path, hint=f"columns: {', '.join(header)}"
        )
    given = [name for name in INTERVAL if name in header]
    if len(given) == 1:
        raise UsageError(f"has {given[0]} alone", where=path, hint="intervals need begin_s, end_s")
    rows = _rows(path, header, cells, column)
    for key_rows in rows.values():
        _check_apart(path, key_rows)
    alike = tuple(name for name in header if name.lower() in _LOOK_ALIKE)
    return LabelTable(path, key, rows, bool(given), alike)


def _rows(
    path: str, header: list[str], cells: list[tuple[int, list[str]]], column: str
) -> dict[str, list[Row]]:
    """Read the rows by their key, each column as numbers only if all of it is."""
    others = [name for name in header if name not in {column, *INTERVAL}]
    texts = {name: [row[header.index(name)] for _, row in cells] for name in others}
    values = {name: column_values(found) for name, found in texts.items()}
    rows: dict[str, list[Row]] = {}
    for k, (line, row) in enumerate(cells):
        span = _span(path, line, dict(zip(header, row, strict=True)))
        found = Row(line, {name: values[name][k] for name in others}, *span)
        rows.setdefault(row[header.index(column)], []).append(found)
    return rows


def _check_apart(path: str, rows: list[Row]) -> None:
    """Refuse rows of one key that say two things of one time."""
    ordered = sorted(rows, key=lambda row: (row.begin_s or 0.0, row.line))
    for before, after in pairwise(ordered):
        meet = before.end_s is None or (after.begin_s or 0.0) < before.end_s
        if meet and before.values != after.values:
            first, second = sorted((before.line, after.line))
            raise DataError(
                f"contradicts line {first}: the same key, the same time, other labels",
                where=f"{path}:{second}",
                hint="keep one of the two rows",
            )


def _cells(path: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    try:
        text = files.read_text(path)
    except OSError as error:
        raise UsageError(f"{error.strerror}", where=path) from error
    except UnicodeDecodeError as error:
        raise DataError("is not UTF-8", where=path, hint="save it as UTF-8") from error
    first = text.partition("\n")[0]
    delimiter = next((mark for mark in "\t;," if mark in first), "\t")
    reader = csv.reader(text.splitlines(), delimiter=delimiter)
    try:
        numbered = [(reader.line_num, cells) for cells in reader if cells]
    except csv.Error as error:
        raise DataError(f"{error}", where=f"{path}:{reader.line_num}") from error
    if not numbered:
        raise DataError("is empty", where=path, hint="a header and a row a key")
    header = numbered[0][1]
    if double := [name for name in header if header.count(name) > 1]:
        raise DataError(f"two columns are called {double[0]!r}", where=f"{path}:{numbered[0][0]}")
    for line, cells in numbered:
        if len(cells) != len(header):
            raise DataError(
                f"{len(cells)} cells, expected {len(header)}",
                where=f"{path}:{line}",
                hint="every row has as many cells as the header",
            )
    return header, numbered[1:]


def _span(path: str, line: int, cells: Mapping[str, str]) -> tuple[float | None, float | None]:
    if INTERVAL[0] not in cells:
        return None, None
    begin_s, end_s = (_number(path, line, name, cells[name]) for name in INTERVAL)
    if end_s < begin_s:
        raise DataError(
            f"ends at {end_s} before it begins at {begin_s}",
            where=f"{path}:{line}",
            hint="intervals are [begin_s, end_s) in seconds",
        )
    return begin_s, end_s


def _number(path: str, line: int, name: str, text: str) -> float:
    number = value(text)
    if isinstance(number, int | float):
        return float(number)
    raise DataError(
        f"{name} is {text!r}, expected seconds",
        where=f"{path}:{line}",
        hint="seconds after the origin of the session, such as 12.5",
    )


def column_values(texts: Sequence[str]) -> list[LabelValue]:
    """Read a column: numbers if every cell is one or missing, else text."""
    values = [value(text) for text in texts]
    if any(isinstance(found, str) for found in values):
        return [None if text in NULLS else text for text in texts]
    return values


def value(text: str) -> LabelValue:
    """Read a cell: a number, text, or None for what means missing. Leading zeros stay text."""
    if text in NULLS:
        return None
    if text.lstrip("+-").startswith("0") and text.lstrip("+-")[1:2].isdigit():
        return text
    if "_" in text:  # Python reads 1_2 as 12, nobody else does
        return text
    for kind, limit in ((int, MAX_INT), (float, float("inf"))):
        try:
            number = kind(text)
        except ValueError:
            continue
        return number if abs(number) < limit else text
    return text


def join(records: Sequence[Record], tables: Iterable[LabelTable]) -> tuple[list[Record], list[str]]:
    """Join several tables, one after the other."""
    said: list[str] = []
    joined = list(records)
    for table in tables:
        joined, remarks = table.apply(joined)
        said += remarks
    return joined, said
