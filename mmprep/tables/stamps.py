"""Stamps: from text to integer nanoseconds, never through a float.

Rules
-----
- Decimal text is read as decimal128 with the scale that makes its unscaled value nanoseconds (a
  second has 9 decimals), so the low 64 bits are the stamp. `1.595933810034E12` ms is exact.
- More decimals than nanoseconds can hold are rounded half to even.
- A unit is, in this order: given, named by the column, told by size (Unix time between 1990 and
  2100), told by the steps (the largest unit whose median step is at most 1.1 s, as no sensor
  is slower than about 1 Hz), seconds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation, localcontext
from fractions import Fraction
from itertools import pairwise
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmprep.errors import DataError, UsageError
from mmprep.tables.schema import TimeColumn
from mmprep.timebase import (
    NS_PER_S,
    BoolArray,
    IntArray,
    bursts_of,
    chunks_of,
    median_of,
    period_of,
    rounded_steps,
)

NULL_STAMP_NS = int(np.iinfo(np.int64).min)
"""Stands for a missing stamp in a `Stream`; `align` counts it as corrupt."""

DECIMALS = {"s": 9, "ms": 6, "us": 3, "ns": 0}
UNIT_NS = {unit: 10**power for unit, power in DECIMALS.items()}
UNIX_S = (631_152_000, 4_102_444_800)  # 1990 .. 2100
LARGEST_STEP_NS = 1_100_000_000
LONG_TABLE, ANNOTATION_STEP = 200, 60
FEW = 64
MAX_EXPONENT = 40  # a stamp of 10^40 units is no stamp; keeps `1e999999999` cheap

UNIT_WORDS = {
    "s": "s sec secs second seconds",
    "ms": "ms msec msecs millis millisecond milliseconds",
    "us": "us usec usecs micros microsecond microseconds µs μs",
    "ns": "ns nsec nsecs nanos nanosecond nanoseconds",
}
UNIT_OF = {word: unit for unit, words in UNIT_WORDS.items() for word in words.split()}
_NAMED_UNIT = re.compile(r"^(.*?)[\s_.\-]*[\[(]\s*([^\[\]()]+?)\s*[\])]\s*$")
_SUFFIX_UNIT = re.compile(r"^(?:(.*?)[\s_.\-]+)?([a-zµμ]+)$")

_TIME_WORDS = (
    "time timestamp timestamps t ts datetime date_time time_stamp unix unix_time unix_timestamp"
    " unixtime onset zeit zeitstempel 时间 时间戳"
)
TIME_NAMES = frozenset(_TIME_WORDS.split())
_TIME_PREFIX = re.compile(r"^(t|ts|time|timestamp)[\s_.\-]")
_ISO = re.compile(
    r"^\s*(\d{4})(?:-(?=\d\d-)|/(?=\d\d/)|\.(?=\d\d\.))(\d\d)[-/.](\d\d)"
    r"(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?)?\s*(Z|UTC|GMT|[+-]\d\d:?(?:\d\d)?)?\s*$",
    re.ASCII,
)
_DECIMAL = re.compile(r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$", re.ASCII)
_CLOCK = re.compile(r"^\s*(\d{1,3}):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?\s*$", re.ASCII)


def named_unit(name: str) -> tuple[str, str | None]:
    """Split a column name into its base and the unit in brackets, as `GSR [uS]`."""
    found = _NAMED_UNIT.match(name)
    return (found[1], found[2]) if found else (name, None)


def name_parts(name: str) -> tuple[str, str | None]:
    """Split the name of a time column into its base and time unit: `t_ms` -> (`t`, `ms`)."""
    base, unit = named_unit(name.strip().lower())
    if unit is not None:
        return base, UNIT_OF.get(unit)
    found = _SUFFIX_UNIT.match(base)
    if found and found[2] in UNIT_OF:
        return found[1] or "", UNIT_OF[found[2]]
    return base, None


def find_time(names: Sequence[str]) -> int | None:
    """Find the time column by its name: the first that is called time, timestamp, t, ..."""
    bases = [name_parts(name) for name in names]
    for index, (base, unit) in enumerate(bases):
        if base in TIME_NAMES or (not base and unit):
            return index
    for index, name in enumerate(names):
        if _TIME_PREFIX.match(name.strip().lower()):
            return index
    return None


def parse_ns(text: str, unit: str) -> int | None:
    """Read one stamp; the slow, obvious way.

    Returns
    -------
    int or None
        Nanoseconds: Unix time for `iso` (a time without zone as if it were UTC), from midnight for
        `clock`, else in the unit from the device's zero. None where the text is no stamp.
    """
    if unit == "iso":
        return _iso_ns(text)
    if unit == "clock":
        return _clock_ns(text)
    cut = text.strip()
    if not _DECIMAL.match(cut):  # Decimal also takes 1_000 and the digits of all scripts
        return None
    with localcontext() as context:
        context.prec = 100
        try:
            value = Decimal(cut)
            if not value.is_finite() or value.adjusted() > MAX_EXPONENT:
                return None
            whole = value.scaleb(DECIMALS[unit]).to_integral_value(ROUND_HALF_EVEN)
        except InvalidOperation:
            return None
    return _in_range(int(whole))


def _in_range(value_ns: int) -> int | None:
    return value_ns if abs(value_ns) < 1 << 63 else None


def _fraction_ns(digits: str | None) -> int:
    return int(Fraction(int(digits or "0"), 10 ** len(digits or "")) * NS_PER_S + Fraction(1, 2))


def _iso_ns(text: str) -> int | None:
    found = _ISO.match(text)
    if not found:
        return None
    year, month, day = int(found[1]), int(found[2]), int(found[3])
    try:
        days = int(np.datetime64(f"{year:04}-{month:02}-{day:02}", "D").astype(np.int64))
    except ValueError:
        return None
    hour, minute, second = (int(found[k] or 0) for k in (4, 5, 6))
    if hour > 23 or minute > 59 or second > 59:
        return None
    seconds = days * 86400 + hour * 3600 + minute * 60 + second - _zone_s(found[8])
    return _in_range(seconds * NS_PER_S + _fraction_ns(found[7]))


def _zone_s(zone: str | None) -> int:
    if zone is None or zone in ("Z", "UTC", "GMT"):
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    seconds = int(digits[:2]) * 3600 + int(digits[2:4]) * 60
    return -seconds if zone[0] == "-" else seconds


def _clock_ns(text: str) -> int | None:
    found = _CLOCK.match(text)
    if not found:
        return None
    hours, minutes, seconds = int(found[1]), int(found[2]), int(found[3] or 0)
    whole = hours * 3600 + minutes * 60 + seconds
    return whole * NS_PER_S + _fraction_ns(found[4]) if minutes < 60 and seconds < 60 else None


def has_zone(text: str) -> bool:
    """Say whether an ISO time names its zone."""
    found = _ISO.match(text)
    return bool(found and found[8])


@dataclass(frozen=True, slots=True)
class Judged:
    """A judgement on a time column, and the sentence that says what it rests on."""

    time: TimeColumn
    note: str | None


def judge(
    name: str,
    texts: Sequence[str],
    *,
    unit: str | None = None,
    tz: str | None = None,
    said: str | None = None,
) -> Judged:
    """Judge the unit of a time column and whether it is absolute.

    Parameters
    ----------
    name : str
        The column's name in the source.
    texts : sequence of str
        The first stamps of the file, in order, without missing ones.
    unit, tz : str, optional
        What the user said.
    said : str, optional
        The unit that the file says beside the name.
    """
    unit, evidence = (unit, "given") if unit else _judged_unit(name, texts, said)
    if not texts:
        return Judged(TimeColumn(unit, "empty", absolute=False, source_name=name), None)
    absolute, note = _is_absolute(texts, unit, tz)
    if evidence in ("size", "steps", "none"):
        why = {"size": "the size", "steps": "the steps", "none": "default"}[evidence]
        said = f"time column {name!r}: unit taken as {unit} ({why} of its values); --time-unit"
        said = said.replace("default of its values", "by default")
        note = f"{said} says otherwise" if note is None else f"{said} says otherwise; {note}"
    zone = tz if unit == "iso" and not has_zone(texts[0]) else None
    return Judged(TimeColumn(unit, evidence, absolute, name, tz=zone), note)


def _judged_unit(name: str, texts: Sequence[str], said: str | None) -> tuple[str, str]:
    for form, pattern in (("iso", _ISO), ("clock", _CLOCK)):
        if texts and pattern.match(texts[0]):
            return form, "name"
    named = said or name_parts(name)[1]
    if named:
        return named, "name"
    sized = _unit_by_size(texts[0]) if texts else None
    if sized:
        return sized, "size"
    stepped = _unit_by_steps(texts)
    return (stepped, "steps") if stepped else ("s", "none")


def _unit_by_size(text: str) -> str | None:
    for unit in DECIMALS:
        value_ns = parse_ns(text, unit)
        if value_ns is not None and UNIX_S[0] <= value_ns // NS_PER_S < UNIX_S[1]:
            return unit
    return None


def _unit_by_steps(texts: Sequence[str]) -> str | None:
    if any("." in text or "," in text for text in texts):
        return None
    values = [parse_ns(text, "ns") for text in texts]
    known = [value for value in values if value is not None]
    steps = [abs(b - a) for a, b in pairwise(known) if b != a]
    if not steps:
        return None
    step = median(steps)
    if len(known) < LONG_TABLE and step <= ANNOTATION_STEP:
        return None  # annotations every few seconds
    for unit, decimals in DECIMALS.items():
        if step * 10**decimals <= LARGEST_STEP_NS:
            return unit
    return None


def _is_absolute(texts: Sequence[str], unit: str, tz: str | None) -> tuple[bool, str | None]:
    if unit == "clock":
        return False, None
    if unit == "iso":
        if tz or has_zone(texts[0]):
            return True, None
        return False, "local times without a zone are kept as durations; --tz ZONE makes them UTC"
    value_ns = parse_ns(texts[0], unit)
    return value_ns is not None and UNIX_S[0] <= value_ns // NS_PER_S < UNIX_S[1], None


@dataclass(frozen=True, slots=True)
class StampReader:
    """Turn the cells of a time column into nanoseconds.

    Parameters
    ----------
    unit : str
        As in `TimeColumn`.
    type : pyarrow.DataType
        What the CSV parser makes of the cells; text where it cannot.
    tz : str, optional
        The zone of local times.
    offset_ns : int
        Added to each stamp (a start that the file's header gives).
    """

    unit: str
    type: pa.DataType
    tz: str | None = None
    offset_ns: int = 0

    def read(self, cells: pa.Array) -> tuple[IntArray, BoolArray]:
        """Read cells of `type`.

        Returns
        -------
        stamps_ns : [shape=(n,), int64, ns]
            0 where missing.
        is_valid : [shape=(n,), bool]
            False where the cell is missing, or no stamp that int64 nanoseconds can hold.
        """
        if pa.types.is_decimal(cells.type):
            stamps, valid = _decimal_ns(cells, self.unit)
        elif pa.types.is_timestamp(cells.type):
            stamps, valid = _timestamp_ns(cells, self.tz)
        else:
            stamps, valid = self._from_text(cells)
        return self._moved(stamps, valid)

    def from_ns(self, cells: pa.Array) -> tuple[IntArray, BoolArray]:
        """Take cells of int64 that are nanoseconds already; as `read`."""
        valid = cells.is_valid().to_numpy(zero_copy_only=False)
        stamps = np.frombuffer(cells.buffers()[1], np.int64)[: len(cells)]
        return self._moved(np.where(valid, stamps, 0), valid)

    def fault(self, text: str) -> str:
        """Say why a cell is no stamp."""
        if self.unit == "iso" and self.tz and parse_ns(text, "iso") is not None:
            return f"a local time that clocks in {self.tz} skip"
        return f"no time ({self.unit})"

    def _moved(self, stamps: IntArray, valid: BoolArray) -> tuple[IntArray, BoolArray]:
        return np.where(valid, stamps + self.offset_ns, 0) if self.offset_ns else stamps, valid

    def _from_text(self, cells: pa.Array) -> tuple[IntArray, BoolArray]:
        if self.unit in DECIMALS:
            for type_ in (self.type, pa.decimal128(38, DECIMALS[self.unit] + 9)):
                try:
                    return _decimal_ns(cells.cast(type_), self.unit)
                except pa.ArrowInvalid:
                    continue  # a cell is no decimal of that many digits
        return self._text_ns(cells)

    def _text_ns(self, cells: pa.Array) -> tuple[IntArray, BoolArray]:
        values = [None if text is None else parse_ns(text, self.unit) for text in cells.to_pylist()]
        valid = np.array([value is not None for value in values], dtype=np.bool_)
        stamps = np.array([value or 0 for value in values], dtype=np.int64)
        if self.unit == "iso":
            return self._zoned(cells, stamps, valid)
        return stamps, valid

    def _zoned(
        self, cells: pa.Array, stamps: IntArray, valid: BoolArray
    ) -> tuple[IntArray, BoolArray]:
        """Move local times to UTC; without a zone they don't mix with times that have one."""
        texts = cells.to_pylist()
        zoned = np.array([text is not None and has_zone(text) for text in texts], dtype=np.bool_)
        if self.tz is None:
            valid = valid & (zoned == (self.type.tz is not None))
            return np.where(valid, stamps, 0), valid
        moved, exists = _from_zone(pa.array(stamps).cast(pa.timestamp("ns")), self.tz)
        return np.where(zoned | ~valid, stamps, moved), valid & (zoned | exists)


def stamp_reader(
    unit: str, texts: Sequence[str], *, tz: str | None = None, offset_ns: int = 0
) -> StampReader:
    """Choose the fastest exact way to read a time column, by the first of its cells."""
    return StampReader(unit, _stamp_type(unit, texts), tz, offset_ns)


def _stamp_type(unit: str, texts: Sequence[str]) -> pa.DataType:
    if unit == "iso":
        zoned = bool(texts) and has_zone(texts[0])
        return pa.timestamp("ns", "UTC") if zoned else pa.timestamp("ns")
    if unit == "clock":
        return pa.string()
    digits = max(map(_n_decimals, texts[:FEW]), default=0)
    if digits <= DECIMALS[unit]:
        return pa.decimal128(19, DECIMALS[unit])
    return pa.decimal128(38, DECIMALS[unit] + 9)


def _n_decimals(text: str) -> int:
    whole, point, part = text.strip().partition(".")
    if point and whole.isdecimal() and part.isdecimal():  # nearly all; Decimal takes ten times that
        return len(part)
    try:
        exponent = Decimal(text.strip()).as_tuple().exponent
    except InvalidOperation:
        return 0
    return -exponent if isinstance(exponent, int) and exponent < 0 else 0


def _decimal_ns(cells: pa.Array, unit: str) -> tuple[IntArray, BoolArray]:
    scale = DECIMALS[unit]
    if cells.type.scale > scale:
        cells = pc.round(cells, ndigits=scale, round_mode="half_to_even")
        cells = cells.cast(pa.decimal128(38, scale))
    valid = cells.is_valid().to_numpy(zero_copy_only=False)
    words = np.frombuffer(cells.buffers()[1], dtype="<i8")
    words = words[2 * cells.offset : 2 * (cells.offset + len(cells))].reshape(-1, 2)
    low, high = words[:, 0], words[:, 1]
    fits = high == low >> 63
    valid = valid & fits
    return np.where(valid, low, 0), valid


def _timestamp_ns(cells: pa.Array, tz: str | None) -> tuple[IntArray, BoolArray]:
    valid = cells.is_valid().to_numpy(zero_copy_only=False)
    if cells.type.tz is None and tz:
        moved, exists = _from_zone(cells, tz)
        valid = valid & exists
        return np.where(valid, moved, 0), valid
    stamps = cells.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return stamps, valid


def _from_zone(cells: pa.Array, tz: str) -> tuple[IntArray, BoolArray]:
    """Move local times to UTC, and say which of them the zone has.

    Of an hour that a clock change repeats the first passage is taken.
    """
    try:
        moved = pc.assume_timezone(cells, tz, ambiguous="earliest", nonexistent="latest")
    except pa.ArrowInvalid as error:
        raise UsageError(
            f"no time zone {tz!r}", where="--tz", hint="name one as Asia/Shanghai"
        ) from error
    exists = pc.fill_null(pc.equal(pc.local_timestamp(moved), cells), fill_value=True)
    stamps = moved.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return np.asarray(stamps), np.asarray(exists.to_numpy(zero_copy_only=False))


def row_stamps(start_ns: int, rate_hz: Fraction, rows: IntArray) -> IntArray:
    """Give the stamps of rows that come at a rate: start_ns + round(row / rate), halves up.

    Parameters
    ----------
    rows : [shape=(n,), int64]
        Row numbers, >= 0.

    Returns
    -------
    [shape=(n,), int64, ns]
        Exact to the nanosecond, in integer arithmetic.
    """
    scaled, rate = NS_PER_S * rate_hz.denominator, rate_hz.numerator
    whole, rest = divmod(scaled, rate)
    last = int(rows[-1]) if rows.size else 0
    if last * max(whole, rate) >= 1 << 62:
        values = [start_ns + (2 * int(row) * scaled + rate) // (2 * rate) for row in rows]
        return np.array(values, dtype=np.int64)
    return start_ns + rows * whole + (2 * rows * rest + rate) // (2 * rate)


_NTSC, LARGEST_NTSC_HZ = Fraction(1000, 1001), 240  # a rate of pictures


class RateMeter:
    """Measure the rate of a stream from its stamps."""

    TOLERANCE = Fraction(5, 10_000)
    MIN_REGULAR = 0.8

    @classmethod
    def measure(cls, stamps_ns: IntArray) -> Fraction | None:
        """Measure the rate of regular stamps.

        Parameters
        ----------
        stamps_ns : [shape=(n,), int64, ns]
            In file order, without missing ones.

        Returns
        -------
        Fraction or None [Hz]
            1 / (mean of the steps within half of the median step), moved to a usual rate (whole,
            whole * 1000/1001, 1 / whole) within 500 ppm. None where fewer than 4 of 5 steps lie
            there: the stream is irregular. Of rows in bursts, those from the first to the last
            over the time between; None where that is not sure to 500 ppm.
        """
        period = period_of(stamps_ns)
        if math.isnan(period):
            return None
        bursts = bursts_of(stamps_ns, period)
        return cls._by_bursts(stamps_ns, bursts) if bursts.size else cls._by_steps(stamps_ns)

    @classmethod
    def _by_steps(cls, stamps_ns: IntArray) -> Fraction | None:
        rounded = rounded_steps(stamps_ns)
        if rounded.size:
            return cls.usual(Fraction(NS_PER_S * rounded.size, int(rounded.sum())))
        chunks = chunks_of(stamps_ns)
        steps = np.diff(stamps_ns if chunks is None else stamps_ns[chunks])
        rows = np.ones(1, dtype=np.int64) if chunks is None else np.diff(chunks)
        middle = median_of(steps / rows)
        if middle <= 0:
            return None
        regular = (steps >= 0.5 * middle * rows) & (steps <= 1.5 * middle * rows)
        n_regular = int(np.count_nonzero(regular))
        if n_regular < cls.MIN_REGULAR * steps.size:
            return None
        n_rows = n_regular if chunks is None else int(rows[regular].sum())
        return cls.usual(Fraction(NS_PER_S * n_rows, int(steps.sum(where=regular))))

    @classmethod
    def _by_bursts(cls, stamps_ns: IntArray, begin: IntArray) -> Fraction | None:
        """Measure from the first burst to the last, where they are far enough apart for that."""
        arrived = stamps_ns[begin]
        span_ns = int(arrived[-1] - arrived[0])
        steps = np.diff(arrived)
        scatter_ns = 3 * float(np.median(np.abs(steps - np.median(steps))))
        if scatter_ns > float(cls.TOLERANCE) * span_ns:
            return None
        return cls.usual(Fraction(NS_PER_S * int(begin[-1] - begin[0]), span_ns))

    @classmethod
    def is_usual(cls, rate_hz: Fraction) -> bool:
        """Say whether a rate is one that devices are made for: whole, NTSC, or one in seconds."""
        is_ntsc = rate_hz <= LARGEST_NTSC_HZ and (rate_hz / _NTSC).denominator == 1
        return is_ntsc or 1 in (rate_hz.denominator, rate_hz.numerator)

    @classmethod
    def usual(cls, measured_hz: Fraction) -> Fraction:
        """Move a measured rate to the nearest usual one within 500 ppm."""
        near = [Fraction(max(1, round(measured_hz))), Fraction(1, max(1, round(1 / measured_hz)))]
        if measured_hz <= LARGEST_NTSC_HZ:
            near.append(max(1, round(measured_hz / _NTSC)) * _NTSC)
        best = min(near, key=lambda rate: abs(rate - measured_hz))
        if abs(best - measured_hz) <= cls.TOLERANCE * measured_hz:
            return best
        return measured_hz.limit_denominator(1000)


def check_unit(unit: str | None) -> None:
    """Refuse a time unit that is none.

    Raises
    ------
    DataError
        Not one of s, ms, us, ns, iso, clock.
    """
    if unit is not None and unit not in {*DECIMALS, "iso", "clock"}:
        raise DataError(f"no time unit {unit!r}", hint="use s, ms, us, ns or iso")
