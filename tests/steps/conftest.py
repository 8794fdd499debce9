"""What tests of steps have in common."""

from __future__ import annotations

import pytest

from mmprep import run_convert


@pytest.fixture
def convert(tmp_path):
    def run(out="out", **options):
        return run_convert(tmp_path / "in", output=tmp_path / out, engine="serial", **options)

    return run


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"
