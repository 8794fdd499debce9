"""OpenSignals text: BITalino, biosignalsplux, RespiBAN (as of WESAD); and BioSPPy's simple text.

Rules (the header of OpenSignals (r)evolution; sample files of BITalino and WESAD)
-----
- `# OpenSignals Text File Format`, a JSON line (device address -> facts), `# EndOfHeader`, then
  rows of a tab after each value. Several devices stand side by side; each is a stream of its own.
- No row has a stamp: time is the start in the header plus packet number / rate, where the number
  comes from `nSeq`. It wraps (BITalino: 0 .. 15), so losses show but for whole cycles.
- The start is a local time without a zone.
- A channel is called as its sensor (`ECG`), where that says anything, else as its column (`A3`).
  Values are raw counts of the converter. Device addresses are left out.
- `# Simple Text Format` names rate and labels; rows have neither stamps nor counters.
"""

from __future__ import annotations

import json
import re
from collections import Counter as Count
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from mmprep import tables, timebase
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
    start_of,
)
from mmprep.tables.packets import Cycle
from mmprep.tables.schema import Column, TimeColumn
from mmprep.tables.text import Counter, Padding, TextTable

READER = "opensignals"
SUFFIXES = (".txt", ".tsv")
HEAD_BYTES = 64 << 10
COUNTER = "nSeq"

_SIGNATURES = ("# OpenSignals Text File Format", "# Simple Text Format")
_MUTE = frozenset({"", "RAW", "UNKNOWN", "OTHER", "CUSTOM"})
_DATE = re.compile(r"^(\d{4})-(\d{1,2})-(\d{1,2})$")
_CLOCK = re.compile(r"^(\d{1,2}):(\d{1,2}):(\d{1,2})(\.\d+)?$")
_FIELD = re.compile(r"^#\s*(.+?)\s*:=\s*(.*?)\s*$")


@dataclass(frozen=True, slots=True)
class _Device:
    """One device of a file, as the header has it."""

    model: str
    address: str
    columns: tuple[str, ...]
    sensors: tuple[str, ...]  # of the last columns
    rate_hz: Fraction
    start: datetime | None
    cycle: Cycle | None

    def channels(self) -> tuple[str, ...]:
        """Name the channels by sensor where that tells them apart."""
        n_plain = len(self.columns) - len(self.sensors)
        known = Count(sensor for sensor in self.sensors if sensor.upper() not in _MUTE)
        named = [
            column if not known[sensor] else sensor if known[sensor] == 1 else f"{sensor}_{column}"
            for column, sensor in zip(self.columns[n_plain:], self.sensors, strict=True)
        ]
        return (*self.columns[:n_plain], *named)


def claim(folder: str, names: Sequence[str], root: Path) -> list[Claim]:
    """Claim the files of a folder that OpenSignals wrote."""
    return file_claims(READER, folder, names, root, suffixes=SUFFIXES, knows=is_ours)


def is_ours(path: Path) -> bool:
    """Say whether a file starts as OpenSignals starts it."""
    lines = first_lines(path, 256)
    return bool(lines) and lines[0].startswith(_SIGNATURES)


def device(path: Path, stream: str = "") -> str | None:
    """Name the model of the device of a stream, which is that of the first one if alone."""
    return _device_of(path, stream).model or None


def serial(path: Path, stream: str) -> str | None:
    """Give the address of the device of a stream."""
    return _device_of(path, stream).address or None


def _device_of(path: Path, stream: str) -> _Device:
    found = _devices(_header(path, str(path)), str(path))
    known = dict(zip(_stream_names(found), found, strict=True))
    return known.get(stream, found[0])


def _header(path: Path, where: str) -> list[str]:
    """Read the lines before the first row, and one more."""
    lines = first_lines(path, HEAD_BYTES)
    n_lines = next((k for k, line in enumerate(lines) if not line.startswith("#")), len(lines))
    if not lines or not lines[0].startswith(_SIGNATURES) or not n_lines < len(lines):
        raise DataError("no header of OpenSignals, or it does not end", where=where)
    return lines[: n_lines + 1]


def _devices(header: Sequence[str], where: str) -> list[_Device]:
    if header[0].startswith(_SIGNATURES[1]):
        return [_simple(header, where)]
    try:
        facts = json.loads(header[1].lstrip("# "))
        found = [_device(address, one) for address, one in facts.items()]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"the header of OpenSignals can't be read: {type(error).__name__} {error}",
            where=f"{where}:2",
            hint="read the file as a plain table: give --rate and --columns",
        ) from error
    if not found:
        raise DataError("the header names no device", where=f"{where}:2")
    return found


