"""MFCC and log-mel features of one channel of audio.

Rules
-----
- Samples are float32 in +-1, rows of features float32, one a frame. Dither is always 0.
- A length in ms is floor(ms * rate / 1000) samples, as Kaldi has it, for every preset.
- n samples give max(0, 1 + floor((n + slack) / hop)) rows; row t stands for the second
  (middle + t * hop) / rate and rests on `win` samples from `first + t * hop` on. Samples outside
  of the signal are made by the pad mode. h = floor(n_fft / 2), all in samples:

      framing                     first                    middle     slack         padded
      center                      (n_fft - win)//2 - h     0          2 h - n_fft   yes
      no center                   (n_fft - win)//2         h          -n_fft        no
      snip edges (kaldi)          0                        win / 2    -win          no
      no snip edges (kaldi)       hop//2 - win//2          hop//2     hop//2 - hop  yes

- A file shorter than a window gives at least one row where frames are centred (librosa,
  torchaudio), no row where nothing is padded (kaldi), and with --no-snip-edges one row a whole hop,
  the remainder rounded. Reflection repeats as often as it must. Silence gives the logarithm of the
  floor in every band. No sample, one that is not finite, or samples whose squares overflow float32
  are a DataError.
- The bytes of a file's features depend on the file, the recipe, on whether `_bands.c` was compiled
  and on the processor's kernels, not on what was computed before nor on the number of threads.

References
----------
librosa.feature.mfcc, librosa.feature.delta (0.11); torchaudio.transforms.MFCC; Kaldi's
feature-window.cc, mel-computations.cc, feature-mfcc.cc, followed by kaldi-native-fbank; HTK book.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmprep.errors import DataError
from mmprep.mfcc.bands import ROWS_AT_ONCE, TILE_ROWS, Frames, bands_of
from mmprep.mfcc.columns import finished
from mmprep.mfcc.filters import Product, cosines, mel_filters
from mmprep.mfcc.frames import fft_length, framing, length
from mmprep.mfcc.recipe import DB, FAMILIES, FLOAT32_EPS, Recipe
from mmprep.mfcc.windows import PADS, FeatureArray
from mmprep.timebase import FloatArray, rate


def _checked(samples: NDArray[Any]) -> FeatureArray:
    if samples.ndim != 1:
        raise DataError(
            f"the samples have the shape {samples.shape}, expected one channel",
            hint="choose a channel or mix them down",
        )
    if samples.size == 0:
        raise DataError("the audio has no sample")
    checked = np.asarray(samples, dtype=np.float32)
    is_finite = np.isfinite(checked)
    if not is_finite.all():
        index = int(is_finite.argmin())
        raise DataError(f"sample {index} is {checked[index]}, expected a finite number")
    return checked


class Extractor:
    """Compute the features of files of one rate by one recipe.

    Filters, window, matrices and buffers are made once. An instance keeps buffers between calls,
    so it serves one thread at a time; results don't depend on earlier calls.

    Parameters
    ----------
    recipe : Recipe
        What to compute.
    rate_hz : int, float or Fraction [Hz]
        Rate of the samples.

    Raises
    ------
    UsageError
        The recipe has no meaning at this rate: a band above half of it, a window below a sample.
    """

    def __init__(self, recipe: Recipe, rate_hz: float | Fraction) -> None:
        self.recipe, self.rate_hz = recipe, rate(rate_hz)
        self._family = FAMILIES[recipe.preset]
        self.n_win = length(recipe.win_ms, recipe.win_samples, self.rate_hz, "win")
        self.n_hop = length(recipe.hop_ms, recipe.hop_samples, self.rate_hz, "hop")
        self.n_fft = fft_length(recipe, self.n_win)
        self._framing = framing(recipe, self.n_win, self.n_hop, self.n_fft)
        filters = mel_filters(recipe, self.rate_hz, self.n_fft)
        self.empty_bands = tuple(np.flatnonzero(~filters.any(axis=0)).tolist())
        self._bands = bands_of(recipe, filters, self.n_win, self.n_fft)
        matrix = cosines(recipe)
        self._dct, self._n_tile = Product(matrix, TILE_ROWS), TILE_ROWS
        self._first = recipe.n_mfcc - 1 if recipe.htk_compat else 0
        self._first_gain = np.float32(matrix[:, self._first].sum())
        self._signal = np.zeros(0, np.float32)

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return len(self.feature_names)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the columns: `c0`, `mel0`, `energy`, `delta_c0`, `delta2_c0` and so on."""
        recipe = self.recipe
        if recipe.features == "mfcc":
            names = [f"c{k}" for k in range(recipe.n_mfcc)]
            names[:1] = ["energy"] if recipe.energy else names[:1]
        else:
            names = ["energy"] * recipe.energy + [f"mel{k}" for k in range(recipe.n_mels)]
        if recipe.htk_compat and (recipe.features == "mfcc" or recipe.energy):
            names = names[1:] + names[:1]
        prefixes = ("", "delta_", "delta2_")[: recipe.delta + 1]
        return tuple(prefix + name for prefix in prefixes for name in names)

    @property
    def hop_s(self) -> Fraction:
        """The time from row to row."""
        return self.n_hop / self.rate_hz

    @property
    def offset_s(self) -> Fraction:
        """The time of row 0 after the first sample: the middle of its window."""
        return self._framing.middle / self.rate_hz

    def n_frames(self, n_samples: int) -> int:
        """Count the rows of a file: max(0, 1 + floor((n_samples + slack) / hop)), 0 for none."""
        return self._framing.n_frames(n_samples, self.n_hop)

    def frame_times_s(self, n_samples: int) -> FloatArray:
        """Give the times of the rows, offset_s + t * hop_s, [shape=(n_frames,), float64, s]."""
        steps = np.arange(self.n_frames(n_samples)) * self.n_hop + float(self._framing.middle)
        return steps * self.rate_hz.denominator / self.rate_hz.numerator

    def features(self, samples: NDArray[Any]) -> FeatureArray:
        """Compute the features of one file.

        Parameters
        ----------
        samples : [shape=(n_samples,), float32, +-1]
            One channel.

        Returns
        -------
        [shape=(n_frames, n_features), float32]
            One row a frame; none where not one frame fits.

        Raises
        ------
        DataError
            No sample, more than one channel, or a sample that is not finite or far too large.
        """
        checked = _checked(samples)
        n_frames = self.n_frames(checked.size)
        if n_frames == 0:
            return np.zeros((0, self.n_features), np.float32)
        # Zero in an empty band, and squares that overflow, are dealt with in _columns.
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            logs, energies = self._logs(self._framed(checked, n_frames))
            columns = self._columns(logs, n_frames)
        if self.recipe.energy:
            columns = self._with_energy(columns, energies[:n_frames])
        return finished(columns, self.recipe)

    def _framed(self, samples: FeatureArray, n_frames: int) -> Frames:
        """Pad and scale the signal, and lay frames on it."""
        n, first = samples.size, self._framing.first
        before = max(0, -first)
        after = max(0, first + (n_frames - 1) * self.n_hop + self.n_win - n)
        if self._signal.size < before + n + after:
            self._signal = np.zeros(before + n + after, np.float32)
        signal, scale = self._signal, self._family.scale
        inside = signal[before : before + n]
        np.multiply(samples, np.float32(scale), out=inside)
        fill, reach = PADS[self.recipe.pad_mode], self.n_fft // 2
        if before:
            signal[:before] = fill(inside, np.arange(-before, 0), reach)
        if after:
            signal[before + n : before + n + after] = fill(inside, np.arange(n, n + after), reach)
        return Frames(signal, first + before, self.n_hop, n_frames, self.n_win)

    def _logs(self, frames: Frames) -> tuple[FeatureArray, FeatureArray]:
        """Give the natural logarithms of bands and energies; rows are filled up to a dozen."""
        n_rows = -(-frames.n_frames // ROWS_AT_ONCE) * ROWS_AT_ONCE
        logs = np.ones((n_rows, self.recipe.n_mels), np.float32)
        energies = np.ones(n_rows, np.float32)
        self._bands(frames, logs, energies)
        return np.log(logs, out=logs), energies

    def _columns(self, logs: FeatureArray, n_frames: int) -> FeatureArray:
        """Turn the logarithms of bands, which it overwrites, into coefficients or decibels."""
        level = self._take_level(logs, n_frames)
        if not np.isfinite(level).all():
            raise DataError("the samples are too large for float32, expected them in +-1")
        if self.recipe.features == "logmel":
            decibels: FeatureArray = (logs[:n_frames] + level) * np.float32(self._family.gain)
            return decibels
        columns = np.empty((len(logs), self.recipe.n_mfcc), np.float32)
        for begin in range(0, len(logs), self._n_tile):
            tile = slice(begin, begin + self._n_tile)
            self._dct(logs[tile], columns[tile])
        columns = columns[:n_frames]
        columns[:, self._first] += level[:, 0] * self._first_gain
        return columns

    def _take_level(self, logs: FeatureArray, n_frames: int) -> FeatureArray:
        """Subtract a level a row in place, the least with top_db, else its mean, and return it.

        The level goes into the first coefficient only. Added up with 80 bands, one equal number
        80 times over would cost it two digits (0.0007 instead of 0.0001).
        """
        least, top_db = np.float32(math.log(self._family.floor)), self.recipe.top_db
        if top_db is None:
            np.clip(logs, least, np.float32(np.inf), out=logs)
            level: FeatureArray = logs.mean(axis=1, keepdims=True)
            np.subtract(logs, level, out=logs)
            return level[:n_frames]
        loudest = logs[:n_frames].max() - np.float32(top_db / DB)
        level = np.full((1, 1), np.maximum(least, loudest), np.float32)
        np.subtract(logs, level, out=logs)
        np.clip(logs, np.float32(0), np.float32(np.inf), out=logs)  # twice as fast as maximum
        return level

    def _with_energy(self, columns: FeatureArray, energies: FeatureArray) -> FeatureArray:
        energies = np.log(np.maximum(energies, np.float32(FLOAT32_EPS)))
        at = -1 if self.recipe.htk_compat else 0
        if self.recipe.features == "mfcc":
            columns[:, at] = energies
            return columns
        parts = [energies[:, None], columns]
        return np.concatenate(parts[:: at or 1], axis=1)
