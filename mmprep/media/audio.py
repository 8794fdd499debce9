"""Decode audio in blocks: native rate, every channel, float32, unless asked otherwise.

Rules
-----
- Encoder delay and padding are trimmed as the container says (LAME tag, edit list, iTunes' note,
  Opus pre-skip). Bare AAC, AC-3 and AMR, MP3 without a tag, MPEG streams, AVI and FLV say nothing
  of them, so that there both stay.
- Channels stand in the order of wav: Vorbis has the centre second.
- Order of work: pick a channel or take the mean, then resample (soxr HQ), then int16. The blocks
  joined are the same samples whatever the block length.
- int16 is rint(x * 32768), clipped, without dither; PCM16 comes out as it went in. float32 is
  never clipped, and what is no number stays none; in int16 it is 0.
- n samples at one rate become floor(n * new / old + 1/2) at another.
- Opus is decoded at 48 kHz, its own rate, whatever the rate of what was encoded.
- A break in the middle ends the audio there: `n_errors` counts it, and `n_declared` shows what is
  missing. No sample at all is an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmprep import files
from mmprep.errors import DataError, UsageError
from mmprep.media.breaks import Stamps
from mmprep.media.edits import edit_samples, itunes_samples
from mmprep.media.files import (
    MediaPath,
    checked,
    ffmpeg_errors,
    is_timed,
    nth_stream,
    open_container,
)
from mmprep.media.headers import Header, WavData, read_header
from mmprep.timebase import sample_index

if TYPE_CHECKING:
    from av.audio.frame import AudioFrame

Samples: TypeAlias = NDArray[Any]
Dtype: TypeAlias = Literal["float32", "int16"]

_SUFFIXES = """
.8svx .aac .ac3 .aif .aifc .aiff .amr .ape .au .avr .awb .bwf .caf .eac3 .fap .flac .m4a .m4b .mka
.mp2 .mp3 .nist .oga .ogg .opus .paf .pvf .rf64 .sds .sf .snd .sph .spx .svx .tta .voc .w64 .wav
.weba .wma .wv .wve .xi
"""
AUDIO_SUFFIXES = frozenset(_SUFFIXES.split())
BLOCK_S = 30.0
MAX_BLOCK_VALUES = 1 << 24
CODED_SLACK = 4096
SKIP_MANUAL = 1 << 29  # AV_CODEC_FLAG2_SKIP_MANUAL: FFmpeg trims nothing
# FFmpeg estimates the length of these from a bit rate or from stamps; the header claims nothing.
ESTIMATED = ("aac", "ac3", "amr", "eac3", "mp3", "mpeg", "mpegts", "voc")
WAV_ORDER = {  # channels -> the places in Vorbis of wav's channels (Vorbis I, 4.3.9)
    3: (0, 2, 1),
    5: (0, 2, 1, 3, 4),
    6: (0, 2, 1, 5, 3, 4),
    7: (0, 2, 1, 6, 5, 3, 4),
    8: (0, 2, 1, 7, 5, 6, 3, 4),
}


@dataclass(frozen=True, slots=True)
class AudioInfo:
    """What is known of an audio track before it is decoded.

    Parameters
    ----------
    rate_hz : int
        The native rate.
    n_declared : int, optional
        Samples per channel that the header claims, None where it claims nothing.
    start_s : float
        The time of the first decoded sample on the container's time line.
    codec : str
        The decoder library's name of the coding.
    decoder : str
        `numpy` (samples of a wav as they stand), `libsndfile` or `ffmpeg`.
    """

    rate_hz: int
    n_channels: int
    n_declared: int | None
    start_s: float
    codec: str
    decoder: str


@dataclass(frozen=True, slots=True)
class Audio:
    """Decoded audio.

    Parameters
    ----------
    samples : [shape=(n_samples,) or (n_samples, n_channels), float32 or int16]
        One axis for one channel. Read-only.
    rate_hz : int
        The rate of `samples`.
    native_rate_hz : int
        The rate of the file.
    n_declared, n_decoded : int
        Samples per channel at the native rate: claimed by the header, and got.
    n_errors : int
        Packets that couldn't be decoded.
    stamp_error_s : float
        The largest distance of a packet's stamp from where its samples stand when they are counted
        from `start_s` and from each break: what sample counting misses.
    breaks : tuple of (row, s)
        Where the sound broke off and went on later: the first of `samples` behind each break, and
        its time on the container's time line; see `media.breaks`.
    """

    samples: Samples
    rate_hz: int
    native_rate_hz: int
    n_declared: int | None
    n_decoded: int
    n_errors: int
    start_s: float
    stamp_error_s: float
    breaks: tuple[tuple[int, float], ...]
    decoder: str
    codec: str

    @property
    def is_short(self) -> bool:
        """Whether samples are missing that the header claims."""
        return is_short(self.codec, self.n_declared, self.n_decoded)


def is_short(codec: str, n_declared: int | None, n_decoded: int) -> bool:
    """Say whether samples are missing that a header claims.

    Coded audio may lack up to 4096: headers count the encoder's delay or not.
    """
    exact = any(name in codec for name in ("pcm", "flac", "float", "double", "alac"))
    allowed = 0 if exact else CODED_SLACK
    return n_declared is not None and n_declared - n_decoded > allowed


@dataclass(frozen=True, slots=True)
class _Wish:
    track: int = 0
    channel: int | None = None
    mono: bool = False
    resample_hz: int | None = None
    dtype: Dtype = "float32"
    block_s: float = BLOCK_S

    def __post_init__(self) -> None:
        if self.channel is not None and self.mono:
            raise UsageError("one channel and the mean of all were asked for", hint="name one")
        if self.resample_hz is not None and self.resample_hz <= 0:
            raise UsageError(f"cannot resample to {self.resample_hz} Hz")
        if self.dtype not in ("float32", "int16"):
            raise UsageError(f"no audio dtype {self.dtype!r}", hint="use float32 or int16")
        if not self.block_s > 0:
            raise UsageError(f"no blocks of {self.block_s} s")


class _Source(Protocol):
    info: AudioInfo
    n_errors: int
    stamps: Stamps

    def pieces(self, n_samples: int) -> Iterator[Samples]: ...

    def close(self) -> None: ...


class _BrokenError(Exception):
    """libsndfile gave up in the middle of a file."""


class _WavSource:
    """The samples of a wav, read by numpy."""

    def __init__(self, path: MediaPath, header: Header, wav: WavData) -> None:
        self.n_errors, self.stamps = 0, Stamps()
        self._wav = wav
        self._file: Any = files.open_input(path, buffering=0)
        self._file.seek(wav.offset)
        self.info = AudioInfo(
            rate_hz=wav.rate_hz,
            n_channels=wav.n_channels,
            n_declared=header.n_declared,
            start_s=0.0,
            codec=wav.codec,
            decoder="numpy",
        )

    def pieces(self, n_samples: int) -> Iterator[Samples]:
        n_channels, n_left = self._wav.n_channels, self._wav.n_samples
        while n_left > 0:
            count = min(n_samples, n_left)
            # numpy.fromfile takes ten system calls where this takes one.
            values = np.empty(count * n_channels, self._wav.dtype)
            n_bytes = self._file.readinto(values.view(np.uint8).data)
            values = values[: n_bytes // values.itemsize]
            whole = len(values) // n_channels * n_channels
            if whole:
                yield _scaled(values[:whole].reshape(-1, n_channels))
            n_left = n_left - count if whole == count * n_channels else 0

    def close(self) -> None:
        self._file.close()


class _SoundFileSource:
    """A file as libsndfile reads it."""

    def __init__(self, path: Path, header: Header) -> None:
        import soundfile

        self.n_errors, self.stamps = 0, Stamps()
        self._watched = files.Watched(path) if files.is_member(path) else None
        # Bytes: soundfile encodes a str strictly, and not every file name is UTF-8.
        self._file = soundfile.SoundFile(self._watched or os.fsencode(path))
        # soundfile seeks after each block; DWVW cannot, and FLAC would decode again.
        self._file.seekable = lambda: False
        self.info = AudioInfo(
            rate_hz=self._file.samplerate,
            n_channels=self._file.channels,
            n_declared=self._file.frames if header.n_declared is None else header.n_declared,
            start_s=0.0,
            codec=f"{self._file.format}/{self._file.subtype}".lower(),
            decoder="libsndfile",
        )

    def pieces(self, n_samples: int) -> Iterator[Samples]:
        import soundfile

        order = WAV_ORDER.get(self._file.channels) if self._file.subtype == "VORBIS" else None
        n_left = self._file.frames
        while n_left > 0:
            count = min(n_samples, n_left)
            try:
                piece = self._file.read(count, dtype="float32", always_2d=True)
            except soundfile.LibsndfileError as error:
                raise _BrokenError from error
            if self._watched is not None:
                self._watched.check()
            if len(piece):
                yield piece if order is None else np.ascontiguousarray(piece[:, order])
            n_left = n_left - count if len(piece) == count else 0

    def close(self) -> None:
        self._file.close()


class _FFmpegSource:
    """A track as FFmpeg reads it. The first frame is decoded at once: only it tells the start."""

    def __init__(self, path: MediaPath, header: Header, track: int) -> None:
        self._path = path
        self.n_errors, self.stamps = 0, Stamps()
        self._container = open_container(path)
        try:
            self._stream = nth_stream(self._container, "audio", track, path)
            self._names = self._container.format.name.split(",")
            self._stream.codec_context.thread_count = 1
            if self._is_alac_in_caf:
                self._stream.codec_context.flags2 |= SKIP_MANUAL
            self._frames = self._decode()
            self._first = next(self._frames, None)
            self.info = self._info(header)
            self._n_kept = self._limit()
        except BaseException:
            self.close()
            raise

    def _info(self, header: Header) -> AudioInfo:
        context = self._stream.codec_context
        rate_hz, n_channels = context.sample_rate, context.channels
        if self._first is not None:
            rate_hz, n_channels = self._first.sample_rate, self._first.layout.nb_channels
        if not rate_hz or not n_channels:
            raise DataError("no sample rate or no channels", where=str(self._path))
        return AudioInfo(
            rate_hz=rate_hz,
            n_channels=n_channels,
            n_declared=self._n_declared(rate_hz, header),
            start_s=self._start_s(),
            codec=context.name,
            decoder="ffmpeg",
        )

    @property
    def _is_alac_in_caf(self) -> bool:
        """FFmpeg would cut the padding twice: as the decoder does, and as the container says."""
        return "caf" in self._names and self._stream.codec_context.name == "alac"

    def _limit(self) -> int | None:
        """Count the samples, from the first that was decoded, that the container shows."""
        if self._first is None:
            return None
        if self._is_alac_in_caf:
            return self.info.n_declared
        if "mov" not in self._names:
            return None
        rate_hz = self.info.rate_hz
        n_shown = itunes_samples(self._container.metadata.get("iTunSMPB")) or edit_samples(
            Path(self._path), self._stream.id, rate_hz
        )
        if n_shown is None or self._first.pts is None:
            return None
        # The decoder may give nothing for a first packet.
        late: Fraction = (self._first.pts - (self._stream.start_time or 0)) * self._stream.time_base
        return max(0, n_shown - round(late * rate_hz))

    def _n_declared(self, rate_hz: int, header: Header) -> int | None:
        if header.n_declared is not None:
            return header.n_declared
        names = self._names
        if self._stream.duration is None or any(name in ESTIMATED for name in names):
            return None
        duration_s: Fraction = self._stream.duration * Fraction(self._stream.time_base)
        n_samples = round(duration_s * rate_hz)
        if "ogg" in names and self._stream.codec_context.name == "opus":
            return n_samples - self._opus_lead()
        return n_samples

    def _opus_lead(self) -> int:
        """Count what FFmpeg adds to the length of an Ogg Opus track: pre-skip and start."""
        head = bytes(self._stream.codec_context.extradata or b"")
        return int.from_bytes(head[10:12], "little") + max(0, self._stream.start_time or 0)

    def _start_s(self) -> float:
        stamp_s = None if self._first is None else _stamp_s(self._first)
        return stamp_s if stamp_s is not None and is_timed(self._container) else 0.0

    def _decode(self) -> Iterator[AudioFrame]:
        from av.error import FFmpegError

        with ffmpeg_errors(self._path):
            packets = self._container.demux(self._stream)
            while (packet := self._next_packet(packets)) is not None:
                try:
                    frames = packet.decode()
                except FFmpegError:
                    self.n_errors += 1
                    continue
                yield from (frame for frame in frames if frame.samples)

    def _next_packet(self, packets: Iterator[Any]) -> Any:
        from av.error import FFmpegError

        try:
            return next(packets, None)
        except FFmpegError:
            self.n_errors += 1
            return None

    def pieces(self, n_samples: int) -> Iterator[Samples]:
        n_done = 0
        for frame, n_valid in self._measured():
            self._check_format(frame, n_done)
            self._note_stamp(frame, n_done)
            if self._n_kept is not None:
                n_valid = min(n_valid, self._n_kept - n_done)  # noqa: PLW2901
            if n_valid > 0:
                n_done += n_valid
                yield _as_float(frame)[:n_valid]

    def _check_format(self, frame: AudioFrame, n_done: int) -> None:
        found = frame.sample_rate, frame.layout.nb_channels
        if found != (self.info.rate_hz, self.info.n_channels):
            raise DataError(
                f"after {n_done} samples {self.info.n_channels} channels at"
                f" {self.info.rate_hz} Hz become {found[1]} at {found[0]} Hz",
                where=str(self._path),
                hint="cut the file where its format changes",
            )

    def _measured(self) -> Iterator[tuple[AudioFrame, int]]:
        """Give the frames with their valid samples: in mp4 the last one may last less than it is.

        That counts where the frame before lasted as long as it was.
        """
        held, was_whole = None, True
        for frame in self._all():
            if held is not None:
                was_whole = self._lasts(held) == held.samples
                yield held, held.samples
            held = frame
        if held is not None:
            n_lasts = self._lasts(held) if was_whole and "mov" in self._names else 0
            yield held, n_lasts if 0 < n_lasts < held.samples else held.samples

    def _lasts(self, frame: AudioFrame) -> int:
        """Give the duration of a frame in samples; 0 where the stamps are coarser than samples."""
        ticks = Fraction(frame.time_base or 0) * self.info.rate_hz
        return frame.duration * int(ticks) if ticks.denominator == 1 else 0

    def _all(self) -> Iterator[AudioFrame]:
        if self._first is not None:
            yield self._first
            self._first = None
        yield from self._frames

    def _note_stamp(self, frame: AudioFrame, n_done: int) -> None:
        stamp_s = _stamp_s(frame)
        if stamp_s is not None and is_timed(self._container):
            self.stamps.note(n_done, stamp_s)

    def close(self) -> None:
        self._container.close()


def _stamp_s(frame: AudioFrame) -> float | None:
    if frame.pts is None or frame.time_base is None:
        return None
    return float(frame.pts * frame.time_base)


def _as_float(frame: AudioFrame) -> Samples:
    """Give the samples of a frame as float32 (n, n_channels), full scale 1."""
    try:
        data = frame.to_ndarray()
    except ValueError as error:
        raise DataError(f"samples of type {frame.format.name}", hint="convert the file") from error
    n_channels = frame.layout.nb_channels
    return _scaled(data.T if frame.format.is_planar else data.reshape(-1, n_channels))


def _scaled(data: Samples) -> Samples:
    """Turn samples of any type into C-ordered float32 of full scale 1."""
    if data.dtype.kind == "f":
        return np.ascontiguousarray(data, dtype=np.float32)
    floats = np.ascontiguousarray(data, dtype=np.float32)
    if data.dtype == np.uint8:
        floats -= 128
    floats *= 2.0 ** (1 - 8 * data.dtype.itemsize)
    return floats


def _open(path: MediaPath, track: int) -> tuple[_Source, Header]:
    absolute = checked(path)
    header = read_header(absolute)
    if header.wav is not None and not track:
        return _WavSource(path, header, header.wav), header
    if header.plain:
        import soundfile

        try:
            source = _SoundFileSource(absolute, header)
        except soundfile.LibsndfileError as error:
            return _second_try(path, header, track, error.error_string), header
        else:
            if track:
                source.close()
                raise UsageError(f"no audio track {track}: the file has 1", where=str(path))
            return source, header
    return _FFmpegSource(path, header, track), header


def _second_try(path: MediaPath, header: Header, track: int, first: str) -> _Source:
    try:
        return _FFmpegSource(path, header, track)
    except DataError as error:
        what = f"{error.what}; libsndfile says: {first.strip().rstrip('.')}"
        raise DataError(what, where=error.where, hint=error.hint) from error


class AudioReader:
    """One audio track, decoded in blocks with flat memory.

    Parameters
    ----------
    path : path
        A file; see `mmprep.media`.
    track : int
        The number among the file's audio tracks, from 0.
    channel : int, optional
        One channel, counted from 0.
    mono : bool
        The mean of all channels.
    resample_hz : int, optional
        The wanted rate; None keeps the native one.
    dtype : str
        `float32` or `int16`.
    block_s : float [s]
        How much sound a block holds at most.

    Raises
    ------
    UsageError
        No such file, track or channel.
    DataError
        Nothing here can read the file.
    """

    def __init__(
        self,
        path: MediaPath,
        *,
        track: int = 0,
        channel: int | None = None,
        mono: bool = False,
        resample_hz: int | None = None,
        dtype: Dtype = "float32",
        block_s: float = BLOCK_S,
    ) -> None:
        self._wish = _Wish(track, channel, mono, resample_hz, dtype, block_s)
        self._path = path
        self._source, self._header = _open(path, track)
        self.info = self._source.info
        self.n_decoded = 0
        if channel is not None and not 0 <= channel < self.info.n_channels:
            self.close()
            raise UsageError(
                f"no channel {channel}: the file has {self.info.n_channels}",
                where=str(path),
                hint="number the channels from 0",
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    @property
    def rate_hz(self) -> int:
        """The rate of the blocks."""
        return self._wish.resample_hz or self.info.rate_hz

    @property
    def n_errors(self) -> int:
        """Packets so far that couldn't be decoded."""
        return self._source.n_errors

    @property
    def is_short(self) -> bool:
        """Whether, at the end, samples are missing that the header claims."""
        return is_short(self.info.codec, self.info.n_declared, self.n_decoded)

    @property
    def stamp_error_s(self) -> float:
        """See `Audio.stamp_error_s`; so far."""
        return self._source.stamps.error_s(self.info.rate_hz)

    @property
    def breaks(self) -> tuple[tuple[int, float], ...]:
        """See `Audio.breaks`; so far, in rows of the blocks."""
        found = self._source.stamps.breaks(self.info.rate_hz)
        if not found:
            return ()
        scale = Fraction(self.rate_hz, self.info.rate_hz)
        return tuple((sample_index(row, scale), round(time_s, 9)) for row, time_s in found)

    def blocks(self) -> Iterator[Samples]:
        """Decode the track, once.

        Yields
        ------
        [shape=(n,) or (n, n_channels), float32 or int16]
            n = block_s * rate_hz, less in the last block.

        Raises
        ------
        DataError
            No sample can be decoded, or the format changes on the way.
        """
        pieces: Iterator[Samples] = (self._chosen(piece) for piece in self._native())
        if self.rate_hz != self.info.rate_hz:
            pieces = resampled(pieces, self.info.rate_hz, self.rate_hz)
        is_empty = True
        for block in _regroup(pieces, self._block_samples(self.rate_hz)):
            is_empty = False
            yield _as_int16(block) if self._wish.dtype == "int16" else block
        if is_empty:
            raise self._emptiness()

    def _emptiness(self) -> DataError:
        if not self.n_decoded:
            what, hint = "no sample can be decoded", "leave the file out, or record it again"
        else:
            what = f"{self.n_decoded} samples at {self.info.rate_hz} Hz leave none at"
            what, hint = f"{what} {self.rate_hz} Hz", "leave the file out"
        return DataError(what, where=str(self._path), hint=hint)

    def _block_samples(self, rate_hz: int) -> int:
        most = MAX_BLOCK_VALUES // self.info.n_channels
        return max(1, min(round(self._wish.block_s * rate_hz), most))

    def _native(self) -> Iterator[Samples]:
        n_samples = self._block_samples(self.info.rate_hz)
        try:
            for piece in self._source.pieces(n_samples):
                self.n_decoded += len(piece)
                yield piece
        except _BrokenError:
            yield from self._rest(n_samples)

    def _rest(self, n_samples: int) -> Iterator[Samples]:
        """Let FFmpeg read on where libsndfile gave up; FLAC gives the same samples."""
        self._source.close()
        self._source = _FFmpegSource(self._path, self._header, self._wish.track)
        self.info = replace(self.info, decoder="ffmpeg")
        n_skip = self.n_decoded
        for piece in self._source.pieces(n_samples):
            fresh = piece[n_skip:]
            n_skip -= len(piece) - len(fresh)
            self.n_decoded += len(fresh)
            yield fresh

    def _chosen(self, piece: Samples) -> Samples:
        wish = self._wish
        if wish.channel is None and not wish.mono and piece.shape[1] > 1:
            return piece
        return one_channel(piece, wish.channel)


