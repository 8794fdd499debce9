"""Trials through `align`: windows that begin at onsets, what is left out, fields and labels."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmprep import DataError, UsageError, open_dataset, run_align, run_convert
from mmprep.manifest.codec import read_manifest
from mmprep.steps.base import FailedItemsError

RATE_HZ, LENGTH_S = 16, 40
HEAD = "onset\tduration\ttrial_type\trt\n"
TRIALS = HEAD + "2\t3.5\tgo\t0.3\n10\t2\tstop\tn/a\n"


@pytest.fixture
def aligned(tmp_path):
    """Align a signal whose value is its time with trials, and read the records."""
    rows = "".join(f"{k / RATE_HZ}\t{k / RATE_HZ}\n" for k in range(RATE_HZ * LENGTH_S))
    (tmp_path / "x.tsv").write_text("time\tx\n" + rows)

    def run(text=TRIALS, out="out", name="trials.tsv", **options):
        if text is not None:
            (tmp_path / name).write_text(text, encoding="utf-8")
            options = {"trials": str(tmp_path / name)} | options
        options = {"stream": (f"x={tmp_path}/x.tsv",), "engine": "serial"} | options
        run_align(output=tmp_path / out, **options)
        return list(read_manifest(tmp_path / out / "manifest.jsonl"))

    return run


def trials_of(folder: Path, session: str = "session") -> dict:
    return json.loads((folder / f"sync/{session}.json").read_text())["trials"]


def counts_of(folder: Path) -> dict:
    return json.loads((folder / "sync/session.json").read_text())["streams"][0]["accounting"]


def spans(records):
    return [(record.begin_s, record.duration_s) for record in records]


def test_windows_begin_at_onsets_and_rests_are_dropped_and_counted(aligned, tmp_path):
    records = aligned()
    assert spans(records) == [(2, 1), (3, 1), (4, 1), (10, 1), (11, 1)]
    assert [record.id[-6:] for record in records] == [f"{k:06d}" for k in range(5)]
    found = trials_of(tmp_path / "out")
    assert (found["used"], found["rests"], found["tail"]) == (2, 1, "drop")


def test_records_have_the_fields_and_labels_of_their_trial(aligned):
    first, *_, last = aligned()
    extra = {name: first.extra[name] for name in ("trial", "phase", "onset_s")}
    assert extra == {"trial": 1, "phase": "trial", "onset_s": 2}
    assert first.labels == {"trial_type": "go", "rt": 0.3}
    assert (last.extra["trial"], last.labels) == (2, {"trial_type": "stop", "rt": None})


def test_values_are_those_of_the_window(aligned, tmp_path):
    records = aligned()
    for row, record in zip(open_dataset(tmp_path / "out"), records, strict=True):
        times = record.begin_s + np.arange(RATE_HZ) / RATE_HZ
        np.testing.assert_allclose(row["x"][:, 0], times, atol=1e-4)
        assert row["x.valid"].all()


def test_padded_rest_is_masked_behind_the_end(aligned, tmp_path):
    rest = aligned(tail="pad")[3]
    assert (rest.begin_s, rest.duration_s, rest.valid["x"]) == (5, 0.5, 0.5)
    row = open_dataset(tmp_path / "out", fill="nan")[3]
    assert row["x.valid"].tolist() == [True] * 8 + [False] * 8
    assert np.isnan(row["x"][8:]).all()


def test_padding_is_no_gap_but_counts_for_the_share(aligned):
    assert len(aligned(tail="pad", on_gap="drop")) == 6
    assert len(aligned(tail="pad", min_valid=0.6, out="rich")) == 5


def test_baseline_makes_records_of_their_own_without_a_class(aligned):
    records = aligned(TRIALS.replace("trial_type", "label"), baseline="2")
    baseline = [record for record in records if record.extra["phase"] == "baseline"]
    assert spans(baseline) == [(0, 1), (1, 1), (8, 1), (9, 1)]
    assert [record.extra["trial"] for record in baseline] == [1, 1, 2, 2]
    assert {record.label for record in baseline} == {None}
    assert [r.label for r in records if r.extra["phase"] == "trial"] == ["go"] * 3 + ["stop"] * 2


def test_overlapping_trials_have_windows_of_their_own(aligned):
    records = aligned(HEAD + "2\t2\ta\t1\n3\t2\tb\t1\n")
    found = [(record.begin_s, record.labels["trial_type"]) for record in records]
    assert found == [(2, "a"), (3, "a"), (3, "b"), (4, "b")]


def test_trials_that_are_left_out_are_counted_with_their_reason(aligned, tmp_path):
    bad = "-9\t3\ta\t1\n3\t0.5\tb\t1\n4\t0\tc\t1\n5\tn/a\td\t1\n6\t-1\te\t1\n90\t5\tf\t1\n"
    aligned(TRIALS + bad)
    found = trials_of(tmp_path / "out")
    names = ("trials", "used", "outside", "short", "zero_length", "no_end", "dropped")
    assert [found[name] for name in names] == [8, 2, 2, 1, 3, 0, 0]
    reasons = [(one["onset_s"], one["trial"], one["reason"]) for one in found["left_out"]]
    assert reasons == [
        (-9, 1, "outside"),
        (3, 3, "short"),
        (4, None, "zero_length"),
        (5, None, "zero_length"),
        (6, None, "zero_length"),
        (90, 5, "outside"),
    ]


def test_trial_that_the_recording_cuts_ends_with_it(aligned, tmp_path):
    records = aligned(HEAD + "-1.5\t3\ta\t1\n37.5\t9\tb\t1\n")
    assert spans(records) == [(0.5, 1), (37.5, 1), (38.5, 1)]
    assert trials_of(tmp_path / "out")["cut"] == 2


def test_trial_whose_windows_are_all_dropped_is_counted(aligned, tmp_path):
    text = (tmp_path / "x.tsv").read_text().splitlines(keepends=True)
    (tmp_path / "x.tsv").write_text("".join(text[:161] + text[209:]))  # no sample in [10, 13)
    records = aligned(on_gap="drop")
    found = trials_of(tmp_path / "out")
    assert (found["used"], found["dropped"]) == (1, 1)
    assert {record.extra["trial"] for record in records} == {1}


def test_repeated_rows_and_rows_without_a_time_are_counted(aligned, tmp_path):
    aligned(TRIALS + "2\t3.5\tgo\t0.3\nn/a\t1\tlost\t1\n")
    found = trials_of(tmp_path / "out")
    assert [found[name] for name in ("rows", "corrupt", "duplicate", "trials")] == [4, 1, 1, 2]


def test_rows_of_the_stream_outside_of_all_trials_are_counted(aligned, tmp_path):
    aligned(method=("x=nearest",))
    counts = counts_of(tmp_path / "out")
    assert counts["used"] == 5 * RATE_HZ
    assert counts["masked"] == RATE_HZ // 2  # the rest that was dropped
    assert counts["out_of_range"] == (2 + LENGTH_S - 12) * RATE_HZ
    assert counts["outside_trials"] == int(4.5 * RATE_HZ)
    assert counts.pop("in") == sum(counts.values())


def test_rows_of_a_baseline_are_those_of_its_trial(aligned, tmp_path):
    aligned(method=("x=nearest",), baseline="1.5")
    counts = counts_of(tmp_path / "out")
    assert counts["used"] == 7 * RATE_HZ
    assert counts["masked"] == (0.5 + 2 * 0.5) * RATE_HZ  # what is left of trials and baselines
    assert counts["outside_trials"] == 3 * RATE_HZ


def test_rows_of_whole_trials_are_used(aligned, tmp_path):
    aligned(method=("x=nearest",), window="trial")
    counts = counts_of(tmp_path / "out")
    assert (counts["used"], counts["masked"]) == (5.5 * RATE_HZ, 0)
    assert counts["outside_trials"] == 4.5 * RATE_HZ


def test_rows_may_stand_in_any_order(aligned):
    text = HEAD + "10\t2\tstop\t2\n2\t3\tgo\t1\n20\t0\tend\t3\n"
    records = aligned(text, window="trial", trial_start="go|stop")
    assert spans(records) == [(2, 3), (10, 2)]
    assert [record.labels["rt"] for record in records] == [1, 2]


def test_column_trial_names_the_trials_and_rows_without_a_name_are_none(aligned, tmp_path):
    records = aligned("onset\tduration\ttrial\n2\t1\t7\n5\t1\tn/a\n8\t1\t9\n")
    assert [record.extra["trial"] for record in records] == [7, 9]
    assert "trial" not in records[0].labels
    assert trials_of(tmp_path / "out")["other"] == 1


def test_number_of_a_trial_is_whole_however_it_is_written(aligned, tmp_path):
    (tmp_path / "labels.tsv").write_text("trial\tlabel\n7\tlow\n")
    options = {"labels": str(tmp_path / "labels.tsv"), "on": "trial"}
    (record,) = aligned("onset\tduration\ttrial\n2\t1\t7.0\n", **options)
    assert (record.extra["trial"], record.label) == (7, "low")


def test_two_trials_of_one_name_are_refused(aligned):
    with pytest.raises(FailedItemsError) as caught:
        aligned("onset\tduration\ttrial\n2\t1\t7\n5\t0\t7\n8\t1\t7\n")
    assert "trial 7 stands 2 times" in caught.value.failures[0].message


def test_labels_join_by_trial_and_by_session_and_trial(aligned, tmp_path):
    (tmp_path / "labels.tsv").write_text(
        "session\ttrial\tlabel\nsession\t1\tlow\nsession\t2\thigh\n"
    )
    records = aligned(labels=str(tmp_path / "labels.tsv"), on="session,trial")
    assert [record.label for record in records] == ["low"] * 3 + ["high"] * 2
    alone = aligned(labels=str(tmp_path / "labels.tsv"), on="trial", out="alone", label="label")
    assert [record.label for record in alone] == ["low"] * 3 + ["high"] * 2


def test_class_may_be_a_column_of_the_trials(aligned):
    assert [record.label for record in aligned(label="trial_type")] == ["go"] * 3 + ["stop"] * 2


def test_any_number_of_workers_writes_the_same_bytes(aligned, tmp_path):
    aligned(baseline="1", tail="pad")
    aligned(baseline="1", tail="pad", out="many", engine="pool", jobs=2)
    one, many = ((tmp_path / n / "dataset.json").read_bytes() for n in ("out", "many"))
    assert one == many


def test_changed_trials_make_the_data_set_anew(aligned, tmp_path):
    assert len(aligned()) == 5
    assert len(aligned(TRIALS + "20\t4\tgo\t1\n")) == 9


# Clocks


def test_trials_move_with_the_clock_of_their_stream(aligned, tmp_path):
    fixes = "".join(f"{5 + 1.01 * t}\t{t}\n" for t in range(0, 60, 5))
    (tmp_path / "pc.clock.tsv").write_text("device\treference\n" + fixes)
    (tmp_path / "pc.tsv").write_text("time\tduration\n10.05\t3.04\n")
    (tmp_path / "x.clock.tsv").write_text("device\treference\n0\t0\n20\t20\n40\t40\n")
    records = aligned(
        None,
        stream=(f"x={tmp_path}/x.tsv", f"pc={tmp_path}/pc.tsv,kind=events"),
        clock=(f"pc={tmp_path}/pc.clock.tsv", f"x={tmp_path}/x.clock.tsv"),
        trials="pc",
    )
    np.testing.assert_allclose(spans(records), [(5, 1), (6, 1), (7, 1)], atol=1e-6)


def test_small_times_count_from_the_first_sample_of_a_recording_in_unix_time(aligned, tmp_path):
    text = (tmp_path / "x.tsv").read_text().splitlines()
    moved = [f"{1_700_000_000 + float(line.split()[0])}\t1" for line in text[1:]]
    (tmp_path / "x.tsv").write_text("\n".join(["time\tx", *moved]) + "\n")
    assert spans(aligned()) == [(2, 1), (3, 1), (4, 1), (10, 1), (11, 1)]


def test_trials_in_unix_time_lie_where_they_say(aligned, tmp_path):
    text = (tmp_path / "x.tsv").read_text().splitlines()
    moved = [f"{1_700_000_000 + float(line.split()[0])}\t1" for line in text[1:]]
    (tmp_path / "x.tsv").write_text("\n".join(["time\tx", *moved]) + "\n")
    assert spans(aligned(HEAD + "1700000007.5\t1\tgo\t1\n")) == [(7.5, 1)]


# Markers

MARKS = (
    "time\tmark\n1\tgo_1\n3\tnoise\n4.5\tend_1\n6\tgo_2\n8\tgo_3\n9\tend_2\n9.5\tend_9\n11\tend_3\n"
)


def test_markers_make_trials_whose_groups_are_fields(aligned, tmp_path):
    pattern = {"trial_start": r"go_(?P<trial>\d)", "trial_end": r"end_(?P<trial>\d)"}
    records = aligned(MARKS, **pattern)
    found = [(record.extra["trial"], record.begin_s) for record in records]
    assert found == [
        ("1", 1),
        ("1", 2),
        ("1", 3),
        ("2", 6),
        ("2", 7),
        ("2", 8),
        ("3", 8),
        ("3", 9),
        ("3", 10),
    ]
    told = trials_of(tmp_path / "out")
    names = ("rows", "trials", "ends", "other", "no_end", "no_start")
    assert [told[name] for name in names] == [8, 3, 4, 1, 0, 1]


def test_begins_alone_last_until_the_next_and_the_last_as_most_do(aligned):
    records = aligned(MARKS, trial_start="go", window="trial")
    assert spans(records) == [(1, 5), (6, 2), (8, 3.5)]


def test_rows_of_bare_times_are_markers_of_no_text(aligned):
    records = aligned("time\n3\n7\n9\n", trial_start=".*", window="trial")
    assert spans(records) == [(3, 4), (7, 2), (9, 3)]


def test_expression_that_no_row_has_is_said(study, mmprep):
    trials = ("--trials", f"{study}/c#events", "--trial-start", "stop")
    done = mmprep("align", study / "c", *trials, "-o", study / "out", "--engine", "serial")
    assert done.code == 3
    assert "s0: events: 0 of 0 trials have records: none of 1 rows begins one" in done.err
    assert "no window is left" in done.err


def test_begin_without_an_end_is_left_out(aligned, tmp_path):
    records = aligned(MARKS + "20\tgo_4\n", trial_start="go", trial_end="end")
    assert [record.extra["trial"] for record in records] == [1, 1, 1, 3]
    assert trials_of(tmp_path / "out")["no_end"] == 2


def test_texts_beside_numbers_are_markers_where_they_begin(aligned, tmp_path):
    word = {32: "go", 33: "go", 80: "stop", 96: "go", 112: "stop"}
    rows = "".join(f"{k / 16}\t{k}\t{word.get(k, '')}\n" for k in range(640))
    (tmp_path / "x.tsv").write_text("time\tx\tword\n" + rows)
    records = aligned(None, trials="x", trial_start="go", trial_end="stop")
    assert spans(records) == [(2, 1), (3, 1), (4, 1), (6, 1)]


# What labels count from


def test_annotation_counts_from_the_onset_of_each_trial(aligned, tmp_path):
    rows = "".join(f"1,{k},{k}\n2,{k},{10 + k}\n" for k in range(5))
    (tmp_path / "said.csv").write_text("trial,t,arousal\n" + rows)
    options = {"labels": str(tmp_path / "said.csv"), "on": "trial", "label_time": "t,origin=trial"}
    records = aligned(HEAD + "2.25\t3\tgo\t1\n10.5\t2\tgo\t1\n", **options)
    assert [record.labels["arousal"] for record in records] == [0, 1, 2, 10, 11]


def test_annotation_counts_from_the_first_event_of_a_name(aligned, tmp_path):
    (tmp_path / "said.csv").write_text("session,t,arousal\n" + "session,0,1\nsession,1,2\n")
    options = {"labels": str(tmp_path / "said.csv"), "on": "session"}
    text = HEAD + "20\t2\tfilm\t1\n4\t1\twarm-up\t1\n10.5\t3\tfilm\t1\n"
    records = aligned(text, label_time="t,origin=film", **options)
    assert [record.labels.get("arousal") for record in records] == [None, 1, 2, None, None, None]
    with pytest.raises(DataError, match="no session has an event 'fil'"):
        aligned(text, label_time="t,origin=fil", out="none", **options)


# Records of their own length


@pytest.mark.parametrize("baseline", [None, "1.5"])
def test_trial_is_one_record_of_its_own_length(aligned, tmp_path, baseline, mmprep):
    records = aligned(window="trial", baseline=baseline)
    wanted = [(0.5, 1.5)] * bool(baseline) + [(2, 3.5)] + [(8.5, 1.5)] * bool(baseline) + [(10, 2)]
    assert spans(records) == wanted
    data = open_dataset(tmp_path / "out")
    for k, (begin_s, length_s) in enumerate(wanted):
        times = begin_s + np.arange(round(length_s * RATE_HZ)) / RATE_HZ
        np.testing.assert_allclose(data[k]["x"][:, 0], times, atol=1e-4)
        assert data[k]["x.length"] == times.size
        assert data[k]["x.valid"].all()
    assert mmprep("manifest", "validate", "--checksums", tmp_path / "out").code == 0


def test_batch_of_trials_is_padded_and_comes_with_lengths(aligned, tmp_path):
    aligned(window="trial")
    batch = open_dataset(tmp_path / "out")[[0, 1]]
    assert batch["x"].shape == (2, 56, 1)
    assert batch["x.length"].tolist() == [56, 32]
    assert batch["x.valid"].sum(axis=1).tolist() == [56, 32]


def test_recording_is_one_record(aligned, tmp_path):
    (record,) = aligned(None, window="record")
    assert (record.begin_s, record.duration_s) == (0, LENGTH_S)
    assert record.streams["x"].rows == (0, LENGTH_S * RATE_HZ)
    assert "trial" not in record.extra


def test_records_go_to_shards_whole_and_masks_beside_them(aligned, tmp_path):
    records = aligned(
        HEAD + "".join(f"{k}\t{1 + k % 3}\ta\t1\n" for k in range(30)),
        window="trial",
        shard_size="256",
    )
    shards = {record.streams["x"].shard for record in records}
    assert len(shards) > 10
    for path in sorted((tmp_path / "out/x").iterdir()):
        values, mask = (np.load(tmp_path / "out" / n / path.name) for n in ("x", "x.valid"))
        assert len(values) == len(mask)
        assert mask.ndim == 1
    rows = open_dataset(tmp_path / "out")
    assert [row["x"][0, 0].round(3) for row in rows] == [record.begin_s for record in records]


def test_trial_with_a_gap_is_masked_dropped_or_refused(aligned, tmp_path):
    text = (tmp_path / "x.tsv").read_text().splitlines(keepends=True)
    (tmp_path / "x.tsv").write_text("".join(text[:49] + text[61:]))  # no sample in [3, 3.75)
    first, _ = aligned(window="trial")
    assert 0.7 < first.valid["x"] < 0.8
    assert [r.extra["trial"] for r in aligned(window="trial", on_gap="drop", out="d")] == [2]
    assert len(aligned(window="trial", min_valid=0.9, out="m")) == 1
    with pytest.raises(FailedItemsError):
        aligned(window="trial", on_gap="fail", out="f")


# What is refused


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"trials": None, "tail": "pad"}, "there are no --trials"),
        ({"trials": None, "baseline": "1"}, "there are no --trials"),
        ({"trials": None, "trial_start": "go"}, "there are no --trials"),
        ({"trials": None, "window": "trial"}, "there are no --trials"),
        ({"trial_end": "go"}, "there is no --trial-start"),
        ({"trial_start": "("}, "is no expression"),
        ({"trial_start": "(?P<session>x)"}, "no group can be called 'session'"),
        ({"window": "record"}, "the whole recording, and trials"),
        ({"window": "trial", "hop": "1"}, "there are no windows"),
        ({"window": "trial", "tail": "pad"}, "there are no windows"),
        ({"baseline": "-1"}, "is not positive"),
        ({"baseline": "x"}, "is no number of seconds"),
        ({"trials": "gone.tsv#1"}, "does not exist"),
        ({"trials": "gone"}, "no session has trials in 'gone'"),
    ],
)
def test_options_that_make_no_sense_are_refused(aligned, options, said):
    with pytest.raises(UsageError, match=re.escape(said)):
        aligned(**options)


def test_stream_of_numbers_holds_no_trials(aligned):
    with pytest.raises(FailedItemsError) as caught:
        aligned(None, trials="x")
    assert "has no columns of text" in caught.value.failures[0].message


def test_trials_without_a_length_leave_no_window(aligned):
    with pytest.raises(DataError, match="no window is left"):
        aligned(HEAD + "2\t0\tgo\t1\n")


# Data sets


@pytest.fixture
def study(tmp_path):
    """Three sessions, of which the last has no trials."""
    for k in range(3):
        folder = tmp_path / f"raw/s{k}"
        folder.mkdir(parents=True)
        rows = "".join(f"{n / 16}\t{n}\n" for n in range(320))
        (folder / "x.tsv").write_text("time\tx\n" + rows)
        if k < 2:
            (folder / "events.tsv").write_text(f"onset\tduration [s]\tkind\n{k + 1}\t2\tgo\n")
    run_convert(tmp_path / "raw", output=tmp_path / "c", engine="serial")
    return tmp_path


@pytest.mark.parametrize("source", ["events", "c#events"])
def test_each_session_of_a_data_set_has_its_trials(study, source, mmprep, monkeypatch):
    monkeypatch.chdir(study)
    done = mmprep("align", "c", "--trials", source, "-o", "out", "--engine", "serial")
    assert done.code == 0, done.err
    assert "1 sessions have no trials and are left out: s2" in done.err
    records = list(read_manifest(study / "out/manifest.jsonl"))
    found = [(record.session, record.begin_s) for record in records]
    assert found == [("s0", 1), ("s0", 2), ("s1", 2), ("s1", 3)]


def test_trials_may_be_of_a_stream_that_is_not_aligned(study, monkeypatch):
    monkeypatch.chdir(study)
    run_align("c#x", output=study / "out", trials="c#events", engine="serial")
    assert len(list(read_manifest(study / "out/manifest.jsonl"))) == 4


def test_one_file_of_trials_for_several_sessions_is_refused(study):
    with pytest.raises(UsageError, match="one file of trials for 3 sessions"):
        run_align(study / "c", output=study / "out", trials=str(study / "raw/s0/events.tsv"))


def test_table_of_sessions_names_the_trials_of_each(study, mmprep):
    rows = [
        f"s{k}\traw/s{k}/x.tsv\t" + (f"raw/s{k}/events.tsv\n" if k < 2 else "\n") for k in range(3)
    ]
    (study / "sessions.tsv").write_text("session\tx\ttrials\n" + "".join(rows))
    done = mmprep("align", "--sessions", study / "sessions.tsv", "-o", study / "out")
    assert done.code == 0, done.err
    records = list(read_manifest(study / "out/manifest.jsonl"))
    assert [(record.session, record.begin_s) for record in records] == [
        ("s0", 1),
        ("s0", 2),
        ("s1", 2),
        ("s1", 3),
    ]


# Whatever the trials

EIGHTHS = st.integers(-24, 120).map(lambda n: n / 8)
LISTED = st.lists(
    st.tuples(EIGHTHS, st.integers(0, 40).map(lambda n: n / 8)), min_size=1, max_size=6
)


@settings(max_examples=25)
@given(LISTED, st.sampled_from(["0.5", "1", "trial"]), st.booleans(), st.sampled_from([None, "1"]))
def test_no_record_crosses_an_edge_and_counts_add_up(memory_folder, listed, window, pads, baseline):
    folder = memory_folder
    rows = "".join(f"{k / 8}\t{k}\n" for k in range(8 * 12))
    (folder / "x.tsv").write_text("time\tx\n" + rows)
    lines = "".join(f"{onset}\t{length}\n" for onset, length in [*listed, (0, 1)])
    (folder / "trials.tsv").write_text("onset\tduration\n" + lines)
    run_align(
        output=folder / "out",
        stream=(f"x={folder}/x.tsv",),
        trials=f"{folder}/trials.tsv",
        window=window,
        tail="pad" if pads and window != "trial" else None,
        baseline=baseline,
        engine="serial",
        force=True,
    )
    told = trials_of(folder / "out")
    once = sorted(dict.fromkeys([*listed, (0, 1)]), key=lambda span: span[0])
    reasons = [one["reason"] for one in told["left_out"]]
    assert told["rows"] == len(listed) + 1 == len(once) + told["duplicate"]
    assert told["used"] + len(reasons) == told["trials"] == len(once)
    assert reasons.count("zero_length") == sum(length == 0 for _, length in once)
    counts = counts_of(folder / "out")
    assert counts.pop("in") == sum(counts.values()) == 96
    lasting = [span for span in once if span[1] > 0]
    seen = set()
    for record in read_manifest(folder / "out/manifest.jsonl"):
        onset, length = lasting[record.extra["trial"] - 1]
        is_trial = record.extra["phase"] == "trial"
        edges = (onset, onset + length) if is_trial else (onset - 1, onset)
        assert max(edges[0], 0) <= record.begin_s < record.end_s <= min(edges[1], 12)
        assert record.extra["onset_s"] == onset
        seen |= {record.extra["trial"]} if is_trial else set()
    assert len(seen) == told["used"]
