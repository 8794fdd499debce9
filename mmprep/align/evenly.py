"""Lay the samples of a regular stream where its stamps lie on average, and say how sure that is.

Rules
-----
- The counter of a device's samples is a clock, and the stamps of about 2 s are a fix of it: their
  level, the stamp less what the counter says. The levels go through the smoother of clocks, so a
  counter that keeps straight is a line, and one that wanders is followed as far as its levels are
  sure. Over a hole that can't be counted through the level is forgotten and the rate kept.
- Over a reset, or an interval of a second or more, the device may have begun anew at another
  phase: there, too, the level is forgotten where that makes the stamps likelier.
- Samples may lie evenly on the session clock or on the device's own. Both are tried, and weigh as
  much as they make the stamps likely. On the session clock an error of the clock's map is
  averaged along the stream, on the device's own it remains as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from mmprep.align.counting import Counted, level_of, period_over
from mmprep.align.levels import choose_estimate, excess, levels_by
from mmprep.clock import Rows, evidence, robust_curve
from mmprep.timebase import NS_PER_S, BoolArray, FloatArray, IntArray, pieces

WALKS = tuple(math.pow(10, power) for power in range(-19, -10))
"""Walks of a counter's rate: what is faster is the lateness of stamps, not the device."""
FEW_BLOCKS = 16  # in which a counter that wanders can't be told from stamps that are late

_BLOCK_S = 2.0
_MAX_BLOCKS = 3000
_MIN_BLOCKS = 8
_NOISE_S = 0.3e-9  # of whole nanoseconds
_LITTLE = 0.005  # a share that isn't worth weighing
_PAUSE_S, _PAUSE_PERIODS, _MAX_PAUSES = 1.0, 16.0, 32
_ANEW = -3.0  # log-likelihood: a phase is surer than the smoother's prior by 6, and often goes on
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
    stretch : [shape=(k,), int64]
        The stretch of each: between two of them nothing is known to go on.
    wanders : [shape=(n_stretches,), bool]
        Stretches that are more than a line.
    estimate : str
        `mean`, `envelope` or `cut`: see the rules.
    """

    seconds: FloatArray
    knot_index: FloatArray
    knot_s: FloatArray
    sigma_s: FloatArray
    stretch: IntArray
    wanders: BoolArray
    estimate: str


def lay(
    stamps_s: FloatArray,
    counted: Counted,
    *,
    step_s: float,
    resets: IntArray | None = None,
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
    resets : [shape=(m,), int64], optional
        The first rows after resets of the device's clock.
    drift_s : [shape=(n,), float64, s], optional
        What the session clock is ahead of the device's own by, apart from a constant.
    doubt : Doubt, optional
        Of the map that gave `stamps_s`, from the same origin.
    """
    joints = _joints(stamps_s, counted, resets)
    blocks = _cut(counted, joints, step_s)
    estimate = choose_estimate(stamps_s, counted, step_s)
    levels = levels_by(estimate, counted)
    level_s, variance = levels(level_of(stamps_s, counted), blocks.starts, step_s)
    if estimate == "mean":
        variance = variance * excess(level_s, variance)
    variance = variance + _NOISE_S**2
    stretch = np.searchsorted(counted.bounds[1:-1], blocks.starts, side="right")
    session = _Counter(stamps_s, counted, blocks, stretch, level_s, variance).parted(joints)
    if drift_s is None or np.ptp(drift_s) == 0:
        return session.laid(estimate, doubt)
    own_s = stamps_s - drift_s
    period_s = period_over(own_s, counted.index, counted.bounds, counted.period_s)
    paced = replace(counted, period_s=period_s)
    level_s, _ = levels(level_of(own_s, paced), blocks.starts, step_s)
    device = _Counter(own_s, paced, blocks, stretch, level_s, variance).parted(joints)
    share = 1 / (1 + math.exp(min(session.evidence - device.evidence, 700.0)))
    if share < _LITTLE:
        return session.laid(estimate, doubt)
    mapped = _mapped(device.laid(estimate, None), own_s, drift_s, doubt)
    return mapped if share > 1 - _LITTLE else _mixture(session.laid(estimate, doubt), mapped, share)


