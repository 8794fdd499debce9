from __future__ import annotations

import gzip
import json
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmprep import align
from mmprep.align.repaired import Repaired
from mmprep.errors import DataError
from mmprep.signals import Stream
from tests.align import made


def test_repair_of_exact_stamps_moves_nothing():
    fixed = made.steady(1000, 125)
    assert fixed.repairs.is_dejittered
    assert fixed.repairs.moved_max_s < 1e-9
    assert fixed.stamps_ns().tolist() == made.ns(np.arange(1000) / 125).tolist()
    assert fixed.runs.tolist() == [0, 1000]


def test_repair_reports_how_far_stamps_moved():
    jitter = np.random.default_rng(0).normal(0, 1e-3, 5000)
    fixed = made.repaired(np.arange(5000) / 128 + jitter, rate=128)
    assert fixed.repairs.moved_max_s == pytest.approx(np.abs(jitter).max(), rel=0.05)
    assert fixed.repairs.moved_p99_s == pytest.approx(np.percentile(np.abs(jitter), 99), rel=0.05)


def test_repair_of_a_long_stream_holds_few_arrays_of_its_length():
    n_rows = 300_000
    jitter = np.random.default_rng(0).normal(0, 1.5e-3, n_rows)
    stream = made.stream(np.arange(n_rows) / 128 + jitter, rate=128)
    gained_ns = np.arange(n_rows) // 50
    align.repair(made.stream(np.arange(2000) / 128, rate=128), made.ns(np.arange(2000) / 128))
    tracemalloc.start()
    align.repair(stream, stream.stamps_ns + gained_ns, own_ns=stream.stamps_ns)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 9.5 * 8 * n_rows


def test_repair_finds_a_gap_where_one_sample_is_lost():
    fixed = made.repaired(np.delete(np.arange(200), 77) / 128, rate=128)
    assert fixed.runs.tolist() == [0, 77, 199]
    assert fixed.n_gaps == 1
    assert fixed.repairs.n_lost == 1
    assert fixed.gaps_ns.tolist() == [made.ns([76 / 128, 78 / 128]).tolist()]


def test_repair_reports_the_effective_rate():
    fixed = made.repaired(np.arange(20_000) / 128.0256, rate=128)
    assert fixed.effective_rate_hz == pytest.approx(128.0256, rel=1e-9)
    assert fixed.rate_ppm == pytest.approx(200, abs=0.01)


def test_repair_believes_the_stamps_where_the_nominal_rate_cannot_be_true():
    fixed = made.repaired(np.arange(2000) / 64, rate=128)
    assert fixed.n_gaps == 0
    assert fixed.period_s == pytest.approx(1 / 64)
    assert not fixed.repairs.is_dejittered


def test_repair_never_moves_an_irregular_stream():
    seconds = np.cumsum(np.random.default_rng(1).exponential(0.8, 500))
    fixed = made.repaired(seconds)
    assert not fixed.is_regular
    assert fixed.stamps_ns().tolist() == made.ns(seconds).tolist()
    assert fixed.repairs.moved_max_s == 0


def test_repair_covers_a_period_behind_the_last_sample():
    begin, end = made.steady(1280, 128).coverage_ns
    assert (begin, end) == (made.ORIGIN_NS, made.ORIGIN_NS + 10**10)


def test_repair_of_nothing_readable_has_no_coverage():
    fixed = made.steady(20, 128, unreadable=np.ones(20, dtype=bool))
    assert fixed.n_corrupt == 20
    with pytest.raises(DataError, match="no row has a usable stamp"):
        _ = fixed.coverage_ns


def test_repair_refuses_session_times_of_another_length():
    stream = made.stream(np.arange(10))
    with pytest.raises(DataError, match="10 rows with 9 session times"):
        align.repair(stream, stream.stamps_ns[:9])


