"""`convert --layout NAME` on small trees made as the corpora are published."""

from __future__ import annotations

import gzip
import pickle
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.io import savemat

from mmprep.manifest.codec import decode_dataset, read_manifest
from mmprep.steps.check import check
from tests import raw

RNG = np.random.default_rng(11)


class Converted:
    """A data set, its records by id, and what was said."""

    def __init__(self, folder, said):
        self.folder, self.said = folder, said
        self.records = {r.id: r for r in read_manifest(folder / "manifest.jsonl")}

    def values(self, item, stream, column):
        """Read the rows of a record's stream."""
        ref = self.records[item].streams[stream]
        return pq.read_table(self.folder / ref.table)[column].to_numpy()[slice(*ref.rows)]


@pytest.fixture
def convert(mmprep, tmp_path):
    def run(name, *options):
        out = tmp_path / "out"
        asked = (tmp_path / "in", "-o", out, "--layout", name, "--engine", "serial", *options)
        done = mmprep("convert", *asked)
        assert done.code == 0, done.err
        assert check(str(out), checksums=True).findings == ()
        return Converted(out, done.err)

    return run


@pytest.fixture
def root(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def cells(values):
    found = [*values]
    row = np.empty((1, len(found)), object)
    row[0] = found
    return row


def saved(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    savemat(path, content, do_compression=True)


def pickled(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(content, protocol=2))


def written(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


# AMIGOS -------------------------------------------------------------------------------------------

AMIGOS = "arousal valence dominance liking familiarity neutral disgust happiness surprise anger"


def amigos(path, trials, *, empty=()):
    """A person: trial k lasts 6 s + k rows, its ratings are k + 0.25, ..., 1, 0."""
    data = [RNG.normal(size=(768 + k, 17)) for k in range(trials)]
    for k in empty:
        data[k] = np.zeros((0, 0))
    rated = [[k + 0.25, *np.arange(4) + k, 1, 0, 0, 0, 1, 0, 0] for k in range(trials)]
    videos = [str(10 + k) for k in range(trials)]
    content = {"joined_data": cells(data), "labels_selfassessment": cells(map(np.array, rated))}
    saved(path, content | {"VideoIDs": cells(videos)})
    return data


def test_trials_of_amigos_are_records_with_their_ratings(root, convert):
    data = amigos(root / "Data_preprocessed/Data_Preprocessed_P01.mat", 3)
    found = convert("amigos")
    assert sorted(found.records) == ["P01/01", "P01/02", "P01/03"]
    record = found.records["P01/02"]
    assert (record.subject, record.session, record.duration_s) == ("P01", "P01/02", 769 / 128)
    assert record.labels["arousal"] == 1.25
    assert [record.labels[name] for name in AMIGOS.split()] == [1.25, 1, 2, 3, 4, 1, 0, 0, 0, 1]
    assert (record.extra["video"], record.extra["trial"]) == ("11", 2)
    assert record.extra["baseline_s"] == 5.0
    np.testing.assert_array_equal(found.values("P01/02", "eeg", "AF3"), data[1][:, 0])
    np.testing.assert_array_equal(found.values("P01/02", "gsr", "GSR"), data[1][:, 16])


def test_known_holes_of_amigos_are_said_apart_from_others(root, convert):
    amigos(root / "Data_Preprocessed_P08.mat", 20, empty=(16, 17, 18, 19))
    amigos(root / "Data_Preprocessed_P09.mat", 20, empty=(2,))
    found = convert("amigos")
    assert "4 trials of P08 are empty, as is known: they did not see the long films" in found.said
    assert "1 trials hold nothing and are no records: P09/03" in found.said
    assert "38 of 40 people are not here: P01 .. P07, P10 .. P40" in found.said
    assert len(found.records) == 35


def test_channels_without_values_are_said(root, convert):
    path = root / "Data_Preprocessed_P03.mat"
    data = RNG.normal(size=(700, 17))
    data[:, 15] = np.nan
    rated = cells([np.ones(12)])
    saved(path, {"joined_data": cells([data]), "labels_selfassessment": rated})
    found = convert("amigos")
    assert "1 channels of trials hold no value: P03/01 ecg/ECG_left" in found.said
    assert np.isnan(found.values("P03/01", "ecg", "ECG_left")).all()


def test_tables_exported_from_amigos_keep_their_layout(root, convert):
    raw.table(root / "P01/V03_eeg.tsv")
    (record,) = convert("amigos").records.values()
    assert (record.id, record.session, record.subject) == ("P01/V03", "P01/V03", "P01")


def test_windows_take_the_labels_of_their_trial(root, convert, mmprep, tmp_path):
    amigos(root / "Data_Preprocessed_P01.mat", 2)
    convert("amigos")
    done = mmprep("align", tmp_path / "out", "-o", tmp_path / "aligned", "--engine", "serial")
    assert done.code == 0, done.err
    windows = list(read_manifest(tmp_path / "aligned/manifest.jsonl"))
    assert [(w.session, w.labels["arousal"]) for w in windows] == [
        *[("P01/01", 0.25)] * 6,
        *[("P01/02", 1.25)] * 6,
    ]
    assert windows[0].extra["video"] == "10"


# DEAP ---------------------------------------------------------------------------------------------

RATINGS = (
    "Participant_id,Trial,Experiment_id,Start_time,Valence,Arousal,Dominance,Liking,Familiarity"
)


def deap(path, *, as_matlab=False):
    """A person: four trials; the ratings of clip k are k + 1.5, k + 1.25, k + 1, k + 2."""
    labels = np.array([[k + 1.5, k + 1.25, k + 1.0, k + 2.0] for k in range(4)])
    content = {"data": RNG.normal(size=(4, 40, 640)), "labels": labels}
    (saved if as_matlab else pickled)(path, content)
    return content


def ratings(path, person, familiarity="5"):
    """Clips 4, 3, 2, 1 were shown in this order."""
    rows = [
        f"{person},{trial},{clip},{1000 * trial},{clip + 0.5},{clip + 0.25},{clip}.0,{clip + 1},"
        + familiarity
        for trial, clip in ((1, 4), (2, 3), (3, 2), (4, 1))
    ]
    written(path, "\n".join(["\ufeff" + RATINGS, *rows, ""]))


@pytest.mark.parametrize("as_matlab", [False, True])
def test_trials_of_deap_join_the_ratings_of_their_clip(root, convert, as_matlab):
    content = deap(root / f"s23.{'mat' if as_matlab else 'dat'}", as_matlab=as_matlab)
    ratings(root / "metadata_csv/participant_ratings.csv", 23)
    found = convert("deap")
    assert sorted(found.records) == ["s23/01", "s23/02", "s23/03", "s23/04"]
    record = found.records["s23/02"]
    assert record.labels == {
        "valence": 2.5,
        "arousal": 2.25,
        "dominance": 2,
        "liking": 3,
        "familiarity": 5,
    }
    assert (record.extra["clip"], record.extra["presented"]) == (2, 3)
    assert (record.extra["site"], record.subject, record.session) == ("Geneva", "s23", "s23/02")
    assert (record.streams["eeg"].rate_hz, record.duration_s) == (128.0, 5.0)
    np.testing.assert_array_equal(found.values("s23/02", "gsr", "GSR"), content["data"][1, 36])
    assert "skipped" not in found.said
    assert "participant_ratings" not in found.said


def test_missing_familiarity_of_deap_is_null(root, convert):
    deap(root / "s02.dat")
    ratings(root / "participant_ratings.csv", 2, familiarity="")
    found = convert("deap")
    record = found.records["s02/01"]
    assert record.labels["familiarity"] is None
    assert "deap: familiarity is missing for s02, as is known" in found.said
    assert (record.labels["valence"], record.extra["site"]) == (1.5, "Twente")


def test_ratings_of_deap_that_contradict_are_not_joined(root, convert):
    deap(root / "s01.dat")
    path = root / "participant_ratings.csv"
    ratings(path, 1)
    path.write_text(path.read_text().replace(",4.5,", ",9.0,"))
    found = convert("deap")
    assert "other ratings than 1 trials have (s01/04)" in found.said
    assert "familiarity" not in found.records["s01/04"].labels
    assert found.records["s01/03"].labels["familiarity"] == 5


def test_both_forms_of_deap_live_side_by_side(root, convert):
    deap(root / "data_preprocessed_python/s01.dat")
    deap(root / "data_preprocessed_matlab/s01.mat", as_matlab=True)
    found = convert("deap")
    assert len(found.records) == 8
    assert {r.session for r in found.records.values()} == {f"s01/0{k}" for k in range(1, 5)}


def test_face_videos_of_deap_go_by_the_order_of_presentation(root, convert):
    raw.film(root / "face_video/s01/s01_trial03.avi", range(0, 400, 40))
    ratings(root / "participant_ratings.csv", 1)
    (record,) = convert("deap").records.values()
    assert (record.id, record.subject) == ("face_video/s01_trial03", "s01")
    assert (record.labels["valence"], record.extra["clip"]) == (2.5, 2)


def biosemi(path, codes, rate_hz=16):
    """A BDF of two channels: GSR1 counts the samples, Status holds the codes."""
    channels = [("GSR1", "Ohm"), ("Status", "Boolean")]
    n, n_records = len(channels), len(codes) // rate_hz
    limits = [-8388608, 8388607]
    fields = [(16, [c[0] for c in channels]), (80, ["", ""]), (8, [c[1] for c in channels])]
    fields += [(8, [limit] * n) for limit in (*limits, *limits)]
    fields += [(80, ["", ""]), (8, [rate_hz] * n), (32, ["", ""])]
    head = b"\xffBIOSEMI" + b" " * 160 + b"01.01.1010.00.00"
    head += b"".join(f"{v!s:<{w}}".encode() for v, w in ((256 * (n + 1), 8), ("24BIT", 44)))
    head += b"".join(f"{v!s:<{w}}".encode() for v, w in ((n_records, 8), (1, 8), (n, 4)))
    head += b"".join(f"{v!s:<{w}}".encode() for w, values in fields for v in values)
    status = np.array(codes, np.int64) | 0x110000
    records = [
        column[k * rate_hz : (k + 1) * rate_hz]
        for k in range(n_records)
        for column in (np.arange(len(codes)), status)
    ]
    whole = np.concatenate(records).astype("<i4")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head + whole.view(np.uint8).reshape(-1, 4)[:, :3].tobytes())


def shows(n):
    """A second of code 1, then of each trial a second of 3, two of 4, one of 5."""
    return [1] * 16 + ([3] * 16 + [4] * 32 + [5] * 16) * n


def test_original_recordings_of_deap_are_cut_by_their_triggers(root, convert):
    biosemi(root / "data_original/s01.bdf", shows(40))
    ratings(root / "participant_ratings.csv", 1)
    found = convert("deap")
    assert len(found.records) == 40
    record = found.records["s01/original/03"]
    assert (record.subject, record.duration_s, record.session) == ("s01", 2.0, record.id)
    assert (record.labels["valence"], record.extra["clip"]) == (2.5, 2)
    first = 16 + 2 * 64 + 16
    assert found.values(record.id, "signal", "GSR1").tolist() == list(range(first, first + 32))


def test_original_recording_of_deap_with_other_triggers_stays_whole(root, convert):
    biosemi(root / "s01.bdf", shows(39))
    found = convert("deap")
    assert list(found.records) == ["s01/original"]
    assert "39 trials by Status, not 40, so it is not cut into parts" in found.said


# DREAMER ------------------------------------------------------------------------------------------


def dreamer_person(k):
    def part(rate, n):
        lasting = {"baseline": (1, 1), "stimuli": (2, 3)}
        return {
            name: cells([RNG.normal(size=(rate * s, n)) for s in seconds]).T
            for name, seconds in lasting.items()
        }

    scores = {"ScoreValence": [4, 3], "ScoreArousal": [1, k + 1], "ScoreDominance": [2, 5]}
    rated = {name: np.array(row)[:, None] for name, row in scores.items()}
    return {"EEG": part(128, 14), "ECG": part(256, 2), **rated}


def test_clips_of_dreamer_are_records_with_their_scores(root, convert):
    people = [dreamer_person(k) for k in range(2)]
    names = cells([f"E{k}" for k in range(14)])
    rates = {"EEG_SamplingRate": 128, "ECG_SamplingRate": 256}
    saved(
        root / "DREAMER.mat", {"DREAMER": {"Data": cells(people), "EEG_Electrodes": names, **rates}}
    )
    found = convert("dreamer")
    assert sorted(found.records) == ["S01/01", "S01/02", "S02/01", "S02/02"]
    record = found.records["S02/02"]
    assert record.labels == {"valence": 3, "arousal": 2, "dominance": 5}
    assert (record.subject, record.duration_s, record.extra["baseline_s"]) == ("S02", 4.0, 1.0)
    wanted = np.concatenate([people[1]["ECG"][part][1, 0] for part in ("baseline", "stimuli")])
    np.testing.assert_array_equal(found.values("S02/02", "ecg", "ECG_1"), wanted[:, 0])
    assert "21 of 23 people are not here" in found.said


# WESAD --------------------------------------------------------------------------------------------

CONDITIONS = ((0, 3), (1, 5), (0, 1), (2, 4), (7, 2), (4, 2), (3, 3), (4, 2), (0, 1))
QUEST = """# Subj;S2;;;
# ORDER;Base;TSST;Medi 1;Fun;Medi 2;sRead;fRead;;
# START;7.08;39.55;70.19;81.25;93.38;54.42;89.51;;
# END;26.32;50.3;77.1;87.47;100.15;56.07;91.15;;
;;;;
# PANAS;1;2;3;;
# PANAS;4;4;4;;
# PANAS;1;1;1;;
# PANAS;5;2;2;;
# PANAS;1;1;2;;
;;;;
# STAI;1;4;;;
# STAI;4;1;;;
# STAI;2;3;;;
# STAI;1;3;;;
# STAI;1;4;;;
;;;;
# DIM;5;2;;
# DIM;3;7;;
# DIM;6;2;;
# DIM;8;4;;
# DIM;6;1;;
;;;;
# SSSQ;2;5;;;
"""


def wesad(path):
    label = np.concatenate([np.full(700 * s, code, np.int32) for code, s in CONDITIONS])
    seconds = len(label) // 700
    chest = {"ACC": 3, "ECG": 1, "EMG": 1, "EDA": 1, "Temp": 1, "Resp": 1}
    wrist = {"ACC": (32, 3), "BVP": (64, 1), "EDA": (4, 1), "TEMP": (4, 1)}
    signal = {
        "chest": {name: RNG.normal(size=(len(label), n)) for name, n in chest.items()},
        "wrist": {name: RNG.normal(size=(hz * seconds, n)) for name, (hz, n) in wrist.items()},
    }
    pickled(path, {"subject": path.stem, "signal": signal, "label": label})
    return signal


def test_conditions_of_wesad_are_records_with_class_and_questionnaires(root, convert):
    signal = wesad(root / "S2/S2.pkl")
    written(root / "S2/S2_quest.csv", QUEST)
    found = convert("wesad")
    labels = {name: record.label for name, record in found.records.items()}
    assert labels == {
        "S2/amusement": "amusement",
        "S2/baseline": "baseline",
        "S2/meditation-1": "meditation",
        "S2/meditation-2": "meditation",
        "S2/stress": "stress",
    }
    stress, amusement = found.records["S2/stress"], found.records["S2/amusement"]
    assert (stress.subject, stress.session, stress.duration_s) == ("S2", "S2/stress", 4.0)
    assert (stress.labels["valence"], stress.labels["arousal"]) == (3, 7)
    assert (amusement.labels["valence"], amusement.labels["arousal"]) == (8, 4)
    assert found.records["S2/meditation-2"].labels["valence"] == 6
    assert [stress.labels[name] for name in ("panas_1", "stai_2", "sssq_2")] == [4, 1, 5]
    assert "sssq_1" not in amusement.labels
    wrist = signal["wrist"]["EDA"][36:52, 0]
    np.testing.assert_array_equal(found.values("S2/stress", "wrist_EDA", "EDA"), wrist)
    ecg = signal["chest"]["ECG"][6300:9100, 0]
    np.testing.assert_array_equal(found.values("S2/stress", "chest_ECG", "ECG"), ecg)
    assert set(found.values("S2/stress", "condition", "label")) == {2}


def test_people_whom_wesad_never_published_are_no_loss(root, convert):
    for k in (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16):
        wesad(root / f"S{k}/S{k}.pkl")
    said = convert("wesad").said
    assert "S1, S12 are missing, as is known" in said
    assert "1 of 15 people are not here: S17" in said


def test_devices_of_wesad_keep_clocks_of_their_own(root, convert):
    wesad(root / "S2/S2.pkl")
    written(root / "S2/S2_E4_Data/EDA.csv", "1495437325.000000\n4.000000\n0.5\n0.6\n")
    header = '{"00:07": {"sensor": ["ECG"], "column": ["nSeq", "DI", "CH1"], "sampling rate": 700,'
    header += ' "resolution": [16, 4, 16], "date": "2017-5-22", "time": "9:39:1.0"}}'
    lines = ["# OpenSignals Text File Format", f"# {header}", "# EndOfHeader", "0\t0\t7\t", ""]
    written(root / "S2/S2_respiban.txt", "\n".join(lines))
    found = convert("wesad")
    assert found.records["S2/E4"].subject == "S2"
    assert list(found.records["S2/E4"].streams) == ["EDA"]
    respiban = found.records["S2/respiban"]
    assert (respiban.session, list(respiban.streams)) == ("S2/respiban", ["respiban"])
    assert respiban.streams["respiban"].rate_hz == 700.0


def test_windows_of_wesad_have_their_condition(root, convert, mmprep, tmp_path):
    wesad(root / "S2/S2.pkl")
    convert("wesad")
    done = mmprep("align", tmp_path / "out", "-o", tmp_path / "aligned", "--engine", "serial")
    assert done.code == 0, done.err
    windows = read_manifest(tmp_path / "aligned/manifest.jsonl")
    counts = {}
    for window in windows:
        counts[window.label] = counts.get(window.label, 0) + 1
    assert counts == {"baseline": 5, "stress": 4, "meditation": 4, "amusement": 3}


# Speech -------------------------------------------------------------------------------------------


def test_lists_of_cmlr_are_splits(root, convert):
    names = {
        "s1/20170121/section_1_000.80_002.91": "train",
        "s1/20170121/section_2_001.00_003.00": "val",
        "s4/20110304/section_4_002.92_004.59": "test",
        "s4/20110304/section_5_000.00_001.00": None,
    }
    for name, split in names.items():
        raw.sound(root / f"audio/{name}.wav")
        written(root / f"text/{name}.txt", "你好")
        if split:
            written(root / f"{split}.csv", f"audio/{name}.wav,你好\nvideo/{name}.mp4,你好\n")
    with (root / "train.csv").open("a", encoding="utf-8") as file:
        file.write("s9/20170121/section_1_000.80_002.91\n")
    found = convert("cmlr")
    assert {name: record.split for name, record in found.records.items()} == names
    assert {record.text for record in found.records.values()} == {"你好"}
    assert "lists: no row for 1 records (s4/20110304/section_5_000.00_001.00)" in found.said
    assert "lists: 1 of 4 clips are not here (s9/20170121/section_1_000.80_002.91)" in found.said


def test_cmlr_may_lie_in_a_folder_of_its_own(root, convert):
    name = "s1/20170121/section_1_000.80_002.91"
    raw.sound(root / f"corpora/CMLR/audio/{name}.wav")
    written(root / f"corpora/CMLR/text/{name}.txt", "你好")
    (record,) = convert("cmlr").records.values()
    assert (record.id, record.text, record.session) == (name, "你好", "s1/20170121")


def test_lists_of_lrs2_are_splits_of_main_alone(root, convert):
    for name in ("main/63303/00011", "main/55354/00001", "pretrain/63303/00011"):
        raw.sound(root / f"mvlrs_v1/{name}.wav")
        written(root / f"mvlrs_v1/{name}.txt", "Text:  HELLO THERE\nConf:  3\n")
    written(root / "train.txt", "55354/00001\n")
    written(root / "test.txt", "63303/00011 NF\n")
    found = convert("lrs")
    assert {name: (r.split, r.subject) for name, r in found.records.items()} == {
        "mvlrs_v1/main/55354/00001": ("train", "55354"),
        "mvlrs_v1/main/63303/00011": ("test", "63303"),
        "mvlrs_v1/pretrain/63303/00011": ("pretrain", "63303"),
    }
    assert {record.text for record in found.records.values()} == {"HELLO THERE"}
    assert "lrs: " not in found.said


def test_folders_of_lrs3_are_its_splits(root, convert):
    for name in ("trainval/0Fi83BHQsMA/00002", "test/0Fi83BHQsMB/00001"):
        raw.sound(root / f"{name}.wav")
    found = convert("lrs").records
    assert [record.split for _, record in sorted(found.items())] == ["test", "trainval"]


# BIDS ---------------------------------------------------------------------------------------------


def brainvision(path, n_samples=500):
    """Two channels of 250 Hz, 1 uV a step; Cz counts the samples."""
    channels = "Ch1=Cz,,1,uV\nCh2=Pz,,1,uV"
    head = "Brain Vision Data Exchange Header File Version 1.0\n[Common Infos]\n"
    head += f"DataFile={path.name}.eeg\nMarkerFile={path.name}.vmrk\nDataFormat=BINARY\n"
    head += "DataOrientation=MULTIPLEXED\nNumberOfChannels=2\nSamplingInterval=4000\n"
    head += f"[Binary Infos]\nBinaryFormat=INT_16\n[Channel Infos]\n{channels}\n"
    written(path.with_name(f"{path.name}.vhdr"), head)
    marks = "Brain Vision Data Exchange Marker File, Version 1.0\n[Marker Infos]\n"
    written(path.with_name(f"{path.name}.vmrk"), f"{marks}Mk1=Stimulus,S  1,10,1,0\n")
    data = np.column_stack([np.arange(n_samples), np.zeros(n_samples)]).astype("<i2")
    path.with_name(f"{path.name}.eeg").write_bytes(data.tobytes())


def bids(root):
    written(root / "dataset_description.json", '{"Name": "x", "BIDSVersion": "1.10.0"}')
    people = "participant_id\tage\tgroup\nsub-01\t31\tpatient\nsub-02\tn/a\tcontrol\n"
    written(root / "participants.tsv", f"\ufeff{people}sub-03\t40\tcontrol\n")
    top = root / "sub-01/ses-a"
    brainvision(top / "eeg/sub-01_ses-a_task-rest_run-1_eeg")
    written(top / "eeg/sub-01_ses-a_task-rest_run-1_events.tsv", "onset\tduration\n0.5\t1\n")
    written(top / "eeg/sub-01_ses-a_task-rest_run-1_channels.tsv", "name\ttype\nCz\tEEG\n")
    about = '{"SamplingFrequency": 50, "StartTime": 0, "Columns": ["cardiac"]}'
    written(top / "beh/sub-01_ses-a_task-rest_run-1_physio.json", about)
    physio = top / "beh/sub-01_ses-a_task-rest_run-1_physio.tsv.gz"
    physio.write_bytes(gzip.compress(b"".join(b"%d\n" % k for k in range(100))))
    written(top / "beh/sub-01_ses-a_task-rest_run-1_beh.tsv", "trial\tanswer\n1\tyes\n")
    moved = root / "sub-02/motion/sub-02_task-walk_tracksys-imu"
    written(moved.with_name(f"{moved.name}_motion.tsv"), "1\t2\n3\t4\n" * 100)
    channels = "name\ttype\tunits\nx\tPOS\tm\ny\tPOS\tm\n"
    written(moved.with_name(f"{moved.name}_channels.tsv"), channels)
    written(moved.with_name(f"{moved.name}_motion.json"), '{"SamplingFrequency": 100}')


def test_recordings_of_a_task_and_run_in_bids_are_one_session(root, convert):
    bids(root)
    found = convert("bids")
    eeg = found.records["sub-01/ses-a/eeg/sub-01_ses-a_task-rest_run-1"]
    physio = found.records["sub-01/ses-a/beh/sub-01_ses-a_task-rest_run-1"]
    assert len(found.records) == 3
    assert sorted(eeg.streams) == ["eeg", "eeg_annotations", "events"]
    assert sorted(physio.streams) == ["physio"]
    assert eeg.session == physio.session == "sub-01/ses-a/task-rest_run-1"
    assert (eeg.subject, eeg.extra) == ("sub-01", {"ses": "a", "task": "rest", "run": "1"})
    np.testing.assert_array_equal(found.values(eeg.id, "eeg", "Cz"), np.arange(500))
    assert (eeg.streams["eeg"].rate_hz, physio.streams["physio"].rate_hz) == (250.0, 50.0)


def test_recordings_of_bids_that_go_together_go_on_common_windows(root, convert, mmprep, tmp_path):
    bids(root)
    convert("bids")
    done = mmprep("align", tmp_path / "out", "-o", tmp_path / "aligned", "--engine", "serial")
    assert done.code == 0, done.err
    windows = read_manifest(tmp_path / "aligned/manifest.jsonl")
    window = next(window for window in windows if window.subject == "sub-01")
    assert window.session == "sub-01/ses-a/task-rest_run-1"
    assert sorted(window.streams) == ["eeg", "physio"]
    assert window.labels == {"age": 31, "group": "patient"}


def test_participants_of_bids_are_labels(root, convert):
    bids(root)
    found = convert("bids")
    labels = {record.subject: record.labels for record in found.records.values()}
    assert labels["sub-01"] == {"age": 31, "group": "patient"}
    assert labels["sub-02"] == {"age": None, "group": "control"}
    assert "participants.tsv: nothing recorded of 1 people (sub-03)" in found.said


def test_collected_files_of_bids_convert_with_the_preset(root, convert, shared):
    names = "pullstand_events.tsv", "pullstand_tracksys-mocap_motion.tsv"
    for name in names:
        whole = shared(f"bids/sub-01_task-{name}")
        written(root / f"sub-01/motion/{whole.name}", whole.read_text(encoding="utf-8"))
    written(root / "sub-01/motion/sub-01_task-pullstand_motion.json", '{"SamplingFrequency": 200}')
    (record,) = convert("bids").records.values()
    assert record.id == "sub-01/motion/sub-01_task-pullstand"
    assert sorted(record.streams) == ["events", "motion-mocap"]


# K-EmoCon -----------------------------------------------------------------------------------------

BEGAN_MS = 1_548_000_000_000
MARKED = "seconds,arousal,valence,cheerful,happy,angry,nervous,sad,boredom,confusion"


def kemocon(root, *, serials=("A01525",), people=(5,)):
    rows = [f"{k},1,2019-01-20,{BEGAN_MS + 1500},{BEGAN_MS + 600_000},{BEGAN_MS}" for k in people]
    written(
        root / "metadata/subjects.csv",
        "\n".join(["pid,pair,date,startTime,endTime,initTime", *rows, ""]),
    )
    for k in people:
        eda = [
            f"{BEGAN_MS + 250 * i}.0,{k},{0.5 + i},{serials[i % len(serials)]}" for i in range(80)
        ]
        header = "timestamp,pid,value,device_serial"
        written(root / f"e4_data/{k}/E4_EDA.csv", "\n".join([header, *eda, ""]))
        heart = [f"{BEGAN_MS + 1000 * i},{k},{70 + i}" for i in range(20)]
        path = root / f"neurosky_polar_data/{k}/Polar_HR.csv"
        written(path, "\n".join(["timestamp,pid,value", *heart, ""]))
        top = root / "emotion_annotations"
        for by in ("self", "partner", "aggregated_external"):
            marks = "5,2,4,1,1,1,2,1,x,\n10,3,4,1,1,1,2,1,,x\n15,3,5,1,1,1,2,1,,\n"
            path = top / f"{by}_annotations/P{k}.{by.split('_')[-1]}.csv"
            written(path, f"{MARKED}\n{marks}")


def test_people_of_kemocon_are_records_with_annotations_as_streams(root, convert):
    kemocon(root)
    found = convert("kemocon")
    (record,) = found.records.values()
    assert (record.id, record.session, record.subject) == ("5", "5", "5")
    emotions = ["emotion_external", "emotion_partner", "emotion_self"]
    assert sorted(record.streams) == ["EDA", "Polar_HR", *emotions]
    assert record.streams["emotion_self"].rate_hz == 0.2
    assert found.values("5", "emotion_self", "arousal").tolist() == [2, 3, 3]
    stamps = found.values("5", "emotion_self", "time").astype(np.int64)
    assert stamps.tolist() == [(BEGAN_MS + 1500 + 5000 * k) * 10**6 for k in (1, 2, 3)]
    assert found.values("5", "emotion_self", "boredom").tolist() == ["x", None, None]
    assert record.extra == {
        "baseline_begin_s": BEGAN_MS / 1000,
        "debate_begin_s": BEGAN_MS / 1000 + 1.5,
        "debate_end_s": BEGAN_MS / 1000 + 600,
    }


def test_streams_of_kemocon_go_on_common_windows(root, convert, mmprep, tmp_path):
    kemocon(root)
    convert("kemocon")
    asked = (tmp_path / "out", "-o", tmp_path / "aligned", "--window", "5", "--engine", "serial")
    done = mmprep("align", *asked)
    assert done.code == 0, done.err
    first = next(iter(read_manifest(tmp_path / "aligned/manifest.jsonl")))
    ref = first.streams["emotion_self"]
    shard = np.load(tmp_path / "aligned" / ref.shard)
    assert (ref.rate_hz, shard[ref.rows[0], 0, :2].tolist()) == (0.2, [2, 4])


def test_second_device_and_missing_streams_of_kemocon_are_said(root, convert):
    kemocon(root, serials=("A013E1", "A01A3A"), people=(29, 31))
    (root / "neurosky_polar_data/29/Polar_HR.csv").unlink()
    (root / "emotion_annotations/self_annotations/P31.self.csv").unlink()
    found = convert("kemocon")
    assert {"EDA", "EDA-other"} <= set(found.records["29"].streams)
    assert "kemocon: Polar_HR is missing for 29, as is known" in found.said
    assert "kemocon: emotion_self is missing for 31\n" in found.said
    assert found.values("31", "EDA", "value").tolist()[:2] == [0.5, 2.5]


def test_annotations_without_the_start_of_the_debate_are_relative(root, convert):
    kemocon(root)
    (root / "metadata/subjects.csv").unlink()
    found = convert("kemocon", "--include", "*.self.csv")
    assert "does not tell when the debate began" in found.said
    stamps = found.values("5", "emotion_self", "time").astype(np.int64)
    assert stamps.tolist() == [0, 5 * 10**9, 10 * 10**9]


# CASE ---------------------------------------------------------------------------------------------

DAQ = "ecg,bvp,gsr,rsp,skt,emg_zygo,emg_coru,emg_trap"


def test_videos_of_case_are_records_with_their_emotion(root, convert):
    shown = [10] * 2000 + [3] * 3000 + [11] * 1000 + [8] * 2000
    rows = [f"{k},{k / 4},1,2,3,4,5,6,7,{video}" for k, video in enumerate(shown)]
    top = root / "data/interpolated"
    written(top / "physiological/sub_7.csv", "\n".join([f"daqtime,{DAQ},video", *rows, ""]))
    marks = [f"{50 * k},5.5,{k / 20},{video}" for k, video in enumerate(shown[::50])]
    written(top / "annotations/sub_7.csv", "\n".join(["jstime,valence,arousal,video", *marks, ""]))
    found = convert("case")
    assert sorted(found.records) == ["sub7/interpolated/video-3", "sub7/interpolated/video-8"]
    record = found.records["sub7/interpolated/video-3"]
    assert (record.label, record.labels) == ("boring", {"video": 3, "emotion": "boring"})
    assert (record.subject, record.session) == ("7", record.id)
    assert (record.duration_s, record.streams["physiology"].rate_hz) == (3.0, 1000.0)
    np.testing.assert_array_equal(
        found.values(record.id, "physiology", "ecg"), np.arange(2000, 5000) / 4
    )
    np.testing.assert_array_equal(
        found.values(record.id, "annotation", "arousal"), np.arange(40, 100) / 20
    )
    schema = pq.read_schema(found.folder / record.streams["physiology"].table)
    units = [schema.field(name).metadata[b"unit"] for name in ("ecg", "gsr", "skt", "emg_trap")]
    assert units == [b"mV", b"uS", b"degC", b"uV"]


def test_raw_files_of_case_are_one_record_a_person(root, convert):
    daq = "".join(f"{k / 1000:.3f}" + "\t0.5" * 8 + "\n" for k in range(100))
    written(root / "data/raw/physiological/sub1_DAQ.txt", daq)
    joystick = "0.000\t0\t-26225\n0.050\t13\t26225\n"
    written(root / "data/raw/annotations/sub1_joystick.txt", joystick)
    found = convert("case")
    (record,) = found.records.values()
    assert (record.id, record.subject) == ("sub1", "1")
    assert sorted(record.streams) == ["DAQ", "joystick"]
    assert found.values("sub1", "joystick", "arousal").tolist() == [-26225, 26225]
    assert "the published scale is 0.5 + 9 (v + 26225) / 52450" in found.said


def test_file_with_rejected_rows_is_not_cut(root, convert):
    rows = [f"{50 * k},5.5,1.5,3" for k in range(30)]
    rows[4] = "200,5.5"
    text = "\n".join(["jstime,valence,arousal,video", *rows, ""])
    written(root / "interpolated/annotations/sub_2.csv", text)
    found = convert("case", "--on-bad-row", "skip")
    assert list(found.records) == ["sub2/interpolated"]
    assert "rows were rejected, so it is not cut into parts" in found.said


# All ----------------------------------------------------------------------------------------------


def test_changed_labels_are_taken_without_reading_the_recordings_again(root, convert):
    deap(root / "s01.dat")
    ratings(root / "participant_ratings.csv", 1)
    first = convert("deap")
    table = first.folder / "tables/eeg/s01.parquet"
    before = table.stat().st_ino
    ratings(root / "participant_ratings.csv", 1, familiarity="2")
    second = convert("deap")
    labels = [found.records["s01/01"].labels["familiarity"] for found in (first, second)]
    assert (labels, table.stat().st_ino) == ([5, 2], before)


def test_trials_are_split_by_person_and_counted_by_class(root, convert, mmprep, tmp_path):
    for k in (2, 3):
        wesad(root / f"S{k}/S{k}.pkl")
    convert("wesad")
    out = tmp_path / "split"
    ratios = ("--by", "subject", "--ratios", "train=0.5,test=0.5")
    done = mmprep("manifest", "split", tmp_path / "out", *ratios, "-o", out)
    assert done.code == 0, done.err
    splits = {(r.subject, r.split) for r in read_manifest(out / "manifest.jsonl")}
    assert len(splits) == 2
    dataset = decode_dataset((out / "dataset.json").read_bytes())
    counts = {name: found.count for name, found in dataset.labels.items()}
    assert counts == {"amusement": 2, "baseline": 2, "meditation": 4, "stress": 2}


@pytest.mark.parametrize("session", ["devicely_session", "msr2023_session"])
def test_collected_sessions_of_an_e4_keep_subject_and_session(root, convert, shared, session):
    whole = shared(f"e4/{session}")
    (root / "P01").mkdir()
    shutil.copytree(whole, root / "P01/first")
    (record,) = convert("e4").records.values()
    assert (record.id, record.subject, record.session) == ("P01/first", "P01", "P01/first")
    assert {"ACC", "BVP", "EDA", "HR", "IBI", "TEMP"} <= set(record.streams)
    assert record.streams["BVP"].rate_hz == 64.0


def test_damaged_labels_are_an_error_before_any_work(root, mmprep, tmp_path):
    deap(root / "s01.dat")
    path = root / "participant_ratings.csv"
    written(path, f"{RATINGS}\n1,1,5,100,4.5\n")
    done = mmprep("convert", root, "-o", tmp_path / "out", "--layout", "deap")
    assert done.code == 3
    assert f"{path}:2: 5 cells, expected 9" in done.err
    assert sorted(tmp_path.iterdir()) == [root]


def test_files_of_another_corpus_are_told_what_was_expected(root, mmprep, tmp_path):
    wesad(root / "S2/S2.pkl")
    done = mmprep("convert", root, "-o", tmp_path / "out", "--layout", "deap")
    assert done.code == 3
    assert "none of 1 files fits the layout, as S2/S2.pkl" in done.err
    assert "**/{subject}.{ext}" in done.err


def zipped(folder, top):
    """Pack a folder as a download is packed, and remove it."""
    shutil.make_archive(str(folder), "zip", folder if top is None else folder.parent, top)
    shutil.rmtree(folder)


def test_deap_is_read_from_its_archives(root, convert):
    content = deap(root / "data_preprocessed_python/s01.dat")
    ratings(root / "metadata_csv/participant_ratings.csv", 1)
    zipped(root / "data_preprocessed_python", None)
    zipped(root / "metadata_csv", None)
    found = convert("deap")
    record = found.records["data_preprocessed_python/s01/02"]
    assert (record.subject, record.labels["familiarity"]) == ("s01", 5)
    np.testing.assert_array_equal(found.values(record.id, "gsr", "GSR"), content["data"][1, 36])


def test_wrist_of_wesad_is_read_from_its_archive(root, convert):
    wesad(root / "S2/S2.pkl")
    written(root / "S2/S2_E4_Data/EDA.csv", "1495437325.000000\n4.000000\n0.5\n0.6\n")
    zipped(root / "S2/S2_E4_Data", None)
    found = convert("wesad")
    assert found.values("S2/E4", "EDA", "EDA").tolist() == [0.5, 0.6]


def test_kemocon_is_read_from_its_archives(root, convert):
    kemocon(root)
    for name in ("e4_data", "neurosky_polar_data", "emotion_annotations", "metadata"):
        shutil.make_archive(str(root / name), "gztar", root, name)
        shutil.rmtree(root / name)
    (record,) = convert("kemocon").records.values()
    assert (record.id, record.extra["debate_begin_s"]) == ("5", BEGAN_MS / 1000 + 1.5)
    assert {"EDA", "Polar_HR", "emotion_self"} <= set(record.streams)
