"""XDF: raw stamps, clock offsets as evidence, text streams as events; read again by pyxdf."""

from __future__ import annotations

import json
import logging
import struct

import numpy as np
import pyarrow.parquet as pq
import pytest
import pyxdf

from mmprep import clock, tables
from mmprep.errors import DataError, UsageError
from mmprep.sources import xdf
from mmprep.sources.base import TextOptions

FILES = (
    "xdf/clock_resets.xdf",
    "xdf/handFour.xdf",
    "xdf/justMarkers.xdf",
    "xdf/markersPlusEKG.xdf",
    "xdf/minimal.xdf",
    "xdf/muse_sub-P001.xdf",
    "xdf/muse_sub-P003.xdf",
    "xdf/muse_sub-P031.xdf",
    "xdf/muse_sub-P050.xdf",
    "xdf/out_of_order_clock_offsets.xdf",
    "xdf/three_motion_seven.xdf",
    "made/B01/clock_reset.xdf",
    "made/B02/nominal_vs_effective.xdf",
)
CHANNELS = (
    "<channels><channel><label>Fp1</label><unit>microvolts</unit></channel>"
    "<channel><label>Fp2</label><unit>microvolts</unit></channel></channels>"
)


def chunk(tag, content):
    body = struct.pack("<H", tag) + content
    return b"\x04" + struct.pack("<I", len(body)) + body


def header(number, name, type, form, *, n=1, rate=0, desc=""):
    info = (
        f"<info><name>{name}</name><type>{type}</type><channel_count>{n}</channel_count>"
        f"<nominal_srate>{rate}</nominal_srate><channel_format>{form}</channel_format>"
        f"<hostname>janes-laptop</hostname><source_id>serial42</source_id><desc>{desc}</desc></info>"
    )
    return chunk(2, struct.pack("<I", number) + info.encode())


def samples(number, rows):
    """Rows are (stamp or None, bytes of the values)."""
    parts = [
        (b"\0" if stamp is None else b"\x08" + struct.pack("<d", stamp)) + values
        for stamp, values in rows
    ]
    return chunk(3, struct.pack("<IBI", number, 4, len(rows)) + b"".join(parts))


def text(value):
    return b"\x01" + struct.pack("<B", len(value)) + value.encode()


def offset(number, time_s, offset_s):
    return chunk(4, struct.pack("<Idd", number, time_s, offset_s))


def boundary():
    return chunk(5, bytes.fromhex("43a546dccbf5410fb30ed5467383cbe4"))


def make(path, *more):
    eeg = [(100.0, struct.pack("<ff", 1, 2)), (None, struct.pack("<ff", 3, 4))]
    path.write_bytes(
        b"XDF:"
        + chunk(1, b"<info><version>1.0</version></info>")
        + header(1, "Amp", "EEG", "float32", n=2, rate=4, desc=CHANNELS)
        + header(2, "Amp", "Markers", "string")
        + header(3, "Keys", "Markers", "int32")
        + offset(1, 100.5, 5.0)
        + samples(1, eeg)
        + offset(1, 105.5, 5.001)
        + samples(2, [(7.25, text("go")), (8.5, text("stop"))])
        + samples(3, [(9.0, struct.pack("<i", 13))])
        + b"".join(more)
    )
    return path


@pytest.fixture
def made(tmp_path):
    return make(tmp_path / "a.xdf")


def claimed(path):
    (claim,) = xdf.claim("", [path.name], path.parent)
    return claim


def convert(path, stream, out, **options):
    settings = TextOptions(**options)
    schema = xdf.probe(claimed(path), path.parent, settings)[stream]
    target = out / "out.parquet"
    facts = xdf.write(
        claimed(path), path.parent, stream, schema, tables.Target(target, "P1"), options=settings
    )
    return facts, target


def test_streams_of_one_name_are_told_apart_by_type(made):
    assert xdf.streams(claimed(made), made.parent, TextOptions()) == (
        "Amp-EEG",
        "Amp-Markers",
        "Keys",
    )


def test_stamps_are_raw_and_missing_ones_follow_at_the_rate(made, tmp_path):
    facts, target = convert(made, "Amp-EEG", tmp_path)
    stream = tables.read_stream(target, "x")
    assert stream.stamps_ns.tolist() == [100_000_000_000, 100_250_000_000]
    assert stream.data.tolist() == [[1, 2], [3, 4]]
    assert (stream.channels, stream.units) == (("Fp1", "Fp2"), ("uV", "uV"))
    assert (facts.rate_hz, facts.absolute) == (4, False)


def test_text_stream_is_events(made, tmp_path):
    facts, target = convert(made, "Amp-Markers", tmp_path)
    assert pq.read_table(target).column("value").to_pylist() == ["go", "stop"]
    stream = xdf.read_stream(made, TextOptions(), "x", stream="Amp/Markers")
    assert (stream.kind, stream.stamps_ns.tolist()) == ("events", [7_250_000_000, 8_500_000_000])
    assert facts.rate_hz is None


def test_numeric_markers_keep_their_value(made):
    stream = xdf.read_stream(made, TextOptions(), "keys", stream="Keys")
    assert (stream.kind, stream.data.tolist()) == ("events", [[13.0]])


@pytest.mark.parametrize("wanted", ["Amp-EEG", "Amp/EEG", "0"])
def test_stream_is_found_by_name_type_or_number(made, wanted):
    assert xdf.read_stream(made, TextOptions(), "x", stream=wanted).n_samples == 2


