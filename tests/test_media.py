"""Audio and video, decoded and timed."""

from __future__ import annotations

import json
import math
import os
import shutil
import struct
import subprocess
import sys
from fractions import Fraction

import av
import cv2
import numpy as np
import pytest
import soundfile
import soxr
from hypothesis import given
from hypothesis import strategies as st

from mmprep import media
from mmprep.errors import DataError, UsageError
from mmprep.media.video import VideoTrack, ticks_to_ns
from tests.conftest import SHARED
from tests.raw import broadcast, covered, film, level

NOISE = np.random.default_rng(0).uniform(-0.9, 0.9, (20_000, 2)).astype(np.float32)


def files_below(*folders):
    found = [p for folder in folders for p in (SHARED / folder).rglob("*") if p.is_file()]
    return sorted(str(p.relative_to(SHARED)) for p in found) or ["audio/none"]


def wav(path, samples=NOISE, rate_hz=16_000, subtype=None):
    subtype = subtype or ("FLOAT" if path.suffix == ".wav" else None)
    soundfile.write(path, samples, rate_hz, subtype=subtype)
    return path


def raw_wav(path, data, *, size=None, tag=1, bits=16, block=2, after=b""):
    head = struct.pack("<HHIIHH", tag, 1, 8000, 8000 * block, block, bits)
    size = len(data) if size is None else size
    body = b"WAVEfmt " + struct.pack("<I", 16) + head + b"data" + struct.pack("<I", size) + data
    path.write_bytes(b"RIFF" + struct.pack("<I", len(body) + len(after)) + body + after)
    return path


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    """Two videos of 200 frames that start at 0.5 s, with a key frame every 20."""
    folder, stamps = tmp_path_factory.mktemp("films"), range(500, 8500, 40)
    return {
        codec: film(folder / f"{codec}.mp4", stamps, codec=codec, g=20)
        for codec in ("mpeg4", "libx264")
    }


def levels(path, ranks, **options):
    frames = media.read_frames(path, ranks, gray=True, **options)
    return {rank: float(pixels.mean()) for rank, pixels in frames}


def track_of(ticks, time_base=Fraction(1, 1000), **changes):
    none = np.zeros(len(ticks), bool)
    values = {
        "nominal_rate_hz": None,
        "n_declared": None,
        "width": 8,
        "height": 8,
        "rotation_deg": 0,
        "codec": "h264",
    }
    flags = {"is_key": none, "discarded": none.copy(), "damaged": none.copy()}
    pts = np.array(ticks, np.int64)
    return VideoTrack(pts=pts, time_base=time_base, **(values | flags | changes))


# --- imports -----------------------------------------------------------------------------------


def loaded_after(code):
    names = ("av", "cv2", "soundfile", "soxr")
    text = f"import sys\n{code}\nprint(*[m for m in {names} if m in sys.modules])"
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True
    ).stdout.split()


def test_import_of_media_loads_no_decoder():
    assert loaded_after("import mmprep.media") == []


@pytest.mark.parametrize(
    ("name", "modules"), [("a.wav", []), ("a.flac", ["soundfile"]), ("a.mp3", ["av"])]
)
def test_decoding_loads_its_own_decoder_alone(tmp_path, name, modules):
    path = str(wav(tmp_path / name))
    code = f"from mmprep import media; media.tracks({path!r}); media.decode_audio({path!r})"
    assert loaded_after(code) == modules


# --- audio: values -----------------------------------------------------------------------------


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"])
def test_wav_samples_are_those_of_soundfile(tmp_path, subtype):
    path = wav(tmp_path / "a.wav", subtype=subtype)
    audio = media.decode_audio(path)
    np.testing.assert_array_equal(audio.samples, soundfile.read(path, dtype="float32")[0])
    assert (audio.rate_hz, audio.n_declared, audio.n_decoded) == (16_000, 20_000, 20_000)


@pytest.mark.parametrize("suffix", [".wav", ".flac"])
def test_both_decoders_give_the_same_samples(tmp_path, suffix, monkeypatch):
    path = wav(tmp_path / f"a{suffix}", subtype="PCM_24")
    plain = media.decode_audio(path)
    monkeypatch.setattr(media.audio, "_open", _by_ffmpeg)
    other = media.decode_audio(path)
    assert (plain.decoder, other.decoder) == ("libsndfile", "ffmpeg")
    np.testing.assert_array_equal(plain.samples, other.samples)


