"""What importers give: recordings, and the stretches of them that foreign manifests list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mmprep.errors import DataError
from mmprep.manifest.model import LabelValue


@dataclass(frozen=True, slots=True)
class Utterance:
    """A stretch of a recording.

    Parameters
    ----------
    recording : str
        The path of its sound, as the manifest has it.
    begin_s, duration_s : float [s]
        Within the recording; a duration of None goes to its end.
    channel : int, optional
        The channel, where one is named.
    words : tuple of (word, begin_s, end_s)
        From the begin of the stretch.
    where : str
        The file and line.
    """

    id: str
    recording: str
    begin_s: float = 0.0
    duration_s: float | None = None
    text: str | None = None
    subject: str | None = None
    channel: int | None = None
    labels: Mapping[str, LabelValue] = field(default_factory=dict)
    label: LabelValue = None
    fields: Mapping[str, str | int | float] = field(default_factory=dict)
    words: tuple[tuple[str, float, float], ...] = ()
    where: str = ""


def json_object(line: bytes, where: str) -> dict[str, Any]:
    """Read a line of JSON Lines.

    Raises
    ------
    DataError
        It is no object.
    """
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DataError(f"no JSON object: {error}", where=where) from error
