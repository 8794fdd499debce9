"""MemmapDataset: records of a data set directory as numpy arrays.

Rules
-----
- Opening reads dataset.json and the manifest; shards are mapped when they are first read, each
  process for itself. A pickled data set is its path and settings; the manifest is read again
  where it is unpickled, and must be the same one.
- What is handed out are copies: nothing that a caller keeps holds a map open.
- A record and a batch have the same keys for all records of a data set: `id, label, labels`, `text`
  where the data set has any, and for each stream m its array `m`, `m.length` (rows, or samples of
  a window) and, where the data set says which values are true, `m.valid`.
- A stream with masks and one row a record is a window: its row is the array. Any other is ragged:
  its rows are the array, padded with 0 at the end in a batch.
- Values that are masked or missing are 0, or `fill`; `fill="nan"` leaves what is stored (NaN; -1
  for frame indices; 0 for pixels). A record without the stream has length 0 and nothing valid.
- A missing or damaged shard is an error that names the shard and the record, never zeros.
"""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, overload

import msgspec
import numpy as np
from numpy.typing import NDArray

from mmprep import files
from mmprep.errors import DataError, MmprepError, UsageError
from mmprep.loaders import sampler
from mmprep.loaders.index import ABSENT, Index, Meta, read_index
from mmprep.manifest import codec
from mmprep.manifest.model import Dataset, Record
from mmprep.shards import MAX_OPEN, ShardFiles
from mmprep.timebase import BoolArray, IntArray

AnyArray: TypeAlias = NDArray[Any]
Item: TypeAlias = dict[str, Any]
Fill: TypeAlias = float | Literal["nan"]

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

RECORD = "dataset.json"
MANIFEST = "manifest.jsonl"
VALID = ".valid"
MAX_OPEN_MOST = 4096

_meta_decoder = msgspec.json.Decoder(Meta)


def open_dataset(
    path: str | Path,
    split: str | None = None,
    media_root: str | Path | None = None,
    *,
    verify: bool = False,
    fill: Fill = 0.0,
) -> MemmapDataset:
    """Open a data set directory, or one split of it.

    Parameters
    ----------
    path : path
        The directory, or the dataset.json or manifest.jsonl in it.
    split : str, optional
        Only the records of this split.
    media_root : path, optional
        Where the sources lie, in place of the input root that the data set was made from.
    verify : bool
        Compare each file's sha256 before it is first read in a process.
    fill : float or "nan"
        What masked and missing values become.

    Raises
    ------
    UsageError
        No data set there, or no such split.
    DataError
        dataset.json or the manifest is damaged.
    """
    return MemmapDataset(path, split, media_root, verify=verify, fill=fill)


