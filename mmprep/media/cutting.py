"""Cut rectangles out of frames, and how frames are scaled.

A frame becomes RGB or luma before a rectangle is cut out of it: in the codings of video two or four
pixels share their colour, and a rectangle may begin at any of them. Where colours have planes of
their own, what lies around the rectangle is enough for the same pixels; elsewhere the whole frame
is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mmprep.timebase import IntArray

if TYPE_CHECKING:
    from av.video.frame import VideoFrame
    from av.video.plane import VideoPlane


def layout_of(*, gray: bool) -> str:
    """Name the layout of pixels as FFmpeg does."""
    return "gray" if gray else "rgb24"


def interpolation(frame: VideoFrame, scaled: tuple[int, int]) -> int:
    """Choose how a frame is scaled to (width, height)."""
    from av.video.reformatter import Interpolation

    shrinks = scaled[0] <= frame.width and scaled[1] <= frame.height
    kind = Interpolation.AREA if shrinks else Interpolation.BICUBIC
    # Without these two, pixels depend on the processor.
    return int(kind) | int(Interpolation.ACCURATE_RND) | int(Interpolation.BITEXACT)


def cutter(*, gray: bool) -> Callable[[VideoFrame, IntArray], VideoFrame]:
    """Give what cuts a rectangle (left, top, width, height) out of a frame."""
    from av.video.frame import VideoFrame
    from av.video.reformatter import VideoReformatter

    layout, reformatter = layout_of(gray=gray), VideoReformatter()

    def cut(frame: VideoFrame, rect: IntArray) -> VideoFrame:
        part, left, top = about(frame, rect)
        size = part.width, part.height
        kind = interpolation(part, size)
        whole = reformatter.reformat(part, *size, layout, interpolation=kind).to_ndarray()
        found = cut_out(np.asarray(whole, np.uint8), rect - (left, top, 0, 0))
        return VideoFrame.from_ndarray(found, format=layout)

    return cut


def about(frame: VideoFrame, rect: IntArray) -> tuple[VideoFrame, int, int]:
    """Take the part of a frame around a rectangle, and say where it begins.

    It has all of the rectangle that the frame has, and neighbours enough that its colours don't
    depend on what is left out.
    """
    from av.video.frame import VideoFrame

    left, right = _around(int(rect[0]), int(rect[2]), frame.width)
    top, bottom = _around(int(rect[1]), int(rect[3]), frame.height)
    is_even = frame.width % 2 == 0 and frame.height % 2 == 0
    if frame.format.name not in _PLANAR or not is_even or left >= right or top >= bottom:
        return frame, 0, 0
    part = VideoFrame(right - left, bottom - top, frame.format.name)
    for source, target in zip(frame.planes, part.planes, strict=True):
        wide, high = frame.width // source.width, frame.height // source.height
        rows = slice(top // high, top // high + target.height)
        columns = slice(left // wide, left // wide + target.width)
        _pixels(target)[: target.height, : target.width] = _pixels(source)[rows, columns]
    part.colorspace, part.color_range = frame.colorspace, frame.color_range
    return part, left, top


# One byte a value, colours at half the width or height at most.
_PLANAR = frozenset(("gray", "yuv420p", "yuvj420p", "yuv422p", "yuvj422p", "yuv444p", "yuvj444p"))
_MARGIN, _STEP = 8, 16  # pixels; parts of few sizes are converted faster


def _around(begin: int, length: int, n: int) -> tuple[int, int]:
    """Give the stretch of n pixels that holds another and its neighbours."""
    first = max(begin - _MARGIN, 0) // _STEP * _STEP
    last = -(-(begin + length + _MARGIN) // _STEP) * _STEP
    return first, min(last, n)


def _pixels(plane: VideoPlane) -> NDArray[np.uint8]:
    return np.frombuffer(memoryview(plane), np.uint8).reshape(-1, plane.line_size)


def cut_out(picture: NDArray[np.uint8], rect: IntArray) -> NDArray[np.uint8]:
    """Cut a rectangle out of a picture; black (0) where it reaches over the border.

    Parameters
    ----------
    picture : [shape=(height, width, ...), uint8]
    rect : (left, top, width, height)

    Returns
    -------
    [shape=(rect height, rect width, ...), uint8]
    """
    left, top, width, height = (int(number) for number in rect)
    rows, columns = picture.shape[:2]
    part = np.zeros((height, width, *picture.shape[2:]), np.uint8)
    first, last = max(top, 0), min(top + height, rows)
    begin, end = max(left, 0), min(left + width, columns)
    if first < last and begin < end:
        part[first - top : last - top, begin - left : end - left] = picture[first:last, begin:end]
    return part
