from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmprep import align
from mmprep.align.ledger import Accounting, Ledger
from mmprep.signals import Stream
from tests.align import made
from tests.align.test_repaired import FAULTS, broken


def account(fixed, times_s, method, begin_s, end_s, **options):
    ledger = Ledger(fixed)
    ledger.mark(made.resample(fixed, times_s, method, **options))
    return ledger.close(*made.ns([begin_s, end_s]).tolist())


def test_rows_outside_of_the_windows_are_out_of_range():
    counts = account(made.steady(1280, 128), np.arange(128, 256) / 128, "sinc", 1.0, 2.0)
    assert (counts.n_used, counts.n_out_of_range, counts.n_masked) == (128, 1152, 0)


def test_rows_that_nearest_skips_are_masked():
    counts = account(made.steady(600, 60, kind="video"), np.arange(300) / 30, "nearest", 0, 10)
    assert (counts.n_used, counts.n_masked) == (300, 300)


def test_time_error_is_that_of_the_samples_picked_and_kept():
    fixed = made.steady(100, 10, kind="video")  # a frame each 100 ms
    ledger = Ledger(fixed)
    asked = np.array([1.0, 2.01, 3.03, 4.049, 50.0])
    kept = np.array([True, True, True, False, True])
    ledger.mark(made.resample(fixed, asked, "nearest"), kept)
    ledger.mark(made.resample(fixed, asked[:1] + 0.02, "nearest"))
    rms_s, max_s = ledger.time_error_s
    assert max_s == pytest.approx(0.03)
    assert rms_s == pytest.approx(np.sqrt(np.mean(np.square([0, 0.01, 0.03, 0.02]))))


def test_interpolated_values_have_no_time_error():
    fixed = made.steady(100, 10)
    ledger = Ledger(fixed)
    ledger.mark(made.resample(fixed, [1.04, 50.0], "linear"))
    ledger.mark(made.resample(fixed, [50.0], "nearest"))
    assert ledger.time_error_s is None


@pytest.mark.parametrize(("method", "n_used"), [("sinc", 1280), ("linear", 40)])
def test_going_down_rests_on_the_kernels_main_lobe(method, n_used):
    options = {"rate_hz": Fraction(4)} if method == "sinc" else {}
    counts = account(made.steady(1280, 128), np.arange(40) / 4, method, 0, 10, **options)
    assert counts.n_used == n_used


def test_outputs_left_out_are_not_counted():
    fixed = made.steady(1280, 128)
    got = made.resample(fixed, np.arange(1280) / 128, "sinc")
    ledger = Ledger(fixed)
    ledger.mark(got, np.arange(1280) < 640)
    assert ledger.close(*made.ns([0, 10]).tolist()).n_used == 640


def test_slices_mark_what_the_whole_marks():
    fixed = made.steady(5000, 128)
    times = np.sort(np.random.default_rng(0).uniform(0, 39, 300))
    ledger = Ledger(fixed)
    for part in np.array_split(times, 7):
        ledger.mark(made.resample(fixed, part, "linear"))
    rests_on = {i for t in times for i in (int(t * 128), int(t * 128) + 1)}
    assert ledger.close(*made.ns([0, 39]).tolist()).n_used == len(rests_on)


def test_counts_that_do_not_add_up_are_a_bug():
    with pytest.raises(RuntimeError, match="don't add up"):
        Accounting(10, 5, 1, 1, 1, 1)


@settings(max_examples=60, deadline=None)
@given(
    FAULTS,
    st.sampled_from(["hold", "nearest", "linear", "cubic"]),
    st.floats(-1, 4),
    st.integers(1, 4),
    st.lists(st.integers(0, 399), max_size=10),
)
def test_accounting_of_broken_streams_adds_up(faults, method, begin_s, length_s, missing):
    stamps = broken(faults)
    data = np.arange(float(stamps.size))
    data[[i for i in missing if i < data.size]] = np.nan
    unreadable = np.isin(np.arange(stamps.size), missing[:2])
    stream = Stream("s", stamps, data, nominal_rate_hz=Fraction(128))
    fixed = align.repair(stream, stamps, unreadable=unreadable)
    origin = round(begin_s * 1e9)
    times = np.arange(100 * length_s) / 100
    got = align.resample(fixed, times, origin_ns=origin, method=method)
    ledger = Ledger(fixed)
    ledger.mark(got)
    counts = ledger.close(origin, origin + length_s * 10**9)
    assert counts.n_in == stamps.size
    assert counts.n_corrupt >= unreadable.sum()
    inside = (fixed.stamps_ns() >= origin) & (fixed.stamps_ns() < origin + length_s * 10**9)
    assert counts.n_used + counts.n_masked == inside.sum()
