"""Kill a command at each of its file events, and look at what it leaves.

The command runs in a fork of this process, so that nothing is imported anew. An audit hook counts
the events below a folder and ends the process with SIGKILL at the k-th.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

EVENTS = {
    "open",
    "os.rename",
    "os.remove",
    "os.link",
    "os.truncate",
    "os.mkdir",
    "os.rmdir",
    "mmprep.sync",
    "mmprep.exchange",
}


def run_killed_at(k: int, folder: Path, command: Callable[[], int]) -> int | None:
    """Run a command in a fork, killed at its k-th event below a folder.

    Returns
    -------
    int or None
        Its exit code; None if it was killed.
    """
    child = os.fork()
    if child == 0:
        _kill_at(k, str(folder))
        with open(os.devnull, "w") as nothing:  # noqa: PTH123
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
            os._exit(command())
    _, status = os.waitpid(child, 0)
    return None if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _kill_at(k: int, folder: str) -> None:
    seen = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        if event in EVENTS and any(folder in str(argument) for argument in arguments):
            seen += 1
            if seen == k:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def tree(folder: Path) -> dict[str, bytes]:
    """Read all files of a data set, those of `.mmprep/` left out."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".mmprep" not in path.parts
    }


def opened_by(command: Callable[[], int], folder: Path) -> list[str]:
    """Run a command in a fork and list the files below a folder that it opened, in order."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        found: list[str] = []
        _note_opens(str(folder), found)
        with open(os.devnull, "w") as nothing:  # noqa: PTH123
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
            code = command()
            os.write(writer, "\0".join([*found, ""]).encode())
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        names = pipe.read().split("\0")[:-1]
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status):
        raise RuntimeError("the command failed")
    return names


def _note_opens(folder: str, found: list[str]) -> None:
    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and str(arguments[0]).startswith(f"{folder}/"):
            found.append(str(arguments[0])[len(folder) + 1 :])

    sys.addaudithook(hook)
