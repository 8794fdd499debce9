"""Arrays that are held until all are there: the first in memory, the rest in a file."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

MEMORY_BYTES = 16 << 20

Rows = NDArray[np.float32]


@dataclass(slots=True)
class Scratch:
    """Hold float32 arrays in order; a context manager.

    Parameters
    ----------
    folder : Path
        Where the file goes, which has no name and ends with the block or the process.
    """

    folder: Path
    _held: list[Rows] = field(default_factory=list)
    _n_held_bytes: int = 0
    _shapes: list[tuple[int, ...]] = field(default_factory=list)
    _file: BinaryIO | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()

    def append(self, rows: Rows) -> None:
        """Take one more array; the caller must not change it afterwards."""
        if self._file is None and self._n_held_bytes + rows.nbytes <= MEMORY_BYTES:
            self._held.append(rows)
            self._n_held_bytes += rows.nbytes
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115 - see __exit__
        self._file.write(_bytes(rows))
        self._shapes.append(rows.shape)

    def __iter__(self) -> Iterator[Rows]:
        """Give the arrays; those in memory are the ones that came."""
        yield from self._held
        if self._file is not None:
            self._file.seek(0)
            for shape in self._shapes:
                data = self._file.read(4 * math.prod(shape))
                yield np.frombuffer(bytearray(data), np.float32).reshape(shape)


def _bytes(rows: Rows) -> memoryview:
    return rows.reshape(-1).view(np.uint8).data
