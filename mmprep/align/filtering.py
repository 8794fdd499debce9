"""Filters and references before windows: values of a repaired stream, at its own rate.

Rules
-----
- Each gap-free stretch is filtered by itself. An output rests on a whole kernel of readings: half a
  kernel at both ends of a stretch is missing (NaN), and so is a stretch shorter than the kernel.
- A missing reading of a channel is an end of its stretch.
- A reference is taken off before the filter: the mean of the channels that have a reading.
- Blocks are laid from the begin of a stretch: the values do not depend on who asks for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mmprep.align.repaired import Repaired
from mmprep.errors import DataError, UsageError
from mmprep.rows import Store
from mmprep.timebase import FloatArray

BLOCK_ROWS = 1 << 15
AVERAGE = "average"


@dataclass(frozen=True, slots=True)
class Treatment:
    """What is done to the readings of a stream.

    Parameters
    ----------
    kernel : [shape=(n_taps,), float64], optional
        A zero-phase filter: symmetric, n_taps odd.
    reference : tuple of str
        The channels whose mean is taken off all; `average` for all of them.
    """

    kernel: FloatArray | None = None
    reference: tuple[str, ...] = ()

    @property
    def edge_rows(self) -> int:
        """How many readings are missing at both ends of a stretch."""
        return 0 if self.kernel is None else self.kernel.size // 2


def treated(repaired: Repaired, treatment: Treatment, store: Store) -> Repaired:
    """Filter a stream and take a reference off.

    Parameters
    ----------
    store : Store
        Keeps the new readings.

    Returns
    -------
    Repaired
        With readings in order of time, float64, NaN where missing; rows that were not kept follow
        behind them as NaN, so that the count of rows stays.

    Raises
    ------
    DataError
        The stream holds no numbers, or does not lie evenly.
    UsageError
        It has no such channel.
    """
    if repaired.kind in {"video", "events"} or repaired.source.dtype.kind not in "fiub":
        raise DataError("only numbers can be filtered", where=repaired.name)
    if treatment.kernel is not None and not repaired.is_regular:
        raise DataError(
            f"a filter needs evenly spaced samples: {repaired.repairs.reason}",
            where=repaired.name,
            hint="leave it out of --filter",
        )
    reference = _columns(repaired, treatment.reference)
    kept = store.begin(tuple(repaired.source.shape[1:]), np.float64)
    for begin, end in zip(repaired.runs[:-1].tolist(), repaired.runs[1:].tolist(), strict=True):
        for values in _run(repaired, begin, end, treatment.kernel, reference):
            kept.add(values.reshape(-1, *repaired.source.shape[1:]))
    for values in _missing(repaired.n_in - repaired.n_samples, repaired.source.shape[1:]):
        kept.add(values)
    return replace(repaired, source=kept.rows(), rows=None)


def _columns(repaired: Repaired, names: Sequence[str]) -> list[int]:
    """Find the channels of a reference."""
    if tuple(names) == (AVERAGE,):
        return list(range(len(repaired.channels)))
    for name in names:
        if name not in repaired.channels:
            raise UsageError(
                f"there is no channel {name!r}",
                where=f"--reref {repaired.name}",
                hint=f"channels: {', '.join(repaired.channels)}; or {AVERAGE}",
            )
    return [repaired.channels.index(name) for name in names]


def _run(
    repaired: Repaired,
    begin: int,
    end: int,
    kernel: FloatArray | None,
    reference: Sequence[int],
) -> Iterator[FloatArray]:
    """Give the new readings of one gap-free stretch, block by block."""
    half = 0 if kernel is None else kernel.size // 2
    for low in range(begin, end, BLOCK_ROWS):
        high = min(low + BLOCK_ROWS, end)
        first, last = max(low - half, begin), min(high + half, end)
        values = repaired.values(first, last).reshape(last - first, -1).astype(np.float64)
        values = _rereferenced(values, reference)
        if kernel is None:
            yield values
            continue
        # What lies outside of the stretch is missing, too.
        around = ((first - (low - half), (high + half) - last), (0, 0))
        yield _filtered(np.pad(values, around, constant_values=np.nan), kernel)


def _rereferenced(values: FloatArray, reference: Sequence[int]) -> FloatArray:
    if not reference:
        return values
    chosen = values[:, list(reference)]
    known = ~np.isnan(chosen)
    total, count = np.where(known, chosen, 0.0).sum(axis=1), known.sum(axis=1)
    mean = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    return np.asarray(values - mean[:, None])


def _filtered(values: FloatArray, kernel: FloatArray) -> FloatArray:
    """Convolve; outputs that rest on a missing reading are missing."""
    from scipy.signal import oaconvolve

    missing = np.isnan(values)
    whole = np.where(missing, 0.0, values)
    out = oaconvolve(whole, kernel[:, None], mode="valid", axes=0)
    before = np.cumsum(np.pad(missing, ((1, 0), (0, 0))), axis=0)
    out[before[kernel.size :] > before[: -kernel.size]] = np.nan
    return np.asarray(out)


def _missing(n_rows: int, shape: tuple[int, ...]) -> Iterator[FloatArray]:
    for begin in range(0, n_rows, BLOCK_ROWS):
        yield np.full((min(BLOCK_ROWS, n_rows - begin), *shape), np.nan)