def test_unnamed_stream_among_several_is_refused(made):
    with pytest.raises(UsageError, match="several streams"):
        xdf.read_stream(made, TextOptions(), "x")


def test_clock_offsets_relate_the_stream_to_the_recorder(made):
    fixes = xdf.clock(claimed(made), made.parent, "Amp-EEG", TextOptions())
    assert fixes.device_ns.tolist() == [100_500_000_000, 105_500_000_000]
    assert fixes.reference_ns.tolist() == [105_500_000_000, 110_501_000_000]
    assert xdf.clock(claimed(made), made.parent, "Keys", TextOptions()) is None


def test_host_and_serial_are_not_kept(made, tmp_path):
    _, target = convert(made, "Amp-EEG", tmp_path)
    raw = target.read_bytes()
    assert b"janes-laptop" not in raw
    assert b"serial42" not in raw


def test_damage_is_skipped_to_the_next_boundary_and_said(tmp_path, capfd):
    after = samples(1, [(200.0, struct.pack("<ff", 5, 6))])
    path = make(tmp_path / "a.xdf", b"\x07garbage", boundary(), after, offset(1, 200.0, 6.0))
    facts, target = convert(path, "Amp-EEG", tmp_path)
    assert tables.read_stream(target, "x").data.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert any("scanning forward" in note for note in facts.notes)
    assert xdf.clock_of(path, "Amp/EEG").device_ns.size == 3
    assert capfd.readouterr().err == ""


def test_fault_of_the_writer_is_not_taken_for_damage(made, tmp_path, monkeypatch):
    def fail(self, *rows):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tables.TableWriter, "add", fail)
    with pytest.raises(OSError, match="No space left"):
        convert(made, "Amp-EEG", tmp_path)


def test_other_files_are_not_claimed(tmp_path):
    (tmp_path / "a.xdf").write_bytes(b"<xdf>")
    assert xdf.claim("", ["a.xdf"], tmp_path) == []


def test_file_without_streams_is_refused(tmp_path):
    path = tmp_path / "a.xdf"
    path.write_bytes(b"XDF:" + chunk(1, b"<info/>"))
    with pytest.raises(DataError, match=r"a\.xdf: holds no stream"):
        xdf.probe(claimed(path), tmp_path, TextOptions())


def by_pyxdf(path):
    logging.disable(logging.CRITICAL)
    try:
        found, _ = pyxdf.load_xdf(str(path), synchronize_clocks=False, dejitter_timestamps=False)
    finally:
        logging.disable(logging.NOTSET)
    return found


@pytest.mark.parametrize("name", FILES)
def test_every_stream_equals_that_of_pyxdf(shared, tmp_path, name):
    path = shared(name)
    streams = xdf.streams(claimed(path), path.parent, TextOptions())
    found = by_pyxdf(path)
    assert len(found) == len(streams)
    for own, known in zip(streams, found, strict=True):
        facts, target = convert(path, own, tmp_path)
        stream = tables.read_stream(target, own)
        assert facts.rows == len(known["time_stamps"])
        nominal = float(known["info"]["nominal_srate"][0])
        assert float(facts.rate_hz or nominal) == pytest.approx(nominal)
        assert np.allclose(stream.stamps_ns / 1e9, known["time_stamps"], rtol=0, atol=1e-6)
        if known["info"]["channel_format"][0] == "string":
            columns = pq.read_table(target).columns[2:]
            rows = [list(row) for row in zip(*(c.to_pylist() for c in columns), strict=True)]
            assert rows == known["time_series"]
        else:
            assert np.array_equal(stream.data, known["time_series"])
        fixes = xdf.clock(claimed(path), path.parent, own, TextOptions())
        times = [] if fixes is None else fixes.device_ns / 1e9
        assert times == pytest.approx(known["clock_times"], abs=1e-6)


def test_restart_of_the_host_is_in_the_evidence(shared):
    folder = shared("made/B01")
    truth = json.loads((folder / "truth.json").read_text())
    path = folder / "clock_reset.xdf"
    eeg = xdf.read_stream(path, TextOptions(), "eeg", stream="EEG")
    model = clock.fit(xdf.clock_of(path, "EEG"), stamps_ns=eeg.stamps_ns)
    assert (eeg.n_samples, len(model.segments)) == (truth["n_samples"], len(truth["segments"]))
    seconds = model.apply_in_order(eeg.stamps_ns) / 1e9
    markers = xdf.read_stream(path, TextOptions(), "stim", stream="Stim").stamps_ns / 1e9
    pulses = seconds[eeg.data[:, 0] > 50]
    near = np.abs(pulses[:, None] - markers).min(axis=0)
    assert near.max() < 1.5 / 128


def test_effective_rate_shows_in_raw_stamps(shared):
    folder = shared("made/B02")
    truth = json.loads((folder / "truth.json").read_text())
    path = folder / "nominal_vs_effective.xdf"
    stream = xdf.read_stream(path, TextOptions(), "eeg", stream="EEG")
    slope = np.polyfit(
        np.arange(stream.n_samples), (stream.stamps_ns - stream.stamps_ns[0]) / 1e9, 1
    )
    assert 1 / slope[0] == pytest.approx(truth["effective_srate"], rel=1e-5)
