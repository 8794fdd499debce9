"""Bad input gets a located error and a hint, never a traceback."""

from __future__ import annotations

import pytest

from tests import raw
from tests.conftest import ROOT

SERIAL = ("--engine", "serial")
AMIGOS = ROOT / "sample_data/amigos"


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def refused(mmprep, out):
    """Run a command that must fail, and give what it said: code, error lines, hints."""

    def run(*command: object) -> tuple[int, str, str]:
        done = mmprep(*command)
        errors, _, hints = done.err.rpartition("\n\n")
        assert "Traceback" not in done.err
        assert done.out == ""
        assert errors.splitlines()[-1].startswith("mmprep: error: ")
        assert all(line.startswith("hint: ") for line in hints.splitlines())
        assert hints
        assert not out.exists()
        return done.code, errors, hints

    return run


def _written(mmprep, tmp_path):
    raw.sound(tmp_path / "raw/a.wav")
    raw.table(tmp_path / "raw/eeg.tsv")
    mmprep("convert", tmp_path / "raw", "-o", tmp_path / "made", *SERIAL, "-q")
    return tmp_path / "made"


@pytest.mark.parametrize("command", ["convert", "mfcc", "align"])
def test_missing_file(refused, tmp_path, out, command):
    code, errors, hint = refused(command, tmp_path / "no.wav", "-o", out, *SERIAL)
    assert (code, errors) == (2, f"mmprep: error: {tmp_path}/no.wav: does not exist")
    assert "check the path" in hint


def test_missing_file_of_inspect(refused):
    code, errors, hint = refused("inspect", "no.wav")
    assert (code, errors) == (2, "mmprep: error: no.wav: does not exist")
    assert "check the path" in hint


@pytest.mark.parametrize("command", ["stats", "validate"])
def test_missing_data_set(refused, command):
    code, errors, hint = refused("manifest", command, "nowhere")
    assert code == 2
    assert "nowhere: is no data set: it has no dataset.json" in errors
    assert "that a mmprep command wrote" in hint


def test_link_that_leads_nowhere(refused, tmp_path, out):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/eeg.tsv").symlink_to("gone.tsv")
    code, errors, hint = refused("convert", tmp_path / "in", "-o", out, *SERIAL)
    assert code == 2
    assert errors == f"mmprep: error: {tmp_path}/in/eeg.tsv: No such file or directory"
    assert "--exclude" in hint


def test_name_too_long_for_the_file_system(refused, out):
    code, errors, _ = refused("convert", "n" * 300, "-o", out, *SERIAL)
    assert code == 2
    assert "File name too long" in errors


@pytest.mark.parametrize("named", [True, False])
def test_empty_table(refused, tmp_path, out, named):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/eeg.tsv").write_text("")
    source = tmp_path / "in/eeg.tsv" if named else tmp_path / "in"
    code, errors, hint = refused("convert", source, "-o", out, *SERIAL)
    assert code == 3
    assert errors.splitlines()[0] == "mmprep: error: eeg.tsv: the file is empty"
    assert "leave it out" in hint
    assert "--max-failures 1" in hint


@pytest.mark.parametrize("command", ["convert", "mfcc"])
def test_empty_sound(refused, tmp_path, out, command):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.wav").write_bytes(b"")
    code, errors, hint = refused(command, tmp_path / "in", "-o", out, *SERIAL)
    assert code == 3
    assert "a.wav" in errors.splitlines()[0]
    assert "empty" in errors.splitlines()[0]
    assert "--max-failures 1" in hint


def test_empty_table_of_inspect(refused, tmp_path):
    (tmp_path / "eeg.tsv").write_text("")
    code, errors, hint = refused("inspect", tmp_path / "eeg.tsv")
    assert code == 3
    assert f"{tmp_path}/eeg.tsv: the file is empty" in errors
    assert "leave it out" in hint


@pytest.mark.parametrize("name", [None, "notes.xyz"])
@pytest.mark.parametrize("command", ["convert", "mfcc"])
def test_folder_without_known_files(refused, tmp_path, out, command, name):
    (tmp_path / "in").mkdir()
    if name:
        (tmp_path / "in" / name).write_text("hello")
    code, errors, hint = refused(command, tmp_path / "in", "-o", out, *SERIAL)
    assert code == 3
    assert f"{tmp_path}/in: n" in errors
    assert f"among {1 if name else 0} files" in errors
    assert ".wav" in hint or "sound" in hint


