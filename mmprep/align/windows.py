"""Cut the common time of a session's streams into windows.

Rules
-----
- The origin is the first instant that all streams cover (intersection) or that any covers
  (union, with no day between that none covers), to the nanosecond. A stream covers from its first
  sample to a period behind its last.
- Window k begins at `k * hop` after the origin and is whole: there are
  floor((cover - window) / hop) + 1 of them, a cover short of a window by up to 1 us counted as
  whole. Sample i of a modality lies at `begin + i / rate`.
- Window x rate is whole. A nominal rate that isn't so becomes the nearest that is (29.97 -> 30);
  a given one is an error.
- A window is dropped where a modality has fewer valid samples than its share, and with `drop`
  where any sample of any modality is not valid; `fail` makes that an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmprep.align.order import DAY_NS
from mmprep.errors import DataError, UsageError
from mmprep.timebase import NS_PER_S, BoolArray, FloatArray, IntArray, whole_samples

SLACK_S = Fraction(1, 1_000_000)
COVERS = ("intersection", "union")
ON_GAP = ("mask", "drop", "fail")


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """The windows of a session.

    Parameters
    ----------
    origin_ns : int
        Second 0 on the session clock.
    n_windows : int
    window_s, hop_s : Fraction
    rates_hz : mapping of str to Fraction
        The rate of each modality.
    """

    origin_ns: int
    n_windows: int
    window_s: Fraction
    hop_s: Fraction
    rates_hz: Mapping[str, Fraction]

    def n_samples(self, name: str) -> int:
        """Count the samples of a modality in a window."""
        return whole_samples(self.window_s, self.rates_hz[name])

    def begin_s(self, window: int) -> Fraction:
        """Give the begin of a window after the origin."""
        return window * self.hop_s

    def duration_s(self, window: int) -> Fraction:
        """Give the length of a window."""
        return self.window_s

    @property
    def span_ns(self) -> tuple[int, int]:
        """The first begin and the last end, on the session clock; the end rounded up."""
        if self.n_windows == 0:
            return self.origin_ns, self.origin_ns
        end_s = self.begin_s(self.n_windows - 1) + self.window_s
        return self.origin_ns, self.origin_ns + math.ceil(end_s * NS_PER_S)

    def times_s(self, name: str, begin: int = 0, end: int | None = None) -> FloatArray:
        """Give the sample times of windows `[begin, end)`.

        Returns
        -------
        [shape=(end - begin, n_samples), float64, s]
            k * hop + i / rate after the origin, rounded once.
        """
        rate, end = self.rates_hz[name], self.n_windows if end is None else end
        unit = math.lcm(self.hop_s.denominator, rate.numerator)
        hop = self.hop_s.numerator * (unit // self.hop_s.denominator)
        period = rate.denominator * (unit // rate.numerator)
        dtype = np.int64 if hop * end + period * self.n_samples(name) < 1 << 53 else object
        window = np.arange(begin, end).astype(dtype)[:, None]
        sample = np.arange(self.n_samples(name)).astype(dtype)
        return np.asarray((window * hop + sample * period) / unit, dtype=np.float64)

    def spans_s(self, windows: IntArray) -> FloatArray:
        """Give the begin after the origin and the length of some windows, each rounded once.

        Returns
        -------
        [shape=(n, 2), float64, s]
        """
        begins_s = [float(self.begin_s(k)) for k in windows.tolist()]
        return np.stack([np.array(begins_s), np.full(len(windows), float(self.window_s))], axis=1)

    def padding(self, name: str, begin: int, end: int) -> BoolArray:
        """Mark the samples of windows `[begin, end)` that belong to none: here all do.

        Returns
        -------
        [shape=(end - begin, n_samples), bool]
        """
        return np.zeros((end - begin, self.n_samples(name)), dtype=bool)

    def edges_ns(self, windows: IntArray) -> IntArray:
        """Give the begin and the end of some windows on the session clock.

        Returns
        -------
        [shape=(n, 2), int64, ns]
            k * hop and k * hop + window after the origin, rounded once, halves to even.
        """
        unit = math.lcm(self.hop_s.denominator, self.window_s.denominator)
        hop, length = int(self.hop_s * unit), int(self.window_s * unit)
        largest = max((hop * self.n_windows + length) * NS_PER_S, 2 * unit)
        dtype = np.int64 if largest < 1 << 63 else object
        edges = windows.astype(dtype)[:, None] * hop + np.array([0, length], dtype=dtype)
        return self.origin_ns + halves_to_even(edges * NS_PER_S, unit)


def halves_to_even(values: NDArray[Any], unit: int) -> IntArray:
    """Divide whole numbers by another one, and round once."""
    whole, rest = values // unit, values % unit
    is_over = (2 * rest > unit) | ((2 * rest == unit) & (whole % 2 == 1))
    return np.asarray(whole + is_over, dtype=np.int64)


def plan_windows(
    coverages_ns: Iterable[tuple[int, int]],
    rates_hz: Mapping[str, Fraction],
    *,
    window_s: Fraction = Fraction(1),
    hop_s: Fraction | None = None,
    cover: str = "intersection",
) -> WindowPlan:
    """Lay windows over the time that the streams cover.

    Parameters
    ----------
    coverages_ns : iterable of (begin, end) [ns]
        One a stream, on the session clock.
    rates_hz : mapping of str to Fraction
        See `grid_rate`.

    Raises
    ------
    UsageError
        Window x rate is not whole, or window or hop is not positive.
    DataError
        The streams have no time in common, or less than a window.
    """
    hop_s = window_s if hop_s is None else hop_s
    if window_s <= 0 or hop_s <= 0 or cover not in COVERS:
        raise UsageError(f"no windows of {window_s} s every {hop_s} s over the {cover}")
    for rate_hz in rates_hz.values():
        whole_samples(window_s, rate_hz)
    coverages = tuple(coverages_ns)
    begin_ns, end_ns = covered(coverages, cover=cover)
    length_s = Fraction(end_ns - begin_ns, NS_PER_S) + SLACK_S
    n_windows = math.floor((length_s - window_s) / hop_s) + 1
    if n_windows < 1:
        is_alone = len(coverages) == 1
        said = "the stream lasts {:.6g} s" if is_alone else "the streams have {:.6g} s in common"
        raise DataError(
            f"{said.format(float(length_s - SLACK_S))}, a window has {float(window_s):g}",
            hint="use a shorter --window"
            if is_alone
            else "check the clocks, use a shorter --window, or --cover union",
        )
    return WindowPlan(begin_ns, n_windows, window_s, hop_s, dict(rates_hz))


def covered(
    coverages_ns: Iterable[tuple[int, int]], *, cover: str = "intersection"
) -> tuple[int, int]:
    """Give the stretch `[begin, end)` that all streams cover, or any.

    Raises
    ------
    DataError
        The streams don't overlap, or lie more than a day apart.
    """
    coverages = sorted(coverages_ns)
    begins, ends = zip(*coverages, strict=True)
    if cover == "union":
        apart_ns = max((b - max(ends[:k]) for k, b in enumerate(begins) if k), default=0)
        if apart_ns > DAY_NS:
            raise DataError(
                f"no stream covers {apart_ns / DAY_NS:.1f} days between one and the next",
                hint="check --clock, --start and --tz, or align them apart",
            )
        return min(begins), max(ends)
    if max(begins) >= min(ends):
        apart_s = (max(begins) - min(ends)) / NS_PER_S
        raise DataError(
            f"the streams don't overlap: one begins {apart_s:g} s after another has ended",
            hint="check --clock, --start and --tz, or use --cover union",
        )
    return max(begins), min(ends)


def grid_rate(
    nominal_hz: Fraction | None, window_s: Fraction | None, *, given_hz: Fraction | None = None
) -> Fraction:
    """Choose the rate of a modality so that a window holds a whole number of samples.

    Parameters
    ----------
    window_s : Fraction, optional
        None for records of their own length, of which any rate will do.

    Returns
    -------
    Fraction
        The given rate; else the nominal one, or the nearest that fits (halves up, one sample a
        window at least).

    Raises
    ------
    UsageError
        The given rate doesn't fit, or there is none.
    """
    if given_hz is not None:
        if window_s is not None:
            whole_samples(window_s, given_hz)
        return given_hz
    if nominal_hz is None:
        raise UsageError("the stream has no nominal rate", hint="give its rate with --rates")
    if window_s is None:
        return nominal_hz
    return max(math.floor(window_s * nominal_hz + Fraction(1, 2)), 1) / window_s


@dataclass(frozen=True, slots=True)
class Kept:
    """Which windows stay.

    Parameters
    ----------
    keep : [shape=(n_windows,), bool]
    shares : mapping of str to [shape=(n_windows,), float64]
        The share of valid samples a modality and window.
    n_gap, n_thin : int
        Windows dropped for a gap (`drop`), and of the rest those below the least share.
    """

    keep: BoolArray
    shares: Mapping[str, FloatArray]
    n_gap: int
    n_thin: int


def keep_windows(
    valid: Mapping[str, BoolArray],
    *,
    on_gap: str = "mask",
    min_valid: float = 0.0,
    first: int = 0,
    padding: Mapping[str, BoolArray] | None = None,
) -> Kept:
    """Decide which windows stay.

    Parameters
    ----------
    valid : mapping of str to [shape=(n_windows, n_samples), bool]
    on_gap : str
        `mask` keeps windows with invalid samples, `drop` drops them, `fail` refuses them.
    min_valid : float
        The least share of valid samples of every modality.
    first : int
        The number of the first window, for the message.
    padding : mapping of str to [shape=(n_windows, n_samples), bool], optional
        Samples that can't be valid, and are no gap: they count for the shares alone.

    Raises
    ------
    DataError
        `fail`, and a sample is not valid.
    """
    if on_gap not in ON_GAP:
        raise UsageError(f"no policy {on_gap!r}, but {', '.join(ON_GAP)}")
    shares = {name: mask.mean(axis=1) for name, mask in valid.items()}
    held = {name: mask | padding[name] for name, mask in valid.items()} if padding else valid
    full = np.stack([mask.all(axis=1) for mask in held.values()]).all(axis=0)
    if on_gap == "fail" and not full.all():
        raise _gap_error(held, int(np.argmin(full)), first)
    rich = np.stack([share >= min_valid for share in shares.values()]).all(axis=0)
    whole = full if on_gap == "drop" else np.ones_like(full)
    keep: BoolArray = np.asarray(whole & rich)
    return Kept(keep, shares, int((~whole).sum()), int((whole & ~rich).sum()))


def _gap_error(valid: Mapping[str, BoolArray], window: int, first: int) -> DataError:
    name = next(name for name, mask in valid.items() if not mask[window].all())
    mask = valid[name][window]
    return DataError(
        f"{int((~mask).sum())} of {mask.size} samples of window {first + window} have no reading",
        where=name,
        hint="--on-gap mask keeps such windows with their mask, --on-gap drop leaves them out",
    )
