"""NeMo: one manifest a split (`train_manifest.json`), `manifest.json` for records without one.

With `--shards N` a folder a split: `audio_0.tar` and on with `manifest_0.json` and on, and
`tarred_audio_manifest.json`, which lists all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from mmprep.errors import UsageError
from mmprep.exporters import nemo
from mmprep.exporters.base import TAR_END, tar_member
from mmprep.manifest.model import Record
from mmprep.steps.exporting import samples, sound
from mmprep.steps.exporting.base import Export, Plan, by_split
from mmprep.steps.exporting.samples import Part
from mmprep.steps.running.journal import FileNote
from mmprep.steps.running.tasks import Job, Task

TARS = "mmprep.steps.exporting.nemo:write_tar"


def plan(export: Export) -> Plan:
    """Plan the manifests, and the sound where it is written.

    Raises
    ------
    UsageError
        There is no sound, or none is wanted; tars of sources.
    """
    if export.audio == "none":
        raise UsageError("NeMo reads nothing without audio", where="--audio")
    records, notes = sound.with_sound(export)
    if export.shards is not None:
        return _in_tars(replace(export, records=records), notes)
    tasks = tuple(sound.tasks(export, records))
    return Plan(partial(_texts, export, records), records, sound.WORK, tasks, notes)


def _texts(
    export: Export, records: tuple[Record, ...], done: Sequence[Mapping[str, Any]]
) -> dict[str, bytes]:
    rates_hz = {key: rate for part in done for key, rate in part.get("rates_hz", {}).items()}
    found = {}
    for split, chosen in by_split(records).items():
        lines = (
            nemo.line(record, sound.path_of(export, record), sampling_rate=rates_hz.get(record.id))
            for record in chosen
            if record.id in rates_hz or not done
        )
        found[f"{split}_manifest.json" if split else "manifest.json"] = b"".join(nemo.encode(lines))
    return found


# Tars ---------------------------------------------------------------------------------------------


def _in_tars(export: Export, notes: Sequence[str]) -> Plan:
    if export.sound_suffix is None:
        hint = "--audio flac writes the sound of the shards"
        raise UsageError("tars hold the sound, not where it is", where="--shards", hint=hint)
    parts = tuple(samples.parts_of(export, 1))
    tasks = tuple(_tar_task(export, part) for part in parts)
    notes = (*notes, *samples.too_few(export, parts), *_uneven(parts))
    return Plan(partial(_tar_texts, export, parts), export.records, TARS, tasks, notes)


def _uneven(parts: Sequence[Part]) -> Iterator[str]:
    counts: dict[str, set[int]] = {}
    for part in parts:
        counts.setdefault(part.split, set()).add(len(part.records))
    for split, found in counts.items():
        if len(found) > 1:
            yield (
                f"shards of {split} have {min(found)} or {max(found)} records: where one process"
                " has more than another, NeMo may wait forever"
            )


def _tar_task(export: Export, part: Part) -> Task:
    items = tuple(sound.item(export.data, record) for record in part.records)
    members = [nemo.member_name(record, export.audio) for record in part.records]
    name = f"{part.split}/audio_{part.number}.tar"
    spec = {"suffix": export.audio, "name": name, "members": members}
    return Task(name, items, spec)


def write_tar(job: Job) -> dict[str, Any]:
    """Write the sound of a task's records into one tar."""
    path, rates_hz = job.folder / job.task.spec["name"], {}
    members = {i.id: name for i, name in zip(job.task.items, job.task.spec["members"], strict=True)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for one in job.items():
            with job.attempt(one, "encode"):
                name, _ = sound.write_one(job, one.id, one.spec)
                data = (job.folder / name).read_bytes()
                (job.folder / name).unlink()
                file.writelines(tar_member(members[one.id], data))
                rates_hz[one.id] = round(one.spec["rate_hz"])
        file.write(TAR_END)
    rows = [FileNote.of(job.folder, job.task.spec["name"]).row()]
    return {"files": rows, "rates_hz": rates_hz}


def _tar_texts(
    export: Export, parts: Sequence[Part], done: Sequence[Mapping[str, Any]]
) -> dict[str, bytes]:
    texts: dict[str, bytes] = {}
    whole: dict[str, list[bytes]] = {}
    for part, found in zip(parts, done, strict=True):
        data = _tar_lines(export, part, found.get("rates_hz", {}))
        texts[f"{part.split}/manifest_{part.number}.json"] = data
        whole.setdefault(f"{part.split}/tarred_audio_manifest.json", []).append(data)
    return texts | {name: b"".join(pieces) for name, pieces in whole.items()}


def _tar_lines(export: Export, part: Part, rates_hz: Mapping[str, int]) -> bytes:
    lines = (
        nemo.line(
            record,
            nemo.member_name(record, export.audio),
            sampling_rate=rates_hz[record.id],
            shard_id=part.number,
        )
        for record in part.records
        if record.id in rates_hz
    )
    return b"".join(nemo.encode(lines))
