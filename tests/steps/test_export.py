"""`manifest export`: what another trainer reads."""

from __future__ import annotations

import json
import tarfile

import numpy as np
import pytest
import soundfile

from mmprep import DataError, UsageError, run_convert, run_export, run_split
from mmprep.manifest.codec import read_manifest
from tests import raw
from tests.conftest import ROOT
from tests.kill import tree

SERIAL = {"engine": "serial"}
RAW = ROOT / "sample_data/cmlr"


def _lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def export(sample, tmp_path):
    """Export the utterances; give the lines of the manifest."""

    def run(name="cmlr/converted", manifest="manifest.json", **options):
        run_export(sample / name, output=tmp_path / "out", **SERIAL, **options)
        return _lines(tmp_path / "out" / manifest)

    return run


def test_paths_lead_from_the_manifest_to_the_sources(export, tmp_path):
    for line in export():
        path = tmp_path / "out" / line["audio_filepath"]
        assert path.resolve().is_relative_to(RAW)
        assert soundfile.info(path).duration == pytest.approx(line["duration"])
        assert line["sampling_rate"] == 16000


def test_lines_are_the_records(export, sample):
    records = read_manifest(sample / "cmlr/converted/manifest.jsonl")
    for line, record in zip(export(), records, strict=True):
        assert (line["id"], line["text"]) == (record.id, record.text)


@pytest.mark.parametrize(
    ("mode", "begin"), [("absolute", f"{RAW}/audio/"), ("prefix=s3://b/", "s3://b/audio/")]
)
def test_path_mode_changes_how_paths_are_written(export, mode, begin):
    assert all(line["audio_filepath"].startswith(begin) for line in export(path_mode=mode))


def test_media_root_says_where_the_sources_are_now(export, tmp_path):
    moved = tmp_path / "moved"
    moved.symlink_to(RAW)
    lines = export(media_root=str(moved), path_mode="absolute")
    assert lines[0]["audio_filepath"].startswith(f"{moved}/audio/")


def test_source_that_is_not_there_is_refused(export, tmp_path):
    with pytest.raises(DataError, match="is not there") as caught:
        export(media_root=str(tmp_path))
    assert "--media-root" in caught.value.hint


@pytest.mark.parametrize(("audio", "atol"), [("wav", 0), ("flac", 1 / 32768)])
def test_written_sound_is_that_of_the_shards(export, sample, tmp_path, audio, atol):
    shard = np.load(sample / "cmlr/converted/audio/shard-00000.npy", mmap_mode="r")
    records = {r.id: r for r in read_manifest(sample / "cmlr/converted/manifest.jsonl")}
    for line in export(audio=audio):
        samples, rate_hz = soundfile.read(tmp_path / "out" / line["audio_filepath"])
        assert rate_hz == line["sampling_rate"] == 16000
        rows = shard[slice(*records[line["id"]].streams["audio"].rows)]
        np.testing.assert_allclose(samples, rows, atol=atol)


def test_each_split_has_a_manifest_and_split_chooses(export, sample, tmp_path):
    ratios = "train=0.34,val=0.33,test=0.33"
    run_split(sample / "cmlr/converted", output=tmp_path / "split", ratios=ratios, **SERIAL)
    assert len(export(tmp_path / "split", "val_manifest.json", split=("val",))) == 5
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {".mmprep", "inputs.jsonl", "mmprep.json", "val_manifest.json"}


def test_second_export_is_up_to_date(sample, tmp_path):
    command = {"output": tmp_path / "out", "audio": "flac", **SERIAL}
    run_export(sample / "cmlr/converted", **command)
    before = tree(tmp_path / "out")
    assert run_export(sample / "cmlr/converted", **command).status == "up-to-date"
    assert tree(tmp_path / "out") == before


def test_unknown_split_names_the_known(export):
    with pytest.raises(UsageError, match="no split 'dev'") as caught:
        export(split=("dev",))
    assert caught.value.hint == "splits: none"


def test_window_of_a_video_is_no_source_of_sound(export):
    with pytest.raises(UsageError, match="is no sound file") as caught:
        export("amigos/aligned")
    assert "--audio flac" in caught.value.hint


