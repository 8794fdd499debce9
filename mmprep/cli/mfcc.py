"""`mmprep mfcc`."""

from __future__ import annotations

from typing import Any

import click

from mmprep.cli import api, options

_POSITIVE = options.FiniteRange(min=0, min_open=True)


class _MelNorm(click.ParamType[Any]):
    """A name, or the p of a p-norm."""

    name = "norm"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Read it; whether it has a meaning the recipe says."""
        try:
            return value if value == "inf" else float(value)
        except ValueError:
            return value


class _TopDb(click.ParamType[Any]):
    """A number from 0, or `none`."""

    name = "db"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Read it."""
        return value if value == "none" else options.FiniteRange(0).convert(value, param, ctx)


_recipe = options.chain(
    click.option(
        "--preset",
        type=click.Choice(["librosa", "kaldi", "torchaudio"]),
        default="librosa",
        show_default=True,
        help="Whose way of computing; it fills what is not given.",
    ),
    click.option(
        "--features",
        type=click.Choice(["mfcc", "logmel"]),
        help="Coefficients, or the bands alone.  [default: mfcc]",
    ),
    click.option(
        "--rate",
        type=click.IntRange(min=1),
        metavar="HZ",
        help="Samples a second to compute from.  [default: the sound's own]",
    ),
    click.option("--n-mfcc", type=click.IntRange(min=1), metavar="N", help="Coefficients a row."),
    click.option("--n-mels", type=click.IntRange(min=1), metavar="N", help="Mel bands."),
    click.option(
        "--mel-norm",
        type=_MelNorm(),
        metavar="slaney|none|inf|P",
        help="How bands are weighed: by their width, not, by their peak, by a p-norm.",
    ),
    click.option(
        "--mel-scale",
        type=click.Choice(["slaney", "htk"]),
        help="Whose mel: straight below 1 kHz, or 2595 log10(1 + f / 700).",
    ),
    click.option(
        "--dct-norm",
        type=click.Choice(["ortho", "none"]),
        help="How the cosine transform is scaled.",
    ),
    click.option(
        "--center/--no-center",
        default=None,
        help="Centre the first window on the first sample (librosa, torchaudio).",
    ),
    click.option(
        "--pad-mode",
        type=click.Choice(["constant", "edge", "linear_ramp", "reflect", "symmetric"]),
        help="What stands beyond the ends, named as numpy.pad does.",
    ),
    click.option(
        "--snip-edges/--no-snip-edges",
        default=None,
        help="Only windows that lie within the sound (kaldi).",
    ),
    click.option("--energy/--no-energy", default=None, help="Log energy in place of C0 (kaldi)."),
    click.option(
        "--n-fft", type=click.IntRange(min=1), metavar="N", help="Samples of the transform."
    ),
    click.option("--win-ms", type=_POSITIVE, metavar="MS", help="The length of a window."),
    click.option("--hop-ms", type=_POSITIVE, metavar="MS", help="From window to window."),
    click.option("--fmin", type=float, metavar="HZ", help="The lower edge of the bands."),
    click.option("--fmax", type=float, metavar="HZ", help="Their upper edge."),
    click.option("--window", metavar="NAME", help="The shape of a window, e.g. hann, povey."),
    click.option(
        "--preemph",
        type=options.FiniteRange(0, 1),
        metavar="X",
        help="Take this share of the sample before from each.",
    ),
    click.option(
        "--remove-dc/--no-remove-dc", default=None, help="Take its mean from each window."
    ),
    click.option(
        "--htk-compat/--no-htk-compat", default=None, help="C0 or the energy last, as in HTK."
    ),
    click.option(
        "--lifter",
        type=options.FiniteRange(min=0),
        metavar="L",
        help="Raise the higher coefficients; 0 does not.",
    ),
    click.option(
        "--top-db",
        type=_TopDb(),
        metavar="DB|none",
        help="Lift what lies further below the loudest band.",
    ),
    click.option(
        "--delta",
        type=click.IntRange(0, 2),
        metavar="N",
        help="Add first (1), and second (2) differences.",
    ),
    click.option(
        "--cmvn",
        type=click.Choice(["none", "utterance", "speaker"]),
        help="Bring each coefficient to mean 0 and variance 1 over a sound, or all of a subject.",
    ),
    click.option(
        "--channel",
        type=click.IntRange(min=0),
        metavar="N",
        help="The channel; the first is 0.  [default: the mean of all]",
    ),
    options.shard_size,
    section="Features",
)


@click.command("mfcc", cls=options.SectionedCommand)
@options.inputs
@options.output
@_recipe
@options.run
def command(**given: Any) -> None:
    """Compute MFCC or log-mel features of audio files or of a data set's audio.

    A zip or tar is read as a folder. A data set is carried over whole: the new one holds
    its streams, too (as hard links).
    Presets: librosa 13 coefficients of 80 bands, 25/10 ms, Hann, centred; kaldi 13 of 23,
    25/10 ms, povey, snip edges; torchaudio 40 of 128, 400/200 samples.
    """
    api.run_and_print("mfcc", given)
