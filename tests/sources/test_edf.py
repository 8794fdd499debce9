"""EDF and BDF: native rates, physical values, true record times; read again by edfio and MNE."""

from __future__ import annotations

import json
import warnings
from datetime import UTC, datetime
from fractions import Fraction

import numpy as np
import pyarrow.parquet as pq
import pytest

from mmprep import tables
from mmprep.errors import DataError, UsageError
from mmprep.sources import edf
from mmprep.sources.base import LOCAL_NOTE, TextOptions

FILES = (
    "duplicate_channel_labels.edf",
    "evt.bdf",
    "short_psg.edf",
    "simulated-01.edf",
    "sub-01_task-talking_emg.edf",
    "test.edf",
    "test_bdf_stim_channel.bdf",
    "test_edf_stim_channel.edf",
    "test_generator.bdf",
    "test_subsecond.bdf",
    "test_utf8.edf",
)
START_NS = int(datetime(2024, 1, 2, 10, 0, 0, tzinfo=UTC).timestamp()) * 10**9


def cell(text, width):
    return str(text).encode().ljust(width)


def make(path, channels, records, *, reserved="", record_s=1, n_records=None, start="02.01.24"):
    """Write an EDF of 16 bits; a channel is (label, unit, samples a record, bytes or integers)."""
    n = len(channels)
    head = [
        cell(0, 8), cell("X M 02-MAR-1951 Jane", 80), cell("Startdate 02-JAN-2024 X", 80),
        cell(start, 8), cell("10.00.00", 8), cell(256 * (n + 1), 8), cell(reserved, 44),
        cell(len(records) if n_records is None else n_records, 8), cell(record_s, 8), cell(n, 4),
    ]  # fmt: skip
    columns = [(label, unit, -100, 100, -1000, 1000, "", n) for label, unit, n in channels]
    widths = [(0, 16), (None, 80), (1, 8), (2, 8), (3, 8), (4, 8), (5, 8), (6, 80), (7, 8)]
    for key, width in widths:
        head += [cell("" if key is None else column[key], width) for column in columns]
    head += [cell("", 32) for _ in columns]
    body = b"".join(part for record in records for part in record)
    path.write_bytes(b"".join(head) + body)
    return path


def ints(*values):
    return np.array(values, "<i2").tobytes()


def tal(onset, *notes, n=30):
    """An annotation list that fills `2 * n` bytes."""
    lists = [f"{onset}\x14\x14\0", *(f"{head}\x14{text}\x14\0" for head, text in notes)]
    return "".join(lists).encode().ljust(2 * n, b"\0")


def claimed(path):
    (claim,) = edf.claim("", [path.name], path.parent)
    return claim


def convert(path, stream, out, **options):
    settings = TextOptions(**options)
    schema = edf.probe(claimed(path), path.parent, settings)[stream]
    target = out / "out.parquet"
    facts = edf.write(
        claimed(path), path.parent, stream, schema, tables.Target(target, "P1"), options=settings
    )
    return facts, target


@pytest.fixture
def plain(tmp_path):
    channels = [("EEG", "uV", 4), ("GSR", "uS", 1)]
    records = [(ints(0, 1, 2, 3), ints(500)), (ints(-1000, 1000, 10, 20), ints(-500))]
    return make(tmp_path / "plain.edf", channels, records)


def test_each_rate_is_a_stream_of_its_own(plain, tmp_path):
    assert edf.streams(claimed(plain), tmp_path, TextOptions()) == ("signal_4Hz", "signal_1Hz")
    facts, target = convert(plain, "signal_1Hz", tmp_path)
    assert (facts.rows, facts.rate_hz) == (2, 1)
    assert tables.read_stream(target, "x").data[:, 0].tolist() == [50.0, -50.0]


def test_values_are_physical(plain, tmp_path):
    _, target = convert(plain, "signal_4Hz", tmp_path)
    data = tables.read_stream(target, "x").data[:, 0]
    assert data == pytest.approx([0, 0.1, 0.2, 0.3, -100, 100, 1, 2], abs=1e-12)
    assert pq.read_schema(target).field("EEG").metadata[b"unit"] == b"uV"


def test_start_is_local_until_a_zone_is_given(plain, tmp_path):
    local, _ = convert(plain, "signal_4Hz", tmp_path)
    utc, _ = convert(plain, "signal_4Hz", tmp_path, tz="Asia/Shanghai")
    assert (local.start_ns, local.absolute) == (START_NS, False)
    assert (utc.start_ns, utc.absolute) == (START_NS - 8 * 3600 * 10**9, True)
    assert "local times without a zone" in local.notes[0]


def test_notes_of_a_file_are_said_once(plain, tmp_path, mmprep):
    said = mmprep("convert", plain, "-o", tmp_path / "out", "--engine", "serial").err
    assert [line for line in said.splitlines() if LOCAL_NOTE in line] == [
        f"mmprep: note: {plain.name}: {LOCAL_NOTE}"
    ]


