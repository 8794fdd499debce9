"""Blocks of lines become columns of the smallest kind; bad rows are found to the line."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmprep.tables.kinds import misfits, smallest_kind
from mmprep.tables.layout import NULLS, Layout
from mmprep.tables.parse import BlockParser
from mmprep.tables.parsed import Reject
from mmprep.tables.stamps import stamp_reader

quick = settings(deadline=None, max_examples=80)
PLAIN = Layout(Path("x.tsv"), "x.tsv", ("a", "b"))
TIMED = replace(PLAIN, cells=("t", "b"), time_cell=0, stamps=stamp_reader("s", ["1"]))
CSV = replace(PLAIN, delimiter=",", quote='"')


def parse(data, layout=PLAIN, fixed=(), on_bad_row="skip", **kinds):
    return BlockParser(layout, kinds, frozenset(fixed), on_bad_row).parse(data)


def values(parsed):
    return {name: column.to_pylist() for name, column in parsed.columns.items()}


def slow_kind(texts):
    """Say by Python's own numbers which kind holds all texts."""
    known = [text for text in texts if text is not None]
    if not known:
        return "null"
    kinds = {_slow_kind_of(text) for text in known}
    if "string" in kinds:
        return "string"
    if kinds == {"int64"}:
        return "int64"
    digits = [text for text in known if text.lstrip("+-").isdigit()]
    return "float64" if all(int(t) == int(float(t)) for t in digits) else "string"


def _slow_kind_of(text):
    digits = text.lstrip("+-")
    if digits[:1] == "0" and digits[1:2] and digits[1] in "0123456789xX":
        return "string"
    if text.removeprefix("-").isdigit():
        return "int64" if -(2**63) <= int(text) < 2**63 else "float64"
    try:
        number = float(text)
    except ValueError:
        return "string"
    is_lost = math.isinf(number) and "inf" not in text.lower()
    return "string" if is_lost else "float64"


NUMBERS = st.one_of(
    st.integers(-(2**64), 2**64).map(str),
    st.integers(-9, 9).map(str),
    st.floats(allow_nan=False).map(repr),
    st.decimals(-1000, 1000, places=3).map(str),
    st.sampled_from(["0", "-0", "007", "-07", "0x1f", "0.5", ".5", "5.", "+5", "1e5", "1E-05"]),
)
CELLS = st.one_of(NUMBERS, st.sampled_from([None, "go", "1 2", "a b"]))


@quick
@given(st.lists(CELLS, min_size=1, max_size=12))
def test_smallest_kind_agrees_with_the_slow_way(texts):
    assert smallest_kind(pa.array(texts, pa.string())) == slow_kind(texts)


@quick
@given(st.lists(NUMBERS, min_size=1, max_size=12))
def test_column_read_as_its_kind_agrees_with_python(texts):
    kind = slow_kind(texts)
    data = "".join(f"x\t{text}\n" for text in texts).encode()
    parsed = parse(data, b=kind)
    make = {"int64": int, "float64": float, "string": str}[kind]
    assert values(parsed)["b"] == [make(text) for text in texts]


@quick
@given(st.lists(CELLS, min_size=1, max_size=12), st.sampled_from(["null", "int64", "float64"]))
def test_misfit_names_the_kind_that_the_block_needs(texts, kind):
    data = "".join(f"x\t{'' if text is None else text}\n" for text in texts).encode()
    misfit = parse(data, b=kind).misfits.get("b")
    wrong = misfits(pa.array(texts, pa.string()), kind)
    assert (misfit is not None) == wrong.any()
    if misfit is not None:
        assert misfit.line == int(np.argmax(wrong))
        assert not misfits(pa.array(texts, pa.string()), misfit.kind).any()


@pytest.mark.parametrize("null", NULLS)
def test_missing_cells_are_null_in_every_kind(null):
    data = f"{null}\t{null}\n1.5\tgo\n".encode()
    assert values(parse(data, a="float64", b="string")) == {"a": [None, 1.5], "b": [None, "go"]}


