"""What all bonded kernels share: differences, and adding forces, energies and virials in either precision.

`scale` is 0 in fast mode (float arrays, plain sums). In reproducible mode it is the number of fixed-point units per
kJ/mol/nm of forces; energies and virials then have `ENERGY_SCALE` units per kJ/mol. The last atom of a term gets the
negative sum of the integers of the others, so that momentum is exact. A force that is not a number or leaves a quarter
of the fixed-point range writes the row of its atom, plus 1, to ``error[0]``.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from pulsemd.base.fixed_point import ENERGY_SCALE

FORCE_LIMIT = 2.0**29
"""Largest force component, kJ/mol/nm: a quarter of the range of int64 at 2^32 units per kJ/mol/nm."""
_LATTICE = 2.0**-32


@njit(nogil=True, error_model="numpy", cache=True)
def difference(x, i, j, box):
    """Minimum-image vector x_i - x_j in nm, from lattice rows i and j; exactly odd in (i, j)."""
    return difference_of(x, i, x, j, box)


@njit(nogil=True, error_model="numpy", cache=True)
def difference_of(x, i, y, j, box):
    """Minimum-image vector x_i - y_j in nm, from rows of two arrays of lattice positions."""
    sx = np.float64(np.int32(x[i, 0] - y[j, 0])) * _LATTICE
    sy = np.float64(np.int32(x[i, 1] - y[j, 1])) * _LATTICE
    sz = np.float64(np.int32(x[i, 2] - y[j, 2])) * _LATTICE
    return (
        sx * box[0, 0] + sy * box[1, 0] + sz * box[2, 0],
        sx * box[0, 1] + sy * box[1, 1] + sz * box[2, 1],
        sx * box[0, 2] + sy * box[1, 2] + sz * box[2, 2],
    )


@njit(nogil=True, error_model="numpy", cache=True)
def cross(a, b):
    """Vector product."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@njit(nogil=True, error_model="numpy", cache=True)
def dot(a, b):
    """Scalar product."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@njit(nogil=True, error_model="numpy", cache=True)
def add_pair(f, i, j, force, scale, error):
    """Add `force` to row i and its negative to row j."""
    for d in range(3):
        if not abs(force[d]) < FORCE_LIMIT:
            error[0] = i + 1
        elif scale > 0.0:
            n = np.int64(np.rint(force[d] * scale))
            f[i, d] += n
            f[j, d] -= n
        else:
            f[i, d] += force[d]
            f[j, d] -= force[d]


@njit(nogil=True, error_model="numpy", cache=True)
def add_energy(sums, slot, energy, scale):
    """Add an energy to its slot; nothing where `sums` is empty."""
    if sums.shape[0] > 0:
        if scale > 0.0:
            sums[slot] += np.int64(np.rint(energy * ENERGY_SCALE))
        else:
            sums[slot] += energy


@njit(nogil=True, error_model="numpy", cache=True)
def add_virial(sums, first, r, force, scale):
    """Add r (x) force to the nine elements from `first`; nothing where `sums` is empty."""
    if sums.shape[0] > 0:
        for a in range(3):
            for b in range(3):
                if scale > 0.0:
                    sums[first + 3 * a + b] += np.int64(np.rint(r[a] * force[b] * ENERGY_SCALE))
                else:
                    sums[first + 3 * a + b] += r[a] * force[b]
