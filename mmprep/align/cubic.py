"""Shape-preserving cubic interpolation over many runs at once.

Rules
-----
- The slopes are those of Fritsch and Butland, as in scipy's PchipInterpolator: a curve never
  overshoots its samples. A missing sample or a gap ends a curve like the end of the data does.
- A time on a sample gives that sample, whatever lies beside it.

References
----------
Fritsch and Butland, "A method for constructing local monotone piecewise cubic interpolants",
SIAM J. Sci. Comput. 5 (1984).
"""

from __future__ import annotations

import numpy as np

from mmprep.timebase import BoolArray, FloatArray, IntArray


def linear(values: FloatArray, left: IntArray, fraction: FloatArray) -> FloatArray:
    """Interpolate on straight lines.

    Parameters
    ----------
    values : [shape=(n, n_channels), float64]
        NaN where missing.
    left, fraction : [shape=(m,)]
        See `axis.Neighbours`.

    Returns
    -------
    [shape=(m, n_channels), float64]
        NaN where either neighbour is missing.
    """
    right = np.minimum(left + 1, values.shape[0] - 1)
    share = fraction[:, None]
    line = values[left] * (1 - share) + values[right] * share
    return np.asarray(np.where(share == 0, values[left], line))


def cubic(
    values: FloatArray,
    seconds: FloatArray,
    breaks: BoolArray,
    left: IntArray,
    fraction: FloatArray,
) -> FloatArray:
    """Interpolate on shape-preserving cubics.

    Parameters
    ----------
    values : [shape=(n, n_channels), float64]
        NaN where missing.
    seconds : [shape=(n,), float64, s]
    breaks : [shape=(n - 1,), bool]
        The intervals that are gaps.
    left, fraction : [shape=(m,)]
        See `axis.Neighbours`.

    Returns
    -------
    [shape=(m, n_channels), float64]
        NaN where either neighbour is missing.
    """
    if values.shape[0] < 2:
        return values[left]
    width = np.where(breaks, np.nan, np.diff(seconds))[:, None]
    slope = _slopes(width, np.diff(values, axis=0) / width)
    right = np.minimum(left + 1, values.shape[0] - 1)
    s = fraction[:, None]
    h = width[np.minimum(left, width.shape[0] - 1)]
    curve = (
        values[left] * ((1 + 2 * s) * (1 - s) ** 2)
        + values[right] * (s * s * (3 - 2 * s))
        + h * (slope[left] * (s * (1 - s) ** 2) - slope[right] * (s * s * (1 - s)))
    )
    return np.asarray(np.where(s == 0, values[left], curve))


def _slopes(width: FloatArray, secant: FloatArray) -> FloatArray:
    """Give the slope at each sample; `width` and `secant` are NaN where a curve is broken."""
    blank = np.full((1, secant.shape[1]), np.nan)
    width = np.where(np.isnan(secant), np.nan, width)
    before, after = np.vstack([blank, secant]), np.vstack([secant, blank])
    h_before, h_after = np.vstack([blank, width]), np.vstack([width, blank])
    inner = _inner(h_before, h_after, before, after)
    begins = np.isnan(before) & ~np.isnan(after)
    ends = np.isnan(after) & ~np.isnan(before)
    slope = np.where(begins, _end(after, h_after, _shift(after, -1), _shift(h_after, -1)), inner)
    return np.where(ends, _end(before, h_before, _shift(before, 1), _shift(h_before, 1)), slope)


def _shift(values: FloatArray, by: int) -> FloatArray:
    moved = np.full_like(values, np.nan)
    if by > 0:
        moved[by:] = values[:-by]
    else:
        moved[:by] = values[-by:]
    return moved


def _inner(
    h_before: FloatArray, h_after: FloatArray, before: FloatArray, after: FloatArray
) -> FloatArray:
    """Weigh the secants' harmonic mean; 0 at a turning point."""
    w_before, w_after = 2 * h_after + h_before, h_after + 2 * h_before
    flat = before * after <= 0
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = (w_before + w_after) / (w_before / before + w_after / after)
    return np.asarray(np.where(flat, 0.0, mean))


def _end(near: FloatArray, h_near: FloatArray, far: FloatArray, h_far: FloatArray) -> FloatArray:
    """Give the slope at a curve's end from its last two secants, kept from overshooting."""
    slope = ((2 * h_near + h_far) * near - h_near * far) / (h_near + h_far)
    turned = np.sign(slope) != np.sign(near)
    steep = (np.sign(near) != np.sign(far)) & (np.abs(slope) > 3 * np.abs(near))
    slope = np.where(turned, 0.0, np.where(steep, 3 * near, slope))
    return np.asarray(np.where(np.isnan(far), near, slope))
