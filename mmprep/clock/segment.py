"""Segment: a stretch of device time without a jump, exactly invertible.

A map adds an integer offset: target = source + offset(source). Inside the knots the offset is a
cubic Hermite piece, outside a line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmprep.timebase import NS_PER_S, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of device time without a jump.

    Parameters
    ----------
    begin_ns, end_ns : int, device clock
        The first and last fix.
    source_ns, target_ns : [shape=(n_knots,), int64, ns]
        Knots: device time, strictly increasing, and session time.
    drift : [shape=(n_knots,), float64, s/s]
        d(target - source) / d(source) at the knots.
    bound_s : [shape=(n_knots,), float64, s]
        Bound of the error at the knots; NaN without evidence.
    drift_bound : (float, float), s/s
        Bound of the drift's error at the first and the last knot.
    walk_bound : float, s / s**1.5
        Bound of what the wander adds outside: walk_bound * distance_s**1.5.
    n_fixes : int
        Fixes that were used.
    """

    begin_ns: int
    end_ns: int
    source_ns: IntArray
    target_ns: IntArray
    drift: FloatArray
    bound_s: FloatArray
    drift_bound: tuple[float, float] = (0.0, 0.0)
    walk_bound: float = 0.0
    n_fixes: int = 0

    def __post_init__(self) -> None:
        for array in (self.source_ns, self.target_ns, self.drift, self.bound_s):
            array.setflags(write=False)

    def apply(self, stamps_ns: IntArray) -> IntArray:
        """Map device time to session time, int64 ns to int64 ns."""
        return np.asarray(stamps_ns + self._offset_ns(stamps_ns))

    def invert(self, times_ns: IntArray) -> IntArray:
        """Map session time to device time; `invert(apply(x))` is x to 1 ns."""
        stamps = times_ns - (self.target_ns[0] - self.source_ns[0])
        for _ in range(8):  # each round leaves at most MAX_DRIFT of the error before
            stamps = times_ns - self._offset_ns(stamps)
        return np.asarray(stamps)

    def bound_at_s(self, stamps_ns: IntArray) -> FloatArray:
        """Bound of the error at these device times, float64 s."""
        first, last = self.source_ns[0], self.source_ns[-1]
        inside = np.clip(stamps_ns, first, last)
        bound = np.interp(_seconds(inside - first), _seconds(self.source_ns - first), self.bound_s)
        beyond_s = np.abs(_seconds(stamps_ns - inside))
        drift = np.where(stamps_ns < first, *self.drift_bound)
        outside: FloatArray = drift * beyond_s + self.walk_bound * beyond_s**1.5
        return np.asarray(bound + outside, dtype=np.float64)

    def _offset_ns(self, stamps_ns: IntArray) -> IntArray:
        last = max(self.source_ns.size - 2, 0)
        knot = np.clip(np.searchsorted(self.source_ns, stamps_ns, side="right") - 1, 0, last)
        offset_ns = self.target_ns - self.source_ns
        rise_ns = self._rise_ns(knot, stamps_ns, offset_ns)
        return np.asarray(offset_ns[knot] + np.rint(rise_ns).astype(np.int64))

    def _rise_ns(self, knot: IntArray, stamps_ns: IntArray, offset_ns: IntArray) -> FloatArray:
        """Give the change of the offset since the knot: cubic inside, a line outside."""
        since_ns = (stamps_ns - self.source_ns[knot]).astype(np.float64)
        if self.source_ns.size == 1:
            return np.asarray(since_ns * self.drift[0], dtype=np.float64)
        width_ns = np.diff(self.source_ns).astype(np.float64)[knot]
        step_ns = np.diff(offset_ns).astype(np.float64)[knot]
        begin, end = self.drift[knot], self.drift[knot + 1]
        part = since_ns / width_ns
        rest = 1 - part
        cubic = part * part * (3 - 2 * part) * step_ns
        cubic += width_ns * part * rest * (rest * begin - part * end)
        before, after = since_ns * begin, step_ns + (since_ns - width_ns) * end
        return np.where(part < 0, before, np.where(part > 1, after, cubic))


def _seconds(difference_ns: IntArray) -> FloatArray:
    return np.asarray(difference_ns, dtype=np.float64) / NS_PER_S


def segment_to_json(segment: Segment) -> dict[str, Any]:
    """Give a segment as values that JSON can hold."""
    columns = (segment.source_ns, segment.target_ns, segment.drift, segment.bound_s)
    knots = [list(row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    if math.isnan(knots[0][3]):
        knots = [[*row[:3], None] for row in knots]
    return {
        "begin_ns": segment.begin_ns,
        "end_ns": segment.end_ns,
        "n_fixes": segment.n_fixes,
        "drift_bound": list(segment.drift_bound),
        "walk_bound": segment.walk_bound,
        "knots": knots,
    }


def segment_from_json(value: dict[str, Any]) -> Segment:
    """Read what `segment_to_json` gave."""
    source, target, drift, bound = zip(*value["knots"], strict=True)
    begin, end = value["drift_bound"]
    return Segment(
        begin_ns=value["begin_ns"],
        end_ns=value["end_ns"],
        source_ns=np.array(source, dtype=np.int64),
        target_ns=np.array(target, dtype=np.int64),
        drift=np.array(drift, dtype=np.float64),
        bound_s=np.array(bound, dtype=np.float64),
        drift_bound=(begin, end),
        walk_bound=value["walk_bound"],
        n_fixes=value["n_fixes"],
    )
