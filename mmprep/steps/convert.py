"""`convert`: raw tables, sound and video to Parquet, shards and a manifest.

Rules
-----
- Items of one id join; the same (id, stream) twice is an error before any work.
- Tables go twice: a look at each gives its schema, the schemas of a stream are merged, then all
  are written with the merged one. A value that does not fit widens it, and the stream is written
  again: the result does not depend on what was looked at.
- A task is one table item, or consecutive media items whose sound fills a shard.
"""

from __future__ import annotations

import codecs
import zoneinfo
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

from mmprep import files, tables
from mmprep.errors import DataError, UsageError
from mmprep.manifest.model import Record, Session, StreamRef, shard_ref, table_ref
from mmprep.shards import plan_shards
from mmprep.sources import text
from mmprep.sources.base import TextOptions
from mmprep.steps import base, claims, curate, labels, schemafile, sounds, texts
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
from mmprep.steps.claims import Claimed
from mmprep.steps.columns import POLICIES, Look, Settler, StreamSchema
from mmprep.steps.corpora import CORPORA
from mmprep.steps.curate import Curated, Lost
from mmprep.steps.inputs import Inputs, expand
from mmprep.steps.layout import layout
from mmprep.steps.place import Place
from mmprep.steps.shardbook import ShardBook
from mmprep.steps.sizes import parse_bytes
from mmprep.timebase import rate, rate_number

STEP = StepName("convert", 1)
PROBES_A_TASK = 32
_CONTENT = (
    *("layout", "text", "on", "on_column_change"),
    *("resample", "mono", "channel", "audio_dtype"),
)
_OF_STREAMS = ("declared", "time_hint")  # of the text options; the schema file is an input


@dataclass(frozen=True, slots=True)
class Config:
    """Options of `mmprep convert`, named as on the command line."""

    inputs: tuple[str, ...]
    layout: str | None = None
    text: str | None = None
    labels: str | None = None
    on: str | None = None
    delimiter: str | None = None
    quote: str | None = None
    header: bool | None = None
    columns: str | None = None
    time: str | None = None
    time_unit: str | None = None
    tz: str | None = None
    null: tuple[str, ...] = ()
    encoding: str | None = None
    rate: str | None = None
    unit: tuple[str, ...] = ()
    schema: str | None = None
    write_schema: str | None = None
    on_column_change: str = "add"
    split_by: str | None = None
    on_bad_row: str = "fail"
    float32: bool = False
    compression_level: int = 1
    resample: int | None = None
    mono: bool = False
    channel: int | None = None
    audio_dtype: str = "float32"
    shard_size: str = "256MiB"
    root: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def text_options(self) -> TextOptions:
        """Give the options that the readers of tables take.

        Raises
        ------
        UsageError
            `--unit` without `=`, a rate, zone or encoding that is none.
        """
        _check_names(self)
        return TextOptions(
            delimiter=self.delimiter,
            quote=self.quote,
            header=self.header,
            columns=tuple(self.columns.split(",")) if self.columns else (),
            time=self.time,
            time_unit=self.time_unit,
            tz=self.tz,
            null=self.null,
            encoding=self.encoding,
            rate_hz=rate(self.rate, where="--rate") if self.rate else None,
            units=tuple(_pair(text) for text in self.unit),
            split_by=self.split_by,
            on_bad_row=self.on_bad_row,
            float32=self.float32,
            compression_level=self.compression_level,
        )

    def sound_options(self) -> dict[str, Any]:
        """Give what changes the sound, as JSON values."""
        return {
            "resample_hz": self.resample,
            "mono": self.mono,
            "channel": self.channel,
            "dtype": self.audio_dtype,
        }


def _check_names(config: Config) -> None:
    """Refuse zones, encodings and policies that do not exist."""
    if config.on_column_change not in POLICIES:
        raise UsageError(
            f"{config.on_column_change!r} is none of {', '.join(POLICIES)}",
            where="--on-column-change",
        )
    if config.tz is not None and config.tz not in zoneinfo.available_timezones():
        raise UsageError(f"there is no zone {config.tz!r}", where="--tz", hint="as in Europe/Rome")
    try:
        codecs.lookup(config.encoding or "utf-8")
    except LookupError as error:
        raise UsageError(f"there is no encoding {config.encoding!r}", where="--encoding") from error


def _pair(text: str) -> tuple[str, str]:
    name, mark, unit = text.partition("=")
    if not mark or not name:
        raise UsageError(f"{text!r} is not COL=U", where="--unit")
    return name, unit


