"""Video through convert, align and inspect: times, counts, and what is missing."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from mmprep import open_dataset, run_align, run_convert, run_mfcc
from mmprep.errors import UsageError
from mmprep.manifest.codec import read_manifest
from mmprep.media import decode_audio, read_frames, scan_video
from mmprep.media import tracks as media_tracks
from mmprep.steps.inspect import inspect
from tests.conftest import ROOT, SHARED
from tests.raw import covered, film, talkie

TRUTH = json.loads((ROOT / "sample_data/amigos/truth.json").read_text())["sessions"]
SERIAL = {"engine": "serial"}


def video_in(folder: Path, session: str = "session", name: str = "video") -> dict:
    """Give what sync/ says of a video."""
    streams = json.loads((folder / f"sync/{session}.json").read_text())["streams"]
    return next(stream["video"] for stream in streams if stream["name"] == name)


def converted(source: Path, out: Path) -> dict:
    """Convert a file and give its only record."""
    run_convert(source, output=out, **SERIAL)
    (record,) = read_manifest(out / "manifest.jsonl")
    return record


# Counts, rotation, rate ---------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["raw", "data set"])
def test_track_is_described_in_sync(shared, tmp_path, way):
    path = shared("video/decord_video_90.mov")
    if way == "raw":
        run_align(output=tmp_path / "out", video=str(path), window="0.1", **SERIAL)
        known = video_in(tmp_path / "out")
    else:
        record = converted(path, tmp_path / "c")
        run_align(tmp_path / "c", output=tmp_path / "out", window="0.1", **SERIAL)
        known = video_in(tmp_path / "out", record.session)
    counts = ("n_declared", "n_packets", "n_damaged", "n_dropped")
    assert (known["codec"], known["rotation_deg"], known["nominal_rate"]) == ("h264", 90, "30/1")
    assert [known[name] for name in counts] == [3, 3, 0, 0]


def test_record_keeps_rotation_and_rate_as_a_fraction(shared, tmp_path):
    path = shared("video/androidx_sample.mp4")
    track = converted(path, tmp_path / "out").streams["video"].extra["track"]
    assert (track["nominal_rate"], track["rotation_deg"]) == ("30000/1001", 0)
    assert (track["n_declared"], track["n_packets"]) == (30, 30)


def test_inspect_says_frames_declared_stored_and_decoded(shared):
    counts = ("n_declared", "n_packets", "n_damaged", "n_decoded")
    (cut,) = inspect(str(shared("made/B08/cut.mp4")))["streams"]
    assert [cut[name] for name in counts] == [300, 180, 1, 179]
    (corrupt,) = inspect(str(shared("video/decord_corrupted.mp4")))["streams"]
    assert [corrupt[name] for name in counts] == [50, 50, 0, 48]


def test_value_of_a_video_decodes_no_more_than_it_needs(mmprep, shared, monkeypatch):
    path = shared("made/B08/cut.mp4")
    assert mmprep("inspect", path, "--value", "n_decoded").out == "179\n"
    monkeypatch.setattr("mmprep.media.decodable_ranks", None)
    assert mmprep("inspect", path, "--value", "n_packets").out == "180\n"


# Several tracks -----------------------------------------------------------------------------------


def test_inspect_lists_every_track_by_name_and_number(shared):
    facts = inspect(str(shared("video/nasa_13013.mp4")))
    assert [(s["name"], s["track"], s["n_samples"]) for s in facts["streams"]] == [
        ("video", 0, 325),
        ("audio", 1, 104_448),
        ("video1", 3, 390),
        ("audio1", 4, 208_896),
    ]


@pytest.mark.parametrize("part", ["video1", "3"])
def test_inspect_finds_a_track_by_name_or_number(shared, part):
    (track,) = inspect(f"{shared('video/nasa_13013.mp4')}#{part}")["streams"]
    assert (track["name"], track["nominal_rate"]) == ("video1", "30000/1001")


def test_track_that_is_not_there_names_those_that_are(shared):
    with pytest.raises(UsageError, match="no track 'video2'") as caught:
        inspect(f"{shared('video/nasa_13013.mp4')}#video2")
    assert "video (0), audio (1), video1 (3), audio1 (4)" in caught.value.hint


def test_empty_track_hides_no_other(shared):
    facts = inspect(str(shared("video/androidx_sample_empty_track.mp4")))
    first, empty, sound = facts["streams"]
    assert (first["n_samples"], sound["n_samples"]) == (30, 45_056)
    assert empty["problem"] == "the video track has no frames"


def test_container_without_pictures_is_inspected_as_sound(shared):
    facts = inspect(str(shared("video/androidx_sample_audio_only.mp4")))
    assert (facts["kind"], [s["name"] for s in facts["streams"]]) == ("audio", ["audio"])


@pytest.mark.parametrize("part", ["video1", "3"])
def test_any_track_can_be_aligned(shared, tmp_path, part):
    path = shared("video/nasa_13013.mp4")
    streams = (f"face={path}#{part}", f"voice={path}#audio1")
    run_align(output=tmp_path / "out", stream=streams, frames="16x16", **SERIAL)
    known, voice = (stream_in(tmp_path / "out", name) for name in ("face", "voice"))
    assert (known["video"]["n_packets"], known["video"]["nominal_rate"]) == (390, "30000/1001")
    assert (voice["nominal_rate_hz"], voice["accounting"]["in"]) == ("16000/1", 208_896)
    first = dict(read_frames(path, [5], (16, 16), track=1))[5]
    np.testing.assert_array_equal(joined(tmp_path / "out", "face")[5], first)


def test_container_without_pictures_is_aligned_as_sound(shared, tmp_path):
    path = shared("video/androidx_sample_audio_only.mp4")
    run_align(output=tmp_path / "out", stream=(f"voice={path}",), **SERIAL)
    assert stream_in(tmp_path / "out", "voice")["kind"] == "audio"


@pytest.mark.parametrize("with_video", [True, False])
def test_cover_is_no_stream(tmp_path, with_video):
    record = converted(covered(tmp_path / "a.mp4", with_video=with_video), tmp_path / "out")
    assert sorted(record.streams) == (["audio", "video"] if with_video else ["audio"])


def test_tracks_that_convert_leaves_out_are_said(shared, tmp_path, mmprep):
    path = shared("video/nasa_13013.mp4")
    done = mmprep("convert", path, "-o", tmp_path / "out", "--engine", "serial")
    assert "note: nasa_13013.mp4: 2 video tracks, of which the first is taken" in done.err
    assert "note: nasa_13013.mp4: 2 audio tracks, of which the first is taken" in done.err


def test_pictures_of_another_file_than_was_converted_are_refused(tmp_path, mmprep):
    path = film(tmp_path / "in/v.mp4", range(0, 4000, 40))
    converted(path.parent, tmp_path / "c")
    film(path, range(0, 3960, 40))
    args = ("align", tmp_path / "c", "--frames", "8x8", "-o", tmp_path / "out")
    done = mmprep(*args, "--engine", "serial")
    assert done.code == 3
    assert "v.mp4: has 99 frames, and had 100 when it was converted" in done.err


# Dropped frames -----------------------------------------------------------------------------------


@pytest.mark.parametrize("session", sorted(TRUTH))
def test_dropped_frames_are_listed_with_their_times(sample, session):
    known = video_in(sample / "amigos/aligned", session)
    origin_ns, truth = TRUTH[session]["origin_ns"], TRUTH[session]["streams"]["video"]
    period_s = 1 / 30 / (1 + truth["drift_ppm"] * 1e-6)
    assert known["n_dropped"] == len(truth["dropped_frames"])
    assert sum(hole["n_missing"] for hole in known["dropped"]) == known["n_dropped"]
    behind = [k for k in truth["dropped_frames"] if k - 1 not in truth["dropped_frames"]]
    lost_before = [truth["dropped_frames"].index(k) for k in behind]
    assert [h["after"] for h in known["dropped"]] == [
        k - 1 - n for k, n in zip(behind, lost_before, strict=True)
    ]
    for hole, gap in zip(known["dropped"], _merged(truth["gaps"]), strict=True):
        begin_s, end_s = ((gap[edge] - origin_ns) / 1e9 for edge in ("begin_ns", "end_ns"))
        assert hole["begin_s"] == pytest.approx(begin_s - period_s, abs=1e-4)
        assert hole["end_s"] == pytest.approx(end_s, abs=1e-4)


def _merged(gaps: list[dict]) -> list[dict]:
    """Join gaps that touch."""
    found: list[dict] = []
    for gap in gaps:
        if found and found[-1]["first"] + found[-1]["count"] == gap["first"]:
            count = found[-1]["count"] + gap["count"]
            found[-1] = {**found[-1], "count": count, "end_ns": gap["end_ns"]}
        else:
            found.append(gap)
    return found


def test_dropped_frames_are_counted_by_inspect_and_said_by_align(mmprep, tmp_path):
    stamps = [40 * k for k in range(100) if k not in {10, 11, 50}]
    path = film(tmp_path / "v.mkv", stamps)
    assert inspect(str(path))["streams"][0]["n_dropped"] == 3
    record = converted(path, tmp_path / "c")
    assert record.streams["video"].extra["track"]["n_dropped"] == 3
    done = mmprep("align", "--video", path, "-o", tmp_path / "out", "--engine", "serial")
    assert "note: session: video: 3 frames never came, see `dropped` in sync/" in done.err
    assert [hole["after"] for hole in video_in(tmp_path / "out")["dropped"]] == [9, 47]


def test_variable_rate_is_no_list_of_drops(shared, tmp_path):
    path = shared("made/B07/vfr_phone.mp4")
    run_align(output=tmp_path / "out", video=str(path), **SERIAL)
    known = video_in(tmp_path / "out")
    assert (known["n_dropped"], known["dropped"]) == (None, None)
    (facts, _) = inspect(str(path))["streams"]
    assert (facts["n_dropped"], facts["is_variable"]) == (None, True)


def test_cut_video_is_aligned_as_far_as_it_goes(shared, tmp_path, mmprep):
    path = shared("made/B08/cut.mp4")
    done = mmprep("align", "--video", path, "-o", tmp_path / "out", "--engine", "serial")
    assert done.code == 0
    assert "180 frames were found, 1 of them damaged, 300 declared" in done.err
    known = video_in(tmp_path / "out")
    assert (known["n_declared"], known["n_packets"], known["n_damaged"]) == (300, 180, 1)
    assert len(list(read_manifest(tmp_path / "out/manifest.jsonl"))) == 5


# Frame logs ---------------------------------------------------------------------------------------

EPOCH_NS = 1_700_000_000 * 10**9


def framelog(path: Path, frames, times_ns) -> Path:
    """Write a frame log in Unix seconds, all digits."""
    rows = zip(map(int, frames), map(int, times_ns), strict=True)
    lines = [f"{k}\t{t // 10**9}.{t % 10**9:09d}" for k, t in rows]
    path.write_text("\n".join(["frame\ttime_s", *lines, ""]))
    return path


def uneven_ns(n: int, seed: int = 0) -> np.ndarray:
    """Times of a camera that follows the light: 20 to 60 ms apart."""
    return EPOCH_NS + np.cumsum(np.random.default_rng(seed).integers(20, 61, n)) * 10**6


def stream_in(folder: Path, name: str, session: str = "session") -> dict:
    streams = json.loads((folder / f"sync/{session}.json").read_text())["streams"]
    return next(stream for stream in streams if stream["name"] == name)


def grid_ns(folder: Path, n: int, rate_hz: int, session: str = "session") -> np.ndarray:
    origin_ns = json.loads((folder / f"sync/{session}.json").read_text())["origin_on_clock_ns"]
    return origin_ns + np.rint(np.arange(n) * 1e9 / rate_hz).astype(np.int64)


def joined(folder: Path, name: str) -> np.ndarray:
    return np.concatenate([row[name] for row in open_dataset(folder, fill="nan")])


@pytest.mark.parametrize("way", ["raw", "data set"])
def test_frames_have_the_times_of_their_log_not_of_the_container(tmp_path, way):
    path = film(tmp_path / "in/v.mp4", range(0, 12_000, 40))
    times = uneven_ns(300)
    log = framelog(tmp_path / "in/v.frames.tsv", range(300), times)
    options = {"rate": "25", "output": tmp_path / "out", **SERIAL}
    session = "session" if way == "raw" else converted(tmp_path / "in", tmp_path / "c").session
    if way == "raw":
        run_align(video=str(path), clock=(f"video={log}",), **options)
    else:
        run_align(tmp_path / "c", **options)
    ranks, valid = joined(tmp_path / "out", "video"), joined(tmp_path / "out", "video.valid")
    distance = np.abs(times[None] - grid_ns(tmp_path / "out", ranks.size, 25, session)[:, None])
    assert valid.mean() > 0.7
    np.testing.assert_array_equal(ranks[valid], distance.argmin(axis=1)[valid])
    assert distance.min(axis=1)[valid].max() <= 20.5e6
    assert stream_in(tmp_path / "out", "video", session)["moved_max_s"] == 0


def test_frames_without_a_time_in_the_log_are_masked_and_counted(tmp_path, mmprep):
    path = film(tmp_path / "v.mp4", range(0, 8000, 40))
    kept = np.setdiff1d(np.arange(205), [*range(50, 60), 100])
    log = framelog(tmp_path / "v.frames.tsv", kept, EPOCH_NS + kept * 40_000_000)
    args = ("--video", path, "--clock", f"video={log}", "-o", tmp_path / "out")
    done = mmprep("align", *args, "--engine", "serial")
    assert "warning: session: video: 11 frames have no time in the frame log" in done.err
    assert "warning: session: video: 5 rows of the frame log name frames behind" in done.err
    known = stream_in(tmp_path / "out", "video")
    absent = [{"first": 50, "last": 59}, {"first": 100, "last": 100}]
    counts = {"n_absent": 11, "n_beyond": 5, "n_repeated": 0}
    assert known["video"]["log"] == {**counts, "absent": absent}
    assert (known["accounting"]["in"], known["accounting"]["corrupt"]) == (200, 11)
    ranks, valid = joined(tmp_path / "out", "video"), joined(tmp_path / "out", "video.valid")
    wanted = np.setdiff1d(np.arange(200), [*range(50, 60), 100])
    np.testing.assert_array_equal(ranks[valid], wanted)
    np.testing.assert_array_equal(np.flatnonzero(valid), wanted)


def test_frames_that_the_camera_dropped_show_in_their_log(tmp_path):
    path = film(tmp_path / "v.mp4", range(0, 8000, 40))  # written as if none were missing
    times = EPOCH_NS + np.setdiff1d(np.arange(203), [90, 91, 150]) * 40_000_000
    log = framelog(tmp_path / "v.frames.tsv", range(200), times)
    run_align(output=tmp_path / "out", video=str(path), clock=(f"video={log}",), **SERIAL)
    known = video_in(tmp_path / "out")
    assert known["n_dropped"] == 3
    assert known["dropped"] == [
        {"after": 89, "begin_s": 3.56, "end_s": 3.68, "n_missing": 2},
        {"after": 147, "begin_s": 5.96, "end_s": 6.04, "n_missing": 1},
    ]


def test_frame_log_goes_before_other_evidence_beside_a_video(tmp_path):
    path = film(tmp_path / "in/v.mp4", range(0, 8000, 40))
    framelog(path.with_name("v.frames.tsv"), range(200), uneven_ns(200))
    path.with_name("v.clock.tsv").write_text("device\treference\n0\t1600000000\n9\t1600000009\n")
    converted(path.parent, tmp_path / "c")
    run_align(tmp_path / "c", output=tmp_path / "out", session="session", **SERIAL)
    known = stream_in(tmp_path / "out", "video", "in")
    assert (known["clock"]["method"], known["video"]["log"]["n_absent"]) == ("frames", 0)


def test_log_needs_no_relation_to_the_rate_of_the_container(tmp_path):
    path = film(tmp_path / "v.mp4", range(0, 8000, 40))  # made at 15 Hz, written as 25
    times = EPOCH_NS + np.rint(np.arange(200) * 1e9 / 15).astype(np.int64)
    log = framelog(tmp_path / "v.frames.tsv", range(200), times)
    run_align(output=tmp_path / "o", video=str(path), clock=(f"video={log}",), rate="15", **SERIAL)
    assert joined(tmp_path / "o", "video").tolist() == list(range(195))
    known = stream_in(tmp_path / "o", "video")
    assert known["effective_rate_hz"] == pytest.approx(15, abs=1e-6)
    assert (known["clock"]["method"], known["clock"]["bound_s"]) == ("frames", None)


def test_sparse_log_is_evidence_of_the_clock(tmp_path):
    path = film(tmp_path / "v.mp4", range(0, 8000, 40))
    some = np.arange(0, 200, 25)
    log = framelog(tmp_path / "v.frames.tsv", some, EPOCH_NS + some * 40_001_000)
    run_align(output=tmp_path / "o", video=str(path), clock=(f"video={log}",), rate="25", **SERIAL)
    known = stream_in(tmp_path / "o", "video")
    assert (known["video"]["log"], known["clock"]["n_fixes"]) == (None, 8)
    assert known["accounting"]["corrupt"] == 0
    assert known["effective_rate_hz"] == pytest.approx(25 / 1.000025, abs=1e-6)


@pytest.mark.parametrize("seed", [1, 2])
def test_bound_of_logged_frames_holds_for_each_of_them(tmp_path, seed):
    true = uneven_ns(400, seed)
    path = film(tmp_path / "v.mkv", (true - EPOCH_NS) // 10**6)
    noise = np.random.default_rng(seed).normal(0, 1e6, 400).astype(np.int64)
    log = framelog(tmp_path / "v.frames.tsv", range(400), true + noise)
    run_align(output=tmp_path / "out", video=str(path), clock=(f"video={log}",), **SERIAL)
    bounds = [r.bound_s["video"] for r in read_manifest(tmp_path / "out/manifest.jsonl")]
    assert np.percentile(np.abs(noise), 99) / 1e9 <= min(bounds)
    assert max(bounds) <= 5 * np.percentile(np.abs(noise), 99) / 1e9


def test_even_log_loses_its_jitter_by_the_rules_of_any_stream(tmp_path):
    path = film(tmp_path / "v.mp4", range(0, 40_000, 40))
    true = EPOCH_NS + np.arange(1000) * 40_001_000
    noise = np.random.default_rng(5).normal(0, 1e6, 1000).astype(np.int64)
    log = framelog(tmp_path / "v.frames.tsv", range(1000), true + noise)
    run_align(output=tmp_path / "out", video=str(path), clock=(f"video={log}",), **SERIAL)
    known = stream_in(tmp_path / "out", "video")
    assert known["repairs"]["is_dejittered"]
    assert known["effective_rate_hz"] == pytest.approx(25 / 1.000025, rel=1e-5)
    assert 1e-3 < known["moved_max_s"] < 6e-3


@pytest.mark.parametrize("where", ["align", "convert"])
def test_log_of_another_video_is_refused_by_name(tmp_path, mmprep, where):
    path = film(tmp_path / "in/v.mp4", range(0, 4000, 40))
    log = framelog(tmp_path / "in/v.frames.tsv", range(1, 101), uneven_ns(100))
    named = ("--video", path, "--clock", f"video={log}") if where == "align" else (path,)
    done = mmprep(where, *named, "-o", tmp_path / "out", "--engine", "serial")
    assert done.code == 3
    assert "v.frames.tsv: the frame log names frames 1 to 100, the video has 100" in done.err
    assert "number frames from 0 in the order of presentation" in done.err


@pytest.mark.parametrize("way", ["raw", "data set"])
def test_sound_of_a_video_follows_its_frame_log(tmp_path, way):
    """The camera's clock runs 200 ppm slow, and log and container start 3 s apart."""
    path = talkie(
        tmp_path / "in/v.mkv",
        range(500, 30_500, 40),
        (),
        sound_from_s=Fraction(1, 4),
        sound_s=30,
        beeps_s=(2, 29),
    )
    frames = np.arange(750)
    log = framelog(tmp_path / "in/v.frames.tsv", frames, EPOCH_NS + frames * 40_008_000)
    if way == "raw":
        audio, clock = f"audio={path}#audio", (f"video={log}",)
        options = {"video": str(path), "stream": (audio,), "clock": clock}
        run_align(output=tmp_path / "out", **options, **SERIAL)
        session = "session"
    else:
        session = converted(tmp_path / "in", tmp_path / "c").session
        path.unlink()  # what was converted needs it no more
        run_align(tmp_path / "c", output=tmp_path / "out", **SERIAL)
    sound = np.abs(joined(tmp_path / "out", "audio"))
    loud = np.flatnonzero(sound > 0.3)
    starts = loud[np.insert(np.diff(loud) > 4000, 0, True)]
    times = grid_ns(tmp_path / "out", sound.size, 16_000, session)[starts]
    expected = EPOCH_NS + np.rint((np.array([2, 29]) - 0.5) * 1.0002e9)
    np.testing.assert_allclose(times, expected, atol=1e5)


