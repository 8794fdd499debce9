"""Readings in rows, wherever they lie: in memory, or in a file.

Rules
-----
- Rows are taken by a slice or by an array of row numbers, and come as an array.
- A store keeps the rows that it gets in memory up to its budget, what goes beyond in files that
  have no name: they are gone with the store, or with the process.
- Files are read with plain reads: a map counts as memory, and dies of SIGBUS where a disk fails.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mmprep.errors import DataError

APART = 1 << 12  # rows between two that are read one by one rather than with all between them


class Rows(Protocol):
    """An array, or what gives arrays as one does; time first."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of rows, and the shape of a row."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of a reading."""

    def __len__(self) -> int:
        """Count the rows."""

    def __getitem__(self, rows: Any, /) -> Any:
        """Give the rows of a slice, or of an array of row numbers."""

    def __array__(self) -> NDArray[Any]:
        """Give all rows."""


class FileRows:
    """Rows in a file.

    Parameters
    ----------
    file : FileIO
        Stays open as long as the rows are wanted.
    shape : tuple of int
        (n_rows, *row_shape).
    offset : int
        Where the first row begins.
    """

    def __init__(
        self, file: FileIO, dtype: DTypeLike, shape: tuple[int, ...], offset: int = 0
    ) -> None:
        self._file, self._offset = file, offset
        self.dtype, self.shape = np.dtype(dtype), shape
        self.name = file.name if isinstance(file.name, str) else None
        self._row_bytes = self.dtype.itemsize * math.prod(shape[1:])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> NDArray[Any]:
        if isinstance(rows, slice):
            begin, end, step = rows.indices(len(self))
            return self._read(begin, max(begin, end))[::step]
        return self._picked(rows)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:  # noqa: FBT001
        return np.asarray(self._read(0, len(self)), dtype)

    def _read(self, begin: int, end: int) -> NDArray[Any]:
        found = np.empty((end - begin, *self.shape[1:]), self.dtype)
        view = found.reshape(-1).view(np.uint8).data
        self._file.seek(self._offset + begin * self._row_bytes)
        while view.nbytes:
            n_bytes = self._file.readinto(view)
            if not n_bytes:
                raise DataError("a file of readings has become shorter", where=self.name)
            view = view[n_bytes:]
        return found

    def _picked(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Read each stretch in which the rows lie close together."""
        found = np.empty((rows.size, *self.shape[1:]), self.dtype)
        order = np.argsort(rows, kind="stable")
        cuts = np.flatnonzero(np.diff(rows[order]) > APART) + 1
        for part in np.split(order, cuts) if rows.size else ():
            begin = int(rows[part[0]])
            found[part] = self._read(begin, int(rows[part[-1]]) + 1)[rows[part] - begin]
        return found


class Store:
    """A place for rows; a context manager.

    Parameters
    ----------
    folder : Path, optional
        Where its files are; without one all rows stay in memory.
    budget_bytes : int
        What all that it keeps may take in memory, if there is a folder.
    """

    def __init__(self, folder: Path | None = None, budget_bytes: int = 0) -> None:
        self._folder, self._left_bytes = folder, budget_bytes
        self._files: list[FileIO] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for file in self._files:
            file.close()

    def begin(self, row_shape: tuple[int, ...] = (), dtype: DTypeLike = np.float64) -> Growing:
        """Begin to keep rows of one kind."""
        return Growing(self, np.dtype(dtype), row_shape)

    def has_room(self, n_bytes: int) -> bool:
        """Say whether so much more may lie in memory."""
        return self._folder is None or n_bytes <= self._left_bytes

    def count(self, n_bytes: int) -> None:
        """Count what is kept in memory, or (below zero) no longer is."""
        self._left_bytes -= n_bytes

    def open(
        self, path: Path, dtype: DTypeLike, shape: tuple[int, ...], offset: int = 0
    ) -> FileRows:
        """Give rows that lie in a file already; see FileRows."""
        file = path.open("rb", buffering=0)
        self._files.append(file)
        return FileRows(file, dtype, shape, offset)

    def file(self) -> FileIO:
        """Give a new file without a name."""
        file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
        self._files.append(file)
        return file


class Growing:
    """Rows that come block by block."""

    def __init__(self, store: Store, dtype: np.dtype[Any], row_shape: tuple[int, ...]) -> None:
        self._store, self._dtype, self._row_shape = store, dtype, row_shape
        self._blocks: list[NDArray[Any]] = []
        self._file: FileIO | None = None
        self.n_rows = 0

    def add(self, rows: NDArray[Any]) -> None:
        """Append a block [shape=(n, *row_shape)]."""
        block = np.ascontiguousarray(rows, self._dtype)
        self.n_rows += len(block)
        if self._file is None and not self._store.has_room(block.nbytes):
            self._file = self._store.file()
            for earlier in self._blocks:
                self._write(earlier)
                self._store.count(-earlier.nbytes)
            self._blocks.clear()
        if self._file is not None:
            self._write(block)
        else:
            self._blocks.append(block)
            self._store.count(block.nbytes)

    def _write(self, block: NDArray[Any]) -> None:
        view = block.reshape(-1).view(np.uint8).data
        while view.nbytes and self._file is not None:
            view = view[self._file.write(view) :]

    def rows(self) -> Rows:
        """Give all rows."""
        shape = (self.n_rows, *self._row_shape)
        if self._file is not None:
            return FileRows(self._file, self._dtype, shape)
        if len(self._blocks) == 1:
            return self._blocks[0]
        blank = np.empty((0, *self._row_shape), self._dtype)
        return np.concatenate([blank, *self._blocks])


IN_MEMORY = Store()


def gathered(blocks: Iterable[NDArray[Any]], store: Store = IN_MEMORY) -> Rows:
    """Keep rows that come in blocks, all of the first one's kind; one block at least."""
    rest = iter(blocks)
    first = next(rest)
    growing = store.begin(first.shape[1:], first.dtype)
    growing.add(first)
    for block in rest:
        growing.add(block)
    return growing.rows()
