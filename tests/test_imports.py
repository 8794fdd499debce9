"""What importing mmprep and asking for help costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import mmprep

HEAVY = {"pyarrow", "pandas", "librosa", "mne", "cv2", "av", "torch", "ray", "numpy", "scipy"}


def _loaded_by(code: str) -> set[str]:
    listing = f"{code}\nimport sys\nprint(*sys.modules, sep='\\n', file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", listing], capture_output=True, text=True, check=False
    )
    return {name.partition(".")[0] for name in done.stderr.split()}


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["convert", "--help"], ["align", "--help"]]
)
def test_help_loads_nothing_heavy(arguments):
    code = f"from mmprep.cli.main import run\nassert run({arguments!r}) == 0"
    loaded = _loaded_by(code)
    assert "click" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_import_loads_nothing_heavy():
    assert _loaded_by("import mmprep").isdisjoint(HEAVY | {"click"})


@pytest.mark.parametrize("step", ["align", "mfcc"])
def test_plan_loads_no_reader(step):
    heavy = {"pyarrow", "scipy", "av", "soundfile"}
    assert _loaded_by(f"import mmprep.steps.{step}").isdisjoint(heavy)


def test_public_names_are_sorted_documented_and_there():
    assert mmprep.__all__ == sorted(mmprep.__all__)
    assert all(getattr(mmprep, name).__doc__ for name in mmprep.__all__)
    assert set(dir(mmprep)) == {*mmprep.__all__, "__version__"}


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'run_everything'"):
        mmprep.run_everything  # noqa: B018
