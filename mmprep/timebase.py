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
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmprep.errors import DataError, UsageError

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]

NS_PER_S = 1_000_000_000
MAX_DENOMINATOR = 1_000_000
MAX_RATE_HZ = 10_000_000


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
