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
_LONGEST_CLUSTER = 4.0  # in column widths; a sparse column would else make clusters that are near everything


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
    relative = x - x[0]
    lowest = relative.min(axis=0)
    span = relative.max(axis=0).astype(np.int64) - lowest + 1
    start = x[0] + lowest
    from_start = (x - start).view(np.uint32)
    lengths = np.maximum(span / PERIOD * widths, _SMALLEST_LENGTH)
    width = (LANES * lengths.prod() / n) ** (1.0 / 3.0)
    dims = np.argsort(lengths, kind="stable")
    period = np.clip(np.rint(widths[dims[:2]] / width), 1, _MAX_COLUMNS).astype(np.int64)
    shape = ((span[dims[:2]] - 1) * period >> 32) + 1
    binned = from_start[:, dims[:2]].astype(np.int64) * period >> 32
    column = binned[:, 0] * shape[1] + binned[:, 1]
    height = from_start[:, dims[2]]
    order = np.argsort((column << 32) | height, kind="stable")
    longest = int(min(_LONGEST_CLUSTER * width / widths[dims[2]], 1.0) * PERIOD)
    cluster_start = np.empty(shape.prod() + 1, np.int64)
    place = np.empty(n, np.int64)
    n_clusters = _fill_clusters(column[order], height[order], longest, first_cluster, cluster_start, place)
    rows = np.full(n_clusters * LANES, -1, np.int32)
    rows[place] = order
    columns = Columns(dims, start.astype(np.int64), period, shape, cluster_start)
    return columns, rows.reshape(-1, LANES)


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