def _joints(stamps_s: FloatArray, counted: Counted, resets: IntArray | None) -> IntArray:
    """Give the rows where the device may have begun anew: after resets and long pauses."""
    step = np.diff(stamps_s)
    long = np.flatnonzero(step >= max(_PAUSE_S, _PAUSE_PERIODS * counted.period_s))
    pauses = long[np.argsort(-step[long], kind="stable")][:_MAX_PAUSES] + 1
    known = np.zeros(0, dtype=np.int64) if resets is None else resets[:_MAX_PAUSES]
    return np.setdiff1d(np.union1d(pauses, known), counted.bounds)


class _Blocks(NamedTuple):
    """Blocks of rows, (k,): first row, rows, mean sample number."""

    starts: IntArray
    n_rows: IntArray
    centre: FloatArray


def _cut(counted: Counted, joints: IntArray, step_s: float) -> _Blocks:
    """Cut rows into blocks of about 2 s, of 16 rows or 64 packets or steps at least."""
    seconds = max(_BLOCK_S, 8 * step_s if step_s >= counted.period_s else 0.0)
    least = 64 * counted.packet if counted.packet > 1 else 16 * counted.chunk
    rows = max(seconds / counted.period_s, least, counted.index[-1] / _MAX_BLOCKS)
    parts = []
    for low, high in pairwise(np.union1d(counted.bounds, joints).tolist()):
        number = counted.index[low:high]  # looked up as it is: of a long stream each copy counts
        length = number[-1] + 1 - number[0]
        n_blocks = max(int(length / rows), min(_MIN_BLOCKS, (high - low) // least), 1)
        edges = np.ceil(np.linspace(0, length, n_blocks + 1)[:-1]).astype(np.int64)
        parts.append(low + np.unique(np.searchsorted(number, number[0] + edges)))
    starts = np.concatenate(parts)
    n_rows = np.diff(np.append(starts, counted.index.size))
    centre = np.add.reduceat(counted.index.astype(np.float64), starts) / n_rows
    return _Blocks(starts, n_rows, centre)


class _Counter(NamedTuple):
    """The counter of a device's samples as a clock, with the levels of blocks as its fixes.

    `stretch`, `level_s` and `variance` are those of each block.
    """

    stamps_s: FloatArray
    counted: Counted
    blocks: _Blocks
    stretch: IntArray
    level_s: FloatArray
    variance: FloatArray

    @property
    def evidence(self) -> float:
        """The logarithm of how likely the levels are."""
        return evidence(self._rows(self.variance), self._walks)

    def parted(self, joints: IntArray) -> _Counter:
        """Begin a new stretch at each of some rows where that makes the levels likelier."""
        counter, likely = self, self.evidence
        for row in joints.tolist():
            tried = counter._replace(stretch=counter.stretch + (self.blocks.starts >= row))
            if tried.evidence > likely + _ANEW:
                counter, likely = tried, tried.evidence
        return counter

    def laid(self, estimate: str, doubt: Doubt | None) -> Laid:
        """Smooth the levels and read them at each sample; what the map may be wrong by is noise."""
        counted, blocks, variance = self.counted, self.blocks, self.variance
        if doubt is not None:
            density = np.interp(self.stamps_s[blocks.starts], doubt.seconds, doubt.density)
            variance = variance + density / (blocks.n_rows * counted.period_s)
        smooth = robust_curve(self._rows(variance), self._walks).smooth
        offset_s, sigma_s = smooth.offset_s + self._anchors, np.sqrt(smooth.offset_var)
        return Laid(
            seconds=self._through(offset_s, smooth.drift),
            knot_index=blocks.centre,
            knot_s=counted.period_s * blocks.centre + offset_s,
            sigma_s=sigma_s,
            stretch=self.stretch,
            wanders=self._wandering(offset_s, sigma_s),
            estimate=estimate,
        )

    @property
    def _walks(self) -> tuple[float, ...]:
        return WALKS if self.level_s.size >= FEW_BLOCKS else WALKS[:1]

    @property
    def _anchors(self) -> FloatArray:
        return self.level_s[np.searchsorted(self.stretch, self.stretch)]

    def _rows(self, variance: FloatArray) -> Rows:
        """Lay levels out for the smoother, each stretch from its own first one."""
        first = np.searchsorted(self.stretch, self.stretch)
        begins = self.blocks.starts[np.flatnonzero(np.diff(self.stretch)) + 1]
        pauses_s = self.stamps_s[begins] - self.stamps_s[begins - 1]
        return Rows(
            number=self.stretch,
            since_s=(self.blocks.centre - self.blocks.centre[first]) * self.counted.period_s,
            offset_s=self.level_s - self._anchors,
            excess_s=np.zeros(variance.size),
            variance=variance,
            anchors=[(0, 0)] * (begins.size + 1),
            line=0.0,
            pauses_s=np.maximum(pauses_s, self.counted.period_s),
        )

    def _through(self, offset_s: FloatArray, drift: FloatArray) -> FloatArray:
        """Give the time of each row: the counter's, and its offset.

        The offset is cubic between the centres of blocks, straight on beyond.
        """
        period_s, (starts, _, centre) = self.counted.period_s, self.blocks
        seconds = np.empty(self.counted.index.size)
        for rows in pieces(seconds.size):
            row = np.arange(rows.start, min(rows.stop, seconds.size))
            block = np.searchsorted(starts, row, side="right") - 1
            index = self.counted.index[rows]
            since_s = (index - centre[block]) * period_s
            left = np.where(since_s < 0, block - 1, block)
            right = np.minimum(left + 1, starts.size - 1)
            inside = (left >= 0) & (right > left)
            inside &= self.stretch[left] == self.stretch[right]
            offset = offset_s[block] + drift[block] * since_s
            left, right = left[inside], right[inside]
            width = centre[right] - centre[left]
            part = (index[inside] - centre[left]) / width
            rest = 1 - part
            offset[inside] = (
                offset_s[left]
                + part * part * (3 - 2 * part) * (offset_s[right] - offset_s[left])
                + width * period_s * part * rest * (rest * drift[left] - part * drift[right])
            )
            seconds[rows] = period_s * index + offset
        return seconds

    def _wandering(self, offset_s: FloatArray, sigma_s: FloatArray) -> BoolArray:
        """Tell which stretches depart from a line by more than chance, (n_stretches,)."""
        found = np.zeros(self.stretch[-1] + 1, dtype=bool)
        bounds = np.searchsorted(self.stretch, np.arange(found.size + 1))
        for k, (low, high) in enumerate(pairwise(bounds.tolist())):
            if high - low > 2:
                number = self.blocks.centre[low:high] - self.blocks.centre[low:high].mean()
                off = offset_s[low:high] - offset_s[low:high].mean()
                off -= number * (float(np.sum(number * off)) / float(np.sum(number**2)))
                found[k] = np.abs(off).max() > _WANDERS * float(np.median(sigma_s[low:high]))
        return found


def _mapped(laid: Laid, own_s: FloatArray, drift_s: FloatArray, doubt: Doubt | None) -> Laid:
    """Take times on the device's own clock to the session clock by the map of the stamps.

    The times are overwritten.
    """
    known, drift_s = _rising(own_s, drift_s)
    seconds = laid.seconds
    for rows in pieces(seconds.size):
        seconds[rows] += np.interp(seconds[rows], known, drift_s)
    knot_s = laid.knot_s + np.interp(laid.knot_s, known, drift_s)
    sigma_s = laid.sigma_s
    if doubt is not None:
        sigma_s = np.hypot(sigma_s, np.interp(knot_s, doubt.seconds, doubt.sigma_s))
    return replace(laid, knot_s=knot_s, sigma_s=sigma_s)


def _rising(at: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Put places in order, each once, with their values."""
    if np.all(at[1:] > at[:-1]):
        return at, values
    order = np.argsort(at, kind="stable")  # numpy.unique does the same with twice the memory
    at = at[order]
    is_first = np.append(True, at[1:] != at[:-1])
    at = at[is_first]
    order = order[is_first]
    return at, values[order]


def _mixture(session: Laid, device: Laid, share: float) -> Laid:
    """Average both, where stamps hardly tell them apart; `share` is that of the device.

    The times of the session are overwritten.
    """
    rest, seconds = 1 - share, session.seconds
    for rows in pieces(seconds.size):
        seconds[rows] = rest * seconds[rows] + share * device.seconds[rows]
    apart_s = device.knot_s - session.knot_s
    variance = rest * session.sigma_s**2 + share * device.sigma_s**2 + share * rest * apart_s**2
    return replace(
        session,
        seconds=seconds,
        knot_s=rest * session.knot_s + share * device.knot_s,
        sigma_s=np.sqrt(variance),
        stretch=session.stretch + device.stretch,
        wanders=np.full(1, session.wanders.any() and device.wanders.any()),
    )
