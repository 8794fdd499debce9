"""`manifest export --to mds`: shards of MosaicML that hold the values of the shards."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile

from mmprep import run_export
from tests import exported, mds
from tests.kill import tree

SERIAL = {"engine": "serial"}


def _samples(out):
    return [one for path in sorted(out.glob("*/index.json")) for one in mds.read(path.parent)]


@pytest.mark.parametrize("name", ["amigos/split", "cmlr/features"])
def test_values_are_those_of_the_shards(sample, tmp_path, name):
    run_export(sample / name, output=tmp_path, to="mds", **SERIAL)
    exported.check({one["id"]: mds.arrays(one) for one in _samples(tmp_path)}, sample / name)


def test_record_is_a_column(sample, tmp_path):
    run_export(sample / "amigos/split", output=tmp_path, to="mds", **SERIAL)
    for one in mds.read(tmp_path / "val"):
        assert (one["record"]["id"], one["record"]["split"]) == (one["id"], "val")


def test_shards_hold_as_many_records_to_within_one(sample, tmp_path):
    run_export(sample / "cmlr/features", output=tmp_path, to="mds", shards=2, **SERIAL)
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [
        "index.json",
        "shard.00000.mds",
        "shard.00001.mds",
    ]
    ids = [one["id"] for one in mds.read(tmp_path / "data")]
    assert ids == list(exported.expected(sample / "cmlr/features"))


def test_sound_is_a_column_of_bytes_where_that_is_asked_for(sample, tmp_path):
    run_export(sample / "cmlr/features", output=tmp_path, to="mds", audio="wav", **SERIAL)
    wanted = exported.expected(sample / "cmlr/features")
    for one in _samples(tmp_path):
        samples, _ = soundfile.read(io.BytesIO(one["wav"]), dtype="float32")
        np.testing.assert_array_equal(samples, wanted[one["id"]]["audio"])
        assert "audio" not in one


def test_bytes_do_not_depend_on_the_workers(sample, tmp_path):
    for name, how in (("a", SERIAL), ("b", {"jobs": 2})):
        run_export(sample / "amigos/split", output=tmp_path / name, to="mds", shards=2, **how)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")
