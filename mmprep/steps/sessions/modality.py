"""A stream on its way onto the windows, and what the caller wished for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from mmprep import align, clock
from mmprep.steps.sessions.pixels import Pixels
from mmprep.steps.sessions.streams import Clocked
from mmprep.timebase import FloatArray, IntArray, rate


@dataclass(frozen=True, slots=True)
class Wish:
    """What the caller asked for, for all sessions."""

    window_s: Fraction
    hop_s: Fraction
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

    def given_hz(self, name: str) -> Fraction | None:
        """Give the rate that was asked for of a stream."""
        return self.rates_hz.get(name, self.rate_hz)

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> Wish:
        """Read the spec of a task."""
        frames = spec["frames"]
        return cls(
            window_s=Fraction(spec["window"]),
            hop_s=Fraction(spec["hop"]),
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
