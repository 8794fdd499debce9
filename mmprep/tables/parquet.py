"""Tables on disk: Parquet with checked pages, encodings chosen by trial, stamps kept exactly.

Rules
-----
- Every page carries a checksum, and every read verifies it: without both, most flipped bits come
  back as wrong data.
- The first column is `id` (a dictionary, constant), then `time`, then the channels.
- Schema metadata `mmprep` is JSON: `start_ns` (the first stamp on the source's clock), `absolute`,
  `rate_hz` ("num/den" or null), `rate_is_measured` (that of the stamps, and none that devices are
  made for), `clock`, `device` (the model that recorded it, or null) and `tz`
  (the zone of the local times that were made UTC, or null). The stamp of a row on the source's
  clock is its `time` where that is absolute, else start_ns + time.
- The same rows give the same bytes, however they arrive: row groups are cut by row count and size.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mmprep import files
from mmprep.errors import DataError, UsageError
from mmprep.rows import IN_MEMORY, Store
from mmprep.signals import Stream
from mmprep.tables.schema import Column, TableSchema, TimeColumn, stored_kind
from mmprep.tables.stamps import NULL_STAMP_NS, RateMeter
from mmprep.timebase import BoolArray, IntArray, rate_text

GROUP_ROWS = 1_000_000
GROUP_BYTES = 128 << 20
TRIAL_ROWS, FEWEST_TRIAL_ROWS = 1 << 14, 1 << 10
FEW_VALUES = 2  # each comes so often that a dictionary is the smallest
COMPRESSION_LEVEL = 1
RECORDING = "recording"
READ_ROWS, READ_BYTES = 1 << 18, 4 << 20

_TYPES = {
    "int64": pa.int64(),
    "float64": pa.float64(),
    "float32": pa.float32(),
    "string": pa.string(),
}
_DICTIONARY, _SPECIAL = "RLE_DICTIONARY", ("DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT")
_CANDIDATES = {
    "int64": ("DELTA_BINARY_PACKED", _DICTIONARY),
    "float64": ("BYTE_STREAM_SPLIT", _DICTIONARY, "PLAIN"),
    "float32": ("BYTE_STREAM_SPLIT", _DICTIONARY, "PLAIN"),
    "string": (_DICTIONARY, "PLAIN"),
}
_KIND_OF = {type_: kind for kind, type_ in _TYPES.items()}
_ID_TYPE = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True, slots=True)
class TimeFacts:
    """What is known of a table's time.

    Parameters
    ----------
    start_ns, end_ns : int or None
        The first and the latest stamp on the source's clock; None without any stamp.
    rate_hz : Fraction or None
        Nominal where the source names it, else measured; None for irregular rows.
    is_measured : bool
        The rate is that of the stamps, and none that devices are made for.
    """

    start_ns: int | None
    end_ns: int | None
    rate_hz: Fraction | None
    absolute: bool
    is_measured: bool = False


def arrow_schema(
    schema: TableSchema, facts: TimeFacts, *, device: str | None = None, tz: str | None = None
) -> pa.Schema:
    """Give the Arrow schema of one table of a stream."""
    rate = rate_text(facts.rate_hz) if facts.rate_hz is not None else ""
    about = {
        "start_ns": facts.start_ns or 0,
        "absolute": schema.time.absolute,
        "rate_hz": rate or None,
        "rate_is_measured": facts.is_measured,
        "clock": _clock_of(schema.time),
        "device": device,
        "tz": tz if schema.time.absolute else None,
    }
    return _fields(schema, rate).with_metadata({"mmprep": json.dumps(about)})


def _clock_of(time: TimeColumn) -> str:
    return "utc" if time.absolute else RECORDING if time.since_start else "device"


@lru_cache(maxsize=16)
def _fields(schema: TableSchema, rate: str) -> pa.Schema:
    """Describe the columns, for all tables of a stream alike."""
    time_type = pa.timestamp("ns", "UTC") if schema.time.absolute else pa.duration("ns")
    time_meta = {"source_name": schema.time.source_name, "rate_hz": rate, "unit": "ns"}
    return pa.schema(
        [
            pa.field("id", _ID_TYPE),
            pa.field("time", time_type, metadata=_filled(time_meta)),
            *(_field(column, schema, rate) for column in schema.columns),
        ]
    )


def _field(column: Column, schema: TableSchema, rate: str) -> pa.Field:
    about = {
        "unit": column.unit or "",
        "channel": column.name,
        "rate_hz": rate,
        "source_name": column.source_name or column.name,
    }
    return pa.field(column.name, _TYPES[stored_kind(column, schema)], metadata=_filled(about))


def _filled(about: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in about.items() if value}


def choose_encodings(
    rows: pa.Table, known: Mapping[str, str] | None = None, *, level: int = COMPRESSION_LEVEL
) -> dict[str, str]:
    """Choose each column's encoding: the smallest of its candidates on the first rows.

    A column with few values is a dictionary without a trial.

    Parameters
    ----------
    rows : pyarrow.Table
        The first row group.
    known : mapping of str to str, optional
        Column -> encoding; one that suits the column's type is taken without a trial.

    Returns
    -------
    dict
        Column -> Parquet encoding; `RLE_DICTIONARY` for a dictionary.
    """
    sample = rows.slice(0, min(TRIAL_ROWS, max(FEWEST_TRIAL_ROWS, rows.num_rows // 2)))
    said = dict(known or {})
    candidates = {
        name: _candidates(sample.column(name), said.get(name)) for name in sample.column_names
    }
    open_ = {name: codes for name, codes in candidates.items() if len(codes) > 1}
    sizes = iter(_trial(sample, [(name, code) for name in open_ for code in open_[name]], level))
    for name, codes in open_.items():
        tried = [next(sizes) for _ in codes]
        candidates[name] = (codes[int(np.argmin(tried))],)
    return {name: codes[0] for name, codes in candidates.items()}


def _candidates(column: pa.ChunkedArray, known: str | None = None) -> tuple[str, ...]:
    kind = _KIND_OF.get(column.type, "")
    if not kind:
        is_temporal = pa.types.is_temporal(column.type)
        return ("DELTA_BINARY_PACKED" if is_temporal else _DICTIONARY,)
    if known in _CANDIDATES[kind]:
        return (known,)
    if kind != "int64" and FEW_VALUES * pc.count_distinct(column).as_py() <= len(column):
        return (_DICTIONARY,)
    return _CANDIDATES[kind]


def encodings_of(path: Path) -> dict[str, str]:
    """Give the encoding that each column of a table was written in; see `choose_encodings`."""
    about = pq.read_metadata(path)
    if not about.num_row_groups:
        return {}
    group, found = about.row_group(0), dict[str, str]()
    for k in range(group.num_columns):
        column = group.column(k)
        named = (code for code in (_DICTIONARY, *_SPECIAL) if code in column.encodings)
        found[column.path_in_schema] = next(named, "PLAIN")
    return found


def _trial(sample: pa.Table, tries: Sequence[tuple[str, str]], level: int) -> list[int]:
    """Write columns in some encodings, all side by side, and give the bytes that each takes."""
    if not tries or not sample.num_rows:
        return [0] * len(tries)
    columns = [sample.column(name) for name, _ in tries]
    wide = pa.table(columns, [str(k) for k in range(len(tries))])
    encodings = {str(k): code for k, (_, code) in enumerate(tries)}
    out = pa.BufferOutputStream()
    with pq.ParquetWriter(out, wide.schema, **_options(encodings, level)) as writer:
        writer.write_table(wide)
    group = pq.read_metadata(pa.BufferReader(out.getvalue())).row_group(0)
    return [int(group.column(k).total_compressed_size) for k in range(len(tries))]


def _options(encodings: Mapping[str, str], level: int) -> dict[str, Any]:
    plain = {name: code for name, code in encodings.items() if code != _DICTIONARY}
    dictionary = [name for name, code in encodings.items() if code == _DICTIONARY]
    return {
        "use_dictionary": dictionary or False,
        "column_encoding": plain or None,
        "compression": "zstd",
        "compression_level": level,
        "write_page_checksum": True,
        "write_statistics": ["time"],  # what a query cuts by; of channels it is a tenth of the work
        "version": "2.6",
    }


class TableWriter:
    """Write one table of a stream, batch by batch, with flat memory.

    Parameters
    ----------
    path : Path
        Where the file grows; its folder must be there.
    schema : TableSchema
        The stream's schema; columns that a batch lacks are written as missing.
    item_id : str
        The value of `id`.
    rate_hz : Fraction, optional
        The nominal rate; without it the rate of the first row group is measured.
    irregular : bool
        The source says that there is no rate.
    background : bool
        Encode one row group while the rows of the next one come in; twice the memory.
    start_ns : int, optional
        The stamp from which relative times count; default that of the first row.
    device, tz : str, optional
        As in `Target`.
    encodings : mapping, optional
        As in `Target`.
    """

    def __init__(
        self,
        path: Path,
        schema: TableSchema,
        *,
        item_id: str,
        rate_hz: Fraction | None = None,
        irregular: bool = False,
        level: int = COMPRESSION_LEVEL,
        background: bool = False,
        start_ns: int | None = None,
        device: str | None = None,
        tz: str | None = None,
        encodings: Mapping[str, str] | None = None,
    ) -> None:
        self._path, self._schema, self._id, self._level = path, schema, item_id, level
        self._rate_hz, self._irregular = rate_hz, irregular
        self._device, self._tz = device, tz
        self._encodings = dict(encodings or {})
        self._waiting: list[pa.RecordBatch] = []
        self._n_waiting, self._waiting_bytes = 0, 0
        self._pool = ThreadPoolExecutor(1, "mmprep-encode") if background else None
        self._encoding: Future[None] | None = None
        self._stamps: list[IntArray] = []  # of the first row group, until the rate is measured
        self._writer: pq.ParquetWriter | None = None
        self._facts = TimeFacts(None, None, rate_hz, schema.time.absolute)
        self._end_ns: int | None = None
        self._first_ns = start_ns
        self._is_open = False  # the first row group is settled, and with it start and rate
        self.n_rows = 0
        self._raw = pa.schema(
            [
                pa.field("time", pa.int64()),
                *(pa.field(c.name, _TYPES[stored_kind(c, schema)]) for c in schema.columns),
            ]
        )

    def add(
        self,
        stamps_ns: IntArray,
        is_valid: BoolArray | None,
        columns: Mapping[str, pa.Array],
    ) -> None:
        """Append rows.

        Parameters
        ----------
        stamps_ns : [shape=(n,), int64, ns]
            On the source's clock.
        is_valid : [shape=(n,), bool], optional
            False where the stamp is missing.
        columns : mapping of str to pyarrow.Array [shape=(n,)]
        """
        missing = None if is_valid is None or is_valid.all() else ~is_valid
        self._note_stamps(stamps_ns if missing is None else stamps_ns[~missing])
        arrays = [pa.array(stamps_ns, pa.int64(), mask=missing)]
        arrays += [self._column(field, columns, stamps_ns.size) for field in list(self._raw)[1:]]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._raw)
        if self._waiting and self._waiting_bytes + batch.nbytes > GROUP_BYTES:
            self._flush(self._n_waiting)
        self._waiting.append(batch)
        self._n_waiting += batch.num_rows
        self._waiting_bytes += batch.nbytes
        while self._n_waiting >= GROUP_ROWS:
            self._flush(GROUP_ROWS)

    def _wait(self, batches: list[pa.RecordBatch]) -> None:
        self._waiting = batches
        self._n_waiting = sum(batch.num_rows for batch in batches)
        self._waiting_bytes = sum(batch.nbytes for batch in batches)

    @property
    def has_start(self) -> bool:
        """Whether a stamp has been seen."""
        return self._first_ns is not None

    def _column(self, field: pa.Field, columns: Mapping[str, pa.Array], n_rows: int) -> pa.Array:
        column = columns.get(field.name)
        if column is None or pa.types.is_null(column.type):
            return pa.nulls(n_rows, field.type)
        return column if column.type == field.type else _narrowed(column, field)

    def _note_stamps(self, stamps: IntArray) -> None:
        if not stamps.size:
            return
        if self._first_ns is None:
            self._first_ns = int(stamps[0])
        if not self._is_open:
            self._stamps.append(stamps)
        latest = int(stamps.max())
        self._end_ns = latest if self._end_ns is None else max(self._end_ns, latest)

    def _flush(self, n_rows: int) -> None:
        table = pa.Table.from_batches(self._waiting, self._raw)
        group, rest = table.slice(0, n_rows), table.slice(n_rows)
        self._wait(rest.to_batches())
        self._settle()
        group = self._finished(group, self._open_facts())
        self.n_rows += group.num_rows
        if self._pool is None:
            self._encode(group)
        else:
            self._encoding = self._pool.submit(self._encode, group)

    def _settle(self) -> None:
        """Wait for the row group that is being encoded."""
        if self._encoding is not None:
            coming, self._encoding = self._encoding, None
            coming.result()

    def _encode(self, group: pa.Table) -> None:
        try:
            if self._writer is None:
                encodings = choose_encodings(group, self._encodings, level=self._level)
                options = _options(encodings, self._level)
                self._writer = pq.ParquetWriter(self._path, group.schema, **options)
            self._writer.write_table(group, row_group_size=max(1, group.num_rows))
        except OSError as error:
            raise _storage(error, self._path) from error

    def _open_facts(self) -> TimeFacts:
        if not self._is_open:
            self._is_open = True
            rate = self._rate_hz
            if rate is None and not self._irregular and self._stamps:
                rate = RateMeter.measure(np.concatenate(self._stamps))
            self._facts = self._facts_of(rate)
            self._stamps = []
        return self._facts

    def _facts_of(self, rate_hz: Fraction | None) -> TimeFacts:
        is_measured = rate_hz != self._rate_hz and not RateMeter.is_usual(rate_hz or Fraction(1))
        absolute = self._schema.time.absolute
        return TimeFacts(self._first_ns, None, rate_hz, absolute, is_measured)

    def _finished(self, group: pa.Table, facts: TimeFacts) -> pa.Table:
        schema = arrow_schema(self._schema, facts, device=self._device, tz=self._tz)
        time = group.column("time")
        if not facts.absolute:
            time = pa.chunked_array(
                [_shifted(chunk, -(facts.start_ns or 0)) for chunk in time.chunks], pa.int64()
            )
        codes = pa.array(np.zeros(group.num_rows, np.int32))
        ids = pa.DictionaryArray.from_arrays(codes, pa.array([self._id]))
        columns = [ids, time.cast(schema.field("time").type), *group.columns[1:]]
        return pa.table(columns, schema=schema)

    def close(self) -> TimeFacts:
        """Write what is left and the footer."""
        if self._waiting or not self._is_open:
            self._flush(self._n_waiting)
        self._settle()
        if self._pool is not None:
            self._pool.shutdown()
        try:
            if self._writer is not None:
                self._writer.close()
        except OSError as error:
            raise _storage(error, self._path) from error
        return replace(self._facts, start_ns=self._first_ns, end_ns=self._end_ns)

    def abort(self) -> None:
        """Drop the file."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        if self._writer is not None:
            with suppress(OSError):  # a full disk; the file goes anyway
                self._writer.close()
        self._path.unlink(missing_ok=True)


