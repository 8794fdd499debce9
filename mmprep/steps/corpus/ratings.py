"""Labels that corpora keep in files of their own, joined to the records.

Rules
-----
- A row goes to the records whose key it has; rows and records without a partner are counted.
- A cell that is empty or `n/a` is a missing value: the label is there, and null.
- Labels are called as the file calls them, in small letters.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from mmprep.errors import DataError
from mmprep.files import read_text
from mmprep.manifest.model import LabelValue, Record
from mmprep.steps.corpus.place import Place
from mmprep.steps.labels.cells import column_values, value

Files = Mapping[Path, Place]
Joined = tuple[list[Record], list[str]]

SHOWN = 3
PARTICIPANT = "participant_id"


@dataclass(frozen=True, slots=True)
class Row:
    """What a file says of the records of one key."""

    labels: Mapping[str, LabelValue] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    split: str | None = None

    def given(self, record: Record) -> Record:
        """Give a record with what is said of it; what it has already is kept."""
        return msgspec.structs.replace(
            record,
            labels={**self.labels, **record.labels},
            extra={**self.fields, **record.extra},
            split=record.split or self.split,
        )


def some(names: Sequence[str]) -> str:
    """Name the first few."""
    return ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")


def _joined(
    records: Sequence[Record],
    rows: Mapping[Any, Row],
    key: Callable[[Record], Hashable | None],
    where: str,
) -> Joined:
    """Join rows to the records that have a key."""
    keys = [key(record) for record in records]
    found = [
        rows[k].given(record) if k in rows else record
        for k, record in zip(keys, records, strict=True)
    ]
    bare = [r.id for k, r in zip(keys, records, strict=True) if k is not None and k not in rows]
    return found, [f"{where}: no row for {len(bare)} records ({some(bare)})"] if bare else []


def table(path: Path, wanted: Sequence[str]) -> list[dict[str, str]]:
    """Read a table with a header, TSV or CSV; a row of another length is an error.

    Raises
    ------
    DataError
        It is not UTF-8, lacks a column that is wanted, or a row is cut.
    """
    lines = _text(path).splitlines()
    delimiter = next((mark for mark in "\t;," if lines and mark in lines[0]), ",")
    rows = list(csv.reader(lines, delimiter=delimiter))
    header = [cell.strip() for cell in rows[0]] if rows else []
    if missing := [name for name in wanted if name not in header]:
        raise DataError(f"no column {missing[0]!r}", where=f"{path}:1")
    for number, row in enumerate(rows[1:], start=2):
        if row and len(row) != len(header):
            raise DataError(f"{len(row)} cells, expected {len(header)}", where=f"{path}:{number}")
    return [dict(zip(header, map(str.strip, row), strict=True)) for row in rows[1:] if row]


def _whole(path: Path, row: Mapping[str, str], name: str) -> int:
    try:
        return int(row[name])
    except ValueError as error:
        raise DataError(f"{name} is {row[name]!r}, expected a number", where=str(path)) from error


# BIDS ---------------------------------------------------------------------------------------------


def participants(records: Sequence[Record], files: Files) -> Joined:
    """Join the columns of `participants.tsv` by `participant_id`."""
    rows: dict[str, Row] = {}
    for path in files:
        people = table(path, [PARTICIPANT])
        names = people[0] if people else {}
        columns = {name: column_values([row[name] for row in people]) for name in names}
        for k, row in enumerate(people):
            answers = {name: values[k] for name, values in columns.items() if name != PARTICIPANT}
            rows[row[PARTICIPANT]] = Row(answers)
    done, said = _joined(records, rows, lambda record: record.subject, "participants.tsv")
    absent = sorted(rows.keys() - {record.subject for record in records})
    lack = f"participants.tsv: nothing recorded of {len(absent)} people ({some(absent)})"
    return done, [*said, *([lack] if absent else [])]


# DEAP ---------------------------------------------------------------------------------------------

_DEAP_RATED = ("valence", "arousal", "dominance", "liking")
_DEAP = ("Participant_id", "Trial", "Experiment_id", *map(str.capitalize, _DEAP_RATED))
_UNFAMILIAR = ("s02", "s15", "s23")
_SAME = 0.01  # the files give two digits


def deap(records: Sequence[Record], files: Files) -> Joined:
    """Join `participant_ratings.csv`: familiarity, and which clip was shown when.

    The trials of the preprocessed files go by the clip (`Experiment_id`), the face videos by the
    order of presentation (`Trial`). A row joins a trial of the former only if all four ratings
    agree; else that is said, and the trial keeps what its own file says.
    """
    shown: dict[tuple[str, int], Row] = {}
    clips: dict[tuple[str, int], Row] = {}
    for path in files:
        for row in table(path, _DEAP):
            person = f"s{_whole(path, row, 'Participant_id'):02d}"
            known = _deap_row(row)
            shown[person, _whole(path, row, "Trial")] = known
            clips[person, _whole(path, row, "Experiment_id")] = known
    apart = [r.id for r in records if _clip(r) in clips and not _agrees(r, clips[_clip(r)])]
    found = [_deap_joined(record, shown, clips) for record in records]
    said = f"participant_ratings.csv: other ratings than {len(apart)} trials have ({some(apart)})"
    return found, [*([said] if apart else []), *_unfamiliar(found)]


def _unfamiliar(records: Sequence[Record]) -> Iterator[str]:
    """Say whose familiarity is missing: three people's is, in the published file."""
    asked = (r for r in records if r.labels.get("familiarity", "") is None)
    people = list(dict.fromkeys(record.subject or "" for record in asked))
    if known := [name for name in people if name in _UNFAMILIAR]:
        yield f"familiarity is missing for {', '.join(known)}, as is known"
    if odd := [name for name in people if name not in _UNFAMILIAR]:
        yield f"familiarity is missing for {', '.join(odd)}"


