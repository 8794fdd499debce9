"""`align --events`: clocks related by happenings that several of them saw."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from mmprep import UsageError, run_align, run_convert
from mmprep.clock import from_json, rising
from mmprep.manifest.codec import decode_dataset, read_manifest
from mmprep.steps.base import FailedItemsError
from mmprep.timebase import NS_PER_S
from tests.sources.test_xdf import chunk, header, offset, samples, text

SERIAL = {"engine": "serial"}
FAST, AHEAD_S = 1 + 250e-6, 5000.0  # the wrist's clock


def own_s(time_s):
    """Give the time of the wrist's clock."""
    return AHEAD_S + np.asarray(time_s) * FAST


@pytest.fixture
def happenings() -> np.ndarray:
    return np.sort(np.random.default_rng(5).uniform(2, 118, 30))


@pytest.fixture
def session(tmp_path, happenings) -> Path:
    """Two signals of 120 s, `eeg` on the true clock and `wrist` on its own, and their events."""
    begin = np.arange(960) / 8
    table(tmp_path / "eeg.tsv", "time\tx", zip(begin, begin, strict=True))
    table(tmp_path / "wrist.tsv", "time\tx", zip(own_s(begin), begin, strict=True))
    keys = [(t, f"press {k}") for k, t in enumerate(happenings) if k != 4]
    talk = [(t, "talk") for t in np.linspace(1, 119, 13)]
    table(tmp_path / "keys.tsv", "time\tword", sorted(keys + talk))
    table(tmp_path / "tags.tsv", "time\tn", [(own_s(t), 1) for t in np.delete(happenings, 9)])
    return tmp_path


def table(path: Path, head: str, rows) -> None:
    lines = (
        "\t".join(f"{cell:.9f}" if isinstance(cell, float) else str(cell) for cell in row)
        for row in rows
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([head, *lines, ""]))


def streams_of(folder: Path, session: str = "session") -> dict:
    found = json.loads((folder / f"sync/{session}.json").read_text())
    return {one["name"]: one for one in found["streams"]}


def aligned(folder: Path, *events: str, **options) -> dict:
    """Align the fixture's streams and give what `sync/` says of them."""
    options = {"stream": tuple(f"{n}={folder}/{n}.tsv" for n in ("eeg", "wrist"))} | options
    run_align(output=folder / "out", events=events, **SERIAL, **options)
    return streams_of(folder / "out")


def both(folder: Path) -> tuple[str, str]:
    return (f"eeg={folder}/keys.tsv,value=^press", f"wrist={folder}/tags.tsv")


def error_s(stream: dict, at_s: np.ndarray) -> float:
    """Say how wrong the clock of the wrist is at most."""
    model = from_json(stream["clock"])
    own_ns = np.rint(own_s(at_s) * NS_PER_S).astype(np.int64)
    return float(np.abs(model.apply(own_ns) / NS_PER_S - at_s).max())


def test_clock_of_a_stream_is_fitted_to_events_that_another_saw(session):
    wrist = aligned(session, *both(session))["wrist"]
    assert wrist["clock"]["method"] == "events"
    assert error_s(wrist, np.arange(0, 120.0)) < 1e-6
    assert wrist["clock"]["bound_s"] < 1e-4


def test_facts_of_a_match_count_misses_and_extras(session):
    shared = aligned(session, *both(session))["wrist"]["shared_events"]
    assert shared["reference"] == "eeg"
    assert (shared["n_events"], shared["n_events_of_reference"]) == (29, 29)
    assert (shared["n_matched"], shared["n_missed"], shared["n_extra"]) == (28, 1, 1)


def test_windows_hold_the_same_moments(session):
    aligned(session, *both(session))
    (record, *_) = read_manifest(session / "out/manifest.jsonl")
    assert record.bound_s["eeg"] < 1e-8  # the session is on its clock
    assert 0 < record.bound_s["wrist"] < 1e-4
    eeg, wrist = (np.load(session / f"out/{n}/shard-00000.npy") for n in ("eeg", "wrist"))
    np.testing.assert_allclose(eeg, wrist, atol=1e-4)
    head = decode_dataset((session / "out/dataset.json").read_bytes())
    assert head.sessions["session"].clock == "eeg"


