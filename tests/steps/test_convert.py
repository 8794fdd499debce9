"""`convert` from raw files to a data set."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile

from mmprep import DataError, UsageError, run_convert
from mmprep.manifest.codec import decode_dataset, read_manifest
from mmprep.steps.check import check
from tests import raw
from tests.conftest import ROOT
from tests.kill import tree

CMLR = ROOT / "sample_data/cmlr"


def _records(out):
    return {record.id: record for record in read_manifest(out / "manifest.jsonl")}


def test_table_keeps_every_row_and_stamp(convert, tmp_path, out):
    raw.table(tmp_path / "in/P01/eeg.tsv", rate_hz=8)
    convert()
    table = pq.read_table(out / "tables/eeg/P01.parquet")
    assert table.column_names == ["id", "time", "x"]
    assert set(table["id"].to_pylist()) == {"P01"}
    np.testing.assert_array_equal(table["x"], np.arange(40))
    np.testing.assert_array_equal(table["time"].cast("int64"), np.arange(40) * 125_000_000)


def test_tables_of_a_stream_share_one_schema(convert, tmp_path, out):
    raw.table(tmp_path / "in/P01/eeg.tsv")
    (tmp_path / "in/P02").mkdir()
    (tmp_path / "in/P02/eeg.tsv").write_text("time\ty\tx\n0\t1\t2.5\n1\t2\t3.5\n")
    convert()
    schemas = [pq.read_schema(out / f"tables/eeg/P0{k}.parquet").remove_metadata() for k in (1, 2)]
    assert schemas[0].equals(schemas[1])
    assert pq.read_table(out / "tables/eeg/P01.parquet")["y"].null_count == 40


def test_value_that_does_not_fit_late_in_a_file_widens_all_tables(convert, tmp_path, out):
    raw.table(tmp_path / "in/P01/eeg.tsv")
    raw.table(tmp_path / "in/P02/eeg.tsv", n_rows=30_000)
    with (tmp_path / "in/P02/eeg.tsv").open("a") as file:
        file.write("9999\t0.5\n")
    convert()
    tables = [pq.read_table(out / f"tables/eeg/P0{k}.parquet") for k in (1, 2)]
    assert [str(table.schema.field("x").type) for table in tables] == ["double", "double"]
    assert tables[1]["x"][-1].as_py() == 0.5


def test_sound_is_that_of_the_file(sample):
    shard = np.load(sample / "cmlr/converted/audio/shard-00000.npy", mmap_mode="r")
    for record in read_manifest(sample / "cmlr/converted/manifest.jsonl"):
        samples, rate_hz = soundfile.read(CMLR / record.source, dtype="float32")
        ref = record.streams["audio"]
        assert ref.rate_hz == rate_hz
        np.testing.assert_array_equal(shard[slice(*ref.rows)], samples)


def test_transcript_of_the_preset_is_attached(sample):
    for record in read_manifest(sample / "cmlr/converted/manifest.jsonl"):
        assert record.text == (CMLR / f"text/{record.id}.txt").read_text().strip()


def test_fields_of_the_layout_stand_in_the_record(sample):
    record = next(read_manifest(sample / "cmlr/converted/manifest.jsonl"))
    assert (record.subject, record.extra["date"]) == ("s1", "20170121")


def test_data_set_is_valid_to_the_checksum(sample):
    for name in ("amigos/converted", "cmlr/converted"):
        assert check(str(sample / name), checksums=True).findings == ()


def test_failed_item_leaves_the_others_as_they_are_without_it(convert, tmp_path, out):
    for name in "ac":
        raw.sound(tmp_path / f"in/{name}.wav")
    convert()
    wanted = np.load(out / "audio/shard-00000.npy")
    (tmp_path / "in/b.wav").write_bytes(b"no sound at all")
    assert convert(max_failures="1").status == "partial"
    assert sorted(_records(out)) == ["a", "c"]
    np.testing.assert_array_equal(np.load(out / "audio/shard-00000.npy"), wanted)


def test_table_that_fails_the_look_fails_once_and_alone(convert, tmp_path, out):
    for name in ("P01", "P02"):
        raw.table(tmp_path / f"in/{name}/eeg.tsv")
    (tmp_path / "in/P01/gsr.csv").write_text("a,b\n1,2\n")  # no time column
    assert convert(max_failures="1").status == "partial"
    failures = [json.loads(line) for line in (out / "failures.jsonl").read_text().splitlines()]
    assert [(f["id"], f["source"], f["stage"]) for f in failures] == [
        ("P01", "P01/gsr.csv", "look")
    ]
    assert {name: sorted(record.streams) for name, record in _records(out).items()} == {
        "P01": ["eeg"],
        "P02": ["eeg"],
    }


def test_clock_log_may_be_csv(convert, tmp_path, out):
    raw.table(tmp_path / "in/P01/eeg.tsv")
    (tmp_path / "in/P01/eeg.clock.csv").write_text("device,reference\n0,100\n10,110\n")
    convert()
    assert _records(out)["P01"].streams["eeg"].clock == "tables/eeg.clock/P01.parquet"


def test_file_with_a_damaged_header_fails_alone(convert, tmp_path, out):
    raw.table(tmp_path / "in/P01/eeg.tsv")
    (tmp_path / "in/P01/o.txt").write_text(
        "# OpenSignals Text File Format. Version 1\n# {broken\n# EndOfHeader\n1\t2\n"
    )
    assert convert(max_failures="1").status == "partial"
    (failure,) = map(json.loads, (out / "failures.jsonl").read_text().splitlines())
    assert (failure["source"], failure["stage"]) == ("P01/o.txt", "look")
    assert list(_records(out)) == ["P01"]


@pytest.mark.parametrize(("name", "codec"), [("a.mp4", "aac"), ("a.webm", "libopus")])
def test_video_container_with_sound_alone_is_a_sound(convert, tmp_path, out, name, codec):
    raw.packed_sound(tmp_path / "in" / name, codec)
    convert()
    stream = _records(out)["a"].streams["audio"]
    assert (list(_records(out)["a"].streams), stream.rate_hz) == (["audio"], 48_000)
    sound = np.load(out / stream.shard)
    assert len(sound) == 48_000
    assert np.sqrt(np.mean(sound[2000:40_000] ** 2)) == pytest.approx(0.4 / np.sqrt(2), rel=0.02)


def test_both_lengths_are_recorded_where_they_differ(convert, tmp_path, out):
    whole = raw.sound(tmp_path / "in/whole.wav")
    data = whole.read_bytes()
    (tmp_path / "in/cut.wav").write_bytes(data[:-200])
    convert(resample=4000)
    streams = {name: record.streams["audio"] for name, record in _records(out).items()}
    assert streams["cut"].extra == {"n_decoded": 700, "n_declared": 800}
    assert (streams["cut"].n_rows, streams["whole"].n_rows) == (350, 400)
    assert streams["whole"].extra == {}


def test_named_sound_is_known_by_its_content(convert, tmp_path, out):
    raw.sound(tmp_path / "in/a.wav").rename(tmp_path / "in/take.one")
    with pytest.raises(DataError, match="nothing known"):
        convert()
    run_convert(tmp_path / "in/take.one", output=out, engine="serial")
    assert np.load(out / _records(out)["take"].streams["audio"].shard).shape == (800,)


def test_changed_input_keeps_the_links_of_the_rest(convert, tmp_path, out):
    for name in ("P01", "P02"):
        raw.table(tmp_path / f"in/{name}/eeg.tsv")
    convert()
    inodes = {name: (out / f"tables/eeg/{name}.parquet").stat().st_ino for name in ("P01", "P02")}
    raw.table(tmp_path / "in/P02/eeg.tsv", n_rows=50)
    assert convert().status == "built"
    now = {name: (out / f"tables/eeg/{name}.parquet").stat().st_ino for name in inodes}
    assert [now[name] == inodes[name] for name in sorted(inodes)] == [True, False]


def test_incremental_run_ends_with_the_bytes_of_a_fresh_one(convert, tmp_path, out):
    raw.table(tmp_path / "in/P01/eeg.tsv")
    raw.sound(tmp_path / "in/P01.wav")
    convert()
    raw.sound(tmp_path / "in/P02.wav")
    (tmp_path / "in/P01/eeg.tsv").unlink()
    convert()
    run_convert(tmp_path / "in", output=tmp_path / "fresh", engine="serial")
    assert tree(out) == tree(tmp_path / "fresh")


def test_moved_inputs_give_the_same_bytes(convert, tmp_path, out):
    raw.table(tmp_path / "in/P01/eeg.tsv")
    raw.sound(tmp_path / "in/P01.wav")
    convert()
    (tmp_path / "else").mkdir()
    (tmp_path / "in").rename(tmp_path / "else/in")
    run_convert(tmp_path / "else/in", output=tmp_path / "moved", engine="serial")
    assert tree(tmp_path / "moved") == tree(out)


def test_unknown_unit_column_is_refused_before_it_is_lost(convert, tmp_path):
    raw.table(tmp_path / "in/eeg.tsv")
    with pytest.raises(UsageError, match="no column 'y'") as caught:
        convert(unit=("y=uV",))
    assert caught.value.hint == "columns: x"


def test_intervals_are_sent_to_align(convert, tmp_path):
    raw.table(tmp_path / "in/eeg.tsv")
    (tmp_path / "l.tsv").write_text("id\tbegin_s\tend_s\neeg\t0\t1\n")
    with pytest.raises(UsageError, match="convert cuts no windows") as caught:
        convert(labels=str(tmp_path / "l.tsv"), on="id")
    assert "align" in caught.value.hint


def test_options_of_the_record_are_those_that_change_content(convert, tmp_path, out):
    raw.table(tmp_path / "in/eeg.tsv")
    convert(max_failures="5", force=True)
    options = decode_dataset((out / "dataset.json").read_bytes()).options
    assert list(options) == sorted(options)
    assert not {"max_failures", "force", "output", "inputs", "root"} & options.keys()


def test_unknown_option_is_a_usage_error(convert, tmp_path):
    raw.table(tmp_path / "in/eeg.tsv")
    with pytest.raises(UsageError, match="no option 'colour'"):
        convert(colour="red")


def test_data_set_as_input_is_refused(sample, tmp_path):
    with pytest.raises(UsageError, match="is a data set already"):
        run_convert(sample / "cmlr/converted", output=tmp_path / "out", engine="serial")
