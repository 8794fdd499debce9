"""What is cut out of frames: gaps, smoothing, padding, borders, whole pixels."""

from __future__ import annotations

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmprep import media
from mmprep.media.cutting import about, cut_out, cutter
from mmprep.media.regions import REACH

BOX = (10.0, 20.0, 30.0, 50.0)


def boxes(n, tracked, box=BOX):
    """Give n frames, of which some have the box, moved right by their number."""
    found = np.full((n, 4), np.nan)
    for k in tracked:
        found[k] = np.add(box, (k, 0, k, 0))
    return found


def test_whole_pixels_are_taken_as_they_are():
    (rect,) = media.regions_of(np.array([BOX])).rects
    assert rect.tolist() == [10, 20, 20, 30]


def test_box_holds_for_five_frames_and_not_for_six():
    found = media.regions_of(boxes(30, [10, 11]))
    assert np.flatnonzero(found.valid).tolist() == list(range(5, 17))
    assert found.rects[5].tolist() == found.rects[10].tolist() == [20, 20, 20, 30]
    assert (found.n_tracked, found.n_interpolated, found.n_held, found.n_missing) == (2, 0, 10, 18)
    assert not found.rects[17].any()


@pytest.mark.parametrize(("n_between", "n_missing"), [(1, 0), (5, 0), (10, 0), (11, 1), (20, 10)])
def test_only_frames_more_than_five_from_a_box_are_missing(n_between, n_missing):
    found = media.regions_of(boxes(n_between + 2, [0, n_between + 1]))
    assert found.n_missing == n_missing
    assert found.n_interpolated == (0 if n_missing else n_between)


def test_short_gap_is_a_straight_line_and_a_long_one_stands_still():
    short = media.regions_of(boxes(12, [0, 11])).rects[:, 0]
    assert short.tolist() == list(range(10, 22))
    long = media.regions_of(boxes(13, [0, 12])).rects[:, 0]
    assert long.tolist() == [10] * 6 + [0] + [22] * 6


def test_boxes_without_area_or_number_are_none():
    given = np.array([BOX, (5, 5, 5, 9), (5, 5, 4, 9), (1, 1, np.inf, 9), (0, 0, 0, 0)])
    assert media.has_area(given).tolist() == [True, False, False, False, False]


def test_track_without_any_box_has_no_region():
    found = media.regions_of(np.full((4, 4), np.nan))
    assert (found.valid.any(), found.n_missing) == (False, 4)


@given(st.sets(st.integers(0, 59)), st.integers(0, 10).map(lambda k: 2 * k + 1))
def test_masks_and_counts_are_those_of_the_slow_rule(tracked, smooth):
    found = media.regions_of(boxes(60, tracked), smooth=smooth)
    near = [any(abs(k - at) <= REACH for at in tracked) for k in range(60)]
    assert found.valid.tolist() == near
    counts = (found.n_tracked, found.n_interpolated, found.n_held, found.n_missing)
    assert (sum(counts), found.n_tracked) == (60, len(tracked))


@given(
    st.sets(st.integers(0, 59), min_size=1),
    st.integers(0, 10).map(lambda k: 2 * k + 1),
    st.tuples(*[st.integers(-50, 500)] * 2, *[st.integers(1, 200)] * 2),
)
def test_smoothing_leaves_a_still_box_alone(tracked, smooth, rect):
    left, top, width, height = rect
    given = np.full((60, 4), np.nan)
    given[sorted(tracked)] = left, top, left + width, top + height
    found = media.regions_of(given, smooth=smooth)
    assert (found.rects[found.valid] == rect).all()


def test_smoothing_leaves_a_steady_motion_alone():
    steady = boxes(40, range(40))
    rects = [media.regions_of(steady, smooth=n).rects for n in (1, 9)]
    np.testing.assert_array_equal(*rects)


def test_smoothing_takes_the_mean_of_its_neighbours():
    given = boxes(7, range(7), box=(0, 0, 30, 30))
    given[3] += [30, 0, 30, 0]
    found = media.regions_of(given, smooth=3).rects[:, 0].tolist()
    assert found == [0, 1, 12, 13, 14, 5, 6]


def test_smoothing_does_not_reach_over_a_long_gap():
    given = boxes(40, [0, 1, 2, 37, 38, 39])
    given[37:] += 1000
    alone = media.regions_of(given).rects
    np.testing.assert_array_equal(media.regions_of(given, smooth=39).rects, alone)


def test_padding_is_a_share_of_the_box_on_each_side():
    (rect,) = media.regions_of(np.array([BOX]), pad=0.5).rects
    assert rect.tolist() == [0, 5, 40, 60]


