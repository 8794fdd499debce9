"""The compiled smoother against the one in Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmprep.clock import smoother

compiled = pytest.importorskip("mmprep.clock._smoother", reason="installed without a compiler")


def series_of(seed, n):
    rng = np.random.default_rng(seed)
    keep = (rng.random(n) > 0.1).astype(float)
    step_s, loose = rng.exponential(1.0, n), 10.0 ** rng.integers(0, 3, n)
    series = smoother.Series(
        step_s.tolist(), keep.tolist(), loose.tolist(), rng.normal(0, 1e-4, n).tolist()
    )
    return series, np.where(rng.random(n) > 0.2, 10.0 ** rng.uniform(4, 10, n), 0.0).tolist()


@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(-19, -6))
def test_compiled_smoother_gives_the_same_bits(seed, n, power):
    (series, weight), walk = series_of(seed, n), 10.0**power
    table = np.array([*series, weight])
    states = np.empty((n, 5))
    compiled.smooth(table, walk, smoother.PRIORS, states)
    assert (states == smoother.smoothed_slowly(series, weight, walk)).all()
    likelihood = compiled.likelihood(table, walk, smoother.PRIORS)
    assert likelihood == smoother.filtered(series, weight, walk)[1]


@pytest.mark.parametrize("shape", [(5, 0), (4, 3)])
def test_compiled_smoother_refuses_other_tables(shape):
    with pytest.raises(ValueError, match="five rows"):
        compiled.likelihood(np.zeros(shape), 1e-12, smoother.PRIORS)
