"""A pool of processes: an ordered, lazy map that loses an item, never a run, with a worker.

Rules
-----
- One thread, one loop: it starts tasks, listens, and gives results in order. It runs only while
  the caller waits for the next result, and time spent elsewhere never counts against an item.
- At most `max_in_flight` tasks are taken and not yet given back. Those running need together at
  most `max_bytes_in_flight` (results that wait for their turn count as well); a task that needs
  more runs alone.
- A task whose worker is lost runs again. What is lost twice at one item goes on without it; what
  is lost twice before any item is given up. Where memory may be the reason, the second try runs
  alone, so that no task pays for its neighbour.
- Whatever ends the map, no worker is left at work when it returns.

First results of two workers with numpy, pyarrow, soundfile and av loaded, best of three on two
cores: spawn 0.46 s, forkserver 0.31 s, fork of the caller's own process 0.29 s, nursery 0.32 s, an
interpreter a worker 0.35 s (but all of that CPU time again for each worker). Spawn and forkserver
run the caller's `__main__` again, a late fork copies locks that BLAS threads hold. A nursery that
has loaded meanwhile gives first results after 50 ms; a lost worker costs 30 ms.
"""

from __future__ import annotations

import errno
import heapq
import json
import math
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from multiprocessing.reduction import ForkingPickler
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from mmprep.engines import base
from mmprep.engines.base import TaskLike, Work
from mmprep.errors import TransientError

T = TypeVar("T", bound=TaskLike)
R = TypeVar("R")

CAN_FORK = hasattr(os, "fork") and hasattr(socket, "send_fds")
MAX_WINDOWS_JOBS = 60  # WaitForMultipleObjects takes 63 handles
MIN_BYTES_IN_FLIGHT = 2**30
BYTES_A_JOB = 2**26  # what most tasks ask for: as many as there are workers can run
MAX_NURSERIES = 3
SPARE_FILES = 8  # that stay for the caller: its journal, its lock, what it writes
TICK_S = 1.0
CLOSE_S = 0.01  # between looks at a process whose end is near
END_S = 5.0  # for a killed process to be gone; only a stuck disk takes longer

# One thread a worker: N workers with N threads each are N times too many. Read when the libraries
# load, so they must be set before. Arrow's jemalloc would start a thread in the nursery.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "BLIS_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "OPENCV_FOR_THREADS_NUM": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}

# The interpreter imports this package from where the parent has it, whatever its folder is.
BOOT = (
    "import json, sys; c = json.loads(sys.stdin.buffer.readline()); sys.path[:] = c.pop('path');"
    " from mmprep.engines.worker import main; main(**c)"
)
FLAGS = {
    "isolated": "-I",
    "ignore_environment": "-E",
    "no_user_site": "-s",
    "no_site": "-S",
    "dont_write_bytecode": "-B",
}


