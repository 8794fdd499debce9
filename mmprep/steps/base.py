"""How every step runs, continues and commits: once, here.

    with open_run(step, options, run) as job:
        outcomes = job.map(Work(do), tasks)
        return job.commit(contents(outcomes))

Rules
-----
- Output grows in `OUT.incomplete/`, held by a lock that the kernel lets go of. Tasks write below
  `.mmprep/tasks/<key>/` there; the commit links their files to their final places.
- Commit: all data, one sync, then dataset.json, then an atomic exchange with OUT, then the sync of
  the folder around it. After any error OUT is as before.
- A task that the journal of OUT.incomplete or of OUT knows with the same inputs is not run again.
- What would be written is compared with what stands at OUT: the same dataset.json means that OUT
  is up to date; nothing is written and its time is touched.
- Only an OUT that carries our mark `.mmprep/` is ever replaced.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import msgspec

from mmprep import files
from mmprep.errors import DataError, SpaceError, TransientError, UsageError
from mmprep.steps.running import journal, seen
from mmprep.steps.running.contents import RECORD, Contents, Made, Placed, StepName, Written
from mmprep.steps.running.tasks import Failure, Item, Outcome, Task, Work, changed_failure

MARK = ".mmprep"
MANIFEST_BYTES = 1 << 20  # what a data set takes beside its data, at least
_KEPT_ON_CLEARING = frozenset({MARK})

__all__ = [
    "RECORD",
    "Contents",
    "FailedItemsError",
    "Failure",
    "Item",
    "Outcome",
    "Placed",
    "Progress",
    "Run",
    "RunOptions",
    "Silent",
    "StepName",
    "StepResult",
    "Task",
    "Work",
    "open_run",
    "serial",
]


class Progress(Protocol):
    """What a run tells whoever watches it."""

    def begin(self, label: str, n_items: int, n_bytes: int) -> None:
        """Start a phase."""

    def advance(self, n_items: int, n_bytes: int, n_failed: int, signal_s: float) -> None:
        """Count finished items, and the seconds of signal that they hold (0 where not known)."""

    def end(self) -> None:
        """End the phase."""

    def say(self, text: str) -> None:
        """Tell a fact worth knowing."""

    def warn(self, text: str) -> None:
        """Tell a fact that may mean a loss."""


class Silent:
    """Progress that nobody watches."""

    def begin(self, label: str, n_items: int, n_bytes: int) -> None:
        """Start a phase."""

    def advance(self, n_items: int, n_bytes: int, n_failed: int, signal_s: float) -> None:
        """Count finished items, and the seconds of signal that they hold (0 where not known)."""

    def end(self) -> None:
        """End the phase."""

    def say(self, text: str) -> None:
        """Tell a fact worth knowing."""

    def warn(self, text: str) -> None:
        """Tell a fact that may mean a loss."""


Engine = Callable[[Work, Iterable[Task]], Generator[Outcome, None, None]]


def serial(work: Work, tasks: Iterable[Task]) -> Generator[Outcome, None, None]:
    """Run tasks one after the other in this process."""
    return (work(task, _unheard) for task in tasks)


def _unheard(item_id: str) -> None:
    """Tell nobody which item is at work."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What all commands that write a data set have in common; none of it changes content.

    Parameters
    ----------
    output : Path
        Absolute.
    depfile : Depfile, optional
        Written before the data set is published: there is never one without the other.
    """

    output: Path
    force: bool = False
    dry_run: bool = False
    keep_going: bool = True
    max_failures: str = "0"
    lock_wait_s: float = 0.0
    verify_inputs: bool = False
    cpus: int = 1
    depfile: Depfile | None = None


@dataclass(frozen=True, slots=True)
class Depfile:
    """The rule for make, and how the caller named things.

    Parameters
    ----------
    named : callable
        Absolute path -> the name that the caller's Makefile has for it.
    """

    path: Path
    target: str
    named: Callable[[str], str]

    def write(self, inputs: Iterable[str]) -> None:
        """Write the rule, unless the same one stands there: its folder may be a watched one."""
        text = files.depfile(self.target, map(self.named, map(files.on_disk, inputs))).encode()
        if self.path.is_file() and self.path.read_bytes() == text:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        files.write_whole(self.path, text)


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step did.

    Parameters
    ----------
    status : str
        `built`, `up-to-date`, `partial` (published with failures) or `planned` (dry run).
    record : Path
        The data set's dataset.json.
    inputs : tuple of str
        All files and walked folders that it was made of, for the depfile.
    """

    status: str
    record: Path
    inputs: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    n_tasks: int = 0
    n_reused: int = 0
    totals: dict[str, Any] = field(default_factory=dict)


