"""Streams that go onto no windows: their rows move to the session clock, as a table.

Rules
-----
- Events go by the map of their clock alone; nothing is resampled, no column is left out.
- A duration is the distance on the session clock of the times at which the event begins and ends.
- In the table of a session without absolute time, or that shall tell no date, stamps count from
  second 0 of its clock.
- Each window has the rows of its events in its record, as `events`.
- Of columns of text beside numbers, whose stream goes onto windows, the rows move at which a text
  begins, with the text columns alone and at the repaired times of their samples.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from mmprep import align, files, tables
from mmprep.errors import DataError
from mmprep.signals import Stream
from mmprep.sources.base import Claim
from mmprep.steps.intake.claims import TABLE_READERS
from mmprep.steps.running.journal import FileNote
from mmprep.steps.running.tasks import Item, Job
from mmprep.steps.sessions import rawparts, sync
from mmprep.steps.sessions.modality import Modality
from mmprep.steps.sessions.streams import Clocked
from mmprep.steps.sessions.streamspec import StreamSpec
from mmprep.timebase import NS_PER_S, IntArray

_NO_TEXTS = "name a table of events, or a stream of markers"


@dataclass(frozen=True, slots=True)
class EventStream:
    """A stream whose rows move as they are."""

    clocked: Clocked

    @property
    def name(self) -> str:
        """Its name in the data set."""
        return self.clocked.name

    def moved(self, folder: Path, bare_unit_ns: int = 0) -> Moved:
        """Read the rows and put them on the session clock.

        Parameters
        ----------
        bare_unit_ns : int
            The unit of durations that name none; 0 if they are no durations then.
        """
        table = replace(_read(self.clocked.opened.spec, folder), bare_unit_ns=bare_unit_ns)
        missing = table.stamps_ns == tables.NULL_STAMP_NS
        own = self.clocked.opened.own_ns(table.stamps_ns)[~missing]
        session = np.full(table.n_rows, align.UNREADABLE, dtype=np.int64)
        session[~missing] = self.clocked.on_session(own)
        lasts = table.durations_ns()
        lasts[~missing] = self.clocked.lasting(own, lasts[~missing])
        stream = Stream(self.name, table.stamps_ns, table.keys(), kind="events")
        return Moved(self.clocked, table, align.repair(stream, session), lasts)


@dataclass(frozen=True, slots=True)
class TextColumns:
    """The texts of a stream that goes onto windows: the rows at which one begins."""

    modality: Modality

    @property
    def name(self) -> str:
        """Its name in the data set."""
        return self.modality.name

    def moved(self, folder: Path, bare_unit_ns: int = 0) -> Moved:
        """Read the rows at which a text begins, at the times of their samples."""
        clocked, repaired = self.modality.clocked, self.modality.repaired
        with pieces(clocked.opened.spec, folder) as found:
            texts = clocked.opened.texts or tables.table_info(found[0][0]).texts
            if not texts:
                raise DataError("has no columns of text", where=self.name, hint=_NO_TEXTS)
            table = tables.read_events(found, texts)
        rows = table.beginnings()
        times = np.full(table.n_rows, align.UNREADABLE, dtype=np.int64)
        kept = np.arange(repaired.n_samples) if repaired.rows is None else repaired.rows
        times[kept] = repaired.stamps_ns()
        stream = Stream(clocked.name, rows, rows, kind="events")
        begun = replace(table, stamps_ns=table.stamps_ns[rows], columns=table.columns.take(rows))
        lasts = np.zeros(rows.size, dtype=np.int64)
        return Moved(clocked, begun, align.repair(stream, times[rows]), lasts)


@dataclass(frozen=True, slots=True)
class Moved:
    """Events on the session clock.

    Parameters
    ----------
    table : EventTable
        Their rows as they were read.
    repaired : Repaired
        Of kind `events`: which rows are there, in order of time.
    lasts_ns : [shape=(n_rows,), int64, ns]
        How long each row of the table lasts on the session clock.
    """

    clocked: Clocked
    table: tables.EventTable
    repaired: align.Repaired
    lasts_ns: IntArray

    @property
    def rows(self) -> IntArray:
        """The rows of the table that are there, in order of time."""
        return (
            np.arange(self.repaired.n_samples) if self.repaired.rows is None else self.repaired.rows
        )

    def first_ns(self, text: str) -> int | None:
        """Find when the first event of a text is; None if there is none."""
        named = self.table.matching(re.compile(rf"\A{re.escape(text)}\Z"))
        times_ns = self.repaired.stamps_ns()[named[self.rows]]
        return int(times_ns[0]) if times_ns.size else None

    def write(self, out: Out) -> WrittenEvents:
        """Write the rows inside the windows' span as a table on the session clock."""
        placed = align.place_events(self.repaired, out.plan.span_ns, self.lasts_ns)
        is_relative = out.job.task.spec["time_origin"] != "absolute"
        is_absolute = self.clocked.is_absolute
        hidden_ns = out.plan.origin_ns if is_relative else 0
        name = files.portable(f"tables/{self.clocked.name}/{out.item.id}.parquet")
        path = out.job.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self.table.write(
            path,
            placed.rows,
            placed.stamps_ns - hidden_ns,
            placed.durations_ns,
            item_id=out.item.id,
            origin_ns=out.plan.origin_ns - hidden_ns,
            absolute=is_absolute and not is_relative,
        )
        out.value["files"].append(FileNote.of(out.job.folder, name).row())
        return WrittenEvents(self.clocked.name, name, placed)


