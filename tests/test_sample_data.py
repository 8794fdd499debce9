"""The committed sample data are what generate.py makes, and their truth is true."""

import json
import subprocess
import sys
import wave
from decimal import Decimal
from pathlib import Path

import av
import numpy as np
import pytest

SAMPLES = Path(__file__).parents[1] / "sample_data"
LIMIT_BYTES = 16_000_000
LEVELS = 3.0  # of 255; another build of the encoder may choose other bits
LABELS = {"anger", "disgust", "fear", "happiness", "neutral", "sadness"}
TRUTH = json.loads((SAMPLES / "amigos" / "truth.json").read_text())["sessions"]
SESSIONS = sorted(TRUTH)


def corpora(folder):
    files = [*folder.glob("amigos/**/*"), *folder.glob("cmlr/**/*")]
    return sorted(str(path.relative_to(folder)) for path in files if path.is_file())


MADE = corpora(SAMPLES)
FILMS = [name for name in MADE if name.endswith(".mp4")]


def ns(seconds):
    return int(Decimal(seconds) * 10**9)


def table(path):
    header, *lines = path.read_text().splitlines()
    return header.split("\t"), [line.split("\t") for line in lines]


def pcm(path):
    with wave.open(str(path)) as file:
        assert (file.getnchannels(), file.getsampwidth()) == (1, 2)
        assert file.getframerate() == 16000
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(int)


def packet_times(path):
    with av.open(str(path)) as container:
        packets = [p for p in container.demux() if p.pts is not None]
        return sorted((p.stream.type, p.pts * p.time_base) for p in packets)


def planes(path):
    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            yield frame.to_ndarray(format="yuv420p").astype(np.int16)


def sound(path):
    with av.open(str(path)) as container:
        blocks = [frame.to_ndarray()[0] for frame in container.decode(audio=0)]
    return np.concatenate(blocks)


def true_device_ns(stream, index):
    return stream["first_device_ns"] + np.rint(index * 1e9 / stream["rate_hz"])


def kept(stream):
    gaps = [np.arange(g["first"], g["first"] + g["count"]) for g in stream["gaps"]]
    lost = np.concatenate([np.zeros(0, int), *gaps])
    return np.setdiff1d(np.arange(stream["n_samples"]), lost)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("sample_data")
    subprocess.run([sys.executable, SAMPLES / "generate.py", out], check=True)
    return out


def test_generate_makes_the_committed_files(made):
    assert corpora(made) == MADE


def test_generate_makes_the_committed_text(made):
    texts = [name for name in MADE if not name.endswith((".mp4", ".wav"))]
    differ = [n for n in texts if (made / n).read_bytes() != (SAMPLES / n).read_bytes()]
    assert differ == []


def test_generate_makes_the_committed_wav(made):
    for name in (name for name in MADE if name.endswith(".wav")):
        new, old = pcm(made / name), pcm(SAMPLES / name)
        assert len(new) == len(old), name
        assert np.abs(new - old).max() <= 1, name


def test_generate_makes_the_committed_frame_times(made):
    differ = [n for n in FILMS if packet_times(made / n) != packet_times(SAMPLES / n)]
    assert differ == []


def test_generate_makes_the_committed_pictures(made):
    for name in FILMS:
        pairs = zip(planes(made / name), planes(SAMPLES / name), strict=True)
        worst = max(np.abs(new - old).mean() for new, old in pairs)
        assert worst < LEVELS, name


def test_generate_makes_the_committed_sound(made):
    for name in (name for name in FILMS if name.startswith("amigos")):
        new, old = sound(made / name), sound(SAMPLES / name)
        assert np.abs(new - old).mean() < 0.01, name


def test_sample_data_is_small():
    assert sum((SAMPLES / name).stat().st_size for name in MADE) < LIMIT_BYTES


def test_sample_data_has_the_layout_of_amigos():
    kinds = ("eeg.ptp.tsv", "eeg.tsv", "gsr.ptp.tsv", "gsr.tsv")
    films = ("video.mp4", "video.ptp.tsv")
    expected = {f"amigos/{s}_{kind}" for s in SESSIONS for kind in (*kinds, *films)}
    assert {n for n in MADE if n.startswith("amigos/P")} == expected
    assert len(SESSIONS) == 8


def test_labels_have_all_six_emotions_in_every_subject():
    _, rows = table(SAMPLES / "amigos" / "labels.tsv")
    subjects = {session.split("/")[0] for session in SESSIONS}
    for subject in subjects:
        assert {row[3] for row in rows if row[0].startswith(subject)} == LABELS


