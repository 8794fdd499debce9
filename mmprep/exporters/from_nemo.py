"""NeMo JSON Lines: `audio_filepath`, `offset`, `duration`, `text`, `speaker`; all else is a label.

A line without `id` is called by the stem of its sound, with its number where that comes again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath

from mmprep.errors import DataError
from mmprep.exporters.utterances import Utterance, json_object

_OWN = frozenset(
    ["audio_filepath", "offset", "duration", "text", "speaker", "id", "label", "sampling_rate"]
)


def read(lines: Iterable[bytes], where: str) -> list[Utterance]:
    """Read a manifest.

    Raises
    ------
    DataError
        A line is no JSON object, or names no sound or duration; says which.
    """
    found, count = [], Counter[str]()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{where}:{number}"
        value = json_object(line, place)
        path, duration_s = value.get("audio_filepath"), value.get("duration")
        if not isinstance(path, str) or not isinstance(duration_s, int | float):
            hint = "each line has audio_filepath, duration and perhaps offset, text, speaker"
            raise DataError("no audio_filepath, or no duration", where=place, hint=hint)
        stem = PurePosixPath(path).stem
        count[stem] += 1
        own_id = value.get("id") or (stem if count[stem] == 1 else f"{stem}-{count[stem]}")
        labels = {
            name: known
            for name, known in value.items()
            if name not in _OWN and isinstance(known, str | int | float | bool)
        }
        found.append(
            Utterance(
                str(own_id),
                path,
                float(value.get("offset") or 0.0),
                float(duration_s),
                value.get("text") or None,
                value.get("speaker"),
                labels=labels,
                label=value.get("label"),
                where=place,
            )
        )
    return found
