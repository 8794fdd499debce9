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
        metavar="NAME=FILE[#STREAM][,rate=HZ][,time=COL][,unit=U][,tz=ZONE][,kind=K]",
        help="Any other stream; kind is signal, video, audio or events. What exists as a file is"
        " the file, commas and all; quotes end a path in doubt: 'x=\"a,b.csv\",rate=4'.",
    ),
    options.sessions,
    click.option(
        "--session", default="session", show_default=True, help="The name of the session."
    ),
    click.option(
        "--clock",
        multiple=True,
        metavar="NAME=FILE[,unit=us]",
        help="The clock log of a stream: PTP exchanges, fixes (device,reference), frame log,"
        " linuxptp log.  [default: x.ptp.tsv, x.clock.tsv or x.frames.tsv beside x.EXT; of a data"
        " set that of each recording is in it already]",
    ),
    click.option(
        "--events",
        multiple=True,
        metavar="NAME=FILE[#STREAM][,within=S][,above=X|below=X|value=REGEX]",
        help="Happenings that several devices recorded, each by its own clock, for two streams or"
        " more: rows of a table, those with a text, or where a signal rises or falls through X."
        " The clock is off by at most S seconds.",
    ),
    click.option(
        "--start",
        multiple=True,
        metavar="NAME=TIME",
        help="When a stream with relative times began (its first sample; of events second 0), in"
        " all sessions: ISO 8601 with zone, or Unix seconds.",
    ),
    click.option(
        "--latency",
        multiple=True,
        metavar="NAME=MS",
        help="How much too late a stream's stamps are.",
    ),
    click.option(
        "--session-clock",
        metavar="NAME",
        help="The stream on whose clock all others are laid.  [default: the master of the logs]",
    ),
    section="Streams and clocks",
)
_windows = options.chain(
    click.option(
        "--window",
        default="1",
        show_default=True,
        metavar="S|trial|record",
        help="The length of a window; or one record of its own length for each trial, or for each"
        " recording.",
    ),
    click.option("--hop", metavar="S", help="From window to window.  [default: the window]"),
    click.option(
        "--rates", metavar="NAME=HZ,...", help="Rates of some streams.  [default: nominal]"
    ),
    click.option("--rate", metavar="HZ", help="One rate for all streams."),
    click.option(
        "--cover",
        type=click.Choice(["intersection", "union"]),
        default="intersection",
        show_default=True,
        help="Windows over the time that all streams cover, or that any does.",
    ),
    click.option(
        "--on-gap",
        type=click.Choice(["mask", "drop", "fail"]),
        default="mask",
        show_default=True,
        help="Keep windows that touch a gap with their mask, drop them, or fail.",
    ),
    click.option(
        "--tolerance",
        type=options.FiniteRange(min=0),
        metavar="MS",
        help="How far nearest and hold may reach.  [default: half a source period; hold: one]",
    ),
    click.option(
        "--min-valid",
        type=options.FiniteRange(0, 1),
        default=0.0,
        show_default=True,
        metavar="SHARE",
        help="Drop windows in which a stream has a smaller share of valid samples.",
    ),
    click.option(
        "--method",
        multiple=True,
        metavar="NAME=hold|nearest|linear|cubic|sinc",
        help="How values are taken.  [default: sinc; cubic below 20 Hz; nearest for video]",
    ),
    click.option(
        "--filter",
        multiple=True,
        metavar="NAME=LOW-HIGH[,notch=HZ]",
        help="Filter a stream at its own rate before windows are cut: MNE's zero-phase FIR, in Hz;"
        " LOW- and -HIGH alone, too. Half a kernel at the ends of each gap-free stretch is masked.",
    ),
    click.option(
        "--reref",
        multiple=True,
        metavar="NAME=average|CH,...",
        help="Take the mean of all channels, or of some, off each channel, before the filter.",
    ),
    section="Windows and values",
)
_trials = options.chain(
    click.option(
        "--trials",
        metavar="FILE[#STREAM][,of=STREAM]|DATASET#STREAM|STREAM",
        help="Windows begin at the onset of each trial and never cross its end. Trials are rows"
        " with a duration (BIDS events, any table with times), or lie between markers.",
    ),
    click.option(
        "--trial-start",
        metavar="REGEX",
        help="Trials begin at markers so called; (?P<name>...) becomes the field `name`.",
    ),
    click.option(
        "--trial-end",
        metavar="REGEX",
        help="They end at markers so called, of which groups of the same names hold the same."
        "  [default: their duration, else the next begin]",
    ),
    click.option(
        "--tail",
        type=click.Choice(["drop", "pad"]),
        help="A rest shorter than a window is left out and counted, or masked behind the end."
        "  [default: drop]",
    ),
    click.option(
        "--baseline",
        metavar="S",
        help="The S seconds before each onset, too, as records of the phase `baseline`.",
    ),
    section="Trials",
)
_frames = options.chain(
    click.option(
        "--frames", metavar="WxH", help="Write pixels (uint8) in place of frame indices (int32)."
    ),
    click.option("--gray", is_flag=True, help="One channel of luma in place of RGB."),
    click.option(
        "--fit",
        type=click.Choice(["cover", "contain", "stretch"]),
        default="cover",
        show_default=True,
        help="Fill the size and cut the rest, show all within bars, or stretch.",
    ),
    click.option(
        "--roi",
        multiple=True,
        metavar="NAME=PATTERN|center:WxH[,kind=K][,points=P][,pad=SHARE][,smooth=N]",
        help="Cut a region out of each frame before it is scaled: the box, or the box around the"
        " landmarks, that a track of CSV, JSON or arrays has for it (`{stem}.csv` names a file"
        " beside each video), or the middle. K is box or landmarks; P is 48-67, 0,4,10-12 or mouth;"
        " SHARE of the box is added on each side; N boxes are averaged. Frames more than 5 frames"
        " from a box are masked.",
    ),
    click.option("--media-root", metavar="DIR", help="Where the videos of a data set are."),
    section="Pixels",
)
_labels = options.chain(
    options.ids,
    click.option(
        "--time-origin",
        type=click.Choice(["absolute", "relative"]),
        default="absolute",
        show_default=True,
        help="relative: all times count from second 0 of the session, none tells the date.",
    ),
    options.labels,
    click.option(
        "--label-time",
        metavar="COLUMN[,unit=ms][,origin=session|trial|EVENT]",
        help="The rows are said at this time (annotation as it goes on), Unix time or seconds after"
        " the session's origin, the onset of the trial, or the first event of that name.",
    ),
    click.option(
        "--label-agg",
        type=click.Choice(["cover", "mean", "last", "mode"]),
        help="What a window takes of them: the one that holds for all of it, or those within it"
        " together.  [default: cover]",
    ),
    click.option(
        "--label-lag",
        type=options.FiniteRange(),
        metavar="S",
        help="How much later than what they are about they were said.",
    ),
    options.shard_size,
    section="Labels and shards",
)


@click.command("align", cls=options.SectionedCommand)
@options.inputs
@options.output
@_streams
@_windows
@_trials
@_frames
@_labels
@options.run
def command(**given: Any) -> None:
    """Put streams on common timestamps: windows with masks, bounds and accounting.

    INPUT are data sets, whose records are joined by session (DATASET#STREAM takes one
    stream of them); or name one session's streams:

    \b
        mmprep align --video face.mp4 --eeg eeg.tsv --gsr gsr.tsv \\
            --clock eeg=eeg.ptp.tsv --clock gsr=gsr.ptp.tsv -o aligned/
    """  # noqa: D301 - \b is a mark of click
    api.run_and_print("align", given)
