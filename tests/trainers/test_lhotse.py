"""`manifest export --to lhotse`, opened by Lhotse itself."""

from __future__ import annotations

import numpy as np
import pytest

from mmprep import open_dataset, run_align, run_convert, run_export, run_mfcc, run_split
from mmprep.manifest.codec import read_manifest
from mmprep.shards import open_shard
from tests import raw

pytestmark = [pytest.mark.trainers, pytest.mark.filterwarnings("default")]
SERIAL = {"engine": "serial"}
OPENED = ["eager", "lazy"]


@pytest.fixture(scope="module")
def lhotse():
    return pytest.importorskip("lhotse", reason="lhotse is not installed: make test-trainers")


@pytest.fixture
def opened(lhotse, sample, tmp_path, monkeypatch):
    """Export a data set; give its cuts, opened eagerly or lazily, from the export's folder."""

    def export(data, how, name="cuts.jsonl.gz", **options):
        run_export(data, to="lhotse", output=tmp_path / "out", **SERIAL, **options)
        monkeypatch.chdir(tmp_path / "out")
        way = {"eager": lhotse.CutSet.from_file, "lazy": lhotse.CutSet.from_jsonl_lazy}[how]
        cuts = way(name)
        return cuts.to_eager() if how == "eager" else cuts

    return export


def _rows(data, record, name, mask=""):
    ref = record.streams[name]
    shard = ref.shard.replace(f"{name}/", f"{name}{mask}/")
    return open_shard(data / shard)[slice(*ref.rows)]


@pytest.mark.parametrize("how", OPENED)
@pytest.mark.parametrize("audio", ["reference", "wav", "flac"])
def test_cuts_of_utterances_hold_sound_and_mfcc_of_the_shards(sample, opened, lhotse, how, audio):
    data = sample / "cmlr/features"
    cuts = list(opened(data, how, audio=audio))
    for cut, record in zip(cuts, read_manifest(data / "manifest.jsonl"), strict=True):
        lhotse.validate(cut, read_data=True)
        (found,) = cut.supervisions
        assert (cut.id, found.text, found.speaker) == (record.id, record.text, record.subject)
        sound = _rows(data, record, "audio")
        np.testing.assert_allclose(cut.load_audio()[0], sound, atol=1 / 32768)
        mfcc = _rows(data, record, "mfcc")
        assert len(mfcc) - cut.num_frames in (0, 1)
        np.testing.assert_array_equal(cut.load_features(), mfcc[: cut.num_frames])


@pytest.mark.parametrize("how", OPENED)
@pytest.mark.parametrize("audio", ["flac", "none"])
def test_cuts_of_windows_hold_the_values_of_the_shards(sample, opened, lhotse, how, audio):
    data = sample / "amigos/split"
    cuts = list(opened(data, how, "cuts_train.jsonl.gz", audio=audio))
    records = [r for r in read_manifest(data / "manifest.jsonl") if r.split == "train"]
    for cut, record in zip(cuts, records, strict=True):
        lhotse.validate(cut)
        for name in ("eeg", "gsr", "video"):
            (values,) = _rows(data, record, name)
            np.testing.assert_array_equal(cut.load_custom(name), values)
            (valid,) = _rows(data, record, name, mask=".valid")
            np.testing.assert_array_equal(cut.load_custom(f"{name}_valid"), valid)
        np.testing.assert_array_equal(cut.load_features(), _rows(data, record, "mfcc")[0])
        assert cut.supervisions[0].label == record.label
        assert cut.has_recording == (audio == "flac")
        if cut.has_recording:
            assert cut.load_audio().shape == (1, 16000)


