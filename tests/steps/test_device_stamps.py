"""Stamps as devices and their apps write them, through `convert` and `align`."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from mmprep import open_dataset, run_align, run_convert

SERIAL = {"engine": "serial"}
START = datetime(2021, 4, 5, 15, 48, 4)
PPM = 30


def aligned(source: Path, top: Path, stream: str = "", **options) -> tuple[dict, np.ndarray]:
    """Convert and align a file; give what `sync` says of its stream, and the values."""
    run_convert(source, output=top / "c", **SERIAL)
    dataset = f"{top}/c#{stream}" if stream else top / "c"
    run_align(dataset, output=top / "a", **SERIAL, **options)
    (path,) = (top / "a/sync").rglob("*.json")
    (facts,) = json.loads(path.read_text())["streams"]
    rows = open_dataset(top / "a", fill="nan")
    return facts, np.concatenate([row[facts["name"]] for row in rows])


def mind_monitor(path: Path, lost: tuple[int, ...] = ()) -> None:
    """Write two minutes of 7 Hz as the app does: packets of 12 rows, stamped as they arrive."""
    rng = np.random.default_rng(0)
    true_s = np.arange(2560 * 12) / (256 * (1 + PPM * 1e-6))
    arrived_s = true_s.reshape(-1, 12)[:, -1] + 0.02 + rng.exponential(0.008, 2560)
    inside_s = np.cumsum(rng.choice([0, 1e-3, 1e-3, 1e-3, 2e-3], (2560, 12)), axis=1)
    stamps_s = np.maximum.accumulate((arrived_s[:, None] + inside_s).reshape(-1))
    values = np.sin(2 * np.pi * 7 * true_s)
    rows = ["TimeStamp,Delta_TP9,RAW_TP9,AUX_RIGHT,Battery,Elements\n"]
    for k in np.flatnonzero(~np.isin(np.arange(2560 * 12) // 12, lost)):
        stamp = (START + timedelta(seconds=float(stamps_s[k]))).isoformat(" ", "milliseconds")
        rows.append(f"{stamp},0.5,{values[k]:.6f},1,100,\n")
    path.write_text("".join(rows))


def test_packets_of_a_phone_become_even_samples(tmp_path):
    mind_monitor(tmp_path / "mm.csv", lost=(300, 301, 900))
    facts, _ = aligned(tmp_path / "mm.csv", tmp_path, "eeg")
    assert facts["accounting"]["duplicate"] == 0
    assert facts["repairs"]["n_lost"] == 36
    assert facts["n_gaps"] == 2
    assert facts["rate_ppm"] == pytest.approx(PPM, abs=5)
    assert facts["repairs"]["estimate"] == "envelope"


def test_values_of_packets_lie_on_the_true_wave_but_for_a_constant_delay(tmp_path):
    mind_monitor(tmp_path / "mm.csv")
    _, values = aligned(tmp_path / "mm.csv", tmp_path, "eeg")
    seconds = np.arange(len(values)) / 256
    turns = values[:, 0] * np.exp(-2j * np.pi * 7 * seconds)
    late_s = np.angle(turns[: 256 * 110].reshape(11, -1).sum(axis=1)) / (2 * np.pi * 7)
    assert np.ptp(late_s) < 0.5e-3


def test_rate_that_only_the_stamps_tell_has_no_ppm(tmp_path):
    rows = "".join(f"{k / 51.7:.6f}\t{k}\n" for k in range(2000))
    (tmp_path / "x.tsv").write_text("time\tx\n" + rows)
    facts, _ = aligned(tmp_path / "x.tsv", tmp_path)
    assert (facts["nominal_rate_hz"], facts["rate_ppm"]) == (None, None)
    assert facts["effective_rate_hz"] == pytest.approx(51.7, rel=1e-6)


def test_rate_that_devices_are_made_for_has_its_ppm(tmp_path):
    rows = "".join(f"{k / 128 * (1 - 40e-6):.9f}\t{k}\n" for k in range(4000))
    (tmp_path / "x.tsv").write_text("time\tx\n" + rows)
    facts, _ = aligned(tmp_path / "x.tsv", tmp_path)
    assert facts["nominal_rate_hz"] == "128/1"
    assert facts["rate_ppm"] == pytest.approx(40, abs=0.01)


def test_stamps_that_stay_as_they_came_are_said_with_their_rate(tmp_path, mmprep):
    rng = np.random.default_rng(1)
    stamps = np.cumsum(rng.uniform(9.5e-3, 12e-3, 6000))
    rows = "".join(f"{t:.6f}\t{k}\n" for k, t in enumerate(stamps))
    (tmp_path / "x.tsv").write_text("time\tx\n" + rows)
    stream = f"x={tmp_path}/x.tsv,rate=100"
    done = mmprep("align", "--stream", stream, "-o", tmp_path / "a", "--engine", "serial")
    assert "x: stamps stay as they came: the measured rate 93.0" in done.err
    (facts,) = json.loads((tmp_path / "a/sync/session.json").read_text())["streams"]
    assert facts["effective_rate_hz"] == pytest.approx(93.02, abs=0.3)
    assert not facts["repairs"]["is_dejittered"]
    assert facts["moved_max_s"] == 0


def test_end_of_a_single_stream_is_not_said_to_cut_it_short(tmp_path, mmprep):
    rows = "".join(f"{k / 8}\t{k}\n" for k in range(15))
    (tmp_path / "x.tsv").write_text("time\tx\n" + rows)
    done = mmprep(
        "align", "--stream", f"x={tmp_path}/x.tsv", "-o", tmp_path / "a", "--engine", "serial"
    )
    assert done.code == 0
    assert "--cover" not in done.err
