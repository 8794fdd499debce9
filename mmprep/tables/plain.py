"""Blocks of plain lines -> columns in one pass (`_cells.c`); left out where it was not compiled."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from mmprep.tables.kinds import ARROW_TYPES
from mmprep.tables.layout import Layout
from mmprep.tables.parsed import Parsed
from mmprep.tables.stamps import DECIMALS

try:
    from mmprep.tables import _cells
except ImportError:  # installed without a compiler
    _cells = None  # type: ignore[assignment]

_Column = tuple[bytes | None, int, bytes | None, bytes]
_CODES = {"null": b"0", "int64": b"i", "float64": b"f", "string": b"s"}
MOST_CELLS, MOST_NULLS, MOST_BYTES = 4096, 256, (1 << 31) - 1  # what _cells.c takes
_NUMBERS = (b"0", b"i", b"f")
_KINDS = {code: kind for kind, code in _CODES.items()}


def read_plain(data: bytes, layout: Layout, kinds: Mapping[str, str]) -> Parsed | None:
    """Read whole lines; None where a line or cell is not plain.

    Parameters
    ----------
    kinds : mapping of str to str
        Channel -> kind; others are not read.
    """
    codes = _codes(layout, kinds)
    if codes is None or not _may_be_plain(data, layout):
        return None
    if b"s" in codes and not (data.isascii() and b"\0" not in data):
        return None
    scale = DECIMALS.get(layout.stamps.unit, 0) if layout.stamps is not None else 0
    read = _cells.read(data, ord(layout.delimiter), codes, *_form(layout), scale)
    if read is None:
        return None
    n_rows, columns = read
    parsed = Parsed(n_rows, n_rows, np.arange(n_rows))
    for name, index in layout.channels.items():
        if name in kinds:
            parsed.columns[name] = _array(columns[index], kinds[name], n_rows)
    if layout.time_cell is not None and layout.stamps is not None:
        stamps = _array(columns[layout.time_cell], "int64", n_rows)
        parsed.stamps_ns, parsed.is_valid = layout.stamps.from_ns(stamps)
    return parsed


def plain_kinds(data: bytes, layout: Layout, kinds: Mapping[str, str]) -> dict[str, str] | None:
    """Give the kinds that the values of whole lines need; None where a line or cell is not plain.

    Integers beyond 2^53 may need a wider kind among floats: what reads them will say so.
    """
    if not _may_be_plain(data, layout):
        return None
    found = _cells.kinds(data, ord(layout.delimiter), len(layout.cells), *_form(layout))
    if found is None:
        return None
    codes = {n: found[i : i + 1] for n, i in layout.channels.items() if n in kinds}
    if layout.time_cell is not None and layout.stamps is not None:
        is_decimal = layout.stamps.unit in DECIMALS
        if found[layout.time_cell : layout.time_cell + 1] not in _NUMBERS and (
            is_decimal or b"s" in codes.values()
        ):
            return None  # rows without a time may be left out, whatever else they hold
    return None if b"?" in codes.values() else {n: _KINDS[code] for n, code in codes.items()}


def _may_be_plain(data: bytes, layout: Layout) -> bool:
    is_quoted = layout.quote is not None and layout.quote.encode() in data
    fits = len(layout.cells) <= MOST_CELLS and len(layout.nulls) <= MOST_NULLS
    fits = fits and len(data) <= MOST_BYTES
    return _cells is not None and layout.decimal == "." and not is_quoted and fits


def _form(layout: Layout) -> tuple[tuple[bytes, ...], int, bytes]:
    """Give what tells missing values, comments and the header again."""
    nulls = tuple(null.encode() for null in layout.nulls)
    return nulls, layout.comment[0] if layout.comment else -1, layout.header


def _codes(layout: Layout, kinds: Mapping[str, str]) -> bytes | None:
    """Give the kind of each cell, None where the stamps are no decimals."""
    codes = []
    for index, name in enumerate(layout.cells):
        if index == layout.time_cell and layout.stamps is not None:
            if layout.stamps.unit not in DECIMALS:
                return None
            codes.append(b"t")
        elif name is None:
            codes.append(b"0")
        elif index == layout.time_cell or name not in kinds:
            codes.append(b"-")
        else:
            codes.append(_CODES[kinds[name]])
    return b"".join(codes)


def _array(column: _Column | None, kind: str, n_rows: int) -> pa.Array:
    if column is None:
        return pa.nulls(n_rows)
    valid, n_missing, offsets, values = column
    buffers = [None if part is None else pa.py_buffer(part) for part in (valid, offsets, values)]
    if offsets is None:
        del buffers[1]
    return pa.Array.from_buffers(ARROW_TYPES[kind], n_rows, buffers, n_missing)
