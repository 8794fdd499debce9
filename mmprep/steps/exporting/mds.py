"""MosaicML streaming: a folder a split, `train/index.json`, `train/shard.00000.mds` and on.

Rules
-----
- A split is cut into shards of about 64 MiB, or into `--shards`; see `exporters.mds`.
- The samples of a shard are written before what stands in front of them, which tells their sizes.
- The stream `audio` is a column `flac` or `wav` of bytes where that is asked for.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from mmprep.exporters import mds
from mmprep.exporters.mds import Column
from mmprep.steps.exporting import samples
from mmprep.steps.exporting.base import Export, Plan
from mmprep.steps.running.journal import FileNote
from mmprep.steps.running.tasks import Job

WORK = "mmprep.steps.exporting.mds:write"


def plan(export: Export) -> Plan:
    """Plan the shards, and the index of each split.

    Raises
    ------
    UsageError
        No stream has values, or one has the name of another column.
    DataError
        Sound is wanted as files, and none has any.
    """
    export, notes = samples.with_values(export)
    streams = samples.streams_of(export)
    everywhere = [s.name for s in streams if _is_everywhere(export, s.name)]
    mds.columns_of(streams, everywhere)
    parts = tuple(samples.parts_of(export, mds.SIZE_LIMIT))
    tasks = tuple(
        samples.task(
            export,
            streams,
            part,
            f"{part.split}/shard.{part.number:05d}.mds",
            everywhere=everywhere,
            sound=export.sound_suffix,
        )
        for part in parts
    )
    return Plan(_texts, export.records, WORK, tasks, (*notes, *samples.too_few(export, parts)))


def _is_everywhere(export: Export, name: str) -> bool:
    """Say whether every record has one row of a stream."""
    refs = (record.streams.get(name) for record in export.records)
    return all(ref is not None and ref.shard is not None and ref.n_rows == 1 for ref in refs)


def write(job: Job) -> dict[str, Any]:
    """Write the shard of a task, a sample at a time."""
    read, name = samples.Reader(job), job.task.spec["name"]
    columns, body, sizes = _columns(job, read), job.folder / "body", []
    with samples.output(job, body.name) as file:
        for data in read(partial(mds.encode, columns=columns)):
            sizes.append(file.write(data))
    with samples.output(job, name) as file, body.open("rb") as rest:
        file.write(mds.head(sizes, columns))
        shutil.copyfileobj(rest, file)
    body.unlink()
    note = FileNote.of(job.folder, name)
    split, _, shard = name.partition("/")
    entry = mds.shard_entry(shard, note.n_bytes, len(sizes), columns)
    return {"files": [note.row()], "split": split, "entry": entry}


def _columns(job: Job, read: samples.Reader) -> tuple[Column, ...]:
    spec = job.task.spec
    suffix = spec["sound"]
    sound = (suffix, lambda sample: samples.sound_file(job, sample, suffix)) if suffix else None
    return mds.columns_of(read.streams, spec["everywhere"], sound)


def _texts(values: Sequence[Mapping[str, Any]]) -> dict[str, bytes]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for value in values:
        if value["entry"]["samples"]:
            found.setdefault(value["split"], []).append(value["entry"])
    return {f"{split}/index.json": mds.index(entries) for split, entries in found.items()}
