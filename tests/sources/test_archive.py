"""Every format reads from an archive as from its folder."""

from __future__ import annotations

import gzip
import pickle
import re

import numpy as np
import pytest

from tests.packed import central, pack, pack_folder
from tests.sources import test_brainvision as brainvision
from tests.sources import test_edf as edf
from tests.sources import test_matlab as matlab
from tests.sources import test_xdf as xdf


def tables_of(out):
    return {str(p.relative_to(out)): p.read_bytes() for p in sorted((out / "tables").rglob("*.p*"))}


@pytest.fixture
def folder(tmp_path):
    """A recording of each binary format, and some packed text."""
    top = tmp_path / "in"
    for name in ("edf", "xdf", "xdfz", "brain", "mat", "dat", "tsv", "faros"):
        (top / name).mkdir(parents=True)
    ones = (edf.ints(0, 1, 2, 3), edf.ints(500))
    edf.make(top / "edf/a.edf", [("EEG", "uV", 4), ("GSR", "uS", 1)], [ones] * 3)
    xdf.make(top / "xdf/a.xdf")
    (top / "xdfz/a.xdfz").write_bytes(gzip.compress((top / "xdf/a.xdf").read_bytes()))
    brainvision.make(top / "brain", orientation="VECTORIZED")
    matlab.deap(top / "mat")
    matlab.amigos(top / "mat")
    rng = np.random.default_rng(0)
    content = {"data": rng.normal(size=(2, 40, 640)), "labels": rng.uniform(1, 9, (2, 4))}
    (top / "dat/s01.dat").write_bytes(pickle.dumps(content, protocol=2))
    rows = "time\tx\n" + "".join(f"{k / 4}\t{k}\n" for k in range(5000))
    (top / "tsv/a.tsv.gz").write_bytes(gzip.compress(rows.encode()))
    (top / "tsv/b.tsv").write_bytes(rows.encode("utf-16"))
    (top / "faros/ECG.csv").write_text("ECG\n1\n2\n3\n")
    meta = '{"start_time": "2018-10-12 16:54:12", "sample_freqs": {"ECG": 500.0}}'
    (top / "faros/meta.json").write_text(meta)
    return top


@pytest.mark.parametrize("kind", [".zip", ".tgz", ".tar"])
def test_formats_read_from_an_archive_as_from_a_folder(mmprep, tmp_path, folder, kind):
    archive = pack_folder(folder, tmp_path / f"in{kind}")
    for name, given in (("one", folder), ("two", archive)):
        ran = mmprep("convert", given, "-o", tmp_path / name)
        assert ran.code == 0, ran.err
    made = tables_of(tmp_path / "one")
    assert made == tables_of(tmp_path / "two")
    streams = {re.split("/", name)[1] for name in made}
    assert {"signal_4Hz", "Keys", "signal", "ecg", "gsr", "a", "b", "ECG"} <= streams


def test_xdf_with_a_damaged_end_is_an_error_and_no_shorter_stream(mmprep, tmp_path):
    data = xdf.make(tmp_path / "a.xdf").read_bytes()
    central(pack(tmp_path / "raw/x.zip", {"a.xdf": data}), 16, b"\0\0\0\0")
    ran = mmprep("convert", tmp_path / "raw", "-o", tmp_path / "out")
    assert ran.code == 3
    assert "x.zip/a.xdf: is damaged or cut: its checksum differs" in ran.err


def test_fif_in_an_archive_says_what_to_do(mmprep, tmp_path):
    mnefiles = pytest.importorskip("tests.sources.test_mnefiles")
    path = mnefiles.save(mnefiles.raw_of(), tmp_path / "a_raw.fif")
    pack(tmp_path / "raw/x.zip", {"a_raw.fif": path.read_bytes()})
    ran = mmprep("convert", tmp_path / "raw", "-o", tmp_path / "out")
    assert ran.code == 3
    assert (
        "x.zip/a_raw.fif: is of the format FIF, which MNE can't read inside an archive" in ran.err
    )
    assert "unpack the archive" in ran.err
