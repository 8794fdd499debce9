"""MATLAB files of published sets: AMIGOS, DEAP and DREAMER, preprocessed.

Rules
-----
- A file is taken by the names of its variables; other MATLAB files are none of ours.
- The trials of a person become one table a stream, laid one after another, and `trials` tells
  where each one lies, how long its baseline is and how it was rated.
- DREAMER holds all people in one file: each is an item of its own, `DREAMER/S01` and so on. Its
  baselines go before its clips, as they do in the other sets.
- AMIGOS: 14 channels of EEG, ECG right and left, GSR, at 128 Hz; the first 5 s are baseline; some
  trials are empty, and the order of the videos is each person's own.
- Files of MATLAB 7.3 are HDF5: the extra `mat73` reads them.
- Ages and genders are not read.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmprep import files
from mmprep.errors import DataError, UsageError
from mmprep.sources.base import Claim, Finder, Looks, Part, TextOptions, beside, file_of
from mmprep.sources.trials import TRIALS, TRIALS_NOTE, Trials, TrialStream, deap_trials
from mmprep.tables.schema import Column

READER = "matlab"
SUFFIX = ".mat"
HEAD_BYTES = 1 << 16
N_PEOPLE = 23  # in DREAMER as published

_V5, _V73 = b"MATLAB 5.0 MAT-file", b"MATLAB 7.3 MAT-file"
_VARIABLES = {  # set -> the variables that tell it
    "amigos": {"joined_data", "labels_selfassessment"},
    "deap": {"data", "labels"},
    "dreamer": {"DREAMER"},
}
_NAMES = {  # set -> its files; only for 7.3, whose variables cannot be listed without the extra
    "amigos": re.compile(r"^Data_Preprocessed_P\d+\.mat$", re.IGNORECASE),
    "deap": re.compile(r"^s\d\d\.mat$"),
    "dreamer": re.compile(r"^DREAMER\.mat$", re.IGNORECASE),
}
# fmt: off
_EMOTIV = (
    "AF3", "F7", "F3", "FC5", "T7", "P7", "O1", "O2", "P8", "T8", "FC6", "F4", "F8", "AF4",
)
_AMIGOS_LABELS = (
    "arousal", "valence", "dominance", "liking", "familiarity", "neutral", "disgust", "happiness",
    "surprise", "anger", "fear", "sadness",
)
# fmt: on
_AMIGOS_CHANNELS: Mapping[str, tuple[tuple[str, ...], str | None]] = {
    "eeg": (_EMOTIV, "uV"),
    "ecg": (("ECG_right", "ECG_left"), None),
    "gsr": (("GSR",), None),
}
_AMIGOS_RATE_HZ, _AMIGOS_BASELINE_S = Fraction(128), 5.0
_DREAMER_LABELS = {
    "valence": "ScoreValence",
    "arousal": "ScoreArousal",
    "dominance": "ScoreDominance",
}


def claim(folder: str, names: Sequence[str], root: Path) -> list[Claim]:
    """Claim the files of the known sets; each person of DREAMER is a claim of its own."""
    claims: list[Claim] = []
    for name in sorted(names):
        path = beside(folder, name)
        kind = _kind(file_of(root, path)) if name.lower().endswith(SUFFIX) else None
        if kind == "dreamer":
            stem = path[: -len(SUFFIX)]
            people = range(1, _n_people(file_of(root, path)) + 1)
            claims += [Claim(READER, f"{stem}/S{k:02d}", (path,)) for k in people]
        elif kind is not None:
            claims.append(Claim(READER, path, (path,), name[-len(SUFFIX) :]))
    return claims


def _kind(path: Path) -> str | None:
    """Say which set a file belongs to."""
    with files.open_input(path) as file:
        head = file.read(128)
    if head.startswith(_V73):
        return next((kind for kind, name in _NAMES.items() if name.match(path.name)), None)
    if not head.startswith(_V5):
        return None
    found = _variables(path)
    return next((kind for kind, names in _VARIABLES.items() if names <= found), None)


def _variables(path: Path) -> set[str]:
    from scipy.io import whosmat

    try:
        with files.open_input(path) as file:
            return {name for name, _, _ in whosmat(file)}
    except (*_ERRORS, DataError):
        return set()


_ERRORS = (ValueError, TypeError, KeyError, IndexError, OSError, EOFError, zlib.error)
# scipy raises NotImplementedError for parts of the format that it does not know, and MemoryError
# where a damaged header claims a size.
_UNREADABLE = (*_ERRORS, NotImplementedError, MemoryError)


def streams(claim: Claim, root: Path, options: TextOptions) -> tuple[str, ...]:
    """Name the streams; they are known beforehand."""
    if not claim.suffix:
        return ("eeg", "ecg", TRIALS)
    kind = _kind(file_of(root, claim.files[0]))
    if kind == "amigos":
        return (*_AMIGOS_CHANNELS, TRIALS)
    return (*deap_trials(np.empty((0, 40, 0)), np.empty((0, 4)), "").streams, TRIALS)


def _find(claim: Claim, root: Path, options: TextOptions) -> Looks:
    return _trials(claim, root).tables()


def parts(claim: Claim, root: Path, options: TextOptions) -> list[Part]:
    """Give the trials of a person."""
    return _trials(claim, root).parts()


def _trials(claim: Claim, root: Path) -> Trials:
    (name,) = claim.files
    content = _content(file_of(root, name), name)
    person = 0 if claim.suffix else int(claim.id_path[-2:])
    try:
        if "joined_data" in content:
            return _amigos(content, name)
        if "DREAMER" in content:
            return _dreamer(content["DREAMER"], person, name)
        return deap_trials(np.asarray(content["data"]), np.asarray(content["labels"]), name)
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise DataError(f"is not laid out as published: {error!r}", where=name) from error


def _content(path: Path, where: str) -> Mapping[str, Any]:
    stamp = files.stamp(path)
    return _loaded(path, where, stamp.n_bytes, stamp.mtime_ns)


@lru_cache(maxsize=1)  # the streams of a file are written one after another
def _loaded(path: Path, where: str, n_bytes: int, mtime_ns: int) -> Mapping[str, Any]:
    from scipy.io import loadmat

    with files.open_input(path) as file:
        is_hdf = file.read(len(_V73)) == _V73
    try:
        if is_hdf:
            return _read_hdf(path, where)
        with files.open_input(path) as file:
            content: Mapping[str, Any] = loadmat(file, simplify_cells=True)
    except _UNREADABLE as error:
        raise DataError(f"cannot be read: {error}", where=where) from error
    return content


def _read_hdf(path: Path, where: str) -> Mapping[str, Any]:
    read = _pymatreader(where)
    if files.is_member(path):
        raise DataError(
            "is a file of MATLAB 7.3, which can't be read inside an archive",
            where=where,
            hint="unpack the archive, and convert the folder",
        )
    content: Mapping[str, Any] = read(str(path))
    return content


def _pymatreader(where: str) -> Callable[..., Any]:
    try:
        from pymatreader import read_mat  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise UsageError(
            "is a file of MATLAB 7.3, which needs the extra `mat73`",
            where=where,
            hint="pip install 'mmprep[mat73]', or save it again with -v7",
        ) from error
    reader: Callable[..., Any] = read_mat
    return reader


# The sets -----------------------------------------------------------------------------------------


def _amigos(content: Mapping[str, Any], where: str) -> Trials:
    cells = [np.asarray(cell, dtype=np.float64) for cell in _listed(content["joined_data"], 2)]
    n_channels = sum(len(names) for names, _ in _AMIGOS_CHANNELS.values())
    numbers = [k for k, cell in enumerate(cells) if cell.size]
    odd = [k for k in numbers if cells[k].ndim != 2 or cells[k].shape[1] != n_channels]
    if odd:
        raise DataError(
            f"trial {odd[0] + 1} is {cells[odd[0]].shape}, expected n x {n_channels}", where=where
        )
    empty = tuple(k + 1 for k, cell in enumerate(cells) if not cell.size)
    return Trials(
        tuple(k + 1 for k in numbers),
        (_AMIGOS_BASELINE_S,) * len(numbers),
        _cut([cells[k] for k in numbers], _AMIGOS_CHANNELS, _AMIGOS_RATE_HZ),
        _amigos_labels(content, numbers),
        (TRIALS_NOTE, *([f"{len(empty)} trials are empty"] if empty else [])),
        empty,
    )


def _listed(cells: Any, n_axes: int) -> list[Any]:
    """Give the cells of a row as a list; a single one comes without its row."""
    is_one = isinstance(cells, str) or (
        isinstance(cells, np.ndarray) and cells.dtype != object and cells.ndim == n_axes
    )
    return [cells] if is_one else list(cells)


def _cut(
    cells: Sequence[NDArray[Any]],
    channels: Mapping[str, tuple[tuple[str, ...], str | None]],
    rate_hz: Fraction,
) -> dict[str, TrialStream]:
    """Cut trials [shape=(n_samples, n_channels)] into streams."""
    found, at = {}, 0
    for stream, (names, unit) in channels.items():
        columns = tuple(Column(name, "float64", name, unit, fixed=True) for name in names)
        parts = tuple(cell[:, at : at + len(names)] for cell in cells)
        found[stream] = TrialStream(columns, rate_hz, parts)
        at += len(names)
    return found


def _amigos_labels(content: Mapping[str, Any], numbers: Sequence[int]) -> dict[Column, list[Any]]:
    rated = _listed(content["labels_selfassessment"], 1)
    rows = [_row(rated[k], len(_AMIGOS_LABELS)) for k in numbers]
    videos = _listed(content.get("VideoIDs", []), 0)
    found: dict[Column, list[Any]] = {}
    if len(videos) >= len(rated):
        found[Column("video", "string", "VideoIDs", fixed=True)] = [
            _said(videos[k]) for k in numbers
        ]
    for at, name in enumerate(_AMIGOS_LABELS):
        found[Column(name, "float64", name, fixed=True)] = [row[at] for row in rows]
    return found


def _row(cell: Any, n: int) -> list[float]:
    values = np.asarray(cell, dtype=np.float64).reshape(-1)
    return [float(value) for value in values] if values.size == n else [float("nan")] * n


def _said(video: Any) -> str:
    value = np.asarray(video).reshape(-1)
    return str(value[0]) if value.size else ""


def _dreamer(content: Mapping[str, Any], person: int, where: str) -> Trials:
    people = content["Data"]
    people = [people] if isinstance(people, Mapping) else list(people)
    if not 1 <= person <= len(people):
        raise DataError(f"holds {len(people)} people, no S{person:02d}", where=where)
    data = people[person - 1]
    names = tuple(str(name) for name in np.asarray(content["EEG_Electrodes"]).reshape(-1))
    eeg_hz, ecg_hz = (Fraction(int(content[f"{key}_SamplingRate"])) for key in ("EEG", "ECG"))
    eeg, eeg_lead_s = _dreamer_stream(data, "EEG", (names, "uV"), eeg_hz, where)
    ecg, ecg_lead_s = _dreamer_stream(data, "ECG", (("ECG_1", "ECG_2"), None), ecg_hz, where)
    n = len(eeg_lead_s)
    unlike = sum(abs(a - b) > 1 / eeg_hz for a, b in zip(eeg_lead_s, ecg_lead_s, strict=True))
    labels = {
        Column(name, "float64", name, fixed=True): _row(data[key], n)
        for name, key in _DREAMER_LABELS.items()
    }
    notes = (TRIALS_NOTE, *([f"{unlike} baselines of EEG and ECG differ"] if unlike else []))
    numbers = tuple(range(1, n + 1))
    return Trials(numbers, tuple(map(float, eeg_lead_s)), eeg | ecg, labels, notes)


def _dreamer_stream(
    data: Mapping[str, Any],
    key: str,
    channels: tuple[tuple[str, ...], str | None],
    rate_hz: Fraction,
    where: str,
) -> tuple[dict[str, TrialStream], list[Fraction]]:
    """Put each baseline before its clip; give the stream, and how long the baselines are."""
    before, during = _cells(data[key]["baseline"]), _cells(data[key]["stimuli"])
    cells = [np.concatenate(pair) for pair in zip(before, during, strict=True)]
    if any(cell.ndim != 2 or cell.shape[1] != len(channels[0]) for cell in cells):
        raise DataError(f"{key} has not {len(channels[0])} channels", where=where)
    return _cut(cells, {key.lower(): channels}, rate_hz), [len(c) / rate_hz for c in before]


def _cells(value: Any) -> list[NDArray[np.float64]]:
    return [np.asarray(cell, dtype=np.float64) for cell in value]


# The number of people of DREAMER, without reading them --------------------------------------------

_MATRIX, _COMPRESSED = 14, 15


def _n_people(path: Path) -> int:
    """Read the size of the first field, `Data`; the published number where that can't be."""
    with files.open_input(path) as file:
        raw = file.read(HEAD_BYTES)
    try:
        return _size_of_data(_first_matrix(raw[128:])) or N_PEOPLE
    except (struct.error, zlib.error, IndexError, ValueError):
        return N_PEOPLE


