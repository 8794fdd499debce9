"""What the INPUT arguments name: files, folders, data sets.

Rules
-----
- The root is `--root`, else the folder named (a file's own folder; of several, the deepest common
  one). Names below it use forward slashes.
- A walk is sorted, follows links to files only, and leaves out hidden names, pipes and devices,
  data sets and outputs of mmprep. A file that is named is always taken.
- `-` reads standard input, relative to `--root`: paths, or lines of a manifest. Where the root is a
  data set, these name its records; elsewhere their sources are taken.
- `--include` and `--exclude` are matched against the name below the root and the last part of it;
  `**` spans folders.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from mmprep import files
from mmprep.errors import DataError, UsageError
from mmprep.manifest import codec
from mmprep.manifest.model import Record

RECORD, MARK = "dataset.json", ".mmprep"


@dataclass(frozen=True, slots=True)
class Inputs:
    """The raw files of a command.

    Parameters
    ----------
    root : Path
        The input root, absolute.
    names : tuple of str
        The files below the root, in walk order.
    named : frozenset of str
        Those that the caller named one by one: a reader must take them.
    folders : tuple of str
        The folders walked, absolute.
    datasets : tuple of Path
        Data sets of mmprep among the arguments.
    ids : frozenset of str
        The records of a data set that standard input names; empty for all.
    """

    root: Path
    names: tuple[str, ...]
    named: frozenset[str]
    folders: tuple[str, ...]
    datasets: tuple[Path, ...]
    ids: frozenset[str] = frozenset()

    def path(self, name: str) -> str:
        """Give the path of a file below the root."""
        return files.join(self.root, name)


def expand(
    arguments: Sequence[str],
    *,
    root: Path | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    output: Path | None = None,
) -> Inputs:
    """Find the files that the arguments name.

    Raises
    ------
    UsageError
        A path does not exist, lies outside the root, or is the output itself.
    DataError
        A name is not UTF-8: no manifest could hold it.
    """
    ids: set[str] = set()
    given = dict.fromkeys(_from_stdin(arguments, root, ids))
    paths = [_existing(argument) for argument in given]
    _refuse_output(paths, output)
    datasets = tuple(_dataset_of(path) for path in paths if _is_dataset(path))
    raw = [path for path in paths if not _is_dataset(path)]
    top = _absolute(root) if root is not None else _common_root(raw or list(datasets))
    found = dict(_files(raw, output))
    names = {name: named for path, named in found.items() if (name := _below(path, top))}
    kept = [name for name in names if chosen(name, include, exclude)]
    _check_utf8(kept, top)
    for name in kept:
        size_of(files.join(top, name))  # a link that leads nowhere is found before any work
    folders = {os.path.dirname(path) for path, named in found.items() if not named}  # noqa: PTH120
    folders |= {str(path) for path in raw if path.is_dir()}
    if datasets and not raw and (include or exclude):
        hint = "choose streams by DATASET#STREAM, records by manifest lines on standard input"
        raise UsageError("they choose raw files", where="--include, --exclude", hint=hint)
    named = frozenset(name for name in kept if names[name])
    return Inputs(top, tuple(kept), named, tuple(sorted(folders)), datasets, frozenset(ids))


def _check_utf8(names: Sequence[str], root: Path) -> None:
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError as error:
            shown = os.fsencode(root / name).decode(errors="backslashreplace")
            hint = "rename it, or leave it out with --exclude"
            raise DataError("its name is not UTF-8", where=shown, hint=hint) from error


def chosen(name: str, include: Sequence[str], exclude: Sequence[str]) -> bool:
    """Say whether `--include` and `--exclude` let a name through."""
    if include and not any(_matches(name, pattern) for pattern in include):
        return False
    return not any(_matches(name, pattern) for pattern in exclude)


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(name.rpartition("/")[2], pattern)


def size_of(path: str) -> int:
    """Give the bytes of an input.

    Raises
    ------
    UsageError
        It is not there: removed meanwhile, or a link that leads nowhere.
    """
    try:
        return files.stamp(path).n_bytes
    except OSError as error:
        hint = "leave it out with --exclude" if Path(path).is_symlink() else None
        raise UsageError(f"{error.strerror}", where=path, hint=hint) from error


def _from_stdin(arguments: Sequence[str], root: Path | None, ids: set[str]) -> Iterator[str]:
    """Read `-`: paths, or lines of a manifest; where the root is a data set, of its records."""
    for argument in arguments:
        if argument != "-":
            yield argument
            continue
        for line in filter(str.strip, sys.stdin):
            if not line.startswith("{"):
                yield _at(root, line.rstrip("\n"))
            elif ((root or Path()) / RECORD).is_file():
                ids.add(_record(line).id)
                yield str(root or Path())
            else:
                yield _at(root, _source(_record(line)))


def _at(root: Path | None, name: str) -> str:
    return str(root / name) if root is not None else name


def _record(line: str) -> Record:
    return codec.decode_record(line.encode(), where="standard input")


def _source(record: Record) -> str:
    if record.source is None:
        raise DataError("has no source", where=f"record {record.id!r} of standard input")
    return record.source


def _absolute(path: str | Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100 - links are kept as they are named


def _existing(argument: str) -> Path:
    if not argument:
        raise UsageError("an INPUT is empty", hint="name a file or folder")
    path = _absolute(argument)
    hint = "check the path, or the folder you are in"
    try:
        exists = path.exists()
    except OSError as error:
        raise UsageError(f"{error.strerror}", where=argument, hint=hint) from error
    if not exists:
        raise UsageError("does not exist", where=argument, hint=hint)
    if files.is_special(path):
        raise UsageError("is a pipe, socket or device", where=argument, hint="name a file")
    return path


def _refuse_output(paths: Sequence[Path], output: Path | None) -> None:
    for path in paths:
        if output is not None and path == _absolute(output):
            raise UsageError("is both input and output", where=str(path), hint="choose another -o")


def _is_dataset(path: Path) -> bool:
    return (path / RECORD).is_file() or (
        path.name in {"manifest.jsonl", RECORD} and (path.parent / RECORD).is_file()
    )


def _dataset_of(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def _common_root(paths: Sequence[Path]) -> Path:
    folders = [str(path if path.is_dir() else path.parent) for path in paths]
    return Path(os.path.commonpath(folders)) if folders else Path.cwd()


def _below(path: str, root: Path) -> str:
    top = files.join(root, "")
    if path.startswith(top) and os.sep == "/":
        return path[len(top) :]
    try:
        return Path(path).relative_to(root).as_posix()
    except ValueError as error:
        raise UsageError(
            f"does not lie below the root {root}", where=path, hint="name a wider --root"
        ) from error


def _files(paths: Sequence[Path], output: Path | None) -> Iterator[tuple[str, bool]]:
    """Give (path, named by the caller) of every file, each once, named ones first of all."""
    named = {str(path) for path in paths if not path.is_dir()}
    seen: set[str] = set()
    for path in paths:
        for name in _walk(path, output) if path.is_dir() else (str(path),):
            if name not in seen:
                seen.add(name)
                yield name, name in named


def _walk(top: Path, output: Path | None) -> Iterator[str]:
    skipped = _outputs(output)
    for folder, subfolders, names in os.walk(top):
        subfolders[:] = sorted(name for name in subfolders if _wanted(folder, name, skipped))
        yield from (
            os.path.join(folder, name)  # noqa: PTH118 - joined for every file of a walk
            for name in sorted(names)
            if not name.startswith(".") and not files.is_special(os.path.join(folder, name))  # noqa: PTH118
        )


def _outputs(output: Path | None) -> frozenset[str]:
    if output is None:
        return frozenset()
    whole = str(_absolute(output))
    return frozenset({whole, f"{whole}.incomplete"})


def _wanted(folder: str, name: str, skipped: frozenset[str]) -> bool:
    path = os.path.join(folder, name)  # noqa: PTH118
    if name.startswith(".") or path in skipped:
        return False
    return not os.path.isdir(os.path.join(path, MARK))  # noqa: PTH112, PTH118
