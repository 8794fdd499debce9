"""Biovotion Everion: long rows become one row a count."""

from __future__ import annotations

import math

import pyarrow.parquet as pq
import pytest

from mmprep import tables
from mmprep.errors import DataError
from mmprep.sources import everion
from mmprep.sources.base import TextOptions

HEADER = "count,streamType,tag,time,values\n"
T = 1_551_454_798
SIGNALS = (
    HEADER
    + f"12,2,6,{T + 2},65.0;85.0\n12,2,19,{T + 2},32.69\n"
    + f"13,2,6,{T + 3},66.0;86.0\n13,2,19,{T + 3},32.7\n"
    + f"10,2,6,{T},64.0;84.0\n10,2,120,{T},1.5\n"
)


def claims(folder):
    return everion.claim("", [path.name for path in folder.iterdir()], folder)


def convert(folder, stream, **options):
    settings, target = TextOptions(**options), folder / f"{stream}.parquet"
    (claim,) = claims(folder)
    schema = everion.probe(claim, folder, settings)[stream]
    facts = everion.write(
        claim, folder, stream, schema, tables.Target(target, "s"), options=settings
    )
    return facts, tables.read_stream(target, stream)


def sensors(rows):
    return HEADER + "".join(f"{count},16,84,{T + second},{count}.0\n" for count, second in rows)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "CsvData_signals_EV-00.csv").write_text(SIGNALS)
    return tmp_path


def test_claim_names_streams_by_type_and_not_by_file(folder):
    (folder / "other.csv").write_text(HEADER + f"5,6,128,{T},65295.0\n")
    (folder / "plain.csv").write_text("count,time\n1,2\n")
    (claim,) = claims(folder)
    assert claim.files == ("CsvData_signals_EV-00.csv", "other.csv")
    assert set(everion.probe(claim, folder, TextOptions())) == {"signals", "events"}


def test_rows_of_one_count_become_one_row_in_the_order_of_time(folder):
    facts, stream = convert(folder, "signals")
    assert stream.stamps_ns.tolist() == [(T + s) * 10**9 for s in (0, 2, 3)]
    assert stream.channels == (
        "count",
        "heart_rate",
        "heart_rate_quality",
        "temperature_local",
        "tag_120",
    )
    assert stream.data[:, 1].tolist() == [64.0, 65.0, 66.0]
    assert stream.data[:, 2].tolist() == [84.0, 85.0, 86.0]
    assert math.isnan(stream.data[0, 3])
    assert (facts.absolute, facts.rows) == (True, 3)


def test_missing_counts_are_said(folder):
    assert convert(folder, "signals")[0].notes == ("1 counts are missing in 1 places",)


def test_row_that_was_sent_twice_is_kept_once(folder):
    (folder / "CsvData_signals_EV-00.csv").write_text(SIGNALS + f"13,2,19,{T + 3},32.7\n")
    facts, _ = convert(folder, "signals")
    assert (facts.rows, facts.notes[0]) == (3, "1 rows were sent twice and kept once")


def test_two_values_of_one_count_give_two_rows(folder):
    (folder / "CsvData_signals_EV-00.csv").write_text(SIGNALS + f"13,2,19,{T + 3},40.0\n")
    _, stream = convert(folder, "signals")
    assert stream.stamps_ns.tolist()[-2:] == [(T + 3) * 10**9] * 2
    assert stream.data[-2:, 3].tolist() == [32.7, 40.0]


def test_sensors_are_spread_over_their_second_by_count(tmp_path):
    full = [(4 * second + k, second) for second in (1, 2) for k in range(4)]
    cut = [(2, 0), (3, 0)]
    (tmp_path / "x.csv").write_text(sensors(full + cut))
    facts, stream = convert(tmp_path, "sensors")
    assert stream.stamps_ns.tolist() == [T * 10**9 + k * 250_000_000 for k in range(2, 12)]
    assert facts.rate_hz == 4


def test_lost_sensor_row_leaves_a_hole(tmp_path):
    rows = [(8 * second + k, second) for second in range(3) for k in range(8)]
    (tmp_path / "x.csv").write_text(sensors([row for row in rows if row[0] != 11]))
    facts, stream = convert(tmp_path, "sensors")
    assert stream.stamps_ns.tolist() == [T * 10**9 + k * 125_000_000 for k in range(24) if k != 11]
    assert facts.notes == ("1 counts are missing in 1 places",)


def test_beats_carry_their_deviation(tmp_path):
    (tmp_path / "f.csv").write_text(HEADER + f"8,4,14,{T},907.0;11.0\n9,4,14,{T},856.0;12.0\n")
    facts, stream = convert(tmp_path, "features")
    assert stream.channels[2] == "inter_pulse_interval_deviation"
    assert stream.stamps_ns.tolist() == [T * 10**9, T * 10**9 + 500_000_000]
    assert facts.rate_hz is None


def test_bad_value_is_a_located_error(folder):
    (folder / "CsvData_signals_EV-00.csv").write_text(SIGNALS + f"14,2,6,{T + 4},65;x\n")
    with pytest.raises(DataError, match=r"EV-00\.csv:8: values is '65;x', expected a number"):
        convert(folder, "signals")


def test_skipped_rows_are_named_with_their_lines(folder):
    bad = f"cut\n14,2,6,{T + 4},65;x\n"
    (folder / "CsvData_signals_EV-00.csv").write_text(SIGNALS + bad)
    facts, stream = convert(folder, "signals", on_bad_row="skip")
    lines = facts.rejects.read_text().splitlines()
    assert [line.split("\t")[0] for line in lines] == ["line", "8", "9"]
    assert (facts.n_rejected, stream.n_samples) == (2, 3)


@pytest.mark.parametrize(
    ("stream", "name"),
    [
        ("signals", "CsvData_signals_EV-EC39-7079-57A8.csv"),
        ("events", "CsvData_everion_events_EV-EC39-7079-57A8.csv"),
    ],
)
def test_real_file_equals_plain_reading(shared, tmp_path, stream, name):
    folder = shared("everion")
    (claim,) = everion.claim("", [path.name for path in folder.iterdir()], folder)
    schema = everion.probe(claim, folder, TextOptions())[stream]
    target = tmp_path / "t.parquet"
    everion.write(claim, folder, stream, schema, tables.Target(target, "s"), options=TextOptions())
    table = pq.read_table(target)
    direct = everion.read_stream(folder / name, TextOptions(), stream)
    assert slow(folder / name) == long(table)
    assert direct.stamps_ns.tolist() == table.column("time").cast("int64").to_pylist()
    assert direct.stamps_ns.tolist() == sorted(direct.stamps_ns.tolist())


def slow(path):
    """List (count, time, tag, value, quality) of the distinct rows of a file."""
    found = set()
    for line in path.read_text().splitlines()[1:]:
        count, _, tag, time, values = line.split(",")
        value, _, quality = values.partition(";")
        cells = (float(value), float(quality) if quality else None)
        found.add((int(count), int(time), int(tag), *cells))
    return found


def long(table):
    """List the same of a table."""
    found, tags = set(), {}
    for field in list(table.schema)[3:]:
        tags.setdefault(int(field.metadata[b"source_name"]), []).append(field.name)
    for row in table.to_pylist():
        for tag, names in tags.items():
            cells = [row[name] for name in names]
            if cells[0] is not None:
                quality = cells[1] if len(cells) > 1 else None
                time = row["time"].value // 10**9
                found.add((row["count"], time, tag, cells[0], quality))
    return found
