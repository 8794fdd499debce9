"""One schema for the files of a stream."""

from __future__ import annotations

import copy
import pickle

import pytest

from mmprep.errors import DataError
from mmprep.tables import Column, TableSchema, TimeColumn, Widen, conform, merge_schemas, table_name

SECONDS = TimeColumn("s", "name")


def schema(absolute: bool = False, **kinds: str) -> TableSchema:
    columns = tuple(Column(name, kind, name) for name, kind in kinds.items())
    return TableSchema(columns, TimeColumn("s", "name", absolute))


def test_merge_takes_the_widest_kind_of_each_column():
    merged = merge_schemas([schema(a="int64", b="float64"), schema(a="string", b="null")])
    assert merged.kinds == {"a": "string", "b": "float64"}


def test_merge_unites_columns_in_order_of_first_appearance():
    merged = merge_schemas([schema(b="int64"), schema(a="int64", b="int64", c="null")])
    assert list(merged.kinds) == ["b", "a", "c"]


def test_merge_is_absolute_only_if_all_files_are():
    assert merge_schemas([schema(absolute=True), schema(absolute=True)]).time.absolute
    assert not merge_schemas([schema(absolute=True), schema()]).time.absolute


def test_merge_asks_no_file_without_stamps():
    silent = TableSchema((), TimeColumn("s", "empty"))
    assert merge_schemas([silent, schema(absolute=True)]).time.absolute


def test_merge_takes_the_time_unit_with_the_strongest_evidence():
    guessed = TableSchema((), TimeColumn("s", "steps"))
    named = TableSchema((), TimeColumn("ms", "name"))
    assert merge_schemas([guessed, named]).time.unit == "ms"


def test_merge_of_nothing_is_an_error():
    with pytest.raises(DataError, match="no table"):
        merge_schemas([])


def test_widened_schema_holds_what_was_asked_for():
    wider = schema(absolute=True, a="int64", b="null").widened(
        Widen({"b": "string"}, relative=True)
    )
    assert wider.kinds == {"a": "int64", "b": "string"}
    assert not wider.time.absolute


def test_empty_column_widened_to_float_needs_no_rewrite():
    before, after = schema(a="null"), schema(a="float64")
    assert before.stored() == after.stored() != schema(a="int64").stored()


def test_widen_survives_a_process_boundary():
    request = pickle.loads(pickle.dumps(Widen({"a": "string"}, relative=True, examples={"a": "x"})))
    assert (request.kinds, request.relative, request.examples) == (
        {"a": "string"},
        True,
        {"a": "x"},
    )
    assert copy.copy(request).kinds == request.kinds


def test_conform_finds_columns_by_name():
    found = conform(schema(a="int64", b="string"), ["b", "z"])
    assert [column and column.kind for column in found] == ["string", None]


def test_names_of_the_table_itself_are_not_taken_by_channels():
    assert table_name("id") == "source_id"
    assert table_name("time", taken=["source_time"]) == "source_time_"
    assert table_name("gsr") == "gsr"


def test_unknown_kind_is_refused():
    with pytest.raises(DataError, match="no kind 'text'"):
        Column("a", "text")
