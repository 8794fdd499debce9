"""Frames -> powers in mel bands: window, real transform, weights.

Rules
-----
- Where it was compiled and the transform is a power of two, `_bands.c` does all of it in one pass,
  four times as fast as numpy, scipy and BLAS; else they do it, with other roundings (1e-6).
- Frames and transform are float64 (in numpy's way rounded to float32 before the weights, as librosa
  does). float32 would leave noise 140 dB below a frame's loudest bin, which shows where a band as
  low as that is kept, or where the loudest bin is in no band: an error of 6 instead of 0.0005.
- Subtraction of the mean, energy and pre-emphasis are done a frame, in this order, as in Kaldi.
- Compiled, a frame's bits depend on nothing beside it. OpenBLAS rounds a row differently with the
  rows and threads beside it: there frames are computed in tiles counted from row 0, each product is
  too small for a second thread, and tiles are filled up to a dozen of rows, which the kernels for
  AVX and AVX2 take at a time, so that even the size of a tile doesn't show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mmprep.mfcc.filters import Product
from mmprep.mfcc.recipe import FAMILIES, Recipe
from mmprep.mfcc.windows import FeatureArray, window
from mmprep.timebase import FloatArray

try:
    from mmprep.mfcc._bands import powers as _powers
except ImportError:  # installed without a compiler, or an older one was compiled
    _powers = None  # type: ignore[assignment]

# Frames computed at a time: 144 was the fastest of 12 to 192 at 512 samples, 2 x faster than 12,
# and as fast as any at 2048. OpenBLAS takes 12 rows at a time and scipy.fft 4; the rest goes a
# slower way that rounds differently.
TILE_ROWS = 144
ROWS_AT_ONCE = 12
MOST_SAMPLES = 1 << 20  # of a compiled transform


@dataclass(frozen=True, slots=True)
class Frames:
    """Overlapping stretches of a padded signal.

    Parameters
    ----------
    signal : [shape=(n,), float32]
    offset, hop, n_frames, n_win : int
        Frame t is the `n_win` samples from `offset + t * hop` on.
    """

    signal: FeatureArray
    offset: int
    hop: int
    n_frames: int
    n_win: int

    def rows(self, begin: int, end: int) -> FeatureArray:
        """View frames `[begin, end)`, or as many as there are, [shape=(n, n_win)]."""
        return np.ndarray(
            (min(end, self.n_frames) - begin, self.n_win),
            np.float32,
            buffer=self.signal.data,
            offset=4 * (self.offset + begin * self.hop),
            strides=(4 * self.hop, 4),
        )


class Bands(Protocol):
    """What gives the powers in bands."""

    def __call__(self, frames: Frames, out: FeatureArray, energies: FeatureArray) -> None:
        """Write the powers of each frame, and its energy if the recipe wants it.

        Parameters
        ----------
        out : [shape=(n_rows, n_mels), float32]
            At least n_frames rows; those beyond are left as they are or overwritten.
        energies : [shape=(n_rows,), float32]
        """


def bands_of(recipe: Recipe, filters: FloatArray, n_win: int, n_fft: int) -> Bands:
    """Give the fastest way that there is.

    Parameters
    ----------
    filters : [shape=(1 + n_fft // 2, n_mels), float64]
    """
    fits = 4 <= n_fft <= MOST_SAMPLES and n_fft & (n_fft - 1) == 0
    kind = CompiledBands if _powers is not None and fits else NumpyBands
    return kind(recipe, filters, n_win, n_fft)


def _window_of(recipe: Recipe, n_win: int) -> FloatArray:
    return window(recipe.window, n_win, is_periodic=FAMILIES[recipe.preset].is_periodic)


class CompiledBands:
    """All in one pass by `_bands.c`."""

    def __init__(self, recipe: Recipe, filters: FloatArray, n_win: int, n_fft: int) -> None:
        filled = [np.flatnonzero(column) for column in filters.T]
        first = [int(rows[0]) if rows.size else 0 for rows in filled]
        ends = [int(rows[-1]) + 1 if rows.size else 0 for rows in filled]
        turn = 2 * np.pi * np.arange(n_fft) / n_fft
        columns = zip(filters.T, first, ends, strict=True)
        weights = np.concatenate([column[begin:end] for column, begin, end in columns])
        self._plan = (
            _window_of(recipe, n_win),
            np.stack([np.cos(turn), np.sin(turn)], axis=1),
            _order(n_fft // 2),
            np.array(first, np.int32),
            np.array(ends, np.int32) - np.array(first, np.int32),
            weights / 4,  # it gives four times the powers
            recipe.remove_dc,
            recipe.preemph,
        )
        self._wants_energy = recipe.energy

    def __call__(self, frames: Frames, out: FeatureArray, energies: FeatureArray) -> None:
        """Write powers and energies; see `Bands`."""
        n = frames.n_frames
        kept = energies[:n] if self._wants_energy else energies[:0]
        _powers(frames.signal, frames.offset, frames.hop, n, *self._plan, kept, out[:n])


def _order(n: int) -> NDArray[np.int32]:
    """Say where each bin of a transform of n complex numbers stands, [shape=(n,)].

    By four in place, decimating in frequency: the quarters hold bins 4 j, 4 j + 2, 4 j + 1 and
    4 j + 3, in this order, and so on within them.
    """
    bins = _bins_in_place(np.arange(n, dtype=np.int32))
    order = np.empty(n, np.int32)
    order[bins] = np.arange(n, dtype=np.int32)
    return order


def _bins_in_place(bins: NDArray[np.int32]) -> NDArray[np.int32]:
    if bins.size <= 2:
        return bins
    return np.concatenate([_bins_in_place(bins[start::4]) for start in (0, 2, 1, 3)])


class NumpyBands:
    """Tile by tile through numpy, scipy.fft and BLAS. Keeps buffers: for one thread at a time."""

    def __init__(self, recipe: Recipe, filters: FloatArray, n_win: int, n_fft: int) -> None:
        from scipy.fft import rfft  # a third of a second: not for those who only read a recipe

        self._rfft, self._recipe, self.n_tile = rfft, recipe, TILE_ROWS
        # Squares of real and imaginary parts lie side by side: adding them is part of the product.
        self.product = Product(np.repeat(filters, 2, axis=0), self.n_tile)
        shape = _window_of(recipe, n_win)
        self._before = shape[1:] * recipe.preemph
        shape[0] *= 1 - recipe.preemph
        self._window = shape
        self._frames = np.zeros((self.n_tile, n_fft))
        self._level = np.zeros((self.n_tile, n_win))
        self._lagged = np.zeros((self.n_tile, n_win - 1))

    def __call__(self, frames: Frames, out: FeatureArray, energies: FeatureArray) -> None:
        """Write powers and energies; see `Bands`. Rows beyond the frames are overwritten."""
        for begin in range(0, len(out), self.n_tile):
            tile = slice(begin, begin + self.n_tile)
            self._shape(frames.rows(begin, begin + self.n_tile), energies[tile])
            self.product(self._squares(len(out[tile])), out[tile])

    def _squares(self, n_rows: int) -> FeatureArray:
        """Square real and imaginary parts of the spectra, [shape=(n_rows, 2 + n_fft // 2 * 2)]."""
        spectrum = self._rfft(self._frames[:n_rows]).astype(np.complex64, copy=False)
        parts: FeatureArray = spectrum.view(np.float32)
        np.multiply(parts, parts, out=parts)
        return parts

    def _shape(self, frames: NDArray[Any], energies: FeatureArray) -> None:
        """Put mean-free, emphasised, windowed frames where the transform finds them."""
        n, recipe = len(frames), self._recipe
        level, out = frames, self._frames[:n, : self._window.size]
        if recipe.remove_dc:
            means = frames.mean(axis=1, keepdims=True, dtype=np.float64)
            level = np.subtract(frames, means, out=self._level[:n])
        if recipe.energy:
            energies[:n] = np.einsum("ij,ij->i", level, level)
        np.multiply(level, self._window, out=out)
        if recipe.preemph:
            lagged = np.multiply(level[:, :-1], self._before, out=self._lagged[:n])
            np.subtract(out[:, 1:], lagged, out=out[:, 1:])
