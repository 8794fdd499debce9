"""Tables of labels joined to records."""

from __future__ import annotations

import msgspec
import pytest

from mmprep.errors import DataError, UsageError
from mmprep.manifest.model import Record, table_ref
from mmprep.steps.labels import cells, joining
from mmprep.steps.labels.origin import Origins


def _record(name, begin_s=0.0, duration_s=1.0, **more):
    ref = table_ref("tables/x", (0, 1), rate_hz=None, clock=None)
    return Record(
        id=name, session="s", begin_s=begin_s, duration_s=duration_s, streams={"x": ref}, **more
    )


def _table(tmp_path, text, on, **more):
    (tmp_path / "labels.tsv").write_text(text, encoding="utf-8")
    return joining.read(joining.Wish((str(tmp_path / "labels.tsv"),), (on,) if on else (), **more))


def test_join_by_id_fills_labels_and_label(tmp_path):
    table = _table(tmp_path, "id\tlabel\tage\na\thappy\t31\n", "id")
    (found,), said = table.join([_record("a")])
    assert (found.label, found.labels, said) == (
        "happy",
        {"label": "happy", "age": 31},
        [f"{tmp_path}/labels.tsv: 1 of 1 records have labels"],
    )


def test_join_by_a_column_of_another_name(tmp_path):
    table = _table(tmp_path, "code;valence\na;0.5\n", "id=code")
    (found,), _ = table.join([_record("a")])
    assert (found.label, found.labels) == (None, {"valence": 0.5})


def test_label_that_is_there_stays_where_the_table_has_none(tmp_path):
    table = _table(tmp_path, "id\tage\na\t31\n", "id")
    (found,), _ = table.join([_record("a", label="sad", labels={"x": 1})])
    assert (found.label, found.labels) == ("sad", {"x": 1, "age": 31})


def test_interval_labels_only_windows_that_it_covers_whole(tmp_path):
    table = _table(tmp_path, "session\tbegin_s\tend_s\tlabel\ns\t1\t3\tfear\n", "session")
    windows = [_record(str(k), begin_s=k / 2) for k in range(7)]
    found, _ = table.join(windows)
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
    assert len(table.tables[0].rows[("s",)]) == 2


def test_key_that_stands_twice_is_refused_unless_it_says_the_same(tmp_path):
    assert _table(tmp_path, "id\tlabel\na\thappy\na\thappy\n", "id").tables[0].rows[("a",)]
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
    _, (_, said) = table.join([_record("a")])
    assert "1 intervals cover no window (line 3" in said


def test_column_with_one_text_is_text(tmp_path):
    table = _table(tmp_path, "id\tage\na\t07\nb\t8\nc\t\n", "id")
    ages = [table.tables[0].rows[(key,)][0].values["age"] for key in "abc"]
    assert ages == ["07", "8", None]


def test_what_finds_no_partner_is_said(tmp_path):
    table = _table(tmp_path, "id\tx\na\t1\nz\t1\n", "id")
    _, (_, said) = table.join([_record("a"), _record("b")])
    assert "1 keys of the table match no record (z)" in said
    assert "1 of the records have no row (b)" in said


def test_no_partner_at_all_is_an_error_that_shows_both_sides(tmp_path):
    table = _table(tmp_path, "id\tx\nA\t1\n", "id")
    with pytest.raises(DataError, match="no row matches") as caught:
        table.join([_record("a")])
    assert "'a'" in caught.value.hint
    assert "'A'" in caught.value.hint


def test_field_that_no_record_has_is_an_error_that_names_theirs(tmp_path):
    table = _table(tmp_path, "film\tx\n1\t1\n", "film")
    with pytest.raises(DataError, match="no record has a field film") as caught:
        table.join([_record("a")])
    assert "id, session" in caught.value.hint


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
    found = cells.value(text)
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
    (found,), _ = table.join([_record("a")])
    assert found.labels == {"note": "one, two"}


def test_byte_order_mark_is_no_part_of_the_first_column(tmp_path):
    assert _table(tmp_path, "\ufeffid\tx\na\t1\n", "id").tables[0].rows.keys() == {("a",)}


def test_intervals_that_all_miss_are_an_error_that_names_the_range(tmp_path):
    rows = "s\t1680686630\t1680686640\tstress\n"
    table = _table(tmp_path, "session\tbegin_s\tend_s\tlabel\n" + rows, "session")
    with pytest.raises(DataError, match="the windows lie in 0 to 1 s") as caught:
        table.join([_record("a")], Origins({"s": 0}))
    assert "origin" in caught.value.hint


