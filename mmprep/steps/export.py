"""`manifest export`: what another trainer reads, with mmprep.json as its record.

Rules
-----
- `--audio reference` names the sources; a source must be a sound file, and the record the whole
  of it. `wav` (float32, or int16 as it was) and `flac` (16 bit) write the sound of the shards.
- One manifest a split (`train_manifest.json`), `manifest.json` for records without a split.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from mmprep import files, media
from mmprep.errors import DataError, UsageError
from mmprep.exporters import base as names
from mmprep.exporters import nemo
from mmprep.manifest.model import Record
from mmprep.media import AUDIO_SUFFIXES
from mmprep.shards import open_shard
from mmprep.steps import base, datasets
from mmprep.steps.base import (
    Contents,
    Engine,
    Item,
    Placed,
    Progress,
    RunOptions,
    StepName,
    StepResult,
    Task,
    Work,
)
from mmprep.steps.datasets import InputDataset
from mmprep.steps.running.journal import FileNote
from mmprep.steps.running.tasks import Job
from mmprep.steps.sounds import suffix_of

STEP = StepName("export", 1, "mmprep.json")
RECORDS_A_TASK = 64


@dataclass(frozen=True, slots=True)
class Config:
    """Options of `manifest export`, named as on the command line."""

    inputs: tuple[str, ...]
    to: str = "nemo"
    split: tuple[str, ...] = ()
    fold: int | None = None
    audio: str = "reference"
    path_mode: str = "relative"
    media_root: str | None = None
    root: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


def run(
    config: Config,
    options: RunOptions,
    *,
    engine: Engine = base.serial,
    progress: Progress | None = None,
) -> StepResult:
    """Export a data set."""
    if len(config.inputs) != 1:
        raise UsageError("give one data set")
    if config.audio == "none":
        raise UsageError("NeMo reads nothing without audio", where="--audio")
    data = datasets.load(config.inputs[0])
    records = [record for record in _chosen(data, config) if _has_sound(record, config)]
    if not records:
        raise datasets.without_audio(data)
    content = {
        "to": config.to,
        "splits": sorted(config.split),
        "fold": config.fold,
        "audio": config.audio,
        "path_mode": config.path_mode,
    }
    with base.open_run(
        STEP, content, options, root=data.folder, engine=engine, progress=progress
    ) as session:
        if silent := len(_chosen(data, config)) - len(records):
            session.progress.warn(f"{silent} records without sound are left out")
        tasks = [] if config.audio == "reference" else list(_tasks(data, records, config.audio))
        if options.dry_run:
            return session.preview(tasks, sum(task.n_bytes for task in tasks))
        placed: dict[str, Placed] = {}
        if tasks:
            for outcome in session.map(Work(write_sound), tasks, label="audio"):
                placed |= session.placed(outcome, {})
        session.check_failures()
        texts = _manifests(data, records, config, options.output)
        return session.commit(
            Contents(
                records,
                placed=placed,
                texts=texts,
                with_manifest=False,
                extra_inputs=(data.record_path,),
                media_root=_media_root(data, config),
            )
        )


def _has_sound(record: Record, config: Config) -> bool:
    ref = record.streams.get("audio")
    if config.audio == "reference":
        return suffix_of(record.source or "") in AUDIO_SUFFIXES or ref is not None
    return ref is not None and ref.shard is not None


def _chosen(data: InputDataset, config: Config) -> list[Record]:
    known = {record.split for record in data.records}
    if unknown := sorted(set(config.split) - {str(split) for split in known}):
        raise UsageError(
            f"there is no split {unknown[0]!r}",
            where=config.inputs[0],
            hint=f"splits: {', '.join(sorted(str(split) for split in known if split)) or 'none'}",
        )
    records = [r for r in data.records if not config.split or r.split in config.split]
    return records if config.fold is None else _of_fold(records, config.fold)


def _of_fold(records: Sequence[Record], fold: int) -> list[Record]:
    """Take one fold as `test` and the others as `train`.

    Raises
    ------
    UsageError
        No record is in that fold.
    """
    known = sorted({record.fold for record in records if record.fold is not None})
    if fold not in known:
        hint = f"folds: {', '.join(map(str, known)) or 'none; manifest split --folds makes them'}"
        raise UsageError(f"there is no fold {fold}", where="--fold", hint=hint)
    return [
        msgspec.structs.replace(record, split="test" if record.fold == fold else "train")
        for record in records
    ]


# Sound --------------------------------------------------------------------------------------------


def _tasks(data: InputDataset, records: Sequence[Record], suffix: str) -> Iterator[Task]:
    items = [_item(data, record) for record in records]
    for k in range(0, len(items), RECORDS_A_TASK):
        part = tuple(items[k : k + RECORDS_A_TASK])
        yield Task(part[0].id, part, {"suffix": suffix})


def _item(data: InputDataset, record: Record) -> Item:
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


def sound_name(record_id: str, suffix: str) -> str:
    """Name the sound file of a record."""
    return f"audio/{names.escape(record_id)}.{suffix}"


def write_sound(job: Job) -> dict[str, Any]:
    """Write the sound of a task's records as files."""
    rows = []
    for item in job.items():
        with job.attempt(item, "encode"):
            name = sound_name(item.id, job.task.spec["suffix"])
            path = job.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            begin, end = item.spec["rows"]
            samples = np.asarray(open_shard(item.spec["path"])[begin:end])
            whole = samples[0] if item.spec["is_window"] else samples
            media.write_audio(path, np.nan_to_num(whole), round(item.spec["rate_hz"]))
            rows.append(FileNote.of(job.folder, name).row())
    return {"files": rows}