def resampled(pieces: Iterable[Samples], rate_hz: float, wanted_hz: float) -> Iterator[Samples]:
    """Resample samples that come in pieces (soxr HQ).

    Parameters
    ----------
    pieces : iterable of [shape=(n,) or (n, n_channels), float32]

    Yields
    ------
    [shape=(n,) or (n, n_channels), float32]
    """
    import soxr

    stream = None
    piece: Samples = np.empty(0, np.float32)
    for piece in pieces:
        if stream is None:
            n_channels = 1 if piece.ndim == 1 else piece.shape[1]
            stream = soxr.ResampleStream(
                rate_hz, wanted_hz, n_channels, dtype="float32", quality="HQ"
            )
        yield stream.resample_chunk(piece)
    if stream is not None:
        yield stream.resample_chunk(piece[:0], last=True)


def one_channel(piece: Samples, channel: int | None = None) -> Samples:
    """Pick a channel, or mix all down to their mean.

    Parameters
    ----------
    piece : [shape=(n, n_channels), float32]

    Returns
    -------
    [shape=(n,), float32]
    """
    if channel is not None:
        return np.ascontiguousarray(piece[:, channel])
    if piece.shape[1] == 1:
        return piece[:, 0]
    # Channel by channel: numpy's mean over a short last axis is several times slower.
    total = piece[:, 0] + piece[:, 1]
    for added in range(2, piece.shape[1]):
        total += piece[:, added]
    total /= piece.shape[1]
    return total


