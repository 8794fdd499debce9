from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmprep import align
from mmprep.errors import DataError, UsageError
from mmprep.signals import Stream
from tests.align import made


def oracle(stamps_ns, times_ns, method, tolerance_ns):
    """Look at every sample for every time."""
    picked = []
    for time in times_ns:
        best = None
        for i, stamp in enumerate(stamps_ns):
            off = int(time - stamp)
            if (method == "hold" and off < 0) or abs(off) > tolerance_ns:
                continue
            if best is None or abs(off) < abs(time - stamps_ns[best]):
                best = i
        picked.append(-1 if best is None else best)
    return picked


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(0, 200), min_size=1, max_size=25, unique=True).map(sorted),
    st.lists(st.integers(-20, 220), min_size=1, max_size=40),
    st.sampled_from(["nearest", "hold"]),
    st.integers(0, 30),
)
def test_pick_equals_brute_force(stamps, times, method, tolerance):
    ms = 1_000_000
    stamps_ns, times_ns = np.array(stamps) * ms, np.array(times) * ms
    stream = Stream("v", stamps_ns, np.arange(len(stamps)), kind="video")
    got = align.resample(
        align.repair(stream, stamps_ns, dejitters=False),
        times_ns * 1e-9,
        origin_ns=0,
        method=method,
        tolerance_s=tolerance * 1e-3,
    )
    wanted = oracle(stamps_ns, times_ns, method, tolerance * ms)
    assert got.values.tolist() == wanted
    assert got.valid.tolist() == [i >= 0 for i in wanted]
    picked = np.array(wanted)[got.valid]
    np.testing.assert_allclose(
        got.error_s[got.valid], (stamps_ns[picked] - times_ns[got.valid]) * 1e-9, atol=1e-12
    )


def test_nearest_is_by_default_within_half_a_period():
    fixed = made.repaired(np.r_[0:10, 20:30] / 10.0, rate=10)
    got = made.resample(fixed, [-0.051, -0.05, 0.94, 0.95, 0.951, 1.949, 1.95, 2.96], "nearest")
    assert got.valid.tolist() == [False, True, True, True, False, False, True, False]


def test_hold_is_by_default_within_a_period_and_never_looks_ahead():
    fixed = made.repaired(np.r_[0:10, 20:30] / 10.0, rate=10)
    got = made.resample(fixed, [-0.01, 0.0, 0.09, 1.0, 1.01, 1.99, 2.0], "hold")
    assert got.valid.tolist() == [False, True, True, True, False, False, True]
    assert got.values[got.valid].tolist() == [0.0, 0.0, 9.0, 10.0]


def test_nearest_has_no_holes_where_a_stream_runs_slow():
    fixed = made.repaired(np.arange(20_000) / 30 * (1 + 100e-6), rate=30, kind="video")
    got = made.resample(fixed, np.arange(19_999) / 30, "nearest")
    assert got.valid.all()
    assert np.nanmax(np.abs(got.error_s)) <= 0.5 / 30 * 1.0002


@pytest.mark.parametrize("method", ["linear", "cubic", "sinc"])
def test_nothing_is_interpolated_across_a_gap(method):
    fixed = made.repaired(np.r_[0:300, 301:600] / 128.0, np.ones(599), rate=128)
    times = np.arange(0, 599.25, 0.25) / 128
    got = made.resample(fixed, times, method)
    inside = (times > 299 / 128) & (times < 301 / 128)
    assert got.valid.tolist() == (~inside).tolist()
    assert np.isnan(got.values[inside]).all()
    np.testing.assert_allclose(got.values[~inside], 1.0, atol=1e-6)


@pytest.mark.parametrize("method", ["linear", "cubic", "sinc"])
def test_the_other_side_of_a_gap_has_no_influence(method):
    seconds = np.r_[0:300, 310:600] / 128.0
    data = np.sin(np.arange(590.0))
    changed = np.where(np.arange(590) < 300, data, 1e6)
    times = np.arange(0, 299, 0.3) / 128
    one, other = (
        made.resample(made.repaired(seconds, values, rate=128), times, method).values
        for values in (data, changed)
    )
    assert one.tolist() == other.tolist()


