"""The same work done by others: `python -m tests.bench.peers NAME ARGUMENT...`.

Each peer is written as its users would, one thread a process where processes share the work.
Packages are imported before a pool forks, so that each is loaded once.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

N_PROCESSES = 2
SOUNDS = (".wav", ".flac")


def main(arguments: list[str]) -> None:
    """Call the function that the first argument names."""
    name, *rest = arguments
    globals()[name](*rest)


def _in_pool(work: Callable[[Any], None], parts: Iterable[Any]) -> None:
    with multiprocessing.get_context("fork").Pool(N_PROCESSES) as pool:
        pool.map(work, list(parts), chunksize=1)


def _one_thread() -> None:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"


def _parts(folder: str, out: str, *more: str) -> list[tuple[list[Path], Path, tuple[str, ...]]]:
    """Cut the files of a folder into parts, eight a process, each with a file to write."""
    Path(out).mkdir(parents=True, exist_ok=True)
    paths = sorted(path for path in Path(folder).rglob("*") if path.suffix in SOUNDS)
    n = max(1, -(-len(paths) // (8 * N_PROCESSES)))
    cut = (paths[k : k + n] for k in range(0, len(paths), n))
    return [(part, Path(out) / f"{k:05d}.npy", more) for k, part in enumerate(cut)]


# Tables -------------------------------------------------------------------------------------------


def duckdb_copy(source: str, target: str) -> None:
    """One table by DuckDB."""
    import duckdb

    _copy(duckdb.connect(), source, target)


def _copy(connection: Any, source: str, target: str) -> None:
    connection.execute(
        f"COPY (SELECT * FROM read_csv('{source}', delim='\t', header=true))"
        f" TO '{target}' (FORMAT parquet, COMPRESSION zstd)"
    )


def duckdb_loop(folder: str, out: str) -> None:
    """Many small tables by DuckDB, one after the other."""
    import duckdb

    connection = duckdb.connect()
    for path in sorted(Path(folder).rglob("*.tsv")):
        target = Path(out) / path.relative_to(folder).with_suffix(".parquet")
        target.parent.mkdir(parents=True, exist_ok=True)
        _copy(connection, str(path), str(target))


def polars_sink(source: str, target: str) -> None:
    """One table by Polars."""
    import polars

    polars.scan_csv(source, separator="\t").sink_parquet(target, compression="zstd")


def polars_loop(folder: str, out: str) -> None:
    """Many tables by Polars, one after the other."""
    for path in sorted(Path(folder).rglob("*.tsv")):
        target = Path(out) / path.relative_to(folder).with_suffix(".parquet")
        target.parent.mkdir(parents=True, exist_ok=True)
        polars_sink(str(path), str(target))


# Sound --------------------------------------------------------------------------------------------


def read_sounds(folder: str, out: str) -> None:
    """Read sound files and do nothing with them."""
    import soundfile  # noqa: F401

    _in_pool(_read, _parts(folder, out))


def _read(part: Any) -> None:
    import soundfile

    for path in part[0]:
        soundfile.read(path, dtype="float32")


def copy_sounds(folder: str, out: str) -> None:
    """Decode sound files, append them to a file, hash it; in the end sync once."""
    import soundfile  # noqa: F401

    _in_pool(_copy_sounds, _parts(folder, out))
    os.sync()


def _copy_sounds(part: Any) -> None:
    import soundfile

    paths, target, _ = part
    with target.open("wb") as file:
        for path in paths:
            soundfile.read(path, dtype="float32")[0].tofile(file)
    with target.open("rb") as file:
        hashlib.file_digest(file, "sha256")


def librosa_mfcc(folder: str, out: str) -> None:
    """MFCC by librosa."""
    _one_thread()
    import librosa.feature  # noqa: F401

    _in_pool(_librosa, _parts(folder, out))


def _librosa(part: Any) -> None:
    import librosa

    def features(samples: Any, rate_hz: int) -> Any:
        how = {"n_mfcc": 13, "n_fft": 512, "win_length": 400, "hop_length": 160, "n_mels": 80}
        return librosa.feature.mfcc(y=samples, sr=rate_hz, **how).T

    _extract(part, features)


def kaldi_mfcc(folder: str, out: str) -> None:
    """MFCC by kaldi-native-fbank."""
    _one_thread()
    import kaldi_native_fbank  # noqa: F401

    _in_pool(_kaldi, _parts(folder, out))


def _kaldi(part: Any) -> None:
    import kaldi_native_fbank as knf
    import numpy as np

    options = knf.MfccOptions()
    options.frame_opts.dither, options.num_ceps, options.mel_opts.num_bins = 0.0, 13, 80

    def features(samples: Any, rate_hz: int) -> Any:
        online = knf.OnlineMfcc(options)
        online.accept_waveform(rate_hz, samples)
        online.input_finished()
        return np.stack([online.get_frame(k) for k in range(online.num_frames_ready)])

    _extract(part, features)


def lhotse_mfcc(folder: str, out: str) -> None:
    """MFCC by lhotse's extractor (torch)."""
    _one_thread()
    import lhotse
    import torch

    torch.set_num_threads(1)
    assert lhotse.Mfcc is not None
    _in_pool(_lhotse, _parts(folder, out))


