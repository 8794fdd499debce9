"""Times and pixels of video frames.

Rules
-----
- A frame's rank is its place by PTS over all packets of the track. Times come from a scan of the
  packets; one frame is decoded, for the rotation.
- Edit lists are honoured as FFmpeg does it: stamps are moved, and packets that are only there to
  be decoded are marked `discarded`. They keep their rank and give no pixels.
- A packet that the container marks as damaged (cut off) keeps its rank and gives no pixels; nor
  does a frame that FFmpeg flags as corrupt or cannot decode.
- Without PTS, and in an AVI with reordered frames (its PTS are in storage order), the sorted DTS
  are the times and rank counts the decoded frames (`stamps` is `dts`).
- Rotation is recorded, not applied.
- FFmpeg counts on where the 33 bits of an MPEG stamp run out, after 26.5 h. A file whose stamps
  start again is refused.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmprep.errors import DataError, UsageError
from mmprep.media.cutting import cutter, interpolation, layout_of
from mmprep.media.files import MediaPath, as_fraction, ffmpeg_errors, nth_stream, opened
from mmprep.media.frozen import Watch
from mmprep.timebase import NS_PER_S, BoolArray, IntArray

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.frame import VideoFrame

Pixels: TypeAlias = NDArray[np.uint8]

_SUFFIXES = ".3gp .avi .flv .m2ts .m4v .mkv .mov .mp4 .mpeg .mpg .mts .mxf .ts .webm .wmv"
VIDEO_SUFFIXES = frozenset(_SUFFIXES.split())
_RATES = "5 10 12 25/2 15 20 24000/1001 24 25 30000/1001 30 50 60000/1001 60 90 100 120 200 240"
COMMON_RATES = tuple(Fraction(text) for text in _RATES.split())
N_PROBED = 64  # packets in which the first frame is looked for
RESTART_S = 1.0  # packets are stored in order of decoding, but for some ticks
N_SEEK = 12  # frames worth decoding rather than seeking
_NO_STAMP = -(2**63)


@dataclass(frozen=True, slots=True)
class VideoTrack:
    """The frames of a video track, sorted by presentation.

    Parameters
    ----------
    pts : [shape=(n_frames,), int64, time_base]
        Presentation stamps on the container's time line; a non-zero start is kept.
    time_base : Fraction [s]
        One tick.
    nominal_rate_hz : Fraction, optional
        The header's rate if the stamps bear it out, else the nearest usual rate.
    n_declared : int, optional
        Frames that the header claims.
    rotation_deg : int
        Degrees clockwise by which a player turns the frames: 0, 90, 180 or 270.
    is_key, discarded, damaged : [shape=(n_frames,), bool]
        Key frames; packets outside the edit list; packets marked as cut off.
    stamps : str
        `pts` or `dts`, see the module.
    n_errors : int
        1 if the scan stopped before the end of the file.
    """

    pts: IntArray
    time_base: Fraction
    nominal_rate_hz: Fraction | None
    n_declared: int | None
    width: int
    height: int
    rotation_deg: int
    codec: str
    is_key: BoolArray
    discarded: BoolArray
    damaged: BoolArray
    stamps: str = "pts"
    track: int = 0
    n_errors: int = 0

    def __post_init__(self) -> None:
        for column in (self.pts, self.is_key, self.discarded, self.damaged):
            column.setflags(write=False)

    def __repr__(self) -> str:
        size = f"{self.width}x{self.height}"
        return f"VideoTrack({self.codec}, {size}, n_frames={self.n_frames})"

    @property
    def n_frames(self) -> int:
        """The number of packets, each of which holds a frame."""
        return int(self.pts.size)

    @property
    def keyframes(self) -> IntArray:
        """The ranks of the key frames."""
        return np.flatnonzero(self.is_key).astype(np.int64)

    @property
    def times_ns(self) -> IntArray:
        """The times of the frames on the container's time line.

        Returns
        -------
        [shape=(n_frames,), int64, ns]
            floor(pts * time_base * 10^9 + 1/2), computed exactly.
        """
        return ticks_to_ns(self.pts, self.time_base)

    @property
    def start_s(self) -> float:
        """The time of the first frame that is shown."""
        shown = self.pts[~self.discarded]
        return float(int(shown[0] if shown.size else self.pts[0]) * self.time_base)

    @property
    def duration_s(self) -> float:
        """From the first frame that is shown to the last frame, and one median interval more."""
        intervals = np.diff(self.pts)
        last = float(np.median(intervals)) if intervals.size else 0.0
        return (float(self.pts[-1]) + last) * float(self.time_base) - self.start_s

    @property
    def is_variable(self) -> bool:
        """Whether the intervals differ by more than a tick or a millisecond, or one is a gap.

        A millisecond is what the coarsest containers round stamps to; a gap is an interval over
        1.5 medians.
        """
        intervals = np.diff(self.pts)
        if intervals.size < 2:
            return False
        median = float(np.median(intervals))
        apart = float(np.abs(intervals - median).max())
        rounding = max(1.0, float(Fraction(1, 1000) / self.time_base))
        return apart > rounding or float(intervals.max()) > 1.5 * median + (median > 1)


def ticks_to_ns(ticks: IntArray, time_base: Fraction) -> IntArray:
    """Turn ticks into nanoseconds, halves up, in integers.

    Parameters
    ----------
    ticks : [shape=(n,), int64]
    time_base : Fraction [s]

    Returns
    -------
    [shape=(n,), int64, ns]
        floor(ticks * time_base * 10^9 + 1/2)

    Raises
    ------
    DataError
        A time is beyond int64 nanoseconds (292 years).
    """
    numerator, denominator = time_base.numerator, time_base.denominator
    largest = int(np.abs(ticks).max(initial=0)) * numerator
    if largest // denominator >= 2**63 // NS_PER_S:
        raise DataError(f"a stamp of {largest // denominator} s is beyond 292 years")
    if largest >= 2**62 or denominator >= 2**31:
        exact = [(2 * int(t) * numerator * NS_PER_S // denominator + 1) // 2 for t in ticks]
        return np.array(exact, np.int64)
    seconds, rest = np.divmod(ticks * np.int64(numerator), np.int64(denominator))
    below: IntArray = (2 * rest * NS_PER_S + denominator) // (2 * denominator)
    return seconds * NS_PER_S + below


@dataclass(frozen=True, slots=True)
class _Packets:
    """The packets of a track as they lie in the file; `_NO_STAMP` where one has none."""

    pts: IntArray
    dts: IntArray
    is_key: BoolArray
    discarded: BoolArray
    damaged: BoolArray
    rotation_deg: int
    n_errors: int


def scan_video(path: MediaPath, *, track: int = 0) -> VideoTrack:
    """Read the stamps of all frames from the packets of a video track.

    Parameters
    ----------
    path : path
        A file.
    track : int
        The number among the file's video tracks, from 0; covers don't count.

    Raises
    ------
    UsageError
        No such file or track.
    DataError
        Not a video, a track without frames, or several recordings in one.
    """
    with opened(path) as container, ffmpeg_errors(path):
        stream = nth_stream(container, "video", track, path)
        stream.codec_context.thread_count = 1
        packets = _packets(container, stream)
        if not packets.pts.size:
            raise DataError("the video track has no frames", where=str(path))
        _check_goes_on(packets.dts, Fraction(stream.time_base), str(path))
        is_avi = container.format.name == "avi"
        stamps, order, ticks = _order(packets, is_avi=is_avi, where=str(path))
        context, time_base = stream.codec_context, Fraction(stream.time_base)
        return VideoTrack(
            pts=ticks,
            time_base=time_base,
            nominal_rate_hz=_nominal_rate(stream, ticks, time_base),
            n_declared=stream.frames or None,
            width=context.width,
            height=context.height,
            rotation_deg=packets.rotation_deg,
            codec=context.name,
            is_key=packets.is_key[order],
            discarded=packets.discarded[order],
            damaged=packets.damaged[order],
            stamps=stamps,
            track=track,
            n_errors=packets.n_errors,
        )


def _packets(container: InputContainer, stream: Any) -> _Packets:
    pts, dts, flags = array("q"), array("q"), array("B")  # lists take ten times as much
    rotation_deg: int | None = None
    errors: list[str] = []
    for packet in _demuxed(container, stream, errors):
        if rotation_deg is None and len(pts) < N_PROBED:
            rotation_deg = next((-frame.rotation % 360 for frame in _decoded(packet)), None)
        if packet.size:
            pts.append(_NO_STAMP if packet.pts is None else packet.pts)
            dts.append(_NO_STAMP if packet.dts is None else packet.dts)
            flags.append(packet.is_keyframe + 2 * packet.is_discard + 4 * packet.is_corrupt)
    is_key, discarded, damaged = (np.array(flags) & mark != 0 for mark in (1, 2, 4))
    return _Packets(
        np.array(pts),
        np.array(dts),
        is_key,
        discarded,
        damaged,
        int(rotation_deg or 0),
        len(errors),
    )


def _demuxed(container: InputContainer, stream: Any, errors: list[str]) -> Iterator[Packet[Any]]:
    """Give the packets of a stream up to the end or to where the container breaks."""
    from av.error import FFmpegError

    packets = container.demux(stream)
    while True:
        try:
            packet = next(packets)
        except StopIteration:
            return
        except FFmpegError as error:
            errors.append(str(error))
            return
        yield packet


def _decoded(packet: Any) -> list[VideoFrame]:
    """Decode a packet; a packet that cannot be decoded gives nothing."""
    from av.error import FFmpegError

    try:
        return list(packet.decode())
    except FFmpegError:
        return []


def _check_goes_on(dts: IntArray, time_base: Fraction, where: str) -> None:
    """Refuse recordings glued together: their frames would be sorted into one another."""
    known = np.flatnonzero(dts != _NO_STAMP)
    back = np.flatnonzero(np.diff(dts[known]) * float(time_base) < -RESTART_S)
    if back.size:
        raise DataError(
            f"its stamps start again after {known[back[0] + 1]} of {dts.size} frames",
            where=where,
            hint="it holds several recordings: part them, or let FFmpeg give it stamps that go on:"
            " ffmpeg -i IN -c copy OUT.mkv",
        )


def _order(packets: _Packets, *, is_avi: bool, where: str) -> tuple[str, IntArray, IntArray]:
    """Choose the stamps; give their name, the presentation order of the packets, and the ticks."""
    stamps, ticks = "pts", packets.pts
    if np.any(ticks == _NO_STAMP) or (is_avi and np.any(ticks != packets.dts)):
        stamps, ticks = "dts", packets.dts
    if n_without := int((ticks == _NO_STAMP).sum()):
        raise DataError(
            f"{n_without} of {ticks.size} frames have no time",
            where=where,
            hint="put the video into a container that has times, e.g. ffmpeg -i IN -c copy OUT.mkv",
        )
    order = np.argsort(ticks, kind="stable").astype(np.int64)
    return stamps, order, ticks[order]


def _nominal_rate(stream: Any, ticks: IntArray, time_base: Fraction) -> Fraction | None:
    """Choose the declared rate that the median interval bears out, else the nearest usual one."""
    declared = [as_fraction(r) for r in (stream.guessed_rate, stream.average_rate)]
    rates = [rate for rate in declared if rate is not None]
    intervals = np.diff(ticks)
    intervals = intervals[intervals > 0]
    if not intervals.size:
        return rates[0] if rates else None
    median_s = Fraction(float(np.median(intervals))) * time_base
    tolerance_s = max(time_base, median_s / 50)
    for rate in rates:
        if abs(1 / rate - median_s) <= tolerance_s:
            return rate
    usual = intervals[intervals <= 1.5 * np.median(intervals)]
    measured = 1 / (Fraction(float(usual.mean())) * time_base)
    nearest = min(COMMON_RATES, key=lambda rate: abs(rate - measured))
    close = abs(nearest - measured) <= measured / 100
    return nearest if close else measured.limit_denominator(1001)


def read_frames(
    path: MediaPath,
    ranks: Iterable[int] | IntArray,
    size: tuple[int, int] | None = None,
    *,
    gray: bool = False,
    fit: str = "cover",
    track: int = 0,
    scan: VideoTrack | None = None,
    threads: int = 1,
    watch: Watch | None = None,
    rects: IntArray | None = None,
) -> Iterator[tuple[int, Pixels]]:
    """Decode chosen frames, forward, each once.

    Parameters
    ----------
    path : path
        A file.
    ranks : ints
        Presentation ranks, see VideoTrack; each is given once, in order.
    size : (width, height), optional
        The wanted size; None keeps that of the file.
    gray : bool
        One channel of luma, else RGB.
    fit : str
        `cover` fills the size and cuts what sticks out, `contain` shows all within black bars,
        `stretch` gives up the proportions.
    scan : VideoTrack, optional
        What `scan_video` gave for this track, to save the scan.
    threads : int
        Decoder threads.
    watch : Watch, optional
        Sees every frame that is decoded on the way.
    rects : [shape=(n_frames, 4), int64, px], optional
        Left, top, width and height of what is cut out of each frame before it is scaled; black
        where it reaches over the border.

    Yields
    ------
    (rank, [shape=(height, width, 3 or 1), uint8])
        Nothing for a rank whose frame is missing, damaged or outside the edit list.

    Raises
    ------
    UsageError
        No such rank, file, track or fit.
    DataError
        Not a video.
    """
    known = scan if scan is not None else scan_video(path, track=track)
    convert = _converter(size, gray=gray, fit=fit)
    cut = cutter(gray=gray)
    for rank, frame in _frames(path, known, _wanted(ranks, known, path), threads, watch):
        with ffmpeg_errors(path):
            pixels = convert(frame if rects is None else cut(frame, rects[rank]))
        yield rank, pixels


def decodable_ranks(
    path: MediaPath,
    *,
    track: int = 0,
    scan: VideoTrack | None = None,
    threads: int = 1,
    watch: Watch | None = None,
) -> IntArray:
    """Decode a whole track and tell which frames came out; the parameters are as in read_frames.

    Returns
    -------
    [shape=(n,), int64]
        Ranks, sorted.
    """
    known = scan if scan is not None else scan_video(path, track=track)
    wanted = np.arange(known.n_frames)
    frames = _frames(path, known, wanted, threads, watch)
    return np.array([rank for rank, _ in frames], dtype=np.int64)


def _wanted(ranks: Iterable[int] | IntArray, known: VideoTrack, path: MediaPath) -> IntArray:
    wanted = np.unique(np.asarray(ranks, dtype=np.int64))
    if wanted.size and not 0 <= wanted[0] <= wanted[-1] < known.n_frames:
        raise UsageError(
            f"no frame {wanted[0] if wanted[0] < 0 else wanted[-1]}: the track has"
            f" {known.n_frames}",
            where=str(path),
        )
    return wanted


def _frames(
    path: MediaPath,
    known: VideoTrack,
    wanted: IntArray,
    threads: int,
    watch: Watch | None = None,
) -> Iterator[tuple[int, VideoFrame]]:
    """Decode the wanted ranks, seeking to a key frame wherever that saves N_SEEK frames."""
    with opened(path) as container, ffmpeg_errors(path):
        stream = nth_stream(container, "video", known.track, path)
        context = stream.codec_context
        context.thread_count = threads
        context.thread_type = "AUTO" if threads > 1 else "SLICE"
        for key, segment in _segments(known, wanted):
            if key:
                container.seek(int(known.pts[key]), stream=stream, backward=True)
            frames = _ranked(container, stream, known, watch)
            first = next(frames, None)
            if key and (first is None or first[0] > segment[0]):
                # The index pointed behind the frame: decode from the beginning.
                frames, first = _reopened(path, known, threads, watch), None
            yield from _picked(first, frames, segment)


def _reopened(
    path: MediaPath, known: VideoTrack, threads: int, watch: Watch | None
) -> Iterator[tuple[int, VideoFrame]]:
    with opened(path) as container, ffmpeg_errors(path):
        stream = nth_stream(container, "video", known.track, path)
        stream.codec_context.thread_count = threads
        yield from _ranked(container, stream, known, watch)


def _segments(known: VideoTrack, wanted: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Cut the wanted ranks where a seek pays; give the rank of the key frame and the ranks."""
    if not wanted.size:
        return
    keys = known.keyframes if known.stamps == "pts" else np.zeros(0, np.int64)
    before = np.searchsorted(keys, wanted, side="right") - 1
    key_of = np.where(before >= 0, keys[before] if keys.size else 0, 0)
    previous = np.concatenate([[0], wanted[:-1]])
    cuts = np.flatnonzero(key_of > previous + N_SEEK)
    for segment in np.split(np.arange(wanted.size), cuts):
        if segment.size:
            begin = int(segment[0])
            seeks = bool(np.isin(begin, cuts))
            yield (int(key_of[begin]) if seeks else 0), wanted[segment]


