"""Pickled arrays: DEAP and WESAD as published."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow.parquet as pq
import pytest

from mmprep import tables
from mmprep.errors import DataError
from mmprep.sources import unpickle
from mmprep.sources.base import TextOptions
from mmprep.sources.trials import DEAP_EEG

RNG = np.random.default_rng(3)
DEAP = {"labels": RNG.uniform(1, 9, (3, 4)), "data": RNG.normal(size=(3, 40, 8064))}
CHEST = {"ACC": 3, "ECG": 1, "EMG": 1, "EDA": 1, "Temp": 1, "Resp": 1}
WRIST = {"ACC": (32, 3), "BVP": (64, 1), "EDA": (4, 1), "TEMP": (4, 1)}
WESAD = {
    "subject": "S2",
    "signal": {
        "chest": {name: RNG.normal(size=(1400, n)) for name, n in CHEST.items()},
        "wrist": {name: RNG.normal(size=(2 * hz, n)) for name, (hz, n) in WRIST.items()},
    },
    "label": RNG.integers(0, 5, 1400).astype(np.int32),
}


def dump(path, content, protocol=2):
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    return path


def claimed(path):
    (claim,) = unpickle.claim("", [path.name], path.parent)
    return claim


def convert(path, stream, out):
    schema = unpickle.probe(claimed(path), path.parent, TextOptions())[stream]
    target = out / "out.parquet"
    facts = unpickle.write(
        claimed(path),
        path.parent,
        stream,
        schema,
        tables.Target(target, "P1"),
        options=TextOptions(),
    )
    return facts, target


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_channels_of_deap_become_streams(tmp_path, protocol):
    path = dump(tmp_path / "s01.dat", DEAP, protocol)
    facts, target = convert(path, "eeg", tmp_path)
    stream = tables.read_stream(target, "x")
    assert stream.channels == DEAP_EEG
    known = DEAP["data"][:, :32].transpose(0, 2, 1).reshape(-1, 32)
    assert np.array_equal(stream.data, known)
    assert (facts.rate_hz, facts.rows) == (128, 3 * 8064)
    assert tuple(unpickle.streams(claimed(path), tmp_path, TextOptions())) == tuple(
        unpickle.probe(claimed(path), tmp_path, TextOptions())
    )


def test_trials_of_deap_are_apart_and_told_of(tmp_path):
    path = dump(tmp_path / "s01.dat", DEAP)
    gsr = unpickle.read_stream(path, TextOptions(), "gsr", stream="gsr")
    _, target = convert(path, "trials", tmp_path)
    table = pq.read_table(target).to_pydict()
    assert table["trial"] == [1, 2, 3]
    assert (table["duration"], table["baseline"]) == ([63.0] * 3, [3.0] * 3)
    assert table["arousal"] == DEAP["labels"][:, 1].tolist()
    starts = tables.read_stream(target, "x").stamps_ns
    assert (starts / 1e9).tolist() == [0, 64, 128]
    assert gsr.stamps_ns[8064] == starts[1]
    assert np.array_equal(gsr.data[8064 : 2 * 8064, 0], DEAP["data"][1, 36])


@pytest.mark.parametrize("stream", list(unpickle._WESAD_PARTS))
def test_streams_of_wesad_keep_their_rates(tmp_path, stream):
    path = dump(tmp_path / "S2.pkl", WESAD)
    facts, target = convert(path, stream, tmp_path)
    place, _, name = stream.partition("_")
    known = WESAD["label"] if stream == "label" else WESAD["signal"][place][name]
    assert np.array_equal(tables.read_stream(target, "x").data.squeeze(), known.squeeze())
    assert facts.rows / facts.rate_hz == 2


def test_labels_of_wesad_are_integers(tmp_path):
    _, target = convert(dump(tmp_path / "S2.pkl", WESAD), "label", tmp_path)
    assert str(pq.read_schema(target).field("label").type) == "int64"


def test_file_of_another_name_or_content_is_not_claimed(tmp_path):
    dump(tmp_path / "other.pkl", WESAD)
    (tmp_path / "S3.pkl").write_bytes(b"signal label subject")
    dump(tmp_path / "s02.dat", [1, 2])
    names = [path.name for path in tmp_path.iterdir()]
    assert unpickle.claim("", names, tmp_path) == []


def test_arrays_of_another_shape_are_refused(tmp_path):
    content = {"labels": np.zeros((3, 4)), "data": np.zeros((3, 32, 10))}
    with pytest.raises(DataError, match=r"s01\.dat: data \(3, 32, 10\).* not those of DEAP"):
        unpickle.read_stream(dump(tmp_path / "s01.dat", content), TextOptions(), "x", stream="eeg")


def test_missing_stream_of_wesad_is_refused(tmp_path):
    content = {"signal": {"chest": {}}, "label": WESAD["label"]}
    with pytest.raises(DataError, match=r"signal/chest/ACC is no array of 3 channels"):
        unpickle.read_stream(dump(tmp_path / "S2.pkl", content), TextOptions(), "x")
