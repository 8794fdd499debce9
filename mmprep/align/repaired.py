"""Repair the stamps of a stream: order, repeats, jitter, gaps.

Rules
-----
- `order` puts rows in order and names those that can't be kept; `dejitter` moves the stamps of a
  regular stream onto a line, where that is justified.
- A gap is an interval over 1.5 nominal periods; a run is what lies between two gaps. Where the
  measured rate of 16 rows or more is off the nominal one by a third, the measured period counts; an
  irregular stream without a nominal rate has a gap where an interval is over 10 median ones.
- Events are never moved and have no runs: they are sorted, and a repeat is the same stamp with
  the same value.
- Every row of the stream is kept, a repeat, or corrupt.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmprep.align import order
from mmprep.align.axis import Axis, KnotAxis, StampAxis
from mmprep.align.counting import MIN_ROWS
from mmprep.align.dejitter import Refusal, Smooth, dejitter
from mmprep.align.evenly import Doubt
from mmprep.errors import DataError
from mmprep.rows import Rows
from mmprep.signals import Stream
from mmprep.timebase import (
    NS_PER_S,
    BoolArray,
    FloatArray,
    IntArray,
    decimal_step,
    period_of,
    pieces,
    rounded_steps,
)

GAP_PERIODS = 1.5
IRREGULAR_GAP = 10.0
EDGE_SLACK_S = 1e-6
EDGE_SLACK_PERIODS = 0.02
MAX_MOVE_S = 1.0
_DISBELIEF = 1.5
_ALMOST_ALL = 0.9999
_MAD = 1.4826


@dataclass(frozen=True, slots=True)
class Histogram:
    """How long the intervals between stamps are, before the repair.

    Parameters
    ----------
    edges_s : [shape=(n_bins + 1,), float64, s]
        The last bin also counts what is longer; steps back count as the first.
    counts : [shape=(n_bins,), int64]
    """

    edges_s: FloatArray
    counts: IntArray


@dataclass(frozen=True, slots=True)
class Repairs:
    """What was done to the stamps of a stream.

    Parameters
    ----------
    is_dejittered : bool
    reason : str
        Why not; empty if dejittered.
    estimate : str
        `mean`, `envelope`, `cut` or `none`.
    moved_p99_s, moved_max_s : float
        How far stamps moved, of all kept rows.
    jitter_s : float, optional
        Of stamps that stay as they came: what they may be off by, as they vary from sample to
        sample; None where that doesn't tell. 0 where `sigma_s` tells, or samples lie evenly.
    n_shifted, n_late, n_lost : int
        Rows whose jumped stamp was put back, rows sorted in, samples that never came.
    n_far : int
        Rows left out because they lie over a day from all others.
    n_stretches, n_wandering : int
        See `dejitter`.
    in_packets : bool
    intervals : Histogram
    """

    is_dejittered: bool = False
    reason: str = ""
    estimate: str = "none"
    moved_p99_s: float = 0.0
    moved_max_s: float = 0.0
    jitter_s: float | None = 0.0
    n_shifted: int = 0
    n_late: int = 0
    n_lost: int = 0
    n_far: int = 0
    n_stretches: int = 0
    n_wandering: int = 0
    in_packets: bool = False
    intervals: Histogram | None = None


@dataclass(frozen=True, slots=True)
class Repaired:
    """A stream with one strictly rising time a sample.

    Parameters
    ----------
    name, kind : str
    origin_ns : int
        Nanoseconds of second 0 of `axis` on the session clock.
    axis : Axis
        The time of each kept sample; see `stamps_ns`. Of events only rising.
    runs : [shape=(n_runs + 1,), int64]
        Run r holds samples `[runs[r], runs[r + 1])`.
    source : [shape=(n_in, *frame_shape)]
        All readings of the stream, in row order.
    rows : [shape=(n_samples,), int64], optional
        The row of each kept sample; None where sample i is row i.
    period_s : float
        The nominal period, or the measured one where there is none or it can't be true; NaN
        where neither is known.
    effective_rate_hz : float
        Measured inside of runs; NaN of irregular streams without a nominal rate.
    is_regular : bool
        Samples lie evenly within a run, so a sinc may be used.
    n_corrupt, n_duplicate : int
    rate_is_measured : bool
        The nominal rate is that of the stamps; nobody names one.
    knot_s, sigma_s : [shape=(k,), float64, s], optional
        Of dejittered streams: times of `axis`, and the standard deviation of their error.
    """

    name: str
    kind: str
    origin_ns: int
    axis: Axis
    runs: IntArray
    source: Rows
    rows: IntArray | None
    channels: tuple[str, ...]
    units: tuple[str | None, ...]
    nominal_rate_hz: Fraction | None
    period_s: float
    effective_rate_hz: float
    is_regular: bool
    n_corrupt: int
    n_duplicate: int
    repairs: Repairs
    rate_is_measured: bool = False
    knot_s: FloatArray | None = None
    sigma_s: FloatArray | None = None

    @property
    def n_in(self) -> int:
        """The rows of the stream."""
        return int(self.source.shape[0])

    @property
    def n_samples(self) -> int:
        """The samples kept."""
        return self.axis.n_samples

    @property
    def n_gaps(self) -> int:
        """The gaps between the first and the last sample."""
        return max(self.runs.size - 2, 0)

    @property
    def rate_ppm(self) -> float:
        """The effective rate against the nominal one, parts per million; NaN if unknown."""
        if self.nominal_rate_hz is None or self.rate_is_measured:
            return float("nan")
        return (self.effective_rate_hz / float(self.nominal_rate_hz) - 1) * 1e6

    @property
    def edge_slack_s(self) -> float:
        """How far outside of a run a time still counts as on its end."""
        if not self.period_s > 0:
            return EDGE_SLACK_S
        return min(EDGE_SLACK_S, EDGE_SLACK_PERIODS * self.period_s)

    @property
    def coverage_ns(self) -> tuple[int, int]:
        """The stretch `[begin, end)` that the samples stand for; the last one for a period.

        Raises
        ------
        DataError
            No sample is left.
        """
        if self.n_samples == 0:
            raise DataError("no row has a usable stamp", where=self.name)
        last = self.n_samples - 1
        begin = float(self.axis.seconds(0, 1)[0])
        end = float(self.axis.seconds(last, last + 1)[0])
        end += self.period_s if self.kind != "events" and self.period_s > 0 else 0.0
        return self.origin_ns + round(begin * NS_PER_S), self.origin_ns + round(end * NS_PER_S)

    @property
    def gaps_ns(self) -> IntArray:
        """Give each gap: the last sample before it and the first behind it.

        Returns
        -------
        [shape=(n_gaps, 2), int64, ns]
        """
        inner = self.runs[1:-1]
        pairs = [self.axis.seconds(int(at) - 1, int(at) + 1) for at in inner]
        if not pairs:
            return np.zeros((0, 2), dtype=np.int64)
        return self.origin_ns + np.rint(np.stack(pairs) * NS_PER_S).astype(np.int64)

    def sigma_at_s(self, session_ns: IntArray) -> FloatArray | None:
        """Give the standard deviation of the sample times; None if stamps are as they came.

        Parameters
        ----------
        session_ns : [shape=(m,), int64, ns]
            Times on the session clock.
        """
        if self.knot_s is None or self.sigma_s is None:
            return None
        return np.interp((session_ns - self.origin_ns) / NS_PER_S, self.knot_s, self.sigma_s)

    def stamps_ns(self, begin: int = 0, end: int | None = None) -> IntArray:
        """Give the session times of samples `[begin, end)`."""
        seconds = self.axis.seconds(begin, self.n_samples if end is None else end)
        return self.origin_ns + np.rint(seconds * NS_PER_S).astype(np.int64)

    def values(self, begin: int, end: int) -> NDArray[Any]:
        """Give the readings of samples `[begin, end)`."""
        if self.rows is None:
            return np.asarray(self.source[begin:end])
        return np.asarray(self.source[self.rows[begin:end]])

    def pick(self, samples: IntArray) -> NDArray[Any]:
        """Give the readings of some samples."""
        return np.asarray(self.source[samples if self.rows is None else self.rows[samples]])

    def __repr__(self) -> str:
        return f"Repaired({self.name!r}, {self.n_samples} of {self.n_in}, {self.n_gaps} gaps)"


def repair(
    stream: Stream,
    session_ns: IntArray,
    *,
    own_ns: IntArray | None = None,
    doubt: Doubt | None = None,
    unreadable: BoolArray | None = None,
    dejitters: bool = True,
    max_move_s: float = MAX_MOVE_S,
) -> Repaired:
    """Put the samples of a stream in order and give each its time.

    Parameters
    ----------
    stream : Stream
    session_ns : [shape=(n,), int64, ns]
        The stream's stamps, put on the session clock row by row.
    own_ns : [shape=(n,), int64, ns], optional
        The stream's stamps without the jumps of resets; as they are if absent.
    doubt : Doubt, optional
        How wrong the session times may be.
    unreadable : [shape=(n,), bool], optional
        Rows that could not be read; also those stamped `order.UNREADABLE`.
    dejitters : bool
        False leaves stamps as they came.
    max_move_s : float
        The cap on how far dejittering may move a stamp; two periods at least.
    """
    if session_ns.shape != stream.stamps_ns.shape:
        raise DataError(
            f"{stream.n_samples} rows with {session_ns.size} session times", where=stream.name
        )
    if stream.kind == "events":
        return _repair_events(stream, session_ns, unreadable)
    measured_ns = period_of(order.usable(session_ns), _nominal_ns(stream))
    placed = order.in_order(
        session_ns, period_ns=_believed(stream, measured_ns), unreadable=unreadable
    )
    fit: Smooth | Refusal = Refusal("not asked for")
    if dejitters:
        own = placed.of(stream.stamps_ns if own_ns is None else own_ns)
        clocks = placed.of(session_ns), own
        fit = _dejittered(stream, placed, clocks, doubt, max_move_s)
    if isinstance(fit, Smooth):
        return _regular(stream, placed, fit)
    return _as_stamped(stream, placed, fit)


def regular(
    stream: Stream,
    knot_index: FloatArray,
    knot_ns: IntArray,
) -> Repaired:
    """Take a stream whose samples lie evenly by construction, such as decoded audio.

    Parameters
    ----------
    stream : Stream
        With a nominal rate; its stamps are not looked at, `n_samples` and `data` are.
    knot_index : [shape=(k,), float64]
        Sample numbers from 0 to n_samples - 1 or more, k >= 2, a few a minute.
    knot_ns : [shape=(k,), int64, ns]
        Their times on the session clock.
    """
    return regular_data(
        stream.name,
        stream.data,
        knot_index,
        knot_ns,
        kind=stream.kind,
        channels=stream.channels,
        units=stream.units,
        nominal_rate_hz=stream.nominal_rate_hz,
    )


def regular_data(
    name: str,
    data: Rows,
    knot_index: FloatArray,
    knot_ns: IntArray,
    *,
    nominal_rate_hz: Fraction | None,
    kind: str = "audio",
    channels: tuple[str, ...] = (),
    units: tuple[str | None, ...] = (),
    breaks: IntArray | None = None,
) -> Repaired:
    """Take readings, which may lie in a file, that lie evenly between knots; see `regular`."""
    origin_ns = int(knot_ns[0])
    seconds = (knot_ns - origin_ns) / NS_PER_S
    axis = KnotAxis(int(data.shape[0]), np.asarray(knot_index, dtype=np.float64), seconds)
    inner = np.zeros(0, np.int64) if breaks is None else breaks
    return Repaired(
        name=name,
        kind=kind,
        origin_ns=origin_ns,
        axis=axis,
        runs=np.concatenate([[0], inner, [axis.n_samples]]).astype(np.int64),
        source=data,
        rows=None,
        channels=channels,
        units=units,
        nominal_rate_hz=nominal_rate_hz,
        period_s=float(1 / nominal_rate_hz) if nominal_rate_hz else 1 / axis.rate_hz,
        effective_rate_hz=axis.rate_hz,
        is_regular=True,
        n_corrupt=0,
        n_duplicate=0,
        repairs=Repairs(reason="samples lie evenly as they are"),
    )


def _nominal_ns(stream: Stream) -> float:
    return float(NS_PER_S / stream.nominal_rate_hz) if stream.nominal_rate_hz else float("nan")


def _believed(stream: Stream, measured_ns: float) -> float:
    """Choose the nominal period, or the measured one where the nominal can't be true, ns."""
    if stream.nominal_rate_hz is None:
        return measured_ns
    nominal_ns = _nominal_ns(stream)
    if stream.n_samples < MIN_ROWS:
        return nominal_ns
    ratio = measured_ns / nominal_ns
    return measured_ns if ratio >= _DISBELIEF or ratio <= 1 / _DISBELIEF else nominal_ns


