"""Read the rows of a text file: blocks parsed in threads, given in order, every row accounted for.

Rules
-----
- Blocks are cut by the file's bytes and parsed side by side, so the number of threads changes
  nothing. Only a few blocks are in memory.
- After the first value that its column cannot hold no rows are given; the rest of the file is still
  read, so that one `Widen` names all that is needed.
- Rows in = rows out + rejected. The program checks it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from mmprep import files
from mmprep.tables import feed
from mmprep.tables.feed import BLOCK_BYTES, Block, Hasher
from mmprep.tables.layout import Layout
from mmprep.tables.parse import BlockParser
from mmprep.tables.parsed import Parsed, Reject
from mmprep.tables.rejects import bad_row, shortened
from mmprep.tables.schema import Column, Widen, widest
from mmprep.tables.stamps import row_stamps
from mmprep.timebase import BoolArray, IntArray

BAD_ROW_POLICIES = ("fail", "skip", "null")
SAMPLE_BYTES, FIRST_BYTES = 1 << 20, 8 << 10
N_SAMPLES, PIECE_BYTES = 4, 256 << 10


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How the rows of a file are read.

    Parameters
    ----------
    on_bad_row : str
        `fail`, `skip` or `null`.
    n_threads : int
        Blocks parsed side by side; 1 does all in the caller's thread.
    hasher : callable, optional
        Makes a running hash (with `update` and `hexdigest`) that is shown the file's raw bytes.
    """

    on_bad_row: str = "fail"
    n_threads: int = 1
    block_bytes: int = BLOCK_BYTES
    hasher: Callable[[], Hasher] | None = None