def test_columns_that_look_like_an_interval_are_said(tmp_path):
    table = _table(tmp_path, "session\tstart\tend\tlabel\ns\t0\t600\ta\n", "session")
    _, (_, said) = table.join([_record("a")])
    assert "start, end: no begin_s and end_s" in said


# Keys ---------------------------------------------------------------------------------------------


def test_keys_match_by_their_only_number(tmp_path):
    table = _table(tmp_path, "subject\tage\n7\t31\n12\t40\n", "subject")
    records = [_record("a", subject="P07"), _record("b", subject="P12")]
    found, said = table.join(records)
    assert [record.labels for record in found] == [{"age": 31}, {"age": 40}]
    assert "keys matched by their number: P07 is 7, P12 is 12" in said[1]


def test_key_that_matches_as_text_is_not_matched_by_number(tmp_path):
    table = _table(tmp_path, "subject\tage\nP07\t31\n7\t99\n", "subject")
    (found,), _ = table.join([_record("a", subject="P07")])
    assert found.labels == {"age": 31}


def test_number_that_two_keys_have_is_refused(tmp_path):
    table = _table(tmp_path, "subject\tage\n7\t31\n", "subject")
    with pytest.raises(DataError, match="C07 and P07 may each be 7"):
        table.join([_record("a", subject="P07"), _record("b", subject="C07")])


def test_keys_with_two_numbers_never_match_by_one(tmp_path):
    table = _table(tmp_path, "id\tage\n7\t31\n", "id")
    with pytest.raises(DataError, match="no row matches"):
        table.join([_record("P07/V07")])


def test_several_fields_make_one_key(tmp_path):
    rows = "7\t1\tcalm\n7\t2\tfear\n8\t1\tjoy\n"
    table = _table(tmp_path, "participant\tvideo\tlabel\n" + rows, "subject=participant,video")
    records = [
        _record(f"{subject}/{video}", subject=subject, extra={"video": video})
        for subject, video in (("P07", 1), ("P07", 2), ("P08", 1), ("P08", 3))
    ]
    found, said = table.join(records)
    assert [record.label for record in found] == ["calm", "fear", "joy", None]
    assert "1 of the records have no row (P08,3)" in said[-1]


@pytest.mark.parametrize("on", ["", "a,,b", "=x", "a=x,b=x"])
def test_key_without_sense_is_refused(tmp_path, on):
    with pytest.raises(UsageError, match="--on"):
        _table(tmp_path, "id\tx\n", on)


# Levels -------------------------------------------------------------------------------------------


def test_tables_of_two_levels_are_joined(tmp_path):
    (tmp_path / "people.tsv").write_text("subject\tage\nP1\t31\n")
    (tmp_path / "trials.tsv").write_text("id\tlabel\na\tfear\n")
    files = tuple(str(tmp_path / name) for name in ("people.tsv", "trials.tsv"))
    known = joining.read(joining.Wish(files, ("subject", "id")))
    (found, bare), _ = known.join([_record("a", subject="P1"), _record("b", subject="P1")])
    assert (found.labels, found.label) == ({"age": 31, "label": "fear"}, "fear")
    assert (bare.labels, bare.label) == ({"age": 31}, None)


def test_one_key_serves_all_tables_and_two_for_three_are_refused(tmp_path):
    for name in "abc":
        (tmp_path / name).write_text(f"id\t{name}\nx\t1\n")
    files = tuple(str(tmp_path / name) for name in "abc")
    (found,), _ = joining.read(joining.Wish(files, ("id",))).join([_record("x")])
    assert found.labels == {"a": 1, "b": 1, "c": 1}
    with pytest.raises(UsageError, match="3 --labels, 2 --on"):
        joining.read(joining.Wish(files, ("id", "session")))


# The class ----------------------------------------------------------------------------------------


def test_column_is_made_the_class(tmp_path):
    table = _table(tmp_path, "id\tmood\tlabel\na\tcalm\tx\n", "id", label="mood")
    (found,), _ = table.join([_record("a")])
    assert (found.label, found.labels) == ("calm", {"mood": "calm", "label": "x"})


def test_class_that_no_record_has_is_refused(tmp_path):
    table = _table(tmp_path, "id\tmood\na\tcalm\n", "id", label="arousal")
    with pytest.raises(UsageError, match="no record has a label 'arousal'") as caught:
        table.join([_record("a")])
    assert caught.value.hint == "there are mood"


