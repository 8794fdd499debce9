"""Whole processes in turns: seconds, and the memory of the process tree.

Rules
-----
- The sides of a comparison run in turns (A B A B), so that a slow minute of the machine meets all
  of them. The ratio is the median of the ratios turn by turn.
- The first turn warms the page cache and is not timed; memory is sampled in it, so that sampling
  costs no timed run anything.
- Memory is the proportional set size summed over the process and its descendants.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
SAMPLES_PER_S = 20
MIB = 2**20


@dataclass(frozen=True)
class Size:
    """How much each benchmark does.

    Parameters
    ----------
    table_bytes, n_small : int
        The large table, and the number of small ones.
    n_sounds, n_spoken : int
        Sound files to convert, and to compute features of.
    session_s, film_s, long_s : int [s]
        The session to align, the film whose pictures are taken, and a session of a night.
    n_records : int
        The records of a manifest.
    n_runs : int
        Timed turns; with 0 the first turn is timed, too.
    with_peers : bool
        False leaves out the peers that mmprep itself does not need.
    """

    n_runs: int
    table_bytes: int
    n_small: int
    n_sounds: int
    n_spoken: int
    session_s: int
    film_s: int
    long_s: int
    n_records: int
    with_peers: bool = True


FULL = Size(5, 1_000_000_000, 2000, 2000, 2000, 3600, 120, 36_000, 20_000)
QUICK = Size(3, 30_000_000, 50, 50, 100, 300, 20, 3_600, 2_000)
TINY = Size(0, 100_000, 2, 2, 2, 12, 2, 24, 4, with_peers=False)


@dataclass(frozen=True)
class Side:
    """One of the programs compared.

    Parameters
    ----------
    needs : tuple of str
        Packages beyond those of mmprep.
    writes : Path, optional
        What it makes; removed before each run.
    """

    name: str
    command: tuple[str, ...]
    needs: tuple[str, ...] = ()
    writes: Path | None = None

    @property
    def is_installed(self) -> bool:
        """All that it needs is there, and loads."""
        return all(map(_loads, self.needs))


@lru_cache
def _loads(name: str) -> bool:
    """Say whether a package can be loaded: one built for other hardware may not."""
    if importlib.util.find_spec(name) is None:
        return False
    command = (sys.executable, "-c", f"import {name}")
    tried = subprocess.run(command, check=False, capture_output=True)
    return tried.returncode == 0


@dataclass(frozen=True)
class Row:
    """A line of the table; None where a peer is not installed."""

    what: str
    ours_s: float
    peer: str
    peer_s: float | None
    ratio: float | None
    ours_pss: int
    peer_pss: int | None


@dataclass(frozen=True)
class Note:
    """What the seconds alone do not say."""

    text: str


def mmprep(*arguments: object, writes: Path | None = None) -> Side:
    """Give mmprep's side."""
    script = Path(sys.executable).parent / "mmprep"
    start = (str(script),) if script.exists() else (sys.executable, "-m", "mmprep")
    return Side("mmprep", (*start, *map(str, arguments)), writes=writes)


def peer(
    name: str,
    function: str,
    *arguments: object,
    needs: tuple[str, ...] = (),
    writes: Path | None = None,
) -> Side:
    """Give the side of a function of `tests.bench.peers`."""
    command = (sys.executable, "-m", "tests.bench.peers", function, *map(str, arguments))
    return Side(name, command, needs, writes)


def compare(what: str, ours: Side, peers: Sequence[Side], size: Size) -> Iterator[Row]:
    """Run all sides in turns and give a row a peer; without a peer there is nothing to run."""
    wanted = [side for side in peers if size.with_peers or not side.needs]
    if not wanted:
        return
    sides = [ours, *(side for side in wanted if side.is_installed)]
    first = [sampled(side) for side in sides]
    turns = [[seconds(side) for side in sides] for _ in range(size.n_runs)]
    turns = turns or [[took_s for took_s, _ in first]]
    ours_s, ours_pss = statistics.median(turn[0] for turn in turns), first[0][1]
    for k, side in enumerate(sides[1:], start=1):
        yield Row(
            what,
            ours_s,
            side.name,
            statistics.median(turn[k] for turn in turns),
            statistics.median(turn[k] / turn[0] for turn in turns),
            ours_pss,
            first[k][1],
        )
    for side in wanted:
        if not side.is_installed:
            yield Row(what, ours_s, side.name, None, None, ours_pss, None)


