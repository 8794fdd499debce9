"""Read where the sound of an mp4 or mov ends: its edit list, or iTunes' own note.

FFmpeg trims the start as these say, but gives the last packet whole: 1024 samples of AAC where
fewer are sound.

Rules
-----
- An edit list counts in ticks of the film, often milliseconds. Where a tick is longer than a
  sample, the sound may end anywhere within the last one, and none of it is cut.
- Several edits, or one without a length, say nothing here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO

from mmprep import files

MAX_BOXES = 100_000


@dataclass(frozen=True, slots=True)
class _Box:
    name: bytes
    begin: int
    end: int


def edit_samples(path: Path, track_id: int, rate_hz: int) -> int | None:
    """Count the samples that the edit list of a track shows.

    Returns
    -------
    int or None
        floor(ticks * rate_hz / ticks_per_s); where a tick is longer than a sample, one tick more.
        None: no edit list, or one that says nothing.
    """
    with files.open_input(path) as file:
        film = _Box(b"", 0, file.seek(0, 2))
        moov = _inner(file, film, b"moov")
        head = _body(file, _inner(file, moov, b"mvhd"))
        edits = _edits(file, moov, track_id)
    if len(head) < 24 or len(edits) != 1 or not edits[0]:
        return None
    ticks_per_s = int.from_bytes(head[20:24] if head[0] else head[12:16], "big")
    if not ticks_per_s:
        return None
    n_ticks = edits[0] + (ticks_per_s < rate_hz)
    return int(Fraction(n_ticks * rate_hz, ticks_per_s))


def itunes_samples(note: str | None) -> int | None:
    """Read the sample count off `iTunSMPB`: ` 00000000 DELAY PADDING SAMPLES ...`, all hex."""
    fields = (note or "").split()
    try:
        return int(fields[3], 16) or None
    except (IndexError, ValueError):
        return None


def _edits(file: BinaryIO, moov: _Box | None, track_id: int) -> list[int]:
    """List the lengths of a track's edits, empty ones left out."""
    for trak in _boxes(file, moov):
        if trak.name != b"trak":
            continue
        head = _body(file, _inner(file, trak, b"tkhd"))
        if len(head) >= 24 and track_id == _number(head[20:24] if head[0] else head[12:16]):
            return _lengths(_body(file, _inner(file, _inner(file, trak, b"edts"), b"elst")))
    return []


def _lengths(body: bytes) -> list[int]:
    if len(body) < 8:
        return []
    entry = struct.Struct(">Qqi" if body[0] else ">Iii")
    n_edits = min(_number(body[4:8]), (len(body) - 8) // entry.size)
    edits = [entry.unpack_from(body, 8 + k * entry.size) for k in range(n_edits)]
    return [length for length, media_time, _ in edits if media_time >= 0]


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _boxes(file: BinaryIO, outer: _Box | None) -> Iterator[_Box]:
    place = outer.begin if outer else 0
    for _ in range(MAX_BOXES if outer else 0):
        file.seek(place)
        head = file.read(16)
        if outer is None or len(head) < 8 or place + 8 > outer.end:
            return
        size, name = struct.unpack(">I4s", head[:8])
        n_head = 16 if size == 1 else 8
        size = _number(head[8:]) if size == 1 else size or outer.end - place
        if size < n_head:
            return
        yield _Box(name, place + n_head, min(place + size, outer.end))
        place += size


def _inner(file: BinaryIO, outer: _Box | None, name: bytes) -> _Box | None:
    return next((box for box in _boxes(file, outer) if box.name == name), None)


def _body(file: BinaryIO, box: _Box | None) -> bytes:
    if box is None:
        return b""
    file.seek(box.begin)
    return file.read(box.end - box.begin)
