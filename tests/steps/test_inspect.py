"""`inspect`: declared and measured, side by side."""

from __future__ import annotations

import pytest

from mmprep.errors import DataError, UsageError
from mmprep.steps.inspect import inspect, text_options, value
from tests import raw
from tests.conftest import ROOT

AMIGOS = ROOT / "sample_data/amigos"


def _stream(path):
    (stream,) = inspect(str(path))["streams"]
    return stream


def test_table_says_rate_rows_and_gaps(tmp_path):
    path = raw.table(tmp_path / "eeg.tsv", n_rows=20)
    raw.table(tmp_path / "late.tsv", n_rows=20, start_s=8)
    path.write_text(path.read_text() + (tmp_path / "late.tsv").read_text().partition("\n")[2])
    facts = _stream(path)
    assert (facts["n_samples"], facts["rate_hz"], facts["n_gaps"]) == (40, 4.0, 1)
    assert facts["duration_s"] == 13.0
    assert facts["start"] is None


def test_absolute_stamps_are_shown_to_the_nanosecond():
    assert _stream(AMIGOS / "P01/V01_gsr.tsv")["start"] == "2016-11-24T15:06:44.041630000Z"


def test_table_says_how_it_was_read(tmp_path):
    facts = inspect(str(raw.table(tmp_path / "eeg.tsv")))
    assert (facts["reader"], facts["delimiter"], facts["time_column"]) == ("text", "\t", "time")
    assert facts["schema"] == [{"name": "x", "type": "int64", "unit": None}]


def test_sound_says_declared_and_decoded(tmp_path):
    path = raw.sound(tmp_path / "a.wav", n_channels=2)
    facts = _stream(path)
    assert (facts["n_samples"], facts["n_declared"], facts["n_channels"]) == (800, 800, 2)
    path.write_bytes(path.read_bytes()[:-400])
    facts = _stream(path)
    assert facts["n_samples"] == 700


def test_video_says_frames_and_its_sound():
    facts = inspect(str(AMIGOS / "P01/V01_video.mp4"))
    video = facts["streams"][0]
    assert (facts["kind"], video["name"], video["nominal_rate_hz"]) == ("video", "video", 30.0)
    assert video["n_samples"] > 0
    assert (video["width"], video["rotation_deg"]) == (video["width"], 0)


def test_clock_log_says_what_kind_it_is():
    facts = inspect(str(AMIGOS / "P01/V01_eeg.ptp.tsv"))
    assert (facts["kind"], facts["evidence"], facts["streams"]) == ("clock log", "exchanges", [])
    assert facts["n_fixes"] == 69


def test_frame_log_lasts_as_long_as_its_frames(tmp_path):
    path = tmp_path / "v.frames.tsv"
    path.write_text("frame\ttime_s\n" + "".join(f"{k}\t{1.7e9 + k / 4:.2f}\n" for k in range(9)))
    facts = inspect(str(path))
    assert (facts["evidence"], facts["n_fixes"], facts["duration_s"]) == ("framelog", 9, 2.0)


def test_data_set_says_modalities_and_tables(sample):
    facts = inspect(str(sample / "amigos/features"))
    assert (facts["kind"], facts["step"]) == ("dataset", "mfcc")
    assert {"eeg", "gsr", "video"} <= set(facts["tables"])
    assert [stream["name"] for stream in facts["streams"]] == ["audio", "mfcc"]


def test_table_of_a_data_set_is_measured_as_the_raw_file(sample):
    made = _stream(sample / "amigos/converted/tables/gsr/P01/V01.parquet")
    given = _stream(AMIGOS / "P01/V01_gsr.tsv")
    same = ("n_samples", "n_gaps", "start", "duration_s", "nominal_rate_hz")
    assert [made[key] for key in same] == [given[key] for key in same]


def test_stream_after_the_hash_is_the_only_one():
    facts = inspect(f"{AMIGOS}/P01/V01_video.mp4#audio")
    assert [stream["name"] for stream in facts["streams"]] == ["audio"]


def test_value_looks_in_the_facts_then_in_the_first_stream(tmp_path):
    facts = inspect(str(raw.table(tmp_path / "eeg.tsv")))
    assert (value(facts, "kind"), value(facts, "rate_hz")) == ("table", 4.0)


def test_value_without_such_a_key_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="no key 'hz'"):
        value(inspect(str(raw.table(tmp_path / "eeg.tsv"))), "hz")


def test_value_that_is_not_known_is_bad_input(tmp_path):
    with pytest.raises(DataError, match="start is not known"):
        value(inspect(str(raw.table(tmp_path / "eeg.tsv"))), "start")


def test_rows_without_stamps_need_a_rate(tmp_path):
    (tmp_path / "x.tsv").write_text("a\tb\n" + "1\t2\n" * 8)
    with pytest.raises(DataError, match="no time column") as caught:
        inspect(str(tmp_path / "x.tsv"))
    assert "--rate" in caught.value.hint
    options = text_options(None, None, "4")
    assert inspect(str(tmp_path / "x.tsv"), options)["streams"][0]["duration_s"] == 2.0


def test_folder_of_no_kind_is_bad_input(tmp_path):
    with pytest.raises(DataError, match="no data set and no E4 session"):
        inspect(str(tmp_path))


@pytest.mark.parametrize(
    ("path", "reader", "stream", "n_samples"),
    [
        ("edf/test.edf", "edf", "signal", 3072),
        ("xdf/muse_sub-P050.xdf", "xdf", "Muse-EEG", 2316),
        ("polar/Polar_Sense_HR.txt", "polar", "HR", 548),
        ("opensignals/SampleEDA.txt", "opensignals", "SampleEDA", 33150),
        ("brainvision/test.vhdr", "brainvision", "signal", 7900),
    ],
)
def test_file_of_a_vendor_is_read_by_the_reader_that_knows_it(
    shared, path, reader, stream, n_samples
):
    facts = inspect(str(shared(path)))
    assert facts["reader"] == reader
    assert {s["name"]: s["n_samples"] for s in facts["streams"]}[stream] == n_samples


def test_rows_that_are_left_out_are_counted(tmp_path):
    (tmp_path / "x.tsv").write_text("time\ta\n" + "".join(f"{k}\t{k}\n" for k in range(9)) + "9\n")
    options = text_options(None, None, None)
    (facts,) = inspect(str(tmp_path / "x.tsv"), options)["streams"]
    assert (facts["n_samples"], facts["n_rejected"]) == (9, 1)
