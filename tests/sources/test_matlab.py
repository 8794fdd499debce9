"""MATLAB files as AMIGOS, DEAP and DREAMER publish them."""

from __future__ import annotations

import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.io import savemat

from mmprep import tables
from mmprep.errors import DataError, UsageError
from mmprep.sources import matlab
from mmprep.sources.base import TextOptions

RNG = np.random.default_rng(5)


def cells(values):
    """A row of cells."""
    row = np.empty((1, len(values)), object)
    row[0] = [*values]
    return row


def column(values):
    return cells(values).T


AMIGOS = [RNG.normal(size=(n, 17)) for n in (1280, 1000, 1408)]
AMIGOS[0][:, 14] = np.nan
RATED = [RNG.uniform(1, 9, (1, 12)) for _ in range(4)]


def amigos(folder):
    rows = [AMIGOS[0], AMIGOS[1], np.zeros((0, 0)), AMIGOS[2]]
    content = {
        "joined_data": cells(rows),
        "labels_selfassessment": cells(RATED),
        "labels_ext_annotation": cells([np.zeros((3, 3))] * 4),
        "VideoIDs": cells(["10", "13", "138", "N1"]),
    }
    savemat(folder / "Data_Preprocessed_P01.mat", content, do_compression=True)
    return folder / "Data_Preprocessed_P01.mat"


DEAP = {"data": RNG.normal(size=(2, 40, 640)), "labels": RNG.uniform(1, 9, (2, 4))}


def deap(folder):
    savemat(folder / "s01.mat", DEAP, do_compression=True)
    return folder / "s01.mat"


def person(k):
    def part(rate, n):
        return {
            "baseline": column([RNG.normal(size=(rate, n)) + k for _ in range(3)]),
            "stimuli": column([RNG.normal(size=(rate * s, n)) + k for s in (2, 3, 4)]),
        }

    return {
        "Age": "22",
        "Gender": "female",
        "EEG": part(128, 14),
        "ECG": part(256, 2),
        "ScoreValence": np.array([[4], [3], [5]]),
        "ScoreArousal": np.array([[1], [2], [3]]),
        "ScoreDominance": np.array([[2], [2], [2]]),
    }


PEOPLE = [person(k) for k in range(2)]


def dreamer(folder, *, compressed=True):
    content = {
        "Data": cells(PEOPLE),
        "EEG_SamplingRate": 128,
        "ECG_SamplingRate": 256,
        "EEG_Electrodes": cells(matlab._EMOTIV),
        "noOfSubjects": len(PEOPLE),
    }
    savemat(folder / "DREAMER.mat", {"DREAMER": content}, do_compression=compressed)
    return folder / "DREAMER.mat"


def claims(path):
    return matlab.claim("", [path.name], path.parent)


def convert(claim, root, stream, out):
    schemas = matlab.probe(claim, root, TextOptions())
    assert tuple(schemas) == matlab.streams(claim, root, TextOptions())
    target = out / "out.parquet"
    facts = matlab.write(
        claim, root, stream, schemas[stream], tables.Target(target, "P1"), options=TextOptions()
    )
    return facts, target


def test_streams_of_amigos_are_cut_out_of_the_joined_data(tmp_path):
    (claim,) = claims(amigos(tmp_path))
    at = 0
    for stream, n in (("eeg", 14), ("ecg", 2), ("gsr", 1)):
        facts, target = convert(claim, tmp_path, stream, tmp_path)
        data = tables.read_stream(target, "x").data
        known = np.concatenate(AMIGOS)[:, at : at + n]
        assert np.array_equal(data, known, equal_nan=True)
        assert facts.rate_hz == 128
        at += n


def test_trials_of_amigos_keep_number_video_and_ratings(tmp_path):
    (claim,) = claims(amigos(tmp_path))
    facts, target = convert(claim, tmp_path, "trials", tmp_path)
    table = pq.read_table(target).to_pydict()
    assert (table["trial"], table["video"]) == ([1, 2, 4], ["10", "13", "N1"])
    assert table["duration"] == [10.0, 1000 / 128, 11.0]
    assert table["arousal"] == [RATED[k][0, 0] for k in (0, 1, 3)]
    assert table["sadness"] == [RATED[k][0, 11] for k in (0, 1, 3)]
    starts = tables.read_stream(target, "x").stamps_ns
    assert (starts / 1e9).tolist() == [0, 11, 20]
    assert facts.rate_hz is None


