"""GDF, EEGLAB, Neuroscan and the other formats of MNE: what MNE itself reads, on a right clock."""

from __future__ import annotations

import struct
import sys
import time
import warnings
from contextlib import suppress
from datetime import UTC, datetime

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.io

from mmprep import run_convert, tables
from mmprep.errors import DataError
from mmprep.sources import mnefiles
from mmprep.sources.base import LOCAL_NOTE, TextOptions
from mmprep.steps.base import FailedItemsError
from mmprep.steps.inspect import inspect

mne = pytest.importorskip("mne")

COUNTS = np.random.default_rng(0).integers(-3000, 3000, (400, 3)).astype("<i2")
WHEN = datetime(2024, 3, 5, 10, 20, 30, tzinfo=UTC)  # the time on the wall
WHEN_NS = 1_709_634_030 * 10**9
EVENTS = [(100, 769), (250, 770)]  # sample from 0, code


# --- files -------------------------------------------------------------------------------------


def gdf(path, *, units=("uV", "uV", "degC")):
    """Write GDF 1.25: 4 records of 1 s at 100 Hz, 3 channels, 2 events."""
    n = len(units)
    head = b"GDF 1.25" + b"doe7 Jane_Doe".ljust(80) + b"rec".ljust(80)
    head += WHEN.strftime("%Y%m%d%H%M%S00").encode().ljust(16)
    head += struct.pack("<q24x20xqIII", 256 * (n + 1), 4, 1, 1, n)
    fields = [
        b"".join(name.encode().ljust(16) for name in ("C3", "C4", "Temp")),
        b"".ljust(80 * n),
        b"".join(unit.encode().ljust(8) for unit in units),
        struct.pack(f"<{n}d", *[-3276.8] * n) + struct.pack(f"<{n}d", *[3276.7] * n),
        struct.pack(f"<{n}q", *[-32768] * n) + struct.pack(f"<{n}q", *[32767] * n),
        b"".ljust(80 * n),
        struct.pack(f"<{n}i", *[100] * n) + struct.pack(f"<{n}i", *[3] * n),
        b"\0" * 32 * n,
    ]
    records = COUNTS.reshape(4, 100, 3).transpose(0, 2, 1).tobytes()
    table = struct.pack("<B3BI", 1, 100, 0, 0, len(EVENTS))
    table += struct.pack("<2I", *[at + 1 for at, _ in EVENTS])
    table += struct.pack("<2H", *[code for _, code in EVENTS])
    path.write_bytes(head + b"".join(fields) + records + table)
    return path


def eeglab(path, *, data=None, trials=1):
    channels = np.array([(f"E{k}",) for k in range(3)], dtype=[("labels", object)])
    events = np.array(
        [("flash", 101.0, 25.0), ("press", 251.0, 0.0)],
        dtype=[("type", object), ("latency", object), ("duration", object)],
    )
    values = COUNTS.T.astype(np.float32) / 10
    known = {
        "setname": "made",
        "nbchan": 3.0,
        "trials": float(trials),
        "pnts": 400.0 / trials,
        "srate": 128.0,
        "xmin": 0.0,
        "xmax": 399 / 128,
        "data": values if data is None else data,
        "chanlocs": channels,
        "event": events,
        "epoch": np.zeros(0),
        "icawinv": np.zeros(0),
    }
    scipy.io.savemat(path, {"EEG": known}, appendmat=False)
    return path


def with_fdt(path):
    values = COUNTS.astype("<f4") / 10
    path.with_suffix(".fdt").write_bytes(values.tobytes())
    return eeglab(path, data=path.with_suffix(".fdt").name)


def neuroscan(path, *, width=2, said=400, tail=b""):
    """Write a .cnt of Neuroscan: 250 Hz, 3 channels, 2 events, and what comes behind them."""
    head, n, n_rows = bytearray(900), 3, len(COUNTS)
    head[0:11] = b"Version 3.0"
    head[225:235], head[235:247] = b"03/05/24\0\0", b"10:20:30\0\0\0\0"
    at = 900 + 75 * n + width * n * n_rows
    behind = at + 9 + 8 * len(EVENTS) if tail else 0
    for place, form, value in [
        *((370, "<H", n), (376, "<H", 250), (864, "<i", said), (886, "<i", at)),
        *((890, "<f", n_rows / 250), (894, "<i", 0), (12, "<i", behind)),
    ]:
        struct.pack_into(form, head, place, value)
    channels = b""
    for name in ("Fz", "Cz", "Pz"):
        one = bytearray(75)
        one[: len(name)] = name.encode()
        struct.pack_into("<f", one, 59, 2.0)
        struct.pack_into("<f", one, 71, 1.0)
        channels += bytes(one)
    rows = b"".join(
        struct.pack("<HBci", code % 256, 0, b"\0", 900 + 75 * n + (row + 1) * n * width)
        for row, code in EVENTS
    )
    table = struct.pack("<Bii", 1, len(rows), 0) + rows
    samples = COUNTS.astype(f"<i{width}").tobytes()
    path.write_bytes(bytes(head) + channels + samples + table + tail)
    return path


