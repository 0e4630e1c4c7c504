"""Correction maps: a bicubic surface over the two backbone dihedral angles.

References
----------
A. D. MacKerell, M. Feig, C. L. Brooks, J. Comput. Chem. 25, 1400 (2004).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from pulsemd.kernels.bonded.geometry import add_energy
from pulsemd.kernels.bonded.terms import dihedral_angle, twist


def cmap_coefficients(grid: np.ndarray) -> np.ndarray:
    """Bicubic coefficients of a periodic map.

    Parameters
    ----------
    grid : (n, n) float64, kJ/mol
        Energies at (phi, psi) = (-180 + 360 i / n, -180 + 360 j / n) degrees.

    Returns
    -------
    (n, n, 4, 4) float64
        In cell (i, j) the energy is sum_kl c[k, l] u^k w^l with u, w in [0, 1): values and first derivatives agree at
        the nodes with the periodic cubic splines through them, the cross derivative with the spline of the spline.
    """
    slope_u = _spline_slopes(grid)
    slope_w = _spline_slopes(grid.T).T
    cross = _spline_slopes(slope_w)
    hermite = np.array([[1, 0, 0, 0], [0, 0, 1, 0], [-3, 3, -2, -1], [2, -2, 1, 1]], float)

    def corners(values: np.ndarray) -> np.ndarray:
        up = np.roll(values, -1, 0)
        return np.array([[values, np.roll(values, -1, 1)], [up, np.roll(up, -1, 1)]])

    blocks = np.block(
        [
            [corners(grid).transpose(2, 3, 0, 1), corners(slope_w).transpose(2, 3, 0, 1)],
            [corners(slope_u).transpose(2, 3, 0, 1), corners(cross).transpose(2, 3, 0, 1)],
        ]
    )
    return np.ascontiguousarray(hermite @ blocks @ hermite.T)


def _spline_slopes(values: np.ndarray) -> np.ndarray:
    """Slopes per cell of the periodic cubic splines along axis 0: s[i-1] + 4 s[i] + s[i+1] = 3 (y[i+1] - y[i-1])."""
    n = len(values)
    eye = np.eye(n)
    matrix = 4.0 * eye + np.roll(eye, 1, 0) + np.roll(eye, -1, 0)
    return np.linalg.solve(matrix, 3.0 * (np.roll(values, -1, 0) - np.roll(values, 1, 0)))


@njit(nogil=True, error_model="numpy", cache=True)
def cmaps(x, box, rows, index, coefficients, f, sums, slot, virial, scale, error):
    """Add correction maps; arguments as in `pulsemd.kernels.bonded.terms`.

    Parameters
    ----------
    rows : (m, 5) int32; phi is the dihedral of the first four atoms, psi that of the last four
    coefficients : (P, n, n, 4, 4) float64, of `cmap_coefficients`
    """
    n = coefficients.shape[1]
    per_radian = n / (2.0 * math.pi)
    for t in range(rows.shape[0]):
        a, b, c, d, e = rows[t, 0], rows[t, 1], rows[t, 2], rows[t, 3], rows[t, 4]
        phi, ij, kj, kl, p, q = dihedral_angle(x, box, a, b, c, d)
        psi, ij2, kj2, kl2, p2, q2 = dihedral_angle(x, box, b, c, d, e)
        u, w = (phi + math.pi) * per_radian, (psi + math.pi) * per_radian
        i, j = math.floor(u), math.floor(w)
        u, w = u - i, w - j
        k = coefficients[index[t], i % n, j % n]
        energy, by_u, by_w = 0.0, 0.0, 0.0
        for m in range(3, -1, -1):
            row = ((k[m, 3] * w + k[m, 2]) * w + k[m, 1]) * w + k[m, 0]
            row_w = (3.0 * k[m, 3] * w + 2.0 * k[m, 2]) * w + k[m, 1]
            by_u = by_u * u + energy
            energy = energy * u + row
            by_w = by_w * u + row_w
        add_energy(sums, slot, energy, scale)
        twist(f, a, b, c, d, by_u * per_radian, ij, kj, kl, p, q, sums, virial, scale, error)
        twist(f, b, c, d, e, by_w * per_radian, ij2, kj2, kl2, p2, q2, sums, virial, scale, error)
