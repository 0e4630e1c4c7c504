"""Which rank computes a pair or a term: exact integer rules, frozen at each search.

In every split dimension the leader that is lower, by the sign of the int32 difference, gives its cell; ties
share a cell. The owner may own none of the atoms, but all of them are within its halo (see
`pulsemd.domain.ghosts`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pulsemd.base.errors import DomainError
from pulsemd.domain.grid import Grid
from pulsemd.halo import Transport

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

ALL_HOME = 7
"""Home bits of a leader that is in this rank's cell."""

_NAMED = 5  # terms named in a message


@njit(cache=True, nogil=True)
def lattice_delta(a, b):  # type: ignore[no-untyped-def]
    """``b - a`` of two lattice components, wrapped to int32 (Numba would widen the plain difference)."""
    return np.int32(np.int64(b) - np.int64(a))


@njit(cache=True, nogil=True)
def _my_terms(term_atoms, local_row, leader_x, home, split):  # type: ignore[no-untyped-def]
    """Terms whose atoms are all here and whose lowest leader, in each split dimension, is in this rank's cell."""
    m, k = term_atoms.shape
    mine, rows = np.empty(m, np.int64), np.empty((m, k), np.int32)
    required, count = 0, 0
    for d in split:
        required |= 1 << d
    for t in range(m if home.size else 0):
        common, present = required, True
        for a in range(k):
            row = local_row[term_atoms[t, a]]
            rows[count, a] = row
            present &= row >= 0
            common &= home[row]  # of any row where there is none
        if not present:
            continue
        if common == required or _lowest_at_home(rows[count], leader_x, home, split):
            mine[count] = t
            count += 1
    return mine[:count].copy(), rows[:count].copy()


@njit(cache=True, nogil=True)
def _lowest_at_home(rows, leader_x, home, split):  # type: ignore[no-untyped-def]
    """Whether the lowest leader of a term, in each split dimension, is in this rank's cell."""
    for d in split:
        lowest, first, smallest = rows[0], np.int64(leader_x[rows[0], d]), np.int32(0)
        for row in rows[1:]:
            delta = np.int32(np.int64(leader_x[row, d]) - first)
            if delta < smallest:
                lowest, smallest = row, delta
        if not (home[lowest] >> d) & 1:
            return False
    return True


def assign_terms(
    term_atoms: Int32,
    local_row: Int32,
    leader_x: Int32,
    home: NDArray[np.uint8],
    split_dims: tuple[int, ...],
) -> tuple[Int64, Int32]:
    """The terms that this rank computes.

    Parameters
    ----------
    term_atoms : (m, k) int32, global ids
    local_row : (n_atoms,) int32
        Local row of every global id, -1 if it is not here.
    leader_x : (n_local, 3) int32
    home : (n_local,) uint8
    split_dims : tuple of int

    Returns
    -------
    mine : (m_mine,) int64
        Indices into ``term_atoms``, ascending.
    rows : (m_mine, k) int32
        Their local rows.
    """
    split = np.array(split_dims, dtype=np.int64)
    mine, rows = _my_terms(np.ascontiguousarray(term_atoms), local_row, leader_x, home, split)
    return mine, rows


def check_terms(
    transport: Transport, terms: Mapping[str, tuple[Int32, Int64]], describe_atom: Callable[[int], str]
) -> None:
    """Require that every term is computed by exactly one rank. Collective.

    Parameters
    ----------
    terms : mapping of name -> (term_atoms (m, k) int32 global ids, mine (m_mine,) int64)
        The same names on every rank; ``mine`` from `assign_terms`.
    describe_atom : callable
        Global id -> name for the message.

    Raises
    ------
    DomainError
        On every rank alike, naming the first terms that no rank or more than one rank computes.
    """
    counts = transport.allgather(np.array([len(mine) for _, mine in terms.values()], dtype=np.int64))
    totals = np.sum(counts, axis=0)
    for total, (name, (term_atoms, mine)) in zip(totals, terms.items(), strict=True):
        if total != len(term_atoms):
            shares = np.bincount(np.concatenate(transport.allgather(mine)), minlength=len(term_atoms))
            raise DomainError(_describe_wrong_terms(name, term_atoms, shares, describe_atom))


def _describe_wrong_terms(
    name: str, term_atoms: Int32, shares: Int64, describe_atom: Callable[[int], str]
) -> str:
    wrong = np.flatnonzero(shares != 1)
    listed = "; ".join(
        f"{' - '.join(describe_atom(int(gid)) for gid in term_atoms[t])} on {shares[t]} ranks"
        for t in wrong[:_NAMED]
    )
    return (
        f"{len(wrong)} of {len(term_atoms)} {name} terms are not computed by exactly one rank: {listed}; "
        "an atom has moved beyond the halo, so the simulation is unstable or the halo too narrow"
    )


def home_bits(leader_x: Int32, grid: Grid, rank: int) -> NDArray[np.uint8]:
    """Home bits (n,) uint8: bit d is set if component d of the leader's cell is that of ``rank``.

    Always set in a dimension that is not split.
    """
    home = np.zeros(len(leader_x), dtype=np.uint8)
    cell = grid.cell_of_rank(rank)
    lower = np.array([grid.bounds[d][cell[d]] for d in range(3)], np.int64)
    width = np.array([grid.cell_widths[d][cell[d]] for d in range(3)], np.int64)
    _fill_home(leader_x, lower, width, home)
    return home


@njit(cache=True, nogil=True)
def _fill_home(leader_x, lower, width, home):  # type: ignore[no-untyped-def]
    for i in range(home.size):
        for d in range(3):
            if ((np.int64(leader_x[i, d]) - lower[d]) & 0xFFFFFFFF) < width[d]:
                home[i] |= 1 << d
