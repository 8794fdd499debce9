"""What all exporters share: names that a format can hold, and back; records with their values.

Rules
-----
- An exporter is a pure function from a record to what the format has in its place; the step names
  the files and writes them.
- An id that a format cannot hold is escaped, never changed for good: each byte of a character that
  the format refuses becomes `=XX` in hex, and so does `=` itself. `unescape` gives the id back.
"""

from __future__ import annotations

import re
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from mmprep.errors import DataError, UsageError
from mmprep.manifest import codec
from mmprep.manifest.model import Record

Line: TypeAlias = dict[str, Any]
Exporter: TypeAlias = Callable[[Record, str], Line]

PORTABLE = re.compile(r"[A-Za-z0-9_-]")

_ESCAPED = re.compile(r"=([0-9A-F]{2})")
_ESCAPED_ALL = re.compile(r"(?:[^=]|=[0-9A-F]{2})*", re.DOTALL)


def escape(name: str, allowed: re.Pattern[str] = PORTABLE) -> str:
    """Write a name with characters that a format allows.

    Parameters
    ----------
    allowed : pattern
        Matches one character that may stay; `=` never does.

    Returns
    -------
    str
        Every other character as `=XX`, one for each byte of its UTF-8.
    """
    return "".join(char if char != "=" and allowed.fullmatch(char) else _hex(char) for char in name)


def unescape(name: str) -> str:
    """Give the name that `escape` was given.

    Raises
    ------
    DataError
        `escape` cannot have written this.
    """
    if not _ESCAPED_ALL.fullmatch(name):
        raise DataError(f"{name!r} is no escaped name: = is not followed by two hex digits")
    plain = re.sub(_ESCAPED, lambda found: chr(int(found[1], 16)), _latin(name))
    try:
        return plain.encode("latin1").decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise DataError(f"{name!r} is no escaped name: it is not UTF-8") from error


def _hex(char: str) -> str:
    return "".join(f"={byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


def _latin(name: str) -> str:
    """Write each byte of a name's UTF-8 as one character."""
    return name.encode("utf-8", "surrogatepass").decode("latin1")


# Tars ---------------------------------------------------------------------------------------------

TAR_END = b"\0" * 2 * tarfile.BLOCKSIZE


def tar_member(name: str, data: bytes) -> Iterator[bytes]:
    """Write a file as a member of a tar: header, content, padding.

    The header tells nothing of when and by whom it was written (ustar; pax where a name is too long
    or is not ASCII).
    """
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    yield info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
    yield data
    yield b"\0" * (-len(data) % tarfile.BLOCKSIZE)


# Values -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stream:
    """What all records' values of one stream have in common.

    Parameters
    ----------
    dtype : str
        numpy's name, e.g. `float32`.
    row_shape : tuple of int, optional
        The shape of a row of its shards; None where they differ.
    is_window : bool
        A record's values are one row; else they are rows of their own number.
    is_masked : bool
        A mask says which values rest on real samples.
    rate_hz : str, optional
        `num/den`; None where shards differ.
    """

    name: str
    dtype: str
    row_shape: tuple[int, ...] | None
    is_window: bool
    is_masked: bool
    rate_hz: str | None = None
    channels: tuple[str, ...] | None = None
    units: tuple[str | None, ...] | None = None

    @property
    def shape(self) -> tuple[int | None, ...] | None:
        """The shape of a record's values, None for the number of rows; None where it varies."""
        if self.row_shape is None:
            return None
        return self.row_shape if self.is_window else (None, *self.row_shape)

    @property
    def mask_name(self) -> str:
        """What its mask is called."""
        return f"{self.name}.valid"


@dataclass(frozen=True, slots=True)
class Sample:
    """A record with its values.

    Parameters
    ----------
    fields : dict
        See `fields_of`.
    arrays : dict
        Stream name -> values, `<stream>.valid` -> mask; None where the record has none.
    """

    fields: dict[str, Any]
    arrays: dict[str, NDArray[Any] | None]

    @property
    def id(self) -> str:
        """The record's id."""
        return str(self.fields["id"])

    @property
    def n_bytes(self) -> int:
        """The bytes of its values."""
        return sum(array.nbytes for array in self.arrays.values() if array is not None)


def fields_of(record: Record) -> dict[str, Any]:
    """Give what a record says beside its values, as JSON values in the order of the manifest.

    Returns
    -------
    dict
        Of its streams in shards the rates and offsets, not the files: those are ours.
    """
    found: dict[str, Any] = msgspec.json.decode(codec.encode_record(record))
    found["streams"] = {
        name: {"rate_hz": ref.rate_hz, "offset_s": ref.offset_s}
        for name, ref in record.streams.items()
        if ref.shard is not None
    }
    return found


SCALARS = (
    "id",
    "session",
    "subject",
    "split",
    "fold",
    "begin_s",
    "duration_s",
    "text",
    "source",
    "label",
)


def scalars(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Give the plain values of a record's fields by column.

    Returns
    -------
    dict
        `SCALARS`, then `labels.<name>`, then `fields.<name>` for fields that others added.
    """
    known = {name: fields.get(name) for name in SCALARS}
    labels = {f"labels.{name}": value for name, value in fields["labels"].items()}
    others = {
        f"fields.{name}": value
        for name, value in fields.items()
        if name not in Record.__struct_fields__ and not isinstance(value, dict | list)
    }
    return known | labels | others


def check_names(columns: Iterable[str]) -> None:
    """Refuse two columns of one name.

    Raises
    ------
    UsageError
        A stream has the name of another column.
    """
    twice = [name for name, n in Counter(columns).items() if n > 1]
    if twice:
        raise UsageError(
            f"there are two columns {twice[0]!r}: a stream has the name of a field",
            hint="convert again with another name for the stream, or export --to webdataset",
        )


def filled(stream: Stream, values: NDArray[Any] | None) -> NDArray[Any]:
    """Give the values, or an empty array where a record lacks the stream."""
    if values is not None:
        return values
    return np.empty((0, *(stream.shape or (None,))[1:]), stream.dtype)  # type: ignore[arg-type]
