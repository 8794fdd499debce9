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
- Subtraction of the mean, energy and pre-emphasis are done a frame, in this order, as in Kaldi.
- The bytes of a file's features depend on the file, the recipe and the processor's kernels, not on
  what was computed before nor on the number of threads: frames are computed in tiles counted from
  row 0, and each matrix product is too small for a second thread. OpenBLAS rounds a row differently
  with the rows and threads beside it; tiles are filled up to a dozen of rows, which the kernels for
  AVX and AVX2 take at a time, so there even the size of a tile doesn't show.

References
----------
librosa.feature.mfcc, librosa.feature.delta (0.11); torchaudio.transforms.MFCC; Kaldi's
feature-window.cc, mel-computations.cc, feature-mfcc.cc, followed by kaldi-native-fbank; HTK book.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmprep.errors import DataError, UsageError
from mmprep.timebase import FloatArray, IntArray, rate

__all__ = ["Extractor", "Moments", "Recipe", "deltas", "moments", "normalize", "preset"]

FeatureArray: TypeAlias = NDArray[np.float32]

# Frames computed at a time: 144 was the fastest of 12 to 192 at 512 samples, 2 x faster than 12,
# and as fast as any at 2048. OpenBLAS takes 12 rows at a time and scipy.fft 4; the rest goes a
# slower way that rounds differently.
_TILE_ROWS = 144
_ROWS_AT_ONCE = 12
# OpenBLAS runs a product in one thread up to this many multiplications (interface/gemm.c).
_ONE_THREAD = 65536 * 4

_DB = 10 / math.log(10)
_FLOAT32_EPS = 2.0**-23
_FLOAT32_DB = 80.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """What a preset fixes and no option changes.

    Its logarithm is log(max(x, floor)) * gain, of samples times scale; the lifter's sine is counted
    from `lifter_from`; triangles are straight over mel or Hz; torchaudio halves the rate as an
    integer; with `is_double` frames are float64 where all bands are kept.
    """

    scale: float = 1.0
    floor: float = 1e-10
    gain: float = _DB
    is_periodic: bool = True
    lifter_from: int = 1
    is_mel_triangle: bool = False
    is_whole_nyquist: bool = False
    is_double: bool = False


