"""Biovotion Everion: `count,streamType,tag,time,values`, one row a quantity, as uploaded.

Rules (a session of devicely, and its reader)
-----
- All rows of a file have one stream type, which names the stream: signals (1 Hz), features (beats),
  aggregates, events, analytics, sensors (raw light and acceleration).
- The rows of one `count` and `time` become one row of the table, a column a tag; `21.8;100.0` is
  the value and its quality. Rows are put in the order of time, then count: the device sends them in
  blocks, the latest first. A row that was sent twice is kept once; two values for one count and tag
  give two rows.
- `time` is in whole Unix seconds. Sensors and beats come several a second: they are spread evenly
  over their second by `count`, so a lost one leaves a hole.
- A file is read as a whole, some 500 bytes of memory a row. `--on-bad-row null` is as `skip`: a
  row without count or tag has no place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mmprep import tables
from mmprep.errors import DataError
from mmprep.rows import IN_MEMORY, Store, gathered
from mmprep.signals import Stream
from mmprep.sources import base
from mmprep.sources.base import (
    Claim,
    TextOptions,
    beside,
    file_of,
)
from mmprep.tables import stamps
from mmprep.tables.arrays import ArrayTable, Rows
from mmprep.tables.parsed import Reject
from mmprep.tables.rejects import RejectsFile, bad_row
from mmprep.tables.rowreader import RowReader
from mmprep.tables.schema import Column, TableSchema, TimeColumn
from mmprep.tables.target import TableFacts, Target
from mmprep.timebase import NS_PER_S, BoolArray, FloatArray, IntArray

READER = "everion"
DEVICE = "Biovotion Everion"
HEADER = "count,streamType,tag,time,values"
BLOCK_ROWS = 1 << 16
LARGEST_LOSS = 1_000_000  # a larger step of the counter is a new start

_STREAMS = {
    2: "signals",
    4: "features",
    5: "aggregates",
    6: "events",
    7: "analytics",
    16: "sensors",
}
_IRREGULAR = frozenset({"features", "events", "analytics"})
_SPREAD = frozenset({"features", "sensors"})
_COUNTED = frozenset({"signals", "features", "sensors"})

# Tag -> name and unit; units only where values show them.
_TAGS: dict[int, tuple[str, str | None]] = {
    6: ("heart_rate", "bpm"),
    7: ("oxygen_saturation", "%"),
    8: ("perfusion_index", None),
    9: ("motion_activity", None),
    10: ("activity_class", None),
    11: ("heart_rate_variability", "ms"),
    12: ("respiration_rate", "1/min"),
    13: ("energy", None),
    14: ("inter_pulse_interval", "ms"),
    15: ("core_temperature", "degC"),
    17: ("pis", None),
    18: ("pid", None),
    19: ("temperature_local", "degC"),
    20: ("barometer_pressure", "hPa"),
    21: ("gsr", None),
    22: ("health_score", None),
    23: ("relax_stress_score", None),
    24: ("sleep_quality_score", None),
    25: ("training_effect_score", None),
    26: ("activity_score", None),
    66: ("richness_score", None),
    70: ("blood_pulse_wave", None),
    71: ("steps", None),
    80: ("led1", None),
    81: ("led2", None),
    82: ("led3", None),
    83: ("led4", None),
    84: ("acc_x", None),
    85: ("acc_y", None),
    86: ("acc_z", None),
    88: ("led2_current", None),
    89: ("led3_current", None),
    90: ("led4_current", None),
    91: ("current_offset", None),
    118: ("temperature_object", "degC"),
    119: ("temperature_barometer", "degC"),
}
_NUMBER = re.compile(r"^\s*[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?\s*$", re.ASCII)


def claim(folder: str, names: Sequence[str], root: Path) -> list[Claim]:
    """Claim the files of a folder that have the header of an Everion."""
    streams = {}
    for name in sorted(names):
        path = beside(folder, name)
        if name.lower().endswith(".csv") and (stream := stream_of(file_of(root, path))):
            streams[path] = stream
    return base.set_claims(READER, folder, streams)


def stream_of(path: Path) -> str | None:
    """Name the stream of a file by its header and first row; None if it is none of this format."""
    lines = base.first_lines(path, 512)
    if not lines or lines[0].strip() != HEADER:
        return None
    cells = lines[1].split(",") if len(lines) > 1 else []
    if len(cells) < 2 or not cells[1].strip().isdigit():
        return None
    return _STREAMS.get(int(cells[1]), f"type_{int(cells[1])}")


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a file as they stand.

    Parameters
    ----------
    count, tag, time_ns : [shape=(n,), int64]
    value, quality : [shape=(n,), float64]
        NaN where missing.
    """

    count: IntArray
    tag: IntArray
    time_ns: IntArray
    value: FloatArray
    quality: FloatArray
    digest: str = ""
    n_rejected: int = 0

    def __len__(self) -> int:
        return int(self.count.size)

    def take(self, index: IntArray | BoolArray) -> _Rows:
        """Keep some rows."""
        return replace(
            self,
            count=self.count[index],
            tag=self.tag[index],
            time_ns=self.time_ns[index],
            value=self.value[index],
            quality=self.quality[index],
        )


