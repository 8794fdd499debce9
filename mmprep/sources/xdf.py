"""XDF, the recordings of Lab Streaming Layer, read through pyxdf.

Rules (XDF 1.0)
-----
- Stamps are the raw ones of each stream's own host: neither moved to the recorder's clock nor
  smoothed. What relates the clocks, the file's clock offsets, is evidence of its own.
- A clock offset says: at `t` on the stream's clock the recorder's clock shows `t + offset`.
- A stream is called by its name; where several have one name, by `name-type`; where that is not
  enough, with its number behind it.
- Streams of text and streams without a rate are events. Empty streams give empty tables.
- Samples go to the table chunk by chunk, so that memory stays flat.
- A damaged part is skipped up to the next boundary, and it is said.
- The device of a stream is what its description calls the model.
- Host names, serial numbers and source ids are never read.
"""

from __future__ import annotations

import gzip
import logging
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from mmprep import files, tables
from mmprep.errors import DataError
from mmprep.rows import IN_MEMORY, Store
from mmprep.signals import Stream
from mmprep.sources.base import Claim, Finder, Looks, TextOptions, beside, file_of, pick
from mmprep.tables.arrays import ArrayTable, Rows
from mmprep.tables.schema import TimeColumn
from mmprep.timebase import NS_PER_S, Fixes, IntArray, rate

READER = "xdf"
SUFFIXES = (".xdf", ".xdfz", ".xdf.gz")
PUT_ROWS = 1 << 14

_MAGIC = b"XDF:"
_BOUNDARY = bytes.fromhex("43a546dccbf5410fb30ed5467383cbe4")
_HEADER, _OFFSET = 2, 4
_OFFSET_BYTES = 16
_MOST_S = 9e9  # more seconds than nanoseconds in 63 bits can say
_UNITS = {"microvolts": "uV", "microvolt": "uV", "\u00b5V": "uV", "millivolts": "mV", "volts": "V"}
_ERRORS = (EOFError, OSError, struct.error, ElementTree.ParseError, ValueError)


@dataclass(slots=True)
class _Known:
    """What the headers say of one stream.

    Parameters
    ----------
    number : int
        Its id in the file.
    offsets : list of (time, offset) [s]
        Clock offsets in the order of the file.
    """

    number: int
    name: str
    type: str
    is_text: bool
    is_whole: bool
    rate_hz: Fraction | None
    channels: tuple[tuple[str, str | None], ...]
    device: str | None = None
    offsets: list[tuple[float, float]] = field(default_factory=list)

    @property
    def rate_of_rows(self) -> Fraction | None:
        """The nominal rate of signals; None for events."""
        return None if self.is_text else self.rate_hz


def claim(folder: str, names: Sequence[str], root: Path) -> list[Claim]:
    """Claim the XDF files of a folder."""
    claims = []
    for name in sorted(names):
        path = beside(folder, name)
        if (suffix := _suffix(name)) and is_xdf(file_of(root, path)):
            claims.append(Claim(READER, path, (path,), suffix))
    return claims


def _suffix(name: str) -> str:
    return next((name[-len(end) :] for end in SUFFIXES if name.lower().endswith(end)), "")


def is_xdf(path: Path) -> bool:
    """Say whether a file begins as XDF does."""
    with suppress(OSError, EOFError, DataError), _opened(path) as file:
        return bool(file.read(len(_MAGIC)) == _MAGIC)
    return False


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a file, unpacked; what pyxdf swallows of a member's damage is raised at the end."""
    is_packed = path.name.lower().endswith((".gz", ".xdfz"))
    with files.watched(path) as raw:
        yield gzip.GzipFile(fileobj=raw) if is_packed else raw


def _find(claim: Claim, root: Path, options: TextOptions) -> Looks:
    """Find the streams of a file, as their headers have them; samples are skipped."""
    path = file_of(root, claim.id_path)
    found = _scan(path, claim.id_path)
    return {name: partial(_table, path, known) for name, known in found.items()}


def _table(path: Path, known: _Known) -> ArrayTable:
    kind = "string" if known.is_text else "int64" if known.is_whole else "float64"
    columns = tables.declared((label, unit, kind) for label, unit in known.channels)
    time = TimeColumn("s", "given", absolute=False, source_name="time_stamps")
    give = partial(_give, path, known, [column.name for column in columns])
    return ArrayTable(columns, time, known.rate_of_rows, give)


def device(path: Path, stream: str) -> str | None:
    """Name the model of the device that a stream's header describes."""
    return _scan(path, str(path))[stream].device


def clock(claim: Claim, root: Path, stream: str, options: TextOptions) -> Fixes | None:
    """Give the clock offsets of a stream; None where the file holds none.

    Returns
    -------
    Fixes or None
        device_ns: on the stream's own clock, as its stamps; reference_ns: on the recorder's.
    """
    return _fixes(_chosen(_open(claim, root), stream, claim.id_path))


