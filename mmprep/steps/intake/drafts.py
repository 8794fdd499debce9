"""The records of `convert`, put together from what was found in the items.

Rules
-----
- Items of one id join into one record; the streams keep the name of their source.
- The parts of a long table are one stream, which lists them.
- One record with absolute stamps gives its session an origin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from mmprep.errors import UsageError
from mmprep.manifest.model import Record, Session, StreamRef, shard_ref, table_ref
from mmprep.steps import base
from mmprep.steps.base import Contents, Outcome, Placed
from mmprep.steps.corpus import curate
from mmprep.steps.corpus.curate import Curated, Lost
from mmprep.steps.intake.claims import Claimed
from mmprep.steps.labels import joining
from mmprep.steps.running.contents import Corpus
from mmprep.steps.running.names import Names
from mmprep.steps.running.shardbook import ShardBook
from mmprep.timebase import NS_PER_S, rate_number

GIVEN = ("start_ns", "latency_ms", "events")
"""What a table of sessions may say of a stream's times, for `align`."""


@dataclass(slots=True)
class _Draft:
    """A record while its items come in."""

    claimed: Claimed
    streams: dict[str, StreamRef] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    duration_s: float = 0.0
    text: str | None = None
    words: list[list[Any]] | None = None
    source: str | None = None
    start_ns: int | None = None
    parts: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the records come from.

    Parameters
    ----------
    beside : tuple of str
        Further inputs: labels, the file of `--schema`.
    corpus : Corpus, optional
        By what an unchanged corpus is known again.
    """

    root: Path
    claimed: tuple[Claimed, ...]
    folders: tuple[str, ...]
    curated: Curated
    labels: joining.Labels
    beside: tuple[str, ...]
    names: Names
    corpus: Corpus | None = None


def contents(sources: Sources, session: base.Run, outcomes: Iterable[Outcome]) -> Contents:
    """Put the data set together from what became of the tasks, and say what is worth saying."""
    book = ShardBook()
    placed: dict[str, Placed] = {}
    facts: dict[tuple[str, str], dict[str, Any]] = {}
    for outcome in outcomes:
        value = outcome.value or {}
        names = book.add(value)
        placed |= session.placed(outcome, names)
        for fact in value.get("items", ()):
            key, renamed = (fact["id"], fact["name"]), _renamed(fact, names)
            facts[key] = _joined(facts[key], renamed) if key in facts else renamed
    failed = {(failure.id, failure.source) for failure in session.failures}
    drafts: dict[str, _Draft] = {}
    for claimed in sources.claimed:
        own_id = sources.names.text(claimed.id)
        fact = facts.get((own_id, claimed.name))
        if fact is not None and (own_id, claimed.source) not in failed:
            draft = drafts.setdefault(claimed.id, _Draft(claimed))
            _add(draft, claimed, fact)
    _warn(session, list(facts.values()))
    lost = Lost()
    drafted = [_record(draft) for _, draft in sorted(drafts.items())]
    parts = [part for r in drafted for part in curate.cut(r, drafts[r.id].parts, lost)]
    known, remarks = sources.curated.complete(parts, lost)
    records, said = sources.labels.join(known)
    sessions = _sessions(records, drafts)
    others = sources.names
    for remark in (*remarks, *said):
        session.progress.say(remark)
    return Contents(
        _renamed_records(records, others),
        book.modalities(),
        {others.text(name): session for name, session in sessions.items()},
        placed,
        extra_inputs=(
            *(str(Path(name).absolute()) for name in sources.beside),
            *sources.curated.paths,
        ),
        folders=sources.folders,
        corpus=sources.corpus,
        names=others,
        media_root=sources.root,
        n_rejected_rows=sum(fact.get("n_rejected", 0) for fact in facts.values()),
    )


def _renamed_records(records: Sequence[Record], names: Names) -> list[Record]:
    """Give people their other names; the order is that of the new ones.

    Raises
    ------
    UsageError
        Two records get one id.
    """
    found = (
        sorted(map(names.record, records), key=lambda record: record.id)
        if names.known
        else (list(records))
    )
    for before, record in pairwise(found):
        if before.id == record.id:
            raise UsageError(f"two records become {record.id!r}", where=names.path)
    return found


def _renamed(fact: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    streams = {
        name: {**ref, "shard": names.get(ref["shard"], ref["shard"])} if "shard" in ref else ref
        for name, ref in fact["streams"].items()
    }
    return {**fact, "streams": streams}


def _joined(first: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """Join the facts of a long table and of its next part."""
    streams = {
        name: {**ref, "parts": [*ref.get("parts", []), _table_part(later["streams"][name])]}
        for name, ref in first["streams"].items()
    }
    return {
        **first,
        "streams": streams,
        "duration_s": max(first["duration_s"], later["duration_s"]),
        "n_rejected": first["n_rejected"] + later["n_rejected"],
        "notes": list(dict.fromkeys([*first["notes"], *later["notes"]])),
        "warnings": [*first["warnings"], *later["warnings"]],
    }


def _table_part(ref: dict[str, Any]) -> dict[str, Any]:
    return {"table": ref["table"], "rows": ref["rows"]}


def _add(draft: _Draft, claimed: Claimed, fact: dict[str, Any]) -> None:
    for name, ref in fact["streams"].items():
        about = claimed.about.get(name, {})
        if claimed.piece and name in draft.streams:
            draft.streams[name] = _with_piece(draft.streams[name], ref, claimed.source, about)
        else:
            draft.streams[name] = _stream_ref({**ref, **about})
            draft.sources[name] = claimed.source
    draft.duration_s = max(draft.duration_s, fact["duration_s"])
    draft.text = fact.get("text") or draft.text
    draft.words = fact.get("words") or draft.words
    draft.parts += fact.get("parts") or []
    if draft.source is None or (claimed.is_sound and not draft.claimed.is_sound):
        draft.source, draft.claimed = claimed.source, claimed
    if fact.get("start_ns") is not None:
        starts = [draft.start_ns, fact["start_ns"]]
        draft.start_ns = min(start for start in starts if start is not None)
        if claimed.piece:  # what lies between the parts counts
            since_s = (fact["start_ns"] - draft.start_ns) / NS_PER_S
            draft.duration_s = max(draft.duration_s, since_s + fact["duration_s"])


def _stream_ref(ref: dict[str, Any]) -> StreamRef:
    begin, end = ref["rows"]
    rate_hz = rate_number(Fraction(ref["rate_hz"])) if ref["rate_hz"] else None
    if "table" in ref:
        table = table_ref(ref["table"], (begin, end), rate_hz=rate_hz, clock=ref["clock"])
        extra = {name: ref[name] for name in ("kind", "parts", "track", *GIVEN) if name in ref}
        return msgspec.structs.replace(table, extra=extra)
    shard = shard_ref(ref["shard"], (begin, end), rate_hz=rate_hz, offset_s=ref["offset_s"])
    given = {name: ref[name] for name in GIVEN if name in ref}
    return msgspec.structs.replace(
        shard, clock=ref["clock"], extra={**ref.get("lengths", {}), **given}
    )


def _with_piece(
    first: StreamRef, ref: dict[str, Any], source: str, about: Mapping[str, Any]
) -> StreamRef:
    """Add a further file of a stream."""
    pieces = [_table_part(ref), *ref.get("parts", [])]
    own = {name: about[name] for name in ("start_ns",) if name in about}
    clock = {"clock": ref["clock"]} if ref["clock"] else {}
    pieces[0] = {**pieces[0], "source": source, **clock, **own}
    known = first.extra.get("parts", [])
    return msgspec.structs.replace(first, extra={**first.extra, "parts": [*known, *pieces]})


def _record(draft: _Draft) -> Record:
    place = draft.claimed.place
    return Record(
        id=draft.claimed.id,
        session=draft.claimed.session,
        subject=place.subject if place else None,
        split=place.split if place else None,
        begin_s=0.0,
        duration_s=round(draft.duration_s, 9),
        text=draft.text,
        words=tuple((word, begin, end) for word, begin, end in draft.words or ()) or None,
        source=draft.source,
        streams=dict(sorted(_with_sources(draft).items())),
        extra=_extra(place.fields) if place else {},
    )


def _with_sources(draft: _Draft) -> dict[str, StreamRef]:
    """Name the source of a stream that comes from another file than the record's."""
    return {
        name: ref
        if draft.sources[name] == draft.source
        else msgspec.structs.replace(ref, extra={**ref.extra, "source": draft.sources[name]})
        for name, ref in draft.streams.items()
    }


