"""Local times in the order of a file: clocks that pass midnight, hours that a zone has twice.

Rules
-----
- A time of day that falls by more than half a day is of the next day; one that then rises by more
  than 23 hours is of the day before.
- In an hour that a zone has twice, times are of its first passage until they fall from one row to
  the next by more than a minute: from there on they are of the second. Who enters the hour from
  before it is in its first passage.
- Rows stay where they are. What was moved, and what may be an hour off, is counted and said.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmprep.tables.stamps import StampReader
from mmprep.timebase import NS_PER_S, BoolArray, IntArray

HOUR_NS = 3600 * NS_PER_S
DAY_NS = 24 * HOUR_NS
_FALL_NS = 60 * NS_PER_S
_LONG_AGO = -(1 << 62)
_MARGIN = timedelta(days=1)


class Passage:
    """Move the stamps of a file, block by block; those that need nothing stay as they are."""

    def straight(self, known_ns: IntArray) -> IntArray:
        """Move stamps.

        Parameters
        ----------
        known_ns : [shape=(n,), int64, ns]
            In the order of the file, without missing ones.

        Returns
        -------
        [shape=(n,), int64, ns]
        """
        return known_ns

    def notes(self) -> Iterator[str]:
        """Say what was moved."""
        yield from ()


class Midnights(Passage):
    """Count the days of a clock that tells the time of day alone."""

    def __init__(self) -> None:
        self._last_ns: int | None = None
        self._days = self._n_passed = 0

    def straight(self, known_ns: IntArray) -> IntArray:
        """See `Passage.straight`."""
        if not known_ns.size:
            return known_ns
        first_ns = known_ns[0] if self._last_ns is None else self._last_ns
        steps = np.diff(known_ns, prepend=first_ns)
        days = np.full(known_ns.size, self._days, np.int64)
        for row in np.flatnonzero((steps < -DAY_NS // 2) | (steps > DAY_NS - HOUR_NS)):
            if steps[row] < 0 or self._days:
                self._days += 1 if steps[row] < 0 else -1
                self._n_passed = max(self._n_passed, self._days)
                days[row:] = self._days
        self._last_ns = int(known_ns[-1])
        return known_ns + days * DAY_NS if days.any() else known_ns

    def notes(self) -> Iterator[str]:
        """See `Passage.notes`."""
        if self._n_passed:
            times = "once" if self._n_passed == 1 else f"{self._n_passed} times"
            yield f"the time of day passes midnight {times}; the rows after it are of the next day"


class RepeatedHours(Passage):
    """Tell the passages of the hours that a zone has twice.

    Parameters
    ----------
    tz : str
        Stamps in its repeated hours come as those of the first passage.
    """

    def __init__(self, tz: str) -> None:
        self._tz, self._zone = tz, ZoneInfo(tz)
        self._last_ns, self._last_shift, self._is_second = _LONG_AGO, 0, False
        self._first_ns: int | None = None
        self._n_rows = self._n_second = 0

    def straight(self, known_ns: IntArray) -> IntArray:
        """See `Passage.straight`."""
        if not known_ns.size:
            return known_ns
        shifts = self._shifts(known_ns)
        moved = known_ns
        if shifts.any():
            second = self._second(known_ns, shifts)
            moved = known_ns + np.where(second, shifts, 0)
            self._n_rows += int(np.count_nonzero(shifts))
            self._n_second += int(np.count_nonzero(second))
            if self._first_ns is None:
                self._first_ns = int(known_ns[np.argmax(shifts > 0)])
        self._last_ns, self._last_shift = int(known_ns[-1]), int(shifts[-1])
        return moved

    def notes(self) -> Iterator[str]:
        """See `Passage.notes`."""
        if self._first_ns is None:
            return
        local = datetime.fromtimestamp(self._first_ns // NS_PER_S, self._zone)
        others = self._n_rows - self._n_second
        found = (
            f"{self._n_second} taken for its second passage, as the time falls back, {others}"
            if self._n_second
            else "the time does not fall back, all taken"
        )
        yield (
            f"{self._n_rows} rows from {local:%Y-%m-%d %H:%M:%S} on lie in an hour that {self._tz}"
            f" has twice: {found} for its first"
        )

    def _second(self, known_ns: IntArray, shifts: IntArray) -> BoolArray:
        before = np.concatenate([[self._last_ns], known_ns[:-1]])
        is_inside = np.concatenate([[self._last_shift], shifts[:-1]]) > 0
        enters = (shifts > 0) & ~is_inside & (before < known_ns)
        falls = (shifts > 0) & is_inside & (known_ns < before - _FALL_NS)
        rows = np.arange(known_ns.size)
        last_enter = np.maximum.accumulate(np.where(enters, rows, -1))
        last_fall = np.maximum.accumulate(np.where(falls, rows, -1))
        undecided = np.maximum(last_enter, last_fall) < 0
        second = np.where(undecided, self._is_second, last_fall > last_enter)
        self._is_second = bool(second[-1])
        return np.asarray(second & (shifts > 0))

    def _shifts(self, known_ns: IntArray) -> IntArray:
        """Give the time from the first passage to the second; 0 outside of repeated hours."""
        low, high = int(known_ns.min()), int(known_ns.max())
        if high - low < 10 * DAY_NS and self._offset(low, -_MARGIN) == self._offset(high, _MARGIN):
            return np.zeros(known_ns.size, np.int64)
        local = pc.local_timestamp(pa.array(known_ns).cast(pa.timestamp("ns", self._tz)))
        latest = pc.assume_timezone(local, self._tz, ambiguous="latest", nonexistent="latest")
        return np.asarray(latest.cast(pa.int64()).to_numpy(zero_copy_only=False) - known_ns)

    def _offset(self, stamp_ns: int, margin: timedelta) -> timedelta | None:
        return (
            (datetime.fromtimestamp(stamp_ns // NS_PER_S, UTC) + margin)
            .astimezone(self._zone)
            .utcoffset()
        )


def passage_of(reader: StampReader | None) -> Passage:
    """Choose what the stamps of a time column need."""
    if reader is not None and reader.unit == "clock":
        return Midnights()
    if reader is not None and reader.unit == "iso" and reader.tz and reader.type.tz is None:
        return RepeatedHours(reader.tz)
    return Passage()
