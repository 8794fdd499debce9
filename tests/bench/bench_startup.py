"""What a call costs before there is any work: help, nothing to do, one file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from tests.bench import made
from tests.bench.measure import Note, Row, Side, Size, compare, mmprep, seconds

PYTHON = Side("python -c pass", (sys.executable, "-c", "pass"))


def rows(place: Path, size: Size) -> Iterator[Row | Note]:
    """Compare with an interpreter that does nothing."""
    table, out = place / "one.tsv", place / "one"
    made.table(table, 20_000)
    done = place / "done"
    seconds(mmprep("convert", table, "-o", done))
    sides = {
        "mmprep --help": mmprep("--help"),
        "mmprep --version": mmprep("--version"),
        "mmprep convert --help": mmprep("convert", "--help"),
        "convert, up to date": mmprep("convert", table, "-o", done),
        "convert, one file of 20 kB": mmprep("convert", table, "-o", out, writes=out),
    }
    for what, side in sides.items():
        yield from compare(what, side, [PYTHON], size)
