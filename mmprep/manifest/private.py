"""What in a data set may tell who was recorded, when and where.

Rules
-----
- An `error` identifies by itself: dates, names, addresses, serial numbers, places. A `warning` is
  for a person to judge: voices, faces, free text, ages, and the note of this machine's folders.
- Texts are searched in ids, sessions, subjects, sources, fields and labels of records, in the
  names of inputs, in columns of text, and in what the JSON files say. Of a kind and place the first
  is shown, and how many there are.
- Numbers all of which may be Unix time, in s, ms, us or ns, tell the date.
- Nothing that is not found here is thereby anonymous: what was measured may identify, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from mmprep.manifest.model import Dataset, Record
from mmprep.manifest.validate import Finding
from mmprep.timebase import UNIX_NS

_UNIX_S = (1e9, 2.2e9)  # 2001 to 2039
_LONG_S = 1e7  # counts of a device, in us, run through more than that in seconds
_DATE = r"(?:19|20)\d\d(?P<s>[-_.]?)(?:0[1-9]|1[0-2])(?P=s)(?:0[1-9]|[12]\d|3[01])"
_PATTERNS = {
    "a date": re.compile(rf"(?<!\d){_DATE}(?!\d)"),
    "Unix time": re.compile(r"(?<![\d.])1[0-9]{9}(?:[0-9]{3}|[0-9]{6}|[0-9]{9})?(?![\d.])"),
    "an address of mail": re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+"),
    "an address of a device": re.compile(r"(?i)\b[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5}\b"),
    "a serial number": re.compile(r"(?<![A-Za-z0-9])A0[0-9A-F]{4,5}(?![A-Za-z0-9])"),
}
_HINTS = {"a date": "--ids", "Unix time": "--ids", "a serial number": "--ids"}
_WORDS = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])")
_TELLING: Mapping[str, tuple[Literal["error", "warning"], str]] = {
    **dict.fromkeys(("surname", "firstname", "lastname"), ("error", "a name")),
    **dict.fromkeys(("email", "mail", "phone", "address", "street"), ("error", "an address")),
    **dict.fromkeys(("birth", "birthday", "birthdate", "dob"), ("error", "a birthday")),
    **dict.fromkeys(("zip", "postcode", "city", "lat", "lon", "lng"), ("error", "a place")),
    **dict.fromkeys(("latitude", "longitude", "gps", "altitude"), ("error", "a place")),
    **dict.fromkeys(("serial", "mac", "imei", "hostname", "ip"), ("error", "a device")),
    **dict.fromkeys(("patient", "ssn", "insurance"), ("error", "a person")),
    **dict.fromkeys(("age", "gender", "sex", "handedness", "nationality"), ("warning", "a trait")),
    "name": ("warning", "a name"),
    **dict.fromkeys(("weight", "height", "occupation", "diagnosis"), ("warning", "a trait")),
}
_LETTERS_ONLY = re.compile(r"[^\W\d_]{3,}(?:[ ._-][^\W\d_]{2,})*")


class TableFacts(NamedTuple):
    """What the table of a stream says of itself."""

    stream: str
    is_absolute: bool
    start_ns: int | None
    channels: tuple[str, ...]
    texts: tuple[str, ...]
    device: str | None
    tz: str | None
    dated: tuple[str, ...] = ()
    values: Iterable[tuple[str, str]] = ()


class Beside(NamedTuple):
    """What a data set holds beside its records and tables.

    Parameters
    ----------
    dated : mapping of str to tuple of str
        Modality -> its channels that hold Unix times.
    said : mapping of str to value of JSON
        What files of JSON say: sync/*.json, failures.jsonl.
    """

    dated: Mapping[str, tuple[str, ...]] = {}
    said: Iterable[tuple[str, Any]] = ()


def are_dates(low: float, high: float) -> bool:
    """Say whether numbers between these may be Unix time, in s, ms, us or ns."""
    return any(
        unit * _UNIX_S[0] <= low <= high < unit * _UNIX_S[1] and high - low < unit * _LONG_S
        for unit in (1, 10**3, 10**6, 10**9)
    )


@dataclass(slots=True)
class _Seen:
    """Findings of one kind and place, counted."""

    example: str
    n: int = 1


@dataclass(slots=True)
class _Search:
    """Texts that were searched."""

    found: dict[tuple[str, str], _Seen] = field(default_factory=dict)

    def text(self, where: str, text: str) -> None:
        """Search a text."""
        for kind, pattern in _PATTERNS.items():
            if match := pattern.search(text):
                seen = self.found.setdefault((where, kind), _Seen(match[0], 0))
                seen.n += 1

    def value(self, where: str, value: Any) -> None:
        """Search the texts in a value of JSON."""
        if isinstance(value, str):
            self.text(where, value)
        elif isinstance(value, Mapping):
            for key, item in value.items():
                self.value(f"{where}.{key}", item)
        elif isinstance(value, list | tuple):
            for item in value:
                self.value(where, item)

    def number(self, where: str, value: Any) -> None:
        """Search the absolute times, in ns, in a value of JSON."""
        if isinstance(value, int) and UNIX_NS <= value < 2.2e18:
            self.found.setdefault((where, "Unix time in ns"), _Seen(str(value), 0)).n += 1
        elif isinstance(value, Mapping):
            for item in value.values():
                self.number(where, item)
        elif isinstance(value, list | tuple):
            for item in value:
                self.number(where, item)

    def findings(self) -> Iterator[Finding]:
        """Give what was found, sorted by place."""
        for (where, kind), seen in sorted(self.found.items()):
            more = f" and {seen.n - 1} more" if seen.n > 1 else ""
            hint = f": {_HINTS[kind]} gives other names" if kind in _HINTS else ""
            yield Finding(where, f"{kind} ({seen.example}{more}){hint}")


def identifying(
    dataset: Dataset,
    records: Iterable[Record],
    names: Iterable[str],
    inputs: Iterable[str],
    tables: Iterable[TableFacts],
    *,
    beside: Beside | None = None,
) -> list[Finding]:
    """List what still identifies.

    Parameters
    ----------
    names : iterable of str
        The files of the data set.
    inputs : iterable of str
        What inputs.jsonl names.
    tables : iterable of TableFacts
        One a stream is enough where all are alike.
    """
    found = list(_of_dataset(dataset, names))
    search, fields = _Search(), set[str]()
    subjects: dict[str, None] = {}
    for record in records:
        fields |= _look_at(record, search)
        subjects.setdefault(record.subject or "")
    for name in inputs:
        search.text("inputs.jsonl", name)
    is_dated = any(session.origin_ns is not None for session in dataset.sessions.values())
    beside = beside or Beside()
    for name, value in beside.said:
        search.value(name, value)
        if not is_dated:  # else they are said to be
            search.number(name, value)
    found += _dated(beside.dated)
    found += _people(subjects)
    found += _columns("manifest.jsonl", sorted(fields))
    for table in tables:
        found += _of_table(table)
        for column, text in table.values:
            search.text(f"tables/{table.stream}.{column}", text)
    found += search.findings()
    return list(dict.fromkeys(found))


def _of_dataset(dataset: Dataset, names: Iterable[str]) -> Iterator[Finding]:
    if any(name.startswith(".mmprep/") for name in names):
        what = "names folders of this machine: leave it out when you publish"
        yield Finding(".mmprep", what, "warning")
    if any(name.startswith("rejects/") for name in names):
        what = "holds lines of the raw files as they were: leave it out when you publish"
        yield Finding("rejects", what, "warning")
    dated = [name for name, session in dataset.sessions.items() if session.origin_ns is not None]
    if dated:
        what = f"origin_ns tells when {len(dated)} sessions were ({dated[0]}, ...)"
        yield Finding("dataset.json", f"{what}: align --time-origin relative")
    for name, part in dataset.modalities.items():
        yield from _columns(name, part.channels or ())
        if part.kind == "audio":
            yield Finding(name, "a voice tells who speaks", "warning")
        if part.dtype == "uint8" and part.row_shape is not None and len(part.row_shape) > 2:
            yield Finding(name, "pictures may show a face", "warning")


def _look_at(record: Record, search: _Search) -> set[str]:
    """Search a record; give the names of its own fields."""
    for name in ("id", "session", "subject", "source"):
        search.value(name, getattr(record, name))
    search.value("labels", record.labels)
    search.value("fields", {k: v for k, v in record.extra.items() if k != "events"})
    for name, ref in record.streams.items():
        search.value(f"streams.{name}", ref.extra)
    return {*record.labels, *(record.extra.keys() - {"events"})}


def _dated(columns: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    for where, names in columns.items():
        for column in names:
            yield Finding(where, f"column {column!r} holds Unix times: they tell the date")


def _people(subjects: Iterable[str]) -> Iterator[Finding]:
    if names := [name for name in subjects if _LETTERS_ONLY.fullmatch(name)]:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield Finding("subject", f"{names[0]!r}{more} may be a person's name: --ids gives others")


def _columns(where: str, columns: Iterable[str]) -> Iterator[Finding]:
    for column in columns:
        words = [re.sub(r"[^A-Za-z]", "", column), *_WORDS.split(column)]
        for word in words:
            if told := _TELLING.get(word.lower()):
                yield Finding(where, f"column {column!r} tells {told[1]}", told[0])
                break


def _of_table(table: TableFacts) -> Iterator[Finding]:
    where = f"tables/{table.stream}"
    if table.is_absolute:
        yield Finding(where, "times are Unix time: they tell the date")
    elif table.start_ns is not None and table.start_ns >= UNIX_NS:
        yield Finding(where, "the start tells the date")
    yield from _columns(where, table.channels)
    yield from _dated({where: table.dated})
    for column in table.texts:
        yield Finding(where, f"column {column!r} is free text: read it", "warning")
    if table.device is not None and re.search(r"\d{4,}|serial", table.device):
        yield Finding(where, f"the device is named by its serial number ({table.device})")
    if table.tz is not None:
        yield Finding(where, f"the zone {table.tz} tells the place", "warning")
