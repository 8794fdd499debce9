"""What a known corpus adds to its records: parts, labels, and what is known to be missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from mmprep import files
from mmprep.manifest.model import Record
from mmprep.steps.corpus.corpora import Corpus, LabelFile
from mmprep.steps.corpus.place import Place
from mmprep.steps.corpus.ratings import some
from mmprep.steps.inputs import Inputs


@dataclass(frozen=True, slots=True)
class Curated:
    """A corpus with its files of labels, as found.

    Parameters
    ----------
    files : mapping
        File -> what its path says, for each of the corpus's kinds of label files.
    """

    name: str = ""
    corpus: Corpus = field(default_factory=Corpus)
    files: tuple[Mapping[Path, Place], ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """Name all files of labels."""
        return tuple(str(path) for found in self.files for path in found)

    def complete(self, records: Sequence[Record], lost: Lost) -> tuple[list[Record], list[str]]:
        """Give records all that the corpus says of them, and what is worth saying.

        Raises
        ------
        DataError
            A file of labels is damaged.
        """
        done = [_grouped(record, self.corpus) for record in records]
        said = [*self._noted(records), *self._absent(records), *self._lacking(records)]
        said += lost.said(self.corpus)
        for kind, found in zip(self.corpus.labels, self.files, strict=True):
            if found:
                done, remarks = kind.join(done, found)
                said += remarks
        return done, [f"{self.name}: {remark}" for remark in said]

    def _noted(self, records: Sequence[Record]) -> Iterator[str]:
        sources = {record.source or "" for record in records}
        for pattern, note in self.corpus.notes.items():
            if any(fnmatchcase(source, pattern) for source in sources):
                yield note

    def _absent(self, records: Sequence[Record]) -> Iterator[str]:
        """Name the people who are not there."""
        present = {record.subject for record in records}
        people = self.corpus.subjects
        if present.isdisjoint(people):
            return
        absent = [name for name in people if name not in present]
        n = len(people)
        for hole in self.corpus.holes:
            known = [name for name in absent if name in hole.subjects and not hole.parts]
            absent = [name for name in absent if name not in known]
            n -= len(known)
            if known:
                yield f"{', '.join(known)} are missing, as is known: {hole.why}"
        if absent:
            yield f"{len(absent)} of {n} people are not here: {_spans(absent, people)}"

    def _lacking(self, records: Sequence[Record]) -> Iterator[str]:
        """Name the streams that some people have and others don't."""
        people: dict[str, set[str]] = {}
        for record in records:
            people.setdefault(record.subject or record.id, set()).update(record.streams)
        known = {name for hole in self.corpus.holes if not hole.parts for name in hole.subjects}
        for stream in self.corpus.expected:
            lacking = [name for name, streams in people.items() if stream not in streams]
            if len(lacking) == len(people):
                continue
            if odd := [name for name in lacking if name not in known]:
                yield f"{stream} is missing for {', '.join(odd)}"
            if usual := [name for name in lacking if name in known]:
                yield f"{stream} is missing for {', '.join(usual)}, as is known"


def curated(name: str | None, corpus: Corpus | None, inputs: Inputs) -> tuple[Curated, Inputs]:
    """Find the corpus's files of labels, which are no recordings, and look whether they are sound.

    Raises
    ------
    DataError
        One is damaged.
    """
    if name is None or corpus is None:
        return Curated(), inputs
    found = tuple(_label_files(kind, inputs) for kind in corpus.labels)
    for kind, known in zip(corpus.labels, found, strict=True):
        kind.join((), known)
    taken = {path for files in found for path in files}
    names = tuple(name for name in inputs.names if inputs.root / name not in taken)
    return Curated(name, corpus, found), replace(inputs, names=names)


def _spans(names: Sequence[str], people: Sequence[str]) -> str:
    """Name people, three or more in a row as `s03 .. s32`."""
    places = [people.index(name) for name in names]
    runs = groupby(
        zip(names, places, strict=True), key=lambda pair: pair[1] - places.index(pair[1])
    )
    found = [[name for name, _ in run] for _, run in runs]
    return ", ".join(f"{r[0]} .. {r[-1]}" if len(r) > 2 else ", ".join(r) for r in found)


def _label_files(kind: LabelFile, inputs: Inputs) -> dict[Path, Place]:
    places = (
        (inputs.root / name, kind.shape.place(files.plain_name(inputs.root, name), ""))
        for name in inputs.names
    )
    return {path: place for path, place in places if place is not None}


def _grouped(record: Record, corpus: Corpus) -> Record:
    fields = {
        name: value
        for name, values in corpus.groups.items()
        for value, people in values.items()
        if record.subject in people
    }
    return msgspec.structs.replace(record, extra={**record.extra, **fields}) if fields else record


# Parts --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Lost:
    """Parts without any data, and channels without any value."""

    empty: list[tuple[str, str]] = field(default_factory=list)  # (subject, part)
    blank: list[str] = field(default_factory=list)

    def said(self, corpus: Corpus) -> Iterator[str]:
        """Say what is missing: what is known to be, and what is not."""
        left = list(self.empty)
        for hole in corpus.holes:
            known = [pair for pair in left if pair[0] in hole.subjects and pair[1] in hole.parts]
            left = [pair for pair in left if pair not in known]
            if known:
                people = ", ".join(dict.fromkeys(subject for subject, _ in known))
                yield f"{len(known)} trials of {people} are empty, as is known: {hole.why}"
        if left:
            names = ", ".join("/".join(pair) for pair in left)
            yield f"{len(left)} trials hold nothing and are no records: {names}"
        if self.blank:
            yield f"{len(self.blank)} channels of trials hold no value: {some(self.blank)}"


def cut(record: Record, parts: Sequence[Mapping[str, Any]], lost: Lost) -> list[Record]:
    """Cut a recording into its parts; what is not cut stays one record."""
    found = []
    for part in _merged(parts):
        if not part["rows"]:
            lost.empty.append((record.subject or record.id, part["name"]))
            continue
        found.append(_part(record, part))
        lost.blank += [f"{found[-1].id} {channel}" for channel in part["blank"]]
    return found if parts else [record]


def _merged(parts: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Put together what several files hold of one part."""
    found: dict[str, Mapping[str, Any]] = {}
    for part in parts:
        known = found.get(part["name"], part)
        duration_s = max(known["duration_s"], part["duration_s"])
        rows = {**known["rows"], **part["rows"]}
        found[part["name"]] = {**known, "rows": rows, "duration_s": duration_s}
    return list(found.values())


def _part(record: Record, part: Mapping[str, Any]) -> Record:
    """Give one part: rows of the recording's tables, on a session of its own."""
    streams = {
        name: msgspec.structs.replace(ref, rows=tuple(part["rows"][name]))
        for name, ref in record.streams.items()
        if name in part["rows"]
    }
    return msgspec.structs.replace(
        record,
        id=f"{record.id}/{part['name']}",
        session=f"{record.session}/{part['name']}",
        duration_s=round(part["duration_s"], 9),
        label=part["label"],
        labels={**record.labels, **part["labels"]},
        streams=streams,
        extra={**record.extra, **part["fields"]},
    )
