"""What a table's columns are: kinds, their widening, and one schema for all files of a stream.

Rules
-----
- Kinds form a line: null < int64 < float64 < string. A column's kind is the smallest one that holds
  ALL its values exactly as text says; it never depends on which values were seen first.
- `null` means "no value yet". It is stored as float64 and can still become anything.
- The schemas of a stream's files are merged column by column; the widest kind wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from mmprep.errors import DataError

KINDS = ("null", "int64", "float64", "string")
RANK = {kind: rank for rank, kind in enumerate(KINDS)}
RESERVED = {"id": "source_id", "time": "source_time"}
EVIDENCE = ("empty", "none", "steps", "size", "name", "given")


@dataclass(frozen=True, slots=True)
class Column:
    """One channel of a table.

    Parameters
    ----------
    name : str
        The name in the table.
    kind : str
        One of `KINDS`.
    source_name : str
        The name in the raw file.
    unit : str, optional
        None where the source names none.
    fixed : bool
        Declared: never widened, a value that does not fit is a bad cell.
    """

    name: str
    kind: str = "null"
    source_name: str = ""
    unit: str | None = None
    fixed: bool = False

    def __post_init__(self) -> None:
        if self.kind not in RANK:
            raise DataError(f"column {self.name}: no kind {self.kind!r}, one of {', '.join(KINDS)}")


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """How the stamps of a stream are read.

    Parameters
    ----------
    unit : str
        `s ms us ns` (decimal text), `iso` (date and time), `clock` (hh:mm:ss), `rate` (none).
    evidence : str
        What the unit rests on, one of `EVIDENCE`; later ones are stronger. `empty`: the file has no
        stamp, so it says nothing.
    absolute : bool
        Stamps are Unix time; they are stored as `timestamp[ns, UTC]`, else as `duration[ns]`.
    source_name : str
        The column in the raw file; empty for rows without stamps.
    fixed : bool
        `absolute` is declared: stamps that are no Unix time are an error.
    tz : str, optional
        The zone whose local times the file's stamps are; None where they name one or none is known.
    since_start : bool
        Stamps count from the first sample of the recording that the table belongs to, as in BIDS.
    """

    unit: str
    evidence: str = "given"
    absolute: bool = False
    source_name: str = ""
    fixed: bool = False
    tz: str | None = None
    since_start: bool = False


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The columns that all tables of one stream share (`id` and `time` come before them)."""

    columns: tuple[Column, ...]
    time: TimeColumn
    float32: bool = False

    @property
    def kinds(self) -> dict[str, str]:
        """Column name -> kind."""
        return {column.name: column.kind for column in self.columns}

    def widened(self, request: Widen) -> TableSchema:
        """Give the schema that also holds the values a `Widen` reports."""
        columns = tuple(
            replace(column, kind=widest(column.kind, request.kinds.get(column.name, "null")))
            for column in self.columns
        )
        absolute = self.time.absolute and not request.relative
        return replace(self, columns=columns, time=replace(self.time, absolute=absolute))

    def stored(self) -> tuple[tuple[str, str], ...]:
        """Say what is on disk: two schemas with the same answer need no rewrite."""
        kinds = tuple((column.name, stored_kind(column, self)) for column in self.columns)
        return (("time", "timestamp" if self.time.absolute else "duration"), *kinds)


@dataclass(frozen=True, slots=True)
class Declared:
    """What is declared of a stream before anybody looks at its files.

    Parameters
    ----------
    kinds : mapping of str to (str or None)
        Column -> its kind; None: told by its values.
    looks_further : bool
        Tell the kinds of columns that are not named, too.
    time, time_unit, rate : str, optional
        The time column where a file has it; its unit; the rate of rows without stamps.
    """

    kinds: Mapping[str, str | None]
    looks_further: bool = True
    time: str | None = None
    time_unit: str | None = None
    rate: str | None = None

    def of(self, columns: Iterable[Column]) -> tuple[Column, ...]:
        """Give columns their declared kinds; those that nobody is to look at stay unknown."""
        return tuple(map(self._of, columns))

    def _of(self, column: Column) -> Column:
        kind = self.kinds.get(column.name)
        if kind is not None:
            return replace(column, kind=kind, fixed=True)
        is_open = self.looks_further or column.name in self.kinds
        return column if is_open else replace(column, fixed=True)


