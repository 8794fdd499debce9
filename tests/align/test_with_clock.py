"""Stamps, clock and jitter together: where a sample lies on the session clock in the end."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from mmprep import align, clock
from mmprep.signals import Stream
from tests import synth

STEADY = synth.Clock(fast_ppm=20)
WANDERING = synth.Clock(fast_ppm=-35, wander_s=0.8e-3)
RESET = synth.Clock(fast_ppm=20, resets=((600.0, 2.5),))
RESET_WANDERING = replace(WANDERING, resets=((600.3, -2.5), (900.4, 2.5)))
DURATION_S = 1800.0


def repaired(device, device_ns, rate, **path):
    model = clock.fit(synth.exchanges(device, duration_s=DURATION_S, seed=3, **path))
    stream = Stream("s", device_ns, np.zeros(device_ns.size), nominal_rate_hz=Fraction(rate))
    segment = model.locate_in_order(device_ns)
    session_ns = model.apply(device_ns, segment=segment)
    seconds = np.linspace(0.0, DURATION_S, 1000)
    knots_ns = synth.MASTER_NS + np.rint(seconds * 1e9).astype(np.int64)
    doubt = align.Doubt(synth.MASTER_NS, seconds, *model.doubt_at(model.invert(knots_ns)))
    own_ns = model.without_jumps(device_ns, segment=segment)
    return align.repair(stream, session_ns, own_ns=own_ns, doubt=doubt)


def errors_us(fixed, master_ns):
    assert fixed.n_samples == master_ns.size
    assert fixed.n_gaps == 0
    return np.percentile(np.abs(fixed.stamps_ns() - master_ns), [50, 99]) / 1e3


PACES = {"by the master": False, "by the device": True}


@pytest.mark.parametrize("by_device", PACES.values(), ids=PACES)
@pytest.mark.parametrize(
    ("device", "rate", "jitter_s", "wanted_us"),
    [
        (STEADY, 128, 0.3e-3, (3, 10)),
        (STEADY, 30, 0.3e-3, (3, 10)),
        (RESET, 128, 0.3e-3, (3, 10)),
        (WANDERING, 128, 1.5e-3, (12, 40)),
        (RESET_WANDERING, 128, 1.5e-3, (12, 40)),
    ],
    ids=["steady", "video", "reset", "wandering", "wandering and reset"],
)
def test_samples_lie_within_microseconds(device, rate, jitter_s, wanted_us, by_device):
    how = {"duration_s": DURATION_S, "jitter_s": jitter_s, "seed": 1, "by_device": by_device}
    device_ns, master_ns = synth.stamps(device, rate, **how)
    got_us = errors_us(repaired(device, device_ns, rate), master_ns)
    assert np.all(got_us <= wanted_us)


@pytest.mark.parametrize("by_device", PACES.values(), ids=PACES)
@pytest.mark.parametrize("path", [{}, {"jitter_s": 400e-6}, {"interval_s": 10.0}], ids=str)
@pytest.mark.parametrize("device", [STEADY, RESET_WANDERING], ids=["steady", "wandering"])
def test_stated_error_covers_what_samples_are_off(device, path, by_device):
    how = {"duration_s": DURATION_S, "jitter_s": 1e-3, "by_device": by_device}
    off, bound = [], []
    for seed in range(3):
        device_ns, master_ns = synth.stamps(device, 64, seed=seed, **how)
        fixed = repaired(device, device_ns, 64, **path)
        off.append(np.abs(fixed.stamps_ns() - master_ns) / 1e9)
        bound.append(clock.BOUND_SIGMAS * fixed.sigma_at_s(master_ns))
    assert np.mean(np.concatenate(off) <= np.concatenate(bound)) >= 0.99
    assert np.median(bound) <= 5 * np.quantile(off, 0.99)


def test_even_stream_bridges_a_hole_in_the_log_of_a_wandering_clock():
    hole_s = (750.0, 1050.0)
    device_ns, master_ns = synth.stamps(WANDERING, 128, duration_s=DURATION_S, jitter_s=1e-3)
    fixed = repaired(WANDERING, device_ns, 128, holes_s=(hole_s,))
    off_s = np.abs(fixed.stamps_ns() - master_ns) / 1e9
    assert np.max(off_s) < 40e-6
    assert np.all(off_s <= clock.BOUND_SIGMAS * fixed.sigma_at_s(master_ns))
