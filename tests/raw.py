"""Small raw recordings for the tests of steps and commands."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import soundfile
from av.stream import Disposition


def table(path: Path, *, n_rows: int = 40, rate_hz: int = 4, start_s: int = 0) -> Path:
    """Write a table of one channel `x`: x counts the rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = "".join(f"{start_s + k / rate_hz:.4f}\t{k}\n" for k in range(n_rows))
    path.write_text("time\tx\n" + rows)
    return path


def sound(path: Path, *, n_samples: int = 800, rate_hz: int = 8000, n_channels: int = 1) -> Path:
    """Write noise that depends on the name alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(sum(path.name.encode())).integers(
        -9000, 9000, (n_samples, n_channels), dtype=np.int16
    )
    soundfile.write(path, noise, rate_hz, subtype="PCM_16")
    return path


def level(rank: int) -> int:
    """Give the grey of a frame of `film`."""
    return 20 + 3 * (rank % 70)


def film(
    path: Path,
    stamps: Iterable[int],
    *,
    codec: str = "mpeg4",
    time_base: Fraction = Fraction(1, 1000),
    size: tuple[int, int] = (64, 48),
    index_first: bool = False,
    **options: object,
) -> Path:
    """Write a video whose frame k is a plain grey of level(k)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = {"movflags": "faststart"} if index_first else {}
    with av.open(str(path), "w", options=flags) as container:
        stream = container.add_stream(
            codec, rate=25, options={k: str(v) for k, v in options.items()}
        )
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        stream.codec_context.time_base = time_base
        for rank, stamp in enumerate(stamps):
            picture = np.full((size[1], size[0]), level(rank), np.uint8)
            frame = av.VideoFrame.from_ndarray(picture, format="gray").reformat(format="yuv420p")
            frame.pts, frame.time_base = stamp, time_base
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


SQUARE = (16, 16)


def corner(rank: int) -> tuple[int, int]:
    """Give left and top of the square of `square_film` in a frame."""
    return 10 + 2 * rank, 20 + rank


def square_picture(rank: int) -> np.ndarray:
    """Give a frame of `square_film`: a moving square before colours that tell their place."""
    picture = np.zeros((120, 160, 3), np.uint8)
    picture[..., 0], picture[..., 1] = np.arange(160), np.arange(120)[:, np.newaxis]
    left, top = corner(rank)
    picture[top : top + SQUARE[1], left : left + SQUARE[0]] = (255, 40, rank)
    return picture


def square_film(path: Path, n_frames: int = 50) -> Path:
    """Write a lossless film of 160x120, 25 Hz, in which a square moves."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=25)
        stream.width, stream.height, stream.pix_fmt = 160, 120, "bgr0"
        for rank in range(n_frames):
            frame = av.VideoFrame.from_ndarray(square_picture(rank), format="rgb24")
            frame = frame.reformat(format="bgr0")
            frame.pts, frame.time_base = rank, Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def packed_sound(path: Path, codec: str, *, n_samples: int = 48_000, rate_hz: int = 48_000) -> Path:
    """Write a tone in a container for video that holds nothing else."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tone = 0.4 * np.sin(2 * np.pi * 440 * np.arange(n_samples) / rate_hz)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=rate_hz, layout="mono")
        frame = av.AudioFrame.from_ndarray(
            tone[None].astype(np.float32), format="fltp", layout="mono"
        )
        frame.sample_rate, frame.pts = rate_hz, 0
        resampler = av.AudioResampler(
            format=stream.codec_context.format, frame_size=stream.codec_context.frame_size or None
        )
        for part in (*resampler.resample(frame), *resampler.resample(None)):
            container.mux(stream.encode(part))
        container.mux(stream.encode())
    return path


