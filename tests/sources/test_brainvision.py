"""BrainVision: values in the header's units, markers as events, new segments as gaps."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow.parquet as pq
import pytest

from mmprep import tables
from mmprep.errors import DataError
from mmprep.sources import brainvision
from mmprep.sources.base import TextOptions

HEADER = """Brain Vision Data Exchange Header File Version 1.0
; made
[Common Infos]
DataFile={data}
MarkerFile={stem}.vmrk
DataFormat={form}
DataOrientation={orientation}
NumberOfChannels=2
SamplingInterval=250000
[Binary Infos]
BinaryFormat={type}
[Channel Infos]
Ch1=Fp1,,0.5,µV
Ch2=EDA\\1wrist,,2,µS
[Comment]
Ch9=not a channel
"""
MARKERS = """Brain Vision Data Exchange Marker File, Version 1.0
[Marker Infos]
Mk1=New Segment,,1,1,0,20240102100000250000
Mk2=Stimulus,S  1,3,2,0
Mk3=New Segment,,5,1,0{second}
Mk4=Comment,a\\1b,6,0,0
"""
ROWS = np.arange(12).reshape(6, 2) - 5
START_NS = 1_704_189_600_250_000_000


def make(folder, *, second=",20240102100010250000", type="INT_16", dtype="<i2", **changes):
    cells = {"data": "a.eeg", "stem": "a", "form": "BINARY", "orientation": "MULTIPLEXED"}
    text = HEADER.format(**(cells | {"type": type} | changes))
    (folder / "a.vhdr").write_text(text, encoding="utf-8")
    (folder / "a.vmrk").write_text(MARKERS.format(second=second), encoding="utf-8")
    stored = ROWS.T if changes.get("orientation") == "VECTORIZED" else ROWS
    (folder / "a.eeg").write_bytes(stored.astype(dtype).tobytes())
    return folder / "a.vhdr"


def claimed(header):
    (claim,) = brainvision.claim("", [p.name for p in header.parent.iterdir()], header.parent)
    return claim


def convert(header, stream, out, **options):
    settings, root = TextOptions(**options), header.parent
    schema = brainvision.probe(claimed(header), root, settings)[stream]
    target = out / "out.parquet"
    facts = brainvision.write(
        claimed(header), root, stream, schema, tables.Target(target, "P1"), options=settings
    )
    return facts, target


def test_claim_is_the_set_of_three(tmp_path):
    claim = claimed(make(tmp_path))
    assert (claim.files, claim.suffix) == (("a.vhdr", "a.eeg", "a.vmrk"), ".vhdr")


def test_text_that_is_meant_is_not_remarked_on(tmp_path, mmprep):
    header = make(tmp_path)
    done = mmprep("convert", header, "-o", tmp_path / "out", "--engine", "serial")
    assert (done.code, "columns of text" in done.err) == (0, False)


def test_other_text_is_not_claimed(tmp_path):
    (tmp_path / "a.vhdr").write_text("[Common Infos]\n")
    assert brainvision.claim("", ["a.vhdr"], tmp_path) == []


@pytest.mark.parametrize("orientation", ["MULTIPLEXED", "VECTORIZED"])
@pytest.mark.parametrize(("type", "dtype"), [("INT_16", "<i2"), ("IEEE_FLOAT_32", "<f4")])
def test_values_are_scaled_to_the_unit_of_the_header(tmp_path, orientation, type, dtype):
    header = make(tmp_path, orientation=orientation, type=type, dtype=dtype)
    facts, target = convert(header, "signal", tmp_path)
    stream = tables.read_stream(target, "x")
    assert np.array_equal(stream.data, ROWS * [0.5, 2])
    assert (stream.channels, stream.units) == (("Fp1", "EDA,wrist"), ("uV", "uS"))
    assert facts.rate_hz == 4


def test_new_segment_is_a_gap_to_its_own_time(tmp_path):
    facts, target = convert(make(tmp_path), "signal", tmp_path)
    stamps = tables.read_stream(target, "x").stamps_ns - START_NS
    assert (stamps / 1e9).tolist() == [0, 0.25, 0.5, 0.75, 10, 10.25]
    assert any("has 1 gaps" in note for note in facts.notes)


def test_new_segment_without_time_is_laid_a_second_later(tmp_path):
    facts, target = convert(make(tmp_path, second=""), "signal", tmp_path)
    stamps = tables.read_stream(target, "x").stamps_ns - START_NS
    assert (stamps / 1e9).tolist() == [0, 0.25, 0.5, 0.75, 2, 2.25]
    assert any("1 segments have no time" in note for note in facts.notes)


def test_markers_are_events_on_the_same_clock(tmp_path):
    _, target = convert(make(tmp_path), "annotations", tmp_path)
    table = pq.read_table(target)
    said = ["New Segment/", "Stimulus/S  1", "New Segment/", "Comment/a,b"]
    assert table.column("description").to_pylist() == said
    assert table.column("duration").to_pylist() == [0.25, 0.5, 0.25, 0.0]
    stamps = tables.read_stream(target, "x").stamps_ns - START_NS
    assert (stamps / 1e9).tolist() == [0, 0.5, 10, 10.25]


def test_start_is_local_until_a_zone_is_given(tmp_path):
    local, _ = convert(make(tmp_path), "signal", tmp_path)
    utc, _ = convert(make(tmp_path), "signal", tmp_path, tz="Europe/Rome")
    assert (local.start_ns, local.absolute) == (START_NS, False)
    assert (utc.start_ns, utc.absolute) == (START_NS - 3600 * 10**9, True)


def test_renamed_recording_is_read_and_said(tmp_path):
    facts, _ = convert(make(tmp_path, data="before.eeg"), "signal", tmp_path)
    assert facts.rows == 6
    assert any("names 'before.eeg'" in note for note in facts.notes)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"form": "ASCII"}, "samples as text"),
        ({"type": "INT_24"}, "BinaryFormat is 'INT_24'"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path, changes, match):
    with pytest.raises(DataError, match=match):
        brainvision.read_stream(make(tmp_path, **changes), TextOptions(), "x")


def test_missing_samples_are_an_error(tmp_path):
    header = make(tmp_path)
    (tmp_path / "a.eeg").unlink()
    with pytest.raises(DataError, match=r"a\.vhdr: its samples 'a\.eeg' are not there"):
        brainvision.read_stream(header, TextOptions(), "x")


@pytest.mark.parametrize("name", ["test.vhdr", "testv2.vhdr"])
def test_recording_equals_that_of_mne(shared, name):
    mne = pytest.importorskip("mne")
    path = shared("brainvision") / name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        raw = mne.io.read_raw_brainvision(path, preload=True, verbose="ERROR")
    stream = brainvision.read_stream(path, TextOptions(), "eeg")
    assert stream.data.shape == (raw.n_times, len(raw.ch_names))
    assert stream.nominal_rate_hz == raw.info["sfreq"]
    scale = [{"uV": 1e6, "uS": 1e6}.get(unit, 1.0) for unit in stream.units]
    assert np.allclose(stream.data, raw.get_data().T * scale, rtol=1e-12, atol=0)
    if raw.info["meas_date"] is not None:
        assert stream.stamps_ns[0] / 1e9 == pytest.approx(raw.info["meas_date"].timestamp())
    notes = brainvision.read_stream(path, TextOptions(), "notes", stream="annotations")
    ours = set(np.round((notes.stamps_ns - stream.stamps_ns[0]) / 1e9, 6))
    assert set(np.round(raw.annotations.onset, 6)) <= ours
