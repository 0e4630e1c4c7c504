"""Rows sorted into columns: two dimensions binned, the third sorted, eight consecutive rows a cluster.

Everything is measured from the lowest row by uint32 differences, so the rows of a decomposed dimension are an
interval, those of a periodic one a circle, and no case distinction is needed: columns divide the whole
period, only those that rows reach are stored, and a search for neighbors counts columns modulo the period.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from pulsemd.kernels.nonbonded.spec import LANES

PERIOD = 2**32
_SMALLEST_LENGTH = 0.2  # nm; keeps the density of atoms in a plane, on a line or at a point finite
_MAX_COLUMNS = 2**20  # per dimension: products with lattice differences stay below 2^63
_LONGEST_CLUSTER = 2.0  # in column widths; a sparse column would else make clusters that are near everything


class Columns(NamedTuple):
    """Column grid of one set of clusters; a tuple because Numba reads it.

    Parameters
    ----------
    dims : (3,) int64
        The two binned dimensions and the sorted one.
    start : (3,) int64, lattice units
        Origin in dimension 0, 1, 2.
    period : (2,) int64
        Columns in a whole period of the two binned dimensions.
    shape : (2,) int64
        Columns that are stored.
    cluster_start : (shape[0] * shape[1] + 1,) int64
        First j-cluster of each column.
    """

    dims: np.ndarray
    start: np.ndarray
    period: np.ndarray
    shape: np.ndarray
    cluster_start: np.ndarray


def sort_into_columns(x, widths, first_cluster: int) -> tuple[Columns, np.ndarray]:
    """Column grid of rows and the clusters they fall into.

    Parameters
    ----------
    x : (n, 3) int32, lattice units
    widths : (3,) float64, nm
        Perpendicular widths of the box.
    first_cluster : int
        Number of the first j-cluster.

    Returns
    -------
    columns : Columns
    rows : (n_clusters, 8) int32
        Row of each place, -1 where a cluster is not full.
    """
    n = len(x)
    if n == 0:
        empty = Columns(
            np.array([0, 1, 2]),
            np.zeros(3, np.int64),
            np.ones(2, np.int64),
            np.ones(2, np.int64),
            np.full(2, first_cluster, np.int64),
        )
        return empty, np.empty((0, LANES), np.int32)
    start, span = _extent(x)
    lengths = np.maximum(span / PERIOD * widths, _SMALLEST_LENGTH)
    width = (LANES * lengths.prod() / n) ** (1.0 / 3.0)
    dims = np.argsort(lengths, kind="stable")
    period = np.clip(np.rint(widths[dims[:2]] / width), 1, _MAX_COLUMNS).astype(np.int64)
    shape = ((span[dims[:2]] - 1) * period >> 32) + 1
    longest = int(min(_LONGEST_CLUSTER * width / widths[dims[2]], 1.0) * PERIOD)
    column, height, order = _sort(x, start, span, dims, period, shape)
    cluster_start = np.empty(shape.prod() + 1, np.int64)
    place = np.empty(n, np.int64)
    n_clusters = _fill_clusters(column, height, longest, first_cluster, cluster_start, place)
    rows = np.full(n_clusters * LANES, -1, np.int32)
    rows[place] = order
    columns = Columns(dims, start, period, shape, cluster_start)
    return columns, rows.reshape(-1, LANES)


@njit(cache=True, nogil=True)
def _extent(x):
    """Lowest corner (3,) int64 and extent (3,) int64 of rows, as uint32 differences from the first."""
    start, span = np.empty(3, np.int64), np.empty(3, np.int64)
    for d in range(3):
        low, high = np.int32(0), np.int32(0)
        for k in range(len(x)):
            relative = np.int32(x[k, d] - x[0, d])
            low, high = min(low, relative), max(high, relative)
        start[d] = np.int32(x[0, d] + low)
        span[d] = np.int64(high) - np.int64(low) + 1
    return start, span


@njit(cache=True, nogil=True)
def _sort(x, start, span, dims, period, shape):
    """Rows by column, then height above the start, then row: a counting sort by bins, finished by insertion.

    Returns
    -------
    column, height, order : (n,) int64, int64 and int32, sorted
    """
    n = len(x)
    n_columns = shape[0] * shape[1]
    layers = max(np.int64(1), n // n_columns)
    bins = np.empty(n, np.int64)
    first = np.zeros(n_columns * layers + 1, np.int64)
    for k in range(n):
        u0 = (np.int64(x[k, dims[0]]) - start[dims[0]]) & 0xFFFFFFFF
        u1 = (np.int64(x[k, dims[1]]) - start[dims[1]]) & 0xFFFFFFFF
        u2 = (np.int64(x[k, dims[2]]) - start[dims[2]]) & 0xFFFFFFFF
        layer = np.int64(float(u2) / float(span[dims[2]]) * layers)
        bins[k] = ((u0 * period[0] >> 32) * shape[1] + (u1 * period[1] >> 32)) * layers + min(
            layer, layers - 1
        )
        first[bins[k] + 1] += 1
    for b in range(n_columns * layers):
        first[b + 1] += first[b]
    column, height, order = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int32)
    for k in range(n):
        c = bins[k] // layers
        h = (np.int64(x[k, dims[2]]) - start[dims[2]]) & 0xFFFFFFFF
        place = first[bins[k]]
        first[bins[k]] += 1
        column[place], height[place], order[place] = c, h, k
    for k in range(1, n):
        c, h, row, place = column[k], height[k], order[k], k
        while place > 0 and column[place - 1] == c and height[place - 1] > h:
            height[place], order[place] = height[place - 1], order[place - 1]
            place -= 1
        height[place], order[place] = h, row
    return column, height, order


@njit(cache=True, nogil=True)
def _fill_clusters(column, height, longest, first_cluster, cluster_start, place):
    """Place of each sorted row; a cluster ends at the column's end, when full, or when it gets too long."""
    cluster, lane, bottom, current = -1, LANES, 0, -1
    for k in range(len(column)):
        h = np.int64(height[k])
        if column[k] != current or lane == LANES or h - bottom > longest:
            cluster += 1
            lane, bottom = 0, h
            for c in range(current + 1, column[k] + 1):
                cluster_start[c] = first_cluster + cluster
            current = column[k]
        place[k] = cluster * LANES + lane
        lane += 1
    for c in range(current + 1, len(cluster_start)):
        cluster_start[c] = first_cluster + cluster + 1
    return cluster + 1
