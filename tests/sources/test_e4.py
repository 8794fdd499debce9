"""Empatica E4 sessions: every stream on its own absolute time."""

from __future__ import annotations

import json
from datetime import datetime
from fractions import Fraction

import numpy as np
import pyarrow.parquet as pq
import pytest

from mmprep import tables
from mmprep.errors import DataError, UsageError
from mmprep.sources import e4
from mmprep.sources.base import TextOptions

START_NS = 1_560_279_825_000_000_000
SESSION = {
    "EDA.csv": "1560279825.000000\r\n4.000000\r\n0.000000\r\n0.247297\r\n",
    "HR.csv": "1560279835.00\n1.000000\n88.00\n",
    "ACC.csv": "1560279825.000000, 1560279825.000000, 1560279825.000000\n"
    "32.000000, 32.000000, 32.000000\n-1,65,5\n0,64,-3\n",
    "IBI.csv": "1560279825.000000, IBI\n83.503822,0.609403\n84.1,0.6\n",
    "tags.csv": "1560279837.34\n",
    "info.txt": ".csv files in this archive\n",
}


@pytest.fixture
def session(tmp_path):
    for name, content in SESSION.items():
        (tmp_path / name).write_bytes(content.encode())
    return tmp_path


def names(folder):
    return [path.name for path in folder.iterdir()]


def claimed(folder):
    (claim,) = e4.claim("", names(folder), folder)
    return claim


def convert(folder, stream, out, **options):
    settings = TextOptions(**options)
    claim = claimed(folder)
    schema = e4.probe(claim, folder, settings)[stream]
    target = out / f"{stream}.parquet"
    return e4.write(
        claim, folder, stream, schema, tables.Target(target, "S2"), options=settings
    ), target


def test_claim_is_the_whole_folder_without_the_info(session):
    assert claimed(session).files == ("ACC.csv", "EDA.csv", "HR.csv", "IBI.csv", "tags.csv")


def test_claim_of_a_folder_below_the_root_names_it(session):
    (claim,) = e4.claim(session.name, names(session), session.parent)
    assert (claim.id_path, claim.suffix) == (session.name, "")
    assert claim.files[0] == f"{session.name}/ACC.csv"


def test_claim_leaves_files_with_another_header(tmp_path):
    (tmp_path / "EDA.csv").write_text("timestamp,pid,value\n1,2,3\n")
    (tmp_path / "tags.csv").write_text("")
    assert e4.claim("", names(tmp_path), tmp_path) == []


def test_samples_are_at_the_start_and_rate_of_their_own_file(session, tmp_path):
    eda, _ = convert(session, "EDA", tmp_path)
    hr, _ = convert(session, "HR", tmp_path)
    assert (eda.start_ns, eda.end_ns, eda.rate_hz) == (START_NS, START_NS + 250_000_000, 4)
    assert (hr.start_ns, hr.rate_hz, hr.absolute) == (START_NS + 10**10, 1, True)


def test_acceleration_has_three_integer_channels(session, tmp_path):
    _, target = convert(session, "ACC", tmp_path)
    table = pq.read_table(target)
    assert table.column_names[2:] == ["x", "y", "z"]
    assert table.column("z").to_pylist() == [5, -3]
    assert table.schema.field("x").metadata[b"unit"] == b"1/64 g"


def test_acceleration_with_decimals_is_read_as_it_is(session, tmp_path):
    (session / "ACC.csv").write_text("1560279825\n32\n-1,65,5\n0.5,64.25,-3\n")
    _, target = convert(session, "ACC", tmp_path)
    assert pq.read_table(target).column("y").to_pylist() == [65.0, 64.25]
    stream = e4.read_stream(session / "ACC.csv", TextOptions(), "ACC")
    assert stream.data.tolist() == [[-1.0, 65.0, 5.0], [0.5, 64.25, -3.0]]


def test_acceleration_of_text_is_a_located_error(session, tmp_path):
    (session / "ACC.csv").write_text("1560279825\n32\n-1,65,5\n0,oops,-3\n")
    with pytest.raises(DataError, match=r"ACC\.csv:4: y is 'oops'"):
        convert(session, "ACC", tmp_path)


def test_beats_count_from_the_start_of_their_own_file(session, tmp_path):
    facts, target = convert(session, "IBI", tmp_path)
    stream = tables.read_stream(target, "IBI")
    assert stream.stamps_ns.tolist() == [START_NS + 83_503_822_000, START_NS + 84_100_000_000]
    assert stream.data[:, 0].tolist() == [0.609403, 0.6]
    assert facts.rate_hz is None