class MemmapDataset:
    """Records of a data set directory; see `open_dataset`.

    `ds[3]` is a record as a dict, `ds[[3, 1, 2]]` and `ds[2:10]` are batches.
    """

    def __init__(
        self,
        path: str | Path,
        split: str | None = None,
        media_root: str | Path | None = None,
        *,
        verify: bool = False,
        fill: Fill = 0.0,
    ) -> None:
        self.root = _root(Path(path))
        self.split, self.verify, self.fill = split, verify, _fill(fill)
        self.media_root = None if media_root is None else Path(media_root)
        self._opened: _Opened | None = _open(self.root, split, verify=verify)
        self._digest = self._opened.digest

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    @property
    def _now(self) -> _Opened:
        """The open files; after unpickling they are opened when first needed."""
        if self._opened is None:
            opened = _open(self.root, self.split, verify=self.verify)
            if opened.digest != self._digest:
                raise DataError(
                    "the data set was made anew since it was opened",
                    where=str(self.root / RECORD),
                    hint="open it again",
                )
            self._opened = opened
        return self._opened

    def __len__(self) -> int:
        return self._now.index.n_records

    def __repr__(self) -> str:
        split = "" if self.split is None else f", split={self.split!r}"
        return f"MemmapDataset({str(self.root)!r}{split}: {len(self)} x {list(self.streams)})"

    @property
    def header(self) -> Dataset:
        """dataset.json."""
        return self._now.dataset

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of the streams that a record may have."""
        return tuple(self._now.index.columns)

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of `label`, in the order of dataset.json."""
        return tuple(self.header.labels)

    @property
    def class_weights(self) -> dict[str, float | None]:
        """The weight of each class; None before a split."""
        return {name: count.weight for name, count in self.header.labels.items()}

    def record(self, number: int) -> Record:
        """Read a record's line of the manifest.

        Raises
        ------
        IndexError
            There is no such record.
        """
        return codec.decode_record(self._line(number))

    def source(self, number: int) -> Path:
        """Find the file that a record was made from.

        Raises
        ------
        UsageError
            The record names none, or its root is not known.
        """
        name = self.record(number).source
        if name is None:
            raise UsageError(f"record {self.record(number).id!r} names no source")
        return files.inside(self.media_root or _input_root(self.root), name)

    @overload
    def __getitem__(self, key: int | np.integer[Any]) -> Item: ...
    @overload
    def __getitem__(self, key: slice | Sequence[int] | AnyArray) -> Item: ...
    def __getitem__(self, key: Any) -> Item:
        numbers = np.arange(len(self), dtype=np.int64)[key]
        return self._item(int(numbers)) if numbers.ndim == 0 else self._batch(numbers)

    def __iter__(self) -> Iterator[Item]:
        return (self._item(number) for number in range(len(self)))

    def batches(
        self,
        batch_size: int | None = None,
        *,
        shuffle: bool = False,
        seed: int = 0,
        epoch: int = 0,
        rank: int = 0,
        world_size: int = 1,
        drop_last: bool = False,
        max_seconds: float | None = None,
        max_rows: int | None = None,
        by: str | None = None,
        start: int = 0,
    ) -> Batches:
        """Go through the records in batches.

        Parameters
        ----------
        batch_size : int, optional
            Records a batch; with a size limit, the most records.
        shuffle : bool
            In an order that depends on seed and epoch alone, instead of the manifest's.
        rank, world_size : int
            Which of how many processes this is. All get the same number of batches; what is
            missing for that is repeated from the beginning of the epoch.
        drop_last : bool
            Leave out what does not fill a batch, or a round of all ranks.
        max_seconds, max_rows : optional
            Limit a batch by count x longest record, in seconds or in rows of the stream `by`.
        by : str, optional
            The stream whose rows are counted; needed if there are several.
        start : int
            The first batch, to go on where a run stopped.

        Returns
        -------
        Batches
            An iterable of batches that knows its length.

        Raises
        ------
        UsageError
            Neither or contradictory limits, an unknown stream, rank not below world_size.
        """
        n_records = len(self)
        order = sampler.epoch_order(n_records, shuffle=shuffle, seed=seed, epoch=epoch)
        sizes, limit = self._sizes(max_seconds, max_rows, by)
        if limit is not None:
            cut = sampler.sized_batches(order, sizes, limit, max_count=batch_size)
            mine = sampler.rank_batches(cut, rank=rank, world_size=world_size, drop_last=drop_last)
            return Batches(self, tuple(mine[start:]))
        if batch_size is None or batch_size < 1:
            raise UsageError("batches need a batch_size of 1 or more, max_seconds or max_rows")
        share = sampler.rank_share(order, rank=rank, world_size=world_size, drop_last=drop_last)
        counted = sampler.counted_batches(share, batch_size, drop_last=drop_last, start=start)
        return Batches(self, tuple(counted))

    def _sizes(
        self, max_seconds: float | None, max_rows: int | None, by: str | None
    ) -> tuple[NDArray[Any], float | None]:
        if max_seconds is not None and max_rows is not None:
            raise UsageError("give max_seconds or max_rows, not both")
        if max_rows is None:
            return self._now.index.seconds, max_seconds
        columns = self._now.index.columns
        name = by if by is not None or len(columns) != 1 else next(iter(columns))
        if name not in columns:
            raise UsageError(f"by={by!r} is no stream, expected one of {', '.join(columns)}")
        return np.maximum(columns[name].n_rows, 0), max_rows

    def _line(self, number: int) -> bytes:
        index, lines = self._now.index, self._now.lines
        return bytes(lines[index.line_begin[number] : index.line_end[number]])

    def _meta(self, number: int) -> Meta:
        return _meta_decoder.decode(self._line(number))

    def _item(self, number: int) -> Item:
        """One record: a batch of one without its first axis."""
        meta = self._meta(number)
        item: Item = {"id": meta.id, "label": meta.label, "labels": meta.labels}
        if self._now.index.has_text:
            item["text"] = meta.text
        for name in self.streams:
            parts = self._stream(name, np.array([number]), [meta])
            item |= {key: _only(value) for key, value in parts.items()}
        return item

    def _batch(self, numbers: IntArray) -> Item:
        metas = [self._meta(int(number)) for number in numbers]
        batch: Item = {
            "id": [meta.id for meta in metas],
            "label": [meta.label for meta in metas],
            "labels": [meta.labels for meta in metas],
        }
        if self._now.index.has_text:
            batch["text"] = [meta.text for meta in metas]
        for name in self.streams:
            batch |= self._stream(name, numbers, metas)
        return batch

    def _stream(self, name: str, numbers: IntArray, metas: list[Meta]) -> Item:
        """Read one stream of some records, padded and filled."""
        pieces = [
            self._piece(name, int(number), meta)
            for number, meta in zip(numbers, metas, strict=True)
        ]
        if not pieces:
            return _nothing(name, self._now.absent(name))
        values, lengths = _padded(name, [piece.values for piece in pieces], metas)
        if pieces[0].valid is None:
            return {name: values, f"{name}.length": lengths}
        valid, _ = _padded(name, [_mask(piece) for piece in pieces], metas)
        if self.fill != "nan":
            _fill_masked(values, valid, lengths, self.fill)
        return {name: values, f"{name}{VALID}": valid, f"{name}.length": lengths}

    def _piece(self, name: str, number: int, meta: Meta) -> _Piece:
        try:
            return self._now.piece(name, number)
        except MmprepError as error:
            what = f"record {meta.id!r}, stream {name!r}: {error.what}"
            raise DataError(what, where=error.where, hint=error.hint) from error


