"""What a session will take of memory while it is aligned, judged before anything is read.

Readings beyond a budget lie in files: it is the stamps that count, and what their repair takes.
"""

from __future__ import annotations

from collections.abc import Sequence

from mmprep import files
from mmprep.steps.inputs import size_of
from mmprep.steps.running.tasks import DEFAULT_MEMORY_BYTES
from mmprep.steps.sessions.streamspec import StreamSpec

BLOCK_BYTES = 32 << 20
ROW_BYTES = 72  # nine numbers a row
HEAD_BYTES = 1 << 13
FRAME_BYTES = 1 << 10  # of a film that is coded well


def memory_bytes(specs: Sequence[StreamSpec]) -> int:
    """Judge what the streams of a session take."""
    n_rows = sum(map(n_rows_about, specs))
    return max(DEFAULT_MEMORY_BYTES, BLOCK_BYTES + ROW_BYTES * n_rows)


def n_rows_about(spec: StreamSpec) -> int:
    """Judge how many rows with a stamp of their own a stream has: not too few."""
    if spec.form == "table":
        ranges = [rows for rows in (spec.rows, *(rows for _, rows in spec.more)) if rows]
        return sum(end - begin for begin, end in ranges)
    if spec.form in {"shard", "audio"}:
        return 0
    if spec.form == "video":
        return size_of(spec.path) // FRAME_BYTES
    return sum(size_of(p) // _line_bytes(p) for p in (spec.path, *(p for p, _ in spec.more)))


def _line_bytes(path: str) -> int:
    """Measure the lines at the begin of a file; of a binary one they say as much as anything."""
    with files.open_input(path) as file:
        head = file.read(HEAD_BYTES)
    return max(len(head) // (head.count(b"\n") + 1), 1)
