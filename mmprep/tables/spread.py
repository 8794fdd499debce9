"""Long tables: the rows of each value of a column go to a file of their own, in one pass.

Rules
-----
- The file is read once, however many values there are. What is read waits in memory, 64 MiB at
  most, and is appended to the files of the values; only one of them is open at a time.
- A value is the text of its cell without spaces around it. Values are listed in order of first
  appearance, and rows keep their order.
- Rows whose value cannot be told (a missing cell, a wrong number of cells, ...) belong to no value
  and are bad. Any other fault of a row is left to whoever reads the file of its value; the line
  numbers of the source come along.
- Rows in = rows of all values + rejected. The program checks it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmprep import files
from mmprep.errors import DataError
from mmprep.tables import feed
from mmprep.tables.layout import Layout
from mmprep.tables.parse import BlockParser
from mmprep.tables.parsed import Parsed, Reject
from mmprep.tables.rejects import bad_row
from mmprep.tables.rowreader import skip_lines
from mmprep.timebase import IntArray

MAX_VALUES = 1000
MAX_SINGLE = 50  # so many values of hardly more than one row each are readings, no names
LONGEST_VALUE = 100
HELD_BYTES = 64 << 20
HEAD_BYTES = 256 << 10


@dataclass(slots=True)
class ValueRows:
    """The rows of one value.

    Parameters
    ----------
    path : Path
        Their lines, UTF-8, each with its end.
    numbers : Path
        The line of each in the source, counted from 1: int64.
    n_rows : int
        All rows of the value, also where only the first ones are kept.
    """

    value: str
    path: Path
    numbers: Path
    n_rows: int = 0
    n_bytes: int = 0
    lines: list[bytes] = field(default_factory=list)
    line_numbers: list[IntArray] = field(default_factory=list)

    def flush(self) -> None:
        """Append what waits to the files."""
        if not self.lines:
            return
        with self.path.open("ab") as file:
            file.writelines(self.lines)
        with self.numbers.open("ab") as file:
            file.write(np.concatenate(self.line_numbers).tobytes())
        self.lines.clear()
        self.line_numbers.clear()


class Spread:
    """Spread the rows of a file over the values of a column.

    Parameters
    ----------
    layout : Layout
        Of the file; `column` is one of its cells.
    folder : Path
        Where the files of the values go.
    n_head_bytes : int, optional
        Keep only the first rows of each value, about so many bytes.
    on_bad_row : str
        `fail` raises at the first row without a value; else such rows go to `take`.
    """

    def __init__(
        self,
        layout: Layout,
        column: str,
        folder: Path,
        *,
        on_bad_row: str = "fail",
        take: Callable[[Reject], None] | None = None,
        n_head_bytes: int | None = None,
        block_bytes: int = feed.BLOCK_BYTES,
    ) -> None:
        self._layout, self._column, self._folder = layout, column, folder
        self._on_bad_row, self._take, self._n_head_bytes = on_bad_row, take, n_head_bytes
        self._hash = files.running_digest()
        self._n_held = 0
        self.values: dict[str, ValueRows] = {}
        self.n_rows_in = self.n_rejected = self.n_comments = 0
        self.is_cut = False
        self._salvage = feed.Salvage() if on_bad_row != "fail" else None
        self._read(block_bytes)

    @property
    def digest(self) -> str:
        """The fingerprint of the source."""
        return f"xxh3_128:{self._hash.hexdigest()}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What is worth saying of the file."""
        cut = ("the last line has no line end: its last value may be cut",) * self.is_cut
        if self._salvage is not None and self._salvage.reason:
            cut = (f"{self._salvage.reason}; what comes before was kept, the rest is lost",)
        if not self.n_comments:
            return cut
        said = f"{self.n_comments} lines below the header start with # and were taken for comments"
        return (*cut, said)

    def _read(self, block_bytes: int) -> None:
        plain = replace(self._layout, time_cell=None, stamps=None, rate=None, decimal=".")
        parser = BlockParser(plain, {self._column: "string"}, on_bad_row="skip")
        first_line = self._layout.n_preamble + 1
        for data in self._blocks(block_bytes):
            parsed = parser.parse(data)
            self._account(parsed, parser, data, first_line)
            first_line += parsed.n_lines
            if self._n_held > HELD_BYTES:
                self._flush()
        if self._salvage is not None and self._salvage.rest:
            cut = Reject(first_line, "the line is cut by the damage", self._salvage.rest)
            self._reject(cut)
            self.n_rows_in += 1
        self._flush()
        self._check()

    def _blocks(self, block_bytes: int) -> Iterator[bytes]:
        layout = self._layout
        blocks = feed.text_blocks(
            layout.path,
            encoding=layout.encoding,
            n_bytes=block_bytes,
            hasher=self._hash,
            where=layout.where,
            salvage=self._salvage,
        )
        for block in skip_lines(blocks, layout.n_preamble):
            self.is_cut = bool(block.is_last and block.data and not block.data.endswith(b"\n"))
            yield block.data + b"\n" if self.is_cut else block.data

    def _account(self, parsed: Parsed, parser: BlockParser, data: bytes, first_line: int) -> None:
        lines = parser.lines_of(data, parsed)
        texts = np.array(data.split(b"\n"), dtype=object)[lines]
        names, codes = self._coded(parsed.columns[self._column])
        no_text = _no_text(data, texts)
        codes[list(no_text)] = -1
        bad = [
            Reject(int(lines[k]), no_text.get(k, f"no value in {self._column!r}"), texts[k])
            for k in np.flatnonzero(codes < 0).tolist()
        ]
        for reject in sorted((*parsed.rejects, *bad), key=lambda reject: reject.line):
            self._reject(replace(reject, line=reject.line + first_line))
        self.n_rows_in += parsed.n_rows_in
        self.n_comments += parsed.n_comments
        self._share(names, codes, texts, lines + first_line)

    def _share(
        self, names: list[str], codes: IntArray, texts: NDArray[np.object_], lines: IntArray
    ) -> None:
        """Give each value its rows of a block."""
        order = np.argsort(codes, kind="stable")
        cuts = np.searchsorted(codes[order], np.arange(len(names) + 1))
        for name, begin, end in zip(names, cuts[:-1], cuts[1:], strict=True):
            rows = order[begin:end]
            if rows.size:
                value = self.values.get(name) or self._added(name, int(lines[rows[0]]))
                self._hold(value, b"\n".join(texts[rows].tolist()) + b"\n", lines[rows])

    def _coded(self, cells: pa.Array) -> tuple[list[str], NDArray[np.int64]]:
        """Give the values of a block, in order, and the number of each row's; -1 where missing."""
        coded = cells.dictionary_encode()
        trimmed = [text.strip() for text in coded.dictionary.to_pylist()]
        names = [name for name in dict.fromkeys(trimmed) if name not in self._layout.nulls]
        number = {name: k for k, name in enumerate(names)}
        table = np.array([*(number.get(name, -1) for name in trimmed), -1], dtype=np.int64)
        indices = coded.indices.fill_null(len(trimmed)).to_numpy(zero_copy_only=False)
        return names, table[indices]

    def _reject(self, reject: Reject) -> None:
        if self._on_bad_row == "fail":
            error = bad_row(self._layout.where, reject)
            hint = "--on-bad-row skip and null keep rows without a value in rejects/ alone"
            raise DataError(error.what, where=error.where, hint=hint)
        self.n_rejected += 1
        if self._take is not None:
            self._take(reject)

    def _added(self, name: str, line: int) -> ValueRows:
        where = f"{self._layout.where}:{line}"
        if len(self.values) >= MAX_VALUES:
            raise self._no_names(f"has more than {MAX_VALUES} values", where)
        if len(name.encode()) > LONGEST_VALUE:
            raise self._no_names(f"has a value of over {LONGEST_VALUE} bytes", where)
        stem = self._folder / f"{len(self.values):04}"
        value = ValueRows(name, stem.with_suffix(".rows"), stem.with_suffix(".lines"))
        self.values[name] = value
        return value

    def _no_names(self, what: str, where: str) -> DataError:
        hint = "--split-by takes a column of a few names, as of devices or signals"
        return DataError(f"the column {self._column!r} {what}", where=where, hint=hint)

    def _hold(self, value: ValueRows, data: bytes, lines: IntArray) -> None:
        value.n_rows += lines.size
        if self._n_head_bytes is not None and value.n_bytes >= self._n_head_bytes:
            return
        value.n_bytes += len(data)
        value.lines.append(data)
        value.line_numbers.append(lines)
        self._n_held += len(data) + lines.nbytes

    def _flush(self) -> None:
        for value in self.values.values():
            value.flush()
        self._n_held = 0

    def _check(self) -> None:
        where, n_rows = self._layout.where, sum(value.n_rows for value in self.values.values())
        if self.n_rows_in != n_rows + self.n_rejected:
            raise RuntimeError(
                f"{where}: {self.n_rows_in} rows in, {n_rows} out, {self.n_rejected} rejected"
            )
        if not self.values:
            raise DataError(f"no row has a value in {self._column!r}", where=where)
        if len(self.values) > MAX_SINGLE and n_rows < 2 * len(self.values):
            raise self._no_names(f"has {len(self.values)} values in {n_rows} rows", where)


def _no_text(data: bytes, texts: NDArray[np.object_]) -> dict[int, str]:
    """Name the rows of a block that are not UTF-8, and why."""
    if _fault(data) is None:
        return {}
    faults = enumerate(map(_fault, texts))
    return {row: fault for row, fault in faults if fault is not None}


def _fault(raw: bytes) -> str | None:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"not UTF-8: byte 0x{raw[error.start]:02x}"
    return None
