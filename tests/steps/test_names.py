"""`--ids`, `--time-origin relative` and `manifest validate --private`."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from mmprep import run_align, run_convert
from mmprep.errors import DataError, UsageError
from mmprep.manifest.model import Record, shard_ref
from mmprep.steps.running.names import Names
from mmprep.tables import table_info
from tests.conftest import ROOT

T0 = 1_700_000_000


def ids(tmp_path, *pairs):
    path = tmp_path / "ids.tsv"
    rows = [("old", "new"), *pairs]
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def corpus(tmp_path, people=("anna", "ben")):
    """Lay out one stream a person, absolute, with a clock log beside it."""
    for k, name in enumerate(people):
        folder = tmp_path / "in" / name
        folder.mkdir(parents=True)
        begin = T0 + 1000 * k
        rows = [f"{begin + i / 10:.1f}\t{i}" for i in range(100)]
        (folder / f"{name}_eeg.tsv").write_text("t_s\tx\n" + "\n".join(rows) + "\n")
        log = [f"{begin + i}\t{begin + i}.5" for i in range(12)]
        (folder / f"{name}_eeg.clock.tsv").write_text("device\treference\n" + "\n".join(log) + "\n")
    labels = tmp_path / "labels.tsv"
    labels.write_text("subject\tmood\nanna\tcalm\nben\tsad\n")
    return {"layout": "{subject}/{_}_{stream}.tsv", "labels": str(labels), "on": "subject"}


def written(folder):
    """Give all that a data set says, its own notes aside."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".mmprep" not in path.parts
    }


# The table ----------------------------------------------------------------------------------------


def test_names_are_replaced_as_words_of_their_own(tmp_path):
    names = Names.read(ids(tmp_path, ("P1", "S9"), ("P10", "S8"), ("anna", "x")))
    assert names.text("P1/P10_P1-anna.tsv and annalisa, XP1, P1x") == (
        "S9/S8_S9-x.tsv and annalisa, XP1, P1x"
    )


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("a", "b"), ("a", "c")], "ids.tsv|'a' stands there twice"),
        ([("a", "x"), ("b", "x")], "two names become 'x'"),
        ([("a", "")], "'a' cannot become ''"),
        ([("a", "x/y")], "cannot become 'x/y'"),
    ],
)
def test_table_of_names_that_is_none_is_refused(tmp_path, pairs, message):
    with pytest.raises(DataError, match=message):
        Names.read(ids(tmp_path, *pairs))


def test_record_has_other_names_and_its_labels_stay():
    names = Names("x", {"anna": "s1"})
    record = Record(
        id="anna/1",
        session="anna",
        subject="anna",
        begin_s=0,
        duration_s=1,
        labels={"likes": "anna"},
        source="raw/anna.wav",
        streams={"eeg": shard_ref("eeg/anna.npy", (0, 1), rate_hz=1.0)},
        extra={"room": "anna's"},
    )
    found = names.record(record)
    assert (found.id, found.session, found.subject) == ("s1/1", "s1", "s1")
    assert (found.source, found.labels, found.extra["room"]) == (
        "raw/s1.wav",
        {"likes": "anna"},
        "s1's",
    )
    assert found.streams["eeg"].shard == "eeg/anna.npy"


# Data sets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["convert", "align"])
def test_no_file_holds_an_old_name(tmp_path, where):
    given, table = corpus(tmp_path), ids(tmp_path, ("anna", "s1"), ("ben", "s2"))
    first = {"ids": table} if where == "convert" else {}
    then = {"ids": table} if where == "align" else {}
    run_convert(tmp_path / "in", output=tmp_path / "data", engine="serial", **given, **first)
    run_align(tmp_path / "data", output=tmp_path / "out", engine="serial", **then)
    for folder in ("data", "out") if where == "convert" else ("out",):
        for name, content in written(tmp_path / folder).items():
            assert not re.search(rb"anna|ben", name.encode() + content), name
    lines = (tmp_path / "out/manifest.jsonl").read_text().splitlines()
    found = {(json.loads(x)["subject"], json.loads(x)["labels"]["mood"]) for x in lines}
    assert found == {("s1", "calm"), ("s2", "sad")}


