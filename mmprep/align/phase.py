"""Count the samples lost from scattered stamps by their phase, which losses don't change.

Rules
-----
- The phase of a stamp is what it is over a whole number of periods. Of stamps that scatter by less
  than half a period the phase of many is known well, however many samples are lost among them.
- The period is the one of which the phases of blocks are most alike.
- With the phase known, each stamp alone says which sample it is, to within a few; the median of a
  few rows says it for sure.

References
----------
Mardia, Jupp, "Directional statistics", Wiley 2000, section 5.3 (Rayleigh's test).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mmprep.timebase import FloatArray, IntArray

MAX_LATE = 0.62  # of a period, the scatter of steps; the scatter of stamps is 0.44 then

_BLOCK = 1024
_SPAN = 2e-3  # what a period by steps may be wrong by
_LONG = 64.0  # periods, an interval that the phase need not go on over
_SMOOTHED = 9  # blocks
_ENOUGH = 256  # blocks to tell the period by
_SURE = 100.0  # rows for a scatter of one period: their median is sure to 0.09 periods
_FEWEST, _MOST = 5, 101
_AGAIN = 4.0  # log-likelihood by which a second loss close by must convince


def period_by_phase(stamps: FloatArray, period: float) -> float:
    """Find the period near another one of which the phases of blocks of rows are most alike."""
    rows = min(_BLOCK, stamps.size)
    n_blocks = stamps.size // rows
    blocks = stamps[: n_blocks * rows].reshape(-1, rows)[:: -(-n_blocks // _ENOUGH)]
    since = (blocks - blocks[:, :1]) / period
    shares = np.arange(-_SPAN, _SPAN, 1 / (4 * rows))
    alike = [np.sum(np.abs(_turns(since / (1 + share)).mean(axis=1)) ** 2) for share in shares]
    return period * (1 + float(shares[int(np.argmax(alike))]))


def _turns(phase: FloatArray) -> NDArray[np.complex128]:
    return np.asarray(np.exp(2j * np.pi * phase))


def lost_by_phase(stamps: FloatArray, period: float, *, late: float) -> IntArray:
    """Count the samples lost at each interval.

    Parameters
    ----------
    stamps : [shape=(n,), float64, s]
    late : float
        The scatter of steps in periods.

    Returns
    -------
    [shape=(n - 1,), int64]
    """
    rows = rows_needed(late)
    cuts = np.flatnonzero(np.diff(stamps) > _LONG * period) + 1
    parts = [slice(low, high) for low, high in pairwise([0, *cuts.tolist(), stamps.size])]
    ahead = stamps / period
    ahead -= _phases(stamps, period, parts)
    ahead -= np.arange(stamps.size)
    number = np.concatenate([_numbers(ahead[part], rows, late) for part in parts])
    return np.diff(np.maximum.accumulate(number))


def _numbers(ahead: FloatArray, rows: int, late: float) -> IntArray:
    """Say by how many lost samples each row is ahead: the median of some rows, rounded.

    At the ends, where there are fewer rows, the next number holds.
    """
    from scipy.ndimage import median_filter  # 0.2 s to load

    half = rows // 2
    if ahead.size <= 2 * half:
        return np.full(ahead.size, round(float(np.median(ahead))))
    number = np.rint(median_filter(ahead, rows, mode="reflect")).astype(np.int64)
    number[:half], number[-half:] = number[half], number[-half - 1]
    number = np.maximum.accumulate(number)
    holes = np.flatnonzero(np.diff(number))
    for group in np.split(holes, np.flatnonzero(np.diff(holes) > rows) + 1):
        if group.size:
            place = slice(max(int(group[0]) - rows, 0), int(group[-1]) + rows + 1)
            number[place] = _likelier(number[place], ahead[place], late)
    return number


def _likelier(number: IntArray, ahead: FloatArray, late: float) -> IntArray:
    """Put all losses at the one place that single rows speak for, unless they speak for several."""
    first, last = int(number[0]), int(number[-1])
    before, after, several = (
        np.log1p(2 * ((ahead - one) / late) ** 2) for one in (first, last, number)
    )
    single = np.cumsum(before)[:-1] + np.cumsum(after[::-1])[::-1][1:]
    if single.min() > several.sum() + _AGAIN:
        return number
    return np.where(np.arange(number.size) > np.argmin(single), last, first)


def rows_needed(late: float) -> int:
    """Say how many rows tell the number of a sample."""
    return int(np.clip(_SURE * late**2, _FEWEST, _MOST)) | 1


def _phases(stamps: FloatArray, period: float, parts: list[slice]) -> FloatArray:
    """Give the phase of the samples at each row, in periods, without leaps by one."""
    phases, last = np.empty(stamps.size), 0.0
    for part in parts:
        at, phase = _phases_of_blocks(stamps[part], period)
        phase += np.rint(last - phase[0])
        phases[part] = np.interp(np.arange(part.stop - part.start), at, phase)
        last = float(phase[-1])
    return phases


def _phases_of_blocks(stamps: FloatArray, period: float) -> tuple[FloatArray, FloatArray]:
    """Give the rows of blocks' middles and the phases there, averaged over some blocks."""
    n_blocks = max(stamps.size // _BLOCK, 1)
    edges = np.linspace(0, stamps.size, n_blocks + 1).astype(np.int64)
    sums = np.empty(n_blocks, dtype=np.complex128)
    for low in range(0, n_blocks, 64):
        some = slice(low, min(low + 64, n_blocks))
        begin, end = edges[some], int(edges[some.stop])
        turns = _turns(stamps[begin[0] : end] / period)
        sums[some] = np.add.reduceat(turns, begin - begin[0])
    reach = min(_SMOOTHED, n_blocks)
    around = np.convolve(sums, np.ones(reach), mode="full")[(reach - 1) // 2 :][:n_blocks]
    phase = np.unwrap(np.angle(around) / (2 * np.pi), period=1.0)
    return (edges[:-1] + edges[1:] - 1) / 2, phase
