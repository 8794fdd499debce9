"""Ragged rows of many items, appended to the shards of a task.

Rules
-----
- Within a shard one rate, row shape and dtype: a task has one open shard for each.
- No item is split: what would go over the limit begins a new shard; one over it stands alone.
- Rows of an item that fails on the way are taken back.
- A shard of no rows stays where an item of no rows names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mmprep.shards import ShardWriter
from mmprep.steps.running.shardbook import shard_name
from mmprep.timebase import rate_text

Append = Callable[[NDArray[Any]], object]


@dataclass(frozen=True, slots=True)
class Kind:
    """What all rows of a shard have in common."""

    modality: str
    rate_hz: Fraction | None
    row_shape: tuple[int, ...]
    dtype: str
    channels: tuple[str, ...] | None = None
    units: tuple[str | None, ...] | None = None
    kind: str = "signal"

    @property
    def row_bytes(self) -> int:
        """The size of a row."""
        return int(np.dtype(self.dtype).itemsize) * prod(self.row_shape)


@dataclass(slots=True)
class Rows:
    """Where the rows of an item ended up: name in the task's folder, `[begin, end)`."""

    path: str = ""
    begin: int = 0
    end: int = 0


@dataclass(slots=True)
class RaggedShards:
    """The shards that one task writes; leaving the block gives up what `close` did not finish."""

    folder: Path
    limit_bytes: int
    _open: dict[Kind, ShardWriter] = field(default_factory=dict)
    _names: dict[Kind, str] = field(default_factory=dict)
    _done: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _notes: list[list[Any]] = field(default_factory=list)
    _counts: dict[str, int] = field(default_factory=dict)
    _named: set[str] = field(default_factory=set)  # shards in which an item has its rows

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for writer in self._open.values():
            writer.abandon()

    @contextmanager
    def item(self, kind: Kind, n_rows_planned: int = 0) -> Iterator[tuple[Append, Rows]]:
        """Append the rows of one item; on an error they are taken back.

        Yields
        ------
        append, Rows
            The function that writes rows, and where they are once the block is left.
        """
        writer = self._writer(kind, n_rows_planned)
        rows = Rows(self._names[kind], writer.n_rows, writer.n_rows)
        try:
            yield writer.write, rows
        except BaseException:
            writer.truncate(rows.begin)
            raise
        rows.end = writer.n_rows
        self._named.add(rows.path)

    def _writer(self, kind: Kind, n_rows_planned: int) -> ShardWriter:
        writer = self._open.get(kind)
        if writer is not None and writer.n_rows:
            planned = (writer.n_rows + n_rows_planned) * kind.row_bytes
            if planned > self.limit_bytes:
                self._finish(kind)
                writer = None
        return writer or self._begin(kind)

    def _begin(self, kind: Kind) -> ShardWriter:
        number = self._counts.get(kind.modality, 0)
        self._counts[kind.modality] = number + 1
        name = shard_name(kind.modality, number)
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self._names[kind] = name
        self._open[kind] = ShardWriter(path, np.dtype(kind.dtype), kind.row_shape)
        return self._open[kind]

    def _finish(self, kind: Kind) -> None:
        shard = self._open.pop(kind).close()
        name = self._names.pop(kind)
        self._notes.append([name, shard.n_bytes, shard.sha256])
        self._done.setdefault(kind.modality, []).append(
            {
                "path": name,
                "rows": shard.n_rows,
                "dtype": kind.dtype,
                "row_shape": list(kind.row_shape),
                "rate_hz": rate_text(kind.rate_hz) if kind.rate_hz else None,
                "channels": list(kind.channels) if kind.channels is not None else None,
                "units": list(kind.units) if kind.units is not None else None,
                "kind": kind.kind,
            }
        )

    def close(self) -> dict[str, Any]:
        """Finish all shards.

        Returns
        -------
        dict
            `files` and `shards` of the task's value; shards that no item names are left out.
        """
        for kind in list(self._open):
            if self._names[kind] in self._named:
                self._finish(kind)
            else:
                self._open.pop(kind).abandon()
        shards = {
            name: sorted(done, key=lambda shard: str(shard["path"]))
            for name, done in self._done.items()
        }
        return {"files": sorted(self._notes), "shards": shards}
