"""The rule by which every step runs, continues and commits, on a step that copies text."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from mmprep import files
from mmprep.errors import DataError, TransientError, UsageError
from mmprep.manifest.codec import decode_dataset, read_manifest
from mmprep.manifest.model import Record, table_ref
from mmprep.steps import base
from mmprep.steps.base import Contents, FailedItemsError, Item, RunOptions, StepName, Task, Work
from mmprep.steps.running.journal import FileNote
from mmprep.steps.running.tasks import Job
from tests.kill import run_killed_at, tree

calls: list[str] = []


def _upper(job: Job) -> dict[str, object]:
    rows, done = [], []
    for item in job.items():
        with job.attempt(item, "read"):
            text = Path(item.inputs[0]).read_text()
            calls.append(item.id)
            if "bad" in text:
                raise DataError("is bad", where=item.source, hint="write good")
            name = f"tables/{item.id}"
            files.write_new(job.folder / name, text.upper().encode())
            rows.append(FileNote.of(job.folder, name).row())
            done.append(item.id)
    return {"files": rows, "done": done}


def _run(folder: Path, out: Path, **options: object) -> base.StepResult:
    paths = sorted(folder.glob("*.txt"))
    items = [Item(path.stem, (str(path),), path.stat().st_size, source=path.name) for path in paths]
    tasks = [Task(item.id, (item,)) for item in items]
    run = RunOptions(output=out, **options)
    with base.open_run(StepName("upper", 1), {}, run, root=folder) as job:
        outcomes = job.map(Work(_upper), tasks)
        placed, records = {}, []
        for outcome in outcomes:
            placed |= job.placed(outcome, {})
            records += [_record(name) for name in outcome.value["done"]]
        return job.commit(Contents(records, placed=placed))


def _record(name: str) -> Record:
    ref = table_ref(f"tables/{name}", (0, 1), rate_hz=None, clock=None)
    return Record(id=name, session=name, begin_s=0, duration_s=1, streams={"text": ref})


@pytest.fixture
def folder(tmp_path):
    calls.clear()
    source = tmp_path / "in"
    source.mkdir()
    for name in "abc":
        (source / f"{name}.txt").write_text(f"text {name}")
    return source


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def test_run_publishes_record_manifest_inputs_and_files(folder, out):
    assert _run(folder, out).status == "built"
    dataset = decode_dataset((out / "dataset.json").read_bytes())
    assert set(dataset.files) == {"manifest.jsonl", "inputs.jsonl", *(f"tables/{n}" for n in "abc")}
    assert dataset.files["tables/a"].sha256 == files.sha256(out / "tables/a")
    assert [record.id for record in read_manifest(out / "manifest.jsonl")] == ["a", "b", "c"]
    assert not out.with_name("out.incomplete").exists()


def test_second_run_does_nothing_and_touches_the_record(folder, out):
    _run(folder, out)
    os.utime(out / "dataset.json", (1, 1))
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    assert _run(folder, out).status == "up-to-date"
    assert calls == ["a", "b", "c"]
    changed = [path for path, time in before.items() if path.stat().st_mtime_ns != time]
    assert changed == [out / "dataset.json"]


def test_touched_input_is_not_read_by_the_step(folder, out):
    _run(folder, out)
    os.utime(folder / "b.txt", (5, 5))
    assert _run(folder, out).status == "up-to-date"
    assert calls == ["a", "b", "c"]


def test_changed_input_redoes_itself_and_links_the_rest(folder, out):
    _run(folder, out)
    inode = (out / "tables/a").stat().st_ino
    (folder / "b.txt").write_text("new")
    assert _run(folder, out).status == "built"
    assert calls == ["a", "b", "c", "b"]
    assert (out / "tables/b").read_text() == "NEW"
    assert (out / "tables/a").stat().st_ino == inode


def test_change_that_keeps_size_and_time_is_found_with_verify_inputs(folder, out):
    _run(folder, out)
    stamp = (folder / "b.txt").stat()
    (folder / "b.txt").write_text("TEXT B")
    os.utime(folder / "b.txt", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert _run(folder, out).n_reused == 3
    assert _run(folder, out, verify_inputs=True).n_reused == 2


def test_removed_input_leaves_the_rest_linked(folder, out):
    _run(folder, out)
    (folder / "a.txt").unlink()
    assert _run(folder, out).status == "built"
    assert calls == ["a", "b", "c"]
    assert not (out / "tables/a").exists()


def test_missing_output_file_is_made_again(folder, out):
    _run(folder, out)
    (out / "tables/c").unlink()
    assert _run(folder, out).status == "built"
    assert calls == ["a", "b", "c", "c"]


def test_force_runs_everything_again(folder, out):
    _run(folder, out)
    before = tree(out)
    assert _run(folder, out, force=True).status == "built"
    assert calls == ["a", "b", "c"] * 2
    assert tree(out) == before


def test_failed_item_publishes_nothing_and_the_next_run_redoes_only_it(folder, out):
    (folder / "b.txt").write_text("bad")
    with pytest.raises(FailedItemsError, match="1 of 3 items failed") as caught:
        _run(folder, out)
    assert caught.value.failures[0].message == "b.txt: is bad"
    assert not out.exists()
    (folder / "b.txt").write_text("good")
    assert _run(folder, out).status == "built"
    assert calls == ["a", "b", "c", "b"]


def test_failures_within_the_limit_are_published_and_listed(folder, out):
    (folder / "b.txt").write_text("bad")
    assert _run(folder, out, max_failures="34%").status == "partial"
    line = (out / "failures.jsonl").read_text()
    assert '"id":"b"' in line
    assert '"stage":"read"' in line
    assert decode_dataset((out / "dataset.json").read_bytes()).totals.failures == 1


def test_published_failures_are_up_to_date(folder, out):
    (folder / "b.txt").write_text("bad")
    _run(folder, out, max_failures="1")
    assert _run(folder, out, max_failures="1").status == "up-to-date"
    assert calls == ["a", "b", "c"]


def test_fail_fast_stops_at_the_first_failure(folder, out):
    (folder / "a.txt").write_text("bad")
    with pytest.raises(FailedItemsError, match="1 of 3"):
        _run(folder, out, keep_going=False)
    assert calls == ["a"]


def test_out_that_mmprep_did_not_make_is_refused(folder, out):
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="not made by mmprep"):
        _run(folder, out, force=True)
    assert (out / "thesis.txt").read_text() == "mine"


def test_empty_out_is_taken(folder, out):
    out.mkdir()
    assert _run(folder, out).status == "built"


def test_out_of_ours_without_its_record_is_rebuilt(folder, out):
    _run(folder, out)
    (out / "dataset.json").unlink()
    assert _run(folder, out).status == "built"


def test_second_writer_is_refused_at_once(folder, out):
    with (
        files.locked(out.with_name("out.incomplete")),
        pytest.raises(TransientError, match="another mmprep run"),
    ):
        _run(folder, out)


def test_second_writer_waits_as_long_as_it_is_told(folder, out):
    held, free = threading.Event(), threading.Event()

    def hold():
        with files.locked(out.with_name("out.incomplete")):
            held.set()
            free.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(10)
    threading.Timer(0.2, free.set).start()
    assert _run(folder, out, lock_wait_s=30).status == "built"
    holder.join()


def test_input_that_changes_while_it_is_read_fails(folder, out, monkeypatch):
    original = base._stamp_now

    def later(path):
        stamp = original(path)
        return None if path.endswith("c.txt") else stamp

    monkeypatch.setattr(base, "_stamp_now", later)
    with pytest.raises(FailedItemsError) as caught:
        _run(folder, out)
    assert "changed while it was read" in caught.value.failures[0].message


def test_exchange_by_two_renames_where_the_kernel_has_none(folder, out, monkeypatch):
    _run(folder, out)
    monkeypatch.setattr(files, "_renameat2", lambda new, old: False)
    (folder / "b.txt").write_text("new")
    _run(folder, out)
    assert (out / "tables/b").read_text() == "NEW"
    assert sorted(path.name for path in out.parent.iterdir()) == ["in", "out"]


@pytest.mark.parametrize("text", ["x", "1.5", "%", "nan%"])
def test_max_failures_that_is_no_number_is_refused(text):
    with pytest.raises(UsageError, match="no count"):
        base.allowed_failures(text, 10)


@pytest.mark.kill
@pytest.mark.parametrize("rebuild", [False, True])
def test_killed_at_any_file_event_the_next_run_ends_with_the_same_bytes(folder, memory, rebuild):
    out = memory / "out"
    reference = out.with_name("reference")
    _run(folder, reference)
    wanted, old = tree(reference), None
    for k in range(1, 400):
        files.remove_tree(out)
        files.remove_tree(out.with_name("out.incomplete"))
        if rebuild:
            (folder / "d.txt").write_text("old")
            _run(folder, out)
            (folder / "d.txt").unlink()
            old = tree(out)
        code = run_killed_at(k, out, lambda: _run(folder, out) and 0)
        _whole_or_absent(out, wanted, old)
        _run(folder, out)
        assert tree(out) == wanted
        if code == 0:
            break
    assert k > 30
    assert code == 0


def _whole_or_absent(out: Path, new: dict[str, bytes], old: dict[str, bytes] | None) -> None:
    if (out / "dataset.json").exists():
        assert tree(out) in (new, old)
    else:
        assert old is None
