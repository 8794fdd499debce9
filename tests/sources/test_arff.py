"""ARFF: attributes, then rows with commas; `?` is missing."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow.parquet as pq
import pytest

from mmprep import tables
from mmprep.errors import DataError, UsageError
from mmprep.sources import arff
from mmprep.sources.base import TextOptions

HEAD = """% made by hand
@RELATION eeg

@ATTRIBUTE AF3 NUMERIC
@attribute 'O 2 [uV]' real
@ATTRIBUTE eye {0,1}
@ATTRIBUTE note STRING

@DATA
"""
ROWS = "4329.23,1.5,0,'a, b'\n% a gap\n4324.62,?,1,?\n\n4327,2,1,c\n"


@pytest.fixture
def path(tmp_path):
    (tmp_path / "x.arff").write_text(HEAD + ROWS)
    return tmp_path / "x.arff"


def convert(path, **options):
    settings, target = TextOptions(**options), tables.Target(path.with_suffix(".parquet"), "s")
    (claim,) = arff.claim("", [path.name], path.parent)
    schema = arff.probe(claim, path.parent, settings)[claim.stem]
    facts = arff.write(claim, path.parent, claim.stem, schema, target, options=settings)
    return facts, pq.read_table(target.path)


def test_rows_come_at_the_rate_with_names_and_units_of_the_header(path):
    facts, table = convert(path, rate_hz=Fraction(128))
    assert table.column_names[2:] == ["AF3", "O 2 [uV]", "eye", "note"]
    assert table.schema.field("O 2 [uV]").metadata[b"unit"] == b"uV"
    assert table.column("time").cast("int64").to_pylist() == [0, 7_812_500, 15_625_000]
    assert (facts.rate_hz, facts.rows) == (128, 3)


def test_classes_of_digits_are_integers_and_question_marks_are_missing(path):
    _, table = convert(path, rate_hz=Fraction(1))
    assert table.column("AF3").to_pylist() == [4329.23, 4324.62, 4327]
    assert table.column("O 2 [uV]").to_pylist() == [1.5, None, 2]
    assert table.column("eye").to_pylist() == [0, 1, 1]
    assert table.column("note").to_pylist() == ["a, b", None, "c"]


def test_time_column_gives_the_times(tmp_path):
    path = tmp_path / "x.arff"
    path.write_text("@attribute t_ms integer\n@attribute x real\n@data\n5,1\n15,2\n")
    facts, table = convert(path)
    assert table.column("time").cast("int64").to_pylist() == [0, 10_000_000]
    assert (facts.start_ns, facts.rate_hz) == (5_000_000, 100)


def test_rows_without_time_ask_for_it(path):
    with pytest.raises(DataError, match="no time column among AF3, O 2") as caught:
        convert(path)
    assert "--rate" in caught.value.hint
    with pytest.raises(UsageError, match="no column 'when'"):
        convert(path, time="when")


def test_text_in_a_numeric_column_is_a_bad_row(path):
    path.write_text(path.read_text().replace("4324.62", "oops"))
    with pytest.raises(DataError, match=r"x\.arff:12: AF3 is 'oops', expected float64"):
        convert(path, rate_hz=Fraction(1))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("@attribute a real\n", "no line @DATA"),
        ("@attribute a real\n@attribute a real\n@data\n", "the header names 'a' 2 times"),
        ("@attribute a real\n@data\n{0 1.5}\n", "sparse rows are not read"),
    ],
)
def test_what_is_not_read_is_said(tmp_path, content, said):
    path = tmp_path / "x.arff"
    path.write_text(content)
    with pytest.raises(DataError, match=f"x.arff: {said}"):
        convert(path, rate_hz=Fraction(1))


def test_file_without_attributes_is_none_of_ours(tmp_path):
    (tmp_path / "x.arff").write_text("a,b\n1,2\n")
    assert arff.claim("", ["x.arff"], tmp_path) == []
    with pytest.raises(DataError, match="no line @DATA"):
        arff.read_stream(tmp_path / "x.arff", TextOptions(), "x")


def test_real_recording_equals_that_of_scipy(shared):
    loaded = pytest.importorskip("scipy.io.arff").loadarff
    path = shared("emotiv/EEG_Eye_State_a.arff")
    rows, _ = loaded(path)
    stream = arff.read_stream(path, TextOptions(rate_hz=Fraction(128)), "eeg")
    known = np.array([[float(cell) for cell in row] for row in rows.tolist()])
    assert np.array_equal(stream.data, known)
    assert stream.nominal_rate_hz == 128
