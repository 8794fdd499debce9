"""Real recordings whose stamps others have fitted, too: XDF by pyxdf, Pupil Labs' LSL relay."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import pyxdf

from mmprep import clock, open_dataset, run_align, run_convert
from mmprep.rows import IN_MEMORY
from mmprep.steps.sessions import streams
from mmprep.steps.sessions.streamspec import StreamSpec
from mmprep.timebase import Fixes

SERIAL = {"engine": "serial"}


def on_session(folder: Path, stream: str) -> streams.Clocked:
    """Open a stream of a converted file with its clock."""
    (table,) = (folder / "tables" / stream).glob("*.parquet")
    found = list((folder / f"tables/{stream}.clock").glob("*.parquet"))
    evidence = str(found[0]) if found else None
    spec = StreamSpec(stream, "table", "signal", str(table), clock=evidence, clock_form="table")
    return streams.clocked(streams.open_stream(spec, IN_MEMORY))


def by_pyxdf(path: Path, name: str, *, is_smooth: bool) -> np.ndarray:
    """Give the stamps of a stream as pyxdf has them on the recorder's clock."""
    found, _ = pyxdf.load_xdf(
        path, synchronize_clocks=True, dejitter_timestamps=is_smooth, verbose=False
    )
    (chosen,) = (one for one in found if name in _names(one["info"]))
    return np.asarray(chosen["time_stamps"])


def _names(info: dict) -> set[str]:
    return {info["name"][0], f"{info['name'][0]}-{info['type'][0]}"}


REGULAR = [
    ("xdf/muse_sub-P001.xdf", "Muse-EEG"),
    ("xdf/muse_sub-P001.xdf", "Muse-ACC"),
    ("xdf/muse_sub-P001.xdf", "Muse-GYRO"),
    ("xdf/muse_sub-P031.xdf", "Muse-EEG"),
    ("xdf/muse_sub-P031.xdf", "Muse-ACC"),
    ("xdf/muse_sub-P050.xdf", "Muse-EEG"),
    ("xdf/muse_sub-P050.xdf", "Muse-GYRO"),
    ("xdf/muse_sub-P050.xdf", "Muse-PPG"),
    ("xdf/three_motion_seven.xdf", "obci_eeg1"),
    ("xdf/markersPlusEKG.xdf", "obci_eeg1"),
    ("made/B01/clock_reset.xdf", "EEG"),
    ("made/B02/nominal_vs_effective.xdf", "EEG"),
]


@pytest.mark.parametrize(("path", "name"), REGULAR, ids=["#".join(case) for case in REGULAR])
def test_regular_stamps_are_those_of_pyxdf_within_its_residual(shared, tmp_path, path, name):
    run_convert(shared(path), output=tmp_path / "c", **SERIAL)
    ours = on_session(tmp_path / "c", name).repaired()
    line = by_pyxdf(shared(path), name, is_smooth=True)
    residual_s = np.std(line - by_pyxdf(shared(path), name, is_smooth=False))
    assert ours.repairs.is_dejittered
    assert ours.n_samples == line.size
    assert np.abs(ours.stamps_ns() / 1e9 - line).max() <= residual_s + 1e-8


MARKERS = [
    ("xdf/clock_resets.xdf", "MyMarkerStream"),
    ("xdf/three_motion_seven.xdf", "MyMarkerStream"),
    ("xdf/handFour.xdf", "MyMarkerStream"),
    ("xdf/justMarkers.xdf", "Blinky"),
    ("xdf/markersPlusEKG.xdf", "Blinky"),
]


@pytest.mark.parametrize(("path", "name"), MARKERS, ids=[path for path, _ in MARKERS])
def test_markers_are_those_of_pyxdf_within_half_a_millisecond(shared, tmp_path, path, name):
    run_convert(shared(path), output=tmp_path / "c", **SERIAL)
    one = on_session(tmp_path / "c", name)
    ours = one.on_session(one.opened.stream.stamps_ns) / 1e9
    assert np.abs(ours - by_pyxdf(shared(path), name, is_smooth=True)).max() < 0.5e-3


