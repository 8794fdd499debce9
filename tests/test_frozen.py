"""Stretches of a video in which the picture stands still."""

from __future__ import annotations

from fractions import Fraction

import av
import numpy as np
import pytest

from mmprep import media
from mmprep.media.frozen import still_stretches

PERIOD_NS = 40_000_000


def stretches(change, *, ranks=None, period_ns=PERIOD_NS, renewed=()):
    change = np.array(change, np.uint8)
    ranks = np.arange(change.size) if ranks is None else np.array(ranks)
    mask = np.isin(np.arange(change.size), renewed)
    return still_stretches(ranks, change, ranks * period_ns, mask).tolist()


def test_run_of_unchanged_frames_begins_with_the_one_that_they_repeat():
    assert stretches([255, 9, 9, 0, 1, 2, 0, 0, 9, 9]) == [[2, 7]]


def test_run_may_last_to_the_end():
    assert stretches([255, 9, 0, 0, 0, 0, 0]) == [[1, 6]]


@pytest.mark.parametrize("change", [3, 255])
def test_frame_that_changed_or_has_none_before_it_ends_a_run(change):
    assert stretches([255, *[0] * 6, change, *[0] * 6]) == [[0, 6], [7, 13]]


@pytest.mark.parametrize(("n", "period_ns", "found"), [
    (4, 10**9, False), (5, 50_000_000, True), (5, 49_000_000, False), (20, 10_000_000, False),
])  # fmt: skip
def test_run_is_five_frames_and_a_fifth_of_a_second_long(n, period_ns, found):
    assert bool(stretches([255] + [0] * (n - 1), period_ns=period_ns)) is found


def test_frames_that_were_not_decoded_end_a_run():
    ranks = [*range(7), *range(20, 27)]
    assert stretches([255] + [0] * 13, ranks=ranks) == [[0, 6], [20, 26]]


def test_renewed_frame_says_nothing():
    assert stretches([255, 0, 0, 0, 40, 9, 0, 0, 0], renewed=[4, 5]) == [[0, 8]]
    assert stretches([255, 0, 40, 9, 9, 40, 9, 9, 0], renewed=range(2, 8)) == []


def test_no_frame_is_no_run():
    assert stretches([]) == []


def waves(k):
    """A picture in which something moves with k."""
    y, x = np.mgrid[:96, :128]
    return np.uint8(128 + 50 * np.sin(x / 9 + k / 3) + 40 * np.cos(y / 7 - k / 5))


def wave_film(path, numbers, codec, **options):
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=25, options=options)
        stream.width, stream.height = 128, 96
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        for rank, number in enumerate(numbers):
            frame = av.VideoFrame.from_ndarray(waves(number), format="gray")
            frame = frame.reformat(format=stream.pix_fmt)
            frame.pts, frame.time_base = rank, Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def still_in(path, **options):
    scan, watch = media.scan_video(path), media.Watch()
    list(media.read_frames(path, range(scan.n_frames), (8, 8), scan=scan, watch=watch, **options))
    assert watch.n_decoded == scan.n_frames
    return watch.stretches(scan.times_ns, scan.is_key).tolist()


@pytest.mark.parametrize("codec", ["libx264", "mpeg4", "mjpeg", "mpeg1video"])
def test_frozen_picture_is_found_through_any_encoder(tmp_path, codec):
    numbers = [*range(30), *[30] * 50, *range(30, 60)]
    path = wave_film(
        tmp_path / "a.mkv", numbers, codec, **({} if codec == "mjpeg" else {"g": "12"})
    )
    ((first, last),) = still_in(path)
    assert first == pytest.approx(31, abs=2)  # encoders take a frame or two to settle
    assert last == pytest.approx(80, abs=2)


@pytest.mark.parametrize("codec", ["libx264", "mpeg4"])
def test_picture_that_moves_is_not_frozen(tmp_path, codec):
    assert still_in(wave_film(tmp_path / "a.mkv", range(110), codec)) == []


def test_what_is_found_does_not_depend_on_threads_or_size(tmp_path):
    numbers = [*range(30), *[30] * 50, *range(30, 60)]
    path = wave_film(tmp_path / "a.mkv", numbers, "libx264")
    assert still_in(path) == still_in(path, threads=2) == still_in(path, gray=True)


def test_seeking_over_frames_ends_a_stretch(tmp_path):
    path = wave_film(tmp_path / "a.mkv", [5] * 200, "mpeg4", g="10")
    scan, watch = media.scan_video(path), media.Watch()
    list(media.read_frames(path, [0, 6, 150, 156], (8, 8), scan=scan, watch=watch))
    spans = watch.stretches(scan.times_ns, scan.is_key).tolist()
    assert spans == [[0, 6], [150, 156]]