def _as_int16(block: Samples) -> Samples:
    scaled = np.rint(np.clip(block, -1, 1) * np.float32(32768))
    np.minimum(scaled, 32767, out=scaled)
    return np.nan_to_num(scaled, copy=False, nan=0.0).astype(np.int16)


def _regroup(pieces: Iterable[Samples], n_samples: int) -> Iterator[Samples]:
    """Cut a run of arrays into arrays of n_samples rows, the last one shorter."""
    held: list[Samples] = []
    n_held = 0
    for piece in pieces:
        if len(piece):
            held.append(piece)
            n_held += len(piece)
        while n_held >= n_samples:
            whole = held[0] if len(held) == 1 else np.concatenate(held)
            yield whole[:n_samples]
            n_held -= n_samples
            held = [whole[n_samples:]] if n_held else []
    if n_held:
        yield held[0] if len(held) == 1 else np.concatenate(held)


def _joined(blocks: list[Samples], dtype: Dtype) -> Samples:
    if len(blocks) == 1:
        samples = blocks[0]
    else:
        samples = np.concatenate(blocks) if blocks else np.empty(0, dtype)
    samples.setflags(write=False)
    return samples


def audio_info(path: MediaPath, *, track: int = 0) -> AudioInfo:
    """Say what an audio track is; FFmpeg's start is read off the first decoded frame.

    Raises
    ------
    UsageError, DataError
        See `AudioReader`.
    """
    source, _ = _open(path, track)
    with closing(source):
        return source.info


