"""What `convert` finds in one item while it is worked on, and gives to the data set as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmprep.steps.running.journal import FileNote
from mmprep.steps.running.tasks import Item, Job


@dataclass(slots=True)
class Findings:
    """The streams of an item, the files written for them, and what is worth saying.

    Parameters
    ----------
    clock : str, optional
        The name of the item's clock evidence among the files.
    lengths : (int, int), optional
        Samples decoded and declared, where they differ.
    parts : list of dict
        The recordings in it, where it is cut: see `sources.base.Part`.
    """

    job: Job
    item: Item
    clock: str | None = None
    streams: dict[str, dict[str, Any]] = field(default_factory=dict)
    files: list[list[Any]] = field(default_factory=list)
    duration_s: float = 0.0
    start_ns: int | None = None
    n_rejected: int = 0
    text: str | None = None
    words: tuple[tuple[str, float, float], ...] | None = None
    lengths: tuple[int, int] | None = None
    parts: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def target(self, name: str) -> Path:
        """Give the path to write a file of the data set to."""
        return self.job.target(name)

    def written(self, name: str) -> None:
        """Note a file that has been written."""
        self.files.append(FileNote.of(self.job.folder, self.job.target(name).name).row())

    def lasts(self, duration_s: float) -> None:
        """Note how long a stream lasts; the longest counts."""
        self.duration_s = max(self.duration_s, duration_s)

    def starts(self, start_ns: int) -> None:
        """Note the Unix time at which a stream starts; the earliest counts."""
        self.start_ns = start_ns if self.start_ns is None else min(self.start_ns, start_ns)

    def to_json(self) -> dict[str, Any]:
        """Give all but the files."""
        return {
            "id": self.item.id,
            "source": self.item.source,
            "name": self.item.spec["name"],
            "streams": self.streams,
            "duration_s": self.duration_s,
            "start_ns": self.start_ns,
            "n_rejected": self.n_rejected,
            "text": self.text,
            "words": self.words,
            "lengths": self.lengths,
            "parts": self.parts,
            "notes": self.notes,
            "warnings": self.warnings,
        }
