"""Sound in every container and coding that can be made here, against what was written."""

from __future__ import annotations

import struct
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
import soxr

from mmprep import media
from mmprep.errors import DataError

N = 22_087  # no multiple of any frame, block or page
RATE = 44_100


def chirp(n_samples: int = N, rate_hz: int = RATE, n_channels: int = 1) -> np.ndarray:
    """Sweep up to an eighth of the rate: no two places are alike, and every codec keeps it."""
    t = np.arange(n_samples) / rate_hz
    last_s = n_samples / rate_hz
    wave = 0.3 * np.sin(2 * np.pi * (200 * t + (rate_hz / 8 - 200) * t * t / (2 * last_s)))
    samples = np.stack([wave * (1 - 0.1 * channel) for channel in range(n_channels)], axis=1)
    return np.round(samples * 32768).astype(np.int16)


def encode(path: Path, codec: str, samples, rate_hz: int = RATE, *, start: int = 0) -> Path:
    """Write int16 samples (n, n_channels) with FFmpeg; the first one at sample `start`."""
    layout = {1: "mono", 2: "stereo", 6: "5.1"}[samples.shape[1]]
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=rate_hz, layout=layout, options={"strict": "-2"})
        context = stream.codec_context
        types = [form.name for form in context.codec.audio_formats or ()]
        context.format = next((t for t in ("s16", "s16p") if t in types), types[0])
        context.open()
        resampler = av.AudioResampler(context.format, layout, rate_hz, context.frame_size or 1024)
        frame = av.AudioFrame.from_ndarray(samples.reshape(1, -1), format="s16", layout=layout)
        frame.sample_rate, frame.pts, frame.time_base = rate_hz, start, Fraction(1, rate_hz)
        for part in (*resampler.resample(frame), *resampler.resample(None)):
            container.mux(stream.encode(part))
        container.mux(stream.encode(None))
    return path


def lag(found, wanted) -> int:
    """Say how many samples `found` is late."""
    part = wanted[2000:12_000, 0].astype(float)
    return int(np.correlate(found[:16_000].astype(float), part, "valid").argmax()) - 2000


# --- what FFmpeg reads --------------------------------------------------------------------------

LOSSLESS = {
    "a.flac": "flac",
    "a.oga": "flac",
    "flac.mka": "flac",
    "flac.mp4": "flac",
    "alac.m4a": "alac",
    "alac.caf": "alac",
    "alac.mov": "alac",
    "a.tta": "tta",
    "a.wv": "wavpack",
    "pcm.wav": "pcm_s16le",
    "pcm.aiff": "pcm_s16be",
    "pcm.au": "pcm_s16be",
    "pcm.caf": "pcm_s16le",
    "pcm.voc": "pcm_s16le",
    "pcm.mkv": "pcm_s16le",
    "pcm.mov": "pcm_s16le",
    "pcm.mp4": "pcm_s16le",
    "pcm.avi": "pcm_s16le",
}


@pytest.mark.parametrize("name", LOSSLESS)
@pytest.mark.parametrize("n_samples", [100, N, 88_200])
def test_lossless_sound_comes_out_bit_for_bit(tmp_path, name, n_samples):
    path = encode(tmp_path / name, LOSSLESS[name], chirp(n_samples))
    audio = media.decode_audio(path, dtype="int16")
    np.testing.assert_array_equal(audio.samples, chirp(n_samples)[:, 0])
    assert (audio.native_rate_hz, audio.start_s, audio.n_errors) == (RATE, 0, 0)


GAPLESS = [
    ("a.m4a", "aac", 44_100),
    ("a.m4a", "aac", 8_000),
    ("a.mp4", "aac", 48_000),
    ("a.mov", "aac", 16_000),
    ("a.3gp", "aac", 16_000),
    ("a.mp3", "libmp3lame", 44_100),
    ("a.mp3", "libmp3lame", 16_000),
    ("mp3.mka", "libmp3lame", 44_100),
    ("a.opus", "libopus", 48_000),
    ("opus.ogg", "libopus", 48_000),
    ("opus.webm", "libopus", 48_000),
    ("opus.mka", "libopus", 48_000),
    ("opus.mp4", "libopus", 48_000),
]


