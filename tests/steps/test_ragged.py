"""Ragged rows of many items in the shards of one task."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from mmprep.steps.running.ragged import Kind, RaggedShards

MONO = Kind("audio", Fraction(8000), (), "float32", kind="audio")
STEREO = Kind("audio", Fraction(8000), (2,), "float32", kind="audio")


def _write(shards, kind, *values):
    with shards.item(kind, len(values)) as (append, rows):
        append(np.array(values, dtype=kind.dtype).reshape(len(values), *kind.row_shape))
    return rows


def _fail(shards, n_rows):
    with shards.item(MONO) as (append, _):
        append(np.zeros(n_rows, np.float32))
        raise ValueError("bad")


def test_items_follow_one_another_and_their_rows_are_named(tmp_path):
    with RaggedShards(tmp_path, 1000) as shards:
        first, second = _write(shards, MONO, 1, 2, 3), _write(shards, MONO, 4)
        value = shards.close()
    assert (first.begin, first.end, second.begin, second.end) == (0, 3, 3, 4)
    assert first.path == second.path == "audio/shard-00000.npy"
    np.testing.assert_array_equal(np.load(tmp_path / first.path), [1, 2, 3, 4])
    assert value["shards"]["audio"][0]["rate_hz"] == "8000/1"


def test_item_over_the_limit_begins_a_new_shard_and_is_not_split(tmp_path):
    with RaggedShards(tmp_path, 4 * 3) as shards:
        places = [_write(shards, MONO, *range(n)) for n in (2, 2, 1, 9, 1)]
        shards.close()
    assert [(place.path[-5], place.begin, place.end) for place in places] == [
        ("0", 0, 2),
        ("1", 0, 2),
        ("1", 2, 3),
        ("2", 0, 9),
        ("3", 0, 1),
    ]


def test_each_row_shape_has_shards_of_its_own(tmp_path):
    with RaggedShards(tmp_path, 1000) as shards:
        mono = _write(shards, MONO, 1)
        with shards.item(STEREO) as (append, stereo):
            append(np.ones((4, 2), np.float32))
        again = _write(shards, MONO, 2)
        value = shards.close()
    assert mono.path == again.path != stereo.path
    assert [part["row_shape"] for part in value["shards"]["audio"]] == [[], [2]]


def test_rows_of_an_item_that_fails_are_taken_back(tmp_path):
    with RaggedShards(tmp_path, 1000) as shards:
        _write(shards, MONO, 1, 2)
        with pytest.raises(ValueError, match="bad"):
            _fail(shards, 5)
        after = _write(shards, MONO, 3)
        shards.close()
    assert (after.begin, after.end) == (2, 3)
    np.testing.assert_array_equal(np.load(tmp_path / after.path), [1, 2, 3])


def test_shard_that_stays_empty_is_left_out(tmp_path):
    with RaggedShards(tmp_path, 1000) as shards:
        with pytest.raises(ValueError, match="bad"):
            _fail(shards, 0)
        assert shards.close() == {"files": [], "shards": {}}


def test_shard_of_no_rows_stays_where_an_item_has_its_rows_there(tmp_path):
    with RaggedShards(tmp_path, 1000) as shards:
        rows = _write(shards, MONO)
        (shard,) = shards.close()["shards"]["audio"]
    assert (rows.path, rows.begin, rows.end) == (shard["path"], 0, 0)
    assert np.load(tmp_path / rows.path).shape == (0,)


def test_shards_given_up_on_an_error_are_not_left_open(tmp_path):
    shards = RaggedShards(tmp_path, 1000)
    with pytest.raises(ValueError, match="bad"), shards:
        _fail(shards, 3)


def test_files_are_noted_with_size_and_hash(tmp_path):
    from mmprep import files

    with RaggedShards(tmp_path, 1000) as shards:
        _write(shards, MONO, 1)
        ((name, n_bytes, sha256),) = shards.close()["files"]
    assert n_bytes == (tmp_path / name).stat().st_size
    assert sha256 == files.sha256(tmp_path / name)
