"""BIDS tables of one recording: `*_physio.tsv.gz`, `*_stim.tsv.gz`, `*_motion.tsv`, `*_events.tsv`.

Rules (BIDS 1.10: task events, physiological recordings, motion; the inheritance principle)
-----
- physio and stim have no header: names (`Columns`), `SamplingFrequency` and `StartTime` stand in a
  JSON sidecar; sample i is at StartTime + i / SamplingFrequency.
- motion has no header: names, units and types stand in `*_channels.tsv`, the rate in the sidecar. A
  channel of type LATENCY holds the times.
- events have a header; a row begins at `onset` and lasts `duration`, both in seconds.
- A sidecar is a JSON file of the same suffix whose entities are among those of the table, in its
  folder or one above it up to the input root; nearer ones, and those with more entities, win.
- Times count from the start of the recording that the table goes with: none is absolute.
- `n/a` is missing. Rows of a table whose `sample` disagrees with `onset` keep the time of `onset`,
  and the constant difference is said.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from mmprep import files, tables
from mmprep.errors import DataError, UsageError
from mmprep.rows import IN_MEMORY, Store
from mmprep.signals import Stream
from mmprep.sources import base
from mmprep.sources.base import OWN, Claim, Finder, Looks, TextOptions, beside, file_of
from mmprep.tables import stamps
from mmprep.tables.schema import Column, TimeColumn
from mmprep.tables.text import TextTable
from mmprep.timebase import FloatArray, rate

READER = "bids"
HEAD_BYTES = 1 << 16
SHIFT_SAMPLES = 1.5  # counting from 1 and rounding stay below
MIN_EVENTS = 3

_ENTITY = r"[a-z]+-[A-Za-z0-9+]+"
_NAME = re.compile(
    rf"^(?P<entities>sub-[A-Za-z0-9+]+(?:_{_ENTITY})*)_(?P<suffix>physio|stim|motion|events)"
    r"(?P<end>\.tsv(?:\.gz)?)$"
)
_SIDECAR = re.compile(rf"^(?P<entities>(?:{_ENTITY}_)*)(?P<suffix>[a-z]+)\.json$")
_LABELS = ("recording", "tracksys")


@dataclass(frozen=True, slots=True)
class _Name:
    """What the name of a table says."""

    entities: tuple[str, ...]
    suffix: str
    end: str

    @property
    def label(self) -> str | None:
        """The last entity, where it only tells apart tables of one recording."""
        key, _, label = self.entities[-1].partition("-")
        return label if key in _LABELS else None

    @property
    def stream(self) -> str:
        """The suffix, with the label of the recording or tracking system."""
        return self.suffix if self.label is None else f"{self.suffix}-{self.label}"

    @property
    def ending(self) -> str:
        """What is no part of the id."""
        last = f"_{self.entities[-1]}" if self.label is not None else ""
        return f"{last}_{self.suffix}{self.end}"


def _name_of(path: str) -> _Name | None:
    found = _NAME.match(PurePosixPath(path).name)
    if found is None:
        return None
    return _Name(tuple(found["entities"].split("_")), found["suffix"], found["end"])


def claim(folder: str, names: Sequence[str], root: Path) -> list[Claim]:
    """Claim the tables of a folder with their sidecars; those of one recording have one stem."""
    claims = []
    for name in sorted(names):
        path, found = beside(folder, name), _name_of(name)
        if found is None or not _is_right(file_of(root, path), found):
            continue
        files = (path, *_sidecars(path, found, root), *_channels(path, found, root))
        claims.append(Claim(READER, path, files, found.ending))
    return claims


def _is_right(path: Path, name: _Name) -> bool:
    """Say whether a table has the header that its suffix wants: `onset`, or none."""
    lines = base.first_lines(path)
    if not lines or not lines[0].strip():
        return False
    cells = [cell.strip() for cell in lines[0].split("\t")]
    if name.suffix == "events":
        return "onset" in cells and "duration" in cells
    return all(cell in tables.NULLS or stamps.parse_ns(cell, "s") is not None for cell in cells)


def _sidecars(path: str, name: _Name, root: Path) -> list[str]:
    """Find the sidecars of a table, the ones that win last."""
    found = []
    parents = [parent.as_posix() for parent in PurePosixPath(path).parents]
    for folder in reversed(parents):
        here = file_of(root, folder)
        mine = [
            (one["entities"].count("-"), one.string)
            for one in map(_SIDECAR.match, files.names_in(here))
            if one is not None and one["suffix"] == name.suffix
            if set(filter(None, one["entities"].split("_"))) <= set(name.entities)
        ]
        found += [beside(folder, file_name) for _, file_name in sorted(mine)]
    return found


def _channels(path: str, name: _Name, root: Path) -> list[str]:
    if name.suffix != "motion":
        return []
    other = PurePosixPath(path).with_name("_".join([*name.entities, "channels.tsv"])).as_posix()
    return [other] if files.is_file(file_of(root, other)) else []


# Reading ------------------------------------------------------------------------------------------


def _find(claim: Claim, root: Path, options: TextOptions) -> Looks:
    name = _name_of(claim.files[0])
    stream = name.stream if name is not None else OWN
    return {stream: partial(_table, claim.files, root, options)}


def read_stream(
    path: Path,
    options: TextOptions,
    name: str,
    *,
    stream: str | None = None,
    store: Store = IN_MEMORY,
) -> Stream:
    """Read a table with the sidecars in its folder; see `Finder.read_stream`."""
    claims = claim("", [path.name], path.parent)
    if not claims:
        raise DataError("no table of BIDS: sub-..._physio|stim|motion|events.tsv", where=str(path))
    return _FINDER.read(claims[0], path.parent, options, name, stream, store=store)


@dataclass(frozen=True, slots=True)
class _About:
    """A table with what stands beside it.

    Parameters
    ----------
    facts : mapping
        The merged sidecars; numbers with a point are text, so that no digit is lost.
    """

    path: Path
    where: str
    facts: Mapping[str, Any]
    sidecar: str
    channels: str | None
    root: Path


def _table(files: Sequence[str], root: Path, options: TextOptions) -> TextTable:
    name = _name_of(files[0])
    if name is None:
        raise DataError("no name of BIDS", where=files[0])
    sidecars = [file for file in files[1:] if file.endswith(".json")]
    facts: dict[str, Any] = {}
    for file in sidecars:
        facts |= _json(file_of(root, file), file)
    channels = next((file for file in files[1:] if file.endswith("_channels.tsv")), None)
    missing = f"{PurePosixPath(files[0]).name.removesuffix(name.end)}.json"
    about = _About(
        file_of(root, files[0]),
        files[0],
        facts,
        sidecars[-1] if sidecars else missing,
        channels,
        root,
    )
    return _FORMS[name.suffix](about, options)


def _json(path: Path, where: str) -> dict[str, Any]:
    try:
        said = json.loads(files.read_text(path), parse_float=str)
    except ValueError as error:
        raise DataError(f"no JSON: {error}", where=where) from error
    if not isinstance(said, dict):
        raise DataError("no JSON object", where=where)
    return said


def _rate(about: _About, options: TextOptions) -> Fraction:
    said = about.facts.get("SamplingFrequency")
    if said is None and options.rate_hz is not None:
        return options.rate_hz
    if said is None:
        raise DataError(
            f"no SamplingFrequency: it stands in {about.sidecar}",
            where=about.where,
            hint="put the sidecar beside the table, or give --rate HZ",
        )
    try:
        return rate(said if isinstance(said, str | int) else str(said))
    except UsageError as error:
        raise DataError(f"SamplingFrequency is {said!r}", where=about.sidecar) from error


def _layout(about: _About, names: Sequence[str], options: TextOptions, where: str) -> tables.Layout:
    doubled = [name for name, count in Counter(names).items() if count > 1 or not name]
    if doubled:
        raise DataError(f"column {doubled[0]!r} is named twice, or has no name", where=where)
    cells: list[str] = []
    for name in names:
        cells.append(tables.table_name(name, cells))
    return tables.Layout(
        about.path, about.where, tuple(cells), comment=b"", nulls=base.nulls_of(options)
    )


def _n_cells(about: _About) -> int:
    return base.first_lines(about.path)[0].count("\t") + 1


def _check_width(about: _About, names: Sequence[str], where: str) -> None:
    if len(names) != (n_cells := _n_cells(about)):
        raise DataError(
            f"names {len(names)} columns, the rows of {about.path.name} have {n_cells} cells",
            where=where,
            hint="the two files do not belong together",
        )


def _unit(about: _About, name: str) -> str | None:
    said = about.facts.get(name)
    unit = said.get("Units") if isinstance(said, dict) else None
    return str(unit) if unit not in (None, "", "n/a") else None


def _physio(about: _About, options: TextOptions) -> TextTable:
    said = about.facts.get("Columns") or list(options.columns)
    if not isinstance(said, list) or not said:
        raise DataError(
            f"no Columns: they stand in {about.sidecar}",
            where=about.where,
            hint="put the sidecar beside the table, or give --columns and --rate",
        )
    names = [str(name) for name in said]
    _check_width(about, names, about.sidecar)
    rate_hz, start_ns = _rate(about, options), _start_ns(about)
    layout = _layout(about, names, options, about.sidecar)
    layout = replace(layout, rate=tables.RateTime(rate_hz, start_ns))
    columns = tuple(
        Column(cell, "null", name, _unit(about, name))
        for cell, name in zip(layout.channels, names, strict=True)
    )
    return TextTable(layout, columns, TimeColumn("rate", since_start=True), rate_hz=rate_hz)


def _start_ns(about: _About) -> int:
    said = about.facts.get("StartTime", 0)
    start_ns = stamps.parse_ns(str(said), "s")
    if start_ns is None:
        raise DataError(f"StartTime is {said!r}, expected seconds", where=about.sidecar)
    return start_ns


def _motion(about: _About, options: TextOptions) -> TextTable:
    where = about.channels or about.where
    rows = _channel_rows(about)
    names = [row["name"] for row in rows]
    _check_width(about, names, where)
    rate_hz, layout = _rate(about, options), _layout(about, names, options, where)
    kinds = [row.get("type", "").upper() for row in rows]
    columns = tuple(
        Column(cell or "", "null", row["name"], row.get("units"))
        for cell, row, kind in zip(layout.cells, rows, kinds, strict=True)
        if kind != "LATENCY"
    )
    if "LATENCY" not in kinds:
        layout = replace(layout, rate=tables.RateTime(rate_hz))
        return TextTable(layout, columns, TimeColumn("rate", since_start=True), rate_hz=rate_hz)
    index = kinds.index("LATENCY")
    layout = _timed(layout, index, about)
    time = TimeColumn("s", source_name=names[index], since_start=True)
    return TextTable(layout, columns, time, rate_hz=rate_hz)


def _channel_rows(about: _About) -> list[dict[str, str]]:
    """Read `*_channels.tsv`; without it the channels are numbered."""
    if about.channels is None:
        return [{"name": f"column_{k + 1}"} for k in range(_n_cells(about))]
    text = files.read_text(file_of(about.root, about.channels))
    lines = [line.split("\t") for line in text.splitlines() if line.strip()]
    header = [cell.strip() for cell in lines[0]] if lines else []
    if "name" not in header:
        raise DataError("no column `name`", where=f"{about.channels}:1")
    rows = [dict(zip(header, map(str.strip, line), strict=False)) for line in lines[1:]]
    return [{k: v for k, v in row.items() if v != "n/a"} for row in rows]


def _timed(layout: tables.Layout, index: int, about: _About) -> tables.Layout:
    lines = base.first_lines(about.path, HEAD_BYTES)[layout.n_preamble :]
    cells = [line.split("\t") for line in lines[:-1] or lines]
    texts = [row[index].strip() for row in cells if len(row) == len(layout.cells)]
    known = [text for text in texts if text not in layout.nulls]
    return replace(layout, time_cell=index, stamps=stamps.stamp_reader("s", known))


def _events(about: _About, options: TextOptions) -> TextTable:
    header = [cell.strip() for cell in base.first_lines(about.path)[0].split("\t")]
    layout = _layout(about, header, options, f"{about.where}:1")
    line = base.first_lines(about.path)[0].encode()
    layout = _timed(replace(layout, n_preamble=1, header=line), header.index("onset"), about)
    cells = dict(zip(header, layout.cells, strict=True))
    units = {"duration": "s", "response_time": "s"}
    columns = tuple(
        Column(cells[name] or "", "null", name, _unit(about, name) or units.get(name))
        for name in header
        if name != "onset"
    )
    return TextTable(
        layout,
        columns,
        TimeColumn("s", "given", source_name="onset", since_start=True),
        text=frozenset(column.name for column in columns if column.name != "duration"),
        irregular=True,
        kind="events",
        notes=tuple(_shift_notes(about, header)),
    )


def _shift_notes(about: _About, header: Sequence[str]) -> Iterator[str]:
    """Say where `sample` counts from another start than `onset`."""
    if "sample" not in header:
        return
    lines = base.first_lines(about.path, HEAD_BYTES)
    rows = [line.split("\t") for line in lines[1:-1]]
    pairs = _numbers(rows, header.index("onset"), header.index("sample"))
    onset, sample = pairs[:, 0], pairs[:, 1]
    if onset.size < MIN_EVENTS or onset[-1] <= onset[0] or sample[-1] <= sample[0]:
        return
    rate_hz = (sample[-1] - sample[0]) / (onset[-1] - onset[0])
    shift = float(np.median(sample - onset * rate_hz))
    if abs(shift) > SHIFT_SAMPLES:
        yield (
            f"sample counts {shift:.0f} more than onset says, {shift / rate_hz:.6g} s at"
            f" {rate_hz:.6g} Hz; times are those of onset"
        )


def _numbers(rows: Sequence[Sequence[str]], *indices: int) -> FloatArray:
    found = []
    for row in rows:
        try:
            found.append([float(row[index]) for index in indices])
        except (ValueError, IndexError):
            continue
    pairs = np.array(found, dtype=np.float64).reshape(-1, len(indices))
    return pairs[np.isfinite(pairs).all(axis=1)]


_FORMS: dict[str, Callable[[_About, TextOptions], TextTable]] = {
    "physio": _physio,
    "stim": _physio,
    "motion": _motion,
    "events": _events,
}


_FINDER = Finder(_find)
probe = _FINDER.probe
write = _FINDER.write
