"""The table of sessions (`--sessions`): one row a session, one column a stream.

    session  subject  eeg               gsr             gsr.tz       video         condition
    P01      P01      P01/eeg.edf       P01/e4.zip#EDA               P01/face.mp4  calm
    P02      P02      P02/a.tsv;P02/b.tsv                                          fear

Rules
-----
- A cell of a stream is `PATH[#STREAM]`, relative to the table; parts in order of time stand with a
  `;` between them. An empty cell is a stream that the session does not have.
- A column is a stream if one of its cells names a file, or if it has a setting `<stream>.start`,
  `.tz`, `.latency_ms`, `.clock` or `.events`. `trials` is a stream, too. `session`, `subject` and
  `split` are what they are; all others are fields of the records, numbers where all cells are.
- A cell that begins with `?` waits for a person.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from zoneinfo import available_timezones

from mmprep import files
from mmprep.errors import DataError, UsageError
from mmprep.manifest.model import LabelValue
from mmprep.steps.corpus.place import RESERVED
from mmprep.steps.labels.cells import column_values, read_cells

SETTINGS = ("start", "tz", "latency_ms", "clock", "events")
TRIALS = "trials"
OPEN = "?"
NAMES = ("session", "subject", "split")
_LIKE_FILE = re.compile(r"^\S+\.[a-z]\w{1,6}(#.*)?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Source:
    """What a cell names: a file or folder, perhaps one of its streams.

    Parameters
    ----------
    path : str
        Absolute.
    part : str, optional
        The stream, as its reader calls it.
    """

    path: str
    part: str | None = None


@dataclass(frozen=True, slots=True)
class Given:
    """A stream of a session, as the table has it.

    Parameters
    ----------
    sources : tuple of Source
        The parts, in order of time; one, mostly.
    starts : tuple of str
        When each of them begins; empty where their own stamps say so.
    clock : str, optional
        The file of its clock evidence, absolute.
    latency_ms : Fraction
        How much too late its stamps are.
    events : Events, optional
        Happenings that other clocks saw, too.
    where : str
        The line of the table.
    """

    name: str
    sources: tuple[Source, ...]
    starts: tuple[str, ...] = ()
    tz: str | None = None
    latency_ms: Fraction = Fraction(0)
    clock: str | None = None
    events: Events | None = None
    where: str = ""


@dataclass(frozen=True, slots=True)
class Events:
    """Where the events of a stream are listed: in another stream of the session, or in a file.

    Parameters
    ----------
    stream : str, optional
    source : Source, optional
    settings : str
        What follows, as `,value=REGEX`; see `--events`.
    """

    stream: str | None
    source: Source | None
    settings: str = ""


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session of the study.

    Parameters
    ----------
    streams : tuple of Given
        Those that it has.
    fields : mapping
        What else the table says of it.
    """

    session: str
    subject: str | None
    split: str | None
    streams: tuple[Given, ...]
    fields: Mapping[str, LabelValue] = field(default_factory=dict)
    where: str = ""


