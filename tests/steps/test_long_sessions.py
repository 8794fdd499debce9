"""Long sessions: readings beyond a budget lie in files, and are resampled block by block."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
import soundfile
from pyarrow import csv

from mmprep import open_dataset, run_align, run_convert
from mmprep.steps.sessions import session, windowcut
from tests import raw
from tests.conftest import ROOT
from tests.kill import tree

MIB = 2**20
N_ROWS, N_CHANNELS = 50_000, 160  # 61 MiB of float64


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """Write many channels at 100 Hz."""
    path = tmp_path_factory.mktemp("wide") / "wide.tsv"
    values = (np.arange(N_ROWS)[:, None] + np.arange(N_CHANNELS)) % 1000 / 10
    columns = {"time": np.arange(N_ROWS) / 100}
    columns |= {f"c{k}": values[:, k] for k in range(N_CHANNELS)}
    options = csv.WriteOptions(include_header=False, delimiter="\t")
    with path.open("wb") as file:
        file.write("\t".join(columns).encode() + b"\n")
        csv.write_csv(pa.table(columns), file, options)
    return path


@pytest.mark.parametrize("form", ["raw", "table"])
def test_memory_does_not_hold_the_readings_of_a_long_stream(wide, tmp_path, monkeypatch, form):
    monkeypatch.setattr(session, "BUDGET_BYTES", 0)
    monkeypatch.setattr(windowcut, "BLOCK_BYTES", MIB)
    options = {"stream": (f"wide={wide}",)}
    if form == "table":
        run_convert(wide, output=tmp_path / "made", engine="serial")
        options = {"inputs": (tmp_path / "made",)}
    tracemalloc.start()
    run_align(engine="serial", output=tmp_path / "out", **options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * MIB


def test_session_of_files_gives_the_same_bytes_in_whatever_place(sample, tmp_path, monkeypatch):
    monkeypatch.setattr(session, "BUDGET_BYTES", 0)
    run_align(
        sample / "amigos/features",
        output=tmp_path / "out",
        rates="video=30,eeg=128,gsr=4",
        labels=str(ROOT / "sample_data/amigos/labels.tsv"),
        on="session",
        engine="serial",
    )
    assert tree(tmp_path / "out") == tree(sample / "amigos/aligned")


def test_sound_that_lies_in_a_file_gives_its_samples(tmp_path, monkeypatch):
    monkeypatch.setattr(session, "BUDGET_BYTES", 0)
    sound = raw.sound(tmp_path / "a.wav", n_samples=24_000, n_channels=2)
    run_align(stream=(f"a={sound}",), output=tmp_path / "out", engine="serial")
    wanted = soundfile.read(sound, dtype="float32")[0].reshape(3, 8000, 2)
    np.testing.assert_array_equal(open_dataset(tmp_path / "out")[[0, 1, 2]]["a"], wanted)
