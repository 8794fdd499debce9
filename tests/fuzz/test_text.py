"""Whatever stands in a table: the same rows, kinds, values and bad lines as the slow way finds."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mmprep.errors import DataError
from tests.fuzz import slow, target
from tests.fuzz.slow import Dialect

quick = settings(deadline=None, max_examples=150)

DIALECTS = st.builds(
    Dialect,
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from(['"', "'", None]),
    st.sampled_from(["skip", "null"]),
)
STAMPS = st.one_of(
    st.decimals(-(10**9), 10**9, places=9).map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.integers(-(10**19), 10**19).map(str),
    st.sampled_from(["", "n/a", "1", " 2 ", "1e3", "1_0", "١", "soon", "1e999", "-.5", "5."]),
)
CELLS = st.one_of(
    st.integers(-(2**64), 2**64).map(str),
    st.floats().map(repr),
    st.decimals(-1000, 1000, places=3).map(str),
    st.text("ab1 \"',;|#\t\0é٣\u00a0\u2028\x1c", max_size=5),
    st.sampled_from(
        ["", "NaN", "n/a", "#N/A", "null", "007", "0x1f", "1_0", "+5", ".5", "5.", "-0", "1e400"]
    ),
    st.sampled_from(['"a"', '"a""b"', '"x,y"', '"a"b', 'a"b', '"', "'a;b'", "inf", "-Infinity"]),
)
LINES = st.one_of(
    st.tuples(STAMPS, CELLS, CELLS),
    st.tuples(STAMPS, CELLS, CELLS),
    st.lists(CELLS, max_size=5).map(tuple),
)
ENDS = st.sampled_from(["\n", "\n", "\r\n", "\r", "\n\n"])


@st.composite
def tables_of_lines(draw):
    dialect = draw(DIALECTS)
    lines = draw(st.lists(st.tuples(LINES, ENDS), max_size=12))
    text = "".join(dialect.delimiter.join(cells) + end for cells, end in lines)
    return (text.rstrip("\r\n") if draw(st.booleans()) else text).encode(), dialect


@quick
@given(tables_of_lines())
@example((b'1,"a"b,1\n2,x\n', Dialect(",", '"')))
@example((b'1,2,"a\n', Dialect(",", '"', "null")))
@example((b"1_0,1,1\n", Dialect(",", None)))
def test_table_is_read_as_the_slow_way_reads_it(memory_folder, made):
    slow.check(*made, memory_folder)


@quick
@given(st.binary(max_size=60), DIALECTS)
@example(b"t,a,b\n1,2,3", Dialect(",", None))
@example(b"\n\n#\n#N/A,1,2\n", Dialect(",", '"'))
def test_any_bytes_are_read_as_the_slow_way_reads_them(memory_folder, data, dialect):
    slow.check(data, dialect, memory_folder)


@quick
@given(tables_of_lines(), st.integers(1, 40))
def test_where_blocks_are_cut_changes_nothing(memory_folder, made, block_bytes):
    data, dialect = made
    mark = (dialect.quote or "").encode()
    if mark and mark in data:  # a quote left open is known to its block alone
        dialect = Dialect(dialect.delimiter, None, dialect.on_bad_row)
    slow.check(data, dialect, memory_folder, block_bytes)


@quick
@given(tables_of_lines())
def test_first_bad_row_fails_with_its_line(memory_folder, made):
    data, dialect = made
    known = slow.read(data, Dialect(dialect.delimiter, dialect.quote, "skip"))
    failing = Dialect(dialect.delimiter, dialect.quote, "fail")
    if not known.bad:
        slow.check(data, failing, memory_folder)
        return
    with pytest.raises(DataError) as caught:
        slow.convert(data, failing, memory_folder)
    assert str(caught.value).startswith(f"x.csv:{known.bad[0]}: ")


@pytest.mark.parametrize("name", sorted(path.name for path in target.SEEDS.iterdir()))
def test_input_of_the_fuzzer_is_read_as_it_should_be(memory_folder, name):
    target.replay((target.SEEDS / name).read_bytes(), memory_folder)
