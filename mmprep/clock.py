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
- Stamps and references stay integer nanoseconds. Floats hold differences from a segment's own
  anchor only: a line fitted through raw Unix seconds is wrong by milliseconds.

References
----------
Rauch, Tung, Striebel, "Maximum likelihood estimates of linear dynamic systems", AIAA J. 3 (1965).
D. L. Mills, RFC 5905, "Network Time Protocol Version 4", section 10 (clock filter).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from mmprep.errors import ClockError
from mmprep.timebase import (
    NS_PER_S,
    BoolArray,
    Evidence,
    Exchanges,
    Fixes,
    FloatArray,
    FrameLog,
    IntArray,
)

__all__ = [
    "ClockModel",
    "Segment",
    "check_covers",
    "fit",
    "fit_exchanges",
    "fit_fixes",
    "frame_fixes",
    "from_json",
    "identity",
    "shifted",
]

BOUND_SIGMAS = 4.0  # the bound in standard deviations of the smoothed offset
MAX_KNOTS = 1000  # a model
FEW_KNOTS = 33  # a segment, if it has so many fixes: the bound differs along it
MAX_SMOOTHED = 10_000  # fixes that are smoothed one by one; more are averaged in runs first
KNOT_TOLERANCE_S = 20e-9  # what thinning the knots may change
MIN_FIXES = 3  # of a segment beside others
MIN_FOR_SCATTER = 5  # fixes whose scatter says how good they are
JUMP_S = 1e-3  # smaller steps are followed by the smoother
WANDER = 100e-6  # s/s, change of the rate that is no jump
MAX_DRIFT = 0.05  # s/s; beyond, one of the two columns is no clock or has another unit
DRIFT_PRIOR = 1e-3  # s/s around the common line
DRIFT_RESET = 20e-6  # s/s, what a reset may change about the drift
OFFSET_PRIOR_S2 = 1.0
# Walk of the drift, s/s per sqrt(s), squared. No quartz in a room is steadier than the first.
WALKS = tuple(10.0**power for power in range(-19, -5))
STEADIER = 0.7  # log-likelihood a decade
SWING = 3.0  # standard deviations that the drift doesn't change by in an ordinary walk
ROUNDS = 5


