"""Find where the picture of a video stands still: a camera that froze, frames written again.

Rules
-----
- Frames are compared as they leave the decoder, each with the one before it, at 64 x 48 points or
  a few more of their first plane (the luma of most formats). A frame has not changed if no point
  differs by more than 2 of 255 levels: encoders of a still picture leave that much.
- A key frame and the two behind it renew the picture and say nothing, unless one frame in four or
  more is a key frame.
- A still stretch is a run of unchanged frames with the one before them, five frames and 0.2 s long
  or more, of which half or more say something. Frames that were not decoded end it.
- A scene may be still: this is told, and nothing is made of it.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mmprep.timebase import NS_PER_S, BoolArray, IntArray

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

COLUMNS, ROWS = 64, 48
SAME_LEVELS = 2
MIN_FRAMES = 5
MIN_S = 0.2
RENEWED = 3
MANY_KEYS = 0.25

_UNKNOWN = 255


class Watch:
    """Notes how much each decoded frame differs from the one before; a byte a frame."""

    def __init__(self) -> None:
        self._ranks = array("q")
        self._change = array("B")
        self._last: NDArray[np.uint8] | None = None

    @property
    def n_decoded(self) -> int:
        """Frames that came out of the decoder."""
        return len(self._ranks)

    def see(self, rank: int, frame: VideoFrame) -> None:
        """Take a decoded frame; one of a rank that was seen already is no news."""
        before = self._ranks[-1] if self._ranks else -1
        if rank <= before:
            self._last = None
            return
        points = _points(frame)
        self._change.append(_difference(self._last if rank == before + 1 else None, points))
        self._ranks.append(rank)
        self._last = points

    def stretches(self, times_ns: IntArray, is_key: BoolArray) -> IntArray:
        """Find the still stretches.

        Parameters
        ----------
        times_ns, is_key : [shape=(n_frames,)]
            Of all frames of the track, by rank.

        Returns
        -------
        [shape=(k, 2), int64]
            The first and the last rank of each.
        """
        ranks = np.array(self._ranks, np.int64)
        change = np.array(self._change, np.uint8)
        return still_stretches(ranks, change, times_ns[ranks], _renewed(is_key)[ranks])


def still_stretches(
    ranks: IntArray, change: NDArray[np.uint8], times_ns: IntArray, renewed: BoolArray
) -> IntArray:
    """Find runs of frames that do not change.

    Parameters
    ----------
    ranks : [shape=(n,), int64]
        Rising.
    change : [shape=(n,), uint8]
        The largest difference of each to the frame before; 255 where that is not known.
    times_ns, renewed : [shape=(n,)]
        Renewed frames say nothing.

    Returns
    -------
    [shape=(k, 2), int64]
    """
    follows = np.diff(ranks, prepend=np.int64(-2)) == 1
    same = follows & ((change <= SAME_LEVELS) | renewed)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], same, [False]]).astype(np.int8)))
    first, last = edges[::2] - 1, edges[1::2] - 1
    says = np.concatenate([[0], np.cumsum(same & ~renewed)])
    long = (last - first + 1 >= MIN_FRAMES) & (
        times_ns[last] - times_ns[first] >= MIN_S * NS_PER_S - 1
    )
    long &= 2 * (says[last + 1] - says[first + 1]) >= last - first
    return np.stack([ranks[first[long]], ranks[last[long]]], axis=1)


def _renewed(is_key: BoolArray) -> BoolArray:
    """Mark key frames and the two frames behind each."""
    if is_key.size == 0 or is_key.mean() >= MANY_KEYS:
        return np.zeros_like(is_key)
    mark = is_key.copy()
    for lag in range(1, RENEWED):
        mark[lag:] |= is_key[:-lag]
    return mark


def _points(frame: VideoFrame) -> NDArray[np.uint8]:
    """Take some bytes of the first plane, evenly spread."""
    plane = frame.planes[0]
    rows = np.frombuffer(memoryview(plane), np.uint8).reshape(-1, plane.line_size)[: frame.height]
    down, across = max(1, frame.height // ROWS), max(1, frame.width // COLUMNS)
    points: NDArray[np.uint8] = rows[::down, : frame.width : across].copy()
    return points


def _difference(before: NDArray[np.uint8] | None, now: NDArray[np.uint8]) -> int:
    if before is None or before.shape != now.shape:
        return _UNKNOWN
    return int((np.maximum(before, now) - np.minimum(before, now)).max(initial=0))
