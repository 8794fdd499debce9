"""Instants as people write them."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction

from mmprep.errors import UsageError
from mmprep.timebase import NS_PER_S


def instant_ns(text: str, where: str) -> int:
    """Read ISO 8601 with a zone, or Unix seconds, as nanoseconds.

    Raises
    ------
    UsageError
        It is none, or has no zone.
    """
    try:
        return int(Fraction(text) * NS_PER_S)
    except (ValueError, ZeroDivisionError):
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is no time", where=where) from error
    if moment.tzinfo is None:
        raise UsageError(f"{text!r} has no zone", where=where, hint=f"write {text}+00:00")
    seconds = int(moment.replace(microsecond=0).timestamp())
    return seconds * NS_PER_S + moment.microsecond * 1000
