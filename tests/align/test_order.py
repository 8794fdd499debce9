from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmprep.align.order import DAY_NS, UNREADABLE, in_order
from mmprep.timebase import period_of

P = 4_000_000


def even(n, period=P):
    return np.arange(n, dtype=np.int64) * period


def test_order_of_steady_stamps_is_as_they_stand():
    placed = in_order(even(100), period_ns=P)
    assert placed.rows.tolist() == list(range(100))
    assert (placed.n_corrupt, placed.n_duplicate, placed.n_shifted, placed.n_late) == (0, 0, 0, 0)


@pytest.mark.parametrize("jump_s", [200_000, -200_000, 3, -3])
def test_order_shifts_a_jumped_block_back(jump_s):
    stamps = even(1000)
    stamps[300:364] += jump_s * 10**9
    placed = in_order(stamps, period_ns=P)
    assert placed.stamps_ns.tolist() == even(1000).tolist()
    assert placed.n_shifted == 64


def test_order_shifts_a_single_wild_stamp_back():
    stamps = even(1000)
    stamps[500] = 7
    assert in_order(stamps, period_ns=P).stamps_ns.tolist() == even(1000).tolist()


def test_order_shifts_several_blocks_back():
    stamps = even(2000)
    for at in (100, 700, 1500):
        stamps[at : at + 50] += 5 * 10**14
    assert in_order(stamps, period_ns=P).stamps_ns.tolist() == even(2000).tolist()


def test_order_rejects_a_jumped_block_that_has_no_room():
    stamps = np.delete(even(1000), slice(330, 360))
    stamps[300:330] += 2 * 10**14
    placed = in_order(stamps, period_ns=P)
    assert placed.n_corrupt == 30
    assert placed.stamps_ns.max() == even(1000).max()


def test_order_rejects_a_last_block_days_away():
    stamps = even(1000)
    stamps[950:] += 2 * DAY_NS
    placed = in_order(stamps, period_ns=P)
    assert placed.n_corrupt == 50
    assert placed.rows.tolist() == list(range(950))


def test_order_rejects_a_first_block_of_an_unset_clock():
    stamps = even(1000)
    stamps[30:] += 20_000 * DAY_NS
    placed = in_order(stamps, period_ns=P)
    assert placed.rows.tolist() == list(range(30, 1000))


def parts_apart(*n_rows, pause_ns):
    stamps = even(sum(n_rows))
    for row in np.cumsum(n_rows)[:-1]:
        stamps[row:] += pause_ns
    return stamps


@pytest.mark.parametrize("n_rows", [(20_000, 30_000), (90_000, 16_000), (16_000, 20_000, 16_000)])
def test_order_keeps_recordings_on_both_sides_of_days(n_rows):
    stamps = parts_apart(*n_rows, pause_ns=3 * DAY_NS)
    placed = in_order(stamps, period_ns=P)
    assert (placed.n_corrupt, placed.n_far) == (0, 0)
    assert placed.stamps_ns.tolist() == stamps.tolist()


@pytest.mark.parametrize(
    ("n_rows", "days", "n_far"),
    [
        ((20_000, 30_000), 32, 20_000),  # a clock that was set
        ((14_000, 30_000), 3, 14_000),  # less than a minute
        ((400_000, 16_000), 3, 16_000),  # a little of the rows
    ],
)
def test_order_counts_what_lies_days_away_and_is_no_recording(n_rows, days, n_far):
    placed = in_order(parts_apart(*n_rows, pause_ns=days * DAY_NS), period_ns=P)
    assert (placed.n_corrupt, placed.n_far) == (n_far, n_far)


def test_order_keeps_an_hour_of_silence():
    stamps = even(1000)
    stamps[500:] += 3600 * 10**9
    assert in_order(stamps, period_ns=P).n_corrupt == 0


def test_order_sorts_late_rows_in():
    stamps = even(100)
    order = np.r_[0:40, 44:48, 40:44, 48:100]
    placed = in_order(stamps[order], period_ns=P)
    assert placed.stamps_ns.tolist() == stamps.tolist()
    assert order[placed.rows].tolist() == list(range(100))
    assert placed.n_late == 4


def test_order_sorts_no_row_in_between_two_samples_in_a_row():
    jitter = np.random.default_rng(0).normal(0, 0.04 * P, 600)
    stamps = even(600) + np.rint(jitter).astype(np.int64)
    stamps[500:] -= round(300.5 * P)
    placed = in_order(stamps, period_ns=P)
    assert placed.rows.tolist() == list(range(500))
    assert (placed.n_late, placed.n_corrupt) == (0, 100)


def test_order_sorts_no_row_of_a_clock_set_back_into_a_hole():
    kept = np.delete(np.arange(600), [150, 151, 260])
    stamps = even(600)
    stamps[500:] -= round(380.4 * P)
    placed = in_order(stamps[kept], period_ns=P)
    assert kept[placed.rows].tolist() == kept[kept < 500].tolist()


def test_order_drops_rows_sent_again():
    stamps = np.concatenate([even(50), even(50)[45:], even(100)[50:]])
    placed = in_order(stamps, period_ns=P)
    assert placed.stamps_ns.tolist() == even(100).tolist()
    assert placed.n_duplicate == 5


