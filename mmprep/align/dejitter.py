"""Take the jitter out of the stamps of a regular stream.

Rules
-----
- A stream is dejittered only if it has 16 rows or more, its measured rate is within 1 % of the
  nominal one and its stamps scatter about a line without walking away from it; never an irregular
  stream, never events. If any stamp would move by more than the cap, none is moved.
- `counting` numbers the samples, lost ones included; `evenly` lays them by their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mmprep.align.counting import MIN_ROWS, SCATTERED, Counted, count, level_of
from mmprep.align.evenly import Doubt, Laid, lay
from mmprep.timebase import FloatArray, IntArray, distances, median_of, pieces, some_steps

RATE_TOLERANCE = 0.01
MAX_SKEW = 300e-6
"""No clock changes its rate by more: a fitted curve that does has miscounted samples."""

_MAD = 1.4826
_UNNAMED = 0.5  # of a period: times that come by chance scatter by 0.7


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
        `mean`, `envelope` or `cut`: see `evenly`.
    knot_s, sigma_s : [shape=(k,), float64, s]
        Some of the times, and the standard deviation of their error; that of the clock's map is
        part of it where it was given.
    """

    seconds: FloatArray
    index: IntArray
    period_s: float
    n_stretches: int
    n_wandering: int
    estimate: str
    knot_s: FloatArray
    sigma_s: FloatArray


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a stream keeps its own stamps.

    Parameters
    ----------
    reason : str
    drifts : bool
        Stamps may be late by what changes slowly, which their intervals don't show.
    """

    reason: str
    drifts: bool = False


def dejitter(
    stamps_s: FloatArray,
    *,
    period_s: float,
    nominal_s: float | None,
    step_s: float,
    max_move_s: float,
    skips: bool = False,
    resets: IntArray | None = None,
    drift_s: FloatArray | None = None,
    doubt: Doubt | None = None,
) -> Smooth | Refusal:
    """Lay the samples of a stream evenly.

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
    skips : bool
        They are rounded to so much that they repeat or skip: see `timebase.rounded_steps`.
    max_move_s : float
        The cap on how far a stamp may move.
    resets : [shape=(m,), int64], optional
        The first rows after resets of the device's clock.
    drift_s : [shape=(n,), float64, s], optional
        What the session clock is ahead of the device's own by, apart from a constant.
    doubt : Doubt, optional
        Of the map that gave the stamps.
    """
    if stamps_s.size < MIN_ROWS:
        return Refusal(f"{stamps_s.size} rows are too few for a line", drifts=True)
    if not period_s > 0:
        return Refusal("no period can be measured", drifts=True)
    if nominal_s is not None and median_of(some_steps(stamps_s)) < period_s / 2:
        period_s = nominal_s  # bursts say little about the period
    counted = count(stamps_s, period_s, step_s=step_s, skips=skips)
    why = _uncounted(stamps_s, counted) or _irregular(stamps_s, counted, nominal_s)
    if why:
        return Refusal(why, drifts=_walks(level_of(stamps_s, counted), counted))
    laid = lay(stamps_s, counted, step_s=step_s, resets=resets, drift_s=drift_s, doubt=doubt)
    why = _unsafe(laid, stamps_s, counted, max_move_s)
    return Refusal(why, drifts=True) if why else _smooth(laid, counted)


def _smooth(laid: Laid, counted: Counted) -> Smooth:
    return Smooth(
        seconds=laid.seconds,
        index=counted.index,
        period_s=_period(laid, counted),
        n_stretches=np.unique(laid.stretch).size,
        n_wandering=int(laid.wanders.sum()),
        estimate=laid.estimate,
        knot_s=laid.knot_s,
        sigma_s=laid.sigma_s,
    )


def _period(laid: Laid, counted: Counted) -> float:
    """Give the time of all stretches over their sample count."""
    first, last = counted.bounds[:-1], counted.bounds[1:] - 1
    n_steps = int(np.sum(counted.index[last] - counted.index[first]))
    time_s = float(np.sum(laid.seconds[last] - laid.seconds[first]))
    return time_s / n_steps if n_steps else counted.period_s


def _uncounted(stamps: FloatArray, counted: Counted) -> str | None:
    """Say that holes come too close to be told from scatter, or None."""
    if counted.n_unsure * counted.window > stamps.size / 2:
        return "samples are lost too often to count them through this scatter"
    return None


def _unsafe(laid: Laid, stamps: FloatArray, counted: Counted, max_move_s: float) -> str | None:
    """Say why fitted times can't be used, or None."""
    moved = max(
        float(np.abs(laid.seconds[part] - stamps[part]).max()) for part in pieces(stamps.size)
    )
    if moved > max_move_s:
        return f"a stamp would move by {moved:.3g} s, over the cap of {max_move_s:.3g} s"
    inside = np.diff(laid.stretch) == 0
    step = (np.diff(laid.knot_s) / np.diff(laid.knot_index))[inside]
    gain = step / _period(laid, counted) - 1
    if np.abs(gain).max(initial=0.0) > MAX_SKEW or np.any(laid.seconds[1:] <= laid.seconds[:-1]):
        return "lost samples can't be counted with certainty"
    return None


def _irregular(stamps: FloatArray, counted: Counted, nominal: float | None) -> str | None:
    """Say why a stream is not regular, or None."""
    period = counted.period_s
    if nominal is not None and abs(nominal / period - 1) > RATE_TOLERANCE:
        return f"the measured rate {1 / period:.6g} Hz is not the nominal {1 / nominal:.6g} Hz"
    unnamed = _UNNAMED * period + counted.rounding_s
    if nominal is None and counted.packet == 1 and counted.scatter_s > unnamed:
        return "intervals differ too much, and no rate is named"
    level = level_of(stamps, counted)
    if counted.scatter_s <= SCATTERED * period and _share_alike(level, counted) < 0.9:
        return "intervals differ too much"
    return "stamps walk away from any line" if _walks(level, counted) else None


def _walks(level: FloatArray, counted: Counted) -> bool:
    """Say whether stamps, less what the counter says, walk away from any line."""
    together = max(counted.packet, counted.chunk)
    near, far = 16 * together, min(1024 * together, max(level.size // 4, 1))
    if far <= near:
        return False
    small, large = (_spread(some_steps(level, lag)) for lag in (near, far))
    return large > 2.0 * small + 0.1 * counted.period_s


def _share_alike(level: FloatArray, counted: Counted) -> float:
    """Give the share of steps inside stretches that are one period, give or take a third."""
    limit, joints, n_alike = 0.35 * counted.period_s, counted.bounds[1:-1], 0
    for part in pieces(level.size - 1):
        step = np.diff(level[part.start : part.stop + 1])
        n_alike += int(np.count_nonzero(np.abs(step) < limit))
    n_alike -= int(np.count_nonzero(np.abs(level[joints] - level[joints - 1]) < limit))
    return n_alike / max(level.size - 1 - joints.size, 1)


def _spread(values: FloatArray | IntArray) -> float:
    return _MAD * median_of(distances(values, float(np.median(values))))
