"""Band-limited interpolation of evenly spaced samples at any positions.

Rules
-----
- The kernel is a sinc under a Kaiser window (beta 9, 24 zero crossings a side), scaled so that its
  taps add up to 1 at every position: constants stay exact. Its pass-band ends at 0.88 of the band,
  its stop-band (-90 dB) begins at 1.12; going down, the band is shrunk so that the stop-band
  begins at the target's Nyquist rate.
- A position on a sample gives that sample, unless the band is shrunk.
- Within the kernel's reach of a run's end there is no full kernel. There the best linear
  prediction from the run's own samples takes its place, for a signal whose spectrum falls with
  frequency and a little noise: constants stay exact, 1 Hz in 128 comes within 0.01 %, 10 Hz 1 %,
  27 Hz 5 % in the outermost interval and a tenth of that four samples further in. Where the band
  is half of the source's or less, it is the part of the kernel inside the run, scaled to 1.
- Between samples the kernel is, per tap, a polynomial of degree 7 in the position (error below
  1e-5 at Nyquist), so that a run is filtered by 8 fixed filters, by FFT, and each output is one
  polynomial: Farrow's structure. Blocks are laid from the run's begin, so that a run gives the
  same values however its outputs are asked for, to within the last bits. Short runs (below a
  quarter of a block) take the kernel as it is.

References
----------
Smith, "Digital audio resampling", https://ccrma.stanford.edu/~jos/resample; Farrow, "A
continuously variable digital delay element", ISCAS 1988; Cressie, "Statistics for spatial data",
Wiley 1993, section 3.2 (prediction with an unknown mean).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy import fft
from numpy.typing import NDArray

from mmprep.align.spline import Spline
from mmprep.timebase import FloatArray

Values: TypeAlias = NDArray[Any]

CROSSINGS = 24
BETA = 9.0
DEGREE = 7
ROLLOFF = 0.88
SAME_RATE = 0.995
WIDE_BAND = 0.5

# Boxes of noise power, each up to a share of the source's band: about 1 / f squared.
_SPECTRUM = ((0.03, 1e4), (0.06, 1e3), (0.12, 1e2), (0.25, 10.0), (0.5, 1.0), (0.9, 0.3))
_NOISE = 1e-3
_BEFORE = 32  # knots before distance 0, where the spline is still straight
# I0(x) = sum (x^2 / 4)^k / k!^2; what follows the last term is below 1e-17 of the whole.
_BESSEL = [(BETA**2 / 4) ** k / math.factorial(k) ** 2 for k in range(36)]
_KAISER = [term / math.fsum(_BESSEL) for term in _BESSEL]
_MAX_REACH = 4 * math.ceil(CROSSINGS / WIDE_BAND) + 2
_MIN_FFT = 1024
_BLOCK_BYTES = 1 << 20


def cutoff(source_hz: float, target_hz: float | None) -> float:
    """Choose the band of the kernel as a share of the source's.

    Returns
    -------
    float
        1 where the target is as fast as the source (to 0.5 %), else 0.88 target / source.
    """
    if target_hz is None or target_hz >= SAME_RATE * source_hz:
        return 1.0
    return ROLLOFF * target_hz / source_hz


def reach(band: float) -> int:
    """Give the samples that the kernel reaches to either side."""
    return math.ceil(CROSSINGS / band)


def kernel(offset: FloatArray, band: float) -> FloatArray:
    """Evaluate the kernel before it is scaled.

    Parameters
    ----------
    offset : [shape=(...), float64]
        Sample position less output position, in samples.
    """
    inside = 1 - (offset * band / CROSSINGS) ** 2
    return np.asarray(np.where(inside >= 0, np.sinc(band * offset) * _kaiser(inside), 0.0))


def _kaiser(inside: FloatArray) -> FloatArray:
    """Evaluate I0(beta sqrt(inside)) / I0(beta) by its power series; `inside` up to 1."""
    total = np.zeros_like(inside)
    for term in _KAISER[::-1]:
        total = total * inside + term
    return total


def interpolate(values: Values, positions: FloatArray, band: float) -> Values:
    """Interpolate one unbroken run.

    Parameters
    ----------
    values : [shape=(n, n_channels), float32 or float64]
        Finite, n >= 1.
    positions : [shape=(m,), float64]
        Rising, in `[0, n - 1]`.
    band : float
        See `cutoff`.

    Returns
    -------
    [shape=(m, n_channels), dtype of values]
    """
    half, last = reach(band), values.shape[0] - 1
    first_full = int(np.searchsorted(positions, half - 1))
    first_cut = max(int(np.searchsorted(positions, last - half + 1)), first_full)
    out = np.empty((positions.size, values.shape[1]), dtype=values.dtype)
    full = slice(first_full, first_cut)
    out[full] = _inside(values, positions[full], band)
    edge = _predicted if band > WIDE_BAND else _cut_kernel
    if values.shape[0] <= 2 * half:
        ends = np.r_[0:first_full, first_cut : positions.size]
        out[ends] = edge(values, positions[ends], band)
    else:
        skip = values.shape[0] - 2 * half
        out[:first_full] = edge(values[: 2 * half], positions[:first_full], band)
        out[first_cut:] = edge(values[skip:], positions[first_cut:] - skip, band)
    if band == 1.0:
        hits = np.flatnonzero(positions == np.floor(positions))
        out[hits] = values[positions[hits].astype(np.int64)]
    return out


def interpolate_slowly(values: Values, positions: FloatArray, band: float) -> Values:
    """Interpolate as `interpolate` does away from the ends, term by term: the oracle."""
    return _cut_kernel(values, positions, band)


def span(band: float) -> tuple[int, int]:
    """Give the margin of samples that an output needs around it, and the stride of blocks."""
    filters = _filters(band)
    return 4 * filters.half + filters.n_fft, filters.stride


@dataclass(frozen=True, slots=True)
class _Filters:
    half: int
    n_fft: int
    spectra: Values  # (DEGREE + 1, n_fft // 2 + 1), complex

    @property
    def stride(self) -> int:
        return self.n_fft - 2 * self.half + 1


@lru_cache(maxsize=16)
def _filters(band: float) -> _Filters:
    """Fit the kernel's taps by polynomials in the position between two samples."""
    half = reach(band)
    offset = np.arange(1 - half, half + 1)
    node = np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))
    taps = kernel(offset - (node[:, None] + 1) / 2, band)
    taps /= taps.sum(axis=1, keepdims=True)
    coefficients = np.linalg.solve(np.vander(node, increasing=True), taps)
    n_fft = max(_MIN_FFT, 1 << (8 * half - 1).bit_length())
    return _Filters(half, n_fft, np.conj(fft.rfft(coefficients.astype(np.float32), n_fft)))


