"""The work of `convert` on sound and video: samples into shards, frame times into tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from mmprep import files, tables
from mmprep.errors import DataError
from mmprep.media import PLAYABLE, AudioReader, VideoTrack, scan_video, tracks
from mmprep.steps import sounds
from mmprep.steps.intake import evidence, films, transcripts
from mmprep.steps.intake.findings import Findings
from mmprep.steps.running.ragged import Kind, RaggedShards
from mmprep.steps.running.tasks import Item, Job
from mmprep.timebase import Fixes, FrameLog, rate_text


def convert(job: Job) -> dict[str, Any]:
    """Convert the sound and video files of a task."""
    items: list[dict[str, Any]] = []
    written: list[list[Any]] = []
    with RaggedShards(job.folder, job.task.spec["shard_size"]) as shards:
        for item in job.items():
            with job.attempt(item, "decode"):
                findings = _convert_item(job, item, shards)
                items.append(findings.to_json())
                written += findings.files
        done = shards.close()
    return {
        "items": items,
        "files": written + done["files"],
        "shards": done["shards"],
        "signal_s": sum(item["duration_s"] for item in items),
    }


def _convert_item(job: Job, item: Item, shards: RaggedShards) -> Findings:
    findings = Findings(job, item)
    if item.spec["text"]:
        findings.text, findings.words = transcripts.read(Path(item.inputs[-1]))
    is_video = item.spec["kind"] == "video"
    kinds = [track.kind for track in tracks(item.inputs[0])] if is_video else ["audio"]
    findings.notes += [
        f"{kinds.count(kind)} {kind} tracks, of which the first is taken"
        for kind in PLAYABLE
        if kinds.count(kind) > 1
    ]
    names = _names(item, kinds, is_video=is_video)
    if "video" in names:
        _film(findings, shards, names)
        return findings
    clock = evidence.beside(item)
    if isinstance(clock, FrameLog):
        findings.notes.append("the frame log beside it says nothing of a sound")
        clock = None
    evidence.put(findings, names["audio"], clock)
    _sound(findings, shards, names["audio"])
    return findings


def _names(item: Item, kinds: Sequence[str], *, is_video: bool) -> dict[str, str]:
    """Give the tracks that are taken, and what they become.

    Raises
    ------
    DataError
        The file has no such track.
    """
    stream, tracks = item.spec["stream"], item.spec["tracks"]
    if tracks is not None:
        if lacking := sorted(set(tracks) - set(kinds)):
            raise DataError(f"has no {lacking[0]} track", where=item.source)
        return dict(tracks)
    sound = "audio" if stream == "video" else f"{stream}_audio"
    if not is_video or ("audio" in kinds and "video" not in kinds):
        return {"audio": "audio" if is_video and stream == "video" else stream}
    with_sound = item.spec["sound"] and "audio" in kinds
    return {"video": stream, **({"audio": sound} if with_sound else {})}


def _film(findings: Findings, shards: RaggedShards, names: Mapping[str, str]) -> None:
    """Convert a video and its sound; a frame log tells the clock of both."""
    item, stream = findings.item, names["video"]
    scan, clock = scan_video(item.inputs[0]), evidence.beside(item)
    evidence.put(findings, stream, clock)
    _video(findings, stream, scan)
    pairs: Fixes | None = None
    if isinstance(clock, FrameLog):
        frames, where = films.stream(stream, scan), evidence.clock_path(item)
        _, pairs = films.paired(clock, frames, scan.n_frames, where)
    if "audio" in names:
        evidence.put(findings, names["audio"], pairs)
        _sound(findings, shards, names["audio"])


def _sound(findings: Findings, shards: RaggedShards, stream: str) -> None:
    item, options = findings.item, findings.job.task.spec["sound"]
    with AudioReader(item.inputs[0], **options) as reader:
        blocks = reader.blocks()
        first = next(blocks, np.zeros(0, np.float32))
        rate_hz = Fraction(reader.rate_hz)
        kind = Kind(stream, rate_hz, first.shape[1:], str(first.dtype), kind="audio")
        planned = min(reader.info.n_declared or 0, 20 * item.n_bytes)
        highest = 0.0
        with shards.item(kind, planned) as (append, place):
            for block in chain((first,), blocks):
                highest = max(highest, sounds.peak(block)) if block.dtype == np.float32 else 0.0
                append(block)
        lengths = _compare(findings, reader)
        breaks = reader.breaks
        findings.warnings += sounds.uneven(item.source, reader)
    findings.warnings += sounds.loud(item.source, highest)
    findings.streams[stream] = {
        "shard": place.path,
        "rows": [place.begin, place.end],
        "rate_hz": rate_text(rate_hz),
        "offset_s": round(reader.info.start_s, 9),
        "clock": findings.clock,
        "lengths": lengths | ({"breaks": breaks} if breaks else {}),
    }
    row, time_s = breaks[-1] if breaks else (0, reader.info.start_s)
    findings.lasts(time_s + float((place.end - place.begin - row) / rate_hz))


def _compare(findings: Findings, reader: AudioReader) -> dict[str, Any]:
    """Give both lengths where they differ; warn where samples are missing that are claimed."""
    declared, decoded = reader.info.n_declared, reader.n_decoded
    findings.warnings += sounds.lost(findings.item.source, reader)
    if declared is None or declared == decoded:
        return {}
    findings.lengths = (decoded, declared)
    return {"n_decoded": decoded, "n_declared": declared}


def _video(findings: Findings, stream: str, scan: VideoTrack) -> None:
    known, found = films.track(scan), films.stream(stream, scan)
    name = files.portable(f"tables/{stream}/{findings.item.id}.parquet")
    table = films.with_stamps(found, scan)
    tables.write_stream(findings.target(name), table, item_id=findings.item.id)
    findings.written(name)
    findings.streams[stream] = {
        "table": name,
        "rows": [0, found.n_samples],
        "rate_hz": rate_text(scan.nominal_rate_hz) if scan.nominal_rate_hz else None,
        "clock": findings.clock,
        "kind": "video",
        "track": known,
    }
    findings.lasts(scan.start_s + scan.duration_s)
    if films.is_cut(known):
        findings.warnings.append(f"{findings.item.source}: {films.counted(known)}")
