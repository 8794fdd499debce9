"""Every collected file through `convert`, beside what another reader makes of it: one table.

Rules
-----
- A case is one recording as a user would name it: a file, or the folder of a set. Each collected
  file belongs to a case.
- The other reader is called directly: soundfile or PyAV for sound, PyAV for video, edfio, pyxdf,
  MNE, pandas for text. It says channels, rate, units, start and rows of each stream.
- Either both agree, or `convert` refuses: where the other reader refuses it too, or for a fault
  that is known of the file. Why is said in `REFUSED`.

`make proof` writes the table to build/proof.tsv; it fails where a file is not as expected. The
folder of collected files is `../shared/data`, or what `COLLECTED` names.
"""

from __future__ import annotations

import csv
import fnmatch
import json
import logging
import re
import shutil
import struct
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import av
import edfio
import mne
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pyxdf
import soundfile
from av.error import FFmpegError
from av.stream import Disposition

from mmprep import run_convert
from mmprep.errors import MmprepError
from mmprep.manifest.codec import read_manifest
from mmprep.media import AUDIO_SUFFIXES, VIDEO_SUFFIXES
from mmprep.steps.base import FailedItemsError
from tests.conftest import SHARED

NS = 10**9


@dataclass(frozen=True)
class Seen:
    """What is known of one stream.

    Parameters
    ----------
    rate_hz : float, optional
        None: no rate.
    units : tuple of str
        Those that are named, each once, sorted.
    start_ns : int, optional
        The first stamp on the source's clock; a local time counts as if it were UTC. None: no row.
    """

    channels: int
    rate_hz: float | None
    units: tuple[str, ...]
    start_ns: int | None
    rows: int

    def agrees(self, other: Seen) -> bool:
        """Say whether both are the same; a rate measured from stamps is so to 600 ppm."""
        same = (self.channels, self.units, self.rows) == (other.channels, other.units, other.rows)
        return same and self._same_rate(other) and self._same_start(other)

    def _same_rate(self, other: Seen) -> bool:
        if self.rate_hz is None or other.rate_hz is None:
            return self.rate_hz is other.rate_hz
        return abs(self.rate_hz - other.rate_hz) <= 6e-4 * other.rate_hz

    def _same_start(self, other: Seen) -> bool:
        if self.start_ns is None or other.start_ns is None:
            return self.start_ns is other.start_ns
        return abs(self.start_ns - other.start_ns) <= 1000  # readers give floats of seconds


Seens = dict[str, Seen]
Reader = Callable[[Path], Seens]


@dataclass(frozen=True)
class Case:
    """One recording.

    Parameters
    ----------
    name : str
        What is given to `convert`, below the folder of collected files.
    files : tuple of str
        The collected files that it consists of.
    reader : callable, optional
        The other reader, called `by`. None where none knows the format.
    options : mapping
        What the user has to say.
    """

    name: str
    files: tuple[str, ...]
    by: str
    reader: Reader | None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    case: Case
    ours: Seens | str
    theirs: Seens | str
    verdict: str
    is_expected: bool

    def lines(self) -> Iterator[tuple[str, ...]]:
        """Give the cells, a line for each stream."""
        if isinstance(self.ours, str):
            yield (self.case.name, *[""] * 6, self.case.by, self.verdict)
            return
        for stream, seen in self.ours.items():
            rate = "" if seen.rate_hz is None else f"{seen.rate_hz:.6g}"
            start = "" if seen.start_ns is None else f"{seen.start_ns / NS:.6f}"
            cells = (str(seen.channels), rate, " ".join(seen.units), start, str(seen.rows))
            yield (self.case.name, stream, *cells, self.case.by, self.verdict)


HEAD = ("file", "stream", "channels", "rate", "unit", "start", "rows", "reader", "verdict")

# Readers that are not ours ------------------------------------------------------------------------


def by_sound(path: Path) -> Seens:
    """Read sound by soundfile, by PyAV what libsndfile doesn't know or resamples."""
    if path.suffix not in {".opus", ".mp3", ".ogg"}:  # libsndfile resamples or cuts these
        try:
            with soundfile.SoundFile(path) as sound:
                n_samples = len(sound.read(dtype="float32", always_2d=True))
                channels, rate_hz = sound.channels, float(sound.samplerate)
            return {"audio": Seen(channels, rate_hz, (), 0, n_samples)}
        except (soundfile.LibsndfileError, ValueError):
            pass  # unknown, or a length that can't be
    seen = by_av(path)
    if path.suffix == ".mp3":  # FFmpeg counts from the delay of the encoder, which it cuts
        seen = {"audio": replace(seen["audio"], start_ns=0)}
    return seen


def by_av(path: Path) -> Seens:
    """Decode the first track of sound, and list the packets of the first one of video."""
    found = {}
    with av.open(str(path)) as container:
        kinds = [kind for kind in ("audio", "video") if getattr(container.streams, kind)]
    for kind in kinds:
        with av.open(str(path)) as container:
            stream = getattr(container.streams, kind)[0]
            if not stream.disposition & Disposition.attached_pic:
                read = _sound_of if kind == "audio" else _video_of
                found[kind] = read(container, stream)
                if kind == "audio" and "mov" in container.format.name:
                    n_shown = _shown(path, found[kind])
                    found[kind] = replace(found[kind], rows=min(found[kind].rows, n_shown))
    return found


