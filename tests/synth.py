"""Clocks, exchanges and stamps whose truth is known; everything follows from its seed.

A session lasts `duration_s` on the master clock and starts at `MASTER_NS`. A device clock differs
from it by an epoch, a rate, a wander and resets; all is computed as a difference in seconds and
added to integer nanoseconds, so no float ever holds a Unix time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mmprep.timebase import NS_PER_S, Exchanges, Fixes, IntArray

MASTER_NS = 1_700_000_000_123_456_789


@dataclass(frozen=True)
class Clock:
    """A device clock: device = master + epoch + gain(elapsed master seconds).

    Parameters
    ----------
    fast_ppm : float
        The device gains so much; a fitted model has skew_ppm close to -fast_ppm.
    wander_s, wander_period_s : float
        Amplitude and period of a sine in the offset.
    walk : float
        Random walk of the rate, standard deviation after one second (1 / sqrt(s)).
    warm_ppm, warm_at_s, warm_tau_s : float
        The rate changes by warm_ppm from warm_at_s on, with that time constant (0: at once).
    resets : tuple of (at_s, jump_s)
        At that master second the device clock jumps by jump_s.
    """

    fast_ppm: float = 0.0
    wander_s: float = 0.0
    wander_period_s: float = 600.0
    walk: float = 0.0
    warm_ppm: float = 0.0
    warm_at_s: float = 0.0
    warm_tau_s: float = 0.0
    resets: tuple[tuple[float, float], ...] = ()
    epoch_ns: int = 0
    seed: int = 0

    def gain_s(self, elapsed_s: np.ndarray) -> np.ndarray:
        """Seconds that the device has gained since the start."""
        gain = self.fast_ppm * 1e-6 * elapsed_s + self._warm_s(elapsed_s) + self._walk_s(elapsed_s)
        gain += self.wander_s * np.sin(2 * np.pi * elapsed_s / self.wander_period_s)
        for at_s, jump_s in self.resets:
            gain += jump_s * (elapsed_s >= at_s)
        return gain

    def _warm_s(self, elapsed_s: np.ndarray) -> np.ndarray:
        since = np.maximum(elapsed_s - self.warm_at_s, 0.0)
        if self.warm_tau_s == 0:
            return self.warm_ppm * 1e-6 * since
        return self.warm_ppm * 1e-6 * (since + self.warm_tau_s * np.expm1(-since / self.warm_tau_s))

    def _walk_s(self, elapsed_s: np.ndarray) -> np.ndarray:
        if self.walk == 0:
            return np.zeros_like(elapsed_s)
        seconds = np.arange(-60.0, 100_000.0)
        steps = self.walk * np.random.default_rng(self.seed).standard_normal(seconds.size)
        return np.interp(elapsed_s, seconds, np.cumsum(np.cumsum(steps)))

    def paced_s(self, counted_s: np.ndarray) -> np.ndarray:
        """Master seconds at which the device has counted these seconds, resets or not."""
        free = replace(self, resets=())
        first_s, elapsed_s = free.gain_s(np.zeros(1)), counted_s
        for _ in range(6):
            elapsed_s = counted_s - (free.gain_s(elapsed_s) - first_s)
        return elapsed_s

    def device_ns(self, master_ns: IntArray) -> IntArray:
        """Read the device clock at these master times."""
        gain_s = self.gain_s((master_ns - MASTER_NS) / NS_PER_S)
        return master_ns + self.epoch_ns + np.rint(gain_s * NS_PER_S).astype(np.int64)


def _ns(seconds: np.ndarray) -> IntArray:
    return np.rint(np.asarray(seconds) * NS_PER_S).astype(np.int64)


def instants(duration_s: float, interval_s: float) -> IntArray:
    """Master times from the start on, one every interval."""
    return MASTER_NS + _ns(np.arange(0.0, duration_s, interval_s))


def exchanges(
    clock: Clock,
    *,
    duration_s: float = 1200.0,
    interval_s: float = 1.0,
    delay_s: float = 120e-6,
    jitter_s: float = 40e-6,
    outliers: float = 0.03,
    outlier_s: tuple[float, float] = (2e-3, 20e-3),
    turn_s: float = 300e-6,
    resolution_ns: int = 1,
    holes_s: tuple[tuple[float, float], ...] = (),
    repeat_every: int = 0,
    seed: int = 0,
) -> Exchanges:
    """Exchange stamps over a path with exponential jitter each way and outliers one way.

    Parameters
    ----------
    holes_s : tuple of (begin, end), master seconds
        Stretches without an exchange; they may lie at the begin or the end.
    repeat_every : int
        Each so manieth exchange stands in the log twice; 0: none does.
    """
    rng = np.random.default_rng(seed)
    t1 = instants(duration_s, interval_s)
    there, back = (delay_s + rng.exponential(jitter_s, t1.size) for _ in range(2))
    late = rng.uniform(*outlier_s, t1.size) * (rng.random(t1.size) < outliers)
    forth = rng.random(t1.size) < 0.5
    arrival = t1 + _ns(there + late * forth)
    answer = arrival + _ns(np.full(t1.size, turn_s))
    t4 = answer + _ns(back + late * ~forth)
    stamps = (t1, clock.device_ns(arrival), clock.device_ns(answer), t4)
    elapsed_s = (t1 - MASTER_NS) / NS_PER_S
    kept = np.ones(t1.size, dtype=bool)
    for begin_s, end_s in holes_s:
        kept &= (elapsed_s < begin_s) | (elapsed_s >= end_s)
    rows = np.flatnonzero(kept)
    if repeat_every:
        rows = np.sort(np.append(rows, rows[::repeat_every]))
    return Exchanges(*(stamp[rows] // resolution_ns * resolution_ns for stamp in stamps))


def fixes(
    clock: Clock,
    *,
    duration_s: float = 1200.0,
    interval_s: float = 1.0,
    noise_s: float = 0.0,
    outliers: float = 0.0,
    outlier_s: tuple[float, float] = (2e-3, 20e-3),
    seed: int = 0,
) -> Fixes:
    """Instants on both clocks with normal noise and outliers of either sign."""
    rng = np.random.default_rng(seed)
    master = instants(duration_s, interval_s)
    noise = noise_s * rng.standard_normal(master.size)
    wrong = rng.uniform(*outlier_s, master.size) * rng.choice([-1, 1], master.size)
    noise += wrong * (rng.random(master.size) < outliers)
    return Fixes(clock.device_ns(master) + _ns(noise), master)


JITTER = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "uniform": lambda rng, n: np.sqrt(3) * rng.uniform(-1, 1, n),
    "delay": lambda rng, n: rng.exponential(1, n),
    "half-normal delay": lambda rng, n: np.abs(rng.standard_normal(n)),
}


def stamps(
    clock: Clock,
    rate_hz: float,
    *,
    duration_s: float = 1200.0,
    start_s: float = 0.0,
    jitter_s: float = 0.0,
    shape: str = "normal",
    by_device: bool = False,
    gaps_s: tuple[tuple[float, float], ...] = (),
    lost: float = 0.0,
    bursts: int = 0,
    resolution_ns: int = 1,
    seed: int = 0,
) -> tuple[IntArray, IntArray]:
    """Device stamps of regular samples in recording order, and their true master times.

    Parameters
    ----------
    shape : str
        Of the jitter: one of `JITTER`.
    by_device : bool
        The device counts the samples off its own clock, not off the master's.
    gaps_s : tuple of (begin, end), master seconds
        Stretches that were not recorded.
    lost : float
        Share of samples that are lost, each on its own.
    bursts : int
        So many times 2 to 40 samples in a row are lost.

    Returns
    -------
    device_ns, master_ns : [shape=(n,), int64, ns]
    """
    rng = np.random.default_rng(seed)
    at_s = start_s + np.arange(round(duration_s * rate_hz)) / rate_hz
    if by_device:
        at_s = clock.paced_s(at_s)
    master = MASTER_NS + _ns(at_s)
    device = clock.device_ns(master) + _ns(jitter_s * JITTER[shape](rng, at_s.size))
    device = (device + resolution_ns // 2) // resolution_ns * resolution_ns
    kept = rng.random(at_s.size) >= lost
    for begin_s, end_s in gaps_s:
        kept &= (at_s < begin_s) | (at_s >= end_s)
    for first in rng.integers(0, at_s.size, bursts):
        kept[first : first + rng.integers(2, 41)] = False
    return device[kept], master[kept]


def with_epoch(clock: Clock, epoch_ns: int) -> Clock:
    """Give the same clock another epoch."""
    return replace(clock, epoch_ns=epoch_ns)
