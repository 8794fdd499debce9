"""Samples as bytes of MDS."""

from __future__ import annotations

import numpy as np
import pytest

from mmprep.errors import UsageError
from mmprep.exporters import mds
from mmprep.exporters.base import Sample, Stream
from tests.mds import read

EEG = Stream("eeg", "float32", (2, 3), is_window=True, is_masked=True)
SOUND = Stream("audio", "int16", (), is_window=False, is_masked=False)
WINDOW = np.arange(6, dtype=np.float32).reshape(2, 3)


def _sample(values=WINDOW, mask=True, **arrays):
    masks = None if values is None else np.full(2, mask)
    return Sample({"id": "今 4/a.b=c"}, {"eeg": values, "eeg.valid": masks, **arrays})


def _written(folder, columns, *samples):
    bodies = [mds.encode(sample, columns) for sample in samples]
    data = mds.head([len(body) for body in bodies], columns) + b"".join(bodies)
    (folder / "shard.00000.mds").write_bytes(data)
    entry = mds.shard_entry("shard.00000.mds", len(data), len(samples), columns)
    (folder / "index.json").write_bytes(mds.index([entry]))
    return list(read(folder))


def test_window_of_every_record_has_its_shape_in_the_encoding(tmp_path):
    columns = mds.columns_of([EEG], ["eeg"])
    encodings = {column.name: (column.encoding, column.size) for column in columns}
    assert encodings["eeg"] == ("ndarray:float32:2,3", 24)
    assert encodings["eeg.valid"] == ("ndarray:uint8:2", 2)
    (found,) = _written(tmp_path, columns, _sample())
    assert found["id"] == found["record"]["id"] == "今 4/a.b=c"
    np.testing.assert_array_equal(found["eeg"], WINDOW)


def test_record_without_the_stream_has_no_rows(tmp_path):
    first, second = _written(tmp_path, mds.columns_of([EEG], []), _sample(), _sample(None))
    np.testing.assert_array_equal(first["eeg"], WINDOW)
    assert (second["eeg"].shape, second["eeg.valid"].shape) == ((0, 3), (0,))


@pytest.mark.parametrize("n_rows", [1, 255, 256, 65535, 65536])
def test_length_of_sound_takes_the_bytes_that_it_needs(tmp_path, n_rows):
    sound = np.arange(n_rows).astype(np.int16)
    (found,) = _written(tmp_path, mds.columns_of([SOUND], []), _sample(audio=sound))
    np.testing.assert_array_equal(found["audio"], sound)


def test_shard_of_four_gibibytes_is_refused():
    with pytest.raises(UsageError, match="must stay below 4294967296") as caught:
        mds.head([2**31, 2**31], mds.columns_of([EEG], []))
    assert "--shards" in caught.value.hint


def test_stream_with_the_name_of_a_column_is_refused():
    stream = Stream("id", "float32", (), is_window=False, is_masked=False)
    with pytest.raises(UsageError, match="two columns 'id'"):
        mds.columns_of([stream], [])
