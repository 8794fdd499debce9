"""Bittium Faros as CSV: a folder of `ECG.csv ACC.csv HRV.csv Marker.csv` and `meta.json`.

Rules (the folders that devicely writes of a Faros)
-----
- A file has a line of names (`HRV`, `X,Y,Z`), then one row a sample. Start, rates and units stand
  in `meta.json`: `{"start_time": "2018-10-12 16:54:12", "sample_freqs": {"ECG": 500.0, ...}}`.
- The start is local time without a zone: a duration, or UTC by `--tz`.
- Without `meta.json` the start is unknown, and only `HRV.csv` is known for what it is. Its rate is
  then 5 Hz, that of the device's EDF files (`Marker`: 1 Hz); the other files are left to the reader
  of plain text, as their rates differ from recording to recording.
- A row of HRV holds the beat interval in ms that ended in it, 0 where none did.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from functools import partial
from pathlib import Path

from mmprep import files, tables
from mmprep.errors import DataError
from mmprep.sources import base
from mmprep.sources.base import Claim, Finder, Looks, TextOptions, beside, file_of
from mmprep.tables import stamps
from mmprep.tables.schema import Column, TimeColumn
from mmprep.tables.text import TextTable
from mmprep.timebase import rate

READER = "faros"
META = "meta.json"

_HEADERS = {"ECG": "ECG", "ACC": "X,Y,Z", "HRV": "HRV", "Marker": "Marker"}
_UNITS = {"ECG": "uV", "ACC": "mg", "HRV": "ms"}
_DEVICE_RATES = {"HRV": Fraction(5), "Marker": Fraction(1)}


@dataclass(frozen=True, slots=True)
class Meta:
    """What `meta.json` says; nothing where there is none."""

    start: str | None = None
    rates: Mapping[str, Fraction] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)


def claim(folder: str, names: Sequence[str], root: Path) -> list[Claim]:
    """Claim the files of a recording; without `meta.json` an HRV.csv and the markers with it."""
    paths = {stem: beside(folder, f"{stem}.csv") for stem in _HEADERS if f"{stem}.csv" in names}
    ours = {stem: path for stem, path in paths.items() if _has_header(file_of(root, path))}
    meta = beside(folder, META)
    extra = (meta,) if META in names and _is_meta(file_of(root, meta)) else ()
    if not extra:
        timed = _DEVICE_RATES if "HRV" in ours else {}
        ours = {stem: path for stem, path in ours.items() if stem in timed}
    files = (*sorted(ours.values()), *extra)
    return [Claim(READER, "" if folder == "." else folder, files)] if ours else []


def _has_header(path: Path) -> bool:
    """Say whether the first line is the one of a Faros, and the second holds numbers."""
    lines = base.first_lines(path, 256)
    if path.suffix != ".csv" or not lines or lines[0].strip() != _HEADERS.get(path.stem):
        return False
    return len(lines) < 3 or all(map(_is_number, lines[1].split(",")))


def _is_number(text: str) -> bool:
    return stamps.parse_ns(text, "ns") is not None


def _is_meta(path: Path) -> bool:
    try:
        return bool(_meta(path, str(path)).rates)
    except DataError:
        return False


def _meta(path: Path, where: str) -> Meta:
    if not files.is_file(path):
        return Meta()
    try:
        said = json.loads(files.read_text(path))
        rates = {name: rate(value, where=where) for name, value in said["sample_freqs"].items()}
        return Meta(str(said["start_time"]), rates, dict(said.get("units", {})))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise DataError(
            f"no start_time and sample_freqs of a Faros: {error!r}", where=where
        ) from error


def _find(claim: Claim, root: Path, options: TextOptions) -> Looks:
    paths = {name: file_of(root, name) for name in claim.files if name.endswith(".csv")}
    return {path.stem: partial(_table, path, name, options) for name, path in paths.items()}


def _table(path: Path, where: str, options: TextOptions) -> TextTable:
    if not _has_header(path):
        raise DataError("no header of a Faros file (HRV, ECG, Marker or X,Y,Z)", where=where)
    stream, meta = path.stem, _meta(path.with_name(META), str(path.with_name(META)))
    rate_hz, rate_note = _rate(stream, meta, options, where)
    start = _start(meta, options)
    names = tuple(_HEADERS[stream].split(","))
    layout = tables.Layout(
        path,
        where,
        names,
        delimiter=",",
        n_preamble=1,
        header=_HEADERS[stream].encode(),
        nulls=base.nulls_of(options),
        rate=tables.RateTime(rate_hz, start.ns),
    )
    unit = meta.units.get(stream, _UNITS.get(stream))
    return TextTable(
        layout,
        tuple(Column(name, "null", name, unit) for name in names),
        TimeColumn("rate", "given", start.absolute, tz=start.tz),
        rate_hz=rate_hz,
        notes=tuple(note for note in (rate_note, start.note) if note),
    )


def _rate(stream: str, meta: Meta, options: TextOptions, where: str) -> tuple[Fraction, str | None]:
    known = meta.rates.get(stream) or options.rate_hz
    if known is not None:
        return known, None
    if stream not in _DEVICE_RATES:
        raise DataError(
            f"no rate: there is no {META} that names that of {stream}",
            where=where,
            hint="--rate HZ",
        )
    usual = _DEVICE_RATES[stream]
    return usual, f"rate taken as {usual} Hz, the device's for {stream}; --rate says otherwise"


def _start(meta: Meta, options: TextOptions) -> base.Start:
    if meta.start is None:
        return base.start_of(None, options.tz)
    try:
        start = datetime.fromisoformat(meta.start)
    except ValueError as error:
        raise DataError(f"start_time is {meta.start!r}, no date and time", where=META) from error
    if start.tzinfo is not None:
        return base.Start(base.unix_ns(start), absolute=True)
    return base.start_of(start, options.tz)


_FINDER = Finder(_find, device="Bittium Faros")
probe = _FINDER.probe
write = _FINDER.write
device_of = _FINDER.device_of
read_stream = _FINDER.read_stream
