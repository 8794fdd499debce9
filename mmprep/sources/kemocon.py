"""K-EmoCon, wrist: a folder of `E4_EDA.csv E4_BVP.csv E4_TEMP.csv E4_HR.csv E4_ACC.csv E4_IBI.csv`.

Rules (public loaders of the data set)
-----
- A header names `timestamp` (Unix ms), `pid`, `value` or `x y z`, `device_serial`, in any order.
- The files of P29 .. P32 hold the rows of two devices, mixed. They are split by device: the
  participant's own gives `EDA`, another's `EDA-other`. Whose is whose is known for these four; else
  two devices are `EDA-1`, `EDA-2` in the order of their serials, the same in all files of a folder.
- `pid` and `device_serial` are no channels.
- Rates and units are those of the Empatica E4; all streams are absolute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path

from mmprep import tables
from mmprep.errors import DataError
from mmprep.sources import base
from mmprep.sources.base import Claim, Finder, Looks, TextOptions, beside, file_of
from mmprep.tables import stamps
from mmprep.tables.schema import Column, TimeColumn
from mmprep.tables.text import Part, TextTable, keys_of

READER = "kemocon"
TIME, PID, SERIAL = "timestamp", "pid", "device_serial"
OWN = {"29": "A013E1", "31": "A013E1", "30": "A01A3A", "32": "A01A3A"}

_RATES = {
    "EDA": Fraction(4),
    "BVP": Fraction(64),
    "TEMP": Fraction(4),
    "HR": Fraction(1),
    "ACC": Fraction(32),
}
_UNITS = {"EDA": "uS", "TEMP": "degC", "HR": "bpm", "ACC": "1/64 g", "IBI": "s"}
_NAMES = frozenset({*_RATES, "IBI"})


def claim(folder: str, names: Sequence[str], root: Path) -> list[Claim]:
    """Claim the E4 files of a participant's folder."""
    paths = [beside(folder, name) for name in sorted(names)]
    ours = tuple(path for path in paths if is_kemocon(file_of(root, path)))
    return [Claim(READER, "" if folder == "." else folder, ours)] if ours else []


def is_kemocon(path: Path) -> bool:
    """Say whether name and header of a file are those of the set."""
    stem = path.name.removesuffix(".csv").removeprefix("E4_")
    if path.name != f"E4_{stem}.csv" or stem not in _NAMES:
        return False
    return {TIME, PID, SERIAL} < set(_header(path))


def _header(path: Path) -> list[str]:
    lines = base.first_lines(path, 1024)
    return [cell.strip().strip('"') for cell in lines[0].split(",")] if lines else []


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the rows of a stream are."""

    name: str
    serial: str | None  # None: all rows are of one device


def _places(paths: Mapping[str, Path], options: TextOptions) -> dict[str, _Place]:
    """Name the streams of files that lie in one folder."""
    layouts = {name: _layout(path, name, options) for name, path in paths.items()}
    devices = {name: sorted(keys_of(layout, SERIAL)) for name, layout in layouts.items()}
    serials = sorted({serial for found in devices.values() for serial in found})
    if len(serials) < 2:
        return {_quantity(paths[name]): _Place(name, None) for name in paths}
    own = _own(layouts, serials)
    return {
        f"{_quantity(paths[name])}{_ending(serial, serials, own)}": _Place(name, serial)
        for name in paths
        for serial in devices[name]
    }


def _own(layouts: Mapping[str, tables.Layout], serials: Sequence[str]) -> str | None:
    """Give the serial of the participant's own device, if it is known."""
    found = {pid for layout in layouts.values() for pid in keys_of(layout, PID)}
    own = {OWN.get(pid.removesuffix(".0").removeprefix("P")) for pid in found}
    known = own.pop() if len(own) == 1 else None
    return known if known in serials else None


def _ending(serial: str, serials: Sequence[str], own: str | None) -> str:
    if own is None:
        return f"-{serials.index(serial) + 1}"
    others = [other for other in serials if other != own]
    if serial == own:
        return ""
    return "-other" if len(others) == 1 else f"-other{others.index(serial) + 1}"


def _quantity(path: Path) -> str:
    return path.stem.removeprefix("E4_")


def _find(claim: Claim, root: Path, options: TextOptions) -> Looks:
    """Find the devices in the files, which are read through for them."""
    paths = {name: file_of(root, name) for name in claim.files}
    places = _places(paths, options)
    return {
        stream: partial(_table, paths[place.name], place, places, options)
        for stream, place in places.items()
    }


def _layout(path: Path, where: str, options: TextOptions) -> tables.Layout:
    if not is_kemocon(path):
        raise DataError(f"no header of K-EmoCon ({TIME},{PID},...,{SERIAL})", where=where)
    lines, header = base.first_lines(path), _header(path)
    index = header.index(TIME)
    rows = [line.split(",") for line in lines[1:-1]]
    texts = [row[index].strip() for row in rows if len(row) == len(header)]
    return tables.Layout(
        path,
        where,
        tuple(header),
        delimiter=",",
        quote='"',
        n_preamble=1,
        header=lines[0].encode(),
        nulls=base.nulls_of(options),
        time_cell=index,
        stamps=stamps.stamp_reader("ms", texts),
    )


def _table(
    path: Path, place: _Place, places: Mapping[str, _Place], options: TextOptions
) -> TextTable:
    layout, quantity = _layout(path, place.name, options), _quantity(path)
    part: Part | None = None
    notes: tuple[str, ...] = ()
    serials = sorted(p.serial or "" for p in places.values() if p.name == place.name)
    if place.serial is not None:
        part = Part(SERIAL, place.serial, takes_rest=place.serial == serials[0])
    if place.serial is not None and len(serials) > 1:
        notes = (f"{path.name} holds {len(serials)} devices: split into streams",)
    return TextTable(
        layout,
        tuple(_columns(layout, quantity)),
        TimeColumn("ms", "given", absolute=True, source_name=TIME),
        rate_hz=_RATES.get(quantity),
        irregular=quantity == "IBI",
        notes=notes,
        part=part,
    )


def _columns(layout: tables.Layout, quantity: str) -> list[Column]:
    return [
        Column(name, "null", name, _UNITS.get(quantity))
        for name in layout.channels
        if name not in (PID, SERIAL)
    ]


_FINDER = Finder(_find)
probe = _FINDER.probe
write = _FINDER.write
read_stream = _FINDER.read_stream
