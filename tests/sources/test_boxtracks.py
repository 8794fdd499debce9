"""Tracks of boxes and landmarks, as trackers and corpora lay them out."""

from __future__ import annotations

import json
import os
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmprep import media
from mmprep.errors import DataError, MmprepError, UsageError
from mmprep.sources import boxtracks
from mmprep.sources.boxtracks import Choice

MOUTH = Choice(points="mouth")
RNG = np.random.default_rng(5)
FACES = RNG.uniform(10, 90, (3, 68, 2))  # frames of 68 landmarks


def box_of(points):
    return [*points.min(axis=0), *points.max(axis=0)]


def written(path, text):
    path.write_text(text)
    return path


def read(path, choice=None):
    return boxtracks.read(path, choice or Choice())


# Tables -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        ("frame,x,y,w,h", "7,10,20,30,40"),
        ("frame,x1,y1,x2,y2", "7,10,20,40,60"),
        ("Frame;Left;Top;Right;Bottom", "7;10;20;40;60"),
        ("frame_id\tbbox_x1\tbbox_y1\tbbox_x2\tbbox_y2", "7\t10\t20\t40\t60"),
        ("FaceRectX,FaceRectY,FaceRectWidth,FaceRectHeight,FaceScore,frame", "10,20,30,40,.9,7"),
    ],
)
def test_columns_of_a_box_are_known_by_name(tmp_path, header, cells):
    track = read(written(tmp_path / "a.csv", f"{header}\n{cells}\n"))
    assert (track.kind, track.boxes.tolist(), track.frames.tolist()) == (
        "box",
        [[10, 20, 40, 60]],
        [7],
    )


def landmarks(rows, *, extra="", cells=""):
    """Write landmarks as columns, all x before all y."""
    names = [f"{side}_{k}" for side in "xy" for k in range(rows.shape[1])]
    lines = [",".join(f"{v:.9f}" for v in row.T.reshape(-1)) for row in rows]
    text = "\n".join(f"{k},{cells}{line}" for k, line in enumerate(lines))
    return f"frame,{extra}{','.join(names)}\n{text}\n"


def test_landmarks_become_the_box_around_those_chosen(tmp_path):
    path = written(tmp_path / "a.csv", landmarks(FACES))
    track = read(path, Choice(points=(3, 60, 61)))
    expected = [box_of(face[[3, 60, 61]]) for face in FACES]
    np.testing.assert_allclose(track.boxes, expected, atol=1e-8)
    mouth = [box_of(face[48:68]) for face in FACES]
    np.testing.assert_allclose(read(path, MOUTH).boxes, mouth, atol=1e-8)
    whole = [box_of(face) for face in FACES]
    np.testing.assert_allclose(read(path).boxes, whole, atol=1e-8)


def openface(rows):
    """Lay rows (frame, success, points) out as FeatureExtraction does; X_0 are in space."""
    names = [f"{side}_{k}" for side in "xyXYZ" for k in range(68)]
    lines = ["frame, face_id, timestamp, confidence, success, eye_lmk_x_0, " + ", ".join(names)]
    for frame, success, points in rows:
        space = np.full(3 * 68, -900.0)
        numbers = ", ".join(f"{v:.1f}" for v in [*points.T.reshape(-1), *space])
        lines.append(f"{frame}, 0, {(frame - 1) / 25:.3f}, 0.98, {success}, 1.0, {numbers}")
    return "\n".join(lines) + "\n"


def test_openface_counts_from_one_and_says_where_it_failed(tmp_path):
    rows = [(1, 1, FACES[0]), (2, 0, FACES[1]), (3, 1, FACES[2])]
    track = read(written(tmp_path / "a.csv", openface(rows)), MOUTH)
    assert (track.first, track.frames.tolist()) == (1, [1, 2, 3])
    assert media.has_area(track.boxes).tolist() == [True, False, True]
    np.testing.assert_allclose(track.boxes[2], box_of(FACES[2, 48:]), atol=0.06)


