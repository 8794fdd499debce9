"""Lhotse JSON Lines: cuts; or recordings and supervisions.

A cut is one record; a supervision is one where no cuts are given, and a recording where there is
neither. Sound of `command` or `memory` is refused: nothing is run. Labels are what `custom` holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mmprep.errors import DataError
from mmprep.exporters.utterances import Utterance, json_object


def read(lines: Iterable[tuple[str, bytes]]) -> list[Utterance]:
    """Read manifests.

    Parameters
    ----------
    lines : iterable of (str, bytes)
        Each line with its file and number, of all files.

    Raises
    ------
    DataError
        A line is none of Lhotse's, a recording is missing or not a file.
    """
    cuts: list[tuple[str, dict[str, Any]]] = []
    recordings: dict[str, tuple[str, dict[str, Any]]] = {}
    supervisions: list[tuple[str, dict[str, Any]]] = []
    for where, line in lines:
        if not line.strip():
            continue
        value = json_object(line, where)
        if "sources" in value:
            recordings[str(value["id"])] = (where, value)
        elif "recording_id" in value and "num_features" not in value:
            supervisions.append((where, value))
        elif str(value.get("type", "")).endswith("Cut"):
            cuts.append((where, value))
        else:
            raise DataError("is no cut, recording or supervision of Lhotse", where=where)
    if cuts:
        return [_of_cut(where, cut) for where, cut in cuts]
    if supervisions:
        return [_of_supervision(where, one, recordings) for where, one in supervisions]
    return [
        Utterance(name, _path(one, where), 0.0, None, where=where)
        for name, (where, one) in recordings.items()
    ]


def _path(recording: Mapping[str, Any], where: str) -> str:
    sources = recording.get("sources") or []
    if len(sources) != 1 or sources[0].get("type") != "file":
        kinds = ", ".join(str(source.get("type")) for source in sources) or "none"
        raise DataError(
            f"recording {recording.get('id')!r} has the sources {kinds}, expected one file",
            where=where,
        )
    return str(sources[0]["source"])


def _of_cut(where: str, cut: Mapping[str, Any]) -> Utterance:
    if cut.get("type") != "MonoCut" or not cut.get("recording"):
        raise DataError(f"{cut.get('type')} {cut.get('id')!r} has no sound of its own", where=where)
    spoken = cut.get("supervisions") or [{}]
    return _utterance(where, cut, _path(cut["recording"], where), spoken[0])


def _of_supervision(
    where: str, one: Mapping[str, Any], recordings: Mapping[str, tuple[str, dict[str, Any]]]
) -> Utterance:
    found = recordings.get(str(one["recording_id"]))
    if found is None:
        raise DataError(f"recording {one['recording_id']!r} is not there", where=where)
    return _utterance(where, one, _path(found[1], found[0]), one)


def _utterance(
    where: str, stretch: Mapping[str, Any], path: str, spoken: Mapping[str, Any]
) -> Utterance:
    try:
        begin_s, duration_s = float(stretch["start"]), float(stretch["duration"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError("has no start and duration", where=where) from error
    custom = {**(stretch.get("custom") or {}), **(spoken.get("custom") or {})}
    labels = {k: v for k, v in custom.items() if isinstance(v, str | int | float | bool)}
    channel = stretch.get("channel")
    return Utterance(
        str(stretch["id"]),
        path,
        begin_s,
        duration_s,
        spoken.get("text") or None,
        spoken.get("speaker"),
        channel if isinstance(channel, int) and channel > 0 else None,
        labels,
        labels.get("label"),
        {k: spoken[k] for k in ("language", "gender") if spoken.get(k)},
        _words(spoken, begin_s if spoken is stretch else 0.0),
        where,
    )


def _words(spoken: Mapping[str, Any], origin_s: float) -> tuple[tuple[str, float, float], ...]:
    """Give words from the begin of the stretch; those of a supervision count from the recording."""
    listed = (spoken.get("alignment") or {}).get("word") or []
    return tuple(
        (str(word[0]), float(word[1]) - origin_s, float(word[1]) + float(word[2]) - origin_s)
        for word in listed
    )
