"""Records of a data set as arrays."""

from __future__ import annotations

import multiprocessing
import pickle

import numpy as np
import pyarrow as pa
import pytest

from mmprep import tables
from mmprep.errors import DataError, UsageError
from mmprep.loaders import MemmapDataset, open_dataset
from mmprep.manifest.model import table_ref
from tests.loaders import sets

AUDIO = [np.arange(3, dtype=np.float32), np.arange(10, 15, dtype=np.float32), np.float32([7])]


@pytest.fixture
def ragged(tmp_path):
    """Three records of 3, 5 and 1 samples, in two splits."""
    maker = sets.SetMaker(tmp_path / "set")
    refs = maker.ragged("audio", AUDIO)
    splits = ["train", "train", "test"]
    return maker.write(
        [
            sets.record(k, {"audio": ref}, label="ab"[k % 2], labels={"v": k}, split=split)
            for k, (ref, split) in enumerate(zip(refs, splits, strict=True))
        ]
    )


@pytest.fixture
def windows(tmp_path):
    """Two windows of 3 samples and 2 channels, one value masked, one missing."""
    maker = sets.SetMaker(tmp_path / "set")
    rows = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    valid = np.ones((2, 3), bool)
    rows[0, 1], valid[0, 1] = np.nan, False
    rows[1, 2, 0] = np.nan
    refs = maker.windows("eeg", rows, valid)
    frames = np.array([[5, -1], [7, 8]], np.int32)
    video = maker.windows("video", frames, frames >= 0)
    pairs = zip(refs, video, strict=True)
    return maker.write([sets.record(k, {"eeg": e, "video": v}) for k, (e, v) in enumerate(pairs)])


# One record


def test_item_has_the_keys_of_the_contract(ragged):
    assert list(open_dataset(ragged)[0]) == ["id", "label", "labels", "audio", "audio.length"]


def test_item_holds_its_own_rows(ragged):
    item = open_dataset(ragged)[1]
    assert (item["id"], item["label"], item["labels"]) == ("s/000001", "b", {"v": 1})
    assert item["audio"].tolist() == [10, 11, 12, 13, 14]
    assert item["audio.length"] == 5


def test_item_counts_from_the_end_for_negative_numbers(ragged):
    assert open_dataset(ragged)[-1]["audio"].tolist() == [7]


def test_item_when_there_is_none_then_index_error(ragged):
    with pytest.raises(IndexError, match="out of bounds"):
        open_dataset(ragged)[3]


def test_item_is_a_copy_that_may_be_written(ragged):
    dataset = open_dataset(ragged)
    dataset[0]["audio"][:] = 99
    assert dataset[0]["audio"].tolist() == [0, 1, 2]
    assert type(dataset[0]["audio"]) is np.ndarray


def test_iteration_gives_every_record(ragged):
    assert [item["id"] for item in open_dataset(ragged)] == ["s/000000", "s/000001", "s/000002"]


def test_item_has_its_text_where_the_data_set_has_texts(tmp_path):
    maker = sets.SetMaker(tmp_path)
    maker.write([sets.record(0, {}, text="今天"), sets.record(1, {})])
    assert [item["text"] for item in open_dataset(tmp_path)] == ["今天", None]


def test_record_gives_the_whole_line(ragged):
    record = open_dataset(ragged).record(2)
    assert (record.id, record.split, record.begin_s) == ("s/000002", "test", 2.0)


# Windows and masks


def test_window_is_its_row_without_the_row_axis(windows):
    item = open_dataset(windows)[0]
    assert item["eeg"].shape == (3, 2)
    assert item["eeg.valid"].tolist() == [True, False, True]
    assert item["eeg.length"] == 3


def test_masked_values_are_zero(windows):
    assert open_dataset(windows)[0]["eeg"].tolist() == [[0, 1], [0, 0], [4, 5]]


def test_missing_value_of_one_channel_is_zero_and_leaves_the_mask(windows):
    item = open_dataset(windows)[1]
    assert item["eeg"].tolist() == [[6, 7], [8, 9], [0, 11]]
    assert item["eeg.valid"].all()