_FAMILIES = {
    "librosa": _Family(is_double=True),
    "kaldi": _Family(
        scale=32768.0,
        floor=_FLOAT32_EPS,
        gain=1.0,
        is_periodic=False,
        lifter_from=0,
        is_mel_triangle=True,
        is_double=True,
    ),
    "torchaudio": _Family(is_whole_nyquist=True),
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """Every parameter that changes the features.

    Parameters
    ----------
    preset : str
        `librosa`, `kaldi` or `torchaudio`: names the formulas that have no option.
    features : str
        `mfcc` or `logmel` (dB for librosa and torchaudio, natural logarithm for kaldi).
    win_ms, hop_ms, win_samples, hop_samples : float [ms] or int [samples]
        Window and hop; exactly one of the two units each.
    n_fft : int or str
        Samples; `power2` the next power of two of the window, `window` the window itself.
    window : str
        A window of the preset's own code: periodic ones by scipy's names for librosa and
        torchaudio, symmetric ones by Kaldi's names for kaldi.
    center, snip_edges : bool or None
        How frames lie; `snip_edges` is kaldi's, `center` the others', the foreign one is None.
    pad_mode : str
        `constant`, `edge`, `linear_ramp`, `reflect` or `symmetric`.
    preemph, remove_dc, energy : float, bool, bool
        A frame: x[i] - preemph * x[i - 1]; less its mean; the logarithm of its energy (before
        pre-emphasis) in place of the first coefficient, or before the bands.
    htk_compat : bool
        First coefficient or energy last, and C0 times sqrt(2).
    fmin, fmax : float [Hz]
        fmax None is half the rate, 0 or less counts down from there.
    mel_scale : str
        `slaney` or `htk`.
    mel_norm : str or float
        `slaney`, `none`, `inf` or the p of a p-norm.
    dct_norm : str
        `ortho` or `none`.
    lifter : float
        0 for none. librosa: 1 + L/2 sin(pi (k + 1) / L); kaldi: 1 + L/2 sin(pi k / L).
    top_db : float or None
        Bands lie at most so far below the loudest of the file.
    delta : int
        0, 1 or 2 orders of differences over 9 rows.
    cmvn : str
        `none`, `utterance`, or `speaker` (left to the caller: see `Moments`).

    Raises
    ------
    UsageError
        A value outside of its range, or options that exclude each other.
    """

    preset: str = "librosa"
    features: str = "mfcc"
    n_mfcc: int = 13
    n_mels: int = 80
    win_ms: float | None = 25.0
    hop_ms: float | None = 10.0
    win_samples: int | None = None
    hop_samples: int | None = None
    n_fft: int | str = "power2"
    window: str = "hann"
    center: bool | None = True
    snip_edges: bool | None = None
    pad_mode: str = "constant"
    preemph: float = 0.0
    remove_dc: bool = False
    energy: bool = False
    htk_compat: bool = False
    fmin: float = 0.0
    fmax: float | None = None
    mel_scale: str = "slaney"
    mel_norm: str | float = "slaney"
    dct_norm: str = "ortho"
    lifter: float = 0.0
    top_db: float | None = 80.0
    delta: int = 0
    cmvn: str = "none"

    def __post_init__(self) -> None:
        _check_choices(self)
        _check_ranges(self)
        _check_lengths(self)
        _check_framing(self)
        _window(self.window, 16, is_periodic=_FAMILIES[self.preset].is_periodic)

    def to_json(self) -> dict[str, Any]:
        """Give the parameters as a JSON object in the order of the fields."""
        return dataclasses.asdict(self)


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _check_choices(recipe: Recipe) -> None:
    for name, allowed in _CHOICES.items():
        value = getattr(recipe, name)
        if value not in allowed:
            names = ", ".join(str(choice) for choice in allowed)
            raise UsageError(f"{value!r} is not one of {names}", where=_option(name))


def _check_ranges(recipe: Recipe) -> None:
    for name, (least, most) in _RANGES.items():
        value = getattr(recipe, name)
        if isinstance(value, int | float) and not least <= value <= most:
            raise UsageError(
                f"{value!r} is not between {least:g} and {most:g}", where=_option(name)
            )
    if recipe.features == "mfcc" and recipe.n_mfcc > recipe.n_mels:
        raise UsageError(
            f"{recipe.n_mfcc} coefficients of {recipe.n_mels} mel bands",
            where="--n-mfcc",
            hint="take at least as many --n-mels as --n-mfcc",
        )
    for name, words in (("n_fft", ("power2", "window")), ("mel_norm", ("slaney", "none", "inf"))):
        value = getattr(recipe, name)
        if isinstance(value, str) and value not in words:
            raise UsageError(
                f"{value!r} is neither a number nor one of {', '.join(words)}", where=_option(name)
            )


def _check_lengths(recipe: Recipe) -> None:
    for name in ("win", "hop"):
        in_ms, in_samples = (getattr(recipe, f"{name}_{unit}") for unit in ("ms", "samples"))
        if (in_ms is None) == (in_samples is None):
            raise UsageError(
                f"{name}_ms is {in_ms} and {name}_samples is {in_samples}, expected one of them"
            )


def _check_framing(recipe: Recipe) -> None:
    own, foreign = ("center", "snip_edges")
    if recipe.preset == "kaldi":
        own, foreign = foreign, own
    if getattr(recipe, own) is None or getattr(recipe, foreign) is not None:
        raise UsageError(
            f"preset {recipe.preset} lays its frames by {_option(own)}",
            where=_option(foreign),
            hint=f"use {_option(own)} or --no{_option(own)[1:]}",
        )


_PRESETS: dict[str, dict[str, Any]] = {
    "librosa": {},
    "kaldi": {
        "n_mels": 23,
        "window": "povey",
        "center": None,
        "snip_edges": True,
        "pad_mode": "symmetric",
        "preemph": 0.97,
        "remove_dc": True,
        "fmin": 20.0,
        "mel_scale": "htk",
        "mel_norm": "none",
        "lifter": 22.0,
        "top_db": None,
    },
    "torchaudio": {
        "n_mfcc": 40,
        "n_mels": 128,
        "win_samples": 400,
        "hop_samples": 200,
        "n_fft": "window",
        "pad_mode": "reflect",
        "mel_scale": "htk",
        "mel_norm": "none",
    },
}


def preset(name: str, **changes: Any) -> Recipe:
    """Make the recipe of a preset with some parameters changed.

    A window or hop in one unit replaces the preset's in the other. kaldi's energy is on for MFCC
    and off for log-mel features, as in Kaldi.

    Raises
    ------
    UsageError
        No such preset, or a value outside of its range.
    """
    if name not in _PRESETS:
        raise UsageError(f"{name!r} is not one of {', '.join(_PRESETS)}", where="--preset")
    values = {"preset": name, **_PRESETS[name]}
    if name == "kaldi":
        values["energy"] = changes.get("features", "mfcc") == "mfcc"
    for length in ("win", "hop"):
        given = changes if {f"{length}_ms", f"{length}_samples"} & set(changes) else values
        if given.get(f"{length}_samples") is not None:
            values[f"{length}_ms"] = None
        elif given is changes:
            values[f"{length}_samples"] = None
    return Recipe(**values | changes)


# Windows ------------------------------------------------------------------------------------------


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


def _window(name: str, n_samples: int, *, is_periodic: bool) -> FloatArray:
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


# Padding ------------------------------------------------------------------------------------------


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
_PADS: dict[str, Callable[[FeatureArray, IntArray, int], FeatureArray | float]] = {
    "constant": lambda _samples, _index, _reach: 0.0,
    "edge": _pad_edge,
    "linear_ramp": _pad_ramp,
    "reflect": _pad_reflect,
    "symmetric": _pad_symmetric,
}


# Mel filters and the cosine transform -------------------------------------------------------------


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
    is_whole = _FAMILIES[recipe.preset].is_whole_nyquist
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


def _mel_filters(recipe: Recipe, rate_hz: Fraction, n_fft: int) -> FloatArray:
    """Make the triangular filters, [shape=(1 + n_fft // 2, n_mels)].

    Triangles are straight over Hz, in Kaldi over mel and without the bin at half the rate.
    """
    family = _FAMILIES[recipe.preset]
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


def _cosines(recipe: Recipe) -> FloatArray:
    """Make the matrix from logarithms of bands to coefficients, [shape=(n_mels, n_mfcc)].

    DCT-II, lifter, the unit of the logarithm and HTK's order in one.
    """
    family = _FAMILIES[recipe.preset]
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


class _Product:
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


# Frames -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Framing:
    """Where frames lie, in samples: the table at the head of this module."""

    first: int
    middle: Fraction
    slack: int

    def n_frames(self, n_samples: int, hop: int) -> int:
        return max(0, 1 + (n_samples + self.slack) // hop) if n_samples > 0 else 0


def _framing(recipe: Recipe, win: int, hop: int, n_fft: int) -> _Framing:
    half, inset = n_fft // 2, (n_fft - win) // 2
    if recipe.snip_edges is None:
        if recipe.center:
            return _Framing(inset - half, Fraction(0), 2 * half - n_fft)
        return _Framing(inset, Fraction(half), -n_fft)
    if recipe.snip_edges:
        return _Framing(0, Fraction(win, 2), -win)
    return _Framing(hop // 2 - win // 2, Fraction(hop // 2), hop // 2 - hop)


def _length(in_ms: float | None, in_samples: int | None, rate_hz: Fraction, name: str) -> int:
    """Count the samples of a window or hop, floor(ms * rate / 1000)."""
    if in_samples is not None:
        return in_samples
    n_samples = math.floor(rate(in_ms or 0.0) * rate_hz / 1000)
    if n_samples < 1:
        raise UsageError(
            f"{in_ms} ms are less than a sample at {float(rate_hz):g} Hz", where=f"--{name}-ms"
        )
    return n_samples


def _fft_length(recipe: Recipe, win: int) -> int:
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


def _transform_dtype(recipe: Recipe) -> type[np.float32 | np.float64]:
    """Give the type of frames and transform.

    float32 leaves noise 140 dB below a frame's loudest bin, which shows where bands that low are
    kept: up to 0.03 in the coefficients of lossy recordings, instead of 0.0003. librosa has
    float64 there; Kaldi has float32 and that noise (0.025 in an MP3 of 44.1 kHz).
    """
    keeps_all = recipe.top_db is None or recipe.top_db > _FLOAT32_DB
    return np.float64 if keeps_all and _FAMILIES[recipe.preset].is_double else np.float32


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
        from scipy.fft import rfft  # a third of a second: not for those who only read a recipe

        self._rfft = rfft
        self.recipe, self.rate_hz = recipe, rate(rate_hz)
        self._family = _FAMILIES[recipe.preset]
        self.n_win = _length(recipe.win_ms, recipe.win_samples, self.rate_hz, "win")
        self.n_hop = _length(recipe.hop_ms, recipe.hop_samples, self.rate_hz, "hop")
        self.n_fft = _fft_length(recipe, self.n_win)
        self._framing = _framing(recipe, self.n_win, self.n_hop, self.n_fft)
        self._set_products()
        self._set_window()
        self._signal = np.zeros(0, np.float32)

    def _set_products(self) -> None:
        self._n_tile = _TILE_ROWS
        filters = _mel_filters(self.recipe, self.rate_hz, self.n_fft)
        self.empty_bands = tuple(np.flatnonzero(~filters.any(axis=0)).tolist())
        # Squares of real and imaginary parts lie side by side: adding them is part of the product.
        self._mel = _Product(np.repeat(filters, 2, axis=0), self._n_tile)
        cosines = _cosines(self.recipe)
        self._dct = _Product(cosines, self._n_tile)
        self._first = self.recipe.n_mfcc - 1 if self.recipe.htk_compat else 0
        self._first_gain = np.float32(cosines[:, self._first].sum())

    def _set_window(self) -> None:
        window = _window(self.recipe.window, self.n_win, is_periodic=self._family.is_periodic)
        dtype = _transform_dtype(self.recipe)
        self._before = (window[1:] * self.recipe.preemph).astype(dtype)
        window[0] *= 1 - self.recipe.preemph
        self._window = window.astype(dtype)
        self._frames = np.zeros((self._n_tile, self.n_fft), dtype)
        self._level = np.zeros((self._n_tile, self.n_win), dtype)
        self._lagged = np.zeros((self._n_tile, self.n_win - 1), dtype)

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
        return _finished(columns, self.recipe)

    def _framed(self, samples: FeatureArray, n_frames: int) -> FeatureArray:
        """View the padded signal as frames, [shape=(n_frames, n_win)], rows overlapping."""
        n, first = samples.size, self._framing.first
        before = max(0, -first)
        after = max(0, first + (n_frames - 1) * self.n_hop + self.n_win - n)
        if self._signal.size < before + n + after:
            self._signal = np.zeros(before + n + after, np.float32)
        signal, scale = self._signal, self._family.scale
        inside = signal[before : before + n]
        np.multiply(samples, np.float32(scale), out=inside)
        fill, reach = _PADS[self.recipe.pad_mode], self.n_fft // 2
        if before:
            signal[:before] = fill(inside, np.arange(-before, 0), reach)
        if after:
            signal[before + n : before + n + after] = fill(inside, np.arange(n, n + after), reach)
        return np.ndarray(
            (n_frames, self.n_win),
            np.float32,
            buffer=signal.data,
            offset=4 * (first + before),
            strides=(4 * self.n_hop, 4),
        )

    def _logs(self, frames: FeatureArray) -> tuple[FeatureArray, FeatureArray]:
        """Give the natural logarithms of bands and energies; rows are filled up to a dozen."""
        n_rows = -(-len(frames) // _ROWS_AT_ONCE) * _ROWS_AT_ONCE
        logs = np.empty((n_rows, self.recipe.n_mels), np.float32)
        energies = np.ones(n_rows, np.float32)
        for begin in range(0, n_rows, self._n_tile):
            tile = slice(begin, begin + self._n_tile)
            self._shape_frames(frames[tile], energies[tile])
            self._mel(self._squares(len(logs[tile])), logs[tile])
            np.log(logs[tile], out=logs[tile])
        return logs, energies

    def _squares(self, n_rows: int) -> FeatureArray:
        """Square real and imaginary parts of the spectra, [shape=(n_rows, 2 + n_fft // 2 * 2)]."""
        spectrum = self._rfft(self._frames[:n_rows]).astype(np.complex64, copy=False)
        parts: FeatureArray = spectrum.view(np.float32)
        np.multiply(parts, parts, out=parts)
        return parts

    def _shape_frames(self, frames: FeatureArray, energies: FeatureArray) -> None:
        """Put mean-free, emphasised, windowed frames where the transform finds them."""
        n, recipe = len(frames), self.recipe
        level, out = frames, self._frames[:n, : self.n_win]
        if recipe.remove_dc:
            means = frames.mean(axis=1, keepdims=True, dtype=self._level.dtype)
            level = np.subtract(frames, means, out=self._level[:n])
        if recipe.energy:
            energies[:n] = np.einsum("ij,ij->i", level, level)
        np.multiply(level, self._window, out=out)
        if recipe.preemph:
            lagged = np.multiply(level[:, :-1], self._before, out=self._lagged[:n])
            np.subtract(out[:, 1:], lagged, out=out[:, 1:])

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
        loudest = logs[:n_frames].max() - np.float32(top_db / _DB)
        level = np.full((1, 1), np.maximum(least, loudest), np.float32)
        np.subtract(logs, level, out=logs)
        np.clip(logs, np.float32(0), np.float32(np.inf), out=logs)  # twice as fast as maximum
        return level

    def _with_energy(self, columns: FeatureArray, energies: FeatureArray) -> FeatureArray:
        energies = np.log(np.maximum(energies, np.float32(_FLOAT32_EPS)))
        at = -1 if self.recipe.htk_compat else 0
        if self.recipe.features == "mfcc":
            columns[:, at] = energies
            return columns
        parts = [energies[:, None], columns]
        return np.concatenate(parts[:: at or 1], axis=1)


# Differences and normalisation --------------------------------------------------------------------


# Savitzky-Golay over 9 rows, polynomial degree = derivative: slope of the line, and twice the
# square term of the parabola.
_REACH = 4
_DELTA_WEIGHTS = {
    1: np.arange(-4, 5, dtype=np.float32) / np.float32(60),
    2: np.array([28, 7, -8, -17, -20, -17, -8, 7, 28], dtype=np.float32) / np.float32(462),
}


def deltas(features: FeatureArray, order: int = 1) -> FeatureArray:
    """Differentiate along rows as librosa.feature.delta does (width 9, mode interp).

    Parameters
    ----------
    features : [shape=(n_frames, n_features), float32]
    order : int
        1 or 2.

    Returns
    -------
    [shape=(n_frames, n_features), float32]
        sum_j w[j] x[t + j], j = -4 .. 4. The first and last four rows repeat their neighbour: the
        polynomial fitted to nine rows has one derivative of its own degree. Below nine rows, where
        librosa refuses, the first and last row of `features` are repeated outwards.
    """
    if len(features) == 0:
        return features.copy()
    is_short = len(features) <= 2 * _REACH
    padded = np.pad(features, ((_REACH, _REACH), (0, 0)), mode="edge") if is_short else features
    n_inner = len(padded) - 2 * _REACH
    inner = np.zeros((n_inner, features.shape[1]), np.float32)
    for shift, weight in enumerate(_DELTA_WEIGHTS[order]):
        inner += weight * padded[shift : shift + n_inner]
    return inner if is_short else np.pad(inner, ((_REACH, _REACH), (0, 0)), mode="edge")


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean and squared deviation of each column over n rows, to be merged over a speaker's files.

    Parameters
    ----------
    n_frames : int
        Rows seen.
    mean, deviation : [shape=(n_features,), float64]
        Mean, and sum of (x - mean)^2.
    """

    n_frames: int
    mean: FloatArray
    deviation: FloatArray

    def to_json(self) -> dict[str, Any]:
        """Give the moments as values that JSON can hold exactly."""
        lists = {"mean": self.mean.tolist(), "deviation": self.deviation.tolist()}
        return {"n_frames": self.n_frames, **lists}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Moments:
        """Read what `to_json` gave."""
        return cls(value["n_frames"], np.array(value["mean"]), np.array(value["deviation"]))

    def merge(self, other: Moments) -> Moments:
        """Give the moments of both sets of rows (Chan, Golub and LeVeque 1979)."""
        n_both = self.n_frames + other.n_frames
        if n_both == 0:
            return self
        step = other.mean - self.mean
        mean = self.mean + step * (other.n_frames / n_both)
        between = step**2 * (self.n_frames * other.n_frames / n_both)
        return Moments(n_both, mean, self.deviation + other.deviation + between)


def moments(features: FeatureArray) -> Moments:
    """Measure mean and squared deviation of each column, in float64."""
    if len(features) == 0:
        zero = np.zeros(features.shape[1])
        return Moments(0, zero, zero)
    mean = features.mean(axis=0, dtype=np.float64)
    return Moments(len(features), mean, ((features - mean) ** 2).sum(axis=0))


def normalize(features: FeatureArray, over: Moments) -> FeatureArray:
    """Give each column mean 0 and variance 1 over the rows that `over` has seen.

    Returns
    -------
    [shape=(n_frames, n_features), float32]
        (x - mean) / sqrt(deviation / n_frames); a column that never changes becomes 0.
    """
    spread = np.sqrt(over.deviation / max(1, over.n_frames))
    return ((features - over.mean) / np.where(spread > 0, spread, 1)).astype(np.float32)


def _finished(columns: FeatureArray, recipe: Recipe) -> FeatureArray:
    """Append differences, then normalise all columns."""
    if recipe.delta:
        orders = range(1, recipe.delta + 1)
        columns = np.concatenate([columns, *(deltas(columns, k) for k in orders)], axis=1)
    if recipe.cmvn == "utterance":
        return normalize(columns, moments(columns))
    return columns


_CHOICES: dict[str, tuple[Any, ...]] = {
    "preset": tuple(_FAMILIES),
    "features": ("mfcc", "logmel"),
    "pad_mode": tuple(_PADS),
    "mel_scale": ("slaney", "htk"),
    "dct_norm": ("ortho", "none"),
    "delta": (0, 1, 2),
    "cmvn": ("none", "utterance", "speaker"),
}
_TINY, _HUGE = 1e-9, 1e9
_RANGES = {
    "n_mfcc": (1, 4096),
    "n_mels": (1, 4096),
    "win_ms": (_TINY, _HUGE),
    "hop_ms": (_TINY, _HUGE),
    "win_samples": (1, _HUGE),
    "hop_samples": (1, _HUGE),
    "n_fft": (1, _HUGE),
    "preemph": (0, 1),
    "fmin": (0, _HUGE),
    "fmax": (-_HUGE, _HUGE),
    "mel_norm": (_TINY, _HUGE),
    "lifter": (0, _HUGE),
    "top_db": (0, _HUGE),
}
