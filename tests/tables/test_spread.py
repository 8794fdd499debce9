"""A long table is spread over the values of a column, no row lost, in bounded memory."""

from __future__ import annotations

import bz2
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmprep import files, tables
from mmprep.errors import DataError
from mmprep.tables import Spread, spread

CELLS = ("key", "t", "x")


@pytest.fixture
def spread_text(tmp_path):
    def run(text, *, name="long.csv", n_preamble=0, nulls=tables.NULLS, **options):
        path = tmp_path / name
        data = text.encode() if isinstance(text, str) else text
        path.write_bytes(bz2.compress(data) if name.endswith(".bz2") else data)
        layout = tables.Layout(
            path, name, CELLS, delimiter=",", quote='"', n_preamble=n_preamble, nulls=nulls
        )
        folder = tmp_path / f"parts{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        return Spread(layout, "key", folder, **options)

    return run


def rows_of(found):
    """Give the lines of each value, with their numbers in the source."""
    return {
        name: list(
            zip(
                np.fromfile(value.numbers, np.int64).tolist(),
                value.path.read_bytes().splitlines(),
                strict=True,
            )
        )
        for name, value in found.values.items()
    }


def test_rows_keep_their_order_and_the_numbers_of_their_lines(spread_text):
    found = spread_text("key,t,x\nb,0,1\na,0,2\n# said\n\nb,1,3\n", n_preamble=1)
    assert rows_of(found) == {"b": [(2, b"b,0,1"), (6, b"b,1,3")], "a": [(3, b"a,0,2")]}
    assert (found.n_rows_in, found.n_rejected, found.n_comments) == (3, 0, 1)
    assert found.notes == ("1 lines below the header start with # and were taken for comments",)


@pytest.mark.parametrize("block_bytes", [1, 7, 64, 1 << 20])
@pytest.mark.parametrize("name", ["long.csv", "long.csv.bz2"])
def test_blocks_change_nothing(spread_text, block_bytes, name):
    rng = random.Random(3)
    lines = [f"{rng.choice('abc')},{k},{k}" for k in range(200)]
    text = "\n".join(lines)  # without a line end
    found = spread_text(text, name=name, block_bytes=block_bytes)
    wanted = {key: [] for key in dict.fromkeys(line[0] for line in lines)}
    for k, line in enumerate(lines):
        wanted[line[0]].append((k + 1, line.encode()))
    assert rows_of(found) == wanted
    assert list(found.values) == list(wanted)
    assert found.notes == ("the last line has no line end: its last value may be cut",)


def test_quotes_and_spaces_are_no_part_of_a_value(spread_text):
    found = spread_text('"a, b",0,1\n a ,1,2\na,2,3\n"a",3,4\n')
    assert {name: value.n_rows for name, value in found.values.items()} == {"a, b": 1, "a": 3}


def test_rows_without_a_value_are_rejected_and_kept(spread_text):
    kept = []
    text = b"a,0,1\n,1,2\nNA,2,3\n  ,3,4\na,4\na,5\xff,6\n-,6,7\na\0,7,8\nb,8,9\n"
    found = spread_text(text, on_bad_row="skip", take=kept.append, nulls=(*tables.NULLS, "-"))
    assert [(reject.line, reject.reason) for reject in kept] == [
        (2, "no value in 'key'"),
        (3, "no value in 'key'"),
        (4, "no value in 'key'"),
        (5, "2 cells, expected 3"),
        (6, "not UTF-8: byte 0xff"),
        (7, "no value in 'key'"),
        (8, "NUL bytes"),
    ]
    assert kept[0].raw == b",1,2"
    assert (found.n_rows_in, found.n_rejected) == (9, 7)
    assert rows_of(found) == {"a": [(1, b"a,0,1")], "b": [(9, b"b,8,9")]}


