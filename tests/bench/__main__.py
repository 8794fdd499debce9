"""Print the table: `python -m tests.bench [NAME...] [--quick] [--place DIR]`."""

from __future__ import annotations

import argparse
import importlib
import tempfile
from pathlib import Path

from tests.bench import measure

NAMES = ("startup", "convert", "mfcc", "align", "truth", "sessions", "manifest")


def main() -> None:
    """Run the benchmarks that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--quick", action="store_true", help="a tenth of the data, fewer runs")
    parser.add_argument("--place", help="where the data go for the time of the run")
    given = parser.parse_args()
    if unknown := set(given.names) - set(NAMES):
        parser.error(f"no benchmark {min(unknown)!r}: {', '.join(NAMES)}")
    size = measure.QUICK if given.quick else measure.FULL
    print(f"{measure.machine()}\nmedians of {size.n_runs} runs in turns; ratio: peer / mmprep\n")
    print(measure.header())
    for name in given.names or NAMES:
        with tempfile.TemporaryDirectory(prefix=f"bench-{name}-", dir=given.place) as place:
            _print(name, Path(place), size)


def _print(name: str, place: Path, size: measure.Size) -> None:
    bench = importlib.import_module(f"tests.bench.bench_{name}")
    for found in bench.rows(place, size):
        is_note = isinstance(found, measure.Note)
        print(f"  {found.text}" if is_note else measure.line(found), flush=True)


if __name__ == "__main__":
    main()
