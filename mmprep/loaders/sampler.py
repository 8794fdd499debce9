"""Which records come when, as arithmetic on (seed, epoch, rank, world_size).

Rules
-----
- An epoch is a permutation of all records, computed entry by entry: a keyed bijection of the
  integers below a power of two, applied until the result is below n. It needs no state, depends
  on no library's random stream, and any step can be restored by counting.
- Rank r takes entries r, r + world_size, ... Every rank gets the same number of batches. What is
  missing for that is made up from the beginning of the epoch (at most world_size - 1 records, or
  batches where these are cut by size), or left out with `drop_last`.
- A size limit bounds what a padded batch holds: its count times its longest record. A record over
  the limit stands alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mmprep.errors import UsageError
from mmprep.timebase import FloatArray, IntArray

ROUNDS = 6
MIN_BITS = 6
_WORD = 2**64

UintArray = NDArray[np.uint64]


def permuted(positions: IntArray, n_records: int, *, seed: int, epoch: int) -> IntArray:
    """Say which record stands at each position of a shuffled epoch.

    Parameters
    ----------
    positions : [shape=(n,), int64]
        Within [0, n_records).

    Returns
    -------
    [shape=(n,), int64]
        A bijection of [0, n_records).
    """
    half_bits = max(MIN_BITS, (n_records - 1).bit_length() + 1) // 2
    keys = _keys(seed, epoch)
    found = _crossed(positions.astype(np.uint64), half_bits, keys)
    while (outside := np.flatnonzero(found >= n_records)).size:
        found[outside] = _crossed(found[outside], half_bits, keys)
    return found.astype(np.int64)


def epoch_order(n_records: int, *, shuffle: bool, seed: int = 0, epoch: int = 0) -> IntArray:
    """Give the records of an epoch in order, [shape=(n_records,), int64]."""
    positions = np.arange(n_records, dtype=np.int64)
    return permuted(positions, n_records, seed=seed, epoch=epoch) if shuffle else positions


def rank_share(
    order: IntArray, *, rank: int = 0, world_size: int = 1, drop_last: bool = False
) -> IntArray:
    """Take one rank's records from an epoch.

    Returns
    -------
    [shape=(n_each,), int64]
        order[rank::world_size], after the epoch was filled up from its beginning, or cut, to a
        multiple of world_size.

    Raises
    ------
    UsageError
        rank is not in [0, world_size).
    """
    if not 0 <= rank < world_size:
        raise UsageError(f"rank {rank} is not one of {world_size}, expected 0..{world_size - 1}")
    if drop_last:
        return order[: order.size - order.size % world_size][rank::world_size]
    return np.resize(order, -(-order.size // world_size) * world_size)[rank::world_size]


def n_repeated(n_records: int, world_size: int) -> int:
    """Count the records that come twice in an epoch so that all ranks get as many."""
    return -n_records % world_size if n_records else 0


def counted_batches(
    share: IntArray, batch_size: int, *, drop_last: bool = False, start: int = 0
) -> Iterator[IntArray]:
    """Cut a rank's records into batches of a given count, from batch `start` on."""
    for begin in range(start * batch_size, share.size, batch_size):
        batch = share[begin : begin + batch_size]
        if batch.size == batch_size or not drop_last:
            yield batch


def n_counted_batches(n_each: int, batch_size: int, *, drop_last: bool = False) -> int:
    """Count the batches of a rank that has n_each records."""
    return n_each // batch_size if drop_last else -(-n_each // batch_size)


def sized_batches(
    order: IntArray, sizes: FloatArray | IntArray, limit: float, *, max_count: int | None = None
) -> list[IntArray]:
    """Cut an epoch into batches by what they hold when padded.

    Parameters
    ----------
    order : [shape=(n,), int64]
        Records.
    sizes : [shape=(n_records,)]
        The size of each record, by its number.
    limit : float
        The most that count x longest may be.
    max_count : int, optional
        The most records of a batch.
    """
    cuts, begin, longest = [0], 0, 0.0
    for position, size in enumerate(sizes[order].tolist()):
        count = position - begin + 1
        grown = max(longest, size)
        is_full = count * grown > limit or (max_count is not None and count > max_count)
        if is_full and count > 1:
            cuts.append(position)
            begin, grown = position, size
        longest = grown
    return np.split(order, cuts[1:]) if order.size else []


def rank_batches(
    batches: list[IntArray], *, rank: int = 0, world_size: int = 1, drop_last: bool = False
) -> list[IntArray]:
    """Take one rank's batches of an epoch that was cut by size; see `rank_share`."""
    numbers = np.arange(len(batches), dtype=np.int64)
    share = rank_share(numbers, rank=rank, world_size=world_size, drop_last=drop_last)
    return [batches[number] for number in share]


def _keys(seed: int, epoch: int) -> list[int]:
    state = _mixed_int(_mixed_int(seed % _WORD) ^ (epoch % _WORD))
    return [_mixed_int((state + k * 0x9E3779B97F4A7C15) % _WORD) for k in range(ROUNDS)]


def _mixed_int(value: int) -> int:
    return int(_mixed(np.array([value], np.uint64))[0])


def _mixed(values: UintArray) -> UintArray:
    """Scatter 64-bit words: the finalizer of splitmix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _crossed(values: UintArray, half_bits: int, keys: list[int]) -> UintArray:
    """Permute [0, 4^half_bits) by a Feistel network: each round is undone by itself."""
    mask, shift = np.uint64((1 << half_bits) - 1), np.uint64(half_bits)
    left, right = values >> shift, values & mask
    for key in keys:
        left, right = right, left ^ (_mixed(right ^ np.uint64(key)) & mask)
    return (left << shift) | right
