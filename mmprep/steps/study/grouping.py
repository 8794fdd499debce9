"""Which files were recorded together: by the names on their paths, and by time.

Rules
-----
- A path is parted into words at slashes, `_`, dots and spaces. Words that differ between files by
  their numbers alone (V01, V02) and those of a person (P01, sub-01) identify; where there are none,
  folders that hold the same files do (anna/, ben/). What identifies no one names the stream.
- Files of the same identifying words belong together, and those that have fewer of them to the only
  one that has more. Files that overlap in time belong together, unless both would be one stream.
- A file that would fit into several sessions goes to those that it overlaps with; without times
  each of them gets a question.
- A file without any of these words that overlaps with no other is a session of its own.
- Recordings of one stream are its parts if they do not overlap and another one bridges them; those
  that nothing bridges are sessions of their own. Of others a person decides.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from mmprep.steps.corpus.place import RESERVED
from mmprep.steps.study.table import NAMES

UTC, LOCAL, OWN, START = "utc", "local", "own", "start"
PERSON = re.compile(r"(?i)^(?:p|sub|subj|subject|participant|pp|vp)-?0*(\d+)$")
_MAYBE_PERSON = re.compile(r"(?i)^s0*\d+$")  # or a session
_ALWAYS = re.compile(r"(?i)^(?:sub|ses|run|task|acq)-")
_TAKEN = {*NAMES, *RESERVED, "sync", "tables", "rejects"} - {"events"}  # no names of streams
_WORDS = re.compile(r"[\s_.]+|(?<=[A-Za-z])-(?=[A-Z]+\d)")


@dataclass(frozen=True, slots=True)
class Look:
    """A stream of a file, as it was seen.

    Parameters
    ----------
    path : str
        The file or folder, below the folder that was walked, with `/`.
    stem : str
        Its path without the suffix.
    part : str, optional
        The stream in the file, where that holds several.
    kind : str
        What it is called where no word names it: `eeg`, `video`, ...
    span_ns : (int, int), optional
        Its first and last stamp, Unix time; None where they are not absolute.
    line : str
        What its times count from: `utc`; `local`, without a zone; `own`; `start` of its recording.
    """

    path: str
    stem: str
    part: str | None
    kind: str
    span_ns: tuple[int, int] | None = None
    line: str = OWN

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the path, in order."""
        parts = (_WORDS.split(part) for part in self.stem.split("/"))
        return tuple(word for part in parts for word in part if word)

    def overlaps(self, other: Look) -> bool:
        """Whether both were recorded at one time."""
        if self.span_ns is None or other.span_ns is None:
            return False
        return self.span_ns[0] < other.span_ns[1] and other.span_ns[0] < self.span_ns[1]


class Cell(NamedTuple):
    """What a session has of a stream; `is_open` if a person must choose."""

    looks: tuple[Look, ...]
    is_open: bool


@dataclass(slots=True)
class Group:
    """A session in the making."""

    words: frozenset[str]
    looks: list[tuple[str, Look]] = field(default_factory=list)
    doubtful: list[tuple[str, Look]] = field(default_factory=list)

    def cells(self) -> dict[str, Cell]:
        """Give the streams."""
        found: dict[str, list[Look]] = defaultdict(list)
        for name, look in self.looks:
            found[name].append(look)
        cells = {name: _cell(looks) for name, looks in found.items()}
        for name, look in self.doubtful:
            known = cells[name].looks if name in cells else ()
            cells[name] = Cell((*known, look), is_open=True)
        return cells

    def overlaps(self, looks: Iterable[tuple[str, Look]]) -> bool:
        """Whether one of its recordings overlaps with one of others."""
        mine = [look for _, look in self.looks]
        return any(one.overlaps(other) for _, other in looks for one in mine)

    def clashes(self, looks: Iterable[tuple[str, Look]]) -> bool:
        """Whether a stream would be there twice at one time, or nobody knows when."""
        mine = dict(self.looks)
        return any(name in mine and not _apart(mine[name], look) for name, look in looks)


def _apart(one: Look, other: Look) -> bool:
    return one.span_ns is not None and other.span_ns is not None and not one.overlaps(other)


def _cell(looks: list[Look]) -> Cell:
    ordered = sorted(looks, key=lambda look: (look.span_ns or (0, 0), look.path))
    return Cell(tuple(ordered), not all(_apart(one, other) for one, other in pairwise(ordered)))


def grouped(looks: Sequence[Look]) -> list[Group]:
    """Put looks together to sessions, in the order of their paths."""
    identifying = _identifying(looks)
    files: dict[str, list[tuple[str, Look]]] = defaultdict(list)
    for look in looks:
        files[look.path].append((_stream_name(look, identifying), look))
    by_words: dict[frozenset[str], Group] = {}
    for held in files.values():
        words = frozenset(_plain(word) for word in held[0][1].words if word in identifying)
        key = words or frozenset({held[0][1].stem})
        by_words.setdefault(key, Group(words)).looks.extend(held)
    groups = [part for group in _merged(by_words.values()) for part in _bridged(group)]
    return sorted(groups, key=lambda group: min(look.path for _, look in group.looks))


# Words --------------------------------------------------------------------------------------------


def _identifying(looks: Sequence[Look]) -> set[str]:
    """Find the words that tell files apart: whose numbers differ, or else folders of the same."""
    words = {word for look in looks for word in look.words}
    alike: dict[str, set[str]] = defaultdict(set)
    for word in words:
        alike[re.sub(r"\d+", "#", word)].add(word)
    numbered = {w for found in alike.values() if len(found) > 1 for w in found}
    numbered |= {word for word in words if _ALWAYS.match(word) or PERSON.match(word)}
    return numbered or _folders(looks)


