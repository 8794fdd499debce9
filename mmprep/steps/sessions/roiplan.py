"""The tracks of each session that `align` plans: where `--roi` leads.

Rules
-----
- A pattern is looked for beside the video of each session: see `patterns`. What exists as it is
  named is that file, of a single session.
- A session without its track has no region at all: its frames are masked, and it is counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from mmprep import files
from mmprep.errors import UsageError
from mmprep.manifest.model import Record
from mmprep.sources.companions import stem_of
from mmprep.steps.base import Item
from mmprep.steps.inputs import size_of
from mmprep.steps.intake import patterns
from mmprep.steps.running.names import Names
from mmprep.steps.sessions import roioption
from mmprep.steps.sessions.config import Config
from mmprep.steps.sessions.plan import Plan
from mmprep.steps.sessions.roioption import CENTER, OPTION


def with_tracks(plan: Plan, config: Config, names: Names) -> Plan:
    """Give each session the tracks of its videos, called by their new names.

    Raises
    ------
    UsageError
        No session has one, or one file is named for several sessions.
    """
    for name, (pattern, _) in roioption.patterns(config.roi).items():
        if not pattern.startswith(CENTER):
            plan = _with_track(plan, name, pattern, names)
    return plan


def _with_track(plan: Plan, name: str, pattern: str, names: Names) -> Plan:
    having = [item for item in plan.items if _stream(item, name) is not None]
    if not having:
        return plan  # who checks the names says so
    if len(having) == 1 and files.is_file(pattern):
        found = {having[0].id: str(Path(pattern).absolute())}
    else:
        found = {item.id: path for item in having if (path := _find(plan, item, name, pattern))}
    if len(found) > 1 and len(set(found.values())) == 1:
        raise UsageError(
            f"one track for {len(found)} sessions",
            where=pattern,
            hint="a pattern names that of each: --roi NAME='{stem}.csv'",
        )
    if not found:
        raise UsageError(
            f"there is no track {pattern!r}",
            where=OPTION,
            hint="a pattern names a file beside the video, with a slash below the root: {stem}.csv",
        )
    items = tuple(
        _put(item, name, found[item.id], names) if item.id in found else item for item in plan.items
    )
    without = [item.id for item in having if item.id not in found]
    if not without:
        return replace(plan, items=items)
    said = f"{name}: {len(without)} sessions have no track and are masked: {', '.join(without[:5])}"
    said += ", ..." if len(without) > 5 else ""
    return replace(plan, items=items, notes=(*plan.notes, said))


def _stream(item: Item, name: str) -> dict[str, Any] | None:
    return next((one for one in item.spec["streams"] if one["name"] == name), None)


def _find(plan: Plan, item: Item, name: str, pattern: str) -> str | None:
    spec = _stream(item, name) or {}
    video, root = spec["media"] or spec["path"], plan.media_root or plan.root
    try:
        below = PurePosixPath(files.below(video, root))
    except UsageError:  # it lies elsewhere
        root, below = Path(video).parent, PurePosixPath(Path(video).name)
    fields = _fields(plan.templates[item.id], str(spec["record"] or item.id), below)
    folder = "" if below.parent == PurePosixPath() else below.parent.as_posix()
    found = patterns.find(root, folder, [pattern], fields)
    return None if found is None else str(root / found)


def _fields(template: Record, record: str, video: PurePosixPath) -> Mapping[str, str]:
    """Give what may stand in braces: the fields of the record, its id, and the stem of the file."""
    known = {name: str(value) for name, value in template.extra.items()}
    known |= {"subject": template.subject or "", "session": template.session, "id": record}
    return known | {"stem": stem_of(video.name)}


def _put(item: Item, name: str, path: str, names: Names) -> Item:
    roi = [path, names.text(Path(path).name)]
    described = [
        {**one, "roi": roi} if one["name"] == name else one for one in item.spec["streams"]
    ]
    inputs = item.inputs if path in item.inputs else (*item.inputs, path)
    n_bytes = item.n_bytes + size_of(path)
    spec = {**item.spec, "streams": described}
    return replace(item, spec=spec, inputs=inputs, n_bytes=n_bytes)
