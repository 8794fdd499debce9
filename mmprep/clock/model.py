"""ClockModel: a map in segments, exactly invertible, with the bound of its error.

Rules
-----
- Segments stand in the order of session time. After a reset device time may repeat, so a stamp
  alone may belong to two of them; its position in the recording decides (`locate_in_order`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from mmprep.clock.jumps import Placed, place, target_span
from mmprep.clock.segment import Segment, segment_from_json, segment_to_json
from mmprep.errors import ClockError
from mmprep.timebase import NS_PER_S, BoolArray, FloatArray, IntArray, pieces

BOUND_SIGMAS = 3.5  # the bound in standard deviations of the smoothed offset

_N = TypeVar("_N", np.int64, np.float64)
_Call: TypeAlias = Callable[["Segment", IntArray], NDArray[_N]]


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
        return self.place_in_order(stamps_ns).segment

    def place_in_order(self, stamps_ns: IntArray) -> Placed:
        """Find the segments as `locate_in_order` does, and say which are sure.

        Returns
        -------
        Placed
            `segment` [shape=(n,), int64] and `is_sure` [shape=(n,), bool]. Near a jump that is
            hardly larger than the scatter of stamps, or that no fix tells from the next, some are
            not: how far their times are off nothing bounds.
        """
        return place(self.segments, stamps_ns)

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
        return self._by_segment(number, stamps_ns, Segment.apply)

    def apply_in_order(self, stamps_ns: IntArray) -> IntArray:
        """Map the stamps of a recording, which may step back where the device was reset."""
        return self.apply(stamps_ns, segment=self.locate_in_order(stamps_ns))

    def invert(self, times_ns: IntArray, *, segment: IntArray | None = None) -> IntArray:
        """Map session time to device time; agrees with `apply` to 1 ns."""
        if segment is None:
            segment = _nearest([target_span(part) for part in self.segments], times_ns)
        return self._by_segment(segment, times_ns, Segment.invert)

    def bound_at_s(self, stamps_ns: IntArray, *, segment: IntArray | None = None) -> FloatArray:
        """Bound the error at these device times.

        Returns
        -------
        [shape=(n,), float64, s]
            Holds for symmetric paths; grows with the distance from the evidence; NaN without any.
        """
        number = self.locate(stamps_ns) if segment is None else segment
        return self._by_segment(number, stamps_ns, Segment.bound_at_s)

    def doubt_at(
        self, stamps_ns: IntArray, *, segment: IntArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Say how wrong the map may be at these device times, and for how long at a time.

        Returns
        -------
        sigma_s : [shape=(n,), float64, s]
            The standard deviation of its error: a share of the bound.
        density : [shape=(n,), float64, s**3]
            The variance of its mean over T seconds is density / T, for a long T. Of a drift that
            walks at random the smoothed offset has the spectrum density / (1 + (w tau)**4), so
            sigma**2 = density / (2 sqrt(2) tau) and density = walk tau**4.
        """
        number = self.locate(stamps_ns) if segment is None else segment
        sigma_s = self.bound_at_s(stamps_ns, segment=number) / BOUND_SIGMAS
        walks = [3 * (part.walk_bound / BOUND_SIGMAS) ** 2 for part in self.segments]
        walk = np.maximum(np.array(walks)[number], 1e-30)
        tau_s = np.cbrt(2 * math.sqrt(2) * sigma_s**2 / walk)
        return sigma_s, np.asarray(2 * math.sqrt(2) * tau_s * sigma_s**2)

    def without_jumps(self, stamps_ns: IntArray, *, segment: IntArray) -> IntArray:
        """Give the device times as they would be had the device never been reset.

        Parameters
        ----------
        segment : [shape=(n,), int64]
            Which segment each stamp belongs to, as `locate_in_order` gives it.
        """
        if len(self.segments) == 1:
            return stamps_ns
        jumps_ns = [0]
        for before, after in pairwise(self.segments):
            ends_ns = target_span(before)[1], target_span(after)[0]
            middle_ns = np.array([sum(ends_ns) // 2])
            jumps_ns.append(int(after.invert(middle_ns)[0] - before.invert(middle_ns)[0]))
        return np.asarray(stamps_ns - np.cumsum(jumps_ns)[segment])

    def is_extrapolated(self, stamps_ns: IntArray, *, segment: IntArray | None = None) -> BoolArray:
        """Tell which stamps lie outside the evidence, bool (n,)."""
        number = self.locate(stamps_ns) if segment is None else segment
        begins = np.array([part.begin_ns for part in self.segments])
        ends = np.array([part.end_ns for part in self.segments])
        outside = (stamps_ns < begins[number]) | (stamps_ns > ends[number])
        return np.asarray(outside | (self.n_fixes == 0))

    def to_json(self) -> dict[str, Any]:
        """Give the model as values that JSON can hold; `from_json` gives the same map."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return fields | {"segments": [segment_to_json(segment) for segment in self.segments]}

    def _by_segment(self, number: IntArray, values_ns: IntArray, call: _Call[_N]) -> NDArray[_N]:
        result = np.empty(values_ns.shape, dtype=call(self.segments[0], values_ns[:0]).dtype)
        for part in pieces(values_ns.size):
            values, found = values_ns[part], result[part]
            if len(self.segments) == 1:
                found[:] = call(self.segments[0], values)
                continue
            for index in np.unique(number[part]).tolist():
                chosen = number[part] == index
                found[chosen] = call(self.segments[index], values[chosen])
        return result


def _nearest(spans: Sequence[tuple[int, int]], values_ns: IntArray) -> IntArray:
    number = np.zeros(values_ns.size, dtype=np.int64)
    for part in pieces(values_ns.size) if len(spans) > 1 else ():
        values = values_ns[part]
        distance = [np.maximum(np.maximum(b - values, values - e), 0) for b, e in spans]
        np.argmin(np.stack(distance), axis=0, out=number[part])
    return number


def from_json(value: dict[str, Any]) -> ClockModel:
    """Read what `ClockModel.to_json` gave."""
    segments = tuple(segment_from_json(segment) for segment in value["segments"])
    fields = {name: item for name, item in value.items() if name != "segments"}
    return ClockModel(segments, **fields)


def identity() -> ClockModel:
    """Give the model of a clock about which nothing is known: time stays, bound None."""
    zero, nothing = np.zeros(1, dtype=np.int64), np.zeros(1)
    segment = Segment(0, 0, zero, zero.copy(), nothing, np.full(1, np.nan))
    return ClockModel((segment,), "none")


def on_reference(times_ns: IntArray) -> ClockModel:
    """Give the model of a frame log that no other stamp of the frames bears out.

    Parameters
    ----------
    times_ns : [shape=(n,), int64, ns]
        The logged times, on the reference clock: they stay, and nothing bounds their error.
    """
    begin_ns, end_ns = int(times_ns.min()), int(times_ns.max())
    anchor = np.array([begin_ns])
    nothing, unknown = np.zeros(1), np.full(1, np.nan)
    segment = Segment(begin_ns, end_ns, anchor, anchor.copy(), nothing, unknown)
    return ClockModel((segment,), "frames", n_fixes=times_ns.size)


def offset_only(source_ns: int, target_ns: int) -> ClockModel:
    """Give the model of one fix: an offset, with a rate and an error that nothing tells."""
    anchor, target = np.array([source_ns]), np.array([target_ns])
    segment = Segment(source_ns, source_ns, anchor, target, np.zeros(1), np.full(1, np.nan))
    return ClockModel((replace(segment, n_fixes=1),), "fixes", n_fixes=1)


def shifted(model: ClockModel, offset_ns: int, *, source_ns: int = 0) -> ClockModel:
    """Move the session side of a model by a constant, and its device side by another."""
    segments = tuple(
        replace(
            s,
            begin_ns=s.begin_ns + source_ns,
            end_ns=s.end_ns + source_ns,
            source_ns=s.source_ns + source_ns,
            target_ns=s.target_ns + offset_ns,
        )
        for s in model.segments
    )
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