# --- models ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of device time without a jump.

    Parameters
    ----------
    begin_ns, end_ns : int, device clock
        The first and last fix.
    source_ns, target_ns : [shape=(n_knots,), int64, ns]
        Knots: device time, strictly increasing, and session time.
    drift : [shape=(n_knots,), float64, s/s]
        d(target - source) / d(source) at the knots.
    bound_s : [shape=(n_knots,), float64, s]
        Bound of the error at the knots; NaN without evidence.
    drift_bound : (float, float), s/s
        Bound of the drift's error at the first and the last knot.
    walk_bound : float, s / s**1.5
        Bound of what the wander adds outside: walk_bound * distance_s**1.5.
    n_fixes : int
        Fixes that were used.
    """

    begin_ns: int
    end_ns: int
    source_ns: IntArray
    target_ns: IntArray
    drift: FloatArray
    bound_s: FloatArray
    drift_bound: tuple[float, float] = (0.0, 0.0)
    walk_bound: float = 0.0
    n_fixes: int = 0

    def __post_init__(self) -> None:
        for array in (self.source_ns, self.target_ns, self.drift, self.bound_s):
            array.setflags(write=False)

    def apply(self, stamps_ns: IntArray) -> IntArray:
        """Map device time to session time, int64 ns to int64 ns."""
        return stamps_ns + self._offset_ns(stamps_ns)

    def invert(self, times_ns: IntArray) -> IntArray:
        """Map session time to device time; `invert(apply(x))` is x to 1 ns."""
        stamps = times_ns - (self.target_ns[0] - self.source_ns[0])
        for _ in range(8):  # each round leaves at most MAX_DRIFT of the error before
            stamps = times_ns - self._offset_ns(stamps)
        return stamps

    def bound_at_s(self, stamps_ns: IntArray) -> FloatArray:
        """Bound of the error at these device times, float64 s."""
        first, last = self.source_ns[0], self.source_ns[-1]
        inside = np.clip(stamps_ns, first, last)
        bound = np.interp(_seconds(inside - first), _seconds(self.source_ns - first), self.bound_s)
        beyond_s = np.abs(_seconds(stamps_ns - inside))
        drift = np.where(stamps_ns < first, *self.drift_bound)
        return np.asarray(bound + drift * beyond_s + self.walk_bound * beyond_s**1.5)

    def _offset_ns(self, stamps_ns: IntArray) -> IntArray:
        last = max(self.source_ns.size - 2, 0)
        knot = np.clip(np.searchsorted(self.source_ns, stamps_ns, side="right") - 1, 0, last)
        offset_ns = self.target_ns - self.source_ns
        rise_ns = self._rise_ns(knot, stamps_ns, offset_ns)
        return offset_ns[knot] + np.rint(rise_ns).astype(np.int64)

    def _rise_ns(self, knot: IntArray, stamps_ns: IntArray, offset_ns: IntArray) -> FloatArray:
        """Give the change of the offset since the knot: cubic inside, a line outside."""
        since_ns = (stamps_ns - self.source_ns[knot]).astype(np.float64)
        if self.source_ns.size == 1:
            return since_ns * self.drift[0]
        width_ns = np.diff(self.source_ns).astype(np.float64)[knot]
        step_ns = np.diff(offset_ns).astype(np.float64)[knot]
        begin, end = self.drift[knot], self.drift[knot + 1]
        part = since_ns / width_ns
        rest = 1 - part
        cubic = part * part * (3 - 2 * part) * step_ns
        cubic += width_ns * part * rest * (rest * begin - part * end)
        before, after = since_ns * begin, step_ns + (since_ns - width_ns) * end
        return np.where(part < 0, before, np.where(part > 1, after, cubic))


@dataclass(frozen=True, slots=True)
class ClockModel:
    """A map from device time to session time, piece by piece, with its evidence.

    Parameters
    ----------
    segments : tuple of Segment
        In the order of session time. Device time may repeat in them after a reset.
    method : str
        `exchanges`, `fixes`, `frames` or `none`.
    n_fixes, n_rejected : int
        Fixes used, and fixes left out as outliers.
    residual_rms_s, residual_p50_s, residual_p99_s : float or None
        Of the distances of the used fixes from the curve.
    bound_s : float or None
        The largest bound within the evidence; holds for symmetric paths. None without evidence.
    asymmetry_bound_s : float or None
        Half the least round trip: what any asymmetry can hide. None without round trips.
    reach_ns : int
        The longest time between two fixes.
    """

    segments: tuple[Segment, ...]
    method: str
    n_fixes: int = 0
    n_rejected: int = 0
    residual_rms_s: float | None = None
    residual_p50_s: float | None = None
    residual_p99_s: float | None = None
    bound_s: float | None = None
    asymmetry_bound_s: float | None = None
    reach_ns: int = 0

    @property
    def source_ref_ns(self) -> int:
        """The device time of the first knot."""
        return int(self.segments[0].source_ns[0])

    @property
    def target_ref_ns(self) -> int:
        """The session time of the first knot."""
        return int(self.segments[0].target_ns[0])

    @property
    def skew_ppm(self) -> float:
        """Mean rate of session time against device time, less one, in parts per million."""
        spans = [segment.source_ns[-1] - segment.source_ns[0] for segment in self.segments]
        rises = [segment.target_ns[-1] - segment.target_ns[0] for segment in self.segments]
        total = int(sum(spans))
        if total == 0:
            return float(np.mean([segment.drift.mean() for segment in self.segments]) * 1e6)
        return int(sum(rises) - total) / total * 1e6

    def locate(self, stamps_ns: IntArray) -> IntArray:
        """Find the segment of each stamp by its value: the nearest, the earlier of two."""
        spans = [(segment.begin_ns, segment.end_ns) for segment in self.segments]
        return _nearest(spans, stamps_ns)

    def locate_in_order(self, stamps_ns: IntArray) -> IntArray:
        """Find the segment of each stamp of a recording by value and position.

        Between two segments the device clock jumped, somewhere between two fixes. The stamps of
        the recording jumped with it, and that is where the segments change.

        Parameters
        ----------
        stamps_ns : [shape=(n,), int64, ns]
            Device stamps in the order of recording; they may step back at resets.

        Returns
        -------
        [shape=(n,), int64]
            Indices into `segments`, never decreasing.
        """
        number = np.zeros(stamps_ns.size, dtype=np.int64)
        begin = 0
        for before in range(len(self.segments) - 1):
            pair = (self.segments[before], self.segments[before + 1])
            begin += _first_after_jump(pair, stamps_ns[begin:])
            number[begin:] = before + 1
        return number

    def apply(self, stamps_ns: IntArray, *, segment: IntArray | None = None) -> IntArray:
        """Map device time to session time.

        Parameters
        ----------
        stamps_ns : [shape=(n,), int64, ns]
            On the device clock, in any order.
        segment : [shape=(n,), int64], optional
            Which segment each stamp belongs to, as `locate_in_order` gives it; by value if absent.

        Returns
        -------
        [shape=(n,), int64, ns]
            On the session clock; strictly increasing with the stamp inside a segment.
        """
        number = self.locate(stamps_ns) if segment is None else segment
        return self._by_segment(number, stamps_ns, Segment.apply, np.int64)

    def apply_in_order(self, stamps_ns: IntArray) -> IntArray:
        """Map the stamps of a recording, which may step back where the device was reset."""
        return self.apply(stamps_ns, segment=self.locate_in_order(stamps_ns))

    def invert(self, times_ns: IntArray, *, segment: IntArray | None = None) -> IntArray:
        """Map session time to device time; agrees with `apply` to 1 ns."""
        if segment is None:
            spans = [tuple(s.apply(np.array([s.begin_ns, s.end_ns]))) for s in self.segments]
            segment = _nearest(spans, times_ns)
        return self._by_segment(segment, times_ns, Segment.invert, np.int64)

    def bound_at_s(self, stamps_ns: IntArray, *, segment: IntArray | None = None) -> FloatArray:
        """Bound the error at these device times.

        Returns
        -------
        [shape=(n,), float64, s]
            Holds for symmetric paths; grows with the distance from the evidence; NaN without any.
        """
        number = self.locate(stamps_ns) if segment is None else segment
        return self._by_segment(number, stamps_ns, Segment.bound_at_s, np.float64)

    def is_extrapolated(self, stamps_ns: IntArray, *, segment: IntArray | None = None) -> BoolArray:
        """Tell which stamps lie outside the evidence, bool (n,)."""
        number = self.locate(stamps_ns) if segment is None else segment
        begins = np.array([segment.begin_ns for segment in self.segments])
        ends = np.array([segment.end_ns for segment in self.segments])
        outside = (stamps_ns < begins[number]) | (stamps_ns > ends[number])
        return np.asarray(outside | (self.n_fixes == 0))

    def to_json(self) -> dict[str, Any]:
        """Give the model as values that JSON can hold; `from_json` gives the same map."""
        names = ("method", "n_fixes", "n_rejected", "residual_rms_s", "residual_p50_s")
        names += ("residual_p99_s", "bound_s", "asymmetry_bound_s", "reach_ns")
        fields = {name: getattr(self, name) for name in names}
        return fields | {"segments": [_segment_to_json(segment) for segment in self.segments]}

    def _by_segment(self, number: IntArray, values: IntArray, call: Any, dtype: Any) -> Any:
        if len(self.segments) == 1:
            return call(self.segments[0], values)
        result = np.empty(values.shape, dtype=dtype)
        for index, segment in enumerate(self.segments):
            chosen = number == index
            result[chosen] = call(segment, values[chosen])
        return result


def _nearest(spans: Any, values_ns: IntArray) -> IntArray:
    distance = [np.maximum(np.maximum(b - values_ns, values_ns - e), 0) for b, e in spans]
    return np.argmin(np.stack(distance), axis=0)


def _first_after_jump(pair: tuple[Segment, Segment], stamps_ns: IntArray) -> int:
    """Find the first stamp of the second segment; len(stamps_ns) if there is none.

    Of all places that both maps allow, the one is chosen after which the mapped stamps depart
    least from an even spacing: sum |step - period| over all steps, where only the step over the
    jump differs between the places. A step of just the jump's size wins over a larger one.
    """
    before, after = pair
    low_ns = int(before.apply(np.array([before.end_ns]))[0])
    high_ns = int(after.apply(np.array([after.begin_ns]))[0])
    old, new = before.apply(stamps_ns), after.apply(stamps_ns)
    n_stamps = stamps_ns.size
    if n_stamps == 0 or not np.any(old <= high_ns):
        return 0
    step = np.diff(stamps_ns)
    period = int(np.median(step)) if step.size else 0
    bridged = np.abs(new[1:] - old[:-1] - period).astype(np.float64)
    plain = np.abs(step - period).astype(np.float64)
    jump = abs(float((after.source_ns[0] - before.source_ns[-1]) - (high_ns - low_ns)))
    cost = bridged - plain + 0.01 * (np.minimum(bridged, jump) - np.minimum(plain, jump))
    slack = abs(period)
    allowed = (old[:-1] <= high_ns + slack) & (new[1:] >= low_ns - slack)
    cost[~allowed] = np.inf
    inside = int(np.argmin(cost)) + 1 if cost.size else n_stamps
    if cost.size and cost[inside - 1] < 0:
        return inside
    return 0 if _share(after, stamps_ns) > _share(before, stamps_ns) else n_stamps


def _share(segment: Segment, stamps_ns: IntArray) -> float:
    return float(np.mean((stamps_ns >= segment.begin_ns) & (stamps_ns <= segment.end_ns)))


def _segment_to_json(segment: Segment) -> dict[str, Any]:
    columns = (segment.source_ns, segment.target_ns, segment.drift, segment.bound_s)
    knots = [list(row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    if math.isnan(knots[0][3]):
        knots = [[*row[:3], None] for row in knots]
    return {
        "begin_ns": segment.begin_ns,
        "end_ns": segment.end_ns,
        "n_fixes": segment.n_fixes,
        "drift_bound": list(segment.drift_bound),
        "walk_bound": segment.walk_bound,
        "knots": knots,
    }


def _segment_from_json(value: dict[str, Any]) -> Segment:
    source, target, drift, bound = zip(*value["knots"], strict=True)
    begin, end = value["drift_bound"]
    return Segment(
        begin_ns=value["begin_ns"],
        end_ns=value["end_ns"],
        source_ns=np.array(source, dtype=np.int64),
        target_ns=np.array(target, dtype=np.int64),
        drift=np.array(drift, dtype=np.float64),
        bound_s=np.array(bound, dtype=np.float64),
        drift_bound=(begin, end),
        walk_bound=value["walk_bound"],
        n_fixes=value["n_fixes"],
    )


def from_json(value: dict[str, Any]) -> ClockModel:
    """Read what `ClockModel.to_json` gave."""
    segments = tuple(_segment_from_json(segment) for segment in value["segments"])
    fields = {name: item for name, item in value.items() if name != "segments"}
    return ClockModel(segments, **fields)


def identity() -> ClockModel:
    """Give the model of a clock about which nothing is known: time stays, bound None."""
    zero, nothing = np.zeros(1, dtype=np.int64), np.zeros(1)
    segment = Segment(0, 0, zero, zero.copy(), nothing, np.full(1, np.nan))
    return ClockModel((segment,), "none")


def shifted(model: ClockModel, offset_ns: int) -> ClockModel:
    """Move the session side of a model by a constant."""
    segments = tuple(replace(s, target_ns=s.target_ns + offset_ns) for s in model.segments)
    return replace(model, segments=segments)


def check_covers(model: ClockModel, stamps_ns: IntArray, where: str) -> None:
    """Refuse a clock log that shares no time with the stream it is meant for.

    Raises
    ------
    ClockError
        No stamp lies within the evidence, or within one gap between fixes of it.
    """
    if model.n_fixes == 0 or stamps_ns.size == 0:
        return
    for segment in model.segments:
        begin, end = segment.begin_ns - model.reach_ns, segment.end_ns + model.reach_ns
        if np.any((stamps_ns >= begin) & (stamps_ns <= end)):
            return
    raise ClockError(
        f"the clock log runs from {_span(model.segments[0].begin_ns, model.segments[-1].end_ns)},"
        f" the stamps from {_span(stamps_ns.min(), stamps_ns.max())}: a clock log of another clock",
        where=where,
        hint="give the clock log that was taken with this stream",
    )


def _span(begin_ns: int, end_ns: int) -> str:
    return f"{int(begin_ns) / NS_PER_S:.3f} to {int(end_ns) / NS_PER_S:.3f} s"


# --- from evidence to points ----------------------------------------------------------------------


class _Points(NamedTuple):
    """Fixes in the order of session time, with what is expected of their errors.

    `sigma_s` is the standard deviation, `radius_s` an error that surprises nobody; both (n,).
    """

    source_ns: IntArray
    target_ns: IntArray
    sigma_s: FloatArray
    radius_s: FloatArray

    def at(self, chosen: Any) -> _Points:
        return _Points(*(column[chosen] for column in self))


def fit(
    evidence: Evidence, *, stamps_ns: IntArray | None = None, where: str | None = None
) -> ClockModel:
    """Fit the model that a clock log asks for.

    Parameters
    ----------
    evidence : Exchanges, Fixes or FrameLog
        What a log says.
    stamps_ns : [shape=(n_frames,), int64, ns], optional
        The stream's own frame stamps in order of rank; needed for a frame log.
    where : str, optional
        Named in errors.

    Raises
    ------
    ClockError
        The evidence cannot be used.
    """
    try:
        if isinstance(evidence, Exchanges):
            return fit_exchanges(evidence.t1_ns, evidence.t2_ns, evidence.t3_ns, evidence.t4_ns)
        if isinstance(evidence, FrameLog):
            return replace(_fit_frames(evidence, stamps_ns), method="frames")
        return fit_fixes(evidence.device_ns, evidence.reference_ns)
    except ClockError as error:
        raise ClockError(error.what, where=where, hint=error.hint) from error


def _fit_frames(log: FrameLog, stamps_ns: IntArray | None) -> ClockModel:
    if stamps_ns is None:
        raise ClockError("a frame log needs the stamps of the frames it numbers")
    pairs = frame_fixes(log, stamps_ns)
    return fit_fixes(pairs.device_ns, pairs.reference_ns)


def frame_fixes(log: FrameLog, stamps_ns: IntArray) -> Fixes:
    """Pair the logged times of frames with the stamps that the stream has for them.

    Raises
    ------
    ClockError
        The log numbers a frame that the stream doesn't have.
    """
    if log.frame.size and (log.frame.min() < 0 or log.frame.max() >= stamps_ns.size):
        raise ClockError(
            f"the frame log names frames {log.frame.min()} to {log.frame.max()},"
            f" the stream has {stamps_ns.size}",
            hint="frames count from 0 in the order of presentation",
        )
    return Fixes(stamps_ns[log.frame], log.time_ns)


def fit_exchanges(
    t1_ns: IntArray, t2_ns: IntArray, t3_ns: IntArray, t4_ns: IntArray
) -> ClockModel:
    """Fit device time to master time from two-way exchanges.

    Parameters
    ----------
    t1_ns, t4_ns : [shape=(n,), int64, ns, master]
        The master sends, the master receives.
    t2_ns, t3_ns : [shape=(n,), int64, ns, device]
        The device receives, the device sends.

    Returns
    -------
    ClockModel
        offset = ((t2 - t1) + (t3 - t4)) / 2, delay = (t4 - t1) - (t3 - t2), smoothed.

    Raises
    ------
    ClockError
        Fewer than two usable exchanges, all at one instant, no positive round trip, or clocks
        without relation.
    """
    delay_ns = (t4_ns - t1_ns) - (t3_ns - t2_ns)
    if delay_ns.size and delay_ns.max() <= 0:
        raise ClockError(
            "no exchange has a positive round trip (t4 - t1) - (t3 - t2)",
            hint="t1 and t4 are read on the master, t2 and t3 on the device",
        )
    possible = delay_ns > _impossible_ns(delay_ns)
    source_ns, target_ns = t2_ns + (t3_ns - t2_ns) // 2, t1_ns + (t4_ns - t1_ns) // 2
    resolution_s = _resolution_s(t1_ns, t2_ns, t3_ns, t4_ns)
    sigma_s, radius_s = _errors_of_delays(_seconds(delay_ns[possible]), resolution_s)
    points = _Points(source_ns[possible], target_ns[possible], sigma_s, radius_s)
    least_s = float(delay_ns[possible].min()) / NS_PER_S / 2 if possible.any() else None
    model = _fit(points, "exchanges", is_law=True)
    n_rejected = model.n_rejected + int(np.sum(~possible))
    return replace(model, n_rejected=n_rejected, asymmetry_bound_s=least_s)


def _impossible_ns(delay_ns: IntArray) -> float:
    """Give the round trip below which a lone exchange is broken rather than lucky."""
    if delay_ns.size == 0:
        return 0.0
    low, middle = np.quantile(delay_ns[delay_ns > 0], [0.1, 0.5])
    return max(0.0, float(middle - max(5 * (middle - low), 0.5 * middle)))


def _errors_of_delays(delay_s: FloatArray, resolution_s: float) -> tuple[FloatArray, FloatArray]:
    """Say how wrong exchanges with these round trips are.

    The excess is counted from the least delay seen, itself in excess by about
    1.25 / sqrt(n) of the mean one-way jitter (two exponential delays: median excess 1.68 means).
    With few exchanges even the least delay may be a long one.
    """
    if delay_s.size == 0:
        return delay_s, delay_s
    excess_s = delay_s - delay_s.min()
    floor_s = 1.6 * float(np.median(excess_s)) / 1.68 / math.sqrt(delay_s.size)
    floor_s += float(delay_s.min()) / delay_s.size**2
    variance = (excess_s + floor_s) ** 2 / 12 + resolution_s**2 / 6
    return np.sqrt(variance), (excess_s + floor_s) / 2 + resolution_s


def _resolution_s(*columns_ns: IntArray) -> float:
    """Give the greatest common step of stamps."""
    steps = [np.gcd.reduce(column - column[:1]) for column in columns_ns if column.size]
    return max(int(np.gcd.reduce(steps)), 1) / NS_PER_S if steps else 0.0


def fit_fixes(device_ns: IntArray, reference_ns: IntArray) -> ClockModel:
    """Fit device time to reference time from instants read on both clocks.

    Parameters
    ----------
    device_ns, reference_ns : [shape=(n,), int64, ns]
        The same instants on both clocks. Their error is judged from their own scatter, so
        `bound_s` is None below five fixes.

    Raises
    ------
    ClockError
        Fewer than two usable fixes, all at one instant, or clocks without relation.
    """
    order = np.argsort(reference_ns, kind="stable")
    source_ns, target_ns = device_ns[order], reference_ns[order]
    sigma_s = _scatter_s(source_ns, target_ns) + _resolution_s(device_ns, reference_ns) / 3
    sigma = np.full(source_ns.size, max(sigma_s, 1e-9))
    model = _fit(_Points(source_ns, target_ns, sigma, 6 * sigma), "fixes", is_law=False)
    return model if model.n_fixes >= MIN_FOR_SCATTER else _without_bound(model)


def _without_bound(model: ClockModel) -> ClockModel:
    segments = tuple(replace(s, bound_s=np.full(s.bound_s.size, np.nan)) for s in model.segments)
    return replace(model, segments=segments, bound_s=None)


def _scatter_s(source_ns: IntArray, target_ns: IntArray) -> float:
    """Estimate the error of fixes from each one's distance to the line of its neighbours.

    The lower quartile, so that up to half of these distances may be spoilt by outliers.
    """
    if source_ns.size < 3:
        return 0.0
    time_s, offset_s = _seconds(target_ns - target_ns[0]), _offsets_s(source_ns, target_ns)
    width_s = np.maximum(time_s[2:] - time_s[:-2], 1e-9)
    part = (time_s[1:-1] - time_s[:-2]) / width_s
    miss_s = offset_s[1:-1] - (1 - part) * offset_s[:-2] - part * offset_s[2:]
    spread = np.sqrt(1 + part**2 + (1 - part) ** 2)
    return float(np.quantile(np.abs(miss_s) / spread, 0.25) / 0.3186)


def _seconds(difference_ns: Any) -> FloatArray:
    return np.asarray(difference_ns, dtype=np.float64) / NS_PER_S


def _offsets_s(source_ns: IntArray, target_ns: IntArray) -> FloatArray:
    """Give target - source, less that of the first fix."""
    offset_ns = target_ns - source_ns
    return _seconds(offset_ns - offset_ns[0])


# --- jumps ----------------------------------------------------------------------------------------


def _segment_numbers(points: _Points) -> IntArray:
    """Number the segment of each fix; -1 marks outliers.

    Returns
    -------
    [shape=(n,), int64]
    """
    good = _is_plain(points)
    while True:
        number = np.full(good.size, -1)
        number[good] = np.cumsum(_jumps(points.at(good)))
        sizes = np.bincount(number[good])
        if sizes.size == 1 or sizes.min() >= MIN_FIXES:
            return number
        # The smallest first: what it cut apart may belong together without it.
        good &= number != int(np.argmin(sizes))


def _is_plain(points: _Points) -> BoolArray:
    """Tell fixes near the median of their neighbours, and of usual delay, from outliers."""
    slope = _slope(points)
    offset_s = _offsets_s(points.source_ns, points.target_ns)
    offset_s = offset_s - slope * _seconds(points.target_ns - points.target_ns[0])
    plain = points.radius_s <= 10 * np.median(points.radius_s)
    if offset_s.size < 7:
        return plain
    around = np.lib.stride_tricks.sliding_window_view(np.pad(offset_s, 3, mode="reflect"), 7)
    radius_s = points.radius_s + np.median(points.radius_s) + JUMP_S / 2
    return plain & (np.abs(offset_s - np.median(around, axis=1)) <= radius_s)


def _jumps(points: _Points) -> BoolArray:
    """Tell which fixes can't be reached from the one before without a jump."""
    step_s = _seconds(np.diff(points.target_ns))
    change_s = _seconds(np.diff(points.target_ns - points.source_ns)) - _slope(points) * step_s
    slack_s = points.radius_s[1:] + points.radius_s[:-1] + JUMP_S + WANDER * step_s
    return np.concatenate(([False], np.abs(change_s) > slack_s))


