"""Streams whose truth is known."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from mmprep import align
from mmprep.signals import Stream

ORIGIN_NS = 1_700_000_000_123_456_789


def ns(seconds):
    return ORIGIN_NS + np.rint(np.asarray(seconds) * 1e9).astype(np.int64)


def stream(seconds, data=None, *, rate=None, kind="signal", name="s"):
    stamps = ns(seconds)
    data = np.arange(stamps.size, dtype=np.float64) if data is None else np.asarray(data)
    nominal = Fraction(rate) if rate is not None else None
    return Stream(name, stamps, data, nominal_rate_hz=nominal, kind=kind)


def repaired(seconds, data=None, *, rate=None, kind="signal", **options):
    made = stream(seconds, data, rate=rate, kind=kind)
    return align.repair(made, made.stamps_ns, **options)


def steady(n, rate, *, data=None, begin_s=0.0, **options):
    return repaired(begin_s + np.arange(n) / rate, data, rate=rate, **options)


def error_s(fixed, true_s):
    return np.abs((fixed.stamps_ns() - ns(true_s)) * 1e-9)


def resample(fixed, times_s, method, **options):
    return align.resample(
        fixed, np.asarray(times_s, dtype=np.float64), origin_ns=ORIGIN_NS, method=method, **options
    )
