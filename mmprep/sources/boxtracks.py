"""Tracks of faces and mouths: a box or landmarks for the frames of a video, as trackers write them.

| file            | content                                                                       |
| --------------- | ----------------------------------------------------------------------------- |
| `.csv .tsv`     | `frame` or a time, and `x y w h`, `x1 y1 x2 y2` or the like; or landmarks     |
|                 | `x_0 ... y_0 ...`, as OpenFace and Py-Feat write them                         |
| `.jsonl .json`  | a frame a line, or a list of them: points `{x, y}`, as MediaPipe gives them,  |
|                 | `[x, y]`, a box; or an object that holds one, and the frame or a time         |
| `.npy .npz`     | arrays (n_frames, n_points, 2 or 3) or (n_frames, 4)                          |
| `.pkl`, `.npz`  | a list of one array (n_points, 2) or None a frame, as published for LRS2 and  |
|                 | LRS3; of one list of faces a frame (`facial_landmarks`), as for LRW           |

Rules
-----
- Four numbers without names are left, top, right, bottom; an array called `xywh` has sizes.
- Frames count from 0; in OpenFace's files from 1. Without frames and times row i is frame i.
- Rows of `success` or `valid` 0, empty cells, NaN, null and boxes without area are missing.
- Landmarks become the box around the chosen ones, all of which must be there. Points in three
  dimensions give x and y.
- Of several faces in a frame the first is taken. Pickles are read by `pickles`.
- Rows are read one by one, or in blocks: what is kept is four numbers a frame.
"""

from __future__ import annotations

import csv
import math
import re
import zipfile
import zlib
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from mmprep import files, media
from mmprep.errors import DataError, UsageError
from mmprep.sources import pickles
from mmprep.timebase import FloatArray, IntArray

KINDS = ("box", "landmarks")
BLOCK_ROWS = 1 << 10
MAX_POINTS, MAX_FRAMES = 1 << 14, 1 << 53
_NONE = (math.nan,) * 4
# zipfile raises NotImplementedError for packing methods that it does not know, and RuntimeError for
# members that are encrypted.
_NPZ_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)

# MediaPipe's FACEMESH_LIPS: the outer and the inner rim.
_LIPS = (
    *(0, 13, 14, 17, 37, 39, 40, 61, 78, 80, 81, 82, 84, 87, 88, 91, 95, 146, 178, 181),
    *(185, 191, 267, 269, 270, 291, 308, 310, 311, 312, 314, 317, 318, 321, 324, 375, 402, 405),
    *(409, 415),
)
_MOUTHS = {68: tuple(range(48, 68)), 468: _LIPS, 478: _LIPS}
NAMED_POINTS: Mapping[str, Mapping[int, tuple[int, ...]]] = {"mouth": _MOUTHS, "lips": _MOUTHS}


@dataclass(frozen=True, slots=True)
class Choice:
    """What of a track is taken.

    Parameters
    ----------
    kind : str, optional
        One of `KINDS`; what the file has, landmarks only where it has no box or `points` are given.
    points : tuple of int or str, optional
        The landmarks, or a name in `NAMED_POINTS`; all if None.
    """

    kind: str | None = None
    points: tuple[int, ...] | str | None = None

    @property
    def wants_landmarks(self) -> bool:
        """Whether landmarks go before boxes."""
        return self.kind == "landmarks" or (self.kind is None and self.points is not None)

    def of(self, n_points: int) -> tuple[int, ...]:
        """Give the numbers of the landmarks.

        Raises
        ------
        UsageError
            There are no such ones among so many.
        """
        if self.points is None or self.kind == "box":
            return tuple(range(n_points))
        if isinstance(self.points, str):
            layouts = NAMED_POINTS[self.points]
            if n_points not in layouts:
                known = ", ".join(map(str, layouts))
                raise UsageError(
                    f"{n_points} landmarks have no {self.points!r}: it is known of {known}",
                    hint="points=A-B or points=i,j,... names landmarks by number",
                )
            return layouts[n_points]
        if max(self.points) >= n_points:
            raise UsageError(
                f"there is no landmark {max(self.points)} among {n_points}",
                hint="they count from 0",
            )
        return self.points


