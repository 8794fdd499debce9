"""An unchanged corpus, told by names, sizes, times and inodes before any file is opened.

Rules
-----
- What was seen of a corpus at its last run stands in `.mmprep/seen.json`: a key of the options and
  of all files below the input root, the stamps of all inputs, the digest of dataset.json.
- It is believed only where nothing failed, all of it is as it was, and each file of the data set
  has its size. Otherwise the tasks are compared one by one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

import msgspec

from mmprep import files
from mmprep.errors import DataError
from mmprep.manifest import codec
from mmprep.steps.inputs import Inputs
from mmprep.steps.running.contents import StepName
from mmprep.steps.running.journal import InputNote

NAME = "seen.json"
Stamp = tuple[int, ...]


class Seen(msgspec.Struct, frozen=True):
    """What was seen of a corpus.

    Parameters
    ----------
    inputs : dict
        Path -> stamp of every input.
    record : str
        The sha256 of dataset.json.
    """

    key: str
    inputs: dict[str, Stamp]
    folders: tuple[str, ...]
    record: str
    n_tasks: int
    totals: dict[str, Any]


def key(step: StepName, config: Any, inputs: Inputs, beside: Iterable[str]) -> str | None:
    """Give the key of a corpus; None where inputs may lie outside the folders that were walked.

    Parameters
    ----------
    config : dataclass
        The step's options.
    beside : iterable of str
        Further files that are read: labels, a schema.
    """
    if str(inputs.root) not in inputs.folders:
        return None
    from importlib.metadata import version

    content = {
        "step": [step.name, step.version, version("mmprep")],
        "config": asdict(config),
        "root": str(inputs.root),
        "names": [[name, *stamp_of(inputs.path(name))] for name in inputs.names],
        "beside": [[path, *stamp_of(path)] for path in beside],
    }
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()


def stamp_of(path: str) -> Stamp:
    """Stamp a file; empty where there is none."""
    try:
        return astuple(files.stamp(path))
    except (OSError, DataError):
        return ()


def standing(out: Path, record: str, wanted: str) -> Seen | None:
    """Find what was seen at the last run, if all of it is still so."""
    try:
        found = msgspec.json.decode((out / ".mmprep" / NAME).read_bytes(), type=Seen)
        data = (out / record).read_bytes()
    except (OSError, msgspec.MsgspecError):
        return None
    if found.key != wanted or hashlib.sha256(data).hexdigest() != found.record:
        return None
    if any(stamp_of(path) != stamp for path, stamp in found.inputs.items()):
        return None
    return found if _is_whole(out, data) else None


def _is_whole(out: Path, data: bytes) -> bool:
    dataset = codec.decode_dataset(data, where=str(out))
    sizes = {name: entry.bytes for name, entry in dataset.files.items()}
    sizes |= {name: shard.bytes for name, shard in dataset.shard_entries().items()}
    try:
        return all((out / name).stat().st_size == n_bytes for name, n_bytes in sizes.items())
    except OSError:
        return False


def stamps(notes: Mapping[str, InputNote | None], later: Mapping[str, Stamp]) -> dict[str, Stamp]:
    """Give the stamps of all inputs as the tasks noted them; those of no task from `later`."""
    return {
        path: (note.n_bytes, note.mtime_ns, note.inode, note.archive_bytes)
        if note is not None
        else later.get(path, ())
        for path, note in notes.items()
    }
