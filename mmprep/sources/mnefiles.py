"""What is read through MNE: FIF, GDF, EEGLAB, Neuroscan and the others of `mneformats`.

Rules
-----
- `meas_date` is the start of the acquisition. The first stored sample comes `first_samp` samples
  later: that is where the stream begins, and annotations count from the former. In formats that
  have the time on the wall it is a local time like any other: a duration, or UTC by `--tz`.
- Rows that MNE fills in for a pause of the acquisition (`BAD_ACQ_SKIP`) are left out: a gap.
- Values are in the SI units of MNE; what MNE takes for volts without having a unit has none here.
- Samples are read block by block. Epochs are refused.
- What the file says of the person is never read.
"""

from __future__ import annotations

import re
import struct
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from mmprep import files, tables
from mmprep.errors import DataError, UsageError
from mmprep.sources import mneformats
from mmprep.sources.base import (
    NOTE_COLUMNS,
    NOTES,
    Claim,
    Finder,
    Looks,
    Start,
    TextOptions,
    file_of,
    note_rows,
    start_of,
    unix_ns,
)
from mmprep.tables.arrays import BLOCK_BYTES, ArrayTable, Rows
from mmprep.tables.schema import TimeColumn
from mmprep.tables.stamps import row_stamps
from mmprep.timebase import NS_PER_S, BoolArray, rate

READER = "mnefiles"
SIGNAL = "signal"
SKIP = "BAD_ACQ_SKIP"

# What a damaged file makes MNE and the packages below it raise.
_FAULTS = (
    *(ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, MemoryError),
    *(OSError, RuntimeError, SyntaxError, TypeError, ValueError, struct.error, zlib.error),
    ImportError,
)
_NEEDED = re.compile(r"to work, the (?:module )?(\w+)|^The (\w+) package")
_TRACE = re.compile(r'^File "[^"]*", line \d+.*?Error: ')
_HDF5_SET = "HDF reader for matlab v7.3"
_EXTRAS = {"h5py": "mmprep[mat73]", "pymatreader": "mmprep[mat73]"}


def claim(folder: str, names: Sequence[str], root: Path) -> list[Claim]:
    """Claim the recordings of a folder, each with the files that it needs."""
    return [
        Claim(READER, path, files, suffix)
        for path, files, suffix in mneformats.claimed(folder, names, root)
    ]


def streams(claim: Claim, root: Path, options: TextOptions) -> tuple[str, ...]:
    """Name the streams of a recording."""
    return (SIGNAL, NOTES)


def _find(claim: Claim, root: Path, options: TextOptions) -> Looks:
    path = file_of(root, claim.id_path)
    recording = _open(path, claim.id_path or str(root), options.tz)
    return {SIGNAL: partial(_signal, recording), NOTES: partial(_annotations, recording)}


def _signal(recording: _Recording) -> ArrayTable:
    raw = recording.raw
    columns = tables.declared(
        (label, unit, "float64") for label, unit in zip(raw.ch_names, _units(raw), strict=True)
    )
    time = TimeColumn("rate", "given", absolute=recording.start.absolute, tz=recording.start.tz)
    give = partial(_give, recording, [column.name for column in columns])
    return ArrayTable(columns, time, recording.rate_hz, give, recording.notes)


def _annotations(recording: _Recording) -> ArrayTable:
    time = TimeColumn("s", "given", absolute=recording.start.absolute, tz=recording.start.tz)
    return ArrayTable(NOTE_COLUMNS, time, None, partial(_give_notes, recording))


@dataclass(frozen=True, slots=True)
class _Recording:
    """An opened file; `start` is that of the acquisition."""

    where: str
    raw: Any
    rate_hz: Fraction
    start: Start
    notes: tuple[str, ...]

    @property
    def first_ns(self) -> int:
        """The time of the first stored sample."""
        return int(row_stamps(self.start.ns, self.rate_hz, np.array([self.raw.first_samp]))[0])

    @property
    def shift_ns(self) -> int:
        """What is added to a time of MNE."""
        when = self.raw.info["meas_date"]
        return 0 if when is None else self.start.ns - unix_ns(when)


def _open(path: Path, where: str, tz: str | None) -> _Recording:
    import mne

    form = mneformats.format_of(path)
    if form is None:
        raise DataError("is damaged, or of no format that MNE reads", where=where)
    if files.is_member(path):
        raise DataError(
            f"is of the format {form.name}, which MNE can't read inside an archive",
            where=where,
            hint="unpack the archive, and convert the folder",
        )
    if fault := form.fault(path):
        raise DataError(fault, where=where, hint="fetch it again")
    with _located(where) as notes:
        raw = _read(getattr(mne.io, f"read_raw_{form.reader}"), path, form)
    start = _start(raw.info["meas_date"], form, tz)
    return _Recording(
        where,
        raw,
        _rate(raw, where),
        start,
        (*notes, *([start.note] if start.note else [])),
    )