def seconds(side: Side) -> float:
    """Run a side and take its time."""
    return _run(side, lambda pid: None)


def sampled(side: Side) -> tuple[float, int]:
    """Run a side and give its time and the peak of its memory in bytes."""
    sampler = _Sampler()
    took_s = _run(side, sampler.start)
    return took_s, sampler.stop()


def _run(side: Side, watch: Callable[[int], None]) -> float:
    _clear(side)
    # An installed package has its bytecode: compiling it anew each time is no part of a run.
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    begin_s = time.perf_counter()
    with subprocess.Popen(
        side.command,
        cwd=ROOT,
        env=kept,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        watch(process.pid)
        _, said = process.communicate()
    took_s = time.perf_counter() - begin_s
    if process.returncode:
        raise RuntimeError(f"{' '.join(side.command)}: exit {process.returncode}\n{said[-2000:]}")
    return took_s


def _clear(side: Side) -> None:
    if side.writes is not None and side.writes.is_dir():
        shutil.rmtree(side.writes)
    elif side.writes is not None:
        side.writes.unlink(missing_ok=True)


class _Sampler:
    """A thread that looks at the memory of a process tree until it is stopped."""

    def __init__(self) -> None:
        self._peak, self._is_over = 0, threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, pid: int) -> None:
        self._thread = threading.Thread(target=self._sample, args=(pid,), daemon=True)
        self._thread.start()

    def _sample(self, pid: int) -> None:
        while not self._is_over.wait(1 / SAMPLES_PER_S):
            self._peak = max(self._peak, tree_pss(pid))

    def stop(self) -> int:
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()
        return self._peak


def tree_pss(pid: int) -> int:
    """Sum the proportional set size over a process and its descendants."""
    try:
        root = psutil.Process(pid)
        return sum(_pss(process) for process in (root, *root.children(recursive=True)))
    except psutil.Error:
        return 0


def _pss(process: psutil.Process) -> int:
    try:
        full = process.memory_full_info()
    except psutil.Error:
        return 0
    return getattr(full, "pss", full.uss)


def tree_bytes(path: Path) -> int:
    """Sum the sizes of a file, or of the files below a folder."""
    found = path.rglob("*") if path.is_dir() else (path,)
    return sum(file.stat().st_size for file in found if file.is_file())


def header() -> str:
    """Name the columns of the table."""
    return _line("what", "mmprep s", "peer", "peer s", "ratio", "PSS MiB", "peer PSS MiB")


def line(row: Row) -> str:
    """Write a row; a ratio over 1 says that mmprep is the faster one."""
    ours = (row.what, f"{row.ours_s:.3f}", row.peer)
    pss = f"{row.ours_pss / MIB:.0f}"
    if row.peer_s is None or row.ratio is None or row.peer_pss is None:
        return _line(*ours, "not installed", "", pss, "")
    return _line(*ours, f"{row.peer_s:.3f}", f"{row.ratio:.2f}", pss, f"{row.peer_pss / MIB:.0f}")


def _line(*cells: str) -> str:
    widths = (38, 10, 30, 14, 7, 9, 13)
    shown = (
        c.ljust(w) if k in {0, 2} else c.rjust(w)
        for k, (c, w) in enumerate(zip(cells, widths, strict=True))
    )
    return " ".join(shown).rstrip()


def machine() -> str:
    """Say what ran it."""
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return f"Python {sys.version.split()[0]}, {os.cpu_count()} CPUs, load {load}"
