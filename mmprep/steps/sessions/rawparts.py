"""The streams of one raw file, by the names that a caller may use for them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mmprep.errors import MmprepError
from mmprep.sources.base import NOTES, Claim, TextOptions, pick
from mmprep.steps.intake.claims import TABLE_READERS
from mmprep.steps.sessions.streamspec import StreamSpec


def options_of(spec: StreamSpec) -> TextOptions:
    """Say how the file of a stream is read."""
    return TextOptions(time=spec.time, time_unit=spec.unit, tz=spec.tz, rate_hz=spec.nominal_hz)


_OPTION = re.compile(r"--(time|rate|tz)(-unit)? ([A-Z]+)")


@contextmanager
def hints_as_settings() -> Iterator[None]:
    """Let hints that name options of `convert` name the settings behind a file instead.

    Raises
    ------
    MmprepError
        The one of the block.
    """
    try:
        yield
    except MmprepError as error:
        hint = as_settings(error.hint or "")
        if hint == (error.hint or ""):
            raise
        raise type(error)(error.what, where=error.where, hint=hint) from error


def as_settings(text: str) -> str:
    """Name the settings behind a file in place of options of `convert`."""
    return _OPTION.sub(_as_setting, text).replace("--time-unit says", "FILE,unit=U says")


def _as_setting(option: re.Match[str]) -> str:
    return f"FILE,{'unit' if option[2] else option[1]}={option[3]}"


def claim_of(form: str, path: Path) -> Claim:
    """Let a reader claim one file."""
    claims = TABLE_READERS[form].claim("", [path.name], path.parent)
    return claims[0] if claims else Claim(form, path.name, (path.name,), path.suffix)


def own_name(form: str, path: Path, wanted: str | None, options: TextOptions) -> str:
    """Give the reader's name of a stream.

    Parameters
    ----------
    wanted : str, optional
        Its name, its number in the file, or what else its reader takes as a name; default the
        annotations, else the only stream.

    Raises
    ------
    UsageError
        There is no such stream, or there are several and none is named.
    """
    reader = TABLE_READERS[form]
    if wanted is not None and hasattr(reader, "named"):
        return str(reader.named(path, wanted))
    known = tuple(reader.probe(claim_of(form, path), path.parent, options))
    return pick(known, NOTES if wanted is None and NOTES in known else wanted, str(path))
