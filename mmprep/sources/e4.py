"""Empatica E4: a folder of `EDA.csv BVP.csv TEMP.csv HR.csv ACC.csv IBI.csv tags.csv`.

Rules (Empatica's info.txt, and sessions of two devices)
-----
- Line 1 is the start in Unix seconds, always UTC, for each file its own (HR starts 10 s later);
  line 2 is the rate in Hz; then one row a sample. ACC repeats both for x, y, z, in 1/64 g: whole
  numbers, unless somebody's tool wrote decimals.
- `IBI.csv` has no rate: rows are seconds after its own start, and the interval in s.
- `tags.csv` has no header: one Unix time a line; it may be empty.
- Sample i is at start + i / rate, in integer nanoseconds. All streams are absolute.
- A file with another header (as of K-EmoCon) is none of ours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path

from mmprep import files, tables
from mmprep.errors import DataError
from mmprep.sources.base import (
    Claim,
    Finder,
    Looks,
    TextOptions,
    beside,
    file_of,
    nulls_of,
)
from mmprep.tables import feed, stamps
from mmprep.tables.schema import Column, TimeColumn
from mmprep.tables.text import TextTable

READER = "e4"
HEAD_BYTES = 256


@dataclass(frozen=True, slots=True)
class _Kind:
    """What one of the files holds."""

    channels: tuple[str, ...]
    unit: str | None
    kind: str = "float64"
    form: str = "rate"  # or `ibi`, `tags`


_KINDS = {
    "EDA": _Kind(("EDA",), "uS"),
    "BVP": _Kind(("BVP",), None),
    "TEMP": _Kind(("TEMP",), "degC"),
    "HR": _Kind(("HR",), "bpm"),
    "ACC": _Kind(("x", "y", "z"), "1/64 g", kind="int64"),
    "IBI": _Kind(("ibi",), "s", form="ibi"),
    "tags": _Kind((), None, form="tags"),
}
_START = r"\s*\d{9,10}(?:\.\d*)?\s*"
_HEADERS = {
    "rate": re.compile(
        rf"^({_START})(?:,{_START}){{0,2}}\n\s*(\d+(?:\.\d*)?)\s*(?:,[^\n]*)?(?:\n|$)"
    ),
    "ibi": re.compile(rf"^({_START}),\s*IBI\s*(?:\n|$)"),
    "tags": re.compile(rf"^()(?:{_START}\n|{_START}$|$)"),
}


def claim(folder: str, names: Sequence[str], root: Path) -> list[Claim]:
    """Claim the files of a session, if the folder holds any with an E4 header."""
    known = sorted(name for name in names if name in {f"{stem}.csv" for stem in _KINDS})
    paths = [beside(folder, name) for name in known]
    ours = tuple(path for path in paths if is_e4(file_of(root, path)))
    if all(path.endswith("tags.csv") for path in ours):  # empty, it may be anybody's
        ours = tuple(path for path in ours if _first_text(file_of(root, path)).strip())
    if not ours:
        return []
    return [Claim(READER, "" if folder == "." else folder, ours)]


def is_e4(path: Path) -> bool:
    """Say whether name and first lines of a file are those of an E4."""
    if path.suffix != ".csv" or path.stem not in _KINDS:
        return False
    return _HEADERS[_KINDS[path.stem].form].match(_first_text(path)) is not None


def _first_text(path: Path) -> str:
    with files.open_input(path) as file:
        raw = file.read(HEAD_BYTES)
    return feed.decode(raw, "utf-8").decode("utf-8", "replace")


def _find(claim: Claim, root: Path, options: TextOptions) -> Looks:
    """Find the files of a session; their columns are known beforehand."""
    paths = {name: file_of(root, name) for name in claim.files}
    return {path.stem: partial(_table, path, name, options) for name, path in paths.items()}


def _table(path: Path, where: str, options: TextOptions) -> TextTable:
    layout, known = _layout(path, where, options), _KINDS[path.stem]
    return TextTable(
        layout,
        tuple(
            Column(n, known.kind, n, known.unit, fixed=known.kind != "int64")
            for n in known.channels
        ),
        TimeColumn("rate" if known.form == "rate" else "s", "given", absolute=True),
        rate_hz=layout.rate.rate_hz if layout.rate is not None else None,
        irregular=layout.rate is None,
        kind="events" if path.stem == "tags" else "signal",
    )


def _layout(path: Path, where: str, options: TextOptions) -> tables.Layout:
    known = _KINDS.get(path.stem)
    found = _HEADERS[known.form].match(_first_text(path)) if known is not None else None
    if known is None or found is None:
        raise DataError(
            "no Empatica E4 header (line 1: start in Unix seconds, line 2: rate)", where=where
        )
    start_ns = stamps.parse_ns(found[1], "s") or 0
    plain = tables.Layout(
        path, where, known.channels, delimiter=",", nulls=nulls_of(options), comment=b""
    )
    return _FORMS[known.form](plain, start_ns, found)


def _rated(plain: tables.Layout, start_ns: int, found: re.Match[str]) -> tables.Layout:
    rate_hz = Fraction(found[2])
    if rate_hz <= 0:
        raise DataError(f"a rate of {found[2]} Hz", where=f"{plain.where}:2")
    return replace(plain, n_preamble=2, rate=tables.RateTime(rate_hz, start_ns))


def _beats(plain: tables.Layout, start_ns: int, found: re.Match[str]) -> tables.Layout:
    reader = stamps.stamp_reader("s", (), offset_ns=start_ns)
    cells = ("time", *plain.cells)
    return replace(plain, cells=cells, n_preamble=1, time_cell=0, stamps=reader)


def _tags(plain: tables.Layout, start_ns: int, found: re.Match[str]) -> tables.Layout:
    return replace(plain, cells=("time",), time_cell=0, stamps=stamps.stamp_reader("s", ()))


_FORMS = {"rate": _rated, "ibi": _beats, "tags": _tags}


def serial(path: Path, stream: str) -> str | None:
    """Give the serial number that Empatica puts into the names of sessions: 1544027337_A01525."""
    found = re.search(r"(?:^|_)(A[0-9A-F]{5})(?:$|[_.])", path.parent.name)
    return found[1] if found else None


_FINDER = Finder(_find, device="Empatica E4", serial=serial)
streams = _FINDER.streams
probe = _FINDER.probe
write = _FINDER.write
device_of = _FINDER.device_of
read_stream = _FINDER.read_stream
