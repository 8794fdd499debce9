"""Archives for tests, good ones and bad ones."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

ZIP_METHODS = {"stored": 0, "deflated": zipfile.ZIP_DEFLATED, "bzip2": zipfile.ZIP_BZIP2}
TAR_MODES = {
    ".tar": "w:",
    ".tar.gz": "w:gz",
    ".tgz": "w:gz",
    ".tar.bz2": "w:bz2",
    ".tbz2": "w:bz2",
    ".tar.xz": "w:xz",
    ".txz": "w:xz",
}
KINDS = [".zip", ".tar", ".tar.gz", ".tar.bz2", ".txz"]


def pack(path: Path, members: Mapping[str, bytes], *, method: str = "deflated") -> Path:
    """Write members in the order given, as the suffix says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", ZIP_METHODS[method]) as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        return path
    mode = next(mode for end, mode in TAR_MODES.items() if path.name.endswith(end))
    return pack_tar(path, (plain(name, data) for name, data in members.items()), mode)


def plain(name: str, data: bytes) -> tuple[tarfile.TarInfo, bytes]:
    """Give a file for `pack_tar`."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    return info, data


def pack_tar(
    path: Path,
    members: Iterable[tuple[tarfile.TarInfo, bytes]],
    mode: str = "w:",
    format: int = tarfile.PAX_FORMAT,
) -> Path:
    """Write members with headers of one's own."""
    with tarfile.open(path, mode, format=format) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return path


def pack_folder(folder: Path, path: Path) -> Path:
    """Pack all files of a folder, in an order that is none."""
    names = sorted(str(found.relative_to(folder)) for found in folder.rglob("*") if found.is_file())
    mixed = sorted(names, key=lambda name: name[::-1])
    return pack(path, {name: (folder / name).read_bytes() for name in mixed})


def patch(path: Path, old: bytes, new: bytes, *, at: int | None = None) -> Path:
    """Replace bytes of a file, all occurrences or those at an offset after the last one."""
    data = path.read_bytes()
    assert old in data
    if at is None:
        path.write_bytes(data.replace(old, new))
    else:
        place = data.rindex(old) + at
        path.write_bytes(data[:place] + new + data[place + len(new) :])
    return path


def central(path: Path, at: int, new: bytes) -> Path:
    """Overwrite a field of the last member in the list of a zip."""
    return patch(path, b"PK\1\2", new, at=at)