# Manifests ----------------------------------------------------------------------------------------


def _manifests(
    data: InputDataset, records: Sequence[Record], config: Config, out: Path
) -> dict[str, bytes]:
    lines: dict[str, list[names.Line]] = {}
    for record in records:
        name = f"{record.split}_manifest.json" if record.split else "manifest.json"
        lines.setdefault(name, []).append(_line(data, record, config, out))
    return {name: b"".join(nemo.encode(found)) for name, found in lines.items()}


def _line(data: InputDataset, record: Record, config: Config, out: Path) -> names.Line:
    ref = record.streams.get("audio")
    rate_hz = round(ref.rate_hz) if ref is not None and ref.rate_hz else None
    if config.audio != "reference":
        path = _written_path(sound_name(record.id, config.audio), config.path_mode, out)
        return nemo.line(record, path, sampling_rate=rate_hz)
    source = _source(record)
    is_native = data.dataset.options.get("resample") is None
    path = _source_path(source, data, config, out)
    return nemo.line(record, path, sampling_rate=rate_hz if is_native else None)


def _source(record: Record) -> str:
    where, hint = f"record {record.id!r}", "--audio flac writes the sound of the shards"
    if record.source is None or suffix_of(record.source) not in AUDIO_SUFFIXES:
        raise UsageError(f"its source {record.source!r} is no sound file", where=where, hint=hint)
    if record.valid is not None:
        raise UsageError("is a window of its source, on another clock", where=where, hint=hint)
    return record.source


def _media_root(data: InputDataset, config: Config) -> Path | None:
    return Path(config.media_root).absolute() if config.media_root else data.media_root


def _written_path(name: str, mode: str, out: Path) -> str:
    return _by_mode(name, out / name, mode, name)


def _source_path(source: str, data: InputDataset, config: Config, out: Path) -> str:
    if config.path_mode.startswith("prefix="):
        return _by_mode(source, Path(), config.path_mode, "")
    root = _media_root(data, config)
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
            where=str(data.folder),
            hint="--media-root DIR names it",
        )
    return _by_mode(source, root / source, config.path_mode, os.path.relpath(root / source, out))


def _by_mode(name: str, path: Path, mode: str, relative: str) -> str:
    modes: Mapping[str, str] = {"relative": relative, "absolute": str(path)}
    if mode.startswith("prefix="):
        return mode.removeprefix("prefix=") + name
    if mode not in modes:
        raise UsageError(f"{mode!r} is none of relative, absolute, prefix=STR", where="--path-mode")
    return modes[mode]
