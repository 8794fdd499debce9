"""The pool: order, back-pressure, lost workers, ends. Nothing here asserts a time."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
import psutil
import pytest

from mmprep.engines import base, pool
from mmprep.engines.pool import Pool
from mmprep.errors import TransientError
from mmprep.steps.running.tasks import DEFAULT_MEMORY_BYTES
from tests.engines import works

ROOT = Path(__file__).resolve().parents[2]
NO_FORK = {"forks": False}


def light(jobs, **options):
    """Make a pool that loads nothing beforehand."""
    return Pool(jobs, **{"preload": (), **options})


def run(do, tasks, jobs=2, **options):
    with light(jobs, **options) as workers:
        return list(workers.map(works.ItemWork(do), tasks))


def only_loss(result):
    ((item_id, (kind, reason, attempts)),) = result.lost.items()
    return item_id, kind, reason, attempts


# --- order, laziness, back-pressure


@pytest.mark.parametrize("options", [{}, NO_FORK], ids=["fork", "no fork"])
@pytest.mark.parametrize("jobs", [1, 2, 7])
def test_results_equal_those_of_serial(jobs, options):
    tasks = works.tasks(8, n_items=2)
    expected = list(base.serial(works.ItemWork(works.square), tasks))
    assert run(works.square, tasks, jobs, **(options if jobs < 7 else {})) == expected


def test_results_come_in_order_when_tasks_end_out_of_order():
    results = run(works.lazy, works.tasks(20), jobs=4)
    assert [result.task for result in results] == [f"t{k}" for k in range(20)]


def test_map_of_no_tasks_is_empty():
    assert run(works.echo, []) == []


def test_map_starts_nothing_before_it_is_asked():
    taken = []
    with light(1) as workers:
        workers.map(works.ItemWork(works.echo), (taken.append(t) or t for t in works.tasks(3)))
    assert taken == []


def test_map_takes_at_most_the_tasks_in_flight():
    n_taken = n_given = most = 0

    def source():
        nonlocal n_taken, most
        for task in works.tasks(30):
            n_taken += 1
            most = max(most, n_taken - n_given)
            yield task

    with light(3, max_in_flight=5) as workers:
        for _ in workers.map(works.ItemWork(works.lazy), source()):
            n_given += 1
    assert 3 <= most <= 5 + 1  # the one being given back is counted until the caller has it


def overlaps(results):
    spans = [result.values[0] for result in results]
    return sum(a < d and c < b for k, (a, b) in enumerate(spans) for c, d in spans[:k])


@pytest.mark.parametrize(("memory_bytes", "expected"), [(40, True), (60, False), (1000, False)])
def test_tasks_run_together_when_their_memory_fits(memory_bytes, expected):
    tasks = [works.Task(f"{k}", (works.Item("i"),), memory_bytes) for k in range(4)]
    results = run(works.spans, tasks, jobs=4, max_bytes_in_flight=100)
    assert (overlaps(results) > 0) is expected


@pytest.mark.parametrize("jobs", [1, 64])
def test_as_many_common_tasks_fit_as_there_are_workers(jobs):
    assert light(jobs).max_bytes >= jobs * DEFAULT_MEMORY_BYTES


def test_large_results_pass():
    results = run(works.large, works.tasks(4))
    assert [len(result.values[0]) for result in results] == [3_000_000] * 4


def test_two_maps_follow_each_other_with_the_same_workers():
    with light(1) as workers:
        first, second = (
            next(workers.map(works.ItemWork(works.pid), works.tasks(1))) for _ in range(2)
        )
    assert first.values == second.values


def test_second_map_is_refused_while_one_runs():
    with light(1) as workers:
        running = workers.map(works.ItemWork(works.echo), works.tasks(3))
        next(running)
        with pytest.raises(RuntimeError, match="one map at a time"):
            next(workers.map(works.ItemWork(works.echo), works.tasks(1)))
        running.close()


def test_map_is_refused_outside_the_with_block():
    with pytest.raises(RuntimeError, match="inside its `with` block"):
        next(light(1).map(works.ItemWork(works.echo), works.tasks(1)))


def test_no_more_workers_start_than_there_are_tasks():
    with light(8) as workers:
        list(workers.map(works.ItemWork(works.echo), works.tasks(2)))
        assert len(workers.workers) <= 2


# --- lost workers


@pytest.mark.parametrize(
    ("do", "kind", "reason"),
    [
        (works.kill_self, "killed", "SIGKILL"),
        (works.exit_self, "crashed", "exit status 3"),
        (works.leave, "crashed", "exit status 4"),
        (works.segfault, "crashed", "SIGSEGV"),
        (works.raise_memory, "memory", "memory ran out"),
        (works.die_with_child, "killed", "SIGKILL"),
    ],
)
def test_item_that_costs_its_worker_twice_is_lost_alone(do, kind, reason):
    tasks = [*works.tasks(3), works.named("bad"), *works.tasks(3)]
    results = run(do, tasks)
    assert [bool(result.values) for result in results] == [True] * 3 + [False] + [True] * 3
    item_id, found, text, attempts = only_loss(results[3])
    assert (item_id, found, attempts) == ("bad", kind, 2)
    assert reason in text


@pytest.mark.parametrize("do", [works.exit_self, works.segfault, works.kill_self])
def test_item_is_lost_alone_without_fork(do):
    results = run(do, [works.named("a", "bad"), *works.tasks(2)], **NO_FORK)
    assert [result.values for result in results] == [("a",), ("t0/0",), ("t1/0",)]
    assert only_loss(results[0])[0] == "bad"


@pytest.mark.parametrize("options", [{}, NO_FORK], ids=["fork", "no fork"])
def test_item_that_hangs_is_killed_after_the_timeout(options):
    results = run(works.hang, [works.named("a", "bad", "b")], timeout_s=0.3, **options)
    assert results[0].values == ("a", "b")
    assert only_loss(results[0]) == ("bad", "timeout", "it took longer than 0.3 s", 2)


def test_timeout_counts_anew_at_each_item():
    (result,) = run(works.dawdle, works.tasks(1, n_items=5), timeout_s=0.7)
    assert len(result.values) == 5


def test_time_of_the_caller_counts_against_no_item():
    with light(2, timeout_s=0.4) as workers:
        results = workers.map(works.ItemWork(works.dawdle), works.tasks(4))
        lost = [result.lost for result in results if time.sleep(0.5) is None]
    assert lost == [{}] * 4


def test_task_goes_on_without_its_poisoned_items():
    (result,) = run(works.kill_self, [works.named("a", "bad 1", "b", "bad 2", "c")])
    assert result.values == ("a", "b", "c")
    assert {key: value[::2] for key, value in result.lost.items()} == {
        "bad 1": ("killed", 2),
        "bad 2": ("killed", 2),
    }


def test_item_that_costs_its_worker_once_is_done(tmp_path):
    (result,) = run(works.die_once, [works.named(str(tmp_path / "mark"))])
    assert result == works.Result("t", (str(tmp_path / "mark"),))


def test_second_try_of_a_killed_task_runs_alone():
    tasks = [works.named("bad"), *works.tasks(6)]
    with light(3) as workers:
        results = workers.map(works.ItemWork(works.kill_self_with_span), tasks)
        assert only_loss(next(results))[3] == 2
        assert overlaps(list(results)) > 0  # the others still run together


def test_task_lost_before_any_note_is_given_up_as_a_whole():
    with light(2) as workers:
        work = works.SilentWork(works.kill_self)
        bad, good = workers.map(work, [works.named("bad", "a"), works.named("b")])
    assert only_loss(bad)[::3] == (None, 2)
    assert good.values == ("b",)


def test_task_lost_at_a_foreign_item_is_given_up_as_a_whole():
    with light(1) as workers:
        (result,) = workers.map(works.StubbornWork(works.echo), [works.named("a", "b")])
    assert only_loss(result)[::3] == (None, 2)


@pytest.mark.parametrize(
    ("do", "reason"), [(works.unsendable, "can't be sent"), (works.grudging, "ZeroDivisionError")]
)
def test_result_that_cannot_be_sent_is_a_loss(do, reason):
    bad, good = run(do, [works.named("bad"), works.named("a")])
    item_id, kind, text, attempts = only_loss(bad)
    assert (item_id, kind, attempts) == (None, "crashed", 1)
    assert reason in text
    assert good.values == ("a",)


def test_memory_error_that_the_work_catches_is_its_own_business():
    results = run(works.eat_memory, [works.named("bad"), works.named("a")])
    assert [result.values for result in results] == [("no memory",), ("a",)]


def test_pool_is_refilled():
    tasks = [works.named(f"bad {k}") if k % 3 == 0 else works.named(f"{k}") for k in range(12)]
    results = run(works.exit_self, tasks, jobs=2)
    assert [bool(result.lost) for result in results] == [k % 3 == 0 for k in range(12)]


def test_worker_killed_while_idle_costs_nothing():
    with light(1) as workers:
        (first,) = workers.map(works.ItemWork(works.pid), works.tasks(1))
        os.kill(first.values[0], signal.SIGKILL)
        (second,) = workers.map(works.ItemWork(works.pid), works.tasks(1))
    assert second.values != first.values
    assert not second.lost


def test_ids_with_lone_surrogates_are_named():
    (result,) = run(works.exit_self, [works.named("bad \udcff")])
    assert only_loss(result)[0] == "bad \udcff"


def test_nursery_that_is_killed_is_replaced(tmp_path):
    name = str(tmp_path / "mark")
    results = run(works.kill_nursery_once, [works.named(name), works.named(name)])
    assert [result.values for result in results] == [(name,), (name,)]


def test_nursery_that_is_killed_again_and_again_ends_the_map():
    with pytest.raises(TransientError, match="ended 3 times"):
        run(works.kill_nursery, works.tasks(2))


def test_worker_that_cannot_be_started_ends_the_map(monkeypatch):
    monkeypatch.setattr(pool, "_executable", lambda: "/nowhere/python")
    with pytest.raises(TransientError, match="no worker could be started: No such file"), light(1):
        pass


class Stingy(pool._Nursery):
    """A nursery on a system that lets it have only so many workers."""

    limit = 1

    def start(self, number):
        if number <= self.limit:
            return super().start(number)
        self.refused.append(number)
        ours, self.theirs = pool.Pipe()
        return ours

    def ends(self):
        yield from super().ends()
        while self.refused:
            yield self.refused.pop(), pool._Refusal(errno.EAGAIN)


def test_map_goes_on_with_the_workers_that_can_be_started(monkeypatch):
    monkeypatch.setattr(pool, "_Nursery", Stingy)
    monkeypatch.setattr(Stingy, "refused", [], raising=False)
    results = run(works.slow_pid, works.tasks(6), jobs=4)
    assert len({result.values for result in results}) == 1


def test_map_ends_when_no_worker_can_be_started(monkeypatch):
    monkeypatch.setattr(pool, "_Nursery", Stingy)
    monkeypatch.setattr(Stingy, "refused", [], raising=False)
    monkeypatch.setattr(Stingy, "limit", 0)
    with pytest.raises(TransientError, match="no worker could be started: Resource"):
        run(works.echo, works.tasks(2))


def refuse_files(*_, **__):
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_map_goes_on_with_the_workers_that_leave_files_to_open(monkeypatch):
    monkeypatch.setattr(pool, "_leave_files_free", refuse_files)
    results = run(works.slow_pid, works.tasks(6), jobs=4)
    assert len({result.values for result in results}) == 1


def test_map_ends_when_no_connection_can_be_opened(monkeypatch):
    monkeypatch.setattr(pool, "Pipe", refuse_files)
    with pytest.raises(TransientError, match="Too many open files") as caught:
        run(works.echo, works.tasks(2))
    assert "ulimit -n" in caught.value.hint


# --- errors that escape


def test_error_that_escapes_is_raised_with_the_worker_traceback():
    with pytest.raises(OSError, match="a bug") as caught:
        run(works.raise_error, [*works.tasks(2), works.named("bad")])
    assert "in raise_error" in caught.value.__notes__[0]


def test_error_that_cannot_travel_is_raised_as_text():
    with pytest.raises(base.WorkerError, match="OddError: t0/0"):
        run(works.raise_odd, works.tasks(1))


def test_error_of_the_tasks_is_the_callers():
    def source():
        yield from works.tasks(1)
        raise KeyError("no more")

    with light(2) as workers, pytest.raises(KeyError, match="no more"):
        list(workers.map(works.ItemWork(works.echo), source()))


# --- surroundings


def test_workers_have_one_thread_each():
    parent = np.ones((400, 400)) @ np.ones((400, 400))  # wakes the threads of BLAS here
    assert parent[0, 0] == 400
    results = run(works.blas_threads, works.tasks(4))
    assert {result.values for result in results} == {(1,)}


def test_nursery_has_one_thread_with_everything_loaded():
    names = ("numpy", "pyarrow.parquet", "soundfile", "av", "cv2", "scipy.signal", "soxr", "xxhash")
    begin_s = time.monotonic()
    with Pool(1, preload=names) as workers:
        list(workers.map(works.ItemWork(works.echo), works.tasks(2)))
        print(f"first results after {time.monotonic() - begin_s:.2f} s")
        assert workers.home.n_threads == 1


def test_workers_share_folder_and_path_and_have_no_stdin():
    (result,) = run(works.surroundings, works.tasks(1))
    assert result.values == ((str(Path.cwd()), "", sys.path),)


def test_workers_have_a_numba_cache_each_for_their_time():
    results = run(works.use_numba_cache, works.tasks(6))
    folders = {Path(result.values[0]) for result in results}
    assert len(folders) == 2
    assert not any(folder.parent.exists() for folder in folders)


def test_workers_have_loaded_what_is_asked_for_and_pass_over_what_is_missing():
    (result,) = run(works.modules, works.tasks(1), preload=("no_such_module", "wave"))
    assert result.values[0][1]


def test_workers_pass_over_a_module_whose_library_is_missing(tmp_path, monkeypatch):
    (tmp_path / "half_a_package.py").write_text("raise OSError('no such library')")
    monkeypatch.syspath_prepend(tmp_path)  # the workers take over the search path
    (result,) = run(works.echo, works.tasks(1), preload=("half_a_package",))
    assert result.values == ("t0/0",)


def test_workers_can_run_programs():
    (result,) = run(works.shell, works.tasks(1))
    assert result.values[0].strip() == b"1"


# --- whole programs


def script(tmp_path, text, **options):
    path = tmp_path / "script.py"
    path.write_text(text)
    return subprocess.Popen(
        [sys.executable, str(path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


HEAD = """
from mmprep.engines.pool import Pool
from tests.engines import works
"""
UNGUARDED = (
    HEAD
    + """