@pytest.mark.parametrize("n_samples", [N, 2 * 48_000])
@pytest.mark.parametrize(("name", "codec", "rate_hz"), GAPLESS)
def test_coded_sound_is_as_long_as_its_source_and_in_its_place(
    tmp_path, name, codec, rate_hz, n_samples
):
    samples = chirp(n_samples, rate_hz)
    audio = media.decode_audio(encode(tmp_path / name, codec, samples, rate_hz))
    assert audio.n_decoded == len(audio.samples) == n_samples
    assert (audio.native_rate_hz, audio.start_s, lag(audio.samples, samples)) == (rate_hz, 0, 0)
    assert np.corrcoef(audio.samples, samples[:, 0])[0, 1] > 0.98


def test_mp3_in_mp4_ends_within_the_tick_of_its_edit_list(tmp_path):
    audio = media.decode_audio(encode(tmp_path / "a.mp4", "libmp3lame", chirp()))
    assert N <= audio.n_decoded <= N + RATE // 1000


@pytest.mark.parametrize(
    ("name", "codec", "delay", "longest"),
    [
        ("a.aac", "aac", 1024, 2 * 1024),
        ("a.ts", "aac", 1024, 2 * 1024),
        ("a.avi", "libmp3lame", 1105, 2 * 1152),
        ("a.ac3", "ac3", 256, 1536),
        ("a.mkv", "aac", 0, 1024),
    ],
)
def test_delay_that_no_container_tells_stays(tmp_path, name, codec, delay, longest):
    samples = chirp(N, 48_000)
    audio = media.decode_audio(encode(tmp_path / name, codec, samples, 48_000))
    assert lag(audio.samples, samples) == delay
    assert N <= audio.n_decoded <= N + longest


def test_amr_is_read(tmp_path):
    samples = chirp(16_000, 8_000)
    audio = media.decode_audio(encode(tmp_path / "a.amr", "libopencore_amrnb", samples, 8_000))
    assert (audio.native_rate_hz, audio.n_decoded, audio.n_declared) == (8_000, 16_160, None)


def test_mp3_without_a_tag_keeps_its_delay(tmp_path):
    path = encode(tmp_path / "a.mp3", "libmp3lame", chirp())
    data = path.read_bytes()
    first = data.index(b"\xff\xfb")
    size = 144 * _MP3_KBPS[data[first + 2] >> 4] * 1000 // RATE + (data[first + 2] >> 1 & 1)
    path.write_bytes(data[first + size :])
    audio = media.decode_audio(path)
    assert lag(audio.samples, chirp()) == 1105
    assert (audio.n_decoded % 1152, audio.n_declared) == (0, None)


_MP3_KBPS = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)


@pytest.mark.parametrize(("name", "codec"), [("a.mp4", "aac"), ("a.mkv", "aac")])
def test_sound_that_starts_late_keeps_its_start(tmp_path, name, codec):
    path = encode(tmp_path / name, codec, chirp(), start=RATE // 2)
    with av.open(str(path)) as container:
        wanted = float(container.streams.audio[0].start_time * container.streams.audio[0].time_base)
    assert 0.45 < wanted < 0.51
    assert media.decode_audio(path).start_s == pytest.approx(wanted, abs=0.025)


# --- where the sound of an mp4 ends -------------------------------------------------------------


def box(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(body), name) + body


def patched_mp4(path: Path, *, edit: int, ticks_per_s: int, rest: int | None = None) -> Path:
    """Encode AAC whose packets all last 1024 samples, with an edit list as given."""
    encode(path, "aac", chirp())
    data = bytearray(path.read_bytes())
    struct.pack_into(">I", data, data.index(b"mvhd") + 16, ticks_per_s)
    struct.pack_into(">I", data, data.index(b"elst") + 12, edit)
    times = data.index(b"stts") + 4
    counts = struct.unpack_from(">IIIII", data, times + 4)
    assert counts[0] == 2
    struct.pack_into(">I", data, times + 20, 1024 if rest is None else rest)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("edit", "ticks_per_s", "n_samples"),
    [(N, RATE, N), (2 * N, 2 * RATE, N), (500, 1000, 22_094), (999_999, 1000, 22 * 1024)],
)
def test_edit_list_ends_the_sound(tmp_path, edit, ticks_per_s, n_samples):
    path = patched_mp4(tmp_path / "a.m4a", edit=edit, ticks_per_s=ticks_per_s)
    audio = media.decode_audio(path)
    assert (audio.n_decoded, lag(audio.samples, chirp())) == (n_samples, 0)


