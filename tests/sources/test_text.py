"""Text tables of all dialects become the same kind of table."""

from __future__ import annotations

import bz2
import csv
import gzip
import hashlib
import json
import lzma
from fractions import Fraction

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmprep import tables
from mmprep.errors import DataError, UsageError
from mmprep.sources import text
from mmprep.sources.base import TextOptions
from mmprep.sources.sniff import sniff
from mmprep.tables import Widen
from tests.tables.test_parse import slow_kind

quick = settings(deadline=None, max_examples=40)


class Converted:
    """A file, converted as a step does it: probe, write, widen until it fits."""

    def __init__(self, path, out=None, **options):
        self.options = TextOptions(**options)
        (self.claim,) = text.claim("", [path.name], path.parent, named=True)
        ((self.stream, schema),) = text.probe(self.claim, path.parent, self.options).items()
        self.target, self.widened = out or path.with_name("out.parquet"), []
        while True:
            try:
                self.facts = self._write(path, schema)
                break
            except Widen as request:
                self.widened.append(request)
                schema = schema.widened(request)
        self.table = pq.read_table(self.target)

    def _write(self, path, schema):
        return text.write(
            self.claim,
            path.parent,
            self.stream,
            schema,
            tables.Target(self.target, "P01", hasher=hashlib.sha256),
            options=self.options,
        )

    @property
    def kinds(self):
        return {field.name: str(field.type) for field in self.table.schema}

    def column(self, name):
        return self.table.column(name).to_pylist()

    def time_ns(self):
        return [
            None if value is None else value.value
            for value in self.table.column("time").to_pylist()
        ]


def attempt(path, out=None, **options):
    try:
        return Converted(path, out, **options)
    except DataError as error:
        return error


@pytest.fixture
def make(tmp_path):
    def convert(content, name="x.tsv", **options):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return Converted(path, **options)

    return convert


# --- claims ---


def test_claim_takes_tables_and_leaves_companions(tmp_path):
    names = ["b.csv", "a.tsv", "a.ptp.tsv", "a.clock.tsv", "a.frames.tsv.gz", "a.json", "a.txt"]
    claims = text.claim("s1", names, tmp_path)
    assert [(claim.id_path, claim.suffix) for claim in claims] == [
        ("s1/a.tsv", ".tsv"),
        ("s1/b.csv", ".csv"),
    ]


@pytest.mark.parametrize("name", ["x.y.TSV.gz", "x.y.csv.bz2", "x.y.tsv.xz", "x.y.csv.zst"])
def test_claim_knows_compressed_tables_and_keeps_other_dots(tmp_path, name):
    (claim,) = text.claim("", [name], tmp_path)
    assert claim.stem == "x.y"


def test_claim_of_a_named_text_file_takes_it(tmp_path):
    assert not text.claim("", ["x.txt"], tmp_path)
    assert text.claim("", ["x.txt"], tmp_path, named=True)[0].stem == "x"


# --- dialects ---

DIALECTS = {
    "tab": "t_s\ta\tb\n0\t1\tx\n1\t2\ty\n",
    "comma": "t_s,a,b\n0,1,x\n1,2,y\n",
    "semicolon": "t_s;a;b\n0;1;x\n1;2;y\n",
    "bar": "t_s|a|b\n0|1|x\n1|2|y\n",
    "space": "t_s a b\n0 1 x\n1 2 y\n",
    "sep line": '"sep=;"\r\nt_s;a;b\r\n0;1;x\r\n1;2;y\r\n',
    "crlf": "t_s\ta\tb\r\n0\t1\tx\r\n1\t2\ty\r\n",
    "cr": "t_s\ta\tb\r0\t1\tx\r1\t2\ty\r",
    "byte order mark": "\ufefft_s\ta\tb\n0\t1\tx\n1\t2\ty\n",
    "utf-16": "t_s\ta\tb\n0\t1\tx\n1\t2\ty\n".encode("utf-16"),
    "blank lines and comments": "\n# made by hand\nt_s\ta\tb\n0\t1\tx\n# gap\n\n1\t2\ty\n\n",
    "commented header": "# t_s\ta\tb\n0\t1\tx\n1\t2\ty\n",
    "trailing delimiter": "t_s\ta\tb\t\n0\t1\tx\t\n1\t2\ty\t\n",
    "trailing delimiter in rows": "t_s\ta\tb\n0\t1\tx\t\n1\t2\ty\t\n",
    "trailing delimiter in header": "t_s\ta\tb\t\n0\t1\tx\n1\t2\ty\n",
    "quotes": 't_s,a,b\n"0","1","x"\n"1","2","y"\n',
    "no line end": "t_s\ta\tb\n0\t1\tx\n1\t2\ty",
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_gives_the_same_table(make, dialect):
    found = make(DIALECTS[dialect], "x.txt")
    assert found.column("a") == [1, 2]
    assert found.column("b") == ["x", "y"]
    assert found.time_ns() == [0, 10**9]


@pytest.mark.parametrize(
    ("kind", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)]
)
def test_compressed_table_is_read(make, kind, pack):
    assert make(pack(b"t_s\ta\n0\t1\n"), f"x.tsv{kind}").column("a") == [1]


