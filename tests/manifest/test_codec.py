"""Records and data sets to JSON and back."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmprep.errors import DataError, MmprepError
from mmprep.manifest import codec
from mmprep.manifest.model import (
    Dataset,
    FileEntry,
    LabelCount,
    Modality,
    Record,
    Session,
    ShardEntry,
    Totals,
    shard_ref,
    table_ref,
)

quick = settings(deadline=None, max_examples=60)

LINE = (
    '{"id":"s4/20110304/section_4_002.92_004.59","session":"s4/20110304","subject":"s4",'
    '"split":"train","fold":null,"begin_s":0.0,"duration_s":1.67,"label":null,"labels":{},'
    '"text":"今天…","source":"audio/s4/x.wav","streams":{'
    '"audio":{"shard":"audio/shard-00000.npy","rows":[0,26720],"rate_hz":16000.0,"offset_s":0.0},'
    '"eeg":{"table":"tables/eeg/P01/V03.parquet","rows":[0,9],"rate_hz":null,"clock":"eeg"}}}\n'
)


def _record(**changes):
    fields = {"id": "a", "session": "s", "begin_s": 0.0, "duration_s": 1.0, "streams": {}}
    return Record(**(fields | changes))


def _write(tmp_path, *lines):
    path = tmp_path / "manifest.jsonl"
    path.write_bytes(b"".join(lines))
    return path


# Records


def test_encode_record_keeps_the_key_order_of_the_contract():
    keys = " ".join(json.loads(codec.encode_record(_record())))
    assert keys == (
        "id session subject split fold begin_s duration_s label labels text source streams"
    )


def test_record_of_the_contract_reads_and_writes_to_the_same_bytes():
    line = LINE.encode()
    assert codec.encode_record(codec.decode_record(line)) == line


def test_window_writes_valid_and_bound_after_streams():
    line = codec.encode_record(_record(valid={"eeg": 0.984}, bound_s={"eeg": 4.1e-06, "gsr": None}))
    assert line.endswith(b'"valid":{"eeg":0.984},"bound_s":{"eeg":4.1e-6,"gsr":null}}\n')


def test_unknown_fields_come_back_after_the_known_ones():
    line = codec.encode_record(_record())
    foreign = line.replace(b'{"id"', b'{"lang":"zh","extra":[1,2.5],"id"', 1)
    assert codec.encode_record(codec.decode_record(foreign)) == (
        line[:-2] + b',"lang":"zh","extra":[1,2.5]}\n'
    )


def test_unknown_fields_of_a_stream_are_kept():
    ref = shard_ref("audio/shard-00000.npy", (0, 4), rate_hz=4.0)
    line = codec.encode_record(_record(streams={"audio": ref}))
    foreign = line.replace(b'"offset_s":0.0', b'"offset_s":0.0,"gain":{"db":3}')
    read = codec.decode_record(foreign)
    assert read.streams["audio"].extra == {"gain": {"db": 3}}
    assert codec.encode_record(read) == foreign


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, np.float64("nan")])
def test_encode_record_when_a_number_is_not_finite_then_refused(bad):
    with pytest.raises(DataError, match=r"record 'a': cannot be written as JSON: -?(nan|inf)"):
        codec.encode_record(_record(labels={"valence": bad}))


def test_encode_record_when_extra_holds_nan_deep_inside_then_refused():
    with pytest.raises(DataError, match="nan has no JSON form"):
        codec.encode_record(_record(extra={"x": [{"y": math.nan}]}))


def test_encode_record_when_text_is_not_unicode_then_refused():
    with pytest.raises(DataError, match="surrogates not allowed"):
        codec.encode_record(_record(text="\ud800"))


def test_encode_record_when_a_value_is_no_json_value_then_refused():
    with pytest.raises(DataError, match="is no JSON value"):
        codec.encode_record(_record(extra={"x": object()}))


def test_encode_record_accepts_numpy_float64():
    assert b'"begin_s":0.1,' in codec.encode_record(_record(begin_s=np.float64(0.1)))


names = st.text(min_size=1, max_size=8)
floats = st.floats(allow_nan=False, allow_infinity=False)
labels = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | floats | names
refs = st.builds(
    shard_ref,
    names,
    st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)),
    rate_hz=st.none() | floats,
    offset_s=floats,
) | st.builds(
    table_ref,
    names,
    st.tuples(st.integers(0, 9), st.integers(0, 9)),
    rate_hz=st.none() | floats,
    clock=st.none() | names,
)
json_values = st.recursive(
    labels, lambda inner: st.lists(inner) | st.dictionaries(names, inner), max_leaves=5
)
extras = st.dictionaries(
    names.filter(lambda name: name not in Record.__struct_fields__), json_values
)
records = st.builds(
    Record,
    id=names,
    session=names,
    subject=st.none() | names,
    split=st.none() | names,
    fold=st.none() | st.integers(0, 99),
    begin_s=floats,
    duration_s=st.floats(0, 1e300),
    label=labels,
    labels=st.dictionaries(names, labels),
    text=st.none() | st.text(),
    source=st.none() | names,
    streams=st.dictionaries(names, refs, max_size=3),
    valid=st.none() | st.dictionaries(names, st.floats(0, 1)),
    bound_s=st.none() | st.dictionaries(names, st.none() | floats),
    words=st.none() | st.lists(st.tuples(st.text(), floats, floats)).map(tuple),
    extra=extras,
)


@quick
@given(records)
def test_any_record_reads_back_as_it_was_written(record):
    assert codec.decode_record(codec.encode_record(record)) == record


@quick
@given(records)
def test_any_record_is_one_line_that_the_json_of_python_reads(record):
    line = codec.encode_record(record)
    assert line.count(b"\n") == 1
    assert json.loads(line)["id"] == record.id


@quick
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_decode_record_of_any_bytes_raises_only_our_errors(data):
    with pytest.raises(MmprepError, match=r".+"):
        codec.decode_record(data)


@quick
@given(st.integers(0, len(LINE) - 3))
def test_decode_record_of_a_cut_line_is_an_error(length):
    with pytest.raises(DataError, match=r".+"):
        codec.decode_record(LINE.encode()[:length])


@quick
@given(st.dictionaries(st.sampled_from(Record.__struct_fields__), json_values))
def test_decode_record_of_any_object_raises_only_our_errors(fields):
    with contextlib.suppress(MmprepError):
        codec.decode_record(json.dumps(fields).encode())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"id":"s4/20110304/section_4_002.92_004.59",', "", "missing required field `id`"),
        ('"begin_s":0.0', '"begin_s":"0"', r"Expected `float`, got `str` - at `\$.begin_s`"),
        ('"begin_s":0.0', '"begin_s":NaN', "not JSON"),
        ('"duration_s":1.67', '"duration_s":-1', ">= 0"),
        ("[0,26720]", "[-1,26720]", "Expected `int` >= 0"),
        ("[0,26720]", "[0]", "of length 2"),
        ('"shard":', '"shird":', "either a shard or a table"),
        ('"streams":', '"strums":', "missing required field `streams`"),
    ],
)
def test_decode_record_when_wrong_then_says_where_and_what(old, new, message):
    assert old in LINE
    with pytest.raises(DataError, match=message) as caught:
        codec.decode_record(LINE.replace(old, new).encode(), where="m.jsonl:7")
    assert caught.value.where == "m.jsonl:7"
    assert caught.value.hint


def test_decode_record_when_nested_without_end_then_an_error():
    with pytest.raises(DataError, match="not JSON"):
        codec.decode_record(b"[" * 100_000)


# Manifests


def test_read_manifest_gives_the_records_in_order(tmp_path):
    path = _write(tmp_path, *codec.encode_records([_record(id="b"), _record(id="a")]))
    assert [record.id for record in codec.read_manifest(path)] == ["b", "a"]


def test_read_manifest_when_a_line_is_bad_then_names_file_and_line(tmp_path):
    good = codec.encode_record(_record())
    path = _write(tmp_path, good, good[:-9] + b"\n", good)
    with pytest.raises(DataError, match="not JSON") as caught:
        list(codec.read_manifest(path))
    assert caught.value.where == f"{path}:2"


def test_read_manifest_when_the_last_newline_is_missing_then_an_error(tmp_path):
    path = _write(tmp_path, codec.encode_record(_record())[:-1])
    with pytest.raises(DataError, match=r"manifest.jsonl:1: the last line has no newline"):
        list(codec.read_manifest(path))


def test_read_manifest_when_a_line_is_empty_then_an_error(tmp_path):
    path = _write(tmp_path, codec.encode_record(_record()), b"\n")
    with pytest.raises(DataError, match=r":2: it is empty"):
        list(codec.read_manifest(path))


def test_read_manifest_when_there_is_none_then_an_error(tmp_path):
    with pytest.raises(DataError, match="there is no such manifest"):
        list(codec.read_manifest(tmp_path / "manifest.jsonl"))


def test_read_manifest_when_a_line_is_endless_then_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(codec, "MAX_LINE_BYTES", 1000)
    path = _write(tmp_path, b" " * 5000 + b"\n", codec.encode_record(_record()))
    first, second = codec.scan_manifest(path)
    assert "over 1000 bytes" in str(first)
    assert second == _record()


def test_scan_manifest_gives_one_item_a_line_and_goes_on_after_a_bad_one(tmp_path):
    good = codec.encode_record(_record())
    first, second, third = codec.scan_manifest(_write(tmp_path, good, b"{}\n", good))
    assert isinstance(second, DataError)
    assert first == third == _record()


def test_read_records_reads_a_stream_and_leaves_it_open():
    stream = io.BytesIO(codec.encode_record(_record()))
    assert list(codec.read_records(stream, name="stdin")) == [_record()]
    assert not stream.closed


def test_read_manifest_keeps_one_line_in_memory(tmp_path):
    path = _write(tmp_path, codec.encode_record(_record(text="x" * 400)) * 10_000)
    tracemalloc.start()
    n_records = sum(1 for _ in codec.read_manifest(path))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert n_records == 10_000
    assert peak_bytes < 500_000


# dataset.json


def _dataset(**changes):
    shard = ShardEntry(
        path="audio/shard-00000.npy",
        rows=4,
        bytes=144,
        sha256="a" * 64,
        rate_hz="4/1",
        row_shape=(),
    )
    fields = {
        "mmprep_version": "0.1.0",
        "step": "convert",
        "step_version": 1,
        "options": {"mono": True},
        "modalities": {"audio": Modality(dtype="float32", shards=(shard,))},
        "sessions": {"s": Session(origin_ns=1_480_000_000_007_812_001, clock="master")},
        "labels": {"fear": LabelCount(count=3)},
        "totals": Totals(records=1, seconds=1.0, bytes=200),
        "files": {"manifest.jsonl": FileEntry(bytes=56, sha256="b" * 64)},
    }
    return Dataset(**(fields | changes))


def test_dataset_reads_back_as_it_was_written():
    assert codec.decode_dataset(codec.encode_dataset(_dataset())) == _dataset()


def test_encode_dataset_keeps_the_key_order_of_the_contract():
    keys = " ".join(json.loads(codec.encode_dataset(_dataset())))
    assert keys == (
        "schema_version mmprep_version step step_version options modalities sessions labels splits"
        " totals files self"
    )


def test_encode_dataset_ends_in_the_sha256_of_the_bytes_before_the_key():
    data = codec.encode_dataset(_dataset())
    head = data[: data.rindex(b'"self"')]
    assert json.loads(data)["self"] == hashlib.sha256(head).hexdigest()


def test_encode_dataset_sorts_names_so_that_the_order_of_work_does_not_show():
    one = _dataset(sessions={"b": Session(), "a": Session()})
    other = _dataset(sessions={"a": Session(), "b": Session()})
    assert codec.encode_dataset(one) == codec.encode_dataset(other)


def test_dataset_keeps_unknown_fields_at_every_level():
    shard = ShardEntry(
        path="a", rows=1, bytes=1, sha256="c" * 64, row_shape=(), extra={"codec": "raw"}
    )
    dataset = _dataset(
        modalities={"audio": Modality(shards=(shard,), extra={"gain": 2})},
        totals=Totals(extra={"hours": 0.5}),
        extra={"train": {"mean": [0.0]}},
    )
    assert codec.decode_dataset(codec.encode_dataset(dataset)) == dataset


def test_decode_dataset_when_any_byte_changed_then_refused():
    data = codec.encode_dataset(_dataset())
    for k in range(len(data)):
        changed = data[:k] + bytes([data[k] ^ 1]) + data[k + 1 :]
        with pytest.raises(DataError, match=r".+"):
            codec.decode_dataset(changed)


def test_decode_dataset_when_cut_then_refused():
    data = codec.encode_dataset(_dataset())
    for k in range(len(data)):
        with pytest.raises(DataError, match=r".+"):
            codec.decode_dataset(data[:k])


def test_decode_dataset_when_edited_then_names_the_file_and_the_way_out():
    data = codec.encode_dataset(_dataset()).replace(b'"count": 3', b'"count": 4')
    with pytest.raises(DataError, match="was changed after it was written") as caught:
        codec.decode_dataset(data, where="out/dataset.json")
    assert caught.value.where == "out/dataset.json"
    assert caught.value.hint


def test_decode_dataset_of_a_later_version_says_so():
    data = codec.encode_dataset(_dataset()).replace(b'"schema_version": 1', b'"schema_version": 2')
    with pytest.raises(DataError, match="schema_version is 2, this mmprep reads 1"):
        codec.decode_dataset(data)


def test_encode_dataset_when_an_option_is_nan_then_refused():
    with pytest.raises(DataError, match=r"dataset.json: cannot be written"):
        codec.encode_dataset(_dataset(options={"fmin": math.nan}))