@pytest.mark.parametrize("method", ["linear", "cubic", "sinc"])
def test_a_missing_reading_stays_in_its_channel_and_between_its_neighbours(method):
    data = np.random.default_rng(0).normal(size=(1000, 3))
    data[500, 1] = np.nan
    times = np.arange(0, 999, 0.5) / 128
    got = made.resample(made.steady(1000, 128, data=data), times, method)
    missing = np.isnan(got.values)
    assert got.valid.all()
    assert not missing[:, [0, 2]].any()
    assert np.flatnonzero(missing[:, 1]).tolist() == [999, 1000, 1001]


def test_an_output_without_any_channel_is_not_valid():
    data = np.ones((100, 2))
    data[50] = np.nan
    got = made.resample(made.steady(100, 128, data=data), np.arange(100) / 128, "linear")
    assert np.flatnonzero(~got.valid).tolist() == [50]


@pytest.mark.parametrize("method", ["linear", "cubic", "sinc"])
@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_times_on_samples_give_the_samples(method, n):
    data = np.arange(float(n)) ** 2
    fixed = made.steady(n, 128, data=data) if n > 2 else made.steady(9, 128, data=np.arange(9.0))
    if method == "sinc" and not fixed.is_regular:
        pytest.skip("too short to be called even")
    times = np.arange(fixed.n_samples) / 128
    got = made.resample(fixed, times, method)
    assert got.valid.all()
    np.testing.assert_allclose(got.values, fixed.source, atol=1e-4)


def test_a_grid_that_ends_on_the_last_sample_keeps_it_through_rounding():
    fixed = made.steady(129, 128)
    got = made.resample(fixed, [1.0 + 4e-7, 1.0 + 2e-6, -4e-7, -2e-6], "sinc")
    assert got.valid.tolist() == [True, False, True, False]


@pytest.mark.parametrize("method", ["hold", "nearest", "linear", "cubic", "sinc"])
def test_shifted_stamps_shift_the_results(method):
    jitter = np.random.default_rng(4).normal(0, 3e-4, 3000)
    stream = made.stream(np.r_[0:1000, 1010:3010] / 128.0 + jitter, rate=128)
    times = np.arange(0, 20, 1 / 100)
    shift = 86_399_999_999_877
    here, there = (
        align.resample(
            align.repair(stream, stream.stamps_ns + by),
            times,
            origin_ns=made.ORIGIN_NS + by,
            method=method,
        )
        for by in (0, shift)
    )
    assert here.values.tobytes() == there.values.tobytes()
    assert here.valid.tolist() == there.valid.tolist()


@pytest.mark.parametrize("method", ["hold", "nearest", "linear", "cubic", "sinc"])
def test_slices_equal_the_whole(method):
    data = np.random.default_rng(5).normal(size=(20_000, 2))
    data[::701, 0] = np.nan
    fixed = made.repaired(np.delete(np.arange(20_003), [4, 7000, 7001]) / 128, data, rate=128)
    times = np.arange(0, 156, 1 / 128) + 0.003
    whole = made.resample(fixed, times, method)
    parts = [made.resample(fixed, part, method) for part in np.array_split(times, 17)]
    np.testing.assert_allclose(np.concatenate([p.values for p in parts]), whole.values, atol=1e-5)
    assert np.concatenate([p.valid for p in parts]).tolist() == whole.valid.tolist()
    assert np.concatenate([p.support for p in parts]).tolist() == whole.support.tolist()


