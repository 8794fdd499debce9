"""Errors in, outcomes out."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from mmprep import files
from mmprep.errors import DataError, SpaceError, TransientError, UsageError
from mmprep.steps.running.tasks import Item, Task, Work


@pytest.fixture
def task(tmp_path):
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        path.write_text(path.name)
    items = tuple(Item(path.name, (str(path),), 1, {}, path.name) for path in paths)
    return Task("t", items, folder=str(tmp_path / "task"))


def _raising(error):
    def do(job):
        done = []
        for item in job.items():
            with job.attempt(item, "stage"):
                if item.id == "a":
                    raise error
                done.append(item.id)
        return {"done": done}

    return Work(do)


def _unheard(item_id):
    pass


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (DataError("is bad", where="a"), "a: is bad"),
        (ValueError("odd"), "ValueError: odd (a bug in mmprep"),
        (KeyError("k"), "KeyError: 'k'"),
        (FileNotFoundError(2, "No such file or directory", "/in/a"), "/in/a: No such file"),
    ],
)
def test_error_of_an_item_is_its_failure_and_the_others_go_on(task, error, message):
    outcome = _raising(error)(task, _unheard)
    assert outcome.value == {"done": ["b"]}
    (failure,) = outcome.failures
    assert (failure.id, failure.source, failure.stage) == ("a", "a", "stage")
    assert failure.error == type(error).__name__
    assert failure.message.startswith(message)


def test_task_that_does_not_keep_going_stops_at_the_item_that_fails(task):
    outcome = replace(_raising(ValueError("odd")), keep_going=False)(task, _unheard)
    assert outcome.value == {"done": []}
    assert [failure.id for failure in outcome.failures] == ["a"]


@pytest.mark.parametrize(
    ("error", "retryable"),
    [(OSError(errno.EIO, "I/O error"), True), (ValueError(), False)],
)
def test_trouble_that_may_pass_is_retryable(task, error, retryable):
    assert _raising(error)(task, _unheard).failures[0].retryable is retryable


def test_lack_of_memory_is_left_to_the_engine(task):
    with pytest.raises(MemoryError, match="8 GiB"):
        _raising(MemoryError("8 GiB"))(task, _unheard)


@pytest.mark.parametrize("kind", [UsageError, TransientError, SpaceError])
def test_what_is_no_items_fault_ends_the_run(task, kind):
    outcome = _raising(kind("stop"))(task, _unheard)
    assert type(outcome.fatal) is kind
    assert outcome.value is None


def test_full_disk_ends_the_run_whoever_reports_it(task):
    outcome = _raising(OSError(errno.ENOSPC, "No space left"))(task, _unheard)
    assert isinstance(outcome.fatal, SpaceError)


def test_trouble_with_our_own_folder_ends_the_run(task):
    error = OSError(errno.EIO, "I/O error", f"{task.folder}/x")
    assert isinstance(_raising(error)(task, _unheard).fatal, TransientError)


def test_ctrl_c_is_no_failure_of_an_item(task):
    with pytest.raises(KeyboardInterrupt):
        _raising(KeyboardInterrupt())(task, _unheard)


def test_inputs_are_fingerprinted(task):
    outcome = _raising(ValueError())(task, _unheard)
    assert outcome.digests == {path: files.digest(path) for path in task.inputs}


def test_input_that_cannot_be_read_has_no_fingerprint(task):
    Path(task.inputs[0]).unlink()
    assert list(_raising(ValueError())(task, _unheard).digests) == [task.inputs[1]]


def test_each_item_is_noted_before_its_work(task):
    noted = []
    _raising(ValueError())(task, noted.append)
    assert noted == ["a", "b"]


def test_lost_item_is_left_out_and_named(task):
    work = _raising(ValueError())
    outcome = work(work.without(task, {"a": ("killed", "signal 9", 2)}), _unheard)
    (failure,) = outcome.failures
    assert (failure.id, failure.error, failure.attempts) == ("a", "killed", 2)
    assert failure.retryable
    assert outcome.value == {"done": ["b"]}


@pytest.mark.parametrize(("item_id", "lost"), [("b", ["b"]), (None, ["a", "b"])])
def test_lost_task_blames_one_item_or_all(task, item_id, lost):
    outcome = _raising(ValueError()).lost(task, item_id, "timeout", "60 s", 2)
    assert outcome.value is None
    assert [failure.id for failure in outcome.failures] == lost


def test_line_of_a_failure_has_the_fixed_keys(task):
    line = _raising(ValueError("x"))(task, _unheard).failures[0].line()
    assert list(line) == ["id", "source", "stage", "error", "message", "attempts", "retryable"]


def test_shared_input_is_listed_once():
    items = tuple(Item(name, ("/in/x",), 3) for name in "ab")
    assert (Task("t", items).inputs, Task("t", items).n_bytes) == (("/in/x",), 6)