def _sound_of(container: Any, stream: Any) -> Seen:
    n_samples, start_ns = 0, None
    for packet in container.demux(stream):
        try:
            frames = packet.decode()
        except FFmpegError:
            continue
        for frame in frames:
            if start_ns is None:
                start_ns = round((frame.pts or 0) * frame.time_base * NS)
            n_samples += frame.samples
    context = stream.codec_context
    if not n_samples:
        raise ValueError("no sample can be decoded")
    return Seen(context.channels, float(context.sample_rate), (), start_ns, n_samples)


def _shown(path: Path, sound: Seen) -> int:
    """Count the samples that an mp4 shows, which FFmpeg fills up to whole packets.

    Sound ends with its last packet, which may be a short one, and with the edit list, whose last
    tick is shown as a whole.
    """
    with av.open(str(path)) as container:
        stream = container.streams.audio[0]
        packets = [packet for packet in container.demux(stream) if packet.size]
        end_s = float(max(p.pts + p.duration for p in packets) * stream.time_base)
        is_odd = max(p.duration for p in packets) != stream.codec_context.frame_size
    start_s = (sound.start_ns or 0) / NS
    if is_odd:  # stamps that don't go with the packets
        end_s = start_s + sound.rows / (sound.rate_hz or 1)
    data = path.read_bytes()
    (ticks_per_s,) = struct.unpack_from(">I", data, data.find(b"mvhd") + 16)
    track = next(part for part in data.split(b"trak")[1:] if b"soun" in part)
    at = track.find(b"elst") + 4
    if at >= 4 and track[at] == 0:
        (count,) = struct.unpack_from(">I", track, at + 4)
        edits = [struct.unpack_from(">Ii", track, at + 8 + 12 * k)[0] for k in range(count)]
        n_ticks = sum(edits) + (ticks_per_s < (sound.rate_hz or 0))
        end_s = min(end_s, n_ticks / ticks_per_s) if all(edits) else end_s
    return int((end_s - start_s) * (sound.rate_hz or 0) + 1e-3)


def _video_of(container: Any, stream: Any) -> Seen:
    is_avi = container.format.name == "avi"
    ticks = sorted(
        packet.dts if is_avi else packet.pts
        for packet in container.demux(stream)
        if packet.size and not packet.is_corrupt and not packet.is_discard
    )
    steps = np.diff(ticks)
    usual = steps[steps <= 1.5 * np.median(steps)]  # where no frame is lost
    median_hz, mean_hz = (1 / float(s * stream.time_base) for s in (np.median(steps), usual.mean()))
    declared = [float(rate) for rate in (stream.guessed_rate, stream.average_rate) if rate]
    borne_out = [r for r in declared if min(abs(r / median_hz - 1), abs(r / mean_hz - 1)) < 0.03]
    rate_hz = borne_out[0] if borne_out else mean_hz
    return Seen(2, rate_hz, (), round(ticks[0] * stream.time_base * NS), len(ticks))


def by_edfio(path: Path) -> Seens:
    """Read EDF and BDF by edfio; the start by MNE, as edfio keeps no fraction of a second."""
    is_bdf = path.suffix.lower() == ".bdf"
    read = edfio.read_bdf if is_bdf else edfio.read_edf
    found = read(path, header_encoding="latin-1")
    rates = list(dict.fromkeys(signal.sampling_frequency for signal in found.signals))
    start_ns = _naive_ns(datetime.combine(found.startdate, found.starttime))
    seen = {}
    for rate_hz in rates:
        signals = [s for s in found.signals if s.sampling_frequency == rate_hz]
        name = "signal" if len(rates) == 1 else f"signal_{rate_hz:g}Hz"
        units = _units("" if s.label == "Status" else s.physical_dimension for s in signals)
        n_rows = len(signals[0].digital)
        seen[name] = Seen(len(signals), rate_hz, units, start_ns, n_rows)
    if b"DF Annotations" in path.read_bytes()[: 256 * (len(found.signals) + 2)]:
        onsets = [note.onset for note in found.annotations]
        first = start_ns + round(onsets[0] * NS) if onsets else None
        seen["annotations"] = Seen(2, None, ("s",), first, len(onsets))
    return seen


def by_pyxdf(path: Path) -> Seens:
    """Read XDF by pyxdf, stamps as they are."""
    found, _ = pyxdf.load_xdf(str(path), synchronize_clocks=False, dejitter_timestamps=False)
    names = [str(stream["info"]["name"][0]) for stream in found]
    seen = {}
    for stream, name in zip(found, names, strict=True):
        info, stamps = stream["info"], stream["time_stamps"]
        whole = name if names.count(name) == 1 else f"{name}-{info['type'][0]}"
        is_text = info["channel_format"][0] == "string"  # events, whatever rate is said
        rate_hz = None if is_text else float(info["nominal_srate"][0]) or None
        start_ns = round(float(stamps[0]) * NS) if len(stamps) else None
        channels = int(info["channel_count"][0])
        seen[whole] = Seen(channels, rate_hz, _xdf_units(info), start_ns, len(stamps))
    return seen


def _xdf_units(info: Any) -> tuple[str, ...]:
    try:
        channels = info["desc"][0]["channels"][0]["channel"]
    except (TypeError, KeyError, IndexError):
        return ()
    return _units(_UNITS.get(c["unit"][0], c["unit"][0]) for c in channels if c.get("unit"))


