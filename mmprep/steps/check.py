"""`manifest validate` and `manifest stats`: read only, never mend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from mmprep import tables
from mmprep.errors import UsageError
from mmprep.manifest import codec, folder, stats, validate
from mmprep.manifest.model import Record, field_value
from mmprep.manifest.private import UNIX_NS, TableFacts, identifying
from mmprep.steps import datasets


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
    )


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
        if parts[1] == "trials":
            continue
        info = tables.table_info(data.folder / name)
        yield TableFacts(
            parts[1],
            info.time.absolute,
            info.time.start_ns,
            info.channels,
            info.texts,
            info.device,
            info.tz,
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