def _device(address: str, facts: Mapping[str, Any]) -> _Device:
    columns = tuple(map(str, facts["column"]))
    sensors = tuple(map(str, facts.get("sensor", ())))
    resolution = facts.get("resolution", ())
    is_whole = len(resolution) == len(columns) and columns[0] == COUNTER
    return _Device(
        str(facts.get("device", "")),
        address,
        columns,
        sensors if len(sensors) < len(columns) else (),
        timebase.rate(str(facts["sampling rate"])),
        _start(str(facts.get("date", "")), str(facts.get("time", ""))),
        Cycle(0, (1 << int(resolution[0])) - 1) if is_whole else None,
    )


def _start(date: str, clock: str) -> datetime | None:
    """Read date and time, whose parts may lack zeros: `2017-5-22`, `9:39:1.0`."""
    day, hour = _DATE.match(date.strip()), _CLOCK.match(clock.strip())
    if day is None or hour is None:
        return None
    parts = ":".join(f"{int(part):02}" for part in hour.groups()[:3])
    return _time(f"{day[1]}-{int(day[2]):02}-{int(day[3]):02}T{parts}{hour[4] or ''}")


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _simple(header: Sequence[str], where: str) -> _Device:
    fields = {found[1]: found[2] for line in header if (found := _FIELD.match(line))}
    rate = fields.get("Sampling Rate (Hz)")
    if rate is None:
        raise DataError("the header names no sampling rate", where=where, hint="give --rate HZ")
    n_cells = len(_split(header[-1]))
    labels = [label for label in fields.get("Labels", "").split("\t") if label]
    names = labels if len(labels) == n_cells else [f"column_{k + 1}" for k in range(n_cells)]
    return _Device(
        "", "", tuple(names), (), timebase.rate(rate), _time(fields.get("Date", "")), None
    )


def _split(line: str) -> list[str]:
    return line.removesuffix("\t").split("\t")


def _find(claim: Claim, root: Path, options: TextOptions) -> Looks:
    """Find the devices of a file, by model and number; the stream is the file's own if alone."""
    (name,) = claim.files
    path = file_of(root, name)
    header = _header(path, name)
    file = _File(path, name, tuple(header), tuple(_devices(header, name)))
    n_cells, n_named = len(_split(header[-1])), len(file.cells(0))
    if n_cells != n_named:
        raise DataError(
            f"{n_cells} cells, the header names {n_named} columns", where=f"{name}:{len(header)}"
        )
    return {
        stream: partial(_table, file, k, options)
        for k, stream in enumerate(_stream_names(file.devices))
    }


def _stream_names(devices: Sequence[_Device]) -> list[str]:
    if len(devices) == 1:
        return [OWN]
    return [f"{device.model or 'device'}_{k + 1}" for k, device in enumerate(devices)]


@dataclass(frozen=True, slots=True)
class _File:
    """What the header of a file says; `header` ends with the first row."""

    path: Path
    where: str
    header: tuple[str, ...]
    devices: tuple[_Device, ...]

    def cells(self, index: int) -> tuple[str, ...]:
        """Name all cells, those of one device as its channels, the others apart from those."""
        named: list[str] = []
        for k, device in enumerate(self.devices):
            for name in device.channels():
                named.append(tables.table_name(name if k == index else f"{k + 1}.{name}", named))
        return tuple(named)

    def columns(self, index: int) -> tuple[Column, ...]:
        """Give the channels of one device."""
        begin = sum(len(device.columns) for device in self.devices[:index])
        own = self.devices[index].columns
        names = self.cells(index)[begin : begin + len(own)]
        return tuple(Column(name, source_name=said) for name, said in zip(names, own, strict=True))


def _table(file: _File, index: int, options: TextOptions) -> TextTable:
    device, cells = file.devices[index], file.cells(index)
    rate = options.rate_hz or device.rate_hz
    start = start_of(device.start, options.tz)
    layout = tables.Layout(
        file.path,
        file.where,
        cells=(*cells, None) if file.header[-1].endswith("\t") else cells,
        n_preamble=len(file.header) - 1,
        nulls=nulls_of(options),
        rate=tables.RateTime(rate, start.ns),
    )
    return TextTable(
        layout,
        file.columns(index),
        TimeColumn("rate", absolute=start.absolute, tz=start.tz),
        rate_hz=rate,
        mend=Padding("\t", len(layout.cells)) if layout.cells[-1] is None else None,
        counter=Counter(COUNTER, device.cycle, is_clock=True, may_repeat=False)
        if COUNTER in cells
        else None,
        notes=(start.note,) if start.note else (),
    )


_FINDER = Finder(_find, device=device, serial=serial)
streams = _FINDER.streams
probe = _FINDER.probe
write = _FINDER.write
device_of = _FINDER.device_of
read_stream = _FINDER.read_stream
