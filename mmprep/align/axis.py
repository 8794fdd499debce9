"""Where each sample of a stream lies in time, and which samples stand beside a given time.

Rules
-----
- Times are float64 seconds from an integer origin that the owner keeps.
- A position is a time counted in samples: position 3.25 lies a quarter of the way from sample 3
  to sample 4. Between two samples time and position are tied by a straight line.
- A time within half a nanosecond of a sample is on it. At the ends of a run that holds up to
  `slack_s` outside of it, so that a grid which ends on the last sample doesn't lose it to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mmprep.errors import DataError
from mmprep.timebase import BoolArray, FloatArray, IntArray

STAMP_S = 0.5e-9
"""Stamps are whole nanoseconds: two times nearer than half of one are the same."""


class Axis(Protocol):
    """A strictly increasing map from sample number to seconds."""

    @property
    def n_samples(self) -> int:
        """The number of samples."""

    def seconds(self, begin: int, end: int) -> FloatArray:
        """Give the times of samples `[begin, end)`."""

    def positions(self, times_s: FloatArray) -> FloatArray:
        """Give the position of each time, clipped to `[0, n_samples - 1]`."""

    def steps(self, samples: IntArray) -> FloatArray | float:
        """Give the time from each sample to the next, 0 at the last."""


@dataclass(frozen=True, slots=True)
class StampAxis:
    """One stored time a sample.

    Parameters
    ----------
    stamps_s : [shape=(n,), float64, s]
        Strictly increasing.
    """

    stamps_s: FloatArray

    def __post_init__(self) -> None:
        if np.any(self.stamps_s[1:] <= self.stamps_s[:-1]):
            raise DataError("stamps must increase strictly")
        self.stamps_s.setflags(write=False)

    @property
    def n_samples(self) -> int:
        """The number of samples."""
        return self.stamps_s.size

    def seconds(self, begin: int, end: int) -> FloatArray:
        """Give the times of samples `[begin, end)`."""
        return self.stamps_s[begin:end]

    def positions(self, times_s: FloatArray) -> FloatArray:
        """Give the position of each time, clipped to `[0, n - 1]`."""
        if not (self.stamps_s.size and times_s.size):
            return np.zeros(times_s.shape)
        low, high = np.searchsorted(self.stamps_s, [times_s.min(), times_s.max()])
        low, high = max(int(low) - 1, 0), min(int(high) + 1, self.stamps_s.size)
        count = np.arange(low, high, dtype=np.float64)
        return np.interp(times_s, self.stamps_s[low:high], count)

    def steps(self, samples: IntArray) -> FloatArray:
        """Give the time from each sample to the next, 0 at the last."""
        following = np.minimum(samples + 1, self.stamps_s.size - 1)
        return np.asarray(self.stamps_s[following] - self.stamps_s[samples])


@dataclass(frozen=True, slots=True)
class KnotAxis:
    """Times known at some samples and on straight lines between them, as audio has them.

    Parameters
    ----------
    n_samples_ : int
    knot_index : [shape=(k,), float64]
        Sample numbers, strictly increasing, from 0 to n_samples - 1 or more; k >= 2. Two that
        follow one another are the samples on both sides of a break.
    knot_s : [shape=(k,), float64, s]
        Their times, strictly increasing.
    """

    n_samples_: int
    knot_index: FloatArray
    knot_s: FloatArray

    def __post_init__(self) -> None:
        if np.any(np.diff(self.knot_s) <= 0) or np.any(np.diff(self.knot_index) <= 0):
            raise DataError("knots must increase strictly")

    @property
    def n_samples(self) -> int:
        """The number of samples."""
        return self.n_samples_

    def seconds(self, begin: int, end: int) -> FloatArray:
        """Give the times of samples `[begin, end)`."""
        return np.interp(np.arange(begin, end, dtype=np.float64), self.knot_index, self.knot_s)

    def positions(self, times_s: FloatArray) -> FloatArray:
        """Give the position of each time, clipped to `[0, n - 1]`."""
        return np.minimum(np.interp(times_s, self.knot_s, self.knot_index), self.n_samples_ - 1.0)

    @property
    def rate_hz(self) -> float:
        """The mean rate between the knots, breaks left out."""
        index, seconds = np.diff(self.knot_index), np.diff(self.knot_s)
        inside = index > 1 if np.any(index > 1) else index > 0
        return float(index[inside].sum() / seconds[inside].sum())

    def steps(self, samples: IntArray) -> FloatArray | float:
        """Give the time from each sample to the next: the mean, but over a break."""
        breaks = np.flatnonzero(np.diff(self.knot_index) == 1)
        if not breaks.size:
            return 1 / self.rate_hz
        step = np.full(samples.shape, 1 / self.rate_hz)
        for at in breaks:
            step[samples == self.knot_index[at]] = self.knot_s[at + 1] - self.knot_s[at]
        return step


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The samples around each of m times.

    Parameters
    ----------
    left : [shape=(m,), int64]
        The last sample at or before the time, 0 where there is none.
    fraction : [shape=(m,), float64]
        How far the time lies from `left` to the next sample, `[0, 1)`.
    run : [shape=(m,), int64]
        The unbroken run that holds both neighbours (or the one sample that the time hits),
        -1 where there is none.
    """

    left: IntArray
    fraction: FloatArray
    run: IntArray

    @property
    def position(self) -> FloatArray:
        """The position of each time."""
        return self.left + self.fraction


def neighbours(axis: Axis, runs: IntArray, times_s: FloatArray, slack_s: float) -> Neighbours:
    """Find the two samples around each time and the run that holds them both.

    Parameters
    ----------
    runs : [shape=(n_runs + 1,), int64]
        Run r holds samples `[runs[r], runs[r + 1])`.
    times_s : [shape=(m,), float64, s]
        In any order.
    """
    if axis.n_samples == 0:
        nothing = np.zeros(times_s.shape, dtype=np.int64)
        return Neighbours(nothing, nothing.astype(np.float64), nothing - 1)
    position = axis.positions(times_s)
    left = position.astype(np.int64)
    right = np.minimum(left + 1, axis.n_samples - 1)
    fraction = position - left
    run, broken = _runs(runs, left, right)
    off_left, off_right, outside = _distances(axis, times_s, left, fraction)
    on_left = off_left <= np.where(broken | outside, slack_s, STAMP_S)
    on_right = ~on_left & (off_right <= np.where(broken, slack_s, STAMP_S))
    inside = on_left | on_right | ~(broken | outside)
    return Neighbours(
        np.where(on_right, right, left),
        np.where(on_left | on_right, 0.0, fraction),
        np.where(inside, run + (on_right & broken), -1),
    )


def _runs(runs: IntArray, left: IntArray, right: IntArray) -> tuple[IntArray, BoolArray]:
    """Give the run of each left neighbour, and whether the right one is in another."""
    if runs.size == 2:
        return np.zeros_like(left), np.zeros(left.shape, dtype=bool)
    run = np.searchsorted(runs, left, side="right") - 1
    return run, np.asarray(right >= runs[run + 1])


def _distances(
    axis: Axis, times_s: FloatArray, left: IntArray, fraction: FloatArray
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Give how far each time is from both neighbours, s, and whether it is outside of all."""
    step = axis.steps(left)
    last = axis.n_samples - 1
    early = axis.seconds(0, 1)[0] - times_s
    late = times_s - axis.seconds(last, last + 1)[0]
    outside = (early > 0) | (late > 0)
    off_left = np.where(outside, np.maximum(early, late), fraction * step)
    return off_left, np.where(outside, np.inf, (1 - fraction) * step), outside
