"""What `manifest split` measures of train, and splits that are given or kept."""

from __future__ import annotations

import numpy as np
import pytest

import mmprep as mm
from mmprep import run_split
from mmprep.cli.api import run_step
from mmprep.errors import UsageError
from tests.written import head, records


def subset(sample, out, *people):
    chosen = ", ".join(f"'{name}'" for name in people)
    options = {"where": f"subject in [{chosen}]", "engine": "serial"}
    run_step("filter", {"inputs": (sample / "amigos/aligned",), "output": out, **options})
    return out


def test_statistics_are_those_of_the_valid_readings_of_train(sample):
    folder = sample / "amigos/split"
    known = head(folder)["statistics"]
    train = list(mm.open_dataset(folder, split="train", fill="nan"))
    assert known.keys() == {"audio", "eeg", "gsr", "mfcc"}
    for name in known:
        values = np.concatenate([one[name][one[f"{name}.valid"]] for one in train])
        values = values.reshape(len(values), -1).astype(np.float64)
        assert known[name]["count"] == np.sum(~np.isnan(values), axis=0).tolist()
        np.testing.assert_allclose(known[name]["mean"], np.nanmean(values, axis=0), rtol=1e-9)
        np.testing.assert_allclose(known[name]["std"], np.nanstd(values, axis=0), rtol=1e-9)


def test_statistics_do_not_depend_on_the_jobs(tmp_path, sample):
    for jobs in (1, 2):
        run_split(
            sample / "amigos/aligned",
            output=tmp_path / str(jobs),
            jobs=jobs,
            by="subject",
            ratios="train=0.5,val=0.25,test=0.25",
        )
    one, two = (head(tmp_path / jobs)["statistics"] for jobs in "12")
    assert one == two


def test_groups_of_an_earlier_split_stay(tmp_path, sample):
    first = subset(sample, tmp_path / "first", "P01", "P02", "P03")
    ratios = "train=0.34,val=0.33,test=0.33"
    run_split(first, output=tmp_path / "old", by="subject", ratios=ratios, engine="serial", seed=3)
    run_split(
        sample / "amigos/aligned",
        output=tmp_path / "new",
        by="subject",
        ratios=ratios,
        keep=str(tmp_path / "old"),
        engine="serial",
        seed=9,
    )
    old = {one["subject"]: one["split"] for one in records(tmp_path / "old")}
    new = {one["subject"]: one["split"] for one in records(tmp_path / "new")}
    assert {name: new[name] for name in old} == old
    assert new.keys() - old.keys() == {"P04"}


def test_splits_of_the_corpus_are_taken_as_they_are(tmp_path, sample):
    split = sample / "amigos/split"
    run_split(split, output=tmp_path / "out", from_layout=True, engine="serial")
    assert records(tmp_path / "out") == records(split)
    assert head(tmp_path / "out")["statistics"] == head(split)["statistics"]
    assert head(tmp_path / "out")["labels"] == head(split)["labels"]
    with pytest.raises(UsageError, match="records name no split"):
        run_split(
            sample / "amigos/aligned", output=tmp_path / "no", from_layout=True, engine="serial"
        )


def test_statistics_of_an_earlier_train_do_not_stay(tmp_path, sample):
    (tmp_path / "all.txt").write_text("P01\nP02\nP03\nP04\n")
    run_split(
        sample / "amigos/split",
        output=tmp_path / "out",
        lists=f"test={tmp_path / 'all.txt'}",
        allow_absent=True,
        engine="serial",
    )
    assert "statistics" in head(sample / "amigos/split")
    assert "statistics" not in head(tmp_path / "out")
