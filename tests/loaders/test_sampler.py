"""The order of an epoch, its shares and batches."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmprep.errors import UsageError
from mmprep.loaders import sampler

quick = settings(deadline=None, max_examples=60)

counts = st.integers(1, 700)
seeds = st.integers(0, 2**63)


@quick
@given(counts, seeds, st.integers(0, 100))
def test_epoch_order_when_shuffled_has_every_record_once(n_records, seed, epoch):
    order = sampler.epoch_order(n_records, shuffle=True, seed=seed, epoch=epoch)
    assert sorted(order) == list(range(n_records))


def test_epoch_order_of_no_records_is_empty():
    assert sampler.epoch_order(0, shuffle=True).size == 0


def test_epoch_order_without_shuffle_is_that_of_the_manifest():
    assert sampler.epoch_order(4, shuffle=False, seed=3).tolist() == [0, 1, 2, 3]


def test_epoch_order_stays_the_same_for_good():
    order = sampler.epoch_order(12, shuffle=True, seed=1, epoch=2)
    assert order.tolist() == [8, 9, 2, 1, 11, 0, 4, 7, 5, 10, 6, 3]


def test_epoch_order_differs_by_seed_and_by_epoch():
    orders = {
        tuple(sampler.epoch_order(50, shuffle=True, seed=seed, epoch=epoch).tolist())
        for seed in range(5)
        for epoch in range(5)
    }
    assert len(orders) == 25


def test_epoch_order_puts_each_record_at_each_place_about_as_often():
    n_epochs, n_records = 1000, 8
    orders = [sampler.epoch_order(n_records, shuffle=True, epoch=k) for k in range(n_epochs)]
    table = np.stack([np.bincount(column, minlength=n_records) for column in np.stack(orders).T])
    expected = n_epochs / n_records
    assert ((table - expected) ** 2 / expected).sum() < 100  # chi-square, 49 degrees: p = 2e-5


@quick
@given(counts, seeds)
def test_permuted_of_one_position_is_that_of_the_whole_epoch(n_records, seed):
    whole = sampler.epoch_order(n_records, shuffle=True, seed=seed)
    one = sampler.permuted(np.array([n_records - 1]), n_records, seed=seed, epoch=0)
    assert one[0] == whole[-1]


@quick
@given(st.integers(0, 60), st.integers(1, 9))
def test_rank_shares_have_every_record_and_the_stated_padding(n_records, world_size):
    order = sampler.epoch_order(n_records, shuffle=True, seed=1)
    shares = [sampler.rank_share(order, rank=r, world_size=world_size) for r in range(world_size)]
    seen = Counter(int(record) for share in shares for record in share)
    assert len({share.size for share in shares}) == 1
    assert set(seen) == set(range(n_records))
    assert seen.total() - n_records == sampler.n_repeated(n_records, world_size)


@quick
@given(st.integers(0, 60), st.integers(1, 9))
def test_rank_shares_with_drop_last_repeat_nothing(n_records, world_size):
    order = sampler.epoch_order(n_records, shuffle=False)
    shares = [
        sampler.rank_share(order, rank=r, world_size=world_size, drop_last=True)
        for r in range(world_size)
    ]
    seen = [int(record) for share in shares for record in share]
    assert len(seen) == len(set(seen)) == n_records - n_records % world_size


def test_rank_share_takes_every_nth():
    share = sampler.rank_share(np.arange(6), rank=1, world_size=2)
    assert share.tolist() == [1, 3, 5]


@pytest.mark.parametrize("rank", [-1, 2])
def test_rank_share_when_rank_is_outside_then_refused(rank):
    with pytest.raises(UsageError, match=r"is not one of 2, expected 0\.\.1"):
        sampler.rank_share(np.arange(6), rank=rank, world_size=2)


@quick
@given(st.integers(0, 40), st.integers(1, 9), st.booleans())
def test_counted_batches_are_as_many_as_counted(n_each, batch_size, drop_last):
    batches = list(sampler.counted_batches(np.arange(n_each), batch_size, drop_last=drop_last))
    assert len(batches) == sampler.n_counted_batches(n_each, batch_size, drop_last=drop_last)


@quick
@given(st.integers(0, 40), st.integers(1, 9), st.integers(0, 9))
def test_counted_batches_from_a_start_are_the_tail(n_each, batch_size, start):
    share = np.arange(n_each)
    whole = [b.tolist() for b in sampler.counted_batches(share, batch_size)]
    tail = [b.tolist() for b in sampler.counted_batches(share, batch_size, start=start)]
    assert tail == whole[start:]


@quick
@given(st.lists(st.integers(0, 30), max_size=40), st.integers(1, 60), st.integers(1, 6))
def test_sized_batches_keep_the_limit_and_every_record(sizes, limit, max_count):
    order = np.arange(len(sizes))[::-1]
    batches = sampler.sized_batches(order, np.array(sizes, int), limit, max_count=max_count)
    assert [record for batch in batches for record in batch] == order.tolist()
    for batch in batches:
        padded = batch.size * max(sizes[record] for record in batch)
        assert batch.size == 1 or (padded <= limit and batch.size <= max_count)


def test_sized_batches_are_as_large_as_the_limit_allows():
    batches = sampler.sized_batches(np.arange(5), np.array([1.0, 1.0, 2.0, 9.0, 1.0]), 4)
    assert [batch.tolist() for batch in batches] == [[0, 1], [2], [3], [4]]


@quick
@given(st.integers(0, 20), st.integers(1, 6))
def test_rank_batches_give_each_rank_as_many(n_batches, world_size):
    batches = [np.array([number]) for number in range(n_batches)]
    shares = [
        sampler.rank_batches(batches, rank=r, world_size=world_size) for r in range(world_size)
    ]
    assert len({len(share) for share in shares}) == 1
    assert {int(b[0]) for share in shares for b in share} == set(range(n_batches))