def test_windows_are_the_same_but_for_the_names(tmp_path):
    given, table = corpus(tmp_path), ids(tmp_path, ("anna", "s1"), ("ben", "s2"))
    run_convert(tmp_path / "in", output=tmp_path / "data", engine="serial", **given)
    run_align(tmp_path / "data", output=tmp_path / "plain", engine="serial")
    run_align(tmp_path / "data", output=tmp_path / "named", ids=table, engine="serial")
    plain = (tmp_path / "plain/manifest.jsonl").read_text()
    plain = plain.replace("anna", "s1").replace("ben", "s2")
    assert (tmp_path / "named/manifest.jsonl").read_text() == plain


def test_name_that_is_not_in_the_table_is_refused(tmp_path):
    given = corpus(tmp_path)
    with pytest.raises(UsageError, match=r"subject 'ben' is not in .*ids.tsv"):
        run_convert(
            tmp_path / "in",
            output=tmp_path / "data",
            ids=ids(tmp_path, ("anna", "s1")),
            engine="serial",
            **given,
        )


def test_stream_called_after_a_person_is_refused(tmp_path):
    corpus(tmp_path)
    given = {"ids": ids(tmp_path, ("anna", "s1"), ("ben", "s2")), "engine": "serial"}
    with pytest.raises(UsageError, match="stream 'anna_eeg' is called after 'anna'"):
        run_convert(tmp_path / "in", output=tmp_path / "data", **given)
    run_convert(tmp_path / "in", output=tmp_path / "data", engine="serial")
    with pytest.raises(UsageError, match="stream 'anna_eeg' is called after 'anna'"):
        run_align(tmp_path / "data", output=tmp_path / "out", **given)


def test_number_in_a_field_stays_where_people_are_numbers(tmp_path):
    for path in ("1/2_x.tsv", "2/1_x.tsv"):
        (tmp_path / "in" / path).parent.mkdir(parents=True)
        (tmp_path / "in" / path).write_text("t_s\ty\n1\t2\n2\t3\n3\t4\n")
    run_convert(
        tmp_path / "in",
        output=tmp_path / "out",
        layout="{subject}/{run}_{stream}.tsv",
        ids=ids(tmp_path, ("1", "a"), ("2", "b")),
        engine="serial",
    )
    lines = (tmp_path / "out/manifest.jsonl").read_text().splitlines()
    assert {(one["subject"], one["run"]) for one in map(json.loads, lines)} == {
        ("a", "2"),
        ("b", "1"),
    }


def test_recorder_of_a_stream_has_another_name(tmp_path, shared):
    (tmp_path / "anna").mkdir()
    shutil.copyfile(shared("xdf/muse_sub-P001.xdf"), tmp_path / "anna/muse_anna.xdf")
    table = tmp_path / "study.tsv"
    table.write_text("session\teeg\nanna\tanna/muse_anna.xdf#Muse-EEG\n")
    given = {"sessions": str(table), "ids": ids(tmp_path, ("anna", "s1")), "engine": "serial"}
    run_align(**given, output=tmp_path / "one")
    run_convert(**given, output=tmp_path / "data")
    run_align(tmp_path / "data", output=tmp_path / "two", engine="serial")
    for out in ("one", "two"):
        (stream,) = json.loads((tmp_path / out / "sync/s1.json").read_text())["streams"]
        assert stream["master"] == "the recorder of muse_s1.xdf"


def test_person_of_whom_only_a_part_is_in_the_table_is_refused():
    names = Names("ids.tsv", {"anna": "s1"})
    names.check([("anna", "anna/v1"), (None, "anna/v2")])
    with pytest.raises(UsageError, match=r"subject 'anna-lena' is not in ids\.tsv"):
        names.check([("anna-lena", "v1")])


