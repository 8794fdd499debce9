"""CASE: two raw files of one subject on one clock."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from mmprep import tables
from mmprep.errors import DataError
from mmprep.sources import case
from mmprep.sources.base import TextOptions

DAQ = "".join(
    f"{k / 1000:.6f}\t" + "\t".join(f"{c}.{k}25" for c in range(8)) + "\n" for k in range(5)
)
JOYSTICK = "0.000000\t0\t-26225\n0.050000\t13\t26225\n0.100000\t-7\t5\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sub1_DAQ.txt").write_text(DAQ)
    (tmp_path / "sub1_joystick.txt").write_text(JOYSTICK)
    return tmp_path


def convert(folder, stream, **options):
    settings, target = TextOptions(**options), folder / f"{stream}.parquet"
    claims = case.claim("", [path.name for path in folder.iterdir()], folder)
    (claim,) = (claim for claim in claims if stream in claim.id_path)
    schema = case.probe(claim, folder, settings)[stream]
    return case.write(
        claim, folder, stream, schema, tables.Target(target, "sub1"), options=settings
    ), target


def test_two_files_of_a_subject_have_one_stem(folder):
    claims = case.claim("", [path.name for path in folder.iterdir()], folder)
    assert [claim.stem for claim in claims] == ["sub1", "sub1"]


@pytest.mark.parametrize("text", ["", "daqtime\tecg\n", "0.0\t1\n", "a\tb\tc\td\te\tf\tg\th\ti\n"])
def test_other_content_is_not_claimed(folder, text):
    (folder / "sub1_DAQ.txt").write_text(text)
    assert [c.id_path for c in case.claim("", ["sub1_DAQ.txt", "x_DAQ.txt"], folder)] == []


def test_physiology_is_in_volts_at_1000_hz(folder):
    facts, target = convert(folder, "DAQ")
    stream = tables.read_stream(target, "DAQ")
    assert (facts.rate_hz, facts.absolute, set(stream.units)) == (1000, False, {"V"})
    assert stream.channels[:2] == ("ecg", "bvp")
    rows = [[float(cell) for cell in line.split("\t")] for line in DAQ.splitlines()]
    assert stream.data.tolist() == [row[1:] for row in rows]
    assert stream.stamps_ns.tolist() == [0, 1_000_000, 2_000_000, 3_000_000, 4_000_000]


def test_annotation_keeps_its_integers(folder):
    facts, target = convert(folder, "joystick")
    table = pq.read_table(target)
    assert (table.column("valence").to_pylist(), facts.rate_hz) == ([0, 13, -7], 20)
    assert str(table.schema.field("arousal").type) == "int64"


def test_bad_value_is_a_located_error(folder):
    (folder / "sub1_joystick.txt").write_text(JOYSTICK + "0.15\tup\t5\n")
    with pytest.raises(DataError, match=r"sub1_joystick\.txt:4: valence is 'up', expected float64"):
        convert(folder, "joystick")


def test_row_that_is_cut_is_a_located_error(folder):
    (folder / "sub1_DAQ.txt").write_text(DAQ + "0.005\t1.0\n")
    with pytest.raises(DataError, match=r"sub1_DAQ\.txt:6: 2 cells, expected 9"):
        convert(folder, "DAQ")


def test_read_stream_of_another_file_is_refused(tmp_path):
    (tmp_path / "sub1_DAQ.txt").write_text("1\t2\n")
    with pytest.raises(DataError, match="no raw file of CASE"):
        case.read_stream(tmp_path / "sub1_DAQ.txt", TextOptions(), "d")
