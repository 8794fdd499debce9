"""Write two small corpora whose true clocks, labels and texts are known.

    python sample_data/generate.py [OUT]

``amigos/`` is shaped like AMIGOS: 4 subjects x 2 sessions of about 60 s with a
talking-face video (30 fps, sound), EEG (14 x 128 Hz) and GSR (4 Hz), one PTP log
per stream, ``labels.tsv`` and ``truth.json``. ``cmlr/`` is shaped like CMLR:
speaker/date/section_<n>_<begin>_<end> as .wav, .txt and .mp4.

Rules
-----
- Times are integers in nanoseconds until they are printed; names carry units.
- "Master" is the clock that all sessions share (Unix time). A device's clock is a
  straight line of it: device = device_ref + (master - master_ref) * (1 + drift).
- A device samples on its own clock, so sample k of a stream is truly at
  first_device + k / rate on that clock. Stamps may add jitter; samples that are
  missing keep their index, so the rest keep their place.
- Bodily signals follow the true (master) time, as do the labels. A session's
  second 0, its origin, is the first instant that all its streams cover.
- Every stream draws from its own seed, so a change of one leaves the others.
  Only raw uniform doubles are drawn: numpy may change how it derives other
  distributions from one release to the next.
- Numbers are rounded before they are printed, and -0 is printed as 0.
- No time of day, host or path enters a file; encoders run on one thread.
"""

import json
import re
import sys
import wave
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.codec.context import Flags
from av.container import OutputContainer
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray
from scipy.signal import sosfilt
from scipy.special import ndtri

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Image = NDArray[np.float64]

SEED = 20240917
SECOND_NS = 1_000_000_000
AUDIO_HZ = 16000

# ---------------------------------------------------------------- random numbers


def seeded(name: str) -> np.random.Generator:
    """Make the generator of one named part."""
    seed = np.random.SeedSequence([SEED, *name.encode()])
    return np.random.Generator(np.random.PCG64(seed))


def normal(rng: np.random.Generator, n: int) -> FloatArray:
    """Draw n standard normal numbers."""
    return np.asarray(ndtri(rng.random(n)), dtype=np.float64)


def exponential(rng: np.random.Generator, n: int) -> FloatArray:
    """Draw n exponential numbers of mean 1."""
    return -np.log1p(-rng.random(n))


def between(rng: np.random.Generator, low: float, high: float) -> float:
    """Draw one number from [low, high)."""
    return low + (high - low) * float(rng.random())


def shuffled(rng: np.random.Generator, n: int) -> IntArray:
    """Draw a permutation of 0 .. n - 1."""
    return np.asarray(np.argsort(rng.random(n), kind="stable"), dtype=np.int64)


# ------------------------------------------------------------------------ clocks


def whole(values: NDArray[np.floating[Any]]) -> IntArray:
    """Round to integers."""
    return np.asarray(np.rint(values), dtype=np.int64)


@dataclass(frozen=True)
class Clock:
    """The straight line from master time to a device's time."""

    master_ref_ns: int
    device_ref_ns: int
    drift_ppm: float

    def device_ns(self, master_ns: IntArray) -> IntArray:
        """Convert master time to device time."""
        elapsed = (master_ns - self.master_ref_ns) * (1 + self.drift_ppm * 1e-6)
        return self.device_ref_ns + whole(elapsed)

    def master_ns(self, device_ns: IntArray) -> IntArray:
        """Convert device time to master time."""
        elapsed = (device_ns - self.device_ref_ns) / (1 + self.drift_ppm * 1e-6)
        return self.master_ref_ns + whole(elapsed)


@dataclass(frozen=True)
class Stream:
    """When one stream was sampled, and what of it was lost."""

    clock: Clock
    rate_hz: int
    first_device_ns: int
    n_samples: int
    jitter_s: float = 0.0
    missing: tuple[int, ...] = ()

    def at(self, index: IntArray) -> IntArray:
        """Return the device time of sample `index` before any stamp jitter."""
        return self.first_device_ns + (2 * index * SECOND_NS + self.rate_hz) // (2 * self.rate_hz)

    def master(self, index: IntArray) -> IntArray:
        """Return the true master time of sample `index`."""
        return self.clock.master_ns(self.at(index))

    @property
    def span_ns(self) -> tuple[int, int]:
        """Return [begin, end) on the master clock; end is one period past the last."""
        begin, end = self.master(np.array([0, self.n_samples]))
        return int(begin), int(end)

    @property
    def kept(self) -> IntArray:
        """Return the indices of the samples that were not lost."""
        return np.setdiff1d(np.arange(self.n_samples), np.array(self.missing, np.int64))

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Return the runs of lost samples as (first index, count)."""
        starts = [i for i in self.missing if i - 1 not in self.missing]
        stops = [i + 1 for i in self.missing if i + 1 not in self.missing]
        return [(a, b - a) for a, b in zip(starts, stops, strict=True)]


PTP_LEAD_S, PTP_COUNT = 4, 69  # one exchange a second from 4 s before to 4 s after
PATH_S, PATH_JITTER_S = 120e-6, 40e-6
OUTLIER_SHARE, OUTLIER_S = 0.03, (2e-3, 20e-3)


def path_delays(rng: np.random.Generator, n: int) -> IntArray:
    """Draw the two path delays of n exchanges.

    Returns
    -------
    [shape=(n, 2), int64, ns]
        120 us + an exponential of mean 40 us each way; in 3 % of the exchanges one
        way waits 2 to 20 ms longer.
    """
    delay_s = PATH_S + PATH_JITTER_S * exponential(rng, 2 * n).reshape(n, 2)
    late = rng.random(n) < OUTLIER_SHARE
    way = (rng.random(n) < 1 / 2).astype(np.int64)
    wait_s = OUTLIER_S[0] + (OUTLIER_S[1] - OUTLIER_S[0]) * rng.random(n)
    delay_s[np.arange(n), way] += np.where(late, wait_s, 0)
    return whole(delay_s * 1e9)


def exchanges(clock: Clock, base_ns: int, rng: np.random.Generator) -> IntArray:
    """Simulate the PTP exchanges around one recording.

    Returns
    -------
    [shape=(n, 4), int64, ns]
        t1 master sends, t2 device receives, t3 device sends, t4 master receives.
    """
    delay_ns = path_delays(rng, PTP_COUNT)
    wake_ns = whole(2e6 * rng.random(PTP_COUNT))
    t1 = base_ns + (np.arange(PTP_COUNT) - PTP_LEAD_S) * SECOND_NS + wake_ns
    received = t1 + delay_ns[:, 0]
    answered = received + 200_000 + wake_ns // 10
    t2, t3 = clock.device_ns(received), clock.device_ns(answered)
    return np.stack([t1, t2, t3, answered + delay_ns[:, 1]], axis=1)


# ---------------------------------------------------------- sessions and labels


@dataclass(frozen=True)
class Voice:
    """Pitch, and formants relative to the vowel table's."""

    f0_hz: float
    tract: float


