"""The list of tiles: which j-clusters each i-cluster interacts with, and by which pairs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from pulsemd.kernels.nonbonded.spec import BLOCK, LANES, ROWS
from pulsemd.kernels.search.tile_test import count_bits, near_boxes, owned_here, within_radius_of_all

FULL = np.uint32(0xFFFFFFFF)
PERIOD = np.int64(2**32)

_SHORT = 2 * LANES
"""Columns up to this length are tested whole: two vector tests cost less than finding the interval."""

_SET_BITS = np.array(
    [[bit for bit in range(8) if mask >> bit & 1] + [0] * (8 - mask.bit_count()) for mask in range(256)],
    np.int32,
)
_N_BITS = np.array([mask.bit_count() for mask in range(256)], np.int64)


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
    lanes_real : (n_blocks,) uint32
        Bit 8 * row + lane for every row: the place is not empty.
    """

    rows: np.ndarray
    place_of_row: np.ndarray
    x: np.ndarray
    leader_x: np.ndarray
    home: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    home_any: np.ndarray
    lanes_real: np.ndarray


class Reach(NamedTuple):
    """How far to search.

    Parameters
    ----------
    lattice : (3,) int64
        List radius along each box vector in lattice units, rounded up.
    scale : (9,) float32, box over 2^32
    orthorhombic : bool
    box_limit : float32, nm^2
        Clusters whose boxes are farther apart are skipped; infinite where distances of boxes may be wrong.
    radius2 : float32, nm^2
    """

    lattice: np.ndarray
    scale: np.ndarray
    orthorhombic: bool
    box_limit: np.float32
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
    tile_of_cluster : (n_blocks,) int64
        Scratch.
    """

    entries: np.ndarray
    j_cluster: np.ndarray
    pair_mask: np.ndarray
    tile_of_cluster: np.ndarray


@njit(cache=True, nogil=True)
def fill_places(first, last, columns, source, x, leader_x, home, always, places):
    """Fill blocks ``first`` to ``last`` of ``places`` (OUTPUT), those of one set of columns.

    Parameters
    ----------
    source : (n_blocks * 8,) int32
        Row that stands in for each place.
    x, leader_x : (n_local, 3) int32
    home : (n_local,) uint8
    always : int
        Home bits that every row has.
    """
    along = columns.dims[2]
    for block in range(first, last):
        real, low, high = np.uint32(0), PERIOD, np.int64(-1)
        any_of = np.zeros(2, np.int32)
        for lane in range(LANES):
            place, at = block * LANES + lane, block * BLOCK + lane
            row = source[place]
            for d in range(3):
                places.x[at + d * LANES] = x[row, d]
                places.leader_x[at + d * LANES] = leader_x[row, d]
            height = (np.int64(x[row, along]) - columns.start[along]) & 0xFFFFFFFF
            low, high = min(low, height), max(high, height)
            bits = np.int32(home[row] | always)
            places.home[place] = bits
            any_of[lane // ROWS] |= bits
            if places.rows[place] >= 0:
                places.place_of_row[row] = place
                real |= np.uint32(0x01010101) << np.uint32(lane)
        places.lower[block], places.upper[block], places.lanes_real[block] = low, high, real
        places.home_any[2 * block], places.home_any[2 * block + 1] = any_of[0], any_of[1]


@njit(cache=True, nogil=True)
def append_tiles(
    i_range,
    columns,
    half,
    owned_only,
    exact,
    blank,
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
    i_range : (first, last) i-clusters
    columns : Columns
    half : bool
        The j-clusters are the i-clusters' own set: list each pair once.
    owned_only : bool
        Apply the ownership rule pair by pair.
    exact : bool
        Masks keep only the pairs within the list radius, on every tile.
    blank : bool
        Pairs with an empty place need no mask.
    required : int
        Home bits of the decomposed dimensions.
    counts : (4,) int64
        OUTPUT: entries and tiles so far, pairs within the radius, excluded pairs within the radius.

    Returns
    -------
    int
        The i-cluster to go on with after enlarging the list; the last of the range if all are done.

    Notes
    -----
    Inner functions are called once per i-cluster: handing arrays to a function costs reference counts.
    """
    candidates = np.empty((2, len(places.lower) + LANES), np.int32)
    n_candidates, masks = np.zeros(2, np.int64), np.empty(len(places.lower) + LANES, np.uint32)
    empty = FULL if blank else np.uint32(0)
    partners = _complements(columns, places.home_any, required)
    block = np.int64(-1)
    for i_cluster in range(i_range[0], i_range[1]):
        if places.rows[ROWS * i_cluster] < 0 or not partners[places.home_any[i_cluster]]:
            continue
        first, second = counts[1], i_cluster & 1
        if i_cluster >> 1 != block:
            block = i_cluster >> 1
            _near_clusters(block, columns, half, places, i_boxes, j_boxes, reach, candidates, n_candidates)
        n = n_candidates[second]
        if first + n > len(tiles.j_cluster):
            return i_cluster
        near = candidates[second, :n]
        last = _test_tiles(
            i_cluster, near, masks, half, owned_only, empty, required, places, reach, tiles, first
        )
        if last == first:
            continue
        counts[3] += _mask_exclusions(i_cluster, first, last, places, exclusions, tiles, masks)
        middle, last = _arrange(first, last, exact, tiles, masks, counts)
        if last > first:
            entry = tiles.entries[counts[0]]
            entry[0], entry[1], entry[2], entry[3] = i_cluster, first, middle, last
            counts[0] += 1
            counts[1] = last
    return i_range[1]


