"""What the user sees."""

from __future__ import annotations

import pytest

from mmprep.cli import output
from mmprep.steps.base import FailedItemsError
from mmprep.steps.running.tasks import Failure


def _failure(name, message, hint=None):
    return Failure(name, name, "read", "DataError", message, hint=hint)


@pytest.mark.parametrize(
    ("source", "message", "shown"),
    [
        ("a.tsv", "a.tsv:3: is bad", "a.tsv:3: is bad"),
        ("a.tsv", "/in/a.tsv: is bad", "/in/a.tsv: is bad"),
        ("a.tsv", "is bad", "a.tsv: is bad"),
        ("c", "nothing in common", "c: nothing in common"),
        ("s1", "/log/eeg.ptp.tsv: is bad", "s1: /log/eeg.ptp.tsv: is bad"),
    ],
)
def test_failed_item_is_named_once(capsys, source, message, shown):
    output.print_error(FailedItemsError([_failure(source, message)], 3))
    assert capsys.readouterr().err.splitlines()[0] == f"mmprep: error: {shown}"


def test_many_failed_items_are_counted(capsys):
    failures = [_failure(f"{k}.tsv", "is bad", hint="mend it") for k in range(25)]
    output.print_error(FailedItemsError(failures, 30))
    lines = capsys.readouterr().err.splitlines()
    assert "mmprep: ... and 5 more" in lines
    assert lines[-3:] == [
        "",
        "hint: mend it",
        "hint: mend or --exclude them, or publish without them: --max-failures 25",
    ]


def test_note_is_said_once(capsys):
    console = output.Console("never")
    console.say("a fact")
    console.say("a fact")
    assert capsys.readouterr().err == "mmprep: note: a fact\n"


def test_what_inputs_say_can_neither_steer_a_terminal_nor_fill_it(capsys):
    output.print_line("no time column among \x1b[31mt\r, \x00\x9bv, 值")
    assert capsys.readouterr().err == "no time column among \\x1b[31mt\\x0d, \\x00\\x9bv, 值\n"
    output.print_line("a\n" + "x" * 5_000)
    assert capsys.readouterr().err == "a\n" + "x" * 2_000 + "… (5000 characters)\n"
