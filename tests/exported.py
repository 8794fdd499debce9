"""What an export must hold: the values of a data set's shards, read with numpy alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np


def expected(folder: Path) -> dict[str, dict[str, Any]]:
    """Read all records of a data set: id -> stream or `<stream>.valid` -> values of the shards."""
    lines = (folder / "manifest.jsonl").read_text(encoding="utf-8").splitlines()
    return {line["id"]: _values(folder, line) for line in map(json.loads, lines)}


def _values(folder: Path, line: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, ref in line["streams"].items():
        for key in (name, f"{name}.valid"):
            path = folder / ref.get("shard", "none").replace(f"{name}/", f"{key}/", 1)
            if path.is_file():
                rows = np.load(path)[slice(*ref["rows"])]
                found[key] = rows[0] if "valid" in line else rows
    return found


def check(found: dict[str, dict[str, Any]], folder: Path) -> None:
    """Compare values by id and name with those of the shards: type, shape, every bit."""
    wanted = expected(folder)
    assert found.keys() == wanted.keys()
    for record_id, values in wanted.items():
        assert found[record_id].keys() == values.keys()
        for name, array in values.items():
            assert found[record_id][name].dtype == array.dtype, name
            np.testing.assert_array_equal(found[record_id][name], array)
