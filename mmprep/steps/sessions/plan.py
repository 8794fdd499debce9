"""What `align` is to do: the sessions, and the records they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mmprep.manifest.model import Record
from mmprep.steps.base import Item


@dataclass(frozen=True, slots=True)
class Plan:
    """The sessions, and the records they come from."""

    root: Path
    items: tuple[Item, ...]
    templates: Mapping[str, Record]
    extra_inputs: tuple[str, ...] = ()
    media_root: Path | None = None
    notes: tuple[str, ...] = ()
