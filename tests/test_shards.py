"""Shards: planned, appended, opened."""

from __future__ import annotations

import errno
import hashlib
import multiprocessing
import os
import pickle
import resource
import signal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib import format as npy

from mmprep.errors import DataError, SpaceError, UsageError
from mmprep.shards import (
    FIRST_LIMIT,
    SHARD_SIZE,
    ShardFiles,
    ShardWriter,
    open_shard,
    plan_shards,
    shard_limit,
)

MIB = 1 << 20


def make(path, rows, row_shape=None):
    array = np.asarray(rows)
    with ShardWriter(path, array.dtype, array.shape[1:] if row_shape is None else row_shape) as out:
        out.write(array)
    return out.shard


def n_descriptors():
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


def with_header(path, text, data=b""):
    body = text.encode().ljust(117) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body + data)
    return path


def test_limit_doubles_every_64_shards_up_to_the_size():
    assert [shard_limit(k) for k in (0, 63, 64, 128)] == [4 * MIB, 4 * MIB, 8 * MIB, 16 * MIB]
    assert shard_limit(10**9) == SHARD_SIZE


def test_limit_of_a_small_shard_size_is_that_size():
    assert shard_limit(0, 1000) == 1000


def test_plan_puts_an_item_over_the_limit_alone():
    assert plan_shards([5, 99, 5], 10) == [range(0, 1), range(1, 2), range(2, 3)]


def test_plan_fills_a_shard_to_the_byte():
    assert plan_shards([5, 5, 1], 10) == [range(0, 2), range(2, 3)]


def test_plan_of_nothing_is_empty():
    assert plan_shards([]) == []


def test_plan_refuses_a_size_of_zero():
    with pytest.raises(UsageError, match="not positive"):
        plan_shards([1], 0)


def slow_plan(sizes, shard_size):
    shards, k = [[]], 0
    for index, size in enumerate(sizes):
        limit = min(shard_size, FIRST_LIMIT * 2 ** (k // 64))
        if shards[-1] and sum(sizes[i] for i in shards[-1]) + size > limit:
            shards.append([])
            k += 1
        shards[-1].append(index)
    return [s for s in shards if s]


@given(st.lists(st.integers(0, 3 * MIB), max_size=200), st.integers(1, 8 * MIB))
def test_plan_agrees_with_the_rule_spelt_out(sizes, shard_size):
    assert [list(part) for part in plan_shards(sizes, shard_size)] == slow_plan(sizes, shard_size)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "int32", "bool", "uint8"])
@pytest.mark.parametrize("row_shape", [(), (3,), (4, 2, 1)])
def test_shard_loads_with_numpy(tmp_path, dtype, row_shape):
    rows = np.arange(5 * int(np.prod(row_shape))).reshape(5, *row_shape).astype(dtype)
    shard = make(tmp_path / "s.npy", rows)
    loaded = np.load(shard.path, mmap_mode="r")
    np.testing.assert_array_equal(loaded, rows)
    assert (loaded.dtype, shard.n_rows, shard.row_shape) == (rows.dtype, 5, row_shape)


def test_header_is_npy_1_0_aligned_to_64(tmp_path):
    with make(tmp_path / "s.npy", np.ones((7, 2), "f4")).path.open("rb") as file:
        assert npy.read_magic(file) == (1, 0)
        assert npy.read_array_header_1_0(file) == ((7, 2), False, np.dtype("<f4"))
        assert file.tell() % 64 == 0


def test_header_of_many_axes_grows_by_64(tmp_path):
    shape = (1,) * 30
    shard = make(tmp_path / "s.npy", np.ones((2, *shape), "f4"))
    assert np.load(shard.path, mmap_mode="r").shape == (2, *shape)


def test_big_endian_rows_are_stored_little_endian(tmp_path):
    shard = make(tmp_path / "s.npy", np.array([1, 2], ">f4"))
    assert shard.dtype == "<f4"
    assert np.load(shard.path).tolist() == [1, 2]


def test_fortran_rows_are_stored_in_c_order(tmp_path):
    rows = np.asfortranarray(np.arange(12, dtype="f4").reshape(3, 4))
    assert np.load(make(tmp_path / "s.npy", rows).path).tolist() == rows.tolist()


def test_appends_return_their_rows_and_join(tmp_path):
    with ShardWriter(tmp_path / "s.npy", "float32") as writer:
        assert writer.write(np.zeros(3, "f4")) == (0, 3)
        assert writer.write(np.zeros(0, "f4")) == (3, 3)
        assert writer.write(np.ones(2, "f4")) == (3, 5)
    assert np.load(writer.shard.path).tolist() == [0, 0, 0, 1, 1]


