"""`manifest export --to webdataset`: tars that hold the values of the shards."""

from __future__ import annotations

import io
import json
import tarfile
from itertools import pairwise

import numpy as np
import pytest
import soundfile

from mmprep import DataError, UsageError, run_export
from mmprep.exporters.base import unescape
from tests import exported, raw
from tests.kill import tree

SERIAL = {"engine": "serial"}


def _members(folder):
    for path in sorted(folder.glob("*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                yield path.name, member, tar.extractfile(member).read()


def _samples(folder):
    """Group the members as a reader does: the key ends at the first dot."""
    found = {}
    for _, member, data in _members(folder):
        key, _, field = member.name.partition(".")
        found.setdefault(key, {})[field] = data
    return found


def _arrays(sample):
    npy = {name.removesuffix(".npy"): data for name, data in sample.items() if "npy" in name}
    return {name: np.load(io.BytesIO(data)) for name, data in npy.items()}


@pytest.mark.parametrize("name", ["amigos/split", "cmlr/features"])
def test_values_are_those_of_the_shards(sample, tmp_path, name):
    run_export(sample / name, output=tmp_path / "out", to="webdataset", **SERIAL)
    samples = _samples(tmp_path / "out").values()
    found = {json.loads(one["json"])["id"]: _arrays(one) for one in samples}
    exported.check(found, sample / name)


def test_key_is_the_id_and_json_the_record(sample, tmp_path):
    run_export(sample / "amigos/split", output=tmp_path / "out", to="webdataset", **SERIAL)
    for key, one in _samples(tmp_path / "out").items():
        fields = json.loads(one["json"])
        assert unescape(key) == fields["id"]
        assert fields["session"] == fields["id"].rpartition("/")[0]
        assert fields["streams"]["eeg"] == {"rate_hz": 128.0, "offset_s": 0.0}


def test_members_of_a_sample_are_consecutive_and_those_of_each_split_in_its_tars(sample, tmp_path):
    run_export(sample / "amigos/split", output=tmp_path / "out", to="webdataset", **SERIAL)
    keys = [member.name.partition(".")[0] for _, member, _ in _members(tmp_path / "out")]
    assert sum(a != b for a, b in pairwise(keys)) == len(set(keys)) - 1
    for tar, member, data in _members(tmp_path / "out"):
        if member.name.endswith(".json"):
            assert tar == f"{json.loads(data)['split']}-000000.tar"


def test_shards_hold_as_many_records_to_within_one(sample, tmp_path):
    run_export(
        sample / "cmlr/features", output=tmp_path / "out", to="webdataset", shards=4, **SERIAL
    )
    counts = {}
    for tar, member, _ in _members(tmp_path / "out"):
        counts[tar] = counts.get(tar, 0) + member.name.endswith(".json")
    assert counts == {f"data-00000{k}.tar": n for k, n in enumerate([3, 4, 4, 4])}


def test_more_shards_than_records_are_as_many_as_records(sample, tmp_path, mmprep):
    data, out = sample / "cmlr/features", tmp_path / "out"
    done = mmprep(
        "manifest", "export", data, "--to", "webdataset", "--shards", 99, "-o", out, "-j1"
    )
    assert "data has 15 records, so 15 shards" in done.err
    assert len(list(out.glob("*.tar"))) == 15


@pytest.mark.parametrize(("audio", "atol"), [("wav", 0), ("flac", 1 / 32768)])
def test_sound_is_a_file_where_that_is_asked_for(sample, tmp_path, audio, atol):
    data = sample / "cmlr/features"
    run_export(data, output=tmp_path / "out", to="webdataset", audio=audio, **SERIAL)
    wanted = exported.expected(data)
    for one in _samples(tmp_path / "out").values():
        assert list(one) == ["json", audio, "mfcc.npy"]
        samples, rate_hz = soundfile.read(io.BytesIO(one[audio]))
        assert rate_hz == 16000
        shard = wanted[json.loads(one["json"])["id"]]["audio"]
        np.testing.assert_allclose(samples, shard, atol=atol)


def test_without_audio_the_stream_is_left_out(sample, tmp_path):
    run_export(sample / "cmlr/features", output=tmp_path, to="webdataset", audio="none", **SERIAL)
    assert {tuple(one) for one in _samples(tmp_path).values()} == {("json", "mfcc.npy")}


@pytest.fixture
def two_sounds(mmprep, tmp_path):
    """A data set of two sounds; the line of the second has lost its stream."""
    for name in "ab":
        raw.sound(tmp_path / f"in/{name}.wav")
    mmprep("convert", tmp_path / "in", "-o", tmp_path / "made", "--engine", "serial")
    path = tmp_path / "made/manifest.jsonl"
    first, second = map(json.loads, path.read_text().splitlines())
    path.write_text(f"{json.dumps(first)}\n{json.dumps(second | {'streams': {}})}\n")
    return tmp_path / "made"


def test_sample_without_a_stream_has_it_without_rows(two_sounds, tmp_path):
    run_export(two_sounds, output=tmp_path / "out", to="webdataset", **SERIAL)
    assert _arrays(_samples(tmp_path / "out")["b"])["audio"].shape == (0,)


def test_record_without_sound_is_left_out_where_sound_is_a_file(two_sounds, tmp_path):
    run_export(two_sounds, output=tmp_path / "out", to="webdataset", audio="flac", **SERIAL)
    assert list(_samples(tmp_path / "out")) == ["a"]


@pytest.mark.parametrize("to", ["webdataset", "parquet", "hf", "mds"])
def test_record_beyond_its_shard_fails_alone(two_sounds, tmp_path, to):
    path = two_sounds / "manifest.jsonl"
    first = json.loads(path.read_text().splitlines()[0])
    broken = {**first["streams"]["audio"], "rows": [799, 99999]}
    lines = (first, first | {"id": "b", "streams": {"audio": broken}})
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.raises(DataError, match="1 of 2 items failed"):
        run_export(two_sounds, output=tmp_path / "out", to=to, **SERIAL)
    done = run_export(two_sounds, output=tmp_path / "out", to=to, max_failures=1, **SERIAL)
    assert done.status == "partial"
    failure = json.loads((tmp_path / "out/failures.jsonl").read_text())
    assert failure["id"] == "b"
    assert "the shard ends before row 99999" in failure["message"]


def test_data_set_of_tables_is_refused_with_the_way_out(mmprep, tmp_path):
    (tmp_path / "eeg.csv").write_text("time,a\n0,1\n1,2\n")
    mmprep("convert", tmp_path / "eeg.csv", "-o", tmp_path / "made", "--engine", "serial")
    with pytest.raises(UsageError, match="no record has values in shards") as caught:
        run_export(tmp_path / "made", output=tmp_path / "out", to="webdataset", **SERIAL)
    assert "mmprep align" in caught.value.hint


def test_header_tells_nothing_of_when_and_by_whom(sample, tmp_path):
    run_export(sample / "cmlr/features", output=tmp_path, to="webdataset", **SERIAL)
    for _, member, _ in _members(tmp_path):
        assert (member.mtime, member.uid, member.gid, member.uname) == (0, 0, 0, "")


def test_bytes_do_not_depend_on_the_workers(sample, tmp_path):
    data = sample / "amigos/split"
    for name, how in (("a", SERIAL), ("b", {"jobs": 2})):
        run_export(data, output=tmp_path / name, to="webdataset", shards=3, **how)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")
