"""The items of `convert` that a table of sessions names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from mmprep import files
from mmprep.errors import UsageError
from mmprep.sources.base import NOTES, TextOptions, pick
from mmprep.steps.corpus.place import Place
from mmprep.steps.inputs import Inputs, expand
from mmprep.steps.instants import instant_ns
from mmprep.steps.intake.claims import TABLE_READERS, Claimed, claim_all
from mmprep.steps.study.table import TRIALS, Given, SessionRow, Source, Study

_MEDIA = ("audio", "video")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One part of a stream, in the file that holds it."""

    given: Given
    source: Source
    place: int

    @property
    def group(self) -> tuple[str, str | None, str | None]:
        """What is taken together: streams of one file that are read alike."""
        return self.source.path, self.given.tz, self.given.clock

    @property
    def piece(self) -> int | None:
        """Which part it is, of several."""
        return self.place if len(self.given.sources) > 1 else None

    def about(self) -> dict[str, Any]:
        """Say what the record keeps of its times."""
        found: dict[str, Any] = {}
        if self.given.starts:
            where = f"{self.given.where}: {self.given.name}.start"
            found["start_ns"] = instant_ns(self.given.starts[self.place], where)
        if self.place == 0 and self.given.latency_ms:
            found["latency_ms"] = float(self.given.latency_ms)
        if self.given.name == TRIALS:
            found["kind"] = "events"
        if self.place == 0 and self.given.events:
            found["events"] = events_name(self.given) + self.given.events.settings
        return found


def events_name(given: Given) -> str:
    """Name the stream of a session that lists the events of another one."""
    own = given.events.stream if given.events is not None else None
    return own or f"{given.name}_events"


def claimed(study: Study, inputs: Inputs, options: TextOptions) -> tuple[Claimed, ...]:
    """Let the readers claim what each session names.

    Raises
    ------
    UsageError
        A cell names a stream that its file does not have, or a file of several without one.
    DataError
        No reader knows a file.
    """
    looked = Looked(inputs)
    found = [one for row in study.rows for one in _of_row(row, options, looked)]
    return tuple(sorted(found, key=_order))


def _order(one: Claimed) -> tuple[str, int, bool, str]:
    """Put parts in their order, and trials last: a record is named by its first source."""
    return one.id, one.piece or 0, one.stream == TRIALS, one.name


def _of_row(row: SessionRow, options: TextOptions, looked: Looked) -> Iterator[Claimed]:
    place = Place(row.session, row.session, row.subject, None, row.split, row.fields)
    groups: dict[tuple[Any, ...], list[_Wanted]] = {}
    listed = [
        Given(events_name(one), (one.events.source,), where=one.where)
        for one in row.streams
        if one.events is not None and one.events.source is not None
    ]
    for given in (*row.streams, *listed):
        for k, source in enumerate(given.sources):
            one = _Wanted(given, source, k)
            groups.setdefault((*one.group, one.piece), []).append(one)
    for wanted in groups.values():
        claims = looked.claims_of(wanted[0].source.path)
        yield from _taken(wanted, claims, place, looked.inputs.root, options)


@dataclass(frozen=True, slots=True)
class Looked:
    """What readers claim of the files that cells name: each is looked at once."""

    inputs: Inputs
    _known: dict[str, tuple[Claimed, ...]] = field(default_factory=dict)

    def claims_of(self, path: str) -> tuple[Claimed, ...]:
        """Claim what a cell names: one file, or all of a folder."""
        if path not in self._known:
            self._known[path] = claim_all(self._alone(path), None).claimed
        return self._known[path]

    def _alone(self, path: str) -> Inputs:
        if files.is_folder(path):
            return expand((path,), root=self.inputs.root)
        name = Path(path).relative_to(self.inputs.root).as_posix()
        return Inputs(self.inputs.root, (name,), frozenset({name}), (), ())


def _taken(
    wanted: list[_Wanted],
    claims: tuple[Claimed, ...],
    place: Place,
    root: Path,
    options: TextOptions,
) -> Iterator[Claimed]:
    """Give the claims with the streams that are wanted of them, under the names of the columns."""
    chosen: dict[int, dict[str, _Wanted]] = {}
    known = [streams_of(one, root, options) for one in claims]
    for one in wanted:
        number, own = _found(one, claims, known, root)
        doubled = chosen.setdefault(number, {}).setdefault(own, one)
        if doubled is not one:
            raise UsageError(
                f"{one.given.name!r} and {doubled.given.name!r} are both {own!r} of"
                f" {Path(one.source.path).name}",
                where=one.given.where,
                hint="one column a stream; a copy, or a link, of the file may have another name",
            )
    for number, streams in chosen.items():
        named = {own: one.given.name for own, one in streams.items()}
        if NOTES in known[number] and NOTES not in named and _is_main(wanted):
            named[NOTES] = f"{next(iter(named.values()))}_{NOTES}"
        first = next(iter(streams.values()))
        _check_piece(claims[number], first)
        yield replace(
            claims[number],
            id=place.id,
            session=place.id,
            stream=first.given.name,
            streams=named,
            place=place,
            clock=_below(first.given.clock, root) or claims[number].clock,
            is_whole=False,
            piece=first.piece,
            tz=first.given.tz,
            about={one.given.name: one.about() for one in streams.values()},
        )


