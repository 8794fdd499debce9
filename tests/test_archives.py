"""Archives: members as the files of a folder, and nothing believed that the archive says."""

from __future__ import annotations

import gzip
import io
import os
import random
import struct
import tarfile
import zipfile
import zlib

import pytest

from mmprep import archives, files
from mmprep.errors import DataError
from tests.packed import KINDS, ZIP_METHODS, central, pack, pack_tar, patch, plain

LONG = b"".join(b"%d\n" % (k * k) for k in range(60_000))
MEMBERS = {
    "b/2.tsv": b"two",
    "./b/1.tsv": LONG,
    "z.csv": b"",
    "a/deep/3.tsv": os.urandom(70_000),
    ".hidden": b"x",
    "b/.git/x.tsv": b"x",
    "__MACOSX/._z.csv": b"x",
}
NAMES = ["z.csv", "a/deep/3.tsv", "b/1.tsv", "b/2.tsv"]


def relative(paths, archive):
    return [path.removeprefix(f"{archive}/") for path in paths]


def read(path):
    with files.open_input(path) as file:
        return file.read()


@pytest.mark.parametrize("kind", KINDS)
def test_members_come_in_the_order_of_a_walk_without_hidden_ones(tmp_path, kind):
    archive = pack(tmp_path / f"x{kind}", MEMBERS)
    assert relative(files.members(archive), archive) == NAMES
    assert files.names_in(archive) == ["z.csv"]
    assert files.names_in(archive / "b") == ["1.tsv", "2.tsv"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_member_reads_as_its_file(tmp_path, kind):
    archive = pack(tmp_path / f"x{kind}", MEMBERS)
    for name in NAMES:
        data = MEMBERS.get(name, MEMBERS.get(f"./{name}"))
        assert read(archive / name) == data
        assert files.stamp(archive / name).n_bytes == len(data)
        (tmp_path / "plain").write_bytes(data)
        assert files.digest(archive / name) == files.digest(tmp_path / "plain")


@pytest.mark.parametrize("method", ZIP_METHODS)
def test_a_member_reads_as_its_file_by_every_method_of_zip(tmp_path, method):
    archive = pack(tmp_path / "x.zip", {"a": LONG}, method=method)
    assert read(archive / "a") == LONG


@pytest.mark.parametrize("kind", KINDS)
def test_any_place_of_a_member_can_be_read(tmp_path, kind):
    rng = random.Random(0)
    large = {f"{k}": rng.randbytes(1 << 20) * 6 for k in range(2)}
    archive = pack(tmp_path / f"x{kind}", large)
    with files.open_input(archive / "0") as one, files.open_input(archive / "1") as other:
        for _ in range(40):
            name, file = rng.choice([("0", one), ("1", other)])
            begin, n = rng.randrange(6 << 20), rng.randrange(1 << 17)
            assert file.seek(begin) == begin
            assert file.read(n) == large[name][begin : begin + n]
        assert one.seek(-3, os.SEEK_END) == (6 << 20) - 3
        assert one.read() == large["0"][-3:]
        assert one.read() == b""


def test_going_back_in_deflated_data_does_not_begin_again(tmp_path):
    data = random.Random(0).randbytes(1 << 16) * 512
    archive = pack(tmp_path / "x.tar.gz", {"a": data})
    stamp = archives._stamp(str(archive))
    stream = archives._stream(str(archive), "gz", *stamp)
    files.members(archive)
    decoded = []
    stream._packed = Counted(stream._packed, decoded)
    for begin in (30 << 20, 20 << 20, 10 << 20):
        assert stream.read(begin, 10) == (bytes(512) + data)[begin : begin + 10]
    assert sum(decoded) < archive.stat().st_size / 2


class Counted:
    def __init__(self, source, n_bytes):
        self.source, self.n_bytes = source, n_bytes

    def read(self, begin, n_bytes):
        data = self.source.read(begin, n_bytes)
        self.n_bytes.append(len(data))
        return data


@pytest.mark.parametrize(
    ("kind", "order", "most"),
    [
        (".tar.gz", "as it is", 2.1),
        (".tar.gz", "mixed", 15),
        (".tar.bz2", "as it is", 2.1),
        (".tar.bz2", "mixed", 2.1),
    ],
)
def test_many_members_of_a_packed_tar_cost_a_few_passes(tmp_path, monkeypatch, kind, order, most):
    rng = random.Random(0)
    n_bytes = 200_000 if kind == ".tar.gz" else 40_000
    members = {f"{k:03d}.bin": rng.randbytes(n_bytes) for k in range(300)}
    archive = pack(tmp_path / f"x{kind}", members)
    n_read = []
    on_disk = archives._OnDisk
    monkeypatch.setattr(archives, "_OnDisk", lambda path: Counted(on_disk(path), n_read))
    names = list(members) if order == "as it is" else rng.sample(sorted(members), 300)
    for name in names:
        assert read(archive / name) == members[name]
    n_passes = sum(n_read) / archive.stat().st_size
    assert n_passes < most


def test_what_is_kept_of_a_packed_tar_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setitem(archives.RECENT_BYTES, "bz2", 100_000)
    rng = random.Random(0)
    members = {f"{k:02d}.bin": rng.randbytes(50_000) for k in range(20)}
    archive = pack(tmp_path / "x.tar.bz2", members)
    for name in rng.sample(sorted(members), 20):
        assert read(archive / name) == members[name]
    stream = archives._stream(str(archive), "bz2", *archives._stamp(str(archive)))
    assert 0 < sum(map(len, stream._recent.values())) == stream._n_kept <= 100_000


def test_several_packed_parts_are_one_tar(tmp_path):
    whole = pack(tmp_path / "x.tar", {"a": LONG, "b": b"end"}).read_bytes()
    parts = [gzip.compress(whole[:700]), gzip.compress(whole[700:]), bytes(512)]
    (tmp_path / "x.tar.gz").write_bytes(b"".join(parts))
    assert read(tmp_path / "x.tar.gz/a") == LONG
    assert read(tmp_path / "x.tar.gz/b") == b"end"


def test_zip64_and_long_names_are_read(tmp_path):
    name = "/".join(["folder" * 10] * 5) + "/名前.csv"
    with (
        zipfile.ZipFile(tmp_path / "x.zip", "w") as archive,
        archive.open(name, "w", force_zip64=True) as member,
    ):
        member.write(b"1")
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        pack_tar(tmp_path / f"{form}.tar", [plain(name, b"1")], format=form)
        assert read(tmp_path / f"{form}.tar" / name) == b"1"
    assert read(tmp_path / "x.zip" / name) == b"1"


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ("数据/心电.csv".encode("gb18030"), "数据/心电.csv"),
        ("数据/心电.csv".encode(), "数据/心电.csv"),
        ("café.csv".encode("cp437"), "café.csv"),
    ],
)
def test_names_of_a_zip_without_the_mark_of_utf_8(tmp_path, raw, name):
    archive = pack(tmp_path / "x.zip", {"q" * len(raw): b"1"})
    patch(archive, b"q" * len(raw), raw)
    assert relative(files.members(archive), archive) == [name]
    assert read(archive / name) == b"1"


