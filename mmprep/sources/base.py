"""What a reader of raw files offers to the steps.

A reader module has

    claim(folder, names, root) -> list[Claim]        which files of a folder are its
    probe(claim, root, options) -> {stream: schema}  a cheap look
    write(claim, root, stream, schema, target, ...)  one table; raises `Widen`

Rules
-----
- Paths in a claim are relative to the root, with `/`.
- The companions of a recording (`x.ptp.tsv`, `x.clock.tsv`, `x.frames.tsv`) are never claimed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from mmprep import files, tables
from mmprep.errors import DataError, UsageError
from mmprep.signals import Stream
from mmprep.tables import feed
from mmprep.tables.convert import Batch, RejectsFile, RowReader
from mmprep.tables.parse import Reject
from mmprep.tables.schema import RANK, Column, TableSchema, TimeColumn, stored_kind
from mmprep.tables.stamps import row_stamps
from mmprep.timebase import NS_PER_S, BoolArray, IntArray

COMPANIONS = (".ptp.tsv", ".clock.tsv", ".frames.tsv")
PACKED = ("", ".gz", ".bz2", ".xz", ".zst")


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
    kinds : tuple of (str, str)
        Column -> declared kind (`int64 float64 string`); values that do not fit are bad cells.
    on_bad_row : str
        `fail`, `skip` or `null`.
    float32 : bool
        Store floats in 32 bits.
    """

    delimiter: str | None = None
    quote: str | None = None
    header: bool | None = None
    columns: tuple[str, ...] = ()
    time: str | None = None
    time_unit: str | None = None
    tz: str | None = None
    null: tuple[str, ...] = ()
    encoding: str | None = None
    rate_hz: Fraction | None = None
    units: tuple[tuple[str, str], ...] = ()
    kinds: tuple[tuple[str, str], ...] = ()
    on_bad_row: str = "fail"
    float32: bool = False
    compression_level: int = 1


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
        The end of `id_path` that is no part of the id, as `.tsv.gz`; empty for a folder.
    """

    reader: str
    id_path: str
    files: tuple[str, ...]
    suffix: str = ""

    @property
    def stem(self) -> str:
        """The name of `id_path` without folder and suffix."""
        return PurePosixPath(self.id_path).name.removesuffix(self.suffix)


def is_companion(name: str) -> bool:
    """Say whether a file belongs to another one (clock evidence, frame times)."""
    return name.lower().endswith(tuple(end + pack for end in COMPANIONS for pack in PACKED))


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


# Text formats that are known beforehand -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of a text table that have one value in a column.

    Parameters
    ----------
    takes_rest : bool
        Bad rows that belong to no part are named among the rejects of this one.
    """

    column: str
    value: str
    takes_rest: bool = False


@dataclass(frozen=True, slots=True)
class TextTable:
    """One table of a text file whose format is known.

    Parameters
    ----------
    columns : tuple of Column
        Kind `null`: int64 or float64 as the text is, and anything else is a bad cell.
    free : frozenset of str
        Channels that may hold text.
    rate_hz : Fraction, optional
        The nominal rate.
    irregular : bool
        There is none.
    kind : str
        `signal` or `events`.
    part : Part, optional
        Only some of the rows.
    """

    layout: tables.Layout
    columns: tuple[Column, ...]
    time: TimeColumn
    free: frozenset[str] = frozenset()
    rate_hz: Fraction | None = None
    irregular: bool = False
    kind: str = "signal"
    notes: tuple[str, ...] = ()
    part: Part | None = None

    def kinds_of(self, wanted: Mapping[str, str]) -> dict[str, str]:
        """Keep channels of numbers from becoming text."""
        text = self.free | {c.name for c in self.columns if c.kind == "string"}
        return {n: k if k != "string" or n in text else "float64" for n, k in wanted.items()}


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


