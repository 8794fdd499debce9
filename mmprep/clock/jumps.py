"""Where the stamps of a recording jump from one segment of its clock to the next.

Rules
-----
- A clock jumps somewhere between two fixes; the stamps tell at which row. First each jump is put at
  the row over which the mapped stamps depart least from an even spacing.
- Then all rows around it are weighed. Mapped by the right segment the stamps of a regular stream
  lie on one line but for their scatter, at least up to the next gap, so each row speaks for one of
  the segments, or for neither, as between two jumps with no fix in between. Of an irregular stream
  only steps speak.
- A row is sure where its segment has 99.9 % of the probability. Others can't be timed.

References
----------
L. R. Rabiner, "A tutorial on hidden Markov models", Proc. IEEE 77 (1989): both passes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from mmprep.clock.segment import Segment
from mmprep.timebase import NS_PER_S, BoolArray, FloatArray, IntArray

RARE = 0.01  # share of stamps that may be glitches
SURE = 0.999

_MAD = 1.4826
_FLANK = 2048  # rows on each side that tell the line
_FEW = 32  # rows are too few for that
_MANY = 1024  # so many tell scatter of a large part of a period from rows that come by chance
_NEAR = 16  # rows that a jump is searched in beyond where the fixes allow it
_WIDE = 3.0  # times what 99 % of intervals keep within is a gap
_FAR, _WALKS = 64, 2.0  # rows apart that differ by so much more than neighbours: not regular
_SURPRISE, _NEITHER, _OUTSIDE = 12.5, 4.5, 50.0  # cost of a row 5 sigma off, of fitting none
_PARTED = -8.0  # log-probability of rows that fit neither
_MAX_TIES = 64.0  # neighbours that scatter alike


class Placed(NamedTuple):
    """The segment of each row, (n,) int64, and whether it is sure, (n,) bool."""

    segment: IntArray
    is_sure: BoolArray


def place(segments: Sequence[Segment], stamps_ns: IntArray) -> Placed:
    """Find the segment of each stamp of a recording, and say which are sure.

    Parameters
    ----------
    segments : sequence of Segment
        In the order of session time.
    stamps_ns : [shape=(n,), int64, ns]
        Device stamps in the order of recording; they may step back at resets.
    """
    placed = Placed(np.zeros(stamps_ns.size, np.int64), np.ones(stamps_ns.size, dtype=bool))
    firsts = _firsts(segments, stamps_ns)
    for number, first in enumerate(firsts, 1):
        placed.segment[first:] = number
    if stamps_ns.size < 3 or not firsts:
        return placed
    for region in _regions(segments, stamps_ns, firsts):
        _weigh(region, segments, stamps_ns, placed)
    np.maximum.accumulate(placed.segment, out=placed.segment)
    return placed


def target_span(segment: Segment) -> tuple[int, int]:
    """Give the session times of the first and the last fix."""
    begin, end = segment.apply(np.array([segment.begin_ns, segment.end_ns]))
    return int(begin), int(end)


# About where --------------------------------------------------------------------------------------


def _firsts(segments: Sequence[Segment], stamps_ns: IntArray) -> list[int]:
    """Give about the first row of each segment but the first."""
    firsts, begin = [], 0
    for pair in pairwise(segments):
        if begin < stamps_ns.size:
            begin += _first_after_jump(pair, stamps_ns[begin:])
        firsts.append(begin)
    return firsts


def _first_after_jump(pair: tuple[Segment, Segment], stamps_ns: IntArray) -> int:
    """Find the first stamp of the second segment; len(stamps_ns) if there is none.

    Of all places that both maps allow, the one is chosen after which the mapped stamps depart
    least from an even spacing: sum |step - period| over all steps, where only the step over the
    jump differs between the places. The recording may also lie on one side of the jump, which
    costs nothing where it is possible.
    """
    before, after = pair
    low_ns, high_ns = target_span(before)[1], target_span(after)[0]
    old, new = before.apply(stamps_ns), after.apply(stamps_ns)
    step = np.diff(stamps_ns)
    period = int(np.median(step)) if step.size else 0
    jump = _jump_ns(pair)
    too_late, too_early = old > high_ns + abs(period), new < low_ns - abs(period)
    too_late[_passing(old - high_ns, abs(period), high_ns - low_ns) :] = True
    cost = _unevenness(new[1:] - old[:-1] - period, np.diff(old) - period, jump)
    cost[too_late[:-1] | too_early[1:]] = np.inf
    best = int(np.argmin(cost)) + 1 if cost.size else 0
    may_be_before, may_be_after = np.mean(too_late) < RARE, np.mean(too_early) < RARE
    if cost.size and (cost[best - 1] < 0 or not (may_be_before or may_be_after)):
        return best
    if may_be_before and may_be_after:
        return 0 if _share(after, stamps_ns) > _share(before, stamps_ns) else stamps_ns.size
    return stamps_ns.size if may_be_before else 0


def _passing(late_ns: IntArray, period_ns: int, reach_ns: int) -> int:
    """Find where the old map runs past the first fix of the next segment, as no glitch does.

    Behind it the jump is over, though a later one may set stamps back again.
    """
    passed = (late_ns > period_ns) & (late_ns < max(reach_ns, _NEAR * period_ns))
    steady = np.flatnonzero(passed[2:] & passed[1:-1] & passed[:-2])
    return int(steady[0]) if steady.size else late_ns.size


def _jump_ns(pair: tuple[Segment, Segment]) -> int:
    before, after = pair
    gap_ns = target_span(after)[0] - target_span(before)[1]
    return abs(int(after.source_ns[0] - before.source_ns[-1]) - gap_ns)


def _unevenness(bridged_ns: IntArray, plain_ns: IntArray, jump_ns: int) -> FloatArray:
    """Say what a jump at each step costs against none, ns; ties go to the step of its size.

    Departures beyond four times the jump are gaps or glitches, larger or smaller ones alike.
    """
    bridged, plain = (np.minimum(np.abs(d), 4 * jump_ns) for d in (bridged_ns, plain_ns))
    tie = np.minimum(bridged, jump_ns) - np.minimum(plain, jump_ns)
    return np.asarray((bridged - plain) + 0.01 * tie, dtype=np.float64)


def _share(segment: Segment, stamps_ns: IntArray) -> float:
    return float(np.mean((stamps_ns >= segment.begin_ns) & (stamps_ns <= segment.end_ns)))


# Around there -------------------------------------------------------------------------------------


class _Region(NamedTuple):
    """Rows `[begin, end)` that the jumps to the segments `first + 1 .. last` lie in.

    Rows from `left` on are before all of them, those up to `right` behind.
    """

    left: int
    begin: int
    end: int
    right: int
    first: int
    last: int


def _regions(
    segments: Sequence[Segment], stamps_ns: IntArray, firsts: Sequence[int]
) -> Iterator[_Region]:
    """Take jumps together whose rows can't be told apart."""
    step = np.diff(stamps_ns)
    usual = np.median(step[step > 0]) if np.any(step > 0) else 1.0
    period = max(float(np.mean(np.clip(step, 0, 10 * usual))), 1.0)
    spans: list[list[int]] = []
    for k, (first, pair) in enumerate(zip(firsts, pairwise(segments), strict=True)):
        gap_ns = max(target_span(pair[1])[0] - target_span(pair[0])[1], 0)
        wide_ns = gap_ns + 2 * min(_jump_ns(pair), gap_ns)
        reach = min(math.ceil(wide_ns / period), stamps_ns.size) + _NEAR
        begin, end = max(first - reach, 0), min(first + reach, stamps_ns.size)
        if spans and begin < spans[-1][1] + _FEW:
            spans[-1] = [min(spans[-1][0], begin), max(spans[-1][1], end), spans[-1][2], k + 1]
        else:
            spans.append([begin, end, k, k + 1])
    ends = [0, *(span[1] for span in spans)]
    begins = [*(span[0] for span in spans[1:]), stamps_ns.size]
    for (begin, end, first, last), low, high in zip(spans, ends[:-1], begins, strict=True):
        left, right = max(low, begin - _FLANK), min(high, end + _FLANK)
        yield _Region(left, begin, end, right, first, last)


