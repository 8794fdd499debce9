"""Records with their values for other trainers: which streams, which file, read in workers.

Rules
-----
- Values are those of the shards, bit for bit: masked ones are NaN, -1 (frame indices) or 0
  (pixels), and the mask stands beside them. Streams of tables are left out, which is said.
- Each split is cut into files of consecutive records, as many as `--shards` says, else as their
  size asks for; their counts differ by one at most.
- A file is a task, a record an item; one record is in memory at a time, or a small block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from mmprep import media
from mmprep.errors import DataError, UsageError
from mmprep.exporters.base import Sample, Stream, escape, fields_of
from mmprep.manifest.model import Record
from mmprep.steps.datasets import InputDataset, is_window
from mmprep.steps.exporting import sound
from mmprep.steps.exporting.base import Export, read_rows
from mmprep.steps.running.tasks import DEFAULT_MEMORY_BYTES, Item, Job, Task

UNSPLIT = "data"
BLOCK_BYTES = 16 << 20  # what a format may keep before it writes
_COPIES = 4  # of one record: values, encoded, in a buffer, on their way out


def with_values(export: Export) -> tuple[Export, tuple[str, ...]]:
    """Leave out records without sound where sound files are wanted, and say so.

    Raises
    ------
    DataError
        None has sound.
    """
    if export.sound_suffix is None:
        return export, left_out(export)
    records, notes = sound.with_sound(export)
    return replace(export, records=records), (*left_out(export), *notes)


# Streams ------------------------------------------------------------------------------------------


def streams_of(export: Export) -> tuple[Stream, ...]:
    """Describe the streams in shards that some record has, in the order of the records.

    Raises
    ------
    UsageError
        There are none.
    """
    names = dict.fromkeys(
        name
        for record in export.records
        for name, ref in record.streams.items()
        if ref.shard is not None and not (name == "audio" and export.audio == "none")
    )
    if not names:
        raise UsageError(
            "no record has values in shards",
            where=export.data.record_path,
            hint="`mmprep align` makes windows of tables, `mmprep convert` shards of sound",
        )
    return tuple(_stream(export.data, name) for name in names)


def _stream(data: InputDataset, name: str) -> Stream:
    about = data.dataset.modalities[name]
    mask = data.dataset.modalities.get(f"{name}.valid")
    return Stream(
        name,
        about.dtype or "float32",
        about.row_shape,
        is_window=is_window(data, name),
        is_masked=mask is not None,
        rate_hz=about.rate_hz,
        channels=about.channels,
        units=about.units,
    )


def left_out(export: Export) -> tuple[str, ...]:
    """Say which streams have no values in shards."""
    tables = {
        name
        for record in export.records
        for name, ref in record.streams.items()
        if ref.table is not None
    }
    if not tables:
        return ()
    names = ", ".join(sorted(tables))
    return (f"streams of tables are left out, align makes windows of them: {names}",)


# Files --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive records that make one file."""

    split: str
    number: int
    n_parts: int
    records: tuple[Record, ...]


def n_bytes_of(export: Export, record: Record) -> int:
    """Give about how many bytes the values of a record take."""
    entries = export.shards_by_path
    refs = (ref for ref in record.streams.values() if ref.path in entries)
    return sum(
        ref.n_rows * entries[ref.path].bytes // max(entries[ref.path].rows, 1) for ref in refs
    )


