"""`NAME=VALUE`, as options have it, and files with settings behind them.

`FILE[#STREAM][,KEY=VALUE]...`: what exists as a file is one, as it is written, commas and all; and
in quotes (`"a,b.tsv",rate=4`) a path ends where they end. Settings begin at a comma with a word and
`=` behind it, so values may have commas, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from mmprep import files
from mmprep.errors import UsageError

_SETTING = re.compile(r",(?=[a-z_]+=)")
_QUOTED = re.compile(r'"([^"]+)"(?:#(.*?))?((?:,[a-z_]+=.*)?)$', re.DOTALL)


class Located(NamedTuple):
    """A file that an option names: one of its streams or none, and its settings."""

    path: str
    part: str
    settings: dict[str, str]


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


def parted(text: str, option: str) -> tuple[str, dict[str, str]]:
    """Part `VALUE[,KEY=VALUE]...`.

    Raises
    ------
    UsageError
        A setting is none.
    """
    value, *rest = _SETTING.split(text)
    return value, dict(pair(one, option) for one in rest)


def located(text: str, option: str) -> Located:
    """Part `FILE[#STREAM][,KEY=VALUE]...`.

    Raises
    ------
    UsageError
        There is no such file, or a setting is none.
    """
    readings = list(_readings(text))
    path, part, rest = next((one for one in readings if files.exists(one[0])), readings[-1])
    if not files.exists(path):
        raise UsageError("does not exist", where=path, hint=_hint(path))
    return Located(path, part, dict(pair(one, option) for one in rest))


def _readings(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Give the ways to read it: the longest path first, and before those with a stream."""
    if quoted := _QUOTED.match(text):
        yield quoted[1], quoted[2] or "", _SETTING.split(quoted[3])[1:]
        return
    pieces = _SETTING.split(text)
    ways = [(",".join(pieces[:n]), pieces[n:]) for n in range(len(pieces), 0, -1)]
    yield from ((whole, "", rest) for whole, rest in ways)
    for whole, rest in ways:
        for at in [k for k, char in enumerate(whole) if char == "#"][::-1] or [len(whole)]:
            if not _SETTING.search(whole, at):
                yield whole[:at], whole[at + 1 :], rest


def _hint(path: str) -> str | None:
    before = path.partition(",")[0]
    return "settings are KEY=VALUE, each behind a comma" if files.is_file(before) else None