def _dejittered(
    stream: Stream,
    placed: order.Order,
    clocks: tuple[IntArray, IntArray],
    doubt: Doubt | None,
    max_move_s: float,
) -> Smooth | Refusal:
    """Lay the samples evenly; `clocks` are the session's times and the own ones without jumps."""
    stamps_ns, device_ns = placed.stamps_ns, placed.of(stream.stamps_ns)
    if stamps_ns.size == 0:
        return Refusal("0 rows are too few for a line")
    period_s = period_of(stamps_ns, _nominal_ns(stream)) / NS_PER_S
    step_s = decimal_step(np.diff(device_ns)) / NS_PER_S
    return dejitter(
        _seconds_since_first(stamps_ns),
        period_s=period_s,
        nominal_s=float(1 / stream.nominal_rate_hz) if stream.nominal_rate_hz else None,
        step_s=step_s,
        skips=rounded_steps(device_ns).size > 0,
        max_move_s=max(max_move_s, 2 * period_s, 2 * step_s),
        resets=None if clocks[1] is device_ns else _steps_of(device_ns, clocks[1]),
        drift_s=_drift_s(*_as_around(placed, *clocks)),
        doubt=doubt and doubt.since(int(stamps_ns[0])),
    )


def _steps_of(stamps_ns: IntArray, less_ns: IntArray) -> IntArray:
    """Give the rows at which stamps less others change, [shape=(m,), int64]."""
    less = stamps_ns - less_ns
    return np.flatnonzero(less[1:] != less[:-1]) + 1


