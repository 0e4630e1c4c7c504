"""Forces without what constraints balance, as minimisation needs them."""

from __future__ import annotations

import numpy as np
from numba import njit

from pulsemd.kernels.bonded.geometry import difference, dot

TOLERANCE = 1e-6
"""Force along a constraint, relative to the largest of its group, at which the iteration ends."""

MAX_ITERATIONS = 1000


@njit(nogil=True, error_model="numpy", cache=True)
def project_forces(x, forces, offset, pairs, box):
    """Take out the components along constraints, by iterating over those of each group.

    With all masses equal, forces that are left move no two constrained atoms towards each other: the velocity
    constraints of RATTLE (H. C. Andersen, J. Comput. Phys. 52, 24 (1983)), of forces.

    Parameters
    ----------
    x : (n, 3) int32, lattice units
    forces : (n, 3) float64, kJ/mol/nm
        OUTPUT, changed.
    offset : (g + 1,) int64
        Constraints ``offset[k]:offset[k + 1]`` share atoms with no others.
    pairs : (c, 2) int32, rows
    box : (3, 3) float64, nm
    """
    for g in range(offset.shape[0] - 1):
        largest = 0.0
        for c in range(offset[g], offset[g + 1]):
            for a in range(2):
                for d in range(3):
                    largest = max(largest, abs(forces[pairs[c, a], d]))
        for _ in range(MAX_ITERATIONS):
            worst = 0.0
            for c in range(offset[g], offset[g + 1]):
                i, j = pairs[c, 0], pairs[c, 1]
                r = difference(x, i, j, box)
                apart = (
                    forces[i, 0] - forces[j, 0],
                    forces[i, 1] - forces[j, 1],
                    forces[i, 2] - forces[j, 2],
                )
                r2, along = dot(r, r), dot(r, apart)
                for d in range(3):
                    forces[i, d] -= 0.5 * along / r2 * r[d]
                    forces[j, d] += 0.5 * along / r2 * r[d]
                worst = max(worst, abs(along) / np.sqrt(r2))
            if not worst > TOLERANCE * largest:
                break


@njit(nogil=True, error_model="numpy", cache=True)
def project_triangles(x, forces, triangles, box):
    """The same of three constraints between three atoms, by Cramer's rule.

    Parameters
    ----------
    x, forces, box
        As for `project_forces`.
    triangles : (m, 3) int32, rows
    """
    for t in range(triangles.shape[0]):
        a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        p, q, r = difference(x, a, b, box), difference(x, a, c, box), difference(x, b, c, box)
        fa = (forces[a, 0], forces[a, 1], forces[a, 2])
        fb = (forces[b, 0], forces[b, 1], forces[b, 2])
        fc = (forces[c, 0], forces[c, 1], forces[c, 2])
        u, v, w = dot(p, fa) - dot(p, fb), dot(q, fa) - dot(q, fc), dot(r, fb) - dot(r, fc)
        pp, qq, rr = 2.0 * dot(p, p), 2.0 * dot(q, q), 2.0 * dot(r, r)
        pq, pr, qr = dot(p, q), -dot(p, r), dot(q, r)
        determinant = pp * (qq * rr - qr * qr) - pq * (pq * rr - qr * pr) + pr * (pq * qr - qq * pr)
        k = (u * (qq * rr - qr * qr) - pq * (v * rr - qr * w) + pr * (v * qr - qq * w)) / determinant
        m = (pp * (v * rr - qr * w) - u * (pq * rr - qr * pr) + pr * (pq * w - v * pr)) / determinant
        n = (pp * (qq * w - v * qr) - pq * (pq * w - v * pr) + u * (pq * qr - qq * pr)) / determinant
        for d in range(3):
            forces[a, d] -= k * p[d] + m * q[d]
            forces[b, d] += k * p[d] - n * r[d]
            forces[c, d] += m * q[d] + n * r[d]