@pytest.mark.parametrize("block_bytes", [1, 9, 1000])
def test_row_that_is_no_text_is_rejected_whatever_stands_beside_it(spread_text, block_bytes):
    kept = []
    text = "ä,0,1\n".encode() + b"a,5\xff,6\na,6,7\n"
    options = {"on_bad_row": "skip", "take": kept.append, "block_bytes": block_bytes}
    found = spread_text(text, **options)
    assert [(reject.line, reject.reason) for reject in kept] == [(2, "not UTF-8: byte 0xff")]
    assert {name: value.n_rows for name, value in found.values.items()} == {"ä": 1, "a": 1}


def test_row_without_a_value_is_a_located_error(spread_text):
    with pytest.raises(DataError, match=r"^long\.csv:2: no value in 'key': ,1,2$") as caught:
        spread_text("a,0,1\n,1,2\n")
    assert "rejects/" in caught.value.hint


def test_too_many_values_are_a_located_error(spread_text):
    spread_text("".join(f"{k},0,1\n{k},1,1\n" for k in range(1000)))
    with pytest.raises(DataError, match=r"^long\.csv:2001: the column 'key' has more than 1000"):
        spread_text("".join(f"{k},0,1\n{k},1,1\n" for k in range(1001)))


def test_readings_are_no_names(spread_text):
    text = "".join(f"{k / 7},{k},1\n" for k in range(60))
    with pytest.raises(DataError, match=r"^long\.csv: the column 'key' has 60 values in 60 rows"):
        spread_text(text)
    with pytest.raises(DataError, match=r"^long\.csv:1: .* value of over 100 bytes"):
        spread_text("x" * 101 + ",0,1\n")


def test_column_without_any_value_is_an_error(spread_text):
    with pytest.raises(DataError, match=r"long\.csv: no row has a value in 'key'"):
        spread_text(",0,1\n", on_bad_row="skip")


def test_only_the_first_rows_are_kept_where_that_is_asked(spread_text):
    text = "".join(f"a,{k},1\n" for k in range(1000)) + "b,0,1\n"
    found = spread_text(text, n_head_bytes=50, block_bytes=40)
    assert {name: value.n_rows for name, value in found.values.items()} == {"a": 1000, "b": 1}
    lines = rows_of(found)
    assert 6 <= len(lines["a"]) < 20
    assert lines["b"] == [(1001, b"b,0,1")]


def test_what_waits_in_memory_is_bounded(spread_text, monkeypatch):
    most = []

    class Watched(spread.ValueRows):
        def flush(self):
            most.append(sum(map(len, self.lines)))
            super().flush()

    monkeypatch.setattr(spread, "HELD_BYTES", 5000)
    monkeypatch.setattr(spread, "ValueRows", Watched)
    text = "".join(f"{k % 3},{k},1\n" for k in range(20_000))
    found = spread_text(text, block_bytes=1000)
    assert max(most) <= 5000
    assert sum(value.n_rows for value in found.values.values()) == 20_000
    assert sum(map(len, rows_of(found).values())) == 20_000


def test_digest_is_that_of_the_file(spread_text, tmp_path):
    found = spread_text("a,0,1\nb,0,1\n", name="long.csv.bz2")
    assert found.digest == files.digest(tmp_path / "long.csv.bz2")


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "", "c c"]), st.integers(0, 9))),
    st.integers(1, 40),
)
def test_every_row_goes_where_it_belongs(tmp_path_factory, rows, block_bytes):
    top = tmp_path_factory.mktemp("spread")
    (top / "x.csv").write_text("".join(f"{key},{k},{x}\n" for k, (key, x) in enumerate(rows)))
    layout = tables.Layout(top / "x.csv", "x.csv", CELLS, delimiter=",")
    kept = []
    options = {"on_bad_row": "skip", "take": kept.append, "block_bytes": block_bytes}
    if not any(key for key, _ in rows):
        with pytest.raises(DataError, match="no row has a value"):
            Spread(layout, "key", top, **options)
        return
    found = Spread(layout, "key", top, **options)
    for name, lines in rows_of(found).items():
        assert lines == [
            (k + 1, f"{key},{k},{x}".encode()) for k, (key, x) in enumerate(rows) if key == name
        ]
    assert [reject.line for reject in kept] == [k + 1 for k, (key, _) in enumerate(rows) if not key]
