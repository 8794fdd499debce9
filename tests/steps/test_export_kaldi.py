"""`manifest export --to kaldi`: data folders, opened by kaldiio."""

from __future__ import annotations

import json

import kaldiio
import numpy as np
import pytest
import soundfile

from mmprep import DataError, UsageError, open_dataset, run_convert, run_export, run_mfcc
from tests import datafolder, raw
from tests.kill import tree

SERIAL = {"engine": "serial"}


@pytest.fixture
def export(tmp_path, monkeypatch):
    """Export a data set, and go to the export's folder; give it."""

    def run(data, **options):
        run_export(data, to="kaldi", output=tmp_path / "out", **SERIAL, **options)
        monkeypatch.chdir(tmp_path / "out")
        return tmp_path / "out"

    return run


def _lists(folder):
    files = (path for path in folder.iterdir() if path.suffix != ".ark")
    return {path.name: path.read_bytes() for path in files}


def _column(folder, name):
    lines = (folder / name).read_text(encoding="utf-8").split("\n")[:-1]
    return dict(line.partition(" ")[::2] for line in lines)


def _records(data, split=None):
    return {record["id"]: record for record in open_dataset(data, split)}


@pytest.mark.parametrize("audio", ["reference", "wav", "flac"])
def test_folder_of_utterances_holds_sound_and_mfcc_of_the_shards(export, sample, audio):
    data = sample / "cmlr/features"
    folder = export(data, audio=audio) / "data"
    assert datafolder.faults(_lists(folder)) == []
    features = kaldiio.load_scp(str(folder / "feats.scp"))
    sounds, records = _column(folder, "wav.scp"), _records(data)
    ids = {name: json.loads(text) for name, text in _column(folder, "utt2id").items()}
    assert sorted(ids.values()) == sorted(records)
    for name, record_id in ids.items():
        record = records[record_id]
        np.testing.assert_array_equal(features[name], record["mfcc"])
        samples, _ = soundfile.read(sounds[name])
        np.testing.assert_allclose(samples, record["audio"], atol=1 / 32768)
        assert _column(folder, "text")[name] == record["text"]
        assert int(_column(folder, "utt2num_frames")[name]) == len(record["mfcc"])
        assert float(_column(folder, "utt2dur")[name]) == len(samples) / 16000


@pytest.mark.parametrize("audio", ["wav", "none"])
def test_folders_of_windows_hold_a_split_each(export, sample, audio):
    data = sample / "amigos/split"
    out = export(data, audio=audio)
    for split in ("train", "val", "test"):
        lists = _lists(out / split)
        assert datafolder.faults(lists) == []
        assert ("wav.scp" in lists) == (audio == "wav")
        assert "text" not in lists
        records, ids = _records(data, split), _column(out / split, "utt2id")
        labels = _column(out / split, "utt2label")
        found = kaldiio.load_scp(str(out / split / "feats.scp"))
        assert len(found) == len(ids) == len(records)
        for name, text in ids.items():
            record = records[json.loads(text)]
            np.testing.assert_array_equal(found[name], record["mfcc"])
            assert labels.get(name) == record["label"]


def test_sound_is_written_with_16_bits(export, sample):
    folder = export(sample / "cmlr/converted", audio="wav") / "data"
    path = next(iter(_column(folder, "wav.scp").values()))
    assert soundfile.info(path).subtype == "PCM_16"
    rate_hz, samples = kaldiio.load_mat(path)
    assert (rate_hz, samples.dtype) == (16000, np.int16)


def test_large_sets_have_several_archives(export, sample):
    out = export(sample / "amigos/split", audio="none", split=("train",))
    archives = sorted(path.name for path in (out / "train").glob("*.ark"))
    assert archives[:2] == ["feats-00000.ark", "feats-00001.ark"]
    data = (out / "train" / archives[1]).read_bytes()
    for place in _column(out / "train", "feats.scp").values():
        name, _, offset = place.rpartition(":")
        if name.endswith(archives[1]):
            assert data[int(offset) :][:5] == b"\0BFM "


@pytest.mark.parametrize("jobs", [1, 2])
def test_files_are_the_same_with_any_number_of_workers(export, sample, tmp_path, jobs):
    data = sample / "cmlr/features"
    export(data, audio="wav")
    run_export(data, to="kaldi", output=tmp_path / "other", audio="wav", jobs=jobs)
    assert tree(tmp_path / "other") == tree(tmp_path / "out")


def test_path_mode_changes_all_paths(export, sample):
    folder = export(sample / "cmlr/features", path_mode="absolute", audio="wav") / "data"
    for name in ("wav.scp", "feats.scp"):
        assert all(path.startswith(f"{folder.parent}/") for path in _column(folder, name).values())


def test_logmel_is_features_too(export, tmp_path):
    raw.sound(tmp_path / "in/a.wav")
    run_mfcc(tmp_path / "in", output=tmp_path / "made", features="logmel", n_mels=20, **SERIAL)
    folder = export(tmp_path / "made") / "data"
    assert kaldiio.load_scp(str(folder / "feats.scp"))["a"].shape == (11, 20)


def test_other_sound_than_wav_of_one_channel_is_a_warning(mmprep, tmp_path):
    raw.sound(tmp_path / "in/a.flac", n_channels=2)
    run_convert(tmp_path / "in", output=tmp_path / "made", **SERIAL)
    ran = mmprep("manifest", "export", tmp_path / "made", "--to", "kaldi", "-o", tmp_path / "out")
    assert "1 files are no wav" in ran.err
    assert "1 records have several channels" in ran.err


def test_records_without_features_are_left_out_with_a_word(mmprep, tmp_path):
    raw.sound(tmp_path / "in/a.wav")
    raw.sound(tmp_path / "in/b.wav", n_samples=100)
    run_mfcc(tmp_path / "in", output=tmp_path / "made", preset="kaldi", **SERIAL)
    ran = mmprep("manifest", "export", tmp_path / "made", "--to", "kaldi", "-o", tmp_path / "out")
    assert "1 records without sound or features are left out" in ran.err
    assert _column(tmp_path / "out/data", "utt2spk") == {"a": "a"}


def test_data_set_without_sound_and_features_is_refused(export, tmp_path):
    raw.table(tmp_path / "in/x.tsv")
    run_convert(tmp_path / "in", output=tmp_path / "made", **SERIAL)
    with pytest.raises(DataError, match="no record has all that Kaldi reads"):
        export(tmp_path / "made")


def test_source_that_is_a_film_is_refused(export, sample):
    with pytest.raises(UsageError, match="is no sound file"):
        export(sample / "amigos/aligned")
