"""Small data sets whose every value is known."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mmprep.manifest import codec
from mmprep.manifest.model import (
    Dataset,
    FileEntry,
    LabelCount,
    Modality,
    Record,
    ShardEntry,
    StreamRef,
    Totals,
    shard_ref,
)
from mmprep.shards import ShardWriter


def record(number, streams, **changes):
    fields = {"id": f"s/{number:06d}", "session": "s", "begin_s": float(number), "duration_s": 1.0}
    return Record(**(fields | {"streams": streams} | changes))


@dataclass
class SetMaker:
    """Write shards, then the records that name them."""

    root: Path
    shards: dict[str, list[ShardEntry]] = field(default_factory=dict)

    def shard(self, modality: str, rows: np.ndarray) -> str:
        """Append a shard to a modality and give its path."""
        entries = self.shards.setdefault(modality, [])
        path = f"{modality}/shard-{len(entries):05d}.npy"
        (self.root / modality).mkdir(parents=True, exist_ok=True)
        with ShardWriter(self.root / path, rows.dtype, rows.shape[1:]) as writer:
            writer.write(rows)
        made = writer.shard
        entries.append(
            ShardEntry(
                path=path,
                rows=made.n_rows,
                bytes=made.n_bytes,
                sha256=made.sha256,
                row_shape=made.row_shape,
            )
        )
        return path

    def ragged(self, modality: str, pieces: Sequence[np.ndarray]) -> list[StreamRef]:
        """Put arrays one after the other in one shard."""
        path = self.shard(modality, np.concatenate(pieces))
        ends = np.cumsum([len(piece) for piece in pieces])
        return [
            shard_ref(path, (int(end) - len(piece), int(end)), rate_hz=1.0)
            for end, piece in zip(ends, pieces, strict=True)
        ]

    def windows(self, modality: str, rows: np.ndarray, valid: np.ndarray) -> list[StreamRef]:
        """Put windows and their masks in a shard each."""
        path = self.shard(modality, rows)
        self.shard(f"{modality}.valid", valid)
        return [shard_ref(path, (k, k + 1), rate_hz=1.0) for k in range(len(rows))]

    def write(self, records: Sequence[Record], *, tables: Sequence[str] = ()) -> Path:
        """Write the manifest and dataset.json."""
        lines = b"".join(codec.encode_records(records))
        files = {name: (self.root / name).read_bytes() for name in tables}
        files["manifest.jsonl"] = lines
        self.root.mkdir(parents=True, exist_ok=True)
        (self.root / "manifest.jsonl").write_bytes(lines)
        entries = [entry for entries in self.shards.values() for entry in entries]
        n_bytes = sum(map(len, files.values())) + sum(entry.bytes for entry in entries)
        dataset = Dataset(
            mmprep_version="0",
            step="test",
            step_version=1,
            modalities={
                name: Modality(shards=tuple(entries)) for name, entries in self.shards.items()
            },
            labels=_labels(records),
            splits=_splits(records),
            totals=Totals(
                records=len(records), seconds=sum(r.duration_s for r in records), bytes=n_bytes
            ),
            files={name: _entry(data) for name, data in files.items()},
        )
        (self.root / "dataset.json").write_bytes(codec.encode_dataset(dataset))
        return self.root


def _labels(records):
    labels = [r.label for r in records if r.label is not None]
    return {name: LabelCount(count=labels.count(name)) for name in labels}


def _splits(records):
    splits = [r.split for r in records if r.split is not None]
    return {name: splits.count(name) for name in splits}


def _entry(data):
    return FileEntry(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
