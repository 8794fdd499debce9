"""`mmprep convert`."""

from __future__ import annotations

from typing import Any

import click

from mmprep.cli import api, options

PRESETS = ("amigos", "bids", "case", "cmlr", "deap", "dreamer", "e4", "kemocon", "lrs", "wesad")

_paths = options.chain(
    options.sessions,
    click.option(
        "--layout",
        metavar="PATTERN",
        help="Fields from paths: {subject}/{session}_{stream}.tsv, or a known corpus with its"
        f" labels: {', '.join(PRESETS)}.",
    ),
    click.option(
        "--text",
        metavar="PATTERN",
        help="Attach transcripts, each by its name beside the sound, e.g. '{stem}.txt'.",
    ),
    options.labels,
    options.ids,
    section="Paths",
)
_tables = options.chain(
    click.option(
        "--delimiter",
        metavar="CHAR",
        help="What stands between two cells, e.g. ; or tab.  [default: found in the file]",
    ),
    click.option(
        "--quote",
        metavar="CHAR|none",
        help='What stands around a cell that holds the delimiter.  [default: none for tab, else "]',
        default=None,
    ),
    click.option(
        "--header/--no-header",
        default=None,
        help="Whether the first row names the columns.  [default: found in the file]",
    ),
    click.option(
        "--columns", metavar="A,B,...", help="Names of the columns, for a table without a header."
    ),
    click.option(
        "--time",
        metavar="COLUMN",
        help="The column that says when.  [default: one called time, timestamp, t, ...]",
    ),
    click.option(
        "--time-unit",
        type=click.Choice(["s", "ms", "us", "ns", "iso"]),
        help="The unit of the times; iso is dates as 2024-05-01T10:00:00.  [default: judged by the"
        " name and the values, and said]",
    ),
    click.option(
        "--tz", metavar="ZONE", help="The zone of local times, e.g. Europe/Rome; they become UTC."
    ),
    click.option("--null", multiple=True, metavar="TEXT", help="Read such cells as missing, too."),
    click.option(
        "--encoding",
        metavar="NAME",
        help="How letters are written, e.g. utf-8 or latin-1.  [default: found in the file]",
    ),
    click.option("--rate", metavar="HZ", help="Rows a second, where no column says when."),
    click.option(
        "--unit", multiple=True, metavar="COL=U", help="The unit of a column, e.g. GSR=uS."
    ),
    click.option(
        "--schema",
        metavar="FILE",
        help="Take the columns and types of this file, as --write-schema writes it, and do not look"
        " for them.",
    ),
    click.option(
        "--write-schema",
        metavar="FILE",
        help="Write the columns and types that were found, as JSON.",
    ),
    click.option(
        "--on-column-change",
        type=click.Choice(["add", "fail", "drop"]),
        default="add",
        show_default=True,
        help="What to do with columns that only some files of a stream have, or that the --schema"
        " does not name: keep them, with missing values elsewhere; stop; leave them out.",
    ),
    click.option(
        "--split-by",
        metavar="COLUMN",
        help="Each value of the column (a device, a signal) becomes a stream of its own.",
    ),
    click.option(
        "--on-bad-row",
        type=click.Choice(["fail", "skip", "null"]),
        default="fail",
        show_default=True,
        help="What to do with a row that cannot be read: give the file up, leave the row out, or"
        " keep it as missing values. skip and null note the raw line in rejects/.",
    ),
    click.option(
        "--float32", is_flag=True, help="Store decimals in 4 bytes, of about 7 digits, not 8."
    ),
    click.option(
        "--keep-device",
        is_flag=True,
        help="Keep the serial numbers and addresses of devices beside their models.",
    ),
    click.option(
        "--compression-level",
        type=click.IntRange(1, 22),
        metavar="N",
        default=1,
        show_default=True,
        help="More makes smaller tables, slower.",
    ),
    section="Tables",
)
_audio = options.chain(
    click.option(
        "--resample",
        type=click.IntRange(min=1),
        metavar="HZ",
        help="Samples a second.  [default: the file's own]",
    ),
    click.option("--mono", is_flag=True, help="Mix the channels to one."),
    click.option(
        "--channel",
        type=click.IntRange(min=0),
        metavar="N",
        help="Take one channel; the first is 0.",
    ),
    click.option(
        "--audio-dtype",
        type=click.Choice(["float32", "int16"]),
        default="float32",
        show_default=True,
        help="How a sample is stored; int16 takes half the space.",
    ),
    options.shard_size,
    section="Sound",
)


@click.command("convert", cls=options.SectionedCommand)
@options.inputs
@options.output
@_paths
@_tables
@_audio
@options.run
def command(**given: Any) -> None:
    """Turn raw tables, audio and video into Parquet, float32 shards and a manifest.

    INPUT is a file, a folder, or a zip or tar, which is read as a folder without being
    unpacked. Tables become tables/<stream>/<id>.parquet with exact
    nanosecond stamps, sound becomes memory-mappable shards, of a video its frame times
    become a table; video is not re-encoded.
    """
    api.run_and_print("convert", given)
