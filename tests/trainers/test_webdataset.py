"""WebDataset itself reads what was exported for it."""

from __future__ import annotations

import pytest

from mmprep import run_export
from tests import exported

pytestmark = [
    pytest.mark.trainers,
    pytest.mark.filterwarnings("ignore"),
]

webdataset = pytest.importorskip("webdataset", reason="webdataset is not installed")


@pytest.mark.parametrize("name", ["amigos/split", "cmlr/features"])
def test_webdataset_reads_the_values_of_the_shards(sample, tmp_path, name):
    run_export(sample / name, output=tmp_path, to="webdataset", engine="serial")
    tars = sorted(map(str, tmp_path.glob("*.tar")))
    found = {
        one["json"]["id"]: {
            field.removesuffix(".npy"): values for field, values in one.items() if "npy" in field
        }
        for one in webdataset.WebDataset(tars, shardshuffle=False).decode()
    }
    exported.check(found, sample / name)
