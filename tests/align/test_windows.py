from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmprep import align
from mmprep.errors import DataError, UsageError

S = 10**9
RATES = {"eeg": Fraction(128), "gsr": Fraction(4), "video": Fraction(30)}


def plan(*coverages, rates=None, **options):
    return align.plan_windows(coverages, rates or RATES, **options)


def test_windows_begin_where_all_streams_are_covered():
    windows = plan((5000, 60 * S), (7000, 59 * S))
    assert windows.origin_ns == 7000
    assert windows.n_windows == 58


def test_windows_of_a_union_begin_where_any_stream_is_covered():
    windows = plan((5000, 60 * S), (7000, 59 * S), cover="union")
    assert (windows.origin_ns, windows.n_windows) == (5000, 59)


@pytest.mark.parametrize(
    ("length_ns", "n_windows"),
    [(60 * S, 60), (60 * S - 500, 60), (60 * S - 2000, 59), (60 * S + 999 * 10**6, 60)],
)
def test_a_cover_short_by_under_a_microsecond_is_whole(length_ns, n_windows):
    assert plan((0, length_ns)).n_windows == n_windows


@given(
    st.integers(1, 40),
    st.integers(1, 12),
    st.integers(1, 40),
    st.integers(1, 12),
    st.integers(1, 9),
)
def test_sample_times_are_those_of_exact_arithmetic(num, den, hop_num, hop_den, rate_num):
    window, hop = Fraction(num, den), Fraction(hop_num, hop_den)
    rate = rate_num / window
    windows = plan((0, 200 * S), rates={"x": rate}, window_s=window, hop_s=hop)
    times = windows.times_s("x", 1, min(windows.n_windows, 4))
    exact = [
        [float(k * hop + i / rate) for i in range(rate_num)]
        for k in range(1, min(windows.n_windows, 4))
    ]
    assert times.tolist() == exact


@given(st.integers(1, 9), st.integers(1, 3 * 10**9), st.integers(1, 9), st.integers(1, 10**10))
def test_edges_are_those_of_exact_arithmetic(num, den, hop_num, hop_den):
    window, hop = Fraction(num, den), Fraction(hop_num, hop_den)
    windows = align.WindowPlan(7, 10**6, window, hop, {})
    numbers = np.array([0, 1, 2, 999_999])
    exact = [[7 + round((k * hop + at) * S) for at in (0, window)] for k in numbers.tolist()]
    assert windows.edges_ns(numbers).tolist() == exact


def test_sample_times_keep_exact_where_denominators_are_large():
    rate = Fraction(30000, 1001)
    windows = plan((0, 40_000 * S), rates={"x": rate}, window_s=Fraction(1001, 1000))
    last = windows.n_windows - 1
    exact = float(last * Fraction(1001, 1000) + 29 / rate)
    assert windows.times_s("x", last)[0, 29] == exact


def test_union_of_streams_that_are_days_apart_is_refused():
    spans = [(0, 10 * S), (5 * S, 20 * S), (200_000 * S, 200_010 * S)]
    with pytest.raises(DataError, match=r"no stream covers 2\.3 days between"):
        align.covered(spans, cover="union")
    assert align.covered(spans[:2], cover="union") == (0, 20 * S)


def test_the_span_ends_with_the_last_window():
    assert plan((3, 9 * S), hop_s=Fraction(3)).span_ns == (3, 3 + 7 * S)


@pytest.mark.parametrize(
    ("nominal", "window", "rate"),
    [
        (Fraction(30000, 1001), 1, Fraction(30)),
        (Fraction(128), 1, Fraction(128)),
        (Fraction(5, 2), 1, Fraction(3)),
        (Fraction(1, 5), 1, Fraction(1)),
        (Fraction(256, 5), 5, Fraction(256, 5)),
    ],
)
def test_a_nominal_rate_becomes_the_nearest_that_fits(nominal, window, rate):
    assert align.grid_rate(nominal, Fraction(window)) == rate


def test_a_given_rate_that_does_not_fit_is_an_error():
    with pytest.raises(UsageError, match="not a whole number"):
        align.grid_rate(None, Fraction(1), given_hz=Fraction(30000, 1001))


def test_no_rate_at_all_is_an_error():
    with pytest.raises(UsageError, match="no nominal rate"):
        align.grid_rate(None, Fraction(1))


def test_streams_apart_are_an_error():
    with pytest.raises(DataError, match="begins 2 s after another has ended"):
        plan((0, 5 * S), (7 * S, 9 * S))


def test_streams_that_hardly_meet_are_an_error():
    with pytest.raises(DataError, match=r"0\.5 s in common"):
        plan((0, 5 * S), (9 * S // 2, 9 * S))


def test_a_cover_under_a_window_is_an_error():
    with pytest.raises(DataError, match=r"the stream lasts 0\.5 s, a window has 1"):
        plan((0, S // 2))


def test_windows_of_no_length_are_an_error():
    with pytest.raises(UsageError, match="no windows"):
        plan((0, S), window_s=Fraction(0))


VALID = {
    "eeg": np.array([[1, 1, 1, 1], [1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 1, 1]], dtype=bool),
    "gsr": np.array([[1], [1], [1], [0]], dtype=bool),
}


@pytest.mark.parametrize(
    ("on_gap", "min_valid", "keep", "n_gap", "n_thin"),
    [
        ("mask", 0.0, [1, 1, 1, 1], 0, 0),
        ("mask", 0.75, [1, 1, 0, 0], 0, 2),
        ("drop", 0.0, [1, 0, 0, 0], 3, 0),
    ],
)
def test_windows_are_kept_by_policy_and_share(on_gap, min_valid, keep, n_gap, n_thin):
    kept = align.keep_windows(VALID, on_gap=on_gap, min_valid=min_valid)
    assert kept.keep.tolist() == [bool(k) for k in keep]
    assert (kept.n_gap, kept.n_thin) == (n_gap, n_thin)
    assert kept.shares["eeg"].tolist() == [1.0, 0.75, 0.25, 1.0]


def test_fail_names_the_first_window_and_its_stream():
    with pytest.raises(DataError, match="eeg: 1 of 4 samples of window 11") as caught:
        align.keep_windows(VALID, on_gap="fail", first=10)
    assert caught.value.exit_code == 3
