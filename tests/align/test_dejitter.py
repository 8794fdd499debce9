from __future__ import annotations

import numpy as np
import pytest

from mmprep.align.dejitter import Refusal, Smooth, dejitter
from mmprep.timebase import period_of

RNG = np.random.default_rng(5)
PPM = 20e-6


def smooth(stamps_s, rate=None, *, step_s=1e-9, max_move_s=1.0):
    stamps_s = np.asarray(stamps_s)
    return dejitter(
        stamps_s,
        period_s=period_of(np.rint(stamps_s * 1e9).astype(np.int64)) / 1e9,
        nominal_s=1 / rate if rate else None,
        step_s=step_s,
        max_move_s=max_move_s,
    )


def even(n, rate=128):
    return np.arange(n) / rate * (1 + PPM)


def errors_us(result, true_s):
    assert isinstance(result, Smooth), result
    return np.percentile(np.abs(result.seconds - true_s), [50, 99]) * 1e6


def test_dejitter_of_a_steady_clock_is_within_3_and_10_us():
    true = even(76_800)
    middle, worst = errors_us(smooth(true + RNG.normal(0, 0.3e-3, true.size), 128), true)
    assert middle <= 3
    assert worst <= 10


def test_dejitter_without_a_clock_map_follows_a_wandering_clock():
    true = even(460_800)
    true += 0.8e-3 * np.sin(2 * np.pi * true / 600)
    result = smooth(true + RNG.normal(0, 1.5e-3, true.size), 128)
    middle, worst = errors_us(result, true)
    assert result.n_wandering == 1
    assert middle <= 15
    assert worst <= 55


def test_dejitter_of_a_steady_clock_needs_no_more_than_a_line():
    wandering = [
        smooth(even(20_000) + np.random.default_rng(seed).normal(0, 1e-3, 20_000)).n_wandering
        for seed in range(40)
    ]
    assert sum(wandering) == 0


def test_dejitter_measures_the_rate():
    result = smooth(even(76_800) + RNG.normal(0, 0.3e-3, 76_800), 128)
    assert (result.period_s * 128 - 1) * 1e6 == pytest.approx(20, abs=0.1)


def test_dejitter_counts_lost_samples():
    kept = RNG.random(20_000) > 0.03
    kept[0] = True
    true = even(20_000)[kept]
    result = smooth(true + RNG.normal(0, 0.3e-3, true.size), 128)
    assert result.index.tolist() == np.flatnonzero(kept).tolist()
    assert errors_us(result, true)[1] <= 15


def test_dejitter_counts_lost_samples_through_wide_scatter():
    kept = RNG.random(40_000) > 0.002
    kept[:20] = True  # a few rows are no level to compare with
    true = even(40_000)[kept]
    result = smooth(true + RNG.normal(0, 1.5e-3, true.size), 128)
    assert result.index[-1] == np.flatnonzero(kept)[-1]
    assert errors_us(result, true)[0] <= 30


@pytest.mark.parametrize("seed", range(4))
def test_dejitter_counts_through_a_long_gap(seed):
    true = even(153_600)
    true = true[(true < 400) | (true > 412.7)]
    result = smooth(true + np.random.default_rng(seed).normal(0, 1.5e-3, true.size), 128)
    assert result.index[-1] == 153_599
    assert errors_us(result, true)[0] <= 12


@pytest.mark.parametrize(
    ("jitter_s", "lost", "misplaced"), [(1.5e-3, 0.01, 100), (3e-3, 0.001, 150), (3e-3, 0.0, 0)]
)
def test_dejitter_counts_single_losses_through_wide_jitter(jitter_s, lost, misplaced):
    rng = np.random.default_rng(3)
    kept = rng.random(100_000) >= lost
    kept[[0, *range(-50, 0)]] = True
    kept[40_000:41_630] = False
    true = even(100_000)[kept]
    result = smooth(true + rng.normal(0, jitter_s, true.size), 128)
    wrong = result.index != np.flatnonzero(kept)
    assert not wrong[-1]
    assert wrong.sum() <= misplaced


@pytest.mark.parametrize("late_s", [0.4e-3, 2e-3, 3.9e-3])
@pytest.mark.parametrize("jitter_s", [0.3e-3, 1.5e-3])
def test_dejitter_begins_anew_where_a_device_was_restarted(late_s, jitter_s):
    true = even(100_000)
    true = true[(true < 300) | (true > 312.7)]
    true += late_s * (true > 305)
    result = smooth(true + np.random.default_rng(1).normal(0, jitter_s, true.size), 128)
    assert result.n_stretches == 2
    assert errors_us(result, true)[1] <= 40


@pytest.mark.parametrize("seed", range(10))
def test_dejitter_goes_on_over_a_gap_that_the_device_ran_through(seed):
    true = even(50_000)
    true = true[(true < 100) | (true > 112.7)]
    result = smooth(true + np.random.default_rng(seed).normal(0, 1e-3, true.size), 128)
    assert result.n_stretches == 1


