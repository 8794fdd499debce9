"""Raw text comes as blocks of whole lines."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import random
from contextlib import closing

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmprep.errors import DataError
from mmprep.tables import feed

quick = settings(deadline=None, max_examples=60)
PACKERS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.compress(data, "zstd", asbytes=True),
}


def joined(path, **options):
    return b"".join(block.data for block in feed.text_blocks(path, **options))


@quick
@given(st.binary(max_size=60), st.integers(1, 9))
def test_blocks_join_to_the_lines_of_the_file(tmp_path_factory, data, n_bytes):
    path = tmp_path_factory.mktemp("feed") / "x.tsv"
    path.write_bytes(data)
    blocks = list(feed.text_blocks(path, n_bytes=n_bytes))
    plain = data.removeprefix(b"\xef\xbb\xbf") if n_bytes > 2 else b"".join(b.data for b in blocks)
    if n_bytes > 2:
        plain = plain.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert b"".join(block.data for block in blocks) == plain
    assert all(block.data.endswith(b"\n") for block in blocks[:-1])
    assert [block.is_last for block in blocks] == [False] * (len(blocks) - 1) + [True]


@pytest.mark.parametrize("kind", PACKERS)
def test_compressed_text_is_read(tmp_path, kind):
    path = tmp_path / f"x.tsv{kind}"
    path.write_bytes(PACKERS[kind](b"a\tb\r\n1\t2\r\n"))
    assert joined(path) == b"a\tb\n1\t2\n"


@pytest.mark.parametrize("kind", PACKERS)
def test_cut_compressed_data_are_an_error_wherever_they_are_cut(tmp_path, kind):
    packed = PACKERS[kind](bytes(range(256)) * 20)
    path = tmp_path / f"x.tsv{kind}"
    for end in range(1, len(packed), max(1, len(packed) // 25)):
        path.write_bytes(packed[:end])
        with pytest.raises(DataError, match="damaged or cut"):
            joined(path)


def test_hash_sees_every_raw_byte(tmp_path):
    path = tmp_path / "x.tsv.gz"
    path.write_bytes(gzip.compress(b"1\n" * 5000) + gzip.compress(b"2\n"))
    running = hashlib.sha256()
    assert joined(path, hasher=running) == b"1\n" * 5000 + b"2\n"
    assert running.hexdigest() == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        ("µS\n".encode(), "utf-8"),
        (b"plain\n", "utf-8"),
        ("﻿µ\n".encode(), "utf-8"),
        ("GSR [µS];Straße\n".encode("latin-1"), "latin-1"),
        ("时间\t皮电\n".encode("gb18030"), "gb18030"),
        ("a\tb\n1\t2\n".encode("utf-16"), "utf-16-le"),
        ("a\tb\n1\t2\n".encode("utf-16-be"), "utf-16-be"),
        ("时间\n".encode() + b"\xff\n", "utf-8"),
    ],
)
def test_encoding_is_told_by_the_first_bytes(data, encoding):
    assert feed.detect_encoding(data)[0] == encoding


def test_multibyte_character_cut_at_the_end_of_the_sample_is_no_fault():
    assert feed.detect_encoding("时间".encode()[:-1], is_whole=False)[0] == "utf-8"


@pytest.mark.parametrize("encoding", ["utf-16-le", "gb18030", "latin-1"])
def test_text_is_decoded_across_blocks(tmp_path, encoding):
    text = "µ\tb\r\n1\t2\r\n" * 50
    path = tmp_path / "x.tsv"
    path.write_bytes(text.encode(encoding))
    read = joined(path, encoding=encoding, n_bytes=7)
    assert read.decode() == text.replace("\r\n", "\n")


def test_text_in_another_encoding_is_a_located_error(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_bytes(b"\xff\xfe1")
    with pytest.raises(DataError, match="not utf-16-le"):
        joined(path, encoding="utf-16-le")


def test_file_without_line_ends_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(feed, "LONGEST_LINE_BYTES", 1 << 20)
    path = tmp_path / "x.tsv"
    path.write_bytes(b"1" * (3 << 20))
    with pytest.raises(DataError, match="no line end within 1 MiB"):
        joined(path, n_bytes=1 << 19)


def test_samples_are_whole_lines_from_all_over_the_file(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_bytes(b"".join(b"%07d\n" % k for k in range(10_000)))
    pieces = feed.spread_samples(path, 4, 800)
    assert all(piece.endswith(b"\n") and len(piece) % 8 == 0 for piece in pieces)
    assert pieces[-1].endswith(b"0009999\n")


def test_head_reads_no_more_than_it_must(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_bytes(b"0123456789")
    assert feed.head(path, 4) == b"0123"
    with closing(feed.raw_blocks(path, n_bytes=4)) as blocks:
        assert next(blocks) == b"0123"


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("block", [64, 1 << 20])
def test_salvage_ends_with_the_whole_lines_before_the_damage(tmp_path, suffix, block):
    rng = random.Random(3)
    lines = [f"{k}\t{rng.random()}\n".encode() for k in range(40_000)]
    path = tmp_path / f"x.tsv{suffix}"
    path.write_bytes(PACKERS[suffix](b"".join(lines))[:-30_000])
    hasher, left = hashlib.sha256(), feed.Salvage()
    blocks = list(feed.text_blocks(path, n_bytes=block, hasher=hasher, salvage=left))
    text = b"".join(found.data for found in blocks)
    assert text.endswith(b"\n")
    n_kept = text.count(b"\n")
    assert text == b"".join(lines[:n_kept])
    assert n_kept > 1000
    assert lines[n_kept].startswith(left.rest)
    assert "data are damaged or cut" in left.reason
    assert hasher.hexdigest() == hashlib.sha256(path.read_bytes()).hexdigest()


def test_head_is_what_can_be_read_before_a_damage(tmp_path):
    path = tmp_path / "x.tsv.gz"
    path.write_bytes(gzip.compress(b"012345678\n" * 1000, 0)[:5000])
    assert feed.head(path, 105) == b"012345678\n" * 10 + b"01234"
    found = feed.head(path, 10_000)
    assert found == b"012345678\n" * (len(found) // 10)
    assert 4000 < len(found) < 5000
    path.write_bytes(path.read_bytes()[:10])
    with pytest.raises(DataError, match="the gz data are damaged or cut"):
        feed.head(path, 100)
