"""Columns of clusters."""

import numpy as np
import pytest

from pulsemd.kernels.search.columns import sort_into_columns

WIDTHS = np.array([3.0, 4.0, 5.0])


def cloud(n, seed=0, low=-(2**31), high=2**31):
    return np.random.default_rng(seed).integers(low, high, (n, 3)).astype(np.int32)


def test_columns_hold_every_row_once_and_fill_from_the_front():
    columns, rows = sort_into_columns(cloud(1000), WIDTHS, 7)
    assert sorted(rows[rows >= 0]) == list(range(1000))
    assert ((rows[:, :-1] >= 0) | (rows[:, 1:] < 0)).all()
    assert columns.cluster_start[0] == 7
    assert columns.cluster_start[-1] == 7 + len(rows)
    assert (np.diff(columns.cluster_start) >= 0).all()


def test_clusters_stay_in_their_column_and_rise_along_it():
    x = cloud(2000, 1)
    columns, rows = sort_into_columns(x, WIDTHS, 0)
    u = ((x.astype(np.int64) - columns.start) % 2**32)[:, columns.dims]
    column = (u[:, 0] * columns.period[0] >> 32) * columns.shape[1] + (u[:, 1] * columns.period[1] >> 32)
    for c in range(len(columns.cluster_start) - 1):
        members = rows[columns.cluster_start[c] : columns.cluster_start[c + 1]].ravel()
        members = members[members >= 0]
        assert (column[members] == c).all()
        assert (np.diff(u[members, 2]) >= 0).all()


def test_columns_along_the_longest_extent_are_sorted():
    columns, _ = sort_into_columns(cloud(500), WIDTHS, 0)
    assert columns.dims[2] == 2
    flat = cloud(500)
    flat[:, 2] >>= 4
    assert sort_into_columns(flat, WIDTHS, 0)[0].dims[2] == 1


def test_rows_across_the_periodic_boundary_make_a_compact_interval():
    x = cloud(500, 2, -(2**28), 2**28)
    shifted = (x.astype(np.int64) + np.array([2**31, 0, 0])).astype(np.int32)  # wraps
    columns, rows = sort_into_columns(shifted, WIDTHS, 0)
    assert columns.shape.prod() < columns.period.prod() / 20
    np.testing.assert_array_equal(rows, sort_into_columns(x, WIDTHS, 0)[1])


@pytest.mark.parametrize("n", [0, 1, 8, 9])
def test_few_rows_need_few_clusters(n):
    columns, rows = sort_into_columns(np.zeros((n, 3), np.int32), WIDTHS, 3)
    assert len(rows) == -(-n // 8)
    assert columns.cluster_start[-1] == 3 + len(rows)


def test_sparse_column_does_not_make_long_clusters():
    x = np.zeros((40, 3), np.int32)
    x[:, 2] = np.arange(40) * (2**32 // 40) - 2**31
    x = np.concatenate((x, cloud(4000, 3, 0, 2**28)))
    columns, rows = sort_into_columns(x, WIDTHS, 0)
    assert columns.dims[2] == 2
    for members in rows:
        height = (x[members[members >= 0], 2] - columns.start[2]) % 2**32
        assert np.ptp(height) < 2**30


@pytest.mark.parametrize("thickness", [0.23, 0.25, 0.27, 0.29])
def test_clusters_at_the_edge_of_a_slab_of_water_are_shorter_than_half_the_box_less_its_list(thickness):
    n, box = int(11000 * thickness), np.full(3, 4.8)
    x = np.random.default_rng(5).integers(0, 2**32, (n, 3))
    x[:, 2] = x[:, 2] * thickness
    columns, rows = sort_into_columns((x - 2**31).astype(np.int32), box, 0)
    position = (x - 2**31 - columns.start) % 2**32 * 2.0**-32 * box
    size = [np.linalg.norm(np.ptp(position[members[members >= 0]], axis=0)) for members in rows]
    assert max(size) < 2.4 - 1.1
