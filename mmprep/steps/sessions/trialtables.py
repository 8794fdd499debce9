"""Trials of a session: rows of a table that last a time, or what lies between markers.

Rules
-----
- Without expressions each row is a trial that lasts its duration, in seconds where no unit is
  named; a row of none has no length.
  Where there is a column `trial`, a row without a value there is no trial.
- With `--trial-start` rows in which the expression is found begin one: see `align.markers`.
- Times move with the clock of the stream that the rows come from.
- `trial` names a trial: the group or column of that name, else its number in the session, from 1,
  in order of onset; what has no length has no number. Two trials of one name are an error.
- Groups become fields of the records, all other columns labels.
- Every row is counted once, and every trial: see `align.TrialAccounting`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mmprep import align
from mmprep.errors import DataError
from mmprep.manifest.model import LabelValue
from mmprep.steps.sessions.eventtables import EventStream, Moved, TextColumns
from mmprep.steps.sessions.modality import Modality, TrialWish
from mmprep.timebase import NS_PER_S, BoolArray, IntArray

TRIAL = "trial"
MAX_LISTED = 2000
Labels = Mapping[str, LabelValue]


@dataclass(frozen=True, slots=True)
class Trials:
    """The trials of a session on its clock.

    Parameters
    ----------
    stream : str
        Where they come from.
    begins_ns, ends_ns : [shape=(n,), int64, ns]
        In order of begin; an end may be `align.NO_END`, or not behind its begin.
    fields, labels : tuple of mapping
        What the records of each take over.
    rows : mapping of str to int
        The counts of the table: those of `align.TrialAccounting` that are about rows.
    """

    stream: str
    begins_ns: IntArray
    ends_ns: IntArray
    fields: tuple[Mapping[str, Any], ...]
    labels: tuple[Labels, ...]
    rows: Mapping[str, int]

    @property
    def no_end(self) -> BoolArray:
        """Which never end."""
        return np.asarray(self.ends_ns == align.NO_END)

    @property
    def usable(self) -> IntArray:
        """Which have a length."""
        return np.flatnonzero(~self.no_end & (self.ends_ns > self.begins_ns))

    @property
    def spans_ns(self) -> IntArray:
        """Begin and end of those that have a length, shape (n, 2)."""
        return np.stack([self.begins_ns, self.ends_ns], axis=1)[self.usable]

    def check_names(self) -> None:
        """Refuse two trials of one name.

        Raises
        ------
        DataError
            Which, and when.
        """
        names = [self.fields[k][TRIAL] for k in self.usable.tolist()]
        (name, n), *_ = Counter(names).most_common(1) or [(None, 0)]
        if n > 1:
            raise DataError(
                f"trial {name!r} stands {n} times",
                where=self.stream,
                hint="--trial-start REGEX chooses the rows that begin a trial; or give each a name"
                " of its own in the column `trial`",
            )


def source_of(
    name: str, events: Sequence[EventStream], chosen: Sequence[Modality]
) -> EventStream | TextColumns | None:
    """Find the stream that holds the trials; None if it has no rows."""
    found: list[EventStream | TextColumns] = [*events, *map(TextColumns, chosen)]
    return next((one for one in found if one.name == name), None)


def none(stream: str) -> Trials:
    """Give no trials, those of a stream without rows."""
    rows = ("n_rows", "n_corrupt", "n_duplicate", "n_trials", "n_ends", "n_no_start", "n_other")
    nothing = np.empty(0, np.int64)
    return Trials(stream, nothing, nothing, (), (), dict.fromkeys(rows, 0))


def read(source: EventStream | TextColumns, folder: Path, wish: TrialWish) -> Trials:
    """Read the trials of a session.

    Raises
    ------
    DataError
        Two trials of one name.
    """
    trials = _between_markers(source, folder, wish) if wish.start else _of_rows(source, folder)
    trials.check_names()
    return trials


def _of_rows(source: EventStream | TextColumns, folder: Path) -> Trials:
    moved = source.moved(folder, NS_PER_S)
    rows, begins_ns = moved.rows, moved.repaired.stamps_ns()
    cells = moved.table.values()
    named = _name_column(cells)
    is_trial = np.array(
        [named is None or cells[named][row] is not None for row in rows.tolist()], dtype=bool
    )
    ends_ns = begins_ns + moved.lasts_ns[rows]
    none: list[Mapping[str, Any]] = [{}] * int(is_trial.sum())
    counts = {"n_ends": 0, "n_no_start": 0, "n_other": int((~is_trial).sum())}
    return _trials(moved, is_trial.nonzero()[0], ends_ns[is_trial], none, counts)


def _between_markers(source: EventStream | TextColumns, folder: Path, wish: TrialWish) -> Trials:
    moved = source.moved(folder, NS_PER_S)
    rows, stamps_ns = moved.rows, moved.repaired.stamps_ns()
    starts, ends = (_groups(moved, rows, text) for text in (wish.start, wish.end))
    paired = align.pair(stamps_ns, starts, ends)
    ends_ns = paired.ends_ns
    if wish.end is None:
        lasts = moved.lasts_ns[rows[paired.begins]]
        ends_ns = align.lasting(stamps_ns[paired.begins], lasts)
    counts = {
        "n_ends": paired.n_ends,
        "n_no_start": paired.n_no_start,
        "n_other": len(rows) - len(paired.begins) - paired.n_ends,
    }
    return _trials(moved, paired.begins, ends_ns, paired.groups, counts)


def _groups(
    moved: Moved, rows: IntArray, expression: str | None
) -> list[Mapping[str, str | None] | None]:
    """Give the named groups of an expression in each row; None where it is not found."""
    if expression is None:
        return [None] * len(rows)
    found = moved.table.matches(re.compile(expression))
    matches = (found[row] for row in rows.tolist())
    return [None if one is None else one.groupdict() for one in matches]


def _trials(
    moved: Moved,
    chosen: IntArray,
    ends_ns: IntArray,
    groups: Sequence[Mapping[str, Any]],
    counts: Mapping[str, int],
) -> Trials:
    """Put trials together, given which of the rows in order of time begin one."""
    cells = moved.table.values()
    named = _name_column(cells)
    names = cells.pop(named) if named is not None else None
    rows = moved.rows[chosen].tolist()
    fields = []
    begins_ns = moved.repaired.stamps_ns()[chosen]
    numbers = np.cumsum(ends_ns > begins_ns).tolist()
    for number, row, held in zip(numbers, rows, groups, strict=True):
        name = number if names is None or names[row] is None else _whole(names[row])
        own = {key: text for key, text in held.items() if text is not None}
        fields.append({TRIAL: name, **own})
    return Trials(
        moved.clocked.name,
        begins_ns,
        ends_ns,
        tuple(fields),
        tuple({name: values[row] for name, values in cells.items()} for row in rows),
        {
            "n_rows": moved.repaired.n_in,
            "n_corrupt": moved.repaired.n_corrupt,
            "n_duplicate": moved.repaired.n_duplicate,
            "n_trials": len(rows),
            **counts,
        },
    )


def _whole(name: str | float) -> str | float:
    """Write the whole numbers of a column of floats as such: keys of labels match as text."""
    return int(name) if isinstance(name, float) and name.is_integer() else name


def _name_column(cells: Mapping[str, Any]) -> str | None:
    return next((name for name in cells if name.lower() == TRIAL), None)


# What became of them ------------------------------------------------------------------------------

USED, DROPPED, ZERO_LENGTH, NO_END = "used", "dropped", "zero_length", "no_end"
_SAID = {
    "outside": "outside of the recording",
    "short": "shorter than a window",
    ZERO_LENGTH: "without a length",
    NO_END: "without an end",
    DROPPED: "with no window left (--on-gap, --min-valid)",
}


@dataclass(frozen=True, slots=True)
class Told:
    """Trials, where they were laid, and which of them have records.

    Parameters
    ----------
    kept : [shape=(n,), int64]
        The windows that stayed.
    tail : str
        What becomes of rests.
    """

    trials: Trials
    laid: align.Laid
    kept: IntArray
    tail: str

    @property
    def fates(self) -> list[str]:
        """What became of each trial."""
        fates = np.where(self.trials.no_end, NO_END, ZERO_LENGTH).astype(object)
        usable = self.trials.usable
        fates[usable] = [DROPPED if fate == align.LAID else fate for fate in self.laid.fates]
        plan = self.laid.plan
        held = plan.trial[self.kept][~plan.is_baseline[self.kept]]
        fates[usable[held]] = USED
        return [str(fate) for fate in fates]

    def columns(self) -> dict[str, Any]:
        """Give what `windowlist.records` needs of them."""
        plan = self.laid.plan
        return {
            "of": plan.trial[self.kept].tolist(),
            "is_baseline": plan.is_baseline[self.kept].tolist(),
            "each": [self._each(k) for k in self.trials.usable.tolist()],
        }

    def _each(self, k: int) -> dict[str, Any]:
        """Give what the records of a trial have in common; a whole one has its text."""
        labels, spoken = dict(self.trials.labels[k]), {}
        if isinstance(self.laid.plan, align.RaggedPlan) and isinstance(labels.get("text"), str):
            spoken = {"text": labels.pop("text")}
        fields = dict(self.trials.fields[k])
        return {"fields": fields, "labels": labels, "onset_s": self._onset_s(k), **spoken}

    def _onset_s(self, k: int) -> float:
        return (int(self.trials.begins_ns[k]) - self.laid.plan.origin_ns) / NS_PER_S

    def facts(self) -> dict[str, Any]:
        """Describe them for `sync/`: all counts, and what was left out."""
        fates = self.fates
        counts = Counter(fates)
        names = (USED, *_SAID)
        whole = align.TrialAccounting(
            **self.trials.rows, **{f"n_{name}": counts[name] for name in names}
        )
        left_out = [k for k, fate in enumerate(fates) if fate != USED]
        return {
            "stream": self.trials.stream,
            **{name.removeprefix("n_"): n for name, n in asdict(whole).items()},
            "cut": self.laid.n_cut,
            "rests": self.laid.n_rests,
            "tail": self.tail,
            "left_out": [
                {
                    "trial": None if fates[k] == ZERO_LENGTH else self.trials.fields[k][TRIAL],
                    "onset_s": round(self._onset_s(k), 9),
                    "reason": fates[k],
                }
                for k in left_out[:MAX_LISTED]
            ],
        }


def remarks(session: str, facts: Mapping[str, Any]) -> list[str]:
    """Say in words what became of the trials of a session."""
    n_trials, where = facts["trials"], f"{session}: {facts['stream']}"
    lost = [f"{facts[name]} {words}" for name, words in _SAID.items() if facts[name]]
    said = [f"{where}: {facts[USED]} of {n_trials} trials have records"]
    if facts["rows"] and not n_trials:
        said[0] += f": none of {facts['rows']} rows begins one"
    said[0] += f"; left out: {', '.join(lost)}" if lost else ""
    rests = "padded" if facts["tail"] == "pad" else "dropped"
    counted = {
        f"trials end with a rest shorter than a window, {rests}": facts["rests"],
        "trials reach beyond the recording": facts["cut"],
        "ends of trials have no begin": facts["no_start"],
        "rows repeat another": facts["duplicate"],
        "rows have no usable time": facts["corrupt"],
    }
    return said + [f"{where}: {n} {words}" for words, n in counted.items() if n]
