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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from mmprep import tables
from mmprep.errors import DataError
from mmprep.signals import Stream
from mmprep.sources.base import (
    Claim,
    TextOptions,
    beside,
    file_of,
    first_lines,
    is_companion,
    known_suffix,
    nulls_of,
    pick,
)
from mmprep.tables import stamps
from mmprep.tables.rows import (
    Padding,
    TextRows,
    convert_text_rows,
    schema_of_text_rows,
    stream_of_text_rows,
)
from mmprep.tables.schema import Column, TableSchema
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
    found = []
    for name in sorted(names):
        suffix, path = known_suffix(name, SUFFIXES), beside(folder, name)
        if suffix and not is_companion(name) and _head(first_lines(file_of(root, path))):
            found.append(Claim(READER, path, (path,), suffix))
    return found


def streams(claim: Claim, root: Path, options: TextOptions) -> tuple[str, ...]:
    """Name the streams: the file's own, or the devices where there are several."""
    return tuple(_found(file_of(root, claim.files[0]), claim.files[0], claim.stem, options))


def device(path: Path) -> str:
    """Name the device."""
    return "Shimmer"


def probe(claim: Claim, root: Path, options: TextOptions) -> dict[str, TableSchema]:
    """Look at a file; see `streams`.

    Raises
    ------
    DataError
        The file is none of Consensys.
    """
    found = _found(file_of(root, claim.files[0]), claim.files[0], claim.stem, options)
    return {
        stream: schema_of_text_rows(rows, on_bad_row=options.on_bad_row, float32=options.float32)
        for stream, rows in found.items()
    }


def write(
    claim: Claim,
    root: Path,
    stream: str,
    schema: TableSchema,
    target: Path,
    *,
    id: str,
    options: TextOptions,
    n_threads: int = 1,
    rejects: Path | None = None,
    hasher: Callable[[], Any] | None = None,
) -> tables.TableFacts:
    """Write the table of a stream; see `tables.rows.convert_text_rows`.

    Raises
    ------
    Widen
        The schema is too narrow for a value.
    DataError
        A bad row, where the policy is `fail`; or the file cannot be read.
    UsageError
        No such stream.
    """
    (name,) = claim.files
    found = _found(file_of(root, name), name, claim.stem, options)
    return convert_text_rows(
        found[pick(list(found), stream, name)],
        schema,
        target,
        item_id=id,
        options=tables.ReadOptions(options.on_bad_row, n_threads, hasher=hasher),
        rejects=rejects,
        level=options.compression_level,
        name=name,
    )


def read_stream(
    path: Path, options: TextOptions, name: str, *, stream: str | None = None
) -> Stream:
    """Read a stream of a file; it must be named where there are several."""
    found = _found(path, str(path), path.name.partition(".")[0], options)
    rows = found[pick(list(found), stream, str(path))]
    return stream_of_text_rows(rows, name, options=tables.ReadOptions(options.on_bad_row))


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


def _found(path: Path, where: str, stem: str, options: TextOptions) -> dict[str, TextRows]:
    head = _head(first_lines(path, HEAD_BYTES))
    if head is None:
        raise DataError("no header of Shimmer Consensys (names, then units)", where=where)
    devices = list(head.times())
    return {
        device if len(devices) > 1 else stem: _rows(path, where, head, device, options)
        for device in devices
    }


def _rows(path: Path, where: str, head: _Head, device: str, options: TextOptions) -> TextRows:
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
    return TextRows(
        layout,
        _columns(head, device, time_cell),
        judged.time,
        rate_hz=options.rate_hz or _rate(texts, judged.time.unit),
        mend=_Mend(padding if head.ends_in_delimiter else None, dates=is_text),
        notes=(judged.note,) if judged.note else (),
    ).with_units(dict(options.units))


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
