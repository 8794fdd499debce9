"""OpenSignals text: counter as clock, local start, several devices; BioSPPy's simple text."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from mmprep import align, tables
from mmprep.errors import DataError, UsageError
from mmprep.sources import opensignals
from mmprep.sources.base import LOCAL_NOTE, TextOptions

MAC = "20:16:02:26:60:88"
BITALINO = {
    "sensor": ["RAW", "EDA"],
    "device name": MAC,
    "column": ["nSeq", "I1", "A1", "A2"],
    "time": "7:6:40.879",
    "date": "2016-6-11",
    "device": "bitalino_rev",
    "sampling rate": 100,
    "label": ["A1", "A2"],
    "resolution": [4, 1, 10, 10],
}
RESPIBAN = {
    "sensor": ["ECG", "EDA", "XYZ", "XYZ"],
    "device name": "RespiBan",
    "column": ["nSeq", "DI", "CH1", "CH2", "CH3", "CH4"],
    "time": "9:39:1.0",
    "date": "2017-5-22",
    "device": "biosignalsplux",
    "sampling rate": 700,
    "label": ["CH1", "CH2", "CH3", "CH4"],
    "resolution": [16, 16, 16, 16],
}


def recording(folder, devices, rows, name="chest.txt"):
    head = f"# OpenSignals Text File Format\n# {json.dumps(devices)}\n# EndOfHeader\n"
    lines = ("\t".join(map(str, row)) + "\t\n" for row in rows)
    (folder / name).write_text(head + "".join(lines))
    return folder / name


def bitalino(folder, kept):
    return recording(folder, {MAC: BITALINO}, [(k % 16, 0, k, 2 * k) for k in kept])


def convert(path, out, stream=None, **options):
    settings = TextOptions(**options)
    (claim,) = opensignals.claim("", [path.name], path.parent)
    schemas = opensignals.probe(claim, path.parent, settings)
    stream = stream or next(iter(schemas))
    target = out / f"{stream}.parquet"
    facts = opensignals.write(
        claim, path.parent, stream, schemas[stream], tables.Target(target, "S2"), options=settings
    )
    return facts, pq.read_table(target)


def milliseconds(table):
    return (np.array(table["time"].cast("int64")) // 1_000_000).tolist()


def test_claim_knows_the_first_line(tmp_path):
    bitalino(tmp_path, range(3))
    (tmp_path / "notes.txt").write_text("OpenSignals was used\n")
    (tmp_path / "empty.txt").write_text("")
    names = sorted(path.name for path in tmp_path.iterdir())
    (claim,) = opensignals.claim("", names, tmp_path)
    assert (claim.id_path, opensignals.streams(claim, tmp_path, TextOptions())) == (
        "chest.txt",
        ("chest",),
    )


def test_rows_follow_the_rate(tmp_path):
    facts, table = convert(bitalino(tmp_path, range(40)), tmp_path)
    assert milliseconds(table) == [10 * k for k in range(40)]
    assert (facts.rate_hz, facts.rows, facts.absolute) == (100, 40, False)


def test_lost_packets_are_gaps(tmp_path):
    kept = [*range(10), *range(13, 30), *range(45, 60)]
    facts, table = convert(bitalino(tmp_path, kept), tmp_path)
    assert milliseconds(table) == [10 * k for k in kept]
    assert "at least 18 packets lost in 2 places" in " ".join(facts.notes)


def test_gaps_are_those_that_align_sees(tmp_path):
    path = bitalino(tmp_path, [*range(100), *range(113, 300)])
    stream = opensignals.read_stream(path, TextOptions(), "chest")
    repaired = align.repair(stream, stream.stamps_ns)
    assert (repaired.n_gaps, repaired.n_samples) == (1, 287)


def test_first_counter_is_where_the_recording_starts(tmp_path):
    _, table = convert(bitalino(tmp_path, range(5, 25)), tmp_path)
    assert milliseconds(table)[:3] == [0, 10, 20]


def test_start_is_local_until_its_zone_is_said(tmp_path):
    path = bitalino(tmp_path, range(3))
    local, _ = convert(path, tmp_path)
    assert local.notes == (LOCAL_NOTE,)
    known, table = convert(path, tmp_path, tz="Europe/Lisbon")
    assert (known.absolute, known.start_ns) == (True, 1_465_625_200_879_000_000)
    assert known.notes == ()
    assert str(table.schema.field("time").type) == "timestamp[ns, tz=UTC]"


def test_respiban_of_wesad_is_named_by_its_sensors(tmp_path):
    path = recording(tmp_path, {MAC: RESPIBAN}, [(k, 0, 1, 2, 3, 4) for k in range(1401)])
    facts, table = convert(path, tmp_path, tz="Europe/Berlin")
    assert table.column_names[2:] == ["nSeq", "DI", "ECG", "EDA", "XYZ_CH3", "XYZ_CH4"]
    assert table.schema.field("ECG").metadata[b"source_name"] == b"CH1"
    assert (facts.rate_hz, facts.start_ns) == (700, 1_495_438_741_000_000_000)
    assert facts.end_ns - facts.start_ns == 2_000_000_000
    assert opensignals.device(path) == "biosignalsplux"


def test_address_of_the_device_is_left_out(tmp_path):
    convert(bitalino(tmp_path, range(3)), tmp_path)
    assert MAC.encode() not in (tmp_path / "chest.parquet").read_bytes()


def test_sixteen_bit_counter_wraps(tmp_path):
    kept = [k for k in range(65_500, 65_600) if k != 65_560]
    rows = [(k % 65_536, 0, 1, 2, 3, 4) for k in kept]
    facts, table = convert(recording(tmp_path, {MAC: RESPIBAN}, rows), tmp_path)
    assert np.diff(np.array(table["time"].cast("int64"))).max() // 1000 == 2_857
    assert "at least 1 packets lost" in " ".join(facts.notes)


def test_two_devices_are_two_streams(tmp_path):
    rows = [(k % 16, 0, k, 7, k, 0, 1, 2, 3, 4) for k in range(20) if k != 9]
    path = recording(tmp_path, {"a": BITALINO, "b": RESPIBAN}, rows)
    (claim,) = opensignals.claim("", [path.name], tmp_path)
    assert opensignals.streams(claim, tmp_path, TextOptions()) == (
        "bitalino_rev_1",
        "biosignalsplux_2",
    )
    facts, table = convert(path, tmp_path, "biosignalsplux_2")
    assert table.column_names[2:] == ["nSeq", "DI", "ECG", "EDA", "XYZ_CH3", "XYZ_CH4"]
    assert (table["XYZ_CH4"].to_pylist()[0], facts.rate_hz) == (4, 700)
    _, table = convert(path, tmp_path, "bitalino_rev_1")
    assert table.column_names[2:] == ["nSeq", "I1", "A1", "EDA"]
    with pytest.raises(UsageError, match="several streams"):
        opensignals.read_stream(path, TextOptions(), "x")


def test_bad_value_is_a_located_error(tmp_path):
    path = bitalino(tmp_path, range(3))
    path.write_text(path.read_text() + "3\t0\tx\t6\t\n")
    with pytest.raises(DataError, match=r"chest\.txt:7: A1 is 'x'"):
        convert(path, tmp_path)


def test_header_that_is_no_json_is_a_located_error(tmp_path):
    path = bitalino(tmp_path, range(3))
    path.write_text(path.read_text().replace('{"', "{", 1))
    with pytest.raises(DataError, match=r"chest\.txt:2: the header of OpenSignals can't be read"):
        convert(path, tmp_path)


def test_header_without_columns_is_a_located_error(tmp_path):
    path = recording(tmp_path, {MAC: {"sampling rate": 1000}}, [(0, 1)])
    with pytest.raises(DataError, match=r"chest\.txt:2: .* KeyError 'column'"):
        convert(path, tmp_path)


def test_rows_wider_than_the_header_are_refused(tmp_path):
    path = recording(tmp_path, {MAC: BITALINO}, [(0, 1, 2, 3, 4)])
    with pytest.raises(DataError, match=r"chest\.txt:4: 5 cells, the header names 4 columns"):
        convert(path, tmp_path)


def test_simple_text_has_rate_and_labels(tmp_path):
    path = tmp_path / "eda.txt"
    path.write_text("# Simple Text Format\n# Sampling Rate (Hz):= 250.00\n# Labels:= EDA\n2.5\n3\n")
    facts, table = convert(path, tmp_path)
    assert (table.column_names[2:], milliseconds(table)) == (["EDA"], [0, 4])
    assert (facts.rate_hz, facts.absolute) == (250, False)


@pytest.mark.parametrize("name", ["SampleACC", "SampleEDA"])
def test_real_recordings_match_an_independent_reading(shared, tmp_path, name):
    path = shared(f"opensignals/{name}.txt")
    facts, table = convert(path, tmp_path)
    values = np.loadtxt(path, dtype=np.int64)
    assert np.array_equal(np.stack([table[n] for n in table.column_names[2:]], axis=1), values)
    assert milliseconds(table) == list(range(len(values)))
    assert (facts.notes, facts.rate_hz) == ((LOCAL_NOTE,), 1000)


def test_real_simple_text_matches_an_independent_reading(shared, tmp_path):
    path = shared("opensignals/biosppy_simple_eda_first20000.txt")
    _, table = convert(path, tmp_path)
    assert np.array_equal(np.array(table["EDA"]), np.loadtxt(path))


def test_real_recording_with_packets_taken_out_keeps_its_time(shared, tmp_path):
    whole = shared("opensignals/SampleEDA.txt").read_text().split("\n")
    path = tmp_path / "eda.txt"
    path.write_text("\n".join([*whole[:1000], *whole[1009:5000], *whole[5001:]]))
    facts, table = convert(path, tmp_path)
    assert milliseconds(table) == [*range(997), *range(1006, 4997), *range(4998, 33150)]
    assert "at least 10 packets lost in 2 places" in " ".join(facts.notes)
    assert tables.read_stream(tmp_path / "eda.parquet", "eda").n_samples == 33140
