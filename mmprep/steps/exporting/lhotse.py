"""Lhotse: recordings, supervisions, features and cuts a split, and a `.npy` file an array.

Rules
-----
- `cuts_train.jsonl.gz` and the like; `cuts.jsonl.gz` for records without a split.
- `arrays/<stream>/<id>.npy` holds the values of the shards as they are (masked ones are NaN), and
  `arrays/<stream>_valid/<id>.npy` the mask of a window. The mask of the sound is left out: its
  masked samples are 0.
- Tables are left out: their rows have times of their own, which Lhotse cannot hold.
- With `--audio reference` the headers of the sources are read: Lhotse asks for rate and length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from mmprep.errors import DataError
from mmprep.exporters import base as names
from mmprep.exporters import lhotse
from mmprep.exporters.lhotse import Array, Parts, Sound
from mmprep.manifest.model import Record, StreamRef
from mmprep.steps.exporting import samples, sound
from mmprep.steps.exporting.base import (
    Export,
    Plan,
    by_split,
    cell,
    in_tasks,
    refuse_shards,
    values,
)
from mmprep.steps.running.journal import FileNote
from mmprep.steps.running.tasks import Item, Job

WORK = "mmprep.steps.exporting.lhotse:write"
VALID = "_valid"


def plan(export: Export) -> Plan:
    """Plan the arrays, the sound where it is written, and the manifests.

    Raises
    ------
    UsageError
        Shards are asked for.
    DataError
        No record has anything that Lhotse could hold.
    """
    refuse_shards(export, "lhotse")
    records = tuple(r for r in export.records if _has_sound(export, r) or _streams(export, r))
    if not records:
        raise DataError(
            "no record has sound or a stream in shards",
            where=export.data.record_path,
            hint="mmprep align puts tables on a grid, mmprep mfcc makes features",
        )
    items = [_item(export, record) for record in records]
    tasks = tuple(in_tasks(items, {"suffix": export.audio}))
    texts = partial(_texts, export, records)
    return Plan(texts, records, WORK, tasks, tuple(_notes(export, records)))


def _has_sound(export: Export, record: Record) -> bool:
    return export.audio != "none" and sound.has_sound(record, export.audio)


def _notes(export: Export, records: Sequence[Record]) -> Iterator[str]:
    if n_left := len(export.records) - len(records):
        yield f"{n_left} records without sound or streams in shards are left out"
    yield from samples.left_out(export)
    short = [lhotse.n_rows_short(_planned(export, record)) for record in records]
    if (most := max(short)) > 1:
        yield (
            f"the features of {sum(n > 1 for n in short)} records have up to {most} rows fewer than"
            " lhotse counts in their length, so that it can't batch them: mfcc --no-snip-edges"
        )


def _planned(export: Export, record: Record) -> Parts:
    """Give what a record will have, before its sound is looked at."""
    ref, found = record.streams.get("audio"), None
    if ref is not None and ref.shard is not None and _has_sound(export, record):
        found = Sound("", round(export.rate_of(ref)), export.shape_of(record, "audio")[0])
    return Parts(record, found, tuple(_arrays(export, record)))


# Arrays -------------------------------------------------------------------------------------------


def _streams(export: Export, record: Record) -> dict[str, StreamRef]:
    """Give the streams of a record that become arrays: all in shards, but for the sound."""
    return {
        name: ref
        for name, ref in record.streams.items()
        if name != "audio" and ref.shard is not None and ref.n_rows and export.rate_of(ref)
    }


def _shape(export: Export, record: Record, name: str) -> tuple[int, ...]:
    """Give the shape of a record's array: features end where Lhotse ends to count."""
    n_rows, *others = export.shape_of(record, name)
    if name in lhotse.FEATURES:
        rate_hz = export.rate_of(record.streams[name])
        n_rows = min(n_rows, lhotse.n_counted(sound.duration_s(export, record), rate_hz))
    return (n_rows, *others)


