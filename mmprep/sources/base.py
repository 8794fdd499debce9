"""What a reader of raw files offers to the steps, and what readers share.

A reader module has

    claim(folder, names, root) -> list[Claim]                which files of a folder are its
    streams(claim, root, options) -> names                   optional: known before the look
    probe(claim, root, options) -> {stream: schema}          a cheap look
    write(claim, root, stream, schema, target, *, options)   one table; raises `Widen`
    read_stream(path, options, name, *, stream, store)       the numbers of one table of one file
    parts(claim, root, options) -> list[Part]                optional: trials, conditions
    device_of(claim, root, stream) -> str | None             optional: the model that recorded it

All but the first and the last follow from the tables that it finds in a claim: see `Finder`.

Rules
-----
- Paths in a claim are relative to the root, with `/`.
- The companions of a recording (`x.ptp.tsv`, `x.clock.csv`, `x.frames.tsv`, ...) are never claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Protocol, Self
from zoneinfo import ZoneInfo

import numpy as np

from mmprep import tables
from mmprep.errors import DataError, UsageError
from mmprep.rows import IN_MEMORY, Store
from mmprep.signals import Stream
from mmprep.sources.companions import PACKED, is_companion
from mmprep.tables import (
    Column,
    Declared,
    Rows,
    TableFacts,
    TableSchema,
    Target,
    TimeColumn,
    feed,
)
from mmprep.timebase import NS_PER_S, IntArray

EXCHANGES, FIXES = ("t1", "t2", "t3", "t4"), ("device", "reference")  # headers of clock logs


@dataclass(frozen=True, slots=True)
class TextOptions:
    """How text tables are read; None means: find out.

    Parameters
    ----------
    delimiter : str, optional
        One character, or `tab`, `space`.
    quote : str, optional
        One character, or `none`. Default: none for tab, else `"`.
    header : bool, optional
        Whether the first row names the columns.
    columns : tuple of str
        The names of the columns, in place of the header's.
    time : str, optional
        The time column.
    time_hint : str, optional
        The time column, in files that have it.
    time_unit : str, optional
        `s ms us ns iso`.
    tz : str, optional
        The zone of local times, as `Asia/Shanghai`.
    null : tuple of str
        Cells that are missing, beside the usual ones.
    rate_hz : Fraction, optional
        The rate of rows without stamps.
    units : tuple of (str, str)
        Column -> unit.
    split_by : str, optional
        The column whose values are tables of their own.
    declared : mapping of str to Declared
        The reader's name of a stream -> what is declared of it.
    on_bad_row : str
        `fail`, `skip` or `null`.
    float32 : bool
        Store floats in 32 bits.
    keep_device : bool
        Keep the serial numbers of devices.
    """

    delimiter: str | None = None
    quote: str | None = None
    header: bool | None = None
    columns: tuple[str, ...] = ()
    time: str | None = None
    time_hint: str | None = None
    time_unit: str | None = None
    tz: str | None = None
    null: tuple[str, ...] = ()
    encoding: str | None = None
    rate_hz: Fraction | None = None
    units: tuple[tuple[str, str], ...] = ()
    split_by: str | None = None
    declared: Mapping[str, Declared] = field(default_factory=dict)
    on_bad_row: str = "fail"
    float32: bool = False
    compression_level: int = 1
    keep_device: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """One item of one reader.

    Parameters
    ----------
    reader : str
        The reader's name.
    id_path : str
        The path that the item's id comes from; a file or a folder, empty for the root itself.
    files : tuple of str
        All files that are read.
    suffix : str
        The end of `id_path`, or of the root's name, that is no part of the id, as `.tsv.gz`; empty
        for a folder that is no recording by its name.
    """

    reader: str
    id_path: str
    files: tuple[str, ...]
    suffix: str = ""

    @property
    def stem(self) -> str:
        """The name of `id_path` without folder and suffix."""
        return self.id_path.rpartition("/")[2].removesuffix(self.suffix)


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a claim that can be a recording of its own: a trial, a condition.

    Parameters
    ----------
    name : str
        Unique in the claim; numbers have leading zeros, so that names sort as time does.
    rows : mapping of str to (int, int)
        Stream -> its rows `[begin, end)` in the stream's table; empty where nothing was recorded.
    labels, fields : mapping
        What is known of it: how it was rated, and the rest. A missing value is None.
    label : str, optional
        Its class.
    blank : tuple of str
        Channels without any value, as `ecg/ECG_left`.
    """

    name: str
    rows: Mapping[str, tuple[int, int]]
    duration_s: float = 0.0
    labels: Mapping[str, str | float | None] = field(default_factory=dict)
    fields: Mapping[str, str | float | None] = field(default_factory=dict)
    label: str | None = None
    blank: tuple[str, ...] = ()


