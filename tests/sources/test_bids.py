"""BIDS tables: names and rates from sidecars, onsets from events."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from mmprep import tables
from mmprep.errors import DataError
from mmprep.sources import bids
from mmprep.sources.base import TextOptions

PHYSIO = {"StartTime": -22.345, "SamplingFrequency": 50.5, "Columns": ["cardiac", "trigger"]}
STEM = "sub-01_task-rest_run-01"
EVENTS = (
    "\ufeffonset\tduration\ttrial_type\tvalue\r\n-2.000\tn/a\tgo\t1\r\n3.273\t.5\tstop\tn/a\r\n"
)


@pytest.fixture
def folder(tmp_path):
    func = tmp_path / "sub-01" / "func"
    func.mkdir(parents=True)
    (func / f"{STEM}_physio.tsv.gz").write_bytes(gzip.compress(b"51\t0\n-25\tn/a\n-102\t1\n"))
    (func / f"{STEM}_physio.json").write_text(json.dumps(PHYSIO))
    (func / f"{STEM}_events.tsv").write_bytes(EVENTS.encode())
    return tmp_path


def claims(root, folder="sub-01/func"):
    return bids.claim(folder, [path.name for path in (root / folder).iterdir()], root)


def convert(root, stream, folder="sub-01/func", **options):
    settings, target = TextOptions(**options), root / "t.parquet"
    for claim in claims(root, folder):
        if f"_{stream.partition('-')[0]}." in claim.id_path:
            schema = bids.probe(claim, root, settings)[stream]
            return bids.write(
                claim, root, stream, schema, tables.Target(target, "s"), options=settings
            ), target
    raise LookupError(stream)


def test_tables_of_one_run_have_one_stem(folder):
    found = claims(folder)
    assert [claim.stem for claim in found] == [STEM, STEM]
    assert found[1].files == (
        f"sub-01/func/{STEM}_physio.tsv.gz",
        f"sub-01/func/{STEM}_physio.json",
    )


def test_physio_is_at_start_and_rate_of_the_sidecar_to_the_nanosecond(folder):
    facts, target = convert(folder, "physio")
    stream = tables.read_stream(target, "p")
    assert stream.stamps_ns.tolist() == [-22_345_000_000, -22_325_198_020, -22_305_396_040]
    assert (facts.rate_hz, facts.absolute) == (101 / 2, False)
    assert pq.read_table(target).column("trigger").to_pylist() == [0, None, 1]


def test_sidecars_above_are_inherited_and_nearer_ones_win(folder):
    func = folder / "sub-01/func"
    (func / f"{STEM}_physio.json").write_text(json.dumps({"StartTime": 1}))
    (folder / "task-rest_physio.json").write_text(json.dumps(PHYSIO))
    (folder / "task-other_physio.json").write_text(json.dumps({"SamplingFrequency": 1}))
    (folder / "sub-01" / "sub-01_physio.json").write_text(
        json.dumps({"cardiac": {"Units": "mV"}, "SamplingFrequency": 10})
    )
    facts, target = convert(folder, "physio")
    assert (facts.rate_hz, facts.start_ns) == (10, 10**9)
    assert pq.read_schema(target).field("cardiac").metadata[b"unit"] == b"mV"
    assert "task-other_physio.json" not in claims(folder)[1].files


def test_physio_without_sidecar_says_what_is_missing(folder):
    (folder / "sub-01/func" / f"{STEM}_physio.json").unlink()
    with pytest.raises(DataError, match=rf"no Columns: they stand in {STEM}_physio\.json"):
        convert(folder, "physio")


def test_physio_without_sidecar_goes_by_the_options(folder):
    (folder / "sub-01/func" / f"{STEM}_physio.json").unlink()
    facts, target = convert(folder, "physio", columns=("a", "b"), rate_hz=bids.rate("20"))
    assert (facts.rate_hz, pq.read_schema(target).names[2:]) == (20, ["a", "b"])


def test_sidecar_of_another_table_is_refused(folder):
    path = folder / "sub-01/func" / f"{STEM}_physio.json"
    path.write_text(json.dumps({**PHYSIO, "Columns": ["a", "b", "c"]}))
    with pytest.raises(DataError, match=r"names 3 columns, the rows of .* have 2 cells"):
        convert(folder, "physio")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "no JSON"),
        ("[]", "no JSON object"),
        (json.dumps({**PHYSIO, "SamplingFrequency": 0}), "SamplingFrequency is 0"),
        (json.dumps({**PHYSIO, "StartTime": "soon"}), "StartTime is 'soon'"),
        (json.dumps({**PHYSIO, "Columns": ["a", "a"]}), "'a' is named twice"),
    ],
)
def test_damaged_sidecar_is_located(folder, text, message):
    (folder / "sub-01/func" / f"{STEM}_physio.json").write_text(text)
    with pytest.raises(DataError, match=rf"physio\.json: .*{message}"):
        convert(folder, "physio")


def test_recording_label_names_the_stream(folder):
    func = folder / "sub-01/func"
    (func / f"{STEM}_recording-eye1_physio.tsv.gz").write_bytes(gzip.compress(b"1\t2\n"))
    (claim,) = (c for c in claims(folder) if "eye1" in c.id_path)
    assert list(bids.probe(claim, folder, TextOptions())) == ["physio-eye1"]
    assert claim.stem == STEM


def test_events_keep_text_and_missing_values(folder):
    facts, target = convert(folder, "events")
    table = pq.read_table(target)
    assert table.column("trial_type").to_pylist() == ["go", "stop"]
    assert table.column("value").to_pylist() == [1, None]
    assert table.column("duration").to_pylist() == [None, 0.5]
    assert tables.read_stream(target, "e").stamps_ns.tolist() == [-2 * 10**9, 3_273_000_000]
    assert (facts.rate_hz, facts.absolute) == (None, False)


def test_duration_that_is_no_number_is_located(folder):
    path = folder / "sub-01/func" / f"{STEM}_events.tsv"
    path.write_text(EVENTS.replace("\r", "") + "5.0\tlong\tgo\t1\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"events\.tsv:4: duration is 'long', expected float64"):
        convert(folder, "events")


def test_table_with_another_header_is_not_claimed(tmp_path):
    (tmp_path / "sub-01_events.tsv").write_text("time\tvalue\n1\t2\n")
    (tmp_path / "sub-01_physio.tsv").write_text("cardiac\n1\n")
    (tmp_path / "events.tsv").write_text("onset\tduration\n1\t2\n")
    assert claims(tmp_path, "") == []


def test_sample_that_counts_from_elsewhere_is_said(shared):
    root = shared("made/B11")
    truth = json.loads((root / "truth.json").read_text())
    (claim,) = claims(root, "")
    table = bids._table(claim.files, root, TextOptions())
    assert f"sample counts {truth['first_samp']} more" in table.notes[0]
    stream = bids.read_stream(root / claim.id_path, TextOptions(), "e")
    assert stream.stamps_ns[0] == truth["onset_of_first_event_s"] * 10**9
    assert stream.kind == "events"


def motion(root, channels, rows="0.0\t1.5\n0.01\t2.5\n"):
    stem = "sub-01_task-walk_tracksys-mocap"
    (root / f"{stem}_motion.tsv").write_text(rows)
    (root / f"{stem}_motion.json").write_text(json.dumps({"SamplingFrequency": 100}))
    (root / f"{stem}_channels.tsv").write_text(channels)


def test_motion_has_names_and_units_of_its_channels(tmp_path):
    motion(tmp_path, "name\ttype\tunits\nlag\tMISC\tn/a\nfoot_x\tPOS\tmm\n")
    facts, target = convert(tmp_path, "motion-mocap", "")
    stream = tables.read_stream(target, "m")
    assert (stream.channels, stream.units) == (("lag", "foot_x"), (None, "mm"))
    assert (facts.rate_hz, stream.stamps_ns.tolist()) == (100, [0, 10_000_000])


def test_latency_of_motion_is_its_time(tmp_path):
    motion(tmp_path, "name\ttype\tunits\nt\tLATENCY\ts\nfoot_x\tPOS\tmm\n", "0.5\t1\n0.75\t2\n")
    _, target = convert(tmp_path, "motion-mocap", "")
    stream = tables.read_stream(target, "m")
    assert (stream.channels, stream.stamps_ns.tolist()) == (("foot_x",), [5 * 10**8, 75 * 10**7])


def test_real_physio_equals_plain_reading(shared, tmp_path):
    root = shared("bids")
    target, name = tmp_path / "t.parquet", "sub-01_task-cuedSGT_run-01_physio.tsv.gz"
    (claim,) = (c for c in claims(root, "") if c.id_path == name)
    schema = bids.probe(claim, root, TextOptions())["physio"]
    facts = bids.write(
        claim, root, "physio", schema, tables.Target(target, "s"), options=TextOptions()
    )
    read = tables.read_stream(target, "p")
    wanted = pd.read_csv(root / name, sep="\t", header=None)
    assert (facts.rate_hz, facts.rows, read.channels) == (50, 26000, ("cardiac", "respiratory"))
    assert np.array_equal(read.data, wanted.to_numpy(dtype=float))
    assert read.stamps_ns.tolist() == [20_000_000 * k for k in range(26000)]


def test_real_events_equal_plain_reading(shared, tmp_path):
    root = shared("bids")
    found = [c for c in claims(root, "") if c.id_path.endswith("_events.tsv")]
    assert len(found) == 6
    for claim in found:
        target = tmp_path / "t.parquet"
        schema = bids.probe(claim, root, TextOptions())["events"]
        facts = bids.write(
            claim, root, "events", schema, tables.Target(target, "s"), options=TextOptions()
        )
        wanted = pd.read_csv(root / claim.id_path, sep="\t", na_values="n/a", encoding="utf-8-sig")
        read = tables.read_stream(target, "e")
        assert facts.rows == len(wanted)
        assert np.abs(read.stamps_ns - wanted["onset"] * 1e9).max() < 1000
        for channel, values in zip(read.channels, read.data.T, strict=True):
            plain = pd.to_numeric(wanted[channel], errors="coerce")
            assert np.array_equal(values, plain.to_numpy(dtype=float), equal_nan=True)


def test_motion_without_sidecar_says_so(shared):
    path = shared("bids/sub-01_task-pullstand_tracksys-mocap_motion.tsv")
    with pytest.raises(DataError, match="no SamplingFrequency: it stands in sub-01_task-pullstand"):
        bids.read_stream(path, TextOptions(), "m")
    read = bids.read_stream(path, TextOptions(rate_hz=bids.rate("100")), "m")
    assert np.array_equal(read.data, np.loadtxt(path))
