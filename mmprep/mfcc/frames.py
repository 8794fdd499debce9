"""Where frames lie, and how long they are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from mmprep.errors import UsageError
from mmprep.mfcc.recipe import Recipe
from mmprep.timebase import rate


@dataclass(frozen=True, slots=True)
class Framing:
    """Where frames lie, in samples: the table at the head of `extractor`."""

    first: int
    middle: Fraction
    slack: int

    def n_frames(self, n_samples: int, hop: int) -> int:
        """Count the frames of so many samples."""
        return max(0, 1 + (n_samples + self.slack) // hop) if n_samples > 0 else 0


def framing(recipe: Recipe, win: int, hop: int, n_fft: int) -> Framing:
    """Lay frames as the recipe has it: the table at the head of `extractor`."""
    half, inset = n_fft // 2, (n_fft - win) // 2
    if recipe.snip_edges is None:
        if recipe.center:
            return Framing(inset - half, Fraction(0), 2 * half - n_fft)
        return Framing(inset, Fraction(half), -n_fft)
    if recipe.snip_edges:
        return Framing(0, Fraction(win, 2), -win)
    return Framing(hop // 2 - win // 2, Fraction(hop // 2), hop // 2 - hop)


def length(in_ms: float | None, in_samples: int | None, rate_hz: Fraction, name: str) -> int:
    """Count the samples of a window or hop, floor(ms * rate / 1000)."""
    if in_samples is not None:
        return in_samples
    n_samples = math.floor(rate(in_ms or 0.0) * rate_hz / 1000)
    if n_samples < 1:
        raise UsageError(
            f"{in_ms} ms are less than a sample at {float(rate_hz):g} Hz", where=f"--{name}-ms"
        )
    return n_samples


def fft_length(recipe: Recipe, win: int) -> int:
    """Count the samples of the transform."""
    if recipe.n_fft == "window":
        return win
    if recipe.n_fft == "power2":
        return 1 << (win - 1).bit_length()
    n_fft = int(recipe.n_fft)
    if n_fft < win:
        raise UsageError(
            f"an FFT of {n_fft} samples is shorter than the window of {win}", where="--n-fft"
        )
    return n_fft
