"""Tables of arrays take declared kinds that hold their values."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

from mmprep.errors import DataError
from mmprep.tables import ArrayTable, Column, Declared, Rows, Target, TimeColumn


@pytest.fixture
def counts():
    """Three whole numbers."""
    rows = Rows(np.arange(3), {"n": np.array([1, 2, 3])})
    return ArrayTable(
        (Column("n", "int64", fixed=True),), TimeColumn("ns"), None, lambda give, notes: give(rows)
    )


@pytest.mark.parametrize(
    ("kind", "values"),
    [("int64", [1, 2, 3]), ("float64", [1.0, 2.0, 3.0]), ("string", ["1", "2", "3"])],
)
def test_declared_kind_that_is_wider_holds(counts, tmp_path, kind, values):
    table = counts.with_types(Declared({"n": kind}))
    table.write(table.schema(), Target(tmp_path / "o.parquet", "i"))
    assert pq.read_table(tmp_path / "o.parquet")["n"].to_pylist() == values


def test_declared_kind_that_is_narrower_is_refused(counts):
    halves = ArrayTable((Column("n", "float64"),), TimeColumn("ns"), None, counts.give)
    with pytest.raises(DataError, match="'n' is float64 in the file, the schema says int64"):
        halves.with_types(Declared({"n": "int64"}))


def test_column_that_nobody_names_keeps_its_kind(counts):
    assert counts.with_types(Declared({}, looks_further=False)).schema().kinds == {"n": "int64"}