def test_labels_have_the_stated_shares_of_fear_and_neutral():
    _, rows = table(SAMPLES / "amigos" / "labels.tsv")
    seconds = dict.fromkeys(LABELS, 0.0)
    for _, begin_s, end_s, label in rows:
        seconds[label] += float(end_s) - float(begin_s)
    share = {label: s / sum(seconds.values()) for label, s in seconds.items()}
    assert share["fear"] == min(share.values()) == pytest.approx(0.043, abs=5e-4)
    assert share["neutral"] == max(share.values()) == pytest.approx(0.415, abs=5e-4)


def test_labels_lie_within_the_common_coverage():
    _, rows = table(SAMPLES / "amigos" / "labels.tsv")
    for session, begin_s, end_s, _ in rows:
        truth = TRUTH[session]
        length_s = (truth["common_end_ns"] - truth["origin_ns"]) / 1e9
        assert 0 <= float(begin_s) < float(end_s) <= length_s
        assert 58 <= length_s < 60


def test_truth_origin_is_where_the_last_stream_begins():
    for truth in TRUTH.values():
        streams = truth["streams"].values()
        assert truth["origin_ns"] == max(s["begin_ns"] for s in streams)
        assert truth["common_end_ns"] == min(s["end_ns"] for s in streams)


@pytest.mark.parametrize("session", SESSIONS)
@pytest.mark.parametrize("kind", ["eeg", "gsr", "video"])
def test_truth_line_fits_the_ptp_log(session, kind):
    stream = TRUTH[session]["streams"][kind]
    header, rows = table(SAMPLES / "amigos" / f"{session}_{kind}.ptp.tsv")
    t1, t2, t3, t4 = np.array([[ns(t) for t in row] for row in rows]).T
    elapsed = (t1 + t4) / 2 - stream["master_ref_ns"]
    line = stream["device_ref_ns"] + elapsed * (1 + stream["drift_ppm"] * 1e-6)
    error_s = ((t2 + t3) / 2 - line) / 1e9
    assert header == ["t1", "t2", "t3", "t4"]
    assert np.all((t2 < t3) & (t1 < t4))
    assert np.median(np.abs(error_s)) < 200e-6
    assert t1.min() < stream["begin_ns"] < stream["end_ns"] < t4.max()


@pytest.mark.parametrize("session", SESSIONS)
@pytest.mark.parametrize(("kind", "worst_s"), [("eeg", 2e-3), ("gsr", 1e-6)])
def test_truth_gives_the_time_of_every_row(session, kind, worst_s):
    stream = TRUTH[session]["streams"][kind]
    _, rows = table(SAMPLES / "amigos" / f"{session}_{kind}.tsv")
    stamps = np.array([ns(row[0]) for row in rows])
    error_s = (stamps - true_device_ns(stream, kept(stream))) / 1e9
    assert np.abs(error_s).max() < worst_s
    assert error_s.std() == pytest.approx(stream["jitter_s"], rel=0.05, abs=1e-6)
    assert np.all(np.diff(stamps) > 0)


@pytest.mark.parametrize("session", SESSIONS)
def test_truth_gives_the_time_of_every_frame(session):
    stream = TRUTH[session]["streams"]["video"]
    times = packet_times(SAMPLES / "amigos" / f"{session}_video.mp4")
    frames = [float(time_s * 30) for kind, time_s in times if kind == "video"]
    assert frames == kept(stream).tolist()
    assert 5 <= len(stream["dropped_frames"]) <= 15


def test_truth_has_the_two_gaps():
    gaps = {
        (session, kind): round((gap["end_ns"] - gap["begin_ns"]) / 1e9, 2)
        for session in SESSIONS
        for kind in ("eeg", "gsr")
        for gap in TRUTH[session]["streams"][kind]["gaps"]
    }
    assert gaps == {("P02/V01", "eeg"): 1.5, ("P03/V02", "gsr"): 6.0}


def test_cmlr_wav_is_as_long_as_its_name_says():
    for path in (SAMPLES / "cmlr" / "audio").glob("**/*.wav"):
        begin, end = (ns(part) for part in path.stem.split("_")[2:])
        assert len(pcm(path)) * 10**9 == (end - begin) * 16000
        assert 1 <= (end - begin) / 1e9 <= 4


def test_cmlr_text_is_one_line_of_chinese_characters():
    paths = sorted((SAMPLES / "cmlr" / "text").glob("**/*.txt"))
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert text.endswith("\n")
        assert all("\u4e00" <= character <= "\u9fff" for character in text[:-1])
    assert {path.parts[-3] for path in paths} == {"s1", "s2", "s4"}


def test_cmlr_has_each_sentence_as_sound_text_and_picture():
    stems = [
        {str(p.relative_to(SAMPLES / "cmlr" / kind).with_suffix("")) for p in found}
        for kind, found in (
            (kind, (SAMPLES / "cmlr" / kind).glob("**/section_*"))
            for kind in ("audio", "text", "video")
        )
    ]
    assert stems[0] == stems[1] == stems[2]
    assert "s4/20110304/section_4_002.92_004.59" in stems[0]