def test_named_file_that_no_reader_knows(refused, tmp_path, out):
    (tmp_path / "notes.xyz").write_text("hello")
    code, errors, hint = refused("convert", tmp_path / "notes.xyz", "-o", out, *SERIAL)
    assert code == 3
    assert f"{tmp_path}/notes.xyz: no reader knows it" in errors
    assert "tried:" in hint


def test_named_file_that_is_no_sound(refused, tmp_path, out):
    raw.table(tmp_path / "eeg.tsv")
    code, errors, _ = refused("mfcc", tmp_path / "eeg.tsv", "-o", out, *SERIAL)
    assert code == 2
    assert f"{tmp_path}/eeg.tsv: is no sound file" in errors


def test_same_id_and_stream_twice(refused, tmp_path, out):
    raw.sound(tmp_path / "in/a.wav")
    raw.sound(tmp_path / "in/a.flac")
    code, errors, hint = refused("convert", tmp_path / "in", "-o", out, *SERIAL)
    assert code == 2
    assert "a.flac and a.wav would both be stream 'audio' of 'a'" in errors
    assert "--layout" in hint
    assert "--exclude" in hint
    assert not out.with_name("out.incomplete").exists()


def test_same_id_twice_in_mfcc(refused, tmp_path, out):
    raw.sound(tmp_path / "in/a.wav")
    raw.sound(tmp_path / "in/a.flac")
    code, errors, hint = refused("mfcc", tmp_path / "in", "-o", out, *SERIAL)
    assert code == 2
    assert "a.flac and a.wav would both be 'a'" in errors
    assert "--exclude" in hint


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_out_that_mmprep_did_not_make(mmprep, tmp_path, force):
    raw.table(tmp_path / "in/eeg.tsv")
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/chapter.txt").write_text("mine")
    done = mmprep("convert", tmp_path / "in", "-o", tmp_path / "thesis", *SERIAL, *force)
    assert done.code == 2
    assert f"{tmp_path}/thesis: was not made by mmprep" in done.err
    assert "hint: choose another -o" in done.err
    assert (tmp_path / "thesis/chapter.txt").read_text() == "mine"


def test_out_that_is_a_file(mmprep, tmp_path):
    source = raw.table(tmp_path / "in/eeg.tsv")
    done = mmprep("convert", tmp_path / "in", "-o", source, *SERIAL)
    assert done.code == 2
    assert f"{source}: is no folder" in done.err


def test_input_as_output(mmprep, tmp_path):
    made = _written(mmprep, tmp_path)
    done = mmprep("mfcc", made, "-o", made, *SERIAL)
    assert done.code == 2
    assert f"{made}: is both input and output" in done.err
    assert "hint: choose another -o" in done.err


@pytest.mark.parametrize("form", ["{}#ecg", "eeg"])
def test_unknown_stream_of_align(refused, mmprep, tmp_path, out, form):
    made = _written(mmprep, tmp_path)
    options = ("--rates", "ecg=128") if form == "eeg" else ()
    source = form.format(made) if "{}" in form else made
    code, errors, hint = refused("align", source, "-o", out, *options, *SERIAL)
    assert code == 2
    assert "there is no stream 'ecg'" in errors
    assert "eeg" in hint


def test_unknown_stream_of_inspect(refused, tmp_path):
    raw.table(tmp_path / "eeg.tsv")
    code, errors, hint = refused("inspect", f"{tmp_path}/eeg.tsv#ecg")
    assert code == 2
    assert f"{tmp_path}/eeg.tsv: there is no stream 'ecg'" in errors
    assert hint == "hint: streams: eeg\n"


def test_clock_of_an_unknown_stream(refused, tmp_path, out):
    path = raw.table(tmp_path / "eeg.tsv")
    code, errors, hint = refused(
        "align", "--eeg", path, "--clock", f"gsr={path}", "-o", out, *SERIAL
    )
    assert code == 2
    assert "--clock: there is no stream 'gsr'" in errors
    assert "streams: eeg" in hint


def test_clock_log_of_another_clock(refused, out):
    eeg, log = AMIGOS / "P01/V01_eeg.tsv", AMIGOS / "P01/V02_video.ptp.tsv"
    code, errors, hint = refused("align", "--eeg", eeg, "--clock", f"eeg={log}", "-o", out, *SERIAL)
    assert code == 3
    assert "V02_video.ptp.tsv" in errors
    assert "another clock" in errors
    assert hint


