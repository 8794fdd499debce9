"""Tables whose rows move in time and stay as they are: events, annotations, irregular readings.

Rules
-----
- Every column keeps its type, unit and text. Only `time` changes, and with it the first column
  called `duration` that is in a unit of time: it says how long the row lasts.
- A row without such a column, or without a value in it, is a point in time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mmprep.errors import UsageError
from mmprep.tables.parquet import TableInfo, TableWriter, as_floats, column_of, read_rows
from mmprep.tables.schema import TableSchema, TimeColumn
from mmprep.tables.stamps import UNIT_NS, name_parts
from mmprep.timebase import BoolArray, IntArray

_DURATION = "duration"


@dataclass(frozen=True, slots=True)
class EventTable:
    """The rows of a table with their stamps.

    Parameters
    ----------
    stamps_ns : [shape=(n,), int64, ns]
        On the source's own clock, `NULL_STAMP_NS` where missing.
    columns : pyarrow.Table
        All columns after `id` and `time`.
    bare_unit_ns : int
        What a column `duration` without a unit is in; 0 if it is no duration then.
    """

    stamps_ns: IntArray
    columns: pa.Table
    info: TableInfo
    bare_unit_ns: int = 0

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.stamps_ns.size)

    def matching(self, expression: re.Pattern[str], column: str | None = None) -> BoolArray:
        """Tell in which rows an expression is found; see `matches`.

        Returns
        -------
        [shape=(n,), bool]
        """
        return np.array([one is not None for one in self.matches(expression, column)], np.bool_)

    def matches(
        self, expression: re.Pattern[str], column: str | None = None
    ) -> list[re.Match[str] | None]:
        """Find an expression in each row.

        Parameters
        ----------
        column : str, optional
            Where it is sought; default in all columns of text, or all if there is none.

        Returns
        -------
        list
            The match in the first column that has one; None where there is none. Rows without any
            column are empty texts.

        Raises
        ------
        UsageError
            There is no such column.
        """
        blank = None if self.columns.column_names else expression.search("")
        found: list[re.Match[str] | None] = [blank] * self.n_rows
        for name in self._searched(column):
            values, again = np.unique(_texts(self.columns.column(name)), return_inverse=True)
            of_value = [expression.search(value) for value in values]
            found = [one or of_value[k] for one, k in zip(found, again.tolist(), strict=True)]
        return found

    def values(self) -> dict[str, list[str | int | float | None]]:
        """Give the cells of all columns but that of durations; missing and empty ones are None."""
        lasting = self._duration()
        kept = [n for n in self.columns.column_names if lasting is None or n != lasting[0]]
        return {name: [_cell(v) for v in self.columns.column(name).to_pylist()] for name in kept}

    def _searched(self, column: str | None) -> list[str]:
        names: list[str] = self.columns.column_names
        if column is not None and column not in names:
            raise UsageError(f"there is no column {column!r}", hint=f"columns: {', '.join(names)}")
        if column is not None:
            return [column]
        return [n for n in names if self.columns.schema.field(n).type == pa.string()] or names

    def durations_ns(self) -> IntArray:
        """Say how long each row lasts; 0 for points in time."""
        found = self._duration()
        if found is None:
            return np.zeros(self.n_rows, dtype=np.int64)
        lasts = as_floats(self.columns.column(found[0])) * found[1]
        return np.where(lasts > 0, lasts, 0).round().astype(np.int64)

    def keys(self) -> IntArray:
        """Give rows of one stamp and equal values one number."""
        keys = np.arange(self.n_rows)
        stamps, group = np.unique(self.stamps_ns, return_inverse=True)
        again = np.flatnonzero(np.bincount(group, minlength=stamps.size)[group] > 1)
        values = [column.to_pylist() for column in self.columns.take(again).columns]
        first: dict[str, int] = {}
        for row, *cells in zip(again.tolist(), *values, strict=True):
            keys[row] = first.setdefault(str((int(group[row]), *cells)), row)
        return keys

    def beginnings(self) -> IntArray:
        """Give the rows at which a column has another value than in the row before, and has one."""
        begins = np.zeros(self.n_rows, dtype=bool)
        for column in self.columns.columns:
            values = column.combine_chunks()
            held = values.is_valid().to_numpy(zero_copy_only=False)
            same = pc.equal(values[1:], values[:-1]).fill_null(False)  # noqa: FBT003
            begins[1:] |= held[1:] & ~same.to_numpy(zero_copy_only=False)
            begins[:1] |= held[:1]
        return np.flatnonzero(begins)

    def write(
        self,
        path: Path,
        rows: IntArray,
        stamps_ns: IntArray,
        durations_ns: IntArray,
        *,
        item_id: str,
        origin_ns: int,
        absolute: bool,
    ) -> None:
        """Write some rows with new times.

        Parameters
        ----------
        rows : [shape=(n,), int64]
            Which rows, in the order to write.
        stamps_ns, durations_ns : [shape=(n,), int64, ns]
            Their new stamps and durations.
        origin_ns : int
            What the stamps count from where they are not absolute.
        """
        columns = self.columns.take(rows)
        longer_ns = durations_ns - self.durations_ns()[rows]
        found = self._duration()
        if found is not None and longer_ns.any():
            name, unit_ns = found
            mended = _lengthened(columns.column(name), longer_ns, unit_ns)
            columns = columns.set_column(columns.column_names.index(name), name, mended)
        self._write(path, columns, stamps_ns, item_id, origin_ns, absolute=absolute)

    def _write(
        self,
        path: Path,
        columns: pa.Table,
        stamps_ns: IntArray,
        item_id: str,
        origin_ns: int,
        *,
        absolute: bool,
    ) -> None:
        time = TimeColumn("ns", absolute=absolute, source_name=self.info.time_name or "")
        float32 = pa.float32() in columns.schema.types
        schema = TableSchema(tuple(map(column_of, columns.schema)), time, float32)
        rate_hz = self.info.time.rate_hz
        writer = TableWriter(
            path,
            schema,
            item_id=item_id,
            rate_hz=rate_hz,
            irregular=rate_hz is None,
            start_ns=origin_ns,
            device=self.info.device,
            tz=self.info.tz,
        )
        try:
            whole = columns.combine_chunks()
            arrays = {name: _one(whole.column(name)) for name in whole.column_names}
            writer.add(stamps_ns, None, arrays)
            writer.close()
        except BaseException:
            writer.abort()
            raise

    def _duration(self) -> tuple[str, int] | None:
        """Find the column of durations and its unit in ns."""
        for name, unit in zip(self.info.channels, self.info.units, strict=True):
            if name not in self.columns.column_names:
                continue
            base, named = name_parts(name)
            known = UNIT_NS.get(unit or named or "") or (0 if unit or named else self.bare_unit_ns)
            if base == _DURATION and known and self.columns.schema.field(name).type != pa.string():
                return name, known
        return None


def _cell(value: Any) -> str | int | float | None:
    is_missing = value is None or value == "" or value != value  # noqa: PLR0124 - NaN
    return None if is_missing else cast("str | int | float", value)


def _texts(column: pa.ChunkedArray) -> NDArray[np.str_]:
    """Give cells as they are written; whole numbers without a point, missing ones empty."""
    cells = column.to_pylist()
    if pa.types.is_floating(column.type):
        cells = [int(v) if v is not None and v.is_integer() else v for v in cells]
    return np.array(["" if cell is None else str(cell) for cell in cells], dtype=np.str_)


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.nulls(0, column.type)


def _lengthened(column: pa.ChunkedArray, by_ns: IntArray, unit_ns: int) -> pa.ChunkedArray:
    """Add a time to the values of a column that have one; others stay bit for bit."""
    longer = pc.add(pc.cast(column, pa.float64()), pa.array(by_ns / unit_ns))
    if pa.types.is_integer(column.type):
        longer = pc.round(longer)
    return pc.if_else(pa.array(by_ns != 0), pc.cast(longer, column.type, safe=False), column)


def read_events(
    pieces: Iterable[tuple[Path, tuple[int, int] | None]], columns: Sequence[str] | None = None
) -> EventTable:
    """Read a table, or rows of it, whole; several that follow on each other as one.

    Parameters
    ----------
    columns : sequence of str, optional
        Only these channels.

    Raises
    ------
    DataError
        A file is no table of ours, or is damaged.
    """
    read = [read_rows(path, rows, columns) for path, rows in pieces]
    found = pa.concat_tables([part for _, part, _ in read])
    stamps = np.concatenate([stamps for stamps, _, _ in read])
    return EventTable(stamps, found, read[0][2])
