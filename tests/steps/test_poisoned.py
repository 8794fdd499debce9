"""Files that kill, crash, hang or starve the worker which opens them cost themselves alone."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mmprep import open_dataset, run_mfcc
from tests import poison, raw

DEEDS = ("crash", "hang", "kill", "leave", "starve")
GOOD = tuple(f"good_{k}" for k in range(6))


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """What is published of good and poisoned files together."""
    top = tmp_path_factory.mktemp("poisoned")
    for name in (*DEEDS, *GOOD):
        raw.sound(top / f"in/{name}.flac", n_samples=4000)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(poison.__path__[0])  # the workers take over the search path
        run_mfcc(top / "in", output=top / "out", jobs=2, timeout=2, max_failures="5")
    return top / "out"


def test_poisoned_files_are_named_after_two_tries(out):
    lines = map(json.loads, (out / "failures.jsonl").read_text().splitlines())
    assert {line["id"]: (line["error"], line["attempts"], line["retryable"]) for line in lines} == {
        "crash": ("crashed", 2, True),
        "hang": ("timeout", 2, True),
        "kill": ("killed", 2, True),
        "leave": ("crashed", 2, True),
        "starve": ("memory", 2, True),
    }


def test_features_beside_poisoned_files_are_those_without_them(out, tmp_path):
    run_mfcc(out.parent / "in", output=tmp_path / "clean", include=("good_*",), engine="serial")
    found, wanted = open_dataset(out), open_dataset(tmp_path / "clean")
    assert [row["id"] for row in found] == list(GOOD)
    for ours, clean in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(ours["mfcc"], clean["mfcc"])
