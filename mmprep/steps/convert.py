"""`convert`: raw tables, sound and video to Parquet, shards and a manifest.

Rules
-----
- Items of one id join; the same (id, stream) twice is an error before any work.
- Tables go first (`tablework`), then sound and video: a task is consecutive items whose sound fills
  a shard. `drafts` makes records of what was found.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mmprep.errors import UsageError
from mmprep.shards import plan_shards
from mmprep.sources import text
from mmprep.sources.base import TextOptions
from mmprep.steps import base, sounds
from mmprep.steps.base import (
    Engine,
    Item,
    Progress,
    RunOptions,
    StepName,
    StepResult,
    Task,
    Work,
)
from mmprep.steps.corpus import curate
from mmprep.steps.corpus.corpora import CORPORA
from mmprep.steps.corpus.curate import Curated
from mmprep.steps.corpus.layout import layout
from mmprep.steps.inputs import Inputs, expand, skipped_note
from mmprep.steps.intake import claims, drafts, schemafile, texts
from mmprep.steps.intake.claims import Claimed
from mmprep.steps.intake.columns import POLICIES
from mmprep.steps.intake.tablework import Wishes, write_schema, write_tables
from mmprep.steps.labels import joining
from mmprep.steps.running import seen
from mmprep.steps.running.contents import Contents, Corpus
from mmprep.steps.running.names import Names
from mmprep.steps.sizes import parse_bytes
from mmprep.timebase import rate

if TYPE_CHECKING:  # a walk does without them, and starts sooner
    from mmprep.steps.study.importing import Imported
    from mmprep.steps.study.table import Study

STEP = StepName("convert", 2)
_CONTENT = (
    *("layout", "text", "on_column_change"),
    *("resample", "mono", "channel", "audio_dtype"),
)
_OF_STREAMS = ("declared", "time_hint")  # of the text options; the schema file is an input


@dataclass(frozen=True, slots=True)
class Config:
    """Options of `mmprep convert`, named as on the command line."""

    inputs: tuple[str, ...] = ()
    sessions: str | None = None
    imported: tuple[str, ...] = ()
    media_root: str | None = None
    layout: str | None = None
    text: str | None = None
    ids: str | None = None
    labels: str | tuple[str, ...] | None = None
    on: str | tuple[str, ...] | None = None
    label: str | None = None
    label_bins: str | None = None
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
    keep_device: bool = False
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
            keep_device=self.keep_device,
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
        "".encode(config.encoding or "utf-8")
    except (LookupError, UnicodeError) as error:  # base64 and its like are none of texts
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
    known = _study(config)
    foreign = _foreign(config)
    inputs = _inputs(config, options, known, foreign)
    key = _key(config, inputs)
    if (standing := base.standing(STEP, options, key)) is not None:
        return standing
    plan = _plan(config, options, inputs, known, foreign)
    corpus = _corpus(key, plan)
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
        written, schemas = write_tables(session, table_items, _wishes(plan), options.cpus)
        work = Work("mmprep.steps.intake.media:convert")
        sounding = session.map(work, sound_tasks, label="media")
        session.check_failures()
        found = drafts.contents(_sources(plan, corpus), session, [*written, *sounding])
        if plan.foreign is not None:
            found = _stretches(found, plan.foreign, plan, session)
        if config.write_schema is not None:
            write_schema(Path(config.write_schema).absolute(), schemas, written)
        return session.commit(found)


def _stretches(found: Contents, foreign: Imported, plan: _Plan, session: base.Run) -> Contents:
    """Make a record of each stretch that a foreign manifest lists."""
    from mmprep.steps.study import importing

    records, notes = importing.cut(found.records, foreign, plan.root)
    for note in notes:
        session.progress.warn(note)
    return replace(found, records=records)


# What to do ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Plan:
    """Who takes which files, and with what options."""

    root: Path
    claimed: tuple[Claimed, ...]
    skipped: tuple[str, ...]
    idle: tuple[str, ...]
    folders: tuple[str, ...]
    config: Config
    options: TextOptions
    shard_size: int
    labels: joining.Labels
    curated: Curated
    schema: schemafile.Schema
    names: Names
    foreign: Imported | None = None


def _study(config: Config) -> Study | None:
    """Read the table of sessions, which stands for INPUT."""
    if config.sessions is None:
        if not config.inputs and not config.imported:
            raise UsageError("no INPUT", hint="name files or a folder, or --sessions FILE")
        return None
    if config.inputs:
        raise UsageError(
            "INPUT and a table of sessions together", where="--sessions", hint="name one of both"
        )
    if config.layout is not None:
        hint = "the columns say what the paths are"
        raise UsageError("--layout and a table of sessions together", where="--layout", hint=hint)
    from mmprep.steps.study import table

    return table.read(config.sessions)


def _foreign(config: Config) -> Imported | None:
    """Read foreign manifests, which stand for INPUT: their kind, then their paths."""
    if not config.imported:
        return None
    from mmprep.steps.study import importing

    kind, *paths = config.imported
    return importing.read(kind, paths, config.media_root)


def _inputs(
    config: Config,
    options: RunOptions,
    known: Study | None,
    foreign: Imported | None,
) -> Inputs:
    arguments = config.inputs if known is None else known.files
    return expand(
        arguments if foreign is None else tuple(dict.fromkeys(foreign.sounds.values())),
        root=Path(config.root) if config.root else None,
        include=config.include,
        exclude=config.exclude,
        output=options.output,
    )


def _key(config: Config, inputs: Inputs) -> str | None:
    """Give the key of an unchanged corpus; None where the run does more than a data set."""
    if config.write_schema is not None or inputs.datasets or config.imported:
        return None
    beside = (*_label_wish(config).files, config.schema, config.sessions, config.ids)
    return seen.key(STEP, config, inputs, filter(None, beside))


def _corpus(key: str | None, plan: _Plan) -> Corpus | None:
    if key is None:
        return None
    beside = (*_beside(plan), *plan.curated.paths)
    paths = [str(Path(path).absolute()) for path in beside]
    return Corpus(key, {path: seen.stamp_of(path) for path in paths})


def _plan(
    config: Config,
    options: RunOptions,
    inputs: Inputs,
    study: Study | None,
    foreign: Imported | None,
) -> _Plan:
    if inputs.datasets:
        raise UsageError(
            "is a data set already", where=str(inputs.datasets[0]), hint="align or mfcc take it"
        )
    known_labels = joining.read(_label_wish(config))
    if timed := [table.path for table in known_labels.tables if table.is_timed]:
        raise UsageError(
            "has intervals (begin_s, end_s), and convert cuts no windows",
            where=timed[0],
            hint="give it to align",
        )
    schema = schemafile.read(config.schema) if config.schema else {}
    names = Names.read(config.ids)
    _check_place(config, options.output)
    inputs = _without(inputs, *known_labels.paths, config.schema, config.write_schema, config.ids)
    known, inputs = curate.curated(config.layout, CORPORA.get(config.layout or ""), inputs)
    found = _claims(config, inputs, study, foreign)
    patterns = (config.text,) if config.text else known.corpus.texts
    claimed = tuple(
        replace(one, text=texts.find(one, inputs.root, patterns)) for one in found.claimed
    )
    names.check((one.place.subject if one.place else None, one.session) for one in claimed)
    names.check_streams(name for one in claimed for name in one.streams.values())
    beside = {name for one in claimed for name in (one.text, one.clock)}
    return _Plan(
        inputs.root,
        claimed,
        tuple(name for name in found.skipped if name not in beside),
        found.idle,
        inputs.folders,
        config,
        config.text_options(),
        parse_bytes(config.shard_size),
        known_labels,
        known,
        schema,
        names,
        foreign,
    )


def _claims(
    config: Config, inputs: Inputs, study: Study | None, foreign: Imported | None
) -> claims.Claims:
    """Let readers claim what a foreign manifest, a table of sessions or the walk names."""
    if foreign is not None:
        from mmprep.steps.study import importing

        return claims.Claims(importing.claimed(foreign, inputs), ())
    if study is not None:
        from mmprep.steps.study import claiming

        return claims.Claims(claiming.claimed(study, inputs, config.text_options()), ())
    return claims.claim_all(inputs, layout(config.layout) if config.layout else None)


def _label_wish(config: Config) -> joining.Wish:
    return joining.Wish(
        joining.texts(config.labels), joining.texts(config.on), config.label, config.label_bins
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
    content |= _label_wish(config).content()
    return dict(sorted(content.items()))


def _tell_skipped(plan: _Plan, session: base.Run) -> None:
    if plan.skipped:
        session.progress.say(skipped_note(plan.skipped))
    if plan.idle:
        session.progress.say(
            f"{len(plan.idle)} clock logs lie beside no recording of their name and were left"
            f" out ({plan.idle[0]}, ...)"
        )


def _about_bytes(plan: _Plan) -> int:
    sounds_bytes = sum(
        sounds.decoded_bytes(c.source, c.n_bytes) for c in plan.claimed if c.is_sound
    )
    return sounds_bytes + sum(c.n_bytes for c in plan.claimed if c.is_table) // 4


def _media_tasks(plan: _Plan) -> Iterator[Task]:
    with_sound = {c.id for c in plan.claimed if c.is_sound and c.stream == "audio"}  # of a walk
    items = [_media_item(c, plan, with_sound) for c in plan.claimed if not c.is_table]
    sizes = [sounds.decoded_bytes(item.source, item.n_bytes) for item in items]
    spec = {"sound": plan.config.sound_options(), "shard_size": plan.shard_size}
    for part in plan_shards(sizes, plan.shard_size):
        chosen = tuple(items[part.start : part.stop])
        yield Task(chosen[0].id, chosen, spec)


def _media_item(claimed: Claimed, plan: _Plan, with_sound: set[str]) -> Item:
    spec = {
        "name": claimed.name,
        "kind": claimed.reader,
        "stream": claimed.stream,
        "tracks": None if claimed.is_whole else dict(claimed.streams),
        "clock": claimed.clock,
        "text": claimed.text is not None,
        "sound": not (claimed.is_video and claimed.id in with_sound),
    }
    return _item(claimed, spec, plan)


def _item(claimed: Claimed, spec: dict[str, Any], plan: _Plan) -> Item:
    paths, own_id = claimed.paths(plan.root), plan.names.text(claimed.id)
    return Item(own_id, paths, claimed.n_bytes, spec, claimed.source, str(plan.root))


def _table_item(claimed: Claimed, plan: _Plan) -> Item:
    is_split = plan.options.split_by is not None
    if is_split and claimed.reader != text.READER:
        raise UsageError(
            f"is a format of its own ({claimed.reader}), which --split-by does not go into",
            where=claimed.source,
            hint="leave it out with --exclude, or convert it alone",
        )
    spec = {
        "name": claimed.name,
        "is_whole": claimed.is_whole,
        "tz": claimed.tz,
        "claim": msgspec.to_builtins(claimed.claim),
        "root": str(plan.root),
        "clock": claimed.clock,
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
    if claimed.piece is not None:
        spec["piece"] = claimed.piece
    return _item(claimed, spec, plan)


def _wishes(plan: _Plan) -> Wishes:
    taken = {(plan.names.text(c.id), c.stream): c.source for c in plan.claimed if not c.is_table}
    return Wishes(plan.options, plan.schema, plan.config.on_column_change, taken)


def _sources(plan: _Plan, corpus: Corpus | None) -> drafts.Sources:
    return drafts.Sources(
        plan.root,
        plan.claimed,
        plan.folders,
        plan.curated,
        plan.labels,
        _beside(plan),
        plan.names,
        corpus,
    )


def _beside(plan: _Plan) -> tuple[str, ...]:
    """Name the further inputs."""
    config = plan.config
    listed = plan.foreign.manifests if plan.foreign is not None else ()
    own = filter(None, (config.schema, config.sessions, config.ids))
    return (*plan.labels.paths, *own, *listed)


def _single_tasks(items: Sequence[Item], spec: Mapping[str, Any]) -> list[Task]:
    return [Task(item.id, (item,), dict(spec)) for item in items]
