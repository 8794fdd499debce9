"""The tables of `convert`: look at all, settle one schema a stream, write, widen.

Rules
-----
- A look at each table gives its schema; the schemas of a stream are merged before the first write.
- A value that does not fit widens the schema, and the stream is written again: the result does not
  depend on what was looked at.
- A task is one table, or a part of a long one.
- Many short tables of a stream are encoded alike, as is best for the first of them: trying the
  encodings for each would take a tenth of the time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from mmprep import files, tables
from mmprep.errors import DataError, UsageError
from mmprep.sources.base import TextOptions
from mmprep.steps import base
from mmprep.steps.base import Item, Outcome, Progress, Task, Work
from mmprep.steps.corpus.place import Place
from mmprep.steps.intake import claims, schemafile, texts
from mmprep.steps.intake.columns import Look, Settler, StreamSchema

PROBES_A_TASK = 32
SHORT_BYTES, MANY = 4 << 20, 16

_Key: TypeAlias = tuple[str, str, int]  # id, name, part
_Looks: TypeAlias = dict[tuple[str, str], dict[str, Any]]  # id, name -> stream -> schema


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is wished of all tables.

    Parameters
    ----------
    schema : Schema
        What is declared of the streams.
    on_column_change : str
        `add`, `fail` or `drop`.
    taken : mapping of (id, stream) to str
        The source of each stream that is no table.
    """

    options: TextOptions
    schema: schemafile.Schema
    on_column_change: str
    taken: Mapping[tuple[str, str], str]


