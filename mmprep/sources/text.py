"""Delimited text with one row a line: TSV, CSV and their kin.

Rules
-----
- How a file is laid out is found out by `sniff`, as far as the options don't say it.
- A long table may be cut into parts of whole lines, or split by the values of a column.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

from mmprep import files, tables
from mmprep.errors import UsageError
from mmprep.sources.base import (
    OWN,
    Claim,
    Finder,
    Looks,
    TextOptions,
    beside,
    file_of,
    known_suffix,
    schema_of,
)
from mmprep.sources.companions import is_companion
from mmprep.sources.sniff import HEAD_BYTES, Head, Sniffed, laid_out, sniff, timed
from mmprep.tables import feed, stamps
from mmprep.tables.parsed import Reject
from mmprep.tables.schema import EVIDENCE, Column, TableSchema
from mmprep.tables.spread import ValueRows
from mmprep.tables.target import TableFacts, Target
from mmprep.tables.text import TextTable

READER = "text"
SUFFIXES = (".tsv", ".csv", ".tab")
NAMED_SUFFIXES = (*SUFFIXES, ".txt", ".dat", ".log")

_SPLIT_HINT = "--split-by takes the column that names the device or signal of a row"


def claim(folder: str, names: Sequence[str], root: Path, *, named: bool = False) -> list[Claim]:
    """Claim the text tables of a folder.

    Parameters
    ----------
    named : bool
        The files were named one by one: any text file is taken then, companions too.
    """
    claims = []
    for name in sorted(names):
        suffix = known_suffix(name, NAMED_SUFFIXES if named else SUFFIXES)
        if suffix is not None and (named or not is_companion(name)):
            path = beside(folder, name)
            claims.append(Claim(READER, path, (path,), suffix))
    return claims


def _find(claim: Claim, root: Path, options: TextOptions) -> Looks:
    (name,) = claim.files
    return {OWN: lambda: sniff(file_of(root, name), name, _declared(claim, options)).table}


def write(
    claim: Claim,
    root: Path,
    stream: str,
    schema: TableSchema,
    target: Target,
    *,
    options: TextOptions,
    span: tables.Span | None = None,
) -> TableFacts:
    """Write the table of a file, or a part of it; see `Finder.write`."""
    (name,) = claim.files
    sniffed = sniff(file_of(root, name), name, _declared(claim, options))
    table = _settled(sniffed, schema, options)
    target = replace(target, tz=table.time.tz)
    if span is not None:
        table = replace(table, layout=replace(table.layout, span=span))
        target = replace(target, start_ns=span.start_ns)
    return table.write(schema, target, options.on_bad_row)


def cut(claim: Claim, root: Path, options: TextOptions, n_bytes: int) -> tuple[tables.Span, ...]:
    """Cut a long table into parts of whole lines that can be written side by side.

    Returns
    -------
    tuple of Span
        None where it stays whole: it is short or packed, its rows have no stamps, or its line ends
        are not bytes of their own.
    """
    (name,) = claim.files
    path = file_of(root, name)
    size = files.stamp(path).n_bytes
    if size <= n_bytes or feed.is_compressed(path) or files.is_member(path):
        return ()
    table = sniff(path, name, _declared(claim, options)).table
    layout, start_ns = table.layout, tables.first_stamp(table.layout, table.mend)
    if start_ns is None or codecs.lookup(layout.encoding).name.startswith(("utf-16", "utf-32")):
        return ()
    edges = (0, *feed.line_starts(path, n_bytes), size)
    spans = tuple(tables.Span(begin, end, start_ns) for begin, end in pairwise(edges))
    return spans if len(spans) > 1 else ()


# --- long tables ---


@dataclass(frozen=True, slots=True)
class Split:
    """The tables of the values of a column (`--split-by`), by the reader's names of streams."""

    parts: dict[str, tuple[Sniffed, int]]
    spread: tables.Spread
    options: TextOptions

    def probe(self) -> dict[str, TableSchema]:
        """Give their schemas; see `Finder.probe`."""
        return {
            stream: schema_of(sniffed.table, stream, self.options)
            for stream, (sniffed, _) in self.parts.items()
        }

    def write(self, stream: str, schema: TableSchema, target: Target) -> TableFacts:
        """Write one of them; see `Finder.write`. Checks that all its rows are there."""
        sniffed, n_rows = self.parts[stream]
        table = _settled(sniffed, schema, self.options)
        target = replace(target, tz=table.time.tz)
        facts = table.write(schema, target, self.options.on_bad_row)
        if facts.n_rows_in != n_rows:
            raise RuntimeError(f"{stream}: {facts.n_rows_in} rows read, {n_rows} were given to it")
        return facts


