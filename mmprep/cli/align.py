"""`mmprep align`."""

from __future__ import annotations

from typing import Any

import click

from mmprep.cli import api, options

_streams = options.chain(
    click.option("--video", metavar="FILE", help="The video stream of one session."),
    click.option("--eeg", metavar="FILE", help="The EEG stream."),
    click.option("--gsr", metavar="FILE", help="The GSR stream."),
    click.option(
        "--stream",
        multiple=True,
        metavar="NAME=FILE[#STREAM][,rate=HZ][,time=COL][,unit=U][,kind=K]",
        help="Any other stream; kind is signal, video, audio or events.",
    ),
    click.option("--session", default="session", show_default=True, help="Its name."),
    click.option(
        "--clock",
        multiple=True,
        metavar="NAME=FILE[,unit=us]",
        help="Clock evidence of a stream: PTP exchanges, fixes, frame log, linuxptp log.",
    ),
    click.option("--start", multiple=True, metavar="NAME=TIME", help="When a stream began."),
    click.option("--latency", multiple=True, metavar="NAME=MS", help="A constant delay."),
    click.option("--session-clock", metavar="NAME", help="[default: the master of the logs]"),
)
_windows = options.chain(
    click.option("--window", default="1", show_default=True, metavar="S"),
    click.option("--hop", metavar="S", help="[default: the window]"),
    click.option("--rates", metavar="NAME=HZ,...", help="[default: nominal]"),
    click.option("--rate", metavar="HZ", help="One rate for all."),
    click.option(
        "--cover",
        type=click.Choice(["intersection", "union"]),
        default="intersection",
        show_default=True,
    ),
    click.option(
        "--on-gap", type=click.Choice(["mask", "drop", "fail"]), default="mask", show_default=True
    ),
    click.option("--tolerance", type=options.FiniteRange(min=0), metavar="MS"),
    click.option("--min-valid", type=options.FiniteRange(0, 1), default=0.0, metavar="SHARE"),
    click.option(
        "--method",
        multiple=True,
        metavar="NAME=hold|nearest|linear|cubic|sinc",
        help="[default: sinc, cubic or hold by rate and kind]",
    ),
)
_frames = options.chain(
    click.option("--frames", metavar="WxH", help="Write pixels in place of frame indices."),
    click.option("--gray", is_flag=True),
    click.option(
        "--fit",
        type=click.Choice(["cover", "contain", "stretch"]),
        default="cover",
        show_default=True,
    ),
    click.option("--media-root", metavar="DIR", help="Where the videos of a data set are."),
)
_labels = options.chain(
    click.option("--labels", metavar="FILE", help="Join a table; begin_s, end_s are intervals."),
    click.option("--on", metavar="KEY[=COLUMN]", help="The field to join on."),
    options.shard_size,
)


@click.command("align")
@options.inputs
@options.output
@_streams
@_windows
@_frames
@_labels
@options.run
def command(**given: Any) -> None:
    """Put streams on common timestamps: windows with masks, bounds and accounting.

    INPUT are data sets, whose records are joined by session; or name one session's streams:

    \b
        mmprep align --video face.mp4 --eeg eeg.tsv --gsr gsr.tsv \\
            --clock eeg=eeg.ptp.tsv --clock gsr=gsr.ptp.tsv -o aligned/
    """  # noqa: D301 - \b is a mark of click
    api.run_and_print("align", given)