def write_tables(
    session: base.Run, items: Sequence[Item], wishes: Wishes, cpus: int
) -> tuple[list[Outcome], dict[str, StreamSchema]]:
    """Write the tables of all items, one schema a stream.

    Returns
    -------
    outcomes : list of Outcome
        In the order of the items; a long table has one a part.
    schemas : dict
        Stream -> its schema.

    Raises
    ------
    UsageError
        Two items would be one table; `--unit` names a column that no table has.
    DataError
        What the policy for columns refuses.
    """
    options = msgspec.to_builtins(wishes.options, enc_hook=str)
    items, looks, spans = _look(session, items, options)
    _refuse_doubles(items, wishes.taken)
    settler = Settler(
        wishes.schema,
        wishes.on_column_change,
        dict(wishes.options.units),
        session.progress.say,
    )
    schemas = settler.settle(_by_stream(items, looks))
    _check_units(wishes.options, schemas)
    _tell_texts(schemas, session.progress)
    todo = [part for item in items for part in _parts(item, spans.get(_name(item), ()))]
    parts, done = todo, dict[_Key, Outcome]()
    encodings = _encodings(session, todo, schemas, options)
    while todo:
        tasks = [_write_task(item, schemas, encodings, options) for item in todo]
        threads = max(1, cpus // len(tasks))
        outcomes = session.map(Work(texts.write, {"n_threads": threads}), tasks, label="tables")
        done |= {_key(item): outcome for item, outcome in zip(todo, outcomes, strict=True)}
        widened = _widened(schemas, outcomes, session.progress)
        todo = [item for item in parts if _is_touched(item, widened) and _key(item) in done]
        for item in todo:
            old = done[_key(item)]
            session.supersede(old, {"widen": (old.value or {}).get("widen", {})})
    return [done[_key(item)] for item in parts if _key(item) in done], schemas


def _parts(item: Item, spans: Sequence[Mapping[str, int]]) -> list[Item]:
    """Make an item of each part of a long table; any other stays as it is."""
    if not spans:
        return [item]
    return [
        replace(
            item,
            n_bytes=span["end"] - span["begin"],
            spec={**item.spec, "part": k, "span": dict(span)},
        )
        for k, span in enumerate(spans)
    ]


def _key(item: Item) -> _Key:
    return *_name(item), item.spec.get("part", 0)


def _name(item: Item) -> tuple[str, str]:
    return item.id, item.spec["name"]


def write_schema(
    path: Path, schemas: Mapping[str, StreamSchema], written: Sequence[Outcome]
) -> None:
    """Write the file of `--write-schema`, unless the same one stands there."""
    rates: dict[str, set[str | None]] = {}
    for outcome in written:
        for fact in (outcome.value or {}).get("items", ()):
            for stream, ref in fact["streams"].items():
                rates.setdefault(stream, set()).add(ref["rate_hz"])
    known = {stream: found.pop() for stream, found in rates.items() if len(found) == 1}
    data = schemafile.write(
        {stream: one.schema for stream, one in schemas.items()},
        {stream: Fraction(text) for stream, text in known.items() if text is not None},
    )
    if not path.is_file() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_whole(path, data)


def _tell_texts(schemas: Mapping[str, StreamSchema], progress: Progress) -> None:
    """Say which columns hold text beside numbers: one odd cell makes a column text."""
    for stream, found in schemas.items():
        columns = found.schema.columns
        names = [c.name for c in columns if c.kind == "string" and not c.fixed]
        if names and (len(names) < len(columns) or len(columns) == 1):
            progress.say(
                f"{stream}: columns of text: {', '.join(names)}; --null TEXT reads odd cells as"
                " missing"
            )


def _check_units(options: TextOptions, schemas: Mapping[str, StreamSchema]) -> None:
    """Refuse `--unit` for a column that no table has."""
    columns = [column for one in schemas.values() for column in one.schema.columns]
    known = {column.source_name or column.name for column in columns}
    unknown = [name for name, _ in options.units if name not in known]
    if schemas and unknown:
        raise UsageError(
            f"there is no column {unknown[0]!r}",
            where="--unit",
            hint=f"columns: {', '.join(sorted(known))}",
        )


def _probe(session: base.Run, items: Sequence[Item], options: dict[str, Any]) -> list[Outcome]:
    tasks = [
        Task(part[0].id, tuple(part), {"options": options})
        for part in (items[k : k + PROBES_A_TASK] for k in range(0, len(items), PROBES_A_TASK))
    ]
    return session.map(Work(texts.probe, is_look=True), tasks, label="look") if tasks else []


def _look(
    session: base.Run, items: Sequence[Item], options: dict[str, Any]
) -> tuple[list[Item], _Looks, dict[tuple[str, str], list[dict[str, int]]]]:
    """Look at the tables: the items that could be read, their schemas, the parts of long ones."""
    looks: _Looks = {}
    spans: dict[tuple[str, str], list[dict[str, int]]] = {}
    failed: set[tuple[str, str]] = set()
    for outcome in _probe(session, items, options):
        value = outcome.value or {}
        looks |= {(item_id, name): look for item_id, name, look in value.get("schemas", ())}
        spans |= {(item_id, name): parts for item_id, name, parts in value.get("spans", ())}
        failed |= {(failure.id, failure.source) for failure in outcome.failures}
    named = [
        replace(item, spec={**item.spec, "streams": _stream_names(item, looks[_name(item)])})
        for item in items
        if looks.get(_name(item)) and (item.id, item.source) not in failed
    ]
    return named, looks, spans


def _stream_names(item: Item, look: Mapping[str, Any]) -> dict[str, str]:
    """Name the streams that the look found: as planned, else as path and reader do."""
    planned = item.spec["streams"]
    if item.spec["split"] is not None:
        ((stem, stream),) = planned.items()
        return {own: stream + own.removeprefix(stem) for own in look}
    if not item.spec["is_whole"]:
        return {own: stream for own, stream in planned.items() if own in look}
    place = Place(item.id, stream=item.spec["stream"])
    return {own: planned.get(own) or claims.stream_name(own, place) for own in look}


def _refuse_doubles(items: Sequence[Item], taken: Mapping[tuple[str, str], str]) -> None:
    """Refuse two items that would write one table."""
    seen = dict(taken)
    for item in items:
        for stream in item.spec["streams"].values():
            other = seen.setdefault((item.id, stream), item.source)
            if other != item.source and not item.spec.get("piece"):
                raise UsageError(
                    f"{other} and {item.source} would both be stream {stream!r} of {item.id!r}",
                    hint="give a --layout, or leave one of them out with --exclude",
                )


def _by_stream(items: Sequence[Item], looks: _Looks) -> dict[str, list[Look]]:
    found: dict[str, list[Look]] = {}
    for item in items:
        for own, stream in item.spec["streams"].items():
            schema = texts.schema_of(looks[_name(item)][own])
            found.setdefault(stream, []).append(Look(item.source, schema))
    return found


def _write_task(
    item: Item,
    schemas: Mapping[str, StreamSchema],
    encodings: Mapping[str, Mapping[str, str]],
    options: dict[str, Any],
) -> Task:
    streams = item.spec["streams"]
    chosen = {s: msgspec.to_builtins(schemas[s].schema) for s in streams.values()}
    known = {s: encodings[s] for s in chosen if s in encodings and _is_short(item)}
    spec = {"options": options, "schemas": chosen, "streams": streams, "encodings": known}
    return Task(item.id, (item,), spec)


def _is_short(item: Item) -> bool:
    return item.n_bytes <= SHORT_BYTES and item.spec["split"] is None


def _encodings(
    session: base.Run,
    items: Sequence[Item],
    schemas: Mapping[str, StreamSchema],
    options: dict[str, Any],
) -> dict[str, dict[str, str]]:
    """Find the encodings of each stream that has many short tables, by the first of them."""
    short = [item for item in items if _is_short(item)]
    n_tables = Counter(stream for item in short for stream in item.spec["streams"].values())
    first: dict[str, Item] = {}
    for item in short:
        for stream in item.spec["streams"].values():
            if n_tables[stream] >= MANY:
                first.setdefault(stream, item)
    chosen = {_key(item): item for item in first.values()}
    tasks = [_write_task(item, schemas, {}, options) for item in chosen.values()]
    tried = session.map(Work(texts.encodings, is_look=True), tasks, label="look") if tasks else []
    found: dict[str, dict[str, str]] = {}
    for outcome in tried:
        for stream, known in (outcome.value or {}).get("encodings", {}).items():
            found.setdefault(stream, known)
    return found


def _widened(
    schemas: dict[str, StreamSchema], outcomes: Sequence[Outcome], progress: Progress
) -> set[str]:
    """Widen the schemas as the outcomes ask; name the streams whose tables must be rewritten."""
    touched = set()
    for outcome in outcomes:
        for stream, wanted in (outcome.value or {}).get("widen", {}).items():
            old = schemas[stream].schema
            request = tables.Widen(wanted["kinds"], relative=wanted["relative"])
            new = old.widened(request)
            if new.stored() == old.stored() and new == old:
                raise DataError(f"cannot be widened by {wanted}", where=stream)
            schemas[stream].schema = new
            touched.add(stream)
            for column in (name for name, kind in wanted["kinds"].items() if kind == "string"):
                example = wanted["examples"].get(column, "")
                progress.say(f"{stream}: column {column!r} is text: {example}")
    return touched


def _is_touched(item: Item, streams: set[str]) -> bool:
    return not streams.isdisjoint(item.spec["streams"].values())