@dataclass(frozen=True, slots=True)
class Study:
    """A table of sessions.

    Parameters
    ----------
    path : str
        The table.
    streams : tuple of str
        All streams, in the order of the columns.
    """

    path: str
    rows: tuple[SessionRow, ...]
    streams: tuple[str, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """All files and folders that it names, absolute, each once."""
        given = [one for row in self.rows for one in row.streams]
        named = [source.path for one in given for source in one.sources]
        named += [one.clock for one in given if one.clock]
        named += [one.events.source.path for one in given if one.events and one.events.source]
        return tuple(dict.fromkeys(named))


@dataclass(frozen=True, slots=True)
class _Sheet:
    """The cells of the table, and which of its columns are streams."""

    path: str
    header: tuple[str, ...]
    lines: tuple[int, ...]
    cells: tuple[Mapping[str, str], ...]

    @property
    def folder(self) -> Path:
        return Path(self.path).absolute().parent

    def where(self, line: int, column: str) -> str:
        return f"{self.path}:{line}: {column}"

    def streams(self) -> list[str]:
        """Name the columns that are streams."""
        plain = [name for name in self.header if name not in NAMES and not _setting(name)]
        owners = {owner for name in self.header if (owner := _setting(name))}
        return [name for name in plain if name in owners or name == TRIALS or self._has_file(name)]

    def _has_file(self, column: str) -> bool:
        return any(_names_file(self.folder, cells[column]) for cells in self.cells)


def read(path: str) -> Study:
    """Read a table of sessions.

    Raises
    ------
    UsageError
        It can't be opened; what a cell names does not exist.
    DataError
        It is no such table: no column `session`, a session twice, a cell left open.
    """
    header, rows = read_cells(path)
    if "session" not in header:
        raise DataError(
            f"no column 'session' among {', '.join(header)}",
            where=path,
            hint="one row a session, one column a stream: session, subject, eeg, video, ...",
        )
    lines, cells = [line for line, _ in rows], [_stripped(header, row) for _, row in rows]
    sheet = _Sheet(path, tuple(header), tuple(lines), tuple(cells))
    streams = sheet.streams()
    _check_columns(sheet, streams)
    _check_cells(sheet)
    fields = [name for name in header if name not in {*NAMES, *streams} and not _setting(name)]
    _check_fields(sheet, fields)
    values = {name: column_values([known[name] for known in cells]) for name in fields}
    found = [
        _row(sheet, k, streams, {name: column[k] for name, column in values.items()})
        for k in range(len(cells))
    ]
    if not any(row.streams for row in found):
        raise DataError("no cell names a file", where=path, hint="one column a stream")
    return Study(path, tuple(found), tuple(streams))


def _stripped(header: Sequence[str], row: Sequence[str]) -> dict[str, str]:
    return {name: cell.strip() for name, cell in zip(header, row, strict=True)}


def _setting(column: str) -> str | None:
    """Give the stream that a column is a setting of."""
    owner, _, setting = column.rpartition(".")
    return owner if owner and setting in SETTINGS else None


def _names_file(folder: Path, cell: str) -> bool:
    """Say whether a cell names a file; that of a folder alone could be any word."""
    if not cell or cell.startswith(OPEN):
        return False
    return any(
        files.is_file(folder / path) or ((part or "/" in path) and files.exists(folder / path))
        for path, part in _parted(folder, cell)
    )


def _check_fields(sheet: _Sheet, fields: Sequence[str]) -> None:
    """Refuse a column of files none of which is there."""
    for name in fields:
        filled = [(k, cells[name]) for k, cells in enumerate(sheet.cells) if cells[name]]
        if filled and all(_LIKE_FILE.search(cell) for _, cell in filled):
            _existing(sheet, sheet.lines[filled[0][0]], name, filled[0][1])


def _parted(folder: Path, cell: str) -> list[tuple[str, str | None]]:
    """Part a cell into files and streams; a path with `;` or `#` in it counts as a whole."""
    named = cell.rpartition("#")[0]
    is_one = files.exists(folder / cell) or (named and files.exists(folder / named))
    found: list[tuple[str, str | None]] = []
    for text in [cell] if is_one else [text.strip() for text in cell.split(";")]:
        path, _, part = (text, "", "") if files.exists(folder / text) else text.rpartition("#")
        found.append((path, part) if path else (text, None))
    return [(path, part or None) for path, part in found]


def _check_columns(sheet: _Sheet, streams: Sequence[str]) -> None:
    for name in sheet.header:
        owner = _setting(name)
        if owner is not None and owner not in sheet.header:
            raise DataError(
                f"column {name!r} without a column {owner!r}",
                where=sheet.path,
                hint=f"streams: {', '.join(streams)}",
            )
        known, _, setting = name.rpartition(".")
        if owner is None and known in streams and name not in streams:
            raise DataError(
                f"{setting!r} is no setting of {known!r}",
                where=f"{sheet.path}: {name}",
                hint=f"there are {', '.join(SETTINGS)}; a field has a name without a stream's",
            )
        if name in (RESERVED if name not in streams else ()) or not name:
            raise DataError(
                f"column {name!r} is a field of mmprep's own",
                where=sheet.path,
                hint="labels go into a table of their own: --labels FILE --on session",
            )


def _check_cells(sheet: _Sheet) -> None:
    seen: dict[str, int] = {}
    for line, cells in zip(sheet.lines, sheet.cells, strict=True):
        for column, cell in cells.items():
            if cell.startswith(OPEN):
                raise DataError(
                    f"is not decided: {cell}",
                    where=sheet.where(line, column),
                    hint="put the right value there, or leave the cell empty",
                )
        name = cells["session"]
        if not name:
            raise DataError("a session needs a name", where=sheet.where(line, "session"))
        if name in seen:
            raise DataError(
                f"session {name!r} stands in line {seen[name]}, too",
                where=sheet.where(line, "session"),
                hint="one row a session; parts of a stream stand in one cell: a.tsv;b.tsv",
            )
        seen[name] = line


def _row(
    sheet: _Sheet, k: int, streams: Sequence[str], fields: Mapping[str, LabelValue]
) -> SessionRow:
    cells, line = sheet.cells[k], sheet.lines[k]
    given = [_given(sheet, line, cells, name) for name in streams if cells[name]]
    for name in streams:
        settings = [s for s in SETTINGS if cells.get(f"{name}.{s}")]
        if settings and not cells[name]:
            raise DataError(
                f"{cells[f'{name}.{settings[0]}']!r} for a stream that the session does not have",
                where=sheet.where(line, f"{name}.{settings[0]}"),
            )
    return SessionRow(
        cells["session"],
        cells.get("subject") or None,
        cells.get("split") or None,
        tuple(given),
        fields,
        f"{sheet.path}:{line}",
    )


def _given(sheet: _Sheet, line: int, cells: Mapping[str, str], name: str) -> Given:
    settings = {key: cells.get(f"{name}.{key}") or None for key in SETTINGS}
    sources = [
        Source(_existing(sheet, line, name, path), part)
        for path, part in _parted(sheet.folder, cells[name])
    ]
    _check_parts(sheet, line, name, sources)
    starts = tuple(text.strip() for text in (settings["start"] or "").split(";") if text.strip())
    if starts and len(starts) != len(sources):
        raise DataError(
            f"{len(starts)} starts of {len(sources)} parts",
            where=sheet.where(line, f"{name}.start"),
            hint="one for each part, with ; between them",
        )
    zone, clock = settings["tz"], settings["clock"]
    if zone is not None and zone not in available_timezones():
        where = sheet.where(line, f"{name}.tz")
        raise DataError(f"there is no zone {zone!r}", where=where, hint="as in Europe/Rome")
    return Given(
        name,
        tuple(sources),
        starts,
        zone,
        _number(sheet, line, f"{name}.latency_ms", settings["latency_ms"]),
        _existing(sheet, line, f"{name}.clock", clock) if clock else None,
        _events(sheet, line, name, settings["events"], cells) if settings["events"] else None,
        f"{sheet.path}:{line}",
    )


def _check_parts(sheet: _Sheet, line: int, name: str, sources: Sequence[Source]) -> None:
    """Refuse a part that is empty, and one that stands twice."""
    twice = len(set(sources)) < len(sources)
    if twice or (len(sources) > 1 and Source(str(sheet.folder)) in sources):
        raise DataError(
            "a part stands there twice" if twice else "a part is empty",
            where=sheet.where(line, name),
            hint="each part once, in order of time, with ; between them: a.tsv;b.tsv",
        )


def _events(sheet: _Sheet, line: int, name: str, text: str, cells: Mapping[str, str]) -> Events:
    path, comma, settings = text.partition(",")
    if cells.get(path):
        return Events(path, None, comma + settings)
    ((path, part),) = _parted(sheet.folder, path)[:1]
    source = Source(_existing(sheet, line, f"{name}.events", path), part)
    return Events(None, source, comma + settings)


def _existing(sheet: _Sheet, line: int, column: str, path: str) -> str:
    whole = os.path.abspath(sheet.folder / path)  # noqa: PTH100 - links are kept as they are named
    if not files.exists(whole):
        raise UsageError(
            f"{path!r} does not exist",
            where=sheet.where(line, column),
            hint=f"paths are relative to {sheet.folder.name or sheet.folder}/, where the table is",
        )
    return whole


def _number(sheet: _Sheet, line: int, column: str, text: str | None) -> Fraction:
    try:
        return Fraction(text or 0)
    except (ValueError, ZeroDivisionError) as error:
        raise DataError(f"{text!r} is no number", where=sheet.where(line, column)) from error
