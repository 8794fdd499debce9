"""A manifest as arrays: where each record's line and rows are, and how long it is.

Rules
-----
- A record costs 24 bytes and 20 a stream, whatever its line holds; id, label and text are read
  from its line when they are asked for.
- `n_rows` is -1 where a record lacks the stream.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from mmprep.errors import DataError, UsageError
from mmprep.manifest import codec
from mmprep.manifest.model import LabelValue
from mmprep.timebase import FloatArray, IntArray

ABSENT = -1


class Meta(msgspec.Struct, frozen=True, gc=False):
    """What a batch says of a record beside its arrays."""

    id: str
    label: LabelValue = None
    labels: dict[str, LabelValue] = {}
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """Where one stream's rows are.

    Parameters
    ----------
    paths : tuple of str
        The files, below the data set's root; the first is there even if no record names it.
    is_table : bool
        They are tables, not shards.
    file : [shape=(n,), int32]
        Index into paths.
    begin, n_rows : [shape=(n,), int64]
    is_single : bool
        Every record of the data set, of whatever split, has one row or none.
    """

    paths: tuple[str, ...]
    is_table: bool
    file: NDArray[np.int32]
    begin: IntArray
    n_rows: IntArray
    is_single: bool


@dataclass(frozen=True, slots=True)
class Index:
    """The records of a data set or split.

    Parameters
    ----------
    line_begin, line_end : [shape=(n,), int64, bytes]
        Each record's line in the manifest.
    seconds : [shape=(n,), float64, s]
        duration_s.
    has_text : bool
        Some record has a text.
    """

    line_begin: IntArray
    line_end: IntArray
    seconds: FloatArray
    columns: dict[str, Column]
    has_text: bool

    @property
    def n_records(self) -> int:
        """The number of records."""
        return self.seconds.size


class _Ref(msgspec.Struct, frozen=True, gc=False):
    rows: tuple[int, int]
    shard: str | None = None
    table: str | None = None
    parts: list[msgspec.Raw] = []


class _Line(msgspec.Struct, frozen=True, gc=False):
    duration_s: float
    streams: dict[str, _Ref]
    split: str | None = None
    text: str | None = None


@dataclass(slots=True)
class _Growing:
    is_table: bool
    paths: dict[str, int]
    file: array[int] = field(default_factory=lambda: array("i"))
    begin: array[int] = field(default_factory=lambda: array("q"))
    n_rows: array[int] = field(default_factory=lambda: array("q"))
    is_single: bool = True

    def add(self, ref: _Ref | None) -> None:
        """Append the rows of one record."""
        if ref is None:
            self.file.append(0)
            self.begin.append(0)
            self.n_rows.append(ABSENT)
            return
        if ref.parts:
            raise DataError(
                f"{ref.table!r} is one of {1 + len(ref.parts)} tables of a recording",
                hint="align it: windows are what is loaded",
            )
        self.file.append(self.paths.setdefault(ref.shard or ref.table or "", len(self.paths)))
        self.begin.append(ref.rows[0])
        self.n_rows.append(ref.rows[1] - ref.rows[0])

    def frozen(self) -> Column:
        """Finish the column."""
        return Column(
            tuple(self.paths),
            self.is_table,
            np.array(self.file, np.int32),
            np.array(self.begin, np.int64),
            np.array(self.n_rows, np.int64),
            self.is_single,
        )


_decoder = msgspec.json.Decoder(_Line)


def read_index(path: Path, *, split: str | None = None) -> Index:
    """Read the lines of a manifest that belong to a split; all if None.

    Raises
    ------
    DataError
        At `file:line`: malformed, a key missing, a wrong type, cut, or a stream that is a shard
        here and a table there.
    UsageError
        No record is in that split.
    """
    columns: dict[str, _Growing] = {}
    begins, ends, seconds = array("q"), array("q"), array("d")
    splits: set[str] = set()
    has_text = False
    for where, begin, end, line in _lines(path):
        splits.add(line.split or "")
        _widen(columns, line, len(seconds), where)
        if split is not None and line.split != split:
            continue
        begins.append(begin)
        ends.append(end)
        seconds.append(line.duration_s)
        has_text = has_text or line.text is not None
        for name, column in columns.items():
            column.add(line.streams.get(name))
    if split is not None and split not in splits:
        raise _no_split(split, splits, path)
    frozen = {name: column.frozen() for name, column in columns.items()}
    return Index(np.array(begins), np.array(ends), np.array(seconds), frozen, has_text)


def _lines(path: Path) -> Iterator[tuple[str, int, int, _Line]]:
    begin = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            where = f"{path}:{number}"
            yield where, begin, begin + len(line), _decoded(line, where)
            begin += len(line)


def _decoded(line: bytes, where: str) -> _Line:
    if not line.endswith(b"\n"):
        raise DataError("the last line has no newline: it was cut", where=where)
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        codec.decode_record(line, where=where)  # says what is wrong in more words
        raise DataError(str(error), where=where) from error


def _widen(columns: dict[str, _Growing], line: _Line, n_before: int, where: str) -> None:
    """Begin a column for each stream that is new, and note which hold more than one row."""
    for name, ref in line.streams.items():
        column = columns.get(name)
        if column is None:
            column = columns[name] = _Growing(ref.shard is None, {ref.shard or ref.table or "": 0})
            for _ in range(n_before):
                column.add(None)
        if column.is_table != (ref.shard is None):
            raise DataError(f"stream {name!r} is a shard here and a table there", where=where)
        if ref.rows[1] - ref.rows[0] > 1:
            column.is_single = False


def _no_split(split: str, splits: set[str], path: Path) -> UsageError:
    known = ", ".join(sorted(splits - {""})) or "none"
    return UsageError(
        f"no record is in split {split!r}; the data set has {known}",
        where=str(path),
        hint="name one of these, or make splits with `mmprep manifest split`",
    )
