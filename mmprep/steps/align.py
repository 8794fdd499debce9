"""`align`: data sets, or the named streams of one session, onto common windows.

Rules
-----
- One task is one session: of data sets (`recorded`), or of streams that are named (`named`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mmprep.errors import DataError, UsageError
from mmprep.manifest.model import Record, Session
from mmprep.steps import base
from mmprep.steps.base import (
    Contents,
    Engine,
    Item,
    Outcome,
    Placed,
    Progress,
    RunOptions,
    StepName,
    StepResult,
    Task,
    Work,
)
from mmprep.steps.labels import joining
from mmprep.steps.labels.origin import Origins
from mmprep.steps.running.names import Names
from mmprep.steps.running.shardbook import ShardBook
from mmprep.steps.sessions import named, recorded, roiplan, trialplan, windowlist
from mmprep.steps.sessions.config import Config
from mmprep.steps.sessions.needs import memory_bytes
from mmprep.steps.sessions.plan import Plan
from mmprep.steps.sessions.streamspec import spec_of

STEP = StepName("align", 2)
RESERVED = frozenset({"", "id", "label", "labels", "sync", "tables", "rejects", "text"})


def run(
    config: Config,
    options: RunOptions,
    *,
    engine: Engine = base.serial,
    progress: Progress | None = None,
) -> StepResult:
    """Align sessions and write the data set of their windows."""
    if not config.session:
        raise UsageError("a session needs a name", where="--session")
    if config.on and not config.labels:
        raise UsageError("there is no --labels to join", where="--on")
    wanted = _label_wish(config)
    names = Names.read(config.ids)
    plan = _plan(config, options)
    config = trialplan.with_own(config, plan)
    wish = config.wish()
    plan = trialplan.with_trials(plan, config)
    plan = roiplan.with_tracks(plan, config, names).renamed(names)
    _check_names(plan, wish)
    known = joining.read(wanted)
    content = {**wish, **wanted.content()}
    with base.open_run(
        STEP, content, options, root=plan.root, engine=engine, progress=progress
    ) as current:
        for note in plan.notes:
            current.progress.say(note)
        spec = wish if wanted.event is None else {**wish, "label_event": wanted.event}
        tasks = [Task(item.id, (item,), spec, _memory(item)) for item in plan.items]
        if options.dry_run:
            return current.preview(tasks, sum(item.n_bytes for item in plan.items))
        outcomes = current.map(Work("mmprep.steps.sessions.session:run"), tasks, label="align")
        current.check_failures()
        found = _contents(plan, current, outcomes, known)
        return current.commit(_unnamed(found, names, is_relative=config.time_origin == "relative"))


def _plan(config: Config, options: RunOptions) -> Plan:
    if config.sessions is not None:
        # Loads the readers, and they pyarrow: other plans do without.
        from mmprep.steps.sessions import studied

        _check_alone(config)
        return studied.plan(config, options)
    if named.streams_named(config):
        return named.plan(config)
    return recorded.plan(config, options)


def _check_alone(config: Config) -> None:
    """Refuse what a table of sessions stands for."""
    if config.inputs or config.stream or any((config.video, config.eeg, config.gsr)):
        raise UsageError(
            "data sets or named streams beside a table of sessions",
            where="--sessions",
            hint="each stream is a column of the table",
        )


def _label_wish(config: Config) -> joining.Wish:
    return joining.Wish(
        joining.texts(config.labels),
        joining.texts(config.on),
        config.label,
        config.label_bins,
        config.label_time,
        config.label_agg or "cover",
        config.label_lag or 0.0,
    )


def _memory(item: Item) -> int:
    return memory_bytes([spec_of(spec) for spec in item.spec["streams"]])


def _check_names(plan: Plan, wish: Mapping[str, Any]) -> None:
    """Refuse options that name a stream which no session has."""
    known = {spec["name"] for item in plan.items for spec in item.spec["streams"]}
    asked = {
        "--rates": wish["rates"],
        "--method": wish["methods"],
        "--filter": wish["filters"],
        "--reref": wish["references"],
        "--roi": wish.get("rois", {}),
    }
    if wish["session_clock"]:
        asked["--session-clock"] = {wish["session_clock"]: ""}
    if wish["frames"] and not any(
        s["kind"] == "video" for i in plan.items for s in i.spec["streams"]
    ):
        raise UsageError("there is no video", where="--frames")
    films = {s["name"] for i in plan.items for s in i.spec["streams"] if s["kind"] == "video"}
    if none := sorted((asked["--roi"].keys() & known) - films):
        raise UsageError(f"{none[0]!r} is no video", where="--roi")
    for name in known:
        if name in RESERVED or name.endswith((".valid", ".length", ".clock")) or "/" in name:
            raise UsageError(f"no stream can be called {name!r}", hint="choose another name")
    for option, names in asked.items():
        if unknown := sorted(set(names) - known):
            raise UsageError(
                f"there is no stream {unknown[0]!r}",
                where=option,
                hint=f"streams: {', '.join(sorted(known))}",
            )


def _contents(
    plan: Plan,
    current: base.Run,
    outcomes: Sequence[Outcome],
    known: joining.Labels,
) -> Contents:
    book = ShardBook()
    placed: dict[str, Placed] = {}
    records: list[Record] = []
    sessions: dict[str, Session] = {}
    events_s: dict[str, float] = {}
    for outcome in outcomes:
        value = outcome.value or {}
        names = book.add(value)
        placed |= current.placed(outcome, names)
        for own, found in value.get("sessions", {}).items():
            name = plan.old.get(own, own)
            sessions[name] = Session(origin_ns=found["origin_ns"], clock=found["clock"])
            records += windowlist.records(
                plan.templates[name], name, found["windows"], value["shards"], names
            )
            if found.get("event_s") is not None:
                events_s[name] = found["event_s"]
            _tell(current, found)
    if not records:
        raise DataError(
            "no window is left",
            where=", ".join(list(sessions)[:3]),
            hint="a shorter --window, a smaller --min-valid, --on-gap mask, trials with a length",
        )
    unix_ns = {name: session.origin_ns for name, session in sessions.items()}
    origins = Origins(unix_ns, events_s)
    joined, said = known.join(records, origins)
    for remark in said:
        current.progress.say(remark)
    joined = [windowlist.without_class(record) for record in joined]
    label_files = tuple(str(Path(path).absolute()) for path in known.paths)
    return Contents(
        joined,
        book.modalities(),
        sessions,
        placed,
        extra_inputs=(*plan.extra_inputs, *label_files),
        media_root=plan.media_root,
    )


def _unnamed(contents: Contents, names: Names, *, is_relative: bool) -> Contents:
    """Give people other names, and take the dates off, once labels are joined."""
    sessions = {
        names.text(name): Session(origin_ns=None, clock=session.clock) if is_relative else session
        for name, session in contents.sessions.items()
    }
    records = [names.record(record) for record in contents.records]
    beside = () if names.path is None else (str(Path(names.path).absolute()),)
    return replace(
        contents,
        records=records,
        sessions=sessions,
        names=names,
        extra_inputs=(*contents.extra_inputs, *beside),
    )


def _tell(current: base.Run, found: Mapping[str, Any]) -> None:
    for note in found["notes"]:
        current.progress.say(note)
    for warning in found["warnings"]:
        current.progress.warn(warning)
