"""Values of a repaired stream at given times.

Rules
-----
- `linear`, `cubic` and `sinc` are valid where both neighbours (or the one sample that the time
  hits) lie in one unbroken run. Nothing is interpolated across a gap.
- `nearest` takes the nearest sample, of two the earlier; `hold` the last one at or before the
  time. They are valid within the tolerance: by default half a source period, for hold one. Inside
  an unbroken run the default is 2.5 % wider, so that a stream that runs slow by some ppm, or whose
  stamps are rounded, has no holes.
- Events have no period: holding them needs a tolerance.
- A missing reading (NaN) is a gap of its channel alone: an output is NaN where one of its two
  neighbours is, and nothing is interpolated across. An output without any channel is not valid.
- Invalid outputs are NaN, -1 for frame ranks, None for text.
- An output rests on: the sample picked; the neighbours (linear, cubic); all samples within the
  main lobe of the kernel, inside the run (sinc: the neighbours, and going down all samples within
  source rate / 0.88 target rate).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmprep.align import sinc
from mmprep.align.axis import STAMP_S, Neighbours, neighbours
from mmprep.align.cubic import cubic, linear
from mmprep.align.repaired import Repaired
from mmprep.errors import DataError, UsageError
from mmprep.timebase import NS_PER_S, BoolArray, FloatArray, IntArray

LOW_RATE_HZ = 20.0
NO_FRAME = -1
_LOOSER = 1.025


@dataclass(frozen=True, slots=True)
class Aligned:
    """Values at m times.

    Parameters
    ----------
    values : [shape=(m, *frame_shape)]
        float32; int32 for frame ranks, object for text.
    valid : [shape=(m,), bool]
    error_s : [shape=(m,), float64, s], optional
        Of nearest and hold: the time of the sample picked less the time asked for; NaN if invalid.
    support : [shape=(m, 2), int64]
        The samples `[begin, end)` of the repaired stream that each output rests on; empty if
        invalid.
    """

    values: NDArray[Any]
    valid: BoolArray
    error_s: FloatArray | None
    support: IntArray


def default_method(repaired: Repaired, rate_hz: Fraction) -> str:
    """Choose a method by the kind of stream.

    Returns
    -------
    str
        `nearest` for video; `hold` for text and flags; `cubic` for irregular streams and for those
        below 20 Hz that are not thinned by more than a third; else `sinc`.
    """
    if repaired.kind == "video":
        return "nearest"
    if repaired.source.dtype.kind in "OSUb":
        return "hold"
    source_hz = repaired.effective_rate_hz
    if not repaired.is_regular or (source_hz < LOW_RATE_HZ and rate_hz >= 0.67 * source_hz):
        return "cubic"
    return "sinc"


def resample(
    repaired: Repaired,
    times_s: FloatArray,
    *,
    origin_ns: int,
    method: str,
    rate_hz: Fraction | None = None,
    tolerance_s: float | None = None,
) -> Aligned:
    """Give a stream's values at some times.

    The memory used grows with the span of the times: long sessions are taken in slices, which
    must not depend on the number of workers if the last bits matter.

    Parameters
    ----------
    repaired : Repaired
    times_s : [shape=(m,), float64, s]
        From `origin_ns` on the session clock, in any order.
    method : str
        `hold`, `nearest`, `linear`, `cubic` or `sinc`.
    rate_hz : Fraction, optional
        The target rate: `sinc` lowers its band to it.
    tolerance_s : float, optional
        For `nearest` and `hold`.

    Raises
    ------
    UsageError
        An unknown method.
    DataError
        Text, events or frame ranks that should be interpolated, or a sinc through an irregular
        stream.
    """
    if method not in METHODS:
        raise UsageError(f"no method {method!r}, but {', '.join(METHODS)}", where=repaired.name)
    if method not in PICKERS:
        _check_numbers(repaired, method)
    own_s = times_s + (origin_ns - repaired.origin_ns) / NS_PER_S
    found = neighbours(repaired.axis, repaired.runs, own_s, repaired.edge_slack_s)
    return METHODS[method](_Task(repaired, own_s, found, rate_hz, tolerance_s))


def _check_numbers(repaired: Repaired, method: str) -> None:
    """Refuse to interpolate what has nothing in between."""
    kind = repaired.kind if repaired.kind in ("events", "video") else None
    if kind or repaired.source.dtype.kind not in "fiub":
        raise DataError(
            f"{method} needs numbers, not {kind or repaired.source.dtype}",
            where=repaired.name,
            hint=f"--method {repaired.name}=hold or nearest",
        )


@dataclass(frozen=True, slots=True)
class _Task:
    stream: Repaired
    times_s: FloatArray
    found: Neighbours
    rate_hz: Fraction | None
    tolerance_s: float | None


def _nearest(task: _Task) -> Aligned:
    left = task.found.left
    right = np.minimum(left + 1, max(task.stream.n_samples - 1, 0))
    off_left, off_right = _offsets(task, left), _offsets(task, right)
    near = np.where(np.abs(off_right) < np.abs(off_left) - STAMP_S, right, left)
    return _picked(task, near, np.where(near == left, off_left, off_right), periods=0.5)


def _hold(task: _Task) -> Aligned:
    left = task.found.left
    return _picked(task, left, _offsets(task, left), periods=1.0)


def _offsets(task: _Task, samples: IntArray) -> FloatArray:
    """Give the time of each sample less the time asked for."""
    if samples.size == 0 or task.stream.n_samples == 0:
        return np.full(samples.shape, np.nan)
    low = int(samples.min())
    return task.stream.axis.seconds(low, int(samples.max()) + 1)[samples - low] - task.times_s


def _picked(task: _Task, samples: IntArray, error_s: FloatArray, *, periods: float) -> Aligned:
    limit = np.full(samples.shape, task.tolerance_s if task.tolerance_s is not None else np.nan)
    if task.tolerance_s is None:
        inside = (task.found.run >= 0) & (task.found.fraction > 0)
        limit = periods * _longer_period(task.stream) * np.where(inside, _LOOSER, 1.0)
    valid = np.abs(error_s) <= limit + STAMP_S
    if periods == 1.0:  # hold never looks ahead
        valid &= error_s <= STAMP_S
    if task.stream.n_samples == 0:
        return _nothing(task)
    picked = task.stream.pick(samples)
    valid &= _some(picked)
    return Aligned(
        values=_marked(picked, valid, is_video=task.stream.kind == "video"),
        valid=valid,
        error_s=np.where(valid, error_s, np.nan),
        support=_support(samples, samples + 1, valid),
    )


def _longer_period(stream: Repaired) -> float:
    """Give the source period: the nominal, or the measured one where that is longer, s."""
    measured = 1 / stream.effective_rate_hz
    return max(stream.period_s, measured) if stream.is_regular else stream.period_s


def nothing_like(values: NDArray[Any]) -> float | None:
    """Give what stands for no value in an output: NaN, -1 for frame ranks, None for text."""
    return {"O": None, "i": NO_FRAME}.get(values.dtype.kind, np.nan)


def _marked(picked: NDArray[Any], valid: BoolArray, *, is_video: bool) -> NDArray[Any]:
    wide = valid.reshape(-1, *[1] * (picked.ndim - 1))
    if is_video:
        return np.where(wide, picked, NO_FRAME).astype(np.int32)
    if picked.dtype.kind in "fiub":
        return np.where(wide, picked, np.nan).astype(np.float32)
    text = picked.astype(object)
    text[~valid] = None
    return text


def _some(values: NDArray[Any]) -> BoolArray:
    """Mark the rows in which any channel has a reading."""
    if values.dtype.kind != "f":
        return np.ones(values.shape[0], dtype=bool)
    return np.asarray(~np.isnan(values).reshape(values.shape[0], -1).all(axis=1))


def _linear(task: _Task) -> Aligned:
    def through(part: _Part) -> NDArray[Any]:
        return linear(part.values, part.left, part.fraction)

    return _interpolated(task, through, margin=1)


def _cubic(task: _Task) -> Aligned:
    def through(part: _Part) -> NDArray[Any]:
        return cubic(part.values, part.seconds, part.breaks, part.left, part.fraction)

    return _interpolated(task, through, margin=3)


@dataclass(frozen=True, slots=True)
class _Part:
    """The samples around the valid times, counted from the first of them."""

    values: FloatArray  # (n, n_channels)
    seconds: FloatArray
    breaks: BoolArray
    left: IntArray
    fraction: FloatArray


def _interpolated(task: _Task, through: Callable[[_Part], NDArray[Any]], *, margin: int) -> Aligned:
    found, stream = task.found, task.stream
    inside = found.run >= 0
    if not inside.any():
        return _nothing(task)
    left = found.left[inside]
    low = max(int(left.min()) - margin, 0)
    high = min(int(left.max()) + margin + 2, stream.n_samples)
    breaks = np.zeros(high - low - 1, dtype=bool)
    cuts = stream.runs[1:-1] - 1 - low
    breaks[cuts[(cuts >= 0) & (cuts < breaks.size)]] = True
    values = stream.values(low, high)
    part = _Part(
        values.reshape(high - low, -1).astype(np.float64),
        stream.axis.seconds(low, high),
        breaks,
        left - low,
        found.fraction[inside],
    )
    end = found.left + 1 + (found.fraction > 0)
    return _filled(task, inside, through(part), found.left, end)


def _sinc(task: _Task) -> Aligned:
    stream, found = task.stream, task.found
    if not stream.is_regular:
        raise DataError(
            f"sinc needs evenly spaced samples: {stream.repairs.reason}",
            where=stream.name,
            hint=f"--method {stream.name}=cubic",
        )
    target = float(task.rate_hz) if task.rate_hz is not None else None
    band = sinc.cutoff(stream.effective_rate_hz, target)
    inside = found.run >= 0
    position, run = found.position[inside], found.run[inside]
    n_channels = int(np.prod(stream.source.shape[1:], dtype=np.int64))
    out = np.empty((position.size, n_channels), dtype=np.float32)
    for number, chosen in _by_run(run, position):
        bounds = (int(stream.runs[number]), int(stream.runs[number + 1]))
        out[chosen] = _through_run(stream, bounds, position[chosen], band)
    begin, end = _lobe(task, band)
    return _filled(task, inside, out, begin, end)


def _by_run(run: IntArray, position: FloatArray) -> list[tuple[int, IntArray]]:
    """Group outputs by run, each group in order of position."""
    order = np.lexsort((position, run))
    groups = np.split(order, np.flatnonzero(np.diff(run[order])) + 1)
    return [(int(run[group[0]]), group) for group in groups if group.size]


def _through_run(
    stream: Repaired, bounds: tuple[int, int], position: FloatArray, band: float
) -> NDArray[Any]:
    """Interpolate in one run, channels with missing readings each on their own."""
    margin, stride = sinc.span(band)
    low = max((int(position[0]) - margin - bounds[0]) // stride, 0) * stride + bounds[0]
    high = min(int(position[-1]) + margin + 1, bounds[1])
    values = stream.values(low, high).reshape(high - low, -1)
    if values.dtype != np.float32:
        values = values.astype(np.float64)
    missing = np.isnan(values)
    holed = missing.any(axis=0)
    if not holed.any():
        return sinc.interpolate(values, position - low, band)
    out = np.full((position.size, values.shape[1]), np.nan, dtype=np.float32)
    whole = np.flatnonzero(~holed)
    if whole.size:
        out[:, whole] = sinc.interpolate(values[:, whole], position - low, band)
    for channel in np.flatnonzero(holed):
        column = values[:, channel]
        out[:, channel] = _through_holes(column, missing[:, channel], position - low, band)
    return out


def _through_holes(
    column: NDArray[Any], missing: BoolArray, position: FloatArray, band: float
) -> NDArray[Any]:
    """Interpolate in each stretch between missing readings."""
    out = np.full(position.size, np.nan, dtype=np.float32)
    edges = np.flatnonzero(np.diff(np.concatenate([[True], missing, [True]]).astype(np.int8)))
    for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        part = slice(*np.searchsorted(position, [begin, np.nextafter(end - 1, end)]).tolist())
        if part.start < part.stop:
            values = column[begin:end, None]
            out[part] = sinc.interpolate(values, position[part] - begin, band)[:, 0]
    return out


def _lobe(task: _Task, band: float) -> tuple[IntArray, IntArray]:
    """Give the samples in the main lobe of each output's kernel, inside its run."""
    found, runs = task.found, task.stream.runs
    if band == 1.0:
        return found.left, found.left + 1 + (found.fraction > 0)
    position, run = found.position, np.maximum(found.run, 0)
    begin = np.maximum(np.ceil(position - 1 / band).astype(np.int64), runs[run])
    end = np.minimum(np.floor(position + 1 / band).astype(np.int64) + 1, runs[run + 1])
    return begin, end


