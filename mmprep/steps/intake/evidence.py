"""Clock evidence as tables: written by `convert`, read by `align`."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import msgspec
import numpy as np

from mmprep import files, tables
from mmprep.sources import clocklog
from mmprep.sources.base import Claim, TextOptions
from mmprep.steps.intake.claims import TABLE_READERS
from mmprep.steps.intake.findings import Findings
from mmprep.steps.running.tasks import Item
from mmprep.timebase import Evidence, Exchanges, Fixes, FrameLog, HostFixes

_KINDS: dict[str, tuple[type, tuple[str, ...]]] = {
    "exchanges": (Exchanges, ("t1_ns", "t2_ns", "t3_ns", "t4_ns")),
    "host_fixes": (HostFixes, ("device_ns", "host_ns")),
    "fixes": (Fixes, ("device_ns", "reference_ns")),
    "frames": (FrameLog, ("frame", "time_ns")),
}


def write(findings: Findings, stream: str) -> None:
    """Write the clock evidence of an item, if it has any, to `tables/<stream>.clock/`."""
    put(findings, stream, beside(findings.item))


def beside(item: Item) -> Evidence | None:
    """Read the clock evidence that lies beside an item."""
    return clocklog.read(Path(clock_path(item))) if item.spec["clock"] else None


def put(findings: Findings, stream: str, found: Evidence | None) -> None:
    """Write clock evidence, if there is any, to `tables/<stream>.clock/`."""
    if found is None:
        return
    item = findings.item
    piece = item.id if "piece" not in item.spec else f"{item.id}-{item.spec['piece']:05d}"
    name = files.portable(f"tables/{stream}.clock/{piece}.parquet")
    kind = next(kind for kind, (cls, _) in _KINDS.items() if isinstance(found, cls))
    attributes = (field.name for field in fields(found))
    columns = {n: getattr(found, a) for n, a in zip(_KINDS[kind][1], attributes, strict=True)}
    target = findings.target(name)
    tables.write_table(target, columns, item_id=item.id, metadata={"evidence": kind})
    findings.written(name)
    findings.clock = name


def write_own(findings: Findings, own: str, stream: str) -> None:
    """Write the clock evidence that a file holds of its stream, as XDF does."""
    spec = findings.item.spec
    reader = TABLE_READERS[spec["claim"]["reader"]]
    if not hasattr(reader, "clock"):
        return
    claim = msgspec.convert(spec["claim"], Claim)
    findings.clock = None
    found = reader.clock(claim, Path(spec["root"]), own, TextOptions())
    put(findings, stream, found)


def clock_path(item: Item) -> str:
    """Give the path of an item's clock evidence."""
    return files.join(item.root, item.spec["clock"])


def read(path: Path) -> Evidence:
    """Read clock evidence back from its table."""
    columns = tables.read_columns(path)
    for cls, names in _KINDS.values():
        if set(names) <= columns.keys():
            found: Evidence = cls(*(np.asarray(columns[name], np.int64) for name in names))
            return found
    raise ValueError(f"{path}: no clock evidence")
