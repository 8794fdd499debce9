"""Video through convert, align and inspect: times, counts, and what is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mmprep import run_align, run_convert
from mmprep.errors import UsageError
from mmprep.manifest.codec import read_manifest
from mmprep.steps.inspect import inspect
from tests.conftest import ROOT
from tests.raw import film

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
