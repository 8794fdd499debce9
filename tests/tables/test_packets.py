"""Counters of packets: lost, repeated and restarted ones, against a slow oracle."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmprep.tables.packets import Cycle, PacketCounter, find_cycle


def numbers(values, cycle, *, cuts=()):
    counter = PacketCounter(cycle)
    parts = np.split(np.array(values, dtype=np.float64), list(cuts))
    return np.concatenate([counter.numbers(part) for part in parts]).tolist(), counter


def oracle(kept, n_values):
    """Number packets whose true numbers are `kept`, seen through a counter of n_values."""
    found = [0]
    for before, here in pairwise(kept):
        found.append(found[-1] + (here - before - 1) % n_values + 1)
    return found


def test_whole_cycles_number_on_without_loss():
    found, counter = numbers([14, 15, 0, 1, 2], Cycle(0, 15))
    assert found == [0, 1, 2, 3, 4]
    assert (counter.n_lost, counter.notes("nSeq", is_clock=True)) == (0, [])


def test_lost_packets_advance_the_numbers():
    found, counter = numbers([14, 15, 3, 4, 8], Cycle(0, 15))
    assert found == [0, 1, 5, 6, 10]
    assert (counter.n_lost, counter.n_holes) == (6, 2)


def test_cycle_of_129_values_goes_on_after_128():
    found, _ = numbers([127, 128, 0, 2], Cycle(0, 128))
    assert found == [0, 1, 2, 4]


def test_same_value_again_is_the_same_packet():
    found, counter = numbers([101, 101, 102, 102, 104], Cycle(101, 200))
    assert found == [0, 0, 1, 1, 3]
    assert (counter.n_lost, counter.n_repeats) == (1, 2)


def test_same_value_of_a_source_that_never_repeats_is_a_cycle_later():
    counter = PacketCounter(Cycle(0, 15), may_repeat=False)
    assert counter.numbers(np.array([3.0, 3.0, 4.0])).tolist() == [0, 16, 17]
    assert (counter.n_lost, counter.n_repeats) == (15, 0)


def test_counter_in_steps_of_two_counts_packets():
    found, counter = numbers([252, 254, 0, 4], Cycle(0, 254, 2))
    assert found == [0, 1, 2, 4]
    assert counter.n_lost == 1


def test_rows_without_counter_are_the_next_packets():
    found, counter = numbers([np.nan, 3, np.nan, np.nan, 7, np.nan], Cycle(0, 15))
    assert found == [0, 1, 2, 3, 5, 6]
    assert counter.n_lost == 1


def test_unknown_cycle_wraps_at_a_power_of_two():
    found, counter = numbers([65534, 65535, 0, 2], None)
    assert found == [0, 1, 2, 4]
    assert (counter.n_lost, counter.n_restarts) == (1, 0)


def test_unknown_cycle_that_falls_elsewhere_starts_anew():
    found, counter = numbers([3000, 3001, 0, 1], None)
    assert found == [0, 1, 2, 3]
    assert counter.notes("nSeq", is_clock=True) == ["counter 'nSeq' starts anew 1 times"]


def test_notes_say_where_the_lost_time_went():
    _, counter = numbers([1, 4], Cycle(0, 15))
    (clock,), (given,) = counter.notes("c", is_clock=True), counter.notes("c", is_clock=False)
    assert clock == "counter 'c': at least 2 packets lost in 1 places; their time is left as gaps"
    assert given.endswith("the stamps are those of the file")


@given(
    st.sampled_from([16, 129, 256]),
    st.lists(st.integers(1, 14), min_size=1, max_size=200),
    st.integers(0, 300),
    st.lists(st.integers(0, 200), max_size=4),
)
def test_numbers_match_the_oracle_however_rows_are_cut(n_values, steps, start, cuts):
    kept = np.concatenate([[start], start + np.cumsum(steps)])
    cycle = Cycle(0, n_values - 1)
    found, counter = numbers(kept % n_values, cycle, cuts=sorted(min(c, kept.size) for c in cuts))
    assert found == oracle(kept.tolist(), n_values) == (kept - start).tolist()
    assert counter.n_lost == sum(steps) - len(steps)


@pytest.mark.parametrize(
    ("values", "cycle"),
    [
        ([*range(3, 16), *range(16), 0, 1], Cycle(0, 15)),
        ([*range(0, 129), *range(0, 129), 0], Cycle(0, 128)),
        ([*range(101, 201), *range(101, 201), 101], Cycle(101, 200)),
        ([*range(0, 256, 2), *range(0, 256, 2), 0], Cycle(0, 254, 2)),
        ([*range(100), *range(20)], None),
        ([5], None),
        ([], None),
    ],
)
def test_cycle_is_found_once_it_wrapped_twice(values, cycle):
    assert find_cycle(values) == cycle