def test_repair_shifted_in_time_is_the_same_repair():
    jitter = np.random.default_rng(2).normal(0, 1e-3, 3000)
    stream = made.stream(np.delete(np.arange(3001), 1500) / 128 + jitter, rate=128)
    here = align.repair(stream, stream.stamps_ns)
    there = align.repair(stream, stream.stamps_ns + 987_654_321_987)
    assert (there.stamps_ns() - here.stamps_ns()).tolist() == [987_654_321_987] * 3000
    assert there.runs.tolist() == here.runs.tolist()


def test_repair_keeps_events_where_they_are_and_drops_only_exact_repeats():
    fixed = made.repaired([3.0, 1.0, 1.0, 1.0, 2.0], ["c", "a", "b", "a", "a"], kind="events")
    assert fixed.pick(np.arange(4)).tolist() == ["a", "b", "a", "c"]
    assert fixed.n_duplicate == 1
    assert fixed.stamps_ns().tolist() == made.ns([1.0, 1.0, 2.0, 3.0]).tolist()


def test_regular_lays_audio_between_knots():
    data = np.zeros(44_100 * 2, dtype=np.float32)
    knots = np.array([0.0, 44_100.0, 88_200.0])
    times = made.ORIGIN_NS + np.array([0, 1_000_020_000, 2_000_040_000])
    fixed = align.regular_data("audio", data, knots, times, nominal_rate_hz=Fraction(44_100))
    assert fixed.rate_ppm == pytest.approx(-20, abs=0.01)
    assert fixed.stamps_ns(44_100, 44_101).tolist() == [made.ORIGIN_NS + 1_000_020_000]


def test_repair_shifts_the_jumped_block_of_b03_back(shared):
    text = np.genfromtxt(shared("made/B03/jump.tsv"), skip_header=1)
    truth = json.loads(shared("made/B03/truth.json").read_text())
    stamps = np.rint(text[:, 0] * 1e6).astype(np.int64) * 1000
    stream = Stream("s", stamps, text[:, 1], nominal_rate_hz=Fraction(truth["true_rate_hz"]))
    fixed = align.repair(stream, stamps)
    low, high = truth["rows_with_bad_time"]
    assert fixed.repairs.n_shifted == high - low + 1
    assert np.abs(fixed.stamps_ns() - stamps[0] - np.arange(4000) * 4_000_000).max() <= 1
    assert fixed.n_gaps == 0


@pytest.mark.parametrize("jitter_s", [0.0, 0.2e-3])
@pytest.mark.parametrize("rate_hz", [512, 900, 1024, 1500])
def test_repair_of_stamps_in_milliseconds_finds_samples_between_them(rate_hz, jitter_s):
    true_s = np.arange(20_000) / rate_hz
    jitter = np.random.default_rng(0).normal(0, jitter_s, true_s.size)
    fixed = made.repaired(np.round(true_s + jitter, 3), rate=rate_hz)
    assert fixed.n_samples == 20_000
    assert fixed.n_gaps == 0
    assert fixed.rate_ppm == pytest.approx(0, abs=1)
    assert np.percentile(made.error_s(fixed, true_s), 99) < 15e-6


def test_repair_counts_what_is_lost_among_stamps_in_milliseconds():
    kept = np.delete(np.arange(20_000), np.arange(9000, 9040))
    fixed = made.repaired(np.round(kept / 1024, 3), rate=1024)
    assert (fixed.n_samples, fixed.repairs.n_lost, fixed.n_gaps) == (kept.size, 40, 1)
    assert np.percentile(made.error_s(fixed, kept / 1024), 99) < 50e-6