def test_empty_trials_are_said(tmp_path):
    (claim,) = claims(amigos(tmp_path))
    facts, _ = convert(claim, tmp_path, "eeg", tmp_path)
    assert any("1 trials are empty" in note for note in facts.notes)


def test_trials_are_gaps_for_the_signals(tmp_path):
    stream = matlab.read_stream(amigos(tmp_path), TextOptions(), "gsr", stream="gsr")
    steps = np.diff(stream.stamps_ns)
    assert np.count_nonzero(steps > 10**9) == 2
    assert stream.stamps_ns[1280] == 11 * 10**9


def test_channels_of_deap_become_streams(tmp_path):
    (claim,) = claims(deap(tmp_path))
    _, target = convert(claim, tmp_path, "gsr", tmp_path)
    assert np.array_equal(tables.read_stream(target, "x").data[:, 0], DEAP["data"][:, 36].ravel())


@pytest.mark.parametrize("compressed", [True, False])
def test_each_person_of_dreamer_is_an_item(tmp_path, compressed):
    found = claims(dreamer(tmp_path, compressed=compressed))
    assert [claim.id_path for claim in found] == ["DREAMER/S01", "DREAMER/S02"]
    assert {claim.files for claim in found} == {("DREAMER.mat",)}


@pytest.mark.parametrize("k", [0, 1])
def test_streams_of_dreamer_are_baseline_and_clip(tmp_path, k):
    claim = claims(dreamer(tmp_path))[k]
    for stream, rate_hz in (("eeg", 128), ("ecg", 256)):
        facts, target = convert(claim, tmp_path, stream, tmp_path)
        part = PEOPLE[k][stream.upper()]
        pairs = zip(part["baseline"][:, 0], part["stimuli"][:, 0], strict=True)
        known = np.concatenate([cell for pair in pairs for cell in pair])
        assert np.array_equal(tables.read_stream(target, "x").data, known)
        assert facts.rate_hz == rate_hz
    _, target = convert(claim, tmp_path, "trials", tmp_path)
    table = pq.read_table(target).to_pydict()
    assert table["baseline"] == [1.0, 1.0, 1.0]
    assert (table["valence"], table["duration"]) == ([4, 3, 5], [3, 4, 5])
    assert "Gender" not in table


def test_other_files_are_not_claimed(tmp_path):
    savemat(tmp_path / "other.mat", {"data": np.zeros(3)})
    (tmp_path / "text.mat").write_bytes(b"not a MAT-file" * 20)
    (tmp_path / "cut.mat").write_bytes(deap(tmp_path).read_bytes()[:100])
    assert matlab.claim("", ["other.mat", "text.mat", "cut.mat"], tmp_path) == []


def test_trial_with_other_channels_is_a_located_error(tmp_path):
    content = {"joined_data": cells([np.zeros((5, 16))]), "labels_selfassessment": cells(RATED[:1])}
    savemat(tmp_path / "a.mat", content)
    with pytest.raises(DataError, match=r"a\.mat: trial 1 is \(5, 16\), expected n x 17"):
        matlab.read_stream(tmp_path / "a.mat", TextOptions(), "x", stream="eeg")


def test_cut_file_is_a_located_error(tmp_path):
    path = deap(tmp_path)
    claim = claims(path)[0]
    path.write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(DataError, match=r"s01\.mat: cannot be read"):
        matlab.probe(claim, tmp_path, TextOptions())


HDF_HEAD = b"MATLAB 7.3 MAT-file, made".ljust(124) + b"\x00\x02IM"


def test_new_format_without_the_extra_is_refused_with_its_name(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pymatreader", None)
    path = tmp_path / "s01.mat"
    path.write_bytes(HDF_HEAD + bytes(2000))
    with pytest.raises(UsageError, match=r"7\.3, which needs the extra `mat73`") as caught:
        matlab.probe(claims(path)[0], tmp_path, TextOptions())
    assert "mmprep[mat73]" in caught.value.hint


def test_new_format_is_read_with_the_extra(tmp_path):
    pytest.importorskip("pymatreader")
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "s01.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, values in DEAP.items():
            stored = file.create_dataset(name, data=values.T)  # MATLAB's order
            stored.attrs["MATLAB_class"] = np.bytes_("double")
    with path.open("r+b") as file:
        file.write(HDF_HEAD)
    stream = matlab.read_stream(path, TextOptions(), "gsr", stream="gsr")
    assert np.array_equal(stream.data[:, 0], DEAP["data"][:, 36].ravel())
