"""Declared and changing columns: `--schema`, `--write-schema`, `--on-column-change`."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from mmprep import DataError, UsageError, run_convert
from mmprep.steps import convert as step
from mmprep.steps.base import FailedItemsError, RunOptions, Silent
from tests import raw
from tests.kill import tree


class Heard(Silent):
    """Keeps what a run says."""

    def __init__(self):
        self.said = []

    def say(self, text):
        self.said.append(text)


@pytest.fixture
def two(tmp_path):
    """Two files of one stream; the second has a column more and an odd last row."""
    for name, text in {
        "P01": "time\tx\tcode\n0\t1\t007\n0.5\t2\t012\n",
        "P02": "time\tx\ty\tcode\n0\t1\t3\t\n0.5\t2.5\tn/a\t013\n",
    }.items():
        (tmp_path / f"in/{name}").mkdir(parents=True)
        (tmp_path / f"in/{name}/eeg.tsv").write_text(text)


@pytest.fixture
def schema(tmp_path):
    """Write a schema of the stream `eeg` by hand."""

    def write(*columns, **time):
        path = tmp_path / "schema.json"
        listed = [{"name": name, "type": kind} for name, kind in columns]
        path.write_text(json.dumps({"streams": {"eeg": {"columns": listed, "time": time}}}))
        return str(path)

    return write


def _table(tmp_path, name="P01", out="out"):
    return pq.read_table(tmp_path / f"{out}/tables/eeg/{name}.parquet")


def _types(table):
    return {
        field.name: str(field.type) for field in table.schema if field.name not in ("id", "time")
    }


def test_written_schema_names_what_the_tables_have(convert, tmp_path, two):
    convert(write_schema=str(tmp_path / "s.json"))
    (stream,) = json.loads((tmp_path / "s.json").read_text())["streams"].values()
    assert [(c["name"], c["type"]) for c in stream["columns"]] == [
        ("x", "float64"),
        ("code", "string"),
        ("y", "int64"),
    ]
    assert stream["rate_hz"] == "2/1"


def test_written_schema_gives_the_same_tables(convert, tmp_path, two):
    convert("a", write_schema=str(tmp_path / "s.json"))
    convert("b", schema=str(tmp_path / "s.json"), write_schema=str(tmp_path / "again.json"))
    tables = [{k: v for k, v in tree(tmp_path / o).items() if "tables" in k} for o in "ab"]
    assert tables[0] == tables[1]
    assert len(tables[0]) == 2
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "s.json").read_bytes()


@pytest.mark.parametrize("jobs", [1, 3])
def test_schema_is_the_same_for_any_number_of_workers(tmp_path, two, jobs):
    for out, how in {"a": {"engine": "serial"}, "b": {"jobs": jobs}}.items():
        options = {"write_schema": str(tmp_path / f"{out}.json"), **how}
        run_convert(tmp_path / "in", output=tmp_path / out, **options)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_declared_type_holds_where_a_value_would_widen_it(convert, tmp_path, two, schema):
    path = schema(("x", "int64"))
    with pytest.raises(FailedItemsError) as caught:
        convert(schema=path)
    assert [f.message for f in caught.value.failures] == [
        "P02/eeg.tsv:3: x is '2.5', expected int64: 0.5\\t2.5\\tn/a\\t013"
    ]
    convert(schema=path, on_bad_row="null")
    assert _table(tmp_path, "P02")["x"].to_pylist() == [1, None]
    assert (tmp_path / "out/rejects/eeg/P02.tsv").read_text().splitlines()[1] == (
        "3\tx is '2.5', expected int64\t0.5\\t2.5\\tn/a\\t013"
    )
    convert(schema=path, on_bad_row="skip")
    assert _table(tmp_path, "P02")["x"].to_pylist() == [1]


def test_declared_text_keeps_the_cells_as_they_are(convert, tmp_path, schema):
    raw.table(tmp_path / "in/P01/eeg.tsv", n_rows=3)
    convert(schema=schema(("x", "string")))
    assert _table(tmp_path)["x"].to_pylist() == ["0", "1", "2"]


def test_leading_zeros_are_numbers_only_where_that_is_declared(convert, tmp_path, two, schema):
    convert()
    assert _table(tmp_path)["code"].to_pylist() == ["007", "012"]
    convert(schema=schema(("code", "int64")))
    assert _table(tmp_path)["code"].to_pylist() == [7, 12]


@pytest.mark.parametrize(
    ("last", "kind", "values"),
    [
        ("5", "int64", [1, 5]),
        ("0.5", "double", [1.0, 0.5]),
        ("12345678901234567890", "string", ["1", "12345678901234567890"]),
        ("05", "string", ["1", "05"]),
        ("off", "string", ["1", "off"]),
        ("-99", "int64", [1, None]),
        ("n/a", "int64", [1, None]),
    ],
)
def test_last_row_decides_the_type_and_the_schema_repeats_it(convert, tmp_path, last, kind, values):
    path = tmp_path / "in/P01/eeg.tsv"
    raw.table(path, n_rows=60_000)
    text = "time\tx\n" + "".join(f"{k / 4}\t1\n" for k in range(60_000)) + f"15000\t{last}\n"
    path.write_text(text)
    convert("a", null=("-99",), write_schema=str(tmp_path / "s.json"))
    table = _table(tmp_path, out="a")
    assert _types(table) == {"x": kind}
    assert table["x"].to_pylist()[-2:] == values
    convert("b", null=("-99",), schema=str(tmp_path / "s.json"))
    assert (tmp_path / "b/tables/eeg/P01.parquet").read_bytes() == (
        tmp_path / "a/tables/eeg/P01.parquet"
    ).read_bytes()


def test_columns_that_the_schema_does_not_name(convert, tmp_path, two, schema):
    path = schema(("x", "float64"), ("code", "string"))
    convert(schema=path)
    assert _types(_table(tmp_path, "P01")) == {"x": "double", "code": "string", "y": "int64"}
    convert(schema=path, on_column_change="drop")
    assert _types(_table(tmp_path, "P02")) == {"x": "double", "code": "string"}
    with pytest.raises(DataError, match=r"^P02/eeg\.tsv: has a column 'y' that the schema lacks"):
        convert(schema=path, on_column_change="fail")


def test_column_that_a_file_lacks_is_null_and_said(convert, tmp_path, two, schema):
    heard = Heard()
    config = step.Config((str(tmp_path / "in"),), schema=schema(("x", "float64"), ("y", "int64")))
    step.run(config, RunOptions(tmp_path / "out"), progress=heard)
    assert (
        "eeg: 1 of 2 files lack columns of the schema, which are null there: P01/eeg.tsv has no y"
        in heard.said
    )
    assert _table(tmp_path, "P01")["y"].to_pylist() == [None, None]
    with pytest.raises(DataError, match=r"P01/eeg\.tsv: has no column 'y', which the schema has"):
        convert(
            schema=schema(("x", "float64"), ("code", "string"), ("y", "int64")),
            on_column_change="fail",
        )


def test_files_whose_columns_differ_among_themselves(convert, tmp_path, two):
    convert()
    assert _types(_table(tmp_path, "P01")) == {"x": "double", "code": "string", "y": "int64"}
    convert(on_column_change="drop")
    assert _types(_table(tmp_path, "P02")) == {"x": "double", "code": "string"}
    message = r"^P02/eeg\.tsv: has a column 'y' that P01/eeg\.tsv lacks"
    with pytest.raises(DataError, match=message):
        convert(on_column_change="fail")
    (tmp_path / "in/P01/eeg.tsv").write_text("time\tx\ty\tcode\tz\n0\t1\t3\t\t\n")
    message = r"^P02/eeg\.tsv: has no column 'z', which P01/eeg\.tsv has"
    with pytest.raises(DataError, match=message):
        convert(on_column_change="fail")


def test_policy_that_is_none_is_a_usage_error(convert, two):
    with pytest.raises(UsageError, match="--on-column-change: 'keep' is none of add, fail, drop"):
        convert(on_column_change="keep")


def test_streams_that_the_schema_does_not_name_are_looked_at(convert, tmp_path, two, schema):
    raw.table(tmp_path / "in/P01/gsr.tsv")
    convert(schema=schema(("x", "float64")))
    gsr = pq.read_table(tmp_path / "out/tables/gsr/P01.parquet")
    assert _types(gsr) == {"x": "int64"}


def test_declared_unit_of_the_time_holds(convert, tmp_path, schema):
    (tmp_path / "in/P01").mkdir(parents=True)
    (tmp_path / "in/P01/eeg.tsv").write_text("t\tx\n0\t1\n500\t2\n")
    convert(schema=schema(unit="ms"))
    assert _table(tmp_path)["time"].cast("int64").to_pylist() == [0, 500_000_000]


def test_time_declared_absolute_that_is_not_is_an_error(convert, tmp_path, two, schema):
    with pytest.raises(DataError, match=r"P01/eeg\.tsv: its stamps are no Unix time"):
        convert(schema=schema(("x", "float64"), absolute=True))


def test_types_of_a_device_format_may_be_declared_otherwise(tmp_path):
    folder = tmp_path / "in/P01"
    folder.mkdir(parents=True)
    (folder / "EDA.csv").write_text("1500000000.0\n4.0\n0.25\n0.5\n")
    for kind in ("string", "float64"):
        path = tmp_path / "s.json"
        spec = {"columns": [{"name": "EDA", "type": kind}]}
        path.write_text(json.dumps({"streams": {"EDA": spec}}))
        run_convert(tmp_path / "in", output=tmp_path / kind, engine="serial", schema=str(path))
    tables = [
        pq.read_table(tmp_path / f"{k}/tables/EDA/P01.parquet") for k in ("string", "float64")
    ]
    assert [table.column(2).to_pylist() for table in tables] == [["0.25", "0.5"], [0.25, 0.5]]


def test_schema_is_an_input(convert, tmp_path, two, schema):
    path = schema(("x", "float64"))
    depfile = tmp_path / "d"
    assert convert(schema=path, depfile=str(depfile)).status == "built"
    assert f"{path}" in depfile.read_text()
    assert "schema.json" in (tmp_path / "out/inputs.jsonl").read_text()
    assert convert(schema=path).status == "up-to-date"
    schema(("x", "string"))
    assert convert(schema=path).status == "built"
    assert _types(_table(tmp_path))["x"] == "string"


def test_schema_among_the_recordings_is_no_recording(convert, tmp_path, two):
    inside = str(tmp_path / "in/schema.tsv")  # named so that a reader would take it
    convert("a", write_schema=inside)
    assert convert("b", schema=inside).totals["records"] == 2


def test_schema_is_not_written_where_it_would_be_lost(convert, tmp_path, two, schema):
    with pytest.raises(UsageError, match="--write-schema: lies inside OUT"):
        convert(write_schema=str(tmp_path / "out/s.json"))
    path = schema(("x", "float64"))
    with pytest.raises(UsageError, match="--write-schema: is the file of --schema"):
        convert(schema=path, write_schema=path)


def test_run_with_nothing_to_do_writes_the_schema_that_the_first_one_decided(convert, tmp_path):
    path = raw.table(tmp_path / "in/P01/eeg.tsv", n_rows=300_000)
    text = path.read_text()
    middle = text.index("\n", int(0.4 * len(text)))  # between the places that a look sees
    path.write_text(f"{text[:middle]}\n0\toff{text[middle:]}")
    convert()
    assert convert(write_schema=str(tmp_path / "s.json")).status == "up-to-date"
    (column,) = json.loads((tmp_path / "s.json").read_text())["streams"]["eeg"]["columns"]
    assert column == {"name": "x", "type": "string", "source_name": "x"}


def test_run_that_fails_writes_no_schema(convert, tmp_path, two):
    (tmp_path / "in/P03").mkdir()
    (tmp_path / "in/P03/gsr.tsv").write_text("time\tx\n0\t1\t2\n0\n")
    with pytest.raises(FailedItemsError):
        convert(write_schema=str(tmp_path / "s.json"))
    assert not (tmp_path / "s.json").exists()


@pytest.mark.parametrize("folder", ["e4", "everion", "shimmer", "garmin", "polar", "xdf", "edf"])
def test_schema_of_real_files_gives_the_same_tables(tmp_path, shared, folder):
    options = {"engine": "serial", "max_failures": "100%", "on_bad_row": "skip"}
    schemas = {out: str(tmp_path / f"{out}.json") for out in "ab"}
    run_convert(shared(folder), output=tmp_path / "a", write_schema=schemas["a"], **options)
    options |= {"schema": schemas["a"], "write_schema": schemas["b"]}
    run_convert(shared(folder), output=tmp_path / "b", **options)
    tables = [{k: v for k, v in tree(tmp_path / o).items() if "tables" in k} for o in "ab"]
    assert tables[0] == tables[1] != {}
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


@pytest.mark.parametrize("pad", ["", " "])
def test_given_nulls_are_missing_in_every_type_declared_or_found(convert, tmp_path, pad):
    path = tmp_path / "in/P01/eeg.csv"
    path.parent.mkdir(parents=True)
    rows = [f"{k},{k},{k}.5,w{k}\n" for k in range(50)]
    rows[7] = f"7,{pad}-99,{pad}-99,-99\n"
    rows[9] = f"9,{pad}off,{pad}n/a,off\n"
    path.write_text("t_s,whole,part,text\n" + "".join(rows))
    convert("a", null=("-99", "off"), write_schema=str(tmp_path / "s.json"))
    convert("b", null=("-99", "off"), schema=str(tmp_path / "s.json"))
    for out in "ab":
        table = _table(tmp_path, out=out)
        assert _types(table) == {"whole": "int64", "part": "double", "text": "string"}
        for name in ("whole", "part", "text"):
            values = table[name].to_pylist()
            assert [k for k, value in enumerate(values) if value is None] == [7, 9]


def test_dates_that_are_lost_to_files_without_are_said(tmp_path):
    heard = Heard()
    for name, begin in (("P01", 0), ("P02", 1_600_000_000), ("P03", 1_600_000_000)):
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / f"in/{name}/eeg.csv").write_text(f"time,x\n{begin},1\n{begin + 1},2\n")
    config = step.Config((str(tmp_path / "in"),))
    step.run(config, RunOptions(tmp_path / "out"), progress=heard)
    (said,) = (text for text in heard.said if "dates" in text)
    assert said.startswith(
        "eeg: P02/eeg.csv has dates (2 of 3 files do) and P01/eeg.csv has none: the times of all"
    )


def test_number_that_float32_cannot_hold_fails_the_file(convert, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/eeg.csv").write_text("time,x\n0,inf\n1,0.5\n2,1e39\n")
    with pytest.raises(DataError) as caught:
        convert(float32=True)
    (failure,) = caught.value.failures
    assert failure.message == "column 'x' holds 1e+39, which float32 cannot"
    (tmp_path / "in/eeg.csv").write_text("time,x\n0,inf\n1,0.5\n")
    convert(float32=True)
    assert pq.read_table(tmp_path / "out/tables/eeg/eeg.parquet")["x"].to_pylist() == [
        float("inf"),
        0.5,
    ]


@pytest.mark.parametrize("name", ["klingon", "base64", "undefined"])
def test_encoding_that_is_none_of_texts_is_a_wrong_call(convert, tmp_path, two, name):
    with pytest.raises(UsageError, match=f"there is no encoding '{name}'"):
        convert(encoding=name)


def test_text_without_the_mark_that_its_encoding_needs_is_an_error(convert, tmp_path, two):
    with pytest.raises(FailedItemsError) as caught:
        convert(encoding="utf-16")
    assert "not utf-16: UTF-16 stream does not start with BOM" in caught.value.failures[0].message


def test_only_column_that_is_text_is_said(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/gsr.csv").write_text("time,x\n0,1\n1,?\n")
    heard = Heard()
    step.run(step.Config((str(tmp_path / "in"),)), RunOptions(tmp_path / "out"), progress=heard)
    assert "gsr: columns of text: x; --null TEXT reads odd cells as missing" in heard.said


@pytest.mark.parametrize("stamps", [("0", "1", "2"), ("10:00:00", "10:00:01", "10:00:02")])
@pytest.mark.parametrize("rows", [3, 60_000])
def test_rows_that_are_left_out_have_no_say_in_types(convert, tmp_path, stamps, rows):
    (tmp_path / "in").mkdir()
    lines = [f"{stamps[k % 3]},{k}\n" for k in range(rows)]
    text = "time,x\n" + "".join(lines) + "end,of file\n"
    (tmp_path / "in/eeg.csv").write_text(text)
    convert(on_bad_row="skip")
    table = pq.read_table(tmp_path / "out/tables/eeg/eeg.parquet")
    assert _types(table) == {"x": "int64"}
    assert table["x"].to_pylist() == list(range(rows))
    rejects = (tmp_path / "out/rejects/eeg/eeg.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in rejects[1:]] == [str(rows + 2)]
