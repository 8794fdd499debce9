"""Mean and standard deviation a channel, of what is trained on: exact, and mergeable.

Rules
-----
- Only valid readings count: masked samples and missing ones (NaN) do not.
- Sums are taken block by block and put together by the rule of Chan, Golub and LeVeque, in the
  order of the shards: the same numbers for any number of workers.
- What is kept (count, mean, standard deviation of the population) is enough to merge again.

References
----------
Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances",
Stanford STAN-CS-79-773 (1979).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmprep.timebase import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Moments:
    """How the readings of each channel are spread.

    Parameters
    ----------
    count : [shape=(n_channels,), int64]
    mean : [shape=(n_channels,), float64]
    m2 : [shape=(n_channels,), float64]
        The sum of squared distances from the mean.
    """

    count: IntArray
    mean: FloatArray
    m2: FloatArray

    @classmethod
    def of(cls, values: NDArray[Any]) -> Moments:
        """Measure a block.

        Parameters
        ----------
        values : [shape=(n, n_channels)]
            NaN where there is no reading.
        """
        exact = values.astype(np.float64)
        known = ~np.isnan(exact)
        count = known.sum(axis=0)
        total = np.where(known, exact, 0.0).sum(axis=0)
        mean = np.divide(total, count, out=np.zeros(total.shape), where=count > 0)
        m2 = np.where(known, (exact - mean) ** 2, 0.0).sum(axis=0)
        return cls(count.astype(np.int64), mean, m2)

    def merged(self, other: Moments) -> Moments:
        """Put two parts together."""
        count = self.count + other.count
        part = np.divide(other.count, count, out=np.zeros(count.shape), where=count > 0)
        step = other.mean - self.mean
        mean = self.mean + step * part
        return Moments(count, mean, self.m2 + other.m2 + step**2 * self.count * part)

    def to_json(self) -> dict[str, list[Any]]:
        """Give count, mean and standard deviation; null where there is no reading."""
        has_any = self.count > 0
        std = np.sqrt(np.divide(self.m2, self.count, out=np.zeros(self.m2.shape), where=has_any))
        return {
            "count": self.count.tolist(),
            "mean": [m if k else None for m, k in zip(self.mean.tolist(), has_any, strict=True)],
            "std": [s if k else None for s, k in zip(std.tolist(), has_any, strict=True)],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Moments:
        """Read what `to_json` gave."""
        count = np.array(value["count"], dtype=np.int64)
        mean = np.array([x or 0.0 for x in value["mean"]], dtype=np.float64)
        std = np.array([x or 0.0 for x in value["std"]], dtype=np.float64)
        return cls(count, mean, std**2 * count)


def merged(parts: Iterable[Moments]) -> Moments:
    """Put parts together, in their order; one at least."""
    rest = iter(parts)
    found = next(rest)
    for part in rest:
        found = found.merged(part)
    return found