def _arrays(export: Export, record: Record) -> Iterator[Array]:
    key = f"{names.escape(record.id)}.npy"
    begin_s = record.streams["audio"].offset_s or 0.0 if "audio" in record.streams else 0.0
    for name, ref in _streams(export, record).items():
        shape, rate_hz = _shape(export, record, name), export.rate_of(ref)
        is_feature = name in lhotse.FEATURES
        start_s = 0.0 if is_feature else round((ref.offset_s or 0.0) - begin_s, 9)
        yield Array(name, export.path_of(_folder(name)), key, shape, rate_hz, start_s)
        if _mask(export, ref):
            folder = export.path_of(_folder(f"{name}{VALID}"))
            yield Array(f"{name}{VALID}", folder, key, shape[:1], rate_hz, start_s)


def _folder(name: str) -> str:
    return f"arrays/{names.escape(name)}"


# Files --------------------------------------------------------------------------------------------


def _item(export: Export, record: Record) -> Item:
    data, refs, cells = export.data, _streams(export, record), {}
    for name, ref in refs.items():
        n_rows = _shape(export, record, name)[0]
        cells[_folder(name)] = {**cell(data, record, name), "n_rows": n_rows}
        if mask := _mask(export, ref):
            cells[_folder(f"{name}{VALID}")] = {**cells[_folder(name)], **mask}
    spec: dict[str, Any] = {"arrays": cells, "sound": None, "source": None}
    if _has_sound(export, record):
        spec |= _sound_spec(export, record)
    sizes = (
        4 * ref.n_rows * prod(export.shards_by_path[ref.path].row_shape) for ref in refs.values()
    )
    return Item(record.id, (), sum(sizes), spec, record.source or record.id, str(data.folder))


def _mask(export: Export, ref: StreamRef) -> dict[str, Any]:
    """Say where the mask of a stream is, whose rows are those of the values; empty without one."""
    folder, _, name = ref.path.rpartition("/")
    path = f"{folder}.valid/{name}"
    if path not in export.shards_by_path:
        return {}
    return {"path": str(export.data.folder / path), "sha256": export.data.file_hash(path)}


def _sound_spec(export: Export, record: Record) -> dict[str, Any]:
    if export.audio == "reference":
        return {"source": sound.source_spec(export, record)}
    return {"sound": dict(sound.item(export.data, record).spec)}


def write(job: Job) -> dict[str, Any]:
    """Write the arrays of a task's records, and their sound or what its header says."""
    rows: list[list[Any]] = []
    found: dict[str, list[int]] = {}
    for one in job.items():
        with job.attempt(one, "write"):
            own = list(_write_arrays(job.folder, one))
            found[one.id] = _sound(job, one, own)
            rows += [FileNote.of(job.folder, name).row() for name in own]
    return {"files": rows, "found": found}


def _write_arrays(folder: Path, one: Item) -> Iterator[str]:
    for place, spec in one.spec["arrays"].items():
        name = f"{place}/{names.escape(one.id)}.npy"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        np.save(folder / name, values(spec)[: spec["n_rows"]])
        yield name


def _sound(job: Job, one: Item, own: list[str]) -> list[int]:
    """Give rate, samples and channels of a record's sound, which is written where asked for."""
    if one.spec["sound"] is not None:
        name, heard = sound.write_one(job, one.id, one.spec["sound"])
        own.append(name)
        rate_hz = round(one.spec["sound"]["rate_hz"])
        return [rate_hz, len(heard), heard.shape[1] if heard.ndim > 1 else 1]
    return sound.measured(one.spec["source"]) if one.spec["source"] else []


# Manifests ----------------------------------------------------------------------------------------


def _texts(
    export: Export, records: tuple[Record, ...], done: Sequence[Mapping[str, Any]]
) -> dict[str, bytes]:
    sounds = {key: value for part in done for key, value in part.get("found", {}).items()}
    texts = {}
    for split, chosen in by_split(records).items():
        parts = [_parts(export, r, sounds[r.id]) for r in chosen if r.id in sounds]
        for kind, data in lhotse.manifests(parts).items():
            texts[f"{kind}_{names.escape(split)}.jsonl.gz" if split else f"{kind}.jsonl.gz"] = data
    return texts


def _parts(export: Export, record: Record, found: Sequence[int]) -> Parts:
    arrays = tuple(_arrays(export, record))
    if not found:
        return Parts(record, None, arrays)
    return Parts(record, Sound(sound.path_of(export, record), *found), arrays)
