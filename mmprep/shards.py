"""Shards: `.npy` files that are planned, appended to, and opened as read-only maps.

Rules
-----
- `.npy` 1.0, C order, little-endian. The header has a fixed size, so that it is patched in place
  once the number of rows is known; `numpy.load(path, mmap_mode="r")` is all that a reader needs.
- Rows are written with plain writes: a writable map dies of SIGBUS on a full disk, and mode `r+`
  fills up a cut file with zeros.
- A shard is planned from input sizes, so the cut doesn't depend on the number of workers.
- Before a map is opened its header is checked against the file's size.
- Maps are never pickled (that would copy their data): a `ShardFiles` pickles as its settings, and
  opens its files anew in each process.
- A shard of no rows is written with a good header and opens as an ordinary empty array, since an
  empty file range cannot be mapped.
"""

from __future__ import annotations

import ast
import hashlib
import math
import os
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self, TypeAlias

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from mmprep import files
from mmprep.errors import DataError, MmprepError, UsageError
from mmprep.rows import FileRows, Store

AnyArray: TypeAlias = NDArray[Any]

SHARD_SIZE = 256 << 20
FIRST_LIMIT = 4 << 20
SHARDS_A_STEP = 64
HEADER_BYTES = 128  # a multiple of 64, as the format wants; wider for many axes
READ_BYTES = 1 << 17
MAX_OPEN = 128
MAX_NDIM = 32
MAGIC = b"\x93NUMPY\x01\x00"


@dataclass(frozen=True, slots=True)
class Shard:
    """One finished shard.

    Parameters
    ----------
    path : Path
        Where it was written.
    n_rows : int
    row_shape : tuple of int
        The shape of one row; () for plain numbers.
    dtype : str
        numpy's name with byte order, e.g. `<f4`.
    sha256 : str
        Of the whole file, read back.
    n_bytes : int
        Of the whole file.
    """

    path: Path
    n_rows: int
    row_shape: tuple[int, ...]
    dtype: str
    sha256: str
    n_bytes: int


