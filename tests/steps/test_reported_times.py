"""What people report to go wrong with time, through `align`, against the right values."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from mmprep import open_dataset, run_align, run_convert
from mmprep.manifest.codec import read_manifest

SERIAL = {"engine": "serial"}


class Session:
    """An aligned session: its `sync`, its windows as one line, its events."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.sync = json.loads((folder / f"sync/{name}.json").read_text())
        self.streams = {one["name"]: one for one in self.sync["streams"]}
        self.rows = open_dataset(folder, fill="nan")
        self.begins = np.array([r.begin_s for r in read_manifest(folder / "manifest.jsonl")])

    @property
    def origin_s(self) -> float:
        return self.sync["origin_on_clock_ns"] / 1e9

    def line(self, stream: str) -> tuple[np.ndarray, np.ndarray]:
        """Give times after the origin and values of all windows."""
        values = np.concatenate([row[stream] for row in self.rows])
        n = len(values) // len(self.begins)
        period = self.sync["window_s"] / n
        return (self.begins[:, None] + np.arange(n) * period).reshape(-1), values

    def events(self, stream: str) -> np.ndarray:
        """Give the times of events after the origin."""
        table = pq.read_table(self.folder / f"tables/{stream}/{self.name}.parquet")
        stamps = table.column("time").cast("int64").to_numpy()
        return (stamps - (self.sync["origin_ns"] or 0)) / 1e9


def aligned(source: Path, top: Path, **options) -> Session:
    """Convert a recording and align it."""
    convert = {key: options.pop(key) for key in ("layout", "tz") if key in options}
    run_convert(source, output=top / "c", **convert, **SERIAL)
    run_align(top / "c", output=top / "a", **options, **SERIAL)
    (path,) = (top / "a/sync").rglob("*.json")
    return Session(top / "a", path.relative_to(top / "a/sync").with_suffix("").as_posix())


def truth_of(shared, report: str) -> dict:
    return json.loads(shared(f"made/{report}/truth.json").read_text())


def pulses(session: Session, stream: str) -> np.ndarray:
    """Give the times of pulses a sample wide, to a part of a sample."""
    times, values = session.line(stream)
    x = np.nan_to_num(values[:, 0])
    at = np.flatnonzero((x[1:-1] > 40) & (x[1:-1] >= x[:-2]) & (x[1:-1] > x[2:])) + 1
    parts = [
        (x[k - 1 : k + 2].clip(0) @ times[k - 1 : k + 2]) / x[k - 1 : k + 2].clip(0).sum()
        for k in at
    ]
    return np.array(parts)


def test_pulses_sit_on_their_markers_on_both_sides_of_a_restart(shared, tmp_path):
    session = aligned(shared("made/B01/clock_reset.xdf"), tmp_path)
    truth = truth_of(shared, "B01")
    eeg = session.streams["EEG"]
    assert len(eeg["clock"]["segments"]) == len(truth["segments"])
    assert eeg["accounting"]["in"] == truth["n_samples"]
    assert eeg["n_gaps"] == 1
    found, markers = pulses(session, "EEG"), session.events("Stim")
    assert len(found) == len(markers) == 22
    assert np.abs(found - markers).max() < 1 / 128
    assert np.any(found < 60)
    assert np.any(found > 64)


def test_rate_that_is_not_the_nominal_one_is_used_and_said(shared, tmp_path):
    session = aligned(shared("made/B02/nominal_vs_effective.xdf"), tmp_path)
    truth = truth_of(shared, "B02")
    eeg = session.streams["EEG"]
    ppm = (truth["effective_srate"] / 128 - 1) * 1e6  # 2 ms of jitter leave 0.12 ppm (1 sigma)
    assert eeg["rate_ppm"] == pytest.approx(ppm, abs=0.36)
    end_s = np.diff(eeg["coverage_s"])[0] - 1 / 128
    n_samples = eeg["accounting"]["in"]
    assert end_s == pytest.approx((n_samples - 1) / truth["effective_srate"], abs=1e-3)
    found, markers = pulses(session, "EEG"), session.events("Stim")
    assert np.abs(found - markers[: len(found)]).max() < 1 / 128


