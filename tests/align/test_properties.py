"""What holds for all streams, against slow and obvious answers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmprep import align
from mmprep.signals import Stream
from tests.align import made

P = 7_812_500  # 128 Hz
START = 1_700_000_000 * 10**9
FAULTS = st.lists(
    st.tuples(
        st.sampled_from(["repeat", "jump", "back", "drop", "late", "wild", "zero"]),
        st.integers(0, 399),
        st.integers(1, 30),
    ),
    max_size=4,
)


def faulty(faults):
    """Stamp 400 rows, with faults, and say when each row was taken."""
    true = START + np.arange(400, dtype=np.int64) * P
    stamps = true.copy()
    for fault, where, size in faults:
        at = where % max(stamps.size, 1)
        block = slice(at, at + size)
        if fault in ("jump", "back"):
            stamps[block] += (200_000 if fault == "jump" else -200_000) * 10**9
        elif fault in ("wild", "zero"):
            stamps[at if fault == "wild" else block] = 0 if fault == "zero" else -size * 10**14
        elif fault == "repeat":
            stamps, true = (np.insert(x, at, x[block]) for x in (stamps, true))
        else:
            rest = [np.delete(x, block) for x in (stamps, true)]
            to = min(at + 40, rest[0].size)
            late = [x[block] if fault == "late" else x[:0] for x in (stamps, true)]
            stamps, true = (np.insert(x, to, y) for x, y in zip(rest, late, strict=True))
    return stamps, true


def most_wrong(faults):
    """Say how many rows may end up elsewhere.

    Rows that come late or twice beside other faults may as well fill the room of those.
    """
    kinds = {fault for fault, _, _ in faults}
    is_clear = len(faults) < 2 or not kinds & {"late", "repeat"}
    return 0 if is_clear else sum(2 * size for _, _, size in faults)


@given(FAULTS, st.sampled_from([128, None]))
def test_rows_that_are_kept_lie_where_they_were_taken(faults, rate):
    stamps, true = faulty(faults)
    stream = Stream("s", stamps, np.arange(stamps.size), nominal_rate_hz=rate and Fraction(rate))
    fixed = align.repair(stream, stamps)
    rows = np.arange(stamps.size) if fixed.rows is None else fixed.rows
    off = np.abs(fixed.stamps_ns() - true[rows])
    assert np.count_nonzero(off > P // 2) <= most_wrong(faults)
    assert len(set(rows.tolist())) == rows.size


@given(FAULTS, st.integers(-(10**18), 10**17), st.sampled_from(["nearest", "cubic", "sinc"]))
def test_stream_that_is_shifted_has_its_values_shifted(faults, shift, method):
    stamps, _ = faulty(faults)
    data = np.sin(np.arange(stamps.size) / 7)
    times = np.arange(0, 3, 1 / 100)
    found = []
    for by in (0, shift):
        stream = Stream("s", stamps + by, data, nominal_rate_hz=Fraction(128))
        fixed = align.repair(stream, stamps + by)
        if method == "sinc" and not fixed.is_regular:
            return
        got = align.resample(fixed, times, origin_ns=START + by, method=method)
        found.append((got.values.tobytes(), got.valid.tobytes(), got.support.tobytes()))
    assert found[0] == found[1]


RUNS = st.lists(st.tuples(st.integers(1, 12), st.integers(2, 9)), min_size=1, max_size=6).filter(
    lambda runs: (
        sum(n for n, _ in runs) < 16 or max(n for n, _ in runs) > sum(n for n, _ in runs) / 2
    )
)
TIMES = st.lists(st.integers(-40, 700), min_size=1, max_size=40)


def in_runs(runs):
    """Lay samples at whole periods: (count, holes behind) each."""
    places, at = [], 0
    for count, hole in runs:
        places += range(at, at + count)
        at += count + hole
    return np.array(places)


def is_inside(places, position):
    """Say whether both neighbours of a position, in periods, lie in one unbroken run."""
    if position == int(position) and int(position) in places:
        return True
    low = int(np.floor(position))
    return low in places and low + 1 in places


@given(RUNS, TIMES, st.sampled_from(["linear", "cubic"]))
def test_validity_is_that_both_neighbours_are_in_one_run(runs, times, method):
    places = in_runs(runs)
    fixed = made.repaired(places / 64, np.ones(places.size), rate=64, dejitters=False)
    got = made.resample(fixed, np.array(times) / 640, method)
    assert got.valid.tolist() == [is_inside(set(places.tolist()), t / 10) for t in times]
    assert np.isnan(got.values[~got.valid]).all()


@given(RUNS, TIMES, st.integers(0, 5), st.sampled_from(["linear", "cubic", "sinc"]))
def test_values_in_one_run_do_not_depend_on_another(runs, times, number, method):
    places = in_runs(runs)
    run = np.repeat(np.arange(len(runs)), [count for count, _ in runs])
    times_s = np.array(times) / 640
    found = []
    for other in (0.0, 1e6):
        data = np.where(run == number % len(runs), np.cos(places), other)
        fixed = made.repaired(places / 64, data, rate=64, dejitters=False)
        if method == "sinc" and not fixed.is_regular:
            return
        got = made.resample(fixed, times_s, method)
        own = run[np.clip(got.support[:, 0], 0, run.size - 1)] == number % len(runs)
        found.append(got.values[got.valid & own].tolist())
    assert found[0] == found[1]


@given(
    st.lists(st.tuples(st.integers(0, 59), st.integers(0, 2)), max_size=12),
    st.lists(st.integers(0, 590), min_size=1, max_size=40),
    st.sampled_from(["linear", "cubic", "sinc"]),
)
def test_missing_reading_is_missing_between_its_neighbours_alone(missing, times, method):
    data = np.random.default_rng(0).normal(size=(60, 3))
    whole = made.resample(made.steady(60, 64, data=data), np.array(times) / 640, method)
    holed = data.copy()
    for row, channel in missing:
        holed[row, channel] = np.nan
    got = made.resample(made.steady(60, 64, data=holed), np.array(times) / 640, method)
    for k, time in enumerate(times):
        rows = [time // 10] if time % 10 == 0 else [time // 10, time // 10 + 1]
        lost = np.isnan(holed[rows]).any(axis=0)
        assert np.isnan(got.values[k]).tolist() == lost.tolist()
        assert got.valid[k] == (not lost.all())
    intact = [c for c in range(3) if not np.isnan(holed[:, c]).any()]
    assert got.values[:, intact].tolist() == whole.values[:, intact].tolist()


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=30).map(sorted),
    st.lists(st.integers(-20, 140), min_size=1, max_size=40),
    st.sampled_from(["nearest", "hold"]),
    st.integers(0, 12),
)
def test_first_of_equal_stamps_and_earlier_of_equally_near_ones_is_picked(
    stamps, halves, method, tolerance
):
    stamps_ns = np.array(stamps) * 2 * 10**6
    stream = Stream("v", stamps_ns, np.arange(len(stamps)), kind="video")
    fixed = align.repair(stream, stamps_ns, dejitters=False)
    got = align.resample(
        fixed, np.array(halves) * 1e-3, origin_ns=0, method=method, tolerance_s=tolerance * 1e-3
    )
    for time, picked in zip(halves, got.values.tolist(), strict=True):
        off = [time - 2 * stamp for stamp in stamps]
        near = [
            (abs(d), k)
            for k, d in enumerate(off)
            if abs(d) <= tolerance and not (method == "hold" and d < 0)
        ]
        assert picked == (min(near)[1] if near else -1)


def test_made_faults_are_faults():
    stamps, true = faulty([("late", 10, 5), ("jump", 100, 3), ("drop", 200, 7)])
    assert stamps.size == true.size == 393
    assert np.any(np.diff(stamps) < 0)
    with pytest.raises(AssertionError):
        np.testing.assert_array_equal(stamps, true)
