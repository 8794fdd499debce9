"""The kept windows of a session as columns, and the records that are made of them.

A worker gives columns, `{"k": […], "begin_s": […], "valid": {modality: […]}, …}`: window after
window as a dict takes twenty times the memory, and the journal keeps it, too. What all windows of a
trial have in common stands once, `{"trials": {"of": […], "each": […]}}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from mmprep.manifest.model import Record, StreamRef, shard_ref
from mmprep.timebase import IntArray, rate, rate_number

if TYPE_CHECKING:  # whoever makes records need not load what only workers use
    from mmprep import align
    from mmprep.steps.sessions.eventtables import WrittenEvents
    from mmprep.steps.sessions.modality import Modality
    from mmprep.steps.sessions.windowshards import Place


TRIAL, BASELINE = "trial", "baseline"  # the field `phase` of a record


@dataclass(slots=True)
class WindowList:
    """The windows of a session that were kept, with what is known of each."""

    k: list[int] = field(default_factory=list)
    begin_s: list[float] = field(default_factory=list)
    duration_s: list[float] = field(default_factory=list)
    rows: dict[str, list[Place]] = field(default_factory=dict)
    valid: dict[str, list[float]] = field(default_factory=dict)
    bound_s: dict[str, list[float | None]] = field(default_factory=dict)

    def add(
        self,
        chosen: Iterable[Modality],
        plan: align.AnyPlan,
        kept: align.Kept,
        begin: int,
        places: Mapping[str, Place] | None = None,
    ) -> None:
        """Append the windows kept of a block that begins with window `begin`.

        Parameters
        ----------
        places : mapping, optional
            Modality -> where the rows of a record of its own length are.
        """
        numbers = begin + np.flatnonzero(kept.keep)
        self.k += numbers.tolist()
        begins_s, lengths_s = plan.spans_s(numbers).T.tolist()
        self.begin_s += begins_s
        self.duration_s += lengths_s
        for name, place in (places or {}).items():
            self.rows.setdefault(name, []).append(place)
        for modality in chosen:
            shares = np.round(kept.shares[modality.name][kept.keep], 6)
            self.valid.setdefault(modality.name, []).extend(shares.tolist())
            bounds = self.bound_s.setdefault(modality.name, [])
            bounds += _bounds(modality, plan, numbers)

    def value(self, plan: align.AnyPlan, events: Iterable[WrittenEvents]) -> dict[str, Any]:
        """Give the columns as JSON values, with the rows of each window's events."""
        lengths = set(self.duration_s)
        return {
            "k": self.k,
            "begin_s": self.begin_s,
            "duration_s": lengths.pop() if len(lengths) == 1 else self.duration_s,
            "rows": self.rows,
            "valid": self.valid,
            "bound_s": self.bound_s,
            "events": {one.name: one.of_windows(plan, self.k) for one in events},
        }


def _bounds(modality: Modality, plan: align.AnyPlan, numbers: IntArray) -> list[float | None]:
    """Bound the error of the sample times in each window: the larger of those at begin and end.

    None where the clock has no evidence, or evidence that bounds nothing.
    """
    bound = modality.bound_at_s(plan.edges_ns(numbers).reshape(-1))
    if bound is None:
        return [None] * len(numbers)
    worst = bound.reshape(-1, 2).max(axis=1)
    return [round(value, 9) if np.isfinite(value) else None for value in worst.tolist()]


def records(
    template: Record,
    session: str,
    windows: Mapping[str, Any],
    shards: Mapping[str, Iterable[Mapping[str, Any]]],
    names: Mapping[str, str],
) -> Iterator[Record]:
    """Make the records of a session's windows.

    Parameters
    ----------
    template : Record
        Whose other fields they take over.
    windows : dict
        What `WindowList.value` gave.
    shards : dict
        Modality -> its shards in order, as in the value of the task: they hold the windows.
    names : dict
        Shard in the task's folder -> final name.
    """
    rows = windows["rows"]
    places = {
        name: _places(shards.get(name, ()), names)
        if name not in rows
        else _own_places(list(shards[name]), names, rows[name])
        for name in windows["valid"]
    }
    lengths, trials = windows["duration_s"], windows.get("trials")
    for i, k in enumerate(windows["k"]):
        record = Record(
            id=f"{session}/{k:06d}",
            session=session,
            subject=template.subject,
            split=template.split,
            begin_s=windows["begin_s"][i],
            duration_s=lengths[i] if isinstance(lengths, list) else lengths,
            labels=dict(template.labels),
            label=template.label,
            source=template.source,
            streams={name: next(found) for name, found in places.items()},
            valid={name: shares[i] for name, shares in windows["valid"].items()},
            bound_s={name: bounds[i] for name, bounds in windows["bound_s"].items()},
            extra=template.extra | _events(windows["events"], i),
        )
        if "file_begin_s" in windows:
            record = _spoken(record, template, windows["file_begin_s"])
        yield record if trials is None else _of_trial(record, trials, i)


def _spoken(record: Record, template: Record, file_begin_s: float) -> Record:
    """Give the record of a whole recording what is said in it; words count from its file's begin.

    Parameters
    ----------
    file_begin_s : float [s]
        When that is, after the begin of the record.
    """
    words = template.words and tuple(
        (word, round(begin_s + file_begin_s, 6), round(end_s + file_begin_s, 6))
        for word, begin_s, end_s in template.words
    )
    return msgspec.structs.replace(record, text=template.text, words=words)


def _of_trial(record: Record, trials: Mapping[str, Any], i: int) -> Record:
    """Give the record of window i the fields and labels of its trial."""
    trial = trials["each"][trials["of"][i]]
    phase = BASELINE if trials["is_baseline"][i] else TRIAL
    labels = {**record.labels, **trial["labels"]}
    fields = {**trial["fields"], "phase": phase, "onset_s": trial["onset_s"]}
    return msgspec.structs.replace(
        record,
        labels=labels,
        label=labels.get("label", record.label),
        text=trial.get("text") if phase == TRIAL else None,
        extra={**record.extra, **fields},
    )


def _events(events: Mapping[str, Any], i: int) -> dict[str, Any]:
    """Give the events of window i: stream -> table and rows; nothing where there are none."""
    found = {
        name: {"table": one["table"], "rows": one["rows"][i]}
        for name, one in sorted(events.items())
        if one["rows"][i][0] < one["rows"][i][1]
    }
    return {"events": found} if found else {}


def without_class(record: Record) -> Record:
    """Take the class from a baseline: it is before what the class is about."""
    if record.extra.get("phase") != BASELINE or record.label is None:
        return record
    return msgspec.structs.replace(record, label=None)


def _own_places(
    shards: Sequence[Mapping[str, Any]], names: Mapping[str, str], places: Iterable[Sequence[int]]
) -> Iterator[StreamRef]:
    """Give the place of each record of its own length."""
    for number, begin, end in places:
        shard = shards[number]
        rate_hz = rate_number(rate(shard["rate_hz"]))
        yield shard_ref(names[shard["path"]], (begin, end), rate_hz=rate_hz)


def _places(shards: Iterable[Mapping[str, Any]], names: Mapping[str, str]) -> Iterator[StreamRef]:
    """Give the place of each window: a row of one shard after the other."""
    for shard in shards:
        rate_hz = rate_number(rate(shard["rate_hz"]))
        for row in range(shard["rows"]):
            yield shard_ref(names[shard["path"]], (row, row + 1), rate_hz=rate_hz)
