"""Sizes as people write them."""

from __future__ import annotations

import re
from fractions import Fraction

from mmprep.errors import UsageError

_DECIMAL = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_BINARY = {"k": 2**10, "kib": 2**10, "m": 2**20, "mib": 2**20, "g": 2**30, "gib": 2**30}
_UNITS = _DECIMAL | _BINARY


def parse_bytes(text: str, option: str = "--shard-size") -> int:
    """Read `256MiB`, `64 MB` or `1048576`.

    Raises
    ------
    UsageError
        No number, no known unit, or nothing.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", text)
    unit = _UNITS.get(found[2].lower(), 0) if found else 0
    n_bytes = int(Fraction(found[1]) * unit) if found else 0
    if n_bytes < 1:
        raise UsageError(f"{text!r} is no size", where=option, hint="write 256MiB or 64MB")
    return n_bytes


def parse_pixels(text: str, option: str) -> tuple[int, int]:
    """Read `WxH`.

    Raises
    ------
    UsageError
        It is none, or holds no pixel.
    """
    width, mark, height = text.lower().partition("x")
    if not mark or not (width.isdigit() and height.isdigit()) or 0 in {int(width), int(height)}:
        raise UsageError(f"{text!r} is not WxH", where=option, hint="for example 64x64")
    return int(width), int(height)