class Pool:
    """Processes that run tasks; a context manager.

    Parameters
    ----------
    jobs : int
        The number of workers, at least 1.
    preload : tuple of str
        Modules that the processes import before the first task.
    timeout_s : float, optional
        The time an item may take; the clock starts anew at each item that the work notes.
    max_bytes_in_flight : int, optional
        The memory of all running tasks. The default is 64 MiB a worker, and at least 1 GiB.
    max_in_flight : int, optional
        How many tasks may be taken and not yet given back. The default lets the others go on for
        a while behind a slow one: four a worker, and at least 16.
    forks : bool
        False: an interpreter a worker, the only way where there is no fork.

    Raises
    ------
    TransientError
        From the map: no worker could be started, or their processes ended again and again.
    """

    def __init__(
        self,
        jobs: int,
        *,
        preload: tuple[str, ...] = ("mmprep.steps.convert",),
        timeout_s: float | None = None,
        max_bytes_in_flight: int | None = None,
        max_in_flight: int | None = None,
        forks: bool = CAN_FORK,
    ) -> None:
        self.jobs = min(jobs, MAX_WINDOWS_JOBS) if sys.platform == "win32" else jobs
        self.timeout_s = timeout_s
        self.max_bytes = max_bytes_in_flight or max(MIN_BYTES_IN_FLIGHT, BYTES_A_JOB * jobs)
        self.max_in_flight = max_in_flight or max(4 * jobs, 16)
        self.workers: dict[int, _Worker] = {}
        self._found = (lambda: _Nursery(preload)) if forks else (lambda: _Interpreters(preload))
        self._home: _Home | None = None
        self._n_homes = self._n_workers = 0
        self._is_busy = False

    def __enter__(self) -> Pool:
        """Start the processes; they load what they need while the caller plans."""
        self._home, self._n_homes = self._found(), 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End all processes."""
        self._close()

    def map(self, work: Work[T, R], tasks: Iterable[T]) -> Generator[R, None, None]:
        """Run `work` on each task, in order and lazily.

        Parameters
        ----------
        work : Work
            What to run; picklable.
        tasks : iterable of TaskLike
            Taken when they can soon be run.

        Returns
        -------
        iterator
            The results in the order of the tasks. Closing it ends the workers that are at work.

        Raises
        ------
        Exception
            What escaped from the work, with the worker's traceback as a note.
        """
        with self._at_work():
            yield from _Run(self, work, tasks).results()

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        if self._home is None or self._is_busy:
            raise RuntimeError("a pool runs one map at a time, inside its `with` block")
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False
            self._end_busy()

    @property
    def home(self) -> _Home:
        """Where the workers come from."""
        if self._home is None:
            raise RuntimeError("the pool is closed")
        return self._home

    def idle(self) -> _Worker:
        """Give a worker without a job; start one if there is none."""
        for worker in self.workers.values():
            if worker.job is None and worker.is_open and worker.fate is None:
                return worker
        if self.workers:
            _leave_files_free()
        self._n_workers += 1
        worker = _Worker(self._n_workers, self.home.start(self._n_workers))
        self.workers[worker.number] = worker
        return worker

    def refound(self) -> None:
        """Start anew after the process that starts workers has ended."""
        self._close()
        if self._n_homes >= MAX_NURSERIES:
            raise TransientError(
                f"the processes of the pool ended {self._n_homes} times",
                hint="look for the reason in the system's log; --engine serial runs without them",
            )
        self._home = self._found()
        self._n_homes += 1

    def _end_busy(self) -> None:
        """Kill every worker that is at work and wait until it is gone."""
        busy = [worker for worker in self.workers.values() if worker.job is not None]
        for worker in busy:
            self.home.kill(worker.number)
        end_s = time.monotonic() + END_S
        with suppress(_HomeLostError):
            while not self.workers.keys().isdisjoint(w.number for w in busy):
                if time.monotonic() > end_s:
                    break
                _wait(self.home.signs(), CLOSE_S)
                for number, _ in self.home.ends():
                    self.bury(number)
        for worker in busy:
            self.bury(worker.number)

    def bury(self, number: int) -> _Worker | None:
        """Forget a worker that has ended."""
        worker = self.workers.pop(number, None)
        if worker is not None:
            worker.read()
            worker.link.close()
        return worker

    def _close(self) -> None:
        if self._home is not None:
            self._home.close()
            self._home = None
        for number in list(self.workers):
            self.bury(number)


# --- one map


@dataclass(slots=True)
class _Job(Generic[T]):
    """A task on its way through the pool."""

    index: int
    trial: base.Trial[T]
    n_bytes: int


@dataclass(slots=True)
class _Worker:
    """A worker as the pool sees it."""

    number: int
    link: Connection[Any, Any]
    job: _Job[Any] | None = None
    run: object = None  # the map whose work it has
    item_id: str | None = None
    age_s: float | None = None  # time at this item; None until the task is unpacked
    fate: tuple[str, str] | None = None  # why we killed it: kind, reason
    is_open: bool = True

    def read(self) -> list[bytes]:
        """Take all frames that have arrived; notice a closed connection."""
        frames: list[bytes] = []
        try:
            while self.is_open and _ready([self.link], 0):
                frames.append(self.link.recv_bytes())
        except (EOFError, OSError):
            self.is_open = False
        return frames

    def send(self, *frames: bytes) -> None:
        """Send frames; a worker that is gone is noticed by its end."""
        with suppress(OSError):
            for frame in frames:
                self.link.send_bytes(frame)

    def start(self, job: _Job[Any]) -> None:
        """Put it to work."""
        self.job, self.item_id, self.age_s = job, None, None


class _Run(Generic[T, R]):
    """One map over a pool: what waits, what runs, what is done."""

    def __init__(self, pool: Pool, work: Work[T, R], tasks: Iterable[T]) -> None:
        self._pool, self._work, self._tasks = pool, work, iter(tasks)
        self._packed_work = base.WORK + bytes(ForkingPickler.dumps(work))
        self._waiting: list[tuple[int, _Job[T]]] = []  # a heap
        self._done: dict[int, bytes] = {}  # packed results by index
        self._n_in = self._n_out = 0
        self._jobs = pool.jobs
        self._on: dict[bytes, Callable[[_Worker, bytes], None]] = {
            base.STARTED: self._on_started,
            base.NOTED: self._on_noted,
            base.RESULT: self._finish,
            base.UNSENDABLE: self._on_unsendable,
            base.MEMORY: self._on_memory,
            base.RAISED: _on_raised,
        }

    def results(self) -> Generator[R, None, None]:
        """Give the results in order."""
        while self._start_tasks():
            if self._n_out in self._done:
                yield ForkingPickler.loads(self._done.pop(self._n_out))
                self._n_out += 1
                self._listen(0)
            else:
                self._listen(TICK_S)

    def _start_tasks(self) -> bool:
        """Start what can run now; say whether any task is still under way."""
        while len(self._busy()) < self._jobs and (job := self._next_job()) and self._fits(job):
            heapq.heappop(self._waiting)
            self._start(job)
        return self._n_out < self._n_in

    def _busy(self) -> list[_Worker]:
        return [worker for worker in self._pool.workers.values() if worker.job is not None]

    def _next_job(self) -> _Job[T] | None:
        """Look at the job to start next; take a task if none is waiting."""
        if not self._waiting and self._n_in - self._n_out < self._pool.max_in_flight:
            for task in self._tasks:
                need = min(max(1, task.memory_bytes), self._pool.max_bytes)
                job = _Job(self._n_in, base.Trial(task, task), need)
                heapq.heappush(self._waiting, (self._n_in, job))
                self._n_in += 1
                break
        return self._waiting[0][1] if self._waiting else None

    def _fits(self, job: _Job[T]) -> bool:
        busy = self._busy()
        used = sum(worker.job.n_bytes for worker in busy if worker.job is not None)
        held = sum(map(len, self._done.values()))
        return not busy or used + held + job.n_bytes <= self._pool.max_bytes

    def _start(self, job: _Job[T]) -> None:
        frame = base.TASK + bytes(ForkingPickler.dumps(job.trial.task))
        try:
            worker = self._pool.idle()
        except _HomeLostError:
            heapq.heappush(self._waiting, (job.index, job))
            return self._start_anew()
        except OSError as error:
            return self._on_refusal(job, _Refusal(error.errno or 0))
        worker.start(job)
        if worker.run is not self:
            worker.run = self
            worker.send(self._packed_work)
        return worker.send(frame)

    # --- what the workers say

    def _listen(self, longest_s: float) -> None:
        """Wait for any sign of the workers and act on it."""
        begin_s = time.monotonic()
        links = [worker.link for worker in self._pool.workers.values() if worker.is_open]
        _wait([*self._pool.home.signs(), *links], self._wait_s(longest_s))
        # A stopped or sleeping machine is no item's fault: a turn counts a tick at most.
        self._age(min(time.monotonic() - begin_s, TICK_S))
        for worker in list(self._pool.workers.values()):
            self._hear(worker)
        self._end_overdue()
        try:
            for number, code in self._pool.home.ends():
                self._on_end(number, code)
        except _HomeLostError:
            self._start_anew()

    def _wait_s(self, longest_s: float) -> float:
        if not all(worker.is_open for worker in self._pool.workers.values()):
            longest_s = min(longest_s, CLOSE_S)
        if self._pool.timeout_s is None:
            return longest_s
        ages = [worker.age_s for worker in self._busy() if worker.age_s is not None]
        return min(longest_s, max(0.0, self._pool.timeout_s - max(ages, default=0.0)))

    def _age(self, passed_s: float) -> None:
        for worker in self._busy():
            if worker.age_s is not None:
                worker.age_s += passed_s

    def _hear(self, worker: _Worker) -> None:
        for frame in worker.read():
            self._on[frame[:1]](worker, frame[1:])
        if not worker.is_open:  # ended, or as good as that: its end will be reported
            self._pool.home.kill(worker.number)

    def _on_started(self, worker: _Worker, _: bytes) -> None:
        worker.age_s = 0.0

    def _on_noted(self, worker: _Worker, text: bytes) -> None:
        worker.age_s, worker.item_id = 0.0, text.decode("utf-8", base.TEXT_ERRORS)

    def _on_unsendable(self, worker: _Worker, text: bytes) -> None:
        if (job := worker.job) is not None:
            reason = text.decode("utf-8", base.TEXT_ERRORS)
            given_up = self._work.lost(
                job.trial.task, item_id=None, kind="crashed", reason=reason, attempts=1
            )
            self._keep(job, given_up)
            worker.job = None

    def _on_memory(self, worker: _Worker, text: bytes) -> None:
        reason = base.memory_reason(text.decode("utf-8", base.TEXT_ERRORS))
        self._end(worker, base.MEMORY_KIND, reason)

    def _finish(self, worker: _Worker, packed: bytes) -> None:
        if worker.job is not None:
            self._done[worker.job.index] = packed
            worker.job = None

    # --- what becomes of a lost task

    def _end_overdue(self) -> None:
        limit_s = self._pool.timeout_s
        for worker in self._busy():
            if limit_s is not None and worker.age_s is not None and worker.age_s >= limit_s:
                self._end(worker, "timeout", f"it took longer than {limit_s:g} s")

    def _end(self, worker: _Worker, kind: str, reason: str) -> None:
        worker.fate = worker.fate or (kind, reason)
        self._pool.home.kill(worker.number)

    def _on_end(self, number: int, code: int | _Refusal) -> None:
        worker = self._pool.workers.get(number)
        if worker is None:
            return
        self._hear(worker)  # its last words may be the result
        self._pool.bury(number)
        if worker.job is None:
            return
        if isinstance(code, _Refusal):
            self._on_refusal(worker.job, code)
        else:
            self._on_loss(worker.job, worker.item_id, worker.fate or _fate(code))

    def _on_refusal(self, job: _Job[T], refusal: _Refusal) -> None:
        """Go on with fewer workers; without any there is no way to go on."""
        heapq.heappush(self._waiting, (job.index, job))
        self._jobs = len(self._busy())
        if not self._jobs:
            raise _not_started(refusal.errno)

    def _on_loss(self, job: _Job[T], item_id: str | None, fate: tuple[str, str]) -> None:
        if job.trial.loses(self._work, item_id, *fate):
            return self._keep(job, job.trial.given_up(self._work))
        if fate[0] in {"killed", base.MEMORY_KIND}:
            job.n_bytes = self._pool.max_bytes
        return heapq.heappush(self._waiting, (job.index, job))

    def _keep(self, job: _Job[T], result: R) -> None:
        self._done[job.index] = bytes(ForkingPickler.dumps(result))

    def _start_anew(self) -> None:
        for worker in self._busy():
            if (job := worker.job) is not None:
                heapq.heappush(self._waiting, (job.index, job))
        self._pool.refound()


def _on_raised(_: _Worker, packed: bytes) -> None:
    error, text = ForkingPickler.loads(packed)
    if error is None:
        raise base.WorkerError(text)
    error.add_note(f"In the worker:\n{text}")
    raise error


def _fate(code: int) -> tuple[str, str]:
    """Name the kind and the reason of an end that we did not cause."""
    if code >= 0:
        return "crashed", f"its worker ended by itself (exit status {code})"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    if name == "SIGKILL":
        return "killed", "its worker was killed (SIGKILL), as systems do when memory runs out"
    return "crashed", f"its worker crashed ({name})"


def _wait(signs: Sequence[Any], longest_s: float) -> None:
    if signs:
        _ready(signs, longest_s)
    else:  # Windows doesn't wait for nothing
        time.sleep(longest_s)


def _ready(signs: Sequence[Any], longest_s: float) -> bool:
    """Wait until one of them has something to read, or an end; say whether it has."""
    if not hasattr(select, "poll"):
        return bool(wait(signs, longest_s))
    # A tenth of what `wait` costs, and a pool listens several times an item.
    poller = select.poll()
    for sign in signs:
        poller.register(sign, select.POLLIN)
    return bool(poller.poll(math.ceil(longest_s * 1000)))


# --- where workers come from


class _HomeLostError(Exception):
    """The process that starts workers has ended."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    """The system would not start a worker."""

    errno: int


def _not_started(number: int) -> TransientError:
    is_files = number in {errno.EMFILE, errno.ENFILE}
    limit = "open files (ulimit -n)" if is_files else "processes (ulimit -u)"
    return TransientError(
        f"no worker could be started: {os.strerror(number)}",
        hint=f"raise the limit on {limit}, or run --engine serial",
    )


def _leave_files_free() -> None:
    """See that the caller can still open files beside one more worker's connection."""
    with ExitStack() as opened:
        for _ in range(SPARE_FILES):
            opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))