print("once")
with Pool(2, preload=()) as pool:
    for result in pool.map(works.ItemWork(works.warn), works.tasks(2)):
        print(result.values[0])
"""
)


def test_script_without_main_guard_runs_once_and_its_stdout_is_its_own(tmp_path):
    process = script(tmp_path, UNGUARDED)
    out, err = process.communicate(timeout=30)
    assert out.split() == ["once", "t0/0", "t1/0"]
    assert err.replace("\n", "") == "printed by the worker" * 2


FEW_FILES = (
    """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
"""
    + HEAD
    + """
with Pool(40, preload=()) as pool:
    for result in pool.map(works.ItemWork(works.slow_pid), works.tasks(60)):
        open(__file__), open(__file__)
print("done")
"""
)


def test_pool_leaves_files_to_open_to_its_caller(tmp_path):
    out, err = script(tmp_path, FEW_FILES).communicate(timeout=60)
    assert (out.strip(), err) == ("done", "")


POOR = """
import os, signal, socket
del os.fork, socket.send_fds, signal.pthread_sigmask
"""


def test_pool_works_where_processes_cannot_be_forked(tmp_path):
    out, err = script(tmp_path, POOR + UNGUARDED).communicate(timeout=30)
    assert out.split() == ["once", "t0/0", "t1/0"], err


HANGING = (
    HEAD
    + """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