_UNITS = {"microvolts": "uV", "µV": "uV"}


def by_mne_brainvision(path: Path) -> Seens:
    """Read BrainVision by MNE; units and markers, which MNE changes, line by line."""
    raw = mne.io.read_raw_brainvision(path, verbose="ERROR")
    infos = path.read_text("utf-8").partition("[Channel Infos]")[2].partition("\n[")[0]
    named = re.findall(r"^Ch\d+=[^,\n]*,[^,\n]*,[^,\n]*(?:,(.*))?$", infos, re.M)
    units = _units((unit or "uV").replace("µ", "u") for unit in named)
    start = raw.info["meas_date"]
    start_ns = _naive_ns(start) if start else 0
    signal = Seen(len(raw.ch_names), raw.info["sfreq"], units, start_ns, int(raw.n_times))
    markers = path.with_suffix(".vmrk").read_text("utf-8")
    places = [int(place) for place in re.findall(r"^Mk\d+=[^,]*,[^,]*,(\d+)", markers, re.M)]
    first_ns = start_ns + round((min(places) - 1) * NS / raw.info["sfreq"])
    return {"signal": signal, "annotations": Seen(2, None, ("s",), first_ns, len(places))}


def by_mne(path: Path) -> Seens:
    """Let MNE read what it knows."""
    raw = mne.io.read_raw(path, verbose="ERROR")
    return {"signal": Seen(len(raw.ch_names), raw.info["sfreq"], (), 0, raw.n_times)}


def by_pandas(
    path: Path,
    stream: str | None = None,
    *,
    time: str | int | None = None,
    unit: str = "s",
    rate_hz: float | None = None,
    measured: bool = False,
    start_ns: int = 0,
    channels: Sequence[Any] | None = None,
    units: Sequence[str] = (),
    filled: str | None = None,
    **how: Any,
) -> Seens:
    """Read a text table by pandas.

    Parameters
    ----------
    time, unit
        The time column and its unit.
    rate_hz, measured
        The nominal rate, or that of the stamps.
    start_ns
        When row 0 is, where no column tells.
    channels
        Which columns are channels; the others if not said.
    filled
        Only rows where this column has a value.
    how
        Keywords of `pandas.read_csv`.
    """
    how = {"dtype": str, "keep_default_na": False, "skipinitialspace": True, **how}
    table = pd.read_csv(path, **how)
    if filled is not None:
        table = table[table[filled].fillna("").str.strip() != ""]
    last = table.columns[-1]
    if str(last).startswith("Unnamed") and not table[last].fillna("").str.strip().any():
        table = table.drop(columns=last)  # a delimiter at the end of each line
    kept = [c for c in table.columns if c != time] if channels is None else channels
    stamps = [] if time is None else _stamps(table[time], unit)
    known = [stamp for stamp in stamps if stamp is not None]
    first_ns = known[0] if known else start_ns if len(table) else None
    rate_hz = _rate(known) if measured else rate_hz
    name = stream or path.name.partition(".")[0]
    return {name: Seen(len(kept), rate_hz, _units(units), first_ns, len(table))}


def _stamps(texts: pd.Series, unit: str) -> list[int | None]:
    if unit == "iso":
        return [_naive_ns(datetime.fromisoformat(text)) for text in texts]
    if unit == "clock":
        return [pd.Timedelta(text.replace(",", ".")).value for text in texts]
    power = {"s": 9, "ms": 6, "us": 3, "ns": 0}[unit]
    missing = ("", "n/a")
    return [None if t in missing else round(Decimal(t.strip()).scaleb(power)) for t in texts]


def _rate(stamps: list[int]) -> float | None:
    """Give rows a second where 4 of 5 steps lie within half of the median one."""
    steps = np.diff(stamps)
    usual = steps[np.abs(steps - np.median(steps)) <= np.median(steps) / 2]
    return NS / usual.mean() if len(usual) >= 0.8 * len(steps) else None


def by_groups(path: Path, units: Mapping[str, str]) -> Seens:
    """Read Garmin's long table by pandas, a stream a quantity."""
    table = pd.read_csv(path, sep=";", header=None, names=["time", "tag", "value"])
    seen = {}
    for tag, rows in table.groupby("tag"):
        start_ns = _naive_ns(datetime.fromisoformat(rows["time"].iloc[0]))
        seen[str(tag)] = Seen(1, None, _units([units[str(tag)]]), start_ns, len(rows))
    return seen


def by_pivot(path: Path, stream: str, rate_hz: float | None, units: Sequence[str]) -> Seens:
    """Read Everion's long table by pandas: a row a count and time, a column a tag."""
    table = pd.read_csv(path, dtype={"values": str}).drop_duplicates()
    table["k"] = table.groupby(["count", "time", "tag"]).cumcount()
    rows = table.drop_duplicates(["count", "time", "k"])
    two = {tag for tag, part in table.groupby("tag") if part["values"].str.contains(";").any()}
    n_channels = 1 + table["tag"].nunique() + len(two)
    start_ns = int(table["time"].min()) * NS
    return {stream: Seen(n_channels, rate_hz, _units(units), start_ns, len(rows))}


def by_several(*readers: Reader) -> Reader:
    """Join what several readers see in one file or folder."""

    def read(path: Path) -> Seens:
        seen: Seens = {}
        for reader in readers:
            seen |= reader(path)
        return seen

    return read


