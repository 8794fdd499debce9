"""The sound of records for other trainers: where it is, or files that are written of the shards.

Rules
-----
- `reference` names the sources; a source must be a sound file, and the record the whole of it.
- `wav` (float32, or int16 as it was) and `flac` (16 bit) write the sound of the shards.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmprep import files, media
from mmprep.errors import DataError, UsageError
from mmprep.exporters import base as names
from mmprep.manifest.model import Record
from mmprep.media import AUDIO_SUFFIXES
from mmprep.shards import open_shard
from mmprep.steps.datasets import InputDataset, without_audio
from mmprep.steps.exporting.base import Export
from mmprep.steps.running.journal import FileNote
from mmprep.steps.running.tasks import Item, Job, Task
from mmprep.steps.sounds import suffix_of

RECORDS_A_TASK = 64
WORK = "mmprep.steps.exporting.sound:write"


def with_sound(export: Export) -> tuple[tuple[Record, ...], tuple[str, ...]]:
    """Give the records that have sound, and what to say of the others.

    Raises
    ------
    UsageError
        None has.
    """
    found = tuple(record for record in export.records if _has_sound(record, export.audio))
    if not found:
        raise without_audio(export.data)
    silent = len(export.records) - len(found)
    return found, (f"{silent} records without sound are left out",) if silent else ()


def _has_sound(record: Record, audio: str) -> bool:
    ref = record.streams.get("audio")
    if audio == "reference":
        return suffix_of(record.source or "") in AUDIO_SUFFIXES or ref is not None
    return ref is not None and ref.shard is not None


# Files --------------------------------------------------------------------------------------------


def tasks(export: Export, records: Sequence[Record]) -> Iterator[Task]:
    """Plan the files; none are written where sources are named."""
    if export.audio == "reference":
        return
    items = [item(export.data, record) for record in records]
    for k in range(0, len(items), RECORDS_A_TASK):
        part = tuple(items[k : k + RECORDS_A_TASK])
        yield Task(part[0].id, part, {"suffix": export.audio})


def item(data: InputDataset, record: Record) -> Item:
    """Describe the sound of a record.

    Raises
    ------
    DataError
        It has none.
    """
    ref = record.streams.get("audio")
    if ref is None or ref.shard is None:
        raise DataError(
            "has no audio", where=f"record {record.id!r}", hint="export another data set"
        )
    spec = {
        "path": str(data.folder / ref.shard),
        "sha256": data.file_hash(ref.shard),
        "rows": list(ref.rows),
        "rate_hz": ref.rate_hz,
        "is_window": _is_window(data),
    }
    return Item(record.id, (), 4 * ref.n_rows, spec, record.id, str(data.folder))


def _is_window(data: InputDataset) -> bool:
    """Say whether a record's sound is one row of its shard, not rows of their own."""
    mask = data.dataset.modalities.get("audio.valid")
    return mask is not None and mask.row_shape != ()


def name_of(record_id: str, suffix: str) -> str:
    """Name the sound file of a record."""
    return f"audio/{names.escape(record_id)}.{suffix}"


def write(job: Job) -> dict[str, Any]:
    """Write the sound of a task's records as files."""
    rows = []
    for one in job.items():
        with job.attempt(one, "encode"):
            name = name_of(one.id, job.task.spec["suffix"])
            path = job.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            media.write_audio(path, samples(one), round(one.spec["rate_hz"]))
            rows.append(FileNote.of(job.folder, name).row())
    return {"files": rows}


def samples(one: Item) -> NDArray[Any]:
    """Read the sound of an item; masked samples are 0."""
    begin, end = one.spec["rows"]
    rows = np.asarray(open_shard(one.spec["path"])[begin:end])
    found: NDArray[Any] = np.nan_to_num(rows[0] if one.spec["is_window"] else rows)
    return found


# Paths --------------------------------------------------------------------------------------------


def path_of(export: Export, record: Record) -> str:
    """Name the sound of a record as it shall stand in a list.

    Raises
    ------
    UsageError, DataError
        Its source is no sound file, is not there, or is not the record.
    """
    if export.audio != "reference":
        name = name_of(record.id, export.audio)
        return _by_mode(name, export.out / name, export.path_mode, name)
    return _source_path(_source(record), export)


def rate_of(export: Export, record: Record) -> int | None:
    """Give the rate of the file that `path_of` names; None where it is not known."""
    ref = record.streams.get("audio")
    rate_hz = round(ref.rate_hz) if ref is not None and ref.rate_hz else None
    is_native = export.data.dataset.options.get("resample") is None
    return rate_hz if is_native or export.audio != "reference" else None


def _source(record: Record) -> str:
    where, hint = f"record {record.id!r}", "--audio flac writes the sound of the shards"
    if record.source is None or suffix_of(record.source) not in AUDIO_SUFFIXES:
        raise UsageError(f"its source {record.source!r} is no sound file", where=where, hint=hint)
    if record.valid is not None:
        raise UsageError("is a window of its source, on another clock", where=where, hint=hint)
    return record.source


def _source_path(source: str, export: Export) -> str:
    if export.path_mode.startswith("prefix="):
        return _by_mode(source, Path(), export.path_mode, "")
    root = export.media_root
    if root is not None and files.is_member(root / source):
        raise UsageError(
            "lies in an archive, which other trainers don't read",
            where=str(root / source),
            hint="write the sound with --audio flac, or unpack the archive and name --media-root",
        )
    if root is not None and not (root / source).is_file():
        raise DataError(
            "is not there", where=str(root / source), hint="--media-root DIR names where it is"
        )
    if root is None:
        raise UsageError(
            "the folder of the sources is not known",
            where=str(export.data.folder),
            hint="--media-root DIR names it",
        )
    relative = os.path.relpath(root / source, export.out)
    return _by_mode(source, root / source, export.path_mode, relative)


def _by_mode(name: str, path: Path, mode: str, relative: str) -> str:
    modes: Mapping[str, str] = {"relative": relative, "absolute": str(path)}
    if mode.startswith("prefix="):
        return mode.removeprefix("prefix=") + name
    if mode not in modes:
        raise UsageError(f"{mode!r} is none of relative, absolute, prefix=STR", where="--path-mode")
    return modes[mode]