@njit(cache=True, nogil=True)
def _complements(columns, home_any, required):
    """For each value of the home bits: whether some j-cluster has the required bits that it lacks."""
    result = np.zeros(8, np.bool_)
    for j_cluster in range(columns.cluster_start[0], columns.cluster_start[-1]):
        lanes_any = home_any[2 * j_cluster] | home_any[2 * j_cluster + 1]
        for bits in range(8):
            result[bits] |= (bits | lanes_any) & required == required
    return result


@njit(cache=True, nogil=True)
def _near_clusters(block, columns, half, places, i_boxes, j_boxes, reach, candidates, n_candidates):
    """j-clusters whose box is within the radius of the box of each i-cluster of a block.

    Parameters
    ----------
    block : int
        Two i-clusters with the memory of one j-cluster.
    candidates : (2, n) int32
        OUTPUT, ascending within a column.
    n_candidates : (2,) int64
        OUTPUT
    """
    lower, upper, cluster_start = places.lower, places.upper, columns.cluster_start
    period0, period1, shape0, shape1 = (
        columns.period[0],
        columns.period[1],
        columns.shape[0],
        columns.shape[1],
    )
    i_center, i_half = i_boxes.center, i_boxes.half_cartesian
    low, high = np.empty(3, np.int64), np.empty(3, np.int64)
    for k in range(3):
        d = columns.dims[k]
        u = (np.int64(j_boxes.center[d, block]) - columns.start[d]) & 0xFFFFFFFF
        extent = j_boxes.half[d, block] + reach.lattice[d]
        low[k], high[k] = u - extent, u + extent
    a0, b0 = (low[0] * period0) >> 32, (high[0] * period0) >> 32
    a1, b1 = (low[1] * period1) >> 32, (high[1] * period1) >> 32
    j_center, j_half, scale, limit = j_boxes.center, j_boxes.half_cartesian, reach.scale, reach.box_limit
    orthorhombic = reach.orthorhombic
    # Images of the interval along the column, wherever it wraps to, in ascending order.
    first_image, last_image = -1 if high[2] >= PERIOD else 0, 1 if low[2] < 0 else 0
    n0, n1 = 0, 0
    for c0 in range(a0, min(b0, a0 + period0 - 1) + 1):
        s0 = c0 % period0
        if s0 >= shape0:
            continue
        for c1 in range(a1, min(b1, a1 + period1 - 1) + 1):
            s1 = c1 % period1
            if s1 >= shape1:
                continue
            j, last = cluster_start[s0 * shape1 + s1], cluster_start[s0 * shape1 + s1 + 1]
            if half:
                j = max(j, block)
            if j >= last:
                continue
            whole = last - j <= _SHORT
            for image in range(first_image, last_image + 1):
                end = last
                if not whole:
                    j, end = _interval(
                        lower, upper, j, last, low[2] + image * PERIOD, high[2] + image * PERIOD
                    )
                for start in range(j, end, LANES):
                    near = near_boxes(
                        i_center, i_half, j_center, j_half, scale, orthorhombic, limit, block, start
                    )
                    if end - start < LANES:
                        near &= ((1 << (end - start)) - 1) * 0x0101
                    near0, near1 = near & 0xFF, near >> 8
                    for k in range(LANES):
                        candidates[0, n0 + k] = start + _SET_BITS[near0, k]
                    for k in range(LANES):
                        candidates[1, n1 + k] = start + _SET_BITS[near1, k]
                    n0 += _N_BITS[near0]
                    n1 += _N_BITS[near1]
                if whole:
                    break
                j = end
    n_candidates[0], n_candidates[1] = n0, n1


