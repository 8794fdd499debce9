"""What a fuzzer feeds to the reader of delimited text.

Rules
-----
- The first byte of an input chooses how the rest is read: as a table whose dialect is known, which
  must be read as the slow way reads it; or as a file of which nothing is known, which must give a
  table with all rows accounted for, or a located error.
- Seeds, and inputs that once showed a fault, lie in `seeds/`; the tests replay them.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from mmprep import tables
from mmprep.errors import MmprepError
from mmprep.sources import text
from mmprep.sources.base import TextOptions
from mmprep.tables import Widen
from tests.fuzz import slow
from tests.fuzz.slow import Dialect

SEEDS = Path(__file__).with_name("seeds")
KNOWN = [
    Dialect(delimiter, quote, on_bad_row)
    for delimiter in ",;\t|"
    for quote in ('"', None, "'")
    for on_bad_row in ("skip", "null")
]
UNKNOWN = [
    TextOptions(rate_hz=rate_hz, on_bad_row=on_bad_row)
    for rate_hz in (Fraction(4), None)
    for on_bad_row in ("skip", "null", "fail")
]


def replay(data: bytes, folder: Path) -> None:
    """Read one input.

    Raises
    ------
    AssertionError
        It is not read as it should be.
    """
    if not data:
        return
    for left in folder.iterdir():
        left.unlink()
    chosen, rest = data[0] % (len(KNOWN) + len(UNKNOWN)), data[1:]
    if chosen < len(KNOWN):
        slow.check(rest, KNOWN[chosen], folder)
    else:
        _read_unknown(rest, UNKNOWN[chosen - len(KNOWN)], folder)


def _read_unknown(data: bytes, options: TextOptions, folder: Path) -> None:
    path, target = folder / "x.csv", tables.Target(folder / "x.parquet", "i")
    path.write_bytes(data)
    facts = _converted(path, target, options)
    if isinstance(facts, MmprepError):
        assert "x.csv" in str(facts), facts
        assert not target.path.exists()
    else:
        n_lost = facts.n_rejected if options.on_bad_row == "skip" else 0
        assert facts.n_rows_in == facts.rows + n_lost


def _converted(
    path: Path, target: tables.Target, options: TextOptions
) -> tables.TableFacts | MmprepError:
    (claim,) = text.claim("", [path.name], path.parent)
    try:
        schema = text.probe(claim, path.parent, options)["x"]
        while True:
            try:
                return text.write(claim, path.parent, "x", schema, target, options=options)
            except Widen as wanted:
                schema = schema.widened(wanted)
    except MmprepError as error:
        return error
