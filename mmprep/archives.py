"""Zip and tar archives as folders: members are read by name, nothing is unpacked to disk.

Rules
-----
- An archive is a file with one of the suffixes of `SUFFIXES`. A member is a path through it:
  `/data/S2.zip/EDA.csv`. An archive inside an archive is a file like any other.
- Hidden members, folders, links, devices and data sets of mmprep are left out.
- An archive whose list is damaged or cut is refused whole; so is one with a name that is absolute,
  leads out, holds a backslash or NUL, or occurs twice, and one whose members overlap.
- Sizes are not believed: a member with more or fewer bytes than declared is damaged, as is one
  whose checksum differs. Data come block by block, however much they are.
- Lists are kept a process, as long as size, time and inode of the archive stay.
- To go back in deflated data, the decoder goes on from a copy of its state, of which there is one
  every few MiB. bzip2 and xz have none: of such a tar the last part that was decoded is kept,
  lightly packed. Where it is longer than that and its members are not asked for in its order, it is
  read from its begin again and again.
"""

from __future__ import annotations

import bz2
import lzma
import os
import re
import stat
import struct
import tarfile
import threading
import weakref
import zipfile
import zlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from io import DEFAULT_BUFFER_SIZE, BufferedReader, RawIOBase
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from mmprep.errors import DataError

TARS = {
    ".tar": "",
    ".tar.gz": "gz",
    ".tgz": "gz",
    ".tar.bz2": "bz2",
    ".tbz2": "bz2",
    ".tar.xz": "xz",
    ".txz": "xz",
}
SUFFIXES = (".zip", *TARS)
MARK = ".mmprep"
AnyPath: TypeAlias = str | os.PathLike[str]

BLOCK_BYTES = 1 << 15
READ_BYTES = 1 << 16
MARK_BLOCKS = 128  # between two kept states of a decoder: 4 MiB
MOST_MARKS = 128
RECENT_BYTES = {"gz": 4 << 20, "bz2": 64 << 20, "xz": 64 << 20}
HEAD_BYTES = DEFAULT_BUFFER_SIZE
MOST_HEADS = 1 << 13
HEADER_BYTES = 16 << 20
XZ_MEMORY_BYTES = 1 << 30

_AGAIN = "fetch it again; nothing of it was kept"
_DRIVE = re.compile(r"[A-Za-z]:/")
# zipfile raises NotImplementedError for packing methods and versions that it does not know.
_ZIP_DAMAGE = (zipfile.BadZipFile, struct.error, ValueError, OverflowError, NotImplementedError)
_TAR_DAMAGE = (tarfile.TarError, ValueError, OverflowError, EOFError, RecursionError)


