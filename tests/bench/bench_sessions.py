"""Many sessions side by side, and what a session of a night takes of memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tests.bench import made
from tests.bench.measure import MIB, Note, Row, Side, Size, compare, mmprep, sampled, seconds

N_SESSIONS = 4
RATES = ("--rates", "video=30,eeg=128,gsr=4")
SHORTER = 10  # times, than the session of a night


def rows(place: Path, size: Size) -> Iterator[Row | Note]:
    """Compare two jobs with one, then the memory of a short session with that of a long one."""
    sets, out = _converted(place, size.session_s), place / "out"
    both = [mmprep("align", sets, *RATES, "-j", jobs, "-o", out, writes=out) for jobs in (2, 1)]
    what = f"align {N_SESSIONS} x {size.session_s / 60:g} min, 2 jobs"
    yield from compare(what, both[0], [replace(both[1], name="1 job")], size)
    for length_s in (size.long_s // SHORTER, size.long_s):
        for form, side in _long(place / str(length_s), length_s).items():
            took_s, peak = sampled(side)
            yield Note(
                f"{length_s / 3600:g} h from {form}: {took_s:.1f} s, PSS {peak / MIB:.0f} MiB"
            )


def _converted(place: Path, length_s: int) -> Path:
    """Convert a session that lies in several folders."""
    raw, sets = place / "raw", place / "sets"
    made.session(raw / "s0", length_s)
    for k in range(1, N_SESSIONS):
        (raw / f"s{k}").mkdir()
        for path in (raw / "s0").iterdir():
            os.link(path, raw / f"s{k}" / path.name)
    seconds(mmprep("convert", raw, "--layout", "{session}/{stream}", "-o", sets))
    return sets


def _long(place: Path, length_s: int) -> dict[str, Side]:
    """Make a session, raw and converted, and say how it is aligned."""
    session, sets, out = made.session(place / "raw", length_s), place / "sets", place / "out"
    seconds(mmprep("convert", session.folder, "-o", sets))
    return {
        "raw files": mmprep("align", *session.named(), *RATES, "-o", out, writes=out),
        "a data set": mmprep("align", sets, *RATES, "-o", out, writes=out),
    }
