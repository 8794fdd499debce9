"""Long tables in several parts: all rows, one record, and what cannot be cut."""

from __future__ import annotations

import gzip

import numpy as np
import pyarrow.parquet as pq
import pytest

from mmprep import DataError, files, open_dataset, run_align
from mmprep.manifest.codec import read_manifest
from mmprep.sources import text
from mmprep.steps.base import FailedItemsError
from mmprep.steps.check import check
from mmprep.steps.intake import texts
from tests import raw


def _records(out):
    return {record.id: record for record in read_manifest(out / "manifest.jsonl")}


@pytest.fixture
def short_parts(monkeypatch):
    monkeypatch.setattr(texts, "PART_BYTES", 400)


@pytest.mark.usefixtures("short_parts")
def test_a_long_table_is_cut_into_parts_that_hold_all_rows(convert, tmp_path, out):
    raw.table(tmp_path / "in/P01/eeg.tsv", rate_hz=8, n_rows=200)
    convert()
    names = sorted(path.name for path in (out / "tables/eeg").iterdir())
    assert len(names) > 3
    assert names[:2] == ["P01-00000.parquet", "P01-00001.parquet"]
    table = pq.read_table(out / "tables/eeg")
    np.testing.assert_array_equal(table["x"], np.arange(200))
    np.testing.assert_array_equal(table["time"].cast("int64"), np.arange(200) * 125_000_000)
    assert set(table["id"].to_pylist()) == {"P01"}
    record = _records(out)["P01"]
    ref = record.streams["eeg"]
    assert [table for table, _ in ref.pieces] == [f"tables/eeg/{name}" for name in names]
    assert sum(end - begin for _, (begin, end) in ref.pieces) == 200
    assert record.duration_s == 25.0
    assert not check(out, checksums=True).findings
    inputs = (out / "inputs.jsonl").read_text()
    assert files.digest(str(tmp_path / "in/P01/eeg.tsv")) in inputs


@pytest.mark.usefixtures("short_parts")
def test_parts_widen_together_and_name_lines_of_the_file(convert, tmp_path, out):
    rows = [f"{k}\t{k}\n" for k in range(300)]
    rows[250], rows[260] = "250\tlate\n", "260\n"
    (tmp_path / "in").mkdir()
    (tmp_path / "in/x.tsv").write_text("time\tv\n" + "".join(rows))
    with pytest.raises(FailedItemsError) as caught:
        convert()
    assert "x.tsv:262: 1 cells, expected 2" in caught.value.failures[0].message
    convert(on_bad_row="skip")
    table = pq.read_table(out / "tables/x")
    assert table.num_rows == 299
    assert table["v"].to_pylist()[249:252] == ["249", "late", "251"]
    rejects = [path.read_text() for path in sorted((out / "rejects/x").iterdir())]
    assert len(rejects) == 1
    assert "\n262\t" in rejects[0]


@pytest.mark.usefixtures("short_parts")
def test_an_unfinished_long_table_goes_on_from_its_last_part(convert, tmp_path, out, monkeypatch):
    raw.table(tmp_path / "in/P01/eeg.tsv", rate_hz=8, n_rows=200)
    written, write = [], text.write

    def failing(*args, span, **options):
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(span.begin)
        return write(*args, span=span, **options)

    monkeypatch.setattr(text, "write", failing)
    with pytest.raises(KeyboardInterrupt):
        convert()

    def noting(*args, span, **options):
        written.append(span.begin)
        return write(*args, span=span, **options)

    monkeypatch.setattr(text, "write", noting)
    convert()
    assert len(written) == len(set(written)) > 3
    np.testing.assert_array_equal(pq.read_table(out / "tables/eeg")["x"], np.arange(200))


@pytest.mark.usefixtures("short_parts")
def test_windows_of_a_long_table_are_those_of_a_short_one(convert, tmp_path, out, monkeypatch):
    raw.table(tmp_path / "in/P01/eeg.tsv", rate_hz=8, n_rows=200)
    convert()
    with pytest.raises(DataError, match="one of"):
        open_dataset(out)[0]
    run_align(out, output=tmp_path / "cut", engine="serial")
    monkeypatch.setattr(texts, "PART_BYTES", 1 << 30)
    convert(force=True)
    assert (out / "tables/eeg/P01.parquet").exists()
    run_align(out, output=tmp_path / "whole", engine="serial")
    data = [np.load(tmp_path / name / "eeg/shard-00000.npy") for name in ("cut", "whole")]
    np.testing.assert_array_equal(*data)
    assert (tmp_path / "cut/manifest.jsonl").read_bytes() == (
        tmp_path / "whole/manifest.jsonl"
    ).read_bytes()


@pytest.mark.usefixtures("short_parts")
@pytest.mark.parametrize("name", ["x.tsv.gz", "rate.tsv", "cr.tsv", "utf16.tsv"])
def test_what_cannot_be_cut_stays_one_table(convert, tmp_path, out, name):
    rows = "".join(f"{k}\t{k}\n" for k in range(300))
    options = {}
    (tmp_path / "in").mkdir()
    data = ("time\tv\n" + rows).encode()
    if name == "x.tsv.gz":
        data = gzip.compress(data)
    elif name == "rate.tsv":
        data, options = data.replace(b"time", b"step"), {"rate": "8"}
    elif name == "cr.tsv":
        data = data.replace(b"\n", b"\r")
    else:
        data = data.decode().encode("utf-16")
    (tmp_path / "in" / name).write_bytes(data)
    convert(**options)
    (path,) = (out / "tables").rglob("*.parquet")
    assert pq.read_table(path)["v"].to_pylist() == list(range(300))
