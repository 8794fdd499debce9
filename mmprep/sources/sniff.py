"""Finding out how a text table is laid out.

Rules
-----
- What the options don't say is found in the first 256 KiB: encoding, delimiter (a `sep=` line, then
  the one that cuts lines into equally many cells), header, a delimiter at the end of each line, a
  decimal comma.
- A first row is the header if it has no number, or the name of the time column, or words in more
  than half of its cells and numbers below them, or counts 0, 1, 2 … behind an empty cell.
- Lines before the header that are blank or start with `#` are skipped; where no header follows, the
  last `#` line with as many cells as the rows is the header.
- A row after the header is one of units if it has a unit of time where the time is (without a time
  column: units everywhere), no number, and numbers below it.
- Cells cut by spaces may be cut by several.
- Cells cut by tabs are quoted only where all cells of the first line are.
- A column name that occurs twice is an error; a blank one becomes `column_<k>`.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mmprep import tables
from mmprep.errors import DataError, UsageError
from mmprep.sources.base import EXCHANGES, FIXES, TextOptions, nulls_of
from mmprep.tables import feed, stamps
from mmprep.tables.schema import Column, TimeColumn
from mmprep.tables.text import TextTable

HEAD_BYTES, SHORT_BYTES = 256 << 10, 64 << 10
SNIFF_ROWS, FEW_ROWS = 100, 20
STAMP_ROWS = 300

_DELIMITERS = "\t;,| "
_SPELLED = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}
_SEP_LINE = re.compile(r'^"?sep=(.)"?\s*$', re.IGNORECASE)
_NUMBER = re.compile(r"^[+-]?(\d+([.,]\d*)*|[.,]\d+)([eE][+-]?\d+)?$")
_UNIT = re.compile(r"^[\[(]?[^\W\d_%°][^\s,;]{0,15}$|^[\[(]?[%°µμΩ][^\s,;]{0,15}$|^\[?1\]?$|^-$")
_KNOWN_UNIT = re.compile(
    r"^[\[(]?([numkMµμ]?(V|A|S|s|Hz|g|m|T|Pa|Ohms?|ohms?|Ω)|°?C|degC|%|bpm|rad|deg|counts?)"
    r"([/^*·][^\s,;]{1,8})*[\])]?$"
)
_CONTROL = re.compile(r"[\x01-\x08\x0e-\x1f\x7f]")
_BRACKETS = "[]()"
_COMMA_DECIMAL = re.compile(r"^[+-]?\d+(\.\d{3})*,\d+([eE][+-]?\d+)?$")
_COMMA_THOUSANDS = re.compile(r"^[+-]?[1-9]\d{0,2},\d{3}$")
_POINT_DECIMAL = re.compile(r"^[+-]?\d*\.\d+([eE][+-]?\d+)?$")


@dataclass(frozen=True, slots=True)
class Sniffed:
    """What was found out about one file; `texts` are its first stamps."""

    table: TextTable
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Head:
    """The first lines of a file, and what is known of how they are cut."""

    lines: list[str]
    first: int  # the first line that is neither blank nor a comment
    delimiter: str
    quote: str | None
    is_squeezed: bool = False  # runs of spaces were taken for one
    time_unit: str | None = None  # as the row of units has it

    def rows(self, begin: int, n_rows: int) -> list[list[str]]:
        """Cut lines into cells, blank ones and comments left out."""
        taken = [line for line in self.lines[begin : begin + n_rows] if not _is_skipped(line)]
        return [self.cells(line) for line in taken]

    def next_row(self, begin: int) -> int:
        """Find the next line that is neither blank nor a comment."""
        return next(k for k in range(begin, len(self.lines)) if not _is_skipped(self.lines[k]))

    def cells(self, line: str) -> list[str]:
        """Cut a line into cells."""
        return _split(line, self.delimiter, self.quote)

    def column(self, begin: int, n_rows: int, index: int) -> list[str]:
        """Give one cell of each of these rows that has so many."""
        lines = [line for line in self.lines[begin : begin + n_rows] if not _is_skipped(line)]
        quote, delimiter = self.quote, self.delimiter
        if quote is None or not any(quote in line for line in lines):
            rows = [line.split(delimiter, index + 1) for line in lines]
        else:
            rows = [self.cells(line) for line in lines]
        return [cells[index] for cells in rows if len(cells) > index]


def _split(line: str, delimiter: str, quote: str | None) -> list[str]:
    if quote is None or quote not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter, quotechar=quote), [])
    except csv.Error:  # a cell of over 128 KiB
        return line.split(delimiter)


def _is_skipped(line: str) -> bool:
    return line[:1] == "#" or not line or line.isspace()


def sniff(path: Path, where: str, options: TextOptions) -> Sniffed:
    """Find out how a text table is laid out.

    Raises
    ------
    DataError, UsageError
        As `probe`.
    """
    table, head = laid_out(path, where, options)
    return timed(table, head, options)


def laid_out(path: Path, where: str, options: TextOptions) -> tuple[TextTable, Head]:
    """Find out all but how the stamps are read."""
    stamps.check_unit(options.time_unit)
    lines, encoding, notes = _first_lines(path, where, options)
    head = _head(lines, path, options)
    names, n_preamble, header = _names(head, where, options)
    rows = head.rows(n_preamble, SNIFF_ROWS)
    cells = _cells(names, rows, header=header is not None)
    time_cell = _time_cell(cells, where, options)
    units: dict[str, str] = {}
    if header is not None and _are_units(rows, time_cell):
        units = _units(cells, rows.pop(0))
        n_preamble = head.next_row(n_preamble) + 1
    decimal = _decimal(rows, head.delimiter)
    layout = tables.Layout(
        path,
        where,
        cells=_table_names(cells, time_cell),
        delimiter=head.delimiter,
        quote=head.quote,
        decimal=decimal,
        encoding=encoding,
        n_preamble=n_preamble,
        header=header or b"",
        nulls=nulls_of(options),
        time_cell=time_cell,
        rate=tables.RateTime(options.rate_hz) if options.rate_hz and time_cell is None else None,
    )
    columns = _columns(layout, cells, units)
    table = TextTable(
        layout,
        columns,
        TimeColumn("rate", "given"),
        rate_hz=options.rate_hz,
        text=frozenset(column.name for column in columns),
        notes=(*notes, *_header_notes(header, head), *_comma_notes(rows, decimal)),
        mend=tables.Squeezing() if head.is_squeezed else None,
    )
    said = units.get(cells[time_cell] or "") if time_cell is not None else None
    return table, replace(head, time_unit=_time_unit(said))


def _first_lines(
    path: Path, where: str, options: TextOptions
) -> tuple[list[str], str, tuple[str, ...]]:
    raw = feed.head(path, HEAD_BYTES, where)
    is_whole = len(raw) < HEAD_BYTES
    encoding, note = feed.detect_encoding(raw, is_whole=is_whole)
    encoding, note = (options.encoding, None) if options.encoding else (encoding, note)
    if raw.count(b"\n", 0, SHORT_BYTES) > SNIFF_ROWS + STAMP_ROWS:
        raw, is_whole = raw[:SHORT_BYTES], False
    try:
        text = feed.decode(raw, encoding).decode("utf-8", "replace")
    except (UnicodeError, LookupError) as error:
        raise DataError(f"not {encoding}: {error}", where=where, hint="say --encoding") from error
    if not text.strip("\ufeff\0 \t\r\n"):
        raise DataError("the file is empty", where=where, hint="leave it out, or fetch it again")
    lines = text.split("\n")
    if found := _CONTROL.search(lines[0]):
        raise DataError(
            f"it is no text: its first line has the character 0x{ord(found[0]):02x}",
            where=where,
            hint="does its name say what it is? `file NAME` tells packed data, sound and workbooks",
        )
    if (not is_whole and len(lines) > 1) or not lines[-1]:
        lines.pop()
    return lines, encoding, (note,) if note else ()


def _head(lines: list[str], path: Path, options: TextOptions) -> Head:
    sep = _SEP_LINE.match(lines[0])
    begin = 1 if sep else 0
    first = next((k for k in range(begin, len(lines)) if not _is_skipped(lines[k])), len(lines))
    sample = [line for line in lines[first : first + SNIFF_ROWS] if not _is_skipped(line)]
    if options.delimiter is not None:
        delimiter = _one_character(options.delimiter, "--delimiter")
    else:
        delimiter = sep[1] if sep else _delimiter(sample, path)
    is_squeezed = delimiter == " " and any(map(_has_run, sample))
    if is_squeezed:
        lines = [_squeezed(line) for line in lines]
    quote = _quote(options.quote, delimiter)
    if options.quote is None and quote is None and _are_quoted(lines[first : first + 1], delimiter):
        quote = '"'
    return Head(lines, first, delimiter, quote, is_squeezed)


def _are_quoted(lines: Sequence[str], delimiter: str) -> bool:
    filled = [c.strip() for line in lines for c in line.split(delimiter) if c.strip()]
    return bool(filled) and all(len(c) > 1 and c[0] == c[-1] == '"' for c in filled)


def _has_run(line: str) -> bool:
    return "  " in line or line != line.strip(" ")


def _squeezed(line: str) -> str:
    return tables.Squeezing()(line.encode("utf-8", "replace")).decode("utf-8")


def _one_character(text: str, option: str) -> str:
    char = _SPELLED.get(text.lower(), text)
    if len(char) != 1 or not char.isascii():
        raise UsageError(f"{text!r} is not one ASCII character", where=option)
    return char


def _quote(option: str | None, delimiter: str) -> str | None:
    if option is None:
        return None if delimiter == "\t" else '"'
    return None if option.lower() == "none" else _one_character(option, "--quote")


def _delimiter(lines: Sequence[str], path: Path) -> str:
    """Take the delimiter that cuts most lines into the same number (over 1) of cells."""
    default = "\t" if ".tsv" in path.name.lower() or ".tab" in path.name.lower() else ","
    shares = {char: _share(lines, char) for char in _DELIMITERS if char != " "}
    if max(shares.values()) < 1:
        shares[" "] = 0.9 * _share([_squeezed(line) for line in lines], " ")
    best = max(shares, key=lambda char: (shares[char], char == default))
    return best if shares[best] >= 0.5 else default


def _share(lines: Sequence[str], delimiter: str) -> float:
    quote = _quote(None, delimiter)
    if quote is None or not any(quote in line for line in lines):
        counts = Counter([line.count(delimiter) + 1 for line in lines])
    else:
        counts = Counter([len(_split(line, delimiter, quote)) for line in lines])
    usual, n_lines = max(counts.items(), key=lambda item: (item[1], item[0]), default=(1, 0))
    return n_lines / max(1, len(lines)) if usual > 1 else 0.0


def _names(head: Head, where: str, options: TextOptions) -> tuple[list[str], int, bytes | None]:
    """Give the column names, the lines before the first row, and the header line if any."""
    if head.first >= len(head.lines):
        raise DataError("no row: all lines are blank or comments", where=where)
    line = head.lines[head.first]
    has_header = _has_header(head, options) if options.header is None else options.header
    names, n_preamble, header = head.cells(line), head.first, None
    if has_header:
        n_preamble, header = head.first + 1, line.encode("utf-8")
    else:
        names = _commented_names(head, len(names)) or [f"column_{k + 1}" for k in range(len(names))]
    if options.columns:
        names = _given_names(names, options.columns, where)
    return _checked_names(names, where), n_preamble, header


def _has_header(head: Head, options: TextOptions) -> bool:
    """Say whether the first line names the columns, by what is in it and below it."""
    cells = [cell.strip() for cell in head.cells(head.lines[head.first])]
    is_timed = not {options.time, options.time_hint}.isdisjoint(cells)
    if is_timed or _looks_like_header(cells) or stamps.find_time(cells) is not None:
        return True
    below = head.rows(head.first + 1, FEW_ROWS)
    if not cells[0] and _counts(cells[1:]):  # as pandas writes frames without names
        return any(row[0].strip() for row in below)
    nulls = nulls_of(options)
    words = [k for k, c in enumerate(cells) if c and not _NUMBER.match(c) and c not in nulls]
    filled = [cell for cell in cells if cell]
    return (
        2 * len(words) > len(filled)
        and bool(below)
        and all(len(row) > k and _NUMBER.match(row[k].strip()) for row in below for k in words)
    )


def _counts(cells: Sequence[str]) -> bool:
    """Say whether cells are 0, 1, 2 … or 1, 2, 3 …, at least three of them."""
    return len(cells) > 2 and list(cells) in (
        [str(k) for k in range(len(cells))],
        [str(k + 1) for k in range(len(cells))],
    )


def _header_notes(header: bytes | None, head: Head) -> tuple[str, ...]:
    first = [cell.strip() for cell in head.cells(head.lines[head.first])]
    if header is not None or not _counts(first):
        return ()
    return (f"its first line, {', '.join(first[:3])} …, is taken for a row; --header for names",)


def _looks_like_header(cells: Sequence[str]) -> bool:
    filled = [cell.strip() for cell in cells if cell.strip()]
    return bool(filled) and not any(_NUMBER.match(cell) for cell in filled)


def _commented_names(head: Head, n_cells: int) -> list[str] | None:
    for line in reversed(head.lines[: head.first]):
        cells = head.cells(line.lstrip("# "))
        if line.startswith("#") and len(cells) == n_cells and _looks_like_header(cells):
            return cells
    return None


def _given_names(names: Sequence[str], given: Sequence[str], where: str) -> list[str]:
    spare = len(names) - len(given)
    if spare and (spare != 1 or names[-1].strip()):
        raise UsageError(
            f"--columns gives {len(given)} names, the rows have {len(names)} cells", where=where
        )
    return [*given, *[""] * spare]


def _checked_names(names: Sequence[str], where: str) -> list[str]:
    cut = [name.strip() for name in names]
    doubled = [name for name, count in Counter(filter(None, cut)).items() if count > 1]
    if doubled:
        raise DataError(
            f"the header names {doubled[0]!r} {cut.count(doubled[0])} times",
            where=where,
            hint="name the columns by --columns",
        )
    if any("\n" in name for name in names):
        raise DataError("a column name goes over several lines", where=where)
    return cut


def _cells(names: list[str], rows: Sequence[Sequence[str]], *, header: bool) -> list[str | None]:
    """Give the source column of each cell of a row; None for an empty cell at the end of lines."""
    widths = Counter(len(row) for row in rows)
    usual = max(widths, key=lambda n: (widths[n], n == len(names)), default=len(names))
    cells: list[str | None] = list(names)
    last_is_empty = all(not row[-1].strip() for row in rows if len(row) == usual and row)
    if usual == len(names) + 1 and last_is_empty:
        cells.append(None)
    elif header and len(names) > 1 and not names[-1]:
        if usual == len(names) - 1:
            cells.pop()
        elif last_is_empty:
            cells[-1] = None
    return [f"column_{k + 1}" if cell == "" else cell for k, cell in enumerate(cells)]


def _time_cell(cells: Sequence[str | None], where: str, options: TextOptions) -> int | None:
    names = [cell or "" for cell in cells]
    if options.time is not None:
        if options.time not in names:
            raise UsageError(
                f"no column {options.time!r}; there are {', '.join(filter(None, names))}",
                where=where,
                hint="name one of them by --time",
            )
        return names.index(options.time)
    hinted = names.index(options.time_hint) if options.time_hint in names else None
    found = hinted if hinted is not None else stamps.find_time(names)
    if found is None and options.rate_hz is None:
        raise DataError(
            f"no time column among {', '.join(filter(None, names))}",
            where=where,
            hint=_no_time_hint(names),
        )
    return found


def _no_time_hint(names: Sequence[str]) -> str:
    lower = {name.lower() for name in names}
    if lower.issuperset(EXCHANGES) or lower.issuperset(FIXES):
        return (
            "a clock log of x.csv is called x.clock.csv and lies beside it; or --exclude it, and"
            " give it to align by --clock"
        )
    if len(names) > 1:
        return "name it by --time COLUMN, or give --rate HZ for rows without stamps"
    return "is it one column? --delimiter says what cuts the lines; --rate HZ times the rows"


def _are_units(rows: Sequence[Sequence[str]], time_cell: int | None) -> bool:
    """Say whether the first row holds the units of the columns."""
    if len(rows) < 2:
        return False
    cells = [cell.strip() for cell in rows[0]]
    filled = [k for k, cell in enumerate(cells) if cell]
    if not filled or any(not _UNIT.match(cells[k]) for k in filled):
        return False
    if time_cell is None:
        is_said = all(_KNOWN_UNIT.match(cells[k]) for k in filled)
    else:
        is_said = time_cell < len(cells) and _time_unit(cells[time_cell]) is not None
    below = [row for row in rows[1:] if len(row) == len(cells)]
    others = [k for k in filled if k != time_cell]
    return is_said and bool(below) and all(_NUMBER.match(below[0][k].strip()) for k in others)


def _time_unit(text: str | None) -> str | None:
    return stamps.UNIT_OF.get((text or "").strip(_BRACKETS).lower())


def _units(cells: Sequence[str | None], row: Sequence[str]) -> dict[str, str]:
    found = zip(cells, (cell.strip().strip(_BRACKETS) for cell in row), strict=False)
    return {name: unit for name, unit in found if name and unit}


def _decimal(rows: Sequence[Sequence[str]], delimiter: str) -> str:
    def any_is(pattern: re.Pattern[str]) -> bool:
        return any(pattern.match(cell.strip()) for row in rows for cell in row)

    if delimiter == "," or any_is(_POINT_DECIMAL):
        return "."
    return "," if any_is(_COMMA_DECIMAL) else "."


def _comma_notes(rows: Sequence[Sequence[str]], decimal: str) -> tuple[str, ...]:
    """Say what was taken for granted where every comma might also stand before thousands."""
    if decimal != ",":
        return ()
    numbers = (cell.strip() for row in rows for cell in row)
    found = [text for text in numbers if _COMMA_DECIMAL.match(text)]
    if not all(map(_COMMA_THOUSANDS.match, found)):
        return ()
    return (f"commas are taken for decimal ones: {found[0]!r} for {found[0].replace(',', '.')}",)


def _table_names(cells: Sequence[str | None], time_cell: int | None) -> tuple[str | None, ...]:
    taken: list[str] = [cell for cell in cells if cell is not None]
    named: list[str | None] = []
    for index, cell in enumerate(cells):
        if cell is None or index == time_cell:
            named.append(cell)
        else:
            named.append(tables.table_name(cell, [name for name in taken if name != cell]))
    return tuple(named)


def timed(table: TextTable, head: Head, options: TextOptions) -> Sniffed:
    """Judge the time column by its first stamps."""
    layout = table.layout
    if layout.time_cell is None:
        return Sniffed(table, ())
    texts = _stamp_texts(layout, head)
    name = layout.cells[layout.time_cell] or ""
    said = head.time_unit
    judged = stamps.judge(name, texts, unit=options.time_unit, tz=options.tz, said=said)
    unit = judged.time.unit
    if texts and all(stamps.parse_ns(text, unit) is None for text in texts):
        raise DataError(
            f"the time column {name!r} holds {texts[0]!r}, which is no time ({unit})",
            where=layout.where,
            hint="known: numbers, dates with the year first, times of day; --time names another"
            " column, --time-unit the unit",
        )
    reader = stamps.stamp_reader(unit, texts, tz=options.tz)
    notes = (*table.notes, judged.note) if judged.note else table.notes
    layout = replace(layout, stamps=reader)
    return Sniffed(replace(table, layout=layout, time=judged.time, notes=notes), texts)


def _stamp_texts(layout: tables.Layout, head: Head) -> tuple[str, ...]:
    index = layout.time_cell or 0
    found = [text.strip() for text in head.column(layout.n_preamble, STAMP_ROWS, index)]
    texts = [text for text in found if text not in layout.nulls and "\0" not in text]
    return tuple(text.replace(",", ".") if layout.decimal == "," else text for text in texts)


def _columns(
    layout: tables.Layout, cells: Sequence[str | None], units: Mapping[str, str]
) -> tuple[Column, ...]:
    columns = []
    for name, index in layout.channels.items():
        source = cells[index] or name
        unit = units.get(source) or stamps.named_unit(source)[1]
        columns.append(Column(name, "null", source, unit))
    return tuple(columns)