def split(
    claim: Claim,
    root: Path,
    options: TextOptions,
    folder: Path,
    *,
    take: Callable[[Reject], None] | None = None,
    n_head_bytes: int | None = None,
) -> Split:
    """Split a table by the values of the column that `--split-by` names.

    Parameters
    ----------
    folder : Path
        Where the rows of each value lie until their tables are written.
    take : callable, optional
        Gets the rows without a value; see `tables.Spread`.
    n_head_bytes : int, optional
        Take only the first rows of each value.

    Raises
    ------
    DataError
        As `probe`; too many values to be names; a row without a value, where the policy is `fail`.
    UsageError
        There is no such column, or it is the time.
    """
    (name,) = claim.files
    starts = f"{claim.stem}-"
    said = [known for stream, known in options.declared.items() if stream.startswith(starts)]
    whole, _ = laid_out(file_of(root, name), name, _with_declared(options, *said[:1]))
    column = _key_column(whole, options.split_by or "")
    spread = tables.Spread(
        whole.layout,
        column.name,
        folder,
        on_bad_row=options.on_bad_row,
        take=take,
        n_head_bytes=n_head_bytes,
    )
    parts = {}
    for value in spread.values.values():
        stream = f"{starts}{value_name(value.value)}"
        known = options.declared.get(stream)
        own = _with_declared(options, known) if known is not None else options
        parts[stream] = (_part(whole, column, value, own), value.n_rows)
    return Split(parts, spread, options)


def value_name(value: str) -> str:
    """Write a value so that it can end the name of a stream.

    Returns
    -------
    str
        Letters, digits, `_`, `.` and `-` as they are, all else as `%XX`, byte by byte:
        `urllib.parse.unquote` gives the value back.
    """
    return "".join(char if char.isalnum() else quote(char, safe="_.-") for char in value)


def _key_column(table: TextTable, wanted: str) -> Column:
    where = table.layout.where
    index = table.layout.time_cell
    if index is not None and table.layout.cells[index] == wanted:
        raise UsageError(f"{wanted!r} is the time column", where=where, hint=_SPLIT_HINT)
    for column in table.columns:
        if wanted in (column.source_name, column.name):
            return column
    names = ", ".join(column.source_name for column in table.columns)
    raise UsageError(
        f"there is no column {wanted!r} to split by; there are {names}",
        where=where,
        hint=_SPLIT_HINT,
    )


def _part(table: TextTable, key: Column, rows: ValueRows, options: TextOptions) -> Sniffed:
    layout = replace(
        table.layout,
        path=rows.path,
        numbers=rows.numbers,
        encoding="utf-8",
        n_preamble=0,
        header=b"",
    )
    columns = tuple(column for column in table.columns if column != key)
    lines = feed.head(rows.path, HEAD_BYTES).decode("utf-8", "replace").split("\n")
    head = Head(lines[:-1], 0, layout.delimiter, layout.quote)
    return timed(replace(table, layout=layout, columns=columns), head, options)


# --- plain tables ---


def _declared(claim: Claim, options: TextOptions) -> TextOptions:
    """Take what is declared of the stream's time."""
    known = options.declared.get(claim.stem)
    return _with_declared(options, *([known] if known is not None else []))


def _with_declared(options: TextOptions, *declared: tables.Declared) -> TextOptions:
    """Take what is declared of time; what the options say comes first."""
    for known in declared:
        options = replace(
            options,
            time_hint=known.time,
            time_unit=options.time_unit or known.time_unit,
            rate_hz=options.rate_hz or (Fraction(known.rate) if known.rate else None),
        )
    return options


def _settled(sniffed: Sniffed, schema: TableSchema, options: TextOptions) -> TextTable:
    """Take the stream's time unit where the file's own says little."""
    table, shared = sniffed.table, schema.time
    weak = EVIDENCE.index(table.time.evidence) < EVIDENCE.index("size")
    if table.layout.stamps is None or not weak or shared.unit not in stamps.DECIMALS:
        return table
    reader = stamps.stamp_reader(shared.unit, sniffed.texts, tz=options.tz)
    return replace(table, layout=replace(table.layout, stamps=reader))


_FINDER = Finder(_find)
streams = _FINDER.streams
probe = _FINDER.probe
read_stream = _FINDER.read_stream
