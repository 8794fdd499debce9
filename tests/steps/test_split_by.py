"""`--split-by`: each value of a column is a stream of its own."""

from __future__ import annotations

import json
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest

from mmprep import DataError, UsageError, run_convert
from mmprep.manifest.codec import read_manifest
from mmprep.sources.text import value_name
from mmprep.steps.base import FailedItemsError
from mmprep.steps.check import check
from mmprep.tables import Spread
from tests import raw
from tests.kill import tree

START_MS = 1_500_000_000_000


@pytest.fixture
def convert(tmp_path):
    def run(out="out", **options):
        options = {"split_by": "signal", "engine": "serial", **options}
        return run_convert(tmp_path / "in", output=tmp_path / out, **options)

    return run


@pytest.fixture
def long_table(tmp_path):
    """Two signals and marks in one file, as phones log them."""
    path = tmp_path / "in/P01/log.csv"
    path.parent.mkdir(parents=True)
    rows = ["signal,timestamp,value"]
    for k in range(400):
        rows.append(f"EDA,{START_MS + 250 * k},{k / 8}")
        if k % 4 == 0:
            rows.append(f"HR,{START_MS + 250 * k},{60 + k % 7}")
        if k % 100 == 50:
            rows.append(f"mark,{START_MS + 250 * k},on")
    path.write_text("\n".join(rows) + "\n")
    return path


def _table(tmp_path, stream, out="out", name="P01"):
    return pq.read_table(tmp_path / f"{out}/tables/{stream}/{name}.parquet")


def test_each_value_is_a_stream_of_the_same_record(convert, tmp_path, long_table):
    convert()
    (record,) = read_manifest(tmp_path / "out/manifest.jsonl")
    assert (record.id, sorted(record.streams)) == ("P01", ["log-EDA", "log-HR", "log-mark"])
    assert [record.streams[f"log-{s}"].rate_hz for s in ("EDA", "HR", "mark")] == [4, 1, 0.04]
    assert [record.streams[f"log-{s}"].rows for s in ("EDA", "HR", "mark")] == [
        (0, 400),
        (0, 100),
        (0, 4),
    ]
    assert check(str(tmp_path / "out"), checksums=True).findings == ()


def test_each_value_has_its_own_types_and_rows(convert, tmp_path, long_table):
    convert()
    eda, hr, mark = (_table(tmp_path, f"log-{s}") for s in ("EDA", "HR", "mark"))
    assert [str(t.schema.field("value").type) for t in (eda, hr, mark)] == [
        "double",
        "int64",
        "string",
    ]
    assert eda.column_names == ["id", "time", "value"]
    assert eda["value"].to_pylist() == [k / 8 for k in range(400)]
    assert hr["value"].to_pylist() == [60 + k % 7 for k in range(0, 400, 4)]
    stamps = [(START_MS + 250 * k) * 10**6 for k in range(0, 400, 4)]
    assert hr["time"].cast("int64").to_pylist() == stamps


def test_type_that_changes_in_the_last_row_of_a_value(convert, tmp_path, long_table):
    with long_table.open("a") as file:
        file.write("".join(f"HR,{START_MS + 250 * k},60\n" for k in range(400, 30_000)))
        file.write(f"HR,{START_MS + 250 * 30_000},60.5\n")
    convert()
    hr = _table(tmp_path, "log-HR")
    assert (str(hr.schema.field("value").type), hr["value"][-1].as_py()) == ("double", 60.5)


@pytest.mark.parametrize("jobs", [1, 4])
def test_workers_change_no_byte(convert, tmp_path, long_table, jobs):
    convert("one")
    convert("many", engine="pool", jobs=jobs)
    assert tree(tmp_path / "many") == tree(tmp_path / "one")


