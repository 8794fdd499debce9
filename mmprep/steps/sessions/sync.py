"""`sync/<session>.json`: what was known of the clocks, what was done, and what became of each row.

JSON with sorted streams; NaN is written as null; at most 2000 fixes and gaps are listed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import msgspec
import numpy as np

from mmprep import align, clock
from mmprep.steps.intake import films
from mmprep.steps.sessions import crops, pixels
from mmprep.steps.sessions.modality import Modality
from mmprep.timebase import NS_PER_S, UNIX_NS, Evidence, Exchanges, Fixes, IntArray, rate_text

MAX_LISTED = 2000


def accounting(counts: align.Accounting) -> dict[str, int]:
    """Give the counts by their names: in = corrupt + duplicate + out_of_range + masked + used.

    Where there are trials, rows outside of them are counted, too (`outside_trials`).
    """
    known = {name.removeprefix("n_"): n for name, n in asdict(counts).items()}
    return {name: n for name, n in known.items() if n is not None}


def stream_facts(
    modality: Modality,
    plan: align.AnyPlan,
    trials_ns: IntArray | None = None,
    hidden_ns: int = 0,
) -> dict[str, Any]:
    """Describe one stream.

    Parameters
    ----------
    trials_ns : [shape=(n, 2), int64, ns], optional
        The trials, apart from each other.
    hidden_ns : int
        What is taken off all Unix times, so that none tells the date.
    """
    repaired, model = modality.repaired, _hiding(modality.clocked.model, hidden_ns)
    link = modality.clocked.link
    repairs = asdict(repaired.repairs)
    intervals = repaired.repairs.intervals
    if intervals is not None:
        repairs["intervals"] = {
            "edges_s": intervals.edges_s.tolist(),
            "counts": intervals.counts.tolist(),
        }
    return {
        "name": modality.name,
        "kind": repaired.kind,
        "method": modality.method,
        "rate_hz": rate_text(modality.rate_hz),
        "nominal_rate_hz": None if repaired.rate_is_measured else _rate(repaired.nominal_rate_hz),
        "effective_rate_hz": repaired.effective_rate_hz,
        "rate_ppm": repaired.rate_ppm,
        "clock": model.to_json(),
        "fixes": _fixes(modality.clocked.fixes, hidden_ns),
        "master": modality.clocked.master_name,
        "link": None if link is None else _hiding(link, hidden_ns).to_json(),
        "shared_events": modality.clocked.shared,
        "latency_s": modality.clocked.opened.spec.latency_ns / 1e9,
        "filter": modality.treatment,
        "moved_p99_s": repaired.repairs.moved_p99_s,
        "moved_max_s": repaired.repairs.moved_max_s,
        "repairs": repairs,
        "n_gaps": repaired.n_gaps,
        "gaps_s": _seconds(repaired.gaps_ns[:MAX_LISTED], plan.origin_ns),
        "coverage_s": _seconds(np.array([repaired.coverage_ns]), plan.origin_ns)[0],
        "time_error_s": _time_error(modality.ledger.time_error_s),
        "accounting": accounting(modality.ledger.close(*plan.span_ns, trials_ns)),
        **({"video": _video(modality, plan)} if repaired.kind == "video" else {}),
        **_roi(modality, plan),
    }


def _time_error(found: tuple[float, float] | None) -> dict[str, float] | None:
    """Say how far the samples picked lie from the times of the windows; null if interpolated."""
    return None if found is None else {"rms": found[0], "max": found[1]}


def _video(modality: Modality, plan: align.AnyPlan) -> dict[str, Any]:
    """Describe the track of a video and the frames that it lacks."""
    repaired = modality.repaired
    ranks, times_ns = repaired.values(0, repaired.n_samples), repaired.stamps_ns()
    drops = align.find_drops(ranks, times_ns, repaired.nominal_rate_hz)
    place = np.argsort(ranks, kind="stable")
    seconds = (times_ns[place] - plan.origin_ns) / NS_PER_S
    return {
        **(modality.clocked.opened.track or {}),
        **films.dropped(drops, plan.origin_ns),
        **pixels.decoded(modality.pixels, ranks[place], seconds),
        "log": films.log(modality.clocked.logged, np.asarray(repaired.source)),
    }


def _roi(modality: Modality, plan: align.AnyPlan) -> dict[str, Any]:
    """Describe what was cut out of the pictures; nothing where all of them are taken."""
    cut = None if modality.pixels is None else modality.pixels.crops
    if cut is None:
        return {}
    begins = {k: plan.begin_s(k) for k in cut.blank.clips()}
    spans_s = {k: (float(begin), float(begin + plan.duration_s(k))) for k, begin in begins.items()}
    return {"roi": crops.listed(cut, spans_s)}


def _rate(rate_hz: Any) -> str | None:
    return None if rate_hz is None else rate_text(rate_hz)


def _seconds(pairs_ns: Any, origin_ns: int) -> list[list[float]]:
    return [[round((int(t) - origin_ns) / 1e9, 9) for t in pair] for pair in pairs_ns]


def _hiding(model: clock.ClockModel, hidden_ns: int) -> clock.ClockModel:
    """Take the date off a model; clocks that count from a moment of their own tell none."""
    if not hidden_ns:
        return model
    source, target = (
        hidden_ns if at_ns >= UNIX_NS else 0 for at_ns in (model.source_ref_ns, model.target_ref_ns)
    )
    return clock.shifted(model, -target, source_ns=-source)


def _fixes(found: Evidence | None, hidden_ns: int) -> list[list[int]] | None:
    """List fixes as [device, reference, round trip] in ns, evenly thinned to 2000."""
    if isinstance(found, Exchanges):
        device = (found.t2_ns + found.t3_ns) // 2
        master = (found.t1_ns + found.t4_ns) // 2
        trip = (found.t4_ns - found.t1_ns) - (found.t3_ns - found.t2_ns)
        table = np.column_stack([device, master, trip])
    elif isinstance(found, Fixes):
        table = np.column_stack([found.device_ns, found.reference_ns])
    else:
        return None
    table = np.where(table >= UNIX_NS, table - hidden_ns, table)
    step = max(1, math.ceil(len(table) / MAX_LISTED))
    rows: list[list[int]] = table[::step].tolist()
    return rows


def encode(
    session: str,
    plan: align.AnyPlan,
    facts: Sequence[Mapping[str, Any]],
    events: Sequence[Mapping[str, Any]],
    counts: Mapping[str, int],
    *,
    hidden_ns: int,
    is_absolute: bool,
    trials: Mapping[str, Any] | None = None,
) -> bytes:
    """Write the file."""
    even = plan if isinstance(plan, align.WindowPlan) else None
    whole: dict[str, Any] = {
        "session": session,
        "origin_ns": plan.origin_ns if is_absolute and not hidden_ns else None,
        "origin_on_clock_ns": plan.origin_ns - hidden_ns,
        "window_s": None if even is None else float(even.window_s),
        "hop_s": None if even is None else float(even.hop_s),
        "windows": dict(counts),
        "streams": sorted(facts, key=lambda fact: str(fact["name"])),
        "events": sorted(events, key=lambda fact: str(fact["name"])),
        **({} if trials is None else {"trials": dict(trials)}),
    }
    return msgspec.json.format(msgspec.json.encode(_finite(whole)), indent=1) + b"\n"


def _finite(value: Any) -> Any:
    """Replace NaN and infinity by None, all the way down."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value
