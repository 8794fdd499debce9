"""Clocks that pass midnight, hours that a zone has twice or not at all."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mmprep.tables.passage import Midnights, RepeatedHours, passage_of
from mmprep.tables.stamps import parse_ns, stamp_reader

ROME = "Europe/Rome"


def utc(*texts):
    return [parse_ns(f"{text}Z", "iso") for text in texts]


def read(texts, passage, *, n_blocks=1, unit="iso", tz=ROME):
    stamps, valid = stamp_reader(unit, texts, tz=tz).read(pa.array(texts))
    assert valid.all()
    blocks = np.array_split(stamps, n_blocks)
    return np.concatenate([passage.straight(block) for block in blocks]).tolist()


@pytest.mark.parametrize("n_blocks", [1, 2, 3, 6])
def test_hour_that_comes_twice_is_told_by_the_fall_of_the_time(n_blocks):
    clock = ["01:30", "02:00", "02:45", "02:00", "02:45", "03:00"]
    passage = RepeatedHours(ROME)
    found = read([f"2023-10-29 {at}:00" for at in clock], passage, n_blocks=n_blocks)
    right = ["28 23:30", "29 00:00", "29 00:45", "29 01:00", "29 01:45", "29 02:00"]
    assert found == utc(*(f"2023-10-{at}:00" for at in right))
    (note,) = passage.notes()
    assert note.startswith("4 rows from 2023-10-29 02:00:00 on lie in an hour that Europe/Rome has")
    assert "2 taken for its second passage, as the time falls back, 2 for its first" in note


def test_hour_that_comes_twice_is_of_the_first_passage_where_the_time_does_not_fall():
    passage = RepeatedHours(ROME)
    found = read(["2023-10-29 02:10:00", "2023-10-29 02:50:00"], passage)
    assert found == utc("2023-10-29 00:10:00", "2023-10-29 00:50:00")
    assert "all taken for its first" in next(passage.notes())


def test_steps_back_of_less_than_a_minute_are_jitter():
    texts = ["2023-10-29 02:10:00", "2023-10-29 02:09:30"]
    assert read(texts, RepeatedHours(ROME)) == utc("2023-10-29 00:10:00", "2023-10-29 00:09:30")


def test_jitter_around_the_end_of_the_hour_keeps_the_passage():
    clock = ["02:59:00", "02:00:00", "03:00:01", "02:59:59"]
    found = read([f"2023-10-29 {at}" for at in clock], RepeatedHours(ROME))
    right = ["00:59:00", "01:00:00", "02:00:01", "01:59:59"]
    assert found == utc(*(f"2023-10-29 {at}" for at in right))


def test_another_night_of_the_same_file_begins_with_the_first_passage():
    nights = ["2023-10-29 02:59:00", "2023-10-29 02:00:00", "2022-10-30 01:00:00"]
    found = read([*nights, "2022-10-30 02:00:00"], RepeatedHours(ROME))
    assert found[-1:] == utc("2022-10-30 00:00:00")


def test_stamps_far_from_a_clock_change_stay_and_nothing_is_said():
    passage = RepeatedHours(ROME)
    assert read(["2023-06-29 02:00:00"], passage) == utc("2023-06-29 00:00:00")
    assert not list(passage.notes())


def test_hour_that_a_zone_skips_is_no_time():
    texts = ["2023-03-26 01:59:59", "2023-03-26 02:30:00", "2023-03-26 03:00:00"]
    reader = stamp_reader("iso", texts, tz=ROME)
    for cells in (pa.array(texts), pa.array(texts).cast(reader.type)):
        stamps, valid = reader.read(cells)
        assert valid.tolist() == [True, False, True]
        assert stamps[valid].tolist() == utc("2023-03-26 00:59:59", "2023-03-26 01:00:00")
    assert reader.fault(texts[1]) == "a local time that clocks in Europe/Rome skip"


@pytest.mark.parametrize("n_blocks", [1, 2, 5])
def test_time_of_day_goes_on_over_midnight(n_blocks):
    clock = ["22:00:00", "23:59:59", "00:00:01", "23:59:58", "00:00:02", "23:00:00", "01:00:00"]
    passage = Midnights()
    found = read(clock, passage, unit="clock", n_blocks=n_blocks)
    hours = [0, 7199, 7201, 7198, 7202, 25 * 3600, 27 * 3600]
    assert [(stamp - found[0]) // 10**9 for stamp in found] == hours
    assert list(passage.notes()) == [
        "the time of day passes midnight 2 times; the rows after it are of the next day"
    ]


def test_clock_that_was_set_back_by_hours_does_not_pass_midnight():
    passage = Midnights()
    found = read(["12:00:00", "02:00:00"], passage, unit="clock")
    assert found[1] - found[0] == -10 * 3600 * 10**9
    assert not list(passage.notes())


def test_stamps_with_a_zone_and_numbers_have_no_passages():
    for unit, text in (("iso", "2023-10-29T02:30:00+01:00"), ("s", "1")):
        passage = passage_of(stamp_reader(unit, [text], tz=ROME))
        assert not isinstance(passage, Midnights | RepeatedHours)
