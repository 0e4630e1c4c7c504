"""Vectors without their components along constraints: forces of minimisation, velocities at full steps.

They are the velocity constraints of RATTLE (H. C. Andersen, J. Comput. Phys. 52, 24 (1983)). Arguments common to all:

x : (n, 3) int32, lattice units
vectors : (n, 3) float64
    OUTPUT, changed.
inverse_mass : (n,) float64
box : (3, 3) float64, nm
over : float
    What a change of momentum is to be divided by to give a force: the time it takes.
virial : (9,) float64 or int64, or empty
    OUTPUT, added to: sum of r (x) f of the constraint forces.
virial_scale : float
    As for `leapfrog_settle`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from pulsemd.kernels.bonded.geometry import add_virial, difference, dot

MAX_ITERATIONS = 1000


@njit(nogil=True, error_model="numpy", cache=True)
def project_pairs(x, vectors, inverse_mass, offset, pairs, box, tolerance, over, virial, virial_scale):
    """Take out the components along constraints, by iterating over those of each group.

    Parameters
    ----------
    offset : (g + 1,) int64
        Constraints ``offset[k]:offset[k + 1]`` share atoms with no others.
    pairs : (c, 2) int32, rows
    tolerance : float
        Component along a constraint, relative to the largest vector of its group, at which the iteration ends.
    """
    found = np.zeros(9)
    for g in range(offset.shape[0] - 1):
        largest = 0.0
        for c in range(offset[g], offset[g + 1]):
            for a in range(2):
                for d in range(3):
                    largest = max(largest, abs(vectors[pairs[c, a], d]))
        found[:] = 0.0
        for _ in range(MAX_ITERATIONS):
            worst = 0.0
            for c in range(offset[g], offset[g + 1]):
                i, j = pairs[c, 0], pairs[c, 1]
                r = difference(x, i, j, box)
                apart = (
                    vectors[i, 0] - vectors[j, 0],
                    vectors[i, 1] - vectors[j, 1],
                    vectors[i, 2] - vectors[j, 2],
                )
                r2, along = dot(r, r), dot(r, apart)
                wi, wj = inverse_mass[i], inverse_mass[j]
                k = along / (r2 * (wi + wj))
                for d in range(3):
                    vectors[i, d] -= wi * k * r[d]
                    vectors[j, d] += wj * k * r[d]
                if virial.shape[0] > 0:
                    for a in range(3):
                        for b in range(3):
                            found[3 * a + b] += k * r[a] * r[b]
                worst = max(worst, abs(along) / np.sqrt(r2))
            if not worst > tolerance * largest:
                break
        for e in range(virial.shape[0]):
            if virial_scale > 0.0:
                virial[e] -= np.int64(np.rint(found[e] / over * virial_scale))
            else:
                virial[e] -= found[e] / over


@njit(nogil=True, error_model="numpy", cache=True)
def _add(virial, r, k, virial_scale):
    """Add the virial of the force k r."""
    add_virial(virial, 0, r, (k * r[0], k * r[1], k * r[2]), virial_scale)


@njit(nogil=True, error_model="numpy", cache=True)
def project_triangles(x, vectors, inverse_mass, triangles, box, over, virial, virial_scale):
    """The same of three constraints between three atoms, (m, 3) int32 rows, by Cramer's rule."""
    for t in range(triangles.shape[0]):
        a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        p, q, r = difference(x, a, b, box), difference(x, a, c, box), difference(x, b, c, box)
        wa, wb, wc = inverse_mass[a], inverse_mass[b], inverse_mass[c]
        va = (vectors[a, 0], vectors[a, 1], vectors[a, 2])
        vb = (vectors[b, 0], vectors[b, 1], vectors[b, 2])
        vc = (vectors[c, 0], vectors[c, 1], vectors[c, 2])
        u, v, w = dot(p, va) - dot(p, vb), dot(q, va) - dot(q, vc), dot(r, vb) - dot(r, vc)
        pp, qq, rr = (wa + wb) * dot(p, p), (wa + wc) * dot(q, q), (wb + wc) * dot(r, r)
        pq, pr, qr = wa * dot(p, q), -wb * dot(p, r), wc * dot(q, r)
        determinant = pp * (qq * rr - qr * qr) - pq * (pq * rr - qr * pr) + pr * (pq * qr - qq * pr)
        k = (u * (qq * rr - qr * qr) - pq * (v * rr - qr * w) + pr * (v * qr - qq * w)) / determinant
        m = (pp * (v * rr - qr * w) - u * (pq * rr - qr * pr) + pr * (pq * w - v * pr)) / determinant
        n = (pp * (qq * w - v * qr) - pq * (pq * w - v * pr) + u * (pq * qr - qq * pr)) / determinant
        for d in range(3):
            vectors[a, d] -= wa * (k * p[d] + m * q[d])
            vectors[b, d] += wb * (k * p[d] - n * r[d])
            vectors[c, d] += wc * (m * q[d] + n * r[d])
        _add(virial, p, -k / over, virial_scale)
        _add(virial, q, -m / over, virial_scale)
        _add(virial, r, -n / over, virial_scale)
