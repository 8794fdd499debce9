"""Well-formed tables of any dialect and encoding are found out, and read to the last digit."""

from __future__ import annotations

import csv
import io
from decimal import ROUND_HALF_EVEN, Decimal

import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from mmprep import tables
from mmprep.sources import text
from mmprep.sources.base import TextOptions
from mmprep.tables import Widen
from tests.tables.test_parse import slow_kind

quick = settings(deadline=None, max_examples=100)

INTEGERS = st.integers(-(2**63), 2**63 - 1).map(str)
NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(-1000, 1000, places=4).map(str),
    st.floats(0.001, 999).map(lambda x: f"{x:.5e}"),
)
WORDS = st.text("abcxyz äß", min_size=1, max_size=6).map(lambda word: f"<{word}>")
NULLS = st.sampled_from(["", "n/a", "NaN", "NULL"])
COLUMN = st.sampled_from([INTEGERS, NUMBERS, WORDS]).flatmap(
    lambda cells: st.lists(st.one_of(cells, cells, NULLS), min_size=3, max_size=12)
)
ENCODINGS = st.sampled_from(
    ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "gb18030"]
)
# Digits of a Unix time to the nanosecond, and stamps that are finer than that.
STAMPS_S = st.decimals(10**9, 2 * 10**9, places=9) | st.decimals(10**9, 2 * 10**9, places=12)


@st.composite
def columns(draw):
    found = draw(st.lists(COLUMN, min_size=1, max_size=4))
    n_rows = min(map(len, found))
    stamps = draw(st.lists(STAMPS_S, min_size=n_rows, max_size=n_rows))
    return stamps, [column[:n_rows] for column in found]


@st.composite
def forms(draw):
    delimiter = draw(st.sampled_from("\t,;|"))
    line_end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    quoting = (
        csv.QUOTE_MINIMAL
        if delimiter == "\t"
        else draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    )
    return delimiter, line_end, quoting, draw(st.booleans()), draw(st.booleans())


def written(stamps, cells, form):
    """Write a table by the csv module, blank lines and comments strewn in."""
    delimiter, line_end, quoting, with_blank_lines, with_last_end = form
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter, lineterminator=line_end, quoting=quoting)
    writer.writerow(["t_s", *(f"c{k}" for k in range(len(cells)))])
    for number, row in enumerate(zip(stamps, *cells, strict=True)):
        if with_blank_lines and number % 3 == 1:
            file.write(line_end + "# a gap" + line_end)
        writer.writerow([f"{row[0]:f}", *row[1:]])
    content = file.getvalue()
    return content if with_last_end else content.removesuffix(line_end)


def converted(path, options):
    """Convert a table as a step does it."""
    (claim,) = text.claim("", [path.name], path.parent)
    target = tables.Target(path.with_suffix(".parquet"), "i")
    schema = text.probe(claim, path.parent, options)["x"]
    while True:
        try:
            facts = text.write(claim, path.parent, "x", schema, target, options=options)
            return facts, pq.read_table(target.path)
        except Widen as wanted:
            schema = schema.widened(wanted)


@quick
@given(columns(), forms(), ENCODINGS)
def test_table_of_any_form_is_found_out_and_read_exactly(memory_folder, made, form, encoding):
    stamps, cells = made
    path = memory_folder / "x.csv"
    path.write_bytes(written(stamps, cells, form).encode(encoding))
    said = encoding if encoding in ("latin-1", "gb18030") else None
    facts, table = converted(path, TextOptions(encoding=said))
    known_ns = [int((s * 10**9).to_integral_value(ROUND_HALF_EVEN)) for s in map(Decimal, stamps)]
    assert table.column("time").cast("int64").to_pylist() == known_ns
    assert facts.n_rows_in == facts.rows == len(stamps)
    for name, column in zip(table.column_names[2:], cells, strict=True):
        filled = [None if cell in tables.NULLS else cell for cell in column]
        kind = slow_kind(filled)
        make = {"null": float, "int64": int, "float64": float, "string": str}[kind]
        assert table.column(name).to_pylist() == [c if c is None else make(c) for c in filled], kind


@quick
@given(columns(), st.sampled_from([0, 1, 5, 17]))
def test_decimal_commas_are_read_as_points_are(memory_folder, made, n_decimals):
    stamps, cells = made
    numbers = [[f"{Decimal(len(cell)) / 7:.{n_decimals}f}" for cell in column] for column in cells]
    path = memory_folder / "x.csv"
    form = (";", "\n", csv.QUOTE_MINIMAL, False, True)
    path.write_text(written(stamps, numbers, form).replace(".", ","))
    _, table = converted(path, TextOptions())
    for name, column in zip(table.column_names[2:], numbers, strict=True):
        assert table.column(name).to_pylist() == [float(cell) for cell in column]