def test_what_is_matched_is_said(session, mmprep):
    done = mmprep(
        "align", "--eeg", session / "eeg.tsv", "--stream", f"wrist={session}/wrist.tsv",
        *(word for one in both(session) for word in ("--events", one)),
        "-o", session / "out", "--engine", "serial",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "wrist and eeg: 28 events match of 29 and 29" in done.err
    assert "(-249.9 ppm)" in done.err
    assert "no clock evidence" not in done.err


def test_stream_with_a_log_is_the_reference(session, happenings):
    fixes = [(float(own_s(t)), t + 1000) for t in np.linspace(0, 120, 30)]
    table(session / "wrist.clock.tsv", "device\treference", fixes)
    clocks = (f"wrist={session}/wrist.clock.tsv",)
    found = aligned(session, *both(session), clock=clocks)
    eeg = from_json(found["eeg"]["clock"])
    assert found["eeg"]["shared_events"]["reference"] == "wrist"
    assert eeg.apply(np.array([0])) / NS_PER_S == pytest.approx(1000, abs=1e-5)
    head = decode_dataset((session / "out/dataset.json").read_bytes())
    assert head.sessions["session"].clock == "master"


def test_stream_of_the_session_clock_is_the_reference(session):
    found = aligned(session, *both(session), session_clock="wrist")
    assert found["eeg"]["shared_events"]["reference"] == "wrist"
    origin_ns = json.loads((session / "out/sync/session.json").read_text())["origin_on_clock_ns"]
    assert origin_ns / NS_PER_S == pytest.approx(AHEAD_S, abs=1e-4)


def test_latency_moves_the_samples_against_events_of_another_file(session, happenings):
    aligned(session, *both(session), latency=("wrist=500",))
    eeg, wrist = (np.load(session / f"out/{n}/shard-00000.npy") for n in ("eeg", "wrist"))
    np.testing.assert_allclose(wrist.ravel()[:-8] - eeg.ravel()[:-8], 0.5, atol=1e-3)


@pytest.mark.parametrize("latency", [(), ("wrist=500",)])
def test_latency_is_in_events_of_the_own_signal_too(session, latency):
    for name, of in (("eeg", np.asarray), ("wrist", own_s)):
        begin = np.arange(960) / 8
        wave = np.sin(begin**1.5)
        table(session / f"{name}.tsv", "time\tx", zip(of(begin), wave, strict=True))
    events = tuple(f"{n}={session}/{n}.tsv,above=0.3" for n in ("eeg", "wrist"))
    found = aligned(session, *events, latency=latency)
    assert found["wrist"]["latency_s"] == (0.5 if latency else 0.0)
    eeg, wrist = (np.load(session / f"out/{n}/shard-00000.npy") for n in ("eeg", "wrist"))
    assert np.median(np.abs(eeg - wrist)) < 0.002


def test_start_moves_the_events_with_the_stream(session):
    found = aligned(session, *both(session), start=("wrist=2023-11-14T22:13:20+00:00",))
    assert found["wrist"]["shared_events"] is None  # the only one in absolute time
    eeg = from_json(found["eeg"]["clock"])
    assert eeg.apply(np.array([0])) / 1e9 == pytest.approx(1_700_000_000, abs=1e-3)


# What cannot be done


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (("eeg={0}/keys.tsv",), "events of 'eeg' alone"),
        (("eeg={0}/keys.tsv", "egg={0}/tags.tsv"), "no stream 'egg'"),
        (("eeg={0}/keys.tsv", "eeg={0}/tags.tsv"), "are given twice"),
        (("eeg={0}/keys.tsv", "wrist={0}/none.tsv"), "does not exist"),
        (("eeg={0}/keys.tsv,size=3", "wrist={0}/tags.tsv"), "'size' is no setting"),
        (("eeg={0}/keys.tsv,above=x", "wrist={0}/tags.tsv"), "above=x is no number"),
        (("eeg={0}/keys.tsv,above=1,below=2", "wrist={0}/tags.tsv"), "above= and below="),
        (("eeg={0}/keys.tsv,value=[", "wrist={0}/tags.tsv"), "is no expression"),
    ],
)
def test_events_without_sense_are_a_usage_error(session, events, message):
    with pytest.raises(UsageError, match=message):
        aligned(session, *(one.format(session) for one in events))


