"""The streams of one session that are named one by one: files, and what is said of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import NoReturn

from mmprep import files, media
from mmprep.errors import DataError, UsageError
from mmprep.manifest.model import Record
from mmprep.media import AUDIO_SUFFIXES, VIDEO_SUFFIXES
from mmprep.sources.companions import companion_of, stem_of
from mmprep.steps.base import Item
from mmprep.steps.inputs import expand, size_of
from mmprep.steps.instants import instant_ns, latency_ns
from mmprep.steps.namevalue import located, pair
from mmprep.steps.sessions import eventoption
from mmprep.steps.sessions.config import Config
from mmprep.steps.sessions.plan import Plan
from mmprep.steps.sessions.streamspec import StreamSpec
from mmprep.steps.sounds import suffix_of
from mmprep.timebase import rate, rate_text

KINDS = ("signal", "video", "audio", "events")


def streams_named(config: Config) -> dict[str, str]:
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


def plan(config: Config) -> Plan:
    """Plan the one session whose streams are named.

    Raises
    ------
    UsageError
        A file or a stream of it does not exist; a setting is none.
    """
    specs = {name: _file_spec(name, text) for name, text in streams_named(config).items()}
    specs, notes = _with_companions(with_clocks(specs, config))
    given = [eventoption.parse(text) for text in config.events]
    eventoption.check_names(given, specs)
    specs = eventoption.with_events(specs, given, eventoption.Given.raw)
    root = Path(config.root).absolute() if config.root else expand(input_paths(specs)).root
    item = session_item(config.session, specs, root)
    templates = {config.session: template(config.session, specs, root)}
    return Plan(root, (item,), templates, media_root=root, notes=notes)


def input_paths(specs: Mapping[str, StreamSpec]) -> tuple[str, ...]:
    """Name all files of a session, absolute, each once."""
    paths = [path for s in specs.values() for path in (s.path, *(path for path, _ in s.more))]
    logs = evidence_paths(specs.values())
    return tuple(dict.fromkeys([*(str(Path(path).absolute()) for path in paths), *logs]))


def session_item(
    session: str, specs: Mapping[str, StreamSpec], root: Path, *, is_named: bool = True
) -> Item:
    """Make the item of a session of raw files.

    Parameters
    ----------
    is_named : bool
        Each stream was named to go onto windows: one that can't is an error.
    """
    inputs = input_paths(specs)
    described = [replace(s, path=str(Path(s.path).absolute())).to_json() for s in specs.values()]
    n_bytes = sum(size_of(path) for path in inputs)
    spec = {"streams": described, "named": is_named}
    return Item(session, inputs, n_bytes, spec, session, str(root))


def template(session: str, specs: Mapping[str, StreamSpec], root: Path) -> Record:
    """Give the record whose fields the windows of a session of raw files take over."""
    video = next((s.path for s in specs.values() if s.form == "video"), None)
    source = files.below(video or input_paths(specs)[0], root)
    return Record(id=session, session=session, begin_s=0, duration_s=0, source=source, streams={})


def _file_spec(name: str, text: str) -> StreamSpec:
    path, part, given = located(text, "--stream")
    return file_spec(name, path, part, given)


def file_spec(name: str, path: str, part: str, given: Mapping[str, str]) -> StreamSpec:
    """Describe a stream of a raw file.

    Parameters
    ----------
    part : str
        Which of its streams; empty for the only one.
    given : mapping
        Settings: rate, time, unit, kind, tz.

    Raises
    ------
    UsageError
        The file or the stream does not exist; a setting is none.
    """
    if unknown := sorted(given.keys() - {"rate", "time", "unit", "kind", "tz"}):
        raise UsageError(f"{unknown[0]!r} is no setting of a stream", where="--stream")
    if not files.is_file(path):
        _refuse(path)
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


def _refuse(path: str) -> NoReturn:
    if not files.exists(path):
        raise UsageError("does not exist", where=path)
    raise UsageError("is a folder", where=path, hint="name a file of it, or convert it")


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
    from mmprep.steps.sessions.rawparts import hints_as_settings, own_name

    with hints_as_settings():
        own_name(reader_of(Path(path)), Path(path), part, TextOptions())


def with_clocks(specs: dict[str, StreamSpec], config: Config) -> dict[str, StreamSpec]:
    """Put --clock, --start and --latency to their streams."""
    found = dict(specs)
    for text in config.clock:
        name, value = _of_stream(text, "--clock", found)
        path, _, given = located(value, "--clock")
        if unknown := sorted(given.keys() - {"unit"}):
            raise UsageError(f"{unknown[0]!r} is no setting of a clock log", where="--clock")
        if not files.is_file(path):
            raise UsageError("does not exist", where=path)
        whole, unit = str(Path(path).absolute()), given.get("unit")
        found[name] = replace(found[name], clock=whole, clock_form="log", clock_unit=unit)
    for text in config.start:
        name, value = _of_stream(text, "--start", found)
        found[name] = replace(found[name], start_ns=instant_ns(value, "--start"))
    for text in config.latency:
        name, value = _of_stream(text, "--latency", found)
        delay_ns = latency_ns(_signed(value, "--latency"), "--latency")
        found[name] = replace(found[name], latency_ns=delay_ns)
    return {name: _shared(spec, found.values()) for name, spec in found.items()}


def _with_companions(
    specs: Mapping[str, StreamSpec],
) -> tuple[dict[str, StreamSpec], tuple[str, ...]]:
    """Give streams without a clock log the one that lies beside their file, and say so."""
    found, notes = dict(specs), []
    for name, spec in specs.items():
        log = companion_of(stem_of(spec.path)) if spec.clock is None else None
        if log is not None and log != spec.path:
            found[name] = replace(spec, clock=str(Path(log).absolute()))
            notes.append(f"{name}: {Path(log).name} beside its file is its clock log")
    return found, tuple(notes)


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


def evidence_paths(specs: Iterable[StreamSpec]) -> list[str]:
    """Name the raw files that tell of clocks."""
    given = [path for s in specs if s.clock_form == "log" for path in (s.clock, *s.more_clocks)]
    logs = [str(Path(path).absolute()) for path in given if path]
    return [*logs, *eventoption.raw_paths(specs)]
