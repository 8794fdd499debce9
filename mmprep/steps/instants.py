"""Instants as people write them."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction

from mmprep.errors import UsageError
from mmprep.timebase import NS_PER_S

_LAST_NS = 7_258_118_400 * NS_PER_S
_LONGEST_NS = 366 * 86_400 * NS_PER_S


def latency_ns(delay_ms: Fraction, where: str) -> int:
    """Give a delay in nanoseconds.

    Raises
    ------
    UsageError
        It is over a year.
    """
    found = round(delay_ms * 10**6)
    if abs(found) > _LONGEST_NS:
        raise UsageError(f"{float(delay_ms):g} ms is over a year", where=where)
    return found


def instant_ns(text: str, where: str) -> int:
    """Read ISO 8601 with a zone, or Unix seconds, as nanoseconds.

    Raises
    ------
    UsageError
        It is none, has no zone, or is not of the years 1740 to 2199.
    """
    found = _instant_ns(text, where)
    if abs(found) >= _LAST_NS:
        hint = "ISO 8601 with a zone, or Unix time in seconds"
        raise UsageError(f"{text!r} is not in the years 1740 to 2199", where=where, hint=hint)
    return found


def _instant_ns(text: str, where: str) -> int:
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