def known_suffix(name: str, suffixes: Sequence[str]) -> str | None:
    """Give the suffix of a file, its packing included, as the name spells it."""
    lower = name.lower()
    for suffix in suffixes:
        for pack in PACKED:
            if lower.endswith(suffix + pack) and len(lower) > len(suffix + pack):
                return name[-len(suffix + pack) :]
    return None


def beside(folder: str, name: str) -> str:
    """Join a folder below the root and a file name."""
    return f"{folder}/{name}" if folder not in ("", ".") else name


def file_of(root: Path, name: str) -> Path:
    """Give the path of a claimed file."""
    return root.joinpath(*PurePosixPath(name).parts)


def file_claims(
    reader: str,
    folder: str,
    names: Sequence[str],
    root: Path,
    *,
    suffixes: Sequence[str],
    knows: Callable[[Path], bool],
) -> list[Claim]:
    """Claim files one by one: those with a suffix, perhaps packed, that the reader knows."""
    claims = []
    for name in sorted(names):
        suffix, path = known_suffix(name, suffixes), beside(folder, name)
        if suffix and not is_companion(name) and knows(file_of(root, path)):
            claims.append(Claim(reader, path, (path,), suffix))
    return claims


def set_claims(reader: str, folder: str, streams: Mapping[str, str]) -> list[Claim]:
    """Claim the files of a folder as one item; each alone where two hold the same stream.

    Parameters
    ----------
    streams : mapping of str to str
        File below the root -> the stream that it holds.
    """
    paths = tuple(sorted(streams))
    if not paths:
        return []
    if len(set(streams.values())) == len(paths):
        return [Claim(reader, "" if folder == "." else folder, paths)]
    return [Claim(reader, path, (path,), PurePosixPath(path).suffix) for path in paths]


# Tables of a claim --------------------------------------------------------------------------------

OWN = ""  # the stream of a file that holds but one is named as the file
NOTES, SIGNAL = "annotations", "signal"
NOTE_COLUMNS = (
    Column("duration", "float64", "duration", "s", fixed=True),
    Column("description", "string", "description", fixed=True),
)


class Table(Protocol):
    """One table of a claim: `tables.TextTable` or `tables.ArrayTable`."""

    @property
    def time(self) -> TimeColumn:
        """How its stamps are read."""

    def with_units(self, units: Mapping[str, str]) -> Self:
        """Give channels the units that the user said."""

    def with_types(self, known: Declared) -> Self:
        """Give channels the kinds that the user declared."""

    def schema(self, on_bad_row: str = "fail") -> TableSchema:
        """Give its columns with the kinds seen so far."""

    def write(self, schema: TableSchema, target: Target, on_bad_row: str = "fail") -> TableFacts:
        """Write it; raises `Widen`."""

    def read(self, name: str, on_bad_row: str = "fail", store: Store = IN_MEMORY) -> Stream:
        """Read its numeric channels; the store keeps the readings."""


Looks = Mapping[str, Callable[[], Table]]
Device = str | Callable[[Path, str], str | None] | None


