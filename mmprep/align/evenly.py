"""Lay the samples of a regular stream where its stamps lie on average, and say how sure that is.

Rules
-----
- The counter of a device's samples is a clock, and the stamps of about 2 s are a fix of it: their
  level, the stamp less what the counter says. The levels go through the smoother of clocks, so a
  counter that keeps straight is a line, and one that wanders is followed as far as its levels are
  sure. Over a hole that can't be counted through the level is forgotten and the rate kept.
- Scatter that is two-sided is averaged, without what lies beyond 4 sigma. Delays, which are
  one-sided (a sharp lower edge, or packets), lie above the clock: the level is their lower edge,
  2 x the lowest - the second lowest. Stamps cut to whole steps longer than a sample (whole
  seconds) lie below it by up to one step: the level is such that each sample lies within its step.
- A level is as sure as the scatter of its stamps makes it, or less where levels scatter more.
- Samples may lie evenly on the session clock or on the device's own. Both are tried, and weigh as
  much as they make the stamps likely. On the session clock an error of the clock's map is
  averaged along the stream, on the device's own it remains as it is.

References
----------
Robson, Whitlock, "Estimation of a truncation point", Biometrika 51 (1964).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from mmprep.align.counting import Counted, level_of, period_over
from mmprep.clock import Rows, evidence, robust_curve
from mmprep.timebase import NS_PER_S, BoolArray, FloatArray, IntArray, median_of, pieces

WALKS = tuple(math.pow(10, power) for power in range(-19, -10))
"""Walks of a counter's rate: what is faster is the lateness of stamps, not the device."""
FEW_BLOCKS = 16  # in which a counter that wanders can't be told from stamps that are late

_MAD = 1.4826
_CLIP = 4.0
_CUT = 1.5
_BLOCK_S = 2.0
_MAX_BLOCKS = 3000
_MIN_BLOCKS = 8
_NOISE_S = 0.3e-9  # of whole nanoseconds
_LITTLE = 0.005  # a share that isn't worth weighing
_WANDERS = 6.0  # standard deviations from a line


@dataclass(frozen=True, slots=True)
class Doubt:
    """How wrong a clock's map to the session clock may be.

    Parameters
    ----------
    origin_ns : int
        Nanoseconds of second 0 on the session clock.
    seconds : [shape=(k,), float64, s]
        Times on the session clock, rising.
    sigma_s : [shape=(k,), float64, s]
        The standard deviation of the map's error there.
    density : [shape=(k,), float64, s**3]
        The variance of its mean over T seconds is density / T, for a long T.
    """

    origin_ns: int
    seconds: FloatArray
    sigma_s: FloatArray
    density: FloatArray

    def since(self, origin_ns: int) -> Doubt:
        """Count the seconds from another origin."""
        seconds = self.seconds + (self.origin_ns - origin_ns) / NS_PER_S
        return replace(self, origin_ns=origin_ns, seconds=seconds)


@dataclass(frozen=True, slots=True)
class Laid:
    """Where samples lie.

    Parameters
    ----------
    seconds : [shape=(n,), float64, s]
    knot_index, knot_s, sigma_s : [shape=(k,), float64]
        Some sample numbers, their times, and the standard deviation of the times' error, s.
    wanders : [shape=(n_stretches,), bool]
        Stretches that are more than a line.
    estimate : str
        `mean`, `envelope` or `cut`: see the rules.
    """

    seconds: FloatArray
    knot_index: FloatArray
    knot_s: FloatArray
    sigma_s: FloatArray
    wanders: BoolArray
    estimate: str


