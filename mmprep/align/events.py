"""Events on the session clock.

Rules
-----
- Events are points: they are not resampled. Each one inside the span stands in the result once,
  however many windows hold it.
- Equal times stay in the order of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmprep.align.ledger import Accounting, rows_within
from mmprep.align.repaired import Repaired
from mmprep.align.windows import WindowPlan
from mmprep.timebase import NS_PER_S, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class PlacedEvents:
    """The events of a stream inside the windows' span.

    Parameters
    ----------
    seconds : [shape=(n,), float64, s]
        After the origin, rising.
    stamps_ns : [shape=(n,), int64, ns]
        On the session clock.
    values : [shape=(n, *frame_shape)]
    windows : [shape=(n, 2), int64]
        The windows `[first, end)` that hold each event; empty in the space between windows.
    accounting : Accounting
    """

    seconds: FloatArray
    stamps_ns: IntArray
    values: NDArray[Any]
    windows: IntArray
    accounting: Accounting


def place_events(events: Repaired, plan: WindowPlan) -> PlacedEvents:
    """Put the events of a stream on the time of the windows.

    Parameters
    ----------
    events : Repaired
        Of kind `events`.
    """
    low, high = rows_within(events, *plan.span_ns)
    stamps_ns = events.stamps_ns(low, high)
    seconds: FloatArray = (stamps_ns - plan.origin_ns) / NS_PER_S
    accounting = Accounting(
        n_in=events.n_in,
        n_used=high - low,
        n_masked=0,
        n_out_of_range=events.n_samples - (high - low),
        n_duplicate=events.n_duplicate,
        n_corrupt=events.n_corrupt,
    )
    values = events.pick(np.arange(low, high))
    return PlacedEvents(seconds, stamps_ns, values, plan.windows_at(seconds), accounting)
