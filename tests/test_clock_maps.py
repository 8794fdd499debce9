"""Maps of clocks and their inverses, for clocks of any kind."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mmprep import clock
from tests import synth

CLOCKS = st.builds(
    synth.Clock,
    fast_ppm=st.floats(-150, 150),
    wander_s=st.sampled_from([0.0, 0.8e-3]),
    wander_period_s=st.floats(200, 2000),
    resets=st.sampled_from([(), ((300.0, 2.5),), ((200.0, -1.5), (420.0, 40.0))]),
    epoch_ns=st.sampled_from([0, -(10**18), 3_600 * 10**9]),
)


@settings(max_examples=40)
@given(CLOCKS, st.integers(0, 5), st.sampled_from([0.5, 2.0]))
def test_map_and_inverse_agree_to_a_nanosecond(device, seed, interval_s):
    log = synth.exchanges(device, duration_s=600.0, interval_s=interval_s, seed=seed)
    stamps, _ = synth.stamps(device, 32, duration_s=700.0, start_s=-50.0)
    model = clock.fit(log, stamps_ns=stamps)
    segment = model.locate_in_order(stamps)
    session = model.apply(stamps, segment=segment)
    assert np.abs(model.invert(session, segment=segment) - stamps).max() <= 1
    back = model.apply(model.invert(session, segment=segment), segment=segment)
    assert np.abs(back - session).max() <= 1
    for k in range(len(model.segments)):
        assert np.all(np.diff(session[segment == k]) > 0)