def _weigh(
    region: _Region, segments: Sequence[Segment], stamps_ns: IntArray, placed: Placed
) -> None:
    """Weigh the rows of a region and put them to their segments."""
    chosen = segments[region.first : region.last + 1]
    rows = slice(region.begin, region.end)
    line = _line_of(region, chosen, stamps_ns)
    origin_ns = int(chosen[0].target_ns[0])
    times = [(one.apply(stamps_ns[rows]) - origin_ns) / NS_PER_S for one in chosen]
    bounds = [_bound_s(one, stamps_ns[rows], _longest_ns(chosen)) for one in chosen]
    if line is None:
        states = _by_steps(times, stamps_ns[region.left : region.right])
    else:
        states = _by_line(times, bounds, line, np.arange(region.begin, region.end))
    slack_s = 0.0 if line is None else 5 * line.sigma_s
    for k, (low, high) in enumerate(_reaches(chosen, origin_ns)):
        off = bounds[k] + slack_s
        states[2 * k].weight[(times[k] < low - off) | (times[k] > high + off)] -= _OUTSIDE
    share = np.stack(_shares(states)[::2])
    placed.segment[rows] = region.first + np.argmax(share, axis=0)
    placed.is_sure[rows] = share.max(axis=0) >= SURE


def _reaches(segments: Sequence[Segment], origin_ns: int) -> list[tuple[float, float]]:
    """Give the times, s, between which each segment may lie: from fix to fix of its neighbours."""
    spans = [target_span(one) for one in segments]
    lows = [(end - origin_ns) / NS_PER_S for _, end in spans[:-1]]
    highs = [(begin - origin_ns) / NS_PER_S for begin, _ in spans[1:]]
    return list(zip([-math.inf, *lows], [*highs, math.inf], strict=True))


