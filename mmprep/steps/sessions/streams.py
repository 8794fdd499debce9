"""The streams of a session for `align`: where each is read from, on which clock it runs.

Rules
-----
- A stream is described by plain values (`StreamSpec`), so that a worker can open it.
- With a session clock of its own choice a stream goes device -> master -> that clock.
- Streams of XDF bring the evidence of their clocks; the master is then whoever recorded the file.
- Two masters that don't tell Unix time are related by shared events alone (`sharedevents`).
- Its stamps stay on its own clock until the clock model maps them: device -> session.
- Without evidence a stream is taken to run on the session clock, with no bound; streams of which
  some carry Unix time and others don't are refused: there is no relation between their clocks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmprep import align, clock, files, media, tables
from mmprep.clock import ClockModel
from mmprep.errors import ClockError, DataError, UsageError
from mmprep.rows import Rows, Store, gathered
from mmprep.shards import shard_rows
from mmprep.signals import Stream
from mmprep.sources import clocklog
from mmprep.steps import sounds
from mmprep.steps.intake import evidence, films
from mmprep.steps.intake.claims import TABLE_READERS, reader_of
from mmprep.steps.sessions import rawparts
from mmprep.steps.sessions.streamspec import StreamSpec
from mmprep.timebase import (
    NS_PER_S,
    UNIX_NS,
    BoolArray,
    Evidence,
    Exchanges,
    Fixes,
    FrameLog,
    HostFixes,
    IntArray,
    joined_evidence,
    pieces,
)

MASTER, RECORDER, HOST = "the master", "the recorder of ", "the host of the log "
UNIX, LOCAL, OWN = "absolute time", "local time", "time of their own"
MAX_DOUBTS = 4096  # times at which the doubt about a clock is asked for
LONG_ROWS = 1 << 20  # of a stream that leaves much freed memory behind
KNOT_S = 5.0  # evenly spaced samples are mapped through a knot so often


@dataclass(frozen=True, slots=True)
class Opened:
    """A stream that was read, on its own clock.

    Parameters
    ----------
    stream : Stream, optional
        Readings with their stamps.
    data : array, optional
        Evenly spaced rows, in place of `stream`: row i at
        `first_ns + i / rate` on the own clock, up to the first break of the spec.
    first_ns : int
    scan : VideoTrack, optional
        The frames' packets, if a video file was scanned.
    track : dict, optional
        What is known of a video track: see `films.track`.
    texts : tuple of str
        Columns that hold text, which no window can.
    shift_ns : int
        How far its own times were moved to a given start.
    said : tuple of str
        What is worth a warning.
    """

    spec: StreamSpec
    stream: Stream | None = None
    data: Rows | None = None
    first_ns: int = 0
    scan: Any = None
    track: films.Facts | None = None
    texts: tuple[str, ...] = ()
    shift_ns: int = 0
    said: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The modality."""
        return self.spec.name

    @property
    def nominal_hz(self) -> Fraction | None:
        """The nominal rate: the one given, else that of the source."""
        given = self.spec.nominal_hz
        return given or (self.stream.nominal_rate_hz if self.stream is not None else None)

    @property
    def stamps_ns(self) -> IntArray:
        """Give the stamps; of evenly spaced rows those of a few knots."""
        if self.stream is not None:
            return self.stream.stamps_ns
        return self.knots()[1]

    @property
    def has_stamps(self) -> bool:
        """Whether any row has a time."""
        return bool((self.stamps_ns != tables.NULL_STAMP_NS).any())

    def own_ns(self, read_ns: IntArray) -> IntArray:
        """Move the stamps of its rows as they were read to where they begin.

        Those of parts that begin at times of their own have been moved one by one.
        """
        if self.spec.starts_ns and self.stream is not None:
            return self.stream.stamps_ns
        return read_ns + self.shift_ns

    @property
    def even(self) -> Rows:
        """The evenly spaced rows.

        Raises
        ------
        DataError
            The stream has stamps in their place.
        """
        if self.data is None:
            raise DataError("is not even", where=self.spec.name)
        return self.data

    @property
    def breaks(self) -> IntArray:
        """The first rows behind the breaks of even rows."""
        rows = [row for row, _ in self.spec.breaks if row < len(self.even)]
        return np.array(rows, dtype=np.int64)

    def knots(self) -> tuple[NDArray[np.float64], IntArray]:
        """Give row numbers and own times, every few seconds, ends of stretches included."""
        times_ns = [round(time_s * NS_PER_S) + self.shift_ns for _, time_s in self.spec.breaks]
        begins = [0, *self.breaks.tolist()]
        ends = [*begins[1:], max(len(self.even), 2)]
        stretches = zip(begins, ends, [self.first_ns, *times_ns], strict=False)
        index, own = zip(*(self._knots(*stretch) for stretch in stretches), strict=True)
        return np.concatenate(index), np.concatenate(own)

    def _knots(self, begin: int, end: int, begin_ns: int) -> tuple[NDArray[np.float64], IntArray]:
        if self.nominal_hz is None:
            raise DataError("has no rate", where=self.spec.name)
        seconds = float((end - 1 - begin) / self.nominal_hz)
        index = np.unique(np.rint(np.linspace(begin, end - 1, int(seconds / KNOT_S) + 2)))
        numerator, denominator = self.nominal_hz.numerator, self.nominal_hz.denominator
        steps = [(int(i) - begin) * denominator * NS_PER_S // numerator for i in index]
        return index, begin_ns + np.array(steps, dtype=np.int64)


def open_stream(spec: StreamSpec, store: Store) -> Opened:
    """Read a stream; `store` keeps its readings.

    Raises
    ------
    DataError, UsageError
        What the reader of its form raises.
    """
    if spec.form == "raw":
        spec = replace(spec, form=reader_of(Path(spec.path)))
    opened = _FORMS.get(spec.form, _from_raw)(spec, store)
    _tidy_up(opened.stream)
    if spec.start_ns is None or spec.starts_ns:
        return opened
    return _shifted(opened, _shift_ns(opened, spec.start_ns))


def _tidy_up(stream: Stream | None) -> None:
    """Leave no memory behind that a long stream took on the way."""
    if stream is not None and stream.n_samples >= LONG_ROWS:
        tables.give_back_memory()
        files.give_back_memory()


def open_all(specs: Sequence[StreamSpec], store: Store) -> list[Opened]:
    """Read the streams of a session; a start that one track of a file is given moves all of it.

    Raises
    ------
    DataError, UsageError
        What the reader of a form raises.
    """
    opened = [open_stream(spec, store) for spec in specs]
    moved = {
        one.spec.recording: one.shift_ns for one in opened if one.spec.recording and one.shift_ns
    }
    opened = [
        _shifted(one, moved[one.spec.recording])
        if one.spec.recording in moved and one.spec.start_ns is None and one.spec.clock is None
        else one
        for one in opened
    ]
    return [_anchored(one, opened) for one in opened]


def _anchored(opened: Opened, others: Sequence[Opened]) -> Opened:
    """Let a stream whose stamps count from the start of a recording begin with its first sample.

    The recording is that of the other streams of its record; it lends its clock, too. So it does
    to trials that count from zero: where its own stamps do so, too, both are on one clock.
    """
    if opened.stream is None or opened.spec.start_ns is not None:
        return opened
    main = [one for one in others if _is_main(one) and one.spec.record == opened.spec.record]
    if not opened.stream.since_start or opened.spec.follows:
        main = _followed(opened, others)
    if not main:
        return opened
    first = min(main, key=lambda one: _first_ns(one.stamps_ns))
    is_from_zero = opened.stream.since_start or _first_ns(first.stamps_ns) >= UNIX_NS
    moved = _shifted(opened, _first_ns(first.stamps_ns)) if is_from_zero else opened
    stream, spec = moved.stream, opened.spec
    if stream is not None and first.stream is not None:
        stream = replace(stream, absolute=first.stream.absolute)
    if spec.clock is None:
        known = {key: getattr(first.spec, key) for key in ("clock", "clock_form", "clock_unit")}
        spec = replace(spec, **known)
    return replace(moved, stream=stream, spec=spec)


def _followed(opened: Opened, others: Sequence[Opened]) -> list[Opened]:
    """Find the recording that trials belong to which count from zero and have no clock.

    Raises
    ------
    UsageError
        There are several, and one of them is in Unix time or has a clock.
    """
    of, own = opened.spec.follows, opened.spec
    if of is None or own.clock is not None or not opened.has_stamps:
        return []
    main = [one for one in others if _is_main(one) and of in ("", one.name)]
    is_known = any(one.spec.clock or _first_ns(one.stamps_ns) >= UNIX_NS for one in main)
    if int(opened.stamps_ns.max()) >= UNIX_NS or not is_known:
        return []
    if len({one.spec.recording or one.spec.path for one in main}) > 1:
        raise UsageError(
            "times count from 0, and there are several recordings: from the first sample of which?",
            where=own.name,
            hint=f"--trials ...,of=STREAM, one of {', '.join(one.name for one in main)}",
        )
    return main


def _is_main(one: Opened) -> bool:
    if one.stream is not None and (one.stream.since_start or one.stream.kind == "events"):
        return False
    return one.nominal_hz is not None and one.has_stamps


def _first_ns(stamps_ns: IntArray) -> int:
    return int(stamps_ns[stamps_ns != tables.NULL_STAMP_NS][0])


def _shift_ns(opened: Opened, start_ns: int) -> int:
    """Say how far a stream must move for its recording to begin at a given time.

    That is its first sample; of events, which may come late, and of what counts from the start of
    a recording it is second 0.
    """
    if opened.stream is None:
        return start_ns - opened.first_ns
    stamps = opened.stream.stamps_ns
    usable = stamps[stamps != tables.NULL_STAMP_NS]
    if usable.size == 0 or opened.stream.absolute:
        raise DataError("has absolute stamps: it needs no --start", where=opened.spec.name)
    return _from_start(opened.stream, start_ns, int(usable[0]))


def _from_start(stream: Stream, start_ns: int, first_ns: int) -> int:
    is_events = stream.kind == "events" or stream.data.shape[1:] == (0,)
    is_from_zero = stream.since_start or is_events
    return start_ns if is_from_zero else start_ns - first_ns


def _shifted(opened: Opened, shift_ns: int) -> Opened:
    if opened.stream is None:
        return replace(opened, first_ns=opened.first_ns + shift_ns, shift_ns=shift_ns)
    stamps = opened.stream.stamps_ns
    moved = np.where(stamps == tables.NULL_STAMP_NS, stamps, stamps + shift_ns)
    absolute = bool(moved.max(initial=0) >= UNIX_NS)
    stream = replace(opened.stream, stamps_ns=moved, absolute=absolute)
    return replace(opened, stream=stream, shift_ns=shift_ns)


def _from_table(spec: StreamSpec, store: Store) -> Opened:
    columns = ("frame",) if spec.kind == "video" else None
    parts = (
        tables.iter_stream(Path(path), spec.name, rows=rows, columns=columns)
        for path, rows in ((spec.path, spec.rows), *spec.more)
    )
    stream = tables.join_streams(_in_turn(spec, parts), store)
    texts = tables.table_info(Path(spec.path)).texts
    if spec.kind == "video":
        stream = _as_frames(stream)
    return Opened(spec, _kept(stream, spec), track=spec.track, texts=texts)


def _blocks(stream: Stream, channels: tuple[str, ...]) -> Iterator[Stream]:
    """Part what was read, so that no more than a block is in memory; what it lacks is missing."""
    places = [channels.index(name) for name in stream.channels]
    units = {**dict.fromkeys(channels), **dict(zip(stream.channels, stream.units, strict=True))}
    for part in pieces(max(stream.n_samples, 1)):
        block = replace(stream, stamps_ns=stream.stamps_ns[part], data=stream.data[part])
        if stream.channels != channels:
            values = np.full((block.n_samples, len(channels)), np.nan)
            values[:, places] = block.values
            block = replace(block, data=values, channels=channels, units=tuple(units.values()))
        yield block


def _of_parts(spec: StreamSpec, found: Sequence[Stream], store: Store) -> Stream:
    """Join the parts of a raw stream; columns that not all of them have are missing in the others.

    Raises
    ------
    DataError
        Their begins are not known, or not in order of time.
    """
    channels = tuple(dict.fromkeys(name for one in found for name in one.channels))
    joined = tables.join_streams(_in_turn(spec, (_blocks(one, channels) for one in found)), store)
    units = {name: unit for one in reversed(found) for name, unit in _units(one)}
    texts = tuple(dict.fromkeys(name for one in found for name in one.texts))
    notes = tuple(dict.fromkeys(note for one in found for note in one.notes))
    return replace(joined, units=tuple(map(units.get, channels)), texts=texts, notes=notes)


def _units(stream: Stream) -> Iterator[tuple[str, str | None]]:
    return zip(stream.channels, stream.units, strict=True)


def _in_turn(spec: StreamSpec, parts: Iterable[Iterable[Stream]]) -> Iterator[Stream]:
    """Give the blocks of all parts; those of their own begin when their stamps or `starts_ns` say.

    Raises
    ------
    DataError
        Nothing says when a part begins; it begins before the one before it.
    """
    if not spec.starts_ns:
        yield from (block for blocks in parts for block in blocks)
        return
    starts, before_ns = [spec.start_ns, *spec.starts_ns], None
    for k, blocks in enumerate(parts):
        begin_ns = None
        for block in _placed(spec, blocks, starts[k], k + 1):
            if begin_ns is None and (block.stamps_ns != tables.NULL_STAMP_NS).any():
                begin_ns = _first_ns(block.stamps_ns)
                if before_ns is not None and begin_ns < before_ns:
                    raise DataError(
                        f"part {k + 1} begins before part {k}",
                        where=spec.name,
                        hint="the parts of a stream stand in order of time: first.tsv;later.tsv",
                    )
            yield block
        before_ns = begin_ns if begin_ns is not None else before_ns


def _placed(
    spec: StreamSpec, blocks: Iterable[Stream], start_ns: int | None, number: int
) -> Iterator[Stream]:
    """Let a part whose times count from a moment of its own begin when that is said to be."""
    shift_ns: int | None = None
    for block in blocks:
        known = block.stamps_ns != tables.NULL_STAMP_NS
        if block.absolute or not known.any():
            yield block
            continue
        if start_ns is None:
            raise DataError(
                f"nothing says when part {number} begins",
                where=spec.name,
                hint=f"{spec.name}.start in the table of sessions: one time a part",
            )
        if shift_ns is None:
            shift_ns = _from_start(block, start_ns, int(block.stamps_ns[known][0]))
        moved = np.where(known, block.stamps_ns + shift_ns, block.stamps_ns)
        yield replace(block, stamps_ns=moved, absolute=True)


def _as_frames(stream: Stream) -> Stream:
    """Take the rows of a table as frames: their ranks are its column `frame`, else row numbers."""
    if "frame" in stream.channels:
        frames = stream.values[:, stream.channels.index("frame")].astype(np.int32)
    else:
        frames = np.arange(stream.n_samples, dtype=np.int32)
    return replace(stream, data=frames, channels=(), units=(), kind="video")


def _from_shard(spec: StreamSpec, store: Store) -> Opened:
    begin, end = spec.rows or (0, 0)
    data = shard_rows(spec.path, store, (begin, end))
    return Opened(spec, data=data, first_ns=round(spec.offset_s * NS_PER_S))


@rawparts.hints_as_settings()
def _from_raw(spec: StreamSpec, store: Store) -> Opened:
    chosen = {"stream": spec.part} if spec.part else {}
    read = TABLE_READERS[spec.form].read_stream
    options = rawparts.options_of(spec)
    paths = [spec.path, *(path for path, _ in spec.more)]
    found = [read(Path(path), options, spec.name, store=store, **chosen) for path in paths]
    stream = found[0] if len(found) == 1 else _of_parts(spec, found, store)
    texts = stream.texts
    if spec.kind == "video":
        stream = _as_frames(stream)
    return Opened(spec, _kept(stream, spec), texts=texts)


def _from_video(spec: StreamSpec, store: Store) -> Opened:
    scan = media.scan_video(spec.path, track=spec.number)
    stream = _kept(films.stream(spec.name, scan), spec)
    return Opened(spec, stream, scan=scan, track=films.track(scan))


def _from_audio(spec: StreamSpec, store: Store) -> Opened:
    with media.AudioReader(spec.path, track=spec.number) as reader:
        samples = gathered(reader.blocks(), store)
    first_ns = round(reader.info.start_s * NS_PER_S)
    rate_hz = spec.rate_hz or str(reader.rate_hz)
    known = replace(spec, rate_hz=rate_hz, breaks=reader.breaks)
    said = sounds.uneven(spec.name, reader)
    return Opened(known, data=samples, first_ns=first_ns, said=said)


_FORMS = {
    "table": _from_table,
    "shard": _from_shard,
    "video": _from_video,
    "audio": _from_audio,
}


def _kept(stream: Stream, spec: StreamSpec) -> Stream:
    """Let the given kind and rate hold."""
    kind = spec.kind if spec.kind != "signal" else stream.kind
    rate_hz = spec.nominal_hz or stream.nominal_rate_hz
    is_measured = stream.rate_is_measured and rate_hz == stream.nominal_rate_hz
    return replace(stream, kind=kind, nominal_rate_hz=rate_hz, rate_is_measured=is_measured)


# Clocks -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Clocked:
    """A stream with the model that puts it on the session clock.

    Parameters
    ----------
    model : ClockModel
        Own clock to master.
    session : ClockModel, optional
        Session clock to master, where the session has another clock than the master's.
    logged : Logged, optional
        The times of a video's frames on the master's clock, from a log of all of them.
    master : str, optional
        Whose clock the master's is, in words; None without evidence.
    link : ClockModel, optional
        The clock of its master to that of the session, where events relate two masters.
    shared : dict, optional
        What is known of the events that relate it: see `sharedevents`.
    """

    opened: Opened
    model: ClockModel
    fixes: Evidence | None
    session: ClockModel | None = None
    logged: align.Logged | None = None
    master: str | None = None
    link: ClockModel | None = None
    shared: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        """The modality."""
        return self.opened.spec.name

    @property
    def master_name(self) -> str | None:
        """Its master without the folder of a recorder's file."""
        if self.master is None or not self.master.startswith(RECORDER):
            return self.master
        return RECORDER + Path(self.master.removeprefix(RECORDER)).name

    @property
    def has_stamps(self) -> bool:
        """Whether any row has a time."""
        return self.opened.has_stamps

    @property
    def is_absolute(self) -> bool:
        """Whether the session times of the stream are Unix time."""
        return self.time_line == UNIX

    @property
    def time_line(self) -> str:
        """What the session times of the stream count from, in words.

        Local times without a zone are as large as Unix time, and hours off.
        """
        if self.session is not None:
            return _line(self.session.source_ref_ns)
        if self.link is not None:
            return _line(self.link.target_ref_ns)
        if self.fixes is not None:
            return _line(self.model.target_ref_ns)
        stream = self.opened.stream
        if stream is None:
            return _line(self.opened.first_ns)
        usable = stream.stamps_ns[stream.stamps_ns != tables.NULL_STAMP_NS]
        line = _line(int(np.median(usable))) if usable.size else OWN
        return UNIX if stream.absolute else LOCAL if line == UNIX else line

    def on_session(self, own_ns: IntArray) -> IntArray:
        """Map stamps in the order of recording to the session clock."""
        return self._from_master(self.model.apply_in_order(own_ns))

    def _from_master(self, master_ns: IntArray) -> IntArray:
        latency_ns = self.opened.spec.latency_ns
        times = master_ns - latency_ns if latency_ns else master_ns
        times = times if self.link is None else self.link.apply(times)
        return times if self.session is None else self.session.invert(times)

    def lasting(self, own_ns: IntArray, durations_ns: IntArray) -> IntArray:
        """Say how long on the session clock what begins at some stamps lasts on its own clock."""
        segment = self.model.locate_in_order(own_ns)
        end = self.model.apply(own_ns + durations_ns, segment=segment)
        return np.asarray(self._from_master(end) - self.on_session(own_ns))

    def _row_times(self, stream: Stream) -> tuple[IntArray, IntArray]:
        """Put each row on the session clock; those without a time are unreadable.

        So are rows at a jump that may lie on either side of it, but events: one that is off by a
        small jump says more than none.

        Returns
        -------
        session_ns, own_ns : [shape=(n,), int64, ns]
            Own times are without the jumps of resets. Logged times are none of the device's own.
        """
        if self.logged is not None:
            known = self.logged.times_ns != align.NO_TIME
            times = _spread(self._from_master(self.logged.times_ns[known]), known)
            return times, times
        known = stream.stamps_ns != tables.NULL_STAMP_NS
        stamps = stream.stamps_ns if known.all() else stream.stamps_ns[known]
        placed = self.model.place_in_order(stamps)
        session = self._from_master(self.model.apply(stamps, segment=placed.segment))
        own = self.model.without_jumps(stamps, segment=placed.segment)
        if stream.kind != "events" and not placed.is_sure.all():
            session[~placed.is_sure] = align.UNREADABLE
        return _spread(session, known), _spread(own, known)

    def _doubt(self, session_ns: IntArray) -> align.Doubt | None:
        """Say how wrong the times of rows may be by their clock; None where nothing tells."""
        usable = align.usable(session_ns)
        models = [model for model in (self.model, self.link, self.session) if model is not None]
        if self.session is self.model or usable.size == 0:
            return None
        if any(model.bound_s is None for model in models):
            return None
        origin_ns, end_ns = int(usable.min()), int(usable.max())
        count = min(int((end_ns - origin_ns) / NS_PER_S) + 2, MAX_DOUBTS)
        seconds = np.linspace(0.0, (end_ns - origin_ns) / NS_PER_S, count)
        times_ns = origin_ns + np.rint(seconds * NS_PER_S).astype(np.int64)
        doubts = [model.doubt_at(at_ns) for model, at_ns in self._path_of(times_ns)]
        sigma_s, density = (np.sum(one, axis=0) for one in zip(*doubts, strict=True))
        return align.Doubt(origin_ns, seconds, sigma_s, density)

    def _path_of(self, session_ns: IntArray) -> list[tuple[ClockModel, IntArray]]:
        """Give the models on the way to the session clock, each with the times that it maps."""
        path, times = [], session_ns
        if self.session is not None:
            path.append((self.session, times))
            times = self.session.apply(times)
        if self.link is not None:
            times = self.link.invert(times)
            path.append((self.link, times))
        return [*path, (self.model, self.model.invert(times + self.opened.spec.latency_ns))]

    def repaired(self) -> align.Repaired:
        """Put the stream on the session clock and repair its stamps."""
        if self.opened.stream is None:
            index, own = self.opened.knots()
            spec = self.opened.spec
            return align.regular_data(
                spec.name,
                self.opened.even,
                index,
                self.on_session(own),
                nominal_rate_hz=self.opened.nominal_hz,
                kind=spec.kind,
                channels=spec.channels,
                units=spec.units,
                breaks=self.opened.breaks,
            )
        times, own = self._row_times(self.opened.stream)
        found = align.repair(self.opened.stream, times, own_ns=own, doubt=self._doubt(times))
        _tidy_up(self.opened.stream)
        return found

    @property
    def stamp_bound_s(self) -> float:
        """Bound what one stamp is off where the times of frames are those of a log.

        Returns
        -------
        float [s]
            3.5 standard deviations of the log about its own smooth curve, or what 99 % of it keep
            within, whichever is more; 0 of other clocks.
        """
        p50_s, p99_s = self.model.residual_p50_s, self.model.residual_p99_s
        if self.logged is None or p50_s is None or p99_s is None:
            return 0.0
        return max(clock.BOUND_SIGMAS * 1.4826 * p50_s, p99_s)

    def bound_at_s(self, session_ns: IntArray) -> NDArray[np.float64] | None:
        """Bound the clock's error at session times; None without evidence."""
        if self.master is None:
            return None
        if self.session is self.model:
            return np.zeros(session_ns.shape)
        path = self._path_of(session_ns)
        if not self.model.n_fixes:  # the session is on its clock, or on one fitted to it
            path = path[:-1]
        bounds = [model.bound_at_s(at_ns) for model, at_ns in path]
        return np.asarray(np.sum(bounds, axis=0)) if bounds else np.zeros(session_ns.shape)


def _line(stamp_ns: int) -> str:
    return UNIX if stamp_ns >= UNIX_NS else OWN


def clocked(opened: Opened) -> Clocked:
    """Fit the clock of a stream.

    Raises
    ------
    ClockError
        The evidence can't be used, or is that of another clock.
    """
    spec = opened.spec
    found = evidence_of(spec)
    if found is None:
        return Clocked(opened, clock.identity(), None)
    where = f"{spec.name} and {Path(spec.clock or spec.path).name}"
    if isinstance(found, FrameLog) and (spec.kind == "video" or spec.container is not None):
        return _by_frames(opened, found, where)
    stamps = opened.stamps_ns[opened.stamps_ns != tables.NULL_STAMP_NS]
    if isinstance(found, HostFixes) and stamps.max(initial=0) >= UNIX_NS:
        raise ClockError(
            "the log tells time since boot, the stamps Unix time",
            where=where,
            hint="journalctl -o short-unix puts Unix time before each line of ptp4l or phc2sys",
        )
    alone = _only_fix(found)
    if alone is not None:
        model = clock.offset_only(*alone)
    else:
        model = clock.fit(found, stamps_ns=stamps, where=where)
        clock.check_covers(model, stamps, where)
    return Clocked(opened, model, found, master=_master(spec, found))


def evidence_of(spec: StreamSpec) -> Evidence | None:
    """Read the clock evidence of a stream: what is given, else what its own file has of it."""
    if spec.clock is not None:
        logs = [_log(spec, path) for path in (spec.clock, *spec.more_clocks)]
        return joined_evidence(logs, spec.name) if spec.more_clocks else logs[0]
    read = getattr(TABLE_READERS.get(spec.form), "clock_of", None)
    found: Evidence | None = read(Path(spec.path), spec.part) if read is not None else None
    return found


def _log(spec: StreamSpec, path: str) -> Evidence:
    if spec.clock_form == "table":
        return evidence.read(Path(path))
    return clocklog.read(Path(path), spec.clock_unit)


def _master(spec: StreamSpec, found: Evidence) -> str:
    """Name whose clock evidence leads to, so that two of them are told apart.

    Of XDF that of the recorder, one a file; of a log in time since boot that host's own.
    """
    if isinstance(found, HostFixes):
        return HOST + hashlib.sha256(found.device_ns.tobytes()).hexdigest()[:8]
    is_own = spec.clock is None or spec.clock_form == "table"
    if is_own and spec.is_xdf:
        return RECORDER + (spec.source or spec.path)
    return MASTER


def _only_fix(found: Evidence) -> tuple[int, int] | None:
    """Give the pair (device, reference) of evidence that holds but one: an offset, no rate."""
    if isinstance(found, Fixes) and found.device_ns.size == 1:
        return int(found.device_ns[0]), int(found.reference_ns[0])
    if isinstance(found, Exchanges) and found.t1_ns.size == 1:
        t1, t2, t3, t4 = (
            int(column[0]) for column in (found.t1_ns, found.t2_ns, found.t3_ns, found.t4_ns)
        )
        return t2 + (t3 - t2) // 2, t1 + (t4 - t1) // 2
    return None


def _by_frames(opened: Opened, log: FrameLog, where: str) -> Clocked:
    """Take the times of a video's frames from a log of them, those of its sound from the frames."""
    frames, n_frames = _frames_of(opened)
    logged, pairs = films.paired(log, frames, n_frames, where)
    is_dense = logged.is_dense and opened.spec.kind == "video"
    try:
        model = replace(clock.fit(pairs, where=where), method="frames")
    except ClockError:
        if not is_dense:
            raise
        model = clock.on_reference(pairs.reference_ns)
    return Clocked(opened, model, pairs, logged=logged if is_dense else None, master=MASTER)


def _frames_of(opened: Opened) -> tuple[Stream, int]:
    """Give the ranks of a file's frames with their own stamps, and the count of its packets."""
    if opened.spec.kind == "video" and opened.stream is not None:
        ranks = opened.stream.values
        known = (opened.track or {}).get("n_packets")
        return opened.stream, known or int(ranks.max(initial=-1)) + 1
    scan = media.scan_video(opened.spec.container or opened.spec.path)
    frames = films.stream(opened.spec.name, scan)
    return replace(frames, stamps_ns=frames.stamps_ns + opened.shift_ns), scan.n_frames


def _spread(times_ns: IntArray, known: BoolArray) -> IntArray:
    """Give the times of known rows their places; the others are unreadable."""
    if known.all():
        return times_ns
    whole = np.full(known.size, align.UNREADABLE, dtype=np.int64)
    whole[known] = times_ns
    return whole


def on_clock_of(streams: Sequence[Clocked], name: str | None) -> list[Clocked]:
    """Take the clock of one stream as that of the session (`--session-clock`).

    Raises
    ------
    UsageError
        No such stream, or one without clock evidence.
    """
    if name is None:
        return list(streams)
    chosen = next((stream for stream in streams if stream.name == name), None)
    if chosen is not None and chosen.master == chosen.name:
        return list(streams)
    if chosen is None or not chosen.model.n_fixes or chosen.link is not None:
        known = ", ".join(s.name for s in streams if s.model.n_fixes and s.link is None)
        raise UsageError(
            f"no stream {name!r} with clock evidence",
            where="--session-clock",
            hint=f"those with evidence: {known or 'none'}",
        )
    return [replace(stream, session=chosen.model) for stream in streams]


def check_related(streams: Sequence[Clocked]) -> None:
    """Refuse streams whose clocks have no relation.

    Raises
    ------
    ClockError
        Some streams are on Unix time, others on local time or one of their own.
    UsageError
        What relates them is the zone of local times.
    """
    groups: dict[str, list[str]] = {}
    for stream in streams:
        if stream.has_stamps:
            groups.setdefault(stream.time_line, []).append(stream.name)
    if len(groups) < 2:
        _check_masters([stream for stream in streams if stream.has_stamps])
        return
    said = "; ".join(f"on {line}: {', '.join(names)}" for line, names in sorted(groups.items()))
    if groups.keys() == {UNIX, LOCAL}:
        raise UsageError(
            f"{said}; local times need their zone",
            hint=f"tz=ZONE behind the file ({groups[LOCAL][0]}=FILE,tz=Europe/Rome),"
            f" {groups[LOCAL][0]}.tz in a table of sessions, --tz ZONE of convert, or --start"
            f" {groups[LOCAL][0]}=TIME",
        )
    last = groups[max(groups)][0]
    raise ClockError(
        f"{said}; nothing relates them",
        hint=f"give --clock {last}=LOG or --start {last}=TIME; for many sessions {last}.start in a"
        " table of them, or x.clock.tsv beside each x.EXT",
    )


def _check_masters(streams: Sequence[Clocked]) -> None:
    """Refuse two masters whose times count from moments of their own."""
    masters: dict[str, list[str]] = {}
    for stream in streams:
        if stream.master is not None and stream.time_line == OWN:
            masters.setdefault(stream.master, []).append(stream.name)
    if len(masters) > 1:
        said = "; ".join(f"on the clock of {m}: {', '.join(names)}" for m, names in masters.items())
        raise ClockError(
            f"{said}; nothing relates them",
            hint="give the --events that both saw, or a --clock of one to the other",
        )