@dataclass(frozen=True, slots=True)
class Batches:
    """The batches of one rank in one epoch; can be gone through again."""

    dataset: MemmapDataset
    numbers: tuple[IntArray, ...]

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Item]:
        return (self.dataset[numbers] for numbers in self.numbers)


@dataclass(frozen=True, slots=True)
class _Piece:
    """One record's part of a stream: views, rows first."""

    values: AnyArray
    valid: BoolArray | None


@dataclass(frozen=True, slots=True)
class _Opened:
    """What a process has open of a data set."""

    root: Path
    dataset: Dataset
    digest: str
    index: Index
    lines: mmap.mmap | bytes
    masked: frozenset[str]
    maps: ShardFiles
    verify: bool
    paths: dict[str, str]

    def piece(self, name: str, number: int) -> _Piece:
        """Read one record's part of a stream."""
        column = self.index.columns[name]
        begin, n_rows = int(column.begin[number]), int(column.n_rows[number])
        if n_rows == ABSENT:
            return self.absent(name)
        path = column.paths[column.file[number]]
        if column.is_table:
            return _of_table(self._checked(path), name, (begin, begin + n_rows))
        values = self._rows(path, begin, begin + n_rows)
        if name not in self.masked:
            return _Piece(values, None)
        valid = self._rows(_mask_path(path), begin, begin + n_rows)
        if column.is_single and n_rows == 1 and valid.ndim > 1:
            return _Piece(values[0], valid[0])
        return _Piece(values, valid)

    def absent(self, name: str) -> _Piece:
        """Give no rows, of the shape and type of the stream's first file."""
        column = self.index.columns[name]
        if column.is_table:
            return _of_table(self._checked(column.paths[0]), name, (0, 0))
        values = self._rows(column.paths[0], 0, 0)
        if name not in self.masked:
            return _Piece(values, None)
        valid = self._rows(_mask_path(column.paths[0]), 0, 0)
        if column.is_single and valid.ndim > 1:
            return _Piece(values.reshape(0, *values.shape[2:]), valid.reshape(0))
        return _Piece(values, valid)

    def _rows(self, name: str, begin: int, end: int) -> AnyArray:
        rows = self.maps.open(self._checked(name))
        if not 0 <= begin <= end <= len(rows):
            raise DataError(
                f"rows {begin} to {end} of the {len(rows)} in the shard",
                where=name,
                hint="check the data set with `mmprep manifest validate`",
            )
        return rows.view(np.ndarray)[begin:end]

    def _checked(self, name: str) -> str:
        """Resolve a file's name, once a process; with `verify` compare its sha256."""
        path = self.paths.get(name)
        if path is None:
            found = files.inside(self.root, name)
            if self.verify:
                _verify(found, name, self.dataset)
            path = self.paths[name] = str(found)
        return path


def _open(root: Path, split: str | None, *, verify: bool) -> _Opened:
    record = _read(root / RECORD)
    dataset = codec.decode_dataset(record, where=str(root / RECORD))
    manifest = root / MANIFEST
    _check_manifest(manifest, dataset, verify=verify)
    names = {**dataset.shard_entries(), **dataset.files}
    index = read_index(manifest, split=split)
    return _Opened(
        root=root,
        dataset=dataset,
        digest=hashlib.sha256(record).hexdigest(),
        index=index,
        lines=_mapped(manifest),
        masked=frozenset(
            name
            for name, column in index.columns.items()
            if column.is_table or any(_mask_path(path) in names for path in column.paths)
        ),
        maps=ShardFiles(_max_open()),
        verify=verify,
        paths={},
    )


