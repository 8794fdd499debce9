"""NeMo JSON Lines manifests, for its classic reader and the one based on Lhotse.

Rules
-----
- `audio_filepath`, `duration` and `text` are always there: the second reader needs `text`, so it
  is "" where a record has none (affect data).
- `offset` is written where the record does not begin with the file; `sampling_rate` where it is
  known, because the readers open every file without it.
- A tar holds its sound files flat. Their names hold no `-`: the readers take what follows `-sub`
  for the number of a part.
- Labels follow under their own names; NeMo carries unknown keys along (`cut.custom`). One that has
  the name of a key of NeMo's is written as `label_<name>`. `id` and `session` follow too.

References
----------
NVIDIA NeMo, nemo/collections/common/parts/preprocessing/manifest.py and
common/data/lhotse/nemo_adapters.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from mmprep.errors import DataError
from mmprep.exporters.base import Line, escape
from mmprep.manifest.model import Record

MEMBER = re.compile(r"[A-Za-z0-9_]")
MAX_PATH = 255  # characters; the readers take a longer one for something else

RESERVED = frozenset(
    [
        "audio_filepath",
        "audio_filename",
        "video_filepath",
        "video_filename",
        "context",
        "duration",
        "offset",
        "text",
        "text_filepath",
        "normalized_text",
        "lang",
        "speaker",
        "sampling_rate",
        "orig_sample_rate",
        "rttm_filepath",
        "feature_filepath",
        "shard_id",
        "id",
        "session",
        "label",
        "split",
    ]
)


def line(
    record: Record,
    audio_filepath: str,
    *,
    offset_s: float = 0.0,
    sampling_rate: int | None = None,
    shard_id: int | None = None,
) -> Line:
    """Describe a record as NeMo does.

    Parameters
    ----------
    audio_filepath : str
        As it shall stand in the manifest: relative to the manifest's folder, or absolute.
    offset_s : float [s]
        Where the record begins in that file.
    sampling_rate : int, optional [Hz]
        Of that file.
    shard_id : int, optional
        The number of the tar that holds it.

    Returns
    -------
    dict
        One line of the manifest, keys in a fixed order.

    Raises
    ------
    DataError
        The path is longer than the readers take.
    """
    if len(audio_filepath) > MAX_PATH:
        raise DataError(
            f"the path has {len(audio_filepath)} characters, NeMo reads {MAX_PATH}",
            where=f"record {record.id!r}",
            hint="export with --path-mode relative, or nearer to the audio",
        )
    found: Line = {
        "audio_filepath": audio_filepath,
        "duration": record.duration_s,
        "text": record.text or "",
    }
    optional = {
        "offset": offset_s or None,
        "lang": record.extra.get("lang"),
        "speaker": record.subject,
        "sampling_rate": sampling_rate,
        "shard_id": shard_id,
        "label": record.label,
    }
    found |= {name: value for name, value in optional.items() if value is not None}
    found |= {"id": record.id, "session": record.session}
    others = {k: v for k, v in record.labels.items() if k != "label" or v != record.label}
    return found | {_label_key(name): value for name, value in others.items()}


def member_name(record: Record, suffix: str) -> str:
    """Name the sound of a record in a tar."""
    return f"{escape(record.id, MEMBER)}.{suffix}"


def encode(lines: Iterable[Line]) -> Iterator[bytes]:
    """Write lines as JSON, UTF-8 unescaped, each with its newline."""
    return (msgspec.json.encode(found) + b"\n" for found in lines)


def _label_key(name: str) -> str:
    return f"label_{name}" if name in RESERVED else name