def test_masked_frame_index_is_zero(windows):
    assert open_dataset(windows)[0]["video"].tolist() == [5, 0]


def test_masked_values_with_another_fill(windows):
    assert open_dataset(windows, fill=-2.0)[0]["eeg"][1].tolist() == [-2, -2]


def test_fill_nan_leaves_what_is_stored(windows):
    item = open_dataset(windows, fill="nan")[0]
    assert np.isnan(item["eeg"][1]).all()
    assert item["video"].tolist() == [5, -1]


@pytest.mark.parametrize("fill", ["zero", np.inf, None])
def test_fill_when_it_is_no_number_then_refused(windows, fill):
    with pytest.raises(UsageError, match="neither a number nor 'nan'"):
        open_dataset(windows, fill=fill)


def test_batch_of_windows_has_no_padding(windows):
    batch = open_dataset(windows)[:]
    assert batch["eeg"].shape == (2, 3, 2)
    assert batch["eeg.length"].tolist() == [3, 3]


def test_whole_trials_are_ragged_and_their_padding_is_masked(tmp_path):
    maker = sets.SetMaker(tmp_path)
    refs = maker.ragged("eeg", [np.ones((2, 4), np.float32), np.ones((1, 4), np.float32)])
    maker.ragged("eeg.valid", [np.array([True, False]), np.array([True])])
    maker.write([sets.record(k, {"eeg": ref}) for k, ref in enumerate(refs)])
    batch = open_dataset(tmp_path, fill=5.0)[:]
    assert batch["eeg"][:, :, 0].tolist() == [[1, 5], [1, 0]]
    assert batch["eeg.valid"].tolist() == [[True, False], [True, False]]


def test_record_without_a_stream_has_length_zero_and_nothing_valid(tmp_path):
    maker = sets.SetMaker(tmp_path)
    rows = np.ones((1, 3, 2), np.float32)
    (eeg,) = maker.windows("eeg", rows, np.ones((1, 3), bool))
    (audio,) = maker.ragged("audio", [np.ones(4, np.float32)])
    maker.write([sets.record(0, {"eeg": eeg}), sets.record(1, {"audio": audio})])
    batch = open_dataset(tmp_path)[:]
    assert batch["eeg.length"].tolist() == [3, 0]
    assert batch["eeg.valid"].tolist() == [[True] * 3, [False] * 3]
    assert batch["audio"].tolist() == [[0] * 4, [1] * 4]
    assert open_dataset(tmp_path)[1]["eeg"].shape == (0, 2)


# Batches


def test_batch_keeps_the_order_asked_for_and_pads_with_zeros(ragged):
    batch = open_dataset(ragged)[[2, 1]]
    assert batch["id"] == ["s/000002", "s/000001"]
    assert batch["audio"].tolist() == [[7, 0, 0, 0, 0], [10, 11, 12, 13, 14]]
    assert batch["audio.length"].tolist() == [1, 5]


def test_batch_equals_the_records_one_by_one(windows):
    dataset = open_dataset(windows)
    for name in ("eeg", "eeg.valid", "video", "video.valid"):
        stacked = np.stack([item[name] for item in dataset])
        np.testing.assert_array_equal(dataset[[0, 1]][name], stacked)


@pytest.mark.parametrize("key", [slice(0, 2), np.array([0, 1]), [True, True, False], range(2)])
def test_batch_takes_what_numpy_takes(ragged, key):
    assert open_dataset(ragged)[key]["id"] == ["s/000000", "s/000001"]


def test_batch_of_no_records_has_the_keys_and_no_rows(windows):
    batch = open_dataset(windows)[[]]
    assert batch["id"] == []
    assert batch["eeg"].shape[0] == batch["eeg.length"].size == 0


def test_batch_when_row_shapes_differ_then_names_both_records(tmp_path):
    maker = sets.SetMaker(tmp_path)
    refs = [
        *maker.ragged("audio", [np.ones(3, np.float32)]),
        *maker.ragged("audio", [np.ones((3, 2), np.float32)]),
    ]
    maker.write([sets.record(k, {"audio": ref}) for k, ref in enumerate(refs)])
    with pytest.raises(DataError, match=r"record 's/000001': audio has rows of .*'s/000000'"):
        open_dataset(tmp_path)[:]


