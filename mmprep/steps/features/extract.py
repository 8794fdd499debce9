"""The work of `mfcc`: the features of a task's utterances, one shard of them.

Rules
-----
- Sound comes in pieces and leaves as blocks of rows; what has to wait for the end of its file waits
  in a `Scratch`. So memory does not grow with the length of a file.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmprep import mfcc as core
from mmprep.errors import UsageError
from mmprep.media import AudioReader, one_channel, resampled
from mmprep.shards import open_shard
from mmprep.steps import sounds
from mmprep.steps.features.rates import check_rates
from mmprep.steps.features.scratch import Scratch
from mmprep.steps.running.ragged import Kind, RaggedShards
from mmprep.steps.running.tasks import Item, Job
from mmprep.timebase import rate, rate_text

PIECE_VALUES = 1 << 20  # of a shard, read at a time


def measure(job: Job) -> dict[str, Any]:
    """Measure the features of each speaker in a task, merged in the order of the utterances."""
    extractors = _Extractors(job.task.spec)
    known, signal_s = dict[str, core.Moments](), 0.0
    for item in job.items():
        with job.attempt(item, "decode"), _features(job, item, extractors) as found:
            signal_s += found.sound.duration_s
            speaker, part = item.spec["subject"], found.moments
            if part is not None:
                known[speaker] = known[speaker].merge(part) if speaker in known else part
    return {
        "speakers": {speaker: found.to_json() for speaker, found in known.items()},
        "signal_s": signal_s,
    }


def extract(job: Job) -> dict[str, Any]:
    """Compute the features of a task's utterances."""
    spec = job.task.spec
    extractors = _Extractors(spec)
    speakers = {k: core.Moments.from_json(v) for k, v in spec.get("speakers", {}).items()}
    by_speaker, records = "speakers" in spec, dict[str, Any]()
    with RaggedShards(job.folder, spec["shard_size"]) as shards:
        for item in job.items():
            with job.attempt(item, "decode"), _features(job, item, extractors) as found:
                over = speakers.get(item.spec["subject"]) if by_speaker else found.moments
                records[item.id] = _write(shards, found, over)
        signal_s = sum(record["signal_s"] for record in records.values())
        return shards.close() | {
            "records": records,
            "signal_s": signal_s,
            "empty_bands": extractors.empty_bands(),
        }


@lru_cache(maxsize=8)
def _extractor(recipe: core.Recipe, rate_hz: Fraction, _thread: int) -> core.Extractor:
    """Make an extractor once a process: tasks are many. It serves one thread at a time."""
    return core.Extractor(recipe, rate_hz)


