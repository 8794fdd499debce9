"""Tables in text files whose layout is known: their schema, the way to Parquet, reading them whole.

Rules
-----
- What is known of one table is a `TextTable`; a file may hold several, as streams side by side.
- Lines may be mended before they are parsed, block by block. Rows are changed after that, in the
  order of the file: those of other tables are left out, and where a counter is the only clock it
  gives the stamps.
- Rows left out are neither rejected nor counted as input. Rows in = rows out + rejected; the
  program checks it.
- Nothing is left at the target where a table was not written to its end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import Self

import numpy as np

from mmprep.errors import DataError
from mmprep.rows import IN_MEMORY, Rows, Store
from mmprep.signals import Stream
from mmprep.tables.feed import BLOCK_BYTES
from mmprep.tables.layout import Layout
from mmprep.tables.packets import Cycle, PacketCounter
from mmprep.tables.parquet import TableWriter, as_floats
from mmprep.tables.parsed import Parsed, Reject
from mmprep.tables.passage import passage_of
from mmprep.tables.rejects import RejectsFile
from mmprep.tables.rowreader import Batch, ReadOptions, RowReader, Tally, sample_columns
from mmprep.tables.schema import (
    Column,
    Declared,
    TableSchema,
    TimeColumn,
    Widen,
    widest,
    with_units,
)
from mmprep.tables.stamps import DECIMALS, NULL_STAMP_NS, UNIX_S, RateMeter, row_stamps
from mmprep.tables.target import TableFacts, Target
from mmprep.timebase import NS_PER_S, BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Counter:
    """The column of a stream that counts its packets.

    Parameters
    ----------
    is_clock : bool
        Rows have no other stamps: row = packet number / rate after the layout's start.
    may_repeat : bool
        The source may give a packet several times.
    """

    column: str
    cycle: Cycle | None
    is_clock: bool = False
    may_repeat: bool = True


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of a text table that have one value in a column.

    Parameters
    ----------
    takes_rest : bool
        Bad rows that belong to no part are named among the rejects of this one.
    """

    column: str
    value: str
    takes_rest: bool = False

    def owns(self, reject: Reject, layout: Layout) -> bool:
        """Say whether a bad row belongs to the part."""
        cells = reject.raw.decode("utf-8", "replace").split(layout.delimiter)
        index = layout.cells.index(self.column)
        key = cells[index].strip() if len(cells) == len(layout.cells) else ""
        return key == self.value or (self.takes_rest and not key)


