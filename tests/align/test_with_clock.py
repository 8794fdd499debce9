"""Stamps, clock and jitter together: where a sample lies on the session clock in the end."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from mmprep import align, clock
from mmprep.signals import Stream
from tests import synth

STEADY = synth.Clock(fast_ppm=20)
WANDERING = synth.Clock(fast_ppm=-35, wander_s=0.8e-3)
RESET = synth.Clock(fast_ppm=20, resets=((600.0, 2.5),))


def errors_us(device, device_ns, master_ns, rate):
    model = clock.fit(synth.exchanges(device, duration_s=1800.0, seed=3))
    stream = Stream("s", device_ns, np.zeros(device_ns.size), nominal_rate_hz=Fraction(rate))
    fixed = align.repair(stream, model.apply_in_order(device_ns))
    assert fixed.n_samples == device_ns.size
    assert fixed.n_gaps == 0
    return np.percentile(np.abs(fixed.stamps_ns() - master_ns), [50, 99]) / 1e3


@pytest.mark.parametrize(
    ("device", "rate", "jitter_s", "middle", "worst"),
    [
        (STEADY, 128, 0.3e-3, 3, 10),
        (STEADY, 30, 0.3e-3, 3, 10),
        (RESET, 128, 0.3e-3, 3, 10),
        (WANDERING, 128, 1.5e-3, 12, 40),
    ],
)
def test_samples_lie_within_microseconds(device, rate, jitter_s, middle, worst):
    stamps = synth.stamps(device, rate, duration_s=1800.0, jitter_s=jitter_s, seed=1)
    got = errors_us(device, *stamps, rate)
    assert got[0] <= middle
    assert got[1] <= worst


def test_samples_counted_off_a_wandering_clock_lie_within_microseconds():
    device_s = 0.1 + np.arange(128 * 1800) / 128
    master_s = device_s
    for _ in range(6):
        master_s = device_s - WANDERING.gain_s(master_s)
    master_ns = synth.MASTER_NS + np.rint(master_s * 1e9).astype(np.int64)
    jitter_ns = np.random.default_rng(2).normal(0, 1.5e6, master_ns.size).astype(np.int64)
    got = errors_us(WANDERING, WANDERING.device_ns(master_ns) + jitter_ns, master_ns, 128)
    assert got[0] <= 12
    assert got[1] <= 40