def test_start_of_a_video_moves_its_sound_with_it(tmp_path):
    path = talkie(tmp_path / "v.mkv", range(500, 10_500, 40), (), sound_from_s=Fraction(1, 4))
    options = {"video": str(path), "stream": (f"audio={path}#audio",), "cover": "union"}
    run_align(output=tmp_path / "out", start=("video=1700000000",), **options, **SERIAL)
    assert stream_in(tmp_path / "out", "video")["coverage_s"][0] == 0.25
    assert stream_in(tmp_path / "out", "audio")["coverage_s"][0] == 0
    assert grid_ns(tmp_path / "out", 1, 1)[0] == EPOCH_NS - 250_000_000


def test_clock_log_can_be_given_to_a_data_set(sample, tmp_path):
    source = ROOT / "sample_data/amigos/P01/V01_video.mp4"
    log = source.with_name("V01_video.ptp.tsv")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/v.mp4").symlink_to(source)
    converted(tmp_path / "in", tmp_path / "c")
    run_align(tmp_path / "c", output=tmp_path / "out", clock=(f"video={log}",), **SERIAL)
    wanted = stream_in(sample / "amigos/aligned", "video", "P01/V01")["clock"]
    for name in ("video", "audio"):
        assert stream_in(tmp_path / "out", name, "in")["clock"] == wanted