def _is_main(wanted: list[_Wanted]) -> bool:
    """Whether a file is named without one of its streams."""
    return any(one.source.part is None for one in wanted)


def streams_of(one: Claimed, root: Path, options: TextOptions) -> tuple[str, ...]:
    """Give the reader's names of an item's streams."""
    if not one.is_table:
        return _MEDIA if one.is_video else ("audio",)
    if one.streams:
        return tuple(one.streams)
    return tuple(TABLE_READERS[one.reader].probe(one.claim, root, options))


def _found(
    one: _Wanted, claims: tuple[Claimed, ...], known: list[tuple[str, ...]], root: Path
) -> tuple[int, str]:
    """Find the claim and the reader's name of a stream."""
    part, where = one.source.part, one.given.where
    if len(claims) == 1:
        return 0, _own(one, claims[0], known[0], root)
    names = [(name, k) for k, streams in enumerate(known) for name in streams]
    own = pick([name for name, _ in names], part, f"{where}: {one.source.path}")
    return next(k for name, k in names if name == own), own


def _own(one: _Wanted, claim: Claimed, known: tuple[str, ...], root: Path) -> str:
    where = f"{one.given.where}: {one.source.path}"
    if not claim.is_table:
        return pick(known, one.source.part or claim.reader, where)
    reader = TABLE_READERS[claim.reader]
    if one.source.part is not None and hasattr(reader, "named"):
        return str(reader.named(root / claim.claim.files[0], one.source.part))
    main = tuple(name for name in known if name != NOTES) or known
    return pick(known if one.source.part is not None else main, one.source.part, where)


def check_parts(given: Given, looked: Looked) -> None:
    """Refuse parts that can't be read as one stream.

    Raises
    ------
    UsageError
        They are sound or video, or files whose clocks are their own.
    """
    for k, source in enumerate(given.sources if len(given.sources) > 1 else ()):
        for claim in looked.claims_of(source.path):
            _check_piece(claim, _Wanted(given, source, k))


def _check_piece(claim: Claimed, one: _Wanted) -> None:
    """Refuse parts that no table can hold together."""
    if one.piece is None:
        return
    has_own_clock = claim.is_table and hasattr(TABLE_READERS[claim.reader], "clock")
    if not claim.is_table or has_own_clock:
        kind = "an XDF file, whose clocks are its own" if has_own_clock else f"{claim.reader}"
        raise UsageError(
            f"{one.given.name!r} has parts, and {Path(one.source.path).name} is {kind}",
            where=one.given.where,
            hint="only tables have parts; ffmpeg joins sound and video without a loss",
        )


class Found(NamedTuple):
    """The one file that holds what a cell names.

    `part` is the stream by its reader's name, None for the only one; `clock` the clock evidence
    that lies beside it; `source` the file or folder that is read as one. Paths are absolute.
    """

    path: str
    part: str | None
    clock: str | None
    source: str


def find(given: Given, source: Source, looked: Looked) -> Found:
    """Find the file and the stream that a cell names.

    Raises
    ------
    UsageError
        There is no such stream, or there are several and none is named.
    """
    options, one = TextOptions(tz=given.tz), _Wanted(given, source, 0)
    inputs, claims = looked.inputs, looked.claims_of(source.path)
    known = [streams_of(claim, inputs.root, options) for claim in claims]
    number, own = _found(one, claims, known, inputs.root)
    claim, names = claims[number], known[number]
    clock = inputs.path(claim.clock) if claim.clock is not None else None
    if not claim.is_table:
        return Found(source.path, source.part, clock, source.path)
    path = file_of(claim, own, looked, options)
    whole = inputs.path(claim.source)
    return Found(path, own if len(names) > 1 else None, clock, whole)


def file_of(claim: Claimed, own: str, looked: Looked, options: TextOptions) -> str:
    """Give the path of the file that holds a stream of an item."""
    paths = [looked.inputs.path(name) for name in claim.claim.files]
    whole = looked.inputs.path(claim.claim.id_path) if claim.claim.id_path else ""
    if whole and files.is_file(whole) and not files.is_folder(whole):  # an archive is both
        return whole
    for path in paths if len(paths) > 1 else ():
        alone = looked.claims_of(path)[0]
        if own in streams_of(alone, looked.inputs.root, options):
            return path
    return paths[0]


def _below(path: str | None, root: Path) -> str | None:
    return None if path is None else Path(path).relative_to(root).as_posix()