def _slope(points: _Points) -> float:
    """Give the median drift between neighbouring fixes, which jumps and outliers don't move."""
    step_s = _seconds(np.diff(points.target_ns))
    change_s = _seconds(np.diff(points.target_ns - points.source_ns))
    moved = step_s > 0
    return float(np.median(change_s[moved] / step_s[moved])) if moved.any() else 0.0


# --- the smoother ---------------------------------------------------------------------------------


class _Series(NamedTuple):
    """Offsets to be smoothed: lists of floats, for a loop of scalars is the fastest here.

    step_s[k] leads from k - 1 to k; keep[k] is 0.0 where a jump lies between, else 1.0; loose[k]
    multiplies the walk of the drift there.
    """

    step_s: list[float]
    keep: list[float]
    loose: list[float]
    offset_s: list[float]


class _Smooth(NamedTuple):
    """Smoothed states and their covariance, float64 (n,)."""

    offset_s: FloatArray
    drift: FloatArray
    offset_var: FloatArray
    drift_var: FloatArray


def _predict(state: Any, step_s: float, keep: float, walk: float) -> Any:
    """Carry (offset, drift, p00, p01, p11) over a step, or over a jump where keep is 0."""
    offset, drift, p00, p01, p11 = state
    if keep == 0.0:
        return 0.0, drift, OFFSET_PRIOR_S2, 0.0, p11 + DRIFT_RESET**2 + walk * step_s
    noise = walk * step_s
    return (
        offset + step_s * drift,
        drift,
        p00 + step_s * (2 * p01 + step_s * p11) + noise * step_s * step_s / 3,
        p01 + step_s * p11 + noise * step_s / 2,
        p11 + noise,
    )


