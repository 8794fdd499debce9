"""What records and data sets are, as values."""

from __future__ import annotations

import pytest

from mmprep.errors import DataError
from mmprep.manifest import model


def _record(**changes):
    fields = {"id": "a", "session": "s", "begin_s": 1.0, "duration_s": 0.5, "streams": {}}
    return model.Record(**(fields | changes))


def test_record_end_is_begin_plus_duration():
    assert _record().end_s == 1.5


def test_record_when_assigned_to_then_refused():
    with pytest.raises(AttributeError, match="immutable"):
        _record().split = "train"


def test_record_when_extra_shadows_a_known_field_then_refused():
    with pytest.raises(DataError, match=r"extra fields \['split'\]"):
        _record(extra={"split": "train"})


def test_stream_when_it_names_shard_and_table_then_refused():
    with pytest.raises(DataError, match="either a shard or a table"):
        model.StreamRef(shard="a", table="b", rows=(0, 1))


def test_stream_when_it_names_neither_then_refused():
    with pytest.raises(DataError, match="either a shard or a table"):
        model.StreamRef(rows=(0, 1))


def test_stream_counts_rows_half_open():
    assert model.shard_ref("a", (3, 7), rate_hz=1.0).n_rows == 4


def test_stream_path_names_the_table():
    ref = model.table_ref("tables/e/a.parquet", (0, 1), rate_hz=None, clock=None)
    assert ref.path == "tables/e/a.parquet"


@pytest.mark.parametrize(("label", "name"), [("fear", "fear"), (3, "3"), (0.5, "0.5")])
def test_label_name_of_a_number_is_its_json(label, name):
    assert model.label_name(label) == name


def test_dataset_lists_shards_of_all_modalities():
    def entry(path):
        return model.ShardEntry(path=path, rows=1, bytes=4, sha256="0" * 64, row_shape=())

    dataset = model.Dataset(
        mmprep_version="0",
        step="mfcc",
        step_version=1,
        modalities={
            "audio": model.Modality(shards=(entry("audio/0"),)),
            "mfcc": model.Modality(shards=(entry("mfcc/0"), entry("mfcc/1"))),
        },
    )
    assert list(dataset.shard_entries()) == ["audio/0", "mfcc/0", "mfcc/1"]
