"""Archives and members of archives that can't be read: each is an item that fails, and says why.

What can be read is left to the other readers, which see the members of an archive as files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from mmprep import archives, files
from mmprep.archives import AnyPath
from mmprep.errors import DataError
from mmprep.sources.base import Claim, Finder, Looks, TextOptions, beside, file_of

READER = "archive"


def claim(folder: str, names: Sequence[str], root: Path) -> list[Claim]:
    """Claim the archives and members of a folder whose begin can't be read."""
    claims = []
    for name in sorted(names):
        path = beside(folder, name)
        try:
            check(files.join(root, path))
        except DataError:
            suffix = archives.suffix_of(name) or PurePosixPath(name).suffix
            claims.append(Claim(READER, path, (path,), suffix))
    return claims


def check(path: AnyPath) -> None:
    """Read the list of an archive, or the begin of a member; nothing of any other file.

    Raises
    ------
    DataError
        It can't be read.
    """
    place = archives.split(path)
    if place is None:
        return
    if not place[1]:
        archives.names(place[0])
        return
    with files.open_input(path) as file:
        file.read(1)


def _find(claim: Claim, root: Path, options: TextOptions) -> Looks:
    check(file_of(root, claim.id_path))
    raise DataError("can be read now, and could not before", where=claim.id_path)


_FINDER = Finder(_find)
probe = _FINDER.probe
write = _FINDER.write
read_stream = _FINDER.read_stream
