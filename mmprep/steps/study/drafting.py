"""A draft of the table of sessions (`inspect --sessions RAW -o FILE`), for a person to go through.

Rules
-----
- Every file that a reader takes stands in a cell, be it behind a `?`, or is said to be left out:
  what can't be read, and tables without times, as labels are.
- `<stream>.tz` waits for the zone of local times, `<stream>.start` for the begin of times that
  count from a moment of their own while others of the session are absolute.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

import numpy as np

from mmprep import files, tables
from mmprep.errors import DataError, MmprepError, UsageError
from mmprep.rows import Store
from mmprep.signals import Stream
from mmprep.sources import bids, clocklog, text
from mmprep.sources.base import NOTES, TextOptions
from mmprep.steps.inputs import expand, skipped_note
from mmprep.steps.intake.claims import TABLE_READERS, Claimed, claim_all
from mmprep.steps.study import claiming
from mmprep.steps.study.grouping import (
    LOCAL,
    OWN,
    START,
    UTC,
    Cell,
    Group,
    Look,
    grouped,
    names_of,
    subject_of,
)
from mmprep.steps.study.table import OPEN
from mmprep.timebase import UNIX_NS, Exchanges, FrameLog

Say = Callable[[str], None]
IN_MEMORY_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Draft:
    """A drafted table.

    Parameters
    ----------
    text : str
        The table.
    n_sessions, n_open : int
        Its rows, and the cells that wait for a person.
    """

    text: str
    n_sessions: int
    n_open: int


def draft(folders: Sequence[str], output: Path, say: Say) -> Draft:
    """Look at all files of folders and write the table of sessions.

    Parameters
    ----------
    output : Path
        The table; paths in it are relative to its folder.
    say : callable
        Takes what is worth saying of single files.

    Raises
    ------
    UsageError
        It exists already.
    DataError
        There is no recording.
    """
    if output.exists():
        hint = "it may hold what a person decided: move it away, or choose another -o"
        raise UsageError("exists already", where=str(output), hint=hint)
    inputs = expand(folders)
    found = claim_all(inputs, None)
    looked = claiming.Looked(inputs)
    looks = [look for one in found.claimed for look in _looks(one, looked, say)]
    if not looks:
        raise DataError("no recording that can be read", where=str(inputs.root))
    if found.skipped:
        say(skipped_note(found.skipped))
    made = _table(grouped(looks), Path(os.path.relpath(inputs.root, output.absolute().parent)))
    files.write_whole(output, made.text.encode())
    return made


# Looking ------------------------------------------------------------------------------------------


def _looks(one: Claimed, looked: claiming.Looked, say: Say) -> Iterator[Look]:
    """Look at the streams of an item; one that can't be read is said."""
    path = one.claim.id_path or "."
    stem = path.removesuffix(one.claim.suffix) or path
    evidence = _evidence_span(looked.inputs.path(one.clock)) if one.clock is not None else None
    options = TextOptions(on_bad_row="skip")
    try:
        names = claiming.streams_of(one, looked.inputs.root, options)
    except MmprepError as error:
        say(f"left out: {error}")
        return
    if not one.is_table:
        kind = one.reader
        yield Look(path, stem, None, kind, evidence, UTC if evidence else OWN)
        return
    main = [name for name in names if name != NOTES] or list(names)
    for name in main:
        part = name if len(main) > 1 else None
        try:
            span_ns, line = _span(one, name, names, looked, options)
        except MmprepError as error:
            say(f"left out: {error}")
            continue
        if evidence is not None:
            span_ns, line = evidence, UTC
        yield Look(path, stem, part, _kind(one.reader, name), span_ns, line)


def _kind(reader: str, name: str) -> str:
    """Say what a file is called whose path says nothing else."""
    named = {text.READER: "table", bids.READER: name}  # whose suffix, as _events, says what it is
    return named.get(reader, reader)


def _span(
    one: Claimed, name: str, names: Sequence[str], looked: claiming.Looked, options: TextOptions
) -> tuple[tuple[int, int] | None, str]:
    """Measure when a stream begins and ends, and what its times count from."""
    path = Path(claiming.file_of(one, name, looked, options))
    chosen = {"stream": name} if len(names) > 1 else {}
    with TemporaryDirectory() as folder, Store(Path(folder), IN_MEMORY_BYTES) as store:
        read = TABLE_READERS[one.reader].read_stream
        stream: Stream = read(path, options, name, store=store, **chosen)
        usable = stream.stamps_ns[stream.stamps_ns != tables.NULL_STAMP_NS]
        if stream.since_start or usable.size == 0:
            return None, START
        middle = int(np.median(usable))
        if not stream.absolute:
            return None, LOCAL if middle >= UNIX_NS else OWN
        low, high = np.percentile(usable, [0.1, 99.9])
        return (int(low), int(high)), UTC


def _evidence_span(path: str) -> tuple[int, int] | None:
    """Give the master's time that clock evidence covers, if that is Unix time."""
    try:
        log = clocklog.read(Path(path))
    except MmprepError:
        return None
    times = (
        log.t1_ns
        if isinstance(log, Exchanges)
        else (log.time_ns if isinstance(log, FrameLog) else log.reference_ns)
    )
    if times.size == 0 or int(times.min()) < UNIX_NS:
        return None
    return int(times.min()), int(times.max())


# The table ----------------------------------------------------------------------------------------


def _table(groups: Sequence[Group], below: Path) -> Draft:
    cells = [group.cells() for group in groups]
    count = Counter(name for known in cells for name in known)
    streams = sorted(count, key=lambda name: (-count[name], name))
    settings = _settings(cells)
    columns = [column for name in streams for column in (name, *sorted(settings.get(name, ())))]
    lines = ["\t".join(["session", "subject", *columns])]
    for group, name, known in zip(groups, names_of(groups), cells, strict=True):
        row = [name, subject_of(group) or ""]
        row += [_written(column, known, below) for column in columns]
        lines.append("\t".join(row))
    n_open = sum(cell.startswith(OPEN) for line in lines[1:] for cell in line.split("\t"))
    return Draft("\n".join(lines) + "\n", len(groups), n_open)


def _settings(cells: Sequence[dict[str, Cell]]) -> dict[str, set[str]]:
    """Say which settings of which streams wait for a person, in some session."""
    found: dict[str, set[str]] = {}
    for known in cells:
        for name in known:
            if setting := _setting(name, known):
                found.setdefault(name, set()).add(f"{name}.{setting}")
    return found


def _setting(name: str, known: dict[str, Cell]) -> str | None:
    lines = {look.line for look in known[name].looks}
    if LOCAL in lines:
        return "tz"
    others = {look.line for other, cell in known.items() if other != name for look in cell.looks}
    return "start" if OWN in lines and others & {UTC, LOCAL} else None


def _written(column: str, known: dict[str, Cell], below: Path) -> str:
    if column not in known:
        name, _, setting = column.rpartition(".")
        return OPEN if name in known and _setting(name, known) == setting else ""
    cell = known[column]
    paths = [_cell_path(look, below) for look in cell.looks]
    return f"{OPEN} {' | '.join(paths)}" if cell.is_open else ";".join(paths)


def _cell_path(look: Look, below: Path) -> str:
    path = PurePosixPath(below.as_posix(), look.path).as_posix()
    return f"{path}#{look.part}" if look.part is not None else path