def _lhotse(part: Any) -> None:
    from lhotse import Mfcc, MfccConfig

    extractor = Mfcc(MfccConfig(num_ceps=13, num_filters=80))
    _extract(part, extractor.extract)


def torchaudio_mfcc(folder: str, out: str) -> None:
    """MFCC by torchaudio."""
    _one_thread()
    import torch
    import torchaudio  # noqa: F401

    torch.set_num_threads(1)
    _in_pool(_torchaudio, _parts(folder, out))


def _torchaudio(part: Any) -> None:
    import torch
    from torchaudio.transforms import MFCC

    sizes = {"n_fft": 512, "win_length": 400, "hop_length": 160, "n_mels": 80}
    transform = MFCC(16_000, n_mfcc=13, melkwargs=sizes)
    _extract(part, lambda samples, _: transform(torch.from_numpy(samples)).numpy().T)


def features_alone(folder: str, out: str) -> None:
    """Compute mmprep's features of noise as long as the files: arithmetic without reading."""
    _one_thread()
    import soundfile  # noqa: F401

    import mmprep.mfcc  # noqa: F401

    _in_pool(_features_alone, _parts(folder, out))


def _features_alone(part: Any) -> None:
    import numpy as np
    import soundfile

    from mmprep.mfcc import Extractor, preset

    paths, _, _ = part
    noise = np.random.default_rng(0).normal(size=400_000).astype(np.float32) / 10
    extractor = Extractor(preset("librosa"), 16_000)
    for path in paths:
        extractor.features(noise[: soundfile.info(path).frames])


def _extract(part: Any, features: Callable[[Any, int], Any]) -> None:
    import numpy as np
    import soundfile

    paths, target, _ = part
    found = [features(*soundfile.read(path, dtype="float32")) for path in paths]
    np.save(target, np.concatenate(found).astype(np.float32))


# A session ----------------------------------------------------------------------------------------


def align_script(folder: str, out: str) -> None:
    """Align a session with pandas and MNE, as a script does it."""
    import mne
    import numpy as np
    import pandas as pd

    top, target = Path(folder), Path(out)
    target.mkdir(parents=True, exist_ok=True)
    eeg, gsr = (pd.read_csv(top / f"{name}.tsv", sep="\t") for name in ("eeg", "gsr"))
    eeg_s, gsr_s = (
        _line(top / f"{name}.ptp.tsv")(table["time"].to_numpy())
        for name, table in (("eeg", eeg), ("gsr", gsr))
    )
    frame_s = _line(top / "video.ptp.tsv")(_frame_times(top / "video.mp4"))
    rate_hz = (eeg_s.size - 1) / (eeg_s[-1] - eeg_s[0])
    waves = mne.filter.resample(eeg.iloc[:, 1:].to_numpy().T, up=128.0, down=rate_hz, verbose=False)
    even_s = eeg_s[0] + np.arange(waves.shape[1]) / 128
    begin_s = max(even_s[0], gsr_s[0], frame_s[0])
    n_windows = int(min(even_s[-1], gsr_s[-1], frame_s[-1]) - begin_s)
    streams = {
        "eeg": (128, even_s, pd.DataFrame(waves.T)),
        "gsr": (4, gsr_s, gsr[["gsr"]]),
        "video": (30, frame_s, pd.DataFrame({"frame": np.arange(frame_s.size)})),
    }
    for name, (hz, at_s, values) in streams.items():
        grid = pd.DataFrame({"at_s": begin_s + np.arange(n_windows * hz) / hz})
        joined = pd.merge_asof(
            grid, values.assign(at_s=at_s), on="at_s", direction="nearest", tolerance=1 / hz
        )
        rows = joined.drop(columns="at_s").to_numpy(dtype=np.float32)
        np.save(target / f"{name}.npy", rows.reshape(n_windows, hz, -1))
    np.savez(target / "times.npz", begin_s=begin_s, eeg=eeg_s, gsr=gsr_s, video=frame_s)


