"""WebDataset: `train-000000.tar` and on; see `exporters.webdataset`.

Rules
-----
- A split is cut into tars of about 256 MiB, or into `--shards`.
- The stream `audio` is a member `flac` or `wav` where that is asked for, else `audio.npy`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from mmprep.exporters import webdataset
from mmprep.exporters.base import TAR_END, Sample
from mmprep.steps.exporting import samples
from mmprep.steps.exporting.base import Export, Plan
from mmprep.steps.running.journal import FileNote
from mmprep.steps.running.tasks import Job

PART_BYTES = 256 << 20
WORK = "mmprep.steps.exporting.webdataset:write"


def plan(export: Export) -> Plan:
    """Plan the tars.

    Raises
    ------
    UsageError
        No stream has values, or two differ by case alone.
    DataError
        Sound is wanted as files, and none has any.
    """
    export, notes = samples.with_values(export)
    streams = samples.streams_of(export)
    webdataset.check(streams)
    parts = tuple(samples.parts_of(export, PART_BYTES))
    tasks = tuple(
        samples.task(
            export, streams, part, f"{part.split}-{part.number:06d}.tar", sound=export.sound_suffix
        )
        for part in parts
    )
    notes = (*notes, *samples.too_few(export, parts))
    return Plan(samples.no_texts, export.records, WORK, tasks, notes)


def write(job: Job) -> dict[str, Any]:
    """Write the tar of a task, a sample at a time."""
    read, name = samples.Reader(job), job.task.spec["name"]
    with samples.output(job, name) as file:
        for members in read(partial(_members, job, read)):
            file.writelines(members)
        file.write(TAR_END)
    return {"files": [FileNote.of(job.folder, name).row()]}


def _members(job: Job, read: samples.Reader, sample: Sample) -> list[bytes]:
    suffix = job.task.spec["sound"]
    sound = (suffix, samples.sound_file(job, sample, suffix)) if suffix else None
    return list(webdataset.sample_bytes(sample, read.streams, sound))
