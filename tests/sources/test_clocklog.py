"""Clock logs: what they are recognised by, exact times, units, located errors."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from mmprep import clock
from mmprep.errors import ClockError, DataError, UsageError
from mmprep.sources import clocklog
from mmprep.timebase import Exchanges, Fixes, FrameLog, HostFixes
from tests import synth


@pytest.fixture
def log(tmp_path):
    def write(text):
        path = tmp_path / "x.ptp.tsv"
        path.write_bytes(text.encode())
        return path

    return write


EXCHANGE = Exchanges(
    *np.array([[1700000000123456789], [2500000], [2600000], [1700000000123999999]])
)


def _seconds(value_ns):
    return f"{value_ns // 10**9}.{value_ns % 10**9:09d}"


def _written(exchanges, delimiter="\t", form=_seconds):
    rows = zip(exchanges.t1_ns, exchanges.t2_ns, exchanges.t3_ns, exchanges.t4_ns, strict=True)
    lines = [delimiter.join(form(int(value)) for value in row) for row in rows]
    return "\n".join([delimiter.join(("t1", "t2", "t3", "t4")), *lines, ""])


def _equal(a, b):
    return type(a) is type(b) and all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for name in (field.name for field in fields(a))
    )


@pytest.mark.parametrize("delimiter", ["\t", ",", ";", " ", "   "])
def test_read_exchanges_of_any_delimiter_gives_exact_nanoseconds(log, delimiter):
    assert _equal(clocklog.read(log(_written(EXCHANGE, delimiter))), EXCHANGE)


def test_read_other_line_ends_mark_comments_and_columns_gives_the_same(log):
    text = (
        "\ufeff# taken by hand\r\n#seq,T4,t3,t2,t1\r\n\r\n"
        "0,1700000000.123999999,0.0026,0.0025,1700000000.123456789\r\n# end\r\n"
    )
    assert _equal(clocklog.read(log(text)), EXCHANGE)


def test_read_exponents_and_more_digits_than_nanoseconds_rounds_to_even(log):
    read = clocklog.read(log("device reference\n1.5e-9 0.0000000025\n1.0000000006 1\n"))
    assert read.device_ns.tolist() == [2, 1_000_000_001]
    assert read.reference_ns.tolist() == [2, 1_000_000_000]


def test_read_negative_times(log):
    assert clocklog.read(log("device,reference\n-0.25,-1.5\n1,2\n")).device_ns[0] == -250_000_000


@pytest.mark.parametrize("power", [3, 0])
@pytest.mark.parametrize("interval_s", [1.0, 10.0, 0.0625])
@pytest.mark.parametrize("epoch_ns", [0, -synth.MASTER_NS, 3_000_000_000])
def test_read_integer_times_judges_the_unit(log, power, interval_s, epoch_ns):
    truth = synth.exchanges(
        synth.Clock(epoch_ns=epoch_ns), duration_s=20, interval_s=interval_s, resolution_ns=1000
    )
    text = _written(truth, form=lambda value: str(value // 10**power))
    assert _equal(clocklog.read(log(text)), truth)


def test_read_relative_integer_microseconds_on_both_sides_judges_the_unit(log):
    truth = synth.exchanges(
        synth.Clock(epoch_ns=-synth.MASTER_NS), duration_s=20, resolution_ns=1000
    )
    columns = (truth.t1_ns - synth.MASTER_NS, truth.t2_ns, truth.t3_ns)
    truth = Exchanges(*(c // 1000 * 1000 for c in (*columns, truth.t4_ns - synth.MASTER_NS)))
    assert _equal(clocklog.read(log(_written(truth, form=lambda value: str(value // 1000)))), truth)


def test_read_sides_of_different_units_makes_both_nanoseconds(log):
    read = clocklog.read(log("device\treference\n250\t1700000000.5\n1250\t1700000001.5\n"))
    assert read.device_ns.tolist() == [250_000_000, 1_250_000_000]


def test_read_whole_unix_seconds_a_minute_apart_is_seconds(log):
    read = clocklog.read(log("device reference\n1700000000 1700000003\n1700000060 1700000063\n"))
    assert read.reference_ns.tolist() == [1700000003 * 10**9, 1700000063 * 10**9]


@pytest.mark.parametrize("header", ["device_us,reference_us", "device[us],reference (us)"])
def test_read_unit_in_the_header_wins_over_size(log, header):
    read = clocklog.read(log(f"{header}\n1700000000,5\n1700000060,65\n"))
    assert read.device_ns.tolist() == [1700000000_000, 1700000060_000]


def test_read_given_unit_wins_over_the_header(log):
    read = clocklog.read(log("device_us,reference_us\n1,2\n3,4\n"), unit="ms")
    assert read.reference_ns.tolist() == [2_000_000, 4_000_000]


def test_read_unknown_unit_is_refused(log):
    with pytest.raises(UsageError, match="unit 'h'"):
        clocklog.read(log("device reference\n1 2\n"), unit="h")


def test_read_fixes_gives_fixes(log):
    assert _equal(
        clocklog.read(log("device reference\n1.5 2.5\n2.5 3.5\n")),
        Fixes(np.array([1_500_000_000, 2_500_000_000]), np.array([2_500_000_000, 3_500_000_000])),
    )


def test_read_frame_log_leaves_frame_numbers_alone(log):
    read = clocklog.read(log("frame\ttime\n0\t1700000000.000000001\n30\t1700000001.0\n"))
    assert _equal(
        read, FrameLog(np.array([0, 30]), np.array([1700000000000000001, 1700000001000000000]))
    )


PTP4L = """\
ptp4l[1000.000]: selected /dev/ptp0 as PTP clock
ptp4l[1001.250]: master offset        -12 s2 freq    +345 path delay      1234
ptp4l[1002.250]: rms   20 max   34 freq   +300 +/-  12 delay  1230 +/-   3
ptp4l[1003.250]: [ptp4l.0.config] master offset 1000 s0 freq +0 path delay 1200
"""


def test_read_ptp4l_lines_gives_reference_as_device_less_offset(log):
    assert _equal(
        clocklog.read(log(PTP4L)),
        HostFixes(
            np.array([1_001_250_000_000, 1_003_250_000_000]),
            np.array([1_001_250_000_012, 1_003_249_999_000]),
        ),
    )


def test_read_phc2sys_lines_behind_a_syslog_prefix(log):
    text = (
        "Oct  1 10:00:00 box phc2sys: [77.5] CLOCK_REALTIME phc offset -40 s2 freq -1 delay 900\n"
    )
    read = clocklog.read(log(text))
    assert isinstance(read, HostFixes)  # the date has no year and no zone
    assert read.reference_ns.tolist() == [77_500_000_040]


LINES = {  # as the tools print them from version 1.0 to 4.4; all say -40 ns at 77.5 s since boot
    "1.0": "ptp4l[77.500]: master offset        -40 s1 ratio 1.000000000 path delay       1234",
    "1.0 adj": "ptp4l[77.500]: master offset        -40 s2 adj    +345 path delay       1234",
    "1.6": "phc2sys[77.500]: phc offset       -40 s2 freq    +345 delay   1234",
    "1.6 pps": "phc2sys[77.500]: pps offset       -40 s2 freq    +345",
    "4.4": "phc2sys[77.500]: CLOCK_REALTIME phc offset       -40 s2 freq    +345 delay   1234",
    "4.4 sys": "phc2sys[77.500]: eth0 sys offset       -40 s3 freq    +345 delay   1234",
    "4.4 tag": "ptp4l[77.500]: [ptp4l.0.config:6] master offset -40 s2 freq -1 path delay  9",
    "syslog": "Nov 14 22:13:20 box ptp4l: [77.500] master offset    -40 s2 freq -1 path delay  9",
    "journal": "Nov 14 22:13:20 box ptp4l[812]: [77.500] master offset -40 s2 freq -1 path delay 9",
    "journal -m": "Nov 14 22:13:20 box ptp4l[812]: ptp4l[77.500]: master offset -40 s2 freq -1",
}


@pytest.mark.parametrize("version", LINES)
def test_read_lines_of_all_versions(log, version):
    read = clocklog.read(log(LINES[version] + "\n"))
    assert (read.device_ns.tolist(), read.reference_ns.tolist()) == (
        [77_500_000_000],
        [77_500_000_040],
    )


DATES = {
    "short-unix": "1700000000.123456 box",
    "ts": "1700000000.123456",
    "short-iso": "2023-11-14T22:13:20+0000 box",
    "short-iso-precise": "2023-11-14T23:13:20.123456+01:00 box",
    "rfc5424": "2023-11-14T22:13:20.123456Z box",
    "short-full": "Tue 2023-11-14 22:13:20 UTC box",
}


@pytest.mark.parametrize("form", DATES)
def test_read_lines_with_a_date_are_in_unix_time(log, form):
    read = clocklog.read(log(f"{DATES[form]} {LINES['4.4']}\n"))
    part_ns = 123_456_000 if ".123456" in DATES[form] else 0
    assert type(read) is Fixes
    assert read.device_ns.tolist() == [1_700_000_000 * 10**9 + part_ns]
    assert (read.device_ns - read.reference_ns).tolist() == [-40]


def _phc2sys(seconds, offset, state="s2", date=""):
    return (
        f"{date}phc2sys[{seconds:.3f}]: CLOCK_REALTIME phc offset {offset} {state} freq +1 delay 9"
    )


def test_read_whole_seconds_of_dates_are_as_exact_as_the_times_since_boot(log):
    lines = [_phc2sys(k + 0.25, 5, date=f"17000000{k + 10} ") for k in range(20)]
    read = clocklog.read(log("\n".join(lines)))
    assert np.diff(read.device_ns).tolist() == [10**9] * 19


def test_read_step_of_the_servo_is_a_jump_of_unix_time(log):
    lines = [_phc2sys(10, 2_000_000_000, "s0", "1700000010.0 ")]
    lines += [_phc2sys(11, 2_000_000_100, "s1", "1700000011.0 ")]
    lines += [_phc2sys(12, 7, "s2", "1700000010.0 ")]
    read = clocklog.read(log("\n".join(lines)))
    assert np.diff(read.reference_ns).tolist() == [999_999_900, 1_000_000_093]
    assert np.diff(read.device_ns).tolist() == [10**9, -(10**9)]


def test_read_step_of_the_servo_is_none_of_the_time_since_boot(log):
    lines = [_phc2sys(10, 2_000_000_000, "s0"), _phc2sys(11, 2_000_000_100, "s1")]
    read = clocklog.read(log("\n".join([*lines, _phc2sys(12, 7), _phc2sys(13, 8)])))
    assert (read.device_ns - read.reference_ns).tolist() == [
        2_000_000_000,
        2_000_000_100,
        2_000_000_107,
        2_000_000_108,
    ]


def test_read_offsets_of_two_clocks_are_refused(log):
    text = f"{LINES['4.4']}\n{LINES['4.4 sys']}\n"
    with pytest.raises(DataError, match="2 clocks: phc2sys: CLOCK_REALTIME phc, phc2sys: eth0 sys"):
        clocklog.read(log(text))


def test_read_linuxptp_log_without_offsets_is_refused(log):
    with pytest.raises(DataError, match="no line of this linuxptp log holds an offset"):
        clocklog.read(log("ptp4l[1.0]: selected /dev/ptp0 as PTP clock\n"))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "is empty"),
        ("# only a remark\n\n", "is empty"),
        ("time,value\n1,2\n", r"x.ptp.tsv:1: no clock log begins with 'time,value'"),
        ("t1 t2 t3 t4\n1.5 2 3 4\n1.5 2 3\n", r"x.ptp.tsv:3: 3 cells, the header has 4"),
        ("t1,t2,t3,t4\n\n1.5,2,3,\n", r"x.ptp.tsv:3: t4 is '', expected a number"),
        ("device reference\n1 nan\n", r"x.ptp.tsv:2: reference is 'nan'"),
        ("device reference\n1 12:30\n", r"x.ptp.tsv:2: reference is '12:30'"),
        ("device reference\n1e999999 1\n", r"x.ptp.tsv:2: device is '1e999999'"),
        ("device_s reference_s\n99999999999 1\n", r"x.ptp.tsv:2: 99999999999 is no time"),
    ],
)
def test_read_bad_content_is_a_located_error(log, text, what):
    with pytest.raises(DataError, match=what):
        clocklog.read(log(text))


def test_read_header_alone_gives_no_usable_fix(log):
    with pytest.raises(ClockError, match=r"x: 0 usable fixes"):
        clock.fit(clocklog.read(log("t1\tt2\tt3\tt4\n")), where="x")


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("5000 0", "device is 5000"),
        ("123456789012 1700000005", "device is 123456789012"),
        ("0 100", "reference is 100"),
    ],
)
def test_read_single_row_that_does_not_tell_its_unit_is_refused(log, row, what):
    with pytest.raises(DataError, match=f":2: {what}, and one row doesn't tell in which unit"):
        clocklog.read(log(f"device reference\n{row}\n"))


@pytest.mark.parametrize(
    ("text", "device_ns"),
    [
        ("device reference\n0 1700000005000\n", 0),
        ("device reference\n12.5 1700000005\n", 12_500_000_000),
        ("device_ms reference\n5000 1700000005\n", 5_000_000_000),
        ("device reference\n5000 1700000005000\n", 5_000_000_000),
        ("device reference\n5 1700000005\n", 5_000_000_000),
        ("device reference\n1700000000000000 1700000005\n", 1_700_000_000 * 10**9),
    ],
)
def test_read_single_row_whose_units_are_clear(log, text, device_ns):
    read = clocklog.read(log(text))
    assert read.device_ns.tolist() == [device_ns]
    assert read.reference_ns.tolist() == [1_700_000_005 * 10**9]
