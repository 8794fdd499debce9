from __future__ import annotations

import numpy as np
import pytest

from mmprep.align import sinc

RATE = 128


def tones(position, frequencies=(10, 27)):
    return sum(np.sin(2 * np.pi * f * position / RATE + f) for f in frequencies)


def relative_error(n, positions, band=1.0):
    values = tones(np.arange(n))[:, None]
    return np.abs(sinc.interpolate(values, positions, band)[:, 0] - tones(positions)) / values.std()


def test_sinc_of_10_and_27_hz_is_within_a_twentieth_percent():
    positions = np.sort(np.random.default_rng(0).uniform(24, 5000 - 25, 20_000))
    assert relative_error(5000, positions).max() <= 5e-4 / 20


@pytest.mark.parametrize(
    ("frequency", "at_end", "further_in"),
    [(1, 5e-4, 1e-4), (10, 0.02, 2e-3), (27, 0.1, 1e-2), (50, 0.4, 0.05)],
)
def test_sinc_near_the_ends_is_worse_but_bounded(frequency, at_end, further_in):
    positions = np.linspace(0, 24, 500)
    values = tones(np.arange(500), [frequency])[:, None]
    error = np.abs(sinc.interpolate(values, positions, 1.0)[:, 0] - tones(positions, [frequency]))
    assert error.max() / values.std() <= at_end
    assert error[positions > 4].max() / values.std() <= further_in


def test_sinc_of_two_samples_is_nearly_a_line():
    got = sinc.interpolate(np.array([[1.0], [3.0]]), np.linspace(0, 1, 5), 1.0)[:, 0]
    np.testing.assert_allclose(got, np.linspace(1, 3, 5), atol=0.1)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 47, 48, 96, 97])
def test_sinc_of_a_short_run_hits_its_samples(n):
    values = np.random.default_rng(n).normal(size=(n, 2))
    got = sinc.interpolate(values, np.arange(n, dtype=np.float64), 1.0)
    np.testing.assert_allclose(got, values, atol=1e-5)


@pytest.mark.parametrize("band", [1.0, 0.8, 0.44, 0.05])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sinc_fast_path_equals_slow_path(band, dtype):
    values = np.random.default_rng(1).normal(size=(6000, 3)).astype(dtype)
    reach = sinc.reach(band)
    positions = np.sort(np.random.default_rng(2).uniform(reach, 5998 - reach, 700))
    fast = sinc.interpolate(values, positions, band)
    slow = sinc.interpolate_slowly(values, positions, band)
    assert fast.dtype == dtype
    np.testing.assert_allclose(fast, slow, atol=2e-5)


def test_sinc_keeps_a_constant_far_from_zero():
    values = np.full((3000, 1), 4200.125)
    positions = np.linspace(0, 2999, 777)
    assert np.abs(sinc.interpolate(values, positions, 1.0) - 4200.125).max() < 1e-9


@pytest.mark.parametrize(("share", "gain"), [(0.3, 1.0), (0.75, 1.0), (1.0, 0.0), (1.6, 0.0)])
def test_sinc_going_down_passes_below_the_new_nyquist_and_stops_above(share, gain):
    band = sinc.cutoff(128.0, 32.0)
    positions = np.arange(300.0, 7700.0, 4.0)
    values = np.sin(2 * np.pi * share * 16 * np.arange(8000) / 128)[:, None]
    got = sinc.interpolate(values, positions, band)[:, 0]
    wanted = gain * np.sin(2 * np.pi * share * 16 * positions / 128)
    assert np.abs(got - wanted).max() < 1e-3


def test_sinc_going_down_keeps_a_constant_up_to_the_ends():
    got = sinc.interpolate(np.full((500, 1), 3.0), np.arange(0.0, 499.0, 8.0), 0.1)
    np.testing.assert_allclose(got, 3.0, rtol=1e-6)


def test_sinc_in_slices_equals_the_whole():
    values = np.random.default_rng(3).normal(size=(9000, 2))
    positions = np.arange(0.0, 8999.0, 1.0003)
    margin, stride = sinc.span(1.0)
    low = (4000 - margin) // stride * stride
    part = sinc.interpolate(values[low:], positions[positions >= 4000] - low, 1.0)
    whole = sinc.interpolate(values, positions, 1.0)[positions >= 4000]
    np.testing.assert_allclose(part, whole, atol=1e-6)


@pytest.mark.parametrize(
    ("target", "band"), [(None, 1.0), (128, 1.0), (127.99, 1.0), (256, 1.0), (64, 0.44)]
)
def test_cutoff_follows_the_target(target, band):
    assert sinc.cutoff(128.0, target) == pytest.approx(band)
