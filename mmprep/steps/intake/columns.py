"""One schema a stream: what a schema file declares of it, and what its files have.

Rules
-----
- What is declared comes first, in its order; a column that a file lacks is missing there.
- Columns that are not declared, or without a schema those that not all files of a stream have:
  `add` keeps them, `drop` leaves them out, `fail` is an error that names the first file and column.
- Streams that the schema file does not name are treated as without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mmprep import tables
from mmprep.errors import DataError
from mmprep.steps.intake.schemafile import Schema, StreamSpec

POLICIES = ("add", "fail", "drop")
_HINT = "--on-column-change add keeps such columns, drop leaves them out"


@dataclass(slots=True)
class StreamSchema:
    """The schema of a stream, and the items that have it."""

    schema: tables.TableSchema
    sources: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Look:
    """What one file shows of a stream."""

    source: str
    schema: tables.TableSchema

    @property
    def names(self) -> list[str]:
        """Its columns."""
        return [column.name for column in self.schema.columns]


@dataclass(frozen=True, slots=True)
class Settler:
    """Settle the schemas of streams.

    Parameters
    ----------
    policy : str
        One of `POLICIES`.
    units : mapping of str to str
        What the user said of columns.
    say : callable
        Tells what was decided.
    """

    declared: Schema
    policy: str
    units: Mapping[str, str]
    say: Callable[[str], None]

    def settle(self, looks: Mapping[str, Sequence[Look]]) -> dict[str, StreamSchema]:
        """Give the schema of each stream.

        Raises
        ------
        DataError
            A file does not go with the schema, or with the policy.
        """
        for name in self.declared.keys() - looks.keys():
            self.say(f"{name}: the schema names this stream, and no input has it")
        return {
            stream: StreamSchema(self._schema(stream, found), {look.source for look in found})
            for stream, found in looks.items()
        }

    def _schema(self, stream: str, looks: Sequence[Look]) -> tables.TableSchema:
        spec = self.declared.get(stream)
        return self._united(stream, looks) if spec is None else self._as_said(stream, spec, looks)

    # --- without a schema ---

    def _united(self, stream: str, looks: Sequence[Look]) -> tables.TableSchema:
        merged = tables.merge_schemas(look.schema for look in looks)
        if not merged.time.absolute:
            self._tell_relative(stream, looks)
        if self.policy == "add":
            return merged
        first = looks[0]
        if self.policy == "fail":
            for look in looks:
                _refuse_change(look, first.names, f"{first.source} has", f"{first.source} lacks")
        common = set(first.names).intersection(*(look.names for look in looks))
        self._tell_dropped(stream, merged.columns, common, f"not all of its {len(looks)} files")
        return replace(merged, columns=tuple(c for c in merged.columns if c.name in common))

    def _tell_relative(self, stream: str, looks: Sequence[Look]) -> None:
        """Say whose dates are lost where other files of the stream have none."""
        dated = [look.source for look in looks if look.schema.time.absolute]
        if dated:
            bare = next(
                look.source
                for look in looks
                if not look.schema.time.absolute and look.schema.time.evidence != "empty"
            )
            self.say(
                f"{stream}: {dated[0]} has dates ({len(dated)} of {len(looks)} files do) and {bare}"
                " has none: the times of all become durations; a --layout that makes them streams"
                " of their own keeps the dates"
            )

    def _tell_dropped(
        self, stream: str, columns: Iterable[tables.Column], kept: Iterable[str], who: str
    ) -> None:
        if names := [column.name for column in columns if column.name not in kept]:
            listed = ", ".join(names)
            self.say(f"{stream}: dropped {len(names)} columns that {who} have: {listed}")

    # --- with a schema ---

    def _as_said(self, stream: str, spec: StreamSpec, looks: Sequence[Look]) -> tables.TableSchema:
        names = [column.name for column in spec.columns]
        for look in looks:
            _check_time(look, spec)
            if self.policy == "fail":
                _refuse_change(look, names, "the schema has", "the schema lacks")
        self._tell_missing(stream, names, looks)
        merged = tables.merge_schemas(look.schema for look in looks)
        known = {column.name: column for column in merged.columns}
        columns = [_column(spec, name, known.get(name)) for name in names]
        if self.policy == "add":
            columns += [column for column in merged.columns if column.name not in names]
        else:
            self._tell_dropped(stream, merged.columns, names, "the schema does not")
        time = _time(spec, merged.time)
        return replace(merged, columns=tables.with_units(columns, self.units), time=time)

    def _tell_missing(self, stream: str, names: Sequence[str], looks: Sequence[Look]) -> None:
        lacking = [(look, [n for n in names if n not in look.names]) for look in looks]
        lacking = [(look, missing) for look, missing in lacking if missing]
        if lacking:
            look, missing = lacking[0]
            self.say(
                f"{stream}: {len(lacking)} of {len(looks)} files lack columns of the schema, which"
                f" are null there: {look.source} has no {', '.join(missing)}"
            )


def _refuse_change(look: Look, names: Sequence[str], has: str, lacks: str) -> None:
    """Refuse a file whose columns are not those."""
    for name in look.names:
        if name not in names:
            raise DataError(f"has a column {name!r} that {lacks}", where=look.source, hint=_HINT)
    for name in names:
        if name not in look.names:
            raise DataError(f"has no column {name!r}, which {has}", where=look.source, hint=_HINT)


def _check_time(look: Look, spec: StreamSpec) -> None:
    own, said = look.schema.time, spec.time
    if own.evidence == "empty":
        return
    if said.holds and own.unit != said.unit:
        raise DataError(
            f"the unit of its stamps is {own.unit!r}, the schema says {said.unit!r}",
            where=look.source,
            hint="leave the unit out of the schema",
        )
    if said.absolute and not own.absolute:
        raise tables.no_unix_time(look.source)


def _time(spec: StreamSpec, merged: tables.TimeColumn) -> tables.TimeColumn:
    rank, said, time = tables.EVIDENCE.index, spec.time, merged
    if said.unit is not None and rank(said.evidence or "given") >= rank(time.evidence):
        name = said.source_name or time.source_name
        time = replace(time, unit=said.unit, evidence=said.evidence or "given", source_name=name)
    if said.absolute is not None:
        time = replace(time, absolute=said.absolute, fixed=said.absolute)
    return time


def _column(spec: StreamSpec, name: str, own: tables.Column | None) -> tables.Column:
    (said,) = (column for column in spec.columns if column.name == name)
    base = own or tables.Column(name, "null", name)
    return tables.Column(
        name,
        said.type or base.kind,
        said.source_name or base.source_name,
        said.unit if said.unit is not None else base.unit,
        fixed=said.type is not None or base.fixed,
    )
