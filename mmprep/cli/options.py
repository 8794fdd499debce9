"""Every option that more than one command has, defined once."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

inputs = click.argument("inputs", nargs=-1, metavar="INPUT...")
output = click.option(
    "-o", "--output", required=True, metavar="OUT", help="The data set directory to write."
)


class FiniteRange(click.FloatRange):
    """A range of numbers, of which NaN is none."""

    def _describe_range(self) -> str:
        return "" if self.min is None and self.max is None else super()._describe_range()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read a number."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is no number", param, ctx)
        return number


def chain(
    *decorators: Callable[[Command], Command], section: str | None = None
) -> Callable[[Command], Command]:
    """Make one decorator of several, applied so that the help lists them in this order.

    Parameters
    ----------
    section : str, optional
        The heading under which `SectionedCommand` lists them.
    """

    def decorate(command: Command) -> Command:
        before = len(getattr(command, "__click_params__", ()))
        for decorator in reversed(decorators):
            command = decorator(command)
        for option in getattr(command, "__click_params__", ())[before:] if section else ():
            _SECTIONS[id(option)] = section or ""
        return command

    return decorate


_SECTIONS: dict[int, str] = {}


class SectionedCommand(click.Command):
    """A command whose help lists its options under headings, in the order given."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record is not None and isinstance(option, click.Option):
                sections.setdefault(_SECTIONS.get(id(option), "Options"), []).append(record)
        for name, records in sections.items():
            with formatter.section(name):
                formatter.write_dl(records)


def _read_config(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is None or ctx.resilient_parsing:
        return
    import tomllib

    try:
        table = tomllib.loads(Path(value).read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{value}: {error}", ctx) from error
    table = table.get(ctx.info_name or "", table)
    known = _by_long_name(ctx.command)
    unknown = [
        name for name, entry in table.items() if _dashed(name) not in known and _plain(entry)
    ]
    if unknown:
        raise click.UsageError(f"{value}: {ctx.info_name} has no option {unknown[0]!r}", ctx)
    found = {known[_dashed(n)]: entry for n, entry in table.items() if _dashed(n) in known}
    given = {str(option.name): _listed(option, entry) for option, entry in found.items()}
    ctx.default_map = {**(ctx.default_map or {}), **given}


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _by_long_name(command: click.Command) -> dict[str, click.Parameter]:
    """Name the options as on the command line, without the dashes."""
    return {
        name.lstrip("-"): parameter
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
    }


def _listed(parameter: click.Parameter, entry: Any) -> Any:
    """Let one value stand for a list of one."""
    takes_many = parameter.multiple or parameter.nargs == -1
    return [entry] if takes_many and isinstance(entry, str) else entry


def _plain(entry: Any) -> bool:
    """Tell an option from the table of another command."""
    return not isinstance(entry, dict)


shard_size = click.option(
    "--shard-size",
    default="256MiB",
    show_default=True,
    metavar="BYTES",
    help="Arrays are cut into files (shards) of at most this, a longer record excepted.",
)

sessions = click.option(
    "--sessions",
    metavar="FILE",
    help="In place of INPUT: a table of one row a session (session, subject), one column a stream"
    " that holds PATH[#STREAM] relative to the table, and <stream>.start .tz .latency_ms .clock"
    " .events; `mmprep inspect --sessions` drafts it.",
)
ids = click.option(
    "--ids",
    metavar="FILE",
    help="A table with the columns old and new: what people and sessions are called in all that is"
    " written, names of sources included.",
)
labels = chain(
    click.option(
        "--labels",
        multiple=True,
        metavar="FILE",
        help="Join the columns of a table; once a level (subject, session, ...). begin_s and end_s"
        " are seconds after the session's origin.",
    ),
    click.option(
        "--on",
        multiple=True,
        metavar="KEY[=COLUMN],...",
        help="The fields to join on, and their columns in the table; one for all, or one each.",
    ),
    click.option(
        "--label", metavar="COLUMN", help="The column that is the class.  [default: label]"
    ),
    click.option(
        "--label-bins",
        metavar="EDGES",
        help="Make classes of numbers: 3,6 or, with names, low<3<mid<6<high.",
    ),
)

selection = chain(
    click.option("--root", metavar="DIR", help="The folder below which names and ids begin."),
    click.option(
        "--include",
        multiple=True,
        metavar="GLOB",
        help="Take only files so named, e.g. '*_eeg.tsv'.",
    ),
    click.option("--exclude", multiple=True, metavar="GLOB", help="Leave files so named out."),
)

engine = chain(
    click.option(
        "-j",
        "--jobs",
        type=click.IntRange(min=1),
        envvar="MMPREP_JOBS",
        show_envvar=True,
        help="Worker processes [default: the CPUs this process may use].",
    ),
    click.option(
        "--engine",
        type=click.Choice(["serial", "pool"]),
        default="pool",
        show_default=True,
        help="Where the work is done: in many processes, or in one, to find faults.",
    ),
    click.option(
        "--timeout",
        type=FiniteRange(min=0, min_open=True),
        metavar="S",
        help="Give up a file or recording after so many seconds.",
    ),
)

resilience = chain(
    click.option("--force", is_flag=True, help="Rebuild what is up to date."),
    click.option("-n", "--dry-run", is_flag=True, help="Say what would be done; write nothing."),
    click.option(
        "--keep-going/--fail-fast",
        default=True,
        show_default=True,
        help="Try every file, or stop at the first that fails.",
    ),
    click.option(
        "--max-failures",
        default="0",
        show_default=True,
        metavar="N|P%",
        help="Write the data set in spite of so many files that fail.",
    ),
    click.option(
        "--lock-wait",
        type=FiniteRange(min=0),
        default=0.0,
        metavar="S",
        help="Wait so long for another run on the same OUT.",
    ),
    click.option(
        "--verify-inputs",
        is_flag=True,
        help="See by their contents whether inputs changed, not by size and date.",
    ),
)

reporting = chain(
    click.option("--depfile", metavar="FILE", help="Write the inputs as a rule for make."),
    click.option(
        "--config",
        metavar="FILE.toml",
        callback=_read_config,
        is_eager=True,
        expose_value=False,
        help="Take options from a file; those of the command line come first.",
    ),
    click.option(
        "--progress",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        envvar="MMPREP_PROGRESS",
        show_envvar=True,
        help="A bar on a terminal, plain lines elsewhere.",
    ),
    click.option("--log-file", metavar="FILE", help="Append events as JSON lines."),
    click.option("-q", "--quiet", is_flag=True, help="Only errors on stderr."),
    click.option("-v", "--verbose", count=True, help="A line for every task."),
    click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout."),
)

run = chain(selection, engine, resilience, reporting, section="Running")