def run(
    config: Config,
    options: RunOptions,
    *,
    engine: Engine = base.serial,
    progress: Progress | None = None,
) -> StepResult:
    """Convert raw files and write the data set."""
    if not config.inputs:
        raise UsageError("no INPUT", hint="name files or a folder")
    plan = _plan(config, options)
    with base.open_run(
        STEP, _content(config, plan), options, root=plan.root, engine=engine, progress=progress
    ) as session:
        _tell_skipped(plan, session)
        sound_tasks = list(_media_tasks(plan))
        table_items = [_table_item(claimed, plan) for claimed in plan.claimed if claimed.is_table]
        session.expect(_about_bytes(plan))
        if options.dry_run:
            return session.preview(
                [*sound_tasks, *_single_tasks(table_items, {})], _about_bytes(plan)
            )
        written, schemas = _write_tables(session, table_items, plan, options.cpus)
        sounding = session.map(Work("mmprep.steps.media:convert"), sound_tasks, label="media")
        session.check_failures()
        contents = _contents(plan, session, written, sounding)
        if config.write_schema is not None:
            _write_schema(Path(config.write_schema).absolute(), schemas, written)
        return session.commit(contents)


# What to do ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Plan:
    """Who takes which files, and with what options."""

    root: Path
    claimed: tuple[Claimed, ...]
    skipped: tuple[str, ...]
    folders: tuple[str, ...]
    config: Config
    options: TextOptions
    shard_size: int
    label_table: labels.LabelTable | None
    curated: Curated
    schema: schemafile.Schema


def _plan(config: Config, options: RunOptions) -> _Plan:
    inputs = expand(
        config.inputs,
        root=Path(config.root) if config.root else None,
        include=config.include,
        exclude=config.exclude,
        output=options.output,
    )
    if inputs.datasets:
        raise UsageError(
            "is a data set already", where=str(inputs.datasets[0]), hint="align or mfcc take it"
        )
    label_table = labels.read(config.labels, config.on) if config.labels else None
    if label_table is not None and label_table.has_intervals:
        raise UsageError(
            "has intervals (begin_s, end_s), and convert cuts no windows",
            where=config.labels,
            hint="give it to align",
        )
    schema = schemafile.read(config.schema) if config.schema else {}
    _check_place(config, options.output)
    inputs = _without(inputs, config.labels, config.schema, config.write_schema)
    known, inputs = curate.curated(config.layout, CORPORA.get(config.layout or ""), inputs)
    found = claims.claim_all(inputs, layout(config.layout) if config.layout else None)
    patterns = (config.text,) if config.text else known.corpus.texts
    claimed = tuple(
        replace(one, text=texts.find(one, inputs.root, patterns)) for one in found.claimed
    )
    beside = {name for one in claimed for name in (one.text, one.clock)}
    return _Plan(
        inputs.root,
        claimed,
        tuple(name for name in found.skipped if name not in beside),
        inputs.folders,
        config,
        config.text_options(),
        parse_bytes(config.shard_size),
        label_table,
        known,
        schema,
    )


def _without(inputs: Inputs, *paths: str | None) -> Inputs:
    """Leave labels and schema files out where they lie among the recordings."""
    others = {Path(path).absolute() for path in paths if path is not None}
    if not others:
        return inputs
    names = tuple(n for n in inputs.names if inputs.root / n not in others)
    return replace(inputs, names=names)


def _check_place(config: Config, output: Path) -> None:
    """Refuse to write the schema where it would be lost, or change an input."""
    if config.write_schema is None:
        return
    path = Path(config.write_schema).absolute()
    if path.is_relative_to(output):
        raise UsageError("lies inside OUT", where="--write-schema", hint="choose another place")
    if config.schema is not None and path == Path(config.schema).absolute():
        raise UsageError("is the file of --schema", where="--write-schema", hint="name another")


def _content(config: Config, plan: _Plan) -> dict[str, Any]:
    """Name the options that change what is written."""
    content: dict[str, Any] = {name: getattr(config, name) for name in _CONTENT}
    content |= msgspec.to_builtins(plan.options, enc_hook=str)
    content = {name: value for name, value in content.items() if name not in _OF_STREAMS}
    content["shard_size"] = plan.shard_size
    content["on_bad_row"] = config.on_bad_row
    return dict(sorted(content.items()))


def _tell_skipped(plan: _Plan, session: base.Run) -> None:
    if plan.skipped:
        session.progress.say(
            f"{len(plan.skipped)} files that no reader takes were skipped ({plan.skipped[0]}, ...)"
        )


