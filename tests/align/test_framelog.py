"""The times that a log gives to the frames of a video."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from mmprep.align import NO_TIME, read_log
from mmprep.errors import ClockError
from mmprep.timebase import FrameLog

PERIOD_NS = 40_000_000
EPOCH_NS = 1_700_000_000 * 10**9


def log(frames, times_ns):
    return FrameLog(np.asarray(frames, np.int64), np.asarray(times_ns, np.int64))


def read(found, numbers=range(300), n_frames=None, ranks=None):
    """Read the log of a video whose frames were taken at these multiples of its period."""
    stamps = np.asarray(numbers, np.int64) * PERIOD_NS
    ranks = np.arange(stamps.size) if ranks is None else np.asarray(ranks)
    n_frames = stamps.size if n_frames is None else n_frames
    return read_log(found, ranks, stamps, n_frames=n_frames, rate_hz=Fraction(25))


def test_times_are_those_of_the_log_whatever_the_stamps_say():
    times = EPOCH_NS + np.cumsum(np.random.default_rng(0).integers(1, 10**9, 300))
    logged = read(log(range(300), times))
    assert logged.times_ns.tolist() == times.tolist()
    assert (logged.is_dense, logged.n_absent, logged.n_beyond, logged.n_repeated) == (True, 0, 0, 0)


def test_frame_that_the_log_leaves_out_has_no_time():
    kept = np.setdiff1d(np.arange(300), [0, 7, 8, 299])
    logged = read(log(kept, EPOCH_NS + kept * PERIOD_NS))
    assert np.flatnonzero(logged.times_ns == NO_TIME).tolist() == [0, 7, 8, 299]
    assert (logged.is_dense, logged.n_absent) == (True, 4)


def test_rows_in_any_order_name_their_frames_and_the_first_of_two_counts():
    frames = np.array([*range(299, -1, -1), 5])
    logged = read(log(frames, np.append(frames[:-1] * 10, 777)))
    assert logged.times_ns.tolist() == [10 * k for k in range(300)]
    assert logged.n_repeated == 1


def test_rows_behind_the_last_frame_are_counted():
    logged = read(log(range(310), np.arange(310) * PERIOD_NS))
    assert (logged.n_beyond, logged.n_absent, logged.times_ns.size) == (10, 0, 300)


def test_ranks_count_frames_that_are_not_shown():
    ranks = [k for k in range(301) if k != 2]
    logged = read(log(range(301), np.arange(301) * 1000), n_frames=301, ranks=ranks)
    assert logged.times_ns.tolist() == [1000 * k for k in ranks]


@pytest.mark.parametrize(("step", "is_dense"), [(1, True), (2, False), (30, False)])
def test_log_of_few_frames_is_evidence_alone(step, is_dense):
    frames = np.arange(0, 300, step)
    assert read(log(frames, frames * PERIOD_NS)).is_dense is is_dense


def test_log_of_part_of_a_video_is_dense_where_it_is():
    frames = np.arange(100, 150)
    assert read(log(frames, frames * PERIOD_NS)).is_dense


@pytest.mark.parametrize("first", [1, 5023])
def test_log_that_numbers_all_frames_from_elsewhere_is_refused(first):
    with pytest.raises(
        ClockError, match=r"the video has 300, from 0 on|the video has 300"
    ) as caught:
        read(log(np.arange(first, first + 300), np.arange(300) * PERIOD_NS))
    assert "number frames from 0" in caught.value.hint


def test_log_of_another_recording_is_refused():
    with pytest.raises(ClockError, match="names frames 0 to 999, the video has 300"):
        read(log(range(1000), np.arange(1000) * PERIOD_NS))


@pytest.mark.parametrize(
    ("frames", "match"), [([-1, 0, 1], "names frames -1 to 1"), ([], "no rows")]
)
def test_log_that_numbers_nothing_is_refused(frames, match):
    with pytest.raises(ClockError, match=match):
        read(log(frames, np.zeros(len(frames))))


def test_log_of_frames_that_never_came_into_the_file_is_refused():
    """The camera logged 303 frames, the encoder dropped three of them."""
    kept = np.setdiff1d(np.arange(303), [50, 51, 200])
    with pytest.raises(ClockError, match=r"lacks 3 frames \(first behind frame 49, between 1.96"):
        read(log(range(303), EPOCH_NS + np.arange(303) * PERIOD_NS), kept)


def test_log_that_has_the_holes_of_the_stamps_is_taken():
    kept = np.setdiff1d(np.arange(303), [50, 51, 200])
    jitter = np.random.default_rng(3).normal(0, 5e6, 300).astype(np.int64)
    times = EPOCH_NS + kept * PERIOD_NS + jitter
    assert read(log(range(300), times), kept).times_ns.tolist() == times.tolist()
