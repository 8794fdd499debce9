"""`manifest import`: foreign manifests become data sets whose rows are those of the sound."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
import soundfile

import mmprep as mm
from mmprep.cli.api import run_step
from mmprep.errors import DataError, MmprepError
from tests.written import records

RATE = 8000


@pytest.fixture
def corpus(tmp_path):
    """Two recordings of two seconds, sample k of which is k / 32768 and less."""
    folder = tmp_path / "raw/wav"
    folder.mkdir(parents=True)
    for name, sign in (("a", 1), ("b", -1)):
        samples = (sign * np.arange(2 * RATE)).astype(np.int16)
        soundfile.write(folder / f"{name}.wav", samples, RATE)
    return tmp_path / "raw"


def run(kind, *paths, out, **options):
    given = {"imported": (kind, *map(str, paths)), "output": out, "engine": "serial", **options}
    return run_step("convert", given)


def by_id(folder):
    return {one["id"]: one for one in records(folder)}


def sound(out, own_id):
    (found,) = [one for one in mm.open_dataset(out) if one["id"] == own_id]
    return np.rint(found["audio"] * 32768).astype(int)


def jsonl(path, *rows):
    data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def test_stretches_of_nemo_are_rows_of_their_recording(tmp_path, corpus, mmprep):
    manifest = jsonl(
        corpus / "train.json",
        {"audio_filepath": "wav/a.wav", "duration": 0.5, "text": "一", "speaker": "s1", "mood": 3},
        {"audio_filepath": "wav/a.wav", "duration": 1.0, "offset": 1.0, "label": "calm"},
        {"audio_filepath": "wav/b.wav", "duration": 2.0, "id": "whole/b", "text": ""},
    )
    run("nemo", manifest, out=tmp_path / "out")
    found = by_id(tmp_path / "out")
    assert list(found) == ["a", "a-2", "whole/b"]
    first = found["a"]
    assert (first["text"], first["subject"], first["labels"]) == ("一", "s1", {"mood": 3})
    assert (found["a-2"]["begin_s"], found["a-2"]["label"]) == (1.0, "calm")
    assert sound(tmp_path / "out", "a").tolist() == list(range(4000))
    assert sound(tmp_path / "out", "a-2").tolist() == list(range(8000, 16000))
    assert sound(tmp_path / "out", "whole/b")[100] == -100
    head = json.loads((tmp_path / "out/dataset.json").read_text())
    assert sum(s["rows"] for s in head["modalities"]["audio"]["shards"]) == 4 * RATE
    assert mmprep("manifest", "validate", "--checksums", tmp_path / "out").code == 0


def test_what_was_exported_to_nemo_comes_back(tmp_path, sample, mmprep):
    done = mmprep(
        *("manifest", "export", sample / "cmlr/converted", "--to", "nemo", "--audio", "wav"),
        *("-o", tmp_path / "nemo"),
    )
    assert done.code == 0
    manifests = sorted((tmp_path / "nemo").glob("*manifest.json"))
    done = mmprep("manifest", "import", *manifests, "--from", "nemo", "-o", tmp_path / "back")
    assert done.code == 0, done.err
    before, after = by_id(sample / "cmlr/converted"), by_id(tmp_path / "back")
    assert before.keys() == after.keys()
    for name, one in before.items():
        assert (one["text"], one["subject"]) == (after[name]["text"], after[name]["subject"])
    original = {one["id"]: one["audio"] for one in mm.open_dataset(sample / "cmlr/converted")}
    for one in mm.open_dataset(tmp_path / "back"):
        np.testing.assert_array_equal(one["audio"], original[one["id"]])


def test_kaldi_directory_with_segments(tmp_path, corpus):
    (corpus / "wav.scp").write_text("reca wav/a.wav\nrecb wav/b.wav\n")
    (corpus / "segments").write_text("s1-a reca 0.25 0.75\ns2-b recb 1.5 -1\n")
    (corpus / "text").write_text("s1-a good morning\ns2-b\n")
    (corpus / "utt2spk").write_text("s1-a s1\ns2-b s2\n")
    run("kaldi", corpus, out=tmp_path / "out")
    found = by_id(tmp_path / "out")
    assert (found["s1-a"]["text"], found["s1-a"]["subject"]) == ("good morning", "s1")
    assert (found["s2-b"]["text"], found["s2-b"]["duration_s"]) == (None, 0.5)
    assert sound(tmp_path / "out", "s1-a").tolist() == list(range(2000, 6000))


def test_cuts_of_lhotse_with_words(tmp_path, corpus):
    recording = {
        "id": "a",
        "sources": [{"type": "file", "channels": [0], "source": "wav/a.wav"}],
        "sampling_rate": RATE,
        "num_samples": 2 * RATE,
        "duration": 2.0,
    }
    spoken = {
        **{"id": "s", "recording_id": "a", "start": 0.0, "duration": 0.5, "channel": 0},
        **{"text": "hi", "speaker": "s1", "custom": {"label": "calm"}},
        "alignment": {"word": [["hi", 0.1, 0.2, 0.9]]},
    }
    cut = {
        **{"id": "cut-1", "start": 1.0, "duration": 0.5, "channel": 0},
        **{"supervisions": [spoken], "recording": recording, "type": "MonoCut"},
    }
    run("lhotse", jsonl(corpus / "cuts.jsonl.gz", cut), out=tmp_path / "cuts")
    (one,) = by_id(tmp_path / "cuts").values()
    assert (one["id"], one["text"], one["label"], one["begin_s"]) == ("cut-1", "hi", "calm", 1.0)
    assert one["words"] == [["hi", 0.1, pytest.approx(0.3)]]
    assert sound(tmp_path / "cuts", "cut-1").tolist() == list(range(8000, 12000))
    spoken |= {"start": 1.0, "alignment": {"word": [["hi", 1.1, 0.2]]}}
    lists = [jsonl(corpus / "r.jsonl", recording), jsonl(corpus / "s.jsonl", spoken)]
    run("lhotse", *lists, out=tmp_path / "lists")
    (again,) = by_id(tmp_path / "lists").values()
    assert again["words"] == [["hi", pytest.approx(0.1), pytest.approx(0.3)]]
    assert again["begin_s"] == 1.0


@pytest.mark.parametrize(
    ("kind", "row", "message"),
    [
        ("nemo", {"audio_filepath": "x.wav", "duration": 1}, "x.wav: does not exist"),
        ("nemo", {"duration": 1}, "m.json:1: no audio_filepath"),
        ("nemo", [1], "m.json:1: no JSON object"),
        (
            "nemo",
            {"audio_filepath": "wav/a.wav", "duration": 1, "offset": 5},
            "m.json:1: 'a' begins at 5.0 s of 2.000 s",
        ),
        ("lhotse", {"width": 3}, "m.json:1: is no cut, recording or supervision"),
        (
            "lhotse",
            {"id": "a", "sources": [{"type": "command", "source": "rm -rf x"}]},
            "has the sources command, expected one file",
        ),
    ],
)
def test_manifest_that_is_none_is_refused_and_located(tmp_path, corpus, kind, row, message):
    with pytest.raises(MmprepError, match=message):
        run(kind, jsonl(corpus / "m.json", row), out=tmp_path / "out")


def test_command_of_kaldi_is_not_run(tmp_path, corpus):
    (corpus / "wav.scp").write_text("a cat wav/a.wav |\n")
    with pytest.raises(DataError, match="'a' is a command, which is not run"):
        run("kaldi", corpus, out=tmp_path / "out")


def test_stretch_that_ends_behind_its_sound_is_cut_and_said(tmp_path, corpus, mmprep):
    manifest = jsonl(corpus / "m.json", {"audio_filepath": "wav/a.wav", "duration": 3.0})
    ran = mmprep("manifest", "import", manifest, "--from", "nemo", "-o", tmp_path / "out")
    assert ran.code == 0
    assert "1 stretches end behind their sound and were cut there (a, ...)" in ran.err
    assert by_id(tmp_path / "out")["a"]["duration_s"] == 2.0
