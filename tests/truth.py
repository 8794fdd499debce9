"""Whole sessions whose truth is known: written as raw files, aligned, judged.

An EEG of 14 channels, a GSR and the stamps of a film, each on a clock of its own with a log of
exchanges. The EEG is a known signal, so that each aligned value tells at which time it was taken.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mmprep import open_dataset, run_align
from mmprep.manifest.codec import read_manifest
from mmprep.timebase import NS_PER_S, IntArray
from tests import synth
from tests.synth import MASTER_NS, Clock

RATES = {"video": 30, "eeg": 128, "gsr": 4}
CHANNELS = [f"E{k + 1}" for k in range(14)]
PHASES = np.arange(len(CHANNELS)) / 3
TONES = ((10.0, 20.0, 1), (27.0, 8.0, -2))  # Hz, amplitude, times the phase
EDGE_S = 0.25  # nearer to a gap values lean on fewer samples: their error is none of time


@dataclass(frozen=True)
class Device:
    """A clock, how samples are stamped by it (`synth.stamps`), and its log (`synth.exchanges`)."""

    clock: Clock
    stamps: Mapping[str, Any] = field(default_factory=dict)
    path: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Session:
    """A session of three devices.

    Parameters
    ----------
    rates : mapping of str to float
        Of their samples, Hz.
    shift_ns : int
        Added to all that is written, stamps and logs; `judge` knows nothing of it.
    """

    devices: Mapping[str, Device]
    duration_s: float = 1200.0
    rates: Mapping[str, float] = field(default_factory=lambda: RATES)
    seed: int = 0
    shift_ns: int = 0

    def stamps(self, name: str) -> tuple[IntArray, IntArray]:
        """Give the device stamps and the true times of a stream's samples."""
        device, rate_hz = self.devices[name], self.rates[name]
        seed = 100 * self.seed + list(RATES).index(name)
        start_s = 0.1 + np.random.default_rng(seed).uniform(0, 1 / rate_hz)
        how = {"duration_s": self.duration_s, "start_s": start_s, "seed": seed, **device.stamps}
        return synth.stamps(device.clock, rate_hz, **how)

    def log(self, name: str) -> np.ndarray:
        """Give the exchanges of a device, [shape=(n, 4), int64, ns]."""
        device = self.devices[name]
        how = {"duration_s": self.duration_s + 1, "seed": self.seed + 7, **device.path}
        log = synth.exchanges(device.clock, **how)
        return np.stack([log.t1_ns, log.t2_ns, log.t3_ns, log.t4_ns], axis=1)


def session(
    clock: Clock | None = None,
    *,
    jitter_s: float = 0.3e-3,
    stamps: Mapping[str, Any] | None = None,
    path: Mapping[str, Any] | None = None,
    seed: int = 0,
    duration_s: float = 1200.0,
) -> Session:
    """Make a session whose EEG has a true gap; clock, jitter and path are those of all devices.

    Each device has its own epoch, and its own rate where the clock has one.
    """
    gap_s = (duration_s / 3, duration_s / 3 + min(12.7, duration_s / 10))
    clock = Clock(fast_ppm=120) if clock is None else clock
    devices = {}
    for k, name in enumerate(RATES):
        own = replace(
            clock,
            fast_ppm=clock.fast_ppm * (1, -1, 0.5)[(k + seed) % 3],
            epoch_ns=clock.epoch_ns + k * 1_234_567_891,
            seed=10 * seed + k,
        )
        gaps = {"gaps_s": (gap_s,)} if name == "eeg" else {}
        how = {"jitter_s": jitter_s, **gaps, **(stamps or {})}
        devices[name] = Device(own, how, path or {})
    return Session(devices, duration_s, seed=seed)


# Signals ------------------------------------------------------------------------------------------


def eeg_at(master_ns: IntArray) -> np.ndarray:
    """Give the EEG at these times, [shape=(n, 14)]."""
    at_s = ((master_ns - MASTER_NS) / NS_PER_S)[:, None]
    return sum(a * np.sin(2 * np.pi * hz * at_s + times * PHASES) for hz, a, times in TONES)