def persyst(path):
    path.write_text(
        f"[FileInfo]\nFile={path.stem}.dat\nFileType=Interleaved\nSamplingRate=200\n"
        "HeaderLength=0\nCalibration=0.5\nWaveformCount=3\nDataType=0\n"
        "[ChannelMap]\nFp1-Ref=1\nFp2-Ref=2\nCz-Ref=3\n"
        "[Sheets]\n[Patient]\nFirst=Jane\nLast=Doe\nID=doe7\nTestDate=03/05/2024\nBirthDate=06/07/1980\nSex=\nHand=\n"
        "TestTime=10:20:30\n[Comments]\n0.500000,0.250000,0,100,flash\n"
    )
    path.with_suffix(".dat").write_bytes(COUNTS.tobytes())
    return path


def eximia(path):
    np.arange(64 * 50, dtype="<i2").tofile(path)
    return path


MADE = {
    "gdf": (gdf, "a.gdf"),
    "eeglab": (eeglab, "a.set"),
    "eeglab with its samples apart": (with_fdt, "a.set"),
    "neuroscan": (neuroscan, "a.cnt"),
    "persyst": (persyst, "a.lay"),
    "eximia": (eximia, "a.nxe"),
}
BESIDE = {"eeglab with its samples apart": ("a.fdt",), "persyst": ("a.dat",)}


def make(folder, form):
    build, name = MADE[form]
    return build(folder / name)


