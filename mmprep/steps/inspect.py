"""`inspect`: what is in a file or data set, declared and measured.

Rules
-----
- What a header declares and what was measured stand side by side; what is not known is null.
- `--value KEY` looks a key up in the facts, then in the first stream (or the one that `#` names).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from mmprep import align, files, media, tables
from mmprep.errors import DataError, UsageError
from mmprep.media import AUDIO_SUFFIXES, VIDEO_SUFFIXES
from mmprep.shards import open_shard
from mmprep.signals import Stream
from mmprep.sources import clocklog, e4, mnefiles, sniff, text
from mmprep.sources.base import Claim, TextOptions
from mmprep.sources.companions import is_companion
from mmprep.steps import datasets
from mmprep.steps.intake import films
from mmprep.steps.intake.claims import TABLE_READERS, reader_of
from mmprep.steps.sounds import suffix_of
from mmprep.timebase import NS_PER_S, rate, rate_number

Facts = dict[str, Any]

DECODED = frozenset({"n_decoded", "n_frozen"})
"""What is known of a video only once it is decoded."""

MAX_THREADS = 8


def inspect(argument: str, options: TextOptions | None = None, *, decodes: bool = True) -> Facts:
    """Say what is in a file or data set.

    Parameters
    ----------
    argument : str
        A path, or `PATH#STREAM`.
    decodes : bool
        Decode videos, which takes long, to see which frames come out.

    Raises
    ------
    UsageError
        It does not exist, or has no such stream.
    DataError
        It can't be read, or no reader knows it.
    """
    name, _, wanted = (argument, "", "") if files.exists(argument) else argument.partition("#")
    path = datasets.folder_of(name)
    if not files.exists(path):
        raise UsageError(
            "does not exist", where=name, hint="check the path, or the folder you are in"
        )
    reader = _reader(path)
    if reader is _video:
        return {"path": name, **_media(path, wanted, decodes=decodes)}
    facts = {"path": name, **reader(path, options or TextOptions())}
    if wanted:
        known = ", ".join(s["name"] for s in facts["streams"])
        facts["streams"] = [s for s in facts["streams"] if s["name"] == wanted]
        if not facts["streams"]:
            raise UsageError(f"there is no stream {wanted!r}", where=name, hint=f"streams: {known}")
    return facts


def one_value(argument: str, options: TextOptions, key: str) -> Any:
    """Look up one value of a file or data set; see `inspect` and `value`."""
    return value(inspect(argument, options, decodes=key in DECODED), key)


def text_options(time: str | None, time_unit: str | None, rate_hz: str | None) -> TextOptions:
    """Give the options by which a table is read."""
    return TextOptions(
        time=time,
        time_unit=time_unit,
        rate_hz=rate(rate_hz) if rate_hz is not None else None,
        on_bad_row="skip",
    )


def value(facts: Facts, key: str) -> Any:
    """Look up one value.

    Raises
    ------
    UsageError
        There is no such key.
    DataError
        Its value is not known.
    """
    first = facts["streams"][0] if facts.get("streams") else {}
    for place in (facts, first):
        if key in place:
            if place[key] is None:
                raise DataError(f"{key} is not known", where=facts["path"])
            return place[key]
    keys = sorted({*facts, *first} - {"streams"})
    raise UsageError(f"there is no key {key!r}", where="--value", hint=f"keys: {', '.join(keys)}")


def _reader(path: Path) -> Callable[[Path, TextOptions], Facts]:
    if files.is_folder(path):
        return _dataset if (path / "dataset.json").is_file() else _folder
    suffix = suffix_of(path.name)
    for suffixes, reader in _BY_SUFFIX:
        if suffix in suffixes:
            return reader
    return _clock_log if is_companion(path.name) else _raw


# Files --------------------------------------------------------------------------------------------


def _audio(path: Path, options: TextOptions) -> Facts:
    return {"kind": "audio", "streams": [_audio_stream(path)]}


def _audio_stream(path: Path, number: int = 0) -> Facts:
    with media.AudioReader(path, track=number) as reader:
        n_samples = sum(len(block) for block in reader.blocks())
        info = reader.info
        declared = info.n_declared
        return {
            "name": "audio",
            "kind": "audio",
            "codec": info.codec,
            "decoder": reader.info.decoder,
            "rate_hz": info.rate_hz,
            "n_channels": info.n_channels,
            "start_s": info.start_s,
            "n_samples": n_samples,
            "n_declared": declared,
            "duration_s": n_samples / info.rate_hz,
            "declared_s": None if declared is None else declared / info.rate_hz,
            "n_errors": reader.n_errors,
            "n_breaks": len(reader.breaks),
            "stamp_error_s": reader.stamp_error_s,
        }


def _video(path: Path, options: TextOptions) -> Facts:
    return _media(path, "", decodes=True)


def _media(path: Path, wanted: str, *, decodes: bool) -> Facts:
    """Describe the sound and video tracks of a file, or one of them."""
    found = [track for track in media.tracks(path) if track.kind in media.PLAYABLE]
    if not found:
        raise DataError("no sound and no video track", where=str(path), hint="name another file")
    chosen = [media.find_track(path, wanted)] if wanted else found
    kind = "video" if any(track.kind == "video" for track in found) else "audio"
    streams = [_track(path, track, decodes=decodes, alone=len(found) == 1) for track in chosen]
    return {"kind": kind, "streams": streams}


def _track(path: Path, track: media.Track, *, decodes: bool, alone: bool) -> Facts:
    """Describe a track; one that can't be read doesn't hide the others."""
    try:
        if track.kind == "video":
            facts = _video_stream(path, track.number, decodes=decodes)
        else:
            facts = _audio_stream(path, track.number)
    except DataError as error:
        if alone:
            raise
        about = {"kind": track.kind, "codec": track.codec, "problem": error.what}
        return {"name": track.name, **about, "track": track.index}
    return {**facts, "name": track.name, "track": track.index}


def _video_stream(path: Path, number: int, *, decodes: bool) -> Facts:
    scan = media.scan_video(path, track=number)
    facts = {
        **_measured(films.stream("video", scan)),
        **films.track(scan),
        "n_decoded": None,
        "n_frozen": None,
        "start_s": scan.start_s,
        "duration_s": scan.duration_s,
    }
    if decodes:
        facts |= _decoded(path, scan)
    return facts


def _decoded(path: Path, scan: media.VideoTrack) -> Facts:
    watch = media.Watch()
    ranks = media.decodable_ranks(
        path, track=scan.track, scan=scan, threads=_threads(), watch=watch
    )
    still = watch.stretches(scan.times_ns, scan.is_key)
    return {"n_decoded": int(ranks.size), "n_frozen": films.frames_in(still)}


def _threads() -> int:
    allowed = getattr(os, "sched_getaffinity", None)
    return min(len(allowed(0)) if allowed is not None else os.cpu_count() or 1, MAX_THREADS)


def _clock_log(path: Path, options: TextOptions) -> Facts:
    found = clocklog.read(path)
    columns = {name: getattr(found, name) for name in found.__slots__}
    times_ns = list(columns.values())[-1]  # the first column of a frame log counts frames
    return {
        "kind": "clock log",
        "evidence": type(found).__name__.lower(),
        "n_fixes": int(times_ns.size),
        "columns": list(columns),
        "duration_s": float(np.ptp(times_ns) / NS_PER_S) if times_ns.size else 0.0,
        "streams": [],
    }


def _raw(path: Path, options: TextOptions) -> Facts:
    """Let the reader look that knows the file, else that of any text."""
    name = reader_of(path)
    if name == text.READER:
        return _text(path, options)
    return _claimed(path, name, TABLE_READERS[name].claim("", [path.name], path.parent)[0], options)


def _claimed(path: Path, name: str, claim: Claim, options: TextOptions) -> Facts:
    reader = TABLE_READERS[name]
    device_of = getattr(reader, "device_of", None)
    streams = []
    for stream in reader.probe(claim, path.parent, options):
        device = device_of(claim, path.parent, stream) if device_of is not None else None
        found = reader.read_stream(path, options, stream, stream=stream)
        streams.append(_measured(found, device))
    return {"kind": "table", "reader": name, "streams": streams}


def _text(path: Path, options: TextOptions) -> Facts:
    table = sniff.sniff(path, str(path), options).table.with_units(dict(options.units))
    schema = table.schema("skip")
    stream = text.read_stream(path, options, path.name.partition(".")[0])
    return {
        "kind": "table",
        "reader": "text",
        "encoding": table.layout.encoding,
        "delimiter": table.layout.delimiter,
        "time_column": table.time.source_name or None,
        "time_unit": table.time.unit,
        "schema": [{"name": c.name, "type": c.kind, "unit": c.unit} for c in schema.columns],
        "streams": [_measured(stream)],
    }


def _e4_stream(path: Path, options: TextOptions) -> Stream:
    return e4.read_stream(path, options, path.stem)


def _folder(path: Path, options: TextOptions) -> Facts:
    names = files.names_in(path)
    claims = e4.claim("", names, path)
    if not claims and (own := mnefiles.claim(path.name, names, path.parent)):
        return _claimed(path, mnefiles.READER, own[0], options)
    if not claims:
        raise DataError(
            "no data set and no E4 session", where=str(path), hint="inspect its files one by one"
        )
    streams = [
        _measured(_e4_stream(path / name, options), e4.device_of(claims[0], path, name))
        for name in claims[0].files
    ]
    return {"kind": "e4 session", "streams": streams}


def _table(path: Path, options: TextOptions) -> Facts:
    info = tables.table_info(path)
    facts = _measured(tables.read_stream(path, path.stem), info.device)
    return {"kind": "table", "reader": "mmprep", "streams": [{**facts, "tz": info.tz}]}


def _shard(path: Path, options: TextOptions) -> Facts:
    data = open_shard(path)
    shape = list(data.shape)
    return {"kind": "shard", "dtype": str(data.dtype), "shape": shape, "streams": []}


def _measured(stream: Stream, device: str | None = None) -> Facts:
    """Measure a stream as `align` would see it, before any clock."""
    repaired = align.repair(stream, stream.stamps_ns)
    begin_ns, end_ns = repaired.coverage_ns if repaired.n_samples else (0, 0)
    nominal = stream.nominal_rate_hz
    effective = repaired.effective_rate_hz
    return {
        "name": stream.name,
        "kind": stream.kind,
        "device": device,
        "channels": list(stream.channels),
        "units": list(stream.units),
        "n_channels": len(stream.channels),
        "n_samples": stream.n_samples,
        "rate_hz": _number(nominal, effective),
        "nominal_rate_hz": None if nominal is None else rate_number(nominal),
        "effective_rate_hz": effective if np.isfinite(effective) else None,
        "start": _utc(begin_ns) if stream.absolute and stream.n_samples else None,
        "duration_s": (end_ns - begin_ns) / NS_PER_S,
        "n_gaps": repaired.n_gaps,
        "n_duplicate": repaired.n_duplicate,
        "n_corrupt": repaired.n_corrupt,
        "n_rejected": stream.n_rejected,
    }


def _number(nominal: Fraction | None, effective: float) -> float | None:
    if nominal is not None:
        return rate_number(nominal)
    return effective if np.isfinite(effective) else None


def _utc(stamp_ns: int) -> str:
    """Write Unix nanoseconds as ISO 8601, all nine digits."""
    seconds, rest = divmod(stamp_ns, NS_PER_S)
    moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{moment}.{rest:09d}Z"


_BY_SUFFIX: tuple[tuple[frozenset[str], Callable[[Path, TextOptions], Facts]], ...] = (
    (VIDEO_SUFFIXES, _video),
    (AUDIO_SUFFIXES, _audio),
    (frozenset({".parquet"}), _table),
    (frozenset({".npy"}), _shard),
)


# Data sets ----------------------------------------------------------------------------------------


def _dataset(path: Path, options: TextOptions) -> Facts:
    data = datasets.load(path)
    head = data.dataset
    return {
        "kind": "dataset",
        "step": head.step,
        "records": head.totals.records,
        "hours": round(head.totals.seconds / 3600, 6),
        "bytes": head.totals.bytes,
        "failures": head.totals.failures,
        "sessions": len(head.sessions),
        "splits": head.splits,
        "labels": {
            name: {"count": label.count, "weight": label.weight}
            for name, label in head.labels.items()
        },
        "streams": [
            {
                "name": name,
                "kind": part.kind,
                "dtype": part.dtype,
                "row_shape": part.row_shape,
                "rate_hz": None if part.rate_hz is None else float(Fraction(part.rate_hz)),
                "rows": sum(shard.rows for shard in part.shards),
                "shards": len(part.shards),
                "bytes": sum(shard.bytes for shard in part.shards),
            }
            for name, part in head.modalities.items()
        ],
        "tables": sorted(_table_streams(data)),
        "open": f"mmprep.open_dataset({str(path)!r})",
    }


def _table_streams(data: datasets.InputDataset) -> set[str]:
    refs = (ref for record in data.records for ref in record.streams.values())
    return {ref.table.split("/")[1] for ref in refs if ref.table}