@dataclass(frozen=True, slots=True)
class Entry:
    """A member.

    Parameters
    ----------
    begin : int
        Where its data are; in a zip its header.
    n_packed, n_bytes : int
        Bytes as stored and as declared.
    method : int, optional
        How a zip packs it.
    crc : int, optional
        The CRC-32 of its data.
    fault : str, optional
        Why it can't be read.
    """

    begin: int
    n_packed: int
    n_bytes: int
    method: int | None = None
    crc: int | None = None
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """The members of an archive by name, sorted; or what is wrong with it."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    fault: str | None = None


_MAY_PASS = re.compile(r"\.(zip|tar|tgz|tbz2|txz)(\.|/|\\|$)", re.IGNORECASE)


def may_pass(path: str) -> bool:
    """Say whether a path may go through an archive, by its letters alone: most do not."""
    return _MAY_PASS.search(path) is not None


def suffix_of(name: str) -> str:
    """Give the suffix that makes a name that of an archive, as it is spelled; empty for others."""
    if not may_pass(name):
        return ""
    lower = name.lower()
    return next((name[-len(end) :] for end in SUFFIXES if lower.endswith(end) and lower != end), "")


def is_archive(path: AnyPath) -> bool:
    """Say whether a path is a file named as an archive."""
    return bool(suffix_of(os.path.basename(path))) and os.path.isfile(path)


def split(path: AnyPath) -> tuple[str, str] | None:
    """Part a path into archive and member; the member is empty for the archive itself.

    Returns
    -------
    (archive, member) or None
        None where no archive is on the way.
    """
    if not may_pass(os.fspath(path)):
        return None
    parts = Path(path).parts
    for n in range(len(parts), 0, -1):
        if suffix_of(parts[n - 1]) and is_archive(found := os.path.join(*parts[:n])):
            return found, "/".join(parts[n:])
    return None


def names(archive: str) -> tuple[str, ...]:
    """Name the members of an archive, sorted.

    Raises
    ------
    DataError
        It is refused.
    """
    return tuple(_entries(archive))


def entry(archive: str, member: str) -> Entry | None:
    """Give a member; None if there is none of that name.

    Raises
    ------
    DataError
        The archive is refused.
    """
    return _entries(archive).get(member)


def open_member(archive: str, member: str) -> RawIOBase:
    """Open a member.

    Raises
    ------
    DataError
        The archive or the member can't be read.
    FileNotFoundError
        There is none of that name.
    """
    where, known = f"{archive}/{member}", entry(archive, member)
    if known is None:
        raise FileNotFoundError(2, os.strerror(2), where)
    if known.fault is not None:
        hint = "unpack the archive, and convert the folder"
        raise DataError(known.fault, where=where, hint=hint)
    if known.method is not None:
        return _zip_member(archive, known, where)
    packed = _kind(archive)
    source = _stream(archive, packed, *_stamp(archive)) if packed else _OnDisk(archive)
    return _Member(source, known, known.begin, where)


def _entries(archive: str) -> Mapping[str, Entry]:
    listing = _listing(archive, *_stamp(archive))
    if listing.fault is not None:
        raise DataError(listing.fault, where=archive, hint=_AGAIN)
    return listing.entries


def _stamp(archive: str) -> tuple[int, int, int]:
    status = os.stat(archive)
    return status.st_size, status.st_mtime_ns, status.st_ino


def _kind(archive: str) -> str:
    """Say how a tar is packed."""
    return TARS[suffix_of(os.path.basename(archive)).lower()]


@lru_cache(maxsize=256)
def _listing(archive: str, n_bytes: int, mtime_ns: int, inode: int) -> Listing:
    try:
        if archive.lower().endswith(".zip"):
            found = _zip_entries(archive, n_bytes)
        else:
            found = _tar_entries(archive, n_bytes, mtime_ns, inode)
        return Listing(_chosen(found))
    except DataError as error:
        return Listing(fault=error.what)


# Names --------------------------------------------------------------------------------------------


def _chosen(found: Iterable[tuple[str, Entry | None]]) -> dict[str, Entry]:
    """Check all names, and keep the files that are not hidden, sorted.

    Raises
    ------
    DataError
        A name may lead elsewhere, or is not the only one.
    """
    kept: dict[str, Entry] = {}
    sets: set[str] = set()
    for said, one in found:
        name = _checked(said)
        parts = name.split("/")
        if MARK in parts:
            sets.add("/".join(parts[: parts.index(MARK)]))
        if one is None or any(part.startswith(".") for part in parts):
            continue
        if not name:
            raise DataError("refused: a member has no name")
        if name in kept:
            raise DataError(f"refused: the member {name!r} occurs twice")
        kept[name] = one
    return {name: kept[name] for name in sorted(kept) if sets.isdisjoint(_folders(name))}


def _checked(name: str) -> str:
    """Give a name without `./`, doubled and trailing slashes."""
    parts = [part for part in name.split("/") if part not in {"", "."}]
    is_bad = name.startswith("/") or "\\" in name or "\0" in name or ".." in parts
    if is_bad or _DRIVE.match(name):
        raise DataError(f"refused: the name of the member {name!r} is no path below the archive")
    return "/".join(parts)


def _folders(name: str) -> Iterator[str]:
    """Give the folders around a member, the archive itself as an empty name."""
    while name:
        name = name.rpartition("/")[0]
        yield name


def _decoded(raw: bytes, otherwise: str) -> str:
    """Decode a name: UTF-8, else GB18030 where high bytes come in pairs, else as said."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        is_paired = all(len(run) % 2 == 0 for run in re.findall(rb"[\x81-\xfe]+", raw))
    try:
        return raw.decode("gb18030" if is_paired else otherwise)
    except UnicodeDecodeError:
        return raw.decode(otherwise)


