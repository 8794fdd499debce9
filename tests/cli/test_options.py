"""Options that all commands share."""

from __future__ import annotations

import json

import pytest

from mmprep.cli import api
from tests import raw
from tests.kill import tree

SERIAL = ("--engine", "serial")


@pytest.fixture
def folder(tmp_path):
    raw.table(tmp_path / "in/eeg.tsv")
    return tmp_path


@pytest.fixture
def given(monkeypatch):
    """See what a command hands on instead of running it."""
    seen = {}

    def keep(name, options, progress=None):
        seen.update(options)
        raise SystemExit(0)

    monkeypatch.setattr(api, "run_step", keep)
    return seen


def _options(given, mmprep, *arguments):
    with pytest.raises(SystemExit):
        mmprep(*arguments)
    return given


# --config


def test_config_fills_options_and_arguments(mmprep, folder):
    config = folder / "c.toml"
    config.write_text(
        f'inputs = ["{folder}/in"]\noutput = "{folder}/out"\nengine = "serial"\njson = true\n'
    )
    done = mmprep("convert", "--config", config)
    assert done.code == 0
    assert done.json["dataset"] == f"{folder}/out/dataset.json"


def test_config_gives_way_to_the_command_line(mmprep, folder, given):
    (folder / "c.toml").write_text("shard-size = '1MiB'\njobs = 7\n")
    arguments = ("convert", "in", "-o", "out", "--config", folder / "c.toml", "-j", "3")
    found = _options(given, mmprep, *arguments)
    assert (found["jobs"], found["shard_size"]) == (3, "1MiB")


def test_config_with_a_table_for_the_command_takes_only_that(mmprep, folder, given):
    (folder / "c.toml").write_text("[convert]\njobs = 7\n[mfcc]\nn-mfcc = 20\n")
    found = _options(given, mmprep, "mfcc", "in", "-o", "out", "--config", folder / "c.toml")
    assert (found["n_mfcc"], found["jobs"]) == (20, None)


def test_config_names_options_as_the_command_line_does(mmprep, folder, given):
    text = 'to = "nemo"\nsplit = "train"\nmax_failures = "3%"\nkeep-going = false\n'
    (folder / "c.toml").write_text(text)
    found = _options(
        given, mmprep, "manifest", "export", "x", "-o", "out", "--config", folder / "c.toml"
    )
    assert (found["to"], found["split"]) == ("nemo", ("train",))
    assert (found["max_failures"], found["keep_going"]) == ("3%", False)


@pytest.mark.parametrize("text", ["bogus = 1\n", "[convert]\nbogus = 1\n"])
def test_config_with_an_unknown_key_is_a_usage_error(mmprep, folder, text):
    (folder / "c.toml").write_text(text)
    done = mmprep("convert", folder / "in", "-o", folder / "out", "--config", folder / "c.toml")
    assert done.code == 2
    assert f"{folder}/c.toml: convert has no option 'bogus'" in done.err
    assert not (folder / "out").exists()


@pytest.mark.parametrize("text", ["jobs = 'many'\n", "jobs = [\n", "engine = 'gpu'\n"])
def test_config_with_a_bad_value_is_a_usage_error(mmprep, folder, text):
    (folder / "c.toml").write_text(text)
    done = mmprep("convert", folder / "in", "-o", folder / "out", "--config", folder / "c.toml")
    assert done.code == 2
    assert "Traceback" not in done.err


def test_config_that_is_missing_is_a_usage_error(mmprep, folder):
    done = mmprep("convert", folder / "in", "-o", folder / "out", "--config", "no.toml")
    assert done.code == 2
    assert "no.toml" in done.err


# Environment


def test_jobs_come_from_the_environment(mmprep, given, monkeypatch):
    monkeypatch.setenv("MMPREP_JOBS", "5")
    assert _options(given, mmprep, "convert", "in", "-o", "out")["jobs"] == 5


def test_jobs_of_the_command_line_come_first(mmprep, given, monkeypatch):
    monkeypatch.setenv("MMPREP_JOBS", "5")
    assert _options(given, mmprep, "convert", "in", "-o", "out", "-j", 2)["jobs"] == 2


@pytest.mark.parametrize("text", ["0", "-1", "x"])
def test_jobs_that_are_no_count_are_a_usage_error(mmprep, monkeypatch, text):
    monkeypatch.setenv("MMPREP_JOBS", text)
    done = mmprep("convert", "in", "-o", "out")
    assert done.code == 2
    assert "MMPREP_JOBS" in done.err


# What is said where


def test_log_file_has_one_json_object_a_line(mmprep, folder):
    log = folder / "logs/run.jsonl"
    mmprep("convert", folder / "in", "-o", folder / "out", *SERIAL, "--log-file", log)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert [event["event"] for event in events][:2] == ["begin", "done"]
    assert events[-1] == {"event": "end", "status": "built"}
    assert any(event["event"] == "note" for event in events)


def test_log_file_is_appended_to_and_says_how_a_run_failed(mmprep, folder):
    log = folder / "run.jsonl"
    for source in ("in", "nowhere"):
        mmprep("convert", folder / source, "-o", folder / "out", *SERIAL, "--log-file", log)
    ends = [line for line in log.read_text().splitlines() if '"end"' in line]
    assert [json.loads(line)["status"] for line in ends] == ["built", "failed"]


def test_log_file_that_cannot_be_written_is_a_usage_error(mmprep, folder):
    log = folder / "in/eeg.tsv/log"
    done = mmprep("convert", folder / "in", "-o", folder / "out", *SERIAL, "--log-file", log)
    assert done.code == 2
    assert f"--log-file {log}" in done.err


