"""`--events NAME=FILE[#STREAM][,...]`: where happenings are listed that other clocks saw, too.

| setting          | events are                                                            |
| ---------------- | --------------------------------------------------------------------- |
| (none)           | all rows                                                              |
| `value=REGEX`    | rows with a text in which the expression is found; it comes last      |
| `above=X`        | where the first numeric column rises through X                        |
| `below=X`        | where it falls through X                                              |

`column=C` chooses another column, `time= unit= tz=` say how the times of a text table are read.
`within=S`: the clock is off by at most S seconds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mmprep import files
from mmprep.errors import UsageError
from mmprep.steps.namevalue import located, pair
from mmprep.steps.sessions.streamspec import EventSpec, StreamSpec
from mmprep.timebase import NS_PER_S

OPTION = "--events"
SETTINGS = ("within", "column", "time", "unit", "tz", "above", "below")


@dataclass(frozen=True, slots=True)
class Given:
    """One `--events`, as it was given."""

    name: str
    path: str
    part: str | None
    settings: Mapping[str, str]

    def number(self, setting: str) -> float | None:
        """Read a setting that is a number."""
        if setting not in self.settings:
            return None
        try:
            number = float(self.settings[setting])
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise UsageError(f"{setting}={self.settings[setting]} is no number", where=OPTION)
        return number

    def raw(self) -> StreamSpec:
        """Describe the events of a raw file."""
        if not files.is_file(self.path):
            raise UsageError("does not exist", where=self.path)
        return StreamSpec(
            self.name,
            "raw",
            "events",
            str(Path(self.path).absolute()),
            part=self.part,
            time=self.settings.get("time"),
            unit=self.settings.get("unit"),
            tz=self.settings.get("tz"),
            source=str(Path(self.path).absolute()),
        )

    def spec(self, source: StreamSpec, order: int) -> EventSpec:
        """Describe what of the source is an event."""
        within_s = self.number("within")
        return EventSpec(
            source,
            order,
            self.settings.get("value"),
            self.number("above"),
            self.number("below"),
            self.settings.get("column"),
            None if within_s is None else round(within_s * NS_PER_S),
        )


def parse(text: str) -> Given:
    """Read one `--events`.

    Raises
    ------
    UsageError
        It is none.
    """
    name, value = pair(text, OPTION)
    rest, has_pattern, pattern = value.partition(",value=")
    path, part, given = located(rest, OPTION)
    return Given(name, path, part or None, _checked(given, pattern if has_pattern else None))


def settings_of(text: str) -> dict[str, str]:
    """Read the settings behind the file, as `,above=3,within=2`.

    Raises
    ------
    UsageError
        One is none, or two contradict each other.
    """
    rest, has_pattern, pattern = text.partition(",value=")
    given = dict(pair(setting, OPTION) for setting in rest.split(",") if setting)
    return _checked(given, pattern if has_pattern else None)


def _checked(given: dict[str, str], pattern: str | None) -> dict[str, str]:
    if unknown := sorted(given.keys() - set(SETTINGS)):
        raise UsageError(f"{unknown[0]!r} is no setting of events", where=OPTION)
    if pattern is not None:
        given["value"] = _expression(pattern)
    chosen = [key for key in ("above", "below", "value") if key in given]
    if len(chosen) > 1:
        raise UsageError(f"{chosen[0]}= and {chosen[1]}= together", where=OPTION)
    return given


def _expression(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise UsageError(f"value={pattern} is no expression: {error}", where=OPTION) from error
    return pattern


def with_events(
    specs: Mapping[str, StreamSpec],
    given: Sequence[Given],
    find: Callable[[Given], StreamSpec | None],
) -> dict[str, StreamSpec]:
    """Put `--events` to their streams, as far as these are there.

    Parameters
    ----------
    find : callable
        Gives what holds the events; None if there is nothing.
    """
    found = dict(specs)
    for order, one in enumerate(given):
        source = find(one) if one.name in specs else None
        if source is not None:
            found[one.name] = replace(found[one.name], events=one.spec(source, order))
    return found


def check_names(given: Sequence[Given], known: Iterable[str]) -> None:
    """Refuse events of unknown streams, of one stream twice, or of one stream alone.

    Raises
    ------
    UsageError
        Which.
    """
    names, known = [one.name for one in given], sorted(known)
    if unknown := [name for name in names if name not in known]:
        raise UsageError(
            f"there is no stream {unknown[0]!r}", where=OPTION, hint=f"streams: {', '.join(known)}"
        )
    if doubled := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"events of {doubled[0]!r} are given twice", where=OPTION)
    if len(names) == 1:
        raise UsageError(
            f"events of {names[0]!r} alone: there is nothing to match them with",
            where=OPTION,
            hint="give those of another stream, too",
        )


def raw_paths(specs: Iterable[StreamSpec]) -> list[str]:
    """Name the raw files of events."""
    events = [spec.events for spec in specs if spec.events is not None]
    return [one.source.path for one in events if one.source.form == "raw"]
