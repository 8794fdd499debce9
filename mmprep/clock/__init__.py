"""Clock models: from the time of a device to the time of the session, with a stated bound.

Rules
-----
- A fix is one instant on both clocks. Of an exchange it is the midpoint of t2 and t3 (device) and
  of t1 and t4 (master); its error is at most half the *excess* of its round trip over the least
  one if the paths are symmetric, and has the standard deviation excess / sqrt(12) for exponential
  delays. So the exchanges with the least delay count most.
- The fixes are split where the offset jumps by more than they can explain. Fixes that jump out
  and back alone are rejected, never bridged.
- The offset of the device is smoothed by a Kalman filter and a Rauch-Tung-Striebel pass of two
  states, offset and drift, whose drift walks at random. How fast it walks is chosen by likelihood.
  Over a jump the offset is forgotten and the drift kept.
- Between the fixes the smoothed path of that process is a cubic through (offset, drift): the
  knots of a model are interpolated by cubic Hermite pieces, outside them the last drift goes on.
- Events that both sides saw become fixes once it is known which are the same: `matching`.
- Stamps and references stay integer nanoseconds. Floats hold differences from a segment's own
  anchor only: a line fitted through raw Unix seconds is wrong by milliseconds.

References
----------
Rauch, Tung, Striebel, "Maximum likelihood estimates of linear dynamic systems", AIAA J. 3 (1965).
D. L. Mills, RFC 5905, "Network Time Protocol Version 4", section 10 (clock filter).
"""

from mmprep.clock.crossings import Crossings, rising
from mmprep.clock.curve import Rows, evidence, robust_curve
from mmprep.clock.fitting import fit, fit_exchanges, fit_fixes, frame_fixes
from mmprep.clock.matching import Match, fit_events, match
from mmprep.clock.model import (
    BOUND_SIGMAS,
    ClockModel,
    check_covers,
    from_json,
    identity,
    offset_only,
    on_reference,
    shifted,
)
from mmprep.clock.segment import Segment

__all__ = [
    "BOUND_SIGMAS",
    "ClockModel",
    "Crossings",
    "Match",
    "Rows",
    "Segment",
    "check_covers",
    "evidence",
    "fit",
    "fit_events",
    "fit_exchanges",
    "fit_fixes",
    "frame_fixes",
    "from_json",
    "identity",
    "match",
    "offset_only",
    "on_reference",
    "rising",
    "robust_curve",
    "shifted",
]
