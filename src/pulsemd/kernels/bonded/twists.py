"""Terms of four atoms beyond the common core; arguments as in `pulsemd.kernels.bonded.terms`.

References
----------
GROMACS reference manual 2022, "Bonded interactions" and "Restraints"; restricted and combined terms: M. Bulacu et al.,
J. Chem. Theory Comput. 9, 3282 (2013).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from pulsemd.kernels.bonded.bends import angle_at, bend
from pulsemd.kernels.bonded.geometry import add_energy
from pulsemd.kernels.bonded.terms import dihedral_angle, twist


@njit(nogil=True, error_model="numpy", cache=True)
def restricted_dihedrals(x, box, rows, index, parameters, f, sums, slot, virial, scale, error):
    """V = k/2 (cos phi - cos phi0)^2 / sin^2 phi; parameters phi0, k [kJ/mol]."""
    for t in range(rows.shape[0]):
        i, j, k, m = rows[t, 0], rows[t, 1], rows[t, 2], rows[t, 3]
        c0, stiffness = math.cos(parameters[index[t], 0]), parameters[index[t], 1]
        phi, rij, rkj, rkl, a, b = dihedral_angle(x, box, i, j, k, m)
        c, s = math.cos(phi), math.sin(phi)
        add_energy(sums, slot, 0.5 * stiffness * ((c - c0) / s) ** 2, scale)
        slope = -stiffness * (c - c0) * (1.0 - c * c0) / (s * s * s)
        twist(f, i, j, k, m, slope, rij, rkj, rkl, a, b, sums, virial, scale, error)


@njit(nogil=True, error_model="numpy", cache=True)
def bending_torsions(x, box, rows, index, parameters, f, sums, slot, virial, scale, error):
    """V = k sin^3 theta1 sin^3 theta2 sum_n a_n cos^n phi of both angles and the torsion; parameters k, a_0 ... a_4.

    It has no singularity: where three atoms are in a line the energy is zero.
    """
    for t in range(rows.shape[0]):
        i, j, k, m = rows[t, 0], rows[t, 1], rows[t, 2], rows[t, 3]
        p = parameters[index[t]]
        phi, rij, rkj, rkl, a, b = dihedral_angle(x, box, i, j, k, m)
        c1, s1, ij, kj, lij, lkj = angle_at(x, box, i, j, k)
        c2, s2, jk, mk, ljk, lmk = angle_at(x, box, j, k, m)
        c = math.cos(phi)
        value, by_c = p[5], 0.0
        for n in range(4, 0, -1):
            by_c = by_c * c + value
            value = value * c + p[n]
        sines = s1 * s1 * s1 * s2 * s2 * s2
        add_energy(sums, slot, p[0] * sines * value, scale)
        slope = -p[0] * sines * by_c * math.sin(phi)
        twist(f, i, j, k, m, slope, rij, rkj, rkl, a, b, sums, virial, scale, error)
        by_angle = 3.0 * p[0] * value * s1 * s2  # the derivative by theta1 over sin theta1 is this c1 s2^2
        bend(f, i, j, k, by_angle * c1 * s2 * s2, c1, ij, kj, lij, lkj, sums, virial, scale, error)
        bend(f, j, k, m, by_angle * c2 * s1 * s1, c2, jk, mk, ljk, lmk, sums, virial, scale, error)


@njit(nogil=True, error_model="numpy", cache=True)
def dihedral_restraints(x, box, rows, index, parameters, f, sums, slot, virial, scale, error):
    """V = k/2 (|phi - phi0| - width)^2 where positive; parameters phi0, width, k [kJ/mol/rad^2]."""
    for t in range(rows.shape[0]):
        p = parameters[index[t]]
        i, j, k, m = rows[t, 0], rows[t, 1], rows[t, 2], rows[t, 3]
        phi, rij, rkj, rkl, a, b = dihedral_angle(x, box, i, j, k, m)
        away = phi - p[0]
        away -= 2.0 * math.pi * np.rint(away / (2.0 * math.pi))
        beyond = away - min(max(away, -p[1]), p[1])
        add_energy(sums, slot, 0.5 * p[2] * beyond * beyond, scale)
        twist(f, i, j, k, m, p[2] * beyond, rij, rkj, rkl, a, b, sums, virial, scale, error)