def _deap_row(row: Mapping[str, str]) -> Row:
    labels = {name: value(row[name.capitalize()]) for name in _DEAP_RATED}
    fields = {"clip": value(row["Experiment_id"]), "presented": value(row["Trial"])}
    return Row({**labels, "familiarity": value(row.get("Familiarity", ""))}, fields)


def _clip(record: Record) -> tuple[str, int]:
    number = record.extra.get("trial")
    return record.subject or "", number if isinstance(number, int) else 0


def _agrees(record: Record, row: Row) -> bool:
    pairs = [(record.labels.get(name), row.labels[name]) for name in _DEAP_RATED]
    return all(
        isinstance(a, int | float) and isinstance(b, int | float) and abs(a - b) < _SAME
        for a, b in pairs
    )


def _deap_joined(
    record: Record,
    shown: Mapping[tuple[str, int], Row],
    clips: Mapping[tuple[str, int], Row],
) -> Record:
    if row := clips.get(_clip(record)):
        return row.given(record) if _agrees(record, row) else record
    presented = str(record.extra.get("presented", ""))
    row = shown.get((record.subject or "", int(presented) if presented.isdigit() else 0))
    return row.given(record) if row else record


# K-EmoCon -----------------------------------------------------------------------------------------

_TIMES = {"initTime": "baseline_begin_s", "startTime": "debate_begin_s", "endTime": "debate_end_s"}


def kemocon(records: Sequence[Record], files: Files) -> Joined:
    """Join `metadata/subjects.csv`: when baseline and debate began, and the latter ended (Unix)."""
    rows: dict[str, Row] = {}
    for path in files:
        for row in table(path, ("pid", *_TIMES)):
            times = {new: _unix_s(row[old]) for old, new in _TIMES.items()}
            rows[row["pid"]] = Row(fields=times)
    return _joined(records, rows, lambda record: record.subject, "subjects.csv")


def _unix_s(milliseconds: str) -> float | None:
    found = value(milliseconds)
    return found / 1000 if isinstance(found, int | float) else None


# WESAD --------------------------------------------------------------------------------------------

_ORDER = {"base": "baseline", "tsst": "stress", "fun": "amusement"}
_MEDITATION = "medi"
_STRESS_ALONE = "SSSQ"
_ITEMS = {"PANAS": "panas", "STAI": "stai", "DIM": "dim", "SSSQ": "sssq"}
_DIM = ("valence", "arousal")


