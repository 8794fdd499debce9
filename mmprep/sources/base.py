"""What a reader of raw files offers to the steps.

A reader module has

    claim(folder, names, root) -> list[Claim]        which files of a folder are its
    probe(claim, root, options) -> {stream: schema}  a cheap look
    write(claim, root, stream, schema, target, ...)  one table; raises `Widen`

Rules
-----
- Paths in a claim are relative to the root, with `/`.
- The companions of a recording (`x.ptp.tsv`, `x.clock.tsv`, `x.frames.tsv`) are never claimed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path, PurePosixPath

COMPANIONS = (".ptp.tsv", ".clock.tsv", ".frames.tsv")
PACKED = ("", ".gz", ".bz2", ".xz", ".zst")


@dataclass(frozen=True, slots=True)
class TextOptions:
    """How text tables are read; None means: find out.

    Parameters
    ----------
    delimiter : str, optional
        One character, or `tab`, `space`.
    quote : str, optional
        One character, or `none`. Default: none for tab, else `"`.
    header : bool, optional
        Whether the first row names the columns.
    columns : tuple of str
        The names of the columns, in place of the header's.
    time : str, optional
        The time column.
    time_unit : str, optional
        `s ms us ns iso`.
    tz : str, optional
        The zone of local times, as `Asia/Shanghai`.
    null : tuple of str
        Cells that are missing, beside the usual ones.
    rate_hz : Fraction, optional
        The rate of rows without stamps.
    units : tuple of (str, str)
        Column -> unit.
    kinds : tuple of (str, str)
        Column -> declared kind (`int64 float64 string`); values that do not fit are bad cells.
    on_bad_row : str
        `fail`, `skip` or `null`.
    float32 : bool
        Store floats in 32 bits.
    """

    delimiter: str | None = None
    quote: str | None = None
    header: bool | None = None
    columns: tuple[str, ...] = ()
    time: str | None = None
    time_unit: str | None = None
    tz: str | None = None
    null: tuple[str, ...] = ()
    encoding: str | None = None
    rate_hz: Fraction | None = None
    units: tuple[tuple[str, str], ...] = ()
    kinds: tuple[tuple[str, str], ...] = ()
    on_bad_row: str = "fail"
    float32: bool = False
    compression_level: int = 1


@dataclass(frozen=True, slots=True)
class Claim:
    """One item of one reader.

    Parameters
    ----------
    reader : str
        The reader's name.
    id_path : str
        The path that the item's id comes from; a file or a folder, empty for the root itself.
    files : tuple of str
        All files that are read.
    suffix : str
        The end of `id_path` that is no part of the id, as `.tsv.gz`; empty for a folder.
    """

    reader: str
    id_path: str
    files: tuple[str, ...]
    suffix: str = ""

    @property
    def stem(self) -> str:
        """The name of `id_path` without folder and suffix."""
        return PurePosixPath(self.id_path).name.removesuffix(self.suffix)


def is_companion(name: str) -> bool:
    """Say whether a file belongs to another one (clock evidence, frame times)."""
    return name.lower().endswith(tuple(end + pack for end in COMPANIONS for pack in PACKED))


def known_suffix(name: str, suffixes: Sequence[str]) -> str | None:
    """Give the suffix of a file, its packing included, as the name spells it."""
    lower = name.lower()
    for suffix in suffixes:
        for pack in PACKED:
            if lower.endswith(suffix + pack) and len(lower) > len(suffix + pack):
                return name[-len(suffix + pack) :]
    return None


def beside(folder: str, name: str) -> str:
    """Join a folder below the root and a file name."""
    return f"{folder}/{name}" if folder not in ("", ".") else name


def file_of(root: Path, name: str) -> Path:
    """Give the path of a claimed file."""
    return root.joinpath(*PurePosixPath(name).parts)
