"""Mind Monitor: rows of samples, rows of happenings, local stamps."""

from __future__ import annotations

import csv
from datetime import datetime
from fractions import Fraction

import numpy as np
import pyarrow.parquet as pq
import pytest

from mmprep import tables
from mmprep.errors import DataError, UsageError
from mmprep.sources import muse
from mmprep.sources.base import TextOptions

HEADER = "TimeStamp,Delta_TP9,RAW_TP9,AUX_RIGHT,Gyro_X,HeadBandOn,Battery,Elements\n"
ROWS = (
    "2021-04-05 15:48:04.800,,,,,,,/muse/event/connected MuseS-84AC\n"
    "2021-04-05 15:48:04.834,0.5,832.4,844.1,2.9,1,100.00\n"
    "2021-04-05 15:48:04.838,0.5,829.2,861.0,2.9,1,100.00,\n"
    "2021-04-05 15:48:04.840,,,,,,,/muse/elements/blink\n"
    "2021-04-05 15:48:04.842,,824.7,1009.3,2.1,1,99.00\n"
)


@pytest.fixture
def session(tmp_path):
    (tmp_path / "mm.csv").write_text(HEADER + ROWS)
    return tmp_path / "mm.csv"


def convert(path, out, stream, **options):
    settings = TextOptions(**options)
    (claim,) = muse.claim("", [path.name], path.parent)
    schema = muse.probe(claim, path.parent, settings)[stream]
    target = out / f"{stream}.parquet"
    facts = muse.write(
        claim, path.parent, stream, schema, tables.Target(target, "P"), options=settings
    )
    return facts, pq.read_table(target)


def test_streams_are_the_kinds_of_columns(session):
    (claim,) = muse.claim("", [session.name], session.parent)
    streams = muse.streams(claim, session.parent, TextOptions())
    assert streams == ("bands", "eeg", "motion", "status", "elements")


@pytest.mark.parametrize("text", ["", "TimeStamp,a\n2021-04-05 15:48:04.8,1\n", "Delta_TP9\n1\n"])
def test_claim_leaves_other_tables(tmp_path, text):
    (tmp_path / "x.csv").write_text(text)
    assert muse.claim("", ["x.csv"], tmp_path) == []


def test_samples_come_without_happenings(session, tmp_path):
    facts, table = convert(session, tmp_path, "eeg")
    assert table.column_names[2:] == ["RAW_TP9", "AUX_RIGHT"]
    assert table["RAW_TP9"].to_pylist() == [832.4, 829.2, 824.7]
    assert [t.total_seconds() for t in table["time"].to_pylist()] == [0, 0.004, 0.008]
    assert (facts.rows, facts.n_rejected, facts.absolute) == (3, 0, False)


def test_missing_band_leaves_its_row_to_the_others(session, tmp_path):
    _, bands = convert(session, tmp_path, "bands")
    _, status = convert(session, tmp_path, "status")
    assert bands["Delta_TP9"].to_pylist() == [0.5, 0.5]
    assert status["Battery"].to_pylist() == [100, 100, 99]


def test_happenings_are_an_irregular_stream_of_text(session, tmp_path):
    facts, table = convert(session, tmp_path, "elements")
    assert table["Elements"].to_pylist()[1] == "/muse/elements/blink"
    assert (facts.rate_hz, facts.rows) == (None, 2)
    stream = muse.read_stream(session, TextOptions(), "e", stream="elements")
    assert (stream.kind, stream.n_samples, stream.channels) == ("events", 2, ())


def test_zone_makes_local_time_unix_time(session, tmp_path):
    local, _ = convert(session, tmp_path, "eeg")
    assert "--tz ZONE" in local.notes[0]
    known, _ = convert(session, tmp_path, "eeg", tz="Europe/Berlin")
    assert (known.absolute, known.start_ns) == (True, 1_617_630_484_834_000_000)
    assert known.notes == ()


@pytest.mark.parametrize(
    ("stream", "channel", "unit"),
    [("eeg", "RAW_TP9", "uV"), ("bands", "Delta_TP9", "B"), ("motion", "Gyro_X", "deg/s")],
)
def test_units_are_known(session, stream, channel, unit):
    (claim,) = muse.claim("", [session.name], session.parent)
    schema = muse.probe(claim, session.parent, TextOptions())[stream]
    assert {column.name: column.unit for column in schema.columns}[channel] == unit


def test_model_comes_without_the_address(session):
    assert muse.device(session) == "MuseS"


def test_short_row_is_a_located_error(session, tmp_path):
    session.write_text(HEADER + ROWS + "2021-04-05 15:48:04.850,0.5,1\n")
    with pytest.raises(DataError, match=r"mm\.csv:7: 3 cells, expected 8"):
        convert(session, tmp_path, "eeg")


def test_bad_value_is_a_located_error(session, tmp_path):
    session.write_text(HEADER + ROWS.replace("829.2", "oops"))
    with pytest.raises(DataError, match=r"mm\.csv:4: RAW_TP9 is 'oops', expected float64"):
        convert(session, tmp_path, "eeg")


def test_unknown_stream_names_the_known_ones(session):
    with pytest.raises(UsageError, match="no stream 'ppg'") as raised:
        muse.read_stream(session, TextOptions(), "x", stream="ppg")
    assert "bands, eeg" in raised.value.hint


def test_real_recording_matches_an_independent_reading(shared, tmp_path):
    path = shared("muse/mind_monitor_a.csv")
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["RAW_TP9"]]
    _, table = convert(path, tmp_path, "eeg", tz="UTC")
    for name in table.column_names[2:]:
        assert table[name].to_pylist() == [float(row[name]) for row in rows]
    stamps = [datetime.fromisoformat(f"{row['TimeStamp']}+00:00").timestamp() for row in rows]
    assert np.allclose(np.array(table["time"].cast("int64")) / 1e9, stamps, atol=1e-4)
    assert len(rows) == 258


def packets(rate_hz, jitter_ms=5):
    """Write rows in packets of twelve, a millisecond apart."""
    rng = np.random.default_rng(2)
    rows = [HEADER]
    for k in range(60):
        late = rng.integers(0, jitter_ms)
        for j in range(12):
            ms = round(k * 12000 / rate_hz) + late + j
            stamp = f"2021-04-05 15:48:{ms // 1000:02d}.{ms % 1000:03d}"
            rows.append(f"{stamp},0.5,832.4,844.1,2.9,1,100.00,\n")
    return "".join(rows)


@pytest.mark.parametrize("rate_hz", [256, 220])
def test_packets_come_at_the_rate_of_the_device(tmp_path, rate_hz):
    (tmp_path / "mm.csv").write_text(packets(rate_hz))
    for stream in ("eeg", "bands"):
        facts, _ = convert(tmp_path / "mm.csv", tmp_path, stream)
        assert facts.rate_hz == rate_hz
        assert f"rate taken as {rate_hz} Hz, the device's; --rate says otherwise" in facts.notes


def test_rate_of_packets_is_what_the_user_says(tmp_path):
    (tmp_path / "mm.csv").write_text(packets(256))
    facts, _ = convert(tmp_path / "mm.csv", tmp_path, "eeg", rate_hz=Fraction(250))
    assert facts.rate_hz == 250
    assert not any("device" in note for note in facts.notes)