def of(name: str, reader: Reader) -> Reader:
    """Read a file of a folder."""
    return lambda path: reader(path / name)


E4_UNITS = {"ACC": "1/64 g", "EDA": "uS", "HR": "bpm", "TEMP": "degC", "IBI": "s"}  # its info.txt


def by_e4(path: Path) -> Seens:
    """Read the files of an E4 session by pandas."""
    seen = {}
    for file in sorted(path.glob("*.csv")):
        lines = pd.read_csv(file, header=None, dtype=str)
        name, first = file.stem, lines.iloc[0, 0]
        start_ns = round(Decimal(first) * NS)
        units = _units([E4_UNITS.get(name, "")])
        if name == "tags":
            seen[name] = Seen(0, None, (), start_ns, len(lines))
        elif name == "IBI":
            start_ns += round(Decimal(lines.iloc[1, 0].strip()) * NS)
            seen[name] = Seen(1, None, units, start_ns, len(lines) - 1)
        else:
            rate_hz = float(lines.iloc[1, 0])
            seen[name] = Seen(lines.shape[1], rate_hz, units, start_ns, len(lines) - 2)
    return seen


def by_truth(path: Path) -> Seens:
    """Take the right values: FFmpeg and libsndfile believe the header."""
    truth = json.loads((path.parent / "truth.json").read_text())
    n_samples = truth["real_samples"]
    return {"audio": Seen(1, n_samples / truth["real_duration_s"], (), 0, n_samples)}


def by_opensignals(path: Path) -> Seens:
    """Read OpenSignals text: the start from its JSON line, the rows by pandas."""
    about = json.loads(path.read_text().split("\n")[1].lstrip("# "))
    ((_, device),) = about.items()
    start = datetime.strptime(f"{device['date']} {device['time']}", "%Y-%m-%d %H:%M:%S.%f")
    names, rate_hz = device["column"], float(device["sampling rate"])
    table = pd.read_csv(path, sep="\t", comment="#", header=None, usecols=range(len(names)))
    return {path.stem: Seen(len(names), rate_hz, (), _naive_ns(start), len(table))}


def by_pyarrow(path: Path) -> Seens:
    """Read Parquet, page checksums verified."""
    found = pq.read_table(path, page_checksum_verification=True)
    return {path.stem: Seen(found.num_columns, None, (), None, found.num_rows)}


def by_scipy_arff(path: Path) -> Seens:
    """Read ARFF by SciPy; it has no stamps."""
    from scipy.io import arff

    rows, about = arff.loadarff(path)
    return {path.stem: Seen(len(about.names()), 128.0, (), 0, len(rows))}


def _units(names: Any) -> tuple[str, ...]:
    return tuple(sorted({name for name in names if name}))


def _naive_ns(when: datetime) -> int:
    since = (when if when.tzinfo else when.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86400 + since.seconds) * NS + since.microseconds * 1000


# The cases ----------------------------------------------------------------------------------------

PLAIN = {"rate": "4"}  # rows without stamps


def _text(name: str, options: Mapping[str, Any] | None = None, **how: Any) -> Case:
    given = dict(PLAIN) if options is None else dict(options)
    if given == PLAIN:
        how = {"rate_hz": 4.0, **how}
    return Case(name, (name,), "pandas", partial(by_pandas, **how), given)


GARMIN = {
    **{"ASCENT": "m", "CALORIES": "kcal", "HEART_RATE": "bpm", "HEART_RATE_VARIABILITY": "ms"},
    **{"INTENSITY_MINUTES": "min", "STEPS": "", "STRESS": ""},
}
MUSE = ("Delta", "Theta", "Alpha", "Beta", "Gamma")
MUSE_AT = ("TP9", "AF7", "AF8", "TP10")
_muse = partial(by_pandas, time="TimeStamp", unit="iso", index_col=False)
EMOTIV_EEG = "Counter Interpolated AF3 F7 F3 FC5 T7 P7 O1 O2 P8 T8 FC6 F4 F8 AF4 RawCq Battery"
_shimmer = partial(by_pandas, unit="ms", index_col=False)


def _shimmer_case(name: str, sep: str, device: str, rate_hz: float | None, *units: str) -> Case:
    def read(path: Path) -> Seens:
        return by_pandas(
            path,
            time=f"{device}_Timestamp_Unix_CAL",
            unit="ms",
            rate_hz=rate_hz,
            units=units,
            sep=sep,
            skiprows=[0, 2],
            index_col=False,
            usecols=lambda column: not column.startswith("Unnamed"),
        )

    return Case(name, (name,), "pandas", read)