def _read(read: Callable[..., Any], path: Path, form: mneformats.Format) -> Any:
    options = {"preload": False, "verbose": "ERROR", **form.options}
    try:
        return read(path, **options)
    except RuntimeError:
        if not (more := form.more(path)):
            raise
        return read(path, **options, **more)


def _rate(raw: Any, where: str) -> Fraction:
    try:
        return rate(float(raw.info["sfreq"]), where=where)
    except UsageError as error:
        raise DataError(error.what, where=where, hint="is it damaged?") from error


def _start(when: datetime | None, form: mneformats.Format, tz: str | None) -> Start:
    if when is None or when == form.unknown:
        return Start(note="no start time; stamps count from the acquisition's")
    if form.clock == "utc":
        return Start(unix_ns(when), absolute=True)
    if form.clock == "zoneless":
        return Start(unix_ns(when), note="the zone of its start is not known: durations")
    # `machine`: MNE took the time on the wall for one of this machine's zone.
    local = when.astimezone() if form.clock == "machine" else when
    return start_of(local.replace(tzinfo=None), tz)


@contextmanager
def _located(where: str) -> Iterator[list[str]]:
    """Give errors their place, and warnings as notes once all is read; what is printed is lost."""
    from scipy.io.matlab import MatReadError

    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught, redirect_stdout(StringIO()):
        warnings.simplefilter("always")
        try:
            yield notes
        except (*_FAULTS, MatReadError) as error:
            raise _told(error, where) from error
    notes += dict.fromkeys(str(warning.message).split("\n")[0] for warning in caught)


def _told(error: BaseException, where: str) -> DataError:
    text = _TRACE.sub("", " ".join(str(error).split())) or type(error).__name__
    needed = _NEEDED.search(text)
    name = "pymatreader" if _HDF5_SET in text else (needed[1] or needed[2]) if needed else None
    if name is not None:
        hint = f"pip install '{_EXTRAS.get(name, name)}'"
        return DataError(f"needs the package {name}", where=where, hint=hint)
    if "number of trials" in text:
        return DataError("holds epochs, not one recording", where=where, hint="convert the raw one")
    return DataError(f"MNE cannot read it: {text}", where=where)


_UNITS = {1: "m", 101: "Hz", 107: "V", 109: "ohm", 110: "S", 112: "T", 114: "degC", 201: "T/m"}


def _units(raw: Any) -> list[str | None]:
    """Name the SI unit of each channel, by FIF's own number for it."""
    named = [_UNITS.get(int(channel["unit"])) for channel in raw.info["chs"]]
    has_unit = _HAS_UNIT.get(type(raw).__name__, lambda raw: [True] * len(named))(raw)
    return [unit if has else None for unit, has in zip(named, has_unit, strict=True)]


# Of GDF the scale tells whether the unit was one of volts; SNIRF's intensities have any unit.
_HAS_UNIT: Mapping[str, Callable[[Any], list[bool]]] = {
    "RawGDF": lambda raw: [scale != 1 for scale in raw._raw_extras[0]["units"]],
    "RawSNIRF": lambda raw: [False] * len(raw.ch_names),
}


def _give(
    recording: _Recording, names: Sequence[str], take: Callable[[Rows], None], notes: list[str]
) -> None:
    raw, first = recording.raw, recording.raw.first_samp
    step = max(1, BLOCK_BYTES // (8 * len(names)))
    for begin in range(0, raw.n_times, step):
        end = min(begin + step, raw.n_times)
        keep = _stored(recording, begin, end)
        with _located(recording.where) as said:
            data, _ = raw[:, begin:end]
        notes += [note for note in said if note not in notes]
        rows = np.arange(begin, end, dtype=np.int64)[keep] + first
        columns = dict(zip(names, data[:, keep], strict=True))
        take(Rows(row_stamps(recording.start.ns, recording.rate_hz, rows), columns))


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
    origin_ns = recording.first_ns
    if found.orig_time is not None:
        origin_ns = unix_ns(found.orig_time) + recording.shift_ns
    for onset, duration, text in zip(found.onset, found.duration, found.description, strict=True):
        yield origin_ns + round(float(onset) * NS_PER_S), float(duration), str(text)


_FINDER = Finder(_find)
probe = _FINDER.probe
write = _FINDER.write
read_stream = _FINDER.read_stream
