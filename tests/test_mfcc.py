"""MFCC against librosa, kaldi-native-fbank, an HTK file and slow sums by the formulas."""

from __future__ import annotations

import json
import warnings
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from mmprep import media
from mmprep.errors import DataError, UsageError
from mmprep.mfcc import (
    Extractor,
    Moments,
    Recipe,
    bands,
    deltas,
    filters,
    moments,
    normalize,
    preset,
)

RATE_HZ = 16000


@pytest.fixture(autouse=True, scope="module", params=["compiled", "numpy"])
def way(request):
    """Compute bands by the compiled module, and without it."""
    if request.param == "compiled" and bands._powers is None:
        pytest.skip("installed without a compiler")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "numpy":
            patch.setattr(bands, "_powers", None)
        yield request.param


# One voice each: 8, 16, 22.05, 24, 44.1 and 48 kHz; WAV, FLAC, MP3, Opus, SPHERE; English, French,
# Mandarin. The MP3s and the SPHERE file hold bands 115 to 125 dB under the loudest one.
SPEECH = (
    "speech/kaldi_test.wav",
    "speech/lhotse_LJ002-0020.wav",
    "speech/lhotse_mono_c0.opus",
    "speech/lhotse_stereo.sph",
    "speech/silero_test.mp3",
    "speech/sr_french.aiff",
    "speech/lhotse_common_voice_en_651325.mp3",
    "speech_zh/aishell_BAC009S0724W0121.wav",
    "speech_zh/cosyvoice_zero_shot_prompt.wav",
)


def speech(rate_hz: int = RATE_HZ, seconds: float = 1.5, seed: int = 0) -> np.ndarray:
    """Voiced and unvoiced syllables with pauses between, over a faint hiss."""
    rng = np.random.default_rng(seed)
    time = np.arange(round(rate_hz * seconds)) / rate_hz
    pitch = 120 + 30 * np.sin(2 * np.pi * 1.3 * time)
    phase = 2 * np.pi * np.cumsum(pitch) / rate_hz
    partials = [k for k in range(1, 30) if 160 * k < rate_hz / 2]
    voiced = sum(np.sin(k * phase + k * k) / k for k in partials)
    hiss = rng.standard_normal(time.size)
    envelope = np.clip(np.sin(2 * np.pi * 2.1 * time), 0, None) ** 2
    signal = envelope * (0.1 * voiced + 0.02 * hiss) + 1e-4 * hiss
    return signal.astype(np.float32)


def read(path: Path, seconds: float = 4) -> tuple[np.ndarray, int]:
    with soundfile.SoundFile(path) as file:
        samples = file.read(int(seconds * file.samplerate), dtype="float32", always_2d=True)
        return samples[:, 0].copy(), file.samplerate


def gap(ours: np.ndarray, theirs: np.ndarray) -> float:
    assert ours.shape == theirs.shape
    return float(np.abs(ours - theirs).max())


# librosa ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def librosa() -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import librosa

        librosa.feature.mfcc(y=np.zeros(800, np.float32), n_fft=400)  # loads what it loads lazily
    return librosa


def by_librosa(librosa: ModuleType, samples: np.ndarray, extractor: Extractor) -> np.ndarray:
    """Compute the same in librosa's words, from its parts where its mfcc hides top_db."""
    recipe = extractor.recipe
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short signals, empty filters
        power = librosa.feature.melspectrogram(
            y=samples,
            sr=float(extractor.rate_hz),
            n_fft=extractor.n_fft,
            hop_length=extractor.n_hop,
            win_length=extractor.n_win,
            window=recipe.window,
            center=recipe.center,
            pad_mode=recipe.pad_mode,
            n_mels=recipe.n_mels,
            fmin=recipe.fmin,
            fmax=recipe.fmax,
            htk=recipe.mel_scale == "htk",
            norm={"none": None, "inf": np.inf}.get(recipe.mel_norm, recipe.mel_norm),
        )
    decibels = librosa.power_to_db(power, top_db=recipe.top_db)
    if recipe.features == "logmel":
        return decibels.T
    norm = None if recipe.dct_norm == "none" else recipe.dct_norm
    return librosa.feature.mfcc(S=decibels, n_mfcc=recipe.n_mfcc, norm=norm, lifter=recipe.lifter).T


CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {"n_mfcc": 20, "n_mels": 128, "n_fft": 2048, "win_samples": 2048, "hop_samples": 512},
    {"n_mfcc": 40, "n_mels": 40},
    {"n_mfcc": 1, "n_mels": 1},
    {"n_fft": 2048},
    {"n_fft": 401, "win_samples": 400},
    {"n_fft": "window"},
    {"win_ms": 32, "hop_ms": 8},
    {"win_samples": 399, "hop_samples": 77},
    {"win_samples": 200, "hop_samples": 333},
    {"window": "hamming"},
    {"window": "blackman"},
    {"window": "boxcar"},
    {"window": "nuttall"},
    {"fmin": 300, "fmax": 3400, "n_mels": 26},
    {"mel_norm": "none"},
    {"mel_norm": 1},
    {"mel_norm": 2.0},
    {"mel_norm": "inf"},
    {"mel_scale": "htk"},
    {"dct_norm": "none"},
    {"lifter": 22},
    {"lifter": 0.7},
    {"top_db": 40},
    {"top_db": 0},
    {"top_db": 120},
    {"top_db": None},
    {"top_db": None, "window": "blackmanharris", "n_mels": 64},
    {"center": False},
    {"center": False, "n_fft": 2048},
    {"pad_mode": "reflect"},
    {"pad_mode": "edge", "n_fft": 2048},
    {"pad_mode": "symmetric"},
    {"pad_mode": "linear_ramp"},
)


def tolerance(recipe: Recipe) -> float:
    kept_db = np.inf if recipe.top_db is None else recipe.top_db
    scale = 1 if recipe.dct_norm == "ortho" else 2 * recipe.n_mels**0.5
    return scale * (1e-3 if kept_db <= 80 else 5e-3) * max(1, recipe.lifter / 2)


@pytest.mark.parametrize("changes", CHANGES, ids=str)
@pytest.mark.parametrize("rate_hz", [8000, 22050, 44100])
def test_librosa_preset_equals_librosa_for_any_parameter(librosa, changes, rate_hz):
    extractor = Extractor(preset("librosa", **changes), rate_hz)
    samples = speech(rate_hz, seconds=0.7)
    expected = by_librosa(librosa, samples, extractor)
    assert gap(extractor.features(samples), expected) < tolerance(extractor.recipe)


@settings(max_examples=40, deadline=None)
@given(
    rate_hz=st.sampled_from([8000, 11025, 16000, 48000]),
    lengths=st.tuples(st.integers(20, 900), st.integers(30, 400), st.integers(0, 600)),
    n_mels=st.integers(1, 90),
    center=st.booleans(),
    top_db=st.sampled_from([None, 80.0, 55.0]),
)
def test_librosa_preset_equals_librosa_for_random_lengths(
    librosa, rate_hz, lengths, n_mels, **choices
):
    win, hop, extra = lengths
    sizes = {"win_samples": win, "hop_samples": hop, "n_fft": win + extra}
    mels = {"n_mels": n_mels, "n_mfcc": min(n_mels, 13)}
    recipe = preset("librosa", **sizes, **mels, **choices)
    extractor = Extractor(recipe, rate_hz)
    samples = speech(rate_hz, seconds=0.4)
    expected = by_librosa(librosa, samples, extractor)
    assert gap(extractor.features(samples), expected) < tolerance(recipe)


@pytest.mark.parametrize("top_db", [80.0, None])
@pytest.mark.parametrize("name", SPEECH)
def test_librosa_preset_equals_librosa_on_recorded_speech(librosa, shared, name, top_db):
    samples, rate_hz = read(shared(f"audio/{name}"))
    extractor = Extractor(preset("librosa", top_db=top_db), rate_hz)
    expected = by_librosa(librosa, samples, extractor)
    assert gap(extractor.features(samples), expected) < tolerance(extractor.recipe)


QUIET_BANDS: tuple[dict[str, Any], ...] = (
    {"fmin": 2000.0, "n_mels": 40},
    {"fmin": 5000.0, "n_mels": 20, "window": "blackmanharris", "n_fft": 1024},
    {"fmax": 2000.0, "n_mels": 40, "mel_norm": 2},
    {"n_fft": "window", "fmin": 6000.0, "n_mels": 20},
)


@pytest.mark.parametrize("changes", QUIET_BANDS, ids=str)
@pytest.mark.parametrize("hz", [60, 440, 3000, 7900])
def test_librosa_preset_equals_librosa_far_below_what_no_band_takes(librosa, changes, hz):
    time = np.arange(8000) / RATE_HZ
    hiss = np.random.default_rng(0).standard_normal(time.size)
    samples = (0.9 * np.sin(2 * np.pi * hz * time) + 1e-5 * hiss).astype(np.float32)
    extractor = Extractor(preset("librosa", **changes), RATE_HZ)
    expected = by_librosa(librosa, samples, extractor)
    assert gap(extractor.features(samples), expected) < tolerance(extractor.recipe)


@pytest.mark.parametrize("hiss", [1e-3, 3e-4, 1e-4])
def test_librosa_preset_equals_librosa_near_the_lowest_kept_level(librosa, hiss):
    time = np.arange(16000) / RATE_HZ
    noise = np.random.default_rng(0).standard_normal(time.size)
    samples = (0.9 * np.cos(2 * np.pi * 7900 * time) + hiss * noise).astype(np.float32)
    extractor = Extractor(preset("librosa"), RATE_HZ)
    assert gap(extractor.features(samples), by_librosa(librosa, samples, extractor)) < 1e-3


