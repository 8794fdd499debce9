"""Trials of collected recordings, of video and of sound."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction

import numpy as np
import pytest
import soundfile

from mmprep import (
    UsageError,
    open_dataset,
    run_align,
    run_convert,
    run_export,
    run_mfcc,
    run_split,
)
from mmprep.manifest.codec import read_manifest
from mmprep.steps.sessions import windowcut
from tests import raw
from tests.conftest import ROOT

SERIAL = {"engine": "serial"}
FOLDER = ROOT / "sample_data/amigos/P01"
VIDEO = {
    "video": str(FOLDER / "V01_video.mp4"),
    "clock": (f"video={FOLDER}/V01_video.ptp.tsv",),
    "frames": "16x12",
    "gray": True,
}


@pytest.fixture
def aligned(tmp_path):
    def run(out="out", **options):
        run_align(output=tmp_path / out, **SERIAL, **options)
        return list(read_manifest(tmp_path / out / "manifest.jsonl"))

    return run


def trials_of(folder, session="session"):
    return json.loads((folder / f"sync/{session}.json").read_text())["trials"]


# Collected files


def test_trials_of_bids_events_begin_at_their_onsets(aligned, shared, tmp_path):
    source = shared("bids/sub-01_task-pullstand_events.tsv")
    events = tmp_path / source.name
    shutil.copy(source, events)
    rows = "".join(f"{1_600_000_000 + k / 16}\t{k}\n" for k in range(16 * 620))
    (tmp_path / "sub-01_task-pullstand_eeg.tsv").write_text("time\tx\n" + rows)
    records = aligned(
        stream=(f"eeg={tmp_path}/sub-01_task-pullstand_eeg.tsv",),
        trials=str(events),
        label="value",
    )
    lines = [line.split("\t") for line in events.read_text().splitlines()[1:]]
    assert len(records) == len(lines) == 150
    onsets = [float(cells[0]) for cells in lines]
    np.testing.assert_allclose([record.begin_s for record in records], onsets, atol=1e-6)
    assert [record.label for record in records] == [cells[-1] for cells in lines]
    assert trials_of(tmp_path / "out")["used"] == 150


def test_repeated_rows_of_bids_events_are_counted(aligned, shared, tmp_path):
    events = shared("bids/sub-09_task-theoryofmindwithmanualresponse_run-01_events.tsv")
    rows = "".join(f"{k / 4}\t{k}\n" for k in range(4 * 400))
    (tmp_path / "x.tsv").write_text("time\tx\n" + rows)
    aligned(stream=(f"x={tmp_path}/x.tsv",), trials=str(events))
    told = trials_of(tmp_path / "out")
    lines = events.read_text().splitlines()[1:]
    assert told["rows"] == len(lines)
    assert told["duplicate"] == len(lines) - len(set(lines)) > 0
    left_out = ("outside", "short", "zero_length", "no_end", "dropped")
    assert told["trials"] == told["used"] + sum(told[name] for name in left_out)


@pytest.mark.parametrize("way", ["raw", "data set"])
def test_markers_of_xdf_move_with_the_clocks_of_their_streams(aligned, shared, tmp_path, way):
    path = shared("xdf/three_motion_seven.xdf")
    pattern = {"trial_start": r"(?P<motion>\d)", "trial_end": r"(?P<motion>\d)"}
    if way == "raw":
        given = {"eeg": f"{path}#obci_eeg1", "trials": f"{path}#MyMarkerStream"}
        records = aligned(**given, **pattern, window="trial")
    else:
        run_convert(path, output=tmp_path / "c", **SERIAL)
        run_align(
            f"{tmp_path}/c#obci_eeg1",
            output=tmp_path / "out",
            trials=f"{tmp_path}/c#MyMarkerStream",
            window="trial",
            **pattern,
            **SERIAL,
        )
        records = list(read_manifest(tmp_path / "out/manifest.jsonl"))
    assert [record.extra["motion"] for record in records] == list("0123" * 17)
    import pyxdf

    streams, _ = pyxdf.load_xdf(str(path), dejitter_timestamps=False)
    by_name = {one["info"]["name"][0]: one for one in streams}
    marks = np.array(by_name["MyMarkerStream"]["time_stamps"])
    lengths = [record.duration_s for record in records]
    np.testing.assert_allclose(lengths, (marks[1::2] - marks[::2]), atol=1e-3)
    steps = np.diff([record.begin_s for record in records])
    np.testing.assert_allclose(steps, np.diff(marks[::2]), atol=1e-3)


def test_annotations_of_edf_are_trials(aligned, shared, tmp_path):
    path = shared("edf/test.edf")
    records = aligned(eeg=str(path), trials=str(path), window="trial", label="description")
    found = [(round(r.begin_s, 6), round(r.duration_s, 6), r.label) for r in records]
    assert found == [(0.1344, 0.256, "type A"), (0.3904, 1, "type A"), (2.5, 2.5, "type A")]
    assert trials_of(tmp_path / "out")["zero_length"] == 2


def test_markers_of_brainvision_begin_and_end_trials(aligned, shared, tmp_path):
    path = shared("brainvision/test.vhdr")
    records = aligned(
        eeg=str(path), trials=str(path), trial_start="S253", trial_end="S255", window="trial"
    )
    # S253 at the samples 487 and 4936, S255 at 497 and 4946, 1000 Hz; samples count from 1.
    assert [(r.begin_s, r.duration_s) for r in records] == [(0.486, 0.01), (4.935, 0.01)]
    told = trials_of(tmp_path / "out")
    assert (told["rows"], told["trials"], told["ends"], told["no_start"]) == (14, 2, 5, 3)


# Several recordings


def test_times_from_zero_need_to_know_the_recording_they_belong_to(aligned, tmp_path):
    (tmp_path / "trials.tsv").write_text("onset\tduration\n1\t2\n")
    named = {name: str(FOLDER / f"V01_{name}.tsv") for name in ("eeg", "gsr")}
    named["rates"] = "eeg=128,gsr=4"
    with pytest.raises(UsageError, match="from the first sample of which"):
        aligned(trials=f"{tmp_path}/trials.tsv", **named)
    for name in ("eeg", "gsr"):
        first, _ = aligned(name, trials=f"{tmp_path}/trials.tsv,of={name}", **named)
        streams = json.loads((tmp_path / name / "sync/session.json").read_text())["streams"]
        begins_s = {one["name"]: one["coverage_s"][0] for one in streams}
        assert begins_s["eeg"] != begins_s["gsr"]
        assert first.begin_s == pytest.approx(begins_s[name] + 1, abs=0.002)


def test_recording_that_is_not_there_is_refused(aligned, tmp_path):
    (tmp_path / "trials.tsv").write_text("onset\tduration\n1\t2\n")
    with pytest.raises(UsageError, match="there is no stream 'ecg'"):
        aligned(eeg=str(FOLDER / "V01_eeg.tsv"), trials=f"{tmp_path}/trials.tsv,of=ecg")


# Video


@pytest.mark.parametrize("min_valid", [0.0, 0.5])
def test_pictures_of_overlapping_trials_are_those_of_the_recording(
    aligned, tmp_path, monkeypatch, min_valid
):
    monkeypatch.setattr(windowcut, "BLOCK_BYTES", 20 * 16 * 12)  # 20 pictures a block
    (tmp_path / "trials.tsv").write_text("onset\tduration\n1\t4\n2\t4\n2.5\t1\n9\t1\n")
    aligned("whole", window="record", **VIDEO)
    picture_s = 1 / 30
    options = {"trials": f"{tmp_path}/trials.tsv", "window": "trial", "baseline": "1"}
    records = aligned(min_valid=min_valid, **options, **VIDEO)
    every = open_dataset(tmp_path / "whole", fill="nan")[0]["video"]
    assert len(records) == 8
    for row, record in zip(open_dataset(tmp_path / "out", fill="nan"), records, strict=True):
        begin = round(record.begin_s / picture_s)
        assert row["video.valid"].all()
        same = row["video"] == every[begin : begin + len(row["video"])]
        assert same.all(axis=(1, 2, 3)).mean() > 0.95  # the grids are parts of a frame apart
    facts = json.loads((tmp_path / "out/sync/session.json").read_text())["streams"][0]["video"]
    assert facts["n_undecodable"] == 0


def test_frame_indices_of_a_trial_are_rows(aligned, tmp_path):
    (tmp_path / "trials.tsv").write_text("onset\tduration\n1\t4\n9\t0.5\n")
    named = {name: value for name, value in VIDEO.items() if name in {"video", "clock"}}
    records = aligned(trials=f"{tmp_path}/trials.tsv", window="trial", **named)
    assert [record.streams["video"].rows for record in records] == [(0, 120), (120, 135)]
    first = open_dataset(tmp_path / "out")[0]["video"]
    assert first.dtype == np.int32
    assert first[0] == 30


# Sound


def test_sound_of_trials_is_rows_and_exported_as_files(aligned, tmp_path):
    raw.sound(tmp_path / "a.wav", n_samples=24_000)
    (tmp_path / "trials.tsv").write_text("onset\tduration\ttext\n0.5\t0.75\tone\n2\t0.125\ttwo\n")
    records = aligned(
        stream=(f"audio={tmp_path}/a.wav",), trials=f"{tmp_path}/trials.tsv", window="trial"
    )
    assert [record.streams["audio"].rows for record in records] == [(0, 6000), (6000, 7000)]
    run_export(tmp_path / "out", output=tmp_path / "nemo", audio="wav", **SERIAL)
    text = (tmp_path / "nemo/manifest.json").read_text().splitlines()
    lines = [json.loads(line) for line in text]
    assert [line["duration"] for line in lines] == [0.75, 0.125]
    assert [line["text"] for line in lines] == ["one", "two"]
    sound, _ = soundfile.read(tmp_path / "a.wav", dtype="float32")
    for line, begin in zip(lines, (4000, 16_000), strict=True):
        found, rate_hz = soundfile.read(tmp_path / "nemo" / line["audio_filepath"], dtype="float32")
        assert rate_hz == 8000
        np.testing.assert_allclose(found, sound[begin : begin + found.size], atol=1e-4)
        assert found.size == line["duration"] * 8000


def test_each_utterance_of_a_data_set_is_one_record(sample, tmp_path):
    run_align(sample / "cmlr/converted", output=tmp_path / "out", window="record", **SERIAL)
    before = {r.id: r for r in read_manifest(sample / "cmlr/converted/manifest.jsonl")}
    records = list(read_manifest(tmp_path / "out/manifest.jsonl"))
    assert {record.session for record in records} == set(before)
    for record in records:
        assert set(record.streams) == {"audio", "video"}
        assert record.streams["audio"].n_rows == pytest.approx(16_000 * record.duration_s, abs=1)


def test_utterance_keeps_its_text_and_no_window_does(sample, tmp_path):
    source = sample / "cmlr/converted"
    run_align(source, output=tmp_path / "out", window="record", **SERIAL)
    run_align(source, output=tmp_path / "cut", window="1", **SERIAL)
    texts = {record.id: record.text for record in read_manifest(source / "manifest.jsonl")}
    for record in read_manifest(tmp_path / "out/manifest.jsonl"):
        assert record.text == texts[record.session]
        assert record.text
    assert {record.text for record in read_manifest(tmp_path / "cut/manifest.jsonl")} == {None}


def test_words_of_an_utterance_count_from_its_record(tmp_path):
    folder = tmp_path / "lrs/main/s"
    raw.talkie(folder / "00001.mkv", range(0, 3000, 40), (), sound_from_s=Fraction(1, 2), sound_s=2)
    (folder / "00001.mkv").rename(folder / "00001.mp4")
    words = "WORD START END ASDSCORE\nONE 0.75 1.0 9\nTWO 1.0 1.5 9\n"
    (folder / "00001.txt").write_text("Text:  ONE TWO\nConf:  4\n\n" + words)
    run_convert(tmp_path / "lrs", output=tmp_path / "c", layout="lrs", **SERIAL)
    run_align(tmp_path / "c", output=tmp_path / "out", window="record", **SERIAL)
    (record,) = read_manifest(tmp_path / "out/manifest.jsonl")
    assert record.text == "ONE TWO"
    assert record.duration_s == pytest.approx(2, abs=0.05)  # all have begun at 0.5 s
    assert record.words == (("ONE", 0.25, 0.5), ("TWO", 0.5, 1.0))


def test_records_of_many_sessions_are_the_same_for_any_number_of_workers(sample, tmp_path):
    source = sample / "cmlr/converted"
    run_align(source, output=tmp_path / "one", window="record", shard_size="64KiB", **SERIAL)
    run_align(source, output=tmp_path / "two", window="record", shard_size="64KiB", jobs=2)
    one, two = ((tmp_path / name / "dataset.json").read_bytes() for name in ("one", "two"))
    assert one == two
    rows = open_dataset(tmp_path / "two")
    for row, record in zip(rows, read_manifest(tmp_path / "two/manifest.jsonl"), strict=True):
        assert row["id"] == record.id
        assert row["audio.length"] == record.streams["audio"].n_rows


def test_features_are_those_of_whole_trials_and_never_of_windows(aligned, tmp_path):
    raw.sound(tmp_path / "a.wav", n_samples=24_000)
    (tmp_path / "trials.tsv").write_text("onset\tduration\n0.5\t0.75\n2\t0.5\n")
    given = {"stream": (f"audio={tmp_path}/a.wav",), "trials": f"{tmp_path}/trials.tsv"}
    aligned("whole", window="trial", **given)
    run_mfcc(tmp_path / "whole", output=tmp_path / "features", **SERIAL)
    records = list(read_manifest(tmp_path / "features/manifest.jsonl"))
    assert [record.streams["mfcc"].n_rows for record in records] == [76, 51]
    aligned("cut", window="0.25", **given)
    with pytest.raises(UsageError, match="its sound is cut into windows"):
        run_mfcc(tmp_path / "cut", output=tmp_path / "none", **SERIAL)


def test_spread_of_whole_trials_is_that_of_each_channel(aligned, tmp_path):
    rows = "".join(f"{k / 16}\t{k}\t{-2 * k}\n" for k in range(16 * 20))
    (tmp_path / "x.tsv").write_text("time\ta\tb\n" + rows)
    (tmp_path / "trials.tsv").write_text("onset\tduration\n0\t4\n4\t4\n8\t4\n")
    aligned(
        stream=(f"x={tmp_path}/x.tsv",),
        trials=f"{tmp_path}/trials.tsv",
        window="trial",
        method=("x=nearest",),
    )
    ratios = "train=1"
    run_split(tmp_path / "out", output=tmp_path / "split", by="trial", ratios=ratios, **SERIAL)
    extra = json.loads((tmp_path / "split/dataset.json").read_text())
    assert extra["statistics"]["x"]["mean"] == pytest.approx([95.5, -191])
