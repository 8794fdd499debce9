"""Sessions on common windows, against the truth written beside the sample."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from mmprep import ClockError, DataError, UsageError, open_dataset, run_align
from mmprep.clock import from_json
from mmprep.manifest.codec import decode_dataset, read_manifest
from mmprep.steps.base import FailedItemsError
from tests.conftest import ROOT

AMIGOS = ROOT / "sample_data" / "amigos"
TRUTH = json.loads((AMIGOS / "truth.json").read_text())["sessions"]
SESSIONS = sorted(TRUTH)


def _sync(sample: Path, session: str) -> dict:
    return json.loads((sample / f"amigos/aligned/sync/{session}.json").read_text())


def _stream(sample: Path, session: str, name: str) -> dict:
    return next(s for s in _sync(sample, session)["streams"] if s["name"] == name)


def _master_ns(truth: dict, device_ns: np.ndarray) -> np.ndarray:
    since = (device_ns - truth["device_ref_ns"]).astype(np.float64)
    return truth["master_ref_ns"] + np.rint(since / (1 + truth["drift_ppm"] * 1e-6))


@pytest.mark.parametrize("session", SESSIONS)
def test_origin_is_where_all_streams_have_begun(sample, session):
    # The first EEG stamp may carry its jitter into the origin: it is removed only in the runs.
    assert abs(_sync(sample, session)["origin_ns"] - TRUTH[session]["origin_ns"]) < 50_000


@pytest.mark.parametrize("name", ["eeg", "gsr", "video"])
@pytest.mark.parametrize("session", SESSIONS)
def test_clock_is_true_to_ten_microseconds_and_within_its_bound(sample, session, name):
    truth = TRUTH[session]["streams"][name]
    model = from_json(_stream(sample, session, name)["clock"])
    step = 10**9 / truth["rate_hz"]
    device = truth["first_device_ns"] + np.rint(np.arange(truth["n_samples"]) * step).astype("i8")
    error_s = np.abs(model.apply(device) - _master_ns(truth, device)) / 1e9
    assert np.percentile(error_s, 99) < 10e-6
    assert np.mean(error_s <= model.bound_at_s(device)) >= 0.99


@pytest.mark.parametrize("session", SESSIONS)
def test_every_row_is_accounted_for(sample, session):
    for stream in _sync(sample, session)["streams"]:
        counts = dict(stream["accounting"])
        assert counts.pop("in") == sum(counts.values())
        truth = TRUTH[session]["streams"].get(stream["name"])
        if truth and stream["name"] != "audio":
            assert stream["accounting"]["in"] == truth["n_kept"]


def test_only_windows_that_touch_a_true_gap_are_masked(sample):
    for record in read_manifest(sample / "amigos/aligned/manifest.jsonl"):
        origin_ns = TRUTH[record.session]["origin_ns"]
        for name in ("eeg", "gsr"):
            touched = any(
                (gap["begin_ns"] - origin_ns) / 1e9 < record.end_s + 0.3
                and (gap["end_ns"] - origin_ns) / 1e9 > record.begin_s - 0.3
                for gap in TRUTH[record.session]["streams"][name]["gaps"]
            )
            assert touched or record.valid[name] == 1.0


@pytest.mark.parametrize("session", SESSIONS)
def test_frame_indices_are_those_nearest_in_true_time(sample, session):
    truth = TRUTH[session]["streams"]["video"]
    lost = set(truth["dropped_frames"])
    kept = np.array([k for k in range(truth["n_samples"]) if k not in lost])
    times = _master_ns(truth, truth["first_device_ns"] + np.rint(kept * 1e9 / 30))
    data = open_dataset(sample / "amigos/aligned", fill="nan")
    for row in (row for row in data if row["id"].startswith(session)):
        begin_ns = _sync(sample, session)["origin_ns"] + int(row["id"][-6:]) * 10**9
        grid = begin_ns + np.arange(30) * 1e9 / 30
        distance = np.abs(times[None] - grid[:, None])
        nearest = np.argmin(distance, axis=1)
        # Half a frame apart two frames are equally near: either is right.
        clear = np.sort(distance, axis=1)[:, :2] @ [-1, 1] > 50_000
        valid = row["video.valid"]
        assert np.array_equal(row["video"][valid & clear], nearest[valid & clear])
        assert np.all(distance.min(axis=1)[valid] <= 1e9 / 60 * 1.03)


def test_labels_are_those_of_the_intervals_that_cover_the_window(sample):
    lines = (AMIGOS / "labels.tsv").read_text().splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    for record in read_manifest(sample / "amigos/aligned/manifest.jsonl"):
        covering = [
            label
            for session, begin, end, label in rows
            if session == record.session
            and float(begin) <= record.begin_s
            and record.end_s <= float(end)
        ]
        assert record.label == (covering[0] if covering else None)


def test_counts_and_class_shares_are_those_of_the_study(sample):
    head = decode_dataset((sample / "amigos/aligned/dataset.json").read_bytes())
    counts = {name: label.count for name, label in head.labels.items()}
    assert head.totals.records == 464
    assert counts == {
        "anger": 56,
        "disgust": 44,
        "fear": 20,
        "happiness": 80,
        "neutral": 191,
        "sadness": 69,
    }


@pytest.mark.parametrize("engine", [{"jobs": 1}, {"jobs": 4}, {"engine": "serial"}])
def test_any_number_of_workers_writes_the_same_bytes(sample, tmp_path, engine):
    options = {"rates": "video=30,eeg=128,gsr=4", "labels": str(AMIGOS / "labels.tsv")}
    run_align(
        sample / "amigos/features", output=tmp_path / "out", on="session", **options, **engine
    )
    wanted = (sample / "amigos/aligned/dataset.json").read_bytes()
    assert (tmp_path / "out/dataset.json").read_bytes() == wanted


# Named streams


def _named(**changes: object) -> dict:
    folder = AMIGOS / "P01"
    options = {
        "video": str(folder / "V01_video.mp4"),
        "eeg": str(folder / "V01_eeg.tsv"),
        "gsr": str(folder / "V01_gsr.tsv"),
        "clock": tuple(f"{n}={folder}/V01_{n}.ptp.tsv" for n in ("video", "eeg", "gsr")),
        "engine": "serial",
    }
    return options | changes


def test_named_streams_give_what_the_data_set_gives(sample, tmp_path):
    run_align(output=tmp_path / "out", session="P01/V01", **_named())
    named = open_dataset(tmp_path / "out")
    whole = open_dataset(sample / "amigos/aligned")
    for k in (0, 17, len(named) - 1):
        assert named[k]["id"] == whole[k]["id"]
        for name in ("eeg", "gsr", "video"):
            np.testing.assert_array_equal(named[k][name], whole[k][name])


def test_frames_are_pictures_of_the_frame_indices(tmp_path):
    run_align(output=tmp_path / "index", **_named())
    run_align(output=tmp_path / "pixels", frames="32x24", gray=True, **_named())
    index, pixels = open_dataset(tmp_path / "index"), open_dataset(tmp_path / "pixels")
    assert pixels[0]["video"].shape == (30, 24, 32, 1)
    from mmprep.media import read_frames

    ranks = sorted(set(index[5]["video"][index[5]["video.valid"]].tolist()))
    path = AMIGOS / "P01/V01_video.mp4"
    pictures = dict(read_frames(path, ranks, (32, 24), gray=True))
    for k in np.flatnonzero(index[5]["video.valid"]):
        rank = int(index[5]["video"][k])
        np.testing.assert_array_equal(pixels[5]["video"][k], pictures[rank])


def test_overlapping_windows_share_their_samples(tmp_path):
    run_align(output=tmp_path / "out", window="2", hop="0.5", **_named())
    data = open_dataset(tmp_path / "out")
    records = list(read_manifest(tmp_path / "out/manifest.jsonl"))
    assert [record.begin_s for record in records[:4]] == [0.0, 0.5, 1.0, 1.5]
    np.testing.assert_array_equal(data[0]["eeg"][128:], data[2]["eeg"][:128])


def test_latency_moves_a_stream_by_what_is_said(tmp_path):
    run_align(output=tmp_path / "plain", **_named())
    run_align(output=tmp_path / "late", latency=("gsr=250",), **_named())
    plain, late = open_dataset(tmp_path / "plain"), open_dataset(tmp_path / "late")
    begin_ns = [
        json.loads((tmp_path / f"{name}/sync/session.json").read_text())["origin_ns"]
        for name in ("plain", "late")
    ]
    assert begin_ns[0] == begin_ns[1]
    np.testing.assert_allclose(plain[9]["gsr"][1:], late[9]["gsr"][:-1], atol=1e-4)


def test_session_clock_of_a_stream_gives_times_on_that_clock(tmp_path):
    run_align(output=tmp_path / "out", session_clock="eeg", **_named())
    sync = json.loads((tmp_path / "out/sync/session.json").read_text())
    truth = TRUTH["P01/V01"]["streams"]["eeg"]
    begin = np.array([sync["origin_ns"]])
    back = _master_ns(truth, begin)
    assert abs(int(back[0]) - TRUTH["P01/V01"]["origin_ns"]) < 100_000
    run_align(output=tmp_path / "master", **_named())
    own, master = (_bounds(tmp_path / name) for name in ("out", "master"))
    assert all(0.0 < a["eeg"] < b["eeg"] < 60e-6 for a, b in zip(own, master, strict=True))


def _bounds(folder: Path) -> list[dict]:
    return [record.bound_s for record in read_manifest(folder / "manifest.jsonl")]


def test_clock_log_of_another_stream_is_refused(tmp_path):
    wrong = (f"eeg={AMIGOS}/P01/V01_video.ptp.tsv",)
    with pytest.raises(FailedItemsError) as caught:
        run_align(output=tmp_path / "out", **_named(clock=wrong))
    assert "another clock" in caught.value.failures[0].message


def test_streams_without_a_relation_are_refused(tmp_path):
    alone = {name: shutil.copy(_named()[name], tmp_path) for name in ("video", "eeg", "gsr")}
    with pytest.raises(FailedItemsError) as caught:
        run_align(output=tmp_path / "out", **_named(clock=(), **alone))
    message = caught.value.failures[0].message
    assert "on absolute time: eeg, gsr; on time of their own: video" in message
    assert caught.value.failures[0].error == ClockError.__name__


def test_one_fix_puts_a_stream_on_unix_time_without_a_bound(tmp_path):
    for name, start in (("a", 1_700_000_000), ("b", 12)):
        rows = "".join(f"{start + k / 4:.2f}\t{k}\n" for k in range(40))
        (tmp_path / f"{name}.tsv").write_text("time\tx\n" + rows)
    (tmp_path / "b.clock.csv").write_text("device,reference\n12,1700000002\n")
    streams = tuple(f"{name}={tmp_path}/{name}.tsv" for name in "ab")
    log = (f"b={tmp_path}/b.clock.csv",)
    run_align(output=tmp_path / "out", stream=streams, clock=log, engine="serial")
    first = open_dataset(tmp_path / "out")[0]
    np.testing.assert_allclose(first["a"][:, 0] - first["b"][:, 0], 8, atol=1e-3)
    assert all(bound["b"] is None for bound in _bounds(tmp_path / "out"))


def test_streams_that_never_meet_are_refused(tmp_path):
    for name, start in (("a", 0), ("b", 100)):
        rows = "".join(f"{start + k / 4:.2f}\t{k}\n" for k in range(40))
        (tmp_path / f"{name}.tsv").write_text("time\tx\n" + rows)
    streams = tuple(f"{name}={tmp_path}/{name}.tsv" for name in "ab")
    with pytest.raises(FailedItemsError) as caught:
        run_align(output=tmp_path / "out", stream=streams, engine="serial")
    assert "don't overlap" in caught.value.failures[0].message


def test_unknown_stream_is_a_usage_error_that_names_the_known(sample, tmp_path):
    with pytest.raises(UsageError, match="no stream 'ecg'") as caught:
        run_align(f"{sample}/amigos/features#ecg", output=tmp_path / "out")
    assert "eeg" in caught.value.hint


def test_rate_for_an_unknown_stream_is_a_usage_error(sample, tmp_path):
    with pytest.raises(UsageError, match="no stream 'egg'"):
        run_align(sample / "amigos/features", output=tmp_path / "out", rates="egg=128")


def test_rate_that_does_not_fit_the_window_is_a_usage_error(sample, tmp_path):
    with pytest.raises(UsageError, match="not a whole number"):
        run_align(
            sample / "amigos/features", output=tmp_path / "out", window="0.1", rates="eeg=128"
        )


def test_gap_fails_where_it_is_told_to(sample, tmp_path):
    with pytest.raises(FailedItemsError) as caught:
        run_align(f"{sample}/amigos/features#eeg", output=tmp_path / "out", on_gap="fail")
    assert [failure.id for failure in caught.value.failures] == ["P02/V01"]


def test_gap_drops_its_windows_and_says_so(sample, tmp_path):
    result = run_align(f"{sample}/amigos/features#eeg", output=tmp_path / "out", on_gap="drop")
    sync = json.loads((tmp_path / "out/sync/P02/V01.json").read_text())
    assert sync["windows"]["dropped_gap"] in (2, 3)
    assert sync["windows"]["planned"] == sync["windows"]["kept"] + sync["windows"]["dropped_gap"]
    assert result.status == "built"


def test_nothing_to_align_is_said(tmp_path):
    with pytest.raises(UsageError, match="nothing to align"):
        run_align(output=tmp_path / "out")


def test_folder_without_data_set_is_refused(tmp_path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/x.tsv").write_text("time\tx\n0\t1\n")
    with pytest.raises((UsageError, DataError)):
        run_align(tmp_path / "raw", output=tmp_path / "out")


# Streams that can't go onto windows


@pytest.fixture
def tables(tmp_path) -> Path:
    """Streams of ten seconds, good and bad."""
    rows = {
        "a": "".join(f"{k / 8:.3f}\t{k}\n" for k in range(80)),
        "words": "".join(f"{k}.0\tw{k}\n" for k in range(10)),
        "one": "3.0\t1\n",
        "back": "".join(f"{9 - k}.0\t{k}\n" for k in range(10)),
    }
    for name, text in rows.items():
        (tmp_path / f"{name}.tsv").write_text("time\tx\n" + text)
    (tmp_path / "only.tsv").write_text("time\n0.0\n1.0\n2.0\n")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("words", "s: has no numeric channel"),
        ("only", "s: has no numeric channel"),
        ("one", "s: has no rate"),
    ],
)
def test_named_stream_that_is_unfit_is_refused(tables, tmp_path, name, why):
    streams = (f"a={tables}/a.tsv", f"s={tables}/{name}.tsv")
    with pytest.raises(FailedItemsError) as caught:
        run_align(stream=streams, output=tmp_path / "out", engine="serial")
    assert caught.value.failures[0].message.startswith(why)


def test_unfit_stream_of_a_data_set_becomes_a_table_and_that_is_said(tables, tmp_path, mmprep):
    from mmprep import run_convert

    run_convert(tables / "a.tsv", tables / "words.tsv", output=tmp_path / "c", layout="{stream}")
    done = mmprep("align", tmp_path / "c", "-o", tmp_path / "out", "--engine", "serial")
    assert done.code == 0
    assert "words has no numeric channel: its rows become a table" in done.err
    assert set(open_dataset(tmp_path / "out")[0]) >= {"a", "a.valid"}


def test_session_without_any_fit_stream_fails_alone(tables, tmp_path):
    from mmprep import run_convert

    for session, name in (("s1", "a"), ("s2", "words")):
        (tables / session).mkdir()
        (tables / f"{name}.tsv").rename(tables / session / f"{name}.tsv")
    run_convert(tables / "s1", tables / "s2", output=tmp_path / "c", engine="serial")
    result = run_align(tmp_path / "c", output=tmp_path / "out", rates="a=4", max_failures="1")
    assert [failure.id for failure in result.failures] == ["s2"]


def test_stream_without_stamps_takes_its_rate(tables, tmp_path):
    (tables / "bare.tsv").write_text("v\n" + "".join(f"{k}\n" for k in range(64)))
    stream = (f"s={tables}/bare.tsv,rate=8",)
    run_align(stream=stream, output=tmp_path / "out", engine="serial")
    data = open_dataset(tmp_path / "out")
    np.testing.assert_allclose(data[1]["s"][:, 0], np.arange(8, 16))


@pytest.mark.parametrize("name", ["id", "sync", "a.valid", "label"])
def test_name_that_would_hide_another_is_refused(tables, tmp_path, name):
    with pytest.raises(UsageError, match="no stream can be called"):
        run_align(stream=(f"{name}={tables}/a.tsv",), output=tmp_path / "out")


def test_no_window_left_is_an_error(tables, tmp_path):
    (tables / "late.tsv").write_text(
        "time\tx\n" + "".join(f"{8 + k / 8:.3f}\t{k}\n" for k in range(80))
    )
    with pytest.raises(DataError, match="no window is left"):
        run_align(
            stream=(f"a={tables}/a.tsv", f"s={tables}/late.tsv"),
            output=tmp_path / "out",
            min_valid=1.0,
            cover="union",
            window="9",
            engine="serial",
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": float("nan")}, "no number"),
        ({"rate": "1e12"}, "not between 0 and"),
        ({"on": "session"}, "no --labels"),
        ({"frames": "8x8"}, "no video"),
        ({"session": ""}, "needs a name"),
        ({"latency": ("a=1e30",)}, "over a year"),
        ({"start": ("a=1e15",)}, "not in the years 1740 to 2199"),
        ({"max_failures": "-1"}, "out of range"),
        ({"max_failures": "101%"}, "out of range"),
    ],
)
def test_option_without_sense_is_refused_before_any_work(tables, tmp_path, options, message):
    with pytest.raises(UsageError, match=message):
        run_align(stream=(f"a={tables}/a.tsv",), output=tmp_path / "out", **options)
    assert not (tmp_path / "out.incomplete").exists()


def test_folder_named_as_a_stream_is_said_to_be_one(tables, tmp_path):
    with pytest.raises(UsageError, match="is a folder"):
        run_align(stream=(f"a={tables}#EDA",), output=tmp_path / "out")


def test_stream_that_limits_the_windows_is_named(tables, tmp_path, mmprep):
    (tables / "short.tsv").write_text("time\tx\n" + "".join(f"{k / 8}\t{k}\n" for k in range(24)))
    streams = ("--stream", f"a={tables}/a.tsv", "--stream", f"s={tables}/short.tsv")
    done = mmprep("align", *streams, "-o", tmp_path / "out", "--engine", "serial")
    assert "the windows hold 3 s of the 10 s of a" in done.err
    assert "s ends first" in done.err


def test_no_stream_is_said_to_limit_the_windows_of_a_union(tables, tmp_path, mmprep):
    (tables / "short.tsv").write_text("time\tx\n" + "".join(f"{k / 8}\t{k}\n" for k in range(24)))
    streams = ("--stream", f"a={tables}/a.tsv", "--stream", f"s={tables}/short.tsv")
    options = ("--cover", "union", "--window", "6", "--engine", "serial")
    done = mmprep("align", *streams, *options, "-o", tmp_path / "out")
    assert "windows hold" not in done.err


def test_column_of_text_is_said_to_become_a_table(tables, tmp_path, mmprep):
    rows = "".join(f"{k / 8}\t{k}\tw{k}\n" for k in range(80))
    (tables / "mixed.tsv").write_text("time\tx\tword\n" + rows)
    converted = mmprep("convert", tables / "mixed.tsv", "-o", tmp_path / "c", "--engine", "serial")
    assert "mixed: columns of text: word" in converted.err
    done = mmprep("align", tmp_path / "c", "-o", tmp_path / "out", "--engine", "serial")
    assert "columns of text become a table: word" in done.err


def test_include_for_data_sets_is_refused(sample, tmp_path):
    with pytest.raises(UsageError, match="choose raw files"):
        run_align(sample / "amigos/features", output=tmp_path / "out", include=("eeg",))


def _pair_with_a_log(folder: Path, log: str) -> tuple[str | Path, ...]:
    """Write a stream on Unix time, one on its own time and a clock log; give the options."""
    rows = "".join(f"{1_700_000_000 + k / 4:.2f}\t{k}\n" for k in range(40))
    (folder / "a.tsv").write_text("time\tv\n" + rows)
    own = "".join(f"{100 + k / 4:.2f}\t{k}\n" for k in range(40))
    (folder / "b.tsv").write_text("time\tv\n" + own)
    (folder / "log.tsv").write_text(log)
    streams = (f"a={folder / 'a.tsv'},rate=4", f"b={folder / 'b.tsv'},rate=4")
    return "--stream", streams[0], "--stream", streams[1], "--clock", f"b={folder / 'log.tsv'}"


@pytest.mark.parametrize(
    "log",
    [
        "device_ns\treference_ns\n101000000000\t1700000002000000000\n",
        "t1_ns\tt2_ns\tt3_ns\tt4_ns\n"
        "1700000001999000000\t101000000000\t101002000000\t1700000002003000000\n",
    ],
    ids=["fix", "exchange"],
)
def test_a_log_of_one_pair_gives_the_offset_and_no_bound(log, tmp_path, mmprep):
    options = (*_pair_with_a_log(tmp_path, log), "-o", tmp_path / "out", "--engine", "serial")
    said = mmprep("align", *options).err
    assert "no clock evidence for a:" in said
    assert "one fix alone for b" in said
    row = open_dataset(tmp_path / "out")[0]
    assert row["b"][:, 0] - row["a"][:, 0] == pytest.approx([-4.0] * 4, abs=1e-6)
    records = read_manifest(tmp_path / "out/manifest.jsonl")
    assert {record.bound_s["b"] for record in records} == {None}