# Frozen frames ------------------------------------------------------------------------------------


def test_frozen_picture_is_listed_where_pictures_are_decoded(tmp_path, mmprep):
    path = tmp_path / "v.mp4"
    path = talkie(path.with_suffix(".mkv"), range(500, 10_500, 40), [*range(100, 250, 2)])
    args = ("--video", path, "--frames", "8x8", "--gray", "-o", tmp_path / "out")
    done = mmprep("align", *args, "--engine", "serial")
    assert "note: session: video: 100 frames of a picture that stands still" in done.err
    known = video_in(tmp_path / "out")
    assert (known["n_frozen"], known["n_decoded"], known["n_undecodable"]) == (100, 250, 0)
    assert known["frozen"] == [{"first": 0, "last": 99, "begin_s": 0.0, "end_s": 3.96}]
    assert joined(tmp_path / "out", "video.valid").all()
    assert inspect(str(path))["streams"][0]["n_frozen"] == 100


def test_without_pictures_nothing_is_said_of_them(tmp_path):
    path = film(tmp_path / "v.mp4", range(0, 4000, 40))
    run_align(output=tmp_path / "out", video=str(path), **SERIAL)
    known = video_in(tmp_path / "out")
    keys = ("n_decoded", "n_undecodable", "n_frozen", "frozen")
    assert [known[key] for key in keys] == [None] * 4


