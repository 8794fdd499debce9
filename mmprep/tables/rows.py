"""Text tables of devices: several streams in one file, rows that need a change on the way.

Rules
-----
- What a reader knows of one stream is a `TextRows`; the rest is as for any text table.
- Lines may be mended before they are parsed, block by block. Rows are changed after that, in the
  order of the file: rows where a stream has no value are left out, and where a counter is the only
  clock it gives the stamps.
- Rows left out belong to other streams; they are neither rejected nor counted as input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from mmprep.signals import Stream
from mmprep.tables.convert import (
    Batch,
    ReadOptions,
    RejectsFile,
    RowReader,
    TableFacts,
    _check_absolute,
    _collected,
    _digest,
    _facts,
    sample_columns,
)
from mmprep.tables.packets import Cycle, PacketCounter
from mmprep.tables.parquet import COMPRESSION_LEVEL, TableWriter, as_floats
from mmprep.tables.parse import Layout, Parsed
from mmprep.tables.schema import Column, TableSchema, TimeColumn, Widen, widest
from mmprep.tables.stamps import row_stamps
from mmprep.timebase import BoolArray, FloatArray


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
class TextRows:
    """How one stream lies in a text file.

    Parameters
    ----------
    columns : tuple of Column
        Its channels, a part of those of the layout.
    rate_hz : Fraction, optional
        The nominal rate.
    irregular : bool
        The source says that there is no rate.
    kind : str
        As of `Stream`.
    mend : callable, optional
        Mends a block of whole lines; the number of lines stays.
    counter : Counter, optional
    filled_only : bool
        Rows where all channels are missing belong to other streams.
    made_up : str, optional
        The channel that is not 0 where the device made up the row for a lost one.
    text : frozenset of str
        Channels that may hold text; in the others it is a bad cell.
    notes : tuple of str
        What is to be said of the file.
    """

    layout: Layout
    columns: tuple[Column, ...]
    time: TimeColumn
    rate_hz: Fraction | None = None
    irregular: bool = False
    kind: str = "signal"
    mend: Callable[[bytes], bytes] | None = None
    counter: Counter | None = None
    filled_only: bool = False
    made_up: str | None = None
    text: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    def with_units(self, units: Mapping[str, str]) -> TextRows:
        """Give channels the units that are said of them by their name here or in the source."""
        columns = (
            replace(c, unit=units.get(c.name, units.get(c.source_name, c.unit)))
            for c in self.columns
        )
        return replace(self, columns=tuple(columns))

    def numbers(self, kinds: Mapping[str, str]) -> dict[str, str]:
        """Keep channels of numbers from becoming text."""
        text = self.text | {column.name for column in self.columns if column.kind == "string"}
        return {n: k if k != "string" or n in text else "float64" for n, k in kinds.items()}

    def strict(self, columns: tuple[Column, ...]) -> tuple[Column, ...]:
        """Make text a bad cell where only floats can be."""
        widest = self.numbers({column.name: "string" for column in columns})
        return tuple(
            replace(c, fixed=c.fixed or c.kind == widest[c.name] == "float64") for c in columns
        )


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


def schema_of_text_rows(rows: TextRows, *, on_bad_row: str, float32: bool) -> TableSchema:
    """Give the schema of a stream, the kinds of its channels told by samples of the file."""
    return TableSchema(_sampled(rows, on_bad_row), rows.time, float32)


def _sampled(rows: TextRows, on_bad_row: str) -> tuple[Column, ...]:
    found = sample_columns(rows.layout, rows.columns, on_bad_row)
    kinds = rows.numbers({column.name: column.kind for column in found})
    return tuple(replace(column, kind=kinds[column.name]) for column in found)


class _ChangedReader(RowReader):
    """Read the rows of one stream of a file."""

    def __init__(
        self, rows: TextRows, columns: tuple[Column, ...], options: ReadOptions, **more: Any
    ) -> None:
        super().__init__(rows.layout, columns, options, **more)
        self._rows, self.notes = rows, list(rows.notes)
        said = rows.counter or Counter("", None)
        self._counter = PacketCounter(said.cycle, may_repeat=said.may_repeat)
        self._n_made_up = 0

    def _parse(self, data: bytes) -> Parsed:
        return super()._parse(self._rows.mend(data) if self._rows.mend is not None else data)

    def batches(self) -> Iterator[Batch]:
        for batch in super().batches():
            yield self._counted(self._filled(batch))
        if self._rows.counter is not None:
            name, is_clock = self._rows.counter.column, self._rows.counter.is_clock
            self.notes += self._counter.notes(name, is_clock=is_clock)
        if self._n_made_up:
            self.notes.append(
                f"{self._n_made_up} rows were made up by the device for lost ones"
                f" ({self._rows.made_up!r} is not 0)"
            )

    def _filled(self, batch: Batch) -> Batch:
        if not self._rows.filled_only:
            return batch
        own = [batch.columns[c.name] for c in self._rows.columns if c.name in batch.columns]
        filled = [column.is_valid().to_numpy(zero_copy_only=False) for column in own]
        keep = reduce(np.logical_or, filled, np.zeros(batch.stamps_ns.size, np.bool_))
        return batch if keep.all() else _taken(batch, keep)

    def _counted(self, batch: Batch) -> Batch:
        self._n_made_up += int(np.count_nonzero(np.nan_to_num(self._flags(batch))))
        counter, rate = self._rows.counter, self.layout.rate
        if counter is None:
            return batch
        numbers = self._counter.numbers(_values(batch, counter.column))
        if not counter.is_clock or rate is None:
            return batch
        return replace(batch, stamps_ns=row_stamps(rate.start_ns, rate.rate_hz, numbers))

    def _flags(self, batch: Batch) -> FloatArray:
        name = self._rows.made_up
        return np.zeros(0) if name is None else _values(batch, name)


def _values(batch: Batch, name: str) -> FloatArray:
    column = batch.columns.get(name)
    return np.full(batch.stamps_ns.size, np.nan) if column is None else as_floats(column)


def _taken(batch: Batch, keep: BoolArray) -> Batch:
    valid = batch.is_valid[keep] if batch.is_valid is not None else None
    columns = {name: column.filter(keep) for name, column in batch.columns.items()}
    return Batch(batch.stamps_ns[keep], valid, columns)


def convert_text_rows(
    rows: TextRows,
    schema: TableSchema,
    target: Path,
    *,
    item_id: str,
    options: ReadOptions,
    rejects: Path | None = None,
    level: int = COMPRESSION_LEVEL,
    name: str | None = None,
) -> TableFacts:
    """Write one stream of a text file as a table; see `convert_text`.

    Raises
    ------
    Widen
        The schema is too narrow; nothing is left at the target.
    DataError
        The first bad row, where the policy is `fail`; the file is empty or damaged.
    """
    take = RejectsFile(rejects or target.with_suffix(".rejects.tsv"))
    reader = _ChangedReader(rows, rows.strict(schema.columns), options, take=take)
    writer = TableWriter(
        target,
        schema,
        item_id=item_id,
        rate_hz=rows.rate_hz,
        irregular=rows.irregular,
        level=level,
        background=options.n_threads > 1,
    )
    try:
        for batch in reader.batches():
            _check_absolute(schema, batch, writer)
            writer.add(batch.stamps_ns, batch.is_valid, batch.columns)
        time = writer.close()
    except Widen as wanted:
        writer.abort()
        take.abort()
        kinds = rows.numbers(wanted.kinds)
        raise Widen(kinds, relative=wanted.relative, examples=wanted.examples) from None
    except BaseException:
        writer.abort()
        take.abort()
        raise
    digests = {name or rows.layout.where: _digest(reader)}
    facts = _facts(time, reader.tally, take.close(), digests)
    return replace(facts, rows=writer.n_rows, notes=(*reader.notes, *facts.notes))


def stream_of_text_rows(rows: TextRows, name: str, *, options: ReadOptions) -> Stream:
    """Read the numeric channels of one stream of a text file; see `stream_of_text`."""
    sampled = rows.strict(_sampled(rows, options.on_bad_row))
    texts = tuple(column for column in sampled if column.kind == "string")
    columns = tuple(column for column in sampled if column.kind != "string")
    while True:
        reader = _ChangedReader(rows, (*columns, *texts), options)
        try:
            stream = _collected(
                reader,
                columns,
                name,
                absolute=rows.time.absolute,
                kind=rows.kind,
                irregular=rows.irregular,
            )
        except Widen as wanted:
            columns = _widened(rows, columns, wanted)
            continue
        return replace(stream, nominal_rate_hz=rows.rate_hz or stream.nominal_rate_hz)


def _widened(rows: TextRows, columns: tuple[Column, ...], wanted: Widen) -> tuple[Column, ...]:
    """Widen the channels of a stream; those that turn out to be text are left out."""
    kinds = rows.numbers(wanted.kinds)
    wider = tuple(replace(c, kind=widest(c.kind, kinds.get(c.name, "null"))) for c in columns)
    return rows.strict(tuple(column for column in wider if column.kind != "string"))
