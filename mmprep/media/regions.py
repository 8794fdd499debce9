"""What is cut out of the frames of a video, from the boxes that a tracker gives.

Rules
-----
- A box is [left, right) x [top, bottom) in pixels of the frame as it is stored. A frame whose box
  has an area is tracked.
- Where no frame between two tracked ones is more than `REACH` frames from both, their boxes are
  joined by a straight line. Elsewhere the nearest box holds for `REACH` frames; what lies further
  off has none.
- Smoothing is a centred running mean of centres and sizes over frames that follow each other,
  tracked or in between; near the ends of such a run it takes fewer frames, as many on both sides.
- Padding is a share of the box on each side; then the box may grow to a shape about its centre.
- A rectangle is whole pixels: its size is rounded, then its corner, halves up. It may reach over
  the border of the frame.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mmprep.timebase import BoolArray, FloatArray, IntArray

REACH = 5  # frames


@dataclass(frozen=True, slots=True)
class Regions:
    """The rectangle of each frame of a track, by rank.

    Parameters
    ----------
    rects : [shape=(n_frames, 4), int64, px]
        Left, top, width and height; zeros where there is none.
    valid : [shape=(n_frames,), bool]
        Where there is one.
    n_tracked, n_interpolated, n_held, n_missing : int
        Frames with a box of their own, between two such, close to one, and without one.
    """

    rects: IntArray
    valid: BoolArray
    n_tracked: int
    n_interpolated: int
    n_held: int
    n_missing: int

    def __post_init__(self) -> None:
        self.rects.setflags(write=False)
        self.valid.setflags(write=False)

    def spread(self, ranks: IntArray, n_frames: int) -> Regions:
        """Give the frames other ranks; those in between have no rectangle, and don't count."""
        rects, valid = np.zeros((n_frames, 4), np.int64), np.zeros(n_frames, dtype=bool)
        rects[ranks], valid[ranks] = self.rects, self.valid
        return replace(self, rects=rects, valid=valid)


