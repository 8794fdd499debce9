"""MosaicML streaming reads what was exported for it, and writes the same bytes."""

from __future__ import annotations

import json

import pytest

from mmprep import run_export
from tests import exported, mds

pytestmark = [pytest.mark.trainers, pytest.mark.filterwarnings("ignore")]

streaming = pytest.importorskip("streaming", reason="mosaicml-streaming is not installed")


@pytest.mark.parametrize("name", ["amigos/split", "cmlr/features"])
def test_streaming_reads_the_values_of_the_shards(sample, tmp_path, name):
    run_export(sample / name, output=tmp_path, to="mds", shards=3, engine="serial")
    found = {}
    for index in tmp_path.glob("*/index.json"):
        data = streaming.StreamingDataset(local=str(index.parent), batch_size=1, shuffle=False)
        found |= {data[k]["id"]: mds.arrays(data[k]) for k in range(len(data))}
    exported.check(found, sample / name)


@pytest.mark.parametrize("name", ["amigos/split", "cmlr/features"])
def test_streaming_writes_the_same_bytes(sample, tmp_path, name):
    run_export(sample / name, output=tmp_path / "out", to="mds", engine="serial")
    for path in (tmp_path / "out").glob("*/index.json"):
        (entry,) = json.loads(path.read_bytes())["shards"]
        columns = dict(zip(entry["column_names"], entry["column_encodings"], strict=True))
        again = tmp_path / path.parent.name
        with streaming.MDSWriter(out=str(again), columns=columns) as writer:
            for one in mds.read(path.parent):
                writer.write(one)
        for file in ("index.json", entry["raw_data"]["basename"]):
            assert (again / file).read_bytes() == (path.parent / file).read_bytes()
