"""The file of `--schema` and `--write-schema`: the columns and the time of streams, as JSON.

    {"schema_version": 1,
     "streams": {
       "eeg": {
         "rate_hz": "128/1",
         "time": {"unit": "s", "evidence": "name", "absolute": false, "source_name": "time"},
         "columns": [
           {"name": "F3 [uV]", "type": "float64", "unit": "uV"}
         ]}}}

Rules
-----
- Everything but `streams` and the name of a column may be left out; it is found out as it would be
  without the file. A key that is not known, or occurs twice, is an error.
- A type holds: a value that does not fit it is a bad cell.
- `time.unit` holds as `--time-unit` does, unless `evidence` says that it was judged; then files
  that themselves say another unit keep it, as they did when the file was written.
- `rate_hz` gives the times where the unit is `rate`; else it is only told.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import msgspec

from mmprep import tables
from mmprep.errors import DataError, UsageError
from mmprep.timebase import rate, rate_text

VERSION = 1
_HINT = "the README says what a schema file holds; --write-schema writes one"

Unit = Literal["s", "ms", "us", "ns", "iso", "clock", "rate"]
Evidence = Literal["empty", "none", "steps", "size", "name", "given"]


class ColumnSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A column; its name is that in the table."""

    name: str
    type: Literal["int64", "float64", "string"] | None = None
    source_name: str | None = None
    unit: str | None = None


class TimeSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The time of a stream, as in `tables.TimeColumn`."""

    unit: Unit | None = None
    evidence: Evidence | None = None
    absolute: bool | None = None
    source_name: str | None = None

    @property
    def holds(self) -> bool:
        """Whether the unit is that of all files, whatever they say."""
        return self.unit is not None and self.evidence in (None, "given")


class StreamSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A stream; it need not name all columns."""

    rate_hz: str | None = None
    time: TimeSpec = TimeSpec()
    columns: tuple[ColumnSpec, ...] = ()

    def declared(self, *, looks_further: bool) -> tables.Declared:
        """Give what is said to the reader of a file."""
        return tables.Declared(
            {column.name: column.type for column in self.columns},
            looks_further,
            self.time.source_name,
            self.time.unit if self.time.holds and self.time.unit != "rate" else None,
            self.rate_hz if self.time.unit == "rate" else None,
        )


Schema = Mapping[str, StreamSpec]


def read(path: str) -> dict[str, StreamSpec]:
    """Read a schema file: stream -> what is declared of it.

    Raises
    ------
    UsageError
        The file cannot be opened.
    DataError
        It is no JSON, has a key that is not known, or says something twice.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        value = json.loads(text, object_pairs_hook=_once)
    except OSError as error:
        raise UsageError(f"{error.strerror}", where=path) from error
    except json.JSONDecodeError as error:
        where = f"{path}:{error.lineno}"
        raise DataError(f"is no JSON: {error.msg}", where=where, hint=_HINT) from error
    except (UnicodeDecodeError, KeyError) as error:
        raise DataError(f"is no JSON: {error}", where=path, hint=_HINT) from error
    top = _converted(value, _Top, path, "")
    if top.schema_version != VERSION:
        raise DataError(f"schema_version is {top.schema_version}, known is {VERSION}", where=path)
    return {name: _stream(value, path, name) for name, value in top.streams.items()}


class _Top(msgspec.Struct, forbid_unknown_fields=True):
    streams: dict[str, Any]
    schema_version: int = VERSION


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise KeyError(f"the key {key!r} occurs twice in one object")
        found[key] = value
    return found


def _converted(value: Any, kind: Any, path: str, at: str) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$")
        place = f"{at}{place.rstrip('`')}".strip(".")
        where = f"{path}: {place}" if place else path
        raise DataError(what.replace("`", "'"), where=where, hint=_HINT) from error


def _stream(value: Any, path: str, name: str) -> StreamSpec:
    at = f"streams.{name}"
    spec: StreamSpec = _converted(value, StreamSpec, path, at)
    where = f"{path}: {at}"
    names = [column.name for column in spec.columns]
    if doubled := [column for column in names if names.count(column) > 1]:
        raise DataError(f"names the column {doubled[0]!r} twice", where=where)
    if taken := [column for column in names if column in tables.RESERVED]:
        raise DataError(
            f"a table has its own column {taken[0]!r}",
            where=where,
            hint=f"the raw file's is called {tables.RESERVED[taken[0]]!r} there",
        )
    if spec.rate_hz is not None:
        rate(spec.rate_hz, where=f"{where}.rate_hz")
    return spec


def declared(streams: Mapping[str, str], schema: Schema, *, looks_further: bool) -> dict[str, Any]:
    """Give what a schema declares of the streams of an item, as JSON values.

    Parameters
    ----------
    streams : mapping of str to str
        The reader's name -> that in the data set.
    """
    return {
        own: msgspec.to_builtins(schema[stream].declared(looks_further=looks_further))
        for own, stream in sorted(streams.items())
    }


def write(schemas: Mapping[str, tables.TableSchema], rates: Mapping[str, Fraction | None]) -> bytes:
    """Give the file that holds these schemas: one column a line.

    Parameters
    ----------
    rates : mapping of str to (Fraction or None)
        Stream -> the rate that all its tables have; None or absent: they differ, or have none.
    """
    streams = [
        f"  {json.dumps(name, ensure_ascii=False)}: {_text(schema, rates.get(name))}"
        for name, schema in sorted(schemas.items())
    ]
    head = f'{{\n "schema_version": {VERSION},\n "streams": {{\n'
    return (head + ",\n".join(streams) + "\n }\n}\n").encode()


def _text(schema: tables.TableSchema, rate_hz: Fraction | None) -> str:
    told = {name: getattr(schema.time, name) for name in TimeSpec.__struct_fields__}
    columns = ",\n".join(f"    {_line(_column(column))}" for column in schema.columns)
    rate_line = f'   "rate_hz": "{rate_text(rate_hz)}",\n' if rate_hz is not None else ""
    return f'{{\n{rate_line}   "time": {_line(told)},\n   "columns": [\n{columns}\n   ]\n  }}'


def _column(column: tables.Column) -> dict[str, Any]:
    kind = "float64" if column.kind == "null" else column.kind
    about = {"source_name": column.source_name, "unit": column.unit}
    return {"name": column.name, "type": kind, **about}


def _line(known: Mapping[str, Any]) -> str:
    filled = {key: value for key, value in known.items() if value not in ("", None)}
    return json.dumps(filled, ensure_ascii=False)
