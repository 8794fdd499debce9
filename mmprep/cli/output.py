"""What the user sees: errors, progress, results.

Rules
-----
- stdout carries data only: the path of the written dataset.json, or one JSON object with `--json`.
- All else goes to stderr. Without a terminal there: no bar and no carriage return, a plain line
  now and then. `-q` leaves only errors.
"""

from __future__ import annotations

import json
import os
import sys
import time
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import click

from mmprep.errors import MmprepError, UsageError

PLAIN_PERIOD_S = 5.0
MAX_NAMED_FAILURES, MAX_CHARS = 20, 2000


def print_line(text: str) -> None:
    """Write a line to stderr, what inputs say in it made harmless: see `readable`."""
    click.echo(readable(text), err=True)


def readable(text: str) -> str:
    r"""Write control characters as \xNN, and cut lines that no one reads to their end.

    Names and cells come from inputs: they may hold anything, and be of any length.
    """
    if not text.isprintable():
        text = "".join(
            char if char == "\n" or unicodedata.category(char) != "Cc" else f"\\x{ord(char):02x}"
            for char in text
        )
    if len(text) <= MAX_CHARS:
        return text
    return "\n".join(
        line if len(line) <= MAX_CHARS else f"{line[:MAX_CHARS]}… ({len(line)} characters)"
        for line in text.split("\n")
    )


def print_error(error: MmprepError, command_path: str = "mmprep") -> None:
    """Write an error, a blank line and its hint; failed items one by one first.

    A wrong call without a hint of its own is sent to the command's help.
    """
    failures = getattr(error, "failures", ())
    for failure in failures[:MAX_NAMED_FAILURES]:
        print_line(f"mmprep: error: {_located(failure.message, failure.source)}")
        if failure.trace and os.environ.get("MMPREP_DEBUG") == "1":
            print_line(failure.trace)
    if len(failures) > MAX_NAMED_FAILURES:
        print_line(f"mmprep: ... and {len(failures) - MAX_NAMED_FAILURES} more")
    print_line(f"mmprep: error: {error}")
    hints = [failure.hint for failure in failures if failure.hint][:1]
    hints += [error.hint] if error.hint else []
    if not hints and isinstance(error, UsageError):
        hints = [f"{command_path} --help"]
    if hints:
        print_line("")
    for hint in dict.fromkeys(hints):
        print_line(f"hint: {hint}")


def _located(message: str, source: str) -> str:
    place, mark, _ = message.partition(": ")
    return message if mark and source in place else f"{source}: {message}"


