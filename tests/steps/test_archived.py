"""Archives as inputs of the steps: the same data sets as from the folders that they hold."""

from __future__ import annotations

import json
import os
import shutil
import struct
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile

from mmprep.errors import UsageError
from mmprep.manifest.codec import read_manifest
from mmprep.steps.inputs import expand
from tests.packed import central, pack, pack_folder
from tests.raw import film, packed_sound, sound, table

SESSION = {
    "EDA.csv": b"1560279825.000000\r\n4.000000\r\n0.000000\r\n0.247297\r\n",
    "HR.csv": b"1560279835.00\n1.000000\n88.00\n",
    "tags.csv": b"1560279837.34\n",
    "info.txt": b".csv files in this archive\n",
}


def contents(out: Path, *, data_only: bool = False) -> dict[str, bytes]:
    """Give the files of a data set by name, without what notes times and places."""
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and ".mmprep" not in path.parts
        if not data_only or path.relative_to(out).parts[0] in {"tables", "audio", "mfcc"}
    }


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def sessions(tmp_path):
    """Two people as Empatica gives them: a zip a session."""
    for name in ("S2", "S3"):
        for stem, data in SESSION.items():
            path = tmp_path / f"plain/{name}/{name}_E4_Data/{stem}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        pack(tmp_path / f"raw/{name}/{name}_E4_Data.zip", SESSION)
    return tmp_path


def test_zips_of_sessions_are_items_as_their_folders_would_be(mmprep, sessions):
    for name in ("raw", "plain"):
        assert mmprep("convert", sessions / name, "-o", sessions / f"{name}-out").code == 0
    made = contents(sessions / "raw-out", data_only=True)
    assert made == contents(sessions / "plain-out", data_only=True)
    assert "tables/EDA/S2/S2_E4_Data.parquet" in made
    records = list(read_manifest(sessions / "raw-out/manifest.jsonl"))
    assert [(r.id, r.source) for r in records] == [
        (f"{name}/{name}_E4_Data", f"{name}/{name}_E4_Data.zip") for name in ("S2", "S3")
    ]
    inputs, plain = (lines(sessions / f"{n}-out/inputs.jsonl") for n in ("raw", "plain"))
    assert [(i["name"].replace(".zip", ""), i["bytes"], i["digest"]) for i in inputs] == [
        (i["name"], i["bytes"], i["digest"]) for i in plain
    ]


def test_a_named_archive_is_the_root_and_names_the_item(mmprep, sessions):
    archive = sessions / "raw/S2/S2_E4_Data.zip"
    found = expand([str(archive)])
    assert (found.root, found.names) == (archive, tuple(sorted(SESSION)))
    assert found.named == frozenset()
    assert mmprep("convert", archive, "-o", sessions / "out").code == 0
    (record,) = read_manifest(sessions / "out/manifest.jsonl")
    assert record.id == "S2_E4_Data"


def test_a_member_can_be_named(mmprep, sessions):
    member = sessions / "raw/S2/S2_E4_Data.zip/EDA.csv"
    found = expand([str(member)])
    assert (found.names, found.named) == (("EDA.csv",), {"EDA.csv"})
    ran = mmprep("convert", member, "-o", sessions / "out", "--depfile", sessions / "out.d")
    assert ran.code == 0
    rule = (sessions / "out.d").read_text().split("\n")[0]
    assert rule.split()[1:] == [str(sessions / "raw/S2/S2_E4_Data.zip")]
    assert mmprep("inspect", member, "--value", "rate_hz").out == "4\n"
    assert mmprep("inspect", member.parent, "--value", "kind").out == "e4 session\n"
    with pytest.raises(UsageError, match="does not exist"):
        expand([str(member.with_name("none.csv"))])


def test_a_folder_of_an_archive_can_be_named(tmp_path):
    archive = pack(tmp_path / "x.tgz", {"a/1.tsv": b"", "a/b/2.tsv": b"", "c/3.tsv": b""})
    found = expand([str(archive / "a")])
    assert (found.root, found.names) == (archive / "a", ("1.tsv", "b/2.tsv"))
    assert expand([str(archive / "a"), str(archive / "c")]).root == archive