class Widen(Exception):  # noqa: N818 - a request to the caller, not a fault of the input
    """Ask for a wider schema: values were met that the one in use cannot hold.

    Parameters
    ----------
    kinds : mapping of str to str
        Column name -> the kind it needs, for every column of the file that needs one.
    relative : bool
        The file's stamps are not absolute, though the stream's are said to be.
    examples : mapping of str to str
        Column name -> `file:line: 'text'`, the first value that did not fit.
    """

    def __init__(
        self,
        kinds: Mapping[str, str],
        *,
        relative: bool = False,
        examples: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(dict(kinds), relative, dict(examples or {}))
        self.kinds, self.relative, self.examples = dict(kinds), relative, dict(examples or {})

    def __reduce__(self) -> tuple[object, ...]:
        return _widen, (self.kinds, self.relative, self.examples)


def _widen(kinds: dict[str, str], relative: bool, examples: dict[str, str]) -> Widen:  # noqa: FBT001
    return Widen(kinds, relative=relative, examples=examples)


def widest(*kinds: str) -> str:
    """Name the smallest kind that holds all the given ones."""
    return max(kinds, key=RANK.__getitem__)


def stored_kind(column: Column, schema: TableSchema) -> str:
    """Name the type on disk: an empty column is float64, and `float32` halves the floats."""
    kind = "float64" if column.kind == "null" else column.kind
    return "float32" if kind == "float64" and schema.float32 else kind


def table_name(source_name: str, taken: Iterable[str] = ()) -> str:
    """Name a channel: as in the source, but `id` and `time` belong to the table."""
    name = RESERVED.get(source_name, source_name)
    while name in taken:
        name += "_"
    return name


def with_units(columns: Iterable[Column], units: Mapping[str, str]) -> tuple[Column, ...]:
    """Give columns the units that are said of them by their name in the source or here."""
    return tuple(
        replace(c, unit=units.get(c.source_name, units.get(c.name, c.unit))) for c in columns
    )


def declared(channels: Iterable[tuple[str, str | None, str]]) -> tuple[Column, ...]:
    """Give the columns of channels of a known kind: (label, unit, kind) each."""
    columns: dict[str, Column] = {}
    for label, unit, kind in channels:
        name = table_name(label, columns)
        columns[name] = Column(name, kind, label, unit, fixed=True)
    return tuple(columns.values())


@dataclass(slots=True)
class _Union:
    columns: dict[str, Column] = field(default_factory=dict)

    def add(self, column: Column) -> None:
        known = self.columns.get(column.name)
        if known is None:
            self.columns[column.name] = column
            return
        self.columns[column.name] = replace(
            known,
            kind=widest(known.kind, column.kind),
            unit=known.unit if known.unit is not None else column.unit,
            fixed=known.fixed and column.fixed,
        )


def merge_schemas(schemas: Iterable[TableSchema]) -> TableSchema:
    """Merge the schemas of a stream's files.

    Returns
    -------
    TableSchema
        The union of the columns in order of first appearance, each with its widest kind; absolute
        time only if all files have it; the time unit with the strongest evidence.

    Raises
    ------
    DataError
        No schema is given.
    """
    listed = list(schemas)
    if not listed:
        raise DataError("no table to take a schema from")
    union = _Union()
    for schema in listed:
        for column in schema.columns:
            union.add(column)
    best = max((schema.time for schema in listed), key=lambda time: EVIDENCE.index(time.evidence))
    voices = [schema.time for schema in listed if schema.time.evidence != "empty"]
    time = replace(best, absolute=all(time.absolute for time in voices or [best]), tz=None)
    return TableSchema(tuple(union.columns.values()), time, any(s.float32 for s in listed))


def conform(schema: TableSchema, names: Iterable[str]) -> tuple[Column | None, ...]:
    """Find the column of each name of a file; None where the stream's schema lacks it."""
    columns = {column.name: column for column in schema.columns}
    return tuple(columns.get(name) for name in names)