def test_note_of_itunes_ends_the_sound(tmp_path):
    path = patched_mp4(tmp_path / "a.m4a", edit=999_999, ticks_per_s=1000)
    text = f" 00000000 00000400 000001B9 {N:016X} 00000000"
    note = box(
        b"----",
        box(b"mean", bytes(4) + b"com.apple.iTunes")
        + box(b"name", bytes(4) + b"iTunSMPB")
        + box(b"data", struct.pack(">II", 1, 0) + text.encode()),
    )
    handler = box(b"hdlr", bytes(8) + b"mdirappl" + bytes(9))
    data = path.read_bytes()
    moov = data.index(b"moov") - 4
    assert data[moov:].endswith(data[moov : moov + struct.unpack_from(">I", data, moov)[0]])
    inner = data[moov + 8 :].replace(b"udta", b"free")
    user = box(b"udta", box(b"meta", bytes(4) + handler + box(b"ilst", note)))
    path.write_bytes(data[:moov] + box(b"moov", inner + user))
    audio = media.decode_audio(path)
    assert (audio.n_decoded, lag(audio.samples, chirp())) == (N, 0)


def test_last_packet_of_an_mp4_lasts_as_long_as_its_table_says(tmp_path):
    path = patched_mp4(tmp_path / "a.m4a", edit=999_999, ticks_per_s=1000, rest=583)
    assert media.decode_audio(path).n_decoded == N


@pytest.mark.parametrize("cut", [b"", b"\0" * 7, b"\0\0\0\x08mvhd", b"\0\0\0\x01mvhd" + bytes(8)])
def test_boxes_that_are_broken_say_nothing(tmp_path, cut):
    from mmprep.media.edits import edit_samples

    (tmp_path / "a.mp4").write_bytes(box(b"ftyp", b"isom") + box(b"moov", cut))
    assert edit_samples(tmp_path / "a.mp4", 1, RATE) is None


# --- what libsndfile reads ----------------------------------------------------------------------

OWN_WAY = {"RAW", "SD2", "MAT4", "MAT5", "MP3"}
BY_FFMPEG = {"IMA_ADPCM", "GSM610", "OPUS", "MPEG_LAYER_III"}
UNWRITTEN = {"DWVW_12"}  # libsndfile lists it and refuses to write it
KINDS = [
    (kind, subtype)
    for kind in sorted(set(soundfile.available_formats()) - OWN_WAY)
    for subtype in sorted(set(soundfile.available_subtypes(kind)) - BY_FFMPEG - UNWRITTEN)
    if soundfile.check_format(kind, subtype)
]


def as_libsndfile_reads(path: Path) -> np.ndarray:
    with soundfile.SoundFile(path) as file:
        file.seekable = lambda: False  # some codings cannot seek
        return file.read(file.frames, dtype="float32", always_2d=True)


def written(path: Path, kind: str, subtype: str, samples, rate_hz: int, **options) -> bool:
    try:
        soundfile.write(path, samples, rate_hz, subtype, format=kind, **options)
    except (ValueError, soundfile.LibsndfileError):  # not in this byte order or number of channels
        return False
    return True


@pytest.mark.parametrize(("kind", "subtype"), KINDS)
def test_every_kind_of_libsndfile_is_read_as_it_reads_it(tmp_path, kind, subtype):
    n_read = 0
    for n_channels in (1, 2):
        for endian in ("FILE", "LITTLE", "BIG"):
            path = tmp_path / f"{n_channels}{endian}"
            noise = np.random.default_rng(n_channels).uniform(-0.9, 0.9, (9001, n_channels))
            if not written(path, kind, subtype, noise, 8000, endian=endian):
                continue
            audio = media.decode_audio(path)
            wanted = as_libsndfile_reads(path)
            np.testing.assert_array_equal(audio.samples.reshape(len(audio.samples), -1), wanted)
            assert audio.native_rate_hz == soundfile.info(path).samplerate
            assert audio.n_decoded >= 9000
            assert audio.n_declared == (None if kind == "VOC" else audio.n_decoded)
            n_read += 1
    assert n_read


@pytest.mark.parametrize("rate_hz", [8_000, 11_025, 96_000, 192_000])
@pytest.mark.parametrize("name", ["a.wav", "a.flac", "a.w64", "a.caf", "a.aiff"])
def test_six_channels_of_any_rate_come_out_as_they_went_in(tmp_path, name, rate_hz):
    samples = chirp(3000, rate_hz, 6)
    soundfile.write(tmp_path / name, samples, rate_hz, "PCM_16")
    audio = media.decode_audio(tmp_path / name, dtype="int16")
    np.testing.assert_array_equal(audio.samples, samples)
    assert audio.native_rate_hz == rate_hz


