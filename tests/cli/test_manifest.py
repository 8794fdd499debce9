"""`mmprep manifest` as it is called."""

from __future__ import annotations

import json

import pytest

from mmprep.manifest.codec import read_manifest
from tests.kill import tree

SERIAL = ("--engine", "serial")
RATIOS = ("--ratios", "train=0.34,val=0.33,test=0.33")


@pytest.fixture
def made(sample):
    return sample / "cmlr/converted"


def _splits(folder):
    return {record.subject: record.split for record in read_manifest(folder / "manifest.jsonl")}


@pytest.mark.parametrize("name", ["", "/dataset.json"])
def test_validate_says_on_stderr_what_it_looked_at(mmprep, made, name):
    done = mmprep("manifest", "validate", f"{made}{name}", "--checksums")
    assert (done.code, done.out) == (0, "ok: 15 records, 18 files\n")
    assert "15 records" in done.err
    assert "findings: 0" in done.err


def test_validate_quiet_says_nothing(mmprep, made):
    done = mmprep("manifest", "validate", made, "-q")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_validate_finds_a_subject_in_two_splits(mmprep, tmp_path, made):
    ids = [record.id for record in read_manifest(made / "manifest.jsonl")]
    train = [i for i in ids if "section_1" in i]
    (tmp_path / "train").write_text("\n".join(train))
    (tmp_path / "val").write_text("\n".join(i for i in ids if i not in train))
    given = f"train={tmp_path}/train,val={tmp_path}/val"
    done = mmprep("manifest", "split", made, "-o", tmp_path / "out", "--lists", given, *SERIAL)
    assert done.code == 0, done.err
    found = mmprep("manifest", "validate", tmp_path / "out", "--leakage", "subject")
    assert found.code == 1
    assert "subject" in found.out


@pytest.mark.parametrize("style", ["text", "json", "github"])
def test_validate_writes_findings_in_the_style_asked_for(mmprep, tmp_path, made, style):
    mmprep("manifest", "split", made, "-o", tmp_path / "out", *RATIOS, *SERIAL)
    (tmp_path / "out/audio/shard-00000.npy").unlink()
    done = mmprep("manifest", "validate", tmp_path / "out", "--format", style)
    assert done.code == 1
    line = next(line for line in done.out.splitlines() if "shard-00000" in line)
    if style == "json":
        assert json.loads(line)["severity"] == "error"
    else:
        assert line.startswith("::error title=audio/shard" if style == "github" else "audio/shard")


def test_stats_is_a_table_of_splits(mmprep, sample):
    done = mmprep("manifest", "stats", sample / "amigos/split")
    rows = [line.split() for line in done.out.splitlines()]
    assert (done.code, done.err) == (0, "")
    assert rows[0][:2] == ["split", "records"]
    assert rows[1][:2] == ["(all)", "464"]
    assert [row[0] for row in rows[2:5]] == ["train", "val", "test"]
    assert sum(int(row[1]) for row in rows[2:5]) == 464
    assert rows[-1][:2] == ["(none)", "4"]


def test_stats_json_is_one_object(mmprep, sample):
    found = mmprep("manifest", "stats", sample / "amigos/split", "--json").json
    assert found["records"] == 464
    assert sum(part["records"] for part in found["splits"].values()) == 464


def test_split_says_on_stderr_how_close_it_came(mmprep, tmp_path, made):
    done = mmprep("manifest", "split", made, "-o", tmp_path / "out", *RATIOS, *SERIAL)
    assert (done.code, done.out) == (0, f"{tmp_path}/out/dataset.json\n")
    assert "train: 1 groups, 5 records, 33.3% (asked 34.0%)" in done.err
    assert sorted(_splits(tmp_path / "out").values()) == ["test", "train", "val"]


def test_split_dry_run_writes_nothing(mmprep, tmp_path, made):
    before = tree(tmp_path)
    done = mmprep("manifest", "split", made, "-o", tmp_path / "out", *RATIOS, "-n", *SERIAL)
    assert (done.code, done.out) == (0, "")
    assert "output_bytes_about" in done.err
    assert tree(tmp_path) == before


def test_split_by_lists_hangs_on_the_lists(mmprep, tmp_path, made, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t").write_text("s1\ns2\n")
    (tmp_path / "v").write_text("s4\n")
    command = ("manifest", "split", made, "-o", "out", "--lists", "train=t,val=v", *SERIAL)
    assert mmprep(*command, "--depfile", "out.d").code == 0
    assert _splits(tmp_path / "out") == {"s1": "train", "s2": "train", "s4": "val"}
    assert {"t:", "v:"} <= set((tmp_path / "out.d").read_text().splitlines())
    (tmp_path / "t").write_text("s1\n")
    (tmp_path / "v").write_text("s4\ns2\n")
    assert mmprep(*command, "--json").json["status"] == "built"
    assert _splits(tmp_path / "out") == {"s1": "train", "s2": "val", "s4": "val"}


def test_split_without_such_a_field_is_a_usage_error(mmprep, tmp_path, made):
    done = mmprep("manifest", "split", made, "-o", tmp_path / "out", "--by", "site", *SERIAL)
    assert done.code == 2
    assert "no known site" in done.err


def test_export_prints_its_own_record(mmprep, tmp_path, sample):
    out = tmp_path / "nemo"
    done = mmprep(
        "manifest", "export", sample / "cmlr/converted", "--to", "nemo", "-o", out, *SERIAL
    )
    assert (done.code, done.out) == (0, f"{out}/mmprep.json\n")
    assert len((out / "manifest.json").read_text().splitlines()) == 15


def test_export_depfile_has_its_own_record_as_target(mmprep, tmp_path, made, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ("manifest", "export", made, "--to", "nemo", "-o", "nemo", *SERIAL)
    assert mmprep(*command, "--depfile", "nemo.d").code == 0
    assert (tmp_path / "nemo.d").read_text().startswith("nemo/mmprep.json: ")


def test_export_to_an_unknown_format_names_the_known(mmprep, tmp_path, made):
    done = mmprep("manifest", "export", made, "--to", "kaldy", "-o", tmp_path / "out", *SERIAL)
    assert done.code == 2
    assert "nemo" in done.err
