"""Blocks of text lines -> columns; what cannot be read is found to the line and cell.

Rules
-----
- There are three ways, each a shortcut for the next: where one fails, or might be wrong (leading
  zeros, hexadecimal, integers beyond 2^53 among floats), the next one reads the block. The first
  takes plain lines in one pass (`_cells.c`; left out where it was not compiled), the second what
  Arrow's parser knows, the third reads text and converts each column by the rules below.
- A line is a row unless it is blank (in a table of several columns) or a comment.
- A row is bad if it holds NUL bytes, text that is not UTF-8, a quote left open, another number of
  cells than the header, or the header again. A cell is bad if it is no stamp, or does not fit a
  declared kind. Any other cell that does not fit widens its column.
- Spaces around a number, a stamp or a missing cell among numbers say nothing; those of text stay.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv

from mmprep.errors import DataError
from mmprep.tables.kinds import (
    ARROW_TYPES,
    EXACT_INTEGERS,
    is_number,
    misfits,
    point_numbers,
    smallest_kind,
    trimmed,
    unfit,
)
from mmprep.tables.layout import NULLS, Layout
from mmprep.tables.parsed import Misfit, Parsed, Reject
from mmprep.tables.plain import plain_kinds, read_plain
from mmprep.tables.rejects import shortened
from mmprep.timebase import BoolArray, IntArray

_LF, _ZERO, _SPACE, _PLUS, _MINUS, _POINT, _X = b"\n0 +-.x"


class _Lines:
    """Where the lines of a block begin and end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.bytes = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(self.bytes == _LF)
        if data and not data.endswith(b"\n"):
            ends = np.append(ends, len(data))
        self.ends = ends
        self.starts = np.concatenate([np.zeros(min(1, ends.size), np.int64), ends[:-1] + 1])

    def __len__(self) -> int:
        return int(self.ends.size)

    def raw(self, line: int) -> bytes:
        return self.data[self.starts[line] : self.ends[line]]

    def of(self, positions: IntArray) -> IntArray:
        """Find the lines that byte positions lie in."""
        return np.searchsorted(self.ends, positions, side="left")

    def first_bytes(self) -> NDArray[np.uint8]:
        """Give the first byte of each line; LF for blank ones."""
        padded = np.append(self.bytes, np.uint8(_LF))
        return np.asarray(padded[self.starts])


