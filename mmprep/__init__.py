"""Turn raw multimodal recordings into aligned, verified, trainable data sets.

    import mmprep
    mmprep.run_convert("raw/", output="converted/", layout="amigos")
    mmprep.run_align("converted/", output="aligned/", rates="video=30,eeg=128,gsr=4")
    ds = mmprep.open_dataset("aligned/", split="train")

Names are loaded when they are first used: importing mmprep loads nothing heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mmprep.cli.api import run_align, run_convert, run_export, run_mfcc, run_split
    from mmprep.errors import (
        CheckError,
        ClockError,
        DataError,
        MmprepError,
        SpaceError,
        TransientError,
        UsageError,
    )
    from mmprep.loaders import MemmapDataset, open_dataset

__all__ = [
    "CheckError",
    "ClockError",
    "DataError",
    "MemmapDataset",
    "MmprepError",
    "SpaceError",
    "TransientError",
    "UsageError",
    "open_dataset",
    "run_align",
    "run_convert",
    "run_export",
    "run_mfcc",
    "run_split",
]

_MODULES = {"open_dataset": "loaders", "MemmapDataset": "loaders"}


def __getattr__(name: str) -> Any:
    """Load a public name."""
    # Python asks here for each submodule, too, before it loads it.
    if name == "__version__":
        from importlib.metadata import version

        return version("mmprep")
    if name not in __all__:
        raise AttributeError(f"module 'mmprep' has no attribute {name!r}")
    from importlib import import_module

    module = "cli.api" if name.startswith("run_") else _MODULES.get(name, "errors")
    return getattr(import_module(f"mmprep.{module}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
