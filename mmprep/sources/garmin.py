"""Garmin in long form: `2019-10-16T12:08:58.041+02:00;HEART_RATE;79.0`, no header.

Rules (the sample data of flirt)
-----
- A row is a time with its zone, the name of a quantity, its value. Each quantity is a stream with
  one channel, `value`; it has no rate, as rows are written when there is something new.
- All streams are absolute.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mmprep import tables
from mmprep.errors import DataError
from mmprep.signals import Stream
from mmprep.sources import base
from mmprep.sources.base import Claim, Part, TextOptions, TextTable, beside, file_of
from mmprep.tables import stamps
from mmprep.tables.schema import Column, TableSchema, TimeColumn

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
    claims = []
    for name in sorted(names):
        path, suffix = beside(folder, name), base.known_suffix(name, SUFFIXES)
        if suffix is not None and is_garmin(file_of(root, path)):
            claims.append(Claim(READER, path, (path,), suffix))
    return claims


def is_garmin(path: Path) -> bool:
    """Say whether most of the first rows of a file are time; NAME; number."""
    lines = base.first_lines(path, 2048)
    whole = lines[:-1] if len(lines) > 1 else lines
    n_rows = sum(_ROW.match(line) is not None for line in whole[:HEAD_ROWS])
    return bool(whole) and 2 * n_rows > len(whole[:HEAD_ROWS])


def probe(claim: Claim, root: Path, options: TextOptions) -> dict[str, TableSchema]:
    """Give a schema for each quantity; the whole file is read for their names."""
    (name,) = claim.files
    layout = _layout(file_of(root, name), name, options)
    return {
        stream: base.schema_of(_table(layout, stream, streams_of(layout)), options)
        for stream in streams_of(layout)
    }


def streams_of(layout: tables.Layout) -> tuple[str, ...]:
    """Name the quantities of a file, sorted."""
    return tuple(sorted(base.keys_of(layout, "quantity")))


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
    """Write the table of one quantity.

    Raises
    ------
    DataError
        No such quantity, or a bad row where the policy is `fail`.
    """
    (name,) = claim.files
    layout = _layout(file_of(root, name), name, options)
    known = streams_of(layout)
    base.pick(known, stream, name)
    place = base.Target(target, id, name, n_threads, rejects, hasher)
    return base.write_text(_table(layout, stream, known), schema, place, options)


def read_stream(
    path: Path, options: TextOptions, name: str, *, stream: str | None = None
) -> Stream:
    """Read one quantity of a file."""
    layout = _layout(path, str(path), options)
    known = streams_of(layout)
    return base.read_text(_table(layout, base.pick(known, stream, str(path)), known), options, name)


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
