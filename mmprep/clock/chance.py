"""Chance: how much more matches of events say than matches of unrelated lists would.

Rules
-----
- Under chance an event of the reference meets one of the own events with the probability p, under
  a relation with q, the share that is seen. The evidence is the logarithm of the likelihood ratio;
  its mean over chance is at most 0, and by Markov's inequality it is above x once in exp(x) times.
- What lists have in common without being related counts for nothing: p is the share of own events
  that are followed by another one after the same time. Strictly periodic events, or the rhythm
  within bursts, are met by chance with p near 1. Where all events lie on a grid of times, as those
  of a schedule do, p is the share of the grid that is taken.
- A relation may hold for a part of the reference, as where a clock is reset: the evidence is that
  of the best unbroken run.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mmprep.timebase import BoolArray, FloatArray, IntArray

MOST_CERTAIN = 0.98  # of q: even events that both sides see are missed now and then
LAGS = 400_000  # times looked up for the rhythm of a list
MIN_LAGS, GRID_PARTS, ON_GRID = 2, (1, 2, 3, 4), 0.9


class Evidence(NamedTuple):
    """The log-likelihood ratio of the run `[begin, end)`, and the share of matches in it."""

    log_ratio: float
    begin: int
    end: int
    share: float


def evidence(is_matched: BoolArray, by_chance: FloatArray) -> Evidence:
    """Weigh the matches of events in order.

    Parameters
    ----------
    is_matched : [shape=(n,), bool]
    by_chance : [shape=(n,), float64]
        The probability that unrelated events match.

    Returns
    -------
    Evidence
        Of the run that says most: the sum of log(q / p) over its matches and of
        log((1 - q) / (1 - p)) over the rest.
    """
    p = np.clip(by_chance, 1e-12, 1 - 1e-3)
    begin, end = 0, is_matched.size
    best = Evidence(0.0, 0, 0, 0.0)
    for _ in range(3):
        share = float(np.mean(is_matched[begin:end])) if end > begin else 0.0
        if share == 0.0:
            return best
        q = np.maximum(min(share, MOST_CERTAIN), p)  # fewer matches than by chance are no evidence
        weight = np.where(is_matched, np.log(q / p), np.log((1 - q) / (1 - p)))
        total = np.concatenate(([0.0], np.cumsum(weight)))
        rise = total[1:] - np.minimum.accumulate(total[:-1])
        end = int(np.argmax(rise)) + 1
        begin = int(np.argmin(total[:end]))
        if rise[end - 1] > best.log_ratio:
            best = Evidence(float(rise[end - 1]), begin, end, share)
    return best


def evenly(times_s: FloatArray, tolerance_s: float) -> float:
    """Give the chance to meet one of these times within the tolerance, anywhere in their span."""
    span_s = max(float(np.ptp(times_s)), tolerance_s)
    return min(2 * tolerance_s * times_s.size / span_s, 1.0)


def by_rhythm(times_s: FloatArray, lags_s: FloatArray, tolerance_s: FloatArray) -> FloatArray:
    """Give the chance that a time is followed by another one of the list after each lag.

    Parameters
    ----------
    times_s : [shape=(n,), float64, s]
        Sorted.
    lags_s, tolerance_s : [shape=(m,), float64, s]
        Each lag was seen once in the list, which isn't counted. Where it is infinite, 0 is given.

    Returns
    -------
    [shape=(m,), float64]
    """
    is_known = np.isfinite(lags_s)
    lags_s, slack_s = lags_s[is_known, None], tolerance_s[is_known, None]
    most = max(LAGS // max(lags_s.size, 1), 32)
    begins_s = times_s[:: max(1, -(-times_s.size // most))]
    low_s, high_s = begins_s + lags_s - slack_s, begins_s + lags_s + slack_s
    after = np.searchsorted(times_s, [low_s, high_s])
    n_met, n_could = np.sum(after[1] > after[0], axis=1), np.sum(low_s <= times_s[-1], axis=1)
    n_own = 1 if begins_s.size == times_s.size else 0
    share = np.zeros(is_known.size)
    share[is_known] = (n_met - n_own).clip(0) / np.maximum(n_could - n_own, 1)
    return share


def by_schedule(times_s: FloatArray, lags_s: FloatArray, tolerance_s: float) -> float:
    """Give the share of a schedule that is taken, if the lags are multiples of one time; else 0.

    Parameters
    ----------
    times_s : [shape=(n,), float64, s]
        Sorted.
    lags_s : [shape=(m,), float64, s]
        Between matched events; those that are infinite don't count.
    """
    lags_s = np.sort(lags_s[np.isfinite(lags_s)])
    if lags_s.size < MIN_LAGS:
        return 0.0
    periods_s = (_period(lags_s, float(lags_s[0]) / part, tolerance_s) for part in GRID_PARTS)
    period_s = next(filter(None, periods_s), 0.0)
    return min(times_s.size * period_s / max(float(np.ptp(times_s)), period_s, 1e-9), 1.0)


def _period(lags_s: FloatArray, period_s: float, tolerance_s: float) -> float | None:
    """Refine a period lag by lag; None where one is no multiple of it."""
    if period_s <= 8 * tolerance_s:
        return None
    count = np.ones(lags_s.size)
    for _ in range(3):
        count = np.rint(lags_s / period_s)
        period_s = float(np.sum(count * lags_s) / np.sum(count**2))
    is_near = np.abs(lags_s - count * period_s) <= 2 * tolerance_s
    return period_s if np.mean(is_near) >= ON_GRID else None


def lags_between(times_s: FloatArray, is_matched: BoolArray) -> FloatArray:
    """Give the time from the last matched event before each one; inf where there is none."""
    before = np.maximum.accumulate(np.where(is_matched, np.arange(times_s.size), -1))
    before = np.concatenate(([-1], before[:-1]))
    return np.where(before < 0, np.inf, times_s - times_s[before.clip(0)])


def unlikely_few(n_seen: int, n_tried: int, share: float) -> float:
    """Bound the chance of so few successes: exp(-n KL(seen || share)), Chernoff."""
    if n_tried == 0 or n_seen >= share * n_tried:
        return 1.0
    seen = n_seen / n_tried
    share = min(share, MOST_CERTAIN)
    distance = (1 - seen) * np.log((1 - seen) / (1 - share))
    distance += seen * np.log(seen / share) if seen > 0 else 0.0
    return float(np.exp(-n_tried * distance))


def pairs_in_conflict(one: IntArray, other: IntArray) -> float:
    """Give the share of the pairs of `other` that are paired differently in `one`.

    Parameters
    ----------
    one, other : [shape=(n_reference,), int64]
        The partner of each reference event, -1 for none.
    """
    paired = np.flatnonzero(other >= 0)
    if paired.size == 0:
        return 0.0
    same = one[paired] == other[paired]
    taken = (one[paired] >= 0) | np.isin(other[paired], one[one >= 0])
    return float(np.mean(taken & ~same))