def _sets() -> Iterator[Case]:
    """Give the recordings that are more than a file of a kind known by its suffix."""
    for folder in ("e4/devicely_session", "e4/msr2023_session", "made/B06/e4_session"):
        yield Case(folder, _under(folder), "pandas", by_e4)
    for name in ("test", "testv2"):
        own = ("test.eeg",) if name == "test" else ()
        files = (f"{name}.vhdr", f"{name}.vmrk", *own)
        yield Case(
            f"brainvision/{name}.vhdr",
            tuple(f"brainvision/{file}" for file in files),
            "mne",
            by_mne_brainvision,
        )
    polar = partial(by_pandas, time="Phone timestamp", unit="iso", sep=";")
    yield Case(
        "polar",
        _under("polar"),
        "pandas",
        by_several(
            of("MARKER.txt", partial(polar, stream="MARKER")),
            of(
                "Polar_Sense_ACC_first8000.txt",
                partial(polar, stream="ACC", measured=True, units=("mg", "ns")),
            ),
            of("Polar_Sense_HR.txt", partial(polar, stream="HR", measured=True, units=("bpm",))),
        ),
    )
    yield Case(
        "explore",
        _under("explore"),
        "pandas",
        of("explore_Marker.csv", partial(by_pandas, stream="Marker", time="TimeStamp")),
    )
    yield Case(
        "everion",
        _under("everion"),
        "pandas",
        by_several(
            of(
                "CsvData_signals_EV-EC39-7079-57A8.csv",
                partial(
                    by_pivot,
                    stream="signals",
                    rate_hz=1.0,
                    units=("%", "1/min", "bpm", "degC", "hPa", "ms"),
                ),
            ),
            of(
                "CsvData_everion_events_EV-EC39-7079-57A8.csv",
                partial(by_pivot, stream="events", rate_hz=None, units=()),
            ),
        ),
    )
    physio = "bids/sub-01_task-cuedSGT_run-01_physio.tsv.gz"
    yield Case(
        physio,
        (physio, "bids/sub-01_task-cuedSGT_physio.json"),
        "pandas",
        partial(by_pandas, stream="physio", sep="\t", header=None, rate_hz=50.0),
    )


def _texts() -> Iterator[Case]:
    """Give text tables, and what the user has to say of them."""
    for name in _matching("bids/*_events.tsv", "made/B11/*_events.tsv"):
        yield _text(
            name, {}, stream="events", time="onset", sep="\t", units=("s",), encoding="utf-8-sig"
        )
    yield _text(
        "bids/sub-01_scans.tsv", {"time": "acq_time"}, time="acq_time", unit="iso", sep="\t"
    )
    yield _text(
        "bids/sub-01_ses-01_trc-CIMBI36_recording-manual_blood.tsv", {}, time="time", sep="\t"
    )
    yield _text(
        "bids/sub-01_task-pullstand_tracksys-mocap_motion.tsv",
        {"rate": "100"},
        stream="motion-mocap",
        sep="\t",
        header=None,
        rate_hz=100.0,
    )
    yield _text("bids/sub-01_task-tapping_channels.tsv", sep="\t", encoding="utf-8-sig")
    yield _text("faros/HRV.csv", {}, rate_hz=5.0, units=("ms",))
    yield Case(
        "garmin/garmin_long_first12000.csv",
        ("garmin/garmin_long_first12000.csv",),
        "pandas",
        partial(by_groups, units=GARMIN),
    )
    yield Case(
        "muse/mind_monitor_a.csv",
        ("muse/mind_monitor_a.csv",),
        "pandas",
        by_several(
            partial(
                _muse,
                stream="bands",
                rate_hz=256.0,  # of a Muse 2; its bursts of packets average that
                filled="RAW_TP9",
                channels=[f"{band}_{at}" for band in MUSE for at in MUSE_AT],
                units=("B",),
            ),
            partial(
                _muse,
                stream="eeg",
                rate_hz=256.0,
                filled="RAW_TP9",
                channels=[f"RAW_{at}" for at in (*MUSE_AT, "AUX")],
                units=("uV",),
            ),
            partial(_muse, stream="elements", filled="Elements", channels=["Elements"]),
            partial(
                _muse,
                stream="motion",
                rate_hz=256.0,
                filled="RAW_TP9",
                channels=[f"{k}_{axis}" for k in ("Accelerometer", "Gyro") for axis in "XYZ"],
                units=("deg/s", "g"),
            ),
            partial(
                _muse,
                stream="status",
                rate_hz=256.0,
                filled="RAW_TP9",
                channels=["HeadBandOn", *(f"HSI_{at}" for at in MUSE_AT), "Battery"],
                units=("%",),
            ),
        ),
    )
    yield _text(
        "openbci/openbci_v3_blinks_first6000.txt",
        {},
        time=13,
        unit="ms",
        comment="%",
        header=None,
        channels=range(12),
        rate_hz=250.0,
        units=("g", "uV"),
    )
    for name in ("opensignals/SampleACC.txt", "opensignals/SampleEDA.txt"):
        yield Case(name, (name,), "pandas", by_opensignals)
    yield _text(
        "opensignals/biosppy_simple_eda_first20000.txt",
        {},
        comment="#",
        header=None,
        rate_hz=1000.0,
    )
    emotiv = partial(by_pandas, time="Timestamp", skiprows=1)
    yield Case(
        "emotiv/emotivpro_style_derived.csv",
        ("emotiv/emotivpro_style_derived.csv",),
        "pandas",
        by_several(
            partial(
                emotiv,
                stream="EEG",
                channels=["OriginalTimestamp", *EMOTIV_EEG.split()],
                rate_hz=128.0,
                units=("uV",),
            ),
            partial(
                emotiv,
                stream="Marker",
                filled="MarkerIndex",
                channels=["MarkerIndex", "MarkerType", "MarkerValueInt"],
            ),
        ),
    )
    yield Case(
        "emotiv/EEG_Eye_State_a.arff",
        ("emotiv/EEG_Eye_State_a.arff",),
        "scipy",
        by_scipy_arff,
        {"rate": "128"},
    )
    yield _shimmer_case(
        "shimmer/shimmer3_consensys_semicolon.csv", ";", "Shimmer_40AC", None,
        "deg/s", "degC", "kOhms", "kPa", "local_flux", "m/(s^2)", "mV", "uS",
    )  # fmt: skip
    yield _shimmer_case("shimmer/consensys_ecg_tab_calibrated.csv.gz", "\t", "TEST", 512.0, "mV")
    yield _shimmer_case("shimmer/consensys_ppg_tab.csv", "\t", "SEEMOO", 32768 / 65)
    yield _shimmer_case(
        "shimmer/consensys_triaxcal_comma_uncal.csv.gz", ",", "Shimmer_952D", 32768 / 448
    )
    yield _text("hr_misc/ring_data_first8000.csv", header=None)
    yield _text(
        "pupil_core/blinks.csv",
        {"time": "start_timestamp"},
        time="start_timestamp",
        measured=True,
    )
    for name in _matching("pupil_lsl/subject_1/*.csv"):
        yield _text(name, {}, time="timestamp [ns]", unit="ns", measured=True)
    yield _text("manifests/sb_ASR_train.csv")
    yield from _made()
    yield from _tsv()


