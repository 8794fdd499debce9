"""The one-pass reader of plain blocks: it must agree with the other ways, or give a block up."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mmprep.tables.layout import Layout
from mmprep.tables.parse import BlockParser
from mmprep.tables.parsed import Parsed
from mmprep.tables.plain import plain_kinds, read_plain
from mmprep.tables.stamps import stamp_reader

_cells = pytest.importorskip("mmprep.tables._cells", reason="installed without a compiler")

NULLS = (b"", b"NaN", b"-nan", b"-999")
relaxed = settings(deadline=None)
DIGITS = st.text("0123456789", min_size=1, max_size=24)
NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-1e5, 1e5).map(lambda x: f"{x:.3f}"),
    st.integers(-(10**20), 10**20).map(str),
    st.tuples(DIGITS, DIGITS).map(".".join),
    st.tuples(DIGITS, st.integers(-330, 330)).map(lambda p: f"{p[0]}e{p[1]}"),
    st.sampled_from(["5.", ".5", "-.5", ".", "-", "", "-0", "-0.0", "00", "0x1", "1e", "+1", " 1"]),
)


def read(text: str, kinds: str = "f", *, delimiter: str = "\t", scale: int = 9):
    return _cells.read(
        text.encode(), ord(delimiter), kinds.encode(), NULLS, ord("#"), b"time\tx", scale
    )


def values(text: str, kind: str = "f", **how):
    found = read(text, kind, **how)
    if found is None:
        return None
    return np.frombuffer(found[1][0][3], np.float64 if kind == "f" else np.int64).tolist()


@relaxed
@given(NUMBERS)
@example("9007199254740991")
@example("9007199254740992")
@example("0.1234567890123456789")
@example("2.2250738585072011e-308")
@example("4503599627370496.5")
@example("4503599627370497.5")
@example("1.00000000000000011102230246251565404")
def test_floats_are_rounded_as_python_rounds_them(text):
    for spaced in (text + "\n", text + "\n" + "0\n" * 8):  # the last bytes are read another way
        found = values(spaced)
        if found is None or text in ("", "NaN"):
            continue
        assert found[0] == float(text)
        assert math.copysign(1, found[0]) == math.copysign(1, float(text))
        assert abs(found[0]) < 2**53


@pytest.mark.parametrize(
    "text", ["1", "-1.5", "4169.23", "0.0543", "1e5", "1.5E-7", "0", "0.0", "12345678", "1234567.8"]
)
def test_usual_floats_are_read(text):
    assert values(f"{text}\n" * 3) == [float(text)] * 3


DOUBTFUL = "007 0x10 1.2.3 1e e5 . - --1 1- +1 inf 1,5 1_0 9007199254740993 1e16 00 1e99999 a"


@pytest.mark.parametrize("text", [*DOUBTFUL.split(), "1 ", " 1"])
def test_doubtful_floats_give_the_block_up(text):
    assert values(f"{text}\n") is None
    assert values(f"{text}\n" + "0\n" * 9) is None


@relaxed
@given(st.integers(-(2**63) - 2, 2**63 + 1))
def test_integers(number):
    text = f"{number}\n" + "1\n" * 8
    expected = [number] + [1] * 8 if -(2**63) <= number < 2**63 and number != -999 else None
    found = read(text, "i")
    if number == -999:
        assert found[1][0][1] == 1
    else:
        assert (None if found is None else values(text, "i")) == expected


@pytest.mark.parametrize("text", ["007", "1.0", "1.", "1e3", "-", "+1", "1 ", "-01"])
def test_what_is_no_integer_gives_the_block_up(text):
    assert values(f"{text}\n", "i") is None
    assert values(f"{text}\n" + "0\n" * 9, "i") is None


@relaxed
@given(st.decimals(-(10**9), 10**9, places=11), st.sampled_from([0, 3, 6, 9]))
def test_stamps_are_rounded_half_to_even(number, scale):
    expected = int(number.scaleb(scale).quantize(Decimal(1), ROUND_HALF_EVEN))
    assert values(f"{number:f}\n", "t", scale=scale) == [expected]


def test_stamps_that_int64_cannot_hold_give_the_block_up():
    assert values("9223372036.854775807\n", "t") == [2**63 - 1]
    assert values("9223372036.854775808\n", "t") is None
    assert values("99999999999999999999\n", "t") is None
    assert values("1e9\n", "t") is None


def test_missing_values_are_told_by_their_spelling():
    n_rows, columns = read("NaN\t-999\t-nan\n\t1\tx\n", "fis")
    assert n_rows == 2
    assert [column[1] for column in columns] == [2, 1, 1]
    valid, _, offsets, text = columns[2]
    assert np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")[:2].tolist() == [0, 1]
    assert np.frombuffer(offsets, np.int32).tolist() == [0, 0, 1]
    assert text == b"x"


@pytest.mark.parametrize(
    "text", ["1\t2\t3\n", "1\n", "1\t2\n\n", "# said\n1\t2\n", "1\t2\ntime\tx\n", "1\t2\ntime\tx"]
)
def test_lines_that_are_no_rows_give_the_block_up(text):
    assert read(text, "ss") is None


def test_a_line_that_only_begins_like_the_header_is_a_row():
    assert read("time\tx1\n", "ss")[0] == 1


def test_cells_that_must_be_empty():
    assert read("1\t\n", "f0")[0] == 1
    assert read("1\t2\n", "f0") is None
    assert read("1\t2\n", "f-")[1][1] is None


def test_no_lines():
    assert read("", "f")[0] == 0


def test_arguments_out_of_range_are_refused():
    with pytest.raises(ValueError, match="out of range"):
        _cells.read(b"1\n", 9, b"f" * 5000, NULLS, -1, b"", 9)
    with pytest.raises(ValueError, match="out of range"):
        _cells.read(b"1\n", 9, b"f", NULLS, -1, b"", 10)


CELLS = st.one_of(NUMBERS, st.sampled_from(["n/a", "on", "a b", "#N/A", "NULL", "é"]))


@relaxed
@given(
    st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1, max_size=12),
    st.lists(st.sampled_from(["null", "int64", "float64", "string"]), min_size=2, max_size=2),
    st.booleans(),
)
def test_it_agrees_with_the_other_ways(rows, kinds, ends):
    data = "\n".join("\t".join(row) for row in rows).encode() + b"\n" * ends
    layout = Layout(
        Path("x.tsv"), "x.tsv", ("time", "a", "b"), time_cell=0, stamps=stamp_reader("s", ["0.5"])
    )
    parser = BlockParser(layout, dict(zip("ab", kinds, strict=True)))
    plain = read_plain(data, layout, parser.kinds)
    if plain is not None:
        _assert_same(plain, parser._mixed(data))


def _assert_same(one: Parsed, other: Parsed) -> None:
    assert (one.n_lines, one.n_rows_in, one.n_rows) == (
        other.n_lines,
        other.n_rows_in,
        other.n_rows,
    )
    assert other.rejects == []
    assert other.misfits == {}
    assert one.stamps_ns.tolist() == other.stamps_ns.tolist()
    assert one.is_valid.tolist() == other.is_valid.tolist()
    for name, column in one.columns.items():
        assert column.equals(other.columns[name])
        column.validate(full=True)


@relaxed
@given(st.lists(st.lists(CELLS, min_size=2, max_size=2), min_size=1, max_size=8))
def test_the_kinds_that_cells_need_are_those_of_the_careful_way(rows):
    data = "".join("\t".join(row) + "\n" for row in rows).encode()
    parser = BlockParser(Layout(Path("x.tsv"), "x.tsv", ("a", "b")), {"a": "null", "b": "null"})
    found = plain_kinds(data, parser.layout, parser.kinds)
    careful = {name: misfit.kind for name, misfit in parser._mixed(data).misfits.items()}
    if found is not None:
        for name, kind in found.items():
            needed = careful.get(name, "null")
            assert kind == needed or (kind, needed) == ("float64", "string")  # widened when read
