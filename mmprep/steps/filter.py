"""`manifest filter`: the records for which a condition holds, as lines or as a data set.

Files that only other records name are left out; nothing is copied that can be linked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from mmprep.errors import DataError, UsageError
from mmprep.manifest import codec, where
from mmprep.manifest.model import Modality, Record
from mmprep.steps import base, datasets
from mmprep.steps.base import Contents, Engine, Progress, RunOptions, StepName, StepResult
from mmprep.steps.datasets import InputDataset

STEP = StepName("filter", 1)


@dataclass(frozen=True, slots=True)
class Config:
    """Options of `manifest filter`."""

    inputs: tuple[str, ...] = ()
    where: str = ""
    root: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


def lines(path: str, condition: str) -> list[bytes]:
    """Give the lines of the manifest whose records are chosen.

    Raises
    ------
    UsageError
        The condition is none, or names what no record has.
    """
    data = datasets.load(path)
    return list(codec.encode_records(where.parse(condition).chosen(data.records)))


def run(
    config: Config,
    options: RunOptions,
    *,
    engine: Engine = base.serial,
    progress: Progress | None = None,
) -> StepResult:
    """Write a data set of the records that are chosen."""
    if len(config.inputs) != 1:
        raise UsageError("give one data set")
    condition = where.parse(config.where)
    data = datasets.load(config.inputs[0])
    records = condition.chosen(data.records)
    if not records:
        raise DataError(f"no record has {config.where}", where=config.inputs[0])
    content = {"where": config.where}
    with base.open_run(
        STEP, content, options, root=data.folder, engine=engine, progress=progress
    ) as session:
        if options.dry_run:
            return session.preview([], data.dataset.totals.bytes)
        session.progress.say(f"{len(records)} of {len(data.records)} records")
        return session.commit(contents(data, records))


def contents(data: InputDataset, records: list[Record]) -> Contents:
    """Give a data set of some of the records of another one."""
    lost = _files(data.records) - _files(records)
    lost |= {_mask(name) for name in lost}
    sessions = {record.session for record in records}
    gone = data.dataset.sessions.keys() - sessions
    lost |= {f"sync/{name}.json" for name in gone}
    return Contents(
        records,
        modalities=_kept(data.dataset.modalities, lost),
        sessions={n: s for n, s in data.dataset.sessions.items() if n in sessions},
        placed={name: placed for name, placed in data.carried().items() if name not in lost},
        extra_inputs=(data.record_path,),
        media_root=data.media_root,
        n_rejected_rows=data.dataset.totals.rejected_rows,
    )


def _files(records: Iterable[Record]) -> set[str]:
    """Name the shards and tables that records rest on."""
    found: set[str] = set()
    for record in records:
        for ref in record.streams.values():
            found |= {name for name, _ in ref.pieces}
            found |= {name for name in (ref.clock,) if name}
            found |= {piece.clock for piece in ref.further if piece.clock}
        events: dict[str, Any] = record.extra.get("events") or {}
        found |= {one["table"] for one in events.values() if "table" in one}
    return found


def _mask(shard: str) -> str:
    modality, _, name = shard.rpartition("/")
    return f"{modality}.valid/{name}"


def _kept(modalities: dict[str, Modality], lost: set[str]) -> dict[str, Modality]:
    """Leave out shards, and modalities without any."""
    kept = {
        name: msgspec.structs.replace(
            part, shards=tuple(shard for shard in part.shards if shard.path not in lost)
        )
        for name, part in modalities.items()
    }
    return {name: part for name, part in kept.items() if part.shards}