class FailedItemsError(DataError):
    """More items failed than the caller allows; nothing was published."""

    def __init__(self, failures: Sequence[Failure], n_items: int) -> None:
        n_failed = len(failures)
        super().__init__(
            f"{n_failed} of {n_items} items failed, nothing was published",
            hint=f"mend or --exclude them, or publish without them: --max-failures {n_failed}",
        )
        self.failures = tuple(failures)

    def __reduce__(self) -> tuple[object, ...]:
        return FailedItemsError, (self.failures, len(self.failures))


@contextmanager
def open_run(
    step: StepName,
    options: Mapping[str, Any],
    run: RunOptions,
    *,
    root: Path,
    engine: Engine = serial,
    progress: Progress | None = None,
) -> Iterator[Run]:
    """Begin the run of a step; what the disk does to it becomes an error that says what to do.

    Raises
    ------
    UsageError
        OUT is a file, or a folder that mmprep did not make.
    TransientError
        Another run writes there.
    """
    session = Run(step, dict(options), run, root, engine=engine, progress=progress or Silent())
    try:
        yield session
    except SpaceError as error:
        raise session.out_of_space(error) from error
    except OSError as error:
        trouble = files.storage_error(error, run.output)
        if isinstance(trouble, SpaceError):
            trouble = session.out_of_space(trouble)
        raise trouble from error
    finally:
        session.close()


def standing(step: StepName, run: RunOptions, key: str | None) -> StepResult | None:
    """Give the result where the corpus is unchanged and its data set stands; nothing is opened."""
    if key is None or run.force or run.dry_run or run.verify_inputs:
        return None
    if run.output.with_name(f"{run.output.name}.incomplete").exists():
        return None
    found = seen.standing(run.output, step.record, key)
    if found is None:
        return None
    inputs = (*found.inputs, *found.folders)
    if run.depfile is not None:
        run.depfile.write(inputs)
    record = run.output / step.record
    os.utime(record)
    return StepResult("up-to-date", record, inputs, (), found.n_tasks, found.n_tasks, found.totals)


