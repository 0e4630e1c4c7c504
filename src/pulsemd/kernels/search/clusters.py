"""Clusters of rows in memory blocks, and their bounding boxes."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from pulsemd.kernels.nonbonded.spec import BLOCK, LANES, ROWS

_CACHE_LINE = 64
"""Bytes."""


class Boxes(NamedTuple):
    """Bounding boxes of clusters.

    Parameters
    ----------
    center : (3, n) int32, lattice units
    half : (3, n) int64, lattice units
        Half extent along each box vector.
    half_cartesian : (3, n) float32, nm
        Largest distance of a member from the centre along x, y, z.
    """

    center: np.ndarray
    half: np.ndarray
    half_cartesian: np.ndarray


def aligned(shape, dtype) -> np.ndarray:
    """An uninitialised array whose memory starts at a cache line."""
    dtype = np.dtype(dtype)
    size = (shape if isinstance(shape, int) else math.prod(shape)) * dtype.itemsize
    memory = np.empty(size + _CACHE_LINE, np.uint8)
    offset = -memory.ctypes.data % _CACHE_LINE
    return memory[offset : offset + size].view(dtype).reshape(shape)


@njit(cache=True, nogil=True)
def order_by_lennard_jones(rows, has_lj, lj_rows):
    """Within each i-cluster put the atoms that have Lennard-Jones parameters first.

    Parameters
    ----------
    rows : (n_blocks * 8,) int32
        OUTPUT, permuted within groups of four; empty places (-1) stay last.
    has_lj : (n_local,) bool
    lj_rows : (n_blocks * 2,) int32
        OUTPUT, how many of each i-cluster have them.
    """
    for cluster in range(len(lj_rows)):
        first = cluster * ROWS
        place = first
        for k in range(first, first + ROWS):
            row = rows[k]
            if row >= 0 and has_lj[row]:
                rows[k] = rows[place]
                rows[place] = row
                place += 1
        lj_rows[cluster] = place - first


@njit(cache=True, nogil=True)
def fill_empty(rows, source):
    """Row that stands in for each place: an empty place repeats the first atom of its half, or of its block."""
    for k in range(len(rows)):
        row = rows[k]
        if row < 0:
            row = rows[k - k % ROWS]
        if row < 0:
            row = rows[k - k % LANES]
        source[k] = row


@njit(cache=True, nogil=True)
def gather_blocks(values, source, first, last, blocks):
    """Copy (n_local, 3) values of blocks ``first`` to ``last`` into (n_blocks * 24,) ``blocks`` (OUTPUT)."""
    for block in range(first, last):
        for lane in range(LANES):
            row = source[block * LANES + lane]
            for d in range(3):
                blocks[block * BLOCK + d * LANES + lane] = values[row, d]


@njit(cache=True, nogil=True)
def scatter_add(blocks, rows, first, last, values):
    """Add blocks ``first`` to ``last`` to (n_local, 3) ``values`` (OUTPUT)."""
    for block in range(first, last):
        for lane in range(LANES):
            row = rows[block * LANES + lane]
            if row >= 0:
                for d in range(3):
                    values[row, d] += blocks[block * BLOCK + d * LANES + lane]


@njit(cache=True, nogil=True)
def bounding_boxes(x, start, first, last, scale, i_boxes, j_boxes):
    """Boxes of the i-clusters and j-clusters of blocks ``first`` to ``last``.

    Parameters
    ----------
    x : (n_blocks * 24,) int32
    start : (3,) int64
        Origin of the columns: a cluster does not wrap seen from there.
    scale : (9,) float32, box over 2^32
    i_boxes, j_boxes : Boxes
        OUTPUT
    """
    matrix = (scale[0], scale[1], scale[2], scale[3], scale[4], scale[5], scale[6], scale[7], scale[8])
    for block in range(first, last):
        for d in range(3):
            origin, place = start[d], block * BLOCK + d * LANES
            bottom, top = np.int64(1) << 33, np.int64(-1)
            for half in range(LANES // ROWS):
                low, high = np.int64(1) << 33, np.int64(-1)
                for k in range(ROWS):
                    u = (np.int64(x[place + ROWS * half + k]) - origin) & 0xFFFFFFFF
                    low, high = min(low, u), max(high, u)
                cluster = block * (LANES // ROWS) + half
                i_boxes.center[d, cluster] = np.int32(origin + (low + high) // 2)
                i_boxes.half[d, cluster] = (high - low) // 2 + 1
                bottom, top = min(bottom, low), max(top, high)
            j_boxes.center[d, block] = np.int32(origin + (bottom + top) // 2)
            j_boxes.half[d, block] = (top - bottom) // 2 + 1
        for half in range(LANES // ROWS):
            _extend(x, block * BLOCK + ROWS * half, ROWS, matrix, i_boxes, block * (LANES // ROWS) + half)
        _extend(x, block * BLOCK, LANES, matrix, j_boxes, block)


@njit(cache=True, nogil=True, inline="always")
def _extend(x, place, size, matrix, boxes, cluster):
    """Cartesian half extents (OUTPUT) of the cluster of ``size`` atoms from ``place`` on."""
    a, b, c = boxes.center[0, cluster], boxes.center[1, cluster], boxes.center[2, cluster]
    largest_x, largest_y, largest_z = 0.0, 0.0, 0.0
    for k in range(place, place + size):
        u, v, w = (
            float(np.int32(x[k] - a)),
            float(np.int32(x[k + LANES] - b)),
            float(np.int32(x[k + 2 * LANES] - c)),
        )
        largest_x = max(largest_x, abs(u * matrix[0] + v * matrix[3] + w * matrix[6]))
        largest_y = max(largest_y, abs(u * matrix[1] + v * matrix[4] + w * matrix[7]))
        largest_z = max(largest_z, abs(u * matrix[2] + v * matrix[5] + w * matrix[8]))
    boxes.half_cartesian[0, cluster] = largest_x
    boxes.half_cartesian[1, cluster] = largest_y
    boxes.half_cartesian[2, cluster] = largest_z