def test_librosa_preset_equals_one_call_of_librosa_mfcc(librosa):
    samples = speech()
    lengths = {"n_fft": 512, "win_length": 400, "hop_length": 160}
    expected = librosa.feature.mfcc(y=samples, sr=RATE_HZ, n_mfcc=13, n_mels=80, **lengths)
    assert gap(Extractor(preset("librosa"), RATE_HZ).features(samples), expected.T) < 1e-3


def test_logmel_equals_power_to_db_of_librosa(librosa):
    extractor = Extractor(preset("librosa", features="logmel"), RATE_HZ)
    samples = speech()
    assert gap(extractor.features(samples), by_librosa(librosa, samples, extractor)) < 5e-3


@pytest.mark.parametrize("pad_mode", ["constant", "edge", "reflect", "symmetric", "linear_ramp"])
@pytest.mark.parametrize("n_samples", [2, 3, 100, 256, 257, 399])
def test_file_shorter_than_a_window_equals_librosa(librosa, n_samples, pad_mode):
    extractor = Extractor(preset("librosa", pad_mode=pad_mode), RATE_HZ)
    samples = speech()[5000 : 5000 + n_samples]
    expected = by_librosa(librosa, samples, extractor)
    assert gap(extractor.features(samples), expected) < 1e-3


def test_silence_equals_librosa(librosa):
    extractor = Extractor(preset("librosa"), RATE_HZ)
    silence = np.zeros(4000, np.float32)
    assert gap(extractor.features(silence), by_librosa(librosa, silence, extractor)) < 1e-3


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("n_frames", [9, 10, 151])
def test_deltas_equal_librosa(librosa, n_frames, order):
    features = Extractor(preset("librosa"), RATE_HZ).features(speech())[:n_frames]
    expected = librosa.feature.delta(features, axis=0, order=order)
    assert gap(deltas(features, order), expected) < 1e-3


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("n_frames", [1, 2, 8])
def test_deltas_below_nine_rows_repeat_the_outer_rows(librosa, n_frames, order):
    features = Extractor(preset("librosa"), RATE_HZ).features(speech())[:n_frames]
    far = np.pad(features, ((9, 9), (0, 0)), mode="edge")
    expected = librosa.feature.delta(far, axis=0, order=order, mode="nearest")[9:-9]
    assert gap(deltas(features, order), expected) < 1e-3


def test_mel_filters_equal_librosa(librosa):
    recipe = preset("librosa", n_mels=64, fmin=50, fmax=7600)
    expected = librosa.filters.mel(sr=RATE_HZ, n_fft=1024, n_mels=64, fmin=50, fmax=7600)
    ours = filters.mel_filters(recipe, Fraction(RATE_HZ), 1024)
    np.testing.assert_allclose(ours.T, expected, atol=1e-8)


# kaldi --------------------------------------------------------------------------------------------


def by_kaldi(samples: np.ndarray, rate_hz: int, *, fbank: bool = False, **changes: Any):
    """Compute with kaldi-native-fbank, dither 0, int16 scale."""
    knf = pytest.importorskip("kaldi_native_fbank")
    options = knf.FbankOptions() if fbank else knf.MfccOptions()
    options.frame_opts.dither = 0
    options.frame_opts.samp_freq = rate_hz
    if fbank:
        options.mel_opts.num_bins = 23
    for name, value in changes.items():
        parts = (options, options.frame_opts, options.mel_opts)
        setattr(next(part for part in parts if hasattr(part, name)), name, value)
    computer = (knf.OnlineFbank if fbank else knf.OnlineMfcc)(options)
    computer.accept_waveform(rate_hz, (samples * 32768).tolist())
    computer.input_finished()
    rows = [computer.get_frame(k) for k in range(computer.num_frames_ready)]
    return np.array(rows).reshape(len(rows), computer.dim)


KALDI_CHANGES: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({}, {}),
    ({"snip_edges": False}, {"snip_edges": False}),
    ({"energy": False}, {"use_energy": False}),
    ({"preemph": 0.0}, {"preemph_coeff": 0.0}),
    ({"remove_dc": False}, {"remove_dc_offset": False}),
    ({"lifter": 0.0}, {"cepstral_lifter": 0.0}),
    ({"window": "hamming"}, {"window_type": "hamming"}),
    ({"window": "hanning"}, {"window_type": "hanning"}),
    ({"window": "hann"}, {"window_type": "hann"}),
    ({"window": "blackman"}, {"window_type": "blackman"}),
    ({"window": "sine"}, {"window_type": "sine"}),
    ({"window": "rectangular"}, {"window_type": "rectangular"}),
    ({"htk_compat": True}, {"htk_compat": True}),
    ({"htk_compat": True, "energy": False}, {"htk_compat": True, "use_energy": False}),
    ({"n_mfcc": 30, "n_mels": 40}, {"num_ceps": 30, "num_bins": 40}),
    ({"fmin": 100, "fmax": 3400}, {"low_freq": 100, "high_freq": 3400}),
    ({"fmax": -400}, {"high_freq": -400}),
    ({"win_ms": 20, "hop_ms": 7.5}, {"frame_length_ms": 20, "frame_shift_ms": 7.5}),
    (
        {"win_ms": 10, "hop_ms": 15, "snip_edges": False},
        {"frame_length_ms": 10, "frame_shift_ms": 15, "snip_edges": False},
    ),
)


