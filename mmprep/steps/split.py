"""`manifest split`: who trains, who validates, who tests; the weights of the classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from mmprep import files
from mmprep.errors import DataError, UsageError
from mmprep.manifest import split, stats
from mmprep.manifest.model import Record, field_value
from mmprep.steps import base, datasets, spread
from mmprep.steps.base import (
    Contents,
    Engine,
    Progress,
    RunOptions,
    StepName,
    StepResult,
    Work,
)

STEP = StepName("split", 2)
TRAIN = "train"


@dataclass(frozen=True, slots=True)
class Config:
    """Options of `manifest split`.

    Parameters
    ----------
    by : str
        The field whose values are never torn.
    ratios : str
        `train=0.8,val=0.1,test=0.1`.
    method : str
        `balanced` or `hash`.
    lists : str, optional
        `train=F,val=F,test=F`: files of ids (or values of `by`), one a line.
    keep : str, optional
        A data set that was split before: its groups stay where they are.
    from_layout : bool
        The records name their splits already, as the corpus has them.
    n_folds : int, optional
        Write `fold` in place of `split`.
    """

    inputs: tuple[str, ...]
    by: str = "subject"
    ratios: str = "train=0.8,val=0.1,test=0.1"
    method: str = "balanced"
    seed: int = 0
    stratify: str = "label"
    lists: str | None = None
    keep: str | None = None
    from_layout: bool = False
    folds: int | None = None
    leave_one_out: bool = False
    allow_absent: bool = False
    root: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Placing:
    """The records with their splits, and how close they came."""

    records: list[Record]
    closeness: dict[str, Any] = field(default_factory=dict)


def run(
    config: Config,
    options: RunOptions,
    *,
    engine: Engine = base.serial,
    progress: Progress | None = None,
) -> StepResult:
    """Write a data set whose records name their split or fold, with class weights."""
    if len(config.inputs) != 1:
        raise UsageError("give one data set")
    data = datasets.load(config.inputs[0])
    placing = _placed(data.records, config)
    content = asdict(config)
    for name in ("inputs", "root", "include", "exclude"):
        content.pop(name)
    content["lists"] = _list_hashes(config.lists)
    content["keep"] = None if config.keep is None else files.digest(_record_of(config.keep))
    with base.open_run(
        STEP, content, options, root=data.folder, engine=engine, progress=progress
    ) as session:
        if options.dry_run:
            return session.preview([], data.dataset.totals.bytes)
        for name, near in placing.closeness.items():
            tell = session.progress.say if near.n_records else session.progress.warn
            tell(_close_text(name, near))
        carried = data.carried()  # a damaged data set is found before it is read
        trained = [record for record in placing.records if record.split == TRAIN]
        tasks = spread.tasks(data, trained)
        outcomes = session.map(Work(spread.WORK), tasks, label="statistics") if tasks else []
        session.check_failures()
        measured = spread.statistics([outcome.value or {} for outcome in outcomes])
        others = {k: v for k, v in data.dataset.extra.items() if k != "statistics"}
        extra = {**others, **({"statistics": measured} if measured else {})}
        found = _contents(data, placing, config)
        return session.commit(replace(found, placed=carried, extra=extra))


def _contents(data: datasets.InputDataset, placing: _Placing, config: Config) -> Contents:
    found = stats.collect(placing.records)
    weights = found.weights(allow_absent=config.allow_absent)
    splits: dict[str, Any] = {
        name: {"records": part.n_records, "seconds": round(float(part.seconds), 9)}
        for name, part in found.splits.items()
        if name != stats.NO_SPLIT
    }
    return Contents(
        placing.records,
        modalities=data.dataset.modalities,
        sessions=data.dataset.sessions,
        splits=splits,
        labels=found.label_counts(weights),
        extra_inputs=(data.record_path, *_list_files(config.lists), *_kept_files(config.keep)),
        media_root=data.media_root,
        n_rejected_rows=data.dataset.totals.rejected_rows,
    )


def _kept_files(keep: str | None) -> list[str]:
    return [] if keep is None else [str(_record_of(keep))]


def _record_of(path: str) -> Path:
    return datasets.folder_of(path).absolute() / "dataset.json"


def _kept(config: Config) -> dict[str, str]:
    """Give the groups of an earlier split, and where they were."""
    if config.keep is None:
        return {}
    placed: dict[str, str] = {}
    for record in datasets.load(config.keep).records:
        group = field_value(record, config.by)
        if group is None or record.split is None:
            continue
        if placed.setdefault(group, record.split) != record.split:
            raise UsageError(
                f"{config.by} {group!r} is in {placed[group]!r} and {record.split!r}",
                where=config.keep,
            )
    if not placed:
        raise UsageError(f"has no split by {config.by}", where=config.keep)
    return placed


def _of_layout(records: tuple[Record, ...]) -> _Placing:
    """Take the splits that the records name.

    Raises
    ------
    UsageError
        Some name none.
    """
    without = [record.id for record in records if record.split is None]
    if without:
        raise UsageError(
            f"{len(without)} records name no split ({', '.join(without[:3])})",
            where="--from-layout",
            hint="convert --layout with lists or {split} gives them; or split by --by",
        )
    return _Placing(list(records))


def _placed(records: tuple[Record, ...], config: Config) -> _Placing:
    if config.from_layout:
        return _of_layout(records)
    if config.lists:
        placed = split.listed(_lists(config.lists))
        key = "id" if not {r.id for r in records}.isdisjoint(placed) else config.by
        _check_listed(records, placed, key)
        return _Placing(list(split.assign(records, placed, by=key)))
    if config.folds and config.leave_one_out:
        raise UsageError("--folds and --leave-one-out together", hint="choose one")
    if config.stratify != "label" and all(field_value(r, config.stratify) is None for r in records):
        raise UsageError(f"no record has a field {config.stratify!r}", where="--stratify")
    groups = split.count_groups(records, by=config.by, stratify=config.stratify)
    if config.folds or config.leave_one_out:
        return _Placing(list(split.assign_folds(records, _folds(groups, config), by=config.by)))
    ratios, keep = split.parse_ratios(config.ratios), _kept(config)
    if config.method == "hash":
        placed = split.hashed(groups, ratios, seed=config.seed) | {
            group: old for group, old in keep.items() if group in groups
        }
    else:
        placed = split.balanced(groups, ratios, seed=config.seed, keep=keep)
    near = split.closeness(groups, placed, ratios)
    return _Placing(list(split.assign(records, placed, by=config.by)), dict(near))


def _check_listed(records: tuple[Record, ...], placed: Mapping[str, str], key: str) -> None:
    left = [record.id for record in records if (field_value(record, key) or "") not in placed]
    if left:
        raise UsageError(
            f"{len(left)} records are in no list ({', '.join(left[:3])})",
            where="--lists",
            hint=f"the lists name values of {key}; put every one into a list",
        )


def _folds(groups: split.Groups, config: Config) -> dict[str, int]:
    if config.leave_one_out:
        return split.leave_one_out(groups)
    return split.folds(groups, config.folds or 0, seed=config.seed)


def _close_text(name: str, near: split.Closeness) -> str:
    return (
        f"{name}: {near.n_groups} groups, {near.n_records} records,"
        f" {near.share_of_records:.1%} (asked {near.ratio:.1%})"
    )


def _list_paths(text: str) -> dict[str, Path]:
    paths: dict[str, Path] = {}
    for part in text.split(","):
        name, _, path = part.partition("=")
        if not name or not path:
            raise UsageError(f"{part!r} is not SPLIT=FILE", where="--lists")
        paths[name] = Path(path)
    return paths


def _lists(text: str) -> dict[str, list[str]]:
    return {name: _lines(path) for name, path in _list_paths(text).items()}


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{error.strerror}", where=str(path)) from error
    except UnicodeDecodeError as error:
        raise DataError("is not UTF-8", where=str(path)) from error
    return [line.split()[0] for line in text.splitlines() if line.strip()]


def _list_files(text: str | None) -> list[str]:
    return [str(path.absolute()) for path in _list_paths(text).values()] if text else []


def _list_hashes(text: str | None) -> dict[str, str] | None:
    if text is None:
        return None
    return {name: files.digest(path) for name, path in _list_paths(text).items()}
