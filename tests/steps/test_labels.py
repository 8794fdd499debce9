"""Tables of labels joined to records."""

from __future__ import annotations

import pytest

from mmprep.errors import DataError, UsageError
from mmprep.manifest.model import Record, table_ref
from mmprep.steps import labels


def _record(name, begin_s=0.0, duration_s=1.0, **more):
    ref = table_ref("tables/x", (0, 1), rate_hz=None, clock=None)
    return Record(
        id=name, session="s", begin_s=begin_s, duration_s=duration_s, streams={"x": ref}, **more
    )


def _table(tmp_path, text, on):
    (tmp_path / "labels.tsv").write_text(text, encoding="utf-8")
    return labels.read(str(tmp_path / "labels.tsv"), on)


def test_join_by_id_fills_labels_and_label(tmp_path):
    table = _table(tmp_path, "id\tlabel\tage\na\thappy\t31\n", "id")
    (found,), said = labels.join([_record("a")], [table])
    assert (found.label, found.labels, said) == (
        "happy",
        {"label": "happy", "age": 31},
        [f"{tmp_path}/labels.tsv: 1 of 1 records have labels"],
    )


def test_join_by_a_column_of_another_name(tmp_path):
    table = _table(tmp_path, "code;valence\na;0.5\n", "id=code")
    (found,), _ = labels.join([_record("a")], [table])
    assert (found.label, found.labels) == (None, {"valence": 0.5})


def test_label_that_is_there_stays_where_the_table_has_none(tmp_path):
    table = _table(tmp_path, "id\tage\na\t31\n", "id")
    (found,), _ = labels.join([_record("a", label="sad", labels={"x": 1})], [table])
    assert (found.label, found.labels) == ("sad", {"x": 1, "age": 31})


def test_interval_labels_only_windows_that_it_covers_whole(tmp_path):
    table = _table(tmp_path, "session\tbegin_s\tend_s\tlabel\ns\t1\t3\tfear\n", "session")
    windows = [_record(str(k), begin_s=k / 2) for k in range(7)]
    found, _ = labels.join(windows, [table])
    assert [record.label for record in found] == [None, None] + ["fear"] * 3 + [None, None]
    assert "begin_s" not in found[2].labels


@pytest.mark.parametrize(("begin_s", "end_s"), [("0", "2"), ("1", "3"), ("1.5", "1.75")])
def test_intervals_that_contradict_each_other_are_refused(tmp_path, begin_s, end_s):
    rows = f"s\t0\t2\tfirst\ns\t{begin_s}\t{end_s}\tsecond\n"
    with pytest.raises(DataError, match=r"labels\.tsv:3: contradicts line 2"):
        _table(tmp_path, "session\tbegin_s\tend_s\tlabel\n" + rows, "session")


def test_intervals_that_touch_are_apart(tmp_path):
    rows = "s\t0\t2\tfirst\ns\t2\t4\tsecond\n"
    table = _table(tmp_path, "session\tbegin_s\tend_s\tlabel\n" + rows, "session")
    assert len(table.rows["s"]) == 2


def test_key_that_stands_twice_is_refused_unless_it_says_the_same(tmp_path):
    assert _table(tmp_path, "id\tlabel\na\thappy\na\thappy\n", "id").rows["a"]
    with pytest.raises(DataError, match=r"labels\.tsv:3: contradicts line 2"):
        _table(tmp_path, "id\tlabel\na\thappy\na\tsad\n", "id")


@pytest.mark.parametrize("header", ["begin_s", "end_s"])
def test_half_an_interval_is_refused(tmp_path, header):
    with pytest.raises(UsageError, match=f"has {header} alone"):
        _table(tmp_path, f"id\t{header}\tlabel\na\t1\tx\n", "id")


@pytest.mark.parametrize("text", ["nan", "n/a", "x", ""])
def test_interval_that_is_no_number_is_refused(tmp_path, text):
    rows = f"a\t{text}\t2\tx\n"
    with pytest.raises(DataError, match="expected seconds"):
        _table(tmp_path, "id\tbegin_s\tend_s\tlabel\n" + rows, "id")


def test_interval_beyond_the_recording_is_counted(tmp_path):
    rows = "s\t0\t2\tfirst\ns\t100\t108\tsecond\n"
    table = _table(tmp_path, "session\tbegin_s\tend_s\tlabel\n" + rows, "session")
    _, (_, said) = labels.join([_record("a")], [table])
    assert "1 intervals cover no window (line 3" in said


