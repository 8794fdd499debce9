"""`manifest export`: what another trainer reads, with mmprep.json as its record.

Rules
-----
- A format is a module of `exporting`; the step chooses the records and commits what is written.
- With `--fold K` the records of that fold are the split `test`, all others `train`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from mmprep.errors import UsageError
from mmprep.manifest.model import Record
from mmprep.steps import base, datasets
from mmprep.steps.base import (
    Contents,
    Engine,
    Placed,
    Progress,
    RunOptions,
    StepName,
    StepResult,
    Work,
)
from mmprep.steps.datasets import InputDataset
from mmprep.steps.exporting.base import Export

STEP = StepName("export", 3, "mmprep.json")
FORMATS = ("csv", "hf", "kaldi", "lhotse", "mds", "nemo", "parquet", "webdataset")


@dataclass(frozen=True, slots=True)
class Config:
    """Options of `manifest export`, named as on the command line."""

    inputs: tuple[str, ...]
    to: str = "nemo"
    split: tuple[str, ...] = ()
    fold: int | None = None
    audio: str = "reference"
    path_mode: str = "relative"
    shards: int | None = None
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
    data = datasets.load(config.inputs[0])
    plan = _format(config).plan(_export(data, config, options))
    with base.open_run(
        STEP, _content(config), options, root=data.folder, engine=engine, progress=progress
    ) as session:
        for note in plan.notes:
            session.progress.warn(note)
        if options.dry_run:
            return session.preview(plan.tasks, sum(task.n_bytes for task in plan.tasks))
        placed: dict[str, Placed] = {}
        values: list[Mapping[str, Any]] = []
        outcomes = session.map(Work(plan.work), plan.tasks, label=config.to) if plan.tasks else ()
        for outcome in outcomes:
            placed |= session.placed(outcome, {})
            values.append(outcome.value or {})
        session.check_failures()
        return session.commit(
            Contents(
                plan.records,
                placed=placed,
                texts=plan.texts(values),
                with_manifest=False,
                extra_inputs=(data.record_path,),
                media_root=_media_root(data, config),
            )
        )


def _format(config: Config) -> Any:
    if config.to not in FORMATS:
        raise UsageError(f"{config.to!r} is none of {', '.join(FORMATS)}", where="--to")
    return importlib.import_module(f"mmprep.steps.exporting.{config.to}")


def _content(config: Config) -> dict[str, Any]:
    """Name what changes the files."""
    return {
        "to": config.to,
        "splits": sorted(config.split),
        "fold": config.fold,
        "audio": config.audio,
        "path_mode": config.path_mode,
        "shards": config.shards,
    }


def _export(data: InputDataset, config: Config, options: RunOptions) -> Export:
    return Export(
        data,
        tuple(_chosen(data, config)),
        config.audio,
        config.path_mode,
        config.shards,
        options.output,
        _media_root(data, config),
    )


def _media_root(data: InputDataset, config: Config) -> Path | None:
    return Path(config.media_root).absolute() if config.media_root else data.media_root


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
