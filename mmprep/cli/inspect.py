"""`mmprep inspect`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from mmprep.cli import output
from mmprep.errors import MmprepError, UsageError


@click.command("inspect")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--value", metavar="KEY", help="One bare value, e.g. rate_hz.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line and file.")
@click.option("--time", metavar="COLUMN", help="The time column of a table.")
@click.option(
    "--time-unit",
    type=click.Choice(["s", "ms", "us", "ns", "iso"]),
    help="The unit of the times; iso is dates as 2024-05-01T10:00:00.",
)
@click.option("--rate", metavar="HZ", help="Rows a second, where no column says when.")
@click.option(
    "--sessions",
    "drafts",
    is_flag=True,
    help="Draft the table of sessions of the folders FILE..., for `convert --sessions`: files that"
    " were recorded together in a row, ? where a person must decide.",
)
@click.option("-o", "--output", metavar="TSV", help="Where --sessions writes its table.")
def command(files: tuple[str, ...], **given: Any) -> None:
    """Say what is in a file, a member of an archive or a data set: declared and measured.

    Of several files all are shown; it fails at the end if one could not be.
    """
    if given["drafts"] or given["output"]:
        _draft(files, given["output"], drafts=given["drafts"])
        return
    from mmprep.steps import inspect

    options = inspect.text_options(given["time"], given["time_unit"], given["rate"])

    def show(name: str) -> None:
        if given["value"]:
            click.echo(shown(inspect.one_value(name, options, given["value"])))
        elif given["as_json"]:
            output.print_json(inspect.inspect(name, options))
        else:
            click.echo("\n".join(lines(inspect.inspect(name, options))))

    _each(files, show)


def _draft(folders: Sequence[str], path: str | None, *, drafts: bool) -> None:
    """Write a table of sessions, and say how far a person is needed."""
    from mmprep.steps.study import drafting

    if not drafts or path is None:
        raise UsageError("--sessions and -o go together", hint="inspect --sessions RAW -o FILE.tsv")
    found = drafting.draft(folders, Path(path), lambda text: output.print_line(f"mmprep: {text}"))
    click.echo(path)
    said = f"{found.n_open} cells begin with ? and wait for you" if found.n_open else "no ? is left"
    output.print_line(f"mmprep: {path}: {found.n_sessions} sessions; {said}")


def _each(names: Sequence[str], show: Callable[[str], None]) -> None:
    """Show all files; what is wrong with one of several is said, and decides at the end."""
    if len(names) == 1:
        show(names[0])
        return
    wrong: list[MmprepError] = []
    for name in names:
        try:
            show(name)
        except MmprepError as error:
            output.print_error(error, "mmprep inspect")
            wrong.append(error)
    if wrong:
        worst = max(wrong, key=lambda error: error.exit_code)
        said = f"{len(wrong)} of {len(names)} files could not be shown"
        raise type(worst)(said, hint="what is wrong with each stands above")


def shown(value: Any) -> str:
    """Write a value for people: a float short, a list with commas."""
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, dict):
        return " ".join("-" if item is None else shown(item) for item in value.values())
    if value == "\t":
        return "tab"
    if isinstance(value, list | tuple):
        return ", ".join("-" if item is None else shown(item) for item in value)
    return str(value)


def lines(facts: dict[str, Any]) -> list[str]:
    """Write the facts of a file, one a line, the streams indented."""
    streams = facts.get("streams", [])
    found = [facts["path"]]
    found += [_line(2, k, v) for k, v in facts.items() if k not in {"path", "streams"} and v]
    for stream in streams:
        found.append(f"  #{stream['name']}")
        found += [_line(4, k, v) for k, v in stream.items() if k != "name" and v not in (None, [])]
    return found


def _line(indent: int, key: str, value: Any) -> str:
    if isinstance(value, dict):
        value = ", ".join(f"{name} {shown(item)}" for name, item in value.items())
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        value = ", ".join(f"{item['name']} {item['type']}" for item in value)
    return f"{'':{indent}}{key:<18} {shown(value)}"
