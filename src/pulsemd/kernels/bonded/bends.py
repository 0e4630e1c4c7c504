"""Terms of three atoms beyond the common core; arguments as in `pulsemd.kernels.bonded.terms`.

References
----------
GROMACS reference manual 2022, "Bonded interactions"; restricted bending: M. Bulacu et al., J. Chem. Theory Comput. 9,
3282 (2013).
"""

from __future__ import annotations

import math

from numba import njit

from pulsemd.kernels.bonded.geometry import add_energy, add_pair, add_virial, difference, dot
from pulsemd.kernels.bonded.stretches import pull


@njit(nogil=True, error_model="numpy", cache=True)
def angle_at(x, box, i, j, k):
    """cos and sin of the angle i-j-k, the vectors r_ij and r_kj, and their lengths."""
    a, b = difference(x, i, j, box), difference(x, k, j, box)
    la, lb = math.sqrt(dot(a, a)), math.sqrt(dot(b, b))
    c = min(1.0, max(-1.0, dot(a, b) / (la * lb)))
    return c, math.sqrt(1.0 - c * c), a, b, la, lb


@njit(nogil=True, error_model="numpy", cache=True)
def bend(f, i, j, k, g, c, a, b, la, lb, sums, virial, scale, error):
    """Add the forces of an energy of the angle at j with the derivative -g by its cosine."""
    turn(f, i, j, k, j, g, c, a, b, la, lb, sums, virial, scale, error)


@njit(nogil=True, error_model="numpy", cache=True)
def turn(f, i, j, k, m, g, c, a, b, la, lb, sums, virial, scale, error):
    """Add the forces of an energy of the angle between the vectors a from j to i and b from m to k."""
    fi = (
        g * (b[0] / (la * lb) - c * a[0] / (la * la)),
        g * (b[1] / (la * lb) - c * a[1] / (la * la)),
        g * (b[2] / (la * lb) - c * a[2] / (la * la)),
    )
    fk = (
        g * (a[0] / (la * lb) - c * b[0] / (lb * lb)),
        g * (a[1] / (la * lb) - c * b[1] / (lb * lb)),
        g * (a[2] / (la * lb) - c * b[2] / (lb * lb)),
    )
    add_pair(f, i, j, fi, scale, error)
    add_pair(f, k, m, fk, scale, error)
    add_virial(sums, virial, a, fi, scale)
    add_virial(sums, virial, b, fk, scale)


@njit(nogil=True, error_model="numpy", cache=True)
def cosine_angles(x, box, rows, index, parameters, f, sums, slot, virial, scale, error):
    """V = k/2 (cos theta - cos theta0)^2; parameters theta0, k [kJ/mol]."""
    for t in range(rows.shape[0]):
        i, j, k = rows[t, 0], rows[t, 1], rows[t, 2]
        stiffness = parameters[index[t], 1]
        c, _, a, b, la, lb = angle_at(x, box, i, j, k)
        gap = c - math.cos(parameters[index[t], 0])
        add_energy(sums, slot, 0.5 * stiffness * gap * gap, scale)
        bend(f, i, j, k, -stiffness * gap, c, a, b, la, lb, sums, virial, scale, error)


@njit(nogil=True, error_model="numpy", cache=True)
def restricted_angles(x, box, rows, index, parameters, f, sums, slot, virial, scale, error):
    """V = k/2 (cos theta - cos theta0)^2 / sin^2 theta; parameters theta0, k [kJ/mol]."""
    for t in range(rows.shape[0]):
        i, j, k = rows[t, 0], rows[t, 1], rows[t, 2]
        c0, stiffness = math.cos(parameters[index[t], 0]), parameters[index[t], 1]
        c, s, a, b, la, lb = angle_at(x, box, i, j, k)
        s2 = s * s
        add_energy(sums, slot, 0.5 * stiffness * (c - c0) ** 2 / s2, scale)
        g = -stiffness * (c - c0) * (1.0 - c * c0) / (s2 * s2)
        bend(f, i, j, k, g, c, a, b, la, lb, sums, virial, scale, error)


@njit(nogil=True, error_model="numpy", cache=True)
def quartic_angles(x, box, rows, index, parameters, f, sums, slot, virial, scale, error):
    """V = sum_n C_n (theta - theta0)^n; parameters theta0, C_0 ... C_4 [kJ/mol/rad^n]."""
    for t in range(rows.shape[0]):
        i, j, k = rows[t, 0], rows[t, 1], rows[t, 2]
        p = parameters[index[t]]
        c, s, a, b, la, lb = angle_at(x, box, i, j, k)
        gap = math.acos(c) - p[0]
        energy, slope = p[5], 0.0
        for n in range(4, 0, -1):
            slope = slope * gap + energy
            energy = energy * gap + p[n]
        add_energy(sums, slot, energy, scale)
        if s > 1e-12:  # of a straight angle the force along the bend is undefined, and zero in the mean
            bend(f, i, j, k, slope / s, c, a, b, la, lb, sums, virial, scale, error)


