"""European data format: EDF, EDF+C, EDF+D, BDF and BDF+.

Rules (Kemp 1992, Kemp and Olivan 2003, BioSemi's BDF)
-----
- Each channel keeps its own rate: the channels of one rate are one stream.
- A sample is at record start + i / rate. Records follow each other without a break in EDF and in
  EDF+C; in EDF+D each one is where its first annotation says, and what lies between is a gap.
  An EDF+C file whose annotations say otherwise is believed to have gaps, too, and it is said.
- The header's start is local time without a zone; annotations refine it to fractions of a second.
- Values are physical ones in the unit of the header. Channels that count in whole units (triggers)
  stay integers.
- The number of records is what the file holds, not what the header says.
- Names, birth dates and equipment of the header are never read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmprep import files, tables
from mmprep.errors import DataError
from mmprep.sources.base import (
    NOTE_COLUMNS,
    NOTES,
    Claim,
    Finder,
    Looks,
    TextOptions,
    file_claims,
    file_of,
    note_rows,
    rate_names,
    start_of,
)
from mmprep.tables.arrays import BLOCK_BYTES, ArrayTable, Rows
from mmprep.tables.schema import Column, TimeColumn
from mmprep.tables.stamps import row_stamps
from mmprep.timebase import NS_PER_S, IntArray

READER = "edf"
SUFFIXES = (".edf", ".bdf", ".rec")
FIXED_BYTES = 256
JITTER_NS = 1_000_000  # onsets of a continuous file may be rounded to so much

_VERSIONS = {b"0       ": 2, b"\xffBIOSEMI": 3}  # first bytes -> bytes a sample
_TRIGGERS = {"status", "trigger"}  # bits, whatever calibration the header gives them
_NOTE_LABELS = ("EDF Annotations", "BDF Annotations")
_FIELDS = {  # of each channel: bytes before it, width
    "label": (0, 16),
    "unit": (96, 8),
    "physical_min": (104, 8),
    "physical_max": (112, 8),
    "digital_min": (120, 8),
    "digital_max": (128, 8),
    "n_samples": (216, 8),
}
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_START_DATE = re.compile(r"^Startdate (\d{1,2})-([A-Z]{3})-(\d{4})\b", re.IGNORECASE)
_ONSET = re.compile(rb"^([+-]\d+(?:\.\d*)?)(?:\x15(\d+(?:\.\d*)?))?$")
_UNITS = {"\u00b5V": "uV", "\u03bcV": "uV"}  # micro sign, Greek mu


@dataclass(frozen=True, slots=True)
class _Channel:
    """One channel of a record.

    Parameters
    ----------
    begin, n_samples : int
        Where its samples lie in a record, counted in samples.
    low, high : (digital, physical)
        Two points of the straight line of its calibration; None where the header has none.
    """

    label: str
    unit: str | None
    begin: int
    n_samples: int
    low: tuple[int, float] | None
    high: tuple[int, float] | None

    @property
    def is_notes(self) -> bool:
        return self.label in _NOTE_LABELS

    @property
    def is_whole(self) -> bool:
        """Whether the digital values are the physical ones."""
        return all(point is None or point[0] == point[1] for point in (self.low, self.high))

    def physical(self, digital: NDArray[np.int32]) -> NDArray[Any]:
        """Give physical values: low + (digital - digital low) * gain."""
        if self.is_whole or self.low is None or self.high is None:
            return digital.astype(np.int64)
        (digital_low, low), (digital_high, high) = self.low, self.high
        gain = (high - low) / (digital_high - digital_low)
        return (digital.astype(np.float64) - digital_low) * gain + low


@dataclass(frozen=True, slots=True)
class _File:
    """What the header says, and how much there is."""

    path: Path
    where: str
    channels: tuple[_Channel, ...]
    sample_bytes: int
    header_bytes: int
    n_records: int
    record_ns: int
    is_broken_up: bool
    local_start: datetime | None
    notes: tuple[str, ...]

    @property
    def record_bytes(self) -> int:
        return sum(channel.n_samples for channel in self.channels) * self.sample_bytes

    @property
    def signals(self) -> tuple[_Channel, ...]:
        return tuple(channel for channel in self.channels if not channel.is_notes)

    @property
    def note_channels(self) -> tuple[_Channel, ...]:
        return tuple(channel for channel in self.channels if channel.is_notes)

    def rate_hz(self, channel: _Channel) -> Fraction:
        return Fraction(channel.n_samples * NS_PER_S, self.record_ns)

    def groups(self) -> dict[str, tuple[_Channel, ...]]:
        """Stream -> its channels, those of one rate."""
        names = rate_names(map(self.rate_hz, self.signals))
        groups: dict[str, tuple[_Channel, ...]] = {}
        for channel in self.signals:
            name = names[self.rate_hz(channel)]
            groups[name] = (*groups.get(name, ()), channel)
        return groups

    def streams(self) -> tuple[str, ...]:
        return (*self.groups(), *((NOTES,) if self.note_channels else ()))


def claim(folder: str, names: Sequence[str], root: Path) -> list[Claim]:
    """Claim the EDF and BDF files of a folder."""
    return file_claims(READER, folder, names, root, suffixes=SUFFIXES, knows=is_edf)


def is_edf(path: Path) -> bool:
    """Say whether a file begins with the header of EDF or BDF."""
    with files.open_input(path) as file:
        head = file.read(FIXED_BYTES)
    if head[:8] not in _VERSIONS or len(head) < FIXED_BYTES:
        return False
    n_bytes, n_channels = head[184:192].strip(), head[252:256].strip()
    return (
        n_bytes.isdigit() and n_channels.isdigit() and _head_bytes(int(n_channels)) == int(n_bytes)
    )


def _head_bytes(n_channels: int) -> int:
    return FIXED_BYTES * (n_channels + 1)


def _find(claim: Claim, root: Path, options: TextOptions) -> Looks:
    """Find the streams of a file; only its header is read."""
    (name,) = claim.files
    file = _read_header(file_of(root, name), name, options)
    return {stream: partial(_table, file, stream, options) for stream in file.streams()}


def _table(file: _File, stream: str, options: TextOptions) -> ArrayTable:
    start = start_of(file.local_start, options.tz)
    time = TimeColumn("rate", "given", absolute=start.absolute, tz=start.tz)
    notes = (*file.notes, *([start.note] if start.note else []))
    channels = file.groups().get(stream)
    if channels is None:
        give = partial(_give_notes, file, start.ns)
        return ArrayTable(NOTE_COLUMNS, replace(time, unit="s"), None, give, notes)
    give = partial(_give, file, start.ns, channels)
    return ArrayTable(_columns(channels), time, file.rate_hz(channels[0]), give, notes)


def _columns(channels: Sequence[_Channel]) -> tuple[Column, ...]:
    return tables.declared(
        (channel.label, channel.unit, "int64" if channel.is_whole else "float64")
        for channel in channels
    )


# The header ---------------------------------------------------------------------------------------


def _read_header(path: Path, where: str, options: TextOptions) -> _File:
    if not is_edf(path):
        raise DataError("no header of EDF or BDF", where=where)
    with files.open_input(path) as file:
        fixed = file.read(FIXED_BYTES)
        n_channels = int(fixed[252:256])
        raw = file.read(FIXED_BYTES * n_channels)
    if len(raw) < FIXED_BYTES * n_channels:
        raise DataError("ends within its header", where=where)
    channels, notes = _channels(raw, n_channels, where)
    sample_bytes = _VERSIONS[fixed[:8]]
    record_bytes = sum(channel.n_samples for channel in channels) * sample_bytes
    n_records, said = _n_records(path, fixed, record_bytes, where)
    return _File(
        path,
        where,
        channels,
        sample_bytes,
        _head_bytes(n_channels),
        n_records,
        _record_ns(fixed, channels, options, where),
        fixed[192:197].decode("latin-1") in {"EDF+D", "BDF+D"},
        _local_start(fixed),
        (*notes, *said),
    )


def _channels(raw: bytes, n: int, where: str) -> tuple[tuple[_Channel, ...], list[str]]:
    cells = {key: _cells(raw, n, *place) for key, place in _FIELDS.items()}
    channels: list[_Channel] = []
    notes, begin = [], 0
    for k in range(n):
        cell = {key: values[k] for key, values in cells.items()}
        n_samples = int(cell["n_samples"]) if cell["n_samples"].isdigit() else -1
        if n_samples < 0:
            raise DataError(
                f"channel {k + 1} has {cell['n_samples']!r} samples a record", where=where
            )
        low, high = _calibration(cell)
        label = cell["label"] or f"channel_{k + 1}"
        if label.lower() in _TRIGGERS:
            low = high = None
        elif low is None and label not in _NOTE_LABELS:
            notes.append(f"{label} has no calibration, its digital values are kept")
        unit = _UNITS.get(cell["unit"], cell["unit"]) if low is not None else None
        if n_samples:
            channels.append(_Channel(label, unit or None, begin, n_samples, low, high))
        begin += n_samples
    return tuple(channels), notes


def _cells(raw: bytes, n: int, before: int, width: int) -> list[str]:
    places = range(before * n, (before + width) * n, width)
    return [_text(raw[at : at + width]) for at in places]


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8").strip(" \0")
    except UnicodeDecodeError:
        return raw.decode("latin-1").strip(" \0")


_Point = tuple[int, float]


def _calibration(cell: dict[str, str]) -> tuple[_Point, _Point] | tuple[None, None]:
    try:
        low = (int(float(cell["digital_min"])), _number(cell["physical_min"]))
        high = (int(float(cell["digital_max"])), _number(cell["physical_max"]))
    except (ValueError, OverflowError):
        return None, None
    return (low, high) if low[0] != high[0] and low[1] != high[1] else (None, None)


def _number(text: str) -> float:
    number = float(text.replace(",", "."))
    if not np.isfinite(number):
        raise ValueError(text)
    return number


def _n_records(path: Path, fixed: bytes, n_bytes: int, where: str) -> tuple[int, list[str]]:
    """Count the whole records of the file."""
    left = files.stamp(path).n_bytes - _head_bytes(int(fixed[252:256]))
    n_records, rest = divmod(max(left, 0), n_bytes) if n_bytes else (0, 0)
    if n_records == 0:
        raise DataError("holds no data record", where=where, hint="leave it out with --exclude")
    notes = []
    declared = _text(fixed[236:244])
    if declared not in {str(n_records), "-1"}:
        notes.append(f"{n_records} records, the header says {declared}; what is there counts")
    if rest:
        notes.append(f"the last {rest} bytes are no whole record and were left out")
    return n_records, notes


def _record_ns(fixed: bytes, channels: Sequence[_Channel], options: TextOptions, where: str) -> int:
    """Give the duration of a record, whole nanoseconds: the header has eight characters for it."""
    text = _text(fixed[244:252]).replace(",", ".")
    try:
        record_ns = round(Fraction(text) * NS_PER_S)
    except (ValueError, ZeroDivisionError):
        record_ns = -1
    signals = [channel for channel in channels if not channel.is_notes]
    if record_ns <= 0 and signals and options.rate_hz is not None:
        return round(signals[0].n_samples / options.rate_hz * NS_PER_S)
    if record_ns <= 0 and signals:
        raise DataError(f"a record lasts {text!r} s", where=where, hint="give --rate HZ")
    return max(record_ns, 0)


def _local_start(fixed: bytes) -> datetime | None:
    date = re.findall(r"\d+", _text(fixed[168:176]))
    time = re.findall(r"\d+", _text(fixed[176:184]))
    plus = _START_DATE.match(_text(fixed[88:168]))
    with suppress(ValueError):
        hour, minute, second = map(int, time)
        if plus is not None and plus[2].upper() in _MONTHS:
            month = _MONTHS.index(plus[2].upper()) + 1
            return datetime(int(plus[3]), month, int(plus[1]), hour, minute, second)
        day, month, year = map(int, date)
        return datetime(year + (1900 if year >= 85 else 2000), month, day, hour, minute, second)
    return None


# Records ------------------------------------------------------------------------------------------

_Records = NDArray[np.uint8]


def _give(
    file: _File,
    start_ns: int,
    channels: tuple[_Channel, ...],
    take: Callable[[Rows], None],
    notes: list[str],
) -> None:
    """Give the samples of channels of one rate."""
    within = row_stamps(0, file.rate_hz(channels[0]), np.arange(channels[0].n_samples))
    clock = _Clock(file, start_ns)
    for records in _records(file):
        starts = clock.starts(len(records), _onsets(file, records))
        columns = {
            column.name: channel.physical(
                _digital(_part(file, records, channel), file.sample_bytes)
            )
            for column, channel in zip(_columns(channels), channels, strict=True)
        }
        take(Rows((starts[:, None] + within).reshape(-1), columns))
    notes += clock.notes()


def _give_notes(file: _File, start_ns: int, take: Callable[[Rows], None], notes: list[str]) -> None:
    for records in _records(file):
        found = [
            note
            for record in records
            for channel in file.note_channels
            for note in _notes(_part(file, record[None], channel).tobytes())
        ]
        stamps_ns = np.array([start_ns + onset for onset, _, _ in found], dtype=np.int64)
        take(note_rows(stamps_ns, [note[1] for note in found], [note[2] for note in found]))


def _records(file: _File) -> Iterator[_Records]:
    """Read the records, some at a time [shape=(n, record_bytes)]."""
    step = max(1, BLOCK_BYTES // file.record_bytes)
    with files.open_input(file.path) as raw:
        raw.seek(file.header_bytes)
        for begin in range(0, file.n_records, step):
            n = min(step, file.n_records - begin)
            data = raw.read(n * file.record_bytes)
            if len(data) < n * file.record_bytes:
                raise DataError("became shorter while it was read", where=file.where)
            yield np.frombuffer(data, np.uint8).reshape(n, file.record_bytes)


def _part(file: _File, records: _Records, channel: _Channel) -> _Records:
    width = file.sample_bytes
    return records[:, channel.begin * width : (channel.begin + channel.n_samples) * width]


def _onsets(file: _File, records: _Records) -> list[int | None]:
    """Give what each record says of its own begin, ns after the file's start."""
    if not file.note_channels:
        return []
    part = _part(file, records, file.note_channels[0])
    return [_own_onset(record.tobytes()) for record in part]