@dataclass(frozen=True, slots=True)
class TextTable:
    """How one table lies in a text file.

    Parameters
    ----------
    columns : tuple of Column
        Its channels, a part of those of the layout. Kind `null`: as wide as its values need.
    rate_hz : Fraction, optional
        The nominal rate.
    irregular : bool
        The source says that there is no rate.
    kind : str
        As of `Stream`.
    text : frozenset of str
        Channels that may hold text; in the others it is a bad cell.
    notes : tuple of str
        What is to be said of the file.
    part : Part, optional
        Only some of the rows.
    filled_only : bool
        Rows where all channels are missing belong to other tables.
    mend : callable, optional
        Mends a block of whole lines; the number of lines stays.
    counter : Counter, optional
    made_up : str, optional
        The channel that is not 0 where the device made up the row for a lost one.
    """

    layout: Layout
    columns: tuple[Column, ...]
    time: TimeColumn
    rate_hz: Fraction | None = None
    irregular: bool = False
    kind: str = "signal"
    text: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    part: Part | None = None
    filled_only: bool = False
    mend: Callable[[bytes], bytes] | None = None
    counter: Counter | None = None
    made_up: str | None = None

    def with_units(self, units: Mapping[str, str]) -> Self:
        """Give channels the units that are said of them by their name here or in the source."""
        return replace(self, columns=with_units(self.columns, units))

    def with_types(self, known: Declared) -> Self:
        """Give channels declared kinds."""
        return replace(self, columns=known.of(self.columns))

    def schema(self, on_bad_row: str = "fail") -> TableSchema:
        """Give the schema, the kinds of the channels told by samples of the file."""
        return TableSchema(self._sampled(on_bad_row), self.time)

    def write(
        self,
        schema: TableSchema,
        target: Target,
        on_bad_row: str = "fail",
        *,
        block_bytes: int = BLOCK_BYTES,
    ) -> TableFacts:
        """Write the table.

        Parameters
        ----------
        schema : TableSchema
            The stream's. Channels of the file that it lacks are left out; those that the file lacks
            are missing values.

        Raises
        ------
        Widen
            The schema is too narrow for a value.
        DataError
            The first bad row, where the policy is `fail`; the file is empty or damaged.
        """
        kept = RejectsFile(target.rejects_path)
        is_whole = self.layout.numbers is None and self.layout.span is None
        hasher = target.hasher if is_whole else None
        options = ReadOptions(on_bad_row, target.n_threads, block_bytes, hasher)
        columns = (*schema.columns, *self._helpers(schema))
        reader = _TableReader(self, self._strict(columns), options, kept)
        writer = target.writer(schema, rate_hz=self.rate_hz, irregular=self.irregular)
        try:
            for batch in reader.batches():
                _check_absolute(schema, batch, writer, self.layout.where)
                writer.add(batch.stamps_ns, batch.is_valid, batch.columns)
            time = writer.close()
            n_rows_in = reader.n_rows_in(writer.n_rows)
        except BaseException as error:
            writer.abort()
            kept.abort()
            if isinstance(error, Widen):
                raise self._asked(error) from None
            raise
        return TableFacts(
            time,
            n_rows_in,
            writer.n_rows,
            reader.n_rejected,
            kept.close(),
            (*reader.notes, *_notes(reader, writer.n_rows)),
            {self.layout.where: reader.digest()} if is_whole else {},
        )

    def read(self, name: str, on_bad_row: str = "fail", store: Store = IN_MEMORY) -> Stream:
        """Read the numeric channels without writing a table.

        Parameters
        ----------
        store : Store
            Keeps the readings.

        Returns
        -------
        Stream
            Stamps on the source's own clock, `NULL_STAMP_NS` where missing; data float64, NaN where
            missing; channels that hold text are left out.
        """
        sampled = self._strict(self._sampled(on_bad_row))
        # A row with text alone is filled too.
        texts = tuple(c for c in sampled if c.kind == "string" and self.filled_only)
        columns = tuple(c for c in sampled if c.kind != "string")
        while True:
            reader = _TableReader(self, (*columns, *texts), ReadOptions(on_bad_row))
            try:
                stamps, data = _collected(reader, columns, store)
            except Widen as wanted:
                columns = self._widened(columns, self._asked(wanted))
                continue
            rate_hz, is_measured = self._rate_of(stamps)
            return Stream(
                name,
                stamps,
                data,
                tuple(column.name for column in columns),
                tuple(column.unit for column in columns),
                rate_hz,
                self.time.absolute,
                self.kind,
                is_measured,
                self.time.since_start,
                n_rejected=reader.tally.n_rejected,
                texts=self._left_out(columns),
                notes=self.notes,
            )

    def _left_out(self, columns: tuple[Column, ...]) -> tuple[str, ...]:
        kept = {column.name for column in columns}
        return tuple(column.name for column in self.columns if column.name not in kept)

    def _helpers(self, schema: TableSchema) -> tuple[Column, ...]:
        """Give the columns that the rows are told by, though the schema leaves them out."""
        said = (self.counter.column if self.counter is not None else None, self.made_up)
        left_out = [c for c in self.columns if c.name not in schema.kinds]
        numbers = [replace(c, kind="float64", fixed=True) for c in left_out if c.name in said]
        filled = [replace(c, kind="string") for c in left_out if c.name not in said]
        return (*numbers, *(filled if self.filled_only else ()))

    def _sampled(self, on_bad_row: str) -> tuple[Column, ...]:
        found = sample_columns(self.layout, self.columns, on_bad_row, self.mend)
        kinds = self._numbers({column.name: column.kind for column in found})
        return tuple(replace(column, kind=kinds[column.name]) for column in found)

    def _numbers(self, kinds: Mapping[str, str]) -> dict[str, str]:
        """Keep channels of numbers from becoming text."""
        text = self.text | {column.name for column in self.columns if column.kind == "string"}
        return {n: k if k != "string" or n in text else "float64" for n, k in kinds.items()}

    def _strict(self, columns: tuple[Column, ...]) -> tuple[Column, ...]:
        """Make text a bad cell where only floats can be."""
        widest = self._numbers({column.name: "string" for column in columns})
        return tuple(
            replace(c, fixed=c.fixed or c.kind == widest[c.name] == "float64") for c in columns
        )

    def _asked(self, wanted: Widen) -> Widen:
        kinds = self._numbers(wanted.kinds)
        return Widen(kinds, relative=wanted.relative, examples=wanted.examples)

    def _widened(self, columns: tuple[Column, ...], wanted: Widen) -> tuple[Column, ...]:
        """Widen the channels of a stream; those that turn out to be text are left out."""
        kinds = wanted.kinds
        wider = (replace(c, kind=widest(c.kind, kinds.get(c.name, "null"))) for c in columns)
        return self._strict(tuple(column for column in wider if column.kind != "string"))

    def _rate_of(self, stamps_ns: IntArray) -> tuple[Fraction | None, bool]:
        """Give the rate, and whether it is that of the stamps alone."""
        if self.rate_hz is not None or self.irregular:
            return self.rate_hz, False
        if self.layout.rate is not None:
            return self.layout.rate.rate_hz, False
        measured = RateMeter.measure(_known(stamps_ns))
        return measured, measured is not None and not RateMeter.is_usual(measured)


