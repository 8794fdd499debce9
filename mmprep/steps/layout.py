"""Fields from paths: `{subject}/{session}_{stream}.tsv` and the presets of known corpora.

Rules
-----
- `{name}` stands for one or more characters of one path part, as many as fit; `{ext}` for the
  suffix that the reader knows; `{_}` for a part that is left out of the id; `{name:a|b}` only for
  the values named.
- The id is the path less its suffix, less `{stream}` and `{_}` with the separator beside them.
- `session` is subject and session joined by `/` where the layout has both; without a layout it is
  the id (tables) or the id's folder (media).
- Fields other than subject, session, stream and split are kept in the record as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from mmprep.errors import UsageError

_FIELD = re.compile(r"\{(\w+)(?::([^{}]*))?\}")
_RESERVED = frozenset(
    {"id", "begin_s", "duration_s", "label", "labels", "text", "source", "streams", "valid"}
)

PRESETS: Mapping[str, tuple[str, ...]] = {
    "amigos": ("{subject}/{session}_{stream}.{ext}",),
    "cmlr": (
        "{_:audio|video}/{subject}/{date}/{stem}.{ext}",
        "{subject}/{date}/{stem}.{ext}",
    ),
    "e4": ("{subject}/{session}", "{session}"),
    "lrs": ("{part:main|pretrain|trainval|test}/{subject}/{stem}.{ext}",),
}
PRESET_TEXTS: Mapping[str, tuple[str, ...]] = {
    "cmlr": ("text/{subject}/{date}/{stem}.txt", "{stem}.txt"),
    "lrs": ("{stem}.txt",),
}


@dataclass(frozen=True, slots=True)
class Place:
    """What a path says of an item."""

    id: str
    session: str | None = None
    subject: str | None = None
    stream: str | None = None
    split: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Layout:
    """Patterns, tried in order.

    Parameters
    ----------
    patterns : tuple of str
        Relative to the input root.
    """

    patterns: tuple[str, ...]

    def place(self, stem: str, suffix: str) -> Place | None:
        """Read the fields of a path, given without its suffix; None if no pattern fits."""
        for pattern in self.patterns:
            if found := _regex(pattern, suffix).fullmatch(stem):
                return _place(stem, found)
        return None


def layout(name_or_pattern: str) -> Layout:
    """Read `--layout`: a preset's name or a pattern.

    Raises
    ------
    UsageError
        Neither, or a field that is mmprep's own.
    """
    if name_or_pattern in PRESETS:
        return Layout(PRESETS[name_or_pattern])
    names = [name for name, _ in _FIELD.findall(name_or_pattern)]
    if not names:
        raise UsageError(
            f"{name_or_pattern!r} is no preset and has no {{field}}",
            where="--layout",
            hint=f"presets: {', '.join(sorted(PRESETS))}; a pattern: {{subject}}/{{session}}.tsv",
        )
    if taken := sorted(set(names) & _RESERVED):
        raise UsageError(f"{{{taken[0]}}} is a field of mmprep's own", where="--layout")
    return Layout((name_or_pattern,))


def _regex(pattern: str, suffix: str) -> re.Pattern[str]:
    bare = pattern.removesuffix(".{ext}")
    bare = bare[: -len(suffix)] if suffix and bare.endswith(suffix) else bare
    parts, last = [], 0
    seen: set[str] = set()
    for found in _FIELD.finditer(bare):
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


def _place(stem: str, found: re.Match[str]) -> Place:
    fields = found.groupdict()
    spans = [found.span(name) for name in ("_left_out", "stream") if name in fields]
    fields.pop("_left_out", None)
    subject, session = fields.pop("subject", None), fields.pop("session", None)
    joined = "/".join(part for part in (subject, session) if part) if session else None
    stream, split = fields.pop("stream", None), fields.pop("split", None)
    return Place(_without(stem, spans), joined, subject, stream, split, fields)


def _without(stem: str, spans: list[tuple[int, int]]) -> str:
    for begin, end in sorted(spans, reverse=True):
        head, tail = stem[:begin], stem[end:]
        if head and head[-1] in "/_-. ":
            head = head[:-1]
        elif tail and tail[0] in "/_-. ":
            tail = tail[1:]
        stem = head + tail
    return stem