class Run:
    """One run of one step on one OUT."""

    def __init__(
        self,
        step: StepName,
        options: dict[str, Any],
        run: RunOptions,
        root: Path,
        *,
        engine: Engine,
        progress: Progress,
    ) -> None:
        self.step, self.options, self.run, self.root = step, options, run, root
        self.progress, self._engine = progress, engine
        self.out = run.output
        self.partial = self.out.with_name(f"{self.out.name}.incomplete")
        refuse_foreign(self.out)
        refuse_foreign(self.partial)
        self._lock: int | None = None
        self._locked = False
        self._ledgers: list[journal.Ledger] = []
        self._entries: dict[str, journal.Entry] = {}
        self._places: dict[str, journal.Ledger] = {}
        self._n_items = 0
        self._n_reused = 0
        self._pace = _Pace()
        self._load()

    def close(self) -> None:
        """Let go of the lock."""
        if self._locked and not any(path.is_file() for path in self.partial.rglob("*")):
            files.remove_tree(self.partial)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _load(self) -> None:
        if self.run.force:
            return
        if self.partial.is_dir() and not self.run.dry_run:
            self._hold()
            journal.mend(self.partial / MARK / "journal.jsonl")
            entries = journal.read(self.partial / MARK / "journal.jsonl")
            self._ledgers.append(journal.Ledger(self.partial, published=False, entries=entries))
        entries = journal.read(self.out / MARK / "committed.jsonl")
        if (self.out / self.step.record).exists():
            self._ledgers.append(journal.Ledger(self.out, published=True, entries=entries))

    def expect(self, n_bytes: int) -> None:
        """Note about how many bytes the data set will take: said where the disk is full."""
        self._pace.n_expected = n_bytes

    def out_of_space(self, error: SpaceError) -> SpaceError:
        """Give back what unfinished tasks hold, and say how many bytes are needed and free."""
        unfinished = [ledger.entries for ledger in self._ledgers if not ledger.published]
        kept = {*self._entries, *(key for entries in unfinished for key in entries)}
        tasks = self.partial / MARK / "tasks"
        for folder in tasks.iterdir() if tasks.is_dir() else ():
            if folder.name not in kept:
                files.remove_tree(folder)
        reason = error.what.rpartition(", ")[0] or error.what
        needed, free = self._pace.n_needed, files.free_bytes(self.out)
        return SpaceError(
            f"{reason}: about {needed} bytes more are needed, {free} are free",
            where=str(self.out),
            hint=error.hint,
        )

    def _hold(self) -> None:
        """Lock OUT.incomplete, made if need be."""
        if self._locked:
            return
        until = time.monotonic() + self.run.lock_wait_s
        while True:
            try:
                self._lock = files.hold(self.partial)
                break
            except TransientError:
                if time.monotonic() >= until:
                    raise
                time.sleep(0.05)
        self._locked = True
        (self.partial / MARK).mkdir(exist_ok=True)

    @property
    def identity(self) -> dict[str, Any]:
        """What a task's result depends on beside the task."""
        return {"step": self.step.name, "version": self.step.version, "options": self.options}

    def map(self, work: Work, tasks: Sequence[Task], *, label: str = "") -> list[Outcome]:
        """Run tasks, or take their results from a journal; outcomes in the order of the tasks.

        Raises
        ------
        FailedItemsError
            At the first failed item with `--fail-fast`.
        """
        self._n_items = max(self._n_items, sum(len(task.items) for task in tasks))
        keyed = {journal.task_key(self.identity, task): task for task in tasks}
        stamps = {key: _stamps(task) for key, task in keyed.items()}
        self.progress.begin(label or self.step.name, len(tasks), sum(t.n_bytes for t in tasks))
        found = {key: self._known(key, stamps[key]) for key in keyed}
        todo = [key for key, outcome in found.items() if outcome is None]
        self._n_reused += len(keyed) - len(todo)
        for key, outcome in found.items():
            self._count(outcome, keyed[key])
        self._pace.begin(keyed.values())
        for key, outcome in found.items():
            self._pace.note(outcome, keyed[key])
        self._execute(work, {key: keyed[key] for key in todo}, stamps, found)
        self.progress.end()
        return [outcome for outcome in found.values() if outcome is not None]

    def _count(self, outcome: Outcome | None, task: Task) -> None:
        if outcome is not None:
            signal_s = float((outcome.value or {}).get("signal_s", 0.0))
            self.progress.advance(1, task.n_bytes, len(outcome.failures), signal_s)

    def _known(self, key: str, stamps: Mapping[str, files.FileStamp]) -> Outcome | None:
        """Look a task up in the journals."""
        for ledger in self._ledgers:
            entry = ledger.entries.get(key)
            if entry is None or not _settled(entry, ledger):
                continue
            inputs = journal.unchanged(entry, stamps, verify=self.run.verify_inputs)
            if inputs is not None and ledger.holds(key):
                self._entries[key] = msgspec.structs.replace(entry, inputs=inputs)
                self._places[key] = ledger
                digests = {path: note.digest for path, note in inputs.items()}
                return Outcome(key, entry.value, entry.failures, digests)
        return None

    def _execute(
        self,
        work: Work,
        tasks: Mapping[str, Task],
        stamps: Mapping[str, Mapping[str, files.FileStamp]],
        found: dict[str, Outcome | None],
    ) -> None:
        if not tasks:
            return
        self._hold()
        ledger = journal.Ledger(self.partial, published=False)
        placed = [self._placed_task(key, task) for key, task in tasks.items()]
        work = replace(work, keep_going=self.run.keep_going)
        with closing(self._engine(work, placed)) as results:
            for (key, task), result in zip(tasks.items(), results, strict=True):
                outcome = replace(_checked(result, task, stamps[key]), task_id=key)
                self._keep(key, outcome, stamps[key], ledger)
                found[key] = outcome
                self._count(outcome, task)
                self._pace.note(outcome, task)
                if outcome.failures and not self.run.keep_going:
                    raise FailedItemsError(self.failures, self._n_items)

    def _placed_task(self, key: str, task: Task) -> Task:
        folder = journal.task_folder(self.partial, key)
        files.remove_tree(folder)
        return replace(task, folder=str(folder))

    def _keep(
        self,
        key: str,
        outcome: Outcome,
        stamps: Mapping[str, files.FileStamp],
        ledger: journal.Ledger,
    ) -> None:
        if outcome.fatal is not None:
            raise outcome.fatal
        entry = journal.entry_of(key, outcome, stamps)
        journal.append(self.partial / MARK / "journal.jsonl", entry)
        self._entries[key] = entry
        self._places[key] = ledger
        ledger.entries[key] = entry

    def supersede(self, outcome: Outcome, value: dict[str, Any]) -> None:
        """Keep of a task only what it asked for: another task does its work again."""
        entry = self._entries[outcome.task_id]
        self._entries[outcome.task_id] = msgspec.structs.replace(entry, value=value, failures=())

    @property
    def failures(self) -> list[Failure]:
        """The failures of all tasks that count, in order."""
        return [failure for entry in self._entries.values() for failure in entry.failures]

    def placed(self, outcome: Outcome, names: Mapping[str, str]) -> dict[str, Placed]:
        """Give the files of a task their final names.

        Parameters
        ----------
        names : dict
            Name below the task's folder -> final name; the files left out keep theirs.
        """
        key = outcome.task_id
        ledger, entry = self._places[key], self._entries[key]
        notes = journal.file_notes(entry.value)
        given = {**(entry.value or {}).get("names", {}), **names}
        final = {note.path: given.get(note.path, note.path) for note in notes}
        placed = {
            final[note.path]: Placed(ledger.place(key, note), note.n_bytes, note.sha256)
            for note in notes
        }
        value = {**(entry.value or {}), "placed": final}
        self._entries[key] = msgspec.structs.replace(entry, value=value)
        return placed

    def preview(self, tasks: Sequence[Task], n_bytes: int) -> StepResult:
        """Say what a run would do (`--dry-run`)."""
        totals = {
            "items": sum(len(task.items) for task in tasks),
            "tasks": len(tasks),
            "input_bytes": sum(task.n_bytes for task in tasks),
            "output_bytes_about": n_bytes,
            "free_bytes": files.free_bytes(self.out),
        }
        inputs = tuple(path for task in tasks for path in task.inputs)
        return StepResult(
            "planned", self.out / self.step.record, inputs, n_tasks=len(tasks), totals=totals
        )

    def commit(self, contents: Contents) -> StepResult:
        """Publish a data set, or find that it stands there already.

        Raises
        ------
        FailedItemsError
            More items failed than `--max-failures` allows.
        """
        self.check_failures()
        written = Written.of(contents, self._made())
        inputs = (*written.inputs, *contents.folders)
        if self.run.depfile is not None:
            self.run.depfile.write(inputs)
        status = "partial" if self.failures else "built"
        if not self.run.force and self._stands(written):
            status = "up-to-date"
            os.utime(self.out / self.step.record)
            self._drop_leftover()
        else:
            self._publish(written)
        return StepResult(
            status,
            self.out / self.step.record,
            inputs,
            tuple(self.failures),
            len(self._entries),
            self._n_reused,
            written.totals,
        )

    def _made(self) -> Made:
        """Say how the data set came to be."""
        self._entries = journal.shared_digests(self._entries)
        notes: dict[str, journal.InputNote] = {}
        for entry in self._entries.values():
            notes.update(entry.inputs)
        return Made(self.step, self.options, self.root, tuple(self.failures), notes)

    def check_failures(self) -> None:
        """Stop if more items failed than `--max-failures` allows.

        Raises
        ------
        FailedItemsError
            Names them all.
        """
        if len(self.failures) > allowed_failures(self.run.max_failures, self._n_items):
            raise FailedItemsError(self.failures, self._n_items)

    def _stands(self, written: Written) -> bool:
        try:
            if (self.out / self.step.record).read_bytes() != written.record:
                return False
            return all(
                (self.out / name).stat().st_size == n_bytes
                for name, n_bytes in written.sizes.items()
            )
        except OSError:
            return False

    def _drop_leftover(self) -> None:
        if (self.partial / self.step.record).exists():
            files.remove_tree(self.partial)

    def _publish(self, written: Written) -> None:
        self._hold()
        _clear(self.partial)
        for name, placed in written.contents.placed.items():
            files.link(placed.source, self.partial / name)
        for name, data in written.texts.items():
            files.write_new(self.partial / name, data)
        files.write_new(self.partial / MARK / "committed.jsonl", self._committed(written))
        files.sync_tree(self.partial)
        files.write_whole(self.partial / self.step.record, written.record)
        self._exchange()

    def _committed(self, written: Written) -> bytes:
        media_root = written.contents.media_root
        note = {
            "root": str(self.root),
            "media_root": str(media_root) if media_root else None,
            "inputs": written.inputs,
        }
        files.write_new(self.partial / MARK / "run.json", msgspec.json.encode(note) + b"\n")
        if (data := self._seen(written)) is not None:
            files.write_new(self.partial / MARK / seen.NAME, data)
        return journal.encode(self._entries.values())

    def _seen(self, written: Written) -> bytes | None:
        """Give what the next run tells an unchanged corpus by."""
        corpus = written.contents.corpus
        if corpus is None or self.failures:
            return None
        found = seen.Seen(
            corpus.key,
            seen.stamps(self._made().inputs_of(written.contents), corpus.beside),
            written.contents.folders,
            hashlib.sha256(written.record).hexdigest(),
            len(self._entries),
            written.totals,
        )
        return msgspec.json.encode(found) + b"\n"

    def _exchange(self) -> None:
        if not self.out.exists():
            self.partial.rename(self.out)
            files.sync_folder(self.out.parent)
        else:
            with files.locked(self.out):
                files.exchange(self.partial, self.out)
                files.sync_folder(self.out.parent)
                files.remove_tree(self.partial)
        files.remove_tree(self.out / MARK / "tasks")
        files.remove_tree(self.out / MARK / "journal.jsonl")


