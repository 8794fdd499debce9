"""Polar Sensor Logger: streams told apart by their header, two clocks."""

from __future__ import annotations

import csv
from datetime import datetime

import numpy as np
import pyarrow.parquet as pq
import pytest

from mmprep import tables
from mmprep.errors import DataError, UsageError
from mmprep.sources import polar
from mmprep.sources.base import TextOptions

ACC = (
    "Phone timestamp;sensor timestamp [ns];X [mg];Y [mg];Z [mg] \n"
    "2022-04-25T11:39:36.978;704201974831254116;-777;436;-499\n"
    "2022-04-25T11:39:36.997;704201974850594517;-778;437;-498\n"
    "2022-04-25T11:39:37.016;704201974869934919;-775;441;-495\n"
)
PPI = (
    "Phone timestamp;PP-interval [ms];error estimate [ms];blocker;contact;contact;hr [bpm]\n"
    "2022-04-25T11:39:41.224;1117;882;1;1;0;0\n"
)
MARKER = "Phone timestamp;Marker start/stop\n2022-04-25T11:40:02.383;MARKER_START \n"
SENSOR_TIME = "sensor timestamp [ns]"


@pytest.fixture
def folder(tmp_path):
    for name, text in {"a_ACC.txt": ACC, "PPI.txt": PPI, "MARKER.txt": MARKER}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def claims(folder):
    return polar.claim("", [path.name for path in folder.iterdir()], folder)


def convert(folder, stream, **options):
    settings, target = TextOptions(**options), folder / f"{stream}.parquet"
    (claim,) = claims(folder)
    schema = polar.probe(claim, folder, settings)[stream]
    return polar.write(
        claim, folder, stream, schema, tables.Target(target, "s"), options=settings
    ), target


def test_claim_is_the_folder_and_its_streams_are_told_by_their_headers(folder):
    (folder / "notes.txt").write_text("phone; mine\n")
    (claim,) = claims(folder)
    assert claim.files == ("MARKER.txt", "PPI.txt", "a_ACC.txt")
    assert set(polar.probe(claim, folder, TextOptions())) == {"ACC", "PPI", "MARKER"}


def test_two_files_of_one_stream_are_two_items(folder):
    (folder / "b_ACC.txt").write_text(ACC)
    assert [claim.id_path for claim in claims(folder)] == [
        "MARKER.txt",
        "PPI.txt",
        "a_ACC.txt",
        "b_ACC.txt",
    ]
    assert claims(folder)[0].suffix == ".txt"


def test_local_time_without_zone_is_a_duration_and_said(folder):
    facts, target = convert(folder, "ACC")
    time = pq.read_table(target).column("time")
    assert str(time.type) == "duration[ns]"
    assert time.cast("int64").to_pylist() == [0, 19_000_000, 38_000_000]
    assert "--tz" in facts.notes[0]


def test_zone_makes_the_time_utc(folder):
    facts, _ = convert(folder, "ACC", tz="Europe/Istanbul")
    assert facts.absolute
    assert (
        facts.start_ns
        == round(datetime.fromisoformat("2022-04-25T08:39:36.978Z").timestamp() * 1e3) * 10**6
    )


def test_sensor_stamps_keep_every_digit(folder):
    table = pq.read_table(convert(folder, "ACC")[1])
    assert table.column("sensor timestamp").to_pylist() == [
        704201974831254116,
        704201974850594517,
        704201974869934919,
    ]
    assert table.schema.field("X").metadata[b"unit"] == b"mg"


def test_sensor_clock_can_be_the_time(folder):
    facts, target = convert(folder, "ACC", time=SENSOR_TIME)
    assert facts.start_ns == 704201974831254116 + 946_684_800 * 10**9
    assert facts.notes == (polar.UNCERTAIN,)
    assert "Phone timestamp" in pq.read_table(target).column_names


def test_channel_as_time_is_refused(folder):
    with pytest.raises(UsageError, match=r"a_ACC\.txt: 'X \[mg\]' is no time"):
        convert(folder, "ACC", time="X [mg]")


def test_column_name_that_comes_again_is_numbered(folder):
    facts, target = convert(folder, "PPI")
    names = pq.read_table(target).column_names
    assert names[2:] == ["PP-interval", "error estimate", "blocker", "contact", "contact_2", "hr"]
    assert facts.rate_hz is None


def test_markers_are_text_and_events(folder):
    table = pq.read_table(convert(folder, "MARKER")[1])
    assert table.column("Marker start/stop").to_pylist() == ["MARKER_START "]
    assert polar.read_stream(folder / "MARKER.txt", TextOptions(), "m").kind == "events"


def test_bad_value_is_a_located_error(folder):
    (folder / "a_ACC.txt").write_text(ACC + "2022-04-25T11:39:37.036;704201974889275319;x;1;1\n")
    with pytest.raises(DataError, match=r"a_ACC\.txt:5: X is 'x', expected float64"):
        convert(folder, "ACC")


def test_file_of_another_format_is_refused(tmp_path):
    (tmp_path / "x.txt").write_text("a;b\n")
    with pytest.raises(DataError, match="no header of the Polar Sensor Logger"):
        polar.read_stream(tmp_path / "x.txt", TextOptions(), "x")


def test_real_session_equals_plain_reading(shared, tmp_path):
    folder = shared("polar")
    (claim,) = polar.claim("", [path.name for path in folder.iterdir()], folder)
    schemas = polar.probe(claim, folder, TextOptions())
    assert sorted(schemas) == ["ACC", "HR", "MARKER"]
    for stream, name in {
        "ACC": "Polar_Sense_ACC_first8000.txt",
        "HR": "Polar_Sense_HR.txt",
    }.items():
        target = tmp_path / f"{stream}.parquet"
        facts = polar.write(
            claim,
            folder,
            stream,
            schemas[stream],
            tables.Target(target, "s"),
            options=TextOptions(),
        )
        read = tables.read_stream(target, stream)
        rows = list(csv.reader((folder / name).read_text().splitlines(), delimiter=";"))[1:]
        assert facts.rows == len(rows)
        assert np.array_equal(read.data, [[float(cell) for cell in row[1:]] for row in rows])
        assert read.stamps_ns.tolist() == [_local_ns(row[0]) for row in rows]


def _local_ns(text):
    second, ms = text.split(".")
    return round(datetime.fromisoformat(f"{second}Z").timestamp()) * 10**9 + int(ms) * 10**6