def test_nothing_of_the_person_is_kept(plain, tmp_path):
    _, target = convert(plain, "signal_4Hz", tmp_path)
    assert b"Jane" not in target.read_bytes()
    assert b"1951" not in target.read_bytes()


def test_float32_is_stored_where_asked(plain, tmp_path):
    _, target = convert(plain, "signal_4Hz", tmp_path, float32=True)
    assert str(pq.read_schema(target).field("EEG").type) == "float"


def test_unit_can_be_given(plain, tmp_path):
    _, target = convert(plain, "signal_4Hz", tmp_path, units=(("EEG", "mV"),))
    assert pq.read_schema(target).field("EEG").metadata[b"unit"] == b"mV"


def test_record_onsets_make_gaps(tmp_path):
    channels = [("EEG", "uV", 2), ("EDF Annotations", "", 30)]
    records = [(ints(1, 2), tal(onset)) for onset in ("+0.25", "+1.25", "+7.5")]
    path = make(tmp_path / "gaps.edf", channels, records, reserved="EDF+D")
    facts, target = convert(path, "signal", tmp_path)
    stamps = tables.read_stream(target, "x").stamps_ns - START_NS
    assert (stamps / 1e9).tolist() == [0.25, 0.75, 1.25, 1.75, 7.5, 8.0]
    assert any("1 gaps, 5.25 s in all" in note for note in facts.notes)


def test_continuous_file_with_gaps_is_told_of(tmp_path):
    channels = [("EEG", "uV", 2), ("EDF Annotations", "", 30)]
    records = [(ints(1, 2), tal(onset)) for onset in ("+0", "+1.0004", "+9")]
    path = make(tmp_path / "gaps.edf", channels, records, reserved="EDF+C")
    facts, target = convert(path, "signal", tmp_path)
    stamps = tables.read_stream(target, "x").stamps_ns - START_NS
    assert (stamps / 1e9).tolist() == [0, 0.5, 1, 1.5, 9, 9.5]
    assert any("says that it has none" in note for note in facts.notes)


def test_annotations_are_events_with_duration_and_text(tmp_path):
    channels = [("EEG", "uV", 2), ("EDF Annotations", "", 30)]
    records = [
        (ints(1, 2), tal("+0", ("+0.5\x151.25", "Lichter aus ä"), n=30)),
        (ints(3, 4), tal("+1", ("+1.125", "flash"), n=30)),
    ]
    path = make(tmp_path / "notes.edf", channels, records, reserved="EDF+C")
    facts, target = convert(path, "annotations", tmp_path)
    table = pq.read_table(target)
    assert table.column("duration").to_pylist() == [1.25, None]
    assert table.column("description").to_pylist() == ["Lichter aus ä", "flash"]
    assert tables.read_stream(target, "x").stamps_ns.tolist() == [
        START_NS + 500_000_000,
        START_NS + 1_125_000_000,
    ]
    assert facts.rate_hz is None


@pytest.mark.parametrize("declared", [-1, 7])
def test_records_are_counted_in_the_file(tmp_path, declared):
    path = make(tmp_path / "a.edf", [("EEG", "uV", 2)], [(ints(1, 2),)] * 3, n_records=declared)
    facts, _ = convert(path, "signal", tmp_path)
    assert facts.rows == 6
    assert any("the header says 7" in note for note in facts.notes) == (declared == 7)


def test_cut_record_is_left_out_and_said(tmp_path):
    path = make(tmp_path / "a.edf", [("EEG", "uV", 2)], [(ints(1, 2),)] * 3)
    path.write_bytes(path.read_bytes()[:-1])
    facts, _ = convert(path, "signal", tmp_path)
    assert facts.rows == 4
    assert any("last 3 bytes" in note for note in facts.notes)


def test_channels_of_one_name_stay_apart(tmp_path):
    path = make(tmp_path / "a.edf", [("EEG", "uV", 1)] * 2, [(ints(1), ints(2))])
    _, target = convert(path, "signal", tmp_path)
    assert pq.read_schema(target).names[2:] == ["EEG", "EEG_"]


def test_record_without_duration_needs_a_rate(tmp_path):
    path = make(tmp_path / "a.edf", [("EEG", "uV", 2)], [(ints(1, 2),)] * 3, record_s=0)
    with pytest.raises(DataError, match="a record lasts '0' s"):
        convert(path, "signal", tmp_path)
    facts, _ = convert(path, "signal", tmp_path, rate_hz=Fraction(8))
    assert (facts.rate_hz, facts.end_ns - facts.start_ns) == (8, 625_000_000)


def test_header_without_records_is_refused(tmp_path):
    path = make(tmp_path / "a.edf", [("EEG", "uV", 2)], [])
    with pytest.raises(DataError, match=r"a\.edf: holds no data record"):
        edf.probe(claimed(path), tmp_path, TextOptions())


