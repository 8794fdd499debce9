"""Which windows of which trial, or each trial as one record of its own length.

Rules
-----
- A trial is [begin, end) on the session clock. Its window k begins at `begin + k * hop`; one that
  would cross the end is left out. With `pad` the rest that no window holds becomes one more, whose
  samples at and behind the end are not valid.
- What the streams do not cover is no part of a trial: windows lie whole inside the cover, and a
  trial that the cover cuts ends there.
- A stretch that is short of a window by less than a sample of every modality, and by a thousandth
  of its length at most, keeps it: a second of one clock is not quite that of another. No sample of
  it lies at or behind the end, and it ends with the stretch. Up to 1 us counts as whole.
- A baseline is the stretch [begin - baseline, begin) before a trial that has windows, with windows
  of its own by the same rules; it may reach into the trial before.
- Trials may overlap: each has its own windows. Windows are numbered by their begin, of equal ones
  those of the trial that stands first.
- As one record a trial is cut to the cover, and a modality has the samples at `begin + i / rate`
  that lie before the end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmprep.align.windows import SLACK_S, WindowPlan, halves_to_even
from mmprep.errors import UsageError
from mmprep.timebase import NS_PER_S, BoolArray, FloatArray, IntArray, whole_samples

TAILS = ("drop", "pad")
LAID, OUTSIDE, SHORT = "laid", "outside", "short"
SLACK_NS = int(SLACK_S * NS_PER_S)
_SHORT = 1000  # of a stretch may be missing to its last window: far more than clocks differ
_EXACT = 1 << 53  # whole numbers below are exact as float64


@dataclass(frozen=True, slots=True)
class TrialPlan(WindowPlan):
    """Windows of trials.

    Parameters
    ----------
    begins_ns, ends_ns : [shape=(n_windows,), int64, ns]
        The stretch that each window belongs to, up to the end of the cover, on the session clock.
    steps : [shape=(n_windows,), int64]
        Which window of the stretch it is.
    trial : [shape=(n_windows,), int64]
        Which of the trials given.
    is_baseline : [shape=(n_windows,), bool]
    """

    begins_ns: IntArray
    ends_ns: IntArray
    steps: IntArray
    trial: IntArray
    is_baseline: BoolArray

    def begin_s(self, window: int) -> Fraction:
        """Give the begin of a window after the origin."""
        since_ns = int(self.begins_ns[window]) - self.origin_ns
        return Fraction(since_ns, NS_PER_S) + int(self.steps[window]) * self.hop_s

    def duration_s(self, window: int) -> Fraction:
        """Give the length of a window, shorter where it ends with its trial."""
        rest_s = Fraction(int(self.ends_ns[window]) - self.origin_ns, NS_PER_S)
        rest_s -= self.begin_s(window)
        return self.window_s if rest_s + SLACK_S >= self.window_s else rest_s

    @property
    def span_ns(self) -> tuple[int, int]:
        """The first begin and the last end, on the session clock."""
        if self.n_windows == 0:
            return self.origin_ns, self.origin_ns
        edges = self.edges_ns(np.arange(self.n_windows))
        return int(edges[:, 0].min()), int(edges[:, 1].max())

    def times_s(self, name: str, begin: int = 0, end: int | None = None) -> FloatArray:
        """Give the sample times of windows `[begin, end)`, rounded once; see `WindowPlan`."""
        unit, starts, _ = self._scaled(name, slice(begin, end))
        period = int(unit / self.rates_hz[name])
        sample = np.arange(self.n_samples(name)).astype(starts.dtype) * period
        return np.asarray((starts[:, None] + sample) / unit, dtype=np.float64)

    def padding(self, name: str, begin: int, end: int) -> BoolArray:
        """Mark the samples of windows `[begin, end)` that lie behind their trial."""
        unit, _, lengths = self._scaled(name, slice(begin, end))
        period = int(unit / self.rates_hz[name])
        n_inside = np.asarray(-(-lengths // period), dtype=np.int64)
        return np.arange(self.n_samples(name)) >= n_inside[:, None]

    def _scaled(
        self, name: str | None, chosen: slice | IntArray
    ) -> tuple[int, NDArray[Any], NDArray[Any]]:
        """Give begins after the origin and lengths of windows in whole parts of a second."""
        rate = self.rates_hz[name] if name is not None else Fraction(1)
        unit = math.lcm(NS_PER_S, self.hop_s.denominator, self.window_s.denominator, rate.numerator)
        a_ns, hop, window = unit // NS_PER_S, int(self.hop_s * unit), int(self.window_s * unit)
        begins, steps = self.begins_ns[chosen] - self.origin_ns, self.steps[chosen]
        ends = self.ends_ns[chosen] - self.origin_ns
        furthest = max(float(np.abs(part).max(initial=0)) for part in (begins, ends))
        largest = furthest * a_ns + float(steps.max(initial=0)) * hop + window + SLACK_NS * a_ns
        dtype = np.int64 if max(largest, unit) < _EXACT else object
        starts = begins.astype(dtype) * a_ns + steps.astype(dtype) * hop
        rests = ends.astype(dtype) * a_ns - starts
        return unit, starts, np.where(rests + SLACK_NS * a_ns >= window, window, rests)

    def spans_s(self, windows: IntArray) -> FloatArray:
        """Give the begin after the origin and the length of some windows, each rounded once."""
        unit, starts, lengths = self._scaled(None, windows)
        return np.stack([starts / unit, lengths / unit], axis=1).astype(np.float64)

    def edges_ns(self, windows: IntArray) -> IntArray:
        """Give the begin and the end of some windows on the session clock, rounded once."""
        unit, starts, lengths = self._scaled(None, windows)
        edges = np.stack([starts, starts + lengths], axis=1)
        return self.origin_ns + halves_to_even(edges, unit // NS_PER_S)


@dataclass(frozen=True, slots=True)
class RaggedPlan:
    """Trials, or a whole recording, as one record each.

    Parameters
    ----------
    origin_ns : int
        Second 0 on the session clock.
    begins_ns, ends_ns : [shape=(n_windows,), int64, ns]
        On the session clock.
    trial : [shape=(n_windows,), int64]
        Which of the trials given; -1 for a recording.
    is_baseline : [shape=(n_windows,), bool]
    rates_hz : mapping of str to Fraction
    """

    origin_ns: int
    begins_ns: IntArray
    ends_ns: IntArray
    trial: IntArray
    is_baseline: BoolArray
    rates_hz: Mapping[str, Fraction]

    @property
    def n_windows(self) -> int:
        """The number of records."""
        return int(self.begins_ns.size)

    @property
    def span_ns(self) -> tuple[int, int]:
        """The first begin and the last end, on the session clock."""
        if self.n_windows == 0:
            return self.origin_ns, self.origin_ns
        return int(self.begins_ns.min()), int(self.ends_ns.max())

    def begin_s(self, window: int) -> Fraction:
        """Give the begin of a record after the origin."""
        return Fraction(int(self.begins_ns[window]) - self.origin_ns, NS_PER_S)

    def duration_s(self, window: int) -> Fraction:
        """Give the length of a record."""
        return Fraction(int(self.ends_ns[window] - self.begins_ns[window]), NS_PER_S)

    def spans_s(self, windows: IntArray) -> FloatArray:
        """Give the begin after the origin and the length of some records."""
        edges = self.edges_ns(windows)
        begins_ns, lengths_ns = edges[:, 0] - self.origin_ns, edges[:, 1] - edges[:, 0]
        return np.stack([begins_ns / NS_PER_S, lengths_ns / NS_PER_S], axis=1)

    def edges_ns(self, windows: IntArray) -> IntArray:
        """Give the begin and the end of some records on the session clock."""
        return np.stack([self.begins_ns[windows], self.ends_ns[windows]], axis=1)

    def n_samples(self, name: str, window: int) -> int:
        """Count the samples of a modality in a record: those before its end, one at least."""
        return max(math.ceil((self.duration_s(window) - SLACK_S) * self.rates_hz[name]), 1)

    def times_s(self, name: str, window: int, begin: int, end: int) -> FloatArray:
        """Give the times of samples `[begin, end)` of a record after the origin, rounded once."""
        rate = self.rates_hz[name]
        unit = math.lcm(NS_PER_S, rate.numerator)
        start, period = int(self.begin_s(window) * unit), int(unit / rate)
        dtype = np.int64 if max(abs(start) + period * end, unit) < _EXACT else object
        return np.asarray((start + np.arange(begin, end).astype(dtype) * period) / unit, np.float64)


@dataclass(frozen=True, slots=True)
class Laid:
    """Windows of trials, and what became of each trial.

    Parameters
    ----------
    plan : TrialPlan or RaggedPlan
    fates : tuple of str
        One a trial: `laid`, `outside` of what the streams cover, or `short` of a window.
    n_rests : int
        Trials, of those laid, that end with a rest shorter than a window.
    n_cut : int
        Trials that lie in the cover with a part of them only.
    """

    plan: TrialPlan | RaggedPlan
    fates: tuple[str, ...]
    n_rests: int
    n_cut: int


@dataclass(frozen=True, slots=True)
class TrialAccounting:
    """What became of the rows of a table of trials, and of the trials in them.

    Parameters
    ----------
    n_rows, n_corrupt, n_duplicate : int
        Rows, those without a usable time, those that repeat another.
    n_trials, n_ends, n_other : int
        Rows that begin a trial, that only end one, and that do neither.
    n_used : int
        Trials with a record.
    n_outside, n_short, n_zero_length, n_no_end, n_dropped : int
        Trials without: outside of the recording, shorter than a window, without a length, begun
        and never ended, all windows dropped for gaps.
    n_no_start : int
        Ends without a begin.
    """

    n_rows: int
    n_corrupt: int
    n_duplicate: int
    n_trials: int
    n_ends: int
    n_other: int
    n_used: int
    n_outside: int
    n_short: int
    n_zero_length: int
    n_no_end: int
    n_dropped: int
    n_no_start: int

    def __post_init__(self) -> None:
        rows = self.n_corrupt + self.n_duplicate + self.n_trials + self.n_ends + self.n_other
        left_out = self.n_outside + self.n_short + self.n_zero_length + self.n_no_end
        trials = self.n_used + left_out + self.n_dropped
        if rows != self.n_rows or trials != self.n_trials or self.n_no_start > self.n_ends:
            raise RuntimeError(f"trials don't add up: {self}")


def plan_trials(
    trials_ns: IntArray,
    cover_ns: tuple[int, int],
    rates_hz: Mapping[str, Fraction],
    *,
    window_s: Fraction,
    hop_s: Fraction | None = None,
    tail: str = "drop",
    baseline_s: Fraction = Fraction(0),
) -> Laid:
    """Lay windows over trials.

    Parameters
    ----------
    trials_ns : [shape=(n_trials, 2), int64, ns]
        Begin and end on the session clock, end behind begin.
    cover_ns : (begin, end)
        What the streams cover; its begin is second 0.
    rates_hz : mapping of str to Fraction
        See `grid_rate`.

    Raises
    ------
    UsageError
        Window x rate is not whole, window or hop is not positive, or no such tail.
    """
    hop_s = window_s if hop_s is None else hop_s
    if window_s <= 0 or hop_s <= 0 or tail not in TAILS:
        raise UsageError(f"no windows of {window_s} s every {hop_s} s with the tail {tail!r}")
    for rate_hz in rates_hz.values():
        whole_samples(window_s, rate_hz)
    sample_ns = int(NS_PER_S / max(rates_hz.values(), default=Fraction(1)))
    grid = _Grid(cover_ns, window_s * NS_PER_S, hop_s * NS_PER_S, sample_ns, pads=tail == "pad")
    rows: list[_Row] = []
    fates, n_rests = [], 0
    baseline_ns = round(baseline_s * NS_PER_S)
    for trial, (begin, end) in enumerate(trials_ns.tolist()):
        steps, has_rest = grid.steps(begin, end)
        fates.append(_fate(begin, end, cover_ns, has_any=len(steps) > 0))
        if not steps:
            continue
        n_rests += has_rest
        rows += grid.rows(trial, begin, end, steps)
        if baseline_ns:
            before = grid.steps(begin - baseline_ns, begin)[0]
            rows += grid.rows(trial, begin - baseline_ns, begin, before, is_baseline=True)
    plan = _trial_plan(rows, cover_ns[0], window_s, hop_s, rates_hz)
    return Laid(plan, tuple(fates), n_rests, _count_cut(trials_ns, cover_ns))


def plan_ragged(
    trials_ns: IntArray,
    cover_ns: tuple[int, int],
    rates_hz: Mapping[str, Fraction],
    *,
    baseline_s: Fraction = Fraction(0),
) -> Laid:
    """Take each trial as one record; see `plan_trials`."""
    fates = [_fate(begin, end, cover_ns, has_any=True) for begin, end in trials_ns.tolist()]
    baseline_ns = round(baseline_s * NS_PER_S)
    found = []
    for trial, (begin, end) in enumerate(trials_ns.tolist()):
        parts = [(begin, end, False)] if fates[trial] == LAID else []
        parts += [(begin - baseline_ns, begin, True)] if parts and baseline_ns else []
        for first, last, is_baseline in parts:
            low, high = max(first, cover_ns[0]), min(last, cover_ns[1])
            if low < high:
                found.append((low, trial, is_baseline, high))
    return Laid(
        _ragged(found, cover_ns[0], rates_hz), tuple(fates), 0, _count_cut(trials_ns, cover_ns)
    )


def whole_recording(cover_ns: tuple[int, int], rates_hz: Mapping[str, Fraction]) -> RaggedPlan:
    """Take all that the streams cover as one record."""
    return _ragged([(cover_ns[0], -1, False, cover_ns[1])], cover_ns[0], rates_hz)


def merged(spans: IntArray) -> IntArray:
    """Join stretches that touch or overlap.

    Parameters
    ----------
    spans : [shape=(n, 2), int64]
        `[begin, end)` in any order.

    Returns
    -------
    [shape=(m, 2), int64]
        In order, apart from each other.
    """
    ordered = spans[np.argsort(spans[:, 0], kind="stable")]
    reach = np.maximum.accumulate(ordered[:, 1])
    is_first = np.append(True, ordered[1:, 0] > reach[:-1])[: len(ordered)]
    last = np.flatnonzero(np.append(is_first[1:], True))[: int(is_first.sum())]
    return np.stack([ordered[is_first, 0], reach[last]], axis=1)


# Windows of a stretch -----------------------------------------------------------------------------

_Row = tuple[int, int, int, int, bool, int]  # begin, trial, step, stretch begin, baseline, end


@dataclass(frozen=True, slots=True)
class _Grid:
    """Windows of one length inside a cover; all times in ns."""

    cover_ns: tuple[int, int]
    window_ns: Fraction
    hop_ns: Fraction
    sample_ns: int
    pads: bool

    def steps(self, begin: int, end: int) -> tuple[range, bool]:
        """Say which windows a stretch has, and whether a rest of it is in none that is whole."""
        end = min(end, self.cover_ns[1])
        slack = max(min((end - begin) // _SHORT, self.sample_ns - 1), SLACK_NS)
        first = max(math.ceil((self.cover_ns[0] - SLACK_NS - begin) / self.hop_ns), 0)
        n_whole = max(math.floor((end - begin + slack - self.window_ns) / self.hop_ns) + 1, 0)
        held = begin + (n_whole - 1) * self.hop_ns + self.window_ns if n_whole else begin
        next_begin = begin + n_whole * self.hop_ns
        has_rest = max(held, next_begin) < end - slack
        stop = n_whole + 1 if has_rest and self.pads else n_whole
        return range(first, max(stop, first)), has_rest

    def rows(
        self, trial: int, begin: int, end: int, steps: range, *, is_baseline: bool = False
    ) -> list[_Row]:
        """List windows with what they are sorted by first."""
        end = min(end, self.cover_ns[1])
        return [
            (begin + round(step * self.hop_ns), trial, step, begin, is_baseline, end)
            for step in steps
        ]


def _fate(begin: int, end: int, cover_ns: tuple[int, int], *, has_any: bool) -> str:
    if min(end, cover_ns[1]) <= max(begin, cover_ns[0]):
        return OUTSIDE
    return LAID if has_any else SHORT


def _count_cut(trials_ns: IntArray, cover_ns: tuple[int, int]) -> int:
    has_part = (trials_ns[:, 0] < cover_ns[1]) & (trials_ns[:, 1] > cover_ns[0])
    begins_early = trials_ns[:, 0] < cover_ns[0] - SLACK_NS
    return int((has_part & (begins_early | (trials_ns[:, 1] > cover_ns[1] + SLACK_NS))).sum())


def _trial_plan(
    rows: list[_Row],
    origin_ns: int,
    window_s: Fraction,
    hop_s: Fraction,
    rates_hz: Mapping[str, Fraction],
) -> TrialPlan:
    table = np.array(sorted(rows), dtype=np.int64).reshape(-1, 6)
    _, trial, steps, begins_ns, is_baseline, ends_ns = table.T
    return TrialPlan(
        origin_ns,
        len(rows),
        window_s,
        hop_s,
        dict(rates_hz),
        begins_ns,
        ends_ns,
        steps,
        trial,
        is_baseline.astype(bool),
    )


def _ragged(
    found: list[tuple[int, int, bool, int]], origin_ns: int, rates_hz: Mapping[str, Fraction]
) -> RaggedPlan:
    table = np.array(sorted(found), dtype=np.int64).reshape(-1, 4)
    begins_ns, trial, is_baseline, ends_ns = table.T
    return RaggedPlan(
        origin_ns, begins_ns, ends_ns, trial, is_baseline.astype(bool), dict(rates_hz)
    )
