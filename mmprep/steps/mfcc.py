"""`mfcc`: features of sound files, or of the sound of a data set.

Rules
-----
- A task computes the features of consecutive utterances and writes one shard of them.
- One rate for all: mixed rates are refused, `--rate` resamples.
- A data set is carried over whole; the files that it has already are linked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from mmprep import mfcc as core
from mmprep.errors import DataError, UsageError
from mmprep.manifest.model import Record, Session, StreamRef, shard_ref
from mmprep.media import decode_audio
from mmprep.shards import open_shard, plan_shards
from mmprep.steps import base, datasets, sounds
from mmprep.steps.base import (
    Contents,
    Engine,
    Item,
    Progress,
    RunOptions,
    StepName,
    StepResult,
    Task,
    Work,
)
from mmprep.steps.inputs import expand, size_of
from mmprep.steps.ragged import Kind, RaggedShards
from mmprep.steps.shardbook import ShardBook
from mmprep.steps.sizes import parse_bytes
from mmprep.steps.tasks import Job
from mmprep.timebase import rate, rate_number, rate_text

STEP = StepName("mfcc", 1)
_RECIPE = (
    "features",
    "n_mfcc",
    "n_mels",
    "mel_norm",
    "center",
    "pad_mode",
    "snip_edges",
    "energy",
    "n_fft",
    "win_ms",
    "hop_ms",
    "fmin",
    "fmax",
    "window",
    "preemph",
    "remove_dc",
    "htk_compat",
    "lifter",
    "top_db",
    "delta",
    "cmvn",
)


@dataclass(frozen=True, slots=True)
class Config:
    """Options of `mmprep mfcc`; what is None comes from the preset."""

    inputs: tuple[str, ...]
    preset: str = "librosa"
    rate: int | None = None
    channel: int | None = None
    shard_size: str = "256MiB"
    root: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    features: str | None = None
    n_mfcc: int | None = None
    n_mels: int | None = None
    mel_norm: str | None = None
    center: bool | None = None
    pad_mode: str | None = None
    snip_edges: bool | None = None
    energy: bool | None = None
    n_fft: int | None = None
    win_ms: float | None = None
    hop_ms: float | None = None
    fmin: float | None = None
    fmax: float | None = None
    window: str | None = None
    preemph: float | None = None
    remove_dc: bool | None = None
    htk_compat: bool | None = None
    lifter: float | None = None
    top_db: float | None = None
    delta: int | None = None
    cmvn: str | None = None

    def recipe(self) -> core.Recipe:
        """Fill what is not given from the preset.

        Raises
        ------
        UsageError
            A value outside its range, or options that exclude each other.
        """
        given = {name: getattr(self, name) for name in _RECIPE}
        return core.preset(self.preset, **{k: v for k, v in given.items() if v is not None})


def run(
    config: Config,
    options: RunOptions,
    *,
    engine: Engine = base.serial,
    progress: Progress | None = None,
) -> StepResult:
    """Compute features and write the data set that holds them."""
    if not config.inputs:
        raise UsageError("no INPUT", hint="name sound files, a folder or a data set")
    plan = _plan(config, options)
    recipe = config.recipe()
    content = {
        "recipe": recipe.to_json(),
        "rate": config.rate,
        "channel": config.channel,
        "shard_size": plan.shard_size,
    }
    with base.open_run(
        STEP, content, options, root=plan.root, engine=engine, progress=progress
    ) as session:
        tasks = list(_tasks(plan, content))
        if options.dry_run:
            return session.preview(tasks, sum(task.n_bytes for task in tasks) // 4)
        outcomes = session.map(Work(extract), tasks, label="mfcc")
        session.check_failures()
        return session.commit(_contents(plan, session, outcomes, recipe.features))


# What to do ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Plan:
    """The utterances, in order, and the data set they come from."""

    root: Path
    items: tuple[Item, ...]
    sizes: tuple[int, ...]
    shard_size: int
    data: datasets.InputDataset | None = None
    sessions: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()


def _plan(config: Config, options: RunOptions) -> _Plan:
    root = Path(config.root) if config.root else None
    inputs = expand(
        config.inputs,
        root=root,
        include=config.include,
        exclude=config.exclude,
        output=options.output,
    )
    shard_size = parse_bytes(config.shard_size)
    if inputs.datasets:
        if len(inputs.datasets) > 1 or inputs.names:
            raise UsageError("one data set, or raw files: not both", where=config.inputs[0])
        return _dataset_plan(datasets.load(inputs.datasets[0], inputs.ids), shard_size, config)
    names = list(sounds.sound_names(inputs))
    ids = sounds.unique_ids(names, str(inputs.root))
    items = tuple(_file_item(inputs.path(name), name, ids[name]) for name in names)
    sizes = tuple(sounds.decoded_bytes(item.source, item.n_bytes) // 4 for item in items)
    sessions = {item.id: sounds.folder_of(item.id, inputs.root.name) for item in items}
    return _Plan(inputs.root, items, sizes, shard_size, None, sessions, inputs.folders)


def _file_item(path: str, name: str, item_id: str) -> Item:
    return Item(item_id, (path,), size_of(path), {}, name, path.removesuffix(f"/{name}"))


def _dataset_plan(data: datasets.InputDataset, shard_size: int, config: Config) -> _Plan:
    with_audio = [record for record in data.records if "audio" in record.streams]
    if not with_audio:
        raise DataError("no record has a stream `audio`", where=data.record_path)
    _check_rates(_record_rates(with_audio), config.rate)
    items = tuple(_shard_item(data, record) for record in with_audio)
    sizes = tuple(item.n_bytes // 4 for item in items)
    return _Plan(data.folder, items, sizes, shard_size, data)


def _record_rates(records: Iterable[Record]) -> Iterator[tuple[Fraction, str]]:
    for record in records:
        yield rate(record.streams["audio"].rate_hz or 0.0), record.id


def _shard_item(data: datasets.InputDataset, record: Record) -> Item:
    ref = record.streams["audio"]
    if ref.shard is None:
        raise DataError("its audio is no shard", where=record.id)
    spec = {
        "path": str(data.folder / ref.shard),
        "sha256": data.file_hash(ref.shard),
        "rows": list(ref.rows),
        "rate_hz": ref.rate_hz,
        "offset_s": ref.offset_s,
    }
    source = record.source or record.id
    return Item(record.id, (), 4 * ref.n_rows, spec, source, str(data.folder))


def _tasks(plan: _Plan, content: dict[str, Any]) -> Iterator[Task]:
    for part in plan_shards(plan.sizes, plan.shard_size):
        items = plan.items[part.start : part.stop]
        yield Task(items[0].id, items, content)


def _check_rates(rates: Iterable[tuple[Fraction, str]], wanted: int | None) -> None:
    """Refuse mixed rates, unless all are resampled."""
    if wanted is not None:
        return
    first: dict[Fraction, str] = {}
    for rate_hz, name in rates:
        first.setdefault(rate_hz, name)
        if len(first) > 1:
            listed = ", ".join(f"{float(hz):g} Hz ({name})" for hz, name in first.items())
            raise UsageError(
                f"mixed rates: {listed}",
                where="--rate",
                hint=f"resample all to one: --rate {int(min(first))}",
            )


# The work -----------------------------------------------------------------------------------------


def extract(job: Job) -> dict[str, Any]:
    """Compute the features of a task's utterances."""
    spec = job.task.spec
    recipe = core.Recipe(**spec["recipe"])
    extractors: dict[Fraction, core.Extractor] = {}
    rates: dict[Fraction, str] = {}
    records: dict[str, Any] = {}
    with RaggedShards(job.folder, spec["shard_size"]) as shards:
        for item in job.items():
            with job.attempt(item, "decode"):
                samples, rate_hz, start_s = _sound(item, spec)
                rates.setdefault(rate_hz, item.source)
                _check_rates(rates.items(), spec["rate"])
                if rate_hz not in extractors:
                    extractors[rate_hz] = core.Extractor(recipe, rate_hz)
                extractor = extractors[rate_hz]
                records[item.id] = _write(shards, extractor, samples) | {
                    "duration_s": samples.size / float(rate_hz),
                    "offset_s": float(extractor.offset_s) + start_s,
                    "audio_rate_hz": rate_text(rate_hz),
                }
        return shards.close() | {"records": records}


