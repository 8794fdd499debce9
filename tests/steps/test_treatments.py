"""`--filter` and `--reref` from the options to the windows."""

from __future__ import annotations

import json

import numpy as np
import pytest

import mmprep as mm
from mmprep import run_align
from mmprep.errors import UsageError
from mmprep.steps.sessions import treatments


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("eeg=1-45", (1.0, 45.0, None)),
        ("eeg=0.5-", (0.5, None, None)),
        ("eeg=-45", (None, 45.0, None)),
        ("eeg=1-45,notch=50", (1.0, 45.0, 50.0)),
        ("eeg=,notch=60", (None, None, 60.0)),
    ],
)
def test_band_is_read(text, expected):
    assert tuple(treatments.filters([text])["eeg"].values()) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("eeg=45", "is not NAME=LOW-HIGH"),
        ("eeg=-", "is not NAME=LOW-HIGH"),
        ("eeg=45-1", "the low edge is not below the high one"),
        ("eeg=a-b", "'a' is no frequency"),
        ("eeg=0-45", "'0' is no frequency"),
        ("eeg=1-45,order=4", "'order' is no setting"),
    ],
)
def test_band_that_is_none_is_refused(text, message):
    with pytest.raises(UsageError, match=message):
        treatments.filters([text])


def recording(tmp_path):
    """Write a minute of 2 uV at 10 Hz under mains of 30 uV, both channels alike but for 5 uV."""
    t = np.arange(60 * 250) / 250
    brain, mains = 2 * np.sin(2 * np.pi * 10 * t), 30 * np.sin(2 * np.pi * 50 * t)
    rows = np.column_stack([t, brain + mains, -brain + mains + 5])
    path = tmp_path / "eeg.tsv"
    np.savetxt(path, rows, fmt="%.6f", delimiter="\t", header="t_s\tCz\tOz", comments="")
    return path


def test_mains_are_gone_and_the_ends_are_masked(tmp_path):
    path = recording(tmp_path)
    run_align(stream=[f"eeg={path}"], filter=["eeg=1-40"], output=tmp_path / "out", engine="serial")
    data = mm.open_dataset(tmp_path / "out")
    fact = json.loads((tmp_path / "out/sync/session.json").read_text())["streams"][0]
    known = fact["filter"]
    assert (known["low_hz"], known["high_hz"], known["n_taps"]) == (1.0, 40.0, 825)
    assert known["edge_s"] == pytest.approx(412 / 250)
    valid = np.concatenate([one["eeg.valid"] for one in data])
    assert (~valid).sum() == 2 * 412
    inner = np.concatenate([one["eeg"] for one in data])[valid]
    assert np.abs(inner).max() == pytest.approx(2, abs=0.1)  # 53 dB less of the mains
    counts = fact["accounting"]
    assert counts["in"] == counts["used"] + counts["masked"] == 15000
    assert counts["masked"] == 2 * 412


def test_reference_takes_off_what_channels_share(tmp_path):
    path = recording(tmp_path)
    run_align(
        stream=[f"eeg={path}"], reref=["eeg=average"], output=tmp_path / "out", engine="serial"
    )
    first = mm.open_dataset(tmp_path / "out")[0]["eeg"]
    brain = 2 * np.sin(2 * np.pi * 10 * np.arange(250) / 250)
    np.testing.assert_allclose(first, np.column_stack([brain - 2.5, -brain + 2.5]), atol=1e-3)


def test_stream_that_is_not_there_is_refused(tmp_path, mmprep):
    path = recording(tmp_path)
    ran = mmprep("align", "--eeg", path, "--filter", "ecg=1-40", "-o", tmp_path / "out")
    assert ran.code == 2
    assert "--filter: there is no stream 'ecg'" in ran.err


@pytest.mark.parametrize("text", ["eeg=a,a", "eeg=a,"])
def test_reference_that_is_none_is_refused(text):
    with pytest.raises(UsageError, match="is not NAME=average or NAME=CH"):
        treatments.references([text])


def test_stream_that_becomes_a_table_is_not_passed_over(tmp_path, mmprep):
    (tmp_path / "keys.tsv").write_text("t_s\tkey\n1.5\ta\n3.1\tb\n3.7\ta\n", encoding="utf-8")
    streams = (
        "--eeg",
        recording(tmp_path),
        "--stream",
        f"keys={tmp_path / 'keys.tsv'},kind=events",
    )
    ran = mmprep("align", *streams, "--filter", "keys=1-4", "-o", tmp_path / "out")
    assert ran.code == 3
    assert "keys: its rows become a table: there is nothing to filter" in ran.err


def test_filter_that_masks_much_of_a_stream_is_told(tmp_path, mmprep):
    path = recording(tmp_path)
    for band, told in (("0.05-40", True), ("1-40", False)):
        given = ("--eeg", path, "--filter", f"eeg={band}", "--rates", "eeg=250", "--force")
        ran = mmprep("align", *given, "-o", tmp_path / "out")
        assert ran.code == 0
        said = (
            "eeg: 15000 of its 15000 rows are masked: half a kernel at each end of a stretch is 33"
        )
        assert (said in ran.err) == told
