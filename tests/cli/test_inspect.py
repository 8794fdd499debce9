"""`mmprep inspect` as it is called."""

from __future__ import annotations

import json

import pytest

from tests import raw

SERIAL = ("--engine", "serial")


def test_text_lists_facts_and_streams(mmprep, tmp_path):
    path = raw.table(tmp_path / "eeg.tsv")
    done = mmprep("inspect", path)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == str(path)
    assert "  kind               table" in lines
    assert "  #eeg" in lines
    assert "    rate_hz            4" in lines


def test_json_is_one_object_a_line_and_file(mmprep, tmp_path):
    paths = [raw.table(tmp_path / "eeg.tsv"), raw.sound(tmp_path / "a.wav")]
    done = mmprep("inspect", *paths, "--json")
    found = [json.loads(line) for line in done.out.splitlines()]
    assert [facts["path"] for facts in found] == [str(path) for path in paths]
    assert [facts["kind"] for facts in found] == ["table", "audio"]


@pytest.mark.parametrize(
    ("key", "value"), [("rate_hz", "8000"), ("n_samples", "800"), ("duration_s", "0.1")]
)
def test_value_prints_it_bare(mmprep, tmp_path, key, value):
    done = mmprep("inspect", raw.sound(tmp_path / "a.wav"), "--value", key)
    assert (done.code, done.out) == (0, f"{value}\n")


def test_value_that_is_not_known_is_bad_input(mmprep, tmp_path):
    done = mmprep("inspect", raw.table(tmp_path / "eeg.tsv"), "--value", "start")
    assert done.code == 3
    assert f"{tmp_path}/eeg.tsv: start is not known" in done.err


def test_value_without_such_a_key_names_the_keys(mmprep, tmp_path):
    done = mmprep("inspect", raw.table(tmp_path / "eeg.tsv"), "--value", "hz")
    assert done.code == 2
    assert "rate_hz" in done.err


def test_rate_and_time_unit_reach_the_reader(mmprep, tmp_path):
    (tmp_path / "x.tsv").write_text("a\tb\n" + "1\t2\n" * 10)
    done = mmprep("inspect", tmp_path / "x.tsv", "--rate", "5", "--value", "duration_s")
    assert done.out == "2\n"


@pytest.mark.parametrize("name", ["", "/dataset.json"])
def test_data_set_by_folder_or_record(mmprep, tmp_path, name):
    raw.sound(tmp_path / "in/a.wav")
    mmprep("convert", tmp_path / "in", "-o", tmp_path / "out", *SERIAL)
    done = mmprep("inspect", f"{tmp_path}/out{name}", "--value", "records")
    assert (done.code, done.out) == (0, "1\n")


def test_bad_file_among_several_does_not_hide_the_others(mmprep, tmp_path):
    (tmp_path / "bad.tsv").write_text("a\tb\n1\t2\n")
    good = [raw.sound(tmp_path / "a.wav"), raw.sound(tmp_path / "b.wav", n_samples=80)]
    files = (good[0], tmp_path / "bad.tsv", tmp_path / "none.tsv", good[1])
    done = mmprep("inspect", *files, "--value", "n_samples")
    assert (done.code, done.out) == (3, "800\n80\n")
    assert "bad.tsv: no time column among a, b" in done.err
    assert "none.tsv: does not exist" in done.err
    assert "mmprep: error: 2 of 4 files could not be shown\n" in done.err
