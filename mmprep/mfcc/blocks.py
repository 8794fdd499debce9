"""A signal that comes in pieces -> its frames, in blocks that stay in memory.

Rules
-----
- A block holds the same frames whatever the pieces, `n_rows` of them, the last one fewer. So what
  is computed tile by tile from its first row on has the same bits for a file at once and in pieces.
- Of what has passed only as much is kept as the pad mode needs at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmprep.errors import DataError
from mmprep.mfcc.bands import TILE_ROWS, Frames
from mmprep.mfcc.frames import Framing
from mmprep.mfcc.windows import PADS, FeatureArray

BLOCK_VALUES = 1 << 20  # samples, or values of the result, that a block is made of


def rows_a_block(hop: int, n_columns: int) -> int:
    """Count the frames of a block: whole tiles, a minute at 16 kHz and a hop of 10 ms."""
    return TILE_ROWS * max(1, BLOCK_VALUES // (TILE_ROWS * max(hop, n_columns)))


def pieces_of(samples: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Cut samples into pieces, at least one."""
    for begin in range(0, max(1, len(samples)), BLOCK_VALUES):
        yield samples[begin : begin + BLOCK_VALUES]


@dataclass(frozen=True, slots=True)
class Cut:
    """How a signal is cut into frames, lengths in samples.

    Parameters
    ----------
    framing : Framing
        Where frames lie.
    hop, n_win, n_fft : int
        From frame to frame, of a frame, and of its transform.
    pad_mode : str
        What stands beyond the ends.
    scale : float
        What samples are multiplied with.
    n_rows : int
        Frames of a block.
    """

    framing: Framing
    hop: int
    n_win: int
    n_fft: int
    pad_mode: str
    scale: float
    n_rows: int

    @property
    def n_before(self) -> int:
        """Samples before the first that frames rest on."""
        return max(0, -self.framing.first)

    def begin(self, row: int) -> int:
        """Give the first sample of a frame; it may lie before the signal."""
        return self.framing.first + row * self.hop

    def n_whole(self, n_samples: int) -> int:
        """Count the frames that rest on so many samples alone, whatever follows."""
        n_inside = (n_samples - self.n_win - self.framing.first) // self.hop + 1
        return max(0, min(n_inside, self.framing.n_frames(n_samples, self.hop)))

    def pad(self, inside: FeatureArray, begin: int, end: int) -> FeatureArray | float:
        """Give the samples `[begin, end)` beyond the ends of `inside`."""
        return PADS[self.pad_mode](inside, np.arange(begin, end), self.n_fft // 2)


class Blocks:
    """The frames of one file after the other. Keeps a buffer: for one file at a time."""

    def __init__(self, cut: Cut) -> None:
        self._cut = cut
        self._signal = np.zeros(0, np.float32)
        self._begin = self._n_samples = 0  # sample number of the buffer's first, and the count

    def frames(self, pieces: Iterable[NDArray[Any]]) -> Iterator[Frames]:
        """Give the frames of a file, block by block; each only until the next is asked for.

        Parameters
        ----------
        pieces : iterable of [shape=(n,), float32, +-1]
            The samples of one channel.

        Raises
        ------
        DataError
            No sample, more than one channel, or a sample that is not finite.
        """
        self._begin, self._n_samples = -self._cut.n_before, 0
        row, step = 0, self._cut.n_rows
        for piece in pieces:
            self._append(piece, row)
            while self._cut.n_whole(self._n_samples) >= row + step:
                yield self._frames(row, step)
                row += step
        yield from self._rest(row)

    def _rest(self, row: int) -> Iterator[Frames]:
        if self._n_samples == 0:
            raise DataError("the audio has no sample")
        n_frames = self._cut.framing.n_frames(self._n_samples, self._cut.hop)
        if n_frames > row:
            self._pad_behind(self._cut.begin(n_frames - 1) + self._cut.n_win)
        for begin in range(row, n_frames, self._cut.n_rows):
            yield self._frames(begin, min(self._cut.n_rows, n_frames - begin))

    def _append(self, piece: NDArray[Any], row: int) -> None:
        """Take a piece, and let go of what no frame from `row` on needs."""
        samples = _checked(piece, self._n_samples)
        self._forget(self._cut.begin(row))
        self._reserve(self._n_samples + samples.size)
        np.multiply(samples, np.float32(self._cut.scale), out=self._inside(samples.size))
        self._n_samples += samples.size

    def _inside(self, n_more: int) -> FeatureArray:
        """View the part of the buffer behind the last sample."""
        at = self._n_samples - self._begin
        return self._signal[at : at + n_more]

    def _reserve(self, end: int) -> None:
        """Make room up to a sample number."""
        missing = end - self._begin - self._signal.size
        if missing > 0:
            grown = np.zeros(self._signal.size + missing, np.float32)
            grown[: self._signal.size] = self._signal
            self._signal = grown

    def _forget(self, begin: int) -> None:
        """Let go of the samples before one, but for those that padding behind the end repeats."""
        kept = min(begin, self._n_samples - self._cut.n_fft - self._cut.hop)
        if kept > self._begin:
            n_kept = self._n_samples - kept
            at = kept - self._begin
            self._signal[:n_kept] = self._signal[at : at + n_kept]
            self._begin = kept

    def _frames(self, row: int, n_rows: int) -> Frames:
        if row == 0 and self._cut.n_before:
            n_before = self._cut.n_before
            inside = self._signal[n_before : n_before + self._n_samples]
            self._signal[:n_before] = self._cut.pad(inside, -n_before, 0)
        offset = self._cut.begin(row) - self._begin
        return Frames(self._signal, offset, self._cut.hop, n_rows, self._cut.n_win)

    def _pad_behind(self, end: int) -> None:
        """Fill in what stands behind the last sample."""
        n_after = end - self._n_samples
        if n_after > 0:
            self._reserve(end)
            known = max(0, self._begin)  # the first sample that is still there
            inside = self._signal[known - self._begin : self._n_samples - self._begin]
            n_inside = self._n_samples - known
            self._inside(n_after)[:] = self._cut.pad(inside, n_inside, n_inside + n_after)


def _checked(samples: NDArray[Any], n_before: int) -> FeatureArray:
    if samples.ndim != 1:
        raise DataError(
            f"the samples have the shape {samples.shape}, expected one channel",
            hint="choose a channel or mix them down",
        )
    checked = np.asarray(samples, dtype=np.float32)
    is_finite = np.isfinite(checked)
    if not is_finite.all():
        index = int(is_finite.argmin())
        raise DataError(f"sample {n_before + index} is {checked[index]}, expected a finite number")
    return checked