def _as_around(
    placed: order.Order, session_ns: IntArray, own_ns: IntArray
) -> tuple[IntArray, IntArray]:
    """Give session and own times; where rows were moved back, as far apart as around them.

    A map that is right for a recording is off by seconds for a stamp that is days away from it.
    """
    if not placed.n_shifted:
        return session_ns, own_ns
    is_moved = session_ns != placed.stamps_ns
    rows, moved = np.flatnonzero(~is_moved), np.flatnonzero(is_moved)
    ahead_ns = session_ns[rows] - own_ns[rows]
    around = np.interp(moved, rows, (ahead_ns - ahead_ns[0]).astype(np.float64))
    own_ns = own_ns.copy()
    own_ns[moved] = placed.stamps_ns[moved] - ahead_ns[0] - np.rint(around).astype(np.int64)
    return placed.stamps_ns, own_ns


def _drift_s(session_ns: IntArray, own_ns: IntArray) -> FloatArray | None:
    """Give what the session clock gains on the device's own, [shape=(n,)]; None for nothing."""
    ahead_ns = session_ns[0] - own_ns[0]
    whole = pieces(session_ns.size)
    if all(np.all(session_ns[part] - own_ns[part] == ahead_ns) for part in whole):
        return None
    return _seconds_since_first(session_ns, own_ns)