# Bytes --------------------------------------------------------------------------------------------


class _Source(Protocol):
    """Bytes at any place; fewer than asked for only at the end."""

    def read(self, begin: int, n_bytes: int) -> bytes: ...


class _OnDisk:
    """A file, which is closed when nobody has it any more."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        self._lock = threading.Lock()
        weakref.finalize(self, os.close, self._descriptor)

    def read(self, begin: int, n_bytes: int) -> bytes:
        """Read some bytes."""
        if hasattr(os, "pread"):
            return os.pread(self._descriptor, n_bytes, begin)
        with self._lock:
            os.lseek(self._descriptor, begin, os.SEEK_SET)
            return os.read(self._descriptor, n_bytes)


class _Member(RawIOBase):
    """A part of a source as a file, its size and checksum verified where it is read to its end."""

    def __init__(self, source: _Source, known: Entry, begin: int, where: str) -> None:
        self.name = where
        self._source, self._known, self._begin = source, known, begin
        self._at = self._summed = self._crc = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._known.n_bytes}[whence]
        if start + offset < 0:
            raise ValueError(f"a place of {start + offset}")
        self._at = start + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        left = max(0, self._known.n_bytes - self._at)
        data = self._source.read(self._begin + self._at, min(len(view), left))
        if len(data) < min(len(view), left):
            raise self._damaged(f"ends {left - len(data)} bytes before the size declared")
        view[: len(data)] = data
        self._sum(data)
        self._at += len(data)
        if self._at == self._known.n_bytes:
            self._check()
        return len(data)

    def _sum(self, data: bytes) -> None:
        if self._at == self._summed and self._known.crc is not None:
            self._crc = zlib.crc32(data, self._crc)
            self._summed += len(data)

    def _check(self) -> None:
        is_packed = self._known.method not in {None, zipfile.ZIP_STORED}
        if is_packed and self._source.read(self._begin + self._at, 1):
            raise self._damaged(f"holds more than the {self._at} bytes declared")
        is_summed = self._known.crc is not None and self._summed == self._at
        if is_summed and self._crc != self._known.crc:
            raise self._damaged("its checksum differs")

    def _damaged(self, what: str) -> DataError:
        return DataError(f"is damaged or cut: {what}", where=self.name, hint=_AGAIN)


# Packed bytes -------------------------------------------------------------------------------------


class _Inflate:
    """zlib's decoder, with the ways of those of bz2 and lzma, and one that can be copied."""

    def __init__(self, window: int, state: Any = None) -> None:
        self._window, self._state = window, state or zlib.decompressobj(window)

    @property
    def eof(self) -> bool:
        """Whether the data have ended."""
        return bool(self._state.eof)

    @property
    def unused_data(self) -> bytes:
        """What follows them."""
        return bytes(self._state.unused_data)

    def decompress(self, data: bytes, n_bytes: int) -> bytes:
        """Take data, and give at most so many bytes."""
        return bytes(self._state.decompress(self._state.unconsumed_tail + data, n_bytes))

    def copy(self) -> _Inflate:
        """Give a decoder that goes on from here."""
        return _Inflate(self._window, self._state.copy())


_RAW_DEFLATE, _GZIP = -15, 31
_DECODERS: Mapping[str, Callable[[], Any]] = {
    "deflate": lambda: _Inflate(_RAW_DEFLATE),
    "gz": lambda: _Inflate(_GZIP),
    "bz2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(memlimit=XZ_MEMORY_BYTES),
}
_METHODS = {zipfile.ZIP_DEFLATED: "deflate", zipfile.ZIP_BZIP2: "bz2"}