def test_frames_that_cannot_be_decoded_are_masked_and_counted(shared, tmp_path, mmprep):
    path = shared("video/decord_corrupted.mp4")
    args = ("--video", path, "--frames", "16x16", "-o", tmp_path / "out")
    done = mmprep("align", *args, "--engine", "serial")
    assert "warning: session: video: 2 frames can't be decoded" in done.err
    known = stream_in(tmp_path / "out", "video")
    assert (known["video"]["n_decoded"], known["video"]["n_undecodable"]) == (48, 2)
    assert (known["accounting"]["used"], known["accounting"]["masked"]) == (48, 2)
    assert joined(tmp_path / "out", "video.valid").sum() == 48


# Picture and sound on one time line ---------------------------------------------------------------


def starts_of(sound: np.ndarray, rate_hz: float, *, apart_s: float = 0.1) -> np.ndarray:
    """Give the seconds at which beeps begin."""
    level = np.abs(np.nan_to_num(sound if sound.ndim == 1 else sound[:, 0]))
    loud = np.flatnonzero(level > 0.2 * level.max())
    return loud[np.insert(np.diff(loud) > apart_s * rate_hz, 0, True)] / rate_hz


def flashes_of(folder: Path, rate_hz: float) -> np.ndarray:
    """Give the seconds of the white pictures of a video."""
    pictures, valid = joined(folder, "video"), joined(folder, "video.valid")
    white = pictures.reshape(len(pictures), -1).mean(axis=1) > 150
    return np.flatnonzero(white & valid) / rate_hz


