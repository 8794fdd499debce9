"""Kaldi data folders: `wav.scp`, `text`, `utt2spk`, `feats.scp` and the like, and binary matrices.

Rules
-----
- An utterance is called `<speaker>-<id>`, both escaped; without a subject it is its own speaker. No
  speaker's name holds a `-`, which is lower than all that it may hold: utterances sorted by name
  are sorted by speaker.
- All lists are sorted by bytes, as with LC_ALL=C; each line has its newline.
- White space and control characters in a text become single spaces: a text has one line.
- `utt2id` gives the record's id of each utterance, as a JSON string; `utt2label` its class, where
  it has one.

References
----------
Kaldi, src/doc/data_prep.dox, egs/wsj/s5/utils/validate_data_dir.sh, src/matrix/kaldi-matrix.cc and
src/util/kaldi-table-inl.h.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from mmprep.errors import DataError
from mmprep.exporters.base import escape
from mmprep.manifest.model import Record, label_name

FEATURES = ("mfcc", "logmel")
SPEAKER = re.compile(r"[A-Za-z0-9_]")

_GAP = re.compile(r"[\x00-\x1f\x7f-\x9f]+")  # unprintable: its checks refuse the text

# What Kaldi takes for a pipe or cuts off, and what its checks refuse.
_UNREADABLE = re.compile(r"^[\s|~]|[\r\n]|[\s|]$")


@dataclass(frozen=True, slots=True)
class Utterance:
    """A record as Kaldi knows it.

    Parameters
    ----------
    sound : str, optional
        The path of its sound.
    matrix : str, optional
        Where its features are, `path:offset`.
    n_rows : int
        Of the features.
    """

    record: Record
    duration_s: float
    sound: str | None = None
    matrix: str | None = None
    n_rows: int = 0

    @property
    def name(self) -> str:
        """Its id in the lists."""
        return name_of(self.record)

    @property
    def text(self) -> str:
        """What is said, on one line."""
        return _one_line(self.record.text or "")


def speaker_of(record: Record) -> str:
    """Name the speaker of a record."""
    return escape(record.subject or record.id, SPEAKER)


def name_of(record: Record) -> str:
    """Name the utterance of a record."""
    speaker = speaker_of(record)
    return f"{speaker}-{escape(record.id)}" if record.subject else speaker


def lists(utterances: Iterable[Utterance]) -> dict[str, bytes]:
    """Write the lists of a data folder, by their names; one that nothing stands in is left out.

    Raises
    ------
    DataError
        Kaldi would not open a path as the file that it is.
    """
    found = sorted(utterances, key=lambda one: one.name)
    has_text = any(one.text for one in found)
    columns: dict[str, Mapping[str, str | None]] = {
        "wav.scp": {one.name: _path(one) for one in found},
        "text": {one.name: one.text for one in found if has_text},
        "utt2spk": {one.name: speaker_of(one.record) for one in found},
        "spk2utt": _by_speaker(found),
        "utt2dur": {one.name: f"{one.duration_s:.9g}" for one in found},
        "feats.scp": {one.name: one.matrix for one in found},
        "utt2num_frames": {one.name: str(one.n_rows) if one.matrix else None for one in found},
        "utt2label": {one.name: _label(one.record) for one in found},
        "utt2id": {one.name: msgspec.json.encode(one.record.id).decode() for one in found},
    }
    texts = {file: _lines(column) for file, column in columns.items()}
    return {file: data for file, data in texts.items() if data}


def _label(record: Record) -> str | None:
    return None if record.label is None else _one_line(label_name(record.label))


def _one_line(text: str) -> str:
    return " ".join(_GAP.sub(" ", text).split())


def _path(one: Utterance) -> str | None:
    if one.sound is not None and _UNREADABLE.search(one.sound):
        raise DataError(
            f"Kaldi does not read the path {one.sound!r}",
            where=f"record {one.record.id!r}",
            hint="--audio wav writes the sound of the shards",
        )
    return one.sound


def _by_speaker(utterances: Iterable[Utterance]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for one in utterances:
        found.setdefault(speaker_of(one.record), []).append(one.name)
    return {speaker: " ".join(found[speaker]) for speaker in sorted(found)}


def _lines(column: Mapping[str, str | None]) -> bytes:
    rows = (f"{name} {value}".rstrip(" ") for name, value in column.items() if value is not None)
    return "".join(f"{row}\n" for row in rows).encode("utf-8", "surrogatepass")


def key(name: str) -> bytes:
    """Give what stands before a matrix in an ark; the offset of the matrix is right behind it."""
    return f"{name} ".encode()


def matrix(values: NDArray[Any]) -> bytes:
    """Write a binary matrix of floats.

    Parameters
    ----------
    values : [shape=(n_rows, n_columns), float32]
        NaN becomes 0: Kaldi has no masks, and refuses what is no number.
    """
    n_rows, n_columns = values.shape
    head = b"\0BFM " + struct.pack("<BiBi", 4, n_rows, 4, n_columns)
    return head + np.ascontiguousarray(np.nan_to_num(values), "<f4").tobytes()
