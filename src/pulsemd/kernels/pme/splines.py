"""Spreading charges onto the mesh and taking forces from it, on CPUs."""

from __future__ import annotations

import numpy as np
from numba import njit

CHARGE_SCALE = 2.0**40
"""Units of charge on the mesh per e: its sum over any number of ranks is exact, and one mesh the same for all."""

_MOST = 6


@njit(cache=True, nogil=True)
def _weights(fraction, order, w, slope):
    """Cardinal B-splines of the points 0 ... order - 1 from the first that an atom touches, and their derivatives.

    ``fraction``: of a mesh spacing, from the point to the atom's left. By recursion over the order
    (Essmann et al., J. Chem. Phys. 103, 8577 (1995), eq. 3.6 and 4.1).
    """
    w[0], w[1] = 1.0 - fraction, fraction
    for n in range(3, order + 1):
        if n == order:
            slope[0] = -w[0]
            for k in range(1, order - 1):
                slope[k] = w[k - 1] - w[k]
            slope[order - 1] = w[order - 2]
        scale = 1.0 / (n - 1)
        w[n - 1] = scale * fraction * w[n - 2]
        for k in range(n - 2, 0, -1):
            w[k] = scale * ((fraction + (n - 1 - k)) * w[k - 1] + ((k + 1) - fraction) * w[k])
        w[0] = scale * (1.0 - fraction) * w[0]


@njit(cache=True, nogil=True)
def _locate(x, n_points):
    """First point that an atom touches and the fraction: exact, the lattice position times the number of points."""
    product = np.uint64(np.uint32(x)) * np.uint64(n_points)
    return np.int64(product >> np.uint64(32)), float(product & np.uint64(0xFFFFFFFF)) / 4294967296.0


@njit(cache=True, nogil=True)
def on_mesh(x, frame):
    """Lattice positions (n, 3) int32 of the run in the mesh's box, exactly; ``frame`` as in `Mesh`, int32."""
    turned = np.empty_like(x)
    for i in range(len(x)):
        for d in range(3):
            turned[i, d] = np.int32(x[i, 0] * frame[0, d] + x[i, 1] * frame[1, d] + x[i, 2] * frame[2, d])
    return turned


@njit(cache=True, nogil=True)
def spread_charges(x, charge, order, mesh):
    """Add charges to the mesh.

    Parameters
    ----------
    x : (n, 3) int32, lattice units
    charge : (n,) float64, e
    order : int
    mesh : (n_a, n_b, n_c) int64, units of e / `CHARGE_SCALE`
        OUTPUT, added to.
    """
    w, slope, first = np.empty((3, _MOST)), np.empty(_MOST), np.empty(3, np.int64)
    n = mesh.shape
    for i in range(len(charge)):
        if charge[i] == 0.0:
            continue
        for d in range(3):
            first[d], fraction = _locate(x[i, d], n[d])
            _weights(fraction, order, w[d], slope)
        q = charge[i] * CHARGE_SCALE
        for ka in range(order):
            a = (first[0] + ka) % n[0]
            for kb in range(order):
                b = (first[1] + kb) % n[1]
                qab = q * w[0, ka] * w[1, kb]
                for kc in range(order):
                    c = first[2] + kc
                    mesh[a, b, c if c < n[2] else c - n[2]] += np.int64(np.rint(qab * w[2, kc]))


@njit(cache=True, nogil=True)
def mesh_forces(x, charge, order, potential, inverse, forces):
    """Forces of the potential on the mesh.

    Parameters
    ----------
    x : (n, 3) int32, lattice units
    charge : (n,) float64, e
    order : int
    potential : (n_a, n_b, n_c) float64, kJ/mol/e
    inverse : (3, 3) float64, 1/nm
        Inverse of the box.
    forces : (n, 3) float64, kJ/mol/nm
        OUTPUT.
    """
    w, slope, first = np.empty((3, _MOST)), np.empty((3, _MOST)), np.empty(3, np.int64)
    n = potential.shape
    for i in range(len(charge)):
        for d in range(3):
            first[d], fraction = _locate(x[i, d], n[d])
            _weights(fraction, order, w[d], slope[d])
        ga, gb, gc = 0.0, 0.0, 0.0
        for ka in range(order):
            a = (first[0] + ka) % n[0]
            for kb in range(order):
                b = (first[1] + kb) % n[1]
                value, along = 0.0, 0.0
                for kc in range(order):
                    c = first[2] + kc
                    p = potential[a, b, c if c < n[2] else c - n[2]]
                    value += w[2, kc] * p
                    along += slope[2, kc] * p
                ga += slope[0, ka] * w[1, kb] * value
                gb += w[0, ka] * slope[1, kb] * value
                gc += w[0, ka] * w[1, kb] * along
        ga, gb, gc = -charge[i] * n[0] * ga, -charge[i] * n[1] * gb, -charge[i] * n[2] * gc
        for d in range(3):
            forces[i, d] = inverse[d, 0] * ga + inverse[d, 1] * gb + inverse[d, 2] * gc