@dataclass(frozen=True)
class Subject:
    """How strongly a person shows emotions, and how they look and sound."""

    eeg_gain: float
    gsr_gain: float
    mouth_gain: float
    gsr_level_us: float
    alpha_hz: float
    voice: Voice
    skin: tuple[int, int, int]
    hair: tuple[int, int, int]


SUBJECTS = {
    "P01": Subject(1.0, 0.8, 0.9, 3.1, 10.2, Voice(120, 1.0), (224, 180, 150), (60, 40, 30)),
    "P02": Subject(0.6, 1.2, 0.7, 5.4, 9.6, Voice(205, 1.15), (240, 200, 175), (150, 100, 50)),
    "P03": Subject(1.3, 0.5, 1.1, 2.2, 10.8, Voice(140, 0.98), (150, 105, 80), (25, 22, 22)),
    "P04": Subject(0.8, 1.0, 0.5, 4.0, 10.0, Voice(190, 1.12), (200, 150, 115), (90, 60, 45)),
}


@dataclass(frozen=True)
class Trace:
    """What an emotion adds, relative to neutral, at a subject's gain of 1."""

    alpha: float = 0.0
    beta: float = 0.0
    gsr_level: float = 0.0
    gsr_rate: float = 0.0
    mouth_size: float = 0.0
    mouth_rate: float = 0.0


TRACES = {
    "anger": Trace(-0.25, 0.35, 0.5, 0.6, 0.3, 0.3),
    "disgust": Trace(-0.1, 0.15, 0.2, 0.3, -0.2, -0.2),
    "fear": Trace(-0.35, 0.45, 0.8, 1.0, -0.3, 0.4),
    "happiness": Trace(0.2, 0.1, 0.4, 0.5, 0.5, 0.2),
    "neutral": Trace(),
    "sadness": Trace(0.35, -0.2, -0.3, -0.2, -0.4, -0.3),
}
LABELS = tuple(TRACES)
NEUTRAL = LABELS.index("neutral")

# Whole seconds of each interval. A subject's two sessions hold one half each, so all
# six are in every subject. Over the corpus fear is 20 s and neutral 191 s of 460 s:
# 4.3 % and 41.5 %.
HALVES = (
    "neutral 9,neutral 8,neutral 7,happiness 7,happiness 7,sadness 6,anger 7,disgust 6",
    "neutral 9,neutral 8,neutral 7,happiness 6,sadness 6,sadness 5,anger 7,disgust 5,fear 5",
)
HALVES_LAST = (
    HALVES[0].replace("neutral 7", "neutral 6").replace("ss 6,a", "ss 7,a"),
    HALVES[1],
)


@dataclass(frozen=True)
class Session:
    """One recording: its streams and what was felt when."""

    name: str
    base_ns: int
    streams: dict[str, Stream]
    labels: tuple[tuple[int, int, str], ...]  # begin_s, end_s, label

    @property
    def origin_ns(self) -> int:
        """Return the first instant that all streams cover, on the master clock."""
        return max(stream.span_ns[0] for stream in self.streams.values())

    @property
    def end_ns(self) -> int:
        """Return the end of the common coverage on the master clock."""
        return min(stream.span_ns[1] for stream in self.streams.values())

    @property
    def subject(self) -> Subject:
        """Return the person recorded."""
        return SUBJECTS[self.name.partition("/")[0]]

    def session_s(self, master_ns: IntArray) -> FloatArray:
        """Convert master time to seconds from the origin."""
        return (master_ns - self.origin_ns) / SECOND_NS

    def felt(self, master_ns: IntArray, part: str) -> FloatArray:
        """Return one part of the trace at each instant; neutral outside labels."""
        stops = [end_s for _, end_s, _ in self.labels]
        order = [LABELS.index(label) for _, _, label in self.labels]
        ids = np.array([NEUTRAL, *order, NEUTRAL])
        where = np.searchsorted([0, *stops], self.session_s(master_ns), side="right")
        trace = [float(getattr(TRACES[label], part)) for label in LABELS]
        return np.asarray(np.array(trace)[ids[where]], dtype=np.float64)


def arrange(half: str, rng: np.random.Generator) -> tuple[tuple[int, int, str], ...]:
    """Put the intervals of one session in a random order without equal neighbours."""
    items = [item.split() for item in half.split(",")]
    while True:
        order = [items[i] for i in shuffled(rng, len(items))]
        if all(a[0] != b[0] for a, b in pairwise(order)):
            break
    ends = np.cumsum([int(seconds) for _, seconds in order]).tolist()
    begins = [0, *ends[:-1]]
    return tuple((a, b, item[0]) for a, b, item in zip(begins, ends, order, strict=True))


def device_clock(base_ns: int, rng: np.random.Generator) -> Clock:
    """Draw a Unix-like device clock."""
    offset_ns = round(between(rng, 0.1, 3.0) * 1e6) * 1000
    drift_ppm = round(between(rng, -80, 80), 3)
    return Clock(base_ns, base_ns + offset_ns, drift_ppm)


