"""Cubic splines: through points, and through what is left of points without their noise.

Rules
-----
- Natural: no curvature at the ends, straight on beyond them.
- Every number comes from sums, products and quotients in a fixed order, so that a
  spline is the same on every machine; scipy's is as good but takes 0.3 s to load.

References
----------
Eilers, "A perfect smoother", Anal. Chem. 75 (2003); its strength is chosen by restricted maximum
likelihood, Wahba, Ann. Stat. 13 (1985).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mmprep.timebase import FloatArray

STRENGTHS = np.geomspace(1e-2, 1e10, 49)


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


def smoothing(at: FloatArray, values: FloatArray, weight: FloatArray) -> Spline:
    """Lay a spline through smoothed points.

    They are the minimum z of sum w (z - values)^2 + strength sum (second divided difference)^2;
    the strength is the one that restricted maximum likelihood prefers.

    Parameters
    ----------
    at : [shape=(n,), float64]
        Strictly increasing, n >= 4, a step or so apart.
    values, weight : [shape=(n,), float64]
    """
    system = _Systems.of(_penalty(at), weight, weight * values)
    freedom = values.size - 2
    misfit = float(np.sum(weight * values**2)) - np.sum(system.sums**2 / system.pivot, axis=0)
    log_det = np.sum(np.log(system.pivot), axis=0)
    cost = freedom * (np.log(misfit / freedom) - np.log(STRENGTHS)) + log_det
    return Spline.through(at, system.solution(int(np.argmin(cost))))


def _penalty(at: FloatArray) -> FloatArray:
    """Give the three bands of D'D, D the second divided differences at uneven places.

    Returns
    -------
    [shape=(3, n), float64]
        Element i of band j is that of row i and column i - j.
    """
    first, second = np.diff(at)[:-1], np.diff(at)[1:]
    rows = np.stack([1 / first, -1 / first - 1 / second, 1 / second]) * 2 / (first + second)
    band = np.zeros((3, at.size))
    for i in range(3):
        for j in range(i, 3):
            band[j - i, j : j + rows.shape[1]] += rows[i] * rows[j]
    return band


@dataclass(frozen=True, slots=True)
class _Systems:
    """(strength penalty + W) z = right as L D L' z = right, for all strengths at once.

    `pivot` is D, `near` and `far` are the bands of L below its diagonal of ones, `sums` is the
    solution of L y = right; all (n, n_strengths).
    """

    pivot: FloatArray
    near: FloatArray
    far: FloatArray
    sums: FloatArray

    @classmethod
    def of(cls, penalty: FloatArray, weight: FloatArray, right: FloatArray) -> _Systems:
        bands = penalty[:, :, None] * STRENGTHS
        bands[0] += weight[:, None]
        pivot, near, far, sums = np.zeros((4, right.size, STRENGTHS.size))
        for i in range(right.size):
            if i > 1:
                far[i] = bands[2, i] / pivot[i - 2]
            lean = bands[1, i] - bands[2, i] * near[i - 1]
            near[i] = lean / pivot[i - 1] if i else 0.0
            pivot[i] = bands[0, i] - near[i] * lean - far[i] * bands[2, i]
            sums[i] = right[i] - near[i] * sums[i - 1] - far[i] * sums[i - 2]
        return cls(pivot, near, far, sums)

    def solution(self, chosen: int) -> FloatArray:
        """Give z under one of the strengths."""
        scaled = (self.sums[:, chosen] / self.pivot[:, chosen]).tolist()
        near, far = self.near[1:, chosen].tolist(), self.far[2:, chosen].tolist()
        found = [0.0, 0.0]
        rows = zip([*near, 0.0], [*far, 0.0, 0.0], scaled, strict=True)
        for next_, after, value in reversed(list(rows)):
            found.append(value - next_ * found[-1] - after * found[-2])
        return np.array(found[:1:-1])