def _filter(series: _Series, weight: list[float], walk: float) -> tuple[list[Any], float]:
    """Run the Kalman filter; give the filtered states and the log-likelihood.

    Weights are 1 / variance; 0 is a time without a fix.
    """
    state: Any = (0.0, 0.0, OFFSET_PRIOR_S2, 0.0, DRIFT_PRIOR**2)
    states, likelihood = [], 0.0
    for step_s, keep, loose, seen, w in zip(*series, weight, strict=True):
        state = _predict(state, step_s, keep, walk * loose) if states else state
        offset, drift, p00, p01, p11 = state
        miss, share = seen - offset, 1 / (1 + p00 * w)
        state = (
            offset + p00 * w * share * miss,
            drift + p01 * w * share * miss,
            p00 * share,
            p01 * share,
            p11 - p01 * p01 * w * share,
        )
        states.append(state)
        likelihood += math.log(share) - miss * miss * w * share
    return states, likelihood / 2


def _smooth(series: _Series, weight: list[float], walk: float) -> _Smooth:
    """Run the filter forth and the Rauch-Tung-Striebel pass back."""
    states, _ = _filter(series, weight, walk)
    later = states[-1]
    smooth = [later]
    for k in range(len(states) - 2, -1, -1):
        step_s, keep = series.step_s[k + 1], series.keep[k + 1]
        later = _back(states[k], later, step_s, keep, walk * series.loose[k + 1])
        smooth.append(later)
    offset, drift, p00, _, p11 = np.array(smooth[::-1]).T
    return _Smooth(offset, drift, np.maximum(p00, 0), np.maximum(p11, 0))


