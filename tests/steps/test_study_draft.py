"""The draft of a table of sessions: what belongs together, and where a person is asked."""

from __future__ import annotations

import csv
import gzip
import json
import shutil

import pytest

from mmprep import run_align, run_convert
from mmprep.steps.study.grouping import OWN, UTC, Look, grouped, names_of, subject_of
from tests.conftest import ROOT

S = 10**9


def look(path, span_s=None, part=None):
    stem = path.rpartition(".")[0] or path
    kind = {"mp4": "video", "wav": "audio"}.get(path.rpartition(".")[2], "table")
    span = None if span_s is None else (span_s[0] * S, span_s[1] * S)
    return Look(path, stem, part, kind, span, UTC if span else OWN)


def table_of(*looks):
    """Give session -> {stream: paths}, `?` before what a person must decide."""
    groups = grouped(looks)
    return {
        session: {
            name: "?" * cell.is_open + ";".join(one.path for one in cell.looks)
            for name, cell in sorted(group.cells().items())
        }
        for group, session in zip(groups, names_of(groups), strict=True)
    }


def test_files_of_a_folder_a_session_are_together():
    found = table_of(*map(look, ["P01/eeg.edf", "P01/face.mp4", "P02/eeg.edf", "P02/face.mp4"]))
    assert found == {
        "P01": {"eeg": "P01/eeg.edf", "face": "P01/face.mp4"},
        "P02": {"eeg": "P02/eeg.edf", "face": "P02/face.mp4"},
    }


def test_folders_a_stream_and_other_spellings_of_a_person_are_together():
    found = table_of(*map(look, ["eeg/P01.edf", "eeg/P02.edf", "gsr/sub-1.csv", "gsr/sub-2.csv"]))
    assert found == {
        "P01": {"eeg": "eeg/P01.edf", "gsr": "gsr/sub-1.csv"},
        "P02": {"eeg": "eeg/P02.edf", "gsr": "gsr/sub-2.csv"},
    }


def test_names_without_numbers_identify_by_the_files_they_hold():
    found = table_of(*map(look, ["anna/eeg.edf", "anna/gsr.csv", "ben/eeg.edf", "ben/gsr.csv"]))
    assert list(found) == ["anna", "ben"]


def test_flat_folder_is_parted_by_the_words_that_differ():
    found = table_of(*map(look, ["P1_S1_eeg.edf", "P1_S2_eeg.edf", "P1_S1_gsr.csv"]))
    assert found == {
        "P1_S1": {"eeg": "P1_S1_eeg.edf", "gsr": "P1_S1_gsr.csv"},
        "P1_S2": {"eeg": "P1_S2_eeg.edf"},
    }


def test_stream_has_no_name_that_the_table_or_a_data_set_has():
    found = table_of(*(look(f"P0{k}/{name}.csv") for k in (1, 2) for name in ("session", "sync")))
    assert [list(row) for row in found.values()] == [["session_stream", "sync_stream"]] * 2


def test_bids_files_are_called_by_their_suffix(tmp_path, mmprep):
    for subject in ("sub-01", "sub-02"):
        folder = tmp_path / "raw" / subject
        folder.mkdir(parents=True)
        (folder / f"{subject}_task-rest_events.tsv").write_text("onset\tduration\n1\t2\n4\t2\n")
        (folder / f"{subject}_task-rest_physio.json").write_text(
            '{"SamplingFrequency": 10, "StartTime": 0, "Columns": ["cardiac"]}'
        )
        with gzip.open(folder / f"{subject}_task-rest_physio.tsv.gz", "wt") as file:
            file.writelines(f"{k}\n" for k in range(100))
    ran = mmprep("inspect", "--sessions", tmp_path / "raw", "-o", tmp_path / "study.tsv")
    assert "2 sessions; no ? is left" in ran.err
    rows = read(tmp_path / "study.tsv")
    assert [list(row) for row in rows] == [["session", "subject", "events", "physio"]] * 2


