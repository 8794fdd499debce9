"""The sessions of data sets that `convert` and `mfcc` have made.

Rules
-----
- The records of a session are joined. A session whose records hold the same stream twice (many
  utterances in one folder) is aligned record by record.
- `DATASET#STREAM` takes one stream; without it all streams that have a rate are taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mmprep.errors import DataError, UsageError
from mmprep.manifest.model import Record
from mmprep.steps import datasets
from mmprep.steps.base import Item, RunOptions
from mmprep.steps.datasets import InputDataset
from mmprep.steps.inputs import expand, size_of
from mmprep.steps.sessions import eventoption
from mmprep.steps.sessions.config import Config
from mmprep.steps.sessions.named import evidence_paths, with_clocks
from mmprep.steps.sessions.plan import Plan
from mmprep.steps.sessions.streamspec import StreamSpec
from mmprep.timebase import rate, rate_text

KIND_OF_MODALITY = {"audio": "audio", "features": "signal", "signal": "signal"}


@dataclass(slots=True)
class _Group:
    """A session: its records, each with the data set it comes from."""

    id: str
    records: list[tuple[InputDataset, Record]] = field(default_factory=list)


def plan(config: Config, options: RunOptions) -> Plan:
    """Plan the sessions of data sets.

    Raises
    ------
    UsageError
        A raw file among them, an unknown stream, or one stream in two data sets.
    DataError
        No record has a stream.
    """
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
            with_clocks({spec.name: spec for spec in specs}, config), group, config
        )
        items.append(_session_item(group, list(named.values())))
        templates[group.id] = _template(group)
    if not items:
        raise DataError("no record has a stream to align", where=config.inputs[0])
    events.check(items)
    media_root = Path(config.media_root).absolute() if config.media_root else loaded[0].media_root
    return Plan(
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
                yield stream_spec(data, record, name, config)


def _all_streams(data: InputDataset) -> set[str]:
    return {name for record in data.records for name in record.streams}


def stream_spec(data: InputDataset, record: Record, name: str, config: Config) -> StreamSpec:
    """Describe a stream of a record.

    Raises
    ------
    UsageError
        The data set is aligned already.
    """
    ref = record.streams[name]
    if record.valid is not None:
        raise UsageError("is aligned already", where=str(data.folder))
    path = data.folder / ref.path
    source = _media(data, ref.extra.get("source", record.source), config)
    own = [piece for piece in ref.further if piece.source is not None]
    spec = StreamSpec(
        name,
        "table",
        "events" if ref.extra.get("kind") == "events" else "signal",
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
        own = _own_events(group) if not self.given else []
        given = own if len(own) > 1 else self.given  # alone there is nothing to match them with
        return eventoption.with_events(specs, given, lambda one: self._find(one, group, config))

    def _find(self, given: eventoption.Given, group: _Group, config: Config) -> StreamSpec | None:
        """Find what lists events: a stream of the session in a data set, or a raw file."""
        if not given.path:
            return _spec_in(group, given.part or "", config)
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
                return stream_spec(data, record, given.part, config)
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


def _own_events(group: _Group) -> list[eventoption.Given]:
    """Give what the records of a session say of shared events, as a table of sessions had it."""
    found = []
    for _, record in group.records:
        for name, ref in record.streams.items():
            part, comma, settings = str(ref.extra.get("events", "")).partition(",")
            if part:
                known = eventoption.settings_of(comma + settings)
                found.append(eventoption.Given(name, "", part, known))
    return found


def _spec_in(group: _Group, name: str, config: Config) -> StreamSpec | None:
    for data, record in group.records:
        if name in record.streams:
            return stream_spec(data, record, name, config)
    return None


def _session_item(group: _Group, specs: Sequence[StreamSpec]) -> Item:
    paths = [path for spec in specs for path in (spec.path, *(path for path, _ in spec.more))]
    n_bytes = sum(map(size_of, paths))
    described = {"streams": [spec.to_json() for spec in specs]}
    root = str(group.records[0][0].folder)
    inputs = tuple(dict.fromkeys(evidence_paths(specs)))
    return Item(group.id, inputs, n_bytes, described, group.id, root)


def _template(group: _Group) -> Record:
    """Give the record whose fields the windows take over."""
    records = [record for _, record in group.records]
    with_video = [record for record in records if "video" in record.streams]
    return (with_video or records)[0]