def test_digest_and_size_are_those_of_the_file(tmp_path):
    shard = make(tmp_path / "s.npy", np.ones(1000, "f4"))
    data = shard.path.read_bytes()
    assert (shard.sha256, shard.n_bytes) == (hashlib.sha256(data).hexdigest(), len(data))


def test_bytes_do_not_depend_on_how_rows_were_appended(tmp_path):
    whole = make(tmp_path / "a.npy", np.arange(9, dtype="f4"))
    with ShardWriter(tmp_path / "b.npy", "f4") as writer:
        for value in range(9):
            writer.write(np.array([value], "f4"))
    assert writer.shard.sha256 == whole.sha256


def test_writer_refuses_another_row_shape(tmp_path):
    bad = pytest.raises(DataError, match=r"rows of shape \(3,\) in a shard of \(2,\)")
    with ShardWriter(tmp_path / "s.npy", "f4", (2,)) as writer, bad:
        writer.write(np.zeros((1, 3), "f4"))


def test_writer_refuses_floats_in_a_shard_of_integers(tmp_path):
    bad = pytest.raises(DataError, match="float32 in a shard of int16")
    with ShardWriter(tmp_path / "s.npy", "i2") as writer, bad:
        writer.write(np.zeros(1, "f4"))


def test_writer_refuses_objects(tmp_path):
    with pytest.raises(DataError, match="cannot hold object"):
        ShardWriter(tmp_path / "s.npy", object)


def test_writer_removes_its_file_when_the_block_fails(tmp_path):
    with pytest.raises(KeyError), ShardWriter(tmp_path / "s.npy", "f4"):
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_writer_leaves_a_hard_linked_twin_alone(tmp_path):
    make(tmp_path / "old.npy", np.ones(3, "f4"))
    os.link(tmp_path / "old.npy", tmp_path / "s.npy")
    make(tmp_path / "s.npy", np.zeros(3, "f4"))
    assert np.load(tmp_path / "old.npy").tolist() == [1, 1, 1]


def test_writer_in_a_missing_folder_names_it(tmp_path):
    with pytest.raises(DataError, match=r"s\.npy: cannot be written: No such file"):
        ShardWriter(tmp_path / "gone" / "s.npy", "f4")


def test_shard_of_an_open_writer_is_refused(tmp_path):
    bad = pytest.raises(UsageError, match="still open")
    with ShardWriter(tmp_path / "s.npy", "f4") as writer, bad:
        _ = writer.shard


def test_full_disk_is_a_space_error(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    writer = ShardWriter(tmp_path / "s.npy", "f4")
    with monkeypatch.context() as patch:
        patch.setattr(writer, "_file", type("Full", (), {"write": full})())
        with pytest.raises(SpaceError, match="No space left"):
            writer.write(np.zeros(9, "f4"))
    writer.abandon()


def _write_over_limit(path, answer):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    try:
        make(path, np.zeros(1 << 20, "f4"))
    except SpaceError as error:
        answer.put(str(error))


def test_file_size_limit_is_a_space_error_and_leaves_no_file(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    answer = spawn.Queue()
    child = spawn.Process(target=_write_over_limit, args=(tmp_path / "s.npy", answer))
    child.start()
    assert "File too large" in answer.get(timeout=60)
    child.join()
    assert list(tmp_path.iterdir()) == []


def test_open_gives_a_read_only_map(tmp_path):
    shard = open_shard(make(tmp_path / "s.npy", np.arange(4, dtype="f4")).path)
    assert isinstance(shard, np.memmap)
    assert not shard.flags.writeable


@pytest.mark.parametrize("row_shape", [(), (3,)])
def test_shard_without_rows_opens_as_an_empty_array(tmp_path, row_shape):
    shard = make(tmp_path / "s.npy", np.zeros((0, *row_shape), "f4"))
    assert open_shard(shard.path).shape == (0, *row_shape)
    assert np.load(shard.path).shape == (0, *row_shape)


@pytest.mark.parametrize("lost", [1, 16, 100])
def test_cut_shard_says_how_many_bytes_are_missing(tmp_path, lost):
    shard = make(tmp_path / "s.npy", np.arange(64, dtype="f4"))
    os.truncate(shard.path, shard.n_bytes - lost)
    with pytest.raises(DataError, match=rf"s\.npy: shard is {lost} bytes short"):
        open_shard(shard.path)


def test_shard_cut_anywhere_is_refused(tmp_path):
    data = make(tmp_path / "s.npy", np.arange(8, dtype="f4")).path.read_bytes()
    for size in range(len(data)):
        (tmp_path / "cut.npy").write_bytes(data[:size])
        with pytest.raises(DataError, match=r"short|not an"):
            open_shard(tmp_path / "cut.npy")


def test_shard_with_bytes_behind_is_refused(tmp_path):
    shard = make(tmp_path / "s.npy", np.arange(4, dtype="f4"))
    with shard.path.open("ab") as file:
        file.write(b"xy")
    with pytest.raises(DataError, match="shard is 2 bytes too long"):
        open_shard(shard.path)


def test_unfinished_shard_is_refused(tmp_path):
    writer = ShardWriter(tmp_path / "s.npy", "f4")
    writer.write(np.zeros(5, "f4"))
    with pytest.raises(DataError, match="20 bytes too long"):
        open_shard(writer.path)
    writer.abandon()


@pytest.mark.parametrize("shape", ["(9223372036854775807,)", "(1000000000000, 1000)"])
def test_header_that_claims_too_much_is_refused_before_allocation(tmp_path, shape):
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}"
    with pytest.raises(DataError, match="bytes short"):
        open_shard(with_header(tmp_path / "s.npy", text))


@pytest.mark.parametrize(
    ("descr", "order", "shape"),
    [
        ("'<f4'", "True", "(1, 2)"),
        ("'<f4'", "False", "()"),
        ("'<f4'", "False", "(-1,)"),
        ("'<f4'", "False", "(True,)"),
        ("'<f4'", "False", "'x'"),
    ],
)
def test_header_of_a_bad_shape_is_refused(tmp_path, descr, order, shape):
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}}}"
    with pytest.raises(DataError, match="not one of rows in C order"):
        open_shard(with_header(tmp_path / "s.npy", text, b"\0" * 8))


