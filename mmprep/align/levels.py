"""Levels of blocks of stamps: where each lies apart from the scatter of its stamps, and how sure.

Rules
-----
- Scatter that is two-sided is averaged, without what lies beyond 4 sigma. Delays, which are
  one-sided (a sharp lower edge, or packets), lie above the clock: the level is their lower edge,
  2 x the lowest - the second lowest. Stamps cut to whole steps longer than a sample (whole
  seconds) lie below it by up to one step: the level is such that each sample lies within its step.
  Stamps without other scatter that are rounded to steps of a period or a few lie within half a step
  of it; a block in which they skip or repeat one tells it exactly, another to within what is left.
  Those that never skip or repeat are taken as exact.
- A level is as sure as the scatter of its stamps makes it, or less where levels scatter more.

References
----------
Robson, Whitlock, "Estimation of a truncation point", Biometrika 51 (1964).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from mmprep.align.counting import Counted, level_of
from mmprep.timebase import FloatArray, IntArray, median_of, pieces, some

_MAD = 1.4826
_CLIP = 4.0
_CUT = 1.5
_MIN_BLOCKS = 8
_COARSE_S = 1e-5
_ROWS_A_JUMP = 100
_JUMP = 0.01  # of a step: how far from where a stamp would jump the nearest sample may lie

# Each gives the levels of blocks and their variance, and has the rows' levels for its own.
Levels: TypeAlias = tuple[FloatArray, FloatArray]


def _means(level: FloatArray, starts: IntArray, step_s: float) -> Levels:
    """Average what is within 4 sigma of each block's median."""
    del step_s
    off, first = level, level[starts]
    for group in _groups(starts, level.size):
        off[group.rows] -= np.repeat(_medians(off[group.rows], group), group.size)
    limit = _CLIP * _MAD * median_of(np.abs(some(off)))
    shift, count, square = np.empty(starts.size), np.empty(starts.size), 0.0
    for group in _groups(starts, level.size):
        part, blocks = off[group.rows], group.blocks
        kept = np.abs(part) <= limit
        count[blocks] = np.add.reduceat(kept.astype(np.float64), group.starts)
        total = np.add.reduceat(np.where(kept, part, 0.0), group.starts)
        shift[blocks] = total / np.maximum(count[blocks], 1.0)
        square += float(np.sum((part - np.repeat(shift[blocks], group.size))[kept] ** 2))
    noise = square / max(float(count.sum()), 1.0)
    return first - off[starts] + shift, noise / np.maximum(count, 1.0)


class _Group(NamedTuple):
    """Some neighbouring blocks, and their rows; first rows are counted from the group's."""

    blocks: slice
    rows: slice
    starts: IntArray
    size: IntArray


def _groups(starts: IntArray, n_rows: int) -> Iterator[_Group]:
    """Go through blocks a piece at a time."""
    cuts = np.searchsorted(starts, [part.start for part in pieces(n_rows)])
    for low, high in pairwise(np.unique([*cuts, starts.size]).tolist()):
        edges = np.append(starts[low:high], starts[high] if high < starts.size else n_rows)
        rows = slice(int(edges[0]), int(edges[-1]))
        yield _Group(slice(low, high), rows, edges[:-1] - edges[0], np.diff(edges))


def _medians(level: FloatArray, group: _Group) -> FloatArray:
    medians = np.empty(group.starts.size)
    for size in np.unique(group.size):  # two or three, but for lost samples
        alike = group.size == size
        medians[alike] = np.median(level[group.starts[alike, None] + np.arange(size)], axis=1)
    return medians


def _lowest(level: FloatArray, starts: IntArray, step_s: float) -> Levels:
    del step_s
    lowest = np.minimum.reduceat(level, starts)
    return lowest, _spread(lowest)


def _edges(level: FloatArray, starts: IntArray, step_s: float) -> Levels:
    """Find the edge that delays begin at: one more step like that between the lowest two."""
    del step_s
    lowest = np.minimum.reduceat(level, starts)
    for group in _groups(starts, level.size):
        part = level[group.rows]
        part[part <= np.repeat(lowest[group.blocks], group.size)] = np.inf
    second = np.minimum.reduceat(level, starts)
    edge = np.where(np.isfinite(second), 2 * lowest - second, lowest)
    return edge, _spread(edge)


