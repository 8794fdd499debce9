"""Shared events: pairs and maps against made truths; what chance can do is refused."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmprep import clock
from mmprep.clock import chance
from mmprep.clock.candidates import Line
from mmprep.errors import ClockError
from mmprep.timebase import NS_PER_S, IntArray
from tests import synth

PAIR_ERRORS = 4.5  # standard deviations of the difference of two jitters


@dataclass(frozen=True)
class Seen:
    """What two clocks saw of happenings: stamps, and which happening each is (-1: none)."""

    own_ns: IntArray
    reference_ns: IntArray
    own_is: IntArray
    reference_is: IntArray

    def share_right(self, found: clock.Match) -> float:
        one, other = self.own_is[found.own], self.reference_is[found.reference]
        return float(np.mean((one == other) & (one >= 0)))


def happenings(kind: str, n: int, *, duration_s: float = 3600.0, seed: int = 0) -> np.ndarray:
    """Seconds at which something happens."""
    rng = np.random.default_rng([seed, n, len(kind)])
    if kind == "any":
        return np.sort(rng.uniform(0, duration_s, n))
    if kind == "trials":
        return np.cumsum(rng.uniform(0.8, 1.2, n)) * duration_s / n
    if kind == "beats":
        return np.cumsum(1 + 0.05 * rng.standard_normal(n))
    if kind == "bursts":
        starts = np.repeat(np.sort(rng.uniform(0, duration_s, 5)), -(-n // 5))
        return np.unique(starts + rng.uniform(0, 4, starts.size))
    return np.arange(n) * duration_s / n


def seen(
    at_s: np.ndarray,
    device: synth.Clock,
    *,
    missed: float = 0.0,
    extra: float = 0.0,
    jitter_s: float = 0.0,
    seed: int = 0,
) -> Seen:
    """Let two clocks see happenings, each with misses, extras and jitter of its own."""
    rng = np.random.default_rng([seed, at_s.size])
    sides = []
    for _ in range(2):
        kept = np.flatnonzero(rng.random(at_s.size) >= missed)
        n_extra = rng.binomial(at_s.size, extra)
        times = np.append(at_s[kept], rng.uniform(at_s[0], at_s[-1], n_extra))
        times += jitter_s * rng.standard_normal(times.size)
        order = np.argsort(times)
        stamps = synth.MASTER_NS + np.rint(times[order] * NS_PER_S).astype(np.int64)
        sides.append((stamps, np.append(kept, np.full(n_extra, -1))[order]))
    (own, own_is), (reference, reference_is) = sides
    return Seen(device.device_ns(own), reference, own_is, reference_is)


def error_s(model: clock.ClockModel, device: synth.Clock, at_s: np.ndarray) -> np.ndarray:
    """Say how wrong a map is at happenings."""
    master = synth.MASTER_NS + np.rint(at_s * NS_PER_S).astype(np.int64)
    return np.abs(model.apply_in_order(device.device_ns(master)) - master) / NS_PER_S


KINDS = {"any": 60, "trials": 60, "beats": 600, "bursts": 60}


@pytest.mark.parametrize("epoch_s", [0, -1_699_999_000, 5 * 3600])
@pytest.mark.parametrize("fast_ppm", [-1000, 0, 120, 1000])
@pytest.mark.parametrize("kind", KINDS)
def test_match_finds_the_happenings_that_both_clocks_saw(kind, fast_ppm, epoch_s):
    device = synth.Clock(fast_ppm=fast_ppm, epoch_ns=epoch_s * NS_PER_S)
    at_s = happenings(kind, KINDS[kind])
    both = seen(at_s, device, missed=0.1, extra=0.1, jitter_s=0.005)
    model, found = clock.fit_events(both.own_ns, both.reference_ns)
    assert both.share_right(found) > 0.95
    assert found.own.size > 0.6 * at_s.size
    assert np.median(error_s(model, device, at_s)) < 0.005


def test_match_counts_misses_extras_and_what_lies_outside():
    at_s = happenings("any", 40)
    both = seen(at_s, synth.Clock())
    own, reference = np.delete(both.own_ns, [5, 6, 7]), np.delete(both.reference_ns, [0, 20])
    found = clock.match(own, reference)
    assert (found.own.size, found.n_missed, found.n_extra) == (35, 3, 1)
    assert found.n_outside == (1, 0)


@pytest.mark.parametrize("n", [3, 4, 5])
def test_match_of_few_exact_events_is_whole(n):
    both = seen(happenings("any", n), synth.Clock(fast_ppm=80, epoch_ns=7 * NS_PER_S))
    assert both.share_right(clock.match(both.own_ns, both.reference_ns)) == 1.0


def test_one_event_gives_an_offset_and_no_bound():
    model, found = clock.fit_events(np.array([5_000_000_000]), np.array([synth.MASTER_NS]))
    assert found.own.size == model.n_fixes == 1
    assert model.apply(np.array([6_000_000_000])) == synth.MASTER_NS + NS_PER_S
    assert model.bound_s is None


def test_two_events_give_offset_and_drift_and_no_bound():
    own = np.array([0, 1000 * NS_PER_S])
    model, _ = clock.fit_events(own, own + np.array([0, 120_000_000]))
    assert model.skew_ppm == pytest.approx(120)
    assert model.bound_s is None


@pytest.mark.parametrize(
    ("own_s", "reference_s", "message"),
    [
        ([], [1, 2], "there are no events"),
        ([1], [1, 5], "2 ways to match 1 events with 2"),
        ([0, 100], [0, 100, 200], "2 ways to match 2 events with 3"),
        ([0, 100], [0, 102], "no ways to match 2 events with 2"),
        ([0, 100], [0, *np.cumsum(np.linspace(31, 59, 12)), 100], "may be chance"),
        (range(0, 600, 10), range(5, 655, 10), "in one rhythm"),
        (range(0, 600, 10), range(600), "no better than unrelated"),
    ],
)
def test_match_that_is_not_the_only_one_is_refused(own_s, reference_s, message):
    own, reference = (np.array(list(side), dtype=float) for side in (own_s, reference_s))
    with pytest.raises(ClockError, match=message):
        clock.match((own * 1e9).astype(np.int64), (reference * 1e9).astype(np.int64))


def test_blocks_of_the_same_trials_are_refused_where_one_is_missing():
    block = happenings("trials", 30, duration_s=90.0)
    reference = np.rint(np.concatenate([block, block + 300, block + 700]) * 1e9).astype(np.int64)
    with pytest.raises(ClockError, match=r"in two ways that are (3|4|7)00 s apart"):
        clock.match(reference[:30], reference)
    assert clock.match(reference, reference).own.size == 90


def test_known_offset_decides_between_shifts_of_a_rhythm():
    own = np.arange(3, dtype=np.int64) * 60 * NS_PER_S
    reference = np.arange(1, dtype=np.int64) * NS_PER_S + 61 * NS_PER_S
    with pytest.raises(ClockError, match="3 ways"):
        clock.match(own, reference)
    assert clock.match(own, reference, within_ns=10 * NS_PER_S).own.tolist() == [1]


@pytest.mark.parametrize("jump_s", [2.5, -2.5, 0.3, -50_000, 3600])
def test_restart_of_the_device_gives_two_segments(jump_s):
    device = synth.Clock(fast_ppm=150, epoch_ns=700_000 * NS_PER_S, resets=((1900.0, jump_s),))
    at_s = happenings("any", 120)
    both = seen(at_s, device, missed=0.1, jitter_s=0.003)
    model, found = clock.fit_events(both.own_ns, both.reference_ns)
    assert len(model.segments) == 2
    assert both.share_right(found) == 1.0
    assert np.quantile(error_s(model, device, at_s), 0.95) < 0.005


def test_events_that_part_company_are_refused():
    rng = np.random.default_rng(3)
    same, one, other = (np.sort(rng.uniform(0, 900, n)) for n in (80, 60, 60))
    own, reference = np.append(same, 900 + one), np.append(same, 900 + other)
    with pytest.raises(ClockError, match="match in a part of the recording only"):
        clock.match(np.rint(own * 1e9).astype(np.int64), np.rint(reference * 1e9).astype(np.int64))


def test_bound_holds_where_many_events_lie_close():
    n_held = n_all = 0
    for seed in range(12):
        device, at_s = synth.Clock(fast_ppm=300), happenings("any", 300, duration_s=1500, seed=seed)
        both = seen(at_s, device, missed=0.1, extra=0.3, jitter_s=0.1, seed=seed)
        model, _ = clock.fit_events(both.own_ns, both.reference_ns)
        stamps = device.device_ns(synth.MASTER_NS + np.rint(at_s * NS_PER_S).astype(np.int64))
        n_held += int(np.sum(error_s(model, device, at_s) <= model.bound_at_s(stamps)))
        n_all += at_s.size
    assert n_held >= 0.99 * n_all


def test_order_of_the_lists_does_not_matter():
    both = seen(happenings("any", 50), synth.Clock(fast_ppm=60), jitter_s=0.01)
    mixed = np.random.default_rng(1).permutation(both.own_ns.size)
    found = clock.match(both.own_ns, both.reference_ns)
    again = clock.match(both.own_ns[mixed], both.reference_ns[::-1])
    assert np.array_equal(mixed[again.own], found.own)


# Properties ---------------------------------------------------------------------------------------


@st.composite
def sights(draw):
    kind = draw(st.sampled_from([*KINDS, "clockwork"]))
    at_s = happenings(
        kind,
        draw(st.integers(3, 150)),
        duration_s=draw(st.floats(60, 7200)),
        seed=draw(st.integers(0, 10**6)),
    )
    device = synth.Clock(
        fast_ppm=draw(st.floats(-1000, 1000)),
        epoch_ns=draw(st.integers(-synth.MASTER_NS, 10**15)),
    )
    jitter_s = draw(st.sampled_from([0.0, 1e-4, 0.003, 0.03]))
    both = seen(
        at_s,
        device,
        missed=draw(st.floats(0, 0.4)),
        extra=draw(st.floats(0, 0.4)),
        jitter_s=jitter_s,
        seed=draw(st.integers(0, 10**6)),
    )
    return at_s, device, both, jitter_s


@settings(max_examples=60)
@given(sights())
def test_map_is_right_within_the_jitter_or_refused(sight):
    at_s, device, both, jitter_s = sight
    try:
        model, found = clock.fit_events(both.own_ns, both.reference_ns)
    except ClockError:
        return
    if found.own.size < 5:
        assert model.bound_s is None  # too few to check each other
        return
    stamps = device.device_ns(synth.MASTER_NS + np.rint(at_s * NS_PER_S).astype(np.int64))
    inside = ~model.is_extrapolated(stamps)
    error = error_s(model, device, at_s)[inside]
    assert error.max(initial=0) <= max(PAIR_ERRORS * np.sqrt(2) * jitter_s, found.tolerance_s)


@pytest.mark.parametrize("kind", [*KINDS, "clockwork"])
def test_unrelated_events_are_refused(kind):
    n_matched = 0
    for seed in range(40):
        n = 3 + seed * seed // 10
        own = happenings(kind, n, duration_s=1200, seed=2 * seed)
        reference = happenings(kind, 3 + n // 2, duration_s=1300, seed=2 * seed + 1)
        pair = ((side * 1e9).astype(np.int64) for side in (own, reference))
        try:
            clock.match(*pair)
        except ClockError:
            continue
        n_matched += 1
    assert n_matched == 0


# What chance can do -------------------------------------------------------------------------------


def test_evidence_is_that_of_the_best_run():
    is_matched = np.array([0, 0, 0, 1, 1, 1, 1, 0, 0, 0], dtype=bool)
    found = chance.evidence(is_matched, np.full(10, 0.01))
    assert (found.begin, found.end, found.share) == (3, 7, 1.0)
    assert found.log_ratio == pytest.approx(4 * np.log(0.98 / 0.01))


def test_fewer_matches_than_by_chance_are_no_evidence():
    assert chance.evidence(np.arange(10) == 3, np.full(10, 0.5)).log_ratio <= np.log(2)


def test_rhythm_makes_the_next_event_certain():
    beats = np.arange(20.0)
    share = chance.by_rhythm(beats, np.array([1.0, 0.5, np.inf]), np.full(3, 0.01))
    assert share.tolist() == [1.0, 0.0, 0.0]


def test_schedule_is_taken_as_far_as_events_fill_it():
    at_s = np.array([0.0, 2, 3, 5, 8, 9])
    assert chance.by_schedule(at_s, np.diff(at_s), 0.01) == pytest.approx(6 / 9)
    assert chance.by_schedule(at_s, np.array([1.0, 1.414, 2.236]), 0.01) == 0.0


def test_line_is_anchored_at_its_centre():
    assert Line(100.0, 5.0, 1e-3).apply(np.array([100.0, 1100.0])).tolist() == [105.0, 1106.0]
