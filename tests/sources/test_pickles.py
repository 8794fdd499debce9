"""Pickles: arrays and plain containers; nothing else is ever called."""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict

import numpy as np
import pytest

from mmprep.errors import DataError
from mmprep.sources import pickles


def dump(path, content, protocol=2):
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    return path


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
    assert pickles.unpickled(tmp_path / "s.dat", "s.dat")["data"].tolist() == [0, 1, 2, 3]


def test_numbers_of_numpy_are_read(tmp_path):
    path = dump(tmp_path / "a.pkl", {"n": np.float64(2.5), "k": np.int32(7), "b": b"raw"})
    assert pickles.unpickled(path, "a.pkl") == {"n": 2.5, "k": 7, "b": b"raw"}


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
        pickles.unpickled(path, "S2.pkl")
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
        pickles.unpickled(tmp_path / "S2.pkl", "S2.pkl")
