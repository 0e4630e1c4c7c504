"""The list of tiles: which j-clusters each i-cluster interacts with, and by which pairs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from pulsemd.kernels.nonbonded.spec import LANES, ROWS
from pulsemd.kernels.search.tile_test import owned_here, within_radius

FULL = np.uint32(0xFFFFFFFF)
PERIOD = np.int64(2**32)


class Places(NamedTuple):
    """Rows in their blocks.

    Parameters
    ----------
    rows : (n_blocks * 8,) int32, -1 where empty
    place_of_row : (n_local,) int32
    x, leader_x : (n_blocks * 24,) int32
    home : (n_blocks * 8,) int32
        Bit d: the leader is in this rank's cell of dimension d.
    lower, upper : (n_blocks,) int64
        Extent of each j-cluster along the sorted dimension, from the start of its columns.
    home_any : (n_blocks * 2,) int32
        Bits that any atom of an i-cluster has.
    """

    rows: np.ndarray
    place_of_row: np.ndarray
    x: np.ndarray
    leader_x: np.ndarray
    home: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    home_any: np.ndarray


class Reach(NamedTuple):
    """How far to search.

    Parameters
    ----------
    lattice : (3,) int64
        List radius along each box vector in lattice units, rounded up.
    scale : (9,) float32, box over 2^32
    orthorhombic : bool
    use_boxes : bool
        Distances of bounding boxes are right: the box is orthorhombic, or r_list plus the largest extents
        is at most half its smallest width.
    radius2 : float32, nm^2
    """

    lattice: np.ndarray
    scale: np.ndarray
    orthorhombic: bool
    use_boxes: bool
    radius2: np.float32


class Exclusions(NamedTuple):
    """Excluded partners of each local row, CSR, symmetric."""

    offset: np.ndarray
    rows: np.ndarray


class TileList(NamedTuple):
    """OUTPUT of `append_tiles`.

    Parameters
    ----------
    entries : (capacity, 4) int64
        i-cluster, first tile, end of the masked tiles, end of the tiles.
    j_cluster : (capacity,) int32
    pair_mask : (capacity,) uint32
    in_range : (capacity,) uint32
        Scratch: pairs within the list radius.
    tile_of_cluster : (n_blocks,) int64
        Scratch.
    """

    entries: np.ndarray
    j_cluster: np.ndarray
    pair_mask: np.ndarray
    in_range: np.ndarray
    tile_of_cluster: np.ndarray


@njit(cache=True, nogil=True)
def append_tiles(
    i_range,
    columns,
    half,
    owned_only,
    exact,
    required,
    places,
    i_boxes,
    j_boxes,
    reach,
    exclusions,
    tiles,
    counts,
):
    """Append the tiles of some i-clusters with the j-clusters of some columns.

    Parameters
    ----------
    i_range : (first, last) blocks
    columns : Columns
    half : bool
        The j-clusters are the i-clusters' own set: list each pair once.
    owned_only : bool
        Apply the ownership rule pair by pair.
    exact : bool
        Masks keep only the pairs within the list radius, on every tile.
    required : int
        Home bits of the decomposed dimensions.
    counts : (4,) int64
        OUTPUT: entries and tiles so far, pairs within the radius, excluded pairs within the radius.

    Returns
    -------
    bool
        False if the list is full: enlarge it and start again.
    """
    for i_cluster in range(2 * i_range[0], 2 * i_range[1]):
        if places.rows[ROWS * i_cluster] < 0:
            continue
        first = counts[1]
        last = _collect(
            i_cluster, columns, half, owned_only, required, places, i_boxes, j_boxes, reach, tiles, first
        )
        if last < 0:
            return False
        if last == first:
            continue
        counts[3] += _mask_exclusions(i_cluster, first, last, places, exclusions, tiles)
        middle, last = _arrange(first, last, exact, tiles, counts)
        if last > first:
            entry = tiles.entries[counts[0]]
            entry[0], entry[1], entry[2], entry[3] = i_cluster, first, middle, last
            counts[0] += 1
            counts[1] = last
    return True


@njit(cache=True, nogil=True)
def _collect(i_cluster, columns, half, owned_only, required, places, i_boxes, j_boxes, reach, tiles, n):
    """Tiles of one i-cluster that have a pair within the radius; returns the end of the list, -1 if full."""
    low, high = np.empty(3, np.int64), np.empty(3, np.int64)
    for k in range(3):
        d = columns.dims[k]
        u = (np.int64(i_boxes.center[i_cluster, d]) - columns.start[d]) & 0xFFFFFFFF
        extent = i_boxes.half[i_cluster, d] + reach.lattice[d]
        low[k], high[k] = u - extent, u + extent
    a0, b0 = (low[0] * columns.period[0]) >> 32, (high[0] * columns.period[0]) >> 32
    a1, b1 = (low[1] * columns.period[1]) >> 32, (high[1] * columns.period[1]) >> 32
    for c0 in range(a0, min(b0, a0 + columns.period[0] - 1) + 1):
        s0 = c0 % columns.period[0]
        if s0 >= columns.shape[0]:
            continue
        for c1 in range(a1, min(b1, a1 + columns.period[1] - 1) + 1):
            s1 = c1 % columns.period[1]
            if s1 >= columns.shape[1]:
                continue
            column = s0 * columns.shape[1] + s1
            j, last = columns.cluster_start[column], columns.cluster_start[column + 1]
            if half:
                j = max(j, i_cluster >> 1)
            for image in range(-1, 2):  # the interval along the column, wherever it wraps to; ascending
                bottom, top = low[2] + image * PERIOD, high[2] + image * PERIOD
                j = _first_reaching(places.upper, j, last, bottom)
                while j < last and places.lower[j] <= top:
                    if n >= len(tiles.j_cluster):
                        return -1
                    n += _add_tile(
                        i_cluster, j, half, owned_only, required, places, i_boxes, j_boxes, reach, tiles, n
                    )
                    j += 1
    return n


@njit(cache=True, nogil=True)
def _first_reaching(upper, first, last, bottom):
    """First cluster of a column (sorted) whose upper end is at least ``bottom``."""
    while first < last:
        middle = (first + last) // 2
        if upper[middle] < bottom:
            first = middle + 1
        else:
            last = middle
    return first


@njit(cache=True, nogil=True)
def _add_tile(i_cluster, j_cluster, half, owned_only, required, places, i_boxes, j_boxes, reach, tiles, n):
    """Write a tile at ``n`` if it has a pair of this rank within the radius; returns 1 if so."""
    if (
        reach.use_boxes
        and _box_distance2(i_cluster, j_cluster, i_boxes, j_boxes, reach.scale) > reach.radius2
    ):
        return 0
    if owned_only:
        lanes_any = places.home_any[2 * j_cluster] | places.home_any[2 * j_cluster + 1]
        if (places.home_any[i_cluster] | lanes_any) & required != required:
            return 0
    in_range = within_radius(places.x, reach.scale, reach.orthorhombic, reach.radius2, i_cluster, j_cluster)
    if in_range == 0:
        return 0
    real = _real_pairs(places.rows, i_cluster, j_cluster)
    keep = FULL
    if owned_only:
        keep = owned_here(places.leader_x, places.home, i_cluster, j_cluster)
    if half and j_cluster == i_cluster >> 1:
        keep &= _upper_half(i_cluster & 1)
    in_range &= keep & real
    if in_range == 0:
        return 0
    tiles.j_cluster[n] = j_cluster
    tiles.pair_mask[n] = keep | ~real
    tiles.in_range[n] = in_range
    tiles.tile_of_cluster[j_cluster] = n
    return 1


@njit(cache=True, nogil=True)
def _box_distance2(i_cluster, j_cluster, i_boxes, j_boxes, scale):
    """Squared distance of two bounding boxes [nm^2], rounded down by a hair."""
    f0 = np.float32(np.int32(i_boxes.center[i_cluster, 0] - j_boxes.center[j_cluster, 0]))
    f1 = np.float32(np.int32(i_boxes.center[i_cluster, 1] - j_boxes.center[j_cluster, 1]))
    f2 = np.float32(np.int32(i_boxes.center[i_cluster, 2] - j_boxes.center[j_cluster, 2]))
    total = np.float32(0.0)
    for d in range(3):
        between = abs(f0 * scale[d] + f1 * scale[3 + d] + f2 * scale[6 + d])
        gap = between - i_boxes.half_cartesian[i_cluster, d] - j_boxes.half_cartesian[j_cluster, d]
        gap = max(gap, np.float32(0.0))
        total += gap * gap
    return total * np.float32(0.99999)


@njit(cache=True, nogil=True)
def _real_pairs(rows, i_cluster, j_cluster):
    """Mask of the pairs of which neither place is empty."""
    lanes, mask = np.uint32(0), np.uint32(0)
    for lane in range(LANES):
        if rows[LANES * j_cluster + lane] >= 0:
            lanes |= np.uint32(1) << np.uint32(lane)
    for row in range(ROWS):
        if rows[ROWS * i_cluster + row] >= 0:
            mask |= lanes << np.uint32(LANES * row)
    return mask


@njit(cache=True, nogil=True)
def _upper_half(second):
    """Mask of the pairs of a block with itself that are listed: lane above row."""
    mask = np.uint32(0)
    for row in range(ROWS):
        for lane in range(row + ROWS * second + 1, LANES):
            mask |= np.uint32(1) << np.uint32(LANES * row + lane)
    return mask


@njit(cache=True, nogil=True)
def _mask_exclusions(i_cluster, first, last, places, exclusions, tiles):
    """Take excluded pairs out of the tiles of one i-cluster; returns how many were within the radius."""
    found = 0
    for i in range(ROWS):
        row = places.rows[ROWS * i_cluster + i]
        if row < 0:
            continue
        for k in range(exclusions.offset[row], exclusions.offset[row + 1]):
            place = places.place_of_row[exclusions.rows[k]]
            tile = tiles.tile_of_cluster[place // LANES]
            if tile < first or tile >= last or tiles.j_cluster[tile] != place // LANES:
                continue
            bit = np.uint32(1) << np.uint32(LANES * i + place % LANES)
            if tiles.in_range[tile] & bit:
                found += 1
            tiles.in_range[tile] &= ~bit
            tiles.pair_mask[tile] &= ~bit
    return found


@njit(cache=True, nogil=True)
def _arrange(first, last, exact, tiles, counts):
    """Drop tiles without pairs and put the masked ones first; returns the end of the masked, the end of all."""
    n = first
    for k in range(first, last):
        if tiles.in_range[k] != 0:
            counts[2] += _count_bits(tiles.in_range[k])
            tiles.j_cluster[n] = tiles.j_cluster[k]
            tiles.pair_mask[n] = tiles.in_range[k] if exact else tiles.pair_mask[k]
            n += 1
    if exact:
        return n, n
    middle = first
    for k in range(first, n):
        if tiles.pair_mask[k] != FULL:
            j, mask = tiles.j_cluster[k], tiles.pair_mask[k]
            tiles.j_cluster[k], tiles.pair_mask[k] = tiles.j_cluster[middle], tiles.pair_mask[middle]
            tiles.j_cluster[middle], tiles.pair_mask[middle] = j, mask
            middle += 1
    return middle, n


@njit(cache=True, nogil=True)
def _count_bits(mask):
    m = np.uint64(mask)
    m = m - ((m >> np.uint64(1)) & np.uint64(0x55555555))
    m = (m & np.uint64(0x33333333)) + ((m >> np.uint64(2)) & np.uint64(0x33333333))
    m = (m + (m >> np.uint64(4))) & np.uint64(0x0F0F0F0F)
    return np.int64((m * np.uint64(0x01010101) & np.uint64(0xFFFFFFFF)) >> np.uint64(24))
