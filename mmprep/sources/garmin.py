"""Garmin in long form: `2019-10-16T12:08:58.041+02:00;HEART_RATE;79.0`, no header.

Rules (the sample data of flirt)
-----
- A row is a time with its zone, the name of a quantity, its value. Each quantity is a stream with
  one channel, `value`; it has no rate, as rows are written when there is something new.
- All streams are absolute.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from mmprep import tables
from mmprep.errors import DataError
from mmprep.sources import base
from mmprep.sources.base import Claim, Finder, Looks, TextOptions, file_of
from mmprep.tables import stamps
from mmprep.tables.schema import Column, TimeColumn
from mmprep.tables.text import Part, TextTable, keys_of

READER = "garmin"
SUFFIXES = (".csv",)
HEAD_ROWS = 5

_ROW = re.compile(
    r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d);[A-Z][A-Z0-9_]*;-?\d+(?:\.\d*)?\s*$"
)
_UNITS = {
    "HEART_RATE": "bpm",
    "HEART_RATE_VARIABILITY": "ms",
    "CALORIES": "kcal",
    "INTENSITY_MINUTES": "min",
    "ASCENT": "m",
    "RESPIRATION": "1/min",
    "SPO2": "%",
}


def claim(folder: str, names: Sequence[str], root: Path) -> list[Claim]:
    """Claim the files whose first rows are in the long form."""
    return base.file_claims(READER, folder, names, root, suffixes=SUFFIXES, knows=is_garmin)


def is_garmin(path: Path) -> bool:
    """Say whether most of the first rows of a file are time; NAME; number."""
    lines = base.first_lines(path, 2048)
    whole = lines[:-1] if len(lines) > 1 else lines
    n_rows = sum(_ROW.match(line) is not None for line in whole[:HEAD_ROWS])
    return bool(whole) and 2 * n_rows > len(whole[:HEAD_ROWS])


def streams_of(layout: tables.Layout) -> tuple[str, ...]:
    """Name the quantities of a file, sorted."""
    return tuple(sorted(keys_of(layout, "quantity")))


def _find(claim: Claim, root: Path, options: TextOptions) -> Looks:
    """Find the quantities of a file; it is read as a whole for their names."""
    (name,) = claim.files
    layout = _layout(file_of(root, name), name, options)
    known = streams_of(layout)
    return {stream: partial(_table, layout, stream, known) for stream in known}


def _layout(path: Path, where: str, options: TextOptions) -> tables.Layout:
    if not is_garmin(path):
        raise DataError("no rows of the form time;QUANTITY;value", where=where)
    texts = [line.split(";")[0] for line in base.first_lines(path)[:HEAD_ROWS]]
    return tables.Layout(
        path,
        where,
        ("time", "quantity", "value"),
        delimiter=";",
        nulls=base.nulls_of(options),
        time_cell=0,
        stamps=stamps.stamp_reader("iso", texts),
    )


def _table(layout: tables.Layout, stream: str, known: Sequence[str]) -> TextTable:
    return TextTable(
        layout,
        (Column("value", "float64", stream, _UNITS.get(stream)),),
        TimeColumn("iso", "given", absolute=True),
        irregular=True,
        part=Part("quantity", stream, takes_rest=stream == known[0]),
    )


_FINDER = Finder(_find, device="Garmin")
probe = _FINDER.probe
write = _FINDER.write
device_of = _FINDER.device_of
read_stream = _FINDER.read_stream