@dataclass(frozen=True, slots=True)
class BoxTrack:
    """The boxes of a track, row by row.

    Parameters
    ----------
    kind : str
        What they were made of.
    boxes : [shape=(n_rows, 4), float64]
        Left, top, right, bottom; NaN where missing.
    frames : [shape=(n_rows,), int64], optional
    times_s : [shape=(n_rows,), float64], optional
        Where there are no frames; from the first frame on.
    first : int, optional
        The number of the first frame, where the layout says so.
    """

    kind: str
    boxes: FloatArray
    frames: IntArray | None = None
    times_s: FloatArray | None = None
    first: int | None = None

    @property
    def is_share(self) -> bool:
        """Whether coordinates are shares of width and height: no box is so small."""
        known = self.boxes[media.has_area(self.boxes)]
        return bool(known.size and known.min() >= -1 and known.max() <= 2)


@dataclass(slots=True)
class _Reading:
    """Rows as they are read."""

    path: Path
    choice: Choice
    kind: str | None = None
    first: int | None = None
    frames: IntArray | None = None
    _rows: array[float] = field(default_factory=lambda: array("d"))

    def fault(self, what: str, line: int | None = None, hint: str | None = None) -> DataError:
        """Say what is wrong, and where."""
        where = str(self.path) if line is None else f"{self.path}:{line}"
        return DataError(what, where=where, hint=hint)

    def is_of(self, kind: str) -> None:
        """Note what the file holds; refuse what was not asked for."""
        if kind == "box" and self.choice.wants_landmarks:
            raise self.fault("has boxes and no landmarks", hint="leave kind= and points= out")
        if self.kind not in {None, kind}:
            raise self.fault("has boxes and landmarks in turn")
        self.kind = kind

    def chosen(self, n_points: int) -> tuple[int, ...]:
        """Give the numbers of the landmarks that are taken, of so many."""
        self.is_of("landmarks")
        try:
            return self.choice.of(n_points)
        except UsageError as error:
            raise UsageError(error.what, where=str(self.path), hint=error.hint) from error

    def around(self, points: NDArray[Any]) -> FloatArray:
        """Give the boxes around the chosen of all points [shape=(n, n_points, 2 or 3)]."""
        chosen = points[:, self.chosen(points.shape[1]), :2]
        return media.around(chosen.astype(np.float64))

    @property
    def n_rows(self) -> int:
        """How many there are so far."""
        return len(self._rows) // 6

    def add(self, box: Sequence[float], frame: float = math.nan, time_s: float = math.nan) -> None:
        """Take a box and the frame or the time that it belongs to."""
        self._rows.extend((*box, frame, time_s))

    def track(self) -> BoxTrack:
        """Put the rows together."""
        rows = np.array(self._rows).reshape(-1, 6)
        if not len(rows):
            raise self.fault("has no rows")
        return BoxTrack(self.kind or "box", rows[:, :4], *self._places(rows), self.first)

    def _places(self, rows: FloatArray) -> tuple[IntArray | None, FloatArray | None]:
        has_frame, has_time = np.isfinite(rows[:, 4:]).T
        if self.frames is not None:
            return self.frames, None
        largest = np.abs(rows[has_frame, 4]).max(initial=0)
        if largest >= MAX_FRAMES:
            raise self.fault(f"has a frame {largest:g}")
        if has_frame.all():
            return rows[:, 4].astype(np.int64), None
        if has_time.all():
            return None, rows[:, 5]
        if has_frame.any() or has_time.any():
            raise self.fault("some rows have a frame or a time, others don't")
        return None, None


def read(path: Path, choice: Choice) -> BoxTrack:
    """Read a track.

    Raises
    ------
    UsageError
        It doesn't exist, or has no such landmarks.
    DataError
        It is in no known form, or has nothing that was asked for.
    """
    reading = _Reading(path, choice)
    form = _FORMS.get(files.last_suffix(path.name).lower())
    if form is None:
        raise reading.fault("is no known track", hint=f"known are {' '.join(sorted(_FORMS))}")
    try:
        with files.open_input(path) as file:
            form(reading, file)
    except OSError as error:
        raise UsageError(f"{error.strerror}", where=str(path)) from error
    except UnicodeDecodeError as error:
        raise reading.fault("is not UTF-8", hint="save it as UTF-8") from error
    return reading.track()


# Tables -------------------------------------------------------------------------------------------

_LANDMARK = re.compile(r"([xy])_(\d+)")
_PREFIX = re.compile(r"^(?:bbox|box|bb)_")
_FRAMES = ("frame", "frame_id", "frame_number", "frame_index", "frame_idx", "rank")
_TIMES_S = {
    **dict.fromkeys(("timestamp", "time", "time_s", "timestamp_s", "t", "t_s"), 1.0),
    **dict.fromkeys(("time_ms", "timestamp_ms", "t_ms"), 1e-3),
}
_GOOD = ("success", "valid")
_OPENFACE = {"frame", "timestamp", "confidence", "success"}
_CORNERS = (
    "x1 y1 x2 y2",
    "left top right bottom",
    "xmin ymin xmax ymax",
    "x_min y_min x_max y_max",
)
_SIZES = (
    *("x y w h", "x y width height", "left top width height"),
    "facerectx facerecty facerectwidth facerectheight",
)
_NULLS = frozenset({"", "n/a", "N/A", "NA", "null", "NULL", "None"})


