"""Points: fixes with their expected errors; where they jump, and which of them are outliers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mmprep.errors import ClockError
from mmprep.timebase import NS_PER_S, BoolArray, FloatArray, IntArray

MIN_FIXES = 3  # of a segment beside others
MIN_EXCHANGES = 2  # their round trips tell which are off
USUAL = 10.0  # times the median radius that fixes may have
USUAL_EXCESS = 4.0  # of exchanges: what has more weighs little, and hides a jump as large
JUMP_S = 1e-3  # smaller steps are followed by the smoother
WANDER = 100e-6  # s/s, change of the rate that is no jump
MAX_DRIFT = 0.05  # s/s; beyond, one of the two columns is no clock or has another unit


class Points(NamedTuple):
    """Fixes in the order of session time, with what is expected of their errors.

    `sigma_s` is the standard deviation, `radius_s` an error that surprises nobody, `excess_s` how
    much longer than the least the round trip was (0 without round trips); all (n,).
    """

    source_ns: IntArray
    target_ns: IntArray
    sigma_s: FloatArray
    radius_s: FloatArray
    excess_s: FloatArray

    @property
    def has_round_trips(self) -> bool:
        """Whether these are exchanges, of which each tells how far it may be off."""
        return bool(self.excess_s.any())

    def at(self, chosen: IntArray | BoolArray) -> Points:
        """Give the fixes of an index or mask."""
        return Points(
            self.source_ns[chosen],
            self.target_ns[chosen],
            self.sigma_s[chosen],
            self.radius_s[chosen],
            self.excess_s[chosen],
        )


def seconds(difference_ns: IntArray) -> FloatArray:
    """Turn differences of stamps into float64 seconds; never used for stamps themselves."""
    return np.asarray(difference_ns, dtype=np.float64) / NS_PER_S


def offsets_s(source_ns: IntArray, target_ns: IntArray) -> FloatArray:
    """Give target - source, less that of the first fix."""
    offset_ns = target_ns - source_ns
    return seconds(offset_ns - offset_ns[0])


def median_slope(points: Points) -> float:
    """Give the median drift between neighbouring fixes, which jumps and outliers don't move."""
    step_s = seconds(np.diff(points.target_ns))
    change_s = seconds(np.diff(points.target_ns - points.source_ns))
    moved = step_s > 0
    return float(np.median(change_s[moved] / step_s[moved])) if moved.any() else 0.0


def segment_numbers(points: Points, slope: float | None = None) -> IntArray:
    """Give each fix the number of its segment; -1 marks outliers.

    Parameters
    ----------
    slope : float, optional
        The drift, where it is known better than neighbouring fixes tell it.

    Returns
    -------
    [shape=(n,), int64]
    """
    good = _is_plain(points, median_slope(points) if slope is None else slope)
    while True:
        number = np.full(good.size, -1)
        plain = points.at(good)
        number[good] = np.cumsum(_jumps(plain, median_slope(plain) if slope is None else slope))
        sizes = np.bincount(number[good])
        few = sizes < _least_sizes(points, sizes.size)
        if sizes.size == 1 or not few.any():
            return number
        # The smallest first: what it cut apart may belong together without it.
        good &= number != int(np.argmin(np.where(few, sizes, sizes.max() + 1)))


def _least_sizes(points: Points, n_segments: int) -> IntArray:
    """Say how many fixes make a segment; (n_segments,).

    An exchange with a usual round trip that is off shows a jump, or is a broken one if the next
    is not. There may be no next one at the ends.
    """
    if not points.has_round_trips:
        return np.full(n_segments, MIN_FIXES)
    least = np.full(n_segments, MIN_EXCHANGES)
    least[[0, -1]] = 1
    return least


def _is_plain(points: Points, slope: float) -> BoolArray:
    """Tell fixes of usual delay, and without one those near their neighbours, from outliers."""
    usual = float(np.median(points.radius_s))
    if points.has_round_trips:
        return np.asarray(points.radius_s <= USUAL_EXCESS * usual)
    plain = points.radius_s <= USUAL * usual
    offset_s = offsets_s(points.source_ns, points.target_ns)
    offset_s = offset_s - slope * seconds(points.target_ns - points.target_ns[0])
    if offset_s.size < 7:
        return plain
    windows = np.lib.stride_tricks.sliding_window_view(offset_s, 7)
    around_s = np.pad(np.median(windows, axis=1), 3, mode="edge")
    return plain & (np.abs(offset_s - around_s) <= points.radius_s + usual + JUMP_S / 2)


def _jumps(points: Points, slope: float) -> BoolArray:
    """Tell which fixes can't be reached from the one before without a jump."""
    step_s = seconds(np.diff(points.target_ns))
    change_s = seconds(np.diff(points.target_ns - points.source_ns)) - slope * step_s
    slack_s = points.radius_s[1:] + points.radius_s[:-1] + JUMP_S + WANDER * step_s
    return np.concatenate(([False], np.abs(change_s) > slack_s))


def check_usable(points: Points) -> None:
    """Refuse less than two fixes, or all at one instant."""
    if points.source_ns.size < 2:
        raise ClockError(
            f"{points.source_ns.size} usable fixes, at least 2 are needed",
            hint="a clock log names instants all along the recording",
        )
    if np.ptp(points.source_ns) == 0 or np.ptp(points.target_ns) == 0:
        raise ClockError("all fixes are at one instant, so the rate of the clock is unknown")


def check_related(points: Points, number: IntArray, slope: float | None = None) -> None:
    """Refuse columns that don't run together, whatever their numbers."""
    slope = median_slope(points.at(number >= 0)) if slope is None else slope
    if abs(slope) > MAX_DRIFT:
        raise ClockError(
            f"the offset of the clocks changes by {slope:.3g} s a second, at most {MAX_DRIFT} is"
            " believed of two clocks",
            hint="check the units and the order of the columns",
        )
    n_segments, n_used = int(number.max()) + 1, int(np.sum(number >= 0))
    if 2 * n_used < number.size or (n_segments > 1 and n_used < 2 * MIN_FIXES * n_segments):
        raise ClockError(
            f"{n_used} of {number.size} fixes agree with their neighbours, in {n_segments} pieces:"
            " the two clocks have no relation",
            hint="check that the log belongs to this device and this recording",
        )
