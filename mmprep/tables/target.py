"""Where a table goes, and what it holds once it is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from mmprep.tables.feed import Hasher
from mmprep.tables.parquet import COMPRESSION_LEVEL, TableWriter, TimeFacts
from mmprep.tables.schema import TableSchema


@dataclass(frozen=True, slots=True)
class Target:
    """Where a table goes.

    Parameters
    ----------
    path : Path
        The table's file; its folder must be there.
    item_id : str
        The value of its column `id`.
    rejects : Path, optional
        Where bad rows go; default beside the table, with the suffix `.rejects.tsv`.
    level : int
        Of zstd.
    n_threads : int
        Blocks of text parsed side by side; 1 does all in the caller's thread.
    hasher : callable, optional
        Makes a running hash (with `update` and `hexdigest`) that is shown the input's raw bytes.
    start_ns : int, optional
        The stamp from which relative times count; default that of the first row.
    device : str, optional
        The model that recorded the rows.
    tz : str, optional
        The zone of the local times that became UTC.
    encodings : mapping of str to str
        Column -> Parquet encoding, for those that need no trial.
    """

    path: Path
    item_id: str
    rejects: Path | None = None
    level: int = COMPRESSION_LEVEL
    n_threads: int = 1
    hasher: Callable[[], Hasher] | None = None
    start_ns: int | None = None
    device: str | None = None
    tz: str | None = None
    encodings: Mapping[str, str] = field(default_factory=dict)

    @property
    def rejects_path(self) -> Path:
        """The file of bad rows."""
        return self.rejects or self.path.with_suffix(".rejects.tsv")

    def writer(
        self, schema: TableSchema, *, rate_hz: Fraction | None, irregular: bool
    ) -> TableWriter:
        """Begin the table; see `TableWriter`."""
        return TableWriter(
            self.path,
            schema,
            item_id=self.item_id,
            rate_hz=rate_hz,
            irregular=irregular,
            level=self.level,
            start_ns=self.start_ns,
            background=self.n_threads > 1,
            device=self.device,
            tz=self.tz,
            encodings=self.encodings,
        )


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What one written table holds.

    Parameters
    ----------
    n_rows_in, rows, n_rejected : int
        Rows that the input has of it, rows written, and rows named in the file of rejects.
    rejects : Path or None
        That file, if there is one.
    notes : tuple of str
        What the user should be told on stderr.
    input_digests : dict
        File as the claim names it -> `xxh3_128:hex`.
    """

    time: TimeFacts
    n_rows_in: int
    rows: int
    n_rejected: int = 0
    rejects: Path | None = None
    notes: tuple[str, ...] = ()
    input_digests: dict[str, str] = field(default_factory=dict)

    @property
    def start_ns(self) -> int | None:
        """The first stamp on the source's clock."""
        return self.time.start_ns

    @property
    def end_ns(self) -> int | None:
        """The latest stamp on the source's clock."""
        return self.time.end_ns

    @property
    def rate_hz(self) -> Fraction | None:
        """Nominal where the source names it, else measured; None for irregular rows."""
        return self.time.rate_hz

    @property
    def absolute(self) -> bool:
        """Whether stamps are Unix time."""
        return self.time.absolute
