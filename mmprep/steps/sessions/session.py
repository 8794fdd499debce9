"""The work of `align`: one session's streams onto windows, masks, bounds and accounting.

Rules
-----
- Streams are resampled block by block (`windowcut`).
- What the streams of a session read beyond a budget lies in files until they are resampled, and is
  read block by block: memory is bounded by the stamps, not by the channels.
- A modality and its mask go to shards of the same numbers and rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mmprep import align, files
from mmprep.errors import DataError
from mmprep.rows import Store
from mmprep.steps.intake import films
from mmprep.steps.running.journal import FileNote
from mmprep.steps.running.tasks import Item, Job
from mmprep.steps.sessions import (
    crops,
    eventtables,
    laying,
    rawparts,
    sharedevents,
    streams,
    sync,
    treatments,
    trialtables,
    windowcut,
)
from mmprep.steps.sessions.eventtables import EventStream, TextColumns
from mmprep.steps.sessions.laying import Laying
from mmprep.steps.sessions.modality import Modality, Wish
from mmprep.steps.sessions.pixels import Pixels
from mmprep.steps.sessions.streams import Clocked, Opened
from mmprep.steps.sessions.streamspec import spec_of
from mmprep.steps.sessions.windowshards import WindowShards
from mmprep.timebase import NS_PER_S

BUDGET_BYTES = 64 * 2**20
DAY_S = 86_400
CUT_SHARE = 0.1  # of the longest stream; less is the usual raggedness of starts and ends


def run(job: Job) -> dict[str, Any]:
    """Align the sessions of a task."""
    wish = Wish.of(job.task.spec)
    value: dict[str, Any] = {"files": [], "shards": {}, "sessions": {}}
    for item in job.items():
        with job.attempt(item, "align"), Store(job.folder, BUDGET_BYTES) as store:
            _align(job, item, wish, store, value)
    return value


def _align(job: Job, item: Item, wish: Wish, store: Store, value: dict[str, Any]) -> None:
    notes: list[str] = []
    opened, chosen, events = _streams(job, item, wish, store, notes)
    laid = laying.lay(job, item, wish, events, chosen)
    plan = laid.plan
    with WindowShards(job.folder, wish.shard_size) as written:
        windows, counts = windowcut.cut(chosen, plan, wish, written)
        shards = written.close()
    texts = [TextColumns(modality) for modality in chosen if modality.clocked.opened.texts]
    out = eventtables.Out(job, item, plan, value)
    moved, event_s = eventtables.write_all((*events, *texts), out, wish.label_event)
    told = laid.told(windows)
    is_absolute = chosen[0].clocked.is_absolute
    hidden_ns = plan.origin_ns if wish.is_relative else 0  # local times tell the date, too
    facts = [sync.stream_facts(m, plan, laid.spans_ns, hidden_ns) for m in chosen]
    happened = [one.facts() for one in moved]
    text = sync.encode(
        item.id,
        plan,
        facts,
        happened,
        counts,
        hidden_ns=hidden_ns,
        is_absolute=is_absolute,
        trials=told.facts() if told else None,
    )
    value["files"] += [*shards["files"], _written(job, f"sync/{item.id}.json", text)]
    value["shards"] = shards["shards"]
    value["sessions"][item.id] = {
        "origin_ns": plan.origin_ns if is_absolute else None,
        "clock": _clock_name(chosen, wish),
        "event_s": event_s,
        "windows": windows.value(plan, moved)
        | ({"trials": told.columns()} if told else laid.file_begin_s(chosen)),
        "notes": [
            *(*notes, *_as_they_came(chosen), *_unproved(chosen)),
            *(_cut_off(item.id, chosen, laid) if wish.cover == "intersection" else ()),
            *films.notes(item.id, facts),
            *crops.notes(item.id, facts),
            *(trialtables.remarks(item.id, told.facts()) if told else ()),
        ],
        "warnings": [
            *(f"{item.id}: {said}" for one in opened for said in one.said),
            *_losses(item.id, facts, counts),
            *_missed(item.id, [one for one in happened if one["name"] != item.spec.get("trials")]),
            *films.warnings(item.id, facts),
            *crops.warnings(item.id, facts),
        ],
    }


def _streams(
    job: Job, item: Item, wish: Wish, store: Store, notes: list[str]
) -> tuple[list[Opened], list[Modality], list[EventStream]]:
    """Open the streams of a session and put them on its clock: those for windows, and events."""
    opened = streams.open_all([spec_of(spec) for spec in item.spec["streams"]], store)
    on_clocks, said = sharedevents.related(
        [streams.clocked(one) for one in opened], job.folder, wish.session_clock
    )
    on_clocks = streams.on_clock_of(on_clocks, wish.session_clock)
    streams.check_related(on_clocks)
    notes += [*(f"{item.id}: {one}" for one in said), *_taken_for_granted(opened)]
    on_clocks, events = _parted(item, on_clocks, wish, notes)
    return opened, [_modality(one, wish, notes, store) for one in on_clocks], events


def _written(job: Job, name: str, text: bytes) -> list[Any]:
    """Write a file of the session."""
    path = job.folder / files.portable(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    return FileNote.of(job.folder, files.portable(name)).row()


def _clock_name(chosen: list[Modality], wish: Wish) -> str:
    if wish.session_clock is not None:
        return wish.session_clock
    masters = {modality.clocked.master for modality in chosen if modality.clocked.master}
    names = masters & {modality.name for modality in chosen}
    return min(names) if names else "master" if masters else "device"


def _parted(
    item: Item, on_clocks: list[Clocked], wish: Wish, notes: list[str]
) -> tuple[list[Clocked], list[EventStream]]:
    """Part the streams that go onto windows from those whose rows move as a table.

    A raw stream that the caller named as a signal must go onto windows.
    """
    chosen, events = [], []
    for one in on_clocks:
        is_events = one.opened.spec.kind == "events" or _is_events(one)
        why = None if is_events else _unfit(one, wish)
        if why is None and not is_events:
            chosen.append(one)
        elif not one.has_stamps:
            notes.append(f"{item.id}: {one.name} has no rows and is left out")
        elif why is not None and item.spec.get("named"):
            hint = f"--stream {one.name}=FILE,rate=HZ; with kind=events its rows become a table"
            raise DataError(why, where=one.name, hint=hint)
        else:
            events.append(EventStream(one))
            notes += [f"{one.name} {why}: its rows become a table"] if why else []
    treatments.check_untreated([one.name for one in events], wish.filters, wish.references)
    if not chosen:
        hint = "events alone make no windows; --rates NAME=HZ puts a stream of numbers onto them"
        raise DataError("no stream has rows and a rate", where=item.id, hint=hint)
    return chosen, events


def _is_events(one: Clocked) -> bool:
    return one.opened.stream is not None and one.opened.stream.kind == "events"


def _unfit(one: Clocked, wish: Wish) -> str | None:
    """Say why a stream can't go onto windows; None if it can."""
    stream = one.opened.stream
    if stream is not None:
        if stream.n_samples == 0:
            return "has no rows"
        if stream.data.shape[1:] == (0,):
            return "has no numeric channel"
    if one.opened.nominal_hz is None and wish.given_hz(one.name) is None:
        return "has no rate that its stamps bear out"
    return None


