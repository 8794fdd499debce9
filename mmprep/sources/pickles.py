"""Pickles of arrays and plain containers, read without running what they say.

Rules
-----
- A pickle is a program. Only names that rebuild NumPy arrays, types and numbers are followed, and
  those lead to functions of this module; any other one is refused by name, before it runs.
- Python 2 wrote many of these files: texts are read as Latin-1.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from mmprep import files
from mmprep.errors import DataError

_ARRAY = object()  # stands for numpy.ndarray, which a pickle names but need not call


def _reconstruct(kind: Any, shape: Any, code: Any) -> NDArray[Any]:
    """Make the empty array that a pickle fills afterwards."""
    if kind is not _ARRAY or tuple(shape) != (0,):
        raise pickle.UnpicklingError("an array is built in an unusual way")
    return np.ndarray((0,), np.int8)


def _scalar(dtype: Any, raw: Any = b"") -> Any:
    """Make a number of NumPy from its bytes."""
    if not isinstance(dtype, np.dtype) or dtype.hasobject:
        raise pickle.UnpicklingError(f"a number of type {dtype!r}")
    data = raw.encode("latin-1") if isinstance(raw, str) else bytes(raw)
    return np.frombuffer(data, dtype, 1)[0]


def _frombuffer(raw: Any, dtype: Any, shape: Any, order: Any) -> NDArray[Any]:
    """Make an array from its bytes, as protocol 5 does."""
    return np.frombuffer(raw, dtype).reshape(shape, order=order)


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    """Give bytes that were written as text, as Python 3 does in protocol 2."""
    if not isinstance(text, str) or str(encoding).replace("-", "") not in {"latin1", "iso88591"}:
        raise pickle.UnpicklingError(f"bytes written as {encoding!r}")
    return text.encode("latin-1")


_CALLABLE: Mapping[str, Any] = {
    "numpy.ndarray": _ARRAY,
    "numpy.dtype": np.dtype,
    **{
        f"{package}.{name}": function
        for package in ("numpy.core", "numpy._core")
        for name, function in {
            "multiarray._reconstruct": _reconstruct,
            "multiarray.scalar": _scalar,
            "numeric._frombuffer": _frombuffer,
        }.items()
    },
    "_codecs.encode": _encode,
}


class _Unpickler(pickle.Unpickler):
    """An unpickler that follows no name but those above."""

    def find_class(self, module: str, name: str) -> Any:
        """Look a name up."""
        found = _CALLABLE.get(f"{module}.{name}")
        if found is None:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return found

    def persistent_load(self, pid: Any) -> Any:
        """Refuse what lies outside of the file."""
        raise pickle.UnpicklingError("it refers to something outside of it")


def unpickled(path: Path, where: str) -> Any:
    """Read a pickle of arrays and plain containers.

    Raises
    ------
    DataError
        It asks for anything else, or is damaged.
    """
    stamp = files.stamp(path)
    return _unpickled(path, where, stamp.n_bytes, stamp.mtime_ns)


@lru_cache(maxsize=1)  # the streams of a file are written one after another
def _unpickled(path: Path, where: str, n_bytes: int, mtime_ns: int) -> Any:
    with files.open_input(path) as file:
        return load(file, where)


def load(file: BinaryIO, where: str) -> Any:
    """Read a pickle of arrays and plain containers from an open file.

    Raises
    ------
    DataError
        It asks for anything else, or is damaged.
    """
    try:
        return _Unpickler(file, encoding="latin1").load()
    except pickle.UnpicklingError as error:
        raise DataError(
            f"the pickle was refused: {error}",
            where=where,
            hint="only arrays and plain containers are read; this file may be hostile",
        ) from error
    except (EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise DataError(f"the pickle is damaged: {error}", where=where) from error
    except (MemoryError, OverflowError, UnicodeError, RecursionError) as error:
        raise DataError(f"the pickle is damaged: {type(error).__name__}", where=where) from error
