"""How exact an aligned session is, beside what is done without a model of the clock."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mmprep.timebase import NS_PER_S, IntArray
from tests import synth, truth
from tests.bench.measure import Note, Size

HALF_FRAME_S = 1 / 60
LENGTH_S, N_SEEDS = 1200, 5
PROBE_S = 5  # LSL takes the best of some exchanges so often


@dataclass(frozen=True)
class Found:
    """What a method makes of the EEG.

    Parameters
    ----------
    at_s : [shape=(n,), float64, s]
        True times of the samples, or those that were asked for, after the master's start.
    off_s : [shape=(n,), float64, s]
        How far the time is off that each is given; NaN where there is no value.
    value_share : float
        Root mean square error of the values over the standard deviation of the signal.
    worst_s, bound_s : [shape=(n_windows,), float64, s], optional
        The largest error of each window, and what it is said to be at most.
    """

    at_s: np.ndarray
    off_s: np.ndarray
    value_share: float
    worst_s: np.ndarray | None = None
    bound_s: np.ndarray | None = None


def rows(place: Path, size: Size) -> Iterator[Note]:
    """Print one line a method and kind of session."""
    seeds = range(N_SEEDS if size.n_runs else 1)
    yield Note(f"{'':28} {'median':>10} {'99 %':>10} {'EEG value':>10} {'windows':>9}")
    yield Note(f"{'':28} {'us off':>10} {'us off':>10} {'% off':>10} {'% lost':>9}")
    for kind, made in sessions(min(size.session_s, LENGTH_S)).items():
        yield Note(f"{kind}, {made.duration_s / 60:g} min, {len(seeds)} seeds")
        of_seeds = [replace(made, seed=seed) for seed in seeds]
        places = [place / f"{kind.split(',')[0]}-{one.seed}" for one in of_seeds]
        for name, method in METHODS.items():
            found = [method(*pair) for pair in zip(of_seeds, places, strict=True)]
            yield Note(_line(name, of_seeds, found))
            yield from _bounds(found)


def sessions(duration_s: float) -> dict[str, truth.Session]:
    """Make a session of steady clocks, and one of wandering clocks that are set back or forth."""
    reset = ((0.58 * duration_s + 4.3, 2.5),)
    wandering = synth.Clock(fast_ppm=60, wander_s=0.8e-3, resets=reset)
    return {
        "steady": truth.session(synth.Clock(fast_ppm=120), duration_s=duration_s),
        "wandering, reset": truth.session(wandering, jitter_s=1.5e-3, duration_s=duration_s),
    }


def _line(name: str, made: list[truth.Session], found: list[Found]) -> str:
    off_s = np.concatenate([one.off_s for one in found])
    p50, p99 = np.percentile(off_s[~np.isnan(off_s)], [50, 99]) * 1e6
    share = np.sqrt(np.mean([one.value_share**2 for one in found]))
    lost = np.mean([_lost(*pair) for pair in zip(made, found, strict=True)])
    return f"  {name:26} {p50:10,.1f} {p99:10,.1f} {100 * share:10.3f} {100 * lost:9.1f}"


def _bounds(found: list[Found]) -> Iterator[Note]:
    pairs = [(one.worst_s, one.bound_s) for one in found if one.bound_s is not None]
    if pairs:
        worst_s, bound_s = (np.concatenate(column) for column in zip(*pairs, strict=True))
        held, middle_us = np.mean(worst_s <= bound_s), np.median(bound_s) * 1e6
        yield Note(f"  its bound holds in {held:.2%} of windows, median {middle_us:.1f} us")


def _lost(made: truth.Session, found: Found) -> float:
    """Give the share of seconds with a sample that is missing or off by over half a frame.

    Seconds that touch the true gap count for none.
    """
    window = np.floor(found.at_s).astype(np.int64)
    bad = np.isnan(found.off_s) | (found.off_s > HALF_FRAME_S)
    n_bad, n_all = (np.bincount(window, weight) for weight in (bad, np.ones(bad.size)))
    begin_s, end_s = made.devices["eeg"].stamps["gaps_s"][0]
    second = np.arange(n_all.size)
    counted = (n_all > 0) & ((second + 1 < begin_s) | (second > end_s))
    return float(np.mean(n_bad[counted] > 0))


# Methods ------------------------------------------------------------------------------------------


def first_offset(made: truth.Session, place: Path) -> Found:
    """Add the offset of the first exchange to all stamps; straight lines give the values."""
    del place
    return _by_stamps(made, _first_offset(made), lambda at, values: partial(_lines, at, values))


def _lines(at: np.ndarray, values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    return np.stack([np.interp(wanted, at, column) for column in values.T], axis=1)


def _first_offset(made: truth.Session) -> IntArray:
    stamps, _ = made.stamps("eeg")
    first = made.log("eeg")[0]
    return stamps + (first[0] + first[3] - first[1] - first[2]) // 2


def by_pyxdf(made: truth.Session, place: Path) -> Found:
    """Let `pyxdf.load_xdf` synchronise and dejitter; a cubic spline gives the values."""
    import pyxdf
    from scipy.interpolate import CubicSpline

    place.mkdir(parents=True, exist_ok=True)
    logging.getLogger("pyxdf").setLevel(logging.ERROR)  # it tells of gaps
    path = place / "eeg.xdf"
    origin_ns = synth.MASTER_NS - 1000 * NS_PER_S
    write_xdf(made, path, origin_ns)
    streams, _ = pyxdf.load_xdf(str(path))
    given_ns = origin_ns + np.rint(streams[0]["time_stamps"] * 1e9).astype(np.int64)
    return _by_stamps(made, given_ns, CubicSpline)


def _by_stamps(made: truth.Session, given_ns: IntArray, curve: Callable[..., Any]) -> Found:
    """Give the errors of stamps, and of values read off a curve through them."""
    _, master = made.stamps("eeg")
    rising, first = np.unique(given_ns, return_index=True)
    grid = _grid(made)
    seconds = (rising - synth.MASTER_NS) / NS_PER_S
    values = curve(seconds, truth.eeg_at(master[first]))((grid - synth.MASTER_NS) / NS_PER_S)
    near = _distance_s(rising, grid) < 1 / truth.RATES["eeg"]
    share = _value_share(values[near], grid[near])
    return Found((master - synth.MASTER_NS) / NS_PER_S, np.abs(given_ns - master) / NS_PER_S, share)


def by_merge_asof(made: truth.Session, place: Path) -> Found:
    """Take the nearest sample by stamps with the first offset, half a frame away at most."""
    import pandas as pd

    del place
    _, master = made.stamps("eeg")
    given = pd.DataFrame({"at": _first_offset(made), "row": np.arange(master.size)})
    grid = _grid(made)
    picked = pd.merge_asof(
        pd.DataFrame({"at": grid}),
        given.sort_values("at"),
        on="at",
        direction="nearest",
        tolerance=round(HALF_FRAME_S * NS_PER_S),
    )["row"].to_numpy()
    there = ~np.isnan(picked)
    row = picked[there].astype(np.int64)
    off_s = np.full(grid.size, np.nan)
    off_s[there] = np.abs(master[row] - grid[there]) / NS_PER_S
    share = _value_share(truth.eeg_at(master[row]), grid[there])
    return Found((grid - synth.MASTER_NS) / NS_PER_S, off_s, share)


def by_mmprep(made: truth.Session, place: Path) -> Found:
    """Align the raw files; the values themselves tell their times."""
    truth.write(made, place)
    judged = truth.judge(made, truth.align(made, place))
    errors = judged.at_s, judged.off_s, judged.value_share
    return Found(*errors, judged.worst_s, judged.bound_s)


METHODS: dict[str, Callable[[truth.Session, Path], Found]] = {
    "first offset only": first_offset,
    "pyxdf": by_pyxdf,
    "merge_asof nearest": by_merge_asof,
    "mmprep": by_mmprep,
}


def _grid(made: truth.Session) -> IntArray:
    """Give the times that values are asked for: 128 a second, but for the true gap."""
    at_s = 1 + np.arange(round((made.duration_s - 2) * truth.RATES["eeg"])) / truth.RATES["eeg"]
    begin_s, end_s = made.devices["eeg"].stamps["gaps_s"][0]
    at_s = at_s[(at_s < begin_s - truth.EDGE_S) | (at_s > end_s + truth.EDGE_S)]
    return synth.MASTER_NS + np.rint(at_s * NS_PER_S).astype(np.int64)


def _distance_s(stamps_ns: IntArray, times_ns: IntArray) -> np.ndarray:
    after = np.clip(np.searchsorted(stamps_ns, times_ns), 1, stamps_ns.size - 1)
    low, high = times_ns - stamps_ns[after - 1], stamps_ns[after] - times_ns
    return np.minimum(np.abs(low), np.abs(high)) / NS_PER_S


def _value_share(values: np.ndarray, times_ns: IntArray) -> float:
    wanted = truth.eeg_at(times_ns)
    return float(np.sqrt(np.mean((values - wanted) ** 2)) / wanted.std())


# XDF ----------------------------------------------------------------------------------------------


def write_xdf(made: truth.Session, path: Path, origin_ns: int) -> None:
    """Write the EEG as LSL records it: own stamps, and of each five exchanges the quickest.

    All times count from `origin_ns`: seconds since a computer was started are small numbers.
    """
    stamps, master = made.stamps("eeg")
    info = (
        "<info><name>EEG</name><type>EEG</type><channel_count>14</channel_count>"
        "<nominal_srate>128</nominal_srate><channel_format>double64</channel_format></info>"
    )
    samples = np.zeros(
        stamps.size, [("size", "u1"), ("time", "<f8"), ("values", "<f8", (len(truth.CHANNELS),))]
    )
    samples["size"], samples["time"] = 8, (stamps - origin_ns) / NS_PER_S
    samples["values"] = truth.eeg_at(master)
    body = struct.pack("<IBI", 1, 4, stamps.size) + samples.tobytes()
    parts = [_chunk(1, b"<info><version>1.0</version></info>")]
    parts += [_chunk(2, struct.pack("<I", 1) + info.encode()), _chunk(3, body)]
    parts += [_chunk(4, struct.pack("<Idd", 1, *offset)) for offset in _offsets(made, origin_ns)]
    path.write_bytes(b"XDF:" + b"".join(parts))


def _chunk(tag: int, content: bytes) -> bytes:
    return b"\x04" + struct.pack("<IH", len(content) + 2, tag) + content


def _offsets(made: truth.Session, origin_ns: int) -> list[tuple[float, float]]:
    """Give (device time, offset to the master) of the quickest of each five exchanges."""
    log = made.log("eeg")
    trip = (log[:, 3] - log[:, 0]) - (log[:, 2] - log[:, 1])
    groups = np.array_split(np.arange(len(log)), len(log) // PROBE_S)
    best = np.array([group[np.argmin(trip[group])] for group in groups])
    device = log[best, 1] + (log[best, 2] - log[best, 1]) // 2
    master = log[best, 0] + (log[best, 3] - log[best, 0]) // 2
    times, offsets = (device - origin_ns) / NS_PER_S, (master - device) / NS_PER_S
    return list(zip(times.tolist(), offsets.tolist(), strict=True))
