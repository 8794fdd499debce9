"""The rows of one key in a table of labels, and what a window takes of them.

Rules
-----
- A row without a time holds for all of its key's records.
- An interval [begin_s, end_s) on the session clock holds for a window that it covers whole.
- Rows with one time each (continuous annotation) are taken together as `--label-agg` says:
  `cover` (each holds until the next, the last as long as most do; it must cover the window),
  `mean` and `last` of those inside [begin, end), `mode` (the first of equals). Missing values
  count for nothing; of text `mean` is `mode`.
- `--label-lag S`: what is said at t + S is about t.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from mmprep.errors import DataError
from mmprep.manifest.model import LabelValue

AGGREGATES = ("cover", "mean", "last", "mode")
Values = Mapping[str, LabelValue]


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its values, and its interval where it has one."""

    line: int
    values: Values
    begin_s: float | None = None
    end_s: float | None = None

    def covers(self, begin_s: float, end_s: float) -> bool:
        """Say whether the row holds for all of `[begin_s, end_s)`; without an interval it does."""
        if self.begin_s is None or self.end_s is None:
            return True
        return self.begin_s <= begin_s and end_s <= self.end_s


@dataclass(frozen=True, slots=True)
class Taken:
    """What a window takes, and the lines that it comes from."""

    values: Values
    lines: tuple[int, ...]


def covering(rows: Sequence[Row], begin_s: float, end_s: float) -> Taken | None:
    """Take the row that covers all of a window."""
    row = next((row for row in rows if row.covers(begin_s, end_s)), None)
    return Taken(row.values, (row.line,)) if row is not None else None


def inside(rows: Sequence[Row], begin_s: float, end_s: float, agg: str) -> Taken | None:
    """Take the points, in order of time, that lie inside a window together."""
    first = bisect_left(rows, begin_s, key=_time)
    last = bisect_left(rows, end_s, lo=first, key=_time)
    if first == last:
        return None
    chosen = rows[first:last]
    names = chosen[0].values
    values = {
        name: _AGGREGATE[agg]([v for row in chosen if (v := row.values[name]) is not None])
        for name in names
    }
    return Taken(values, tuple(row.line for row in chosen))


def _time(row: Row) -> float:
    return row.begin_s or 0.0


def held(rows: Sequence[Row]) -> list[Row]:
    """Let each point hold until the next, and the last as long as most do."""
    if len(rows) < 2:
        return list(rows)
    usual_s = median(_time(after) - _time(before) for before, after in pairwise(rows))
    ends_s = [*(row.begin_s for row in rows[1:]), _time(rows[-1]) + usual_s]
    return [replace(row, end_s=end_s) for row, end_s in zip(rows, ends_s, strict=True)]


def _mode(values: Sequence[LabelValue]) -> LabelValue:
    return Counter(values).most_common(1)[0][0] if values else None


def _last(values: Sequence[LabelValue]) -> LabelValue:
    return values[-1] if values else None


def _mean(values: Sequence[LabelValue]) -> LabelValue:
    numbers = [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) < len(values):
        return _mode(values)
    return sum(numbers) / len(numbers) if numbers else None


_AGGREGATE: dict[str, Callable[[Sequence[LabelValue]], LabelValue]] = {
    "mean": _mean,
    "last": _last,
    "mode": _mode,
}


def check_apart(path: str, rows: Sequence[Row]) -> None:
    """Refuse rows of one key that say two things of one time.

    Raises
    ------
    DataError
        Located at the later of the two.
    """
    ordered = sorted(rows, key=lambda row: (_time(row), row.line))
    for before, after in pairwise(ordered):
        meet = before.end_s is None or _time(after) < before.end_s
        if meet and before.values != after.values:
            first, second = sorted((before.line, after.line))
            raise DataError(
                f"contradicts line {first}: the same key, the same time, other labels",
                where=f"{path}:{second}",
                hint="keep one of the two, or add the column that tells them apart to --on",
            )