@dataclass(slots=True)
class Tally:
    """What was counted while a file was read."""

    n_lines: int = 0
    n_rows_in: int = 0
    n_rows_out: int = 0
    n_comments: int = 0
    n_rejected: int = 0
    is_cut: bool = False

    def add(self, parsed: Parsed) -> None:
        """Count one block."""
        self.n_lines += parsed.n_lines
        self.n_rows_in += parsed.n_rows_in
        self.n_rows_out += parsed.n_rows
        self.n_comments += parsed.n_comments

    def check(self, where: str, on_bad_row: str) -> None:
        """Check that every row is accounted for."""
        lost = self.n_rows_in - self.n_rows_out
        if lost != (self.n_rejected if on_bad_row == "skip" else 0):
            raise RuntimeError(
                f"{where}: {self.n_rows_in} rows in, {self.n_rows_out} out,"
                f" {self.n_rejected} rejected"
            )


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of a file, in order.

    Parameters
    ----------
    stamps_ns : [shape=(n,), int64, ns]
        On the source's clock; 0 where missing.
    is_valid : [shape=(n,), bool] or None
        None: no stamp is missing.
    """

    stamps_ns: IntArray
    is_valid: BoolArray | None
    columns: dict[str, pa.Array]


# --- reading in order ----------------------------------------------------------------------------


def skip_lines(blocks: Iterator[Block], n_lines: int) -> Iterator[Block]:
    """Leave the first lines out."""
    for block in blocks:
        data = block.data
        while n_lines and data:
            cut = data.find(b"\n") + 1
            data, n_lines = (data[cut:], n_lines - 1) if cut else (b"", 0)
        yield Block(data, block.is_last)


def _ahead(blocks: Iterator[Block]) -> Generator[Block]:
    """Read the next block while the caller works on this one."""
    with ThreadPoolExecutor(1, thread_name_prefix="mmprep-read") as pool:
        coming = pool.submit(next, blocks, None)
        while (block := coming.result()) is not None:
            coming = pool.submit(next, blocks, None)
            yield block


def _in_order(
    blocks: Iterator[Block], parse: Callable[[bytes], Parsed], n_threads: int
) -> Generator[Parsed]:
    if n_threads <= 1:
        yield from (parse(block.data) for block in blocks)
        return
    with ThreadPoolExecutor(n_threads, thread_name_prefix="mmprep-parse") as pool:
        waiting: deque[Future[Parsed]] = deque()
        try:
            with closing(_ahead(blocks)) as coming:
                for block in coming:
                    waiting.append(pool.submit(parse, block.data))
                    if len(waiting) > n_threads:
                        yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


class RowReader:
    """Read the rows of a file in order, with kinds that widen as they must.

    Parameters
    ----------
    columns : tuple of Column
        The channels to read and the kinds to read them with.
    take : callable, optional
        Gets each `Reject`, its line counted from 1 in the file.
    """

    def __init__(
        self,
        layout: Layout,
        columns: tuple[Column, ...],
        options: ReadOptions,
        *,
        take: Callable[[Reject], None] | None = None,
    ) -> None:
        self.layout, self.options, self.tally = layout, options, Tally()
        self._take = take
        self._kinds = {column.name: column.kind for column in columns}
        self._fixed = frozenset(column.name for column in columns if column.fixed)
        self.wanted: dict[str, str] = {}
        self._examples: dict[str, str] = {}
        self.hash = options.hasher() if options.hasher is not None else None
        self._n_before: int | None = None  # lines before the first one read
        self.salvage = feed.Salvage() if options.on_bad_row != "fail" else None

    def batches(self) -> Iterator[Batch]:
        """Read the file.

        Raises
        ------
        Widen
            At the end of the file, if values did not fit; no batch was given after the first.
        DataError
            The first bad row, where the policy is `fail`; or the file is empty or damaged.
        """
        n_threads = self.options.n_threads
        with closing(_in_order(self._blocks(), self._parse, n_threads)) as found:
            for parsed in found:
                first_row = self.tally.n_rows_in
                self._account(parsed)
                if not self.wanted:
                    yield self._batch(parsed, first_row)
        self._account_rest()
        self.tally.check(self.layout.where, self.options.on_bad_row)
        if self.wanted:
            raise Widen(self.wanted, examples=self._examples)

    def digest(self) -> str:
        """Give the digest of the file, once it was read to its end."""
        digest = getattr(self.hash, "hexdigest", None)
        return f"xxh3_128:{digest()}" if digest is not None else files.digest(self.layout.path)

    def _blocks(self) -> Iterator[Block]:
        span = self.layout.span
        blocks = feed.text_blocks(
            self.layout.path,
            encoding=self.layout.encoding,
            n_bytes=self.options.block_bytes,
            hasher=self.hash,
            where=self.layout.where,
            span=(span.begin, span.end) if span is not None else None,
            salvage=self.salvage,
        )
        n_preamble = self.layout.n_preamble if span is None or not span.begin else 0
        for block in skip_lines(blocks, n_preamble):
            self.tally.is_cut = bool(
                block.is_last and block.data and not block.data.endswith(b"\n")
            )
            yield block

    def _parse(self, data: bytes) -> Parsed:
        kinds = {n: widest(k, self.wanted.get(n, "null")) for n, k in self._kinds.items()}
        return BlockParser(self.layout, kinds, self._fixed, self.options.on_bad_row).parse(data)

    def _account(self, parsed: Parsed) -> None:
        first_line = self.tally.n_lines + 1
        for reject in parsed.rejects:
            self._reject(replace(reject, line=self._line(reject.line + first_line)))
        for name, misfit in parsed.misfits.items():
            self.wanted[name] = widest(misfit.kind, self.wanted.get(name, "null"))
            where = f"{self.layout.where}:{self._line(misfit.line + first_line)}"
            self._examples.setdefault(name, f"{where}: {shortened(repr(misfit.text))}")
        self.tally.add(parsed)

    def _account_rest(self) -> None:
        """Keep the line that damage cuts; with `null` it is no row either."""
        if self.salvage is None or not self.salvage.rest:
            return
        line = self._line(self.tally.n_lines + 1)
        self._reject(Reject(line, "the line is cut by the damage", self.salvage.rest))
        self.tally.n_rows_in += self.options.on_bad_row == "skip"

    def _line(self, line: int) -> int:
        """Give the number of a line in the source."""
        if self._n_before is None:
            span = self.layout.span
            if span is None or not span.begin:
                self._n_before = self.layout.n_preamble
            else:
                self._n_before = feed.count_lines(self.layout.path, span.begin)
        line += self._n_before
        numbers = self.layout.numbers
        if numbers is None:
            return line
        found = np.fromfile(numbers, np.int64, count=1, offset=8 * (line - 1))
        return int(found[0])

    def _reject(self, reject: Reject) -> None:
        if self.options.on_bad_row == "fail":
            raise bad_row(self.layout.where, reject)
        self.tally.n_rejected += 1
        if self._take is not None and not self.wanted:
            self._take(reject)

    def _batch(self, parsed: Parsed, first_row: int) -> Batch:
        if parsed.stamps_ns is not None:
            return Batch(parsed.stamps_ns, parsed.is_valid, parsed.columns)
        rate = self.layout.rate
        if rate is None:
            raise RuntimeError(f"{self.layout.where}: a layout without time")
        stamps = row_stamps(rate.start_ns, rate.rate_hz, parsed.rows + first_row)
        return Batch(stamps, None, parsed.columns)


def sample_columns(
    layout: Layout,
    columns: tuple[Column, ...],
    on_bad_row: str,
    mend: Callable[[bytes], bytes] | None = None,
) -> tuple[Column, ...]:
    """Widen kinds by rows from the start of a file and from places spread over it.

    The kinds are a first guess; a `RowReader` finds by itself what they cannot hold.
    """
    if all(column.fixed for column in columns):
        return columns
    kinds = {column.name: column.kind for column in columns}
    fixed = frozenset(column.name for column in columns if column.fixed)
    parser = BlockParser(layout, kinds, fixed, "skip" if on_bad_row == "fail" else on_bad_row)
    for piece in _samples(layout):
        data = mend(piece) if mend is not None else piece
        for name, kind in parser.needed(data).items():
            kinds[name] = widest(kinds[name], kind)
        parser = replace(parser, kinds=dict(kinds))
    return tuple(replace(column, kind=kinds[column.name]) for column in columns)


def first_stamp(layout: Layout, mend: Callable[[bytes], bytes] | None = None) -> int | None:
    """Read the first stamp of a file; None where the first rows have none."""
    piece = next(_samples(layout))
    data = mend(piece) if mend is not None else piece
    parsed = BlockParser(layout, {}, on_bad_row="skip").parse(data)
    if parsed.stamps_ns is None or parsed.is_valid is None or not parsed.is_valid.any():
        return None
    return int(parsed.stamps_ns[parsed.is_valid][0])


def _samples(layout: Layout) -> Iterator[bytes]:
    start = feed.head(layout.path, SAMPLE_BYTES, layout.where)
    is_whole = len(start) < SAMPLE_BYTES
    text = feed.decode(start, layout.encoding)
    block = next(skip_lines(iter([Block(text, is_whole)]), layout.n_preamble))
    data = block.data if is_whole else block.data[: block.data.rfind(b"\n") + 1]
    cut = data.find(b"\n", FIRST_BYTES) + 1  # what they show, the fast way reads the rest with
    yield from (data[:cut], data[cut:]) if cut else (data,)
    is_plain = not feed.is_compressed(layout.path) and not files.is_member(layout.path)
    if not is_whole and layout.encoding == "utf-8" and is_plain:
        yield from feed.spread_samples(layout.path, N_SAMPLES, PIECE_BYTES)
