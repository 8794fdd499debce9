"""CASE, raw: `sub1_DAQ.txt` (physiology) and `sub1_joystick.txt` (annotation).

Rules (the READMEs of the data set)
-----
- Tab separated, no header. Both files count seconds on one LabVIEW clock, which is no Unix time.
- DAQ, 1000 Hz: time, ecg, bvp, gsr, rsp, skt, emg_zygo, emg_coru, emg_trap, all in volts at the
  sensor's output; they are kept as they are.
- Joystick, 20 Hz: time, x = valence, y = arousal, integers -26225 .. 26225. The scale of the
  published annotation is 0.5 + 9 (v + 26225) / 52450.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path

from mmprep import tables
from mmprep.errors import DataError
from mmprep.sources import base
from mmprep.sources.base import OWN, Claim, Finder, Looks, TextOptions, beside, file_of
from mmprep.tables import stamps
from mmprep.tables.schema import Column, TimeColumn
from mmprep.tables.text import TextTable

READER = "case"

_NAME = re.compile(r"^sub_?\d+_(DAQ|joystick)\.txt$")
_CHANNELS = {
    "DAQ": ("ecg", "bvp", "gsr", "rsp", "skt", "emg_zygo", "emg_coru", "emg_trap"),
    "joystick": ("valence", "arousal"),
}
_UNITS = {"DAQ": "V", "joystick": None}
_RATES = {"DAQ": Fraction(1000), "joystick": Fraction(20)}


def claim(folder: str, names: Sequence[str], root: Path) -> list[Claim]:
    """Claim the files whose name and first row are those of CASE; DAQ and joystick join by id."""
    claims = []
    for name in sorted(names):
        path = beside(folder, name)
        if stream := stream_of(file_of(root, path)):
            claims.append(Claim(READER, path, (path,), f"_{stream}.txt"))
    return claims


def stream_of(path: Path) -> str | None:
    """Name the stream of a file; None if it is none of CASE."""
    found = _NAME.match(path.name)
    if found is None:
        return None
    cells = [cell.strip() for cell in base.first_lines(path, 512)[:1] for cell in cell.split("\t")]
    wanted = 1 + len(_CHANNELS[found[1]])
    is_right = len(cells) == wanted and all(
        stamps.parse_ns(cell, "s") is not None for cell in cells
    )
    return found[1] if is_right else None


def _find(claim: Claim, root: Path, options: TextOptions) -> Looks:
    (name,) = claim.files
    path = file_of(root, name)
    return {stream_of(path) or OWN: partial(_table, path, name, options)}


def _table(path: Path, where: str, options: TextOptions) -> TextTable:
    stream = stream_of(path)
    if stream is None:
        raise DataError(
            "no raw file of CASE: 9 numbers a row in sub1_DAQ.txt, 3 in sub1_joystick.txt",
            where=where,
        )
    texts = [line.split("\t")[0].strip() for line in base.first_lines(path) if line]
    layout = tables.Layout(
        path,
        where,
        ("time", *_CHANNELS[stream]),
        nulls=base.nulls_of(options),
        time_cell=0,
        stamps=stamps.stamp_reader("s", texts),
    )
    return TextTable(
        layout,
        tuple(Column(name, "null", name, _UNITS[stream]) for name in _CHANNELS[stream]),
        TimeColumn("s", "given", source_name="daqtime" if stream == "DAQ" else "jstime"),
        rate_hz=_RATES[stream],
    )


_FINDER = Finder(_find)
probe = _FINDER.probe
write = _FINDER.write
read_stream = _FINDER.read_stream