def clock_of(path: Path, stream: str | None = None) -> Fixes | None:
    """Give the clock offsets of a stream of a file; see `clock` and `read_stream`."""
    return _fixes(_chosen(_scan(path, str(path)), stream, str(path)))


def _fixes(known: _Known) -> Fixes | None:
    pairs = np.array(known.offsets, dtype=np.float64).reshape(-1, 2)
    pairs = pairs[(np.abs(pairs) < _MOST_S / 2).all(axis=1)]
    if not len(pairs):
        return None
    device_ns = _ns(pairs[:, 0])
    return Fixes(device_ns, device_ns + _ns(pairs[:, 1]))


def read_stream(
    path: Path,
    options: TextOptions,
    name: str,
    *,
    stream: str | None = None,
    store: Store = IN_MEMORY,
) -> Stream:
    """Read one stream of a file; see `Finder.read_stream`.

    Parameters
    ----------
    stream : str, optional
        Its name, `name/type`, or its place in the file, from 0. May be left out where there is
        but one.
    """
    return _FINDER.read_stream(path, options, name, stream=named(path, stream), store=store)


def named(path: Path, stream: str | None) -> str:
    """Give the name of a stream that is named as `read_stream` takes it."""
    found = _scan(path, str(path))
    known = _chosen(found, stream, str(path))
    return next(own for own, other in found.items() if other is known)


def _chosen(found: dict[str, _Known], stream: str | None, where: str) -> _Known:
    typed = [known for known in found.values() if f"{known.name}/{known.type}" == stream]
    if len(typed) == 1:
        return typed[0]
    return found[pick(tuple(found), stream, where)]


# Headers and clock offsets ------------------------------------------------------------------------


def _open(claim: Claim, root: Path) -> dict[str, _Known]:
    return _scan(file_of(root, claim.id_path), claim.id_path)


def _scan(path: Path, where: str) -> dict[str, _Known]:
    """Read the headers and clock offsets of a file; stream's name -> what is known."""
    if not is_xdf(path):
        raise DataError("does not begin as XDF", where=where)
    found: dict[int, _Known] = {}
    with _opened(path) as file:
        for tag, number, content in _chunks(file):
            if tag == _HEADER:
                with suppress(*_ERRORS):
                    found.setdefault(number, _known(number, content))
            elif number in found and len(content) == _OFFSET_BYTES:
                found[number].offsets.append(struct.unpack("<dd", content))
    if not found:
        raise DataError("holds no stream", where=where)
    return _named(list(found.values()))


def _chunks(file: Any) -> Iterator[tuple[int, int, bytes]]:
    """Give tag, stream and content of headers and clock offsets; past damage to a boundary."""
    file.seek(len(_MAGIC))
    while True:
        try:
            length = _length(file)
        except EOFError:
            return
        except ValueError:
            if not _to_boundary(file):
                return
            continue
        head = file.read(2)
        tag = int.from_bytes(head, "little")
        if tag not in (_HEADER, _OFFSET):
            file.seek(length - 2, 1)
            continue
        number = int.from_bytes(file.read(4), "little")
        yield tag, number, file.read(length - 6 if tag == _HEADER else _OFFSET_BYTES)


def _length(file: Any) -> int:
    first = file.read(1)
    if not first:
        raise EOFError
    if first[0] not in (1, 4, 8):
        raise ValueError(f"a length of {first[0]} bytes")
    raw = file.read(first[0])
    if len(raw) < first[0]:
        raise EOFError
    length = int.from_bytes(raw, "little")
    if length < 2:
        raise ValueError("a chunk of less than two bytes")
    return length


def _to_boundary(file: Any) -> bool:
    """Go to the byte after the next boundary; False where there is none."""
    kept = b""
    while data := file.read(1 << 20):
        at = (kept + data).find(_BOUNDARY)
        if at >= 0:
            file.seek(at + len(_BOUNDARY) - len(kept) - len(data), 1)
            return True
        kept = (kept + data)[-len(_BOUNDARY) + 1 :]
    return False


def _known(number: int, content: bytes) -> _Known:
    info = ElementTree.fromstring(content.decode("utf-8", "replace"))
    form = (info.findtext("channel_format") or "").strip()
    n_channels = int(info.findtext("channel_count") or 0)
    nominal = float(info.findtext("nominal_srate") or 0)
    return _Known(
        number,
        (info.findtext("name") or "").strip(),
        (info.findtext("type") or "").strip(),
        form == "string",
        form.startswith("int"),
        rate(nominal) if np.isfinite(nominal) and nominal > 0 else None,
        _labels(info, n_channels),
        _device(info),
    )


def _device(info: ElementTree.Element) -> str | None:
    said = (info.findtext("desc/acquisition/model") or info.findtext("desc/model") or "").strip()
    return " ".join(said.split()) or None


