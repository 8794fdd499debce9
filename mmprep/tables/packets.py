"""Counters of packets: what they say about rows that were lost.

Rules
-----
- A counter goes `low, low + step, ... high, low`. A row whose counter is not the next one follows
  lost packets; how many is known but for whole cycles.
- The same value again is the same packet, if the source may repeat one; else all but one of a
  cycle are lost.
- Where no cycle is known, a fall from just below a power of two is a wrap; any other fall is a
  restart, after which the rows go on with the next number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mmprep.timebase import FloatArray, IntArray

MIN_WRAPS = 2
MIN_CYCLE = 16
WRAP_SHARE = 64  # a fall from the last 1/64 below a power of two is a wrap


@dataclass(frozen=True, slots=True)
class Cycle:
    """The values that a counter runs through."""

    low: int
    high: int
    step: int = 1

    @property
    def n_values(self) -> int:
        """How many packets a cycle has."""
        return (self.high - self.low) // self.step + 1


def find_cycle(values: Sequence[float]) -> Cycle | None:
    """Find the cycle of a counter by its first values.

    Returns
    -------
    Cycle or None
        From the smallest to the largest value, by the usual step; None where the counter wraps
        fewer than twice, so that a lost packet could pass for the end of the cycle.
    """
    known = np.array(values, dtype=np.float64)
    known = known[~np.isnan(known)]
    steps = np.diff(known)
    if np.count_nonzero(steps < 0) < MIN_WRAPS:
        return None
    rises, counts = np.unique(steps[steps > 0], return_counts=True)
    if not rises.size:
        return None
    return Cycle(int(known.min()), int(known.max()), max(1, int(rises[np.argmax(counts)])))


class PacketCounter:
    """Number the packets of a file by their counter, lost ones counted.

    Parameters
    ----------
    cycle : Cycle, optional
        None: not known; see the rules.
    may_repeat : bool
        The source may give a packet several times.
    """

    def __init__(self, cycle: Cycle | None, *, may_repeat: bool = True) -> None:
        self.cycle, self._may_repeat = cycle, may_repeat or cycle is None
        self.n_lost = self.n_holes = self.n_repeats = self.n_restarts = 0
        self._last: float | None = None  # the counter of the last row that has one
        self._number, self._since = -1, 0  # its packet's number; rows without counter after it

    def numbers(self, values: FloatArray) -> IntArray:
        """Give the numbers of the next rows of the file.

        Parameters
        ----------
        values : [shape=(n,), float64]
            Their counters; NaN where missing, such a row is the next packet.

        Returns
        -------
        [shape=(n,), int64]
            From 0 for the first row of the file.
        """
        advance = np.ones(values.size, dtype=np.int64)
        seen = np.flatnonzero(~np.isnan(values))
        if seen.size:
            self._count(values[seen], seen, advance)
        numbers = self._number + self._since + np.cumsum(advance)
        if seen.size:
            self._last, self._number = float(values[seen[-1]]), int(numbers[seen[-1]])
            self._since = values.size - 1 - int(seen[-1])
        else:
            self._since += values.size
        return np.asarray(numbers)

    def _count(self, known: FloatArray, seen: IntArray, advance: IntArray) -> None:
        rows = np.diff(seen, prepend=-1 - self._since)
        first = 0 if self._last is not None else 1
        before = np.concatenate([[self._last if first == 0 else known[0]], known[:-1]])
        lost = self._lost(known - before, before, rows)
        lost[:first] = 0
        repeats = (known == before) & (rows == 1) & self._may_repeat
        repeats[:first] = False
        lost[repeats] = 0
        advance[seen] += lost - repeats
        self.n_lost += int(lost.sum())
        self.n_holes += int(np.count_nonzero(lost))
        self.n_repeats += int(np.count_nonzero(repeats))

    def _lost(self, steps: FloatArray, before: FloatArray, rows: IntArray) -> IntArray:
        """Count the packets lost before each row."""
        if self.cycle is not None:
            n_values = np.full(steps.size, self.cycle.n_values)
            return np.asarray((np.rint(steps / self.cycle.step).astype(np.int64) - rows) % n_values)
        raised = steps.astype(np.int64)
        falls = raised < 0
        powers = 1 << np.ceil(np.log2(np.maximum(before, 1) + 1)).astype(np.int64)
        wraps = falls & (before >= powers - powers // WRAP_SHARE - 1) & (powers >= MIN_CYCLE)
        raised = np.where(wraps, raised + powers, raised)
        self.n_restarts += int(np.count_nonzero(falls & ~wraps))
        return np.where(falls & ~wraps, 0, np.maximum(raised - rows, 0))

    def notes(self, name: str, *, is_clock: bool) -> list[str]:
        """Say what was counted."""
        found = []
        if self.n_lost:
            kept = "their time is left as gaps" if is_clock else "the stamps are those of the file"
            found.append(
                f"counter {name!r}: at least {self.n_lost} packets lost in {self.n_holes} places;"
                f" {kept}"
            )
        if self.n_repeats and is_clock:
            found.append(f"counter {name!r}: {self.n_repeats} packets come again")
        if self.n_restarts:
            found.append(f"counter {name!r} starts anew {self.n_restarts} times")
        return found