def lay(
    stamps_s: FloatArray,
    counted: Counted,
    *,
    step_s: float,
    drift_s: FloatArray | None = None,
    doubt: Doubt | None = None,
) -> Laid:
    """Lay samples evenly.

    Parameters
    ----------
    stamps_s : [shape=(n,), float64, s]
        On the session clock, from an origin near the data.
    counted : Counted
    step_s : float
        The step that all stamps are whole multiples of.
    drift_s : [shape=(n,), float64, s], optional
        What the session clock is ahead of the device's own by, apart from a constant.
    doubt : Doubt, optional
        Of the map that gave `stamps_s`, from the same origin.
    """
    blocks = _cut(counted, step_s)
    estimate = _choose_estimate(stamps_s, counted, step_s)
    levels = _LEVELS[estimate]
    if estimate == "envelope" and max(counted.packet, counted.chunk) > 1:
        levels = _lowest  # rows that arrive together are no delays of their own
    level_s, variance = levels(level_of(stamps_s, counted), blocks.starts, step_s)
    if estimate == "mean":
        variance = variance * _excess(level_s, variance, blocks.stretch)
    variance = variance + _NOISE_S**2
    session = _Counter(stamps_s, counted, blocks, level_s, variance, estimate)
    if drift_s is None or np.ptp(drift_s) == 0:
        return session.laid(doubt)
    own_s = stamps_s - drift_s
    period_s = period_over(own_s, counted.index, counted.bounds, counted.period_s)
    paced = replace(counted, period_s=period_s)
    level_s, _ = levels(level_of(own_s, paced), blocks.starts, step_s)
    device = _Counter(own_s, paced, blocks, level_s, variance, estimate)
    share = 1 / (1 + math.exp(min(session.evidence - device.evidence, 700.0)))
    if share < _LITTLE:
        return session.laid(doubt)
    mapped = _mapped(device.laid(None), own_s, drift_s, doubt)
    return mapped if share > 1 - _LITTLE else _mixture(session.laid(doubt), mapped, share)


class _Blocks(NamedTuple):
    """Blocks of rows, (k,): first row, rows, stretch, mean sample number."""

    starts: IntArray
    n_rows: IntArray
    stretch: IntArray
    centre: FloatArray