def test_clock_file_that_is_no_clock_log(refused, tmp_path, out):
    path = raw.table(tmp_path / "eeg.tsv")
    code, errors, hint = refused(
        "align", "--eeg", path, "--clock", f"eeg={path}", "-o", out, *SERIAL
    )
    assert code == 3
    assert "eeg.tsv:1: no clock log begins with" in errors
    assert "t1 t2 t3 t4" in hint


def test_streams_that_never_meet(refused, tmp_path, out):
    eeg = raw.table(tmp_path / "eeg.tsv")
    gsr = raw.table(tmp_path / "gsr.tsv", start_s=100)
    code, errors, hint = refused("align", "--eeg", eeg, "--gsr", gsr, "-o", out, *SERIAL)
    assert code == 3
    assert "don't overlap" in errors
    assert hint


@pytest.mark.parametrize(
    "options", [("--time", "zeit"), ("--unit", "y=uV"), ("--labels", "LABELS", "--on", "id=code")]
)
def test_unknown_column(refused, tmp_path, out, options):
    raw.table(tmp_path / "in/eeg.tsv")
    (tmp_path / "labels.tsv").write_text("id\tlabel\nin\thappy\n")
    given = [str(tmp_path / "labels.tsv") if text == "LABELS" else text for text in options]
    code, errors, hint = refused("convert", tmp_path / "in", "-o", out, *given, *SERIAL)
    assert code == 2
    assert "no column" in errors
    assert "column" in hint or "--time" in hint


@pytest.mark.parametrize(
    "command",
    [("mfcc",), ("align",), ("manifest", "split"), ("manifest", "export", "--to", "nemo")],
)
def test_malformed_manifest_line(refused, mmprep, tmp_path, out, command):
    made = _written(mmprep, tmp_path)
    manifest = made / "manifest.jsonl"
    manifest.write_bytes(manifest.read_bytes() + b'{"id": "x"\n')
    code, errors, hint = refused(*command, made, "-o", out, *SERIAL)
    assert code == 3
    n_lines = len(manifest.read_bytes().splitlines())
    assert f"{manifest}:{n_lines}: not JSON" in errors
    assert "manifest validate" in hint


def test_malformed_manifest_line_in_stats(refused, mmprep, tmp_path):
    made = _written(mmprep, tmp_path)
    (made / "manifest.jsonl").write_bytes(b"[]\n")
    code, errors, _ = refused("manifest", "stats", made)
    assert code == 3
    assert f"{made}/manifest.jsonl:1: " in errors


def test_malformed_manifest_line_is_a_finding_of_validate(mmprep, tmp_path):
    made = _written(mmprep, tmp_path)
    (made / "manifest.jsonl").write_bytes(b"{}\n")
    done = mmprep("manifest", "validate", made)
    assert done.code == 1
    assert "manifest.jsonl:1: " in done.out


def test_mixed_rates(refused, tmp_path, out):
    raw.sound(tmp_path / "in/a.wav", rate_hz=8000)
    raw.sound(tmp_path / "in/b.wav", rate_hz=16000)
    code, errors, hint = refused("mfcc", tmp_path / "in", "-o", out, *SERIAL)
    assert code == 2
    assert "mixed rates: 8000 Hz (a.wav), 16000 Hz (b.wav)" in errors
    assert hint == "hint: resample all to one: --rate 8000\n"


def test_missing_shard(refused, mmprep, tmp_path, out):
    made = _written(mmprep, tmp_path)
    (made / "audio/shard-00000.npy").unlink()
    for command in ("mfcc", "align"):
        code, errors, _ = refused(command, made, "-o", out, *SERIAL)
        assert code == 2
        assert f"{made}/audio/shard-00000.npy: " in errors


def test_bad_row_is_located(refused, tmp_path, out):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/eeg.tsv").write_text("time\tx\n0\t1\n1\t2\t3\n")
    code, errors, hint = refused("convert", tmp_path / "in", "-o", out, *SERIAL)
    assert code == 3
    assert "mmprep: error: eeg.tsv:3: " in errors
    assert "--on-bad-row" in hint


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--shard-size", "big"),
        ("--max-failures", "some"),
        ("--rate", "fast"),
        ("--layout", "amigo"),
        ("--engine", "gpu"),
        ("--time-unit", "h"),
        ("--jobs", "0"),
    ],
)
def test_bad_value_of_an_option(refused, tmp_path, out, option, value):
    raw.table(tmp_path / "in/eeg.tsv")
    code, errors, _ = refused("convert", tmp_path / "in", "-o", out, option, value)
    assert code == 2
    assert value in errors
