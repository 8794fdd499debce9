"""What a manifest holds, counted."""

from __future__ import annotations

import json

import pytest

from mmprep.errors import UsageError
from mmprep.manifest import stats
from mmprep.manifest.model import LabelCount, Record, shard_ref


def _record(number, **changes):
    fields = {
        "id": f"r{number}",
        "session": f"s{number % 2}",
        "begin_s": 0.0,
        "duration_s": 1800.0,
        "streams": {"audio": shard_ref("audio/0.npy", (0, 1), rate_hz=1.0)},
    }
    return Record(**(fields | changes))


RECORDS = [
    _record(0, subject="p", split="train", label="joy", text="今天"),
    _record(1, subject="p", split="train", label="fear"),
    _record(2, subject="q", split="test", label="joy"),
    _record(3),
]


def test_collect_sums_over_all_records():
    total = stats.collect(RECORDS).total
    assert (total.n_records, total.hours, total.n_with_text) == (4, 2.0, 1)
    assert (len(total.sessions), len(total.subjects)) == (2, 2)
    assert total.labels == {"joy": 2, "fear": 1}
    assert total.streams == {"audio": 4}


def test_collect_sums_over_each_split():
    splits = stats.collect(RECORDS).splits
    assert {name: part.n_records for name, part in splits.items()} == {
        "train": 2,
        "test": 1,
        stats.NO_SPLIT: 1,
    }


def test_collect_adds_durations_without_rounding():
    tenths = [_record(k, duration_s=0.1) for k in range(10)]
    assert stats.collect(tenths).to_json()["seconds"] == 1.0


def test_weights_are_those_of_the_train_split():
    assert stats.collect(RECORDS).weights() == {"fear": 0.5, "joy": 0.5}


def test_weights_when_the_train_split_lacks_a_class_then_refused():
    with pytest.raises(UsageError, match="no record of the train split has sad"):
        stats.collect([*RECORDS, _record(4, split="test", label="sad")]).weights()


def test_weights_before_a_split_are_none():
    assert stats.collect([_record(0, label="joy")]).weights() == {}


def test_label_counts_are_over_all_records():
    found = stats.collect(RECORDS).label_counts({"joy": 0.5})
    assert found == {"fear": LabelCount(count=1), "joy": LabelCount(count=2, weight=0.5)}


def test_to_json_is_plain_json():
    found = stats.collect(RECORDS).to_json()
    assert json.loads(json.dumps(found)) == found
    assert found["splits"]["test"]["labels"] == {"joy": 1}


def test_collect_of_no_records_is_all_zero():
    assert stats.collect([]).to_json()["records"] == 0