def test_only_the_file_that_changed_is_split_again(convert, tmp_path, long_table):
    other = tmp_path / "in/P02/log.csv"
    other.parent.mkdir()
    other.write_text(long_table.read_text())
    convert()
    tables = tmp_path / "out/tables/log-EDA"
    inodes = {path.stem: path.stat().st_ino for path in tables.iterdir()}
    assert convert().status == "up-to-date"
    other.write_text(long_table.read_text() + f"EDA,{START_MS + 100_000},9\n")
    assert convert().status == "built"
    now = {path.stem: path.stat().st_ino for path in tables.iterdir()}
    assert [now[name] == inodes[name] for name in ("P01", "P02")] == [True, False]
    assert _table(tmp_path, "log-EDA", name="P02")["value"][-1].as_py() == 9
    convert("fresh")
    assert tree(tmp_path / "out") == tree(tmp_path / "fresh")


def test_file_is_read_twice_however_many_values_it_has(convert, tmp_path, monkeypatch):
    path = tmp_path / "in/P01/log.csv"
    path.parent.mkdir(parents=True)
    lines = "".join(f"s{k % 200},{k},{k}\n" for k in range(2000))
    path.write_text("signal,t_s,value\n" + lines)
    seen = []
    monkeypatch.setattr(
        Spread, "_blocks", lambda self, n, was=Spread._blocks: seen.append(1) or was(self, n)
    )
    convert()
    assert len(seen) == 2  # a look, and the tables
    assert len(list((tmp_path / "out/tables").iterdir())) == 200


def test_name_of_the_stream_comes_from_the_layout(convert, tmp_path, long_table):
    long_table.rename(long_table.with_name("V01_phone.csv"))
    convert(layout="{subject}/{session}_{stream}.csv")
    (record,) = read_manifest(tmp_path / "out/manifest.jsonl")
    assert (record.id, record.subject) == ("P01/V01", "P01")
    assert sorted(record.streams) == ["phone-EDA", "phone-HR", "phone-mark"]


@pytest.mark.parametrize("value", ["A/b", "ä µ", "50%", "a#b=c,d", "..", "x y\\z", "007"])
def test_value_can_be_had_back_from_the_name(value):
    assert unquote(value_name(value)) == value
    assert not set('/#=,\\ :*?"<>|') & set(value_name(value))


def test_values_that_no_path_can_hold(convert, tmp_path):
    path = tmp_path / "in/P01/log.tsv"
    path.parent.mkdir(parents=True)
    path.write_text("signal\tt_s\tv\nA/B #1\t0\t1\nA/B #1\t1\t2\n../x\t0\t3\n")
    convert()
    (record,) = read_manifest(tmp_path / "out/manifest.jsonl")
    assert sorted(record.streams) == ["log-..%2Fx", "log-A%2FB%20%231"]
    assert _table(tmp_path, "log-A%2FB%20%231")["v"].to_pylist() == [1, 2]


def test_rows_without_a_value_and_bad_rows_of_one_are_kept_apart(convert, tmp_path, long_table):
    lines = long_table.read_text().splitlines()
    lines[4] = lines[4].replace("EDA", "")
    lines[6] += ",more"
    lines[8] = lines[8].replace("15000", "xx")
    long_table.write_text("\n".join(lines) + "\n")
    with pytest.raises(FailedItemsError) as caught:
        convert()
    assert caught.value.failures[0].message.startswith("P01/log.csv:5: no value in 'signal': ,15")
    for policy, n_rows in {"skip": 397, "null": 398}.items():
        assert convert(on_bad_row=policy).totals["rejected_rows"] == 3
        whole = (tmp_path / "out/rejects/log/P01.tsv").read_text().splitlines()
        assert [line.split("\t")[:2] for line in whole[1:]] == [
            ["5", "no value in 'signal'"],
            ["7", "4 cells, expected 3"],
        ]
        own = (tmp_path / "out/rejects/log-EDA/P01.tsv").read_text().splitlines()
        assert [line.split("\t")[0] for line in own] == ["line", "9"]
        assert own[1].startswith("9\ttimestamp is 'xx")
        assert len(_table(tmp_path, "log-EDA")) == n_rows
    (line,) = (tmp_path / "out/inputs.jsonl").read_text().splitlines()
    assert json.loads(line)["name"] == "P01/log.csv"


