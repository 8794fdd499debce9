"""Shards of many tasks, numbered through."""

from __future__ import annotations

import pytest

from mmprep.steps.running.shardbook import ShardBook, shard_name


def _value(*names, rate_hz="8000/1"):
    described = {"dtype": "float32", "row_shape": [], "channels": None, "units": None}
    return {
        "files": [[name, 10 + k, f"hash{k}"] for k, name in enumerate(names)],
        "shards": {
            "audio": [
                {"path": name, "rows": 5, "rate_hz": rate_hz, "kind": "audio", **described}
                for name in names
            ]
        },
    }


def test_shards_are_numbered_in_the_order_of_the_tasks():
    book = ShardBook()
    first = book.add(_value(shard_name("audio", 0), shard_name("audio", 1)))
    second = book.add(_value(shard_name("audio", 0)))
    assert list(first.values()) == [shard_name("audio", 0), shard_name("audio", 1)]
    assert second == {shard_name("audio", 0): shard_name("audio", 2)}
    shards = book.modalities()["audio"].shards
    assert [(s.path, s.bytes, s.sha256) for s in shards] == [
        (shard_name("audio", 0), 10, "hash0"),
        (shard_name("audio", 1), 11, "hash1"),
        (shard_name("audio", 2), 10, "hash0"),
    ]


@pytest.mark.parametrize(("rate_hz", "common"), [("8000/1", "8000/1"), ("44100/1", None)])
def test_what_differs_between_shards_is_null(rate_hz, common):
    book = ShardBook()
    book.add(_value("audio/shard-00000.npy"))
    book.add(_value("audio/shard-00000.npy", rate_hz=rate_hz))
    modality = book.modalities()["audio"]
    assert (modality.rate_hz, modality.row_shape) == (common, ())


def test_task_without_shards_adds_nothing():
    book = ShardBook()
    assert book.add({"files": [["tables/x", 1, "h"]]}) == {}
    assert book.modalities() == {}
