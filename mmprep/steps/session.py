"""The work of `align`: one session's streams onto windows, masks, bounds and accounting.

Rules
-----
- Streams are resampled in blocks of windows whose size depends on the windows alone, so that the
  bytes do not depend on who computes them.
- A modality and its mask go to shards of the same numbers and rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mmprep import align, media, tables
from mmprep.errors import DataError, UsageError
from mmprep.shards import ShardWriter, shard_limit
from mmprep.signals import Stream
from mmprep.steps import streams, sync
from mmprep.steps.journal import FileNote
from mmprep.steps.shardbook import shard_name
from mmprep.steps.streams import Clocked
from mmprep.steps.tasks import Item, Job
from mmprep.timebase import NS_PER_S, BoolArray, rate, rate_number, rate_text

BLOCK_BYTES = 16 * 2**20
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Wish:
    """What the caller asked for, for all sessions."""

    window_s: Fraction
    hop_s: Fraction
    rates_hz: Mapping[str, Fraction]
    rate_hz: Fraction | None
    cover: str
    on_gap: str
    tolerance_s: float | None
    min_valid: float
    methods: Mapping[str, str]
    frames: tuple[int, int] | None
    gray: bool
    fit: str
    session_clock: str | None
    shard_size: int

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> Wish:
        """Read the spec of a task."""
        frames = spec["frames"]
        return cls(
            window_s=Fraction(spec["window"]),
            hop_s=Fraction(spec["hop"]),
            rates_hz={name: rate(text) for name, text in spec["rates"].items()},
            rate_hz=rate(spec["rate"]) if spec["rate"] else None,
            cover=spec["cover"],
            on_gap=spec["on_gap"],
            tolerance_s=spec["tolerance_s"],
            min_valid=spec["min_valid"],
            methods=spec["methods"],
            frames=(frames[0], frames[1]) if frames else None,
            gray=spec["gray"],
            fit=spec["fit"],
            session_clock=spec["session_clock"],
            shard_size=spec["shard_size"],
        )


@dataclass(frozen=True, slots=True)
class Modality:
    """A stream on its way onto the windows."""

    clocked: Clocked
    repaired: align.Repaired
    rate_hz: Fraction
    method: str
    ledger: align.Ledger
    pixels: Pixels | None = None

    @property
    def name(self) -> str:
        """Its name in the data set."""
        return self.clocked.name

    @property
    def row_bytes(self) -> int:
        """About how many bytes a sample takes."""
        if self.pixels is not None:
            return self.pixels.n_bytes
        return 4 * int(np.prod(self.repaired.source.shape[1:], dtype=np.int64))


def run(job: Job) -> dict[str, Any]:
    """Align the sessions of a task."""
    wish = Wish.of(job.task.spec)
    value: dict[str, Any] = {"files": [], "shards": {}, "sessions": {}}
    for item in job.items():
        with job.attempt(item, "align"):
            _align(job, item, wish, value)
    return value


def _align(job: Job, item: Item, wish: Wish, value: dict[str, Any]) -> None:
    opened = [streams.open_stream(streams.spec_of(spec)) for spec in item.spec["streams"]]
    on_clocks = streams.on_clock_of([streams.clocked(one) for one in opened], wish.session_clock)
    streams.check_related(on_clocks)
    notes: list[str] = []
    chosen = _modalities(on_clocks, wish, notes)
    events = [one for one in on_clocks if one.opened.spec.kind == "events" or _is_events(one)]
    plan = align.plan_windows(
        [modality.repaired.coverage_ns for modality in chosen],
        {modality.name: modality.rate_hz for modality in chosen},
        window_s=wish.window_s,
        hop_s=wish.hop_s,
        cover=wish.cover,
    )
    with _Windows(job.folder, wish.shard_size) as written:
        records, counts = _cut(chosen, plan, wish, written)
        shards = written.close()
    placed = [_write_events(job, item, one, plan, value) for one in events]
    facts = [sync.stream_facts(m, plan) for m in chosen]
    is_absolute = chosen[0].clocked.is_absolute
    text = sync.encode(item.id, plan, facts, placed, counts, is_absolute=is_absolute)
    name = f"sync/{item.id}.json"
    path = job.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    value["files"] += [*shards["files"], FileNote.of(job.folder, name).row()]
    value["shards"] = shards["shards"]
    value["sessions"][item.id] = {
        "origin_ns": plan.origin_ns if is_absolute else None,
        "clock": _clock_name(chosen, wish),
        "records": records,
        "notes": [*notes, *_unproved(chosen)],
        "warnings": _losses(item.id, facts, counts),
    }


def _clock_name(chosen: list[Modality], wish: Wish) -> str:
    if wish.session_clock is not None:
        return wish.session_clock
    has_master = any(modality.clocked.model.n_fixes for modality in chosen)
    return "master" if has_master else "device"


def _is_events(one: Clocked) -> bool:
    return one.opened.stream is not None and one.opened.stream.kind == "events"


def _modalities(on_clocks: list[Clocked], wish: Wish, notes: list[str]) -> list[Modality]:
    chosen = []
    for one in on_clocks:
        if one.opened.spec.kind == "events" or _is_events(one):
            continue
        given = wish.rates_hz.get(one.name, wish.rate_hz)
        if one.opened.nominal_hz is None and given is None:
            notes.append(f"{one.name} has no rate and is left out; --rates {one.name}=HZ takes it")
            continue
        chosen.append(_modality(one, given, wish, notes))
    if not chosen:
        raise UsageError("no stream has a rate", hint="give --rates NAME=HZ")
    return chosen


def _modality(one: Clocked, given: Fraction | None, wish: Wish, notes: list[str]) -> Modality:
    rate_hz = align.grid_rate(one.opened.nominal_hz, wish.window_s, given_hz=given)
    if given is None and rate_hz != one.opened.nominal_hz:
        notes.append(f"{one.name}: {float(one.opened.nominal_hz or 0):g} Hz becomes {rate_hz} Hz")
    repaired = one.repaired()
    method = wish.methods.get(one.name) or align.default_method(repaired, rate_hz)
    pixels = None
    if wish.frames is not None and repaired.kind == "video":
        pixels = Pixels.of(one, wish)
    return Modality(one, repaired, rate_hz, method, align.Ledger(repaired), pixels)


def _unproved(chosen: list[Modality]) -> list[str]:
    names = [m.name for m in chosen if not m.clocked.model.n_fixes]
    if not names or len(chosen) == 1:
        return []
    return [f"no clock evidence for {', '.join(names)}: taken as on the session clock, bound null"]


def _losses(session: str, facts: list[dict[str, Any]], counts: Mapping[str, int]) -> list[str]:
    said = [
        f"{session}: {fact['name']}: {fact['accounting'][key]} rows {word}"
        for fact in facts
        for key, word in (("corrupt", "without a usable stamp"), ("duplicate", "repeat a stamp"))
        if fact["accounting"][key]
    ]
    dropped = counts["dropped_gap"] + counts["dropped_thin"]
    return said + ([f"{session}: {dropped} windows dropped"] if dropped else [])


# Windows ------------------------------------------------------------------------------------------


def _cut(
    chosen: list[Modality], plan: align.WindowPlan, wish: Wish, written: _Windows
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Resample block by block, keep the windows that may stay, write them."""
    records: list[dict[str, Any]] = []
    counts = {"planned": plan.n_windows, "kept": 0, "dropped_gap": 0, "dropped_thin": 0}
    for begin, end in _blocks(chosen, plan):
        found = {modality.name: _resampled(modality, plan, wish, begin, end) for modality in chosen}
        valid = {name: mask for name, (_, mask, _) in found.items()}
        kept = align.keep_windows(valid, on_gap=wish.on_gap, min_valid=wish.min_valid, first=begin)
        counts["kept"] += int(kept.keep.sum())
        counts["dropped_gap"] += kept.n_gap
        counts["dropped_thin"] += kept.n_thin
        for modality in chosen:
            values, mask, aligned = found[modality.name]
            modality.ledger.mark(aligned, np.repeat(kept.keep, mask.shape[1]) & mask.reshape(-1))
            written.add(modality, values[kept.keep], mask[kept.keep])
        records += _records(chosen, plan, kept, begin, written)
    return records, counts


