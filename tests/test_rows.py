from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmprep.errors import DataError
from mmprep.rows import FileRows, Store, gathered

TABLE = np.arange(60_000.0).reshape(20_000, 3)
PLACES = st.lists(st.integers(0, len(TABLE) - 1), max_size=30)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    with Store(tmp_path_factory.mktemp("rows")) as store:
        found = gathered(np.split(TABLE, [7, 7, 12_000]), store)
        assert isinstance(found, FileRows)
        yield found


@given(begin=st.integers(0, 21_000) | st.none(), end=st.integers(-5, 21_000) | st.none())
def test_slice_of_rows_in_a_file_is_that_of_the_array(rows, begin, end):
    np.testing.assert_array_equal(rows[begin:end], TABLE[begin:end])


@given(places=PLACES)
def test_rows_picked_from_a_file_are_those_of_the_array(rows, places):
    chosen = np.array(places, dtype=np.int64)
    np.testing.assert_array_equal(rows[chosen], TABLE[chosen])


def test_rows_of_a_file_look_like_the_array(rows):
    assert (rows.shape, rows.dtype, len(rows)) == (TABLE.shape, TABLE.dtype, len(TABLE))
    np.testing.assert_array_equal(np.asarray(rows), TABLE)


@pytest.mark.parametrize(("budget", "is_file"), [(len(TABLE) * 24, False), (99_999, True)])
def test_store_keeps_in_memory_what_its_budget_allows(tmp_path, budget, is_file):
    with Store(tmp_path, budget) as store:
        found = gathered(np.split(TABLE, 4), store)
        assert isinstance(found, FileRows) == is_file
        np.testing.assert_array_equal(np.asarray(found), TABLE)


def test_rows_that_went_into_a_file_leave_their_room_to_others(tmp_path):
    with Store(tmp_path, 150_000) as store:
        assert isinstance(gathered(np.split(TABLE, 5), store), FileRows)
        assert isinstance(gathered([TABLE[:5000]], store), np.ndarray)


@pytest.mark.parametrize("shape", [(0, 3), (5, 0)])
def test_rows_without_readings_keep_their_shape(tmp_path, shape):
    with Store(tmp_path) as store:
        kept, filed = gathered([np.zeros(shape)] * 2, store), FileRows(store.file(), float, shape)
        assert np.asarray(kept).shape == (2 * shape[0], shape[1])
        assert filed[:].shape == shape


def test_store_leaves_no_file_behind(tmp_path):
    with Store(tmp_path) as store:
        gathered([TABLE], store)
        assert not list(tmp_path.iterdir())


def test_file_of_rows_that_was_cut_is_an_error(tmp_path):
    path = tmp_path / "rows"
    TABLE[:10].tofile(path)
    with Store(tmp_path) as store:
        found = store.open(path, np.float64, (11, 3))
        np.testing.assert_array_equal(found[8:10], TABLE[8:10])
        with pytest.raises(DataError, match="has become shorter"):
            found[8:11]