def test_comments_below_the_header_are_counted(make):
    assert make(DIALECTS["blank lines and comments"]).facts.notes[0].startswith("1 lines below")


def test_missing_line_end_is_said(make):
    assert "last line has no line end" in make(DIALECTS["no line end"]).facts.notes[0]


def test_rows_without_header_get_numbered_names(make):
    assert list(make("0,1\n1,2\n", "x.csv", time="column_1").kinds) == ["id", "time", "column_2"]


def test_given_names_stand_for_the_header(make):
    found = make("0\t5\n1\t6\n", columns=("daqtime", "gsr"), time="daqtime", time_unit="s")
    assert found.column("gsr") == [5, 6]


def test_given_names_replace_a_header(make):
    assert list(make("t,x,x\n0,1,2\n", "x.csv", columns=("t", "x", "y")).kinds)[2:] == ["x", "y"]


def test_wrong_number_of_given_names_is_refused(make):
    with pytest.raises(UsageError, match="--columns gives 1 names, the rows have 2 cells"):
        make("0\t5\n", columns=("t",))


def test_doubled_column_is_refused(make):
    with pytest.raises(DataError, match="the header names 'a' 2 times"):
        make("t\ta\ta\n0\t1\t2\n")


def test_column_called_id_keeps_its_values_under_another_name(make):
    found = make("t,id\n0,007\n", "x.csv")
    assert found.column("source_id") == ["007"]
    assert found.table.schema.field("source_id").metadata[b"source_name"] == b"id"


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff", "\0\0\0"])
def test_empty_file_is_an_error(make, content):
    with pytest.raises(DataError, match="the file is empty"):
        make(content)


def test_header_without_rows_is_an_empty_table(make):
    found = make("t_s\ta\n")
    assert found.table.num_rows == 0
    assert found.facts.notes == ("no rows",)
    assert found.kinds["a"] == "double"


def test_unit_in_brackets_and_given_units_stand_at_the_column(make):
    found = make("t_s\tGSR [µS]\tecg\n0\t1.5\t2\n", units=(("ecg", "mV"),))
    units = [found.table.schema.field(k).metadata[b"unit"].decode() for k in (2, 3)]
    assert units == ["µS", "mV"]


# --- kinds ---

CELL = st.one_of(
    st.none(),
    st.integers(-(10**20), 10**20).map(str),
    st.floats(allow_nan=False, width=32).map(repr),
    st.text("abc \"',;", min_size=1, max_size=5).map(lambda word: f"<{word}>"),
    st.sampled_from(["007", "1e3", "-0.0", "0x10"]),
)