def test_a_layout_sees_the_path_without_the_suffix(mmprep, sessions):
    made = sessions / "out"
    assert mmprep("convert", sessions / "raw", "--layout", "e4", "-o", made).code == 0
    assert [(r.id, r.subject) for r in read_manifest(made / "manifest.jsonl")] == [
        ("S2/S2_E4_Data", "S2"),
        ("S3/S3_E4_Data", "S3"),
    ]


@pytest.mark.parametrize("kind", [".zip", ".tar", ".tar.gz", ".tar.xz", ".tbz2"])
def test_a_corpus_in_an_archive_gives_the_same_bytes(mmprep, tmp_path, kind):
    folder = tmp_path / "corpus"
    for k in range(3):
        sound(folder / f"audio/s{k}/u{k}.wav", n_samples=5000)
        (folder / f"audio/s{k}/u{k}.txt").write_text(f"utterance {k}\n")
        table(folder / f"tables/s{k}/eeg.tsv", start_s=k)
        (folder / f"tables/s{k}/eeg.clock.tsv").write_text("device\treference\n0\t5\n9\t14\n")
    soundfile.write(folder / "audio/x.flac", np.zeros(3000), 8000)
    soundfile.write(folder / "audio/x.aiff.wav", np.ones(3000) / 2, 8000, subtype="FLOAT")
    packed_sound(folder / "audio/y.ogg", "libopus", n_samples=9600)
    film(folder / "video/v.mp4", range(0, 400, 40))
    archive = pack_folder(folder, tmp_path / f"corpus{kind}")
    settings = ("--text", "{stem}.txt")
    for name, given, jobs in (("one", folder, 1), ("two", archive, 1), ("three", archive, 2)):
        ran = mmprep("convert", given, *settings, "-j", jobs, "-o", tmp_path / name)
        assert ran.code == 0, ran.err
    assert contents(tmp_path / "one") == contents(tmp_path / "two") == contents(tmp_path / "three")
    records = {r.id: r for r in read_manifest(tmp_path / "two/manifest.jsonl")}
    assert records["audio/s1/u1"].text == "utterance 1"
    assert records["tables/s2"].streams["eeg"].clock is not None


def test_features_of_sound_in_an_archive_are_those_of_the_folder(mmprep, tmp_path):
    for name in ("b", "a-c", "a"):
        sound(tmp_path / f"in/{name}/x.wav", n_samples=4000)
    pack(tmp_path / "mixed/a.zip", {"x.wav": (tmp_path / "in/a/x.wav").read_bytes()})
    for name in ("b", "a-c"):
        shutil.copytree(tmp_path / f"in/{name}", tmp_path / f"mixed/{name}")
    for name in ("in", "mixed"):
        assert mmprep("mfcc", tmp_path / name, "-o", tmp_path / f"{name}-out").code == 0
    made = contents(tmp_path / "mixed-out", data_only=True)
    assert made == contents(tmp_path / "in-out", data_only=True)
    assert made


def test_sidecars_are_found_in_and_around_an_archive(mmprep, tmp_path):
    stem = "sub-01/func/sub-01_task-rest_physio"
    members = {
        f"{stem}.tsv": b"51\t0\n-25\t1\n",
        f"{stem}.json": b'{"Columns": ["cardiac", "trigger"]}',
    }
    pack(tmp_path / "raw/bids.zip", members)
    (tmp_path / "raw/task-rest_physio.json").write_text('{"SamplingFrequency": 100}')
    assert mmprep("convert", tmp_path / "raw", "-o", tmp_path / "out").code == 0
    (record,) = read_manifest(tmp_path / "out/manifest.jsonl")
    assert record.streams["physio"].rate_hz == 100
    names = [line["name"] for line in lines(tmp_path / "out/inputs.jsonl")]
    assert names == [
        f"bids.zip/{stem}.json",
        f"bids.zip/{stem}.tsv",
        "task-rest_physio.json",
    ]


def test_a_clock_beside_an_archive_is_that_of_its_item(mmprep, sessions):
    (sessions / "raw/S2/S2_E4_Data.clock.tsv").write_text("device\treference\n0\t5\n9\t14\n")
    assert mmprep("convert", sessions / "raw", "-o", sessions / "out").code == 0
    first, second = read_manifest(sessions / "out/manifest.jsonl")
    assert first.streams["EDA"].clock is not None
    assert second.streams["EDA"].clock is None