def test_box_or_landmarks_is_chosen_where_a_table_has_both(tmp_path):
    text = landmarks(FACES, extra="x,y,w,h,", cells="1,2,3,4,")
    path = written(tmp_path / "a.csv", text)
    assert read(path).boxes[0].tolist() == [1, 2, 4, 6]
    assert read(path, MOUTH).kind == read(path, Choice("landmarks")).kind == "landmarks"
    assert read(path, Choice("box")).kind == "box"


@pytest.mark.parametrize(
    ("name", "cell", "time_s"), [("timestamp", "0.04", 0.04), ("time_ms", "40", 0.04)]
)
def test_times_stand_in_for_frames(tmp_path, name, cell, time_s):
    track = read(written(tmp_path / "a.csv", f"{name},x,y,w,h\n{cell},1,2,3,4\n"))
    assert (track.frames, track.times_s.tolist()) == (None, [time_s])


def test_empty_cells_are_missing(tmp_path):
    track = read(written(tmp_path / "a.csv", "frame,x,y,w,h\n0,1,2,3,4\n1,,,,\n2,nan,2,3,4\n"))
    assert media.has_area(track.boxes).tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("frame,x,y,w,h\n", r"a\.csv: has no rows"),
        ("frame,x,y,w,h\n0,1,2,a,4\n", r"a\.csv:2: 'a' is no number"),
        ("frame,x,y,w,h\n0,1,2,3\n", r"a\.csv:2: 4 cells, expected 5"),
        ("frame,x,y,w,h\n0.5,1,2,3,4\n", r"a\.csv:2: '0\.5' is no number of a frame"),
        ("frame,x,y,w,h\n,1,2,3,4\n", r"a\.csv:2: '' is no number of a frame"),
        ("frame,gaze\n0,1\n", r"a\.csv:1: has no columns of a box or landmarks"),
        ("frame,x_0,x_1,y_0,y_2\n0,1,2,3,4\n", r"a\.csv:1: has no column y_1"),
    ],
)
def test_fault_in_a_table_is_located(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read(written(tmp_path / "a.csv", text))


def test_landmarks_that_are_not_there_are_refused(tmp_path):
    path = written(tmp_path / "a.csv", landmarks(FACES[:, :5]))
    with pytest.raises(UsageError, match=r"a\.csv: there is no landmark 60 among 5"):
        read(path, Choice(points=(1, 60)))
    with pytest.raises(UsageError, match=r"a\.csv: 5 landmarks have no 'mouth'"):
        read(path, MOUTH)
    boxes = written(tmp_path / "b.csv", "frame,x,y,w,h\n0,1,2,3,4\n")
    with pytest.raises(DataError, match=r"b\.csv: has boxes and no landmarks"):
        read(boxes, MOUTH)


# JSON ---------------------------------------------------------------------------------------------

MESH = RNG.uniform(0.2, 0.8, (478, 3))
POINTS = [{"x": x, "y": y, "z": z} for x, y, z in MESH.tolist()]


@pytest.mark.parametrize(
    "frame",
    [
        POINTS,
        [POINTS],
        MESH.tolist(),
        {"landmarks": POINTS},
        {"multi_face_landmarks": [{"landmark": POINTS}]},
        {"face_landmarks": [POINTS, POINTS[::-1]]},
    ],
)
def test_mesh_of_mediapipe_is_shares_of_the_frame(tmp_path, frame):
    text = "".join(json.dumps(one) + "\n" for one in (frame, None, frame, []))
    track = read(written(tmp_path / "a.jsonl", text), Choice(points="lips"))
    lips = sorted(set(boxtracks.NAMED_POINTS["lips"][478]))
    assert (len(lips), track.is_share, track.kind) == (40, True, "landmarks")
    np.testing.assert_allclose(track.boxes[0], box_of(MESH[lips, :2]))
    assert media.has_area(track.boxes).tolist() == [True, False, True, False]


@pytest.mark.parametrize(
    "frame",
    [
        {"frame": 4, "box": [1, 2, 4, 6]},
        {"frame": 4, "x": 1, "y": 2, "w": 3, "h": 4},
        {"frame": 4, "bbox": {"x1": 1, "y1": 2, "x2": 4, "y2": 6}},
        {"frame": 4, "faces": [{"x": 1, "y": 2, "width": 3, "height": 4, "score": 0.9}]},
        {"frame": 4, "faces": [[1, 2, 4, 6], [0, 0, 9, 9]]},
    ],
)
def test_box_of_an_object_is_known_by_its_fields(tmp_path, frame):
    track = read(written(tmp_path / "a.json", json.dumps([frame])))
    assert (track.kind, track.boxes.tolist(), track.frames.tolist()) == ("box", [[1, 2, 4, 6]], [4])


def test_json_may_be_a_list_or_lines(tmp_path):
    lines = written(tmp_path / "a.json", "[1, 2, 4, 6]\nnull\n")
    frames = written(tmp_path / "b.json", '{"fps": 25, "frames": [[1, 2, 4, 6], null]}')
    np.testing.assert_array_equal(read(lines).boxes, read(frames).boxes)


def test_pixels_are_no_shares(tmp_path):
    assert not read(written(tmp_path / "a.jsonl", "[1, 2, 4, 6]\n")).is_share


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2, 4, 6]\n{\n", r"a\.jsonl:2: is no JSON"),
        ('{"frame": 0.5, "box": [1, 2, 4, 6]}\n', r"a\.jsonl:1: frame 0 is neither"),
        ('{"frame": 1e300, "box": [1, 2, 4, 6]}\n', r"a\.jsonl: has a frame 1e\+300"),
        ('{"frame": 0}\n', r"a\.jsonl:1: frame 0 is neither a box nor landmarks"),
        ("[1, 2, 4]\n", r"a\.jsonl:1: frame 0 is neither"),
        ("3\n", r"a\.jsonl:1: frame 0 is neither"),
        ('["a", "b", "c", "d"]\n', r"a\.jsonl:1: frame 0 is neither"),
        ("[1, 2, 4, 6]\n[[1, 2], [3, 4]]\n", r"a\.jsonl: has boxes and landmarks in turn"),
        ('{"frame": 0, "box": [1, 2, 4, 6]}\n[1, 2, 4, 6]\n', "some rows have a frame"),
    ],
)
def test_fault_in_json_is_located(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read(written(tmp_path / "a.jsonl", text))


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["frame", "x", "y", "w", "h", "box", "landmarks", "faces", "time"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


def read_or_error(path):
    try:
        return read(path)
    except MmprepError as error:
        return error


@given(st.lists(ANY, min_size=1, max_size=3))
def test_any_json_is_a_track_or_a_located_error(tmp_path_factory, frames):
    path = written(tmp_path_factory.getbasetemp() / "any.json", json.dumps(frames))
    found = read_or_error(path)
    if isinstance(found, MmprepError):
        assert found.where is not None
        assert found.where.startswith(str(path))
    else:
        assert found.boxes.shape == (len(frames), 4)


# Arrays and pickles -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["<f4", "<f8", "<i4"])
def test_array_of_landmarks_is_read_in_blocks(tmp_path, dtype):
    faces = RNG.uniform(0, 500, (boxtracks.BLOCK_ROWS + 3, 5, 3)).astype(dtype)
    np.save(tmp_path / "a.npy", faces)
    expected = [box_of(face[[0, 4], :2]) for face in faces.astype(float)]
    np.testing.assert_array_equal(
        read(tmp_path / "a.npy", Choice(points=(0, 4))).boxes, np.array(expected)
    )


def test_array_of_boxes_has_corners_or_says_that_it_has_sizes(tmp_path):
    rows = np.array([[1.0, 2, 4, 6], [np.nan] * 4])
    np.save(tmp_path / "a.npy", rows)
    np.savez_compressed(tmp_path / "b.npz", xywh=rows, frames=[3, 9])
    assert read(tmp_path / "a.npy").boxes[0].tolist() == [1, 2, 4, 6]
    track = read(tmp_path / "b.npz")
    assert (track.boxes[0].tolist(), track.frames.tolist()) == ([1, 2, 5, 8], [3, 9])


def test_array_of_an_archive_is_chosen_by_name(tmp_path):
    np.savez(tmp_path / "a.npz", landmarks=FACES, boxes=np.array([[1.0, 2, 3, 4]] * 3))
    assert read(tmp_path / "a.npz").kind == "box"
    assert read(tmp_path / "a.npz", MOUTH).kind == "landmarks"
    np.savez(tmp_path / "b.npz", p=FACES, q=FACES)
    with pytest.raises(DataError, match=r"b\.npz: which of its arrays\? p, q"):
        read(tmp_path / "b.npz")


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_list_of_landmarks_or_none_is_that_of_lrs(tmp_path, protocol):
    content = [FACES[0].astype(np.int32), None, FACES[2].astype(np.int32)]
    (tmp_path / "00001.pkl").write_bytes(pickle.dumps(content, protocol))
    track = read(tmp_path / "00001.pkl", MOUTH)
    assert media.has_area(track.boxes).tolist() == [True, False, True]
    assert track.boxes[2].tolist() == box_of(content[2][48:])


def test_list_of_faces_of_each_frame_is_that_of_lrw(tmp_path):
    frames = np.empty(3, object)
    frames[:] = [[{"id": 0, "facial_landmarks": FACES[0], "roll": 0.1}], [], [{"id": 0}]]
    frames[2][0]["facial_landmarks"] = FACES[2]
    np.savez(tmp_path / "a.npz", data=frames)
    track = read(tmp_path / "a.npz", MOUTH)
    assert media.has_area(track.boxes).tolist() == [True, False, True]
    assert track.boxes[2].tolist() == box_of(FACES[2, 48:])


def test_pickle_that_holds_itself_is_a_located_error(tmp_path):
    content: list = []
    content.append([content])
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(content))
    with pytest.raises(DataError, match=r"a\.pkl: frame 0 is neither"):
        read(tmp_path / "a.pkl")


class Command:
    """Runs a command when it is unpickled by pickle itself."""

    def __reduce__(self):
        return os.system, ("touch pwned",)


@pytest.mark.parametrize("suffix", [".pkl", ".npz", ".npy"])
def test_pickle_that_would_run_something_is_refused(tmp_path, monkeypatch, suffix):
    monkeypatch.chdir(tmp_path)
    path, content = tmp_path / f"a{suffix}", np.array([Command()], object)
    if suffix == ".pkl":
        path.write_bytes(pickle.dumps([Command()]))
    elif suffix == ".npz":
        np.savez(path, data=content)
    else:
        np.save(path, content)
    with pytest.raises(DataError, match=r"the pickle was refused: it asks for (posix|nt)\.system"):
        read(path)
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((3, 5)), r"an array \(3, 5\) is neither"),
        (np.zeros((3, 5, 4)), r"an array \(3, 5, 4\) is neither"),
        (np.zeros((0, 1 << 40, 2)), r"an array \(0, 1099511627776, 2\) is neither"),
        (np.array([["a"] * 4]), r"an array of <U1 has no coordinates"),
        (np.asfortranarray(np.zeros((3, 5, 2))), "the array is in Fortran order"),
    ],
)
def test_array_of_another_shape_is_refused(tmp_path, array, message):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(DataError, match=message):
        read(tmp_path / "a.npy")


def test_array_that_is_cut_off_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", FACES)
    (tmp_path / "b.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-8])
    (tmp_path / "c.npz").write_bytes(b"PK\3\4 no archive")
    with pytest.raises(DataError, match=r"b\.npy: ends within its array"):
        read(tmp_path / "b.npy")
    with pytest.raises(DataError, match=r"c\.npz: is no npz"):
        read(tmp_path / "c.npz")


def test_file_of_another_suffix_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"a\.mat: is no known track"):
        read(written(tmp_path / "a.mat", ""))
    with pytest.raises(UsageError, match=r"no\.csv: No such file"):
        read(tmp_path / "no.csv")
