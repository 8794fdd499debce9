"""What all tests share."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from mmprep import run_align, run_convert, run_mfcc, run_split
from mmprep.cli import main

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("COLLECTED", ROOT.parent / "shared" / "data"))

# A machine under load is no fault; the same cases each time, so that a change is judged by itself.
settings.register_profile("calm", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000)  # `make fuzz`
settings.load_profile("calm")


@pytest.fixture
def shared() -> Callable[[str], Path]:
    """Find a collected file, or skip where the folder of collected files is absent."""

    def find(name: str) -> Path:
        path = SHARED / name
        if not path.exists():
            pytest.skip(f"the collected file {name} is not on this machine")
        return path

    return find


@pytest.fixture(scope="session")
def shared_folder() -> Path:
    """Give the folder of collected files, or skip where it is absent."""
    if not (SHARED / "SOURCES.tsv").exists():
        pytest.skip("the collected files are not on this machine")
    return SHARED


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON object on stdout."""
        return json.loads(self.out)


@pytest.fixture
def mmprep(capfd) -> Callable[..., Ran]:
    """Run the real command group in this process."""

    def run(*arguments: object) -> Ran:
        capfd.readouterr()
        code = main.run([str(argument) for argument in arguments])
        done = capfd.readouterr()
        return Ran(code, done.out, done.err)

    return run


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory where there is one: syncs cost nothing there."""
    yield from _in_memory()


@pytest.fixture(scope="module")
def memory_folder() -> Iterator[Path]:
    """As `memory`, for all tests of a module."""
    yield from _in_memory()


def _in_memory() -> Iterator[Path]:
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shm if os.access(shm, os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def sample(tmp_path_factory) -> Path:
    """The demo's data sets, made once: amigos/ and cmlr/ converted, features, aligned, split."""
    top = tmp_path_factory.mktemp("sample")
    amigos, cmlr = top / "amigos", top / "cmlr"
    raw = ROOT / "sample_data"
    serial = {"engine": "serial"}
    run_convert(
        raw / "amigos",
        output=amigos / "converted",
        layout="amigos",
        exclude=("labels.tsv", "truth.json"),
        **serial,
    )
    run_mfcc(amigos / "converted", output=amigos / "features", **serial)
    run_align(
        amigos / "features",
        output=amigos / "aligned",
        rates="video=30,eeg=128,gsr=4",
        labels=str(raw / "amigos/labels.tsv"),
        on="session",
        **serial,
    )
    ratios = "train=0.5,val=0.25,test=0.25"
    run_split(amigos / "aligned", output=amigos / "split", ratios=ratios, **serial)
    run_convert(raw / "cmlr", output=cmlr / "converted", layout="cmlr", **serial)
    run_mfcc(cmlr / "converted", output=cmlr / "features", **serial)
    return top