def _seconds_since_first(stamps_ns: IntArray, less_ns: IntArray | None = None) -> FloatArray:
    """Give the seconds since the first stamp, [shape=(n,)]; of stamps less others if given."""
    seconds = np.empty(stamps_ns.size)
    for part in pieces(stamps_ns.size):
        since_ns = stamps_ns[part] - stamps_ns[0]
        if less_ns is not None:
            since_ns -= less_ns[part] - less_ns[0]
        seconds[part] = since_ns / NS_PER_S
    return seconds


def _regular(stream: Stream, placed: order.Order, fit: Smooth) -> Repaired:
    moved = _seconds_since_first(placed.stamps_ns)
    moved -= fit.seconds
    np.abs(moved, out=moved)
    moved_max_s = float(moved.max())
    repairs = Repairs(
        is_dejittered=True,
        estimate=fit.estimate,
        moved_p99_s=float(np.percentile(moved, 99, overwrite_input=True)),
        moved_max_s=moved_max_s,
        n_lost=int(fit.index[-1]) + 1 - fit.index.size,
        n_stretches=fit.n_stretches,
        n_wandering=fit.n_wandering,
    )
    del moved
    period_s = _believed(stream, fit.period_s * NS_PER_S) / NS_PER_S
    built = _built(
        stream,
        placed,
        fit.seconds,
        repairs,
        period_s=period_s,
        gap_s=GAP_PERIODS * period_s,
        effective_rate_hz=1 / fit.period_s,
        is_regular=True,
    )
    return replace(built, knot_s=fit.knot_s, sigma_s=fit.sigma_s)


