"""Find where the sound of a container breaks off and goes on later, by the stamps of its packets.

Rules
-----
- Samples are counted from the first one; a stamp leads by what it is later than that count says.
- The sound breaks where the lead rises by 10 ms or more for good: the median of up to 8 stamps
  behind against that of up to 8 before it. Stamps of single packets scatter.
- Behind a break samples are counted from the time that those stamps bear out. A lead that falls is
  none: what sounds twice at once stays in line.
"""

from __future__ import annotations

from array import array

import numpy as np

from mmprep.timebase import FloatArray, IntArray

BREAK_S = 0.01
LEVEL_STAMPS = 8


class Stamps:
    """Notes the stamps of an audio track while it is decoded; 16 bytes a packet."""

    def __init__(self) -> None:
        self._row = array("q")
        self._stamp_s = array("d")

    def note(self, row: int, stamp_s: float) -> None:
        """Note the stamp of a sample."""
        self._row.append(row)
        self._stamp_s.append(stamp_s)

    def breaks(self, rate_hz: int) -> list[tuple[int, float]]:
        """List the first sample behind each break and its time, s."""
        if not self._row:  # most files have no stamps
            return []
        row, lead_s = self._leads(rate_hz)
        found: list[tuple[int, float]] = []
        level_s = float(lead_s[0])
        for at in np.flatnonzero(np.diff(lead_s) >= BREAK_S) + 1:
            before, after = lead_s[max(at - LEVEL_STAMPS, 0) : at], lead_s[at : at + LEVEL_STAMPS]
            raised_s = float(np.median(after))
            if raised_s - max(float(np.median(before)), level_s) >= BREAK_S:
                found.append((int(row[at]), raised_s + int(row[at]) / rate_hz))
                level_s = raised_s
        return found

    def error_s(self, rate_hz: int) -> float:
        """Give the largest distance of a stamp from where samples are counted to stand."""
        if not self._row:
            return 0.0
        row, lead_s = self._leads(rate_hz)
        known = [(int(row[0]), float(lead_s[0] + row[0] / rate_hz)), *self.breaks(rate_hz)]
        first = np.array([row for row, _ in known])
        counted = np.array([time_s - row / rate_hz for row, time_s in known])
        stretch = np.searchsorted(first, row, side="right") - 1
        return float(np.abs(lead_s - counted[stretch]).max())

    def _leads(self, rate_hz: int) -> tuple[IntArray, FloatArray]:
        row = np.array(self._row, np.int64)
        return row, np.array(self._stamp_s, np.float64) - row / rate_hz