def _ranked(
    container: InputContainer, stream: Any, known: VideoTrack, watch: Watch | None
) -> Iterator[tuple[int, VideoFrame]]:
    """Decode on from here; give each frame with its rank."""
    rank = -1
    for packet in _demuxed(container, stream, []):
        for frame in _decoded(packet):
            rank = _rank(frame, rank, known)
            if rank >= known.n_frames:
                return
            if watch is not None and not frame.is_corrupt:
                watch.see(rank, frame)
            yield rank, frame


def _rank(frame: VideoFrame, previous: int, known: VideoTrack) -> int:
    """Find a frame's rank by its stamp; frames of one stamp take consecutive ranks."""
    if known.stamps != "pts" or frame.pts is None:
        return previous + 1
    rank = int(np.searchsorted(known.pts, frame.pts))
    twin = rank <= previous < known.n_frames - 1 and known.pts[previous + 1] == frame.pts
    return previous + 1 if twin else rank


def _picked(
    first: tuple[int, VideoFrame] | None,
    frames: Iterator[tuple[int, VideoFrame]],
    segment: IntArray,
) -> Iterator[tuple[int, VideoFrame]]:
    wanted = set(segment.tolist())
    last = int(segment[-1])
    item = first if first is not None else next(frames, None)
    while item is not None and item[0] <= last:
        rank, frame = item
        if rank in wanted and not frame.is_corrupt:
            wanted.discard(rank)
            yield rank, frame
        if not wanted:
            return
        item = next(frames, None)


