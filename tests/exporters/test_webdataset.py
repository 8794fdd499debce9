"""Samples as members of a tar."""

from __future__ import annotations

import io
import tarfile

import numpy as np
import pytest

from mmprep.errors import UsageError
from mmprep.exporters import webdataset
from mmprep.exporters.base import TAR_END, Sample, Stream, unescape

EEG = Stream("eeg", "float32", (2, 3), is_window=True, is_masked=True)
ODD = "s 4/今天.a=b"


def _tar(*samples, streams=(EEG,)):
    blocks = [block for sample in samples for block in webdataset.sample_bytes(sample, streams)]
    return tarfile.open(fileobj=io.BytesIO(b"".join([*blocks, TAR_END])))


def _sample(record_id=ODD):
    arrays = {"eeg": np.ones((2, 3), np.float32), "eeg.valid": np.ones(2, bool)}
    return Sample({"id": record_id}, arrays)


def test_key_of_an_odd_id_has_no_dot_and_leads_back_to_it():
    names = _tar(_sample()).getnames()
    assert {unescape(name.partition(".")[0]) for name in names} == {ODD}
    assert [name.partition(".")[2] for name in names] == ["json", "eeg.npy", "eeg.valid.npy"]


def test_name_that_is_longer_than_a_header_survives():
    names = _tar(_sample("今" * 300)).getnames()
    assert unescape(names[0].partition(".")[0]) == "今" * 300


def test_sample_without_a_stream_has_no_rows_of_its_shape():
    tar = _tar(Sample({"id": "a"}, {"eeg": None, "eeg.valid": None}))
    values = np.load(io.BytesIO(tar.extractfile("a.eeg.npy").read()))
    assert (values.shape, values.dtype) == ((0, 3), np.float32)


def test_streams_that_differ_by_case_alone_are_refused():
    other = Stream("EEG", "float32", (), is_window=False, is_masked=False)
    with pytest.raises(UsageError, match="'eeg' and 'EEG' are one field"):
        webdataset.check([EEG, other])
