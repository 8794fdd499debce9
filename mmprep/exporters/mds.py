"""MosaicML MDS: shards of samples whose columns have fixed encodings, and an index of them.

Rules
-----
- Columns: `id` (str), `record` (json: its fields), each stream as an ndarray of its type, masks as
  uint8, for MDS has no bool. A stream that every record has as one window has its shape in the
  encoding; any other brings it along, and has no rows where a record lacks it.
- Shard: u32 n, u32 offsets[n + 1] from the begin of the file, the configuration as JSON, samples.
  Sample: u32 sizes of the columns without a fixed size, then all columns, in the order of names.
- Offsets are u32: a shard stays below 4 GiB.

References
----------
mosaicml-streaming 0.13, streaming/base/format/mds/{writer,encodings}.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmprep.errors import UsageError
from mmprep.exporters.base import Sample, Stream, check_names, filled

SIZE_LIMIT = 1 << 26
MAX_BYTES = 2**32
_SHAPE_TYPES = ("uint8", "uint16", "uint32", "uint64")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of all shards.

    Parameters
    ----------
    encoding : str
        As MDS names it.
    size : int, optional [bytes]
        That of a value, where all have the same.
    value : callable
        From a sample to the bytes.
    """

    name: str
    encoding: str
    size: int | None
    value: Callable[[Sample], bytes]


def columns_of(
    streams: Sequence[Stream],
    everywhere: Collection[str],
    sound: tuple[str, Callable[[Sample], bytes]] | None = None,
) -> tuple[Column, ...]:
    """Give the columns, in the order of their names.

    Parameters
    ----------
    everywhere : collection of str
        The streams that every record has.
    sound : (str, callable), optional
        Suffix and content of sound files, in place of the values of the stream `audio`.

    Raises
    ------
    UsageError
        A stream has the name of another column.
    """
    found = [
        Column("id", "str", None, lambda sample: sample.id.encode()),
        Column("record", "json", None, lambda sample: json.dumps(sample.fields).encode()),
    ]
    if sound is not None:
        found.append(Column(sound[0], "bytes", None, sound[1]))
    for stream in streams:
        is_fixed = stream.is_window and stream.name in everywhere
        if sound is None or stream.name != "audio":
            found.append(_values(stream, is_fixed=is_fixed))
        if stream.is_masked:
            found.append(_mask(stream, is_fixed=is_fixed))
    check_names(column.name for column in found)
    return tuple(sorted(found, key=lambda column: column.name))


def _values(stream: Stream, *, is_fixed: bool) -> Column:
    dtype = "uint8" if stream.dtype == "bool" else stream.dtype
    shape = stream.row_shape if is_fixed else None
    return _column(
        stream.name, dtype, shape, lambda sample: filled(stream, sample.arrays[stream.name])
    )


def _mask(stream: Stream, *, is_fixed: bool) -> Column:
    shape = stream.row_shape[:1] if is_fixed and stream.row_shape is not None else None
    return _column(stream.mask_name, "uint8", shape, lambda sample: _mask_of(stream, sample))


def _mask_of(stream: Stream, sample: Sample) -> NDArray[Any]:
    mask = sample.arrays[stream.mask_name]
    return np.zeros(0, bool) if mask is None else mask


def _column(
    name: str,
    dtype: str,
    shape: tuple[int, ...] | None,
    array: Callable[[Sample], NDArray[Any]],
) -> Column:
    if not shape or not all(shape):
        return Column(name, f"ndarray:{dtype}", None, lambda sample: _encode(array(sample), dtype))
    encoding = f"ndarray:{dtype}:{','.join(map(str, shape))}"
    size = prod(shape) * np.dtype(dtype).itemsize
    return Column(name, encoding, size, lambda sample: array(sample).astype(dtype).tobytes())


def _encode(array: NDArray[Any], dtype: str) -> bytes:
    """Write an array with its shape: its axes and their type in a byte, the shape, the values."""
    kind = next(k for k in range(4) if max(array.shape, default=0) < 1 << (8 << k))
    shape = np.array(array.shape, _SHAPE_TYPES[kind])
    return bytes([array.ndim << 2 | kind]) + shape.tobytes() + array.astype(dtype).tobytes()


def encode(sample: Sample, columns: Sequence[Column]) -> bytes:
    """Write a sample."""
    values = [column.value(sample) for column in columns]
    sizes = [len(v) for v, column in zip(values, columns, strict=True) if column.size is None]
    return b"".join([np.array(sizes, np.uint32).tobytes(), *values])


def head(sizes: Sequence[int], columns: Sequence[Column]) -> bytes:
    """Write what comes before the samples of a shard.

    Parameters
    ----------
    sizes : sequence of int [bytes]
        Of the samples, in order.

    Raises
    ------
    UsageError
        The shard has 4 GiB or more.
    """
    config = json.dumps(_config(columns), sort_keys=True).encode()
    begin = 4 + 4 * (len(sizes) + 1) + len(config)
    offsets = begin + np.cumsum([0, *sizes], dtype=np.int64)
    if offsets[-1] >= MAX_BYTES:
        raise UsageError(
            f"a shard of MDS has {offsets[-1]} bytes, it must stay below {MAX_BYTES}",
            hint="export with more --shards, or without: shards are cut at 64 MiB then",
        )
    return b"".join([np.uint32(len(sizes)).tobytes(), offsets.astype(np.uint32).tobytes(), config])


def _config(columns: Sequence[Column]) -> dict[str, Any]:
    return {
        "version": 2,
        "format": "mds",
        "compression": None,
        "hashes": [],
        "size_limit": SIZE_LIMIT,
        "column_names": [column.name for column in columns],
        "column_encodings": [column.encoding for column in columns],
        "column_sizes": [column.size for column in columns],
    }


def shard_entry(
    name: str, n_bytes: int, n_samples: int, columns: Sequence[Column]
) -> dict[str, Any]:
    """Describe a shard as the index does."""
    raw = {"basename": name, "bytes": n_bytes, "hashes": {}}
    return {"samples": n_samples, "raw_data": raw, "zip_data": None, **_config(columns)}


def index(entries: Sequence[Mapping[str, Any]]) -> bytes:
    """Write index.json."""
    return json.dumps({"version": 2, "shards": entries}, sort_keys=True).encode()
