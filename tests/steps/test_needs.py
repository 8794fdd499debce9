from __future__ import annotations

import numpy as np
import pytest

from mmprep.steps.running.tasks import DEFAULT_MEMORY_BYTES
from mmprep.steps.sessions import needs
from mmprep.steps.sessions.streamspec import StreamSpec
from tests import raw

DAY = 24 * 3600


def table_of(n_rows):
    more = (("b.parquet", (0, n_rows // 2)),)
    return StreamSpec("eeg", "table", "signal", "a.parquet", rows=(0, n_rows // 2), more=more)


def test_rows_of_text_are_judged_by_its_first_lines(tmp_path):
    path = raw.table(tmp_path / "a.tsv", n_rows=20_000)
    found = needs.n_rows_about(StreamSpec("a", "raw", "signal", str(path)))
    assert 20_000 <= found < 30_000


def test_rows_of_a_table_are_known():
    assert needs.n_rows_about(table_of(1000)) == 1000


@pytest.mark.parametrize("form", ["shard", "audio"])
def test_sound_has_no_stamps(form):
    assert needs.n_rows_about(StreamSpec("a", form, "audio", "a.wav", rows=(0, 10**9))) == 0


def test_rows_of_a_binary_file_are_judged(tmp_path):
    path = tmp_path / "a.edf"
    path.write_bytes(np.random.default_rng(0).bytes(100_000))
    assert needs.n_rows_about(StreamSpec("a", "raw", "signal", str(path))) > 100


def test_common_sessions_take_what_any_task_does_and_nights_more():
    hour, day = table_of(128 * 3600), table_of(128 * DAY)
    assert needs.memory_bytes([hour]) < 1.1 * DEFAULT_MEMORY_BYTES
    assert 500 << 20 < needs.memory_bytes([day]) < 1 << 30