@dataclass(frozen=True, slots=True)
class _Wide:
    """One row a count and time.

    Parameters
    ----------
    data : [shape=(n, n_columns), float64]
        NaN where missing; `columns` after `count`.
    """

    stamps_ns: IntArray
    count: IntArray
    data: FloatArray
    columns: tuple[Column, ...]
    notes: tuple[str, ...]


def probe(claim: Claim, root: Path, options: TextOptions) -> dict[str, TableSchema]:
    """Read the files for the quantities in them.

    Raises
    ------
    DataError
        A bad row, where the policy is `fail`.
    """
    found = {}
    for name in claim.files:
        path = file_of(root, name)
        stream = stream_of(path) or ""
        found[stream] = base.schema_of(_table(_read(path, name, options), stream), stream, options)
    return found


def write(
    claim: Claim,
    root: Path,
    stream: str,
    schema: TableSchema,
    target: Target,
    *,
    options: TextOptions,
) -> TableFacts:
    """Write the table of one stream.

    Raises
    ------
    DataError
        A bad row, where the policy is `fail`.
    UsageError
        No such stream.
    """
    files = {stream_of(file_of(root, name)) or "": name for name in claim.files}
    name = files[base.pick(tuple(files), stream, claim.id_path)]
    rejected = RejectsFile(target.rejects_path)
    try:
        rows = _read(file_of(root, name), name, options, take=rejected, hasher=target.hasher)
        facts = _table(rows, stream).write(schema, replace(target, device=DEVICE))
    except BaseException:
        rejected.abort()
        raise
    return replace(
        facts,
        n_rejected=rows.n_rejected,
        rejects=rejected.close(),
        input_digests={name: rows.digest},
    )


def device_of(claim: Claim, root: Path, stream: str) -> str | None:
    """Name the model of the device."""
    return DEVICE


def _table(rows: _Rows, stream: str) -> ArrayTable:
    wide = _widen(rows, stream)
    return ArrayTable(
        (Column("count", "int64", fixed=True), *wide.columns),
        TimeColumn("s", "given", absolute=True, source_name="time"),
        None if stream in _IRREGULAR else stamps.RateMeter.measure(wide.stamps_ns),
        partial(_give, wide),
        wide.notes,
    )


def _give(wide: _Wide, take: Callable[[Rows], None], notes: list[str]) -> None:
    names = [column.name for column in wide.columns]
    for begin in range(0, wide.count.size, BLOCK_ROWS):
        part = slice(begin, begin + BLOCK_ROWS)
        data = dict(zip(names, wide.data[part].T, strict=True))
        take(Rows(wide.stamps_ns[part], {"count": wide.count[part], **data}))


def read_stream(
    path: Path,
    options: TextOptions,
    name: str,
    *,
    stream: str | None = None,
    store: Store = IN_MEMORY,
) -> Stream:
    """Read a file; its quantities are the channels."""
    own = stream_of(path)
    if own is None:
        raise DataError(f"no header of an Everion ({HEADER})", where=str(path))
    base.pick((own,), stream, str(path))
    wide = _widen(_read(path, str(path), options), own)
    return Stream(
        name,
        wide.stamps_ns,
        gathered([wide.data], store),
        tuple(column.name for column in wide.columns),
        tuple(column.unit for column in wide.columns),
        None if own in _IRREGULAR else stamps.RateMeter.measure(wide.stamps_ns),
        absolute=True,
    )


