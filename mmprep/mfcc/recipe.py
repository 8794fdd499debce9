"""Recipes: every parameter that changes the features, and the presets that fill them."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from mmprep.errors import UsageError
from mmprep.mfcc.windows import PADS, window

DB = 10 / math.log(10)
FLOAT32_EPS = 2.0**-23


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What a preset fixes and no option changes.

    Its logarithm is log(max(x, floor)) * gain, of samples times scale; the lifter's sine is counted
    from `lifter_from`; triangles are straight over mel or Hz; torchaudio halves the rate as an
    integer.
    """

    scale: float = 1.0
    floor: float = 1e-10
    gain: float = DB
    is_periodic: bool = True
    lifter_from: int = 1
    is_mel_triangle: bool = False
    is_whole_nyquist: bool = False


FAMILIES = {
    "librosa": Family(),
    "kaldi": Family(
        scale=32768.0,
        floor=FLOAT32_EPS,
        gain=1.0,
        is_periodic=False,
        lifter_from=0,
        is_mel_triangle=True,
    ),
    "torchaudio": Family(is_whole_nyquist=True),
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """Every parameter that changes the features.

    Parameters
    ----------
    preset : str
        `librosa`, `kaldi` or `torchaudio`: names the formulas that have no option.
    features : str
        `mfcc` or `logmel` (dB for librosa and torchaudio, natural logarithm for kaldi).
    win_ms, hop_ms, win_samples, hop_samples : float [ms] or int [samples]
        Window and hop; exactly one of the two units each.
    n_fft : int or str
        Samples; `power2` the next power of two of the window, `window` the window itself.
    window : str
        A window of the preset's own code: periodic ones by scipy's names for librosa and
        torchaudio, symmetric ones by Kaldi's names for kaldi.
    center, snip_edges : bool or None
        How frames lie; `snip_edges` is kaldi's, `center` the others', the foreign one is None.
    pad_mode : str
        `constant`, `edge`, `linear_ramp`, `reflect` or `symmetric`.
    preemph, remove_dc, energy : float, bool, bool
        A frame: x[i] - preemph * x[i - 1]; less its mean; the logarithm of its energy (before
        pre-emphasis) in place of the first coefficient, or before the bands.
    htk_compat : bool
        First coefficient or energy last, and C0 times sqrt(2).
    fmin, fmax : float [Hz]
        fmax None is half the rate, 0 or less counts down from there.
    mel_scale : str
        `slaney` or `htk`.
    mel_norm : str or float
        `slaney`, `none`, `inf` or the p of a p-norm.
    dct_norm : str
        `ortho` or `none`.
    lifter : float
        0 for none. librosa: 1 + L/2 sin(pi (k + 1) / L); kaldi: 1 + L/2 sin(pi k / L).
    top_db : float or None
        Bands lie at most so far below the loudest of the file.
    delta : int
        0, 1 or 2 orders of differences over 9 rows.
    cmvn : str
        `none`, `utterance`, or `speaker` (left to the caller: see `Moments`).

    Raises
    ------
    UsageError
        A value outside of its range, or options that exclude each other.
    """

    preset: str = "librosa"
    features: str = "mfcc"
    n_mfcc: int = 13
    n_mels: int = 80
    win_ms: float | None = 25.0
    hop_ms: float | None = 10.0
    win_samples: int | None = None
    hop_samples: int | None = None
    n_fft: int | str = "power2"
    window: str = "hann"
    center: bool | None = True
    snip_edges: bool | None = None
    pad_mode: str = "constant"
    preemph: float = 0.0
    remove_dc: bool = False
    energy: bool = False
    htk_compat: bool = False
    fmin: float = 0.0
    fmax: float | None = None
    mel_scale: str = "slaney"
    mel_norm: str | float = "slaney"
    dct_norm: str = "ortho"
    lifter: float = 0.0
    top_db: float | None = 80.0
    delta: int = 0
    cmvn: str = "none"

    def __post_init__(self) -> None:
        _check_choices(self)
        _check_ranges(self)
        _check_lengths(self)
        _check_framing(self)
        window(self.window, 16, is_periodic=FAMILIES[self.preset].is_periodic)

    def to_json(self) -> dict[str, Any]:
        """Give the parameters as a JSON object in the order of the fields."""
        return dataclasses.asdict(self)


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _check_choices(recipe: Recipe) -> None:
    for name, allowed in _CHOICES.items():
        value = getattr(recipe, name)
        if value not in allowed:
            names = ", ".join(str(choice) for choice in allowed)
            raise UsageError(f"{value!r} is not one of {names}", where=_option(name))


def _check_ranges(recipe: Recipe) -> None:
    for name, (least, most) in _RANGES.items():
        value = getattr(recipe, name)
        if isinstance(value, int | float) and not least <= value <= most:
            raise UsageError(
                f"{value!r} is not between {least:g} and {most:g}", where=_option(name)
            )
    if recipe.features == "mfcc" and recipe.n_mfcc > recipe.n_mels:
        raise UsageError(
            f"{recipe.n_mfcc} coefficients of {recipe.n_mels} mel bands",
            where="--n-mfcc",
            hint="take at least as many --n-mels as --n-mfcc",
        )
    for name, words in (("n_fft", ("power2", "window")), ("mel_norm", ("slaney", "none", "inf"))):
        value = getattr(recipe, name)
        if isinstance(value, str) and value not in words:
            raise UsageError(
                f"{value!r} is neither a number nor one of {', '.join(words)}", where=_option(name)
            )


def _check_lengths(recipe: Recipe) -> None:
    for name in ("win", "hop"):
        in_ms, in_samples = (getattr(recipe, f"{name}_{unit}") for unit in ("ms", "samples"))
        if (in_ms is None) == (in_samples is None):
            raise UsageError(
                f"{name}_ms is {in_ms} and {name}_samples is {in_samples}, expected one of them"
            )


def _check_framing(recipe: Recipe) -> None:
    own, foreign = ("center", "snip_edges")
    if recipe.preset == "kaldi":
        own, foreign = foreign, own
    if getattr(recipe, own) is None or getattr(recipe, foreign) is not None:
        raise UsageError(
            f"preset {recipe.preset} lays its frames by {_option(own)}",
            where=_option(foreign),
            hint=f"use {_option(own)} or --no{_option(own)[1:]}",
        )


_PRESETS: dict[str, dict[str, Any]] = {
    "librosa": {},
    "kaldi": {
        "n_mels": 23,
        "window": "povey",
        "center": None,
        "snip_edges": True,
        "pad_mode": "symmetric",
        "preemph": 0.97,
        "remove_dc": True,
        "fmin": 20.0,
        "mel_scale": "htk",
        "mel_norm": "none",
        "lifter": 22.0,
        "top_db": None,
    },
    "torchaudio": {
        "n_mfcc": 40,
        "n_mels": 128,
        "win_samples": 400,
        "hop_samples": 200,
        "n_fft": "window",
        "pad_mode": "reflect",
        "mel_scale": "htk",
        "mel_norm": "none",
    },
}


def preset(name: str, **changes: Any) -> Recipe:
    """Make the recipe of a preset with some parameters changed.

    A window or hop in one unit replaces the preset's in the other. kaldi's energy is on for MFCC
    and off for log-mel features, as in Kaldi.

    Raises
    ------
    UsageError
        No such preset, or a value outside of its range.
    """
    if name not in _PRESETS:
        raise UsageError(f"{name!r} is not one of {', '.join(_PRESETS)}", where="--preset")
    values = {"preset": name, **_PRESETS[name]}
    if name == "kaldi":
        values["energy"] = changes.get("features", "mfcc") == "mfcc"
    for length in ("win", "hop"):
        given = changes if {f"{length}_ms", f"{length}_samples"} & set(changes) else values
        if given.get(f"{length}_samples") is not None:
            values[f"{length}_ms"] = None
        elif given is changes:
            values[f"{length}_samples"] = None
    return Recipe(**values | changes)


_CHOICES: dict[str, tuple[Any, ...]] = {
    "preset": tuple(FAMILIES),
    "features": ("mfcc", "logmel"),
    "pad_mode": tuple(PADS),
    "mel_scale": ("slaney", "htk"),
    "dct_norm": ("ortho", "none"),
    "delta": (0, 1, 2),
    "cmvn": ("none", "utterance", "speaker"),
}
_TINY, _HUGE = 1e-9, 1e9
_RANGES = {
    "n_mfcc": (1, 4096),
    "n_mels": (1, 4096),
    "win_ms": (_TINY, _HUGE),
    "hop_ms": (_TINY, _HUGE),
    "win_samples": (1, _HUGE),
    "hop_samples": (1, _HUGE),
    "n_fft": (1, _HUGE),
    "preemph": (0, 1),
    "fmin": (0, _HUGE),
    "fmax": (-_HUGE, _HUGE),
    "mel_norm": (_TINY, _HUGE),
    "lifter": (0, _HUGE),
    "top_db": (0, _HUGE),
}