def _by_ffmpeg(path, track):
    header = media.audio.read_header(media.audio.checked(path))
    return media.audio._FFmpegSource(path, header, track), header


@pytest.mark.parametrize(
    ("form", "endian"),
    [("WAV", "LITTLE"), ("WAV", "BIG"), ("WAVEX", "LITTLE"), ("RF64", "LITTLE")],
)
def test_wav_flavours_are_read_as_soundfile_does(tmp_path, form, endian):
    path = tmp_path / "a.wav"
    soundfile.write(path, NOISE, 16_000, "PCM_16", endian=endian, format=form)
    audio = media.decode_audio(path)
    np.testing.assert_array_equal(audio.samples, soundfile.read(path, dtype="float32")[0])
    assert (audio.decoder, audio.rate_hz) == ("numpy", 16_000)


def test_int16_of_pcm16_is_what_was_written(tmp_path):
    written = np.arange(-32768, 32768, dtype=np.int16)
    path = wav(tmp_path / "a.wav", written, subtype="PCM_16")
    np.testing.assert_array_equal(media.decode_audio(path, dtype="int16").samples, written)


def test_int16_of_loud_floats_is_clipped(tmp_path):
    path = wav(tmp_path / "a.wav", np.array([-2.0, 2.0, 0.5]))
    assert media.decode_audio(path, dtype="int16").samples.tolist() == [-32768, 32767, 16384]


def test_mono_audio_has_one_axis(tmp_path):
    assert media.decode_audio(wav(tmp_path / "a.wav", NOISE[:, 0])).samples.shape == (20_000,)


def test_samples_are_read_only(tmp_path):
    assert not media.decode_audio(wav(tmp_path / "a.wav")).samples.flags.writeable


def test_mono_is_the_mean_of_the_channels(tmp_path):
    samples = np.random.default_rng(1).uniform(-1, 1, (100, 5)).astype(np.float32)
    audio = media.decode_audio(wav(tmp_path / "a.wav", samples), mono=True)
    np.testing.assert_allclose(audio.samples, samples.mean(axis=1), atol=1e-6)


def test_channel_is_picked(tmp_path):
    audio = media.decode_audio(wav(tmp_path / "a.wav"), channel=1)
    np.testing.assert_array_equal(audio.samples, NOISE[:, 1])


@pytest.mark.parametrize("channel", [2, -1])
def test_absent_channel_is_a_usage_error(tmp_path, channel):
    with pytest.raises(UsageError, match=f"no channel {channel}: the file has 2"):
        media.decode_audio(wav(tmp_path / "a.wav"), channel=channel)


@pytest.mark.parametrize("name", ["a.wav", "a.mp3"])
def test_absent_track_is_a_usage_error(tmp_path, name):
    with pytest.raises(UsageError, match="no audio track 1: the file has 1"):
        media.decode_audio(wav(tmp_path / name), track=1)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"mono": True, "channel": 0}, "one channel and the mean"),
        ({"resample_hz": 0}, "cannot resample to 0 Hz"),
        ({"dtype": "int8"}, "no audio dtype 'int8'"),
    ],
)
def test_contradictory_options_are_usage_errors(tmp_path, options, match):
    with pytest.raises(UsageError, match=match):
        media.decode_audio(wav(tmp_path / "a.wav"), **options)


