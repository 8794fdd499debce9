"""Mel filters and the cosine transform as matrices, and products with them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mmprep.errors import UsageError
from mmprep.mfcc.recipe import FAMILIES, Recipe
from mmprep.mfcc.windows import FeatureArray
from mmprep.timebase import FloatArray

# OpenBLAS runs a product in one thread up to this many multiplications (interface/gemm.c).
_ONE_THREAD = 65536 * 4


_LINEAR_MELS_PER_HZ = 3 / 200
_LOG_FROM_HZ = 1000.0
_LOG_FROM_MEL = 15.0
_LOG_STEP = math.log(6.4) / 27


def _hz_to_mel(hz: FloatArray, scale: str) -> FloatArray:
    if scale == "htk":
        return 2595.0 * np.log10(1.0 + hz / 700.0)
    above = _LOG_FROM_MEL + np.log(np.maximum(hz, _LOG_FROM_HZ) / _LOG_FROM_HZ) / _LOG_STEP
    return np.where(hz >= _LOG_FROM_HZ, above, hz * _LINEAR_MELS_PER_HZ)


def _mel_to_hz(mel: FloatArray, scale: str) -> FloatArray:
    if scale == "htk":
        return 700.0 * (10.0 ** (mel / 2595.0) - 1.0)
    above = _LOG_FROM_HZ * np.exp(_LOG_STEP * (np.maximum(mel, _LOG_FROM_MEL) - _LOG_FROM_MEL))
    return np.where(mel >= _LOG_FROM_MEL, above, mel / _LINEAR_MELS_PER_HZ)


def _band_limits_hz(recipe: Recipe, rate_hz: Fraction) -> tuple[float, float, float]:
    """Give fmin, fmax and half the rate, and refuse what does not lie in this order."""
    is_whole = FAMILIES[recipe.preset].is_whole_nyquist
    nyquist = float(math.floor(rate_hz / 2)) if is_whole else float(rate_hz / 2)
    fmax = nyquist if recipe.fmax is None else recipe.fmax
    fmax = fmax if fmax > 0 else nyquist + fmax
    if not recipe.fmin < fmax <= nyquist:
        raise UsageError(
            f"no bands from {recipe.fmin:g} to {fmax:g} Hz at a rate of {float(rate_hz):g} Hz",
            where="--fmax",
            hint=f"keep 0 <= fmin < fmax <= {nyquist:g}",
        )
    return recipe.fmin, fmax, nyquist


def mel_filters(recipe: Recipe, rate_hz: Fraction, n_fft: int) -> FloatArray:
    """Make the triangular filters, [shape=(1 + n_fft // 2, n_mels)].

    Triangles are straight over Hz, in Kaldi over mel and without the bin at half the rate.
    """
    family = FAMILIES[recipe.preset]
    fmin, fmax, nyquist = _band_limits_hz(recipe, rate_hz)
    ends = _hz_to_mel(np.array([fmin, fmax]), recipe.mel_scale)
    corners_mel = np.linspace(ends[0], ends[1], recipe.n_mels + 2)
    corners_hz = _mel_to_hz(corners_mel, recipe.mel_scale)
    bins_hz = np.arange(1 + n_fft // 2) * float(rate_hz) / n_fft
    if family.is_whole_nyquist:
        bins_hz = np.linspace(0, nyquist, 1 + n_fft // 2)
    if family.is_mel_triangle:
        filters = _triangles(_hz_to_mel(bins_hz, recipe.mel_scale), corners_mel)
        filters[n_fft // 2 :] = 0
    else:
        filters = _triangles(bins_hz, corners_hz)
    return filters * _filter_gains(filters, corners_hz, recipe.mel_norm)


def _triangles(bins: FloatArray, corners: FloatArray) -> FloatArray:
    widths = np.diff(corners)
    rising = (bins[:, None] - corners[:-2]) / widths[:-1]
    falling = (corners[2:] - bins[:, None]) / widths[1:]
    return np.maximum(0, np.minimum(rising, falling))


def _filter_gains(filters: FloatArray, corners_hz: FloatArray, norm: str | float) -> FloatArray:
    if norm == "none":
        return np.ones(filters.shape[1])
    if norm == "slaney":
        return 2.0 / (corners_hz[2:] - corners_hz[:-2])
    length = np.linalg.norm(filters, ord=float(norm), axis=0)
    return 1 / np.where(length > 0, length, 1)


def cosines(recipe: Recipe) -> FloatArray:
    """Make the matrix from logarithms of bands to coefficients, [shape=(n_mels, n_mfcc)].

    DCT-II, lifter, the unit of the logarithm and HTK's order in one.
    """
    family = FAMILIES[recipe.preset]
    order = np.arange(recipe.n_mfcc)
    phase = np.pi * (np.arange(recipe.n_mels) + 0.5)[:, None] / recipe.n_mels
    matrix = 2 * np.cos(phase * order) * family.gain
    if recipe.dct_norm == "ortho":
        matrix *= np.where(order == 0, math.sqrt(0.5), 1.0) / math.sqrt(2 * recipe.n_mels)
    if recipe.lifter > 0:
        sine = np.sin(np.pi * (order + family.lifter_from) / recipe.lifter)
        matrix *= 1 + recipe.lifter / 2 * sine
    if recipe.htk_compat:
        matrix[:, 0] *= math.sqrt(2)
        matrix = np.roll(matrix, -1, axis=1)
    return matrix


class Product:
    """Multiply tiles of rows with one matrix: out = rows @ matrix.

    The columns are taken in groups, each with only the rows of the matrix between the first and
    last that is not zero in it, and each small enough to stay in one thread of OpenBLAS.
    """

    def __init__(self, matrix: FloatArray, n_rows: int) -> None:
        self._parts = [
            (inner, outer, np.ascontiguousarray(matrix[inner, outer], dtype=np.float32))
            for inner, outer in _groups(matrix != 0, _ONE_THREAD // n_rows)
        ]

    def __call__(self, rows: FeatureArray, out: FeatureArray) -> None:
        """Write the product of some rows, at most as many as were planned."""
        for inner, outer, matrix in self._parts:
            np.matmul(rows[:, inner], matrix, out=out[:, outer])


def _groups(filled: NDArray[np.bool_], most: int) -> list[tuple[slice, slice]]:
    """Cut columns into groups of at most `most` filled rows times columns, or of one column."""
    groups: list[tuple[slice, slice]] = []
    begin = 0
    for column in range(1, filled.shape[1] + 1):
        is_last = column == filled.shape[1]
        if is_last or _area(filled[:, begin : column + 1]) > most:
            groups.append((_extent(filled[:, begin:column]), slice(begin, column)))
            begin = column
    return groups


def _extent(filled: NDArray[np.bool_]) -> slice:
    rows = np.flatnonzero(filled.any(axis=1))
    return slice(int(rows[0]), int(rows[-1]) + 1) if rows.size else slice(0, 1)


def _area(filled: NDArray[np.bool_]) -> int:
    extent = _extent(filled)
    return int((extent.stop - extent.start) * filled.shape[1])