def test_stream_whose_rate_wanders_is_not_laid_on_a_line(shared, tmp_path):
    # 92.8 Hz where 100 are named, and not evenly: pyxdf's line moves samples by up to 0.27 s,
    # though no stamp lies more than 26 ms from where the one before puts it.
    path = shared("xdf/clock_resets.xdf")
    run_convert(path, output=tmp_path / "c", **SERIAL)
    ours = on_session(tmp_path / "c", "BioSemi").repaired()
    synced = by_pyxdf(path, "BioSemi", is_smooth=False)
    line = by_pyxdf(path, "BioSemi", is_smooth=True)
    assert not ours.repairs.is_dejittered
    assert np.abs(ours.stamps_ns() / 1e9 - synced).max() < 0.5e-3
    assert np.abs(line - synced).max() > 0.2


def test_last_clock_offset_costs_no_sample(shared, tmp_path):
    # Offsets of 23, 24 and 1 us: pyxdf takes the last for a reset and drops the sample behind it.
    path = shared("xdf/muse_sub-P003.xdf")
    run_convert(path, output=tmp_path / "c", **SERIAL)
    ours = on_session(tmp_path / "c", "Muse-EEG").repaired()
    assert ours.n_samples == ours.n_in == 2688
    assert by_pyxdf(path, "Muse-EEG", is_smooth=True).size == 2687


# Pupil Labs


def _their_map(shared) -> dict:
    path = shared("pupil_lsl/subject_1/time_alignment_parameters.json")
    return json.loads(path.read_text())["cloud_to_lsl"]


def test_fitted_map_of_the_lsl_relay_is_found_from_fixes_on_it(shared):
    theirs = _their_map(shared)
    left = shared("pupil_lsl/subject_1/PI_left_illuminance.csv")
    device_ns = np.loadtxt(left, delimiter=",", skiprows=1, usecols=1, dtype=np.int64)
    lsl_s = theirs["intercept"] + theirs["slope"] * (device_ns / 1e9)  # exact to 0.24 us
    model = clock.fit(Fixes(device_ns[::100], np.rint(lsl_s[::100] * 1e9).astype(np.int64)))
    assert np.abs(model.apply(device_ns) / 1e9 - lsl_s).max() < 1e-6
    assert model.skew_ppm == pytest.approx((theirs["slope"] - 1) * 1e6, abs=0.05)
    assert np.abs(model.invert(model.apply(device_ns)) - device_ns).max() <= 1


def test_two_eye_cameras_see_the_same_flashes_on_the_lsl_clock(shared, tmp_path):
    theirs = _their_map(shared)
    folder = shared("pupil_lsl/subject_1")
    fixes = [
        f"{t}\t{round((theirs['intercept'] + theirs['slope'] * t) * 1e6)}\n"
        for t in range(1_666_344_680, 1_666_344_720)
    ]
    log = tmp_path / "map.tsv"
    log.write_text("device_s\treference_us\n" + "".join(fixes))
    run_align(
        output=tmp_path / "out",
        stream=tuple(f"{s}={folder}/PI_{s}_illuminance.csv" for s in ("left", "right")),
        clock=(f"left={log}", f"right={log}"),
        rates="left=200,right=200",
        method=("left=nearest", "right=nearest"),  # every fifth frame of 250 Hz is missing
        tolerance=5,
        **SERIAL,
    )
    sync = json.loads((tmp_path / "out/sync/session.json").read_text())
    assert sync["origin_on_clock_ns"] / 1e9 == pytest.approx(95_421.087, abs=2e-3)
    data = open_dataset(tmp_path / "out")
    left, right = (np.concatenate([row[s][:, 0] for row in data]) for s in ("left", "right"))
    assert np.corrcoef(left, right)[0, 1] > 0.99
    lit = [np.flatnonzero(np.diff((x > x.mean()).astype(int)) == 1) for x in (left, right)]
    assert len(lit[0]) == len(lit[1]) > 3
    assert np.abs(lit[0] - lit[1]).max() <= 2
