"""`manifest split`: splits, folds, weights."""

from __future__ import annotations

import shutil

import pytest

from mmprep import DataError, UsageError, run_split
from mmprep.manifest.codec import decode_dataset, read_manifest

SERIAL = {"engine": "serial"}
RATIOS = "train=0.5,val=0.25,test=0.25"


@pytest.fixture
def split(sample, tmp_path):
    """Split the aligned windows; give the header and the records."""

    def run(name="amigos/aligned", **options):
        run_split(sample / name, output=tmp_path / "out", **SERIAL, **options)
        head = decode_dataset((tmp_path / "out/dataset.json").read_bytes())
        return head, list(read_manifest(tmp_path / "out/manifest.jsonl"))

    return run


@pytest.mark.parametrize("method", ["balanced", "hash"])
def test_no_subject_is_torn(split, method):
    _, records = split(ratios=RATIOS, method=method, allow_absent=True)
    places = {(record.subject, record.split) for record in records}
    assert len(places) == len({record.subject for record in records}) == 4


def test_counts_of_the_splits_add_up(split):
    head, records = split(ratios=RATIOS)
    assert sum(part["records"] for part in head.splits.values()) == len(records) == 464
    for name, part in head.splits.items():
        assert part["records"] == sum(record.split == name for record in records)


def test_weights_are_those_of_the_classes_in_train(split):
    head, records = split(ratios=RATIOS)
    train = [record.label for record in records if record.split == "train"]
    most = max(train.count(name) for name in head.labels)
    for name, label in head.labels.items():
        assert label.weight == pytest.approx(most / (train.count(name) + 1))


def test_seed_decides_and_the_same_seed_gives_the_same(split):
    found = [
        [record.split for record in split(ratios=RATIOS, seed=seed, method="hash")[1]]
        for seed in (0, 0, 5)
    ]
    assert found[0] == found[1] != found[2]


def test_all_files_are_carried_over_as_links(split, sample, tmp_path):
    head, _ = split(ratios=RATIOS)
    for name in head.shard_entries():
        assert (tmp_path / "out" / name).samefile(sample / "amigos/aligned" / name)


def test_folds_are_written_in_place_of_splits(split):
    head, records = split(folds=2, allow_absent=True)
    assert {record.fold for record in records} == {0, 1}
    assert {record.split for record in records} == {None}
    assert head.splits == {}


def test_leave_one_out_makes_a_fold_a_subject(split):
    _, records = split(leave_one_out=True, allow_absent=True)
    assert len({(record.subject, record.fold) for record in records}) == 4
    assert len({record.fold for record in records}) == 4


def test_lists_name_subjects_or_ids(split, tmp_path):
    lists = {"train": "s1\ns2\n", "test": "s4 and a note\n"}
    for name, text in lists.items():
        (tmp_path / name).write_text(text)
    given = f"train={tmp_path}/train,test={tmp_path}/test"
    _, records = split("cmlr/converted", lists=given)
    places = {(record.subject, record.split) for record in records}
    assert places == {("s1", "train"), ("s2", "train"), ("s4", "test")}


@pytest.mark.parametrize("lists", ["train", "train=", "=x"])
def test_lists_that_are_none_are_a_usage_error(split, lists):
    with pytest.raises(UsageError, match="not SPLIT=FILE"):
        split("cmlr/converted", lists=lists)


def test_missing_list_is_a_usage_error(split):
    with pytest.raises(UsageError, match=r"nowhere: No such file"):
        split("cmlr/converted", lists="train=nowhere")


def test_more_than_one_data_set_is_a_usage_error(sample, tmp_path):
    from mmprep.steps import split as step
    from mmprep.steps.base import RunOptions

    inputs = (str(sample / "cmlr/converted"),) * 2
    with pytest.raises(UsageError, match="one data set"):
        step.run(step.Config(inputs), RunOptions(tmp_path / "out"))


def test_damaged_data_set_is_not_carried_over(sample, tmp_path):
    damaged = tmp_path / "damaged"
    shutil.copytree(sample / "cmlr/converted", damaged)
    shard = damaged / "audio/shard-00000.npy"
    shard.write_bytes(shard.read_bytes()[:-100])
    with pytest.raises(DataError, match="bytes, recorded"):
        run_split(damaged, output=tmp_path / "out", **SERIAL)
    assert not (tmp_path / "out").exists()
