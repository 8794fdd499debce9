"""The formats that are read through MNE: which files are theirs, and what they say of time.

Rules
-----
- A file is known by its suffix and by its first bytes; a folder by its name and what is in it.
- FIF is taken if its first blocks announce raw data; epochs, averages and forward models are not.
  The further parts of a recording that was split go with its first one.
- What a recording needs besides (`x.fdt`, `x.dat`, `x.cdt.dpa`) goes with it.
- `clock` says what MNE's start is: `utc`; `local`, the time on the wall, as it stands in the file;
  `machine`, that time taken for one of the zone of the machine that reads it; `zoneless`, a time
  whose zone stands in the file and MNE drops.
"""

from __future__ import annotations

import gzip
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mmprep import files
from mmprep.errors import DataError
from mmprep.sources.base import beside, file_of, first_lines

MAX_TAGS = 20_000
HEAD_BYTES = 16 << 10

_FILE_ID, _BLOCK_START = 100, 104
_RAW_BLOCKS = {102, 112, 119}  # raw data, continuous data, data of an internal active shielding
_PART = re.compile(r"^(?P<stem>.+?)(?:-(?P<plain>[1-9]\d*)|_split-(?P<bids>\d+)(?P<end>_[a-z]+)?)$")
_LAY_FILE = re.compile(r"^\s*File\s*=\s*(.+?)\s*$", re.IGNORECASE)
_CTF_RES4 = (b"MEG41RS", b"MEG42RS")
_HDF5, _MATLAB = b"\x89HDF\r\n\x1a\n", (b"MATLAB 5.0 MAT-file", b"MATLAB 7.3 MAT-file")

Names = Sequence[str]


def _no_parts(path: Path, names: Names) -> list[str]:
    return []


def _no_fault(path: Path) -> str | None:
    return None


