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

- Files are computed in blocks of about a minute, each held no longer than needed: see `blocks`.
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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import starmap
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mmprep.errors import DataError
from mmprep.mfcc.bands import ROWS_AT_ONCE, TILE_ROWS, Frames, bands_of
from mmprep.mfcc.blocks import Blocks, Cut, pieces_of, rows_a_block
from mmprep.mfcc.columns import moments_of, normalize, widened
from mmprep.mfcc.filters import Product, cosines, mel_filters
from mmprep.mfcc.frames import fft_length, framing, length
from mmprep.mfcc.recipe import DB, FAMILIES, FLOAT32_EPS, Recipe
from mmprep.mfcc.windows import FeatureArray
from mmprep.timebase import FloatArray, rate


class Held(Protocol):
    """Arrays that are kept until all are there, as a list does."""

    def append(self, array: FeatureArray, /) -> None:
        """Take one more."""

    def __iter__(self) -> Iterator[FeatureArray]:
        """Give them in order; the caller may overwrite them."""


@dataclass(frozen=True, slots=True)
class _Logs:
    """The natural logarithms of the bands and energies of a block's frames.

    Parameters
    ----------
    rows : [shape=(n_rows, n_mels), float32]
        n_rows is n_frames filled up to a dozen.
    energies : [shape=(n_frames,), float32]
    """

    rows: FeatureArray
    energies: FeatureArray

    @property
    def n_frames(self) -> int:
        """The number of frames."""
        return len(self.energies)


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
        n_rows = rows_a_block(self.n_hop, max(recipe.n_mels, self.n_features))
        lengths = (self.n_hop, self.n_win, self.n_fft)
        cut = Cut(self._framing, *lengths, recipe.pad_mode, self._family.scale, n_rows)
        self._blocks = Blocks(cut)
        matrix = cosines(recipe)
        self._dct, self._n_tile = Product(matrix, TILE_ROWS), TILE_ROWS
        self._least = np.float32(math.log(self._family.floor))
        self._first = recipe.n_mfcc - 1 if recipe.htk_compat else 0
        self._first_gain = np.float32(matrix[:, self._first].sum())

    @cached_property
    def n_features(self) -> int:
        """The number of columns."""
        return len(self.feature_names)

    @cached_property
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

    @cached_property
    def hop_s(self) -> Fraction:
        """The time from row to row."""
        return self.n_hop / self.rate_hz

    @cached_property
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
        columns = list(self.blocks(pieces_of(samples)))
        if not columns:
            return np.zeros((0, self.n_features), np.float32)
        if self.recipe.cmvn == "utterance":
            over = moments_of(columns)
            columns = [normalize(block, over) for block in columns]
        return columns[0] if len(columns) == 1 else np.concatenate(columns)

    def blocks(
        self, pieces: Iterable[NDArray[Any]], held: Held | None = None
    ) -> Iterator[FeatureArray]:
        """Compute the features of a file that comes in pieces, in blocks of rows.

        The blocks joined are those of `features` bit for bit, whatever the pieces, but for `cmvn`,
        which is left to the caller: it takes all rows.

        Parameters
        ----------
        pieces : iterable of [shape=(n,), float32, +-1]
            One channel.
        held : Held, optional
            Where bands are kept until the loudest of the file is known; the default is a list.

        Yields
        ------
        [shape=(n, n_features), float32]

        Raises
        ------
        DataError
            See `features`.
        """
        logs = map(self._logs, self._blocks.frames(pieces))
        leveled = self._leveled(logs, [] if held is None else held)
        return widened(starmap(self._columns, leveled), self.recipe.delta)

    def _logs(self, frames: Frames) -> _Logs:
        n_rows = -(-frames.n_frames // ROWS_AT_ONCE) * ROWS_AT_ONCE
        rows = np.ones((n_rows, self.recipe.n_mels), np.float32)
        energies = np.ones(frames.n_frames, np.float32)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            self._bands(frames, rows, energies)  # squares may overflow: seen in the level
            return _Logs(np.log(rows, out=rows), energies)  # of zero in an empty band

    def _leveled(self, logs: Iterable[_Logs], held: Held) -> Iterator[tuple[_Logs, FeatureArray]]:
        top_db = self.recipe.top_db
        return (
            map(self._less_mean, logs) if top_db is None else self._less_lowest(logs, top_db, held)
        )

    # A level goes into the first coefficient only. Added up with 80 bands, one equal number 80
    # times over would cost it two digits (0.0007 instead of 0.0001).

    def _less_mean(self, logs: _Logs) -> tuple[_Logs, FeatureArray]:
        """Subtract its mean from each row, in place, and give the means."""
        rows = logs.rows
        np.clip(rows, self._least, np.float32(np.inf), out=rows)
        level: FeatureArray = rows.mean(axis=1, keepdims=True)
        np.subtract(rows, _finite(level), out=rows)
        return logs, level[: logs.n_frames]

    def _less_lowest(
        self, blocks: Iterable[_Logs], top_db: float, held: Held
    ) -> Iterator[tuple[_Logs, FeatureArray]]:
        """Subtract what is kept at least from all rows of a file, in place, and give it."""
        energies: list[FeatureArray] = []
        loudest = np.float32(-np.inf)
        for logs in blocks:
            loudest = np.maximum(loudest, logs.rows[: logs.n_frames].max())
            held.append(logs.rows)
            energies.append(logs.energies)
        lowest = np.maximum(self._least, loudest - np.float32(top_db / DB))
        level = _finite(np.full((1, 1), lowest, np.float32))
        for rows, energy in zip(held, energies, strict=True):
            np.subtract(rows, level, out=rows)
            np.clip(rows, np.float32(0), np.float32(np.inf), out=rows)  # twice as fast as maximum
            yield _Logs(rows, energy), level

    def _columns(self, logs: _Logs, level: FeatureArray) -> FeatureArray:
        """Turn the logarithms of bands less their level into coefficients or decibels."""
        if self.recipe.features == "logmel":
            bands = (logs.rows[: logs.n_frames] + level) * np.float32(self._family.gain)
            return self._with_energy(bands, logs) if self.recipe.energy else bands
        columns = np.empty((len(logs.rows), self.recipe.n_mfcc), np.float32)
        for begin in range(0, len(columns), self._n_tile):
            tile = slice(begin, begin + self._n_tile)
            self._dct(logs.rows[tile], columns[tile])
        columns = columns[: logs.n_frames]
        columns[:, self._first] += level[:, 0] * self._first_gain
        return self._with_energy(columns, logs) if self.recipe.energy else columns

    def _with_energy(self, columns: FeatureArray, logs: _Logs) -> FeatureArray:
        energies = np.log(np.maximum(_finite(logs.energies), np.float32(FLOAT32_EPS)))
        at = -1 if self.recipe.htk_compat else 0
        if self.recipe.features == "mfcc":
            columns[:, at] = energies
            return columns
        parts = [energies[:, None], columns]
        return np.concatenate(parts[:: at or 1], axis=1)


def _finite(values: FeatureArray) -> FeatureArray:
    """Refuse what squares that overflow leave behind."""
    if not np.isfinite(values).all():
        raise DataError("the samples are too large for float32, expected them in +-1")
    return values
