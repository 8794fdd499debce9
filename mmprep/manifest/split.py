"""Which records train, which validate, which test: groups are never torn.

Rules
-----
- A group (all records with one value of a field: a subject) goes to exactly one split. `balanced`
  gives every split at least one group; `hashed` may leave a split empty, `closeness` tells.
- `balanced` brings three things as close to the ratios as groups allow: the share of groups, of
  records, and of each class's records. It minimises the sum over splits s of

      2 (groups_s - r_s)^2 + (records_s - r_s)^2 + mean over classes c of (records_sc - r_s)^2

  where each term is a share of all groups, records, records of the class: what a model meets are
  people first, so they count as much as the other two together. Few groups are tried in
  all ways; many are placed one by one and then, up to 1000, moved and swapped while that helps.
- `hashed` looks at one group at a time, so a new subject moves no other; it comes close to the
  ratios only with many groups.
- The seed breaks ties and chooses among equals. The same groups, ratios and seed give the same
  splits in any order of the records.
- Class weights are w_c = N_max / (N_c + eps), counted on what is trained on.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import msgspec
import numpy as np

from mmprep.errors import UsageError
from mmprep.manifest.model import Record, field_value
from mmprep.timebase import FloatArray, IntArray

MAX_TRIED = 20_000  # ways of placing all groups that are tried one by one
MAX_SWAPPED = 1_000  # groups up to which swaps are looked for; they cost groups squared
TIE = 1e-12  # costs that differ by less are equal
NO_CLASS = ""

Groups = Mapping[str, Mapping[str, int]]
Ratios = Mapping[str, Fraction]


@dataclass(frozen=True, slots=True)
class Closeness:
    """How close one split came to its ratio: shares of groups, records, each class's records."""

    ratio: float
    n_groups: int
    n_records: int
    share_of_groups: float
    share_of_records: float
    share_of_classes: dict[str, float]


def parse_ratios(text: str) -> dict[str, Fraction]:
    """Read `--ratios`, such as `train=0.8,val=0.1,test=0.1`.

    Raises
    ------
    UsageError
        Not name=number pairs, a ratio is not positive, or they don't add up to 1.
    """
    ratios: dict[str, Fraction] = {}
    for part in text.split(","):
        name, _, number = part.strip().partition("=")
        if not name or name in ratios:
            raise _ratio_error(f"{part!r} names no split, or one that was named before")
        ratios[name] = _ratio(number)
    if sum(ratios.values()) != 1:
        raise _ratio_error(f"{text!r} adds up to {float(sum(ratios.values())):g}, not to 1")
    return ratios


def count_groups(
    records: Iterable[Record], *, by: str, stratify: str = "label"
) -> dict[str, Counter[str]]:
    """Count the records of each class in each group.

    Returns
    -------
    dict
        Group -> class -> count; records without a class count as class "".

    Raises
    ------
    UsageError
        Records have no value of the field `by`; up to ten are named.
    """
    groups: dict[str, Counter[str]] = {}
    without: list[str] = []
    for record in records:
        group = field_value(record, by)
        if group is None:
            without.append(record.id)
            continue
        groups.setdefault(group, Counter())[field_value(record, stratify) or NO_CLASS] += 1
    if without:
        raise _without(without, by)
    return groups


