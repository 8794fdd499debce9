"""Bytes on disk: hashes, fingerprints, links, syncs, the exchange of two folders, locks.

Rules
-----
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
from pathlib import Path

import xxhash

from mmprep.errors import DataError, MmprepError, SpaceError, TransientError, UsageError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

BLOCK_BYTES = 1 << 17  # what is read stays in the processor's cache until it is hashed
SPACE_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
AT_FDCWD, RENAME_EXCHANGE = -100, 2
SYNC_FILE_RANGE_WRITE = 2


@dataclass(frozen=True, slots=True)
class FileStamp:
    """What tells an unchanged file without reading it."""

    n_bytes: int
    mtime_ns: int
    inode: int


def stamp(path: str | Path) -> FileStamp:
    """Read size, modification time and inode of a file."""
    status = os.stat(path)
    return FileStamp(status.st_size, status.st_mtime_ns, status.st_ino)


def join(root: str | Path, name: str) -> str:
    """Join as text: a `Path` takes longer than a look at the file, and a walk has many."""
    top = str(root)
    return f"{top}{name}" if top.endswith(os.sep) else f"{top}{os.sep}{name}"


def last_suffix(name: str) -> str:
    """Give the last suffix of a name with `/`, as `PurePosixPath` does, in a tenth of its time."""
    stem, _, end = name.rpartition("/")[2].rpartition(".")
    return f".{end}" if stem and end else ""


def blocks(path: str | Path, n_bytes: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Read a file block by block."""
    with open(path, "rb", buffering=0) as file:
        while block := file.read(n_bytes):
            yield block


def running_digest() -> xxhash.xxh3_128:
    """Begin a fingerprint that is shown bytes as they are read."""
    return xxhash.xxh3_128()


def digest(path: str | Path) -> str:
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
