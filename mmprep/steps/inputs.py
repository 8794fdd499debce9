"""What the INPUT arguments name: files, folders, data sets.

Rules
-----
- The root is `--root`, else the folder named (a file's own folder; of several, the deepest common
  one). Names below it use forward slashes.
- A walk is sorted, follows links to files only, and leaves out hidden names, pipes and devices,
  data sets and outputs of mmprep. A file that is named is always taken.
- A zip or tar is a folder, its members are files in it. One that can't be read, or lies in another
  one, is a file. One that `--exclude` names is not opened.
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

from mmprep import archives, files
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


def skipped_note(names: Sequence[str]) -> str:
    """Say that files of a folder were left out, since no reader of the step takes them."""
    return f"{len(names)} files that no reader takes were skipped ({names[0]}, ...)"


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
    found = dict(_files(raw, _LeftOut(_outputs(output), top, tuple(exclude))))
    names = {name: named for path, named in found.items() if (name := _below(path, top))}
    kept = [name for name in names if chosen(name, include, exclude)]
    _check_utf8(kept, top)
    for name in kept:
        size_of(files.join(top, name))  # a link that leads nowhere is found before any work
    folders = {os.path.dirname(path) for path, named in found.items() if not named}  # noqa: PTH120
    folders = {_on_disk(path) for path in folders}
    folders |= {str(path) for path in raw if path.is_dir()}
    if datasets and not raw and (include or exclude):
        hint = "choose streams by DATASET#STREAM, records by manifest lines on standard input"
        raise UsageError("they choose raw files", where="--include, --exclude", hint=hint)
    named = frozenset(name for name in kept if names[name])
    return Inputs(top, tuple(kept), named, tuple(sorted(folders)), datasets, frozenset(ids))


def _on_disk(folder: str) -> str:
    """Give a folder, or the one around the archive in which it lies."""
    archive = files.on_disk(folder)
    return folder if archive == folder and os.path.isdir(folder) else os.path.dirname(archive)  # noqa: PTH112, PTH120


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
        exists = path.exists() or files.exists(path)
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
    folders = [str(path if files.is_folder(path) else path.parent) for path in paths]
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


@dataclass(frozen=True, slots=True)
class _LeftOut:
    """What a walk does not go into.

    Parameters
    ----------
    paths : frozenset of str
        Outputs.
    root : Path
        Below which archives are named for `exclude`.
    """

    paths: frozenset[str]
    root: Path
    exclude: tuple[str, ...]

    def holds(self, path: str) -> bool:
        """Say whether an archive is left out."""
        name = os.path.relpath(path, self.root)
        return not chosen(Path(name).as_posix(), (), self.exclude)


def _files(paths: Sequence[Path], left_out: _LeftOut) -> Iterator[tuple[str, bool]]:
    """Give (path, named by the caller) of every file, each once, named ones first of all."""
    named = {str(path) for path in paths if not files.is_folder(path)}
    seen: set[str] = set()
    for path in paths:
        is_file = str(path) in named
        for name in (str(path),) if is_file else _walk(str(path), left_out):
            if name not in seen:
                seen.add(name)
                yield name, name in named


def _walk(top: str, left_out: _LeftOut) -> Iterator[str]:
    """Give the files of a folder or archive, then those of the folders and archives in it."""
    folder, subfolders, names = next(os.walk(top), ("", [], []))
    if not folder:
        yield from files.members(top)
        return
    below = [name for name in subfolders if _wanted(folder, name, left_out.paths)]
    for name in sorted(names):
        path = os.path.join(folder, name)  # noqa: PTH118 - joined for every file of a walk
        if name.startswith(".") or files.is_special(path):
            continue
        if not archives.is_archive(path):
            yield path
        elif left_out.holds(path):
            continue
        elif files.is_folder(path):
            below.append(name)
        else:
            yield path
    for name in sorted(below, key=_plain):
        yield from _walk(os.path.join(folder, name), left_out)  # noqa: PTH118


def _plain(name: str) -> tuple[str, str]:
    """Put an archive where its folder would stand."""
    return name.removesuffix(archives.suffix_of(name)), name


def _outputs(output: Path | None) -> frozenset[str]:
    if output is None:
        return frozenset()
    whole = str(_absolute(output))
    return frozenset({whole, f"{whole}.incomplete"})


def _wanted(folder: str, name: str, skipped: frozenset[str]) -> bool:
    path = os.path.join(folder, name)  # noqa: PTH118
    if name.startswith(".") or path in skipped or os.path.islink(path):  # noqa: PTH114
        return False
    return not os.path.isdir(os.path.join(path, MARK))  # noqa: PTH112, PTH118
