"""The curve through all segments: errors, walk and drift fitted to each other in turn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mmprep.clock.points import Points, seconds
from mmprep.clock.smoother import (
    DRIFT_RESET,
    WALKS,
    Series,
    Smooth,
    likely_walk,
    mean_likelihood,
    mixed,
    smoothed,
)
from mmprep.timebase import FloatArray, IntArray

MAX_SMOOTHED = 10_000  # fixes that are smoothed one by one; more are averaged in runs first
ROUNDS = 5
SWING = 3.0  # standard deviations that the drift doesn't change by in an ordinary walk
LEAN = 5.0  # standard deviations that the misses don't follow the excess by chance


class Rows(NamedTuple):
    """What is smoothed: the fixes of all segments in order, and times without fix in long gaps.

    Each segment has its anchor pair; `offset_s` is what its fixes depart from the line through
    the anchor, (target - source) - anchor offset - line * (source - anchor); `variance` is
    infinite where there is no fix.
    """

    number: IntArray
    since_s: FloatArray
    offset_s: FloatArray
    excess_s: FloatArray
    variance: FloatArray
    anchors: list[tuple[int, int]]
    line: float
    pauses_s: FloatArray

    def series(self, loose: FloatArray) -> Series:
        """Lay the rows out for the smoother; `loose` multiplies the walk, (n,)."""
        step_s = np.diff(self.since_s, prepend=self.since_s[0])
        starts = np.flatnonzero(np.diff(self.number, prepend=self.number[0]))
        keep = np.ones(step_s.size)
        step_s[starts], keep[starts] = self.pauses_s, 0.0
        return Series(step_s.tolist(), keep.tolist(), loose.tolist(), self.offset_s.tolist())


def rows_of(points: Points, number: IntArray) -> Rows:
    """Anchor the fixes of each segment and take the common line off."""
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    ends = np.append(starts[1:], number.size) - 1
    anchor_ns = points.source_ns[starts]
    offset_ns = points.target_ns[starts] - anchor_ns
    since_s = seconds(points.source_ns - anchor_ns[number])
    offset_s = seconds(points.target_ns - points.source_ns - offset_ns[number])
    weight = 1 / points.sigma_s**2
    line = _common_slope(number, since_s, offset_s, weight)
    values = np.stack((since_s, offset_s - line * since_s, points.excess_s))
    columns = _averaged(number, values, weight)
    pauses_s = seconds(points.target_ns[starts[1:]] - points.target_ns[ends[:-1]])
    anchors = list(zip(anchor_ns.tolist(), offset_ns.tolist(), strict=True))
    return Rows(*_with_gap_times(*columns), anchors, line, pauses_s)


def _common_slope(
    number: IntArray, since_s: FloatArray, offset_s: FloatArray, weight: FloatArray
) -> float:
    """Fit lines of one slope to all segments by weighted least squares."""
    total = np.bincount(number, weight)
    since_s = since_s - (np.bincount(number, weight * since_s) / total)[number]
    spread = float(np.sum(weight * since_s**2))
    return float(np.sum(weight * since_s * offset_s)) / spread if spread > 0 else 0.0


def _averaged(
    number: IntArray, values: FloatArray, weight: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Average runs of neighbours where there are more fixes than need be smoothed singly."""
    run = math.ceil(number.size / MAX_SMOOTHED)
    if run == 1:
        return number, values, weight
    within = np.arange(number.size) - np.searchsorted(number, number)
    starts = np.flatnonzero(within % run == 0)
    total = np.add.reduceat(weight, starts)
    return number[starts], np.add.reduceat(weight * values, starts, axis=1) / total, total


