"""Published sets of trials, without times: AMIGOS, DEAP, DREAMER."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmprep.errors import DataError
from mmprep.sources.base import Part
from mmprep.tables import ArrayTable, Column, Rows, TimeColumn
from mmprep.tables.stamps import row_stamps
from mmprep.timebase import NS_PER_S

TRIALS = "trials"
TRIALS_NOTE = "has no times between trials: they are laid on whole seconds, 1 s or more apart"


@dataclass(frozen=True, slots=True)
class TrialStream:
    """One stream of a set of trials.

    Parameters
    ----------
    columns : tuple of Column
    data : tuple of array [shape=(n_samples, n_channels)]
        One for each trial that is there.
    """

    columns: tuple[Column, ...]
    rate_hz: Fraction
    data: tuple[NDArray[Any], ...]


@dataclass(frozen=True, slots=True)
class Trials:
    """The trials of one person.

    The files have no times: a trial begins on the next whole second that leaves 1 s to the one
    before, so that no window or interpolation runs from one into another.

    Parameters
    ----------
    numbers : tuple of int
        The number of each trial, from 1; empty ones are missing.
    labels : mapping of Column to list
        One value a trial: ratings are numbers, text tells what was shown.
    empty : tuple of int
        The numbers of the empty ones.
    """

    numbers: tuple[int, ...]
    baseline_s: tuple[float, ...]
    streams: Mapping[str, TrialStream]
    labels: Mapping[Column, Sequence[Any]]
    notes: tuple[str, ...] = ()
    empty: tuple[int, ...] = ()

    def parts(self) -> list[Part]:
        """Give the trials, empty ones included, in the order of their numbers."""
        found = [self._part(k) for k in range(len(self.numbers))]
        empty = [Part(_trial_name(number), {}, fields={"trial": number}) for number in self.empty]
        return sorted([*found, *empty], key=lambda part: part.name)

    def _part(self, k: int) -> Part:
        rows, blank = {}, []
        for name, stream in self.streams.items():
            begin = sum(len(data) for data in stream.data[:k])
            rows[name] = (begin, begin + len(stream.data[k]))
            is_blank = np.isnan(stream.data[k]).all(axis=0)
            blank += [f"{name}/{stream.columns[c].name}" for c in np.flatnonzero(is_blank)]
        known = {column: values[k] for column, values in self.labels.items()}
        return Part(
            _trial_name(self.numbers[k]),
            rows,
            float(self._lengths_s()[k]),
            {column.name: _number(v) for column, v in known.items() if column.kind == "float64"},
            {"trial": self.numbers[k], "baseline_s": self.baseline_s[k]}
            | {column.name: str(v) for column, v in known.items() if column.kind == "string"},
            blank=tuple(blank),
        )

    def tables(self) -> dict[str, Callable[[], ArrayTable]]:
        """Give what looks at the table of each stream, and at that of the trials."""
        return {name: partial(self._table, name) for name in (*self.streams, TRIALS)}

    def _table(self, name: str) -> ArrayTable:
        known = self.streams.get(name)
        columns = (*_TRIAL_COLUMNS, *self.labels) if known is None else known.columns
        rate_hz = None if known is None else known.rate_hz
        time = TimeColumn("rate", "given")
        return ArrayTable(columns, time, rate_hz, partial(self._give, name), self.notes)

    def _give(self, name: str, take: Callable[[Rows], None], notes: list[str]) -> None:
        """Give the rows of a stream, a trial a block."""
        known = self.streams.get(name)
        if known is None:
            take(self._trials())
            return
        for start_s, data in zip(self._starts_s(), known.data, strict=True):
            rows = np.arange(len(data), dtype=np.int64)
            columns = {column.name: data[:, k] for k, column in enumerate(known.columns)}
            take(Rows(row_stamps(start_s * NS_PER_S, known.rate_hz, rows), columns))

    def _lengths_s(self) -> list[Fraction]:
        return [
            max(len(stream.data[k]) / stream.rate_hz for stream in self.streams.values())
            for k in range(len(self.numbers))
        ]

    def _starts_s(self) -> list[int]:
        starts, next_s = [], 0
        for length_s in self._lengths_s():
            starts.append(next_s)
            next_s += math.ceil(length_s) + 1
        return starts

    def _trials(self) -> Rows:
        columns = {
            "trial": np.array(self.numbers, np.int64),
            "duration": np.array([float(length) for length in self._lengths_s()], np.float64),
            "baseline": np.array(self.baseline_s, np.float64),
        }
        for column, values in self.labels.items():
            columns[column.name] = np.array(
                list(values), np.float64 if column.kind == "float64" else object
            )
        return Rows(np.array(self._starts_s(), np.int64) * NS_PER_S, columns)


def _trial_name(number: int) -> str:
    return f"{number:02d}"


def _number(value: Any) -> float | None:
    """Give a rating; whole ones as whole numbers."""
    number = float(value)
    if math.isnan(number):
        return None
    return int(number) if number.is_integer() else number


_TRIAL_COLUMNS = (
    Column("trial", "int64", "trial", fixed=True),
    Column("duration", "float64", "duration", "s", fixed=True),
    Column("baseline", "float64", "baseline", "s", fixed=True),
)

# DEAP, preprocessed: 40 channels at 128 Hz, 3 s before each clip (Koelstra et al. 2012).
DEAP_RATE_HZ, DEAP_BASELINE_S = Fraction(128), 3.0
DEAP_LABELS = ("valence", "arousal", "dominance", "liking")
# fmt: off
DEAP_EEG = (
    "Fp1", "AF3", "F3", "F7", "FC5", "FC1", "C3", "T7", "CP5", "CP1", "P3", "P7", "PO3", "O1", "Oz",
    "Pz", "Fp2", "AF4", "Fz", "F4", "F8", "FC6", "FC2", "Cz", "C4", "T8", "CP6", "CP2", "P4", "P8",
    "PO4", "O2",
)
# fmt: on
DEAP_CHANNELS: Mapping[str, tuple[tuple[str, ...], str | None]] = {
    "eeg": (
        DEAP_EEG,
        "uV",
    ),
    "eog": (("hEOG", "vEOG"), "uV"),
    "emg": (("zEMG", "tEMG"), "uV"),
    "gsr": (("GSR",), None),  # in nS or Ohm: it differs between the two places of recording
    "resp": (("Resp",), None),
    "bvp": (("Plet",), None),
    "temp": (("Temp",), None),
}


def deap_trials(data: NDArray[Any], labels: NDArray[Any], where: str) -> Trials:
    """Take a person of DEAP apart.

    Parameters
    ----------
    data : [shape=(n_trials, 40, n_samples)]
    labels : [shape=(n_trials, 4)]

    Raises
    ------
    DataError
        The arrays have other shapes.
    """
    n_channels = sum(len(names) for names, _ in DEAP_CHANNELS.values())
    is_deap = data.ndim == 3 and data.shape[1] == n_channels
    if not is_deap or labels.shape != (len(data), len(DEAP_LABELS)):
        raise DataError(
            f"data {data.shape} and labels {labels.shape} are not those of DEAP", where=where
        )
    streams, at = {}, 0
    for stream, (names, unit) in DEAP_CHANNELS.items():
        part = data[:, at : at + len(names)]
        columns = tuple(Column(name, "float64", name, unit, fixed=True) for name in names)
        streams[stream] = TrialStream(columns, DEAP_RATE_HZ, tuple(trial.T for trial in part))
        at += len(names)
    return Trials(
        tuple(range(1, len(data) + 1)),
        (DEAP_BASELINE_S,) * len(data),
        streams,
        {
            Column(n, "float64", n, fixed=True): list(labels[:, k])
            for k, n in enumerate(DEAP_LABELS)
        },
        (TRIALS_NOTE,),
    )
