"""Records as lines of Lhotse manifests."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from fractions import Fraction

import pytest

from mmprep.exporters import lhotse
from mmprep.exporters.lhotse import Array, Parts, Sound
from mmprep.manifest.model import Record

SOUND = Sound("audio/a.flac", 16000, 26720)
MFCC = Array("mfcc", "arrays/mfcc", "a.npy", (167, 13), Fraction(100))
EEG = Array("eeg", "arrays/eeg", "a.npy", (214, 14), Fraction(128))


def _parts(sound=SOUND, arrays=(), **changes):
    fields = {"id": "s4/a.b", "session": "s4", "begin_s": 2.0, "duration_s": 1.67, "streams": {}}
    return Parts(Record(**(fields | changes)), sound, tuple(arrays))


def test_recording_has_the_fields_of_lhotse_in_order():
    assert lhotse.recording(_parts()) == {
        "id": "s4/a.b",
        "sources": [{"type": "file", "channels": [0], "source": "audio/a.flac"}],
        "sampling_rate": 16000,
        "num_samples": 26720,
        "duration": 1.67,
    }


def test_recording_at_an_address_is_a_url():
    line = lhotse.recording(_parts(replace(SOUND, path="s3://b/a.flac")))
    assert line["sources"][0]["type"] == "url"


def test_supervision_says_who_speaks_what_when():
    words = (("今", 2.25, 2.5),)
    line = lhotse.supervision(
        _parts(text="今", subject="s4", label="fear", labels={"text": 3}, words=words)
    )
    assert (line["text"], line["speaker"]) == ("今", "s4")
    assert line["custom"] == {"session": "s4", "begin_s": 2.0, "label": "fear", "text": 3}
    assert line["alignment"] == {"word": [["今", 0.25, 0.25]]}


def test_features_have_the_fields_of_lhotse_in_order():
    line = lhotse.features(_parts(arrays=[EEG, MFCC]))
    assert list(line) == [
        *("type", "num_frames", "num_features", "frame_shift", "sampling_rate", "start"),
        *("duration", "storage_type", "storage_path", "storage_key", "recording_id", "channels"),
    ]
    assert (line["type"], line["frame_shift"], line["duration"]) == ("mfcc", 0.01, 1.67)


def test_features_whose_hop_is_no_whole_sample_are_an_array():
    uneven = replace(MFCC, rate_hz=Fraction(30))
    line = lhotse.cut(_parts(arrays=[uneven]))
    assert "features" not in line
    assert line["custom"]["mfcc"]["frame_shift"] == pytest.approx(1 / 30)


def test_cut_has_no_key_by_which_lhotse_would_take_it_for_something_else():
    line = lhotse.cut(_parts(arrays=[EEG, MFCC]))
    assert not line.keys() & {"width", "shape", "array", "sources", "num_features"}
    assert line["type"] == "MonoCut"
    assert list(line["custom"]) == ["eeg"]


def test_cut_without_sound_and_mfcc_has_its_first_matrix_as_features():
    flat = Array("video", "arrays/video", "a.npy", (50,), Fraction(30))
    line = lhotse.cut(_parts(None, [flat, EEG]))
    assert (line["features"]["type"], line["features"]["sampling_rate"]) == ("eeg", 128)
    assert list(line["custom"]) == ["video", "eeg"]


def test_cut_of_several_channels_is_a_multi_cut():
    line = lhotse.cut(_parts(replace(SOUND, n_channels=2), [MFCC]))
    assert line["type"] == "MultiCut"
    assert [line["channel"], line["features"]["channels"], line["supervisions"][0]["channel"]] == [
        [0, 1]
    ] * 3


@pytest.mark.parametrize(
    ("n_samples", "rate_hz", "n_rows"), [(800, 8000, 10), (839, 8000, 10), (840, 8000, 11)]
)
def test_rows_are_counted_as_lhotse_does(n_samples, rate_hz, n_rows):
    assert lhotse.n_counted(Fraction(n_samples, rate_hz), Fraction(100)) == n_rows


def test_rows_that_are_missing_are_counted():
    assert lhotse.n_rows_short(_parts(arrays=[MFCC])) == 0
    assert lhotse.n_rows_short(_parts(arrays=[replace(MFCC, shape=(165, 13))])) == 2


def test_encode_packs_without_time_and_name():
    data = lhotse.encode([{"text": "今"}, {}])
    assert data[:10] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
    assert gzip.decompress(data).decode() == '{"text":"今"}\n{}\n'


def test_manifests_leave_out_what_no_record_has():
    found = lhotse.manifests([_parts(None, [replace(EEG, shape=(3,))])])
    assert list(found) == ["supervisions", "cuts"]
    (line,) = gzip.decompress(found["cuts"]).splitlines()
    assert "recording" not in json.loads(line)
