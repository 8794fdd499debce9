"""Streams onto windows, or onto records of their own length, block by block.

Rules
-----
- A block depends on the windows alone, so that the bytes do not depend on who computes them.
- Samples behind the end of a trial are not valid, whatever the stream has there, and are no gap.
- Of a record of its own length all samples are looked at first where a gap may drop it; a video's
  pictures are then decoded once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmprep import align
from mmprep.steps.sessions.modality import Modality, Wish
from mmprep.steps.sessions.windowlist import WindowList
from mmprep.steps.sessions.windowshards import WindowShards
from mmprep.timebase import BoolArray, FloatArray

BLOCK_BYTES = 4 * 2**20  # of values; what is made on the way takes many times as much
MAX_SAMPLES = 1 << 17  # a block of a record
Counts = dict[str, int]


class _Block(NamedTuple):
    """Values at some times, and what they rest on."""

    values: NDArray[Any]
    valid: BoolArray
    aligned: align.Aligned


def cut(
    chosen: list[Modality], plan: align.AnyPlan, wish: Wish, written: WindowShards
) -> tuple[WindowList, Counts]:
    """Resample block by block, keep the windows that may stay, write them.

    Returns
    -------
    WindowList
        The windows that stayed.
    dict
        How many were planned, kept and dropped.
    """
    windows = WindowList()
    counts = {"planned": plan.n_windows, "kept": 0, "dropped_gap": 0, "dropped_thin": 0}
    if isinstance(plan, align.RaggedPlan):
        _cut_ragged(chosen, plan, wish, (windows, counts, written))
    else:
        _cut_even(chosen, plan, wish, (windows, counts, written))
    return windows, counts


_Out = tuple[WindowList, Counts, WindowShards]


def _count(counts: Counts, kept: align.Kept) -> None:
    counts["kept"] += int(kept.keep.sum())
    counts["dropped_gap"] += kept.n_gap
    counts["dropped_thin"] += kept.n_thin


def _resampled(
    modality: Modality,
    origin_ns: int,
    wish: Wish,
    times: FloatArray,
    padding: BoolArray | None = None,
) -> _Block:
    """Give values at times of any shape; none where there is padding."""
    aligned = align.resample(
        modality.repaired,
        times.reshape(-1),
        origin_ns=origin_ns,
        method=modality.method,
        rate_hz=modality.rate_hz,
        tolerance_s=wish.tolerance_s,
    )
    values = aligned.values.reshape(*times.shape, *aligned.values.shape[1:])
    valid = aligned.valid.reshape(times.shape)
    if padding is not None:
        values[padding] = align.nothing_like(values)
        valid = valid & ~padding
    if modality.pixels is not None:
        values, valid = modality.pixels.of_ranks(values, valid)
    return _Block(values, valid, aligned)


# Windows of one length ----------------------------------------------------------------------------


def _cut_even(chosen: list[Modality], plan: align.WindowPlan, wish: Wish, out: _Out) -> None:
    windows, counts, written = out
    for begin, end in _blocks(chosen, plan):
        padding = {m.name: plan.padding(m.name, begin, end) for m in chosen}
        found = {
            m.name: _resampled(
                m, plan.origin_ns, wish, plan.times_s(m.name, begin, end), padding[m.name]
            )
            for m in chosen
        }
        kept = align.keep_windows(
            {name: block.valid for name, block in found.items()},
            on_gap=wish.on_gap,
            min_valid=wish.min_valid,
            first=begin,
            padding=padding,
        )
        _count(counts, kept)
        for modality in chosen:
            values, mask, aligned = found[modality.name]
            modality.ledger.mark(aligned, np.repeat(kept.keep, mask.shape[1]) & mask.reshape(-1))
            written.add(modality, values[kept.keep], mask[kept.keep])
            for i in np.flatnonzero(kept.keep).tolist():
                _look(modality, begin + i, values[i], mask[i])
        windows.add(chosen, plan, kept, begin)


def _blocks(chosen: list[Modality], plan: align.WindowPlan) -> Iterator[tuple[int, int]]:
    per_window = sum(m.row_bytes * plan.n_samples(m.name) for m in chosen)
    size = int(max(1, min(256, BLOCK_BYTES // max(per_window, 1))))
    for begin in range(0, plan.n_windows, size):
        yield begin, min(begin + size, plan.n_windows)


def _look(modality: Modality, k: int, pictures: NDArray[Any], valid: BoolArray) -> None:
    """See whether pictures that were cut out of frames show anything."""
    if modality.pixels is not None and modality.pixels.crops is not None:
        modality.pixels.crops.blank.see(k, pictures, valid)


# Records of their own length ----------------------------------------------------------------------


def _cut_ragged(chosen: list[Modality], plan: align.RaggedPlan, wish: Wish, out: _Out) -> None:
    windows, counts, written = out
    for k in range(plan.n_windows):
        if wish.drops:
            masks = {m.name: _mask(_record(m, plan, wish, k)) for m in chosen}
            kept = align.keep_windows(masks, on_gap=wish.on_gap, min_valid=wish.min_valid, first=k)
            if not kept.keep[0]:
                _count(counts, kept)
                continue
        masks, places = {}, {}
        for modality in chosen:
            seen: list[BoolArray] = []
            blocks = _marked(modality, _record(modality, plan, wish, k), k, seen)
            n_rows = plan.n_samples(modality.name, k)
            places[modality.name] = written.add_record(modality, n_rows, blocks)
            masks[modality.name] = np.concatenate(seen)[np.newaxis]
        kept = align.keep_windows(masks, first=k)
        _count(counts, kept)
        windows.add(chosen, plan, kept, k, places)


def _record(modality: Modality, plan: align.RaggedPlan, wish: Wish, k: int) -> Iterator[_Block]:
    size = int(max(1, min(MAX_SAMPLES, BLOCK_BYTES // max(modality.row_bytes, 1))))
    n_samples = plan.n_samples(modality.name, k)
    for begin in range(0, n_samples, size):
        times = plan.times_s(modality.name, k, begin, min(begin + size, n_samples))
        yield _resampled(modality, plan.origin_ns, wish, times)


def _marked(
    modality: Modality, blocks: Iterable[_Block], k: int, seen: list[BoolArray]
) -> Iterator[tuple[NDArray[Any], BoolArray]]:
    """Mark what blocks rest on, and note their masks, as they pass."""
    for block in blocks:
        modality.ledger.mark(block.aligned, block.valid)
        seen.append(block.valid)
        _look(modality, k, block.values, block.valid)
        yield block.values, block.valid


def _mask(blocks: Iterable[_Block]) -> BoolArray:
    """Give the mask of a record, as that of one window."""
    return np.concatenate([block.valid for block in blocks])[np.newaxis]