@pytest.mark.parametrize(
    ("keys", "tags", "message"),
    [
        ("keys.tsv", "tags.tsv,value=nothing", "there are no events"),
        ("keys.tsv,column=word,value=press", "tags.tsv,column=m,value=1", "no column 'm'"),
        ("keys.tsv,above=1", "tags.tsv", "has no numeric column"),
        ("keys.tsv,value=talk", "tags.tsv", "no better than unrelated"),
        ("tags.tsv", "keys.tsv", "events of another clock"),
    ],
)
def test_events_that_tell_nothing_fail_the_session(session, keys, tags, message):
    with pytest.raises((FailedItemsError, UsageError)) as caught:
        aligned(session, f"eeg={session}/{keys}", f"wrist={session}/{tags}")
    said = [f.message for f in getattr(caught.value, "failures", ())] or [str(caught.value)]
    assert message in said[0]


def test_one_event_gives_an_offset_and_says_so(session, happenings, mmprep):
    table(session / "one.tsv", "time\tn", [(happenings[3], 1)])
    table(session / "tag.tsv", "time\tn", [(own_s(happenings[3]), 1)])
    found = aligned(session, f"eeg={session}/one.tsv", f"wrist={session}/tag.tsv")
    assert found["wrist"]["clock"]["bound_s"] is None
    assert error_s(found["wrist"], happenings[3:4]) < 1e-6
    (record, *_) = read_manifest(session / "out/manifest.jsonl")
    assert record.bound_s["eeg"] is not None
    assert record.bound_s["wrist"] is None


@pytest.mark.parametrize(("ahead_s", "is_unique"), [(0.3, True), (3.2, False)])
def test_known_offset_makes_periodic_events_unique(session, ahead_s, is_unique):
    beats = np.arange(3.25, 117, 2.1)
    begin = np.arange(960) / 8
    table(session / "eeg_beats.tsv", "time\tn", [(t, 1) for t in beats])
    table(session / "wrist_beats.tsv", "time\tn", [(t * FAST + 0.3, 1) for t in beats])
    table(session / "wrist.tsv", "time\tx", zip(begin * FAST + 0.3, begin, strict=True))
    events = [f"{name}={session}/{name}_beats.tsv" for name in ("eeg", "wrist")]
    with pytest.raises(FailedItemsError) as caught:
        aligned(session, *events)
    assert "in one rhythm" in caught.value.failures[0].message
    events[1] += f",within={ahead_s + 0.2}"
    if not is_unique:
        with pytest.raises(FailedItemsError) as caught:
            aligned(session, *events)
        assert "in two ways" in caught.value.failures[0].message
        return
    model = from_json(aligned(session, *events)["wrist"]["clock"])
    assert model.apply(np.array([50 * NS_PER_S])) / 1e9 == pytest.approx(49.7 / FAST, abs=1e-5)


# Other sources