# Reading ------------------------------------------------------------------------------------------


def _layout(path: Path, where: str, options: TextOptions) -> tables.Layout:
    return tables.Layout(
        path,
        where,
        ("count", "type", "tag", "time", "values"),
        delimiter=",",
        quote='"',
        n_preamble=1,
        header=HEADER.encode(),
        comment=b"",
        nulls=base.nulls_of(options),
        time_cell=3,
        stamps=stamps.stamp_reader("s", ()),
    )


_CELLS = (
    Column("count", "int64", fixed=True),
    Column("tag", "int64", fixed=True),
    Column("values", "string", fixed=True),
)


def _read(
    path: Path,
    where: str,
    options: TextOptions,
    *,
    take: Callable[[Reject], None] | None = None,
    hasher: Callable[[], Any] | None = None,
) -> _Rows:
    """Read the rows of a file; those without a count, tag or time are left out."""
    bad: list[Reject] = []
    policy = "fail" if options.on_bad_row == "fail" else "skip"
    reader = RowReader(
        _layout(path, where, options),
        _CELLS,
        tables.ReadOptions(policy, hasher=hasher),
        take=bad.append,
    )
    cells = _cells(reader)
    value, quality, is_bad = _numbers(cells["values"])
    bad += _no_values(cells["values"], is_bad, bad)
    if bad and policy == "fail":
        raise bad_row(where, bad[0])
    for reject in sorted(bad, key=lambda one: one.line):
        if take is not None:
            take(reject)
    rows = _Rows(
        _integers(cells["count"]),
        _integers(cells["tag"]),
        np.array(cells["time"], dtype=np.int64),
        value,
        quality,
        reader.digest(),
        len(bad),
    )
    known = (rows.count >= 0) & (rows.tag >= 0) & (rows.time_ns != tables.NULL_STAMP_NS)
    return rows.take(known & ~is_bad)