def _about_bytes(plan: _Plan) -> int:
    sounds_bytes = sum(
        sounds.decoded_bytes(c.source, c.n_bytes) for c in plan.claimed if c.is_sound
    )
    return sounds_bytes + sum(c.n_bytes for c in plan.claimed if c.is_table) // 4


def _media_tasks(plan: _Plan) -> Iterator[Task]:
    with_sound = {c.id for c in plan.claimed if c.is_sound and c.stream == "audio"}
    items = [_media_item(c, plan, with_sound) for c in plan.claimed if not c.is_table]
    sizes = [sounds.decoded_bytes(item.source, item.n_bytes) for item in items]
    spec = {"sound": plan.config.sound_options(), "shard_size": plan.shard_size}
    for part in plan_shards(sizes, plan.shard_size):
        chosen = tuple(items[part.start : part.stop])
        yield Task(chosen[0].id, chosen, spec)


def _media_item(claimed: Claimed, plan: _Plan, with_sound: set[str]) -> Item:
    spec = {
        "kind": claimed.reader,
        "stream": claimed.stream,
        "clock": claimed.clock is not None,
        "text": claimed.text is not None,
        "sound": not (claimed.is_video and claimed.id in with_sound),
    }
    paths = claimed.paths(plan.root)
    return Item(claimed.id, paths, claimed.n_bytes, spec, claimed.source, str(plan.root))


def _table_item(claimed: Claimed, plan: _Plan) -> Item:
    is_split = plan.options.split_by is not None
    if is_split and claimed.reader != text.READER:
        raise UsageError(
            f"is a format of its own ({claimed.reader}), which --split-by does not go into",
            where=claimed.source,
            hint="leave it out with --exclude, or convert it alone",
        )
    spec = {
        "claim": msgspec.to_builtins(claimed.claim),
        "root": str(plan.root),
        "clock": claimed.clock is not None,
        "streams": dict(claimed.streams),
        "stream": claimed.place.stream if claimed.place else None,
        "is_cut": plan.curated.corpus.is_cut,
        "triggers": msgspec.to_builtins(plan.curated.corpus.triggers),
        "declared": schemafile.declared(
            claims.own_names(claimed, plan.schema, is_split=is_split),
            plan.schema,
            looks_further=plan.config.on_column_change == "add",
        ),
        "split": claimed.stream if is_split else None,
    }
    paths = claimed.paths(plan.root)
    return Item(claimed.id, paths, claimed.n_bytes, spec, claimed.source, str(plan.root))


def _single_tasks(items: Sequence[Item], spec: Mapping[str, Any]) -> list[Task]:
    return [Task(item.id, (item,), dict(spec)) for item in items]


# Tables: look, merge, write, widen ----------------------------------------------------------------


def _write_tables(
    session: base.Run, items: Sequence[Item], plan: _Plan, cpus: int
) -> tuple[list[Outcome], dict[str, StreamSchema]]:
    options = msgspec.to_builtins(plan.options, enc_hook=str)
    items, looks, spans = _look(session, items, options)
    _refuse_doubles(items, plan)
    settler = Settler(
        plan.schema,
        plan.config.on_column_change,
        dict(plan.options.units),
        session.progress.say,
    )
    schemas = settler.settle(_by_stream(items, looks))
    _check_units(plan.options, schemas)
    _tell_texts(schemas, session.progress)
    todo = [part for item in items for part in _parts(item, spans.get(item.source, ()))]
    parts, done = todo, dict[tuple[str, int], Outcome]()
    while todo:
        tasks = [_write_task(item, schemas, options) for item in todo]
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


def _key(item: Item) -> tuple[str, int]:
    return item.source, item.spec.get("part", 0)


def _write_schema(
    path: Path, schemas: Mapping[str, StreamSchema], written: Sequence[Outcome]
) -> None:
    """Write the file of `--write-schema`, unless the same one stands there."""
    rates: dict[str, set[str | None]] = {}
    for outcome in written:
        for fact in (outcome.value or {}).get("items", {}).values():
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
        if names and len(names) < len(columns):
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
) -> tuple[list[Item], dict[str, dict[str, Any]], dict[str, list[dict[str, int]]]]:
    """Look at the tables: the items that could be read, their schemas, the parts of long ones."""
    looks: dict[str, dict[str, Any]] = {}
    spans: dict[str, list[dict[str, int]]] = {}
    failed: set[str] = set()
    for outcome in _probe(session, items, options):
        looks.update((outcome.value or {}).get("schemas", []))
        spans |= (outcome.value or {}).get("spans", {})
        failed |= {failure.source for failure in outcome.failures}
    named = [
        replace(item, spec={**item.spec, "streams": _stream_names(item, looks[item.source])})
        for item in items
        if looks.get(item.source) and item.source not in failed
    ]
    return named, looks, spans


