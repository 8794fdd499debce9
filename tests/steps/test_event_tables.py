"""Events, annotations and irregular rows through `align`: tables on the session clock."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from mmprep import UsageError, run_align, run_convert
from mmprep.manifest.codec import read_manifest
from mmprep.steps.base import FailedItemsError

SERIAL = {"engine": "serial"}
FAST = 1.0001  # the device gains 100 ppm


@pytest.fixture
def session(tmp_path) -> Path:
    """A signal and events of 20 s, on one device clock that is 100 ppm fast and 3 s ahead."""
    folder = tmp_path / "raw/s1"
    folder.mkdir(parents=True)
    begin_s = np.arange(160) / 8
    rows = [f"{3 + t * FAST:.9f}\t{k}\n" for k, t in enumerate(begin_s)]
    (folder / "x.tsv").write_text("time\tx\n" + "".join(rows))
    events = [
        (-1.0, 1.5, "before", 1),
        (2.0, 0, "雨", 2),
        (4.0, 5, "long", 3),
        (25.0, 0, "after", 4),
    ]
    lines = [f"{3 + t * FAST:.9f}\t{d * FAST:.9f}\t{w}\t{n}\n" for t, d, w, n in events]
    (folder / "notes.tsv").write_text("onset\tduration [s]\tword\tn\n" + "".join(lines))
    fixes = "".join(f"{3 + t * FAST:.9f}\t{t:.9f}\n" for t in range(-5, 40))
    for name in ("x", "notes"):
        (folder / f"{name}.clock.tsv").write_text("device\treference\n" + fixes)
    return tmp_path


def aligned(top: Path, **options):
    run_convert(top / "raw", output=top / "c", **SERIAL)
    run_align(top / "c", output=top / "out", **SERIAL, **options)
    (path,) = (top / "out/tables").rglob("*.parquet")
    return pq.read_table(path)


def seconds(table):
    return table.column("time").cast("int64").to_numpy() / 1e9


def test_events_move_with_the_clock_and_keep_their_columns(session):
    table = aligned(session)
    np.testing.assert_allclose(seconds(table), [-1, 2, 4], atol=1e-6)
    assert table.column("word").to_pylist() == ["before", "雨", "long"]
    assert table.column("n").to_pylist() == [1, 2, 3]
    np.testing.assert_allclose(table.column("duration [s]"), [1.5, 0, 5], atol=1e-6)


def test_accounting_of_events_names_those_outside(session):
    aligned(session)
    (events,) = json.loads((session / "out/sync/s1.json").read_text())["events"]
    assert events["table"] == "tables/notes/s1.parquet"
    counts = {"in": 4, "used": 3, "out_of_range": 1, "masked": 0, "duplicate": 0, "corrupt": 0}
    assert events["accounting"] == counts


def test_window_has_the_rows_of_its_events(session):
    aligned(session)
    found = {}
    for record in read_manifest(session / "out/manifest.jsonl"):
        events = record.extra.get("events", {"notes": {"rows": None}})["notes"]
        found[record.begin_s] = events["rows"]
        assert "notes" not in record.streams
    assert found[0.0] == [0, 1]
    assert found[1.0] is None
    assert found[2.0] == [1, 2]
    assert [found[float(k)] for k in range(4, 9)] == [[2, 3]] * 5
    assert found[9.0] is None


def test_stream_without_a_rate_goes_onto_windows_where_one_is_given(session):
    run_convert(session / "raw", output=session / "c", **SERIAL)
    run_align(session / "c", output=session / "out", rates="notes=1", cover="union", **SERIAL)
    (record, *_) = read_manifest(session / "out/manifest.jsonl")
    assert sorted(record.streams) == ["notes", "x"]
    texts = pq.read_schema(session / "out/tables/notes/s1.parquet")
    assert texts.names == ["id", "time", "word"]


def test_table_in_absolute_time_is_in_unix_time(tmp_path):
    folder = tmp_path / "raw/s1"
    folder.mkdir(parents=True)
    start = 1_700_000_000
    rows = "".join(f"{start + k / 4:.2f}\t{k}\n" for k in range(40))
    (folder / "x.tsv").write_text("time\tx\n" + rows)
    (folder / "m.tsv").write_text(f"time\tword\n{start + 3}\tgo\n{start + 7.5}\tstop\n")
    table = aligned(tmp_path)
    assert str(table.schema.field("time").type) == "timestamp[ns, tz=UTC]"
    assert seconds(table).tolist() == [start + 3, start + 7.5]


def test_texts_beside_numbers_are_events_where_they_begin(tmp_path):
    folder = tmp_path / "raw/s1"
    folder.mkdir(parents=True)
    word = {16: "go", 17: "go", 24: "stop", 40: "go", 41: "雨"}
    rows = [f"{k / 8:.3f}\t{k}\t{word.get(k, '')}\n" for k in range(80)]
    rows[24] = rows[24].replace("3.000", "200003.000")  # its stamp is repaired
    (folder / "x.tsv").write_text("time\tx\tword\n" + "".join(rows))
    table = aligned(tmp_path)
    assert table.column_names == ["id", "time", "word"]
    assert table.column("word").to_pylist() == ["go", "stop", "go", "雨"]
    np.testing.assert_allclose(seconds(table), [2, 3, 5, 5.125], atol=1e-6)
    records = list(read_manifest(tmp_path / "out/manifest.jsonl"))
    assert [record.begin_s for record in records if "events" in record.extra] == [2, 3, 5]
    assert "x" in records[0].streams


def test_empty_events_are_left_out_and_said(session, mmprep):
    (session / "raw/s1/notes.tsv").write_text("onset\tduration [s]\tword\tn\n")
    (session / "raw/s1/notes.clock.tsv").unlink()
    run_convert(session / "raw", output=session / "c", **SERIAL)
    done = mmprep("align", session / "c", "-o", session / "out", "--engine", "serial")
    assert done.code == 0
    assert "notes has no rows and is left out" in done.err


def test_events_alone_make_no_windows(session):
    (session / "raw/s1/x.tsv").unlink()
    (session / "raw/s1/x.clock.tsv").unlink()
    run_convert(session / "raw", output=session / "c", **SERIAL)
    with pytest.raises(FailedItemsError) as caught:
        run_align(session / "c", output=session / "out", **SERIAL)
    assert "events alone make no windows" in caught.value.failures[0].hint


# Raw streams


def test_raw_events_keep_their_columns(session):
    folder = session / "raw/s1"
    streams = (f"x={folder}/x.tsv", f"notes={folder}/notes.tsv,kind=events")
    clocks = tuple(f"{name}={folder}/{name}.clock.tsv" for name in ("x", "notes"))
    run_align(output=session / "out", stream=streams, clock=clocks, **SERIAL)
    table = pq.read_table(session / "out/tables/notes/session.parquet")
    assert table.column("word").to_pylist() == ["before", "雨", "long"]
    np.testing.assert_allclose(seconds(table), [-1, 2, 4], atol=1e-6)


def test_markers_of_an_xdf_come_with_their_texts(shared, tmp_path):
    path = shared("made/B02/nominal_vs_effective.xdf")
    streams = (f"eeg={path}#0", f"marks={path}#1")
    run_align(output=tmp_path / "out", stream=streams, **SERIAL)
    table = pq.read_table(tmp_path / "out/tables/marks/session.parquet")
    assert table.column("value").to_pylist() == [f"ev{k}" for k in range(29)]


def test_annotations_are_found_without_their_name(shared, tmp_path):
    path = shared("edf/test.edf")
    streams = (f"eeg={path}", f"notes={path},kind=events")
    run_align(output=tmp_path / "out", stream=streams, **SERIAL)
    table = pq.read_table(tmp_path / "out/tables/notes/session.parquet")
    assert table.column("description").to_pylist() == [
        "start",
        "type A",
        "type A",
        "type B",
        "type A",
    ]


# Clocks


@pytest.fixture
def bids(shared, tmp_path) -> Path:
    """An EEG of BIDS whose events count from its first sample."""
    folder = tmp_path / "bids/sub-01/eeg"
    folder.mkdir(parents=True)
    (folder / "sub-01_task-x_eeg.edf").write_bytes(shared("edf/test.edf").read_bytes())
    events = shared("made/B11/sub-01_task-x_events.tsv").read_bytes()
    (folder / "sub-01_task-x_events.tsv").write_bytes(events)
    return tmp_path


@pytest.mark.parametrize("options", [{}, {"tz": "Europe/Rome"}])
def test_events_of_bids_count_from_the_first_sample_of_the_eeg(bids, options):
    run_convert(bids / "bids", output=bids / "c", layout="bids", **options, **SERIAL)
    run_align(bids / "c", output=bids / "out", **SERIAL)
    origin_ns = json.loads((bids / "out/sync/sub-01/task-x.json").read_text())["origin_ns"]
    table = pq.read_table(bids / "out/tables/events/sub-01/task-x.parquet")
    assert (origin_ns is None) == (not options)
    begin_s = table.column("time").cast("int64").to_numpy() - (origin_ns or 0)
    assert begin_s.tolist() == [1_500_000_000, 3_500_000_000, 5_500_000_000]


def test_raw_events_of_bids_find_their_eeg_by_its_name(bids):
    folder = bids / "bids/sub-01/eeg"
    names = {"eeg": "sub-01_task-x_eeg.edf", "events": "sub-01_task-x_events.tsv,kind=events"}
    streams = tuple(f"{name}={folder}/{file}" for name, file in names.items())
    run_align(output=bids / "out", stream=streams, **SERIAL)
    table = pq.read_table(bids / "out/tables/events/session.parquet")
    assert seconds(table).tolist() == [1.5, 3.5, 5.5]


def test_clock_that_is_given_for_a_signal_holds_for_the_annotations_of_its_file(shared, tmp_path):
    run_convert(shared("edf/test.edf"), output=tmp_path / "c", **SERIAL)
    start = 1_398_809_984  # local time of the file
    fixes = (f"{start + t}\t{1000 + t * FAST:.9f}\n" for t in range(-2, 12))
    (tmp_path / "log.tsv").write_text("device_s\treference_s\n" + "".join(fixes))
    clock = (f"signal={tmp_path}/log.tsv",)
    run_align(tmp_path / "c", output=tmp_path / "out", clock=clock, **SERIAL)
    table = pq.read_table(tmp_path / "out/tables/annotations/test.parquet")
    begin_s = np.array([0, 0.1344, 0.3904, 2, 2.5])
    np.testing.assert_allclose(seconds(table), begin_s * FAST, atol=2e-9)


def test_local_time_is_no_absolute_time(shared, tmp_path):
    run_convert(shared("edf/test.edf"), output=tmp_path / "c", **SERIAL)
    run_align(tmp_path / "c", output=tmp_path / "out", **SERIAL)
    sync = json.loads((tmp_path / "out/sync/test.json").read_text())
    assert sync["origin_ns"] is None
    table = pq.read_table(tmp_path / "out/tables/annotations/test.parquet")
    np.testing.assert_allclose(seconds(table), [0, 0.1344, 0.3904, 2, 2.5], atol=1e-9)


def test_local_time_beside_absolute_time_needs_its_zone(tmp_path):
    folder = tmp_path / "raw/s1"
    folder.mkdir(parents=True)
    utc = "".join(f"2024-05-01T10:00:{k:02d}Z\t{k}\n" for k in range(20))
    local = utc.replace("Z", "").replace("T10", "T12")
    (folder / "a.tsv").write_text("time\tx\n" + utc)
    (folder / "b.tsv").write_text("time\tx\n" + local)
    run_convert(folder.parent, output=tmp_path / "c", **SERIAL)
    with pytest.raises(UsageError, match="local time: b; local times need their zone"):
        run_align(tmp_path / "c", output=tmp_path / "out", **SERIAL)