def test_names_of_a_tar_that_are_not_utf_8(tmp_path):
    info, data = plain("数据.csv".encode("gb18030").decode("utf-8", "surrogateescape"), b"1")
    archive = pack_tar(tmp_path / "x.tar", [(info, data)], format=tarfile.GNU_FORMAT)
    assert relative(files.members(archive), archive) == ["数据.csv"]


def test_links_devices_and_folders_are_left_out(tmp_path):
    odd = []
    for name, kind in (
        ("l", b"2"),
        ("h", b"1"),
        ("c", b"3"),
        ("p", b"6"),
        ("d", b"5"),
        (".", b"5"),
    ):
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, "a.csv"
        odd.append((info, b""))
    archive = pack_tar(tmp_path / "x.tar", [plain("a.csv", b"1"), *odd])
    assert relative(files.members(archive), archive) == ["a.csv"]
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as made:
        link = zipfile.ZipInfo("link.csv")
        link.external_attr = 0o120777 << 16
        made.writestr(link, "/etc/passwd")
        made.writestr("d/", "")
        made.writestr("./", "")
    assert files.members(tmp_path / "x.zip") == []


def test_data_sets_of_mmprep_are_left_out(tmp_path):
    members = {
        "made/.mmprep/run.json": b"{}",
        "made/x.tsv": b"1",
        "made/t/y.tsv": b"1",
        "z.tsv": b"",
    }
    archive = pack(tmp_path / "x.zip", members)
    assert relative(files.members(archive), archive) == ["z.tsv"]


BAD_NAMES = ["../x", "a/../../x", "/etc/x", "a\\x", "C:/x", "a/.."]


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in (".zip", ".tar") for name in BAD_NAMES] + [(".zip", "a\0b")],
)
def test_a_name_that_leads_out_refuses_the_archive(tmp_path, kind, name):
    shown = name.replace("\0", "#")
    archive = pack(tmp_path / f"x{kind}", {"good.csv": b"1", shown: b"1"})
    if "\0" in name:
        patch(archive, shown.encode(), name.encode())
    with pytest.raises(DataError, match="no path below the archive") as caught:
        files.members(archive)
    assert repr(name) in str(caught.value)
    assert str(archive) == caught.value.where
    assert not files.is_folder(archive)
    assert files.is_file(archive)


