"""A data set of mmprep as the input of a step: its record, its lines, its files to carry over."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from mmprep.errors import DataError, UsageError
from mmprep.manifest import codec
from mmprep.manifest.model import Dataset, FileEntry, Record, ShardEntry, StreamRef
from mmprep.steps.base import MARK, RECORD, Placed

MANIFEST = "manifest.jsonl"
_OWN = frozenset({MANIFEST, "inputs.jsonl", "failures.jsonl"})


@dataclass(frozen=True)  # not slotted: what is asked for a record at a time is looked up once
class InputDataset:
    """A data set that a step reads.

    Parameters
    ----------
    folder : Path
        Where it is, absolute.
    dataset : Dataset
        Its dataset.json.
    records : tuple of Record
        Its manifest.
    """

    folder: Path
    dataset: Dataset
    records: tuple[Record, ...]

    @property
    def record_path(self) -> str:
        """The path of dataset.json."""
        return str(self.folder / RECORD)

    def file_hash(self, name: str) -> str:
        """Give the sha256 of one of its files, as its record has it.

        Raises
        ------
        DataError
            The record does not list the file.
        """
        entry = self._shards.get(name) or self.dataset.files.get(name)
        if entry is None:
            raise DataError(f"{name} is not listed", where=self.record_path)
        return entry.sha256

    def carried(self) -> dict[str, Placed]:
        """List all files that a step carries over as they are.

        Raises
        ------
        DataError
            One is missing or has another size.
        """
        entries: dict[str, ShardEntry | FileEntry] = {**self.dataset.shard_entries()}
        entries |= {k: v for k, v in self.dataset.files.items() if k not in _OWN}
        for name, entry in entries.items():
            self._check(name, entry.bytes)
        return {
            name: Placed(self.folder / name, entry.bytes, entry.sha256)
            for name, entry in entries.items()
        }

    def _check(self, name: str, n_bytes: int) -> None:
        path = self.folder / name
        found = path.stat().st_size if path.is_file() else 0
        if found != n_bytes:
            raise DataError(
                f"has {found} bytes, recorded {n_bytes}",
                where=str(path),
                hint="run the step that wrote the data set again",
            )

    @cached_property
    def _shards(self) -> dict[str, ShardEntry]:
        return self.dataset.shard_entries()

    @cached_property
    def media_root(self) -> Path | None:
        """Where its raw inputs were, as it was made; None if that is not known."""
        try:
            note: dict[str, Any] = msgspec.json.decode(
                (self.folder / MARK / "run.json").read_bytes()
            )
        except (OSError, msgspec.MsgspecError):
            return None
        return Path(note["media_root"]) if note.get("media_root") else None


def folder_of(path: str | Path) -> Path:
    """Give the folder of a data set that is named itself, or by its dataset.json."""
    named = Path(path)
    return named.parent if named.name == RECORD and named.is_file() else named


def is_dataset(path: str | Path) -> bool:
    """Say whether a data set is named."""
    return (folder_of(path) / RECORD).is_file()


def load(folder: str | Path, ids: Collection[str] = ()) -> InputDataset:
    """Read a data set, or some of its records.

    Raises
    ------
    UsageError
        The folder holds no data set.
    DataError
        dataset.json or a line of the manifest is malformed.
    """
    path = folder_of(folder)
    try:
        data = (path / RECORD).read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(
            f"is no data set: it has no {RECORD}",
            where=str(folder),
            hint="name a folder that a mmprep command wrote",
        ) from error
    dataset = codec.decode_dataset(data, where=str(path / RECORD))
    lines = codec.read_manifest(path / MANIFEST)
    records = tuple(record for record in lines if not ids or record.id in ids)
    return InputDataset(path, dataset, records)


def is_window(data: InputDataset, name: str) -> bool:
    """Say whether a record's values are one row of their shard, not rows of their own."""
    mask = data.dataset.modalities.get(f"{name}.valid")
    return mask is not None and mask.row_shape != ()


def without_audio(data: InputDataset) -> DataError:
    """Say that there is no stream `audio`, and which other sound there is."""
    kinds = data.dataset.modalities.items()
    others = [name for name, modality in kinds if modality.kind == "audio"]
    hint = "a recording named audio.wav or video.mp4 by the layout's {stream} gives one"
    return DataError(
        "no record has a stream `audio`",
        where=data.record_path,
        hint=f"there is sound in {', '.join(others)}; {hint}" if others else hint,
    )


def stream(record: Record, name: str) -> StreamRef:
    """Give a stream of a record.

    Raises
    ------
    UsageError
        It has none of that name.
    """
    if name not in record.streams:
        raise UsageError(
            f"there is no stream {name!r}",
            where=record.id,
            hint=f"its streams: {', '.join(record.streams)}",
        )
    return record.streams[name]


def check_unique(records: Iterable[Record]) -> None:
    """Refuse two records of one id.

    Raises
    ------
    UsageError
        An id occurs twice.
    """
    seen: set[str] = set()
    for record in records:
        if record.id in seen:
            raise UsageError(f"the id {record.id!r} occurs twice", hint="rename one of the inputs")
        seen.add(record.id)
