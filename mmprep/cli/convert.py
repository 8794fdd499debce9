"""`mmprep convert`."""

from __future__ import annotations

from typing import Any

import click

from mmprep.cli import api, options

PRESETS = ("amigos", "bids", "case", "cmlr", "deap", "dreamer", "e4", "kemocon", "lrs", "wesad")

_paths = options.chain(
    click.option(
        "--layout",
        metavar="PATTERN",
        help="Fields from paths: {subject}/{session}_{stream}.tsv, or a known corpus with its"
        f" labels: {', '.join(PRESETS)}.",
    ),
    click.option("--text", metavar="PATTERN", help="Attach transcripts, e.g. '{stem}.txt'."),
    click.option("--labels", metavar="FILE", help="Join the columns of a table into the records."),
    click.option(
        "--on", metavar="KEY[=COLUMN]", help="The field to join on, and its column in the table."
    ),
    section="Paths",
)
_tables = options.chain(
    click.option("--delimiter", metavar="CHAR", help="[default: found in the file]"),
    click.option(
        "--quote", metavar="CHAR|none", help='[default: none for tab, else "]', default=None
    ),
    click.option("--header/--no-header", default=None, help="[default: found in the file]"),
    click.option(
        "--columns", metavar="A,B,...", help="Names of the columns, for a table without a header."
    ),
    click.option("--time", metavar="COLUMN", help="[default: time, timestamp, t, ...]"),
    click.option(
        "--time-unit",
        type=click.Choice(["s", "ms", "us", "ns", "iso"]),
        help="[default: judged from name and size, and said]",
    ),
    click.option("--tz", metavar="ZONE", help="The zone of local times, e.g. Europe/Rome."),
    click.option("--null", multiple=True, metavar="TEXT", help="Read these as missing, too."),
    click.option("--encoding", metavar="NAME", help="[default: found in the file]"),
    click.option("--rate", metavar="HZ", help="The rate of rows that have no stamps."),
    click.option("--unit", multiple=True, metavar="COL=U", help="The unit of a column."),
    click.option(
        "--schema",
        metavar="FILE",
        help="Columns and types of streams, as --write-schema writes them; what it declares is"
        " not looked for.",
    ),
    click.option(
        "--write-schema", metavar="FILE", help="Write what was found out of all streams, as JSON."
    ),
    click.option(
        "--on-column-change",
        type=click.Choice(["add", "fail", "drop"]),
        default="add",
        show_default=True,
        help="Columns that the schema, or without one not all files of a stream have.",
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
        help="skip and null keep the raw line in rejects/.",
    ),
    click.option("--float32", is_flag=True, help="Store channels as float32."),
    click.option("--compression-level", type=click.IntRange(1, 22), default=1, show_default=True),
    section="Tables",
)
_audio = options.chain(
    click.option("--resample", type=click.IntRange(min=1), metavar="HZ", help="[default: native]"),
    click.option("--mono", is_flag=True, help="Mix the channels to one."),
    click.option("--channel", type=click.IntRange(min=0), metavar="N", help="Take one channel."),
    click.option(
        "--audio-dtype",
        type=click.Choice(["float32", "int16"]),
        default="float32",
        show_default=True,
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
