"""The command group: lazy commands, one place for errors and exit codes.

Exit codes: 0 done or up to date; 1 checked and found wrong; 2 usage; 3 bad input; 70 a bug;
75 worth a retry; 130 Ctrl-C; 141 closed pipe; 143 SIGTERM.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click

from mmprep.cli import output
from mmprep.errors import DataError, MmprepError
from mmprep.files import SPACE_ERRNOS

COMMANDS = {
    "convert": "Turn raw tables, audio and video into Parquet, shards and a manifest.",
    "align": "Put the streams of a session on common timestamps.",
    "mfcc": "Compute MFCC or log-mel features of audio.",
    "inspect": "Say what is in a file or data set, declared and measured.",
    "manifest": "Validate, split, count and export manifests.",
}
BUG, INTERRUPTED, CLOSED_PIPE, TERMINATED = 70, 130, 141, 143


class ClosedPipeError(Exception):
    """Whoever read the output has gone; click would make an exit 1 of the OSError."""


@contextmanager
def _pipe() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise ClosedPipeError from error


class LazyGroup(click.Group):
    """A group that imports a command when it is called, not before."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the arguments; `--help` writes here."""
        with _pipe():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _pipe():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands in the order of the work."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"mmprep.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, or name the ones that come close."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            raise click.UsageError(f"there is no command {name!r}. {_nearest(name)}", ctx)
        return super().resolve_command(ctx, args)


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, COMMANDS, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"Commands: {', '.join(COMMANDS)}"


def _print_version(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"mmprep {version('mmprep')}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Each command has its own --help. Documentation: README.md",
)
@click.option(
    "--version",
    is_flag=True,
    callback=_print_version,
    expose_value=False,
    is_eager=True,
    help="Show the version and exit.",
)
def cli() -> None:
    """Turn raw multimodal recordings into aligned, verified, trainable data sets.

    Each command reads raw files or data sets and writes one data set directory:
    dataset.json, manifest.jsonl and the arrays that they name.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run mmprep and exit with the code that its outcome has."""
    # Workers compute. Here the threads that numpy starts would only spin beside them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    signal.signal(signal.SIGTERM, _terminate)
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run mmprep and give the exit code."""
    try:
        cli.main(arguments, prog_name="mmprep", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (KeyboardInterrupt, click.Abort):
        output.print_line("mmprep: stopped: run the same command again to continue")
        return INTERRUPTED
    except ClosedPipeError:
        _silence_stdout()
        return CLOSED_PIPE
    except Exception as error:
        return _report(error, _command_path(arguments))
    return 0


def _command_path(arguments: list[str] | None) -> str:
    """Name the command that was called, for hints."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    n_words = 2 if words[:1] == ["manifest"] else 1
    return " ".join(["mmprep", *words[:n_words]]) if words and words[0] in COMMANDS else "mmprep"


def _report(error: Exception, command_path: str) -> int:
    """Print an error for its reader and give its exit code."""
    if isinstance(error, click.ClickException):
        output.print_click_error(error)
        return error.exit_code
    if isinstance(error, MmprepError):
        output.print_error(error, command_path)
        _traceback_if_asked()
        return error.exit_code
    if isinstance(error, OSError) and error.errno in SPACE_ERRNOS:
        output.print_line(f"mmprep: error: standard output: {error.strerror}")
        return DataError.exit_code
    traceback.print_exception(error)
    output.print_line("mmprep: error: this is a bug in mmprep, please report the lines above")
    return BUG


def _traceback_if_asked() -> None:
    if os.environ.get("MMPREP_DEBUG") == "1":
        traceback.print_exc()


def _silence_stdout() -> None:
    # Python would print "Exception ignored" when it flushes the closed pipe at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _terminate(number: int, frame: FrameType | None) -> None:
    raise SystemExit(TERMINATED)
