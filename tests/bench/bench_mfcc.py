"""MFCC of many utterances against what others compute them with, in two processes each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.bench import made
from tests.bench.measure import Note, Row, Size, compare, mmprep, peer


def rows(place: Path, size: Size) -> Iterator[Row | Note]:
    """Compare whole processes, the reading of the files included."""
    yield from _waves(place, size)
    yield from _packed(place, size)


def _waves(place: Path, size: Size) -> Iterator[Row | Note]:
    source, out = place / "sound", place / "out"
    length_s = made.sounds(source, size.n_spoken)
    targets = {
        "librosa": ("librosa_mfcc", ()),
        "kaldi-native-fbank": ("kaldi_mfcc", ("kaldi_native_fbank",)),
        "lhotse (torch)": ("lhotse_mfcc", ("lhotse", "torch")),
        "torchaudio": ("torchaudio_mfcc", ("torch", "torchaudio")),
        "reading alone": ("read_sounds", ()),
        "arithmetic alone": ("features_alone", ()),
    }
    sides = [
        peer(name, function, source, place / function, needs=needs, writes=place / function)
        for name, (function, needs) in targets.items()
    ]
    ours = mmprep("mfcc", source, "-o", out, writes=out)
    found = list(
        compare(f"mfcc of {size.n_spoken} wavs, {length_s / 60:.0f} min", ours, sides, size)
    )
    yield from found
    shown = {"mmprep": found[0].ours_s} | {r.peer: r.peer_s for r in found if r.peer_s is not None}
    rates = ", ".join(f"{name} {length_s / took_s:.0f}" for name, took_s in shown.items())
    yield Note(f"times real time: {rates}")


def _packed(place: Path, size: Size) -> Iterator[Row | Note]:
    """Decoding alone is the floor of packed sound."""
    source, out = place / "packed", place / "packed-out"
    length_s = made.sounds(source, size.n_spoken, "flac")
    side = peer("decoding alone", "read_sounds", source, place / "read", writes=place / "read")
    ours = mmprep("mfcc", source, "-o", out, writes=out)
    yield from compare(
        f"mfcc of {size.n_spoken} flacs, {length_s / 60:.0f} min", ours, [side], size
    )
