from __future__ import annotations

import numpy as np
import pytest

from mmprep.manifest.model import Dataset, Modality, Record, Session, shard_ref
from mmprep.manifest.private import (
    Beside,
    TableFacts,
    _columns,
    _of_table,
    _Search,
    are_dates,
    identifying,
)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("2024-05-01/eeg.edf", "a date"),
        ("rec_20240501_1.csv", "a date"),
        ("1544027337_A01525.zip", "Unix time"),
        ("1544027337_A01525.zip", "a serial number"),
        ("jo.doe@uni.edu", "an address of mail"),
        ("00:07:80:8c:06:6e.txt", "an address of a device"),
    ],
)
def test_text_that_identifies_is_found(text, kind):
    search = _Search()
    search.text("source", text)
    assert ("source", kind) in search.found


@pytest.mark.parametrize(
    "text", ["P01/V02", "section_4_002.92_004.59", "0.1234567891", "1280x720", "sub-01_run-2", "A0"]
)
def test_text_that_does_not_is_left(text):
    search = _Search()
    search.text("source", text)
    assert not search.found


@pytest.mark.parametrize(
    ("column", "what", "severity"),
    [
        ("GPS_latitude", "a place", "error"),
        ("firstName", "a name", "error"),
        ("date_of_birth", "a birthday", "error"),
        ("Age", "a trait", "warning"),
        ("serial", "a device", "error"),
    ],
)
def test_column_that_identifies_is_found(column, what, severity):
    (found,) = _columns("x", [column])
    assert (found.what, found.severity) == (f"column {column!r} tells {what}", severity)


@pytest.mark.parametrize("column", ["page", "latency", "AF3", "image", "percentage", "cityscape"])
def test_column_that_does_not_is_left(column):
    assert not list(_columns("x", [column]))


def test_table_tells_by_dates_texts_serial_numbers_and_zones():
    table = TableFacts(
        "eeg", False, 1_700_000_000 * 10**9, ("x", "note"), ("note",), "E 20012", "Asia/Seoul"
    )
    assert [str(found) for found in _of_table(table)] == [
        "tables/eeg: the start tells the date",
        "tables/eeg: column 'note' is free text: read it",
        "tables/eeg: the device is named by its serial number (E 20012)",
        "tables/eeg: the zone Asia/Seoul tells the place",
    ]


def test_findings_of_one_kind_and_place_are_counted():
    records = [
        Record(
            id=f"r{k}",
            session="s1",
            begin_s=0,
            duration_s=1,
            source=f"2024-05-0{k}.wav",
            streams={"eeg": shard_ref("eeg/0.npy", (0, 1), rate_hz=1.0)},
        )
        for k in (1, 2, 3)
    ]
    found = identifying(
        Dataset(mmprep_version="0", step="convert", step_version=1), records, [], [], []
    )
    assert [str(one) for one in found] == [
        "source: a date (2024-05-01 and 2 more): --ids gives other names"
    ]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1.7e9, 1.7e9 + 60, True),
        (1.7e12, 1.7e12 + 60_000, True),
        (1.7e18, 1.7e18, True),
        (1.2e9, 1.8e9, False),  # ticks of 1 us
        (0.0, 1.7e9, False),
        (-np.inf, np.inf, False),
        (np.inf, -np.inf, False),
    ],
)
def test_numbers_that_may_be_unix_time_are_told_from_others(low, high, expected):
    assert are_dates(low, high) == expected


def found_in(dataset, tables=(), **beside):
    return [str(one) for one in identifying(dataset, [], [], [], tables, beside=Beside(**beside))]


def test_channels_texts_and_files_beside_are_searched():
    shown = Modality(kind="signal", channels=("lat", "x"))
    dataset = Dataset(mmprep_version="0", step="align", step_version=1, modalities={"gps": shown})
    table = TableFacts(
        "log", False, 0, ("n", "t"), ("n",), None, None, ("t",), [("n", "ask jo@uni.edu")]
    )
    assert found_in(
        dataset, [table], dated={"gps": ("x",)}, said=[("sync", {"a": [{"b": 17 * 10**17}]})]
    ) == [
        "gps: column 'lat' tells a place",
        "gps: column 'x' holds Unix times: they tell the date",
        "tables/log: column 't' holds Unix times: they tell the date",
        "tables/log: column 'n' is free text: read it",
        "sync: Unix time in ns (1700000000000000000)",
        "tables/log.n: an address of mail (jo@uni.edu)",
    ]


def test_times_of_a_dated_session_are_said_once():
    sessions = {"s": Session(origin_ns=17 * 10**17)}
    dataset = Dataset(mmprep_version="0", step="align", step_version=1, sessions=sessions)
    (found,) = found_in(dataset, said=[("sync", {"origin_ns": 17 * 10**17})])
    assert found.startswith("dataset.json: origin_ns tells")
