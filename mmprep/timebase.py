"""Time axes and the one rule that turns seconds into sample indices.

Rules
-----
- Times in files are integer nanoseconds; in the core they are float64 seconds from an origin that
  is kept as integer nanoseconds beside them. A float never holds Unix seconds.
- Rates are Fractions. Intervals are half-open, `[begin, end)`.
- `sample_index` owns the rounding from seconds to samples; nobody else rounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmprep.errors import ClockError, DataError, UsageError

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]

NS_PER_S = 1_000_000_000
MAX_DENOMINATOR = 1_000_000
MAX_RATE_HZ = 10_000_000
PIECE_ROWS = 1 << 15


def rate(value: str | float | Fraction, *, where: str | None = None) -> Fraction:
    """Read a rate as an exact fraction.

    Parameters
    ----------
    value : str, int, float or Fraction [Hz]
        `"30000/1001"`, `"128"`, `29.97`. A float becomes the nearest fraction with a denominator
        of at most 1 000 000.
    where : str, optional
        The option, for the message.

    Returns
    -------
    Fraction
        The rate in Hz, positive.

    Raises
    ------
    UsageError
        Not a positive number, or more than 10 MHz.
    """
    try:
        fraction = Fraction(value)
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        raise UsageError(f"rate {value!r} is not a number", where=where) from error
    if isinstance(value, float):
        fraction = fraction.limit_denominator(MAX_DENOMINATOR)
    if not 0 < fraction <= MAX_RATE_HZ:
        raise UsageError(f"rate {value!r} Hz is not between 0 and {MAX_RATE_HZ}", where=where)
    return fraction


def rate_text(rate_hz: Fraction) -> str:
    """Write a rate as `num/den`, the form of dataset.json."""
    return f"{rate_hz.numerator}/{rate_hz.denominator}"


def rate_number(rate_hz: Fraction) -> float:
    """Write a rate as the float of a record."""
    return rate_hz.numerator / rate_hz.denominator


def sample_index(time_s: float | Fraction, rate_hz: Fraction) -> int:
    """Round a time to the nearest sample index, halves up.

    Returns
    -------
    int
        floor(time_s * rate_hz + 1/2), computed exactly.
    """
    return math.floor(Fraction(time_s) * rate_hz + Fraction(1, 2))


def whole_samples(duration_s: Fraction, rate_hz: Fraction) -> int:
    """Count the samples of a duration that must hold a whole number of them.

    Raises
    ------
    UsageError
        duration_s * rate_hz is not whole.
    """
    n_samples = duration_s * rate_hz
    if n_samples.denominator != 1:
        raise UsageError(
            f"a window of {float(duration_s):g} s holds {float(n_samples):g} samples at"
            f" {float(rate_hz):g} Hz, not a whole number",
            hint="change --window or --rates so that window x rate is whole",
        )
    return n_samples.numerator


def pieces(n_rows: int) -> Iterator[slice]:
    """Cut rows so that what is computed of a piece stays in cache.

    Of a long stream each array on the way takes as much as its stamps do.
    """
    return (slice(begin, begin + PIECE_ROWS) for begin in range(0, n_rows, PIECE_ROWS))


@dataclass(frozen=True, slots=True)
class Grid:
    """A uniform time axis: sample i is at `start_s + i / rate_hz`."""

    start_s: Fraction
    rate_hz: Fraction
    n_samples: int

    def __post_init__(self) -> None:
        if self.n_samples < 0 or self.rate_hz <= 0:
            raise DataError(f"no grid of {self.n_samples} samples at {self.rate_hz} Hz")

    @property
    def duration_s(self) -> Fraction:
        """The span that the samples stand for, n_samples / rate_hz."""
        return self.n_samples / self.rate_hz

    def seconds(self, begin: int = 0, end: int | None = None) -> FloatArray:
        """Give the times of samples `[begin, end)`.

        Returns
        -------
        [shape=(end - begin,), float64, s]
            start_s + i / rate_hz; one rounding per value, so no error accumulates.
        """
        index = np.arange(begin, self.n_samples if end is None else end, dtype=np.float64)
        numerator, denominator = self.rate_hz.numerator, self.rate_hz.denominator
        return float(self.start_s) + index * denominator / numerator


@dataclass(frozen=True, slots=True)
class Timestamps:
    """A time axis with a stamp for each sample.

    Parameters
    ----------
    seconds : [shape=(n,), float64, s]
        Strictly increasing, finite.
    """

    seconds_: FloatArray

    def __post_init__(self) -> None:
        stamps = self.seconds_
        if stamps.ndim != 1 or not np.all(np.isfinite(stamps)) or np.any(np.diff(stamps) <= 0):
            raise DataError("stamps must be finite and strictly increasing")
        stamps.setflags(write=False)

    @property
    def n_samples(self) -> int:
        """The number of stamps."""
        return self.seconds_.size

    def seconds(self, begin: int = 0, end: int | None = None) -> FloatArray:
        """Give the times of samples `[begin, end)`, float64 seconds."""
        return self.seconds_[begin:end]


TimeAxis: TypeAlias = Grid | Timestamps


# Periods: how far apart the samples of a stream are, by its stamps alone.

_LAG = 1024
_MAD = 1.4826
_ALIKE = 1e-3  # steps inside a chunk are computed, not measured
_MOST = 1 << 20  # values in a median
_HEAD = 1000  # rows that tell of most streams that they are not rounded
COARSE = 0.3  # of a period: stamps rounded to more repeat and skip
_OFTEN = 0.2  # of the rows: fewer even repeats off a decimal grid are of rows that came twice
_FEWEST = 8  # odd steps, all over a stream, that are a habit
_MOST_ROWS = 200  # between two arrivals of chunks


def rows_a_chunk(stamps: IntArray | FloatArray) -> int:
    """Count the rows that are stamped by one arrival, 1 where there are no chunks."""
    chunks = chunks_of(stamps)
    return 1 if chunks is None else max(stamps.size // chunks.size, 1)


def chunks_of(stamps: IntArray | FloatArray) -> IntArray | None:
    """Find the rows at which chunks begin.

    Some senders stamp a chunk of rows by one arrival and space its rows evenly by the nominal
    rate (LSL does). Then hardly any step shows the jitter: only those between chunks do.

    Parameters
    ----------
    stamps : [shape=(n,)]
        In row order.

    Returns
    -------
    [shape=(k,), int64] or None
        The first rows of chunks, 0 first; None where there are no chunks.
    """
    middle = median_of(some_steps(stamps)) if stamps.size > 1 else 0.0
    at = _unlike_steps(stamps, middle)
    if not (middle > 0 and 2 < at.size <= stamps.size / 2):
        return None
    rows = np.diff(at)
    chunk = int(np.median(rows))
    is_even = np.mean(rows % chunk == 0) >= 0.8
    is_dense = chunk <= _MOST_ROWS and at.size * chunk >= (stamps.size - 1) / 2
    phase = (stamps[at + 1] - stamps[at]) / middle
    is_free = float(np.median(np.abs(phase - np.rint(phase)))) > 0.01  # lost rows leave whole steps
    return np.append(0, at + 1) if chunk > 1 and is_even and is_dense and is_free else None


def _unlike_steps(stamps: IntArray | FloatArray, middle: float) -> IntArray:
    """Find the steps that are not the middle one; where most are not, no more than tell that."""
    found, n_found = [np.empty(0, dtype=np.int64)], 0
    for part in pieces(stamps.size - 1):
        step = np.diff(stamps[part.start : part.stop + 1])
        found.append(part.start + np.flatnonzero(distances(step, middle) > _ALIKE * middle))
        n_found += found[-1].size
        if 2 * n_found > stamps.size:
            break
    return np.concatenate(found)


def some_steps(stamps: IntArray | FloatArray, lag: int = 1) -> IntArray | FloatArray:
    """Give the steps over some rows; of a long stream a million of them, evenly taken."""
    return np.asarray(some(stamps[lag:]) - some(stamps[:-lag]))


def some(values: IntArray | FloatArray) -> IntArray | FloatArray:
    """Take a million of a long stream's values, evenly, or all of a shorter one's."""
    return values[:: max(values.size // _MOST, 1)]


def distances(values: IntArray | FloatArray, middle: float) -> FloatArray:
    """Give |values - middle| of values that nobody needs again: floats are overwritten.

    Of a long stream each array counts.
    """
    off = np.asarray(values, dtype=np.float64)
    off -= middle
    return np.abs(off, out=off)


def median_of(values: IntArray | FloatArray) -> float:
    """Give the median of values that nobody needs again: they lose their order."""
    return float(np.median(values, overwrite_input=True))


def period_of(stamps: IntArray | FloatArray, nominal: float = math.nan) -> float:
    """Measure the period of a stream, robust against gaps, jumps, repeats, chunks and bursts.

    Parameters
    ----------
    stamps : [shape=(n,)]
        In row order, in any unit.
    nominal : float
        What the period should be, in the same unit.

    Returns
    -------
    float
        Where most steps are alike, the mean of those within half of their median; else the median
        over all rows of a span of 1024 rows, divided by 1024. Where the two differ, rows are lost
        or come in bursts: the nominal period tells, else whether bursts come evenly. NaN where
        nothing rises.
    """
    single, by_lag = _single_step(stamps), _lag_step(stamps)
    if math.isnan(single) or by_lag < 1.5 * single:
        rounded = rounded_steps(stamps)
        if rounded.size:
            return float(rounded.mean())
        return by_lag if math.isnan(single) else single
    if nominal > 0:
        return min(single, by_lag, key=lambda period: abs(math.log(period / nominal)))
    return by_lag if bursts_of(stamps, by_lag).size else single


def scatter_of(stamps: IntArray | FloatArray, period: float) -> float:
    """Measure how far steps scatter: 1.4826 x the median distance from their periods."""
    if stamps.size < 2 or not period > 0:
        return 0.0
    return _scatter(stamps, chunks_of(stamps), period, 1)


def lateness_of(stamps: IntArray | FloatArray, period: float) -> float:
    """Measure the scatter of steps over 1, 4 and 16 rows or chunks, and take the largest.

    Lateness that lasts for some rows hides from single steps.
    """
    heads = chunks_of(stamps)
    n_heads = stamps.size if heads is None else heads.size
    lags = [lag for lag in (1, 4, 16) if lag < n_heads / 4]
    return max((_scatter(stamps, heads, period, lag) for lag in lags), default=0.0)


def _scatter(
    stamps: IntArray | FloatArray, heads: IntArray | None, period: float, lag: int
) -> float:
    if heads is None:
        return _MAD * median_of(distances(some_steps(stamps, lag), period * lag))
    rows, step = heads[lag:] - heads[:-lag], stamps[heads[lag:]] - stamps[heads[:-lag]]
    return _MAD * median_of(np.abs(step - period * rows))


def _single_step(stamps: IntArray | FloatArray) -> float:
    chunks = chunks_of(stamps)
    step = math.nan if chunks is None else _mean_step(stamps[chunks], np.diff(chunks))
    return _mean_row(stamps) if math.isnan(step) else step


def _mean_step(stamps: IntArray | FloatArray, rows: IntArray) -> float:
    """Give the mean time a row of the steps that are alike; `rows` is how many each takes."""
    step = np.diff(stamps)
    single = step / rows
    middle = float(np.median(single))
    if not (middle > 0 and median_of(distances(single.copy(), middle)) <= middle / 4):
        return math.nan
    inside = (single >= middle / 2) & (single <= middle * 1.5)
    return float(step[inside].sum() / rows[inside].sum())


def _mean_row(stamps: IntArray | FloatArray) -> float:
    """Give the mean of the steps that are alike."""
    if stamps.size < 2:
        return math.nan
    middle = median_of(some_steps(stamps))
    if not (middle > 0 and median_of(distances(some_steps(stamps), middle)) <= middle / 4):
        return math.nan
    total, n_rows = 0.0, 0
    for part in pieces(stamps.size - 1):
        step = np.diff(stamps[part.start : part.stop + 1])
        inside = (step >= middle / 2) & (step <= middle * 1.5)
        total, n_rows = total + step[inside].sum(), n_rows + int(inside.sum())
    return float(total / n_rows)


def _lag_step(stamps: IntArray | FloatArray) -> float:
    if stamps.size < 2:
        return math.nan
    lag = min(_LAG, max(stamps.size // 4, 1))
    period = median_of(some_steps(stamps, lag)) / lag
    return period if period > 0 else math.nan


def rounded_steps(stamps: IntArray | FloatArray) -> FloatArray:
    """Give the steps of a stream whose stamps are rounded to about a period or more.

    Such stamps repeat, or skip a value, though no row came twice and none was lost: evenly, or so
    that repeats and skips make up for each other. Rows that come twice do neither, but where each
    so manieth comes twice; then the stamps are on no decimal grid as wide as their period.

    Returns
    -------
    [shape=(k,), float64]
        Steps from row to row, without those over three times the usual one; empty where equal
        stamps are repeats and long steps holes, or there are none.
    """
    nothing = np.empty(0)
    if not (_has_equal(stamps) or _is_coarse(np.diff(stamps[:_HEAD]))):
        return nothing
    step = np.diff(stamps)
    if not np.any(step > 0):
        return nothing
    usual = float(np.median(step[step > 0]))
    step = step[np.abs(step) <= 3 * usual]
    odd, is_coarse = step == 0, decimal_step(step) >= COARSE * usual
    if is_coarse:
        odd |= step > 1.5 * usual
    at = np.flatnonzero(odd)
    quarters = np.bincount(at * 4 // max(step.size, 1), minlength=4)
    if at.size < _FEWEST or quarters.min() < at.size / 10 or step.sum() <= 0:
        return nothing
    is_likely = is_coarse or at.size >= _OFTEN * step.size
    if is_likely and np.ptp(np.percentile(np.diff(at), [5, 95])) <= 2:
        return step.astype(np.float64)
    with_all, with_first = (_walk(part - part.mean()) for part in (step, step[step != 0]))
    return step.astype(np.float64) if with_all < with_first / 2 else nothing


def _has_equal(stamps: IntArray | FloatArray) -> bool:
    parts = pieces(stamps.size - 1)
    return any(not np.all(np.diff(stamps[part.start : part.stop + 1])) for part in parts)


def _is_coarse(step: IntArray | FloatArray) -> bool:
    return step.size > 0 and decimal_step(step) >= COARSE * float(np.median(np.abs(step)))


def decimal_step(step: IntArray | FloatArray) -> float:
    """Give what all steps are whole multiples of if that is a power of ten; else 0."""
    unit = int(np.gcd.reduce(step)) if step.size and step.dtype.kind == "i" else 0
    return float(unit) if unit and 10 ** (len(str(unit)) - 1) == unit else 0.0


def _walk(residual: FloatArray) -> float:
    """Measure how far a sum of residuals walks in a quarter of them."""
    level, lag = np.cumsum(residual), max(residual.size // 4, 1)
    return float(np.median(np.abs(level[lag:] - level[:-lag])))


def bursts_of(stamps: IntArray | FloatArray, period: float) -> IntArray:
    """Find the rows at which bursts begin: rows close together, as many and as often each time.

    Returns
    -------
    [shape=(k,), int64]
        Empty where rows do not arrive in bursts.
    """
    step = np.diff(stamps)
    begin = np.flatnonzero(step > 1.5 * period) + 1
    apart = (np.diff(begin), np.diff(stamps[begin]))
    is_even = begin.size > 8 and all(
        np.median(np.abs(one - np.median(one))) <= np.median(one) / 4 for one in apart
    )
    is_close = step.size > 0 and bool(np.median(step) < period / 2)
    return begin if is_even and is_close else np.empty(0, dtype=np.int64)


# Clock evidence: what a log says about a device clock, before any fit. The readers make these
# values and `clock` fits them.


def _one_length(name: str, *columns: IntArray) -> None:
    if any(column.shape != columns[0].shape or column.ndim != 1 for column in columns):
        shapes = ", ".join(str(column.shape) for column in columns)
        raise DataError(f"{name}: columns of one length needed, got {shapes}")
    for column in columns:
        column.setflags(write=False)


@dataclass(frozen=True, slots=True)
class Exchanges:
    """Two-way exchanges (PTP, NTP) of a device with the master.

    Parameters
    ----------
    t1_ns, t4_ns : [shape=(n,), int64, ns, master clock]
        The master sends the request and receives the answer.
    t2_ns, t3_ns : [shape=(n,), int64, ns, device clock]
        The device receives the request and sends the answer.
    """

    t1_ns: IntArray
    t2_ns: IntArray
    t3_ns: IntArray
    t4_ns: IntArray

    def __post_init__(self) -> None:
        _one_length("exchanges", self.t1_ns, self.t2_ns, self.t3_ns, self.t4_ns)


@dataclass(frozen=True, slots=True)
class Fixes:
    """Instants that were read on both clocks.

    Parameters
    ----------
    device_ns, reference_ns : [shape=(n,), int64, ns]
        The same instant on the device clock and on the reference clock.
    """

    device_ns: IntArray
    reference_ns: IntArray

    def __post_init__(self) -> None:
        _one_length("fixes", self.device_ns, self.reference_ns)


@dataclass(frozen=True, slots=True)
class HostFixes(Fixes):
    """Fixes of a host's time since boot: the reference counts from the same boot.

    They tell how fast the clock of the host runs, and relate it to no other host.
    """


@dataclass(frozen=True, slots=True)
class FrameLog:
    """Times of numbered frames on the reference clock.

    Parameters
    ----------
    frame : [shape=(n,), int64]
        The rank of the frame in its stream, from 0.
    time_ns : [shape=(n,), int64, ns]
        When it was taken, on the reference clock.
    """

    frame: IntArray
    time_ns: IntArray

    def __post_init__(self) -> None:
        _one_length("frame log", self.frame, self.time_ns)


Evidence: TypeAlias = Exchanges | Fixes | FrameLog

UNIX_NS = 10**17
"""Smaller stamps count from some other moment than 1970: as Unix time they were before 1973."""


def joined_evidence(logs: Sequence[Evidence], where: str) -> Evidence:
    """Put the logs of one clock together, in order of time.

    Raises
    ------
    ClockError
        They are not of one kind.
    """
    first = logs[0]
    if any(type(log) is not type(first) for log in logs) or isinstance(first, FrameLog):
        raise ClockError("the clock logs of its parts can't be put together", where=where)
    names = [field.name for field in fields(first)]
    found: Evidence = type(first)(
        *(np.concatenate([getattr(log, name) for log in logs]) for name in names)
    )
    return found
