"""The benchmarks still run: each once, on as little as there can be."""

from __future__ import annotations

import importlib

import pytest

from tests.bench import measure
from tests.bench.__main__ import NAMES


@pytest.mark.parametrize("name", NAMES)
def test_benchmark_runs_on_little(name, tmp_path):
    bench = importlib.import_module(f"tests.bench.bench_{name}")
    found = list(bench.rows(tmp_path, measure.TINY))
    rows = [row for row in found if isinstance(row, measure.Row)]
    assert rows or (name == "truth" and found)  # that one is about errors, not seconds
    assert all(row.ours_s > 0 and row.ratio > 0 for row in rows)
