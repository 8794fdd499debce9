"""Filters and references: equal to MNE's inside, nothing invented at the ends."""

from __future__ import annotations

from fractions import Fraction

import mne
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmprep import align
from mmprep.align import filtering
from mmprep.errors import DataError, UsageError
from mmprep.rows import IN_MEMORY
from mmprep.signals import Band, Stream

RATE_HZ = 128.0
RNG = np.random.default_rng(5)


def repaired(values, *, holes=(), channels=None):
    """Make a stream at 128 Hz; each hole is a row at which a second is lost."""
    stamps = np.arange(len(values)) * (10**9 / RATE_HZ)
    for row in holes:
        stamps[row:] += 10**9
    names = channels or tuple(f"c{k}" for k in range(values.shape[1]))
    stream = Stream(
        "eeg",
        np.rint(stamps).astype(np.int64) + 10**18,
        values,
        names,
        (None,) * len(names),
        Fraction(128),
    )
    return align.repair(stream, stream.stamps_ns)


def filtered(stream, **band):
    kernel = Band(**band).kernel(RATE_HZ, "eeg")
    found = align.treated(stream, align.Treatment(kernel), IN_MEMORY)
    return found, kernel.size // 2


@pytest.mark.parametrize("edges", [(1.0, 45.0), (1.0, None), (None, 30.0)])
def test_band_equals_that_of_mne_and_half_a_kernel_is_missing(edges):
    values = RNG.normal(size=(4000, 3))
    found, half = filtered(repaired(values), low_hz=edges[0], high_hz=edges[1])
    expected = mne.filter.filter_data(values.T.copy(), RATE_HZ, *edges, verbose=False).T
    got = found.values(0, 4000)
    np.testing.assert_allclose(got[half:-half], expected[half:-half], atol=1e-12)
    assert np.isnan(got[:half]).all()
    assert np.isnan(got[-half:]).all()


def test_notch_equals_that_of_mne():
    values = RNG.normal(size=(4000, 2))
    found, half = filtered(repaired(values), notch_hz=50.0)
    expected = mne.filter.notch_filter(values.T.copy(), RATE_HZ, [50.0], verbose=False).T
    np.testing.assert_allclose(found.values(half, 4000 - half), expected[half:-half], atol=1e-12)


def test_each_gap_free_stretch_is_filtered_by_itself():
    values = RNG.normal(size=(3000, 1))
    whole, half = filtered(repaired(values, holes=[1200]), low_hz=1.0, high_hz=40.0)
    alone, _ = filtered(repaired(values[:1200]), low_hz=1.0, high_hz=40.0)
    np.testing.assert_array_equal(whole.values(0, 1200), alone.values(0, 1200))
    missing = np.isnan(whole.values(0, 3000)[:, 0])
    assert missing.sum() == 4 * half
    assert missing[1200 - half : 1200 + half].all()


def test_stretch_shorter_than_the_kernel_is_missing():
    values = RNG.normal(size=(1500, 1))
    found, half = filtered(repaired(values, holes=[1300]), low_hz=1.0)
    assert 2 * half > 200
    assert np.isnan(found.values(1300, 1500)).all()


def test_missing_reading_costs_its_channel_half_a_kernel_around():
    values = RNG.normal(size=(3000, 2))
    values[1500, 0] = np.nan
    found, half = filtered(repaired(values), high_hz=30.0)
    missing = np.isnan(found.values(half, 3000 - half))
    assert missing.sum(axis=0).tolist() == [2 * half + 1, 0]
    assert missing[1500 - 2 * half : 1501, 0].all()


@settings(max_examples=20)
@given(st.integers(50, 900), st.integers(1, 1200))
def test_values_do_not_depend_on_the_blocks(block_rows, n_rows):
    values = np.random.default_rng(n_rows).normal(size=(n_rows, 1))
    stream = repaired(values)
    if not stream.is_regular:
        return
    expected, _ = filtered(stream, high_hz=20.0)
    before = filtering.BLOCK_ROWS
    filtering.BLOCK_ROWS = block_rows
    try:
        got, _ = filtered(stream, high_hz=20.0)
    finally:
        filtering.BLOCK_ROWS = before
    np.testing.assert_allclose(
        got.values(0, stream.n_samples), expected.values(0, stream.n_samples), atol=1e-12
    )


def test_rows_that_were_not_kept_are_counted_as_before():
    values = RNG.normal(size=(2000, 1))
    stamps = np.rint(np.arange(2000) * (10**9 / RATE_HZ)).astype(np.int64) + 10**18
    stamps = np.insert(stamps, 700, stamps[699])
    doubled = np.insert(values, 700, values[699], axis=0)
    stream = Stream("eeg", stamps, doubled, ("c",), (None,), Fraction(128))
    before = align.repair(stream, stamps)
    after, half = filtered(before, high_hz=30.0)
    assert (after.n_in, after.n_duplicate, after.n_samples) == (2001, 1, before.n_samples)
    alone, _ = filtered(repaired(values), high_hz=30.0)
    np.testing.assert_allclose(after.values(half, 1000), alone.values(half, 1000), atol=1e-12)


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        (("average",), [[-2.0, -1.0, 3.0], [np.nan, -2.0, 2.0]]),
        (("b",), [[-1.0, 0.0, 4.0], [np.nan, 0.0, 4.0]]),
        (("a", "b"), [[-0.5, 0.5, 4.5], [np.nan, 0.0, 4.0]]),
    ],
)
def test_reference_is_the_mean_of_the_channels_that_have_a_reading(reference, expected):
    stream = repaired(np.array([[1.0, 2.0, 6.0], [np.nan, 2.0, 6.0]]), channels=("a", "b", "c"))
    found = align.treated(stream, align.Treatment(reference=reference), IN_MEMORY)
    np.testing.assert_array_equal(found.values(0, 2), expected)


def test_unknown_channel_and_frequencies_that_are_too_high_are_refused():
    stream = repaired(np.ones((300, 1)), channels=("Cz",))
    with pytest.raises(UsageError, match="no channel 'M1'"):
        align.treated(stream, align.Treatment(reference=("M1",)), IN_MEMORY)
    with pytest.raises(UsageError, match="64 Hz is not below 64 Hz, half of its rate"):
        Band(high_hz=64.0).kernel(RATE_HZ, "eeg")


def test_stream_that_is_not_even_is_refused():
    stamps = np.cumsum(RNG.integers(1, 10**9, 400)) + 10**18
    stream = Stream("rr", stamps, np.ones((400, 1)), ("x",), (None,), None)
    with pytest.raises(DataError, match="needs evenly spaced samples"):
        align.treated(
            align.repair(stream, stamps), align.Treatment(np.array([0.25, 0.5, 0.25])), IN_MEMORY
        )
