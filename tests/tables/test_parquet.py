"""Tables on disk: checked, exact, the same bytes for the same rows."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.dataset as arrow_dataset
import pyarrow.parquet as pq
import pytest

from mmprep.errors import DataError, UsageError
from mmprep.tables import (
    NULL_STAMP_NS,
    Column,
    TableSchema,
    TableWriter,
    TimeColumn,
    encodings_of,
    iter_stream,
    parquet,
    read_columns,
    read_stream,
    table_info,
    write_table,
)

COLUMNS = (Column("x", "float64", "X [uS]", "uS"), Column("n", "int64"), Column("s", "string"))
SCHEMA = TableSchema(COLUMNS, TimeColumn("s", "name", source_name="t_s"))
START_NS = 1_000_000_000_123


def rows(n=100, seed=0):
    rng = np.random.default_rng(seed)
    stamps = START_NS + np.arange(n) * 7_812_500
    columns = {
        "x": pa.array(rng.normal(size=n)),
        "n": pa.array(np.arange(n)),
        "s": pa.array([f"s{k % 3}" for k in range(n)]),
    }
    return stamps, columns


def write(path, n=100, schema=SCHEMA, batch=None, valid=None, **options):
    stamps, columns = rows(n)
    writer = TableWriter(path, schema, item_id="P01", **options)
    for k in range(0, n, batch or n):
        piece = slice(k, k + (batch or n))
        part = {name: column[piece] for name, column in columns.items()}
        writer.add(stamps[piece], None if valid is None else valid[piece], part)
    return writer.close()


def test_table_has_id_then_time_then_channels(tmp_path):
    write(tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.column_names == ["id", "time", "x", "n", "s"]
    assert table.schema.field("id").type == pa.dictionary(pa.int32(), pa.string())
    assert table.schema.field("time").type == pa.duration("ns")
    assert table.column("id").unique().to_pylist() == ["P01"]


def test_fields_say_unit_channel_rate_and_source(tmp_path):
    write(tmp_path / "a.parquet")
    about = pq.read_schema(tmp_path / "a.parquet").field("x").metadata
    assert about == {
        b"unit": b"uS",
        b"channel": b"x",
        b"rate_hz": b"128/1",
        b"source_name": b"X [uS]",
    }


def test_metadata_gives_back_the_stamps_of_the_device(tmp_path):
    facts = write(tmp_path / "a.parquet")
    about = json.loads(pq.read_schema(tmp_path / "a.parquet").metadata[b"mmprep"])
    assert about == {
        "start_ns": START_NS,
        "absolute": False,
        "rate_hz": "128/1",
        "rate_is_measured": False,
        "clock": "device",
        "device": None,
        "tz": None,
    }
    assert (facts.start_ns, facts.end_ns) == (START_NS, START_NS + 99 * 7_812_500)
    assert read_stream(tmp_path / "a.parquet", "x").stamps_ns.tolist() == rows()[0].tolist()


def test_absolute_time_is_a_utc_timestamp(tmp_path):
    schema = TableSchema(COLUMNS, TimeColumn("s", "name", absolute=True))
    write(tmp_path / "a.parquet", schema=schema)
    assert pq.read_schema(tmp_path / "a.parquet").field("time").type == pa.timestamp("ns", "UTC")
    assert read_stream(tmp_path / "a.parquet", "x").stamps_ns[0] == START_NS


def test_missing_stamps_come_back_as_the_sentinel(tmp_path):
    valid = np.ones(100, np.bool_)
    valid[[0, 7]] = False
    facts = write(tmp_path / "a.parquet", valid=valid)
    stamps = read_stream(tmp_path / "a.parquet", "x").stamps_ns
    assert facts.start_ns == stamps[1] == START_NS + 7_812_500
    assert np.flatnonzero(stamps == NULL_STAMP_NS).tolist() == [0, 7]


def test_batches_of_any_size_and_a_background_thread_give_the_same_bytes(tmp_path):
    write(tmp_path / "a.parquet")
    for k, batch in enumerate((1, 7, 64)):
        write(tmp_path / f"b{k}.parquet", batch=batch, background=bool(k % 2))
        assert (tmp_path / f"b{k}.parquet").read_bytes() == (tmp_path / "a.parquet").read_bytes()


def test_row_groups_hold_so_many_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "GROUP_ROWS", 40)
    write(tmp_path / "a.parquet", batch=33, background=True)
    found = pq.read_metadata(tmp_path / "a.parquet")
    assert [found.row_group(k).num_rows for k in range(found.num_row_groups)] == [40, 40, 20]


def test_row_groups_hold_so_many_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "GROUP_BYTES", 1000)
    write(tmp_path / "a.parquet", batch=10)
    assert pq.read_metadata(tmp_path / "a.parquet").num_row_groups > 3
    assert read_stream(tmp_path / "a.parquet", "x").n_samples == 100


def test_stream_is_read_in_ranges_over_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "GROUP_ROWS", 40)
    write(tmp_path / "a.parquet")
    whole = read_stream(tmp_path / "a.parquet", "x")
    for begin, end in ((0, 100), (39, 41), (40, 80), (99, 100), (5, 5), (90, 200)):
        part = read_stream(tmp_path / "a.parquet", "x", rows=(begin, end))
        assert part.stamps_ns.tolist() == whole.stamps_ns[begin:end].tolist()
        assert np.array_equal(part.data, whole.data[begin:end])


def test_stream_comes_in_blocks_of_at_most_so_many_rows(tmp_path):
    write(tmp_path / "a.parquet")
    sizes = [block.n_samples for block in iter_stream(tmp_path / "a.parquet", "x", n_rows=30)]
    assert sizes == [30, 30, 30, 10]


def test_stream_has_the_numeric_channels_with_their_units(tmp_path):
    write(tmp_path / "a.parquet")
    stream = read_stream(tmp_path / "a.parquet", "gsr")
    assert (stream.name, stream.channels, stream.units) == ("gsr", ("x", "n"), ("uS", None))
    assert (stream.nominal_rate_hz, stream.absolute, stream.data.dtype) == (128, False, np.float64)


def test_stream_of_chosen_channels_keeps_their_order(tmp_path):
    write(tmp_path / "a.parquet")
    assert read_stream(tmp_path / "a.parquet", "x", columns=["n", "x"]).channels == ("n", "x")


@pytest.mark.parametrize("column", ["s", "absent"])
def test_stream_of_a_channel_without_numbers_is_refused(tmp_path, column):
    write(tmp_path / "a.parquet")
    with pytest.raises(UsageError, match=f"no numeric channel '{column}'; there are x, n"):
        read_stream(tmp_path / "a.parquet", "x", columns=[column])


def test_missing_values_are_nan_in_a_stream(tmp_path):
    writer = TableWriter(tmp_path / "a.parquet", SCHEMA, item_id="i")
    writer.add(np.array([1, 2]), None, {"n": pa.array([5, None])})
    writer.close()
    data = read_stream(tmp_path / "a.parquet", "x").data
    assert np.isnan(data).tolist() == [[True, False], [True, True]]


def test_column_that_a_file_lacks_is_missing_values_of_the_stream_type(tmp_path):
    writer = TableWriter(tmp_path / "a.parquet", SCHEMA, item_id="i")
    writer.add(np.array([1]), None, {})
    writer.close()
    types = [str(field.type) for field in pq.read_schema(tmp_path / "a.parquet")]
    assert types[2:] == ["double", "int64", "string"]


def test_floats_are_stored_in_32_bits_on_request(tmp_path):
    write(tmp_path / "a.parquet", schema=TableSchema(COLUMNS, SCHEMA.time, float32=True))
    types = [str(field.type) for field in pq.read_schema(tmp_path / "a.parquet")]
    assert types[2:] == ["float", "int64", "string"]


def test_table_without_rows_opens(tmp_path):
    facts = TableWriter(tmp_path / "a.parquet", SCHEMA, item_id="i").close()
    assert facts.start_ns is None
    assert read_stream(tmp_path / "a.parquet", "x").data.shape == (0, 2)


def test_tables_of_a_folder_open_as_one(tmp_path):
    write(tmp_path / "a.parquet")
    write(tmp_path / "b.parquet", n=10)
    assert arrow_dataset.dataset(tmp_path).to_table().num_rows == 110


def test_every_flipped_bit_is_noticed_or_harmless(tmp_path):
    write(tmp_path / "a.parquet", n=400)
    good, path = (tmp_path / "a.parquet").read_bytes(), tmp_path / "b.parquet"
    expected = read_stream(tmp_path / "a.parquet", "x", columns=["x"])
    for place in np.random.default_rng(1).integers(4, len(good) * 8 // 2, 150):
        data = bytearray(good)
        data[place // 8] ^= 1 << (place % 8)
        path.write_bytes(data)
        try:
            found = read_stream(path, "x", columns=["x"])
        except DataError:
            continue
        assert np.array_equal(found.data, expected.data)
        assert np.array_equal(found.stamps_ns, expected.stamps_ns)


def test_encodings_are_chosen_by_what_is_smallest():
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "noise": rng.normal(size=5000),
            "few": rng.integers(0, 3, 5000) * 0.1,
            "count": np.arange(5000),
        }
    )
    assert parquet.choose_encodings(table) == {
        "noise": "BYTE_STREAM_SPLIT",
        "few": "RLE_DICTIONARY",
        "count": "DELTA_BINARY_PACKED",
    }


def test_known_encodings_are_taken_where_they_suit_the_type(tmp_path):
    table = pa.table({"noise": np.random.default_rng(0).normal(size=5000), "n": np.arange(5000)})
    known = {"noise": "PLAIN", "n": "BYTE_STREAM_SPLIT"}
    assert parquet.choose_encodings(table, known) == {"noise": "PLAIN", "n": "DELTA_BINARY_PACKED"}


def test_encodings_can_be_read_from_a_table(tmp_path):
    rng = np.random.default_rng(0)
    columns = {"noise": rng.normal(size=5000), "few": rng.integers(0, 3, 5000) * 0.1}
    write_table(tmp_path / "a.parquet", columns, item_id="i")
    assert encodings_of(tmp_path / "a.parquet") == {
        "id": "RLE_DICTIONARY",
        "noise": "BYTE_STREAM_SPLIT",
        "few": "RLE_DICTIONARY",
    }


def test_table_without_rows_shows_no_encodings(tmp_path):
    write_table(tmp_path / "a.parquet", {"x": np.zeros(0)}, item_id="i")
    assert encodings_of(tmp_path / "a.parquet").keys() <= {"id", "x"}


def test_nominal_rate_stands_where_it_is_given_and_irregular_has_none(tmp_path):
    assert write(tmp_path / "a.parquet", rate_hz=Fraction(130)).rate_hz == 130
    assert write(tmp_path / "b.parquet", irregular=True).rate_hz is None
    assert table_info(tmp_path / "b.parquet").time.rate_hz is None


def test_plain_table_keeps_integers_exact(tmp_path):
    exact = np.array([1_556_559_573_141_592_653, -1])
    n_rows = write_table(
        tmp_path / "a.parquet", {"t1": exact, "t2": exact + 1}, item_id="i", metadata={"a": 1}
    )
    found = read_columns(tmp_path / "a.parquet", ["t1", "t2"])
    assert n_rows == 2
    assert found["t1"].tolist() == exact.tolist()
    assert pq.read_schema(tmp_path / "a.parquet").names == ["id", "t1", "t2"]


def test_foreign_parquet_file_is_no_table(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="not a table of mmprep"):
        read_stream(tmp_path / "a.parquet", "x")


def test_cut_table_is_a_located_error(tmp_path):
    write(tmp_path / "a.parquet")
    data = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(data[:-10])
    with pytest.raises(DataError, match=r"a\.parquet: the table cannot be read"):
        read_columns(tmp_path / "a.parquet")


def test_aborted_table_is_gone(tmp_path):
    writer = TableWriter(tmp_path / "a.parquet", SCHEMA, item_id="i", background=True)
    stamps, columns = rows()
    writer.add(stamps, None, columns)
    writer.abort()
    assert not list(tmp_path.iterdir())
