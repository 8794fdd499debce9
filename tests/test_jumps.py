"""Where the stamps of a recording jump with their clock, and which rows nothing can time."""

from __future__ import annotations

import numpy as np
import pytest

from mmprep import clock
from mmprep.timebase import Exchanges
from tests import synth

DURATION_S = 300.0


def _placed(resets, *, interval_s=1.0, path=None, **stamps):
    """Give the errors of all rows, where they were placed, and the rows where the clock jumped."""
    device = synth.Clock(fast_ppm=30, wander_s=0.8e-3, resets=resets)
    log = synth.exchanges(device, duration_s=DURATION_S, interval_s=interval_s, **path or {})
    model = clock.fit(log)
    stamps_ns, true_ns = synth.stamps(device, 128, duration_s=DURATION_S, **stamps)
    placed = model.place_in_order(stamps_ns)
    wrong_ns = model.apply(stamps_ns, segment=placed.segment) - true_ns
    at_ns = [synth.MASTER_NS + round(at_s * 1e9) for at_s, _ in resets]
    return np.abs(wrong_ns) / 1e9, placed, np.searchsorted(true_ns, at_ns)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("jump_s", [-5e-3, 5e-3])
def test_place_of_a_jump_of_three_sigma_is_known_to_a_few_rows(jump_s, seed):
    _, (segment, is_sure), (row,) = _placed(((150.37, jump_s),), jitter_s=1.5e-3, seed=seed)
    unsure = np.flatnonzero(~is_sure)
    assert unsure.size <= 8
    assert np.all(np.abs(unsure - row) <= 8)
    assert np.array_equal(segment[is_sure], (np.arange(segment.size) >= row)[is_sure])


@pytest.mark.parametrize("jump_s", [-0.05, 0.02, 0.14, -3.0])
def test_rows_between_two_near_jumps_are_right(jump_s):
    resets = ((150.4, jump_s), (153.1, 0.09))
    error_s, (_, is_sure), _ = _placed(resets, jitter_s=0.3e-3)
    assert np.max(error_s) < 2.5e-3
    assert is_sure.all()


@pytest.mark.parametrize("jump_s", [-0.05, 0.02, 0.14, -3.0])
def test_rows_between_two_jumps_without_a_fix_are_unsure(jump_s):
    resets = ((141.4, jump_s), (145.1, 0.09))
    error_s, (_, is_sure), (first, last) = _placed(resets, interval_s=10.0, jitter_s=0.3e-3)
    assert np.max(error_s[is_sure]) < 2.5e-3
    unsure = np.flatnonzero(~is_sure)
    assert unsure.size == pytest.approx(last - first, abs=4)
    assert unsure[[0, -1]] == pytest.approx([first, last], abs=3)


@pytest.mark.parametrize("at_s", [1.6, 5.3, DURATION_S - 5.3, DURATION_S - 1.6])
@pytest.mark.parametrize("jump_s", [-0.08, 70.0])
def test_a_jump_near_an_end_of_the_recording_is_no_outlier(at_s, jump_s):
    error_s, (_, is_sure), _ = _placed(((at_s, jump_s),), jitter_s=0.3e-3)
    assert np.max(error_s[is_sure]) < 2.5e-3
    assert np.mean(is_sure) > 0.999


def test_a_small_jump_is_found_under_ten_times_the_jitter_of_the_path():
    resets = ((100.3, 5e-3), (200.6, -6e-3))
    error_s, (_, is_sure), _ = _placed(resets, path={"jitter_s": 400e-6}, jitter_s=0.3e-3)
    assert np.max(error_s[is_sure]) < 2.5e-3
    assert np.mean(is_sure) > 0.999


def test_rows_that_come_when_they_like_are_unsure_beside_a_small_jump():
    device = synth.Clock(resets=((150.4, 0.04),))
    model = clock.fit(synth.exchanges(device, duration_s=DURATION_S))
    since_ns = np.sort(np.random.default_rng(1).integers(0, 300 * 10**9, 10_000))
    true_ns = synth.MASTER_NS + since_ns
    stamps_ns = device.device_ns(true_ns)
    placed = model.place_in_order(stamps_ns)
    error_s = np.abs(model.apply(stamps_ns, segment=placed.segment) - true_ns) / 1e9
    assert np.max(error_s[placed.is_sure]) < 1e-3
    assert 0 < np.sum(~placed.is_sure) < 60


def test_losses_around_a_jump_leave_sure_rows_right():
    error_s, (_, is_sure), _ = _placed(((150.4, -0.07), (157.2, 0.03)), jitter_s=0.3e-3, lost=0.01)
    assert np.max(error_s[is_sure]) < 2.5e-3
    assert np.mean(is_sure) > 0.99


def test_a_lone_broken_exchange_leaves_all_rows_sure():
    log = synth.exchanges(synth.Clock(), duration_s=DURATION_S)
    wrong = np.where(np.arange(log.t1_ns.size) == 150, 80_000_000, 0)
    broken = Exchanges(log.t1_ns, log.t2_ns + wrong, log.t3_ns + wrong, log.t4_ns)
    stamps_ns, _ = synth.stamps(synth.Clock(), 128, duration_s=DURATION_S)
    placed = clock.fit(broken).place_in_order(stamps_ns)
    assert placed.is_sure.all()
    assert not placed.segment.any()


def test_few_rows_that_come_when_they_like_are_parted_by_a_reboot():
    device = synth.Clock(resets=((150.4, -650_000.0),))
    model = clock.fit(synth.exchanges(device, duration_s=DURATION_S))
    steps_s = np.random.default_rng(1).uniform(0, 3, 190)
    true_ns = synth.MASTER_NS + np.rint(np.cumsum(steps_s) * 1e9).astype(np.int64)
    stamps_ns = device.device_ns(true_ns)
    placed = model.place_in_order(stamps_ns)
    assert placed.is_sure.all()
    assert np.max(np.abs(model.apply(stamps_ns, segment=placed.segment) - true_ns)) < 10**6


@pytest.mark.parametrize("gap_s", [(155.0, 161.0), (140.0, 149.0), (150.5, 151.1)])
def test_a_gap_near_a_jump_leaves_all_rows_sure(gap_s):
    stamps = {"jitter_s": 1.5e-3, "gaps_s": (gap_s,)}
    error_s, (_, is_sure), _ = _placed(((150.3, 2.5),), **stamps)
    assert is_sure.all()
    assert np.max(error_s) < 10e-3