@dataclass(slots=True)
class _Pace:
    """How far a map is: the bytes read and written, to tell what the rest will take."""

    n_expected: int = 0
    n_left: int = 0
    n_read: int = 0
    n_written: int = 0

    def begin(self, tasks: Iterable[Task]) -> None:
        """Start a map."""
        self.n_left, self.n_read, self.n_written = sum(task.n_bytes for task in tasks), 0, 0

    def note(self, outcome: Outcome | None, task: Task) -> None:
        """Count a task that is done."""
        if outcome is not None:
            self.n_left -= task.n_bytes
            self.n_read += task.n_bytes
            self.n_written += sum(note.n_bytes for note in journal.file_notes(outcome.value))

    @property
    def n_needed(self) -> int:
        """Estimate what the rest takes: as much a byte as what is done did."""
        if self.n_written:
            rest = self.n_left * self.n_written // max(self.n_read, 1)
        else:
            rest = self.n_expected or self.n_left
        return max(rest, MANIFEST_BYTES)


def _stamps(task: Task) -> dict[str, files.FileStamp]:
    stamps = {}
    for path in task.inputs:
        try:
            stamps[path] = files.stamp(path)
        except OSError as error:
            raise UsageError(f"{error.strerror}", where=path) from error
    return stamps


def _checked(outcome: Outcome, task: Task, before: Mapping[str, files.FileStamp]) -> Outcome:
    """Fail the items whose inputs changed while they were read."""
    failures = list(outcome.failures)
    for item in task.items:
        changed = [path for path in item.inputs if _stamp_now(path) != before[path]]
        if changed and item.id not in {failure.id for failure in failures}:
            failures.append(changed_failure(item, changed[0]))
    if len(failures) == len(outcome.failures):
        return outcome
    return replace(outcome, failures=tuple(failures))


