"""Align a session against the same job scripted with pandas and MNE, both against truth.

The pictures of a film are compared with what OpenCV takes to decode and shrink them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from mmprep import open_dataset
from mmprep.clock import from_json
from mmprep.timebase import NS_PER_S
from tests.bench import made
from tests.bench.measure import Note, Row, Size, compare, mmprep, peer


def rows(place: Path, size: Size) -> Iterator[Row | Note]:
    """Compare the time of whole processes, then what they wrote."""
    session = made.session(place / "raw", size.session_s)
    out, script = place / "out", place / "script"
    yield from compare(
        f"align {size.session_s / 60:g} min of video, EEG, GSR",
        mmprep(
            "align", *session.named(), "--rates", "video=30,eeg=128,gsr=4", "-o", out, writes=out
        ),
        [peer("pandas + MNE script", "align_script", session.folder, script, writes=script)],
        size,
    )
    yield Note(f"mmprep: {_errors(session, *_ours(out), _our_stamps(session, out))}")
    yield Note(f"script: {_errors(session, *_theirs(script), _their_stamps(script))}")
    film, pictures = place / "film.mp4", place / "pictures"
    made.film(film, size.film_s)
    yield from compare(
        f"align --frames 64x64, {size.film_s} s of 640x480",
        mmprep("align", "--video", film, "--frames", "64x64", "-o", pictures, writes=pictures),
        [peer("decoding and shrinking by OpenCV", "opencv_frames", film)],
        size,
    )


Windows = dict[str, np.ndarray]
Stamps = Callable[[str], np.ndarray]


def _ours(out: Path) -> tuple[int, Windows]:
    data = open_dataset(out, fill="nan")
    found = data[list(range(len(data)))]
    begin_ns = json.loads((out / "sync/session.json").read_text())["origin_ns"]
    return begin_ns, {name: np.asarray(found[name]) for name in made.RATES}


def _our_stamps(session: made.Session, out: Path) -> Stamps:
    streams = json.loads((out / "sync/session.json").read_text())["streams"]
    models = {stream["name"]: from_json(stream["clock"]) for stream in streams}
    return lambda name: models[name].apply(session.device_ns(name))


def _theirs(script: Path) -> tuple[int, Windows]:
    begin_s = float(np.load(script / "times.npz")["begin_s"])
    found = {name: np.load(script / f"{name}.npy") for name in made.RATES}
    return round(begin_s * NS_PER_S), found | {"video": found["video"][..., 0]}


def _their_stamps(script: Path) -> Stamps:
    times = np.load(script / "times.npz")
    return lambda name: np.rint(times[name] * NS_PER_S).astype(np.int64)


def _errors(session: made.Session, begin_ns: int, windows: Windows, stamps: Stamps) -> str:
    """Say how far stamps and values are from the truth."""
    late = [np.abs(stamps(name) - session.master_ns(name)) for name in made.RATES]
    eeg = windows["eeg"].reshape(-1, len(made.EEG))
    gsr = windows["gsr"].reshape(-1, 1)
    frames = windows["video"].reshape(-1)
    wanted = made.eeg_at(_grid(begin_ns, len(eeg), "eeg"))
    skin = made.gsr_at(_grid(begin_ns, len(gsr), "gsr"))
    nearest = _nearest(session.master_ns("video"), _grid(begin_ns, frames.size, "video"))
    return (
        f"stamps off by {np.percentile(np.concatenate(late), 99) / 1e3:.1f} us (99 %),"
        f" EEG by {_share(eeg, wanted):.3%} of its std, GSR by {_share(gsr, skin):.3%},"
        f" {np.mean(frames != nearest):.2%} of frames not the nearest,"
        f" {np.mean(np.isnan(eeg)):.3%} of EEG missing"
    )


def _grid(begin_ns: int, n: int, name: str) -> np.ndarray:
    return begin_ns + np.rint(np.arange(n) * (NS_PER_S / made.RATES[name])).astype(np.int64)


def _share(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.sqrt(np.nanmean((found - wanted) ** 2)) / wanted.std())


def _nearest(times_ns: np.ndarray, grid_ns: np.ndarray) -> np.ndarray:
    after = np.clip(np.searchsorted(times_ns, grid_ns), 1, times_ns.size - 1)
    is_before = grid_ns - times_ns[after - 1] <= times_ns[after] - grid_ns
    return after - is_before