def test_vorbis_channels_stand_in_the_order_of_wav(tmp_path):
    samples = np.zeros((48_000, 6), np.int16)
    for channel in range(6):
        samples[4000 + 6000 * channel :][:200, channel] = 12_000
    soundfile.write(tmp_path / "a.ogg", samples, 48_000, "VORBIS")
    places = np.abs(media.decode_audio(tmp_path / "a.ogg").samples).argmax(axis=0) // 6000
    # What libsndfile wrote as left, right, centre ... a decoder takes for left, centre, right ...
    assert places.tolist() == [0, 2, 1, 5, 3, 4]
    with av.open(str(tmp_path / "a.ogg")) as container:
        frames = [frame.to_ndarray() for frame in container.decode(audio=0)]
    assert (np.abs(np.concatenate(frames, axis=1)).argmax(axis=1) // 6000).tolist() == [
        *places.tolist()
    ]


# --- headers that lie ---------------------------------------------------------------------------

COUNTED = np.arange(1000, dtype=np.int16)


def with_size(path: Path, kind: str, value: int) -> Path:
    """Write 1000 samples under a header that declares another size."""
    soundfile.write(path, COUNTED, 8000, "PCM_16", format=kind)
    data = bytearray(path.read_bytes())
    place, form = {
        "WAV": (data.find(b"data") + 4, "<I"),
        "AIFF": (data.find(b"COMM") + 10, ">I"),
        "AU": (8, ">I"),
        "CAF": (data.find(b"data") + 4, ">q"),
        "W64": (data.find(b"data") + 16, "<Q"),
    }[kind]
    struct.pack_into(form, data, place, value)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("kind", "value", "n_declared"),
    [
        ("WAV", 0, 0),
        ("WAV", 0xFFFFFFFF, 0x7FFFFFFF),
        ("WAV", 4000, 2000),
        ("AIFF", 0, 0),
        ("AIFF", 0x7FFFFFFF, 0x7FFFFFFF),
        ("AIFF", 2000, 2000),
        ("AU", 0, 0),
        ("AU", 0xFFFFFFFF, 1000),
        ("AU", 0x7FFFFFFE, 0x3FFFFFFF),
        ("AU", 4000, 2000),
        ("CAF", 2**40 + 4, 2**39),
        ("CAF", 4004, 2000),
        ("W64", 24, 0),
        ("W64", 4024, 2000),
        ("W64", 2**40 + 24, 2**39),
    ],
)
def test_length_is_what_is_there_and_the_claim_is_kept(tmp_path, kind, value, n_declared):
    audio = media.decode_audio(with_size(tmp_path / "a", kind, value), dtype="int16")
    np.testing.assert_array_equal(audio.samples, COUNTED)
    assert (audio.n_decoded, audio.n_declared) == (1000, n_declared)
    assert audio.is_short == (n_declared > 1000)


@pytest.mark.parametrize("kind", ["WAV", "RF64", "AIFF", "AU", "CAF", "W64", "VOC", "NIST"])
def test_cut_file_gives_what_is_left(tmp_path, kind):
    path = tmp_path / "a"
    soundfile.write(path, COUNTED, 8000, "PCM_16", format=kind)
    path.write_bytes(path.read_bytes()[:-1001])
    audio = media.decode_audio(path, dtype="int16")
    n_left = len(audio.samples)
    assert 490 <= n_left <= 500
    np.testing.assert_array_equal(audio.samples, COUNTED[:n_left])
    assert kind == "VOC" or audio.is_short


def test_flac_without_a_sample_count_is_read_to_its_end(tmp_path):
    path = tmp_path / "a.flac"
    soundfile.write(path, COUNTED, 8000, "PCM_16")
    data = bytearray(path.read_bytes())
    data[21] &= 0xF0
    data[22:26] = bytes(4)
    path.write_bytes(data)
    audio = media.decode_audio(path, dtype="int16")
    np.testing.assert_array_equal(audio.samples, COUNTED)
    assert audio.n_declared is None


@pytest.mark.parametrize("odd", [b"abc", b"a"])
def test_chunks_of_odd_size_before_the_data_are_passed_over(tmp_path, odd):
    path = tmp_path / "a.wav"
    soundfile.write(path, COUNTED, 8000, "PCM_16")
    data = path.read_bytes()
    place = data.index(b"data")
    chunk = b"note" + struct.pack("<I", len(odd)) + odd + b"\0"
    path.write_bytes(data[:place] + chunk + data[place:])
    np.testing.assert_array_equal(media.decode_audio(path, dtype="int16").samples, COUNTED)


