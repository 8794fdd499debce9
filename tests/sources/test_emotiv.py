"""Emotiv: TestBench's line of tags with a counter as clock; EmotivPRO with its streams."""

from __future__ import annotations

import csv
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow.parquet as pq
import pytest

from mmprep import tables
from mmprep.errors import DataError
from mmprep.sources import emotiv
from mmprep.sources.base import LOCAL_NOTE, TextOptions

TAGS = (
    "title:s1, recorded:16.09.11 10.40.19, sampling:128, subject:Geoff,"
    " labels:COUNTER INTERPOLATED AF3 O1 RAW_CQ GYROX MARKER, chan:7, units:emotiv\n"
)
PRO = (
    "title:s1,start timestamp:1711846790.125,headset type:EPOCX,headset serial:E2020ABC,"
    "sampling rate:eeg_128;mot_64,samples:4,version:2.2\n"
    "Timestamp,EEG.Counter,EEG.Interpolated,EEG.AF3,EEG.Battery,MOT.CounterMems,MOT.AccX,"
    "PM.Focus.IsActive,MarkerIndex,MarkerType\n"
    "1711846790.125000,0,0,4329.23,4,0,0.5,,,\n"
    "1711846790.132812,1,0,4324.62,4,,,,,\n"
    "1711846790.140625,2,1,4327.69,4,1,0.25,true,7,stim\n"
    "1711846790.148437,3,0,4328.72,4,,,,,\n"
)


def recording(folder, kept, *, cycle=129, end="", tags=TAGS):
    rows = (f"{k % cycle}, {int(k % 50 == 7)}, {4200 + k}, 4100.51, 3, 1, 0{end}\n" for k in kept)
    (folder / "eeg.csv").write_text(tags + "".join(rows))
    return folder / "eeg.csv"


@pytest.fixture
def pro(tmp_path):
    (tmp_path / "pro.csv").write_text(PRO)
    return tmp_path / "pro.csv"


def convert(path, out, stream="EEG", **options):
    settings = TextOptions(**options)
    (claim,) = emotiv.claim("", [path.name], path.parent)
    schema = emotiv.probe(claim, path.parent, settings)[stream]
    target = out / f"{stream}.parquet"
    while True:
        try:
            facts = emotiv.write(
                claim, path.parent, stream, schema, tables.Target(target, "P"), options=settings
            )
        except tables.Widen as wanted:
            schema = schema.widened(wanted)
        else:
            return facts, pq.read_table(target)


def samples(table):
    """Give the sample numbers of a table at 128 Hz."""
    return np.rint(np.array(table["time"].cast("int64")) * 128 / 1e9).astype(int).tolist()


def test_channels_are_the_labels(tmp_path):
    _, table = convert(recording(tmp_path, range(300)), tmp_path)
    assert table.column_names[2:5] == ["COUNTER", "INTERPOLATED", "AF3"]
    assert table.schema.field("AF3").metadata[b"unit"] == b"uV"
    assert b"unit" not in table.schema.field("GYROX").metadata
    assert table["AF3"].to_pylist()[:2] == [4200, 4201]


def test_counter_of_129_values_is_the_clock(tmp_path):
    kept = [k for k in range(1000) if not 400 <= k < 420 and k != 128]
    facts, table = convert(recording(tmp_path, kept), tmp_path)
    assert samples(table) == kept
    assert facts.rate_hz == 128
    assert "at least 21 packets lost in 2 places" in " ".join(facts.notes)


def test_counter_of_128_values_is_told_by_the_rows(tmp_path):
    kept = [k for k in range(1000) if k not in (500, 501)]
    _, table = convert(recording(tmp_path, kept, cycle=128), tmp_path)
    assert samples(table) == kept


def test_short_file_has_the_counter_of_the_format(tmp_path):
    _, table = convert(recording(tmp_path, range(120, 140)), tmp_path)
    assert samples(table) == list(range(20))


def test_made_up_rows_are_counted(tmp_path):
    facts, _ = convert(recording(tmp_path, range(300)), tmp_path)
    assert facts.notes[-1].startswith("6 rows were made up by the device for lost ones")


def test_comma_at_line_ends_is_no_cell(tmp_path):
    _, table = convert(recording(tmp_path, range(300), end=","), tmp_path)
    assert table.column_names[-1] == "MARKER"


def test_recorded_is_local_day_month_year(tmp_path):
    path = recording(tmp_path, range(3))
    local, _ = convert(path, tmp_path)
    assert (local.absolute, local.notes[0]) == (False, LOCAL_NOTE)
    known, _ = convert(path, tmp_path, tz="Australia/Sydney")
    assert (known.absolute, known.start_ns) == (True, 1_316_133_619_000_000_000)