@pytest.mark.parametrize("descr", ["'|O'", "[('a', '<f4')]", "'<U3'"])
def test_objects_and_records_are_refused(tmp_path, descr):
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': (1,)}}"
    with pytest.raises(DataError, match="not plain numbers"):
        open_shard(with_header(tmp_path / "s.npy", text, b"\0" * 8))


@pytest.mark.parametrize("text", ["", "{", "{'descr': '<f4'}", "__import__('os')", "(" * 60])
def test_header_that_is_no_header_is_refused(tmp_path, text):
    with pytest.raises(DataError, match="header cannot be read"):
        open_shard(with_header(tmp_path / "s.npy", text))


def test_raw_floats_are_not_a_shard(shared):
    with pytest.raises(DataError, match=r"not an \.npy 1\.0 file"):
        open_shard(shared("made/B17/shard-000.f32"))


def test_missing_shard_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="no such shard"):
        open_shard(tmp_path / "gone.npy")


def test_files_holds_at_most_max_open_and_drops_the_oldest(tmp_path):
    paths = [make(tmp_path / f"{k}.npy", np.full(2, k, "f4")).path for k in range(4)]
    files = ShardFiles(max_open=2)
    first = files.open(paths[0])
    files.open(paths[1])
    assert files.open(paths[0]) is first
    files.open(paths[2])
    assert files.open(paths[0]) is first
    assert len(files) == 2


def test_files_reads_many_shards_with_few_descriptors(tmp_path):
    paths = [make(tmp_path / f"{k}.npy", np.full(2, k, "f4")).path for k in range(300)]
    before = n_descriptors()
    files = ShardFiles(max_open=8)
    assert [float(files.open(path)[1]) for path in paths] == list(range(300))
    assert n_descriptors() - before <= 8


def test_files_closes_the_map_on_eviction(tmp_path):
    paths = [make(tmp_path / f"{k}.npy", np.zeros(2, "f4")).path for k in range(2)]
    files = ShardFiles(max_open=1)
    mapped = files.open(paths[0])._mmap
    files.open(paths[1])
    mapped.close()  # would raise BufferError if a view of it were still held


def test_files_pickle_carries_no_data(tmp_path):
    files = ShardFiles(max_open=3)
    path = make(tmp_path / "s.npy", np.zeros(1 << 20, "f4")).path
    files.open(path)
    data = pickle.dumps(files)
    assert len(data) < 200
    assert len(pickle.loads(data)) == 0


def test_files_after_a_fork_opens_its_own(tmp_path, monkeypatch):
    path = make(tmp_path / "s.npy", np.zeros(2, "f4")).path
    files = ShardFiles()
    before = files.open(path)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert files.open(path) is not before


def test_files_refuses_to_hold_none():
    with pytest.raises(UsageError, match="too few"):
        ShardFiles(max_open=0)
