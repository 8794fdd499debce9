"""Give each row of a regular stream its sample number, counting the samples that were lost.

Rules
-----
- An interval after which the stamps stay late by k periods stands for k lost samples; a single
  late stamp does not.
- A stretch is what can be counted through: it ends at an interval of over 10 000 periods, or one
  after which the phase is in doubt (more than 0.3 period from a whole number).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mmprep.align.phase import MAX_LATE, lost_by_phase, period_by_phase, rows_needed
from mmprep.timebase import (
    BoolArray,
    FloatArray,
    IntArray,
    bursts_of,
    lateness_of,
    median_of,
    rows_a_chunk,
    scatter_of,
    some_steps,
)

MIN_ROWS = 16
MAX_HOLE = 10_000
MAX_PHASE = 0.3
SCATTERED = 0.15  # of a period: steps of one sample and of two are told apart one by one

_MAD = 1.4826
_GAP = 1.5
_PASSES = 12
_RECOUNTS = 3
_WHOLE = 0.01  # of a step: periods of whole steps are not rounded
_ROUNDED = 6**-0.5  # what rounding to steps of one adds to the scatter of intervals
_SURE = 5 * 1.25  # five times the standard error of the difference of two medians


@dataclass(frozen=True, slots=True)
class Counted:
    """Rows with sample numbers.

    Parameters
    ----------
    index : [shape=(n,), int64]
        Rising; a new stretch goes on with the next number.
    bounds : [shape=(n_stretches + 1,), int64]
        Stretch s holds rows `[bounds[s], bounds[s + 1])`.
    period_s, scatter_s, rounding_s : float
        The rounding of stamps is part of the scatter.
    packet, chunk : int
        Rows that arrive together, rows that were stamped by one arrival; 1 where there are none.
    n_unsure, window : int
        Holes that were found in scatter, and the rows that it takes to find one.
    """

    index: IntArray
    bounds: IntArray
    period_s: float
    packet: int
    chunk: int
    scatter_s: float
    rounding_s: float = 0.0
    n_unsure: int = 0
    window: int = 0


def count(
    stamps: FloatArray, period: float, *, step_s: float = 0.0, skips: bool = False
) -> Counted:
    """Give each row its sample number, counting the samples that are lost.

    How many are lost in a long hole takes a better period than neighbouring rows give.

    Parameters
    ----------
    step_s : float
        What stamps are rounded to: it adds to their scatter.
    skips : bool
        Rounding makes stamps skip values: steps longer by `step_s` are no holes.
    """
    how = _how(stamps, period, step_s, skips=skips)
    if how.by_phase:
        period = period_by_phase(stamps, period)
    counted = _counted(stamps, period, how)
    for _ in range(_RECOUNTS):
        before, period = _holes(counted.index), counted.period_s
        del counted  # two at once are too much of a long stream
        counted = _counted(stamps, period, how)
        if np.array_equal(before, _holes(counted.index)):
            break
    return counted


def _holes(index: IntArray) -> IntArray:
    """Give the rows before lost samples, and the steps that they take, [shape=(2, k)]."""
    step = np.diff(index)
    at = np.flatnonzero(step != 1)
    return np.stack([at, step[at]])


class _How(NamedTuple):
    """How stamps scatter: `late` in periods, by single steps and by some; see Counted."""

    scatter_s: float
    late: float
    packet: int
    chunk: int
    is_clear: bool
    rounding_s: float
    skip_s: float

    @property
    def by_phase(self) -> bool:
        is_single = self.packet == self.chunk == 1 and not self.skip_s
        return not self.is_clear and is_single and self.late <= MAX_LATE


def _how(stamps: FloatArray, period: float, step_s: float, *, skips: bool) -> _How:
    phase = step_s and period / step_s
    is_whole = abs(phase - round(phase)) <= _WHOLE and not skips
    rounding_s = 0.0 if is_whole else _ROUNDED * step_s
    scatter = max(scatter_of(stamps, period), rounding_s)
    packet = _packet_rows(stamps, period)
    is_clear = packet == 1 and scatter <= SCATTERED * period
    late = 0.0 if is_clear else max(lateness_of(stamps, period), rounding_s) / period
    skip_s = step_s if skips else 0.0
    return _How(scatter, late, packet, rows_a_chunk(stamps), is_clear, rounding_s, skip_s)


def _counted(stamps: FloatArray, period: float, how: _How) -> Counted:
    lost, doubt, window = _lost(stamps, period, how)
    n_unsure = int((lost > 0).sum()) if window else 0
    index = np.ones(stamps.size, dtype=np.int64)
    index[0] = 0
    index[1:] += lost
    del lost
    np.cumsum(index, out=index)
    bounds = np.concatenate([[0], np.flatnonzero(doubt) + 1, [stamps.size]])
    return Counted(
        index,
        bounds,
        period_over(stamps, index, bounds, period),
        how.packet,
        how.chunk,
        how.scatter_s,
        how.rounding_s,
        n_unsure=n_unsure,
        window=window,
    )


def _lost(stamps: FloatArray, period: float, how: _How) -> tuple[IntArray, BoolArray, int]:
    """Count the samples lost at each interval.

    Returns
    -------
    lost, doubt : [shape=(n - 1,)]
    window : int
        The rows that it takes to find a hole in scatter, 0 where there is no scatter.
    """
    if how.is_clear:
        return *_lost_by_steps(stamps, period), 0
    if how.by_phase:
        window = rows_needed(how.late)
        lost = lost_by_phase(stamps, period, late=how.late)
    else:
        window = 48 * how.packet if how.packet > 1 else how.chunk * _window(how.late)
        window = min(window, max(stamps.size // 4, 1))
        surely = _SURE * how.late * (how.chunk / window) ** 0.5
        least = 0.6 if how.packet > 1 else max(0.6, surely)
        least += how.skip_s / (how.packet * period)
        lost = _lost_in_scatter(stamps, period, window, how.packet, least)
    return lost, lost >= MAX_HOLE, window


def _lost_by_steps(stamps: FloatArray, period: float) -> tuple[IntArray, BoolArray]:
    """Count where a step of one sample and of two are told apart one by one."""
    step = np.diff(stamps)
    at = np.flatnonzero(step > _GAP * period)
    count, doubt = np.zeros(step.size, dtype=np.int64), np.zeros(step.size, dtype=bool)
    del step
    lost = level_steps(stamps, period, at) / period
    whole = np.maximum(np.rint(lost), 0)
    count[at] = whole.astype(np.int64)
    doubt[at] = (np.abs(lost - whole) > MAX_PHASE) | (whole > MAX_HOLE)
    return count, doubt


def _window(scatter: float) -> int:
    """Choose the rows whose median is sure to a twentieth of a period; scatter in periods."""
    return int(np.clip(500 * scatter**2, 16, 4096))


def _lost_in_scatter(
    stamps: FloatArray, period: float, rows: int, packet: int, least: float
) -> IntArray:
    """Count the samples lost at each interval of scattered stamps or packets.

    Holes close together hide each other, so those found are taken out and the search goes on.
    Holes of fewer than `least` samples or packets are not told from scatter.
    """
    lost = np.zeros(stamps.size - 1, dtype=np.int64)
    tilt = _rise(stamps - period * np.arange(stamps.size), rows, minimum=packet > 1)
    period += float(np.median(tilt)) / rows  # else the ends, which have less to compare, stand out
    for _ in range(_PASSES):
        index = np.concatenate([[0], np.cumsum(1 + lost)])
        step = np.diff(stamps) - period * (1 + lost)
        rise = _rise(stamps - period * index, rows, minimum=packet > 1)
        rise -= np.median(rise)
        at, shift = _late_levels(rise, step, period * packet, rows, least)
        drops = np.where(_near(lost, rows), -rise, 0.0)
        back, drop = _late_levels(drops, -step, period * packet, rows, least)
        if at.size == back.size == 0:
            break
        np.add.at(lost, at, np.rint(shift).astype(np.int64) * packet)
        np.add.at(lost, back, -np.rint(drop).astype(np.int64) * packet)
        lost = np.maximum(lost, 0)
    return lost


def _packet_rows(stamps: FloatArray, period: float) -> int:
    """Count the rows that arrive together; 1 where rows come singly."""
    if median_of(some_steps(stamps)) >= period / 2:
        return 1
    begin = bursts_of(stamps, period)
    begin = begin if begin.size else np.flatnonzero(np.diff(stamps) > period / 2)
    return int(np.median(np.diff(begin))) if begin.size > 2 else 1


def level_steps(stamps: FloatArray, period: float, at: IntArray, rows: int = 16) -> FloatArray:
    """Measure by how much stamps stay late behind each of some intervals.

    Returns
    -------
    [shape=at.shape, float64, s]
        Median of up to `rows` levels (stamps less row times period) behind the interval less that
        of those before it; windows end at the neighbouring intervals.
    """
    if at.size == 0:
        return np.zeros(0)

    def levels(row: IntArray) -> FloatArray:
        row = np.clip(row, 0, stamps.size - 1)
        return np.asarray(stamps[row] - period * row)

    ahead = np.minimum(np.append(at[1:], stamps.size - 1) - at, rows)
    behind = np.minimum(at - np.append(-1, at[:-1]), rows)
    offsets = np.arange(rows)
    after = np.where(offsets < ahead[:, None], levels(at[:, None] + 1 + offsets), np.inf)
    before = np.where(offsets < behind[:, None], levels(at[:, None] - offsets), np.inf)
    return _row_medians(after, ahead) - _row_medians(before, behind)


def _row_medians(values: FloatArray, count: IntArray) -> FloatArray:
    """Take the lower median of the first `count` values of a row; the rest are infinite."""
    values = np.sort(values, axis=1)
    row = np.arange(values.shape[0])
    return np.asarray(values[row, (count - 1) // 2])


def _late_levels(
    rise: FloatArray, step: FloatArray, unit: float, rows: int, least: float
) -> tuple[IntArray, FloatArray]:
    """Find where scattered stamps become late for good, and by how many units.

    Returns
    -------
    at : [shape=(k,), int64]
        In each neighbourhood where the level rises by over `least` units, the longest of the
        intervals where it rises by 0.9 of the most.
    shift : [shape=(k,), float64]
        The rise there, in units, 1 at least.
    """
    raised = np.flatnonzero(rise > least * unit)
    apart = np.flatnonzero(np.diff(raised) > rows) + 1
    spans = [(int(part[0]), int(part[-1]) + 1) for part in np.split(raised, apart) if part.size]
    at = np.array([_hole(rise, step, low, high) for low, high in spans], dtype=np.int64)
    return at, np.maximum(rise[at] / unit, 1.0)


def _hole(rise: FloatArray, step: FloatArray, low: int, high: int) -> int:
    top = rise[low:high] >= 0.9 * rise[low:high].max()
    return low + int(np.argmax(np.where(top, step[low:high], -np.inf)))


def _near(lost: IntArray, rows: int) -> BoolArray:
    from scipy.ndimage import maximum_filter1d

    return np.asarray(maximum_filter1d(lost, 2 * rows + 1, mode="constant") > 0)


def _rise(level: FloatArray, rows: int, *, minimum: bool) -> FloatArray:
    """Give the level of `rows` rows behind each interval less that of those before it.

    The level of a stretch of rows is its median, or for packets its minimum: the packet that came
    quickest.
    """
    filtered = _filtered(level, rows, minimum=minimum)
    half = rows // 2
    number = np.arange(level.size - 1)
    behind = np.clip(number + 1 + half, 0, level.size - 1)
    before = np.clip(number + 1 - (rows - half), 0, level.size - 1)
    return np.asarray(filtered[behind] - filtered[before])


def _filtered(level: FloatArray, rows: int, *, minimum: bool) -> FloatArray:
    """Give the median or minimum of the rows around each; of many rows by sixteenths."""
    from scipy.ndimage import median_filter, minimum_filter1d  # 0.2 s to load

    step = max(rows // 16, 1)
    parts = np.pad(level, (0, -level.size % step), mode="edge").reshape(-1, step)
    if minimum:
        filtered = minimum_filter1d(parts.min(axis=1), -(-rows // step), mode="nearest")
    else:
        filtered = median_filter(np.median(parts, axis=1), -(-rows // step), mode="reflect")
    return np.repeat(filtered, step)[: level.size]


def level_of(stamps: FloatArray, counted: Counted) -> FloatArray:
    """Give the stamps less what the counter says, in one new array."""
    level = np.multiply(counted.index, counted.period_s, dtype=np.float64)
    return np.subtract(stamps, level, out=level)


def period_over(stamps: FloatArray, index: IntArray, bounds: IntArray, period: float) -> float:
    """Measure the period over the longest stretch: median slope between its halves."""
    longest = int(np.argmax(np.diff(bounds)))
    low, high = int(bounds[longest]), int(bounds[longest + 1])
    half = (high - low) // 2
    if half < MIN_ROWS // 2:
        return period
    rise = stamps[low + half : high] - stamps[low : high - half]
    rise /= index[low + half : high] - index[low : high - half]
    return median_of(rise)
