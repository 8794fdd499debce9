"""A stream of a session as plain values: what is read, from where, on which clock."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

from mmprep.timebase import rate


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """One stream, as plain values.

    Parameters
    ----------
    name : str
        Its modality in the aligned data set.
    form : str
        `table`, `shard`, `video` or `audio`: what the path is; `raw`, or the reader of a raw file
        once it is known.
    kind : str
        `signal`, `audio`, `video` or `events`.
    path : str
        What is read.
    media : str, optional
        Of what `convert` made: the file that it comes from, which has the pictures of a video.
    clock, clock_form : str, optional
        Clock evidence: its file, and whether that is a `table` of ours or a `log`.
    start_ns : int, optional
        The time of the first sample on the stream's own clock.
    latency_ns : int
        How much too late its stamps are.
    part : str, optional
        Which stream of a raw file that holds several.
    breaks : tuple of (row, s)
        Where the sound of a shard goes on after a break: see `media.breaks`.
    number : int
        Which of the tracks of its kind in a sound or video file, from 0.
    more : tuple of (path, rows)
        The further tables of a long one, in order; of raw files, the further files.
    starts_ns : tuple of int or None
        Where tables or files are parts of their own: when each of `more` begins, None where its
        stamps say so.
    more_clocks : tuple of str
        The clock evidence of `more`, as far as it has any.
    track : dict, optional
        What a record says of the track of a video table: see `films.track`.
    source : str, optional
        The file or folder that it came from.
    record : str, optional
        What it belongs to, with whose first sample stamps may begin.
    events : EventSpec, optional
        Happenings that other clocks saw, too, on the clock of this one.
    follows : str, optional
        Stamps that count from zero do so from the first sample of this stream, or (empty) of the
        only recording there is.
    roi : tuple of (path, name), optional
        Of a video: the track whose boxes are cut out of its pictures, and what it is called.
    """

    name: str
    form: str
    kind: str
    path: str
    rows: tuple[int, int] | None = None
    rate_hz: str | None = None
    offset_s: float = 0.0
    channels: tuple[str, ...] = ()
    units: tuple[str | None, ...] = ()
    media: str | None = None
    clock: str | None = None
    clock_form: str = "log"
    clock_unit: str | None = None
    start_ns: int | None = None
    latency_ns: int = 0
    time: str | None = None
    unit: str | None = None
    tz: str | None = None
    part: str | None = None
    breaks: tuple[tuple[int, float], ...] = ()
    number: int = 0
    more: tuple[tuple[str, tuple[int, int]], ...] = ()
    starts_ns: tuple[int | None, ...] = ()
    more_clocks: tuple[str, ...] = ()
    sha256: str | None = None
    track: dict[str, Any] | None = None
    source: str | None = None
    record: str | None = None
    events: EventSpec | None = None
    follows: str | None = None
    roi: tuple[str, str] | None = None

    @property
    def container(self) -> str | None:
        """The file on whose time line the stream is, if it came from a sound or video file."""
        path = self.path if self.form in {"video", "audio"} else self.media
        return None if path is None else str(Path(path).absolute())

    @property
    def recording(self) -> str | None:
        """The file whose clock the stream shares: streams of XDF come from hosts of their own."""
        if self.container is not None or self.source is None:
            return self.container
        return None if self.is_xdf else self.source

    @property
    def is_xdf(self) -> bool:
        """Whether it came from XDF, whose streams have clocks of their own."""
        return self.source is not None and ".xdf" in self.source[-8:].lower()

    @property
    def nominal_hz(self) -> Fraction | None:
        """The rate that is given or recorded."""
        return rate(self.rate_hz) if self.rate_hz else None

    def to_json(self) -> dict[str, Any]:
        """Give the plain values."""
        value: dict[str, Any] = msgspec.to_builtins(self)
        return value


@dataclass(frozen=True, slots=True)
class EventSpec:
    """Where the happenings are listed that other clocks saw, too, as plain values.

    Parameters
    ----------
    source : StreamSpec
        The table: rows, or readings in which events show.
    order : int
        Its place among those of the session.
    value : str, optional
        Rows where this expression is found are events.
    above, below : float, optional
        Events are where a numeric column rises, or falls, through this.
    column : str, optional
        The column; default any text, the first numeric one.
    within_ns : int, optional
        The clock is off by at most so much.
    """

    source: StreamSpec
    order: int
    value: str | None = None
    above: float | None = None
    below: float | None = None
    column: str | None = None
    within_ns: int | None = None


def spec_of(value: dict[str, Any]) -> StreamSpec:
    """Read what `StreamSpec.to_json` gave."""
    return msgspec.convert(value, StreamSpec)
