"""`manifest export --to parquet` and `--to hf`: rows that hold the values of the shards."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile

from mmprep import UsageError, run_export
from tests import exported
from tests.kill import tree

SERIAL = {"engine": "serial"}


def _streams(table):
    about = json.loads(table.schema.metadata[b"mmprep"])["streams"]
    return {name: one["dtype"] for name, one in about.items()}


def _arrays(table):
    found = {}
    for row in table.to_pylist():
        values = found[row["id"]] = {}
        for name, dtype in _streams(table).items():
            values[name] = np.array(row[name], dtype).reshape(row[f"{name}.shape"])
            if f"{name}.valid" in row:
                values[f"{name}.valid"] = np.array(row[f"{name}.valid"])
    return found


@pytest.mark.parametrize("to", ["parquet", "hf"])
@pytest.mark.parametrize("name", ["amigos/split", "cmlr/features"])
def test_values_are_those_of_the_shards(sample, tmp_path, name, to):
    run_export(sample / name, output=tmp_path / "out", to=to, **SERIAL)
    found = {}
    for path in (tmp_path / "out").rglob("*.parquet"):
        found |= _arrays(pq.ParquetFile(path).read())
    exported.check(found, sample / name)


def test_files_of_all_splits_have_one_schema(sample, tmp_path):
    run_export(sample / "amigos/split", output=tmp_path, to="parquet", shards=2, **SERIAL)
    paths = sorted(tmp_path.rglob("*.parquet"))
    names = [path.relative_to(tmp_path).as_posix() for path in paths]
    splits = ("test", "train", "val")
    assert names == [f"{split}/part-0000{k}.parquet" for split in splits for k in range(2)]
    first, *others = [pq.read_schema(path) for path in paths]
    assert all(schema.equals(first, check_metadata=True) for schema in others)
    assert "extension" not in str(first)


def test_hf_names_files_as_its_card_does(sample, tmp_path):
    run_export(sample / "cmlr/features", output=tmp_path, to="hf", shards=2, **SERIAL)
    names = sorted(path.name for path in (tmp_path / "data").iterdir())
    assert names == [f"train-0000{k}-of-00002.parquet" for k in range(2)]
    assert 'split: train\n    path: "data/train-?????-of' in (tmp_path / "README.md").read_text()


def test_hf_with_sound_is_a_folder_of_files_and_their_metadata(sample, tmp_path):
    run_export(sample / "cmlr/features", output=tmp_path, to="hf", audio="wav", **SERIAL)
    wanted = exported.expected(sample / "cmlr/features")
    lines = (tmp_path / "train/metadata.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["id"] for row in rows] == list(wanted)
    for row in rows:
        samples, _ = soundfile.read(tmp_path / "train" / row["file_name"], dtype="float32")
        np.testing.assert_array_equal(samples, wanted[row["id"]]["audio"])
    assert len(list(tmp_path.rglob("*.wav"))) == len(rows)


def test_hf_says_that_it_names_no_files_outside(sample, tmp_path, mmprep):
    data, out = sample / "cmlr/features", tmp_path / "out"
    done = mmprep("manifest", "export", data, "--to", "hf", "-o", out, "--engine", "serial")
    assert "names no files outside of it" in done.err


def test_parquet_has_no_sound_files(sample, tmp_path):
    with pytest.raises(UsageError, match="Parquet holds sound as values"):
        run_export(sample / "cmlr/features", output=tmp_path / "out", to="parquet", audio="wav")


def test_folder_of_sound_is_not_cut(sample, tmp_path):
    how = {"to": "hf", "audio": "wav", "shards": 2, **SERIAL}
    with pytest.raises(UsageError, match="a folder of sound is not cut"):
        run_export(sample / "cmlr/features", output=tmp_path / "out", **how)


@pytest.mark.parametrize("to", ["parquet", "hf"])
def test_bytes_do_not_depend_on_the_workers(sample, tmp_path, to):
    for name, how in (("a", SERIAL), ("b", {"jobs": 2})):
        run_export(sample / "amigos/split", output=tmp_path / name, to=to, shards=2, **how)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")
