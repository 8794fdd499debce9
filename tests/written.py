"""What a data set says of itself, as plain JSON values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def records(folder: Path) -> list[dict[str, Any]]:
    """Give the records of a data set, in the order of its manifest."""
    lines = (folder / "manifest.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def head(folder: Path) -> dict[str, Any]:
    """Give its dataset.json."""
    found: dict[str, Any] = json.loads((folder / "dataset.json").read_text(encoding="utf-8"))
    return found