@njit(cache=True, nogil=True)
def _interval(lower, upper, j, last, bottom, top):
    """Part of a column's clusters ``j`` to ``last`` that overlaps an interval along it."""
    skip = last
    while skip - j > LANES:  # halve what is left of a long column
        middle = (j + skip) // 2
        j, skip = (middle, skip) if upper[middle] < bottom else (j, middle)
    while j < last and upper[j] < bottom:
        j += 1
    end = j
    while end < last and lower[end] <= top:
        end += 1
    return j, end


@njit(cache=True, nogil=True)
def _test_tiles(i_cluster, candidates, masks, half, owned_only, empty, required, places, reach, tiles, first):
    """Write the tiles that have a pair of this rank within the radius; returns the end of the list."""
    x, leader_x, home, home_any = places.x, places.leader_x, places.home, places.home_any
    lanes_real = places.lanes_real
    rows_real = np.uint32(0)
    for row in range(ROWS):
        if places.rows[ROWS * i_cluster + row] >= 0:
            rows_real |= np.uint32(0xFF) << np.uint32(LANES * row)
    if owned_only:
        count, bits = 0, home_any[i_cluster]
        for j_cluster in candidates:  # keeps those that may hold a pair of this rank, without branches
            candidates[count] = j_cluster
            count += (bits | home_any[2 * j_cluster] | home_any[2 * j_cluster + 1]) & required == required
        candidates = candidates[:count]
    within_radius_of_all(x, reach.scale, reach.orthorhombic, reach.radius2, i_cluster, candidates, masks)
    own, n = np.int32(i_cluster >> 1) if half else np.int32(-1), first
    for k in range(len(candidates)):
        j_cluster, keep = candidates[k], FULL
        if owned_only:
            keep = owned_here(leader_x, home, required, i_cluster, j_cluster)
        if j_cluster == own:
            keep &= _upper_half(i_cluster & 1)
        real = rows_real & lanes_real[j_cluster]
        inside = masks[k] & keep & real
        tiles.j_cluster[n] = j_cluster
        tiles.pair_mask[n] = keep & real | empty & ~real
        masks[n - first] = inside
        tiles.tile_of_cluster[j_cluster] = n
        n += inside != 0  # a tile without a pair is overwritten by the next
    return n


@njit(cache=True, nogil=True)
def _upper_half(second):
    """Mask of the pairs of a block with itself that are listed: lane above row."""
    mask = np.uint32(0)
    for row in range(ROWS):
        for lane in range(row + ROWS * second + 1, LANES):
            mask |= np.uint32(1) << np.uint32(LANES * row + lane)
    return mask


@njit(cache=True, nogil=True)
def _mask_exclusions(i_cluster, first, last, places, exclusions, tiles, in_range):
    """Take excluded pairs out of the tiles of one i-cluster; returns how many were within the radius."""
    rows, place_of_row, offset, partners = (
        places.rows,
        places.place_of_row,
        exclusions.offset,
        exclusions.rows,
    )
    j_clusters, pair_mask = tiles.j_cluster, tiles.pair_mask
    tile_of_cluster = tiles.tile_of_cluster
    found = 0
    for i in range(ROWS):
        row = rows[ROWS * i_cluster + i]
        if row < 0:
            continue
        for k in range(offset[row], offset[row + 1]):
            place = place_of_row[partners[k]]
            tile = tile_of_cluster[place // LANES]
            if tile < first or tile >= last or j_clusters[tile] != place // LANES:
                continue
            bit = np.uint32(1) << np.uint32(LANES * i + place % LANES)
            found += in_range[tile - first] & bit != 0
            in_range[tile - first] &= ~bit
            pair_mask[tile] &= ~bit
    return found


@njit(cache=True, nogil=True)
def _arrange(first, last, exact, tiles, in_range, counts):
    """Drop tiles without pairs and put the masked ones first; returns the end of the masked, the end of all."""
    j_cluster, pair_mask = tiles.j_cluster, tiles.pair_mask
    n, middle, pairs = first, first, 0
    for k in range(first, last):
        inside = in_range[k - first]
        if inside == 0:
            continue
        pairs += count_bits(inside)
        j, mask = j_cluster[k], inside if exact else pair_mask[k]
        if mask != FULL or exact:
            j_cluster[n], pair_mask[n] = j_cluster[middle], pair_mask[middle]
            j_cluster[middle], pair_mask[middle] = j, mask
            middle += 1
        else:
            j_cluster[n], pair_mask[n] = j, mask
        n += 1
    counts[2] += pairs
    return middle, n
