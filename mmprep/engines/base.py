"""What an engine is: an ordered, lazy map over tasks, and the words that its processes exchange.

Rules
-----
- `map(work, tasks)` takes a task from `tasks` only when it can be run soon, and gives the results
  in the order of the tasks, like the builtin.
- An engine knows nothing about steps. It reads `id`, `items` and `memory_bytes` of a task, and
  asks `work` to make the result of a task that was lost with its worker.
- An item that costs its worker twice is left out (`work.without`); the rest of its task goes on.
  MemoryError counts as such a loss.
- What escapes from `work` is a bug and ends the map; bad items are results.
"""

from __future__ import annotations

import math
import os
import struct
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Generic, Protocol, TypeAlias, TypeVar

MAX_TRIES = 2

Note: TypeAlias = Callable[[str], None]
Losses: TypeAlias = Mapping[str, tuple[str, str, int]]


class ItemLike(Protocol):
    """What an engine reads of an item."""

    @property
    def id(self) -> str:
        """Its id, as the work notes it."""


class TaskLike(Protocol):
    """What an engine reads of a task; it must be picklable."""

    @property
    def id(self) -> str:
        """Its id, for messages."""

    @property
    def items(self) -> Sequence[ItemLike]:
        """What it is made of, in order."""

    @property
    def memory_bytes(self) -> int:
        """The memory that it needs while it runs."""


T = TypeVar("T", bound=TaskLike)
R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class Work(Protocol[T, R_co]):
    """What an engine runs on each task; it and its results must be picklable.

    `kind` is `killed` (a signal from outside, mostly for lack of memory), `timeout`, `crashed`
    (a fatal signal, an exit, a result that can't be sent) or `memory` (MemoryError).
    """

    def __call__(self, task: T, note: Note, /) -> R_co:
        """Run a task and call `note(item.id)` before each item."""

    def lost(self, task: T, item_id: str | None, kind: str, reason: str, attempts: int) -> R_co:
        """Make the result of a task that is given up; `item_id` None blames no single item."""

    def without(self, task: T, lost: Losses) -> T:
        """Give a task to run instead, whose result lists `lost` as failed.

        `task` is the original, `lost` all its losses so far: id -> (kind, reason, attempts).
        """


class WorkerError(Exception):
    """An error that escaped from the work and can't travel as itself; the text is its traceback."""


def serial(work: Work[T, R], tasks: Iterable[T]) -> Generator[R, None, None]:
    """Run the tasks one after another in this process.

    Parameters
    ----------
    work : Work
        What to run.
    tasks : iterable of TaskLike
        Taken one at a time.

    Returns
    -------
    iterator
        The results, in order.
    """
    for task in tasks:
        yield _survived(work, Trial(task, task))


def _survived(work: Work[T, R], trial: Trial[T]) -> R:
    """Run a task, again without the item at which memory ran out twice."""
    while True:
        noted: list[str] = []
        try:
            return work(trial.task, noted.append)
        except MemoryError as error:
            at = noted[-1] if noted else None
            if trial.loses(work, at, MEMORY_KIND, memory_reason(str(error))):
                return trial.given_up(work)


def memory_reason(text: str) -> str:
    """Say that memory ran out; `text` is what the error says, mostly how much was asked for."""
    return f"memory ran out: {text}" if text else "memory ran out"


@dataclass(slots=True)
class Trial(Generic[T]):
    """The tries of a task whose items may cost their worker.

    Parameters
    ----------
    original, task : TaskLike
        As it came, and as it is run next.
    """

    original: T
    task: T
    tries: Counter[str | None] = field(default_factory=Counter)
    lost: dict[str, tuple[str, str, int]] = field(default_factory=dict)
    _last: tuple[str | None, str, str] = (None, "", "")

    def loses(self, work: Work[T, R], item_id: str | None, kind: str, reason: str) -> bool:
        """Count a loss at an item; say whether the task has to be given up."""
        self.tries[item_id] += 1
        self._last = item_id, kind, reason
        n_tries = self.tries[item_id]
        if n_tries < MAX_TRIES:
            return False
        if item_id is None or not self._is_left(item_id) or len(self.original.items) == 1:
            return True
        self.lost[item_id] = (kind, reason, n_tries)
        self.task = work.without(self.original, dict(self.lost))
        return False

    def _is_left(self, item_id: str) -> bool:
        return item_id not in self.lost and any(i.id == item_id for i in self.original.items)

    def given_up(self, work: Work[T, R]) -> R:
        """Make the result of the task after its last loss."""
        item_id, kind, reason = self._last
        blamed = item_id if item_id is not None and self._is_left(item_id) else None
        n_tries = self.tries[item_id]
        return work.lost(self.task, item_id=blamed, kind=kind, reason=reason, attempts=n_tries)


# --- the processors of this machine that this process may use


def usable_cpus(root: str | Path = "/") -> int:
    """Count the CPUs that this process may use: affinity, then the quotas of its cgroups.

    Parameters
    ----------
    root : path
        Where `proc` and `sys` are found.

    Returns
    -------
    int
        At least 1. A quota of 1.5 CPUs counts as 2.
    """
    allowed = getattr(os, "sched_getaffinity", None)
    n_cpus = len(allowed(0)) if allowed else os.cpu_count() or 1
    quotas = [math.ceil(quota) for quota in _quotas(Path(root))]
    return max(1, min([n_cpus, *quotas]))


def _quotas(root: Path) -> Iterator[float]:
    """Give the quota, in CPUs, of this process's cgroup and of each one above it."""
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _each(root / "sys/fs/cgroup", path, _quota_v2)
        elif "cpu" in controllers.split(","):
            yield from _each(root / "sys/fs/cgroup" / controllers, path, _quota_v1)
            yield from _each(root / "sys/fs/cgroup/cpu", path, _quota_v1)


def _each(mount: Path, path: str, quota: Callable[[Path], float | None]) -> Iterator[float]:
    # In a container the path is often that of the host and not below the mount, whose own
    # root is then the group of the container: folders that don't exist are passed over.
    group = PurePosixPath(path.strip("/"))
    folders = [mount / part for part in (group, *group.parents)]
    yield from (found for folder in folders if (found := quota(folder)) is not None)


def _quota_v2(folder: Path) -> float | None:
    words = " ".join(_lines(folder / "cpu.max")).split()
    if len(words) != 2 or words[0] == "max":
        return None
    return int(words[0]) / int(words[1])


def _quota_v1(folder: Path) -> float | None:
    quota = _lines(folder / "cpu.cfs_quota_us")
    period = _lines(folder / "cpu.cfs_period_us")
    if not quota or not period or int(quota[0]) <= 0:
        return None
    return int(quota[0]) / int(period[0])


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


# --- what a pool and its processes say to each other

# Frames between the pool and a worker: one letter, then a pickle or text.
MEMORY_KIND = "memory"
WORK, TASK = b"W", b"T"
STARTED, NOTED, RESULT, UNSENDABLE, MEMORY, RAISED = b"S", b"N", b"R", b"U", b"M", b"E"
TEXT_ERRORS = "surrogatepass"  # ids come from file names, which may hold lone surrogates

# Orders to the nursery (verb, worker number), and its reports (verb, worker number, value).
ORDER, REPORT = struct.Struct("<cq"), struct.Struct("<cqq")
FORK, KILL = b"f", b"k"
READY, ENDED, REFUSED = b"r", b"e", b"x"
