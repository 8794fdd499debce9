"""Tables of sources that give arrays: their rows go to Parquet block by block, with flat memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmprep.errors import DataError
from mmprep.rows import IN_MEMORY, Store
from mmprep.signals import Stream
from mmprep.tables.schema import (
    RANK,
    Column,
    Declared,
    TableSchema,
    TimeColumn,
    stored_kind,
    with_units,
)
from mmprep.tables.target import TableFacts, Target
from mmprep.timebase import IntArray

BLOCK_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Rows:
    """Consecutive rows of one table.

    Parameters
    ----------
    stamps_ns : [shape=(n,), int64, ns]
        On the source's clock.
    columns : mapping of str to array [shape=(n,)]
        Column -> values; of dtype object where some are None.
    """

    stamps_ns: IntArray
    columns: Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class ArrayTable:
    """One table whose rows come as arrays.

    Parameters
    ----------
    columns : tuple of Column
        Its channels, of declared kinds.
    rate_hz : Fraction or None
        The nominal rate; None for rows that come when they come.
    give : callable
        Passes the rows to the function that it gets, block by block from the first one on; what
        turns out to be worth saying goes to the list.
    notes : tuple of str
        What is known to be worth saying beforehand.
    """

    columns: tuple[Column, ...]
    time: TimeColumn
    rate_hz: Fraction | None
    give: Callable[[Callable[[Rows], None], list[str]], None]
    notes: tuple[str, ...] = ()

    def with_units(self, units: Mapping[str, str]) -> Self:
        """Give channels the units that are said of them by their name here or in the source."""
        return replace(self, columns=with_units(self.columns, units))

    def with_types(self, known: Declared) -> Self:
        """Give channels declared kinds.

        Raises
        ------
        DataError
            One that cannot hold all values of the kind that the source has.
        """
        columns = known.of(self.columns)
        for column, own in zip(columns, self.columns, strict=True):
            if RANK[column.kind] < RANK[own.kind]:
                raise DataError(
                    f"column {own.name!r} is {own.kind} in the file, the schema says {column.kind}",
                    hint=f"declare it as {own.kind}",
                )
        return replace(self, columns=columns)

    def schema(self, on_bad_row: str = "fail") -> TableSchema:
        """Give the schema; `on_bad_row` is for tables of text."""
        return TableSchema(self.columns, self.time)

    def write(self, schema: TableSchema, target: Target, on_bad_row: str = "fail") -> TableFacts:
        """Write the table in the types that the schema names; nothing is left after an error."""
        irregular = self.rate_hz is None
        writer = target.writer(schema, rate_hz=self.rate_hz, irregular=irregular)
        kinds = {column.name: stored_kind(column, schema) for column in schema.columns}
        notes = list(self.notes)

        def add(rows: Rows) -> None:
            known = rows.columns.items()
            columns = {name: _array(values, kinds[name]) for name, values in known if name in kinds}
            writer.add(rows.stamps_ns, None, columns)

        try:
            self.give(add, notes)
            time = writer.close()
        except BaseException:
            writer.abort()
            raise
        return TableFacts(time, writer.n_rows, writer.n_rows, notes=tuple(notes))

    def read(self, name: str, on_bad_row: str = "fail", store: Store = IN_MEMORY) -> Stream:
        """Read the numeric channels without writing a table; without a rate they are events.

        `store` keeps the readings.
        """
        columns = [column for column in self.columns if column.kind != "string"]
        stamps: list[IntArray] = [np.empty(0, np.int64)]
        data = store.begin((len(columns),))

        def add(rows: Rows) -> None:
            values = [rows.columns[column.name].astype(np.float64) for column in columns]
            stamps.append(rows.stamps_ns)
            data.add(np.column_stack(values) if values else np.empty((rows.stamps_ns.size, 0)))

        self.give(add, [])
        return Stream(
            name,
            np.concatenate(stamps),
            data.rows(),
            tuple(column.name for column in columns),
            tuple(column.unit for column in columns),
            self.rate_hz,
            self.time.absolute,
            "signal" if self.rate_hz is not None else "events",
            texts=tuple(column.name for column in self.columns if column.kind == "string"),
        )


def _array(values: NDArray[Any], kind: str) -> pa.Array:
    """Give values as Arrow has them, in a stored kind."""
    if kind == "string":
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    return pa.array(list(values) if values.dtype == object else values.astype(kind))
