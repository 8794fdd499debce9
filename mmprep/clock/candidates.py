"""Candidates: lines on which unmatched events of two clocks might meet.

Rules
-----
- In a window of a few dozen events the drift moves little. So pairs of the same happening have
  nearly one offset there: bins of offsets in which many events meet are looked into.
- In a bin slopes are tried one by one; the best line is fitted to its pairs with ever narrower
  tolerance, as long as that says more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mmprep.timebase import BoolArray, FloatArray, IntArray

MAX_DRIFT = 1.05e-3  # s/s, of two clocks that tick at all: 1000 ppm and what jitter adds
WINDOW = 64  # events
MAX_WINDOWS = 6
MIN_SLOPES, MAX_SLOPES = 16, 256
JITTERS = (0.0, 0.02, 0.1)  # of the typical step between events
N_PEAKS = 12  # a window and jitter
ALL_PAIRS = 1024  # few enough to try four times as many
MAX_BINS = 1 << 21
LOOSE, N_HALVINGS = (1, 4, 16), 16
KEPT = 3  # a window


class Line(NamedTuple):
    """reference = own + offset_s + drift * (own - centre_s)."""

    centre_s: float
    offset_s: float
    drift: float

    def apply(self, own_s: FloatArray) -> FloatArray:
        """Give reference times."""
        return np.asarray(own_s + self.offset_s + self.drift * (own_s - self.centre_s))


class Candidate(NamedTuple):
    """A line seen in a stretch of `span_s` around its centre, and what speaks for it there."""

    line: Line
    span_s: float
    gain: float


class Pairs(NamedTuple):
    """Events that might be the same, by their times on both clocks."""

    own_s: FloatArray
    reference_s: FloatArray

    def at(self, chosen: IntArray | BoolArray) -> Pairs:
        """Give the pairs of an index or mask."""
        return Pairs(self.own_s[chosen], self.reference_s[chosen])


class Offsets(NamedTuple):
    """The offsets that are possible, [low_s, high_s]."""

    low_s: float = -math.inf
    high_s: float = math.inf


def typical_step_s(times_s: FloatArray) -> float:
    """Give the median time between events."""
    return float(np.median(np.diff(np.sort(times_s))))


def candidates(
    own_s: FloatArray, reference_s: FloatArray, *, finest_s: float, offsets: Offsets
) -> list[Candidate]:
    """Find lines on which many events meet.

    Parameters
    ----------
    own_s : [shape=(n,), float64, s]
        In the order of recording, n >= 2.
    reference_s : [shape=(m,), float64, s]
        Sorted, m >= 2.
    finest_s : float
        No tolerance below it makes sense.
    """
    found = []
    for own, reference in _windows(own_s, reference_s):
        few_s, many_s = sorted((own, reference), key=len)
        scale = _scale(few_s, many_s, finest_s)
        meetings = _meetings(own, reference, finest_s, offsets)
        seen = [_best_line(pairs, scale) for pairs in meetings]
        found += _distinct(sorted(seen, key=lambda one: -one.gain), own)
    return found


def _windows(own_s: FloatArray, reference_s: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Give stretches of the shorter list, each with all of the longer one; both sorted."""
    n = min(own_s.size, reference_s.size)
    count = min(MAX_WINDOWS, -(-n // WINDOW))
    for begin in np.rint(np.linspace(0, max(n - WINDOW, 0), count)).astype(int):
        if own_s.size <= reference_s.size:
            yield np.sort(own_s[begin : begin + WINDOW]), reference_s
        else:
            yield np.sort(own_s), reference_s[begin : begin + WINDOW]


def _meetings(
    own_s: FloatArray, reference_s: FloatArray, finest_s: float, offsets: Offsets
) -> Iterator[Pairs]:
    """Give the pairs of those offsets at which most events meet."""
    offset_s = reference_s[None, :] - own_s[:, None]
    least_s, reach_s = float(offset_s.min()), float(np.ptp(offset_s))
    few_s = own_s if own_s.size <= reference_s.size else reference_s
    step_s, smear_s = typical_step_s(few_s), MAX_DRIFT * float(np.ptp(few_s))
    n_peaks = N_PEAKS * (4 if offset_s.size <= ALL_PAIRS else 1)
    impossible = (offset_s < offsets.low_s) | (offset_s > offsets.high_s)
    for jitter in JITTERS:
        width_s = max(smear_s + 2 * max(jitter * step_s, finest_s), reach_s / MAX_BINS)
        place = np.floor((offset_s - least_s) / width_s).astype(np.int64)
        place[impossible] = -1
        for peak in _peaks(place, n_peaks):
            low_s = least_s + peak * width_s
            pairs = _paired(own_s, reference_s, (low_s, low_s + 2 * width_s))
            if pairs.own_s.size:  # a bin's edge may round either way
                yield pairs


def _peaks(place: IntArray, n_peaks: int) -> IntArray:
    """Find the bins that hold most events together with the bin after."""
    size = int(place.max()) + 1
    if size == 0:
        return np.empty(0, np.int64)
    counts = np.minimum(_met(place, size), _met(place.T, size))
    both = counts + np.append(counts[1:], 0)
    order = np.argsort(-both, kind="stable")[:n_peaks]
    return np.asarray(order[both[order] > 0])


def _met(place: IntArray, size: int) -> IntArray:
    """Count the rows that have a pair in each bin; along a row the bins rise or fall."""
    is_new = np.ones(place.shape, dtype=np.bool_)
    is_new[:, 1:] = place[:, 1:] != place[:, :-1]
    counts: IntArray = np.bincount(place[is_new & (place >= 0)], minlength=size)
    return counts


def _paired(own_s: FloatArray, reference_s: FloatArray, offsets_s: tuple[float, float]) -> Pairs:
    """Give all pairs whose offset lies in a range."""
    begin = np.searchsorted(reference_s, own_s + offsets_s[0])
    count = np.searchsorted(reference_s, own_s + offsets_s[1]) - begin
    within = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    return Pairs(np.repeat(own_s, count), reference_s[np.repeat(begin, count) + within])


# Lines --------------------------------------------------------------------------------------------


class _Scale(NamedTuple):
    """What the events of a window are measured by.

    `density` are the events a second of the longer list, `tight_s` the tolerance to begin with.
    """

    n: int
    span_s: float
    density: float
    tight_s: float
    finest_s: float


def _scale(few_s: FloatArray, many_s: FloatArray, finest_s: float) -> _Scale:
    span_s = max(float(np.ptp(few_s)), finest_s)
    smear_s, rhythm_s = MAX_DRIFT * span_s, float(np.quantile(np.diff(few_s), 0.1))
    tight_s = max(min(smear_s / MIN_SLOPES, rhythm_s / 4), smear_s / MAX_SLOPES, finest_s)
    density = many_s.size / max(float(np.ptp(many_s)), finest_s)
    return _Scale(few_s.size, span_s, density, tight_s, finest_s)


def _best_line(pairs: Pairs, scale: _Scale) -> Candidate:
    """Find the line through pairs that says most."""
    best = Candidate(Line(float(pairs.own_s.mean()), 0.0, 0.0), scale.span_s, -math.inf)
    for loose in LOOSE:
        line = _likeliest(pairs, scale, loose * scale.tight_s)
        for tolerance_s in loose * scale.tight_s / 2.0 ** np.arange(N_HALVINGS):
            miss_s = np.abs(pairs.reference_s - line.apply(pairs.own_s))
            near = pairs.at(miss_s <= tolerance_s)
            gain = _gain(near, scale, tolerance_s)
            if gain > best.gain:
                best = Candidate(line, scale.span_s, gain)
            if gain <= 0 or tolerance_s < scale.finest_s:
                break
            line = fitted(near, line)
    return best


def _gain(near: Pairs, scale: _Scale, tolerance_s: float) -> float:
    """Say how much more pairs there are than by chance; any two lie on a line."""
    n_met = 1 + min(np.count_nonzero(np.diff(times)) for times in near) if near.own_s.size else 0
    by_chance = min(2 * tolerance_s * scale.density, 1.0)
    return (n_met - 2) * math.log(n_met / scale.n / by_chance) if n_met > 2 else 0.0


def _likeliest(pairs: Pairs, scale: _Scale, tolerance_s: float) -> Line:
    """Try slopes one by one: where most offsets lie within twice the tolerance."""
    centre_s = float(pairs.own_s.mean())
    n_slopes = 2 * math.ceil(MAX_DRIFT * scale.span_s / (2 * tolerance_s)) + 1
    slopes = np.linspace(-MAX_DRIFT, MAX_DRIFT, n_slopes)
    slopes = slopes[np.argsort(np.abs(slopes), kind="stable")]
    since_s, offset_s = pairs.own_s - centre_s, pairs.reference_s - pairs.own_s
    rest_s = np.sort(offset_s - slopes[:, None] * since_s, axis=1)
    # All rows in one search: each is moved beyond the one before.
    apart_s = float(np.ptp(rest_s)) + 4 * tolerance_s
    rows_s = (rest_s - rest_s.min() + np.arange(n_slopes)[:, None] * apart_s).ravel()
    n_near = np.searchsorted(rows_s, rows_s + 2 * tolerance_s, "right") - np.arange(rows_s.size)
    row, at = divmod(int(np.argmax(n_near)), pairs.own_s.size)
    chosen_s = rest_s[row, at : at + int(n_near.max())]
    return Line(centre_s, float(chosen_s.mean()), float(slopes[row]))


def fitted(pairs: Pairs, line: Line) -> Line:
    """Fit a line to pairs by least squares, with a drift that a clock can have."""
    if pairs.own_s.size == 0:
        return line
    since_s = pairs.own_s - line.centre_s
    offset_s = pairs.reference_s - pairs.own_s
    mean_s, level_s = float(since_s.mean()), float(offset_s.mean())
    spread = float(np.sum((since_s - mean_s) ** 2))
    drift = float(np.sum((since_s - mean_s) * offset_s)) / spread if spread > 0 else line.drift
    drift = min(max(drift, -MAX_DRIFT), MAX_DRIFT)
    return Line(line.centre_s, level_s - drift * mean_s, drift)


def _distinct(found: list[Candidate], own_s: FloatArray) -> list[Candidate]:
    """Keep the best few that are not one line."""
    kept: list[Candidate] = []
    step_s = typical_step_s(own_s) / 2
    for one in found:
        at = np.array([one.line.centre_s])
        apart_s = [abs(float((one.line.apply(at) - k.line.apply(at))[0])) for k in kept]
        if not kept or min(apart_s) > step_s:
            kept.append(one)
        if len(kept) == KEPT:
            break
    return kept
