"""Begins and ends of trials between markers."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mmprep import align


def pair(text, start, end):
    """Pair markers given as `name name ...`, one a second."""
    names = text.split()
    groups = [
        [None if one is None else one.groupdict() for one in map(re.compile(e).search, names)]
        for e in (start, end)
    ]
    return align.pair(np.arange(len(names), dtype=np.int64), *groups)


def spans(found):
    ends = [None if end == align.NO_END else int(end) for end in found.ends_ns]
    return list(zip(found.begins.tolist(), ends, strict=True))


def test_trial_ends_with_the_first_end_behind_its_begin():
    found = pair("go x stop go stop", "go", "stop")
    assert (spans(found), found.n_ends, found.n_no_start) == ([(0, 2), (3, 4)], 2, 0)


def test_begin_without_an_end_and_end_without_a_begin_are_counted():
    found = pair("stop go go stop stop go", "go", "stop")
    assert spans(found) == [(1, None), (2, 3), (5, None)]
    assert (found.n_ends, found.n_no_start) == (3, 2)


def test_groups_of_one_name_must_agree_so_that_trials_may_overlap():
    found = pair("go_1 go_2 stop_1 stop_3 stop_2", r"go_(?P<trial>\d)", r"stop_(?P<trial>\d)")
    assert spans(found) == [(0, 2), (1, 4)]
    assert (found.n_ends, found.n_no_start) == (3, 1)
    assert [one["trial"] for one in found.groups] == ["1", "2"]


def test_trial_has_the_groups_of_its_begin_and_of_its_end():
    found = pair("go_1 bad", r"go_(?P<trial>\d)", r"(?P<result>good|bad)")
    assert dict(found.groups[0]) == {"trial": "1", "result": "bad"}


def test_marker_that_is_both_ends_one_trial_and_begins_the_next():
    found = pair("t1 t2 rest t3", r"t\d", r"t\d|rest")
    assert (spans(found), found.n_ends) == ([(0, 1), (1, 2), (3, None)], 1)


def test_marker_that_stands_at_both_edges_begins_and_ends_the_trial_of_its_name():
    found = pair("1 1 2 2 1 1", r"(?P<cue>\d)", r"(?P<cue>\d)")
    assert (spans(found), found.n_ends) == ([(0, 1), (2, 3), (4, 5)], 3)


@given(st.lists(st.sampled_from(["go", "stop", "x"]), max_size=12))
def test_every_marker_is_a_begin_an_end_or_neither(names):
    found = pair(" ".join(names), "go", "stop")
    ended = sum(end is not None for _, end in spans(found))
    assert len(found.begins) == names.count("go")
    assert found.n_ends == names.count("stop") == ended + found.n_no_start


def test_without_ends_a_trial_lasts_its_duration_else_to_the_next_begin():
    stamps = np.array([0, 10, 30, 60], np.int64)
    assert align.lasting(stamps, np.array([0, 5, 0, 7])).tolist() == [10, 15, 60, 67]


def test_last_trial_lasts_as_long_as_most_do():
    stamps = np.array([0, 10, 20, 60], np.int64)
    assert align.lasting(stamps, np.zeros(4, np.int64)).tolist() == [10, 20, 60, 70]


def test_single_begin_has_no_end():
    assert align.lasting(np.array([5]), np.array([0])).tolist() == [align.NO_END]
