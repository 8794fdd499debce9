"""Kaldi: a data folder a split (`data` for records without one), with MFCC or log-mel as archives.

Rules
-----
- Paths in the lists lead from the export's folder: Kaldi reads them from where it is started.
- All utterances of a data set with features have features, and of one with sound have sound; others
  are left out, which is said.
- Sound is written with 16 bits a sample: Kaldi reads no other wav. Masked features are 0.
- A record is the whole of its sound file, so that there are no `segments`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, BinaryIO

from mmprep.errors import DataError
from mmprep.exporters import base as names
from mmprep.exporters import kaldi
from mmprep.exporters.kaldi import Utterance
from mmprep.manifest.model import Record
from mmprep.steps.exporting import sound
from mmprep.steps.exporting.base import (
    Export,
    Plan,
    by_split,
    cell,
    in_tasks,
    refuse_shards,
    values,
)
from mmprep.steps.exporting.samples import UNSPLIT
from mmprep.steps.running.journal import FileNote
from mmprep.steps.running.tasks import Item, Job, Task
from mmprep.steps.sounds import suffix_of

WORK = "mmprep.steps.exporting.kaldi:write"


def plan(export: Export) -> Plan:
    """Plan the archives, the sound where it is written, and the lists.

    Raises
    ------
    UsageError
        Shards are asked for.
    DataError
        No record has sound or features.
    """
    refuse_shards(export, "kaldi")
    feature = next((name for name in kaldi.FEATURES if _any_has(export, name)), None)
    with_sound = export.audio != "none" and any(
        sound.has_sound(record, export.audio) for record in export.records
    )
    records = tuple(
        record
        for record in export.records
        if (not with_sound or sound.has_sound(record, export.audio))
        and (feature is None or _has(record, feature))
    )
    if not records or not (with_sound or feature):
        raise DataError(
            "no record has all that Kaldi reads: sound, or MFCC",
            where=export.data.record_path,
            hint="mmprep mfcc makes features of sound",
        )
    paths = {r.id: sound.path_of(export, r) for r in records} if with_sound else {}
    tasks = (
        tuple(_tasks(export, records, feature))
        if feature or export.sound_suffix is not None
        else ()
    )
    texts = partial(_texts, export, records, paths)
    return Plan(texts, records, WORK if tasks else "", tasks, tuple(_notes(export, records, paths)))


def _has(record: Record, name: str) -> bool:
    ref = record.streams.get(name)
    return ref is not None and ref.shard is not None and ref.n_rows > 0


def _any_has(export: Export, name: str) -> bool:
    return any(_has(record, name) for record in export.records)


def _notes(export: Export, records: Sequence[Record], paths: Mapping[str, str]) -> Iterator[str]:
    if n_left := len(export.records) - len(records):
        yield f"{n_left} records without sound or features are left out"
    if n_others := sum(suffix_of(path) != ".wav" for path in paths.values()):
        yield (
            f"{n_others} files are no wav: Kaldi's own tools read nothing else (--audio wav),"
            " ESPnet reads all"
        )
    n_stereo = sum(_n_channels(export, record) > 1 for record in records if paths)
    if n_stereo:
        yield f"{n_stereo} records have several channels, Kaldi reads one: convert --mono"


def _n_channels(export: Export, record: Record) -> int:
    if not _has(record, "audio"):
        return 1
    return (*export.shape_of(record, "audio"), 1)[1]


# Files --------------------------------------------------------------------------------------------


def _folder(split: str | None) -> str:
    return names.escape(split) if split else UNSPLIT


def _tasks(export: Export, records: Sequence[Record], feature: str | None) -> Iterator[Task]:
    for split, chosen in by_split(records).items():
        items = [_item(export, record, feature) for record in chosen]
        for k, task in enumerate(in_tasks(items, {"suffix": export.audio})):
            ark = f"{_folder(split)}/feats-{k:05d}.ark" if feature else None
            yield replace(task, spec={**task.spec, "ark": ark})


def _item(export: Export, record: Record, feature: str | None) -> Item:
    spec: dict[str, Any] = {"name": kaldi.name_of(record), "feature": None, "sound": None}
    if feature is not None:
        spec["feature"] = cell(export.data, record, feature)
    if export.sound_suffix is not None:
        spec["sound"] = dict(sound.item(export.data, record).spec)
    n_rows = sum(ref.n_rows for name, ref in record.streams.items() if name in (feature, "audio"))
    folder = str(export.data.folder)
    return Item(record.id, (), 4 * n_rows, spec, record.source or record.id, folder)


def write(job: Job) -> dict[str, Any]:
    """Write the archive of a task's records, and their sound."""
    name = job.task.spec["ark"]
    if name is None:
        return _write(job, None)
    path = job.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        done = _write(job, file)
    return {**done, "files": [*done["files"], FileNote.of(job.folder, name).row()]}


def _write(job: Job, ark: BinaryIO | None) -> dict[str, Any]:
    rows, found = [], {}
    for one in job.items():
        with job.attempt(one, "write"):
            if one.spec["sound"] is not None:
                name, _ = sound.write_one(job, one.id, one.spec["sound"], is_16_bit=True)
                rows.append(FileNote.of(job.folder, name).row())
            found[one.id] = [] if ark is None else _append(ark, one, job.task.spec["ark"])
    return {"files": rows, "found": found}


def _append(ark: BinaryIO, one: Item, name: str) -> list[Any]:
    """Add the features of a record to an archive; say which, where, and how many rows."""
    rows, key = values(one.spec["feature"]), kaldi.key(one.spec["name"])
    offset = ark.tell() + len(key)
    ark.write(key + kaldi.matrix(rows))
    return [name, offset, len(rows)]


# Lists --------------------------------------------------------------------------------------------


def _texts(
    export: Export,
    records: tuple[Record, ...],
    paths: Mapping[str, str],
    done: Sequence[Mapping[str, Any]],
) -> dict[str, bytes]:
    places = {key: value for part in done for key, value in part.get("found", {}).items()}
    kept = [record for record in records if not done or record.id in places]
    return {
        f"{_folder(split)}/{file}": data
        for split, chosen in by_split(kept).items()
        for file, data in kaldi.lists(
            _utterance(export, record, paths.get(record.id), places.get(record.id, ()))
            for record in chosen
        ).items()
    }


def _utterance(export: Export, record: Record, path: str | None, place: Sequence[Any]) -> Utterance:
    duration_s = float(sound.duration_s(export, record))
    if not place:
        return Utterance(record, duration_s, path)
    name, offset, n_rows = place
    return Utterance(record, duration_s, path, f"{export.path_of(name)}:{offset}", n_rows)