def test_batches_go_through_all_records(ragged):
    batches = open_dataset(ragged).batches(2)
    assert len(batches) == 2
    assert [batch["id"] for batch in batches] == [["s/000000", "s/000001"], ["s/000002"]]


def test_batches_of_all_ranks_are_as_many(ragged):
    dataset = open_dataset(ragged)
    ranks = [
        [batch["id"] for batch in dataset.batches(1, rank=rank, world_size=2)] for rank in (0, 1)
    ]
    assert ranks == [[["s/000000"], ["s/000002"]], [["s/000001"], ["s/000000"]]]


def test_batches_by_seconds_hold_no_more(ragged):
    batches = open_dataset(ragged).batches(max_seconds=2.0)
    assert [len(batch["id"]) for batch in batches] == [2, 1]


def test_batches_by_rows_count_the_padding(ragged):
    batches = open_dataset(ragged).batches(max_rows=9, by="audio")
    assert [batch["audio"].size for batch in batches] == [3, 5, 1]


def test_batches_from_a_start_are_the_tail(ragged):
    dataset = open_dataset(ragged)
    whole = [batch["id"] for batch in dataset.batches(1, shuffle=True, seed=4)]
    tail = [batch["id"] for batch in dataset.batches(1, shuffle=True, seed=4, start=1)]
    assert tail == whole[1:]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "need a batch_size"),
        ({"batch_size": 0}, "need a batch_size"),
        ({"max_rows": 4, "by": "eeg"}, "by='eeg' is no stream, expected one of audio"),
        ({"max_rows": 4, "max_seconds": 1.0}, "not both"),
        ({"batch_size": 2, "rank": 2, "world_size": 2}, "rank 2 is not one of 2"),
    ],
)
def test_batches_when_asked_for_nonsense_then_refused(ragged, options, message):
    with pytest.raises(UsageError, match=message):
        open_dataset(ragged).batches(**options)


# Opening


@pytest.mark.parametrize("name", ["", "dataset.json", "manifest.jsonl"])
def test_open_takes_the_folder_or_a_file_in_it(ragged, name):
    assert len(open_dataset(ragged / name)) == 3


def test_open_of_a_split_has_its_records(ragged):
    assert [item["id"] for item in open_dataset(ragged, split="test")] == ["s/000002"]


def test_open_when_there_is_no_data_set_then_refused(tmp_path):
    with pytest.raises(UsageError, match=r"there is no dataset\.json"):
        open_dataset(tmp_path)


def test_open_when_the_manifest_was_cut_then_an_error(ragged):
    manifest = ragged / "manifest.jsonl"
    manifest.write_bytes(manifest.read_bytes()[:-10])
    with pytest.raises(DataError, match=r"manifest\.jsonl: has \d+ bytes, recorded \d+"):
        open_dataset(ragged)


def test_open_of_no_records_is_empty(tmp_path):
    sets.SetMaker(tmp_path).write([])
    assert len(open_dataset(tmp_path)) == 0


def test_repr_says_where_how_many_and_what(ragged):
    assert repr(open_dataset(ragged, split="train")).endswith("split='train': 2 x ['audio'])")


def test_classes_are_those_of_dataset_json(ragged):
    dataset = open_dataset(ragged)
    assert dataset.classes == ("a", "b")
    assert dataset.class_weights == {"a": None, "b": None}


def test_source_lies_below_media_root(tmp_path):
    sets.SetMaker(tmp_path / "set").write([sets.record(0, {}, source="x/a.wav")])
    found = open_dataset(tmp_path / "set", media_root=tmp_path / "raw").source(0)
    assert found == tmp_path / "raw" / "x" / "a.wav"


def test_source_when_the_input_root_is_unknown_then_says_how_to_name_it(tmp_path):
    sets.SetMaker(tmp_path).write([sets.record(0, {}, source="a.wav")])
    with pytest.raises(UsageError, match="input root") as caught:
        open_dataset(tmp_path).source(0)
    assert "media_root" in caught.value.hint


# Damage


