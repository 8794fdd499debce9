"""`mmprep convert` as it is called."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

from mmprep.manifest.codec import decode_dataset, read_manifest
from tests import raw

SERIAL = ("--engine", "serial")


@pytest.fixture
def convert(mmprep, tmp_path):
    """Convert the folder `in` with more options; give the data set and what was said."""

    def run(*options):
        done = mmprep("convert", tmp_path / "in", "-o", tmp_path / "out", *options, *SERIAL)
        assert done.code == 0, done.err
        return tmp_path / "out", done

    return run


def test_table_and_sound_of_one_folder_become_one_data_set(convert, tmp_path):
    raw.table(tmp_path / "in/P01/eeg.tsv")
    raw.sound(tmp_path / "in/P01.wav")
    out, _ = convert()
    (record,) = read_manifest(out / "manifest.jsonl")
    assert (record.id, sorted(record.streams)) == ("P01", ["audio", "eeg"])
    assert np.load(out / "audio/shard-00000.npy", mmap_mode="r").shape == (800,)


def test_text_option_attaches_the_transcript(convert, tmp_path):
    raw.sound(tmp_path / "in/a.wav")
    (tmp_path / "in/a.lab").write_text("\ufeff ni \n hao \n", encoding="utf-8")
    out, done = convert("--text", "{stem}.lab")
    assert next(read_manifest(out / "manifest.jsonl")).text == "ni hao"
    assert "skipped" not in done.err


def test_labels_option_joins_a_table(convert, tmp_path):
    for name in ("P01", "P02"):
        raw.sound(tmp_path / f"in/{name}.wav")
    (tmp_path / "labels.csv").write_text("code,label,age\nP01,happy,31\nP09,sad,40\n")
    out, done = convert("--labels", tmp_path / "labels.csv", "--on", "id=code")
    first, second = read_manifest(out / "manifest.jsonl")
    assert (first.label, first.labels) == ("happy", {"label": "happy", "age": 31})
    assert (second.label, second.labels) == (None, {})
    assert "1 keys of the table match no record (P09)" in done.err
    assert "1 of the records have no row (P02)" in done.err


def test_labels_among_the_recordings_are_no_recording(convert, tmp_path):
    raw.sound(tmp_path / "in/P01.wav")
    (tmp_path / "in/labels.tsv").write_text("id\tlabel\nP01\thappy\n")
    out, done = convert("--labels", tmp_path / "in/labels.tsv", "--on", "id")
    assert [record.label for record in read_manifest(out / "manifest.jsonl")] == ["happy"]
    assert "skipped" not in done.err


def test_include_and_exclude_choose_files(convert, tmp_path):
    for name in ("eeg", "gsr", "ecg"):
        raw.table(tmp_path / f"in/P01/{name}.tsv")
    out, _ = convert("--include", "*g.tsv", "--include", "*r.tsv", "--exclude", "P01/ecg*")
    (record,) = read_manifest(out / "manifest.jsonl")
    assert sorted(record.streams) == ["eeg", "gsr"]


def test_root_gives_the_names_and_ids(convert, tmp_path):
    raw.sound(tmp_path / "in/a.wav")
    out, _ = convert("--root", tmp_path)
    (record,) = read_manifest(out / "manifest.jsonl")
    assert (record.id, record.source, record.session) == ("in/a", "in/a.wav", "in")


def test_skipped_row_is_kept_in_rejects_and_counted(convert, tmp_path):
    raw.table(tmp_path / "in/eeg.tsv")
    with (tmp_path / "in/eeg.tsv").open("a") as file:
        file.write("10\t40\t41\n")
    out, _ = convert("--on-bad-row", "skip")
    assert decode_dataset((out / "dataset.json").read_bytes()).totals.rejected_rows == 1
    assert "10\\t40\\t41" in (out / "rejects/eeg/eeg.tsv").read_text()


def test_unit_and_float32_reach_the_table(convert, tmp_path):
    raw.table(tmp_path / "in/eeg.tsv")
    out, _ = convert("--unit", "x=uV", "--float32")
    (record,) = read_manifest(out / "manifest.jsonl")
    field = pq.read_schema(out / record.streams["eeg"].table).field("x")
    assert field.metadata[b"unit"] == b"uV"


@pytest.mark.parametrize(
    ("options", "dtype", "shape"),
    [
        ((), "<f4", (800, 2)),
        (("--mono",), "<f4", (800,)),
        (("--channel", "1"), "<f4", (800,)),
        (("--audio-dtype", "int16"), "<i2", (800, 2)),
        (("--resample", "4000", "--mono"), "<f4", (400,)),
    ],
)
def test_sound_options_change_the_shard(convert, tmp_path, options, dtype, shape):
    raw.sound(tmp_path / "in/a.wav", n_channels=2)
    out, _ = convert(*options)
    shard = np.load(out / "audio/shard-00000.npy", mmap_mode="r")
    assert (shard.dtype.str, shard.shape) == (dtype, shape)


def test_judged_time_unit_is_said_on_stderr(convert, tmp_path):
    raw.table(tmp_path / "in/eeg.tsv")
    _, done = convert()
    assert "time column 'time': unit taken as s" in done.err
    assert "--time-unit" in done.err


def test_paths_come_from_stdin(mmprep, tmp_path, monkeypatch):
    import io

    raw.sound(tmp_path / "in/a.wav")
    raw.sound(tmp_path / "in/b.wav")
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{tmp_path}/in/b.wav\n\n"))
    mmprep("convert", "-", "-o", tmp_path / "out", *SERIAL)
    assert [record.id for record in read_manifest(tmp_path / "out/manifest.jsonl")] == ["b"]


def test_cut_video_says_how_many_frames_are_damaged(convert, tmp_path):
    path = raw.film(tmp_path / "in/a.mp4", range(0, 2000, 40), index_first=True)
    path.write_bytes(path.read_bytes()[:-1])
    out, done = convert()
    (record,) = read_manifest(out / "manifest.jsonl")
    assert record.streams["video"].rows == (0, 49)
    assert "warning: a.mp4: 50 frames were found, 1 of them damaged, 50 declared" in done.err


def test_sound_of_another_stream_than_audio_is_named_where_it_is_wanted(mmprep, tmp_path):
    raw.sound(tmp_path / "in/P01/webcam.wav")
    layout = ("--layout", "{subject}/{stream}.{ext}")
    mmprep("convert", tmp_path / "in", "-o", tmp_path / "out", *layout, *SERIAL)
    done = mmprep("mfcc", tmp_path / "out", "-o", tmp_path / "mfcc", *SERIAL)
    assert "no record has a stream `audio`" in done.err
    assert "there is sound in webcam;" in done.err


def test_clock_log_of_no_recording_is_said(mmprep, tmp_path):
    raw.table(tmp_path / "in/P01/headset.tsv")
    (tmp_path / "in/P01/eeg.clock.csv").write_text("device,reference\n0,100\n10,110\n")
    done = mmprep("convert", tmp_path / "in", "-o", tmp_path / "out", *SERIAL)
    assert "1 clock logs lie beside no recording of their name" in done.err
    assert "P01/eeg.clock.csv" in done.err


def test_clock_log_of_another_name_fails_with_the_name_it_should_have(mmprep, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/sync.csv").write_text("device,reference\n0,100\n10,110\n")
    done = mmprep("convert", tmp_path / "in", "-o", tmp_path / "out", *SERIAL)
    assert done.code == 3
    assert "hint: a clock log of x.csv is called x.clock.csv" in done.err
