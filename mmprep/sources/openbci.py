"""OpenBCI: text of the GUI (old and new), and the CSV of BrainFlow without a header.

Rules (the GUI's writer of versions 3 to 6; BrainFlow's board descriptions)
-----
- GUI: lines with `%` (`%OpenBCI Raw …`, `%Sample Rate = 250 Hz`, `%Board = …`), since version 4 a
  line of names, then rows with a comma and a space between cells. Without names the cells are:
  index, electrodes, up to three of the accelerometer, others, time of day, Unix time.
- BrainFlow: no header, tabs (old ones commas), every cell a decimal; the number of cells tells the
  board: 24 Cyton, 32 Cyton with Daisy, 15 Ganglion. The last two are Unix time and marker.
- Unix time is when the packet reached the PC, so it comes in bursts; it is kept. Rows without it
  are timed by their index, whose losses show but for whole cycles.
- `Timestamp (Formatted)` says the same in text and is left out. Cells `Other` get numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path

from mmprep import tables, timebase
from mmprep.errors import DataError
from mmprep.sources.base import (
    OWN,
    Claim,
    Finder,
    Looks,
    TextOptions,
    file_claims,
    file_of,
    first_lines,
    nulls_of,
)
from mmprep.tables import stamps
from mmprep.tables.packets import Cycle, find_cycle
from mmprep.tables.schema import Column, TimeColumn
from mmprep.tables.text import Counter, TextTable

READER = "openbci"
SUFFIXES = (".txt", ".csv")
CLAIM_BYTES, HEAD_BYTES = 16 << 10, 256 << 10
INDEX, TIME, FORMATTED, MARKER = "Sample Index", "Timestamp", "Timestamp (Formatted)", "Marker"
RATE_TOLERANCE = 0.2
CYTON_CYCLE = Cycle(0, 255)

_SIGNATURE = re.compile(r"^%\s*OpenBCI Raw E[XE]G Data")
_FIELD = re.compile(r"^%\s*(.+?)\s*=\s*(.+?)\s*$")
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*Hz")
_CLOCK = re.compile(r"^(?:\d{4}-\d\d-\d\d )?\d{1,2}:\d\d:\d\d(?:[.:]\d+)?$")
_PREFIX = re.compile(r"^(?:OpenBCI_GUI\$)?(?:Board)?")
_UNITS = {"EXG": "uV", "Accel": "g"}


@dataclass(frozen=True, slots=True)
class _Board:
    """What a row of BrainFlow holds, and the rates that the board runs at."""

    name: str
    rates_hz: tuple[int, ...]
    names: tuple[str, ...]


def _numbered(name: str, n_channels: int) -> tuple[str, ...]:
    return tuple(f"{name} {k}" for k in range(n_channels))


def _board(name: str, rates_hz: tuple[int, ...], *groups: tuple[str, int]) -> _Board:
    middle = (channel for group in groups for channel in _numbered(*group))
    return _Board(name, rates_hz, (INDEX, *middle, TIME, MARKER))


_EXG, _ACCEL, _OTHER, _ANALOG = "EXG Channel", "Accel Channel", "Other", "Analog Channel"
_BOARDS = {
    24: _board("Cyton", (250,), (_EXG, 8), (_ACCEL, 3), (_OTHER, 7), (_ANALOG, 3)),
    32: _board("CytonDaisy", (125, 250), (_EXG, 16), (_ACCEL, 3), (_OTHER, 7), (_ANALOG, 3)),
    15: _board("Ganglion", (200,), (_EXG, 4), (_ACCEL, 3), ("Resistance Channel", 5)),
}


@dataclass(frozen=True, slots=True)
class _Head:
    """What the first lines of a file say.

    Parameters
    ----------
    names : tuple of str
        One a cell, all different.
    n_preamble : int
        Lines before the first row.
    """

    names: tuple[str, ...]
    delimiter: str
    n_preamble: int
    rate_hz: Fraction | None
    board: str | None
    rows: list[list[str]]

    def texts(self, name: str) -> tuple[str, ...]:
        """Give the first cells of a column."""
        index = self.names.index(name)
        return tuple(row[index].strip() for row in self.rows if len(row) > index)


def claim(folder: str, names: Sequence[str], root: Path) -> list[Claim]:
    """Claim the files of a folder that the GUI or BrainFlow wrote."""
    return file_claims(READER, folder, names, root, suffixes=SUFFIXES, knows=is_ours)


def is_ours(path: Path) -> bool:
    """Say whether a file starts with the GUI's first line, or with rows of a known board."""
    lines = first_lines(path, CLAIM_BYTES)
    return bool(lines) and (_SIGNATURE.match(lines[0]) is not None or _brainflow(lines) is not None)