def _modality(one: Clocked, wish: Wish, notes: list[str], store: Store) -> Modality:
    given = wish.given_hz(one.name)
    if one.opened.texts:
        notes.append(f"{one.name}: columns of text become a table: {', '.join(one.opened.texts)}")
    rate_hz = align.grid_rate(one.opened.nominal_hz, wish.window_s, given_hz=given)
    if given is None and rate_hz != one.opened.nominal_hz:
        notes.append(f"{one.name}: {float(one.opened.nominal_hz or 0):g} Hz becomes {rate_hz} Hz")
    repaired, treatment = treatments.treat(
        one.repaired(), wish.filters.get(one.name), wish.references.get(one.name, ()), store
    )
    method = wish.methods.get(one.name) or align.default_method(repaired, rate_hz)
    pixels = None
    if wish.frames is not None and repaired.kind == "video":
        roi = wish.rois.get(one.name)
        pixels = Pixels.of(one, wish.frames, gray=wish.gray, fit=wish.fit, roi=roi)
    return Modality(one, repaired, rate_hz, method, align.Ledger(repaired), pixels, treatment)


def _unproved(chosen: list[Modality]) -> list[str]:
    if len(chosen) == 1:
        return []
    told = {
        "no clock evidence for {}: taken as on the session clock, bound null": [
            m.name for m in chosen if m.clocked.master is None
        ],
        "one fix alone for {}: how fast it runs is not known, bound null": [
            m.name for m in chosen if m.clocked.model.n_fixes == 1 and m.clocked.shared is None
        ],
        "how late the stamps of {} are does not show in them, bound null": [
            m.name for m in chosen if m.clocked.master is not None and m.jitter_s is None
        ],
    }
    return [note.format(", ".join(names)) for note, names in told.items() if names]