def test_time_is_judged_for_each_value(convert, tmp_path):
    path = tmp_path / "in/P01/log.csv"
    path.parent.mkdir(parents=True)
    rows = [f"phone,{START_MS + 500 * k},{k}\nwatch,{k},{k}\n" for k in range(10)]
    path.write_text("signal,timestamp,v\n" + "".join(rows))
    convert()
    assert str(_table(tmp_path, "log-phone").schema.field("time").type) == "timestamp[ns, tz=UTC]"
    watch = _table(tmp_path, "log-watch")
    assert str(watch.schema.field("time").type) == "duration[ns]"
    assert watch["time"].cast("int64").to_pylist()[:2] == [0, 10**9]


def test_rows_without_stamps_are_counted_for_each_value(convert, tmp_path):
    path = tmp_path / "in/P01/log.csv"
    path.parent.mkdir(parents=True)
    path.write_text("signal,v\na,1\nb,2\na,3\nb,4\nb,5\n")
    convert(rate="4")
    times = {s: _table(tmp_path, f"log-{s}")["time"].cast("int64").to_pylist() for s in "ab"}
    assert times == {"a": [0, 250_000_000], "b": [0, 250_000_000, 500_000_000]}


def test_schema_of_the_values_gives_the_same_tables(convert, tmp_path, long_table):
    convert("a", write_schema=str(tmp_path / "s.json"))
    convert("b", schema=str(tmp_path / "s.json"))
    tables = [{k: v for k, v in tree(tmp_path / o).items() if "tables" in k} for o in "ab"]
    assert tables[0] == tables[1]
    assert len(tables[0]) == 3


def test_declared_type_of_a_value_holds(convert, tmp_path, long_table):
    spec = {"log-EDA": {"columns": [{"name": "value", "type": "int64"}]}}
    (tmp_path / "s.json").write_text(json.dumps({"streams": spec}))
    with pytest.raises(FailedItemsError) as caught:
        convert(schema=str(tmp_path / "s.json"))
    message = caught.value.failures[0].message
    assert message.startswith("P01/log.csv:2: value is '0.0', expected int64: EDA")


def test_key_may_be_called_as_a_column_of_the_table(convert, tmp_path):
    raw.table(tmp_path / "in/P01/x.tsv", n_rows=2)
    (tmp_path / "in/P01/x.tsv").write_text("id\ttime\tx\nA\t0\t1\nB\t0\t2\n")
    convert(split_by="id")
    assert _table(tmp_path, "x-B")["x"].to_pylist() == [2]


@pytest.mark.parametrize(
    ("column", "match"),
    [
        ("device", r"P01/log\.csv: there is no column 'device' to split by; .* signal, value"),
        ("timestamp", r"P01/log\.csv: 'timestamp' is the time column"),
    ],
)
def test_column_that_cannot_be_split_by_is_a_usage_error(convert, long_table, column, match):
    with pytest.raises(UsageError, match=match):
        convert(split_by=column)


def test_format_that_names_its_streams_is_a_usage_error(convert, tmp_path, long_table):
    (tmp_path / "in/P02").mkdir()
    (tmp_path / "in/P02/EDA.csv").write_text("1500000000.0\n4.0\n0.25\n0.5\n")
    with pytest.raises(UsageError, match=r"P02: is a format of its own \(e4\)"):
        convert()


def test_value_that_meets_another_file_is_a_usage_error(convert, tmp_path, long_table):
    long_table.with_name("log-EDA.csv").write_text("signal,t_s,v\nx,0,1\nx,1,2\n")
    long_table.with_name("log.csv").write_text("signal,t_s,v\nEDA-x,0,1\nEDA-x,1,2\n")
    with pytest.raises(UsageError, match=r"would both be stream 'log-EDA-x' of 'P01'"):
        convert()


def test_column_of_readings_fails_the_item(convert, tmp_path):
    path = tmp_path / "in/P01/log.csv"
    path.parent.mkdir(parents=True)
    path.write_text("signal,t_s,v\n" + "".join(f"{k / 7},{k},1\n" for k in range(2000)))
    with pytest.raises(DataError) as caught:
        convert()
    (failure,) = caught.value.failures
    assert failure.message == "P01/log.csv:1002: the column 'signal' has more than 1000 values"
