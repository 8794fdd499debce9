"""Rows of units, and cells cut by several spaces."""

from __future__ import annotations

import pytest

from mmprep.errors import DataError
from mmprep.sources.base import TextOptions
from mmprep.sources.sniff import sniff

ROWS = "".join(f"{k * 250}\t{k * 1.5}\t{k % 2}\n" for k in range(9))


def found(path, text, **options):
    path.write_text(text, encoding="utf-8")
    return sniff(path, path.name, TextOptions(**options)).table


@pytest.mark.parametrize(
    ("row", "units"),
    [
        ("ms\tuV\t\n", ["uV", None]),
        ("[ms]\t[µS]\t-\n", ["µS", "-"]),
        ("(msec)\tm/s^2\t1\n", ["m/s^2", "1"]),
        ("ms\tdeg/s\t%\n", ["deg/s", "%"]),
    ],
)
def test_a_row_of_units_gives_the_units(tmp_path, row, units):
    table = found(tmp_path / "x.tsv", f"time\tgsr\tflag\n{row}{ROWS}")
    assert [column.unit for column in table.columns] == units
    assert (table.time.unit, table.time.evidence) == ("ms", "name")
    stream = table.read("x")
    assert stream.stamps_ns.tolist() == [k * 250_000_000 for k in range(9)]
    assert stream.data[:, 0].tolist() == [k * 1.5 for k in range(9)]


@pytest.mark.parametrize(
    "text",
    [
        "time\tgsr\n\tbad\n0\t1\n1\t2\n",
        "time\tlabel\ns\tstart\n0\tgo\n1\tstop\n",
        "time\tgsr\nn/a\tuV\n0\t1\n1\t2\n",
    ],
)
def test_a_row_that_only_looks_like_units_stays_a_row(tmp_path, text):
    assert found(tmp_path / "x.tsv", text).layout.n_preamble == 1


def test_units_of_rows_without_stamps(tmp_path):
    table = found(tmp_path / "x.csv", "eda,temp\nuS,°C\n1,30\n2,31\n", rate_hz=4)
    assert [column.unit for column in table.columns] == ["uS", "°C"]
    assert table.read("x").data.tolist() == [[1, 30], [2, 31]]


def test_cells_may_be_cut_by_several_spaces(tmp_path):
    rows = "".join(f"  {k:<6} {k * 0.5:>9}   {k % 3}  \n" for k in range(12))
    table = found(tmp_path / "x.txt", "  time     eeg       mark\n" + rows)
    assert [column.name for column in table.columns] == ["eeg", "mark"]
    assert [column.kind for column in table.schema().columns] == ["float64", "int64"]
    stream = table.read("x")
    assert stream.data.tolist() == [[k * 0.5, k % 3] for k in range(12)]


def test_spaces_inside_quotes_stay(tmp_path):
    table = found(tmp_path / "x.txt", 'time  what\n0   "a  b"\n1   "c"\n', time_unit="s")
    schema = table.schema()
    assert [(column.name, column.kind) for column in schema.columns] == [("what", "string")]
    assert table.mend(b'0   "a  b" \n') == b'0 "a  b"\n'


def test_one_column_that_no_known_mark_cuts_hints_at_the_delimiter(tmp_path):
    with pytest.raises(DataError) as caught:
        found(tmp_path / "x.txt", "time^eeg\n0^1\n1^2\n")
    assert "--delimiter" in caught.value.hint


def test_header_of_quoted_names_is_read_without_its_quotes(tmp_path):
    rows = "".join(f'{k * 0.25}\t{k}\t"on"\n' for k in range(9))
    table = found(tmp_path / "x.tsv", f'"time"\t"EDA [uS]"\t"what"\n{rows}')
    assert [(c.name, c.unit) for c in table.columns] == [("EDA [uS]", "uS"), ("what", None)]
    stream = table.read("x")
    assert stream.stamps_ns.tolist() == [k * 250_000_000 for k in range(9)]
    assert stream.data[:, 0].tolist() == list(range(9))


def test_quotes_of_some_cells_between_tabs_stay(tmp_path):
    text = 'time\t"a"\n' + "".join(f'{k}\t"{k}"\n' for k in range(9))
    assert found(tmp_path / "x.tsv", text).layout.quote is None
