"""The region of a video's pictures (`--roi`): from a track, or in the middle; and blank clips.

Rules
-----
- Frames of a track are those that a player shows: from 0 on, as trackers count them, or from 1,
  where the layout says so or none is 0 and the last is their number. Times count from the first of
  them; a row further than half a frame from any is left out and counted.
- Coordinates are those of the stored frame: rotation is not applied. Where all lie within -1 and 2
  they are shares of width and height.
- With `--fit cover` a box grows about its centre to the shape of the pictures: nothing of it is cut
  and proportions stay. `contain` shows the box alone within bars, `stretch` gives up proportions.
- A clip is blank if all its valid pictures are: black, or of one colour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmprep import media
from mmprep.errors import DataError
from mmprep.sources import boxtracks
from mmprep.sources.boxtracks import BoxTrack
from mmprep.steps.sessions.roioption import Roi
from mmprep.timebase import NS_PER_S, BoolArray, FloatArray, IntArray

BLACK_LEVEL, SAME_LEVELS = 16, 2  # of 255: what a coder makes of black, and of one colour
MAX_LISTED = 500
MAX_GROWTH = 4  # a crop is at most so many times as large as the frame
CENTER, BLACK, CONSTANT = "center", "black", "constant"


@dataclass(slots=True)
class Blank:
    """The clips of which all pictures are black or of one colour."""

    _found: dict[int, str | None] = field(default_factory=dict)

    def see(self, clip: int, pictures: NDArray[np.uint8], valid: BoolArray) -> None:
        """Look at the pictures of a clip, or of a part of it.

        Parameters
        ----------
        pictures : [shape=(n, height, width, n_channels), uint8]
        valid : [shape=(n,), bool]
        """
        known = self._found.get(clip, BLACK)
        if known is None or not valid.any():
            return
        points = pictures[valid].reshape(int(valid.sum()), -1, pictures.shape[-1])
        low, high = points.min(axis=1), points.max(axis=1)
        is_black = high.max(axis=1) <= BLACK_LEVEL
        is_flat = (high - low).max(axis=1) <= SAME_LEVELS
        if not (is_black | is_flat).all():
            self._found[clip] = None
        else:
            self._found[clip] = BLACK if known == BLACK and is_black.all() else CONSTANT

    def clips(self) -> dict[int, str]:
        """Give the blank ones, by number: `black` or `constant`."""
        return {clip: what for clip, what in sorted(self._found.items()) if what is not None}


@dataclass(frozen=True, slots=True)
class Crops:
    """What is cut out of the frames of a video, and what is known of it."""

    regions: media.Regions
    facts: Mapping[str, Any]
    blank: Blank = field(default_factory=Blank)


def of(
    roi: Roi,
    track: tuple[str, str] | None,
    scan: media.VideoTrack,
    *,
    size: tuple[int, int],
    fit: str,
) -> Crops:
    """Find what is cut out of each frame.

    Parameters
    ----------
    track : (path, name), optional
        None where the session has none.
    size : (width, height)
        Of the pictures.

    Raises
    ------
    UsageError, DataError
        The track can't be read, or is that of another video.
    """
    frame = scan.width, scan.height
    if roi.center is not None:
        regions = media.central(scan.n_frames, frame, roi.center)
        return Crops(regions, {"kind": CENTER, "source": None, "size": list(roi.center)})
    boxes, facts = _boxes(roi, track, scan)
    shape = size if fit == "cover" else None
    regions = media.regions_of(boxes, pad=roi.pad, smooth=roi.smooth, shape=shape)
    regions = regions.spread(np.flatnonzero(~scan.discarded), scan.n_frames)
    largest = int(regions.rects[:, 2:].max(initial=0))
    if largest > MAX_GROWTH * max(frame):
        raise DataError(
            f"a crop is {largest} pixels wide or high, the frame {frame[0]}x{frame[1]}",
            where=track[0] if track else None,
            hint="coordinates are pixels of the frame as it is stored; a smaller pad=",
        )
    counts = {name: getattr(regions, f"n_{name}") for name in _COUNTS}
    return Crops(regions, {**facts, **{f"n_{name}": n for name, n in counts.items()}})


_COUNTS = ("tracked", "interpolated", "held", "missing")


def _boxes(
    roi: Roi, given: tuple[str, str] | None, scan: media.VideoTrack
) -> tuple[FloatArray, dict[str, Any]]:
    """Give the box of each frame that is shown [shape=(n, 4), px], and where they come from."""
    times_ns = scan.times_ns[~scan.discarded]
    if given is None:
        facts = {"kind": roi.kind, "source": None, "n_unplaced": 0, "n_other_faces": 0}
        return np.full((times_ns.size, 4), np.nan), facts
    track = boxtracks.read(Path(given[0]), roi.choice)
    frames = _frames(track, times_ns, given[0])
    near = frames >= 0
    unit = np.tile((scan.width, scan.height), 2) if track.is_share else 1
    boxes = track.boxes[near] * unit
    found, n_more = media.placed(boxes, frames[near], times_ns.size)
    facts = {
        "kind": track.kind,
        "source": given[1],
        "n_unplaced": int((~near).sum()),
        "n_other_faces": n_more,
    }
    return found, facts


def _frames(track: BoxTrack, times_ns: IntArray, path: str) -> IntArray:
    """Give the frame of each row of a track, from 0; -1 where its time is that of none."""
    n_frames = times_ns.size
    if track.times_s is not None:
        return media.nearest_frames(track.times_s, (times_ns - times_ns[0]) / NS_PER_S)
    numbers = np.arange(len(track.boxes)) if track.frames is None else track.frames
    first = track.first
    if first is None:
        first = int(track.frames is not None and numbers.min() >= 1 and numbers.max() == n_frames)
    frames: IntArray = numbers - first
    if frames.min() < 0 or frames.max() >= n_frames:
        beyond = numbers.min() if frames.min() < 0 else numbers.max()
        raise DataError(
            f"has a frame {beyond}, the video shows {n_frames}, counted from {first}",
            where=path,
            hint="it is the track of another video, or frames were dropped before it was tracked",
        )
    return frames


def listed(crops: Crops, spans_s: Mapping[int, tuple[float, float]]) -> dict[str, Any]:
    """Give what `sync/` says of a region.

    Parameters
    ----------
    spans_s : mapping
        Number of a clip -> its begin and end.
    """
    blank = crops.blank.clips()
    rows = [
        {"window": k, "begin_s": spans_s[k][0], "end_s": spans_s[k][1], "what": what}
        for k, what in blank.items()
    ]
    return {**crops.facts, "n_blank": len(rows), "blank": rows[:MAX_LISTED]}


_NOTED = {
    "n_missing": "frames are more than 5 frames from a box and masked",
    "n_unplaced": "rows of the track have the time of no frame",
    "n_other_faces": "more faces in frames of which the first is taken",
}


def _said(facts: Sequence[Mapping[str, Any]], words: Mapping[str, str], session: str) -> list[str]:
    return [
        f"{session}: {fact['name']}: {fact['roi'][key]} {what}"
        for fact in facts
        for key, what in words.items()
        if fact.get("roi") and fact["roi"].get(key)
    ]


def notes(session: str, facts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say how many frames have no region, and what of a track was left out."""
    return _said(facts, _NOTED, session)


def warnings(session: str, facts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say which clips are blank."""
    words = {"n_blank": "clips are black or of one colour, see `blank` in sync/"}
    return _said(facts, words, session)