def grouped(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Give the records of each split, by what its files are called."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(escape(record.split) if record.split else UNSPLIT, []).append(record)
    return found


def parts_of(export: Export, part_bytes: int) -> Iterator[Part]:
    """Cut each split into files.

    Parameters
    ----------
    part_bytes : int
        About how many a file holds, where `--shards` does not say how many there are.
    """
    for split, records in grouped(export.records).items():
        n_parts = export.shards or -(-sum(n_bytes_of(export, r) for r in records) // part_bytes)
        n_parts = max(1, min(n_parts, len(records)))
        cuts = [k * len(records) // n_parts for k in range(n_parts + 1)]
        for k, (begin, end) in enumerate(pairwise(cuts)):
            yield Part(split, k, n_parts, tuple(records[begin:end]))


def too_few(export: Export, parts: Sequence[Part]) -> tuple[str, ...]:
    """Say which splits have fewer records than `--shards`."""
    small = {part.split: part.n_parts for part in parts if part.n_parts < (export.shards or 0)}
    return tuple(f"{split} has {n} records, so {n} shards" for split, n in small.items())


def no_texts(_values: object) -> dict[str, bytes]:
    """Give no texts beside the files."""
    return {}


def task(export: Export, streams: Sequence[Stream], part: Part, name: str, **spec: object) -> Task:
    """Plan the file of a part."""
    names = {stream.name for stream in streams}
    items = tuple(_item(record, names, n_bytes_of(export, record)) for record in part.records)
    shards = sorted({ref[0] for item in items for ref in item.spec["refs"].values()})
    return Task(
        name,
        items,
        {
            "name": name,
            "folder": str(export.data.folder),
            "shards": {shard: export.data.file_hash(shard) for shard in shards},
            "streams": [asdict(stream) for stream in streams],
            **spec,
        },
        DEFAULT_MEMORY_BYTES + 2 * BLOCK_BYTES + _COPIES * max(item.n_bytes for item in items),
    )


def _item(record: Record, names: set[str], n_bytes: int) -> Item:
    refs = {
        name: [ref.path, *ref.rows]
        for name, ref in record.streams.items()
        if ref.shard is not None and name in names
    }
    text = msgspec.json.encode(fields_of(record)).decode()
    return Item(record.id, (), n_bytes, {"fields": text, "refs": refs}, record.id)


# In a worker --------------------------------------------------------------------------------------


class Reader:
    """The samples of a task, one after the other."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._folder = Path(job.task.spec["folder"])
        self.streams = tuple(msgspec.convert(about, Stream) for about in job.task.spec["streams"])

    def __call__(self, use: Callable[[Sample], object] | None = None) -> Iterator[Any]:
        """Read the samples; give each, or what `use` makes of it. A damaged one is left out."""
        for item in self._job.items():
            found: list[Any] = []
            with self._job.attempt(item, "read"):
                sample = self._sample(item)
                found.append(sample if use is None else use(sample))
            yield from found

    def _sample(self, item: Item) -> Sample:
        arrays: dict[str, NDArray[Any] | None] = {}
        for stream in self.streams:
            ref = item.spec["refs"].get(stream.name)
            arrays |= dict.fromkeys(_names(stream)) if ref is None else self._read(stream, *ref)
        return Sample(msgspec.json.decode(item.spec["fields"]), arrays)

    def _read(self, stream: Stream, shard: str, begin: int, end: int) -> dict[str, NDArray[Any]]:
        """Read the rows of a record, and their mask."""
        folder, _, file = shard.rpartition("/")
        paths = [shard, f"{folder}.valid/{file}"] if stream.is_masked else [shard]
        found = [read_rows(self._folder / path, begin, end) for path in paths]
        if stream.is_window and end - begin == 1:
            found = [rows[0] for rows in found]
        found[0] = found[0].astype(stream.dtype, copy=False)
        return dict(zip(_names(stream), found, strict=True))


def output(job: Job, name: str) -> BinaryIO:
    """Open a file of a task to be written; what the disk does to it ends the run."""
    path = job.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # a leftover may share its bytes by a hard link
    return path.open("wb")


def sound_file(job: Job, sample: Sample, suffix: str) -> bytes:
    """Encode the sound of a sample; masked samples are 0."""
    path, values = job.folder / f"sound.{suffix}", sample.arrays["audio"]
    if values is None:
        raise DataError("has no audio", where=f"record {sample.id!r}")
    rate_hz = sample.fields["streams"]["audio"]["rate_hz"]
    media.write_audio(path, np.nan_to_num(values), round(rate_hz))
    data = path.read_bytes()
    path.unlink()
    return data


def _names(stream: Stream) -> list[str]:
    return [stream.name, stream.mask_name] if stream.is_masked else [stream.name]
