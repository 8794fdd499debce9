from __future__ import annotations

import os

import pytest

from mmprep.engines import base
from tests.engines import works


def test_serial_gives_results_in_order():
    results = base.serial(works.ItemWork(works.echo), works.tasks(3))
    assert [result.values for result in results] == [("t0/0",), ("t1/0",), ("t2/0",)]


def test_serial_takes_a_task_only_when_asked():
    taken = []
    results = base.serial(
        works.ItemWork(works.echo), (taken.append(task) or task for task in works.tasks(3))
    )
    next(results)
    assert len(taken) == 1


def test_serial_leaves_out_the_item_at_which_memory_runs_out_twice():
    tasks = [works.named("a", "bad", "b"), works.named("bad"), *works.tasks(1)]
    some, none, rest = base.serial(works.ItemWork(works.raise_memory), tasks)
    assert (some.values, none.values, rest.values) == (("a", "b"), (), ("t0/0",))
    assert some.lost == none.lost == {"bad": ("memory", "memory ran out", 2)}


def test_serial_gives_a_task_up_where_memory_runs_out_before_any_item():
    (result,) = base.serial(works.SilentWork(works.raise_memory), [works.named("bad", "a")])
    assert result.lost == {None: ("memory", "memory ran out", 2)}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 8),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, 8),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/cpu.max": "300000 100000\n"}, 3),
        ({"proc/self/cgroup": "0::/host/only\n", "sys/fs/cgroup/cpu.max": "10 100000\n"}, 1),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/docker/x\n1:name=systemd:/\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "400000\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            4,
        ),
        (
            {
                "proc/self/cgroup": "3:cpu:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            8,
        ),
    ],
)
def test_usable_cpus_counts_affinity_and_quota(tmp_path, monkeypatch, files, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert base.usable_cpus(tmp_path) == expected


def test_usable_cpus_of_this_machine_is_at_least_one():
    assert 1 <= base.usable_cpus() <= os.cpu_count()
