"""Give the frames of a video the times that a log has for them.

Rules
-----
- Frames are numbered from 0 in the order of presentation; every packet of the track counts.
- A log that names two thirds or more of the frames from its first to its last gives frames their
  times, whatever the container says; a frame that it leaves out has none. A sparser log is evidence
  of the clock alone: its times are fixes at the container's stamps.
- Of rows that name one frame the first counts. Rows behind the last frame are left out and counted:
  a camera may go on when its file has ended.
- Refused is a log most of whose rows name no frame of the video, one that names as many frames as
  the video has but not from 0 on, and one that goes on evenly where the container's stamps have
  their holes: it counts frames that never came into the file, so that all behind are misnamed.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mmprep.align.drops import Drops, find_drops
from mmprep.errors import ClockError
from mmprep.timebase import NS_PER_S, FrameLog, IntArray

DENSE = Fraction(2, 3)
NO_TIME = np.iinfo(np.int64).min
"""The time of a frame that the log leaves out; `order.UNREADABLE`."""

_LEVEL_ROWS = 8
_HINT = "number frames from 0 in the order of presentation, as they are in the file"


@dataclass(frozen=True, slots=True)
class Logged:
    """What a log says of the frames of a video.

    Parameters
    ----------
    times_ns : [shape=(n,), int64, ns]
        The time of each frame on the clock of the log, `NO_TIME` where it has none.
    is_dense : bool
        Whether they are the times of the frames, or fixes.
    n_beyond, n_repeated : int
        Rows that name no frame of the video, and rows that name one again.
    """

    times_ns: IntArray
    is_dense: bool
    n_beyond: int
    n_repeated: int

    @property
    def n_absent(self) -> int:
        """The frames that the log leaves out."""
        return int((self.times_ns == NO_TIME).sum())


def read_log(
    log: FrameLog,
    ranks: IntArray,
    stamps_ns: IntArray,
    *,
    n_frames: int,
    rate_hz: Fraction | None = None,
) -> Logged:
    """Find the time of each frame in a log.

    Parameters
    ----------
    ranks : [shape=(n,), int]
        Presentation ranks of the frames, rising.
    stamps_ns : [shape=(n,), int64, ns]
        Their stamps in the container.
    n_frames : int
        The packets of the track.
    rate_hz : Fraction, optional
        The nominal rate.

    Raises
    ------
    ClockError
        The log numbers other frames, see the rules.
    """
    frame, first = np.unique(log.frame, return_index=True)
    _check_numbers(frame, n_frames)
    inside = frame < n_frames
    known = np.full(n_frames, NO_TIME, np.int64)
    known[frame[inside]] = log.time_ns[first[inside]]
    times_ns = known[ranks]
    _check_holes(find_drops(ranks, stamps_ns, rate_hz), ranks, stamps_ns, times_ns)
    named = frame[inside]
    span = int(named[-1] - named[0]) + 1
    return Logged(
        times_ns=times_ns,
        is_dense=named.size > 1 and named.size >= DENSE * span,
        n_beyond=int((~inside).sum()),
        n_repeated=int(log.frame.size - frame.size),
    )


def _check_numbers(frame: IntArray, n_frames: int) -> None:
    if frame.size == 0:
        raise ClockError("the frame log has no rows")
    names = f"the frame log names frames {frame[0]} to {frame[-1]}, the video has {n_frames}"
    if frame[0] < 0 or 2 * int((frame < n_frames).sum()) < frame.size:
        raise ClockError(names, hint=_HINT)
    is_whole = frame.size == n_frames == int(frame[-1] - frame[0]) + 1
    if frame[0] > 0 and is_whole:
        raise ClockError(f"{names}, from 0 on", hint=f"{_HINT}: less {frame[0]} here")


def _check_holes(
    drops: Drops | None, ranks: IntArray, stamps_ns: IntArray, times_ns: IntArray
) -> None:
    """Refuse a log that goes on evenly over the holes of the stamps."""
    if drops is None or drops.after.size == 0:
        return
    logged = np.flatnonzero(times_ns != NO_TIME)
    lead_ns = (times_ns[logged] - times_ns[logged[0]]) - (stamps_ns[logged] - stamps_ns[logged[0]])
    behind = np.searchsorted(ranks[logged], drops.after, side="right")
    steps_ns = [_step(lead_ns, int(at)) for at in behind if 0 < at < logged.size]
    period_ns = float(np.median(np.diff(stamps_ns)))
    lost_ns = period_ns * drops.n_missing[(behind > 0) & (behind < logged.size)].sum()
    if steps_ns and sum(steps_ns) < -lost_ns / 2:
        span_s = (drops.span_ns[0] / NS_PER_S).round(3).tolist()
        raise ClockError(
            f"the frame log goes on evenly where the video lacks {drops.n_dropped} frames (first"
            f" behind frame {drops.after[0]}, between {span_s[0]} and {span_s[1]} s): it numbers"
            " frames that are not in the file",
            hint=_HINT,
        )


def _step(lead_ns: IntArray, at: int) -> float:
    """Measure by how much the log runs ahead of the stamps behind row `at` more than before it."""
    before, after = lead_ns[max(at - _LEVEL_ROWS, 0) : at], lead_ns[at : at + _LEVEL_ROWS]
    return float(np.median(after) - np.median(before))