def test_column_with_one_text_is_text(tmp_path):
    table = _table(tmp_path, "id\tage\na\t07\nb\t8\nc\t\n", "id")
    ages = [table.rows[key][0].values["age"] for key in "abc"]
    assert ages == ["07", "8", None]


def test_what_finds_no_partner_is_said(tmp_path):
    table = _table(tmp_path, "id\tx\na\t1\nz\t1\n", "id")
    _, (_, said) = labels.join([_record("a"), _record("b")], [table])
    assert "1 keys of the table match no record (z)" in said
    assert "1 of the records have no row (b)" in said


def test_no_partner_at_all_is_an_error_that_shows_both_sides(tmp_path):
    table = _table(tmp_path, "id\tx\nA\t1\n", "id")
    with pytest.raises(DataError, match="no row matches") as caught:
        labels.join([_record("a")], [table])
    assert "'a'" in caught.value.hint
    assert "'A'" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-3", -3),
        ("0", 0),
        ("0.50", 0.5),
        ("1e3", 1000.0),
        ("1e300", 1e300),
        ("007", "007"),
        ("-01", "-01"),
        ("1_2", "1_2"),
        ("inf", "inf"),
        ("12345678901234567890", "12345678901234567890"),
        ("", None),
        ("n/a", None),
        ("NaN", None),
        ("愤怒", "愤怒"),
    ],
)
def test_cell_becomes_a_number_only_where_nothing_is_lost(text, value):
    found = labels.value(text)
    assert (found, type(found)) == (value, type(value))


def test_missing_on_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="needs --on"):
        _table(tmp_path, "id\tx\n", None)


def test_unknown_column_names_the_known(tmp_path):
    with pytest.raises(UsageError, match="no column 'code'") as caught:
        _table(tmp_path, "id\tx\n", "id=code")
    assert caught.value.hint == "columns: id, x"


def test_short_row_is_located(tmp_path):
    with pytest.raises(DataError, match=r"labels.tsv:3: 1 cells, expected 2"):
        _table(tmp_path, "id\tx\na\t1\nb\n", "id")


@pytest.mark.parametrize(
    ("cell", "message"), [("soon", "expected seconds"), ("0", "before it begins")]
)
def test_bad_interval_is_located(tmp_path, cell, message):
    with pytest.raises(DataError, match=rf"labels.tsv:2: .*{message}"):
        _table(tmp_path, f"id\tbegin_s\tend_s\na\t1\t{cell}\n", "id")


def test_empty_table_is_bad_input(tmp_path):
    with pytest.raises(DataError, match=r"labels.tsv: is empty"):
        _table(tmp_path, "", "id")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id\tx\tx\na\t1\t2\n", "labels.tsv:1: two columns are called 'x'"),
        ("id\tx\na\t" + "y" * 140_000 + "\n", "labels.tsv:2: field larger"),
    ],
)
def test_table_that_cannot_be_read_without_loss_is_refused(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        _table(tmp_path, text, "id")


def test_quoted_cell_keeps_its_delimiter(tmp_path):
    table = _table(tmp_path, 'id,note\na,"one, two"\n', "id")
    (found,), _ = labels.join([_record("a")], [table])
    assert found.labels == {"note": "one, two"}


def test_byte_order_mark_is_no_part_of_the_first_column(tmp_path):
    assert _table(tmp_path, "\ufeffid\tx\na\t1\n", "id").rows.keys() == {"a"}


def test_intervals_that_all_miss_are_an_error_that_names_the_range(tmp_path):
    rows = "s\t1680686630\t1680686640\tstress\n"
    table = _table(tmp_path, "session\tbegin_s\tend_s\tlabel\n" + rows, "session")
    with pytest.raises(DataError, match="the windows lie in 0 to 1 s") as caught:
        labels.join([_record("a")], [table])
    assert "origin" in caught.value.hint


def test_columns_that_look_like_an_interval_are_said(tmp_path):
    table = _table(tmp_path, "session\tstart\tend\tlabel\ns\t0\t600\ta\n", "session")
    _, (_, said) = labels.join([_record("a")], [table])
    assert "start, end: no begin_s and end_s" in said
