"""Real recordings through the commands; each test skips where the collected files are absent."""

from __future__ import annotations

import json
from pathlib import Path

import av
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import soundfile

from mmprep import open_dataset, run_align, run_convert, run_mfcc
from mmprep.manifest.codec import decode_dataset, read_manifest
from mmprep.steps.base import FailedItemsError
from mmprep.steps.check import check

SERIAL = {"engine": "serial"}
E4_RATES = {"ACC": 32, "BVP": 64, "EDA": 4, "HR": 1}


def _raw_e4(path: Path) -> tuple[float, np.ndarray]:
    """Read an E4 file the obvious way."""
    table = pd.read_csv(path, header=None)
    return float(table.iloc[0, 0]), table.iloc[2:].to_numpy(dtype=np.float64)


@pytest.fixture(scope="module")
def e4(shared_folder, tmp_path_factory):
    source = shared_folder / "e4/msr2023_session"
    out = tmp_path_factory.mktemp("e4")
    run_convert(source, output=out / "converted", layout="e4", **SERIAL)
    inputs = [f"{out}/converted#{name}" for name in E4_RATES]
    run_align(*inputs, output=out / "aligned", window="10", **SERIAL)
    return source, out


def test_e4_session_becomes_one_record_with_all_streams(e4):
    source, out = e4
    (record,) = read_manifest(out / "converted/manifest.jsonl")
    assert record.id == record.session == source.name
    assert sorted(record.streams) == ["ACC", "BVP", "EDA", "HR", "IBI", "TEMP"]


@pytest.mark.parametrize("name", ["ACC", "BVP", "EDA", "HR", "TEMP"])
def test_e4_table_holds_the_rows_and_times_of_the_file(e4, name):
    source, out = e4
    start_s, values = _raw_e4(source / f"{name}.csv")
    table = pq.read_table(out / f"converted/tables/{name}/{source.name}.parquet")
    columns = np.column_stack([table.column(k) for k in range(2, table.num_columns)])
    np.testing.assert_array_equal(columns, values)
    stamps = table.column("time").cast("int64").to_numpy()
    rate = {**E4_RATES, "TEMP": 4}[name]
    expected = int(start_s) * 10**9 + np.arange(len(values)) * 10**9 // rate
    np.testing.assert_array_equal(stamps, expected)