def _as_stamped(stream: Stream, placed: order.Order, refusal: Refusal) -> Repaired:
    """Keep the stamps: sorted, and of equal ones the first."""
    kept = order.sorted_singly(placed)
    seconds = _seconds_since_first(kept.stamps_ns)
    intervals = np.diff(seconds)
    median_s = float(np.median(intervals)) if intervals.size else float("nan")
    if stream.nominal_rate_hz is None:
        period_s, gap_s = median_s, IRREGULAR_GAP * median_s
    else:
        period_s = _believed(stream, median_s * NS_PER_S) / NS_PER_S
        gap_s = GAP_PERIODS * period_s
    inside = intervals[intervals <= gap_s]
    is_even = _are_even(inside)
    is_known = is_even or (inside.size > 0 and stream.nominal_rate_hz is not None)
    return _built(
        stream,
        kept,
        seconds,
        Repairs(
            reason=refusal.reason,
            jitter_s=None if refusal.drifts else _jitter(seconds, gap_s),
        ),
        period_s=period_s,
        gap_s=gap_s,
        effective_rate_hz=float(1 / inside.mean()) if is_known else float("nan"),
        is_regular=is_even,
    )


def _jitter(seconds: FloatArray, gap_s: float) -> float | None:
    """Bound what stamps are off by, by how far each lies from the middle of its neighbours.

    That is more than their jitter where they are irregular in truth, too. What all but one in
    10 000 keep within, and a standard deviation for the neighbours' own part; None of few rows.
    """
    step = np.diff(seconds)
    inside = step[1:] + step[:-1] <= 2 * gap_s  # one late by more than a gap lies in none
    off = np.abs(step[1:] - step[:-1])[inside] / 2
    if off.size < MIN_ROWS - 2:
        return None
    return float(np.quantile(off, _ALMOST_ALL) + _MAD * np.median(off))


def _are_even(intervals: FloatArray) -> bool:
    """Say whether stamps lie evenly as they are."""
    if intervals.size == 0:
        return False
    middle = float(np.median(intervals))
    return bool(np.abs(intervals - middle).max() <= 0.1 * middle)


