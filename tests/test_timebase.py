from __future__ import annotations

import math

import numpy as np
import pytest

from mmprep.tables.stamps import RateMeter
from mmprep.timebase import (
    bursts_of,
    chunks_of,
    lateness_of,
    period_of,
    rounded_steps,
    scatter_of,
)

RATE_HZ, NOMINAL_S = 250.2, 1 / 250
RNG = np.random.default_rng(3)


def chunked(n_rows, rows=10, jitter_s=0.0, rate_hz=RATE_HZ):
    """Stamp the last row of each chunk when it arrives, the others evenly before it."""
    last = np.arange(rows - 1, n_rows, rows)
    arrival = last / rate_hz + RNG.exponential(jitter_s, last.size)
    return (arrival[:, None] - NOMINAL_S * np.arange(rows)[::-1]).reshape(-1)


def test_heads_are_the_rows_at_which_chunks_begin():
    heads = chunks_of(chunked(1000, jitter_s=2e-3))
    assert set(heads.tolist()) <= set(range(0, 1000, 10))
    assert heads.size > 95  # two arrivals may be a chunk apart by chance


@pytest.mark.parametrize(("jitter_s", "ppm"), [(0.05e-3, 5), (1e-3, 50), (5e-3, 2000)])
def test_period_of_chunks_is_that_of_the_samples(jitter_s, ppm):
    stamps = chunked(50_000, jitter_s=jitter_s)
    assert period_of(stamps) == pytest.approx(1 / RATE_HZ, rel=ppm * 1e-6)
    stamps_ns = np.rint(stamps * 1e9).astype(np.int64)
    assert period_of(stamps_ns) == pytest.approx(1e9 / RATE_HZ, rel=ppm * 1e-6)


def test_period_and_scatter_of_a_long_stream_are_those_of_all_of_it():
    stamps = np.arange(3_000_000) / 1000 + RNG.normal(0, 1e-4, 3_000_000)
    assert period_of(np.rint(stamps * 1e9).astype(np.int64)) == pytest.approx(1e6, rel=5e-6)
    assert scatter_of(stamps, 1e-3) == pytest.approx(np.sqrt(2) * 1e-4, rel=0.01)
    assert chunks_of(chunked(3_000_000, jitter_s=2e-3)).size > 290_000


def test_chunks_scatter_though_their_rows_do_not():
    stamps = chunked(50_000, jitter_s=2e-3)
    assert scatter_of(stamps, 1 / RATE_HZ) > 1e-3
    assert scatter_of(np.arange(1000) / RATE_HZ, 1 / RATE_HZ) < 1e-12


def test_lateness_that_lasts_shows_over_more_rows():
    late = np.repeat(RNG.uniform(0, 8e-3, 500), RNG.integers(5, 30, 500))
    stamps = np.arange(late.size) / 128 + late
    assert scatter_of(stamps, 1 / 128) < 0.1e-3
    assert lateness_of(stamps, 1 / 128) > 2e-3


@pytest.mark.parametrize("lost", [0.0, 0.02, 0.2])
def test_lost_rows_are_no_chunks_and_leave_the_period(lost):
    stamps = np.arange(20_000)[RNG.random(20_000) >= lost] / 128
    assert chunks_of(stamps) is None
    assert period_of(stamps) == pytest.approx(1 / 128, rel=1e-9)


def test_rounded_stamps_keep_their_exact_period():
    for rate_hz in (120, 128, 250, 300):
        stamps = np.rint(np.arange(50_000) * 1000 / rate_hz)
        assert period_of(stamps) == pytest.approx(1000 / rate_hz, rel=1e-5)


def bursts(n_bursts, rows, apart, jitter):
    arrival = np.arange(n_bursts) * apart + RNG.uniform(0, jitter, n_bursts)
    return np.rint(arrival[:, None] + np.arange(rows)).reshape(-1)


def test_period_of_rows_that_arrive_in_bursts_is_that_of_the_samples():
    stamps = bursts(400, 12, 46.875, 10)  # in ms: 256 Hz in packets of 12
    assert period_of(stamps) == pytest.approx(1000 / 256, rel=5e-3)
    assert bursts_of(stamps, 1000 / 256).tolist() == list(range(12, 4800, 12))


def test_rows_of_which_every_fifth_is_missing_are_no_bursts():
    stamps = np.delete(np.arange(5000) * 4, np.arange(4, 5000, 5))
    assert bursts_of(stamps, 5.0).size == 0
    assert period_of(stamps) == 4


def test_nominal_period_tells_bursts_from_losses():
    apart = np.cumsum(RNG.exponential(400, 300))  # in ms: chunks of ten rows, most are lost
    stamps = (apart[:, None] + 4 * np.arange(10)).reshape(-1)
    assert period_of(stamps, 4.0) == pytest.approx(4, rel=1e-3)
    assert period_of(stamps, 40.0) == pytest.approx(40, rel=0.2)


@pytest.mark.parametrize("stamps", [[], [1], [3, 3, 3, 3], [5, 4, 3]])
def test_period_of_what_does_not_rise_is_unknown(stamps):
    assert math.isnan(period_of(np.array(stamps, dtype=np.int64)))


@pytest.mark.parametrize("rate_hz", [900, 990, 1024, 1250, 1500])
@pytest.mark.parametrize("jitter_ms", [0.0, 0.2])
def test_stamps_rounded_to_about_a_period_repeat_and_skip_but_have_the_rate(rate_hz, jitter_ms):
    jitter = np.random.default_rng(8).normal(0, jitter_ms, 20_000)
    stamps = np.rint(np.arange(20_000) * 1000 / rate_hz + jitter).astype(np.int64)
    assert rounded_steps(stamps).size > 19_000
    assert period_of(stamps) == pytest.approx(1000 / rate_hz, rel=1e-3)


def test_rows_that_come_twice_are_not_rounded_stamps():
    rng = np.random.default_rng(9)
    stamps = np.arange(20_000) * 1000
    stamps = np.insert(stamps, rng.integers(0, 20_000, 200), stamps[rng.integers(0, 20_000, 200)])
    stamps = np.sort(stamps)
    assert rounded_steps(stamps).size == 0
    assert period_of(stamps) == 1000


@pytest.mark.parametrize(
    "stamps", [[10**18] * 12, [0, 1] * 12, [7, 7, 3] * 12], ids=["equal", "to and fro", "sawtooth"]
)
def test_stamps_that_get_nowhere_are_not_rounded_and_have_no_rate(stamps):
    stamps = np.array(stamps, dtype=np.int64)
    assert rounded_steps(stamps).size == 0
    assert RateMeter.measure(stamps) is None


def test_zeros_in_place_of_stamps_are_not_rounded_stamps():
    stamps = np.arange(400) * 1000 + 10**12
    stamps[180:204] = 0
    assert rounded_steps(stamps).size == 0
    assert period_of(stamps) == 1000
