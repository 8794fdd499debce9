"""Many short tables of one stream are encoded alike, as is best for the first of them."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

from mmprep import run_convert
from mmprep.steps.base import FailedItemsError
from mmprep.steps.intake.tablework import MANY, SHORT_BYTES
from mmprep.tables import encodings_of
from tests.kill import tree


def table(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = "".join(f"{k / 4:.2f}\t{value}\n" for k, value in enumerate(values))
    path.write_text("time\tx\n" + rows)


def noise(seed):
    return np.random.default_rng(seed).normal(size=1500)


def found(out):
    return {path.stem: encodings_of(path)["x"] for path in sorted(out.glob("tables/eeg/*"))}


@pytest.fixture
def folder(tmp_path):
    """Noise first, then tables for which a dictionary would be smaller."""
    table(tmp_path / "in/P00/eeg.tsv", noise(0))
    for k in range(1, MANY):
        table(tmp_path / f"in/P{k:02d}/eeg.tsv", [0.5 * (i % 3) for i in range(1500)])
    return tmp_path / "in"


def test_many_short_tables_take_the_encodings_of_the_first(folder, convert, out):
    convert()
    assert set(found(out).values()) == {"BYTE_STREAM_SPLIT"}


def test_few_tables_are_each_tried(folder, convert, out):
    table(folder / "P01/eeg.tsv", noise(1))
    (folder / "P02/eeg.tsv").unlink()
    convert()
    assert [found(out)[name] for name in ("P00", "P01", "P03")] == [
        "BYTE_STREAM_SPLIT",
        "BYTE_STREAM_SPLIT",
        "RLE_DICTIONARY",
    ]


def test_long_table_among_many_short_ones_is_tried_on_its_own(folder, convert, out):
    table(folder / "P99/eeg.tsv", [0.5 * (i % 3) for i in range(SHORT_BYTES // 10)])
    assert (folder / "P99/eeg.tsv").stat().st_size > SHORT_BYTES
    convert()
    assert found(out)["P01"] == "BYTE_STREAM_SPLIT"
    assert found(out)["P99"] == "RLE_DICTIONARY"


def test_column_that_widens_later_gets_an_encoding_of_its_new_type(folder, convert, out):
    rows = [*range(1400), *["one"] * 100]
    for k in range(MANY):
        table(folder / f"P{k:02d}/eeg.tsv", range(1500) if k < MANY - 1 else rows)
    convert()
    texts = pq.read_table(out / f"tables/eeg/P{MANY - 1:02d}.parquet")["x"].to_pylist()
    assert texts == [str(row) for row in rows]


def test_first_table_that_is_damaged_costs_itself_alone(folder, convert, out):
    path = folder / "P00/eeg.tsv"
    path.write_bytes(path.read_bytes().replace(b"\n300.00\t", b"\n300.00\tnonsense\t"))
    with pytest.raises(FailedItemsError, match="1 of 16"):
        convert()
    convert(max_failures="1")
    assert found(out) == {f"P{k:02d}": "RLE_DICTIONARY" for k in range(1, MANY)}


def test_bytes_are_those_of_any_jobs(folder, tmp_path, convert, out):
    convert()
    run_convert(folder, output=tmp_path / "pool", jobs=2)
    assert tree(tmp_path / "pool") == tree(out)