def _no_more(path: Path) -> dict[str, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class Format:
    """One format.

    Parameters
    ----------
    name : str
        What people call it.
    reader : str
        The function of `mne.io`, without `read_raw_`.
    suffixes : tuple of str
    knows : callable
        Says by its content whether a file of such a suffix is one.
    parts : callable
        (file, names of its folder) -> the other files of the recording.
    clock : str
        As in the rules.
    unknown : datetime, optional
        What MNE gives for the start where the file has none.
    options : mapping
        Of the function.
    fault : callable
        Says what is wrong with a file that would keep MNE busy for ever.
    more : callable
        Gives further options for a file that MNE can't read without; none: there are none.
    """

    name: str
    reader: str
    suffixes: tuple[str, ...]
    knows: Callable[[Path], bool]
    parts: Callable[[Path, Names], list[str]] = _no_parts
    clock: str = "utc"
    unknown: datetime | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    fault: Callable[[Path], str | None] = _no_fault
    more: Callable[[Path], dict[str, Any]] = _no_more

    def suffix(self, name: str) -> str:
        """Give the suffix of a name, as it is spelled; empty where it has none of these."""
        ends = (end for end in self.suffixes if name.lower().endswith(end) and len(name) > len(end))
        return next((name[-len(end) :] for end in ends), "")


def claimed(folder: str, names: Names, root: Path) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Give what in a folder is a recording: path, all its files, the suffix of the path."""
    place = file_of(root, folder)
    for form in FOLDERS:
        if names and form.suffix(place.name) and form.knows(place):
            paths = tuple(beside(folder, name) for name in sorted(names))
            yield folder, paths, form.suffix(place.name)
            return
    for form in FILES:
        firsts = set(_firsts(form, names))
        for name in sorted(firsts):
            path = beside(folder, name)
            if form.knows(file_of(root, path)):
                parts = [beside(folder, part) for part in form.parts(file_of(root, path), names)]
                yield path, (path, *parts), form.suffix(name)


def format_of(path: Path) -> Format | None:
    """Tell the format of a file or folder."""
    known = FOLDERS if files.is_folder(path) else FILES
    return next((form for form in known if form.suffix(path.name) and form.knows(path)), None)


def _firsts(form: Format, names: Names) -> list[str]:
    ours = [name for name in names if form.suffix(name)]
    return [name for name in ours if form is not FIF or _first_of(name, ours) == name]


# What their first bytes are -----------------------------------------------------------------------


def _head(path: Path, n_bytes: int = HEAD_BYTES) -> bytes:
    """Read the first bytes; none where the file can't be read."""
    try:
        with files.open_input(path) as file:
            return bytes(file.read(n_bytes))
    except (OSError, DataError):
        return b""


def _begins(*magic: bytes) -> Callable[[Path], bool]:
    return lambda path: _head(path, 64).startswith(magic)


def _gdf_fault(path: Path) -> str | None:
    head = _head(path, 256)
    if len(head) < 256:
        return "ends within its header"
    is_old = head[4:7] < b"1.9"
    n_channels = struct.unpack_from("<I" if is_old else "<H", head, 252)[0]
    is_whole = 256 * (n_channels + 1) <= files.stamp(path).n_bytes
    return None if is_whole else f"names {n_channels} channels, and ends within its header"


def _sample_kind(path: Path) -> dict[str, Any]:
    """Tell 16 from 32 bits as EEGLAB's `loadcnt` does: by a mark behind the events."""
    (follows,) = struct.unpack_from("<i", _head(path, 16).ljust(16, b"\0"), 12)
    mark = b""
    if follows > 0:
        with files.open_input(path) as file:
            file.seek(follows + 52)
            mark = file.read(1)
    return {"data_format": "int32" if mark == b"\1" else "int16"}


def _is_ant(path: Path) -> bool:
    head = _head(path, 64)
    return head[:4] in (b"RIFF", b"RF64") and b"CNT " in head[:16]


def _is_persyst(path: Path) -> bool:
    return "[fileinfo]" in (line.strip().lower() for line in first_lines(path)[:50])


def _is_nedf(path: Path) -> bool:
    head = _head(path)
    return head.lstrip()[:1] == b"<" and b"<NEDFversion>" in head


def _is_eximia(path: Path) -> bool:
    return bool(_head(path, 1))  # the format has nothing but samples


def _is_kit(path: Path) -> bool:
    """Know the table of contents, whose first entry tells of itself: 16 bytes each."""
    head = _head(path, 16)
    if len(head) < 16:
        return False
    _, size, most, count = struct.unpack("<4i", head)
    return bool(size == 16 and 9 < count <= most < 10_000)


def _is_curry(path: Path) -> bool:
    return any(files.is_file(path.with_name(path.name + end)) for end in _CURRY_HEADS)


def _is_egi(path: Path) -> bool:
    return files.is_file(path / "info.xml") and files.is_file(path / "signal1.bin")


def _is_ctf(path: Path) -> bool:
    """Know a recording; the measurement of the head inside of one, `hz.ds`, is none."""
    is_inside = path.parent.name.lower().endswith(".ds")
    return not is_inside and _head(path / f"{path.name[:-3]}.res4", 8).startswith(_CTF_RES4)


def is_raw_fif(path: Path) -> bool:
    """Say whether a file is FIF and announces raw data."""
    is_packed = path.name.lower().endswith(".gz")
    try:
        with files.open_input(path) as raw:
            return _announces_raw(gzip.GzipFile(fileobj=raw) if is_packed else raw)
    except (OSError, EOFError, DataError):
        return False


def _announces_raw(file: Any) -> bool:
    for index in range(MAX_TAGS):
        head = file.read(16)
        if len(head) < 16:
            return False
        kind, type_, size, following = struct.unpack(">4i", head)
        if index == 0 and (kind, type_, size) != (_FILE_ID, 31, 20):
            return False
        if kind == _BLOCK_START and size == 4:
            (block,) = struct.unpack(">i", file.read(4))
            if block in _RAW_BLOCKS:
                return True
        elif size < 0:
            return False
        else:
            file.seek(size, 1)
        if following > 0:
            file.seek(following)
        elif following < 0:
            return False
    return False


# What goes with a file ----------------------------------------------------------------------------

_CURRY_HEADS = (".dpa", ".dpo")
_CURRY_PARTS = (*_CURRY_HEADS, ".ceo", ".cef")


def _first_of(name: str, names: Names) -> str:
    """Name the first part of a recording that was split at 2 GB."""
    suffix = FIF.suffix(name)
    found = _PART.match(name.removesuffix(suffix))
    if found is None:
        return name
    whole = f"{found['stem']}{suffix}"
    if found["bids"]:
        whole = f"{found['stem']}_split-{'1'.zfill(len(found['bids']))}{found['end'] or ''}{suffix}"
    return whole if whole in names else name


def _fif_parts(path: Path, names: Names) -> list[str]:
    ours = [name for name in sorted(names) if FIF.suffix(name) and name != path.name]
    return [name for name in ours if _first_of(name, names) == path.name]


def _with_fdt(path: Path, names: Names) -> list[str]:
    return [name for name in names if name.lower() == f"{path.name[:-4]}.fdt".lower()]


def _with_dat(path: Path, names: Names) -> list[str]:
    """Find the samples by what the header says, where they lay when it was written."""
    said = next((found[1] for line in first_lines(path) if (found := _LAY_FILE.match(line))), "")
    wanted = said.replace("\\", "/").rpartition("/")[2].lower()
    return [name for name in names if wanted and name.lower() == wanted]


def _with_heads(path: Path, names: Names) -> list[str]:
    return [name for end in _CURRY_PARTS if (name := path.name + end) in names]


# The formats --------------------------------------------------------------------------------------

FIF = Format(
    "FIF",
    "fif",
    (".fif", ".fif.gz"),
    is_raw_fif,
    _fif_parts,
    options={"allow_maxshield": True},
)
FILES = (
    FIF,
    Format("GDF", "gdf", (".gdf",), _begins(b"GDF "), clock="local", fault=_gdf_fault),
    Format("EEGLAB", "eeglab", (".set",), _begins(*_MATLAB), _with_fdt),
    Format(
        "Neuroscan",
        "cnt",
        (".cnt",),
        _begins(b"Version 3."),
        clock="machine",
        more=_sample_kind,
    ),
    Format("ANT Neuro", "ant", (".cnt",), _is_ant, clock="local"),
    Format("Persyst", "persyst", (".lay",), _is_persyst, _with_dat, clock="local"),
    Format("NEDF", "nedf", (".nedf",), _is_nedf),
    Format("eXimia", "eximia", (".nxe",), _is_eximia),
    Format(
        "SNIRF",
        "snirf",
        (".snirf",),
        _begins(_HDF5),
        clock="zoneless",
        unknown=datetime(2000, 1, 1, tzinfo=UTC),
    ),
    Format("KIT", "kit", (".sqd", ".con"), _is_kit, options={"stim": None}),
    Format("Curry", "curry", (".cdt",), _is_curry, _with_heads, clock="local"),
)
FOLDERS = (
    Format("EGI MFF", "egi", (".mff",), _is_egi, options={"events_as_annotations": True}),
    Format(
        "CTF",
        "ctf",
        (".ds",),
        _is_ctf,
        clock="local",
        unknown=datetime(1970, 1, 1, tzinfo=UTC),
    ),
)
