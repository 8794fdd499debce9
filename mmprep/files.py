"""Bytes on disk: inputs, hashes, fingerprints, links, syncs, the exchange of two folders, locks.

Rules
-----
- Inputs are opened and measured here, and nowhere else: a path may go through an archive.
- Inputs are told by xxh3_128 (11 GB/s), outputs by sha256 (users can check by `sha256sum -c`).
- What must appear whole is written beside its place, synced, then renamed over it.
- `sync` and `exchange` announce themselves to audit hooks (`mmprep.sync`, `mmprep.exchange`),
  before and after, because Python announces neither `fsync` nor `renameat2`.
- POSIX-only modules are optional: without `fcntl` nothing is locked, without `renameat2` two
  renames stand in for the exchange, without `syncfs` each file is synced.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any, BinaryIO, cast

import xxhash

from mmprep import archives
from mmprep.archives import AnyPath
from mmprep.errors import DataError, MmprepError, SpaceError, TransientError, UsageError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

BLOCK_BYTES = 1 << 17  # what is read stays in the processor's cache until it is hashed
SPACE_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
AT_FDCWD, RENAME_EXCHANGE = -100, 2
SYNC_FILE_RANGE_WRITE = 2
WHOLE_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class FileStamp:
    """What tells an unchanged file without reading it.

    Parameters
    ----------
    mtime_ns, inode : int
        Of the file; of a member of an archive those of the archive.
    archive_bytes : int
        The size of the archive around it; 0 where there is none.
    """

    n_bytes: int
    mtime_ns: int
    inode: int
    archive_bytes: int = 0


def stamp(path: AnyPath) -> FileStamp:
    """Read size, modification time and inode of a file.

    Raises
    ------
    OSError
        There is no such file.
    DataError
        It lies in an archive that is refused.
    """
    try:
        status = os.stat(path)
    except (NotADirectoryError, FileNotFoundError):
        place = archives.split(path)
        known = archives.entry(*place) if place is not None else None
        if place is None or known is None:
            raise
        status = os.stat(place[0])
        return FileStamp(known.n_bytes, status.st_mtime_ns, status.st_ino, status.st_size)
    return FileStamp(status.st_size, status.st_mtime_ns, status.st_ino)


def join(root: str | Path, name: str) -> str:
    """Join as text: a `Path` takes longer than a look at the file, and a walk has many."""
    top = str(root)
    return f"{top}{name}" if top.endswith(os.sep) else f"{top}{os.sep}{name}"


def last_suffix(name: str) -> str:
    """Give the last suffix of a name with `/`, as `PurePosixPath` does, in a tenth of its time."""
    stem, _, end = name.rpartition("/")[2].rpartition(".")
    return f".{end}" if stem and end else ""


def open_input(path: AnyPath, buffering: int = -1) -> BinaryIO:
    """Open an input for reading; it may be a member of an archive.

    Parameters
    ----------
    buffering : int
        0 for none, as of `open`.

    Raises
    ------
    OSError
        There is no such file.
    DataError
        It lies in an archive that is refused, or is a member that can't be read.
    """
    try:
        return open(path, "rb", buffering=buffering)
    except (NotADirectoryError, FileNotFoundError):
        place = archives.split(path)
        if place is None:
            raise
        member = archives.open_member(*place)
    return cast(BinaryIO, BufferedReader(member) if buffering else member)


class Watched(RawIOBase):
    """A member for libraries that swallow errors: it ends at an error, and keeps it."""

    def __init__(self, path: AnyPath) -> None:
        self.name = str(path)
        self._file = open_input(path, buffering=0)
        self._fault: DataError | None = None

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def seekable(self) -> bool:
        """Say that any place can be gone to."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Give the place."""
        return self._file.tell()

    def readinto(self, buffer: Any) -> int:
        """Read as much as there is."""
        try:
            return int(self._file.readinto(buffer))  # type: ignore[attr-defined]
        except DataError as error:
            self._fault = error
            return 0

    def close(self) -> None:
        """Close it."""
        self._file.close()
        super().close()

    def check(self) -> None:
        """Raise the error that reading ended at, if there was one."""
        if self._fault is not None:
            raise self._fault


