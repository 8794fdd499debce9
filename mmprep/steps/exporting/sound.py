"""The sound of records for other trainers: where it is, or files that are written of the shards.

Rules
-----
- `reference` names the sources; a source must be a sound file, and the record the whole of it.
- `wav` (float32, or int16 as it was) and `flac` (16 bit) write the sound of the shards.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmprep import files, media
from mmprep.errors import DataError, UsageError
from mmprep.exporters import base as names
from mmprep.manifest.model import Record
from mmprep.media import AUDIO_SUFFIXES
from mmprep.steps.datasets import InputDataset, without_audio
from mmprep.steps.exporting.base import Export, by_mode, cell, in_tasks, values
from mmprep.steps.running.journal import FileNote
from mmprep.steps.running.tasks import Item, Job, Task
from mmprep.steps.sounds import suffix_of

WORK = "mmprep.steps.exporting.sound:write"


def with_sound(export: Export) -> tuple[tuple[Record, ...], tuple[str, ...]]:
    """Give the records that have sound, and what to say of the others.

    Raises
    ------
    UsageError
        None has.
    """
    found = tuple(record for record in export.records if has_sound(record, export.audio))
    if not found:
        raise without_audio(export.data)
    silent = len(export.records) - len(found)
    return found, (f"{silent} records without sound are left out",) if silent else ()


def has_sound(record: Record, audio: str) -> bool:
    """Say whether a record has sound to name (`reference`) or to write."""
    ref = record.streams.get("audio")
    if audio == "reference":
        return suffix_of(record.source or "") in AUDIO_SUFFIXES or ref is not None
    return ref is not None and ref.shard is not None


def duration_s(export: Export, record: Record) -> Fraction:
    """Give the length of a record's sound in shards; without one, that of the record."""
    ref = record.streams.get("audio")
    if ref is None or ref.shard is None or not export.rate_of(ref):
        return Fraction(str(record.duration_s))
    return export.shape_of(record, "audio")[0] / export.rate_of(ref)


# Files --------------------------------------------------------------------------------------------


def tasks(export: Export, records: Sequence[Record]) -> Iterator[Task]:
    """Plan the files; where sources are named, a look at their headers."""
    items = [
        found for record in records if (found := _looked_at_or_written(export, record)) is not None
    ]
    yield from in_tasks(items, {"suffix": export.audio})


def _looked_at_or_written(export: Export, record: Record) -> Item | None:
    if export.audio != "reference":
        return item(export.data, record)
    if export.path_mode.startswith("prefix="):  # they need not be here
        return None
    spec, folder = source_spec(export, record), str(export.data.folder)
    return Item(record.id, (), 0, {"source": spec}, record.source or record.id, folder)


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
    spec = {**cell(data, record, "audio"), "rate_hz": ref.rate_hz}
    return Item(record.id, (), 4 * ref.n_rows, spec, record.id, str(data.folder))


def name_of(record_id: str, suffix: str) -> str:
    """Name the sound file of a record."""
    return f"audio/{names.escape(record_id)}.{suffix}"


def write(job: Job) -> dict[str, Any]:
    """Write the sound of a task's records as files, or look at their sources; give the rates."""
    rows, rates_hz = [], {}
    for one in job.items():
        with job.attempt(one, "encode"):
            if source := one.spec.get("source"):
                rates_hz[one.id] = measured(source)[0]
                continue
            name, _ = write_one(job, one.id, one.spec)
            rows.append(FileNote.of(job.folder, name).row())
            rates_hz[one.id] = round(one.spec["rate_hz"])
    return {"files": rows, "rates_hz": rates_hz}


def write_one(
    job: Job, record_id: str, spec: Mapping[str, Any], *, is_16_bit: bool = False
) -> tuple[str, NDArray[Any]]:
    """Write the sound of a record as the task's `suffix` says; give its name and its samples."""
    name, found = name_of(record_id, job.task.spec["suffix"]), samples(spec)
    path = job.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    media.write_audio(path, found, round(spec["rate_hz"]), is_16_bit=is_16_bit)
    return name, found


def samples(spec: Mapping[str, Any]) -> NDArray[Any]:
    """Read the sound that `cell` names; masked samples are 0."""
    found: NDArray[Any] = np.nan_to_num(values(spec))
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
        return export.path_of(name_of(record.id, export.audio))
    source = _source(record)
    if export.path_mode.startswith("prefix="):
        return by_mode(source, Path(), export.path_mode, "")
    path = file_of(export, record)
    return by_mode(source, path, export.path_mode, os.path.relpath(path, export.out))


def _source(record: Record) -> str:
    where, hint = f"record {record.id!r}", "--audio flac writes the sound of the shards"
    if record.source is None or suffix_of(record.source) not in AUDIO_SUFFIXES:
        raise UsageError(f"its source {record.source!r} is no sound file", where=where, hint=hint)
    if record.valid is not None:
        raise UsageError("is a window of its source, on another clock", where=where, hint=hint)
    return record.source


def file_of(export: Export, record: Record) -> Path:
    """Find the source of a record.

    Raises
    ------
    UsageError, DataError
        See `path_of`.
    """
    if (root := export.media_root) is None:
        raise UsageError(
            "the folder of the sources is not known",
            where=str(export.data.folder),
            hint="--media-root DIR names it",
        )
    path = root / _source(record)
    if files.is_member(path):
        raise UsageError(
            "lies in an archive, which other trainers don't read",
            where=str(path),
            hint="write the sound with --audio flac, or unpack the archive and name --media-root",
        )
    if not path.is_file():
        raise DataError("is not there", where=str(path), hint="--media-root DIR names where it is")
    return path


# Headers ------------------------------------------------------------------------------------------


def source_spec(export: Export, record: Record) -> dict[str, Any]:
    """Name the source of a record for `measured`, with what the shards tell of it."""
    path, ref = file_of(export, record), record.streams.get("audio")
    known = [ref.rate_hz, ref.n_rows] if ref is not None and ref.shard else None
    return {"path": str(path), "n_bytes": path.stat().st_size, "known": known}


def measured(source: Mapping[str, Any]) -> list[int]:
    """Give rate, samples and channels of a source; its own, whatever was made of it.

    Raises
    ------
    DataError
        Nothing tells how long it is.
    """
    info = media.audio_info(source["path"])
    rate_hz, n_samples = source["known"] or (None, None)
    n_samples = n_samples if rate_hz == info.rate_hz else info.n_declared
    if n_samples is None:
        raise DataError(
            "its header does not say how long it is",
            where=source["path"],
            hint="--audio flac writes the sound of the shards",
        )
    return [info.rate_hz, n_samples, info.n_channels]