def _made() -> Iterator[Case]:
    for name, time, unit in (
        ("B03/jump.tsv", "time_s", "s"),
        ("B04/ble_packets.tsv.gz", "t_device_s", "s"),
        ("B05/reference_gsr_kohm.tsv.gz", "unix_s", "s"),
        ("B12/int_then_float.tsv.gz", "t_ms", "ms"),
        ("B13/null_then_value.tsv.gz", "t_ms", "ms"),
        ("B14/ns_stamps.tsv", "ts_ns", "ns"),
        ("B16/eeg_128hz.tsv", "t", "s"),
        ("B16/gsr_4hz_with_gap.tsv", "t", "s"),
        ("E_na/events.tsv", "onset", "s"),
        ("E_order/unsorted.tsv", "t_ms", "ms"),
    ):
        yield _text(f"made/{name}", {}, time=time, unit=unit, measured=True, sep="\t")
    yield Case("made/B05/EDA.csv", ("made/B05/EDA.csv",), "pandas", lambda path: {
        "EDA": by_e4(path.parent)["EDA"]
    })  # fmt: skip
    yield _text("made/B07/true_stamps_ms.txt", header=None)
    yield _text(
        "made/B25/windows.tsv", {"time": "start_s"}, time="start_s", sep="\t", measured=True
    )
    yield _text(
        "made/E_comma/gsr_de.csv",
        {},
        time="Zeit",
        unit="clock",
        measured=True,
        units=("µS",),
        sep=";",
        encoding="cp1252",
    )
    for name in _matching("made/B20/*.wav"):
        yield Case(name, (name,), "truth.json", by_truth)
    yield _text("made/E_nul/nul_run_and_cut.csv", {})
    yield _text("made/E_repeat/repeated_header.csv", {})


_LATIN, _GB = {"encoding": "latin-1"}, {"encoding": "gb18030"}
DIALECTS: Mapping[str, Mapping[str, Any]] = {
    "bom-utf16.tsv": {"encoding": "utf-16", "sep": "\t"},
    "csvkit_no_header_row.csv": {"header": None},
    "csvkit_test_latin1.csv": _LATIN,
    "csvkit_test_utf16_little.csv": {"encoding": "utf-16"},
    "datatable_1680-fread-header-encoding.csv": {**_LATIN, "sep": ";"},
    "datatable_gb18030.txt": _GB,
    "datatable_utf16le.txt": {"encoding": "utf-16"},
    "duckdb_encodings-latin1.csv": _LATIN,
    "duckdb_encodings-latin1.csv.gz": _LATIN,
    "duckdb_null_mismatch.csv": {"sep": "|"},
    "duckdb_tenk.tsv.gz": {"sep": "\t", "header": None},
    "duckdb_test-mixed_line_endings.csv": {"header": None},
    "frictionless_matrix-with-comment.csv": {"comment": "#"},
    "readr_eol-cr.txt.gz": {"sep": " "},
}


SAID: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {  # to us, and to pandas
    "tsv/duckdb_timestamp_timezone.csv": ({"tz": "UTC"}, {"time": "time", "unit": "iso"}),
    "tsv/datatable_melt-warning-1752.tsv.gz": (  # its header names a column twice
        {**PLAIN, "columns": ",".join(f"c{k}" for k in range(104))},
        {"sep": "\t", "encoding": "latin-1", "rate_hz": 4.0},
    ),
    "tsv/duckdb_no_quote.csv": (
        {**PLAIN, "quote": "none"},
        {"sep": "|", "quoting": csv.QUOTE_NONE, "rate_hz": 4.0},
    ),
}


def _tsv() -> Iterator[Case]:
    for name in _matching("tsv/*"):
        if name in SAID:
            yield _text(name, SAID[name][0], **SAID[name][1])
        else:
            yield _text(name, **DIALECTS.get(name.partition("/")[2], {}))


def _under(folder: str) -> tuple[str, ...]:
    return _matching(f"{folder}/*")


def _matching(*patterns: str) -> tuple[str, ...]:
    return tuple(
        name for name in collected() if any(fnmatch.fnmatchcase(name, p) for p in patterns)
    )


