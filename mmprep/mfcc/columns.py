"""What is done to finished columns: differences along rows, and normalisation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from mmprep.mfcc.windows import FeatureArray
from mmprep.timebase import FloatArray

# Savitzky-Golay over 9 rows, polynomial degree = derivative: slope of the line, and twice the
# square term of the parabola.
_REACH = 4
_DELTA_WEIGHTS = {
    1: np.arange(-4, 5, dtype=np.float32) / np.float32(60),
    2: np.array([28, 7, -8, -17, -20, -17, -8, 7, 28], dtype=np.float32) / np.float32(462),
}


def deltas(features: FeatureArray, order: int = 1) -> FeatureArray:
    """Differentiate along rows as librosa.feature.delta does (width 9, mode interp).

    Parameters
    ----------
    features : [shape=(n_frames, n_features), float32]
    order : int
        1 or 2.

    Returns
    -------
    [shape=(n_frames, n_features), float32]
        sum_j w[j] x[t + j], j = -4 .. 4. The first and last four rows repeat their neighbour: the
        polynomial fitted to nine rows has one derivative of its own degree. Below nine rows, where
        librosa refuses, the first and last row of `features` are repeated outwards.
    """
    if len(features) == 0:
        return features.copy()
    is_short = len(features) <= 2 * _REACH
    padded = np.pad(features, ((_REACH, _REACH), (0, 0)), mode="edge") if is_short else features
    n_inner = len(padded) - 2 * _REACH
    inner = np.zeros((n_inner, features.shape[1]), np.float32)
    for shift, weight in enumerate(_DELTA_WEIGHTS[order]):
        inner += weight * padded[shift : shift + n_inner]
    return inner if is_short else np.pad(inner, ((_REACH, _REACH), (0, 0)), mode="edge")


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean and squared deviation of each column over n rows, to be merged over a speaker's files.

    Parameters
    ----------
    n_frames : int
        Rows seen.
    mean, deviation : [shape=(n_features,), float64]
        Mean, and sum of (x - mean)^2.
    """

    n_frames: int
    mean: FloatArray
    deviation: FloatArray

    def to_json(self) -> dict[str, Any]:
        """Give the moments as values that JSON can hold exactly."""
        lists = {"mean": self.mean.tolist(), "deviation": self.deviation.tolist()}
        return {"n_frames": self.n_frames, **lists}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Moments:
        """Read what `to_json` gave."""
        return cls(value["n_frames"], np.array(value["mean"]), np.array(value["deviation"]))

    def merge(self, other: Moments) -> Moments:
        """Give the moments of both sets of rows (Chan, Golub and LeVeque 1979)."""
        n_both = self.n_frames + other.n_frames
        if n_both == 0:
            return self
        step = other.mean - self.mean
        mean = self.mean + step * (other.n_frames / n_both)
        between = step**2 * (self.n_frames * other.n_frames / n_both)
        return Moments(n_both, mean, self.deviation + other.deviation + between)


def moments(features: FeatureArray) -> Moments:
    """Measure mean and squared deviation of each column, in float64."""
    if len(features) == 0:
        zero = np.zeros(features.shape[1])
        return Moments(0, zero, zero)
    mean = features.mean(axis=0, dtype=np.float64)
    return Moments(len(features), mean, ((features - mean) ** 2).sum(axis=0))


def normalize(features: FeatureArray, over: Moments) -> FeatureArray:
    """Give each column mean 0 and variance 1 over the rows that `over` has seen.

    Returns
    -------
    [shape=(n_frames, n_features), float32]
        (x - mean) / sqrt(deviation / n_frames); a column that never changes becomes 0.
    """
    spread = np.sqrt(over.deviation / max(1, over.n_frames))
    return ((features - over.mean) / np.where(spread > 0, spread, 1)).astype(np.float32)


def moments_of(blocks: Iterable[FeatureArray]) -> Moments:
    """Measure all rows of at least one block, block after block."""
    return reduce(Moments.merge, map(moments, blocks))


def widened(blocks: Iterable[FeatureArray], n_orders: int) -> Iterator[FeatureArray]:
    """Append differences of the first orders to columns that come in blocks; see `deltas`.

    Yields
    ------
    [shape=(n, n_features * (1 + n_orders)), float32]
        Joined, what all rows at once would give: the last rows of a block come with the next one,
        which they need.
    """
    if not n_orders:
        yield from blocks
        return
    rows, n_done = None, 0  # rows before n_done are only there for the differences of the others
    for block in blocks:
        rows = block if rows is None else np.concatenate([rows, block])
        n_ready = len(rows) - _REACH
        if n_ready > n_done + _REACH:
            yield _with_deltas(rows, n_orders)[n_done:n_ready]
            rows, n_done = rows[n_ready - _REACH - 1 :], _REACH + 1
    if rows is not None:
        yield _with_deltas(rows, n_orders)[n_done:]


def _with_deltas(columns: FeatureArray, n_orders: int) -> FeatureArray:
    orders = range(1, n_orders + 1)
    return np.concatenate([columns, *(deltas(columns, k) for k in orders)], axis=1)
