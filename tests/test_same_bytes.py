"""The same inputs and options give the same files, however and wherever the command runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mmprep import run_convert, run_mfcc
from tests import raw
from tests.conftest import ROOT
from tests.kill import tree

RAW = ROOT / "sample_data/cmlr"
COMMANDS = {
    "converted": ("convert", RAW, "--layout", "cmlr"),
    "features": ("mfcc", "converted"),
}
ELSEWHERE = {
    "TZ": "Pacific/Apia",
    "LC_ALL": "POSIX",
    "PYTHONUTF8": "0",
    "PYTHONCOERCECLOCALE": "0",
    "PYTHONHASHSEED": "77",
    "PYTHONPATH": str(ROOT),
}


@pytest.mark.parametrize("jobs", [1, 4])
def test_convert_with_any_number_of_workers(sample, tmp_path, jobs):
    run_convert(RAW, output=tmp_path / "out", layout="cmlr", jobs=jobs)
    assert tree(tmp_path / "out") == tree(sample / "cmlr/converted")


@pytest.mark.parametrize("jobs", [1, 4])
def test_mfcc_with_any_number_of_workers(sample, tmp_path, jobs):
    run_mfcc(sample / "cmlr/converted", output=tmp_path / "out", jobs=jobs)
    assert tree(tmp_path / "out") == tree(sample / "cmlr/features")


@pytest.mark.parametrize("jobs", [1, 4])
def test_many_small_shards_with_any_number_of_workers(tmp_path, jobs):
    options = {"layout": "cmlr", "shard_size": "128KiB"}
    run_convert(RAW, output=tmp_path / "one", engine="serial", **options)
    run_convert(RAW, output=tmp_path / "many", jobs=jobs, **options)
    assert len(list((tmp_path / "one/audio").iterdir())) > 5
    assert tree(tmp_path / "many") == tree(tmp_path / "one")


def test_other_zone_locale_hash_seed_folder_and_umask(sample, tmp_path):
    for name, command in COMMANDS.items():
        _elsewhere(tmp_path, *command, "-o", name, "--engine", "serial")
        assert tree(tmp_path / name) == tree(sample / "cmlr" / name)


def test_modes_are_what_the_umask_leaves(tmp_path):
    _elsewhere(tmp_path, *COMMANDS["converted"], "-o", "out", "--engine", "serial")
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "out").rglob("*")}
    assert modes == {0o640, 0o750}


def _elsewhere(folder: Path, *command: object) -> None:
    subprocess.run(
        [sys.executable, "-m", "mmprep", *map(str, command)],
        cwd=folder,
        env={**os.environ, **ELSEWHERE},
        umask=0o027,
        check=True,
        capture_output=True,
    )


def test_failures_read_the_same_in_any_folder(tmp_path):
    texts = []
    for folder in ("a", "b/deep"):
        top = tmp_path / folder
        raw.table(top / "in/good/eeg.tsv")
        (top / "in/bad").mkdir()
        (top / "in/bad/eeg.tsv").write_text("time\tx\n0\t1\n1\t2\t3\n")
        (top / "in/empty.wav").write_bytes(b"")
        run_convert(top / "in", output=top / "out", max_failures="2", engine="serial")
        texts.append((top / "out/failures.jsonl").read_text())
        assert "in/" not in texts[-1]
    assert texts[0] == texts[1]
    assert texts[0].count("\n") == 2
