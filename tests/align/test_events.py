from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mmprep import align
from mmprep.signals import Stream

S = 10**9


def place(stamps_ns, values, **options):
    stamps = np.array(stamps_ns, dtype=np.int64)
    stream = Stream("e", stamps, np.array(values, dtype=object), kind="events")
    plan = align.plan_windows([(S, 11 * S)], {"x": Fraction(4)}, **options)
    return align.place_events(align.repair(stream, stamps), plan)


def test_events_begin_inclusive_and_end_exclusive():
    placed = place([S - 1, S, 5 * S, 11 * S - 1, 11 * S], list("abcde"))
    assert placed.values.tolist() == ["b", "c", "d"]
    assert placed.seconds[:2].tolist() == [0.0, 4.0]
    assert placed.accounting.n_out_of_range == 2


@given(st.lists(st.integers(0, 12 * S), max_size=30), st.fractions(Fraction(1, 4), 3))
def test_every_event_inside_the_span_is_present_once(stamps, hop):
    placed = place(stamps, list(range(len(stamps))), hop_s=hop)
    end_s = (int((10 - 1) / hop)) * hop + 1
    wanted = {i for i, t in enumerate(stamps) if S <= t < S + end_s * S}
    assert sorted(placed.values.tolist()) == sorted(wanted)
    assert placed.accounting.n_in == len(stamps)
