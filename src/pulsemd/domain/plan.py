"""Building the halo of one rank at a neighbour search: order of the owned rows, halo width, plan."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pulsemd.base.box import widths_of
from pulsemd.base.errors import DomainError
from pulsemd.domain.atoms import Int32, Int64, LocalAtoms, UpdateGroups, local_groups, rows_of_groups
from pulsemd.domain.ghosts import GroupTable, build_direct, build_staged, with_remote_starts
from pulsemd.domain.grid import Grid, check_grid, lattice_halo
from pulsemd.domain.lattice import LATTICE, check_cutoff
from pulsemd.domain.ownership import ALL_HOME, home_bits, lattice_delta
from pulsemd.halo import HaloPlan, Transport
from pulsemd.halo.agreement import raise_lowest, sendable
from pulsemd.halo.plan import Kind

_CURVE_BITS = 10  # of the space-filling curve along the longest edge
_BOUNDARY = 1 << 61  # flag of boundary groups in their sort key


@dataclass(frozen=True, eq=False)
class LocalDomain:
    """What a rank holds from one search to the next: rows [interior | boundary | ghost], groups consecutive.

    Attributes
    ----------
    atoms : LocalAtoms
        The owned rows, in their new order.
    n_interior, n_owned, n_local : int
        Interior rows are sent in no pulse.
    most_local : int
        Largest ``n_local`` of any rank: what symmetric arrays have to hold.
    gid : (n_local,) int32
    leader_x : (n_local, 3) int32
        Lattice position of each row's leader at the search; it decides ownership until the next one.
    home : (n_local,) uint8
        Bit d: the leader's cell component d is this rank's.
    local_row : (n_atoms,) int32
        Row of every global id, -1 if it is not here.
    plan : HaloPlan
    halo_width : float, nm
    """

    atoms: LocalAtoms
    n_interior: int
    n_owned: int
    n_local: int
    most_local: int
    gid: Int32
    leader_x: Int32
    home: NDArray[np.uint8]
    local_row: Int32
    plan: HaloPlan
    halo_width: float


def build_halo(
    transport: Transport,
    grid: Grid,
    groups: UpdateGroups,
    atoms: LocalAtoms,
    box: NDArray[np.float64],
    r_list: float,
    extent: float = 0.0,
    kind: Kind = "staged",
) -> LocalDomain:
    """Order the owned atoms and build the halo plan. Collective.

    Parameters
    ----------
    transport : Transport
    grid : Grid
    groups : UpdateGroups
    atoms : LocalAtoms
        As `migrate` left them.
    box : (3, 3) float64, nm
        Lattice-reduced; the same on every rank.
    r_list : float, nm
        Pairs up to this distance at this moment will have both atoms on the rank that owns them.
    extent : float, nm
        Largest distance between two leaders of one term on this rank (`max_leader_extent`).
    kind : 'staged' | 'direct'
        Pulses Z -> Y -> X with forwarding, or one pulse to every lower neighbour. Both give the same ghosts.

    Returns
    -------
    LocalDomain

    Raises
    ------
    DomainError
        On every rank: the cut-off or the halo does not fit, atoms were not migrated first, atoms were lost,
        or an atom arrived twice.
    """
    rank = transport.rank
    error: DomainError | None = None
    reach = 0.0
    try:
        ids, start = local_groups(groups, atoms.gid)
        leader = np.take(atoms.x, start[:-1], axis=0)
        _check_owned(grid, rank, atoms, start, leader)
        check_cutoff(r_list, box)
        reach = max_group_reach(atoms.x, start, box)
    except DomainError as problem:
        error = problem
    halo_width = _agree_halo_width(transport, groups, error, len(atoms), reach, r_list, extent)
    check_grid(grid, box, halo_width)
    halo = lattice_halo(halo_width, box)

    order, n_interior_groups = _curve_order(grid, rank, halo, widths_of(box), leader, ids)
    atoms = atoms.take(rows_of_groups(order, start))
    start = np.concatenate([[0], np.cumsum(np.diff(start)[order])])
    owned = GroupTable(ids[order], leader[order], start, np.full(len(order), -1, np.int32))
    build = build_staged if kind == "staged" else build_direct
    table, pulses = build(transport, grid, groups, halo, owned)
    n_local = int(table.start[-1])
    home = home_bits(table.leader, grid, rank)
    *rows, twice = _expand(table.ids, table.leader, home, groups.offset, groups.atoms, n_local)
    error = (
        DomainError(f"rank {rank}: atom {twice + 1} is here twice, as owned or ghost") if twice >= 0 else None
    )
    landed, most_local = with_remote_starts(transport, pulses, n_local, error)
    gid, leader_x, home, local_row = rows
    return LocalDomain(
        atoms=atoms,
        n_interior=int(start[n_interior_groups]),
        n_owned=len(atoms),
        n_local=n_local,
        most_local=most_local,
        gid=gid,
        leader_x=leader_x,
        home=home,
        local_row=local_row,
        plan=HaloPlan(rank, grid.size, len(atoms), n_local, landed, kind),
        halo_width=halo_width,
    )


def _check_owned(grid: Grid, rank: int, atoms: LocalAtoms, start: Int64, leader: Int32) -> None:
    """Every leader must be in this rank's cell."""
    if grid.size == 1:
        return
    away = np.flatnonzero(home_bits(leader, grid, rank) != ALL_HOME)
    if away.size:
        first = away[0]
        atom, owner = int(atoms.gid[start[first]]), grid.rank_of(leader[first : first + 1])[0]
        raise DomainError(
            f"rank {rank} holds atom {atom + 1} of rank {owner}; migrate before building a halo"
        )