def test_unknown_stream_is_refused(plain):
    with pytest.raises(UsageError, match="no stream '9'"):
        edf.read_stream(plain, TextOptions(), "x", stream="9")


def test_other_files_are_not_claimed(tmp_path):
    (tmp_path / "a.edf").write_bytes(b"EDF" * 200)
    (tmp_path / "b.rec").write_bytes(b"0       " + b"\0" * 300)
    (tmp_path / "c.edf").write_bytes(b"")
    assert edf.claim("", ["a.edf", "b.rec", "c.edf"], tmp_path) == []


def test_triggers_stay_integers(shared, tmp_path):
    _, target = convert(shared("edf/test_bdf_stim_channel.bdf"), "signal", tmp_path)
    assert str(pq.read_schema(target).field("Status").type) == "int64"


def test_gaps_of_the_made_file_are_where_they_were_put(shared, tmp_path):
    folder = shared("made/B10")
    truth = json.loads((folder / "truth.json").read_text())
    _, target = convert(folder / "gaps.edf", "signal", tmp_path)
    stream = tables.read_stream(target, "x")
    seconds = (stream.stamps_ns - stream.stamps_ns[0]) / 1e9
    breaks = np.flatnonzero(np.diff(seconds) > 0.5) + 1
    edges = [(part[0], part[-1] + 1 / 128) for part in np.split(seconds, breaks)]
    assert edges == [pytest.approx(pair) for pair in truth["segments_s"]]
    assert stream.data[:, 0] == pytest.approx(100 * np.sin(2 * np.pi * seconds / 10), abs=0.02)
    _, target = convert(folder / "gaps.edf", "annotations", tmp_path)
    notes = tables.read_stream(target, "x").stamps_ns - stream.stamps_ns[0]
    assert (notes / 1e9).tolist() == truth["annotations_s"]


@pytest.mark.parametrize("name", FILES)
def test_every_value_equals_that_of_edfio(shared, tmp_path, name):
    edfio = pytest.importorskip("edfio")
    path = shared(f"edf/{name}")
    read = edfio.read_bdf if name.endswith("bdf") else edfio.read_edf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        signals = list(read(path, header_encoding="latin-1").signals)
    streams = edf.streams(claimed(path), path.parent, TextOptions())
    found = [edf.read_stream(path, TextOptions(), s, stream=s) for s in streams]
    ours = [
        (float(s.nominal_rate_hz), s.channels[k], s.data[:, k])
        for s in found
        if s.kind == "signal"
        for k in range(len(s.channels))
    ]
    rates = list(dict.fromkeys(ours_rate for ours_rate, _, _ in ours))
    signals.sort(key=lambda s: rates.index(pytest.approx(s.sampling_frequency)))
    assert len(ours) == len(signals)
    for (rate_hz, label, data), signal in zip(ours, signals, strict=True):
        assert rate_hz == pytest.approx(signal.sampling_frequency)
        assert label.rstrip("_") == signal.label
        span = abs(signal.physical_max - signal.physical_min)
        known = signal.digital if label == "Status" else signal.data
        assert np.allclose(data, known, rtol=1e-9, atol=1e-9 * span)


@pytest.mark.parametrize("name", ["SC4001EC-Hypnogram.edf", "test.edf", "evt.bdf", "test_utf8.edf"])
def test_annotations_equal_those_of_edfio(shared, tmp_path, name):
    edfio = pytest.importorskip("edfio")
    path = shared(f"edf/{name}")
    read = edfio.read_bdf if name.endswith("bdf") else edfio.read_edf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = read(path, header_encoding="latin-1").annotations
    _, target = convert(path, "annotations", tmp_path)
    table = pq.read_table(target).to_pydict()
    rows = list(zip(table["duration"], table["description"], strict=True))
    # edfio counts from the first sample, and its order is by onset.
    assert sorted(rows, key=str) == sorted(((a.duration, a.text) for a in known), key=str)
    stamps = np.sort(tables.read_stream(target, "x").stamps_ns)
    onsets = np.sort([a.onset for a in known])
    assert np.diff(stamps) / 1e9 == pytest.approx(np.diff(onsets), abs=1e-6)


@pytest.mark.parametrize(
    "name", ["test_subsecond.bdf", "test_utf8.edf", "duplicate_channel_labels.edf"]
)
def test_start_equals_that_of_mne(shared, tmp_path, name):
    mne = pytest.importorskip("mne")
    path = shared(f"edf/{name}")
    read = mne.io.read_raw_bdf if name.endswith("bdf") else mne.io.read_raw_edf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        raw = read(path, preload=False, verbose="ERROR")
    facts, _ = convert(path, "signal", tmp_path)
    assert facts.rows == raw.n_times
    # MNE keeps the header's whole seconds; the first annotation adds the rest.
    whole_ns = round(raw.info["meas_date"].timestamp()) * 10**9
    assert 0 <= facts.start_ns - whole_ns < 10**9