def test_start_with_a_zone_is_unix_time(tmp_path):
    started = " timestamp started:2017-11-21T16:17:43.5-08:00   , sampling"
    path = recording(tmp_path, range(3), tags=TAGS.replace(" sampling", started))
    facts, _ = convert(path, tmp_path)
    assert (facts.absolute, facts.start_ns) == (True, 1_511_309_863_500_000_000)


def test_rows_that_do_not_fit_the_labels_are_refused(tmp_path):
    path = recording(tmp_path, range(3), tags=TAGS.replace(" GYROX", ""))
    with pytest.raises(DataError, match=r"eeg\.csv:2: 7 cells, the header names 6 columns"):
        convert(path, tmp_path)


def test_bad_value_is_a_located_error(tmp_path):
    path = recording(tmp_path, range(3))
    path.write_text(path.read_text().replace("4201", "oops"))
    with pytest.raises(DataError, match=r"eeg\.csv:3: AF3 is ' oops'"):
        convert(path, tmp_path)


@pytest.mark.parametrize("text", ["", "title:a\n1,2\n", "a:b,c\nTimestamp,x\n1,2\n", "Timestamp\n"])
def test_claim_leaves_other_tables(tmp_path, text):
    (tmp_path / "x.csv").write_text(text)
    assert emotiv.claim("", ["x.csv"], tmp_path) == []


def test_prefixes_of_emotivpro_are_streams(pro):
    (claim,) = emotiv.claim("", [pro.name], pro.parent)
    assert emotiv.streams(claim, pro.parent, TextOptions()) == ("EEG", "MOT", "PM", "Marker")


def test_streams_have_their_own_rows_and_rates(pro, tmp_path):
    eeg, table = convert(pro, tmp_path)
    motion, moved = convert(pro, tmp_path, "MOT")
    assert (eeg.rows, eeg.rate_hz, eeg.start_ns) == (4, 128, 1_711_846_790_125_000_000)
    assert (motion.rows, motion.rate_hz) == (2, 64)
    assert table.column_names[2:] == ["Counter", "Interpolated", "AF3", "Battery"]
    assert moved["AccX"].to_pylist() == [0.5, 0.25]
    assert eeg.notes == (
        "1 rows were made up by the device for lost ones ('Interpolated' is not 0)",
    )


def test_markers_are_irregular_events_with_text(pro, tmp_path):
    facts, table = convert(pro, tmp_path, "Marker")
    assert table.select(["MarkerIndex", "MarkerType"]).to_pylist() == [
        {"MarkerIndex": 7, "MarkerType": "stim"}
    ]
    assert facts.rate_hz is None
    stream = emotiv.read_stream(pro, TextOptions(), "m", stream="Marker")
    assert (stream.kind, stream.channels) == ("events", ("MarkerIndex",))


def test_serial_number_is_left_out(pro, tmp_path):
    convert(pro, tmp_path)
    assert b"E2020ABC" not in (tmp_path / "EEG.parquet").read_bytes()
    assert emotiv.device(pro) == "EPOCX"


def test_rate_of_a_stream_may_be_a_fraction(pro):
    pro.write_text(PRO.replace("mot_64", "pm_0.1;mot_64"))
    rows = emotiv.read_stream(pro, TextOptions(), "x", stream="MOT")
    assert rows.nominal_rate_hz == 64
    (claim,) = emotiv.claim("", [pro.name], pro.parent)
    schema = emotiv.probe(claim, pro.parent, TextOptions())["PM"]
    facts = emotiv.write(
        claim,
        pro.parent,
        "PM",
        schema,
        tables.Target(pro.with_suffix(".p"), "i"),
        options=TextOptions(),
    )
    assert facts.rate_hz == Fraction(1, 10)


def test_real_values_match_an_independent_reading(shared, tmp_path):
    path = shared("emotiv/emotivpro_style_derived.csv")
    facts, table = convert(path, tmp_path)
    with path.open(newline="") as file:
        next(file)
        rows = list(csv.DictReader(file))
    stamps = [int(Decimal(row["Timestamp"]) * 10**9) for row in rows]
    assert table["time"].cast("int64").to_pylist() == stamps
    for name in ("AF3", "O2", "AF4"):
        assert table[name].to_pylist() == [float(row[f"EEG.{name}"]) for row in rows]
    assert "at least 5 packets lost in 3 places" in facts.notes[0]
    assert facts.rows == 1275
