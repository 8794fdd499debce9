"""Events on the session clock.

Rules
-----
- An event is a point or lasts a time; it is not resampled. Each one that begins inside the span,
  or reaches into it, stands in the result once, however many windows hold it.
- Equal times stay in the order of the rows.
- The events of a window are a stretch of rows: from the first that begins in it or reaches into
  it to the last that begins before its end. Events of different lengths may leave some between
  that are over already.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mmprep.align.ledger import Accounting
from mmprep.align.repaired import Repaired
from mmprep.timebase import IntArray


@dataclass(frozen=True, slots=True)
class PlacedEvents:
    """The events of a stream inside a span, in order of time.

    Parameters
    ----------
    rows : [shape=(n,), int64]
        Their rows in the stream.
    stamps_ns, durations_ns : [shape=(n,), int64, ns]
        When they begin on the session clock, and how long they last; 0 for points.
    accounting : Accounting
    """

    rows: IntArray
    stamps_ns: IntArray
    durations_ns: IntArray
    accounting: Accounting

    def within(self, edges_ns: IntArray) -> IntArray:
        """Give the events of some windows.

        Parameters
        ----------
        edges_ns : [shape=(m, 2), int64, ns]
            Begin and end of each window on the session clock.

        Returns
        -------
        [shape=(m, 2), int64]
            Events `[first, end)` of this result; empty where there are none.
        """
        first = _first_in(self.stamps_ns, self.durations_ns, edges_ns[:, 0])
        end = np.searchsorted(self.stamps_ns, edges_ns[:, 1], side="left")
        return np.stack([first, np.maximum(first, end)], axis=1)


def place_events(
    events: Repaired, span_ns: tuple[int, int], durations_ns: IntArray | None = None
) -> PlacedEvents:
    """Take the events of a stream that lie in a span of the session clock.

    Parameters
    ----------
    events : Repaired
        Of kind `events`.
    span_ns : (begin, end)
    durations_ns : [shape=(n_in,), int64, ns], optional
        How long the event of each row of the stream lasts on the session clock; default points.
    """
    stamps = events.stamps_ns()
    rows = np.arange(stamps.size) if events.rows is None else events.rows
    lasts = np.zeros_like(stamps) if durations_ns is None else durations_ns[rows]
    end = int(np.searchsorted(stamps, span_ns[1], side="left"))
    held = np.zeros(stamps.size, dtype=bool)
    held[:end] = (stamps[:end] >= span_ns[0]) | (stamps[:end] + lasts[:end] > span_ns[0])
    accounting = Accounting(
        n_in=events.n_in,
        n_used=int(held.sum()),
        n_masked=0,
        n_out_of_range=int(stamps.size - held.sum()),
        n_duplicate=events.n_duplicate,
        n_corrupt=events.n_corrupt,
    )
    return PlacedEvents(rows[held], stamps[held], lasts[held], accounting)


def _first_in(stamps_ns: IntArray, durations_ns: IntArray, begins_ns: IntArray) -> IntArray:
    """Find the first event that begins at or after each time, or lasts beyond it."""
    last_ns = np.maximum.accumulate(stamps_ns + durations_ns)
    begun = np.searchsorted(stamps_ns, begins_ns, side="left")
    return np.minimum(begun, np.searchsorted(last_ns, begins_ns, side="right"))