def test_failed_items_have_other_names_too(tmp_path):
    given, table = corpus(tmp_path), ids(tmp_path, ("anna", "s1"), ("ben", "s2"))
    (tmp_path / "in/ben/ben_eeg.tsv").write_text("t_s\tx\n1\t2\n2\t3\t4\n")
    run_convert(
        tmp_path / "in",
        output=tmp_path / "out",
        ids=table,
        max_failures="1",
        engine="serial",
        **given,
    )
    (line,) = (tmp_path / "out/failures.jsonl").read_text().splitlines()
    found = json.loads(line)
    assert (found["id"], found["source"]) == ("s2", "s2/s2_eeg.tsv")
    assert "ben" not in line


# Dates --------------------------------------------------------------------------------------------


def test_relative_times_tell_no_date_and_change_nothing_else(tmp_path):
    given = corpus(tmp_path)
    run_convert(tmp_path / "in", output=tmp_path / "data", engine="serial", **given)
    run_align(tmp_path / "data", output=tmp_path / "plain", engine="serial")
    run_align(tmp_path / "data", output=tmp_path / "out", time_origin="relative", engine="serial")
    assert (tmp_path / "out/manifest.jsonl").read_bytes() == (
        tmp_path / "plain/manifest.jsonl"
    ).read_bytes()
    for name, content in written(tmp_path / "out").items():
        if name.endswith(("json", "jsonl")):
            assert not re.search(rb"(?<![\d.])1[67]\d{8}", content), name
    sync = json.loads((tmp_path / "out/sync/anna.json").read_text())
    (stream,) = sync["streams"]
    assert (sync["origin_ns"], sync["origin_on_clock_ns"]) == (None, 0)
    assert stream["fixes"][0] == [-500_000_000, 0]
    plain = json.loads((tmp_path / "plain/sync/anna.json").read_text())["streams"][0]
    assert stream["accounting"] == plain["accounting"]


def test_local_times_tell_no_date_either(tmp_path):
    rows = "".join(f"2024-05-01 10:00:{k / 10:06.3f},{k},{'ab'[k // 30]}\n" for k in range(60))
    (tmp_path / "x.csv").write_text(f"datetime,x,key\n{rows}")
    given = {"stream": [f"x={tmp_path / 'x.csv'}"], "engine": "serial"}
    run_align(**given, output=tmp_path / "out", time_origin="relative")
    sync = json.loads((tmp_path / "out/sync/session.json").read_text())
    assert (sync["origin_ns"], sync["origin_on_clock_ns"]) == (None, 0)
    assert not re.search(r"1[67]\d{17}", json.dumps(sync))
    assert table_info(tmp_path / "out/tables/x/session.parquet").time.start_ns == 0


# What is left -------------------------------------------------------------------------------------


def test_private_lists_what_identifies_and_is_clean_after_both(tmp_path, mmprep):
    given, table = corpus(tmp_path), ids(tmp_path, ("anna", "s1"), ("ben", "s2"))
    run_convert(tmp_path / "in", output=tmp_path / "data", engine="serial", **given)
    ran = mmprep("manifest", "validate", "--private", tmp_path / "data")
    assert ran.code == 1
    assert "dataset.json: origin_ns tells when 2 sessions were (anna, ...)" in ran.out
    assert "subject: 'anna' and 1 more may be a person's name: --ids gives others" in ran.out
    assert "tables/eeg: times are Unix time: they tell the date" in ran.out
    assert "tables/eeg.clock: times are Unix time" in ran.out
    run_align(
        tmp_path / "data",
        output=tmp_path / "out",
        ids=table,
        time_origin="relative",
        engine="serial",
    )
    ran = mmprep("manifest", "validate", "--private", tmp_path / "out")
    assert ran.code == 0
    assert ran.out.splitlines()[0].startswith(".mmprep: names folders of this machine")
    assert mmprep("manifest", "validate", tmp_path / "data").code == 0