@quick
@given(
    st.integers(1, 4).flatmap(lambda n: st.lists(st.tuples(*[CELL] * n), min_size=1, max_size=30)),
    st.sampled_from("\t,;"),
    st.integers(20, 200),
    st.integers(1, 3),
)
def test_table_written_by_the_csv_module_comes_back(
    tmp_path_factory, table, delimiter, block, n_threads
):
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    names = [f"c{k}" for k in range(len(table[0]))]
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow(["t_s", *names])
        writer.writerows([k, *("" if c is None else c for c in row)] for k, row in enumerate(table))
    options = TextOptions(delimiter=delimiter, quote='"')
    target = path.with_name("out.parquet")
    schema = text.probe(text.claim("", ["x.csv"], path.parent)[0], path.parent, options)["x"]
    known = sniff(path, "x.csv", options).table
    while True:
        try:
            known.write(schema, tables.Target(target, "i", n_threads=n_threads), block_bytes=block)
            break
        except Widen as request:
            schema = schema.widened(request)
    found = pq.read_table(target)
    for name, cells in zip(names, zip(*table, strict=True), strict=True):
        kind = slow_kind(cells)
        read_as = {"null": float, "int64": int, "float64": float, "string": str}[kind]
        expected = [None if cell is None else read_as(cell) for cell in cells]
        assert found.column(name).to_pylist() == expected, kind


def test_kind_is_found_wherever_the_odd_value_stands(tmp_path):
    for place in (0, 20_000, 299_990):
        cells = ["1200"] * 300_000
        cells[place] = "1200.25"
        path = tmp_path / "x.tsv"
        path.write_text("t_ms\tx\n" + "".join(f"{k}\t{c}\n" for k, c in enumerate(cells)))
        assert Converted(path).kinds["x"] == "double"


def test_all_conflicts_of_a_file_come_in_one_request(tmp_path):
    rows = [f"{k}\t1\t\n" for k in range(400_000)]
    rows[150_000], rows[330_007] = "150000\tgo\t\n", "330007\t1\t5\n"
    path = tmp_path / "x.tsv"
    path.write_text("t_ms\ta\tb\n" + "".join(rows))
    found = Converted(path)
    assert [request.kinds for request in found.widened] == [{"a": "string", "b": "int64"}]
    assert found.widened[0].examples["a"] == "x.tsv:150002: 'go'"


def test_declared_kind_makes_an_odd_value_a_bad_cell(make):
    with pytest.raises(DataError, match=r"x\.tsv:3: x is 'ERR', expected float64: 1\\tERR"):
        make("t_s\tx\n0\t1\n1\tERR\n", declared={"x": tables.Declared({"x": "float64"})})


def test_declared_time_comes_before_what_is_judged_and_after_the_options(make):
    rows = "t\tlater\n0\t500\n1\t1500\n"
    known = {"x": tables.Declared({}, time="later", time_unit="ms")}
    assert make(rows, declared=known).time_ns() == [0, 10**9]
    assert make(rows, declared=known, time="t").time_ns() == [0, 10**6]
    assert make(rows, declared=known, time_unit="us").time_ns() == [0, 10**6]


def test_declared_rate_gives_the_times_of_rows_without_stamps(make):
    known = {"x": tables.Declared({}, rate="4/1")}
    assert make("a\tb\n1\t2\n3\t4\n", declared=known).time_ns() == [0, 250_000_000]


# --- time ---


def test_time_column_is_the_named_one(make):
    found = make("t_s\tlater_ms\n0\t500\n1\t1500\n", time="later_ms")
    assert found.time_ns() == [0, 10**9]
    assert found.facts.start_ns == 500_000_000


def test_time_column_that_is_not_there_is_refused(make):
    with pytest.raises(UsageError, match="no column 'when'; there are t_s, a"):
        make("t_s\ta\n0\t1\n", time="when")


def test_table_without_time_asks_for_it(make):
    with pytest.raises(DataError, match="no time column among a, b") as caught:
        make("a\tb\n0\t1\n")
    assert "--rate" in caught.value.hint


def test_rows_at_a_rate_get_exact_times(make):
    found = make("a\n" + "1\n" * 4, "x.csv", rate_hz=Fraction(30000, 1001))
    assert found.time_ns() == [0, 33_366_667, 66_733_333, 100_100_000]
    assert found.facts.rate_hz == Fraction(30000, 1001)


def test_rows_left_out_keep_the_others_in_place_at_a_rate(make):
    found = make("a,b\n1,1\n2\n3,3\n", "x.csv", rate_hz=Fraction(4), on_bad_row="skip")
    assert found.time_ns() == [0, 500_000_000]


