"""The sessions of raw files that a table names (`--sessions`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from mmprep import files
from mmprep.errors import UsageError
from mmprep.media import PLAYABLE
from mmprep.steps.base import RunOptions
from mmprep.steps.inputs import Inputs, expand
from mmprep.steps.instants import instant_ns, latency_ns
from mmprep.steps.sessions import eventoption, named, trialplan
from mmprep.steps.sessions.config import Config
from mmprep.steps.sessions.plan import Plan
from mmprep.steps.sessions.streamspec import StreamSpec
from mmprep.steps.study import claiming, table
from mmprep.steps.study.claiming import Looked
from mmprep.steps.study.table import Given, SessionRow


def plan(config: Config, options: RunOptions) -> Plan:
    """Plan the sessions of a table.

    Raises
    ------
    UsageError
        INPUT or named streams beside it; a cell names what is not there.
    DataError
        It is no table of sessions.
    """
    known = table.read(config.sessions or "")
    root = Path(config.root) if config.root else None
    inputs = expand(known.files, root=root, output=options.output)
    looked = Looked(inputs)
    rows = sorted((row for row in known.rows if row.streams), key=lambda row: row.session)
    specs = {row.session: _specs(row, looked, config) for row in rows}
    items = tuple(
        named.session_item(name, one, inputs.root, is_named=False) for name, one in specs.items()
    )
    templates = {
        row.session: msgspec.structs.replace(
            named.template(row.session, specs[row.session], inputs.root),
            source=_source(specs[row.session].values(), inputs),
            subject=row.subject,
            split=row.split,
            extra=dict(row.fields),
        )
        for row in rows
    }
    absent = [row.session for row in known.rows if not row.streams]
    notes = [f"{len(absent)} sessions have no stream: {', '.join(absent)}"] if absent else []
    table_path = str(Path(known.path).absolute())
    return Plan(inputs.root, items, templates, (table_path,), inputs.root, tuple(notes))


def _source(specs: Iterable[StreamSpec], inputs: Inputs) -> str | None:
    """Name the source of a session as the data set of the table does: media first, no trials."""
    first = min(
        specs, key=lambda s: (s.form not in PLAYABLE, s.name == table.TRIALS, s.source or "")
    )
    return files.below(first.source or first.path, inputs.root)


def _specs(row: SessionRow, looked: Looked, config: Config) -> dict[str, StreamSpec]:
    """Describe the streams of a session; what options say of a stream holds in all of them."""
    given = {one.name: one for one in row.streams if one.name != table.TRIALS}
    specs = {name: replace(_spec(one, looked), record=row.session) for name, one in given.items()}
    specs = named.with_clocks(specs, config)
    events = [_events(one, given, looked) for one in given.values() if one.events is not None]
    if len(events) != 1:  # of one alone, the other stream is missing
        specs = eventoption.with_events(specs, events, eventoption.Given.raw)
    trials = next((one for one in row.streams if one.name == table.TRIALS), None)
    if trials is not None:
        specs = {**specs, table.TRIALS: _trials(trials)}
    return dict(sorted(specs.items()))  # as the records of a data set have them


def _trials(given: Given) -> StreamSpec:
    """Describe the trials of a session."""
    if len(given.sources) > 1:
        raise UsageError("trials of several files", where=given.where, hint="join them to one")
    (source,) = given.sources
    settings = {"tz": given.tz} if given.tz else {}
    spec = trialplan.file_spec(source.path, source.part or "", settings)
    starts = [instant_ns(text, f"{given.where}: trials.start") for text in given.starts]
    return replace(
        spec,
        start_ns=starts[0] if starts else None,
        latency_ns=latency_ns(given.latency_ms, f"{given.where}: trials.latency_ms"),
        clock=given.clock,
    )


def _events(one: Given, given: Mapping[str, Given], looked: Looked) -> eventoption.Given:
    """Say where the events of a stream are listed."""
    if one.events is None or one.events.source is None:
        other = given[one.events.stream or ""] if one.events is not None else one
        found = claiming.find(other, other.sources[0], looked)
    else:
        found = claiming.find(one, one.events.source, looked)
    settings = one.events.settings if one.events is not None else ""
    return eventoption.Given(one.name, found.path, found.part, eventoption.settings_of(settings))


def _spec(given: Given, looked: Looked) -> StreamSpec:
    claiming.check_parts(given, looked)
    first, *later = [claiming.find(given, source, looked) for source in given.sources]
    if any(other.part != first.part for other in later):
        raise UsageError(f"the parts of {given.name!r} are not one stream", where=given.where)
    settings = {"tz": given.tz} if given.tz else {}
    spec = named.file_spec(given.name, first.path, first.part or "", settings)
    where = f"{given.where}: {given.name}.start"
    starts = [instant_ns(text, where) for text in given.starts]
    clocks = [given.clock] if given.clock else [one.clock for one in (first, *later) if one.clock]
    return replace(
        spec,
        source=first.source,
        more=tuple((one.path, (0, 0)) for one in later),
        starts_ns=tuple(starts[1:] or (None for _ in later)),
        start_ns=starts[0] if starts else None,
        latency_ns=latency_ns(given.latency_ms, f"{given.where}: {given.name}.latency_ms"),
        clock=clocks[0] if clocks else None,
        more_clocks=tuple(clocks[1:]),
    )
