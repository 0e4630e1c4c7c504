"""A neighbor search of one rank: clusters of its owned and ghost rows, and the two lists of tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pulsemd.base.box import widths_of
from pulsemd.kernels.nonbonded.spec import BLOCK, LANES
from pulsemd.kernels.search.clusters import (
    Boxes,
    aligned,
    bounding_boxes,
    fill_empty,
    order_by_lennard_jones,
)
from pulsemd.kernels.search.columns import PERIOD, sort_into_columns
from pulsemd.kernels.search.lists import Exclusions, Places, Reach, TileList, append_tiles, fill_places

_ROUNDING = 1.0 + 1e-6  # of squared distances in float32
_OFF_DIAGONAL = ~np.eye(3, dtype=bool)


@dataclass(frozen=True)
class SearchCounts:
    """What a search of one rank found.

    Parameters
    ----------
    pairs : int
        Pairs of this rank within the list radius that interact.
    excluded : int
        Excluded pairs of this rank within the list radius. Summed over ranks it must equal the number that
        `count_within` finds in the topology.
    tiles_local, tiles_nonlocal : int
        Length of the lists of tiles.
    clusters : int
        j-clusters, owned and ghost.
    """

    pairs: int
    excluded: int
    tiles_local: int
    tiles_nonlocal: int
    clusters: int


@dataclass(frozen=True)
class Rows:
    """Local rows of a rank as a search needs them; see `PairForces.search`."""

    x: np.ndarray
    n_owned: int
    has_lj: np.ndarray
    leader_x: np.ndarray
    home: np.ndarray
    exclusions: Exclusions


@dataclass(frozen=True)
class PairList:
    """Result of a search.

    Parameters
    ----------
    rows : (n_blocks * 8,) int32
        Row in each place, -1 where empty; the first ``n_owned_blocks`` hold owned rows.
    source : (n_blocks * 8,) int32
        The same with empty places filled by a neighbor.
    lj_rows : (2 * n_blocks,) int32
        Atoms with Lennard-Jones parameters, which come first, in each i-cluster.
    local, nonlocal_ : TileList, with ``entries`` cut to what is used
    largest_row_radius : float, nm
        Largest distance within an i-cluster from its first atom, rounded up.
    counts : SearchCounts
    """

    rows: np.ndarray
    source: np.ndarray
    lj_rows: np.ndarray
    n_owned_blocks: int
    local: TileList
    nonlocal_: TileList
    largest_row_radius: float
    counts: SearchCounts


def lattice_scale(box: np.ndarray) -> np.ndarray:
    """Box over 2^32, (9,) float32: the one conversion of lattice differences to nm."""
    return (np.asarray(box, np.float64) / PERIOD).astype(np.float32).ravel()


def is_orthorhombic(box: np.ndarray) -> bool:
    """Whether the box is diagonal."""
    return not np.asarray(box)[_OFF_DIAGONAL].any()


def build_pair_list(
    rows: Rows,
    box,
    r_list: float,
    split_dims: Sequence[bool],
    exact: bool,
    previous: PairList | None,
    blank: bool = True,
) -> PairList:
    """Cluster the rows and list the tiles.

    Parameters
    ----------
    rows : Rows
    box : (3, 3) float64, nm
        Lattice-reduced, ``r_list`` at most half its smallest width.
    r_list : float, nm
    split_dims : three bool
        Dimensions divided over ranks.
    exact : bool
        A tile acts on exactly the pairs that are within ``r_list`` now.
    previous : PairList or None
        The last list, whose memory is used again: fresh memory costs as much as filling it.
    blank : bool
        Pairs with an empty place need no mask: they give no force.
    """
    widths = widths_of(box)
    n_owned = rows.n_owned
    owned, owned_rows = sort_into_columns(rows.x[:n_owned], widths, 0)
    n_owned_blocks = len(owned_rows)
    ghost, ghost_rows = sort_into_columns(rows.x[n_owned:], widths, n_owned_blocks)
    ghost_rows[ghost_rows >= 0] += n_owned
    place_rows = np.concatenate((owned_rows, ghost_rows)).ravel()
    n_blocks = len(place_rows) // LANES
    lj_rows = np.empty(2 * n_blocks, np.int32)
    order_by_lennard_jones(place_rows, rows.has_lj, lj_rows)
    source = np.empty_like(place_rows)
    fill_empty(place_rows, source)
    required = sum(1 << d for d in range(3) if split_dims[d])
    scale = lattice_scale(box)
    ranges = ((0, n_owned_blocks, owned), (n_owned_blocks, n_blocks, ghost))
    places = _places(rows, place_rows, source, required, ranges)
    i_boxes, j_boxes = _boxes(places.x, ranges, n_blocks, scale)
    reach = _reach(box, widths, r_list, scale, i_boxes, j_boxes)

    def fill(parts, old: TileList | None) -> tuple[TileList, np.ndarray]:
        tiles = _room(old, n_blocks, len(parts))
        return _fill(tiles, parts, exact, blank, required, places, i_boxes, j_boxes, reach, rows.exclusions)

    all_owned, all_ghost = (0, 2 * n_owned_blocks), (2 * n_owned_blocks, 2 * n_blocks)
    local, found = fill([(all_owned, owned, True, False)], previous and previous.local)
    across, ghosts = (all_owned, ghost, False, True), (all_ghost, ghost, True, True)
    nonlocal_, found_too = fill([across, ghosts], previous and previous.nonlocal_)
    counts = SearchCounts(
        int(found[2] + found_too[2]), int(found[3] + found_too[3]), int(found[1]), int(found_too[1]), n_blocks
    )
    radius = 2.0 * _largest_radius(i_boxes)
    return PairList(place_rows, source, lj_rows, n_owned_blocks, local, nonlocal_, radius, counts)


def _places(rows: Rows, place_rows, source, required: int, ranges) -> Places:
    n_blocks = len(place_rows) // LANES
    places = Places(
        place_rows,
        np.empty(len(rows.x), np.int32),
        aligned(n_blocks * BLOCK, np.int32),
        aligned(n_blocks * BLOCK, np.int32),
        np.empty(n_blocks * LANES, np.int32),
        np.empty(n_blocks, np.int64),
        np.empty(n_blocks, np.int64),
        np.empty(2 * n_blocks, np.int32),
        np.empty(n_blocks, np.uint32),
    )
    for first, last, columns in ranges:
        fill_places(first, last, columns, source, rows.x, rows.leader_x, rows.home, 7 & ~required, places)
    return places


def _boxes(x, ranges, n_blocks: int, scale) -> tuple[Boxes, Boxes]:
    i_boxes, j_boxes = (
        Boxes(np.zeros((3, n), np.int32), np.zeros((3, n), np.int64), np.zeros((3, n), np.float32))
        for n in (2 * n_blocks, n_blocks + LANES)  # near_boxes reads eight j-clusters at a time
    )
    for first, last, columns in ranges:
        bounding_boxes(x, columns.start, first, last, scale, i_boxes, j_boxes)
    return i_boxes, j_boxes


def _largest_radius(boxes: Boxes) -> float:
    """Largest half diagonal [nm] of any box."""
    return float(np.sqrt((boxes.half_cartesian.astype(np.float64) ** 2).sum(axis=0).max(initial=0.0)))


def _reach(box, widths, r_list: float, scale, i_boxes: Boxes, j_boxes: Boxes) -> Reach:
    lattice = np.ceil(r_list * _ROUNDING / widths * PERIOD).astype(np.int64) + 1
    orthorhombic = is_orthorhombic(box)
    extent = r_list * _ROUNDING + _largest_radius(i_boxes) + _largest_radius(j_boxes)
    boxes_are_right = orthorhombic or extent <= 0.5 * widths.min()
    box_limit = np.float32(r_list**2 * _ROUNDING**8 if boxes_are_right else np.inf)
    return Reach(lattice, scale, orthorhombic, box_limit, np.float32(r_list**2))


def _room(old: TileList | None, n_blocks: int, entries_per_cluster: int) -> TileList:
    """An empty list, in the memory of an old one if there is one."""
    entries = np.empty((2 * n_blocks * entries_per_cluster, 4), np.int64)
    tile_of_cluster = np.full(n_blocks, -1, np.int64)
    if old is not None:
        return old._replace(entries=entries, tile_of_cluster=tile_of_cluster)
    room = 128 * n_blocks + 1024
    tiles = np.empty(room, np.int32), np.empty(room, np.uint32)
    return TileList(entries, *tiles, tile_of_cluster)


def _fill(
    tiles: TileList,
    parts,
    exact: bool,
    blank: bool,
    required: int,
    places,
    i_boxes,
    j_boxes,
    reach,
    exclusions,
):
    """Fill one list from (i-range, columns, half, owned_only) parts, enlarging it until it fits."""
    counts = np.zeros(4, np.int64)
    for (first, last), columns, half, owned_only in parts:
        options = (
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
        )
        while (first := append_tiles((first, last), *options, tiles, counts)) < last:
            tiles = _enlarge(tiles)
    return tiles._replace(entries=tiles.entries[: counts[0]]), counts


def _enlarge(tiles: TileList) -> TileList:
    """A list with twice the room and the same content."""
    j_cluster, pair_mask = (
        np.concatenate((old, np.empty_like(old))) for old in (tiles.j_cluster, tiles.pair_mask)
    )
    return tiles._replace(j_cluster=j_cluster, pair_mask=pair_mask)
