"""K-EmoCon: `E4_EDA.csv E4_BVP.csv E4_TEMP.csv E4_HR.csv E4_ACC.csv E4_IBI.csv`; `P1.self.csv`.

Rules (public loaders of the data set)
-----
- A header names `timestamp` (Unix ms), `pid`, `value` or `x y z`, `device_serial`, in any order.
- The files of P29 .. P32 hold the rows of two devices, mixed. They are split by device: the
  participant's own gives `EDA`, another's `EDA-other`. Whose is whose is known for these four; else
  two devices are `EDA-1`, `EDA-2` in the order of their serials, the same in all files of a folder.
- `pid` and `device_serial` are no channels.
- Rates and units are those of the Empatica E4; all streams are absolute.
- Annotations (`P1.self.csv P1.partner.csv P1.external.csv P1.R1.csv`) have a row every 5 s. Their
  `seconds` count from the start of the debate, which `startTime` (Unix ms) in
  `metadata/subjects.csv` tells. The columns up to `sad` are ratings, the others hold an `x` or
  nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path, PurePosixPath

from mmprep import files, tables
from mmprep.errors import DataError
from mmprep.sources import base
from mmprep.sources.base import Claim, Finder, Looks, TextOptions, beside, file_of
from mmprep.tables import stamps
from mmprep.tables.schema import Column, TimeColumn
from mmprep.tables.text import Part, TextTable, keys_of

READER = "kemocon"
TIME, PID, SERIAL, START = "timestamp", "pid", "device_serial", "startTime"
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


SECONDS, SUBJECTS = "seconds", "metadata/subjects.csv"
ANNOTATION_HZ = Fraction(1, 5)

_ANNOTATION = re.compile(r"^P(?P<pid>\d+)\.(?P<by>self|partner|external|R\d)\.csv$")
_RATED = frozenset({"arousal", "valence", "cheerful", "happy", "angry", "nervous", "sad"})


def claim(folder: str, names: Sequence[str], root: Path) -> list[Claim]:
    """Claim the E4 files of a participant's folder, and annotations one by one."""
    paths = [beside(folder, name) for name in sorted(names)]
    ours = tuple(path for path in paths if is_kemocon(file_of(root, path)))
    wrist = [Claim(READER, "" if folder == "." else folder, ours)] if ours else []
    return wrist + [
        Claim(READER, path, (path, *_subjects(path, root)), ".csv")
        for path in paths
        if is_annotation(file_of(root, path))
    ]


def is_annotation(path: Path) -> bool:
    """Say whether name and header of a file are those of annotations."""
    return _ANNOTATION.match(path.name) is not None and {SECONDS, "arousal", "valence"} <= set(
        _header(path)
    )


def _subjects(path: str, root: Path) -> list[str]:
    """Find the table of people, in a folder above."""
    folders = (parent.as_posix() for parent in PurePosixPath(path).parents)
    known = (beside(folder, SUBJECTS) for folder in folders)
    return [name for name in known if files.is_file(file_of(root, name))][:1]


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


def device(path: Path, stream: str) -> str | None:
    """Name the wristband of the files `E4_*.csv`; annotations are of no device."""
    return None if _ANNOTATION.match(path.name) else "Empatica E4"


def _find(claim: Claim, root: Path, options: TextOptions) -> Looks:
    """Find the devices in the files, which are read through for them."""
    if found := _ANNOTATION.match(PurePosixPath(claim.files[0]).name):
        return {f"emotion_{found['by']}": partial(_annotations, claim, root, options)}
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


# Annotations --------------------------------------------------------------------------------------


def _annotations(claim: Claim, root: Path, options: TextOptions) -> TextTable:
    name, *others = claim.files
    path = file_of(root, name)
    lines, header = base.first_lines(path), _header(path)
    start_ns = _debate_ns(path, file_of(root, others[0])) if others else None
    cells = ("" if cell == SECONDS else cell for cell in header)
    layout = tables.Layout(
        path,
        name,
        tuple(header),
        delimiter=",",
        quote='"',
        n_preamble=1,
        header=lines[0].encode(),
        nulls=base.nulls_of(options),
        time_cell=header.index(SECONDS),
        stamps=stamps.stamp_reader("s", (), offset_ns=start_ns or 0),
    )
    lack = f"{SUBJECTS} does not tell when the debate began: stamps count from its start"
    return TextTable(
        layout,
        tuple(Column(cell, "null", cell) for cell in cells if cell),
        TimeColumn("s", "given", absolute=start_ns is not None, source_name=SECONDS),
        rate_hz=ANNOTATION_HZ,
        text=frozenset(header) - _RATED,
        notes=() if start_ns is not None else (lack,),
    )


def _debate_ns(path: Path, subjects: Path) -> int | None:
    """Look up when the debate of a participant began."""
    found = _ANNOTATION.match(path.name)
    rows = [line.split(",") for line in base.first_lines(subjects, 1 << 16) if line.strip()]
    header = [cell.strip() for cell in rows[0]] if rows else []
    if found is None or not {PID, START} <= set(header):
        return None
    pid, start = header.index(PID), header.index(START)
    starts = {row[pid].strip(): row[start].strip() for row in rows[1:] if len(row) == len(header)}
    return stamps.parse_ns(starts.get(found["pid"], ""), "ms")


_FINDER = Finder(_find, device=device)
probe = _FINDER.probe
write = _FINDER.write
device_of = _FINDER.device_of
read_stream = _FINDER.read_stream