def _back(state: Any, later: Any, step_s: float, keep: float, walk: float) -> Any:
    """Correct a filtered state by the smoothed one after it: x + G (x' - F x), G = P F' / P'."""
    offset, drift, p00, p01, p11 = state
    ahead = _predict(state, step_s, keep, walk)
    q00, q01, q11 = ahead[2:]
    c00, c10 = keep * (p00 + step_s * p01), keep * (p01 + step_s * p11)
    det = q00 * q11 - q01 * q01
    g00, g01 = (c00 * q11 - p01 * q01) / det, (p01 * q00 - c00 * q01) / det
    g10, g11 = (c10 * q11 - p11 * q01) / det, (p11 * q00 - c10 * q01) / det
    e0, e1 = later[0] - ahead[0], later[1] - ahead[1]
    d00, d01, d11 = later[2] - q00, later[3] - q01, later[4] - q11
    h00, h01 = g00 * d00 + g01 * d01, g00 * d01 + g01 * d11
    h10, h11 = g10 * d00 + g11 * d01, g10 * d01 + g11 * d11
    return (
        offset + g00 * e0 + g01 * e1,
        drift + g10 * e0 + g11 * e1,
        p00 + h00 * g00 + h01 * g01,
        p01 + h00 * g10 + h01 * g11,
        p11 + h10 * g10 + h11 * g11,
    )


