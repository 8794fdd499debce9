"""The shards of aligned windows: a modality and its mask side by side, of one number and rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mmprep.errors import DataError
from mmprep.shards import ShardWriter, shard_limit
from mmprep.steps.running.shardbook import shard_name
from mmprep.steps.sessions.modality import Modality
from mmprep.timebase import BoolArray, rate_text


@dataclass(slots=True)
class WindowShards:
    """The shards of all modalities of a session: values and masks side by side."""

    folder: Path
    shard_size: int
    _open: dict[str, tuple[ShardWriter, ShardWriter]] = field(default_factory=dict)
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
        self._modalities[modality.name] = modality
        done = 0
        while done < len(values):
            writers, room = self._room(modality.name, values)
            part = slice(done, done + room)
            first, last = writers[0].write(_stored(values[part]))
            writers[1].write(valid[part])
            done += last - first

    def _room(self, name: str, values: NDArray[Any]) -> tuple[tuple[ShardWriter, ShardWriter], int]:
        row_bytes = max(_stored(values[:1]).nbytes, 1)
        if name in self._open:
            limit = shard_limit(self._counts[name] - 1, self.shard_size)
            room = limit // row_bytes - self._open[name][0].n_rows
            if room > 0:
                return self._open[name], room
            self._finish(name)
        number = self._counts.get(name, 0)
        self._counts[name] = number + 1
        shape, dtype = values.shape[1:], _stored(values[:0]).dtype
        self._open[name] = (
            self._writer(shard_name(name, number), dtype, shape),
            self._writer(shard_name(f"{name}.valid", number), np.dtype(bool), shape[:1]),
        )
        return self._open[name], max(shard_limit(number, self.shard_size) // row_bytes, 1)

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


def _stored(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype == object:
        raise DataError("text has no place in a window", hint="take it as events: kind=events")
    return values
