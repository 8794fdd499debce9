"""Files that come in pieces give the features of the whole, in blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmprep.errors import DataError
from mmprep.mfcc import Extractor, blocks, preset
from mmprep.mfcc.columns import deltas, widened

RATE_HZ = 16000
SAMPLES = np.random.default_rng(0).normal(size=60_000).astype(np.float32) / 8


def cut(samples, places):
    return np.split(samples, sorted(place % (len(samples) + 1) for place in places))


def in_small_blocks(recipe, rate_hz=RATE_HZ):
    """Make an extractor whose blocks have 144 rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK_VALUES", 1)
        return Extractor(recipe, rate_hz)


RECIPES = st.one_of(
    st.builds(
        preset,
        st.just("librosa"),
        center=st.booleans(),
        pad_mode=st.sampled_from(["constant", "edge", "reflect", "symmetric", "linear_ramp"]),
        win_samples=st.integers(1, 500),
        hop_samples=st.integers(1, 300),
        n_fft=st.sampled_from([500, 512, 701, 1024]),
        top_db=st.sampled_from([None, 80.0, 20.0]),
        delta=st.integers(0, 2),
        n_mels=st.just(20),
    ),
    st.builds(
        preset,
        st.just("kaldi"),
        snip_edges=st.booleans(),
        features=st.sampled_from(["mfcc", "logmel"]),
        energy=st.booleans(),
        htk_compat=st.booleans(),
        hop_samples=st.integers(1, 300),
        delta=st.integers(0, 2),
    ),
)


@settings(max_examples=60, deadline=None)
@given(
    recipe=RECIPES,
    n_samples=st.one_of(st.integers(1, 2000), st.integers(1, len(SAMPLES))),
    places=st.lists(st.integers(0, len(SAMPLES)), max_size=6),
)
def test_blocks_of_pieces_are_the_features_of_the_whole(recipe, n_samples, places):
    samples = SAMPLES[:n_samples]
    whole = Extractor(recipe, RATE_HZ).features(samples)
    found = list(in_small_blocks(recipe).blocks(cut(samples, places)))
    assert sum(map(len, found)) == len(whole)
    if len(whole):
        np.testing.assert_array_equal(np.concatenate(found), whole)


def test_no_block_holds_more_rows_than_planned():
    recipe = preset("librosa", top_db=None)
    found = [len(rows) for rows in in_small_blocks(recipe).blocks(cut(SAMPLES, [999]))]
    assert found == [144, 144, 88]


def test_buffer_does_not_grow_with_the_file():
    extractor = in_small_blocks(preset("librosa", top_db=None))
    sizes = []
    for _ in extractor.blocks(SAMPLES[:800] for _ in range(500)):
        sizes.append(extractor._blocks._signal.size)
    assert len(sizes) > 15
    assert max(sizes) < 30_000  # a block is 23 040 samples, the file 400 000


def test_bands_are_held_where_the_caller_says_until_the_loudest_is_known():
    held = []
    extractor = in_small_blocks(preset("librosa"))
    first = next(extractor.blocks(cut(SAMPLES, []), held))
    assert [rows.shape for rows in held] == [(144, 80), (144, 80), (96, 80)]
    assert first.shape == (144, 13)


def test_features_of_the_whole_are_normalised_over_all_blocks():
    recipe = preset("librosa", cmvn="utterance", delta=1)
    features = in_small_blocks(recipe).features(SAMPLES)
    np.testing.assert_allclose(features.mean(axis=0, dtype=np.float64), 0, atol=1e-6)
    np.testing.assert_allclose(features.std(axis=0, dtype=np.float64), 1, atol=1e-6)


def test_sample_that_is_not_finite_is_counted_from_the_first_piece():
    pieces = [np.zeros(1000, np.float32), np.array([0, np.nan], np.float32)]
    with pytest.raises(DataError, match="sample 1001 is nan"):
        list(Extractor(preset("librosa"), RATE_HZ).blocks(pieces))


def test_no_piece_is_an_error():
    with pytest.raises(DataError, match="no sample"):
        list(Extractor(preset("kaldi"), RATE_HZ).blocks([]))


@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=8), n_orders=st.integers(1, 2))
def test_differences_of_blocks_are_those_of_all_rows(sizes, n_orders):
    rows = np.random.default_rng(1).normal(size=(sum(sizes), 2)).astype(np.float32)
    parts = np.split(rows, np.cumsum(sizes)[:-1])
    found = np.concatenate(list(widened(parts, n_orders)))
    orders = range(1, n_orders + 1)
    wanted = np.concatenate([rows, *(deltas(rows, k) for k in orders)], axis=1)
    np.testing.assert_array_equal(found, wanted)
