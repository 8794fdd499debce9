"""Stamps are exact to the nanosecond."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmprep.errors import DataError, UsageError
from mmprep.tables.stamps import (
    DECIMALS,
    RateMeter,
    check_unit,
    find_time,
    has_zone,
    judge,
    name_parts,
    parse_ns,
    row_stamps,
    stamp_reader,
)

quick = settings(deadline=None, max_examples=60)
UNITS = st.sampled_from(sorted(DECIMALS))


def exact_ns(text: str, unit: str) -> int:
    """Do it in rational numbers, halves to even: the oracle."""
    return round(Fraction(Decimal(text)) * 10 ** DECIMALS[unit])


@quick
@given(st.decimals(-(10**9), 10**9, places=12), UNITS)
def test_parse_of_decimal_text_is_exact(value, unit):
    assert parse_ns(str(value), unit) == exact_ns(str(value), unit)


@quick
@given(st.lists(st.decimals(0, 2 * 10**9, places=9), min_size=1), UNITS, st.booleans())
def test_reader_agrees_with_the_slow_way(values, unit, as_text):
    texts = [f"{value:f}" for value in values]
    reader = stamp_reader(unit, texts)
    cells = pa.array(texts)
    stamps, valid = reader.read(cells if as_text else cells.cast(reader.type))
    assert valid.all()
    assert stamps.tolist() == [exact_ns(text, unit) for text in texts]


@pytest.mark.parametrize(
    ("text", "unit", "ns"),
    [
        ("1480000000.007812", "s", 1_480_000_000_007_812_000),
        ("1.595933810034E12", "ms", 1_595_933_810_034_000_000),
        ("1556559573141592653", "ns", 1_556_559_573_141_592_653),
        ("-1.2", "s", -1_200_000_000),
        ("0.0000000005", "s", 0),
        ("0.0000000015", "s", 2),
        ("2024-03-31T00:59:50Z", "iso", 1_711_846_790_000_000_000),
        ("2021-04-05 15:48:04.834", "iso", 1_617_637_684_834_000_000),
        ("2021-04-05T15:48:04,834+02:00", "iso", 1_617_630_484_834_000_000),
        ("00:00:00,250", "clock", 250_000_000),
        ("10:00", "clock", 36_000_000_000_000),
    ],
)
def test_parse_of_known_stamps(text, unit, ns):
    assert parse_ns(text, unit) == ns


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("abc", "s"),
        ("inf", "s"),
        ("nan", "s"),
        ("1e999999999", "s"),
        ("99999999999", "s"),
        ("2021-02-30", "iso"),
        ("2021-01-01 25:00", "iso"),
        ("12:60", "clock"),
        ("", "s"),
    ],
)
def test_parse_of_what_is_no_stamp_is_none(text, unit):
    assert parse_ns(text, unit) is None


@quick
@given(st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)), st.integers(-23, 23))
def test_parse_of_iso_times_agrees_with_datetime(moment, hours):
    zoned = moment.replace(tzinfo=timezone(timedelta(hours=hours)))
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    expected = (zoned - epoch) // timedelta(microseconds=1) * 1000
    assert parse_ns(zoned.isoformat(), "iso") == expected


def test_reader_keeps_missing_stamps_missing():
    reader = stamp_reader("ns", ["1"])
    stamps, valid = reader.read(pa.array(["1556559573141592653", None]).cast(reader.type))
    assert valid.tolist() == [True, False]
    assert stamps[0] == 1_556_559_573_141_592_653


def test_reader_marks_stamps_beyond_int64():
    reader = stamp_reader("s", ["1"])
    _, valid = reader.read(pa.array(["9999999999", "1"]).cast(reader.type))
    assert valid.tolist() == [False, True]


def test_reader_moves_local_times_to_utc_over_a_clock_change():
    texts = ["2024-03-31 01:59:59", "2024-03-31 03:00:00"]
    reader = stamp_reader("iso", texts, tz="Europe/Berlin")
    for cells in (pa.array(texts), pa.array(texts).cast(reader.type)):
        stamps, _ = reader.read(cells)
        assert np.diff(stamps).tolist() == [1_000_000_000]
        assert stamps[0] == parse_ns("2024-03-31T00:59:59Z", "iso")


def test_reader_does_not_mix_local_times_with_zoned_ones():
    texts = ["2024-03-31 01:00:00", "2024-03-31 01:00:00Z"]
    _, valid = stamp_reader("iso", texts).read(pa.array(texts))
    assert valid.tolist() == [True, False]


def test_reader_refuses_a_zone_that_does_not_exist():
    reader = stamp_reader("iso", ["2024-03-31 01:00:00"], tz="Mars/Olympus")
    with pytest.raises(UsageError, match="no time zone 'Mars/Olympus'"):
        reader.read(pa.array(["2024-03-31 01:00:00"]).cast(reader.type))


@quick
@given(
    st.integers(0, 2 * 10**18),
    st.fractions(Fraction(1, 1000), 100_000, max_denominator=2000),
    st.lists(st.integers(0, 10**10), min_size=1, max_size=20).map(sorted),
)
def test_row_stamps_are_exact(start_ns, rate_hz, rows):
    expected = [start_ns + int(Fraction(row) / rate_hz * 10**9 + Fraction(1, 2)) for row in rows]
    known = [value for value in expected if value < 1 << 63]
    rows = rows[: len(known)]
    assert row_stamps(start_ns, rate_hz, np.array(rows, np.int64)).tolist() == known


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("t_ms", ("t", "ms")),
        ("Time [s]", ("time", "s")),
        ("Timestamp (mSecs)", ("timestamp", "ms")),
        ("unix_s", ("unix", "s")),
        ("ts_ns", ("ts", "ns")),
        ("seconds", ("", "s")),
        ("timestamps", ("timestamps", None)),
        ("t", ("t", None)),
    ],
)
def test_name_of_a_time_column_tells_its_unit(name, parts):
    assert name_parts(name) == parts


@pytest.mark.parametrize(
    ("names", "index"),
    [
        (["a", "Timestamp", "time"], 1),
        (["response_time", "onset"], 1),
        (["t_device_s", "t_arrival_s"], 0),
        (["Zeit", "x"], 0),
        (["x", "y"], None),
    ],
)
def test_time_column_is_found_by_name(names, index):
    assert find_time(names) == index


@pytest.mark.parametrize(
    ("name", "texts", "unit", "absolute"),
    [
        ("t", ["1480000000.5"], "s", True),
        ("t", ["1480000000500"], "ms", True),
        ("t", ["1480000000500000"], "us", True),
        ("t", ["1556559573141592653"], "ns", True),
        ("t", ["1.595933810034E12"], "ms", True),
        ("t", ["0", "250", "500"], "ms", False),
        ("t", ["0", "7812", "15625"], "us", False),
        ("t", ["0", "1", "2"], "s", False),
        ("t", ["0", "5", "10"], "s", False),
        ("t", ["0", "10", "20"] + [str(10 * k) for k in range(3, 300)], "ms", False),
        ("t", ["0.0", "4.0", "8.0"], "s", False),
        ("t_ms", ["0", "1", "2"], "ms", False),
        ("t", ["2021-04-05T15:48:04Z"], "iso", True),
        ("t", ["2021-04-05 15:48:04"], "iso", False),
        ("t", ["00:00:00,000"], "clock", False),
    ],
)
def test_judgement_of_a_time_column(name, texts, unit, absolute):
    found = judge(name, texts).time
    assert (found.unit, found.absolute) == (unit, absolute)


def test_judgement_by_size_says_so_and_by_name_does_not():
    assert "the size" in str(judge("t", ["1480000000.5"]).note)
    assert judge("t_s", ["1480000000.5"]).note is None


def test_judgement_of_local_times_names_the_option():
    assert "--tz" in str(judge("t", ["2021-04-05 15:48:04"]).note)
    assert judge("t", ["2021-04-05 15:48:04"], tz="Asia/Shanghai").time.absolute


@pytest.mark.parametrize(
    ("rate_hz", "quantum_ns"),
    [(128, 1), (128, 1_000_000), (4, 1), (Fraction(30000, 1001), 1000), (Fraction(1, 5), 1)],
)
def test_rate_of_rounded_stamps_is_the_usual_one(rate_hz, quantum_ns):
    stamps = row_stamps(10**18, Fraction(rate_hz), np.arange(20_000))
    assert RateMeter.measure(stamps // quantum_ns * quantum_ns) == rate_hz


def test_rate_is_measured_across_a_gap():
    stamps = row_stamps(0, Fraction(128), np.arange(1000))
    stamps[500:] += 10**12
    assert RateMeter.measure(stamps) == 128


def test_rate_of_irregular_stamps_is_none():
    steps = np.random.default_rng(0).exponential(1e9, 1000).astype(np.int64)
    assert RateMeter.measure(np.cumsum(steps)) is None
    assert RateMeter.measure(np.zeros(5, np.int64)) is None
    assert RateMeter.measure(np.zeros(1, np.int64)) is None


def bursts(n_bursts):
    """Stamps in ms of packets of 12 rows that come at 256 Hz."""
    late = np.random.default_rng(4).uniform(0, 10, n_bursts)
    return np.rint((np.arange(n_bursts) * 46.875 + late)[:, None] + np.arange(12)).reshape(-1)


def test_rate_of_bursts_is_that_of_the_samples_where_they_last_long_enough():
    stamps = bursts(4000).astype(np.int64) * 10**6
    assert RateMeter.measure(stamps) == 256
    assert RateMeter.measure(stamps[:1200]) is None


@pytest.mark.parametrize(
    ("rate_hz", "is_usual"),
    [("128", True), ("1/5", True), ("30000/1001", True), ("1001/1000", False)],
)
def test_usual_rates_are_those_that_devices_are_made_for(rate_hz, is_usual):
    assert RateMeter.is_usual(Fraction(rate_hz)) is is_usual


def test_unknown_time_unit_is_refused():
    with pytest.raises(DataError, match="no time unit 'min'"):
        check_unit("min")


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("1_000", "s"),
        ("١٢", "s"),
        ("１", "ms"),
        ("1 2", "s"),
        ("٢٠٢٠-01-01", "iso"),
        ("1٢:00:00", "clock"),
        ("Infinity", "s"),
        ("1e", "s"),
        (".", "s"),
    ],
)
def test_what_only_python_takes_for_a_number_is_no_stamp(text, unit):
    assert parse_ns(text, unit) is None


@pytest.mark.parametrize(
    "text",
    [
        "2020/01/02 10:00:00.5",
        "2020.01.02 10:00:00.5",
        "2020-01-02 10:00:00.5",
        "2020/01/02T10:00:00.5",
    ],
)
@pytest.mark.parametrize("zone", ["", "Z", " UTC", " GMT", "+00:00"])
def test_dates_with_the_year_first_are_times(text, zone):
    assert parse_ns(text + zone, "iso") == 1_577_959_200_500_000_000
    assert has_zone(text + zone) == bool(zone)


@pytest.mark.parametrize("text", ["2020/01-02 10:00", "01/02/2020 10:00", "2020.01", "2020/13/01"])
def test_other_dates_are_none(text):
    assert parse_ns(text, "iso") is None