@pytest.mark.parametrize("kind", [".zip", ".tar"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_occurs_twice_refuses_the_archive(tmp_path, kind):
    archive = pack(tmp_path / f"x{kind}", {"a/b.csv": b"1", "./a//b.csv": b"2"})
    with pytest.raises(DataError, match=r"'a/b\.csv' occurs twice"):
        files.members(archive)


@pytest.mark.parametrize("kind", [".zip", ".tar"])
def test_a_member_without_a_name_refuses_the_archive(tmp_path, kind):
    archive = pack(tmp_path / f"x{kind}", {"a": b"1", ".": b"2"})
    with pytest.raises(DataError, match="a member has no name"):
        files.members(archive)


def test_a_zip_with_an_empty_name_is_refused(tmp_path):
    archive = pack(tmp_path / "x.zip", {"a": b""})
    data = archive.read_bytes()
    place = data.rindex(b"PK\1\2")
    short = data[:place] + data[place : place + 28] + b"\0\0" + data[place + 30 : place + 46]
    end = data.rindex(b"PK\5\6")
    tail = data[end : end + 12] + struct.pack("<I", 46) + data[end + 16 :]
    archive.write_bytes(short + tail)
    with pytest.raises(DataError, match="a member has no name"):
        files.members(archive)


def test_encrypted_members_are_refused_one_by_one(tmp_path):
    archive = pack(tmp_path / "x.zip", {"a.csv": b"1", "secret.csv": b"2"})
    central(archive, 8, b"\1\0")
    assert read(archive / "a.csv") == b"1"
    with pytest.raises(DataError, match="is encrypted") as caught:
        read(archive / "secret.csv")
    assert caught.value.where == f"{archive}/secret.csv"


def test_an_unknown_method_is_refused(tmp_path):
    archive = central(pack(tmp_path / "x.zip", {"a.csv": b"1"}), 10, struct.pack("<H", 9))
    with pytest.raises(DataError, match=r"method that mmprep does not read \(9\)"):
        read(archive / "a.csv")


def test_sparse_members_are_refused(tmp_path):
    info = tarfile.TarInfo("a.csv")
    info.type = tarfile.GNUTYPE_SPARSE
    archive = pack_tar(tmp_path / "x.tar", [(info, b"")], format=tarfile.GNU_FORMAT)
    with pytest.raises(DataError, match="sparse"):
        read(archive / "a.csv")


@pytest.mark.parametrize("method", ["deflated", "bzip2"])
def test_a_member_with_more_than_it_declares_is_damaged(tmp_path, method):
    archive = pack(tmp_path / "bomb.zip", {"a.csv": bytes(50_000_000)}, method=method)
    central(archive, 16, struct.pack("<I", zlib.crc32(bytes(1000))))
    central(archive, 24, struct.pack("<I", 1000))
    with pytest.raises(DataError, match="holds more than the 1000 bytes declared") as caught:
        read(archive / "a.csv")
    assert caught.value.where == f"{archive}/a.csv"


@pytest.mark.parametrize("method", ZIP_METHODS)
def test_a_member_with_less_than_it_declares_is_damaged(tmp_path, method):
    archive = pack(tmp_path / "x.zip", {"a.csv": LONG}, method=method)
    central(archive, 24, struct.pack("<I", len(LONG) + 1))
    with pytest.raises(DataError, match=r"declared|damaged or cut"):
        read(archive / "a.csv")


@pytest.mark.parametrize("method", ZIP_METHODS)
def test_a_member_whose_checksum_differs_is_damaged(tmp_path, method):
    archive = pack(tmp_path / "x.zip", {"a.csv": LONG}, method=method)
    central(archive, 16, b"\0\0\0\0")
    with pytest.raises(DataError, match="its checksum differs"):
        read(archive / "a.csv")


def test_damage_in_one_member_leaves_the_others(tmp_path):
    archive = pack(tmp_path / "x.zip", {"a.csv": LONG, "b.csv": LONG + b"1"})
    data = bytearray(archive.read_bytes())
    data[5000:5100] = bytes(100)
    archive.write_bytes(data)
    with pytest.raises(DataError, match="damaged or cut"):
        read(archive / "a.csv")
    assert read(archive / "b.csv") == LONG + b"1"


def test_members_that_overlap_are_refused(tmp_path):
    archive = central(pack(tmp_path / "x.zip", {"a.csv": LONG, "b.csv": LONG}), 42, bytes(4))
    with pytest.raises(DataError, match="overlaps another"):
        files.members(archive)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.0, 0.001, 0.2, 0.5, 0.9, 0.999])
def test_a_cut_archive_is_refused_whole(tmp_path, kind, share):
    noise = random.Random(0)
    members = {f"{k}.bin": noise.randbytes(30_000) for k in range(20)}
    archive = pack(tmp_path / f"x{kind}", members)
    n_bytes = archive.stat().st_size - (10_240 if kind == ".tar" else 0)
    os.truncate(archive, int(n_bytes * share))
    with pytest.raises(DataError) as caught:
        files.members(archive)
    assert caught.value.where == str(archive)
    assert caught.value.hint