def _numbers(texts: Sequence[str | None]) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Read the cells `value` or `value;quality`; say which are neither."""
    halves = [(text or "").partition(";") for text in texts]
    is_bad = np.array([not _is_values(half) for half in halves], dtype=np.bool_)
    value = np.full(len(halves), np.nan)
    quality = value.copy()
    for index, (first, _, second) in enumerate(halves):
        if first and not is_bad[index]:
            value[index] = float(first)
            quality[index] = float(second) if second else np.nan
    return value, quality, is_bad


def _is_values(half: tuple[str, str, str]) -> bool:
    first, mark, second = half
    if not mark:
        return not first or _NUMBER.match(first) is not None
    return _NUMBER.match(first) is not None and _NUMBER.match(second) is not None


def _cells(reader: RowReader) -> dict[str, list[Any]]:
    cells: dict[str, list[Any]] = {"count": [], "tag": [], "time": [], "values": []}
    for batch in reader.batches():
        valid = (
            np.ones(batch.stamps_ns.size, np.bool_) if batch.is_valid is None else batch.is_valid
        )
        cells["time"] += np.where(valid, batch.stamps_ns, tables.NULL_STAMP_NS).tolist()
        for cell in _CELLS:
            cells[cell.name] += batch.columns[cell.name].to_pylist()
    return cells


def _no_values(
    texts: Sequence[str | None], is_bad: BoolArray, before: Sequence[Reject]
) -> list[Reject]:
    """Name the cells that hold no number; the lines are those that were not bad before."""
    if not is_bad.any():
        return []
    known = [reject.line for reject in before]
    lines = np.setdiff1d(np.arange(2, 2 + len(texts) + len(known)), known)
    return [
        Reject(
            int(lines[row]),
            f"values is {texts[row]!r}, expected a number, or two with ;",
            str(texts[row]).encode(),
        )
        for row in np.flatnonzero(is_bad).tolist()
    ]


def _integers(values: Sequence[int | None]) -> IntArray:
    return np.array([-1 if value is None else value for value in values], dtype=np.int64)


# Long to wide -------------------------------------------------------------------------------------


def _columns(rows: _Rows) -> list[Column]:
    """Give a column for each tag of a file, and one for its quality where it has any."""
    columns = []
    for tag in np.unique(rows.tag).tolist():
        name, unit = _TAGS.get(tag, (f"tag_{tag}", None))
        columns.append(Column(name, "float64", str(tag), unit, fixed=True))
        if not np.isnan(rows.quality[rows.tag == tag]).all():
            columns.append(Column(_quality(name), "float64", str(tag), fixed=True))
    return columns


def _quality(name: str) -> str:
    return f"{name}_deviation" if name == "inter_pulse_interval" else f"{name}_quality"


def _widen(rows: _Rows, stream: str) -> _Wide:
    columns = _columns(rows)
    order = np.lexsort((rows.quality, rows.value, rows.tag, rows.count, rows.time_ns))
    rows = rows.take(order)
    again = _same(rows.time_ns, rows.count, rows.tag, rows.value, rows.quality)
    rows = rows.take(~again)
    turn = _turns(_same(rows.time_ns, rows.count, rows.tag))
    rows = rows.take(order := np.lexsort((turn, rows.count, rows.time_ns)))
    is_new = ~_same(rows.time_ns, rows.count, turn[order])
    row = np.cumsum(is_new) - 1
    data = np.full((int(is_new.sum()), len(columns)), np.nan)
    for index, column in enumerate(columns):
        mine = rows.tag == int(column.source_name)
        is_value = not column.name.endswith(("_quality", "_deviation"))
        data[row[mine], index] = (rows.value if is_value else rows.quality)[mine]
    count, time_ns = rows.count[is_new], rows.time_ns[is_new]
    spread = (
        _spread(time_ns, count, is_steady=stream == "sensors") if stream in _SPREAD else time_ns
    )
    return _Wide(
        spread, count, data, tuple(columns), tuple(_notes(int(again.sum()), count, stream))
    )


def _same(*keys: IntArray | FloatArray) -> BoolArray:
    """Say which rows are like the one before."""
    same = np.zeros(keys[0].size, np.bool_)
    same[1:] = True
    for key in keys:
        same[1:] &= (key[1:] == key[:-1]) | ((key[1:] != key[1:]) & (key[:-1] != key[:-1]))
    return same


def _turns(is_same: BoolArray) -> IntArray:
    """Count the rows of each run from 0."""
    index = np.arange(is_same.size)
    return index - np.maximum.accumulate(np.where(is_same, 0, index)) if index.size else index


def _spread(time_ns: IntArray, count: IntArray, *, is_steady: bool) -> IntArray:
    """Spread the rows of each second by their count.

    Parameters
    ----------
    is_steady : bool
        Rows come at one rate: a second that is cut keeps that rate, and lies at its end if the
        recording began in it.
    """
    if not time_ns.size:
        return time_ns
    seconds, first, which = np.unique(time_ns, return_index=True, return_inverse=True)
    last = np.append(first[1:], time_ns.size) - 1
    n_rows = np.maximum(1, count[last] - count[first] + 1)
    step, late = n_rows.copy(), np.zeros_like(n_rows)
    if is_steady:
        step = np.maximum(n_rows, int(np.median(n_rows)))
        follows = np.append(False, np.diff(seconds) == NS_PER_S)
        precedes = np.append(np.diff(seconds) == NS_PER_S, False)
        late = np.where(precedes & ~follows, step - n_rows, 0)
    place = count - count[first][which] + late[which]
    moved: IntArray = time_ns + place * NS_PER_S // step[which]
    return moved


def _notes(n_again: int, count: IntArray, stream: str) -> Iterator[str]:
    if n_again:
        yield f"{n_again} rows were sent twice and kept once"
    steps = np.diff(count)
    lost = steps[(steps > 1) & (steps < LARGEST_LOSS)] - 1
    if stream in _COUNTED and lost.size:
        yield f"{int(lost.sum())} counts are missing in {lost.size} places"
