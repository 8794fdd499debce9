"""What the INPUT arguments name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mmprep.errors import DataError, UsageError
from mmprep.steps.inputs import chosen, expand, size_of


@pytest.fixture
def top(tmp_path):
    names = ["b/2.tsv", "b/1.tsv", "a.wav", "b/.hidden", ".git/x.tsv", "c/d/3.tsv"]
    for name in names:
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text("x")
    return tmp_path / "in"


def test_walk_is_sorted_and_leaves_hidden_names_out(top):
    found = expand([str(top)])
    assert found.names == ("a.wav", "b/1.tsv", "b/2.tsv", "c/d/3.tsv")
    assert found.root == top
    assert found.named == frozenset()


def test_walk_leaves_data_sets_and_the_output_out(top):
    for name in ("made/.mmprep/run.json", "out/x.tsv", "out.incomplete/x.tsv"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text("x")
    found = expand([str(top)], output=top / "out")
    assert found.names == ("a.wav", "b/1.tsv", "b/2.tsv", "c/d/3.tsv")


def test_walked_folders_are_those_of_files_and_the_one_named(top):
    (top / "empty").mkdir()
    assert expand([str(top)]).folders == tuple(str(top / n) for n in ("", "b", "c/d"))
    assert expand([str(top / "empty")]).folders == (str(top / "empty"),)


def test_root_of_a_file_is_its_folder(top):
    found = expand([str(top / "b/1.tsv")])
    assert (found.root, found.names, found.named) == (top / "b", ("1.tsv",), {"1.tsv"})


def test_root_of_several_is_the_deepest_common_one(top):
    found = expand([str(top / "b/1.tsv"), str(top / "c")])
    assert (found.root, found.names) == (top, ("b/1.tsv", "c/d/3.tsv"))
    assert found.named == {"b/1.tsv"}


def test_root_given_names_the_files(top):
    assert expand([str(top / "b")], root=top).names == ("b/1.tsv", "b/2.tsv")


def test_file_outside_the_root_is_refused(top):
    with pytest.raises(UsageError, match="does not lie below the root") as caught:
        expand([str(top / "a.wav")], root=top / "b")
    assert "--root" in caught.value.hint


def test_file_named_twice_is_taken_once(top):
    found = expand([str(top / "b"), str(top / "b/2.tsv")])
    assert found.names == ("1.tsv", "2.tsv")
    assert found.named == {"2.tsv"}


@pytest.mark.parametrize("name", ["", "dataset.json", "manifest.jsonl"])
def test_data_set_is_told_from_a_folder(tmp_path, name):
    (tmp_path / "made").mkdir()
    for part in ("dataset.json", "manifest.jsonl"):
        (tmp_path / "made" / part).write_text("{}")
    found = expand([str(tmp_path / "made" / name)])
    assert (found.datasets, found.names) == ((tmp_path / "made",), ())


def test_output_as_input_is_refused(top):
    with pytest.raises(UsageError, match="both input and output"):
        expand([str(top)], output=top.parent / "x/../in")


@pytest.mark.parametrize(
    ("name", "include", "exclude", "kept"),
    [
        ("a/b.tsv", (), (), True),
        ("a/b.tsv", ("*.wav",), (), False),
        ("a/b.tsv", ("*.wav", "b.*"), (), True),
        ("a/b.tsv", ("a/*",), (), True),
        ("a/b.tsv", (), ("b.tsv",), False),
        ("a/b.tsv", ("*.tsv",), ("a/**",), False),
        ("a/b.TSV", ("*.tsv",), (), False),
    ],
)
def test_include_and_exclude_match_name_and_path(name, include, exclude, kept):
    assert chosen(name, include, exclude) is kept


def test_name_that_is_not_utf8_is_refused_unless_left_out(top):
    (top / "b" / os.fsdecode(b"\xff.tsv")).write_text("x")
    with pytest.raises(DataError, match=r"b/\\xff.tsv: its name is not UTF-8") as caught:
        expand([str(top)])
    assert "--exclude" in caught.value.hint
    assert len(expand([str(top)], exclude=["b/*"]).names) == 2


def test_size_of_a_vanished_file_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="gone: No such file"):
        size_of(str(tmp_path / "gone"))


def test_relative_argument_is_below_the_current_folder(top, monkeypatch):
    monkeypatch.chdir(top / "b")
    found = expand(["."])
    assert (found.root, found.names) == (top / "b", ("1.tsv", "2.tsv"))
    assert Path(found.path("1.tsv")).is_absolute()
