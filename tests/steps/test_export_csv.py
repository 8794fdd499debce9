"""`manifest export --to csv`: a table of records that names the rows of shards."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import soundfile

from mmprep import UsageError, run_export
from tests import exported

SERIAL = {"engine": "serial"}


def test_rows_lead_to_the_values_of_the_shards(sample, tmp_path):
    data = sample / "amigos/split"
    run_export(data, output=tmp_path / "out", to="csv", **SERIAL)
    table = pd.read_csv(tmp_path / "out/records.csv")
    for row in table.to_dict("records"):
        shard = np.load(tmp_path / "out" / row["eeg.file"], mmap_mode="r")
        (window,) = shard[row["eeg.begin"] : row["eeg.end"]]
        assert row["eeg.valid"] == pytest.approx(1 - np.isnan(window).all(axis=1).mean(), abs=1e-6)


def test_rows_are_the_records(sample, tmp_path):
    run_export(sample / "cmlr/features", output=tmp_path, to="csv", **SERIAL)
    table = pd.read_csv(tmp_path / "records.csv", dtype=str)
    assert list(table["id"]) == list(exported.expected(sample / "cmlr/features"))
    assert table["text"][0] == "国家统计局今天发布"
    assert table["fields.date"][0] == "20170121"


def test_sound_files_stand_in_the_column_file(sample, tmp_path):
    data = sample / "cmlr/features"
    run_export(data, output=tmp_path, to="csv", audio="wav", **SERIAL)
    wanted = exported.expected(data)
    for row in pd.read_csv(tmp_path / "records.csv").to_dict("records"):
        samples, _ = soundfile.read(tmp_path / row["file"], dtype="float32")
        np.testing.assert_array_equal(samples, wanted[row["id"]]["audio"])


def test_path_mode_changes_how_files_are_named(sample, tmp_path):
    run_export(sample / "cmlr/features", output=tmp_path, to="csv", path_mode="prefix=b/", **SERIAL)
    table = pd.read_csv(tmp_path / "records.csv")
    assert set(table["mfcc.file"]) == {"b/mfcc/shard-00000.npy"}


def test_shards_are_refused(sample, tmp_path):
    with pytest.raises(UsageError, match="CSV is one file"):
        run_export(sample / "cmlr/features", output=tmp_path / "out", to="csv", shards=2)
