"""Mentalab Explore: the files of one recording share a clock."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from mmprep import tables
from mmprep.errors import DataError
from mmprep.sources import explore
from mmprep.sources.base import TextOptions

FILES = {
    "p1_ExG.csv": "TimeStamp,ch1,ch2\n163503.5941,400000.1,-12.5\n163503.5981,400001.2,-12.75\n",
    "p1_ORN.csv": "TimeStamp,ax,ay,az,gx,gy,gz,mx,my,mz\n"
    "163503.5941,164.151,978.806,98.21,5311.25,-5670.0,-1627.5,-559.36,846.64,261.44\n",
    "p1_Marker.csv": "TimeStamp,Code\n163508.1198,sw_8\n163509.1255,sw_10\n",
    "p1_Meta.csv": "TimeOffset,Device,sr,adcMask,ExGUnits\n"
    "159702.9354587,Explore_AAAH,250,ch1 ch2,uV\n",
}


@pytest.fixture
def folder(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def claimed(folder):
    (claim,) = explore.claim("", [path.name for path in folder.iterdir()], folder)
    return claim


def convert(folder, stream, **options):
    settings, target = TextOptions(**options), folder / f"{stream}.parquet"
    claim = claimed(folder)
    schema = explore.probe(claim, folder, settings)[stream]
    return explore.write(
        claim, folder, stream, schema, tables.Target(target, "s"), options=settings
    ), target


def test_claim_is_the_recording_named_by_its_stem(folder):
    claim = claimed(folder)
    assert (claim.stem, claim.id_path) == ("p1", "p1_ExG.csv")
    assert claim.files == ("p1_ExG.csv", "p1_Marker.csv", "p1_ORN.csv", "p1_Meta.csv")


def test_files_with_another_header_are_not_claimed(tmp_path):
    (tmp_path / "x_Marker.csv").write_text("time,Code\n1,2\n")
    (tmp_path / "x_ExG.csv").write_text("TimeStamp,temperature\n1,2\n")
    assert explore.claim("", ["x_Marker.csv", "x_ExG.csv"], tmp_path) == []


def test_rate_and_unit_of_exg_come_from_the_meta(folder):
    facts, target = convert(folder, "ExG")
    field = pq.read_schema(target).field("ch1")
    assert (facts.rate_hz, facts.absolute, field.metadata[b"unit"]) == (250, False, b"uV")
    assert facts.start_ns == 163503_594_100_000


def test_serial_of_the_device_is_not_kept(folder):
    assert b"Explore_" not in convert(folder, "ExG")[1].read_bytes()


def test_exg_without_meta_has_its_measured_rate(folder):
    (folder / "p1_Meta.csv").unlink()
    assert convert(folder, "ExG")[0].rate_hz == 250


def test_rate_that_is_none_is_refused(folder):
    (folder / "p1_Meta.csv").write_text(FILES["p1_Meta.csv"].replace("250", "fast"))
    with pytest.raises(DataError, match=r"p1_Meta\.csv: sr is 'fast'"):
        convert(folder, "ExG")


def test_orientation_has_units_by_sensor(folder):
    stream = explore.read_stream(folder / "p1_ORN.csv", TextOptions(), "o")
    assert stream.units == ("mg",) * 3 + ("mdps",) * 3 + ("mgauss",) * 3


def test_markers_are_events_with_a_code(folder):
    facts, target = convert(folder, "Marker")
    assert pq.read_table(target).column("Code").to_pylist() == ["sw_8", "sw_10"]
    assert explore.read_stream(folder / "p1_Marker.csv", TextOptions(), "m").kind == "events"
    assert facts.rate_hz is None


def test_bad_value_is_a_located_error(folder):
    (folder / "p1_ExG.csv").write_text(FILES["p1_ExG.csv"] + "163503.6021,bad,1\n")
    with pytest.raises(DataError, match=r"p1_ExG\.csv:4: ch1 is 'bad', expected float64"):
        convert(folder, "ExG")


def test_real_markers_equal_plain_reading(shared, tmp_path):
    folder = shared("explore")
    claim = claimed(folder)
    schema = explore.probe(claim, folder, TextOptions())["Marker"]
    target = tmp_path / "t.parquet"
    explore.write(
        claim, folder, "Marker", schema, tables.Target(target, "s"), options=TextOptions()
    )
    rows = [r.split(",") for r in (folder / "explore_Marker.csv").read_text().splitlines()[1:]]
    assert pq.read_table(target).column("Code").to_pylist() == [row[1] for row in rows]
    assert tables.read_stream(target, "m").stamps_ns.tolist() == [_ns(row[0]) for row in rows]


def _ns(text):
    whole, _, part = text.partition(".")
    return int(whole) * 10**9 + int(part.ljust(9, "0"))