def test_order_keeps_the_first_of_doubled_rows():
    stamps = np.sort(np.concatenate([even(100), even(100)[[10, 50, 51]]]))
    placed = in_order(stamps, period_ns=P)
    assert placed.n_duplicate == 3
    assert placed.rows.tolist() == [i for i in range(103) if i not in (11, 52, 54)]


def test_order_keeps_all_rows_of_packets():
    stamps = np.repeat(even(20, 12 * P), 12)
    placed = in_order(stamps, period_ns=P)
    assert placed.in_packets
    assert placed.rows.size == 240


def test_order_keeps_row_order_where_stamps_scatter():
    rng = np.random.default_rng(0)
    stamps = even(2000) + np.rint(rng.normal(0, P / 2, 2000)).astype(np.int64)
    assert in_order(stamps, period_ns=P).rows.tolist() == list(range(2000))


def test_order_counts_unreadable_rows():
    stamps = even(100)
    stamps[3] = UNREADABLE
    placed = in_order(stamps, period_ns=P, unreadable=np.arange(100) == 7)
    assert placed.n_corrupt == 2
    assert not {3, 7} & set(placed.rows.tolist())


@pytest.mark.parametrize("size", [0, 1, 2])
def test_order_takes_tiny_streams(size):
    assert in_order(even(size), period_ns=P).rows.size == size


@given(st.lists(st.integers(-(10**18), 10**18), max_size=40), st.sampled_from([float("nan"), 1e6]))
def test_order_of_anything_adds_up_and_rises(stamps, period):
    stamps = np.array(stamps, dtype=np.int64)
    placed = in_order(stamps, period_ns=period)
    assert placed.rows.size + placed.n_corrupt + placed.n_duplicate == stamps.size
    assert len(set(placed.rows.tolist())) == placed.rows.size


def test_period_of_rounded_stamps_is_unbiased():
    stamps = np.rint(np.arange(5000) * 7.8125).astype(np.int64) * 1_000_000
    assert period_of(stamps) == pytest.approx(7_812_500, rel=1e-5)


def test_period_of_packets_is_that_of_samples():
    assert period_of(np.repeat(even(100, 12 * P), 12)) == pytest.approx(P, rel=0.15)


def milliseconds(rate_hz, n=8000, jitter_ms=0.0):
    jitter = np.random.default_rng(1).normal(0, jitter_ms, n)
    return np.rint(np.arange(n) * 1000 / rate_hz + jitter).astype(np.int64) * 10**6


@pytest.mark.parametrize("jitter_ms", [0.0, 0.2])
@pytest.mark.parametrize("rate_hz", [900, 1000, 1024, 1500, 2000])
def test_equal_stamps_of_rounded_ones_are_samples(rate_hz, jitter_ms):
    stamps = milliseconds(rate_hz, jitter_ms=jitter_ms)
    assert in_order(stamps, period_ns=1e9 / rate_hz).n_duplicate == 0


def test_rows_that_come_twice_are_repeats_among_rounded_stamps():
    stamps = np.sort(np.append(milliseconds(500), milliseconds(500)[[100, 2000, 2001, 7000]]))
    placed = in_order(stamps, period_ns=2e6)
    assert placed.n_duplicate == 4


def test_equal_stamps_of_rounded_ones_are_samples_where_none_follows_early():
    stamps = milliseconds(512)
    stamps[300] = stamps[299]
    assert in_order(stamps, period_ns=1e9 / 512).n_duplicate == 0


def test_repeats_beside_a_block_that_is_off_do_not_take_its_room():
    stamps = np.insert(even(400), 244, even(400)[244:246])
    stamps[248:250] += 2 * DAY_NS
    placed = in_order(stamps, period_ns=P)
    assert (placed.n_duplicate, placed.n_shifted, placed.n_corrupt) == (2, 2, 0)
    assert placed.stamps_ns.tolist() == even(400).tolist()


@pytest.mark.parametrize("seed", range(3))
def test_equal_stamps_of_scattered_ones_are_repeats_only_where_a_row_is_too_many(seed):
    period = 7_812_500
    jitter = np.random.default_rng(seed).normal(0, 1.5e6, 60_000)
    stamps = even(60_000, period) + np.rint(jitter).astype(np.int64)
    stamps = stamps // 100_000 * 100_000
    twice = np.array([1000, 20_000, 50_000])
    assert np.any(np.diff(stamps) == 0)
    placed = in_order(np.insert(stamps, twice, stamps[twice]), period_ns=period)
    assert placed.n_duplicate == twice.size
    assert np.array_equal(placed.stamps_ns, stamps)


@pytest.mark.parametrize("every", [10, 50])
@pytest.mark.parametrize("rate_hz", [4, 50, 128, 250])
def test_rows_that_come_twice_evenly_are_repeats(rate_hz, every):
    stamps = even(3000, 10**9 // rate_hz)
    placed = in_order(np.sort(np.append(stamps, stamps[::every])), period_ns=1e9 / rate_hz)
    assert placed.n_duplicate == 3000 // every
    assert placed.stamps_ns.tolist() == stamps.tolist()


@pytest.mark.parametrize("rate_hz", [4, 50, 128, 250])
def test_rows_that_come_twice_evenly_do_not_change_the_period(rate_hz):
    stamps = even(3000, 10**9 // rate_hz)
    twice = np.sort(np.append(stamps, stamps[::50]))
    assert period_of(twice) == pytest.approx(1e9 / rate_hz, rel=1e-9)
