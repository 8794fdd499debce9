from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mmprep.manifest.moments import Moments, merged

VALUES = st.lists(
    st.lists(st.floats(-1e6, 1e6) | st.just(float("nan")), min_size=2, max_size=2),
    min_size=1,
    max_size=40,
)


def test_mean_and_deviation_are_those_of_the_population():
    found = Moments.of(np.array([[1.0, 5.0], [3.0, np.nan], [5.0, 7.0]])).to_json()
    assert found == {"count": [3, 2], "mean": [3.0, 6.0], "std": [np.sqrt(8 / 3), 1.0]}


def test_channel_without_a_reading_is_null():
    found = Moments.of(np.array([[1.0, np.nan]])).to_json()
    assert found == {"count": [1, 0], "mean": [1.0, None], "std": [0.0, None]}


@given(VALUES, st.integers(1, 10))
def test_parts_put_together_are_the_whole(values, size):
    block = np.array(values)
    parts = [Moments.of(block[k : k + size]) for k in range(0, len(block), size)]
    whole, again = Moments.of(block), merged(parts)
    np.testing.assert_array_equal(again.count, whole.count)
    np.testing.assert_allclose(again.mean, whole.mean, rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(again.m2, whole.m2, rtol=1e-6, atol=1e-3)


@given(VALUES)
def test_what_is_kept_is_enough_to_merge_again(values):
    found = Moments.of(np.array(values))
    again = Moments.from_json(found.to_json())
    np.testing.assert_array_equal(again.count, found.count)
    np.testing.assert_allclose(again.m2, found.m2, rtol=1e-9, atol=1e-9)


def test_large_offsets_do_not_spoil_the_deviation():
    values = 1e9 + np.tile([[0.0], [1.0]], (5000, 1))
    parts = [Moments.of(values[k : k + 100]) for k in range(0, 10_000, 100)]
    assert merged(parts).to_json()["std"] == [0.5]
