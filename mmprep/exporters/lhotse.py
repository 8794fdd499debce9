"""Lhotse manifests: recordings, supervisions, features and cuts, a line of JSON each.

Rules
-----
- A record is one recording (its sound), one supervision (what is known of it: text, speaker,
  labels, words) and one cut that holds both and its arrays. All have the record's id.
- Arrays are files of numpy (`numpy_files`), and stand in the cut's `custom` as TemporalArray.
- MFCC and log-mel are the cut's `features`, where their hop is a whole number of the sound's
  samples, as Lhotse asks. Lhotse can't cut, pad or check a cut that has neither sound nor features:
  the first matrix of such a one is its features too.
- Features have at most as many rows as Lhotse counts in the record (`n_counted`): one more, whose
  window would have its middle at the very end, is left out.
- Times count from the beginning of the record.
- Sound of several channels makes a MultiCut.

References
----------
Lhotse 1.33: audio/recording.py, supervision.py, features/base.py, array.py, cut/data.py, qa.py.
"""

from __future__ import annotations

import gzip
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import msgspec

from mmprep.exporters.base import Line
from mmprep.manifest.model import Record

FEATURES = ("mfcc", "logmel")


@dataclass(frozen=True, slots=True)
class Sound:
    """A file of sound.

    Parameters
    ----------
    path : str
        As it shall stand in the manifest.
    n_samples : int
        Per channel.
    """

    path: str
    rate_hz: int
    n_samples: int
    n_channels: int = 1

    @property
    def duration_s(self) -> float:
        """Its length."""
        return self.n_samples / self.rate_hz


@dataclass(frozen=True, slots=True)
class Array:
    """A file of one stream of a record, time first.

    Parameters
    ----------
    folder, key : str
        Where the file is: folder/key.
    start_s : float [s]
        The time of row 0 in the cut.
    """

    name: str
    folder: str
    key: str
    shape: tuple[int, ...]
    rate_hz: Fraction
    start_s: float = 0.0

    @property
    def place(self) -> dict[str, str]:
        """The keys of Lhotse that name the file."""
        return {
            "storage_type": "numpy_files",
            "storage_path": self.folder,
            "storage_key": self.key,
        }


@dataclass(frozen=True, slots=True)
class Parts:
    """What a record has: its sound, and its arrays in order."""

    record: Record
    sound: Sound | None
    arrays: tuple[Array, ...]

    @property
    def channel(self) -> int | list[int]:
        """The channel of the cut, or all of them."""
        n_channels = self.sound.n_channels if self.sound else 1
        return 0 if n_channels == 1 else list(range(n_channels))

    @property
    def duration_s(self) -> float:
        """The length of the cut: that of the sound where there is one."""
        return self.sound.duration_s if self.sound else self.record.duration_s


def recording(parts: Parts) -> Line | None:
    """Describe the sound of a record; None where there is none."""
    if (sound := parts.sound) is None:
        return None
    source = {
        "type": "url" if "://" in sound.path else "file",
        "channels": list(range(sound.n_channels)),
        "source": sound.path,
    }
    return {
        "id": parts.record.id,
        "sources": [source],
        "sampling_rate": sound.rate_hz,
        "num_samples": sound.n_samples,
        "duration": sound.duration_s,
    }


def supervision(parts: Parts) -> Line:
    """Describe what is known of a record."""
    record = parts.record
    found: Line = {"id": record.id, "recording_id": record.id, "start": 0.0}
    found |= {"duration": parts.duration_s, "channel": parts.channel}
    optional = {
        "text": record.text,
        "language": record.extra.get("lang"),
        "speaker": record.subject,
    }
    found |= {name: value for name, value in optional.items() if value is not None}
    about = {"session": record.session, "begin_s": record.begin_s, "label": record.label}
    found["custom"] = about | record.labels
    if record.words:
        found["alignment"] = {"word": [list(word) for word in _words(record)]}
    return found


def _words(record: Record) -> Iterable[tuple[str, float, float]]:
    for word, begin_s, end_s in record.words or ():
        yield word, round(begin_s - record.begin_s, 9), round(end_s - begin_s, 9)


