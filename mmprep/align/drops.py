"""Tell frames that were dropped from a frame rate that varies.

Rules
-----
- A video has a constant rate if nine in ten of its intervals are whole multiples of the nominal
  period, to within 15 % of a period or a millisecond, and half of them or more are one period.
  Else its rate varies, and no stamp says that a frame is missing.
- In a video of constant rate an interval over 1.5 periods is a hole: round(interval / period) - 1
  frames are missing in it, less those that have a rank but no time or picture here.
- So a camera that halves its rate for a while counts as one that drops each second frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mmprep.timebase import NS_PER_S, FloatArray, IntArray

SHARE_WHOLE = 0.9
SHARE_SINGLE = 0.5
SLACK_PERIODS = 0.15
SLACK_NS = 1e6
"""What the coarsest containers round stamps to."""

_HOLE = 1.5


@dataclass(frozen=True, slots=True)
class Drops:
    """The holes in the frames of a video of constant rate.

    Parameters
    ----------
    after : [shape=(n_holes,), int64]
        The rank of the frame before each hole.
    span_ns : [shape=(n_holes, 2), int64, ns]
        The times of the frames before and behind it.
    n_missing : [shape=(n_holes,), int64]
        Frames that are missing in it, 1 or more.
    """

    after: IntArray
    span_ns: IntArray
    n_missing: IntArray

    @property
    def n_dropped(self) -> int:
        """All frames that are missing."""
        return int(self.n_missing.sum())


def find_drops(ranks: IntArray, times_ns: IntArray, rate_hz: Fraction | None) -> Drops | None:
    """Find the frames that a video of constant rate lacks.

    Parameters
    ----------
    ranks : [shape=(n,), int]
        Presentation ranks of the frames, in order of time; some may be left out.
    times_ns : [shape=(n,), int64, ns]
    rate_hz : Fraction, optional
        The nominal rate.

    Returns
    -------
    Drops or None
        None where the rate varies, or is not known.
    """
    if rate_hz is None or times_ns.size < 2:
        return None
    interval = np.diff(times_ns).astype(np.float64)
    nominal = float(NS_PER_S / rate_hz)
    single = np.abs(interval - nominal) < nominal / 4
    if np.mean(single) < SHARE_SINGLE:
        return None
    periods = interval / interval[single].mean()
    if not _are_whole(periods, nominal):
        return None
    missing = np.rint(periods).astype(np.int64) - np.maximum(np.diff(ranks), 1)
    holes = np.flatnonzero((periods > _HOLE) & (missing > 0))
    spans = np.stack([times_ns[holes], times_ns[holes + 1]], axis=1)
    return Drops(ranks[holes].astype(np.int64), spans, missing[holes])


def _are_whole(periods: FloatArray, nominal_ns: float) -> bool:
    slack = max(SLACK_PERIODS, SLACK_NS / nominal_ns)
    whole = np.rint(periods)
    return bool(np.mean((whole >= 1) & (np.abs(periods - whole) <= slack)) >= SHARE_WHOLE)
