"""Read the first bytes of an audio file: who can decode it, and what its header declares.

Samples of a plain wav need no decoder, and numpy reads them twice as fast as libsndfile does.
libsndfile has the first try at whatever it knows by its first bytes. RAW has none, SD2 keeps them
in a second file, and a `.mat` is a table here.

libsndfile 1.2.2 (the last release, bundled by soundfile) has known holes and misreadings:

- IMA ADPCM overflows while the header is parsed (CVE-2026-37555), so the codec is looked up here,
  before libsndfile sees the file: of wav and W64 only the codecs of PLAIN_WAV go to it, of CAF
  those of PLAIN_CAF. On the other hand FFmpeg plays G.721, G.723 and NMS as noise.
- AU and CAF whose data size is none, or more than there is, read as empty, cut or broken; such AU
  is left to numpy. VOC of several blocks is read with the heads of the blocks as sound.
- FLAC after an ID3 tag, with more than 24 bits, or without a sample count breaks off or is refused.
- MP3 is left to FFmpeg: soundfile seeks after each block, which restarts the MP3 decoder, and
  libmpg123 prints about damaged frames to stderr.
- A wav of data size 0 that was streamed reads as empty; here its data reach to the end.
- 24 bits kept in 4 bytes are misread by both, so such a file is refused.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from mmprep import files
from mmprep.errors import DataError

SAMPLED_WAV = frozenset({1, 3, 6, 7})  # PCM, float, A-law, u-law
PLAIN_WAV = SAMPLED_WAV | {2, 0x38, 0x40}  # MS ADPCM, NMS, G.721
AU_BYTES = {1: 1, 2: 1, 3: 2, 4: 3, 5: 4, 6: 4, 7: 8, 27: 1}  # coding -> bytes a sample
AU_CODES = {2: "i1", 3: "i2", 5: "i4", 6: "f4", 7: "f8"}  # coding -> numpy's code
AU_G72X = frozenset({23, 25, 26})
UNKNOWN_SIZE = 0xFFFFFFFF
PCM_AIFC = frozenset(b"NONE sowt twos in24 in32 42ni 42n1 23ni fl32 FL32 fl64 FL64".split())
PLAIN_CAF = frozenset({b"lpcm", b"alac", b"alaw", b"ulaw"})
EXTENSIBLE = 0xFFFE
MAX_CHUNKS = 10_000
MAX_CHANNELS = 1024
WAV_CODES = {  # (format tag, bits) -> numpy's code, libsndfile's name
    (1, 8): ("u1", "wav/pcm_u8"),
    (1, 16): ("i2", "wav/pcm_16"),
    (1, 32): ("i4", "wav/pcm_32"),
    (1, 64): ("i8", "wav/pcm_64"),
    (3, 32): ("f4", "wav/float"),
    (3, 64): ("f8", "wav/double"),
}
MP3_TAGS = (b"Xing", b"Info")


@dataclass(frozen=True, slots=True)
class WavData:
    """Where the samples of a wav are, for numpy to read.

    Parameters
    ----------
    offset, n_samples : int
        The first byte, and the samples per channel that are in the file.
    dtype : str
        numpy's name of one value, with byte order.
    codec : str
        libsndfile's name of the coding.
    """

    offset: int
    n_samples: int
    n_channels: int
    rate_hz: int
    dtype: str
    codec: str


@dataclass(frozen=True, slots=True)
class Header:
    """What the first bytes say.

    Parameters
    ----------
    kind : str
        The container: `wav`, `flac`, `ogg`, `mp3` …; `other` where FFmpeg is left to find out.
    plain : bool
        libsndfile is to be tried first.
    n_declared : int, optional
        Samples per channel that the header claims.
    wav : WavData, optional
        Samples that need no decoder.
    """

    kind: str
    plain: bool
    n_declared: int | None = None
    wav: WavData | None = None


@dataclass(frozen=True, slots=True)
class _ChunkForm:
    """How a container writes its chunks: the head, what `size` counts, where the next begins."""

    head: struct.Struct
    align: int
    counts_head: bool = False


WAV_CHUNKS = _ChunkForm(struct.Struct("<4sI"), 2)
BIG_CHUNKS = AIFF_CHUNKS = _ChunkForm(struct.Struct(">4sI"), 2)
CAF_CHUNKS = _ChunkForm(struct.Struct(">4sq"), 1)
W64_CHUNKS = _ChunkForm(struct.Struct("<16sQ"), 8, counts_head=True)


@dataclass(frozen=True, slots=True)
class _Format:
    tag: int
    n_channels: int
    rate_hz: int
    block_bytes: int
    n_bits: int
    order: str


OTHER = Header("other", plain=False)


def read_header(path: Path) -> Header:
    """Look at the first bytes of a file.

    Raises
    ------
    DataError
        The file cannot be opened, or holds samples that no decoder here reads right.
    """
    try:
        with files.open_input(path) as file:
            return _header(file, path)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", where=str(path)) from error


def is_sound(path: Path) -> bool:
    """Say whether a file begins as sound does; marks of two bytes are no proof."""
    try:
        return read_header(path).kind not in {"other", "mp3", "mpc2k", "sds"}
    except DataError:
        return False


def _header(file: BinaryIO, path: Path) -> Header:
    start = file.read(24)
    if start[:3] == b"ID3":
        return _after_tag(file, start)
    for magic, parse in _PARSERS.items():
        if start.startswith(magic):
            return parse(file, path)
    if len(start) >= 2 and start[0] == 0xFF and start[1] & 0xE0 == 0xE0 and start[1] & 0x06:
        return _mp3(file, 0)
    if start[:4] in IRCAM:
        return Header("ircam", plain=True)
    return _htk(file, start)


def _htk(file: BinaryIO, start: bytes) -> Header:
    """Know a waveform of HTK, which has no mark: its count of 2-byte samples must fit the file."""
    if len(start) < 12:
        return OTHER
    n_samples, _, n_bytes, kind = struct.unpack(">IIHH", start[:12])
    fits = (n_bytes, kind) == (2, 0) and file.seek(0, 2) == 12 + 2 * n_samples
    return Header("htk", plain=True, n_declared=n_samples) if fits else OTHER


def _chunks(file: BinaryIO, begin: int, form: _ChunkForm) -> Iterator[tuple[bytes, int]]:
    """Go through chunks: name and bytes of content, the file placed at the content."""
    place = begin
    for _ in range(MAX_CHUNKS):
        file.seek(place)
        head = file.read(form.head.size)
        if len(head) < form.head.size:
            return
        name, size = form.head.unpack(head)
        size -= form.head.size if form.counts_head else 0
        yield name, size
        if size < 0:
            return
        place += form.head.size + size
        place += -place % form.align


def _after_tag(file: BinaryIO, start: bytes) -> Header:
    n_bytes = 0
    for byte in start[6:10]:
        n_bytes = n_bytes << 7 | byte & 0x7F
    file.seek(10 + n_bytes)
    magic = file.read(4)
    return Header("flac", plain=False) if magic == b"fLaC" else _mp3(file, 10 + n_bytes)


def _mp3(file: BinaryIO, begin: int) -> Header:
    file.seek(begin)
    return Header("mp3", plain=False, n_declared=_mp3_count(file.read(512)))


def _mp3_count(frame: bytes) -> int | None:
    """Read the sample count of an MPEG layer III file off its Xing tag, less delay and padding."""
    place = max(frame.find(tag) for tag in MP3_TAGS)
    if place < 0 or len(frame) < 2 or len(frame) < place + 160:
        return None
    flags, n_frames = struct.unpack(">II", frame[place + 4 : place + 12])
    if not flags & 1:
        return None
    # The frame header stands 36, 21 or 13 bytes before the tag, by version and channels.
    starts = [place - gap for gap in (36, 21, 13) if place >= gap and frame[place - gap] == 0xFF]
    is_mpeg1 = bool(starts) and frame[starts[0] + 1] >> 3 & 3 == 3
    n_samples = int(n_frames) * (1152 if is_mpeg1 else 576)
    # After the optional fields: nine bytes of encoder name, and 12 bytes on delay and padding.
    lame = place + 8 + 4 * (flags & 1) + 2 * (flags & 2) + 25 * (flags & 4) + (flags & 8) // 2
    if frame[lame : lame + 4] not in (b"LAME", b"Lavc", b"Lavf"):
        return n_samples
    packed = int.from_bytes(frame[lame + 21 : lame + 24], "big")
    return n_samples - (packed >> 12) - (packed & 0xFFF)


def _flac(file: BinaryIO, _path: Path) -> Header:
    file.seek(18)
    packed = int.from_bytes(file.read(8), "big")
    n_samples, n_bits = packed & (1 << 36) - 1, (packed >> 36 & 31) + 1
    return Header("flac", plain=bool(n_samples) and n_bits <= 24, n_declared=n_samples or None)


def _ogg(file: BinaryIO, _path: Path) -> Header:
    file.seek(26)
    n_segments = file.read(1)
    payload = file.read((n_segments[0] if n_segments else 0) + 7)
    return Header("ogg", plain=payload.endswith(b"\x01vorbis"))


def _aiff(file: BinaryIO, _path: Path) -> Header:
    file.seek(8)
    form = file.read(4)
    if form in {b"8SVX", b"16SV"}:
        return Header("svx", plain=True)
    if form not in {b"AIFF", b"AIFC"}:
        return OTHER
    for name, size in _chunks(file, 12, AIFF_CHUNKS):
        if name == b"COMM":
            body = file.read(min(size, 22)).ljust(22, b"\0")
            coding = body[18:] if form == b"AIFC" else b"NONE"
            n_samples = int.from_bytes(body[2:6], "big") if coding in PCM_AIFC else None
            return Header("aiff", plain=coding != b"ima4", n_declared=n_samples)
    return Header("aiff", plain=form == b"AIFF")


def _au(file: BinaryIO, _path: Path) -> Header:
    file.seek(0)
    order = ">" if file.read(4) == b".snd" else "<"
    fields = file.read(20)
    if len(fields) < 20:
        return OTHER
    offset, size, coding, rate_hz, n_channels = struct.unpack(f"{order}5I", fields)
    block = AU_BYTES.get(coding, 0) * n_channels
    if not block:
        return Header("au", plain=coding in AU_G72X)
    n_bytes = max(0, file.seek(0, 2) - offset)
    n_declared = None if size == UNKNOWN_SIZE else size // block
    if size in {UNKNOWN_SIZE, n_bytes} or 0 < size <= n_bytes:
        return Header("au", plain=True, n_declared=n_declared)
    wav = None
    if coding in AU_CODES and n_channels <= MAX_CHANNELS and rate_hz:
        code = order + AU_CODES[coding]
        wav = WavData(offset, n_bytes // block, n_channels, rate_hz, code, f"au/pcm_{code[1:]}")
    return Header("au", plain=order == "<", n_declared=n_declared, wav=wav)


def _caf(file: BinaryIO, _path: Path) -> Header:
    coding, block = b"", 0
    end = file.seek(0, 2)
    for name, size in _chunks(file, 8, CAF_CHUNKS):
        if name == b"desc":
            file.seek(8, 1)
            coding, _, block = struct.unpack(">4sII", file.read(12).ljust(12, b"\0"))
        elif name == b"data":
            n_bytes = size - 4  # after the edit count
            rest = end - file.tell() - 4
            is_whole = 0 < n_bytes <= rest or n_bytes == rest
            n_samples = n_bytes // block if block and n_bytes >= 0 and coding != b"alac" else None
            return Header("caf", plain=is_whole and coding in PLAIN_CAF, n_declared=n_samples)
    return Header("caf", plain=False)


def _w64(file: BinaryIO, _path: Path) -> Header:
    form = None
    for name, size in _chunks(file, 40, W64_CHUNKS):
        if name[:4] == b"fmt ":
            form = _format(file.read(min(size, 40)), "<")
        elif name[:4] == b"data" and form is not None and form.tag in PLAIN_WAV:
            n_samples = max(size, 0) // max(form.block_bytes, 1)
            is_sampled = form.tag in SAMPLED_WAV
            return Header("w64", plain=True, n_declared=n_samples if is_sampled else None)
    return Header("w64", plain=form is None)


def _nist(file: BinaryIO, _path: Path) -> Header:
    file.seek(0)
    found = re.search(rb"^sample_count -i (\d+)", file.read(1024), re.MULTILINE)
    return Header("nist", plain=True, n_declared=int(found[1]) if found else None)


def _plain(kind: str) -> _Parser:
    return lambda _file, _path: Header(kind, plain=True)


def _wav(file: BinaryIO, path: Path) -> Header:
    file.seek(0)
    start = file.read(12)
    if start[8:] != b"WAVE":
        return OTHER
    order = ">" if start[:4] == b"RIFX" else "<"
    end = file.seek(0, 2)
    wide, form = None, None
    for name, size in _chunks(file, 12, BIG_CHUNKS if order == ">" else WAV_CHUNKS):
        if name == b"ds64":
            wide = int.from_bytes(file.read(16)[8:], "little")
        elif name == b"fmt ":
            form = _format(file.read(min(size, 40)), order)
        elif name == b"data":
            is_wide = wide is not None and size == UNKNOWN_SIZE
            return _data(file, form, wide if is_wide and wide is not None else size, end, path)
    return Header("wav", plain=form is None or form.tag in PLAIN_WAV)


def _format(body: bytes, order: str) -> _Format | None:
    if len(body) < 16:
        return None
    tag, n_channels, rate_hz, _, block, n_bits = struct.unpack(f"{order}HHIIHH", body[:16])
    if tag == EXTENSIBLE and len(body) >= 28:
        (tag,) = struct.unpack(f"{order}I", body[24:28])
    # Some writers give too small a block; a sample never takes less than its bits.
    block = max(block, n_channels * ((n_bits + 7) // 8))
    return _Format(tag, n_channels, rate_hz, block, n_bits, order)


def _data(file: BinaryIO, form: _Format | None, size: int, end: int, path: Path) -> Header:
    if form is None or not form.block_bytes or not form.n_channels:
        return Header("wav", plain=True)
    width = form.block_bytes // form.n_channels
    if form.tag == 1 and width > (form.n_bits + 7) // 8:
        raise DataError(
            f"{form.n_bits} bits a sample kept in {width} bytes, which no decoder here reads right",
            where=str(path),
            hint="rewrite it as 24-bit or 32-bit PCM, e.g. with sox",
        )
    if form.tag not in SAMPLED_WAV:
        return Header("wav", plain=form.tag in PLAIN_WAV)
    offset = file.tell()
    streamed = size == 0 and not _is_chunk_chain(file, end)
    n_bytes = end - offset if streamed else min(size, end - offset)
    n_samples = n_bytes // form.block_bytes
    wav = _wav_data(form, offset, n_samples)
    return Header("wav", plain=not streamed, n_declared=size // form.block_bytes, wav=wav)


def _wav_data(form: _Format, offset: int, n_samples: int) -> WavData | None:
    code, codec = WAV_CODES.get((form.tag, form.n_bits), ("", ""))
    width = form.n_channels * form.n_bits // 8
    if not code or form.block_bytes != width or form.n_channels > MAX_CHANNELS or not form.rate_hz:
        return None
    return WavData(offset, n_samples, form.n_channels, form.rate_hz, form.order + code, codec)


def _is_chunk_chain(file: BinaryIO, end: int) -> bool:
    """Say whether chunks alone stand between here and the end of the file."""
    place = file.tell()
    for name, size in _chunks(file, place, WAV_CHUNKS):
        if not name.isascii() or not name.decode("ascii").isprintable():
            return False
        place = file.tell() + size
        if place > end:
            return False
    return end - place <= 1


_Parser = Callable[[BinaryIO, Path], Header]
IRCAM = frozenset(bytes((0x64, 0xA3, n, 0)) for n in range(6)) | frozenset(
    bytes((0, n, 0xA3, 0x64)) for n in range(6)
)
_PARSERS: dict[bytes, _Parser] = {
    b"RIFF": _wav,
    b"RIFX": _wav,
    b"RF64": _wav,
    b"fLaC": _flac,
    b"OggS": _ogg,
    b"FORM": _aiff,
    b".snd": _au,
    b"dns.": _au,
    b"caff": _caf,
    b"riff\x2e\x91\xcf\x11": _w64,
    b"NIST": _nist,
    b" paf": _plain("paf"),
    b"fap ": _plain("paf"),
    b"PVF1\n": _plain("pvf"),
    b"2BIT": _plain("avr"),
    b"ALawSoundFile**": _plain("wve"),
    b"Extended Instrument:": _plain("xi"),
    b"\xf0\x7e": _plain("sds"),
    b"\x01\x04": _plain("mpc2k"),
}
