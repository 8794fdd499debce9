"""A manifest as arrays."""

from __future__ import annotations

import pytest

from mmprep.errors import DataError, UsageError
from mmprep.loaders.index import ABSENT, read_index
from mmprep.manifest import codec
from mmprep.manifest.model import shard_ref, table_ref
from tests.loaders import sets

A = shard_ref("a/shard-00000.npy", (2, 5), rate_hz=1.0)
B = shard_ref("b/shard-00000.npy", (0, 1), rate_hz=1.0)


def _manifest(tmp_path, *records):
    path = tmp_path / "manifest.jsonl"
    path.write_bytes(b"".join(codec.encode_records(records)))
    return path


def test_read_index_finds_each_line_again(tmp_path):
    path = _manifest(tmp_path, sets.record(0, {}), sets.record(1, {}, text="今天"))
    index = read_index(path)
    line = path.read_bytes()[index.line_begin[1] : index.line_end[1]]
    assert codec.decode_record(line).text == "今天"
    assert index.has_text


def test_read_index_keeps_rows_as_begin_and_count(tmp_path):
    column = read_index(_manifest(tmp_path, sets.record(0, {"a": A}))).columns["a"]
    assert (column.begin[0], column.n_rows[0], column.paths) == (2, 3, ("a/shard-00000.npy",))


def test_read_index_when_a_stream_is_missing_then_it_is_marked(tmp_path):
    records = sets.record(0, {"a": A}), sets.record(1, {"b": B}), sets.record(2, {"a": A})
    columns = read_index(_manifest(tmp_path, *records)).columns
    assert columns["a"].n_rows.tolist() == [3, ABSENT, 3]
    assert columns["b"].n_rows.tolist() == [ABSENT, 1, ABSENT]


def test_read_index_of_a_split_knows_the_streams_of_all(tmp_path):
    records = sets.record(0, {"a": A}, split="test"), sets.record(1, {"b": B}, split="train")
    index = read_index(_manifest(tmp_path, *records), split="train")
    assert index.n_records == 1
    assert index.columns["a"].n_rows.tolist() == [ABSENT]
    assert index.columns["a"].paths == ("a/shard-00000.npy",)


def test_read_index_when_the_split_is_unknown_then_names_the_known(tmp_path):
    with pytest.raises(UsageError, match="no record is in split 'dev'; the data set has val"):
        read_index(_manifest(tmp_path, sets.record(0, {}, split="val")), split="dev")


def test_read_index_when_a_line_is_bad_then_names_file_and_line(tmp_path):
    path = _manifest(tmp_path, sets.record(0, {}))
    path.write_bytes(path.read_bytes() + b'{"id": 3}\n')
    with pytest.raises(DataError, match="Expected `str`, got `int`") as caught:
        read_index(path)
    assert caught.value.where == f"{path}:2"


def test_read_index_when_the_last_line_is_cut_then_an_error(tmp_path):
    path = _manifest(tmp_path, sets.record(0, {}))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match="no newline"):
        read_index(path)


def test_read_index_when_a_stream_is_shard_and_table_then_an_error(tmp_path):
    table = table_ref("tables/a/x.parquet", (0, 1), rate_hz=None, clock=None)
    path = _manifest(tmp_path, sets.record(0, {"a": A}), sets.record(1, {"a": table}))
    with pytest.raises(DataError, match="a shard here and a table there"):
        read_index(path)