def test_quiet_leaves_stderr_empty_and_stdout_unchanged(mmprep, folder):
    done = mmprep("convert", folder / "in", "-o", folder / "out", *SERIAL, "-q")
    assert (done.out, done.err) == (f"{folder}/out/dataset.json\n", "")


def test_quiet_still_shows_errors(mmprep, folder):
    done = mmprep("convert", folder / "nowhere", "-o", folder / "out", *SERIAL, "-q")
    assert done.err.startswith("mmprep: error: ")


def test_json_is_one_object_with_status_record_and_counts(mmprep, folder):
    command = ("convert", folder / "in", "-o", folder / "out", *SERIAL, "--json")
    first, second = mmprep(*command), mmprep(*command)
    assert first.out.count("\n") == 1
    assert (first.json["status"], second.json["status"]) == ("built", "up-to-date")
    assert first.json["totals"]["records"] == 1
    assert first.json["failures"] == []
    assert second.json["reused"] > 0


def test_json_lists_the_failures_that_were_published(mmprep, folder):
    (folder / "in/bad").mkdir()
    (folder / "in/bad/eeg.tsv").write_text("")
    done = mmprep(
        "convert", folder / "in", "-o", folder / "out", *SERIAL, "--json", "--max-failures", "50%"
    )
    assert (done.code, done.json["status"]) == (0, "partial")
    assert [failure["id"] for failure in done.json["failures"]] == ["bad"]
    assert "1 failed items" in done.err


@pytest.mark.parametrize("mode", ["auto", "never"])
def test_no_carriage_return_where_stderr_is_no_terminal(mmprep, folder, mode):
    done = mmprep("convert", folder / "in", "-o", folder / "out", *SERIAL, "--progress", mode)
    assert "\r" not in done.err


def test_progress_always_draws_a_bar(mmprep, folder):
    done = mmprep("convert", folder / "in", "-o", folder / "out", *SERIAL, "--progress", "always")
    assert "\r" in done.err
    assert "\r" not in done.out


# Dry run and depfile


def test_dry_run_writes_nothing_and_says_counts_bytes_and_free(mmprep, folder):
    before = tree(folder)
    done = mmprep(
        "convert", folder / "in", "-o", folder / "out", *SERIAL, "-n", "--depfile", folder / "x.d"
    )
    assert (done.code, done.out) == (0, "")
    said = dict(line.split()[2:] for line in done.err.splitlines())
    assert (said["items"], said["tasks"]) == ("1", "1")
    assert int(said["input_bytes"]) == (folder / "in/eeg.tsv").stat().st_size
    assert int(said["free_bytes"]) > 0
    assert tree(folder) == before
    assert sorted(path.name for path in folder.iterdir()) == ["in"]


def test_dry_run_of_a_finished_output_leaves_its_time(mmprep, folder):
    command = ("convert", folder / "in", "-o", folder / "out", *SERIAL)
    mmprep(*command)
    before = (folder / "out/dataset.json").stat()
    assert mmprep(*command, "-n", "--json").json["status"] == "planned"
    assert (folder / "out/dataset.json").stat() == before


def test_depfile_names_inputs_as_the_caller_did(mmprep, folder, monkeypatch):
    monkeypatch.chdir(folder)
    raw.table(folder / "in/first name/gsr.tsv")
    mmprep("convert", "in", "-o", "out/", *SERIAL, "--depfile", "deps/out.d")
    rule, *empty = (folder / "deps/out.d").read_text().splitlines()
    names = {"in", "in/eeg.tsv", "in/first\\ name", "in/first\\ name/gsr.tsv"}
    assert rule.startswith("out/dataset.json: ")
    assert set(empty) == {f"{name}:" for name in names}
    assert rule.removeprefix("out/dataset.json: ").replace("\\ ", "_").split() == [
        name.removesuffix(":").replace("\\ ", "_") for name in empty
    ]


@pytest.mark.parametrize("form", ["../in", "{}/in", "../other/../in"])
def test_depfile_keeps_the_form_of_the_argument(mmprep, folder, monkeypatch, form):
    (folder / "other").mkdir()
    monkeypatch.chdir(folder / "other")
    argument = form.format(folder)
    mmprep("convert", argument, "-o", "out", *SERIAL, "--depfile", "out.d")
    lines = (folder / "other/out.d").read_text().splitlines()
    assert f"{argument}/eeg.tsv:" in lines


def test_depfile_names_the_data_set_that_a_stream_was_taken_of(mmprep, folder, monkeypatch):
    mmprep("convert", folder / "in", "-o", folder / "made", *SERIAL)
    (folder / "work").mkdir()
    monkeypatch.chdir(folder / "work")
    done = mmprep("align", "../made#eeg", "-o", "out", *SERIAL, "--depfile", "out.d")
    assert done.code == 0, done.err
    rule = "out/dataset.json: ../made/dataset.json\n../made/dataset.json:\n"
    assert (folder / "work/out.d").read_text() == rule


def test_depfile_that_says_the_same_is_not_touched(mmprep, folder):
    command = ("convert", folder / "in", "-o", folder / "out", *SERIAL, "--depfile", folder / "d")
    mmprep(*command)
    before = (folder / "d").stat()
    mmprep(*command)
    after = (folder / "d").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_lock_wait_gives_up_with_75(mmprep, folder):
    from mmprep import files

    with files.locked(folder / "out.incomplete"):
        done = mmprep("convert", folder / "in", "-o", folder / "out", *SERIAL)
    assert done.code == 75
    assert "another mmprep run is writing here" in done.err
    assert "--lock-wait" in done.err