def test_file_of_a_person_goes_to_the_sessions_that_it_overlaps_with():
    found = table_of(
        look("P1/S1_eeg.edf", (0, 100)),
        look("P1/S2_eeg.edf", (200, 300)),
        look("P2/S1_eeg.edf", (0, 100)),
        look("P1/watch.csv", (-50, 400)),
    )
    assert found["P1_S1"]["watch"] == found["P1_S2"]["watch"] == "P1/watch.csv"
    assert "watch" not in found["P2_S1"]


def test_file_without_times_that_may_belong_to_two_sessions_is_a_question():
    found = table_of(
        look("P1/S1_eeg.edf", (0, 100)),
        look("P1/S2_eeg.edf", (200, 300)),
        look("P2/S1_eeg.edf", (0, 100)),
        look("P1/film.mp4"),
    )
    assert found["P1_S1"]["film"] == found["P1_S2"]["film"] == "?P1/film.mp4"
    assert "film" not in found["P2_S1"]


def test_files_without_a_common_word_are_joined_by_time():
    found = table_of(
        look("eeg/P01.edf", (0, 100)),
        look("eeg/P02.edf", (500, 600)),
        look("watch/1544027337_A01525.zip", (-5, 90), "EDA"),
        look("watch/1544031999_A01525.zip", (510, 650), "EDA"),
    )
    assert [sorted(streams) for streams in found.values()] == [["eda", "eeg"]] * 2
    assert found["P01"]["eda"] == "watch/1544027337_A01525.zip"


def test_two_people_recorded_at_one_time_stay_two_sessions():
    found = table_of(
        look("P29/eeg.csv", (0, 100)),
        look("P30/eeg.csv", (0, 100)),
        look("P29/gsr.csv", (0, 100)),
        look("P30/gsr.csv", (0, 100)),
    )
    assert found == {
        name: {"eeg": f"{name}/eeg.csv", "gsr": f"{name}/gsr.csv"} for name in ("P29", "P30")
    }


def test_parts_that_another_recording_bridges_are_one_stream_in_order_of_time():
    found = table_of(
        look("P1/b/watch.csv", (60, 100)),
        look("P1/a/watch.csv", (0, 50)),
        look("P1/eeg.edf", (10, 90)),
        look("P2/eeg.edf", (500, 600)),
    )
    assert found["P1"]["watch"] == "P1/a/watch.csv;P1/b/watch.csv"


def test_recordings_that_nothing_bridges_are_sessions_of_their_own():
    found = table_of(look("x/one.csv", (0, 50), "EDA"), look("x/two.csv", (60, 100), "EDA"))
    assert [streams["eda"] for streams in found.values()] == ["x/one.csv", "x/two.csv"]


def test_two_files_of_one_stream_without_times_are_a_question():
    found = table_of(look("P1/a/eeg.csv"), look("P1/b/eeg.csv"), look("P2/a/eeg.csv"))
    assert found["P1"]["eeg"] == "?P1/a/eeg.csv;P1/b/eeg.csv"


def test_every_file_stands_somewhere():
    paths = [f"P{p}/S{s}/{name}" for p in (1, 2) for s in (1, 2) for name in ("a.csv", "b.edf")]
    paths += ["notes.csv", "P1/x.csv", "stimulus.mp4"]
    found = table_of(*map(look, paths))
    listed = {path for row in found.values() for cell in row.values() for path in cell.split(";")}
    assert {path.lstrip("?") for path in listed} == set(paths)


@pytest.mark.parametrize(
    ("path", "subject"), [("sub-07/eeg.edf", "sub-07"), ("x/P3_eeg.edf", "P3"), ("x/y.edf", None)]
)
def test_person_is_read_from_the_path(path, subject):
    (group,) = grouped([look(path)])
    assert subject_of(group) == subject