def device(path: Path, stream: str = "") -> str | None:
    """Name the board."""
    lines = first_lines(path, HEAD_BYTES)
    return _head(lines, str(path)).board if lines else None


def _head(lines: Sequence[str], where: str) -> _Head:
    head = _gui(lines, where) if _SIGNATURE.match(lines[0]) else _brainflow(lines)
    if head is None:
        raise DataError("neither text of the OpenBCI GUI nor rows of BrainFlow", where=where)
    return head


def _cut(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    return [line.split(delimiter) for line in lines if line.strip() and not line.startswith("%")]


# --- the GUI -------------------------------------------------------------------------------------


def _gui(lines: Sequence[str], where: str) -> _Head:
    n_fields = next((k for k, line in enumerate(lines) if not line.startswith("%")), len(lines))
    fields = {found[1]: found[2] for line in lines[:n_fields] if (found := _FIELD.match(line))}
    rate = _RATE.search(fields.get("Sample Rate", ""))
    if n_fields >= len(lines) - 1:
        raise DataError("no row below the header", where=where)
    first = [cell.strip() for cell in lines[n_fields].split(",")]
    has_names = not first[0].replace(".", "").isdigit()
    n_preamble = n_fields + has_names
    rows = _cut(lines[n_preamble:-1], ",")
    names = first if has_names else _old_names(first, fields.get("Number of channels", "8"))
    return _Head(
        _apart(names),
        ",",
        n_preamble,
        timebase.rate(rate[1]) if rate else None,
        _PREFIX.sub("", fields["Board"]) if "Board" in fields else None,
        rows,
    )


def _old_names(cells: Sequence[str], n_channels: str) -> list[str]:
    """Name the cells of a row of version 3: the last ones by what they look like."""
    n_exg = int(n_channels) if n_channels.isdigit() else 8
    end = [TIME] if _is_unix(cells[-1]) else []
    if len(cells) > len(end) and _CLOCK.match(cells[len(cells) - len(end) - 1]):
        end = [FORMATTED, *end]
    n_more = len(cells) - 1 - n_exg - len(end)
    n_accel = min(3, max(0, n_more))
    other = _numbered(_OTHER, max(0, n_more - n_accel))
    exg = _numbered(_EXG, n_exg)
    return [INDEX, *exg, *_numbered(_ACCEL, n_accel), *other, *end][: len(cells)]


def _is_unix(text: str) -> bool:
    return any(
        stamp is not None and _is_unix_ns(stamp)
        for stamp in (stamps.parse_ns(text, unit) for unit in ("s", "ms"))
    )


def _is_unix_ns(stamp_ns: int) -> bool:
    return stamps.UNIX_S[0] <= stamp_ns // timebase.NS_PER_S < stamps.UNIX_S[1]


def _apart(names: Sequence[str]) -> tuple[str, ...]:
    """Give names that come again a number: `Other`, `Other 1`."""
    seen: dict[str, int] = {}
    apart = []
    for name in names:
        count = seen.get(name, 0)
        seen[name] = count + 1
        apart.append(f"{name} {count}" if count else name)
    return tuple(apart)


# --- BrainFlow -----------------------------------------------------------------------------------


def _brainflow(lines: Sequence[str]) -> _Head | None:
    """Know rows of BrainFlow by their number of cells, whole index and Unix times that rise."""
    whole = lines[:-1]
    delimiter = next((char for char in "\t," if whole and char in whole[0]), None)
    if delimiter is None:
        return None
    rows = _cut(whole, delimiter)
    board = _BOARDS.get(len(rows[0])) if rows else None
    if board is None or any(not _fits(row, board) for row in rows[:8]):
        return None
    head = _Head(board.names, delimiter, 0, None, board.name, rows)
    return replace(head, rate_hz=_rate_of(head.texts(TIME), board))


def _fits(row: Sequence[str], board: _Board) -> bool:
    if len(row) != len(board.names):
        return False
    values = [stamps.parse_ns(cell, "s") for cell in row]
    if any(value is None for value in values):
        return False
    index, stamp = values[0] or 0, values[-2] or 0
    return index % timebase.NS_PER_S == 0 and index >= 0 and _is_unix_ns(stamp)


def _rate_of(texts: Sequence[str], board: _Board) -> Fraction | None:
    known = [stamp for text in texts if (stamp := stamps.parse_ns(text, "s")) is not None]
    if len(known) < 2 or known[-1] <= known[0]:
        return None
    measured = (len(known) - 1) * timebase.NS_PER_S / (known[-1] - known[0])
    near = [rate for rate in board.rates_hz if abs(measured / rate - 1) <= RATE_TOLERANCE]
    return Fraction(near[0]) if near else None


# --- tables --------------------------------------------------------------------------------------


def _find(claim: Claim, root: Path, options: TextOptions) -> Looks:
    (name,) = claim.files
    return {OWN: partial(_table, file_of(root, name), name, options)}


def _table(path: Path, where: str, options: TextOptions) -> TextTable:
    lines = first_lines(path, HEAD_BYTES)
    if not lines:
        raise DataError("the file is empty or damaged", where=where)
    head = _head(lines, where)
    if head.rows and len(head.rows[0]) != len(head.names):
        raise DataError(
            f"{len(head.rows[0])} cells, the header names {len(head.names)}",
            where=f"{where}:{head.n_preamble + 1}",
        )
    rate = options.rate_hz or head.rate_hz
    layout, time, note = _timed(_layout(path, where, head, options), head, rate)
    return TextTable(
        layout,
        tuple(_column(name) for name in head.names if name not in (TIME, FORMATTED)),
        time,
        rate_hz=rate,
        counter=_counter(head, is_clock=layout.time_cell is None),
        text=frozenset({MARKER, "Marker Channel"} & set(head.names)),
        notes=(note,) if note else (),
    )


def _layout(path: Path, where: str, head: _Head, options: TextOptions) -> tables.Layout:
    return tables.Layout(
        path,
        where,
        cells=head.names,
        delimiter=head.delimiter,
        n_preamble=head.n_preamble,
        comment=b"%",
        nulls=nulls_of(options),
    )


def _timed(
    layout: tables.Layout, head: _Head, rate_hz: Fraction | None
) -> tuple[tables.Layout, TimeColumn, str | None]:
    if TIME not in head.names:
        if rate_hz is None:
            raise DataError(
                "neither stamps nor a sample rate", where=layout.where, hint="give --rate HZ"
            )
        return replace(layout, rate=tables.RateTime(rate_hz)), TimeColumn("rate"), None
    texts = head.texts(TIME)
    judged = stamps.judge(TIME, texts)
    reader = stamps.stamp_reader(judged.time.unit, texts)
    note = None if judged.time.evidence == "size" else judged.note
    return replace(layout, time_cell=head.names.index(TIME), stamps=reader), judged.time, note


def _column(name: str) -> Column:
    return Column(
        tables.table_name(name), source_name=name, unit=_UNITS.get(name.partition(" ")[0])
    )


def _counter(head: _Head, *, is_clock: bool) -> Counter | None:
    if INDEX not in head.names:
        return None
    values = [float(text) for text in head.texts(INDEX) if text.replace(".", "").isdigit()]
    cycle = find_cycle(values) or (CYTON_CYCLE if "Cyton" in (head.board or "Cyton") else None)
    return Counter(INDEX, cycle, is_clock=is_clock)


_FINDER = Finder(_find, device=device)
streams = _FINDER.streams
probe = _FINDER.probe
write = _FINDER.write
device_of = _FINDER.device_of
read_stream = _FINDER.read_stream