def features(parts: Parts) -> Line | None:
    """Describe the features of a record; None where it has none.

    Its `duration` is that of the cut, or of its rows where these are not what Lhotse counts in it.
    """
    found = _features_array(parts)
    if found is None:
        return None
    n_frames, n_features = found.shape
    rows_s = float(n_frames / found.rate_hz)
    return {
        "type": found.name,
        "num_frames": n_frames,
        "num_features": n_features,
        "frame_shift": float(1 / found.rate_hz),
        "sampling_rate": _sampling_rate(parts, found),
        "start": 0.0,  # Lhotse counts frames from the beginning, not from the middle of a window
        "duration": rows_s if _n_rows_off(parts, found) else parts.duration_s,
        **found.place,
        "recording_id": parts.record.id,
        "channels": parts.channel,
    }


def _features_array(parts: Parts) -> Array | None:
    matrices = [array for array in parts.arrays if len(array.shape) == 2]
    named = [array for array in matrices if array.name in FEATURES]
    if parts.sound is None:
        return (*named, *matrices, None)[0]
    rate_hz = parts.sound.rate_hz
    return next((a for a in named if (rate_hz / a.rate_hz).denominator == 1), None)


def _sampling_rate(parts: Parts, array: Array) -> int:
    """Give the rate of which a hop is a whole number of samples."""
    return parts.sound.rate_hz if parts.sound else array.rate_hz.numerator


def n_counted(duration_s: Fraction, rate_hz: Fraction) -> int:
    """Count the rows of a stretch as Lhotse does: floor(duration x rate + 1/2)."""
    return math.floor(duration_s * rate_hz + Fraction(1, 2))


def n_rows_short(parts: Parts) -> int:
    """Count the rows that the features lack of what Lhotse counts in the cut; it forgives one."""
    array = _features_array(parts)
    return max(_n_rows_off(parts, array), 0) if array else 0


def _n_rows_off(parts: Parts, array: Array) -> int:
    rate_hz = _sampling_rate(parts, array)
    duration_s = Fraction(round(parts.duration_s * rate_hz), rate_hz)
    return n_counted(duration_s, array.rate_hz) - array.shape[0]


def cut(parts: Parts) -> Line:
    """Describe a record as a cut."""
    found: Line = {"id": parts.record.id, "start": 0.0, "duration": parts.duration_s}
    found |= {"channel": parts.channel, "supervisions": [supervision(parts)]}
    line = features(parts)
    if line is not None:
        found["features"] = line
    if (line_of_sound := recording(parts)) is not None:
        found["recording"] = line_of_sound
    only = line["type"] if line is not None and line["type"] in FEATURES else None
    custom = {array.name: _temporal(array) for array in parts.arrays if array.name != only}
    if custom:
        found["custom"] = custom
    return {**found, "type": "MonoCut" if parts.channel == 0 else "MultiCut"}


def _temporal(array: Array) -> dict[str, Any]:
    return {
        "array": {**array.place, "shape": list(array.shape)},
        "temporal_dim": 0,
        "frame_shift": float(1 / array.rate_hz),
        "start": array.start_s,
    }


def encode(lines: Iterable[Line]) -> bytes:
    """Pack lines as `.jsonl.gz`, without a time or a name."""
    packed = io.BytesIO()
    with gzip.GzipFile("", "wb", 6, packed, mtime=0) as file:
        for line in lines:
            file.write(msgspec.json.encode(line) + b"\n")
    return packed.getvalue()


def manifests(records: Sequence[Parts]) -> dict[str, bytes]:
    """Write the manifests of some records, by their kind; a kind that none has is left out."""
    kinds = {
        "recordings": (recording(parts) for parts in records),
        "supervisions": (supervision(parts) for parts in records),
        "features": (features(parts) for parts in records),
        "cuts": (cut(parts) for parts in records),
    }
    is_there = {
        **dict.fromkeys(kinds, True),
        "recordings": any(parts.sound for parts in records),
        "features": any(_features_array(parts) for parts in records),
    }
    return {
        kind: encode(line for line in lines if line is not None)
        for kind, lines in kinds.items()
        if is_there[kind]
    }
