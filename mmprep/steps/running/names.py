"""Other names for people and sessions (`--ids`), wherever they stand.

Rules
-----
- The table has the columns `old` and `new`. An old name is replaced where it stands as a word of
  its own, between characters that are no letters and no digits: in ids, sessions, subjects, the
  names of sources and inputs, fields of records and failures.
- Every subject must be in the table, and every session that has no subject: a name that was
  forgotten would stay.
- A stream that is called after a person is refused: whoever reads the data set asks for it by name.
- In fields a number stays: that of a person may be that of a run, too.
- Labels are joined by the old names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from mmprep.errors import DataError, UsageError
from mmprep.manifest.model import Record, StreamRef
from mmprep.steps.labels.cells import read_cells

OPTION = "--ids"


@dataclass(frozen=True)  # not slotted: the pattern is made once
class Names:
    """Old names and the new ones; without any all stays.

    Parameters
    ----------
    path : str, optional
        The table.
    known : mapping of str to str
    """

    path: str | None = None
    known: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str | None) -> Names:
        """Read the table.

        Raises
        ------
        UsageError
            It can't be opened.
        DataError
            It is none: no such columns, a name twice.
        """
        if path is None:
            return cls()
        header, rows = read_cells(path)
        if set(header) != {"old", "new"}:
            hint = "a name a row, with the columns old and new"
            raise DataError(f"its columns are {', '.join(header)}", where=path, hint=hint)
        known: dict[str, str] = {}
        for line, cells in rows:
            old, new = (cells[header.index(name)].strip() for name in ("old", "new"))
            if not old or not new or "/" in new:
                raise DataError(f"{old!r} cannot become {new!r}", where=f"{path}:{line}")
            if old in known:
                raise DataError(f"{old!r} stands there twice", where=f"{path}:{line}")
            if new in known.values():
                raise DataError(f"two names become {new!r}", where=f"{path}:{line}")
            known[old] = new
        return cls(path, known)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        longest_first = sorted(map(re.escape, self.known), key=len, reverse=True)
        return re.compile(rf"(?<![^\W_])(?:{'|'.join(longest_first)})(?![^\W_])")

    def text(self, text: str) -> str:
        """Replace the names in a text."""
        return self._pattern.sub(lambda m: self.known[m[0]], text) if self.known else text

    def record(self, record: Record) -> Record:
        """Replace the names in a record; its labels, text and files stay."""
        if not self.known:
            return record
        return msgspec.structs.replace(
            record,
            id=self.text(record.id),
            session=self.text(record.session),
            subject=None if record.subject is None else self.text(record.subject),
            source=None if record.source is None else self.text(record.source),
            streams={name: self._stream(ref) for name, ref in record.streams.items()},
            extra={name: self._field(value) for name, value in record.extra.items()},
        )

    def _field(self, value: Any) -> Any:
        return value if isinstance(value, str) and value.isdigit() else self._value(value)

    def _stream(self, ref: StreamRef) -> StreamRef:
        return msgspec.structs.replace(ref, extra=self._value(ref.extra))

    def _value(self, value: Any) -> Any:
        """Replace the names in all texts but those that name files of the data set."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            kept = ("table", "clock", "shard")
            return {k: v if k in kept else self._value(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self._value(item) for item in value]
        return value

    def check(self, people: Iterable[tuple[str | None, str]]) -> None:
        """Refuse to leave a name as it is.

        Parameters
        ----------
        people : iterable of (subject or None, session)

        Raises
        ------
        UsageError
            A subject, or the session of none, is not in the table.
        """
        if self.path is None:
            return
        for subject, session in people:
            name = session if subject is None else subject
            # anna-lena is not anna: half of the name would stay.
            is_known = self.text(name) != name if subject is None else name in self.known
            if not is_known:
                kind = "session" if subject is None else "subject"
                raise UsageError(
                    f"{kind} {name!r} is not in {self.path}",
                    where=OPTION,
                    hint="a line for each; a name that may stay becomes another one, too",
                )

    def check_streams(self, streams: Iterable[str]) -> None:
        """Refuse streams that are called after a person.

        Raises
        ------
        UsageError
            The name of a stream holds an old name that is more than a number.
        """
        for stream in streams:
            held = self._pattern.search(stream) if self.known else None
            if held is not None and not held[0].isdigit():
                raise UsageError(
                    f"stream {stream!r} is called after {held[0]!r}",
                    where=OPTION,
                    hint="name it otherwise: --layout '{subject}/{_}_{stream}.csv', or a table of"
                    " --sessions",
                )
