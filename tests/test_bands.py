"""The compiled bands against those of numpy."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmprep.mfcc import Extractor, bands, filters, preset

powers = bands._powers
pytestmark = pytest.mark.skipif(powers is None, reason="installed without a compiler")
RATE_HZ = 16000

RECIPES = st.builds(
    dict,
    win_samples=st.integers(1, 700),
    window=st.sampled_from(["hann", "hamming", "rectangular"]),
    preemph=st.sampled_from([0.0, 0.97]),
    remove_dc=st.booleans(),
    energy=st.booleans(),
    top_db=st.sampled_from([None, 80.0]),
    n_mels=st.integers(1, 40),
)


@given(
    changes=RECIPES, power=st.integers(0, 3), n_frames=st.integers(1, 40), seed=st.integers(0, 9)
)
def test_compiled_bands_equal_those_of_numpy(changes, power, n_frames, seed):
    recipe = preset("librosa", hop_samples=100, n_mfcc=1, **changes)
    n_win = recipe.win_samples
    n_fft = max(4, 1 << (n_win - 1).bit_length()) << power
    matrix = filters.mel_filters(recipe, Fraction(RATE_HZ), n_fft)
    signal = np.random.default_rng(seed).normal(size=5000 + n_win).astype(np.float32)
    frames = bands.Frames(signal, 7, 100, n_frames, n_win)
    found = []
    for kind in (bands.CompiledBands, bands.NumpyBands):
        out = np.ones((n_frames, len(matrix.T)), np.float32)
        energies = np.ones(n_frames, np.float32)
        kind(recipe, matrix, n_win, n_fft)(frames, out, energies)
        found.append((out, energies))
    loudest = max(found[1][0].max(), 1e-9)
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=2e-4, atol=2e-6 * loudest)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-4, atol=1e-5)


def test_compiled_bands_of_a_frame_depend_on_nothing_beside_it():
    extractor = Extractor(preset("librosa", features="logmel", center=False), RATE_HZ)
    samples = np.random.default_rng(0).normal(size=20_000).astype(np.float32)
    beside, alone = np.empty((100, 80), np.float32), np.empty((1, 80), np.float32)
    extractor._bands(bands.Frames(samples, 0, 160, 100, 400), beside, np.empty(100, np.float32))
    for k in (0, 1, 3, 4, 99):
        frame = samples[k * 160 : k * 160 + 400].copy()
        extractor._bands(bands.Frames(frame, 0, 160, 1, 400), alone, np.empty(1, np.float32))
        assert alone[0].tobytes() == beside[k].tobytes()


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (1, -1, "no frames"),
        (2, 0, "no frames"),
        (3, 0, "no frames"),
        (1, 2**63 - 1, "frames beyond the signal"),
        (2, 2**63 - 1, "frames beyond the signal"),
        (3, 60, "frames beyond the signal"),
        (3, 2**63 - 1, "frames beyond the signal"),
        (0, np.zeros(32001, np.uint8)[1:], "numbers that are not aligned"),
        (9, np.zeros(3, np.float32), "numbers that are not aligned"),
        (4, np.zeros(513), "no transform of this length"),
        (5, np.zeros((500, 2)), "no transform of this length"),
        (6, np.zeros(255, np.int32), "a plan of other lengths"),
        (6, np.full(256, 256, np.int32), "an order beyond the transform"),
        (7, np.full(80, 257, np.int32), "a band beyond the transform"),
        (8, np.zeros(79, np.int32), "a plan of other lengths"),
        (9, np.zeros(3), "other weights than bands"),
        (12, np.zeros(3, np.float32), "no room for the result"),
        (13, np.zeros((9, 80), np.float32), "no room for the result"),
    ],
)
def test_compiled_bands_refuse_sizes_that_do_not_fit(place, value, message):
    recipe = preset("librosa")
    matrix = filters.mel_filters(recipe, Fraction(RATE_HZ), 512)
    plan = bands.CompiledBands(recipe, matrix, 400, 512)._plan
    signal, out = np.zeros(8000, np.float32), np.zeros((10, 80), np.float32)
    given = [signal, 0, 160, 10, *plan, np.zeros(10, np.float32), out]
    powers(*given)
    given[place] = value
    with pytest.raises(ValueError, match=message):
        powers(*given)
