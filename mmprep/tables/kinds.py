"""Kinds of columns: which cells each can hold.

Rules
-----
- int64: `-?digits` without leading zero. float64: decimal or E notation without leading zero, where
  an integer must be one that float64 holds exactly and no number but `inf` infinite. All else is
  text.
- A declared kind takes leading zeros and rounds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmprep.tables.schema import KINDS, RANK, widest
from mmprep.timebase import BoolArray

EXACT_INTEGERS = 2.0**53
ARROW_TYPES = {
    "null": pa.null(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "string": pa.string(),
}

_INTEGER = r"^-?(0|[1-9][0-9]{0,17})$"
_LONG_INTEGER = r"^-?[1-9][0-9]{18}$"
_NUMBER = r"(?i)^[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?$|^[+-]?inf(inity)?$"
_ANY_NUMBER = r"(?i)^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?$|^[+-]?inf(inity)?$"
_WIDE_INTEGER = r"^[+-]?[0-9]{16,}$"
_HUGE = r"[eE]\+?0*[0-9]{3,}$|^[^.eE]{300,}"  # may be beyond what float64 holds
_COMMA_NUMBER = (  # one point and no comma, as in 2.345, may stand before thousands or decimals
    r"^[+-]?([0-9]+(,[0-9]*)?|[0-9]{1,3}((\.[0-9]{3})+,[0-9]*|(\.[0-9]{3}){2,}))([eE][+-]?[0-9]+)?$"
)


def is_number(text: str) -> bool:
    """Say whether a text is a number in any spelling."""
    return re.match(_ANY_NUMBER, text) is not None


def trimmed(texts: pa.Array, nulls: Sequence[str]) -> pa.Array:
    """Cut spaces around cells; those that are missing without them are missing."""
    cut = pc.utf8_trim_whitespace(texts)
    is_missing = pc.is_in(cut, value_set=pa.array(["", *nulls]))
    return pc.if_else(is_missing, pa.scalar(None, pa.string()), cut)


def point_numbers(cut: pa.Array) -> pa.Array:
    """Write numbers with a decimal comma (and points between thousands) with a decimal point."""
    plain = pc.replace_substring(pc.replace_substring(cut, ".", ""), ",", ".")
    other = pc.binary_join_element_wise(cut, "?", "")  # no number, whatever it looks like
    return pc.if_else(pc.match_substring_regex(cut, _COMMA_NUMBER), plain, other)


def misfits(texts: pa.Array, kind: str) -> BoolArray:
    """Say which cells a kind cannot hold.

    Parameters
    ----------
    texts : pyarrow.Array of string [shape=(n,)]
        Cells without spaces around them; missing ones fit every kind.

    Returns
    -------
    [shape=(n,), bool]
    """
    if kind == "string":
        return np.zeros(len(texts), np.bool_)
    if kind == "null":
        return np.asarray(texts.is_valid().to_numpy(zero_copy_only=False))
    return _no_integer(texts) if kind == "int64" else _no_float(texts)


def unfit(texts: pa.Array, kind: str) -> BoolArray:
    """Say which cells cannot be read as a declared kind: leading zeros and rounding are meant."""
    if kind not in ("int64", "float64"):
        return misfits(texts, kind)
    given = np.asarray(texts.is_valid().to_numpy(zero_copy_only=False))
    if kind == "float64":
        return np.asarray(given & ~_matches(texts, _ANY_NUMBER)) | _overflows(texts)
    return _no_integer(pc.replace_substring_regex(texts, r"^(-?)0+([0-9])", r"\1\2"))


def _matches(texts: pa.Array, pattern: str) -> BoolArray:
    found = pc.match_substring_regex(texts, pattern).fill_null(False)  # noqa: FBT003
    return np.asarray(found.to_numpy(zero_copy_only=False))


def _no_integer(texts: pa.Array) -> BoolArray:
    wrong: BoolArray = ~_matches(texts, _INTEGER) & texts.is_valid().to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(wrong & _matches(texts, _LONG_INTEGER)):
        wrong[row] = not -(1 << 63) <= int(texts[int(row)].as_py()) < 1 << 63
    return wrong


def _no_float(texts: pa.Array) -> BoolArray:
    wrong: BoolArray = ~_matches(texts, _NUMBER) & texts.is_valid().to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(~wrong & _matches(texts, _WIDE_INTEGER)):
        text = texts[int(row)].as_py()
        wrong[row] = len(text) > 400 or int(text) != int(float(text))
    return wrong | _overflows(texts)


def _overflows(texts: pa.Array) -> BoolArray:
    """Say which cells are finite numbers that would be read as infinite."""
    wrong = np.zeros(len(texts), np.bool_)
    for row in np.flatnonzero(_matches(texts, _HUGE) & _matches(texts, _ANY_NUMBER)):
        wrong[row] = math.isinf(float(texts[int(row)].as_py()))
    return wrong


def smallest_kind(texts: pa.Array, *, at_least: str = "null") -> str:
    """Name the smallest kind that holds all cells."""
    for kind in KINDS[RANK[at_least] :]:
        if not misfits(texts, kind).any():
            return kind
    return widest(at_least, "string")
