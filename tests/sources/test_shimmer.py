"""Shimmer Consensys: separator line, names, units, E notation, delimiters at line ends."""

from __future__ import annotations

import csv
import gzip
from decimal import Decimal
from fractions import Fraction

import pyarrow.parquet as pq
import pytest

from mmprep import tables
from mmprep.errors import DataError
from mmprep.sources import shimmer
from mmprep.sources.base import TextOptions

HEAD = (
    '"sep=;"\r\nDev_40AC_Timestamp_Unix_CAL;Dev_40AC_GSR_Skin_Conductance_CAL;'
    "Dev_40AC_Accel_LN_X_UNCAL;\r\nms;uS;no_units;\r\n"
)
ROWS = "1.595933810034E12;2.5;-7.0;\r\n1.595933810053531E12;2.25;8.0;\r\n"


def recording(folder, text, name="gsr.csv"):
    (folder / name).write_bytes(text.encode())
    return folder / name


def claimed(path):
    return shimmer.claim("", [path.name], path.parent)


def convert(path, out, stream=None, **options):
    settings = TextOptions(**options)
    (claim,) = claimed(path)
    schemas = shimmer.probe(claim, path.parent, settings)
    stream = stream or next(iter(schemas))
    target = out / f"{stream}.parquet"
    facts = shimmer.write(
        claim, path.parent, stream, schemas[stream], tables.Target(target, "P01"), options=settings
    )
    return facts, pq.read_table(target)


