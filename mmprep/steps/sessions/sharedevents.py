"""Happenings that several clocks saw become clock evidence.

Rules
-----
- Events of a stream are on its clock, and move with it to its master's. Where the table of events
  has clock evidence of its own, as streams of XDF have, that is taken.
- One stream is the reference: the chosen session clock, else one with clock evidence, else one in
  absolute time, else the first. The clocks of the others are fitted to it.
- What shares the clock of a fitted stream moves with it: streams of the same recording, the table
  that its events are from, and where it has clock evidence all that have the same master.
- A latency holds for events that are read from the stream's own file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mmprep import clock, tables
from mmprep.errors import ClockError, DataError, MmprepError, UsageError
from mmprep.steps.intake.claims import reader_of
from mmprep.steps.sessions import eventtables, rawparts, streams
from mmprep.steps.sessions.streams import UNIX, Clocked
from mmprep.steps.sessions.streamspec import EventSpec, StreamSpec
from mmprep.timebase import NS_PER_S, UNIX_NS, Fixes, IntArray

ONE, FEW = 1, 5  # events that give no rate, and no bound
FIRST_COLUMN = "column_1"  # of a table without a header


class _Events(NamedTuple):
    """Times of the events of a stream on its master's clock, before and after its latency."""

    times_ns: IntArray
    late_ns: int

    @property
    def true_ns(self) -> IntArray:
        return self.times_ns - self.late_ns


def related(
    found: Sequence[Clocked], folder: Path, preferred: str | None = None
) -> tuple[list[Clocked], list[str]]:
    """Fit the clocks of streams that have events to that of one of them.

    Parameters
    ----------
    folder : Path
        For what is made of raw files meanwhile.
    preferred : str, optional
        The stream that is the reference, if it has events.

    Returns
    -------
    streams : list of Clocked
    notes : list of str
        What is to be said.

    Raises
    ------
    ClockError
        The events match by chance only, in several ways, or are those of another clock.
    """
    having = sorted((one for one in found if one.opened.spec.events), key=_order)
    if len(having) < 2:
        return list(found), [f"events of {one.name} have none to match with" for one in having]
    notes: list[str] = []
    reference = _reference(having, preferred)
    events = {one.name: _events(one, folder, notes) for one in having}
    moved = [_as_reference(one, reference) for one in found]
    for one in having:
        if one.name == reference.name:
            continue
        if one.master is not None and one.master == reference.master:
            notes.append(f"{one.name} is related to {reference.name} by its log, not by events")
            continue
        moved = _fitted(moved, one, reference, events, notes)
    return moved, notes


def _order(one: Clocked) -> int:
    spec = one.opened.spec.events
    return spec.order if spec is not None else 0


def _reference(having: Sequence[Clocked], preferred: str | None) -> Clocked:
    def rank(one: Clocked) -> tuple[bool, ...]:
        return (one.name != preferred, not one.model.n_fixes, one.time_line != UNIX)

    return min(having, key=rank)


def _as_reference(one: Clocked, reference: Clocked) -> Clocked:
    """Let the clock of the reference be that of the session, and of what shares it."""
    if one.name == reference.name or (one.master is None and _share_clock(one, reference)):
        master = reference.master or reference.name
        return replace(one, model=reference.model, fixes=reference.fixes, master=master)
    return one


def _share_clock(one: Clocked, other: Clocked) -> bool:
    spec, events = one.opened.spec, other.opened.spec.events
    is_source = events is not None and _is_of(events.source, spec)
    recording = spec.recording
    return is_source or (recording is not None and recording == other.opened.spec.recording)


def _is_of(source: StreamSpec, spec: StreamSpec) -> bool:
    """Say whether events are read from what a stream is read from."""
    return (str(Path(source.path).absolute()), source.part) == (
        str(Path(spec.path).absolute()),
        spec.part,
    )


# Fitting ------------------------------------------------------------------------------------------


