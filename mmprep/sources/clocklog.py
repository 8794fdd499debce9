"""Clock logs: what a file says about the clock of a device, recognised by its header.

| header             | content                                                        | value     |
| ------------------ | -------------------------------------------------------------- | --------- |
| `t1 t2 t3 t4`      | PTP or NTP exchanges: master sends, device receives and sends, | Exchanges |
|                    | master receives                                                |           |
| `device reference` | instants read on both clocks                                   | Fixes     |
| `frame time`       | when a numbered frame was taken, on the reference clock        | FrameLog  |
| none               | lines of linuxptp's `ptp4l` or `phc2sys`                       | Fixes,    |
|                    |                                                                | HostFixes |

Rules
-----
- Columns are parted by tab, comma, semicolon or blanks, in any order, among others. Blank lines
  and lines with `#` are skipped; a `#` before the header is allowed.
- Decimal text becomes integer nanoseconds by decimal arithmetic, halves to even; never a float.
- The unit is the caller's `unit`, else the header's (`t1_us`, `t1[us]`), else judged. The clock
  with the larger numbers by their size, or, where that says nothing, by decimals and by the step
  from row to row; the other clock so that it runs at the same rate. A single row has no steps: a
  whole number that is no Unix time of 1990 to 2100 in any unit, nor 0, is in the unit of the other
  clock if that is clear; else it needs its unit named.
- linuxptp prints in ns by how much the clock that it steers is ahead of its master: reference =
  device - offset. The steered clock is that of the system (`phc2sys`, `ptp4l -S`) or of the network
  card (`ptp4l`); the log belongs to streams that are stamped by it. Summary lines (`rms ...`) are
  skipped.
- A line's time in brackets counts from the boot of the host and knows of no step. Where all lines
  begin with Unix time or a date with its zone, as `journalctl -o short-unix` writes them, that is
  the time of the device, and a step of the servo (`s1`) is a jump. Where they don't, the fixes are
  for streams stamped in time since boot (`HostFixes`): steps, which that clock doesn't make, are
  taken off the offsets.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from io import TextIOWrapper
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mmprep import files
from mmprep.errors import DataError, UsageError
from mmprep.sources.base import EXCHANGES, FIXES
from mmprep.timebase import Evidence, Exchanges, Fixes, FrameLog, HostFixes, IntArray

UNITS = {"s": 9, "ms": 6, "us": 3, "ns": 0}  # name -> power of ten in ns
INT64 = 2**63
_UNIX_S = (631_152_000, 4_102_444_800)  # 1990 to 2100

_LINUXPTP = re.compile(
    r"(?P<tool>ptp4l|phc2sys)(?:\[\d+\])?:?\s*\[(?P<time>\d+\.\d+)\]:?\s+"
    r"(?P<tag>\[[^\]]*\] )?(?P<clock>.*?)\s*\boffset\s+(?P<offset>[-+]?\d+)\s+s(?P<state>[0-3])\b"
)
_DATE = re.compile(
    r"(?:(?P<unix>\d{9,10}(?:\.\d+)?)|(?:[A-Z][a-z]{2} )?(?P<day>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)"
    r"(?P<part>[.,]\d+)? ?(?P<zone>Z|UTC|GMT|[-+]\d\d:?\d\d))\s"
)
_STEP, _LATE_NS = "1", 1_500_000_000  # state of the servo; how unevenly whole seconds are late
_LINUXPTP_LINE = re.compile(r"\b(?:ptp4l|phc2sys)\b")
_UNIT_OF_NAME = re.compile(r"\s*[_\[(](s|ms|us|ns)[\])]?$")


class _Text(NamedTuple):
    """The cells of the wanted columns, with the line of each row."""

    names: tuple[str, ...]
    units: tuple[str | None, ...]
    rows: list[tuple[str, ...]]
    lines: list[int]


class _Form(NamedTuple):
    """A kind of table: its columns, which clock each is read on, and what they become.

    Columns of one letter in `sides` share a clock and so a unit; `-` is a plain number.
    """

    columns: tuple[str, ...]
    sides: str
    value: Callable[..., Evidence]


_FORMS = (
    _Form(EXCHANGES, "mddm", Exchanges),
    _Form(FIXES, "dm", Fixes),
    _Form(("frame", "time"), "-m", FrameLog),
)


def read(path: Path, unit: str | None = None) -> Evidence:
    """Read a clock log.

    Parameters
    ----------
    path : Path
        A text file.
    unit : str, optional
        `s ms us ns`, of all its times; judged if absent.

    Returns
    -------
    Exchanges, Fixes or FrameLog
        Times in int64 ns.

    Raises
    ------
    DataError
        Nothing known, or a malformed line, named as file:line.
    UsageError
        Not a unit.
    """
    if unit is not None and unit not in UNITS:
        raise UsageError(f"unit {unit!r} of a clock log, expected one of {', '.join(UNITS)}")
    lines = list(_content(path))
    if not lines:
        raise DataError("the clock log is empty", where=str(path))
    if any(_LINUXPTP_LINE.search(line) for _, line in lines[:20]):
        return _linuxptp(path, lines)
    form, text = _table(path, lines)
    return form.value(*_columns(path, form, text, unit))


def _content(path: Path) -> Iterator[tuple[int, str]]:
    """Give the lines that say something, with their numbers; a header may follow a `#`."""
    with TextIOWrapper(files.open_input(path), "utf-8-sig", "replace") as file:
        for number, line in enumerate(file, 1):
            text = line.strip()
            if text.startswith("#") and _form_of(_cells(text[1:].strip())) is None:
                continue
            if text:
                yield number, text.lstrip("#").strip()


def _cells(line: str) -> list[str]:
    for delimiter in ("\t", ",", ";"):
        if delimiter in line:
            return [cell.strip().strip('"') for cell in line.split(delimiter)]
    return line.split()


def _plain_name(cell: str) -> str:
    return _UNIT_OF_NAME.sub("", cell.lower())


def _form_of(cells: Sequence[str]) -> _Form | None:
    names = {_plain_name(cell) for cell in cells}
    return next((form for form in _FORMS if names.issuperset(form.columns)), None)


def _table(path: Path, lines: list[tuple[int, str]]) -> tuple[_Form, _Text]:
    header = _cells(lines[0][1])
    form = _form_of(header)
    if form is None:
        raise DataError(
            f"no clock log begins with {lines[0][1][:60]!r}",
            where=f"{path}:{lines[0][0]}",
            hint="name the columns `t1 t2 t3 t4`, `device reference` or `frame time` in the first"
            " line, or give a log of ptp4l or phc2sys",
        )
    names = [_plain_name(cell) for cell in header]
    places = [names.index(name) for name in form.columns]
    found = [_UNIT_OF_NAME.search(header[place].lower()) for place in places]
    rows = [_row(path, line, places, len(header)) for line in lines[1:]]
    units = tuple(match[1] if match else None for match in found)
    return form, _Text(form.columns, units, rows, [number for number, _ in lines[1:]])


def _row(path: Path, line: tuple[int, str], places: list[int], n_cells: int) -> tuple[str, ...]:
    cells = _cells(line[1])
    if len(cells) != n_cells:
        raise DataError(f"{len(cells)} cells, the header has {n_cells}", where=f"{path}:{line[0]}")
    return tuple(cells[place] for place in places)


def _columns(path: Path, form: _Form, text: _Text, unit: str | None) -> list[IntArray]:
    values = [
        [_number(path, text, row, place) for row in range(len(text.rows))]
        for place in range(len(text.names))
    ]
    if len(text.rows) == 1 and unit is None:
        _check_single(path, form, text, values)
    powers = _powers(form, text, values, unit)
    return [
        _integers(path, text, column, power) for column, power in zip(values, powers, strict=True)
    ]


def _check_single(path: Path, form: _Form, text: _Text, values: list[list[Decimal]]) -> None:
    """Refuse a lone row in which the unit of a clock can only be guessed."""
    cells = [
        (name, side, unit, column[0])
        for name, side, unit, column in zip(text.names, form.sides, text.units, values, strict=True)
        if side != "-"
    ]
    clear = {side for _, side, unit, value in cells if unit or (value and _tells_its_unit(value))}
    for name, side, _, value in cells:
        if side not in clear and not (value == 0 or (clear and value < _UNIX_S[0])):
            raise DataError(
                f"{name} is {value}, and one row doesn't tell in which unit",
                where=f"{path}:{text.lines[0]}",
                hint=f"name it in the header, as {name}_ms, or give --clock NAME=FILE,unit=ms",
            )


def _tells_its_unit(value: Decimal) -> bool:
    if value != value.to_integral_value():
        return True
    low, high = _UNIX_S
    return any(low <= value.scaleb(power - 9) < high for power in UNITS.values())


def _number(path: Path, text: _Text, row: int, place: int) -> Decimal:
    cell = text.rows[row][place]
    try:
        value = Decimal(cell)
    except InvalidOperation:
        value = Decimal("nan")
    if not value.is_finite() or value.adjusted() > 18:
        raise DataError(
            f"{text.names[place]} is {cell!r}, expected a number of at most 19 digits",
            where=f"{path}:{text.lines[row]}",
        )
    return value


def _integers(path: Path, text: _Text, column: list[Decimal], power: int) -> IntArray:
    """Scale to integers, 64 bits, exactly but for halves of a nanosecond."""
    result = []
    for value, line in zip(column, text.lines, strict=True):
        scaled = int(value.scaleb(power).to_integral_value())
        if not -INT64 <= scaled < INT64:
            raise DataError(
                f"{value} is no time: beyond 64 bits of nanoseconds",
                where=f"{path}:{line}",
                hint="give the unit, as `--clock NAME=FILE,unit=us`",
            )
        result.append(scaled)
    return np.array(result, dtype=np.int64)


# --- units ----------------------------------------------------------------------------------------


def _powers(form: _Form, text: _Text, values: list[list[Decimal]], unit: str | None) -> list[int]:
    """Give each column the power of ten of its unit in nanoseconds; 0 for plain numbers."""
    columns = {side: values[form.sides.index(side)] for side in form.sides if side != "-"}
    judged: dict[str, int] = {}
    for side, named in zip(form.sides, text.units, strict=True):
        if side != "-" and (name := unit or named):
            judged[side] = UNITS[name]
    # The larger numbers say more about their unit.
    for side in sorted(columns, key=lambda side: _size(columns[side]), reverse=True):
        other = next((known for known in judged if known != side), None)
        if side not in judged and other is None:
            judged[side] = _power_by_size(columns[side])
        elif side not in judged and other is not None:
            judged[side] = _power_by_rate(columns[side], columns[other], judged[other])
    return [0 if side == "-" else judged[side] for side in form.sides]


def _size(column: Iterable[Decimal]) -> Decimal:
    return max((abs(value) for value in column), default=Decimal(0))


def _power_by_size(column: list[Decimal]) -> int:
    """Judge a unit: by size as Unix time, else by decimals, else by a step near a second."""
    size = _size(column)
    is_unix = size >= 10**9 and max(column) - min(column) < size / 5
    for limit, power in ((1e17, 0), (1e14, 3), (1e11, 6)):
        if size >= limit:
            return power
    if is_unix or any(value != value.to_integral_value() for value in column):
        return UNITS["s"]
    step = _step(column)
    if step == 0:
        return UNITS["s"]
    return min(UNITS.values(), key=lambda power: abs(math.log10(step) + power - 9))


def _power_by_rate(column: list[Decimal], other: list[Decimal], power: int) -> int:
    """Judge a unit so that the column runs as fast as the other one."""
    step, pace = _step(column), _step(other)
    if step == 0 or pace == 0:
        return _power_by_size(column) if any(map(_tells_its_unit, column)) else power
    wanted = power + math.log10(pace / step)
    return min(UNITS.values(), key=lambda power: abs(power - wanted))


def _step(column: list[Decimal]) -> float:
    steps = [abs(float(after - before)) for before, after in pairwise(column)]
    return float(np.median(steps)) if steps else 0.0


# --- linuxptp -------------------------------------------------------------------------------------


def _linuxptp(path: Path, lines: list[tuple[int, str]]) -> Fixes:
    found = [(line, match) for _, line in lines if (match := _LINUXPTP.search(line))]
    if not found:
        raise DataError(
            "no line of this linuxptp log holds an offset",
            where=str(path),
            hint="run ptp4l with `summary_interval` -1 or phc2sys with -u 0",
        )
    _check_one_clock(path, [match for _, match in found])
    boot_ns = np.array([_nanoseconds(match["time"]) for _, match in found], dtype=np.int64)
    offset_ns = np.array([int(match["offset"]) for _, match in found], dtype=np.int64)
    dates_ns = [_date_ns(line) for line, _ in found]
    if None not in dates_ns:
        device_ns = _dated(boot_ns, np.array(dates_ns, dtype=np.int64))
        return Fixes(device_ns, device_ns - offset_ns)
    steps_ns = np.where([match["state"] == _STEP for _, match in found], offset_ns, 0)
    before_ns = np.concatenate(([0], np.cumsum(steps_ns)[:-1]))
    return HostFixes(boot_ns, boot_ns - offset_ns - before_ns)


def _check_one_clock(path: Path, found: Sequence[re.Match[str]]) -> None:
    """Refuse the offsets of two clocks, or those that two instances of a tool tell."""
    clocks = list(dict.fromkeys(f"{match['tool']}: {match['clock']}" for match in found))
    tags = list(dict.fromkeys(match["tag"] for match in found if match["tag"] is not None))
    for names in (clocks, tags):
        if len(names) > 1:
            raise DataError(
                f"holds offsets of {len(names)} clocks: {', '.join(names[:4])}",
                where=str(path),
                hint="keep the lines of the clock that stamps the stream: grep CLOCK_REALTIME FILE",
            )


def _nanoseconds(text: str) -> int:
    return int(Decimal(text).scaleb(9).to_integral_value())


def _date_ns(line: str) -> int | None:
    """Read the date at the begin of a line as Unix time; None where there is none with a zone."""
    found = _DATE.match(line)
    if found is None:
        return None
    if found["unix"] is not None:
        return _nanoseconds(found["unix"])
    zone = found["zone"] if found["zone"][0] in "+-" else "+00:00"
    moment = datetime.fromisoformat(found["day"] + zone)
    part = "0" + (found["part"] or ".0").replace(",", ".")
    return int(moment.timestamp()) * 10**9 + _nanoseconds(part)


def _dated(boot_ns: IntArray, dates_ns: IntArray) -> IntArray:
    """Give the exact times since boot the dates of their lines, which may be whole seconds."""
    ahead_ns = dates_ns - boot_ns
    piece = np.concatenate(([0], np.cumsum(np.abs(np.diff(ahead_ns)) > _LATE_NS)))
    for k in range(int(piece[-1]) + 1):
        own = ahead_ns[piece == k]
        ahead_ns[piece == k] = own[0] + int(np.median(own - own[0]))
    return np.asarray(boot_ns + ahead_ns)
