"""WebDataset: samples as consecutive members of a tar, `<key>.<field>`.

Rules
-----
- Readers end the key at the first dot of a name, so it is the escaped id; the id itself stands in
  the member `json`, with all other fields of the record.
- Every sample has the same members in the same order; one that lacks a stream has it without rows.
- Readers make the names of fields lower case, so no two streams may differ by case alone.

References
----------
webdataset, src/webdataset/tariterators.py (`base_plus_ext`, `group_by_keys`).
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from mmprep.errors import UsageError
from mmprep.exporters.base import Sample, Stream, escape, filled, tar_member

_FIELD = re.compile(r"[^/]")


def check(streams: Sequence[Stream]) -> None:
    """Refuse streams whose fields a reader takes for one.

    Raises
    ------
    UsageError
        Two names differ by case alone.
    """
    seen: dict[str, str] = {}
    for stream in streams:
        other = seen.setdefault(stream.name.lower(), stream.name)
        if other != stream.name:
            raise UsageError(
                f"streams {other!r} and {stream.name!r} are one field to WebDataset, which makes"
                " names lower case",
                hint="rename one of them, or export --to parquet",
            )


def sample_bytes(
    sample: Sample, streams: Sequence[Stream], sound: tuple[str, bytes] | None = None
) -> Iterator[bytes]:
    """Write a sample as members of a tar, each with its header and padding.

    Parameters
    ----------
    sound : (str, bytes), optional
        Suffix and content of a sound file, in place of the values of the stream `audio`.
    """
    key = escape(sample.id)
    for field, data in _fields(sample, streams, sound):
        yield from tar_member(f"{key}.{field}", data)


def _fields(
    sample: Sample, streams: Sequence[Stream], sound: tuple[str, bytes] | None
) -> Iterator[tuple[str, bytes]]:
    yield "json", msgspec.json.encode(sample.fields)
    if sound is not None:
        yield sound
    for stream in streams:
        name, values = escape(stream.name, _FIELD), filled(stream, sample.arrays[stream.name])
        if sound is None or stream.name != "audio":
            yield f"{name}.npy", npy(values)
        if stream.is_masked:
            mask = sample.arrays[stream.mask_name]
            yield f"{name}.valid.npy", npy(np.zeros(0, bool) if mask is None else mask)


def npy(values: NDArray[Any]) -> bytes:
    """Write an array as the bytes of an `.npy` file."""
    file = io.BytesIO()
    np.lib.format.write_array(file, np.ascontiguousarray(values), version=(1, 0))
    return file.getvalue()
