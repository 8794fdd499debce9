"""Sound that breaks off and goes on later."""

from __future__ import annotations

from fractions import Fraction

import av
import numpy as np
import pytest

from mmprep import media
from mmprep.media.breaks import Stamps

RATE_HZ = 16_000


def stamps(leads_s, *, rows=1000):
    noted = Stamps()
    for k, lead_s in enumerate(leads_s):
        noted.note(rows * k, 5.0 + rows * k / RATE_HZ + lead_s)
    return noted


def test_even_stamps_have_no_break():
    noted = stamps([0.0] * 50)
    assert noted.breaks(RATE_HZ) == []
    assert noted.error_s(RATE_HZ) == pytest.approx(0, abs=1e-12)


def test_lost_packet_is_a_break():
    assert stamps([0.0] * 20 + [0.02] * 20).breaks(RATE_HZ) == [
        (20_000, pytest.approx(5 + 20_000 / RATE_HZ + 0.02))
    ]


def test_each_break_counts_from_the_one_before():
    noted = stamps([0.0] * 20 + [0.5] * 20 + [0.6] * 20)
    rows, times_s = zip(*noted.breaks(RATE_HZ), strict=True)
    assert rows == (20_000, 40_000)
    assert times_s == pytest.approx((6.25 + 0.5, 7.5 + 0.6))
    assert noted.error_s(RATE_HZ) == pytest.approx(0, abs=1e-9)


def test_stamps_that_scatter_are_no_break():
    leads = np.random.default_rng(0).uniform(-0.008, 0.008, 300)
    leads[100] = 0.3  # one packet that came late
    assert stamps(leads).breaks(RATE_HZ) == []
    assert stamps(leads).error_s(RATE_HZ) == pytest.approx(0.3, abs=0.01)


def test_rounded_stamps_are_no_break():
    leads = [round(k / 16, 3) - k / 16 for k in range(200)]
    assert stamps(leads).breaks(RATE_HZ) == []


def test_sound_that_overlaps_stays_in_line():
    assert stamps([0.0] * 20 + [-0.05] * 20 + [0.0] * 20).breaks(RATE_HZ) == []


def test_no_stamp_is_no_break():
    assert (Stamps().breaks(RATE_HZ), Stamps().error_s(RATE_HZ)) == ([], 0.0)


def gapped(path, codec, *, at=16 * 1024, gap=RATE_HZ // 2, n=48 * 1024):
    """Write noise that pauses for `gap` samples behind sample `at`."""
    noise = np.random.default_rng(1).integers(-9000, 9000, n).astype(np.int16)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=RATE_HZ, layout="mono")
        for begin in range(0, n, 1024):
            part = av.AudioFrame.from_ndarray(noise[None, begin : begin + 1024], "s16", "mono")
            part.sample_rate, part.time_base = RATE_HZ, Fraction(1, RATE_HZ)
            part.pts = begin + (gap if begin >= at else 0)
            container.mux(stream.encode(part))
        container.mux(stream.encode())
    return noise


def test_break_of_a_file_is_where_it_was_made(tmp_path):
    noise = gapped(tmp_path / "a.mkv", "pcm_s16le")
    audio = media.decode_audio(tmp_path / "a.mkv", dtype="int16")
    np.testing.assert_array_equal(audio.samples, noise)
    assert audio.breaks == ((16 * 1024, pytest.approx(1.024 + 0.5)),)
    assert audio.stamp_error_s < 1e-3


@pytest.mark.parametrize("suffix", [".mp4", ".ts", ".mkv"])
def test_break_of_packed_sound_is_at_a_packet(tmp_path, suffix):
    gapped(tmp_path / f"a{suffix}", "aac")
    audio = media.decode_audio(tmp_path / f"a{suffix}")
    ((row, time_s),) = audio.breaks
    assert time_s - audio.start_s - row / RATE_HZ == pytest.approx(0.5, abs=1e-3)
    assert audio.start_s + row / RATE_HZ == pytest.approx(1.024, abs=0.13)


def test_break_is_counted_in_the_rows_that_are_asked_for(tmp_path):
    gapped(tmp_path / "a.mkv", "pcm_s16le")
    audio = media.decode_audio(tmp_path / "a.mkv", resample_hz=8000)
    assert audio.breaks == ((8 * 1024, pytest.approx(1.024 + 0.5)),)


@pytest.mark.parametrize("name", ["androidx_sample.mkv", "muxjs_test-segment.ts", "nasa_13013.mp4",
                                  "moviepy_no_duration.webm", "androidx_sample.avi"])  # fmt: skip
def test_real_sound_has_no_break(shared, name):
    assert media.decode_audio(shared(f"video/{name}")).breaks == ()


def test_real_webcam_pauses_behind_its_first_packet(shared):
    """Its second packet is stamped 1618 samples behind the first one, which holds 1024."""
    audio = media.decode_audio(shared("video/imageio_realshort.mp4"))
    assert audio.breaks == ((1024, pytest.approx(1618 / 48_000, abs=1e-6)),)
    assert audio.stamp_error_s < 1e-3