def _stream_names(item: Item, look: Mapping[str, Any]) -> dict[str, str]:
    """Name the streams that the look found: as planned, else as path and reader do."""
    planned = item.spec["streams"]
    if item.spec["split"] is not None:
        ((stem, stream),) = planned.items()
        return {own: stream + own.removeprefix(stem) for own in look}
    place = Place(item.id, stream=item.spec["stream"])
    return {own: planned.get(own) or claims.stream_name(own, place) for own in look}


def _refuse_doubles(items: Sequence[Item], plan: _Plan) -> None:
    """Refuse two items that would write one table."""
    seen = {(c.id, c.stream): c.source for c in plan.claimed if not c.is_table}
    for item in items:
        for stream in item.spec["streams"].values():
            other = seen.setdefault((item.id, stream), item.source)
            if other != item.source:
                raise UsageError(
                    f"{other} and {item.source} would both be stream {stream!r} of {item.id!r}",
                    hint="give a --layout, or leave one of them out with --exclude",
                )


def _by_stream(
    items: Sequence[Item], looks: Mapping[str, Mapping[str, Any]]
) -> dict[str, list[Look]]:
    found: dict[str, list[Look]] = {}
    for item in items:
        for own, stream in item.spec["streams"].items():
            schema = texts.schema_of(looks[item.source][own])
            found.setdefault(stream, []).append(Look(item.source, schema))
    return found


def _write_task(item: Item, schemas: Mapping[str, StreamSchema], options: dict[str, Any]) -> Task:
    streams = item.spec["streams"]
    chosen = {s: msgspec.to_builtins(schemas[s].schema) for s in streams.values()}
    spec = {"options": options, "schemas": chosen, "streams": streams}
    return Task(item.id, (item,), spec)


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


# The data set -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Draft:
    """A record while its items come in."""

    claimed: Claimed
    streams: dict[str, StreamRef] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    duration_s: float = 0.0
    text: str | None = None
    words: list[list[Any]] | None = None
    source: str | None = None
    start_ns: int | None = None
    parts: list[dict[str, Any]] = field(default_factory=list)


def _contents(
    plan: _Plan, session: base.Run, written: Sequence[Outcome], sounding: Sequence[Outcome]
) -> Contents:
    book = ShardBook()
    placed: dict[str, Placed] = {}
    facts: dict[str, dict[str, Any]] = {}
    for outcome in (*written, *sounding):
        value = outcome.value or {}
        names = book.add(value)
        placed |= session.placed(outcome, names)
        for source, fact in value.get("items", {}).items():
            renamed = _renamed(fact, names)
            facts[source] = _joined(facts[source], renamed) if source in facts else renamed
    failed = {(failure.id, failure.source) for failure in session.failures}
    drafts: dict[str, _Draft] = {}
    for claimed in plan.claimed:
        if claimed.source in facts and (claimed.id, claimed.source) not in failed:
            draft = drafts.setdefault(claimed.id, _Draft(claimed))
            _add(draft, claimed, facts[claimed.source])
    _warn(session, facts)
    lost = Lost()
    drafted = [_record(draft) for _, draft in sorted(drafts.items())]
    parts = [part for r in drafted for part in curate.cut(r, drafts[r.id].parts, lost)]
    known, remarks = plan.curated.complete(parts, lost)
    records, said = labels.join(known, [plan.label_table] if plan.label_table else [])
    for remark in (*remarks, *said):
        session.progress.say(remark)
    beside = (plan.config.labels, plan.config.schema)
    return Contents(
        records,
        book.modalities(),
        _sessions(records, drafts),
        placed,
        extra_inputs=(
            *(str(Path(name).absolute()) for name in beside if name),
            *plan.curated.paths,
        ),
        folders=plan.folders,
        media_root=plan.root,
        n_rejected_rows=sum(fact.get("n_rejected", 0) for fact in facts.values()),
    )


