"""What a format gives to the step: the work on its files, and the texts beside them.

A format is a module with

    plan(export) -> Plan

Rules
-----
- Files are written by tasks, in workers; small texts (manifests, lists) from the records and from
  what the tasks gave, in the main process.
- Everything that is written depends on the data set and the options alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmprep.errors import DataError, UsageError
from mmprep.manifest.model import Record, ShardEntry, StreamRef
from mmprep.rows import Store
from mmprep.shards import shard_rows
from mmprep.steps.datasets import InputDataset, is_window
from mmprep.steps.running.tasks import Item, Task

RECORDS_A_TASK = 64

Texts: TypeAlias = Callable[[Sequence[Mapping[str, Any]]], dict[str, bytes]]


@dataclass(frozen=True)  # not slotted: the shards are looked up for each record
class Export:
    """What is to be exported, and how.

    Parameters
    ----------
    records : tuple of Record
        Those that were chosen, in order.
    audio : str
        `reference`, `wav`, `flac` or `none`.
    path_mode : str
        `relative`, `absolute` or `prefix=STR`.
    shards : int, optional
        Into how many a split is cut.
    out : Path
        Where the export will stand.
    media_root : Path, optional
        The folder of the sources.
    """

    data: InputDataset
    records: tuple[Record, ...]
    audio: str
    path_mode: str
    shards: int | None
    out: Path
    media_root: Path | None

    @property
    def sound_suffix(self) -> str | None:
        """How sound is written as files; None where it is not."""
        return self.audio if self.audio in ("wav", "flac") else None

    @cached_property
    def shards_by_path(self) -> dict[str, ShardEntry]:
        """What dataset.json says of each shard."""
        return self.data.dataset.shard_entries()

    def rate_of(self, ref: StreamRef) -> Fraction:
        """Give the rate of a stream in shards, 0 where it has none [Hz]."""
        rate_hz = self.shards_by_path[ref.path].rate_hz
        return Fraction(rate_hz) if rate_hz else Fraction(0)

    def shape_of(self, record: Record, name: str) -> tuple[int, ...]:
        """Give the shape of a record's values, time first."""
        ref = record.streams[name]
        row_shape = self.shards_by_path[ref.path].row_shape
        return row_shape if is_window(self.data, name) else (ref.n_rows, *row_shape)

    def path_of(self, name: str) -> str:
        """Name a file of the export as it shall stand in a list; see `by_mode`."""
        return by_mode(name, self.out / name, self.path_mode, name)


def by_mode(name: str, path: Path, mode: str, relative: str) -> str:
    """Write a path as `--path-mode` says.

    Raises
    ------
    UsageError
        There is no such mode.
    """
    modes: Mapping[str, str] = {"relative": relative, "absolute": str(path)}
    if mode.startswith("prefix="):
        return mode.removeprefix("prefix=") + name
    if mode not in modes:
        raise UsageError(f"{mode!r} is none of relative, absolute, prefix=STR", where="--path-mode")
    return modes[mode]


@dataclass(frozen=True, slots=True)
class Plan:
    """How a format is written.

    Parameters
    ----------
    texts : callable
        From the values of the tasks, in order, to the small files by name.
    records : tuple of Record
        Those that it holds.
    work : str
        `module:function` that the tasks run; empty if there are none.
    notes : tuple of str
        What is worth a warning.
    """

    texts: Texts
    records: tuple[Record, ...]
    work: str = ""
    tasks: tuple[Task, ...] = ()
    notes: tuple[str, ...] = ()


def refuse_shards(export: Export, to: str) -> None:
    """Refuse `--shards` for a format that has none.

    Raises
    ------
    UsageError
        They are asked for.
    """
    if export.shards is not None:
        raise UsageError(
            f"--to {to} writes lists of whole splits", where="--shards", hint="leave it out"
        )


def by_split(records: Sequence[Record]) -> dict[str | None, list[Record]]:
    """Give the records of each split, in order."""
    found: dict[str | None, list[Record]] = {}
    for record in records:
        found.setdefault(record.split, []).append(record)
    return found


# The values of a record ---------------------------------------------------------------------------


def cell(data: InputDataset, record: Record, name: str) -> dict[str, Any]:
    """Say where the values of a record's stream are, for `values` in a worker."""
    ref = record.streams[name]
    return {
        "path": str(data.folder / ref.path),
        "sha256": data.file_hash(ref.path),
        "rows": list(ref.rows),
        "is_window": is_window(data, name),
    }


def values(spec: Mapping[str, Any]) -> NDArray[Any]:
    """Read the values that `cell` names, as they are in the shard.

    Raises
    ------
    DataError
        The shard ends before them.
    """
    rows = read_rows(Path(spec["path"]), *spec["rows"])
    return rows[0] if spec["is_window"] else rows


def read_rows(path: Path, begin: int, end: int) -> NDArray[Any]:
    """Read rows of a shard with plain reads: a map counts as memory.

    Raises
    ------
    DataError
        The shard ends before them.
    """
    with Store() as store:
        found = np.asarray(shard_rows(path, store, (begin, end)))
    if len(found) != end - begin:
        raise DataError(
            f"the shard ends before row {end}",
            where=str(path),
            hint="check the data set with `mmprep manifest validate`",
        )
    return found


def in_tasks(items: Sequence[Item], spec: Mapping[str, Any]) -> Iterator[Task]:
    """Share items out to tasks."""
    for k in range(0, len(items), RECORDS_A_TASK):
        part = tuple(items[k : k + RECORDS_A_TASK])
        yield Task(part[0].id, part, dict(spec))
