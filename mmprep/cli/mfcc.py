"""`mmprep mfcc`."""

from __future__ import annotations

from typing import Any

import click

from mmprep.cli import api, options

_POSITIVE = options.FiniteRange(min=0, min_open=True)

_recipe = options.chain(
    click.option(
        "--preset",
        type=click.Choice(["librosa", "kaldi", "torchaudio"]),
        default="librosa",
        show_default=True,
        help="Fills what is not given.",
    ),
    click.option("--features", type=click.Choice(["mfcc", "logmel"]), help="[default: mfcc]"),
    click.option("--rate", type=click.IntRange(min=1), metavar="HZ", help="[default: native]"),
    click.option("--n-mfcc", type=click.IntRange(min=1), help="Coefficients."),
    click.option("--n-mels", type=click.IntRange(min=1), help="Mel bands."),
    click.option("--mel-norm", type=click.Choice(["slaney", "none"])),
    click.option("--center/--no-center", default=None),
    click.option("--pad-mode", type=click.Choice(["constant", "reflect", "edge"])),
    click.option("--snip-edges/--no-snip-edges", default=None),
    click.option("--energy/--no-energy", default=None, help="Log energy in place of C0 (kaldi)."),
    click.option("--n-fft", type=click.IntRange(min=1), help="Samples of the transform."),
    click.option("--win-ms", type=_POSITIVE, metavar="MS", help="The window."),
    click.option("--hop-ms", type=_POSITIVE, metavar="MS", help="From row to row."),
    click.option("--fmin", type=float, metavar="HZ", help="The lower edge of the bands."),
    click.option("--fmax", type=float, metavar="HZ", help="Their upper edge."),
    click.option("--window", metavar="NAME"),
    click.option("--preemph", type=options.FiniteRange(0, 1)),
    click.option("--remove-dc/--no-remove-dc", default=None),
    click.option("--htk-compat/--no-htk-compat", default=None),
    click.option("--lifter", type=options.FiniteRange(min=0)),
    click.option("--top-db", type=_POSITIVE),
    click.option("--delta", type=click.IntRange(0, 2), help="Add first and second differences."),
    click.option("--cmvn", type=click.Choice(["none", "utterance"])),
    click.option("--channel", type=click.IntRange(min=0), metavar="N", help="[default: the mean]"),
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