def _max_open() -> int:
    """Take half of the files that this process may have open, each map holds one.

    A shuffled epoch touches shards at random, so a limit below their number opens one anew for
    nearly every record, which costs more than reading it.
    """
    if resource is None:
        return MAX_OPEN
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_OPEN_MOST if soft < 0 else max(16, min(soft // 2, MAX_OPEN_MOST))


def _root(path: Path) -> Path:
    return path.parent if path.name in {RECORD, MANIFEST} else path


def _read(record: Path) -> bytes:
    try:
        return record.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(
            f"no data set here: there is no {RECORD}",
            where=str(record.parent),
            hint="name a folder that an mmprep command wrote",
        ) from error


def _check_manifest(manifest: Path, dataset: Dataset, *, verify: bool) -> None:
    entry = dataset.files.get(MANIFEST)
    n_bytes = manifest.stat().st_size if manifest.is_file() else None
    if entry is None or n_bytes != entry.bytes:
        raise DataError(
            f"has {n_bytes} bytes, recorded {entry.bytes if entry else None}",
            where=str(manifest),
            hint="run the step that wrote the data set again",
        )
    if verify:
        _verify(manifest, MANIFEST, dataset)


def _verify(path: Path, name: str, dataset: Dataset) -> None:
    entry = dataset.files.get(name) or dataset.shard_entries().get(name)
    if entry is None:
        raise DataError(f"is not listed in {RECORD}", where=str(path))
    if not path.is_file():
        raise DataError("is missing", where=str(path))
    if files.sha256(path) != entry.sha256:
        raise DataError(
            "its content is not what was written: the sha256 differs",
            where=str(path),
            hint="run the step that wrote the data set again",
        )


def _mapped(manifest: Path) -> mmap.mmap | bytes:
    with manifest.open("rb") as file:
        if file.seek(0, 2) == 0:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


@cache
def _mask_path(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}{VALID}/{name}"


def _of_table(path: str, name: str, rows: tuple[int, int]) -> _Piece:
    """Read the numeric columns of a table; a row is valid if any of them is there."""
    from mmprep import tables

    values = tables.read_stream(Path(path), name, rows=rows).values
    return _Piece(values, ~np.isnan(values).all(axis=1))


def _mask(piece: _Piece) -> AnyArray:
    return np.zeros(len(piece.values), bool) if piece.valid is None else piece.valid


def _nothing(name: str, piece: _Piece) -> Item:
    """Give the stream of a batch without records."""
    found: Item = {name: piece.values[np.newaxis][:0], f"{name}.length": np.zeros(0, np.int64)}
    if piece.valid is not None:
        found[f"{name}{VALID}"] = piece.valid[np.newaxis][:0]
    return found


def _padded(name: str, pieces: list[AnyArray], metas: list[Meta]) -> tuple[AnyArray, IntArray]:
    """Stack arrays of different lengths, with zeros at the end of the shorter ones."""
    lengths = np.array([len(piece) for piece in pieces], np.int64)
    first = pieces[0]
    for piece, meta in zip(pieces, metas, strict=True):
        if piece.shape[1:] != first.shape[1:] or piece.dtype != first.dtype:
            raise DataError(
                f"{name} has rows of {piece.dtype} {piece.shape[1:]} here and of {first.dtype}"
                f" {first.shape[1:]} in {metas[0].id!r}",
                where=f"record {meta.id!r}",
                hint="put records of one shape in a batch",
            )
    make = np.empty if np.all(lengths == lengths[0]) else np.zeros
    stacked = make((len(pieces), int(lengths.max()), *first.shape[1:]), first.dtype)
    for row, piece in zip(stacked, pieces, strict=True):
        row[: len(piece)] = piece
    return stacked, lengths


def _fill_masked(values: AnyArray, valid: BoolArray, lengths: IntArray, fill: float) -> None:
    """Write `fill` over what is masked or NaN, in an array of our own; padding stays 0."""
    is_masked = ~valid
    if lengths.min() < values.shape[1]:
        is_masked &= np.arange(values.shape[1]) < lengths[:, np.newaxis]
    if is_masked.any():
        values[is_masked] = fill
    if values.dtype.kind == "f":
        np.copyto(values, fill, where=np.isnan(values))


def _only(value: AnyArray) -> Any:
    return value[0].item() if value.ndim == 1 else value[0]


def _fill(fill: Fill) -> Fill:
    if fill == "nan" or (isinstance(fill, int | float) and np.isfinite(fill)):
        return fill
    raise UsageError(f"fill={fill!r} is neither a number nor 'nan'")


def _input_root(root: Path) -> Path:
    """Read where the inputs lay when the data set was made."""
    note = root / ".mmprep" / "run.json"
    try:
        return Path(json.loads(note.read_bytes())["root"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            "the input root of the data set is not known",
            where=str(note),
            hint="name it: open_dataset(..., media_root=DIR)",
        ) from error
