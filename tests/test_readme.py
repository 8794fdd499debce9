"""Every command block of the README is run, in order, in a copy of this folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mmprep.cli.main import COMMANDS
from mmprep.manifest.codec import decode_dataset
from tests.conftest import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """Copy what the README's commands use."""
    top = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "sample_data", top / "sample_data")
    shutil.copy(ROOT / "Makefile", top)
    return top


def _run(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.readme
def test_command_blocks_run_in_order(copy):
    ran = 0
    for language, text in BLOCKS:
        if language == "sh" and not text.startswith("make"):
            done = _run(text, copy)
            assert done.returncode == 0, f"{text}\n{done.stderr}"
            ran += 1
        if language == "python":
            done = _run(f"python - <<'PYTHON'\n{text}\nPYTHON", copy)
            assert done.returncode == 0, f"{text}\n{done.stderr}"
            ran += 1
    assert ran >= 10


def _e4_session(folder: Path) -> None:
    """Make a minute of an Empatica session, heart rate ten seconds late."""
    folder.mkdir(parents=True)
    for name, start, rate, width in (
        ("EDA", 1680686620, 4, 1),
        ("BVP", 1680686620, 64, 1),
        ("HR", 1680686630, 1, 1),
        ("ACC", 1680686620, 32, 3),
    ):
        head = [", ".join([f"{value}.000000"] * width) for value in (start, rate)]
        rows = [",".join([str(k % 50)] * width) for k in range(60 * rate)]
        (folder / f"{name}.csv").write_text("\n".join([*head, *rows]) + "\n")


@pytest.mark.readme
def test_commands_for_recordings_of_ones_own_run(tmp_path):
    _e4_session(tmp_path / "raw/S01/baseline")
    commands = [
        line
        for language, text in BLOCKS
        if language == "text"
        for line in text.splitlines()
        if line.startswith("mmprep ")
    ]
    assert len(commands) == 2
    done = _run("\n".join(commands), tmp_path)
    assert done.returncode == 0, done.stderr
    head = decode_dataset((tmp_path / "aligned/dataset.json").read_bytes())
    assert head.totals.records == 5
    assert set(head.modalities) >= {"EDA", "BVP", "ACC", "HR"}


@pytest.mark.readme
def test_demo_ends_in_data_sets_and_has_nothing_to_do_again(copy):
    demo = f"make demo BIN={BIN}"
    assert demo.startswith(next(text for _, text in BLOCKS).strip())
    done = _run(demo, copy)
    assert done.returncode == 0, done.stderr
    head = decode_dataset((copy / "build/demo/amigos/split/dataset.json").read_bytes())
    assert head.totals.records == 464
    assert (copy / "build/demo/cmlr/nemo/train_manifest.json").is_file()
    assert "Nothing to be done" in _run(demo, copy).stdout


@pytest.mark.readme
def test_demo_rebuilds_only_what_hangs_on_a_changed_recording(copy):
    demo = f"make demo BIN={BIN}"
    _run(demo, copy)
    path = copy / "sample_data/cmlr/text/s1/20170121/section_1_000.80_002.91.txt"
    path.write_text("今天天气很好\n", encoding="utf-8")
    done = _run(demo, copy)
    assert done.returncode == 0, done.stderr
    assert "cmlr" in done.stdout
    assert "amigos" not in done.stdout
    assert "今天天气很好" in (copy / "build/demo/cmlr/split/manifest.jsonl").read_text()


@pytest.mark.readme
def test_the_tests_and_checks_are_make_targets():
    for target in ("test", "check", "bench", "clean", "help"):
        done = _run(f"make -n {target}", ROOT)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_stands_in_the_readme_and_has_help(command, mmprep):
    assert f"mmprep {command}" in README
    done = mmprep(command, "--help")
    assert done.code == 0
    assert "Usage: mmprep" in done.out


def test_version_is_the_newest_of_the_changes():
    from importlib.metadata import version

    newest = re.search(r"## Changes\s+### (\S+)", README)
    assert newest is not None
    assert newest[1] == version("mmprep")
