"""Files that belong to a recording, found by a pattern: transcripts, tracks.

A pattern without a slash names a file beside the recording, one with a slash a file below the root,
one that begins with `**/` a file below any folder above the recording, the nearest first; fields in
braces are filled in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from mmprep import files
from mmprep.steps.corpus.place import ANYWHERE


def find(root: Path, folder: str, patterns: Sequence[str], fields: Mapping[str, str]) -> str | None:
    """Find the first file that a pattern names, below the root.

    Parameters
    ----------
    folder : str
        That of the recording, below the root.
    fields : mapping of str to str
        What stands for `{name}`.
    """
    for pattern in patterns:
        for whole in _candidates(filled(pattern, fields), folder):
            if files.is_file(root / whole):
                return PurePosixPath(whole).as_posix()
    return None


def _candidates(name: str, folder: str) -> list[str]:
    """Give the names, below the root, of the files that a filled pattern may mean."""
    if name.startswith(ANYWHERE):
        above = PurePosixPath(folder, "x").parents
        return [(parent / name.removeprefix(ANYWHERE)).as_posix() for parent in above]
    return [name if "/" in name else PurePosixPath(folder, name).as_posix()]


def filled(pattern: str, fields: Mapping[str, str]) -> str:
    """Put fields into a pattern."""
    for name, value in fields.items():
        pattern = pattern.replace(f"{{{name}}}", value)
    return pattern
