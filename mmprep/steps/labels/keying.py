"""Keys of records and of a table of labels, put side by side.

Rules
-----
- `--on KEY[=COLUMN],...`: KEY is a field of the record (id, session, subject, trial or another),
  COLUMN that of the table, by default of the same name. With several, all must match.
- Keys match as text. What finds no partner so matches by its only number, if that is clear on both
  sides: `P07` is `7`, and neither is where there is also a `C07`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mmprep.errors import DataError, UsageError
from mmprep.manifest.model import Record, field_value

Key = tuple[str, ...]
_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class On:
    """The fields of a key, and their columns in the table."""

    fields: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def name(self) -> str:
        """How the key is called in messages."""
        return ",".join(self.fields)

    def key(self, record: Record) -> Key:
        """Give the key of a record, empty text for what it lacks."""
        return tuple(field_value(record, field) or "" for field in self.fields)

    def absent(self, records: Sequence[Record]) -> list[str]:
        """Name the fields that no record has."""
        return [
            field
            for field in self.fields
            if all(field_value(record, field) is None for record in records)
        ]


def parse(text: str | None) -> On:
    """Read `--on`.

    Raises
    ------
    UsageError
        Nothing, or an empty or doubled name.
    """
    if not text:
        raise UsageError("--labels needs --on KEY", hint="for example: --on session")
    pairs = [part.partition("=") for part in text.split(",")]
    fields = tuple(field for field, _, _ in pairs)
    columns = tuple(column or field for field, _, column in pairs)
    if not all(fields) or len(set(columns)) < len(columns):
        raise UsageError(f"{text!r} is not KEY[=COLUMN],...", where="--on")
    return On(fields, columns)


@dataclass(frozen=True, slots=True)
class Matched:
    """Keys of records -> keys of the table, and what was matched by number."""

    keys: Mapping[Key, Key]
    by_number: tuple[tuple[str, str], ...]


def matched(of_records: Iterable[Key], of_table: Sequence[Key], where: str) -> Matched:
    """Match the keys of records with those of a table.

    Raises
    ------
    DataError
        A number that stands for several keys.
    """
    known, wanted = set(of_table), dict.fromkeys(of_records)
    if not known or not wanted:
        return Matched({}, ())
    sides = zip(zip(*wanted, strict=True), zip(*of_table, strict=True), strict=True)
    parts = [_part(set(ours), set(theirs), where) for ours, theirs in sides]
    keys = {}
    for key in wanted:
        partner = tuple(part.get(one, one) for part, one in zip(parts, key, strict=True))
        if partner in known:
            keys[key] = partner
    by_number = (pair for part in parts for pair in part.items())
    return Matched(keys, tuple(sorted(by_number)))


def _part(ours: set[str], theirs: set[str], where: str) -> dict[str, str]:
    """Match what is left of one part of the keys by its only number."""
    mine, other = _by_number(ours - theirs), _by_number(theirs - ours)
    shared = mine.keys() & other.keys()
    for number in sorted(shared):
        if len(mine[number]) > 1 or len(other[number]) > 1:
            raise DataError(
                f"{' and '.join(sorted(mine[number]))} may each be"
                f" {' or '.join(sorted(other[number]))}",
                where=where,
                hint="write the keys of the table as the records have them",
            )
    return {mine[number][0]: other[number][0] for number in shared}


def _by_number(names: set[str]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = defaultdict(list)
    for name in names:
        numbers = _NUMBERS.findall(name)
        if len(numbers) == 1:
            found[int(numbers[0])].append(name)
    return found