def edges(base_ns: int, rng: np.random.Generator) -> tuple[int, float]:
    """Draw the true begin (ns) and the length (s) of one stream."""
    late_s, early_s = between(rng, 0, 0.9), between(rng, 0, 0.7)
    return base_ns + round(late_s * 1e6) * 1000, 60 - late_s - early_s


def drops(rng: np.random.Generator, n_frames: int) -> tuple[int, ...]:
    """Draw the frames that a camera loses: single ones and one run of 3 to 5."""
    n_events = 5 + int(between(rng, 0, 3))
    slot = (n_frames - 60) // n_events
    firsts = [30 + slot * i + int(between(rng, 0, slot - 10)) for i in range(n_events)]
    lengths = [1] * n_events
    lengths[int(between(rng, 0, n_events))] = 3 + int(between(rng, 0, 3))
    return tuple(first + i for first, n in zip(firsts, lengths, strict=True) for i in range(n))


def camera(base_ns: int, rng: np.random.Generator) -> dict[str, Stream]:
    """Plan the two tracks of a video; its clock is the container's time line."""
    begin_ns, length_s = edges(base_ns, rng)
    clock = Clock(begin_ns, 0, round(between(rng, -80, 80), 3))
    n_frames = int(length_s * 30) // 3 * 3  # then the sound has whole samples too
    n_audio = n_frames * AUDIO_HZ // 30
    return {
        "video": Stream(clock, 30, 0, n_frames, missing=drops(rng, n_frames)),
        "audio": Stream(clock, AUDIO_HZ, 0, n_audio),
    }


# Sessions with a true gap: stream, begin in s after the stream's first sample, length
GAPS = {"P02/V01": ("eeg", 24.6, 1.5), "P03/V02": ("gsr", 36.0, 6.0)}


def sensor(name: str, base_ns: int, rate_hz: int) -> Stream:
    """Plan the EEG or the GSR of a session, named `subject/video/stream`."""
    rng = seeded(f"{name}/clock")
    clock = device_clock(base_ns, rng)
    begin_ns, length_s = edges(base_ns, rng)
    first_ns = int(clock.device_ns(np.array(begin_ns))) // 1000 * 1000
    session, kind = name.rsplit("/", 1)
    who, gap_s, gap_length_s = GAPS.get(session, ("", 0.0, 0.0))
    missing = range(int(gap_s * rate_hz), int((gap_s + gap_length_s) * rate_hz))
    return Stream(
        clock,
        rate_hz,
        first_ns,
        int(length_s * rate_hz),
        jitter_s=0.3e-3 if kind == "eeg" else 0.0,
        missing=tuple(missing) if kind == who else (),
    )


