"""Take the jitter out of the stamps of a regular stream.

Rules
-----
- A stream is dejittered only if it has 16 rows or more, its measured rate is within 1 % of the
  nominal one and its stamps scatter about a line without walking away from it; never an irregular
  stream, never events. If any stamp would move by more than the cap, none is moved.
- Lost samples shift the sample index: an interval after which the stamps stay late by k periods
  stands for k lost samples; a single late stamp does not.
- A stretch is what can be counted through: it ends at an interval of over 10 000 periods, or one
  after which the phase is in doubt (more than 0.3 period from a whole number).
- In each stretch the time of sample j is a line over j. It gets a smoothing spline on top only
  where the residuals, averaged over blocks of seconds, wander: where their von Neumann ratio is
  below what white noise gives once in 2000 stretches. A clock that keeps straight keeps the line.
- Scatter that is two-sided is averaged, without what lies beyond 4 sigma. Delays, which are
  one-sided (a sharp lower edge, or packets), lie above the clock: the line is their lower
  envelope. Stamps cut to whole steps longer than a sample (whole seconds) lie below it by up to
  one step: the line runs so that each sample lies within its step.

References
----------
von Neumann, "Distribution of the ratio of the mean square successive difference to the variance",
Ann. Math. Stat. 12 (1941).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mmprep.align.spline import smoothing
from mmprep.timebase import (
    BoolArray,
    FloatArray,
    IntArray,
    bursts_of,
    heads_of,
    lateness_of,
    scatter_of,
)

MIN_ROWS = 16
RATE_TOLERANCE = 0.01
MAX_HOLE = 10_000
MAX_PHASE = 0.3
MAX_SKEW = 300e-6
"""No clock changes its rate by more: a fitted curve that does has miscounted samples."""

_MAD = 1.4826
_GAP = 1.5
_SCATTERED = 0.15
_UNNAMED = 0.5  # of a period: times that come by chance scatter by 0.7
_PASSES = 12
_RECOUNTS = 3
_SURE = 5 * 1.25  # five times the standard error of the difference of two medians
_BLOCK_S = 2.0
_MAX_BLOCKS = 3000
_SLOPE_PRIOR = 50e-6  # quartz runs within 50 ppm of its own mean; a short stretch knows no better


@dataclass(frozen=True, slots=True)
class Smooth:
    """The dejittered times of a stream.

    Parameters
    ----------
    seconds : [shape=(n,), float64, s]
        Strictly increasing.
    index : [shape=(n,), int64]
        Sample numbers, lost samples counted; a new stretch goes on with the next number.
    period_s : float
        Measured: the time of all stretches over their sample count.
    n_stretches, n_wandering : int
        Stretches, and those that needed more than a line.
    estimate : str
        `mean`, `envelope` or `cut`: see the rules.
    """

    seconds: FloatArray
    index: IntArray
    period_s: float
    n_stretches: int
    n_wandering: int
    estimate: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a stream keeps its own stamps."""

    reason: str


def dejitter(
    stamps_s: FloatArray,
    *,
    period_s: float,
    nominal_s: float | None,
    step_s: float,
    max_move_s: float,
) -> Smooth | Refusal:
    """Fit the times of a stream's samples to a line over the sample index.

    Parameters
    ----------
    stamps_s : [shape=(n,), float64, s]
        In row order, from an origin near the data.
    period_s : float
        The measured period.
    nominal_s : float, optional
        The nominal period.
    step_s : float
        The step that all stamps are whole multiples of.
    max_move_s : float
        The cap on how far a stamp may move.
    """
    if stamps_s.size < MIN_ROWS:
        return Refusal(f"{stamps_s.size} rows are too few for a line")
    if not period_s > 0:
        return Refusal("no period can be measured")
    if nominal_s is not None and np.median(np.diff(stamps_s)) < period_s / 2:
        period_s = nominal_s  # bursts say little about the period
    counted = _count(stamps_s, period_s)
    why = _uncounted(stamps_s, counted) or _irregular(stamps_s, counted, nominal_s)
    if why:
        return Refusal(why)
    smooth = _smooth(stamps_s, counted, step_s)
    why = _unsafe(smooth, stamps_s, counted, max_move_s)
    return Refusal(why) if why else smooth