@pytest.mark.parametrize("null", [*NULLS, "-99"])
@pytest.mark.parametrize("others", ["1.5 2", "1 2", "NA 2.5"])
@pytest.mark.parametrize("decimal", [".", ","])
def test_spaces_around_a_missing_cell_say_nothing_among_numbers(null, others, decimal):
    layout = replace(PLAIN, nulls=(*NULLS, "-99"), decimal=decimal)
    cells = [*others.replace(".", decimal).split(), f" {null} "]
    kind = "int64" if others == "1 2" else "float64"
    for kinds in ({"a": kind}, {"a": "float64"}):
        parsed = parse("".join(f"{cell}\tx\n" for cell in cells).encode(), layout, **kinds)
        assert parsed.misfits == {}
        wanted = [None if cell == "NA" else float(cell) for cell in others.split()]
        assert values(parsed)["a"] == [*wanted, None]


def test_spaces_around_text_stay():
    assert values(parse(b" go\t1\n n/a\t2\n", a="string")) == {"a": [" go", " n/a"]}


def test_stamp_that_is_missing_may_have_spaces_around_it():
    parsed = parse(b"0.5\t1\n NaN \t2\n", TIMED, b="int64")
    assert (parsed.rejects, parsed.is_valid.tolist()) == ([], [True, False])


def test_given_null_is_missing_too():
    layout = replace(PLAIN, nulls=(*NULLS, "-999"))
    assert values(parse(b"-999\t1\n", layout, a="int64", b="int64"))["a"] == [None]


def test_spaces_around_numbers_do_not_count():
    assert values(parse(b" 1 \t2\n \t 3\n", a="int64", b="int64")) == {"a": [1, None], "b": [2, 3]}


def test_leading_zeros_make_a_number_column_text():
    assert parse(b"1\t2\n007\t3\n", a="int64", b="int64").misfits["a"].kind == "string"


def test_leading_zeros_behind_a_decimal_point_or_in_an_exponent_are_none():
    parsed = parse(b"0.05\t1e-05\n-0.007\t10.00\n", a="float64", b="float64")
    assert not parsed.misfits


def test_leading_zeros_of_a_declared_number_are_read():
    assert values(parse(b"x\t007\nx\t-08\n", fixed="b", b="int64"))["b"] == [7, -8]


def test_declared_number_that_does_not_fit_is_a_bad_cell():
    parsed = parse(b"1\tx\n2\t3\n", fixed="b", a="int64", b="int64")
    assert values(parsed) == {"a": [2], "b": [3]}
    assert parsed.rejects[0].reason == "b is 'x', expected int64"


def test_declared_number_that_does_not_fit_is_missing_with_null():
    parsed = parse(b"1\tx\n2\t3\n", fixed="b", on_bad_row="null", a="int64", b="int64")
    assert values(parsed) == {"a": [1, 2], "b": [None, 3]}
    assert [reject.raw for reject in parsed.rejects] == [b"1\tx"]


def test_unreadable_stamp_is_a_bad_cell():
    parsed = parse(b"1\t1\nsoon\t2\n3\t3\n", TIMED, b="int64")
    assert parsed.stamps_ns.tolist() == [10**9, 3 * 10**9]
    assert parsed.rejects[0].reason == "t is 'soon', no time (s)"


def test_missing_stamp_is_kept_as_missing():
    parsed = parse(b"1\t1\n\t2\n", TIMED, b="int64")
    assert parsed.is_valid.tolist() == [True, False]
    assert not parsed.rejects


BAD_LINES = {
    b"1": "1 cells, expected 2",
    b"1\t2\t3": "3 cells, expected 2",
    b"1\x00\t2": "NUL bytes",
    b"a\tb": "the header again",
    b"\xff\t2": "not UTF-8: byte 0xff",
}


@pytest.mark.parametrize("line", BAD_LINES)
def test_bad_line_is_rejected_with_its_reason(line):
    layout = replace(PLAIN, header=b"a\tb")
    parsed = parse(b"0\t0\n" + line + b"\n5\t5\n", layout, a="string", b="string")
    assert [(r.line, r.reason, r.raw) for r in parsed.rejects] == [(1, BAD_LINES[line], line)]
    assert values(parsed) == {"a": ["0", "5"], "b": ["0", "5"]}
    assert parsed.rows.tolist() == [0, 2]