def talkie(
    path: Path,
    stamps_ms: Iterable[int],
    flashes: Iterable[int],
    *,
    sound_from_s: Fraction = Fraction(0),
    sound_s: int = 10,
    beeps_s: Iterable[float] = (),
    lost_s: tuple[float, float] = (0, 0),
    codec: str = "pcm_s16le",
    rate_hz: int = 16_000,
) -> Path:
    """Write a film with sound: white frames of these ranks, 20 ms beeps at these times.

    Packets of sound that begin within `lost_s` are left out.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    white = set(flashes)
    times = float(sound_from_s) + np.arange(sound_s * rate_hz) / rate_hz
    sound = np.zeros(times.size, np.int16)
    for beep in beeps_s:
        inside = (times >= beep) & (times < beep + 0.02)
        sound[inside] = (16_000 * np.cos(2 * np.pi * 1000 * (times[inside] - beep))).astype(
            np.int16
        )
    with av.open(str(path), "w") as container:
        picture = container.add_stream("mpeg4", rate=25)
        picture.width, picture.height, picture.pix_fmt = 64, 48, "yuv420p"
        picture.codec_context.time_base = Fraction(1, 1000)
        voice = container.add_stream(codec, rate=rate_hz, layout="mono")
        for rank, stamp in enumerate(stamps_ms):
            grey = np.full((48, 64), 235 if rank in white else 40, np.uint8)
            frame = av.VideoFrame.from_ndarray(grey, format="gray").reformat(format="yuv420p")
            frame.pts, frame.time_base = stamp, Fraction(1, 1000)
            container.mux(picture.encode(frame))
        for begin in range(0, sound.size, 1024):
            part = av.AudioFrame.from_ndarray(
                sound[None, begin : begin + 1024], format="s16", layout="mono"
            )
            part.sample_rate, part.time_base = rate_hz, Fraction(1, rate_hz)
            part.pts = round(sound_from_s * rate_hz) + begin
            if not lost_s[0] <= times[begin] < lost_s[1]:
                container.mux(voice.encode(part))
        container.mux(picture.encode())
        container.mux(voice.encode())
    return path


def covered(path: Path, *, with_video: bool) -> Path:
    """Write a second of sound with an attached cover, and of video where asked for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        film_stream = container.add_stream("mpeg4", rate=25) if with_video else None
        if film_stream is not None:
            film_stream.width, film_stream.height, film_stream.pix_fmt = 64, 48, "yuv420p"
        voice = container.add_stream("aac", rate=16_000, layout="mono")
        cover = container.add_stream("mjpeg", rate=1)
        cover.width, cover.height, cover.pix_fmt = 32, 32, "yuvj420p"
        cover.disposition = Disposition.attached_pic
        grey = av.VideoFrame.from_ndarray(np.full((48, 64), 90, np.uint8), format="gray")
        picture = grey.reformat(32, 32, "yuvj420p")
        picture.pts = 0
        container.mux([*cover.encode(picture), *cover.encode(None)])
        if film_stream is not None:
            for rank in range(25):
                frame = grey.reformat(format="yuv420p")
                frame.pts, frame.time_base = rank, Fraction(1, 25)
                container.mux(film_stream.encode(frame))
            container.mux(film_stream.encode())
        tone = av.AudioFrame.from_ndarray(np.zeros((1, 16_000), np.int16), "s16", "mono")
        tone.sample_rate, tone.pts = 16_000, 0
        resampler = av.AudioResampler(format="fltp", frame_size=1024)
        for part in (*resampler.resample(tone), *resampler.resample(None)):
            container.mux(voice.encode(part))
        container.mux(voice.encode())
    return path


def broadcast(path: Path, start_s: int, *, n_frames: int = 100) -> Path:
    """Write an MPEG transport stream that begins at a given time: film and sound, 25 Hz."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w", options={"mpegts_copyts": "1"}) as container:
        picture = container.add_stream("mpeg4", rate=25)
        picture.width, picture.height, picture.pix_fmt = 64, 48, "yuv420p"
        voice = container.add_stream("mp2", rate=48_000, layout="mono")
        packets = []
        for rank in range(n_frames):
            grey = np.full((48, 64), level(rank), np.uint8)
            frame = av.VideoFrame.from_ndarray(grey, format="gray").reformat(format="yuv420p")
            frame.pts, frame.time_base = 25 * start_s + rank, Fraction(1, 25)
            packets += picture.encode(frame)
        for begin in range(0, 1920 * n_frames, 1152):
            part = av.AudioFrame.from_ndarray(np.zeros((1, 1152), np.int16), "s16", "mono")
            part.sample_rate, part.time_base = 48_000, Fraction(1, 48_000)
            part.pts = 48_000 * start_s + begin
            packets += voice.encode(part)
        packets += [*picture.encode(), *voice.encode()]
        container.mux(sorted(packets, key=lambda packet: packet.dts * packet.time_base))
    return path
