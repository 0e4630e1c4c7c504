"""The ownership rule in two plain forms, for comparing with what kernels do."""

from __future__ import annotations

import numpy as np
from numba import njit

from pulsemd.domain.grid import Grid
from pulsemd.domain.ownership import lattice_delta


@njit
def pair_is_mine(leader_i, leader_j, home_i, home_j, split):
    """Whether this rank owns the pair of two local rows.

    Parameters
    ----------
    leader_i, leader_j : (3,) int32, lattice positions of the leaders at the search
    home_i, home_j : uint8, home bits of the rows
    split : (k,) int64, the dimensions with two or more cells
    """
    for d in split:
        lower = home_j if lattice_delta(leader_i[d], leader_j[d]) < 0 else home_i
        if not (lower >> d) & 1:
            return False
    return True


def owner_of_terms(leader_x: np.ndarray, grid: Grid) -> np.ndarray:
    """Ranks (m,) int32 that own terms, from the positions of their leaders alone.

    Parameters
    ----------
    leader_x : (m, k, 3) int32
        Leaders of the k atoms of each term; pairs are k = 2.
    """
    delta = (leader_x.view(np.uint32) - leader_x[:, :1].view(np.uint32)).view(np.int32)
    lowest = np.take_along_axis(leader_x, delta.argmin(axis=1)[:, None], axis=1)[:, 0]
    return grid.rank_of(np.ascontiguousarray(lowest))
