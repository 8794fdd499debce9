"""Bytes on disk: hashes, whole writes, exchanges, locks, what make reads, names below a root."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import signal
import subprocess
from pathlib import Path, PurePosixPath

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from mmprep import files
from mmprep.errors import DataError, SpaceError, TransientError, UsageError


def test_digest_is_xxh3_of_all_bytes(tmp_path):
    data = os.urandom(3 * files.BLOCK_BYTES + 17)
    (tmp_path / "x").write_bytes(data)
    assert files.digest(tmp_path / "x") == f"xxh3_128:{xxhash.xxh3_128_hexdigest(data)}"


def test_sha256_is_that_of_all_bytes(tmp_path):
    data = os.urandom(files.BLOCK_BYTES + 1)
    (tmp_path / "x").write_bytes(data)
    assert files.sha256(tmp_path / "x") == hashlib.sha256(data).hexdigest()


def test_stamp_tells_a_replaced_file_of_the_same_size_and_time(tmp_path):
    for name in "ab":
        (tmp_path / name).write_text("same")
        os.utime(tmp_path / name, (7, 7))
    before = files.stamp(tmp_path / "a")
    (tmp_path / "b").replace(tmp_path / "a")
    assert files.stamp(tmp_path / "a") != before


# Whole writes


def test_write_whole_replaces_and_leaves_nothing_beside(tmp_path):
    (tmp_path / "x").write_text("old")
    files.write_whole(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_write_whole_that_fails_on_the_way_keeps_what_was_there(tmp_path, monkeypatch):
    def fail(descriptor, path):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    (tmp_path / "x").write_text("old")
    monkeypatch.setattr(files, "_sync_file", fail)
    with pytest.raises(OSError, match="No space"):
        files.write_whole(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_text() == "old"


def test_storage_error_of_a_full_disk_says_what_is_free(tmp_path):
    error = files.storage_error(OSError(errno.ENOSPC, "No space left"), tmp_path)
    assert type(error) is SpaceError
    assert "bytes free" in str(error)


def test_storage_error_of_another_kind_is_worth_a_retry(tmp_path):
    assert type(files.storage_error(OSError(errno.EIO, "I/O"), tmp_path)) is TransientError


def test_link_shares_the_file(tmp_path):
    (tmp_path / "x").write_text("x")
    files.link(tmp_path / "x", tmp_path / "deep/er/y")
    assert (tmp_path / "deep/er/y").samefile(tmp_path / "x")


def test_link_copies_where_there_are_no_links(tmp_path, monkeypatch):
    def refuse(source, target):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    (tmp_path / "x").write_text("x")
    monkeypatch.setattr(os, "link", refuse)
    files.link(tmp_path / "x", tmp_path / "y")
    assert (tmp_path / "y").read_text() == "x"


def test_link_to_a_full_disk_is_not_tried_as_a_copy(tmp_path, monkeypatch):
    def refuse(source, target):
        raise OSError(errno.ENOSPC, "No space left")

    (tmp_path / "x").write_text("x")
    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(OSError, match="No space"):
        files.link(tmp_path / "x", tmp_path / "y")


# Exchange


@pytest.mark.parametrize("has_exchange", [True, False])
def test_exchange_swaps_two_folders(tmp_path, monkeypatch, has_exchange):
    if not has_exchange:
        monkeypatch.setattr(files, "_renameat2", lambda new, old: False)
    for name in ("new", "old"):
        files.write_new(tmp_path / name / "f", name.encode())
    files.exchange(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "old/f").read_text() == "new"
    assert (tmp_path / "new/f").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old"]


def test_exchange_with_nothing_fails_and_keeps_the_new(tmp_path):
    files.write_new(tmp_path / "new/f", b"new")
    with pytest.raises(FileNotFoundError):
        files.exchange(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "new/f").read_text() == "new"


def test_remove_tree_removes_a_link_and_not_what_it_leads_to(tmp_path):
    files.write_new(tmp_path / "kept/f", b"x")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    files.remove_tree(tmp_path / "link")
    assert (tmp_path / "kept/f").exists()
    assert not (tmp_path / "link").is_symlink()


# Locks


def test_hold_is_refused_while_another_holds(tmp_path):
    with files.locked(tmp_path / "x"):
        with pytest.raises(TransientError, match="another mmprep run") as caught:
            files.hold(tmp_path / "x")
        assert "--lock-wait" in caught.value.hint
    os.close(files.hold(tmp_path / "x"))


def test_hold_follows_the_folder_through_a_rename(tmp_path):
    descriptor = files.hold(tmp_path / "x")
    (tmp_path / "x").rename(tmp_path / "y")
    with pytest.raises(TransientError):
        files.hold(tmp_path / "y")
    os.close(files.hold(tmp_path / "x"))
    os.close(descriptor)


def test_hold_of_a_killed_process_is_free(tmp_path):
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        files.hold(tmp_path / "x")
        os.write(write_end, b"held")
        signal.pause()
    os.read(read_end, 4)
    with pytest.raises(TransientError):
        files.hold(tmp_path / "x")
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(files.hold(tmp_path / "x"))
    os.close(read_end)
    os.close(write_end)


# What make reads

NAMES = ["a b", "a#b", "a$b", "a$(b", "a:b", "a\\b", "a\\ b", "a[b]", "a*b", "a?b", "~a", "a'b"]
NAMES += ['a"b', "语音", "-a", "@a", "(a)", "a,b", "a!b", "a&b", "..a", "a  b", "a$$b", "a{b}"]
NAMES += ["a=b", "a\\#b", "a\\:b"]


def _make(folder: Path) -> int:
    return subprocess.run(["make", "-q"], cwd=folder, capture_output=True, check=False).returncode


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("name", NAMES)
def test_make_reads_a_name_in_the_depfile_as_it_is(tmp_path, name):
    (tmp_path / "Makefile").write_text("out/dataset.json:\n\t@touch $@\ninclude x.d\n")
    (tmp_path / "x.d").write_text(files.depfile("out/dataset.json", [name]))
    files.write_new(tmp_path / "out/dataset.json", b"")
    (tmp_path / name).write_text("")
    os.utime(tmp_path / name, (100, 100))
    os.utime(tmp_path / "out/dataset.json", (200, 200))
    assert _make(tmp_path) == 0
    os.utime(tmp_path / name, (300, 300))
    assert _make(tmp_path) == 1
    (tmp_path / name).unlink()
    assert _make(tmp_path) == 1


@pytest.mark.parametrize("name", ["a;b", "a|b", "a%b", "a\tb", "a\nb", "a\\", "a$(b)"])
def test_depfile_leaves_out_a_name_that_make_cannot_hold(name):
    assert files.depfile("o/r", ["a", name]) == "o/r: a\na:\n"


@pytest.mark.parametrize("name", ["a/b.c", "语音/x", "P01/V01"])
def test_portable_keeps_an_ordinary_name(name):
    assert files.portable(name) == name


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("P:1/e*?.x", "P=3A1/e=2A=3F.x"),
        ("a=3A", "a=3D3A"),
        ("aux/con.x", "=61ux/=63on.x"),
        ("end./x ", "end=2E/x=20"),
    ],
)
def test_portable_escapes_what_windows_refuses(name, escaped):
    assert files.portable(name) == escaped


def test_depfile_names_each_input_once():
    assert files.depfile("o/r", ["a", "b", "a"]) == "o/r: a b\na:\nb:\n"


# Names


def test_below_names_a_file_with_slashes(tmp_path):
    assert files.below(tmp_path / "a/../b/c", tmp_path) == "b/c"


def test_below_refuses_a_file_outside(tmp_path):
    with pytest.raises(UsageError, match="not below the root") as caught:
        files.below("/elsewhere/x", tmp_path)
    assert "--root" in caught.value.hint


@given(st.text(st.sampled_from(list("ab./\\~:\0 语")), max_size=12))
def test_inside_gives_a_path_below_the_root_or_refuses(name):
    root = Path("/nowhere/root")
    try:
        path = files.inside(root, name)
    except DataError:
        return
    assert path.resolve().is_relative_to(root)
    assert os.path.normpath(f"{root}/{name}") == os.path.normpath(path)


@given(st.lists(st.text("ab.语 ", min_size=1).filter(lambda part: set(part) != {"."}), min_size=1))
def test_inside_takes_every_plain_name(parts):
    root = Path("/nowhere/root")
    assert files.inside(root, "/".join(parts)) == root.joinpath(*parts)


@pytest.mark.parametrize(
    "name", ["", "/etc/passwd", "../x", "a/../../x", "~/x", "s3://b/x", "a\\b"]
)
def test_inside_refuses(tmp_path, name):
    with pytest.raises(DataError, match="not a path below"):
        files.inside(tmp_path, name)


def test_inside_refuses_a_link_that_leads_out(tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "root/link").symlink_to(tmp_path)
    with pytest.raises(DataError, match="leads out"):
        files.inside(tmp_path / "root", "link/x")


@pytest.mark.parametrize(
    "name", ["a.wav", "d.x/a", "d/.hidden", "d/a.", "a.tar.gz", "d.x/a.B", "", "a b.c d", ".a.b"]
)
def test_last_suffix_is_that_of_pathlib(name):
    assert files.last_suffix(name) == PurePosixPath(name).suffix


@pytest.mark.parametrize("root", ["/", "/a", "/a/b c"])
def test_joined_names_are_those_of_pathlib(root):
    assert (
        files.join(Path(root), "d/e.wav")
        == files.join(root, "d/e.wav")
        == f"{Path(root) / 'd/e.wav'}"
    )


def test_sync_that_is_begun_early_changes_no_byte(tmp_path):
    path = tmp_path / "a"
    with path.open("wb", buffering=0) as file:
        file.write(b"abc")
        files.begin_sync(file.fileno())
    assert path.read_bytes() == b"abc"


def test_no_early_sync_without_the_call(monkeypatch):
    monkeypatch.setattr(files, "_c_library", lambda: None)
    files.begin_sync(-1)