@pytest.mark.parametrize("by", ["data set", "file"])
def test_block_of_stamps_that_are_off_is_put_back(shared, tmp_path, by):
    source, truth = shared("made/B03/jump.tsv"), truth_of(shared, "B03")
    if by == "file":
        run_align(output=tmp_path / "a", stream=(f"jump={source}",), **SERIAL)
        session = Session(tmp_path / "a", "session")
    else:
        session = aligned(source, tmp_path)
    jump = session.streams["jump"]
    first, last = truth["rows_with_bad_time"]
    assert jump["repairs"]["n_shifted"] == last - first + 1
    assert jump["accounting"]["used"] == jump["accounting"]["in"] == 4000
    assert (jump["n_gaps"], len(session.rows)) == (0, 4000 // truth["true_rate_hz"])
    raw = np.loadtxt(source, skiprows=1, usecols=1)
    np.testing.assert_allclose(session.line("jump")[1][:, 0], raw, atol=1e-5)


def test_slope_of_a_headset_is_read_from_the_lower_envelope_of_its_arrivals(shared, tmp_path):
    path, truth = shared("made/B04/ble_packets.tsv.gz"), truth_of(shared, "B04")
    stream = f"arrival={path},rate=256,time=t_arrival_s"
    run_align(output=tmp_path / "a", stream=(stream,), **SERIAL)
    arrival = Session(tmp_path / "a", "session").streams["arrival"]
    assert arrival["repairs"]["estimate"] == "envelope"
    assert arrival["rate_ppm"] == pytest.approx(truth["drift_ppm_device_fast"], abs=2)
    assert arrival["accounting"]["duplicate"] == 0


def test_stamps_that_a_headset_counts_off_have_its_crystals_error(shared, tmp_path):
    # By the arrivals, 600 s of the device are 0.048 s less: the two columns tell, and fixes mend.
    path, truth = shared("made/B04/ble_packets.tsv.gz"), truth_of(shared, "B04")
    rows = np.genfromtxt(path, skip_header=1)[11::12]
    fixes = "".join(f"{d:.6f}\t{a:.4f}\n" for d, a, _ in rows)
    (tmp_path / "fixes.tsv").write_text("device_s\treference_s\n" + fixes)
    stream, log = f"ble={path},rate=256,time=t_device_s", f"ble={tmp_path}/fixes.tsv"
    run_align(output=tmp_path / "plain", stream=(stream,), **SERIAL)
    run_align(output=tmp_path / "a", stream=(stream,), clock=(log,), **SERIAL)
    plain, fixed = (Session(tmp_path / n, "session").streams["ble"] for n in ("plain", "a"))
    assert plain["rate_ppm"] == pytest.approx(0, abs=0.1)
    lost_s = np.diff(plain["coverage_s"])[0] - np.diff(fixed["coverage_s"])[0]
    assert lost_s == pytest.approx(truth["accumulated_s_after_600s"], abs=0.01)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Rome", "Pacific/Auckland"])
def test_night_of_the_clock_change_has_no_extra_hour(shared, tmp_path, monkeypatch, zone):
    monkeypatch.setenv("TZ", zone)
    truth = truth_of(shared, "B06")
    session = aligned(shared("made/B06/e4_session"), tmp_path, layout="e4")
    start_ns = int(np.datetime64(truth["start_utc"][:-1], "ns").astype(np.int64))
    late_s = truth["HR_starts_s_after_EDA"]
    assert session.sync["origin_ns"] == start_ns + late_s * 10**9
    common_s = truth["last_common_instant_s_after_start"] - late_s
    assert len(session.rows) == common_s
    tags = session.events("tags") + late_s
    np.testing.assert_allclose(tags, truth["tag_offsets_from_start_s"], atol=1e-6)
    ibi = session.events("IBI") + late_s
    assert np.all((ibi >= late_s) & (ibi < truth["last_common_instant_s_after_start"]))


def test_gaps_of_an_edf_are_masked_and_all_else_is_at_its_true_time(shared, tmp_path):
    truth = truth_of(shared, "B10")
    session = aligned(shared("made/B10/gaps.edf"), tmp_path)
    (signal,) = session.streams.values()
    times, values = session.line(signal["name"])
    x = values[:, 0]
    inside = np.zeros(times.size, dtype=bool)
    for begin, end in truth["segments_s"]:
        inside |= (times >= begin) & (times <= end - 1 / 64)
    assert np.isfinite(x[inside]).all()
    near = np.min([np.abs(times - edge) for span in truth["segments_s"] for edge in span], axis=0)
    assert np.isnan(x[~inside & (near > 0.05)]).all()
    calm = inside & (near > 0.5)  # a sinc has less to go by at the ends of a run
    assert np.abs(x[calm] - 100 * np.sin(2 * np.pi * times[calm] / 10)).max() < 0.1
    gaps = np.array(signal["gaps_s"])
    spans = np.array(truth["segments_s"])
    np.testing.assert_allclose(gaps[:, 1], spans[1:, 0], atol=1e-6)
    np.testing.assert_allclose(gaps[:, 0], spans[:-1, 1], atol=0.05)
    np.testing.assert_allclose(session.events("annotations"), truth["annotations_s"], atol=1e-6)
    length_s = truth["segments_s"][-1][1]
    assert session.sync["windows"]["planned"] == length_s != truth["naive_length_s"]


def test_events_lie_at_their_onset_where_samples_count_from_elsewhere(shared, tmp_path, mmprep):
    truth = truth_of(shared, "B11")
    folder = tmp_path / "bids"
    folder.mkdir()
    name = "sub-01_task-x"
    (folder / f"{name}_events.tsv").write_bytes(shared(f"made/B11/{name}_events.tsv").read_bytes())
    (folder / f"{name}_physio.tsv").write_text("".join(f"{k}\n" for k in range(60 * 128)))
    facts = {"SamplingFrequency": truth["fs"], "StartTime": 0, "Columns": ["x"]}
    (folder / f"{name}_physio.json").write_text(json.dumps(facts))
    done = mmprep("convert", folder, "-o", tmp_path / "c", "--layout", "bids")
    shift_s = truth["first_samp"] / truth["fs"]
    assert f"sample counts {truth['first_samp']} more than onset says, {shift_s:g} s" in done.err
    run_align(tmp_path / "c", output=tmp_path / "a", **SERIAL)
    (path,) = (tmp_path / "a/sync").rglob("*.json")
    session = Session(
        tmp_path / "a", path.relative_to(tmp_path / "a/sync").with_suffix("").as_posix()
    )
    assert session.origin_s == 0
    assert session.events("events")[0] == truth["onset_of_first_event_s"]


@pytest.mark.parametrize("person", ["P001", "P003", "P031", "P050"])
def test_bad_last_clock_offset_costs_no_sample(shared, tmp_path, person):
    session = aligned(shared(f"xdf/muse_sub-{person}.xdf"), tmp_path)
    for stream in session.streams.values():
        assert stream["accounting"]["corrupt"] == stream["accounting"]["duplicate"] == 0
        assert stream["n_gaps"] == 0
        assert len(stream["clock"]["segments"]) == 1
        assert stream["clock"]["n_rejected"] == 0


def test_fixes_that_are_dropped_are_counted(tmp_path):
    rng = np.random.default_rng(6)
    device_s = np.arange(0.0, 600.0, 5.0)
    offset_s = 3 + rng.normal(0, 20e-6, device_s.size)
    offset_s[-1] += 40e-6  # no more than the others scatter
    offset_s[[17, 60]] += 0.02
    fixes = "".join(f"{d:.9f}\t{d + o:.9f}\n" for d, o in zip(device_s, offset_s, strict=True))
    (tmp_path / "log.tsv").write_text("device\treference\n" + fixes)
    rows = "".join(f"{k / 16:.6f}\t{k}\n" for k in range(600 * 16))
    (tmp_path / "x.tsv").write_text("time\tx\n" + rows)
    log = (f"x={tmp_path}/log.tsv",)
    run_align(output=tmp_path / "a", stream=(f"x={tmp_path}/x.tsv",), clock=log, **SERIAL)
    x = Session(tmp_path / "a", "session").streams["x"]
    assert (x["clock"]["n_fixes"], x["clock"]["n_rejected"]) == (118, 2)
    assert x["accounting"]["used"] + x["accounting"]["out_of_range"] == 9600
