"""The rules of delimited text, the slow and obvious way: csv, int, float and Decimal of Python.

A table of a time column in seconds and two channels, `t,a,b`, is read from bytes; the reader of
mmprep must find the same rows, kinds, values and bad lines in it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from mmprep import tables
from mmprep.tables import Column, TextTable, TimeColumn, Widen, stamps

NAMES = ("t", "a", "b")
INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
NUMBER = re.compile(
    r"[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?inf(inity)?", re.IGNORECASE
)
DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
RANK = {"null": 0, "int64": 1, "float64": 2, "string": 3}


@dataclass(frozen=True)
class Dialect:
    """How a table is cut."""

    delimiter: str
    quote: str | None
    on_bad_row: str = "skip"

    @property
    def header(self) -> bytes:
        """The first line."""
        return self.delimiter.join(NAMES).encode()


@dataclass
class Found:
    """What is in a table.

    Parameters
    ----------
    stamps_ns : list of (int or None)
    cells : list of two lists
        The channels: text where read slowly, else values.
    bad : list of int
        The lines that are rejected, from 1.
    """

    n_rows_in: int = 0
    stamps_ns: list[int | None] = field(default_factory=list)
    cells: tuple[list[Any], list[Any]] = field(default_factory=lambda: ([], []))
    bad: list[int] = field(default_factory=list)
    kinds: tuple[str, ...] = ()


# The slow way -------------------------------------------------------------------------------------


def read(data: bytes, dialect: Dialect, nulls: Sequence[str] = tables.NULLS) -> Found:
    """Read the table that follows the header."""
    found, is_open = Found(), False
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    for number, raw in enumerate(lines if lines[-1] else lines[:-1], 2):
        first = raw.split(dialect.delimiter.encode())[0].decode("utf-8", "replace")
        if not raw or (raw.startswith(b"#") and first not in nulls):
            continue
        found.n_rows_in += 1
        cells, is_open = _cells(raw, dialect, is_open=is_open)
        stamp = _stamp(cells[0], nulls) if cells is not None else "bad"
        if cells is None or stamp == "bad":
            found.bad.append(number)
        if cells is not None and (stamp != "bad" or dialect.on_bad_row == "null"):
            found.stamps_ns.append(None if stamp == "bad" else stamp)
            for column, cell in zip(found.cells, cells[1:], strict=True):
                column.append(None if cell in nulls else cell)
        elif dialect.on_bad_row == "null":
            found.stamps_ns.append(None)
            for column in found.cells:
                column.append(None)
    found.kinds = tuple(smallest_kind(column) for column in found.cells)
    return found


def _cells(raw: bytes, dialect: Dialect, *, is_open: bool) -> tuple[list[str] | None, bool]:
    """Cut a line; None for a bad one. Says whether a quote is open behind it."""
    text = raw.decode("utf-8", "replace")
    cells, is_left_open = _cut(text, dialect)
    is_odd = dialect.quote is not None and text.count(dialect.quote) % 2 == 1
    is_end = is_open and is_odd and not is_left_open
    is_bad = raw == dialect.header or b"\0" in raw or is_end or not _is_utf8(raw)
    is_good = not is_bad and cells is not None and len(cells) == len(NAMES)
    return cells if is_good else None, is_left_open or (is_open and not is_end)


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _cut(text: str, dialect: Dialect) -> tuple[list[str] | None, bool]:
    if dialect.quote is None:
        return text.split(dialect.delimiter), False
    reader = csv.reader([text, ""], delimiter=dialect.delimiter, quotechar=dialect.quote)
    cells = next(reader)
    return (cells, False) if reader.line_num == 1 else (None, True)


def _stamp(text: str, nulls: Sequence[str]) -> int | str | None:
    cut = text.strip()
    if text in nulls or not cut:
        return None
    if not DECIMAL.fullmatch(cut):
        return "bad"
    with localcontext() as context:
        context.prec = 400
        context.Emin, context.Emax = -999999, 999999
        value = Decimal(cut)
        if value.adjusted() > 20:
            return "bad"
        value_ns = int((value * 10**9).to_integral_value(ROUND_HALF_EVEN))
    return value_ns if abs(value_ns) < 1 << 63 else "bad"


def smallest_kind(column: Sequence[str | None]) -> str:
    """Name the smallest kind that holds all cells of a column."""
    filled = [cell for cell in column if cell is not None]
    if all(_fits(cell.strip(), "int64") for cell in filled):
        return "int64" if any(map(str.strip, filled)) else "null"
    return "float64" if all(_fits(cell.strip(), "float64") for cell in filled) else "string"


def _fits(text: str, kind: str) -> bool:
    if not text:
        return True
    if kind == "int64":
        return bool(INTEGER.fullmatch(text)) and -(1 << 63) <= int(text) < 1 << 63
    if not NUMBER.fullmatch(text):
        return False
    digits = text.lstrip("+-")
    if digits[:1] not in "iI" and abs(float(text)) == float("inf"):
        return False
    return not digits.isdigit() or (len(digits) < 300 and int(float(digits)) == int(digits))


def values(column: Sequence[str | None], kind: str) -> list[Any]:
    """Give the values of a column that is read as a kind."""
    make: Callable[[str], Any] = {"int64": int, "float64": float, "null": float}.get(kind, str)
    if kind == "string":
        return list(column)
    return [None if cell is None or not cell.strip() else make(cell.strip()) for cell in column]


# The way of mmprep --------------------------------------------------------------------------------


def table_of(path: Path, dialect: Dialect) -> TextTable:
    """Say to mmprep how the table lies in a file."""
    layout = tables.Layout(
        path,
        path.name,
        cells=NAMES,
        delimiter=dialect.delimiter,
        quote=dialect.quote,
        n_preamble=1,
        header=dialect.header,
        time_cell=0,
        stamps=stamps.stamp_reader("s", ["0"]),
    )
    columns = (Column("a", "null"), Column("b", "null"))
    return TextTable(layout, columns, TimeColumn("s", "given"), text=frozenset(("a", "b")))


def convert(data: bytes, dialect: Dialect, folder: Path, block_bytes: int = 4 << 20) -> Found:
    """Let mmprep convert the table that follows the header."""
    path, target = folder / "x.csv", tables.Target(folder / "x.parquet", "i")
    path.write_bytes(dialect.header + b"\n" + data)
    table = table_of(path, dialect)
    schema = table.schema(dialect.on_bad_row)
    while True:
        try:
            facts = table.write(schema, target, dialect.on_bad_row, block_bytes=block_bytes)
            break
        except Widen as wanted:
            schema = schema.widened(wanted)
    written = pq.read_table(target.path)
    start_ns = facts.start_ns or 0
    times = written.column("time").cast("int64").to_pylist()
    found = Found(facts.n_rows_in, [None if t is None else t + start_ns for t in times])
    found.cells = (written.column("a").to_pylist(), written.column("b").to_pylist())
    found.bad = [] if facts.rejects is None else list(_lines_of(facts.rejects))
    found.kinds = tuple(column.kind for column in schema.columns)
    return found


def _lines_of(rejects: Path) -> Iterator[int]:
    for line in rejects.read_text("utf-8").split("\n")[1:-1]:
        yield int(line.split("\t")[0])


def check(data: bytes, dialect: Dialect, folder: Path, block_bytes: int = 4 << 20) -> None:
    """Check that mmprep reads a table as the slow way does.

    Raises
    ------
    AssertionError
        It does not.
    """
    known, found = read(data, dialect), convert(data, dialect, folder, block_bytes)
    assert found.bad == known.bad, (found.bad, known.bad)
    assert found.n_rows_in == known.n_rows_in
    assert found.stamps_ns == known.stamps_ns, (found.stamps_ns, known.stamps_ns)
    for kind, smallest in zip(found.kinds, known.kinds, strict=True):
        # What stands in a row with a bad stamp may have widened a column.
        assert kind == smallest or (known.bad and RANK[kind] > RANK[smallest]), (kind, smallest)
    for name, column, texts, kind in zip("ab", found.cells, known.cells, found.kinds, strict=True):
        wanted = values(texts, kind)
        assert column == wanted, (name, kind, column, wanted)
