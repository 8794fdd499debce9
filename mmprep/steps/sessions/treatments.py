"""`--filter NAME=LOW-HIGH[,notch=HZ]`, `--reref NAME=average|CH,...`: readings before windows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mmprep.errors import DataError, UsageError
from mmprep.steps.namevalue import pair

if TYPE_CHECKING:  # a plan only reads the options
    from mmprep import align
    from mmprep.rows import Store

FILTER, REREF = "--filter", "--reref"
LARGE_SHARE = 0.25  # of rows that a filter masks; less is the usual loss at both ends


def filters(given: Sequence[str]) -> dict[str, dict[str, float | None]]:
    """Read `--filter`: stream -> `low_hz`, `high_hz`, `notch_hz`.

    Raises
    ------
    UsageError
        A band that is none; a stream twice.
    """
    found: dict[str, dict[str, float | None]] = {}
    for text in given:
        name, value = pair(text, FILTER)
        band, *settings = value.split(",")
        known = dict(pair(setting, FILTER) for setting in settings)
        if unknown := sorted(known.keys() - {"notch"}):
            raise UsageError(f"{unknown[0]!r} is no setting of a filter", where=FILTER)
        low, mark, high = band.partition("-")
        if (band and not mark) or not (low or high or known):
            hint = "eeg=1-45, eeg=1-, eeg=-45, eeg=1-45,notch=50 or eeg=,notch=50"
            raise UsageError(f"{text!r} is not NAME=LOW-HIGH", where=FILTER, hint=hint)
        edges = [_hertz(edge) if edge else None for edge in (low, high)]
        if edges[0] is not None and edges[1] is not None and edges[0] >= edges[1]:
            raise UsageError(f"{band}: the low edge is not below the high one", where=FILTER)
        if name in found:
            raise UsageError(f"stream {name!r} is filtered twice", where=FILTER)
        notch = _hertz(known["notch"]) if "notch" in known else None
        found[name] = {"low_hz": edges[0], "high_hz": edges[1], "notch_hz": notch}
    return found


def _hertz(text: str) -> float:
    try:
        hertz = float(text)
    except ValueError:
        hertz = math.nan
    if not (math.isfinite(hertz) and hertz > 0):
        raise UsageError(f"{text!r} is no frequency", where=FILTER, hint="in Hz, above 0")
    return hertz


def references(given: Sequence[str]) -> dict[str, list[str]]:
    """Read `--reref`: stream -> channels.

    Raises
    ------
    UsageError
        A stream twice, or no channel.
    """
    found: dict[str, list[str]] = {}
    for text in given:
        name, value = pair(text, REREF)
        if name in found:
            raise UsageError(f"stream {name!r} has two references", where=REREF)
        found[name] = [channel.strip() for channel in value.split(",")]
        if not all(found[name]) or len(set(found[name])) < len(found[name]):
            hint = "each channel once"
            raise UsageError(f"{text!r} is not NAME=average or NAME=CH,...", where=REREF, hint=hint)
    return found


def treat(
    repaired: align.Repaired,
    band: Mapping[str, float | None] | None,
    reference: Sequence[str],
    store: Store,
) -> tuple[align.Repaired, dict[str, Any] | None]:
    """Filter a stream, and say how.

    Returns
    -------
    Repaired, dict or None
        None where nothing was done.
    """
    if band is None and not reference:
        return repaired, None
    from mmprep import align
    from mmprep.signals import Band

    rate_hz = repaired.nominal_rate_hz
    if band is not None and rate_hz is None:
        raise DataError("has no rate, so it can't be filtered", where=repaired.name)
    where = f"{FILTER} {repaired.name}"
    kernel = Band(**band).kernel(float(rate_hz or 0), where) if band is not None else None
    treatment = align.Treatment(kernel, tuple(reference))
    facts = {
        **(band or {}),
        "n_taps": 0 if kernel is None else int(kernel.size),
        "edge_s": treatment.edge_rows / float(rate_hz) if rate_hz else 0.0,
        "reference": list(reference),
    }
    return align.treated(repaired, treatment, store), facts


def check_untreated(names: Sequence[str], *wishes: Mapping[str, Any]) -> None:
    """Refuse to pass over what shall be done to streams that go onto no windows.

    Raises
    ------
    DataError
        One of them shall be filtered.
    """
    for name in names:
        if any(name in wish for wish in wishes):
            raise DataError(
                "its rows become a table: there is nothing to filter",
                where=name,
                hint=f"leave it out of {FILTER} and {REREF}; --rates {name}=HZ puts numbers onto"
                " windows",
            )


def loss(fact: Mapping[str, Any]) -> str | None:
    """Say that a filter or reference masks much of a stream; None where it doesn't."""
    counts, done = fact["accounting"], fact["filter"]
    if not done or counts["masked"] < LARGE_SHARE * (counts["masked"] + counts["used"]):
        return None
    how = (
        f"half a kernel at each end of a stretch is {done['edge_s']:.3g} s"
        if done["n_taps"]
        else "the reference has no values"
    )
    return f"{counts['masked']} of its {counts['in']} rows are masked: {how}"