def _with_gap_times(
    number: IntArray, values: FloatArray, weight: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Put times without a fix into long gaps, so that the curve and its bound have knots there."""
    since_s = values[0]
    step_s = np.diff(since_s)
    same = np.diff(number) == 0
    gaps = np.flatnonzero(same & (step_s > 4 * np.median(step_s[same])))
    part = np.arange(1, 8) / 8
    at = np.repeat(gaps + 1, part.size)
    extra = np.zeros((values.shape[0], at.size))
    extra[0] = (since_s[gaps, None] + part * step_s[gaps, None]).ravel()
    values = np.insert(values, at, extra, axis=1)
    return np.insert(number, at, number[at]), *values, np.insert(1 / weight, at, np.inf)


def evidence(rows: Rows, walks: Sequence[float] = WALKS) -> float:
    """Give the log-likelihood of the rows, whichever of the walks the drift has."""
    weight = 1 / rows.variance
    return mean_likelihood(rows.series(np.ones(weight.size)), weight.tolist(), walks)


class Curve(NamedTuple):
    """The smoothed rows and the walk of the drift."""

    smooth: Smooth
    walk: float


def robust_curve(rows: Rows, walks: Sequence[float] = WALKS) -> Curve:
    """Smooth with the likeliest walk, fitting in turn errors and walk to what is seen.

    The errors of all are widened to the scatter about the curve, and of outliers more. Where the
    drift changed by more than the walk explains, as when a device warms up, it may walk faster.
    """
    loose, weight, near = np.ones(rows.number.size), 1 / rows.variance, None
    for _ in range(ROUNDS):
        series = rows.series(loose)
        walk = likely_walk(series, weight.tolist(), near, walks)
        smooth = smoothed(series, weight.tolist(), walk)
        rows = _without_lean(rows, weight, smooth)
        weight = _seen_weight(rows, weight, smooth)
        swings = _swings(series, weight, smooth, walk) > SWING
        loose, near = loose * np.where(swings, 10.0, 1.0), None if swings.any() else walk
    return Curve(*mixed(rows.series(loose), weight.tolist(), walks))


def _without_lean(rows: Rows, weight: FloatArray, smooth: Smooth) -> Rows:
    """Take off the part of the misses that goes with the excess.

    Where only one way is busy, an exchange with the excess e is wrong by e / 2, always to the
    same side. The share is fitted, and left alone unless it is beyond chance.
    """
    total = float(np.sum(weight * rows.excess_s**2))
    if total < LEAN**2:
        return rows
    lean = float(np.sum(weight * rows.excess_s * (rows.offset_s - smooth.offset_s))) / total
    if abs(lean) * math.sqrt(total) < LEAN:
        return rows
    return rows._replace(offset_s=rows.offset_s - lean * rows.excess_s)


def _seen_weight(rows: Rows, weight: FloatArray, smooth: Smooth) -> FloatArray:
    """Judge the errors anew from the misses: their common scale, a floor, the outliers, (n,)."""
    pull = np.minimum(weight * smooth.offset_var, 0.9)  # the curve follows each fix a little
    square = (rows.offset_s - smooth.offset_s) ** 2 / (1 - pull)
    # Fixes without round trips have no best ones among them.
    variance = rows.variance + (_floor(rows.variance, square) if rows.excess_s.any() else 0.0)
    clipped = np.minimum(square / variance, 9.0)[np.isfinite(variance)]
    # Never narrowed: a curve that runs through all fixes would prove them perfect.
    variance = variance * max(float(np.mean(clipped)), 1.0)
    outlying = np.minimum(1.0, 9.0 * variance / np.maximum(square, 1e-300))
    return np.asarray(outlying / variance, dtype=np.float64)


def _floor(variance: FloatArray, square: FloatArray) -> float:
    """Give the variance that the best tenth of the exchanges shows beyond what is expected."""
    best = np.argsort(variance, kind="stable")[: int(np.sum(np.isfinite(variance))) // 10]
    if best.size < 10:
        return 0.0
    ratio = np.mean(np.minimum(square[best] / variance[best], 9.0))
    if ratio < 1.5:
        return 0.0
    return max(float(np.mean(square[best]) - np.mean(variance[best])), 0.0)


def _swings(series: Series, weight: FloatArray, smooth: Smooth, walk: float) -> FloatArray:
    """Give the change of the drift around each row in standard deviations of the walk, (n,).

    Around means the smoother's own time constant, (1 / (weight a second * walk)) ** (1/4), to each
    side: a sudden change is spread over it.
    """
    step_s, keep, loose = (np.array(column) for column in series[:3])
    time_s = np.cumsum(step_s)
    rate = float(np.sum(weight)) / max(time_s[-1], 1e-9)
    side_s = (1 / (rate * walk)) ** 0.25
    begin = np.searchsorted(time_s, time_s - side_s)
    end = np.searchsorted(time_s, time_s + side_s, side="right") - 1
    spread = np.cumsum(walk * loose * step_s + DRIFT_RESET**2 * (1 - keep))
    expected = np.sqrt(np.maximum(spread[end] - spread[begin], 1e-300))
    swing: FloatArray = np.abs(smooth.drift[end] - smooth.drift[begin]) / expected
    return swing
