"""The processes of a pool: a nursery that forks workers, and what a worker does.

Rules
-----
- A nursery is a fresh interpreter that has imported what the work needs, has one thread, and does
  nothing but fork workers, kill them and report their ends. So a worker starts in milliseconds,
  no lock of another thread is ever copied, and the user's `__main__` is never run again.
- Where processes can't be forked, each worker is such an interpreter of its own.
- Ctrl-C is for the parent alone. When the parent is gone, all its processes end at once.
- Nothing is read from stdin; what a library prints goes to stderr.
"""

from __future__ import annotations

import functools
import gc
import importlib
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from mmprep.engines import base

PR_SET_PDEATHSIG = 1
PARENT_CHECK_S = 2.0
CLEAN_EXIT, PARENT_GONE = 0, 1
IGNORED = ("SIGINT", "SIGTERM", "SIGHUP")


def main(role: str, preload: list[str], handle: int) -> NoReturn:
    """Be a nursery or a single worker until the parent is gone.

    Parameters
    ----------
    role : str
        `nursery` or `single`.
    preload : list of str
        Modules to import before the first task.
    handle : int
        The end of a socket (nursery) or connection (single) to the parent.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):  # the parent blocked it until now
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    lifeline = _take_stdin()
    if role == "single":
        _single(preload, handle, lifeline)
    else:
        os.close(lifeline)
        _nursery(preload, handle)
    _leave(CLEAN_EXIT)


def _leave(status: int) -> NoReturn:
    # Forked from a process that is not ours to tidy up: no exit handlers, no finalisers.
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(status)


def _import_all(names: Iterable[str]) -> None:
    for name in names:
        # A library that is not there, of which a package is only the half, is an OSError. The work
        # will say it again, with a traceback, if it needs it.
        with suppress(ImportError, OSError):
            importlib.import_module(name)
    _spare_pandas()


def _spare_pandas() -> None:
    """Keep pyarrow from loading pandas, 0.2 s and 40 MB a process, to know a Series by its type.

    It looks for pandas once, at the first conversion of a value. This is for processes of our own
    only: in a user's process a Series may come later.
    """
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is None or "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, _NoPandas)
    try:
        pyarrow.scalar(0)
    finally:
        sys.meta_path.remove(_NoPandas)


class _NoPandas:
    """A finder for as long as pandas shall not be found."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not loaded here", name=name)


def _single(preload: list[str], handle: int, lifeline: int) -> None:
    threading.Thread(target=_end_with_stdin, args=(lifeline,), daemon=True).start()
    _import_all(preload)
    with _cache_folder():
        serve(_connection(handle))


def _connection(handle: int) -> Connection[Any, Any]:
    if sys.platform == "win32":
        from multiprocessing.connection import PipeConnection

        return PipeConnection(handle)
    return Connection(handle)


def _take_stdin() -> int:
    """Keep the pipe from the parent, and give everybody else an empty stdin."""
    kept, null = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return kept


def _end_with_stdin(fd: int) -> None:
    """Wait for the parent to close its end, which its death does too."""
    while os.read(fd, 1):
        pass
    _leave(PARENT_GONE)


@contextmanager
def _cache_folder() -> Iterator[None]:
    """Give numba a cache of this pool's own: two processes never compile into one."""
    # Only a name that nobody can guess: numba makes the folder if it ever compiles.
    folder = Path(tempfile.gettempdir(), f"mmprep-numba-{os.urandom(16).hex()}")
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# --- the nursery


def _nursery(preload: list[str], handle: int) -> None:
    for name in IGNORED:  # the parent ends it by closing the socket
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    _import_all(preload)
    gc.collect()
    gc.freeze()  # pages of what is loaded stay shared: the collector won't touch them
    with socket.socket(fileno=handle) as control:
        control.sendall(base.REPORT.pack(base.READY, _n_threads(), 0))
        with _cache_folder():
            _Nursery(control).run()


def _n_threads() -> int:
    try:
        return len(list(Path("/proc/self/task").iterdir()))
    except OSError:
        return threading.active_count()


