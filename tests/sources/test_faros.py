"""Faros folders: rates and start from meta.json, or what the device always does."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mmprep import tables
from mmprep.errors import DataError
from mmprep.sources import base, faros
from mmprep.sources.base import TextOptions

META = {
    "start_time": "2018-10-12 16:54:12",
    "sample_freqs": {"ECG": 500.0, "ACC": 25.0, "Marker": 1.0, "HRV": 5.0},
    "units": {"ECG": "uV", "ACC": "mg", "HRV": "ms"},
}
LOCAL_NS = 1_539_363_252 * 10**9


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "ECG.csv").write_text("ECG\n1.5\n-2.0\n3.0\n")
    (tmp_path / "ACC.csv").write_text("X,Y,Z\n308.5,-645.0,-523.5\n289.0,-668.0,-623.5\n")
    (tmp_path / "HRV.csv").write_text("HRV\n0.0\n812.0\n")
    (tmp_path / "meta.json").write_text(json.dumps(META))
    return tmp_path


def claims(folder):
    return faros.claim("", [path.name for path in folder.iterdir()], folder)


def convert(folder, stream, **options):
    settings, target = TextOptions(**options), folder / f"{stream}.parquet"
    (claim,) = claims(folder)
    schema = faros.probe(claim, folder, settings)[stream]
    facts = faros.write(claim, folder, stream, schema, tables.Target(target, "s"), options=settings)
    return facts, tables.read_stream(target, stream)


def test_claim_is_the_folder_with_its_meta(folder):
    (claim,) = claims(folder)
    assert claim.files == ("ACC.csv", "ECG.csv", "HRV.csv", "meta.json")
    assert sorted(faros.probe(claim, folder, TextOptions())) == ["ACC", "ECG", "HRV"]


def test_samples_are_at_the_start_and_rate_of_the_meta(folder):
    facts, stream = convert(folder, "ECG")
    assert (facts.rate_hz, facts.absolute) == (500, False)
    assert stream.stamps_ns.tolist() == [LOCAL_NS, LOCAL_NS + 2_000_000, LOCAL_NS + 4_000_000]
    assert facts.notes == (base.LOCAL_NOTE,)


def test_zone_makes_the_start_utc(folder):
    facts, _ = convert(folder, "ECG", tz="Europe/Berlin")
    assert (facts.absolute, facts.start_ns) == (True, LOCAL_NS - 2 * 3600 * 10**9)


def test_acceleration_has_three_channels_in_mg(folder):
    _, stream = convert(folder, "ACC")
    assert (stream.channels, stream.units) == (("X", "Y", "Z"), ("mg",) * 3)
    assert stream.data.tolist() == [[308.5, -645.0, -523.5], [289.0, -668.0, -623.5]]


def test_hrv_without_meta_goes_at_the_device_rate_and_says_so(folder):
    (folder / "meta.json").unlink()
    facts, stream = convert(folder, "HRV")
    assert stream.stamps_ns.tolist() == [0, 200_000_000]
    assert "5 Hz" in facts.notes[0]


def test_ecg_without_meta_needs_a_rate(folder):
    (folder / "meta.json").unlink()
    with pytest.raises(DataError, match=r"ECG\.csv: no rate"):
        faros.read_stream(folder / "ECG.csv", TextOptions(), "e")


def test_lone_column_called_ecg_is_not_claimed(folder):
    (folder / "meta.json").unlink()
    (folder / "HRV.csv").unlink()
    assert claims(folder) == []


def test_table_with_a_text_row_is_not_claimed(folder):
    (folder / "HRV.csv").write_text("HRV\nhigh\nlow\n")
    (folder / "meta.json").write_text("{}")
    assert claims(folder) == []


def test_bad_value_is_a_located_error(folder):
    (folder / "HRV.csv").write_text("HRV\n0.0\noops\n")
    with pytest.raises(DataError, match=r"HRV\.csv:3: HRV is 'oops', expected float64"):
        convert(folder, "HRV")


def test_damaged_start_is_refused(folder):
    (folder / "meta.json").write_text(json.dumps({**META, "start_time": "yesterday"}))
    with pytest.raises(DataError, match="start_time is 'yesterday'"):
        convert(folder, "HRV")


def test_real_file_equals_plain_reading(shared, tmp_path):
    folder = shared("faros")
    (claim,) = faros.claim("", [path.name for path in folder.iterdir()], folder)
    schema = faros.probe(claim, folder, TextOptions())["HRV"]
    target = tmp_path / "t.parquet"
    faros.write(claim, folder, "HRV", schema, tables.Target(target, "s"), options=TextOptions())
    read = tables.read_stream(target, "HRV")
    wanted = [float(line) for line in (folder / "HRV.csv").read_text().splitlines()[1:]]
    assert np.array_equal(read.data[:, 0], wanted)
    assert read.stamps_ns.tolist() == [k * 200_000_000 for k in range(len(wanted))]
