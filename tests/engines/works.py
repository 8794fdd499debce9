"""Work for the engines' tests; a module of its own, because workers import it by name."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path


@dataclass(frozen=True)
class Item:
    id: str
    n_bytes: int = 1


@dataclass(frozen=True)
class Task:
    id: str
    items: tuple[Item, ...]
    memory_bytes: int = 1
    inputs: tuple[str, ...] = ()
    lost: Mapping[str, tuple[str, str, int]] = field(default_factory=dict)

    @property
    def n_bytes(self) -> int:
        return sum(item.n_bytes for item in self.items)


@dataclass(frozen=True)
class Result:
    task: str
    values: tuple[object, ...] = ()
    lost: Mapping[str | None, tuple[str, str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class ItemWork:
    """Run `do(item id)` on each item."""

    do: Callable[[str], object]

    def __call__(self, task, note):
        values = []
        for item in task.items:
            if item.id not in task.lost:
                note(item.id)
                values.append(self.do(item.id))
        return Result(task.id, tuple(values), task.lost)

    def lost(self, task, item_id, kind, reason, attempts):
        return Result(task.id, (), {**task.lost, item_id: (kind, reason, attempts)})

    def without(self, task, lost):
        return replace(task, lost={**task.lost, **lost})


class SilentWork(ItemWork):
    """The same without notes."""

    def __call__(self, task, note):
        return super().__call__(task, lambda item_id: None)


class StubbornWork(ItemWork):
    """Die at an item that the task doesn't have."""

    def __call__(self, task, note):
        note("no such item")
        kill_self("bad")


def tasks(n, n_items=1):
    return [Task(f"t{k}", tuple(Item(f"t{k}/{i}") for i in range(n_items))) for k in range(n)]


def named(*names):
    """Give one task with items of these names."""
    return Task("t", tuple(Item(name) for name in names))


# --- what is done with an item


def echo(name):
    return name


def lazy(name):
    """Take longer for the earlier ones, so that results come in the wrong order."""
    time.sleep(0.02 if name.endswith(("0", "3")) else 0.0)
    return name


def square(name):
    import numpy as np

    x = np.random.default_rng(len(name)).standard_normal((64, 64), dtype=np.float32)
    return float((x @ x).sum()), name


def pid(name):
    return os.getpid()


def slow_pid(name):
    time.sleep(0.05)
    return os.getpid()


def use_numba_cache(name):
    folder = Path(os.environ["NUMBA_CACHE_DIR"])
    folder.mkdir(parents=True, exist_ok=True)
    time.sleep(0.02)
    return str(folder)


def surroundings(name):
    return str(Path.cwd()), sys.stdin.read() if sys.stdin else "", list(sys.path)


def mains(name):
    main = sys.modules["__main__"]
    return getattr(main, "__file__", None)


def modules(name):
    return sorted({"json", "wave"} & set(sys.modules)), "wave" in sys.modules


def blas_threads(name):
    import numpy as np

    x = np.ones((300, 300))
    (x @ x).sum()
    return len(list(Path("/proc/self/task").iterdir()))


def kill_self(name):
    if "bad" in name:
        os.kill(os.getpid(), signal.SIGKILL)
    return name


def exit_self(name):
    if "bad" in name:
        os._exit(3)
    return name


def leave(name):
    if "bad" in name:
        sys.exit(4)
    return name


def segfault(name):
    if "bad" in name:
        import faulthandler

        faulthandler.disable()
        os.kill(os.getpid(), signal.SIGSEGV)
    return name


def hang(name):
    if "bad" in name:
        time.sleep(60)
    return name


def dawdle(name):
    time.sleep(0.2)
    return name


def die_with_child(name):
    """Die while a child of one's own holds all that was open."""
    if "bad" in name and os.fork() == 0:
        time.sleep(3)
        os._exit(0)
    return kill_self(name)


def eat_memory(name):
    """Hit a limit of address space and give it as a value, as a step does."""
    if "bad" not in name:
        return name
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (2**30, before[1]))
    try:
        return len(bytearray(2**33))
    except MemoryError:
        return "no memory"
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def raise_memory(name):
    if "bad" in name:
        raise MemoryError
    return name


def raise_error(name):
    if "bad" in name:
        raise OSError(errno.EIO, "a bug", name)
    return name


class OddError(Exception):
    def __init__(self, one, two):
        super().__init__(one)
        self.two = two


def raise_odd(name):
    raise OddError(name, 2)


def unsendable(name):
    return (lambda: name) if "bad" in name else name


class Grudging:
    def __reduce__(self):
        raise ZeroDivisionError("never")


def grudging(name):
    return Grudging() if "bad" in name else name


def large(name):
    return bytes(3_000_000)


def warn(name):
    warnings.warn("from the worker", RuntimeWarning, stacklevel=1)
    print("printed by the worker")
    return name


def die_once(name):
    """Kill the worker at the first call only; the name is a path that remembers."""
    mark = Path(name)
    if not mark.exists():
        mark.touch()
        kill_self("bad")
    return name


def kill_nursery_once(name):
    mark = Path(name)
    if not mark.exists():
        mark.touch()
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(30)
    return name


def kill_nursery(name):
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(30)


def announce(name):
    """Tell the test, through a named socket, that this process is at work; then hang."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(name)
    time.sleep(60)


def shell(name):
    return subprocess.run(
        [sys.executable, "-c", "print(1)"], capture_output=True, check=True
    ).stdout


def spans(name):
    begin = time.monotonic()
    time.sleep(0.1)
    return begin, time.monotonic()


def kill_self_with_span(name):
    """Write when this try began and (if it ever does) ended."""
    span = spans(name)
    return kill_self(name) and span
