"""The files of a data set in a folder."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pytest

from mmprep import tables
from mmprep.errors import DataError
from mmprep.manifest.folder import Folder
from mmprep.manifest.validate import Header


def test_names_are_all_files_with_forward_slashes(tmp_path):
    for name in ("b/c.npy", "a.json", ".mmprep/run.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert sorted(Folder(tmp_path).names()) == [".mmprep/run.json", "a.json", "b/c.npy"]


def test_is_inside_follows_links(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "out.txt").symlink_to(tmp_path / "x")
    (tmp_path / "in" / "here.txt").symlink_to(tmp_path / "in" / "y")
    folder = Folder(tmp_path / "in")
    assert not folder.is_inside("out.txt")
    assert folder.is_inside("here.txt")


def test_n_bytes_of_a_folder_or_nothing_is_none(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "f").write_bytes(b"abc")
    assert [Folder(tmp_path).n_bytes(name) for name in ("d", "e", "f")] == [None, None, 3]


def test_sha256_is_that_of_the_bytes(tmp_path):
    (tmp_path / "f").write_bytes(b"abc")
    assert Folder(tmp_path).sha256("f") == hashlib.sha256(b"abc").hexdigest()


def test_header_gives_type_and_shape(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((3, 2), np.float32))
    assert Folder(tmp_path).header("a.npy") == Header("<f4", (3, 2))


def test_header_when_the_file_is_cut_then_an_error(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((3, 2), np.float32))
    (tmp_path / "a.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-1])
    with pytest.raises(DataError, match="1 bytes short"):
        Folder(tmp_path).header("a.npy")


def test_header_when_objects_are_in_it_then_an_error(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(DataError, match="not plain numbers"):
        Folder(tmp_path).header("a.npy")


def test_table_rows_when_it_is_no_table_then_an_error(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match="cannot be read"):
        Folder(tmp_path).table_rows("a.parquet")


def test_table_rows_counts_the_rows_of_a_table(tmp_path):
    schema = tables.TableSchema((tables.Column("a", "int64"),), tables.TimeColumn("ns"))
    writer = tables.TableWriter(tmp_path / "a.parquet", schema, item_id="a")
    writer.add(np.arange(5), None, {"a": pa.array(range(5))})
    writer.close()
    assert Folder(tmp_path).table_rows("a.parquet") == 5


def test_n_lines_counts_newlines(tmp_path):
    (tmp_path / "f").write_bytes(b"a\nb\n")
    assert Folder(tmp_path).n_lines("f") == 2