def independent(path):
    """Read stamps (exact, ns) and values by hand."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", newline="") as file:
        sep = file.readline().strip().strip('"').removeprefix("sep=")
        rows = list(csv.reader(file, delimiter=sep or "\t"))[2:]
    n_cells = max(i for i, cell in enumerate(rows[0]) if cell) + 1
    stamps = [int((Decimal(row[0]) * 1_000_000).to_integral_value()) for row in rows]
    return stamps, [[float(cell) for cell in row[1:n_cells]] for row in rows]


def test_claim_knows_the_header_not_the_name(tmp_path):
    path = recording(tmp_path, HEAD + ROWS)
    (claim,) = claimed(path)
    assert (claim.id_path, claim.suffix, claim.stem) == ("gsr.csv", ".csv", "gsr")
    assert shimmer.streams(claim, tmp_path, TextOptions()) == ("gsr",)


@pytest.mark.parametrize(
    "text",
    ["", "sep=;\n", "time;a\n0;1\n1;2\n2;3\n", '"sep=;"\nDev_Timestamp_Unix_CAL;a;\n0;1;\n1;2;\n'],
)
def test_claim_leaves_other_tables(tmp_path, text):
    assert claimed(recording(tmp_path, text)) == []


def test_separator_line_may_be_absent(tmp_path):
    path = recording(tmp_path, HEAD.partition("\r\n")[2].replace(";", ",") + ROWS.replace(";", ","))
    _, table = convert(path, tmp_path)
    assert table.num_rows == 2


def test_names_lose_the_device_and_units_are_kept(tmp_path):
    _, table = convert(recording(tmp_path, HEAD + ROWS), tmp_path)
    assert table.column_names[2:] == ["GSR_Skin_Conductance_CAL", "Accel_LN_X_UNCAL"]
    assert table.schema.field(2).metadata[b"unit"] == b"uS"
    assert b"unit" not in table.schema.field(3).metadata
    assert b"40AC" not in (tmp_path / "gsr.parquet").read_bytes()


def test_stamps_in_e_notation_are_exact(tmp_path):
    facts, _ = convert(recording(tmp_path, HEAD + ROWS), tmp_path)
    assert (facts.start_ns, facts.end_ns) == (1595933810034_000_000, 1595933810053_531_000)
    assert facts.absolute


def test_line_without_its_last_delimiter_is_whole(tmp_path):
    path = recording(tmp_path, HEAD + ROWS.replace("8.0;", "8.0"))
    facts, table = convert(path, tmp_path)
    assert table["Accel_LN_X_UNCAL"].to_pylist() == [-7.0, 8.0]
    assert facts.n_rejected == 0


def test_short_line_is_a_located_error(tmp_path):
    path = recording(tmp_path, HEAD + ROWS + "1.595933810073E12;2.0\r\n")
    with pytest.raises(DataError, match=r"gsr\.csv:6: 2 cells, expected 4") as raised:
        convert(path, tmp_path)
    assert "--on-bad-row skip" in raised.value.hint


def test_missing_value_where_lines_end_without_delimiter_is_an_error(tmp_path):
    text = (HEAD + ROWS).replace(";\r\n", "\r\n") + "1.595933810073E12;2.0\r\n"
    with pytest.raises(DataError, match=r"gsr\.csv:6: 2 cells, expected 3"):
        convert(recording(tmp_path, text), tmp_path)


def test_rate_is_a_whole_division_of_the_crystal(tmp_path):
    rows = "".join(f"{1595933810000 + k * 1000 * 448 / 32768:.6f};1;1;\r\n" for k in range(50))
    facts, _ = convert(recording(tmp_path, HEAD + rows), tmp_path)
    assert facts.rate_hz == Fraction(512, 7)


def formatted():
    text = HEAD.replace("Timestamp_Unix", "Timestamp_FormattedUnix")
    text = text.replace("\r\nms;", "\r\nyyyy/mm/dd hh:mm:ss.000;")
    return text + "2020/10/27 09:30:00.125;2.5;1;\r\n2020/10/27 09:30:00.250;2.5;1;\r\n"


def test_formatted_time_is_local_and_kept_as_duration(tmp_path):
    facts, table = convert(recording(tmp_path, formatted()), tmp_path)
    assert not facts.absolute
    assert [t.total_seconds() for t in table["time"].to_pylist()] == [0, 0.125]
    assert "--tz ZONE" in facts.notes[0]


def test_formatted_time_with_its_zone_is_unix_time(tmp_path):
    facts, _ = convert(recording(tmp_path, formatted()), tmp_path, tz="Asia/Tokyo")
    assert (facts.absolute, facts.start_ns) == (True, 1_603_758_600_125_000_000)


def test_two_devices_in_one_file_are_two_streams(tmp_path):
    text = (
        '"sep=,"\nA_Timestamp_Unix_CAL,A_ECG_CAL,B_Timestamp_Unix_CAL,B_GSR_CAL,\n'
        "ms,mV,ms,uS,\n1595933810000,1,1595933810500,7,\n1595933810010,2,1595933810600,8,\n"
    )
    path = recording(tmp_path, text)
    facts, table = convert(path, tmp_path, "B")
    assert shimmer.streams(claimed(path)[0], tmp_path, TextOptions()) == ("A", "B")
    assert (table.column_names[2:], table["GSR_CAL"].to_pylist()) == (["GSR_CAL"], [7, 8])
    assert facts.start_ns == 1595933810500_000_000


def test_stream_reads_as_the_table(tmp_path):
    path = recording(tmp_path, HEAD + ROWS)
    convert(path, tmp_path)
    stream = shimmer.read_stream(path, TextOptions(), "gsr")
    table = tables.read_stream(tmp_path / "gsr.parquet", "gsr")
    assert stream.stamps_ns.tolist() == table.stamps_ns.tolist()
    assert stream.data.tolist() == table.data.tolist()
    assert stream.units == ("uS", None)


@pytest.mark.parametrize(
    ("name", "rate_hz"),
    [
        ("shimmer3_consensys_semicolon.csv", None),
        ("consensys_ecg_tab_calibrated.csv.gz", 512),
        ("consensys_ppg_tab.csv", Fraction(32768, 65)),
        ("consensys_triaxcal_comma_uncal.csv.gz", Fraction(32768, 448)),
    ],
)
def test_real_recordings_match_an_independent_reading(shared, tmp_path, name, rate_hz):
    path = shared(f"shimmer/{name}")
    facts, table = convert(path, tmp_path)
    stamps, values = independent(path)
    assert table["time"].cast("int64").to_pylist() == stamps
    for index, channel in enumerate(table.column_names[2:]):
        assert table[channel].to_pylist() == [row[index] for row in values]
    assert facts.rate_hz == rate_hz
