"""`align`: data sets, or the named streams of one session, onto common windows.

Rules
-----
- The records of a session are joined. A session whose records hold the same stream twice (many
  utterances in one folder) is aligned record by record.
- `DATASET#STREAM` takes one stream; without it all streams that have a rate are taken.
- One task is one session.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from mmprep import files, media
from mmprep.errors import DataError, UsageError
from mmprep.manifest.model import Record, Session
from mmprep.media import AUDIO_SUFFIXES, VIDEO_SUFFIXES
from mmprep.steps import base, datasets
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
from mmprep.steps.datasets import InputDataset
from mmprep.steps.inputs import expand, size_of
from mmprep.steps.instants import instant_ns
from mmprep.steps.labels import joining
from mmprep.steps.namevalue import pair
from mmprep.steps.running.shardbook import ShardBook
from mmprep.steps.sessions import eventoption, windowlist
from mmprep.steps.sessions.needs import memory_bytes
from mmprep.steps.sessions.streamspec import StreamSpec, spec_of
from mmprep.steps.sizes import parse_bytes
from mmprep.steps.sounds import suffix_of
from mmprep.timebase import rate, rate_text

STEP = StepName("align", 2)
RESERVED = frozenset({"", "id", "label", "labels", "sync", "tables", "rejects", "text"})
KINDS = ("signal", "video", "audio", "events")
KIND_OF_MODALITY = {"audio": "audio", "features": "signal", "signal": "signal"}


@dataclass(frozen=True, slots=True)
class Config:
    """Options of `mmprep align`, named as on the command line."""

    inputs: tuple[str, ...] = ()
    video: str | None = None
    eeg: str | None = None
    gsr: str | None = None
    stream: tuple[str, ...] = ()
    session: str = "session"
    clock: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    latency: tuple[str, ...] = ()
    session_clock: str | None = None
    window: str = "1"
    hop: str | None = None
    rates: str | None = None
    rate: str | None = None
    cover: str = "intersection"
    on_gap: str = "mask"
    tolerance: float | None = None
    min_valid: float = 0.0
    method: tuple[str, ...] = ()
    frames: str | None = None
    gray: bool = False
    fit: str = "cover"
    media_root: str | None = None
    labels: str | tuple[str, ...] | None = None
    on: str | tuple[str, ...] | None = None
    label: str | None = None
    label_bins: str | None = None
    label_time: str | None = None
    label_agg: str | None = None
    label_lag: float | None = None
    shard_size: str = "256MiB"
    root: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def wish(self) -> dict[str, Any]:
        """Give what changes the windows, as JSON values.

        Raises
        ------
        UsageError
            A number, size or NAME=VALUE that is none.
        """
        pairs = [pair(text, "--rates") for text in (self.rates or "").split(",") if text]
        rates = {name: rate_text(rate(text, where="--rates")) for name, text in sorted(pairs)}
        window = _seconds(self.window, "--window")
        for option, number in (("--tolerance", self.tolerance), ("--min-valid", self.min_valid)):
            if number is not None and not math.isfinite(number):
                raise UsageError(f"{number} is no number", where=option)
        return {
            "window": str(window),
            "hop": str(_seconds(self.hop, "--hop") if self.hop else window),
            "rates": {
                name: rate_text(rate(text, where="--rates")) for name, text in sorted(rates.items())
            },
            "rate": rate_text(rate(self.rate, where="--rate")) if self.rate else None,
            "cover": self.cover,
            "on_gap": self.on_gap,
            "tolerance_s": None if self.tolerance is None else self.tolerance / 1000,
            "min_valid": self.min_valid,
            "methods": dict(sorted(pair(text, "--method") for text in self.method)),
            "frames": _frame_size(self.frames) if self.frames else None,
            "gray": self.gray,
            "fit": self.fit,
            "session_clock": self.session_clock,
            "shard_size": parse_bytes(self.shard_size),
        }


def _seconds(text: str, option: str) -> Fraction:
    try:
        seconds = Fraction(text)
    except (ValueError, ZeroDivisionError) as error:
        raise UsageError(f"{text!r} is no number of seconds", where=option) from error
    if seconds <= 0:
        raise UsageError(f"{text} s is not positive", where=option)
    return seconds


def _frame_size(text: str) -> list[int]:
    width, mark, height = text.lower().partition("x")
    if not mark or not (width.isdigit() and height.isdigit()) or 0 in {int(width), int(height)}:
        raise UsageError(f"{text!r} is not WxH", where="--frames", hint="for example 64x64")
    return [int(width), int(height)]


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
    wish = config.wish()
    plan = _named_plan(config) if _named(config) else _dataset_plan(config, options)
    _check_names(plan, wish)
    known = joining.read(wanted)
    content = {**wish, **wanted.content()}
    with base.open_run(
        STEP, content, options, root=plan.root, engine=engine, progress=progress
    ) as current:
        for note in plan.notes:
            current.progress.say(note)
        tasks = [Task(item.id, (item,), wish, _memory(item)) for item in plan.items]
        if options.dry_run:
            return current.preview(tasks, sum(item.n_bytes for item in plan.items))
        outcomes = current.map(Work("mmprep.steps.sessions.session:run"), tasks, label="align")
        current.check_failures()
        return current.commit(_contents(plan, current, outcomes, known))


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


# What to do ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Plan:
    """The sessions, and the records they come from."""

    root: Path
    items: tuple[Item, ...]
    templates: Mapping[str, Record]
    extra_inputs: tuple[str, ...] = ()
    media_root: Path | None = None
    notes: tuple[str, ...] = ()


def _check_names(plan: _Plan, wish: Mapping[str, Any]) -> None:
    """Refuse options that name a stream which no session has."""
    known = {spec["name"] for item in plan.items for spec in item.spec["streams"]}
    asked = {"--rates": wish["rates"], "--method": wish["methods"]}
    if wish["session_clock"]:
        asked["--session-clock"] = {wish["session_clock"]: ""}
    if wish["frames"] and not any(
        s["kind"] == "video" for i in plan.items for s in i.spec["streams"]
    ):
        raise UsageError("there is no video", where="--frames")
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


def _named(config: Config) -> dict[str, str]:
    """Give the streams that are named one by one: NAME -> FILE and its settings."""
    found = {name: getattr(config, name) for name in ("video", "eeg", "gsr")}
    named = {name: path for name, path in found.items() if path is not None}
    for text in config.stream:
        name, value = pair(text, "--stream")
        if name in named:
            raise UsageError(f"stream {name!r} is named twice", where="--stream")
        named[name] = value
    if named and config.inputs:
        raise UsageError(
            "data sets and named streams together", hint="name either INPUT or --stream, not both"
        )
    if not named and not config.inputs:
        raise UsageError("nothing to align", hint="name data sets, or --video --eeg --gsr --stream")
    return named


def _named_plan(config: Config) -> _Plan:
    specs = {name: _file_spec(name, text) for name, text in _named(config).items()}
    specs = _with_clocks(specs, config)
    given = [eventoption.parse(text) for text in config.events]
    eventoption.check_names(given, specs)
    specs = eventoption.with_events(specs, given, eventoption.Given.raw)
    inputs = [str(Path(s.path).absolute()) for s in specs.values()]
    inputs += _evidence_paths(specs.values())
    root = Path(config.root).absolute() if config.root else expand(inputs).root
    unique = tuple(dict.fromkeys(inputs))
    described = [replace(s, path=str(Path(s.path).absolute())).to_json() for s in specs.values()]
    item = Item(
        config.session,
        unique,
        sum(size_of(path) for path in unique),
        {"streams": described, "named": True},
        config.session,
        str(root),
    )
    video = next((s.path for s in specs.values() if s.form == "video"), None)
    source = files.below(video or inputs[0], root)
    template = Record(
        id=config.session,
        session=config.session,
        begin_s=0,
        duration_s=0,
        source=source,
        streams={},
    )
    return _Plan(root, (item,), {config.session: template}, media_root=root)


def _file_spec(name: str, text: str) -> StreamSpec:
    path, *settings = text.split(",")
    path, _, part = path.partition("#")
    given = dict(pair(setting, "--stream") for setting in settings)
    if unknown := sorted(given.keys() - {"rate", "time", "unit", "kind", "tz"}):
        raise UsageError(f"{unknown[0]!r} is no setting of a stream", where="--stream")
    if not files.is_file(path):
        raise UsageError("does not exist", where=path)
    form, number = _form(path, part, given.get("kind"), name)
    if given.get("unit") not in {None, "s", "ms", "us", "ns", "iso"}:
        raise UsageError(f"{given['unit']!r} is no unit of time", where="--stream")
    if part and form not in {"video", "audio"}:
        _check_part(path, part)
    kind = given.get("kind") or (form if form in {"video", "audio"} else "signal")
    if kind not in KINDS:
        raise UsageError(f"kind {kind!r} is none of {', '.join(KINDS)}", where="--stream")
    return StreamSpec(
        name,
        form,
        kind,
        path,
        rate_hz=rate_text(rate(given["rate"], where="--stream")) if "rate" in given else None,
        part=part or None if form not in {"video", "audio"} else None,
        number=number,
        time=given.get("time"),
        unit=given.get("unit"),
        tz=given.get("tz"),
        source=path,
        record=path.rpartition("_")[0] or None,
    )


def _form(path: str, part: str, kind: str | None, name: str) -> tuple[str, int]:
    """Say how a named file is read, and which of its tracks of that kind it is."""
    suffix = suffix_of(path)
    if suffix not in VIDEO_SUFFIXES and suffix not in AUDIO_SUFFIXES:
        return "raw", 0
    if part and part not in media.PLAYABLE:
        track = media.find_track(path, part)
        return track.kind, track.number
    wanted = kind or part or _main_kind(path, suffix, name)
    if wanted not in media.PLAYABLE:
        raise UsageError(f"no track {wanted!r}", where=path, hint="tracks: video, audio")
    return wanted, 0


def _main_kind(path: str, suffix: str, name: str) -> str:
    """Say what a file is taken for: a container for video that holds none is a sound."""
    if suffix not in VIDEO_SUFFIXES:
        return "audio"
    try:
        kinds = {track.kind for track in media.tracks(path)} if name != "video" else {"video"}
    except DataError:  # who reads it says so
        return "video"
    return "audio" if "audio" in kinds and "video" not in kinds else "video"


def _check_part(path: str, part: str) -> None:
    """Refuse `FILE#STREAM` where the file has no such stream."""
    # Loads the readers, and they pyarrow: plans of other streams do without.
    from mmprep.sources.base import TextOptions
    from mmprep.steps.intake.claims import reader_of
    from mmprep.steps.sessions.rawparts import own_name

    own_name(reader_of(Path(path)), Path(path), part, TextOptions())


def _with_clocks(specs: dict[str, StreamSpec], config: Config) -> dict[str, StreamSpec]:
    """Put --clock, --start and --latency to their streams."""
    found = dict(specs)
    for text in config.clock:
        name, value = _of_stream(text, "--clock", found)
        path, _, unit = value.partition(",unit=")
        if not files.is_file(path):
            raise UsageError("does not exist", where=path)
        whole = str(Path(path).absolute())
        found[name] = replace(found[name], clock=whole, clock_form="log", clock_unit=unit or None)
    for text in config.start:
        name, value = _of_stream(text, "--start", found)
        found[name] = replace(found[name], start_ns=instant_ns(value, "--start"))
    for text in config.latency:
        name, value = _of_stream(text, "--latency", found)
        latency_ns = round(_signed(value, "--latency") * 10**6)
        found[name] = replace(found[name], latency_ns=latency_ns)
    return {name: _shared(spec, found.values()) for name, spec in found.items()}


def _shared(spec: StreamSpec, others: Iterable[StreamSpec]) -> StreamSpec:
    """Let what is said of the clock of one stream of a file hold for its others."""
    if spec.recording is None or spec.clock is not None or spec.start_ns is not None:
        return spec
    for other in others:
        if other.recording == spec.recording and other.clock is not None:
            known = {key: getattr(other, key) for key in ("clock", "clock_form", "clock_unit")}
            return replace(spec, **known)
    return spec


def _of_stream(text: str, option: str, specs: Mapping[str, StreamSpec]) -> tuple[str, str]:
    name, value = pair(text, option)
    if name not in specs:
        raise UsageError(
            f"there is no stream {name!r}", where=option, hint=f"streams: {', '.join(specs)}"
        )
    return name, value


def _signed(text: str, option: str) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError) as error:
        raise UsageError(f"{text!r} is no number", where=option) from error


# Data sets ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Group:
    """A session: its records, each with the data set it comes from."""

    id: str
    records: list[tuple[InputDataset, Record]] = field(default_factory=list)


def _dataset_plan(config: Config, options: RunOptions) -> _Plan:
    wanted = _selections(config.inputs)
    root = Path(config.root) if config.root else None
    inputs = expand(
        tuple(wanted),
        root=root,
        include=config.include,
        exclude=config.exclude,
        output=options.output,
    )
    if inputs.names:
        raise UsageError(
            "is a raw file", where=inputs.path(inputs.names[0]), hint="convert it, or use --stream"
        )
    loaded = [datasets.load(path, inputs.ids) for path in inputs.datasets]
    selected = [wanted[name] for name in wanted]
    groups, notes = _groups(loaded)
    events = _Events([eventoption.parse(text) for text in config.events], loaded)
    items, templates = [], {}
    for group in groups:
        specs = list(_group_specs(group, dict(zip(map(id, loaded), selected, strict=True)), config))
        if not specs:
            continue
        named = events.put_to(
            _with_clocks({spec.name: spec for spec in specs}, config), group, config
        )
        items.append(_session_item(group, list(named.values())))
        templates[group.id] = _template(group)
    if not items:
        raise DataError("no record has a stream to align", where=config.inputs[0])
    events.check(items)
    media_root = Path(config.media_root).absolute() if config.media_root else loaded[0].media_root
    return _Plan(
        inputs.root,
        tuple(items),
        templates,
        tuple(data.record_path for data in events.loaded),
        media_root,
        tuple(notes),
    )


def _selections(arguments: Sequence[str]) -> dict[str, set[str]]:
    """Read `DATASET#STREAM`: data set -> the streams chosen, none for all."""
    wanted: dict[str, set[str]] = {}
    for argument in arguments:
        whole = Path(argument).exists()
        name, _, stream = (argument, "", "") if whole else argument.partition("#")
        wanted.setdefault(name, set()).update({stream} - {""})
    return wanted


def _groups(loaded: Sequence[InputDataset]) -> tuple[list[_Group], list[str]]:
    groups: dict[str, _Group] = {}
    for data in loaded:
        for record in data.records:
            groups.setdefault(record.session, _Group(record.session)).records.append((data, record))
    notes, found = [], []
    for group in groups.values():
        names = [name for _, record in group.records for name in record.streams]
        if len(set(names)) == len(names):
            found.append(group)
            continue
        notes.append(f"session {group.id} holds many recordings: aligned record by record")
        found += _by_record(group)
    return found, notes[:1]


def _by_record(group: _Group) -> list[_Group]:
    single: dict[str, _Group] = {}
    for data, record in group.records:
        single.setdefault(record.id, _Group(record.id)).records.append((data, record))
    for one in single.values():
        names = [name for _, record in one.records for name in record.streams]
        if len(set(names)) != len(names):
            double = next(name for name in names if names.count(name) > 1)
            raise UsageError(f"stream {double!r} of {one.id!r} occurs in two data sets")
    return list(single.values())


def _group_specs(
    group: _Group, selected: Mapping[int, set[str]], config: Config
) -> Iterator[StreamSpec]:
    for data, record in group.records:
        wanted = selected[id(data)]
        if unknown := sorted(wanted - _all_streams(data)):
            raise UsageError(
                f"there is no stream {unknown[0]!r}",
                where=str(data.folder),
                hint=f"its streams: {', '.join(sorted(_all_streams(data)))}",
            )
        for name in record.streams:
            if not wanted or name in wanted:
                yield _stream_spec(data, record, name, config)


def _all_streams(data: InputDataset) -> set[str]:
    return {name for record in data.records for name in record.streams}


def _stream_spec(data: InputDataset, record: Record, name: str, config: Config) -> StreamSpec:
    ref = record.streams[name]
    if record.valid is not None:
        raise UsageError("is aligned already", where=str(data.folder))
    path = data.folder / ref.path
    source = _media(data, ref.extra.get("source", record.source), config)
    own = [piece for piece in ref.further if piece.source is not None]
    spec = StreamSpec(
        name,
        "table",
        "signal",
        str(path),
        ref.rows,
        rate_text(rate(ref.rate_hz)) if ref.rate_hz else None,
        sha256="+".join(filter(None, (data.file_hash(name) for name, _ in ref.pieces))) or None,
        clock=str(data.folder / ref.clock) if ref.clock else None,
        clock_form="table",
        more=tuple((str(data.folder / name), rows) for name, rows in ref.pieces[1:]),
        starts_ns=tuple(one.start_ns for one in own),
        more_clocks=tuple(str(data.folder / one.clock) for one in own if one.clock),
        start_ns=ref.extra.get("start_ns"),
        latency_ns=round(ref.extra.get("latency_ms", 0) * 10**6),
        source=ref.extra.get("source", record.source),
        record=record.id,
    )
    if ref.shard is None:
        if ref.extra.get("kind") != "video":
            return spec
        return replace(spec, kind="video", media=source, track=ref.extra.get("track"))
    about = data.dataset.modalities[name]
    return replace(
        spec,
        form="shard",
        media=source if about.kind in {"audio", "features"} else None,
        kind=KIND_OF_MODALITY.get(about.kind or "signal", "signal"),
        offset_s=ref.offset_s or 0.0,
        breaks=tuple((row, time_s) for row, time_s in ref.extra.get("breaks", ())),
        channels=about.channels or (),
        units=about.units or (),
    )


def _media(data: InputDataset, source: str | None, config: Config) -> str | None:
    root = Path(config.media_root).absolute() if config.media_root else data.media_root
    return str(root / source) if root is not None and source else None


@dataclass(slots=True)
class _Events:
    """What `--events` gives of all sessions, and the data sets that hold it."""

    given: list[eventoption.Given]
    loaded: list[InputDataset]

    def put_to(
        self, specs: Mapping[str, StreamSpec], group: _Group, config: Config
    ) -> dict[str, StreamSpec]:
        """Put events to the streams of a session."""
        return eventoption.with_events(
            specs, self.given, lambda one: self._find(one, group, config)
        )

    def _find(self, given: eventoption.Given, group: _Group, config: Config) -> StreamSpec | None:
        """Find what lists events: a stream of the session in a data set, or a raw file."""
        if not datasets.is_dataset(given.path):
            return given.raw()
        data = self._dataset(given.path)
        if given.part is None or given.part not in _all_streams(data):
            raise UsageError(
                f"{given.path}: which stream holds the events?",
                where=eventoption.OPTION,
                hint=f"DATASET#STREAM; its streams: {', '.join(sorted(_all_streams(data)))}",
            )
        for record in data.records:
            if group.id in (record.session, record.id) and given.part in record.streams:
                return _stream_spec(data, record, given.part, config)
        return None

    def _dataset(self, path: str) -> InputDataset:
        folder = datasets.folder_of(path).absolute()
        for data in self.loaded:
            if data.folder.absolute() == folder:
                return data
        self.loaded.append(datasets.load(folder))
        return self.loaded[-1]

    def check(self, items: Sequence[Item]) -> None:
        """Refuse events of streams that no session has, and one file for several sessions."""
        eventoption.check_names(self.given, {s["name"] for i in items for s in i.spec["streams"]})
        with_file = [one for one in self.given if not datasets.is_dataset(one.path)]
        if with_file and len(items) > 1:
            raise UsageError(
                f"one file of events for {len(items)} sessions",
                where=with_file[0].path,
                hint="convert it, too: --events NAME=DATASET#STREAM takes that of each session",
            )


def _evidence_paths(specs: Iterable[StreamSpec]) -> list[str]:
    """Name the raw files that tell of clocks."""
    logs = [str(Path(s.clock).absolute()) for s in specs if s.clock and s.clock_form == "log"]
    return [*logs, *eventoption.raw_paths(specs)]


def _session_item(group: _Group, specs: Sequence[StreamSpec]) -> Item:
    paths = [path for spec in specs for path in (spec.path, *(path for path, _ in spec.more))]
    n_bytes = sum(map(size_of, paths))
    described = {"streams": [spec.to_json() for spec in specs]}
    root = str(group.records[0][0].folder)
    inputs = tuple(dict.fromkeys(_evidence_paths(specs)))
    return Item(group.id, inputs, n_bytes, described, group.id, root)


def _template(group: _Group) -> Record:
    """Give the record whose fields the windows take over."""
    records = [record for _, record in group.records]
    with_video = [record for record in records if "video" in record.streams]
    return (with_video or records)[0]


# The data set -------------------------------------------------------------------------------------


def _contents(
    plan: _Plan,
    current: base.Run,
    outcomes: Sequence[Outcome],
    known: joining.Labels,
) -> Contents:
    book = ShardBook()
    placed: dict[str, Placed] = {}
    records: list[Record] = []
    sessions: dict[str, Session] = {}
    for outcome in outcomes:
        value = outcome.value or {}
        names = book.add(value)
        placed |= current.placed(outcome, names)
        for name, found in value.get("sessions", {}).items():
            sessions[name] = Session(origin_ns=found["origin_ns"], clock=found["clock"])
            records += windowlist.records(
                plan.templates[name], name, found["windows"], value["shards"], names
            )
            _tell(current, found)
    if not records:
        raise DataError(
            "no window is left",
            where=", ".join(list(sessions)[:3]),
            hint="a shorter --window, a smaller --min-valid, or --on-gap mask",
        )
    origins = {name: session.origin_ns for name, session in sessions.items()}
    joined, said = known.join(records, origins)
    for remark in said:
        current.progress.say(remark)
    label_files = tuple(str(Path(path).absolute()) for path in known.paths)
    return Contents(
        joined,
        book.modalities(),
        sessions,
        placed,
        extra_inputs=(*plan.extra_inputs, *label_files),
        media_root=plan.media_root,
    )


def _tell(current: base.Run, found: Mapping[str, Any]) -> None:
    for note in found["notes"]:
        current.progress.say(note)
    for warning in found["warnings"]:
        current.progress.warn(warning)