def _storage(error: OSError, path: Path) -> Exception:
    # pyarrow says OSError for its own limits too; those have no errno and are bugs of ours.
    return error if error.errno is None else files.storage_error(error, path)


def _shifted(values: pa.Array, by_ns: int) -> pa.Array:
    # Wraps where a stamp lies more than 292 years from the first one; adding it back wraps again.
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    missing = ~values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else None
    return pa.array(numbers + np.int64(by_ns), pa.int64(), mask=missing)


# --- reading -----------------------------------------------------------------------------------


def _open(path: Path) -> pq.ParquetFile:
    try:
        # Read ahead by the block: else a row group is read whole, and kept until its end.
        return pq.ParquetFile(
            path, page_checksum_verification=True, pre_buffer=False, buffer_size=1 << 20
        )
    except (pa.ArrowInvalid, OSError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> DataError:
    return DataError(
        f"the table cannot be read: {error}", where=str(path), hint="make it again from its source"
    )


@dataclass(frozen=True, slots=True)
class TableInfo:
    """What a table says of itself.

    Parameters
    ----------
    channels, units : tuple
        Of all columns after `id` and `time`.
    kinds : tuple of str
        Their types, as pyarrow names them.
    device : str, optional
        The model that recorded it.
    tz : str, optional
        The zone of the local times that were made UTC.
    time_name : str, optional
        The column of the source that the stamps come from.
    clock : str
        `utc`, `device`, or `recording`: from the first sample of what the table belongs to.
    """

    n_rows: int
    time: TimeFacts
    channels: tuple[str, ...]
    units: tuple[str | None, ...]
    kinds: tuple[str, ...]
    device: str | None = None
    tz: str | None = None
    time_name: str | None = None
    clock: str = "device"

    @property
    def texts(self) -> tuple[str, ...]:
        """The channels that hold no numbers."""
        named = zip(self.channels, self.kinds, strict=True)
        return tuple(name for name, kind in named if not _is_number(kind))


def table_info(path: Path) -> TableInfo:
    """Read the footer of a table.

    Raises
    ------
    DataError
        The file is no table of ours, or is damaged.
    """
    with _open(path) as file:
        return _info(file, path)


def _info(file: pq.ParquetFile, path: Path) -> TableInfo:
    schema = file.schema_arrow
    about = json.loads((schema.metadata or {}).get(b"mmprep", b"null"))
    if about is None or schema.names[:2] != ["id", "time"]:
        raise DataError("not a table of mmprep: no `mmprep` metadata", where=str(path))
    rate = Fraction(about["rate_hz"]) if about["rate_hz"] else None
    fields = [schema.field(index) for index in range(2, len(schema))]
    units = tuple(_said(field, "unit") for field in fields)
    return TableInfo(
        file.metadata.num_rows,
        TimeFacts(
            about["start_ns"],
            None,
            rate,
            about["absolute"],
            about.get("rate_is_measured", False),
        ),
        tuple(field.name for field in fields),
        units,
        tuple(str(field.type) for field in fields),
        about.get("device"),
        about.get("tz"),
        _said(schema.field("time"), "source_name"),
        about.get("clock", "device"),
    )


def _said(field: pa.Field, key: str) -> str | None:
    value = (field.metadata or {}).get(key.encode())
    return value.decode("utf-8") if value else None


def column_of(field: pa.Field) -> Column:
    """Give a channel as it is described in a written table."""
    kind = "float64" if field.type == pa.float32() else _KIND_OF[field.type]
    source = _said(field, "source_name") or field.name
    return Column(field.name, kind, source, _said(field, "unit"), fixed=True)


def _is_number(kind: str) -> bool:
    return kind in ("int64", "double", "float")


def iter_stream(
    path: Path,
    name: str,
    *,
    rows: tuple[int, int] | None = None,
    columns: Sequence[str] | None = None,
    n_rows: int | None = None,
) -> Iterator[Stream]:
    """Read the numeric channels of a table as blocks of readings.

    Parameters
    ----------
    rows : (begin, end), optional
        Only these rows, `[begin, end)`.
    columns : sequence of str, optional
        Only these channels, in this order; default all numeric ones.
    n_rows : int, optional
        Rows a block, at most; default as many as make 4 MiB.

    Yields
    ------
    Stream
        Stamps on the source's own clock, `NULL_STAMP_NS` where missing; data float64
        [shape=(n, n_channels)], NaN where missing. At least one block, perhaps empty.

    Raises
    ------
    UsageError
        No such channel, or one that holds text.
    DataError
        The file is damaged.
    """
    with _open(path) as file:
        info = _info(file, path)
        chosen = _chosen(info, columns, path)
        units = tuple(info.units[info.channels.index(channel)] for channel in chosen)
        n_rows = n_rows or max(READ_BYTES // (8 * (1 + len(chosen))), 1)
        is_first = True
        for batch in _batches(file, path, ["time", *chosen], rows, n_rows):
            is_first = False
            yield _stream(name, batch, info, chosen, units)
        if is_first:
            empty = pa.RecordBatch.from_pylist([], file.schema_arrow)
            yield _stream(name, empty, info, chosen, units)


def iter_texts(path: Path) -> Iterator[tuple[str, str]]:
    """Give the texts of all columns of text, with their column, those of a block once.

    Raises
    ------
    DataError
        The file is damaged.
    """
    with _open(path) as file:
        texts = _info(file, path).texts
        for batch in _batches(file, path, list(texts), None, READ_ROWS) if texts else ():
            for name in texts:
                for text in batch.column(name).unique().drop_null().to_pylist():
                    yield name, text


def _chosen(info: TableInfo, columns: Sequence[str] | None, path: Path) -> tuple[str, ...]:
    numeric = tuple(c for c, k in zip(info.channels, info.kinds, strict=True) if _is_number(k))
    for column in columns or ():
        if column not in numeric:
            raise UsageError(
                f"no numeric channel {column!r}; there are {', '.join(numeric) or 'none'}",
                where=str(path),
            )
    return numeric if columns is None else tuple(columns)


def _batches(
    file: pq.ParquetFile,
    path: Path,
    names: list[str],
    rows: tuple[int, int] | None,
    n_rows: int,
) -> Iterator[pa.RecordBatch]:
    begin, end = rows if rows is not None else (0, file.metadata.num_rows)
    at = 0
    for group in range(file.num_row_groups):
        size = file.metadata.row_group(group).num_rows
        if at < end and at + size > begin:
            try:
                for batch in file.iter_batches(
                    n_rows, row_groups=[group], columns=names, use_threads=False
                ):
                    low, high = max(begin - at, 0), min(end - at, batch.num_rows)
                    if low < high:
                        yield batch.slice(low, high - low)
                    at += batch.num_rows
            except OSError as error:
                raise _damaged(path, error) from error
        else:
            at += size


def _stream(
    name: str,
    batch: pa.RecordBatch,
    info: TableInfo,
    channels: tuple[str, ...],
    units: tuple[str | None, ...],
) -> Stream:
    data = np.empty((batch.num_rows, len(channels)))
    for index, channel in enumerate(channels):
        data[:, index] = as_floats(batch.column(channel))
    return Stream(
        name,
        _stamps(batch.column("time"), info.time),
        data,
        channels,
        units,
        info.time.rate_hz,
        info.time.absolute,
        "signal" if info.channels else "events",
        info.time.is_measured,
        info.clock == RECORDING,
    )


def _stamps(time: pa.Array, facts: TimeFacts) -> IntArray:
    """Give stamps on the source's own clock, `NULL_STAMP_NS` where missing."""
    stamps = time.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    if not facts.absolute:
        stamps = stamps + np.int64(facts.start_ns or 0)
    if time.null_count:
        stamps = np.where(time.is_valid().to_numpy(zero_copy_only=False), stamps, NULL_STAMP_NS)
    return np.array(stamps, dtype=np.int64)


def read_rows(
    path: Path, rows: tuple[int, int] | None, columns: Sequence[str] | None = None
) -> tuple[IntArray, pa.Table, TableInfo]:
    """Read rows of a table whole: stamps, columns after `id` and `time`, what it says of itself.

    Raises
    ------
    DataError
        The file is no table of ours, or is damaged.
    """
    with _open(path) as file:
        info = _info(file, path)
        chosen = list(info.channels if columns is None else columns)
        schema = pa.schema([file.schema_arrow.field(name) for name in ("time", *chosen)])
        batches = list(_batches(file, path, schema.names, rows, READ_ROWS))
    table = pa.Table.from_batches(batches, schema).combine_chunks()
    stamps = _stamps(table.column("time").combine_chunks(), info.time)
    return stamps, table.select(chosen), info


def _narrowed(column: pa.Array, field: pa.Field) -> pa.Array:
    narrow = column.cast(field.type, safe=False)
    if pa.types.is_float32(field.type):
        lost = pc.and_(pc.is_inf(narrow), pc.is_finite(column))
        if pc.any(lost).as_py():
            raise DataError(
                f"column {field.name!r} holds {column.filter(lost)[0]}, which float32 cannot",
                hint="convert without --float32",
            )
    return narrow


def as_floats(column: pa.Array) -> NDArray[np.float64]:
    """Give a numeric column as float64, NaN where missing."""
    numbers = column.cast(pa.float64(), safe=False)
    if numbers.null_count:
        numbers = numbers.fill_null(float("nan"))
    return np.asarray(numbers.to_numpy(zero_copy_only=False))


def join_streams(blocks: Iterable[Stream], store: Store = IN_MEMORY) -> Stream:
    """Join the blocks of one stream, one at least; `store` keeps the readings."""
    rest = iter(blocks)
    first = next(rest)
    stamps, data = [first.stamps_ns], store.begin(first.data.shape[1:], first.data.dtype)
    data.add(first.values)
    for block in rest:
        stamps.append(block.stamps_ns)
        data.add(block.values)
    return replace(first, stamps_ns=np.concatenate(stamps), data=data.rows())


def give_back_memory() -> None:
    """Give back to the system what was freed of Arrow's own memory."""
    pa.default_memory_pool().release_unused()


def read_stream(
    path: Path,
    name: str,
    *,
    rows: tuple[int, int] | None = None,
    columns: Sequence[str] | None = None,
) -> Stream:
    """Read the numeric channels of a table at once; see `iter_stream`."""
    return join_streams(iter_stream(path, name, rows=rows, columns=columns))


# --- plain tables ------------------------------------------------------------------------------


def write_table(
    path: Path,
    columns: Mapping[str, Any],
    *,
    item_id: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    level: int = COMPRESSION_LEVEL,
) -> int:
    """Write arrays as one table (clock evidence, frame times).

    Parameters
    ----------
    columns : mapping of str to array [shape=(n,)]
        Numbers or texts; int64 stays int64.
    item_id : str, optional
        Put a first column `id` with this value.
    metadata : mapping, optional
        Kept as JSON in the schema metadata `mmprep`.

    Returns
    -------
    int
        The number of rows.
    """
    arrays = {name: pa.array(np.asarray(values)) for name, values in columns.items()}
    n_rows = max((len(array) for array in arrays.values()), default=0)
    if item_id is not None:
        codes = pa.array(np.zeros(n_rows, np.int32))
        arrays = {"id": pa.DictionaryArray.from_arrays(codes, pa.array([item_id])), **arrays}
    about = {"mmprep": json.dumps(dict(metadata or {}))}
    table = pa.table(arrays).replace_schema_metadata(about)
    try:
        encodings = choose_encodings(table.slice(0, GROUP_ROWS), level=level)
        encodings = {name: encodings[name] for name in table.column_names}
        with pq.ParquetWriter(path, table.schema, **_options(encodings, level)) as writer:
            writer.write_table(table, row_group_size=GROUP_ROWS)
    except OSError as error:
        raise _storage(error, path) from error
    return n_rows


def read_columns(path: Path, columns: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
    """Read columns of a table as arrays, pages verified.

    Raises
    ------
    DataError
        The file is damaged.
    """
    with _open(path) as file:
        try:
            table = file.read(columns=None if columns is None else list(columns), use_threads=False)
        except OSError as error:
            raise _damaged(path, error) from error
    return {name: table.column(name).to_numpy(zero_copy_only=False) for name in table.column_names}


def write_stream(path: Path, stream: Stream, *, item_id: str) -> TimeFacts:
    """Write a stream of numbers as one table.

    Parameters
    ----------
    stream : Stream
        Its data [shape=(n,) or (n, n_channels)] become int64 or float64 columns.
    """
    data = stream.values.reshape(stream.n_samples, -1)
    kind = "int64" if data.dtype.kind in "iub" else "float64"
    units = stream.units or (None,) * len(stream.channels)
    columns = tuple(
        Column(name, kind, name, unit) for name, unit in zip(stream.channels, units, strict=True)
    )
    schema = TableSchema(columns, TimeColumn("ns", absolute=stream.absolute))
    rate_hz = stream.nominal_rate_hz
    writer = TableWriter(path, schema, item_id=item_id, rate_hz=rate_hz, irregular=rate_hz is None)
    arrays = {c.name: pa.array(data[:, k].astype(kind)) for k, c in enumerate(columns)}
    try:
        writer.add(stream.stamps_ns, None, arrays)
        return writer.close()
    except BaseException:
        writer.abort()
        raise