@dataclass(frozen=True, slots=True)
class _Mark:
    """A place to go on from: the next block, where its data are, the decoder before it."""

    block: int
    at: int
    decoder: Any


class _Unpacked:
    """What packed bytes hold, at any place.

    Parameters
    ----------
    begin, end : int
        Where the packed bytes are.
    kind : str
        A key of `_DECODERS`.
    n_kept : int
        So many bytes of what was decoded last are kept.
    """

    def __init__(
        self, packed: _Source, begin: int, end: int, kind: str, *, n_kept: int, where: str
    ) -> None:
        self._packed, self._begin, self._end, self._kind = packed, begin, end, kind
        self._most_kept, self._n_kept, self._where = n_kept, 0, where
        self._recent: OrderedDict[int, bytes] = OrderedDict()
        self._is_squeezed = kind in {"bz2", "xz"}
        self._heads: dict[int, bytes] = {}
        self._marks, self._spacing = [_Mark(0, begin, None)], MARK_BLOCKS
        self._lock = threading.Lock()
        self._go_to(self._marks[0])

    def read(self, begin: int, n_bytes: int) -> bytes:
        """Read some bytes."""
        with self._lock:
            head = self._heads.get(begin, b"")
            return head[:n_bytes] if n_bytes <= len(head) else self._joined(begin, n_bytes)

    def _joined(self, begin: int, n_bytes: int) -> bytes:
        first, last = begin // BLOCK_BYTES, (begin + n_bytes - 1) // BLOCK_BYTES
        parts = []
        for index in range(first, last + 1):
            parts.append(self._block(index))
            if len(parts[-1]) < BLOCK_BYTES:
                break
        whole = parts[0] if len(parts) == 1 else b"".join(parts)
        at = begin - first * BLOCK_BYTES
        return whole if at == 0 and len(whole) == n_bytes else whole[at : at + n_bytes]

    def keep_head(self, begin: int) -> None:
        """Keep what a member begins with: readers look at it again and again."""
        if len(self._heads) < MOST_HEADS:
            self._heads[begin] = self.read(begin, HEAD_BYTES)

    def read_to_end(self) -> None:
        """Decode what is left, for what its end says of the whole."""
        with self._lock:
            while self._decoded():
                pass

    def _block(self, index: int) -> bytes:
        known = self._recent.get(index)
        if known is not None:
            return zlib.decompress(known) if self._is_squeezed else known
        place = bisect_right(self._marks, index, key=lambda mark: mark.block) - 1
        if not self._next <= index or self._marks[place].block > self._next:
            self._go_to(self._marks[place])
        while self._next <= index:
            number, data = self._next, self._decoded()
            if not data:
                return b""
            self._keep(number, data)
        return data

    def _keep(self, number: int, data: bytes) -> None:
        """Keep a block, and forget the first ones where there are too many."""
        kept = zlib.compress(data, 1) if self._is_squeezed else data
        self._n_kept += len(kept) - len(self._recent.pop(number, b""))
        self._recent[number] = kept
        while self._n_kept > self._most_kept:
            self._n_kept -= len(self._recent.popitem(last=False)[1])

    def _go_to(self, mark: _Mark) -> None:
        self._next, self._at, self._left = mark.block, mark.at, b""
        self._decoder = mark.decoder.copy() if mark.decoder else _DECODERS[self._kind]()
        self._is_over = False

    def _decoded(self) -> bytes:
        """Decode the next block."""
        try:
            data = b"".join(self._pieces(BLOCK_BYTES))
        except BaseException:
            self._go_to(self._marks[0])
            raise
        if data:
            self._next += 1
            self._mark()
        return data

    def _pieces(self, n_bytes: int) -> Iterator[bytes]:
        while n_bytes and not self._is_over:
            if self._decoder.eof:
                self._next_part()
                continue
            if piece := self._piece(b"", n_bytes) or self._piece(self._more(), n_bytes):
                yield piece
                n_bytes -= len(piece)

    def _piece(self, data: bytes, n_bytes: int) -> bytes:
        try:
            return bytes(self._decoder.decompress(data, n_bytes))
        except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError) as error:
            raise self._damaged(str(error)) from error

    def _more(self) -> bytes:
        """Give the packed bytes that follow."""
        data, self._left = self._left, b""
        if not data:
            data = self._packed.read(self._at, min(READ_BYTES, self._end - self._at))
            self._at += len(data)
        if not data:
            raise self._damaged("the end is missing")
        return data

    def _next_part(self) -> None:
        """Begin the next of several packed files in one; zeros may fill up the last one."""
        rest = self._decoder.unused_data
        while self._kind != "deflate":
            self._left = rest.lstrip(b"\0")
            if self._left or self._at >= self._end:
                break
            rest = self._more()
        if self._left:
            self._decoder = _DECODERS[self._kind]()
        else:
            self._is_over = True

    def _mark(self) -> None:
        is_new = self._next >= self._marks[-1].block + self._spacing
        if not is_new or self._left or not isinstance(self._decoder, _Inflate):
            return
        self._marks.append(_Mark(self._next, self._at, self._decoder.copy()))
        if len(self._marks) > MOST_MARKS:
            self._marks, self._spacing = self._marks[::2], 2 * self._spacing

    def _damaged(self, what: str) -> DataError:
        what = f"the {self._kind} data are damaged or cut: {what}"
        return DataError(what, where=self._where, hint=_AGAIN)


