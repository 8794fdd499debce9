"""DuckDB, Ray and HF datasets read the Parquet that was exported."""

from __future__ import annotations

import numpy as np
import pytest

from mmprep import run_export
from tests import exported

pytestmark = [pytest.mark.trainers, pytest.mark.filterwarnings("ignore")]

NAMES = ["amigos/split", "cmlr/features"]


def _check(rows, folder):
    """Compare the rows of a reader with the shards; types are those of the files, not of lists."""
    wanted, n_rows = exported.expected(folder), 0
    for row in rows:
        n_rows += 1
        for name, array in wanted[row["id"]].items():
            shape = () if name.endswith(".valid") else row[f"{name}.shape"]
            values = np.asarray(row[name], array.dtype)
            np.testing.assert_array_equal(values.reshape(shape) if len(shape) else values, array)
    assert n_rows == len(wanted)


@pytest.mark.parametrize("name", NAMES)
def test_duckdb_reads_the_values_of_the_shards(sample, tmp_path, name):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    run_export(sample / name, output=tmp_path, to="parquet", engine="serial")
    found = duckdb.sql(f"SELECT * FROM '{tmp_path}/*/*.parquet'")
    columns = found.columns
    _check((dict(zip(columns, row, strict=True)) for row in found.fetchall()), sample / name)


@pytest.mark.parametrize("name", NAMES)
def test_hf_datasets_reads_the_values_of_the_shards(sample, tmp_path, name, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    run_export(sample / name, output=tmp_path / "out", to="hf", engine="serial")
    found = datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    _check((row for split in found.values() for row in split), sample / name)


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray", reason="ray is not installed")
    ray.init(num_cpus=1, include_dashboard=False, logging_level="ERROR")
    yield ray
    ray.shutdown()


@pytest.mark.parametrize("name", NAMES)
def test_ray_reads_the_values_of_the_shards(sample, tmp_path, name, ray):
    from ray import data

    run_export(sample / name, output=tmp_path, to="parquet", engine="serial")
    folders = sorted({str(path.parent) for path in tmp_path.rglob("*.parquet")})
    _check(data.read_parquet(folders).iter_rows(), sample / name)


def test_hf_datasets_reads_a_folder_of_sound(sample, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    pytest.importorskip("torchcodec", exc_type=Exception, reason="torchcodec is not installed")
    data = sample / "cmlr/features"
    run_export(data, output=tmp_path / "out", to="hf", audio="flac", engine="serial")
    found = datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    rows = found["train"].cast_column("audio", datasets.Audio(decode=False))
    assert [row["id"] for row in rows] == list(exported.expected(data))
    assert all(row["audio"]["path"].endswith(".flac") for row in rows)
