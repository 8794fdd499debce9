"""Records as lines of a NeMo manifest."""

from __future__ import annotations

import json

import pytest

from mmprep.errors import DataError
from mmprep.exporters import nemo
from mmprep.manifest.model import Record


def _record(**changes):
    fields = {"id": "s4/a.b", "session": "s4", "begin_s": 0.0, "duration_s": 1.67, "streams": {}}
    return Record(**(fields | changes))


def test_line_of_bare_record_has_what_both_readers_need():
    found = nemo.line(_record(), "audio/a.wav")
    assert found == {
        "audio_filepath": "audio/a.wav",
        "duration": 1.67,
        "text": "",
        "id": "s4/a.b",
        "session": "s4",
    }


def test_line_of_full_record_has_the_optional_keys_in_order():
    record = _record(text="今天", subject="s4", label="fear", extra={"lang": "zh"})
    found = nemo.line(record, "a.wav", offset_s=2.5, sampling_rate=16000)
    assert list(found) == [
        *("audio_filepath", "duration", "text", "offset", "lang", "speaker"),
        *("sampling_rate", "label", "id", "session"),
    ]


def test_line_carries_labels_under_their_names():
    found = nemo.line(_record(labels={"valence": 3.5, "sex": None}), "a.wav")
    assert (found["valence"], found["sex"]) == (3.5, None)


def test_line_when_a_label_has_the_name_of_a_key_then_it_is_renamed():
    found = nemo.line(_record(labels={"duration": "long"}), "a.wav")
    assert (found["duration"], found["label_duration"]) == (1.67, "long")


def test_line_when_the_path_is_too_long_then_an_error():
    with pytest.raises(DataError, match="has 256 characters, NeMo reads 255"):
        nemo.line(_record(), "x" * 256)


def test_encode_writes_one_line_each_with_unescaped_text():
    (data,) = nemo.encode([nemo.line(_record(text="今天\u2028\n"), "a.wav")])
    assert data.endswith(b"\n")
    assert data.count(b"\n") == 1
    assert "今天".encode() in data
    assert json.loads(data)["text"] == "今天\u2028\n"


def test_member_of_a_tar_has_no_part_number_and_no_folder():
    assert nemo.member_name(_record(id="s4/a-sub1.b"), "flac") == "s4=2Fa=2Dsub1=2Eb.flac"


def test_line_in_a_tar_names_its_shard():
    assert nemo.line(_record(), "a.flac", shard_id=0)["shard_id"] == 0