def _likely_walk(series: _Series, weight: list[float]) -> float:
    """Choose the walk of the drift under which the fixes are most likely; a steady one if in doubt.

    The steadier of two walks is preferred by `STEADIER` in log-likelihood a decade, because
    a short log of a steady clock says next to nothing about how small the walk is.
    """

    def score(walk: float) -> float:
        return _filter(series, weight, walk)[1] - STEADIER * math.log10(walk)

    best = max(WALKS, key=score)
    near = [max(best * 10.0**power, WALKS[0]) for power in (-0.5, -0.25, 0.0, 0.25, 0.5)]
    return max(near, key=score)


# --- from points to a model -----------------------------------------------------------------------


def _fit(points: _Points, method: str, *, is_law: bool) -> ClockModel:
    """Split, smooth and assemble.

    `is_law` says that the expected errors follow from round trips; the scatter may then widen
    them, never narrow them.
    """
    points = points.at(np.argsort(points.target_ns, kind="stable"))
    _check_usable(points)
    number = _segment_numbers(points)
    _check_related(points, number)
    order = np.lexsort((points.source_ns, number))[int(np.sum(number < 0)) :]
    points, number = points.at(order), number[order]
    rows = _rows(points, number)
    segments = _segments(rows, _robust(rows, is_law=is_law), points, number)
    return _model(segments, points, number, method)


def _check_usable(points: _Points) -> None:
    if points.source_ns.size < 2:
        raise ClockError(
            f"{points.source_ns.size} usable fixes, at least 2 are needed",
            hint="a clock log names instants all along the recording",
        )
    if np.ptp(points.source_ns) == 0 or np.ptp(points.target_ns) == 0:
        raise ClockError("all fixes are at one instant, so the rate of the clock is unknown")