def has_area(boxes: FloatArray) -> BoolArray:
    """Say which boxes are some [shape=(n, 4): left, top, right, bottom]."""
    found: BoolArray = (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
    return found & np.isfinite(boxes).all(axis=1)


def around(points: FloatArray) -> FloatArray:
    """Give the boxes around points.

    Parameters
    ----------
    points : [shape=(n, n_points, 2)]
        x and y; NaN where a tracker has none.

    Returns
    -------
    [shape=(n, 4)]
        Left, top, right, bottom; NaN where a point is missing.
    """
    return np.hstack([points.min(axis=1), points.max(axis=1)])


def placed(boxes: FloatArray, frames: IntArray, n_frames: int) -> tuple[FloatArray, int]:
    """Give each frame the first of its boxes that has an area.

    Parameters
    ----------
    boxes : [shape=(n, 4)]
    frames : [shape=(n,), int64]
        Which frame each belongs to, from 0.

    Returns
    -------
    [shape=(n_frames, 4)], int
        NaN where there is none; how many more there were.
    """
    some = np.flatnonzero(has_area(boxes))
    ranks, first = np.unique(frames[some], return_index=True)
    found = np.full((n_frames, 4), np.nan)
    found[ranks] = boxes[some[first]]
    return found, int(some.size - ranks.size)


def nearest_frames(times_s: FloatArray, frames_s: FloatArray) -> IntArray:
    """Find the frames that times mean.

    Parameters
    ----------
    times_s : [shape=(n,), s]
    frames_s : [shape=(n_frames,), s]
        Rising.

    Returns
    -------
    [shape=(n,), int64]
        The nearest frame; -1 where it is more than half a median interval and a millisecond off.
    """
    after = np.clip(np.searchsorted(frames_s, times_s), 1, max(frames_s.size - 1, 1))
    frames = after - 1
    if frames_s.size > 1:
        frames = frames + (frames_s[after] - times_s < times_s - frames_s[after - 1])
    reach_s = (float(np.median(np.diff(frames_s))) / 2 if frames_s.size > 1 else 0.0) + 1e-3
    return np.where(np.abs(frames_s[frames] - times_s) <= reach_s, frames, -1).astype(np.int64)


def central(n_frames: int, frame: tuple[int, int], size: tuple[int, int]) -> Regions:
    """Give the same rectangle in the middle of each frame; a half pixel goes to the left and up.

    Parameters
    ----------
    frame, size : (width, height) [px]
    """
    (width, height), (frame_width, frame_height) = size, frame
    rect = ((frame_width - width) // 2, (frame_height - height) // 2, width, height)
    rects = np.tile(np.array(rect, np.int64), (n_frames, 1))
    return Regions(rects, np.ones(n_frames, dtype=bool), n_frames, 0, 0, 0)


def regions_of(
    boxes: FloatArray,
    *,
    pad: float = 0.0,
    smooth: int = 1,
    shape: tuple[int, int] | None = None,
) -> Regions:
    """Give the rectangle of each frame.

    Parameters
    ----------
    boxes : [shape=(n_frames, 4), px]
        Left, top, right, bottom by rank; NaN or without area where a frame is not tracked.
    pad : float
        Share of the box that is added on each side.
    smooth : int
        How many frames the running mean takes; odd.
    shape : (width, height), optional
        Boxes grow to this shape, on the side that is too short.
    """
    tracked = has_area(boxes)
    ranks = np.flatnonzero(tracked)
    if not ranks.size:
        return Regions(np.zeros(boxes.shape, np.int64), tracked, 0, 0, 0, len(boxes))
    joined, distance = _between(ranks, len(boxes))
    known = tracked | joined
    whole = _smoothed(_interpolated(boxes, ranks), known, smooth)
    held = ~known & (distance <= REACH)
    whole[held] = whole[_nearest(ranks, len(boxes))[held]]
    valid = known | held
    rects = np.zeros(boxes.shape, np.int64)
    rects[valid] = _rectangles(*_grown(whole[valid], pad, shape))
    counts = (int(mask.sum()) for mask in (tracked, joined, held, ~valid))
    return Regions(rects, valid, *counts)


def _neighbours(ranks: IntArray, n_frames: int) -> tuple[IntArray, IntArray]:
    """Give the tracked frame before and the one behind each frame; -1 and n_frames for none."""
    frames = np.arange(n_frames)
    padded = np.concatenate([[-1], ranks, [n_frames]])
    before = padded[np.searchsorted(ranks, frames, side="right")]
    behind = padded[np.searchsorted(ranks, frames, side="left") + 1]
    return before, behind


def _between(ranks: IntArray, n_frames: int) -> tuple[BoolArray, IntArray]:
    """Mark frames between two tracked ones that are close enough; give the distance to the next."""
    frames = np.arange(n_frames)
    before, behind = _neighbours(ranks, n_frames)
    inside = (before >= 0) & (behind < n_frames) & (before < behind)
    distance = np.abs(frames - _nearest(ranks, n_frames))
    return inside & ((behind - before) // 2 <= REACH), distance


def _nearest(ranks: IntArray, n_frames: int) -> IntArray:
    """Give the tracked frame that is nearest to each frame."""
    frames = np.arange(n_frames)
    before, behind = _neighbours(ranks, n_frames)
    is_before = (behind == n_frames) | ((before >= 0) & (frames - before <= behind - frames))
    return np.where(is_before, before, behind)


def _interpolated(boxes: FloatArray, ranks: IntArray) -> FloatArray:
    """Give centre and size of all frames, on straight lines between tracked ones.

    Returns
    -------
    [shape=(n_frames, 4)]
        x and y of the centre, width, height.
    """
    low, high = boxes[ranks, :2], boxes[ranks, 2:]
    known = np.hstack([(low + high) / 2, high - low])
    frames = np.arange(len(boxes))
    return np.column_stack([np.interp(frames, ranks, column) for column in known.T])


def _smoothed(values: FloatArray, known: BoolArray, n: int) -> FloatArray:
    """Take the running mean of known rows over those that follow each other."""
    frames = np.arange(len(values))
    first = np.maximum.accumulate(np.where(known, -1, frames)) + 1
    last = np.minimum.accumulate(np.where(known, len(values), frames)[::-1])[::-1] - 1
    half = np.minimum(n // 2, np.minimum(frames - first, last - frames))
    half = np.where(known, half, 0)
    sums = np.vstack([np.zeros((1, 4)), np.cumsum(values, axis=0)])
    mean = (sums[frames + half + 1] - sums[frames - half]) / (2 * half + 1)[:, np.newaxis]
    return np.where((half > 0)[:, np.newaxis], mean, values)


def _grown(
    values: FloatArray, pad: float, shape: tuple[int, int] | None
) -> tuple[FloatArray, FloatArray]:
    """Pad boxes and give them a shape; give their centres and sizes."""
    centres, sizes = values[:, :2], values[:, 2:] * (1 + 2 * pad)
    if shape is not None:
        unit = np.array(shape, np.float64)
        sizes = (sizes / unit).max(axis=1, keepdims=True) * unit
    return centres, sizes


def _rectangles(centres: FloatArray, sizes: FloatArray) -> IntArray:
    whole = np.maximum(np.floor(sizes + 0.5), 1)
    return np.hstack([np.floor(centres - whole / 2 + 0.5), whole]).astype(np.int64)
