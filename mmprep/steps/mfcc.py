"""`mfcc`: features of sound files, or of the sound of a data set.

Rules
-----
- A task computes the features of consecutive utterances and writes one shard of them.
- One rate for all: mixed rates are refused, `--rate` resamples.
- A data set is carried over whole; the files that it has already are linked.
- `--cmvn speaker` goes through the sound twice: the moments of each speaker's features, merged in
  the order of the tasks, are part of what the second pass is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

from mmprep import mfcc as core
from mmprep.errors import DataError, UsageError
from mmprep.manifest.model import Record, Session, StreamRef, shard_ref
from mmprep.shards import plan_shards
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
from mmprep.steps.features.rates import check_rates
from mmprep.steps.inputs import expand, size_of, skipped_note
from mmprep.steps.running.shardbook import ShardBook
from mmprep.steps.sizes import parse_bytes
from mmprep.timebase import rate, rate_number

STEP = StepName("mfcc", 1)
_RECIPE = (
    "features",
    "n_mfcc",
    "n_mels",
    "mel_norm",
    "mel_scale",
    "dct_norm",
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
    mel_norm: str | float | None = None
    mel_scale: str | None = None
    dct_norm: str | None = None
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
    top_db: float | str | None = None
    delta: int | None = None
    cmvn: str | None = None

    def recipe(self) -> core.Recipe:
        """Fill what is not given from the preset; `top_db` may be "none".

        Raises
        ------
        UsageError
            A value outside its range, or options that exclude each other.
        """
        given = {name: getattr(self, name) for name in _RECIPE}
        given = {name: value for name, value in given.items() if value is not None}
        if self.top_db == "none":
            given["top_db"] = None
        return core.preset(self.preset, **given)


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
    recipe = config.recipe()
    plan = _plan(config, options)
    if recipe.cmvn == "speaker":
        _check_speakers(plan)
    content = {
        "recipe": recipe.to_json(),
        "rate": config.rate,
        "channel": config.channel,
        "shard_size": plan.shard_size,
    }
    with base.open_run(
        STEP, content, options, root=plan.root, engine=engine, progress=progress
    ) as session:
        if plan.skipped:
            session.progress.say(skipped_note(plan.skipped))
        tasks = list(_tasks(plan, content))
        if options.dry_run:
            return session.preview(tasks, sum(task.n_bytes for task in tasks) // 4)
        if recipe.cmvn == "speaker":
            tasks = _with_speakers(session, tasks)
        outcomes = session.map(Work("mmprep.steps.features.extract:extract"), tasks, label="mfcc")
        session.check_failures()
        _tell_gaps(session, outcomes, recipe.n_mels)
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
    skipped: tuple[str, ...] = ()


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
    skipped = tuple(name for name in inputs.names if name not in ids)
    return _Plan(inputs.root, items, sizes, shard_size, None, sessions, inputs.folders, skipped)


def _file_item(path: str, name: str, item_id: str) -> Item:
    return Item(item_id, (path,), size_of(path), {}, name, path.removesuffix(f"/{name}"))


def _dataset_plan(data: datasets.InputDataset, shard_size: int, config: Config) -> _Plan:
    with_audio = [record for record in data.records if "audio" in record.streams]
    if not with_audio:
        raise datasets.without_audio(data)
    if datasets.is_window(data, "audio"):
        raise UsageError(
            "its sound is cut into windows",
            where=str(data.folder),
            hint="mfcc comes before align; or align --window trial|record, which leaves it whole",
        )
    check_rates(_record_rates(with_audio), config.rate)
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
        "breaks": ref.extra.get("breaks", ()),
        "subject": record.subject,
    }
    source = record.source or record.id
    return Item(record.id, (), 4 * ref.n_rows, spec, source, str(data.folder))


def _tasks(plan: _Plan, content: dict[str, Any]) -> Iterator[Task]:
    for part in plan_shards(plan.sizes, plan.shard_size):
        items = plan.items[part.start : part.stop]
        yield Task(items[0].id, items, content)


def _check_speakers(plan: _Plan) -> None:
    """Refuse to normalise by speaker what does not say who speaks."""
    unknown = [item.source for item in plan.items if item.spec.get("subject") is None]
    if unknown:
        raise UsageError(
            f"{len(unknown)} of {len(plan.items)} have no subject ({unknown[0]}, ...)",
            where="--cmvn speaker",
            hint="convert the files first: --layout says where a path names the subject",
        )


def _with_speakers(session: base.Run, tasks: Sequence[Task]) -> list[Task]:
    """Measure each speaker's features, and tell the tasks; what failed is left out."""
    outcomes = session.map(
        Work("mmprep.steps.features.extract:measure", is_look=True), tasks, label="speakers"
    )
    failed = {failure.id for outcome in outcomes for failure in outcome.failures}
    known: dict[str, core.Moments] = {}
    for outcome in outcomes:
        for speaker, found in (outcome.value or {}).get("speakers", {}).items():
            part = core.Moments.from_json(found)
            known[speaker] = known[speaker].merge(part) if speaker in known else part
    return [told for task in tasks if (told := _told(task, known, failed)).items]


def _told(task: Task, known: Mapping[str, core.Moments], failed: set[str]) -> Task:
    items = tuple(item for item in task.items if item.id not in failed)
    subjects = dict.fromkeys(item.spec["subject"] for item in items)
    # One whose utterances are all shorter than a window has no moments.
    speakers = {subject: known[subject].to_json() for subject in subjects if subject in known}
    return replace(task, items=items, spec={**task.spec, "speakers": speakers})


# The data set -------------------------------------------------------------------------------------


def _tell_gaps(session: base.Run, outcomes: Sequence[base.Outcome], n_mels: int) -> None:
    """Say which utterances have no row, and that bands hold nothing."""
    values = [outcome.value or {} for outcome in outcomes]
    records = [pair for value in values for pair in value.get("records", {}).items()]
    without = [item_id for item_id, row in records if row["rows"][0] == row["rows"][1]]
    if without:
        lacking = f"{len(without)} of {len(records)} are shorter than a window"
        session.progress.warn(f"{lacking} and have no row ({without[0]}, ...)")
    empty = {hz: n for value in values for hz, n in value.get("empty_bands", {}).items()}
    for hz, n_bands in empty.items():
        bands = f"{n_bands} of {n_mels} bands hold no bin of the transform"
        session.progress.warn(
            f"{bands} at {float(Fraction(hz)):g} Hz: a longer --n-fft or fewer --n-mels fill them"
        )


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
                for warning in row["warnings"]:
                    session.progress.warn(warning)
    check_rates(rates, None)
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
    ref = shard_ref(
        names.get(row["shard"], row["shard"]),
        (begin, end),
        rate_hz=rate_number(Fraction(row["rate_hz"])),
        offset_s=round(row["offset_s"], 9),
    )
    return msgspec.structs.replace(ref, extra={"breaks": row["breaks"]}) if row["breaks"] else ref


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