def collected() -> dict[str, str]:
    """Give every collected file and what is special of it."""
    with (SHARED / "SOURCES.tsv").open(newline="", encoding="utf-8") as file:
        return {row["path"]: row["special"] for row in csv.DictReader(file, delimiter="\t")}


BY_SUFFIX: Mapping[str, tuple[str, Reader]] = {
    **dict.fromkeys(VIDEO_SUFFIXES, ("PyAV", by_av)),
    **dict.fromkeys(AUDIO_SUFFIXES, ("soundfile, PyAV", by_sound)),
    ".edf": ("edfio", by_edfio),
    ".bdf": ("edfio", by_edfio),
    ".xdf": ("pyxdf", by_pyxdf),
    ".acq": ("mne", by_mne),
    ".parquet": ("pyarrow", by_pyarrow),
}


def cases() -> list[Case]:
    """Give the cases, in the order of their names."""
    found = [*_sets(), *_texts()]
    taken = {file for case in found for file in case.files}
    for name in collected():
        if name not in taken:
            by, reader = BY_SUFFIX.get(Path(name).suffix.lower(), ("", None))
            found.append(Case(name, (name,), by, reader))
    return sorted(found, key=lambda case: case.name)


# What is refused, and why -------------------------------------------------------------------------

_NO_RECORDING = "no reader knows it"
_RAGGED, _OPEN = r":\d+: \d+ cells, expected \d+", "a quote is left open"
REFUSED: Mapping[str, tuple[str, str]] = {  # pattern -> part of the message, reason
    "audio/compressed/androidx_play-trimmed.mp3": ("cannot read it", "a cut MP3 of 418 bytes"),
    "audio/compressed/*.json": (_NO_RECORDING, "reference values of another file"),
    "audio/corrupt/mutagen_106-invalid-streaminfo.flac": ("cannot read it", "invalid STREAMINFO"),
    "audio/corrupt/mutagen_emptyfile.mp3": ("the file is empty", "0 bytes"),
    "audio/corrupt/mutagen_ooming-header.flac": ("no sample can be", "a header and nothing else"),
    "audio/corrupt/mutagen_too-short.mp3": ("cannot read it", "truncated"),
    "audio/speech/kaldi_test.wav.fea_htk.1": (_NO_RECORDING, "HTK features, no recording"),
    "audio/speech_zh/funasr_empty_46bytes.wav": ("no sample can be decoded", "0 samples"),
    "audio/wav/hound_crash-*.wav": ("cannot read it", "a header of a fuzzer, 37 bytes"),
    "audio/wav/hound_pcmwaveformat-24bit-4byte-48kHz-stereo.wav": (
        "24 bits a sample kept in 4 bytes",
        "24 bits in containers of 4 bytes: the readers take them for other numbers",
    ),
    "audio/wav/*early-eof-no-data.wav": ("cannot read it", "truncated before the data"),
    "biopac/*.acq": (_NO_RECORDING, "AcqKnowledge is no format of ours"),
    "edf/invalid-date.edf": ("holds no data record", "no record, and no valid date"),
    "edf/zero-data-records.edf": ("holds no data record", "a header alone"),
    "made/*/truth.json": (_NO_RECORDING, "the right values, no recording"),
    "made/B17/*": (_NO_RECORDING, "B17: a shard cut short, and its note"),
    "made/B23/corpus/manifests/train.jsonl": (_NO_RECORDING, "a manifest"),
    "made/E_nul/nul_run_and_cut.csv": ("NUL bytes", "E07: NUL bytes after a power loss"),
    "made/E_repeat/repeated_header.csv": ("the header again", "the header repeats"),
    "manifests/*": (_NO_RECORDING, "a manifest"),
    "parquet/*": (_NO_RECORDING, "Parquet is what convert writes"),
    "pupil_lsl/*.json": (_NO_RECORDING, "a fitted clock map, no recording"),
    "tsv/bom-utf16.tsv": ("not utf-16-le: truncated data", "half a character at the end"),
    "tsv/csvkit_bad.csv": (_RAGGED, "ragged rows"),
    "tsv/csvkit_bad_skip_lines.csv": (_RAGGED, "junk before the header, ragged rows"),
    "tsv/csvkit_mac_newlines.csv": (_OPEN, "a line end inside quotes"),
    "tsv/csvkit_test_empty_columns_short_row.csv": (_RAGGED, "a row shorter than the header"),
    "tsv/csvkit_test_header_newline.csv": (_RAGGED, "a line end inside a quoted header cell"),
    "tsv/csvparser_more_columns.csv": (_RAGGED, "a row longer than the header"),
    "tsv/datatable_530_fread.txt": (_RAGGED, "rows shorter than the header"),
    "tsv/datatable_fread_line_error.csv.bz2": (_OPEN, "a broken line"),
    "tsv/duckdb_auto-duplicate_header_collision.csv": ("header names", "duplicate names"),
    "tsv/duckdb_evil_nullpadding.csv": (_RAGGED, "ragged rows"),
    "tsv/duckdb_invalid_utf8.csv": ("", "cut UTF-16"),
    "tsv/duckdb_locations_row_trailing_comma.csv": (_RAGGED, "a cell more in the row"),
    "tsv/duckdb_nullbyte.csv": ("NUL bytes", "a NUL byte"),
    "tsv/duckdb_rejects-frankstein-nightmare.csv": (_RAGGED, "many faults at once"),
    "tsv/duckdb_unquoted_escape-human_eval.tsv": (_RAGGED, "line ends escaped by a backslash"),
    "tsv/frictionless_duplicate-headers.csv": ("header names", "duplicate column names"),
    "tsv/frictionless_issue-1066-smallcellsize.csv": (_OPEN, "a line end inside quotes"),
    "tsv/spectrum_quotes_and_newlines.csv": (_OPEN, "a line end inside quotes"),
    "video/Neon*.mp4": ("cannot read it", "a pointer of Git LFS in place of the video"),
    "video/*.json": (_NO_RECORDING, "reference values of another file"),
    "webdataset/*.tar": ("know", "members that are no recordings"),
}
NOT_REFUSED = ("manifests/sb_ASR_train.csv",)