class _Home(Protocol):
    """Start and kill workers, known by number, and report their ends."""

    def start(self, number: int) -> Connection[Any, Any]:
        """Start a worker and give the connection to it."""

    def kill(self, number: int) -> None:
        """Kill a worker; its end is reported later."""

    def signs(self) -> list[socket.socket]:
        """Give what becomes readable when a worker ends."""

    def ends(self) -> Iterable[tuple[int, int | _Refusal]]:
        """Give the workers that have ended since, with exit code or negative signal."""

    def close(self) -> None:
        """End all workers and wait for it."""


class _Nursery:
    """A process with the modules loaded that forks workers; see `worker`."""

    def __init__(self, preload: tuple[str, ...]) -> None:
        with ExitStack() as undo:
            self._control, theirs = map(undo.enter_context, socket.socketpair())
            self._process = _interpreter("nursery", preload, theirs.fileno())
            undo.pop_all()
        theirs.close()
        _end_of_stdin(self._process)
        self._is_ready = False
        self.n_threads = 0

    def start(self, number: int) -> Connection[Any, Any]:
        """Ask for a fork; frames sent before it is there wait in the socket."""
        ours, theirs = Pipe(duplex=True)
        with theirs:
            self._order(base.FORK, number, [theirs.fileno()])
        return ours

    def kill(self, number: int) -> None:
        """Ask for a kill: only the nursery knows that the process id is still that worker's."""
        with suppress(_HomeLostError):
            self._order(base.KILL, number, [])

    def _order(self, verb: bytes, number: int, fds: list[int]) -> None:
        try:
            socket.send_fds(self._control, [base.ORDER.pack(verb, number)], fds)
        except OSError as error:
            raise _HomeLostError from error

    def signs(self) -> list[socket.socket]:
        """Give the control socket."""
        return [self._control]

    def ends(self) -> Iterable[tuple[int, int | _Refusal]]:
        """Read the reports."""
        while _ready([self._control], 0):
            verb, number, value = self._report()
            if verb == base.READY:
                self._is_ready, self.n_threads = True, number
            else:
                yield number, value if verb == base.ENDED else _Refusal(value)

    def _report(self) -> tuple[bytes, int, int]:
        try:
            packed = self._control.recv(base.REPORT.size, socket.MSG_WAITALL)
        except OSError as error:
            raise _HomeLostError from error
        if len(packed) < base.REPORT.size:
            raise _HomeLostError
        verb, number, value = base.REPORT.unpack(packed)
        return verb, number, value

    def close(self) -> None:
        """Hang up: the nursery kills and buries its workers. While it loads it has none."""
        with suppress(_HomeLostError):
            list(self.ends())
        self._control.close()
        if not self._is_ready:
            self._process.kill()
        _wait_for(self._process)