def origin_s(folder: Path) -> float:
    return json.loads((folder / "sync/session.json").read_text())["origin_on_clock_ns"] / 1e9


def aligned_with_sound(path: Path, out: Path, **options) -> Path:
    named = {"video": str(path), "stream": (f"audio={path}#audio",)}
    run_align(output=out, **named, **options, **SERIAL)
    return out


def converted_with_sound(path: Path, out: Path, **options) -> Path:
    run_convert(path, output=out.with_name("c"), **SERIAL)
    run_align(out.with_name("c"), output=out, session="session", **options, **SERIAL)
    (found,) = (out / "sync").iterdir()
    return out if found.name == "session.json" else _renamed(out, found)


def _renamed(out: Path, found: Path) -> Path:
    found.rename(found.with_name("session.json"))
    return out


WAYS = pytest.mark.parametrize(
    "way", [aligned_with_sound, converted_with_sound], ids=["raw", "data set"]
)


@WAYS
def test_flash_and_beep_of_a_phone_video_meet(shared, tmp_path, way):
    folder = shared("made/B07")
    truth = json.loads((folder / "truth.json").read_text())
    stamps_s = np.loadtxt(folder / "true_stamps_ms.txt") / 1000
    out = way(folder / "vfr_phone.mp4", tmp_path / "out", frames="8x8", gray=True)
    np.testing.assert_allclose(
        starts_of(joined(out, "audio"), 16_000), truth["beep_times_s"], atol=1e-3
    )
    flashes = flashes_of(out, 30)
    for flash in truth["flash_times_s"]:
        first = stamps_s[np.searchsorted(stamps_s, flash)]  # the camera shows it a little late
        assert np.abs(flashes - first).min() <= 1 / 60
        assert flashes[np.abs(flashes - flash) < 0.5].max() < first + 0.05


