"""What people report to go wrong when recordings are read, each with its right values.

`KNOWN` names the tests of every report; those that no other module has are here.
"""

from __future__ import annotations

import ast
import csv
import gzip
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from mmprep import open_dataset, run_convert, run_mfcc
from mmprep.manifest.codec import read_manifest
from tests import raw
from tests.conftest import ROOT
from tests.kill import tree

SERIAL = {"engine": "serial"}
HERE, VIDEOS, TIMES = "test_reports.py", "steps/test_videos.py", "steps/test_reported_times.py"
KNOWN = {  # report -> the tests that show it is not so here
    "B01": [
        "sources/test_xdf.py::test_restart_of_the_host_is_in_the_evidence",
        f"{TIMES}::test_pulses_sit_on_their_markers_on_both_sides_of_a_restart",
    ],
    "B02": [
        "sources/test_xdf.py::test_effective_rate_shows_in_raw_stamps",
        f"{TIMES}::test_rate_that_is_not_the_nominal_one_is_used_and_said",
    ],
    "B03": [
        f"{HERE}::test_stamps_that_jump_are_kept_as_they_are",
        f"{TIMES}::test_block_of_stamps_that_are_off_is_put_back",
    ],
    "B04": [
        f"{HERE}::test_stamps_of_device_and_arrival_are_both_kept",
        f"{TIMES}::test_slope_of_a_headset_is_read_from_the_lower_envelope_of_its_arrivals",
        f"{TIMES}::test_stamps_that_a_headset_counts_off_have_its_crystals_error",
    ],
    "B05": [
        f"{HERE}::test_two_devices_keep_their_own_clocks_and_rates",
        "steps/test_shared_events.py::test_shared_peaks_of_a_wrist_and_a_reference_give_offset_and_drift",
    ],
    "B06": [
        "sources/test_e4.py::test_night_of_the_clock_change_has_no_extra_hour",
        f"{TIMES}::test_night_of_the_clock_change_has_no_extra_hour",
    ],
    "B07": [
        "test_media.py::test_phone_video_has_its_true_stamps",
        f"{VIDEOS}::test_flash_and_beep_of_a_phone_video_meet",
    ],
    "B08": [
        f"{HERE}::test_cut_video_becomes_the_frames_that_are_left",
        f"{VIDEOS}::test_cut_video_is_aligned_as_far_as_it_goes",
        f"{VIDEOS}::test_inspect_says_frames_declared_stored_and_decoded",
    ],
    "B09": [
        f"{HERE}::test_frames_at_30000_1001_hz_are_where_that_puts_them",
        f"{VIDEOS}::test_flash_and_beep_at_2997_stay_together_to_the_end",
    ],
    "B10": [
        "sources/test_edf.py::test_gaps_of_the_made_file_are_where_they_were_put",
        f"{TIMES}::test_gaps_of_an_edf_are_masked_and_all_else_is_at_its_true_time",
    ],
    "B11": [
        "sources/test_bids.py::test_sample_that_counts_from_elsewhere_is_said",
        f"{TIMES}::test_events_lie_at_their_onset_where_samples_count_from_elsewhere",
    ],
    "B12": ["sources/test_text.py::test_integers_that_end_as_floats_are_floats"],
    "B13": ["sources/test_text.py::test_values_after_many_empty_rows_set_the_kind"],
    "B14": ["sources/test_text.py::test_nanoseconds_beside_a_missing_stamp_stay_exact"],
    "B15": [f"{HERE}::test_memory_does_not_grow_with_the_file"],
    "B16": [
        "align/test_methods.py::test_gap_of_b16_is_null_for_nearest_within_an_eighth_second",
        "test_real.py::test_nearest_within_half_a_slow_period_leaves_the_hole_empty",
    ],
    "B20": [f"{HERE}::test_streamed_wav_holds_what_was_decoded"],
    "B21": [f"{HERE}::test_features_do_not_hang_beside_threads_of_the_caller"],
    "B22": [f"{HERE}::test_scale_of_samples_is_kept_and_a_wrong_one_is_said"],
    "B24": ["test_real.py::test_two_speakers_with_files_of_one_name_keep_their_own"],
    "E01": [
        "steps/test_real_clocks.py::test_last_clock_offset_costs_no_sample",
        f"{TIMES}::test_bad_last_clock_offset_costs_no_sample",
        f"{TIMES}::test_fixes_that_are_dropped_are_counted",
    ],
    "E03": [
        f"{HERE}::test_sound_and_picture_keep_their_own_lengths",
        f"{VIDEOS}::test_sound_that_is_shorter_than_the_picture_is_not_stretched",
    ],
    "E05": ["sources/test_text.py::test_not_available_is_missing_in_every_column"],
    "E07": ["sources/test_text.py::test_nul_run_is_skipped_and_listed"],
    "E09": [f"{HERE}::test_length_of_an_mp3_is_what_was_decoded"],
    "E11": ["test_real.py::test_speech_of_mixed_rates_becomes_shards_of_one_rate_each"],
    "E17": [
        "steps/test_align.py::test_latency_moves_a_stream_by_what_is_said",
        "steps/test_clock_evidence.py::test_latency_of_a_relay_moves_its_stream_and_is_on_record",
    ],
}
OTHERS = {  # not about reading
    "B17": "shards that were cut",
    "B18": "loader: open files",
    "B19": "loader: memory of the index",
    "B23": "manifests of others: their paths and texts",
    "B25": "split: leakage",
}


