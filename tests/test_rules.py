"""The layer rule, and what no module of the package may do."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests import layers

PACKAGE = Path(__file__).resolve().parent.parent / "mmprep"


def test_layers_are_kept():
    assert list(layers.faults(PACKAGE)) == []


@pytest.mark.parametrize(
    ("parts", "name", "why"),
    [
        (("align",), "mmprep.steps.convert", "align may not import mmprep.steps.convert"),
        (("steps", "mfcc"), "click", "steps may not import click"),
        (("sources", "e4"), "mmprep.sources.text", "sources/e4 may not import its sibling text"),
        (
            ("steps", "corpus", "place"),
            "mmprep.steps.sessions.sync",
            "steps/corpus may not import the room sessions",
        ),
        (("files",), "mmprep.utils", "files may not import mmprep.utils: not a layer"),
    ],
)
def test_layer_check_finds_a_breach(parts, name, why):
    found = layers.fault(PACKAGE, parts, name)
    assert found is not None
    assert found.startswith(why.split(":")[0][:20])


def _calls(tree: ast.AST) -> list[str]:
    return [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]


def test_nobody_unpickles_evaluates_or_extracts():
    banned = {"eval", "exec", "pickle.load", "pickle.loads", "joblib.load", "pd.read_pickle"}
    for path in PACKAGE.rglob("*.py"):
        calls = _calls(ast.parse(path.read_text(encoding="utf-8")))
        assert banned.isdisjoint(calls), path
        assert not [c for c in calls if c.endswith((".extractall", ".extract"))], path


def test_no_shard_is_written_through_a_map():
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("memmap"):
                assert "'w+'" not in ast.unparse(node), path
                assert "'r+'" not in ast.unparse(node), path
