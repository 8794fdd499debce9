from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mmprep import tables
from mmprep.tables import Column, TableSchema, TableWriter, TimeColumn

COLUMNS = (
    Column("duration", "float64", "Dur", "s"),
    Column("word", "string", "word"),
    Column("n", "int64", "n"),
)
ROWS = {
    "duration": pa.array([0.25, None, 2.0, 0.25]),
    "word": pa.array(["a", None, "雨", "a"]),
    "n": pa.array([1, 2, None, 1]),
}
STAMPS = np.array([5, 7, 9, 5], dtype=np.int64) * 10**9


def table(path, columns=COLUMNS, rows=ROWS, stamps=STAMPS, *, absolute=False):
    schema = TableSchema(columns, TimeColumn("s", absolute=absolute, source_name="onset"))
    writer = TableWriter(path, schema, item_id="a", irregular=True, device="X1")
    writer.add(stamps, None, rows)
    writer.close()
    return path


def moved(path, out, rows, stamps, durations, *, absolute=False, origin_ns=0):
    events = tables.read_events([(path, None)])
    rows, stamps, durations = (np.array(v, dtype=np.int64) for v in (rows, stamps, durations))
    options = {"item_id": "b", "origin_ns": origin_ns, "absolute": absolute}
    events.write(out, rows, stamps, durations, **options)
    return pq.read_table(out)


def test_columns_keep_types_units_and_texts(tmp_path):
    source = table(tmp_path / "a.parquet")
    found = moved(source, tmp_path / "b.parquet", [2, 0], [1, 2], [2 * 10**9, 25 * 10**7])
    assert found.drop_columns(["id", "time"]).to_pylist() == [
        {"duration": 2.0, "word": "雨", "n": None},
        {"duration": 0.25, "word": "a", "n": 1},
    ]
    before, after = pq.read_schema(source), found.schema
    for name in ("duration", "word", "n"):
        assert after.field(name).equals(before.field(name), check_metadata=True)
    assert tables.table_info(tmp_path / "b.parquet").device == "X1"


def test_duration_follows_the_clock_and_a_missing_one_stays_missing(tmp_path):
    source = table(tmp_path / "a.parquet")
    found = moved(source, tmp_path / "b.parquet", [0, 1, 2], [0, 0, 0], [250_100_000, 0, 2 * 10**9])
    assert found.column("duration").to_pylist() == [0.2501, None, 2.0]


def test_whole_milliseconds_stay_whole(tmp_path):
    columns = (Column("duration [ms]", "int64"),)
    rows = {"duration [ms]": pa.array([1000, 20])}
    source = table(tmp_path / "a.parquet", columns, rows, STAMPS[:2])
    assert tables.read_events([(source, None)]).durations_ns().tolist() == [10**9, 2 * 10**7]
    found = moved(source, tmp_path / "b.parquet", [0, 1], [0, 1], [1_000_600_000, 2 * 10**7])
    assert found.column("duration [ms]").to_pylist() == [1001, 20]


def test_durations_without_a_unit_are_no_times(tmp_path):
    source = table(tmp_path / "a.parquet", (Column("duration", "int64"),), {"duration": ROWS["n"]})
    assert tables.read_events([(source, None)]).durations_ns().tolist() == [0, 0, 0, 0]


def test_stamps_count_from_the_origin_unless_absolute(tmp_path):
    source = table(tmp_path / "a.parquet")
    found = moved(source, tmp_path / "b.parquet", [0], [7_000], [25 * 10**7], origin_ns=9_000)
    assert found.column("time").cast("int64").to_pylist() == [-2_000]
    absolute = moved(source, tmp_path / "c.parquet", [0], [7_000], [25 * 10**7], absolute=True)
    assert str(absolute.schema.field("time").type) == "timestamp[ns, tz=UTC]"
    assert absolute.column("time").cast("int64").to_pylist() == [7_000]


def test_equal_rows_of_one_stamp_have_one_key(tmp_path):
    keys = tables.read_events([(table(tmp_path / "a.parquet"), None)]).keys()
    assert keys[0] == keys[3]
    assert len(set(keys.tolist())) == 3


def test_texts_begin_where_the_row_before_has_another(tmp_path):
    words = pa.array([None, "a", "a", None, "a", "b", "b"])
    columns, stamps = (Column("word", "string"),), np.arange(7) * 10**9
    source = table(tmp_path / "a.parquet", columns, {"word": words}, stamps)
    assert tables.read_events([(source, None)], ["word"]).beginnings().tolist() == [1, 4, 5]


def test_tables_that_follow_on_each_other_are_read_as_one(tmp_path):
    source = table(tmp_path / "a.parquet")
    events = tables.read_events([(source, (1, 3)), (source, (0, 1))])
    assert events.stamps_ns.tolist() == [7 * 10**9, 9 * 10**9, 5 * 10**9]
    assert events.columns.column("n").to_pylist() == [2, None, 1]