@dataclass(frozen=True, slots=True)
class _Counted:
    """Rows with sample numbers."""

    index: IntArray  # (n,)
    bounds: IntArray  # (n_stretches + 1,) in rows
    period_s: float
    packet: int  # rows a packet, 1 where there are none
    chunk: int  # rows that were stamped by one arrival
    scatter_s: float
    n_unsure: int = 0  # holes found in scatter
    window: int = 0  # rows that it takes to find one


def _count(stamps: FloatArray, period: float) -> _Counted:
    """Give each row its sample number, counting the samples that are lost.

    How many are lost in a long hole takes a better period than neighbouring rows give.
    """
    counted = _counted(stamps, period)
    for _ in range(_RECOUNTS):
        before, counted = counted, _counted(stamps, counted.period_s)
        if np.array_equal(before.index, counted.index):
            break
    return counted


def _counted(stamps: FloatArray, period: float) -> _Counted:
    step = np.diff(stamps)
    scatter = scatter_of(stamps, period)
    packet = _packet_rows(stamps, step, period)
    chunk = max(stamps.size // heads_of(stamps).size, 1)
    advance, doubt = np.ones(step.size, dtype=np.int64), np.zeros(step.size, dtype=bool)
    window = 0
    level = stamps - period * np.arange(stamps.size)
    if packet == 1 and scatter <= _SCATTERED * period:
        at = np.flatnonzero(step > _GAP * period)
        lost = _level_steps(level, at) / period
        whole = np.maximum(np.rint(lost), 0)
        advance[at] += whole.astype(np.int64)
        doubt[at] = (np.abs(lost - whole) > MAX_PHASE) | (whole > MAX_HOLE)
    else:
        late = lateness_of(stamps, period) / period
        window = 48 * packet if packet > 1 else chunk * _window(late)
        window = min(window, max(stamps.size // 4, 1))
        least = 0.6 if packet > 1 else max(0.6, _SURE * late * (chunk / window) ** 0.5)
        advance += _lost_in_scatter(stamps, period, window, packet, least)
        doubt = advance > MAX_HOLE
    index = np.concatenate([[0], np.cumsum(advance)])
    bounds = np.concatenate([[0], np.flatnonzero(doubt) + 1, [stamps.size]])
    return _Counted(
        index,
        bounds,
        _period(stamps, index, bounds, period),
        packet,
        chunk,
        scatter,
        n_unsure=int((advance > 1).sum()) if window else 0,
        window=window,
    )


def _window(scatter: float) -> int:
    """Choose the rows whose median is sure to a twentieth of a period; scatter in periods."""
    return int(np.clip(500 * scatter**2, 16, 4096))


def _lost_in_scatter(
    stamps: FloatArray, period: float, rows: int, packet: int, least: float
) -> IntArray:
    """Count the samples lost at each interval of scattered stamps or packets.

    Holes close together hide each other, so those found are taken out and the search goes on.
    Holes of fewer than `least` samples or packets are not told from scatter.
    """
    lost = np.zeros(stamps.size - 1, dtype=np.int64)
    tilt = _rise(stamps - period * np.arange(stamps.size), rows, minimum=packet > 1)
    period += float(np.median(tilt)) / rows  # else the ends, which have less to compare, stand out
    for _ in range(_PASSES):
        index = np.concatenate([[0], np.cumsum(1 + lost)])
        step = np.diff(stamps) - period * (1 + lost)
        rise = _rise(stamps - period * index, rows, minimum=packet > 1)
        rise -= np.median(rise)
        at, shift = _late_levels(rise, step, period * packet, rows, least)
        drops = np.where(_near(lost, rows), -rise, 0.0)
        back, drop = _late_levels(drops, -step, period * packet, rows, least)
        if at.size == back.size == 0:
            break
        np.add.at(lost, at, np.rint(shift).astype(np.int64) * packet)
        np.add.at(lost, back, -np.rint(drop).astype(np.int64) * packet)
        lost = np.maximum(lost, 0)
    return lost


def _packet_rows(stamps: FloatArray, step: FloatArray, period: float) -> int:
    """Count the rows that arrive together; 1 where rows come singly."""
    if np.median(step) >= period / 2:
        return 1
    begin = bursts_of(stamps, period)
    begin = begin if begin.size else np.flatnonzero(step > period / 2)
    return int(np.median(np.diff(begin))) if begin.size > 2 else 1


def _level_steps(level: FloatArray, at: IntArray, rows: int = 16) -> FloatArray:
    """Measure by how much the level stays raised behind each of some intervals.

    Returns
    -------
    [shape=at.shape, float64, s]
        Median of up to `rows` levels behind the interval less that of those before it; windows
        end at the neighbouring intervals.
    """
    if at.size == 0:
        return np.zeros(0)
    ahead = np.minimum(np.append(at[1:], level.size - 1) - at, rows)
    behind = np.minimum(at - np.append(-1, at[:-1]), rows)
    offsets = np.arange(rows)
    after = np.where(
        offsets < ahead[:, None], level.take(_clip(at[:, None] + 1 + offsets, level)), np.inf
    )
    before = np.where(
        offsets < behind[:, None], level.take(_clip(at[:, None] - offsets, level)), np.inf
    )
    return _row_medians(after, ahead) - _row_medians(before, behind)


def _clip(index: IntArray, level: FloatArray) -> IntArray:
    return np.clip(index, 0, level.size - 1)


def _row_medians(values: FloatArray, count: IntArray) -> FloatArray:
    """Take the lower median of the first `count` values of a row; the rest are infinite."""
    values = np.sort(values, axis=1)
    row = np.arange(values.shape[0])
    return np.asarray(values[row, (count - 1) // 2])


def _late_levels(
    rise: FloatArray, step: FloatArray, unit: float, rows: int, least: float
) -> tuple[IntArray, FloatArray]:
    """Find where scattered stamps become late for good, and by how many units.

    Returns
    -------
    at : [shape=(k,), int64]
        In each neighbourhood where the level rises by over `least` units, the longest of the
        intervals where it rises by 0.9 of the most.
    shift : [shape=(k,), float64]
        The rise there, in units, 1 at least.
    """
    raised = np.flatnonzero(rise > least * unit)
    apart = np.flatnonzero(np.diff(raised) > rows) + 1
    spans = [(int(part[0]), int(part[-1]) + 1) for part in np.split(raised, apart) if part.size]
    at = np.array([_hole(rise, step, low, high) for low, high in spans], dtype=np.int64)
    return at, np.maximum(rise[at] / unit, 1.0)


def _hole(rise: FloatArray, step: FloatArray, low: int, high: int) -> int:
    top = rise[low:high] >= 0.9 * rise[low:high].max()
    return low + int(np.argmax(np.where(top, step[low:high], -np.inf)))


def _near(lost: IntArray, rows: int) -> BoolArray:
    from scipy.ndimage import maximum_filter1d

    return np.asarray(maximum_filter1d(lost, 2 * rows + 1, mode="constant") > 0)


def _rise(level: FloatArray, rows: int, *, minimum: bool) -> FloatArray:
    """Give the level of `rows` rows behind each interval less that of those before it.

    The level of a stretch of rows is its median, or for packets its minimum: the packet that came
    quickest.
    """
    from scipy.ndimage import median_filter, minimum_filter1d  # 0.2 s to load

    if minimum:
        filtered = minimum_filter1d(level, rows, mode="nearest")
    else:
        filtered = median_filter(level, rows, mode="reflect")
    half = rows // 2
    number = np.arange(level.size - 1)
    behind = np.clip(number + 1 + half, 0, level.size - 1)
    before = np.clip(number + 1 - (rows - half), 0, level.size - 1)
    return np.asarray(filtered[behind] - filtered[before])


def _period(stamps: FloatArray, index: IntArray, bounds: IntArray, period: float) -> float:
    """Measure the period over the longest stretch: median slope between its halves."""
    longest = int(np.argmax(np.diff(bounds)))
    low, high = int(bounds[longest]), int(bounds[longest + 1])
    half = (high - low) // 2
    if half < MIN_ROWS // 2:
        return period
    rise = stamps[low + half : high] - stamps[low : high - half]
    return float(np.median(rise / (index[low + half : high] - index[low : high - half])))


def _uncounted(stamps: FloatArray, counted: _Counted) -> str | None:
    """Say that holes come too close to be told from scatter, or None."""
    if counted.n_unsure * counted.window > stamps.size / 2:
        return "samples are lost too often to count them through this scatter"
    return None


def _unsafe(smooth: Smooth, stamps: FloatArray, counted: _Counted, max_move_s: float) -> str | None:
    """Say why fitted times can't be used, or None."""
    moved = float(np.abs(smooth.seconds - stamps).max())
    if moved > max_move_s:
        return f"a stamp would move by {moved:.3g} s, over the cap of {max_move_s:.3g} s"
    gain = np.diff(smooth.seconds) / np.diff(smooth.index) / smooth.period_s - 1
    if np.delete(np.abs(gain), counted.bounds[1:-1] - 1).max() > MAX_SKEW or gain.min() <= -1:
        return "lost samples can't be counted with certainty"
    return None


def _irregular(stamps: FloatArray, counted: _Counted, nominal: float | None) -> str | None:
    """Say why a stream is not regular, or None."""
    period = counted.period_s
    if nominal is not None and abs(nominal / period - 1) > RATE_TOLERANCE:
        return f"the measured rate {1 / period:.6g} Hz is not the nominal {1 / nominal:.6g} Hz"
    if nominal is None and counted.packet == 1 and counted.scatter_s > _UNNAMED * period:
        return "intervals differ too much, and no rate is named"
    level = stamps - period * counted.index
    step = np.diff(level)
    step = np.delete(step, counted.bounds[1:-1] - 1)
    if counted.scatter_s <= _SCATTERED * period and np.mean(np.abs(step) < 0.35 * period) < 0.9:
        return "intervals differ too much"
    together = max(counted.packet, counted.chunk)
    near, far = 16 * together, min(1024 * together, max(level.size // 4, 1))
    if far <= near:
        return None
    small, large = (_spread(level[lag:] - level[:-lag]) for lag in (near, far))
    if large > 2.0 * small + 0.1 * period:
        return "stamps walk away from any line"
    return None


def _spread(values: FloatArray) -> float:
    return _MAD * float(np.median(np.abs(values - np.median(values))))


def _smooth(stamps: FloatArray, counted: _Counted, step_s: float) -> Smooth:
    level = stamps - counted.period_s * counted.index
    estimate = _choose_estimate(level, counted, step_s)
    fitted, wandering = np.empty_like(stamps), 0
    spans = []
    for low, high in zip(counted.bounds[:-1], counted.bounds[1:], strict=True):
        part = slice(int(low), int(high))
        fit, wanders = _fit(level[part], counted.index[part], counted, estimate, step_s)
        fitted[part] = fit + counted.period_s * counted.index[part]
        wandering += wanders
        spans.append((fitted[high - 1] - fitted[low], counted.index[high - 1] - counted.index[low]))
    time, count = (sum(column) for column in zip(*spans, strict=True))
    period = float(time / count) if count else counted.period_s
    return Smooth(fitted, counted.index, period, len(spans), wandering, estimate)


def _choose_estimate(level: FloatArray, counted: _Counted, step_s: float) -> str:
    if step_s >= _GAP * counted.period_s:
        return "cut"
    if counted.packet > 1:
        return "envelope"
    rows = min(max(int(4.0 / counted.period_s), 64), level.size)
    n_blocks = level.size // rows
    blocks = level[: n_blocks * rows].reshape(n_blocks, rows)
    detrended = (blocks - np.median(blocks, axis=1, keepdims=True)).ravel()
    return "envelope" if _is_delay(detrended) else "mean"


def _is_delay(values: FloatArray) -> bool:
    """Tell an exponential-like delay (sharp lower edge, long upper tail) from two-sided scatter.

    Quartile ratio: normal 1, exponential 1.7. Lower tail over lower quartile: normal 3.5,
    exponential 1.7, uniform 2. A share of late outliers leaves the quartiles as they are.
    """
    if values.size < 1000:
        return False
    edge, low, high = np.percentile(values, [1, 25, 75])
    return bool(high > -1.35 * low and edge > 2.4 * low)


def _fit(
    level: FloatArray, index: IntArray, counted: _Counted, estimate: str, step_s: float
) -> tuple[FloatArray, bool]:
    """Fit what the level of one stretch is at each of its rows."""
    number = (index - index[0]).astype(np.float64)
    if level.size < MIN_ROWS:
        return np.full(level.size, _LEVELS[estimate](level, np.array([0]), step_s)[0]), False
    starts = _block_starts(number, counted, step_s)
    weight = np.diff(np.append(starts, level.size)).astype(np.float64)
    centre = np.add.reduceat(number, starts) / weight
    curve = _curve(centre, _LEVELS[estimate](level, starts, step_s), weight, counted.period_s)
    if estimate == "mean":
        for _ in range(2):
            off = level - curve(number)
            kept = np.abs(off) <= 4 * _MAD * float(np.median(np.abs(off)))
            count = np.add.reduceat(kept.astype(np.float64), starts)
            shift = np.add.reduceat(np.where(kept, off, 0.0), starts) / np.maximum(count, 1.0)
            curve = _curve(centre, curve(centre) + shift, np.maximum(count, 1e-3), counted.period_s)
    return curve(number), curve.wanders


def _block_starts(number: FloatArray, counted: _Counted, step_s: float) -> IntArray:
    """Cut a stretch into blocks of about 2 s, of 16 rows or 64 packets or steps at least."""
    seconds = max(_BLOCK_S, 8 * step_s if step_s >= counted.period_s else 0.0)
    rows = max(seconds / counted.period_s, 64 * counted.packet if counted.packet > 1 else 16)
    n_blocks = int(np.clip(number[-1] / rows, 1, _MAX_BLOCKS))
    edges = np.linspace(0, number[-1] + 1, n_blocks + 1)[:-1]
    return np.unique(np.searchsorted(number, edges))


def _means(level: FloatArray, starts: IntArray, step_s: float) -> FloatArray:
    del step_s
    sizes = np.diff(np.append(starts, level.size))
    medians = np.empty(starts.size)
    for size in np.unique(sizes):  # two or three, but for lost samples
        alike = sizes == size
        medians[alike] = np.median(level[starts[alike, None] + np.arange(size)], axis=1)
    return medians


def _lowest(level: FloatArray, starts: IntArray, step_s: float) -> FloatArray:
    del step_s
    return np.asarray(np.minimum.reduceat(level, starts))


def _cut(level: FloatArray, starts: IntArray, step_s: float) -> FloatArray:
    low, high = np.minimum.reduceat(level, starts), np.maximum.reduceat(level, starts)
    return np.asarray((low + high + step_s) / 2)


_LEVELS: dict[str, Callable[[FloatArray, IntArray, float], FloatArray]] = {
    "mean": _means,
    "envelope": _lowest,
    "cut": _cut,
}


@dataclass(frozen=True, slots=True)
class _Curve:
    offset: float
    slope: float
    centre: float
    wander: Callable[[FloatArray], FloatArray] | None

    @property
    def wanders(self) -> bool:
        return self.wander is not None

    def __call__(self, number: FloatArray) -> FloatArray:
        line = self.offset + self.slope * (number - self.centre)
        return line if self.wander is None else line + self.wander(number)


def _curve(centre: FloatArray, level: FloatArray, weight: FloatArray, period: float) -> _Curve:
    """Fit a line to block levels, and a spline on top where they wander."""
    middle = float(np.average(centre, weights=weight))
    offset = float(np.average(level, weights=weight))
    x, y = centre - middle, level - offset
    noise = float(np.mean(np.diff(y) ** 2)) / 2 if y.size > 2 else float(np.mean(y**2))
    prior = noise * float(weight.mean()) / (_SLOPE_PRIOR * period) ** 2
    sum_xx = float((weight * x * x).sum())
    slope = float((weight * x * y).sum()) / (sum_xx + prior) if sum_xx > 0 else 0.0
    left = y - slope * x
    wander = _wander(centre, left, weight) if _wanders(left) else None
    return _Curve(offset, slope, middle, wander)


def _wanders(left: FloatArray) -> BoolArray | bool:
    """Test whether block residuals are smoother than white noise would be."""
    if left.size < 16:
        return False
    spread = float(((left - left.mean()) ** 2).sum())
    ratio = float((np.diff(left) ** 2).sum()) / (2 * spread) if spread > 0 else 1.0
    return ratio < 1 - 3.3 / float(np.sqrt(left.size))


def _wander(
    centre: FloatArray, left: FloatArray, weight: FloatArray
) -> Callable[[FloatArray], FloatArray]:
    """Smooth block residuals; straight on beyond the outer blocks' centres."""
    unit = float(centre[-1] - centre[0]) / (centre.size - 1)
    curve = smoothing((centre - centre[0]) / unit, left, weight / weight.mean())
    return lambda number: curve((number - centre[0]) / unit)
