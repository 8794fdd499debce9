"""Raw text as blocks of whole lines: decompress, decode, cut at line ends.

Rules
-----
- Blocks are read with `read()`; a map of the whole file would count as memory.
- A block ends at a line end (LF, CRLF or CR), so it can be parsed alone. All blocks but the last
  are cut at places that depend on the file's bytes only.
- Blocks are UTF-8 without a byte order mark, and their lines end in LF.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from io import BufferedIOBase, BufferedReader, RawIOBase
from pathlib import Path
from typing import Any, Protocol, cast

import pyarrow as pa

from mmprep import files
from mmprep.errors import DataError

BLOCK_BYTES = 4 << 20
READ_BYTES, SMALL_BYTES = 1 << 20, 16 << 10
LONGEST_LINE_BYTES = 64 << 20
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (b"\x84\x31\x95\x33", "gb18030"),
)
_DAMAGE = (EOFError, zlib.error, lzma.LZMAError, OSError)


class Hasher(Protocol):
    """A running hash, as of hashlib and xxhash."""

    def update(self, data: bytes, /) -> object:
        """Take more bytes."""


@dataclass(frozen=True, slots=True)
class Block:
    """Some whole lines of a file.

    Parameters
    ----------
    data : bytes
        UTF-8; each line ends in LF, but for the last one of the file where that has no line end.
    is_last : bool
        Nothing follows.
    """

    data: bytes
    is_last: bool


@dataclass(slots=True)
class Salvage:
    """What is left of a packed file that is damaged or cut.

    Parameters
    ----------
    reason : str
        What is wrong; empty while all is well.
    rest : bytes
        The line that the damage cuts.
    """

    reason: str = ""
    rest: bytes = b""


class _Observed(RawIOBase):
    """A raw file whose bytes are shown to a hash as they are read."""

    def __init__(self, path: Path, hasher: Hasher | None) -> None:
        self._file: Any = files.open_input(path, buffering=0)
        self._hasher = hasher

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        n_bytes = self._file.readinto(buffer)
        if self._hasher is not None and n_bytes:
            self._hasher.update(bytes(memoryview(buffer)[:n_bytes]))
        return n_bytes or 0

    def close(self) -> None:
        self._file.close()
        super().close()


def _zstd(raw: BufferedIOBase) -> BufferedIOBase:
    return cast(BufferedIOBase, pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd"))


_OPENERS: dict[str, Callable[[Any], Any]] = {
    ".gz": lambda raw: gzip.GzipFile(fileobj=raw, mode="rb"),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
    ".zst": _zstd,
}


def is_compressed(path: Path) -> bool:
    """Say whether the name says that a file is compressed."""
    return path.suffix.lower() in COMPRESSED


def raw_blocks(
    path: Path,
    *,
    n_bytes: int = BLOCK_BYTES,
    hasher: Hasher | None = None,
    where: str = "",
    span: tuple[int, int] | None = None,
    salvage: Salvage | None = None,
) -> Generator[bytes]:
    """Read a file in blocks of its decompressed bytes.

    Parameters
    ----------
    span : (begin, end), optional
        Only these bytes of a plain file, `[begin, end)`.
    salvage : Salvage, optional
        Takes note of damage, after all that can be read.

    Raises
    ------
    DataError
        The compressed data are damaged or cut, and nobody takes note of it.
    """
    if not is_compressed(path):
        yield from _plain(path, n_bytes, hasher, span)
        return
    with BufferedReader(_Observed(path, hasher), READ_BYTES) as raw:
        yield from _unpacked(raw, path, n_bytes, where or str(path), salvage)


def _plain(
    path: Path, n_bytes: int, hasher: Hasher | None, span: tuple[int, int] | None
) -> Iterator[bytes]:
    with files.open_input(path, buffering=0) as file:
        begin, end = span or (0, None)
        file.seek(begin)
        while block := file.read(n_bytes if end is None else min(n_bytes, end - file.tell())):
            if hasher is not None:
                hasher.update(block)
            yield block


def count_lines(path: Path, end: int) -> int:
    """Count the line ends in the first bytes of a plain file."""
    return sum(block.count(b"\n") for block in raw_blocks(path, span=(0, end)))


def line_starts(path: Path, n_bytes: int) -> list[int]:
    """Find where lines start that cut a plain file into parts of about a size.

    Returns
    -------
    list of int
        For each whole multiple of `n_bytes` the first line start at or after it, in bytes. Empty
        where lines are too long, or do not end in LF.
    """
    size, found = path.stat().st_size, []
    with path.open("rb", buffering=0) as file:
        for wanted in range(n_bytes, size, n_bytes):
            at = wanted - 1
            file.seek(at)
            while block := file.read(READ_BYTES):
                if (cut := block.find(b"\n")) >= 0:
                    found.append(at + cut + 1)
                    break
                at += len(block)
                if at - wanted > LONGEST_LINE_BYTES:
                    return []
    return [start for start in dict.fromkeys(found) if start < size]


def _unpacked(
    raw: BufferedIOBase, path: Path, n_bytes: int, where: str, salvage: Salvage | None
) -> Iterator[bytes]:
    kind = path.suffix.lower()
    try:
        file = _OPENERS[kind](raw)
        yield from _pieces(file, n_bytes)
    except _DAMAGE as error:
        said = f"the {kind[1:]} data are damaged or cut: {error}"
        if salvage is None:
            hint = "fetch the file again, or keep what can be read by --on-bad-row skip"
            raise DataError(said, where=where, hint=hint) from error
        salvage.reason = said
    while raw.read(n_bytes):  # what follows the data counts for the hash
        pass


def _pieces(file: Any, n_bytes: int) -> Iterator[bytes]:
    """Read a packed file in equal pieces, before damage as many bytes as there are."""
    taken, n_taken = [], 0
    is_arrow = isinstance(file, pa.NativeFile)  # gives all that is asked for, or nothing
    size = SMALL_BYTES if is_arrow else READ_BYTES
    try:
        while piece := file.read1(min(size, n_bytes - n_taken)):
            taken.append(piece)
            n_taken += len(piece)
            if n_taken == n_bytes:
                yield b"".join(taken)
                taken, n_taken = [], 0
    except _DAMAGE:
        if taken:
            yield b"".join(taken)
        raise
    if taken:
        yield b"".join(taken)


def head(path: Path, n_bytes: int, where: str = "") -> bytes:
    """Read the first bytes of a file, decompressed; fewer only where it ends.

    Before damage, whole lines; damage is noticed here only where there is none.
    """
    taken, n_taken, salvage = [], 0, Salvage()
    with closing(raw_blocks(path, n_bytes=n_bytes, where=where, salvage=salvage)) as blocks:
        for block in blocks:
            taken.append(block)
            n_taken += len(block)
            if n_taken >= n_bytes:
                break
    found = b"".join(taken)[:n_bytes]
    if salvage.reason and n_taken < n_bytes:
        found = found[: max(found.rfind(b"\n"), found.rfind(b"\r")) + 1]
        if not found:
            raise DataError(salvage.reason, where=where or str(path), hint="fetch the file again")
    return found


def detect_encoding(sample: bytes, *, is_whole: bool = True) -> tuple[str, str | None]:
    """Name the encoding of a text by its first bytes.

    Returns
    -------
    encoding : str
        By byte order mark; else UTF-16 where every other byte is zero; else UTF-8 if all of it or
        some line beyond ASCII is valid; else GB18030 where high bytes come in pairs as Chinese
        has them; else Latin-1.
    note : str or None
        What to say where it is a judgement.
    """
    for mark, encoding in _BOMS:
        if sample.startswith(mark):
            return encoding, None
    found = _without_mark(sample, is_whole=is_whole)
    if found == "utf-8":
        return found, None
    return found, f"the text is not UTF-8, read as {found}; --encoding says otherwise"


def _without_mark(sample: bytes, *, is_whole: bool) -> str:
    if sample.isascii() and b"\0" not in sample:
        return "utf-8"
    even, odd = sample[0:4096:2].count(0), sample[1:4096:2].count(0)
    n_pairs = max(1, len(sample[:4096]) // 2)
    if max(even, odd) > 0.4 * n_pairs and min(even, odd) < 0.1 * n_pairs:
        return "utf-16-le" if odd > even else "utf-16-be"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample, is_whole)
    except UnicodeDecodeError:
        if any(map(_is_utf8, _high_lines(sample))):
            return "utf-8"  # most likely a few damaged lines
        return "gb18030" if _is_chinese(sample) else "latin-1"
    return "utf-8"


def _high_lines(sample: bytes) -> Iterator[bytes]:
    return (line for line in sample.split(b"\n") if not line.isascii())


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _is_chinese(sample: bytes) -> bool:
    run = 0
    for byte in (*sample, 0):
        if byte >= 0x80:
            run += 1
            if not 0xA1 <= byte <= 0xFE:
                return False
        elif run % 2:
            return False
        else:
            run = 0
    return True


def decode(data: bytes, encoding: str) -> bytes:
    """Turn the first bytes of a file into UTF-8 lines that end in LF."""
    decoder = _Decoder(encoding)
    return decoder.feed(data, is_last=False)


class _Decoder:
    """Raw bytes in, UTF-8 with LF out; holds back what may go on in the next bytes."""

    def __init__(self, encoding: str) -> None:
        self._is_utf8 = codecs.lookup(encoding).name == "utf-8"
        self._text = codecs.getincrementaldecoder(encoding)()
        self._is_first, self._held = True, b""

    def feed(self, data: bytes, *, is_last: bool) -> bytes:
        if not self._is_utf8:
            data = self._text.decode(data, is_last).encode("utf-8")
        if self._is_first and data:
            data, self._is_first = data.removeprefix(codecs.BOM_UTF8), False
        return self._line_ends(data, is_last=is_last)

    def _line_ends(self, data: bytes, *, is_last: bool) -> bytes:
        data = self._held + data if self._held else data
        self._held = b""
        if not is_last and data.endswith(b"\r"):
            data, self._held = data[:-1], b"\r"
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data


def text_blocks(
    path: Path,
    *,
    encoding: str = "utf-8",
    n_bytes: int = BLOCK_BYTES,
    hasher: Hasher | None = None,
    where: str = "",
    span: tuple[int, int] | None = None,
    salvage: Salvage | None = None,
) -> Iterator[Block]:
    """Read a text file as blocks of whole lines.

    Parameters
    ----------
    salvage : Salvage, optional
        Takes note of damage to packed data; the lines before it are read.

    Raises
    ------
    DataError
        The compressed data are damaged, the text is not in its encoding, or a line is longer than
        64 MiB.
    """
    where = where or str(path)
    decoder, kept = _Decoder(encoding), b""
    raw = raw_blocks(path, n_bytes=n_bytes, hasher=hasher, where=where, span=span, salvage=salvage)
    for data, is_last in _with_end(raw):
        is_damaged = salvage is not None and bool(salvage.reason)
        try:
            text = decoder.feed(data, is_last=is_last and not is_damaged)
        except UnicodeError as error:
            why = str(error)
            if isinstance(error, UnicodeDecodeError):
                why = f"{error.reason} at byte {error.start} of a block"
            raise DataError(
                f"the text is not {encoding}: {why}",
                where=where,
                hint="say its encoding by --encoding",
            ) from error
        cut = len(text) if is_last and not is_damaged else text.rfind(b"\n") + 1
        if salvage is not None and is_damaged and is_last:
            salvage.rest = text[cut:] if cut else kept + text
            kept = kept if cut else b""
        if cut or is_last:
            yield Block(b"".join((kept, memoryview(text)[:cut])), is_last)
            kept = text[cut:]
        else:
            kept += text
        if len(kept) > LONGEST_LINE_BYTES:
            raise DataError(
                f"no line end within {LONGEST_LINE_BYTES >> 20} MiB",
                where=where,
                hint="this is no text table",
            )


def _with_end(blocks: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    before: bytes | None = None
    for block in blocks:
        if before is not None:
            yield before, False
        before = block
    yield before or b"", True


def spread_samples(path: Path, n_samples: int, n_bytes: int) -> list[bytes]:
    """Read pieces of whole lines spread evenly over a plain UTF-8 file, the end included.

    Returns
    -------
    list of bytes
        Lines that end in LF; the first, perhaps cut, line of each piece is left out.
    """
    size = path.stat().st_size
    pieces = []
    with path.open("rb", buffering=0) as file:
        for index in range(1, n_samples + 1):
            file.seek(max(0, (size - n_bytes) * index // n_samples))
            piece = file.read(n_bytes).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            begin, end = piece.find(b"\n") + 1, piece.rfind(b"\n") + 1
            pieces.append(piece[begin:end])
    return [piece for piece in pieces if piece]
