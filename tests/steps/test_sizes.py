"""Sizes as people write them."""

from __future__ import annotations

import pytest

from mmprep.errors import UsageError
from mmprep.steps.sizes import parse_bytes


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [
        ("1048576", 2**20),
        ("256MiB", 2**28),
        ("256 mib", 2**28),
        ("64MB", 64 * 10**6),
        ("64M", 64 * 2**20),
        ("1.5GiB", 3 * 2**29),
        ("1b", 1),
    ],
)
def test_size_is_read(text, n_bytes):
    assert parse_bytes(text) == n_bytes


@pytest.mark.parametrize("text", ["", "x", "0", "-1", "1XB", "MiB", "1 2", "1e6", "0.0001b"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(UsageError, match=r"--shard-size: .* is no size") as caught:
        parse_bytes(text)
    assert "256MiB" in caught.value.hint