@pytest.mark.parametrize("method", ["hold", "nearest", "linear", "cubic", "sinc"])
def test_times_in_any_order_give_the_same_values(method):
    fixed = made.steady(2000, 128, data=np.random.default_rng(6).normal(size=2000))
    times = np.arange(0, 15, 0.01)
    shuffled = np.random.default_rng(7).permutation(times.size)
    ordered = made.resample(fixed, times, method).values[shuffled]
    np.testing.assert_array_equal(made.resample(fixed, times[shuffled], method).values, ordered)


def test_text_is_held_and_none_where_invalid():
    fixed = made.repaired([0.0, 1.0, 2.0], ["a", "b", "c"], kind="signal")
    got = made.resample(fixed, [-1.0, 0.5, 1.0, 9.0], "hold", tolerance_s=1.0)
    assert got.values.tolist() == [None, "a", "b", None]


def test_equal_events_hold_the_last():
    fixed = made.repaired([0.0, 1.0, 1.0, 2.0], ["a", "b", "c", "d"], kind="events")
    got = made.resample(fixed, [0.5, 1.0, 1.5, 2.5], "hold", tolerance_s=5.0)
    assert got.values.tolist() == ["a", "c", "c", "d"]


@pytest.mark.parametrize("method", ["hold", "nearest", "linear", "cubic"])
def test_an_empty_stream_gives_nothing_valid(method):
    fixed = made.repaired(np.zeros(0), np.zeros((0, 2)))
    got = made.resample(fixed, [0.0, 1.0], method)
    assert got.values.shape == (2, 2)
    assert not got.valid.any()


@pytest.mark.parametrize(
    ("method", "error", "why"),
    [("spline", UsageError, "no method 'spline'"), ("linear", DataError, "needs numbers")],
)
def test_a_method_that_cannot_be_used_says_so(method, error, why):
    with pytest.raises(error, match=why):
        made.resample(made.repaired([0.0, 1.0], ["a", "b"]), [0.5], method)


def test_sinc_through_an_irregular_stream_is_an_error():
    fixed = made.repaired(np.cumsum(np.random.default_rng(8).exponential(1, 300)))
    with pytest.raises(DataError, match="evenly spaced"):
        made.resample(fixed, [5.0], "sinc")


@pytest.mark.parametrize(
    ("rate", "kind", "target", "method"),
    [
        (128, "signal", 128, "sinc"),
        (4, "signal", 4, "cubic"),
        (4, "signal", 128, "cubic"),
        (16, "signal", 4, "sinc"),
        (30, "video", 30, "nearest"),
    ],
)
def test_default_method_fits_the_stream(rate, kind, target, method):
    assert align.default_method(made.steady(200, rate, kind=kind), Fraction(target)) == method


def test_default_method_of_text_is_hold_and_of_irregular_streams_cubic():
    assert align.default_method(made.repaired([0.0, 1.0], ["a", "b"]), Fraction(1)) == "hold"
    irregular = made.repaired(np.cumsum(np.random.default_rng(9).exponential(0.01, 300)))
    assert align.default_method(irregular, Fraction(10)) == "cubic"


def test_gap_of_b16_is_null_for_nearest_within_an_eighth_second(shared):
    eeg = np.genfromtxt(shared("made/B16/eeg_128hz.tsv"), skip_header=1)
    gsr = np.genfromtxt(shared("made/B16/gsr_4hz_with_gap.tsv"), skip_header=1)
    times = eeg[:, 0]
    fixed = made.repaired(gsr[:, 0], gsr[:, 1], rate=4)
    for tolerance in (0.125, None):
        got = made.resample(fixed, times, "nearest", tolerance_s=tolerance)
        null = (times > 2.965 + 1e-9) & (times < 5.215 - 1e-9)
        inside = times <= 9.84 + 0.125
        assert np.isnan(got.values[null]).all()
        assert got.valid[~null & inside].all()
        near = [int(np.argmin(np.abs(gsr[:, 0] - t))) for t in times[~null & inside]]
        assert np.abs(got.values[~null & inside] - gsr[near, 1]).max() <= 1