def _digital(part: _Records, sample_bytes: int) -> NDArray[np.int32]:
    """Give little-endian integers of two or three bytes."""
    if sample_bytes == 2:
        return np.ascontiguousarray(part).view("<i2").reshape(-1).astype(np.int32)
    padded = np.zeros((part.size // 3, 4), np.uint8)
    padded[:, 1:] = part.reshape(-1, 3)
    return padded.view("<i4").reshape(-1) >> 8


class _Clock:
    """Where records begin."""

    def __init__(self, file: _File, start_ns: int) -> None:
        self._file, self._start_ns = file, start_ns
        self._next_ns: int | None = None
        rates = [file.rate_hz(channel) for channel in file.signals]
        half = float(NS_PER_S / max(rates) / 2) if rates else 0.0
        self._slack_ns = 0 if file.is_broken_up else max(half, JITTER_NS)
        self._gap_ns = 3 * half
        self._gaps: list[int] = []
        self._n_back = self._n_silent = 0

    def starts(self, n_records: int, onsets: list[int | None]) -> IntArray:
        """Give the start of each record [shape=(n_records,), int64, ns]."""
        told: Sequence[int | None] = onsets or [None] * n_records
        self._n_silent += sum(onset is None for onset in onsets)
        return np.array([self._start_of(onset) for onset in told], dtype=np.int64)

    def _start_of(self, onset: int | None) -> int:
        expected = self._next_ns
        own = None if onset is None else self._start_ns + onset
        if expected is None:
            start = self._start_ns if own is None else own
        elif own is None or abs(own - expected) <= self._slack_ns:
            start = expected
        else:
            start = own
            self._note(own - expected)
        self._next_ns = start + self._file.record_ns
        return start

    def _note(self, jump_ns: int) -> None:
        if jump_ns > self._gap_ns:
            self._gaps.append(jump_ns)
        elif jump_ns < -self._gap_ns:
            self._n_back += 1

    def notes(self) -> list[str]:
        """Say what is odd about the records."""
        said = []
        if self._gaps:
            kind = "" if self._file.is_broken_up else "says that it has none, but "
            said.append(
                f"{kind}has {len(self._gaps)} gaps, {sum(self._gaps) / NS_PER_S:g} s in all"
            )
        if self._n_back:
            said.append(f"{self._n_back} records begin before the end of the one before")
        if self._n_silent:
            said.append(f"{self._n_silent} records don't say when they begin")
        return said


# Annotations --------------------------------------------------------------------------------------


def _lists(raw: bytes) -> Iterator[tuple[int, float | None, list[bytes]]]:
    """Cut time-stamped annotation lists: +onset [0x15 duration] 0x14 text 0x14 ... 0x00."""
    for part in raw.split(b"\0"):
        head, *texts = part.split(b"\x14")
        found = _ONSET.match(head)
        if found is not None and texts:
            duration = float(found[2]) if found[2] else None
            yield round(Fraction(found[1].decode()) * NS_PER_S), duration, texts


def _own_onset(raw: bytes) -> int | None:
    """Give the onset of the first list, whose first text is empty: that of the record."""
    onset, _, texts = next(_lists(raw), (0, None, [b"?"]))
    return None if texts[0] else onset


def _notes(raw: bytes) -> Iterator[tuple[int, float | None, str]]:
    for onset, duration, texts in _lists(raw):
        for text in texts:
            if text:
                yield onset, duration, text.decode("utf-8", "replace")


_FINDER = Finder(_find)
streams = _FINDER.streams
probe = _FINDER.probe
write = _FINDER.write
read_stream = _FINDER.read_stream