class _Extractors:
    """The extractors of a task, one a rate, and who was the first to have it."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._recipe, self._wanted_hz = core.Recipe(**spec["recipe"]), spec["rate"]
        self._known: dict[Fraction, core.Extractor] = {}
        self._rates: dict[Fraction, str] = {}

    def at(self, rate_hz: Fraction, source: str) -> core.Extractor:
        """Give the extractor of a rate; mixed rates are refused."""
        if rate_hz not in self._known:
            self._rates[rate_hz] = source
            check_rates(self._rates.items(), self._wanted_hz)
            self._known[rate_hz] = _extractor(self._recipe, rate_hz, threading.get_ident())
        return self._known[rate_hz]

    def empty_bands(self) -> dict[str, int]:
        """Count the bands without a bin, by rate."""
        found = {rate_text(hz): len(known.empty_bands) for hz, known in self._known.items()}
        return {text: n for text, n in found.items() if n}


# --- what a file gives


@dataclass(slots=True)
class _Sound:
    """One channel of a file at the wanted rate, in pieces, and what is known once they are read.

    Parameters
    ----------
    start_s : float
        The time of the first sample.
    breaks : list of (Fraction, float) [s]
        Where the sound breaks off, as so much sound after the first sample, and when it goes on.
    """

    rate_hz: Fraction
    start_s: float
    pieces: Iterable[NDArray[np.float32]]
    breaks: list[tuple[Fraction, float]] = field(default_factory=list)
    n_samples: int = 0
    highest: float = 0.0
    warnings: list[str] = field(default_factory=list)

    def read(self) -> Iterator[NDArray[np.float32]]:
        """Give the pieces, and count what goes by."""
        for piece in self.pieces:
            self.n_samples += piece.size
            self.highest = max(self.highest, sounds.peak(piece))
            yield piece

    @property
    def duration_s(self) -> float:
        """The length of what was read."""
        return self.n_samples / float(self.rate_hz)

    @property
    def end_s(self) -> float:
        """The time behind the last sample."""
        since_s, time_s = self.breaks[-1] if self.breaks else (Fraction(0), self.start_s)
        return time_s + float(self.n_samples / self.rate_hz - since_s)


@dataclass(frozen=True, slots=True)
class _Features:
    """The features of a file, before they are normalised.

    Parameters
    ----------
    moments : Moments, optional
        Of all rows, where they are to be normalised; None without a row, too.
    """

    sound: _Sound
    extractor: core.Extractor
    blocks: Iterable[NDArray[np.float32]]
    n_rows: int
    moments: core.Moments | None


@contextmanager
def _features(job: Job, item: Item, extractors: _Extractors) -> Iterator[_Features]:
    """Compute the features of a file; its blocks can be taken once, inside the `with` block."""
    spec = job.task.spec
    wants_moments = spec["recipe"]["cmvn"] != "none" and "speakers" not in spec
    with Scratch(job.folder) as bands, Scratch(job.folder) as rows:
        with _sound(item, spec) as sound:
            extractor = extractors.at(sound.rate_hz, item.source)
            n_rows, moments = 0, None
            for block in extractor.blocks(sound.read(), bands):
                n_rows += len(block)
                rows.append(block)
                if wants_moments:
                    part = core.moments(block)
                    moments = moments.merge(part) if moments else part
        yield _Features(sound, extractor, rows, n_rows, moments)


def _write(shards: RaggedShards, found: _Features, over: core.Moments | None) -> dict[str, Any]:
    """Write the rows, normalised where there is something to normalise over."""
    extractor, sound = found.extractor, found.sound
    kind = Kind(
        extractor.recipe.features,
        1 / extractor.hop_s,
        (extractor.n_features,),
        "float32",
        extractor.feature_names,
        kind="features",
    )
    with shards.item(kind, found.n_rows) as (append, place):
        for block in found.blocks:
            append(block if over is None else core.normalize(block, over))
    return {
        "shard": place.path,
        "rows": [place.begin, place.end],
        "rate_hz": rate_text(1 / extractor.hop_s),
        "duration_s": sound.end_s,
        "offset_s": sound.start_s + float(extractor.offset_s),
        "signal_s": sound.duration_s,
        "audio_rate_hz": rate_text(sound.rate_hz),
        "breaks": _breaks(sound, extractor),
        "warnings": sound.warnings,
    }


def _breaks(sound: _Sound, extractor: core.Extractor) -> list[tuple[int, float]]:
    """Give the first row behind each break of the sound, and its time as the sound has it."""
    found = []
    for since_s, time_s in sound.breaks:
        row = max(math.ceil((since_s - extractor.offset_s) / extractor.hop_s), 0)
        behind_s = extractor.offset_s + row * extractor.hop_s - since_s
        found.append((row, round(time_s + float(behind_s), 9)))
    return found


# --- where sound comes from


@contextmanager
def _sound(item: Item, spec: Mapping[str, Any]) -> Iterator[_Sound]:
    """Open one channel of a file or of rows of a shard."""
    opened = _of_file(item, spec) if item.inputs else _of_shard(item, spec)
    with opened as sound:
        yield sound
        sound.warnings += sounds.loud(item.source, sound.highest)


@contextmanager
def _of_file(item: Item, spec: Mapping[str, Any]) -> Iterator[_Sound]:
    channel, wanted_hz = spec["channel"], spec["rate"]
    with AudioReader(
        item.inputs[0], channel=channel, mono=channel is None, resample_hz=wanted_hz
    ) as reader:
        sound = _Sound(Fraction(reader.rate_hz), reader.info.start_s, reader.blocks())
        yield sound
        sound.breaks += [(row / sound.rate_hz, time_s) for row, time_s in reader.breaks]
        sound.warnings += sounds.lost(item.source, reader) + sounds.uneven(item.source, reader)


@contextmanager
def _of_shard(item: Item, spec: Mapping[str, Any]) -> Iterator[_Sound]:
    rate_hz, wanted_hz = rate(item.spec["rate_hz"]), spec["rate"]
    pieces = _shard_pieces(item, spec["channel"])
    breaks = [(row / rate_hz, time_s) for row, time_s in item.spec.get("breaks", ())]
    if wanted_hz is not None and rate_hz != wanted_hz:
        pieces, rate_hz = resampled(pieces, float(rate_hz), wanted_hz), Fraction(wanted_hz)
    yield _Sound(rate_hz, float(item.spec["offset_s"] or 0.0), pieces, breaks)


def _shard_pieces(item: Item, channel: int | None) -> Iterator[NDArray[np.float32]]:
    """Read rows of a shard, mapped anew for each piece: mapped pages count as memory."""
    path, (begin, end) = item.spec["path"], item.spec["rows"]
    n_channels = int(np.prod(open_shard(path).shape[1:]))
    if channel is not None and channel >= n_channels:
        raise UsageError(f"no channel {channel}: there are {n_channels}", where=item.id)
    step = max(1, PIECE_VALUES // n_channels)
    for at in range(begin, end, step):
        rows = open_shard(path)[at : min(end, at + step)].reshape(-1, n_channels)
        yield one_channel(_scaled(rows), channel)


def _scaled(rows: NDArray[Any]) -> NDArray[np.float32]:
    if rows.dtype == np.int16:
        return rows.astype(np.float32) / np.float32(32768)
    return np.asarray(rows, dtype=np.float32)
