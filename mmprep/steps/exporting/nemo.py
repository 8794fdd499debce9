"""NeMo: one manifest a split (`train_manifest.json`), `manifest.json` for records without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from mmprep.errors import UsageError
from mmprep.exporters import nemo
from mmprep.manifest.model import Record
from mmprep.steps.exporting import sound
from mmprep.steps.exporting.base import Export, Plan, by_split


def plan(export: Export) -> Plan:
    """Plan the manifests, and the sound where it is written.

    Raises
    ------
    UsageError
        There is no sound, or none is wanted.
    """
    if export.audio == "none":
        raise UsageError("NeMo reads nothing without audio", where="--audio")
    records, notes = sound.with_sound(export)
    tasks = tuple(sound.tasks(export, records))
    return Plan(partial(_texts, export, records), records, sound.WORK, tasks, notes)


def _texts(
    export: Export, records: tuple[Record, ...], done: Sequence[Mapping[str, Any]]
) -> dict[str, bytes]:
    rates_hz = {key: rate for part in done for key, rate in part.get("rates_hz", {}).items()}
    found = {}
    for split, chosen in by_split(records).items():
        lines = (
            nemo.line(record, sound.path_of(export, record), sampling_rate=rates_hz.get(record.id))
            for record in chosen
            if record.id in rates_hz or not done
        )
        found[f"{split}_manifest.json" if split else "manifest.json"] = b"".join(nemo.encode(lines))
    return found
