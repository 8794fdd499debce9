"""Emotiv: CSV of TestBench and Xavier (one line of tags), and of EmotivPRO (tags, then names).

Rules (Emotiv's notes on the TestBench format; exports of EmotivPRO 2 and 3)
-----
- TestBench: `title:…, recorded:16.09.11 10.40.19, sampling:128, …, labels:COUNTER INTERPOLATED AF3
  …, chan:36, units:emotiv`, then rows. `recorded` is local, day.month.year; `timestamp started:`,
  where it stands, is ISO 8601 with a zone. Rows have no stamp: time is the start plus packet number
  / rate. COUNTER runs 0 .. 128 (129 values) or 0 .. 127; the first rows tell.
- One Emotiv unit is about one microvolt.
- EmotivPRO: `title:…, start timestamp:…, sampling rate:eeg_128;mot_64, …`, then
  `Timestamp,EEG.Counter,…`; Unix seconds. Each prefix (`EEG`, `MOT`, `POW`, …) is a stream of its
  own rate whose cells are empty in the rows of others; the columns without one are `Marker`.
- The stamps of EmotivPRO are kept; its counter only says how many packets are lost.
- INTERPOLATED that is not 0: the row was made up for a lost packet.
- Serial numbers and names of people in the tags are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from functools import partial
from pathlib import Path

from mmprep import tables, timebase
from mmprep.errors import DataError
from mmprep.sources.base import (
    Claim,
    Finder,
    Looks,
    Start,
    TextOptions,
    file_claims,
    file_of,
    first_lines,
    nulls_of,
    start_of,
    unix_ns,
)
from mmprep.tables import stamps
from mmprep.tables.packets import Cycle, find_cycle
from mmprep.tables.schema import Column, TimeColumn
from mmprep.tables.text import Counter, Padding, TextTable

READER = "emotiv"
SUFFIXES = (".csv", ".txt")
CLAIM_BYTES, HEAD_BYTES = 16 << 10, 256 << 10
TESTBENCH_CYCLE = Cycle(0, 128)

_TAG = r"(?:^|,)\s*{}\s*:\s*([^,]*)"
_LABELS = re.compile(r"(?:^|,)\s*labels\s*:\s*([^,]+)")
_SAMPLING = re.compile(r"\bsampling\s*:\s*(\d+(?:\.\d+)?)")
_RECORDED = re.compile(r"^(\d\d?)\.(\d\d?)\.(\d{2}|\d{4}) (\d\d?)\.(\d\d?)\.(\d\d?)$")
_RATE = re.compile(r"\b([A-Za-z]+)_(\d+(?:\.\d+)?)")
_ELECTRODE = re.compile(r"^(AF|Fp|FC|FT|F|CP|C|T|PO|P|O)(z|\d{1,2})$")
_TEXT = re.compile(r"^(Marker|PM\.|FE\.|MC\.|FAC\.)")


def claim(folder: str, names: Sequence[str], root: Path) -> list[Claim]:
    """Claim the files of a folder that a program of Emotiv wrote."""
    return file_claims(READER, folder, names, root, suffixes=SUFFIXES, knows=is_ours)


def is_ours(path: Path) -> bool:
    """Say whether the first two lines are those of TestBench or EmotivPRO."""
    return _form(first_lines(path, CLAIM_BYTES)) is not None


def device(path: Path, stream: str = "") -> str | None:
    """Name the model of the headset, where the tags have it."""
    lines = first_lines(path, CLAIM_BYTES)
    return (_tag(lines[0], "headset type") or _tag(lines[0], "headset")) if lines else None


def serial(path: Path, stream: str) -> str | None:
    """Give the serial number of the headset, where the tags have it."""
    lines = first_lines(path, CLAIM_BYTES)
    return _tag(lines[0], "headset serial") if lines else None


def _tag(line: str, name: str) -> str | None:
    found = re.search(_TAG.format(name), line)
    return found[1].strip() or None if found else None


@dataclass(frozen=True, slots=True)
class _File:
    """The first lines of a file."""

    path: Path
    where: str
    tags: str
    rows: list[list[str]]
    n_preamble: int

    def counters(self, cell: int) -> list[float]:
        """Give the first values of a counter, NaN where there is none."""
        return list(_numbers(row[cell] if len(row) > cell else "" for row in self.rows))

    def cells(self, names: Sequence[str]) -> tuple[str | None, ...]:
        """Give the cells of a row: its columns, and an empty one where lines end in a comma."""
        n_cells = len(self.rows[0]) if self.rows else len(names)
        if n_cells == len(names) + 1 and not self.rows[0][-1].strip():
            return (*names, None)
        if n_cells != len(names):
            raise DataError(
                f"{n_cells} cells, the header names {len(names)} columns",
                where=f"{self.where}:{self.n_preamble + 1}",
            )
        return tuple(names)

    def layout(self, names: Sequence[str], options: TextOptions) -> tables.Layout:
        """Give the layout of the file, without time."""
        return tables.Layout(
            self.path,
            self.where,
            cells=self.cells(names),
            delimiter=",",
            n_preamble=self.n_preamble,
            nulls=nulls_of(options),
        )


def _numbers(cells: Iterator[str]) -> Iterator[float]:
    for cell in cells:
        try:
            yield float(cell)
        except ValueError:
            yield float("nan")


def _form(
    lines: Sequence[str],
) -> Callable[[_File, Sequence[str], TextOptions], Looks] | None:
    """Tell which program wrote a file by its first two lines."""
    if len(lines) < 2 or ":" not in lines[0]:
        return None
    labels = _LABELS.search(lines[0])
    if labels and len(labels[1].split()) > 1 and _SAMPLING.search(lines[0]):
        return _testbench
    names = [name.strip() for name in lines[1].split(",")]
    is_pro = "Timestamp" in names and any(name.startswith("EEG.") for name in names)
    return _pro if is_pro and _tag(lines[0], "title") is not None else None


def _find(claim: Claim, root: Path, options: TextOptions) -> Looks:
    """Find the streams: `EEG`; of EmotivPRO those that the names have."""
    (name,) = claim.files
    path = file_of(root, name)
    lines = first_lines(path, HEAD_BYTES)
    form = _form(lines)
    if form is None:
        raise DataError("no header of Emotiv TestBench or EmotivPRO", where=name)
    n_preamble = 1 if form is _testbench else 2
    rows = [line.split(",") for line in lines[n_preamble:-1] if line.strip()]
    return form(_File(path, name, lines[0], rows, n_preamble), lines, options)


# --- TestBench -----------------------------------------------------------------------------------


def _testbench(file: _File, lines: Sequence[str], options: TextOptions) -> Looks:
    return {"EEG": partial(_testbench_table, file, options)}


def _testbench_table(file: _File, options: TextOptions) -> TextTable:
    labels = _LABELS.search(file.tags)
    sampling = _SAMPLING.search(file.tags)
    names = labels[1].split() if labels else []
    rate = options.rate_hz or timebase.rate(sampling[1] if sampling else "128")
    start = _start(file.tags, options.tz)
    layout = replace(file.layout(names, options), rate=tables.RateTime(rate, start.ns))
    cycle = find_cycle(file.counters(names.index("COUNTER"))) if "COUNTER" in names else None
    return TextTable(
        layout,
        tuple(Column(name, source_name=name, unit=_unit(name)) for name in names),
        TimeColumn("rate", absolute=start.absolute, tz=start.tz),
        rate_hz=rate,
        mend=Padding(",", len(layout.cells)) if layout.cells[-1] is None else None,
        counter=Counter("COUNTER", cycle or TESTBENCH_CYCLE, is_clock=True)
        if "COUNTER" in names
        else None,
        made_up="INTERPOLATED" if "INTERPOLATED" in names else None,
        notes=(start.note,) if start.note else (),
    )


def _unit(name: str) -> str | None:
    return "uV" if _ELECTRODE.match(name) else None


def _start(tags: str, tz: str | None) -> Start:
    try:
        started = datetime.fromisoformat(_tag(tags, "timestamp started") or "")
    except ValueError:
        return start_of(_recorded(_tag(tags, "recorded") or ""), tz)
    if started.tzinfo is None:
        return start_of(started, tz)
    return Start(unix_ns(started), absolute=True)


def _recorded(text: str) -> datetime | None:
    found = _RECORDED.match(text)
    if not found:
        return None
    day, month, year, hour, minute, second = (int(part) for part in found.groups())
    try:
        return datetime(year + 2000 if year < 100 else year, month, day, hour, minute, second)
    except ValueError:
        return None


# --- EmotivPRO -----------------------------------------------------------------------------------


def _pro(file: _File, lines: Sequence[str], options: TextOptions) -> Looks:
    names = [name.strip() for name in lines[1].split(",")]
    names = names[:-1] if not names[-1] else names
    if len(set(names)) < len(names):
        raise DataError("the header names a column twice", where=f"{file.where}:2")
    rates = {
        k.lower(): Fraction(v) for k, v in _RATE.findall(_tag(file.tags, "sampling rate") or "")
    }
    groups: dict[str, list[str]] = {}
    for name in names:
        if name != "Timestamp":
            groups.setdefault(_group(name), []).append(name)
    return {
        stream: partial(_pro_table, file, names, own, rates.get(stream.lower()), options)
        for stream, own in groups.items()
    }


def _group(name: str) -> str:
    if name == "OriginalTimestamp":
        return "EEG"
    return name.partition(".")[0] if "." in name else "Marker"


def _pro_table(
    file: _File,
    names: Sequence[str],
    own: Sequence[str],
    rate: Fraction | None,
    options: TextOptions,
) -> TextTable:
    stream, time_cell = _group(own[-1]), names.index("Timestamp")
    texts = tuple(row[time_cell].strip() for row in file.rows if len(row) > time_cell)
    judged = stamps.judge("Timestamp", texts, unit="s")
    called = [_called(name, stream) if name in own else name for name in names]
    plain = file.layout(called, options)
    channels = tuple(
        Column(called[names.index(name)], source_name=name, unit=_unit_of(name)) for name in own
    )
    counter = f"{stream}.Counter" if f"{stream}.Counter" in own else None
    cycle = find_cycle(file.counters(names.index(counter))) if counter else None
    return TextTable(
        replace(plain, time_cell=time_cell, stamps=stamps.stamp_reader("s", texts)),
        channels,
        judged.time,
        rate_hz=rate,
        irregular=stream == "Marker",
        kind="events" if stream == "Marker" else "signal",
        mend=Padding(",", len(plain.cells)) if plain.cells[-1] is None else None,
        counter=Counter("Counter", cycle) if counter else None,
        filled_only=True,
        made_up="Interpolated" if f"{stream}.Interpolated" in own else None,
        text=frozenset(c.name for c in channels if _TEXT.match(c.source_name)),
    )


def _called(name: str, stream: str) -> str:
    return tables.table_name(name.removeprefix(f"{stream}."))


def _unit_of(name: str) -> str | None:
    group, _, channel = name.partition(".")
    return _unit(channel) if group == "EEG" else None


_FINDER = Finder(_find, main="EEG", device=device, serial=serial)
streams = _FINDER.streams
probe = _FINDER.probe
write = _FINDER.write
device_of = _FINDER.device_of
read_stream = _FINDER.read_stream
