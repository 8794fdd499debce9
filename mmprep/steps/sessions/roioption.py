"""`--roi NAME=PATTERN[,kind=K][,points=P][,pad=SHARE][,smooth=N]`, `--roi NAME=center:WxH`."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from mmprep.errors import UsageError
from mmprep.sources.boxtracks import KINDS, NAMED_POINTS, Choice
from mmprep.steps.namevalue import pair, parted
from mmprep.steps.sizes import parse_pixels

OPTION = "--roi"
CENTER = "center:"
MAX_PAD = 10.0
_SETTINGS = ("kind", "points", "pad", "smooth")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


@dataclass(frozen=True, slots=True)
class Roi:
    """What is cut out of the frames of a video.

    Parameters
    ----------
    center : (width, height), optional
        A rectangle in the middle, in place of a track.
    kind, points
        What of the track is taken: see `Choice`.
    pad : float
        Share of the box that is added on each side.
    smooth : int
        Frames of the running mean.
    """

    center: tuple[int, int] | None = None
    kind: str | None = None
    points: tuple[int, ...] | str | None = None
    pad: float = 0.0
    smooth: int = 1

    @property
    def choice(self) -> Choice:
        """What of a track is taken."""
        return Choice(self.kind, self.points)

    @classmethod
    def of(cls, value: Any) -> Roi:
        """Read what went through JSON."""
        return msgspec.convert(value, cls)


def wish(given: Sequence[str], *, frames: str | None) -> dict[str, Any]:
    """Give what changes the windows, as JSON values; nothing without `--roi`.

    Raises
    ------
    UsageError
        A setting that is none, a stream twice, or no `--frames`.
    """
    if given and frames is None:
        raise UsageError("there are no --frames", where=OPTION, hint="--frames 96x96")
    found = patterns(given)
    rois = {name: _parse(parts) for name, parts in sorted(found.items())}
    return {"rois": {name: asdict(roi) for name, roi in rois.items()}} if rois else {}


def patterns(given: Sequence[str]) -> dict[str, tuple[str, dict[str, str]]]:
    """Part what was given: stream -> PATTERN and settings."""
    found: dict[str, tuple[str, dict[str, str]]] = {}
    for text in given:
        name, value = pair(text, OPTION)
        if name in found:
            hint = "name the file as two streams: --stream face=FILE --stream mouth=FILE"
            raise UsageError(f"stream {name!r} has two regions", where=OPTION, hint=hint)
        found[name] = parted(value, OPTION)
    return found


def _parse(given: tuple[str, dict[str, str]]) -> Roi:
    pattern, settings = given
    if unknown := sorted(settings.keys() - set(_SETTINGS)):
        hint = f"settings: {', '.join(_SETTINGS)}"
        raise UsageError(f"{unknown[0]!r} is no setting of a region", where=OPTION, hint=hint)
    if pattern.startswith(CENTER):
        if settings:
            raise UsageError(f"{CENTER} has no {min(settings)!r}", where=OPTION)
        return Roi(center=parse_pixels(pattern.removeprefix(CENTER), OPTION))
    kind = settings.get("kind")
    if kind not in {None, *KINDS}:
        raise UsageError(f"kind {kind!r} is none of {', '.join(KINDS)}", where=OPTION)
    if kind == "box" and "points" in settings:
        raise UsageError("points= choose landmarks, kind=box takes none", where=OPTION)
    return Roi(
        None,
        kind,
        _points(settings["points"]) if "points" in settings else None,
        _pad(settings.get("pad", "0")),
        _smooth(settings.get("smooth", "1")),
    )


def _points(text: str) -> tuple[int, ...] | str:
    """Read `48-67`, `0,4,10-12` or a name."""
    if text in NAMED_POINTS:
        return text
    numbers: list[int] = []
    for part in text.split(","):
        found = _RANGE.fullmatch(part.strip())
        if found is None or int(found[2] or found[1]) < int(found[1]):
            hint = f"points=48-67, points=0,4,10-12 or points={' or '.join(NAMED_POINTS)}"
            raise UsageError(f"{part!r} is no landmark", where=OPTION, hint=hint)
        numbers += range(int(found[1]), int(found[2] or found[1]) + 1)
    if len(set(numbers)) < 2:
        raise UsageError("one landmark makes no box", where=OPTION, hint="choose two or more")
    return tuple(sorted(set(numbers)))


def _pad(text: str) -> float:
    try:
        pad = float(text)
    except ValueError:
        pad = math.nan
    if not 0 <= pad <= MAX_PAD:
        hint = "a share of the box on each side, 0.2 for a fifth"
        raise UsageError(f"pad={text} is not within 0 and {MAX_PAD:g}", where=OPTION, hint=hint)
    return pad


def _smooth(text: str) -> int:
    if not text.isdigit() or int(text) % 2 == 0:
        hint = "how many frames the mean takes, the frame in their middle"
        raise UsageError(f"smooth={text} is no odd number", where=OPTION, hint=hint)
    return int(text)
