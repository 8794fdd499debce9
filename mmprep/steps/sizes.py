"""Sizes as people write them."""

from __future__ import annotations

import re

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
    if found is None or found[2].lower() not in _UNITS or float(found[1]) <= 0:
        raise UsageError(f"{text!r} is no size", where=option, hint="write 256MiB or 64MB")
    return int(float(found[1]) * _UNITS[found[2].lower()])
