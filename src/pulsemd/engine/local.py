"""Local rows of what the topology says, after each search."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def local_exclusions(gid, row_of, offset, atoms):  # type: ignore[no-untyped-def]
    """Exclusions of local rows as CSR over local rows; partners that are not on this rank are dropped.

    Parameters
    ----------
    gid : (n_local,) int32
    row_of : (n_atoms,) int32, local row of each global id, -1 if absent
    offset, atoms : (n_atoms + 1,) int64, (k,) int32, exclusions by global id

    Returns
    -------
    (n_local + 1,) int64, (m,) int32
    """
    n, most = gid.shape[0], 0
    for r in range(n):
        most += offset[gid[r] + 1] - offset[gid[r]]
    local_offset, rows = np.empty(n + 1, np.int64), np.empty(most, np.int32)
    local_offset[0] = m = 0
    for r in range(n):
        for k in range(offset[gid[r]], offset[gid[r] + 1]):
            partner = row_of[atoms[k]]
            if partner >= 0:
                rows[m] = partner
                m += 1
        local_offset[r + 1] = m
    return local_offset, rows[:m]


@njit(cache=True, nogil=True)
def exclusion_pairs(offset, atoms):  # type: ignore[no-untyped-def]
    """Every excluded pair once, lower global id first, (k, 2) int32, from the symmetric CSR."""
    pairs = np.empty((atoms.shape[0] // 2, 2), np.int32)
    m = 0
    for i in range(offset.shape[0] - 1):
        for k in range(offset[i], offset[i + 1]):
            if atoms[k] > i:
                pairs[m, 0], pairs[m, 1] = i, atoms[k]
                m += 1
    return pairs[:m]