def _check_related(points: _Points, number: IntArray) -> None:
    slope = _slope(points.at(number >= 0))
    if abs(slope) > MAX_DRIFT:
        raise ClockError(
            f"the offset of the clocks changes by {slope:.3g} s a second, at most {MAX_DRIFT} is"
            " believed of two clocks",
            hint="check the units and the order of the columns",
        )
    n_segments, n_used = int(number.max()) + 1, int(np.sum(number >= 0))
    if 2 * n_used < number.size or (n_segments > 1 and n_used < 2 * MIN_FIXES * n_segments):
        raise ClockError(
            f"{n_used} of {number.size} fixes agree with their neighbours, in {n_segments} pieces:"
            " the two clocks have no relation",
            hint="check that the log belongs to this device and this session",
        )


class _Rows(NamedTuple):
    """What is smoothed: the fixes of all segments in order, and times without fix in long gaps.

    Each segment has its anchor pair; `offset_s` is what its fixes depart from the line through
    the anchor, (target - source) - anchor offset - line * (source - anchor), and `weight` is 0
    where there is no fix.
    """

    number: IntArray
    since_s: FloatArray
    offset_s: FloatArray
    weight: FloatArray
    anchors: list[tuple[int, int]]
    line: float
    pauses_s: FloatArray

    def series(self, loose: FloatArray) -> _Series:
        step_s = np.diff(self.since_s, prepend=self.since_s[0])
        starts = np.flatnonzero(np.diff(self.number, prepend=self.number[0]))
        keep = np.ones(step_s.size)
        step_s[starts], keep[starts] = self.pauses_s, 0.0
        return _Series(step_s.tolist(), keep.tolist(), loose.tolist(), self.offset_s.tolist())


def _rows(points: _Points, number: IntArray) -> _Rows:
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    ends = np.append(starts[1:], number.size) - 1
    anchor_ns = points.source_ns[starts]
    offset_ns = points.target_ns[starts] - anchor_ns
    since_s = _seconds(points.source_ns - anchor_ns[number])
    offset_s = _seconds(points.target_ns - points.source_ns - offset_ns[number])
    weight = 1 / points.sigma_s**2
    line = _common_slope(number, since_s, offset_s, weight)
    columns = _averaged(number, since_s, offset_s - line * since_s, weight)
    pauses_s = _seconds(points.target_ns[starts[1:]] - points.target_ns[ends[:-1]])
    anchors = list(zip(anchor_ns.tolist(), offset_ns.tolist(), strict=True))
    return _Rows(*_with_gap_times(*columns), anchors, line, pauses_s)


def _common_slope(
    number: IntArray, since_s: FloatArray, offset_s: FloatArray, weight: FloatArray
) -> float:
    """Fit lines of one slope to all segments by weighted least squares."""
    total = np.bincount(number, weight)
    since_s = since_s - (np.bincount(number, weight * since_s) / total)[number]
    spread = float(np.sum(weight * since_s**2))
    return float(np.sum(weight * since_s * offset_s)) / spread if spread > 0 else 0.0