def test_stamps_in_exponent_form_are_exact(make):
    found = make("Timestamp_Unix_CAL\tx\n1.595933810034E12\t1\n1.595933810057E12\t2\n")
    assert found.kinds["time"] == "timestamp[ns, tz=UTC]"
    assert found.time_ns() == [1_595_933_810_034_000_000, 1_595_933_810_057_000_000]
    assert "unit taken as ms" in found.facts.notes[0]


def test_more_decimals_than_nanoseconds_are_rounded_once(make):
    found = make("t_s\tx\n1.0000000014\t1\n1.0000000015\t2\n")
    assert found.facts.start_ns == 1_000_000_001
    assert found.time_ns() == [0, 1]


def test_local_times_are_utc_with_a_zone_and_durations_without(make):
    content = "time,x\n2021-04-05 15:48:04.834,1\n2021-04-05 15:48:05.834,2\n"
    local, moved = make(content, "x.csv"), make(content, "x.csv", tz="Asia/Shanghai")
    assert (local.kinds["time"], local.time_ns()) == ("duration[ns]", [0, 10**9])
    assert moved.kinds["time"] == "timestamp[ns, tz=UTC]"
    assert moved.time_ns()[0] == 1_617_608_884_834_000_000


def test_file_that_is_not_absolute_asks_its_stream_to_be_relative(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_text("t_s\tx\n5\t1\n")
    (claim,) = text.claim("", ["x.tsv"], tmp_path)
    schema = text.probe(claim, tmp_path, TextOptions())["x"]
    absolute = tables.TableSchema(schema.columns, tables.TimeColumn("s", "name", absolute=True))
    with pytest.raises(Widen) as caught:
        text.write(
            claim,
            tmp_path,
            "x",
            absolute,
            tables.Target(tmp_path / "o", "i"),
            options=TextOptions(),
        )
    assert caught.value.relative
    assert not (tmp_path / "o").exists()


def test_weak_guess_of_the_unit_follows_the_stream(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_text("t\tx\n3000\t1\n")
    (claim,) = text.claim("", ["x.tsv"], tmp_path)
    schema = text.probe(claim, tmp_path, TextOptions())["x"]
    told = tables.TableSchema(schema.columns, tables.TimeColumn("ms", "steps"))
    facts = text.write(
        claim, tmp_path, "x", told, tables.Target(tmp_path / "o", "i"), options=TextOptions()
    )
    assert facts.start_ns == 3_000_000_000


# --- bad rows, accounting, same bytes ---


def test_bad_row_fails_with_file_line_and_text(make):
    with pytest.raises(DataError, match=r"x\.tsv:3: 1 cells, expected 2: 1$") as caught:
        make("t_s\ta\n0\t1\n1\n2\t3\n")
    assert "--on-bad-row skip" in caught.value.hint


def test_skipped_rows_are_listed_and_counted(make):
    found = make("t_s\ta\n0\t1\n1\n2\t3\n\x00\n", on_bad_row="skip")
    assert (found.facts.rows, found.facts.n_rows_in, found.facts.n_rejected) == (2, 4, 2)
    assert found.facts.rejects.read_text() == (
        "line\treason\traw\n3\t1 cells, expected 2\t1\n5\tNUL bytes\t\\0\n"
    )


def test_null_rows_are_kept_as_missing_values(make):
    found = make("t_s\ta\n0\t1\n1\n2\t3\n", on_bad_row="null")
    assert found.column("a") == [1, None, 3]
    assert found.time_ns() == [0, None, 2 * 10**9]
    assert found.facts.n_rejected == 1


def test_good_file_leaves_no_list_of_rejects(make, tmp_path):
    assert make("t_s\ta\n0\t1\n", on_bad_row="skip").facts.rejects is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.parquet", "x.tsv"]


@quick
@given(st.binary(max_size=40))
def test_any_bytes_give_a_table_or_a_located_error(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("any") / "x.csv"
    path.write_bytes(b"t_s,a\n0,1\n" + data)
    found = attempt(path, on_bad_row="skip", encoding="utf-8")
    if isinstance(found, DataError):
        assert "x.csv" in str(found)
    else:
        assert found.facts.n_rows_in == found.facts.rows + found.facts.n_rejected


@pytest.mark.parametrize("on_bad_row", ["skip", "null"])
def test_threads_and_their_number_change_no_byte(tmp_path, on_bad_row):
    rows = [f"{k / 128}\t{k % 7}\tw{k % 5}\n" for k in range(3000)]
    rows[1000], rows[2000] = "bad\n", "x\t1\t2\n"
    path = tmp_path / "x.tsv"
    path.write_text("t_s\ta\tb\n" + "".join(rows))
    options = TextOptions(on_bad_row=on_bad_row)
    (claim,) = text.claim("", ["x.tsv"], tmp_path)
    schema = text.probe(claim, tmp_path, options)["x"]
    table = sniff(path, "x.tsv", options).table
    found = set()
    for n_threads in (1, 2, 5):
        target, rejects = tmp_path / f"{n_threads}.parquet", tmp_path / f"{n_threads}.tsv"
        place = tables.Target(target, "i", rejects, n_threads=n_threads)
        table.write(schema, place, on_bad_row, block_bytes=1024)
        found.add((target.read_bytes(), rejects.read_bytes()))
    assert len(found) == 1


def test_first_bad_row_is_named_whatever_the_number_of_threads(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_text("t_s\ta\n" + "".join("0\n" if k > 500 else f"{k}\t1\n" for k in range(2000)))
    table = sniff(path, "x.tsv", TextOptions()).table
    schema = tables.TableSchema((tables.Column("a", "int64"),), tables.TimeColumn("s"))
    place = tables.Target(tmp_path / "o", "i", n_threads=4)
    with pytest.raises(DataError, match=r"x\.tsv:503: 1 cells"):
        table.write(schema, place, block_bytes=256)
    assert not (tmp_path / "o").exists()


def test_digest_is_of_the_raw_bytes(make, tmp_path):
    digest = make(gzip.compress(b"t_s\ta\n0\t1\n"), "x.tsv.gz").facts.input_digests["x.tsv.gz"]
    raw = (tmp_path / "x.tsv.gz").read_bytes()
    assert digest == f"xxh3_128:{hashlib.sha256(raw).hexdigest()}"


def test_stream_of_a_text_file_equals_the_stream_of_its_table(make, tmp_path):
    found = make("t_s,a,s,b\n5.5,1,x,\n6.5,2,y,0.5\n,3,z,1\n", "x.csv")
    direct = text.read_stream(tmp_path / "x.csv", TextOptions(), "gsr")
    stored = tables.read_stream(found.target, "gsr")
    assert direct.stamps_ns.tolist() == stored.stamps_ns.tolist()
    assert direct.channels == stored.channels == ("a", "b")
    assert np.array_equal(direct.data, stored.data, equal_nan=True)
    assert direct.stamps_ns[2] == tables.NULL_STAMP_NS


def test_stream_leaves_out_a_column_that_turns_out_to_hold_text(tmp_path):
    rows = [f"{k}\t1\t2\n" for k in range(400_000)]
    rows[150_001] = "150001\tgo\t2\n"
    (tmp_path / "x.tsv").write_text("t_ms\ta\tb\n" + "".join(rows))
    found = text.read_stream(tmp_path / "x.tsv", TextOptions(), "x")
    assert (found.channels, found.n_samples) == (("b",), 400_000)


# --- reported files ---


def truth(path):
    return json.loads((path / "truth.json").read_text())


def test_integers_that_end_as_floats_are_floats(shared, tmp_path):
    folder = shared("made/B12")
    found = Converted(folder / "int_then_float.tsv.gz", tmp_path / "o.parquet")
    assert found.facts.rows == truth(folder)["rows"]
    assert found.kinds["gsr_raw"] == "double"
    assert found.column("gsr_raw")[-1] == truth(folder)["last_gsr"]


def test_values_after_many_empty_rows_set_the_kind(shared, tmp_path):
    folder = shared("made/B13")
    found = Converted(folder / "null_then_value.tsv.gz", tmp_path / "o.parquet")
    assert found.facts.rows == truth(folder)["rows"]
    assert found.table.column("eda").null_count == truth(folder)["nulls_eda"]
    assert (found.kinds["eda"], found.kinds["note"]) == ("double", "string")


def test_nanoseconds_beside_a_missing_stamp_stay_exact(shared, tmp_path):
    folder = shared("made/B14")
    found = Converted(folder / "ns_stamps.tsv", tmp_path / "o.parquet")
    stamps = found.time_ns()
    assert stamps[0] == truth(folder)["row0_ts_ns"]
    assert stamps[49] == truth(folder)["row49_ts_ns"]
    assert stamps[truth(folder)["missing_row"]] is None


def test_not_available_is_missing_in_every_column(shared, tmp_path):
    found = Converted(shared("made/E_na") / "events.tsv", tmp_path / "o.parquet")
    assert found.column("response_time") == [None, 0.41, None, 0.5]
    assert found.column("duration") == [0, None, 0, 0]
    assert found.time_ns()[2] is None


def test_nul_run_is_skipped_and_listed(shared, tmp_path):
    folder = shared("made/E_nul")
    with pytest.raises(DataError, match="NUL bytes"):
        Converted(folder / "nul_run_and_cut.csv", tmp_path / "o.parquet")
    found = Converted(folder / "nul_run_and_cut.csv", tmp_path / "o.parquet", on_bad_row="skip")
    lines = (folder / "nul_run_and_cut.csv").read_bytes().split(b"\n")[1:]
    assert found.facts.n_rows_in == len(lines)
    assert found.facts.n_rejected == sum(b"\0" in line for line in lines) == 1


def test_german_table_is_read(shared, tmp_path):
    found = Converted(shared("made/E_comma") / "gsr_de.csv", tmp_path / "o.parquet")
    assert found.column("GSR [µS]") == [1234.56, 1235.0]
    assert found.column("Anmerkung") == ["a;b", None]
    assert found.time_ns() == [0, 250_000_000]


def test_rows_keep_their_order_even_if_time_does_not(shared, tmp_path):
    found = Converted(shared("made/E_order") / "unsorted.tsv", tmp_path / "o.parquet")
    assert found.column("x") == [0, 1, 3, 2, 4, 4, 5]


def test_header_that_comes_again_is_no_row(shared, tmp_path):
    path = shared("made/E_repeat") / "repeated_header.csv"
    with pytest.raises(DataError, match=r"repeated_header\.csv:4: the header again"):
        Converted(path, tmp_path / "o.parquet")
    found = Converted(path, tmp_path / "o.parquet", on_bad_row="skip")
    assert found.column("eda") == [0.1, 0.2, 0.3, 0.4]
    assert found.facts.n_rejected == 3


def test_all_collected_tables_end_in_a_table_or_a_located_error(shared, tmp_path):
    for path in sorted(shared("tsv").iterdir()):
        found = attempt(path, tmp_path / "o.parquet", rate_hz=Fraction(4))
        assert isinstance(found, Converted) or path.name in str(found)


# --- damaged files ---


@quick
@given(st.integers(30, 6000), st.sampled_from(["skip", "null"]))
def test_rows_before_the_damage_of_a_packed_table_are_kept(tmp_path_factory, n_bytes, on_bad_row):
    rows = [f"{k}\t{k * 7919 % 10007}\n" for k in range(2000)]
    path = tmp_path_factory.mktemp("cut") / "x.tsv.gz"
    path.write_bytes(gzip.compress(("t_s\tx\n" + "".join(rows)).encode())[:n_bytes])
    found = attempt(path, on_bad_row=on_bad_row)
    if isinstance(found, DataError):  # not even the header is there
        assert n_bytes < 100
        return
    n_kept = found.facts.rows
    assert found.column("x") == [k * 7919 % 10007 for k in range(n_kept)]
    assert "data are damaged or cut" in found.facts.notes[0]
    assert found.facts.n_rows_in == n_kept + (on_bad_row == "skip") * found.facts.n_rejected
    if found.facts.rejects is not None:
        (line,) = found.facts.rejects.read_text().split("\n")[1:-1]
        number, reason, raw = line.split("\t", 2)
        assert int(number) == n_kept + 2
        assert reason == "the line is cut by the damage"
        assert rows[n_kept].startswith(raw.replace("\\t", "\t"))


def test_damaged_packed_table_fails_and_says_how_to_keep_its_rows(tmp_path):
    path = tmp_path / "x.tsv.gz"
    path.write_bytes(gzip.compress(b"t_s\tx\n" + b"1\t2\n" * 9000)[:-30])
    with pytest.raises(DataError, match=r"x\.tsv\.gz: the gz data are damaged or cut") as caught:
        Converted(path)
    assert "--on-bad-row skip" in caught.value.hint
    assert not (tmp_path / "out.parquet").exists()


def test_damage_at_the_end_of_a_packed_table_loses_no_row(tmp_path):
    path = tmp_path / "x.tsv.gz"
    path.write_bytes(gzip.compress(b"t_s\tx\n0\t1\n1\t2\n")[:-8])
    found = Converted(path, on_bad_row="skip")
    assert found.column("x") == [1, 2]
    assert (found.facts.n_rejected, found.facts.rejects) == (0, None)
    assert "data are damaged or cut" in found.facts.notes[0]


@pytest.mark.parametrize(
    ("cells", "note"),
    [
        (("1,234", "12,500"), "commas are taken for decimal ones: '1,234' for 1.234"),
        (("1,234", "0,5"), None),
        (("0,234", "1,500"), None),
    ],
)
def test_commas_that_may_stand_before_thousands_are_said(tmp_path, cells, note):
    path = tmp_path / "x.tsv"
    path.write_text("time_s\tv\n" + "".join(f"{k}\t{cell}\n" for k, cell in enumerate(cells)))
    table = sniff(path, "x.tsv", TextOptions()).table
    assert table.notes == (() if note is None else (note,))


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(gzip.compress(b"time,v\n0,1\n", mtime=0), id="gzip"),
        pytest.param(b"PK\x03\x04\x14\0", id="zip"),
        pytest.param(b"RIFF\xa4\x0c\0\0WAVEfmt \x10", id="wav"),
    ],
)
def test_file_with_the_name_of_a_table_that_is_no_text_is_named_so(tmp_path, start):
    (tmp_path / "x.csv").write_bytes(start + b",\n0,1\n")
    with pytest.raises(DataError, match=r"^x\.csv: it is no text: its first line has"):
        sniff(tmp_path / "x.csv", "x.csv", TextOptions())


@pytest.mark.parametrize(
    ("content", "names", "options"),
    [
        ("time,1,2\n0,5,6\n1,7,8\n", ["1", "2"], {}),
        ("time,F3,1\n0,5,6\n", ["F3", "1"], {}),
        ("beat,1,2\n0,5,6\n", ["1", "2"], {"time": "beat"}),
        (",0,1,2\n0,0.5,0.6,0.7\n", ["column_1", "0", "1", "2"], {"rate_hz": Fraction(4)}),
        ("a,2,c\n0.5,0.6,0.7\n0.1,0.2,0.3\n", ["a", "2", "c"], {"rate_hz": Fraction(4)}),
    ],
)
def test_names_may_be_numbers(tmp_path, content, names, options):
    path = tmp_path / "x.csv"
    path.write_text(content)
    table = sniff(path, "x.csv", TextOptions(**options)).table
    assert [column.name for column in table.columns] == names
    assert table.layout.n_preamble == 1


@pytest.mark.parametrize(
    ("content", "note"),
    [
        ("0,1,2\n3,4,5\n", "its first line, 0, 1, 2 …, is taken for a row; --header for names"),
        ("n/a,1,5\n3,4,5\n", None),
        ("x,1,5\n3,4,5\n", None),
        (",1,5\n3,4,5\n", None),
        ("a,b,5\nc,4,5\n", None),
    ],
)
def test_first_line_of_numbers_is_a_row(tmp_path, content, note):
    path = tmp_path / "x.csv"
    path.write_text(content)
    table = sniff(path, "x.csv", TextOptions(rate_hz=Fraction(4))).table
    assert table.layout.n_preamble == 0
    assert table.notes == (() if note is None else (note,))
