"""What is read from a block of text lines."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from mmprep.timebase import BoolArray, IntArray


@dataclass(frozen=True, slots=True)
class Reject:
    """A row that is bad, or that holds a bad cell; `line` counts from 1 (in a block from 0)."""

    line: int
    reason: str
    raw: bytes


@dataclass(frozen=True, slots=True)
class Misfit:
    """The first value of a column that its kind cannot hold, and the kind that can."""

    kind: str
    line: int
    text: str


@dataclass(slots=True)
class Parsed:
    """What one block of lines holds.

    Parameters
    ----------
    n_lines, n_rows_in, n_comments : int
        Physical lines, and rows and comments among them.
    rows : [shape=(n_rows_out,), int64]
        Which of the rows are kept.
    columns : mapping of str to pyarrow.Array
        Channel -> values; channels that misfit are absent.
    stamps_ns, is_valid : [shape=(n_rows_out,)] or None
        None for rows without stamps.
    """

    n_lines: int
    n_rows_in: int
    rows: IntArray
    n_comments: int = 0
    columns: dict[str, pa.Array] = field(default_factory=dict)
    stamps_ns: IntArray | None = None
    is_valid: BoolArray | None = None
    rejects: list[Reject] = field(default_factory=list)
    misfits: dict[str, Misfit] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Rows kept."""
        return int(self.rows.size)
