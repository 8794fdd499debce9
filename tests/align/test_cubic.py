from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import PchipInterpolator

from mmprep.align.cubic import cubic, linear


def located(seconds, times):
    left = np.clip(np.searchsorted(seconds, times, side="right") - 1, 0, seconds.size - 2)
    return left, (times - seconds[left]) / np.diff(seconds)[left]


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 30), st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 2]))
def test_cubic_equals_scipy(n, seed, digits):
    rng = np.random.default_rng(seed)
    seconds = np.cumsum(rng.uniform(0.1, 2, n))
    values = np.round(rng.normal(size=(n, 2)), digits)
    times = np.sort(rng.uniform(seconds[0], seconds[-1], 50))
    got = cubic(values, seconds, np.zeros(n - 1, dtype=bool), *located(seconds, times))
    np.testing.assert_allclose(got, PchipInterpolator(seconds, values)(times), atol=1e-9)


def test_cubic_treats_gaps_and_missing_readings_as_ends():
    seconds = np.arange(12.0)
    values = np.random.default_rng(0).normal(size=(12, 1))
    values[8] = np.nan
    breaks = np.arange(11) == 3
    times = np.concatenate([np.linspace(4, 6.99, 30), np.linspace(9, 10.99, 20)])
    got = cubic(values, seconds, breaks, *located(seconds, times))[:, 0]
    for part in (slice(4, 8), slice(9, 12)):
        here = (times >= seconds[part][0]) & (times <= seconds[part][-1])
        oracle = PchipInterpolator(seconds[part], values[part, 0])(times[here])
        np.testing.assert_allclose(got[here], oracle, atol=1e-9)


@pytest.mark.parametrize("method", ["cubic", "linear"])
def test_a_time_on_a_sample_ignores_missing_neighbours(method):
    values = np.array([[np.nan], [2.0], [np.nan]])
    left, fraction = np.array([1, 1, 0]), np.array([0.0, 0.5, 0.5])
    if method == "linear":
        got = linear(values, left, fraction)
    else:
        got = cubic(values, np.arange(3.0), np.zeros(2, dtype=bool), left, fraction)
    assert got[0, 0] == 2.0
    assert np.isnan(got[1:]).all()