@dataclass(frozen=True, slots=True)
class BlockParser:
    """Read blocks of one file.

    Parameters
    ----------
    kinds : mapping of str to str
        Channel -> the kind in use. Channels that are absent are not read.
    fixed : frozenset of str
        Channels whose kind is declared.
    on_bad_row : str
        `null` keeps bad rows as missing values; any other policy leaves them out.
    """

    layout: Layout
    kinds: Mapping[str, str]
    fixed: frozenset[str] = frozenset()
    on_bad_row: str = "fail"

    def parse(self, data: bytes) -> Parsed:
        """Read whole lines."""
        return read_plain(data, self.layout, self.kinds) or self._mixed(data)

    def needed(self, data: bytes) -> dict[str, str]:
        """Give the kinds that the values of these lines need, of channels that need others."""
        found = plain_kinds(data, self.layout, self.kinds)
        if found is not None:
            return {name: kind for name, kind in found.items() if name not in self.fixed}
        return {name: misfit.kind for name, misfit in self.parse(data).misfits.items()}

    def _mixed(self, data: bytes) -> Parsed:
        lines = _Lines(data)
        rows = self._rows(lines)
        bad = dict(self._plain_faults(lines, rows))
        bad |= self._open_end(lines, rows, bad)
        if any(self._split(lines.raw(line)) is None for line in bad):
            bad = dict(self._quote_faults(lines, rows)) | bad
        parsed = self._fast(lines, rows, bad)
        return parsed if parsed is not None else self._careful(lines, rows, bad)

    def lines_of(self, data: bytes, parsed: Parsed) -> IntArray:
        """Give the line of each row that was kept of a block, counted from 0."""
        return self._rows(_Lines(data))[parsed.rows]

    # --- lines -------------------------------------------------------------------------------

    def _rows(self, lines: _Lines) -> IntArray:
        first = lines.first_bytes() if len(lines) else np.zeros(0, np.uint8)
        skipped = np.zeros(len(lines), np.bool_)
        if len(self.layout.cells) > 1:
            skipped |= first == _LF
        if self.layout.comment:
            skipped |= self._comments(lines, first)
        return np.flatnonzero(~skipped)

    def _comments(self, lines: _Lines, first: NDArray[np.uint8]) -> BoolArray:
        """Say which lines are comments; a first cell that is a missing value, `#N/A`, is none."""
        found = np.asarray(first == self.layout.comment[0])
        for line in np.flatnonzero(found):
            cell = lines.raw(int(line)).split(self.layout.delimiter.encode(), 1)[0]
            found[line] = cell.decode("utf-8", "replace") not in self.layout.nulls
        return found

    def _plain_faults(self, lines: _Lines, rows: IntArray) -> Iterator[tuple[int, str]]:
        header = self.layout.header
        if header:
            same = lines.ends[rows] - lines.starts[rows] == len(header)
            same &= lines.bytes[np.minimum(lines.starts[rows], len(lines.data) - 1)] == header[0]
            for line in rows[same]:
                if lines.raw(line) == header:
                    yield int(line), "the header again"
        if b"\0" in lines.data:
            struck = np.unique(lines.of(np.flatnonzero(lines.bytes == 0)))
            for line in np.intersect1d(struck, rows):
                yield int(line), "NUL bytes"

    def _open_end(self, lines: _Lines, rows: IntArray, bad: Mapping[int, str]) -> dict[int, str]:
        """Find the last rows if they leave a quote open: the parser would close it."""
        found: dict[int, str] = {}
        for line in map(int, rows[::-1]):
            if line in bad:
                continue
            if self._split(lines.raw(line)) is not None:
                break
            found[line] = "a quote is left open"
        return found

    def _cell_faults(self, lines: _Lines, rows: IntArray) -> Iterator[tuple[int, str]]:
        counts = self._cell_counts(lines)[rows]
        wanted = len(self.layout.cells)
        for line in rows[counts != wanted]:
            yield int(line), self._count_reason(lines, int(line))
        yield from self._quote_faults(lines, rows)
        high = np.unique(lines.of(np.flatnonzero(lines.bytes >= 0x80)))
        for line in np.intersect1d(high, rows):
            try:
                lines.raw(line).decode("utf-8")
            except UnicodeDecodeError as error:
                yield int(line), f"not UTF-8: byte 0x{lines.raw(line)[error.start]:02x}"

    def _cell_counts(self, lines: _Lines) -> IntArray:
        found = np.flatnonzero(lines.bytes == ord(self.layout.delimiter))
        first = np.searchsorted(found, lines.starts)
        counts = np.searchsorted(found, lines.ends) - first + 1
        for line in self._quoted_lines(lines):
            counts[line] = len(self._split(lines.raw(line)) or ())
        return counts

    def _quoted_lines(self, lines: _Lines) -> IntArray:
        quote = self.layout.quote
        if quote is None or quote.encode() not in lines.data:
            return np.zeros(0, np.int64)
        return np.unique(lines.of(np.flatnonzero(lines.bytes == ord(quote))))

    def _split(self, raw: bytes) -> list[str] | None:
        layout = self.layout
        text = raw.decode("utf-8", "replace")
        if layout.quote is None or layout.quote not in text:
            return text.split(layout.delimiter)
        reader = csv.reader([text, ""], delimiter=layout.delimiter, quotechar=layout.quote)
        try:
            cells = next(reader)
        except csv.Error:  # a cell of over 128 KiB
            return None
        return cells if reader.line_num == 1 else None

    def _count_reason(self, lines: _Lines, line: int) -> str:
        cells = self._split(lines.raw(line))
        if cells is None:
            return "a quote is left open"
        is_cut = lines.ends[line] == len(lines.data) and len(cells) < len(self.layout.cells)
        cut = ", the line is cut" if is_cut else ""
        return f"{len(cells)} cells, expected {len(self.layout.cells)}{cut}"

    def _quote_faults(self, lines: _Lines, rows: IntArray) -> Iterator[tuple[int, str]]:
        quote, is_open = (self.layout.quote or "").encode(), False
        for line in np.intersect1d(self._quoted_lines(lines), rows):
            raw = lines.raw(line)
            if self._split(raw) is None:
                is_open = True
                yield int(line), "a quote is left open"
            elif is_open and raw.count(quote) % 2 == 1:
                is_open = False
                yield int(line), "the end of a quote that an earlier line left open"

    def _text(
        self, lines: _Lines, rows: IntArray, bad: Mapping[int, str]
    ) -> tuple[bytes, IntArray]:
        """Join the lines that are read, and say which of the rows they are."""
        if not bad and rows.size == len(lines):
            return lines.data, np.arange(rows.size)
        is_filled, filler = self.on_bad_row == "null", self._null_line()
        kept = [k for k, line in enumerate(rows) if is_filled or int(line) not in bad]
        taken = [filler if int(rows[k]) in bad else lines.raw(rows[k]) for k in kept]
        return b"".join(b"%b\n" % line for line in taken), np.array(kept, dtype=np.int64)

    def _null_line(self) -> bytes:
        return self.layout.delimiter.encode() * (len(self.layout.cells) - 1)

    # --- the fast way ------------------------------------------------------------------------

    def _fast(self, lines: _Lines, rows: IntArray, bad: dict[int, str]) -> Parsed | None:
        if self.layout.decimal != "." or self._has_padded_null(lines.data):
            return None
        text, kept = self._text(lines, rows, bad)
        zeros = self._zero_led(lines)
        if zeros & self._number_cells():
            return None
        table = self._read(text, self._fast_types(), kept.size)
        if table is None or self._has_wide(table):
            return None
        parsed = self._parsed(lines, rows, kept, bad)
        for name, index in self._read_channels().items():
            parsed.columns[name] = _one_chunk(table.column(str(index)))
        if self.layout.time_cell is not None and self.layout.stamps is not None:
            cells = _one_chunk(table.column(str(self.layout.time_cell)))
            parsed.stamps_ns, parsed.is_valid = self.layout.stamps.read(cells)
            if int(parsed.is_valid.sum()) != len(cells) - cells.null_count:
                return None
        return parsed

    def _has_padded_null(self, data: bytes) -> bool:
        """Say whether a missing cell that looks like a number may have spaces around it."""
        blanks = [blank for blank in (" ", "\t") if blank != self.layout.delimiter]
        nulls = [null for null in self.layout.nulls if null not in NULLS and is_number(null)]
        padded = (form for n in nulls for blank in blanks for form in (blank + n, n + blank))
        return any(form.encode() in data for form in padded)

    def _parsed(
        self, lines: _Lines, rows: IntArray, kept: IntArray, bad: Mapping[int, str]
    ) -> Parsed:
        rejects = [Reject(line, bad[line], lines.raw(line)) for line in sorted(bad)]
        n_comments = self._n_comments(lines, rows)
        return Parsed(len(lines), int(rows.size), kept, n_comments, rejects=rejects)

    def _n_comments(self, lines: _Lines, rows: IntArray) -> int:
        others = np.setdiff1d(np.arange(len(lines)), rows) if rows.size < len(lines) else ()
        return sum(lines.raw(line) != b"" for line in others)

    def _read_channels(self) -> dict[str, int]:
        return {name: i for name, i in self.layout.channels.items() if name in self.kinds}

    def _number_cells(self) -> set[int]:
        return {
            index
            for name, index in self._read_channels().items()
            if self.kinds[name] in ("int64", "float64")
        }

    def _fast_types(self) -> dict[str, pa.DataType]:
        types = {str(i): ARROW_TYPES[self.kinds[n]] for n, i in self._read_channels().items()}
        types |= {str(i): pa.null() for i, name in enumerate(self.layout.cells) if name is None}
        if self.layout.stamps is not None and self.layout.time_cell is not None:
            types[str(self.layout.time_cell)] = self.layout.stamps.type
        return types

    def _read(self, text: bytes, types: dict[str, pa.DataType], n_rows: int) -> pa.Table | None:
        """Read rows of text; None where that fails or gives another number of rows."""
        if not n_rows:
            return pa.table({name: pa.array([], type) for name, type in types.items()})
        layout = self.layout
        try:
            table = arrow_csv.read_csv(
                pa.py_buffer(text),
                read_options=arrow_csv.ReadOptions(
                    use_threads=False,
                    column_names=[str(index) for index in range(len(layout.cells))],
                    block_size=max(len(text) + 1, 1 << 12),
                ),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=layout.delimiter,
                    quote_char=layout.quote or False,
                    double_quote=layout.quote is not None,
                    ignore_empty_lines=False,
                ),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=types,
                    include_columns=list(types),
                    null_values=layout.nulls,
                    strings_can_be_null=True,
                ),
            )
        except pa.ArrowInvalid:
            return None
        return table if table.num_rows == n_rows else None

    def _has_wide(self, table: pa.Table) -> bool:
        return any(
            _is_wide(_one_chunk(table.column(str(index))))
            for name, index in self._read_channels().items()
            if self.kinds[name] == "float64"
        )

    def _zero_led(self, lines: _Lines) -> set[int]:
        """Find the cells with a number that starts with 0 and another digit, or with 0x."""
        if not self._number_cells():
            return set()
        hits = _zero_hits(lines.bytes, ord(self.layout.delimiter))
        if not hits.size:
            return set()
        if self.layout.quote is not None and self.layout.quote.encode() in lines.data:
            return self._number_cells()
        found = np.flatnonzero(lines.bytes == ord(self.layout.delimiter))
        starts = lines.starts[lines.of(hits)]
        cells = np.searchsorted(found, hits) - np.searchsorted(found, starts)
        return {int(cell) for cell in np.unique(cells)}

    # --- the careful way ---------------------------------------------------------------------

    def _careful(self, lines: _Lines, rows: IntArray, bad: dict[int, str]) -> Parsed:
        text, kept = self._text(lines, rows, bad)
        table = self._read(text, self._text_types(), kept.size)
        if table is None:
            for line, reason in self._cell_faults(lines, rows):
                bad.setdefault(line, reason)
            kept, table = self._read_rest(lines, rows, bad)
        if self._check_empty(lines, rows[kept], table, bad):
            kept, table = self._read_rest(lines, rows, bad)
        parsed = self._parsed(lines, rows, kept, bad)
        self._convert(parsed, table, lines, rows)
        return parsed

    def _read_rest(
        self, lines: _Lines, rows: IntArray, bad: dict[int, str]
    ) -> tuple[IntArray, pa.Table]:
        text, kept = self._text(lines, rows, bad)
        table = self._read(text, self._text_types(), kept.size)
        if table is None:
            for line in rows:
                alone = lines.raw(line) + b"\n"
                if int(line) not in bad and self._read(alone, self._text_types(), 1) is None:
                    bad[int(line)] = "the line does not split into cells"
            text, kept = self._text(lines, rows, bad)
            table = self._read(text, self._text_types(), kept.size)
        if table is None:
            raise DataError(
                f"{rows.size} rows do not split into cells",
                where=self.layout.where,
                hint="say --delimiter and --quote, or --quote none",
            )
        return kept, table

    def _text_types(self) -> dict[str, pa.DataType]:
        types = dict.fromkeys(map(str, self._read_channels().values()), pa.string())
        types |= {str(i): pa.string() for i, name in enumerate(self.layout.cells) if name is None}
        if self.layout.time_cell is not None:
            types[str(self.layout.time_cell)] = pa.string()
        return types

    def _check_empty(
        self, lines: _Lines, line_of: IntArray, table: pa.Table, bad: dict[int, str]
    ) -> bool:
        """Add the rows with a value in a cell that must be empty; say whether there are any."""
        n_before = len(bad)
        for index, name in enumerate(self.layout.cells):
            if name is None:
                filled = _one_chunk(table.column(str(index))).is_valid()
                for line in line_of[filled.to_numpy(zero_copy_only=False)]:
                    bad.setdefault(int(line), self._count_reason_extra(lines, int(line)))
        return len(bad) > n_before

    def _count_reason_extra(self, lines: _Lines, line: int) -> str:
        n_named = sum(name is not None for name in self.layout.cells)
        cells = self._split(lines.raw(line)) or []
        return f"{len(cells)} cells, expected {n_named}"

    def _convert(self, parsed: Parsed, table: pa.Table, lines: _Lines, rows: IntArray) -> None:
        line_of = rows[parsed.rows]
        cell_faults: dict[int, str] = {}
        if self.layout.time_cell is not None and self.layout.stamps is not None:
            texts = _one_chunk(table.column(str(self.layout.time_cell)))
            self._convert_stamps(parsed, texts, cell_faults)
        channels = self._read_channels()
        for name in sorted(channels, key=lambda name: name not in self.fixed):
            texts = _one_chunk(table.column(str(channels[name])))
            if cell_faults and name not in self.fixed and self.on_bad_row != "null":
                texts = _without(texts, cell_faults)
            self._convert_channel(parsed, name, texts, line_of, cell_faults)
        self._reject_cells(parsed, lines, line_of, cell_faults)

    def _convert_stamps(self, parsed: Parsed, texts: pa.Array, faults: dict[int, str]) -> None:
        reader = self.layout.stamps
        if reader is None:
            return
        plain = self._number_texts(texts)
        source = texts if reader.unit in ("iso", "clock") else plain
        parsed.stamps_ns, parsed.is_valid = reader.read(source)
        given = source.is_valid().to_numpy(zero_copy_only=False)
        name = self.layout.cells[self.layout.time_cell or 0]
        for row in np.flatnonzero(given & ~parsed.is_valid):
            text = texts[int(row)].as_py()
            shown = shortened(repr(text))
            faults.setdefault(int(row), f"{name} is {shown}, {reader.fault(text)}")

    def _convert_channel(
        self,
        parsed: Parsed,
        name: str,
        texts: pa.Array,
        line_of: IntArray,
        faults: dict[int, str],
    ) -> None:
        kind = self.kinds[name]
        plain = texts if kind == "string" else self._number_texts(texts)
        wrong = unfit(plain, kind) if name in self.fixed else misfits(plain, kind)
        if wrong.any() and name not in self.fixed:
            first = int(np.argmax(wrong))
            wide = smallest_kind(plain, at_least=kind)
            parsed.misfits[name] = Misfit(wide, int(line_of[first]), texts[first].as_py())
            return
        for row in np.flatnonzero(wrong):
            shown = shortened(repr(texts[int(row)].as_py()))
            faults.setdefault(int(row), f"{name} is {shown}, expected {kind}")
        if wrong.any():
            plain = pc.if_else(pa.array(wrong), pa.scalar(None, pa.string()), plain)
        is_null = kind == "null"
        parsed.columns[name] = pa.nulls(len(plain)) if is_null else plain.cast(ARROW_TYPES[kind])

    def _number_texts(self, texts: pa.Array) -> pa.Array:
        cut = trimmed(texts, self.layout.nulls)
        return point_numbers(cut) if self.layout.decimal == "," else cut

    def _reject_cells(
        self, parsed: Parsed, lines: _Lines, line_of: IntArray, faults: dict[int, str]
    ) -> None:
        if not faults:
            return
        parsed.rejects += [
            Reject(int(line_of[row]), reason, lines.raw(int(line_of[row])))
            for row, reason in faults.items()
        ]
        parsed.rejects.sort(key=lambda reject: reject.line)
        if self.on_bad_row == "null":
            return
        keep = np.ones(parsed.n_rows, np.bool_)
        keep[list(faults)] = False
        _filter(parsed, keep)


