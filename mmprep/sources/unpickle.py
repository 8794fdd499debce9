"""Pickled arrays: DEAP's `sXX.dat` and WESAD's `SX.pkl`.

Rules
-----
- Nothing but arrays and plain containers is read: see `pickles`.
- A file is taken by its name and its first bytes; what is in it is checked when it is read.
- DEAP: 40 trials of 40 channels at 128 Hz, laid one after another. WESAD: the chest's channels at
  700 Hz, the wrist's at their own rates, all from second 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmprep import files, tables
from mmprep.errors import DataError
from mmprep.sources.base import Claim, Finder, Looks, Part, TextOptions, beside, file_of
from mmprep.sources.pickles import unpickled
from mmprep.sources.trials import TRIALS, Trials, deap_trials
from mmprep.tables.arrays import ArrayTable, Rows
from mmprep.tables.schema import TimeColumn
from mmprep.tables.stamps import row_stamps

READER = "unpickle"
HEAD_BYTES = 4096
BLOCK_ROWS = 1 << 18

_DEAP, _WESAD = re.compile(r"^s\d\d\.dat$"), re.compile(r"^S\d+\.pkl$")
_KEYS = {_DEAP: (b"data", b"labels"), _WESAD: (b"signal", b"label", b"subject")}


@dataclass(frozen=True, slots=True)
class _Part:
    """A stream of WESAD."""

    path: tuple[str, ...]
    rate_hz: Fraction
    channels: tuple[str, ...]
    unit: str | None


_WESAD_PARTS = {
    "chest_ACC": _Part(("signal", "chest", "ACC"), Fraction(700), ("x", "y", "z"), "g"),
    "chest_ECG": _Part(("signal", "chest", "ECG"), Fraction(700), ("ECG",), "mV"),
    "chest_EMG": _Part(("signal", "chest", "EMG"), Fraction(700), ("EMG",), "mV"),
    "chest_EDA": _Part(("signal", "chest", "EDA"), Fraction(700), ("EDA",), "uS"),
    "chest_Temp": _Part(("signal", "chest", "Temp"), Fraction(700), ("Temp",), "degC"),
    "chest_Resp": _Part(("signal", "chest", "Resp"), Fraction(700), ("Resp",), "%"),
    "wrist_ACC": _Part(("signal", "wrist", "ACC"), Fraction(32), ("x", "y", "z"), "1/64 g"),
    "wrist_BVP": _Part(("signal", "wrist", "BVP"), Fraction(64), ("BVP",), None),
    "wrist_EDA": _Part(("signal", "wrist", "EDA"), Fraction(4), ("EDA",), "uS"),
    "wrist_TEMP": _Part(("signal", "wrist", "TEMP"), Fraction(4), ("TEMP",), "degC"),
    "label": _Part(("label",), Fraction(700), ("label",), None),
}


# The reader ---------------------------------------------------------------------------------------


def claim(folder: str, names: Sequence[str], root: Path) -> list[Claim]:
    """Claim the pickles of a folder that look like those of DEAP or WESAD."""
    claims = []
    for name in sorted(names):
        path = beside(folder, name)
        if any(_looks(pattern, file_of(root, path)) for pattern in _KEYS if pattern.match(name)):
            claims.append(Claim(READER, path, (path,), name[-4:]))
    return claims


def _looks(pattern: re.Pattern[str], path: Path) -> bool:
    with files.open_input(path) as file:
        head = file.read(HEAD_BYTES)
    is_pickle = head[:1] == b"\x80" or head[:2] in {b"(d", b"}q"}
    return is_pickle and any(key in head for key in _KEYS[pattern])


def streams(claim: Claim, root: Path, options: TextOptions) -> tuple[str, ...]:
    """Name the streams; by the file's name alone."""
    if _DEAP.match(claim.id_path.rpartition("/")[2]):
        return tuple(_deap_names())
    return tuple(_WESAD_PARTS)


def _deap_names() -> Iterator[str]:
    empty = deap_trials(np.empty((0, 40, 0)), np.empty((0, 4)), "")
    yield from empty.streams
    yield TRIALS


