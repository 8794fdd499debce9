"""The work of `mfcc`: the features of a task's utterances, one shard of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmprep import mfcc as core
from mmprep.errors import UsageError
from mmprep.media import decode_audio
from mmprep.shards import open_shard
from mmprep.steps import sounds
from mmprep.steps.ragged import Kind, RaggedShards
from mmprep.steps.rates import check_rates
from mmprep.steps.tasks import Item, Job
from mmprep.timebase import rate, rate_text


class _Extractors:
    """The extractors of a task, one a rate, and who was the first to have it."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._recipe, self._wanted_hz = core.Recipe(**spec["recipe"]), spec["rate"]
        self._known: dict[Fraction, core.Extractor] = {}
        self._rates: dict[Fraction, str] = {}

    def at(self, rate_hz: Fraction, source: str) -> core.Extractor:
        """Give the extractor of a rate; mixed rates are refused."""
        self._rates.setdefault(rate_hz, source)
        check_rates(self._rates.items(), self._wanted_hz)
        if rate_hz not in self._known:
            self._known[rate_hz] = core.Extractor(self._recipe, rate_hz)
        return self._known[rate_hz]


def measure(job: Job) -> dict[str, Any]:
    """Measure the features of each speaker in a task, merged in the order of the utterances."""
    extractors = _Extractors(job.task.spec)
    known, signal_s = dict[str, core.Moments](), 0.0
    for item in job.items():
        with job.attempt(item, "decode"):
            samples, rate_hz, _ = _sound(item, job.task.spec)
            signal_s += samples.size / float(rate_hz)
            rows = extractors.at(rate_hz, item.source).features(samples)
            speaker, found = item.spec["subject"], core.moments(rows)
            known[speaker] = known[speaker].merge(found) if speaker in known else found
    return {
        "speakers": {speaker: found.to_json() for speaker, found in known.items()},
        "signal_s": signal_s,
    }


def extract(job: Job) -> dict[str, Any]:
    """Compute the features of a task's utterances."""
    spec = job.task.spec
    extractors = _Extractors(spec)
    speakers = {k: core.Moments.from_json(v) for k, v in spec.get("speakers", {}).items()}
    records: dict[str, Any] = {}
    with RaggedShards(job.folder, spec["shard_size"]) as shards:
        for item in job.items():
            with job.attempt(item, "decode"):
                samples, rate_hz, start_s = _sound(item, spec)
                extractor = extractors.at(rate_hz, item.source)
                rows = extractor.features(samples)
                if speakers:
                    rows = core.normalize(rows, speakers[item.spec["subject"]])
                records[item.id] = _write(shards, extractor, rows) | {
                    "duration_s": samples.size / float(rate_hz),
                    "offset_s": float(extractor.offset_s) + start_s,
                    "audio_rate_hz": rate_text(rate_hz),
                    "breaks": _breaks(item, extractor),
                    "warnings": sounds.loud(item.source, sounds.peak(samples)),
                }
        signal_s = sum(record["duration_s"] for record in records.values())
        return shards.close() | {"records": records, "signal_s": signal_s}


def _breaks(item: Item, extractor: core.Extractor) -> list[tuple[int, float]]:
    """Give the first row behind each break of the sound, and its time as the sound has it."""
    found = []
    for sample, time_s in item.spec.get("breaks", ()):
        since_s = Fraction(sample) / rate(item.spec["rate_hz"])
        row = max(math.ceil((since_s - extractor.offset_s) / extractor.hop_s), 0)
        behind_s = extractor.offset_s + row * extractor.hop_s - since_s
        found.append((row, round(time_s + float(behind_s), 9)))
    return found


def _write(
    shards: RaggedShards, extractor: core.Extractor, rows: NDArray[np.float32]
) -> dict[str, Any]:
    kind = Kind(
        extractor.recipe.features,
        1 / extractor.hop_s,
        (extractor.n_features,),
        "float32",
        extractor.feature_names,
        kind="features",
    )
    with shards.item(kind, len(rows)) as (append, place):
        append(rows)
    return {
        "shard": place.path,
        "rows": [place.begin, place.end],
        "rate_hz": rate_text(1 / extractor.hop_s),
    }


def _sound(item: Item, spec: Mapping[str, Any]) -> tuple[NDArray[np.float32], Fraction, float]:
    """Give one channel at the wanted rate, its rate, and the time of its first sample."""
    if item.inputs:
        channel = spec["channel"]
        audio = decode_audio(
            item.inputs[0], channel=channel, mono=channel is None, resample_hz=spec["rate"]
        )
        return audio.samples, Fraction(audio.rate_hz), 0.0
    begin, end = item.spec["rows"]
    rows = open_shard(item.spec["path"])[begin:end]
    samples = _one_channel(np.asarray(rows), spec["channel"], item.id)
    rate_hz = rate(item.spec["rate_hz"])
    if spec["rate"] is not None and rate_hz != spec["rate"]:
        samples, rate_hz = _resampled(samples, rate_hz, spec["rate"]), Fraction(spec["rate"])
    return samples, rate_hz, float(item.spec["offset_s"] or 0.0)


def _one_channel(rows: NDArray[Any], channel: int | None, where: str) -> NDArray[np.float32]:
    samples = rows.astype(np.float32) / 32768 if rows.dtype == np.int16 else rows
    table = samples.reshape(len(samples), -1)
    if channel is not None and channel >= table.shape[1]:
        raise UsageError(f"no channel {channel}: there are {table.shape[1]}", where=where)
    if channel is None and table.shape[1] > 1:
        mean: NDArray[np.float32] = table.mean(axis=1, dtype=np.float32)
        return mean
    return np.ascontiguousarray(table[:, channel or 0], dtype=np.float32)


def _resampled(
    samples: NDArray[np.float32], rate_hz: Fraction, wanted_hz: int
) -> NDArray[np.float32]:
    import soxr

    resampled: NDArray[np.float32] = soxr.resample(samples, float(rate_hz), wanted_hz, "HQ")
    return resampled
