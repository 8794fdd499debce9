"""`convert` on a disk that fills up: nothing is published or lost, the rest is done later."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mmprep.steps import base
from mmprep.steps.check import check
from mmprep.steps.running.tasks import Outcome, Task
from tests import raw
from tests.kill import tree

SMALL, LARGE = "2m", "60m"


@pytest.fixture
def disk(tmp_path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(place)]
    if os.geteuid() or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount a small file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def resize(disk: Path, size: str) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", str(disk)], check=True)


def _tables(folder: Path) -> int:
    for k in range(8):
        noise = np.random.default_rng(k).random((20_000, 2))
        rows = (f"{row / 128}\t{x}\t{y}\n" for row, (x, y) in enumerate(noise))
        path = folder / f"P{k}/eeg.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("time\tx\ty\n" + "".join(rows))
    return 8


def _sounds(folder: Path) -> int:
    for k in range(8):
        raw.sound(folder / f"u{k}.wav", n_samples=150_000)
    return 8


KINDS = {"tables": _tables, "sound": _sounds}


@pytest.mark.parametrize("engine", ["serial", "pool"])
@pytest.mark.parametrize("kind", KINDS)
def test_full_disk_is_exit_3_and_the_next_run_continues(mmprep, tmp_path, disk, kind, engine):
    source, out = tmp_path / "in", disk / "out"
    n_items = KINDS[kind](source)
    command = ["convert", source, "-o", out, "--engine", engine, "-j", "2", "--shard-size", "700kB"]
    full = mmprep(*command)
    assert full.code == 3
    told = re.search(r"about (\d+) bytes more are needed, (\d+) are free", full.err)
    assert told is not None
    assert int(told[1]) > int(told[2])
    assert str(out) in full.err
    assert "hint: make room and run the same command again" in full.err
    assert not out.exists()
    held = [path for path in disk.rglob("*") if path.suffix in {".npy", ".parquet"}]
    resize(disk, LARGE)
    again = mmprep(*command, "--json")
    assert again.code == 0
    assert again.json["totals"]["records"] == n_items
    assert again.json["reused"] >= len(held)
    assert held or engine == "pool"  # whose tasks count in their order
    elsewhere = tmp_path / "out"
    assert mmprep("convert", source, "-o", elsewhere, "--shard-size", "700kB").code == 0
    assert tree(out) == tree(elsewhere)
    assert check(str(out), checksums=True).findings == ()


@pytest.mark.parametrize("kind", KINDS)
def test_full_disk_leaves_the_old_data_set_as_it_was(mmprep, tmp_path, disk, kind):
    source, out = tmp_path / "in", disk / "out"
    raw.table(source / "P9/eeg.tsv")
    raw.sound(source / "u9.wav")
    assert mmprep("convert", source, "-o", out).code == 0
    before = tree(out)
    KINDS[kind](source)
    assert mmprep("convert", source, "-o", out, "--shard-size", "700kB").code == 3
    assert tree(out) == before
    assert check(str(out), checksums=True).findings == ()


def test_file_size_limit_is_exit_3(tmp_path):
    _sounds(tmp_path / "in")
    done = subprocess.run(
        [sys.executable, "-m", "mmprep", "convert", tmp_path / "in", "-o", tmp_path / "out"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, 10**6)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert re.search(r"File too large \(EFBIG\): about \d+ bytes more are needed", done.stderr)
    assert not (tmp_path / "out").exists()
    assert not list((tmp_path / "out.incomplete").rglob("*.npy"))


def test_need_is_told_from_what_is_done():
    pace = base._Pace(n_expected=9 << 20)
    tasks = [Task(str(k), (), {}) for k in range(2)]
    pace.begin(tasks)
    assert pace.n_needed == 9 << 20
    pace.n_left, pace.n_read, pace.n_written = 30 << 20, 10 << 20, 2 << 20
    assert pace.n_needed == 6 << 20
    pace.note(Outcome("0", {"files": [["a", 2 << 20, ""]]}), tasks[0])
    assert pace.n_needed == 12 << 20
    pace.n_left = 0
    assert pace.n_needed == base.MANIFEST_BYTES
