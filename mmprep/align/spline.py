"""Cubic splines through points.

Rules
-----
- Natural: no curvature at the ends, straight on beyond them.
- Every number comes from sums, products and quotients in a fixed order, so that a
  spline is the same on every machine; scipy's is as good but takes 0.3 s to load.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mmprep.timebase import FloatArray


@dataclass(frozen=True, slots=True)
class Spline:
    """A natural cubic spline.

    Parameters
    ----------
    knots : [shape=(n,), float64]
        Strictly increasing, n >= 2.
    origin, value, slope, bend, twist : [shape=(n + 1,), float64]
        Piece k ends at knot k: value + part (slope + part (bend + part twist)), part from its
        origin on.
    """

    knots: FloatArray
    origin: FloatArray
    value: FloatArray
    slope: FloatArray
    bend: FloatArray
    twist: FloatArray

    @classmethod
    def through(cls, at: FloatArray, values: FloatArray) -> Spline:
        """Lay a spline through points."""
        width = np.diff(at)
        steep = np.diff(values) / width
        bend = _bends(width, steep) / 2
        first = steep - width * (2 * bend[:-1] + bend[1:]) / 3
        last = steep[-1] + width[-1] * bend[-2] / 3
        return cls(
            at,
            np.concatenate([at[:1], at]),
            np.concatenate([values[:1], values]),
            np.concatenate([first[:1], first, [last]]),
            np.concatenate([[0.0], bend]),
            np.concatenate([[0.0], np.diff(bend) / (3 * width), [0.0]]),
        )

    def __call__(self, at: FloatArray) -> FloatArray:
        """Give the values at any places, [shape=at.shape, float64]."""
        piece = np.searchsorted(self.knots, at, side="right")
        part = at - self.origin.take(piece)
        curve = self.twist.take(piece)
        for term in (self.bend, self.slope, self.value):
            curve *= part
            curve += term.take(piece)
        return curve


def _bends(width: FloatArray, steep: FloatArray) -> FloatArray:
    """Give the second derivatives at the knots: continuous slopes, none at the ends."""
    columns = (width[:-1], 2 * (width[:-1] + width[1:]), width[1:], 6 * np.diff(steep))
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return np.array([0.0, *_tridiagonal(rows), 0.0])


def _tridiagonal(rows: Iterable[tuple[float, float, float, float]]) -> list[float]:
    """Solve for x where below x[i - 1] + middle x[i] + above x[i + 1] = right, diagonal heavy."""
    shares, sums = [0.0], [0.0]
    for below, middle, above, right in rows:
        pivot = middle - below * shares[-1]
        shares.append(above / pivot)
        sums.append((right - below * sums[-1]) / pivot)
    found = [0.0]
    for share, total in zip(shares[:0:-1], sums[:0:-1], strict=True):
        found.append(total - share * found[-1])
    return found[:0:-1]
