"""Which device recorded a table, and in which zone its local times were, stay with the table."""

from __future__ import annotations

import pytest

from mmprep import run_convert
from mmprep.steps.inspect import inspect
from mmprep.tables import table_info
from tests.sources.test_e4 import SESSION
from tests.sources.test_emotiv import PRO
from tests.sources.test_muse import HEADER, ROWS
from tests.sources.test_opensignals import MAC, RESPIBAN, recording
from tests.sources.test_xdf import header, make

ZONE = "Asia/Shanghai"
CSV = {
    "muse": (HEADER + ROWS, "MuseS"),
    "pro": (PRO, "EPOCX"),
    "garmin": ("2019-10-16T12:08:58.041+02:00;HEART_RATE;79.0\n" * 3, "Garmin"),
    "Polar_Sense_HR": (
        "Phone timestamp;HR [bpm];HRV [ms]\n2023-06-01T12:00:00.000;61;0\n",
        "Polar Sense",
    ),
    "beats": ("Phone timestamp;HR [bpm];HRV [ms]\n2023-06-01T12:00:00.000;61;0\n", "Polar"),
}


def about(out):
    found = {path.parent.name: path for path in out.glob("tables/*/**/*.parquet")}
    return {name: table_info(found[name]) for name in found if not name.endswith(".clock")}


@pytest.mark.parametrize("name", CSV)
def test_table_names_the_model(tmp_path, name):
    text, model = CSV[name]
    (tmp_path / f"{name}.csv").write_text(text)
    run_convert(str(tmp_path / f"{name}.csv"), output=tmp_path / "out")
    assert {info.device for info in about(tmp_path / "out").values()} == {model}
    assert {s["device"] for s in inspect(str(tmp_path / f"{name}.csv"))["streams"]} == {model}
    for path in tmp_path.glob("out/tables/**/*.parquet"):
        (shown,) = inspect(str(path))["streams"]
        assert shown["device"] == model


def test_folder_of_one_vendor_names_its_model(tmp_path):
    (tmp_path / "S2").mkdir()
    for name, content in SESSION.items():
        (tmp_path / "S2" / name).write_bytes(content.encode())
    run_convert(str(tmp_path / "S2"), output=tmp_path / "out")
    assert {info.device for info in about(tmp_path / "out").values()} == {"Empatica E4"}
    shown = inspect(str(tmp_path / "S2"))["streams"]
    assert {stream["device"] for stream in shown} == {"Empatica E4"}


def test_two_devices_in_a_file_are_named_apart(tmp_path):
    other = {**RESPIBAN, "device": "biosignalsplux_explorer"}
    cells = 2 * (len(RESPIBAN["column"]))
    path = recording(
        tmp_path, {MAC: RESPIBAN, "00:07:80:D8:A8:FF": other}, [(k,) * cells for k in range(9)]
    )
    run_convert(str(path), output=tmp_path / "out")
    assert {stream: info.device for stream, info in about(tmp_path / "out").items()} == {
        "biosignalsplux_1": "biosignalsplux",
        "biosignalsplux_explorer_2": "biosignalsplux_explorer",
    }


def test_stream_of_xdf_names_the_model_that_it_describes(tmp_path):
    said = "<acquisition><manufacturer>Maker</manufacturer><model> Cap 8 </model></acquisition>"
    make(tmp_path / "a.xdf", header(7, "New", "EEG", "float32", rate=4, desc=said))
    run_convert(str(tmp_path / "a.xdf"), output=tmp_path / "out")
    found = {stream: info.device for stream, info in about(tmp_path / "out").items()}
    assert (found["New"], found["Keys"]) == ("Cap 8", None)


def test_zone_stays_where_it_made_local_times_utc(tmp_path):
    (tmp_path / "muse.csv").write_text(HEADER + ROWS)
    (tmp_path / "local.csv").write_text("time,x\n2021-04-05 15:48:04.8,1\n2021-04-05 15:48:05,2\n")
    (tmp_path / "zoned.csv").write_text("time,y\n2021-04-05T15:48:04+02:00,1\n")
    (tmp_path / "unix.csv").write_text("time,z\n1617630484.8,1\n1617630485.8,2\n")
    run_convert(str(tmp_path), output=tmp_path / "out", tz=ZONE)
    zones = {stream: info.tz for stream, info in about(tmp_path / "out").items()}
    assert (zones["local"], zones["eeg"]) == (ZONE, ZONE)
    assert (zones["zoned"], zones["unix"]) == (None, None)
    (shown,) = inspect(str(tmp_path / "out/tables/eeg/muse.parquet"))["streams"]
    assert (shown["tz"], shown["start"]) == (ZONE, "2021-04-05T07:48:04.834000000Z")


def test_start_of_a_header_keeps_its_zone(tmp_path):
    path = recording(tmp_path, {MAC: RESPIBAN}, [(k, 0, 1, 2, 3, 4) for k in range(9)])
    run_convert(str(path), output=tmp_path / "local")
    run_convert(str(path), output=tmp_path / "zoned", tz=ZONE)
    assert {info.tz for info in about(tmp_path / "local").values()} == {None}
    assert {info.tz for info in about(tmp_path / "zoned").values()} == {ZONE}
