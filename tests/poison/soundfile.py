"""soundfile, but for what some file names do to the process that opens them."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import signal
import sys
import time
from importlib.machinery import PathFinder
from pathlib import Path

HERE = Path(__file__).parent
_spec = PathFinder.find_spec("soundfile", [p for p in sys.path if p and Path(p) != HERE])
_real = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_real)
globals().update({name: value for name, value in vars(_real).items() if not name.startswith("__")})


def _starve() -> None:
    raise MemoryError


DEEDS = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "crash": lambda: ctypes.string_at(0),
    "leave": lambda: os._exit(7),
    "hang": lambda: time.sleep(600),
    "starve": _starve,
}


class SoundFile(_real.SoundFile):
    """A sound file; named after a deed, it does it."""

    def __init__(self, file, *args, **kwargs) -> None:
        stem = Path(os.fsdecode(file)).stem if isinstance(file, str | bytes) else ""
        DEEDS.get(stem, lambda: None)()
        super().__init__(file, *args, **kwargs)