def shard_limit(number: int, shard_size: int = SHARD_SIZE) -> int:
    """Give the most bytes that shard `number` may hold.

    Returns
    -------
    int
        min(shard_size, 4 MiB * 2^floor(number / 64)): small sets get enough shards to share out.
    """
    doublings = min(number // SHARDS_A_STEP, 62)
    return min(shard_size, FIRST_LIMIT << doublings)


def plan_shards(sizes: Sequence[int], shard_size: int = SHARD_SIZE) -> list[range]:
    """Share consecutive items out to shards.

    Parameters
    ----------
    sizes : sequence of int [bytes]
        What each item is expected to take.
    shard_size : int [bytes]
        The upper limit.

    Returns
    -------
    list of range
        The indices of each shard's items: as many as fit its limit. An item over the limit stands
        alone.

    Raises
    ------
    UsageError
        shard_size is not positive.
    """
    if shard_size <= 0:
        raise UsageError(f"--shard-size {shard_size} is not positive")
    plan: list[range] = []
    begin, held = 0, 0
    for index, size in enumerate(sizes):
        if index > begin and held + size > shard_limit(len(plan), shard_size):
            plan.append(range(begin, index))
            begin, held = index, 0
        held += size
    if begin < len(sizes):
        plan.append(range(begin, len(sizes)))
    return plan


def _header(dtype: np.dtype[Any], shape: tuple[int, ...], n_bytes: int) -> bytes:
    """Make an .npy 1.0 header of a given size, padded with spaces."""
    text = repr({"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape})
    body = text.encode("latin1").ljust(n_bytes - len(MAGIC) - 3) + b"\n"
    return MAGIC + (len(body)).to_bytes(2, "little") + body


def _header_bytes(dtype: np.dtype[Any], row_shape: tuple[int, ...]) -> int:
    """Size a header for any row count that a file can hold."""
    widest = len(_header(dtype, (2**63 - 1, *row_shape), 0))
    return max(HEADER_BYTES, -(-widest // npy.ARRAY_ALIGN) * npy.ARRAY_ALIGN)


class ShardWriter:
    """Append rows to a new shard.

    Parameters
    ----------
    path : path
        The file. One that is there is unlinked first, never written into: it may be a leftover of
        a killed run, or share its bytes with another data set by a hard link.
    dtype : dtype
        A plain one; stored little-endian.
    row_shape : tuple of int
        The shape of one row.

    Raises
    ------
    DataError
        The folder isn't there or cannot be written.
    SpaceError
        The disk, quota or file-size limit is reached.

    Examples
    --------
    >>> with ShardWriter("audio/shard-00000.npy", "float32", ()) as writer:   # doctest: +SKIP
    ...     rows = writer.write(samples)
    >>> writer.shard.sha256                                                   # doctest: +SKIP
    """

    def __init__(
        self, path: str | os.PathLike[str], dtype: DTypeLike, row_shape: tuple[int, ...] = ()
    ) -> None:
        self.path = Path(path)
        self.dtype = _little(np.dtype(dtype))
        self.row_shape = tuple(int(size) for size in row_shape)
        self.n_rows = 0
        self._shard: Shard | None = None
        self._header_bytes = _header_bytes(self.dtype, self.row_shape)
        try:
            self.path.unlink(missing_ok=True)
            self._file: BinaryIO = self.path.open("xb", buffering=0)
        except OSError as error:
            raise _disk_error(error, self.path) from error
        self._put(_header(self.dtype, (0, *self.row_shape), self._header_bytes))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    @property
    def shard(self) -> Shard:
        """What was written.

        Raises
        ------
        UsageError
            The shard isn't closed yet.
        """
        if self._shard is None:
            raise UsageError("the shard is still open", where=str(self.path))
        return self._shard

    def write(self, rows: AnyArray) -> tuple[int, int]:
        """Append rows.

        Parameters
        ----------
        rows : [shape=(n, *row_shape)]
            Converted to the shard's dtype if that loses no kind (`same_kind`).

        Returns
        -------
        (int, int)
            The half-open interval of the rows in the shard.

        Raises
        ------
        DataError
            Rows of another shape or kind.
        SpaceError
            See ShardWriter.
        """
        if rows.shape[1:] != self.row_shape or rows.ndim == 0:
            raise DataError(
                f"rows of shape {rows.shape[1:]} in a shard of {self.row_shape}",
                where=str(self.path),
            )
        if not np.can_cast(rows.dtype, self.dtype, "same_kind"):
            raise DataError(f"{rows.dtype} in a shard of {self.dtype}", where=str(self.path))
        begin = self.n_rows
        self._put(np.ascontiguousarray(rows, dtype=self.dtype).reshape(-1).view(np.uint8).data)
        self.n_rows += len(rows)
        return begin, self.n_rows

    def _put(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        try:
            while view.nbytes:
                view = view[self._file.write(view) :]
        except OSError as error:
            raise _disk_error(error, self.path) from error

    def truncate(self, n_rows: int) -> None:
        """Take back all rows after the first n_rows."""
        row_bytes = self.dtype.itemsize * prod(self.row_shape)
        self._file.seek(self._header_bytes + n_rows * row_bytes)
        self._file.truncate()
        self.n_rows = n_rows

    def close(self) -> Shard:
        """Patch the header, close the file, and read it back for its digest."""
        if self._shard is None:
            try:
                self._file.seek(0)
                self._put(_header(self.dtype, (self.n_rows, *self.row_shape), self._header_bytes))
                files.begin_sync(self._file.fileno())
                self._file.close()
                digest, n_bytes = _digest(self.path)
            except OSError as error:
                raise _disk_error(error, self.path) from error
            self._shard = Shard(
                self.path, self.n_rows, self.row_shape, self.dtype.str, digest, n_bytes
            )
        return self._shard

    def abandon(self) -> None:
        """Close and remove the unfinished file."""
        self._file.close()
        self.path.unlink(missing_ok=True)


def _little(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.kind not in "biufc" or dtype.fields is not None:
        raise DataError(f"a shard cannot hold {dtype}", hint="use a plain number type")
    return dtype.newbyteorder("<")


def _disk_error(error: OSError, path: Path) -> MmprepError:
    reason = error.strerror or str(error)
    if error.errno in files.SPACE_ERRNOS:
        return files.storage_error(error, path)
    return DataError(f"cannot be written: {reason}", where=str(path))


def _digest(path: Path) -> tuple[str, int]:
    digest, n_bytes = hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(READ_BYTES):
            digest.update(block)
            n_bytes += len(block)
    return digest.hexdigest(), n_bytes


@dataclass(frozen=True, slots=True)
class _Layout:
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int


def open_shard(path: str | os.PathLike[str]) -> AnyArray:
    """Open a shard as a read-only map.

    Returns
    -------
    [shape=(n_rows, *row_shape)]
        A numpy.memmap; for no rows an empty array, since nothing can be mapped then.

    Raises
    ------
    UsageError
        No such file.
    DataError
        Not a shard, objects in it, or a file shorter or longer than its header says.
    """
    layout = _layout(path)
    if 0 in layout.shape:
        empty = np.empty(layout.shape, layout.dtype)
        empty.setflags(write=False)
        return empty
    try:
        return np.memmap(
            path, dtype=layout.dtype, mode="r", offset=layout.offset, shape=layout.shape
        )
    except (OSError, ValueError) as error:
        raise DataError(f"cannot be mapped: {error}", where=str(path)) from error


def shard_rows(path: str | os.PathLike[str], store: Store, rows: tuple[int, int]) -> FileRows:
    """Give rows `[begin, end)` of a shard, to be read with plain reads; see open_shard.

    Parameters
    ----------
    store : Store
        Keeps the file open.
    """
    layout, (begin, end) = _layout(path), rows
    row_bytes = layout.dtype.itemsize * prod(layout.shape[1:])
    shape = (max(min(end, layout.shape[0]) - begin, 0), *layout.shape[1:])
    return store.open(Path(path), layout.dtype, shape, layout.offset + begin * row_bytes)


def _layout(path: str | os.PathLike[str]) -> _Layout:
    """Read the header of a shard and check the file's size against it; see open_shard."""
    where = Path(path)
    try:
        with where.open("rb") as file:
            layout = _read_layout(file, where)
            size = file.seek(0, os.SEEK_END)
    except FileNotFoundError as error:
        raise UsageError("no such shard", where=str(path)) from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", where=str(path)) from error
    expected = layout.offset + math.prod(layout.shape) * layout.dtype.itemsize
    if size != expected:
        word = "short" if size < expected else "too long"
        raise DataError(
            f"shard is {abs(size - expected)} bytes {word}: its header says"
            f" {'x'.join(map(str, layout.shape))} {layout.dtype}",
            where=str(path),
            hint="run the step that wrote it again",
        )
    return layout


def _read_layout(file: BinaryIO, path: Path) -> _Layout:
    start = file.read(len(MAGIC) + 2)
    if start[: len(MAGIC)] != MAGIC or len(start) < len(MAGIC) + 2:
        raise DataError("not an .npy 1.0 file", where=str(path), hint="mmprep wrote no such shard")
    n_bytes = int.from_bytes(start[len(MAGIC) :], "little")
    body = file.read(n_bytes)
    if len(body) != n_bytes:
        raise DataError(
            f"shard is at least {n_bytes - len(body)} bytes short: its header is cut",
            where=str(path),
            hint="run the step that wrote it again",
        )
    return _Layout(*_parsed(body, path), offset=len(start) + n_bytes)


def _parsed(body: bytes, path: Path) -> tuple[np.dtype[Any], tuple[int, ...]]:
    try:
        fields = ast.literal_eval(body.decode("latin1"))
        descr, fortran, shape = fields["descr"], fields["fortran_order"], fields["shape"]
        dtype = np.dtype(descr) if isinstance(descr, str) else np.dtype(object)
    except (SyntaxError, ValueError, TypeError, KeyError, MemoryError, RecursionError) as error:
        raise DataError("the .npy header cannot be read", where=str(path)) from error
    if dtype.kind not in "biufc":
        raise DataError(
            f"the shard holds {descr!r}, not plain numbers",
            where=str(path),
            hint="pickled objects are never loaded",
        )
    sound = isinstance(shape, tuple) and 1 <= len(shape) <= MAX_NDIM and fortran is False
    if not sound or not all(type(size) is int and 0 <= size < 2**63 for size in shape):
        raise DataError(f"shape {shape!r} is not one of rows in C order", where=str(path))
    return dtype, shape


class ShardFiles:
    """The maps of a set of shards, opened when first read; the least recently used are closed.

    A forked child opens its own maps. Pickled, it carries settings alone.

    Parameters
    ----------
    max_open : int
        How many maps are held.
    """

    def __init__(self, max_open: int = MAX_OPEN) -> None:
        if max_open < 1:
            raise UsageError(f"at most {max_open} open shards is too few")
        self.max_open = max_open
        self._forget()

    def _forget(self) -> None:
        self._maps: OrderedDict[str, AnyArray] = OrderedDict()
        self._pid = os.getpid()

    def __getstate__(self) -> dict[str, int]:
        return {"max_open": self.max_open}

    def __setstate__(self, state: dict[str, int]) -> None:
        self.max_open = state["max_open"]
        self._forget()

    def __len__(self) -> int:
        return len(self._maps)

    def open(self, path: str | os.PathLike[str]) -> AnyArray:
        """Give the map of a shard; see open_shard.

        A caller that holds on to the map, or to a view of it, keeps it open beyond its eviction.
        """
        if self._pid != os.getpid():
            self._forget()
        key = os.fspath(path)
        found = self._maps.get(key)
        if found is None:
            while len(self._maps) >= self.max_open:
                self._maps.popitem(last=False)
            found = self._maps[key] = open_shard(key)
        else:
            self._maps.move_to_end(key)
        return found

    def close(self) -> None:
        """Let all maps go."""
        self._maps.clear()
