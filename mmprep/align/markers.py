"""Trials between markers: which begin goes with which end.

Rules
-----
- Markers are taken in order of time. A trial ends with the first end behind its begin; a marker
  that is both ends a trial, then begins the next.
- Where begins and ends name the same groups, those of a trial must hold the same: trials may
  overlap, and a marker that is both ends the trial of its name, or begins it if none is open.
  Else one trial is open at a time.
- A begin before the end of the trial that is open leaves that one without an end.
- Without ends a trial lasts as long as its row says, else until the next begin, and the last one
  as long as most do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mmprep.timebase import IntArray

Groups = Mapping[str, str | None]
NO_END = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Paired:
    """Trials of markers.

    Parameters
    ----------
    begins : [shape=(n,), int64]
        The markers that begin a trial.
    ends_ns : [shape=(n,), int64, ns]
        When each ends; `NO_END` if never.
    groups : tuple of mapping
        What the groups of a trial's markers hold.
    n_ends, n_no_start : int
        Markers that end a trial and begin none, and those of them that have no trial to end.
    """

    begins: IntArray
    ends_ns: IntArray
    groups: tuple[Groups, ...]
    n_ends: int
    n_no_start: int


def pair(
    stamps_ns: IntArray, starts: Sequence[Groups | None], ends: Sequence[Groups | None]
) -> Paired:
    """Find the end of each trial.

    Parameters
    ----------
    stamps_ns : [shape=(n,), int64, ns]
        Not falling.
    starts, ends : sequence of mapping or None
        The groups of the markers that begin or end a trial; None for others.
    """
    shared = _names(starts) & _names(ends)
    groups: dict[int, Groups] = {}
    ends_ns: dict[int, int] = {}
    open_at: dict[tuple[str | None, ...], int] = {}
    n_ends = n_no_start = 0
    for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
        begin = None if end is None else open_at.pop(_key(end, shared), None)
        if begin is not None and end is not None:
            ends_ns[begin] = int(stamps_ns[row])
            groups[begin] = {**end, **groups[begin]}
        only_ends = end is not None and (start is None or (bool(shared) and begin is not None))
        n_ends += only_ends
        n_no_start += only_ends and begin is None
        if start is not None and not only_ends:
            groups[row], open_at[_key(start, shared)] = start, row
    begins = np.array(list(groups), dtype=np.int64)
    ended = np.array([ends_ns.get(row, NO_END) for row in groups], dtype=np.int64)
    return Paired(begins, ended, tuple(groups.values()), n_ends, n_no_start)


def lasting(stamps_ns: IntArray, durations_ns: IntArray) -> IntArray:
    """Say when trials end that no marker ends.

    Parameters
    ----------
    stamps_ns, durations_ns : [shape=(n,), int64, ns]
        Their begins, not falling, and how long their rows say that they last; 0 if they don't.

    Returns
    -------
    [shape=(n,), int64, ns]
        `NO_END` where nothing tells: of one begin alone.
    """
    says = durations_ns > 0
    ends = np.append(stamps_ns[1:], NO_END)[: stamps_ns.size]
    ends = np.where(says, stamps_ns + durations_ns, ends)
    if stamps_ns.size > 1 and not says[-1]:
        ends[-1] = stamps_ns[-1] + round(float(np.median((ends - stamps_ns)[:-1])))
    return ends


def _names(markers: Sequence[Groups | None]) -> frozenset[str]:
    return frozenset(name for groups in markers if groups is not None for name in groups)


def _key(groups: Groups, shared: frozenset[str]) -> tuple[str | None, ...]:
    return tuple(groups[name] for name in sorted(shared))