def test_e4_windows_begin_when_the_last_stream_begins(e4):
    source, out = e4
    sync = json.loads((out / f"aligned/sync/{source.name}.json").read_text())
    starts = [_raw_e4(source / f"{name}.csv")[0] for name in E4_RATES]
    assert sync["origin_ns"] == int(max(starts)) * 10**9
    ends = [
        start + len(values) / E4_RATES[name]
        for name in E4_RATES
        for start, values in [_raw_e4(source / f"{name}.csv")]
    ]
    assert sync["windows"]["kept"] == int((min(ends) - max(starts)) // 10)


def test_e4_window_holds_the_samples_of_its_time(e4):
    source, out = e4
    data = open_dataset(out / "aligned")
    for name in ("EDA", "BVP", "ACC", "HR"):
        start_s, values = _raw_e4(source / f"{name}.csv")
        rate = E4_RATES[name]
        first = round((1680686630 + 70 - start_s) * rate)
        np.testing.assert_allclose(data[7][name], values[first : first + 10 * rate], atol=2e-3)


def test_e4_accounting_adds_up(e4):
    source, out = e4
    sync = json.loads((out / f"aligned/sync/{source.name}.json").read_text())
    for stream in sync["streams"]:
        counts = dict(stream["accounting"])
        n_in = counts.pop("in")
        assert n_in == sum(counts.values())
        assert n_in == len(_raw_e4(source / f"{stream['name']}.csv")[1])


def test_speech_of_mixed_rates_becomes_shards_of_one_rate_each(shared, tmp_path):
    speech = shared("audio/speech")
    run_convert(speech, output=tmp_path / "out", exclude=("*.opus",), **SERIAL)
    assert check(str(tmp_path / "out"), checksums=True).findings == ()
    data = open_dataset(tmp_path / "out")
    for row, record in zip(data, read_manifest(tmp_path / "out/manifest.jsonl"), strict=True):
        source = speech / record.source
        if source.suffix == ".mp3":  # another decoder, other rounding
            continue
        samples, _ = soundfile.read(source, dtype="float32")
        np.testing.assert_array_equal(row["audio"], samples)
    head = decode_dataset((tmp_path / "out/dataset.json").read_bytes())
    rates = {shard.rate_hz for shard in head.modalities["audio"].shards}
    assert {"8000/1", "16000/1", "22050/1", "44100/1"} <= rates


def test_opus_twin_of_a_wav_is_refused_before_any_work(shared, tmp_path):
    from mmprep import UsageError

    with pytest.raises(UsageError, match="would both be stream 'audio' of 'lhotse_mono_c0'"):
        run_convert(shared("audio/speech"), output=tmp_path / "out", **SERIAL)
    assert list(tmp_path.iterdir()) == []


def test_empty_wav_fails_alone_and_max_failures_lets_it_pass(shared, tmp_path):
    speech = shared("audio/speech_zh")
    with pytest.raises(FailedItemsError, match="1 of 5 items failed"):
        run_convert(speech, output=tmp_path / "out", **SERIAL)
    assert not (tmp_path / "out").exists()
    result = run_convert(speech, output=tmp_path / "out", max_failures="1", **SERIAL)
    assert result.status == "partial"
    failure = json.loads((tmp_path / "out/failures.jsonl").read_text())
    assert failure["id"] == "funasr_empty_46bytes"
    assert len(open_dataset(tmp_path / "out")) == 4


def test_mfcc_of_real_speech_is_that_of_librosa(shared, tmp_path):
    import librosa

    speech = shared("audio/speech")
    exclude = ("*.opus",)
    run_mfcc(speech, output=tmp_path / "out", exclude=exclude, rate=16000, **SERIAL)
    data = open_dataset(tmp_path / "out")
    assert len(data) == 19
    for name in ("kaldi_test", "sb_spk1_snt1", "sb_example2"):
        row = next(row for row in data if row["id"] == name)
        samples, rate = soundfile.read(next(speech.glob(f"{name}.[wf][al]*[vc]")), dtype="float32")
        assert rate == 16000
        options = {"n_mfcc": 13, "n_fft": 512, "win_length": 400, "hop_length": 160}
        expected = librosa.feature.mfcc(y=samples, sr=rate, n_mels=80, **options)
        np.testing.assert_allclose(row["mfcc"], expected.T, atol=1e-3)


def test_mixed_rates_without_a_rate_are_a_usage_error_with_the_way_out(shared, tmp_path):
    from mmprep import UsageError

    with pytest.raises(UsageError, match="mixed rates") as caught:
        run_mfcc(shared("audio/speech"), output=tmp_path / "o", exclude=("*.opus",), **SERIAL)
    assert "--rate" in caught.value.hint


def test_talking_face_is_aligned_with_its_own_sound(shared, tmp_path):
    clip = shared("video/grid_bbaf2n.mpg")
    run_align(
        output=tmp_path / "out",
        video=str(clip),
        stream=(f"audio={clip},kind=audio",),
        frames="64x64",
        **SERIAL,
    )
    data = open_dataset(tmp_path / "out")
    with av.open(str(clip)) as container:
        stamps = [float(f.pts * f.time_base) for f in container.decode(video=0)]
    with av.open(str(clip)) as container:
        first = next(container.decode(audio=0))
        audio_start = float(first.pts * first.time_base)
    sync = json.loads((tmp_path / "out/sync/session.json").read_text())
    begin_s = max(stamps[0], audio_start)
    assert sync["origin_on_clock_ns"] / 1e9 == pytest.approx(begin_s, abs=1e-6)
    assert len(data) == 2
    assert data[0]["video"].shape == (25, 64, 64, 3)
    assert data[0]["audio"].shape[0] == 44100
    assert data[0]["video.valid"].all()
    assert data[0]["audio.valid"].all()


def test_variable_frame_rate_gives_frames_by_their_stamps(shared, tmp_path):
    folder = shared("made/B07")
    true_s = np.loadtxt(folder / "true_stamps_ms.txt") / 1000
    run_align(output=tmp_path / "out", video=str(folder / "vfr_phone.mp4"), **SERIAL)
    grid = None
    for row in open_dataset(tmp_path / "out"):
        k = int(row["id"][-6:])
        grid = true_s[0] + k + np.arange(30) / 30
        distance = np.abs(true_s[None] - grid[:, None])
        clear = np.sort(distance, axis=1)[:, :2] @ [-1, 1] > 1e-3
        valid = row["video.valid"] & clear
        assert np.array_equal(row["video"][valid], distance.argmin(axis=1)[valid])
    assert grid is not None


def test_nearest_within_half_a_slow_period_leaves_the_hole_empty(shared, tmp_path):
    folder = shared("made/B16")
    run_align(
        output=tmp_path / "out",
        stream=(f"e={folder}/eeg_128hz.tsv", f"g={folder}/gsr_4hz_with_gap.tsv"),
        method=("g=nearest",),
        rates="g=128",
        **SERIAL,
    )
    sync = json.loads((tmp_path / "out/sync/session.json").read_text())
    origin_s = sync["origin_on_clock_ns"] / 1e9
    rows = open_dataset(tmp_path / "out", fill="nan")
    times = np.concatenate([origin_s + k + np.arange(128) / 128 for k in range(len(rows))])
    valid = np.concatenate([row["g.valid"] for row in rows])
    values = np.concatenate([row["g"][:, 0] for row in rows])
    table = np.loadtxt(folder / "gsr_4hz_with_gap.tsv", skiprows=1)
    distance = np.abs(table[:, 0][None] - times[:, None])
    expected = distance.min(axis=1) <= 0.125 + 1e-9
    edge = np.abs(distance.min(axis=1) - 0.125) < 0.004
    np.testing.assert_array_equal(valid[~edge], expected[~edge])
    np.testing.assert_array_equal(
        values[valid & ~edge], table[distance.argmin(axis=1), 1][valid & ~edge]
    )
    hole = (times > 2.97) & (times < 5.21)
    assert not valid[hole].any()


def test_two_speakers_with_files_of_one_name_keep_their_own(shared, tmp_path):
    folder = shared("made/B24")
    run_convert(folder, output=tmp_path / "out", include=("*.wav",), **SERIAL)
    data = open_dataset(tmp_path / "out")
    ids = [row["id"] for row in data]
    assert ids == ["spk1/001", "spk1/002", "spk2/001", "spk2/002"]
    for row in data:
        samples, _ = soundfile.read(folder / f"{row['id']}.wav", dtype="float32")
        np.testing.assert_array_equal(row["audio"], samples)


VENDORS = [
    ("edf/short_psg.edf", {"signal_100Hz": 30000, "signal_1Hz": 300}),
    ("xdf/three_motion_seven.xdf", {"MyMarkerStream": 136, "obci_eeg1": 47420}),
    ("muse/mind_monitor_a.csv", {"eeg": 258}),
    ("garmin/garmin_long_first12000.csv", {"HEART_RATE": 3668}),
    ("shimmer/consensys_ppg_tab.csv", {"consensys_ppg_tab": 1482}),
    ("openbci/openbci_v3_blinks_first6000.txt", {"openbci_v3_blinks_first6000": 5994}),
    ("bids/sub-01_task-cuedSGT_run-01_physio.tsv.gz", {"physio": 26000}),
]


@pytest.mark.parametrize(("name", "rows"), VENDORS, ids=[name for name, _ in VENDORS])
def test_file_of_a_vendor_becomes_tables(shared, tmp_path, name, rows):
    run_convert(shared(name), output=tmp_path / "out", **SERIAL)
    (record,) = read_manifest(tmp_path / "out/manifest.jsonl")
    found = {stream: ref.n_rows for stream, ref in record.streams.items()}
    assert found.items() >= rows.items()
    assert check(str(tmp_path / "out"), checksums=True).findings == ()


def test_xdf_keeps_its_clock_offsets_and_align_uses_them(shared, tmp_path):
    run_convert(shared("made/B01/clock_reset.xdf"), output=tmp_path / "c", **SERIAL)
    run_align(tmp_path / "c", output=tmp_path / "out", **SERIAL)
    sync = json.loads((tmp_path / "out/sync/clock_reset.json").read_text())
    (eeg,) = sync["streams"]
    assert eeg["clock"]["method"] == "fixes"
    assert len(eeg["clock"]["segments"]) == 2


def test_a_named_stream_of_xdf_has_the_clock_that_its_file_tells_of(shared, tmp_path):
    path = shared("made/B01/clock_reset.xdf")
    run_align(stream=[f"EEG={path}#EEG"], output=tmp_path / "named", **SERIAL)
    run_convert(path, output=tmp_path / "c", **SERIAL)
    run_align(f"{tmp_path / 'c'}#EEG", output=tmp_path / "out", **SERIAL)
    named = json.loads((tmp_path / "named/sync/session.json").read_text())["streams"]
    made = json.loads((tmp_path / "out/sync/clock_reset.json").read_text())["streams"]
    assert named[0]["clock"] == made[0]["clock"]
    assert named[0]["accounting"] == made[0]["accounting"]
