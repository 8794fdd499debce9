"""A data set before it is written, and its own files as bytes: record, manifest, lists.

The same contents give the same bytes: sorted where order has no meaning, no time, host or path.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from mmprep import files
from mmprep.errors import UsageError
from mmprep.manifest import codec
from mmprep.manifest.model import (
    Dataset,
    FileEntry,
    LabelCount,
    Modality,
    Record,
    Session,
    Totals,
    label_name,
)
from mmprep.steps.running.journal import InputNote
from mmprep.steps.running.names import Names
from mmprep.steps.running.tasks import Failure, digest

RECORD = "dataset.json"


@dataclass(frozen=True, slots=True)
class StepName:
    """Which step it is; the version changes when its results do.

    Parameters
    ----------
    record : str
        Its commit record: dataset.json, or that of foreign files.
    """

    name: str
    version: int
    record: str = RECORD


@dataclass(frozen=True, slots=True)
class Placed:
    """A file of the data set: where it lies now, its size and sha256."""

    source: Path
    n_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Corpus:
    """What a corpus is known by: see `running.seen`.

    Parameters
    ----------
    beside : dict
        Path -> stamp of the inputs that belong to no task.
    """

    key: str
    beside: dict[str, tuple[int, ...]]


@dataclass(slots=True)
class Contents:
    """A data set before it is written.

    Parameters
    ----------
    records : list of Record
        In order; their streams name final places.
    placed : dict
        Final name -> Placed, shards and all other files.
    extra_inputs : tuple of str
        Files that belong to no task (labels, datasets).
    media_root : Path, optional
        Where the records' sources lie.
    texts : dict
        Small files by final name, their bytes.
    with_manifest : bool
        Write manifest.jsonl; foreign files have their own.
    folders : tuple of str
        The folders that were walked: a new file in one of them makes the data set stale.
    corpus : Corpus, optional
        By what an unchanged corpus is known again.
    names : Names
        What people and sessions are called in place of their own names.
    """

    records: Sequence[Record]
    modalities: dict[str, Modality] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    placed: dict[str, Placed] = field(default_factory=dict)
    splits: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, LabelCount] = field(default_factory=dict)
    extra_inputs: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    media_root: Path | None = None
    n_rejected_rows: int = 0
    texts: dict[str, bytes] = field(default_factory=dict)
    with_manifest: bool = True
    extra: dict[str, Any] = field(default_factory=dict)
    corpus: Corpus | None = None
    names: Names = field(default_factory=Names)


@dataclass(frozen=True, slots=True)
class Made:
    """How a data set came to be.

    Parameters
    ----------
    notes : dict
        Path -> InputNote of every input that a task read.
    """

    step: StepName
    options: Mapping[str, Any]
    root: Path
    failures: tuple[Failure, ...]
    notes: Mapping[str, InputNote]

    def inputs_of(self, contents: Contents) -> dict[str, InputNote | None]:
        """List all inputs by path; those of no task have no note yet."""
        own = {path: None for path in contents.extra_inputs if path not in self.notes}
        return dict(sorted({**self.notes, **own}.items()))


@dataclass(frozen=True, slots=True)
class Written:
    """The bytes of a data set's own files, and the sizes of all."""

    contents: Contents
    dataset: Dataset
    record: bytes
    texts: dict[str, bytes]
    sizes: dict[str, int]
    inputs: list[str]

    @property
    def totals(self) -> dict[str, Any]:
        """Give the sums as plain values."""
        found = self.dataset.totals
        names = ("records", "seconds", "bytes", "failures", "rejected_rows")
        return {name: getattr(found, name) for name in names}

    @classmethod
    def of(cls, contents: Contents, made: Made) -> Written:
        """Write a data set in memory; records are encoded once."""
        inputs = made.inputs_of(contents)
        texts = {**contents.texts, "inputs.jsonl": _input_lines(made.root, inputs, contents.names)}
        if contents.with_manifest:
            texts["manifest.jsonl"] = b"".join(codec.encode_records(contents.records))
        if made.failures:
            texts["failures.jsonl"] = _lines(
                failure.line(contents.names.text) for failure in made.failures
            )
        sizes = {name: placed.n_bytes for name, placed in contents.placed.items()}
        sizes |= {name: len(data) for name, data in texts.items()}
        dataset = _dataset(made, contents, texts, sum(sizes.values()))
        record = codec.encode_dataset(dataset)
        return cls(contents, dataset, record, texts, sizes, list(inputs))


def _dataset(made: Made, contents: Contents, texts: Mapping[str, bytes], n_bytes: int) -> Dataset:
    from importlib.metadata import version

    shards = {shard.path for part in contents.modalities.values() for shard in part.shards}
    entries = {
        name: FileEntry(bytes=placed.n_bytes, sha256=placed.sha256)
        for name, placed in contents.placed.items()
        if name not in shards
    }
    entries |= {name: _entry(data) for name, data in texts.items()}
    return Dataset(
        mmprep_version=version("mmprep"),
        step=made.step.name,
        step_version=made.step.version,
        options=dict(made.options),
        modalities=contents.modalities,
        sessions=contents.sessions,
        labels=contents.labels or count_labels(contents.records),
        splits=contents.splits or count_splits(contents.records),
        totals=Totals(
            records=len(contents.records),
            seconds=round(sum(record.duration_s for record in contents.records), 9),
            bytes=n_bytes,
            failures=len(made.failures),
            rejected_rows=contents.n_rejected_rows,
        ),
        files=entries,
        extra=contents.extra,
    )


def _entry(data: bytes) -> FileEntry:
    return FileEntry(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


def count_labels(records: Iterable[Record]) -> dict[str, LabelCount]:
    """Count the records of each class."""
    counts: dict[str, int] = {}
    for record in records:
        if record.label is not None:
            name = label_name(record.label)
            counts[name] = counts.get(name, 0) + 1
    return {name: LabelCount(count=count) for name, count in sorted(counts.items())}


def count_splits(records: Iterable[Record]) -> dict[str, int]:
    """Count the records of each split."""
    counts: dict[str, int] = {}
    for record in records:
        if record.split is not None:
            counts[record.split] = counts.get(record.split, 0) + 1
    return dict(sorted(counts.items()))


def _input_lines(root: Path, inputs: Mapping[str, InputNote | None], names: Names) -> bytes:
    rows = []
    for path, note in inputs.items():
        text = (note.digest if note else "") or digest(path) or None
        size = note.n_bytes if note else files.stamp(path).n_bytes
        rows.append({"name": names.text(_input_name(path, root)), "bytes": size, "digest": text})
    return _lines(sorted(rows, key=lambda row: str(row["name"])))


def _input_name(path: str, root: Path) -> str:
    """Name an input below the root; one from elsewhere (a table of labels) by its own name."""
    try:
        return files.below(path, root)
    except UsageError:
        return Path(path).name


def _lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