class _Interpreters:
    """An interpreter a worker, for systems without fork."""

    def __init__(self, preload: tuple[str, ...]) -> None:
        self._preload = preload
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, number: int) -> Connection[Any, Any]:
        """Start an interpreter."""
        ours, theirs = Pipe(duplex=True)
        with theirs:
            self._processes[number] = _interpreter("single", self._preload, theirs.fileno())
        return ours

    def kill(self, number: int) -> None:
        """Kill the interpreter."""
        if number in self._processes:
            self._processes[number].kill()

    def signs(self) -> list[socket.socket]:
        """Give nothing: the end of a worker shows in its connection."""
        return []

    def ends(self) -> Iterable[tuple[int, int | _Refusal]]:
        """Look after each process."""
        for number, process in list(self._processes.items()):
            if (code := process.poll()) is not None:
                _end_of_stdin(self._processes.pop(number))
                yield number, code

    def close(self) -> None:
        """Kill all."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            _end_of_stdin(process)
            _wait_for(process)
        self._processes.clear()


def _interpreter(role: str, preload: tuple[str, ...], handle: int) -> subprocess.Popen[bytes]:
    """Start a fresh interpreter that becomes a nursery or a worker; Ctrl-C doesn't reach it."""
    setup = {"role": role, "preload": preload, "handle": handle}
    setup["path"] = [entry for entry in sys.path if isinstance(entry, str)]
    command = [_executable(), "-P", *_flags(), "-c", BOOT, f"mmprep {role}"]
    try:
        with _interrupts_held():
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=_stderr(),
                env={**os.environ, **ENVIRONMENT},
                bufsize=0,
                **_inherited(handle),
            )
    except OSError as error:
        raise _not_started(error.errno or 0) from error
    with suppress(OSError):  # one that ended at once is noticed by its end
        _stdin(process).write(json.dumps(setup).encode() + b"\n")
    return process