def _cut(counted: Counted, step_s: float) -> _Blocks:
    """Cut stretches into blocks of about 2 s, of 16 rows or 64 packets or steps at least."""
    seconds = max(_BLOCK_S, 8 * step_s if step_s >= counted.period_s else 0.0)
    least = 64 * counted.packet if counted.packet > 1 else 16 * counted.chunk
    rows = max(seconds / counted.period_s, least, counted.index[-1] / _MAX_BLOCKS)
    parts = []
    for low, high in pairwise(counted.bounds.tolist()):
        number = counted.index[low:high] - counted.index[low]
        n_blocks = max(int((number[-1] + 1) / rows), min(_MIN_BLOCKS, (high - low) // least), 1)
        edges = np.linspace(0, number[-1] + 1, n_blocks + 1)[:-1]
        parts.append(low + np.unique(np.searchsorted(number, edges)))
    starts = np.concatenate(parts)
    n_rows = np.diff(np.append(starts, counted.index.size))
    centre = np.add.reduceat(counted.index.astype(np.float64), starts) / n_rows
    return _Blocks(starts, n_rows, np.repeat(np.arange(len(parts)), [*map(len, parts)]), centre)


class _Counter(NamedTuple):
    """The counter of a device's samples as a clock, with the levels of blocks as its fixes."""

    stamps_s: FloatArray
    counted: Counted
    blocks: _Blocks
    level_s: FloatArray
    variance: FloatArray
    estimate: str

    @property
    def evidence(self) -> float:
        """The logarithm of how likely the levels are."""
        return evidence(self._rows(self.variance), self._walks)

    def laid(self, doubt: Doubt | None) -> Laid:
        """Smooth the levels and read them at each sample; what the map may be wrong by is noise."""
        variance = self.variance
        if doubt is not None:
            begin_s = self.stamps_s[self.blocks.starts]
            density = np.interp(begin_s, doubt.seconds, doubt.density)
            variance = variance + density / (self.blocks.n_rows * self.counted.period_s)
        smooth = robust_curve(self._rows(variance), self._walks).smooth
        offset_s, sigma_s = smooth.offset_s + self._anchors, np.sqrt(smooth.offset_var)
        counted, centre = self.counted, self.blocks.centre
        return Laid(
            _through(self.blocks, counted, offset_s, smooth.drift),
            centre,
            counted.period_s * centre + offset_s,
            sigma_s,
            _wandering(self.blocks, offset_s, sigma_s),
            self.estimate,
        )

    @property
    def _walks(self) -> tuple[float, ...]:
        return WALKS if self.level_s.size >= FEW_BLOCKS else WALKS[:1]

    @property
    def _anchors(self) -> FloatArray:
        first = np.searchsorted(self.blocks.stretch, self.blocks.stretch)
        return self.level_s[first]

    def _rows(self, variance: FloatArray) -> Rows:
        """Lay levels out for the smoother, each stretch from its own first one."""
        counted, blocks = self.counted, self.blocks
        first = np.searchsorted(blocks.stretch, blocks.stretch)
        begins = counted.bounds[1:-1]
        pauses_s = self.stamps_s[begins] - self.stamps_s[begins - 1]
        return Rows(
            number=blocks.stretch,
            since_s=(blocks.centre - blocks.centre[first]) * counted.period_s,
            offset_s=self.level_s - self._anchors,
            excess_s=np.zeros(variance.size),
            variance=variance,
            anchors=[(0, 0)] * (begins.size + 1),
            line=0.0,
            pauses_s=np.maximum(pauses_s, counted.period_s),
        )


def _through(
    blocks: _Blocks, counted: Counted, offset_s: FloatArray, drift: FloatArray
) -> FloatArray:
    """Give the time of each row: the counter's, and its offset.

    The offset is cubic between the centres of blocks, straight on beyond.
    """
    seconds = np.empty(counted.index.size)
    for rows in pieces(seconds.size):
        row = np.arange(rows.start, min(rows.stop, seconds.size))
        block = np.searchsorted(blocks.starts, row, side="right") - 1
        index = counted.index[rows]
        since_s = (index - blocks.centre[block]) * counted.period_s
        left = np.where(since_s < 0, block - 1, block)
        right = np.minimum(left + 1, blocks.starts.size - 1)
        inside = (left >= 0) & (right > left)
        inside &= blocks.stretch[left] == blocks.stretch[right]
        offset = offset_s[block] + drift[block] * since_s
        left, right = left[inside], right[inside]
        width = blocks.centre[right] - blocks.centre[left]
        part = (index[inside] - blocks.centre[left]) / width
        rest = 1 - part
        offset[inside] = (
            offset_s[left]
            + part * part * (3 - 2 * part) * (offset_s[right] - offset_s[left])
            + width * counted.period_s * part * rest * (rest * drift[left] - part * drift[right])
        )
        seconds[rows] = counted.period_s * index + offset
    return seconds


def _wandering(blocks: _Blocks, offset_s: FloatArray, sigma_s: FloatArray) -> BoolArray:
    """Tell which stretches depart from a line by more than chance, (n_stretches,)."""
    found = np.zeros(blocks.stretch[-1] + 1, dtype=bool)
    bounds = np.searchsorted(blocks.stretch, np.arange(found.size + 1))
    for k, (low, high) in enumerate(pairwise(bounds.tolist())):
        if high - low > 2:
            number = blocks.centre[low:high] - blocks.centre[low:high].mean()
            off = offset_s[low:high] - offset_s[low:high].mean()
            off -= number * (float(np.sum(number * off)) / float(np.sum(number**2)))
            found[k] = np.abs(off).max() > _WANDERS * float(np.median(sigma_s[low:high]))
    return found


def _mapped(laid: Laid, own_s: FloatArray, drift_s: FloatArray, doubt: Doubt | None) -> Laid:
    """Take times on the device's own clock to the session clock by the map of the stamps."""
    known, drift_s = _rising(own_s, drift_s)
    seconds = np.empty_like(laid.seconds)
    for rows in pieces(seconds.size):
        seconds[rows] = laid.seconds[rows] + np.interp(laid.seconds[rows], known, drift_s)
    knot_s = laid.knot_s + np.interp(laid.knot_s, known, drift_s)
    sigma_s = laid.sigma_s
    if doubt is not None:
        sigma_s = np.hypot(sigma_s, np.interp(knot_s, doubt.seconds, doubt.sigma_s))
    return replace(laid, seconds=seconds, knot_s=knot_s, sigma_s=sigma_s)


def _rising(at: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Put places in order, each once, with their values."""
    if np.all(at[1:] > at[:-1]):
        return at, values
    known, first = np.unique(at, return_index=True)
    return known, values[first]


def _mixture(session: Laid, device: Laid, share: float) -> Laid:
    """Average both, where stamps hardly tell them apart; `share` is that of the device."""
    rest = 1 - share
    apart_s = device.knot_s - session.knot_s
    variance = rest * session.sigma_s**2 + share * device.sigma_s**2 + share * rest * apart_s**2
    return replace(
        session,
        seconds=rest * session.seconds + share * device.seconds,
        knot_s=rest * session.knot_s + share * device.knot_s,
        sigma_s=np.sqrt(variance),
        wanders=session.wanders & device.wanders,
    )


# Levels -------------------------------------------------------------------------------------------


# Each gives the levels of blocks and their variance, and has the rows' levels for its own.
_Levels = tuple[FloatArray, FloatArray]


def _means(level: FloatArray, starts: IntArray, step_s: float) -> _Levels:
    """Average what is within 4 sigma of each block's median."""
    del step_s
    off, first = level, level[starts]
    for group in _groups(starts, level.size):
        off[group.rows] -= np.repeat(_medians(off[group.rows], group), group.size)
    limit = _CLIP * _MAD * median_of(np.abs(off))
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


def _lowest(level: FloatArray, starts: IntArray, step_s: float) -> _Levels:
    del step_s
    lowest = np.minimum.reduceat(level, starts)
    return lowest, _spread(lowest)


def _edges(level: FloatArray, starts: IntArray, step_s: float) -> _Levels:
    """Find the edge that delays begin at: one more step like that between the lowest two."""
    del step_s
    lowest = np.minimum.reduceat(level, starts)
    for group in _groups(starts, level.size):
        part = level[group.rows]
        part[part <= np.repeat(lowest[group.blocks], group.size)] = np.inf
    second = np.minimum.reduceat(level, starts)
    edge = np.where(np.isfinite(second), 2 * lowest - second, lowest)
    return edge, _spread(edge)


def _middle(level: FloatArray, starts: IntArray, step_s: float) -> _Levels:
    low, high = np.minimum.reduceat(level, starts), np.maximum.reduceat(level, starts)
    middle = (low + high + step_s) / 2
    return middle, _spread(middle) + (step_s - (high - low)) ** 2 / 12


def _spread(level: FloatArray) -> FloatArray:
    """Judge the noise of levels by their steps, (k,)."""
    step = np.diff(level) ** 2
    limit = 25 * float(np.median(step)) if step.size else 0.0
    noise = float(np.mean(np.minimum(step, limit))) / 2 if step.size else 0.0
    return np.full(level.size, noise)


def _excess(level: FloatArray, noise: FloatArray, stretch: IntArray) -> float:
    """Say how many times more levels differ from their neighbours than their noise explains."""
    same = np.diff(stretch) == 0
    if same.sum() < _MIN_BLOCKS or not noise.any():
        return 1.0
    square = np.diff(level)[same] ** 2 / np.maximum(noise[1:] + noise[:-1], 1e-300)[same]
    return max(float(np.mean(np.minimum(square, 16.0))), 1.0)


_LEVELS: dict[str, Callable[[FloatArray, IntArray, float], _Levels]] = {
    "mean": _means,
    "envelope": _edges,
    "cut": _middle,
}


def _choose_estimate(stamps_s: FloatArray, counted: Counted, step_s: float) -> str:
    if step_s >= _CUT * counted.period_s:
        return "cut"
    if counted.packet > 1:
        return "envelope"
    level = level_of(stamps_s, counted)
    rows = min(max(int(4.0 / counted.period_s), 64), level.size)
    n_blocks = level.size // rows
    level = level[: n_blocks * rows]
    blocks = level.reshape(n_blocks, rows)
    for part in pieces(n_blocks * rows):
        some = blocks[part.start // rows : part.stop // rows]
        some -= np.median(some, axis=1, keepdims=True)
    return "envelope" if _is_delay(level) else "mean"


def _is_delay(values: FloatArray) -> bool:
    """Tell an exponential-like delay (sharp lower edge, long upper tail) from two-sided scatter.

    Quartile ratio: normal 1, exponential 1.7. Lower tail over lower quartile: normal 3.5,
    exponential 1.7, uniform 2. A share of late outliers leaves the quartiles as they are.
    """
    if values.size < 1000:
        return False
    edge, low, high = np.percentile(values, [1, 25, 75], overwrite_input=True)
    return bool(high > -1.35 * low and edge > 2.4 * low)