# End to end ---------------------------------------------------------------------------------------


def read(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_draft_of_the_sample_study_is_converted_as_it_is(tmp_path, mmprep):
    target = tmp_path / "study.tsv"
    ran = mmprep("inspect", "--sessions", ROOT / "sample_data/amigos", "-o", target)
    assert (ran.code, ran.out) == (0, f"{target}\n")
    assert "8 sessions; no ? is left" in ran.err
    assert "labels.tsv: no time column" in ran.err
    rows = read(target)
    assert [row["session"] for row in rows][:3] == ["P01_V01", "P01_V02", "P02_V01"]
    assert list(rows[0]) == ["session", "subject", "eeg", "gsr", "video"]
    run_convert(sessions=str(target), output=tmp_path / "out", engine="serial")
    ran = mmprep("inspect", "--sessions", ROOT / "sample_data/amigos", "-o", target)
    assert ran.code == 2
    assert "exists already" in ran.err


def real_study(tmp_path, shared):
    """Lay a wristband, a headset and a webcam out as a lab has them; the wristband set in time."""
    raw = tmp_path / "raw/P01"
    (raw / "wrist").mkdir(parents=True)
    begin_s = 1_711_846_785
    for name in ("EDA", "BVP", "TEMP"):
        first, *rest = shared(f"e4/devicely_session/{name}.csv").read_text().splitlines()
        assert float(first) > 1e9
        (raw / f"wrist/{name}.csv").write_text("\n".join([f"{begin_s}.00", *rest]) + "\n")
    shutil.copyfile(shared("emotiv/emotivpro_style_derived.csv"), raw / "headset.csv")
    shutil.copyfile(shared("video/androidx_sample.mp4"), raw / "webcam.mp4")
    return tmp_path / "raw"


def test_archive_of_a_wristband_is_drafted_and_aligned(tmp_path, shared, mmprep):
    session = shared("made/B06/e4_session")
    for name in ("P01", "P02"):
        packed = tmp_path / f"raw/{name}/e4"
        packed.parent.mkdir(parents=True)
        shutil.make_archive(str(packed), "zip", session)
    path = tmp_path / "study.tsv"
    ran = mmprep("inspect", "--sessions", tmp_path / "raw", "-o", path)
    assert "left out" not in ran.err
    assert [row["eda"] for row in read(path)] == [f"raw/{p}/e4.zip#EDA" for p in ("P01", "P02")]
    run_align(sessions=str(path), output=tmp_path / "out", engine="serial")
    assert (tmp_path / "out/eda/shard-00000.npy").exists()


def test_wristband_headset_and_webcam_become_one_session(tmp_path, shared, mmprep):
    raw, target = real_study(tmp_path, shared), tmp_path / "study.tsv"
    ran = mmprep("inspect", "--sessions", raw, "-o", target)
    assert ran.code == 0
    (row,) = read(target)
    assert row["eda"] == "raw/P01/wrist#EDA"
    assert row["webcam"] == "raw/P01/webcam.mp4"
    assert (row["subject"], row["webcam.start"]) == ("P01", "?")
    assert "1 cells begin with ?" in ran.err
    ran = mmprep("convert", "--sessions", target, "-o", tmp_path / "out")
    assert ran.code == 3
    assert "study.tsv:2: webcam.start: is not decided" in ran.err
    target.write_text(target.read_text().replace("?", "1711846792.5"))
    run_convert(sessions=str(target), output=tmp_path / "data", engine="serial")
    run_align(tmp_path / "data", output=tmp_path / "one", engine="serial")
    run_align(sessions=str(target), output=tmp_path / "two", engine="serial")
    first = (tmp_path / "one/manifest.jsonl").read_text()
    record = json.loads(first.splitlines()[0])
    assert {"eda", "bvp", "temp", "webcam"} < set(record["streams"])
    assert first == (tmp_path / "two/manifest.jsonl").read_text()
