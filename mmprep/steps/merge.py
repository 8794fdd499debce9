"""`manifest merge`: several data sets as one; shards are numbered through.

Rules
-----
- Ids are unique, and so are tables, rejects and `sync/` files; a session may be in several sets if
  its clock is the same. A modality has one dtype; what differs otherwise is null.
- Splits and labels are counted anew, weights wait for `manifest split`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from mmprep.errors import UsageError
from mmprep.manifest.model import Modality, Record, Session, ShardEntry, StreamRef
from mmprep.steps import base, datasets
from mmprep.steps.base import Contents, Engine, Placed, Progress, RunOptions, StepName, StepResult
from mmprep.steps.datasets import InputDataset
from mmprep.steps.running.shardbook import shard_name

STEP = StepName("merge", 1)
_ALIKE = ("row_shape", "rate_hz", "channels", "units", "kind")


@dataclass(frozen=True, slots=True)
class Config:
    """Options of `manifest merge`."""

    inputs: tuple[str, ...] = ()
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
    """Write the data set of all records."""
    if len(config.inputs) < 2:
        raise UsageError("give two data sets or more", hint="mmprep manifest merge A B -o OUT")
    loaded = [datasets.load(path) for path in config.inputs]
    content = {"step": [data.dataset.step for data in loaded]}
    root = loaded[0].folder.parent
    with base.open_run(
        STEP, content, options, root=root, engine=engine, progress=progress
    ) as session:
        if options.dry_run:
            return session.preview([], sum(data.dataset.totals.bytes for data in loaded))
        return session.commit(contents(loaded))


def contents(loaded: Sequence[InputDataset]) -> Contents:
    """Put data sets together.

    Raises
    ------
    UsageError
        Two of them hold the same id or file, or do not fit.
    """
    book = _Book()
    placed: dict[str, Placed] = {}
    records: list[Record] = []
    sessions: dict[str, Session] = {}
    for data in loaded:
        names = book.take(data)
        for name, found in data.carried().items():
            final = names.get(name, name)
            if final in placed:
                raise UsageError(f"{final} is in two of them", where=str(data.folder))
            placed[final] = found
        records += [_renamed(record, names) for record in data.records]
        sessions = _joined(sessions, data)
    datasets.check_unique(records)
    first = loaded[0].media_root
    return Contents(
        records,
        modalities=book.modalities(),
        sessions=dict(sorted(sessions.items())),
        placed=placed,
        extra_inputs=tuple(data.record_path for data in loaded),
        media_root=first if all(data.media_root == first for data in loaded) else None,
        n_rejected_rows=sum(data.dataset.totals.rejected_rows for data in loaded),
    )


def _joined(known: dict[str, Session], data: InputDataset) -> dict[str, Session]:
    for name, session in data.dataset.sessions.items():
        if known.setdefault(name, session) != session:
            raise UsageError(
                f"session {name!r} has another clock than in a data set before",
                where=str(data.folder),
                hint="align its streams together, or rename it with --ids",
            )
    return known


def _renamed(record: Record, names: dict[str, str]) -> Record:
    return msgspec.structs.replace(
        record, streams={name: _ref(ref, names) for name, ref in record.streams.items()}
    )


def _ref(ref: StreamRef, names: dict[str, str]) -> StreamRef:
    return ref if ref.shard is None else msgspec.structs.replace(ref, shard=names[ref.shard])


class _Book:
    """The shards of all data sets, numbered through."""

    def __init__(self) -> None:
        self._parts: dict[str, list[Modality]] = {}
        self._shards: dict[str, list[ShardEntry]] = {}

    def take(self, data: InputDataset) -> dict[str, str]:
        """Take the shards of a data set in; give old name -> new name."""
        names: dict[str, str] = {}
        for modality, part in data.dataset.modalities.items():
            known = self._parts.setdefault(modality, [])
            if known and known[0].dtype != part.dtype:
                raise UsageError(
                    f"{modality} is {part.dtype}, and {known[0].dtype} in a data set before",
                    where=str(data.folder),
                )
            known.append(part)
            shards = self._shards.setdefault(modality, [])
            for shard in part.shards:
                names[shard.path] = shard_name(modality, len(shards))
                shards.append(msgspec.structs.replace(shard, path=names[shard.path]))
        return names

    def modalities(self) -> dict[str, Modality]:
        """Describe each modality; what differs is None."""
        return {
            name: Modality(
                dtype=parts[0].dtype,
                shards=tuple(self._shards[name]),
                **{key: _common(parts, key) for key in _ALIKE},
            )
            for name, parts in sorted(self._parts.items())
        }


def _common(parts: Sequence[Modality], key: str) -> Any:
    values = [getattr(part, key) for part in parts]
    return values[0] if all(value == values[0] for value in values) else None
