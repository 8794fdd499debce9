"""Small tables that people write (labels, sessions): tab, semicolon or comma, with a header."""

from __future__ import annotations

import csv
from collections.abc import Sequence

from mmprep import files
from mmprep.errors import DataError, UsageError
from mmprep.manifest.model import LabelValue

NULLS = frozenset({"", "n/a", "N/A", "NA", "NaN", "nan", "NULL", "null"})
MAX_INT = 2**63  # larger ones are ids, and no JSON writer takes them


def read_cells(path: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Read a small table whole.

    Returns
    -------
    list of str, list of (int, list of str)
        The header; the number of the line and the cells of each row.

    Raises
    ------
    UsageError
        It can't be opened.
    DataError
        It is no table: not UTF-8, empty, a row of another length, a column twice.
    """
    try:
        text = files.read_text(path)
    except OSError as error:
        raise UsageError(f"{error.strerror}", where=path) from error
    except UnicodeDecodeError as error:
        raise DataError("is not UTF-8", where=path, hint="save it as UTF-8") from error
    first = text.partition("\n")[0]
    delimiter = next((mark for mark in "\t;," if mark in first), "\t")
    reader = csv.reader(text.splitlines(), delimiter=delimiter)
    try:
        numbered = [(reader.line_num, cells) for cells in reader if cells]
    except csv.Error as error:
        raise DataError(f"{error}", where=f"{path}:{reader.line_num}") from error
    if not numbered:
        raise DataError("is empty", where=path, hint="a header, then the rows")
    header = numbered[0][1]
    if double := [name for name in header if header.count(name) > 1]:
        raise DataError(f"two columns are called {double[0]!r}", where=f"{path}:{numbered[0][0]}")
    for line, cells in numbered:
        if len(cells) != len(header):
            raise DataError(
                f"{len(cells)} cells, expected {len(header)}",
                where=f"{path}:{line}",
                hint="every row has as many cells as the header",
            )
    return header, numbered[1:]


def column_values(texts: Sequence[str]) -> list[LabelValue]:
    """Read a column: numbers if every cell is one or missing, else text."""
    values = [value(text) for text in texts]
    if any(isinstance(found, str) for found in values):
        return [None if text in NULLS else text for text in texts]
    return values


def value(text: str) -> LabelValue:
    """Read a cell: a number, text, or None for what means missing. Leading zeros stay text."""
    if text in NULLS:
        return None
    if text.lstrip("+-").startswith("0") and text.lstrip("+-")[1:2].isdigit():
        return text
    if "_" in text:  # Python reads 1_2 as 12, nobody else does
        return text
    for kind, limit in ((int, MAX_INT), (float, float("inf"))):
        try:
            number = kind(text)
        except ValueError:
            continue
        return number if abs(number) < limit else text
    return text
