"""A reader of MDS, written from the description of the format."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np


def read(folder: Path) -> Iterator[dict[str, Any]]:
    """Read the samples of all shards that index.json lists."""
    index = json.loads((folder / "index.json").read_bytes())
    assert index["version"] == 2
    for entry in index["shards"]:
        data = (folder / entry["raw_data"]["basename"]).read_bytes()
        assert len(data) == entry["raw_data"]["bytes"]
        n_samples = int.from_bytes(data[:4], "little")
        assert n_samples == entry["samples"]
        offsets = np.frombuffer(data, "<u4", n_samples + 1, 4)
        config = json.loads(data[8 + 4 * n_samples : offsets[0]])
        assert config.items() <= entry.items()
        for begin, end in pairwise(offsets):
            yield _sample(data[begin:end], config)


def _sample(data: bytes, config: dict[str, Any]) -> dict[str, Any]:
    sizes = config["column_sizes"]
    n_open = sizes.count(None)
    given = iter(np.frombuffer(data, "<u4", n_open).tolist())
    at, found = 4 * n_open, {}
    for name, encoding, size in zip(
        config["column_names"], config["column_encodings"], sizes, strict=True
    ):
        n_bytes = next(given) if size is None else size
        found[name] = _decoded(encoding, data[at : at + n_bytes])
        at += n_bytes
    assert at == len(data)
    return found


def _decoded(encoding: str, data: bytes) -> Any:
    kind, *about = encoding.split(":")
    if kind != "ndarray":
        return {"str": bytes.decode, "json": json.loads, "bytes": bytes}[kind](data)
    dtype, shape = about[0], [int(n) for n in about[1].split(",")] if len(about) > 1 else None
    if shape is None:
        n_axes, width = data[0] >> 2, 1 << (data[0] & 3)
        shape = np.frombuffer(data, f"<u{width}", n_axes, 1).tolist()
        data = data[1 + n_axes * width :]
    assert len(data) == prod(shape) * np.dtype(dtype).itemsize
    return np.frombuffer(data, dtype).reshape(shape)


def arrays(sample: dict[str, Any]) -> dict[str, Any]:
    """Give the arrays of a sample, masks as bool."""
    values = {name: value for name, value in sample.items() if isinstance(value, np.ndarray)}
    return {
        name: value.astype(bool) if name.endswith(".valid") else value
        for name, value in values.items()
    }
