"""Pickled arrays: DEAP and WESAD as published; nothing else is ever called."""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict

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


def python_2():
    """A dict of an array as Python 2 wrote it: bytes as a text of protocol 2."""
    raw = np.arange(4, dtype="<f8").tobytes()
    return (
        b"\x80\x02}U\x04datacnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n"
        b"(K\x00tU\x01btR(K\x01(K\x04tcnumpy\ndtype\n(U\x02f8K\x00K\x01tR"
        b"(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U"
        + bytes([len(raw)])
        + raw
        + b"tbs."
    )


def test_pickle_of_python_2_is_read(tmp_path):
    (tmp_path / "s.dat").write_bytes(python_2())
    assert unpickle.unpickled(tmp_path / "s.dat", "s.dat")["data"].tolist() == [0, 1, 2, 3]


def test_numbers_of_numpy_are_read(tmp_path):
    path = dump(tmp_path / "a.pkl", {"n": np.float64(2.5), "k": np.int32(7), "b": b"raw"})
    assert unpickle.unpickled(path, "a.pkl") == {"n": 2.5, "k": 7, "b": b"raw"}


class Command:
    """Runs a command when it is unpickled by pickle itself."""

    def __init__(self, call, *arguments):
        self.reduced = call, arguments

    def __reduce__(self):
        return self.reduced


@pytest.mark.parametrize(
    ("hostile", "name"),
    [
        (Command(os.system, "touch pwned"), r"(posix|nt)\.system"),
        (Command(eval, "1"), r"(builtins|__builtin__)\.eval"),
        (Command(getattr, "a", "upper"), r"(builtins|__builtin__)\.getattr"),
        (OrderedDict(), r"collections\.OrderedDict"),
        (np.random.default_rng(0), r"numpy\.random"),
        (Command(np.load, "x"), "numpy.*load"),
    ],
)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_any_other_name_is_refused_by_name(tmp_path, monkeypatch, hostile, name, protocol):
    monkeypatch.chdir(tmp_path)
    path = dump(tmp_path / "S2.pkl", {"signal": hostile}, protocol)
    with pytest.raises(DataError, match=rf"S2\.pkl: the pickle was refused: it asks for {name}"):
        unpickle.unpickled(path, "S2.pkl")
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    "raw",
    [
        b"\x80\x02cnumpy\nndarray\n(K\x04tR.",  # the array itself may not be called
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nJ\xff\xff\xff\x7f\x85U\x01btR.",
        b"\x80\x02c_codecs\nencode\n(X\x01\x00\x00\x00aX\x04\x00\x00\x00zliptR.",
        b"\x80\x02]",
        b"\x80\x02K\x01Q.",
        b"\x80",
        b"",
    ],
)
def test_odd_or_cut_pickles_are_located_errors(tmp_path, raw):
    (tmp_path / "S2.pkl").write_bytes(raw)
    with pytest.raises(DataError, match=r"S2\.pkl: the pickle (is damaged|was refused)"):
        unpickle.unpickled(tmp_path / "S2.pkl", "S2.pkl")


def test_arrays_of_another_shape_are_refused(tmp_path):
    content = {"labels": np.zeros((3, 4)), "data": np.zeros((3, 32, 10))}
    with pytest.raises(DataError, match=r"s01\.dat: data \(3, 32, 10\).* not those of DEAP"):
        unpickle.read_stream(dump(tmp_path / "s01.dat", content), TextOptions(), "x", stream="eeg")


def test_missing_stream_of_wesad_is_refused(tmp_path):
    content = {"signal": {"chest": {}}, "label": WESAD["label"]}
    with pytest.raises(DataError, match=r"signal/chest/ACC is no array of 3 channels"):
        unpickle.read_stream(dump(tmp_path / "S2.pkl", content), TextOptions(), "x")
