"""Polar Sensor Logger: a text file a stream, `Phone timestamp;sensor timestamp [ns];X [mg];...`.

Rules (files of a Polar Verity Sense; Polar's SDK, "Time system in Polar sensors")
-----
- The first line starts with `Phone timestamp;`; the columns after it say which stream it is, so a
  file may have any name.
- `Phone timestamp` is local time without a zone, in whole ms, and all streams have it: it is the
  time of the table. It follows the sensor's clock from the first sample on (the difference of the
  two stays within 1 ms), so nothing of the sensor's regularity is lost.
- `sensor timestamp [ns]` counts from 2000-01-01 on a clock that the app may or may not have set. It
  is kept as an exact integer; `--time "sensor timestamp [ns]"` takes it for the time, as UTC, in
  the files that have it.
- The app puts the model into a file's name, `Polar_Sense_ACC.txt`.
- Beats and markers come when they come; a heart rate of 0 means that there was no contact.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from mmprep import tables
from mmprep.errors import DataError, UsageError
from mmprep.sources import base
from mmprep.sources.base import OWN, Claim, Finder, Looks, TextOptions, beside, file_of
from mmprep.tables import stamps
from mmprep.tables.schema import Column
from mmprep.tables.text import TextTable

READER = "polar"
SUFFIXES = (".txt", ".csv")
EPOCH_NS = 946_684_800 * 10**9  # 2000-01-01
PHONE, SENSOR = "Phone timestamp", "sensor timestamp [ns]"
STAMP_ROWS = 200
UNCERTAIN = (
    "times are those of the sensor's clock, counted from 2000-01-01 as UTC: right only if the app"
    " had set it"
)

# Words of a header that tell the streams apart, the first match wins.
_STREAMS = {
    "ecg [uv]": "ECG",
    "x [mg]": "ACC",
    "x [dps]": "GYRO",
    "x [g]": "MAGN",
    "x [µt]": "MAGN",
    "x [ut]": "MAGN",
    "channel 0": "PPG",
    "pp-interval [ms]": "PPI",
    "rr-interval [ms]": "RR",
    "hr [bpm]": "HR",
    "temperature [celsius]": "TEMP",
    "marker start/stop": "MARKER",
}
_MODEL = re.compile(r"Polar_(H7|H9|H10|OH1|Verity_Sense|Sense)_")
_IRREGULAR = frozenset({"PPI", "RR", "MARKER"})


def claim(folder: str, names: Sequence[str], root: Path) -> list[Claim]:
    """Claim the files of a folder that have a header of the Polar Sensor Logger."""
    streams = {}
    for name in sorted(names):
        path = beside(folder, name)
        if name.lower().endswith(SUFFIXES) and (stream := stream_of(file_of(root, path))):
            streams[path] = stream
    return base.set_claims(READER, folder, streams)


def stream_of(path: Path) -> str | None:
    """Name the stream of a file by its header; None if it is none of this format."""
    lines = base.first_lines(path, 512)
    cells = [cell.strip().lower() for cell in lines[0].split(";")] if lines else []
    if len(cells) < 2 or cells[0] != PHONE.lower():
        return None
    return next((stream for word, stream in _STREAMS.items() if word in cells), "OTHER")


def _find(claim: Claim, root: Path, options: TextOptions) -> Looks:
    paths = {name: file_of(root, name) for name in claim.files}
    return {
        stream_of(path) or OWN: partial(_table, path, name, options) for name, path in paths.items()
    }


def _table(path: Path, where: str, options: TextOptions) -> TextTable:
    stream, lines = stream_of(path), base.first_lines(path, 1 << 15)
    if stream is None:
        raise DataError(f"no header of the Polar Sensor Logger ({PHONE};...)", where=where)
    header = [cell.strip() for cell in lines[0].split(";")]
    time_cell = _time_cell(header, options, where)
    cells = _cells(header, time_cell)
    layout = tables.Layout(
        path,
        where,
        cells,
        delimiter=";",
        n_preamble=1,
        header=lines[0].encode(),
        nulls=base.nulls_of(options),
        time_cell=time_cell,
    )
    texts = [row[time_cell].strip() for row in _rows(lines) if len(row) > time_cell]
    table = TextTable(
        layout,
        _columns(header, cells, time_cell),
        stamps.judge(header[time_cell], texts, unit="iso").time,
        irregular=stream in _IRREGULAR,
        kind="events" if stream == "MARKER" else "signal",
    )
    timed = _by_phone if header[time_cell] == PHONE else _by_sensor
    return timed(table, texts, options)


def _rows(lines: Sequence[str]) -> list[list[str]]:
    return [line.split(";") for line in lines[1:STAMP_ROWS] if line]


def _time_cell(header: Sequence[str], options: TextOptions, where: str) -> int:
    """Find the clock that `--time` names; files that lack it go by the phone's."""
    wanted = options.time if options.time in header else header[0]
    if wanted not in (header[0], SENSOR):
        raise UsageError(
            f"{wanted!r} is no time", where=where, hint=f'--time "{PHONE}" or "{SENSOR}"'
        )
    return header.index(wanted)


def device(path: Path, stream: str) -> str | None:
    """Name the model, where the app put it into the file's name."""
    found = _MODEL.match(path.name)
    return f"Polar {found[1].replace('_', ' ')}" if found else "Polar"


def _cells(header: Sequence[str], time_cell: int) -> tuple[str | None, ...]:
    """Name the cells: without units, and a name that comes again numbered."""
    cells: list[str] = []
    for name in header:
        plain = stamps.named_unit(name)[0]
        count = sum(stamps.named_unit(other)[0] == plain for other in header[: len(cells)])
        cells.append(f"{plain}_{count + 1}" if count else plain)
    taken: tuple[str, ...] = tuple(cells)
    return tuple(
        name if k == time_cell else tables.table_name(name, taken[:k])
        for k, name in enumerate(taken)
    )


def _columns(
    header: Sequence[str], cells: Sequence[str | None], time_cell: int
) -> tuple[Column, ...]:
    columns = []
    for k, (source, name) in enumerate(zip(header, cells, strict=True)):
        if k != time_cell and name is not None:
            is_text = source in {PHONE, header[0]} or source.startswith("Marker")
            kind = "string" if is_text else "null"
            columns.append(Column(name, kind, source, stamps.named_unit(source)[1]))
    return tuple(columns)


def _by_phone(table: TextTable, texts: Sequence[str], options: TextOptions) -> TextTable:
    judged = stamps.judge(PHONE, texts, tz=options.tz)
    reader = stamps.stamp_reader("iso", texts, tz=options.tz)
    notes = (judged.note,) if judged.note else ()
    time = replace(judged.time, unit="iso", evidence="given" if texts else "empty")
    return replace(table, layout=replace(table.layout, stamps=reader), time=time, notes=notes)


def _by_sensor(table: TextTable, texts: Sequence[str], options: TextOptions) -> TextTable:
    reader = stamps.stamp_reader("ns", texts, offset_ns=EPOCH_NS)
    time = replace(table.time, unit="ns", evidence="given", absolute=True)
    layout = replace(table.layout, stamps=reader)
    return replace(table, layout=layout, time=time, notes=(UNCERTAIN,))


_FINDER = Finder(_find, device=device)
probe = _FINDER.probe
write = _FINDER.write
device_of = _FINDER.device_of
read_stream = _FINDER.read_stream
