"""One rate for all: mixed rates are refused, unless all are resampled."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from mmprep.errors import UsageError


def check_rates(rates: Iterable[tuple[Fraction, str]], wanted: int | None) -> None:
    """Refuse mixed rates, unless all are resampled."""
    if wanted is not None:
        return
    first: dict[Fraction, str] = {}
    for rate_hz, name in rates:
        first.setdefault(rate_hz, name)
        if len(first) > 1:
            listed = ", ".join(f"{float(hz):g} Hz ({name})" for hz, name in first.items())
            raise UsageError(
                f"mixed rates: {listed}",
                where="--rate",
                hint=f"resample all to one: --rate {int(min(first))}",
            )