def test_tags_of_an_e4_match_a_list_of_key_presses(session, happenings):
    unix = 1_700_000_000
    begin = np.arange(960) / 8
    (session / "e4").mkdir()
    rate = 4 * FAST  # the wrist samples by its own clock
    lines = [f"{unix}.000000", "4.000000", *(f"{k / rate:.6f}" for k in range(480))]
    (session / "e4/EDA.csv").write_text("\n".join([*lines, ""]))
    tags = [f"{unix + t * FAST:.2f}" for t in np.delete(happenings, 9)]
    (session / "e4/tags.csv").write_text("\n".join([*tags, ""]))
    table(session / "eeg.tsv", "time\tx", zip(begin, begin, strict=True))
    found = aligned(
        session,
        f"eeg={session}/keys.tsv,value=press",
        f"eda={session}/e4/tags.csv",
        stream=(f"eeg={session}/eeg.tsv", f"eda={session}/e4/EDA.csv"),
    )
    # The wrist is in absolute time, so the EEG is laid on its clock.
    assert found["eeg"]["shared_events"]["n_matched"] == 28
    assert from_json(found["eeg"]["clock"]).skew_ppm == pytest.approx(250, abs=30)
    assert found["eeg"]["clock"]["residual_rms_s"] < 0.004


def test_streams_of_a_data_set_take_events_of_its_other_streams(session):
    raw = session / "raw/s1"
    raw.mkdir(parents=True)
    for name in ("eeg", "wrist", "keys", "tags"):
        (session / f"{name}.tsv").rename(raw / f"{name}.tsv")
    run_convert(session / "raw", output=session / "c", **SERIAL)
    events = (f"eeg={session}/c#keys,value=press", f"wrist={session}/c#tags")
    run_align(session / "c", output=session / "out", events=events, **SERIAL)
    wrist = streams_of(session / "out", "s1")["wrist"]
    assert wrist["shared_events"]["n_matched"] == 28
    tags = pq.read_table(session / "out/tables/tags/s1.parquet").column("time")
    keys = pq.read_table(session / "out/tables/keys/s1.parquet")
    pressed = np.char.startswith(np.array(keys.column("word").to_pylist()), "press")
    at_ns = [np.asarray(c.cast("int64")) for c in (tags, keys.column("time").filter(pressed))]
    assert len(np.intersect1d(*(np.rint(ns / 1e4) for ns in at_ns))) == 28


def test_one_file_of_events_for_many_sessions_is_refused(session):
    for name in ("s1", "s2"):
        (session / "raw" / name).mkdir(parents=True)
        for stream in ("eeg", "wrist"):
            whole = (session / f"{stream}.tsv").read_text()
            (session / "raw" / name / f"{stream}.tsv").write_text(whole)
    run_convert(session / "raw", output=session / "c", **SERIAL)
    with pytest.raises(UsageError, match="one file of events for 2 sessions"):
        run_align(session / "c", output=session / "out", events=both(session), **SERIAL)


def test_changed_events_are_noticed(session):
    raw = session / "raw/s1"
    raw.mkdir(parents=True)
    for name in ("eeg", "wrist"):
        (session / f"{name}.tsv").rename(raw / f"{name}.tsv")
    run_convert(session / "raw", output=session / "c", **SERIAL)
    options = {"output": session / "out", "events": both(session), **SERIAL}
    assert run_align(session / "c", **options).status == "built"
    assert run_align(session / "c", **options).status == "up-to-date"
    lines = (session / "tags.tsv").read_text().splitlines()
    (session / "tags.tsv").write_text("\n".join([*lines[:-3], ""]))
    assert run_align(session / "c", **options).status == "built"
    assert streams_of(session / "out", "s1")["wrist"]["shared_events"]["n_matched"] == 25


def recording(path: Path, at_s: np.ndarray, *, host_s: float, recorder_s: float) -> Path:
    """Write an XDF of a host and its recorder: a ramp at 8 Hz and markers at some true times.

    The recorder's clock is ahead of true time by `recorder_s`, the host's by `host_s` more.
    """
    info = chunk(1, b"<info><version>1.0</version></info>")
    parts = [header(1, "Amp", "EEG", "double64", rate=8), header(2, "Keys", "Markers", "string")]
    times = np.arange(960) / 8
    ahead = host_s + recorder_s
    for number in (1, 2):
        parts += [offset(number, t + ahead, -host_s) for t in np.arange(0.0001234, 120, 5)]
    for begin in range(0, 960, 100):
        rows = [(float(t + ahead), np.float64(t).tobytes()) for t in times[begin : begin + 100]]
        parts.append(samples(1, rows))
    parts.append(samples(2, [(float(t + ahead), text("key")) for t in at_s]))
    path.write_bytes(b"XDF:" + info + b"".join(parts))
    return path