@pytest.mark.parametrize("layout", [(), ("--layout", "e4"), ("--layout", "{session}_{stream}.tsv")])
def test_a_damaged_archive_fails_alone(mmprep, sessions, layout):
    os.truncate(sessions / "raw/S3/S3_E4_Data.zip", 100)
    table(sessions / "raw/P1_eeg.tsv")
    ran = mmprep("convert", sessions / "raw", *layout, "-o", sessions / "out")
    assert ran.code == 3
    assert "S3/S3_E4_Data.zip: the zip file is damaged or cut" in ran.err
    assert str(sessions / "raw") not in ran.err
    ran = mmprep("convert", sessions / "raw", *layout, "--max-failures", 1, "-o", sessions / "out")
    assert ran.code == 0
    (failure,) = lines(sessions / "out/failures.jsonl")
    assert (failure["source"], failure["stage"]) == ("S3/S3_E4_Data.zip", "look")
    assert len(list(read_manifest(sessions / "out/manifest.jsonl"))) >= 1


def test_a_damaged_archive_that_is_named_is_said(mmprep, sessions):
    archive = sessions / "raw/S3/S3_E4_Data.zip"
    os.truncate(archive, 100)
    for path in (archive, archive / "EDA.csv"):
        ran = mmprep("convert", path, "-o", sessions / "out")
        assert ran.code == 3
        assert "the zip file is damaged or cut" in ran.err
        ran = mmprep("inspect", path)
        assert ran.code == 3
        assert "the zip file is damaged or cut" in ran.err


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_hostile_archive_fails_alone_and_writes_nothing(mmprep, sessions):
    pack(sessions / "raw/evil.zip", {"../../evil.tsv": b"t\tx\n0\t1\n", "ok.tsv": b"t\tx\n0\t1\n"})
    before = sorted(sessions.rglob("*"))
    ran = mmprep("convert", sessions / "raw", "-o", sessions / "out", "--max-failures", 1)
    assert ran.code == 0
    (failure,) = lines(sessions / "out/failures.jsonl")
    assert failure["message"].startswith("evil.zip: refused: the name of the member '../../evil.ts")
    after = sorted(p for p in sessions.rglob("*") if sessions / "out" not in {p, *p.parents})
    assert after == before


def test_an_archive_left_out_is_not_opened(mmprep, sessions):
    os.truncate(sessions / "raw/S3/S3_E4_Data.zip", 100)
    for pattern in ("S3/*.zip", "S3_*.zip", "*.zip"):
        found = expand([str(sessions / "raw")], exclude=[pattern])
        assert not [name for name in found.names if name.startswith("S3")]
    ran = mmprep("convert", sessions / "raw", "--exclude", "S3*", "-o", sessions / "out")
    assert ran.code == 0


def test_encrypted_and_damaged_members_fail_and_the_others_are_kept(mmprep, tmp_path):
    rows = b"time\tx\n" + b"".join(b"%d\t%d\n" % (k, k * k) for k in range(20_000))
    pack(tmp_path / "raw/a.zip", {"a.tsv": rows, "b.tsv": rows})
    central(tmp_path / "raw/a.zip", 16, b"\0\0\0\0")
    pack(tmp_path / "raw/b.zip", {"a.tsv": rows, "b.wav": b"RIFF" + rows})
    central(tmp_path / "raw/b.zip", 8, b"\1\0")
    pack(tmp_path / "raw/c.zip", {"a.tsv": bytes(10_000_000)})
    central(tmp_path / "raw/c.zip", 24, struct.pack("<I", 5000))
    ran = mmprep("convert", tmp_path / "raw", "-o", tmp_path / "out", "--max-failures", 3)
    assert ran.code == 0
    failures = {f["source"]: f["message"] for f in lines(tmp_path / "out/failures.jsonl")}
    assert failures["a.zip/b.tsv"] == "a.zip/b.tsv: is damaged or cut: its checksum differs"
    assert failures["b.zip/b.wav"] == "b.zip/b.wav: is encrypted"
    assert "holds more than the 5000 bytes declared" in failures["c.zip/a.tsv"]
    kept = {r.id: sorted(r.streams) for r in read_manifest(tmp_path / "out/manifest.jsonl")}
    assert kept == {"a": ["a"], "b": ["a"]}


