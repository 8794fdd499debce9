"""Packed tables that are cut or damaged: located, or kept up to the damage."""

from __future__ import annotations

import bz2
import gzip
import lzma

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mmprep.manifest.codec import decode_dataset
from mmprep.steps.base import FailedItemsError


def _zstd(data):
    return pa.Codec("zstd").compress(data, asbytes=True)


PACKED = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": _zstd}


@pytest.mark.parametrize("policy", ["skip", "null"])
@pytest.mark.parametrize("packing", PACKED)
def test_a_packed_table_that_is_cut_is_salvaged(convert, tmp_path, out, packing, policy):
    rows = [f"{k}\t{k * 7919 % 99991}\n" for k in range(200_000)]
    whole = PACKED[packing](("time\tv\n" + "".join(rows)).encode())
    (tmp_path / "in").mkdir()
    (tmp_path / f"in/x.tsv.{packing}").write_bytes(whole[: len(whole) * 2 // 3])
    with pytest.raises(FailedItemsError) as caught:
        convert()
    assert "data are damaged or cut" in caught.value.failures[0].message
    convert(on_bad_row=policy)
    table = pq.read_table(next(out.rglob("*.parquet")))
    values = table["v"].to_pylist()
    assert len(values) > 1000
    assert values == [k * 7919 % 99991 for k in range(len(values))]
    dataset = decode_dataset((out / "dataset.json").read_bytes())
    kept = [path.read_text() for path in (out / "rejects").rglob("*.tsv")]
    assert dataset.totals.rejected_rows == len(kept)
    for text in kept:
        number, reason, raw_line = text.split("\n")[-2].split("\t", 2)
        assert (int(number), reason) == (len(values) + 2, "the line is cut by the damage")
        assert rows[len(values)].startswith(raw_line.replace("\\t", "\t"))


def test_a_packed_table_with_a_wrong_checksum_keeps_all_its_rows(convert, tmp_path, out, capsys):
    data = bytearray(gzip.compress(b"time\tv\n" + b"".join(b"%d\t1\n" % k for k in range(500))))
    data[-8] ^= 1
    (tmp_path / "in").mkdir()
    (tmp_path / "in/x.tsv.gz").write_bytes(data)
    convert(on_bad_row="skip")
    assert pq.read_table(next(out.rglob("*.parquet"))).num_rows == 500


def test_a_split_table_that_is_cut_is_salvaged(convert, tmp_path, out):
    rows = "".join(f"{k}\t{'ab'[k % 2]}\t{k}\n" for k in range(9000))
    whole = gzip.compress(("time\tdev\tv\n" + rows).encode())
    (tmp_path / "in").mkdir()
    (tmp_path / "in/x.tsv.gz").write_bytes(whole[: len(whole) // 2])
    convert(on_bad_row="skip", split_by="dev")
    tables = [pq.read_table(path) for path in sorted(out.rglob("*.parquet"))]
    assert [table["v"].to_pylist()[:3] for table in tables] == [[0, 2, 4], [1, 3, 5]]
    n_rows = sum(table.num_rows for table in tables)
    assert n_rows > 1000
    assert abs(tables[0].num_rows - tables[1].num_rows) <= 1
