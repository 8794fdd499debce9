"""`manifest export --to lhotse`: its files; tests/trainers opens them with Lhotse."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

from mmprep import DataError, UsageError, run_convert, run_export, run_mfcc
from mmprep.manifest.codec import read_manifest
from tests import raw
from tests.kill import tree

SERIAL = {"engine": "serial"}


def lines(path):
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


@pytest.fixture
def export(sample, tmp_path):
    """Export a data set; give the lines of its cuts."""

    def run(name="cmlr/features", manifest="cuts.jsonl.gz", **options):
        run_export(sample / name, to="lhotse", output=tmp_path / "out", **SERIAL, **options)
        return lines(tmp_path / "out" / manifest)

    return run


def test_each_split_has_its_manifests(export, tmp_path):
    export("amigos/split", "cuts_val.jsonl.gz", audio="flac", split=("val",))
    names = {path.name for path in (tmp_path / "out").glob("*.gz")}
    assert names == {
        f"{kind}_val.jsonl.gz" for kind in ("cuts", "features", "recordings", "supervisions")
    }


def test_arrays_are_the_values_of_the_shards(export, sample, tmp_path):
    records = {r.id: r for r in read_manifest(sample / "amigos/split/manifest.jsonl")}
    for line in export("amigos/split", "cuts_test.jsonl.gz", audio="none"):
        ref = records[line["id"]].streams["eeg"]
        array = line["custom"]["eeg"]["array"]
        found = np.load(tmp_path / "out" / array["storage_path"] / array["storage_key"])
        rows = np.load(sample / "amigos/split" / ref.shard, mmap_mode="r")[slice(*ref.rows)]
        np.testing.assert_array_equal(found, rows[0])
        assert list(found.shape) == array["shape"] == [128, 14]


def test_sources_are_described_by_their_headers(export, tmp_path):
    raw.sound(tmp_path / "in/a.wav", rate_hz=8000, n_channels=2)
    run_convert(tmp_path / "in", output=tmp_path / "made", resample=16000, mono=True, **SERIAL)
    (line,) = export(tmp_path / "made")
    recording = line["recording"]
    assert (recording["sampling_rate"], recording["num_samples"]) == (8000, 800)
    assert recording["sources"][0]["channels"] == [0, 1]


@pytest.mark.parametrize("jobs", [1, 2])
def test_files_are_the_same_with_any_number_of_workers(export, sample, tmp_path, jobs):
    export(audio="flac")
    data = sample / "cmlr/features"
    run_export(data, to="lhotse", output=tmp_path / "other", audio="flac", jobs=jobs)
    assert tree(tmp_path / "other") == tree(tmp_path / "out")


def test_path_mode_changes_all_paths(export):
    line = export(path_mode="prefix=s3://b/", audio="flac")[0]
    assert line["features"]["storage_path"] == "s3://b/arrays/mfcc"
    assert line["recording"]["sources"][0]["source"].startswith("s3://b/audio/")


def test_tables_are_left_out_with_a_word(mmprep, sample, tmp_path):
    ran = mmprep("manifest", "export", sample / "cmlr/features", "--to", "lhotse", "-o", tmp_path)
    assert ran.code == 0
    assert "streams of tables are left out, align makes windows of them: video" in ran.err


def test_features_of_too_few_rows_are_a_warning(mmprep, tmp_path):
    raw.sound(tmp_path / "in/a.wav")
    run_mfcc(tmp_path / "in", output=tmp_path / "made", preset="kaldi", **SERIAL)
    ran = mmprep("manifest", "export", tmp_path / "made", "--to", "lhotse", "-o", tmp_path / "out")
    assert "1 records have up to 2 rows fewer" in ran.err
    assert "--no-snip-edges" in ran.err


def test_tables_alone_are_refused(export, tmp_path):
    raw.table(tmp_path / "in/x.tsv")
    run_convert(tmp_path / "in", output=tmp_path / "made", **SERIAL)
    with pytest.raises(DataError, match="no record has sound or a stream in shards") as caught:
        export(tmp_path / "made")
    assert "mmprep align" in caught.value.hint


def test_source_that_is_a_film_is_refused(export):
    with pytest.raises(UsageError, match="is no sound file") as caught:
        export("amigos/aligned")
    assert "--audio flac" in caught.value.hint


def test_unchanged_source_is_up_to_date_and_a_changed_one_is_not(export, tmp_path):
    source = raw.sound(tmp_path / "in/a.wav", n_samples=800)
    run_convert(tmp_path / "in", output=tmp_path / "made", **SERIAL)
    export(tmp_path / "made")
    command = {"to": "lhotse", "output": tmp_path / "out", **SERIAL}
    assert run_export(tmp_path / "made", **command).status == "up-to-date"
    raw.sound(source, n_samples=900, n_channels=2)
    assert run_export(tmp_path / "made", **command).status == "built"


@pytest.mark.parametrize("to", ["lhotse", "kaldi"])
def test_shards_of_lists_are_refused(sample, tmp_path, to):
    with pytest.raises(UsageError, match=f"--to {to} writes lists of whole splits"):
        run_export(sample / "cmlr/features", to=to, shards=2, output=tmp_path / "out", **SERIAL)