def test_dejitter_counts_lost_packets():
    n, size = 120_000, 12
    sample = np.arange(n)
    packet = sample // size
    arrival = ((packet + 1) * size - 1) / 256 + RNG.exponential(0.01, packet[-1] + 1)[packet]
    kept = ~np.isin(packet, [1000, 4000, 4001])
    result = smooth(arrival[kept], 256)
    assert result.index[-1] == n - 1
    assert result.estimate == "envelope"


def test_dejitter_does_not_take_a_late_stamp_for_a_loss():
    true = even(5000)
    stamps = true.copy()
    stamps[::97] += 0.7 / 128
    result = smooth(stamps, 128)
    assert result.index.tolist() == list(range(5000))
    assert errors_us(result, true)[1] <= 20


def test_dejitter_begins_a_new_stretch_after_a_long_silence():
    true = even(30_000)
    true[10_000:] += 500.0033
    result = smooth(true + RNG.normal(0, 0.3e-3, true.size), 128)
    assert result.n_stretches == 2
    assert errors_us(result, true)[1] <= 25


def test_dejitter_lays_delays_on_their_lower_envelope():
    true = even(30_000)
    result = smooth(true + RNG.exponential(1e-3, true.size), 128)
    assert result.estimate == "envelope"
    assert errors_us(result, true)[1] <= 20


def chunked(true_s, rows, nominal_s, late_s):
    """Stamp the last row of each chunk when it arrives, the others evenly before it."""
    last = true_s.reshape(-1, rows)[:, -1] + late_s
    return (last[:, None] - nominal_s * np.arange(rows)[::-1]).reshape(-1)


def test_dejitter_of_chunks_with_one_stamp_each_finds_their_line():
    true = even(40_000, 250.2)
    for seed in range(8):
        late = np.random.default_rng(seed).normal(0, 4e-3, 4000)
        result = smooth(chunked(true, 10, 1 / 250, late), 250)
        assert errors_us(result, true)[1] <= 400
        assert (1 / result.period_s / 250.2 + PPM - 1) * 1e6 == pytest.approx(0, abs=5)


def test_dejitter_finds_no_hole_at_the_ends_of_wide_scatter():
    for seed in range(20):
        scatter = np.random.default_rng(seed).normal(0, 1 / 128, 2000)
        assert smooth(even(2000) + scatter, 128).index[-1] == 1999


def test_dejitter_counts_chunks_that_are_lost():
    true = even(40_000, 250.2)
    kept = np.repeat(~np.isin(np.arange(4000), [700, 701, 2500]), 10)
    late = np.minimum(RNG.exponential(1.5e-3, 3997), 9e-3)
    result = smooth(chunked(true[kept], 10, 1 / 250, late), 250)
    assert result.index[-1] + 1 - result.index.size == 30
    assert np.percentile(np.abs(result.seconds - true[kept] - 0.5e-3), 95) <= 1e-3


def test_dejitter_lays_half_normal_delays_on_their_lower_edge():
    true = even(30_000)
    result = smooth(true + np.abs(RNG.normal(0, 1e-3, true.size)), 128)
    assert result.estimate == "envelope"
    assert errors_us(result, true)[1] <= 20


def test_dejitter_is_not_moved_by_late_outliers():
    true = even(30_000)
    late = (RNG.random(true.size) < 0.03) * 2.5e-3
    assert errors_us(smooth(true + RNG.normal(0, 0.2e-3, true.size) + late, 128), true)[1] <= 15


def test_dejitter_puts_samples_inside_their_whole_second():
    true = 0.3 + np.arange(4000) / 4 * (1 + 200e-6)
    result = smooth(np.floor(true), 4, step_s=1.0)
    assert result.estimate == "cut"
    assert np.abs(result.seconds - true).max() < 0.125


def test_dejitter_of_rounded_stamps_restores_them():
    true = even(20_000)
    result = smooth(np.round(true, 3), 128, step_s=1e-3)
    assert errors_us(result, true)[1] <= 5


@pytest.mark.parametrize(
    ("stamps", "rate", "why"),
    [
        (np.arange(10) / 128, 128, "too few"),
        (even(1000), 130, "not the nominal"),
        (np.cumsum(RNG.exponential(1 / 128, 20_000)), None, "lost|walk|differ|counted"),
        (np.cumsum(RNG.uniform(0.8, 1.2, 20_000) / 128), 128, "walk"),
        (np.cumsum(np.tile(np.repeat([1 / 30, 1 / 24], 90), 40)), None, "walk|lost"),
        (np.cumsum(np.tile(np.repeat([1 / 30, 1 / 24], 90), 40)), 30, "nominal|walk|lost"),
    ],
)
def test_dejitter_refuses_what_is_not_regular(stamps, rate, why):
    result = smooth(stamps, rate)
    assert isinstance(result, Refusal)
    assert any(word in result.reason for word in why.split("|")), result.reason


def test_dejitter_moves_nothing_over_the_cap():
    stamps = even(5000) + RNG.normal(0, 1e-3, 5000)
    result = smooth(stamps, 128, max_move_s=1e-3)
    assert isinstance(result, Refusal)
    assert "cap" in result.reason
