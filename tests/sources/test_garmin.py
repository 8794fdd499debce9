"""Garmin's long form: one stream a quantity."""

from __future__ import annotations

from datetime import datetime

import pyarrow.parquet as pq
import pytest

from mmprep import tables
from mmprep.errors import DataError, UsageError
from mmprep.sources import garmin
from mmprep.sources.base import TextOptions

ROWS = (
    "2019-10-16T12:08:58.041+02:00;STEPS;299.0\n"
    "2019-10-16T12:08:58.808+02:00;HEART_RATE;82\n"
    "2019-10-16T12:09:00.511+02:00;HEART_RATE;79.5\n"
)


@pytest.fixture
def file(tmp_path):
    (tmp_path / "data.csv").write_text(ROWS)
    return tmp_path / "data.csv"


def convert(file, stream, **options):
    settings, target = TextOptions(**options), file.with_name(f"{stream}.parquet")
    (claim,) = garmin.claim("", [file.name], file.parent)
    schema = garmin.probe(claim, file.parent, settings)[stream]
    facts = garmin.write(
        claim, file.parent, stream, schema, tables.Target(target, "s"), options=settings
    )
    return facts, tables.read_stream(target, stream)


def test_claim_is_the_file(file):
    (claim,) = garmin.claim("", [file.name], file.parent)
    assert (claim.id_path, claim.stem) == ("data.csv", "data")


def test_other_semicolon_tables_are_not_claimed(tmp_path):
    (tmp_path / "x.csv").write_text("2019-10-16T12:08:58.041;STEPS;299.0\n1;2;3\n")
    (tmp_path / "empty.csv").write_text("")
    assert garmin.claim("", ["x.csv", "empty.csv"], tmp_path) == []


def test_each_quantity_is_a_stream_of_its_rows(file):
    facts, stream = convert(file, "HEART_RATE")
    assert stream.data[:, 0].tolist() == [82.0, 79.5]
    assert stream.stamps_ns.tolist() == [1571220538808 * 10**6, 1571220540511 * 10**6]
    assert (facts.rows, facts.rate_hz, facts.absolute) == (2, None, True)


def test_unit_of_a_known_quantity_is_written(file):
    convert(file, "HEART_RATE")
    field = pq.read_schema(file.with_name("HEART_RATE.parquet")).field("value")
    assert (field.metadata[b"unit"], field.metadata[b"source_name"]) == (b"bpm", b"HEART_RATE")


def test_bad_value_is_a_located_error(file):
    file.write_text(ROWS + "2019-10-16T12:09:02.000+02:00;STEPS;many\n")
    with pytest.raises(DataError, match=r"data\.csv:4: value is 'many', expected float64"):
        convert(file, "STEPS")


def test_skipped_row_counts_for_its_own_stream_only(file):
    file.write_text(ROWS + "2019-10-16T12:09:02.000+02:00;STEPS;many\n")
    steps, _ = convert(file, "STEPS", on_bad_row="skip")
    rate, _ = convert(file, "HEART_RATE", on_bad_row="skip")
    assert (steps.rows, steps.n_rejected, steps.n_rows_in) == (1, 1, 2)
    assert (rate.rows, rate.n_rejected, rate.rejects) == (2, 0, None)


def test_row_of_no_stream_is_rejected_once(file):
    file.write_text(ROWS + "cut;here\n")
    rate, _ = convert(file, "HEART_RATE", on_bad_row="skip")
    steps, _ = convert(file, "STEPS", on_bad_row="skip")
    assert (rate.n_rejected, steps.n_rejected) == (1, 0)


def test_read_stream_of_several_needs_a_name(file):
    with pytest.raises(UsageError, match="several streams"):
        garmin.read_stream(file, TextOptions(), "g")
    read = garmin.read_stream(file, TextOptions(), "g", stream="STEPS")
    assert (read.name, read.data.tolist()) == ("g", [[299.0]])


def test_real_file_equals_plain_reading(shared, tmp_path):
    path = shared("garmin/garmin_long_first12000.csv")
    (claim,) = garmin.claim("", [path.name], path.parent)
    schemas = garmin.probe(claim, path.parent, TextOptions())
    rows = [line.split(";") for line in path.read_text().splitlines()]
    assert sorted(schemas) == sorted({row[1] for row in rows})
    for stream, schema in schemas.items():
        target = tmp_path / f"{stream}.parquet"
        garmin.write(
            claim, path.parent, stream, schema, tables.Target(target, "s"), options=TextOptions()
        )
        read = tables.read_stream(target, stream)
        mine = [row for row in rows if row[1] == stream]
        assert read.data[:, 0].tolist() == [float(row[2]) for row in mine]
        assert read.stamps_ns.tolist() == [_ns(row[0]) for row in mine]


def _ns(text):
    return round(datetime.fromisoformat(text).timestamp() * 1000) * 10**6