@contextmanager
def watched(path: AnyPath) -> Iterator[BinaryIO]:
    """Open an input for a library that swallows errors; that of a member is raised at the end."""
    if not is_member(path):
        with open_input(path) as file:
            yield file
        return
    raw = Watched(path)
    try:
        with BufferedReader(raw) as member:
            yield cast(BinaryIO, member)
    finally:
        raw.check()


def read_input(path: AnyPath) -> bytes:
    """Read an input that is small.

    Raises
    ------
    OSError, DataError
        As `open_input`; or it is no small file.
    """
    with open_input(path) as file:
        data = file.read(WHOLE_BYTES)
    if len(data) == WHOLE_BYTES:
        raise DataError(f"is larger than {WHOLE_BYTES >> 20} MiB", where=str(path))
    return data


def read_text(path: AnyPath) -> str:
    """Read a small input that is UTF-8, its line ends as LF.

    Raises
    ------
    UnicodeDecodeError
        It is not.
    OSError, DataError
        As `read_input`.
    """
    text = read_input(path).decode("utf-8-sig")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def is_member(path: AnyPath) -> bool:
    """Say whether a path goes through an archive."""
    found = archives.split(path)
    return found is not None and bool(found[1])


def on_disk(path: AnyPath) -> str:
    """Give the file that holds an input: itself, or the archive around it."""
    found = archives.split(path)
    return found[0] if found is not None else str(path)


def is_file(path: AnyPath) -> bool:
    """Say whether there is such an input."""
    if os.path.isfile(path):
        return True
    found = archives.split(path)
    return found is not None and archives.entry(*found) is not None


def exists(path: AnyPath) -> bool:
    """Say whether there is such a file or folder, be it in an archive."""
    return os.path.exists(path) or is_file(path) or is_folder(path)


def is_folder(path: AnyPath) -> bool:
    """Say whether a path is a folder, an archive that can be read, or a folder in one.

    An archive that is refused is a file, and whoever reads it says why.
    """
    if os.path.isdir(path):
        return True
    found = archives.split(path)
    if found is None:
        return False
    archive, member = found
    try:
        names = archives.names(archive)
    except DataError:
        return False
    return not member or any(name.startswith(f"{member}/") for name in names)


def names_in(folder: AnyPath) -> list[str]:
    """Name the files of a folder, sorted, hidden ones left out."""
    if os.path.isdir(folder):
        with os.scandir(folder) as found:
            names = [entry.name for entry in found if entry.is_file()]
        return sorted(name for name in names if not name.startswith("."))
    inner = [name.removeprefix(f"{folder}/") for name in members(folder)]
    return [name for name in inner if "/" not in name]


def members(folder: AnyPath) -> list[str]:
    """Give the paths of all files of an archive, or of a folder in one: files of a folder first.

    Raises
    ------
    DataError
        The archive is refused.
    """
    found = archives.split(folder)
    if found is None:
        return []
    archive, inner = found
    start = f"{inner}/" if inner else ""
    names = [name for name in archives.names(archive) if name.startswith(start)]
    return [f"{archive}/{name}" for name in sorted(names, key=_walk_order)]


def _walk_order(name: str) -> list[tuple[bool, str]]:
    """Order names as a walk over folders does: files, then the folders beside them."""
    *folders, last = name.split("/")
    return [*((True, folder) for folder in folders), (False, last)]


def plain_name(root: Path, name: str) -> str:
    """Give a name below a root, the suffixes of the archives in it left out."""
    if not archives.may_pass(name):
        return name
    parts = name.split("/")
    for n, part in enumerate(parts, 1):
        end = archives.suffix_of(part)
        if end and archives.is_archive(root.joinpath(*parts[:n])):
            return "/".join([*parts[: n - 1], part[: -len(end)], *parts[n:]])
    return name