def _inside(values: Values, positions: FloatArray, band: float) -> Values:
    """Interpolate where the kernel lies inside the run whole."""
    filters = _filters(band)
    if values.shape[0] <= filters.n_fft // 4:
        return _cut_kernel(values, positions, band)
    out = np.empty((positions.size, values.shape[1]), dtype=values.dtype)
    n_blocks = max(_BLOCK_BYTES // (filters.n_fft * values.shape[1] * 4), 1)
    low = 0
    while low < positions.size:
        begin = (int(positions[low]) - filters.half + 1) // filters.stride * filters.stride
        high = int(np.searchsorted(positions, begin + n_blocks * filters.stride + filters.half - 1))
        at = positions[low:high] - (begin + filters.half - 1)
        blocks = values[begin : begin + (n_blocks - 1) * filters.stride + filters.n_fft]
        out[low:high] = _blocks(blocks, filters, at)
        low = high
    return out


def _blocks(values: Values, filters: _Filters, positions: FloatArray) -> Values:
    """Filter a few blocks and evaluate the polynomial of each output.

    Position p lies between samples p + half - 1 and p + half of values.
    """
    at = np.minimum(positions.astype(np.int64), values.shape[0] - 2 * filters.half)
    centred = (2 * (positions - at) - 1).astype(np.float32)
    blocks, offset = _cut_blocks(values, int(at[-1]) // filters.stride + 1, filters)
    spectrum = fft.rfft(blocks)
    block, inside = np.divmod(at, filters.stride)
    at = block * filters.n_fft + inside
    out = np.zeros((values.shape[1], at.size), dtype=np.float32)
    for power in range(DEGREE, -1, -1):
        filtered = fft.irfft(spectrum * filters.spectra[power], filters.n_fft)
        out *= centred
        out += filtered.reshape(values.shape[1], -1).take(at, axis=1)
    return np.asarray(out + offset.take(block, axis=1), dtype=values.dtype).T


def _cut_blocks(values: Values, n_blocks: int, filters: _Filters) -> tuple[Values, Values]:
    """Lay samples out in overlapping blocks, each less its first sample.

    Without that offset single precision holds the rest of a block to 1e-6 of its spread.
    """
    blocks = np.zeros((values.shape[1], n_blocks, filters.n_fft), dtype=np.float32)
    firsts = np.arange(n_blocks) * filters.stride
    offset = values[np.minimum(firsts, values.shape[0] - 1)].T
    for block, first in enumerate(firsts.tolist()):
        piece = values[first : first + filters.n_fft].T
        blocks[:, block, : piece.shape[1]] = piece - offset[:, block : block + 1]
    return blocks, offset


def _cut_kernel(values: Values, positions: FloatArray, band: float) -> Values:
    """Interpolate with what lies inside the run of the kernel, scaled to 1."""
    half = reach(band)
    out = np.empty((positions.size, values.shape[1]), dtype=values.dtype)
    rows = max(_BLOCK_BYTES // (16 * half * max(values.shape[1], 1)), 1)
    offset = np.arange(1 - half, half + 1)
    for low in range(0, positions.size, rows):
        at = positions[low : low + rows]
        sample = np.floor(at).astype(np.int64)[:, None] + offset
        taps = kernel(sample - at[:, None], band)
        taps[(sample < 0) | (sample >= values.shape[0])] = 0.0
        taps /= taps.sum(axis=1, keepdims=True)
        gathered = values[np.clip(sample, 0, values.shape[0] - 1)]
        out[low : low + rows] = np.einsum("mt,mtc->mc", taps, gathered)
    return out


def _predicted(values: Values, positions: FloatArray, band: float) -> Values:
    """Interpolate by the best linear prediction from all samples given."""
    del band
    if positions.size == 0:
        return values[:0]
    number = np.arange(values.shape[0])
    inverse, mean = _prediction(values.shape[0])
    weights = _covariance()(np.abs(positions[:, None] - number)) @ inverse
    weights += (1 - weights.sum(axis=1, keepdims=True)) * mean
    offset = values[:1]
    return np.asarray(weights @ (values - offset) + offset, dtype=values.dtype)


@lru_cache(maxsize=1)
def _covariance() -> Spline:
    """Tabulate the covariance of the signals expected, over the distance in samples."""
    distance = np.arange(-_BEFORE, 16 * _MAX_REACH) / 16
    return Spline.through(
        distance, np.sum([power * np.sinc(top * distance) for top, power in _SPECTRUM], axis=0)
    )


@lru_cache(maxsize=512)
def _prediction(n_samples: int) -> tuple[FloatArray, FloatArray]:
    """Invert the covariance of some samples; give also the weights of their best mean."""
    number = np.arange(n_samples)
    covariance = _covariance()(np.abs(number[:, None] - number)) + _NOISE * np.eye(n_samples)
    inverse = np.asarray(np.linalg.inv(covariance), dtype=np.float64)
    mean = inverse.sum(axis=0)
    return inverse, mean / mean.sum()
