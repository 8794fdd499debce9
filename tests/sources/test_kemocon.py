"""K-EmoCon: rows of two devices in one file become two streams."""

from __future__ import annotations

import pytest

from mmprep import tables
from mmprep.errors import DataError, UsageError
from mmprep.sources import kemocon
from mmprep.sources.base import TextOptions

START_MS = 1_548_000_000_000
ACC = "timestamp,pid,x,y,z,device_serial\n1548000000000.0,1,-59.0,9.0,24.0,A00001\n"


def eda(pid, serials, n_rows=4):
    rows = [
        f"{START_MS + 250 * k}.0,{pid},{0.25 * k + s},{serial}"
        for k in range(n_rows)
        for s, serial in enumerate(serials)
    ]
    return "\n".join(["timestamp,pid,value,device_serial", *rows, ""])


def claimed(folder):
    (claim,) = kemocon.claim("", [path.name for path in folder.iterdir()], folder)
    return claim


def streams(folder):
    return sorted(kemocon.probe(claimed(folder), folder, TextOptions()))


def convert(folder, stream, **options):
    settings, target = TextOptions(**options), folder / f"{stream}.parquet"
    claim = claimed(folder)
    schema = kemocon.probe(claim, folder, settings)[stream]
    facts = kemocon.write(
        claim, folder, stream, schema, tables.Target(target, "29"), options=settings
    )
    return facts, tables.read_stream(target, stream)


def test_claim_is_the_folder_of_a_participant(tmp_path):
    (tmp_path / "E4_EDA.csv").write_text(eda(1, ["A00001"]))
    (tmp_path / "E4_ACC.csv").write_text(ACC)
    (tmp_path / "E4_BVP.csv").write_text("1548000000.0\n64.0\n1.0\n")
    assert claimed(tmp_path).files == ("E4_ACC.csv", "E4_EDA.csv")
    assert streams(tmp_path) == ["ACC", "EDA"]


def test_one_device_has_plain_streams_at_the_device_rate(tmp_path):
    (tmp_path / "E4_EDA.csv").write_text(eda(1, ["A00001"]))
    facts, stream = convert(tmp_path, "EDA")
    assert (facts.rate_hz, facts.absolute, stream.units) == (4, True, ("uS",))
    assert stream.stamps_ns.tolist() == [(START_MS + 250 * k) * 10**6 for k in range(4)]
    assert stream.channels == ("value",)
    assert facts.notes == ()


def test_columns_may_come_in_any_order(tmp_path):
    (tmp_path / "E4_HR.csv").write_text("device_serial,value,pid,timestamp\nA1,71.5,1,1.548E12\n")
    _, stream = convert(tmp_path, "HR")
    assert (stream.stamps_ns.tolist(), stream.data.tolist()) == ([START_MS * 10**6], [[71.5]])


@pytest.mark.parametrize(("pid", "own"), [(29, 0), (30, 1), (31, 0), (32, 1)])
def test_two_devices_are_split_and_the_own_one_is_plain(tmp_path, pid, own):
    (tmp_path / "E4_EDA.csv").write_text(eda(pid, ["A013E1", "A01A3A"]))
    mine, stream = convert(tmp_path, "EDA")
    _, other = convert(tmp_path, "EDA-other")
    assert stream.data[:, 0].tolist() == [0.25 * k + own for k in range(4)]
    assert other.data[:, 0].tolist() == [0.25 * k + 1 - own for k in range(4)]
    assert "2 devices" in mine.notes[0]


def test_two_unknown_devices_are_numbered_alike_in_all_files(tmp_path):
    (tmp_path / "E4_EDA.csv").write_text(eda(5, ["B2", "B1"]))
    (tmp_path / "E4_TEMP.csv").write_text(eda(5, ["B2"]))
    assert streams(tmp_path) == ["EDA-1", "EDA-2", "TEMP-2"]
    assert convert(tmp_path, "EDA-1")[1].data[0, 0] == 1.0


def test_read_stream_of_two_devices_needs_a_name(tmp_path):
    (tmp_path / "E4_EDA.csv").write_text(eda(5, ["B1", "B2"]))
    with pytest.raises(UsageError, match="several streams"):
        kemocon.read_stream(tmp_path / "E4_EDA.csv", TextOptions(), "e")
    read = kemocon.read_stream(tmp_path / "E4_EDA.csv", TextOptions(), "e", stream="EDA-2")
    assert read.data[0, 0] == 1.0


def test_bad_value_is_a_located_error(tmp_path):
    (tmp_path / "E4_EDA.csv").write_text(eda(29, ["A013E1", "A01A3A"]) + "1,29,x,A01A3A\n")
    with pytest.raises(DataError, match=r"E4_EDA\.csv:10: value is 'x', expected float64"):
        convert(tmp_path, "EDA-other")


def test_skipped_row_counts_for_its_own_device_only(tmp_path):
    (tmp_path / "E4_EDA.csv").write_text(eda(29, ["A013E1", "A01A3A"]) + "1,29,x,A01A3A\n")
    assert convert(tmp_path, "EDA", on_bad_row="skip")[0].n_rejected == 0
    assert convert(tmp_path, "EDA-other", on_bad_row="skip")[0].n_rejected == 1
