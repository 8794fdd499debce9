"""Open media files: checks before, and library errors turned into ours.

FFmpeg can follow addresses and lists of other files. Here it gets an absolute name behind `file:`,
the `file` protocol alone and a list of demuxers that read one file each.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from mmprep import files
from mmprep.errors import DataError, UsageError

if TYPE_CHECKING:
    from av.container import InputContainer

MediaPath: TypeAlias = str | PathLike[str]

DEMUXERS = (
    "aac,ac3,aiff,amr,amrnb,amrwb,ape,asf,au,avi,caf,dts,eac3,flac,flv,ivf,live_flv,m4a,"
    "matroska,mov,mp3,mp4,mpeg,mpegts,mxf,nistsphere,nut,ogg,tta,voc,w64,wav,webm,wv"
)
# Formats whose packets carry stamps of their own; elsewhere time starts at the first sample.
TIMED = ("asf", "avi", "flv", "ivf", "matroska", "mov", "mpeg", "mpegts", "mxf", "nut", "ogg")


def checked(path: MediaPath) -> Path:
    """Give the absolute path of a media file that exists and isn't empty.

    Raises
    ------
    UsageError
        No such file, or not a file.
    DataError
        Empty.
    """
    absolute = Path(path).absolute()
    try:
        n_bytes = files.stamp(absolute).n_bytes
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError("no such file", where=str(path)) from error
    except (OSError, ValueError) as error:
        raise DataError(f"cannot be read: {_reason(error)}", where=str(path)) from error
    if not files.is_file(absolute):
        raise UsageError("not a file", where=str(path), hint="name one audio or video file")
    if n_bytes == 0:
        raise DataError("the file is empty (0 bytes)", where=str(path), hint="copy it again")
    return absolute


def _reason(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return str(text).splitlines()[0] if text else type(error).__name__


@contextmanager
def ffmpeg_errors(path: MediaPath) -> Iterator[None]:
    """Turn what FFmpeg raises into a DataError about `path`."""
    from av.error import FFmpegError

    try:
        yield
    except (FFmpegError, OSError, UnicodeError) as error:
        raise DataError(
            f"FFmpeg cannot read it: {_reason(error)}",
            where=str(path),
            hint="check that the file was copied whole and is audio or video;"
            " `mmprep inspect` shows what is in it",
        ) from error


@contextmanager
def opened(path: MediaPath) -> Iterator[InputContainer]:
    """Open a file with FFmpeg, for the length of a `with` block."""
    container = open_container(path)
    try:
        yield container
    finally:
        container.close()


def open_container(path: MediaPath) -> InputContainer:
    """Open a file with FFmpeg; the caller closes it.

    Raises
    ------
    UsageError, DataError
        See `checked`; or FFmpeg doesn't know the content.
    """
    import av

    name = checked(path)
    with ffmpeg_errors(path):
        try:
            return av.open(
                files.open_input(name) if files.is_member(name) else f"file:{name}",
                "r",
                container_options={"protocol_whitelist": "file", "format_whitelist": DEMUXERS},
                metadata_errors="replace",
            )
        except av.error.ArgumentError as error:
            raise DataError(
                "not in a format that mmprep reads",
                where=str(path),
                hint="convert it to wav or mp4 first; lists of other files are never followed",
            ) from error


def is_timed(container: InputContainer) -> bool:
    """Say whether the container has a time line of its own."""
    return any(name in TIMED for name in container.format.name.split(","))


def is_picture(stream: Any) -> bool:
    """Say whether a video stream is a still picture that is attached, such as a cover."""
    from av.stream import Disposition

    return stream.type == "video" and bool(stream.disposition & Disposition.attached_pic)


def nth_stream(container: InputContainer, kind: str, track: int, path: MediaPath) -> Any:
    """Find the stream of a kind by its number among those of that kind.

    Raises
    ------
    UsageError
        No track of that number.
    DataError
        No track of that kind at all.
    """
    streams = [s for s in container.streams if s.type == kind and not is_picture(s)]
    if not streams:
        raise DataError(f"no {kind} track", where=str(path), hint=f"name a file with {kind} in it")
    if not 0 <= track < len(streams):
        raise UsageError(
            f"no {kind} track {track}: the file has {len(streams)}",
            where=str(path),
            hint=f"number the {kind} tracks from 0",
        )
    if streams[track].codec_context is None:
        raise DataError(
            f"{kind} track {track} is in a coding that FFmpeg has no decoder for",
            where=str(path),
            hint="convert the file first, or copy it again if it should play",
        )
    return streams[track]


def as_fraction(value: Fraction | None) -> Fraction | None:
    """Keep a rate that is positive, else None."""
    return Fraction(value) if value is not None and value > 0 else None
