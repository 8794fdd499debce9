"""Fields from paths: `{subject}/{session}_{stream}.tsv`.

Rules
-----
- `{name}` stands for one or more characters of one path part, as many as fit; `{ext}` for the
  suffix that the reader knows; `{_}` for a part that is left out of the id; `{name:a|b}` only for
  the values named; `**/` at the begin for any folders.
- The id is the path less its suffix, less `{stream}` and `{_}` with the separator beside them.
- `session` is subject and session joined by `/` where the layout has both; without a layout it is
  the id (tables) or the id's folder (media).
- Fields other than subject, session, stream and split are kept in the record as they are.
- A preset may say otherwise what id and session are made of: see `corpora`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

FIELD = re.compile(r"\{(\w+)(?::([^{}]*))?\}")
ANYWHERE = "**/"
RESERVED = frozenset(  # fields of a record that no path gives
    {"id", "begin_s", "duration_s", "label", "labels", "text", "words", "source", "streams"}
    | {"valid", "bound_s", "events", "fold"}
)
_VALUES = re.compile(r":[^{}|]*(?:\|[^{}|]*){4,}(?=\})")


@dataclass(frozen=True, slots=True)
class Place:
    """What a path says of an item."""

    id: str
    session: str | None = None
    subject: str | None = None
    stream: str | None = None
    split: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shape:
    """A pattern, and what id and session are made of where the common rules do not hold.

    Parameters
    ----------
    pattern : str
        Relative to the input root.
    id, session, split : str, optional
        With the fields of the pattern, as `{subject}/E4`.
    """

    pattern: str
    id: str | None = None
    session: str | None = None
    split: str | None = None

    def place(self, stem: str, suffix: str) -> Place | None:
        """Read the fields of a path, given without its suffix; None if the pattern doesn't fit."""
        found = _regex(self.pattern, suffix).fullmatch(stem)
        return _place(self, stem, found) if found else None


@dataclass(frozen=True, slots=True)
class Layout:
    """Shapes, tried in order.

    Parameters
    ----------
    streams : mapping of str to str
        The reader's name of a stream -> another one.
    read : callable, optional
        Reads a path where no pattern can: (stem, suffix) -> place.
    """

    shapes: tuple[Shape, ...]
    streams: Mapping[str, str] = field(default_factory=dict)
    read: Callable[[str, str], Place | None] | None = None

    @property
    def expected(self) -> str:
        """Name the patterns, long lists of values left out."""
        patterns = [_VALUES.sub("", shape.pattern) for shape in self.shapes]
        return ", ".join(patterns) or "the names that its standard gives"

    def place(self, stem: str, suffix: str) -> Place | None:
        """Read the fields of a path, given without its suffix; None if no pattern fits."""
        for shape in self.shapes:
            if found := shape.place(stem, suffix):
                return found
        return self.read(stem, suffix) if self.read is not None else None


def _regex(pattern: str, suffix: str) -> re.Pattern[str]:
    bare = pattern.removesuffix(".{ext}")
    bare = bare[: -len(suffix)] if suffix and bare.endswith(suffix) else bare
    parts, last = [], 0
    if bare.startswith(ANYWHERE):
        parts, last = ["(?:.+/)?"], len(ANYWHERE)
    seen: set[str] = set()
    for found in FIELD.finditer(bare):
        parts.append(re.escape(bare[last : found.start()]))
        parts.append(_group(found[1], found[2], seen))
        last = found.end()
    return re.compile("".join([*parts, re.escape(bare[last:])]))


def _group(name: str, values: str | None, seen: set[str]) -> str:
    body = "|".join(map(re.escape, values.split("|"))) if values else "[^/]+"
    if name in seen:
        return f"(?P={name})"
    seen.add(name)
    return f"(?P<{'_left_out' if name == '_' else name}>{body})"


def _place(shape: Shape, stem: str, found: re.Match[str]) -> Place:
    fields = found.groupdict()
    spans = [found.span(name) for name in ("_left_out", "stream") if name in fields]
    item_id = shape.id.format(**fields) if shape.id else _without(stem, spans)
    given = shape.session.format(**fields) if shape.session else None
    part = shape.split.format(**fields) if shape.split else None
    fields.pop("_left_out", None)
    subject, session = fields.pop("subject", None), fields.pop("session", None)
    joined = "/".join(part for part in (subject, session) if part) if session else None
    stream, split = fields.pop("stream", None), fields.pop("split", None)
    return Place(item_id, given or joined, subject, stream, part or split, fields)


def _without(stem: str, spans: list[tuple[int, int]]) -> str:
    for begin, end in sorted(spans, reverse=True):
        head, tail = stem[:begin], stem[end:]
        if head and head[-1] in "/_-. ":
            head = head[:-1]
        elif tail and tail[0] in "/_-. ":
            tail = tail[1:]
        stem = head + tail
    return stem