def test_a_tar_without_its_end_is_refused(tmp_path):
    archive = pack(tmp_path / "x.tar", {"a.csv": b"1"})
    os.truncate(archive, 1024)
    with pytest.raises(DataError, match="cut at byte 1024"):
        files.members(archive)


def test_a_wrong_checksum_of_a_packed_tar_refuses_it(tmp_path):
    archive = pack(tmp_path / "x.tar.gz", {"a.csv": LONG})
    archive.write_bytes(archive.read_bytes()[:-8] + bytes(8))
    with pytest.raises(DataError, match="the gz data are damaged or cut"):
        files.members(archive)


@pytest.mark.parametrize("kind", KINDS)
def test_another_file_of_that_name_is_refused(tmp_path, kind):
    (tmp_path / f"x{kind}").write_bytes(b"<html>not found</html>" * 100)
    with pytest.raises(DataError):
        files.members(tmp_path / f"x{kind}")


def test_a_header_of_gigabytes_is_refused(tmp_path):
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1 << 33
    (tmp_path / "x.tar").write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20))
    with pytest.raises(DataError, match="damaged or cut"):
        files.members(tmp_path / "x.tar")


def test_a_changed_archive_is_listed_again(tmp_path):
    archive = pack(tmp_path / "x.zip", {"a.csv": b"1"})
    before = files.stamp(archive / "a.csv")
    pack(archive, {"a.csv": b"2", "b.csv": b""})
    assert relative(files.members(archive), archive) == ["a.csv", "b.csv"]
    assert read(archive / "a.csv") == b"2"
    assert files.stamp(archive / "a.csv") != before


def test_a_member_that_is_not_there_is_an_error_of_the_system(tmp_path):
    archive = pack(tmp_path / "x.zip", {"a.csv": b"1"})
    for path in (archive / "b.csv", archive / "a.csv/c", tmp_path / "none.zip/b.csv"):
        assert not files.exists(path)
        with pytest.raises(OSError, match=r"c$|csv"):
            files.stamp(path)
        with pytest.raises(FileNotFoundError):
            files.open_input(path)


def test_an_archive_in_an_archive_is_a_file(tmp_path):
    inner = pack(tmp_path / "inner.zip", {"a.csv": b"1"}).read_bytes()
    archive = pack(tmp_path / "x.zip", {"inner.zip": inner})
    assert files.is_file(archive / "inner.zip")
    assert not files.is_folder(archive / "inner.zip")
    assert read(archive / "inner.zip") == inner


def test_a_folder_named_as_an_archive_is_a_folder(tmp_path):
    (tmp_path / "x.zip").mkdir()
    (tmp_path / "x.zip/a.csv").write_bytes(b"1")
    assert read(tmp_path / "x.zip/a.csv") == b"1"
    assert not files.is_member(tmp_path / "x.zip/a.csv")
    assert files.plain_name(tmp_path, "x.zip/a.csv") == "x.zip/a.csv"


def test_plain_names_leave_the_suffix_of_the_archive_out(tmp_path):
    pack(tmp_path / "s/x.tar.gz", {"a.csv": b"1"})
    assert files.plain_name(tmp_path, "s/x.tar.gz/a.csv") == "s/x/a.csv"
    assert files.plain_name(tmp_path, "s/x.tar.gz") == "s/x"
    assert files.plain_name(tmp_path, "s/y.tar.gz") == "s/y.tar.gz"


def drained(path):
    with files.watched(path) as file:
        while file.read(10_000):
            pass


def test_a_watched_member_ends_at_its_damage_and_keeps_the_error(tmp_path):
    archive = pack(tmp_path / "x.zip", {"a": LONG})
    drained(archive / "a")
    central(archive, 16, b"\0\0\0\0")
    with pytest.raises(DataError, match="its checksum differs"):
        drained(archive / "a")


def test_a_small_input_is_read_whole_and_a_large_one_refused(tmp_path, monkeypatch):
    archive = pack(tmp_path / "x.zip", {"a": LONG})
    assert files.read_input(archive / "a") == LONG
    monkeypatch.setattr(files, "WHOLE_BYTES", 1 << 10)
    with pytest.raises(DataError, match="is larger than"):
        files.read_input(archive / "a")


def test_a_text_of_a_member_can_be_wrapped(tmp_path):
    archive = pack(tmp_path / "x.tar.bz2", {"a": "é\n".encode() * 10_000})
    with io.TextIOWrapper(files.open_input(archive / "a"), "utf-8") as lines:
        assert sum(line == "é\n" for line in lines) == 10_000
