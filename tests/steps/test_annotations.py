"""Annotations as corpora publish them, joined to windows by `align`."""

from __future__ import annotations

import pytest

from mmprep import run_align, run_convert
from mmprep.manifest.codec import read_manifest
from tests import raw

SERIAL = {"engine": "serial"}


@pytest.fixture
def windows(tmp_path):
    """Align 40 s of a signal of two subjects, and give the labels of the windows of each."""
    for subject in ("P01", "P02"):
        raw.table(tmp_path / f"in/{subject}/gsr.tsv", n_rows=161)
    layout = "{subject}/{stream}.tsv"
    run_convert(tmp_path / "in", output=tmp_path / "c", layout=layout, **SERIAL)

    def run(files, **options):
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        paths = tuple(str(tmp_path / name) for name in files)
        run_align(tmp_path / "c", output=tmp_path / "out", labels=paths, **options, **SERIAL)
        found = {}
        for record in read_manifest(tmp_path / "out/manifest.jsonl"):
            found.setdefault(record.subject, []).append(record)
        return found

    return run


def test_ratings_of_amigos_hold_for_the_session(windows):
    rows = "UserID,VideoID,arousal,valence\n1,10,7.5,2.0\n2,10,3.0,8.0\n"
    found = windows({"ratings.csv": rows}, on="subject=UserID", label="valence", label_bins="5")
    assert {record.label for record in found["P01"]} == {"<5"}
    assert {record.label for record in found["P02"]} == {">=5"}
    assert found["P01"][0].labels == {"VideoID": 10, "arousal": 7.5, "valence": 2.0}


def test_external_annotation_of_amigos_holds_for_20_s(windows):
    rows = "".join(f"{u},{20 * k},{0.1 * (k + u):.1f}\n" for u in (1, 2) for k in range(2))
    found = windows(
        {"external.csv": "user,start,valence\n" + rows},
        on="subject=user",
        label_time="start",
        window="4",
    )
    assert [r.labels["valence"] for r in found["P01"]] == [0.1] * 5 + [0.2] * 5
    assert [r.labels["valence"] for r in found["P02"]] == [0.2] * 5 + [0.3] * 5


def test_three_perspectives_of_k_emocon_every_5_s(windows):
    files = {}
    for name in ("self", "partner", "external"):
        rows = "".join(
            f"{p},{5 * k},{k % 5 + (name == 'partner')}\n" for p in (1, 2) for k in range(1, 9)
        )
        files[f"{name}.csv"] = f"pid,seconds,arousal_{name}\n" + rows
    found = windows(files, on="subject=pid", label_time="seconds", label_lag=5.0, window="5")
    first = found["P01"][0].labels  # what is said at 5 s is about 0 to 5 s
    assert first == {"arousal_self": 1, "arousal_partner": 2, "arousal_external": 1}
    assert [r.labels["arousal_self"] for r in found["P02"]] == [1, 2, 3, 4, 0, 1, 2, 3]


def test_joystick_of_case_at_20_hz_is_averaged(windows):
    rows = "".join(f"{s},{50 * k},{k}\n" for s in (1, 2) for k in range(800))
    found = windows(
        {"joystick.csv": "sub,jstime,valence\n" + rows},
        on="subject=sub",
        label_time="jstime,unit=ms",
        label_agg="mean",
    )
    means = [record.labels["valence"] for record in found["P01"]]
    assert means == pytest.approx([20 * k + 9.5 for k in range(40)])


def test_people_and_intervals_are_two_levels(windows):
    files = {
        "people.tsv": "subject\tage\n1\t31\n2\t40\n",
        "films.tsv": "subject\tbegin_s\tend_s\tlabel\nP01\t0\t10\tfear\nP01\t10\t40\tjoy\n",
    }
    found = windows(files, on="subject", window="4")
    assert [r.label for r in found["P01"]] == ["fear"] * 2 + [None] + ["joy"] * 7
    assert [r.labels for r in found["P02"]] == [{"age": 40}] * 10
