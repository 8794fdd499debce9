from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

from mmprep.align import spline

RNG = np.random.default_rng(3)
AT = np.cumsum(RNG.uniform(0.5, 1.5, 60))


def test_spline_is_the_natural_one_of_scipy():
    values = RNG.normal(size=AT.size)
    at = RNG.uniform(AT[0], AT[-1], 500)
    wanted = CubicSpline(AT, values, bc_type="natural")(at)
    np.testing.assert_allclose(spline.Spline.through(AT, values)(at), wanted, atol=1e-12)


def test_spline_goes_straight_on_beyond_its_ends():
    curve = spline.Spline.through(AT, RNG.normal(size=AT.size))
    for end, out in ((AT[0], -1.0), (AT[-1], 1.0)):
        near, mid, far = curve(end + out * np.array([-1e-6, 1e-6, 10.0]))
        assert (far - mid) / 10 == pytest.approx((mid - near) / 2e-6, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("n", [2, 3])
def test_spline_through_few_points_hits_them(n):
    at, values = AT[:n], np.arange(n) ** 2.0
    np.testing.assert_allclose(spline.Spline.through(at, values)(at), values, atol=1e-12)
