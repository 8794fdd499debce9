"""`--trials FILE[#STREAM]|DATASET#STREAM|STREAM` and the options that go with it.

| trials from          | are                                                        |
| -------------------- | ---------------------------------------------------------- |
| `FILE[#STREAM]`      | rows or markers of a raw file; of EDF its annotations      |
| `DATASET#STREAM`     | those of each session in a data set                        |
| `STREAM`             | those of a stream that is aligned, also its texts          |

Times of a file that count from zero, where its recording is in Unix time, count from the first
sample of the recording; `,of=STREAM` says which it is where there are several.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from mmprep import files
from mmprep.errors import UsageError
from mmprep.manifest.model import Record
from mmprep.steps import datasets
from mmprep.steps.base import Item
from mmprep.steps.inputs import size_of
from mmprep.steps.namevalue import pair
from mmprep.steps.sessions.streamspec import StreamSpec, spec_of

OPTION, STREAM = "--trials", "trials"
OWN_LENGTH = ("trial", "record")  # --window: records as long as what they hold
_TAKEN = frozenset(Record.__struct_fields__) | {"phase", "onset_s", "events"}


@dataclass(frozen=True, slots=True)
class Options:
    """What was given on the command line, as texts."""

    trials: str | None = None
    start: str | None = None
    end: str | None = None
    tail: str | None = None
    baseline: str | None = None
    window: str = "1"
    hop: str | None = None

    def wish(self) -> dict[str, Any]:
        """Give what changes the windows, as JSON values; nothing without trials.

        Raises
        ------
        UsageError
            Options that contradict each other, or an expression that is none.
        """
        self._check_window()
        if self.trials is None:
            given = {
                "--trial-start": self.start,
                "--trial-end": self.end,
                "--tail": self.tail,
                "--baseline": self.baseline,
                "--window trial": self.window if self.window == "trial" else None,
            }
            if lost := [name for name, value in given.items() if value is not None]:
                raise UsageError("there are no --trials", where=lost[0])
            return {}
        if self.end is not None and self.start is None:
            raise UsageError("there is no --trial-start", where="--trial-end")
        return {
            "trials": {
                "start": _expression(self.start, "--trial-start"),
                "end": _expression(self.end, "--trial-end"),
                "tail": self.tail or "drop",
                "baseline": str(_seconds(self.baseline)),
            }
        }

    def _check_window(self) -> None:
        if self.window not in OWN_LENGTH:
            return
        for option, value in (("--hop", self.hop), ("--tail", self.tail)):
            if value is not None:
                raise UsageError(f"there are no windows: --window {self.window}", where=option)
        if self.window == "record" and self.trials is not None:
            raise UsageError(
                "the whole recording, and trials",
                where="--window record",
                hint="--window trial makes a record of each trial",
            )


def _seconds(text: str | None) -> Fraction:
    try:
        seconds = Fraction(text or 0)
    except (ValueError, ZeroDivisionError) as error:
        raise UsageError(f"{text!r} is no number of seconds", where="--baseline") from error
    if seconds < 0 or (text is not None and not seconds):
        raise UsageError(f"{text} s is not positive", where="--baseline")
    return seconds


def _expression(pattern: str | None, option: str) -> str | None:
    if pattern is None:
        return None
    try:
        names = re.compile(pattern).groupindex
    except re.error as error:
        raise UsageError(f"{pattern!r} is no expression: {error}", where=option) from error
    if taken := sorted(_TAKEN & names.keys()):
        raise UsageError(f"no group can be called {taken[0]!r}", where=option, hint="another name")
    return pattern


@dataclass(frozen=True, slots=True)
class Given:
    """Where the trials are: a file, a data set with a stream, or (no path) a stream's name."""

    text: str
    path: str | None
    part: str | None
    settings: Mapping[str, str]

    @property
    def of(self) -> str:
        """The stream that times count from; empty for the only one."""
        return self.settings.get("of", "")

    @property
    def is_dataset(self) -> bool:
        """Whether a data set is named."""
        return self.path is not None and datasets.is_dataset(self.path)


def parse(text: str) -> Given:
    """Read `--trials`.

    Raises
    ------
    UsageError
        There is no such file, or a data set without a stream.
    """
    head, *rest = text.split(",")
    settings = dict(pair(one, OPTION) for one in rest)
    if files.is_file(head) or datasets.is_dataset(head):
        path, part = head, ""
    else:
        path, _, part = head.partition("#")
    given = Given(text, path, part or None, settings)
    if lost := sorted(settings.keys() - {"of"} if not files.is_file(path) else ()):
        raise UsageError(f"{lost[0]!r} is a setting of files alone", where=OPTION)
    if given.is_dataset and part:
        return given
    if given.is_dataset:
        raise UsageError("which stream holds the trials?", where=path, hint="DATASET#STREAM")
    if files.is_file(path):
        return given
    if part or "/" in path:
        raise UsageError("does not exist", where=path)
    return Given(text, None, path, settings)


def put(item: Item, spec: StreamSpec, of: str = "") -> Item:
    """Let a session have trials, those of a stream that is added if it is none of its own.

    Parameters
    ----------
    of : str
        The stream from whose first sample small times count.

    Raises
    ------
    UsageError
        Another stream has its name.
    """
    streams = [spec_of(one) for one in item.spec["streams"]]
    name = next((one.name for one in streams if _is_same(one, spec)), None)
    if name is not None:
        return named(item, name, of)
    if spec.name in {one.name for one in streams}:
        raise UsageError(
            f"stream {spec.name!r} is another one",
            where=OPTION,
            hint=f"{OPTION} {spec.name} takes that",
        )
    records = {one.record for one in streams}
    if spec.form == "raw" and spec.record not in records and len(records) == 1:
        spec = replace(spec, record=records.pop())
    is_raw = spec.form == "raw"
    item = replace(
        item,
        inputs=tuple(dict.fromkeys((*item.inputs, spec.path))) if is_raw else item.inputs,
        n_bytes=item.n_bytes + size_of(spec.path),
        spec={**item.spec, "streams": [*item.spec["streams"], spec.to_json()]},
    )
    return named(item, spec.name, of)


def named(item: Item, name: str, of: str = "") -> Item:
    """Let a session have the trials of one of its streams; see `put`.

    Raises
    ------
    UsageError
        It has no such stream.
    """
    streams: Sequence[Mapping[str, Any]] = item.spec["streams"]
    names = [one["name"] for one in streams]
    for wanted in (name, of or name):
        if wanted in names:
            continue
        raise UsageError(
            f"there is no stream {wanted!r}", where=OPTION, hint=f"streams: {', '.join(names)}"
        )
    moved = [{**one, "follows": of} if one["name"] == name else one for one in streams]
    return replace(item, spec={**item.spec, "streams": moved, "trials": name})


def _is_same(one: StreamSpec, other: StreamSpec) -> bool:
    paths = {str(Path(spec.path).absolute()) for spec in (one, other)}
    return len(paths) == 1 and (one.part, one.rows) == (other.part, other.rows)
