"""BrainVision: a header (.vhdr), samples (.eeg, .dat), markers (.vmrk).

Rules (BrainVision Core Data Format 1.0 and 2.0)
-----
- The three belong together by the names in the header; where a recording was renamed without
  its header, the files with the header's own stem are taken, and it is said.
- Values are digital ones times the channel's resolution, in the unit of the header (uV if none).
- A `New Segment` marker begins a stretch of its own, at the time that it names: what lies between
  two stretches is a gap. Where a time is missing, the stretch is laid 1 s after the one before.
- Times of markers are local ones without a zone.
- Markers are the stream `annotations`; a description is `type/text`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import partial
from pathlib import Path, PurePosixPath
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
    Start,
    TextOptions,
    beside,
    file_of,
    note_rows,
    start_of,
)
from mmprep.tables.arrays import BLOCK_BYTES, ArrayTable, Rows
from mmprep.tables.schema import TimeColumn
from mmprep.tables.stamps import row_stamps
from mmprep.timebase import NS_PER_S, IntArray

READER = "brainvision"
SUFFIXES = (".vhdr", ".ahdr")
SIGNAL = "signal"
LAID_APART_NS = NS_PER_S

_SIGNATURE = re.compile(rb"^(\xef\xbb\xbf)?Brain ?Vision Data Exchange Header File", re.IGNORECASE)
_TYPES = {"INT_16": "i2", "UINT_16": "u2", "INT_32": "i4", "IEEE_FLOAT_32": "f4"}
_UNITS = {"": "uV", "\u00b5V": "uV", "\u03bcV": "uV", "\u00b5S": "uS", "\u03bcS": "uS"}
_MARKER = re.compile(r"^Mk\d+$", re.IGNORECASE)


def claim(folder: str, names: Sequence[str], root: Path) -> list[Claim]:
    """Claim the recordings of a folder: header, samples and markers of each."""
    claims = []
    for name in sorted(names):
        path, suffix = beside(folder, name), PurePosixPath(name).suffix
        if suffix.lower() in SUFFIXES and _is_header(file_of(root, path)):
            others = [found for found in _others(file_of(root, path)) if found is not None]
            files = [beside(folder, other.name) for other in others]
            claims.append(Claim(READER, path, tuple(dict.fromkeys([path, *files])), suffix))
    return claims


def _is_header(path: Path) -> bool:
    with files.open_input(path) as file:
        return _SIGNATURE.match(file.read(64)) is not None


def streams(claim: Claim, root: Path, options: TextOptions) -> tuple[str, ...]:
    """Name the streams of a recording; only header and markers are looked for."""
    return _streams(_others(file_of(root, claim.id_path))[1])


def _streams(markers: Path | None) -> tuple[str, ...]:
    return (SIGNAL,) if markers is None else (SIGNAL, NOTES)


def _find(claim: Claim, root: Path, options: TextOptions) -> Looks:
    recording = _open(file_of(root, claim.id_path), claim.id_path)
    start = start_of(recording.local_start, options.tz)
    looks: Looks = {
        SIGNAL: partial(_signal, recording, start),
        NOTES: partial(_notes, recording, start),
    }
    return {stream: looks[stream] for stream in recording.streams}


def _signal(recording: _Recording, start: Start) -> ArrayTable:
    columns = tables.declared((c.label, c.unit, "float64") for c in recording.channels)
    notes = (*recording.notes, *([start.note] if start.note else []))
    time = TimeColumn("rate", "given", absolute=start.absolute, tz=start.tz)
    give = partial(_give, recording, start.ns, [column.name for column in columns])
    return ArrayTable(columns, time, recording.rate_hz, give, notes)


def _notes(recording: _Recording, start: Start) -> ArrayTable:
    time = TimeColumn("s", "given", absolute=start.absolute, tz=start.tz)
    return ArrayTable(NOTE_COLUMNS, time, None, partial(_give_notes, recording, start.ns))


# What the text files say --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Channel:
    label: str
    unit: str
    resolution: float


@dataclass(frozen=True, slots=True)
class _Marker:
    """A marker; `row` counts from 0."""

    kind: str
    text: str
    row: int
    n_rows: int
    when: datetime | None

    @property
    def is_segment(self) -> bool:
        return self.kind.lower() == "new segment"


@dataclass(frozen=True, slots=True)
class _Segment:
    """A stretch without a gap, ns after the start of the first one."""

    begin: int
    offset_ns: int


@dataclass(frozen=True, slots=True)
class _Recording:
    samples: Path
    channels: tuple[_Channel, ...]
    rate_hz: Fraction
    dtype: np.dtype[Any]
    is_multiplexed: bool
    n_rows: int
    markers: tuple[_Marker, ...]
    segments: tuple[_Segment, ...]
    local_start: datetime | None
    streams: tuple[str, ...]
    notes: tuple[str, ...]

    def stamps(self, rows: IntArray, start_ns: int) -> IntArray:
        """Give the stamps of rows [shape=(n,), int64, ns]."""
        begins = np.array([segment.begin for segment in self.segments])
        offsets = np.array([segment.offset_ns for segment in self.segments])
        which = np.searchsorted(begins, rows, side="right") - 1
        return start_ns + offsets[which] + row_stamps(0, self.rate_hz, rows - begins[which])


_Sections = Mapping[str, Mapping[str, str]]


def _sections(path: Path) -> _Sections:
    raw = files.read_input(path)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("cp1252", "replace")
    found: dict[str, dict[str, str]] = {}
    section: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip().strip("[]").lower(), {})
        elif "=" in line and not line.startswith(";"):
            key, _, value = line.partition("=")
            section.setdefault(key.strip().lower(), value.strip())
    return found


def _others(header: Path) -> tuple[Path | None, Path | None]:
    """Find the files of samples and markers."""
    common = _sections(header).get("common infos", {})
    samples = _companion(header, common.get("datafile", ""), (".eeg", ".dat"))
    return samples, _companion(header, common.get("markerfile", ""), (".vmrk", ".amrk"))


def _companion(header: Path, named: str, suffixes: tuple[str, ...]) -> Path | None:
    if not named:
        return None
    last = PurePosixPath(named.replace("$b", header.stem).replace("\\", "/")).name
    tries = [header.with_name(last), *(header.with_suffix(suffix) for suffix in suffixes)]
    return next((path for path in tries if files.is_file(path)), None)


def _open(header: Path, where: str) -> _Recording:
    sections = _sections(header)
    common, binary = sections.get("common infos", {}), sections.get("binary infos", {})
    samples, marks = _others(header)
    if samples is None:
        raise DataError(f"its samples {common.get('datafile')!r} are not there", where=where)
    _check_kind(common, where)
    channels = _channels(sections.get("channel infos", {}), common, where)
    dtype = _dtype(binary, where)
    markers = _markers(marks)
    n_rows, rest = divmod(files.stamp(samples).n_bytes, dtype.itemsize * len(channels))
    if n_rows == 0:
        raise DataError("holds no sample", where=str(samples))
    rate_hz = _rate_hz(common, where)
    segments, local_start, unknown = _segments(markers, rate_hz)
    notes = [
        *_renamed(common, samples),
        *([f"the last {rest} bytes are no whole row and were left out"] if rest else []),
        *_gaps(segments, rate_hz, unknown),
    ]
    return _Recording(
        samples,
        channels,
        rate_hz,
        dtype,
        common.get("dataorientation", "MULTIPLEXED").upper() != "VECTORIZED",
        n_rows,
        markers,
        segments,
        local_start,
        _streams(marks),
        tuple(notes),
    )


def _check_kind(common: Mapping[str, str], where: str) -> None:
    if common.get("dataformat", "BINARY").upper() != "BINARY":
        raise DataError("holds its samples as text", where=where, hint="export them as binary")
    if common.get("datatype", "TIMEDOMAIN").upper() != "TIMEDOMAIN":
        raise DataError("holds spectra, not samples", where=where)


def _channels(
    infos: Mapping[str, str], common: Mapping[str, str], where: str
) -> tuple[_Channel, ...]:
    n = common.get("numberofchannels", "")
    if not n.isdigit() or any(f"ch{k + 1}" not in infos for k in range(int(n))) or int(n) < 1:
        raise DataError(f"says NumberOfChannels={n}, and names {len(infos)}", where=where)
    return tuple(_channel(infos[f"ch{k + 1}"], k, where) for k in range(int(n)))


def _channel(text: str, index: int, where: str) -> _Channel:
    label, _, resolution, unit, *_ = [*text.split(","), "", "", ""]
    label = label.replace("\\1", ",") or f"channel_{index + 1}"
    try:
        return _Channel(label, _UNITS.get(unit.strip(), unit.strip()), float(resolution or 1))
    except ValueError as error:
        raise DataError(f"channel {label} has resolution {resolution!r}", where=where) from error


def _dtype(binary: Mapping[str, str], where: str) -> np.dtype[Any]:
    name = binary.get("binaryformat", "").upper()
    if name not in _TYPES:
        raise DataError(f"BinaryFormat is {name!r}, expected {', '.join(_TYPES)}", where=where)
    is_big = binary.get("usebigendianorder", "NO").upper() == "YES"
    return np.dtype(_TYPES[name]).newbyteorder(">" if is_big else "<")


def _rate_hz(common: Mapping[str, str], where: str) -> Fraction:
    text = common.get("samplinginterval", "")
    with suppress(ValueError):
        interval_us = Fraction(text.replace(",", "."))
        if interval_us > 0:
            return Fraction(1_000_000) / interval_us
    raise DataError(f"SamplingInterval is {text!r}, expected microseconds", where=where)


def _renamed(common: Mapping[str, str], samples: Path) -> list[str]:
    named = common.get("datafile", "")
    if PurePosixPath(named.replace("\\", "/")).name in {samples.name, f"$b{samples.suffix}"}:
        return []
    return [f"names {named!r}, which is not there; {samples.name} is taken for it"]


def _markers(path: Path | None) -> tuple[_Marker, ...]:
    if path is None:
        return ()
    infos = _sections(path).get("marker infos", {})
    return tuple(_marker(text) for key, text in infos.items() if _MARKER.match(key))


def _marker(text: str) -> _Marker:
    kind, said, row, n_rows, _, when, *_ = [*text.split(","), "", "", "", "", ""]
    return _Marker(
        kind.replace("\\1", ","),
        said.replace("\\1", ","),
        max(int(row) - 1, 0) if row.strip().isdigit() else 0,
        int(n_rows) if n_rows.strip().isdigit() else 0,
        _when(when),
    )


def _when(text: str) -> datetime | None:
    with suppress(ValueError):
        return datetime.strptime(text.strip(), "%Y%m%d%H%M%S%f")
    return None


def _segments(
    markers: Sequence[_Marker], rate_hz: Fraction
) -> tuple[tuple[_Segment, ...], datetime | None, int]:
    """Lay the stretches out; count those whose time is unknown."""
    begins = sorted((m for m in markers if m.is_segment), key=lambda marker: marker.row)
    found, unknown = [_Segment(0, 0)], 0
    first = begins[0].when if begins and begins[0].row == 0 else None
    for marker in begins:
        if marker.row <= found[-1].begin:
            continue
        n_rows = marker.row - found[-1].begin
        end_ns = found[-1].offset_ns + _span_ns(n_rows, rate_hz)
        offset = end_ns + LAID_APART_NS
        if first is not None and marker.when is not None:
            offset = start_of(marker.when, None).ns - start_of(first, None).ns
        else:
            unknown += 1
        found.append(_Segment(marker.row, offset))
    return tuple(found), first, unknown


def _span_ns(n_rows: int, rate_hz: Fraction) -> int:
    return int(row_stamps(0, rate_hz, np.array([n_rows]))[0])


def _gaps(segments: Sequence[_Segment], rate_hz: Fraction, unknown: int) -> list[str]:
    notes = []
    if len(segments) > 1:
        notes.append(f"has {len(segments) - 1} gaps, before each new segment")
    if unknown:
        notes.append(f"{unknown} segments have no time; each is laid 1 s after the one before")
    return notes


# Rows ---------------------------------------------------------------------------------------------


def _give(
    recording: _Recording,
    start_ns: int,
    names: Sequence[str],
    take: Callable[[Rows], None],
    notes: list[str],
) -> None:
    resolutions = [channel.resolution for channel in recording.channels]
    step = max(1, BLOCK_BYTES // (8 * len(names)))
    with files.open_input(recording.samples) as file:
        for begin in range(0, recording.n_rows, step):
            end = min(begin + step, recording.n_rows)
            data = _read(file, recording, begin, end).astype(np.float64) * resolutions
            stamps_ns = recording.stamps(np.arange(begin, end), start_ns)
            take(Rows(stamps_ns, dict(zip(names, data.T, strict=True))))


def _give_notes(
    recording: _Recording, start_ns: int, take: Callable[[Rows], None], notes: list[str]
) -> None:
    markers = recording.markers
    rows = np.array([marker.row for marker in markers], dtype=np.int64)
    seconds = [float(marker.n_rows / recording.rate_hz) for marker in markers]
    texts = [f"{marker.kind}/{marker.text}" for marker in markers]
    take(note_rows(recording.stamps(rows, start_ns), seconds, texts))


def _read(file: Any, recording: _Recording, begin: int, end: int) -> NDArray[Any]:
    """Read rows [shape=(end - begin, n_channels)]."""
    dtype, n = recording.dtype, len(recording.channels)
    if recording.is_multiplexed:
        file.seek(begin * n * dtype.itemsize)
        return _taken(file, dtype, (end - begin) * n, recording).reshape(-1, n)
    parts = []
    for k in range(n):
        file.seek((k * recording.n_rows + begin) * dtype.itemsize)
        parts.append(_taken(file, dtype, end - begin, recording))
    return np.stack(parts, axis=1)


def _taken(file: Any, dtype: np.dtype[Any], n: int, recording: _Recording) -> NDArray[Any]:
    data = file.read(n * dtype.itemsize)
    if len(data) < n * dtype.itemsize:
        raise DataError("became shorter while it was read", where=str(recording.samples))
    return np.frombuffer(data, dtype)


_FINDER = Finder(_find)
probe = _FINDER.probe
write = _FINDER.write
read_stream = _FINDER.read_stream
