"""Shimmer: text exported by Consensys, one row a sample.

Rules
-----
- A line `"sep=;"` (with quotes, any delimiter, may be absent), a line of names
  `<device>_<channel>_<CAL|UNCAL|RAW>`, a line of units; CRLF, and a delimiter at the end of lines.
- The time is `<device>_Timestamp_Unix_CAL`, Unix milliseconds in E notation, or
  `<device>_Timestamp_FormattedUnix_CAL`, `2020/10/27 09:30:00.125` in the zone of the PC.
- The device's name, which holds a part of its address, is left out of the channels' names. Where
  one file holds several devices, each is a stream of its own.
- The rate isn't in the file. The device divides 32 768 Hz by a whole number; such a rate is taken
  where the first stamps have it to 200 ppm.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from mmprep import tables
from mmprep.errors import DataError
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
from mmprep.tables.schema import Column
from mmprep.tables.text import Padding, TextTable
from mmprep.timebase import NS_PER_S

READER = "shimmer"
SUFFIXES = (".csv", ".txt", ".tsv", ".dat")
HEAD_BYTES = 64 << 10
CRYSTAL_HZ = 32_768
TOLERANCE = 200e-6
MIN_REGULAR = 0.8

_SEP = re.compile(r'^"?sep=(.)"?\s*$', re.IGNORECASE)
_TIME = re.compile(r"^(.+)_Timestamp_(Unix|FormattedUnix)_(?:CAL|UNCAL|RAW)$")
_SLASHED = re.compile(rb"\b(\d{4})/(\d\d)/(\d\d) ")
_UNITS = {"": None, "no_units": None, "Degrees Celsius": "degC"}


@dataclass(frozen=True, slots=True)
class _Head:
    """The first lines of a file."""

    delimiter: str
    names: list[str]
    units: list[str]
    n_preamble: int
    ends_in_delimiter: bool
    rows: list[list[str]]

    def times(self) -> dict[str, int]:
        """Device -> its time cell; Unix time is preferred."""
        found: dict[str, int] = {}
        for index, name in enumerate(self.names):
            match = _TIME.match(name)
            if match and (match[2] == "Unix" or match[1] not in found):
                found[match[1]] = index
        return found

    def device_of(self, name: str) -> str:
        """Name the device of a channel; the first one where the name tells none."""
        known = [device for device in self.times() if name.startswith(f"{device}_")]
        return max(known, key=len, default=next(iter(self.times())))


def claim(folder: str, names: Sequence[str], root: Path) -> list[Claim]:
    """Claim the files of a folder that Consensys wrote."""
    return file_claims(READER, folder, names, root, suffixes=SUFFIXES, knows=is_ours)


def is_ours(path: Path) -> bool:
    """Say whether a file starts with names, then units."""
    return _head(first_lines(path)) is not None


def _head(lines: Sequence[str]) -> _Head | None:
    sep = _SEP.match(lines[0]) if lines else None
    begin = 1 if sep else 0
    if len(lines) < begin + 3:
        return None
    for delimiter in [sep[1]] if sep else ["\t", ";", ","]:
        names, units = ([c.strip() for c in line.split(delimiter)] for line in lines[begin:][:2])
        head = _Head(
            delimiter,
            names[:-1] if not names[-1] else names,
            units,
            begin + 2,
            not names[-1],
            [line.split(delimiter) for line in lines[begin + 2 : -1]],
        )
        if head.times() and len(names) == len(units) and _has_time_unit(head):
            return head
    return None


def _has_time_unit(head: _Head) -> bool:
    return all(head.units[index].startswith(("ms", "yyyy")) for index in head.times().values())


def _find(claim: Claim, root: Path, options: TextOptions) -> Looks:
    """Find the devices of a file; the stream is the file's own where there is one."""
    (name,) = claim.files
    path = file_of(root, name)
    head = _head(first_lines(path, HEAD_BYTES))
    if head is None:
        raise DataError("no header of Shimmer Consensys (names, then units)", where=name)
    devices = list(head.times())
    return {
        device if len(devices) > 1 else OWN: partial(_table, path, name, head, device, options)
        for device in devices
    }


