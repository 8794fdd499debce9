"""Plain Parquet: a folder a split, `train/part-00000.parquet` and on; see `exporters.parquet`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mmprep.errors import UsageError
from mmprep.exporters import parquet
from mmprep.exporters.base import fields_of
from mmprep.steps.exporting import samples
from mmprep.steps.exporting.base import Export, Plan
from mmprep.steps.exporting.samples import Part
from mmprep.steps.running.journal import FileNote
from mmprep.steps.running.tasks import Job

PART_BYTES = 256 << 20
WORK = "mmprep.steps.exporting.parquet:write"


def plan(export: Export) -> Plan:
    """Plan the files, and a README.md that says what shapes the lists have.

    Raises
    ------
    UsageError
        No stream has values, or sound is wanted as files.
    """
    if export.sound_suffix:
        raise UsageError("Parquet holds sound as values", where="--audio", hint="leave it out")
    return tables(export, _name, parquet.about(samples.streams_of(export)))


def _name(part: Part) -> str:
    return f"{part.split}/part-{part.number:05d}.parquet"


def tables(export: Export, name_of: Callable[[Part], str], readme: str) -> Plan:
    """Plan files of rows, and a README.md."""
    streams = samples.streams_of(export)
    kinds = parquet.kinds_of(map(fields_of, export.records))
    parts = tuple(samples.parts_of(export, PART_BYTES))
    tasks = tuple(samples.task(export, streams, part, name_of(part), kinds=kinds) for part in parts)
    _, notes = samples.with_values(export)
    notes = (*notes, *samples.too_few(export, parts))
    return Plan(lambda _values: {"README.md": readme.encode()}, export.records, WORK, tasks, notes)


def write(job: Job) -> dict[str, Any]:
    """Write the file of a task, a block of rows at a time."""
    read, spec = samples.Reader(job), job.task.spec
    with (
        samples.output(job, spec["name"]) as file,
        parquet.Writer(file, spec["kinds"], read.streams) as writer,
    ):
        for sample in read():
            writer.add(sample)
    return {"files": [FileNote.of(job.folder, spec["name"]).row()]}
