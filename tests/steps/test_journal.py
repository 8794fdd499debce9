"""The journal of finished tasks."""

from __future__ import annotations

import os

import pytest

from mmprep import files
from mmprep.steps.running import journal
from mmprep.steps.running.tasks import Failure, Item, Outcome, Task

TASK = Task("a", (Item("a", ("/in/a",), 4, {"k": 1}, "a"),), {"x": 2})


def _entry(key="k1", **changes):
    value = {"files": [["tables/a", 3, "h"]]}
    return journal.Entry(key, {"/in/a": journal.InputNote(4, 5, 6, "d")}, value, **changes)


def test_entries_come_back_as_they_were(tmp_path):
    failure = Failure("a", "a", "read", "DataError", "is bad", hint="mend it")
    entries = [_entry("k1"), _entry("k2", failures=(failure,))]
    for entry in entries:
        journal.append(tmp_path / "j", entry)
    assert journal.read(tmp_path / "j") == {"k1": entries[0], "k2": entries[1]}
    assert (tmp_path / "j").read_bytes() == journal.encode(entries)


def test_journal_cut_anywhere_gives_the_whole_lines_before_the_cut(tmp_path):
    data = journal.encode([_entry("k1"), _entry("k2")])
    first = data.index(b"\n") + 1
    for n in range(len(data) + 1):
        (tmp_path / "j").write_bytes(data[:n])
        assert list(journal.read(tmp_path / "j")) == ["k1", "k2"][: (n >= first) + (n == len(data))]


def test_line_that_is_none_of_ours_is_passed_over(tmp_path):
    (tmp_path / "j").write_bytes(b"{}\n\xff\n" + journal.encode([_entry("k1")]))
    assert list(journal.read(tmp_path / "j")) == ["k1"]


def test_last_entry_of_a_key_counts(tmp_path):
    (tmp_path / "j").write_bytes(journal.encode([_entry("k1"), _entry("k1", failures=())]))
    assert len(journal.read(tmp_path / "j")) == 1


@pytest.mark.parametrize("name", ["none", "file/none"])
def test_journal_that_is_missing_is_empty(tmp_path, name):
    (tmp_path / "file").write_text("")
    assert journal.read(tmp_path / name) == {}


def test_key_depends_on_options_items_and_specs_not_on_sizes():
    from dataclasses import replace

    key = journal.task_key({"step": "s"}, TASK)
    item = TASK.items[0]
    assert journal.task_key({"step": "s"}, replace(TASK, folder="/elsewhere")) == key
    assert journal.task_key({"step": "s"}, replace(TASK, items=(replace(item, n_bytes=9),))) == key
    others = [
        journal.task_key({"step": "t"}, TASK),
        journal.task_key({"step": "s"}, replace(TASK, spec={"x": 3})),
        journal.task_key({"step": "s"}, replace(TASK, items=(replace(item, spec={"k": 2}),))),
        journal.task_key({"step": "s"}, replace(TASK, items=(replace(item, source="b"),))),
    ]
    assert len({key, *others}) == 5


def test_key_does_not_depend_on_the_order_of_a_spec():
    task = Task("a", (), {"x": 1, "y": 2})
    assert journal.task_key({}, task) == journal.task_key({}, Task("a", (), {"y": 2, "x": 1}))


@pytest.fixture
def known(tmp_path):
    """A file and its entry."""
    path = tmp_path / "a"
    path.write_text("text")
    stamps = {str(path): files.stamp(path)}
    outcome = Outcome("k", None, digests={str(path): files.digest(path)})
    return path, journal.entry_of("k", outcome, stamps)


def _unchanged(path, entry, *, verify=False):
    return journal.unchanged(entry, {str(path): files.stamp(path)}, verify=verify)


def test_input_as_it_was_is_unchanged(known):
    assert _unchanged(*known) == known[1].inputs


def test_touched_input_is_unchanged_and_has_its_new_time(known):
    path, entry = known
    os.utime(path, (9, 9))
    assert _unchanged(path, entry)[str(path)].mtime_ns == 9 * 10**9


def test_other_content_is_changed(known):
    path, entry = known
    path.write_text("TEXT")
    assert _unchanged(path, entry) is None


def test_other_content_of_the_same_stamp_is_found_only_by_verifying(known):
    path, entry = known
    stamp = path.stat()
    path.write_text("TEXT")
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert _unchanged(path, entry) is not None
    assert _unchanged(path, entry, verify=True) is None


def test_other_set_of_inputs_is_changed(known):
    assert journal.unchanged(known[1], {}, verify=False) is None


@pytest.mark.parametrize(("published", "believed"), [(True, True), (False, False)])
def test_file_of_the_same_size_is_believed_only_if_published(tmp_path, published, believed):
    entry = _entry("k1")
    ledger = journal.Ledger(tmp_path, published=published, entries={"k1": entry})
    path = ledger.place("k1", journal.FileNote("tables/a", 3, "h"))
    path.parent.mkdir(parents=True)
    path.write_text("abc")
    assert ledger.holds("k1") is believed
    path.write_text("abcd")
    assert not ledger.holds("k1")


@pytest.mark.parametrize("torn", [b"", b'{"key": "k2", "inp'])
def test_entry_after_a_torn_line_is_read(tmp_path, torn):
    (tmp_path / "j").write_bytes(journal.encode([_entry("k1")]) + torn)
    journal.mend(tmp_path / "j")
    journal.append(tmp_path / "j", _entry("k3"))
    assert list(journal.read(tmp_path / "j")) == ["k1", "k3"]


def test_missing_journal_needs_no_mending(tmp_path):
    journal.mend(tmp_path / "j")
    assert not (tmp_path / "j").exists()
