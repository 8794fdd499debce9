"""Trials of a recording by the triggers that one of its channels holds."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from mmprep import tables
from mmprep.errors import DataError
from mmprep.sources.base import Part
from mmprep.timebase import IntArray

LOW_BYTE = 0xFF  # BioSemi: the bits above tell of the device


@dataclass(frozen=True, slots=True)
class Triggers:
    """How the trials of a recording are told.

    Parameters
    ----------
    column : str
        The channel.
    begin, end : int
        The codes at the begin of a trial and after it.
    count : int
        How many trials there are.
    number : str
        The field that holds the number of a trial, from 1.
    """

    column: str
    begin: int
    end: int
    count: int
    number: str

    def parts(self, table: Path, stream: str, where: str) -> list[Part]:
        """Find the trials in a written table.

        Raises
        ------
        DataError
            There is another number of them than there should be.
        """
        found = tables.read_stream(table, stream, columns=(self.column,))
        codes = found.data[:, 0].astype(np.int64) & LOW_BYTE
        spans = self._spans(codes)
        if len(spans) != self.count:
            raise DataError(f"{len(spans)} trials by {self.column}, not {self.count}", where=where)
        rate_hz = float(found.nominal_rate_hz or 1)
        return [
            Part(f"{k:02d}", {stream: span}, (span[1] - span[0]) / rate_hz, {}, {self.number: k})
            for k, span in enumerate(spans, start=1)
        ]

    def _spans(self, codes: IntArray) -> list[tuple[int, int]]:
        """Give the rows of each trial: from its code to the next end, at most to the next trial."""
        is_new = np.concatenate([[True], codes[1:] != codes[:-1]])
        begins = np.flatnonzero(is_new & (codes == self.begin)).tolist()
        ends = np.flatnonzero(is_new & (codes == self.end))
        return [
            (begin, int(min([*ends[ends > begin][:1], following])))
            for begin, following in pairwise([*begins, len(codes)])
        ]