def _renamed(fact: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    streams = {
        name: {**ref, "shard": names.get(ref["shard"], ref["shard"])} if "shard" in ref else ref
        for name, ref in fact["streams"].items()
    }
    return {**fact, "streams": streams}


def _joined(first: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """Join the facts of a long table and of its next part."""
    streams = {
        name: {**ref, "parts": [*ref.get("parts", []), _table_part(later["streams"][name])]}
        for name, ref in first["streams"].items()
    }
    return {
        **first,
        "streams": streams,
        "duration_s": max(first["duration_s"], later["duration_s"]),
        "n_rejected": first["n_rejected"] + later["n_rejected"],
        "notes": list(dict.fromkeys([*first["notes"], *later["notes"]])),
        "warnings": [*first["warnings"], *later["warnings"]],
    }


def _table_part(ref: dict[str, Any]) -> dict[str, Any]:
    return {"table": ref["table"], "rows": ref["rows"]}


def _add(draft: _Draft, claimed: Claimed, fact: dict[str, Any]) -> None:
    draft.streams |= {name: _stream_ref(ref) for name, ref in fact["streams"].items()}
    draft.sources |= dict.fromkeys(fact["streams"], claimed.source)
    draft.duration_s = max(draft.duration_s, fact["duration_s"])
    draft.text = fact.get("text") or draft.text
    draft.words = fact.get("words") or draft.words
    draft.parts += fact.get("parts") or []
    if draft.source is None or (claimed.is_sound and not draft.claimed.is_sound):
        draft.source, draft.claimed = claimed.source, claimed
    if fact.get("start_ns") is not None:
        starts = [draft.start_ns, fact["start_ns"]]
        draft.start_ns = min(start for start in starts if start is not None)


def _stream_ref(ref: dict[str, Any]) -> StreamRef:
    begin, end = ref["rows"]
    rate_hz = rate_number(Fraction(ref["rate_hz"])) if ref["rate_hz"] else None
    if "table" in ref:
        table = table_ref(ref["table"], (begin, end), rate_hz=rate_hz, clock=ref["clock"])
        extra = {name: ref[name] for name in ("kind", "parts") if name in ref}
        return msgspec.structs.replace(table, extra=extra)
    shard = shard_ref(ref["shard"], (begin, end), rate_hz=rate_hz, offset_s=ref["offset_s"])
    return msgspec.structs.replace(shard, clock=ref["clock"], extra=ref.get("lengths", {}))


def _record(draft: _Draft) -> Record:
    place = draft.claimed.place
    return Record(
        id=draft.claimed.id,
        session=draft.claimed.session,
        subject=place.subject if place else None,
        split=place.split if place else None,
        begin_s=0.0,
        duration_s=round(draft.duration_s, 9),
        text=draft.text,
        words=tuple((word, begin, end) for word, begin, end in draft.words or ()) or None,
        source=draft.source,
        streams=dict(sorted(_with_sources(draft).items())),
        extra=_extra(place.fields) if place else {},
    )


def _with_sources(draft: _Draft) -> dict[str, StreamRef]:
    """Name the source of a stream that comes from another file than the record's."""
    return {
        name: ref
        if draft.sources[name] == draft.source
        else msgspec.structs.replace(ref, extra={**ref.extra, "source": draft.sources[name]})
        for name, ref in draft.streams.items()
    }


def _extra(fields: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in fields.items() if name != "stem"}


def _sessions(records: Sequence[Record], drafts: Mapping[str, _Draft]) -> dict[str, Session]:
    """Name the sessions; one record with absolute stamps gives its session an origin."""
    count: dict[str, int] = {}
    for record in records:
        count[record.session] = count.get(record.session, 0) + 1
    starts = {
        r.session: drafts[r.id].start_ns
        for r in records
        if count[r.session] == 1 and r.id in drafts
    }
    return {
        name: Session(
            origin_ns=starts.get(name), clock="device" if starts.get(name) is not None else None
        )
        for name in sorted(count)
    }


def _warn(session: base.Run, facts: Mapping[str, dict[str, Any]]) -> None:
    said: dict[str, list[str]] = {}
    for source, fact in facts.items():
        if fact.get("n_rejected"):
            session.progress.warn(f"{source}: {fact['n_rejected']} rows rejected, see rejects/")
        for note in fact.get("notes", ()):
            said.setdefault(note, []).append(source)
        for note in fact.get("warnings", ()):
            session.progress.warn(note)
    for note, sources in said.items():
        more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
        session.progress.say(f"{sources[0]}{more}: {note}")
    unlike = [(source, fact["lengths"]) for source, fact in facts.items() if fact.get("lengths")]
    if unlike:
        source, (decoded, declared) = unlike[0]
        session.progress.say(
            f"{len(unlike)} files hold another number of samples than they declare"
            f" ({source}: {decoded}, declared {declared}); what was decoded counts"
        )