def test_repair_measures_the_drift_of_b04_from_bursts(shared):
    with gzip.open(shared("made/B04/ble_packets.tsv.gz"), "rt") as lines:
        text = np.genfromtxt(lines, skip_header=1)
    stamps = (
        1_700_000_000_000_000_000 + np.rint((text[:, 1] - 1.7e9) * 1e4).astype(np.int64) * 10**5
    )
    stream = Stream("s", stamps, text[:, 2], nominal_rate_hz=Fraction(256))
    fixed = align.repair(stream, stamps)
    assert fixed.repairs.in_packets
    assert fixed.repairs.estimate == "envelope"
    assert fixed.rate_ppm == pytest.approx(80, abs=1)
    assert fixed.n_samples == fixed.n_in
    assert fixed.n_gaps == 0


FAULTS = st.lists(
    st.tuples(
        st.sampled_from(["repeat", "jump", "drop", "swap", "wild"]),
        st.integers(0, 399),
        st.integers(1, 30),
    ),
    max_size=5,
)


def broken(faults):
    stamps = np.arange(400, dtype=np.int64) * 7_812_500
    for fault, where, size in faults:
        at = where % max(stamps.size, 1)
        if fault == "repeat":
            stamps = np.insert(stamps, at, stamps[at : at + size])
        elif fault == "jump":
            stamps[at : at + size] += 200_000 * 10**9
        elif fault == "drop":
            stamps = np.delete(stamps, slice(at, at + size))
        elif fault == "swap":
            stamps[at : at + size] = stamps[at : at + size][::-1]
        else:
            stamps[at : at + 1] = -size * 10**14
    return stamps


@settings(max_examples=80, deadline=None)
@given(FAULTS, st.sampled_from([128, None]))
def test_repair_of_broken_stamps_rises_and_adds_up(faults, rate):
    stamps = broken(faults)
    stream = Stream("s", stamps, np.arange(stamps.size), nominal_rate_hz=rate and Fraction(rate))
    fixed: Repaired = align.repair(stream, stamps)
    assert fixed.n_samples + fixed.n_corrupt + fixed.n_duplicate == stamps.size
    assert np.all(np.diff(fixed.stamps_ns()) > 0)
    assert fixed.n_samples == 0 or np.ptp(fixed.stamps_ns()) < 10 * 10**9


@pytest.mark.parametrize("ppm", [-30, -20, 20, 25, 30, 140])
@pytest.mark.parametrize("rate", [250, 1000])
def test_whole_milliseconds_give_the_phase_by_their_beat(ppm, rate):
    true_s = (np.arange(600 * rate) + abs(ppm) / 200) / rate * (1 + ppm * 1e-6)
    stamps_ns = np.rint(true_s * 1e3).astype(np.int64) * 10**6
    stream = Stream("x", stamps_ns, np.zeros((true_s.size, 1)), nominal_rate_hz=Fraction(rate))
    found = align.repair(stream, stamps_ns)
    assert (found.n_samples, found.repairs.estimate) == (true_s.size, "rounded")
    times_ns = found.stamps_ns()
    off_s = np.abs(times_ns / 1e9 - true_s).reshape(-1, rate).max(axis=1)
    assert off_s.max() < 50e-6
    assert np.mean(off_s <= 3.5 * found.sigma_at_s(times_ns[::rate])) >= 0.99


def test_block_that_is_days_off_on_a_clock_that_drifts_costs_nothing():
    true_s = np.arange(20_000) / 128
    own_ns = made.ns(true_s + np.random.default_rng(0).normal(0, 0.3e-3, true_s.size))
    own_ns[5000:5064] += 200_000 * 10**9
    session_ns = own_ns + (own_ns - own_ns[0]) * 12 // 100_000
    stream = Stream("x", own_ns, np.zeros((true_s.size, 1)), nominal_rate_hz=Fraction(128))
    found = align.repair(stream, session_ns)
    assert (found.repairs.is_dejittered, found.repairs.n_shifted) == (True, 64)
    wrong_s = (found.stamps_ns() - made.ns(true_s * 1.00012)) / 1e9
    assert np.ptp(wrong_s) < 20e-6
    assert np.abs(wrong_s - (own_ns[0] - made.ns(true_s[:1])) * 12e-5 / 1e9).max() < 30e-6