def _folders(looks: Sequence[Look]) -> set[str]:
    """Find folders that hold files of the same names."""
    alike: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for look in looks:
        parts = look.stem.split("/")
        for depth in range(len(parts) - 1):
            alike[(*parts[:depth], "*", *parts[depth + 1 :])].add(parts[depth])
    folders = {name for found in alike.values() if len(found) > 1 for name in found}
    return {word for look in looks for word in look.words if word in folders}


def _plain(word: str) -> str:
    """Give what is the same of P01, sub-01 and 01."""
    person = PERSON.match(word)
    number = person[1] if person else word.lstrip("0") if word.isdigit() else None
    return number or word.lower()


def _stream_name(look: Look, identifying: set[str]) -> str:
    """Name the stream of a file: by words of its name, else of its folders, else by its kind."""
    if look.part is not None:
        return _word(look.part)
    for part in reversed(look.stem.split("/")):
        words = [word for word in _WORDS.split(part) if word and word not in identifying]
        if words and not all(word.isdigit() for word in words):
            return _word("_".join(words))
    return look.kind


def _word(text: str) -> str:
    word = re.sub(r"[^\w-]+", "_", text).strip("_").lower() or "stream"
    return f"{word}_stream" if word in _TAKEN else word


# Sessions -----------------------------------------------------------------------------------------


def _merged(groups: Iterable[Group]) -> list[Group]:
    """Join groups that were recorded at one time; then those of fewer words to those of more."""
    ordered = sorted(groups, key=lambda group: (-len(group.words), sorted(group.words)))
    whole: list[Group] = []
    for group in ordered:
        if not (group.words and any(group.words < other.words for other in whole)):
            whole.append(group)
    less = [group for group in ordered if not any(group is other for other in whole)]
    joined = list(_overlapping(whole))
    for group in less:
        above = [other for other in joined if group.words < other.words]
        for name, look in group.looks:
            _place(name, look, above)
    return joined


def _place(name: str, look: Look, above: Sequence[Group]) -> None:
    """Put a file to the sessions that it may belong to."""
    overlapped = [one for one in above if one.overlaps([(name, look)])]
    for one in overlapped or (above if len(above) == 1 else ()):
        one.looks.append((name, look))
    if not overlapped and len(above) > 1:
        for one in above:
            one.doubtful.append((name, look))


def _overlapping(groups: Sequence[Group]) -> Iterator[Group]:
    """Join groups that were recorded at one time, and those that a word and nothing else joins."""
    left = list(groups)
    while left:
        first, *left = left
        while (found := _partner(first, left)) is not None:
            left.remove(found)
            first.words |= found.words
            first.looks += found.looks
            first.doubtful += found.doubtful
        yield first


def _partner(one: Group, others: Sequence[Group]) -> Group | None:
    fitting = [other for other in others if not one.clashes(other.looks)]
    overlapped = [other for other in fitting if one.overlaps(other.looks)]
    sharing = [other for other in overlapped if other.words & one.words]
    if sharing or len(overlapped) == 1:
        return (sharing or overlapped)[0]
    common = Counter(word for other in (one, *others) for word in other.words)
    alone = [o for o in fitting if any(common[word] == 2 for word in o.words & one.words)]
    return alone[0] if len(alone) == 1 and _has_no_time(one, alone[0]) else None


def _bridged(group: Group) -> Iterator[Group]:
    """Part a session where no file goes on; a file without times may belong to any part."""
    spans: dict[str, list[int]] = defaultdict(list)
    for _, look in group.looks:
        spans[look.path] += look.span_ns or ()
    whole = sorted((min(known), max(known), path) for path, known in spans.items() if known)
    clusters: list[tuple[int, set[str]]] = []
    for begin_ns, end_ns, path in whole:
        if clusters and begin_ns < clusters[-1][0]:
            until_ns, held = clusters.pop()
            clusters.append((max(until_ns, end_ns), {*held, path}))
        else:
            clusters.append((end_ns, {path}))
    if len(clusters) < 2:
        yield group
        return
    rest = [one for one in group.looks if not spans[one[1].path]]
    for _, held in clusters:
        inside = [one for one in group.looks if one[1].path in held]
        yield Group(group.words, inside, [*group.doubtful, *rest])


def _has_no_time(one: Group, other: Group) -> bool:
    """Whether times can't say that two groups are apart."""
    known = [any(look.span_ns for _, look in group.looks) for group in (one, other)]
    return not all(known)


def names_of(groups: Sequence[Group]) -> list[str]:
    """Name sessions by the words that all of their files share, else by those of one of them."""
    short = [_shared(group) for group in groups]
    whole = [max((_own(group, look) for _, look in group.looks), key=len) for group in groups]
    count = Counter(short)
    names: list[str] = []
    for group, words, own in zip(groups, short, whole, strict=True):
        chosen = words if words and count[words] == 1 else own
        name = "_".join(chosen) or group.looks[0][1].stem.rpartition("/")[2]
        taken = sum(other == name or other.startswith(f"{name}_part") for other in names)
        names.append(f"{name}_part{taken + 1}" if taken else name)
    return names


def _own(group: Group, look: Look) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for word in look.words if _plain(word) in group.words))


def _shared(group: Group) -> tuple[str, ...]:
    listed = [{_plain(word) for word in look.words} for _, look in group.looks]
    first = _own(group, group.looks[0][1])
    return tuple(word for word in first if all(_plain(word) in words for words in listed))


def subject_of(group: Group) -> str | None:
    """Name the person, if a word of the paths is that of one."""
    words = [word for _, look in group.looks for word in look.words]
    for pattern in (PERSON, _MAYBE_PERSON):
        found = Counter(word for word in words if pattern.match(word))
        if len({_plain(word) for word in found}) == 1:
            return max(found, key=lambda word: found[word])
    return None
