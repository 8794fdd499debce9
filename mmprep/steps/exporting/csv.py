"""CSV: `records.csv`, one row a record; values stay in the shards, which it names.

Rules
-----
- Paths of shards and tables, and of sound files where they are written (column `file`), are as
  `--path-mode` says.
- A row stands for each record; one without sound has no `file`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from mmprep.errors import UsageError
from mmprep.exporters import csv
from mmprep.exporters.base import fields_of
from mmprep.manifest.model import Record
from mmprep.steps.exporting import sound
from mmprep.steps.exporting.base import Export, Plan, by_mode
from mmprep.steps.running.tasks import Task

NAME = "records.csv"


def plan(export: Export) -> Plan:
    """Plan the table, and the sound where it is written.

    Raises
    ------
    UsageError
        It shall be cut.
    DataError
        Sound is wanted as files, and none has any.
    """
    if export.shards is not None:
        raise UsageError("CSV is one file", where="--shards", hint="--split S takes one split")
    tasks: tuple[Task, ...] = ()
    if export.sound_suffix:
        records, _ = sound.with_sound(export)
        tasks = tuple(sound.tasks(export, records))
    return Plan(partial(_texts, export), export.records, sound.WORK, tasks)


def _texts(export: Export, values: Sequence[Mapping[str, Any]]) -> dict[str, bytes]:
    written = {name for value in values for name, *_ in value.get("files", ())}
    rows = [_row(export, record, written) for record in export.records]
    return {NAME: csv.encode(rows)}


def _row(export: Export, record: Record, written: set[str]) -> tuple[csv.Row, csv.Row]:
    paths = {name: _path(export, ref.path) for name, ref in record.streams.items()}
    fields, streams = csv.row_of(fields_of(record), record, paths)
    if not written:
        return fields, streams
    name = sound.name_of(record.id, export.audio)
    return {**fields, "file": export.path_of(name) if name in written else None}, streams


def _path(export: Export, name: str) -> str:
    path = export.data.folder / name
    return by_mode(name, path, export.path_mode, os.path.relpath(path, export.out))