def schema_of(table: TextTable, options: TextOptions) -> TableSchema:
    """Look at a table: its columns with the kinds seen so far."""
    units = dict(options.units)
    seen = tables.sample_columns(table.layout, table.columns, options.on_bad_row)
    kinds = table.kinds_of({column.name: column.kind for column in seen})
    columns = tuple(
        replace(
            column,
            kind=kinds[column.name],
            unit=units.get(column.source_name, units.get(column.name, column.unit)),
        )
        for column in seen
    )
    return TableSchema(columns, table.time, options.float32)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a table goes.

    Parameters
    ----------
    id : str
        The item's id.
    name : str
        The input's name, for its digest.
    rejects : Path, optional
        Where bad rows go; beside the table if not given.
    """

    path: Path
    id: str
    name: str
    n_threads: int = 1
    rejects: Path | None = None
    hasher: Callable[[], Any] | None = None


def write_text(
    table: TextTable, schema: TableSchema, target: Target, options: TextOptions
) -> tables.TableFacts:
    """Write a table.

    Raises
    ------
    Widen
        The schema is too narrow for a value.
    DataError
        A bad row, where the policy is `fail`; or the file can't be read.
    """
    write = _write_whole if table.part is None else _write_part
    try:
        facts = write(table, _strict(table, schema), target, options)
    except tables.Widen as wanted:
        kinds = table.kinds_of(wanted.kinds)
        raise tables.Widen(kinds, relative=wanted.relative, examples=wanted.examples) from None
    return replace(facts, notes=table.notes + facts.notes)


def _strict(table: TextTable, schema: TableSchema) -> TableSchema:
    """Take text among numbers as a bad cell, once the numbers are floats."""
    kinds = table.kinds_of(dict.fromkeys(schema.kinds, "string"))
    columns = tuple(
        replace(c, fixed=c.fixed or (c.kind == kinds[c.name] == "float64")) for c in schema.columns
    )
    return replace(schema, columns=columns)


def _read_options(target: Target, options: TextOptions) -> tables.ReadOptions:
    return tables.ReadOptions(options.on_bad_row, target.n_threads, hasher=target.hasher)


def _write_whole(
    table: TextTable, schema: TableSchema, target: Target, options: TextOptions
) -> tables.TableFacts:
    return tables.convert_text(
        table.layout,
        schema,
        target.path,
        item_id=target.id,
        options=_read_options(target, options),
        rejects=target.rejects,
        rate_hz=table.rate_hz,
        irregular=table.irregular,
        level=options.compression_level,
        name=target.name,
    )


def _write_part(
    table: TextTable, schema: TableSchema, target: Target, options: TextOptions
) -> tables.TableFacts:
    rejected = RejectsFile(target.rejects or target.path.with_suffix(".rejects.tsv"))
    taken: list[int] = []

    def take(reject: Reject) -> None:
        if _is_of_part(table, reject):
            taken.append(reject.line)
            rejected(reject)

    reader = _part_reader(table, schema.columns, _read_options(target, options), take)
    writer = tables.TableWriter(
        target.path,
        schema,
        item_id=target.id,
        rate_hz=table.rate_hz,
        irregular=table.irregular,
        level=options.compression_level,
    )
    try:
        for batch in _part_batches(table, reader):
            writer.add(batch.stamps_ns, batch.is_valid, batch.columns)
        time = writer.close()
    except BaseException:
        writer.abort()
        rejected.abort()
        raise
    n_lost = len(taken) if options.on_bad_row == "skip" else 0
    return tables.TableFacts(
        writer.n_rows,
        len(taken),
        rejected.close(),
        time.start_ns,
        time.end_ns,
        time.rate_hz,
        time.absolute,
        writer.n_rows + n_lost,
        input_digests={target.name: input_digest(reader)},
    )


def input_digest(reader: RowReader) -> str:
    """Give the digest of the file that was read to its end."""
    digest = getattr(reader.hash, "hexdigest", None)
    return f"xxh3_128:{digest()}" if digest is not None else files.digest(reader.layout.path)


def _is_of_part(table: TextTable, reject: Reject) -> bool:
    part, layout = table.part, table.layout
    if part is None:
        return True
    cells = reject.raw.decode("utf-8", "replace").split(layout.delimiter)
    index = layout.cells.index(part.column)
    key = cells[index].strip() if len(cells) == len(layout.cells) else ""
    return key == part.value or (part.takes_rest and not key)


def _part_reader(
    table: TextTable,
    columns: tuple[Column, ...],
    options: tables.ReadOptions,
    take: Callable[[Reject], None] | None = None,
) -> RowReader:
    key = table.part.column if table.part is not None else ""
    channels = (*(c for c in columns if c.name != key), Column(key, "string"))
    return RowReader(table.layout, channels, options, take=take)


def _part_batches(table: TextTable, reader: RowReader) -> Iterator[Batch]:
    part = table.part
    for batch in reader.batches():
        if part is None:
            yield batch
            continue
        columns = dict(batch.columns)
        keys = columns.pop(part.column).to_numpy(zero_copy_only=False)
        yield _filtered(batch, columns, np.asarray(keys == part.value, dtype=np.bool_))


def _filtered(batch: Batch, columns: dict[str, Any], keep: BoolArray) -> Batch:
    valid = None if batch.is_valid is None else batch.is_valid[keep]
    kept = {name: column.filter(keep) for name, column in columns.items()}
    return Batch(batch.stamps_ns[keep], valid, kept)


def keys_of(layout: tables.Layout, column: str) -> dict[str, int]:
    """Count the rows of each value of a column, in order of first appearance; bad rows aside."""
    counts: dict[str, int] = {}
    for batch in RowReader(
        layout, (Column(column, "string"),), tables.ReadOptions("skip")
    ).batches():
        for found in batch.columns[column].drop_null().value_counts().to_pylist():
            counts[found["values"]] = counts.get(found["values"], 0) + found["counts"]
    return counts


def read_text(table: TextTable, options: TextOptions, name: str) -> Stream:
    """Read the numeric channels of a table without writing it."""
    columns = tuple(_as_number(c) for c in table.columns if c.name not in table.free)
    if table.part is not None:
        read = _read_part(table, columns, options, name)
    else:
        read = tables.stream_of_text(
            table.layout,
            columns,
            name,
            options=tables.ReadOptions(options.on_bad_row),
            absolute=table.time.absolute,
            irregular=table.irregular,
        )
    return replace(read, kind=table.kind, nominal_rate_hz=table.rate_hz or read.nominal_rate_hz)


def _as_number(column: Column) -> Column:
    if RANK[column.kind] > RANK["float64"]:
        return column
    return replace(column, kind="float64", fixed=True)


def _read_part(
    table: TextTable, columns: tuple[Column, ...], options: TextOptions, name: str
) -> Stream:
    numeric = tuple(column for column in columns if column.kind != "string")
    reader = _part_reader(table, numeric, tables.ReadOptions(options.on_bad_row))
    stamps, rows = [np.zeros(0, np.int64)], [np.zeros((0, len(numeric)))]
    for batch in _part_batches(table, reader):
        valid = batch.is_valid
        known = batch.stamps_ns
        stamps.append(known if valid is None else np.where(valid, known, tables.NULL_STAMP_NS))
        floats = [tables.parquet.as_floats(batch.columns[column.name]) for column in numeric]
        rows.append(np.stack(floats, axis=1) if floats else np.zeros((known.size, 0)))
    return Stream(
        name,
        np.concatenate(stamps),
        np.concatenate(rows),
        tuple(column.name for column in numeric),
        tuple(column.unit for column in numeric),
        table.rate_hz,
        table.time.absolute,
        table.kind,
    )


def chosen_stream(known: Sequence[str], stream: str | None, where: str) -> str:
    """Choose a stream of a file.

    Raises
    ------
    DataError
        No such stream; or several, and none was named.
    """
    if stream is None and len(known) == 1:
        return known[0]
    if stream is None or stream not in known:
        said = "several streams" if stream is None else f"no stream {stream!r}"
        raise DataError(said, where=where, hint=f"name one of {', '.join(known) or 'none'}")
    return stream


# Readers of arrays: rows go to a table in blocks --------------------------------------------------

BLOCK_BYTES = 8 << 20
LOCAL_NOTE = "local times without a zone are kept as durations; --tz ZONE makes them UTC"


@dataclass(frozen=True, slots=True)
class Rows:
    """Consecutive rows of one stream.

    Parameters
    ----------
    stamps_ns : [shape=(n,), int64, ns]
        On the source's clock.
    columns : mapping of str to array [shape=(n,)]
        Column -> values; of dtype object where some are None.
    """

    stamps_ns: IntArray
    columns: Mapping[str, NDArray[Any]]


class RowWriter(tables.TableWriter):
    """A writer of tables that takes arrays; the table takes the types that its schema names."""

    def __init__(
        self,
        target: Path,
        schema: TableSchema,
        *,
        id: str,
        rate_hz: Fraction | None,
        options: TextOptions,
    ) -> None:
        super().__init__(
            target,
            schema,
            item_id=id,
            rate_hz=rate_hz,
            irregular=rate_hz is None,
            level=options.compression_level,
        )
        self._kinds = {column.name: stored_kind(column, schema) for column in schema.columns}

    def put(self, rows: Rows) -> None:
        """Append rows."""
        self.add(rows.stamps_ns, None, rows.columns)

    def _column(self, field: Any, columns: Mapping[str, Any], n_rows: int) -> Any:
        values = columns.get(field.name)
        if values is None:
            return super()._column(field, {}, n_rows)
        return _as_kind(values, self._kinds[field.name])

    def finish(self, notes: Iterable[str] = ()) -> tables.TableFacts:
        """Write what is left and say what the table holds."""
        facts = self.close()
        return tables.TableFacts(
            self.n_rows,
            0,
            None,
            facts.start_ns,
            facts.end_ns,
            facts.rate_hz,
            facts.absolute,
            n_rows_in=self.n_rows,
            notes=tuple(notes),
        )


def _as_kind(values: NDArray[Any], kind: str) -> Any:
    """Give values as pyarrow takes them for a stored kind."""
    if kind == "string":
        return [None if value is None else str(value) for value in values]
    return list(values) if values.dtype == object else values.astype(kind)


def write_rows(
    target: Path,
    schema: TableSchema,
    blocks: Iterable[Rows],
    *,
    id: str,
    rate_hz: Fraction | None,
    options: TextOptions,
    notes: Sequence[str] = (),
) -> tables.TableFacts:
    """Write blocks of rows as one table, with flat memory.

    Parameters
    ----------
    rate_hz : Fraction or None
        The nominal rate; None for rows that come when they come.
    notes : sequence of str
        Read after the last block: a reader may add to it while it reads.
    """
    writer = RowWriter(target, schema, id=id, rate_hz=rate_hz, options=options)
    try:
        for rows in blocks:
            writer.put(rows)
        return writer.finish(notes)
    except BaseException:
        writer.abort()
        raise


def stream_of_rows(
    name: str, schema: TableSchema, blocks: Iterable[Rows], *, rate_hz: Fraction | None
) -> Stream:
    """Join blocks of rows to a stream of the numeric channels; without a rate it is events."""
    columns = [column for column in schema.columns if column.kind != "string"]
    listed = list(blocks)
    stamps = [rows.stamps_ns for rows in listed]
    data = [
        np.column_stack([rows.columns[c.name].astype(np.float64) for c in columns])
        if columns
        else np.empty((rows.stamps_ns.size, 0))
        for rows in listed
    ]
    return Stream(
        name,
        np.concatenate(stamps) if stamps else np.empty(0, np.int64),
        np.concatenate(data) if data else np.empty((0, len(columns))),
        tuple(column.name for column in columns),
        tuple(column.unit for column in columns),
        rate_hz,
        schema.time.absolute,
        "signal" if rate_hz is not None else "events",
    )


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


def rate_names(rates_hz: Iterable[Fraction]) -> dict[Fraction, str]:
    """Name the streams of a file whose channels differ in nothing but their rate.

    Returns
    -------
    dict
        Rate -> `signal` where there is one rate, else as `signal_100Hz`, `signal_1-30Hz`.
    """
    known = list(dict.fromkeys(rates_hz))
    if len(known) == 1:
        return {known[0]: "signal"}
    return {rate_hz: f"signal_{rate_hz}Hz".replace("/", "-") for rate_hz in known}


@dataclass(frozen=True, slots=True)
class Start:
    """When a recording begins.

    Parameters
    ----------
    ns : int
        Unix time if `absolute`, else nanoseconds on a clock of its own (a local one counts from
        1970 in its own zone).
    """

    ns: int = 0
    absolute: bool = False
    note: str | None = None


def start_of(local: datetime | None, tz: str | None) -> Start:
    """Take a start in local time, in the zone of `--tz` if there is one."""
    if local is None:
        return Start(note="no start time; stamps count from the first one")
    if tz is None:
        return Start(unix_ns(local.replace(tzinfo=UTC)), note=LOCAL_NOTE)
    return Start(unix_ns(local.replace(tzinfo=ZoneInfo(tz))), absolute=True)


def unix_ns(when: datetime) -> int:
    """Give a time with a zone as Unix nanoseconds, exactly."""
    since = when - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86400 + since.seconds) * NS_PER_S + since.microseconds * 1000


# Published sets of trials, without times ----------------------------------------------------------

TRIALS = "trials"


@dataclass(frozen=True, slots=True)
class TrialStream:
    """One stream of a set of trials.

    Parameters
    ----------
    columns : tuple of Column
    data : tuple of array [shape=(n_samples, n_channels)]
        One for each trial that is there.
    """

    columns: tuple[Column, ...]
    rate_hz: Fraction
    data: tuple[NDArray[Any], ...]


@dataclass(frozen=True, slots=True)
class Trials:
    """The trials of one person.

    The files have no times: a trial begins on the next whole second that leaves 1 s to the one
    before, so that no window or interpolation runs from one into another.

    Parameters
    ----------
    numbers : tuple of int
        The number of each trial, from 1; empty ones are missing.
    labels : mapping of Column to list
        One value a trial.
    """

    numbers: tuple[int, ...]
    baseline_s: tuple[float, ...]
    streams: Mapping[str, TrialStream]
    labels: Mapping[Column, Sequence[Any]]
    notes: tuple[str, ...] = ()

    def schemas(self, options: TextOptions) -> dict[str, TableSchema]:
        """Give the schema of each stream, and that of the trials."""
        columns = {name: stream.columns for name, stream in self.streams.items()}
        columns[TRIALS] = (*_TRIAL_COLUMNS, *self.labels)
        time, units = TimeColumn("rate", "given"), dict(options.units)
        return {
            name: TableSchema(
                tuple(replace(c, unit=units.get(c.name, c.unit)) for c in known),
                time,
                options.float32,
            )
            for name, known in columns.items()
        }

    def rate_hz(self, stream: str) -> Fraction | None:
        """Give the rate of a stream; None for the trials themselves."""
        return self.streams[stream].rate_hz if stream in self.streams else None

    def blocks(self, stream: str) -> Iterator[Rows]:
        """Give the rows of a stream, a trial a block."""
        if stream == TRIALS:
            yield self._trials()
            return
        known = self.streams[stream]
        for start_s, data in zip(self._starts_s(), known.data, strict=True):
            rows = np.arange(len(data), dtype=np.int64)
            columns = {column.name: data[:, k] for k, column in enumerate(known.columns)}
            yield Rows(row_stamps(start_s * NS_PER_S, known.rate_hz, rows), columns)

    def _lengths_s(self) -> list[Fraction]:
        return [
            max(len(stream.data[k]) / stream.rate_hz for stream in self.streams.values())
            for k in range(len(self.numbers))
        ]

    def _starts_s(self) -> list[int]:
        starts, next_s = [], 0
        for length_s in self._lengths_s():
            starts.append(next_s)
            next_s += math.ceil(length_s) + 1
        return starts

    def _trials(self) -> Rows:
        columns = {
            "trial": np.array(self.numbers, np.int64),
            "duration": np.array([float(length) for length in self._lengths_s()], np.float64),
            "baseline": np.array(self.baseline_s, np.float64),
        }
        for column, values in self.labels.items():
            columns[column.name] = np.array(
                list(values), np.float64 if column.kind == "float64" else object
            )
        return Rows(np.array(self._starts_s(), np.int64) * NS_PER_S, columns)


_TRIAL_COLUMNS = (
    Column("trial", "int64", "trial", fixed=True),
    Column("duration", "float64", "duration", "s", fixed=True),
    Column("baseline", "float64", "baseline", "s", fixed=True),
)

# DEAP, preprocessed: 40 channels at 128 Hz, 3 s before each clip (Koelstra et al. 2012).
DEAP_RATE_HZ, DEAP_BASELINE_S = Fraction(128), 3.0
DEAP_LABELS = ("valence", "arousal", "dominance", "liking")
# fmt: off
DEAP_EEG = (
    "Fp1", "AF3", "F3", "F7", "FC5", "FC1", "C3", "T7", "CP5", "CP1", "P3", "P7", "PO3", "O1", "Oz",
    "Pz", "Fp2", "AF4", "Fz", "F4", "F8", "FC6", "FC2", "Cz", "C4", "T8", "CP6", "CP2", "P4", "P8",
    "PO4", "O2",
)
# fmt: on
DEAP_CHANNELS: Mapping[str, tuple[tuple[str, ...], str | None]] = {
    "eeg": (
        DEAP_EEG,
        "uV",
    ),
    "eog": (("hEOG", "vEOG"), "uV"),
    "emg": (("zEMG", "tEMG"), "uV"),
    "gsr": (("GSR",), None),  # in nS or Ohm: it differs between the two places of recording
    "resp": (("Resp",), None),
    "bvp": (("Plet",), None),
    "temp": (("Temp",), None),
}


def deap_trials(data: NDArray[Any], labels: NDArray[Any], where: str) -> Trials:
    """Take a person of DEAP apart.

    Parameters
    ----------
    data : [shape=(n_trials, 40, n_samples)]
    labels : [shape=(n_trials, 4)]

    Raises
    ------
    DataError
        The arrays have other shapes.
    """
    n_channels = sum(len(names) for names, _ in DEAP_CHANNELS.values())
    is_deap = data.ndim == 3 and data.shape[1] == n_channels
    if not is_deap or labels.shape != (len(data), len(DEAP_LABELS)):
        raise DataError(
            f"data {data.shape} and labels {labels.shape} are not those of DEAP", where=where
        )
    streams, at = {}, 0
    for stream, (names, unit) in DEAP_CHANNELS.items():
        part = data[:, at : at + len(names)]
        columns = tuple(Column(name, "float64", name, unit, fixed=True) for name in names)
        streams[stream] = TrialStream(columns, DEAP_RATE_HZ, tuple(trial.T for trial in part))
        at += len(names)
    return Trials(
        tuple(range(1, len(data) + 1)),
        (DEAP_BASELINE_S,) * len(data),
        streams,
        {
            Column(n, "float64", n, fixed=True): list(labels[:, k])
            for k, n in enumerate(DEAP_LABELS)
        },
        (TRIALS_NOTE,),
    )


TRIALS_NOTE = "has no times between trials: they are laid on whole seconds, 1 s or more apart"


def write_trials(
    trials: Trials, stream: str, schema: TableSchema, target: Path, *, id: str, options: TextOptions
) -> tables.TableFacts:
    """Write one stream of a set of trials, or the trials themselves."""
    is_first = stream == next(iter(trials.streams))
    return write_rows(
        target,
        schema,
        trials.blocks(stream),
        id=id,
        rate_hz=trials.rate_hz(stream),
        options=options,
        notes=[f"{id}: {note}" for note in trials.notes if is_first],
    )
