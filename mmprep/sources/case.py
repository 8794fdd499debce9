"""CASE: raw `sub1_DAQ.txt` and `sub1_joystick.txt`; converted `sub_1.csv`.

Rules (the READMEs of the data set)
-----
- Raw: tab separated, no header. Both files count seconds on one LabVIEW clock, which is no Unix
  time.
- DAQ, 1000 Hz: time, ecg, bvp, gsr, rsp, skt, emg_zygo, emg_coru, emg_trap, all in volts at the
  sensor's output; they are kept as they are.
- Joystick, 20 Hz: time, x = valence, y = arousal, integers -26225 .. 26225; they are kept. The
  scale of the published annotation is 0.5 + 9 (v + 26225) / 52450.
- Converted (`interpolated/`, `non-interpolated/`): comma, with a header, milliseconds; physiology
  in the units of the sensors, annotations from 0.5 to 9.5, and `video`, what was shown.
- Videos 1 to 8 are the stimuli, two of a kind; those between them have higher numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import groupby
from pathlib import Path

from mmprep import files, tables
from mmprep.errors import DataError
from mmprep.sources import base
from mmprep.sources.base import OWN, Claim, Finder, Looks, Part, TextOptions, beside, file_of
from mmprep.tables import stamps
from mmprep.tables.schema import Column, TimeColumn
from mmprep.tables.text import TextTable

READER = "case"
VIDEO = "video"
SCALE_NOTE = "raw counts are kept; the published scale is 0.5 + 9 (v + 26225) / 52450"


@dataclass(frozen=True, slots=True)
class _Form:
    """One kind of file.

    Parameters
    ----------
    time, time_unit : str
        What the authors call the first column, and its unit.
    ending : str
        What is no part of the id.
    units : mapping
        Channel -> unit.
    """

    name: re.Pattern[str]
    ending: str
    time: str
    time_unit: str
    rate_hz: Fraction
    units: Mapping[str, str | None]
    has_header: bool = False
    notes: tuple[str, ...] = ()

    @property
    def delimiter(self) -> str:
        return "," if self.has_header else "\t"

    def fits(self, path: Path) -> bool:
        """Say whether name and first row of a file are those of the form."""
        if not self.name.match(path.name):
            return False
        first = base.first_lines(path, 512)[:1]
        cells = [cell.strip() for line in first for cell in line.split(self.delimiter)]
        if self.has_header:
            return cells == [self.time, *self.units]
        return len(cells) == 1 + len(self.units) and all(
            stamps.parse_ns(cell, "s") is not None for cell in cells
        )


_DAQ = ("ecg", "bvp", "gsr", "rsp", "skt", "emg_zygo", "emg_coru", "emg_trap")
_CONVERTED = ("mV", "%", "uS", "%", "degC", "uV", "uV", "uV")
_SCALES = {"valence": None, "arousal": None}
_RAW_NAME, _CSV_NAME = r"^sub_?\d+_{}\.txt$", re.compile(r"^sub_?\d+\.csv$")
_FORMS = {
    "DAQ": _Form(
        re.compile(_RAW_NAME.format("DAQ")),
        "_DAQ.txt",
        "daqtime",
        "s",
        Fraction(1000),
        dict.fromkeys(_DAQ, "V"),
    ),
    "joystick": _Form(
        re.compile(_RAW_NAME.format("joystick")),
        "_joystick.txt",
        "jstime",
        "s",
        Fraction(20),
        _SCALES,
        notes=(SCALE_NOTE,),
    ),
    "physiology": _Form(
        _CSV_NAME,
        ".csv",
        "daqtime",
        "ms",
        Fraction(1000),
        {**dict(zip(_DAQ, _CONVERTED, strict=True)), VIDEO: None},
        has_header=True,
    ),
    "annotation": _Form(
        _CSV_NAME, ".csv", "jstime", "ms", Fraction(20), {**_SCALES, VIDEO: None}, has_header=True
    ),
}


def claim(folder: str, names: Sequence[str], root: Path) -> list[Claim]:
    """Claim the files whose name and first row are those of CASE; two of a subject join by id."""
    claims = []
    for name in sorted(names):
        path = beside(folder, name)
        if stream := stream_of(file_of(root, path)):
            claims.append(Claim(READER, path, (path,), _FORMS[stream].ending))
    return claims


def stream_of(path: Path) -> str | None:
    """Name the stream of a file; None if it is none of CASE."""
    return next((stream for stream, form in _FORMS.items() if form.fits(path)), None)


def _find(claim: Claim, root: Path, options: TextOptions) -> Looks:
    (name,) = claim.files
    path = file_of(root, name)
    return {stream_of(path) or OWN: partial(_table, path, name, options)}


def _table(path: Path, where: str, options: TextOptions) -> TextTable:
    stream = stream_of(path)
    if stream is None:
        raise DataError(
            "no raw file of CASE: 9 numbers a row in sub1_DAQ.txt, 3 in sub1_joystick.txt; nor a"
            " converted one: sub_1.csv with daqtime or jstime",
            where=where,
        )
    form, lines = _FORMS[stream], base.first_lines(path)
    rows = [line.split(form.delimiter)[0].strip() for line in lines[form.has_header :] if line]
    layout = tables.Layout(
        path,
        where,
        ("time", *form.units),
        delimiter=form.delimiter,
        n_preamble=int(form.has_header),
        header=lines[0].encode() if form.has_header else b"",
        nulls=base.nulls_of(options),
        time_cell=0,
        stamps=stamps.stamp_reader(form.time_unit, rows),
    )
    return TextTable(
        layout,
        tuple(Column(name, "null", name, unit) for name, unit in form.units.items()),
        TimeColumn(form.time_unit, "given", source_name=form.time),
        rate_hz=form.rate_hz,
        notes=form.notes,
    )


# Videos -------------------------------------------------------------------------------------------

# As the labels of the videos begin: amusing-1, amusing-2, boring-1, ... The pauses are none.
CLASSES = {
    **dict.fromkeys((1, 2), "amusing"),
    **dict.fromkeys((3, 4), "boring"),
    **dict.fromkeys((5, 6), "relaxed"),
    **dict.fromkeys((7, 8), "scary"),
}


def parts(claim: Claim, root: Path, options: TextOptions) -> list[Part]:
    """Give what a person saw, video by video; raw files do not tell."""
    path = file_of(root, claim.files[0])
    stream = stream_of(path) or OWN
    form = _FORMS.get(stream)
    if form is None or VIDEO not in form.units:
        return []
    return [
        Part(
            f"video-{video}",
            {stream: (begin, end)},
            float((end - begin) / form.rate_hz),
            {VIDEO: video, "emotion": CLASSES[video]},
            label=CLASSES[video],
        )
        for video, begin, end in _runs(path)
        if video in CLASSES
    ]


def _runs(path: Path) -> Iterator[tuple[int, int, int]]:
    """Give (video, begin, end), in rows, of each stretch of one video."""
    with files.open_input(path) as file:
        next(file)
        cells = (line.rpartition(b",")[2].strip() for line in file if line.strip())
        begin = 0
        for cell, run in groupby(cells):
            end = begin + sum(1 for _ in run)
            yield int(cell) if cell.isdigit() else 0, begin, end
            begin = end


_FINDER = Finder(_find)
probe = _FINDER.probe
write = _FINDER.write
read_stream = _FINDER.read_stream