def _find(claim: Claim, root: Path, options: TextOptions) -> Looks:
    content = _content(file_of(root, claim.id_path), claim.id_path)
    if isinstance(content, Trials):
        return content.tables()
    return {stream: partial(_table, stream, data) for stream, data in content.items()}


def _table(stream: str, data: NDArray[Any]) -> ArrayTable:
    part, kind = _WESAD_PARTS[stream], "int64" if stream == "label" else "float64"
    columns = tables.declared((name, part.unit, kind) for name in part.channels)
    time = TimeColumn("rate", "given")
    return ArrayTable(columns, time, part.rate_hz, partial(_give, data, part))


def _give(data: NDArray[Any], part: _Part, take: Callable[[Rows], None], notes: list[str]) -> None:
    for begin in range(0, len(data), BLOCK_ROWS):
        block = data[begin : begin + BLOCK_ROWS]
        rows = np.arange(begin, begin + len(block), dtype=np.int64)
        columns = {name: block[:, k] for k, name in enumerate(part.channels)}
        take(Rows(row_stamps(0, part.rate_hz, rows), columns))


_Arrays = Mapping[str, NDArray[Any]]


# Trials and conditions ----------------------------------------------------------------------------

# The readme of WESAD; 0 is not defined or transient, 5 to 7 are to be ignored.
CONDITIONS = {1: "baseline", 2: "stress", 3: "amusement", 4: "meditation"}


def parts(claim: Claim, root: Path, options: TextOptions) -> list[Part]:
    """Give the trials of a person of DEAP, or the conditions of one of WESAD."""
    content = _content(file_of(root, claim.id_path), claim.id_path)
    return content.parts() if isinstance(content, Trials) else _conditions(content)


def _conditions(content: _Arrays) -> list[Part]:
    """Give the stretches of one condition each; of several alike each has its number."""
    label = content["label"][:, 0]
    edges = [0, *(np.flatnonzero(np.diff(label)) + 1).tolist(), len(label)]
    runs = [(int(label[a]), a, b) for a, b in pairwise(edges) if int(label[a]) in CONDITIONS]
    known = [condition for condition, _, _ in runs]
    return [
        _condition(content, runs[k], known[: k + 1].count(runs[k][0]), known.count(runs[k][0]))
        for k in range(len(runs))
    ]


def _condition(content: _Arrays, run: tuple[int, int, int], nth: int, n: int) -> Part:
    condition, begin, end = run
    rate_hz, name = _WESAD_PARTS["label"].rate_hz, CONDITIONS[condition]
    rows = {}
    for stream, data in content.items():
        ratio = _WESAD_PARTS[stream].rate_hz / rate_hz
        rows[stream] = (ceil(begin * ratio), min(len(data), ceil(end * ratio)))
    return Part(
        name if n == 1 else f"{name}-{nth}",
        rows,
        float((end - begin) / rate_hz),
        {"condition": name, "condition_id": condition},
        {"begin_in_file_s": float(begin / rate_hz)},
        label=name,
    )


# Reading ------------------------------------------------------------------------------------------


def _content(path: Path, where: str) -> Trials | _Arrays:
    found = unpickled(path, where)
    if isinstance(found, dict) and {"data", "labels"} <= found.keys():
        return deap_trials(np.asarray(found["data"]), np.asarray(found["labels"]), where)
    if isinstance(found, dict) and "signal" in found:
        return {stream: _array(found, stream, where) for stream in _WESAD_PARTS}
    raise DataError("holds neither DEAP's `data` nor WESAD's `signal`", where=where)


def _array(found: Any, stream: str, where: str) -> NDArray[Any]:
    """Take one stream out of the nested containers [shape=(n_samples, n_channels)]."""
    part = _WESAD_PARTS[stream]
    for key in part.path:
        found = found.get(key) if isinstance(found, dict) else None
    data = np.asarray(found) if isinstance(found, np.ndarray) else np.empty(0)
    n = len(part.channels)
    if data.dtype.kind not in "iuf" or not data.size or data.size % n:
        raise DataError(f"{'/'.join(part.path)} is no array of {n} channels", where=where)
    return data.reshape(-1, n)


_FINDER = Finder(_find)
probe = _FINDER.probe
write = _FINDER.write
read_stream = _FINDER.read_stream