def _longest_ns(segments: Sequence[Segment]) -> int:
    """Give the longest time between two segments."""
    return max(target_span(two)[0] - target_span(one)[1] for one, two in pairwise(segments))


def _bound_s(segment: Segment, stamps_ns: IntArray, reach_ns: int) -> FloatArray:
    """Bound the map's error, beyond its reach as at its end; 0 where nothing bounds it, (n,)."""
    near_ns = np.clip(stamps_ns, segment.begin_ns - reach_ns, segment.end_ns + reach_ns)
    return np.nan_to_num(segment.bound_at_s(near_ns))


class _Line(NamedTuple):
    """What the rows beside a region say: seconds = slope * row + one of the levels, and scatter.

    `ties` is how many neighbours scatter alike, so that they speak as one.
    """

    slope: float
    levels: FloatArray
    sigma_s: float
    ties: float


def _line_of(region: _Region, chosen: Sequence[Segment], stamps_ns: IntArray) -> _Line | None:
    """Fit the line through the rows on both sides; None where they lie on none."""
    sides = ((region.left, region.begin, chosen[0]), (region.end, region.right, chosen[-1]))
    origin_ns = int(chosen[0].target_ns[0])
    rows, times = [], []
    for begin, end, segment in sides:
        time = (segment.apply(stamps_ns[begin:end]) - origin_ns) / NS_PER_S
        near = _unbroken(time, at_end=end == region.begin)
        if time[near].size >= _FEW:
            rows.append(np.arange(begin, end, dtype=np.float64)[near])
            times.append(time[near])
    if not rows:
        return None
    return _fitted(rows, times)


def _unbroken(time: FloatArray, *, at_end: bool) -> slice:
    """Choose the rows beside the region that no gap parts from it."""
    step = np.diff(time)
    if step.size < _FEW:
        return slice(None)
    usual = float(np.mean(np.clip(step, *np.quantile(step, [0.01, 0.99]))))
    wide = max(float(np.quantile(step, 0.99)) - usual, usual / 5)
    gaps = np.flatnonzero(step > usual + _WIDE * wide) + 1
    if gaps.size == 0:
        return slice(None)
    return slice(int(gaps[-1]), None) if at_end else slice(int(gaps[0]))


def _fitted(rows: list[FloatArray], times: list[FloatArray]) -> _Line | None:
    slope = float(np.median(np.concatenate([*map(_slopes, rows, times)])))
    slope, levels, misses = _refined(rows, times, slope)
    miss = np.concatenate(misses)
    sigma_s = max(_MAD * float(np.median(np.abs(miss))), 1e-9)
    if _walks(misses) or (miss.size < _MANY and sigma_s > slope / 4):
        return None
    if len(rows) == 2:
        slope, levels = _joined(rows, levels, slope, sigma_s)
    return _Line(slope, levels, sigma_s, _ties(misses))