def _without(texts: pa.Array, rows: Iterable[int]) -> pa.Array:
    """Make cells missing: rows that are left out have no say in what their columns hold."""
    left_out = np.zeros(len(texts), np.bool_)
    left_out[list(rows)] = True
    return pc.if_else(pa.array(left_out), pa.scalar(None, texts.type), texts)


def _filter(parsed: Parsed, keep: BoolArray) -> None:
    parsed.rows = parsed.rows[keep]
    parsed.columns = {name: col.filter(pa.array(keep)) for name, col in parsed.columns.items()}
    if parsed.stamps_ns is not None and parsed.is_valid is not None:
        parsed.stamps_ns, parsed.is_valid = parsed.stamps_ns[keep], parsed.is_valid[keep]


def _is_wide(numbers: pa.Array) -> bool:
    """Say whether a float column reaches beyond the integers that it holds exactly, or has NaN."""
    if not len(numbers) or numbers.null_count:
        if pc.any(pc.is_nan(numbers)).as_py():
            return True
        extremes = pc.min_max(numbers)
        low, high = extremes["min"].as_py(), extremes["max"].as_py()
        return low is not None and not -EXACT_INTEGERS < low <= high < EXACT_INTEGERS
    values = numbers.to_numpy()
    return not -EXACT_INTEGERS < values.min() <= values.max() < EXACT_INTEGERS


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _zero_hits(data: NDArray[np.uint8], delimiter: int, chunk: int = 1 << 18) -> IntArray:
    """Find zeros that start a cell (after a sign, a space or a quote too) and go on as a number."""
    hits = []
    padded = np.concatenate([np.array([_LF, _LF], np.uint8), data, np.array([_LF], np.uint8)])
    for begin in range(0, data.size, chunk):
        piece = padded[begin : begin + chunk + 3]
        before, here, after = piece[1:-2], piece[2:-1], piece[3:]
        found = here == _ZERO
        found &= ((after - np.uint8(_ZERO)) < 10) | ((after | np.uint8(0x20)) == _X)
        found &= (before == delimiter) | ((before < _ZERO) & (before != _POINT))
        places = np.flatnonzero(found) + begin
        if places.size:
            hits.append(places[_starts_cell(padded, places + 2, delimiter)])
    return np.concatenate(hits) if hits else np.zeros(0, np.int64)


def _starts_cell(padded: NDArray[np.uint8], places: IntArray, delimiter: int) -> BoolArray:
    def opens(byte: NDArray[np.uint8]) -> BoolArray:
        return np.asarray(np.isin(byte, [delimiter, _LF, _SPACE, *b"\"'"]))

    before, earlier = padded[places - 1], padded[places - 2]
    signed = (before == _PLUS) | (before == _MINUS)
    return np.asarray(opens(before) | (signed & opens(earlier)))