def _first(names: Iterable[str], columns: Mapping[str, int]) -> int | None:
    return next((columns[name] for name in names if name in columns), None)


def _box_columns(columns: Mapping[str, int]) -> tuple[list[int], bool] | None:
    """Find the columns of a box, and say whether the last two are its size."""
    for names, is_size in (*((n, False) for n in _CORNERS), *((n, True) for n in _SIZES)):
        if columns.keys() >= set(names.split()):
            return [columns[name] for name in names.split()], is_size
    return None


def _corners(numbers: Sequence[float], *, is_size: bool) -> Sequence[float]:
    """Give left, top, right, bottom."""
    left, top, right, bottom = numbers
    return (left, top, left + right, top + bottom) if is_size else (left, top, right, bottom)


@dataclass(slots=True)
class _Table:
    """The columns of a table of boxes or landmarks."""

    reading: _Reading
    header: Sequence[str]
    frame: int | None = None
    time: tuple[int, float] | None = None
    good: int | None = None
    box: tuple[list[int], bool] | None = None
    points: tuple[list[int], list[int]] | None = None

    def __post_init__(self) -> None:
        marks = {k: _LANDMARK.fullmatch(name) for k, name in enumerate(self.header)}
        plain = {name.lower(): k for k, name in enumerate(self.header) if marks[k] is None}
        columns = {_PREFIX.sub("", name): k for name, k in plain.items()} | plain
        self.frame, self.good = _first(_FRAMES, columns), _first(_GOOD, columns)
        times = [(columns[name], unit) for name, unit in _TIMES_S.items() if name in columns]
        self.time = times[0] if times else None
        self.box = _box_columns(columns)
        self._choose({(m[1], int(m[2])): k for k, m in marks.items() if m})
        if columns.keys() >= _OPENFACE:
            self.reading.first = 1

    def _choose(self, marks: Mapping[tuple[str, int], int]) -> None:
        """Take box or landmarks, whichever there are and are wanted."""
        if self.box is not None and not (marks and self.reading.choice.wants_landmarks):
            self.reading.is_of("box")
            return
        if not marks:
            raise self.reading.fault(
                "has no columns of a box or landmarks",
                1,
                hint="frame,x,y,w,h or frame,x1,y1,x2,y2 or frame,x_0,...,y_0,...",
            )
        try:
            chosen = self.reading.chosen(len(marks) // 2)
            x, y = ([marks[side, k] for k in chosen] for side in "xy")
        except KeyError as error:
            side, number = error.args[0]
            raise self.reading.fault(f"has no column {side}_{number}", 1) from error
        self.points = x, y

    def add(self, cells: Sequence[str], line: int) -> None:
        """Take a row."""
        if len(cells) != len(self.header):
            raise self.reading.fault(f"{len(cells)} cells, expected {len(self.header)}", line)

        def number(column: int) -> float:
            text = cells[column].strip()
            try:
                return math.nan if text in _NULLS else float(text)
            except ValueError as error:
                raise self.reading.fault(f"{text!r} is no number", line) from error

        frame = math.nan if self.frame is None else number(self.frame)
        if self.frame is not None and not frame.is_integer():
            raise self.reading.fault(f"{cells[self.frame]!r} is no number of a frame", line)
        time_s = math.nan if self.time is None else number(self.time[0]) * self.time[1]
        is_good = self.good is None or number(self.good) != 0
        self.reading.add(self._box(number) if is_good else _NONE, frame, time_s)

    def _box(self, number: Callable[[int], float]) -> Sequence[float]:
        if not self.points:
            columns, is_size = self.box or ([], False)
            return _corners([number(column) for column in columns], is_size=is_size)
        x, y = ([number(column) for column in side] for side in self.points)
        if not math.isfinite(sum(x) + sum(y)):
            return _NONE
        return min(x), min(y), max(x), max(y)


def _table(reading: _Reading, file: BinaryIO) -> None:
    with TextIOWrapper(file, "utf-8-sig", newline="") as text:
        first = text.readline()
        delimiter = next((mark for mark in "\t;," if mark in first), ",")
        rows = csv.reader(text, delimiter=delimiter)
        try:
            header = next(csv.reader([first], delimiter=delimiter), [])
            table = _Table(reading, [name.strip() for name in header])
            for cells in rows:
                if cells:
                    table.add(cells, rows.line_num + 1)
        except csv.Error as error:
            raise reading.fault(f"{error}", rows.line_num + 1) from error


# Objects: JSON and pickles ------------------------------------------------------------------------

_POINTS = (
    *("facial_landmarks", "landmarks", "landmark", "face_landmarks", "multi_face_landmarks"),
    *("points", "keypoints"),
)
_BOXES = ("box", "bbox", "faces")
_ODD = (TypeError, ValueError, LookupError, AttributeError, OverflowError, RecursionError)


def _add(reading: _Reading, value: Any, line: int | None = None) -> None:
    """Read what an object says of a frame."""
    frame = time_s = math.nan
    try:
        if isinstance(value, dict):
            names = {str(name).lower(): name for name in value}
            frame = next((float(value[names[n]]) for n in _FRAMES if n in names), math.nan)
            times = (float(value[names[n]]) * unit for n, unit in _TIMES_S.items() if n in names)
            time_s = next(times, math.nan)
            if math.isfinite(frame) and frame != int(frame):
                raise ValueError("no number of a frame")
            if any(not value[names[name]] for name in _GOOD if name in names):
                value = None
        reading.add(_box_of(reading, value), frame, time_s)
    except _ODD as error:
        hint = '[{"x": .., "y": ..}, ...], [[x, y], ...] or {"frame": 0, "box": [x1, y1, x2, y2]}'
        what = f"frame {reading.n_rows} is neither a box nor landmarks"
        raise reading.fault(what, line, hint) from error


def _box_of(reading: _Reading, value: Any) -> Sequence[float]:
    """Give the box of the first face of a frame; an error of Python where it has neither."""
    if value is None or len(value) == 0:
        return _NONE
    if isinstance(value, dict):
        return _of_fields(reading, value)
    if isinstance(value[0], dict):
        if not _is_point(value[0]):
            return _box_of(reading, value[0])
        value = [(point["x"], point["y"]) for point in value]
    elif isinstance(value[0], list) and isinstance(value[0][0], dict | list):
        return _box_of(reading, value[0])
    numbers = np.asarray(value, np.float64)
    if numbers.shape[-1] == 4 and numbers.ndim < 3:
        reading.is_of("box")
        return [float(number) for number in numbers.reshape(-1, 4)[0]]
    if numbers.ndim != 2 or numbers.shape[1] not in {2, 3}:
        raise ValueError("no points")
    (box,) = reading.around(numbers[np.newaxis])
    return [float(number) for number in box]


def _is_point(fields: Mapping[str, Any]) -> bool:
    return fields.keys() >= {"x", "y"} and _box_columns(dict.fromkeys(fields, 0)) is None


def _of_fields(reading: _Reading, fields: Mapping[Any, Any]) -> Sequence[float]:
    """Give the box of the fields of an object."""
    plain = {str(name).lower(): name for name in fields}
    columns = {_PREFIX.sub("", name): own for name, own in plain.items()} | plain
    boxes = [columns[name] for name in _BOXES if name in columns]
    points = [columns[name] for name in _POINTS if name in columns]
    named = _box_columns(columns)
    if named is not None and not (points and reading.choice.wants_landmarks):
        reading.is_of("box")
        return _corners([float(fields[name]) for name in named[0]], is_size=named[1])
    found = [*points, *boxes] if reading.choice.wants_landmarks else [*boxes, *points]
    return _box_of(reading, fields[found[0]])


def _lines(reading: _Reading, file: BinaryIO) -> None:
    for number, text in enumerate(file, 1):
        if text.strip():
            try:
                value = msgspec.json.decode(text)
            except msgspec.DecodeError as error:
                raise reading.fault(f"is no JSON: {error}", number) from error
            _add(reading, value, number)


def _json(reading: _Reading, file: BinaryIO) -> None:
    try:
        value = msgspec.json.decode(file.read())
    except msgspec.DecodeError:  # one value a line
        file.seek(0)
        _lines(reading, file)
        return
    frames = value.get("frames", value) if isinstance(value, dict) else value
    if not isinstance(frames, list):
        raise reading.fault("is no list of frames")
    for frame in frames:
        _add(reading, frame)


def _pickle(reading: _Reading, file: BinaryIO) -> None:
    _objects(reading, pickles.load(file, str(reading.path)))


def _objects(reading: _Reading, content: Any) -> None:
    """Read a list of what there is of each frame, or an array."""
    if isinstance(content, dict):
        content = next((content[name] for name in _POINTS if name in content), content)
    if isinstance(content, np.ndarray) and not content.dtype.hasobject:
        _block(reading, content)
        return
    if isinstance(content, np.ndarray):
        content = content.tolist()
    if not isinstance(content, list):
        raise reading.fault("is no list with an array or None for each frame")
    for value in content:
        _add(reading, value)


# Arrays -------------------------------------------------------------------------------------------

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_ARRAYS = ("landmarks", "boxes", "xywh", "data", "points", "keypoints", "bboxes")


def _npz(reading: _Reading, file: BinaryIO) -> None:
    try:
        with zipfile.ZipFile(file) as packed:
            names = {name.removesuffix(".npy"): name for name in packed.namelist()}
            own = _array_of(reading, list(names))
            with packed.open(names[own]) as member:
                _npy(reading, member, is_size=own == "xywh")
            if "frames" in names and own != "frames":
                with packed.open(names["frames"]) as member:
                    frames = np.lib.format.read_array(member, allow_pickle=False)
                if frames.shape != (reading.n_rows,) or frames.dtype.kind not in "iu":
                    raise reading.fault(f"frames {frames.shape} number no {reading.n_rows} rows")
                reading.frames = frames.astype(np.int64)
    except _NPZ_DAMAGE as error:
        raise reading.fault(f"is no npz: {error}") from error


def _array_of(reading: _Reading, names: Sequence[str]) -> str:
    """Choose the array of an npz."""
    given = [name for name in names if name != "frames"]
    known = [name for name in _ARRAYS if name in given]
    if reading.choice.kind == "box" or not reading.choice.wants_landmarks:
        known.sort(key=lambda name: "box" not in name and name != "xywh")
    if not known and len(given) != 1:
        raise reading.fault(
            f"which of its arrays? {', '.join(sorted(given))}", hint="call it landmarks or boxes"
        )
    return known[0] if known else given[0]


def _npy(reading: _Reading, file: Any, *, is_size: bool = False) -> None:
    try:
        shape, is_fortran, dtype = _HEADERS[np.lib.format.read_magic(file)](file)
    except (ValueError, KeyError) as error:
        raise reading.fault(f"is no array of NumPy: {error}") from error
    if dtype.hasobject:
        _objects(reading, pickles.load(file, str(reading.path)))
        return
    if is_fortran:
        raise reading.fault("the array is in Fortran order", hint="np.ascontiguousarray")
    _check(reading, shape, dtype)
    row_bytes = math.prod(shape[1:]) * dtype.itemsize
    for begin in range(0, shape[0], BLOCK_ROWS):
        n_rows = min(BLOCK_ROWS, shape[0] - begin)
        raw = file.read(n_rows * row_bytes)
        if len(raw) != n_rows * row_bytes:
            raise reading.fault("ends within its array")
        rows = np.frombuffer(raw, dtype).reshape(n_rows, *shape[1:])
        _block(reading, rows, is_size=is_size)


def _check(reading: _Reading, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Refuse what is no array of boxes or landmarks, before memory is taken for it."""
    if dtype.kind not in "iuf":
        raise reading.fault(f"an array of {dtype} has no coordinates")
    has_points = len(shape) == 3 and 0 < shape[1] <= MAX_POINTS and shape[2] in {2, 3}
    if not has_points and not (len(shape) == 2 and shape[1] == 4):
        raise reading.fault(
            f"an array {shape} is neither (n_frames, n_points, 2) nor (n_frames, 4)"
        )


def _block(reading: _Reading, rows: NDArray[Any], *, is_size: bool = False) -> None:
    """Take rows of an array [shape=(n, n_points, 2 or 3) or (n, 4)]."""
    _check(reading, rows.shape, rows.dtype)
    if rows.ndim == 2:
        reading.is_of("box")
        boxes = [_corners(row, is_size=is_size) for row in rows.tolist()]
    else:
        boxes = reading.around(rows).tolist()
    for box in boxes:
        reading.add(box)


_FORMS: Mapping[str, Callable[[_Reading, BinaryIO], None]] = {
    **dict.fromkeys((".csv", ".tsv"), _table),
    **dict.fromkeys((".jsonl", ".ndjson"), _lines),
    ".json": _json,
    ".npy": _npy,
    ".npz": _npz,
    **dict.fromkeys((".pkl", ".pickle"), _pickle),
}