def _write(
    shards: RaggedShards, extractor: core.Extractor, samples: NDArray[np.float32]
) -> dict[str, Any]:
    rows = extractor.features(samples)
    kind = Kind(
        extractor.recipe.features,
        1 / extractor.hop_s,
        (extractor.n_features,),
        "float32",
        extractor.feature_names,
        kind="features",
    )
    with shards.item(kind, len(rows)) as (append, place):
        append(rows)
    return {
        "shard": place.path,
        "rows": [place.begin, place.end],
        "rate_hz": rate_text(1 / extractor.hop_s),
    }


def _sound(item: Item, spec: Mapping[str, Any]) -> tuple[NDArray[np.float32], Fraction, float]:
    """Give one channel at the wanted rate, its rate, and the time of its first sample."""
    if item.inputs:
        channel = spec["channel"]
        audio = decode_audio(
            item.inputs[0], channel=channel, mono=channel is None, resample_hz=spec["rate"]
        )
        return audio.samples, Fraction(audio.rate_hz), 0.0
    begin, end = item.spec["rows"]
    rows = open_shard(item.spec["path"])[begin:end]
    samples = _one_channel(np.asarray(rows), spec["channel"], item.id)
    rate_hz = rate(item.spec["rate_hz"])
    if spec["rate"] is not None and rate_hz != spec["rate"]:
        samples, rate_hz = _resampled(samples, rate_hz, spec["rate"]), Fraction(spec["rate"])
    return samples, rate_hz, float(item.spec["offset_s"] or 0.0)