def _fitted(
    found: Sequence[Clocked],
    one: Clocked,
    reference: Clocked,
    events: dict[str, _Events],
    notes: list[str],
) -> list[Clocked]:
    """Relate the clock of a stream, and of all that share it, to the reference."""
    own, other = events[one.name], events[reference.name]
    is_new = one.master is None
    own_ns = own.times_ns if is_new else own.true_ns
    reference_ns = other.true_ns + (own.late_ns if is_new else 0)
    where = f"{one.name} and {reference.name}"
    spec = one.opened.spec.events
    within_ns = spec.within_ns if spec is not None else None
    try:
        model, match = clock.fit_events(own_ns, reference_ns, within_ns=within_ns)
    except ClockError as error:
        raise ClockError(error.what, where=where, hint=error.hint) from error
    notes.append(_said(where, model, match, (own_ns.size, reference_ns.size)))
    facts = _facts(reference.name, match, (own_ns.size, reference_ns.size))
    fixes = Fixes(own_ns[match.own], reference_ns[match.reference])
    master = reference.master or reference.name
    new = {"master": master, "shared": facts} | (
        {"model": model, "fixes": fixes} if is_new else {"link": model}
    )
    return [replace(s, **new) if _moves_with(s, one) else s for s in found]


def _moves_with(stream: Clocked, one: Clocked) -> bool:
    if one.master is not None:
        return stream.master == one.master
    return stream.name == one.name or (stream.master is None and _share_clock(stream, one))


def _facts(reference: str, match: clock.Match, sizes: tuple[int, int]) -> dict[str, Any]:
    """Describe a match for `sync/`."""
    return {
        "reference": reference,
        "n_events": sizes[0],
        "n_events_of_reference": sizes[1],
        "n_matched": match.own.size,
        "n_missed": match.n_missed,
        "n_extra": match.n_extra,
        "n_outside": match.n_outside[0],
        "n_outside_of_reference": match.n_outside[1],
        "n_stretches": match.n_segments,
        "tolerance_s": match.tolerance_s,
        "by_chance": match.by_chance,
    }


def _said(where: str, model: clock.ClockModel, match: clock.Match, sizes: tuple[int, int]) -> str:
    """Say what a match rests on."""
    n = match.own.size
    said = f"{where}: {n} events match of {sizes[0]} and {sizes[1]}"
    if n == ONE:
        return f"{said}: an offset alone, the rate is taken as right, bound null"
    said += f", offset and drift ({model.skew_ppm:.1f} ppm)"
    if n < FEW:
        return f"{said} that {'nothing checks' if n == FEW - 3 else 'little checks'}, bound null"
    return f"{said}, {1000 * (model.residual_p50_s or 0):.3g} ms off in the median"


# Reading ------------------------------------------------------------------------------------------


def _events(one: Clocked, folder: Path, notes: list[str]) -> _Events:
    """Read the events of a stream, on its master's clock.

    Raises
    ------
    ClockError
        They lie nowhere near the samples of the stream.
    """
    spec = one.opened.spec.events
    if spec is None:
        raise ValueError(f"{one.name} has no events")
    source = _opened(spec.source)
    try:
        times_ns, n_hidden = _times(replace(spec, source=source), folder)
    except MmprepError as error:
        raise type(error)(error.what, where=_where(one, source, error), hint=error.hint) from error
    if n_hidden:
        notes.append(f"events of {one.name}: {n_hidden} may be hidden by missing values")
    if times_ns.size and times_ns.max() < UNIX_NS:
        times_ns = times_ns + one.opened.shift_ns
    _check_near(one, source, times_ns)
    is_own = _is_of(source, one.opened.spec)
    return _Events(_on_master(one, source, times_ns), one.opened.spec.latency_ns if is_own else 0)


def _where(one: Clocked, source: StreamSpec, error: MmprepError) -> str:
    return error.where or f"events of {one.name} in {Path(source.path).name}"


