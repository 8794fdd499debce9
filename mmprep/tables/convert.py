"""Text tables to Parquet: parse blocks in threads, encode in order, account for every row.

Rules
-----
- Blocks are cut by the file's bytes, parsed side by side, and written in order into ONE file, so
  the number of threads changes no byte. Only a few blocks are in memory.
- On the first value that its column cannot hold, writing stops; the rest of the file is still read,
  so that one `Widen` names all that is needed.
- Rows in = rows out + rejected. The program checks it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TextIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmprep import files
from mmprep.errors import DataError
from mmprep.signals import Stream
from mmprep.tables import feed
from mmprep.tables.feed import BLOCK_BYTES, Block, Hasher
from mmprep.tables.parquet import COMPRESSION_LEVEL, TableWriter, TimeFacts, as_floats
from mmprep.tables.parse import BlockParser, Layout, Parsed, Reject
from mmprep.tables.schema import Column, TableSchema, Widen, widest
from mmprep.tables.stamps import DECIMALS, NULL_STAMP_NS, UNIX_S, RateMeter, row_stamps
from mmprep.timebase import NS_PER_S, BoolArray, IntArray

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
    n_dropped: int = 0
    n_null_stamps: int = 0
    n_comments: int = 0
    n_rejected: int = 0
    is_cut: bool = False

    def add(self, parsed: Parsed) -> None:
        """Count one block."""
        self.n_lines += parsed.n_lines
        self.n_rows_in += parsed.n_rows_in
        self.n_rows_out += parsed.n_rows
        self.n_comments += parsed.n_comments
        self.n_dropped += parsed.n_rows_in - parsed.n_rows
        if parsed.is_valid is not None:
            self.n_null_stamps += int(parsed.n_rows - parsed.is_valid.sum())

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


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What one written table holds.

    Parameters
    ----------
    rows, n_rejected : int
        Rows written, and rows named in the file of rejects.
    rejects : Path or None
        That file, if there is one.
    start_ns, end_ns : int or None
        First and latest stamp on the source's clock.
    notes : tuple of str
        What the user should be told on stderr.
    input_digests : dict
        File as the claim names it -> `xxh3_128:hex`.
    """

    rows: int
    n_rejected: int
    rejects: Path | None
    start_ns: int | None
    end_ns: int | None
    rate_hz: Fraction | None
    absolute: bool
    n_rows_in: int = 0
    n_null_stamps: int = 0
    notes: tuple[str, ...] = ()
    input_digests: dict[str, str] = field(default_factory=dict)


# --- reading in order ----------------------------------------------------------------------------


def _skip_lines(blocks: Iterator[Block], n_lines: int) -> Iterator[Block]:
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
        self.tally.check(self.layout.where, self.options.on_bad_row)
        if self.wanted:
            raise Widen(self.wanted, examples=self._examples)

    def _blocks(self) -> Iterator[Block]:
        blocks = feed.text_blocks(
            self.layout.path,
            encoding=self.layout.encoding,
            n_bytes=self.options.block_bytes,
            hasher=self.hash,
            where=self.layout.where,
        )
        for block in _skip_lines(blocks, self.layout.n_preamble):
            self.tally.is_cut = bool(
                block.is_last and block.data and not block.data.endswith(b"\n")
            )
            yield block

    def _parse(self, data: bytes) -> Parsed:
        kinds = {n: widest(k, self.wanted.get(n, "null")) for n, k in self._kinds.items()}
        return BlockParser(self.layout, kinds, self._fixed, self.options.on_bad_row).parse(data)

    def _account(self, parsed: Parsed) -> None:
        first_line = self.layout.n_preamble + self.tally.n_lines + 1
        for reject in parsed.rejects:
            self._reject(replace(reject, line=reject.line + first_line))
        for name, misfit in parsed.misfits.items():
            self.wanted[name] = widest(misfit.kind, self.wanted.get(name, "null"))
            where = f"{self.layout.where}:{misfit.line + first_line}: {misfit.text!r}"
            self._examples.setdefault(name, where)
        self.tally.add(parsed)

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