def _built(
    stream: Stream,
    placed: order.Order,
    seconds: FloatArray,
    repairs: Repairs,
    *,
    period_s: float,
    gap_s: float,
    effective_rate_hz: float,
    is_regular: bool,
) -> Repaired:
    breaks = np.flatnonzero(np.diff(seconds) > gap_s) + 1
    return Repaired(
        name=stream.name,
        kind=stream.kind,
        origin_ns=int(placed.stamps_ns[0]) if placed.stamps_ns.size else 0,
        axis=StampAxis(seconds),
        runs=np.concatenate([[0], breaks, [seconds.size]]).astype(np.int64),
        source=stream.data,
        rows=placed.kept,
        channels=stream.channels,
        units=stream.units,
        nominal_rate_hz=stream.nominal_rate_hz,
        period_s=period_s,
        effective_rate_hz=effective_rate_hz,
        is_regular=is_regular,
        n_corrupt=placed.n_corrupt,
        n_duplicate=placed.n_duplicate,
        repairs=replace(
            repairs,
            n_shifted=placed.n_shifted,
            n_late=placed.n_late,
            n_far=placed.n_far,
            in_packets=placed.in_packets,
            intervals=_histogram(placed.stamps_ns, period_s),
        ),
        rate_is_measured=stream.rate_is_measured,
    )


def _histogram(stamps_ns: IntArray, period_s: float, n_bins: int = 60) -> Histogram:
    """Count intervals in 60 bins from 0 to 3 periods."""
    edges = np.linspace(0.0, 3.0 * period_s if period_s > 0 else 3.0, n_bins + 1)
    counts = np.zeros(n_bins, dtype=np.int64)
    for part in pieces(stamps_ns.size - 1):
        step = np.diff(stamps_ns[part.start : part.stop + 1]) / NS_PER_S
        counts += np.histogram(np.clip(step, 0.0, edges[-1]), edges)[0]
    return Histogram(edges, counts)


def _repair_events(stream: Stream, session_ns: IntArray, unreadable: BoolArray | None) -> Repaired:
    readable = session_ns != order.UNREADABLE
    if unreadable is not None:
        readable &= ~unreadable
    rows = np.flatnonzero(readable)
    rows = rows[np.argsort(session_ns[rows], kind="stable")]
    new = _new_events(session_ns[rows], stream.data[rows])
    kept = rows[new]
    origin_ns = int(session_ns[kept[0]]) if kept.size else 0
    seconds: FloatArray = (session_ns[kept] - origin_ns) / NS_PER_S
    return Repaired(
        name=stream.name,
        kind=stream.kind,
        origin_ns=origin_ns,
        axis=_EventAxis(seconds),
        runs=np.array([0, kept.size], dtype=np.int64),
        source=stream.data,
        rows=kept,
        channels=stream.channels,
        units=stream.units,
        nominal_rate_hz=stream.nominal_rate_hz,
        period_s=float("nan"),
        effective_rate_hz=float("nan"),
        is_regular=False,
        n_corrupt=int(stream.n_samples - rows.size),
        n_duplicate=int(rows.size - kept.size),
        repairs=Repairs(reason="events are never moved"),
    )


def _new_events(stamps_ns: IntArray, values: NDArray[Any]) -> BoolArray:
    """Mark the events, in order of time, that no earlier one repeats, stamp and value."""
    new = np.ones(stamps_ns.size, dtype=bool)
    again = np.diff(stamps_ns) == 0
    seen: set[tuple[int, object]] = set()
    for i in np.flatnonzero(np.append(again, False) | np.append(False, again)):
        key = (int(stamps_ns[i]), str(values[i]))
        new[i] = key not in seen
        seen.add(key)
    return new


@dataclass(frozen=True, slots=True)
class _EventAxis(StampAxis):
    """Times of events, of which several may be equal."""

    def __post_init__(self) -> None:
        self.stamps_s.setflags(write=False)

    def positions(self, times_s: FloatArray) -> FloatArray:
        """Give the last event at or before each time, plus a half where it lies behind it."""
        last = np.searchsorted(self.stamps_s, times_s, side="right") - 1
        at = np.clip(last, 0, max(self.stamps_s.size - 1, 0))
        behind = (at < self.stamps_s.size - 1) & (times_s > self.stamps_s[at])
        return np.asarray(at + np.where(behind, 0.5, 0.0), dtype=np.float64)
