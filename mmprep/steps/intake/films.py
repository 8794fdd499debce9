"""What is known of a video track beside its frames: for records, `sync/` and `inspect`.

Rules
-----
- `n_declared` is what the header claims, `n_packets` what the file holds, `n_decoded` what came out
  of the decoder: null where nobody decoded.
- Frames with pictures are shown: neither outside the edit list nor damaged. Ranks count all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mmprep import align
from mmprep.errors import ClockError
from mmprep.media import VideoTrack
from mmprep.signals import Stream
from mmprep.timebase import BoolArray, Fixes, FrameLog, IntArray, rate_text

MAX_LISTED = 500

Facts = dict[str, Any]


def shown(scan: VideoTrack) -> BoolArray:
    """Mark the frames that a player shows."""
    mask: BoolArray = ~scan.discarded & ~scan.damaged
    return mask


def stream(name: str, scan: VideoTrack) -> Stream:
    """Give the ranks of the frames that are shown, at the times of the container."""
    mask = shown(scan)
    ranks = np.flatnonzero(mask).astype(np.int32)
    rate_hz = scan.nominal_rate_hz
    return Stream(name, scan.times_ns[mask], ranks, nominal_rate_hz=rate_hz, kind="video")


def with_stamps(frames: Stream, scan: VideoTrack) -> Stream:
    """Add the ticks of the container to the ranks, as a table has them."""
    data = np.column_stack([frames.values.astype(np.int64), scan.pts[shown(scan)]])
    return replace(frames, data=data, channels=("frame", "pts"), units=(None, None))


def track(scan: VideoTrack) -> Facts:
    """Describe a track by what its packets say."""
    frames = stream("", scan)
    drops = align.find_drops(frames.values, frames.stamps_ns, scan.nominal_rate_hz)
    return {
        "codec": scan.codec,
        "width": scan.width,
        "height": scan.height,
        "rotation_deg": scan.rotation_deg,
        "is_variable": scan.is_variable,
        "nominal_rate": None if scan.nominal_rate_hz is None else rate_text(scan.nominal_rate_hz),
        "n_declared": scan.n_declared,
        "n_packets": scan.n_frames,
        "n_damaged": int((scan.damaged & ~scan.discarded).sum()),
        "n_outside_edits": int(scan.discarded.sum()),
        "n_dropped": None if drops is None else drops.n_dropped,
    }


def is_cut(known: Facts) -> bool:
    """Say whether frames are missing that the header claims, or some are damaged."""
    return bool(known["n_damaged"]) or known["n_declared"] not in {None, known["n_packets"]}


def counted(known: Facts) -> str:
    """Say how many frames a file holds, for a warning."""
    declared = "" if known["n_declared"] is None else f", {known['n_declared']} declared"
    return f"{known['n_packets']} frames were found, {known['n_damaged']} of them damaged{declared}"


def dropped(drops: align.Drops | None, origin_ns: int) -> Facts:
    """List the frames that never came; null where the rate varies."""
    if drops is None:
        return {"n_dropped": None, "dropped": None}
    seconds = np.round((drops.span_ns - origin_ns) / 1e9, 9).tolist()
    rows = zip(drops.after.tolist(), seconds, drops.n_missing.tolist(), strict=True)
    holes = [
        {"after": after, "begin_s": begin_s, "end_s": end_s, "n_missing": n_missing}
        for after, (begin_s, end_s), n_missing in rows
    ]
    return {"n_dropped": drops.n_dropped, "dropped": holes[:MAX_LISTED]}


def frames_in(stretches: IntArray) -> int:
    """Count the frames of stretches from a first to a last one each."""
    return int((stretches[:, 1] - stretches[:, 0] + 1).sum())


def paired(
    found: FrameLog, frames: Stream, n_frames: int, where: str
) -> tuple[align.Logged, Fixes]:
    """Find the times that a log has for frames, and pair them with the container's stamps.

    Raises
    ------
    ClockError
        The log numbers other frames.
    """
    try:
        logged = align.read_log(
            found,
            frames.values,
            frames.stamps_ns,
            n_frames=n_frames,
            rate_hz=frames.nominal_rate_hz,
        )
    except ClockError as error:
        raise ClockError(error.what, where=where, hint=error.hint) from error
    known = logged.times_ns != align.NO_TIME
    return logged, Fixes(frames.stamps_ns[known], logged.times_ns[known])


def log(logged: align.Logged | None, ranks: IntArray) -> Facts | None:
    """Say what a log of all frames leaves out; null where there is none.

    Parameters
    ----------
    ranks : [shape=(n,), int]
        The frames whose times are in `logged`.
    """
    if logged is None:
        return None
    absent = ranks[logged.times_ns == align.NO_TIME]
    parts = np.split(absent, np.flatnonzero(np.diff(absent) > 1) + 1) if absent.size else []
    return {
        "n_absent": logged.n_absent,
        "absent": [{"first": int(p[0]), "last": int(p[-1])} for p in parts[:MAX_LISTED]],
        "n_beyond": logged.n_beyond,
        "n_repeated": logged.n_repeated,
    }


# What is worth saying of the videos of a session, given their facts in `sync/` ------------------


def notes(session: str, facts: Sequence[Facts]) -> list[str]:
    """Say how many frames the cameras dropped, and how many show a picture that stands still."""
    return [
        f"{session}: {name}: {known[f'n_{key}']} frames {what}, see `{key}` in sync/"
        for name, known in _videos(facts)
        for key, what in _NOTED.items()
        if known[f"n_{key}"]
    ]


_NOTED = {"dropped": "never came", "frozen": "of a picture that stands still"}
_LOG_LOSSES = {
    "n_absent": "frames have no time in the frame log and are masked",
    "n_beyond": "rows of the frame log name frames behind the last one",
    "n_repeated": "rows of the frame log name a frame again",
}


def warnings(session: str, facts: Sequence[Facts]) -> list[str]:
    """Say where a file holds other frames than it declares, or than its log names."""
    found = []
    for name, known in _videos(facts):
        if "n_packets" in known and is_cut(known):
            found.append(f"{session}: {name}: {counted(known)}")
        if known["n_undecodable"]:
            found.append(f"{session}: {name}: {known['n_undecodable']} frames can't be decoded")
        counts = known["log"] or {}
        found += [
            f"{session}: {name}: {counts[key]} {what}"
            for key, what in _LOG_LOSSES.items()
            if counts.get(key)
        ]
    return found


def _videos(facts: Sequence[Facts]) -> Iterator[tuple[str, Facts]]:
    for fact in facts:
        if "video" in fact:
            yield fact["name"], fact["video"]