def _one_channel(rows: NDArray[Any], channel: int | None, where: str) -> NDArray[np.float32]:
    samples = rows.astype(np.float32) / 32768 if rows.dtype == np.int16 else rows
    table = samples.reshape(len(samples), -1)
    if channel is not None and channel >= table.shape[1]:
        raise UsageError(f"no channel {channel}: there are {table.shape[1]}", where=where)
    if channel is None and table.shape[1] > 1:
        mean: NDArray[np.float32] = table.mean(axis=1, dtype=np.float32)
        return mean
    return np.ascontiguousarray(table[:, channel or 0], dtype=np.float32)


def _resampled(
    samples: NDArray[np.float32], rate_hz: Fraction, wanted_hz: int
) -> NDArray[np.float32]:
    import soxr

    resampled: NDArray[np.float32] = soxr.resample(samples, float(rate_hz), wanted_hz, "HQ")
    return resampled


# The data set -------------------------------------------------------------------------------------


def _contents(
    plan: _Plan, session: base.Run, outcomes: Sequence[base.Outcome], name: str
) -> Contents:
    book = ShardBook()
    placed: dict[str, base.Placed] = {}
    found: dict[str, tuple[dict[str, Any], StreamRef]] = {}
    failed = {failure.id for failure in session.failures}
    rates: list[tuple[Fraction, str]] = []
    for outcome in outcomes:
        value = outcome.value or {}
        names = book.add(value)
        placed |= session.placed(outcome, names)
        for item_id, row in value.get("records", {}).items():
            if item_id not in failed:
                rates.append((Fraction(row["audio_rate_hz"]), item_id))
                found[item_id] = row, _ref(row, names)
    _check_rates(rates, None)
    if plan.data is None:
        records = [
            _new_record(item, plan, name, *found[item.id])
            for item in plan.items
            if item.id in found
        ]
        return Contents(
            records,
            book.modalities(),
            {record.session: Session() for record in records},
            placed,
            folders=plan.folders,
            media_root=plan.root,
        )
    return _carried(plan.data, book, placed, {k: ref for k, (_, ref) in found.items()}, name)


def _ref(row: Mapping[str, Any], names: Mapping[str, str]) -> StreamRef:
    begin, end = row["rows"]
    return shard_ref(
        names.get(row["shard"], row["shard"]),
        (begin, end),
        rate_hz=rate_number(Fraction(row["rate_hz"])),
        offset_s=round(row["offset_s"], 9),
    )


def _new_record(
    item: Item, plan: _Plan, name: str, row: Mapping[str, Any], ref: StreamRef
) -> Record:
    return Record(
        id=item.id,
        session=plan.sessions[item.id],
        begin_s=0.0,
        duration_s=round(row["duration_s"], 9),
        source=item.source,
        streams={name: ref},
    )


def _carried(
    data: datasets.InputDataset,
    book: ShardBook,
    placed: dict[str, base.Placed],
    refs: Mapping[str, StreamRef],
    name: str,
) -> Contents:
    if name in data.dataset.modalities:
        raise UsageError(
            f"has a modality {name!r} already", where=data.record_path, hint="start from its input"
        )
    records = [
        _with_features(record, name, refs[record.id]) if record.id in refs else record
        for record in data.records
    ]
    return Contents(
        records,
        {**data.dataset.modalities, **book.modalities()},
        data.dataset.sessions,
        {**data.carried(), **placed},
        splits=data.dataset.splits,
        labels=data.dataset.labels,
        extra_inputs=(data.record_path,),
        media_root=data.media_root,
        n_rejected_rows=data.dataset.totals.rejected_rows,
        extra=data.dataset.extra,
    )


def _with_features(record: Record, name: str, ref: StreamRef) -> Record:
    """Add the features, on the clock of the sound that they were made of."""
    own = msgspec.structs.replace(ref, clock=record.streams["audio"].clock)
    return msgspec.structs.replace(record, streams={**record.streams, name: own})