with Pool(2, preload=(), forks={forks}) as pool:
    tasks = [works.Task("t", (works.Item({address!r}),))] * 2
    for result in pool.map(works.ItemWork(works.announce), tasks):
        pass
"""
)


def at_work(tmp_path, forks):
    """Start a script whose two workers hang; give it and all processes below it."""
    address = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        listener.settimeout(20)
        text = HANGING.format(forks=forks, address=address)
        process = script(tmp_path, text, start_new_session=True)
        for _ in range(2):
            listener.accept()[0].close()
    return process, psutil.Process(process.pid).children(recursive=True)


@pytest.mark.parametrize("forks", [True, False], ids=["fork", "no fork"])
@pytest.mark.parametrize(
    ("number", "code", "group"),
    [
        (signal.SIGINT, -signal.SIGINT, True),
        (signal.SIGINT, -signal.SIGINT, False),
        (signal.SIGTERM, 143, False),
        (signal.SIGKILL, -signal.SIGKILL, False),
    ],
    ids=["ctrl-c", "int", "term", "kill"],
)
def test_no_process_is_left_when_the_parent_is_stopped(tmp_path, number, code, group, forks):
    process, below = at_work(tmp_path, forks)
    assert len(below) == 3 if forks else 2
    os.kill(-process.pid if group else process.pid, number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == code
    _, alive = psutil.wait_procs(below, timeout=5)
    assert alive == []
    assert err.count("Traceback") == (number == signal.SIGINT)
    assert out == ""


def test_closing_the_results_ends_the_workers_at_work():
    with light(2) as workers:
        tasks = [works.named("a"), works.named("bad"), works.named("bad")]
        with closing(workers.map(works.ItemWork(works.hang), tasks)) as results:
            next(results)
        assert not [worker for worker in workers.workers.values() if worker.job]
        (result,) = workers.map(works.ItemWork(works.echo), works.tasks(1))
    assert result.values == ("t0/0",)


def test_pool_that_is_never_used_leaves_nothing():
    before = set(psutil.Process().children(recursive=True))
    with Pool(2, preload=("numpy",)):
        pass
    assert set(psutil.Process().children(recursive=True)) <= before


def test_work_is_spread_over_the_workers():
    results = run(works.slow_pid, works.tasks(8), jobs=2)
    assert len(Counter(result.values[0] for result in results)) == 2
