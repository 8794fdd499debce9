"""`mmprep mfcc` as it is called."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
import soundfile

from mmprep.manifest.codec import decode_dataset, decode_record, read_manifest
from mmprep.mfcc import Extractor, preset
from tests import raw

SERIAL = ("--engine", "serial")


@pytest.fixture
def speech(tmp_path):
    for name in ("a", "b"):
        raw.sound(tmp_path / f"in/{name}.wav", n_samples=4000)
    return tmp_path / "in"


def test_features_of_a_folder(mmprep, tmp_path, speech):
    done = mmprep("mfcc", speech, "-o", tmp_path / "out", *SERIAL)
    assert (done.code, done.out) == (0, f"{tmp_path}/out/dataset.json\n")
    assert np.load(tmp_path / "out/mfcc/shard-00000.npy").shape == (102, 13)
    assert [r.id for r in read_manifest(tmp_path / "out/manifest.jsonl")] == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "name", "shape"),
    [
        (("--n-mfcc", "20"), "mfcc", (102, 20)),
        (("--delta", "2"), "mfcc", (102, 39)),
        (("--features", "logmel", "--n-mels", "40"), "logmel", (102, 40)),
        (("--hop-ms", "20"), "mfcc", (52, 13)),
        (("--no-center", "--n-fft", "200"), "mfcc", (96, 13)),
        (("--pad-mode", "linear_ramp", "--mel-norm", "inf"), "mfcc", (102, 13)),
        (("--preset", "kaldi"), "mfcc", (96, 13)),
        (("--preset", "kaldi", "--no-snip-edges"), "mfcc", (100, 13)),
    ],
)
def test_recipe_options_change_the_features(mmprep, speech, options, name, shape):
    out = speech.parent / "out"
    done = mmprep("mfcc", speech, "-o", out, *options, *SERIAL)
    assert done.code == 0, done.err
    assert np.load(out / f"{name}/shard-00000.npy").shape == shape


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        (("--top-db", "none"), {"top_db": None}),
        (("--top-db", "30"), {"top_db": 30.0}),
        (("--top-db", "0"), {"top_db": 0.0}),
        (("--mel-norm", "2"), {"mel_norm": 2.0}),
        (("--mel-scale", "htk", "--dct-norm", "none"), {"mel_scale": "htk", "dct_norm": "none"}),
    ],
)
def test_recipe_options_are_those_of_the_recipe(mmprep, speech, options, changes):
    out = speech.parent / "out"
    assert mmprep("mfcc", speech, "-o", out, *options, *SERIAL).code == 0
    samples, rate_hz = soundfile.read(speech / "a.wav", dtype="float32")
    wanted = Extractor(preset("librosa", **changes), rate_hz).features(samples)
    np.testing.assert_array_equal(np.load(out / "mfcc/shard-00000.npy")[: len(wanted)], wanted)


@pytest.mark.parametrize("options", [("--mel-norm", "wide"), ("--top-db", "-1")])
def test_recipe_options_without_sense_are_refused(mmprep, speech, options):
    done = mmprep("mfcc", speech, "-o", speech.parent / "out", *options, *SERIAL)
    assert (done.code, options[0] in done.err) == (2, True)


def test_progress_tells_hours_of_sound(mmprep, speech):
    done = mmprep("mfcc", speech, "-o", speech.parent / "out", "-v", *SERIAL)
    assert re.search(r"mfcc: 1 of 1, 0\.00 h \(\d+ x real time\), \d+\.\d MB/s\n", done.err)


def test_all_parameters_stand_in_the_record(mmprep, tmp_path, speech):
    mmprep("mfcc", speech, "-o", tmp_path / "out", "--fmax", "3000", *SERIAL)
    recipe = decode_dataset((tmp_path / "out/dataset.json").read_bytes()).options["recipe"]
    assert recipe["fmax"] == 3000
    assert recipe["n_mfcc"] == 13
    assert None not in {recipe["window"], recipe["n_mels"]}


def test_rate_resamples_mixed_rates(mmprep, tmp_path, speech):
    raw.sound(speech / "c.wav", n_samples=8000, rate_hz=16000)
    done = mmprep("mfcc", speech, "-o", tmp_path / "out", "--rate", "8000", *SERIAL)
    assert done.code == 0, done.err
    rows = [r.streams["mfcc"].n_rows for r in read_manifest(tmp_path / "out/manifest.jsonl")]
    assert rows == [51, 51, 51]


def test_data_set_is_carried_over(mmprep, tmp_path, speech):
    mmprep("convert", speech, "-o", tmp_path / "converted", *SERIAL)
    done = mmprep("mfcc", tmp_path / "converted/dataset.json", "-o", tmp_path / "out", *SERIAL)
    assert done.code == 0, done.err
    shard = "audio/shard-00000.npy"
    assert (tmp_path / "out" / shard).samefile(tmp_path / "converted" / shard)


def test_json_and_dry_run(mmprep, tmp_path, speech):
    done = mmprep("mfcc", speech, "-o", tmp_path / "out", "-n", "--json", *SERIAL)
    assert done.json["status"] == "planned"
    assert done.json["totals"]["items"] == 2
    assert not (tmp_path / "out").exists()


def test_depfile_names_the_data_set(mmprep, tmp_path, speech, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mmprep("convert", "in", "-o", "converted", *SERIAL)
    mmprep("mfcc", "converted", "-o", "out", "--depfile", "out.d", *SERIAL)
    rule = "out/dataset.json: converted/dataset.json\nconverted/dataset.json:\n"
    assert (tmp_path / "out.d").read_text() == rule


def test_manifest_lines_on_standard_input_choose_records(mmprep, sample, tmp_path, monkeypatch):
    lines = (sample / "cmlr/converted/manifest.jsonl").read_text().splitlines(keepends=True)
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(lines[2:5])))
    root = ("--root", sample / "cmlr/converted")
    done = mmprep("mfcc", "-", *root, "-o", tmp_path / "out", "--engine", "serial")
    assert done.code == 0, done.err
    found = list(read_manifest(tmp_path / "out/manifest.jsonl"))
    wanted = [decode_record(line.encode()) for line in lines[2:5]]
    assert [(r.id, r.subject, r.text) for r in found] == [(r.id, r.subject, r.text) for r in wanted]
