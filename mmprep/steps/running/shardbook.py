"""Shards of many tasks, numbered through and described once.

A task names its shards `<modality>/shard-00000.npy` from zero in its own folder; the book gives
them their numbers in the order of the tasks. A task's value lists them as

    {"shards": {modality: [{path, rows, dtype, row_shape, rate_hz, channels, units, kind}]}}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mmprep import files
from mmprep.manifest.model import Modality, ShardEntry
from mmprep.steps.running.journal import file_notes

_DESCRIBED = ("dtype", "row_shape", "rate_hz", "channels", "units", "kind")


def shard_name(modality: str, number: int) -> str:
    """Name a shard."""
    return files.portable(f"{modality}/shard-{number:05d}.npy")


class ShardBook:
    """The shards of a data set while it is put together."""

    def __init__(self) -> None:
        self._entries: dict[str, list[ShardEntry]] = {}
        self._facts: dict[str, list[Mapping[str, Any]]] = {}

    def add(self, value: Mapping[str, Any]) -> dict[str, str]:
        """Take the shards of a task in.

        Returns
        -------
        dict
            Name in the task's folder -> final name.
        """
        notes = {note.path: note for note in file_notes(value)}
        names: dict[str, str] = {}
        for modality, shards in sorted(value.get("shards", {}).items()):
            entries = self._entries.setdefault(modality, [])
            for shard in shards:
                note = notes[shard["path"]]
                names[note.path] = shard_name(modality, len(entries))
                entries.append(
                    ShardEntry(
                        path=names[note.path],
                        rows=shard["rows"],
                        bytes=note.n_bytes,
                        sha256=note.sha256,
                        rate_hz=shard["rate_hz"],
                        row_shape=tuple(shard["row_shape"]),
                    )
                )
                self._facts.setdefault(modality, []).append(shard)
        return names

    def modalities(self) -> dict[str, Modality]:
        """Describe each modality; what differs between its shards is None."""
        return {
            name: Modality(
                shards=tuple(self._entries[name]),
                **{key: _common(facts, key) for key in _DESCRIBED},
            )
            for name, facts in sorted(self._facts.items())
        }


def _common(facts: Iterable[Mapping[str, Any]], key: str) -> Any:
    values = [fact.get(key) for fact in facts]
    value = values[0]
    if any(other != value for other in values[1:]):
        return None
    return tuple(value) if isinstance(value, list) else value