def balanced(
    groups: Groups, ratios: Ratios, *, seed: int = 0, keep: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Place groups so that groups, records and classes come closest to the ratios.

    Parameters
    ----------
    groups : dict
        Group -> class -> count.
    ratios : dict
        Split -> share, adding up to 1.
    keep : dict, optional
        Group -> split of an earlier split that must stay; others are placed around them.

    Returns
    -------
    dict
        Group -> split, in the order of the names of the groups.

    Raises
    ------
    UsageError
        Fewer groups than splits, or `keep` names another split.
    """
    _check_enough(groups, ratios)
    board = _Board.of(groups, ratios, seed, keep or {})
    if len(ratios) ** board.free.size <= MAX_TRIED:
        chosen = _best_of_all(board)
    else:
        chosen = _improved(board, _fill(board, _greedy(board)))
    names = list(ratios)
    placed = {group: names[s] for group, s in zip(board.groups, chosen, strict=True)}
    return dict(sorted(placed.items()))


def hashed(groups: Iterable[str], ratios: Ratios, *, seed: int = 0) -> dict[str, str]:
    """Place each group by a hash of its own name.

    Returns
    -------
    dict
        Group -> split: with u = sha256(seed, group) read as a number in [0, 1), the first split
        whose cumulated ratio exceeds u.

    Raises
    ------
    UsageError
        Fewer groups than splits.
    """
    names = sorted(groups)
    _check_enough(names, ratios)
    return {group: _drawn(group, ratios, seed) for group in names}


def folds(groups: Groups, n_folds: int, *, seed: int = 0) -> dict[str, int]:
    """Give each group the fold in which it is tested, 0 .. n_folds - 1, balanced.

    Raises
    ------
    UsageError
        Fewer than two folds, or fewer groups than folds.
    """
    if n_folds < 2:
        raise UsageError(f"{n_folds} folds are too few", where="--folds", hint="give 2 or more")
    equal = {str(fold): Fraction(1, n_folds) for fold in range(n_folds)}
    return {group: int(fold) for group, fold in balanced(groups, equal, seed=seed).items()}


def leave_one_out(groups: Iterable[str]) -> dict[str, int]:
    """Give each group a fold of its own, in the order of their names."""
    return {group: fold for fold, group in enumerate(sorted(groups))}


def listed(lists: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Read the splits from lists of values, such as ids.

    Raises
    ------
    UsageError
        A value is in two lists.
    """
    placed: dict[str, str] = {}
    for split, values in lists.items():
        for value in values:
            if placed.setdefault(value, split) != split:
                raise UsageError(
                    f"{value!r} is in the lists of {placed[value]} and {split}",
                    where="--lists",
                    hint="take it out of one of them",
                )
    return placed


def assign(records: Iterable[Record], placed: Mapping[str, str], *, by: str) -> Iterator[Record]:
    """Write the split of its group into each record.

    Raises
    ------
    UsageError
        A record's group was not placed.
    """
    for record in records:
        split = placed.get(field_value(record, by) or "")
        if split is None:
            raise _without([record.id], by)
        yield msgspec.structs.replace(record, split=split)


def assign_folds(
    records: Iterable[Record], placed: Mapping[str, int], *, by: str
) -> Iterator[Record]:
    """Write the fold of its group into each record.

    Raises
    ------
    UsageError
        A record's group was not placed.
    """
    for record in records:
        fold = placed.get(field_value(record, by) or "")
        if fold is None:
            raise _without([record.id], by)
        yield msgspec.structs.replace(record, fold=fold)


def closeness(groups: Groups, placed: Mapping[str, str], ratios: Ratios) -> dict[str, Closeness]:
    """Say how close each split came to its ratio."""
    total = _merged(groups.values())
    return {
        split: _closeness(
            [counts for group, counts in groups.items() if placed[group] == split],
            ratio=float(ratio),
            total=total,
            n_groups=len(groups),
        )
        for split, ratio in ratios.items()
    }


def class_weights(
    counts: Mapping[str, int],
    *,
    classes: Iterable[str] = (),
    eps: float = 1.0,
    allow_absent: bool = False,
) -> dict[str, float]:
    """Weight the classes by how rare they are where the model trains.

    Parameters
    ----------
    counts : dict
        Class -> records of the train split.
    classes : iterable of str
        All classes of the data set.
    allow_absent : bool
        Give a class that the train split lacks the weight 0.

    Returns
    -------
    dict
        Class -> N_max / (N_c + eps), in the order of the names.

    Raises
    ------
    UsageError
        The train split lacks a class.
    """
    names = sorted({*counts, *classes} - {NO_CLASS})
    absent = [name for name in names if not counts.get(name)]
    if absent and not allow_absent:
        raise UsageError(
            f"no record of the train split has {', '.join(absent)}",
            where="class weights",
            hint="split otherwise, or give absent classes the weight 0 with --allow-absent",
        )
    n_max = max((counts[name] for name in names if name not in absent), default=0)
    return {name: 0.0 if name in absent else n_max / (counts[name] + eps) for name in names}


def train_counts(records: Iterable[Record], *, split: str = "train") -> Counter[str]:
    """Count the classes of the records that are trained on."""
    found = (field_value(record, "label") for record in records if record.split == split)
    return Counter(label for label in found if label is not None)


def _ratio(number: str) -> Fraction:
    try:
        ratio = Fraction(number)
    except (ValueError, ZeroDivisionError) as error:
        raise _ratio_error(f"{number!r} is not a number") from error
    if ratio <= 0:
        raise _ratio_error(f"{number!r} is not positive")
    return ratio


def _ratio_error(what: str) -> UsageError:
    hint = "give name=share pairs that add up to 1, such as train=0.8,val=0.1,test=0.1"
    return UsageError(what, where="--ratios", hint=hint)


def _without(ids: list[str], by: str) -> UsageError:
    named = ", ".join(ids[:10]) + (f" and {len(ids) - 10} more" if len(ids) > 10 else "")
    return UsageError(
        f"{len(ids)} records have no known {by}: {named}",
        where="--by",
        hint="split by a field that every record has, or filter these out first",
    )


def _check_enough(groups: Collection[str], ratios: Ratios) -> None:
    if len(groups) < len(ratios):
        raise UsageError(
            f"{len(groups)} groups cannot fill {len(ratios)} splits",
            where="--by",
            hint="ask for fewer splits, or split by a field with more values",
        )


def _drawn(group: str, ratios: Ratios, seed: int) -> str:
    digest = hashlib.sha256(f"{seed}\0{group}".encode()).digest()
    drawn = Fraction(int.from_bytes(digest[:8], "big"), 2**64)
    reached = Fraction(0)
    for split, ratio in ratios.items():
        reached += ratio
        if drawn < reached:
            return split
    return list(ratios)[-1]


def _merged(counters: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for counter in counters:
        total.update(counter)
    return total


def _closeness(
    members: list[Mapping[str, int]], *, ratio: float, total: Counter[str], n_groups: int
) -> Closeness:
    own = _merged(members)
    return Closeness(
        ratio=ratio,
        n_groups=len(members),
        n_records=own.total(),
        share_of_groups=len(members) / n_groups,
        share_of_records=own.total() / total.total(),
        share_of_classes={
            name: own[name] / count for name, count in sorted(total.items()) if name != NO_CLASS
        },
    )


@dataclass(frozen=True, slots=True)
class _Board:
    """Groups as rows of weighted shares, so that the cost of a placing is a squared distance.

    Parameters
    ----------
    shares : [shape=(n_groups, n_terms), float64]
        What a group adds to each term of its split, times the square root of the term's weight.
    targets : [shape=(n_splits, n_terms), float64]
        The ratio of each split, weighted alike.
    fixed : [shape=(n_groups,), int64]
        The split that a group must have, -1 if free.
    free : int64
        The free groups.
    """

    groups: tuple[str, ...]
    shares: FloatArray
    targets: FloatArray
    fixed: IntArray
    free: IntArray

    @classmethod
    def of(cls, groups: Groups, ratios: Ratios, seed: int, keep: Mapping[str, str]) -> _Board:
        """Lay out the groups, shuffled by the seed."""
        names = _shuffled(sorted(groups), seed)
        shares, weights = _shares([groups[name] for name in names])
        targets = np.outer([float(ratio) for ratio in ratios.values()], weights)
        fixed = np.array([_kept(name, ratios, keep) for name in names])
        return cls(tuple(names), shares, targets, fixed, np.flatnonzero(fixed < 0))

    @property
    def n_splits(self) -> int:
        """The number of splits."""
        return len(self.targets)

    def missing(self, placed: IntArray) -> FloatArray:
        """Say what each split lacks of its target, [shape=(n_splits, n_terms)].

        Groups at -1 are not placed.
        """
        missing = self.targets.copy()
        np.subtract.at(missing, placed[placed >= 0], self.shares[placed >= 0])
        return missing


def _shuffled(names: list[str], seed: int) -> list[str]:
    return [names[k] for k in np.random.default_rng(seed).permutation(len(names))]


def _kept(group: str, ratios: Ratios, keep: Mapping[str, str]) -> int:
    if group not in keep:
        return -1
    if keep[group] not in ratios:
        raise UsageError(
            f"{group!r} was in split {keep[group]!r}, which --ratios does not name",
            where="--keep",
            hint="name all splits of the earlier data set in --ratios",
        )
    return list(ratios).index(keep[group])


def _shares(counts: list[Mapping[str, int]]) -> tuple[FloatArray, FloatArray]:
    """Turn counts into weighted shares [shape=(n_groups, n_terms)] and the weights' roots."""
    classes = sorted(_merged(counts))
    table = np.array([[count.get(name, 0) for name in classes] for count in counts], float)
    records = table.sum(axis=1, keepdims=True)
    terms = np.hstack([np.ones_like(records), records, table])
    weights = np.sqrt([2.0, 1.0, *[1 / len(classes)] * len(classes)])
    return terms / terms.sum(axis=0) * weights, weights


def _best_of_all(board: _Board) -> IntArray:
    """Try every placing of the free groups; the first of the best."""
    ways = np.array(list(product(range(board.n_splits), repeat=board.free.size)), np.int64)
    start = board.missing(board.fixed)
    costs = np.zeros(len(ways))
    for split in range(board.n_splits):
        is_here = ways == split
        costs += ((start[split] - is_here @ board.shares[board.free]) ** 2).sum(axis=1)
        if not np.any(board.fixed == split):
            costs[~is_here.any(axis=1)] = np.inf
    best = _first_best(-costs)
    if costs[best] == np.inf:
        raise _stuck()
    placed = board.fixed.copy()
    placed[board.free] = ways[best]
    return placed


def _first_best(gains: FloatArray) -> int:
    """Choose the first of the greatest; what rounding alone tells apart is equal."""
    return int(np.argmax(gains >= gains.max() - TIE))


def _greedy(board: _Board) -> IntArray:
    """Place one group after the other where the distance to the targets shrinks most.

    The order is the seed's: largest first would spend the large groups on the large splits, and
    the shares of groups and of records would end up pulling against each other.
    """
    placed = board.fixed.copy()
    missing = board.missing(placed)
    for group in board.free:
        # |missing - share|^2 - |missing|^2 without the part that all splits have in common.
        split = _first_best(missing @ board.shares[group])
        placed[group] = split
        missing[split] -= board.shares[group]
    return placed


def _fill(board: _Board, placed: IntArray) -> IntArray:
    """Give each empty split a free group of a split that has others."""
    placed = placed.copy()
    for split in np.flatnonzero(np.bincount(placed, minlength=board.n_splits) == 0):
        sizes = np.bincount(placed, minlength=board.n_splits)
        donors = [group for group in board.free[::-1] if sizes[placed[group]] > 1]
        if not donors:
            raise _stuck()
        placed[donors[0]] = split
    return placed


def _stuck() -> UsageError:
    hint = "ask for fewer splits, or keep fewer groups"
    return UsageError("the kept groups leave a split empty", where="--keep", hint=hint)


def _improved(board: _Board, placed: IntArray) -> IntArray:
    """Move and swap free groups while the distance to the targets shrinks."""
    changed = board.free.size <= MAX_SWAPPED
    while changed:
        changed = False
        for group in board.free:
            missing = board.missing(placed)
            gains = [_move(board, placed, missing, group), _swap(board, placed, missing, group)]
            gain, better = max(gains, key=lambda found: found[0])
            if gain > TIE:
                placed, changed = better, True
    return placed


def _move(
    board: _Board, placed: IntArray, missing: FloatArray, group: int
) -> tuple[float, IntArray]:
    """Find the split where one group fits best: how much that gains, and the placing."""
    share, home = board.shares[group], placed[group]
    if np.count_nonzero(placed == home) < 2:
        return 0.0, placed
    gains = 2 * ((missing - missing[home]) @ share - share @ share)
    gains[home] = 0.0
    split = _first_best(gains)
    return float(gains[split]), np.where(np.arange(placed.size) == group, split, placed)


def _swap(
    board: _Board, placed: IntArray, missing: FloatArray, group: int
) -> tuple[float, IntArray]:
    """Find the group that one had best change places with: the gain, and the placing."""
    others = board.free[placed[board.free] != placed[group]]
    if not others.size:
        return 0.0, placed
    change = board.shares[group] - board.shares[others]
    pull = missing[placed[others]] - missing[placed[group]]
    gains = 2 * (change * pull - change**2).sum(axis=1)
    best = _first_best(gains)
    better = placed.copy()
    better[[group, others[best]]] = placed[[others[best], group]]
    return float(gains[best]), better