def test_markers_relate_the_recorders_of_two_hosts(tmp_path, happenings):
    recording(tmp_path / "a.xdf", np.delete(happenings, 3), host_s=50, recorder_s=900)
    recording(tmp_path / "b.xdf", np.delete(happenings, 8), host_s=-7, recorder_s=40_000)
    streams = tuple(f"{n}={tmp_path}/{n}.xdf#Amp" for n in "ab")
    with pytest.raises(FailedItemsError) as caught:
        run_align(output=tmp_path / "out", stream=streams, **SERIAL)
    assert "nothing relates them" in caught.value.failures[0].message
    events = tuple(f"{n}={tmp_path}/{n}.xdf#Keys" for n in "ab")
    run_align(output=tmp_path / "out", stream=streams, events=events, **SERIAL)
    found = streams_of(tmp_path / "out")
    assert found["b"]["shared_events"]["n_matched"] == 28
    assert from_json(found["b"]["link"]).skew_ppm == pytest.approx(0, abs=0.1)
    a, b = (np.load(tmp_path / f"out/{n}/shard-00000.npy") for n in "ab")
    np.testing.assert_allclose(a, b, atol=1e-4)
    bounds = next(read_manifest(tmp_path / "out/manifest.jsonl")).bound_s
    assert bounds["b"] > bounds["a"] > 0


def test_shared_peaks_of_a_wrist_and_a_reference_give_offset_and_drift(shared, tmp_path):
    folder = shared("made/B05")
    truth = json.loads((folder / "truth.json").read_text())
    truth = truth["reference_clock = e4_clock + offset + drift*t"]
    gsr, eda = folder / "reference_gsr_kohm.tsv.gz", folder / "EDA.csv"
    run_align(  # 476 kOhm is 2.1 uS
        output=tmp_path / "out",
        stream=(f"gsr={gsr}", f"eda={eda}"),
        events=(f"gsr={gsr},below=476.19", f"eda={eda},above=2.1"),
        **SERIAL,
    )
    stream = streams_of(tmp_path / "out")["eda"]
    model, since_s = from_json(stream["clock"]), np.arange(0, 1200.0)
    own_ns = 1_700_000_000 * NS_PER_S + np.rint(since_s * 1e9).astype(np.int64)
    lag_s = truth["offset_s"] + truth["drift_ppm"] * 1e-6 * since_s
    error = np.abs((model.apply(own_ns) - own_ns) / NS_PER_S - lag_s)
    assert error.max() < 0.005
    assert np.all(error <= model.bound_at_s(own_ns))
    assert model.skew_ppm == pytest.approx(truth["drift_ppm"], abs=5)
    assert model.residual_rms_s < 0.015
    assert stream["shared_events"]["n_matched"] >= 30


# Crossings


def test_crossing_lies_on_the_line_between_two_samples():
    stamps = np.array([0, 10, 20, 30, 40], dtype=np.int64) * NS_PER_S
    found = rising(stamps, np.array([0.0, 4.0, 1.0, 1.0, 2.0]), 1.0)
    assert found.times_ns.tolist() == [2_500_000_000]
    assert rising(stamps, np.array([0.0, 1.0, 1.0, 0.0, 3.0]), 1.0).times_ns.tolist() == [
        10 * NS_PER_S,
        30 * NS_PER_S + 3_333_333_333,
    ]


def test_crossing_beside_a_missing_value_is_counted_as_hidden():
    stamps = np.arange(7, dtype=np.int64) * NS_PER_S
    found = rising(stamps, np.array([0, np.nan, 2, 0, 2, np.nan, 3.0]), 1.0)
    assert (found.times_ns.tolist(), found.n_hidden) == ([3_500_000_000], 1)
