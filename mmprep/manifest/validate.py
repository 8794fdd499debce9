"""What is wrong with a data set: all of it, as values.

Rules
-----
- Nothing here touches a disk: the files are asked through `Files`.
- Every check runs to its end; a finding never stops the next one.
- An `error` means that the data set is not what its record says, or that a trainer would be
  misled. A `warning` means that some system may trip over it.
- Records of one session and source that overlap in time may not be in two splits: what was
  trained on would be tested on.
"""

from __future__ import annotations

import math
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from mmprep.errors import DataError, UsageError
from mmprep.manifest import codec
from mmprep.manifest.model import (
    Dataset,
    FileEntry,
    Modality,
    Record,
    ShardEntry,
    StreamRef,
    field_value,
    label_name,
)

RECORD = "dataset.json"
MANIFEST = "manifest.jsonl"
FAILURES = "failures.jsonl"
OURS = ".mmprep/"

_DRIVE = re.compile(r"^[A-Za-z]:")
_DEVICE = re.compile(r"^(con|prn|aux|nul|com[1-9]|lpt[1-9])(\.|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Header:
    """What a shard says of itself: dtype as numpy names it (`<f4`), all axes."""

    dtype: str
    shape: tuple[int, ...]


class Files(Protocol):
    """The files of a data set, named below its root."""

    def names(self) -> Iterable[str]:
        """List all files."""

    def is_inside(self, name: str) -> bool:
        """Say whether the file, with all links followed, lies below the root."""

    def n_bytes(self, name: str) -> int | None:
        """Give the size; None if there is no such regular file."""

    def sha256(self, name: str) -> str:
        """Read the file and hash it."""

    def header(self, name: str) -> Header:
        """Read the header of a shard; DataError if it is none or does not fit the size."""

    def table_rows(self, name: str) -> int:
        """Count the rows of a table; DataError if it is none."""

    def n_lines(self, name: str) -> int:
        """Count the lines of a text file."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: the place, what it is, how bad."""

    where: str
    what: str
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(frozen=True, slots=True)
class Checked:
    """What was looked at and what was found."""

    findings: tuple[Finding, ...]
    n_records: int
    n_files: int
    n_bytes: int
    n_bytes_hashed: int

    @property
    def n_errors(self) -> int:
        """The number of findings that are errors."""
        return sum(finding.severity == "error" for finding in self.findings)


Entries: TypeAlias = dict[str, ShardEntry | FileEntry]
Subset: TypeAlias = tuple[int, int]


def validate(
    record: bytes,
    lines: Iterable[Record | DataError],
    files: Files,
    *,
    checksums: bool = False,
    subset: Subset = (1, 1),
    leakage: str | None = None,
) -> Checked:
    """Find all that is wrong with a data set.

    Parameters
    ----------
    record : bytes
        dataset.json.
    lines : iterable
        One item a line of manifest.jsonl, as `codec.scan_manifest` gives them.
    checksums : bool
        Read every file and compare its sha256.
    subset : tuple of int
        `(k, n)`: hash only the k-th of n parts of the files, k = 1..n.
    leakage : str, optional
        A field whose values may not be in two splits.
    """
    dataset, findings = _open(record)
    tally = _Tally(dataset, leakage)
    for number, line in enumerate(lines, start=1):
        findings += tally.take(f"{MANIFEST}:{number}", line)
    findings += tally.end()
    entries = _entries(dataset)
    findings += _listing(entries, files)
    findings += [found for name in sorted(entries) for found in _file(name, entries[name], files)]
    findings += _shards(dataset, files)
    findings += _tables(tally.tables, files)
    findings += _failure_count(dataset, files)
    hashed = _part(sorted(entries), subset) if checksums else []
    findings += [found for name in hashed for found in _content(name, entries[name], files)]
    return Checked(
        tuple(findings),
        tally.n_records,
        len(entries),
        sum(entry.bytes for entry in entries.values()),
        sum(entries[name].bytes for name in hashed),
    )


def parse_subset(text: str) -> Subset:
    """Read `--subset`, such as `1/5`.

    Raises
    ------
    UsageError
        Not k/n with 1 <= k <= n.
    """
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise UsageError(
            f"{text!r} is no part of the files",
            where="--subset",
            hint="give k/n with 1 <= k <= n, such as 1/5",
        )
    return int(found[1]), int(found[2])


def path_fault(name: str) -> str | None:
    """Say why a name may not stand in a manifest; None if it may."""
    parts = name.split("/")
    if not name or "\0" in name:
        return "is empty or holds NUL"
    if name.startswith(("/", "~")) or "\\" in name or _DRIVE.match(name) or "://" in name:
        return "is not relative with forward slashes"
    if ".." in parts:
        return "climbs out with .."
    if "" in parts or "." in parts:
        return "has an empty part or a dot as part"
    return None


def _open(record: bytes) -> tuple[Dataset | None, list[Finding]]:
    try:
        dataset = codec.decode_unchecked(record, where=RECORD)
    except DataError as error:
        return None, [Finding(RECORD, error.what)]
    fault = codec.self_fault(record)
    return dataset, [Finding(RECORD, fault)] if fault else []


@dataclass(slots=True)
class _Tally:
    """What is summed over the records."""

    dataset: Dataset | None
    leakage: str | None
    n_records: int = 0
    n_lines: int = 0
    seconds: array[float] = field(default_factory=lambda: array("d"))
    labels: Counter[str] = field(default_factory=Counter)
    splits: Counter[str] = field(default_factory=Counter)
    tables: dict[str, int] = field(default_factory=dict)
    seen: dict[str, str] = field(default_factory=dict)
    groups: dict[str, set[str]] = field(default_factory=dict)
    spans: dict[tuple[str, str | None], dict[str, array[float]]] = field(default_factory=dict)

    def take(self, where: str, line: Record | DataError) -> list[Finding]:
        """Check one line and count it."""
        self.n_lines += 1
        if isinstance(line, DataError):
            return [Finding(where, line.what)]
        self._count(line)
        found = [*self._unique(where, line), *self._group(where, line)]
        found += [Finding(where, what) for check in _CHECKS for what in check(line)]
        found += [Finding(where, what) for what in _placed(line, self.dataset)]
        return found

    def _count(self, record: Record) -> None:
        self.n_records += 1
        self.seconds.append(record.duration_s)
        if record.label is not None:
            self.labels[label_name(record.label)] += 1
        for ref in record.streams.values():
            if ref.table is not None:
                for table, rows in _pieces(ref):
                    self.tables[table] = max(self.tables.get(table, 0), rows[1])
        if record.split is not None:
            self.splits[record.split] += 1
            spans = self.spans.setdefault((record.session, record.source), {})
            spans.setdefault(record.split, array("d")).extend((record.begin_s, record.end_s))

    def _unique(self, where: str, record: Record) -> Iterator[Finding]:
        if (first := self.seen.setdefault(record.id, where)) != where:
            yield Finding(where, f"id {record.id!r} stands at {first} already")

    def _group(self, where: str, record: Record) -> Iterator[Finding]:
        if self.leakage is None or record.split is None:
            return
        group = field_value(record, self.leakage)
        if group is None:
            yield Finding(where, f"has no {self.leakage}, so leakage cannot be ruled out")
        else:
            self.groups.setdefault(group, set()).add(record.split)

    def end(self) -> list[Finding]:
        """Check what only the whole manifest shows."""
        found = [
            Finding(MANIFEST, f"{self.leakage} {group!r} is in splits {', '.join(sorted(splits))}")
            for group, splits in sorted(self.groups.items())
            if len(splits) > 1
        ]
        for (session, _), spans in sorted(self.spans.items(), key=lambda item: str(item[0])):
            found += _overlap(session, spans)
        if self.dataset is not None:
            found += [Finding(RECORD, what) for what in self._sums(self.dataset)]
        return found

    def _sums(self, dataset: Dataset) -> Iterator[str]:
        totals, seconds = dataset.totals, math.fsum(self.seconds)
        if totals.records != self.n_lines:
            yield f"totals.records is {totals.records}, the manifest has {self.n_lines} lines"
        if not math.isclose(totals.seconds, seconds, rel_tol=1e-9, abs_tol=1e-6):
            yield f"totals.seconds is {totals.seconds}, the records add up to {seconds}"
        n_bytes = sum(entry.bytes for entry in _entries(dataset).values())
        if totals.bytes != n_bytes:
            yield f"totals.bytes is {totals.bytes}, the files add up to {n_bytes}"
        yield from _counts("labels", {n: c.count for n, c in dataset.labels.items()}, self.labels)
        yield from _counts("splits", _split_counts(dataset.splits), self.splits)


def _counts(name: str, stated: dict[str, int], counted: Counter[str]) -> Iterator[str]:
    for key in sorted(stated.keys() | counted.keys()):
        if stated.get(key, 0) != counted[key]:
            yield f"{name}.{key} counts {stated.get(key, 0)}, the manifest has {counted[key]}"


def _split_counts(splits: dict[str, Any]) -> dict[str, int]:
    """Read the records of each split: a number, or a value with a field `records`."""
    return {
        name: value.get("records", 0) if isinstance(value, dict) else value
        for name, value in splits.items()
    }


def _overlap(session: str, spans: dict[str, array[float]]) -> Iterator[Finding]:
    """Find records of two splits that share time; the first such pair of a session."""
    if len(spans) < 2:
        return
    ordered = sorted(
        (begin, end, split)
        for split, times in spans.items()
        for begin, end in zip(times[::2], times[1::2], strict=True)
        if end > begin
    )
    last: dict[str, float] = {}
    for begin, end, split in ordered:
        for other, until in last.items():
            if other != split and until > begin:
                what = f"records of splits {other} and {split} overlap at {begin:g} s"
                yield Finding(MANIFEST, f"session {session!r}: {what}")
                return
        last[split] = max(end, last.get(split, end))


def _streams(record: Record) -> Iterator[str]:
    for name, ref in record.streams.items():
        if fault := path_fault(ref.path):
            yield f"stream {name!r}: {ref.path!r} {fault}"
        if ref.rows[0] > ref.rows[1]:
            yield f"stream {name!r}: rows {list(ref.rows)} run backwards"
        if ref.rate_hz is not None and ref.rate_hz <= 0:
            yield f"stream {name!r}: rate {ref.rate_hz} Hz is not positive"


def _source(record: Record) -> Iterator[str]:
    """Find a source that leaves the input root; how it is spelled is the user's affair."""
    name = record.source
    if name is not None and (name.startswith("/") or "\0" in name or ".." in name.split("/")):
        yield f"source {name!r} is not below the input root"


def _pieces(ref: StreamRef) -> Sequence[tuple[str, tuple[int, int]]]:
    try:
        return ref.pieces
    except DataError:
        return ()


def _parts(record: Record) -> Iterator[str]:
    for name, ref in record.streams.items():
        try:
            ref.pieces  # noqa: B018 - read to see whether it can be
        except DataError as error:
            yield f"stream {name!r}: {error.what}"


def _shares(record: Record) -> Iterator[str]:
    for name, share in (record.valid or {}).items():
        if not 0 <= share <= 1:
            yield f"valid.{name} is {share}, not between 0 and 1"
    for name, bound_s in (record.bound_s or {}).items():
        if bound_s is not None and bound_s < 0:
            yield f"bound_s.{name} is {bound_s}, below 0"
    for name in (record.valid or {}).keys() | (record.bound_s or {}).keys():
        if name not in record.streams:
            yield f"has a mask share or bound of {name!r}, which is none of its streams"


def _words(record: Record) -> Iterator[str]:
    for word, begin_s, end_s in record.words or ():
        if end_s < begin_s:
            yield f"word {word!r} ends at {end_s} s, before it begins at {begin_s} s"


_CHECKS = (_streams, _parts, _source, _shares, _words)


def _placed(record: Record, dataset: Dataset | None) -> Iterator[str]:
    """Find streams and sessions that dataset.json does not know, and rows beyond a shard."""
    if dataset is None:
        return
    if dataset.sessions and record.session not in dataset.sessions:
        yield f"session {record.session!r} is not in {RECORD}"
    for name, ref in record.streams.items():
        if ref.table is not None:
            for table, _ in _pieces(ref):
                if table not in dataset.files:
                    yield f"stream {name!r}: table {table!r} is not in {RECORD}"
            continue
        shard = _shard(dataset.modalities.get(name), ref.path)
        if shard is None:
            yield f"stream {name!r}: {ref.path!r} is no shard of {name!r} in {RECORD}"
        elif ref.rows[1] > shard.rows:
            yield f"stream {name!r}: rows {list(ref.rows)} go beyond the {shard.rows} of the shard"


def _shard(modality: Modality | None, path: str) -> ShardEntry | None:
    # Shards are numbered in order, so the number finds the entry without a search.
    shards = modality.shards if modality is not None else ()
    digits = re.search(r"(\d+)\.npy$", path)
    k = int(digits[1]) if digits and len(digits[1]) < 10 else 0
    if k < len(shards) and shards[k].path == path:
        return shards[k]
    return next((shard for shard in shards if shard.path == path), None)


def _entries(dataset: Dataset | None) -> Entries:
    if dataset is None:
        return {}
    return {**dataset.files, **dataset.shard_entries()}


def _listing(entries: Entries, files: Files) -> Iterator[Finding]:
    if entries and MANIFEST not in entries:
        yield Finding(RECORD, f"does not list {MANIFEST}")
    for name in sorted(set(files.names()) - entries.keys() - {RECORD}):
        if entries and not name.startswith(OURS):
            yield Finding(name, f"is not listed in {RECORD}", "warning")
    folded = Counter(unicodedata.normalize("NFC", name).casefold() for name in entries)
    for name in sorted(entries):
        if folded[unicodedata.normalize("NFC", name).casefold()] > 1:
            yield Finding(name, "differs from another only in case or Unicode form", "warning")


def _file(name: str, entry: ShardEntry | FileEntry, files: Files) -> Iterator[Finding]:
    if fault := path_fault(name):
        yield Finding(RECORD, f"{name!r} {fault}")
    elif not files.is_inside(name):
        yield Finding(name, "leads out of the data set through a link")
    elif (n_bytes := files.n_bytes(name)) is None:
        yield Finding(name, "is missing or no regular file")
    elif n_bytes != entry.bytes:
        yield Finding(name, f"has {n_bytes} bytes, recorded {entry.bytes}")
    if any(_DEVICE.match(part) for part in name.split("/")):
        yield Finding(name, "cannot be named so on Windows", "warning")


def _content(name: str, entry: ShardEntry | FileEntry, files: Files) -> Iterator[Finding]:
    if not _readable(name, files):
        return
    digest = files.sha256(name)
    if digest != entry.sha256:
        yield Finding(name, f"has sha256 {digest}, recorded {entry.sha256}")


def _readable(name: str, files: Files) -> bool:
    """Say whether a file may and can be read; `_file` has said why not."""
    return not path_fault(name) and files.is_inside(name) and files.n_bytes(name) is not None


def _shards(dataset: Dataset | None, files: Files) -> Iterator[Finding]:
    for modality in dataset.modalities.values() if dataset else ():
        for shard in modality.shards:
            if _readable(shard.path, files):
                yield from _header(shard, modality, files)


def _header(shard: ShardEntry, modality: Modality, files: Files) -> Iterator[Finding]:
    try:
        header = files.header(shard.path)
    except DataError as error:
        yield Finding(shard.path, error.what)
        return
    expected = (shard.rows, *shard.row_shape)
    if header.shape != expected:
        yield Finding(shard.path, f"has the shape {header.shape}, recorded {expected}")
    if modality.dtype is not None and not _is_dtype(header.dtype, modality.dtype):
        yield Finding(shard.path, f"holds {header.dtype}, recorded {modality.dtype}")


def _is_dtype(found: str, recorded: str) -> bool:
    try:
        return np.dtype(found) == np.dtype(recorded)
    except TypeError:
        return False


def _tables(n_rows: dict[str, int], files: Files) -> Iterator[Finding]:
    for name, needed in sorted(n_rows.items()):
        if not _readable(name, files):
            continue
        try:
            found = files.table_rows(name)
        except DataError as error:
            yield Finding(name, error.what)
            continue
        if found < needed:
            yield Finding(name, f"has {found} rows, the manifest names {needed}")


def _failure_count(dataset: Dataset | None, files: Files) -> Iterator[Finding]:
    if dataset is None:
        return
    listed = FAILURES in dataset.files and _readable(FAILURES, files)
    found = files.n_lines(FAILURES) if listed else 0
    if found != dataset.totals.failures:
        yield Finding(
            RECORD, f"totals.failures is {dataset.totals.failures}, {FAILURES} has {found} lines"
        )


def _part(names: list[str], subset: Subset) -> list[str]:
    return names[subset[0] - 1 :: subset[1]]