def _blocks(chosen: list[Modality], plan: align.WindowPlan) -> Iterator[tuple[int, int]]:
    per_window = sum(m.row_bytes * plan.n_samples(m.name) for m in chosen)
    size = int(max(1, min(256, BLOCK_BYTES // max(per_window, 1))))
    for begin in range(0, plan.n_windows, size):
        yield begin, min(begin + size, plan.n_windows)


def _resampled(
    modality: Modality, plan: align.WindowPlan, wish: Wish, begin: int, end: int
) -> tuple[NDArray[Any], BoolArray, align.Aligned]:
    times = plan.times_s(modality.name, begin, end)
    aligned = align.resample(
        modality.repaired,
        times.reshape(-1),
        origin_ns=plan.origin_ns,
        method=modality.method,
        rate_hz=modality.rate_hz,
        tolerance_s=wish.tolerance_s,
    )
    values = aligned.values.reshape(*times.shape, *aligned.values.shape[1:])
    valid = aligned.valid.reshape(times.shape)
    if modality.pixels is not None:
        values, valid = modality.pixels.of_ranks(values, valid)
    return values, valid, aligned


def _records(
    chosen: list[Modality], plan: align.WindowPlan, kept: align.Kept, begin: int, written: _Windows
) -> list[dict[str, Any]]:
    numbers = begin + np.flatnonzero(kept.keep)
    bounds = {m.name: _bounds(m, plan, numbers) for m in chosen}
    rows = {m.name: written.places(m.name, len(numbers)) for m in chosen}
    return [
        {
            "k": int(k),
            "begin_s": float(plan.begin_s(int(k))),
            "duration_s": float(plan.window_s),
            "streams": {m.name: rows[m.name][i] for m in chosen},
            "valid": {m.name: round(float(kept.shares[m.name][k - begin]), 6) for m in chosen},
            "bound_s": {m.name: bounds[m.name][i] for m in chosen},
        }
        for i, k in enumerate(numbers)
    ]


def _bounds(
    modality: Modality, plan: align.WindowPlan, numbers: NDArray[np.int64]
) -> list[float | None]:
    """Bound the clock error in each window: the larger of those at its begin and end."""
    edges = [
        plan.origin_ns + round((plan.begin_s(int(k)) + at) * NS_PER_S)
        for k in numbers
        for at in (0, plan.window_s)
    ]
    bound = modality.clocked.bound_at_s(np.array(edges, dtype=np.int64))
    if bound is None:
        return [None] * len(numbers)
    return [round(float(pair.max()), 9) for pair in bound.reshape(-1, 2)]


@dataclass(slots=True)
class _Windows:
    """The shards of all modalities of a session: values and masks side by side."""

    folder: Path
    shard_size: int
    _open: dict[str, tuple[ShardWriter, ShardWriter]] = field(default_factory=dict)
    _modalities: dict[str, Modality] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _places: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    _done: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _files: list[list[Any]] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for pair in self._open.values():
            for writer in pair:
                writer.abandon()

    def add(self, modality: Modality, values: NDArray[Any], valid: BoolArray) -> None:
        """Append windows."""
        self._modalities[modality.name] = modality
        done = 0
        while done < len(values):
            writers, room = self._room(modality.name, values)
            part = slice(done, done + room)
            first, last = writers[0].write(_stored(values[part]))
            writers[1].write(valid[part])
            name = self._name(modality.name)
            self._places.setdefault(modality.name, []).extend((name, k) for k in range(first, last))
            done += last - first

    def _name(self, modality: str) -> str:
        return shard_name(modality, self._counts[modality] - 1)

    def _room(self, name: str, values: NDArray[Any]) -> tuple[tuple[ShardWriter, ShardWriter], int]:
        row_bytes = max(_stored(values[:1]).nbytes, 1)
        if name in self._open:
            limit = shard_limit(self._counts[name] - 1, self.shard_size)
            room = limit // row_bytes - self._open[name][0].n_rows
            if room > 0:
                return self._open[name], room
            self._finish(name)
        number = self._counts.get(name, 0)
        self._counts[name] = number + 1
        shape, dtype = values.shape[1:], _stored(values[:0]).dtype
        self._open[name] = (
            self._writer(shard_name(name, number), dtype, shape),
            self._writer(shard_name(f"{name}.valid", number), np.dtype(bool), shape[:1]),
        )
        return self._open[name], max(shard_limit(number, self.shard_size) // row_bytes, 1)

    def _writer(self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> ShardWriter:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return ShardWriter(path, dtype, shape)

    def _finish(self, name: str) -> None:
        modality = self._modalities[name]
        for key, writer in zip((name, f"{name}.valid"), self._open.pop(name), strict=True):
            shard = writer.close()
            path = shard.path.relative_to(self.folder).as_posix()
            self._files.append([path, shard.n_bytes, shard.sha256])
            is_mask = key != name
            repaired = modality.repaired
            self._done.setdefault(key, []).append(
                {
                    "path": path,
                    "rows": shard.n_rows,
                    "dtype": np.dtype(shard.dtype).name,
                    "row_shape": list(shard.row_shape),
                    "rate_hz": rate_text(modality.rate_hz),
                    "channels": None if is_mask else list(repaired.channels) or None,
                    "units": None if is_mask else list(repaired.units) or None,
                    "kind": "mask" if is_mask else repaired.kind,
                }
            )

    def places(self, name: str, n: int) -> list[dict[str, Any]]:
        """Give the places of the last n windows."""
        found = self._places.get(name, [])[-n:] if n else []
        rate_hz = rate_number(self._modalities[name].rate_hz)
        return [{"shard": shard, "row": row, "rate_hz": rate_hz} for shard, row in found]

    def close(self) -> dict[str, Any]:
        """Finish all shards."""
        for name in list(self._open):
            self._finish(name)
        return {"files": sorted(self._files), "shards": self._done}


def _stored(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype == object:
        raise DataError("text has no place in a window", hint="take it as events: kind=events")
    return values


# Pixels -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Pixels:
    """The pictures of a video, decoded forward once.

    Parameters
    ----------
    path : str
        The file.
    size : (width, height)
    """

    path: str
    size: tuple[int, int]
    gray: bool
    fit: str
    scan: Any
    _feed: Iterator[tuple[int, NDArray[np.uint8]]] | None = None
    _cache: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    _read_to: int = -1

    @classmethod
    def of(cls, one: Clocked, wish: Wish) -> Pixels:
        """Open the pictures of a stream.

        Raises
        ------
        UsageError
            The file that holds them is not known.
        """
        spec = one.opened.spec
        path = spec.media or (spec.path if spec.form == "video" else None)
        if path is None or not Path(path).is_file():
            raise UsageError(
                f"the video {path or spec.name!r} is not there",
                where=spec.name,
                hint="--media-root DIR names the folder that holds the sources",
            )
        scan = one.opened.scan or media.scan_video(path)
        return cls(path, wish.frames or (0, 0), wish.gray, wish.fit, scan)

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of a picture."""
        return self.size[1], self.size[0], 1 if self.gray else 3

    @property
    def n_bytes(self) -> int:
        """The bytes of a picture."""
        return int(np.prod(self.shape))

    def of_ranks(
        self, ranks: NDArray[np.int32], valid: BoolArray
    ) -> tuple[NDArray[np.uint8], BoolArray]:
        """Give the pictures of frame ranks; 0 and not valid where a frame can't be decoded."""
        pictures = np.zeros((*ranks.shape, *self.shape), np.uint8)
        found = valid.copy()
        wanted = sorted({int(rank) for rank in ranks[valid]})
        self._read(wanted)
        for index in zip(*np.nonzero(valid), strict=True):
            picture = self._cache.get(int(ranks[index]))
            if picture is None:
                found[index] = False
            else:
                pictures[index] = picture
        return pictures, found

    def _read(self, wanted: list[int]) -> None:
        """Decode up to the last wanted frame; forget those before the first."""
        if not wanted:
            return
        for rank in [rank for rank in self._cache if rank < wanted[0]]:
            del self._cache[rank]
        if self._feed is None:
            rest = range(wanted[0], self.scan.n_frames)
            self._feed = media.read_frames(
                self.path, rest, self.size, gray=self.gray, fit=self.fit, scan=self.scan
            )
        while self._read_to < wanted[-1]:
            rank, picture = next(self._feed, (self.scan.n_frames, None))
            self._read_to = rank
            if picture is not None and rank >= wanted[0]:
                self._cache[rank] = picture


# Events -------------------------------------------------------------------------------------------


def _write_events(
    job: Job, item: Item, one: Clocked, plan: align.WindowPlan, value: dict[str, Any]
) -> dict[str, Any]:
    """Write the events inside the span as a table on the session clock."""
    placed = align.place_events(one.repaired(), plan)
    name = f"tables/{one.name}/{item.id}.parquet"
    target = job.folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    data = placed.values.reshape(len(placed.values), -1)
    channels = one.opened.stream.channels if one.opened.stream is not None else ()
    events = Stream(one.name, placed.stamps_ns, data, channels, absolute=one.is_absolute)
    tables.write_stream(target, events, item_id=item.id)
    value["files"].append(FileNote.of(job.folder, name).row())
    return {"name": one.name, "table": name, "accounting": sync.accounting(placed.accounting)}