def plan(number: int) -> Session:
    """Plan session `number` of the corpus, 0 .. 7."""
    subject, video = f"P0{number // 2 + 1}", f"V0{number % 2 + 1}"
    name = f"{subject}/{video}"
    rng = seeded(name)
    base_ns = (1_480_000_000 + 5400 * number) * SECOND_NS + int(1e9 * rng.random())
    streams = {
        "eeg": sensor(f"{name}/eeg", base_ns, 128),
        "gsr": sensor(f"{name}/gsr", base_ns, 4),
        **camera(base_ns, seeded(f"{name}/video/clock")),
    }
    halves = HALVES_LAST if subject == max(SUBJECTS) else HALVES
    half = halves[(number + number // 2) % 2]  # which half comes first alternates
    return Session(name, base_ns, streams, arrange(half, rng))


# ------------------------------------------------------------------ EEG and GSR

ELECTRODES = (
    *("AF3", "F7", "F3", "FC5", "T7", "P7", "O1"),
    *("O2", "P8", "T8", "FC6", "F4", "F8", "AF4"),
)
ALPHA_UV = {"O1": 7.0, "O2": 7.0, "P7": 6.0, "P8": 6.0, "T7": 3.0, "T8": 3.0}
ALPHA_TRACE = {"P7", "O1", "O2", "P8", "F3", "F4"}
BETA_TRACE = {"F7", "F3", "FC5", "FC6", "F4", "F8"}


def resonator(f_hz: float, width_hz: float, rate_hz: float) -> FloatArray:
    """Return the second-order section with one resonance and a gain of 1 at 0 Hz."""
    r = np.exp(-np.pi * width_hz / rate_hz)
    a1, a2 = -2 * r * np.cos(2 * np.pi * f_hz / rate_hz), r * r
    return np.array([1 + a1 + a2, 0, 0, 1, a1, a2])


def rhythm(rng: np.random.Generator, n: int, band_hz: tuple[float, float]) -> FloatArray:
    """Make noise of unit variance around band_hz = (centre, width) at 128 Hz."""
    noise = normal(rng, n + 256)
    wave_ = sosfilt(resonator(*band_hz, 128.0)[None], noise)[256:]
    return np.asarray(wave_ / wave_.std(), dtype=np.float64)


def background(rng: np.random.Generator, n: int) -> FloatArray:
    """Make the 1/f-like part of one electrode in uV."""
    red = np.asarray(sosfilt([[0.1, 0, 0, 1, -0.95, 0]], normal(rng, n + 256))[256:])
    return 12 * red + 1.5 * normal(rng, n)


def eeg(session: Session) -> FloatArray:
    """Make the EEG of a session.

    Returns
    -------
    [shape=(n_samples, 14), float64, uV]
        Background + alpha + beta; felt emotions change the amplitudes of alpha and
        beta at some electrodes by up to 45 % times the subject's gain.
    """
    stream, subject = session.streams["eeg"], session.subject
    n, rng = stream.n_samples, seeded(f"{session.name}/eeg")
    at_ns = stream.master(np.arange(n))
    alpha_felt = 1 + subject.eeg_gain * session.felt(at_ns, "alpha")
    beta_felt = 1 + subject.eeg_gain * session.felt(at_ns, "beta")
    shared = rhythm(rng, n, (subject.alpha_hz, 1.5))
    columns = []
    for name in ELECTRODES:
        own = rhythm(rng, n, (subject.alpha_hz, 1.5))
        alpha = ALPHA_UV.get(name, 2.5) * (0.8 * shared + 0.6 * own)
        beta = 2.0 * rhythm(rng, n, (21.0, 8.0))
        alpha *= alpha_felt if name in ALPHA_TRACE else 1
        beta *= beta_felt if name in BETA_TRACE else 1
        columns.append(background(rng, n) + alpha + beta)
    return np.stack(columns, axis=1)


def responses(at_s: FloatArray, onsets_s: FloatArray, heights_us: FloatArray) -> FloatArray:
    """Sum skin conductance responses: h * 2.3 * (exp(-t / 3.5) - exp(-t / 0.9))."""
    t = np.maximum(at_s[:, None] - onsets_s, 0)
    shape: FloatArray = 2.3 * (np.exp(-t / 3.5) - np.exp(-t / 0.9))
    return shape @ heights_us


def gsr(session: Session) -> FloatArray:
    """Make the skin conductance of a session.

    Returns
    -------
    [shape=(n_samples,), float64, uS]
        A slowly wandering level + responses. Felt emotions move the level with a lag
        of a few seconds and make responses more or less likely.
    """
    stream, subject = session.streams["gsr"], session.subject
    n, rng = stream.n_samples, seeded(f"{session.name}/gsr")
    at_ns = stream.master(np.arange(n))
    at_s = session.session_s(at_ns)
    lag = [[0.1, 0, 0, 1, -0.9, 0]]  # at 4 Hz: 2.5 s
    level = np.asarray(sosfilt(lag, session.felt(at_ns, "gsr_level")))
    chance = 0.04 * (1 + subject.gsr_gain * session.felt(at_ns, "gsr_rate"))
    fired = rng.random(n) < chance
    heights_us = 0.15 + 0.25 * rng.random(n)
    wander = np.cumsum(0.004 * normal(rng, n)) - 0.002 * at_s
    tonic = subject.gsr_level_us + wander + 0.6 * subject.gsr_gain * level
    phasic = responses(at_s, at_s[fired], heights_us[fired])
    return tonic + phasic + 0.002 * normal(rng, n)


# ------------------------------------------------------------------------ speech
# Source and filter after Fant: glottal pulses through a cascade of formants.


@dataclass(frozen=True)
class Shape:
    """A position of the mouth: formants F1 to F3, and how it looks (0 .. 1)."""

    formants_hz: tuple[float, float, float]
    opening: float
    width: float


SHAPES = {
    "a": Shape((850, 1350, 2700), 1.0, 0.6),
    "o": Shape((550, 900, 2500), 0.6, 0.2),
    "e": Shape((520, 1250, 2500), 0.5, 0.55),
    "i": Shape((300, 2250, 3000), 0.3, 1.0),
    "u": Shape((330, 750, 2350), 0.25, 0.0),
    "v": Shape((300, 1950, 2400), 0.25, 0.05),
    "n": Shape((280, 1500, 2500), 0.12, 0.5),
}
NOISES_HZ_S = {
    **{"b": (700, 0.015), "p": (900, 0.05), "d": (3500, 0.015), "t": (3500, 0.05)},
    **{"g": (1800, 0.015), "k": (1800, 0.06), "h": (1500, 0.08), "f": (5000, 0.08)},
    **{"j": (4500, 0.03), "q": (4500, 0.07), "x": (4500, 0.09)},
    **{"zh": (3000, 0.03), "ch": (3000, 0.07), "sh": (3000, 0.09)},
    **{"z": (5500, 0.03), "c": (5500, 0.07), "s": (5500, 0.09)},
}
TONES_SEMITONES = {
    "1": (4, 4, 4),
    "2": (-1, 1, 5),
    "3": (-2, -5, -1),
    "4": (5, 0, -6),
    "5": (0, -1, -2),
}
PINYIN = re.compile(r"([zcs]h|[bpmfdtnlgkhjqxrzcsyw]?)([aeiou]+)(n?)g?([1-5])")


@dataclass(frozen=True)
class Speech:
    """Sound at 16 kHz and the mouth that makes it, sample by sample."""

    audio: FloatArray
    opening: FloatArray
    width: FloatArray


def shapes_of(initial: str, vowels: str, coda: str) -> list[Shape]:
    """Return the mouth positions that a Mandarin syllable passes through."""
    if initial in {"j", "q", "x", "y"} and vowels[0] == "u":
        vowels = "v" + vowels[1:]
    elif initial in {"y", "w"}:
        glide = {"y": "i", "w": "u"}[initial]
        vowels = vowels if vowels[0] == glide else glide + vowels
    elif initial in {"zh", "ch", "sh", "r", "z", "c", "s"} and vowels == "i":
        vowels = "e"  # the vowel of shi and si is central
    onset = "n" if initial in {"m", "n", "l", "r"} else ""
    return [SHAPES[letter] for letter in onset + vowels + coda]


def pulses(f0_hz: FloatArray) -> FloatArray:
    """Make the derivative of Rosenberg's glottal pulses."""
    phase = np.cumsum(f0_hz / AUDIO_HZ) % 1
    rise, fall = phase / 0.4, (phase - 0.4) / 0.16
    closing = np.clip(1 - fall * fall, 0, 1)
    flow = np.where(rise < 1, rise * rise * (3 - 2 * rise), closing)
    flow[fall > 1] = 0
    return np.diff(flow, prepend=0)


def through_tract(source: FloatArray, shape: Shape, voice: Voice) -> FloatArray:
    """Filter a source by the formants of one mouth position."""
    formants_hz = [f * voice.tract for f in shape.formants_hz] + [3700.0]
    widths_hz = (80, 100, 150, 250)
    cascade = [resonator(f, w, AUDIO_HZ) for f, w in zip(formants_hz, widths_hz, strict=True)]
    return np.asarray(sosfilt(np.stack(cascade), source), dtype=np.float64)


def envelope(n: int, attack_s: float, release_s: float) -> FloatArray:
    """Make a smooth rise and fall over n samples."""
    k = np.arange(n) + 0.5
    ramp = np.minimum(k / (attack_s * AUDIO_HZ), (n - k) / (release_s * AUDIO_HZ))
    return np.asarray(np.sin(np.pi / 2 * np.clip(ramp, 0, 1)) ** 2, dtype=np.float64)


def consonant(initial: str, rng: np.random.Generator) -> FloatArray:
    """Make the noise that begins a syllable; empty where there is none."""
    centre_hz, length_s = NOISES_HZ_S.get(initial, (1000, 0.0))
    n = int(length_s * AUDIO_HZ)
    if n == 0:
        return np.zeros(0)
    section = resonator(centre_hz, 0.3 * centre_hz, AUDIO_HZ)
    noise = np.asarray(sosfilt(section[None], normal(rng, n)), dtype=np.float64)
    peak = float(np.abs(noise).max())
    return 0.15 / peak * noise * envelope(n, 0.005, length_s / 3)


def syllable(pinyin: str, n: int, voice: Voice, rng: np.random.Generator) -> Speech:
    """Speak one syllable, such as `tian1`, in n samples."""
    match = PINYIN.fullmatch(pinyin)
    if match is None:
        raise ValueError(f"{pinyin!r} is not pinyin with a tone number")
    initial, vowels, coda, tone = match.groups()
    shapes = shapes_of(initial, vowels, coda)
    place = np.linspace(0, 1, n)
    semitones = np.interp(place, (0, 0.5, 1), TONES_SEMITONES[tone])
    source = pulses(voice.f0_hz * 2 ** (semitones / 12)) + 0.003 * normal(rng, n)
    distance = np.abs(place * (len(shapes) - 1) - np.arange(len(shapes))[:, None])
    weight = np.clip(1 - distance, 0, 1)
    noise = consonant(initial, rng)
    start = min(len(noise), n // 2)
    loudness = np.zeros(n)
    loudness[start:] = envelope(n - start, 0.03, 0.06)
    voiced = sum(w * through_tract(source, s, voice) for w, s in zip(weight, shapes, strict=True))
    audio = loudness * voiced
    audio *= 0.4 / np.abs(audio).max()
    audio[:start] += noise[:start]
    opening = envelope(n, 0.06, 0.06) * (weight.T @ [s.opening for s in shapes])
    return Speech(audio, opening, weight.T @ [s.width for s in shapes])


def joined(parts: Iterable[tuple[int, Speech]], n: int) -> Speech:
    """Put syllables at their first samples on a silent line of n samples."""
    audio, opening, width = np.zeros(n), np.zeros(n), np.full(n, 0.5)
    for start, part in parts:
        where = slice(start, min(n, start + len(part.audio)))
        length = where.stop - start
        audio[where] = part.audio[:length]
        opening[where] = part.opening[:length]
        width[where] = part.width[:length]
    return Speech(audio, opening, width)


BABBLE = (
    *("ba1", "ma3", "na2", "la4", "wa1", "ya3", "bo1", "gu4"),
    *("ge2", "li4", "yao1", "mei2", "dan4", "hai2", "you3", "ni3"),
)


def babble(session: Session) -> Speech:
    """Speak syllables through a session, as large and fast as it is felt."""
    stream, subject = session.streams["audio"], session.subject
    n, rng = stream.n_samples, seeded(f"{session.name}/speech")
    at_ns = stream.master(np.arange(0, n, 160))
    size = 1 + subject.mouth_gain * session.felt(at_ns, "mouth_size")
    pace = 1 + subject.mouth_gain * session.felt(at_ns, "mouth_rate")
    parts, start = [], AUDIO_HZ // 4
    while start < n - AUDIO_HZ // 2:
        now = start // 160
        length = int(between(rng, 0.2, 0.28) * AUDIO_HZ / pace[now])
        spoken = syllable(BABBLE[int(between(rng, 0, len(BABBLE)))], length, subject.voice, rng)
        parts.append((start, scaled(spoken, 0.6 * size[now])))
        pause_s = 0.45 if between(rng, 0, 1) < 1 / 6 else 0.02
        start += length + int(pause_s / pace[now] * AUDIO_HZ)
    return joined(parts, n)


def room(name: str, n: int) -> FloatArray:
    """Make the faint noise of a room, so that no pause is exactly silent."""
    return 0.0005 * normal(seeded(f"{name}/room"), n)


def scaled(speech: Speech, size: float) -> Speech:
    """Make the mouth and the sound of a speech larger or smaller."""
    return Speech(speech.audio * size, speech.opening * size, speech.width)


# --------------------------------------------------------------------- pictures


def ellipse(image: Image, box: tuple[float, float, float, float], colour: Sequence[int]) -> Image:
    """Paint an ellipse (centre x, y, radius x, y in pixels) with soft edges."""
    (x0, y0, rx, ry), margin = box, 1.5 + max(box[2:]) / min(box[2:])
    left, top = max(0, int(x0 - rx - margin)), max(0, int(y0 - ry - margin))
    where = np.s_[top : int(y0 + ry + margin) + 2, left : int(x0 + rx + margin) + 2]
    painted = image.copy()
    part = painted[where]
    y = np.arange(top, top + part.shape[0])[:, None]
    x = np.arange(left, left + part.shape[1])
    inside = 1 - np.sqrt(((x - x0) / rx) ** 2 + ((y - y0) / ry) ** 2)
    cover = np.clip(inside * min(rx, ry) + 0.5, 0, 1)[..., None]
    part += cover * (np.array(colour, dtype=np.float64) - part)
    return painted


def mouth(image: Image, centre: tuple[float, float], size: tuple[float, float, float]) -> Image:
    """Paint lips around an opening; size = (scale in pixels, opening, width)."""
    (x, y), (scale, opening, width) = centre, size
    rx, ry = scale * (0.7 + 0.3 * width), 0.75 * scale * opening
    lips = ellipse(image, (x, y, rx, 0.2 * scale + ry), (175, 70, 75))
    if ry < 1:
        return ellipse(lips, (x, y, 0.85 * rx, 0.8), (110, 40, 45))
    hollow = ellipse(lips, (x, y, 0.82 * rx, ry), (50, 12, 16))
    teeth = (x, y - 0.72 * ry, 0.5 * rx, max(0.22 * ry, 0.5))
    return ellipse(hollow, teeth, (235, 230, 220))


EYES_XY = ((34, 42), (62, 42))


def head(subject: Subject) -> Image:
    """Paint a face of 96 x 96 pixels without its mouth."""
    image = np.full((96, 96, 3), (112.0, 128.0, 140.0))
    shade = tuple(int(0.85 * value) for value in subject.skin)
    image = ellipse(image, (48, 104, 46, 22), (70, 84, 120))
    image = ellipse(image, (48, 80, 13, 18), shade)
    image = ellipse(image, (48, 42, 37, 38), subject.hair)
    image = ellipse(image, (17, 50, 5, 8), shade)
    image = ellipse(image, (79, 50, 5, 8), shade)
    image = ellipse(image, (48, 51, 30, 37), subject.skin)
    image = ellipse(image, (48, 58, 4, 6), shade)
    image = ellipse(image, (48, 55, 3, 7), subject.skin)
    for x, y in EYES_XY:
        image = ellipse(image, (x, y - 9, 8, 1.6), subject.hair)
        image = ellipse(image, (x, y, 7, 4), (245, 245, 245))
        image = ellipse(image, (x, y, 3, 3.2), (45, 35, 30))
    return image


def eyes_shut(image: Image, subject: Subject) -> Image:
    """Paint lids over the eyes."""
    shade = [int(0.8 * value) for value in subject.skin]
    for x, y in EYES_XY:
        image = ellipse(image, (x, y, 9.5, 6), subject.skin)
        image = ellipse(image, (x, y + 1, 7, 1), shade)
    return image


def at_frames(track: FloatArray, frames: IntArray, fps: int) -> FloatArray:
    """Return the mean of a 16 kHz track over 40 ms around each frame's time."""
    total = np.concatenate([[0.0], np.cumsum(track)])
    centre = frames * AUDIO_HZ // fps
    low = np.clip(centre - 320, 0, len(track) - 1)
    high = np.clip(centre + 320, 1, len(track))
    return np.asarray((total[high] - total[low]) / (high - low), dtype=np.float64)


def talking_head(session: Session, speech: Speech) -> Iterator[Image]:
    """Paint the frames of a session that the camera did not lose."""
    rng = seeded(f"{session.name}/face")
    stream = session.streams["video"]
    blinks = np.cumsum(60 + 90 * rng.random(40)).astype(np.int64)
    face = head(session.subject)
    faces = face, eyes_shut(face, session.subject)
    opening = at_frames(speech.opening, stream.kept, 30)
    width = at_frames(speech.width, stream.kept, 30)
    sway = whole(1.5 * np.sin(stream.kept / 40 + 6 * rng.random()))
    for i, frame in enumerate(stream.kept):
        shut = bool(np.any((frame >= blinks) & (frame < blinks + 4)))
        image = mouth(faces[shut], (48, 72), (13, opening[i], width[i]))
        yield np.roll(image, sway[i], axis=1)


def lips(speech: Speech, n_frames: int) -> Iterator[Image]:
    """Paint a mouth of 64 x 64 pixels at 25 fps."""
    frames = np.arange(n_frames)
    opening = at_frames(speech.opening, frames, 25)
    width = at_frames(speech.width, frames, 25)
    skin = np.full((64, 64, 3), (226.0, 184.0, 156.0))
    skin = ellipse(skin, (32, 66, 20, 8), (205, 160, 135))
    for i in range(n_frames):
        yield mouth(skin, (32, 32), (21, opening[i], width[i]))


# ------------------------------------------------------------------------- files


def decimal(value_ns: int, digits: int) -> str:
    """Print nanoseconds as seconds, exactly."""
    whole, rest = divmod(abs(value_ns), SECOND_NS)
    sign = "-" if value_ns < 0 else ""
    return f"{sign}{whole}.{rest:09d}"[: digits - 9 or None]


def write_text(path: Path, lines: Iterable[str]) -> None:
    """Write lines as UTF-8 with line feeds on every platform."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())


def write_ptp(path: Path, times_ns: IntArray) -> None:
    """Write a log of PTP exchanges."""
    rows = ("\t".join(decimal(t, 9) for t in row) for row in times_ns.tolist())
    write_text(path, ["t1\tt2\tt3\tt4", *rows])


def stamps_ns(session: Session, kind: str) -> IntArray:
    """Return what the device stamps on each sample, in whole microseconds."""
    stream = session.streams[kind]
    jitter = normal(seeded(f"{session.name}/{kind}/stamps"), stream.n_samples)
    jitter_ns = whole(1e9 * stream.jitter_s * jitter)
    return (stream.at(np.arange(stream.n_samples)) + jitter_ns + 500) // 1000 * 1000


@dataclass(frozen=True)
class Table:
    """Samples with stamps in ns, and the decimals to print."""

    names: tuple[str, ...]
    digits: int
    stamps_ns: IntArray
    values: FloatArray  # one row a sample


def write_table(path: Path, table: Table) -> None:
    """Write a table of samples; stamps are in seconds of the device's clock."""
    # Adding 0.0 turns -0.0 into 0.0.
    values = (np.round(table.values, table.digits) + 0.0).tolist()
    template = "\t".join([f"%.{table.digits}f"] * len(table.names))
    rows = (
        f"{decimal(stamp, 6)}\t{template % tuple(row)}"
        for stamp, row in zip(table.stamps_ns.tolist(), values, strict=True)
    )
    write_text(path, ["\t".join(["time", *table.names]), *rows])


def write_wav(path: Path, audio: FloatArray) -> None:
    """Write mono sound of 16 bits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pcm = np.rint(np.clip(audio, -1, 1) * 32767).astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(AUDIO_HZ)
        file.writeframes(pcm.tobytes())


def video_packets(
    stream: av.VideoStream, images: Iterable[Image], pts: Iterable[int]
) -> Iterator["av.Packet[av.VideoStream]"]:
    """Encode images at their times, in ticks of one frame period."""
    convert = VideoReformatter().reformat  # one for all: each sets up its tables anew
    for image, tick in zip(images, pts, strict=True):
        pixels = np.rint(np.clip(image, 0, 255)).astype(np.uint8)
        rgb = av.VideoFrame.from_ndarray(pixels, format="rgb24")
        frame = convert(rgb, format="yuv420p")
        frame.pts, frame.time_base = int(tick), stream.codec_context.time_base
        yield from stream.encode(frame)
    yield from stream.encode(None)


def audio_packets(
    stream: av.AudioStream, audio: FloatArray
) -> Iterator["av.Packet[av.AudioStream]"]:
    """Encode sound that begins at 0."""
    for start in range(0, len(audio), 1024):
        block = audio[None, start : start + 1024].astype(np.float32)
        frame = av.AudioFrame.from_ndarray(block, format="fltp", layout="mono")
        frame.sample_rate = AUDIO_HZ
        frame.pts, frame.time_base = start, Fraction(1, AUDIO_HZ)
        yield from stream.encode(frame)
    yield from stream.encode(None)


def video_track(container: OutputContainer, fps: int, side: int) -> av.VideoStream:
    """Add a track of H.264 in square frames."""
    # Without B-frames the packets are in the order of their times.
    options = {"crf": "27", "preset": "veryfast", "bf": "0", "g": "60"}
    stream = container.add_stream("libx264", rate=fps, options=options)
    stream.width = stream.height = side
    stream.pix_fmt = "yuv420p"
    stream.codec_context.time_base = Fraction(1, fps)
    stream.codec_context.thread_count = 1
    stream.codec_context.flags |= Flags.bitexact
    return stream


def audio_track(container: OutputContainer) -> av.AudioStream:
    """Add a track of AAC."""
    stream = container.add_stream("aac", rate=AUDIO_HZ, layout="mono")
    stream.bit_rate = 32000
    stream.codec_context.flags |= Flags.bitexact
    return stream


@dataclass(frozen=True)
class Film:
    """What goes into one .mp4."""

    fps: int
    side: int
    ticks: IntArray
    images: Iterable[Image]
    audio: FloatArray | None = None


def write_mp4(path: Path, film: Film) -> None:
    """Write a film; its tracks share the container's time line from 0."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w", options={"fflags": "+bitexact"}) as container:
        track = video_track(container, film.fps, film.side)
        sound = audio_track(container) if film.audio is not None else None
        packets: list[av.Packet[Any]] = list(video_packets(track, film.images, film.ticks))
        if sound is not None and film.audio is not None:
            packets += audio_packets(sound, film.audio)
        for packet in sorted(packets, key=lambda p: (p.dts or 0) * p.time_base):
            container.mux(packet)


# ------------------------------------------------------------------------ AMIGOS

NOTE = (
    "The truth about amigos/. All *_ns are integer nanoseconds; master is Unix time. "
    "Sample k of a stream (k counts from 0 and includes lost samples) is on the "
    "device's clock at device_ns = first_device_ns + k * 1e9 / rate_hz, and truly at "
    "master_ns = master_ref_ns + (device_ns - device_ref_ns) / (1 + drift_ppm * 1e-6). "
    "offset_s = (device_ref_ns - master_ref_ns) / 1e9 is the device's lead at "
    "master_ref_ns. Stamps in the EEG file add normal jitter of jitter_s. "
    "The clock of video and audio is the container's time line. A stream covers "
    "[begin_ns, end_ns), end_ns being one period after its last sample; gaps and "
    "dropped_frames are lost samples by k. Second 0 of labels.tsv is origin_ns, the "
    "largest begin_ns of the session; common_end_ns is the smallest end_ns."
)


def stream_truth(stream: Stream) -> dict[str, object]:
    """Write down the clock and the losses of one stream."""
    clock, (begin_ns, end_ns) = stream.clock, stream.span_ns
    return {
        "rate_hz": stream.rate_hz,
        "n_samples": stream.n_samples,
        "n_kept": len(stream.kept),
        "offset_s": (clock.device_ref_ns - clock.master_ref_ns) / SECOND_NS,
        "drift_ppm": clock.drift_ppm,
        "master_ref_ns": clock.master_ref_ns,
        "device_ref_ns": clock.device_ref_ns,
        "first_device_ns": stream.first_device_ns,
        "begin_ns": begin_ns,
        "end_ns": end_ns,
        "jitter_s": stream.jitter_s,
        "gaps": [gap_truth(stream, *gap) for gap in stream.gaps],
    }


def gap_truth(stream: Stream, first: int, count: int) -> dict[str, int]:
    """Write down one run of lost samples."""
    begin_ns, end_ns = stream.master(np.array([first, first + count])).tolist()
    return {"first": first, "count": count, "begin_ns": begin_ns, "end_ns": end_ns}


def session_truth(session: Session) -> dict[str, object]:
    """Write down one session."""
    streams = {name: stream_truth(s) for name, s in session.streams.items()}
    streams["video"]["dropped_frames"] = list(session.streams["video"].missing)
    return {
        "origin_ns": session.origin_ns,
        "common_end_ns": session.end_ns,
        "streams": streams,
    }


def table_of(session: Session, kind: str) -> Table:
    """Make the EEG or the GSR of a session, without the lost samples."""
    make, names, digits = {"eeg": (eeg, ELECTRODES, 2), "gsr": (gsr, ("gsr",), 4)}[kind]
    kept = session.streams[kind].kept
    values = make(session).reshape(-1, len(names))
    return Table(names, digits, stamps_ns(session, kind)[kept], values[kept])


def write_session(folder: Path, session: Session) -> None:
    """Write the streams of one session and their PTP logs."""
    stem, streams = f"{folder / session.name}", session.streams
    for kind in ("eeg", "gsr"):
        write_table(Path(f"{stem}_{kind}.tsv"), table_of(session, kind))
    speech = babble(session)
    images = talking_head(session, speech)
    sound = speech.audio + room(session.name, len(speech.audio))
    write_mp4(Path(f"{stem}_video.mp4"), Film(30, 96, streams["video"].kept, images, sound))
    for kind in ("eeg", "gsr", "video"):
        rng = seeded(f"{session.name}/{kind}/ptp")
        log_ns = exchanges(streams[kind].clock, session.base_ns, rng)
        write_ptp(Path(f"{stem}_{kind}.ptp.tsv"), log_ns)


def write_amigos(folder: Path) -> None:
    """Write the AMIGOS-like corpus."""
    sessions = [plan(number) for number in range(8)]
    for session in sessions:
        write_session(folder, session)
    rows = (
        f"{session.name}\t{begin_s:.3f}\t{end_s:.3f}\t{label}"
        for session in sessions
        for begin_s, end_s, label in session.labels
    )
    write_text(folder / "labels.tsv", ["session\tbegin_s\tend_s\tlabel", *rows])
    truth = {"note": NOTE, "sessions": {s.name: session_truth(s) for s in sessions}}
    write_text(folder / "truth.json", [json.dumps(truth, indent=1)])


# -------------------------------------------------------------------------- CMLR

VOICES = {"s1": Voice(215, 1.15), "s2": Voice(118, 1.0), "s4": Voice(185, 1.1)}

SENTENCES = """
s1/20170121/section_1_000.80_002.91 国家统计局今天发布 guo2 jia1 tong3 ji4 ju2 jin1 tian1 fa1 bu4
s1/20170121/section_1_003.10_006.02 全国粮食产量再创历史新高 quan2 guo2 liang2 shi2 chan3 liang4 zai4 chuang4 li4 shi3 xin1 gao1
s1/20170121/section_2_001.15_003.40 各地市场供应充足稳定 ge4 di4 shi4 chang3 gong1 ying4 chong1 zu2 wen3 ding4
s1/20170308/section_1_002.36_004.75 今年春运铁路运行平稳 jin1 nian2 chun1 yun4 tie3 lu4 yun4 xing2 ping2 wen3
s1/20170308/section_3_000.54_002.10 天气逐渐转暖 tian1 qi4 zhu2 jian4 zhuan3 nuan3
s2/20120614/section_1_001.02_003.66 科研人员取得重要新进展 ke1 yan2 ren2 yuan2 qu3 de2 zhong4 yao4 xin1 jin4 zhan3
s2/20120614/section_1_003.90_007.52 这项技术将用于改善城市的空气质量 zhe4 xiang4 ji4 shu4 jiang1 yong4 yu2 gai3 shan4 cheng2 shi4 de5 kong1 qi4 zhi4 liang4
s2/20120614/section_2_000.70_001.92 请继续收看 qing3 ji4 xu4 shou1 kan4
s2/20150902/section_2_002.20_004.48 新的高速铁路正式开通 xin1 de5 gao1 su4 tie3 lu4 zheng4 shi4 kai1 tong1
s2/20150902/section_5_000.96_003.30 两地往来时间大大缩短 liang3 di4 wang3 lai2 shi2 jian1 da4 da4 suo1 duan3
s4/20110304/section_4_002.92_004.59 会议今天在京召开 hui4 yi4 jin1 tian1 zai4 jing1 zhao4 kai1
s4/20110304/section_4_004.80_007.66 代表们就农业发展展开讨论 dai4 biao3 men5 jiu4 nong2 ye4 fa1 zhan3 zhan3 kai1 tao3 lun4
s4/20110304/section_6_001.10_002.64 欢迎收看新闻 huan1 ying2 shou1 kan4 xin1 wen2
s4/20130719/section_2_000.88_003.94 南方多地迎来入夏以来最强降雨 nan2 fang1 duo1 di4 ying2 lai2 ru4 xia4 yi3 lai2 zui4 qiang2 jiang4 yu3
s4/20130719/section_3_003.25_005.38 有关部门提醒注意安全 you3 guan1 bu4 men2 ti2 xing3 zhu4 yi4 an1 quan2
"""  # noqa: E501 - a sentence is a line


def length_cs(key: str) -> int:
    """Return the length of a sentence in hundredths of a second, from its id."""
    begin, end = key.split("_")[-2:]
    return int(end.replace(".", "")) - int(begin.replace(".", ""))


def sentence(key: str, pinyin: Sequence[str]) -> Speech:
    """Speak a sentence within the length that its id gives."""
    voice, rng = VOICES[key.partition("/")[0]], seeded(key)
    n = length_cs(key) * AUDIO_HZ // 100
    edge = AUDIO_HZ * 8 // 100
    share = 0.85 + 0.3 * rng.random(len(pinyin))
    stops = edge + (np.cumsum(share) / share.sum() * (n - 2 * edge)).astype(np.int64)
    starts = [edge, *stops[:-1].tolist()]
    parts = []
    for i, (start, stop) in enumerate(zip(starts, stops.tolist(), strict=True)):
        falling = Voice(voice.f0_hz * (1.06 - 0.12 * i / len(pinyin)), voice.tract)
        parts.append((start, syllable(pinyin[i], stop - start, falling, rng)))
    return joined(parts, n)


def write_sentence(folder: Path, line: str) -> None:
    """Write the sound, the text and the mouth of one sentence."""
    key, text, *pinyin = line.split()
    speech = sentence(key, pinyin)
    sound = speech.audio + room(key, len(speech.audio))
    write_wav(folder / "audio" / f"{key}.wav", sound)
    write_text(folder / "text" / f"{key}.txt", [text])
    n_frames = length_cs(key) * 25 // 100
    film = Film(25, 64, np.arange(n_frames), lips(speech, n_frames))
    write_mp4(folder / "video" / f"{key}.mp4", film)


def write_cmlr(folder: Path) -> None:
    """Write the CMLR-like corpus."""
    for line in SENTENCES.strip().splitlines():
        write_sentence(folder, line)


def main(arguments: Sequence[str]) -> None:
    """Write both corpora below the folder given, or beside this file."""
    out = Path(arguments[0]) if arguments else Path(__file__).parent
    write_amigos(out / "amigos")
    write_cmlr(out / "cmlr")


if __name__ == "__main__":
    main(sys.argv[1:])
