"""Each command killed at every one of its file events, and run again: the same bytes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mmprep.cli import main
from mmprep.files import remove_tree
from mmprep.steps.check import check
from tests.conftest import ROOT
from tests.kill import run_killed_at, tree

RAW = ROOT / "sample_data"
CMLR = RAW / "cmlr"
SENTENCE = "s1/20170121/section_1_000.80_002.91"
SERIAL = ["--engine", "serial", "-q"]


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    """One sentence with its video, one short session with its clock logs, and what follows."""
    top = tmp_path_factory.mktemp("small")
    for part, suffix in (("audio", ".wav"), ("text", ".txt"), ("video", ".mp4")):
        target = top / "raw" / part / f"{SENTENCE}{suffix}"
        target.parent.mkdir(parents=True)
        shutil.copy(CMLR / part / f"{SENTENCE}{suffix}", target)
    (top / "tables").mkdir()
    for name in ("eeg", "gsr"):
        _shorten(RAW / f"amigos/P01/V01_{name}.tsv", top / f"tables/{name}.tsv", 700)
        shutil.copy(RAW / f"amigos/P01/V01_{name}.ptp.tsv", top / f"tables/{name}.ptp.tsv")
    convert = ["convert", str(top / "raw"), "--layout", "cmlr", "-o", str(top / "converted")]
    assert main.run([*convert, *SERIAL]) == 0
    return top


def _shorten(source: Path, target: Path, n_rows: int) -> None:
    lines = source.read_text().splitlines(keepends=True)
    target.write_text("".join(lines[: n_rows + 1]))


def _align(top: Path) -> list[str]:
    tables = top / "tables"
    named = [f"--{name}={tables}/{name}.tsv" for name in ("eeg", "gsr")]
    clocks = [f"--clock={name}={tables}/{name}.ptp.tsv" for name in ("eeg", "gsr")]
    return ["align", *named, *clocks, "--window", "0.5"]


def _export(to: str, *, audio: str = "flac") -> Callable[[Path], list[str]]:
    options = ["--to", to, "--audio", audio]
    return lambda top: ["manifest", "export", str(top / "converted"), *options]


COMMANDS = {
    "convert": lambda top: ["convert", str(top / "raw"), "--layout", "cmlr"],
    "convert tables": lambda top: ["convert", str(top / "tables")],
    "mfcc": lambda top: ["mfcc", str(top / "converted")],
    "align": _align,
    "split": lambda top: [
        "manifest",
        "split",
        str(top / "converted"),
        "--ratios",
        "train=1",
    ],
    **{f"export {to}": _export(to) for to in ("nemo", "webdataset", "hf", "mds")},
    "export parquet": _export("parquet", audio="reference"),
}


@pytest.mark.kill
@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_any_file_event_it_recovers(small, memory, name):
    out, reference = memory / "out", memory / "reference"
    command = COMMANDS[name](small)
    assert main.run([*command, "-o", str(reference), *SERIAL]) == 0
    wanted = tree(reference)
    for k in range(1, 1000):
        remove_tree(out)
        remove_tree(memory / "out.incomplete")
        code = run_killed_at(k, out, lambda: main.run([*command, "-o", str(out), *SERIAL]))
        if (out / "dataset.json").exists():
            assert check(str(out), checksums=True).n_errors == 0
        assert main.run([*command, "-o", str(out), *SERIAL]) == 0
        assert tree(out) == wanted
        if code is not None:
            break
    assert code == 0
    assert k > 20