@dataclass(frozen=True, slots=True)
class Out:
    """Where the tables of a session go."""

    job: Job
    item: Item
    plan: align.AnyPlan
    value: dict[str, Any]


def write_all(
    streams: Iterable[EventStream | TextColumns], out: Out, event: str | None
) -> tuple[list[WrittenEvents], float | None]:
    """Write the tables of a session, one after the other.

    Parameters
    ----------
    event : str, optional
        A text whose first time is asked for.

    Returns
    -------
    list of WrittenEvents
    float or None [s]
        When that was, after the origin.
    """
    written, times_ns = [], []
    for stream in streams:
        moved = stream.moved(out.job.folder)
        written.append(moved.write(out))
        first_ns = None if event is None else moved.first_ns(event)
        times_ns += [] if first_ns is None else [first_ns]
    first_s = (min(times_ns) - out.plan.origin_ns) / NS_PER_S if times_ns else None
    return written, first_s


@dataclass(frozen=True, slots=True)
class WrittenEvents:
    """A table of events in the data set."""

    name: str
    table: str
    placed: align.PlacedEvents

    def facts(self) -> dict[str, Any]:
        """Describe it for `sync/`."""
        counts = sync.accounting(self.placed.accounting)
        return {"name": self.name, "table": self.table, "accounting": counts}

    def of_windows(self, plan: align.AnyPlan, numbers: list[int]) -> dict[str, Any]:
        """Give the rows of some windows, as JSON values."""
        rows = self.placed.within(plan.edges_ns(np.array(numbers, dtype=np.int64)))
        return {"table": self.table, "rows": rows.tolist()}


Pieces = list[tuple[Path, tuple[int, int] | None]]


def _read(spec: StreamSpec, folder: Path) -> tables.EventTable:
    """Read a stream with all its columns."""
    with pieces(spec, folder) as found:
        return tables.read_events(found)


@contextmanager
def pieces(spec: StreamSpec, folder: Path) -> Iterator[Pieces]:
    """Give the tables of a stream and their rows; of a raw one those made of it, for a while."""
    if spec.form == "table":
        yield [(Path(path), rows) for path, rows in ((spec.path, spec.rows), *spec.more)]
        return
    with TemporaryDirectory(dir=folder) as made:
        yield _converted(spec, Path(made))


def _converted(spec: StreamSpec, folder: Path) -> Pieces:
    """Write a raw stream as tables, widening their one schema until all values fit."""
    found = [_RawFile.of(spec, path) for path in (spec.path, *(path for path, _ in spec.more))]
    schema = tables.merge_schemas(one.schema for one in found)
    while True:
        try:
            return [
                (one.write(schema, spec, folder / f"{k}.parquet"), None)
                for k, one in enumerate(found)
            ]
        except tables.Widen as wanted:
            schema = schema.widened(wanted)


@dataclass(frozen=True, slots=True)
class _RawFile:
    """A file of a stream, as its reader sees it."""

    path: Path
    claim: Claim
    own: str
    schema: tables.TableSchema

    @classmethod
    def of(cls, spec: StreamSpec, path: str) -> _RawFile:
        options, whole = rawparts.options_of(spec), Path(path)
        claim = rawparts.claim_of(spec.form, whole)
        own = rawparts.own_name(spec.form, whole, spec.part, options)
        schema = TABLE_READERS[spec.form].probe(claim, whole.parent, options)[own]
        return cls(whole, claim, own, schema)

    def write(self, schema: tables.TableSchema, spec: StreamSpec, path: Path) -> Path:
        """Write it as a table.

        Raises
        ------
        Widen
            Its values do not fit.
        """
        options, target = rawparts.options_of(spec), tables.Target(path, spec.name)
        write = TABLE_READERS[spec.form].write
        write(self.claim, self.path.parent, self.own, schema, target, options=options)
        return path
