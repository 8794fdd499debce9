"""Classes of numbers: `--label-bins EDGES`.

Rules
-----
- Bins are half-open, `[edge, next edge)`; the first is open below, the last above.
- `3,6` names them `<3`, `3..6` and `>=6`; `low<3<mid<6<high` says the names itself.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise

from mmprep.errors import DataError, UsageError
from mmprep.manifest.model import LabelValue


@dataclass(frozen=True, slots=True)
class Bins:
    """Edges in rising order, and one name more."""

    edges: tuple[float, ...]
    names: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Bins:
        """Read `--label-bins`.

        Raises
        ------
        UsageError
            Edges that are no numbers or do not rise, or doubled names.
        """
        parts = [part.strip() for part in text.split("<" if "<" in text else ",")]
        texts = parts[1::2] if "<" in text else parts
        edges = tuple(_edge(part, text) for part in texts)
        if not edges or any(after <= before for before, after in pairwise(edges)):
            raise UsageError(f"{text!r}: the edges must rise", where="--label-bins")
        names = tuple(parts[::2]) if "<" in text else _names(texts)
        if len(names) != len(edges) + 1 or not all(names) or len(set(names)) < len(names):
            raise UsageError(
                f"{text!r} has not one name for each bin",
                where="--label-bins",
                hint="as in low<3<mid<6<high, or 3,6",
            )
        return cls(edges, names)

    def name(self, value: LabelValue, record_id: str) -> str | None:
        """Give the class of a number; None of what is missing.

        Raises
        ------
        DataError
            The value is no number.
        """
        if value is None:
            return None
        if isinstance(value, bool | str) or not math.isfinite(value):
            raise DataError(
                f"the label is {value!r}, which --label-bins cannot place", where=record_id
            )
        return self.names[bisect_right(self.edges, value)]


def _edge(part: str, text: str) -> float:
    try:
        edge = float(part)
    except ValueError:
        edge = math.nan
    if not math.isfinite(edge):
        raise UsageError(f"{text!r}: {part!r} is no number", where="--label-bins")
    return edge


def _names(texts: list[str]) -> tuple[str, ...]:
    between = (f"{low}..{high}" for low, high in pairwise(texts))
    return (f"<{texts[0]}", *between, f">={texts[-1]}")
