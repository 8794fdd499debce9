"""Mentalab Explore as CSV: `x_ExG.csv`, `x_ORN.csv`, `x_Marker.csv`, with `x_Meta.csv`.

Rules (files of explorepy)
-----
- All files have a column `TimeStamp`, seconds on the clock of the recording computer, which is no
  Unix time; the streams of one recording share it.
- `x_Meta.csv` has one row: the rate `sr` and the unit `ExGUnits` of ExG. The name of the device in
  it ends in its serial and is not kept.
- ORN holds acceleration in mg, rotation in mdps, the magnetic field in mgauss, at about 20 Hz.
- Markers are events with a text, `Code`.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path

from mmprep import files, tables
from mmprep.errors import DataError, UsageError
from mmprep.sources import base
from mmprep.sources.base import Claim, Finder, Looks, TextOptions, beside, file_of
from mmprep.tables import stamps
from mmprep.tables.schema import Column, TimeColumn
from mmprep.tables.text import TextTable
from mmprep.timebase import rate

READER = "explore"
STREAMS = ("ExG", "ORN", "Marker", "Env")
META = "_Meta.csv"
TIME = "TimeStamp"

_ORN_UNITS = {"a": "mg", "g": "mdps", "m": "mgauss"}
_META_COLUMNS = {"TimeOffset", "Device", "sr"}


def claim(folder: str, names: Sequence[str], root: Path) -> list[Claim]:
    """Claim the files of each recording in a folder."""
    recordings: dict[str, list[str]] = {}
    for name in sorted(names):
        stem, _, end = name.rpartition("_")
        path = beside(folder, name)
        if end in {f"{stream}.csv" for stream in STREAMS} and is_explore(file_of(root, path)):
            recordings.setdefault(stem, []).append(path)
    claims = []
    for stem, paths in recordings.items():
        meta = beside(folder, stem + META)
        has_meta = stem + META in names and _facts(file_of(root, meta))
        files = (*paths, meta) if has_meta else tuple(paths)
        suffix = paths[0][len(beside(folder, stem)) :]
        claims.append(Claim(READER, paths[0], files, suffix))
    return claims


def is_explore(path: Path) -> bool:
    """Say whether name and header are those of an Explore file."""
    header = _header(path)
    wanted = _HEADERS.get(_stream_of(path))
    return wanted is not None and header[:1] == [TIME] and wanted(header[1:])


def _stream_of(path: Path) -> str:
    return path.stem.rpartition("_")[2]


def _header(path: Path) -> list[str]:
    lines = base.first_lines(path, 1024)
    return [cell.strip() for cell in lines[0].split(",")] if lines else []


_HEADERS: dict[str, Callable[[list[str]], bool]] = {
    "ExG": lambda names: bool(names) and all(name.startswith("ch") for name in names),
    "ORN": lambda names: names[:6] == ["ax", "ay", "az", "gx", "gy", "gz"],
    "Marker": lambda names: names == ["Code"],
    "Env": lambda names: "Temperature" in names,
}


def _facts(path: Path) -> dict[str, str]:
    """Read `x_Meta.csv`; empty if it is none."""
    if not files.is_file(path):
        return {}
    rows = list(csv.DictReader(base.first_lines(path)))
    return rows[0] if rows and set(rows[0]) >= _META_COLUMNS else {}


def _find(claim: Claim, root: Path, options: TextOptions) -> Looks:
    paths = {name: file_of(root, name) for name in claim.files if not name.endswith(META)}
    return {_stream_of(path): partial(_table, path, name, options) for name, path in paths.items()}


def _table(path: Path, where: str, options: TextOptions) -> TextTable:
    if not is_explore(path):
        raise DataError(f"no header of an Explore file ({TIME},...)", where=where)
    stream, header = _stream_of(path), _header(path)
    meta_path = path.with_name(path.name.removesuffix(f"_{stream}.csv") + META)
    facts = _facts(meta_path)
    texts = [line.split(",")[0] for line in base.first_lines(path)[1:] if line]
    layout = tables.Layout(
        path,
        where,
        tuple(header),
        delimiter=",",
        quote='"',
        n_preamble=1,
        header=base.first_lines(path)[0].encode(),
        nulls=base.nulls_of(options),
        time_cell=0,
        stamps=stamps.stamp_reader("s", texts),
    )
    return TextTable(
        layout,
        tuple(_column(stream, name, facts) for name in header[1:]),
        TimeColumn("s", "given", source_name=TIME),
        rate_hz=_rate(facts, str(meta_path)) if stream == "ExG" else None,
        irregular=stream in ("Marker", "Env"),
        kind="events" if stream == "Marker" else "signal",
    )


def _column(stream: str, name: str, facts: dict[str, str]) -> Column:
    if stream == "Marker":
        return Column(name, "string", name)
    units = {"ExG": facts.get("ExGUnits"), "ORN": _ORN_UNITS.get(name[:1])}
    return Column(name, "null", name, units.get(stream))


def _rate(facts: dict[str, str], where: str) -> Fraction | None:
    if not facts:
        return None
    try:
        return rate(facts["sr"].strip())
    except UsageError as error:
        raise DataError(f"sr is {facts['sr']!r}, expected a rate in Hz", where=where) from error


_FINDER = Finder(_find, device="Mentalab Explore")
probe = _FINDER.probe
write = _FINDER.write
device_of = _FINDER.device_of
read_stream = _FINDER.read_stream
