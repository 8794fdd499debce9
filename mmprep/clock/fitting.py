"""From evidence to a model: exchanges, fixes or the times of frames."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from mmprep.clock.curve import Curve, Rows, robust_curve, rows_of
from mmprep.clock.model import BOUND_SIGMAS, ClockModel
from mmprep.clock.points import (
    Points,
    check_related,
    check_usable,
    offsets_s,
    seconds,
    segment_numbers,
)
from mmprep.clock.segment import Segment
from mmprep.errors import ClockError
from mmprep.timebase import (
    NS_PER_S,
    Evidence,
    Exchanges,
    Fixes,
    FloatArray,
    FrameLog,
    IntArray,
)

MAX_KNOTS = 1000  # a model
FEW_KNOTS = 33  # a segment, if it has so many fixes: the bound differs along it
KNOT_TOLERANCE_S = 20e-9  # what thinning the knots may change
STALE_S = 2e-9  # nearer to the neighbours' line than rounding leaves a measured fix
TICKS_HZ = (1, 10, 100, 1000, 1024, 10**4, 32768, 10**5, 10**6, 10**7)  # that clocks are read in
REGULAR, EVEN = 0.98, 0.995  # shares of stamps that fit a tick, of equal steps; others are broken
PLANNED = 50  # ticks between stamps: fewer are planned
MIN_FOR_SCATTER = 5  # fixes whose scatter says how good they are


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


def fit_exchanges(t1_ns: IntArray, t2_ns: IntArray, t3_ns: IntArray, t4_ns: IntArray) -> ClockModel:
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
    delay_s = seconds(delay_ns[possible])
    resolution_s = _tick_s(t1_ns, t2_ns, t3_ns, t4_ns)
    errors = _errors_of_delays(delay_s, resolution_s)
    points = Points(source_ns[possible], target_ns[possible], *errors)
    model = _fit(points, "exchanges", resolution_s / 2)
    n_rejected = model.n_rejected + int(np.sum(~possible))
    return replace(model, n_rejected=n_rejected, asymmetry_bound_s=float(delay_s.min()) / 2)


def _impossible_ns(delay_ns: IntArray) -> float:
    """Give the round trip below which a lone exchange is broken rather than lucky."""
    if delay_ns.size == 0:
        return 0.0
    low, middle = np.quantile(delay_ns[delay_ns > 0], [0.1, 0.5])
    return max(0.0, float(middle - max(5 * (middle - low), 0.5 * middle)))


def _errors_of_delays(
    delay_s: FloatArray, resolution_s: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Give sigma_s, radius_s and excess_s of exchanges with these round trips.

    The excess is counted from the least delay seen, itself in excess by some 1.25 / sqrt(n) of
    the mean one-way jitter (two exponential delays: median excess 1.68 means); 2 to be safe.
    With few exchanges even the least delay may be a long one.
    """
    if delay_s.size == 0:
        return delay_s, delay_s, delay_s
    excess_s = delay_s - delay_s.min()
    floor_s = 2.0 * float(np.median(excess_s)) / 1.68 / math.sqrt(delay_s.size)
    floor_s += float(delay_s.min()) / delay_s.size**2
    variance = (excess_s + floor_s) ** 2 / 12 + resolution_s**2 / 6
    return np.sqrt(variance), (excess_s + floor_s) / 2 + resolution_s, excess_s


def _tick_s(*columns_ns: IntArray) -> float:
    """Give the longest tick that a clock was read in, by its columns; 1 ns where nothing tells."""
    return max((_tick_of(column) for column in columns_ns), default=1) / NS_PER_S


