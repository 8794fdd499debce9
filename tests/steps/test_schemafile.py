"""The schema file: what it may hold, what is refused, and where."""

from __future__ import annotations

import json
import re
from fractions import Fraction

import pytest

from mmprep.errors import DataError, UsageError
from mmprep.steps.intake import schemafile
from mmprep.tables import Column, Declared, TableSchema, TimeColumn
from tests.test_readme import README

EEG = TableSchema(
    (
        Column("F3", "float64", "F3 [uV]", "uV"),
        Column("n", "int64", "n"),
        Column("mark", "string", "Marke"),
        Column("spare", "null", "spare"),
    ),
    TimeColumn("ms", "size", absolute=True, source_name="stamp"),
)


@pytest.fixture
def read(tmp_path):
    def run(value):
        path = tmp_path / "s.json"
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return schemafile.read(str(path))

    return run


def test_what_is_written_is_read_back(read):
    text = schemafile.write({"eeg": EEG}, {"eeg": Fraction(30000, 1001)}).decode()
    spec = read(text)["eeg"]
    assert [(c.name, c.type, c.source_name, c.unit) for c in spec.columns] == [
        ("F3", "float64", "F3 [uV]", "uV"),
        ("n", "int64", "n", None),
        ("mark", "string", "Marke", None),
        ("spare", "float64", "spare", None),
    ]
    assert spec.rate_hz == "30000/1001"
    assert (spec.time.unit, spec.time.evidence, spec.time.absolute, spec.time.source_name) == (
        ("ms", "size", True, "stamp")
    )


def test_file_has_one_column_a_line_and_the_streams_sorted():
    lines = schemafile.write({"b": EEG, "a": EEG}, {}).decode().splitlines()
    assert lines[3] == '  "a": {'
    assert lines[6] == (
        '    {"name": "F3", "type": "float64", "source_name": "F3 [uV]", "unit": "uV"},'
    )


def test_names_alone_and_types_alone_are_enough(read):
    schema = read(
        {"streams": {"eeg": {"columns": [{"name": "a"}, {"name": "b", "type": "string"}]}}}
    )
    assert schema["eeg"].declared(looks_further=True) == Declared({"a": None, "b": "string"})


def test_judged_unit_is_none_that_holds(read):
    judged = read({"streams": {"x": {"time": {"unit": "ms", "evidence": "size"}}}})["x"]
    said = read({"streams": {"x": {"time": {"unit": "ms"}}}})["x"]
    assert judged.declared(looks_further=True).time_unit is None
    assert said.declared(looks_further=True).time_unit == "ms"


@pytest.mark.parametrize(
    ("value", "where", "what"),
    [
        ({"stream": {}}, "s.json", "unknown field 'stream'"),
        ({"streams": {"x": {"column": []}}}, "s.json: streams.x", "unknown field 'column'"),
        (
            {"streams": {"x": {"columns": [{"name": "a"}, {"name": "b", "tpye": "int64"}]}}},
            r"s.json: streams.x.columns[1]",
            "unknown field 'tpye'",
        ),
        (
            {"streams": {"x": {"columns": [{"name": "a", "type": "float"}]}}},
            "s.json: streams.x.columns[0].type",
            "Invalid enum value 'float'",
        ),
        (
            {"streams": {"x": {"time": {"unit": "min"}}}},
            "s.json: streams.x.time.unit",
            "Invalid enum value 'min'",
        ),
        (
            {"streams": {"x": {"columns": [{"name": "a"}, {"name": "a"}]}}},
            "s.json: streams.x",
            "names the column 'a' twice",
        ),
        (
            {"streams": {"x": {"columns": [{"name": "time"}]}}},
            "s.json: streams.x",
            "its own column 'time'",
        ),
        ({"streams": {}, "schema_version": 2}, "s.json", "schema_version is 2, known is 1"),
        ('{"streams": {\n"a": {},\n"a": {}}}', "s.json", "the key 'a' occurs twice"),
        ('{"streams":\n {,}}', "s.json:2", "is no JSON"),
    ],
)
def test_what_is_wrong_is_located(read, value, where, what):
    with pytest.raises(DataError) as caught:
        read(value)
    assert str(caught.value.where).endswith(where)
    assert what in caught.value.what


def test_rate_that_is_none_is_located(read):
    with pytest.raises(UsageError, match=r"s\.json: streams\.x\.rate_hz: rate 'fast'"):
        read({"streams": {"x": {"rate_hz": "fast"}}})


def test_file_that_is_not_there_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match=r"absent\.json: No such file"):
        schemafile.read(str(tmp_path / "absent.json"))


def test_example_of_the_readme_is_one(read):
    (block,) = (
        b for b in re.findall(r"```json\n(.*?)```", README, re.DOTALL) if "streams" in b[:60]
    )
    spec = read(block)["eeg"]
    assert [(c.name, c.type) for c in spec.columns] == [
        ("F3 [uV]", "float64"),
        ("device", "string"),
    ]
