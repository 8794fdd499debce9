"""`mmprep align` as it is called."""

from __future__ import annotations

import numpy as np
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


def test_inputs_and_named_streams_together_are_a_usage_error(mmprep, tmp_path, pair):
    done = mmprep("align", tmp_path, *pair, "-o", tmp_path / "out", *SERIAL)
    assert done.code == 2
    assert "data sets and named streams together" in done.err