# Zip ----------------------------------------------------------------------------------------------

_ZIP_MAGIC = (b"PK\3\4", b"PK\5\6")
_ENCRYPTED, _UTF8 = 0x1, 0x800
_LOCAL_BYTES = 30


def _zip_entries(archive: str, n_bytes: int) -> list[tuple[str, Entry | None]]:
    source = _OnDisk(archive)
    if source.read(0, 4) not in _ZIP_MAGIC:
        raise DataError("is no zip file, or was cut")
    whole = BufferedReader(_Member(source, Entry(0, n_bytes, n_bytes), 0, archive))
    try:
        with zipfile.ZipFile(whole) as opened:
            infos = opened.infolist()
    except _ZIP_DAMAGE as error:
        raise DataError(f"the zip file is damaged or cut: {error}") from error
    _check_apart(infos)
    return [(_zip_name(info), _zip_entry(info)) for info in infos]


def _check_apart(infos: Iterable[zipfile.ZipInfo]) -> None:
    """Refuse members that share bytes: so a small file could hold any number of large ones."""
    ends = 0
    for info in sorted(infos, key=lambda info: info.header_offset):
        if info.header_offset < ends:
            raise DataError(f"refused: the member {info.filename!r} overlaps another one")
        ends = info.header_offset + _LOCAL_BYTES + info.compress_size


def _zip_name(info: zipfile.ZipInfo) -> str:
    if info.flag_bits & _UTF8:
        return info.orig_filename
    return _decoded(info.orig_filename.encode("cp437"), "cp437")


def _zip_entry(info: zipfile.ZipInfo) -> Entry | None:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if info.filename.endswith("/") or kind not in {0, stat.S_IFREG}:
        return None
    method, fault = info.compress_type, None
    if info.flag_bits & _ENCRYPTED:
        fault = "is encrypted"
    elif method != zipfile.ZIP_STORED and method not in _METHODS:
        fault = f"is packed by a method that mmprep does not read ({method})"
    elif method == zipfile.ZIP_STORED and info.compress_size != info.file_size:
        fault = f"is declared to hold {info.file_size} bytes, and has {info.compress_size}"
    begin, crc = info.header_offset, info.CRC
    return Entry(begin, info.compress_size, info.file_size, method, crc, fault)