@WAYS
def test_flash_and_beep_at_2997_stay_together_to_the_end(shared, tmp_path, way):
    out = way(shared("made/B09/ntsc_2997.mp4"), tmp_path / "out", frames="8x8", gray=True)
    beeps = starts_of(joined(out, "audio"), 16_000)
    flashes = flashes_of(out, 30)
    np.testing.assert_allclose(beeps, np.arange(1, 40), atol=1e-3)
    assert len(flashes) in {39, 40}  # a frame may be nearest to two of the grid
    assert max(np.abs(flashes - beep).min() for beep in beeps) <= 1 / 60


def test_sync_says_how_far_frames_lie_from_the_times_of_the_windows(shared, tmp_path):
    out = aligned_with_sound(shared("made/B09/ntsc_2997.mp4"), tmp_path / "out")
    error = stream_in(out, "video")["time_error_s"]
    frames, grid = np.arange(1200) * 1001 / 30_000, np.arange(1200) / 30
    near = np.abs(frames[None] - grid[:, None]).min(axis=1)
    assert error["max"] == pytest.approx(near.max())
    assert error["rms"] == pytest.approx(np.sqrt(np.mean(near**2)))
    assert stream_in(out, "audio")["time_error_s"] is None


def test_windows_of_1001_ms_hold_whole_frames_at_30000_1001_hz(shared, tmp_path):
    path = shared("made/B09/ntsc_2997.mp4")
    options = {"window": "1001/1000", "rates": "video=30000/1001,audio=16000"}
    out = aligned_with_sound(path, tmp_path / "out", **options)
    assert joined(out, "video").tolist() == list(range(1170))
    assert joined(out, "video.valid").all()
    assert stream_in(out, "video")["time_error_s"]["max"] < 1e-8
    records = list(read_manifest(out / "manifest.jsonl"))
    assert [r.begin_s for r in records] == [float(k * Fraction(1001, 1000)) for k in range(39)]
    assert stream_in(out, "video")["rate_hz"] == "30000/1001"