def gsr_at(master_ns: IntArray) -> np.ndarray:
    """Give the skin conductance at these times, [shape=(n, 1)]."""
    at_s = ((master_ns - MASTER_NS) / NS_PER_S)[:, None]
    return 3 + np.sin(2 * np.pi * at_s / 8)


def times_of(values: np.ndarray, near_ns: IntArray) -> np.ndarray:
    """Tell from values of the EEG when they were taken, as seconds after some near times.

    The first tone has a sine and a cosine in all channels; their phase is the time.
    """
    basis = [f(times * PHASES) for _, _, times in TONES for f in (np.cos, np.sin)]
    parts = np.linalg.lstsq(np.stack(basis, axis=1), values.T, rcond=None)[0]
    turn = np.arctan2(parts[0], parts[1])
    since = turn - 2 * np.pi * TONES[0][0] * ((near_ns - MASTER_NS) / NS_PER_S)
    return (np.mod(since + np.pi, 2 * np.pi) - np.pi) / (2 * np.pi * TONES[0][0])


# Files --------------------------------------------------------------------------------------------


def write(made: Session, folder: Path) -> None:
    """Write the tables and logs of a session."""
    folder.mkdir(parents=True, exist_ok=True)
    values = {"eeg": (CHANNELS, eeg_at), "gsr": (["gsr"], gsr_at), "video": (["frame"], _frames)}
    for name, (channels, at) in values.items():
        stamps, master = made.stamps(name)
        time = seconds(stamps + made.shift_ns)
        _write(folder / f"{name}.tsv", {"time": time}, channels, at(master))
        log_ns = made.log(name) + made.shift_ns
        log = {f"t{k + 1}": seconds(column) for k, column in enumerate(log_ns.T)}
        _write(folder / f"{name}.ptp.tsv", log, [], np.zeros((0, 0)))


def _frames(master_ns: IntArray) -> np.ndarray:
    return np.arange(master_ns.size, dtype=np.float64)[:, None]


def _write(path: Path, text: dict[str, list[str]], channels: list[str], values: np.ndarray) -> None:
    import pyarrow as pa
    from pyarrow import csv

    columns = dict(zip(channels, np.round(values, 6).T, strict=True))
    options = csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    with path.open("wb") as file:
        file.write("\t".join([*text, *channels]).encode() + b"\n")
        csv.write_csv(pa.table({**text, **columns}), file, options)


def seconds(stamps_ns: IntArray) -> list[str]:
    """Write nanoseconds as decimal seconds with nine digits."""
    whole, part = np.divmod(np.abs(stamps_ns), NS_PER_S)
    sign = np.where(stamps_ns < 0, "-", "")
    digits = np.char.zfill(part.astype(str), 9)
    text = np.char.add(np.char.add(np.char.add(sign, whole.astype(str)), "."), digits)
    return list(text.tolist())


def align(made: Session, folder: Path) -> Path:
    """Align the files of a session; give the data set."""
    out = folder / "out"
    names = {"eeg": "", "gsr": "", "video": ",kind=video"}
    run_align(
        output=out,
        stream=tuple(
            f"{name}={folder}/{name}.tsv,rate={made.rates[name]:g}{more}"
            for name, more in names.items()
        ),
        clock=tuple(f"{name}={folder}/{name}.ptp.tsv" for name in names),
        rates=",".join(f"{name}={rate:g}" for name, rate in made.rates.items()),
        engine="serial",
    )
    return out