def test_path_mode_that_is_none_is_a_usage_error(export):
    with pytest.raises(UsageError, match="none of relative, absolute"):
        export(path_mode="upwards")


def test_audio_none_is_refused_for_nemo(export):
    with pytest.raises(UsageError, match="without audio"):
        export(audio="none")


def test_id_that_a_file_name_cannot_hold_is_escaped(mmprep, tmp_path):
    raw.sound(tmp_path / "in/s 1/语.wav")
    mmprep("convert", tmp_path / "in", "-o", tmp_path / "made", "--engine", "serial")
    run_export(tmp_path / "made", output=tmp_path / "out", audio="wav", **SERIAL)
    (line,) = _lines(tmp_path / "out/manifest.json")
    assert line["audio_filepath"] == "audio/s=201=2F=E8=AF=AD.wav"
    assert (tmp_path / "out" / line["audio_filepath"]).exists()


def test_rate_of_a_source_is_its_own_though_the_shards_have_another(export, tmp_path):
    raw.sound(tmp_path / "in/a.wav", rate_hz=8000)
    run_convert(tmp_path / "in", output=tmp_path / "made", resample=16000, **SERIAL)
    run_split(tmp_path / "made", output=tmp_path / "split", by="id", ratios="all=1", **SERIAL)
    (line,) = export(tmp_path / "split", "all_manifest.json")
    assert line["sampling_rate"] == 8000


def test_item_that_failed_is_in_no_manifest(export, tmp_path):
    raw.sound(tmp_path / "in/a.wav")
    raw.sound(tmp_path / "in/b.wav")
    run_convert(tmp_path / "in", output=tmp_path / "made", **SERIAL)
    (tmp_path / "in/a.wav").write_bytes(b"no sound at all, though it is called so")
    with pytest.raises(DataError, match="1 of 2 items failed"):
        export(tmp_path / "made")
    assert [line["id"] for line in export(tmp_path / "made", max_failures="1")] == ["b"]


def test_shards_are_tars_with_their_manifests(export, sample, tmp_path):
    lines = export(audio="flac", shards=3, manifest="data/tarred_audio_manifest.json")
    assert [line["shard_id"] for line in lines] == [0] * 5 + [1] * 5 + [2] * 5
    records = {r.id: r for r in read_manifest(sample / "cmlr/converted/manifest.jsonl")}
    shard = np.load(sample / "cmlr/converted/audio/shard-00000.npy", mmap_mode="r")
    for k in range(3):
        own = _lines(tmp_path / f"out/data/manifest_{k}.json")
        assert own == lines[5 * k : 5 * k + 5]
        with tarfile.open(tmp_path / f"out/data/audio_{k}.tar") as tar:
            assert tar.getnames() == [line["audio_filepath"] for line in own]
            for line in own:
                samples, rate_hz = soundfile.read(tar.extractfile(line["audio_filepath"]))
                assert rate_hz == line["sampling_rate"]
                rows = shard[slice(*records[line["id"]].streams["audio"].rows)]
                np.testing.assert_allclose(samples, rows, atol=1 / 32768)


def test_shards_of_sources_are_refused(export):
    with pytest.raises(UsageError, match="tars hold the sound") as caught:
        export(shards=2)
    assert "--audio flac" in caught.value.hint


def test_shards_of_unequal_counts_are_a_warning(mmprep, sample, tmp_path):
    command = ("--to", "nemo", "--audio", "flac", "--shards", 2, "-o", tmp_path / "out")
    ran = mmprep("manifest", "export", sample / "cmlr/converted", *command)
    assert ran.code == 0
    assert "shards of data have 7 or 8 records" in ran.err


@pytest.mark.parametrize("jobs", [1, 2])
def test_tars_are_the_same_with_any_number_of_workers(export, sample, tmp_path, jobs):
    command = {"audio": "flac", "shards": 3}
    export(**command, manifest="data/manifest_0.json")
    run_export(sample / "cmlr/converted", output=tmp_path / "other", jobs=jobs, **command)
    assert tree(tmp_path / "other") == tree(tmp_path / "out")
