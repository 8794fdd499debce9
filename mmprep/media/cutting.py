"""Cut rectangles out of frames, and how frames are scaled.

A frame becomes RGB or luma as a whole before a rectangle is cut out of it: in the codings of video
two or four pixels share their colour, and a rectangle may begin at any of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mmprep.timebase import IntArray

if TYPE_CHECKING:
    from av.video.frame import VideoFrame


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
        size = frame.width, frame.height
        kind = interpolation(frame, size)
        whole = reformatter.reformat(frame, *size, layout, interpolation=kind).to_ndarray()
        return VideoFrame.from_ndarray(cut_out(np.asarray(whole, np.uint8), rect), format=layout)

    return cut


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