def test_nist_declares_its_sample_count(tmp_path):
    path = tmp_path / "a.sph"
    soundfile.write(path, COUNTED, 8000, "PCM_16", format="NIST")
    assert media.decode_audio(path).n_declared == 1000
    path.write_bytes(path.read_bytes().replace(b"sample_count -i 1000", b"sample_count -i 3000"))
    assert media.decode_audio(path).n_declared == 3000


# --- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["WAV", "RF64", "AIFF", "AU", "CAF", "W64", "NIST", "VOC", "FLAC"])
def test_one_sample_is_enough(tmp_path, kind):
    soundfile.write(tmp_path / "a", np.array([-123], np.int16), 8000, "PCM_16", format=kind)
    assert media.decode_audio(tmp_path / "a", dtype="int16").samples.tolist() == [-123]


@pytest.mark.parametrize("kind", ["WAV", "RF64", "AIFF", "AU", "CAF", "W64", "NIST"])
def test_no_sample_is_a_located_error(tmp_path, kind):
    soundfile.write(tmp_path / "a", COUNTED[:0], 8000, "PCM_16", format=kind)
    with pytest.raises(DataError, match="a: no sample can be decoded"):
        media.decode_audio(tmp_path / "a")


@pytest.mark.parametrize("name", ["a.wav", "a.caf"])
def test_what_is_no_number_stays_none_and_is_0_in_int16(tmp_path, name):
    values = np.array([np.nan, np.inf, -np.inf, 3e38, 0.25], np.float32)
    soundfile.write(tmp_path / name, values, 8000, "FLOAT")
    np.testing.assert_array_equal(media.decode_audio(tmp_path / name).samples, values)
    as_int = media.decode_audio(tmp_path / name, dtype="int16").samples
    assert as_int.tolist() == [0, 32767, -32768, 32767, 8192]


def test_int16_rounds_half_to_even_without_dither(tmp_path):
    values = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 32767.4, 40_000, -40_000]) / 32768
    soundfile.write(tmp_path / "a.wav", values, 8000, "DOUBLE")
    as_int = media.decode_audio(tmp_path / "a.wav", dtype="int16").samples
    assert as_int.tolist() == [0, 2, 2, 0, -2, 32767, 32767, -32768]


def test_wav_of_64_bit_integers_is_read(tmp_path):
    path = encode(tmp_path / "a.wav", "pcm_s64le", chirp())
    np.testing.assert_array_equal(media.decode_audio(path, dtype="int16").samples, chirp()[:, 0])


@pytest.mark.parametrize("n_samples", [2, 7, 999, 12_345])
@pytest.mark.parametrize("rates", [(16_000, 44_100), (44_100, 16_000), (8_000, 48_000)])
def test_resampled_length_is_rounded_and_values_are_those_of_soxr(tmp_path, n_samples, rates):
    old_hz, new_hz = rates
    samples = chirp(n_samples, old_hz, 2)
    soundfile.write(tmp_path / "a.flac", samples, old_hz, "PCM_16")
    audio = media.decode_audio(tmp_path / "a.flac", resample_hz=new_hz)
    whole = soxr.resample(samples / np.float32(32768), old_hz, new_hz, quality="HQ")
    assert len(audio.samples) == int(Fraction(n_samples * new_hz, old_hz) + Fraction(1, 2))
    np.testing.assert_array_equal(audio.samples, whole)


def test_sound_too_short_for_a_sample_at_the_new_rate_is_an_error(tmp_path):
    soundfile.write(tmp_path / "a.wav", COUNTED[:1], 48_000, "PCM_16")
    with pytest.raises(DataError, match="1 samples at 48000 Hz leave none at 8000 Hz"):
        media.decode_audio(tmp_path / "a.wav", resample_hz=8_000)


def test_mono_is_the_mean_and_channel_is_one_in_every_coding(tmp_path):
    samples = chirp(n_channels=2)
    path = encode(tmp_path / "a.m4a", "alac", samples)
    right = media.decode_audio(path, channel=1, dtype="int16").samples
    np.testing.assert_array_equal(right, samples[:, 1])
    mean = media.decode_audio(path, mono=True).samples
    np.testing.assert_array_equal(mean, samples.sum(axis=1) / 65536)