def test_every_report_has_a_test_or_is_not_about_reading(shared):
    lines = shared("REPORTS.md").read_text("utf-8").split("\n")
    listed = [line.split("|")[1].strip() for line in lines if line.startswith(("| B", "| E"))]
    assert sorted(listed) == sorted([*KNOWN, *OTHERS])


@pytest.mark.parametrize("report", KNOWN)
def test_tests_of_a_report_are_there(report):
    for name in KNOWN[report]:
        path, _, function = name.partition("::")
        tree = ast.parse((ROOT / "tests" / path).read_text("utf-8"))
        assert function in {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}


def convert(source, out, **options):
    """Convert a file and give its only record."""
    run_convert(source, output=out, **SERIAL, **options)
    (record,) = read_manifest(out / "manifest.jsonl")
    return record


def table_of(out, record, stream):
    """Give a table's stamps on the source's clock, and the table."""
    table = pq.read_table(out / record.streams[stream].table)
    start_ns = json.loads(table.schema.metadata[b"mmprep"])["start_ns"]
    times = table.column("time").cast("int64").to_numpy()
    is_absolute = str(table.schema.field("time").type).startswith("timestamp")
    return times if is_absolute else times + start_ns, table


def decimals(texts, power=9):
    """Read decimal text as integers of 10^-power."""
    return [int(Decimal(text).scaleb(power)) for text in texts]


def test_stamps_that_jump_are_kept_as_they_are(shared, tmp_path):
    folder = shared("made/B03")
    truth = json.loads((folder / "truth.json").read_text())
    record = convert(folder / "jump.tsv", tmp_path / "out")
    stamps, _ = table_of(tmp_path / "out", record, "jump")
    with (folder / "jump.tsv").open(newline="") as file:
        rows = list(csv.reader(file, delimiter="\t"))[1:]
    assert stamps.tolist() == decimals(row[0] for row in rows)
    first, last = truth["rows_with_bad_time"]
    period_ns = 10**9 // truth["true_rate_hz"]
    jumps = np.flatnonzero(np.abs(np.diff(stamps) - period_ns) > period_ns)
    assert jumps.tolist() == [first - 1, last]
    assert stamps[first] - stamps[first - 1] == truth["shift_s"] * 10**9 + period_ns
    assert record.streams["jump"].rate_hz == truth["true_rate_hz"]


