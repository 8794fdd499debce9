"""FIF: what MNE reads, at the time of the first stored sample, without the fill of pauses."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow.parquet as pq
import pytest

from mmprep import tables
from mmprep.errors import DataError
from mmprep.sources import mnefiles
from mmprep.sources.base import TextOptions

mne = pytest.importorskip("mne")

WHEN = datetime(2024, 1, 2, 10, 0, 0, 250_000, tzinfo=UTC)
WHEN_NS = 1_704_189_600_250_000_000
DATA = np.random.default_rng(0).normal(size=(3, 400)) * [[1e-5], [1e-5], [1]]


def raw_of(*, when=WHEN, first=100):
    info = mne.create_info(["Fz", "EOG", "STI"], 100.0, ["eeg", "eog", "stim"])
    info["subject_info"] = {"last_name": "Doe", "his_id": "doe7"}
    raw = mne.io.RawArray(DATA, info, first_samp=first, verbose="ERROR")
    return raw.set_meas_date(when)


def save(raw, path):
    raw.save(path, fmt="double", overwrite=True, verbose="ERROR")
    return path


def convert(path, stream, out):
    (claim,) = mnefiles.claim("", [path.name], path.parent)
    schema = mnefiles.probe(claim, path.parent, TextOptions())[stream]
    target = out / "out.parquet"
    facts = mnefiles.write(
        claim, path.parent, stream, schema, tables.Target(target, "P1"), options=TextOptions()
    )
    return facts, target


def test_samples_equal_those_of_mne(tmp_path):
    path = save(raw_of(), tmp_path / "a_raw.fif")
    facts, target = convert(path, "signal", tmp_path)
    stream = tables.read_stream(target, "x")
    known = mne.io.read_raw_fif(path, verbose="ERROR")
    assert np.array_equal(stream.data, known.get_data().T)
    assert stream.channels == ("Fz", "EOG", "STI")
    assert stream.units[:2] == ("V", "V")
    assert (facts.rate_hz, facts.rows, facts.absolute) == (100, 400, True)


def test_first_stored_sample_is_after_the_start_of_acquisition(tmp_path):
    facts, _ = convert(save(raw_of(), tmp_path / "a_raw.fif"), "signal", tmp_path)
    assert facts.start_ns == WHEN_NS + 10**9


def test_annotations_are_on_the_clock_of_the_samples(tmp_path):
    raw = raw_of()
    raw.set_annotations(mne.Annotations([0.5], [0.25], ["flash"]))  # 0.5 s after sample 0
    _, target = convert(save(raw, tmp_path / "a_raw.fif"), "annotations", tmp_path)
    table = pq.read_table(target)
    assert table.column("duration").to_pylist() == [0.25]
    assert table.column("description").to_pylist() == ["flash"]
    assert tables.read_stream(target, "x").stamps_ns.tolist() == [WHEN_NS + 1_500_000_000]


def test_fill_of_a_pause_is_left_out(tmp_path):
    raw = raw_of()
    raw.set_annotations(mne.Annotations([1.0], [0.5], ["BAD_ACQ_SKIP"]))
    facts, target = convert(save(raw, tmp_path / "a_raw.fif"), "signal", tmp_path)
    stream = tables.read_stream(target, "x")
    assert facts.rows == 350
    assert np.array_equal(stream.data, np.delete(DATA.T, np.s_[100:150], axis=0))
    assert np.diff(stream.stamps_ns).max() == 510_000_000


def test_start_is_relative_without_a_date(tmp_path):
    facts, _ = convert(save(raw_of(when=None), tmp_path / "a_raw.fif"), "signal", tmp_path)
    assert (facts.start_ns, facts.absolute) == (10**9, False)
    assert any("no start time" in note for note in facts.notes)


def test_nothing_of_the_person_is_kept(tmp_path):
    _, target = convert(save(raw_of(), tmp_path / "a_raw.fif"), "signal", tmp_path)
    assert b"doe7" not in target.read_bytes().lower()


def test_file_is_taken_by_its_content(tmp_path):
    (tmp_path / "other.fif").write_bytes(b"\0" * 4096)
    events = mne.make_fixed_length_events(raw_of(), duration=1.0)
    epochs = mne.Epochs(raw_of(), events, tmin=0, tmax=0.5, baseline=None, verbose="ERROR")
    epochs.save(tmp_path / "a-epo.fif", verbose="ERROR")
    names = [path.name for path in tmp_path.iterdir()]
    assert mnefiles.claim("", names, tmp_path) == []


def test_parts_go_with_the_first_one(tmp_path):
    save(raw_of(), tmp_path / "a_raw.fif")
    (tmp_path / "a_raw-1.fif").write_bytes((tmp_path / "a_raw.fif").read_bytes())
    (claim,) = mnefiles.claim("", ["a_raw-1.fif", "a_raw.fif"], tmp_path)
    assert claim.files == ("a_raw.fif", "a_raw-1.fif")


def test_damaged_file_is_a_located_error(tmp_path):
    path = save(raw_of(), tmp_path / "a_raw.fif")
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(DataError, match=r"a_raw\.fif: MNE cannot read it"):
        mnefiles.read_stream(path, TextOptions(), "x")
