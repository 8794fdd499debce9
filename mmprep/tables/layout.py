"""How a text file is laid out."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from mmprep.tables.stamps import StampReader

NULLS = (
    "",
    "n/a",
    "N/A",
    "NA",
    "#N/A",
    "NaN",
    "nan",
    "NAN",
    "-nan",
    "-NaN",
    "NULL",
    "null",
    "Null",
)


@dataclass(frozen=True, slots=True)
class RateTime:
    """The time of rows without stamps: row i is at start_ns + i / rate_hz."""

    rate_hz: Fraction
    start_ns: int = 0


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a file: whole lines, from one byte up to another.

    Parameters
    ----------
    start_ns : int
        The first stamp of the whole file, from which relative times count.
    """

    begin: int
    end: int
    start_ns: int


@dataclass(frozen=True, slots=True)
class Layout:
    """How one text file is laid out.

    Parameters
    ----------
    path, where
        The file, and its name in messages.
    cells : tuple of (str or None)
        The column that each cell of a row belongs to; None for a cell that must be empty.
    time_cell : int, optional
        Which of them holds the stamp, read by `stamps`; without it `rate` gives the times.
    n_preamble : int
        Lines before the first row, header included.
    header : bytes
        The header line, to know it when it comes again; empty where there is none.
    numbers : Path, optional
        The file holds but some lines of `where`; these are their numbers, counted from 1: int64.
    span : Span, optional
        Only this part of the file is read.
    """

    path: Path
    where: str
    cells: tuple[str | None, ...]
    delimiter: str = "\t"
    quote: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    n_preamble: int = 0
    header: bytes = b""
    comment: bytes = b"#"
    nulls: tuple[str, ...] = NULLS
    time_cell: int | None = None
    stamps: StampReader | None = None
    rate: RateTime | None = None
    numbers: Path | None = None
    span: Span | None = None

    @property
    def channels(self) -> dict[str, int]:
        """Channel name -> its cell."""
        return {
            name: index
            for index, name in enumerate(self.cells)
            if name is not None and index != self.time_cell
        }
