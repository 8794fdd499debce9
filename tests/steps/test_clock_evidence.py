"""Clock evidence through `align`: what a raw XDF brings, relations between clocks, what is said."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from mmprep import open_dataset, run_align
from mmprep.manifest.codec import read_manifest
from mmprep.steps.base import FailedItemsError

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


# Logs of linuxptp


def ramp(path: Path, times_s) -> Path:
    """Write a stream at 8 Hz whose values count the seconds from the start."""
    rows = (f"{time:.6f}\t{k / 8}\n" for k, time in enumerate(times_s))
    path.write_text("time\tx\n" + "".join(rows))
    return path


def phc2sys(path: Path, rows, *, dated: bool) -> Path:
    """Write a log of (seconds since boot, ns ahead, state) of a host that booted at 1.7e9."""
    lines = [
        (f"{1_700_000_000 + at:.3f} box " if dated else "")
        + f"phc2sys[{at:.3f}]: CLOCK_REALTIME phc offset {ahead} {state} freq +0 delay 900\n"
        for at, ahead, state in rows
    ]
    path.write_text("".join(lines))
    return path


UNIX = 1_700_000_000


def test_log_with_dates_is_that_of_a_stream_in_unix_time(tmp_path):
    eeg = ramp(tmp_path / "eeg.tsv", UNIX + np.arange(480) / 8)
    gsr = ramp(tmp_path / "gsr.tsv", UNIX + np.arange(480) / 8 + 0.25)
    rows = [(k, 250_000_000 + k, "s2") for k in range(60)]
    log = phc2sys(tmp_path / "gsr.log", rows, dated=True)
    clocks = (f"gsr={log}",)
    run_align(output=tmp_path / "out", eeg=str(eeg), gsr=str(gsr), clock=clocks, **SERIAL)
    found = streams_of(tmp_path / "out")
    assert found["gsr"]["master"] == "the master"
    assert found["eeg"]["master"] is None
    one, other = (np.load(tmp_path / f"out/{n}/shard-00000.npy") for n in ("eeg", "gsr"))
    np.testing.assert_allclose(one, other, atol=1e-5)


def test_step_of_the_system_clock_is_a_step_of_its_stamps(tmp_path):
    true = np.arange(960) / 8
    ahead = np.where(true < 60, 3.0, 0.0)
    gsr = ramp(tmp_path / "gsr.tsv", UNIX + true + ahead)
    eeg = ramp(tmp_path / "eeg.tsv", UNIX + true)
    lines = [(k, round(ahead[8 * k] * 1e9) + 5 * (k % 3), "s2") for k in range(120)]
    log = tmp_path / "gsr.log"
    log.write_text(
        "".join(
            f"{UNIX + k + (ahead_ns > 10**9) * 3:.3f} phc2sys[{500 + k}.000]: CLOCK_REALTIME phc"
            f" offset {ahead_ns} {state} freq +0 delay 900\n"
            for k, ahead_ns, state in lines
        )
    )
    clocks = (f"gsr={log}",)
    run_align(output=tmp_path / "out", eeg=str(eeg), gsr=str(gsr), clock=clocks, **SERIAL)
    assert len(streams_of(tmp_path / "out")["gsr"]["clock"]["segments"]) == 2
    one, other = (np.load(tmp_path / f"out/{n}/shard-00000.npy") for n in ("eeg", "gsr"))
    valid = np.load(tmp_path / "out/gsr.valid/shard-00000.npy")
    np.testing.assert_allclose(one[valid], other[valid], atol=1e-3)
    assert valid.mean() > 0.99


def test_log_without_dates_does_not_fit_unix_time(tmp_path):
    gsr = ramp(tmp_path / "gsr.tsv", UNIX + np.arange(480) / 8)
    log = phc2sys(tmp_path / "gsr.log", [(k, k, "s2") for k in range(60)], dated=False)
    with pytest.raises(FailedItemsError) as caught:
        run_align(output=tmp_path / "out", gsr=str(gsr), clock=(f"gsr={log}",), **SERIAL)
    assert "the log tells time since boot, the stamps Unix time" in caught.value.failures[0].message
    assert "short-unix" in caught.value.failures[0].hint


@pytest.mark.parametrize("same_host", [True, False])
def test_times_since_boot_relate_the_streams_of_one_host_only(tmp_path, same_host):
    streams = [ramp(tmp_path / f"{name}.tsv", np.arange(480) / 8) for name in ("eeg", "gsr")]
    logs = [
        phc2sys(tmp_path / f"{n}.log", [(t, 3, "s2") for t in range(first, 60)], dated=False)
        for n, first in (("eeg", 0), ("gsr", 0 if same_host else 1))
    ]
    options = {"eeg": str(streams[0]), "gsr": str(streams[1]), **SERIAL}
    clocks = (f"eeg={logs[0]}", f"gsr={logs[1]}")
    if same_host:
        run_align(output=tmp_path / "out", clock=clocks, **options)
        return
    with pytest.raises(FailedItemsError) as caught:
        run_align(output=tmp_path / "out", clock=clocks, **options)
    assert "nothing relates them" in caught.value.failures[0].message


# Relations


START = "2023-11-14T22:13:20+00:00"


@pytest.mark.parametrize(
    ("begins_s", "options", "said"),
    [
        ((0, 0), {}, "no clock evidence for eeg, gsr: taken as on the session clock, bound null"),
        ((UNIX, UNIX), {}, "no clock evidence for eeg, gsr"),
        ((0, UNIX), {"start": f"eeg={START}"}, "no clock evidence for eeg, gsr"),
        ((0, 7), {"start": f"eeg={START}"}, None),
        ((0, UNIX), {}, None),
        ((UNIX, 10**9 * 1000), {}, None),
    ],
)
def test_streams_are_related_by_evidence_or_unix_time_alone(
    mmprep, tmp_path, begins_s, options, said
):
    for name, begin_s in zip(("eeg", "gsr"), begins_s, strict=True):
        ramp(tmp_path / f"{name}.tsv", begin_s + np.arange(480) / 8)
    words = [word for key, value in options.items() for word in (f"--{key}", value)]
    named = ("--eeg", tmp_path / "eeg.tsv", "--gsr", tmp_path / "gsr.tsv")
    done = mmprep("align", *named, *words, "-o", tmp_path / "out", "--engine", "serial")
    if said is None:
        assert done.code == 3
        assert "nothing relates them" in done.err or "don't overlap" in done.err
        return
    assert done.code == 0, done.err
    assert said in done.err
    assert next(read_manifest(tmp_path / "out/manifest.jsonl")).bound_s == {
        "eeg": None,
        "gsr": None,
    }


def test_one_stream_alone_needs_no_relation(mmprep, tmp_path):
    ramp(tmp_path / "eeg.tsv", np.arange(480) / 8)
    named = ("--eeg", tmp_path / "eeg.tsv", "-o", tmp_path / "out", "--engine", "serial")
    assert "no clock evidence" not in mmprep("align", *named).err


@pytest.mark.parametrize("start", [START, str(UNIX), f"{UNIX}.25"])
def test_start_puts_a_stream_on_unix_time(tmp_path, start):
    eeg = ramp(tmp_path / "eeg.tsv", 5 + np.arange(480) / 8)
    run_align(output=tmp_path / "out", eeg=str(eeg), start=(f"eeg={start}",), **SERIAL)
    part_ns = 250_000_000 if start.endswith(".25") else 0
    assert sync_of(tmp_path / "out")["origin_ns"] == UNIX * 10**9 + part_ns


def test_latency_of_a_relay_moves_its_stream_and_is_on_record(tmp_path):
    true = UNIX + np.arange(480) / 8
    eeg, eda = ramp(tmp_path / "eeg.tsv", true), ramp(tmp_path / "eda.tsv", true + 1.2)
    streams = (f"eeg={eeg}", f"eda={eda}")
    run_align(output=tmp_path / "out", stream=streams, latency=("eda=1200",), **SERIAL)
    found = streams_of(tmp_path / "out")
    assert (found["eeg"]["latency_s"], found["eda"]["latency_s"]) == (0.0, 1.2)
    one, other = (np.load(tmp_path / f"out/{n}/shard-00000.npy") for n in ("eeg", "eda"))
    np.testing.assert_allclose(one, other, atol=1e-5)