def test_tags_are_absolute_events(session, tmp_path):
    facts, target = convert(session, "tags", tmp_path)
    stream = tables.read_stream(target, "tags")
    assert (facts.start_ns, stream.kind) == (1_560_279_837_340_000_000, "events")


def test_empty_tags_are_fine(session, tmp_path):
    (session / "tags.csv").write_text("")
    facts, _ = convert(session, "tags", tmp_path)
    assert (facts.rows, facts.start_ns) == (0, None)


@pytest.mark.parametrize(
    ("stream", "unit"), [("EDA", "uS"), ("HR", "bpm"), ("IBI", "s"), ("ACC", "1/64 g")]
)
def test_units_are_known(session, stream, unit):
    schema = e4.probe(claimed(session), session, TextOptions())[stream]
    assert {column.unit for column in schema.columns} == {unit}


def test_bad_value_is_a_located_error(session, tmp_path):
    (session / "EDA.csv").write_text("1560279825.0\n4.0\n0.1\noops\n")
    with pytest.raises(DataError, match=r"EDA\.csv:4: EDA is 'oops', expected float64"):
        convert(session, "EDA", tmp_path)


def test_skipped_row_leaves_the_others_at_their_time(session, tmp_path):
    (session / "EDA.csv").write_text("1560279825.0\n4.0\n0.1\noops\n0.3\n")
    facts, target = convert(session, "EDA", tmp_path, on_bad_row="skip")
    assert tables.read_stream(target, "EDA").stamps_ns.tolist() == [START_NS, START_NS + 5 * 10**8]
    assert facts.n_rejected == 1


def test_rate_of_zero_is_refused(session, tmp_path):
    (session / "EDA.csv").write_text("1560279825.0\n0.0\n0.1\n")
    with pytest.raises(DataError, match=r"EDA\.csv:2: a rate of 0\.0 Hz"):
        e4.read_stream(session / "EDA.csv", TextOptions(), "EDA")


def test_unknown_stream_is_refused(session, tmp_path):
    schema = e4.probe(claimed(session), session, TextOptions())["EDA"]
    with pytest.raises(UsageError, match="no stream 'BVP'"):
        e4.write(
            claimed(session),
            session,
            "BVP",
            schema,
            tables.Target(tmp_path / "o", "i"),
            options=TextOptions(),
        )


def test_night_of_the_clock_change_has_no_extra_hour(shared, tmp_path):
    folder, known = shared("made/B06/e4_session"), shared("made/B06") / "truth.json"
    truth = json.loads(known.read_text())
    start_ns = round(datetime.fromisoformat(truth["start_utc"]).timestamp()) * 10**9
    starts = {s: convert(folder, s, tmp_path)[0].start_ns for s in ("EDA", "HR", "tags")}
    tags = tables.read_stream(tmp_path / "tags.parquet", "tags").stamps_ns - start_ns
    assert starts["EDA"] == start_ns
    assert starts["HR"] - starts["EDA"] == truth["HR_starts_s_after_EDA"] * 10**9
    assert tags.tolist() == [round(s * 1000) * 10**6 for s in truth["tag_offsets_from_start_s"]]


@pytest.mark.parametrize(
    "name", ["e4/msr2023_session", "e4/devicely_session", "made/B06/e4_session"]
)
def test_every_value_of_a_session_equals_plain_reading(shared, tmp_path, name):
    folder = shared(name)
    for path in map(folder.joinpath, claimed(folder).files):
        facts, target = convert(folder, path.stem, tmp_path)
        stream = tables.read_stream(target, path.stem)
        direct = e4.read_stream(path, TextOptions(), path.stem)
        stamps, data = slow(path)
        assert stream.stamps_ns.tolist() == direct.stamps_ns.tolist() == stamps
        assert np.array_equal(stream.data, data)
        assert np.array_equal(direct.data, data)
        assert facts.rows == len(stamps)


def slow(path):
    """Read a file of a session with Python's own numbers."""
    rows = [line.split(",") for line in path.read_text().splitlines()]
    if path.stem == "tags":
        return [_ns(row[0]) for row in rows], np.zeros((len(rows), 0))
    start_ns = _ns(rows[0][0])
    if path.stem == "IBI":
        stamps = [start_ns + _ns(row[0]) for row in rows[1:]]
        return stamps, np.array([[float(row[1])] for row in rows[1:]])
    step_ns = 10**9 / Fraction(rows[1][0].strip())
    assert step_ns.denominator == 1
    stamps = [start_ns + k * step_ns.numerator for k in range(len(rows) - 2)]
    return stamps, np.array([[float(cell) for cell in row] for row in rows[2:]])


def _ns(text):
    return int(Fraction(text.strip()) * 10**9)
