"""Account for every row of a stream.

Rules
-----
- Each row is counted once, first match wins: *corrupt* (no usable stamp), *duplicate* (the stamp
  of a kept row), *out_of_range* (before the first window's begin, or at or behind the last one's
  end), *used* (a valid output that was kept rests on it: see `methods`), *outside_trials* (where
  there are trials, in none of them), else *masked*.
- The counts add up to the rows that came in, or the program stops: that is a bug, not bad data.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from mmprep.align.methods import Aligned
from mmprep.align.repaired import Repaired
from mmprep.timebase import BoolArray, IntArray


@dataclass(frozen=True, slots=True)
class Accounting:
    """What became of the rows of a stream; None where there are no trials."""

    n_in: int
    n_used: int
    n_masked: int
    n_out_of_range: int
    n_duplicate: int
    n_corrupt: int
    n_outside_trials: int | None = None

    def __post_init__(self) -> None:
        counts = [n for n in asdict(self).values() if n is not None]
        if sum(counts) != 2 * self.n_in or min(counts) < 0:
            raise RuntimeError(f"rows don't add up: {self}")


class Ledger:
    """Mark the samples of a stream that outputs rest on; one byte a sample.

    Parameters
    ----------
    repaired : Repaired
    """

    def __init__(self, repaired: Repaired) -> None:
        self._repaired = repaired
        self._used = np.zeros(repaired.n_samples, dtype=bool)
        self._n_picked, self._sum_squares, self._max_s = 0, 0.0, 0.0

    @property
    def time_error_s(self) -> tuple[float, float] | None:
        """How far the samples picked lie from the times asked for: rms and largest, s.

        None of values that were interpolated, or where no output is valid.
        """
        if not self._n_picked:
            return None
        return float(np.sqrt(self._sum_squares / self._n_picked)), self._max_s

    def mark(self, aligned: Aligned, kept: BoolArray | None = None) -> None:
        """Mark what some outputs rest on.

        Parameters
        ----------
        kept : [shape=(m,), bool], optional
            The outputs that went into the data set.
        """
        chosen = aligned.valid if kept is None else aligned.valid & kept
        self.mark_spans(aligned.support[chosen])
        if aligned.error_s is not None and chosen.any():
            error_s = aligned.error_s[chosen]
            self._n_picked += error_s.size
            self._sum_squares += float(error_s @ error_s)
            self._max_s = max(self._max_s, float(np.abs(error_s).max()))

    def mark_spans(self, spans: IntArray) -> None:
        """Mark samples `[begin, end)` of each row of spans, shape (k, 2)."""
        if spans.shape[0] == 0:
            return
        low, high = int(spans[:, 0].min()), int(spans[:, 1].max())
        depth = np.bincount(spans[:, 0] - low, minlength=high - low + 1)
        depth = depth - np.bincount(spans[:, 1] - low, minlength=high - low + 1)
        self._used[low:high] |= np.cumsum(depth[:-1]) > 0

    def close(self, begin_ns: int, end_ns: int, trials_ns: IntArray | None = None) -> Accounting:
        """Count the rows of the stream, given the first begin and the last end of the windows.

        Parameters
        ----------
        trials_ns : [shape=(n, 2), int64, ns], optional
            The trials, apart from each other: what lies in none is counted by itself.
        """
        stream = self._repaired
        low, high = rows_within(stream, begin_ns, end_ns)
        n_used = int(self._used[low:high].sum())
        n_outside = None if trials_ns is None else self._outside(trials_ns, low, high)
        return Accounting(
            n_in=stream.n_in,
            n_used=n_used,
            n_masked=high - low - n_used - (n_outside or 0),
            n_out_of_range=stream.n_samples - (high - low),
            n_duplicate=stream.n_duplicate,
            n_corrupt=stream.n_corrupt,
            n_outside_trials=n_outside,
        )

    def _outside(self, trials_ns: IntArray, low: int, high: int) -> int:
        """Count the samples of `[low, high)` that lie in no trial and that nothing rests on."""
        is_idle = ~self._used[low:high]
        for begin_ns, end_ns in trials_ns.tolist():
            begin, end = rows_within(self._repaired, begin_ns, end_ns)
            is_idle[max(begin - low, 0) : max(end - low, 0)] = False
        return int(is_idle.sum())


def rows_within(stream: Repaired, begin_ns: int, end_ns: int) -> tuple[int, int]:
    """Find the samples with a time in `[begin_ns, end_ns)`, as `[low, high)`."""
    bounds = []
    for edge_ns in (begin_ns, end_ns):
        low, high = 0, stream.n_samples
        while low < high:
            middle = (low + high) // 2
            if int(stream.stamps_ns(middle, middle + 1)[0]) < edge_ns:
                low = middle + 1
            else:
                high = middle
        bounds.append(low)
    return bounds[0], max(bounds)
