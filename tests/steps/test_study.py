"""A table of sessions: what its cells mean, and that both ways through it give the same windows."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest

import mmprep
from mmprep import run_align, run_convert
from mmprep.errors import DataError, UsageError
from mmprep.steps.study import table
from mmprep.steps.study.table import Source
from mmprep.tables.parquet import read_rows
from tests.conftest import ROOT
from tests.written import records

T0 = 1_700_000_000


def write_stream(path, begin_s, n_rows, *, rate_hz=10, first=0.0, absolute=True):
    """Write rows whose value is the number of the row, and `first` more."""
    path.parent.mkdir(parents=True, exist_ok=True)
    begin = (T0 if absolute else 0) + begin_s
    lines = [f"{begin + k / rate_hz:.3f}\t{first + k}" for k in range(n_rows)]
    path.write_text("t_s\tx\n" + "\n".join(lines) + "\n", encoding="utf-8")


def study(tmp_path, text):
    path = tmp_path / "raw/study.tsv"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text.replace(" ", "\t"), encoding="utf-8")
    return str(path)


def two_sessions(tmp_path):
    raw = tmp_path / "raw"
    write_stream(raw / "a/eeg.tsv", 0, 100)
    write_stream(raw / "a/gsr.tsv", 0, 100, first=500)
    write_stream(raw / "b1.tsv", 0, 50)
    write_stream(raw / "b2.tsv", 7, 50, first=50)
    return study(
        tmp_path,
        "session subject eeg gsr eeg.latency_ms age note\n"
        "s1 P01 a/eeg.tsv a/gsr.tsv 250 21 x\n"
        "s2 P02 b1.tsv;b2.tsv  0 22 07\n",
    )


# The table ----------------------------------------------------------------------------------------


def test_columns_are_streams_settings_and_fields(tmp_path):
    found = table.read(two_sessions(tmp_path))
    assert found.streams == ("eeg", "gsr")
    first, second = found.rows
    assert (first.session, first.subject, first.fields) == ("s1", "P01", {"age": 21, "note": "x"})
    assert first.streams[0].latency_ms == Fraction(250)
    paths = tuple(Source(str(tmp_path / "raw" / name)) for name in ("b1.tsv", "b2.tsv"))
    assert [(one.name, one.sources) for one in second.streams] == [("eeg", paths)]
    assert second.fields == {"age": 22, "note": "07"}


def test_path_with_marks_in_its_name_is_taken_whole(tmp_path):
    for name in ("a#1.tsv", "a;b.tsv", "c.tsv", "a#2;b.tsv"):
        write_stream(tmp_path / "raw" / name, 0, 3)
    found = table.read(
        study(tmp_path, "session x\n1 a#1.tsv\n2 a;b.tsv\n3 c.tsv#x\n4 a#2;b.tsv#x\n")
    )
    raw = tmp_path / "raw"
    assert [row.streams[0].sources for row in found.rows] == [
        (Source(str(raw / "a#1.tsv")),),
        (Source(str(raw / "a;b.tsv")),),
        (Source(str(raw / "c.tsv"), "x"),),
        (Source(str(raw / "a#2;b.tsv"), "x"),),
    ]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("subject x\n1 x.tsv\n", DataError, "no column 'session' among subject, x"),
        ("session x\n1 x.tsv\n1 x.tsv\n", DataError, "study.tsv:3: session: session '1' stands in"),
        ("session x\n1 ?\n", DataError, "study.tsv:2: x: is not decided"),
        ("session x x.start\n1 x.tsv ?\n", DataError, "study.tsv:2: x.start: is not decided"),
        ("session x\n1 x.tsv\n2 y.tsv\n", UsageError, "study.tsv:3: x: 'y.tsv' does not exist"),
        ("session x y\n1 x.tsv y.tsv\n", UsageError, "study.tsv:2: y: 'y.tsv' does not exist"),
        ("session x y.tz\n1 x.tsv UTC\n", DataError, "column 'y.tz' without a column 'y'"),
        ("session x x.tz\n1 x.tsv Rome\n", DataError, "x.tz: there is no zone 'Rome'"),
        ("session x x.latency_ms\n1 x.tsv 5ms\n", DataError, "x.latency_ms: '5ms' is no number"),
        ("session x x.start\n1 x.tsv 1;2\n", DataError, "x.start: 2 starts of 1 parts"),
        ("session x label\n1 x.tsv a\n", DataError, "column 'label' is a field of mmprep's own"),
        ("session x events\n1 x.tsv a\n", DataError, "column 'events' is a field of mmprep's own"),
        ("session x x.Start\n1 x.tsv 1\n", DataError, "'Start' is no setting of 'x'"),
        ("session x\n1 calm\n", DataError, "no cell names a file"),
        ("session x x.tz\n1  UTC\n", DataError, "x.tz: 'UTC' for a stream that the session does"),
    ],
)
def test_table_that_is_none_is_refused_and_located(tmp_path, text, error, message):
    write_stream(tmp_path / "raw/x.tsv", 0, 3)
    with pytest.raises(error, match=message):
        table.read(study(tmp_path, text))


# Both ways ----------------------------------------------------------------------------------------


def test_raw_files_and_their_data_set_give_the_same_windows(tmp_path):
    path = two_sessions(tmp_path)
    run_align(sessions=path, output=tmp_path / "raw_way", engine="serial", cover="union")
    run_convert(sessions=path, output=tmp_path / "data", engine="serial")
    run_align(tmp_path / "data", output=tmp_path / "set_way", engine="serial", cover="union")
    for name in ("manifest.jsonl", "eeg/shard-00000.npy", "eeg.valid/shard-00000.npy"):
        assert (tmp_path / "raw_way" / name).read_bytes() == (
            tmp_path / "set_way" / name
        ).read_bytes()


def test_latency_moves_its_stream_alone(tmp_path):
    run_align(sessions=two_sessions(tmp_path), output=tmp_path / "out", engine="serial")
    first = records(tmp_path / "out")[0]
    data = mmprep.open_dataset(tmp_path / "out")[0]
    assert first["session"] == "s1"
    np.testing.assert_allclose(data["eeg"][0, 0] - data["gsr"][0, 0], 2.5 - 500, atol=0.1)


def test_parts_are_one_stream_whose_seam_is_a_listed_gap(tmp_path):
    out = tmp_path / "out"
    run_align(sessions=two_sessions(tmp_path), output=out, engine="serial", rates="eeg=10")
    (eeg,) = json.loads((out / "sync/s2.json").read_text())["streams"]
    assert eeg["gaps_s"] == [[pytest.approx(5, abs=0.11), pytest.approx(7, abs=0.01)]]
    assert eeg["accounting"]["in"] == 100
    shares = [one["valid"]["eeg"] for one in records(out) if one["session"] == "s2"]
    assert shares[:5] == [1.0] * 5
    assert shares[5:7] == [0.0] * 2
    assert shares[7:] == [1.0] * 5


def test_missing_stream_is_absent_and_no_error(tmp_path):
    run_align(sessions=two_sessions(tmp_path), output=tmp_path / "out", engine="serial")
    by_session = {one["session"]: one for one in records(tmp_path / "out")}
    assert set(by_session["s1"]["streams"]) == {"eeg", "gsr"}
    assert set(by_session["s2"]["streams"]) == {"eeg"}
    assert by_session["s2"]["age"] == 22
    batch = mmprep.open_dataset(tmp_path / "out")[[0, len(records(tmp_path / "out")) - 1]]
    assert batch["gsr.valid"].any(axis=1).tolist() == [True, False]


def test_relative_parts_need_a_start_each(tmp_path, mmprep):
    raw = tmp_path / "raw"
    for k, name in enumerate("ab"):
        write_stream(raw / f"{name}.tsv", 0, 50, first=50 * k, absolute=False)
    text = "session x\n1 a.tsv;b.tsv\n"
    run_convert(sessions=study(tmp_path, text), output=tmp_path / "data", engine="serial")
    ran = mmprep("align", tmp_path / "data", "-o", tmp_path / "out", "--engine", "serial")
    assert ran.code == 3
    assert "x: nothing says when part 1 begins" in ran.err
    text = f"session x x.start\n1 a.tsv;b.tsv {T0};{T0 + 7}\n"
    path = study(tmp_path, text)
    run_convert(sessions=path, output=tmp_path / "data", engine="serial", force=True)
    run_align(tmp_path / "data", output=tmp_path / "out", engine="serial")
    run_align(sessions=path, output=tmp_path / "raw_way", engine="serial")
    for out in ("out", "raw_way"):
        found = json.loads((tmp_path / out / "sync/1.json").read_text())["streams"][0]
        assert found["gaps_s"] == [[pytest.approx(5, abs=0.11), pytest.approx(7, abs=0.01)]]


def write_trials(path):
    path.write_text("onset\tduration\ttrial_type\n2\t3\ta\n6\t2\tb\n", encoding="utf-8")


def test_start_of_trials_is_second_zero_of_their_times(tmp_path):
    write_stream(tmp_path / "raw/x.tsv", 0, 100)
    write_trials(tmp_path / "raw/t.tsv")
    path = study(tmp_path, f"session x trials trials.start\n1 x.tsv t.tsv {T0 + 1}\n")
    run_align(sessions=path, output=tmp_path / "out", engine="serial")
    assert {one["onset_s"] for one in records(tmp_path / "out")} == {3.0, 7.0}
    data = mmprep.open_dataset(tmp_path / "out")[0]
    assert data["x"][0, 0] == pytest.approx(30, abs=0.1)


def test_trials_of_a_table_go_through_a_data_set(tmp_path):
    write_stream(tmp_path / "raw/x.tsv", 0, 100)
    write_stream(tmp_path / "raw/b.tsv", 0, 100)
    write_trials(tmp_path / "raw/t.tsv")
    path = study(tmp_path, f"session x trials trials.start b\n1 x.tsv t.tsv {T0} b.tsv\n")
    run_align(sessions=path, output=tmp_path / "raw_way", engine="serial")
    run_convert(sessions=path, output=tmp_path / "data", engine="serial")
    run_align(tmp_path / "data", output=tmp_path / "set_way", engine="serial")
    assert [one["trial"] for one in records(tmp_path / "raw_way")] == [1, 1, 1, 2, 2]
    for name in ("manifest.jsonl", "x/shard-00000.npy", "sync/1.json"):
        assert (tmp_path / "raw_way" / name).read_bytes() == (
            tmp_path / "set_way" / name
        ).read_bytes()


@pytest.mark.parametrize("origin", ["absolute", "relative"])
def test_events_of_relative_parts_stand_where_their_parts_begin(tmp_path, origin):
    write_stream(tmp_path / "raw/x.tsv", 0, 200)
    for name, seconds in (("a", (2.5, 3.1, 6.0)), ("b", (1.2, 4.7, 5.1))):
        rows = "".join(f"{second}\tpress\n" for second in seconds)
        (tmp_path / f"raw/{name}.tsv").write_text(f"t_s\tkey\n{rows}", encoding="utf-8")
    path = study(tmp_path, f"session x keys keys.start\n1 x.tsv a.tsv;b.tsv {T0 + 1};{T0 + 10}\n")
    run_align(sessions=path, output=tmp_path / "out", engine="serial", time_origin=origin)
    written = tmp_path / "out/tables/keys/1.parquet"
    first_ns = T0 * 10**9 if origin == "absolute" else 0
    stamps, _, info = read_rows(written, None)
    seconds = [(ns - first_ns) / 1e9 for ns in stamps.tolist()]
    assert seconds == [3.5, 4.1, 7.0, 11.2, 14.7, 15.1]
    assert info.time.absolute == (origin == "absolute")
    assert info.time.start_ns == first_ns


def through_both(tmp_path, path, **options):
    """Align the raw files of a table, and the data set made of them."""
    run_align(sessions=path, output=tmp_path / "raw_way", engine="serial", **options)
    run_convert(sessions=path, output=tmp_path / "data", engine="serial")
    run_align(tmp_path / "data", output=tmp_path / "set_way", engine="serial", **options)
    return tmp_path / "raw_way", tmp_path / "set_way"


def same_bytes(folders, names):
    first, second = folders
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_order_of_parts_is_that_of_the_cell_not_of_their_names(tmp_path):
    write_stream(tmp_path / "raw/z.tsv", 0, 50)
    write_stream(tmp_path / "raw/a.tsv", 7, 50, first=50)
    found = through_both(tmp_path, study(tmp_path, "session x\n1 z.tsv;a.tsv\n"))
    same_bytes(found, ["manifest.jsonl", "x/shard-00000.npy", "sync/1.json"])
    assert [one["valid"]["x"] for one in records(found[0])] == [1.0] * 5 + [0.0] * 2 + [1.0] * 5


def test_sessions_come_in_order_of_their_names(tmp_path):
    write_stream(tmp_path / "raw/a.tsv", 0, 50)
    write_stream(tmp_path / "raw/b.tsv", 0, 50, first=50)
    found = through_both(tmp_path, study(tmp_path, "session x\ns2 a.tsv\ns1 b.tsv\n"))
    same_bytes(found, ["manifest.jsonl", "x/shard-00000.npy", "x/shard-00001.npy"])


def test_clock_of_one_file_of_a_wristband_holds_for_all_both_ways(tmp_path):
    folder = tmp_path / "raw/e4"
    folder.mkdir(parents=True)
    for name in ("EDA", "TEMP"):
        rows = "".join(f"{k}.0\n" for k in range(160))
        (folder / f"{name}.csv").write_text(f"{T0}.00\n4.000000\n{rows}")
    log = "".join(f"{T0 + k},{T0 + k + 5}\n" for k in range(41))
    (tmp_path / "raw/eda.log").write_text(f"device,reference\n{log}")
    path = study(tmp_path, "session eda eda.clock temp\n1 e4#EDA eda.log e4#TEMP\n")
    found = through_both(tmp_path, path)
    same_bytes(found, ["manifest.jsonl", "sync/1.json", "temp/shard-00000.npy"])
    origin_ns = json.loads((found[0] / "sync/1.json").read_text())["origin_ns"]
    assert origin_ns == pytest.approx((T0 + 5) * 10**9, abs=10**6)
    assert records(found[0])[0]["source"] == "e4"


def test_record_is_named_by_the_same_source_both_ways(tmp_path):
    for name in ("b.tsv", "c/d.tsv"):
        write_stream(tmp_path / "raw" / name, 0, 100)
    write_trials(tmp_path / "raw/a.tsv")
    path = study(tmp_path, f"session x z trials trials.start\n1 c/d.tsv b.tsv a.tsv {T0}\n")
    found = through_both(tmp_path, path)
    same_bytes(found, ["manifest.jsonl"])
    assert {one["source"] for one in records(found[0])} == {"b.tsv"}


@pytest.mark.parametrize("way", ["raw_way", "set_way"])
def test_columns_of_parts_are_matched_by_name(tmp_path, way):
    for name, begin, columns, row in (("a", 0, "p q", "1 2"), ("b", 10, "q r p", "2 3 1")):
        rows = "".join(f"{T0 + begin + k / 10:.1f} {row}\n" for k in range(50))
        path = tmp_path / f"raw/{name}.tsv"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"t_s {columns}\n{rows}".replace(" ", "\t"), encoding="utf-8")
    through_both(tmp_path, study(tmp_path, "session x\n1 a.tsv;b.tsv\n"))
    data = mmprep.open_dataset(tmp_path / way, fill="nan")
    for k, expected in ((0, [1, 2, np.nan]), (14, [1, 2, 3])):
        np.testing.assert_allclose(data[k]["x"][4], expected, atol=1e-6)


@pytest.mark.parametrize("way", ["raw_way", "set_way"])
def test_events_of_parts_with_other_columns_and_types_are_one_table(tmp_path, way):
    write_stream(tmp_path / "raw/x.tsv", 0, 50)
    (tmp_path / "raw/a.tsv").write_text(f"t_s\tkey\tn\n{T0}.5\ta\t1\n{T0 + 1}.5\tb\t2\n")
    (tmp_path / "raw/b.tsv").write_text(
        f"t_s\tn\tkey\tmore\n{T0 + 2}.5\tx\ta\tq\n{T0 + 3}.5\t3\t7\tq\n"
    )
    through_both(tmp_path, study(tmp_path, "session x e\n1 x.tsv a.tsv;b.tsv\n"))
    stamps, columns, _ = read_rows(tmp_path / way / "tables/e/1.parquet", None)
    assert ((stamps - T0 * 10**9) / 1e9).tolist() == [0.5, 1.5, 2.5, 3.5]
    assert columns.to_pydict() == {
        "key": ["a", "b", "a", "7"],
        "n": ["1", "2", "x", "3"],
        "more": [None, None, "q", "q"],
    }


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("b.tsv;a.tsv", "x: part 2 begins before part 1"),
        ("a.tsv;", "study.tsv:2: x: a part is empty"),
        ("a.tsv;a.tsv", "study.tsv:2: x: a part stands there twice"),
    ],
)
def test_parts_that_are_none_are_refused(tmp_path, mmprep, cell, message):
    write_stream(tmp_path / "raw/a.tsv", 0, 50)
    write_stream(tmp_path / "raw/b.tsv", 7, 50)
    path = study(tmp_path, f"session x\n1 {cell}\n")
    ran = mmprep("align", "--sessions", path, "-o", tmp_path / "out", "--engine", "serial")
    assert ran.code == 3
    assert message in ran.err


def test_stream_without_a_rate_becomes_a_table_in_both_ways(tmp_path):
    write_stream(tmp_path / "raw/x.tsv", 0, 100)
    rows = "".join(f"{T0 + t}\t{k}\n" for k, t in enumerate((0.1, 0.4, 1.9, 2, 4.4, 7.13, 9.2)))
    (tmp_path / "raw/beats.tsv").write_text("t_s\tibi\n" + rows, encoding="utf-8")
    path = study(tmp_path, "session x beats\n1 x.tsv beats.tsv\n")
    run_align(sessions=path, output=tmp_path / "raw_way", engine="serial")
    run_convert(sessions=path, output=tmp_path / "data", engine="serial")
    run_align(tmp_path / "data", output=tmp_path / "set_way", engine="serial")
    for out in ("raw_way", "set_way"):
        assert [set(one["streams"]) for one in records(tmp_path / out)] == [{"x"}] * 10
        assert (tmp_path / out / "tables/beats/1.parquet").exists()


def test_one_file_serves_several_sessions_and_streams(tmp_path):
    lines = ["t_s\tid\tx"]
    lines += [f"{T0 + k / 10:.1f}\t{k % 2}\t{k}" for k in range(60)]
    path = tmp_path / "raw/all.tsv"
    path.parent.mkdir()
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    given = study(tmp_path, "session x\na all.tsv\nb all.tsv\n")
    run_convert(sessions=given, output=tmp_path / "out", engine="serial")
    assert [one["id"] for one in records(tmp_path / "out")] == ["a", "b"]
    assert [one["streams"]["x"]["rows"] for one in records(tmp_path / "out")] == [[0, 60]] * 2


def test_unknown_stream_of_a_file_is_refused_where_it_stands(tmp_path):
    write_stream(tmp_path / "raw/x.tsv", 0, 30)
    with pytest.raises(UsageError, match=r"study.tsv:2: .*x.tsv.*no stream 'y'"):
        run_convert(
            sessions=study(tmp_path, "session x\n1 x.tsv#y\n"),
            output=tmp_path / "out",
            engine="serial",
        )


@pytest.mark.parametrize("run", [run_align, run_convert])
def test_table_stands_for_the_inputs(tmp_path, run):
    path = two_sessions(tmp_path)
    with pytest.raises(UsageError, match="table of sessions"):
        run(tmp_path / "raw", sessions=path, output=tmp_path / "out", engine="serial")


def test_changed_table_is_converted_again(tmp_path):
    path = two_sessions(tmp_path)
    run_convert(sessions=path, output=tmp_path / "out", engine="serial")
    again = run_convert(sessions=path, output=tmp_path / "out", engine="serial")
    assert again.status == "up-to-date"
    study(tmp_path, "session subject eeg\ns1 P09 a/eeg.tsv\n")
    run_convert(sessions=path, output=tmp_path / "out", engine="serial")
    assert [one["subject"] for one in records(tmp_path / "out")] == ["P09"]


@pytest.mark.parametrize("run", [run_align, run_convert])
def test_parts_of_a_video_are_refused_and_not_cut_short(tmp_path, run):
    video = ROOT / "sample_data/amigos/P01/V01_video.mp4"
    other = ROOT / "sample_data/amigos/P01/V02_video.mp4"
    path = study(tmp_path, f"session face\n1 {video};{other}\n")
    with pytest.raises(UsageError, match="'face' has parts"):
        run(sessions=path, output=tmp_path / "out", engine="serial")