def _extra(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: text for name, text in fields.items() if name != "stem"}


def _sessions(records: Sequence[Record], drafts: Mapping[str, _Draft]) -> dict[str, Session]:
    """Name the sessions; one record with absolute stamps gives its session an origin."""
    count: dict[str, int] = {}
    for record in records:
        count[record.session] = count.get(record.session, 0) + 1
    starts = {
        r.session: drafts[r.id].start_ns
        for r in records
        if count[r.session] == 1 and r.id in drafts
    }
    return {
        name: Session(
            origin_ns=starts.get(name), clock="device" if starts.get(name) is not None else None
        )
        for name in sorted(count)
    }


def _warn(session: base.Run, facts: Sequence[dict[str, Any]]) -> None:
    said: dict[str, list[str]] = {}
    for fact in facts:
        source = fact["source"]
        if fact.get("n_rejected"):
            session.progress.warn(f"{source}: {fact['n_rejected']} rows rejected, see rejects/")
        for note in fact.get("notes", ()):
            said.setdefault(note, []).append(source)
        for note in fact.get("warnings", ()):
            session.progress.warn(note)
    for note, sources in said.items():
        more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
        session.progress.say(f"{sources[0]}{more}: {note}")
    unlike = [(fact["source"], fact["lengths"]) for fact in facts if fact.get("lengths")]
    if unlike:
        source, (decoded, declared) = unlike[0]
        session.progress.say(
            f"{len(unlike)} files hold another number of samples than they declare"
            f" ({source}: {decoded}, declared {declared}); what was decoded counts"
        )
