"""NeMo: one manifest a split (`train_manifest.json`), `manifest.json` for records without one."""

from __future__ import annotations

from functools import partial

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


def _texts(export: Export, records: tuple[Record, ...], _values: object) -> dict[str, bytes]:
    found = {}
    for split, chosen in by_split(records).items():
        lines = (
            nemo.line(
                record,
                sound.path_of(export, record),
                sampling_rate=sound.rate_of(export, record),
            )
            for record in chosen
        )
        found[f"{split}_manifest.json" if split else "manifest.json"] = b"".join(nemo.encode(lines))
    return found