def _filled(
    task: _Task, inside: BoolArray, values: NDArray[Any], begin: IntArray, end: IntArray
) -> Aligned:
    shape = (inside.size, *task.stream.source.shape[1:])
    out = np.full(shape, np.nan, dtype=np.float32)
    out[inside] = values.reshape(-1, *shape[1:])
    valid = inside & _some(out)
    return Aligned(out, valid, None, _support(begin, end, valid))


def _support(begin: IntArray, end: IntArray, valid: BoolArray) -> IntArray:
    return np.where(valid[:, None], np.stack([begin, end], axis=1), 0)


def _nothing(task: _Task) -> Aligned:
    """Give outputs none of which is valid."""
    shape = (task.times_s.size, *task.stream.source.shape[1:])
    blank = np.zeros(shape, dtype=task.stream.source.dtype)
    valid = np.zeros(shape[0], dtype=bool)
    return Aligned(
        _marked(blank, valid, is_video=task.stream.kind == "video"),
        valid,
        np.full(shape[0], np.nan),
        np.zeros((shape[0], 2), dtype=np.int64),
    )


METHODS: dict[str, Callable[[_Task], Aligned]] = {
    "hold": _hold,
    "nearest": _nearest,
    "linear": _linear,
    "cubic": _cubic,
    "sinc": _sinc,
}
PICKERS = frozenset({"hold", "nearest"})
