"""Transcripts beside sound and video.

Rules
-----
- A transcript is UTF-8; its white space is folded to single spaces.
- That of LRS2 and LRS3 is known by its first line, `Text:  WORDS`. A table after the line
  `WORD START END ASDSCORE` gives each word its time, in seconds; lines between (`Conf:`, `Ref:`)
  are no text.
"""

from __future__ import annotations

from pathlib import Path

from mmprep import files
from mmprep.errors import DataError

Words = tuple[tuple[str, float, float], ...]

_LRS, _LRS_TABLE = "Text:", "WORD START END"


def read(path: Path) -> tuple[str, Words | None]:
    """Read a transcript: its text, and its words with begin and end where it has their times.

    Raises
    ------
    DataError
        It is not UTF-8, or a row of the table of words is none.
    """
    try:
        lines = files.read_text(path).splitlines()
    except UnicodeDecodeError as error:
        raise DataError("the transcript is not UTF-8", where=str(path)) from error
    if lines and lines[0].startswith(_LRS):
        return " ".join(lines[0].removeprefix(_LRS).split()), _words(path, lines)
    return " ".join(" ".join(lines).split()), None


def _words(path: Path, lines: list[str]) -> Words | None:
    heads = [k for k, line in enumerate(lines) if line.startswith(_LRS_TABLE)]
    if not heads:
        return None
    rows = enumerate(lines[heads[0] + 1 :], start=heads[0] + 2)
    return tuple(_word(path, number, line) for number, line in rows if line.strip())


def _word(path: Path, number: int, line: str) -> tuple[str, float, float]:
    try:
        word, begin, end, *_ = line.split()
        return word, float(begin), float(end)
    except ValueError as error:
        raise DataError(
            f"{line!r} is no word with begin and end",
            where=f"{path}:{number}",
            hint="expected WORD START END in seconds",
        ) from error
