"""Whole sessions from raw files, aligned as users do, held against known truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mmprep import open_dataset
from mmprep.manifest.codec import read_manifest
from tests import truth
from tests.synth import Clock

STEADY = {"clock": Clock(fast_ppm=120)}
WANDERING = {
    "clock": Clock(fast_ppm=60, wander_s=0.8e-3, resets=((700.3, 2.5),)),
    "jitter_s": 1.5e-3,
}
BY_DEVICE = {"stamps": {"by_device": True}}
LIMITS = {"steady": ((3, 10), 0.0005), "wandering": ((12, 40), 0.001)}
CASES = {
    "steady": (STEADY, "steady"),
    "steady, paced by the device": (STEADY | BY_DEVICE, "steady"),
    "wandering, reset": (WANDERING, "wandering"),
    "wandering, reset, paced by the device": (WANDERING | BY_DEVICE, "wandering"),
}


def judged(tmp_path, made):
    truth.write(made, tmp_path / "raw")
    return truth.judge(made, truth.align(made, tmp_path / "raw"))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("case", "limits"), CASES.values(), ids=CASES)
def test_eeg_is_right_to_microseconds_and_its_bound_holds(tmp_path, case, limits, seed):
    found = judged(tmp_path, truth.session(seed=seed, **case))
    off_us, share = LIMITS[limits]
    assert np.all(found.p50_p99_us <= np.array(off_us))
    assert found.value_share <= share
    assert found.n_lost == 0
    assert found.held >= 0.99
    assert found.wrong_frames == 0.0


PATHS = {"jitter x 10": {"jitter_s": 400e-6}, "every 10 s": {"interval_s": 10.0}}


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
@pytest.mark.parametrize("case", [STEADY, WANDERING | BY_DEVICE], ids=["steady", "wandering"])
def test_bound_is_honest_and_close_where_the_log_is_poor(tmp_path, case, path):
    found = judged(tmp_path, truth.session(seed=3, path=path, **case))
    assert found.held >= 0.99
    assert np.median(found.bound_s) <= 5e-6 * found.p50_p99_us[1]
    assert found.n_lost == 0


def test_accuracy_survives_all_at_once(tmp_path):
    clock = replace(WANDERING["clock"], resets=((300.2, -2.5), (413.1, 2.5)), walk=1e-9)
    stamps = {"lost": 0.002, "bursts": 5, "resolution_ns": 1000}
    path = {
        "outliers": 0.1,
        "interval_s": 2.0,
        "holes_s": ((0.0, 20.0), (900.0, 1020.0), (1150.0, 1300.0)),
        "repeat_every": 7,
        "resolution_ns": 1000,
    }
    made = truth.session(clock, jitter_s=1.5e-3, stamps=stamps, path=path, seed=5)
    found = judged(tmp_path, made)
    assert found.p50_p99_us[0] <= 20
    assert found.held >= 0.99


SHIFT_NS = 86_400 * 365 * 10**9 + 123_456_789


def test_shifting_all_stamps_shifts_all_times_and_nothing_else(tmp_path):
    here = truth.session(WANDERING["clock"], duration_s=40.0, seed=1)
    there = replace(here, shift_ns=SHIFT_NS)
    found = {}
    for name, made in (("here", here), ("there", there)):
        truth.write(made, tmp_path / name)
        found[name] = truth.align(made, tmp_path / name)
    origins = {name: truth.origin_ns(out) for name, out in found.items()}
    assert origins["there"] - origins["here"] == SHIFT_NS
    here, there = (open_dataset(out, fill="nan") for out in found.values())
    for k in range(len(here)):
        for name in ("eeg", "gsr", "video"):
            np.testing.assert_array_equal(here[k][name], there[k][name])
    bounds = [[r.bound_s for r in read_manifest(out / "manifest.jsonl")] for out in found.values()]
    assert bounds[0] == bounds[1]


def test_what_lies_between_two_resets_without_an_exchange_is_masked(tmp_path):
    resets = ((141.4, -0.05), (145.1, 0.09))
    made = truth.session(Clock(resets=resets), path={"interval_s": 10.0}, duration_s=300)
    found = judged(tmp_path, made)
    assert np.all(found.worst_s <= found.bound_s)
    assert 3 <= found.n_lost <= 6
