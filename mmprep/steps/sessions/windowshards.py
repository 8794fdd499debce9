"""The shards of aligned records: a modality and its mask side by side, of one number and rows.

Rules
-----
- A window of a set length is a row. A record of its own length is rows of samples: none is split,
  one that would go over the limit begins a new shard, one over it stands alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmprep.errors import DataError
from mmprep.shards import ShardWriter, shard_limit
from mmprep.steps.running.shardbook import shard_name
from mmprep.steps.sessions.modality import Modality
from mmprep.timebase import BoolArray, rate_text

Place: TypeAlias = tuple[int, int, int]  # number of the shard, [begin, end) in it
Pair: TypeAlias = tuple[ShardWriter, ShardWriter]


@dataclass(slots=True)
class WindowShards:
    """The shards of all modalities of a session: values and masks side by side."""

    folder: Path
    shard_size: int
    _open: dict[str, Pair] = field(default_factory=dict)
    _modalities: dict[str, Modality] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _done: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _files: list[list[Any]] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for pair in self._open.values():
            for writer in pair:
                writer.abandon()

    def add(self, modality: Modality, values: NDArray[Any], valid: BoolArray) -> None:
        """Append windows."""
        row_bytes = _row_bytes(values)
        done = 0
        while done < len(values):
            self._pair(modality, values, valid, row_bytes)
            writers = self._open[modality.name]
            room = self._limit(modality.name) // row_bytes - writers[0].n_rows
            part = slice(done, done + max(room, 1))
            first, last = writers[0].write(_stored(values[part]))
            writers[1].write(valid[part])
            done += last - first

    def add_record(
        self, modality: Modality, n_rows: int, blocks: Iterable[tuple[NDArray[Any], BoolArray]]
    ) -> Place:
        """Append the rows of one record, block by block.

        Parameters
        ----------
        n_rows : int
            How many there will be.
        """
        place: Place | None = None
        for values, valid in blocks:
            if place is None:
                n_bytes = n_rows * _row_bytes(values)
                number = self._pair(modality, values, valid, n_bytes)
                begin = self._open[modality.name][0].n_rows
                place = number, begin, begin + n_rows
            for writer, rows in zip(
                self._open[modality.name], (_stored(values), valid), strict=True
            ):
                writer.write(rows)
        if place is None or self._open[modality.name][0].n_rows != place[2]:
            raise RuntimeError(f"{modality.name}: a record has other rows than planned")
        return place

    def _limit(self, name: str) -> int:
        return shard_limit(self._counts[name] - 1, self.shard_size)

    def _pair(
        self, modality: Modality, values: NDArray[Any], valid: BoolArray, n_bytes: int
    ) -> int:
        """Let shards be open that take so many bytes more; give their number."""
        name = modality.name
        self._modalities[name] = modality
        if name in self._open:
            held = self._open[name][0].n_rows * _row_bytes(values)
            if held + n_bytes <= self._limit(name):
                return self._counts[name] - 1
            self._finish(name)
        number = self._counts.get(name, 0)
        self._counts[name] = number + 1
        self._open[name] = (
            self._writer(shard_name(name, number), _stored(values[:0]).dtype, values.shape[1:]),
            self._writer(shard_name(f"{name}.valid", number), np.dtype(bool), valid.shape[1:]),
        )
        return number

    def _writer(self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> ShardWriter:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return ShardWriter(path, dtype, shape)

    def _finish(self, name: str) -> None:
        modality = self._modalities[name]
        for key, writer in zip((name, f"{name}.valid"), self._open.pop(name), strict=True):
            shard = writer.close()
            path = shard.path.relative_to(self.folder).as_posix()
            self._files.append([path, shard.n_bytes, shard.sha256])
            is_mask = key != name
            repaired = modality.repaired
            self._done.setdefault(key, []).append(
                {
                    "path": path,
                    "rows": shard.n_rows,
                    "dtype": np.dtype(shard.dtype).name,
                    "row_shape": list(shard.row_shape),
                    "rate_hz": rate_text(modality.rate_hz),
                    "channels": None if is_mask else list(repaired.channels) or None,
                    "units": None if is_mask else list(repaired.units) or None,
                    "kind": "mask" if is_mask else repaired.kind,
                }
            )

    def close(self) -> dict[str, Any]:
        """Finish all shards."""
        for name in list(self._open):
            self._finish(name)
        return {"files": sorted(self._files), "shards": self._done}


def _row_bytes(values: NDArray[Any]) -> int:
    return max(prod(values.shape[1:]) * values.itemsize, 1)


def _stored(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype == object:
        raise DataError("text has no place in a window", hint="take it as events: kind=events")
    return values
