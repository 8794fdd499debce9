"""`mfcc` on sound files and data sets."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import soundfile

from mmprep import UsageError, open_dataset, run_convert, run_mfcc
from mmprep.cli.api import run_step
from mmprep.manifest.codec import decode_dataset, read_manifest
from mmprep.media import AudioReader
from mmprep.mfcc import Extractor, blocks, preset
from mmprep.steps.base import FailedItemsError, Silent
from mmprep.steps.check import check
from mmprep.steps.features import extract, scratch
from tests import raw
from tests.conftest import ROOT
from tests.kill import tree

SERIAL = {"engine": "serial"}
DEFAULTS = dict(AudioReader.__init__.__kwdefaults__)


def test_features_are_those_of_the_extractor_on_the_file(sample):
    shard = np.load(sample / "cmlr/features/mfcc/shard-00000.npy", mmap_mode="r")
    extractor = Extractor(preset("librosa"), 16000)
    for record in list(read_manifest(sample / "cmlr/features/manifest.jsonl"))[::5]:
        samples, _ = soundfile.read(ROOT / "sample_data/cmlr" / record.source, dtype="float32")
        rows = shard[slice(*record.streams["mfcc"].rows)]
        np.testing.assert_array_equal(rows, extractor.features(samples))


def test_files_and_data_set_give_the_same_features(sample, tmp_path):
    run_mfcc(ROOT / "sample_data/cmlr/audio", output=tmp_path / "out", **SERIAL)
    found = np.load(tmp_path / "out/mfcc/shard-00000.npy")
    np.testing.assert_array_equal(found, np.load(sample / "cmlr/features/mfcc/shard-00000.npy"))


def test_data_set_is_carried_over_whole_as_links(sample):
    made, given = sample / "cmlr/features", sample / "cmlr/converted"
    shard = "audio/shard-00000.npy"
    assert (made / shard).samefile(given / shard)
    records = read_manifest(made / "manifest.jsonl"), read_manifest(given / "manifest.jsonl")
    for new, old in zip(*records, strict=True):
        assert (new.id, new.text, new.extra) == (old.id, old.text, old.extra)
        assert new.streams["audio"] == old.streams["audio"]
    assert check(str(made), checksums=True).findings == ()


def test_data_set_that_has_features_already_is_refused(sample, tmp_path):
    with pytest.raises(UsageError, match="has a modality 'mfcc' already"):
        run_mfcc(sample / "cmlr/features", output=tmp_path / "out", **SERIAL)


def test_other_features_beside_the_first_are_taken(sample, tmp_path):
    run_mfcc(sample / "cmlr/features", output=tmp_path / "out", features="logmel", **SERIAL)
    head = decode_dataset((tmp_path / "out/dataset.json").read_bytes())
    assert sorted(head.modalities) == ["audio", "logmel", "mfcc"]


def test_mixed_rates_name_one_file_of_each(tmp_path):
    raw.sound(tmp_path / "in/a.wav", rate_hz=8000)
    raw.sound(tmp_path / "in/b.wav", rate_hz=16000)
    with pytest.raises(UsageError, match=r"8000 Hz \(a.wav\), 16000 Hz \(b.wav\)") as caught:
        run_mfcc(tmp_path / "in", output=tmp_path / "out", **SERIAL)
    assert caught.value.hint == "resample all to one: --rate 8000"


def test_sound_without_samples_fails_alone(tmp_path):
    raw.sound(tmp_path / "in/a.wav")
    raw.sound(tmp_path / "in/b.wav", n_samples=0)
    with pytest.raises(FailedItemsError, match="1 of 2") as caught:
        run_mfcc(tmp_path / "in", output=tmp_path / "out", **SERIAL)
    assert caught.value.failures[0].id == "b"


def test_fail_fast_tries_nothing_behind_the_first_that_fails(tmp_path):
    for name in "abc":
        raw.sound(tmp_path / f"in/{name}.wav", n_samples=800 * (name == "c"))
    with pytest.raises(FailedItemsError, match="1 of 3"):
        run_mfcc(tmp_path / "in", output=tmp_path / "out", keep_going=False, **SERIAL)


@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_channels_are_averaged_or_chosen(tmp_path, dtype):
    raw.sound(tmp_path / "in/a.wav", n_channels=2)
    samples, _ = soundfile.read(tmp_path / "in/a.wav", dtype="float32")
    extractor = Extractor(preset("librosa"), 8000)
    run_convert(tmp_path / "in", output=tmp_path / "made", audio_dtype=dtype, **SERIAL)
    wanted = {None: samples.mean(axis=1), 1: samples[:, 1]}
    for source in (tmp_path / "in", tmp_path / "made"):
        for channel, one in wanted.items():
            run_mfcc(source, output=tmp_path / "out", channel=channel, **SERIAL)
            found = np.load(tmp_path / "out/mfcc/shard-00000.npy")
            np.testing.assert_allclose(found, extractor.features(one), atol=1e-3)


def test_channel_that_is_not_there_is_a_usage_error(tmp_path):
    raw.sound(tmp_path / "in/a.wav")
    with pytest.raises(UsageError, match="no channel 3"):
        run_mfcc(tmp_path / "in", output=tmp_path / "out", channel=3, **SERIAL)


def test_rate_of_the_features_is_that_of_the_hop(tmp_path):
    raw.sound(tmp_path / "in/a.wav", n_samples=8000)
    run_mfcc(tmp_path / "in", output=tmp_path / "out", hop_ms=20.0, **SERIAL)
    record = next(read_manifest(tmp_path / "out/manifest.jsonl"))
    assert (record.streams["mfcc"].rate_hz, record.duration_s) == (50.0, 1.0)
    head = decode_dataset((tmp_path / "out/dataset.json").read_bytes())
    assert head.modalities["mfcc"].rate_hz == "50/1"


def test_uncentred_frames_begin_half_a_window_late(tmp_path):
    raw.sound(tmp_path / "in/a.wav", n_samples=8000)
    for center, offset_s in ((True, 0.0), (False, 0.016)):
        run_mfcc(tmp_path / "in", output=tmp_path / "out", center=center, **SERIAL)
        record = next(read_manifest(tmp_path / "out/manifest.jsonl"))
        assert record.streams["mfcc"].offset_s == pytest.approx(offset_s)


@pytest.fixture
def speakers(tmp_path):
    """Three utterances of one speaker, two of another, each louder than the one before."""
    for k, name in enumerate(("a/1", "a/2", "a/3", "b/1", "b/2")):
        path = raw.sound(tmp_path / f"in/{name}.wav", n_samples=4000 + 700 * k)
        samples, rate_hz = soundfile.read(path)
        soundfile.write(path, samples * (k + 1) / 6, rate_hz)
    run_convert(tmp_path / "in", output=tmp_path / "c", layout="{subject}/{take}.wav", **SERIAL)
    return tmp_path / "c"


def rows_by_subject(out):
    found = {}
    for record in read_manifest(out / "manifest.jsonl"):
        if ref := record.streams.get("mfcc"):
            rows = np.load(out / ref.shard)[slice(*ref.rows)]
            found.setdefault(record.subject, []).append(rows)
    return {subject: np.concatenate(rows) for subject, rows in found.items()}


def test_normalisation_by_speaker_is_that_of_all_rows_of_the_speaker(speakers, tmp_path):
    run_mfcc(speakers, output=tmp_path / "plain", delta=1, **SERIAL)
    run_mfcc(speakers, output=tmp_path / "by", delta=1, cmvn="speaker", **SERIAL)
    plain, by = rows_by_subject(tmp_path / "plain"), rows_by_subject(tmp_path / "by")
    assert set(by) == {"a", "b"}
    for subject, rows in plain.items():
        exact = rows.astype(np.float64)
        wanted = (exact - exact.mean(axis=0)) / exact.std(axis=0)
        np.testing.assert_allclose(by[subject], wanted, atol=1e-4)


def test_normalisation_by_speaker_goes_over_shards_and_workers(speakers, tmp_path):
    small = {"cmvn": "speaker", "shard_size": "4kB"}
    run_mfcc(speakers, output=tmp_path / "a", **small, **SERIAL)
    run_mfcc(speakers, output=tmp_path / "b", **small, jobs=2)
    assert len(list((tmp_path / "a/mfcc").iterdir())) > 2
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_utterance_that_fails_counts_for_no_speaker(speakers, tmp_path):
    shard = speakers / "audio/shard-00000.npy"
    record = next(read_manifest(speakers / "manifest.jsonl"))
    data = np.load(shard)
    data[record.streams["audio"].rows[0] + 5] = np.nan
    np.save(shard, data)
    with pytest.raises(FailedItemsError, match="1 of 5"):
        run_mfcc(speakers, output=tmp_path / "out", cmvn="speaker", **SERIAL)
    run_mfcc(speakers, output=tmp_path / "out", cmvn="speaker", max_failures="1", **SERIAL)
    assert len((tmp_path / "out/failures.jsonl").read_text().splitlines()) == 1
    rows = rows_by_subject(tmp_path / "out")
    np.testing.assert_allclose(rows["a"].std(axis=0), 1, atol=1e-4)


def test_normalisation_by_speaker_without_subjects_is_refused(tmp_path):
    raw.sound(tmp_path / "in/a.wav")
    with pytest.raises(UsageError, match="1 of 1 have no subject") as caught:
        run_mfcc(tmp_path / "in", output=tmp_path / "out", cmvn="speaker")
    assert "--layout" in caught.value.hint


def test_speaker_of_sounds_without_a_row_is_no_error(tmp_path):
    raw.sound(tmp_path / "in/a/1.wav", n_samples=9)
    raw.sound(tmp_path / "in/b/1.wav", n_samples=900)
    run_convert(tmp_path / "in", output=tmp_path / "c", layout="{subject}/{take}.wav", **SERIAL)
    run_mfcc(tmp_path / "c", output=tmp_path / "out", preset="kaldi", cmvn="speaker", **SERIAL)
    assert [len(row["mfcc"]) for row in open_dataset(tmp_path / "out")] == [0, 9]


def test_data_set_of_sounds_shorter_than_a_window_is_a_good_one(tmp_path):
    for name in ("a", "b"):
        raw.sound(tmp_path / f"in/{name}.wav", n_samples=150)
    run_mfcc(tmp_path / "in", output=tmp_path / "out", preset="kaldi", **SERIAL)
    assert check(str(tmp_path / "out"), checksums=True).findings == ()
    assert [row["mfcc"].shape for row in open_dataset(tmp_path / "out")] == [(0, 13)] * 2


# Long files ---------------------------------------------------------------------------------------


@pytest.fixture
def small_pieces(monkeypatch):
    """Make everything that is worked on piece by piece small."""
    monkeypatch.setattr(blocks, "BLOCK_VALUES", 1)
    monkeypatch.setattr(extract, "PIECE_VALUES", 700)
    monkeypatch.setattr(scratch, "MEMORY_BYTES", 20_000)
    monkeypatch.setattr(AudioReader.__init__, "__kwdefaults__", {**DEFAULTS, "block_s": 0.1})


RECIPES = (
    {"delta": 2},
    {"cmvn": "utterance", "delta": 1},
    {"preset": "kaldi", "snip_edges": False},
    {"rate": 5000, "features": "logmel"},
)


@pytest.mark.parametrize("options", RECIPES, ids=str)
@pytest.mark.parametrize("source", ["in", "c"])
def test_long_files_give_the_same_features_piece_by_piece(tmp_path, request, source, options):
    for k, name in enumerate(("a.wav", "b.flac")):
        raw.sound(tmp_path / f"in/{name}", n_samples=60_000 + k, n_channels=2)
    run_convert(tmp_path / "in", output=tmp_path / "c", audio_dtype="int16", **SERIAL)
    run_mfcc(tmp_path / source, output=tmp_path / "whole", **options, **SERIAL)
    request.getfixturevalue("small_pieces")
    run_mfcc(tmp_path / source, output=tmp_path / "pieces", **options, **SERIAL)
    found, wanted = open_dataset(tmp_path / "pieces"), open_dataset(tmp_path / "whole")
    name = options.get("features", "mfcc")
    for ours, whole in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours[name], whole[name], rtol=1e-6)


LENGTH_S = 2400
MEASURED = r"""
import re, sys
from mmprep.cli import main
assert main.run(["mfcc", *sys.argv[1:], "--engine", "serial", "-q"]) == 0
print(re.search(r"VmHWM:\s*(\d+) kB", open("/proc/self/status").read())[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the memory")
@pytest.mark.parametrize("source", ["in", "c"])
def test_memory_does_not_grow_with_the_length_of_a_file(tmp_path, source):
    raw.sound(tmp_path / "in/a.wav", n_samples=1, rate_hz=16000)
    header = (tmp_path / "in/a.wav").read_bytes()[:40]
    n_bytes = LENGTH_S * 16000 * 2
    with (tmp_path / "in/a.wav").open("wb") as file:  # of zeros, which take no place on the disk
        file.write(header + n_bytes.to_bytes(4, "little"))
        file.truncate(44 + n_bytes)
    run_convert(tmp_path / "in", output=tmp_path / "c", **SERIAL)
    run = subprocess.run(
        [sys.executable, "-c", MEASURED, str(tmp_path / source), "-o", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(run.stdout.split()[-1]) < 250 * 1024  # all samples at once would take 460 MiB


# What is said -------------------------------------------------------------------------------------


class Told(Silent):
    """Keep what is said."""

    def __init__(self):
        self.lines = []

    def say(self, text):
        self.lines.append(text)

    warn = say


def told(*inputs, output, **options):
    progress = Told()
    run_step("mfcc", {"inputs": inputs, "output": output, **options, **SERIAL}, progress)
    return progress.lines


def test_sounds_without_a_row_are_counted(tmp_path):
    for name, n_samples in (("a", 199), ("b", 200), ("c", 3)):
        raw.sound(tmp_path / f"in/{name}.wav", n_samples=n_samples)
    (line,) = told(tmp_path / "in", output=tmp_path / "out", preset="kaldi")
    assert line == "2 of 3 are shorter than a window and have no row (a, ...)"


def test_bands_without_a_bin_are_counted(tmp_path):
    raw.sound(tmp_path / "in/a.wav")
    (line,) = told(tmp_path / "in", output=tmp_path / "out", n_mels=200)
    n_empty = len(Extractor(preset("librosa", n_mels=200), 8000).empty_bands)
    assert line.startswith(f"{n_empty} of 200 bands hold no bin of the transform at 8000 Hz")


def test_files_that_are_no_sound_are_counted(tmp_path):
    raw.sound(tmp_path / "in/a.wav")
    (tmp_path / "in/a.txt").write_text("text")
    (line,) = told(tmp_path / "in", output=tmp_path / "out")
    assert line == "1 files that no reader takes were skipped (a.txt, ...)"


def test_packets_that_are_lost_are_told(shared, tmp_path):
    (line,) = told(
        shared("audio/compressed/androidx_100kB-garbage-prefix.mp3"), output=tmp_path / "out"
    )
    assert line.endswith("garbage-prefix.mp3: 1 packets could not be decoded")


def test_features_of_a_file_have_the_times_of_its_converted_sound(shared, tmp_path):
    file = shared("audio/compressed/androidx_bear.opus")
    run_convert(file, output=tmp_path / "c", **SERIAL)
    for source, name in ((file, "direct"), (tmp_path / "c", "by way")):
        run_mfcc(source, output=tmp_path / name, **SERIAL)
    direct, by_way = (
        next(read_manifest(tmp_path / name / "manifest.jsonl")) for name in ("direct", "by way")
    )
    assert direct.streams["mfcc"].offset_s == by_way.streams["mfcc"].offset_s > 0
    assert direct.duration_s == by_way.duration_s
