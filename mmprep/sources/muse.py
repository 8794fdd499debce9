"""Muse: the CSV of the app Mind Monitor.

Rules
-----
- One header, then a row at each sample of the EEG (or each interval that the app was set to). The
  time is local, with milliseconds and without a zone; rows come in packets.
- Rows of samples end before the column `Elements`. Rows of happenings (`/muse/elements/blink`,
  `/Marker/1`) hold it alone: they are the stream `elements`.
- The other columns are streams by kind: `eeg`, `bands`, `motion`, `ppg`, `status`. The app repeats
  the slower ones at the rate of the EEG; the file doesn't say which values are new.
- The file names no rate. Rows in packets come at that of the device, 256 Hz (220 Hz before 2016),
  where their stamps are within a quarter of it; other rows are measured.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from mmprep import tables
from mmprep.errors import DataError
from mmprep.sources.base import (
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
from mmprep.tables.schema import Column
from mmprep.tables.text import Padding, TextTable
from mmprep.timebase import NS_PER_S, bursts_of, period_of

READER = "muse"
SUFFIXES = (".csv",)
HEAD_BYTES = 64 << 10
TIME, ELEMENTS = "TimeStamp", "Elements"
DEVICE_RATES = (256, 220)
RATE_TOLERANCE = 0.25  # half a second of packets says no more

_STREAMS = {
    "eeg": re.compile(r"^(RAW|AUX)(_|\d|$)"),
    "bands": re.compile(r"^(Delta|Theta|Alpha|Beta|Gamma)_"),
    "motion": re.compile(r"^(Accelerometer|Gyro)_"),
    "ppg": re.compile(r"^(PPG_|Heart_Rate$)"),
    "elements": re.compile(rf"^{ELEMENTS}$"),
    "status": re.compile(""),
}
_UNITS = {
    "RAW": "uV",
    "AUX": "uV",
    "Accelerometer": "g",
    "Gyro": "deg/s",
    "Heart": "bpm",
    "Battery": "%",
    **dict.fromkeys(("Delta", "Theta", "Alpha", "Beta", "Gamma"), "B"),
}
_MODEL = re.compile(r"/muse/event/connected (Muse\w*)")


def claim(folder: str, names: Sequence[str], root: Path) -> list[Claim]:
    """Claim the files of a folder that Mind Monitor wrote."""
    return file_claims(READER, folder, names, root, suffixes=SUFFIXES, knows=is_ours)


def is_ours(path: Path) -> bool:
    """Say whether the header is that of Mind Monitor."""
    return _header(first_lines(path)) is not None


def device(path: Path, stream: str = "") -> str | None:
    """Name the model, where the app noted it, without its address."""
    found = _MODEL.search("\n".join(first_lines(path, HEAD_BYTES)))
    return found[1] if found else None


def _header(lines: Sequence[str]) -> list[str] | None:
    names = [name.strip() for name in lines[0].split(",")] if lines else []
    is_ours = names[:1] == [TIME] and any(_STREAMS["bands"].match(name) for name in names)
    return names if is_ours and len(set(names)) == len(names) else None


def _find(claim: Claim, root: Path, options: TextOptions) -> Looks:
    """Find the streams that the header of a file has."""
    (name,) = claim.files
    path = file_of(root, name)
    lines = first_lines(path, HEAD_BYTES)
    names = _header(lines)
    if names is None:
        raise DataError(f"no header of Mind Monitor ({TIME},Delta_TP9,…)", where=name)
    layout, judged = _timed(path, name, lines, options)
    rate_hz, note = (options.rate_hz, None) if options.rate_hz else _device_rate(lines)
    notes = tuple(said for said in (judged.note, note) if said)
    return {
        stream: partial(
            TextTable,
            layout,
            tuple(_column(channel) for channel in own),
            judged.time,
            rate_hz=rate_hz if stream != "elements" else None,
            irregular=stream == "elements",
            kind="events" if stream == "elements" else "signal",
            mend=Padding(",", len(names)) if names[-1] == ELEMENTS else None,
            filled_only=True,
            notes=notes,
        )
        for stream, own in _groups(names).items()
    }


def _timed(
    path: Path, where: str, lines: Sequence[str], options: TextOptions
) -> tuple[tables.Layout, stamps.Judged]:
    texts = tuple(line.partition(",")[0] for line in lines[1:-1] if line)
    layout = tables.Layout(
        path,
        where,
        cells=tuple(_header(lines) or ()),
        delimiter=",",
        n_preamble=1,
        header=lines[0].encode(),
        nulls=nulls_of(options),
        time_cell=0,
        stamps=stamps.stamp_reader("iso", texts, tz=options.tz),
    )
    return layout, stamps.judge(TIME, texts, unit="iso", tz=options.tz)


def _device_rate(lines: Sequence[str]) -> tuple[Fraction | None, str | None]:
    """Know the rate by the packets at the head of a file; None where there are none."""
    rows = (line.split(",") for line in lines[1:-1])
    found = (stamps.parse_ns(row[0], "iso") for row in rows if any(row[1:-1]))
    stamps_ns = np.array([stamp for stamp in found if stamp is not None], dtype=np.int64)
    period_ns = period_of(stamps_ns)
    if math.isnan(period_ns) or not bursts_of(stamps_ns, period_ns).size:
        return None, None
    measured_hz = NS_PER_S / period_ns
    near = min(DEVICE_RATES, key=lambda rate: abs(measured_hz - rate))
    if abs(measured_hz / near - 1) > RATE_TOLERANCE:
        return None, None
    return Fraction(near), f"rate taken as {near} Hz, the device's; --rate says otherwise"


def _groups(names: Sequence[str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name in names[1:]:
        stream = next(stream for stream, pattern in _STREAMS.items() if pattern.match(name))
        groups.setdefault(stream, []).append(name)
    return groups


def _column(name: str) -> Column:
    kind = "string" if name == ELEMENTS else "float64"
    return Column(name, kind, name, _UNITS.get(name.partition("_")[0]), fixed=True)


_FINDER = Finder(_find, main="eeg", device=device)
streams = _FINDER.streams
probe = _FINDER.probe
write = _FINDER.write
device_of = _FINDER.device_of
read_stream = _FINDER.read_stream
