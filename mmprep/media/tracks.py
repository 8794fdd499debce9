"""List the tracks of a media file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mmprep.errors import DataError, UsageError
from mmprep.media.audio import audio_info
from mmprep.media.files import MediaPath, checked, is_picture, opened
from mmprep.media.headers import read_header

PLAYABLE = ("video", "audio")


@dataclass(frozen=True, slots=True)
class Track:
    """One track.

    Parameters
    ----------
    kind : str
        `video`, `audio`, `picture` (attached, such as a cover), `subtitle`, `data` ….
    index : int
        Its number among all tracks of the container.
    number : int
        Its number among those of its kind: the `track` of the other functions.
    start_s : float, optional
        Where it begins on the container's time line; for audio the first decoded sample.
    """

    kind: str
    index: int
    number: int
    codec: str | None
    start_s: float | None

    @property
    def name(self) -> str:
        """What it is called: `video`, and the next ones `video1`, `video2` ...."""
        return f"{self.kind}{self.number or ''}"


def tracks(path: MediaPath) -> tuple[Track, ...]:
    """List the tracks of a file in the container's order.

    Raises
    ------
    UsageError
        No such file.
    DataError
        Not a media file.
    """
    header = read_header(checked(path))
    if header.plain or header.wav is not None:
        info = audio_info(path)
        if info.decoder != "ffmpeg":
            return (Track("audio", 0, 0, info.codec, info.start_s),)
    with opened(path) as container:
        counts: dict[str, int] = {}
        return tuple(_track(stream, counts, path) for stream in container.streams)


def find_track(path: MediaPath, name: str) -> Track:
    """Find an audio or video track by its name or its number among all tracks, from 0.

    Raises
    ------
    UsageError
        No such file or track.
    DataError
        Not a media file.
    """
    playable = [track for track in tracks(path) if track.kind in PLAYABLE]
    for track in playable:
        if name in {track.name, str(track.index)}:
            return track
    known = ", ".join(f"{track.name} ({track.index})" for track in playable)
    raise UsageError(f"there is no track {name!r}", where=str(path), hint=f"its tracks: {known}")


def _track(stream: Any, counts: dict[str, int], path: MediaPath) -> Track:
    kind = "picture" if is_picture(stream) else stream.type
    number = counts.get(kind, 0)
    counts[kind] = number + 1
    context = stream.codec_context
    start_s = _start_s(stream, number, path)
    return Track(kind, stream.index, number, context.name if context else None, start_s)


def _start_s(stream: Any, number: int, path: MediaPath) -> float | None:
    if stream.type == "audio":
        try:
            return audio_info(path, track=number).start_s
        except DataError:
            return None
    return None if stream.start_time is None else float(stream.start_time * stream.time_base)