def _executable() -> str:
    # On Windows the python.exe of a virtual environment starts another process in its place.
    if sys.platform == "win32":
        return str(getattr(sys, "_base_executable", sys.executable))
    return sys.executable


def _flags() -> list[str]:
    flags = [flag for name, flag in FLAGS.items() if getattr(sys.flags, name)]
    flags += ["-" + "O" * sys.flags.optimize] if sys.flags.optimize else []
    flags += ["-X", "utf8"] if sys.flags.utf8_mode else []
    return flags + [f"-W{option}" for option in sys.warnoptions]


def _inherited(handle: int) -> dict[str, Any]:
    if sys.platform == "win32":
        os.set_handle_inheritable(handle, True)  # noqa: FBT003
        startup = subprocess.STARTUPINFO(lpAttributeList={"handle_list": [handle]})
        return {"startupinfo": startup}
    return {"pass_fds": (handle,)}


def _stderr() -> int:
    """Give the place for what libraries print: stderr, or nowhere if there is none."""
    try:
        os.fstat(2)
    except OSError:
        return subprocess.DEVNULL
    return 2


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back; a process started meanwhile has it held too, until it ignores it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _stdin(process: subprocess.Popen[bytes]) -> Any:
    return process.stdin


def _end_of_stdin(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        _stdin(process).close()


def _wait_for(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