def _opened(source: StreamSpec) -> StreamSpec:
    """Find the reader of a raw file; a bare list of times needs no name for its column."""
    if source.form != "raw":
        return source
    whole = replace(source, form=reader_of(Path(source.path)))
    bare = replace(whole, time=whole.time or FIRST_COLUMN)
    return bare if not _has_time(whole) and _has_time(bare) else whole


def _has_time(source: StreamSpec) -> bool:
    options = rawparts.options_of(source)
    try:
        rawparts.own_name(source.form, Path(source.path), source.part, options)
    except (DataError, UsageError):
        return False
    return True


def _on_master(one: Clocked, source: StreamSpec, times_ns: IntArray) -> IntArray:
    evidence = None if _is_of(source, one.opened.spec) else streams.evidence_of(source)
    model = one.model if evidence is None else clock.fit(evidence, where=source.name)
    return model.apply_in_order(times_ns)


def _check_near(one: Clocked, source: StreamSpec, times_ns: IntArray) -> None:
    """Refuse events that share no time with the samples they are meant for."""
    stamps = one.opened.stamps_ns[one.opened.stamps_ns != tables.NULL_STAMP_NS]
    if not times_ns.size or not stamps.size or streams.evidence_of(source) is not None:
        return
    spans = [(int(ns.min()), int(ns.max())) for ns in (times_ns, stamps)]
    if spans[0][0] > spans[1][1] or spans[0][1] < spans[1][0]:
        said = [f"{begin / NS_PER_S:.3f} to {end / NS_PER_S:.3f} s" for begin, end in spans]
        raise ClockError(
            f"the events lie from {said[0]}, the samples from {said[1]}: events of another clock",
            where=f"{one.name} and {Path(source.path).name}",
            hint="give the events as the device itself stamped them",
        )


def _times(spec: EventSpec, folder: Path) -> tuple[IntArray, int]:
    """Read times on the clock of the source, and count those that missing values may hide."""
    with eventtables.pieces(spec.source, folder) as found:
        if spec.above is not None or spec.below is not None:
            return _crossings(spec, found)
        table = tables.read_events(found)
        chosen = table.stamps_ns != tables.NULL_STAMP_NS
        if spec.value is not None:
            chosen &= table.matching(re.compile(spec.value), spec.column)
        return table.stamps_ns[chosen], 0


def _crossings(spec: EventSpec, found: eventtables.Pieces) -> tuple[IntArray, int]:
    """Find where readings cross a level, block by block."""
    sign = 1 if spec.above is not None else -1
    level = spec.above if spec.above is not None else -(spec.below or 0.0)
    times, n_hidden = [np.empty(0, np.int64)], 0
    last_ns, last = np.empty(0, np.int64), np.empty(0)
    for stamps, values in _readings(spec, found):
        whole_ns, whole = np.append(last_ns, stamps), np.append(last, values)
        seen = clock.rising(whole_ns, sign * whole, level)
        times.append(seen.times_ns)
        n_hidden += seen.n_hidden
        begin = int(np.flatnonzero(~np.isnan(whole))[-1:].sum())
        last_ns, last = whole_ns[begin:], whole[begin:]
    return np.concatenate(times), n_hidden


def _readings(spec: EventSpec, found: eventtables.Pieces) -> Iterator[tuple[IntArray, Any]]:
    """Give stamps and values of one column, block by block; without those that have no stamp."""
    name = spec.source.name
    for path, rows in found:
        first = next(tables.iter_stream(path, name, rows=(0, 0))).channels[:1]
        columns = (spec.column,) if spec.column is not None else first
        if not columns:
            raise ClockError("has no numeric column", where=str(path))
        for block in tables.iter_stream(path, name, rows=rows, columns=columns):
            known = block.stamps_ns != tables.NULL_STAMP_NS
            yield block.stamps_ns[known], block.values[known, 0]