def _first_matrix(raw: bytes) -> bytes:
    kind, _ = struct.unpack("<II", raw[:8])
    if kind == _COMPRESSED:
        raw = zlib.decompressobj().decompress(raw[8:], HEAD_BYTES)
    return raw[8:]


def _size_of_data(raw: bytes) -> int:
    """Walk a struct: flags, size, name, length of names, names; then flags and size of a field."""
    at = 0
    for _ in range(3):
        _, at = _element(raw, at)
    width_raw, at = _element(raw, at)
    (width,) = struct.unpack("<i", width_raw[:4])
    names, at = _element(raw, at)
    kind, _ = struct.unpack("<II", raw[at : at + 8])
    if names[:width].rstrip(b"\0") != b"Data" or kind != _MATRIX:
        return 0
    _, at = _element(raw, at + 8)
    size, _ = _element(raw, at)
    return int(np.prod(np.frombuffer(size, "<i4")))


def _element(raw: bytes, at: int) -> tuple[bytes, int]:
    """Give an element's bytes, and where the next one begins."""
    kind, n_bytes = struct.unpack("<II", raw[at : at + 8])
    if kind >> 16:  # up to four bytes stand in the tag itself
        return raw[at + 4 : at + 4 + (kind >> 16)], at + 8
    end = at + 8 + n_bytes
    return raw[at + 8 : end], end + (-n_bytes % 8)


_FINDER = Finder(_find)
probe = _FINDER.probe
write = _FINDER.write
read_stream = _FINDER.read_stream
