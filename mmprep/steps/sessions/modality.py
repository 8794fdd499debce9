"""A stream on its way onto the windows, and what the caller wished for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from mmprep import align, clock
from mmprep.steps.sessions.pixels import Pixels
from mmprep.steps.sessions.roioption import Roi
from mmprep.steps.sessions.streams import Clocked
from mmprep.steps.sessions.trialoption import OWN_LENGTH
from mmprep.timebase import FloatArray, IntArray, rate


@dataclass(frozen=True, slots=True)
class TrialWish:
    """What the caller asked for of trials.

    Parameters
    ----------
    start, end : str, optional
        Expressions for the markers that begin and end a trial.
    tail : str
        One of `align.TAILS`.
    """

    start: str | None = None
    end: str | None = None
    tail: str = "drop"
    baseline_s: Fraction = Fraction(0)

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> TrialWish:
        """Read its part of the spec of a task."""
        return cls(spec["start"], spec["end"], spec["tail"], Fraction(spec["baseline"]))


@dataclass(frozen=True, slots=True)
class Wish:
    """What the caller asked for, for all sessions.

    Parameters
    ----------
    window_s, hop_s : Fraction, optional
        None for records of their own length.
    trials : TrialWish, optional
        None for windows over all that the streams cover.
    label_event : str, optional
        The event whose first time the labels count from.
    rois : mapping
        Video stream -> what is cut out of its frames.
    """

    window_s: Fraction | None
    hop_s: Fraction | None
    rates_hz: Mapping[str, Fraction]
    rate_hz: Fraction | None
    cover: str
    on_gap: str
    tolerance_s: float | None
    min_valid: float
    methods: Mapping[str, str]
    frames: tuple[int, int] | None
    gray: bool
    fit: str
    session_clock: str | None
    shard_size: int
    filters: Mapping[str, Mapping[str, float | None]]
    references: Mapping[str, Sequence[str]]
    is_relative: bool
    trials: TrialWish | None = None
    label_event: str | None = None
    rois: Mapping[str, Roi] = field(default_factory=dict)

    @property
    def drops(self) -> bool:
        """Whether what a stream lacks decides whether a window stays."""
        return self.on_gap != "mask" or self.min_valid > 0

    def given_hz(self, name: str) -> Fraction | None:
        """Give the rate that was asked for of a stream."""
        return self.rates_hz.get(name, self.rate_hz)

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> Wish:
        """Read the spec of a task."""
        frames = spec["frames"]
        has_own = spec["window"] in OWN_LENGTH
        return cls(
            window_s=None if has_own else Fraction(spec["window"]),
            hop_s=None if has_own else Fraction(spec["hop"]),
            rates_hz={name: rate(text) for name, text in spec["rates"].items()},
            rate_hz=rate(spec["rate"]) if spec["rate"] else None,
            cover=spec["cover"],
            on_gap=spec["on_gap"],
            tolerance_s=spec["tolerance_s"],
            min_valid=spec["min_valid"],
            methods=spec["methods"],
            frames=(frames[0], frames[1]) if frames else None,
            gray=spec["gray"],
            fit=spec["fit"],
            session_clock=spec["session_clock"],
            shard_size=spec["shard_size"],
            filters=spec["filters"],
            references=spec["references"],
            is_relative=spec["time_origin"] == "relative",
            trials=TrialWish.of(spec["trials"]) if "trials" in spec else None,
            label_event=spec.get("label_event"),
            rois={name: Roi.of(value) for name, value in spec.get("rois", {}).items()},
        )


@dataclass(frozen=True, slots=True)
class Modality:
    """A stream on its way onto the windows."""

    clocked: Clocked
    repaired: align.Repaired
    rate_hz: Fraction
    method: str
    ledger: align.Ledger
    pixels: Pixels | None = None
    treatment: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        """Its name in the data set."""
        return self.clocked.name

    def bound_at_s(self, session_ns: IntArray) -> FloatArray | None:
        """Bound the error of sample times at session times; None without evidence of the clock.

        Of stamps that keep their jitter it is the clock's error and the jitter, of others what is
        unsure about where the samples lie.
        """
        bound, jitter_s = self.clocked.bound_at_s(session_ns), self.jitter_s
        if bound is None or jitter_s is None:
            return None
        sigma_s = self.repaired.sigma_at_s(session_ns)
        if sigma_s is None:
            return np.asarray(bound + jitter_s)
        return np.where(np.isfinite(bound), clock.BOUND_SIGMAS * sigma_s, bound)

    @property
    def jitter_s(self) -> float | None:
        """What stamps that keep their jitter are off by; None where nothing tells."""
        if self.clocked.logged is not None:
            return self.clocked.stamp_bound_s
        return self.repaired.repairs.jitter_s

    @property
    def row_bytes(self) -> int:
        """About how many bytes a sample takes."""
        if self.pixels is not None:
            return self.pixels.n_bytes
        return 4 * int(np.prod(self.repaired.source.shape[1:], dtype=np.int64))
