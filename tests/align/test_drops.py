"""Dropped frames, told from a rate that varies."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from mmprep.align import find_drops

NTSC = Fraction(30000, 1001)


def times(numbers, rate_hz=NTSC, unit_ns=1):
    exact = [round(k / rate_hz * 10**9 / unit_ns) * unit_ns for k in numbers]
    return np.array(exact, np.int64)


def without(*lost, n=300):
    return np.setdiff1d(np.arange(n), lost)


def found(numbers, ranks=None, **options):
    ranks = np.arange(len(numbers)) if ranks is None else ranks
    drops = find_drops(ranks, times(numbers, **options), NTSC)
    return list(zip(drops.after.tolist(), drops.n_missing.tolist(), strict=True))


def test_every_frame_in_place_is_no_drop():
    assert found(range(300)) == []


@pytest.mark.parametrize("unit_ns", [1, 1_000_000], ids=["exact", "rounded to ms"])
def test_holes_are_found_with_their_frames(unit_ns):
    numbers = without(10, 50, 51, 52, 200)
    assert found(numbers, unit_ns=unit_ns) == [(9, 1), (48, 3), (195, 1)]
    drops = find_drops(np.arange(numbers.size), times(numbers, unit_ns=unit_ns), NTSC)
    assert drops.n_dropped == 5
    assert drops.span_ns[1].tolist() == times([49, 53], unit_ns=unit_ns).tolist()


def test_hole_of_a_minute_counts_all_of_its_frames():
    assert found(without(*range(100, 1900), n=3000)) == [(99, 1800)]


def test_rank_without_a_picture_is_no_dropped_frame():
    ranks = without(10, 11)
    assert found(ranks, ranks) == []
    assert found(without(10, 11, 12), np.setdiff1d(np.arange(298), [10])) == [(9, 2)]


def test_camera_that_drops_a_third_still_has_a_constant_rate():
    lost = np.arange(2, 300, 3)
    assert len(found(without(*lost))) == 99


def test_jitter_of_a_tenth_of_a_period_hides_no_hole():
    jitter = np.random.default_rng(1).uniform(-1.6e6, 1.6e6, 297).astype(np.int64)
    numbers = without(10, 11, 200)
    drops = find_drops(np.arange(297), times(numbers) + jitter, NTSC)
    assert (drops.after.tolist(), drops.n_missing.tolist()) == ([9, 197], [2, 1])


def test_phone_that_follows_the_light_has_no_drops_but_another_rate():
    steps = np.repeat([33.3, 41.7, 50.0, 33.3], [100, 60, 60, 100])
    stamps = np.rint(np.cumsum(steps) * 1e6).astype(np.int64)
    assert find_drops(np.arange(stamps.size), stamps, Fraction(30)) is None


def test_frames_when_something_moves_have_no_rate():
    stamps = np.sort(np.random.default_rng(2).integers(0, 10**11, 500))
    assert find_drops(np.arange(500), stamps, Fraction(5)) is None


@pytest.mark.parametrize("rate_hz", [None, Fraction(60)], ids=["no rate", "another rate"])
def test_without_a_true_rate_nothing_is_said(rate_hz):
    assert find_drops(np.arange(300), times(range(300)), rate_hz) is None


@pytest.mark.parametrize("n", [0, 1])
def test_lone_frame_says_nothing(n):
    assert find_drops(np.arange(n), times(range(n)), NTSC) is None