@pytest.mark.parametrize(("suffix", "codec"), [
    (".mkv", "pcm_s16le"), (".mov", "pcm_s16le"), (".mp4", "aac"), (".ts", "aac"),
])  # fmt: skip
@WAYS
def test_tracks_keep_their_own_starts_on_one_time_line(tmp_path, suffix, codec, way):
    """The picture begins at 0.5 s, the sound at 0.25 s; flash and beep are at 1.5 and 6.5 s."""
    made = {"sound_from_s": Fraction(1, 4), "beeps_s": (1.5, 6.5), "codec": codec}
    path = talkie(tmp_path / f"in/v{suffix}", range(500, 8500, 40), (25, 150), **made)
    out = way(path, tmp_path / "out", frames="8x8", gray=True)
    assert origin_s(out) == pytest.approx(0.5, abs=1e-9)
    np.testing.assert_allclose(flashes_of(out, 25), [1.0, 6.0])
    np.testing.assert_allclose(starts_of(joined(out, "audio"), 16_000), [1.0, 6.0], atol=1e-3)


@pytest.mark.parametrize(("suffix", "codec"), [(".mov", "pcm_s16le"), (".mp4", "aac")])
def test_sound_before_the_edit_list_is_trimmed_and_the_rest_stays(tmp_path, suffix, codec):
    made = {"sound_from_s": Fraction(-1, 4), "beeps_s": (1.5, 6.5), "codec": codec}
    path = talkie(tmp_path / f"v{suffix}", range(500, 8500, 40), (25, 150), **made)
    out = aligned_with_sound(path, tmp_path / "out", frames="8x8", cover="union")
    assert origin_s(out) == 0
    np.testing.assert_allclose(flashes_of(out, 25), [1.5, 6.5], atol=0.021)
    np.testing.assert_allclose(starts_of(joined(out, "audio"), 16_000), [1.5, 6.5], atol=1e-3)


def test_sound_that_is_shorter_than_the_picture_is_not_stretched(shared, tmp_path):
    path = shared("video/androidx_sample_shorter_audio.mp4")
    options = {"cover": "union", "window": "1/5"}
    out = aligned_with_sound(path, tmp_path / "out", **options)
    valid = joined(out, "audio.valid").reshape(-1)
    assert (len(valid), valid.sum()) == (6 * 8820, 32_768)
    assert np.flatnonzero(valid)[[0, -1]].tolist() == [1024, 1024 + 32_767]
    np.testing.assert_allclose(joined(out, "audio")[valid], decode_audio(path).samples, atol=1e-6)
    assert joined(out, "video")[:, None].T.tolist() == [list(range(72))]
    shares = [r.valid["audio"] for r in read_manifest(out / "manifest.jsonl")]
    assert shares == [round(n / 8820, 6) for n in (7796, 8820, 8820, 7332, 0, 0)]


def test_packets_outside_the_edit_list_are_no_frames(shared, tmp_path):
    path = shared("video/androidx_sample_edit_list_only_preroll_sync_sample.mp4")
    run_align(output=tmp_path / "out", video=str(path), window="1/2", rate="30", **SERIAL)
    known = stream_in(tmp_path / "out", "video")
    assert (origin_s(tmp_path / "out"), known["accounting"]["in"]) == (0, 16)
    assert (known["video"]["n_packets"], known["video"]["n_outside_edits"]) == (17, 1)
    assert joined(tmp_path / "out", "video").tolist() == list(range(1, 16))


# Every collected video ----------------------------------------------------------------------------

UNREADABLE = {"Neon Scene Camera v1 ps1.mp4", "androidx_sample_audio_only.mp4"}


def collected() -> list[str]:
    names = sorted(p.name for p in (SHARED / "video").glob("*") if p.suffix != ".json")
    return [name for name in names if name not in UNREADABLE] or ["none"]