def _known(stamps_ns: IntArray) -> IntArray:
    known = stamps_ns != NULL_STAMP_NS
    return stamps_ns if known.all() else stamps_ns[known]


@dataclass(frozen=True, slots=True)
class Padding:
    """Add the empty last cell where lines lack it: a mend of lines.

    Parameters
    ----------
    n_cells : int
        The cells of a whole line. Lines with one less get one more; others stay as they are.
    """

    delimiter: str
    n_cells: int

    def __call__(self, data: bytes) -> bytes:
        """Mend a block of lines."""
        mark, n_marks = self.delimiter.encode(), self.n_cells - 1
        if data.count(mark) == n_marks * (data.count(b"\n") + (not data.endswith(b"\n"))):
            return data
        lines = data.split(b"\n")
        return b"\n".join(
            line + mark if line and line.count(mark) == n_marks - 1 else line for line in lines
        )


@dataclass(frozen=True, slots=True)
class Squeezing:
    """Take a run of spaces for one, and none at the ends of a line: a mend of lines.

    Spaces inside double quotes stay.
    """

    def __call__(self, data: bytes) -> bytes:
        """Mend a block of lines."""
        if b'"' in data:
            data = _QUOTED_OR_SPACES.sub(lambda found: found[1] or b" ", data)
        else:
            data = _SPACES.sub(b" ", data)
        return data.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip(b" ")


_SPACES = re.compile(rb" +")
_QUOTED_OR_SPACES = re.compile(rb'("[^"\n]*")| +')


class _TableReader(RowReader):
    """Read the rows of one table of a file."""

    def __init__(
        self,
        table: TextTable,
        columns: tuple[Column, ...],
        options: ReadOptions,
        keep: Callable[[Reject], None] | None = None,
    ) -> None:
        key = () if table.part is None else (Column(table.part.column, "string"),)
        super().__init__(table.layout, (*columns, *key), options, take=self._sort)
        self._table, self._keep, self.notes = table, keep, list(table.notes)
        said = table.counter or Counter("", None)
        self._counter = PacketCounter(said.cycle, may_repeat=said.may_repeat)
        self._passage = passage_of(table.layout.stamps)
        self._n_made_up = 0
        self._n_left_out = 0
        self.n_rejected = 0
        self.n_null_stamps = 0

    def n_rows_in(self, n_rows_out: int) -> int:
        """Give the rows of the table in the file; checks that each is accounted for."""
        is_lost = self.options.on_bad_row == "skip"
        n_of_others = self.tally.n_rejected - self.n_rejected if is_lost else 0
        n_rows_in = self.tally.n_rows_in - self._n_left_out - n_of_others
        if n_rows_in != n_rows_out + (self.n_rejected if is_lost else 0):
            raise RuntimeError(
                f"{self.layout.where}: {n_rows_in} rows in, {n_rows_out} out,"
                f" {self.n_rejected} rejected"
            )
        return n_rows_in

    def _sort(self, reject: Reject) -> None:
        part = self._table.part
        if part is None or part.owns(reject, self.layout):
            self.n_rejected += 1
            if self._keep is not None:
                self._keep(reject)

    def _parse(self, data: bytes) -> Parsed:
        return super()._parse(self._table.mend(data) if self._table.mend is not None else data)

    def batches(self) -> Iterator[Batch]:
        for batch in super().batches():
            own = self._straight(self._counted(self._filled(self._of_part(batch))))
            if own.is_valid is not None:
                self.n_null_stamps += int(np.count_nonzero(~own.is_valid))
            yield own
        self.notes += self._passage.notes()
        if self._table.counter is not None:
            name, is_clock = self._table.counter.column, self._table.counter.is_clock
            self.notes += self._counter.notes(name, is_clock=is_clock)
        if self._n_made_up:
            self.notes.append(
                f"{self._n_made_up} rows were made up by the device for lost ones"
                f" ({self._table.made_up!r} is not 0)"
            )

    def _straight(self, batch: Batch) -> Batch:
        stamps, valid = batch.stamps_ns, batch.is_valid
        if valid is None or valid.all():
            return replace(batch, stamps_ns=self._passage.straight(stamps))
        moved = np.zeros_like(stamps)
        moved[valid] = self._passage.straight(stamps[valid])
        return replace(batch, stamps_ns=moved)

    def _of_part(self, batch: Batch) -> Batch:
        part = self._table.part
        if part is None:
            return batch
        columns = dict(batch.columns)
        keys = columns.pop(part.column).to_numpy(zero_copy_only=False)
        own = np.asarray(keys == part.value, dtype=np.bool_)
        return self._taken(replace(batch, columns=columns), own)

    def _filled(self, batch: Batch) -> Batch:
        if not self._table.filled_only:
            return batch
        own = [batch.columns[c.name] for c in self._table.columns if c.name in batch.columns]
        filled = [column.is_valid().to_numpy(zero_copy_only=False) for column in own]
        return self._taken(
            batch, reduce(np.logical_or, filled, np.zeros(batch.stamps_ns.size, np.bool_))
        )

    def _taken(self, batch: Batch, keep: BoolArray) -> Batch:
        if keep.all():
            return batch
        self._n_left_out += int(np.count_nonzero(~keep))
        valid = batch.is_valid[keep] if batch.is_valid is not None else None
        columns = {name: column.filter(keep) for name, column in batch.columns.items()}
        return Batch(batch.stamps_ns[keep], valid, columns)

    def _counted(self, batch: Batch) -> Batch:
        self._n_made_up += int(np.count_nonzero(np.nan_to_num(self._flags(batch))))
        counter, rate = self._table.counter, self.layout.rate
        if counter is None:
            return batch
        numbers = self._counter.numbers(_values(batch, counter.column))
        if not counter.is_clock or rate is None:
            return batch
        return replace(batch, stamps_ns=row_stamps(rate.start_ns, rate.rate_hz, numbers))

    def _flags(self, batch: Batch) -> FloatArray:
        name = self._table.made_up
        return np.zeros(0) if name is None else _values(batch, name)


