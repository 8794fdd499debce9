"""HF datasets: Parquet files with a dataset card, or folders of sound with metadata.jsonl.

Rules
-----
- Without sound files: `data/train-00000-of-00001.parquet`, as `exporters.parquet` writes them.
- With them (`--audio flac`): `train/<id>.flac`, and `train/metadata.jsonl` of the fields that are
  plain values. Other streams have no place there, which is said.
- `README.md` names the files of each split to `load_dataset`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from mmprep.errors import UsageError
from mmprep.exporters import parquet
from mmprep.exporters.base import Sample, Stream, escape, scalars
from mmprep.steps.exporting import samples
from mmprep.steps.exporting.base import RECORDS_A_TASK, Export, Plan
from mmprep.steps.exporting.parquet import tables
from mmprep.steps.exporting.samples import Part
from mmprep.steps.running.journal import FileNote
from mmprep.steps.running.tasks import Job, Task

WORK = "mmprep.steps.exporting.hf:write"

_SOUND = """Each folder holds the sound of a split, a file a record; `metadata.jsonl` has a line
for each of them. Samples that no recording covers are 0.
"""


def plan(export: Export) -> Plan:
    """Plan the files of rows, or of sound.

    Raises
    ------
    UsageError
        No stream has values, or a folder of sound shall be cut.
    DataError
        Sound is wanted as files, and no record has any.
    """
    return _rows(export) if export.sound_suffix is None else _sounds(export)


def _split(name: str, names: Sequence[str]) -> str:
    """Call records of no split `train`, as HF datasets does, where that is not another one."""
    return "train" if name == samples.UNSPLIT and "train" not in names else name


# Rows ---------------------------------------------------------------------------------------------


def _rows(export: Export) -> Plan:
    streams = samples.streams_of(export)
    splits = tuple(samples.grouped(export.records))
    found = tables(
        export,
        lambda part: _file(part, splits),
        parquet.card(_patterns(splits), parquet.about(streams)),
    )
    return replace(found, notes=(*found.notes, *_inside(export, streams)))


def _file(part: Part, splits: Sequence[str]) -> str:
    split = _split(part.split, splits)
    return f"data/{split}-{part.number:05d}-of-{part.n_parts:05d}.parquet"


def _patterns(splits: Sequence[str]) -> dict[str, str]:
    names = [_split(split, splits) for split in splits]
    return {name: f"data/{name}-?????-of-?????.parquet" for name in names}


def _inside(export: Export, streams: Sequence[Stream]) -> tuple[str, ...]:
    if export.audio != "reference" or all(stream.name != "audio" for stream in streams):
        return ()
    return (
        "a folder of HF datasets names no files outside of it: sound is values in the column"
        " `audio` (--audio flac writes files)",
    )


# Sound --------------------------------------------------------------------------------------------


def _sounds(export: Export) -> Plan:
    if export.shards is not None:
        raise UsageError("a folder of sound is not cut", where="--shards", hint="leave it out")
    export, notes = samples.with_values(export)
    streams = samples.streams_of(export)
    audio = tuple(stream for stream in streams if stream.name == "audio")
    if others := [stream.name for stream in streams if stream.name != "audio"]:
        told = "a folder of sound holds nothing else (--audio reference writes tables), left out"
        notes = (*notes, f"{told}: {', '.join(others)}")
    tasks = tuple(_tasks(export, audio))
    return Plan(_texts, export.records, WORK, tasks, notes)


def _tasks(export: Export, audio: Sequence[Stream]) -> Iterator[Task]:
    groups = samples.grouped(export.records)
    for split, records in groups.items():
        folder = _split(split, tuple(groups))
        for k in range(0, len(records), RECORDS_A_TASK):
            part = Part(folder, k, len(records), tuple(records[k : k + RECORDS_A_TASK]))
            yield samples.task(export, audio, part, folder, suffix=export.sound_suffix)


def write(job: Job) -> dict[str, Any]:
    """Write the sound of a task's records as files; give their lines of metadata.jsonl."""
    read, folder = samples.Reader(job), job.task.spec["name"]
    found = list(read(partial(_write, job)))
    notes = [FileNote.of(job.folder, f"{folder}/{name}").row() for name, _ in found]
    return {"files": notes, "split": folder, "lines": [line for _, line in found]}


def _write(job: Job, sample: Sample) -> tuple[str, str]:
    suffix = job.task.spec["suffix"]
    name = f"{escape(sample.id)}.{suffix}"
    with samples.output(job, f"{job.task.spec['name']}/{name}") as file:
        file.write(samples.sound_file(job, sample, suffix))
    row = {"file_name": name, **scalars(sample.fields)}
    return name, msgspec.json.encode(row).decode()


def _texts(values: Sequence[Mapping[str, Any]]) -> dict[str, bytes]:
    lines: dict[str, list[str]] = {}
    for value in values:
        lines.setdefault(value["split"], []).extend(value["lines"])
    card = parquet.card({split: f"{split}/**" for split in lines}, _SOUND)
    texts = {f"{split}/metadata.jsonl": "\n".join([*rows, ""]) for split, rows in lines.items()}
    return {name: text.encode() for name, text in {**texts, "README.md": card}.items()}
