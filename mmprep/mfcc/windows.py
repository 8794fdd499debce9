"""Windows, and what stands beyond the ends of a signal: shapes, no recipe."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmprep.errors import UsageError
from mmprep.timebase import FloatArray, IntArray

FeatureArray: TypeAlias = NDArray[np.float32]

# w[i] = sum_k (-1)^k a[k] cos(2 pi k i / d), d the length (periodic) or one less (symmetric).
_COSINE_SUMS = {
    "hann": (0.5, 0.5),
    "hanning": (0.5, 0.5),
    "hamming": (0.54, 0.46),
    "blackman": (0.42, 0.5, 0.08),
    "blackmanharris": (0.35875, 0.48829, 0.14128, 0.01168),
    "rectangular": (1.0,),
    "boxcar": (1.0,),
}
# Both are Kaldi's.
_CURVES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "povey": lambda turn: (0.5 - 0.5 * np.cos(turn)) ** 0.85,
    "sine": lambda turn: np.sin(turn / 2),
}


def window(name: str, n_samples: int, *, is_periodic: bool) -> FloatArray:
    """Make a window, [shape=(n_samples,), float64]."""
    # kaldi-native-fbank added `hann` to Kaldi's `hanning` as the periodic one.
    length = n_samples if is_periodic or name == "hann" else n_samples - 1
    turn = 2 * np.pi * np.arange(n_samples) / max(1, length)
    if name in _CURVES:
        return _CURVES[name](turn)
    if name not in _COSINE_SUMS:
        return _scipy_window(name, n_samples, is_periodic=is_periodic)
    terms = [(-1) ** k * a * np.cos(k * turn) for k, a in enumerate(_COSINE_SUMS[name])]
    return np.asarray(sum(terms), dtype=np.float64)


def _scipy_window(name: str, n_samples: int, *, is_periodic: bool) -> FloatArray:
    from scipy.signal import get_window  # half a second, for a rare window

    try:
        return np.asarray(get_window(name, n_samples, fftbins=is_periodic), dtype=np.float64)
    except ValueError as error:
        known = ", ".join([*_COSINE_SUMS, *_CURVES])
        raise UsageError(
            f"{name!r} is not a window", where="--window", hint=f"use {known}, or a name of scipy's"
        ) from error


def _pad_edge(samples: FeatureArray, index: IntArray, _reach: int) -> FeatureArray:
    return samples[np.clip(index, 0, samples.size - 1)]


def _pad_ramp(samples: FeatureArray, index: IntArray, reach: int) -> FeatureArray:
    distance = np.maximum(-index, index - samples.size + 1)
    return _pad_edge(samples, index, reach) * np.maximum(0, 1 - distance / reach)


def _pad_reflect(samples: FeatureArray, index: IntArray, _reach: int) -> FeatureArray:
    period = max(1, 2 * (samples.size - 1))
    folded = index % period
    return samples[np.minimum(folded, period - folded)]


def _pad_symmetric(samples: FeatureArray, index: IntArray, _reach: int) -> FeatureArray:
    folded = index % (2 * samples.size)
    return samples[np.minimum(folded, 2 * samples.size - 1 - folded)]


# Values at sample numbers outside of the signal, as numpy.pad makes them over `reach` samples.
PADS: dict[str, Callable[[FeatureArray, IntArray, int], FeatureArray | float]] = {
    "constant": lambda _samples, _index, _reach: 0.0,
    "edge": _pad_edge,
    "linear_ramp": _pad_ramp,
    "reflect": _pad_reflect,
    "symmetric": _pad_symmetric,
}
