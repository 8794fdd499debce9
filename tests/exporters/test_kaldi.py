"""Records as lines of a Kaldi data folder."""

from __future__ import annotations

import io
import json

import kaldiio
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmprep.errors import DataError
from mmprep.exporters import kaldi
from mmprep.exporters.base import unescape
from mmprep.exporters.kaldi import Utterance
from mmprep.manifest.model import Record
from tests import datafolder


def _record(record_id="a", subject="s4", **changes):
    fields = {"session": "s", "begin_s": 0.0, "duration_s": 1.67, "streams": {}}
    return Record(id=record_id, subject=subject, **(fields | changes))


def _lists(*records, **changes):
    made = (Utterance(record, 1.67, **changes) for record in records)
    return {name: data.decode() for name, data in kaldi.lists(made).items()}


def test_lists_of_full_utterance_have_all_files():
    record = _record("x/a.b", text="今天\u3000\x07好\n", label="fear")
    found = _lists(record, sound="audio/a.wav", matrix="train/f.ark:12", n_rows=168)
    name = "s4-x=2Fa=2Eb"
    assert found == {
        "wav.scp": f"{name} audio/a.wav\n",
        "text": f"{name} 今天 好\n",
        "utt2spk": f"{name} s4\n",
        "spk2utt": f"s4 {name}\n",
        "utt2dur": f"{name} 1.67\n",
        "feats.scp": f"{name} train/f.ark:12\n",
        "utt2num_frames": f"{name} 168\n",
        "utt2label": f"{name} fear\n",
        "utt2id": f'{name} "x/a.b"\n',
    }


def test_lists_leave_out_what_no_utterance_has():
    assert list(_lists(_record())) == ["utt2spk", "spk2utt", "utt2dur", "utt2id"]


def test_text_of_one_utterance_asks_for_a_line_of_each():
    assert _lists(_record("a", text="x"), _record("b"))["text"] == "s4-a x\ns4-b\n"


def test_utterance_without_a_subject_is_its_own_speaker():
    assert _lists(_record("a-b/c", None))["utt2spk"] == "a=2Db=2Fc a=2Db=2Fc\n"


names = st.text(min_size=1, max_size=6) | st.text("s1-_=./ 语", min_size=1, max_size=4)
people = st.lists(st.tuples(names, names | st.none()), min_size=1, max_size=12, unique=True)


@given(people)
def test_folders_of_any_ids_and_subjects_pass_the_checks_of_kaldi(pairs):
    ids = dict(pairs)
    records = [_record(*pair, text=pair[0]) for pair in ids.items()]
    found = _lists(*records, sound="a.wav", matrix="f.ark:1", n_rows=3)
    assert datafolder.faults({name: text.encode() for name, text in found.items()}) == []


@given(st.lists(names, min_size=1, max_size=8, unique=True))
def test_ids_come_back(ids):
    lines = _lists(*map(_record, ids))["utt2id"].split("\n")[:-1]
    pairs = dict(line.split(" ", 1) for line in lines)
    assert sorted(json.loads(text) for text in pairs.values()) == sorted(ids)
    for name, text in pairs.items():
        assert unescape(name.removeprefix("s4-")) == json.loads(text)


@pytest.mark.parametrize("path", ["~/a.wav", "a\n.wav", "flac -c a |", "|a", " a.wav", "a.wav "])
def test_path_that_kaldi_would_not_open_is_refused(path):
    with pytest.raises(DataError, match="does not read the path"):
        _lists(_record(), sound=path)


def test_matrix_is_read_at_its_offset():
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    data = kaldi.key("s4-a") + kaldi.matrix(values)
    assert data[: len(kaldi.key("s4-a")) + 5] == b"s4-a \0BFM "
    ((name, found),) = kaldiio.load_ark(io.BytesIO(data))
    assert name == "s4-a"
    np.testing.assert_array_equal(found, values)


def test_matrix_has_0_where_nothing_is_known():
    data = kaldi.matrix(np.array([[np.nan, 1]], np.float32))
    assert np.frombuffer(data[-8:], "<f4").tolist() == [0, 1]