class _Nursery:
    """Fork a worker for each order, and report each worker's end."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._pids: dict[int, int] = {}  # number of the worker -> process id
        self._parent = os.getppid()
        self._bell, self._bell_end = socket.socketpair()
        for end in (self._bell, self._bell_end):
            end.settimeout(0)
        self._die_with_parent = _death_signal()

    def run(self) -> None:
        """Serve until the parent is gone, then end all workers."""
        signal.signal(signal.SIGCHLD, _ring)
        signal.set_wakeup_fd(self._bell_end.fileno(), warn_on_full_buffer=False)
        try:
            while self._turn():
                pass
        finally:
            self._end_all()

    def _turn(self) -> bool:
        ready, _, _ = select.select([self._control, self._bell], [], [], PARENT_CHECK_S)
        if self._bell in ready:
            with suppress(BlockingIOError):
                self._bell.recv(4096)
            self._reap()
        if self._control in ready and not self._obey():
            return False
        return os.getppid() == self._parent

    def _obey(self) -> bool:
        try:
            order, fds, _, _ = socket.recv_fds(self._control, base.ORDER.size, 1)
        except OSError:
            return False
        if len(order) != base.ORDER.size:
            return False
        verb, number = base.ORDER.unpack(order)
        if verb == base.FORK:
            self._fork(number, fds[0])
        elif number in self._pids:
            os.kill(self._pids[number], signal.SIGKILL)
        return True

    def _fork(self, number: int, fd: int) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            self._report(base.REFUSED, number, error.errno or 0)
        else:
            if pid == 0:
                self._be_worker(number, fd)
            self._pids[number] = pid
        os.close(fd)

    def _be_worker(self, number: int, fd: int) -> NoReturn:
        nursery = os.getppid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._die_with_parent()
        for end in (self._control, self._bell, self._bell_end):
            end.close()
        os.set_inheritable(fd, False)  # noqa: FBT003
        os.environ["NUMBA_CACHE_DIR"] = str(Path(os.environ["NUMBA_CACHE_DIR"], str(number)))
        if os.getppid() != nursery:  # it died before its death could be asked for
            _leave(PARENT_GONE)
        _serve_and_leave(Connection(fd))

    def _reap(self) -> None:
        for number, pid in list(self._pids.items()):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                del self._pids[number]
                self._report(base.ENDED, number, os.waitstatus_to_exitcode(status))

    def _report(self, verb: bytes, number: int, value: int) -> None:
        with suppress(OSError):  # a parent that is gone is noticed in the next turn
            self._control.sendall(base.REPORT.pack(verb, number, value))

    def _end_all(self) -> None:
        for pid in self._pids.values():
            os.kill(pid, signal.SIGKILL)
        for pid in self._pids.values():
            os.waitpid(pid, 0)


def _ring(number: int, frame: object) -> None:
    """Let the signal write to the wake-up socket."""


def _death_signal() -> functools.partial[object]:
    """Make the call that asks Linux to kill this process when its parent dies."""
    if not sys.platform.startswith("linux"):
        return functools.partial(bool)
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    return functools.partial(prctl, PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


# --- a worker


def _serve_and_leave(pool: Connection[Any, Any]) -> NoReturn:
    """Serve; whatever happens, never return into the nursery, whose other workers go on."""
    status = 1
    try:
        serve(pool)
        status = CLEAN_EXIT
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else 1
    finally:
        if sys.exc_info()[0] is not None:
            traceback.print_exc()
        _leave(status)


def serve(pool: Connection[Any, Any]) -> None:
    """Run tasks from a pool until it closes the connection.

    Parameters
    ----------
    pool : Connection
        Frames of `base`: first the work, then tasks; each task is answered before the next.
    """
    worker = _Worker(pool)
    while frame := _receive(pool):
        if frame[:1] == base.WORK:
            worker.packed_work = frame[1:]
        else:
            worker.run(frame[1:])


def _receive(pool: Connection[Any, Any]) -> bytes:
    try:
        return pool.recv_bytes()
    except (EOFError, OSError):
        return b""


class _Worker:
    """One worker's side of the talk with its pool."""

    def __init__(self, pool: Connection[Any, Any]) -> None:
        self._pool = pool
        self.packed_work = b""

    def run(self, packed_task: bytes) -> None:
        """Run one task and send its result, or what came instead."""
        with _Caught() as working:
            work = ForkingPickler.loads(self.packed_work)
            task = ForkingPickler.loads(packed_task)
            self.send(base.STARTED)
            self._send_result(work(task, self.note))
        if isinstance(working.error, MemoryError):
            self._send_memory(working.error)
        elif working.error is not None:
            self.send(base.RAISED, _pack_error(working.error))

    def _send_result(self, result: object) -> None:
        with _Caught() as packing:
            frame = bytes(ForkingPickler.dumps(result))
        if packing.error is None:
            self.send(base.RESULT, frame)
        elif isinstance(packing.error, MemoryError):
            self._send_memory(packing.error)
        else:
            reason = f"its result can't be sent: {type(packing.error).__name__}: {packing.error}"
            self.send(base.UNSENDABLE, reason.encode("utf-8", base.TEXT_ERRORS))

    def _send_memory(self, error: MemoryError) -> None:
        self.send(base.MEMORY, str(error).encode("utf-8", base.TEXT_ERRORS))

    def note(self, item_id: str) -> None:
        """Tell the pool which item is at work."""
        self.send(base.NOTED, item_id.encode("utf-8", base.TEXT_ERRORS))

    def send(self, kind: bytes, rest: bytes = b"") -> None:
        """Send a frame; without a pool there is nothing left to do."""
        try:
            self._pool.send_bytes(kind + rest)
        except OSError:
            _leave(PARENT_GONE)


class _Caught:
    """Keep any error of the block: here it leaves the process as a message."""

    error: Exception | None = None

    def __enter__(self) -> _Caught:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if isinstance(error, Exception):
            self.error = error
        return isinstance(error, Exception)


def _pack_error(error: Exception) -> bytes:
    """Pickle an error and its traceback; one that doesn't come back as itself goes as text."""
    text = "".join(traceback.format_exception(error))
    frame, is_whole = b"", False
    with _Caught():
        frame = bytes(ForkingPickler.dumps((error, text)))
        is_whole = type(ForkingPickler.loads(frame)[0]) is type(error)
    return frame if is_whole else bytes(ForkingPickler.dumps((None, text)))