def print_click_error(error: click.ClickException) -> None:
    """Write a wrong call the same way as any other error."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "mmprep"
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        print_line(error.format_message())
        return
    print_line(f"mmprep: error: {error.format_message()}")
    print_line("")
    print_line(f"hint: {path} --help")


def _opened(log: Path) -> TextIO:
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        return log.open("a", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{error.strerror}", where=f"--log-file {log}") from error


class Console:
    """Progress and messages of one run.

    Parameters
    ----------
    mode : str
        `auto` (a bar on a terminal, plain lines elsewhere), `always`, `never`.
    quiet : bool
        Only errors.
    log : Path, optional
        JSON lines, one an event.
    """

    def __init__(
        self, mode: str = "auto", *, quiet: bool = False, verbose: int = 0, log: Path | None = None
    ) -> None:
        self._bar_wanted = mode == "always" or (mode == "auto" and sys.stderr.isatty())
        self._silent = quiet or mode == "never"
        self._quiet, self._verbose = quiet, verbose
        self._log = _opened(log) if log else None
        self._bar: Any = None
        self._said: set[str] = set()
        self._n_done = self._n_items = self._n_failed = self._n_bytes = 0
        self._signal_s = 0.0
        self._label = ""
        self._started = self._printed = 0.0

    def begin(self, label: str, n_items: int, n_bytes: int) -> None:
        """Start a phase."""
        self._label, self._n_items = label, n_items
        self._n_done = self._n_failed = self._n_bytes = 0
        self._signal_s = 0.0
        self._started = self._printed = time.monotonic()
        self._event("begin", label=label, items=n_items, bytes=n_bytes)
        if self._bar_wanted and not self._silent:
            from tqdm import tqdm

            self._bar = tqdm(
                total=max(n_bytes, 1), unit="B", unit_scale=True, desc=label, leave=False
            )

    def advance(self, n_items: int, n_bytes: int, n_failed: int, signal_s: float) -> None:
        """Count finished items, and the seconds of signal that they hold."""
        self._n_done += n_items
        self._signal_s += signal_s
        self._n_bytes += n_bytes
        self._n_failed += n_failed
        self._event("done", items=n_items, bytes=n_bytes, failed=n_failed)
        if self._bar is not None:
            self._bar.set_postfix_str(
                f"{self._n_done}/{self._n_items}{self._signal()}, {self._n_failed} failed"
            )
            self._bar.update(n_bytes)
        elif not self._silent and (
            self._verbose or time.monotonic() - self._printed >= PLAIN_PERIOD_S
        ):
            self._printed = time.monotonic()
            print_line(self._plain())

    def _plain(self) -> str:
        seconds = max(time.monotonic() - self._started, 1e-9)
        rate = self._n_bytes / seconds / 1e6
        failed = f", {self._n_failed} failed" if self._n_failed else ""
        done = f"{self._n_done} of {self._n_items}{self._signal()}"
        return f"mmprep: {self._label}: {done}, {rate:.1f} MB/s{failed}"

    def _signal(self) -> str:
        """Say how much signal is done: hours, and times real time."""
        if not self._signal_s:
            return ""
        seconds = max(time.monotonic() - self._started, 1e-9)
        return f", {self._signal_s / 3600:.2f} h ({self._signal_s / seconds:.0f} x real time)"

    def end(self) -> None:
        """End the phase."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def say(self, text: str) -> None:
        """Tell a fact once."""
        self._tell("note", text)

    def warn(self, text: str) -> None:
        """Tell once a fact that may mean a loss."""
        self._tell("warning", text)

    def _tell(self, kind: str, text: str) -> None:
        if text in self._said:
            return
        self._said.add(text)
        self._event(kind, text=text)
        if self._quiet:
            return
        if self._bar is not None:
            self._bar.clear()
        print_line(f"mmprep: {kind}: {text}")

    def _event(self, kind: str, **fields: Any) -> None:
        if self._log is not None:
            self._log.write(json.dumps({"event": kind, **fields}, ensure_ascii=False) + "\n")
            self._log.flush()

    def close(self, status: str = "") -> None:
        """Put away bar and log."""
        self.end()
        if self._log is not None:
            self._event("end", status=status)
            self._log.close()
            self._log = None


def print_json(value: Mapping[str, Any]) -> None:
    """Write one JSON object to stdout."""
    click.echo(json.dumps(value, ensure_ascii=False, allow_nan=False))


def summary(result: Any) -> str:
    """Say in a line what a step did."""
    if result.status == "up-to-date":
        return f"{result.record.parent}: up to date"
    records, n_bytes = result.totals["records"], result.totals["bytes"]
    size = f"{records} records, {n_bytes / 1e6:.1f} MB"
    reused = f", {result.n_reused} of {result.n_tasks} tasks reused" if result.n_reused else ""
    return f"{result.record.parent}: {size}{reused}"


def print_result(result: Any, *, as_json: bool, quiet: bool) -> None:
    """Write what a step did: the record's path, or one JSON object."""
    if as_json:
        print_json(
            {
                "status": result.status,
                "dataset": str(result.record),
                "tasks": result.n_tasks,
                "reused": result.n_reused,
                "totals": result.totals,
                "failures": [failure.line() for failure in result.failures],
            }
        )
    elif result.status == "planned":
        for name, value in result.totals.items():
            print_line(f"mmprep: would: {name} {value}")
    else:
        click.echo(str(result.record))
    if result.status != "planned" and not quiet:
        print_line(f"mmprep: {summary(result)}")
    if result.failures and not quiet:
        print_line(
            f"mmprep: warning: published without {len(result.failures)} failed items,"
            " named in failures.jsonl"
        )
