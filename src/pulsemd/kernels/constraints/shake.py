"""Leap-frog of small groups of atoms with distance constraints solved by SHAKE.

For the stars of hydrogens around one atom that constrained bonds to hydrogens make. Within an update group all atoms
are on one rank, so nothing is communicated and the result depends on the group alone.

References
----------
J. P. Ryckaert, G. Ciccotti, H. J. C. Berendsen, J. Comput. Phys. 23, 327 (1977).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from pulsemd.kernels.update.leapfrog import move

TOLERANCE = 1e-10
"""Relative deviation of a squared length where nothing else is wanted: 5e-12 nm of 0.1 nm."""

MAX_ITERATIONS = 500
_LATTICE = 2.0**-32


@njit(nogil=True, error_model="numpy", cache=True)
def _iterate(old, new, mass, pairs, lengths, first, last, tolerance):
    """Move `new` (m, 3) along the old bonds until the constraints [first, last) hold; False if they never do."""
    for _ in range(MAX_ITERATIONS):
        worst = 0.0
        for c in range(first, last):
            i, j = pairs[c, 0], pairs[c, 1]
            sx, sy, sz = new[j, 0] - new[i, 0], new[j, 1] - new[i, 1], new[j, 2] - new[i, 2]
            rx, ry, rz = old[j, 0] - old[i, 0], old[j, 1] - old[i, 1], old[j, 2] - old[i, 2]
            d2 = lengths[c] * lengths[c]
            gap = sx * sx + sy * sy + sz * sz - d2
            along = sx * rx + sy * ry + sz * rz
            if not (along > 1e-3 * d2 and abs(gap) < 1e3 * d2):
                return False  # turned by a right angle in one step, or not a number
            worst = max(worst, abs(gap) / d2)
            wi, wj = 1.0 / mass[i], 1.0 / mass[j]
            g = gap / (2.0 * along * (wi + wj))
            new[i, 0] += g * wi * rx
            new[i, 1] += g * wi * ry
            new[i, 2] += g * wi * rz
            new[j, 0] -= g * wj * rx
            new[j, 1] -= g * wj * ry
            new[j, 2] -= g * wj * rz
        if worst < tolerance:
            return True
    return False


@njit(nogil=True, error_model="numpy", cache=True)
def leapfrog_shake(
    x, v, f, f_scale, group_offset, group_rows, pair_offset, pairs, lengths, mass, box, inv, dt, scale, com,
    virial, virial_scale, tolerance=TOLERANCE,
):  # fmt: skip
    """Advance constrained groups by one step.

    Parameters
    ----------
    x, v, f, f_scale, box, inv, dt, scale, com, virial, virial_scale
        As for `pulsemd.kernels.update.leapfrog.leapfrog_settle`.
    group_offset, group_rows : (g + 1,) int64, (k,) int32
        Local rows of the atoms of each group.
    pair_offset, pairs, lengths : (g + 1,) int64, (c, 2) int32, (c,) float64
        Constraints of each group: atoms counted within the group, and length in nm.
    mass : (n_local,) float64, amu, positive in these groups
    tolerance : float
        Relative deviation of a squared length at which the iteration ends.

    Returns
    -------
    int
        -1, or the local row of an atom that moves more than a quarter box, or that would move farthest without
        constraints in a group that cannot be constrained.
    """
    bad = -1
    largest = 0
    for g in range(group_offset.shape[0] - 1):
        largest = max(largest, group_offset[g + 1] - group_offset[g])
    old, free, new = np.empty((largest, 3)), np.empty((largest, 3)), np.empty((largest, 3))
    m = np.empty(largest)
    for g in range(group_offset.shape[0] - 1):
        first, n = group_offset[g], group_offset[g + 1] - group_offset[g]
        leader = group_rows[first]
        for a in range(n):
            r = group_rows[first + a]
            m[a] = mass[r]
            sx = np.float64(np.int32(x[r, 0] - x[leader, 0])) * _LATTICE
            sy = np.float64(np.int32(x[r, 1] - x[leader, 1])) * _LATTICE
            sz = np.float64(np.int32(x[r, 2] - x[leader, 2])) * _LATTICE
            for d in range(3):
                old[a, d] = sx * box[0, d] + sy * box[1, d] + sz * box[2, d]
                u = scale * (v[r, d] - com[d]) + dt / m[a] * (f[r, d] * f_scale)
                free[a, d] = new[a, d] = old[a, d] + dt * u
        if not _iterate(old, new, m, pairs, lengths, pair_offset[g], pair_offset[g + 1], tolerance):
            bad = group_rows[first + _farthest(old, free, n)] if bad < 0 else bad
            continue
        if virial.shape[0] == 9:
            _add_virial(old, free, new, m, n, dt, virial, virial_scale)
        for a in range(n):
            r = group_rows[first + a]
            dx, dy, dz = new[a, 0] - old[a, 0], new[a, 1] - old[a, 1], new[a, 2] - old[a, 2]
            if not move(x, r, dx, dy, dz, inv) and bad < 0:
                bad = r
            v[r, 0], v[r, 1], v[r, 2] = dx / dt, dy / dt, dz / dt
    return bad


@njit(nogil=True, error_model="numpy", cache=True)
def _farthest(old, free, n):
    """Which of the first n atoms moves farthest, or first has a place that is not a number."""
    found, largest = 0, -1.0
    for a in range(n):
        square = 0.0
        for d in range(3):
            square += (free[a, d] - old[a, d]) ** 2
        if not square <= largest:
            found, largest = a, square
            if np.isnan(square):
                break
    return found


@njit(nogil=True, error_model="numpy", cache=True)
def _add_virial(old, free, new, mass, n, dt, virial, virial_scale):
    """Add r (x) f of the constraint forces of one group, positions relative to its leader."""
    for i in range(3):
        for j in range(3):
            s = 0.0
            for a in range(1, n):
                s += old[a, i] * mass[a] * (new[a, j] - free[a, j])
            s /= dt * dt
            if virial_scale > 0.0:
                virial[3 * i + j] += np.int64(np.rint(s * virial_scale))
            else:
                virial[3 * i + j] += s
