"""`mmprep align` as it is called."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from mmprep import open_dataset
from mmprep.manifest.codec import read_manifest
from tests import raw

SERIAL = ("--engine", "serial")


@pytest.fixture
def pair(tmp_path):
    """Two streams that overlap from 1 s to 10 s."""
    eeg = raw.table(tmp_path / "eeg.tsv", n_rows=80, rate_hz=8)
    gsr = raw.table(tmp_path / "gsr.tsv", n_rows=40, rate_hz=4, start_s=1)
    return ("--eeg", eeg, "--gsr", gsr)


def test_named_streams_become_windows_on_one_clock(mmprep, tmp_path, pair):
    done = mmprep("align", *pair, "--session", "s1", "-o", tmp_path / "out", *SERIAL)
    assert (done.code, done.out) == (0, f"{tmp_path}/out/dataset.json\n")
    data = open_dataset(tmp_path / "out")
    assert [row["id"] for row in data][:2] == ["s1/000000", "s1/000001"]
    np.testing.assert_allclose(data[2]["eeg"][:, 0], 24 + np.arange(8), atol=1e-3)
    np.testing.assert_allclose(data[2]["gsr"][:, 0], 8 + np.arange(4), atol=1e-3)


def test_json_counts_the_windows(mmprep, tmp_path, pair):
    done = mmprep("align", *pair, "-o", tmp_path / "out", "--json", *SERIAL)
    assert done.json["totals"]["records"] == len(open_dataset(tmp_path / "out")) == 9


def test_dry_run_says_what_and_writes_nothing(mmprep, tmp_path, pair):
    done = mmprep("align", *pair, "-o", tmp_path / "out", "-n", *SERIAL)
    assert (done.code, done.out) == (0, "")
    assert "items 1" in done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["eeg.tsv", "gsr.tsv"]


def test_depfile_names_streams_clocks_and_labels(mmprep, tmp_path, pair, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labels.tsv").write_text("session\tlabel\nsession\thappy\n")
    (tmp_path / "eeg.log").write_text("device\treference\n0\t0\n20\t20\n")
    more = ("--clock", "eeg=eeg.log", "--labels", "labels.tsv", "--on", "session")
    done = mmprep("align", *pair, *more, "-o", "out", "--depfile", "out.d", *SERIAL)
    assert done.code == 0, done.err
    rules = (tmp_path / "out.d").read_text().splitlines()
    assert {"eeg.tsv:", "gsr.tsv:", "eeg.log:", "labels.tsv:"} == set(rules[1:])


def test_fixes_too_few_to_bound_the_error_give_null(mmprep, tmp_path, pair):
    (tmp_path / "eeg.log").write_text("device\treference\n0\t0\n20\t20\n")
    more = ("--clock", f"eeg={tmp_path}/eeg.log", "-o", tmp_path / "out", *SERIAL)
    assert mmprep("align", *pair, *more).code == 0
    record = next(read_manifest(tmp_path / "out/manifest.jsonl"))
    assert record.bound_s == {"eeg": None, "gsr": None}


def test_stream_option_takes_rate_and_kind(mmprep, tmp_path):
    path = raw.sound(tmp_path / "a.wav")
    raw.table(tmp_path / "x.tsv", n_rows=10)
    done = mmprep(
        "align", "--stream", f"voice={path}", "--stream", f"x={tmp_path}/x.tsv,rate=4",
        "--window", "0.1", "--rate", "100", "-o", tmp_path / "out", *SERIAL,
    )  # fmt: skip
    assert done.code == 0, done.err
    record = next(read_manifest(tmp_path / "out/manifest.jsonl"))
    assert {name: ref.rate_hz for name, ref in record.streams.items()} == {"voice": 100, "x": 100}


@pytest.mark.parametrize("name", ["left, dry.tsv", "odd,rate=4.tsv"])
def test_stream_and_clock_may_lie_in_files_with_commas(mmprep, tmp_path, name):
    raw.table(tmp_path / name, n_rows=80, rate_hz=8)
    (tmp_path / f"log of {name}").write_text("device\treference\n0\t0\n20\t20\n")
    streams = ("--stream", f"x={tmp_path}/{name},rate=8", "--eeg", tmp_path / name)
    more = ("--clock", f"x={tmp_path}/log of {name},unit=s", "-o", tmp_path / "out", *SERIAL)
    done = mmprep("align", *streams, *more)
    assert done.code == 0, done.err
    assert len(open_dataset(tmp_path / "out")) == 10


def _logged(tmp_path: Path, name: str, ahead_s: int) -> None:
    rows = "".join(f"{k}\t{k + ahead_s}\n" for k in range(0, 30, 2))
    (tmp_path / name).write_text("device\treference\n" + rows)


def test_clock_log_beside_a_named_stream_is_taken_and_said(mmprep, tmp_path, pair):
    _logged(tmp_path, "eeg.clock.tsv", 100)
    _logged(tmp_path, "gsr.ptp.tsv", 101)
    done = mmprep("align", *pair, "-o", tmp_path / "out", "--depfile", tmp_path / "d", *SERIAL)
    assert done.code == 0, done.err
    assert "eeg: eeg.clock.tsv beside its file is its clock log" in done.err
    assert f"{tmp_path}/gsr.ptp.tsv:" in (tmp_path / "d").read_text()
    sync = json.loads((tmp_path / "out/sync/session.json").read_text())
    assert sync["origin_on_clock_ns"] == 102 * 10**9
    assert all(stream["master"] == "the master" for stream in sync["streams"])


def test_clock_log_that_is_named_goes_before_the_one_beside(mmprep, tmp_path, pair):
    _logged(tmp_path, "eeg.clock.tsv", 100)
    _logged(tmp_path, "eeg.log", 5)
    more = ("--clock", f"eeg={tmp_path}/eeg.log", "-o", tmp_path / "out", *SERIAL)
    done = mmprep("align", *pair, *more)
    assert done.code == 0, done.err
    assert "eeg.clock.tsv" not in done.err
    sync = json.loads((tmp_path / "out/sync/session.json").read_text())
    assert sync["origin_on_clock_ns"] == 5 * 10**9


def test_text_columns_of_a_named_stream_become_a_table(mmprep, tmp_path):
    rows = "".join(f"{k / 8}\t{k}\t{'go' if k in {16, 17, 40} else ''}\n" for k in range(80))
    (tmp_path / "x.tsv").write_text("time\tx\tword\n" + rows)
    done = mmprep("align", "--eeg", tmp_path / "x.tsv", "-o", tmp_path / "out", *SERIAL)
    assert "eeg: columns of text become a table: word" in done.err
    table = pq.read_table(tmp_path / "out/tables/eeg/session.parquet")
    seconds = np.array(table.column("time").cast("int64")) / 1e9
    np.testing.assert_allclose(seconds, [2, 5], atol=1e-6)
    assert table.column("word").to_pylist() == ["go", "go"]


def test_inputs_and_named_streams_together_are_a_usage_error(mmprep, tmp_path, pair):
    done = mmprep("align", tmp_path, *pair, "-o", tmp_path / "out", *SERIAL)
    assert done.code == 2
    assert "data sets and named streams together" in done.err
