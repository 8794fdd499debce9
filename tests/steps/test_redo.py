"""What `convert` does again after a change or a kill, and what it only links."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mmprep import run_convert
from mmprep.cli import main
from mmprep.errors import SpaceError
from mmprep.files import remove_tree
from mmprep.steps import base
from mmprep.steps.running import journal
from tests import raw
from tests.kill import opened_by, run_killed_at, tree

ITEMS = range(5)
OWN_SHARD = "2kB"  # 800 samples: every sound stands in a shard of its own


@pytest.fixture
def folder(tmp_path):
    """Five tables, five sounds, a video."""
    for k in ITEMS:
        raw.table(tmp_path / f"in/P{k}/eeg.tsv", start_s=k)
        raw.sound(tmp_path / f"in/u{k}.wav")
    raw.film(tmp_path / "in/v.mp4", range(0, 400, 40))
    return tmp_path / "in"


def convert(folder: Path, out: Path, **options):
    return run_convert(folder, output=out, engine="serial", shard_size=OWN_SHARD, **options)


def inodes(out: Path) -> dict[str, int]:
    found = [*out.glob("tables/**/*.parquet"), *out.glob("audio/*.npy")]
    return {path.relative_to(out).as_posix(): path.stat().st_ino for path in found}


def test_changed_inputs_are_done_again_and_the_rest_is_linked(folder, tmp_path):
    out = tmp_path / "out"
    n_tasks = convert(folder, out).n_tasks
    before = inodes(out)
    raw.table(folder / "P1/eeg.tsv", start_s=9)
    (folder / "u3.wav").write_bytes((folder / "u4.wav").read_bytes())
    result = convert(folder, out)
    after = inodes(out)
    assert after.keys() == before.keys()
    changed = {name for name, inode in after.items() if inode != before[name]}
    assert changed == {"tables/eeg/P1.parquet", "audio/shard-00003.npy"}
    assert (result.status, result.n_tasks - result.n_reused) == ("built", 3)  # with one look
    assert result.n_tasks == n_tasks


def test_removed_and_added_inputs_leave_the_rest_linked(folder, tmp_path):
    out = tmp_path / "out"
    convert(folder, out)
    before = inodes(out)
    (folder / "P2/eeg.tsv").unlink()
    (folder / "u0.wav").unlink()
    raw.table(folder / "P7/eeg.tsv")
    raw.sound(folder / "u9.wav")
    convert(folder, out)
    after = inodes(out)
    assert set(after.values()) - set(before.values()) == {
        after["tables/eeg/P7.parquet"],
        after["audio/shard-00004.npy"],
    }
    assert after["audio/shard-00000.npy"] == before["audio/shard-00001.npy"]
    assert "tables/eeg/P2.parquet" not in after
    convert(folder, tmp_path / "fresh")
    assert tree(out) == tree(tmp_path / "fresh")


def test_inputs_of_an_unchanged_corpus_are_not_opened(folder, tmp_path):
    command = ["convert", str(folder), "-o", str(tmp_path / "out"), "--engine", "serial"]
    first = opened_by(lambda: main.run(command), folder)
    assert {f"u{k}.wav" for k in ITEMS} | {"v.mp4", "P0/eeg.tsv"} <= set(first)
    record = tmp_path / "out/dataset.json"
    os.utime(record, (0, 0))
    assert opened_by(lambda: main.run(command), folder) == []
    assert record.stat().st_mtime > 0


@pytest.mark.parametrize("name", ["P0/new.tsv", "v.frames.tsv", "P1/eeg.tsv", "u2.wav", "labels"])
def test_whatever_changes_the_corpus_is_looked_into(folder, tmp_path, name):
    labels = tmp_path / "labels.tsv"
    labels.write_text("session\tmood\n" + "".join(f"P{k}\tcalm\n" for k in ITEMS))
    options = {"labels": str(labels), "on": "session"}
    convert(folder, tmp_path / "out", **options)
    assert convert(folder, tmp_path / "out", **options).status == "up-to-date"
    if name == "labels":
        labels.write_text(labels.read_text().replace("P3\tcalm", "P3\tglad"))
    elif name == "u2.wav":
        raw.sound(folder / name, n_samples=500)
    elif name == "v.frames.tsv":
        rows = "".join(f"{k}\t{k / 25}\n" for k in range(10))
        (folder / name).write_text("frame\ttime\n" + rows)
    else:
        raw.table(folder / name, start_s=77)
    assert convert(folder, tmp_path / "out", **options).status == "built"


def test_a_file_of_the_data_set_that_is_gone_or_cut_is_made_again(folder, tmp_path):
    out = tmp_path / "out"
    convert(folder, out)
    before = tree(out)
    (out / "tables/eeg/P2.parquet").unlink()
    assert convert(folder, out).status == "built"
    assert tree(out) == before
    os.truncate(out / "audio/shard-00001.npy", 100)
    assert convert(folder, out).status == "built"
    assert tree(out) == before


def _other_content(path: Path) -> None:
    """Change the last byte of a file in place, its size, time and inode kept."""
    status = path.stat()
    with path.open("rb+") as file:
        file.seek(-2, os.SEEK_END)
        file.write(b"9")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_unchanged_inputs_are_told_by_size_time_and_inode(folder, tmp_path):
    convert(folder, tmp_path / "out")
    before = tree(tmp_path / "out")
    for name in ("P1/eeg.tsv", "u1.wav"):
        _other_content(folder / name)
    assert convert(folder, tmp_path / "out").status == "up-to-date"
    assert tree(tmp_path / "out") == before
    assert convert(folder, tmp_path / "out", verify_inputs=True).status == "built"
    assert tree(tmp_path / "out") != before


def _killed(k: int, folder: Path, out: Path) -> int | None:
    command = ["convert", str(folder), "-o", str(out), "--engine", "serial", "-q"]
    return run_killed_at(k, out, lambda: main.run([*command, "--shard-size", OWN_SHARD]))


@pytest.mark.kill
def test_after_a_kill_no_finished_task_is_done_again(folder, memory):
    out, counts = memory / "out", set()
    for k in range(1, 500, 6):
        remove_tree(out)
        remove_tree(memory / "out.incomplete")
        if _killed(k, folder, out) is not None:
            break
        done = journal.read(memory / "out.incomplete/.mmprep/journal.jsonl")
        if not (out / "dataset.json").exists():
            assert convert(folder, out).n_reused == len(done)
            counts.add(len(done))
    assert len(counts) > 8
    assert max(counts) == len(ITEMS) * 2 + 2  # with one look, and the video


@pytest.mark.kill
def test_killed_twice_it_still_continues(folder, memory):
    out = memory / "out"
    _killed(60, folder, out)
    first = len(journal.read(memory / "out.incomplete/.mmprep/journal.jsonl"))
    _killed(60, folder, out)
    second = len(journal.read(memory / "out.incomplete/.mmprep/journal.jsonl"))
    assert 0 < first < second
    assert convert(folder, out).n_reused == second


def test_disk_that_is_full_at_the_commit_leaves_all_for_the_next_run(folder, tmp_path, monkeypatch):
    def full(_folder):
        raise OSError(28, "No space left on device")

    out = tmp_path / "out"
    convert(folder, out)
    before = tree(out)
    raw.sound(folder / "u9.wav")
    with monkeypatch.context() as patched:
        patched.setattr(base.files, "sync_tree", full)
        with pytest.raises(SpaceError, match=r"about \d+ bytes more are needed, \d+ are free"):
            convert(folder, out)
    assert tree(out) == before
    result = convert(folder, out)
    assert (result.status, result.n_tasks - result.n_reused) == ("built", 0)
