"""What the benchmarks read, made once and from seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mmprep.timebase import NS_PER_S, IntArray
from tests import synth

EEG = ["AF3", "F7", "F3", "FC5", "T7", "P7", "O1", "O2", "P8", "T8", "FC6", "F4", "F8", "AF4"]
TABLE_HZ, ROWS_A_PIECE, TABLE_START_US = 128, 100_000, 1_480_000_000_000_000
AUDIO_HZ = 16_000
FloatArray = npt.NDArray[np.float64]

# Tables -------------------------------------------------------------------------------------------


def table(path: Path, n_bytes: int, *, seed: int = 0) -> None:
    """Write a table as AMIGOS has them: time, 14 EEG (14 bits), 2 ECG (12 bits), GSR."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    with path.open("wb") as file:
        file.write("\t".join(["time", *EEG, "ECG_R", "ECG_L", "GSR"]).encode() + b"\n")
        first = 0
        while file.tell() < n_bytes:
            n = min(ROWS_A_PIECE, 1 + (n_bytes - file.tell()) // 140)
            file.write(_lines(rng, first, n))
            first += n


def _lines(rng: np.random.Generator, first: int, n: int) -> bytes:
    import pyarrow as pa
    from pyarrow import csv

    rows = first + np.arange(n)
    columns = {"time": (TABLE_START_US + rows * 10**6 // TABLE_HZ) / 1e6}
    for name in EEG:
        wave = 40 * np.sin(2 * np.pi * (rows / TABLE_HZ * 10 + rng.random()))
        steps = np.rint((wave + _noise(rng, n, 0.98)) / 0.51282) + 8190
        columns[name] = np.round(steps * 0.51282, 2)
    for name in ("ECG_R", "ECG_L"):
        columns[name] = np.round(np.rint(_noise(rng, n, 0.9) * 20) * 0.0006105, 4)
    columns["GSR"] = np.round(3 + np.sin(rows / 5000) + 0.01 * rng.standard_normal(n), 3)
    sink = pa.BufferOutputStream()
    options = csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    csv.write_csv(pa.table(columns), sink, options)
    return sink.getvalue().to_pybytes()


def _noise(rng: np.random.Generator, n: int, memory: float) -> FloatArray:
    from scipy.signal import lfilter

    return np.asarray(lfilter([5.0], [1.0, -memory], rng.standard_normal(n)))


def tables(folder: Path, n_files: int, n_bytes: int) -> None:
    """Write small tables, each in a folder of its own."""
    for k in range(n_files):
        table(folder / f"P{k // 20:02d}" / f"V{k % 20:02d}" / "eeg.tsv", n_bytes, seed=k)


# Sound --------------------------------------------------------------------------------------------


def sounds(folder: Path, n_files: int, suffix: str = "wav") -> float:
    """Write utterances of 2 to 10 s, 16 bits, shaped like speech; give the seconds."""
    rng = np.random.default_rng(7)
    lengths = rng.integers(2 * AUDIO_HZ, 10 * AUDIO_HZ, n_files)
    for k, n in enumerate(lengths):
        path = folder / f"s{k % 11:02d}" / f"utterance_{k:05d}.{suffix}"
        _write_sound(path, _speech(rng, int(n)))
    return float(lengths.sum()) / AUDIO_HZ


def clips(folder: Path, n_files: int) -> None:
    """Write the shortest sound files that make a record each, by 40 speakers."""
    samples = np.arange(-160, 160, dtype=np.int16)
    for k in range(n_files):
        _write_sound(folder / f"s{k % 40:02d}" / f"clip_{k:06d}.wav", samples)


def _speech(rng: np.random.Generator, n: int) -> npt.NDArray[np.int16]:
    syllables = 0.5 + 0.5 * np.sin(2 * np.pi * 4 * np.arange(n) / AUDIO_HZ)
    shaped = _noise(rng, n, 0.95) * syllables
    return np.asarray(np.clip(shaped * 300, -32768, 32767), dtype=np.int16)


def _write_sound(path: Path, samples: npt.NDArray[np.int16]) -> None:
    import soundfile

    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples, AUDIO_HZ)


# A session ----------------------------------------------------------------------------------------

START_S = 2.0
CLOCKS = {
    "video": synth.Clock(
        fast_ppm=-22,
        wander_s=0.5e-3,
        epoch_ns=-synth.MASTER_NS - int(START_S * NS_PER_S),
        seed=1,
    ),
    "eeg": synth.Clock(fast_ppm=35, wander_s=0.5e-3, epoch_ns=2_345_678_901, seed=2),
    "gsr": synth.Clock(fast_ppm=-60, wander_s=0.5e-3, epoch_ns=-1_234_567_890, seed=3),
}
RATES = {"video": 30, "eeg": 128, "gsr": 4}


@dataclass(frozen=True)
class Session:
    """A session whose truth is known; all times are Unix nanoseconds of the master clock."""

    folder: Path
    length_s: int

    def path(self, name: str) -> Path:
        """Give the file of a stream."""
        return self.folder / ("video.mp4" if name == "video" else f"{name}.tsv")

    def named(self) -> list[object]:
        """Give the options that name its streams and their clocks."""
        streams = [part for name in RATES for part in (f"--{name}", self.path(name))]
        for name in RATES:
            streams += ["--clock", f"{name}={self.folder / name}.ptp.tsv"]
        return streams

    def device_ns(self, name: str) -> IntArray:
        """Give the true device stamps of a stream's samples."""
        clock, rate_hz = CLOCKS[name], RATES[name]
        origin = np.array([synth.MASTER_NS + int(START_S * NS_PER_S)])
        first = 0 if name == "video" else clock.device_ns(origin)[0]
        return first + np.rint(np.arange(self.length_s * rate_hz) * (NS_PER_S / rate_hz)).astype(
            np.int64
        )

    def master_ns(self, name: str) -> IntArray:
        """Give the times at which a stream's samples were truly taken."""
        return master_of(CLOCKS[name], self.device_ns(name))


def master_of(clock: synth.Clock, device_ns: IntArray) -> IntArray:
    """Read the master clock at these device times."""
    plain = device_ns - clock.epoch_ns
    master = plain
    for _ in range(6):
        gain_s = clock.gain_s((master - synth.MASTER_NS) / NS_PER_S)
        master = plain - np.rint(gain_s * NS_PER_S).astype(np.int64)
    return master


def eeg_at(master_ns: IntArray) -> FloatArray:
    """Give the EEG at these times: 10 and 27 Hz, 14 channels."""
    at_s = ((master_ns - synth.MASTER_NS) / NS_PER_S)[:, None]
    phase = np.arange(len(EEG)) / 3
    waves = 20 * np.sin(2 * np.pi * 10 * at_s + phase) + 8 * np.sin(2 * np.pi * 27 * at_s - phase)
    return np.asarray(waves)


def gsr_at(master_ns: IntArray) -> FloatArray:
    """Give the skin conductance at these times."""
    at_s = ((master_ns - synth.MASTER_NS) / NS_PER_S)[:, None]
    return np.asarray(3 + np.sin(2 * np.pi * at_s / 8))


def session(folder: Path, length_s: int) -> Session:
    """Write a film, EEG, GSR and a PTP log of each."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Session(folder, length_s)
    for name, clock in CLOCKS.items():
        log = synth.exchanges(clock, duration_s=length_s + 2 * START_S, seed=clock.seed)
        stamps = np.stack([log.t1_ns, log.t2_ns, log.t3_ns, log.t4_ns], axis=1)
        rows = ["\t".join(decimal(int(ns), 9) for ns in row) for row in stamps]
        _write(folder / f"{name}.ptp.tsv", "t1\tt2\tt3\tt4", rows)
    n_frames = length_s * RATES["video"]
    _film(made.path("video"), n_frames, (64, 48), lambda k: np.full((48, 64), k % 200 + 20.0))
    _signal(made, "eeg", EEG, eeg_at)
    _signal(made, "gsr", ["gsr"], gsr_at)
    return made


def _signal(
    made: Session, name: str, channels: list[str], value: Callable[[IntArray], FloatArray]
) -> None:
    import pyarrow as pa
    from pyarrow import csv

    stamps, master = made.device_ns(name), made.master_ns(name)
    options = csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    with made.path(name).open("wb") as file:
        file.write("\t".join(["time", *channels]).encode() + b"\n")
        for first in range(0, stamps.size, ROWS_A_PIECE):
            piece = slice(first, first + ROWS_A_PIECE)
            columns = dict(zip(channels, np.round(value(master[piece]), 4).T, strict=True))
            table = pa.table({"time": _decimals(stamps[piece]), **columns})
            csv.write_csv(table, file, options)


def _decimals(stamps_ns: IntArray) -> list[str]:
    """Write nanoseconds as decimal seconds with six digits."""
    whole, part = np.divmod((stamps_ns + 500) // 1000, 10**6)
    digits = np.char.zfill(part.astype(str), 6)
    found: list[str] = np.char.add(np.char.add(whole.astype(str), "."), digits).tolist()
    return found


def decimal(ns: int, digits: int) -> str:
    """Write nanoseconds as decimal seconds."""
    unit = 10 ** (9 - digits)
    whole, part = divmod(abs((ns + unit // 2) // unit), 10**digits)
    return f"{'-' if ns < 0 else ''}{whole}.{part:0{digits}d}"


def _write(path: Path, header: str, rows: list[str]) -> None:
    path.write_text("\n".join([header, *rows, ""]), encoding="utf-8")


def film(path: Path, length_s: int) -> None:
    """Write a film of 640 x 480 in H.264: waves, a box that moves, and the noise of a sensor."""
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 4, (8, 480, 640))
    row, column = np.mgrid[:480, :640]
    path.parent.mkdir(parents=True, exist_ok=True)

    def image(k: int) -> FloatArray:
        luma = 128 + 60 * np.sin(column / 37 + k / 20) + 40 * np.cos(row / 23 - k / 31)
        top, left = int(200 + 150 * np.cos(k / 33)), int(280 + 200 * np.sin(k / 40))
        luma[top : top + 80, left : left + 80] = 220
        return np.asarray(np.clip(luma + noise[k % 8], 0, 255))

    _film(path, length_s * RATES["video"], (640, 480), image, codec="libx264", preset="veryfast")


def _film(
    path: Path,
    n_frames: int,
    size: tuple[int, int],
    luma: Callable[[int], FloatArray],
    *,
    codec: str = "mpeg4",
    **options: str,
) -> None:
    import av

    width, height = size
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=RATES["video"], options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        planes = np.full((height * 3 // 2, width), 128, np.uint8)
        for k in range(n_frames):
            planes[:height] = luma(k)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(planes, format="yuv420p")))
        container.mux(stream.encode())
