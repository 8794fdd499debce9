"""What was not recorded is masked, where segments and counters of devices tell of it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mmprep import open_dataset, run_align
from tests.sources import test_openbci, test_opensignals

HEADER = """Brain Vision Data Exchange Header File Version 1.0
[Common Infos]
DataFile=a.eeg
MarkerFile=a.vmrk
DataFormat=BINARY
DataOrientation=MULTIPLEXED
NumberOfChannels=1
SamplingInterval=10000
[Binary Infos]
BinaryFormat=IEEE_FLOAT_32
[Channel Infos]
Ch1=Cz,,1,µV
"""
RATE_HZ = 100


def brainvision(folder, pause_s):
    """Record two segments of 10 s; each value is its own time in seconds."""
    at_s = np.arange(2000) / RATE_HZ
    at_s[1000:] += pause_s
    second = f"201001021000{10 + pause_s:09.6f}".replace(".", "")
    marks = f"Mk1=New Segment,,1,1,0,20100102100000000000\nMk2=New Segment,,1001,1,0,{second}\n"
    (folder / "a.vhdr").write_text(HEADER, encoding="utf-8")
    (folder / "a.vmrk").write_text(
        f"Brain Vision Data Exchange Marker File, Version 1.0\n[Marker Infos]\n{marks}"
    )
    (folder / "a.eeg").write_bytes(at_s.astype("<f4").tobytes())
    return folder / "a.vhdr", at_s


def aligned(path, out, rate_hz, channel=0):
    """Align a file; give a channel and its mask on one time line, and what sync says."""
    run_align(output=out, stream=(f"x={path}",), rate=str(rate_hz), engine="serial")
    data = open_dataset(out, fill="nan")
    found = data[list(range(len(data)))]
    sync = json.loads((out / "sync/session.json").read_text())
    return found["x"][..., channel].reshape(-1), found["x.valid"].reshape(-1), sync["streams"][0]


def covered(at_s, recorded_s, rate_hz):
    """Say which times lie on a sample, or between two of which none is missing."""
    after = np.clip(np.searchsorted(recorded_s, at_s - 1e-9), 1, recorded_s.size - 1)
    is_one = (
        np.minimum(np.abs(recorded_s[after] - at_s), np.abs(recorded_s[after - 1] - at_s)) < 1e-6
    )
    return is_one | (recorded_s[after] - recorded_s[after - 1] < 1.5 / rate_hz)


@pytest.mark.parametrize("pause_s", [0.03, 0.5, 5.374, 12.0])
def test_new_segment_of_brainvision_is_masked_and_listed(tmp_path, pause_s):
    path, recorded_s = brainvision(tmp_path, pause_s)
    values, valid, sync = aligned(path, tmp_path / "out", RATE_HZ)
    at_s = np.arange(valid.size) / RATE_HZ
    np.testing.assert_array_equal(valid, covered(at_s, recorded_s, RATE_HZ))
    np.testing.assert_allclose(values[valid], at_s[valid], atol=2e-3)
    np.testing.assert_allclose(sync["gaps_s"], [[9.99, 10 + pause_s]], atol=1e-6)
    assert sync["accounting"]["in"] == 2000


def test_lost_packets_of_opensignals_are_masked_and_listed(tmp_path):
    kept = np.setdiff1d(np.arange(1600), [*range(300, 305), 700, *range(1111, 1120)])
    path = test_opensignals.bitalino(tmp_path, kept.tolist())
    values, valid, sync = aligned(path, tmp_path / "out", RATE_HZ, channel=2)
    at_s = np.arange(valid.size) / RATE_HZ
    np.testing.assert_array_equal(valid, covered(at_s, kept / RATE_HZ, RATE_HZ))
    np.testing.assert_allclose(sync["gaps_s"], [[2.99, 3.05], [6.99, 7.01], [11.1, 11.2]])
    np.testing.assert_allclose(values[valid], np.flatnonzero(valid), atol=0.5)
    assert sync["repairs"]["n_lost"] == 15


def test_lost_packets_of_openbci_are_masked_and_listed(tmp_path):
    kept = np.setdiff1d(np.arange(2500), [*range(500, 510), 1001])
    path = test_openbci.new(tmp_path, kept.tolist())
    values, valid, sync = aligned(path, tmp_path / "out", 250, channel=1)
    at_s = np.arange(valid.size) / 250
    np.testing.assert_array_equal(valid, covered(at_s, kept / 250, 250))
    np.testing.assert_allclose(sync["gaps_s"], [[1.996, 2.04], [4.0, 4.008]], atol=1e-5)
    np.testing.assert_allclose(values[valid], np.flatnonzero(valid) + 0.5, atol=0.5)
    assert sync["repairs"]["n_lost"] == 11


def _record(path, spans_s):
    rows = (
        f"{at_s:.2f}\t{at_s % 100:.2f}\n" for span in spans_s for at_s in np.arange(*span, 0.25)
    )
    path.write_text("time\tx\n" + "".join(rows))
    return path


def test_pause_of_days_is_a_gap_and_said(tmp_path, mmprep):
    path = _record(tmp_path / "x.tsv", [(0, 90), (3 * 86_400, 3 * 86_400 + 70)])
    more = ("--on-gap", "drop", "-o", tmp_path / "out", "--engine", "serial")
    done = mmprep("align", "--stream", f"x={path}", *more)
    assert "x: a pause of 3.0 days is a gap" in done.err
    sync = json.loads((tmp_path / "out/sync/session.json").read_text())["streams"][0]
    assert sync["gaps_s"] == [[89.75, 259200.0]]
    assert (sync["accounting"]["in"], sync["accounting"]["corrupt"]) == (640, 0)
    assert len(open_dataset(tmp_path / "out")) == 90 + 70


def test_rows_that_are_left_out_for_lying_days_away_are_said(tmp_path, mmprep):
    path = _record(tmp_path / "x.tsv", [(0, 10), (3 * 86_400, 3 * 86_400 + 70)])
    done = mmprep("align", "--eeg", path, "-o", tmp_path / "out", "--engine", "serial")
    assert "eeg: 40 rows without a usable stamp" in done.err
    assert "eeg: 40 of them lie days from the others" in done.err