@dataclass(frozen=True, slots=True)
class Finder:
    """The protocol of a reader, from the tables that it finds in a claim.

    Parameters
    ----------
    find : callable
        (claim, root, options) -> stream -> what looks closer at its table. `OWN` is the name of a
        stream that has that of its file.
    main : str, optional
        The stream that is read where none is named.
    device : str or callable, optional
        The model of the device, or (file, stream) -> the model that the file names. Without what
        tells one device from another of its model: serial number, address.
    serial : callable, optional
        (file, stream) -> that number or address; kept only where the caller asks for it.
    """

    find: Callable[[Claim, Path, TextOptions], Looks]
    main: str | None = None
    device: Device = None
    serial: Callable[[Path, str], str | None] | None = None

    def streams(self, claim: Claim, root: Path, options: TextOptions) -> tuple[str, ...]:
        """Name the streams.

        Raises
        ------
        DataError
            The files are none of the format, or damaged.
        """
        return tuple(self._named(claim, root, options))

    def probe(self, claim: Claim, root: Path, options: TextOptions) -> dict[str, TableSchema]:
        """Give the schema of each stream, with the kinds seen so far.

        Raises
        ------
        DataError
            The files are none of the format, or damaged.
        UsageError
            An option does not go with them.
        """
        looks = self._named(claim, root, options)
        return {stream: schema_of(look(), stream, options) for stream, look in looks.items()}

    def write(
        self,
        claim: Claim,
        root: Path,
        stream: str,
        schema: TableSchema,
        target: Target,
        *,
        options: TextOptions,
    ) -> TableFacts:
        """Write the table of a stream.

        Raises
        ------
        Widen
            The schema is too narrow for a value.
        DataError
            A bad row, where the policy is `fail`; or the file cannot be read.
        UsageError
            No such stream.
        """
        looks = self._named(claim, root, options)
        look = looks[pick(tuple(looks), stream, claim.id_path or str(root))]
        table = look()
        device = self.device_of(claim, root, stream)
        if options.keep_device and self.serial is not None:
            own = self.serial(file_of(root, claim.files[0]), stream)
            device = ", ".join(filter(None, (device, f"serial {own}"))) if own else device
        target = replace(target, device=device, tz=table.time.tz)
        return table.write(schema, target, options.on_bad_row)

    def device_of(self, claim: Claim, root: Path, stream: str) -> str | None:
        """Name the model of the device that recorded a stream; None where that is not known.

        Raises
        ------
        DataError
            As `streams`.
        """
        if self.device is None or isinstance(self.device, str):
            return self.device
        return self.device(file_of(root, claim.files[0]), stream)

    def read(
        self,
        claim: Claim,
        root: Path,
        options: TextOptions,
        name: str,
        stream: str | None,
        *,
        store: Store = IN_MEMORY,
    ) -> Stream:
        """Read the numeric channels of a stream; `store` keeps the readings.

        Raises
        ------
        DataError, UsageError
            As `write`; several streams, and none is named.
        """
        looks = self._named(claim, root, options)
        look = looks[self._chosen(tuple(looks), stream, claim.id_path or str(root))]
        return look().with_units(dict(options.units)).read(name, options.on_bad_row, store)

    def read_stream(
        self,
        path: Path,
        options: TextOptions,
        name: str,
        *,
        stream: str | None = None,
        store: Store = IN_MEMORY,
    ) -> Stream:
        """Read the numeric channels of a stream of one file.

        Parameters
        ----------
        stream : str, optional
            Its name, or its place in the file, from 0. May be left out where there is but one.
        store : Store
            Keeps the readings.

        Raises
        ------
        DataError, UsageError
            As `read`.
        """
        where = str(path)
        is_stem = stream is not None and path.name.startswith(f"{stream}.")
        stem = stream if is_stem and stream is not None else path.name.partition(".")[0]
        claim = Claim("", where, (where,), path.name[len(stem) :])
        return self.read(claim, Path(), options, name, stream, store=store)

    def _named(self, claim: Claim, root: Path, options: TextOptions) -> Looks:
        found = self.find(claim, root, options)
        return {stream if stream != OWN else claim.stem: look for stream, look in found.items()}

    def _chosen(self, known: tuple[str, ...], stream: str | None, where: str) -> str:
        if stream is None and self.main in known:
            return str(self.main)
        signals = tuple(name for name in known if name != NOTES)
        return pick(signals if stream is None and signals else known, stream, where)


