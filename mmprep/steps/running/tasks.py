"""The unit of work: a task of consecutive items, run in a worker, its outcome a plain value.

Rules
-----
- A task writes its files below its own folder and nowhere else; it can be run twice.
- An item's own error becomes a Failure; the other items of the task go on.
- What is wrong with the call or the disk (UsageError, SpaceError, TransientError) ends the run.
- Where memory runs out the engine decides: it tries the item once more, then goes on without it.
- Everything that comes back can be written as JSON: it goes into the journal as it is.
"""

from __future__ import annotations

import errno
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from pkgutil import resolve_name
from typing import Any, TypeAlias

from mmprep import files
from mmprep.errors import DataError, MmprepError, SpaceError, TransientError, UsageError

Note: TypeAlias = Callable[[str], None]
FATAL = (UsageError, SpaceError, TransientError)
DEFAULT_MEMORY_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Item:
    """What a reader claims: the smallest thing that can fail alone.

    Parameters
    ----------
    id : str
        Its id in the manifest.
    inputs : tuple of str
        The files it is made of, as paths that open.
    n_bytes : int
        Their sizes, summed.
    spec : dict
        All else that its result depends on, as JSON values.
    source : str
        Its name below the input root, for messages.
    root : str
        The input root: messages name files below it, so that they are the same anywhere.
    """

    id: str
    inputs: tuple[str, ...]
    n_bytes: int
    spec: dict[str, Any] = field(default_factory=dict)
    source: str = ""
    root: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """Consecutive items that one worker turns into files.

    Parameters
    ----------
    items : tuple of Item
        In order.
    spec : dict
        What the result depends on beside the items, as JSON values.
    folder : str
        Where the files go; set by the run.
    lost : dict
        Items that killed their worker twice: id -> (kind, reason, attempts).
    """

    id: str
    items: tuple[Item, ...]
    spec: dict[str, Any] = field(default_factory=dict)
    memory_bytes: int = DEFAULT_MEMORY_BYTES
    folder: str = ""
    lost: Mapping[str, tuple[str, str, int]] = field(default_factory=dict)

    @property
    def n_bytes(self) -> int:
        """The bytes of all inputs."""
        return sum(item.n_bytes for item in self.items)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The files of all items."""
        return tuple(dict.fromkeys(path for item in self.items for path in item.inputs))


@dataclass(frozen=True, slots=True)
class Failure:
    """An item that could not be done, and why.

    Parameters
    ----------
    trace : str, optional
        Where an error came from that nobody foresaw: a bug.
    """

    id: str
    source: str
    stage: str
    error: str
    message: str
    attempts: int = 1
    retryable: bool = False
    hint: str | None = None
    trace: str | None = None

    def line(self, renamed: Callable[[str], str] = str) -> dict[str, Any]:
        """Give the line of failures.jsonl.

        Parameters
        ----------
        renamed : callable
            Gives texts with other names of people.
        """
        texts = {name: renamed(getattr(self, name)) for name in ("id", "source")}
        texts |= {"stage": self.stage, "error": self.error, "message": renamed(self.message)}
        return {**texts, "attempts": self.attempts, "retryable": self.retryable}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a task.

    Parameters
    ----------
    value : dict or None
        What the step's function gave; None if the whole task failed.
    failures : tuple of Failure
        The items without a result.
    digests : dict
        Input path -> digest, of every input that could be read.
    fatal : MmprepError, optional
        What ends the run.
    """

    task_id: str
    value: dict[str, Any] | None
    failures: tuple[Failure, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    fatal: MmprepError | None = None


class Job:
    """What a step's function sees of its task while it works: folder, items, failures."""

    def __init__(self, task: Task, note: Note, *, keep_going: bool = True) -> None:
        self.task, self.folder, self._note = task, Path(task.folder), note
        self._keep_going = keep_going
        self.failures: list[Failure] = [
            lost_failure(item, *task.lost[item.id]) for item in task.items if item.id in task.lost
        ]
        self.digests: dict[str, str] = {}
        self._targets: dict[str, Path] = {}

    @property
    def is_stopped(self) -> bool:
        """Whether an item failed and the rest are not to be tried."""
        return bool(self.failures) and not self._keep_going

    @property
    def names(self) -> dict[str, str]:
        """The files that were given targets: name in the folder -> name in the data set."""
        return {path.name: name for name, path in self._targets.items()}

    def target(self, name: str) -> Path:
        """Give the path in the folder for a file of the data set, always the same one."""
        numbered = f"{len(self._targets)}{PurePosixPath(name).suffix}"
        return self._targets.setdefault(name, self.folder / numbered)

    def items(self) -> Iterator[Item]:
        """Go through the items, telling the engine which one is at work."""
        for item in self.task.items:
            if self.is_stopped:
                return
            if item.id not in self.task.lost:
                self._note(item.id)
                yield item

    @contextmanager
    def attempt(self, item: Item, stage: str) -> Iterator[None]:
        """Turn the error of one item into its Failure; end the run for what is no item's fault."""
        try:
            yield
        except (*FATAL, MemoryError):  # the engine tries again, with less beside it
            raise
        except OSError as error:
            self._storage(error)
            self._fail(item, stage, error)
        except Exception as error:  # a bug costs its item, with a traceback, and not the run
            self._fail(item, stage, error)

    def fingerprints(self) -> dict[str, str]:
        """Give the digests of all inputs; a damaged one fails its items, if nothing else has."""
        found = dict(self.digests)
        for item in self.task.items:
            for path in (path for path in item.inputs if path not in found):
                found[path] = ""
                try:
                    found[path] = files.digest(path)
                except OSError:
                    continue
                except DataError as error:
                    if item.id not in {failure.id for failure in self.failures}:
                        self._fail(item, "read", error)
        return found

    def _fail(self, item: Item, stage: str, error: Exception) -> None:
        self.failures.append(failure(item, stage, error, folder=str(self.folder)))

    def _storage(self, error: OSError) -> None:
        ours = str(error.filename or "").startswith(str(self.folder))
        if ours or error.errno in files.SPACE_ERRNOS:
            raise files.storage_error(error, self.folder) from error


@dataclass(frozen=True, slots=True)
class Work:
    """A step's function as an engine calls it: errors in, outcomes out.

    Parameters
    ----------
    do : callable or str
        `do(job, **options) -> dict`, a function of a module (it travels by name); or its name,
        `module:function`, so that whoever plans need not load what only workers use.
    options : dict
        What changes how the function works, not what it gives.
    is_look : bool
        It reads parts of its inputs only: they get no digests of the whole.
    keep_going : bool
        Try the other items of a task after one that fails.
    """

    do: Callable[..., dict[str, Any]] | str
    options: Mapping[str, Any] = field(default_factory=dict)
    is_look: bool = False
    keep_going: bool = True

    def __call__(self, task: Task, note: Note) -> Outcome:
        """Run a task; never raises for what its items or the disk do."""
        job = Job(task, note, keep_going=self.keep_going)
        value: dict[str, Any] | None = None
        try:
            job.folder.mkdir(parents=True, exist_ok=True)
            do = resolve_name(self.do) if isinstance(self.do, str) else self.do
            value = do(job, **self.options)
            value |= {"names": job.names} if job.names else {}
            digests = {} if self.is_look or job.is_stopped else job.fingerprints()
        except FATAL as error:
            return Outcome(task.id, None, fatal=error)
        except OSError as error:
            return Outcome(task.id, None, fatal=files.storage_error(error, job.folder))
        known = {path: text for path, text in digests.items() if text}
        return Outcome(task.id, value, tuple(job.failures), known)

    def lost(
        self, task: Task, item_id: str | None, kind: str, reason: str, attempts: int
    ) -> Outcome:
        """Give the outcome of a task whose worker never came back."""
        lost = [item for item in task.items if item_id in {None, item.id}]
        failures = tuple(lost_failure(item, kind, reason, attempts) for item in lost)
        return Outcome(task.id, None, failures)

    def without(self, task: Task, lost: Mapping[str, tuple[str, str, int]]) -> Task:
        """Give the same task without the items that kill their worker."""
        return replace(task, lost={**task.lost, **lost})


def digest(path: str) -> str:
    """Fingerprint an input; empty where it can't be read (its item has failed already)."""
    try:
        return files.digest(path)
    except (OSError, DataError):
        return ""


def failure(item: Item, stage: str, error: Exception, *, folder: str = "") -> Failure:
    """Name what went wrong with an item, its files by their names below the root."""
    message, trace = _message(item, error)
    for top in (item.root, folder):
        message = message.replace(f"{top}/", "") if top else message
    passing = {errno.EIO, errno.ETIMEDOUT, errno.ESTALE}
    retryable = isinstance(error, OSError) and error.errno in passing
    hint = error.hint if isinstance(error, MmprepError) else None
    return Failure(
        item.id,
        item.source,
        stage,
        type(error).__name__,
        message,
        retryable=retryable,
        hint=hint,
        trace=trace,
    )


def _message(item: Item, error: Exception) -> tuple[str, str | None]:
    """Give what is said of an error, and the traceback of one that nobody foresaw."""
    if isinstance(error, MmprepError):
        return str(error), None
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or item.source}: {error.strerror}", None
    trace = "".join(traceback.format_exception(error))
    return f"{type(error).__name__}: {error} (a bug in mmprep: MMPREP_DEBUG=1 shows where)", trace


def lost_failure(item: Item, kind: str, reason: str, attempts: int) -> Failure:
    """Name an item whose worker was lost."""
    return Failure(item.id, item.source, "work", kind, reason, attempts, retryable=True)


def changed_failure(item: Item, path: str) -> Failure:
    """Name an item whose input changed while it was read."""
    error = DataError("changed while it was read", where=path, hint="run the command again")
    return Failure(
        item.id, item.source, "read", "DataError", str(error), retryable=True, hint=error.hint
    )
