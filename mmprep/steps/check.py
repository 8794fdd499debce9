"""`manifest validate` and `manifest stats`: read only, never mend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from mmprep import tables
from mmprep.errors import UsageError
from mmprep.manifest import codec, folder, stats, validate
from mmprep.manifest.model import Record, field_value
from mmprep.manifest.private import Beside, TableFacts, are_dates, identifying
from mmprep.shards import open_shard
from mmprep.steps import datasets
from mmprep.timebase import UNIX_NS, FloatArray

MAX_ROWS = 1 << 12


def check(
    path: str, *, checksums: bool, subset: str = "1/1", leakage: str | None = None
) -> validate.Checked:
    """Find all that is wrong with a data set.

    Raises
    ------
    UsageError
        The folder holds no data set, `--subset` is no part, or no record has the field.
    """
    root = datasets.folder_of(path)
    record = root / validate.RECORD
    if not record.is_file():
        raise UsageError(
            f"is no data set: it has no {validate.RECORD}",
            where=path,
            hint="name a folder that a mmprep command wrote",
        )
    manifest = root / validate.MANIFEST
    if leakage is not None and manifest.is_file():
        _check_field(manifest, leakage)
    return validate.validate(
        record.read_bytes(),
        codec.scan_manifest(manifest) if manifest.is_file() else (),
        folder.Folder(root),
        checksums=checksums,
        subset=validate.parse_subset(subset),
        leakage=leakage,
    )


def private(path: str) -> list[validate.Finding]:
    """List what in a data set may tell who was recorded, when and where.

    Raises
    ------
    DataError
        The data set can't be read.
    """
    data = datasets.load(path)
    listed = (data.folder / "inputs.jsonl").read_bytes().splitlines()
    inputs = [str(msgspec.json.decode(line)["name"]) for line in listed]
    return identifying(
        data.dataset,
        data.records,
        folder.Folder(data.folder).names(),
        inputs,
        _tables(data),
        beside=Beside(_dated(data), _said(data.folder)),
    )


def _said(root: Path) -> Iterator[tuple[str, Any]]:
    """Give what the JSON files beside the manifest say."""
    for path in sorted((root / "sync").rglob("*.json")):
        yield "sync", msgspec.json.decode(path.read_bytes())
    failures = root / "failures.jsonl"
    for line in failures.read_bytes().splitlines() if failures.is_file() else ():
        yield failures.name, msgspec.json.decode(line)


def _dated(data: datasets.InputDataset) -> dict[str, tuple[str, ...]]:
    """Find channels that hold Unix times, by the begin of the first shard of each signal."""
    found = {}
    for name, part in data.dataset.modalities.items():
        if part.kind != "signal" or not part.channels or not part.shards:
            continue
        rows = open_shard(data.folder / part.shards[0].path)[:MAX_ROWS]
        values = np.asarray(rows, np.float64).reshape(-1, len(part.channels))
        found[name] = _dated_of(part.channels, [values])
    return found


def _dated_of(channels: tuple[str, ...], blocks: Iterable[FloatArray]) -> tuple[str, ...]:
    """Name the channels all of whose numbers may be Unix time."""
    lows, highs = np.full(len(channels), np.inf), np.full(len(channels), -np.inf)
    for block in blocks:
        lows = np.fmin(lows, np.fmin.reduce(block, axis=0, initial=np.inf))
        highs = np.fmax(highs, np.fmax.reduce(block, axis=0, initial=-np.inf))
    spans = zip(channels, lows.tolist(), highs.tolist(), strict=True)
    return tuple(name for name, low, high in spans if are_dates(low, high))


def _tables(data: datasets.InputDataset) -> Iterator[TableFacts]:
    for name in sorted(data.dataset.files):
        parts = name.split("/")
        if parts[0] != "tables" or not name.endswith(".parquet"):
            continue
        if parts[1].endswith(".clock"):
            columns = tables.read_columns(data.folder / name)
            stamps = [int(one[0]) for one in columns.values() if len(one) and one.dtype == "int64"]
            is_absolute = any(stamp >= UNIX_NS for stamp in stamps)
            yield TableFacts(parts[1], is_absolute, None, (), (), None, None)
            continue
        info = tables.table_info(data.folder / name)
        blocks = tables.iter_stream(data.folder / name, parts[1])
        numbers = tuple(one for one in info.channels if one not in info.texts)
        yield TableFacts(
            parts[1],
            info.time.absolute,
            info.time.start_ns,
            info.channels,
            info.texts,
            info.device,
            info.tz,
            _dated_of(numbers, (block.values for block in blocks)),
            tables.iter_texts(data.folder / name),
        )


def _check_field(manifest: Path, name: str) -> None:
    records = (line for line in codec.scan_manifest(manifest) if isinstance(line, Record))
    if all(field_value(record, name) is None for record in records):
        raise UsageError(f"no record has a field {name!r}", where="--leakage")


def count(path: str) -> dict[str, Any]:
    """Count records, hours, labels and splits, with the weights of the train split."""
    data = datasets.load(path)
    found = stats.collect(data.records)
    weights = found.weights(allow_absent=True)
    return {**found.to_json(), "weights": weights}


def github(finding: validate.Finding) -> str:
    """Write a finding as an annotation of GitHub's."""
    text = finding.what.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return f"::{finding.severity} title={finding.where}::{text}"


def finding_json(finding: validate.Finding) -> str:
    """Write a finding as one JSON object."""
    return msgspec.json.encode(asdict(finding)).decode()