@pytest.mark.parametrize("line", BAD_LINES)
def test_bad_line_becomes_missing_values_with_null(line):
    layout = replace(PLAIN, header=b"a\tb")
    parsed = parse(
        b"0\t0\n" + line + b"\n5\t5\n", layout, on_bad_row="null", a="string", b="string"
    )
    assert values(parsed) == {"a": ["0", None, "5"], "b": ["0", None, "5"]}


@quick
@given(st.lists(st.sampled_from([*BAD_LINES, b"1\t2", b"3\t4", b"", b"# c"]), max_size=15))
def test_every_line_is_accounted_for(lines):
    layout = replace(PLAIN, header=b"a\tb")
    parsed = parse(b"".join(line + b"\n" for line in lines), layout, a="int64", b="int64")
    good = [line.split(b"\t") for line in lines if line in (b"1\t2", b"3\t4")]
    assert values(parsed) == {"a": [int(a) for a, _ in good], "b": [int(b) for _, b in good]}
    assert [reject.raw for reject in parsed.rejects] == [x for x in lines if x in BAD_LINES]
    assert parsed.n_lines == len(lines)
    assert parsed.n_rows_in == len(good) + len(parsed.rejects)


def test_lone_quote_in_a_tab_separated_table_is_text():
    assert values(parse(b'5"\tx\n"\ty\n', a="string", b="string"))["a"] == ['5"', '"']


def test_line_end_inside_quotes_is_a_bad_line():
    parsed = parse(b'1,"a\nb",2\n3,c\n', CSV, a="int64", b="string")
    assert parsed.rejects[0].reason.startswith("a quote is left open")
    assert values(parsed) == {"a": [3], "b": ["c"]}


def test_quoted_cells_may_hold_the_delimiter_and_doubled_quotes():
    assert values(parse(b'1,"a,""b"""\n', CSV, a="int64", b="string"))["b"] == ['a,"b"']


def test_cut_last_line_says_so():
    parsed = parse(b"1\t2\n3", a="int64", b="int64")
    assert parsed.rejects[0].reason == "1 cells, expected 2, the line is cut"


def test_cell_that_must_be_empty_is_a_bad_row_if_it_is_not():
    layout = replace(PLAIN, cells=("a", "b", None))
    parsed = parse(b"1\t2\t\n3\t4\t5\n", layout, a="int64", b="int64")
    assert values(parsed) == {"a": [1], "b": [2]}
    assert parsed.rejects[0].reason == "3 cells, expected 2"


def test_blank_line_is_a_missing_value_in_a_table_of_one_column():
    layout = replace(PLAIN, cells=("a",))
    assert values(parse(b"1\n\n2\n", layout, a="int64"))["a"] == [1, None, 2]


def test_decimal_commas_and_points_between_thousands_are_read():
    layout = replace(CSV, delimiter=";", decimal=",")
    parsed = parse(b"1.234,56;1,5\n-2;1e3\n", layout, a="float64", b="float64")
    assert values(parsed) == {"a": [1234.56, -2.0], "b": [1.5, 1000.0]}


@pytest.mark.parametrize("text", [b"2.345", b"-12.500", b"1.234e3", b"1.5"])
def test_lone_point_among_decimal_commas_may_be_either_and_is_no_number(text):
    layout = replace(CSV, cells=("a",), delimiter=";", decimal=",")
    assert parse(b"1,5\n%b\n" % text, layout, a="float64").misfits["a"].kind == "string"


def test_points_between_thousands_are_told_by_a_comma_or_a_second_point():
    layout = replace(CSV, cells=("a",), delimiter=";", decimal=",")
    found = values(parse(b"1.234,5\n1.234.567\n-1.234,\n", layout, a="float64"))
    assert found["a"] == [1234.5, 1234567.0, -1234.0]


