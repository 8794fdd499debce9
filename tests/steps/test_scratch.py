"""Arrays that are held for a while."""

from __future__ import annotations

import numpy as np
import pytest

from mmprep.steps.features import scratch
from mmprep.steps.features.scratch import Scratch

ARRAYS = [np.full((n, 3), n, np.float32) for n in (4, 0, 9, 1, 30, 2)]


@pytest.mark.parametrize("limit", [0, 150, 1 << 20])
def test_arrays_come_back_in_order_from_memory_and_file(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(scratch, "MEMORY_BYTES", limit)
    with Scratch(tmp_path) as held:
        for rows in ARRAYS:
            held.append(rows)
        for found, wanted in zip(held, ARRAYS, strict=True):
            np.testing.assert_array_equal(found, wanted)
            np.add(found, 1, out=found)  # they may be overwritten


def test_file_has_no_name_and_little_stays_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "MEMORY_BYTES", 150)
    with Scratch(tmp_path) as held:
        for rows in ARRAYS:
            held.append(rows)
        assert held._n_held_bytes <= 150
        assert list(tmp_path.iterdir()) == []