# Judgement ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """What an aligned session is off by.

    Parameters
    ----------
    at_s, off_s : [shape=(n,), float64, s]
        The times after the master's start, and the time errors, of the EEG samples that are 0.25 s
        or more from the gap and the ends.
    value_share : float
        Root mean square error of the EEG over its standard deviation.
    n_lost : int
        Windows with a missing EEG sample that touch no true gap.
    worst_s, bound_s : [shape=(n_windows,), float64, s]
        The largest time error of a window, and its stated bound.
    wrong_frames : float
        Share of frames that are not the nearest, though another is nearer by 50 us.
    """

    at_s: np.ndarray
    off_s: np.ndarray
    value_share: float
    n_lost: int
    worst_s: np.ndarray
    bound_s: np.ndarray
    wrong_frames: float

    @property
    def p50_p99_us(self) -> tuple[float, float]:
        """Median and 99 % of the time errors."""
        p50, p99 = np.percentile(self.off_s, [50, 99]) * 1e6
        return float(p50), float(p99)

    @property
    def held(self) -> float:
        """The share of windows in which the bound holds."""
        return float(np.mean(self.worst_s <= self.bound_s))


def judge(made: Session, out: Path) -> Judged:
    """Hold an aligned session against the truth."""
    data = open_dataset(out, fill="nan")
    found = data[list(range(len(data)))]
    records = list(read_manifest(out / "manifest.jsonl"))
    begin_s = np.array([record.begin_s for record in records])
    grid_ns = _grid(origin_ns(out), begin_s, made.rates["eeg"])
    eeg, valid = found["eeg"], found["eeg.valid"]
    wanted = eeg_at(grid_ns.ravel()).reshape(eeg.shape)
    off_s = np.abs(times_of(eeg[valid], grid_ns[valid]))
    _, master = made.stamps("eeg")
    is_inner = _distance_s(grid_ns[valid], _ends(master, made.rates["eeg"])) >= EDGE_S
    windows = np.broadcast_to(np.arange(len(records))[:, None], valid.shape)[valid][is_inner]
    worst_s = np.zeros(len(records))
    np.maximum.at(worst_s, windows, off_s[is_inner])
    bounds = np.array([record.bound_s["eeg"] for record in records], dtype=np.float64)
    judged = np.unique(windows)
    return Judged(
        at_s=(grid_ns[valid][is_inner] - MASTER_NS) / NS_PER_S,
        off_s=off_s[is_inner],
        value_share=float(np.sqrt(np.mean((eeg - wanted)[valid] ** 2)) / wanted.std()),
        n_lost=_lost(grid_ns, valid, master, made.rates["eeg"]),
        worst_s=worst_s[judged],
        bound_s=bounds[judged],
        wrong_frames=_wrong_frames(
            made, found, _grid(origin_ns(out), begin_s, made.rates["video"])
        ),
    )


def origin_ns(out: Path) -> int:
    """Give second 0 of an aligned session."""
    return int(json.loads((out / "sync/session.json").read_text())["origin_ns"])


def _grid(first_ns: int, begin_s: np.ndarray, rate_hz: float) -> IntArray:
    since_s = begin_s[:, None] + np.arange(round(rate_hz)) / rate_hz
    return first_ns + np.rint(since_s * NS_PER_S).astype(np.int64)


def _ends(master_ns: IntArray, rate_hz: float) -> IntArray:
    """Give the true times of the samples beside gaps, and of the first and the last."""
    at = np.flatnonzero(np.diff(master_ns) > 1.5 * NS_PER_S / rate_hz)
    return master_ns[np.unique([0, *at, *(at + 1), master_ns.size - 1])]


def _distance_s(times_ns: IntArray, marks_ns: IntArray) -> np.ndarray:
    after = np.clip(np.searchsorted(marks_ns, times_ns), 1, marks_ns.size - 1)
    near = np.minimum(np.abs(times_ns - marks_ns[after - 1]), np.abs(times_ns - marks_ns[after]))
    return near / NS_PER_S


def _lost(grid_ns: IntArray, valid: np.ndarray, master_ns: IntArray, rate_hz: float) -> int:
    """Count windows with missing samples for which no gap of the true samples is to blame."""
    after = np.clip(np.searchsorted(master_ns, grid_ns), 1, master_ns.size - 1)
    in_gap = master_ns[after] - master_ns[after - 1] > 1.5 * NS_PER_S / rate_hz
    return int(np.sum(~valid.all(axis=1) & ~in_gap.any(axis=1)))


def _wrong_frames(made: Session, found: Mapping[str, np.ndarray], grid_ns: IntArray) -> float:
    _, times = made.stamps("video")
    after = np.clip(np.searchsorted(times, grid_ns), 1, times.size - 1)
    lead = (grid_ns - times[after - 1]) - (times[after] - grid_ns)
    nearest = after - (lead <= 0)
    clear = found["video.valid"] & (np.abs(lead) > 100_000)
    return float(np.mean(found["video"][clear] != nearest[clear]))