@pytest.mark.parametrize("rate_hz", [8_000, 44_100])
def test_resampled_blocks_are_soxr_hq_in_one_piece(tmp_path, rate_hz):
    path = wav(tmp_path / "a.wav")
    blocks = list(media.audio_blocks(path, resample_hz=rate_hz, block_s=0.1))
    expected = soxr.resample(NOISE, 16_000, rate_hz, quality="HQ")
    np.testing.assert_array_equal(np.concatenate(blocks), expected)
    assert {len(block) for block in blocks[:-1]} == {rate_hz // 10}


def test_native_rate_is_kept_unless_asked(tmp_path):
    audio = media.decode_audio(wav(tmp_path / "a.wav"), resample_hz=8_000)
    assert (audio.rate_hz, audio.native_rate_hz, audio.n_decoded) == (8_000, 16_000, 20_000)


@pytest.mark.parametrize("name", ["audio/speech/lhotse_common_voice_en_651325.mp3",
                                  "audio/compressed/pydub_format_test.m4a",
                                  "audio/compressed/androidx_bear_vorbis_gap.ogg",
                                  "audio/compressed/androidx_bear_32bit.flac"])  # fmt: skip
def test_blocks_joined_are_the_whole(shared, name):
    whole = media.decode_audio(shared(name))
    blocks = list(media.audio_blocks(shared(name), block_s=0.0317))
    np.testing.assert_array_equal(np.concatenate(blocks), whole.samples)


def test_info_agrees_with_what_is_decoded(shared):
    path = shared("video/androidx_sample.mp4")
    info, audio = media.audio_info(path), media.decode_audio(path)
    assert (info.rate_hz, info.n_declared, info.start_s) == (44_100, 45_124, audio.start_s)


# --- audio: lengths ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "n_declared"),
    [("0", 0), ("7fffffff", 0x7FFFFFFF // 2), ("ffffffff", 0xFFFFFFFF // 2)],
)
def test_streamed_wav_is_as_long_as_its_bytes(shared, name, n_declared):
    audio = media.decode_audio(shared(f"made/B20/streamed_{name}.wav"))
    assert (audio.n_decoded, audio.n_declared) == (24_000, n_declared)


def test_wav_that_claims_more_than_it_has_is_short(tmp_path):
    audio = media.decode_audio(raw_wav(tmp_path / "a.wav", b"\1\0" * 50, size=200))
    assert (audio.n_declared, audio.n_decoded, audio.is_short) == (100, 50, True)


def test_wav_of_no_samples_before_another_chunk_is_empty(tmp_path):
    path = raw_wav(tmp_path / "a.wav", b"", after=b"LIST" + struct.pack("<I", 4) + b"abcd")
    with pytest.raises(DataError, match=r"a\.wav: no sample can be decoded"):
        media.decode_audio(path)


def test_wav_without_samples_is_a_located_error(shared):
    with pytest.raises(DataError, match=r"funasr_empty_46bytes\.wav: no sample"):
        media.decode_audio(shared("audio/speech_zh/funasr_empty_46bytes.wav"))


def test_wav_of_24_bits_in_4_bytes_is_refused(tmp_path):
    path = raw_wav(tmp_path / "a.wav", bytes(16), bits=24, block=4)
    with pytest.raises(DataError, match="24 bits a sample kept in 4 bytes"):
        media.decode_audio(path)


def test_adpcm_never_reaches_libsndfile(shared):
    audio = media.decode_audio(shared("audio/wav/androidx_sample_ima_adpcm.wav"))
    assert (audio.decoder, audio.n_decoded) == ("ffmpeg", 44_902)


def test_cut_flac_gives_its_good_part_and_is_short(tmp_path):
    whole = wav(tmp_path / "a.flac", subtype="PCM_16")
    data = whole.read_bytes()
    (tmp_path / "cut.flac").write_bytes(data[: len(data) // 2])
    audio = media.decode_audio(tmp_path / "cut.flac")
    samples = soundfile.read(whole, dtype="float32")[0]
    assert audio.is_short
    assert 4_000 < audio.n_decoded < 16_000
    np.testing.assert_array_equal(audio.samples, samples[: audio.n_decoded])


@pytest.mark.parametrize(
    ("name", "n_samples"),
    [
        ("androidx_test-cbr-info-header.mp3", 44_100),
        ("audioread_test-2.mp3", 88_200),
        ("librosa_test1_22050.mp3", 101_155),
        ("androidx_bear.opus", 131_520),
        ("androidx_bear_no_num_samples.flac", 131_568),
        ("androidx_bear_with_id3.flac", 131_568),
        ("androidx_bear_flac.ogg", 131_568),
    ],
)
def test_encoder_delay_and_padding_are_trimmed(shared, name, n_samples):
    assert media.decode_audio(shared(f"audio/compressed/{name}")).n_decoded == n_samples


def test_mp3_lines_up_with_its_wav(shared):
    coded = media.decode_audio(shared("audio/compressed/librosa_test1_22050.mp3"), mono=True)
    plain = media.decode_audio(shared("audio/wav/librosa_test1_22050.wav"), mono=True)
    part = slice(20_000, 60_000)
    lags = np.correlate(coded.samples[part], plain.samples[20_050:59_950], "valid")
    assert int(lags.argmax()) == 50


def test_opus_is_decoded_at_48_khz(shared):
    audio = media.decode_audio(shared("audio/speech/lhotse_mono_c0.opus"))
    assert (audio.rate_hz, audio.n_decoded, audio.n_declared) == (48_000, 24_260, 24_260)


def test_m4a_is_known_by_its_content(shared):
    audio = media.decode_audio(shared("audio/compressed/pydub_wrong_extension.aac"))
    assert audio.n_decoded == audio.n_declared == 425_984


def test_sound_of_a_clip_keeps_its_start(shared):
    audio = media.decode_audio(shared("video/androidx_sample_shorter_audio.mp4"))
    assert audio.start_s == pytest.approx(1024 / 44_100)
    assert audio.n_decoded == 32_768


def test_sound_that_starts_late_in_a_ts_keeps_its_start(shared):
    audio = media.decode_audio(shared("video/muxjs_sintel-captions.ts"))
    assert audio.start_s == pytest.approx(889_290 / 90_000)


def test_sound_without_breaks_has_no_stamp_error(shared):
    assert media.decode_audio(shared("video/grid_bbaf2n.mpg")).stamp_error_s < 1e-4


def test_second_sound_track_is_found_by_number(shared):
    assert media.decode_audio(shared("video/nasa_13013.mp4"), track=1).rate_hz == 16_000


# --- files that are refused --------------------------------------------------------------------


def test_missing_file_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        media.decode_audio(tmp_path / "gone.wav")


@pytest.mark.parametrize("name", ["http://127.0.0.1/a.wav", "concat:a.wav|b.wav", "pipe:0"])
def test_address_is_only_a_file_name(name):
    with pytest.raises(UsageError, match="no such file"):
        media.decode_audio(name)


def test_folder_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="not a file"):
        media.scan_video(tmp_path)


def test_empty_file_is_named(tmp_path):
    (tmp_path / "a.mp3").touch()
    with pytest.raises(DataError, match=r"a\.mp3: the file is empty"):
        media.decode_audio(tmp_path / "a.mp3")


@pytest.mark.parametrize(
    "text",
    [
        "ffconcat version 1.0\nfile '{}'\n",
        "#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:1,\n{}\n#EXT-X-ENDLIST\n",
    ],
)
@pytest.mark.parametrize("suffix", [".mp4", ".m3u8", ".ffconcat"])
def test_list_of_other_files_is_refused(tmp_path, text, suffix):
    wav(tmp_path / "inner.wav")
    path = tmp_path / f"list{suffix}"
    path.write_text(text.format("inner.wav"))
    with pytest.raises(DataError, match=r"not in a format|cannot read it"):
        media.decode_audio(path)


@pytest.mark.parametrize("name", [b"concat:a|b", "é 中文 #1?%20".encode(), b"\xff\xe9", b"-y"])
def test_odd_file_names_are_opened(tmp_path, name):
    sound = tmp_path / os.fsdecode(name + b".wav")
    shutil.copy(wav(tmp_path / "plain.wav"), sound)
    video = tmp_path / os.fsdecode(name + b".mp4")
    shutil.copy(film(tmp_path / "plain.mp4", [0, 40]), video)
    assert media.decode_audio(sound).n_decoded == 20_000
    assert media.scan_video(video).n_frames == 2


def test_lfs_pointer_is_not_a_video(shared):
    with pytest.raises(DataError, match="FFmpeg cannot read it"):
        media.scan_video(shared("video/Neon Scene Camera v1 ps1.mp4"))


def test_video_without_sound_has_no_audio_track(tmp_path):
    with pytest.raises(DataError, match="no audio track"):
        media.audio_info(film(tmp_path / "a.mp4", [0, 40]))


def test_sound_has_no_video_track(tmp_path):
    with pytest.raises(DataError, match="no video track"):
        media.scan_video(wav(tmp_path / "a.wav"))


def test_absent_video_track_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="no video track 3: the file has 1"):
        media.scan_video(film(tmp_path / "a.mp4", [0, 40]), track=3)


def test_empty_video_track_is_named(shared):
    with pytest.raises(DataError, match="has no frames"):
        media.scan_video(shared("video/androidx_sample_empty_track.mp4"), track=1)


# --- tracks ------------------------------------------------------------------------------------


def test_tracks_are_numbered_within_their_kind(shared):
    found = media.tracks(shared("video/nasa_13013.mp4"))
    assert [(t.kind, t.index, t.number) for t in found] == [
        ("video", 0, 0),
        ("audio", 1, 0),
        ("subtitle", 2, 0),
        ("video", 3, 1),
        ("audio", 4, 1),
        ("subtitle", 5, 1),
    ]


def test_track_start_is_that_of_the_first_decoded_sample(shared):
    path = shared("video/androidx_sample.mp4")
    assert media.tracks(path)[1].start_s == media.decode_audio(path).start_s


def test_cover_is_no_video(shared):
    path = shared("audio/compressed/androidx_bear_with_id3.flac")
    assert [t.kind for t in media.tracks(path)] == ["audio", "picture"]
    with pytest.raises(DataError, match="no video track"):
        media.scan_video(path)


@pytest.mark.parametrize(("with_video", "kinds"), [
    (True, ["video", "audio", "picture"]), (False, ["audio", "picture"]),
])  # fmt: skip
def test_cover_of_an_mp4_is_no_video(tmp_path, with_video, kinds):
    path = covered(tmp_path / "a.mp4", with_video=with_video)
    assert [track.kind for track in media.tracks(path)] == kinds
    if with_video:
        assert media.scan_video(path).n_frames == 25


def test_track_is_found_by_name_or_number(shared):
    path = shared("video/nasa_13013.mp4")
    assert media.find_track(path, "audio1") == media.find_track(path, "4") == media.tracks(path)[4]


@pytest.mark.parametrize("name", ["video2", "2", "subtitle", "-1"])
def test_track_that_is_not_there_is_a_usage_error(shared, name):
    with pytest.raises(UsageError, match=f"there is no track '{name}'"):
        media.find_track(shared("video/nasa_13013.mp4"), name)


# --- video: times ------------------------------------------------------------------------------


@given(
    st.lists(st.integers(-(2**50), 2**50), min_size=1, max_size=20),
    st.sampled_from([(1, 90_000), (1001, 24_000), (1, 23_040_000), (1, 1000), (1, 3 * 10**9)]),
)
def test_nanoseconds_are_ticks_rounded_half_up(ticks, base):
    base = Fraction(*base)
    expected = [math.floor(t * base * 10**9 + Fraction(1, 2)) for t in ticks]
    if max(abs(e) for e in expected) < 9 * 10**18:
        assert ticks_to_ns(np.array(ticks, np.int64), base).tolist() == expected


def test_stamp_beyond_int64_is_an_error():
    with pytest.raises(DataError, match="beyond 292 years"):
        ticks_to_ns(np.array([2**62], np.int64), Fraction(1, 1000))


def test_phone_video_has_its_true_stamps(shared):
    track = media.scan_video(shared("made/B07/vfr_phone.mp4"))
    truth_ms = np.loadtxt(shared("made/B07/true_stamps_ms.txt"))
    assert (track.n_frames, track.is_variable) == (562, True)
    assert np.abs(track.times_ns - truth_ms * 1e6).max() <= 31_250  # half a tick of 1/16000 s


def test_cut_video_has_the_frames_that_are_left(shared):
    path = shared("made/B08/cut.mp4")
    track = media.scan_video(path)
    assert (track.n_declared, track.n_frames) == (300, 180)
    assert np.flatnonzero(track.damaged).tolist() == [179]
    assert media.decodable_ranks(path).tolist() == list(range(179))


def test_ntsc_rate_stays_a_fraction(shared):
    track = media.scan_video(shared("made/B09/ntsc_2997.mp4"))
    expected = [math.floor(k * Fraction(1001, 30000) * 10**9 + Fraction(1, 2)) for k in range(1200)]
    assert track.nominal_rate_hz == Fraction(30000, 1001)
    assert track.times_ns.tolist() == expected
    assert not track.is_variable


@pytest.mark.parametrize("name", ["bbaf2n", "brbk7n"])
def test_grid_clip_is_75_frames_at_25(shared, name):
    track = media.scan_video(shared(f"video/grid_{name}.mpg"))
    assert (track.n_frames, track.nominal_rate_hz) == (75, 25)
    assert track.times_ns.tolist() == [k * 40_000_000 for k in range(75)]


def test_stamps_are_those_of_a_reference(shared):
    frames = json.loads(shared("video/nasa_13013.stream3.frames.json").read_text())
    stamps = [frame["pts_time"] if isinstance(frame, dict) else frame for frame in frames]
    track = media.scan_video(shared("video/nasa_13013.mp4"), track=1)
    np.testing.assert_allclose(track.times_ns / 1e9, np.array(stamps, float), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "first_ns"),
    [
        ("psd_delayed_start.mp4", 1_075_000_000),
        ("androidx_bbb_800x640_768kbps_30fps_avc_2b_firstpts_10_sec.mp4", 10_000_000_000),
        ("androidx_sample_h264.ts", 1_466_666_667),
        ("androidx_sample_fragmented.mp4", 66_733_333),
    ],
)
def test_non_zero_start_is_kept(shared, name, first_ns):
    assert media.scan_video(shared(f"video/{name}")).times_ns[0] == first_ns


def test_packet_before_the_edit_list_keeps_its_rank_and_is_not_shown(shared):
    path = shared("video/androidx_sample_edit_list_only_preroll_sync_sample.mp4")
    track = media.scan_video(path)
    assert np.flatnonzero(track.discarded).tolist() == [0]
    assert (track.start_s, track.n_frames) == (0.0, 17)
    assert media.decodable_ranks(path).tolist() == list(range(1, 17))


WRAP_S = 2**33 / 90_000  # 26.5 h


def test_stamps_go_on_where_their_33_bits_run_out(tmp_path):
    path = broadcast(tmp_path / "a.ts", int(WRAP_S) - 2)
    track, sound = media.scan_video(path), media.decode_audio(path)
    assert np.diff(track.times_ns).tolist() == [40_000_000] * 99
    assert sound.start_s - track.start_s == pytest.approx(0, abs=0.015)
    assert sound.stamp_error_s < 1e-4
    found = levels(path, [3, 60, 95], scan=track)
    assert {k: round(v) for k, v in found.items()} == pytest.approx(
        {k: level(k) for k in found}, abs=3
    )


def test_recordings_glued_together_are_refused(tmp_path):
    part = broadcast(tmp_path / "a.ts", 10).read_bytes()
    (tmp_path / "glued.ts").write_bytes(part + part)
    with pytest.raises(
        DataError, match=r"glued\.ts: its stamps start again after 100 of 200 frames"
    ):
        media.scan_video(tmp_path / "glued.ts")


@pytest.mark.parametrize(("name", "rotation_deg"), [("0", 0), ("90", 90), ("180", 180)])
def test_rotation_is_recorded_clockwise(shared, name, rotation_deg):
    assert media.scan_video(shared(f"video/decord_video_{name}.mov")).rotation_deg == rotation_deg


@pytest.mark.parametrize(
    ("name", "rate_hz"),
    [
        ("androidx_sample.flv", 30),  # the header says 1000
        ("androidx_sample.mkv", 30),  # and this one 1000 and 60
        ("androidx_sample_12_5fps_720p_1s.mp4", Fraction(25, 2)),
        ("imageio_realshort.mp4", Fraction(45000, 1499)),
        ("moviepy_no_duration.webm", Fraction(15000, 1001)),
        ("androidx_hdr10-video-with-sdr-container.mp4", 30),
    ],
)
def test_nominal_rate_is_one_that_the_stamps_bear_out(shared, name, rate_hz):
    assert media.scan_video(shared(f"video/{name}")).nominal_rate_hz == rate_hz


def test_millisecond_rounding_is_not_variable():
    assert not track_of([0, 33, 67, 100, 133, 167]).is_variable


def test_dropped_frame_is_variable():
    assert track_of([0, 40, 80, 160, 200]).is_variable
    assert track_of([0, 1, 2, 4, 5], Fraction(1001, 24000)).is_variable


def test_jitter_of_3_ms_is_variable():
    assert track_of([0, 33, 70, 100, 133]).is_variable


def test_duration_counts_the_last_frame():
    assert track_of([100, 140, 180]).duration_s == pytest.approx(0.12)


def test_reordered_frames_are_sorted_by_presentation(tmp_path):
    stamps = [0, 40, 80, 120, 200, 240, 280, 330, 370, 410]
    path = film(tmp_path / "a.mkv", stamps, codec="libx264", bf=2)
    track = media.scan_video(path)
    assert (track.times_ns // 1_000_000).tolist() == stamps
    assert list(levels(path, range(10), scan=track)) == list(range(10))


def test_avi_with_reordered_frames_counts_them_in_order(tmp_path):
    base = Fraction(1, 25)
    path = film(tmp_path / "a.avi", range(30), codec="libx264", time_base=base, bf=2, g=10)
    track = media.scan_video(path)
    assert track.stamps == "dts"
    assert track.times_ns.tolist() == [k * 40_000_000 for k in range(30)]
    found = levels(path, [0, 7, 29], scan=track)
    assert {k: round(v) for k, v in found.items()} == pytest.approx(
        {k: level(k) for k in (0, 7, 29)}, abs=3
    )


# --- video: pixels -----------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["mpeg4", "libx264"])
@pytest.mark.parametrize("ranks", [[0], [5, 6], [150], [3, 60, 61, 149], list(range(200))])
def test_frames_are_those_of_their_ranks(films, codec, ranks):
    found = levels(films[codec], ranks)
    assert list(found) == ranks
    np.testing.assert_allclose(list(found.values()), [level(k) for k in ranks], atol=5)


def test_long_hole_is_jumped_over(films, monkeypatch):
    path = films["mpeg4"]
    decoded = []
    ranked = media.video._ranked

    def counted(*args):
        for item in ranked(*args):
            decoded.append(item[0])
            yield item

    monkeypatch.setattr(media.video, "_ranked", counted)
    assert list(levels(path, [1, 190])) == [1, 190]
    assert len(decoded) < 20


def test_seek_that_lands_behind_the_frame_starts_over(films, monkeypatch):
    path = films["mpeg4"]
    track = media.scan_video(path)
    behind = [(180, np.array([150]))]  # an index that names too late a key frame
    monkeypatch.setattr(media.video, "_segments", lambda *_: iter(behind))
    assert round(levels(path, [150], scan=track)[150]) == pytest.approx(level(150), abs=3)


@pytest.mark.parametrize("name", ["muxjs_test-segment.ts", "grid_bbaf2n.mpg", "nasa_13013.mp4",
                                  "psd_delayed_start.mp4", "muxjs_sintel-captions.ts"])  # fmt: skip
def test_frames_after_a_seek_are_those_of_a_full_decode(shared, name):
    path = shared(f"video/{name}")
    track = media.scan_video(path)
    wanted = [2, track.n_frames // 2, track.n_frames - 1]
    every = dict(media.read_frames(path, range(track.n_frames), (32, 32), scan=track))
    for rank, pixels in media.read_frames(path, wanted, (32, 32), scan=track):
        np.testing.assert_array_equal(pixels, every[rank])


def test_frames_that_cannot_be_decoded_are_left_out(shared):
    path = shared("video/decord_corrupted.mp4")
    ranks = [rank for rank, _ in media.read_frames(path, range(50), (16, 16))]
    assert len(ranks) == 48
    assert ranks == sorted(set(ranks))


def test_repeated_ranks_are_given_once(tmp_path):
    path = film(tmp_path / "a.mp4", range(0, 400, 40))
    assert list(levels(path, [4, 4, 2, 4])) == [2, 4]


def test_no_ranks_give_no_frames(tmp_path):
    assert levels(film(tmp_path / "a.mp4", [0, 40]), []) == {}


@pytest.mark.parametrize("rank", [-1, 2])
def test_absent_rank_is_a_usage_error(tmp_path, rank):
    with pytest.raises(UsageError, match=f"no frame {rank}: the track has 2"):
        levels(film(tmp_path / "a.mp4", [0, 40]), [0, rank])


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_do_not_change_the_pixels(shared, threads):
    path = shared("video/ffmpegpython_in.mp4")
    frames = [pixels for _, pixels in media.read_frames(path, [0, 50, 90], threads=threads)]
    reference = [pixels for _, pixels in media.read_frames(path, [0, 50, 90])]
    np.testing.assert_array_equal(frames, reference)


def test_scaled_frames_are_close_to_opencv_area(shared):
    path = shared("video/ffmpegpython_in.mp4")
    capture = cv2.VideoCapture(str(path))
    for _, pixels in media.read_frames(path, range(5), (80, 60), fit="stretch"):
        frame = capture.read()[1][:, :, ::-1]
        expected = cv2.resize(frame, (80, 60), interpolation=cv2.INTER_AREA)
        assert np.abs(pixels.astype(int) - expected).mean() < 2


@pytest.mark.parametrize(
    ("gray", "shape"), [(False, (20, 30, 3)), (True, (20, 30, 1))], ids=["rgb", "gray"]
)
@pytest.mark.parametrize("fit", ["cover", "contain", "stretch"])
def test_frames_have_the_asked_size(tmp_path, gray, shape, fit):
    path = film(tmp_path / "a.mp4", [0, 40])
    frames = dict(media.read_frames(path, [1], (30, 20), gray=gray, fit=fit))
    assert (frames[1].shape, frames[1].dtype) == (shape, np.uint8)


def test_contain_puts_black_bars(tmp_path):
    path = film(tmp_path / "a.mp4", [0, 40], size=(64, 32))
    pixels = dict(media.read_frames(path, [0], (32, 32), gray=True, fit="contain"))[0]
    assert pixels[:8].max() == pixels[24:].max() == 0
    assert abs(int(pixels[8:24].mean()) - level(0)) <= 3


def test_cover_leaves_no_bars(tmp_path):
    path = film(tmp_path / "a.mp4", [0, 40], size=(64, 32))
    pixels = dict(media.read_frames(path, [0], (32, 32), gray=True))[0]
    assert pixels.min() >= level(0) - 3


def test_unknown_fit_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="no fit 'fill'"):
        levels(film(tmp_path / "a.mp4", [0, 40]), [0], fit="fill")


# --- every collected file ----------------------------------------------------------------------

# Where the two decoders differ, or a frame is damaged; the reasons stand in the module.
ODD_VIDEO = {"made/B08/cut.mp4", "video/decord_corrupted.mp4"}
TOO_LONG = {
    "video/androidx_hdr10-video-with-sdr-container.mp4",
    "video/androidx_long_1080p_lowbitrate.mp4",
    "video/moviepy_smpte-2997.mp4",
}


def _ffmpeg_count(path, kind):
    count = 0
    try:
        with av.open(str(path)) as container:
            stream = next(s for s in container.streams if s.type == kind)
            for packet in container.demux(stream):
                try:
                    frames = packet.decode()
                except av.error.FFmpegError:
                    continue
                count += sum(f.samples if kind == "audio" else 1 for f in frames)
    except (av.error.FFmpegError, StopIteration):
        return None
    return count


# FFmpeg decodes whole packets; edit lists and packet durations (ffprobe -show_packets) end the
# sound earlier. Two of these end after whole seconds.
ENDED = {
    "audio/compressed/androidx_long_edit_list_audioonly.mp4": 68_282,
    "video/androidx_bt601.mov": 41_988,
    "video/androidx_silent-black-10s.mp4": 441_000,
    "video/androidx_sample.mp4": 44_100,
    "video/androidx_sample_mdat_too_long.mp4": 44_100,
    "video/androidx_sample_edit_list_only_preroll_sync_sample.mp4": 25_072,
}


@pytest.mark.parametrize("name", files_below("audio", "video", "made/B20"))
def test_every_file_decodes_to_an_independent_count_or_is_a_data_error(shared, name):
    path = shared(name)
    if name in TOO_LONG:
        pytest.skip("takes seconds to decode")
    audio = result_or_error(media.decode_audio, path)
    if not isinstance(audio, DataError):
        counts = {_ffmpeg_count(path, "audio"), _soundfile_count(path)}
        assert audio.n_decoded in ({ENDED[name]} if name in ENDED else counts)
        assert audio.n_decoded == len(audio.samples)


def result_or_error(call, path):
    """Give what a call gives, or its DataError, which must name the file and a way out."""
    try:
        return call(path)
    except DataError as error:
        if error.where != str(path) or not error.hint:
            raise
        return error


def _soundfile_count(path):
    try:
        with soundfile.SoundFile(os.fsencode(path)) as file:
            return sum(map(len, file.blocks(4096, always_2d=True)))
    except soundfile.LibsndfileError:
        return None


@pytest.mark.parametrize("name", files_below("video", "made/B07", "made/B08", "made/B09"))
def test_every_video_has_the_frames_of_an_independent_decode(shared, name):
    path = shared(name)
    track = result_or_error(media.scan_video, path)
    if isinstance(track, DataError):
        return
    assert np.all(np.diff(track.pts) > 0)
    if name in TOO_LONG:
        pytest.skip("takes seconds to decode")
    n_frames = len(media.decodable_ranks(path, scan=track))
    n_damaged = 1 if name in ODD_VIDEO else 0
    assert n_frames + n_damaged == _ffmpeg_count(path, "video")
    assert n_frames + n_damaged + int(track.discarded.sum()) >= track.n_frames - n_damaged
