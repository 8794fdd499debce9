"""Windows of trials, against an oracle that tries every window."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmprep import align
from mmprep.errors import UsageError

S = 10**9
RATES = {"x": Fraction(8)}


def _ns(*trials):
    return np.array([[round(b * S), round(e * S)] for b, e in trials], np.int64).reshape(-1, 2)


def plan(*trials, cover=(0, 100), window=1, **more):
    span = (cover[0] * S, cover[1] * S)
    return align.plan_trials(_ns(*trials), span, RATES, window_s=Fraction(window), **more)


def begins(laid):
    return [float(laid.plan.begin_s(k)) for k in range(laid.plan.n_windows)]


def lengths(laid):
    return [float(laid.plan.duration_s(k)) for k in range(laid.plan.n_windows)]


def test_windows_begin_at_the_onset_and_may_end_with_the_trial():
    assert begins(plan((2.5, 5.5))) == [2.5, 3.5, 4.5]


def test_window_that_would_cross_the_end_is_left_out_and_the_rest_counted():
    laid = plan((2, 4.99))
    assert (begins(laid), laid.n_rests) == ([2, 3], 1)


def test_rest_is_padded_to_a_window_that_ends_with_the_trial():
    laid = plan((2, 4.25), tail="pad")
    assert (begins(laid), lengths(laid)) == ([2, 3, 4], [1, 1, 0.25])
    padding = laid.plan.padding("x", 0, 3)
    assert padding.sum(axis=1).tolist() == [0, 0, 6]
    assert padding[2].tolist() == [False, False] + [True] * 6


def test_sample_at_the_end_is_behind_the_trial():
    laid = plan((0, 1.125), tail="pad")
    assert laid.plan.padding("x", 1, 2).tolist() == [[False] + [True] * 7]


def test_overlapping_windows_leave_no_rest_where_the_last_holds_it():
    laid = plan((0, 4), window=2, hop_s=Fraction(1), tail="pad")
    assert (begins(laid), laid.n_rests) == ([0, 1, 2], 0)


def test_rest_between_windows_far_apart_is_none():
    laid = plan((0, 4.5), hop_s=Fraction(3), tail="pad")
    assert (begins(laid), laid.n_rests) == ([0, 3], 0)


def test_trials_that_overlap_have_windows_of_their_own():
    laid = plan((0, 2), (0.5, 2.5))
    assert begins(laid) == [0, 0.5, 1, 1.5]
    assert laid.plan.trial.tolist() == [0, 1, 0, 1]


def test_short_and_outside_trials_have_no_windows():
    laid = plan((0, 0.5), (100, 102), (-3, 0), (10, 11))
    assert laid.fates == ("short", "outside", "outside", "laid")
    assert begins(laid) == [10]


def test_windows_lie_inside_the_cover_and_on_the_grid_of_their_trial():
    laid = plan((-1.5, 3), (98.25, 105))
    assert begins(laid) == [0.5, 1.5, 98.25]
    assert (laid.n_cut, laid.fates) == (2, ("laid", "laid"))


def test_edge_missed_by_a_microsecond_counts_as_met():
    laid = plan((1, 3 - 1e-6))
    assert (begins(laid), lengths(laid)) == ([1, 2], [1, 1])


def test_trial_on_a_fast_clock_keeps_its_last_window_which_ends_with_it():
    laid = plan((1, 3 - 0.0004))
    assert (begins(laid), lengths(laid), laid.n_rests) == ([1, 2], [1, 0.9996], 0)
    assert not laid.plan.padding("x", 0, 2).any()
    assert begins(plan((1, 3 - 0.0021))) == [1]


def test_no_trial_may_be_short_of_a_sample():
    rates = {"x": Fraction(8), "audio": Fraction(16_000)}
    for missing_ns, n in ((62_499, 2), (62_500, 1)):
        trials = np.array([[0, 2 * S - missing_ns]])
        laid = align.plan_trials(trials, (0, 9 * S), rates, window_s=Fraction(1))
        assert laid.plan.n_windows == n


def test_baseline_is_before_the_onset_of_trials_with_windows():
    laid = plan((5, 6), (10, 10.5), baseline_s=Fraction(2))
    assert begins(laid) == [3, 4, 5]
    assert laid.plan.is_baseline.tolist() == [True, True, False]


def test_baseline_never_crosses_the_onset():
    laid = plan((5, 6), baseline_s=Fraction(5, 2), tail="pad")
    assert (begins(laid), lengths(laid)) == ([2.5, 3.5, 4.5, 5], [1, 1, 0.5, 1])


def test_times_are_exact_for_a_rate_without_end():
    rates = {"v": Fraction(30000, 1001)}
    laid = align.plan_trials(
        _ns((1 / 3, 9)), (0, 100 * S), rates, window_s=Fraction(1001, 1000), hop_s=Fraction(1, 3)
    )
    times = laid.plan.times_s("v", 3, 4)[0]
    exact = [Fraction(333333333, S) + 1 + Fraction(1001 * i, 30000) for i in range(30)]
    assert times.tolist() == [float(t) for t in exact]


def test_plan_of_no_trials_has_no_windows():
    laid = plan()
    assert (laid.plan.n_windows, laid.plan.span_ns, laid.fates) == (0, (0, 0), ())


def test_unknown_tail_is_refused():
    with pytest.raises(UsageError, match="tail 'mirror'"):
        plan((0, 1), tail="mirror")


# Against an oracle

SECONDS = st.integers(-40, 140).map(lambda n: Fraction(n, 8))
TRIALS = st.lists(st.tuples(SECONDS, st.integers(1, 80).map(lambda n: Fraction(n, 8))), max_size=6)
STEPS = st.sampled_from([Fraction(1, 2), Fraction(1), Fraction(3, 2), Fraction(3)])


def oracle(span, cover, window, hop, tail):
    """Try every window of a trial, one after the other."""
    begin, end = span
    end, held, k, found = min(end, cover[1]), begin, 0, []
    while begin + k * hop < end:
        low = begin + k * hop
        if low + window <= end:
            held = low + window
            found += [(low, low + window)] if low >= cover[0] else []
        else:
            is_rest = tail == "pad" and low >= cover[0] and held < end
            found += [(low, end)] if is_rest else []
            break
        k += 1
    return found


@given(TRIALS, STEPS, STEPS, st.sampled_from(["drop", "pad"]), st.integers(0, 2))
def test_windows_are_those_of_an_oracle_and_cross_no_edge(trials, window, hop, tail, before):
    cover = (Fraction(0), Fraction(12))
    spans = [(begin, begin + length) for begin, length in trials]
    laid = plan(
        *spans, cover=(0, 12), window=window, hop_s=hop, tail=tail, baseline_s=Fraction(before)
    )
    got = [
        (laid.plan.begin_s(k), laid.plan.begin_s(k) + laid.plan.duration_s(k), t, b)
        for k, (t, b) in enumerate(
            zip(laid.plan.trial.tolist(), laid.plan.is_baseline.tolist(), strict=True)
        )
    ]
    wanted = []
    for t, (begin, end) in enumerate(spans):
        own = oracle((begin, end), cover, window, hop, tail)
        wanted += [(low, high, t, False) for low, high in own]
        base = oracle((begin - before, begin), cover, window, hop, tail) if own and before else []
        wanted += [(low, high, t, True) for low, high in base]
    assert sorted(got) == sorted(wanted)
    assert [low for low, *_ in got] == sorted(low for low, *_ in got)
    for low, high, t, is_baseline in got:
        begin, end = spans[t]
        edges = (begin - before, begin) if is_baseline else (begin, end)
        assert edges[0] <= low < high <= edges[1]
        assert cover[0] <= low
        assert high <= cover[1]


@given(TRIALS, STEPS, st.sampled_from([Fraction(1, 3), Fraction(1), Fraction(7, 4)]))
def test_spans_and_edges_are_the_exact_ones_rounded_once(trials, window, hop):
    spans = [(begin, begin + length) for begin, length in trials]
    laid = plan(*spans, cover=(0, 12), window=window, hop_s=hop, tail="pad").plan
    numbers = np.arange(laid.n_windows)
    exact = [(laid.begin_s(k), laid.duration_s(k)) for k in numbers.tolist()]
    wanted = [(float(begin), float(length)) for begin, length in exact]
    assert [tuple(row) for row in laid.spans_s(numbers).tolist()] == wanted
    edges = [(round(low * S), round((low + length) * S)) for low, length in exact]
    assert [tuple(row) for row in laid.edges_ns(numbers).tolist()] == edges


def test_spans_are_exact_far_from_the_origin():
    far = 4 * 10**8  # beyond what fits a float in parts of a second
    begin, end = far * S + 333_333_333, far * S + 9 * S
    laid = align.plan_trials(
        np.array([[begin, end]]),
        (0, 2 * far * S),
        RATES,
        window_s=Fraction(1),
        hop_s=Fraction(1, 3),
    ).plan
    exact = [float(laid.begin_s(k)) for k in range(laid.n_windows)]
    assert laid.spans_s(np.arange(laid.n_windows))[:, 0].tolist() == exact
    assert laid.times_s("x", 0, 1)[0, 0] == exact[0]


@given(TRIALS, STEPS, st.integers(0, 2))
def test_masks_mark_what_lies_behind_the_trial_and_nothing_else(trials, window, before):
    spans = [(begin, begin + length) for begin, length in trials]
    laid = plan(*spans, cover=(0, 12), window=window, tail="pad", baseline_s=Fraction(before))
    n = laid.plan.n_windows
    times, padding = laid.plan.times_s("x", 0, n), laid.plan.padding("x", 0, n)
    ends = [float(laid.plan.begin_s(k) + laid.plan.duration_s(k)) for k in range(n)]
    assert np.array_equal(padding, times >= np.array(ends).reshape(-1, 1))


@given(
    st.integers(0, 5 * S),
    st.integers(1, 5 * S),
    st.sampled_from([Fraction(8000, 1001), Fraction(30_000, 1001), Fraction(16_000_000, 1001)]),
    st.sampled_from(["drop", "pad"]),
)
def test_no_valid_sample_lies_behind_a_trial(begin, length, rate, tail):
    window = Fraction(1001, 1000)
    rates = {"x": rate}
    trials = np.array([[begin, begin + length]])
    laid = align.plan_trials(trials, (0, 20 * S), rates, window_s=window, tail=tail)
    n = laid.plan.n_windows
    times, padding = laid.plan.times_s("x", 0, n), laid.plan.padding("x", 0, n)
    assert (times[~padding] * S >= begin - 1e-3).all()
    assert (times[~padding] * S < begin + length + 1e-3).all()
    for k in range(n):
        end_s = laid.plan.begin_s(k) + laid.plan.duration_s(k)
        assert end_s <= Fraction(begin + length, S) + Fraction(1, 10**6)
    held = math.floor(Fraction(length, S) / window)
    assert n in {held, held + 1}


@given(TRIALS)
def test_every_trial_is_laid_or_left_out_for_one_reason(trials):
    spans = [(begin, begin + length) for begin, length in trials]
    laid = plan(*spans, cover=(0, 12))
    has_window = set(laid.plan.trial.tolist())
    assert len(laid.fates) == len(spans)
    for t, (fate, (begin, end)) in enumerate(zip(laid.fates, spans, strict=True)):
        assert (fate == "laid") == (t in has_window)
        assert (fate == "outside") == (end <= 0 or begin >= 12)


# Records of their own length


def test_record_of_a_trial_has_the_samples_before_its_end():
    laid = align.plan_ragged(_ns((2, 3.5), (4, 4.0625)), (0, 9 * S), RATES)
    assert [laid.plan.n_samples("x", k) for k in (0, 1)] == [12, 1]
    assert laid.plan.times_s("x", 0, 10, 12).tolist() == [3.25, 3.375]


def test_record_of_a_trial_is_cut_to_the_cover():
    laid = align.plan_ragged(_ns((-2, 3), (8, 20), (30, 40)), (0, 9 * S), RATES)
    edges = laid.plan.edges_ns(np.arange(laid.plan.n_windows))
    assert edges.tolist() == [[0, 3 * S], [8 * S, 9 * S]]
    assert (laid.fates, laid.n_cut) == (("laid", "laid", "outside"), 2)


def test_record_of_a_baseline_ends_at_the_onset():
    laid = align.plan_ragged(_ns((2, 3)), (0, 9 * S), RATES, baseline_s=Fraction(3))
    assert laid.plan.edges_ns(np.arange(2)).tolist() == [[0, 2 * S], [2 * S, 3 * S]]
    assert laid.plan.is_baseline.tolist() == [True, False]


@given(st.integers(1, 10**10), st.sampled_from([8, 44100, Fraction(30000, 1001)]))
def test_record_has_all_samples_before_its_end_and_no_other(length_ns, rate):
    plan = align.whole_recording((7, 7 + length_ns), {"x": Fraction(rate)})
    last = plan.n_samples("x", 0) - 1
    assert last == max(math.ceil((Fraction(length_ns, S) - Fraction(1, 10**6)) * rate) - 1, 0)
    assert plan.times_s("x", 0, last, last + 1)[0] * S < length_ns + 1000


# Spans and counts


def test_spans_that_touch_or_overlap_are_one():
    spans = np.array([[5, 9], [0, 2], [2, 3], [6, 7], [20, 21]], np.int64)
    assert align.merged(spans).tolist() == [[0, 3], [5, 9], [20, 21]]


def test_no_spans_are_none():
    assert align.merged(np.empty((0, 2), np.int64)).shape == (0, 2)


def test_counts_that_do_not_add_up_stop_the_program():
    rows = {"n_rows": 3, "n_corrupt": 0, "n_duplicate": 1, "n_trials": 2, "n_ends": 0, "n_other": 0}
    none = dict.fromkeys(("n_short", "n_zero_length", "n_no_end", "n_dropped", "n_no_start"), 0)
    assert align.TrialAccounting(**rows, **none, n_used=1, n_outside=1).n_rows == 3
    with pytest.raises(RuntimeError, match="trials don't add up"):
        align.TrialAccounting(**rows, **none, n_used=1, n_outside=0)