def audio_blocks(
    path: MediaPath,
    *,
    track: int = 0,
    channel: int | None = None,
    mono: bool = False,
    resample_hz: int | None = None,
    dtype: Dtype = "float32",
    block_s: float = BLOCK_S,
) -> Iterator[Samples]:
    """Decode a track in blocks of `block_s` seconds; the parameters are those of AudioReader.

    Yields
    ------
    [shape=(n,) or (n, n_channels), float32 or int16]
    """
    with AudioReader(
        path,
        track=track,
        channel=channel,
        mono=mono,
        resample_hz=resample_hz,
        dtype=dtype,
        block_s=block_s,
    ) as reader:
        yield from reader.blocks()


def decode_audio(
    path: MediaPath,
    *,
    track: int = 0,
    channel: int | None = None,
    mono: bool = False,
    resample_hz: int | None = None,
    dtype: Dtype = "float32",
) -> Audio:
    """Decode a whole track; the parameters are those of AudioReader.

    Returns
    -------
    Audio
        Its samples are the blocks of `audio_blocks` joined.

    Raises
    ------
    UsageError, DataError
        See `AudioReader` and `AudioReader.blocks`.
    """
    with AudioReader(
        path, track=track, channel=channel, mono=mono, resample_hz=resample_hz, dtype=dtype
    ) as reader:
        samples = _joined(list(reader.blocks()), dtype)
        return Audio(
            samples=samples,
            rate_hz=reader.rate_hz,
            native_rate_hz=reader.info.rate_hz,
            n_declared=reader.info.n_declared,
            n_decoded=reader.n_decoded,
            n_errors=reader.n_errors,
            start_s=reader.info.start_s,
            stamp_error_s=reader.stamp_error_s,
            breaks=reader.breaks,
            decoder=reader.info.decoder,
            codec=reader.info.codec,
        )
