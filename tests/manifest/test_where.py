from __future__ import annotations

import pytest

from mmprep.errors import UsageError
from mmprep.manifest import where
from mmprep.manifest.model import Record, shard_ref

RECORD = Record(
    id="P01/000003",
    session="P01",
    subject="P01",
    split="train",
    begin_s=3.0,
    duration_s=1.5,
    label="fear",
    labels={"arousal": 5, "clip": "07", "odd name": "x"},
    streams={"eeg": shard_ref("eeg/0", (0, 1), rate_hz=128.0)},
    valid={"eeg": 0.95},
    bound_s={"eeg": None},
    extra={"age": 21, "device": {"model": "E4"}},
)


@pytest.mark.parametrize(
    "text",
    [
        "label == 'fear'",
        "label != 'joy' and valid.eeg > 0.9",
        "duration_s >= 1.5 and begin_s < 4",
        "subject in ['P01', 'P02']",
        "subject not in ('P03', 'P04')",
        "not (label == 'joy' or arousal < 5)",
        "labels.arousal == 5 and age == 21",
        "clip == '07' and clip != 7",
        "streams.eeg and not streams.gsr",
        "bound_s.eeg == null and fold == null",
        "2 < begin_s <= 3",
        "labels['odd name'] == 'x'",
        "device.model == 'E4'",
        "begin_s > -1",
        "true",
    ],
)
def test_condition_that_holds(text):
    assert where.parse(text).holds(RECORD)


@pytest.mark.parametrize(
    "text",
    [
        "label == 'joy'",
        "bound_s.eeg < 1",
        "bound_s.eeg >= 0",
        "arousal == true",
        "streams.gsr",
        "subject in []",
        "not true",
    ],
)
def test_condition_that_does_not_hold(text):
    assert not where.parse(text).holds(RECORD)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("label = 'fear'", "can't be read from character"),
        ("label ==", "can't be read"),
        ("", "can't be read"),
        ("__import__('os').system('x')", "is no part of the grammar"),
        ("(lambda: 1)()", "is no part of the grammar"),
        ("label.upper() == 'FEAR'", "is no part of the grammar"),
        ("arousal + 1 == 6", "is no part of the grammar"),
        ("[x for x in label]", "is no part of the grammar"),
        ("f'{label}'", "is no part of the grammar"),
        ("label is null", "`is` is not known"),
        ("label < 3", "'fear' and 3 have no order"),
        ("label in 'fear'", "`in` needs a list"),
        ("x" * 20_000, "20000 characters"),
    ],
)
def test_what_is_no_condition_is_refused(text, message):
    with pytest.raises(UsageError, match=message):
        where.parse(text).holds(RECORD)


def test_field_that_no_record_has_is_refused():
    with pytest.raises(UsageError, match="no record has 'arousl'"):
        where.parse("arousl > 3").chosen([RECORD])


def test_deep_nesting_is_refused_and_not_a_crash():
    with pytest.raises(UsageError):
        where.parse("not " * 2400 + "true").holds(RECORD)
