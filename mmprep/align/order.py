"""Put the rows of a stream in order: glitches, late rows, repeats.

Rules
-----
- A stream without a backward step and without an interval over a day is in order as it stands.
- Else rows are cut into pieces at each backward step and each long interval, and the heaviest
  chain of pieces that rises in time is the line. Pieces off the line are, first match wins:
  *shifted* where the rows before and after leave exactly their room (a block of stamps
  200 000 s off), *late* where most of their own stamps fall into holes of the line (they are sorted
  in) or are *repeats* of the line's, else *corrupt*: their stamp can't be repaired.
- An interval over a day is a pause where both sides are recordings of their own: a minute or more,
  a twentieth of the rows of the heaviest, at most a month apart. Else only the heaviest side is the
  line, and the rows of the others are corrupt: a clock was not set yet, stamps went astray.
- Where stamps scatter by more than a tenth of a period, steps back by up to ten times the scatter
  are scatter: the row order stands. Chunks of rows that were stamped together scatter as one.
- Equal stamps are repeats, of which the first row is kept, unless they come in packets: a group of
  m equal stamps beside an interval of about m periods is m samples with one stamp, and so are
  equal stamps in bursts of rows that come evenly. Stamps that are rounded to about a period or
  more repeat, too (see `timebase.rounded_steps`); of those rounded to a third of one, and of those
  that scatter, equal ones are repeats if all that follow are a period early.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from mmprep.align.counting import level_steps
from mmprep.timebase import (
    COARSE,
    NS_PER_S,
    BoolArray,
    FloatArray,
    IntArray,
    bursts_of,
    decimal_step,
    lateness_of,
    rounded_steps,
    scatter_of,
)

DAY_NS = 86_400 * NS_PER_S
MONTH_NS = 31 * DAY_NS
UNREADABLE = np.iinfo(np.int64).min
"""The stamp of a row whose time could not be read (NaT)."""

_OWN_NS, _OWN_SHARE = 60 * NS_PER_S, 0.05  # of a recording beyond a pause
_SCATTERED = 0.1
_SLACK = 10.0
_FEW = 0.02  # of the rows: less is no habit of a sender
_NEAR = 0.01
_ROWS, _ROWS_LEAST, _ROWS_MOST = 500, 16, 512  # their median is sure to a tenth of a period
_HOLE = 1.5  # periods; an interval between two samples in a row may be a little over one


@dataclass(frozen=True, slots=True)
class Order:
    """The rows to keep, in order of time.

    Parameters
    ----------
    kept : [shape=(n_kept,), int64], optional
        Row numbers in the stream; None where all rows are kept as they came.
    stamps_ns : [shape=(n_kept,), int64, ns]
        Their stamps; of shifted rows the repaired ones. Rising, apart from scatter.
    n_corrupt, n_duplicate, n_shifted, n_late : int
        Rows without a usable stamp, repeats, rows moved back into line, rows sorted in.
    n_far : int
        Those without a usable stamp that lie over a day from all others.
    in_packets : bool
        Equal stamps stand for several samples each.
    """

    kept: IntArray | None
    stamps_ns: IntArray
    n_corrupt: int
    n_duplicate: int
    n_shifted: int
    n_late: int
    in_packets: bool
    n_far: int = 0

    @property
    def rows(self) -> IntArray:
        """Row numbers in the stream, [shape=(n_kept,), int64]."""
        return np.arange(self.stamps_ns.size) if self.kept is None else self.kept

    def of(self, values: IntArray) -> IntArray:
        """Give what each row has, [shape=(n,)], in the order of the rows kept."""
        return values if self.kept is None else values[self.kept]


def in_order(
    stamps_ns: IntArray, *, period_ns: float, unreadable: BoolArray | None = None
) -> Order:
    """Put rows in order of time and name those that can't be kept.

    Parameters
    ----------
    stamps_ns : [shape=(n,), int64, ns]
        In row order; `UNREADABLE` where there is none.
    period_ns : float [ns]
        The period of a regular stream, NaN of an irregular one.
    unreadable : [shape=(n,), bool], optional
        More rows that can't be read.

    Returns
    -------
    Order
        With n = n_kept + n_corrupt + n_duplicate.
    """
    readable = stamps_ns != UNREADABLE
    if unreadable is not None:
        readable &= ~unreadable
    kept = None if readable.all() else np.flatnonzero(readable)
    straight = _straighten(stamps_ns if kept is None else stamps_ns[kept], period_ns)
    stamps = straight.stamps_ns
    keep, in_packets = _first_of_repeats(stamps, period_ns)
    kept = _taken(_taken(kept, straight.rows), None if keep.all() else np.flatnonzero(keep))
    return Order(
        kept=kept,
        stamps_ns=stamps if keep.all() else stamps[keep],
        n_corrupt=int(stamps_ns.size - stamps.size),
        n_duplicate=int(keep.size - keep.sum()),
        n_shifted=straight.n_shifted,
        n_late=straight.n_late,
        n_far=straight.n_far,
        in_packets=in_packets,
    )


def usable(stamps_ns: IntArray) -> IntArray:
    """Leave out the stamps that could not be read."""
    readable = stamps_ns != UNREADABLE
    return stamps_ns if readable.all() else stamps_ns[readable]


def sorted_singly(placed: Order) -> Order:
    """Put rows in the order of their stamps, and keep of equal ones the first."""
    stamps_ns = placed.stamps_ns
    if np.all(stamps_ns[1:] > stamps_ns[:-1]):
        return placed
    by_time = np.argsort(stamps_ns, kind="stable")
    stamps_ns = stamps_ns[by_time]
    first = np.concatenate([[True], stamps_ns[1:] > stamps_ns[:-1]])[: stamps_ns.size]
    return replace(
        placed,
        kept=_taken(placed.kept, by_time[first]),
        stamps_ns=stamps_ns[first],
        n_duplicate=placed.n_duplicate + int(stamps_ns.size - first.sum()),
    )


def _taken(rows: IntArray | None, chosen: IntArray | None) -> IntArray | None:
    """Choose from rows; None are all of them."""
    if rows is None or chosen is None:
        return chosen if rows is None else rows
    return rows[chosen]


@dataclass(frozen=True, slots=True)
class _Straight:
    rows: IntArray | None
    stamps_ns: IntArray
    n_shifted: int = 0
    n_late: int = 0
    n_far: int = 0


def _straighten(stamps: IntArray, period: float) -> _Straight:
    slack = _slack(stamps, period)
    step = np.diff(stamps)
    if step.size == 0 or (step.min() >= -slack and step.max() <= DAY_NS):
        return _Straight(None, stamps)
    on_line = _line(stamps, step, slack, period)
    fixed, placed, late = stamps.copy(), on_line.copy(), np.zeros(stamps.size, dtype=bool)
    line_rows, kept_stamps = np.flatnonzero(on_line), np.maximum.accumulate(stamps[on_line])
    homeless, taken = [], set()
    for begin, end in _blocks(stamps, on_line, slack):
        low, high = _neighbours(line_rows, begin)
        shift = _room_for(stamps, (low, begin, end, high), period)
        if shift is not None and (low, high) == (begin - 1, end):
            fixed[begin:end] += shift
            placed[begin:end] = True
            taken.add(low)
            continue
        if slack == 0:
            late[begin:end] = placed[begin:end] = _in_holes(stamps[begin:end], kept_stamps, period)
        if shift is not None and not placed[begin:end].any():
            homeless.append((low, begin, end, shift))
    for low, begin, end, shift in homeless:  # rows beside them have a place of their own
        if low not in taken:
            fixed[begin:end] += shift
            placed[begin:end] = True
            taken.add(low)
    n_shifted, n_late = int((fixed != stamps).sum()), int(late.sum())
    if placed.all() and not n_late:
        return _Straight(None, fixed, n_shifted)
    rows = np.flatnonzero(placed)
    n_far = int(np.sum(_far_from(fixed[rows], fixed[~placed])))
    if n_late:
        rows = rows[np.argsort(fixed[rows], kind="stable")]
    return _Straight(rows, fixed[rows], n_shifted, n_late, n_far)


def _far_from(line: IntArray, others: IntArray) -> BoolArray:
    return np.asarray((others < line.min() - DAY_NS) | (others > line.max() + DAY_NS))


def _slack(stamps: IntArray, period: float) -> int:
    if not scatter_of(stamps, period) > _SCATTERED * period:
        return 0
    return min(int(_SLACK * lateness_of(stamps, period)), DAY_NS)


def _line(stamps: IntArray, step: IntArray, slack: int, period: float) -> BoolArray:
    """Mark the rows of the heaviest rising chain of pieces."""
    long = 1.5 * period + slack if period > 0 else 5.0 * max(float(np.median(np.abs(step))), 1.0)
    cuts = np.flatnonzero((step < -slack) | (step > long)) + 1
    cuts = np.union1d(cuts, _overlaps(stamps, cuts, np.flatnonzero(step < -slack) + 1))
    bounds = np.unique(np.concatenate([[0], cuts, [stamps.size]])).astype(np.int64)
    first = np.minimum.reduceat(stamps, bounds[:-1])
    last = np.maximum.reduceat(stamps, bounds[:-1])
    chain = _heaviest_chain(first.tolist(), last.tolist(), np.diff(bounds).tolist(), slack)
    mark = np.zeros(stamps.size, dtype=bool)
    for piece in _heaviest_side(chain, first, last, np.diff(bounds)):
        mark[bounds[piece] : bounds[piece + 1]] = True
    return mark


def _overlaps(stamps: IntArray, cuts: IntArray, back: IntArray) -> IntArray:
    """Find where pieces on both sides of each backward step begin and end to overlap in time."""
    bounds = np.concatenate([[0], cuts, [stamps.size]])
    at = np.searchsorted(bounds, back)
    found = []
    for low, row, high in zip(bounds[at - 1], back, bounds[at + 1], strict=True):
        found.append(low + np.searchsorted(stamps[low:row], stamps[row]))
        found.append(row + np.searchsorted(stamps[row:high], stamps[row - 1], side="right"))
    return np.array(found, dtype=np.int64)


def _heaviest_chain(first: list[int], last: list[int], weight: list[int], slack: int) -> list[int]:
    """Choose pieces, in row order, each beginning behind the end of the one before.

    `ends` and `totals` rise together: the best weight of a chain that ends at or before a time.
    """
    ends: list[int] = []
    totals: list[int] = []
    tails: list[int] = []
    before = [-1] * len(first)
    for piece in range(len(first)):
        at = bisect_right(ends, first[piece] + slack)
        before[piece] = tails[at - 1] if at else -1
        total = weight[piece] + (totals[at - 1] if at else 0)
        at = bisect_right(ends, last[piece])
        if at and totals[at - 1] >= total:
            continue
        stop = at
        while stop < len(ends) and totals[stop] <= total:
            stop += 1
        ends[at:stop], totals[at:stop], tails[at:stop] = [last[piece]], [total], [piece]
    chain = [tails[-1]]
    while before[chain[-1]] >= 0:
        chain.append(before[chain[-1]])
    return chain[::-1]


def _heaviest_side(
    chain: list[int], first: IntArray, last: IntArray, weight: IntArray
) -> list[int]:
    """Cut the chain at intervals over a day; take the part with most rows and those related."""
    pieces = np.array(chain)
    cut = np.flatnonzero(first[pieces[1:]] - last[pieces[:-1]] > DAY_NS) + 1
    parts = np.split(pieces, cut)
    rows = [int(weight[part].sum()) for part in parts]
    best = rows.index(max(rows))

    def is_related(part: int, beside: int) -> bool:
        early, late = sorted((part, beside))
        apart_ns = first[parts[late][0]] - last[parts[early][-1]]
        lasts_ns = last[parts[part][-1]] - first[parts[part][0]]
        is_own = lasts_ns >= _OWN_NS and rows[part] >= _OWN_SHARE * rows[best]
        return bool(is_own and apart_ns <= MONTH_NS)

    low, high = best, best + 1
    while low and is_related(low - 1, low):
        low -= 1
    while high < len(parts) and is_related(high, high - 1):
        high += 1
    return [int(piece) for part in parts[low:high] for piece in part]


def _blocks(stamps: IntArray, on_line: BoolArray, slack: int) -> Iterator[tuple[int, int]]:
    """Give each stretch `[begin, end)` of rows off the line whose own stamps are in order."""
    off = np.flatnonzero(~on_line)
    if off.size == 0:
        return
    step = stamps[off[1:]] - stamps[off[:-1]]
    new = (np.diff(off) > 1) | (step < -slack) | (step > DAY_NS)
    starts = np.concatenate([[0], np.flatnonzero(new) + 1, [off.size]])
    for low, high in pairwise(starts.tolist()):
        yield int(off[low]), int(off[high - 1]) + 1


def _neighbours(line_rows: IntArray, row: int) -> tuple[int, int]:
    """Give the rows of the line before and behind a row that is off it; -1 for none."""
    at = int(np.searchsorted(line_rows, row))
    before = int(line_rows[at - 1]) if at else -1
    return before, int(line_rows[at]) if at < line_rows.size else -1


def _room_for(stamps: IntArray, rows: tuple[int, int, int, int], period: float) -> int | None:
    """Say by how much a block must shift to fill the room around it exactly; None: no fit.

    Parameters
    ----------
    rows : (low, begin, end, high)
        The block is `[begin, end)`; the line has low before it and high behind it.
    """
    low, begin, end, high = rows
    if not period > 0 or low < 0 or high < 0:
        return None
    room = int(stamps[high] - stamps[low]) - int(stamps[end - 1] - stamps[begin])
    if abs(room - 2 * period) > period / 2:
        return None
    return int(stamps[low]) + room // 2 - int(stamps[begin])


def _in_holes(block: IntArray, line: IntArray, period: float) -> BoolArray:
    """Mark stamps that the line has a hole for, or holds already (they are repeats).

    Where most of a block has neither, as after a clock was set back, none has: what lies in a hole
    lies there by chance.
    """
    at = np.searchsorted(line, block)
    below = block - line[np.maximum(at - 1, 0)]
    above = line[np.minimum(at, line.size - 1)] - block
    reach, hole = (period / 2, _HOLE * period) if period > 0 else (1.0, 2.0)
    inside = (at > 0) & (at < line.size) & (below + above >= hole)
    found = np.asarray((above == 0) | (inside & (below >= reach) & (above >= reach)))
    return found if 2 * found.sum() >= found.size else np.zeros_like(found)


def _first_of_repeats(stamps: IntArray, period: float) -> tuple[BoolArray, bool]:
    """Mark the rows to keep of those with equal stamps, and say whether they are packets."""
    new = np.concatenate([[True], stamps[1:] != stamps[:-1]])[: stamps.size]
    if new.all():
        return new, False
    starts = np.flatnonzero(new)
    size = np.diff(np.append(starts, stamps.size))
    if period > 0 and _are_samples(stamps, starts, size, period):
        return np.ones(stamps.size, dtype=bool), True
    rows = _rows_that_tell(stamps, period)
    if rows:
        again = np.flatnonzero(~new) - 1
        since = (stamps - stamps[0]).astype(np.float64)
        new[again + 1] = level_steps(since, period, again, rows) > -period / 2
    return new, False


def _rows_that_tell(stamps: IntArray, period: float) -> int:
    """Say how many rows tell whether a sample too many is among them; 0 if equal stamps do.

    Rounding, and scatter, give two samples one stamp by chance.
    """
    if not period > 0:
        return 0
    scatter = scatter_of(stamps, period) / period
    if scatter <= _SCATTERED and decimal_step(np.diff(stamps)) < COARSE * period:
        return 0
    return int(np.clip(_ROWS * scatter**2, _ROWS_LEAST, _ROWS_MOST))


def _are_samples(stamps: IntArray, starts: IntArray, size: IntArray, period: float) -> bool:
    """Say whether equal stamps stand for several samples each."""
    many = size > 1
    if size[many].sum() >= _FEW * stamps.size and _are_packets(stamps[starts], size, period):
        return True
    if bursts_of(stamps, period).size:
        return True
    rounded = rounded_steps(stamps)
    if rounded.size == 0:
        return False
    with_all, with_first = rounded.mean(), rounded.sum() / np.count_nonzero(rounded)
    return bool(abs(with_all / period - 1) <= max(abs(with_first / period - 1), _NEAR))


def _are_packets(stamps: IntArray, size: IntArray, period: float) -> bool:
    step = np.abs(np.diff(stamps)).astype(np.float64)
    if step.size == 0:
        return False
    wide: FloatArray = np.maximum(np.append(step, step[-1]), np.append(step[0], step)) / period
    many = size > 1
    return bool(np.median(wide[many]) >= (1 + np.median(size[many])) / 2)