def test_private_reads_trials_channels_and_texts(tmp_path, mmprep):
    raw = tmp_path / "raw"
    raw.mkdir()
    rows = [f"{1_700_000_000 + k / 10:.1f}\t{k}\t{1_700_000_000_000 + 100 * k}" for k in range(60)]
    (raw / "x.tsv").write_text("\n".join(["t_s\tlatitude\twatch_ms", *rows]) + "\n")
    (raw / "t.tsv").write_text("onset\tduration\tsaid\n1\t2\tto jo@uni.edu\n")
    table = "session\tx\ttrials\ttrials.start\ns\tx.tsv\tt.tsv\t1700000000\n"
    (raw / "study.tsv").write_text(table)
    out = tmp_path / "out"
    given = {"sessions": str(raw / "study.tsv"), "time_origin": "relative", "engine": "serial"}
    run_align(**given, output=out)
    ran = mmprep("manifest", "validate", "--private", out)
    assert ran.code == 1
    assert ran.out.splitlines()[1:] == [
        "x: column 'latitude' tells a place",
        "x: column 'watch_ms' holds Unix times: they tell the date",
        "tables/trials: column 'said' is free text: read it",
        "labels.said: an address of mail (jo@uni.edu and 1 more)",
        "tables/trials.said: an address of mail (jo@uni.edu)",
    ]


def test_voices_pictures_and_the_samples_are_told(tmp_path, mmprep, sample):
    ran = mmprep("manifest", "validate", "--private", sample / "amigos/aligned")
    assert "audio: a voice tells who speaks" in ran.out
    assert ROOT.name not in ran.out


# Devices ------------------------------------------------------------------------------------------

OPENSIGNALS = (
    "# OpenSignals Text File Format\n"
    '# {"00:07:80:8C:06:6E": {"sensor": ["EDA"], "device": "bitalino_rev",'
    ' "column": ["nSeq", "A1"], "sampling rate": 100, "resolution": [4, 10],'
    ' "date": "2017-5-22", "time": "9:39:1.0"}}\n'
    "# EndOfHeader\n" + "".join(f"{k % 16}\t{500 + k}\t\n" for k in range(40))
)
EMOTIV = (
    "title:x,start timestamp:1711846790.125,headset type:EPOCX,headset serial:E2020000,"
    "sampling rate:eeg_128,version:2.2\nTimestamp,EEG.Counter,EEG.Interpolated,EEG.AF3\n"
    + "".join(f"{1711846790.125 + k / 128:.6f},{k % 128},0,{4000 + k}\n" for k in range(300))
)
E4_EDA = "1544027337.00\n4.000000\n" + "".join(f"0.{k:03d}\n" for k in range(40))


@pytest.mark.parametrize(
    ("name", "content", "model", "serial"),
    [
        ("a.txt", OPENSIGNALS, "bitalino_rev", "00:07:80:8C:06:6E"),
        ("a.csv", EMOTIV, "EPOCX", "E2020000"),
        ("1544027337_A01525/EDA.csv", E4_EDA, "Empatica E4", "A01525"),
    ],
)
def test_serial_number_is_kept_only_where_asked_for(tmp_path, name, content, model, serial):
    path = tmp_path / "in" / name
    path.parent.mkdir(parents=True)
    path.write_text(content)
    for keep, expected in ((False, model), (True, f"{model}, serial {serial}")):
        out = tmp_path / f"out{keep}"
        run_convert(tmp_path / "in", output=out, keep_device=keep, engine="serial")
        found = {table_info(path).device for path in out.rglob("*.parquet")}
        assert found == {expected}
        kept = [n for n, data in written(out).items() if serial.encode() in data]
        assert bool(kept) == keep or "_A01525" in name
