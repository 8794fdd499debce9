"""Clock models: against known truth, against dense least squares, and where they must refuse."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmprep import clock
from mmprep.clock import smoother
from mmprep.errors import ClockError
from mmprep.timebase import Exchanges, Fixes, FrameLog
from tests import synth

RESET = synth.Clock(fast_ppm=30, resets=((600.3, -2.5),), epoch_ns=3_000_000_007)
WANDER = synth.Clock(fast_ppm=30, wander_s=0.8e-3)


def _errors_s(model, device, rate_hz=32, **stamps):
    """Errors and bounds of the samples of a recording."""
    stamps_ns, true_ns = synth.stamps(device, rate_hz, **stamps)
    segment = model.locate_in_order(stamps_ns)
    wrong_ns = model.apply(stamps_ns, segment=segment) - true_ns
    return np.abs(wrong_ns) / 1e9, model.bound_at_s(stamps_ns, segment=segment)


@cache
def _fitted(device, **exchanges):
    return clock.fit(synth.exchanges(device, **exchanges))


def _runs(device, seeds=2, **exchanges):
    runs = []
    for seed in range(seeds):
        model = _fitted(device, seed=seed, **exchanges)
        runs.append(_errors_s(model, device))
    return tuple(np.concatenate(part) for part in zip(*runs, strict=True))


# --- truth ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fast_ppm", [0, 50, 120, -120])
def test_fit_of_steady_clock_is_right_to_a_microsecond(fast_ppm):
    error_s, _ = _runs(synth.Clock(fast_ppm=fast_ppm))
    assert np.median(error_s) < 0.7e-6
    assert np.quantile(error_s, 0.99) < 2.5e-6


@pytest.mark.parametrize(
    "device",
    [
        WANDER,
        replace(WANDER, resets=((600.3, -2.5),)),
        replace(WANDER, resets=((300.3, 2.5), (900.4, -2.5))),
        synth.Clock(walk=1e-7),
        synth.Clock(fast_ppm=30, warm_ppm=8, warm_at_s=500, warm_tau_s=60),
        synth.Clock(fast_ppm=30, warm_ppm=8, warm_at_s=500),
    ],
    ids=["wander", "reset", "two resets", "walk", "warming", "sudden"],
)
def test_fit_of_moving_clock_is_right_to_microseconds(device):
    error_s, _ = _runs(device)
    assert np.median(error_s) < 3e-6
    assert np.quantile(error_s, 0.99) < 15e-6


def test_fit_with_every_fifth_exchange_an_outlier_stays_right():
    error_s, _ = _runs(WANDER, outliers=0.2)
    assert np.quantile(error_s, 0.99) < 20e-6


@pytest.mark.parametrize("device", [synth.Clock(fast_ppm=50), WANDER, RESET], ids=str)
@pytest.mark.parametrize("path", [{}, {"jitter_s": 400e-6}], ids=["", "jitter x10"])
@pytest.mark.parametrize("interval_s", [1.0, 10.0])
def test_bound_holds_and_is_no_more_than_five_times_the_error(device, path, interval_s):
    error_s, bound_s = _runs(device, seeds=3, interval_s=interval_s, **path)
    assert np.mean(error_s <= bound_s) >= 0.99
    assert np.median(bound_s) <= 5 * np.quantile(error_s, 0.99)


def test_doubt_of_a_long_mean_is_what_averaging_leaves():
    mean_s, expected_s = [], []
    for seed in range(12):
        model = _fitted(WANDER, seed=seed, jitter_s=400e-6)
        stamps_ns, true_ns = synth.stamps(WANDER, 4)
        _, density = model.doubt_at(stamps_ns)
        mean_s.append(np.mean(model.apply(stamps_ns) - true_ns) / 1e9)
        expected_s.append(np.sqrt(np.mean(density) / 1200))
    assert 0.5 < np.sqrt(np.mean(np.square(mean_s))) / np.mean(expected_s) < 2


def test_bound_holds_where_only_one_way_is_busy():
    truth = synth.exchanges(WANDER, jitter_s=0.0, outliers=0.0)
    late_ns = np.random.default_rng(0).exponential(40e3, truth.t1_ns.size).astype(np.int64)
    model = clock.fit(replace(truth, t4_ns=truth.t4_ns + late_ns))
    error_s, bound_s = _errors_s(model, WANDER)
    assert np.mean(error_s <= bound_s) >= 0.99


def test_bound_holds_under_normal_jitter():
    rng = np.random.default_rng(0)
    truth = synth.exchanges(WANDER, jitter_s=0.0, outliers=0.0)
    late_ns = rng.normal(0, 10e3, (2, truth.t1_ns.size)).astype(np.int64)
    late = replace(truth, t1_ns=truth.t1_ns - late_ns[0], t4_ns=truth.t4_ns + late_ns[1])
    error_s, bound_s = _errors_s(clock.fit(late), WANDER)
    assert np.mean(error_s <= bound_s) >= 0.99


@pytest.mark.parametrize("jitter_s", [1e-7, 40e-6, 400e-6])
@pytest.mark.parametrize("tick_ns", [1000, 100_000])
def test_bound_holds_where_stamps_are_cut_to_ticks(tick_ns, jitter_s):
    path = {"jitter_s": jitter_s, "outliers": 0.0, "resolution_ns": tick_ns}
    error_s, bound_s = _runs(WANDER, seeds=1, **path)
    assert np.mean(error_s <= bound_s) >= 0.99
    assert np.median(bound_s) < 4e-9 * tick_ns + 5 * np.quantile(error_s, 0.99)


def test_bound_holds_where_a_device_counts_slow_ticks():
    truth = synth.exchanges(WANDER)
    parts = (np.divmod(column, 10**9) for column in (truth.t2_ns, truth.t3_ns))
    t2_ns, t3_ns = (s * 10**9 + part * 32768 // 10**9 * 10**9 // 32768 for s, part in parts)
    error_s, bound_s = _errors_s(clock.fit(replace(truth, t2_ns=t2_ns, t3_ns=t3_ns)), WANDER)
    assert np.mean(error_s <= bound_s) >= 0.99


@pytest.mark.parametrize("tick_ns", [10**5, 10**6, 10**7])
@pytest.mark.parametrize("noise_s", [0.0, 2e-3])
def test_bound_holds_where_fixes_are_cut_to_ticks(tick_ns, noise_s):
    fixes = synth.fixes(WANDER, noise_s=noise_s, interval_s=5.0)
    device_ns = fixes.device_ns // tick_ns * tick_ns
    error_s, bound_s = _errors_s(clock.fit_fixes(device_ns, fixes.reference_ns), WANDER)
    assert np.mean(error_s <= bound_s) >= 0.99


@pytest.mark.parametrize("shift_ns", [1, 123_456_789, 10**15 + 7])
@pytest.mark.parametrize("tick_ns", [1, 1000, 10**6])
def test_shift_of_all_stamps_of_a_log_shifts_the_map_alone(tick_ns, shift_ns):
    log = synth.exchanges(RESET, resolution_ns=tick_ns, jitter_s=400e-6)
    moved = Exchanges(*(getattr(log, name) + shift_ns for name in log.__slots__))
    model, other = clock.fit(log), clock.fit(moved)
    stamps_ns, _ = synth.stamps(RESET, 8)
    there_ns = other.apply_in_order(stamps_ns + shift_ns)
    assert np.array_equal(there_ns - shift_ns, model.apply_in_order(stamps_ns))
    assert other.bound_s == model.bound_s


def test_asymmetry_bound_is_half_the_least_round_trip():
    model = _fitted(WANDER)
    assert model.asymmetry_bound_s == pytest.approx(120e-6, rel=0.05)


def test_constant_asymmetry_hides_within_the_asymmetry_bound():
    truth = synth.exchanges(WANDER, seed=1)
    model = clock.fit(replace(truth, t4_ns=truth.t4_ns + 200_000))
    error_s, _ = _errors_s(model, WANDER)
    assert np.median(error_s) == pytest.approx(100e-6, rel=0.05)
    assert np.max(error_s) <= model.asymmetry_bound_s


@pytest.mark.parametrize("device", [synth.Clock(fast_ppm=50), WANDER, RESET], ids=str)
def test_fit_of_noisy_fixes_holds_its_bound(device):
    model = clock.fit(synth.fixes(device, noise_s=1e-4, outliers=0.2, seed=1))
    error_s, bound_s = _errors_s(model, device)
    assert np.quantile(error_s, 0.99) < 100e-6
    assert np.mean(error_s <= bound_s) >= 0.99


def test_fit_of_exact_fixes_is_exact_to_rounding():
    model = clock.fit(synth.fixes(RESET))
    error_s, bound_s = _errors_s(model, RESET)
    assert np.max(error_s) <= 3e-9
    assert np.max(bound_s) < 1e-6


def test_fit_of_fixes_that_repeat_an_old_offset_keeps_its_bound():
    fixes = synth.fixes(synth.Clock(), interval_s=5, noise_s=50e-6)
    old = np.arange(fixes.device_ns.size) > 80
    stale = np.where(old, fixes.reference_ns + 20_000, fixes.device_ns)
    assert clock.fit_fixes(stale, fixes.reference_ns).bound_s > 5e-6


def test_skew_and_offset_are_recovered():
    device = np.arange(1000, dtype=np.int64) * 10**9
    reference = device + 350_000_000 + 20 * (device // 10**6)
    model = clock.fit_fixes(device, reference)
    assert model.skew_ppm == pytest.approx(20, abs=1e-3)
    assert model.apply(np.array([0]))[0] == pytest.approx(350_000_000, abs=1)


def test_a_real_reboot_splits_the_offsets(shared):
    pyxdf = pytest.importorskip("pyxdf")
    streams, _ = pyxdf.load_xdf(
        shared("xdf/clock_resets.xdf"), synchronize_clocks=False, dejitter_timestamps=False
    )
    eeg = next(stream for stream in streams if stream["info"]["name"] == ["BioSemi"])
    times = np.rint(np.array(eeg["clock_times"], dtype=float) * 1e9).astype(np.int64)
    values = np.rint(np.array(eeg["clock_values"], dtype=float) * 1e9).astype(np.int64)
    model = clock.fit_fixes(times, times + values)
    assert [segment.n_fixes for segment in model.segments] == [82, 33]
    stamps = np.rint(eeg["time_stamps"] * 1e9).astype(np.int64)
    assert np.all(np.diff(model.apply_in_order(stamps)) > 0)


# --- the smoother ---------------------------------------------------------------------------------


def _dense(series, weight, walk):
    """Solve the same problem by least squares over all states at once."""
    n = len(series.offset_s)
    rows, wanted = [], []

    def add(terms, value, variance):
        row = np.zeros(2 * n)
        for place, factor in terms:
            row[place] = factor
        rows.append(row / np.sqrt(variance))
        wanted.append(value / np.sqrt(variance))

    add([(0, 1)], 0, smoother.OFFSET_PRIOR_S2)
    add([(1, 1)], 0, smoother.DRIFT_PRIOR**2)
    for k in range(n):
        if weight[k] > 0:
            add([(2 * k, 1)], series.offset_s[k], 1 / weight[k])
        if k == 0:
            continue
        dt, q = series.step_s[k], walk * series.loose[k]
        if series.keep[k] == 0:
            add([(2 * k, 1)], 0, smoother.OFFSET_PRIOR_S2)
            add([(2 * k + 1, 1), (2 * k - 1, -1)], 0, smoother.DRIFT_RESET**2 + q * dt)
            continue
        # Q = L L', whitened by its Cholesky factor.
        factor = np.linalg.inv(
            np.linalg.cholesky(q * np.array([[dt**3 / 3, dt**2 / 2], [dt**2 / 2, dt]]))
        )
        step = np.zeros((2, 2 * n))
        step[0, [2 * k, 2 * k - 2, 2 * k - 1]] = 1, -1, -dt
        step[1, [2 * k + 1, 2 * k - 1]] = 1, -1
        rows.extend(factor @ step)
        wanted.extend([0.0, 0.0])
    normal = np.array(rows).T @ np.array(rows)
    scale = 1 / np.sqrt(np.diag(normal))
    covariance = np.linalg.inv(normal * np.outer(scale, scale)) * np.outer(scale, scale)
    return covariance @ (np.array(rows).T @ np.array(wanted)), covariance


def test_smoother_agrees_with_dense_least_squares():
    rng = np.random.default_rng(3)
    step_s, keep, loose = rng.uniform(0.5, 2.0, 40), np.ones(40), np.ones(40)
    step_s[0], keep[20], loose[10:14] = 0, 0, 10
    offset_s = np.cumsum(rng.normal(0, 1e-5, 40))
    weight = 1 / rng.uniform(5e-6, 5e-5, 40) ** 2
    weight[5] = 0
    series = smoother.Series(*(a.tolist() for a in (step_s, keep, loose, offset_s)))
    smooth = smoother.smoothed(series, weight.tolist(), 1e-12)
    state, covariance = _dense(series, weight, 1e-12)
    assert smooth.offset_s == pytest.approx(state[::2], rel=1e-4, abs=1e-9)
    assert smooth.drift == pytest.approx(state[1::2], rel=1e-4, abs=1e-9)
    assert smooth.offset_var == pytest.approx(np.diag(covariance)[::2], rel=1e-4)
    assert smooth.drift_var == pytest.approx(np.diag(covariance)[1::2], rel=1e-4)


# --- map and inverse ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wandering():
    return _fitted(WANDER, duration_s=300, seed=2)


@given(since_ns=st.integers(-(10**12), 10**12))
def test_invert_undoes_apply_to_a_nanosecond(wandering, since_ns):
    stamps_ns = np.array([synth.MASTER_NS + since_ns])
    assert abs(int(wandering.invert(wandering.apply(stamps_ns))[0] - stamps_ns[0])) <= 1


def test_invert_after_a_reset_undoes_apply_in_order():
    model = _fitted(RESET)
    stamps_ns, _ = synth.stamps(RESET, 8)
    segment = model.locate_in_order(stamps_ns)
    times_ns = model.apply(stamps_ns, segment=segment)
    assert np.max(np.abs(model.invert(times_ns, segment=segment) - stamps_ns)) <= 1


def test_apply_is_strictly_increasing_inside_a_segment(wandering):
    stamps_ns = synth.MASTER_NS + np.arange(0, 300 * 10**9, 10**5 * 7)
    assert np.all(np.diff(wandering.apply(stamps_ns)) > 0)


def test_apply_outside_the_evidence_goes_on_with_the_last_drift(wandering):
    last = wandering.segments[-1]
    stamps_ns = last.source_ns[-1] + np.array([0, 10, 20]) * 10**9
    step_ns = np.diff(wandering.apply(stamps_ns) - stamps_ns)
    assert step_ns == pytest.approx([last.drift[-1] * 1e10] * 2, abs=1)


def test_bound_grows_with_the_distance_from_the_evidence(wandering):
    ends = np.array([wandering.segments[0].begin_ns, wandering.segments[0].end_ns])
    near = wandering.bound_at_s(ends)
    far = wandering.bound_at_s(ends + np.array([-60, 60]) * 10**9)
    assert np.all(far > 2 * near)
    assert wandering.is_extrapolated(ends + np.array([-1, 0])).tolist() == [True, False]


def test_bound_grows_in_a_hole_of_the_evidence():
    truth = synth.exchanges(WANDER, seed=1)
    kept = np.abs((truth.t1_ns - synth.MASTER_NS) / 1e9 - 600) > 60
    model = clock.fit(Exchanges(*(getattr(truth, name)[kept] for name in truth.__slots__)))
    error_s, bound_s = _errors_s(model, WANDER)
    assert bound_s[600 * 32] > 10 * bound_s[300 * 32]
    assert np.all(error_s[540 * 32 : 660 * 32] <= bound_s[540 * 32 : 660 * 32])


@pytest.mark.parametrize("device", [WANDER, RESET], ids=["wander", "reset"])
def test_from_json_gives_the_same_map(device):
    model = _fitted(device, seed=4)
    again = clock.from_json(json.loads(json.dumps(model.to_json(), allow_nan=False)))
    stamps_ns, _ = synth.stamps(device, 16)
    assert np.array_equal(again.apply_in_order(stamps_ns), model.apply_in_order(stamps_ns))
    assert np.array_equal(again.bound_at_s(stamps_ns), model.bound_at_s(stamps_ns))
    assert again.to_json() == model.to_json()


def test_model_of_half_a_day_keeps_few_knots():
    model = _fitted(WANDER, duration_s=43200, interval_s=3.0)
    assert sum(segment.source_ns.size for segment in model.segments) <= 1000
    error_s, bound_s = _errors_s(model, WANDER, rate_hz=1, duration_s=43200)
    assert np.mean(error_s <= bound_s) >= 0.99


def test_identity_changes_nothing_and_states_no_bound():
    model = clock.identity()
    stamps_ns = np.array([-5, 0, synth.MASTER_NS])
    assert model.apply(stamps_ns).tolist() == stamps_ns.tolist()
    assert model.invert(stamps_ns).tolist() == stamps_ns.tolist()
    assert (model.bound_s, model.method) == (None, "none")
    assert np.all(np.isnan(model.bound_at_s(stamps_ns)))
    assert clock.from_json(json.loads(json.dumps(model.to_json(), allow_nan=False))).skew_ppm == 0


def test_shifted_moves_the_session_side_exactly():
    model = clock.shifted(clock.identity(), synth.MASTER_NS)
    assert model.apply(np.array([7])).tolist() == [synth.MASTER_NS + 7]
    assert model.invert(np.array([synth.MASTER_NS])).tolist() == [0]


# --- resets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate_hz", [128, 4])
@pytest.mark.parametrize("jump_s", [-2.5, 2.5, -0.01, 0.02, -500.0, -1.7e9])
def test_apply_in_order_changes_segments_where_the_stamps_jump(rate_hz, jump_s):
    device = synth.Clock(fast_ppm=30, resets=((200.3, jump_s),))
    model = _fitted(device, duration_s=400, seed=1)
    error_s, _ = _errors_s(model, device, rate_hz, duration_s=400, jitter_s=1e-5, seed=2)
    assert np.max(error_s) < 1e-3


@pytest.mark.parametrize(
    ("resets", "part"),
    [
        (((300.3, -2.5), (306.2, -2.5)), (0, 600)),
        (((300.3, -2.5), (340.2, 2.5)), (0, 600)),
        (((200.3, -200.3), (450.2, -249.9)), (0, 600)),
        (((300.3, -2.5),), (301, 600)),
        (((300.3, -2.5),), (0, 300)),
        (((300.3, 2.5),), (310, 400)),
    ],
    ids=["two near", "there and back", "to zero", "begins after", "ends before", "begins later"],
)
def test_apply_in_order_finds_the_segments_of_any_part(resets, part):
    device = synth.Clock(resets=resets, epoch_ns=-synth.MASTER_NS)
    model = _fitted(device, duration_s=600, seed=1)
    begin, end = part
    error_s, _ = _errors_s(model, device, duration_s=end - begin, start_s=begin)
    assert np.max(error_s) < 1e-3


@pytest.mark.parametrize("jump_s", [-2.5, 2.5])
def test_apply_in_order_with_samples_lost_over_the_reset(jump_s):
    device = synth.Clock(resets=((300.3, jump_s),))
    model = _fitted(device, duration_s=600, seed=1)
    stamps_ns, true_ns = synth.stamps(device, 128, duration_s=600)
    kept = np.abs((true_ns - synth.MASTER_NS) / 1e9 - 304) > 5
    assert np.max(np.abs(model.apply_in_order(stamps_ns[kept]) - true_ns[kept])) < 10**6


@pytest.mark.parametrize("resets", [(), ((300.3, 2.5), (800.2, -0.05))], ids=["none", "two"])
def test_stamps_without_jumps_are_those_of_a_device_that_was_never_reset(resets):
    device = replace(WANDER, resets=resets)
    model = _fitted(device, seed=1)
    stamps_ns, true_ns = synth.stamps(device, 32)
    plain_ns = model.without_jumps(stamps_ns, segment=model.locate_in_order(stamps_ns))
    assert np.max(np.abs(plain_ns - WANDER.device_ns(true_ns))) < 30_000


def test_apply_in_order_is_not_misled_by_glitches():
    model = _fitted(RESET, seed=1)
    stamps_ns, true_ns = synth.stamps(RESET, 128)
    glitch = np.zeros(stamps_ns.size, dtype=bool)
    glitch[76000:76064] = True
    mapped = model.apply_in_order(stamps_ns + glitch * (200_000 * 10**9))
    assert np.max(np.abs(mapped - true_ns)[~glitch]) < 10**6


def test_apply_in_order_of_no_stamps():
    assert _fitted(RESET).apply_in_order(np.zeros(0, dtype=np.int64)).size == 0


def test_one_wrong_exchange_makes_no_segment():
    truth = synth.exchanges(WANDER, seed=1)
    wrong = np.where(np.arange(truth.t1_ns.size) == 500, 5 * 10**9, 0)
    model = clock.fit(replace(truth, t2_ns=truth.t2_ns + wrong, t3_ns=truth.t3_ns + wrong))
    assert len(model.segments) == 1
    assert np.max(_errors_s(model, WANDER)[0]) < 50e-6


def test_outliers_are_counted():
    model = _fitted(WANDER, outliers=0.1, seed=1)
    assert model.n_fixes + model.n_rejected == 1200
    assert 60 < model.n_rejected < 180


def test_exchanges_in_another_order_give_the_same_model():
    truth = synth.exchanges(WANDER, seed=1)
    order = np.random.default_rng(0).permutation(truth.t1_ns.size)
    shuffled = Exchanges(*(getattr(truth, name)[order] for name in truth.__slots__))
    assert clock.fit(shuffled).to_json() == clock.fit(truth).to_json()


# --- frames ---------------------------------------------------------------------------------------


def test_fit_of_frame_log_pairs_frames_with_the_stream_stamps():
    stamps_ns = np.arange(300, dtype=np.int64) * 33_333_333
    log = FrameLog(np.arange(0, 300, 10), synth.MASTER_NS + stamps_ns[::10])
    model = clock.fit(log, stamps_ns=stamps_ns)
    assert model.method == "frames"
    assert np.max(np.abs(model.apply(stamps_ns) - synth.MASTER_NS - stamps_ns)) <= 1


def test_frame_log_of_more_frames_than_the_stream_is_refused():
    with pytest.raises(ClockError, match="names frames 0 to 9, the stream has 5"):
        clock.frame_fixes(FrameLog(np.arange(10), np.arange(10)), np.arange(5))


def test_frame_log_without_stamps_is_refused():
    with pytest.raises(ClockError, match="needs the stamps of the frames"):
        clock.fit(FrameLog(np.arange(10), np.arange(10)))


# --- refusals -------------------------------------------------------------------------------------


def _fixes(device_s, reference_s):
    return Fixes(*(np.rint(np.array(s) * 1e9).astype(np.int64) for s in (device_s, reference_s)))


@pytest.mark.parametrize(
    ("evidence", "what"),
    [
        (_fixes([], []), "0 usable fixes, at least 2"),
        (_fixes([1.0], [2.0]), "1 usable fixes, at least 2"),
        (_fixes([1.0, 1.0, 1.0], [2.0, 2.0, 2.0]), "at one instant"),
        (_fixes(np.arange(50.0), 3 * np.arange(50.0)), "changes by .* s a second"),
        (_fixes(np.arange(50.0), 1e6 * np.arange(50.0)), "changes by .* s a second"),
    ],
    ids=["none", "one", "one instant", "three times as fast", "other unit"],
)
def test_fit_of_useless_fixes_is_refused(evidence, what):
    with pytest.raises(ClockError, match=f"eeg.tsv: .*{what}"):
        clock.fit(evidence, where="eeg.tsv")


def test_fit_of_unrelated_clocks_is_refused():
    device_s = np.random.default_rng(0).uniform(0, 1000, 200)
    with pytest.raises(ClockError, match=r"no relation|s a second"):
        clock.fit(_fixes(device_s, np.arange(200.0)))


def test_fit_of_exchanges_without_positive_round_trip_is_refused():
    truth = synth.exchanges(WANDER, duration_s=20)
    with pytest.raises(ClockError, match="no exchange has a positive round trip"):
        clock.fit_exchanges(truth.t4_ns, truth.t2_ns, truth.t3_ns, truth.t1_ns)


def test_fit_leaves_out_single_negative_round_trips():
    truth = synth.exchanges(WANDER, seed=1)
    early = np.where(np.arange(truth.t1_ns.size) % 100 == 7, 10**6, 0)
    model = clock.fit(replace(truth, t4_ns=truth.t4_ns - early))
    assert np.quantile(_errors_s(model, WANDER)[0], 0.99) < 15e-6


def test_fit_of_two_fixes_is_a_line_without_bound():
    model = clock.fit(_fixes([0.0, 10.0], [5.0, 15.001]))
    assert model.bound_s is None
    assert model.apply(np.array([5 * 10**9]))[0] == pytest.approx(10_000_500_000, abs=1000)


def test_fit_of_few_exchanges_claims_little():
    model = _fitted(WANDER, duration_s=3)
    assert model.bound_s > 30e-6


def test_check_covers_passes_a_stream_that_overlaps(wandering):
    clock.check_covers(wandering, np.array([synth.MASTER_NS + 299 * 10**9]), "eeg")


def test_check_covers_refuses_a_log_of_another_clock(wandering):
    with pytest.raises(ClockError, match=r"video: .*a clock log of another clock"):
        clock.check_covers(wandering, np.arange(10) * 10**9, "video")


def test_check_covers_without_evidence_passes():
    clock.check_covers(clock.identity(), np.arange(10), "video")