@pytest.mark.parametrize(("ours", "theirs"), KALDI_CHANGES, ids=lambda change: str(change)[:40])
@pytest.mark.parametrize("rate_hz", [8000, 16000, 44100])
def test_kaldi_preset_equals_kaldi_native_fbank(ours, theirs, rate_hz):
    samples = speech(rate_hz, seconds=0.7)
    features = Extractor(preset("kaldi", **ours), rate_hz).features(samples)
    assert gap(features, by_kaldi(samples, rate_hz, **theirs)) < 1e-2


def by_kaldi_formulas(samples: np.ndarray, extractor: Extractor) -> np.ndarray:
    """Compute Kaldi's default MFCC a frame at a time in float64."""
    win, hop, n_fft = extractor.n_win, extractor.n_hop, extractor.n_fft
    scaled = samples.astype(np.float64) * 32768
    window = np.sin(np.pi * np.arange(win) / (win - 1)) ** 1.7
    rows = []
    for start in range(0, scaled.size - win + 1, hop):
        level = scaled[start : start + win] - scaled[start : start + win].mean()
        emphasised = level - 0.97 * np.concatenate([level[:1], level[:-1]])
        power = np.abs(np.fft.rfft(emphasised * window, n_fft)) ** 2
        bands = power @ filters.mel_filters(extractor.recipe, extractor.rate_hz, n_fft)
        row = np.log(np.maximum(bands, 2.0**-23)) @ filters.cosines(extractor.recipe)
        row[0] = np.log(max(level @ level, 2.0**-23))
        rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize("name", SPEECH)
def test_kaldi_preset_equals_its_formulas_on_recorded_speech(shared, name):
    samples, rate_hz = read(shared(f"audio/{name}"), seconds=1)
    extractor = Extractor(preset("kaldi"), rate_hz)
    assert gap(extractor.features(samples), by_kaldi_formulas(samples, extractor)) < 1e-3


# kaldi-native-fbank is itself 0.025 off the exact sums in this MP3, bands of which lie 125 dB low.
LOW_BANDS = "speech/silero_test.mp3"


@pytest.mark.parametrize("snip_edges", [True, False])
@pytest.mark.parametrize("name", sorted({*SPEECH} - {LOW_BANDS}))
def test_kaldi_preset_equals_kaldi_native_fbank_on_recorded_speech(shared, name, snip_edges):
    samples, rate_hz = read(shared(f"audio/{name}"))
    features = Extractor(preset("kaldi", snip_edges=snip_edges), rate_hz).features(samples)
    assert gap(features, by_kaldi(samples, rate_hz, snip_edges=snip_edges)) < 1e-2


@pytest.mark.parametrize("energy", [True, False])
@pytest.mark.parametrize("htk_compat", [True, False])
def test_kaldi_logmel_equals_fbank(energy, htk_compat):
    recipe = preset("kaldi", features="logmel", energy=energy, htk_compat=htk_compat)
    samples = speech()
    theirs = by_kaldi(samples, RATE_HZ, fbank=True, use_energy=energy, htk_compat=htk_compat)
    assert gap(Extractor(recipe, RATE_HZ).features(samples), theirs) < 1e-2


def test_kaldi_logmel_has_no_energy_unless_asked():
    assert Extractor(preset("kaldi", features="logmel"), RATE_HZ).n_features == 23


@pytest.mark.parametrize("n_samples", [80, 150, 399])
def test_short_file_without_snipped_edges_equals_kaldi(n_samples):
    samples = speech()[3000 : 3000 + n_samples]
    features = Extractor(preset("kaldi", snip_edges=False), RATE_HZ).features(samples)
    assert gap(features, by_kaldi(samples, RATE_HZ, snip_edges=False)) < 1e-2


def test_silence_equals_kaldi():
    silence = np.zeros(4000, np.float32)
    features = Extractor(preset("kaldi"), RATE_HZ).features(silence)
    assert gap(features, by_kaldi(silence, RATE_HZ)) < 1e-2


