"""The files of a data set in a folder, as `validate` asks for them.

Nothing is written, nothing is unpickled, no link is followed out of the folder unnoticed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mmprep import files
from mmprep.manifest.validate import Header
from mmprep.shards import open_shard


@dataclass(frozen=True, slots=True)
class Folder:
    """The files below a root on this machine."""

    root: Path

    def names(self) -> Iterator[str]:
        """List all files, links too, in sorted order."""
        for folder, folders, names in os.walk(self.root):
            folders.sort()
            for name in sorted(names):
                yield Path(folder, name).relative_to(self.root).as_posix()

    def is_inside(self, name: str) -> bool:
        """Say whether the file, with all links followed, lies below the root."""
        return (self.root / name).resolve().is_relative_to(self.root.resolve())

    def n_bytes(self, name: str) -> int | None:
        """Give the size; None if there is no such regular file."""
        path = self.root / name
        return path.stat().st_size if path.is_file() else None

    def sha256(self, name: str) -> str:
        """Read the file and hash it."""
        return files.sha256(self.root / name)

    def header(self, name: str) -> Header:
        """Read the header of a shard.

        Raises
        ------
        DataError
            No `.npy` 1.0 in C order without objects, or the size is not what the header says.
        """
        rows = open_shard(self.root / name)
        return Header(rows.dtype.str, rows.shape)

    def table_rows(self, name: str) -> int:
        """Count the rows of a table.

        Raises
        ------
        DataError
            It is no Parquet file.
        """
        from mmprep import tables

        return tables.table_info(self.root / name).n_rows

    def n_lines(self, name: str) -> int:
        """Count the lines of a text file."""
        return sum(block.count(b"\n") for block in files.blocks(self.root / name))