def _values(batch: Batch, name: str) -> FloatArray:
    column = batch.columns.get(name)
    return np.full(batch.stamps_ns.size, np.nan) if column is None else as_floats(column)


def _check_absolute(schema: TableSchema, batch: Batch, writer: TableWriter, where: str) -> None:
    """Ask for relative time where the first stamp of the file is no Unix time.

    Raises
    ------
    DataError
        The schema declares that it is.
    """
    if not schema.time.absolute or writer.has_start:
        return
    stamps = batch.stamps_ns if batch.is_valid is None else batch.stamps_ns[batch.is_valid]
    if not stamps.size or schema.time.unit not in DECIMALS:
        return
    if not UNIX_S[0] <= int(stamps[0]) // NS_PER_S < UNIX_S[1]:
        if schema.time.fixed:
            raise no_unix_time(where)
        raise Widen({}, relative=True)


def no_unix_time(where: str) -> DataError:
    """Give the error of stamps that are declared absolute and are not."""
    return DataError(
        "its stamps are no Unix time, the schema says that they are absolute",
        where=where,
        hint="say --time-unit or --tz, or absolute: false in the schema",
    )


def _notes(reader: _TableReader, n_rows: int) -> Iterator[str]:
    tally: Tally = reader.tally
    if reader.salvage is not None and reader.salvage.reason:
        yield f"{reader.salvage.reason}; {n_rows} rows before that were kept, the rest is lost"
    if tally.is_cut:
        yield "the last line has no line end: its last value may be cut"
    if tally.n_comments:
        yield f"{tally.n_comments} lines below the header start with # and were taken for comments"
    if reader.n_null_stamps:
        yield f"{reader.n_null_stamps} rows without a stamp"
    if not n_rows:
        yield "no rows"


def _collected(
    reader: RowReader, columns: tuple[Column, ...], store: Store
) -> tuple[IntArray, Rows]:
    """Join the rows of a file: stamps [shape=(n,), ns], data [shape=(n, n_columns)]."""
    stamps: list[IntArray] = [np.zeros(0, np.int64)]
    data = store.begin((len(columns),))
    for batch in reader.batches():
        known, valid = batch.stamps_ns, batch.is_valid
        stamps.append(known if valid is None else np.where(valid, known, NULL_STAMP_NS))
        floats = [as_floats(batch.columns[column.name]) for column in columns]
        data.add(np.stack(floats, axis=1) if floats else np.zeros((known.size, 0)))
    return np.concatenate(stamps), data.rows()


def keys_of(layout: Layout, column: str) -> dict[str, int]:
    """Count the rows of each value of a column, in order of first appearance; bad rows aside."""
    counts: dict[str, int] = {}
    reader = RowReader(layout, (Column(column, "string"),), ReadOptions("skip"))
    for batch in reader.batches():
        for found in batch.columns[column].drop_null().value_counts().to_pylist():
            counts[found["values"]] = counts.get(found["values"], 0) + found["counts"]
    return counts