def _tick_of(stamps_ns: IntArray) -> float:
    """Give the longest tick, ns, that nearly all stamps are whole numbers of apart.

    Their differences say so, whatever moment they count from. Instants that were planned, evenly
    or at round times, say nothing of the tick.
    """
    step_ns = np.diff(stamps_ns)
    usual_ns = float(np.median(step_ns)) if step_ns.size else 0.0
    if step_ns.size == 0 or np.mean(step_ns == usual_ns) > EVEN:
        return 1.0
    part_ns = (stamps_ns - stamps_ns[stamps_ns.size // 2]) % NS_PER_S
    for rate_hz in TICKS_HZ:
        off = part_ns * rate_hz % NS_PER_S
        if np.mean(np.minimum(off, NS_PER_S - off) <= rate_hz) >= REGULAR:  # rounded to 1 ns
            tick_ns = NS_PER_S / rate_hz
            return tick_ns if PLANNED * tick_ns < usual_ns else 1.0
    return 1.0


def fit_fixes(
    device_ns: IntArray, reference_ns: IntArray, *, drift: float | None = None
) -> ClockModel:
    """Fit device time to reference time from instants read on both clocks.

    Parameters
    ----------
    device_ns, reference_ns : [shape=(n,), int64, ns]
        The same instants on both clocks. Their error is judged from their own scatter, so
        `bound_s` is None below five fixes.
    drift : float, optional
        d(reference - device) / d(reference) about, by which jumps are told from drift; judged by
        neighbouring fixes if absent, which may be too close for that where they come in bursts.

    Raises
    ------
    ClockError
        Fewer than two usable fixes, all at one instant, or clocks without relation.
    """
    order = np.argsort(reference_ns, kind="stable")
    source_ns, target_ns = device_ns[order], reference_ns[order]
    distance_s = _distances_s(source_ns, target_ns)
    resolution_s = _tick_s(source_ns, target_ns)
    sigma_s = _scatter_s(distance_s) + resolution_s / 3
    sigma_s *= 1 + 4 / max(source_ns.size - 2, 1)  # few fixes may agree by chance
    sigma = np.full(source_ns.size, max(sigma_s, 1e-9))
    points = Points(source_ns, target_ns, sigma, 6 * sigma, np.zeros(sigma.size))
    model = _fit(points, "fixes", resolution_s, drift)
    return model if model.n_fixes >= MIN_FOR_SCATTER else _without_bound(model)


def _without_bound(model: ClockModel) -> ClockModel:
    segments = tuple(replace(s, bound_s=np.full(s.bound_s.size, np.nan)) for s in model.segments)
    return replace(model, segments=segments, bound_s=None)


def _distances_s(source_ns: IntArray, target_ns: IntArray) -> FloatArray:
    """Give each fix's distance to the line of its neighbours, in that of one fix, s, (n - 2,)."""
    if source_ns.size < 3:
        return np.zeros(0)
    time_s, offset_s = seconds(target_ns - target_ns[0]), offsets_s(source_ns, target_ns)
    width_s = np.maximum(time_s[2:] - time_s[:-2], 1e-9)
    part = (time_s[1:-1] - time_s[:-2]) / width_s
    miss_s = offset_s[1:-1] - (1 - part) * offset_s[:-2] - part * offset_s[2:]
    spread = np.sqrt(1 + part**2 + (1 - part) ** 2)
    return np.asarray(np.abs(miss_s) / spread, dtype=np.float64)


def _scatter_s(distance_s: FloatArray) -> float:
    """Estimate the error of fixes from their distances to the lines of their neighbours.

    The lower quartile, so that up to half of these distances may be spoilt by outliers. Fixes that
    repeat the offset before them were not measured anew (LSL goes on so when a host is gone), and
    say nothing about the error.
    """
    moved = distance_s > STALE_S
    if moved.size == 0 or np.mean(moved) < 0.1:  # exact fixes, but for a jump
        return 0.0
    return float(np.quantile(distance_s[moved], 0.25) / 0.3186)


def _fit(points: Points, method: str, cut_s: float, drift: float | None = None) -> ClockModel:
    """Split, smooth and assemble.

    Stamps that are read in ticks are off by up to `cut_s`, which averaging need not take out: by
    one tick if cut and not rounded; of exchanges both sides are cut, so half of it stays.
    """
    points = points.at(np.argsort(points.target_ns, kind="stable"))
    check_usable(points)
    number = segment_numbers(points, drift)
    check_related(points, number, drift)
    n_rejected = int(np.sum(number < 0))
    order = np.lexsort((points.source_ns, number))[n_rejected:]
    points, number = points.at(order), number[order]
    rows = rows_of(points, number)
    segments = tuple(
        replace(one, bound_s=one.bound_s + cut_s)
        for one in _segments(rows, robust_curve(rows), points, number)
    )
    return replace(_model(segments, points, number, method), n_rejected=n_rejected)


def _segments(rows: Rows, curve: Curve, points: Points, number: IntArray) -> tuple[Segment, ...]:
    most = max(MAX_KNOTS // len(rows.anchors), 2)
    result = []
    for index in range(len(rows.anchors)):
        chosen = np.flatnonzero(rows.number == index)
        used = points.at(number == index)
        result.append(_segment(rows, curve, used, chosen, most))
    return tuple(result)


def _segment(rows: Rows, curve: Curve, used: Points, chosen: IntArray, most: int) -> Segment:
    anchor_ns, offset_ns = rows.anchors[int(rows.number[chosen[0]])]
    since_ns = np.rint(rows.since_s[chosen] * NS_PER_S).astype(np.int64)
    _, single = np.unique(since_ns, return_index=True)
    chosen, since_ns = chosen[single], since_ns[single]
    offset_s = curve.smooth.offset_s[chosen] + rows.line * rows.since_s[chosen]
    drift = curve.smooth.drift[chosen] + rows.line
    bound_s = BOUND_SIGMAS * np.sqrt(curve.smooth.offset_var[chosen]) + 2 * KNOT_TOLERANCE_S
    drift_bound = BOUND_SIGMAS * np.sqrt(curve.smooth.drift_var[chosen])
    knots = _knots(seconds(since_ns), offset_s, drift, most)
    source_ns = anchor_ns + since_ns[knots]
    target_ns = source_ns + offset_ns + np.rint(offset_s[knots] * NS_PER_S).astype(np.int64)
    return Segment(
        begin_ns=int(used.source_ns[0]),
        end_ns=int(used.source_ns[-1]),
        source_ns=source_ns,
        target_ns=target_ns,
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
    return np.asarray(offset_s[knot] + cubic, dtype=np.float64)


def _largest_around(bound_s: FloatArray, knots: IntArray) -> FloatArray:
    """Give each knot the largest bound up to its neighbours, so that thinning hides none."""
    between = np.maximum.reduceat(bound_s, knots)
    return np.asarray(np.maximum(between, np.concatenate((between[:1], between[:-1]))), float)


def _model(
    segments: tuple[Segment, ...], points: Points, number: IntArray, method: str
) -> ClockModel:
    draft = ClockModel(segments, method)
    miss_ns = points.target_ns - draft.apply(points.source_ns, segment=number)
    miss_s = np.abs(seconds(miss_ns))
    return replace(
        draft,
        n_fixes=miss_s.size,
        residual_rms_s=float(np.sqrt(np.mean(miss_s**2))),
        residual_p50_s=float(np.quantile(miss_s, 0.5)),
        residual_p99_s=float(np.quantile(miss_s, 0.99)),
        bound_s=float(max(segment.bound_s.max() for segment in segments)),
        reach_ns=int(np.max(np.diff(np.sort(points.target_ns)))),
    )