@pytest.mark.parametrize(
    ("shape", "rect"),
    [((1, 1), [5, 20, 30, 30]), ((2, 1), [-10, 20, 60, 30]), ((1, 3), [10, 5, 20, 60])],
)
def test_shape_grows_the_side_that_is_too_short(shape, rect):
    (found,) = media.regions_of(np.array([BOX]), shape=shape).rects
    assert found.tolist() == rect


@given(st.integers(0, 2**32), st.floats(0.6, 40), st.floats(0.6, 40))
def test_size_does_not_flicker_where_a_box_moves(seed, width, height):
    corner = np.random.default_rng(seed).uniform(0, 100, (20, 2))
    rects = media.regions_of(np.hstack([corner, np.add(corner, (width, height))])).rects
    assert np.ptp(rects[:, 2:], axis=0).max() <= 1
    off = rects[:, :2] + rects[:, 2:] / 2 - corner - (width / 2, height / 2)
    assert np.abs(off).max() <= 0.5


# Cutting ------------------------------------------------------------------------------------------


def picture(height=12, width=16):
    return np.arange(1, height * width + 1, dtype=np.uint8).reshape(height, width)


def test_crop_is_exactly_the_rectangle():
    np.testing.assert_array_equal(cut_out(picture(), (3, 2, 5, 4)), picture()[2:6, 3:8])


@given(*[st.integers(-30, 30)] * 2, *[st.integers(1, 40)] * 2)
def test_what_lies_over_the_border_is_black(left, top, width, height):
    framed = np.pad(picture(), 80)
    expected = framed[80 + top : 80 + top + height, 80 + left : 80 + left + width]
    np.testing.assert_array_equal(cut_out(picture(), (left, top, width, height)), expected)


@pytest.mark.parametrize("gray", [False, True])
@pytest.mark.parametrize("space", [1, 5])  # of HD and of older films
@pytest.mark.parametrize("coding", ["yuv420p", "yuvj420p", "yuv422p", "yuv444p", "nv12", "gray"])
@pytest.mark.parametrize("size", [(160, 120), (162, 90), (61, 45)])
def test_part_of_a_frame_gives_the_pixels_of_the_whole(size, coding, space, gray):
    rng = np.random.default_rng(size[0])
    noise = rng.integers(0, 256, (size[1], size[0], 3), np.uint8)
    frame = av.VideoFrame.from_ndarray(noise, format="rgb24").reformat(format=coding)
    frame.colorspace = space
    cut = cutter(gray=gray)
    whole = cut(frame, np.array([0, 0, *size])).to_ndarray()
    for _ in range(12):
        rect = np.array([*rng.integers(-20, size), *rng.integers(1, 60, 2)])
        np.testing.assert_array_equal(cut(frame, rect).to_ndarray(), cut_out(whole, rect))


def test_of_a_large_frame_a_part_is_converted():
    frame = av.VideoFrame(640, 480, "yuv420p")
    part, left, top = about(frame, np.array([333, 200, 40, 300]))
    assert (part.width, part.height, left, top) == (64, 288, 320, 192)
    assert about(frame, np.array([700, 0, 9, 9]))[0] is frame


@pytest.mark.parametrize(
    ("frame", "size", "rect"),
    [
        ((16, 12), (4, 4), [6, 4, 4, 4]),
        ((17, 12), (4, 5), [6, 3, 4, 5]),
        ((16, 12), (20, 12), [-2, 0, 20, 12]),
    ],
)
def test_middle_is_the_same_for_all_frames(frame, size, rect):
    assert media.central(3, frame, size).rects.tolist() == [rect] * 3


# Rows of a track ----------------------------------------------------------------------------------


def test_first_box_with_an_area_is_that_of_the_frame():
    rows = np.array([(0, 0, 0, 0), BOX, (1, 1, 2, 2), BOX], float)
    found, n_more = media.placed(rows, np.array([1, 1, 1, 3]), 4)
    assert (found[1].tolist(), found[3].tolist(), n_more) == (list(BOX), list(BOX), 1)
    assert np.isnan(found[[0, 2]]).all()


def test_box_around_points_needs_all_of_them():
    points = np.array([[(1, 9), (5, 2), (3, 3)], [(1, 9), (np.nan, 2), (3, 3)]])
    found = media.around(points)
    assert found[0].tolist() == [1, 2, 5, 9]
    assert not media.has_area(found)[1]


def test_times_mean_the_frame_that_is_within_half_an_interval():
    frames_s = np.arange(10) / 25
    times_s = np.array([0.0, 0.041, 0.0805, 0.36, 0.3805, 0.39, -0.02, -0.03])
    assert media.nearest_frames(times_s, frames_s).tolist() == [0, 1, 2, 9, 9, -1, 0, -1]


def test_time_means_the_only_frame():
    assert media.nearest_frames(np.array([0.0, 0.1]), np.zeros(1)).tolist() == [0, -1]