def _zip_member(archive: str, known: Entry, where: str) -> _Member:
    source = _OnDisk(archive)
    head = source.read(known.begin, _LOCAL_BYTES)
    if len(head) < _LOCAL_BYTES or head[:4] != _ZIP_MAGIC[0]:
        raise DataError("is damaged or cut: it has no header", where=where, hint=_AGAIN)
    begin = known.begin + _LOCAL_BYTES + sum(struct.unpack("<HH", head[26:]))
    if known.method == zipfile.ZIP_STORED:
        return _Member(source, known, begin, where)
    kind = _METHODS[known.method or 0]
    end = begin + known.n_packed
    return _Member(
        _Unpacked(source, begin, end, kind, n_kept=2 * BLOCK_BYTES, where=where), known, 0, where
    )


# Tar ----------------------------------------------------------------------------------------------

_MAGICS = {"gz": b"\x1f\x8b", "bz2": b"BZh", "xz": b"\xfd7zXZ\0"}


class _Headers(RawIOBase):
    """A tar as tarfile goes through it: headers are read, data are skipped."""

    def __init__(self, source: _Source) -> None:
        self._source, self._at = source, 0

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence != os.SEEK_SET or offset < 0:
            raise ValueError(f"a place of {offset}")
        self._at = offset
        return offset

    def read(self, n_bytes: int | None = -1) -> bytes:
        if n_bytes is None or not 0 <= n_bytes <= HEADER_BYTES:
            raise ValueError(f"a header of {n_bytes} bytes")
        data = self._source.read(self._at, n_bytes) if n_bytes else b""
        self._at += len(data)
        return data


@lru_cache(maxsize=2)
def _stream(archive: str, packed: str, n_bytes: int, mtime_ns: int, inode: int) -> _Unpacked:
    """Give what a packed tar holds: one for all of its members, so that it is decoded once."""
    on_disk = _OnDisk(archive)
    if not on_disk.read(0, 6).startswith(_MAGICS[packed]):
        raise DataError(f"is no {packed} file")
    return _Unpacked(on_disk, 0, n_bytes, packed, n_kept=RECENT_BYTES[packed], where=archive)


def _tar_entries(
    archive: str, n_bytes: int, mtime_ns: int, inode: int
) -> list[tuple[str, Entry | None]]:
    packed = _kind(archive)
    if not packed:
        return list(_tar_list(_OnDisk(archive)))
    stream = _stream(archive, packed, n_bytes, mtime_ns, inode)
    found = []
    for name, one in _tar_list(stream):
        if one is not None and one.n_bytes:
            stream.keep_head(one.begin)
        found.append((name, one))
    stream.read_to_end()
    return found


def _tar_list(source: _Source) -> Iterator[tuple[str, Entry | None]]:
    end = 0
    try:
        opened = tarfile.open(  # noqa: SIM115 - holds nothing that needs closing
            fileobj=_Headers(source), mode="r:", encoding="utf-8", errors="surrogateescape"
        )
        while (info := opened.next()) is not None:
            opened.members.clear()  # type: ignore[attr-defined]
            if info.size < 0 or info.offset_data <= end:
                raise DataError(f"the tar file is damaged: a member after byte {end}")
            end = info.offset_data
            yield _tar_name(info), _tar_entry(info)
        mark = source.read(opened.offset, tarfile.BLOCKSIZE)
    except _TAR_DAMAGE as error:
        raise DataError(f"the tar file is damaged or cut: {error}") from error
    if mark != bytes(tarfile.BLOCKSIZE):
        raise DataError(f"the tar file is damaged or cut at byte {opened.offset}")


def _tar_name(info: tarfile.TarInfo) -> str:
    return _decoded(info.name.encode("utf-8", "surrogateescape"), "latin-1")


def _tar_entry(info: tarfile.TarInfo) -> Entry | None:
    if not info.isreg():
        return None
    fault = "is a sparse member" if info.issparse() else None
    return Entry(info.offset_data, info.size, info.size, fault=fault)
