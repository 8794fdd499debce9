"""`NAME=VALUE`, as options have it."""

from __future__ import annotations

from mmprep.errors import UsageError


def pair(text: str, option: str) -> tuple[str, str]:
    """Part NAME=VALUE.

    Raises
    ------
    UsageError
        One of both is missing.
    """
    name, mark, value = text.partition("=")
    if not mark or not name or not value:
        raise UsageError(f"{text!r} is not NAME=VALUE", where=option)
    return name, value
