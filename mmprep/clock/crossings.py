"""Crossings: when a signal rises through a level."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mmprep.timebase import FloatArray, IntArray


class Crossings(NamedTuple):
    """Times at which a signal rose through a level, int64 ns, and how many may be hidden.

    Hidden are those between a lower and a higher value that have missing ones between them.
    """

    times_ns: IntArray
    n_hidden: int


def rising(stamps_ns: IntArray, values: FloatArray, level: float) -> Crossings:
    """Find where a signal rises through a level.

    Parameters
    ----------
    stamps_ns : [shape=(n,), int64, ns]
        In the order of recording.
    values : [shape=(n,), float64]
        NaN where missing.

    Returns
    -------
    Crossings
        Between x[i] < level <= x[i + 1], on the line through both.
    """
    known = np.flatnonzero(~np.isnan(values))
    low, high = values[known[:-1]], values[known[1:]]
    up = np.flatnonzero((low < level) & (level <= high))
    is_seen = known[up + 1] == known[up] + 1
    at = known[up[is_seen]]
    share = (level - values[at]) / (values[at + 1] - values[at])
    step_ns = np.maximum(stamps_ns[at + 1] - stamps_ns[at], 0)
    times_ns = stamps_ns[at] + np.rint(share * step_ns).astype(np.int64)
    return Crossings(times_ns, int(np.sum(~is_seen)))
