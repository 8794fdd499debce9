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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from mmprep.manifest.model import Record
from mmprep.steps.datasets import InputDataset
from mmprep.steps.running.tasks import Task

Texts: TypeAlias = Callable[[Sequence[Mapping[str, Any]]], dict[str, bytes]]


@dataclass(frozen=True, slots=True)
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


def by_split(records: Sequence[Record]) -> dict[str | None, list[Record]]:
    """Give the records of each split, in order."""
    found: dict[str | None, list[Record]] = {}
    for record in records:
        found.setdefault(record.split, []).append(record)
    return found
