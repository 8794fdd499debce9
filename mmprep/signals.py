"""Signal: an array, its time axis, its channels and their units; filters by their frequencies."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmprep.errors import DataError, UsageError
from mmprep.rows import Rows
from mmprep.timebase import FloatArray, IntArray, TimeAxis


@dataclass(frozen=True, slots=True)
class Signal:
    """One stream of readings.

    Parameters
    ----------
    name : str
        The stream's name.
    data : [shape=(n_samples, *frame_shape)]
        Time first; read-only.
    time : Grid or Timestamps
        One time a sample, seconds from the origin of the caller's choice.
    channels : tuple of str
        Names along the last axis of data, or empty.
    units : tuple of str or None
        One unit a channel; None where the source names none.
    nominal_rate_hz : Fraction, optional
        What the header says, None for irregular streams.
    """

    name: str
    data: NDArray[Any]
    time: TimeAxis
    channels: tuple[str, ...] = ()
    units: tuple[str | None, ...] = ()
    nominal_rate_hz: Fraction | None = None

    def __post_init__(self) -> None:
        if self.data.shape[0] != self.time.n_samples:
            raise DataError(
                f"{self.name}: {self.data.shape[0]} samples with {self.time.n_samples} stamps"
            )
        self.data.setflags(write=False)

    @property
    def n_samples(self) -> int:
        """The number of readings."""
        return int(self.data.shape[0])

    @property
    def effective_rate_hz(self) -> float:
        """The measured rate, (n - 1) / (last - first); NaN below two samples."""
        seconds = self.time.seconds()
        if seconds.size < 2:
            return float("nan")
        return float((seconds.size - 1) / (seconds[-1] - seconds[0]))

    def __repr__(self) -> str:
        return f"Signal({self.name!r}, shape={self.data.shape}, dtype={self.data.dtype})"


@dataclass(frozen=True, slots=True)
class Stream:
    """The readings of one device with the stamps they came with, before any repair.

    Parameters
    ----------
    name : str
        The stream's name.
    stamps_ns : [shape=(n_samples,), int64, ns]
        On the device's own clock; Unix time if `absolute`. They may repeat, step back or jump.
    data : [shape=(n_samples, *frame_shape)]
        Time first; read-only. Of a long stream perhaps rows in a file: see `values`.
    kind : str
        `signal`, `audio`, `video` (data holds frame ranks) or `events`.
    rate_is_measured : bool
        The nominal rate is that of the stamps; nobody names one.
    since_start : bool
        Stamps count from the first sample of the recording that the stream belongs to.
    n_rejected : int
        Bad rows that its reader left out.
    texts : tuple of str
        Columns of text, which its data can't hold.
    notes : tuple of str
        What its reader took for granted.
    """

    name: str
    stamps_ns: IntArray
    data: Rows
    channels: tuple[str, ...] = ()
    units: tuple[str | None, ...] = ()
    nominal_rate_hz: Fraction | None = None
    absolute: bool = False
    kind: str = "signal"
    rate_is_measured: bool = False
    since_start: bool = False
    n_rejected: int = 0
    texts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.stamps_ns.shape != self.data.shape[:1]:
            raise DataError(
                f"{self.name}: {self.data.shape[0]} samples with {self.stamps_ns.size} stamps"
            )
        self.stamps_ns.setflags(write=False)
        if isinstance(self.data, np.ndarray):
            self.data.setflags(write=False)

    @property
    def n_samples(self) -> int:
        """The number of readings."""
        return int(self.stamps_ns.size)

    @property
    def values(self) -> NDArray[Any]:
        """All readings, in memory."""
        return np.asarray(self.data)

    def __repr__(self) -> str:
        return f"Stream({self.name!r}, shape={self.data.shape}, kind={self.kind!r})"


@dataclass(frozen=True, slots=True)
class Band:
    """Which frequencies of a signal stay.

    Parameters
    ----------
    low_hz, high_hz : float, optional
        The edges of the pass-band.
    notch_hz : float, optional
        A frequency that is taken out, as that of the mains.
    """

    low_hz: float | None = None
    high_hz: float | None = None
    notch_hz: float | None = None

    def kernel(self, rate_hz: float, where: str) -> FloatArray:
        """Design the zero-phase FIR filter, as MNE does by default.

        Returns
        -------
        [shape=(n_taps,), float64]
            Symmetric, n_taps odd. Band and notch in one are their convolution.

        Raises
        ------
        UsageError
            A frequency is not below half of the rate.

        References
        ----------
        `mne.filter.create_filter`: a Hamming window, transitions of a quarter of the edge, 2 Hz at
        least; `mne.filter.notch_filter`: 1/200 of the frequency wide, transitions of 0.5 Hz.
        """
        highest = max(hz for hz in (self.low_hz, self.high_hz, self.notch_hz) if hz is not None)
        if highest >= rate_hz / 2:
            raise UsageError(
                f"{highest:g} Hz is not below {rate_hz / 2:g} Hz, half of its rate",
                where=where,
                hint="filters work at the native rate of a stream",
            )
        from mne.filter import create_filter

        kernels: list[FloatArray] = []
        if self.low_hz is not None or self.high_hz is not None:
            kernels.append(create_filter(None, rate_hz, self.low_hz, self.high_hz, verbose=False))
        if self.notch_hz is not None:
            edge = self.notch_hz / 400 + 0.5
            kernels.append(
                create_filter(
                    None,
                    rate_hz,
                    self.notch_hz + edge,
                    self.notch_hz - edge,
                    l_trans_bandwidth=0.5,
                    h_trans_bandwidth=0.5,
                    verbose=False,
                )
            )
        first, *rest = kernels
        for other in rest:
            first = np.convolve(first, other)
        return np.asarray(first, dtype=np.float64)
