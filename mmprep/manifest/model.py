"""Records and the data set they belong to, as values.

Rules
-----
- A record is one line of manifest.jsonl; `Dataset` is dataset.json. The order of the fields here is
  the order of the keys in the files.
- Fields that this version does not know stand in `extra` and are written back after the known ones.
- `rows` are half-open and count within the named shard or table; `offset_s` is the time of row 0
  after the record's `begin_s`.
- Nothing here opens a file. What JSON can hold but the contract forbids (a path that leaves the
  root, rows beyond a shard) is found by `manifest.validate`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from mmprep.errors import DataError

SCHEMA_VERSION = 1

# The name under which `extra` would stand in JSON. No writer uses a key that begins with DEL, so a
# field called "extra" in a foreign manifest is an unknown field like any other.
EXTRA_KEY = "\x7fextra"

Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Digest: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
LabelValue: TypeAlias = str | int | float | bool | None


class _Open(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=None, gc=False
):
    """A value that keeps the fields it does not know."""

    extra: dict[str, Any] = msgspec.field(default_factory=dict, name=EXTRA_KEY)

    def __post_init__(self) -> None:
        if self.extra and (known := self.extra.keys() & (set(self.__struct_fields__) - {"extra"})):
            raise DataError(f"extra fields {sorted(known)} have the names of known ones")


class Piece(msgspec.Struct, frozen=True):
    """A further table of a stream that has several.

    Parameters
    ----------
    source : str, optional
        The file that it comes from, where that is one of its own.
    clock : str, optional
        Its clock evidence.
    start_ns : int, optional [ns]
        When it begins, where its stamps do not say so.
    """

    table: Name
    rows: tuple[Count, Count]
    source: str | None = None
    clock: str | None = None
    start_ns: int | None = None


class StreamRef(_Open, frozen=True, kw_only=True, gc=False):
    """Where the samples of one record's stream are.

    Parameters
    ----------
    shard, table : str, optional
        The file, named below the data set's root; exactly one of the two.
    rows : tuple of int
        `[begin, end)` within that file.
    rate_hz : float, optional [Hz]
        Rows a second; for an aligned window, samples a second. None for irregular stamps.
    offset_s : float, optional [s]
        The time of row 0 after the record's begin_s (shards).
    clock : str, optional
        The clock of the table's time column (tables).
    """

    shard: Name | None = None
    table: Name | None = None
    rows: tuple[Count, Count]
    rate_hz: float | None = None
    offset_s: float | None = None
    clock: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.shard is None) == (self.table is None):
            raise DataError("a stream names either a shard or a table")

    @property
    def path(self) -> str:
        """The name of the file that holds the rows."""
        return self.shard or self.table or ""

    @property
    def n_rows(self) -> int:
        """The number of rows in that file."""
        return self.rows[1] - self.rows[0]

    @property
    def further(self) -> tuple[Piece, ...]:
        """The tables that go on where the first one ends.

        Raises
        ------
        DataError
            `parts` lists something else.
        """
        try:
            return tuple(msgspec.convert(self.extra.get("parts", []), list[Piece]))
        except msgspec.ValidationError as error:
            raise DataError(f"parts of {self.path!r}: {error}") from error

    @property
    def pieces(self) -> tuple[tuple[str, tuple[int, int]], ...]:
        """The files that hold the rows, in order, and the rows of each; a long table has several.

        Raises
        ------
        DataError
            `parts` lists something else.
        """
        return ((self.path, self.rows), *((part.table, part.rows) for part in self.further))


class Record(_Open, frozen=True, kw_only=True, gc=False):
    """One training example.

    Parameters
    ----------
    id : str
        Unique in the manifest.
    begin_s, duration_s : float [s]
        `[begin, begin + duration)` on the session clock.
    label : str, number or None
        The class used for weights.
    labels : dict
        Field -> class, number or None.
    source : str, optional
        The input, named below the input root.
    streams : dict
        Stream name -> StreamRef.
    valid : dict, optional
        Stream name -> share of true samples, 0..1 (aligned windows).
    bound_s : dict, optional [s]
        Stream name -> bound of the clock error, None without evidence (aligned windows).
    words : tuple, optional
        (word, begin_s, end_s) in order.
    """

    id: Name
    session: Name
    subject: str | None = None
    split: str | None = None
    fold: int | None = None
    begin_s: float
    duration_s: Annotated[float, msgspec.Meta(ge=0)]
    label: LabelValue = None
    labels: dict[str, LabelValue] = {}
    text: str | None = None
    source: str | None = None
    streams: dict[Name, StreamRef]
    valid: dict[str, float] | None = None
    bound_s: dict[str, float | None] | None = None
    words: tuple[tuple[str, float, float], ...] | None = None

    @property
    def end_s(self) -> float:
        """The end of the record on the session clock, begin_s + duration_s."""
        return self.begin_s + self.duration_s


class ShardEntry(_Open, frozen=True, kw_only=True, gc=False):
    """A shard as dataset.json lists it; rate_hz is `num/den`."""

    path: Name
    rows: Count
    bytes: Count
    sha256: Digest
    rate_hz: str | None = None
    row_shape: tuple[Count, ...]


class Modality(_Open, frozen=True, kw_only=True, gc=False):
    """What is alike in all shards of a modality; None where they differ."""

    dtype: str | None = None
    row_shape: tuple[Count, ...] | None = None
    rate_hz: str | None = None
    channels: tuple[str, ...] | None = None
    units: tuple[str | None, ...] | None = None
    kind: str | None = None
    shards: tuple[ShardEntry, ...] = ()


class Session(_Open, frozen=True, kw_only=True, gc=False):
    """The session clock: its name, and the Unix nanoseconds of its second 0 (None: not known)."""

    origin_ns: int | None = None
    clock: str | None = None


class LabelCount(_Open, frozen=True, kw_only=True, gc=False):
    """How often a class occurs, and its weight (None before a split)."""

    count: Count
    weight: float | None = None


class Totals(_Open, frozen=True, kw_only=True, gc=False):
    """Sums over the data set; bytes are those of all files but dataset.json."""

    records: Count = 0
    seconds: float = 0.0
    bytes: Count = 0
    failures: Count = 0
    rejected_rows: Count = 0


class FileEntry(_Open, frozen=True, kw_only=True, gc=False):
    """Size and content of a file that is no shard."""

    bytes: Count
    sha256: Digest


class Dataset(_Open, frozen=True, kw_only=True, gc=False):
    """The commit record of a data set directory, dataset.json.

    Parameters
    ----------
    options : dict
        Only those that change content; JSON values.
    modalities, sessions, labels, files : dict
        By name; written in sorted order.
    splits : dict
        Split name -> JSON value, in the order given.
    """

    schema_version: Literal[1] = SCHEMA_VERSION  # type: ignore[assignment]
    mmprep_version: str
    step: str
    step_version: int | str
    options: dict[str, Any] = {}
    modalities: dict[Name, Modality] = {}
    sessions: dict[Name, Session] = {}
    labels: dict[str, LabelCount] = {}
    splits: dict[str, Any] = {}
    totals: Totals = Totals()
    files: dict[Name, FileEntry] = {}

    def shard_entries(self) -> dict[str, ShardEntry]:
        """List all shards by their path."""
        return {shard.path: shard for part in self.modalities.values() for shard in part.shards}


def shard_ref(
    shard: str, rows: tuple[int, int], *, rate_hz: float | None, offset_s: float = 0.0
) -> StreamRef:
    """Name rows of a shard."""
    return StreamRef(shard=shard, rows=rows, rate_hz=rate_hz, offset_s=offset_s)


def table_ref(
    table: str, rows: tuple[int, int], *, rate_hz: float | None, clock: str | None
) -> StreamRef:
    """Name rows of a table."""
    return StreamRef(table=table, rows=rows, rate_hz=rate_hz, clock=clock)


def label_name(label: LabelValue) -> str:
    """Name a class as the keys of `Dataset.labels` do: text as it is, a number as JSON has it."""
    return label if isinstance(label, str) else msgspec.json.encode(label).decode()


def field_value(record: Record, name: str) -> str | None:
    """Look a field up by name: a field of the record, else one of its labels, else an unknown one.

    Returns
    -------
    str or None
        The value as `label_name` writes it; None if the record has none.
    """
    if name in _SCALARS:
        value = getattr(record, name)
    else:
        value = record.labels.get(name, record.extra.get(name))
    return None if value is None else label_name(value)


_SCALARS = frozenset({"id", "session", "subject", "split", "fold", "label", "text", "source"})