def _converter(
    size: tuple[int, int] | None, *, gray: bool, fit: str
) -> Callable[[VideoFrame], Pixels]:
    from av.video.reformatter import VideoReformatter

    if fit not in FITS:
        raise UsageError(f"no fit {fit!r}", hint=f"use {', '.join(sorted(FITS))}")
    if size is not None and (size[0] < 1 or size[1] < 1):
        raise UsageError(f"no frames of {size[0]}x{size[1]} pixels")
    # One reformatter for all frames: it keeps its tables, a frame's own doesn't.
    scaler = VideoReformatter()
    layout = layout_of(gray=gray)

    def convert(frame: VideoFrame) -> Pixels:
        width, height = size if size is not None else (frame.width, frame.height)
        scaled = FITS[fit]((frame.width, frame.height), (width, height))
        small = scaler.reformat(frame, *scaled, layout, interpolation=interpolation(frame, scaled))
        picture = np.asarray(small.to_ndarray(), np.uint8).reshape(scaled[1], scaled[0], -1)
        return _centred(picture, (width, height))

    return convert


def _scaled(source: tuple[int, int], scale: Fraction) -> tuple[int, int]:
    return max(1, round(source[0] * scale)), max(1, round(source[1] * scale))


def _cover(source: tuple[int, int], size: tuple[int, int]) -> tuple[int, int]:
    return _scaled(source, max(Fraction(size[0], source[0]), Fraction(size[1], source[1])))


def _contain(source: tuple[int, int], size: tuple[int, int]) -> tuple[int, int]:
    return _scaled(source, min(Fraction(size[0], source[0]), Fraction(size[1], source[1])))


def _stretch(_source: tuple[int, int], size: tuple[int, int]) -> tuple[int, int]:
    return size


FITS = {"cover": _cover, "contain": _contain, "stretch": _stretch}


def _centred(picture: Pixels, size: tuple[int, int]) -> Pixels:
    """Cut or pad a picture to (width, height) about its centre."""
    width, height = size
    rows, columns, n_channels = picture.shape
    if (columns, rows) == size:
        return picture
    top, left = max(0, (rows - height) // 2), max(0, (columns - width) // 2)
    part = picture[top : top + height, left : left + width]
    if part.shape[:2] == (height, width):
        return np.ascontiguousarray(part)
    framed = np.zeros((height, width, n_channels), np.uint8)
    top, left = (height - part.shape[0]) // 2, (width - part.shape[1]) // 2
    framed[top : top + part.shape[0], left : left + part.shape[1]] = part
    return framed