def _agree_halo_width(
    transport: Transport,
    groups: UpdateGroups,
    error: DomainError | None,
    n_owned: int,
    reach: float,
    r_list: float,
    extent: float,
) -> float:
    """Halo width from the largest reach and extent of all ranks; raises an error of any rank, or for a lost atom."""
    shares = transport.allgather((sendable(error), n_owned, reach, extent))
    raise_lowest([share[0] for share in shares])
    n_atoms = sum(share[1] for share in shares)
    if n_atoms != groups.n_atoms:
        raise DomainError(f"the ranks own {n_atoms} atoms together but the system has {groups.n_atoms}")
    return float(max(r_list + 2.0 * max(share[2] for share in shares), *(share[3] for share in shares)))


@njit(cache=True, nogil=True)
def _expand(ids, leader, home, offset, atoms, n_local):  # type: ignore[no-untyped-def]
    """Global id, leader and home bits of every row, the row of every atom, and the first atom found twice or -1."""
    gid, leader_x = np.empty(n_local, np.int32), np.empty((n_local, 3), np.int32)
    homes, local_row = np.empty(n_local, np.uint8), np.full(atoms.size, -1, np.int32)
    twice, row = np.int64(-1), 0
    for g in range(ids.size):
        for k in range(offset[ids[g]], offset[ids[g] + 1]):
            atom = atoms[k]
            if local_row[atom] >= 0 and twice < 0:
                twice = np.int64(atom)
            gid[row], homes[row], local_row[atom] = atom, home[g], row
            for d in range(3):
                leader_x[row, d] = leader[g, d]
            row += 1
    return gid, leader_x, homes, local_row, twice


def _curve_order(
    grid: Grid,
    rank: int,
    halo: tuple[int, int, int],
    w: NDArray[np.float64],
    leader: Int32,
    ids: Int32,
) -> tuple[Int32, int]:
    """Order of owned groups, interior first, then along a Z-order curve, then by group; and the interior
    count.

    The order depends on positions alone, never on where a group came from.
    """
    cell = grid.cell_of_rank(rank)
    lower = np.array([grid.bounds[d][cell[d]] for d in range(3)], dtype=np.int64)
    span = np.array([halo[d] if grid.shape[d] > 1 else 0 for d in range(3)], dtype=np.int64)
    bits = np.maximum(_CURVE_BITS - np.rint(np.log2(w.max() / w)).astype(np.int64), 0)
    keys = _curve_keys(leader, ids, lower, span, bits)
    return np.argsort(keys).astype(np.int32), int(np.count_nonzero(keys < _BOUNDARY))


@njit(cache=True, nogil=True)
def _curve_keys(leader, ids, lower, span, bits):  # type: ignore[no-untyped-def]
    """Unique sort keys: boundary flag, 30 bits of a Z-order curve of nearly cubic cells, group."""
    keys = np.empty(ids.size, np.int64)
    for g in range(ids.size):
        boundary = False
        curve = np.int64(0)
        for d in range(3):
            boundary |= ((np.int64(leader[g, d]) - lower[d]) & 0xFFFFFFFF) < span[d]
            cell = (np.int64(leader[g, d]) & 0xFFFFFFFF) >> (32 - bits[d])
            for b in range(bits[d]):
                curve |= ((cell >> b) & 1) << (3 * b + d)
        keys[g] = (np.int64(boundary) * _BOUNDARY) | (curve << 31) | np.int64(ids[g])
    return keys


def max_group_reach(x: Int32, start: Int64, box: NDArray[np.float64]) -> float:
    """Largest distance [nm] of an atom from its leader; group k is rows start[k]:start[k + 1]."""
    return float(np.sqrt(_group_reach_squared(x, start, box)))


@njit(cache=True, nogil=True)
def _group_reach_squared(x, start, box):  # type: ignore[no-untyped-def]
    largest = 0.0
    for g in range(start.size - 1):
        for row in range(start[g] + 1, start[g + 1]):
            largest = max(largest, _distance_squared(x[start[g]], x[row], box))
    return largest


def max_leader_extent(term_rows: Int32, leader_x: Int32, box: NDArray[np.float64]) -> float:
    """Largest distance between two leaders of one term.

    Parameters
    ----------
    term_rows : (m, k) int32
        Rows of ``leader_x``: local rows of the terms that this rank computed so far, or global ids at the
        start.
    leader_x : (n, 3) int32
        Where each row's leader is now.
    box : (3, 3) float64, nm

    Returns
    -------
    float, nm
        Of this rank's terms; `build_halo` takes the largest of all ranks.
    """
    return float(np.sqrt(_leader_extent_squared(term_rows, leader_x, box)))


@njit(cache=True, nogil=True)
def _leader_extent_squared(term_rows, leader_x, box):  # type: ignore[no-untyped-def]
    largest = 0.0
    for t in range(term_rows.shape[0]):
        for a in range(term_rows.shape[1]):
            for b in range(a):
                square = _distance_squared(leader_x[term_rows[t, a]], leader_x[term_rows[t, b]], box)
                largest = max(largest, square)
    return largest


@njit(cache=True, nogil=True)
def _distance_squared(a, b, box):  # type: ignore[no-untyped-def]
    """Squared minimum-image distance [nm^2] of two lattice positions."""
    square = 0.0
    for c in range(3):
        component = 0.0
        for d in range(3):
            component += lattice_delta(a[d], b[d]) * (box[d, c] / LATTICE)
        square += component * component
    return square