def _stamp_now(path: str) -> files.FileStamp | None:
    try:
        return files.stamp(path)
    except (OSError, DataError):
        return None


def _settled(entry: journal.Entry, ledger: journal.Ledger) -> bool:
    """Say whether a task need not be tried again.

    A published failure was accepted by whoever published it, unless a retry may help; one of an
    unfinished run is what the next run is for.
    """
    if ledger.published:
        return not any(failure.retryable for failure in entry.failures)
    return not entry.failures


def refuse_foreign(folder: Path) -> None:
    """Refuse an OUT that mmprep did not make.

    Raises
    ------
    UsageError
        It is a file, or a folder with content and without our mark.
    """
    hint = "choose another -o, or remove it yourself"
    for parent in folder.parents:
        if parent.exists():
            if not parent.is_dir() or not os.access(parent, os.W_OK):
                raise UsageError("no folder can be made there", where=str(folder), hint=hint)
            break
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError("is no folder", where=str(folder), hint=hint)
    if folder.is_dir() and not (folder / MARK).is_dir() and any(folder.iterdir()):
        raise UsageError("was not made by mmprep and is not empty", where=str(folder), hint=hint)


def allowed_failures(text: str, n_items: int) -> int:
    """Read `--max-failures`: a count, or a share of the items in percent.

    Raises
    ------
    UsageError
        Neither.
    """
    is_share = text.endswith("%")
    try:
        number = Fraction(text[:-1]) if is_share else Fraction(int(text))
    except (ValueError, ZeroDivisionError) as error:
        raise UsageError(
            f"{text!r} is no count and no percentage", where="--max-failures"
        ) from error
    if number < 0 or (is_share and number > 100):
        raise UsageError(f"{text} is out of range", where="--max-failures", hint="3, or 10%")
    return int(number * n_items / 100) if is_share else int(number)


def _clear(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name not in _KEPT_ON_CLEARING:
            files.remove_tree(path)