def schema_of(table: Table, stream: str, options: TextOptions) -> TableSchema:
    """Give the schema of a stream's table with what the user said of it."""
    known = options.declared.get(stream)
    typed = table.with_types(known) if known is not None else table
    schema = typed.with_units(dict(options.units)).schema(options.on_bad_row)
    return replace(schema, float32=options.float32)


def pick(names: Sequence[str], wanted: str | None, where: str) -> str:
    """Find a stream of a file by its name or its number (from 0); the only one needs neither.

    Raises
    ------
    UsageError
        There is none such, or there are several and none is named.
    """
    if wanted is None and len(names) == 1:
        return names[0]
    if wanted is not None and wanted in names:
        return wanted
    if wanted is not None and wanted.isdigit() and int(wanted) < len(names):
        return names[int(wanted)]
    what = "several streams" if wanted is None else f"no stream {wanted!r}"
    raise UsageError(what, where=where, hint=f"name one, as FILE#STREAM: {', '.join(names)}")


def note_rows(
    stamps_ns: IntArray, durations_s: Sequence[float | None], texts: Sequence[str]
) -> Rows:
    """Give annotations as the rows of `NOTE_COLUMNS`."""
    durations, descriptions = np.empty(len(texts), object), np.empty(len(texts), object)
    durations[:], descriptions[:] = durations_s, texts
    return Rows(stamps_ns, {"duration": durations, "description": descriptions})


# Text --------------------------------------------------------------------------------------------


def first_lines(path: Path, n_bytes: int = 4096) -> list[str]:
    """Read the first lines of a text file; the last one may be cut. Empty where it can't be read.

    Raises
    ------
    OSError
        The file can't be opened.
    """
    try:
        raw = feed.head(path, n_bytes)
    except DataError:
        return []
    text = feed.decode(raw, "utf-8").decode("utf-8", "replace")
    return text.split("\n") if text else []


def nulls_of(options: TextOptions) -> tuple[str, ...]:
    """Give the cells that are missing."""
    return tuple(dict.fromkeys((*tables.NULLS, *options.null)))


# Times ------------------------------------------------------------------------------------------

LOCAL_NOTE = "local times without a zone are kept as durations; --tz ZONE makes them UTC"


def rate_names(rates_hz: Iterable[Fraction]) -> dict[Fraction, str]:
    """Name the streams of a file whose channels differ in nothing but their rate.

    Returns
    -------
    dict
        Rate -> `signal` where there is one rate, else as `signal_100Hz`, `signal_1-30Hz`.
    """
    known = list(dict.fromkeys(rates_hz))
    if len(known) == 1:
        return {known[0]: SIGNAL}
    return {rate_hz: f"{SIGNAL}_{rate_hz}Hz".replace("/", "-") for rate_hz in known}


@dataclass(frozen=True, slots=True)
class Start:
    """When a recording begins.

    Parameters
    ----------
    ns : int
        Unix time if `absolute`, else nanoseconds on a clock of its own (a local one counts from
        1970 in its own zone).
    tz : str, optional
        The zone by which a local time became UTC.
    """

    ns: int = 0
    absolute: bool = False
    note: str | None = None
    tz: str | None = None


def start_of(local: datetime | None, tz: str | None) -> Start:
    """Take a start in local time, in the zone of `--tz` if there is one."""
    if local is None:
        return Start(note="no start time; stamps count from the first one")
    if tz is None:
        return Start(unix_ns(local.replace(tzinfo=UTC)), note=LOCAL_NOTE)
    return Start(unix_ns(local.replace(tzinfo=ZoneInfo(tz))), absolute=True, tz=tz)


def unix_ns(when: datetime) -> int:
    """Give a time with a zone as Unix nanoseconds, exactly."""
    since = when - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86400 + since.seconds) * NS_PER_S + since.microseconds * 1000