def _middle(level: FloatArray, starts: IntArray, step_s: float) -> Levels:
    low, high = np.minimum.reduceat(level, starts), np.maximum.reduceat(level, starts)
    middle = (low + high + step_s) / 2
    return middle, _spread(middle) + (step_s - (high - low)) ** 2 / 12


def _rounded(level: FloatArray, starts: IntArray, step_s: float) -> Levels:
    low, high = np.minimum.reduceat(level, starts), np.maximum.reduceat(level, starts)
    left = np.maximum(step_s - (high - low), 0.0)
    alike = starts.size / (1 + np.count_nonzero(left < step_s / 2))  # between two jumps: as one
    return (low + high) / 2, alike * left**2 / 12 + (step_s * _JUMP) ** 2


def _spread(level: FloatArray) -> FloatArray:
    """Judge the noise of levels by their steps, (k,)."""
    step = np.diff(level) ** 2
    limit = 25 * float(np.median(step)) if step.size else 0.0
    noise = float(np.mean(np.minimum(step, limit))) / 2 if step.size else 0.0
    return np.full(level.size, noise)


def excess(level: FloatArray, variance: FloatArray) -> float:
    """Say how many times more levels differ from their neighbours than their variance explains."""
    if level.size <= _MIN_BLOCKS or not variance.any():
        return 1.0
    square = np.diff(level) ** 2 / np.maximum(variance[1:] + variance[:-1], 1e-300)
    return max(float(np.mean(np.minimum(square, 16.0))), 1.0)


_LEVELS: dict[str, Callable[[FloatArray, IntArray, float], Levels]] = {
    "mean": _means,
    "envelope": _edges,
    "cut": _middle,
    "rounded": _rounded,
}


def levels_by(estimate: str, counted: Counted) -> Callable[[FloatArray, IntArray, float], Levels]:
    """Give the function that finds levels and their variances.

    It takes the stamps less what the counter says, the first row of each block, and the step that
    all stamps are whole multiples of.
    """
    if estimate == "envelope" and max(counted.packet, counted.chunk) > 1:
        return _lowest  # rows that arrive together are no delays of their own
    return _LEVELS[estimate]


def choose_estimate(stamps_s: FloatArray, counted: Counted, step_s: float) -> str:
    """Choose by the scatter of the stamps: `mean`, `envelope` or `cut`, see the rules."""
    if step_s >= _CUT * counted.period_s:
        return "cut"
    if counted.packet > 1:
        return "envelope"
    if step_s >= _COARSE_S and _is_rounded(level_of(stamps_s, counted), step_s):
        return "rounded"
    level = level_of(stamps_s, counted)
    rows = min(max(int(4.0 / counted.period_s), 64), level.size)
    n_blocks = level.size // rows
    level = level[: n_blocks * rows]
    blocks = level.reshape(n_blocks, rows)
    for part in pieces(n_blocks * rows):
        some = blocks[part.start // rows : part.stop // rows]
        some -= np.median(some, axis=1, keepdims=True)
    return "envelope" if _is_delay(level) else "mean"


def _is_rounded(level: FloatArray, step_s: float) -> bool:
    """Say whether stamps go from one step to the next at once, as a line does that is rounded."""
    n_jumps = 0
    for part in pieces(level.size):
        step = np.diff(level[part.start : part.stop + 1])
        n_jumps += int(np.count_nonzero(np.abs(step) > step_s / 2))
    return bool(0 < n_jumps < level.size / _ROWS_A_JUMP)


def _is_delay(values: FloatArray) -> bool:
    """Tell a delay (sharp lower edge, long upper tail) from two-sided scatter.

    Quartile ratio: normal 1, half-normal 1.34, exponential 1.7. Lower tail over lower quartile:
    normal 3.5, half-normal 1.9, exponential 1.7, uniform 2. A share of late outliers leaves the
    quartiles as they are. Even delays can't be told from even scatter.
    """
    if values.size < 1000:
        return False
    edge, low, high = np.percentile(values, [1, 25, 75], overwrite_input=True)
    skew = 1.18 + 5 / math.sqrt(values.size)
    return bool(high > -skew * low and edge > 2.4 * low)