def _line(path: Path) -> Callable[[Any], Any]:
    """Fit a straight line to the offsets of an exchange log."""
    import numpy as np
    import pandas as pd

    log = pd.read_csv(path, sep="\t")
    device = (log["t2"] + log["t3"]) / 2
    offset = (log["t1"] + log["t4"]) / 2 - device
    slope, first = np.polyfit(device - device[0], offset, 1)
    return lambda at_s: at_s + first + slope * (at_s - device[0])


def _frame_times(path: Path) -> Any:
    import av
    import numpy as np

    with av.open(str(path)) as container:
        packets = container.demux(video=0)
        return np.sort([float(p.pts * p.time_base) for p in packets if p.pts is not None])


def opencv_frames(film: str) -> None:
    """Decode a film and shrink its pictures, and do nothing with them."""
    import cv2

    capture = cv2.VideoCapture(film)
    n_frames = 0
    while (found := capture.read())[0]:
        cv2.resize(found[1], (64, 64), interpolation=cv2.INTER_AREA)
        n_frames += 1
    assert n_frames


# Manifests ----------------------------------------------------------------------------------------


def json_check(manifest: str) -> None:
    """Parse every line and look at its fields."""
    ids = set()
    for record in _records(manifest):
        assert record["duration_s"] >= 0
        assert record["id"] not in ids
        ids.add(record["id"])


def json_split(manifest: str, out: str) -> None:
    """Put subjects into splits by a hash."""
    with Path(out).open("w", encoding="utf-8") as file:
        for record in _records(manifest):
            place = hashlib.sha256(record["subject"].encode()).digest()[0] / 256
            record["split"] = "train" if place < 0.8 else "val" if place < 0.9 else "test"
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def json_nemo(manifest: str, out: str) -> None:
    """Write the lines of NeMo."""
    with Path(out).open("w", encoding="utf-8") as file:
        for record in _records(manifest):
            line = {
                "audio_filepath": record["source"],
                "duration": record["duration_s"],
                "text": record["text"] or "",
                "speaker": record["subject"],
            }
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _records(manifest: str) -> Iterable[dict[str, Any]]:
    with Path(manifest).open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def lhotse_make(manifest: str, out: str) -> None:
    """Write the records of a manifest as cuts."""
    from lhotse import CutSet, MonoCut, Recording, SupervisionSegment
    from lhotse.audio import AudioSource

    def cut(record: dict[str, Any]) -> MonoCut:
        rate_hz, name, length_s = 16_000, record["id"], record["duration_s"]
        sound = [AudioSource("file", [0], record["source"])]
        recording = Recording(name, sound, rate_hz, round(length_s * rate_hz), length_s)
        said = SupervisionSegment(name, name, 0, length_s, text="", speaker=record["subject"])
        return MonoCut(name, 0, length_s, 0, recording=recording, supervisions=[said])

    CutSet.from_cuts(cut(record) for record in _records(manifest)).to_file(out)


def lhotse_check(cuts: str) -> None:
    """Validate cuts by lhotse."""
    import lhotse

    lhotse.validate(lhotse.CutSet.from_file(cuts).to_eager())


def lhotse_split(cuts: str, out: str) -> None:
    """Put speakers into splits and write a file of cuts for each."""
    import lhotse

    Path(out).mkdir(parents=True, exist_ok=True)
    read = lhotse.CutSet.from_file(cuts).to_eager()
    speakers = sorted({cut.supervisions[0].speaker for cut in read})
    cuts_at = [0, round(0.8 * len(speakers)), round(0.9 * len(speakers)), len(speakers)]
    for k, name in enumerate(("train", "val", "test")):
        chosen = set(speakers[cuts_at[k] : cuts_at[k + 1]])
        part = read.filter(lambda cut, chosen=chosen: cut.supervisions[0].speaker in chosen)
        part.to_file(f"{out}/{name}.jsonl")


def lhotse_copy(cuts: str, out: str) -> None:
    """Read cuts and write them again."""
    import lhotse

    lhotse.CutSet.from_file(cuts).to_eager().to_file(out)


if __name__ == "__main__":
    main(sys.argv[1:])
