"""The kept windows of a session as columns, and the records that are made of them.

A worker gives columns, `{"k": […], "begin_s": […], "valid": {modality: […]}, …}`: window after
window as a dict takes twenty times the memory, and the journal keeps it, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from mmprep.manifest.model import Record, StreamRef, shard_ref
from mmprep.timebase import IntArray, rate, rate_number

if TYPE_CHECKING:  # whoever makes records need not load what only workers use
    from mmprep import align
    from mmprep.steps.sessions.eventtables import WrittenEvents
    from mmprep.steps.sessions.modality import Modality


@dataclass(slots=True)
class WindowList:
    """The windows of a session that were kept, with what is known of each."""

    k: list[int] = field(default_factory=list)
    begin_s: list[float] = field(default_factory=list)
    valid: dict[str, list[float]] = field(default_factory=dict)
    bound_s: dict[str, list[float | None]] = field(default_factory=dict)

    def add(
        self,
        chosen: Iterable[Modality],
        plan: align.WindowPlan,
        kept: align.Kept,
        begin: int,
    ) -> None:
        """Append the windows kept of a block that begins with window `begin`."""
        numbers = begin + np.flatnonzero(kept.keep)
        self.k += numbers.tolist()
        self.begin_s += [float(plan.begin_s(k)) for k in numbers.tolist()]
        for modality in chosen:
            shares = np.round(kept.shares[modality.name][kept.keep], 6)
            self.valid.setdefault(modality.name, []).extend(shares.tolist())
            bounds = self.bound_s.setdefault(modality.name, [])
            bounds += _bounds(modality, plan, numbers)

    def value(self, plan: align.WindowPlan, events: Iterable[WrittenEvents]) -> dict[str, Any]:
        """Give the columns as JSON values, with the rows of each window's events."""
        return {
            "k": self.k,
            "begin_s": self.begin_s,
            "duration_s": float(plan.window_s),
            "valid": self.valid,
            "bound_s": self.bound_s,
            "events": {one.name: one.of_windows(plan, self.k) for one in events},
        }


def _bounds(modality: Modality, plan: align.WindowPlan, numbers: IntArray) -> list[float | None]:
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
    places = {name: _places(shards.get(name, ()), names) for name in windows["valid"]}
    for i, k in enumerate(windows["k"]):
        yield Record(
            id=f"{session}/{k:06d}",
            session=session,
            subject=template.subject,
            split=template.split,
            begin_s=windows["begin_s"][i],
            duration_s=windows["duration_s"],
            labels=dict(template.labels),
            label=template.label,
            source=template.source,
            streams={name: next(found) for name, found in places.items()},
            valid={name: shares[i] for name, shares in windows["valid"].items()},
            bound_s={name: bounds[i] for name, bounds in windows["bound_s"].items()},
            extra=template.extra | _events(windows["events"], i),
        )


def _events(events: Mapping[str, Any], i: int) -> dict[str, Any]:
    """Give the events of window i: stream -> table and rows; nothing where there are none."""
    found = {
        name: {"table": one["table"], "rows": one["rows"][i]}
        for name, one in sorted(events.items())
        if one["rows"][i][0] < one["rows"][i][1]
    }
    return {"events": found} if found else {}


def _places(shards: Iterable[Mapping[str, Any]], names: Mapping[str, str]) -> Iterator[StreamRef]:
    """Give the place of each window: a row of one shard after the other."""
    for shard in shards:
        rate_hz = rate_number(rate(shard["rate_hz"]))
        for row in range(shard["rows"]):
            yield shard_ref(names[shard["path"]], (row, row + 1), rate_hz=rate_hz)
