"""`--roi`: regions cut out of the pictures of a video, from the options to the windows."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import mmprep as mm
from mmprep import run_align, run_convert
from mmprep.errors import UsageError
from mmprep.media import read_frames
from mmprep.steps.sessions import roioption
from tests.raw import SQUARE, corner, film, square_film, square_picture

SERIAL = {"engine": "serial"}


def boxes(path, ranks, *, shift=0):
    """Write the box of the square for some frames."""
    size = f"{SQUARE[0]},{SQUARE[1]}"
    rows = "".join(f"{k},{corner(k)[0] + shift},{corner(k)[1]},{size}\n" for k in ranks)
    path.write_text("frame,x,y,w,h\n" + rows)
    return path


def aligned(out, **options):
    """Align; give pictures, mask and what `sync/` says of the region."""
    run_align(output=out, **{"frames": "16x16", **SERIAL, **options})
    rows = list(mm.open_dataset(out))
    video, valid = (
        np.concatenate([row[name] for row in rows]) for name in ("video", "video.valid")
    )
    (fact,) = (
        stream
        for stream in json.loads((out / "sync/session.json").read_text())["streams"]
        if stream["name"] == "video"
    )
    return video, valid, fact


def warned(mmprep, *words):
    ran = mmprep("align", *words)
    assert ran.code == 0, ran.err
    return ran.err


# From a box ---------------------------------------------------------------------------------------


def test_crop_holds_the_square_in_every_frame(tmp_path):
    path = square_film(tmp_path / "face.mkv")
    boxes(tmp_path / "face.csv", range(50))
    video, valid, fact = aligned(tmp_path / "out", video=str(path), roi=["video={stem}.csv"])
    assert valid.all()
    truth = np.zeros((50, 16, 16, 3), np.uint8)
    truth[...] = np.array([(255, 40, k) for k in range(50)])[:, np.newaxis, np.newaxis]
    np.testing.assert_array_equal(video, truth)
    known = {name: fact["roi"][name] for name in ("kind", "source", "n_tracked", "n_missing")}
    assert known == {"kind": "box", "source": "face.csv", "n_tracked": 50, "n_missing": 0}


def test_padded_crop_is_the_rectangle_of_the_picture(tmp_path):
    path = square_film(tmp_path / "face.mkv")
    boxes(tmp_path / "face.csv", range(50))
    options = {"video": str(path), "frames": "24x24", "roi": ["video=face.csv,pad=0.25"]}
    video, _, _ = aligned(tmp_path / "out", **options)
    left, top = corner(30)
    np.testing.assert_array_equal(
        video[30], square_picture(30)[top - 4 : top + 20, left - 4 : left + 20]
    )


def test_frames_far_from_a_box_are_masked_and_all_rows_are_counted(tmp_path):
    path = square_film(tmp_path / "face.mkv")
    track = boxes(tmp_path / "t.csv", [*range(10), *range(20, 25), *range(40, 44)])
    video, valid, fact = aligned(tmp_path / "out", video=str(path), roi=[f"video={track}"])
    lost = [*range(30, 35), 49]
    assert np.flatnonzero(~valid).tolist() == lost
    assert not video[lost].any()
    np.testing.assert_array_equal(video[15], np.full((16, 16, 3), (255, 40, 15)))
    counts = {name: fact["roi"][f"n_{name}"] for name in ("tracked", "interpolated", "held")}
    assert counts == {"tracked": 19, "interpolated": 10, "held": 15}
    counted = fact["accounting"]
    assert (counted["in"], counted["used"], counted["masked"]) == (50, 44, 6)


def test_crop_over_the_border_is_black_there(tmp_path):
    path = square_film(tmp_path / "face.mkv")
    (tmp_path / "t.csv").write_text("frame,x,y,w,h\n0,-4,112,16,16\n")
    video, _, _ = aligned(
        tmp_path / "out", video=str(path), roi=[f"video={tmp_path / 't.csv'}"], window="0.2"
    )
    whole = np.pad(square_picture(0), ((0, 8), (4, 0), (0, 0)))
    np.testing.assert_array_equal(video[0], whole[112:128, :16])


@pytest.mark.parametrize(
    ("fit", "begin", "end"), [("cover", 0, 16), ("contain", 4, 12), ("stretch", 0, 16)]
)
def test_fit_says_what_becomes_of_a_wide_box(tmp_path, fit, begin, end):
    path = square_film(tmp_path / "face.mkv", 25)
    rows = "".join(f"{k},120,100,136,108\n" for k in range(25))
    (tmp_path / "face.csv").write_text("frame,x1,y1,x2,y2\n" + rows)
    options = {"video": str(path), "roi": ["video=face.csv"], "fit": fit}
    (first, *_), _, _ = aligned(tmp_path / "out", **options)
    assert (first[begin:end, :, 0] == np.arange(120, 136)).all()
    rows = first[begin:end, 8, 1]
    assert (rows[0], rows[-1]) == ((96, 111) if fit == "cover" else (100, 107))
    assert not first[:begin].any()


def test_luma_is_cut_as_colours_are(tmp_path):
    path = square_film(tmp_path / "face.mkv", 25)
    boxes(tmp_path / "face.csv", range(25))
    video, _, _ = aligned(tmp_path / "out", video=str(path), roi=["video=face.csv"], gray=True)
    (_, whole), *_ = read_frames(path, [7], gray=True)
    left, top = corner(7)
    np.testing.assert_array_equal(video[7], whole[top : top + 16, left : left + 16])


def test_frames_may_count_from_one_or_be_times(tmp_path):
    path = square_film(tmp_path / "face.mkv")
    lines = boxes(tmp_path / "face.csv", range(50)).read_text().splitlines()[1:]
    ones = "\n".join(f"{k + 1},{line.split(',', 1)[1]}" for k, line in enumerate(lines))
    (tmp_path / "ones.csv").write_text(f"frame,x,y,w,h\n{ones}\n")
    times = "\n".join(f"{k / 25:.3f},{line.split(',', 1)[1]}" for k, line in enumerate(lines))
    (tmp_path / "times.csv").write_text(f"timestamp,x,y,w,h\n{times}\n9.0,0,0,5,5\n")
    found = [
        aligned(tmp_path / name, video=str(path), roi=[f"video={name}.csv"])
        for name in ("face", "ones", "times")
    ]
    for video, _, _ in found[1:]:
        np.testing.assert_array_equal(video, found[0][0])
    assert [fact["roi"]["n_unplaced"] for _, _, fact in found] == [0, 0, 1]


def test_mesh_in_shares_of_the_frame_is_cut_by_its_lips(tmp_path):
    path = square_film(tmp_path / "face.mkv", 25)
    with (tmp_path / "face.jsonl").open("w") as file:
        for k in range(25):
            left, top = corner(k)
            mesh = np.full((478, 2), 0.5)
            mesh[list(range(478))] = (left / 160, top / 120)
            mesh[415] = ((left + 16) / 160, (top + 16) / 120)
            file.write(json.dumps([{"x": x, "y": y, "z": 0} for x, y in mesh.tolist()]) + "\n")
    options = {"video": str(path), "roi": ["video={stem}.jsonl,points=mouth"]}
    video, _, fact = aligned(tmp_path / "out", **options)
    np.testing.assert_array_equal(video[20], np.full((16, 16, 3), (255, 40, 20)))
    assert fact["roi"]["kind"] == "landmarks"


def test_landmarks_of_lrs_are_cut_by_the_mouth(tmp_path):
    path = square_film(tmp_path / "00001.mkv", 25)
    faces = [np.zeros((68, 2), np.int32) for _ in range(25)]
    for k, face in enumerate(faces):
        face[48:] = corner(k)
        face[67] += SQUARE
    content = [None if k == 10 else face for k, face in enumerate(faces)]
    (tmp_path / "00001.pkl").write_bytes(pickle.dumps(content))
    options = {"video": str(path), "roi": ["video={stem}.pkl,points=48-67"]}
    video, valid, fact = aligned(tmp_path / "out", **options)
    np.testing.assert_array_equal(video[10], np.full((16, 16, 3), (255, 40, 10)))
    assert (valid.all(), fact["roi"]["n_interpolated"]) == (True, 1)


def test_records_of_their_own_length_are_cut_too(tmp_path):
    path = square_film(tmp_path / "face.mkv")
    boxes(tmp_path / "face.csv", range(30))
    options = {"video": str(path), "roi": ["video=face.csv"]}
    even = aligned(tmp_path / "even", **options)
    ragged = aligned(tmp_path / "ragged", **options, window="record")
    for k in range(2):
        np.testing.assert_array_equal(even[k], ragged[k])
    assert even[2]["accounting"] == ragged[2]["accounting"]


# In the middle ------------------------------------------------------------------------------------


def test_middle_is_cut_before_it_is_scaled(tmp_path):
    path = square_film(tmp_path / "face.mkv", 25)
    options = {"video": str(path), "frames": "40x30", "roi": ["video=center:40x30"]}
    video, valid, fact = aligned(tmp_path / "out", **options)
    np.testing.assert_array_equal(video[24], square_picture(24)[45:75, 60:100])
    assert valid.all()
    assert (fact["roi"]["kind"], fact["roi"]["size"]) == ("center", [40, 30])


def test_middle_of_a_frame_that_never_came_is_masked(tmp_path):
    stamps = [*range(0, 1000, 40), *range(2000, 3000, 40)]
    options = {"video": str(film(tmp_path / "v.mp4", stamps))}
    _, whole, _ = aligned(tmp_path / "whole", **options)
    video, valid, _ = aligned(tmp_path / "out", **options, roi=["video=center:16x16"])
    assert 0 < valid.sum() < valid.size
    np.testing.assert_array_equal(valid, whole)
    assert not video[~valid].any()


# Blank clips --------------------------------------------------------------------------------------


def test_clips_of_one_colour_are_listed_and_said(tmp_path, mmprep):
    path = square_film(tmp_path / "face.mkv", 75)
    rows = [f"{k},{corner(k)[0]},{corner(k)[1]},16,16" for k in range(25)]
    rows += [f"{k},100,0,16,16" for k in range(25, 50)]
    rows += [f"{k},300,0,16,16" for k in range(50, 75)]
    (tmp_path / "face.csv").write_text("frame,x,y,w,h\n" + "\n".join(rows) + "\n")
    words = ("--video", path, "--frames", "16x16", "--roi", "video=face.csv")
    said = warned(mmprep, *words, "-o", tmp_path / "out")
    assert "session: video: 2 clips are black or of one colour, see `blank` in sync/" in said
    (fact,) = json.loads((tmp_path / "out/sync/session.json").read_text())["streams"]
    assert fact["roi"]["blank"] == [
        {"window": 0, "begin_s": 0.0, "end_s": 1.0, "what": "constant"},
        {"window": 2, "begin_s": 2.0, "end_s": 3.0, "what": "black"},
    ]


@pytest.mark.parametrize(("window", "n_clips"), [("0.04", 300), ("record", 1)])
def test_clips_are_numbered_through(tmp_path, window, n_clips):
    path = film(tmp_path / "grey.mp4", range(0, 12_000, 40))
    options = {"video": str(path), "roi": ["video=center:16x16"], "window": window}
    _, _, fact = aligned(tmp_path / "out", **options)
    found = [(one["window"], one["what"]) for one in fact["roi"]["blank"]]
    assert found == [(k, "constant") for k in range(n_clips)]


# Where tracks are found ---------------------------------------------------------------------------


def study(tmp_path, names, tracked):
    for name in names:
        square_film(tmp_path / f"in/{name}/cam.mkv", 25)
    for name in tracked:
        boxes(tmp_path / f"in/{name}/cam_box.csv", range(25))
    run_convert(tmp_path / "in", output=tmp_path / "c", layout="{subject}/{stream}.mkv", **SERIAL)


def test_pattern_names_the_track_of_each_session(tmp_path, mmprep):
    study(tmp_path, "abc", "ac")
    words = ("--frames", "16x16", "--roi", "cam={stem}_box.csv", "-o", tmp_path / "out")
    said = warned(mmprep, tmp_path / "c", *words, "--engine", "serial")
    assert "cam: 1 sessions have no track and are masked: b" in said
    data = mm.open_dataset(tmp_path / "out")
    assert {row["id"]: float(row["cam.valid"].mean()) for row in data} == {
        "a/000000": 1,
        "b/000000": 0,
        "c/000000": 1,
    }


def test_pattern_may_name_fields_and_folders(tmp_path):
    study(tmp_path, "ab", "")
    for name in "ab":
        (tmp_path / "in/tracks").mkdir(exist_ok=True)
        boxes(tmp_path / f"in/tracks/{name}.csv", range(25))
    roi = ["cam=tracks/{subject}.csv"]
    run_align(tmp_path / "c", output=tmp_path / "out", frames="16x16", roi=roi, **SERIAL)
    assert all(row["cam.valid"].all() for row in mm.open_dataset(tmp_path / "out"))


def test_pattern_holds_for_the_rows_of_a_table_of_sessions(tmp_path):
    for name in "ab":
        square_film(tmp_path / f"{name}/cam.mkv", 25)
        boxes(tmp_path / f"{name}/cam.csv", range(25))
    table = tmp_path / "sessions.tsv"
    table.write_text("session\tsubject\tvideo\nA\tp\ta/cam.mkv\nB\tq\tb/cam.mkv\n")
    options = {"frames": "16x16", "roi": ["video=cam.csv"]}
    run_align(sessions=table, output=tmp_path / "out", **options, **SERIAL)
    rows = list(mm.open_dataset(tmp_path / "out"))
    assert len(rows) == 2
    for row in rows:
        np.testing.assert_array_equal(row["video"][9], np.full((16, 16, 3), (255, 40, 9)))


def test_track_is_called_by_the_new_name_of_the_person(tmp_path):
    square_film(tmp_path / "in/anna_cam.mkv", 25)
    boxes(tmp_path / "in/anna_box.csv", range(25))
    layout = "{subject}_{stream}.mkv"
    run_convert(tmp_path / "in", output=tmp_path / "c", layout=layout, exclude=["*.csv"], **SERIAL)
    (tmp_path / "ids.tsv").write_text("old\tnew\nanna\tS1\n")
    options = {"frames": "16x16", "roi": ["cam={subject}_box.csv"], "ids": tmp_path / "ids.tsv"}
    run_align(tmp_path / "c", output=tmp_path / "out", **SERIAL, **options)
    (path,) = (tmp_path / "out/sync").rglob("*.json")
    (fact,) = json.loads(path.read_text())["streams"]
    assert (fact["roi"]["source"], fact["roi"]["n_tracked"]) == ("S1_box.csv", 25)


def test_bytes_are_the_same_whatever_the_jobs(tmp_path):
    study(tmp_path, "ab", "ab")
    options = {"frames": "20x16", "roi": ["cam=**/{stem}_box.csv,pad=0.1,smooth=5"]}
    run_align(tmp_path / "c", output=tmp_path / "one", **SERIAL, **options)
    run_align(tmp_path / "c", output=tmp_path / "two", jobs=2, **options)
    one, two = ((tmp_path / name / "dataset.json").read_bytes() for name in ("one", "two"))
    assert one == two


def test_track_that_changed_is_read_again(tmp_path):
    path = square_film(tmp_path / "face.mkv", 25)
    options = {"video": str(path), "roi": ["video=face.csv"]}
    boxes(tmp_path / "face.csv", range(25))
    first, _, _ = aligned(tmp_path / "out", **options)
    boxes(tmp_path / "face.csv", range(25), shift=5)
    again, _, _ = aligned(tmp_path / "out", **options)
    assert (first != again).any()


# What is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("video=a.csv,size=3", "'size' is no setting of a region"),
        ("video=a.csv,kind=face", "kind 'face' is none of box, landmarks"),
        ("video=a.csv,points=lip", "'lip' is no landmark"),
        ("video=a.csv,points=67-48", "'67-48' is no landmark"),
        ("video=a.csv,points=48", "one landmark makes no box"),
        ("video=a.csv,kind=box,points=48-67", "points= choose landmarks"),
        ("video=a.csv,pad=-1", "pad=-1 is not within 0 and 10"),
        ("video=a.csv,pad=nan", "pad=nan is not within"),
        ("video=a.csv,smooth=4", "smooth=4 is no odd number"),
        ("video=center:0x4", "'0x4' is not WxH"),
        ("video=center:4x4,pad=1", "center: has no 'pad'"),
        ("a.csv", "'a.csv' is not NAME=VALUE"),
    ],
)
def test_region_that_is_none_is_refused(text, message):
    with pytest.raises(UsageError, match=message):
        roioption.wish([text], frames="16x16")


def test_landmarks_are_read_as_numbers_and_ranges():
    (roi,) = roioption.wish(["v=a.csv,points=0,4,10-12,4"], frames="8x8")["rois"].values()
    assert roi["points"] == (0, 4, 10, 11, 12)


def test_regions_need_frames_and_a_video(tmp_path):
    path = square_film(tmp_path / "face.mkv", 25)
    (tmp_path / "eeg.tsv").write_text("t_s\tx\n" + "".join(f"{k / 8}\t1\n" for k in range(40)))
    streams = {"video": str(path), "eeg": str(tmp_path / "eeg.tsv")}
    given = {"output": tmp_path / "out", **SERIAL, **streams}
    with pytest.raises(UsageError, match="--roi: there are no --frames"):
        run_align(**given, roi=["video=center:8x8"])
    for name, message in [("eeg", "'eeg' is no video"), ("face", "there is no stream 'face'")]:
        with pytest.raises(UsageError, match=f"--roi: {message}"):
            run_align(**given, frames="8x8", roi=[f"{name}=center:8x8"])
    with pytest.raises(UsageError, match="stream 'video' has two regions"):
        run_align(**given, frames="8x8", roi=["video=center:8x8", "video=center:9x9"])


def test_track_that_is_not_there_is_refused(tmp_path):
    path = square_film(tmp_path / "face.mkv", 25)
    with pytest.raises(UsageError, match=r"--roi: there is no track '\{stem\}\.json'"):
        aligned(tmp_path / "out", video=str(path), roi=["video={stem}.json"])


def test_one_track_for_several_sessions_is_refused(tmp_path):
    study(tmp_path, "ab", "")
    track = boxes(tmp_path / "t.csv", range(25))
    with pytest.raises(UsageError, match=r"t\.csv: one track for 2 sessions"):
        run_align(
            tmp_path / "c", output=tmp_path / "out", frames="8x8", roi=[f"cam={track}"], **SERIAL
        )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("26,0,0,5,5\n", "has a frame 26, the video shows 25, counted from 0"),
        ("-1,0,0,5,5\n", "has a frame -1, the video shows 25, counted from 0"),
        ("0,0,0,700,5\n", "a crop is 700 pixels wide or high, the frame 160x120"),
    ],
)
def test_track_of_another_video_is_refused(tmp_path, mmprep, rows, message):
    path = square_film(tmp_path / "face.mkv", 25)
    (tmp_path / "face.csv").write_text("frame,x,y,w,h\n" + rows)
    words = ("--video", path, "--frames", "8x8", "--roi", "video=face.csv")
    ran = mmprep("align", *words, "-o", tmp_path / "out")
    assert ran.code == 3
    assert f"face.csv: {message}" in ran.err


def test_frames_before_the_edit_list_have_no_number(shared, tmp_path):
    path = shared("video/androidx_sample_edit_list_only_preroll_sync_sample.mp4")
    rows = np.array([(k, 10, k + 8, 18) for k in range(16)], float)
    np.save(tmp_path / "a.npy", rows)
    options = {"window": "1/2", "rate": "30", "frames": "8x8"}
    roi = [f"video={tmp_path / 'a.npy'}"]
    video, valid, fact = aligned(tmp_path / "out", video=str(path), roi=roi, **options)
    assert (valid.all(), fact["roi"]["n_tracked"]) == (True, 16)
    for rank, whole in read_frames(path, range(1, 16)):
        np.testing.assert_array_equal(video[rank - 1], whole[10:18, rank - 1 : rank + 7])