@pytest.mark.parametrize(("n_columns", "n_nulls"), [(4095, 255), (4097, 1), (5000, 1), (2, 300)])
def test_tables_of_any_width_are_read(n_columns, n_nulls):
    names = tuple(f"c{k}" for k in range(n_columns))
    layout = replace(CSV, cells=names, nulls=tuple(f"x{k}" for k in range(n_nulls)))
    lines = b"x0" + b",7" * (n_columns - 1) + b"\n" + b"2.5" + b",8" * (n_columns - 1) + b"\n"
    kinds = dict.fromkeys(names, "int64") | {"c0": "float64"}
    found = values(parse(lines, layout, **kinds))
    assert found["c0"] == [None, 2.5]
    assert found[names[-1]] == [7, 8]


def test_bad_row_with_a_cell_of_any_length_is_named_for_what_it_is():
    (reject,) = parse(b"1,2,%b\n" % (b"y" * 200_000), CSV, a="int64", b="int64").rejects
    assert reject.reason == "3 cells, expected 2"


def test_reason_shows_the_start_of_a_long_cell():
    layout = replace(CSV, cells=("a",))
    block = BlockParser(layout, {"a": "int64"}, frozenset({"a"}))
    (reject,) = block.parse(b"y" * 200_000 + b"\n").rejects
    assert reject.reason == f"a is '{'y' * 119}…, expected int64"


@pytest.mark.parametrize("text", ["1e309", "-1.8E+308", "1e0400", "9" * 310 + ".5"])
def test_number_beyond_float64_is_text_or_a_bad_cell(text):
    layout = replace(CSV, cells=("a",))
    lines = b"0.5\n%b\n" % text.encode()
    assert parse(lines, layout, a="float64").misfits["a"].kind == "string"
    (reject,) = parse(lines, layout, fixed=("a",), a="float64").rejects
    assert reject.line == 1


def test_largest_and_smallest_numbers_and_infinite_ones_are_read():
    layout = replace(CSV, cells=("a",))
    found = values(parse(b"1.7976931348623157e308\n1e-400\n-inf\n5e-324\n", layout, a="float64"))
    assert found["a"] == [1.7976931348623157e308, 0.0, -math.inf, 5e-324]


def test_decimal_point_among_decimal_commas_is_no_number():
    layout = replace(CSV, delimiter=";", decimal=",")
    assert parse(b"1,5;1\n1.5;2\n", layout, a="float64", b="int64").misfits["a"].kind == "string"


def test_channels_that_are_not_asked_for_are_not_read():
    assert values(parse(b"x\t1\n", b="int64")) == {"b": [1]}


def test_text_behind_a_closed_quote_is_read_as_the_csv_module_does_whatever_else_is_there():
    lines = b'1,"a"b,2\n3,c,4\n'
    layout = replace(CSV, cells=("a", "b", "c"))
    kinds = {"a": "int64", "b": "string", "c": "int64"}
    alone, beside = parse(lines, layout, **kinds), parse(lines + b"5\n", layout, **kinds)
    assert values(alone)["b"] == values(beside)["b"] == ["ab", "c"]
    assert [reject.line for reject in beside.rejects] == [2]


@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n", b"\n# c\n", b"\n\0,\n"])
def test_quote_left_open_in_the_last_row_is_a_bad_row(end):
    parsed = parse(b'1,a\n2,"b' + end, CSV, a="int64", b="string")
    assert values(parsed) == {"a": [1], "b": ["a"]}
    assert parsed.rejects[0] == Reject(1, "a quote is left open", b'2,"b')


def test_end_of_a_quote_is_no_row_however_many_quotes_the_line_before_has():
    parsed = parse(b'b","x\n1,y",z\n2,3\n', CSV, a="int64", b="string")
    assert [reject.line for reject in parsed.rejects] == [0, 1]
    assert values(parsed) == {"a": [2], "b": ["3"]}


def test_end_of_a_quote_that_a_line_with_nul_bytes_left_open_is_no_row():
    parsed = parse(b'1,"a\0\n2";b,3\n4,5\n', CSV, a="int64", b="int64")
    assert [reject.line for reject in parsed.rejects] == [0, 1]
    assert values(parsed) == {"a": [4], "b": [5]}