def test_item_when_its_shard_is_missing_then_names_shard_and_record(ragged):
    dataset = open_dataset(ragged)
    (ragged / "audio" / "shard-00000.npy").unlink()
    with pytest.raises(DataError, match="record 's/000001', stream 'audio': no such") as caught:
        dataset[1]
    assert "shard-00000.npy" in caught.value.where


def test_item_when_its_shard_is_cut_then_names_shard_and_record(ragged):
    path = ragged / "audio" / "shard-00000.npy"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(
        DataError, match="record 's/000000', stream 'audio': shard is 4 bytes short"
    ):
        open_dataset(ragged)[0]


def test_item_when_rows_go_beyond_the_shard_then_an_error(tmp_path):
    maker = sets.SetMaker(tmp_path)
    maker.ragged("audio", AUDIO)
    ref = sets.shard_ref("audio/shard-00000.npy", (5, 12), rate_hz=1.0)
    maker.write([sets.record(0, {"audio": ref})])
    with pytest.raises(DataError, match="rows 5 to 12 of the 9 in the shard"):
        open_dataset(tmp_path)[0]


def test_item_when_its_shard_lies_outside_then_an_error(tmp_path):
    ref = sets.shard_ref("../audio/shard-00000.npy", (0, 1), rate_hz=1.0)
    sets.SetMaker(tmp_path / "set").write([sets.record(0, {"audio": ref})])
    with pytest.raises(DataError, match="is not a path below the data set"):
        open_dataset(tmp_path / "set")[0]


def test_verify_finds_a_changed_value(ragged):
    path = ragged / "audio" / "shard-00000.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    open_dataset(ragged)[0]
    with pytest.raises(DataError, match="the sha256 differs"):
        open_dataset(ragged, verify=True)[0]


def test_verify_of_a_sound_data_set_changes_nothing(windows):
    np.testing.assert_equal(open_dataset(windows, verify=True)[:], open_dataset(windows)[:])


# Other processes


def test_pickled_data_set_is_small_and_gives_the_same(ragged):
    dataset = open_dataset(ragged, split="train")
    dataset[0]
    data = pickle.dumps(dataset)
    assert len(data) < 2000
    np.testing.assert_equal(pickle.loads(data)[:], dataset[:])


def test_pickled_data_set_when_made_anew_then_an_error(ragged, tmp_path):
    data = pickle.dumps(open_dataset(ragged))
    maker = sets.SetMaker(ragged)
    maker.write(
        [sets.record(k, {"audio": ref}) for k, ref in enumerate(maker.ragged("audio", AUDIO))]
    )
    with pytest.raises(DataError, match="was made anew since it was opened"):
        len(pickle.loads(data))


def test_data_set_works_in_a_spawned_process(windows):
    dataset = open_dataset(windows)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(dataset.__getitem__, (0,))
    np.testing.assert_equal(found, dataset[0])


def test_public_name_is_memmap_dataset(ragged):
    assert isinstance(open_dataset(ragged), MemmapDataset)


# Tables


@pytest.fixture
def tabled(tmp_path):
    """Two records in one table of two channels, with a gap."""
    (tmp_path / "tables" / "eeg").mkdir(parents=True)
    name = "tables/eeg/x.parquet"
    channels = tables.Column("a", "float64"), tables.Column("b", "int64")
    schema = tables.TableSchema(channels, tables.TimeColumn("ns"))
    writer = tables.TableWriter(tmp_path / name, schema, item_id="x")
    values = {"a": pa.array([1.5, None, 2.5]), "b": pa.array([1, 2, None])}
    writer.add(np.arange(3) * 10**9, None, values)
    writer.close()
    refs = [table_ref(name, rows, rate_hz=1.0, clock="device") for rows in ((0, 1), (1, 3))]
    maker = sets.SetMaker(tmp_path)
    return maker.write([sets.record(k, {"eeg": ref}) for k, ref in enumerate(refs)], tables=[name])


def test_table_stream_is_its_numeric_columns(tabled):
    item = open_dataset(tabled)[1]
    assert item["eeg"].tolist() == [[0, 2], [2.5, 0]]
    assert item["eeg.valid"].tolist() == [True, True]
    assert item["eeg.length"] == 2
