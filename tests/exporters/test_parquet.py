"""Samples as rows of plain Parquet."""

from __future__ import annotations

import io

import numpy as np
import pyarrow.parquet as pq
import pytest

from mmprep.exporters import parquet
from mmprep.exporters.base import Sample, Stream, fields_of
from mmprep.manifest.model import Record

EEG = Stream("eeg", "float32", (2, 3), is_window=True, is_masked=True, channels=("a", "b", "c"))
WINDOW = np.arange(6, dtype=np.float32).reshape(2, 3)


def _fields(**changes):
    plain = {"id": "a", "session": "s", "begin_s": 0.0, "duration_s": 1.0, "streams": {}}
    return fields_of(Record(**(plain | changes)))


def _table(*samples, streams=(EEG,)):
    kinds = parquet.kinds_of(sample.fields for sample in samples)
    file = io.BytesIO()
    with parquet.Writer(file, kinds, streams) as writer:
        for sample in samples:
            writer.add(sample)
    return pq.read_table(io.BytesIO(file.getvalue()))


def _sample(values=WINDOW, **changes):
    mask = None if values is None else np.array([True, False])
    return Sample(_fields(**changes), {"eeg": values, "eeg.valid": mask})


def test_row_holds_values_flat_with_their_shape():
    (row,) = _table(_sample(id="今 4/a.b=c")).to_pylist()
    assert row["id"] == "今 4/a.b=c"
    np.testing.assert_array_equal(np.reshape(row["eeg"], row["eeg.shape"]), WINDOW)
    assert row["eeg.valid"] == [True, False]


def test_record_without_the_stream_has_nulls():
    row = _table(_sample(), _sample(None, id="b")).to_pylist()[1]
    assert (row["eeg"], row["eeg.shape"], row["eeg.valid"]) == (None, None, None)


@pytest.mark.parametrize(
    ("values", "kind", "read"),
    [
        ([1, None], "int64", [1, None]),
        ([1, 0.5], "double", [1.0, 0.5]),
        ([1, "x"], "string", ["1", "x"]),
        ([True, None], "bool", [True, None]),
        ([True, 2], "string", ["true", "2"]),
        ([2**63, 1], "double", [2.0**63, 1.0]),
        ([None, None], "string", [None, None]),
    ],
)
def test_labels_have_one_type_in_all_rows(values, kind, read):
    found = _table(*(_sample(labels={"v": value}, label=value) for value in values))
    assert str(found.schema.field("labels.v").type) == str(found.schema.field("label").type) == kind
    assert found["labels.v"].to_pylist() == found["label"].to_pylist() == read


def test_other_fields_are_columns_where_they_are_plain_values():
    (row,) = _table(_sample(extra={"trial": 3, "eeg": "x", "parts": [1]})).to_pylist()
    assert (row["fields.trial"], row["fields.eeg"]) == (3, "x")
    assert "fields.parts" not in row


def test_row_groups_are_cut_by_bytes_and_rows(monkeypatch):
    monkeypatch.setattr(parquet, "GROUP_BYTES", 60)
    kinds, file = parquet.kinds_of([]), io.BytesIO()
    with parquet.Writer(file, kinds, (EEG,)) as writer:
        for _ in range(5):
            writer.add(_sample())
    metadata = pq.ParquetFile(io.BytesIO(file.getvalue())).metadata
    assert [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)] == [2, 2, 1]


def test_readme_names_the_shapes():
    assert "| eeg | float32 | 2 x 3 | varies | a b c |" in parquet.about([EEG])


def test_card_gives_splits_names_that_hf_datasets_takes():
    assert '  - split: a_b\n    path: "data/a=20b-*"\n' in parquet.card({"a b": "data/a=20b-*"}, "")
