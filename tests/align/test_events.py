from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mmprep import align
from mmprep.signals import Stream

S = 10**9


def place(stamps_ns, durations_ns=None, *, span=(S, 11 * S), values=None):
    stamps = np.array(stamps_ns, dtype=np.int64)
    values = np.arange(stamps.size) if values is None else np.array(values, dtype=object)
    events = align.repair(Stream("e", stamps, values, kind="events"), stamps)
    lasts = None if durations_ns is None else np.array(durations_ns, dtype=np.int64)
    return align.place_events(events, span, lasts)


def test_events_begin_inclusive_and_end_exclusive():
    placed = place([S - 1, S, 5 * S, 11 * S - 1, 11 * S])
    assert placed.rows.tolist() == [1, 2, 3]
    assert placed.stamps_ns.tolist() == [S, 5 * S, 11 * S - 1]
    assert placed.accounting.n_out_of_range == 2


def test_event_that_reaches_into_the_span_is_there():
    placed = place([0, 0, 3 * S], [S, S + 1, 0])
    assert placed.rows.tolist() == [1, 2]
    assert placed.stamps_ns[0] == 0


def test_repeat_is_the_same_stamp_with_the_same_value():
    placed = place([2 * S, 2 * S, 2 * S, 3 * S], values=["a", "b", "a", "a"])
    assert placed.rows.tolist() == [0, 1, 3]
    assert placed.accounting.n_duplicate == 1


def test_rows_out_of_order_come_in_order_of_time():
    assert place([5 * S, 2 * S, 9 * S]).rows.tolist() == [1, 0, 2]


@given(
    st.lists(st.tuples(st.integers(0, 120), st.integers(0, 30)), max_size=30, unique=True),
    st.fractions(Fraction(1, 4), 3),
)
def test_window_finds_each_event_that_touches_it(events, hop):
    stamps, durations = [t * S // 10 for t, _ in events], [d * S // 10 for _, d in events]
    plan = align.plan_windows([(S, 11 * S)], {"x": Fraction(4)}, hop_s=hop)
    placed = place(stamps, durations, span=plan.span_ns)
    edges = plan.edges_ns(np.arange(plan.n_windows))
    for (begin, end), (first, last) in zip(edges, placed.within(edges), strict=True):
        touching = [
            row
            for row, (t, d) in enumerate(zip(stamps, durations, strict=True))
            if t < end and (t >= begin or t + d > begin)
        ]
        assert set(touching) <= set(placed.rows[first:last].tolist())
        assert first == last or placed.rows[first] in touching


@given(st.lists(st.integers(0, 12 * S), max_size=30))
def test_every_event_inside_the_span_is_present_once(stamps):
    placed = place(stamps)
    wanted = {i for i, t in enumerate(stamps) if S <= t < 11 * S}
    assert sorted(placed.rows.tolist()) == sorted(wanted)
    assert placed.accounting.n_in == len(stamps)