def _averaged(
    number: IntArray, since_s: FloatArray, offset_s: FloatArray, weight: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
    """Average runs of neighbours where there are more fixes than need be smoothed singly."""
    run = math.ceil(number.size / MAX_SMOOTHED)
    if run == 1:
        return number, since_s, offset_s, weight
    within = np.arange(number.size) - np.searchsorted(number, number)
    starts = np.flatnonzero(within % run == 0)
    total = np.add.reduceat(weight, starts)
    mean_since_s = np.add.reduceat(weight * since_s, starts) / total
    return number[starts], mean_since_s, np.add.reduceat(weight * offset_s, starts) / total, total


def _with_gap_times(
    number: IntArray, since_s: FloatArray, offset_s: FloatArray, weight: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
    """Put times without a fix into long gaps, so that the curve and its bound have knots there."""
    step_s = np.diff(since_s)
    same = np.diff(number) == 0
    gaps = np.flatnonzero(same & (step_s > 4 * np.median(step_s[same])))
    part = np.arange(1, 8) / 8
    at = np.repeat(gaps + 1, part.size)
    extra_s = (since_s[gaps, None] + part * step_s[gaps, None]).ravel()
    return (
        np.insert(number, at, number[at]),
        np.insert(since_s, at, extra_s),
        np.insert(offset_s, at, 0.0),
        np.insert(weight, at, 0.0),
    )


class _Curve(NamedTuple):
    """The smoothed rows and the walk of the drift."""

    smooth: _Smooth
    walk: float


def _robust(rows: _Rows, *, is_law: bool) -> _Curve:
    """Smooth with the likeliest walk, fitting to what is seen in turn errors and walk.

    The errors of all are widened to the scatter about the curve, and of outliers more. Where the
    drift changed by more than the walk explains, as when a device warms up, it may walk faster.
    """
    loose, scale = np.ones(rows.number.size), 1.0
    weight = rows.weight
    for _ in range(ROUNDS):
        series = rows.series(loose)
        walk = _likely_walk(series, weight.tolist())
        smooth = _smooth(series, weight.tolist(), walk)
        miss = _standard_misses(rows, weight, smooth)
        seen = miss[rows.weight > 0]
        scale *= math.sqrt(float(np.mean(np.minimum(seen, 3.0) ** 2)))
        scale = max(scale, 1.0 if is_law else 1e-3)
        weight = rows.weight / scale**2 * np.minimum(1.0, (3.0 / np.maximum(miss, 1e-9)) ** 2)
        loose = loose * np.where(_swings(series, weight, smooth, walk) > SWING, 10.0, 1.0)
    return _Curve(smooth, walk)


def _swings(series: _Series, weight: FloatArray, smooth: _Smooth, walk: float) -> FloatArray:
    """Give the change of the drift around each row in standard deviations of the walk, (n,).

    Around means the smoother's own time constant, (1 / (weight a second * walk)) ** (1/4), to each
    side: a sudden change is spread over it.
    """
    step_s, keep, loose = (np.array(column) for column in series[:3])
    time_s = np.cumsum(step_s)
    rate = float(np.sum(weight)) / max(time_s[-1], 1e-9)
    side_s = (1 / (rate * walk)) ** 0.25
    begin = np.searchsorted(time_s, time_s - side_s)
    end = np.searchsorted(time_s, time_s + side_s, side="right") - 1
    spread = np.cumsum(walk * loose * step_s + DRIFT_RESET**2 * (1 - keep))
    expected = np.sqrt(np.maximum(spread[end] - spread[begin], 1e-300))
    return np.asarray(np.abs(smooth.drift[end] - smooth.drift[begin]) / expected)


def _standard_misses(rows: _Rows, weight: FloatArray, smooth: _Smooth) -> FloatArray:
    """Give the distances from the curve in their own standard deviations, at least (n,)."""
    pull = np.minimum(weight * smooth.offset_var, 0.9)
    return np.asarray(np.abs(rows.offset_s - smooth.offset_s) * np.sqrt(weight / (1 - pull)))


def _segments(
    rows: _Rows, curve: _Curve, points: _Points, number: IntArray
) -> tuple[Segment, ...]:
    most = max(MAX_KNOTS // len(rows.anchors), 2)
    result = []
    for index in range(len(rows.anchors)):
        chosen = np.flatnonzero(rows.number == index)
        used = points.at(number == index)
        result.append(_segment(rows, curve, used, chosen, most))
    return tuple(result)


def _segment(
    rows: _Rows, curve: _Curve, used: _Points, chosen: IntArray, most: int
) -> Segment:
    anchor_ns, offset_ns = rows.anchors[int(rows.number[chosen[0]])]
    since_ns = np.rint(rows.since_s[chosen] * NS_PER_S).astype(np.int64)
    _, single = np.unique(since_ns, return_index=True)
    chosen, since_ns = chosen[single], since_ns[single]
    offset_s = curve.smooth.offset_s[chosen] + rows.line * rows.since_s[chosen]
    drift = curve.smooth.drift[chosen] + rows.line
    bound_s = BOUND_SIGMAS * np.sqrt(curve.smooth.offset_var[chosen])
    drift_bound = BOUND_SIGMAS * np.sqrt(curve.smooth.drift_var[chosen])
    knots = _knots(_seconds(since_ns), offset_s, drift, most)
    offset_ns = offset_ns + np.rint(offset_s[knots] * NS_PER_S).astype(np.int64)
    source_ns = anchor_ns + since_ns[knots]
    return Segment(
        begin_ns=int(used.source_ns[0]),
        end_ns=int(used.source_ns[-1]),
        source_ns=source_ns,
        target_ns=source_ns + offset_ns,
        drift=drift[knots],
        bound_s=_largest_around(bound_s, knots),
        drift_bound=(float(drift_bound[0]), float(drift_bound[-1])),
        walk_bound=BOUND_SIGMAS * math.sqrt(curve.walk / 3),
        n_fixes=int(used.source_ns.size),
    )


def _knots(since_s: FloatArray, offset_s: FloatArray, drift: FloatArray, most: int) -> IntArray:
    """Choose as few evenly spread points as keep the curve within the tolerance, or `most`."""
    last = since_s.size - 1
    count = FEW_KNOTS
    while True:
        knots = np.unique(np.rint(np.linspace(0, last, min(count, most))).astype(np.int64))
        if knots.size in (last + 1, most):
            return knots
        error_s = _hermite(since_s[knots], offset_s[knots], drift[knots], since_s) - offset_s
        if np.max(np.abs(error_s)) <= KNOT_TOLERANCE_S:
            return knots
        count *= 2


def _hermite(
    knots_s: FloatArray, offset_s: FloatArray, drift: FloatArray, at_s: FloatArray
) -> FloatArray:
    knot = np.clip(np.searchsorted(knots_s, at_s, side="right") - 1, 0, knots_s.size - 2)
    width_s = np.diff(knots_s)[knot]
    part = (at_s - knots_s[knot]) / width_s
    rest = 1 - part
    cubic = part * part * (3 - 2 * part) * np.diff(offset_s)[knot]
    cubic += width_s * part * rest * (rest * drift[knot] - part * drift[knot + 1])
    return np.asarray(offset_s[knot] + cubic)


def _largest_around(bound_s: FloatArray, knots: IntArray) -> FloatArray:
    """Give each knot the largest bound up to its neighbours, so that thinning hides none."""
    between = np.maximum.reduceat(bound_s, knots)
    return np.maximum(between, np.concatenate((between[:1], between[:-1])))


def _model(
    segments: tuple[Segment, ...], points: _Points, number: IntArray, method: str
) -> ClockModel:
    draft = ClockModel(segments, method)
    miss_ns = points.target_ns - draft.apply(points.source_ns, segment=number)
    miss_s = np.abs(_seconds(miss_ns))
    return replace(
        draft,
        n_fixes=miss_s.size,
        residual_rms_s=float(np.sqrt(np.mean(miss_s**2))),
        residual_p50_s=float(np.quantile(miss_s, 0.5)),
        residual_p99_s=float(np.quantile(miss_s, 0.99)),
        bound_s=float(max(segment.bound_s.max() for segment in segments)),
        reach_ns=int(np.max(np.diff(np.sort(points.target_ns)))),
    )
