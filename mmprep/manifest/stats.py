"""What a manifest holds, counted: records, hours, classes, groups, streams, for all and each split.

Plain values for `manifest stats`, the report and the weights in dataset.json.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from mmprep.manifest import split
from mmprep.manifest.model import LabelCount, Record, label_name

NO_SPLIT = "(none)"


@dataclass(slots=True)
class Part:
    """Sums over the records of one split, or of all."""

    n_records: int = 0
    seconds: Fraction = Fraction(0)
    sessions: set[str] = field(default_factory=set)
    subjects: set[str] = field(default_factory=set)
    labels: Counter[str] = field(default_factory=Counter)
    streams: Counter[str] = field(default_factory=Counter)
    n_with_text: int = 0

    def add(self, record: Record) -> None:
        """Count one record."""
        self.n_records += 1
        self.seconds += Fraction(record.duration_s)
        self.sessions.add(record.session)
        if record.subject is not None:
            self.subjects.add(record.subject)
        if record.label is not None:
            self.labels[label_name(record.label)] += 1
        self.streams.update(record.streams.keys())
        self.n_with_text += record.text is not None

    @property
    def hours(self) -> float:
        """The summed durations, exact until this division."""
        return float(self.seconds / 3600)

    def to_json(self) -> dict[str, Any]:
        """Give the sums as JSON values."""
        return {
            "records": self.n_records,
            "seconds": round(float(self.seconds), 9),
            "hours": round(self.hours, 6),
            "sessions": len(self.sessions),
            "subjects": len(self.subjects),
            "with_text": self.n_with_text,
            "labels": dict(sorted(self.labels.items())),
            "streams": dict(sorted(self.streams.items())),
        }


@dataclass(frozen=True, slots=True)
class Stats:
    """Sums over all records and over each split, in the order in which splits appear."""

    total: Part
    splits: dict[str, Part]

    def weights(self, *, train: str = "train", allow_absent: bool = False) -> dict[str, float]:
        """Weight the classes by their counts in the train split; empty without such a split.

        Raises
        ------
        UsageError
            The train split lacks a class.
        """
        if train not in self.splits:
            return {}
        return split.class_weights(
            self.splits[train].labels, classes=self.total.labels, allow_absent=allow_absent
        )

    def label_counts(self, weights: dict[str, float] | None = None) -> dict[str, LabelCount]:
        """Give the `labels` of dataset.json: counts over all records, and the weights."""
        given = weights or {}
        return {
            name: LabelCount(count=count, weight=given.get(name))
            for name, count in sorted(self.total.labels.items())
        }

    def to_json(self) -> dict[str, Any]:
        """Give all sums as JSON values."""
        return {**self.total.to_json(), "splits": {n: p.to_json() for n, p in self.splits.items()}}


def collect(records: Iterable[Record]) -> Stats:
    """Sum over records; keeps none of them."""
    total, splits = Part(), dict[str, Part]()
    for record in records:
        total.add(record)
        splits.setdefault(record.split or NO_SPLIT, Part()).add(record)
    return Stats(total, splits)