@pytest.mark.parametrize("how", OPENED)
def test_cut_without_sound_is_cut_padded_and_batched(tmp_path, opened, lhotse, how):
    raw.table(tmp_path / "in/P1/V1/x.tsv", n_rows=40)
    run_convert(tmp_path / "in", output=tmp_path / "tables", **SERIAL)
    run_align(tmp_path / "tables", output=tmp_path / "windows", rates="x=4", window=2, **SERIAL)
    cuts = opened(tmp_path / "windows", how)
    first = next(iter(cuts))
    lhotse.validate(first)
    assert first.load_x()[:, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert first.truncate(offset=0.5, duration=1).load_x()[:, 0].tolist() == [2, 3, 4, 5]
    assert first.pad(duration=3).load_x().shape == (12, 1)
    assert len(cuts.cut_into_windows(1).to_eager()) == 10
    sampler = lhotse.dataset.DynamicCutSampler(cuts, max_duration=4.0)
    assert [len(batch) for batch in sampler] == [2, 2, 1]


def test_batches_of_features_and_sound_collate(sample, opened, lhotse):
    cuts = opened(sample / "cmlr/features", "eager")
    from lhotse.dataset.collation import collate_audio, collate_features

    features, lengths = collate_features(cuts)
    assert features.shape == (15, max(lengths), 13)
    assert collate_audio(cuts)[0].shape[0] == 15


FRAMINGS = [
    ({"preset": "kaldi"}, 8),
    ({"preset": "kaldi", "snip_edges": False}, 10),
    ({"preset": "librosa"}, 10),
    ({"preset": "librosa", "center": False}, 7),
]


@pytest.mark.parametrize(("options", "n_rows"), FRAMINGS)
def test_features_load_whatever_their_framing(lhotse, opened, tmp_path, options, n_rows):
    raw.sound(tmp_path / "in/a.wav")
    run_mfcc(tmp_path / "in", output=tmp_path / "made", **options, **SERIAL)
    (cut,) = opened(tmp_path / "made", "eager")
    lhotse.validate(cut)
    assert len(cut.load_features()) == cut.features.num_frames == n_rows


def test_manifests_fit_together(sample, opened, lhotse):
    cuts = opened(sample / "cmlr/features", "eager")
    recordings = lhotse.load_manifest("recordings.jsonl.gz")
    supervisions = lhotse.load_manifest("supervisions.jsonl.gz")
    features = lhotse.load_manifest("features.jsonl.gz")
    lhotse.qa.validate_recordings_and_supervisions(recordings, supervisions, read_data=True)
    lhotse.validate(features, read_data=True)
    made = lhotse.CutSet.from_manifests(recordings, supervisions, features)
    assert [cut.duration for cut in made] == [cut.duration for cut in cuts]


def test_paths_of_an_absolute_export_open_from_anywhere(lhotse, sample, tmp_path):
    output = tmp_path / "out"
    run_export(
        sample / "amigos/split",
        to="lhotse",
        output=output,
        audio="flac",
        path_mode="absolute",
        **SERIAL,
    )
    cut = next(iter(lhotse.CutSet.from_jsonl_lazy(output / "cuts_val.jsonl.gz")))
    assert cut.load_eeg().shape == (128, 14)
    assert cut.load_features().shape == (100, 13)
    assert cut.load_audio().shape == (1, 16000)


def test_sound_of_two_channels_is_a_multi_cut(lhotse, opened, tmp_path):
    raw.sound(tmp_path / "in/a.wav", n_channels=2)
    run_convert(tmp_path / "in", output=tmp_path / "made", **SERIAL)
    (cut,) = opened(tmp_path / "made", "eager")
    lhotse.validate(cut, read_data=True)
    assert isinstance(cut, lhotse.MultiCut)
    assert cut.load_audio().shape == (2, 800)


def test_sound_of_another_rate_than_its_source_is_described_as_it_is(lhotse, opened, tmp_path):
    raw.sound(tmp_path / "in/a.wav", rate_hz=8000)
    run_convert(tmp_path / "in", output=tmp_path / "made", resample=16000, **SERIAL)
    run_split(tmp_path / "made", output=tmp_path / "s", ratios="all=1", by="id", **SERIAL)
    (cut,) = opened(tmp_path / "s", "eager", "cuts_all.jsonl.gz")
    lhotse.validate(cut, read_data=True)
    assert (cut.sampling_rate, cut.num_samples) == (8000, 800)


@pytest.mark.parametrize("how", OPENED)
def test_ids_of_any_kind_survive(opened, tmp_path, how):
    raw.sound(tmp_path / "in/s 1/语=.b.wav")
    run_convert(tmp_path / "in", output=tmp_path / "made", **SERIAL)
    run_mfcc(tmp_path / "made", output=tmp_path / "features", **SERIAL)
    (cut,) = opened(tmp_path / "features", how, audio="wav")
    assert cut.id == open_dataset(tmp_path / "features")[0]["id"] == "s 1/语=.b"
    assert len(cut.load_features()) == cut.num_frames


def test_cuts_move_into_shar_and_back(lhotse, sample, opened, tmp_path):
    cuts = opened(sample / "amigos/split", "lazy", "cuts_val.jsonl.gz", audio="flac")
    fields = {"recording": "flac", "features": "numpy", "eeg": "numpy"}
    (tmp_path / "shar").mkdir()
    cuts.to_shar(tmp_path / "shar", fields=fields, shard_size=100, verbose=False)
    back = next(iter(lhotse.CutSet.from_shar(in_dir=tmp_path / "shar")))
    np.testing.assert_array_equal(back.load_eeg(), next(iter(cuts)).load_eeg())


@pytest.mark.parametrize("how", OPENED)
def test_whole_sessions_hold_all_rows_and_load_as_many_as_lhotse_counts(
    sample, tmp_path, opened, lhotse, how
):
    data = tmp_path / "sessions"
    run_align(
        sample / "amigos/features",
        output=data,
        rates="video=30,eeg=128,gsr=4",
        window="record",
        **SERIAL,
    )
    cuts = list(opened(data, how, audio="flac"))
    for cut, record in zip(cuts, read_manifest(data / "manifest.jsonl"), strict=True):
        lhotse.validate(cut)
        eeg = _rows(data, record, "eeg")
        np.testing.assert_array_equal(cut.eeg.load(), eeg)
        valid = _rows(data, record, "eeg", mask=".valid")
        np.testing.assert_array_equal(cut.eeg_valid.load(), valid)
        found = cut.load_eeg()
        np.testing.assert_array_equal(found, eeg[: len(found)])
        assert len(eeg) - len(found) in (0, 1)
        assert len(cut.load_features()) == cut.num_frames
