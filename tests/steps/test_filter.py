"""`manifest filter` and `manifest merge`."""

from __future__ import annotations

import json

import numpy as np
import pytest

import mmprep as mm
from mmprep import run_align, run_split
from mmprep.cli.api import run_step
from mmprep.errors import DataError, UsageError
from tests.conftest import ROOT
from tests.written import records


def filtered(dataset, out, condition):
    return run_step(
        "filter", {"inputs": (dataset,), "output": out, "where": condition, "engine": "serial"}
    )


def merged(out, *sets):
    return run_step("merge", {"inputs": sets, "output": out, "engine": "serial"})


def test_lines_of_the_chosen_records_are_printed(mmprep, sample):
    dataset = sample / "amigos/aligned"
    ran = mmprep("manifest", "filter", dataset, "--where", "label == 'fear' and valid.eeg > 0.9")
    found = [json.loads(line) for line in ran.out.splitlines()]
    expected = [
        one for one in records(dataset) if one["label"] == "fear" and one["valid"]["eeg"] > 0.9
    ]
    assert ran.code == 0
    assert 0 < len(found) < len(records(dataset))
    assert found == expected


def test_data_set_of_the_chosen_records_is_whole_and_holds_no_others(tmp_path, sample, mmprep):
    dataset = sample / "amigos/aligned"
    filtered(dataset, tmp_path / "out", "subject == 'P02'")
    assert {one["subject"] for one in records(tmp_path / "out")} == {"P02"}
    assert mmprep("manifest", "validate", "--checksums", tmp_path / "out").code == 0
    head = json.loads((tmp_path / "out/dataset.json").read_text())
    assert {name.partition("/")[0] for name in head["sessions"]} == {"P02"}
    assert {p.parent.name for p in (tmp_path / "out/sync").rglob("*.json")} == {"P02"}
    assert (
        head["totals"]["bytes"]
        < 0.5 * json.loads((dataset / "dataset.json").read_text())["totals"]["bytes"]
    )
    (first,) = [one for one in mm.open_dataset(dataset) if one["id"] == "P02/V01/000005"]
    (again,) = [one for one in mm.open_dataset(tmp_path / "out") if one["id"] == "P02/V01/000005"]
    np.testing.assert_array_equal(first["eeg"], again["eeg"])


def test_condition_that_no_record_meets_is_bad_input(tmp_path, sample):
    with pytest.raises(DataError, match="no record has begin_s > 1000"):
        filtered(sample / "amigos/aligned", tmp_path / "out", "begin_s > 1000")


def test_parts_put_together_are_the_whole(tmp_path, sample, mmprep):
    dataset = sample / "amigos/aligned"
    parts = []
    for number in range(1, 5):
        parts.append(tmp_path / f"part{number}")
        filtered(dataset, parts[-1], f"subject == 'P0{number}'")
    merged(tmp_path / "all", *parts)
    assert mmprep("manifest", "validate", "--checksums", tmp_path / "all").code == 0
    whole, again = mm.open_dataset(dataset), mm.open_dataset(tmp_path / "all")
    assert len(whole) == len(again)
    for k in range(0, len(whole), 37):
        assert whole[k]["id"] == again[k]["id"]
        np.testing.assert_array_equal(whole[k]["eeg"], again[k]["eeg"])
        np.testing.assert_array_equal(whole[k]["video.valid"], again[k]["video.valid"])
    run_split(tmp_path / "all", output=tmp_path / "split", engine="serial", by="subject")


def test_the_same_set_twice_is_refused(tmp_path, sample):
    dataset = sample / "amigos/aligned"
    with pytest.raises(UsageError, match=r"is in two of them|occurs twice"):
        merged(tmp_path / "out", dataset, dataset)
    with pytest.raises(UsageError, match="two data sets or more"):
        merged(tmp_path / "out", dataset)


def test_sets_of_unlike_rates_are_merged_and_say_null(tmp_path):
    raw = ROOT / "sample_data/amigos"
    for person, hertz in (("P01", 128), ("P02", 64)):
        run_align(
            eeg=str(raw / person / "V01_eeg.tsv"),
            output=tmp_path / person,
            rates=f"eeg={hertz}",
            session=person,
            engine="serial",
        )
    merged(tmp_path / "out", tmp_path / "P01", tmp_path / "P02")
    head = json.loads((tmp_path / "out/dataset.json").read_text())["modalities"]["eeg"]
    assert (head["rate_hz"], head["row_shape"]) == (None, None)
    assert [shard["rate_hz"] for shard in head["shards"]] == ["128/1", "64/1"]
    assert [shard["path"] for shard in head["shards"]] == [
        "eeg/shard-00000.npy",
        "eeg/shard-00001.npy",
    ]
