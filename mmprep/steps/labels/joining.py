"""Tables of labels, joined to records by keys, by intervals and by time.

Rules
-----
- Keys: see `keying`; rows with a time: see `timing`. A table may be given for each level
  (subject, session, trial); the columns of a later one replace those of the same name.
- All other columns go into `labels`. `label`, the class, is that of a column called `label`, or of
  the one that `--label` names; `--label-bins` makes classes of numbers.
- A column is numbers if all its cells are, else text; `07` is text.
- With `begin_s` and `end_s` the rows are intervals on the session clock; with `--label-time` the
  table that has this column is continuous annotation. Its times count from the session's start,
  from the onset of the trial, or from the first event of a name: see `origin`.
- Two rows of one key that say different things of the same time are an error.
- Rows and records without a partner are counted and said; no partner at all is an error.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from mmprep.errors import DataError, UsageError
from mmprep.manifest.model import Record
from mmprep.steps.labels import keying, timing
from mmprep.steps.labels.bins import Bins
from mmprep.steps.labels.cells import column_values, read_cells, value
from mmprep.steps.labels.keying import Key, On
from mmprep.steps.labels.origin import NO_ORIGINS, NO_TIME, LabelTime, Origins
from mmprep.steps.labels.timing import Row, Taken

INTERVAL = ("begin_s", "end_s")
_LOOK_ALIKE = frozenset({"start", "stop", "begin", "end", "onset", "offset", "duration"})
UNIX_S = 1e9  # larger seconds are those of Unix time


@dataclass(frozen=True, slots=True)
class Wish:
    """What the options say of labels.

    Parameters
    ----------
    files, on : tuple of str
        The tables and their keys; one key may serve all.
    label : str, optional
        The column that is the class.
    bins : str, optional
        See `Bins`.
    time : str, optional
        The column of time of continuous annotation, `COLUMN[,unit=s|ms][,origin=...]`, or `begin_s`
        of intervals: see `origin.LabelTime`.
    agg : str
        One of `timing.AGGREGATES`.
    lag_s : float
        How much later than what it is about an annotation is said.
    """

    files: tuple[str, ...] = ()
    on: tuple[str, ...] = ()
    label: str | None = None
    bins: str | None = None
    time: str | None = None
    agg: str = "cover"
    lag_s: float = 0.0

    @property
    def event(self) -> str | None:
        """The event whose time in each session is asked for."""
        return LabelTime.parse(self.time).event if self.time else None

    def content(self) -> dict[str, Any]:
        """Give what changes content, beside the tables themselves."""
        about = {"label": self.label, "label_bins": self.bins, "label_time": self.time}
        if self.time is not None:
            about["label_agg"] = self.agg
        if self.lag_s:
            about["label_lag"] = str(self.lag_s)
        return {"on": list(self.on), **{k: v for k, v in about.items() if v is not None}}


def texts(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """Give an option that may be given several times."""
    return (given,) if isinstance(given, str) else tuple(given or ())


@dataclass(slots=True)
class _Tally:
    """What found a partner."""

    keys: set[Key] = field(default_factory=set)
    lines: set[int] = field(default_factory=set)
    bare: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LabelTable:
    """Rows by key.

    Parameters
    ----------
    agg : str or None
        How points are taken together; None for rows without a time and for intervals.
    intervals_like : tuple of str
        Columns that look like the bounds of intervals, and are none.
    """

    path: str
    on: On
    rows: Mapping[Key, Sequence[Row]]
    is_timed: bool
    agg: str | None = None
    intervals_like: tuple[str, ...] = ()
    clock: LabelTime = NO_TIME

    def apply(self, records: Sequence[Record], origins: Origins) -> tuple[list[Record], list[str]]:
        """Join the table.

        Returns
        -------
        records, list of str
            The records with their labels, and what is worth saying: how many got some, what found
            no partner.

        Raises
        ------
        DataError
            No record matches at all, or nothing is said of the time of any window.
        """
        self.clock.check(records, origins)
        found = keying.matched(map(self.on.key, records), list(self.rows), self.path)
        tally = _Tally()
        joined = [self._joined(record, found.keys, origins, tally) for record in records]
        if records and not tally.keys:
            raise self._unrelated(records)
        if records and not tally.lines:
            raise self._untimely(records, tally)
        n_labelled = sum(new is not old for new, old in zip(joined, records, strict=True))
        said = [f"{self.path}: {n_labelled} of {len(records)} records have labels"]
        if not self.is_timed and self.intervals_like:
            names = ", ".join(self.intervals_like)
            said.append(
                f"{self.path}: {names}: no begin_s and end_s, so labels hold for whole"
                f" {self.on.name}s"
            )
        if found.by_number:
            pairs = [f"{ours} is {theirs}" for ours, theirs in found.by_number]
            said.append(f"{self.path}: keys matched by their number: {_some(pairs)}")
        if lacking := self.clock.lacking(records, origins):
            said.append(
                f"{self.path}: {len(lacking)} sessions have no event {self.clock.event!r}"
                f" ({_some(lacking)})"
            )
        remark = self._unmatched(tally)
        return joined, said + ([remark] if remark else [])

    def _joined(
        self, record: Record, keys: Mapping[Key, Key], origins: Origins, tally: _Tally
    ) -> Record:
        key = keys.get(self.on.key(record))
        if key is None:
            tally.bare[",".join(self.on.key(record))] = None
            return record
        tally.keys.add(key)
        taken = self._taken(self.rows[key], record, origins)
        if taken is None:
            return record
        tally.lines.update(taken.lines)
        labels = {**record.labels, **taken.values}
        label = taken.values.get("label", record.label)
        return msgspec.structs.replace(record, labels=labels, label=label)

    def _taken(self, rows: Sequence[Row], record: Record, origins: Origins) -> Taken | None:
        zero_s: float | None = 0.0
        if self.is_timed:
            is_unix, where = _is_unix(rows), f"{self.path}:{rows[0].line}"
            zero_s = self.clock.zero_s(record, origins, is_unix=is_unix, where=where)
        if zero_s is None:
            return None
        begin_s, end_s = record.begin_s - zero_s, record.end_s - zero_s
        if self.agg in {None, "cover"}:
            return timing.covering(rows, begin_s, end_s)
        return timing.inside(rows, begin_s, end_s, self.agg or "")

    def _unrelated(self, records: Sequence[Record]) -> DataError:
        if absent := self.on.absent(records):
            return DataError(
                f"no record has a field {', '.join(absent)}, which --on names",
                where=self.path,
                hint=f"they have {', '.join(_fields(records))}; --layout of convert makes others",
            )
        ours, theirs = self.on.key(records[0]), next(iter(self.rows), ("no rows",))
        return DataError(
            f"no row matches any record by {self.on.name!r}",
            where=self.path,
            hint=f"the records have {self.on.name} {','.join(ours)!r}, the table"
            f" {','.join(theirs)!r}",
        )

    def _untimely(self, records: Sequence[Record], tally: _Tally) -> DataError:
        ends_s = (r.end_s for r in records if ",".join(self.on.key(r)) not in tally.bare)
        last = max(ends_s)
        if self.agg is None:
            what, hint = "no interval covers a window", "begin_s and end_s are"
        else:
            what, hint = f"no annotation tells of a window ({self.agg})", "--label-agg; times are"
        return DataError(
            f"{what}: the windows lie in 0 to {last:g} s",
            where=self.path,
            hint=f"{hint} seconds after {self.clock.words}",
        )

    def _unmatched(self, tally: _Tally) -> str | None:
        waste = [row.line for key in tally.keys for row in self.rows[key]]
        waste = [line for line in waste if line not in tally.lines]
        idle = [",".join(key) for key in self.rows if key not in tally.keys]
        parts = []
        if idle:
            parts.append(f"{len(idle)} keys of the table match no record ({_some(idle)})")
        if tally.bare:
            bare = sorted(tally.bare)
            parts.append(f"{len(bare)} of the records have no row ({_some(bare)})")
        if waste:
            kind = "intervals cover" if self.agg is None else "annotations are of"
            parts.append(f"{len(waste)} {kind} no window (line {min(waste)}, ...)")
        return f"{self.path}: {'; '.join(parts)}" if parts else None


def _is_unix(rows: Sequence[Row]) -> bool:
    return any((row.begin_s or 0.0) >= UNIX_S for row in rows)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


@dataclass(frozen=True, slots=True)
class Labels:
    """All tables, and what becomes of a column that is the class."""

    tables: tuple[LabelTable, ...] = ()
    label: str | None = None
    bins: Bins | None = None

    @property
    def is_timed(self) -> bool:
        """Whether any table tells of stretches of time."""
        return any(table.is_timed for table in self.tables)

    @property
    def paths(self) -> tuple[str, ...]:
        """The files."""
        return tuple(table.path for table in self.tables)

    def join(
        self, records: Sequence[Record], origins: Origins = NO_ORIGINS
    ) -> tuple[list[Record], list[str]]:
        """Join all tables, one after the other, then name the classes.

        Parameters
        ----------
        origins : Origins, optional
            What the times of tables may count from.

        Raises
        ------
        DataError
            As `LabelTable.apply`; a text where bins need numbers.
        UsageError
            No record has the column that `--label` names.
        """
        said: list[str] = []
        joined = list(records)
        for table in self.tables:
            joined, remarks = table.apply(joined, origins)
            said += remarks
        if self.label is None and self.bins is None:
            return joined, said
        return _classed(joined, self.label or "label", self.bins), said


def _classed(records: Sequence[Record], name: str, bins: Bins | None) -> list[Record]:
    """Make a column the class."""
    names = dict.fromkeys(column for record in records for column in record.labels)
    if records and name not in names:
        raise UsageError(
            f"no record has a label {name!r}",
            where="--label",
            hint=f"there are {', '.join(names) or 'none'}",
        )
    classed = []
    for record in records:
        value_ = record.labels.get(name)
        label = bins.name(value_, record.id) if bins is not None else value_
        classed.append(msgspec.structs.replace(record, label=label))
    return classed


def read(wish: Wish) -> Labels:
    """Read the tables (TSV, or CSV with comma or semicolon).

    Raises
    ------
    UsageError
        No file, no `--on`, or no such column.
    DataError
        A row has another number of cells, or an interval is no number or ends before it begins.
    """
    if wish.agg not in timing.AGGREGATES:
        raise UsageError(
            f"{wish.agg!r} is none of {', '.join(timing.AGGREGATES)}", where="--label-agg"
        )
    if wish.on and len(wish.on) not in {1, len(wish.files)}:
        raise UsageError(
            f"{len(wish.files)} --labels, {len(wish.on)} --on", hint="one --on for all, or one each"
        )
    ons = wish.on * len(wish.files) if len(wish.on) == 1 else wish.on or (None,) * len(wish.files)
    clock = LabelTime.parse(wish.time) if wish.time else None
    sheets = [_Sheet(path, *read_cells(path)) for path in wish.files]
    if clock is not None and not any(clock.column in sheet.header for sheet in sheets):
        raise UsageError(f"no table has a column {clock.column!r}", where="--label-time")
    tables = tuple(
        _table(sheet, keying.parse(on), wish, clock) for sheet, on in zip(sheets, ons, strict=True)
    )
    return Labels(tables, wish.label, Bins.parse(wish.bins) if wish.bins else None)


@dataclass(frozen=True, slots=True)
class _Sheet:
    """The cells of a table, each row with its line."""

    path: str
    header: list[str]
    cells: list[tuple[int, list[str]]]


def _table(sheet: _Sheet, on: On, wish: Wish, clock: LabelTime | None) -> LabelTable:
    path, header = sheet.path, sheet.header
    if unknown := [column for column in on.columns if column not in header]:
        raise UsageError(
            f"there is no column {unknown[0]!r}", where=path, hint=f"columns: {', '.join(header)}"
        )
    given = [name for name in INTERVAL if name in header]
    if len(given) == 1:
        raise UsageError(f"has {given[0]} alone", where=path, hint="intervals need begin_s, end_s")
    own = clock if clock is not None and clock.column in header else NO_TIME
    is_continuous = bool(own.column) and own.column not in given
    times = (own.column,) if is_continuous else tuple(given)
    rows = _rows(sheet, on.columns, times)
    rows = {
        key: [_moved(row, own.per_s, wish.lag_s) for row in found] for key, found in rows.items()
    }
    if is_continuous:
        rows = {key: _points(found, wish.agg) for key, found in rows.items()}
        return LabelTable(path, on, rows, is_timed=True, agg=wish.agg, clock=own)
    for found in rows.values():
        timing.check_apart(path, found)
    alike = tuple(name for name in header if name.lower() in _LOOK_ALIKE)
    return LabelTable(path, on, rows, is_timed=bool(given), intervals_like=alike, clock=own)


def _points(rows: Iterable[Row], agg: str) -> list[Row]:
    ordered = sorted(rows, key=lambda row: (row.begin_s or 0.0, row.line))
    return timing.held(ordered) if agg == "cover" else ordered


def _moved(row: Row, per_s: float, lag_s: float) -> Row:
    """Give the times of a row in seconds, and earlier by the lag."""
    if row.begin_s is None:
        return row
    end_s = None if row.end_s is None else row.end_s / per_s - lag_s
    return replace(row, begin_s=row.begin_s / per_s - lag_s, end_s=end_s)


def _rows(sheet: _Sheet, keys: Sequence[str], times: Sequence[str]) -> dict[Key, list[Row]]:
    """Read the rows by their key, each column as numbers only if all of it is."""
    header, cells = sheet.header, sheet.cells
    others = [name for name in header if name not in {*keys, *times}]
    texts = {name: [row[header.index(name)] for _, row in cells] for name in others}
    values = {name: column_values(found) for name, found in texts.items()}
    rows: dict[Key, list[Row]] = defaultdict(list)
    for k, (line, row) in enumerate(cells):
        known = dict(zip(header, row, strict=True))
        span = _span(sheet.path, line, known, times)
        found = Row(line, {name: values[name][k] for name in others}, *span)
        rows[tuple(known[column] for column in keys)].append(found)
    return dict(rows)


def _span(
    path: str, line: int, cells: Mapping[str, str], times: Sequence[str]
) -> tuple[float | None, float | None]:
    """Read the time of a row: none, a point, or an interval."""
    if not times:
        return None, None
    begin_s, *ends_s = (_number(path, line, name, cells[name]) for name in times)
    if not ends_s:
        return begin_s, None
    (end_s,) = ends_s
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


def _fields(records: Sequence[Record]) -> list[str]:
    """Name the fields that labels may be joined on."""
    ours = dict.fromkeys(name for record in records for name in (*record.labels, *record.extra))
    return ["id", "session", *(["subject"] if any(r.subject for r in records) else []), *ours]
