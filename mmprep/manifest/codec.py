"""Records and data sets to JSON and back.

Rules
-----
- A record is one line: known keys in the order of `model.Record`, then the unknown ones in the
  order they came in; UTF-8 unescaped; floats as the shortest text that reads back; a newline.
- `valid`, `bound_s` and `words` are left out where a record has none; every other known key is
  written, null if need be. A stream has `shard, rows, rate_hz, offset_s` or
  `table, rows, rate_hz, clock`.
- NaN and infinity are refused: JSON has no word for them.
- dataset.json ends in the key `self`, the sha256 of all bytes before the quote that opens it.
- Reading a manifest keeps one line in memory; a line is at most 64 MiB; a last line without a
  newline has been cut and is an error.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from mmprep.errors import DataError
from mmprep.manifest.model import (
    EXTRA_KEY,
    SCHEMA_VERSION,
    Dataset,
    FileEntry,
    LabelCount,
    Modality,
    Record,
    Session,
    ShardEntry,
    StreamRef,
    Totals,
)

MAX_LINE_BYTES = 64 * 2**20

_HINT = "run `mmprep manifest validate` on its data set, or write the manifest again"
_SELF = re.compile(rb'"self": "([0-9a-f]{64})"\n\}\n\Z')
_ATOMS = frozenset({str, int, bool, type(None)})
_SORTED = ("modalities", "sessions", "labels", "files")

T = TypeVar("T", bound=msgspec.Struct)

_line_decoder = msgspec.json.Decoder(Record)
_plain_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


def encode_record(record: Record) -> bytes:
    """Write a record as its line of the manifest, newline included.

    Raises
    ------
    DataError
        A number is NaN or infinite, or a text is not Unicode.
    """
    return _encode(record, where=f"record {record.id!r}") + b"\n"


def encode_records(records: Iterable[Record]) -> Iterator[bytes]:
    """Write records one after the other; keeps none."""
    return map(encode_record, records)


def decode_record(line: bytes, *, where: str | None = None) -> Record:
    """Read one line of a manifest, with or without its newline.

    Parameters
    ----------
    line : bytes
        A JSON object in UTF-8.
    where : str, optional
        `file:line` for the message.

    Raises
    ------
    DataError
        Not JSON, a required key is missing, or a value has the wrong type.
    """
    try:
        return _line_decoder.decode(line)
    except (msgspec.DecodeError, RecursionError, DataError):
        return _convert(_plain(line, where), Record, where)


def scan_manifest(path: str | Path) -> Iterator[Record | DataError]:
    """Read a manifest line by line; a bad line comes as its error, one item a line.

    Raises
    ------
    DataError
        There is no such file.
    """
    with _open(path) as stream:
        yield from _scan(stream, str(path))


def read_manifest(path: str | Path) -> Iterator[Record]:
    """Read a manifest line by line and stop at the first bad line.

    Raises
    ------
    DataError
        At `file:line`: malformed, a required key missing, a wrong type, or cut.
    """
    return _strict(scan_manifest(path))


def read_records(stream: BinaryIO, *, name: str) -> Iterator[Record]:
    """Read the lines of an open manifest, such as stdin; `name` stands in messages."""
    return _strict(_scan(stream, name))


def encode_dataset(dataset: Dataset) -> bytes:
    """Write dataset.json, indented, with its own sha256 as the last key.

    Raises
    ------
    DataError
        A number is NaN or infinite, or a text is not Unicode.
    """
    in_order = {name: dict(sorted(getattr(dataset, name).items())) for name in _SORTED}
    body = _encode(msgspec.structs.replace(dataset, **in_order), where="dataset.json")
    text = msgspec.json.format(body, indent=2)
    head = text[: text.rindex(b"\n}")] + b",\n  "
    return head + b'"self": "%s"\n}\n' % hashlib.sha256(head).hexdigest().encode()


def decode_dataset(data: bytes, *, where: str = "dataset.json") -> Dataset:
    """Read dataset.json.

    Raises
    ------
    DataError
        Not JSON, a wrong type, another schema version, or not what was written (`self`).
    """
    dataset = decode_unchecked(data, where=where)
    if why := self_fault(data):
        raise DataError(why, where=where, hint="run the step that wrote the data set again")
    return dataset


def decode_unchecked(data: bytes, *, where: str = "dataset.json") -> Dataset:
    """Read dataset.json without looking at `self`.

    Raises
    ------
    DataError
        Not JSON, a wrong type, or another schema version.
    """
    fields = _plain(data, where)
    if isinstance(fields, dict):
        _check_version(fields.get("schema_version"), where)
        fields.pop("self", None)
    return _convert(fields, Dataset, where)


def self_fault(data: bytes) -> str | None:
    """Say what is wrong with the last key of dataset.json; None if it is right."""
    found = _SELF.search(data)
    if found is None:
        return "does not end in its own sha256, so it was cut or changed after it was written"
    digest = hashlib.sha256(data[: found.start()]).hexdigest()
    if digest != found[1].decode():
        return f"was changed after it was written: sha256 {digest}, recorded {found[1].decode()}"
    return None


def _open(path: str | Path) -> BinaryIO:
    try:
        return Path(path).open("rb")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise DataError("there is no such manifest", where=str(path), hint=_HINT) from error


def _scan(stream: BinaryIO, name: str) -> Iterator[Record | DataError]:
    number = 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        yield _attempt(line, f"{name}:{number}")
        while len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
            line = stream.readline(MAX_LINE_BYTES + 1)


def _attempt(line: bytes, where: str) -> Record | DataError:
    if len(line) > MAX_LINE_BYTES:
        return DataError(f"the line has over {MAX_LINE_BYTES} bytes", where=where, hint=_HINT)
    if not line.endswith(b"\n"):
        return DataError("the last line has no newline: it was cut", where=where, hint=_HINT)
    try:
        return decode_record(line, where=where)
    except DataError as error:
        return error


def _strict(lines: Iterable[Record | DataError]) -> Iterator[Record]:
    for line in lines:
        if isinstance(line, DataError):
            raise line
        yield line


def _plain(data: bytes, where: str | None) -> Any:
    if not data.strip():
        raise DataError("it is empty, expected a JSON object", where=where, hint=_HINT)
    try:
        return _plain_decoder.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DataError(f"not JSON: {error}", where=where, hint=_HINT) from error


def _convert(fields: Any, kind: type[T], where: str | None) -> T:
    try:
        return msgspec.convert(_with_extra(fields, kind), kind)
    except msgspec.ValidationError as error:
        raise DataError(str(error), where=where, hint=_HINT) from error
    except DataError as error:
        raise DataError(error.what, where=where, hint=error.hint or _HINT) from error


def _with_extra(fields: Any, kind: type[msgspec.Struct]) -> Any:
    """Move the fields that `kind` does not know, here and below, to where msgspec finds them."""
    if not isinstance(fields, dict):
        return fields
    known = set(kind.__struct_fields__) - {"extra"}
    found = {name: value for name, value in fields.items() if name in known}
    for name, nested in _NESTED.get(kind, {}).items():
        if name in found:
            found[name] = nested(found[name])
    unknown = {name: value for name, value in fields.items() if name not in known}
    return found | {EXTRA_KEY: unknown}


def _one(kind: type[msgspec.Struct]) -> Callable[[Any], Any]:
    return lambda value: _with_extra(value, kind)


def _each(kind: type[msgspec.Struct]) -> Callable[[Any], Any]:
    def move(values: Any) -> Any:
        if isinstance(values, dict):
            return {name: _with_extra(value, kind) for name, value in values.items()}
        if isinstance(values, list):
            return [_with_extra(value, kind) for value in values]
        return values

    return move


# The fields that hold values which keep unknown fields of their own.
_NESTED: dict[type[msgspec.Struct], dict[str, Callable[[Any], Any]]] = {
    Record: {"streams": _each(StreamRef)},
    Modality: {"shards": _each(ShardEntry)},
    Dataset: {
        "modalities": _each(Modality),
        "sessions": _each(Session),
        "labels": _each(LabelCount),
        "totals": _one(Totals),
        "files": _each(FileEntry),
    },
}


def _check_version(version: Any, where: str) -> None:
    if version != SCHEMA_VERSION:
        raise DataError(
            f"schema_version is {version!r}, this mmprep reads {SCHEMA_VERSION}",
            where=where,
            hint="install the mmprep that wrote the data set, or run the step again",
        )


def _encode(value: msgspec.Struct, where: str) -> bytes:
    try:
        return _encoder.encode(_builtin(value))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise DataError(f"cannot be written as JSON: {error}", where=where) from error


def _builtin(value: Any) -> Any:
    """Turn a value into what JSON knows; ValueError for NaN and infinity."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is float:
        return _finite(value)
    if kind is dict:
        return {name: _builtin(item) for name, item in value.items()}
    if kind is tuple or kind is list:
        return [_builtin(item) for item in value]
    if isinstance(value, msgspec.Struct):
        return {name: _builtin(item) for name, item in _fields(value).items()}
    return _subclass(value)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value} has no JSON form")
    return value


def _subclass(value: Any) -> Any:
    """Accept numpy's float64, enumerations and other kinds of the types that JSON knows."""
    kinds: tuple[type, ...] = (str, int, float, dict, list)
    for kind in kinds:
        if isinstance(value, kind):
            return _builtin(kind(value))
    raise TypeError(f"{value!r} is no JSON value")


def _fields(value: msgspec.Struct) -> dict[str, Any]:
    fields = msgspec.structs.asdict(value)
    extra: dict[str, Any] = fields.pop("extra")
    for name in _absent(value, fields):
        del fields[name]
    return fields | extra


def _absent(value: msgspec.Struct, fields: dict[str, Any]) -> list[str]:
    """Name the fields that are left out of the JSON of a value."""
    optional: tuple[str, ...] = ()
    if isinstance(value, Record):
        optional = ("valid", "bound_s", "words")
    elif isinstance(value, StreamRef):
        optional = ("table", "clock") if value.table is None else ("shard", "offset_s")
    return [name for name in optional if fields[name] is None]