def _labels(info: ElementTree.Element, n: int) -> tuple[tuple[str, str | None], ...]:
    said = info.findall("desc/channels/channel")
    said = said if len(said) == n else []
    labels = []
    for k in range(n):
        label = (said[k].findtext("label") or "").strip() if said else ""
        unit = (said[k].findtext("unit") or "").strip() if said else ""
        alone = "value" if n == 1 else f"channel_{k + 1}"
        labels.append((label or alone, _UNITS.get(unit, unit) or None))
    return tuple(labels)


def _named(found: list[_Known]) -> dict[str, _Known]:
    """Give each stream a name of its own, fit for a folder."""
    plain = [_fit(k.name or k.type or "stream") for k in found]
    typed = [f"{name}-{_fit(k.type)}" for name, k in zip(plain, found, strict=True)]
    names = [n if plain.count(n) == 1 else t for n, t in zip(plain, typed, strict=True)]
    return {
        name if names.count(name) == 1 else f"{name}-{known.number}": known
        for name, known in zip(names, found, strict=True)
    }


def _fit(name: str) -> str:
    return name.replace("/", "-").strip()


# Samples ------------------------------------------------------------------------------------------


class _Sink:
    """Take the chunks of a stream from pyxdf, and give rows on in larger blocks."""

    def __init__(self, known: _Known, names: Sequence[str], take: Callable[[Rows], None]) -> None:
        self._known, self._names, self._take = known, names, take
        self._stamps: list[NDArray[np.float64]] = []
        self._values: list[Any] = []
        self._n = 0
        self.fault: BaseException | None = None

    def on_chunk(self, values: Any, stamps: Any, info: Any, number: int) -> tuple[Any, Any, Any]:
        """Keep what a chunk holds, and leave pyxdf nothing to keep."""
        if self.fault is None:
            try:
                self._add(values, np.asarray(stamps, np.float64))
            except BaseException as fault:  # pyxdf takes any error here for a damaged file
                self.fault = fault
        # Copies: a view of no rows would keep all of the chunk alive.
        return values[:0].copy(), stamps[:0].copy(), info

    def _add(self, values: Any, stamps: NDArray[np.float64]) -> None:
        self._stamps.append(stamps)
        self._values.append(values)
        self._n += len(stamps)
        if self._n >= PUT_ROWS:
            self.flush()

    def flush(self) -> None:
        """Give on what is kept."""
        if self._n:
            stamps = _ns(np.concatenate(self._stamps))
            columns = zip(self._names, self._table().T, strict=True)
            self._take(Rows(stamps, dict(columns)))
        self._stamps, self._values, self._n = [], [], 0

    def _table(self) -> NDArray[Any]:
        if not self._known.is_text:
            return np.concatenate(self._values)
        rows = [row for part in self._values for row in part]
        table = np.empty((len(rows), len(self._known.channels)), dtype=object)
        for at, row in enumerate(rows):
            table[at] = row
        return table


def _ns(seconds: NDArray[np.float64]) -> IntArray:
    """Give seconds as nanoseconds; whole seconds apart, so that no digit is lost."""
    sound = np.where(np.abs(seconds) < _MOST_S, seconds, 0.0)
    whole = np.floor(sound)
    ns = whole.astype(np.int64) * NS_PER_S + np.rint((sound - whole) * NS_PER_S).astype(np.int64)
    return np.asarray(np.where(sound == seconds, ns, tables.NULL_STAMP_NS))


def _give(
    path: Path,
    known: _Known,
    names: Sequence[str],
    take: Callable[[Rows], None],
    notes: list[str],
) -> None:
    """Give the samples of one stream, and what pyxdf has to say."""
    import pyxdf

    sink = _Sink(known, names, take)
    with _listening("pyxdf") as said, _opened(path) as file:
        try:
            pyxdf.load_xdf(
                file,
                select_streams=[known.number],
                on_chunk=sink.on_chunk,
                synchronize_clocks=False,
                dejitter_timestamps=False,
            )
        except (*_ERRORS, KeyError, IndexError) as error:
            raise DataError(f"pyxdf cannot read it: {error}", where=str(path)) from error
    if sink.fault is not None:
        raise sink.fault
    sink.flush()
    notes += dict.fromkeys(said)


class _Notes(logging.Handler):
    def __init__(self, notes: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._notes = notes

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a warning."""
        self._notes.append(record.getMessage())


@contextmanager
def _listening(name: str) -> Iterator[list[str]]:
    """Take the warnings of a package as notes, off stderr."""
    notes: list[str] = []
    logger, handler = logging.getLogger(name), _Notes(notes)
    was = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield notes
    finally:
        logger.removeHandler(handler)
        logger.propagate = was


_FINDER = Finder(_find, device=device)
streams = _FINDER.streams
probe = _FINDER.probe
write = _FINDER.write
device_of = _FINDER.device_of