def by_mne(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return mne.io.read_raw(path, preload=True, verbose="ERROR")


def convert(path, stream, out, **options):
    settings = TextOptions(**options)
    (claim,) = mnefiles.claim("", sorted(p.name for p in path.parent.iterdir()), path.parent)
    schema = mnefiles.probe(claim, path.parent, settings)[stream]
    target = out / f"{stream}.parquet"
    facts = mnefiles.write(
        claim, path.parent, stream, schema, tables.Target(target, "P1"), options=settings
    )
    return facts, target


@pytest.fixture
def raws(tmp_path):
    (tmp_path / "raw").mkdir()
    return tmp_path / "raw"


SNIRF = {
    "formatVersion": "1.0",
    **{
        f"nirs/metaDataTags/{name}": value
        for name, value in [
            *(("SubjectID", "doe7"), ("LengthUnit", "mm"), ("TimeUnit", "s")),
            *(("MeasurementDate", "2024-03-05"), ("MeasurementTime", "10:20:30Z")),
            ("FrequencyUnit", "Hz"),
        ]
    },
    "nirs/data1/dataTimeSeries": np.arange(80.0).reshape(40, 2),
    "nirs/data1/time": np.arange(40) / 10,
    **{
        f"nirs/data1/measurementList{k}/{name}": np.int32(value)
        for k in (1, 2)
        for name, value in [
            *(("sourceIndex", 1), ("detectorIndex", 1), ("wavelengthIndex", k)),
            *(("dataType", 1), ("dataTypeIndex", 1)),
        ]
    },
    "nirs/probe/wavelengths": np.array([760.0, 850.0]),
    "nirs/probe/sourcePos3D": np.zeros((1, 3)),
    "nirs/probe/detectorPos3D": np.full((1, 3), 30.0),
    "nirs/probe/sourceLabels": ["S1"],
    "nirs/probe/detectorLabels": ["D1"],
}


# --- tests -------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", MADE)
def test_samples_names_and_rate_are_those_of_mne(raws, tmp_path, form):
    path = make(raws, form)
    facts, target = convert(path, "signal", tmp_path)
    stream, known = tables.read_stream(target, "x"), by_mne(path)
    assert np.array_equal(stream.data, known.get_data().T)
    assert stream.channels == tuple(known.ch_names)
    assert (facts.rate_hz, facts.rows) == (known.info["sfreq"], known.n_times)
    assert facts.rows == (50 if form == "eximia" else 400)


@pytest.mark.parametrize("form", MADE)
def test_annotations_are_those_of_mne(raws, tmp_path, form):
    path = make(raws, form)
    facts, target = convert(path, "annotations", tmp_path)
    table, known = pq.read_table(target), by_mne(path).annotations
    first = known.onset[0] if len(known) else 0
    onsets = [t / np.timedelta64(1, "s") + first for t in table["time"].to_numpy()]
    assert onsets == pytest.approx(known.onset.tolist(), abs=1e-9)
    assert table["description"].to_pylist() == known.description.tolist()
    assert table["duration"].to_pylist() == known.duration.tolist()
    assert facts.rows == {"eximia": 0, "persyst": 1}.get(form, 2)


@pytest.mark.parametrize("form", MADE)
def test_files_of_a_recording_go_together(raws, form):
    path = make(raws, form)
    (raws / "other.dat").write_bytes(b"1")
    (claim,) = mnefiles.claim("", sorted(p.name for p in raws.iterdir()), raws)
    assert claim.files == (path.name, *BESIDE.get(form, ()))
    assert (claim.id_path, claim.stem) == (path.name, "a")


@pytest.mark.parametrize("form", ["gdf", "neuroscan", "persyst"])
def test_time_on_the_wall_is_local_until_its_zone_is_said(raws, tmp_path, form):
    path = make(raws, form)
    local, _ = convert(path, "signal", tmp_path)
    assert (local.absolute, local.start_ns) == (False, WHEN_NS)
    assert LOCAL_NOTE in local.notes
    known, target = convert(path, "signal", tmp_path, tz="Asia/Shanghai")
    assert (known.absolute, known.start_ns) == (True, WHEN_NS - 8 * 3600 * 10**9)
    assert tables.table_info(target).tz == "Asia/Shanghai"
    notes, _ = convert(path, "annotations", tmp_path, tz="Asia/Shanghai")
    first = 0.5 if form == "persyst" else by_mne(path).annotations.onset[0]
    assert notes.start_ns == known.start_ns + round(first * 10**9)


def test_start_is_the_same_in_every_zone_of_the_machine(raws, tmp_path, monkeypatch):
    path, starts = neuroscan(raws / "a.cnt"), []
    try:
        for zone in ("UTC", "America/New_York"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            starts.append(convert(path, "signal", tmp_path)[0].start_ns)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert starts == [WHEN_NS, WHEN_NS]


@pytest.mark.parametrize(("width", "mark"), [(2, b"\0"), (4, b"\1")])
def test_neuroscan_that_does_not_say_how_long_it_is_tells_its_bits(raws, tmp_path, width, mark):
    path = neuroscan(raws / "a.cnt", width=width, said=0, tail=b"\0" * 52 + mark + b"\0" * 9)
    facts, target = convert(path, "signal", tmp_path)
    assert facts.rows == len(COUNTS)
    assert tables.read_stream(target, "x").data == pytest.approx(COUNTS * 2e-6 / 204.8)


def test_fault_of_mne_comes_without_the_lines_of_its_code(raws, tmp_path, monkeypatch):
    def fail(path, **options):
        raise RuntimeError(
            '\n  File "/x/mne/io/a.py", line 188, in _read\n    raise RuntimeError(\n\n'
            "RuntimeError: no samples"
        )

    monkeypatch.setattr(mne.io, "read_raw_gdf", fail)
    with pytest.raises(DataError, match=r"^a\.gdf: MNE cannot read it: no samples$"):
        convert(gdf(raws / "a.gdf"), "signal", tmp_path)


def test_warning_that_comes_again_is_one_note(raws, tmp_path, monkeypatch):
    read = mne.io.read_raw_gdf

    def warn(path, **options):
        for _ in range(3):
            warnings.warn("odd", RuntimeWarning, stacklevel=1)
        return read(path, **options)

    monkeypatch.setattr(mne.io, "read_raw_gdf", warn)
    facts, _ = convert(gdf(raws / "a.gdf"), "signal", tmp_path)
    assert facts.notes.count("odd") == 1


def test_file_without_a_start_says_so(raws, tmp_path):
    facts, _ = convert(eeglab(raws / "a.set"), "signal", tmp_path, tz="Asia/Shanghai")
    assert (facts.absolute, facts.start_ns) == (False, 0)
    assert any("no start time" in note for note in facts.notes)


def test_intensities_of_light_have_no_unit(raws, tmp_path):
    h5py = pytest.importorskip("h5py")
    path = raws / "a.snirf"
    with h5py.File(path, "w") as file:
        for name, value in SNIRF.items():
            file[name] = value
    facts, target = convert(path, "signal", tmp_path, tz="Asia/Shanghai")
    stream, known = tables.read_stream(target, "x"), by_mne(path)
    assert np.array_equal(stream.data, known.get_data().T)
    assert (stream.units, facts.rate_hz) == ((None, None), 10)
    assert (facts.absolute, facts.start_ns) == (False, WHEN_NS)
    assert "the zone of its start is not known: durations" in facts.notes


def test_unit_that_mne_does_not_scale_is_not_called_volts(raws, tmp_path):
    _, target = convert(gdf(raws / "a.gdf"), "signal", tmp_path)
    assert tables.table_info(target).units == ("V", "V", None)
    stream = tables.read_stream(target, "x")
    assert stream.data[0] == pytest.approx(COUNTS[0] * [1e-7, 1e-7, 0.1])


@pytest.mark.parametrize("form", ["gdf", "persyst"])
def test_nothing_of_the_person_is_kept_or_printed(raws, tmp_path, form, capfd):
    facts, target = convert(make(raws, form), "signal", tmp_path)
    assert b"doe" not in target.read_bytes().lower()
    assert "".join(capfd.readouterr()) == ""
    assert "birth" not in " ".join(facts.notes)


def test_epochs_are_refused(raws, tmp_path):
    path = eeglab(raws / "a.set", data=np.zeros((3, 100, 4), np.float32), trials=4)
    with pytest.raises(DataError, match=r"^a\.set: holds epochs, not one recording"):
        convert(path, "signal", tmp_path)


@pytest.mark.parametrize("share", [0.02, 0.5, 0.97])
@pytest.mark.parametrize("form", ["gdf", "eeglab", "neuroscan"])
def test_file_that_was_cut_is_a_located_error(raws, tmp_path, form, share):
    path = make(raws, form)
    raw = path.read_bytes()
    path.write_bytes(raw[: int(share * len(raw))])
    with pytest.raises(DataError, match=rf"^{path.name}: (MNE cannot read it: .|ends within)"):
        convert(path, "signal", tmp_path)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("form", ["gdf", "neuroscan", "persyst"])
def test_damaged_header_is_bad_input_or_is_read(raws, tmp_path, form, seed):
    path, rng = make(raws, form), np.random.default_rng(seed)
    bad = bytearray(path.read_bytes())
    for at in rng.integers(16, min(len(bad), 900), 12):
        bad[at] = rng.integers(256)
    path.write_bytes(bytes(bad))
    with suppress(DataError):
        convert(path, "signal", tmp_path)


def test_recording_without_its_samples_is_a_located_error(raws, tmp_path):
    path = with_fdt(raws / "a.set")
    path.with_suffix(".fdt").unlink()
    with pytest.raises(DataError, match=r"^a\.set: MNE cannot read it: .*fdt"):
        convert(path, "signal", tmp_path)


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("x.gdf", b"GIF 1.25"),
        ("x.set", b"[settings]\n"),
        ("x.cnt", b"\1\2\3\4"),
        ("x.lay", b"layout\n"),
        ("x.nedf", b"\0nedf"),
        ("x.nxe", b""),
        ("x.snirf", b"{}"),
        ("x.sqd", b"SQLite format 3\0"),
        ("x.con", b"key = value\n"),
        ("x.cdt", b"CorelDraw"),
        *((f"x{end}", b"GDF 1.25") for end in (".dat", ".bin", ".txt", ".data", ".mat", ".eeg")),
    ],
)
def test_file_is_not_taken_by_its_suffix_alone(tmp_path, name, head):
    (tmp_path / name).write_bytes(head)
    assert mnefiles.claim("", [name], tmp_path) == []


