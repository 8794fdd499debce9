"""Neuromag FIF, read through MNE.

Rules
-----
- A file is taken if its first blocks announce raw data; epochs, averages and forward models are
  not. The further parts of a recording that was split go with its first one.
- `meas_date` is the start of the acquisition in UTC. The first stored sample comes `first_samp`
  samples later: that is where the stream begins, and annotations count from the former.
- Rows that MNE fills in for a pause of the acquisition (`BAD_ACQ_SKIP`) are left out: a gap.
- Values are in the SI units of MNE. Samples are read block by block.
- What the file says of the person is never read.
"""

from __future__ import annotations

import gzip
import re
import struct
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mmprep import files, tables
from mmprep.errors import DataError
from mmprep.sources.base import (
    NOTE_COLUMNS,
    NOTES,
    Claim,
    Finder,
    Looks,
    TextOptions,
    beside,
    file_of,
    note_rows,
    unix_ns,
)
from mmprep.tables.arrays import BLOCK_BYTES, ArrayTable, Rows
from mmprep.tables.schema import TimeColumn
from mmprep.tables.stamps import row_stamps
from mmprep.timebase import NS_PER_S, BoolArray, rate

READER = "mnefiles"
SUFFIXES = (".fif", ".fif.gz")
SIGNAL = "signal"
SKIP = "BAD_ACQ_SKIP"
MAX_TAGS = 20_000

_FILE_ID, _BLOCK_START = 100, 104
_RAW_BLOCKS = {102, 112, 119}  # raw data, continuous data, data of an internal active shielding
_PART = re.compile(r"^(?P<stem>.+?)(?:-(?P<plain>[1-9]\d*)|_split-(?P<bids>\d+)(?P<end>_[a-z]+)?)$")


def claim(folder: str, names: Sequence[str], root: Path) -> list[Claim]:
    """Claim the raw FIF files of a folder, each with the parts that follow it."""
    ours = [name for name in sorted(names) if _suffix(name)]
    firsts = {name: _first_of(name, ours) for name in ours}
    claims = []
    for name in ours:
        path = beside(folder, name)
        if firsts[name] == name and is_raw(file_of(root, path)):
            parts = [beside(folder, n) for n in ours if firsts[n] == name and n != name]
            claims.append(Claim(READER, path, (path, *parts), _suffix(name)))
    return claims


def _suffix(name: str) -> str:
    return next((name[-len(end) :] for end in SUFFIXES if name.lower().endswith(end)), "")


def _first_of(name: str, names: Sequence[str]) -> str:
    """Name the first part of a recording that was split at 2 GB."""
    suffix = _suffix(name)
    found = _PART.match(name.removesuffix(suffix))
    if found is None:
        return name
    whole = f"{found['stem']}{suffix}"
    if found["bids"]:
        whole = f"{found['stem']}_split-{'1'.zfill(len(found['bids']))}{found['end'] or ''}{suffix}"
    return whole if whole in names else name


def is_raw(path: Path) -> bool:
    """Say whether a file is FIF and announces raw data."""
    is_packed = path.name.lower().endswith(".gz")
    try:
        with files.open_input(path) as raw:
            return _announces_raw(gzip.GzipFile(fileobj=raw) if is_packed else raw)
    except (OSError, EOFError, DataError):
        return False


def _announces_raw(file: Any) -> bool:
    for index in range(MAX_TAGS):
        head = file.read(16)
        if len(head) < 16:
            return False
        kind, type_, size, following = struct.unpack(">4i", head)
        if index == 0 and (kind, type_, size) != (_FILE_ID, 31, 20):
            return False
        if kind == _BLOCK_START and size == 4:
            (block,) = struct.unpack(">i", file.read(4))
            if block in _RAW_BLOCKS:
                return True
        elif size < 0:
            return False
        else:
            file.seek(size, 1)
        if following > 0:
            file.seek(following)
        elif following < 0:
            return False
    return False


def streams(claim: Claim, root: Path, options: TextOptions) -> tuple[str, ...]:
    """Name the streams of a recording."""
    return (SIGNAL, NOTES)


def _find(claim: Claim, root: Path, options: TextOptions) -> Looks:
    recording = _open(file_of(root, claim.id_path), claim.id_path)
    return {SIGNAL: partial(_signal, recording), NOTES: partial(_annotations, recording)}


