"""Streams of device files: rows left out, counters as clock, mended lines."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow.parquet as pq
import pytest

from mmprep import tables
from mmprep.errors import DataError
from mmprep.tables import Counter, Padding, Target, TextTable, Widen
from mmprep.tables.packets import Cycle
from mmprep.tables.schema import Column, TimeColumn

MS = 1_000_000


@pytest.fixture
def counted(tmp_path):
    """Rows of a counter and a value at 1000 Hz; every 7th packet is lost."""
    kept = [k for k in range(2000) if k % 7 or k == 0]
    path = tmp_path / "c.txt"
    path.write_text("".join(f"{k % 16}\t{k}\n" for k in kept))
    layout = tables.Layout(path, "c.txt", ("n", "v"), rate=tables.RateTime(Fraction(1000), 5 * MS))
    return kept, TextTable(
        layout,
        (Column("n"), Column("v")),
        TimeColumn("rate"),
        rate_hz=Fraction(1000),
        counter=Counter("n", Cycle(0, 15), is_clock=True),
    )


def write(table, path, on_bad_row="fail", *, schema=None, n_threads=1, **more):
    target = Target(path, "i", n_threads=n_threads)
    return table.write(schema or table.schema(), target, on_bad_row, **more)


def test_counter_gives_the_stamps(counted, tmp_path):
    kept, rows = counted
    facts = write(rows, tmp_path / "o.parquet")
    stamps = tables.read_stream(tmp_path / "o.parquet", "c").stamps_ns
    assert stamps.tolist() == [5 * MS + k * MS for k in kept]
    assert (facts.rows, facts.end_ns) == (len(kept), 5 * MS + kept[-1] * MS)
    assert facts.notes == (
        "counter 'n': at least 285 packets lost in 285 places; their time is left as gaps",
    )


def test_blocks_and_threads_change_no_byte(counted, tmp_path):
    _, rows = counted
    write(rows, tmp_path / "a.parquet")
    write(rows, tmp_path / "b.parquet", n_threads=3, block_bytes=100)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_stream_has_the_same_stamps_as_the_table(counted, tmp_path):
    _, rows = counted
    write(rows, tmp_path / "o.parquet")
    stream = rows.read("c")
    table = tables.read_stream(tmp_path / "o.parquet", "c")
    assert np.array_equal(stream.stamps_ns, table.stamps_ns)
    assert np.array_equal(stream.data, table.data)
    assert stream.nominal_rate_hz == 1000


def test_skipped_row_leaves_its_time(counted, tmp_path):
    _, rows = counted
    text = rows.layout.path.read_text().split("\n")
    text[3] = "oops"
    rows.layout.path.write_text("\n".join(text))
    facts = write(rows, tmp_path / "o.parquet", on_bad_row="skip")
    stamps = tables.read_stream(tmp_path / "o.parquet", "c").stamps_ns
    assert ((stamps[:4] - 5 * MS) // MS).tolist() == [0, 1, 2, 4]
    assert facts.n_rejected == 1


@pytest.fixture
def mixed(tmp_path):
    """A fast channel, a slow one and text in one file."""
    path = tmp_path / "m.csv"
    path.write_text("0,1.5,7,\n10,2.5,,\n20,,,hey\n30,3.5,8,\n")
    reader = tables.stamps.stamp_reader("ms", ("0",))
    return tables.Layout(
        path, "m.csv", ("t", "fast", "slow", "note"), delimiter=",", time_cell=0, stamps=reader
    )


def of(layout, *names, **more):
    columns = tuple(Column(name) for name in names)
    return TextTable(layout, columns, TimeColumn("ms"), filled_only=True, **more)


def test_rows_without_a_value_are_left_out(mixed, tmp_path):
    facts = write(of(mixed, "slow"), tmp_path / "o.parquet")
    stream = tables.read_stream(tmp_path / "o.parquet", "slow")
    assert stream.stamps_ns.tolist() == [0, 30 * MS]
    assert stream.data[:, 0].tolist() == [7, 8]
    assert (facts.rows, facts.n_rows_in, facts.n_rejected) == (2, 2, 0)


def test_text_stream_keeps_its_rows(mixed, tmp_path):
    rows = of(mixed, "note", text=frozenset({"note"}), irregular=True, kind="events")
    write(rows, tmp_path / "o.parquet")
    assert pq.read_table(tmp_path / "o.parquet")["note"].to_pylist() == ["hey"]
    stream = rows.read("note")
    assert (stream.stamps_ns.tolist(), stream.channels, stream.kind) == ([20 * MS], (), "events")


def test_text_among_numbers_is_a_bad_cell(mixed, tmp_path):
    mixed.path.write_text("0,1.5,7,\n10,oops,,\n")
    with pytest.raises(DataError, match=r"m\.csv:2: fast is 'oops', expected float64"):
        write(of(mixed, "fast"), tmp_path / "o.parquet")


def test_late_fraction_widens_an_integer_channel(mixed, tmp_path):
    rows = of(mixed, "slow")
    schema = rows.schema()
    mixed.path.write_text("0,1.5,7.25,\n")
    with pytest.raises(Widen) as raised:
        write(rows, tmp_path / "o.parquet", schema=schema)
    assert raised.value.kinds == {"slow": "float64"}
    assert not (tmp_path / "o.parquet").exists()


def test_made_up_rows_are_counted(mixed, tmp_path):
    facts = write(of(mixed, "fast", "slow", made_up="slow"), tmp_path / "o.parquet")
    assert facts.notes[0].startswith("2 rows were made up by the device")


def test_stamps_that_are_no_unix_time_ask_for_relative_ones(mixed, tmp_path):
    rows = TextTable(mixed, (Column("fast"),), TimeColumn("ms", absolute=True))
    with pytest.raises(Widen) as raised:
        write(rows, tmp_path / "o.parquet")
    assert raised.value.relative


def test_nobody_looks_at_columns_that_are_declared(mixed, tmp_path):
    table = of(replace(mixed, path=tmp_path / "absent"), "fast", "slow")
    known = tables.Declared({"fast": "float64", "slow": "float64"})
    assert set(table.with_types(known).schema().kinds.values()) == {"float64"}
    nothing = tables.Declared({}, looks_further=False)
    assert set(table.with_types(nothing).schema().kinds.values()) == {"null"}


def test_counter_that_the_schema_leaves_out_still_gives_the_stamps(counted, tmp_path):
    kept, rows = counted
    narrow = replace(rows.schema(), columns=(Column("v", "int64"),))
    write(rows, tmp_path / "o.parquet", schema=narrow)
    stream = tables.read_stream(tmp_path / "o.parquet", "c")
    assert stream.stamps_ns.tolist() == [5 * MS + k * MS for k in kept]
    assert stream.channels == ("v",)


def test_columns_that_the_schema_leaves_out_still_say_which_rows_are_filled(mixed, tmp_path):
    rows = of(mixed, "slow", "note", text=frozenset({"note"}))
    narrow = replace(rows.schema(), columns=(Column("slow", "int64"),))
    write(rows, tmp_path / "o.parquet", schema=narrow)
    assert pq.read_table(tmp_path / "o.parquet")["slow"].to_pylist() == [7, None, 8]


def test_stamps_declared_absolute_that_are_none_are_an_error(mixed, tmp_path):
    rows = TextTable(mixed, (Column("fast"),), TimeColumn("ms", absolute=True, fixed=True))
    with pytest.raises(DataError, match=r"m\.csv: its stamps are no Unix time, the schema says"):
        write(rows, tmp_path / "o.parquet")


@pytest.mark.parametrize(
    ("data", "mended"),
    [
        (b"1,2,\n3,4,\n", b"1,2,\n3,4,\n"),
        (b"1,2,\n3,4\n", b"1,2,\n3,4,\n"),
        (b"1,2\n3,4", b"1,2,\n3,4,"),
        (b"1\n\n1,2,3,4\n5,6\n", b"1\n\n1,2,3,4\n5,6,\n"),
        (b"", b""),
    ],
)
def test_padding_mends_lines_that_lack_one_delimiter(data, mended):
    assert Padding(",", 3)(data) == mended
