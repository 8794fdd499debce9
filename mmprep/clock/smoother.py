"""The smoother of two states, offset and drift, on scalars.

The state (offset, drift) moves over a step dt by F = [[1, dt], [0, 1]] with the process noise
Q = walk * [[dt^3 / 3, dt^2 / 2], [dt^2 / 2, dt]]; a fix shows the offset. A loop over scalars beats
arrays of two, and gives the same bits on every machine, compiled (`_smoother.c`) or not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from mmprep.timebase import FloatArray

try:
    from mmprep.clock import _smoother
except ImportError:  # installed without a compiler
    _smoother = None  # type: ignore[assignment]

DRIFT_PRIOR = 1e-3  # s/s around the common line
DRIFT_RESET = 20e-6  # s/s, what a reset may change about the drift
OFFSET_PRIOR_S2 = 1.0
# Walk of the drift, s/s per sqrt(s), squared. No quartz in a room is steadier than the first.
WALKS = tuple(math.pow(10, power) for power in range(-19, -5))
FINE_STEPS = tuple(math.pow(10, power / 4) for power in range(-2, 3))
STEADIER = 0.35  # log-likelihood a decade by which the steadier of two walks is preferred
PRIORS = (OFFSET_PRIOR_S2, DRIFT_PRIOR**2, DRIFT_RESET**2)
UNLIKELY = 0.005  # share of a walk that isn't worth smoothing

State: TypeAlias = tuple[float, float, float, float, float]  # offset, drift, p00, p01, p11


class Series(NamedTuple):
    """Offsets to be smoothed: lists of floats, for a loop of scalars is the fastest here.

    step_s[k] leads from k - 1 to k; keep[k] is 0.0 where a jump lies between, else 1.0; loose[k]
    multiplies the walk of the drift there.
    """

    step_s: list[float]
    keep: list[float]
    loose: list[float]
    offset_s: list[float]


class Smooth(NamedTuple):
    """Smoothed states and their covariance, float64 (n,)."""

    offset_s: FloatArray
    drift: FloatArray
    offset_var: FloatArray
    drift_var: FloatArray


def _predict(state: State, step_s: float, keep: float, walk: float) -> State:
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


def filtered(series: Series, weight: list[float], walk: float) -> tuple[list[State], float]:
    """Run the Kalman filter; give the filtered states and the log-likelihood.

    Weights are 1 / variance; 0 is a time without a fix.
    """
    offset, drift, p00, p01, p11 = 0.0, 0.0, OFFSET_PRIOR_S2, 0.0, DRIFT_PRIOR**2
    states: list[State] = []
    likelihood, log, append = 0.0, math.log, states.append
    for step_s, keep, loose, seen, w in zip(*series, weight, strict=True):
        if not states:
            pass
        elif keep == 0.0:
            state = offset, drift, p00, p01, p11
            offset, drift, p00, p01, p11 = _predict(state, step_s, keep, walk * loose)
        else:  # as _predict, written out: half of the time goes into the call
            noise = walk * loose * step_s
            offset += step_s * drift
            p00 = p00 + step_s * (2 * p01 + step_s * p11) + noise * step_s * step_s / 3
            p01 = p01 + step_s * p11 + noise * step_s / 2
            p11 += noise
        miss, share = seen - offset, 1 / (1 + p00 * w)
        offset, drift = offset + p00 * w * share * miss, drift + p01 * w * share * miss
        p11 -= p01 * p01 * w * share
        p00, p01 = p00 * share, p01 * share
        append((offset, drift, p00, p01, p11))
        likelihood += log(share) - miss * miss * w * share
    return states, likelihood / 2


def smoothed(series: Series, weight: list[float], walk: float) -> Smooth:
    """Run the filter forth and the Rauch-Tung-Striebel pass back."""
    if _smoother is None:
        states = smoothed_slowly(series, weight, walk)
    else:
        states = np.empty((len(weight), 5))
        _smoother.smooth(_table(series, weight), walk, PRIORS, states)
    offset, drift, p00, _, p11 = states.T
    return Smooth(offset, drift, np.maximum(p00, 0), np.maximum(p11, 0))


def smoothed_slowly(series: Series, weight: list[float], walk: float) -> FloatArray:
    """Give the smoothed states, [shape=(n, 5), float64]."""
    states, _ = filtered(series, weight, walk)
    later = states[-1]
    smooth = [later]
    for k in range(len(states) - 2, -1, -1):
        step_s, keep = series.step_s[k + 1], series.keep[k + 1]
        later = _back(states[k], later, step_s, keep, walk * series.loose[k + 1])
        smooth.append(later)
    return np.array(smooth[::-1])


def _back(state: State, later: State, step_s: float, keep: float, walk: float) -> State:
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


def _table(series: Series, weight: list[float]) -> FloatArray:
    return np.array([*series, weight])


def _scores(series: Series, weight: list[float]) -> Callable[[float], float]:
    """Give the log-likelihood of walks, with a preference for steady clocks."""
    table = _table(series, weight)

    def score(walk: float) -> float:
        if _smoother is None:
            _, likelihood = filtered(series, weight, walk)
        else:
            likelihood = _smoother.likelihood(table, walk, PRIORS)
        return likelihood - STEADIER * math.log10(walk)

    return score


def likely_walk(
    series: Series,
    weight: list[float],
    near: float | None = None,
    walks: Sequence[float] = WALKS,
) -> float:
    """Choose the walk of the drift under which the fixes are most likely.

    Only walks within half a decade of `near` are tried if it is given.
    """
    score = _scores(series, weight)
    best = near or max(walks, key=score)
    fine = {max(best * factor, WALKS[0]): None for factor in FINE_STEPS}
    return max(fine, key=score)


def mean_likelihood(series: Series, weight: list[float], walks: Sequence[float] = WALKS) -> float:
    """Give the logarithm of the mean likelihood over all walks, steady ones preferred."""
    score = np.array([*map(_scores(series, weight), walks)])
    return float(score.max() + np.log(np.mean(np.exp(score - score.max()))))


def mixed(
    series: Series, weight: list[float], walks: Sequence[float] = WALKS
) -> tuple[Smooth, float]:
    """Average the smoothed states over all walks by how likely each is; also give the mean walk.

    A short log hardly tells a steady clock from one that wanders. The variance then holds what
    the walks differ by.
    """
    finer = [walk * half for walk in walks for half in (1.0, math.sqrt(10))]
    score = np.array([*map(_scores(series, weight), finer)])
    share = np.exp(score - score.max())
    chosen = np.flatnonzero(share > UNLIKELY * share.sum())
    share = share[chosen] / share[chosen].sum()
    parts = [smoothed(series, weight, finer[k]) for k in chosen]
    stacked = Smooth(*(np.stack(column) for column in zip(*parts, strict=True)))
    offset_s, drift = share @ stacked.offset_s, share @ stacked.drift
    offset_var = share @ (stacked.offset_var + (stacked.offset_s - offset_s) ** 2)
    drift_var = share @ (stacked.drift_var + (stacked.drift - drift) ** 2)
    walk = float(share @ np.array(finer)[chosen])
    return Smooth(offset_s, drift, offset_var, drift_var), walk
