"""Clock evidence through `align`: what a raw XDF brings, relations between clocks, what is said."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from mmprep import open_dataset, run_align
from mmprep.manifest.codec import read_manifest

SERIAL = {"engine": "serial"}


def sync_of(folder: Path) -> dict:
    return json.loads((folder / "sync/session.json").read_text())


def streams_of(folder: Path) -> dict:
    return {one["name"]: one for one in sync_of(folder)["streams"]}


# XDF


@pytest.fixture
def restarted(shared, tmp_path) -> Path:
    """The recording of a PC that was restarted, aligned from the raw file."""
    path = shared("made/B01/clock_reset.xdf")
    streams = (f"eeg={path}#EEG", f"marks={path}#Stim")
    run_align(output=tmp_path / "out", stream=streams, **SERIAL)
    return tmp_path / "out"


def test_raw_xdf_brings_the_clock_offsets_of_its_streams(restarted):
    eeg = streams_of(restarted)["eeg"]
    assert eeg["master"] == "the recorder of clock_reset.xdf"
    assert eeg["clock"]["method"] == "fixes"
    assert len(eeg["clock"]["segments"]) == 2
    assert all(r.bound_s["eeg"] < 0.01 for r in read_manifest(restarted / "manifest.jsonl"))


def test_pulses_of_a_raw_xdf_sit_on_its_markers_on_both_sides_of_a_restart(restarted):
    table = pq.read_table(restarted / "tables/marks/session.parquet")
    markers = np.asarray(table.column("time").cast("int64")) / 1e9
    begins = [record.begin_s for record in read_manifest(restarted / "manifest.jsonl")]
    values = np.stack([row["eeg"][:, 0] for row in open_dataset(restarted)])
    window, sample = np.nonzero(values > 0.5 * values.max())
    pulses = np.array(begins)[window] + sample / 128
    assert len(markers) == 22
    assert np.abs(markers[:, None] - pulses).min(axis=1).max() <= 1 / 128
    assert (markers < 60).any()
    assert (markers > 64).any()


def test_given_log_comes_before_the_offsets_of_an_xdf(shared, tmp_path):
    path = shared("made/B01/clock_reset.xdf")
    # The stream's stamps run from 10000 s on; the log says they are 9000 s ahead.
    (tmp_path / "log.tsv").write_text("device\treference\n10000.5\t1000.5\n10060.5\t1060.5\n")
    options = {"stream": (f"eeg={path}#EEG",), "clock": (f"eeg={tmp_path}/log.tsv",)}
    run_align(output=tmp_path / "out", **options, **SERIAL)
    eeg = streams_of(tmp_path / "out")["eeg"]
    assert eeg["master"] == "the master"
    assert eeg["fixes"] == [
        [10_000_500_000_000, 1_000_500_000_000],
        [10_060_500_000_000, 1_060_500_000_000],
    ]
