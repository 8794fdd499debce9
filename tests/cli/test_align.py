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


def test_hints_of_readers_name_settings_of_the_stream(mmprep, tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n" + "1,2\n" * 40)
    done = mmprep("align", "--eeg", tmp_path / "x.csv", "-o", tmp_path / "out", *SERIAL)
    assert "name it by FILE,time=COLUMN, or give FILE,rate=HZ for rows" in done.err
    done = mmprep("align", "--eeg", f"{tmp_path}/x.csv,rate=8", "-o", tmp_path / "out", *SERIAL)
    assert done.code == 0, done.err


def test_local_time_takes_its_zone_behind_the_file(mmprep, tmp_path):
    rows = "".join(f"2024-05-01T12:00:{k:02d}\t{k}\n" for k in range(40))
    (tmp_path / "a.tsv").write_text("time\tx\n" + rows)
    (tmp_path / "b.tsv").write_text("time\tx\n" + rows.replace("T12", "T10").replace("\t", "Z\t"))
    streams = ("--stream", f"b={tmp_path}/b.tsv", "--stream")
    done = mmprep("align", *streams, f"a={tmp_path}/a.tsv", "-o", tmp_path / "out", *SERIAL)
    assert "a=FILE,tz=Europe/Rome" in done.err
    zoned = f"a={tmp_path}/a.tsv,tz=Europe/Rome"
    done = mmprep("align", *streams, zoned, "-o", tmp_path / "out", *SERIAL)
    assert done.code == 0, done.err
    row = open_dataset(tmp_path / "out")[3]
    assert row["a"][0, 0] == pytest.approx(row["b"][0, 0], abs=1e-3)


def test_tag_list_of_an_e4_alone_is_a_stream_of_events(mmprep, tmp_path):
    start = 1_711_846_800
    (tmp_path / "EDA.csv").write_text(f"{start}\n4\n" + "0.5\n" * 80)
    (tmp_path / "tags.csv").write_text(f"{start + 2.34}\n{start + 9}\n")
    streams = ("--stream", f"eda={tmp_path}/EDA.csv", "--stream", f"tags={tmp_path}/tags.csv")
    done = mmprep("align", *streams, "-o", tmp_path / "out", *SERIAL)
    assert done.code == 0, done.err
    table = pq.read_table(tmp_path / "out/tables/tags/session.parquet")
    seconds = np.array(table.column("time").cast("int64")) / 1e9 - start
    np.testing.assert_allclose(seconds, [2.34, 9])


def test_stream_shorter_than_a_window_is_said_to_be(mmprep, tmp_path):
    raw.table(tmp_path / "x.tsv", n_rows=3)
    done = mmprep("align", "--eeg", tmp_path / "x.tsv", "-o", tmp_path / "out", *SERIAL)
    assert "the stream lasts 0.75 s, a window has 1" in done.err


def test_events_of_which_none_lies_within_the_windows_are_named(mmprep, tmp_path, pair):
    (tmp_path / "keys.tsv").write_text("time_s\tkey\n5000\tgo\n5003\tstop\n")
    keys = ("--stream", f"keys={tmp_path}/keys.tsv,kind=events")
    done = mmprep("align", *pair, *keys, "-o", tmp_path / "out", *SERIAL)
    assert done.code == 0, done.err
    assert "keys: none of its 2 rows lies within the windows" in done.err
    (tmp_path / "keys.tsv").write_text("time_s\tkey\n5\tgo\n5003\tstop\n")
    done = mmprep("align", *pair, *keys, "-o", tmp_path / "out", *SERIAL)
    assert "none of its" not in done.err


def test_judged_unit_of_a_named_stream_is_said(mmprep, tmp_path, pair):
    (tmp_path / "keys.tsv").write_text("time\tkey\n5\tgo\n5003\tstop\n")
    keys = ("--stream", f"keys={tmp_path}/keys.tsv,kind=events")
    done = mmprep("align", *pair, *keys, "-o", tmp_path / "out", *SERIAL)
    said = "unit taken as us (the steps of its values); FILE,unit=U says otherwise"
    assert f"keys: time column 'time': {said}" in done.err