def test_stamps_of_device_and_arrival_are_both_kept(shared, tmp_path):
    path = shared("made/B04/ble_packets.tsv.gz")
    record = convert(path, tmp_path / "out")
    stamps, table = table_of(tmp_path / "out", record, "ble_packets")
    with gzip.open(path, "rt", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t"))[1:]
    assert stamps.tolist() == decimals(row[0] for row in rows)
    assert table.column("t_arrival_s").to_pylist() == [float(row[1]) for row in rows]
    assert record.streams["ble_packets"].rate_hz == 256


def test_two_devices_keep_their_own_clocks_and_rates(shared, tmp_path):
    folder = shared("made/B05")
    truth = json.loads((folder / "truth.json").read_text())
    run_convert(folder, output=tmp_path / "out", **SERIAL)
    device, other = read_manifest(tmp_path / "out/manifest.jsonl")
    wrist, eda = table_of(tmp_path / "out", device, "EDA")
    reference, gsr = table_of(tmp_path / "out", other, "reference_gsr_kohm")
    offset_s = truth["reference_clock = e4_clock + offset + drift*t"]["offset_s"]
    assert reference[0] - wrist[0] == round(offset_s * 10**9)
    assert (len(wrist), len(reference)) == (4800, 38400)
    assert device.streams["EDA"].rate_hz == 4
    assert other.streams["reference_gsr_kohm"].rate_hz == 32
    assert eda.schema.field("EDA").metadata[b"unit"] == b"uS"
    source = pd.read_csv(folder / "reference_gsr_kohm.tsv.gz", sep="\t", dtype=str)
    assert reference.tolist() == decimals(source.iloc[:, 0])
    assert gsr.column(2).to_pylist() == source.iloc[:, 1].astype(float).tolist()


def test_cut_video_becomes_the_frames_that_are_left(shared, tmp_path, mmprep):
    done = mmprep("convert", shared("made/B08/cut.mp4"), "-o", tmp_path / "o", "--engine", "serial")
    (record,) = read_manifest(tmp_path / "o/manifest.jsonl")
    stamps, table = table_of(tmp_path / "o", record, "video")
    assert done.code == 0
    assert "180 frames were found, 1 of them damaged, 300 declared" in done.err
    assert table.column("frame").to_pylist() == list(range(179))
    assert np.abs(stamps - np.arange(179) * 1e9 / 30).max() < 1e6


def test_frames_at_30000_1001_hz_are_where_that_puts_them(shared, tmp_path):
    record = convert(shared("made/B09/ntsc_2997.mp4"), tmp_path / "out")
    stamps, table = table_of(tmp_path / "out", record, "video")
    rate_hz = Fraction(json.loads((shared("made/B09/truth.json")).read_text())["rate"])
    assert stamps.tolist() == [round(k / rate_hz * 10**9) for k in range(1200)]
    assert json.loads(table.schema.metadata[b"mmprep"])["rate_hz"] == "30000/1001"
    assert record.streams["audio"].n_rows == 640_000


MEASURED = """
import re, sys
from pathlib import Path
from mmprep import run_convert
run_convert(sys.argv[1], output=sys.argv[2], engine="serial")
status = Path("/proc/self/status").read_text()  # getrusage counts what forked it, too
print(re.search(r"VmHWM:\\s*(\\d+) kB", status)[1])
"""


def peak_kib(path, out):
    """Convert a file in a process of its own; give its peak memory."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, path, out], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def test_memory_does_not_grow_with_the_file(memory):
    rng = np.random.default_rng(7)
    row = "\t".join(["%.6f"] * 9)
    block = "".join(row % (k / 1000, *rng.normal(size=8)) + "\n" for k in range(20_000))
    peaks = []
    for n_blocks in (60, 120):  # 90 and 180 MB: more rows than a row group
        path = memory / f"x{n_blocks}.tsv"
        with path.open("w") as file:
            file.write("t_s\t" + "\t".join(f"c{k}" for k in range(8)) + "\n")
            for _ in range(n_blocks):
                file.write(block)
        peaks.append(peak_kib(path, memory / f"out{n_blocks}"))
        path.unlink()
    assert peaks[1] < 512 << 10
    assert peaks[1] - peaks[0] < 48 << 10


@pytest.mark.parametrize("size", ["0", "7fffffff", "ffffffff"])
def test_streamed_wav_holds_what_was_decoded(shared, tmp_path, size):
    truth = json.loads(shared("made/B20/truth.json").read_text())
    record = convert(shared(f"made/B20/streamed_{size}.wav"), tmp_path / "out")
    assert record.streams["audio"].n_rows == truth["real_samples"]
    assert record.duration_s == truth["real_duration_s"]


def test_scale_of_samples_is_kept_and_a_wrong_one_is_said(shared, tmp_path, mmprep):
    folder = shared("made/B22")
    done = mmprep("convert", folder, "-o", tmp_path / "o", "--engine", "serial")
    pcm, unit, scaled = (
        next(row["audio"] for row in open_dataset(tmp_path / "o") if row["id"] == name)
        for name in ("pcm16", "float_unit", "float_int16_scale")
    )
    np.testing.assert_array_equal(pcm, unit)
    np.testing.assert_array_equal(scaled, pcm * 32768)
    warned = [line for line in done.err.split("\n") if "warning" in line]
    assert len(warned) == 1
    assert "float_int16_scale.wav: values reach 12465 where 1 is full scale" in warned[0]


def test_features_of_samples_at_a_wrong_scale_are_said(shared, tmp_path, mmprep):
    path = shared("made/B22/float_int16_scale.wav")
    done = mmprep("mfcc", path, "-o", tmp_path / "o", "--engine", "serial")
    assert "warning: float_int16_scale.wav: values reach 12465" in done.err


def test_features_do_not_hang_beside_threads_of_the_caller(tmp_path):
    for k in range(64):
        raw.sound(tmp_path / f"in/{k:02d}.wav")
    square = np.random.default_rng(0).normal(size=(700, 700))
    with ThreadPoolExecutor(4) as threads:  # products in many threads, before and meanwhile
        running = [threads.submit(np.linalg.matrix_power, square, 50) for _ in range(4)]
        square @ square
        run_mfcc(tmp_path / "in", output=tmp_path / "pool", jobs=4)
        for one in running:
            one.result()
    run_mfcc(tmp_path / "in", output=tmp_path / "serial", engine="serial")
    assert tree(tmp_path / "pool") == tree(tmp_path / "serial")


def test_sound_and_picture_keep_their_own_lengths(shared, tmp_path):
    record = convert(shared("video/androidx_sample_shorter_audio.mp4"), tmp_path / "out")
    stamps, _ = table_of(tmp_path / "out", record, "video")
    audio = record.streams["audio"]
    assert (len(stamps), record.streams["video"].rate_hz) == (72, 60)
    assert (audio.n_rows, audio.rate_hz) == (32_768, 44_100)
    assert audio.offset_s == pytest.approx(1024 / 44_100)


def test_length_of_an_mp3_is_what_was_decoded(shared, tmp_path):
    record = convert(shared("audio/speech/lhotse_common_voice_en_651325.mp3"), tmp_path / "out")
    assert (record.streams["audio"].n_rows, record.duration_s) == (114_048, 2.376)
