"""What all exporters share: names that a format can hold, and back.

Rules
-----
- An exporter is a pure function from a record to what the format has in its place; the step names
  the files and writes them.
- An id that a format cannot hold is escaped, never changed for good: each byte of a character that
  the format refuses becomes `=XX` in hex, and so does `=` itself. `unescape` gives the id back.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from mmprep.errors import DataError
from mmprep.manifest.model import Record

Line: TypeAlias = dict[str, Any]
Exporter: TypeAlias = Callable[[Record, str], Line]

PORTABLE = re.compile(r"[A-Za-z0-9_-]")

_ESCAPED = re.compile(r"=([0-9A-F]{2})")
_ESCAPED_ALL = re.compile(r"(?:[^=]|=[0-9A-F]{2})*", re.DOTALL)


def escape(name: str, allowed: re.Pattern[str] = PORTABLE) -> str:
    """Write a name with characters that a format allows.

    Parameters
    ----------
    allowed : pattern
        Matches one character that may stay; `=` never does.

    Returns
    -------
    str
        Every other character as `=XX`, one for each byte of its UTF-8.
    """
    return "".join(char if char != "=" and allowed.fullmatch(char) else _hex(char) for char in name)


def unescape(name: str) -> str:
    """Give the name that `escape` was given.

    Raises
    ------
    DataError
        `escape` cannot have written this.
    """
    if not _ESCAPED_ALL.fullmatch(name):
        raise DataError(f"{name!r} is no escaped name: = is not followed by two hex digits")
    plain = re.sub(_ESCAPED, lambda found: chr(int(found[1], 16)), _latin(name))
    try:
        return plain.encode("latin1").decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise DataError(f"{name!r} is no escaped name: it is not UTF-8") from error


def _hex(char: str) -> str:
    return "".join(f"={byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


def _latin(name: str) -> str:
    """Write each byte of a name's UTF-8 as one character."""
    return name.encode("utf-8", "surrogatepass").decode("latin1")