KIT = struct.pack("<4i", 0, 16, 40, 30)
HDF5 = b"\x89HDF\r\n\x1a\n"
SIGNED = {
    "x.nedf": b"<?xml version='1.0'?><nedf><NEDFversion>1.3</NEDFversion>",
    "x.snirf": HDF5,
    "x.set": b"MATLAB 5.0 MAT-file",
    "x.sqd": KIT,
    "x.con": KIT,
    "x.cdt": b"\0\0\0\0",
    "x.cnt": b"RIFF\0\0\0\0CNT ",
}


@pytest.mark.parametrize("name", SIGNED)
def test_file_that_is_only_begun_is_a_located_error(raws, tmp_path, name):
    (raws / name).write_bytes(SIGNED[name])
    if name == "x.cdt":
        (raws / "x.cdt.dpa").write_text("DATA_PARAMETERS START\n")
        (raws / "x.cdt.cef").write_text("")
    with pytest.raises(DataError, match=rf"^{name}: ") as caught:
        convert(raws / name, "signal", tmp_path)
    assert str(raws) not in str(caught.value).partition(": ")[0]


@pytest.mark.parametrize(
    ("name", "head", "module"),
    [
        ("x.snirf", HDF5 + b"\0" * 512, "h5py"),
        ("x.set", b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM" + b"\0" * 384, "pymatreader"),
    ],
)
def test_package_that_is_missing_is_named(raws, monkeypatch, name, head, module):
    (raws / name).write_bytes(head)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(DataError, match=f"{name}: needs the package {module}") as caught:
        mnefiles.read_stream(raws / name, TextOptions(), "x", stream="signal")
    assert caught.value.hint == "pip install 'mmprep[mat73]'"


def egi(folder):
    folder.mkdir(parents=True)
    for name in ("info.xml", "info1.xml", "signal1.bin", "sensorLayout.xml"):
        (folder / name).write_bytes(b"<x/>")
    return folder


def ctf(folder):
    folder.mkdir(parents=True)
    (folder / f"{folder.stem}.res4").write_bytes(b"MEG42RS\0" + b"\0" * 64)
    (folder / f"{folder.stem}.meg4").write_bytes(b"MEG41CP\0")
    return folder


@pytest.mark.parametrize(("build", "name"), [(egi, "a.mff"), (ctf, "a.ds")])
def test_folder_is_one_recording(raws, tmp_path, build, name):
    folder = build(raws / "P1" / name)
    names = sorted(path.name for path in folder.iterdir())
    (claim,) = mnefiles.claim(f"P1/{name}", names, raws)
    assert claim.files == tuple(f"P1/{name}/{one}" for one in names)
    assert (claim.id_path, claim.stem) == (f"P1/{name}", "a")
    with pytest.raises(DataError, match=rf"P1/{name}: "):
        mnefiles.probe(claim, raws, TextOptions())["signal"]
    (alone,) = mnefiles.claim("", names, folder)
    assert (alone.id_path, alone.files) == ("", tuple(names))
    with pytest.raises(DataError, match=name):
        inspect(str(folder))


def test_measurement_of_the_head_is_no_recording(tmp_path):
    inner = ctf(ctf(tmp_path / "a.ds") / "hz.ds")
    assert mnefiles.claim("a.ds/hz.ds", [path.name for path in inner.iterdir()], tmp_path) == []


def test_folder_of_another_kind_is_left_alone(tmp_path):
    for name in ("a.mff", "a.ds"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.bin").write_bytes(b"1")
        assert mnefiles.claim(name, ["x.bin"], tmp_path) == []


def test_data_set_has_a_recording_of_each_and_the_same_bytes_for_any_jobs(raws, tmp_path):
    for form, (build, name) in MADE.items():
        build(raws / f"{form.replace(' ', '_')}{name[1:]}")
    for jobs in (1, 2):
        done = run_convert(str(raws), output=tmp_path / f"out{jobs}", jobs=jobs)
        assert done.status == "built"
    for path in sorted((tmp_path / "out1" / "tables").rglob("*.parquet")):
        other = tmp_path / "out2" / path.relative_to(tmp_path / "out1")
        assert other.read_bytes() == path.read_bytes()
    ids = {path.stem for path in (tmp_path / "out1/tables/signal").iterdir()}
    assert ids == {form.replace(" ", "_") for form in MADE}


def test_folder_that_is_named_itself_has_its_id_without_suffix(raws, tmp_path):
    folder = egi(raws / "P1.mff")
    with pytest.raises(FailedItemsError) as caught:
        run_convert(str(folder), output=tmp_path / "out")
    assert [failure.id for failure in caught.value.failures] == ["P1"]


def test_inspect_says_what_a_file_holds(raws):
    facts = inspect(str(neuroscan(raws / "a.cnt")))
    assert facts["reader"] == "mnefiles"
    signal = facts["streams"][0]
    assert (signal["channels"], signal["rate_hz"], signal["n_samples"]) == (
        ["Fz", "Cz", "Pz"],
        250.0,
        400,
    )