@pytest.mark.parametrize(
    ("bins", "names"),
    [
        ("3,6", ["<3", "3..6", "3..6", ">=6", None]),
        ("low<3<mid<6<high", ["low", "mid", "mid", "high", None]),
    ],
)
def test_numbers_become_classes_by_half_open_bins(tmp_path, bins, names):
    rows = "a\t2.9\nb\t3\nc\t5.99\nd\t6\ne\tn/a\n"
    table = _table(tmp_path, "id\tvalence\n" + rows, "id", label="valence", bins=bins)
    found, _ = table.join([_record(name) for name in "abcde"])
    assert [record.label for record in found] == names
    assert found[0].labels == {"valence": 2.9}


def test_text_has_no_bin(tmp_path):
    table = _table(tmp_path, "id\tlabel\na\tcalm\n", "id", bins="3")
    with pytest.raises(DataError, match="a: the label is 'calm'"):
        table.join([_record("a")])


@pytest.mark.parametrize("bins", ["6,3", "3,3", "x", "3,", "low<3", "<3<", "a<3<a", "nan"])
def test_bins_without_sense_are_refused(tmp_path, bins):
    with pytest.raises(UsageError, match="--label-bins"):
        _table(tmp_path, "id\tlabel\n", "id", bins=bins)


# Continuous annotation ----------------------------------------------------------------------------

EVERY_5_S = "session\tt\tarousal\ns\t0\t1\ns\t5\t2\ns\t10\tn/a\n"


def test_annotation_holds_until_the_next_and_must_cover_the_window(tmp_path):
    table = _table(tmp_path, EVERY_5_S, "session", time="t")
    found, _ = table.join([_record(str(k), begin_s=k) for k in (0, 4, 4.5, 5, 9, 10, 14, 14.5)])
    assert [r.labels.get("arousal") for r in found] == [1, 1, None, 2, 2, None, None, None]
    assert ["arousal" in r.labels for r in found] == [True, True, False] + [True] * 4 + [False]


@pytest.mark.parametrize(
    ("agg", "values"),
    [("mean", [2.0, 7.5, None]), ("last", [3, 10, None]), ("mode", [1, 5, None])],
)
def test_points_inside_a_window_are_taken_together(tmp_path, agg, values):
    rows = "".join(f"s\t{t}\t{x}\n" for t, x in ((0, 1), (0.5, 3), (1.0, 5), (1.9, 10)))
    table = _table(tmp_path, "session\tt\tx\n" + rows, "session", time="t", agg=agg)
    found, _ = table.join([_record(str(k), begin_s=k) for k in range(3)])
    assert [record.labels.get("x") for record in found] == values


def test_missing_values_count_for_nothing_and_text_has_its_mode(tmp_path):
    rows = "s\t0\tn/a\tcalm\ns\t0.2\t4\tfear\ns\t0.4\t6\tfear\n"
    table = _table(tmp_path, "session\tt\tx\tmood\n" + rows, "session", time="t", agg="mean")
    (found,), _ = table.join([_record("a")])
    assert found.labels == {"x": 5.0, "mood": "fear"}


def test_annotation_that_lags_is_about_what_was_before(tmp_path):
    table = _table(tmp_path, EVERY_5_S, "session", time="t", lag_s=2.0)
    found, _ = table.join([_record(str(k), begin_s=k) for k in (0, 2, 3, 7, 8)])
    assert [record.labels.get("arousal") for record in found] == [1, 1, 2, 2, None]


def test_milliseconds_are_said(tmp_path):
    rows = "s\t0\t1\ns\t1000\t2\n"
    table = _table(tmp_path, "session\tt\tx\n" + rows, "session", time="t,unit=ms")
    found, _ = table.join([_record(str(k), begin_s=k) for k in range(2)])
    assert [record.labels["x"] for record in found] == [1, 2]


def test_unix_times_are_those_of_an_absolute_session(tmp_path):
    rows = "s\t1700000000\t1\ns\t1700000001\t2\n"
    table = _table(tmp_path, "session\tt\tx\n" + rows, "session", time="t")
    windows = [_record(str(k), begin_s=k) for k in range(2)]
    found, _ = table.join(windows, Origins({"s": 1_700_000_000 * 10**9}))
    assert [record.labels["x"] for record in found] == [1, 2]
    with pytest.raises(DataError, match="the session clock is not absolute"):
        table.join(windows, Origins({"s": None}))