@pytest.mark.parametrize("name", collected())
def test_every_video_is_aligned_at_its_own_stamps(shared, tmp_path, name):
    path = shared(f"video/{name}")
    scan, tracks = scan_video(path), media_tracks(path)
    sound = next((track for track in tracks if track.kind == "audio"), None)
    options = {"window": "1/20", "cover": "union", "rate": "100"}
    options |= {"stream": (f"audio={path}#audio",)} if sound else {}
    run_align(output=tmp_path / "out", video=str(path), **options, **SERIAL)
    known, begin_s = stream_in(tmp_path / "out", "video"), origin_s(tmp_path / "out")
    slack_s = known["moved_max_s"] + 1e-8  # jitter, and what a container rounds, is taken out
    assert known["coverage_s"][0] == pytest.approx(scan.start_s - begin_s, abs=slack_s)
    assert known["video"]["n_packets"] == scan.n_frames
    if sound:
        found = stream_in(tmp_path / "out", "audio")["coverage_s"][0]
        assert found == pytest.approx(sound.start_s - begin_s, abs=1e-8)


# Sound that breaks off ----------------------------------------------------------------------------


@WAYS
def test_sound_behind_a_break_stays_where_its_packets_are(tmp_path, way):
    """Packets between 3 and 4.5 s are lost; the beeps at 2 and 6 s stay where they are."""
    path = talkie(
        tmp_path / "v.mkv",
        range(0, 8000, 40),
        (50, 150),
        sound_s=8,
        beeps_s=(2, 6),
        lost_s=(3, 4.5),
    )
    out = way(path, tmp_path / "out", frames="8x8", gray=True)
    known, sound = stream_in(out, "audio"), joined(out, "audio")
    np.testing.assert_allclose(flashes_of(out, 25), [2, 6], atol=1e-9)
    np.testing.assert_allclose(starts_of(sound, 16_000), [2, 6], atol=1e-3)
    assert known["n_gaps"] == 1
    np.testing.assert_allclose(known["gaps_s"], [[3, 4.5]], atol=0.13)
    lost = np.flatnonzero(~joined(out, "audio.valid").reshape(-1)) / 16_000
    np.testing.assert_allclose(lost[[0, -1]], known["gaps_s"][0], atol=1e-3)
    assert lost.size == pytest.approx(np.diff(known["gaps_s"][0])[0] * 16_000, abs=2)
    assert known["effective_rate_hz"] == pytest.approx(16_000, rel=1e-9)


def test_sound_that_breaks_off_is_said(tmp_path, mmprep):
    made = {"sound_s": 8, "lost_s": (3, 4.536)}
    path = talkie(tmp_path / "v.mkv", range(0, 8000, 40), (), **made)
    done = mmprep("convert", path, "-o", tmp_path / "c", "--engine", "serial")
    assert "warning: v.mkv: breaks in the sound: 1, 1.54 s in all" in done.err
    args = ("--stream", f"voice={path}#audio", "-o", tmp_path / "out", "--engine", "serial")
    done = mmprep("align", *args)
    assert "warning: session: voice: breaks in the sound: 1, 1.54 s in all" in done.err
    assert inspect(f"{path}#audio")["streams"][0]["n_breaks"] == 1


def test_break_moves_with_the_clock_and_the_start(tmp_path):
    made = {"sound_s": 8, "beeps_s": (2, 6), "lost_s": (3, 4.5)}
    path = talkie(tmp_path / "v.mkv", range(0, 8000, 40), (), **made)
    out = aligned_with_sound(path, tmp_path / "out", start=("video=1700000000",))
    assert origin_s(out) == 1_700_000_000
    np.testing.assert_allclose(starts_of(joined(out, "audio"), 16_000), [2, 6], atol=1e-3)


def test_features_behind_a_break_stay_with_their_sound(tmp_path):
    made = {"sound_s": 8, "beeps_s": (2, 6), "lost_s": (3, 4.5)}
    converted(talkie(tmp_path / "v.mkv", range(0, 8000, 40), (), **made), tmp_path / "c")
    run_mfcc(tmp_path / "c", output=tmp_path / "f", features="logmel", **SERIAL)
    run_align(f"{tmp_path}/f#logmel", output=tmp_path / "out", session="session", **SERIAL)
    (found,) = (tmp_path / "out/sync").iterdir()
    level = joined(tmp_path / "out", "logmel").max(axis=1)
    loud = level > (np.nanmin(level) + np.nanmax(level)) / 2
    begins = np.flatnonzero(np.diff(loud.astype(int)) == 1) / 100
    np.testing.assert_allclose(begins, [2, 6], atol=0.03)
    assert json.loads(found.read_text())["streams"][0]["n_gaps"] == 1
