"""Bad rows: the error that names one, and the file that keeps them."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from mmprep.errors import DataError
from mmprep.tables.parsed import Reject


def bad_row(where: str, reject: Reject) -> DataError:
    """Give the error that names a bad row."""
    shown = shortened(escape(reject.raw))
    hint = "--on-bad-row skip leaves such rows out, null keeps them as missing values"
    if "quote" in reject.reason:
        hint += "; --quote none takes quotes for text"
    return DataError(f"{reject.reason}: {shown}", where=f"{where}:{reject.line}", hint=hint)


def shortened(text: str, n_chars: int = 120) -> str:
    """Give as much of a text as a message can show."""
    return text if len(text) <= n_chars else text[:n_chars] + "…"


def escape(raw: bytes) -> str:
    r"""Write a raw line so that it fits a cell: \t \n \r \0 \\ and \xNN for what is no text."""
    text = raw.decode("utf-8", "surrogateescape")
    return "".join(_ESCAPES.get(char) or _hex(char) for char in text)


_ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0", "\\": "\\\\"}


def _hex(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x20 or code == 0x7F else char


class RejectsFile:
    """The rows that were not taken as they are: line number, reason, raw line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None  # opened with the first row

    def __call__(self, reject: Reject) -> None:
        """Write one row."""
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("w", encoding="utf-8", newline="\n")
            self._file.write("line\treason\traw\n")
        reason = escape(reject.reason.encode("utf-8", "surrogateescape"))
        self._file.write(f"{reject.line}\t{reason}\t{escape(reject.raw)}\n")

    def close(self) -> Path | None:
        """Close the file; give its path if there is one."""
        if self._file is None:
            return None
        self._file.close()
        return self._path

    def abort(self) -> None:
        """Drop the file."""
        if self.close() is not None:
            self._path.unlink(missing_ok=True)
