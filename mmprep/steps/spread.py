"""The spread of what is trained on, a channel: measured shard by shard, in workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmprep.manifest.model import Modality, Record
from mmprep.manifest.moments import Moments, merged
from mmprep.shards import open_shard
from mmprep.steps.datasets import InputDataset
from mmprep.steps.running.tasks import Item, Job, Task

WORK = "mmprep.steps.spread:measure"
BLOCK_VALUES = 1 << 20
_KINDS = frozenset({"signal", "audio", "features"})


def tasks(data: InputDataset, records: Sequence[Record]) -> list[Task]:
    """Plan a task for each shard that holds rows of what is trained on."""
    rows: dict[str, list[tuple[int, int]]] = {}
    for record in records:
        for ref in record.streams.values():
            if ref.shard is not None:
                rows.setdefault(ref.shard, []).append(ref.rows)
    found = []
    for name, part in data.dataset.modalities.items():
        if not _is_measured(part):
            continue
        for shard in part.shards:
            if shard.path in rows:
                found.append(_task(data, name, shard.path, rows[shard.path], len(shard.row_shape)))
    return found


def _is_measured(part: Modality) -> bool:
    return part.kind in _KINDS and part.dtype is not None and part.dtype.startswith("float")


def _task(
    data: InputDataset, modality: str, shard: str, rows: list[tuple[int, int]], n_axes: int
) -> Task:
    mask = f"{modality}.valid/{shard.rpartition('/')[2]}"
    has_mask = mask in data.dataset.shard_entries()
    spec = {
        "modality": modality,
        "path": str(data.folder / shard),
        "sha256": data.file_hash(shard),
        "mask": str(data.folder / mask) if has_mask else None,
        "rows": _joined(rows),
        "n_axes": n_axes,
    }
    n_bytes = data.dataset.shard_entries()[shard].bytes
    item = Item(shard, (), n_bytes, spec, shard, str(data.folder))
    return Task(shard, (item,))


def _joined(rows: list[tuple[int, int]]) -> list[list[int]]:
    """Join stretches of rows that follow each other."""
    found: list[list[int]] = []
    for begin, end in sorted(rows):
        if found and begin <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([begin, end])
    return found


def measure(job: Job) -> dict[str, Any]:
    """Measure the rows of a shard."""
    (item,) = job.items()
    spec = item.spec
    with job.attempt(item, "measure"):
        data = open_shard(spec["path"])
        mask = open_shard(spec["mask"]) if spec["mask"] else None
        parts = [Moments.of(block) for block in _blocks(data, mask, spec["rows"])]
        found = merged(parts)
        values = (found.count.tolist(), found.mean.tolist(), found.m2.tolist())
        return {"modality": spec["modality"], "moments": values}
    return {}


def _blocks(
    data: NDArray[Any], mask: NDArray[Any] | None, rows: list[list[int]]
) -> Iterator[NDArray[Any]]:
    """Give readings as (n, channels): of windows the channels are the last axis."""
    width = max(int(np.prod(data.shape[1:])), 1)
    step = max(BLOCK_VALUES // width, 1)
    is_window = mask is not None and mask.ndim > 1  # rows of samples have a mask of rows
    for begin, end in rows:
        for low in range(begin, end, step):
            high = min(low + step, end)
            block = np.array(data[low:high], dtype=np.float64)
            if mask is not None:
                block[~np.asarray(mask[low:high])] = np.nan
            yield block.reshape(-1, _n_channels(data.shape, is_window=is_window))


def _n_channels(shape: tuple[int, ...], *, is_window: bool) -> int:
    """Count the channels of rows; a window has its samples along the second axis."""
    n_axes = 2 if is_window else 1
    return int(np.prod(shape[n_axes:])) if len(shape) > n_axes else 1


def statistics(values: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Put the shards together: modality -> count, mean, std of each channel."""
    parts: dict[str, list[Moments]] = {}
    for value in values:
        if value:
            count, mean, m2 = (np.array(one) for one in value["moments"])
            found = Moments(count.astype(np.int64), mean.astype(float), m2.astype(float))
            parts.setdefault(value["modality"], []).append(found)
    return {
        name: merged(found).to_json()
        for name, found in sorted(parts.items())
        if len({one.count.size for one in found}) == 1
    }
