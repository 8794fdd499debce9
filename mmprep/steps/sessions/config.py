"""The options of `align`, and what of them changes the windows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from mmprep.errors import UsageError
from mmprep.steps.namevalue import pair
from mmprep.steps.sessions import roioption, treatments
from mmprep.steps.sessions.trialoption import OWN_LENGTH, Options
from mmprep.steps.sizes import parse_bytes, parse_pixels
from mmprep.timebase import rate, rate_text


@dataclass(frozen=True, slots=True)
class Config:
    """Options of `mmprep align`, named as on the command line."""

    inputs: tuple[str, ...] = ()
    video: str | None = None
    eeg: str | None = None
    gsr: str | None = None
    stream: tuple[str, ...] = ()
    session: str = "session"
    sessions: str | None = None
    clock: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    latency: tuple[str, ...] = ()
    session_clock: str | None = None
    window: str = "1"
    hop: str | None = None
    trials: str | None = None
    trial_start: str | None = None
    trial_end: str | None = None
    tail: str | None = None
    baseline: str | None = None
    rates: str | None = None
    rate: str | None = None
    cover: str = "intersection"
    on_gap: str = "mask"
    tolerance: float | None = None
    min_valid: float = 0.0
    method: tuple[str, ...] = ()
    filter: tuple[str, ...] = ()
    reref: tuple[str, ...] = ()
    frames: str | None = None
    gray: bool = False
    fit: str = "cover"
    roi: tuple[str, ...] = ()
    media_root: str | None = None
    ids: str | None = None
    time_origin: str = "absolute"
    labels: str | tuple[str, ...] | None = None
    on: str | tuple[str, ...] | None = None
    label: str | None = None
    label_bins: str | None = None
    label_time: str | None = None
    label_agg: str | None = None
    label_lag: float | None = None
    shard_size: str = "256MiB"
    root: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def wish(self) -> dict[str, Any]:
        """Give what changes the windows, as JSON values.

        Raises
        ------
        UsageError
            A number, size or NAME=VALUE that is none.
        """
        pairs = [pair(text, "--rates") for text in (self.rates or "").split(",") if text]
        rates = {name: rate_text(rate(text, where="--rates")) for name, text in sorted(pairs)}
        has_own = self.window in OWN_LENGTH
        window = self.window if has_own else str(_seconds(self.window, "--window"))
        for option, number in (("--tolerance", self.tolerance), ("--min-valid", self.min_valid)):
            if number is not None and not math.isfinite(number):
                raise UsageError(f"{number} is no number", where=option)
        return {
            "window": window,
            "hop": str(_seconds(self.hop, "--hop")) if self.hop else None if has_own else window,
            "rates": {
                name: rate_text(rate(text, where="--rates")) for name, text in sorted(rates.items())
            },
            "rate": rate_text(rate(self.rate, where="--rate")) if self.rate else None,
            "cover": self.cover,
            "on_gap": self.on_gap,
            "tolerance_s": None if self.tolerance is None else self.tolerance / 1000,
            "min_valid": self.min_valid,
            "methods": dict(sorted(pair(text, "--method") for text in self.method)),
            "filters": dict(sorted(treatments.filters(self.filter).items())),
            "references": dict(sorted(treatments.references(self.reref).items())),
            "frames": list(parse_pixels(self.frames, "--frames")) if self.frames else None,
            "gray": self.gray,
            "fit": self.fit,
            "session_clock": self.session_clock,
            "time_origin": self.time_origin,
            "shard_size": parse_bytes(self.shard_size),
            **self._trials().wish(),
            **roioption.wish(self.roi, frames=self.frames),
        }

    def _trials(self) -> Options:
        return Options(
            self.trials,
            self.trial_start,
            self.trial_end,
            self.tail,
            self.baseline,
            self.window,
            self.hop,
        )


def _seconds(text: str, option: str) -> Fraction:
    try:
        seconds = Fraction(text)
    except (ValueError, ZeroDivisionError) as error:
        raise UsageError(f"{text!r} is no number of seconds", where=option) from error
    if seconds <= 0:
        raise UsageError(f"{text} s is not positive", where=option)
    return seconds