def bad_row(where: str, reject: Reject) -> DataError:
    """Give the error that names a bad row."""
    raw = escape(reject.raw)
    shown = raw if len(raw) <= 120 else raw[:120] + "…"
    hint = "--on-bad-row skip leaves such rows out, null keeps them as missing values"
    if "quote" in reject.reason:
        hint += "; --quote none takes quotes for text"
    return DataError(f"{reject.reason}: {shown}", where=f"{where}:{reject.line}", hint=hint)


def escape(raw: bytes) -> str:
    r"""Write a raw line so that it fits a cell: \t \n \r \0 \\ and \xNN for what is no text."""
    text = raw.decode("utf-8", "surrogateescape")
    return "".join(_ESCAPES.get(char) or _hex(char) for char in text)


_ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0", "\\": "\\\\"}


def _hex(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x20 or code == 0x7F else char


class RejectsFile:
    """The rows that were not taken as they are: line number, reason, raw line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None  # opened with the first row

    def __call__(self, reject: Reject) -> None:
        """Write one row."""
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("w", encoding="utf-8", newline="\n")
            self._file.write("line\treason\traw\n")
        reason = escape(reject.reason.encode("utf-8", "surrogateescape"))
        self._file.write(f"{reject.line}\t{reason}\t{escape(reject.raw)}\n")

    def close(self) -> Path | None:
        """Close the file; give its path if there is one."""
        if self._file is None:
            return None
        self._file.close()
        return self._path

    def abort(self) -> None:
        """Drop the file."""
        if self.close() is not None:
            self._path.unlink(missing_ok=True)


# --- the three things one does with a text table -------------------------------------------------


def sample_columns(
    layout: Layout, columns: tuple[Column, ...], on_bad_row: str
) -> tuple[Column, ...]:
    """Widen kinds by rows from the start of a file and from places spread over it.

    The kinds are a first guess; `convert_text` finds by itself what they cannot hold.
    """
    kinds = {column.name: column.kind for column in columns}
    fixed = frozenset(column.name for column in columns if column.fixed)
    parser = BlockParser(layout, kinds, fixed, "skip" if on_bad_row == "fail" else on_bad_row)
    for piece in _samples(layout):
        for name, misfit in parser.parse(piece).misfits.items():
            kinds[name] = widest(kinds[name], misfit.kind)
        parser = replace(parser, kinds=dict(kinds))
    return tuple(replace(column, kind=kinds[column.name]) for column in columns)


def _samples(layout: Layout) -> Iterator[bytes]:
    start = feed.head(layout.path, SAMPLE_BYTES, layout.where)
    is_whole = len(start) < SAMPLE_BYTES
    text = feed.decode(start, layout.encoding)
    block = next(_skip_lines(iter([Block(text, is_whole)]), layout.n_preamble))
    data = block.data if is_whole else block.data[: block.data.rfind(b"\n") + 1]
    cut = data.find(b"\n", FIRST_BYTES) + 1  # what they show, the fast way reads the rest with
    yield from (data[:cut], data[cut:]) if cut else (data,)
    if not is_whole and layout.encoding == "utf-8" and not feed.is_compressed(layout.path):
        yield from feed.spread_samples(layout.path, N_SAMPLES, PIECE_BYTES)


def convert_text(
    layout: Layout,
    schema: TableSchema,
    target: Path,
    *,
    item_id: str,
    options: ReadOptions,
    rejects: Path | None = None,
    rate_hz: Fraction | None = None,
    irregular: bool = False,
    level: int = COMPRESSION_LEVEL,
    name: str | None = None,
) -> TableFacts:
    """Write the rows of a text file as one table of a stream.

    Parameters
    ----------
    schema : TableSchema
        The stream's. Channels of the file that it lacks are left out; those that the file lacks are
        missing values.
    rejects : Path, optional
        Where rejected rows go; default beside the target, with the suffix `.rejects.tsv`.
    rate_hz, irregular
        See `TableWriter`.
    name : str, optional
        The name of the input in `input_digests`.

    Raises
    ------
    Widen
        The schema is too narrow; nothing is left at the target.
    DataError
        The first bad row, where the policy is `fail`; the file is empty or damaged.
    """
    take = RejectsFile(rejects or target.with_suffix(".rejects.tsv"))
    reader = RowReader(layout, schema.columns, options, take=take)
    writer = TableWriter(
        target,
        schema,
        item_id=item_id,
        rate_hz=rate_hz,
        irregular=irregular,
        level=level,
        background=options.n_threads > 1,
    )
    try:
        for batch in reader.batches():
            _check_absolute(schema, batch, writer)
            writer.add(batch.stamps_ns, batch.is_valid, batch.columns)
        time = writer.close()
    except BaseException:
        writer.abort()
        take.abort()
        raise
    digests = {name or layout.where: _digest(reader)}
    return _facts(time, reader.tally, take.close(), digests)


def _check_absolute(schema: TableSchema, batch: Batch, writer: TableWriter) -> None:
    """Ask for relative time where the first stamp of the file is no Unix time."""
    if not schema.time.absolute or writer.has_start:
        return
    stamps = batch.stamps_ns if batch.is_valid is None else batch.stamps_ns[batch.is_valid]
    if not stamps.size or schema.time.unit not in DECIMALS:
        return
    if not UNIX_S[0] <= int(stamps[0]) // NS_PER_S < UNIX_S[1]:
        raise Widen({}, relative=True)


def _digest(reader: RowReader) -> str:
    digest = getattr(reader.hash, "hexdigest", None)
    return f"xxh3_128:{digest()}" if digest is not None else files.digest(reader.layout.path)


def _facts(
    time: TimeFacts, tally: Tally, rejects: Path | None, digests: dict[str, str]
) -> TableFacts:
    return TableFacts(
        tally.n_rows_out,
        tally.n_rejected,
        rejects,
        time.start_ns,
        time.end_ns,
        time.rate_hz,
        time.absolute,
        tally.n_rows_in,
        tally.n_null_stamps,
        tuple(_notes(tally)),
        digests,
    )


def _notes(tally: Tally) -> Iterator[str]:
    if tally.is_cut:
        yield "the last line has no line end: its last value may be cut"
    if tally.n_comments:
        yield f"{tally.n_comments} lines below the header start with # and were taken for comments"
    if tally.n_null_stamps:
        yield f"{tally.n_null_stamps} rows without a stamp"
    if not tally.n_rows_out:
        yield "no rows"


def stream_of_text(
    layout: Layout,
    columns: tuple[Column, ...],
    name: str,
    *,
    options: ReadOptions,
    absolute: bool,
    kind: str = "signal",
    irregular: bool = False,
) -> Stream:
    """Read the numeric channels of a text file without writing a table.

    Returns
    -------
    Stream
        Stamps on the source's own clock, `NULL_STAMP_NS` where missing; data float64, NaN where
        missing; channels that hold text are left out.
    """
    numeric = tuple(column for column in columns if column.kind != "string")
    while True:
        reader = RowReader(layout, numeric, options)
        with suppress(Widen):
            return _collected(
                reader, numeric, name, absolute=absolute, kind=kind, irregular=irregular
            )
        numeric = _without_text(numeric, reader.wanted)


def _without_text(columns: tuple[Column, ...], wanted: dict[str, str]) -> tuple[Column, ...]:
    wider = [replace(c, kind=widest(c.kind, wanted.get(c.name, "null"))) for c in columns]
    return tuple(column for column in wider if column.kind != "string")


def _collected(
    reader: RowReader,
    columns: tuple[Column, ...],
    name: str,
    *,
    absolute: bool,
    kind: str,
    irregular: bool,
) -> Stream:
    stamps: list[IntArray] = [np.zeros(0, np.int64)]
    data: list[NDArray[np.float64]] = [np.zeros((0, len(columns)))]
    for batch in reader.batches():
        valid = batch.is_valid
        stamps.append(
            batch.stamps_ns if valid is None else np.where(valid, batch.stamps_ns, NULL_STAMP_NS)
        )
        floats = [as_floats(batch.columns[column.name]) for column in columns]
        data.append(np.stack(floats, axis=1) if floats else np.zeros((batch.stamps_ns.size, 0)))
    joined = np.concatenate(stamps)
    rate = reader.layout.rate.rate_hz if reader.layout.rate is not None else None
    if rate is None and not irregular:
        rate = RateMeter.measure(joined[joined != NULL_STAMP_NS])
    units = tuple(column.unit for column in columns)
    channels = tuple(column.name for column in columns)
    return Stream(name, joined, np.concatenate(data), channels, units, rate, absolute, kind)