def _signal(recording: _Recording) -> ArrayTable:
    raw = recording.raw
    columns = tables.declared(
        (label, unit, "float64") for label, unit in zip(raw.ch_names, _units(raw), strict=True)
    )
    time = TimeColumn("rate", "given", absolute=recording.absolute)
    give = partial(_give, recording, [column.name for column in columns])
    return ArrayTable(columns, time, recording.rate_hz, give, recording.notes)


def _annotations(recording: _Recording) -> ArrayTable:
    time = TimeColumn("s", "given", absolute=recording.absolute)
    return ArrayTable(NOTE_COLUMNS, time, None, partial(_give_notes, recording))


@dataclass(frozen=True, slots=True)
class _Recording:
    """An opened file; `start_ns` is that of the acquisition."""

    where: str
    raw: Any
    rate_hz: Fraction
    start_ns: int
    absolute: bool
    notes: tuple[str, ...]

    @property
    def first_ns(self) -> int:
        """The time of the first stored sample."""
        return int(row_stamps(self.start_ns, self.rate_hz, np.array([self.raw.first_samp]))[0])


def _open(path: Path, where: str) -> _Recording:
    import mne

    if files.is_member(path):
        raise DataError(
            "is a FIF file, which MNE can't read inside an archive",
            where=where,
            hint="unpack the archive, and convert the folder",
        )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with _located(where):
            raw = mne.io.read_raw_fif(path, allow_maxshield=True, preload=False, verbose="ERROR")
    notes = [str(warning.message).split("\n")[0] for warning in caught]
    when = raw.info["meas_date"]
    if when is None:
        notes.append("no start time; stamps count from the acquisition's")
    return _Recording(
        where,
        raw,
        rate(float(raw.info["sfreq"]), where=where),
        0 if when is None else unix_ns(when),
        when is not None,
        tuple(notes),
    )


@contextmanager
def _located(where: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, OSError, RuntimeError, KeyError, struct.error) as error:
        raise DataError(f"MNE cannot read it: {error}", where=where) from error


_UNITS = {1: "m", 101: "Hz", 107: "V", 109: "ohm", 110: "S", 112: "T", 114: "degC", 201: "T/m"}


def _units(raw: Any) -> list[str | None]:
    """Name the SI unit of each channel, by FIF's own number for it."""
    return [_UNITS.get(int(channel["unit"])) for channel in raw.info["chs"]]


def _give(
    recording: _Recording, names: Sequence[str], take: Callable[[Rows], None], notes: list[str]
) -> None:
    raw, first = recording.raw, recording.raw.first_samp
    step = max(1, BLOCK_BYTES // (8 * len(names)))
    for begin in range(0, raw.n_times, step):
        end = min(begin + step, raw.n_times)
        keep = _stored(recording, begin, end)
        with _located(recording.where):
            data, _ = raw[:, begin:end]
        rows = np.arange(begin, end, dtype=np.int64)[keep] + first
        columns = dict(zip(names, data[:, keep], strict=True))
        take(Rows(row_stamps(recording.start_ns, recording.rate_hz, rows), columns))


def _give_notes(recording: _Recording, take: Callable[[Rows], None], notes: list[str]) -> None:
    found = list(_notes(recording))
    stamps_ns = np.array([onset_ns for onset_ns, _, _ in found], np.int64)
    take(note_rows(stamps_ns, [note[1] for note in found], [note[2] for note in found]))


def _stored(recording: _Recording, begin: int, end: int) -> BoolArray:
    """Say which rows were acquired [shape=(end - begin,)]."""
    keep = np.ones(end - begin, dtype=np.bool_)
    rate_hz = float(recording.rate_hz)
    for onset_ns, duration_s, text in _notes(recording):
        if text == SKIP:
            low = round((onset_ns - recording.first_ns) / NS_PER_S * rate_hz) - begin
            keep[max(low, 0) : max(low + round(duration_s * rate_hz), 0)] = False
    return keep


def _notes(recording: _Recording) -> Iterator[tuple[int, float, str]]:
    found = recording.raw.annotations
    origin_ns = recording.first_ns if found.orig_time is None else unix_ns(found.orig_time)
    for onset, duration, text in zip(found.onset, found.duration, found.description, strict=True):
        yield origin_ns + round(float(onset) * NS_PER_S), float(duration), str(text)


_FINDER = Finder(_find)
probe = _FINDER.probe
write = _FINDER.write
read_stream = _FINDER.read_stream