def _walks(misses: list[FloatArray]) -> bool:
    """Tell stamps that walk away from any line: far ones differ by more than neighbours do."""
    far = min(max(min(miss.size for miss in misses) // 4, 8), _FAR)
    near_s, far_s = (
        np.median(np.abs(np.concatenate([miss[lag:] - miss[:-lag] for miss in misses])))
        for lag in (1, far)
    )
    return bool(far_s > _WALKS * near_s + 1e-6)


def _slopes(rows: FloatArray, times: FloatArray) -> FloatArray:
    half = rows.size // 2
    return (times[half:] - times[: times.size - half]) / half


def _refined(
    rows: list[FloatArray], times: list[FloatArray], slope: float
) -> tuple[float, FloatArray, list[FloatArray]]:
    """Fit one slope and a level a side by least squares without what lies far off."""
    for _ in range(2):
        up = down = 0.0
        for row, time in zip(rows, times, strict=True):
            miss = time - slope * row
            miss -= np.median(miss)
            kept = np.abs(miss) <= 4 * _MAD * max(float(np.median(np.abs(miss))), 1e-9)
            since = row[kept] - row[kept].mean()
            up += float(np.sum(since * miss[kept]))
            down += float(np.sum(since**2))
        slope += up / down if down else 0.0
    levels = np.array([np.median(t - slope * r) for r, t in zip(rows, times, strict=True)])
    pairs = zip(rows, times, levels, strict=True)
    return slope, levels, [time - slope * row - level for row, time, level in pairs]


def _joined(
    rows: list[FloatArray], levels: FloatArray, slope: float, sigma_s: float
) -> tuple[float, FloatArray]:
    """Take both sides for one line where their levels differ by chance; else samples are lost."""
    apart = rows[1].mean() - rows[0].mean()
    spread = sum(float(np.sum((row - row.mean()) ** 2)) for row in rows)
    chance = sigma_s * math.sqrt(sum(1.6 / row.size for row in rows) + apart**2 / spread)
    rise = float(levels[1] - levels[0])
    if abs(rise) > 5 * chance + 1e-6:
        return slope, levels
    return slope + rise / apart, levels[:1] - rise / apart * rows[0].mean()


def _ties(misses: list[FloatArray]) -> float:
    """Measure by how much more means of 16 rows scatter than those of rows by themselves."""
    single = [np.clip(miss, *np.quantile(miss, [0.01, 0.99])) for miss in misses]
    means = np.concatenate([m[: m.size // 16 * 16].reshape(-1, 16).mean(axis=1) for m in single])
    spread = float(np.var(np.concatenate(single)))
    ratio = 16 * float(np.mean(means**2)) / spread if spread > 0 else 1.0
    return float(np.clip(ratio, 1.0, _MAX_TIES))


# Probabilities ------------------------------------------------------------------------------------


class _State(NamedTuple):
    """What a run of rows may be: of a segment, or of neither of two.

    `weight` is the log-likelihood of each row, (n,); `entry` that of a run that begins at it,
    (n + 1,).
    """

    weight: FloatArray
    entry: FloatArray


def _by_line(
    times: list[FloatArray], bounds: list[FloatArray], line: _Line, rows: IntArray
) -> list[_State]:
    """Weigh each row by its distance from the line; every second state fits no segment."""
    states = []
    zero = np.zeros(rows.size + 1)
    for time, bound_s in zip(times, bounds, strict=True):
        off = np.min(np.abs(time - line.slope * rows - line.levels[:, None]), axis=0)
        sigma_s = np.hypot(line.sigma_s, bound_s / 2)
        weight = -np.minimum((off / sigma_s) ** 2 / 2, _SURPRISE) / line.ties
        states.append(_State(weight, zero))
        neither = np.full(rows.size, -_NEITHER / line.ties)
        states.append(_State(neither, zero + _PARTED))
    return states[:-1]


def _by_steps(times: list[FloatArray], around_ns: IntArray) -> list[_State]:
    """Weigh jumps by the steps over them; steps scatter by the law of Laplace."""
    step = np.diff(around_ns) / NS_PER_S
    usual = float(np.median(step))
    off = np.abs(step - usual)
    scale = max(float(np.mean(np.minimum(off, 20 * np.median(off) + 1e-6))), 1e-6)
    n = times[0].size
    never = np.full(n + 1, -np.inf)
    states = [_State(np.zeros(n), np.zeros(n + 1))]
    for before, after in pairwise(times):
        entry = np.zeros(n + 1)
        bridged, plain = after[1:] - before[:-1] - usual, np.diff(after) - usual
        entry[1:-1] = _rarity(plain / scale) - _rarity(bridged / scale)
        states += [_State(np.zeros(n), never), _State(np.zeros(n), entry)]
    return states


def _rarity(off: FloatArray) -> FloatArray:
    """Give -log of the law of Laplace, with a long tail for gaps and glitches."""
    off = np.abs(off)
    return np.asarray(np.minimum(off, _OUTSIDE) + np.log(np.maximum(off / _OUTSIDE, 1)))


def _shares(states: list[_State]) -> list[FloatArray]:
    """Give the probability of each state at each row: they follow one another, some left out."""
    n = states[0].weight.size
    sums = [np.concatenate(([0.0], np.cumsum(state.weight))) for state in states]
    ahead, begun = np.full(n + 1, -np.inf), []
    ahead[0] = 0.0  # log-probability of all rows up to here, in this state or an earlier one
    for state, total in zip(states, sums, strict=True):
        begun.append(np.logaddexp.accumulate(ahead + state.entry - total))
        ahead = np.logaddexp(ahead, begun[-1] + total)
    behind, ended = np.full(n + 1, -np.inf), []
    behind[n] = 0.0
    for state, total in zip(states[::-1], sums[::-1], strict=True):
        ended.append(np.logaddexp.accumulate((behind + total)[::-1])[::-1])
        behind = np.logaddexp(behind, ended[-1] - total + state.entry)
    pairs = zip(begun, ended[::-1], strict=True)
    return [np.exp(one[:-1] + other[1:] - ahead[n]) for one, other in pairs]