def _of_trial(trial, onset_s, n=3, **more):
    extra = {"trial": trial, "onset_s": onset_s}
    return [_record(f"{trial}{k}", begin_s=onset_s + k, extra=extra, **more) for k in range(n)]


@pytest.mark.parametrize(
    ("time", "unit"), [("t,origin=trial", 1), ("t,unit=ms,origin=trial", 1000)]
)
def test_times_count_from_the_onset_of_each_trial(tmp_path, time, unit):
    rows = "".join(f"s\t{k * unit}\t{k + 1}\n" for k in range(3))
    table = _table(tmp_path, "session\tt\tx\n" + rows, "session", time=time)
    found, _ = table.join([*_of_trial("a", 4.5), *_of_trial("b", 20)])
    assert [record.labels["x"] for record in found] == [1, 2, 3, 1, 2, 3]


def test_times_of_each_trial_are_its_own_where_it_is_in_the_key(tmp_path):
    rows = "a\t0\t1\na\t1\t2\nb\t0\t7\nb\t1\t8\n"
    table = _table(tmp_path, "trial\tt\tx\n" + rows, "trial", time="t,origin=trial")
    found, _ = table.join([*_of_trial("a", 4.5, 2), *_of_trial("b", 20, 2)])
    assert [record.labels["x"] for record in found] == [1, 2, 7, 8]


def test_intervals_may_count_from_the_onset_too(tmp_path):
    rows = "s\t1\t2\tfear\n"
    table = _table(
        tmp_path,
        "session\tbegin_s\tend_s\tlabel\n" + rows,
        "session",
        time="begin_s,origin=trial",
    )
    found, _ = table.join(_of_trial("a", 4.5))
    assert [record.label for record in found] == [None, "fear", None]


def test_times_count_from_the_first_event_of_a_name(tmp_path):
    rows = "s\t0\t1\ns\t1\t2\n"
    table = _table(tmp_path, "session\tt\tx\n" + rows, "session", time="t,origin=film on, 2")
    windows = [_record(str(k), begin_s=k) for k in range(5)]
    found, said = table.join(windows, Origins({}, {"s": 2.0}))
    assert [record.labels.get("x") for record in found] == [None, None, 1, 2, None]
    assert not any("no event" in one for one in said)


def test_sessions_without_the_event_have_no_labels_and_are_named(tmp_path):
    rows = "s\t0\t1\nother\t0\t1\n"
    table = _table(tmp_path, "session\tt\tx\n" + rows + "s\t1\t2\n", "session", time="t,origin=go")
    other = msgspec.structs.replace(_record("o"), session="other")
    found, said = table.join([_record("a"), other], Origins({}, {"s": 0.0}))
    assert [record.labels for record in found] == [{"x": 1}, {}]
    assert any("1 sessions have no event 'go' (other)" in one for one in said)


def test_origin_that_no_record_has_is_refused(tmp_path):
    text = "session\tt\tx\ns\t0\t1\n"
    with pytest.raises(UsageError, match="there are no trials"):
        _table(tmp_path, text, "session", time="t,origin=trial").join([_record("a")])
    with pytest.raises(DataError, match="no session has an event 'go'"):
        _table(tmp_path, text, "session", time="t,origin=go").join([_record("a")])


def test_unix_times_count_from_nothing_else(tmp_path):
    table = _table(tmp_path, "session\tt\tx\ns\t1700000000\t1\n", "session", time="t,origin=trial")
    with pytest.raises(DataError, match="has Unix times, and origin=trial"):
        table.join(_of_trial("a", 4.5))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"time": "when"}, "no table has a column 'when'"),
        ({"time": "t,unit=h"}, "is not COLUMN"),
        ({"time": "t,ms"}, "is not COLUMN"),
        ({"time": "t", "agg": "median"}, "is none of cover, mean, last, mode"),
    ],
)
def test_time_without_sense_is_refused(tmp_path, more, message):
    with pytest.raises(UsageError, match=message):
        _table(tmp_path, EVERY_5_S, "session", **more)


def test_annotation_that_tells_of_no_window_is_an_error(tmp_path):
    table = _table(tmp_path, EVERY_5_S, "session", time="t", agg="mean")
    with pytest.raises(DataError, match=r"tells of a window \(mean\)"):
        table.join([_record("a", begin_s=1)])
