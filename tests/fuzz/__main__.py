"""Fuzz the reader of delimited text: `make fuzz`, or with atheris `python -m tests.fuzz`.

Arguments are those of libFuzzer, as `-max_total_time=60 build/fuzz tests/fuzz/seeds`. An input that
shows a fault is written to the current folder; it belongs among the seeds once that is mended.
"""

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["mmprep"]):
    from tests.fuzz import target

SHM = Path("/dev/shm")

with tempfile.TemporaryDirectory(dir=SHM if SHM.is_dir() else None) as folder:
    atheris.Setup(sys.argv, lambda data: target.replay(data, Path(folder)))
    atheris.Fuzz()