def test_htk_compat_equals_the_reference_that_htk_wrote(shared):
    content = shared("audio/speech/kaldi_test.wav.fea_htk.1").read_bytes()
    n_frames, row_bytes = int.from_bytes(content[:4]), int.from_bytes(content[8:10])
    reference = np.frombuffer(content, ">f4", offset=12).reshape(n_frames, row_bytes // 4)
    samples, rate_hz = read(shared("audio/speech/kaldi_test.wav"))
    as_htk = {"window": "hamming", "preemph": 0.0, "remove_dc": False, "fmin": 0.0, "energy": False}
    features = Extractor(preset("kaldi", htk_compat=True, **as_htk), rate_hz).features(samples)
    assert gap(features, reference[:, :13]) < 1e-3


# torchaudio ---------------------------------------------------------------------------------------


def by_torchaudio_formulas(samples: np.ndarray, rate_hz: int) -> np.ndarray:
    """Write torchaudio.transforms.MFCC(rate) out as its documentation says, a frame at a time."""
    n_fft, hop, n_mels, n_mfcc = 400, 200, 128, 40
    padded = np.pad(samples.astype(np.float64), n_fft // 2, mode="reflect")
    window = np.array([np.sin(np.pi * i / n_fft) ** 2 for i in range(n_fft)])
    bins_hz = np.linspace(0, rate_hz // 2, n_fft // 2 + 1)
    top_mel = 2595 * np.log10(1 + (rate_hz // 2) / 700)
    corners = 700 * (10 ** (np.linspace(0, top_mel, n_mels + 2) / 2595) - 1)
    filters = np.zeros((n_mels, bins_hz.size))
    for m in range(n_mels):
        left, middle, right = corners[m : m + 3]
        rising = (bins_hz - left) / (middle - left)
        falling = (right - bins_hz) / (right - middle)
        filters[m] = np.maximum(0, np.minimum(rising, falling))
    starts = range(0, padded.size - n_fft + 1, hop)
    powers = [np.abs(np.fft.rfft(padded[s : s + n_fft] * window)) ** 2 for s in starts]
    decibels = 10 * np.log10(np.maximum(1e-10, np.array(powers) @ filters.T))
    decibels = np.maximum(decibels, decibels.max() - 80)
    k, n = np.arange(n_mfcc), np.arange(n_mels)
    cosines = np.cos(np.pi / n_mels * (n[:, None] + 0.5) * k)
    cosines[:, 0] /= np.sqrt(2)
    return decibels @ (cosines * np.sqrt(2 / n_mels))


@pytest.mark.parametrize("rate_hz", [8000, 11025, 16000, 44100])
def test_torchaudio_preset_equals_its_documented_formulas(rate_hz):
    samples = speech(rate_hz)
    features = Extractor(preset("torchaudio"), rate_hz).features(samples)
    assert gap(features, by_torchaudio_formulas(samples, rate_hz)) < 1e-3


def test_torchaudio_preset_equals_librosa_with_its_parameters(librosa):
    extractor = Extractor(preset("torchaudio"), RATE_HZ)
    samples = speech()
    assert gap(extractor.features(samples), by_librosa(librosa, samples, extractor)) < 1e-3


# Frames -------------------------------------------------------------------------------------------


@given(n_samples=st.integers(513, 5000), hop=st.integers(1, 700), center=st.booleans())
def test_frame_count_equals_librosa(librosa, n_samples, hop, center):
    recipe = preset("librosa", hop_samples=hop, center=center)
    padded = n_samples + 512 * center
    expected = librosa.util.frame(np.zeros(padded), frame_length=512, hop_length=hop).shape[-1]
    assert Extractor(recipe, RATE_HZ).n_frames(n_samples) == expected


@pytest.mark.parametrize("snip_edges", [True, False])
@pytest.mark.parametrize("n_samples", [1, 79, 80, 239, 240, 399, 400, 401, 559, 560, 8000])
def test_frame_count_equals_kaldi(n_samples, snip_edges):
    extractor = Extractor(preset("kaldi", snip_edges=snip_edges), RATE_HZ)
    expected = len(by_kaldi(np.zeros(n_samples), RATE_HZ, snip_edges=snip_edges))
    assert extractor.n_frames(n_samples) == expected


@pytest.mark.parametrize("rate_hz", [8000, 11025, 16000, 22050, 32000, 44100, 48000, 96000])
def test_window_and_hop_have_as_many_samples_as_in_kaldi(rate_hz):
    extractor = Extractor(preset("kaldi"), rate_hz)
    for n_samples in range(rate_hz // 10, rate_hz // 10 + 3 * rate_hz // 100, 97):
        assert extractor.n_frames(n_samples) == len(by_kaldi(np.zeros(n_samples), rate_hz))


@pytest.mark.parametrize("name", ["librosa", "kaldi", "torchaudio"])
@pytest.mark.parametrize("n_samples", [1, 399, 400, 5000, 96 * 160 + 400])
def test_features_have_the_shape_that_is_stated(name, n_samples):
    extractor = Extractor(preset(name), RATE_HZ)
    features = extractor.features(speech()[:n_samples])
    assert features.shape == (extractor.n_frames(n_samples), extractor.n_features)
    assert features.dtype == np.float32
    assert features.flags.c_contiguous


OFFSETS = (
    (preset("librosa"), Fraction(0)),
    (preset("librosa", center=False), Fraction(256, 16000)),
    (preset("kaldi"), Fraction(200, 16000)),
    (preset("kaldi", snip_edges=False), Fraction(80, 16000)),
    (preset("torchaudio"), Fraction(0)),
)


@pytest.mark.parametrize(("recipe", "offset_s"), OFFSETS, ids=["l", "l-left", "k", "k-all", "t"])
def test_row_zero_is_at_the_middle_of_its_window(recipe, offset_s):
    assert Extractor(recipe, RATE_HZ).offset_s == offset_s


@pytest.mark.parametrize(("recipe", "_offset_s"), OFFSETS, ids=["l", "l-left", "k", "k-all", "t"])
def test_click_is_loudest_in_the_rows_around_its_time(recipe, _offset_s):
    samples = np.full(8000, 1e-5, np.float32)
    samples[4000] = 1
    extractor = Extractor(preset(recipe.preset, features="logmel"), RATE_HZ)
    loudest = extractor.features(samples).mean(axis=1).argmax()
    near_s = float(extractor.hop_s) / 2 + 1e-3
    assert extractor.frame_times_s(8000)[loudest] == pytest.approx(0.25, abs=near_s)


def test_frame_times_follow_offset_and_hop():
    extractor = Extractor(preset("kaldi"), 22050)
    times = extractor.frame_times_s(22050)
    assert extractor.hop_s == Fraction(220, 22050)
    assert len(times) == extractor.n_frames(22050)
    assert times[7] == float(extractor.offset_s + 7 * extractor.hop_s)


# Same bytes ---------------------------------------------------------------------------------------


BYTES = (
    preset("librosa", delta=2, cmvn="utterance"),
    preset("librosa", n_fft=2048, top_db=None),
    preset("kaldi"),
    preset("kaldi", snip_edges=False, features="logmel", energy=True),
    preset("torchaudio"),
)


@pytest.mark.parametrize("recipe", BYTES, ids=range(len(BYTES)))
def test_bytes_do_not_depend_on_what_was_computed_before(recipe):
    used = Extractor(recipe, RATE_HZ)
    for n_samples in (24000, 300, 5000, 20000):
        used.features(speech(seed=n_samples)[:n_samples])
        fresh = Extractor(recipe, RATE_HZ)
        samples = speech(seed=1)[:n_samples]
        assert used.features(samples).tobytes() == fresh.features(samples).tobytes()


@pytest.fixture(scope="module")
def _by_the_dozen() -> None:
    """Skip where numpy's matrix product rounds a row by its place among a dozen."""
    rng = np.random.default_rng(0)
    for n_inner, n_outer in ((130, 32), (400, 6), (80, 13)):
        rows = rng.random((144, n_inner), dtype=np.float32)
        matrix = rng.random((n_inner, n_outer), dtype=np.float32)
        pieces = [rows[k : k + 12] @ matrix for k in range(0, 144, 12)]
        if np.concatenate(pieces).tobytes() != (rows @ matrix).tobytes():
            pytest.skip("the matrix product of this processor rounds by more rows than a dozen")


@pytest.mark.usefixtures("_by_the_dozen")
@pytest.mark.parametrize("recipe", BYTES, ids=range(len(BYTES)))
def test_bytes_do_not_depend_on_the_number_of_rows_in_a_block(recipe, monkeypatch):
    monkeypatch.setattr(bands, "_powers", None)
    samples = speech()
    extractor = Extractor(recipe, RATE_HZ)
    expected = extractor.features(samples).tobytes()
    for n_rows in range(12, extractor._n_tile, 12):
        extractor._n_tile = extractor._bands.n_tile = n_rows
        assert extractor.features(samples).tobytes() == expected


@pytest.mark.usefixtures("_by_the_dozen")
def test_rows_of_a_long_file_equal_those_of_its_beginning():
    extractor = Extractor(preset("kaldi"), RATE_HZ)
    samples = speech()
    whole = extractor.features(samples)
    for n_samples in (400, 1000, 7000, 20000):
        begin = extractor.features(samples[:n_samples])
        assert begin.tobytes() == whole[: len(begin)].tobytes()


def test_features_do_not_change_the_samples():
    samples = speech()
    before = samples.tobytes()
    Extractor(preset("kaldi"), RATE_HZ).features(samples)
    assert samples.tobytes() == before


def test_features_are_kept_when_the_next_file_is_computed():
    extractor = Extractor(preset("librosa", features="logmel"), RATE_HZ)
    first = extractor.features(speech())
    before = first.tobytes()
    extractor.features(speech(seed=9))
    assert first.tobytes() == before


@pytest.mark.parametrize("recipe", BYTES, ids=range(len(BYTES)))
def test_products_are_small_enough_for_one_thread(recipe):
    extractor = Extractor(recipe, RATE_HZ)
    products = [extractor._dct, getattr(extractor._bands, "product", extractor._dct)]
    for product in products:
        for _inner, _outer, matrix in product._parts:
            assert matrix.size * extractor._n_tile <= 4 * 65536 or matrix.shape[1] == 1


def test_product_in_groups_equals_the_whole_product():
    rng = np.random.default_rng(0)
    matrix = np.triu(np.tril(rng.random((300, 90)), 40), -200)
    rows = rng.random((24, 300), dtype=np.float32)
    out = np.full((24, 90), np.nan, np.float32)
    product = filters.Product(matrix, 24 * 20)
    product(rows, out)
    assert len(product._parts) > 3
    np.testing.assert_allclose(out, rows @ matrix, rtol=1e-5)


# What goes in -------------------------------------------------------------------------------------


def test_no_sample_is_an_error():
    with pytest.raises(DataError, match="no sample"):
        Extractor(preset("librosa"), RATE_HZ).features(np.zeros(0, np.float32))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_sample_that_is_not_finite_is_an_error_that_names_it(value):
    samples = speech()
    samples[321] = value
    with pytest.raises(DataError, match="sample 321 is"):
        Extractor(preset("kaldi"), RATE_HZ).features(samples)


@pytest.mark.parametrize("name", ["librosa", "kaldi", "torchaudio"])
def test_samples_that_overflow_are_an_error_and_leave_no_trace(name):
    extractor = Extractor(preset(name), RATE_HZ)
    expected = extractor.features(speech()).tobytes()
    with pytest.raises(DataError, match="too large for float32"):
        extractor.features(speech() * np.float32(1e25))
    assert extractor.features(speech()).tobytes() == expected


def test_two_channels_are_an_error():
    with pytest.raises(DataError, match=r"shape \(800, 2\), expected one channel"):
        Extractor(preset("librosa"), RATE_HZ).features(np.zeros((800, 2), np.float32))


@pytest.mark.parametrize("cmvn", ["none", "utterance"])
def test_file_without_a_whole_frame_gives_no_row(cmvn):
    extractor = Extractor(preset("kaldi", delta=2, cmvn=cmvn), RATE_HZ)
    assert extractor.features(np.ones(399, np.float32)).shape == (0, 39)


def test_silence_is_finite_in_every_preset():
    silence = np.zeros(5000, np.float32)
    for name in ("librosa", "kaldi", "torchaudio"):
        extractor = Extractor(preset(name, delta=2, cmvn="utterance"), RATE_HZ)
        assert np.all(extractor.features(silence) == 0)


def test_float64_samples_are_taken_as_float32():
    samples = speech()
    extractor = Extractor(preset("librosa"), RATE_HZ)
    same = extractor.features(samples.astype(np.float64))
    assert same.tobytes() == extractor.features(samples).tobytes()


def test_empty_bands_are_named():
    assert Extractor(preset("torchaudio"), RATE_HZ).empty_bands
    assert Extractor(preset("librosa"), RATE_HZ).empty_bands == ()


# Normalisation ------------------------------------------------------------------------------------


def test_cmvn_of_an_utterance_gives_mean_zero_and_variance_one():
    features = Extractor(preset("librosa", cmvn="utterance", delta=1), RATE_HZ).features(speech())
    np.testing.assert_allclose(features.mean(axis=0, dtype=np.float64), 0, atol=1e-6)
    np.testing.assert_allclose(features.std(axis=0, dtype=np.float64), 1, atol=1e-6)


def test_merged_moments_equal_those_of_all_rows():
    extractor = Extractor(preset("librosa"), RATE_HZ)
    files = [extractor.features(speech(seed=k)) for k in range(3)]
    merged = moments(files[0][:0])
    for features in files:
        merged = merged.merge(moments(features))
    whole = moments(np.concatenate(files))
    assert merged.n_frames == whole.n_frames
    np.testing.assert_allclose(merged.mean, whole.mean, rtol=1e-12)
    np.testing.assert_allclose(merged.deviation, whole.deviation, rtol=1e-12)


def test_column_that_never_changes_becomes_zero():
    features = np.full((1000, 2), 0.1, np.float32)
    assert np.all(normalize(features, moments(features)) == 0)


def test_moments_of_no_rows_merge_with_themselves():
    nothing = moments(np.zeros((0, 2), np.float32))
    assert isinstance(nothing.merge(nothing), Moments)


# Recipes ------------------------------------------------------------------------------------------


WRONG: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("librosa", {"features": "plp"}, "--features: 'plp' is not one of mfcc, logmel"),
    ("librosa", {"pad_mode": "wrap"}, "--pad-mode: 'wrap' is not one of"),
    ("librosa", {"n_mfcc": 90}, "--n-mfcc: 90 coefficients of 80 mel bands"),
    ("librosa", {"n_mels": 0, "n_mfcc": 0}, "--n-mfcc: 0 is not between"),
    ("librosa", {"snip_edges": True}, "--snip-edges: preset librosa lays its frames by --center"),
    ("kaldi", {"center": False}, "--center: preset kaldi lays its frames by --snip-edges"),
    ("kaldi", {"window": "hann9"}, "--window: 'hann9' is not a window"),
    ("librosa", {"hop_ms": 0}, "--hop-ms: 0 is not between"),
    ("librosa", {"win_ms": float("nan")}, "--win-ms: nan is not between"),
    ("librosa", {"win_ms": None}, "win_ms is None and win_samples is None"),
    ("librosa", {"n_fft": "big"}, "--n-fft: 'big' is neither a number nor"),
    ("librosa", {"mel_norm": "l2"}, "--mel-norm: 'l2' is neither a number nor"),
    ("librosa", {"delta": 3}, "--delta: 3 is not one of 0, 1, 2"),
    ("librosa", {"lifter": -1}, "--lifter: -1 is not between"),
    ("htk", {}, "--preset: 'htk' is not one of librosa, kaldi, torchaudio"),
)


@pytest.mark.parametrize(("name", "changes", "message"), WRONG, ids=[str(w[1]) for w in WRONG])
def test_recipe_refuses_what_has_no_meaning(name, changes, message):
    with pytest.raises(UsageError, match=message):
        preset(name, **changes)


AT_RATE: tuple[tuple[dict[str, Any], str], ...] = (
    ({"fmax": 7600}, "no bands from 0 to 7600 Hz at a rate of 8000 Hz"),
    ({"fmin": 4000}, "no bands from 4000 to 4000 Hz"),
    ({"n_fft": 128}, "FFT of 128 samples is shorter than the window of 200"),
    ({"hop_ms": 0.1}, "0.1 ms are less than a sample at 8000 Hz"),
)


@pytest.mark.parametrize(("changes", "message"), AT_RATE, ids=str)
def test_extractor_refuses_what_has_no_meaning_at_its_rate(changes, message):
    with pytest.raises(UsageError, match=message):
        Extractor(preset("librosa", **changes), 8000)


@pytest.mark.parametrize("name", ["librosa", "kaldi", "torchaudio"])
def test_recipe_survives_json(name):
    recipe = preset(name)
    assert Recipe(**json.loads(json.dumps(recipe.to_json(), allow_nan=False))) == recipe


def test_window_in_ms_replaces_the_samples_of_torchaudio():
    extractor = Extractor(preset("torchaudio", win_ms=20, hop_ms=10), 8000)
    assert (extractor.n_win, extractor.n_hop, extractor.n_fft) == (160, 80, 160)


NAMES = (
    (preset("librosa", n_mfcc=2, delta=1), ("c0", "c1", "delta_c0", "delta_c1")),
    (preset("kaldi", n_mfcc=3), ("energy", "c1", "c2")),
    (preset("kaldi", n_mfcc=3, htk_compat=True), ("c1", "c2", "energy")),
    (preset("kaldi", n_mfcc=3, htk_compat=True, energy=False), ("c1", "c2", "c0")),
    (preset("librosa", features="logmel", n_mels=2), ("mel0", "mel1")),
    (
        preset("kaldi", features="logmel", n_mels=2, energy=True),
        ("energy", "mel0", "mel1"),
    ),
)


@pytest.mark.parametrize(("recipe", "names"), NAMES, ids=[",".join(n[1]) for n in NAMES])
def test_columns_have_names(recipe, names):
    extractor = Extractor(recipe, RATE_HZ)
    assert extractor.feature_names == names
    assert extractor.features(speech()).shape[1] == len(names)


# One sentence in several encodings ----------------------------------------------------------------


@pytest.fixture
def encodings(shared):
    """The sentence with 24 bits, with 8 bits, and in stereo FLAC with 16 bits; all at 44.1 kHz."""
    names = ("mono-24-bit-44100Hz.wav", "mono-8-bit-44100Hz.wav", "stereo-16-bit-44100Hz.flac")
    return [
        media.decode_audio(shared(f"audio/speech/sr_audio-{name}"), mono=True).samples
        for name in names
    ]


def test_features_of_16_bits_are_those_of_24_bits(encodings):
    extractor = Extractor(preset("librosa"), 44_100)
    fine, _, flac = (extractor.features(samples) for samples in encodings)
    assert gap(flac, fine) < 0.2  # of up to 510; 80 dB below the loudest band nothing counts


def test_features_of_8_bits_are_those_of_24_bits_where_speech_drowns_the_steps(encodings):
    extractor = Extractor(preset("librosa", fmax=4000.0, n_mels=40), 44_100)
    fine, coarse, _ = (extractor.features(samples) for samples in encodings)
    centres = np.rint(extractor.frame_times_s(encodings[0].size) * 44_100).astype(int)
    level = np.array([encodings[0][max(0, at - 551) : at + 551].std() for at in centres])
    loud = level > 0.1  # steps of 8 bits make noise of 0.003
    assert loud.sum() > 30
    assert np.median(np.abs(coarse - fine)[loud]) < 0.5


def test_energies_of_8_bits_are_those_of_24_bits(encodings):
    extractor = Extractor(preset("kaldi"), 44_100)
    fine, coarse, flac = (extractor.features(samples)[:, 0] for samples in encodings)
    loud = fine > np.log(1102 * (0.03 * 32768) ** 2)
    assert loud.sum() > 30
    assert gap(coarse[loud], fine[loud]) < 0.02
    assert gap(flac[loud], fine[loud]) < 1e-4