def _table(path: Path, where: str, head: _Head, device: str, options: TextOptions) -> TextTable:
    time_cell = head.times()[device]
    texts = _texts(head, time_cell)
    is_text = head.units[time_cell].startswith("yyyy")
    judged = stamps.judge(
        _bare(head.names[time_cell], device),
        texts,
        unit="iso" if is_text else "ms",
        tz=options.tz,
    )
    layout = tables.Layout(
        path,
        where,
        cells=_cells(head, device, time_cell),
        delimiter=head.delimiter,
        n_preamble=head.n_preamble,
        nulls=nulls_of(options),
        time_cell=time_cell,
        stamps=stamps.stamp_reader(judged.time.unit, texts, tz=options.tz),
    )
    padding = Padding(head.delimiter, len(layout.cells))
    return TextTable(
        layout,
        _columns(head, device, time_cell),
        judged.time,
        rate_hz=options.rate_hz or _rate(texts, judged.time.unit),
        mend=_Mend(padding if head.ends_in_delimiter else None, dates=is_text),
        notes=(judged.note,) if judged.note else (),
    )


def _texts(head: _Head, cell: int) -> tuple[str, ...]:
    found = [row[cell].strip() for row in head.rows if len(row) > cell]
    return tuple(_with_hyphens(f"{text} ".encode()).decode().strip() for text in found if text)


@dataclass(frozen=True, slots=True)
class _Mend:
    """Mend lines that lack the delimiter at their end, and the dates of formatted times."""

    padding: Padding | None
    dates: bool

    def __call__(self, data: bytes) -> bytes:
        padded = self.padding(data) if self.padding is not None else data
        return _with_hyphens(padded) if self.dates else padded


def _with_hyphens(data: bytes) -> bytes:
    """Write `2020/10/27 ` as `2020-10-27 `."""
    return _SLASHED.sub(rb"\1-\2-\3 ", data)


def _bare(name: str, device: str) -> str:
    return name.removeprefix(f"{device}_")


def _cells(head: _Head, device: str, time_cell: int) -> tuple[str | None, ...]:
    cells: list[str | None] = []
    for index, name in enumerate(head.names):
        is_own = head.device_of(name) == device
        bare = _bare(name, device) if is_own else name
        cells.append(bare if index == time_cell else tables.table_name(bare, filter(None, cells)))
    return (*cells, None) if head.ends_in_delimiter else tuple(cells)


def _columns(head: _Head, device: str, time_cell: int) -> tuple[Column, ...]:
    cells = _cells(head, device, time_cell)
    own = [
        index
        for index, name in enumerate(head.names)
        if head.device_of(name) == device and not _TIME.match(name)
    ]
    return tuple(
        Column(
            str(cells[index]),
            source_name=_bare(head.names[index], device),
            unit=_UNITS.get(head.units[index], head.units[index]),
        )
        for index in own
    )


def _rate(texts: Sequence[str], unit: str) -> Fraction | None:
    read = (stamps.parse_ns(text, unit) for text in texts)
    known = np.array([stamp for stamp in read if stamp is not None], dtype=np.int64)
    steps = np.diff(known)
    middle = float(np.median(steps)) if steps.size else 0.0
    regular = steps[np.abs(steps - middle) <= middle / 2]
    if middle <= 0 or regular.size < MIN_REGULAR * steps.size:
        return None
    ticks = CRYSTAL_HZ * regular.mean() / NS_PER_S
    is_near = abs(round(ticks) / ticks - 1) <= TOLERANCE
    return Fraction(CRYSTAL_HZ, round(ticks)) if is_near else None


def serial(path: Path, stream: str) -> str | None:
    """Give the name of a device, which holds a part of its address."""
    head = _head(first_lines(path))
    names = list(head.times()) if head is not None else []
    return stream if stream in names else next(iter(names), None)


_FINDER = Finder(_find, device="Shimmer", serial=serial)
streams = _FINDER.streams
probe = _FINDER.probe
write = _FINDER.write
device_of = _FINDER.device_of
read_stream = _FINDER.read_stream
