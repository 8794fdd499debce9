"""The trials of each session that `align` plans: where `--trials` leads.

Rules
-----
- A session without the stream that holds the trials is left out and named.
- A file of trials is that of one session.
- A table of sessions with a column `trials` needs no `--trials`, nor does its data set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from mmprep.errors import UsageError
from mmprep.steps import datasets
from mmprep.steps.base import Item
from mmprep.steps.datasets import InputDataset
from mmprep.steps.sessions import named, recorded, trialoption
from mmprep.steps.sessions.config import Config
from mmprep.steps.sessions.plan import Plan
from mmprep.steps.sessions.streamspec import StreamSpec
from mmprep.steps.sessions.trialoption import OPTION, STREAM


def with_own(config: Config, plan: Plan) -> Config:
    """Take the trials that a table of sessions names, where none are given."""
    if config.trials is not None:
        return config
    of_table = [item for item in plan.items if not item.spec.get("named")]
    streams = [(one["name"], one["kind"]) for item in of_table for one in item.spec["streams"]]
    return replace(config, trials=STREAM) if (STREAM, "events") in streams else config


def with_trials(plan: Plan, config: Config) -> Plan:
    """Give each session its trials.

    Raises
    ------
    UsageError
        What `--trials` names is not there, or is one file for several sessions.
    """
    if config.trials is None:
        return plan
    given = trialoption.parse(config.trials)
    if given.path is None:
        return _of_sessions(plan, lambda item: _own(item, given), given.text)
    if not given.is_dataset:
        return replace(plan, items=(_of_file(plan.items, given),))
    data = datasets.load(datasets.folder_of(given.path).absolute())
    found = _of_sessions(plan, lambda item: _recorded(item, data, given, config), given.text)
    return replace(found, extra_inputs=(*found.extra_inputs, data.record_path))


def _of_sessions(plan: Plan, find: Callable[[Item], Item | None], text: str) -> Plan:
    """Give sessions their trials, leave out those that have none."""
    found = {item.id: find(item) for item in plan.items}
    items = tuple(item for item in found.values() if item is not None)
    without = [name for name, item in found.items() if item is None]
    if not items:
        names = {one["name"] for item in plan.items for one in item.spec["streams"]}
        raise UsageError(
            f"no session has trials in {text!r}",
            where=OPTION,
            hint=f"a file, or one of the streams: {', '.join(sorted(names))}",
        )
    if not without:
        return plan if items == plan.items else replace(plan, items=items)
    said = f"{len(without)} sessions have no trials and are left out: {', '.join(without[:5])}"
    said += ", ..." if len(without) > 5 else ""
    return replace(plan, items=items, notes=(*plan.notes, said))


def _own(item: Item, given: trialoption.Given) -> Item | None:
    name = given.part or ""
    has_it = name in {one["name"] for one in item.spec["streams"]}
    return trialoption.named(item, name, given.of) if has_it else None


def _recorded(
    item: Item, data: InputDataset, given: trialoption.Given, config: Config
) -> Item | None:
    part = given.part or ""
    for record in data.records:
        if item.id in (record.session, record.id) and part in record.streams:
            spec = recorded.stream_spec(data, record, part, config)
            return trialoption.put(item, spec, given.of)
    return None


def _of_file(items: tuple[Item, ...], given: trialoption.Given) -> Item:
    if len(items) > 1:
        raise UsageError(
            f"one file of trials for {len(items)} sessions",
            where=given.path,
            hint="convert it, too: --trials DATASET#STREAM takes those of each session",
        )
    settings = {name: text for name, text in given.settings.items() if name != "of"}
    spec = file_spec(given.path or "", given.part or "", settings)
    return trialoption.put(items[0], spec, given.of)


def file_spec(path: str, part: str, settings: Mapping[str, str]) -> StreamSpec:
    """Describe the trials of a raw file; those of a recording are its annotations.

    Raises
    ------
    UsageError
        The file or the stream does not exist, or there are several and none is named.
    """
    from mmprep.sources.base import NOTES, TextOptions
    from mmprep.steps.intake.claims import reader_of
    from mmprep.steps.sessions.rawparts import own_name

    if not part and own_name(reader_of(Path(path)), Path(path), None, TextOptions()) == NOTES:
        part = NOTES
    spec = named.file_spec(STREAM, path, part, {**settings, "kind": "events"})
    return replace(spec, path=str(Path(path).absolute()))