def wesad(records: Sequence[Record], files: Files) -> Joined:
    """Join `SX_quest.csv`: the questionnaires that a person filled in after each condition.

    The file is rows of cells between `;`: `# ORDER` names the conditions in their order, the five
    rows `# PANAS`, `# STAI` and `# DIM` follow that order, `# SSSQ` was asked after the stress
    alone. DIM is valence and arousal, from 1 to 9; the other items are numbered as they stand.
    """
    rows: dict[tuple[str, str], Row] = {}
    for path, place in files.items():
        for condition, answers in _questionnaires(path).items():
            rows[place.subject or "", condition] = Row(answers)

    def key(record: Record) -> tuple[str, str] | None:
        is_condition = "condition" in record.labels
        return (record.subject or "", record.id.rpartition("/")[2]) if is_condition else None

    return _joined(records, rows, key, "_quest.csv")


def _questionnaires(path: Path) -> dict[str, dict[str, LabelValue]]:
    """Read the answers: condition -> items."""
    found: dict[str, list[list[str]]] = {}
    for line in _text(path).splitlines():
        tag, *cells = (cell.strip() for cell in line.split(";"))
        if tag.startswith("#"):
            found.setdefault(tag.lstrip("# "), []).append(_filled(cells))
    if "ORDER" not in found:
        raise DataError("no row `# ORDER` with the conditions", where=str(path))
    conditions = _conditions(found["ORDER"][0])
    answers: dict[str, dict[str, LabelValue]] = {name: {} for name in conditions}
    for tag, prefix in _ITEMS.items():
        asked = ["stress"] if tag == _STRESS_ALONE else conditions
        for condition, cells in zip(asked, found.get(tag, []), strict=False):
            answers.get(condition, {}).update(_items(prefix, cells))
    return answers


def _filled(cells: list[str]) -> list[str]:
    """Leave out the empty cells at the end."""
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _conditions(order: Sequence[str]) -> list[str]:
    """Name the conditions as the records do; what is read aloud between them is none."""
    n_meditations = sum(cell.lower().startswith(_MEDITATION) for cell in order)
    names, nth = [], 0
    for cell in order:
        if cell.lower().startswith(_MEDITATION):
            nth += 1
            names.append("meditation" if n_meditations == 1 else f"meditation-{nth}")
        elif known := _ORDER.get(cell.lower()):
            names.append(known)
    return names


def _items(prefix: str, cells: Sequence[str]) -> dict[str, LabelValue]:
    if prefix == "dim":
        return {name: value(cell) for name, cell in zip(_DIM, cells, strict=False)}
    return {f"{prefix}_{k}": value(cell) for k, cell in enumerate(cells, start=1)}


# Lists of clips -----------------------------------------------------------------------------------

_CUT = re.compile(r"[\s,]")
_SUFFIXES = re.compile(r"\.(mp4|wav|txt)$")


def cmlr(records: Sequence[Record], files: Files) -> Joined:
    """Put the sentences that `train`, `val` and `test` list into their splits.

    A line begins with `s1/20170121/section_1_000.80_002.91`, perhaps with `audio/` or `video/`
    before it and a suffix after it.
    """
    return _listed(records, files, n_parts=3)


def lrs(records: Sequence[Record], files: Files) -> Joined:
    """Put the clips of `main/` that `train.txt`, `val.txt` and `test.txt` list into their splits.

    A line begins with `6330311066473698535/00011`; what follows is not read.
    """
    return _listed(records, files, n_parts=2)


def _listed(records: Sequence[Record], files: Files, n_parts: int) -> Joined:
    rows: dict[str, Row] = {}
    for path, place in files.items():
        for line in filter(None, map(str.strip, _text(path).splitlines())):
            name = _SUFFIXES.sub("", _CUT.split(line)[0])
            rows[_last(name, n_parts)] = Row(split=place.split)

    def key(record: Record) -> str | None:
        return _last(record.id, n_parts) if record.split is None else None

    found, said = _joined(records, rows, key, "lists")
    absent = sorted(rows.keys() - {_last(record.id, n_parts) for record in records})
    lack = f"lists: {len(absent)} of {len(rows)} clips are not here ({some(absent)})"
    return found, [*said, *([lack] if absent else [])]


def _last(name: str, n_parts: int) -> str:
    return "/".join(name.split("/")[-n_parts:])


def _text(path: Path) -> str:
    try:
        return read_text(path)
    except UnicodeDecodeError as error:
        raise DataError("is not UTF-8", where=str(path), hint="save it as UTF-8") from error