def blocks(path: AnyPath, n_bytes: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Read a file block by block."""
    with open_input(path, buffering=0) as file:
        while block := file.read(n_bytes):
            yield block


def running_digest() -> xxhash.xxh3_128:
    """Begin a fingerprint that is shown bytes as they are read."""
    return xxhash.xxh3_128()


def digest(path: AnyPath) -> str:
    """Fingerprint an input: `xxh3_128:` and 32 hex digits."""
    state = running_digest()
    for block in blocks(path):
        state.update(block)
    return f"xxh3_128:{state.hexdigest()}"


def sha256(path: str | Path) -> str:
    """Hash an output: 64 hex digits."""
    state = hashlib.sha256()
    for block in blocks(path):
        state.update(block)
    return state.hexdigest()


def storage_error(error: OSError, where: str | Path) -> MmprepError:
    """Turn the failure of a write into the error that says what to do.

    Returns
    -------
    MmprepError
        SpaceError (exit 3) for a full disk, quota or file-size limit, with the bytes that are
        free; TransientError (exit 75) for any other trouble of the storage.
    """
    place = str(error.filename or where)
    reason = f"{error.strerror or error} ({errno.errorcode.get(error.errno or 0, 'error')})"
    if error.errno not in SPACE_ERRNOS:
        return TransientError(reason, where=place, hint="run the same command again")
    free = free_bytes(where)
    return SpaceError(
        f"{reason}, {free} bytes free",
        where=place,
        hint="make room and run the same command again: it continues where it stopped",
    )


def free_bytes(path: str | Path) -> int:
    """Say how many bytes the file system below the nearest existing folder has free."""
    folder = Path(path).absolute()
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def write_new(path: Path, data: bytes) -> None:
    """Write a file that need not appear whole (a later sync and record vouch for it)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(data)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it appears whole and durable, or not at all."""
    beside = path.with_name(f".{path.name}.new")
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        _sync_file(file.fileno(), beside)
    os.replace(beside, path)
    sync_folder(path.parent)


def _sync_file(descriptor: int, path: Path) -> None:
    sys.audit("mmprep.sync", str(path))
    os.fsync(descriptor)
    sys.audit("mmprep.sync", str(path))


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _sync_file(descriptor, folder)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Make all below a folder durable: one `syncfs`, or a sync a file where there is none."""
    library = _c_library()
    if library is None or not hasattr(library, "syncfs"):
        _sync_each(folder)
        return
    sys.audit("mmprep.sync", str(folder))
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if library.syncfs(descriptor) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(folder))
    finally:
        os.close(descriptor)
    sys.audit("mmprep.sync", str(folder))


def begin_sync(descriptor: int) -> None:
    """Let the kernel begin to write a finished file, so that the sync of the commit waits less.

    A hint: nothing is durable before the sync, and where there is no such call nothing happens.
    """
    library = _c_library()
    if library is not None and hasattr(library, "sync_file_range"):
        whole = ctypes.c_int64(0)
        library.sync_file_range(descriptor, whole, whole, SYNC_FILE_RANGE_WRITE)


def _sync_each(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb+") as file:
                _sync_file(file.fileno(), path)
        else:
            sync_folder(path)
    sync_folder(folder)


def _c_library() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    return ctypes.CDLL(None, use_errno=True)


def give_back_memory() -> None:
    """Give back to the system what was freed: glibc keeps it, 100 MB after a long recording."""
    trim = getattr(_c_library(), "malloc_trim", None)
    if trim is not None:
        trim(0)


def exchange(new: Path, old: Path) -> None:
    """Put the folder `new` in the place of `old`, which ends up in the place of `new`.

    Readers see one or the other. Where the kernel has no exchange, `old` is moved aside first;
    a crash between the two renames leaves `new` whole, and the next run finishes it.
    """
    sys.audit("mmprep.exchange", str(old))
    if not _renameat2(new, old):
        aside = old.with_name(f".{old.name}.old")
        remove_tree(aside)
        os.rename(old, aside)
        os.rename(new, old)
        os.rename(aside, new)
    sys.audit("mmprep.exchange", str(old))


def _renameat2(new: Path, old: Path) -> bool:
    library = _c_library()
    if library is None or not hasattr(library, "renameat2"):
        return False
    names = os.fsencode(new), os.fsencode(old)
    if library.renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}:
        return False
    raise OSError(code, os.strerror(code), str(new), None, str(old))