@njit(nogil=True, error_model="numpy", cache=True)
def linear_angles(x, box, rows, index, parameters, f, sums, slot, virial, scale, error):
    """V = k/2 |a r_ij + (1 - a) r_kj|^2; parameters a, k [kJ/mol/nm^2]."""
    for t in range(rows.shape[0]):
        i, j, k = rows[t, 0], rows[t, 1], rows[t, 2]
        part, stiffness = parameters[index[t], 0], parameters[index[t], 1]
        one, two = difference(x, i, j, box), difference(x, k, j, box)
        rest = 1.0 - part
        d = (part * one[0] + rest * two[0], part * one[1] + rest * two[1], part * one[2] + rest * two[2])
        gi, gk = -stiffness * part, -stiffness * rest
        fi, fk = (gi * d[0], gi * d[1], gi * d[2]), (gk * d[0], gk * d[1], gk * d[2])
        add_pair(f, i, j, fi, scale, error)
        add_pair(f, k, j, fk, scale, error)
        add_energy(sums, slot, 0.5 * stiffness * dot(d, d), scale)
        add_virial(sums, virial, one, fi, scale)
        add_virial(sums, virial, two, fk, scale)


@njit(nogil=True, error_model="numpy", cache=True)
def bond_bond_crosses(x, box, rows, index, parameters, f, sums, slot, virial, scale, error):
    """V = k (r_ij - r1) (r_kj - r2); parameters r1, r2, k [kJ/mol/nm^2]."""
    for t in range(rows.shape[0]):
        i, j, k = rows[t, 0], rows[t, 1], rows[t, 2]
        p = parameters[index[t]]
        _, _, a, b, la, lb = angle_at(x, box, i, j, k)
        pull(f, i, j, a, -p[2] * (lb - p[1]) / la, sums, virial, scale, error)
        pull(f, k, j, b, -p[2] * (la - p[0]) / lb, sums, virial, scale, error)
        add_energy(sums, slot, p[2] * (la - p[0]) * (lb - p[1]), scale)


@njit(nogil=True, error_model="numpy", cache=True)
def bond_angle_crosses(x, box, rows, index, parameters, f, sums, slot, virial, scale, error):
    """V = k (r_ik - r3) (r_ij - r1 + r_kj - r2); parameters r1, r2, r3, k [kJ/mol/nm^2]."""
    for t in range(rows.shape[0]):
        i, j, k = rows[t, 0], rows[t, 1], rows[t, 2]
        p = parameters[index[t]]
        _, _, a, b, la, lb = angle_at(x, box, i, j, k)
        outer = difference(x, i, k, box)
        lo = math.sqrt(dot(outer, outer))
        stretched, opened = la - p[0] + lb - p[1], lo - p[2]
        pull(f, i, j, a, -p[3] * opened / la, sums, virial, scale, error)
        pull(f, k, j, b, -p[3] * opened / lb, sums, virial, scale, error)
        pull(f, i, k, outer, -p[3] * stretched / lo, sums, virial, scale, error)
        add_energy(sums, slot, p[3] * opened * stretched, scale)


@njit(nogil=True, error_model="numpy", cache=True)
def angle_restraints(x, box, rows, index, parameters, f, sums, slot, virial, scale, error):
    """V = k (1 - cos(n (theta - theta0))) of the angle between 1 -> 2 and 3 -> 4; parameters theta0, k [kJ/mol], n."""
    for t in range(rows.shape[0]):
        p = parameters[index[t]]
        i, j, k, m = rows[t, 0], rows[t, 1], rows[t, 2], rows[t, 3]
        a, b = difference(x, j, i, box), difference(x, m, k, box)
        la, lb = math.sqrt(dot(a, a)), math.sqrt(dot(b, b))
        c = min(1.0, max(-1.0, dot(a, b) / (la * lb)))
        energy, g = _periodic(c, p)
        add_energy(sums, slot, energy, scale)
        turn(f, j, i, m, k, g, c, a, b, la, lb, sums, virial, scale, error)


@njit(nogil=True, error_model="numpy", cache=True)
def angle_restraints_z(x, box, rows, index, parameters, f, sums, slot, virial, scale, error):
    """The same of the angle between 1 -> 2 and the z axis."""
    for t in range(rows.shape[0]):
        i, j = rows[t, 0], rows[t, 1]
        a = difference(x, j, i, box)
        length = math.sqrt(dot(a, a))
        c = min(1.0, max(-1.0, a[2] / length))
        energy, g = _periodic(c, parameters[index[t]])
        add_energy(sums, slot, energy, scale)
        h = g / length
        force = (-h * c * a[0] / length, -h * c * a[1] / length, h * (1.0 - c * a[2] / length))
        add_pair(f, j, i, force, scale, error)
        add_virial(sums, virial, a, force, scale)


@njit(nogil=True, error_model="numpy", cache=True)
def _periodic(c, p):
    """k (1 - cos(n (theta - theta0))) and minus its derivative by c = cos theta; 0 where theta has no direction."""
    argument = p[2] * (math.acos(c) - p[0])
    s = math.sqrt(1.0 - c * c)
    g = p[1] * p[2] * math.sin(argument) / s if s > 1e-12 else 0.0
    return p[1] * (1.0 - math.cos(argument)), g