def test_damaged_sound_in_an_archive_fails(mmprep, tmp_path):
    for end, subtype in (("wav", "PCM_16"), ("flac", None), ("aiff", "PCM_24"), ("ogg", None)):
        noise = np.random.default_rng(0).uniform(-0.5, 0.5, 40_000)
        path = tmp_path / f"x.{end}"
        soundfile.write(path, noise, 8000, subtype=subtype)
        pack(tmp_path / f"raw/{end}.zip", {f"x.{end}": path.read_bytes()})
        central(tmp_path / f"raw/{end}.zip", 16, b"\0\0\0\0")
    sound(tmp_path / "raw/good.wav")
    ran = mmprep("convert", tmp_path / "raw", "-o", tmp_path / "out", "--max-failures", 4)
    assert ran.code == 0
    assert "Traceback" not in ran.err
    failures = {f["source"]: f["message"] for f in lines(tmp_path / "out/failures.jsonl")}
    for end in ("wav", "flac", "aiff", "ogg"):
        assert "its checksum differs" in failures[f"{end}.zip/x.{end}"]
    assert [r.id for r in read_manifest(tmp_path / "out/manifest.jsonl")] == ["good"]


def test_a_damaged_video_in_an_archive_fails(mmprep, tmp_path):
    data = film(tmp_path / "v.mp4", range(0, 4000, 40)).read_bytes()
    central(pack(tmp_path / "raw/a.zip", {"v.mp4": data}), 16, b"\0\0\0\0")
    pack(tmp_path / "raw/b.zip", {"v.mp4": data})
    ran = mmprep("convert", tmp_path / "raw", "-o", tmp_path / "out", "--max-failures", 1)
    assert ran.code == 0
    (failure,) = lines(tmp_path / "out/failures.jsonl")
    assert failure["message"] == "a.zip/v.mp4: is damaged or cut: its checksum differs"
    assert [r.id for r in read_manifest(tmp_path / "out/manifest.jsonl")] == ["b/v"]


def test_sound_in_an_archive_is_exported_only_when_it_is_written(mmprep, tmp_path):
    data = sound(tmp_path / "x.wav").read_bytes()
    pack(tmp_path / "raw/a.zip", {"x.wav": data})
    assert mmprep("convert", tmp_path / "raw", "-o", tmp_path / "out").code == 0
    nemo = ("manifest", "export", tmp_path / "out", "--to", "nemo", "-o", tmp_path / "nemo")
    ran = mmprep(*nemo)
    assert ran.code == 2
    assert "lies in an archive" in ran.err
    assert mmprep(*nemo, "--audio", "flac").code == 0


def test_an_archive_in_an_archive_is_skipped_and_counted(mmprep, sessions):
    inner = (sessions / "raw/S3/S3_E4_Data.zip").read_bytes()
    pack(sessions / "raw/S2/S2_E4_Data.zip", {**SESSION, "inner.zip": inner})
    ran = mmprep("convert", sessions / "raw", "-o", sessions / "out")
    assert ran.code == 0
    assert "3 files that no reader takes were skipped" in ran.err
    assert len(list(read_manifest(sessions / "out/manifest.jsonl"))) == 2


def test_an_unchanged_archive_is_up_to_date_and_a_changed_one_rebuilt(mmprep, sessions):
    call = ("convert", sessions / "raw", "-o", sessions / "out", "--json")
    assert mmprep(*call).json["status"] == "built"
    assert mmprep(*call).json["status"] == "up-to-date"
    os.utime(sessions / "raw/S2/S2_E4_Data.zip", ns=(1, 1))
    ran = mmprep(*call)
    assert (ran.json["status"], ran.json["reused"]) == ("up-to-date", ran.json["tasks"])
    pack(sessions / "raw/S2/S2_E4_Data.zip", {**SESSION, "HR.csv": b"1560279835\n1\n90\n91\n"})
    assert mmprep(*call).json["status"] == "built"
    rows = pq.read_table(sessions / "out/tables/HR/S2/S2_E4_Data.parquet")["HR"].to_pylist()
    assert rows == [90, 91]


def test_a_size_changed_under_the_same_time_is_noticed(mmprep, sessions):
    archive = sessions / "raw/S2/S2_E4_Data.zip"
    call = ("convert", sessions / "raw", "-o", sessions / "out", "--json")
    os.utime(archive, ns=(1, 1))
    assert mmprep(*call).json["status"] == "built"
    pack(archive, {**SESSION, "HR.csv": b"1560279835.00\n1.000000\n99.99\n", "x": b""})
    os.utime(archive, ns=(1, 1))
    assert mmprep(*call).json["status"] == "built"