def link(source: str | Path, target: Path) -> None:
    """Give a file a second name; copy it where the file system has no links."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno in SPACE_ERRNOS or error.errno in {errno.ENOENT, errno.EEXIST}:
            raise
        shutil.copyfile(source, target)


def remove_tree(path: Path) -> None:
    """Remove a folder or file with all that is below it; nothing is fine too."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder for this process; the kernel lets go of it when the process ends.

    Raises
    ------
    TransientError
        Another process holds it.
    """
    descriptor = hold(folder)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def hold(folder: Path) -> int | None:
    """Lock a folder, made if it isn't there; the lock follows it through renames.

    Returns
    -------
    int or None
        The descriptor that holds the lock until it is closed; None where locks do not exist.
    """
    while fcntl is not None:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # exchanged or removed since: look again
            continue
        if not _try_lock(descriptor):
            os.close(descriptor)
            raise TransientError(
                "another mmprep run is writing here",
                where=str(folder),
                hint="wait for it (--lock-wait SECONDS), or write to another folder",
            )
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(folder)):
                return descriptor
        os.close(descriptor)
    folder.mkdir(parents=True, exist_ok=True)
    return None


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
            return False
        raise
    return True


def depfile(target: str, inputs: Iterable[str]) -> str:
    """Write the rule that make includes: the target, its inputs, an empty rule an input.

    The empty rules let make go on when an input has been removed. A name that make cannot hold
    (`;`, `|`, `%`, tab, newline, a backslash at the end) is left out.
    """
    names = [_make_name(name) for name in dict.fromkeys(inputs) if not _UNMAKEABLE.search(name)]
    rules = "".join(f"{name}:\n" for name in names)
    return f"{_make_name(target)}: {' '.join(names)}\n{rules}"


_UNMAKEABLE = re.compile(r"[;|%\t\n\r]|\\$|\$\(.*\)|\$\{.*\}")
_MAKE_MARK = re.compile(r"(\\*)([ #:])")


def _make_name(name: str) -> str:
    # Backslashes before a mark are halved by make; an equals sign would make a variable of a rule.
    escaped = _MAKE_MARK.sub(lambda found: f"{found[1] * 2}\\{found[2]}", name.replace("$", "$$"))
    return escaped.replace("=", "$(if ,,=)")


def below(path: str | Path, root: Path) -> str:
    """Name a file below a root, with forward slashes.

    Raises
    ------
    UsageError
        The file does not lie below the root.
    """
    resolved, top = os.path.abspath(path), join(os.path.abspath(root), "")
    if resolved.startswith(top) and os.sep == "/":
        return resolved[len(top) :]
    try:
        return Path(resolved).relative_to(os.path.abspath(root)).as_posix()
    except ValueError as error:
        raise UsageError(
            f"not below the root {root}", where=str(path), hint="name a wider --root"
        ) from error


def inside(root: Path, name: str) -> Path:
    """Resolve a name of a manifest below its root.

    Raises
    ------
    DataError
        The name is absolute, climbs out, holds a scheme, or a symbolic link leads out.
    """
    bad = name.startswith(("/", "~")) or "://" in name or "\0" in name or "\\" in name
    if bad or ".." in name.split("/") or not name:
        raise DataError(f"{name!r} is not a path below the data set", where=str(root))
    path = root / name
    if not path.resolve().is_relative_to(root.resolve()):
        raise DataError(f"{name!r} leads out of the data set", where=str(root))
    return path


_UNPORTABLE = re.compile(r'[<>:"|?*\\\x00-\x1f=]|[. ]$')
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)", re.IGNORECASE)


def portable(name: str) -> str:
    """Write a name so that Windows and S3 can hold it, too.

    Returns
    -------
    str
        Each byte of a character that they refuse as `=XX`, part by part; `=` itself as `=3D`, so
        that the name can be had back.
    """
    return "/".join(map(_portable_part, name.split("/")))


def _portable_part(part: str) -> str:
    escaped = _UNPORTABLE.sub(lambda found: _hex(found[0]), part)
    return _hex(escaped[0]) + escaped[1:] if _DEVICE.match(escaped) else escaped


def _hex(text: str) -> str:
    return "".join(f"={byte:02X}" for byte in text.encode("utf-8"))


def is_special(path: str | Path) -> bool:
    """Say whether a path is a pipe, socket or device: reading it could last for ever."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
