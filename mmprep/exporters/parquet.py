"""Plain Parquet: one row a record, fields as columns, values of streams as flat lists.

Rules
-----
- Columns: those of `base.scalars`, then for each stream `<stream>` (flat, row-major),
  `<stream>.shape` and, where there is a mask, `<stream>.valid`. A record that lacks a stream has
  null.
- All files of an export have one schema, in types and in that all may be null: readers take it from
  the first file. There are no extension types and no nested ones but lists.
- A field that is text here and a number there is text; whole numbers and others are `double`.
- Row groups are modest: readers hold whole ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mmprep.exporters.base import SCALARS, Sample, Stream, check_names, scalars
from mmprep.manifest.model import label_name

KNOWN = dict.fromkeys(SCALARS, "string") | {
    "fold": "int64",
    "begin_s": "float64",
    "duration_s": "float64",
}
GROUP_BYTES = 16 << 20
GROUP_ROWS = 1000
_KINDS = {bool: "bool", int: "int64", float: "float64", str: "string"}
_TYPES = {kind: getattr(pa, kind)() for kind in ("int64", "float64", "string")} | {
    "bool": pa.bool_()
}
_WORD = re.compile(r"\W")


# Fields -------------------------------------------------------------------------------------------


def kinds_of(records: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Find the type of each column that holds plain values.

    Parameters
    ----------
    records : iterable of dict
        Their fields, see `base.fields_of`.
    """
    found = {name: set() if name == "label" else {kind} for name, kind in KNOWN.items()}
    for fields in records:
        for name, value in scalars(fields).items():
            kinds = found.setdefault(name, set())
            if value is not None and name not in _FIXED:
                kinds.add(_kind(value))
    return {name: _common(kinds) for name, kinds in found.items()}


_FIXED = frozenset(KNOWN) - {"label"}


def _kind(value: Any) -> str:
    is_wide = type(value) is int and not -(2**63) <= value < 2**63
    return "float64" if is_wide else _KINDS[type(value)]


def _common(kinds: set[str]) -> str:
    if kinds == {"int64", "float64"}:
        return "float64"
    return next(iter(kinds)) if len(kinds) == 1 else "string"


# Files --------------------------------------------------------------------------------------------


def schema_of(kinds: Mapping[str, str], streams: Sequence[Stream]) -> pa.Schema:
    """Give the schema of all files.

    Raises
    ------
    UsageError
        A stream has the name of another column.
    """
    fields = [pa.field(name, _TYPES[kind]) for name, kind in kinds.items()]
    for stream in streams:
        fields.append(pa.field(stream.name, pa.list_(pa.from_numpy_dtype(stream.dtype))))
        fields.append(pa.field(f"{stream.name}.shape", pa.list_(pa.int32())))
        if stream.is_masked:
            fields.append(pa.field(stream.mask_name, pa.list_(pa.bool_())))
    check_names(field.name for field in fields)
    about = {stream.name: _about(stream) for stream in streams}
    return pa.schema(fields, {"mmprep": msgspec.json.encode({"streams": about})})


def _about(stream: Stream) -> dict[str, Any]:
    names = ("dtype", "shape", "rate_hz", "channels", "units")
    return {name: getattr(stream, name) for name in names}


class Writer:
    """Write samples as rows, a row group at a time; a context manager.

    Parameters
    ----------
    file : binary file
        Stays open.
    """

    def __init__(self, file: BinaryIO, kinds: Mapping[str, str], streams: Sequence[Stream]) -> None:
        self._kinds, self._streams, self.schema = kinds, streams, schema_of(kinds, streams)
        texts = [name for name, kind in kinds.items() if kind == "string" and name != "id"]
        self._writer = pq.ParquetWriter(
            file, self.schema, compression="zstd", use_dictionary=texts, write_page_checksum=True
        )
        self._rows: list[Sample] = []
        self._n_bytes = 0

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._flush()
        self._writer.close()

    def add(self, sample: Sample) -> None:
        """Add a row."""
        if self._rows and self._n_bytes + sample.n_bytes > GROUP_BYTES:
            self._flush()
        self._rows.append(sample)
        self._n_bytes += sample.n_bytes
        if len(self._rows) >= GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_batch(self._batch())
        self._rows, self._n_bytes = [], 0

    def _batch(self) -> pa.RecordBatch:
        rows = [scalars(sample.fields) for sample in self._rows]
        columns = [
            pa.array([_cell(row.get(name), kind) for row in rows], _TYPES[kind])
            for name, kind in self._kinds.items()
        ]
        for stream in self._streams:
            values = [sample.arrays[stream.name] for sample in self._rows]
            shapes = [
                None if array is None else np.array(array.shape, np.int32) for array in values
            ]
            columns += [_lists(values, stream.dtype), _lists(shapes, "int32")]
            if stream.is_masked:
                masks = [sample.arrays[stream.mask_name] for sample in self._rows]
                columns.append(_lists(masks, "bool"))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _cell(value: Any, kind: str) -> Any:
    if value is None or kind != "string":
        return float(value) if kind == "float64" and value is not None else value
    return label_name(value)


def _lists(arrays: Sequence[NDArray[Any] | None], dtype: str) -> pa.ListArray:
    """Put arrays into lists, flat; None becomes null."""
    flat = [np.zeros(0, dtype) if array is None else array.reshape(-1) for array in arrays]
    offsets = np.cumsum([0, *map(len, flat)], dtype=np.int64).astype(np.int32)
    is_null = pa.array([array is None for array in arrays])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.concatenate(flat)), mask=is_null)


# What is said of them -----------------------------------------------------------------------------


def about(streams: Sequence[Stream]) -> str:
    """Describe the columns of the streams in Markdown."""
    lines = [
        "One row is one record. Values of a stream are a flat list, row by row:",
        '`numpy.reshape(row["eeg"], row["eeg.shape"])` gives them their shape. `<stream>.valid` is',
        "true where a value rests on real samples; others are NaN, -1 (frame indices), 0 (pixels).",
        "",
        "| stream | type | shape | rate in Hz | channels |",
        "| --- | --- | --- | --- | --- |",
    ]
    return "\n".join([*lines, *map(_line, streams), ""])


def _line(stream: Stream) -> str:
    sizes = ("n" if size is None else str(size) for size in stream.shape or ())
    shape = "varies" if stream.shape is None else " x ".join(sizes)
    channels = " ".join(stream.channels or ())
    cells = (stream.name, stream.dtype, shape, stream.rate_hz or "varies", channels)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def split_name(name: str) -> str:
    """Give a split a name that HF datasets take: letters, digits and `_`."""
    return _WORD.sub("_", name)


def card(paths: Mapping[str, str], text: str) -> str:
    """Write the dataset card of a folder for HF datasets.

    Parameters
    ----------
    paths : dict
        Split -> the pattern of its files.
    text : str
        What follows, in Markdown.
    """
    splits = "".join(
        f"  - split: {split_name(split)}\n    path: {msgspec.json.encode(path).decode()}\n"
        for split, path in paths.items()
    )
    return f"---\nconfigs:\n- config_name: default\n  data_files:\n{splits}---\n\n{text}"
