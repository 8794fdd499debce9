"""The journal: which tasks are done, from which inputs, with which files.

Rules
-----
- One line a finished task, appended with one write. A torn last line is legal: it is not counted.
- A task is found again by its key (step, step version, options, items, specs) and by its inputs:
  size, modification time and inode as noted, or else the same digest.
- Files of an unfinished run are believed only if size and sha256 agree; those of a published data
  set by their size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from mmprep import files
from mmprep.steps.running.tasks import Failure, Outcome, Task, digest

_encoder = msgspec.json.Encoder()


class InputNote(msgspec.Struct, frozen=True):
    """An input as it was when a task read it; see `FileStamp`."""

    n_bytes: int
    mtime_ns: int
    inode: int
    digest: str
    archive_bytes: int = 0


class Entry(msgspec.Struct, frozen=True):
    """A finished task.

    Parameters
    ----------
    inputs : dict
        Path -> InputNote.
    value : dict or None
        What the step's function gave; `files` in it lists what the task wrote.
    """

    key: str
    inputs: dict[str, InputNote]
    value: dict[str, Any] | None
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True, slots=True)
class FileNote:
    """A file that a task wrote: its name below the task's folder, size and sha256."""

    path: str
    n_bytes: int
    sha256: str

    @classmethod
    def of(cls, folder: Path, path: str) -> FileNote:
        """Measure a file that has just been written."""
        whole = folder / path
        return cls(path, whole.stat().st_size, files.sha256(whole))

    def row(self) -> list[Any]:
        """Give the JSON form."""
        return [self.path, self.n_bytes, self.sha256]


def file_notes(value: Mapping[str, Any] | None) -> list[FileNote]:
    """List the files of a task's value."""
    return [FileNote(*row) for row in (value or {}).get("files", [])]


def task_key(identity: Mapping[str, Any], task: Task) -> str:
    """Give a task the name by which a later run finds it."""
    content = {
        "run": identity,
        "spec": task.spec,
        "items": [[item.id, item.source, item.spec, item.inputs] for item in task.items],
    }
    text = msgspec.json.encode(content, order="sorted")
    return hashlib.sha256(text).hexdigest()[:32]


def read(path: Path) -> dict[str, Entry]:
    """Read a journal; what is missing or torn is simply not there."""
    try:
        lines = path.read_bytes().split(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    entries = (_decode(line) for line in lines[:-1])
    return {entry.key: entry for entry in entries if entry is not None}


def _decode(line: bytes) -> Entry | None:
    try:
        return msgspec.json.decode(line, type=Entry)
    except msgspec.MsgspecError:
        return None


def mend(path: Path) -> None:
    """Cut a torn last line off, so that the next entry does not join it."""
    with suppress(FileNotFoundError), path.open("rb+") as file:
        file.truncate(file.read().rfind(b"\n") + 1)


def append(path: Path, entry: Entry) -> None:
    """Add a finished task, with one write."""
    with path.open("ab", buffering=0) as file:
        file.write(_encoder.encode(entry) + b"\n")


def encode(entries: Iterable[Entry]) -> bytes:
    """Write a whole journal."""
    return b"".join(_encoder.encode(entry) + b"\n" for entry in entries)


@dataclass(slots=True)
class Ledger:
    """The finished tasks of one folder.

    Parameters
    ----------
    folder : Path
        The data set or the unfinished one.
    published : bool
        Its files are durable and lie in their final places.
    """

    folder: Path
    published: bool
    entries: dict[str, Entry] = field(default_factory=dict)

    def place(self, key: str, note: FileNote) -> Path:
        """Say where a file of a task lies."""
        if not self.published:
            return task_folder(self.folder, key) / note.path
        entry = self.entries[key]
        final: dict[str, str] = (entry.value or {}).get("placed", {})
        return self.folder / final.get(note.path, note.path)

    def holds(self, key: str) -> bool:
        """Say whether all files of a task are there as noted."""
        return all(self._sound(key, note) for note in file_notes(self.entries[key].value))

    def _sound(self, key: str, note: FileNote) -> bool:
        path = self.place(key, note)
        try:
            if path.stat().st_size != note.n_bytes:
                return False
        except OSError:
            return False
        return self.published or files.sha256(path) == note.sha256


def task_folder(folder: Path, key: str) -> Path:
    """Give the folder into which a task writes."""
    return folder / ".mmprep" / "tasks" / key


def note_inputs(
    stamps: Mapping[str, files.FileStamp], digests: Mapping[str, str]
) -> dict[str, InputNote]:
    """Note the inputs of a task as they are."""
    return {path: _note(stamp, digests.get(path, "")) for path, stamp in stamps.items()}


def _note(stamp: files.FileStamp, text: str) -> InputNote:
    return InputNote(stamp.n_bytes, stamp.mtime_ns, stamp.inode, text, stamp.archive_bytes)


def unchanged(
    entry: Entry, stamps: Mapping[str, files.FileStamp], *, verify: bool
) -> dict[str, InputNote] | None:
    """Compare a task's inputs with what they were.

    Returns
    -------
    dict or None
        The inputs as they are now (their stamps may be new), None if one has other content.
    """
    if entry.inputs.keys() != stamps.keys():
        return None
    fresh: dict[str, InputNote] = {}
    for path, stamp in stamps.items():
        old = entry.inputs[path]
        same = old == _note(stamp, old.digest)
        if not (same and not verify) and (not old.digest or digest(path) != old.digest):
            return None
        fresh[path] = _note(stamp, old.digest)
    return fresh


def shared_digests(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Give each task the digests of its inputs that another one took."""
    taken = {
        (path, note.n_bytes, note.mtime_ns, note.inode): note
        for entry in entries.values()
        for path, note in entry.inputs.items()
        if note.digest
    }

    def known(path: str, note: InputNote) -> InputNote:
        return taken.get((path, note.n_bytes, note.mtime_ns, note.inode), note)

    return {
        key: msgspec.structs.replace(
            entry, inputs={path: known(path, note) for path, note in entry.inputs.items()}
        )
        for key, entry in entries.items()
    }


def entry_of(key: str, outcome: Outcome, stamps: Mapping[str, files.FileStamp]) -> Entry:
    """Make the journal's line of a finished task."""
    return Entry(key, note_inputs(stamps, outcome.digests), outcome.value, outcome.failures)