def expected_refusal(name: str) -> tuple[str, str] | None:
    """Give a part of the message and the reason, for a case that is to be refused."""
    for pattern, found in REFUSED.items():
        if name not in NOT_REFUSED and matches(name, pattern):
            return found
    return None


def matches(name: str, pattern: str) -> bool:
    """Say whether a name is one of those that a pattern stands for."""
    return fnmatch.fnmatchcase(name, pattern)


# Through `convert` --------------------------------------------------------------------------------


def by_mmprep(case: Case, out: Path) -> Seens | str:
    """Convert a case: what its data set holds, or why it was refused."""
    try:
        run_convert(SHARED / case.name, output=out, engine="serial", **case.options)
    except FailedItemsError as error:
        return "; ".join(failure.message for failure in error.failures)
    except MmprepError as error:
        return str(error)
    seen: Seens = {}
    for record in read_manifest(out / "manifest.jsonl"):
        for name, ref in record.streams.items():
            seen[name] = _of_shard(out, ref) if ref.shard else _of_table(out, ref)
    return seen


def _of_shard(out: Path, ref: Any) -> Seen:
    samples = np.load(out / ref.shard, mmap_mode="r")
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    return Seen(channels, ref.rate_hz, (), round(ref.offset_s * NS), ref.n_rows)


def _of_table(out: Path, ref: Any) -> Seen:
    schema = pq.read_schema(out / ref.table)
    about = json.loads(schema.metadata[b"mmprep"])
    fields = list(schema)[2:]
    units = _units((field.metadata or {}).get(b"unit", b"").decode() for field in fields)
    n_rows = pq.read_metadata(out / ref.table).num_rows
    start_ns = about["start_ns"] if n_rows else None
    return Seen(len(fields), ref.rate_hz, units, start_ns, n_rows)


def by_other(case: Case) -> Seens | str:
    """Let the other reader see a case: what it sees, or why it refuses it."""
    if case.reader is None:
        return "none was asked"
    try:
        return case.reader(SHARED / case.name)
    except Exception as error:  # each reader has errors of its own
        return f"{type(error).__name__}: {error}".partition("\n")[0]


def row_of(case: Case, out: Path) -> Row:
    """Convert a case, read it by the other reader, and compare."""
    ours, theirs, known = by_mmprep(case, out), by_other(case), expected_refusal(case.name)
    if isinstance(ours, str):
        if known is None:
            return Row(case, ours, theirs, f"REFUSED though it should not: {ours}", False)
        part, why = known
        too = _short(theirs) if isinstance(theirs, str) else "reads it"
        said = f"refused because: {why} ({_short(ours)}); {case.by or 'others'}: {too}"
        return Row(case, ours, theirs, said, bool(re.search(part, ours)))
    if known is not None:
        return Row(case, ours, theirs, f"CONVERTED though it should not: {known[1]}", False)
    wrong = _differences(ours, theirs)
    return Row(case, ours, theirs, f"DISAGREES: {wrong}" if wrong else "agrees", not wrong)


def _short(message: str) -> str:
    return message if len(message) <= 100 else f"{message[:99]}…"


def _differences(ours: Seens, theirs: Seens | str) -> str:
    if isinstance(theirs, str):
        return f"the other reader says {theirs}"
    parts = [
        f"{name}: {ours.get(name)}, the other reader {theirs.get(name)}"
        for name in sorted({*ours, *theirs})
        if name not in ours or name not in theirs or not ours[name].agrees(theirs[name])
    ]
    return "; ".join(parts)


def rows(folder: Path) -> list[Row]:
    """Go through all cases."""
    logging.disable(logging.CRITICAL)
    found = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for number, case in enumerate(cases()):
                out = folder / str(number)
                found.append(row_of(case, out))
                shutil.rmtree(out, ignore_errors=True)
                shutil.rmtree(out.with_name(f"{out.name}.incomplete"), ignore_errors=True)
    finally:
        logging.disable(logging.NOTSET)
    return found


def table(found: Sequence[Row]) -> str:
    """Write the table, a tab between cells."""
    lines = [HEAD, *(line for row in found for line in row.lines())]
    return "".join("\t".join(cells) + "\n" for cells in lines)


def main() -> int:
    """Print the table."""
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shm if shm.is_dir() else None) as folder:
        found = rows(Path(folder))
    sys.stdout.write(table(found))
    wrong = [row for row in found if not row.is_expected]
    for row in wrong:
        sys.stderr.write(f"{row.case.name}: {row.verdict}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