def _as_they_came(chosen: list[Modality]) -> list[str]:
    """Say which signals keep the jitter of their stamps, though a rate is named for them."""
    return [
        f"{m.name}: stamps stay as they came: {m.repaired.repairs.reason}"
        for m in chosen
        if m.repaired.kind == "signal"
        and not (m.repaired.is_regular or m.repaired.rate_is_measured)
        and m.repaired.nominal_rate_hz is not None
    ]


def _cut_off(session: str, chosen: list[Modality], laid: Laying) -> list[str]:
    """Say which stream limits the windows where others last much longer."""
    spans = {m.name: m.repaired.coverage_ns for m in chosen}
    begin_ns, end_ns = laid.held_ns
    longest = max(spans, key=lambda name: spans[name][1] - spans[name][0])
    lost_ns = (spans[longest][1] - spans[longest][0]) - (end_ns - begin_ns)
    if len(chosen) == 1 or lost_ns < CUT_SHARE * (spans[longest][1] - spans[longest][0]):
        return []
    first = max(spans, key=lambda name: spans[name][0])
    last = min(spans, key=lambda name: spans[name][1])
    return [
        f"{session}: {laid.word} hold {(end_ns - begin_ns) / NS_PER_S:g} s of the"
        f" {(spans[longest][1] - spans[longest][0]) / NS_PER_S:g} s of {longest}: {first} begins"
        f" last, {last} ends first; --cover union keeps the rest"
    ]


def _losses(session: str, facts: list[dict[str, Any]], counts: Mapping[str, int]) -> list[str]:
    said = [
        f"{session}: {fact['name']}: {fact['accounting'][key]} rows {word}"
        for fact in facts
        for key, word in (("corrupt", "without a usable stamp"), ("duplicate", "repeat a stamp"))
        if fact["accounting"][key]
    ]
    said += [
        f"{session}: {fact['name']}: {treatments.loss(fact)}"
        for fact in facts
        if treatments.loss(fact)
    ]
    said += [
        f"{session}: {fact['name']}: {fact['repairs']['n_far']} of them lie days from the others"
        for fact in facts
        if fact["repairs"]["n_far"]
    ]
    said += [
        f"{session}: {fact['name']}: a pause of {(end_s - begin_s) / DAY_S:.1f} days is a gap"
        for fact in facts
        for begin_s, end_s in fact["gaps_s"]
        if end_s - begin_s > DAY_S
    ]
    dropped = counts["dropped_gap"] + counts["dropped_thin"]
    return said + ([f"{session}: {dropped} windows dropped"] if dropped else [])


def _taken_for_granted(opened: list[Opened]) -> list[str]:
    """Say what the readers of raw files took for granted."""
    read = [(one.spec.name, one.stream) for one in opened if one.stream is not None]
    return [f"{name}: {rawparts.as_settings(n)}" for name, stream in read for n in stream.notes]


def _missed(session: str, events: list[dict[str, Any]]) -> list[str]:
    """Say of which events none lies within the windows: their clock may be another."""
    return [
        f"{session}: {fact['name']}: none of its {fact['accounting']['in']} rows lies within the"
        " windows; do --clock, --start and --tz put it there?"
        for fact in events
        if fact["accounting"]["in"] and not fact["accounting"]["used"]
    ]
