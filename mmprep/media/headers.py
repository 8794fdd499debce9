"""Read the first bytes of an audio file: who can decode it, and what its header declares.

Samples of a plain wav need no decoder, and numpy reads them twice as fast as libsndfile does.

libsndfile 1.2.2 (the last release, bundled by soundfile) has known holes and misreadings:

- IMA ADPCM overflows while the header is parsed (CVE-2026-37555), so the codec is looked up here,
  before libsndfile sees the file. Only the codecs of PLAIN_WAV and PLAIN_AU go to it.
- FLAC after an ID3 tag, with more than 24 bits, or without a sample count breaks off or is refused.
- MP3 is left to FFmpeg: soundfile seeks after each block, which restarts the MP3 decoder, and
  libmpg123 prints about damaged frames to stderr.
- A wav of data size 0 that was streamed reads as empty; here its data reach to the end.
- 24 bits kept in 4 bytes are misread by both, so such a file is refused.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from mmprep.errors import DataError

PLAIN_WAV = frozenset({1, 3, 6, 7})  # PCM, float, A-law, u-law
PLAIN_AU = frozenset({1, 2, 3, 4, 5, 6, 7, 27})
EXTENSIBLE = 0xFFFE
MAX_CHUNKS = 10_000
MAX_CHANNELS = 1024
WAV_CODES = {  # (format tag, bits) -> numpy's code, libsndfile's name
    (1, 8): ("u1", "wav/pcm_u8"),
    (1, 16): ("i2", "wav/pcm_16"),
    (1, 32): ("i4", "wav/pcm_32"),
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
        with path.open("rb") as file:
            return _header(file, path)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", where=str(path)) from error


def _header(file: BinaryIO, path: Path) -> Header:
    start = file.read(16)
    if start[:3] == b"ID3":
        return _after_tag(file, start)
    for magic, parse in _PARSERS.items():
        if start.startswith(magic):
            return parse(file, path)
    if len(start) >= 2 and start[0] == 0xFF and start[1] & 0xE0 == 0xE0 and start[1] & 0x06:
        return _mp3(file, 0)
    return OTHER


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
    return Header("aiff", plain=file.read(4) == b"AIFF")


def _au(file: BinaryIO, _path: Path) -> Header:
    file.seek(12)
    return Header("au", plain=int.from_bytes(file.read(4), "big") in PLAIN_AU)


def _nist(_file: BinaryIO, _path: Path) -> Header:
    return Header("nist", plain=True)


def _wav(file: BinaryIO, path: Path) -> Header:
    file.seek(0)
    start = file.read(12)
    if start[8:] != b"WAVE":
        return OTHER
    order = ">" if start[:4] == b"RIFX" else "<"
    end = file.seek(0, 2)
    place, wide, form = 12, None, None
    for _ in range(MAX_CHUNKS):
        file.seek(place)
        head = file.read(8)
        if len(head) < 8:
            break
        name, size = struct.unpack(f"{order}4sI", head)
        if name == b"ds64":
            wide = int.from_bytes(file.read(16)[8:], "little")
        elif name == b"fmt ":
            form = _format(file.read(min(size, 40)), order)
        elif name == b"data":
            size = wide if wide is not None and size == 0xFFFFFFFF else size
            return _data(file, form, size, end, path)
        place += 8 + size + size % 2
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
    if form.tag not in PLAIN_WAV:
        return Header("wav", plain=False)
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
    for _ in range(MAX_CHUNKS):
        if place >= end:
            return True
        file.seek(place)
        head = file.read(8)
        if len(head) < 8 or not head[:4].isascii() or not head[:4].decode("ascii").isprintable():
            return False
        size = int.from_bytes(head[4:], "little")
        place += 8 + size + size % 2
        if place > end + 1:
            return False
    return False


_PARSERS = {
    b"RIFF": _wav,
    b"RIFX": _wav,
    b"RF64": _wav,
    b"fLaC": _flac,
    b"OggS": _ogg,
    b"FORM": _aiff,
    b".snd": _au,
    b"NIST": _nist,
}
