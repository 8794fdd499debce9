"""mmprep as a step of a make pipeline: what `make` runs again, and what it does not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import raw
from tests.conftest import ROOT
from tests.kill import tree

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")

RULES = """
MMPREP = {python} -m mmprep
all: features/dataset.json eeg/dataset.json

sound/dataset.json:
	$(MMPREP) convert raw/sound -o $(@D) --depfile $(@D).d --engine serial -q

features/dataset.json: sound/dataset.json
	$(MMPREP) mfcc $(<D) -o $(@D) --engine serial -q

eeg/dataset.json:
	$(MMPREP) convert raw/eeg -o $(@D) --depfile $(@D).d --engine serial -q

-include $(wildcard *.d)
"""

# Runs mmprep and kills it at the k-th file event below a folder.
KILLER = """
import sys
from tests.kill import _kill_at
_kill_at(int(sys.argv[1]), sys.argv[2])
from mmprep.cli.main import main
main(sys.argv[3:])
"""


class Project:
    """A folder with raw recordings and a Makefile."""

    def __init__(self, folder: Path, *, delete_on_error: bool) -> None:
        self.folder = folder
        special = ".DELETE_ON_ERROR:\n" if delete_on_error else ""
        (folder / "Makefile").write_text(special + RULES.format(python=sys.executable))
        (folder / "killer.py").write_text(KILLER)
        raw.sound(folder / "raw/sound/a.wav")
        raw.sound(folder / "raw/sound/b.wav")
        raw.table(folder / "raw/eeg/first name/eeg.tsv")
        raw.table(folder / "raw/eeg/second/eeg.tsv")

    def make(self, *arguments: str) -> tuple[int, list[str]]:
        """Run make; give its exit code and the data sets that it ran a step for."""
        done = subprocess.run(
            ["make", *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        commands = [line.split() for line in done.stdout.splitlines() if " -o " in line]
        return done.returncode, [words[words.index("-o") + 1] for words in commands]

    def killed(self, k: int, name: str) -> int:
        """Run make for one data set, its step killed at the k-th event below the folder."""
        killer = f"MMPREP={sys.executable} killer.py {k} {self.folder / name}"
        return self.make(f"{name}/dataset.json", killer)[0]

    def times(self, name: str) -> dict[str, int]:
        """Give the modification times of all files of a data set."""
        found = (path for path in (self.folder / name).rglob("*") if path.is_file())
        return {path.name: path.stat().st_mtime_ns for path in found}


@pytest.fixture(params=[True, False], ids=["delete-on-error", "keep"])
def project(memory, request):
    return Project(memory, delete_on_error=request.param)


def test_make_runs_only_what_hangs_on_a_touched_changed_added_or_removed_input(memory):
    project = Project(memory, delete_on_error=True)
    folder = project.folder
    project.make()
    before = {name: project.times(name) for name in ("sound", "features", "eeg")}

    (folder / "raw/eeg/second/eeg.tsv").touch()
    assert project.make() == (0, ["eeg"])
    after = project.times("eeg")
    assert {name for name in after if after[name] != before["eeg"][name]} == {"dataset.json"}
    assert project.make() == (0, [])

    raw.table(folder / "raw/eeg/second/eeg.tsv", n_rows=50)
    assert project.make() == (0, ["eeg"])
    assert {name: project.times(name) for name in ("sound", "features")} == {
        name: before[name] for name in ("sound", "features")
    }

    raw.table(folder / "raw/eeg/third/eeg.tsv")
    (folder / "raw/sound/a.wav").unlink()
    assert project.make() == (0, ["sound", "features", "eeg"])
    assert project.make() == (0, [])
    assert {path.stem for path in folder.glob("eeg/tables/eeg/*")} == {
        "first name",
        "second",
        "third",
    }
    assert "a.wav" not in (folder / "sound.d").read_text()


def test_failed_step_leaves_no_target_and_runs_again(project):
    (project.folder / "raw/eeg/second/eeg.tsv").write_text("time\tx\n0\tone\n0.5\tt\two\n")
    target = project.folder / "eeg/dataset.json"
    assert project.make("eeg/dataset.json") == (2, ["eeg"])
    assert not target.exists()
    raw.table(project.folder / "raw/eeg/second/eeg.tsv")
    assert project.make("eeg/dataset.json") == (0, ["eeg"])
    assert project.make("eeg/dataset.json") == (0, [])


@pytest.mark.kill
def test_step_killed_in_the_middle_runs_again(project):
    assert project.killed(20, "eeg") == 2
    assert not (project.folder / "eeg/dataset.json").exists()
    assert project.make("eeg/dataset.json") == (0, ["eeg"])
    assert project.make("eeg/dataset.json") == (0, [])


@pytest.mark.kill
def test_rebuild_killed_in_the_middle_leaves_the_old_target_old(memory):
    project = Project(memory, delete_on_error=False)
    changed, target = project.folder / "raw/eeg/second/eeg.tsv", project.folder / "eeg/dataset.json"
    project.make("eeg/dataset.json")
    old = tree(project.folder / "eeg")
    raw.table(changed, n_rows=50)
    assert project.killed(20, "eeg") == 2
    assert tree(project.folder / "eeg") == old
    assert target.stat().st_mtime_ns < changed.stat().st_mtime_ns
    assert project.make("eeg/dataset.json") == (0, ["eeg"])
    assert tree(project.folder / "eeg") != old
