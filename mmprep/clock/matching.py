"""Shared events: which events on a device's own clock are which of the reference's.

Rules
-----
- The lists are unmatched: either may miss events and have others, the offset is anything, the
  drift at most `MAX_DRIFT`. Nothing is drawn at random.
- A line's pairs are mutually nearest events within a tolerance. The tolerance is the one whose
  matches chance explains least (a contrario: the number of false alarms). Its evidence must exceed
  what the search could find anywhere among unrelated events, else it is refused.
- Another way to pair the same events that has half of the evidence makes the match ambiguous; so
  do events that come in one rhythm, whatever their number.
- A line may hold for a part, as where the device was restarted. The rest is matched by itself; if
  it should match and doesn't, all is refused.
- Where it is known how far the clocks may be apart, shifts by more are no rivals, and a rhythm is
  as good as any events.
- Two events are matched only if no other two lie so far apart, a single one only with a single one.

References
----------
L. Moisan, B. Stival, "A probabilistic criterion to detect rigid point matches between two images
and estimate the fundamental matrix", IJCV 57 (2004).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from mmprep.clock import chance
from mmprep.clock.candidates import (
    MAX_DRIFT,
    Candidate,
    Line,
    Offsets,
    Pairs,
    candidates,
    fitted,
    typical_step_s,
)
from mmprep.clock.fitting import fit_fixes
from mmprep.clock.model import ClockModel, offset_only
from mmprep.clock.points import seconds
from mmprep.errors import ClockError
from mmprep.timebase import NS_PER_S, FloatArray, IntArray

FEW = 3  # events that can be matched by more than their distance
FALSE_ALARMS = 1e-3  # how many of unrelated lists are matched
RIVAL = 0.5  # share of the evidence that makes another match a rival
UNBELIEVABLE = 1e-6  # chance below which unmatched events contradict the match
FINEST_S = 20e-6
N_TOLERANCES = 12
LUCK = 0.05
N_SETTLING = 20
WIDER, WIDER_BY_CHANCE = 2.5, 0.15
N_GROWN = 6
SAME = 0.1  # of the typical step: nearer lines are one
HINT = (
    "see that both lists hold the same happenings; more of them, at uneven times, or a known"
    " offset (--events NAME=FILE,within=S) make a match unique"
)


@dataclass(frozen=True, slots=True)
class Match:
    """Events that are the same happening on both clocks.

    Parameters
    ----------
    own, reference : [shape=(n_matched,), int64]
        Indices into the lists as given, in the order of the reference.
    n_missed : int
        Reference events between the first and the last matched one without a partner.
    n_extra : int
        The same of the own events.
    n_outside : (int, int)
        Own and reference events before the first and after the last matched one.
    n_segments : int
        Stretches that were matched one by one.
    tolerance_s : float
        Within which pairs were accepted; 0 where there was nothing to compare.
    drift : float
        d(reference - own) / d(own) of the longest stretch.
    by_chance : float
        The share of events that would find a partner within the tolerance if there were none.
    """

    own: IntArray
    reference: IntArray
    n_missed: int
    n_extra: int
    n_outside: tuple[int, int]
    n_segments: int
    tolerance_s: float
    drift: float
    by_chance: float


class _Lists(NamedTuple):
    """Both lists in seconds after an origin of their own, own in the order of recording."""

    own_s: FloatArray
    reference_s: FloatArray
    finest_s: float
    offsets: Offsets

    @property
    def is_near(self) -> bool:
        """Whether the clocks are known to differ by little."""
        return math.isfinite(self.offsets.high_s)

    def part(self, own: IntArray, reference: IntArray) -> _Lists:
        """Give a part of both lists."""
        return self._replace(own_s=self.own_s[own], reference_s=self.reference_s[reference])

    def tolerances_s(self) -> FloatArray:
        """Give the tolerances that are tried."""
        coarsest_s = max(typical_step_s(self.reference_s), typical_step_s(self.own_s)) / 3
        return np.geomspace(self.finest_s, max(coarsest_s, 2 * self.finest_s), N_TOLERANCES)

    def log_trials(self, tolerance_s: float) -> float:
        """Count the lines that differ by the tolerance: the logarithm of their number."""
        spans_s = [float(np.ptp(times)) for times in (self.own_s, self.reference_s)]
        reach_s = min(sum(spans_s), self.offsets.high_s - self.offsets.low_s)
        n_lines = (1 + reach_s / tolerance_s) * (1 + MAX_DRIFT * min(spans_s) / tolerance_s)
        return math.log(n_lines * N_TOLERANCES)


class _Found(NamedTuple):
    """A line with its pairs and its evidence.

    `partner` is the own event of each reference event, -1 for none; `surprise` the evidence less
    what the search could find among unrelated lists.
    """

    line: Line
    tolerance_s: float
    partner: IntArray
    log_ratio: float
    surprise: float
    share: float


class _Part(NamedTuple):
    """Pairs of one stretch: indices into the lists."""

    own: IntArray
    reference: IntArray
    tolerance_s: float = 0.0
    drift: float = 0.0
    by_chance: float = 0.0


def fit_events(
    own_ns: IntArray, reference_ns: IntArray, *, within_ns: int | None = None
) -> tuple[ClockModel, Match]:
    """Fit own time to reference time from unmatched events; see `match`.

    Returns
    -------
    ClockModel, Match
        Of one event: the offset alone; below five events `bound_s` is None. The bound allows for
        wrong pairs, of which each is off by the tolerance.

    Raises
    ------
    ClockError
        As `match`.
    """
    found = match(own_ns, reference_ns, within_ns=within_ns)
    own_ns, reference_ns = own_ns[found.own], reference_ns[found.reference]
    if own_ns.size == 1:
        model = offset_only(int(own_ns[0]), int(reference_ns[0]))
    else:
        model = fit_fixes(own_ns, reference_ns, drift=found.drift / (1 + found.drift))
    return replace(_looser(model, found.by_chance * found.tolerance_s), method="events"), found


def _looser(model: ClockModel, slack_s: float) -> ClockModel:
    segments = tuple(replace(s, bound_s=s.bound_s + slack_s) for s in model.segments)
    bound_s = None if model.bound_s is None else model.bound_s + slack_s
    return replace(model, segments=segments, bound_s=bound_s)


def match(own_ns: IntArray, reference_ns: IntArray, *, within_ns: int | None = None) -> Match:
    """Find the events that both lists hold.

    Parameters
    ----------
    own_ns : [shape=(n,), int64, ns]
        On the device's clock, in the order of recording: they may step back where it was reset.
    reference_ns : [shape=(m,), int64, ns]
        On the clock of the session, in any order.
    within_ns : int, optional
        The most that the clocks are known to differ by.

    Raises
    ------
    ClockError
        Nothing matches better than by chance, or in more than one way.
    """
    if not own_ns.size or not reference_ns.size:
        raise ClockError("there are no events", hint="see value=, above= and below= of --events")
    own_order = _recorded_order(own_ns)
    order = np.argsort(reference_ns, kind="stable")
    lists = _lists(own_ns[own_order], reference_ns[order], within_ns)
    few = min(own_ns.size, reference_ns.size) < FEW
    parts = [_few(lists)] if few else list(_segments(lists))
    own = np.concatenate([part.own for part in parts])
    reference = np.concatenate([part.reference for part in parts])
    rank = np.argsort(reference, kind="stable")
    spans = [int(np.ptp(index)) + 1 for index in (own, reference)]
    return Match(
        own_order[own[rank]],
        order[reference[rank]],
        n_missed=spans[1] - own.size,
        n_extra=spans[0] - own.size,
        n_outside=(own_ns.size - spans[0], reference_ns.size - spans[1]),
        n_segments=len(parts),
        tolerance_s=max(part.tolerance_s for part in parts),
        drift=max(parts, key=lambda part: part.own.size).drift,
        by_chance=max(part.by_chance for part in parts),
    )


def _recorded_order(own_ns: IntArray) -> IntArray:
    """Keep the order of recording; what steps back too often to be one is sorted."""
    if int(np.sum(np.diff(own_ns) < 0)) > own_ns.size // 10:
        return np.argsort(own_ns, kind="stable")
    return np.arange(own_ns.size)


def _lists(own_ns: IntArray, reference_ns: IntArray, within_ns: int | None) -> _Lists:
    own_origin_ns, origin_ns = int(own_ns.min()), int(reference_ns[0])
    between_s = (origin_ns - own_origin_ns) / NS_PER_S
    within_s = math.inf if within_ns is None else within_ns / NS_PER_S
    return _Lists(
        seconds(own_ns - own_origin_ns),
        seconds(reference_ns - origin_ns),
        max(FINEST_S, _resolution_s(own_ns), _resolution_s(reference_ns)),
        Offsets(-within_s - between_s, within_s - between_s),
    )


def _resolution_s(times_ns: IntArray) -> float:
    """Give the largest decimal unit up to a second in which all times are whole."""
    powers = (p for p in range(9, 0, -1) if not np.any(times_ns % 10**p))
    return 10.0 ** (next(powers, 0) - 9)


# One or two events --------------------------------------------------------------------------------


def _few(lists: _Lists) -> _Part:
    """Match a list of one or two events, if only one way is possible."""
    n = min(lists.own_s.size, lists.reference_s.size)
    ways = list(_ways_of_one(lists) if n == 1 else _ways_of_two(lists))
    sizes = f"{lists.own_s.size} events with {lists.reference_s.size} of the reference"
    if len(ways) != 1:
        raise ClockError(
            f"{len(ways) or 'no'} ways to match {sizes}, one is needed",
            hint=HINT,
        )
    own, reference = np.array(ways[0])
    if n == 1:
        return _Part(own, reference)
    if _by_luck(lists) > LUCK:
        raise ClockError(f"to match {sizes} may be chance: two are too few for so many", hint=HINT)
    own_s, reference_s = np.diff(lists.own_s[own])[0], np.diff(lists.reference_s[reference])[0]
    return _Part(own, reference, drift=float(reference_s / own_s) - 1)


def _by_luck(lists: _Lists) -> float:
    """Say how many more pairs of events would lie equally far apart by chance."""
    sizes = (lists.own_s.size, lists.reference_s.size)
    n_others = math.comb(sizes[0], 2) * math.comb(sizes[1], 2) - 1
    span_s = max(float(np.ptp(lists.own_s)), float(np.ptp(lists.reference_s)))
    return n_others * 2 * (MAX_DRIFT + 2 * FINEST_S / span_s)


def _ways_of_one(lists: _Lists) -> Iterator[tuple[list[int], list[int]]]:
    offset_s = lists.reference_s[None, :] - lists.own_s[:, None]
    is_possible = (offset_s >= lists.offsets.low_s) & (offset_s <= lists.offsets.high_s)
    for i, k in np.argwhere(is_possible).tolist():
        yield [i], [k]


def _ways_of_two(lists: _Lists) -> Iterator[tuple[list[int], list[int]]]:
    """Pair events that lie equally far apart."""
    rank = np.argsort(lists.own_s, kind="stable")
    own_s, reference_s = lists.own_s[rank], lists.reference_s
    k, m = np.triu_indices(reference_s.size, 1)
    apart_s = reference_s[m] - reference_s[k]
    for i, j in zip(*np.triu_indices(own_s.size, 1), strict=True):
        own_apart_s = own_s[j] - own_s[i]
        slack_s = MAX_DRIFT * own_apart_s + 2 * FINEST_S
        offset_s = reference_s[k] - own_s[i]
        fits = np.abs(apart_s - own_apart_s) <= slack_s
        fits &= (offset_s >= lists.offsets.low_s) & (offset_s <= lists.offsets.high_s)
        for way in np.flatnonzero(fits & (own_apart_s > 0)):
            yield [int(rank[i]), int(rank[j])], [int(k[way]), int(m[way])]


# Stretches ----------------------------------------------------------------------------------------


def _segments(lists: _Lists) -> Iterator[_Part]:
    """Match the whole, then what lies before and after the stretch that was matched."""
    own, reference = np.arange(lists.own_s.size), np.arange(lists.reference_s.size)
    yield from _stretch(lists, own, reference, None)


def _stretch(
    whole: _Lists, own: IntArray, reference: IntArray, beside: _Found | None
) -> Iterator[_Part]:
    """Match a stretch; one beside a matched one may hold nothing that could be."""
    lists = whole.part(own, reference)
    try:
        found = _best(lists)
    except ClockError as error:
        if beside is None:
            raise
        if _contradicts(lists, beside):
            raise ClockError(
                f"{lists.reference_s.size} events match in a part of the recording only;"
                f" of the rest {error.what}",
                hint=error.hint,
            ) from error
        return
    matched = np.flatnonzero(found.partner >= 0)
    partner = found.partner[matched]
    by_chance = chance.evenly(lists.own_s, found.tolerance_s)
    yield _Part(own[partner], reference[matched], found.tolerance_s, found.line.drift, by_chance)
    before = (own[: partner.min()], reference[: matched[0]])
    after = (own[partner.max() + 1 :], reference[matched[-1] + 1 :])
    for rest in (before, after):
        if min(part.size for part in rest) >= FEW:
            yield from _stretch(whole, *rest, found)


def _contradicts(lists: _Lists, found: _Found) -> bool:
    """Tell whether a stretch ought to have matched like the one beside it."""
    own_s = np.sort(found.line.apply(lists.own_s))
    begin_s = max(own_s[0], lists.reference_s[0])
    end_s = min(own_s[-1], lists.reference_s[-1])
    both = [times[(times >= begin_s) & (times <= end_s)] for times in (own_s, lists.reference_s)]
    partner, miss_s = _nearest(own_s, lists.reference_s)
    n_met = int(np.sum((partner >= 0) & (miss_s <= found.tolerance_s)))
    return all(chance.unlikely_few(n_met, t.size, found.share) < UNBELIEVABLE for t in both)


# One stretch --------------------------------------------------------------------------------------


def _best(lists: _Lists) -> _Found:
    """Find the line with the most evidence; refuse chance and rivals."""
    seen = candidates(
        lists.own_s, lists.reference_s, finest_s=lists.finest_s, offsets=lists.offsets
    )
    found = sorted(_grown_apart(lists, seen), key=lambda one: -one.surprise)
    needed = -math.log(FALSE_ALARMS)
    if not found or found[0].surprise < needed:
        raise ClockError("the events match no better than unrelated ones would", hint=HINT)
    weighed = [_beyond_rhythm(lists, one) for one in found]
    weighed.sort(key=lambda one: -one.surprise)
    if weighed[0].surprise < needed:
        raise ClockError(
            "the events come in one rhythm, and match at one shift as well as at another",
            hint=HINT,
        )
    _refuse_rivals(lists, weighed)
    return _widened(lists, weighed[0])


def _refuse_rivals(lists: _Lists, found: list[_Found]) -> None:
    best, middle = found[0], np.median(lists.own_s, keepdims=True)
    for other in found[1:]:
        conflict = chance.pairs_in_conflict(best.partner, other.partner)
        if other.surprise - (1 - conflict) * other.log_ratio > RIVAL * best.surprise:
            shift_s = float((other.line.apply(middle) - best.line.apply(middle))[0])
            raise ClockError(
                f"the events match in two ways that are {abs(shift_s):.3g} s apart, one about as"
                " good as the other",
                hint=HINT,
            )


def _nearest(own_s: FloatArray, reference_s: FloatArray) -> tuple[IntArray, FloatArray]:
    """Pair events that are each other's nearest.

    Returns
    -------
    partner : [shape=(n_reference,), int64]
        The own event, -1 for none.
    miss_s : [shape=(n_reference,), float64, s]
    """
    rank = np.argsort(own_s, kind="stable")
    theirs = _closest(own_s[rank], reference_s)
    ours = _closest(reference_s, own_s[rank])
    is_mutual = ours[theirs] == np.arange(reference_s.size)
    partner = rank[theirs]
    return np.where(is_mutual, partner, -1), np.abs(reference_s - own_s[partner])


def _closest(among_s: FloatArray, times_s: FloatArray) -> IntArray:
    """Give the index of the closest time, the earlier of two, among sorted ones."""
    after = np.clip(np.searchsorted(among_s, times_s), 1, max(among_s.size - 1, 1))
    if among_s.size == 1:
        return np.zeros(times_s.size, dtype=np.int64)
    is_before = times_s - among_s[after - 1] <= among_s[after] - times_s
    return np.asarray(after - is_before)


def _grown_apart(lists: _Lists, seen: list[Candidate]) -> list[_Found]:
    """Carry the likeliest lines over the whole recording, each once."""
    grown: list[_Found] = []
    started = [
        (_judged(lists, one.line, _around(lists, one.line, one.span_s)), one) for one in seen
    ]
    started.sort(key=lambda pair: -pair[0].surprise)
    same_s = SAME * typical_step_s(lists.own_s)
    for begun, one in started:
        at = np.array([begun.line.centre_s])
        apart_s = [abs(float((begun.line.apply(at) - g.line.apply(at))[0])) for g in grown]
        if not grown or min(apart_s) > same_s:
            grown.append(_grown(lists, begun, one.span_s))
        if len(grown) == N_GROWN:
            break
    return grown


def _around(lists: _Lists, line: Line, span_s: float) -> IntArray:
    return np.flatnonzero(np.abs(lists.own_s - line.centre_s) <= span_s)


def _grown(lists: _Lists, found: _Found, span_s: float) -> _Found:
    whole_s = 2 * float(np.ptp(lists.own_s))
    while span_s < whole_s:
        span_s *= 2
        found = _judged(lists, found.line, _around(lists, found.line, span_s))
    return found


def _widened(lists: _Lists, found: _Found) -> _Found:
    """Take in the pairs that lie farther off than those that say most: about a fifth of all."""
    by_chance = chance.evenly(lists.own_s, found.tolerance_s)
    wider = min(max(WIDER_BY_CHANCE / by_chance, 1.0), WIDER)
    return _settled(lists, found._replace(tolerance_s=found.tolerance_s * wider))


def _settled(lists: _Lists, found: _Found) -> _Found:
    """Fit and pair in turn until the pairs stay: nearest ones lean towards a line that is off."""
    whole = np.arange(lists.own_s.size)
    for _ in range(N_SETTLING):
        line = fitted(_paired(lists, found), found.line)
        again = _weighed(lists, _meeting(lists, line, whole), found.tolerance_s)
        if np.array_equal(again.partner, found.partner):
            break
        found = again
    return found


def _paired(lists: _Lists, found: _Found) -> Pairs:
    paired = np.flatnonzero(found.partner >= 0)
    return Pairs(lists.own_s[found.partner[paired]], lists.reference_s[paired])


def _judged(lists: _Lists, line: Line, chosen: IntArray) -> _Found:
    """Fit a line to the events that it pairs, with the tolerance that says most."""
    best = _with_tolerance(lists, line, chosen)
    for _ in range(2):
        line = fitted(_paired(lists, best), best.line)
        found = _with_tolerance(lists, line, chosen)
        if found.surprise <= best.surprise:
            break
        best = found
    return best


class _Meeting(NamedTuple):
    """Own events of a stretch on the clock of the reference, and who is nearest to whom."""

    line: Line
    own_s: FloatArray  # sorted
    partner: IntArray
    miss_s: FloatArray


def _meeting(lists: _Lists, line: Line, chosen: IntArray) -> _Meeting:
    own_s = line.apply(lists.own_s[chosen])
    partner, miss_s = _nearest(own_s, lists.reference_s)
    return _Meeting(line, np.sort(own_s), np.where(partner >= 0, chosen[partner], -1), miss_s)


def _with_tolerance(lists: _Lists, line: Line, chosen: IntArray) -> _Found:
    """Choose the tolerance at which chance explains the pairs least."""
    met = _meeting(lists, line, chosen)
    tried = [_weighed(lists, met, tolerance_s) for tolerance_s in lists.tolerances_s().tolist()]
    return max(tried, key=lambda one: one.surprise)


def _weighed(
    lists: _Lists, met: _Meeting, tolerance_s: float, *, by_rhythm: bool = False
) -> _Found:
    """Weigh the pairs within a tolerance, of the reference events that could have one."""
    low_s, high_s = met.own_s[0] - tolerance_s, met.own_s[-1] + tolerance_s
    begin, end = np.searchsorted(lists.reference_s, [low_s, high_s])
    partner = np.where(met.miss_s <= tolerance_s, met.partner, -1)[begin:end]
    by_chance = np.full(end - begin, chance.evenly(met.own_s, tolerance_s))
    if by_rhythm:
        lags_s = chance.lags_between(lists.reference_s[begin:end], partner >= 0)
        slack_s = 2 * tolerance_s + MAX_DRIFT * lags_s  # both ends of a lag may miss
        rhythm = chance.by_rhythm(met.own_s, lags_s, slack_s)
        schedule = chance.by_schedule(met.own_s, lags_s, tolerance_s)
        by_chance = np.maximum(by_chance, np.maximum(rhythm, schedule))
    seen = chance.evidence(partner >= 0, by_chance)
    kept = np.full(lists.reference_s.size, -1)
    kept[begin + seen.begin : begin + seen.end] = partner[seen.begin : seen.end]
    n_left_out = partner.size - (seen.end - seen.begin)
    trials = lists.log_trials(tolerance_s) + 3 * math.log1p(n_left_out)
    surprise = seen.log_ratio - trials
    return _Found(met.line, tolerance_s, kept, seen.log_ratio, surprise, seen.share)


def _beyond_rhythm(lists: _Lists, found: _Found) -> _Found:
    """Weigh a line anew: what the rhythm of the events explains counts for nothing."""
    if lists.is_near:  # shifts by the rhythm are rivals, or impossible
        return found
    met = _meeting(lists, found.line, np.arange(lists.own_s.size))
    return _weighed(lists, met, found.tolerance_s, by_rhythm=True)
