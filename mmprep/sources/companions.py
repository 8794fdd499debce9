"""Files that lie beside a recording and say how its clock runs.

Beside `x.EXT` the first file that is called `x` and one of `COMPANIONS` is its clock evidence.
"""

from __future__ import annotations

from mmprep import files

COMPANIONS = (".frames.tsv", ".frames.csv", ".clock.tsv", ".clock.csv", ".ptp.tsv", ".ptp.csv")
PACKED = ("", ".gz", ".bz2", ".xz", ".zst")


def is_companion(name: str) -> bool:
    """Say whether a file belongs to another one (clock evidence, frame times)."""
    return name.lower().endswith(tuple(end + pack for end in COMPANIONS for pack in PACKED))


def companion_of(*stems: str) -> str | None:
    """Find the clock evidence of a recording whose path without its suffix is one of these."""
    tries = (f"{stem}{end}" for end in COMPANIONS for stem in stems)
    return next((path for path in tries if files.is_file(path)), None)


def stem_of(path: str) -> str:
    """Take its suffix off the path of a file, and before that the one of its packing."""
    if files.last_suffix(path).lower() in PACKED:
        path = path.removesuffix(files.last_suffix(path))
    return path.removesuffix(files.last_suffix(path))
