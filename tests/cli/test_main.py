"""Exit codes, the form of errors, help."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mmprep.cli import main
from mmprep.errors import DataError, TransientError
from mmprep.steps import check
from tests import raw
from tests.conftest import ROOT

SERIAL = ("--engine", "serial")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
ALL = [(name,) for name in main.COMMANDS]
ALL += [("manifest", name) for name in ("validate", "stats", "split", "export")]


@pytest.mark.parametrize("command", [(), *ALL])
def test_help_of_every_command(mmprep, command):
    done = mmprep(*command, "--help")
    assert done.code == 0
    assert done.out.startswith(" ".join(("Usage: mmprep", *command)))
    assert done.err == ""
    assert mmprep(*command, "-h").out == done.out


@pytest.mark.parametrize("command", [(), ("manifest",)])
def test_group_alone_shows_its_help_on_stderr(mmprep, command):
    done = mmprep(*command)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(" ".join(("Usage: mmprep", *command)))


def test_help_says_which_environment_variables_count(mmprep):
    text = mmprep("convert", "--help").out
    assert "MMPREP_JOBS" in text
    assert "MMPREP_PROGRESS" in text


def test_version(mmprep):
    done = mmprep("--version")
    assert (done.code, done.out.split()[0]) == (0, "mmprep")


@pytest.mark.parametrize(
    ("words", "close"),
    [
        (("convrt",), "convert"),
        (("manifest", "splt"), "split"),
        (("convert", "--outptu"), "--output"),
    ],
)
def test_misspelt_name_is_answered_with_the_one_that_comes_close(mmprep, words, close):
    done = mmprep(*words)
    assert done.code == 2
    assert "id you mean" in done.err
    assert close in done.err
    assert done.err.splitlines()[-2:][0] == ""
    assert done.err.splitlines()[-1].startswith("hint: mmprep")


# Exit codes, each with the form of its message


def test_0_done_prints_the_record_alone(mmprep, tmp_path):
    raw.table(tmp_path / "in/eeg.tsv")
    done = mmprep("convert", tmp_path / "in", "-o", tmp_path / "out", *SERIAL)
    assert (done.code, done.out) == (0, f"{tmp_path}/out/dataset.json\n")


def test_1_found_wrong(mmprep, tmp_path):
    raw.table(tmp_path / "in/eeg.tsv")
    mmprep("convert", tmp_path / "in", "-o", tmp_path / "out", *SERIAL)
    (tmp_path / "out/manifest.jsonl").unlink()
    done = mmprep("manifest", "validate", tmp_path / "out")
    assert done.code == 1
    assert "manifest.jsonl" in done.out
    assert done.err.splitlines()[-1].startswith(f"mmprep: error: {tmp_path}/out: ")


def test_2_wrong_call_has_where_what_blank_line_and_hint(mmprep, tmp_path):
    done = mmprep("convert", "nowhere", "-o", tmp_path / "out", *SERIAL)
    assert done.code == 2
    assert done.err.splitlines() == [
        "mmprep: error: nowhere: does not exist",
        "",
        "hint: check the path, or the folder you are in",
    ]
    assert done.out == ""


def test_2_wrong_call_without_a_hint_is_sent_to_the_help(mmprep, tmp_path):
    raw.table(tmp_path / "in/eeg.tsv")
    done = mmprep("convert", tmp_path / "in", "-o", tmp_path / "out", "--unit", "x", *SERIAL)
    assert done.err.splitlines() == [
        "mmprep: error: --unit: 'x' is not COL=U",
        "",
        "hint: mmprep convert --help",
    ]


def test_2_missing_option(mmprep):
    done = mmprep("convert", "x")
    assert done.code == 2
    assert "Missing option '-o'" in done.err


def test_3_bad_input_names_each_item_then_counts(mmprep, tmp_path):
    raw.table(tmp_path / "in/good/eeg.tsv")
    (tmp_path / "in/bad").mkdir()
    (tmp_path / "in/bad/eeg.tsv").write_text("time\tx\n0\t1\n1\t2\t3\n")
    done = mmprep("convert", tmp_path / "in", "-o", tmp_path / "out", *SERIAL)
    lines = done.err.splitlines()
    assert done.code == 3
    assert any(line.startswith("mmprep: error: bad/eeg.tsv:3: ") for line in lines)
    assert "mmprep: error: 1 of 2 items failed, nothing was published" in lines
    assert lines[-1].endswith("--max-failures 1")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("error", "code"),
    [(DataError("is bad", where="x"), 3), (TransientError("is busy", where="x"), 75)],
)
def test_error_of_a_kind_exits_with_its_code(mmprep, monkeypatch, error, code):
    def fail(path):
        raise error

    monkeypatch.setattr(check, "count", fail)
    done = mmprep("manifest", "stats", "x")
    assert (done.code, done.err) == (code, f"mmprep: error: {error}\n")


def test_70_a_bug_has_its_traceback(mmprep, monkeypatch):
    monkeypatch.setattr(check, "count", lambda path: {}["no such key"])
    done = mmprep("manifest", "stats", "x")
    assert done.code == 70
    assert "Traceback" in done.err
    assert "KeyError: 'no such key'" in done.err
    assert done.err.splitlines()[-1].startswith("mmprep: error: this is a bug")


def test_debug_shows_where_a_known_error_comes_from(mmprep, monkeypatch):
    monkeypatch.setenv("MMPREP_DEBUG", "1")
    assert "Traceback" in mmprep("manifest", "stats", "nowhere").err


def test_130_ctrl_c_says_how_to_go_on(mmprep, monkeypatch):
    def interrupt(path):
        raise KeyboardInterrupt

    monkeypatch.setattr(check, "count", interrupt)
    done = mmprep("manifest", "stats", "x")
    assert done.code == 130
    assert "again to continue" in done.err


def test_141_closed_pipe_ends_quietly(tmp_path):
    path = raw.table(tmp_path / "eeg.tsv")
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "mmprep", "inspect", str(path)]
    done = subprocess.run(
        command, stdout=write_end, stderr=subprocess.PIPE, env=ENVIRONMENT, check=False
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_3_full_standard_output_is_no_bug(tmp_path):
    path = raw.table(tmp_path / "eeg.tsv")
    command = [sys.executable, "-m", "mmprep", "inspect", str(path)]
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, env=ENVIRONMENT, check=False
        )
    assert done.returncode == 3
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("number", "code", "engine"),
    [(signal.SIGTERM, 143, SERIAL), (signal.SIGTERM, 143, ("-j", "2")), (signal.SIGINT, 130, ())],
)
def test_signal_ends_the_run_with_its_code_and_out_stays_as_it_was(tmp_path, number, code, engine):
    first = raw.table(tmp_path / "in/0/eeg.tsv", n_rows=200)
    for k in range(1, 1500):
        (tmp_path / f"in/{k}").mkdir()
        os.link(first, tmp_path / f"in/{k}/eeg.tsv")
    out = tmp_path / "out"
    command = ["convert", str(tmp_path / "in"), "-o", str(out), *engine]
    running = subprocess.Popen(
        [sys.executable, "-m", "mmprep", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
        preexec_fn=_hear_ctrl_c,  # noqa: PLW1509 - this process has one thread
    )
    _wait_for(Path(f"{out}.incomplete/.mmprep/journal.jsonl"))
    running.send_signal(number)
    printed, _ = running.communicate(timeout=60)
    assert (running.returncode, printed) == (code, b"")
    assert not out.exists()


def _hear_ctrl_c() -> None:
    # A process that a shell started in the background ignores it, and so would its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _wait_for(path: Path) -> None:
    until = time.monotonic() + 60
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.01)
