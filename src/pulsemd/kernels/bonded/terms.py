"""The bonded terms of GROMACS' common core.

Every kernel takes ``(x, box, rows, index, parameters, f, sums, slot, virial, scale, error)``:

x : (n_local, 3) int32, lattice units
box : (3, 3) float64, nm
rows : (m, k) int32, local rows of the atoms of each term
index : (m,) int32, row of `parameters` of each term
parameters : (P, p) float64; energies in kJ/mol, lengths in nm, angles in radians
f : (n_local, 3) float32 kJ/mol/nm or int64 fixed point. OUTPUT, added to.
sums : energies and virial, float64 or int64; OUTPUT, added to; empty where not wanted
slot, virial : int, where in `sums` the energy and the nine elements of sum r (x) f go
scale, error : see `geometry`

References
----------
GROMACS reference manual 2022, "Interaction function and force fields / Bonded interactions"; derivatives of dihedral
angles after H. Bekker et al., in Physics Computing 92, World Scientific (1993).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from pulsemd.kernels.bonded.bends import angle_at, bend
from pulsemd.kernels.bonded.geometry import add_energy, add_pair, add_virial, cross, difference, dot


@njit(nogil=True, error_model="numpy", cache=True)
def harmonic_bonds(x, box, rows, index, parameters, f, sums, slot, virial, scale, error):
    """V = k/2 (r - r0)^2; parameters r0, k [kJ/mol/nm^2]."""
    for t in range(rows.shape[0]):
        i, j = rows[t, 0], rows[t, 1]
        _stretch(
            x,
            box,
            i,
            j,
            parameters[index[t], 0],
            parameters[index[t], 1],
            f,
            sums,
            slot,
            virial,
            scale,
            error,
        )


@njit(nogil=True, error_model="numpy", cache=True)
def _stretch(x, box, i, j, r0, k, f, sums, slot, virial, scale, error):
    r = difference(x, i, j, box)
    length = math.sqrt(dot(r, r))
    g = -k * (length - r0) / length if length > 0.0 else 0.0
    force = (g * r[0], g * r[1], g * r[2])
    add_pair(f, i, j, force, scale, error)
    add_energy(sums, slot, 0.5 * k * (length - r0) ** 2, scale)
    add_virial(sums, virial, r, force, scale)


@njit(nogil=True, error_model="numpy", cache=True)
def _bend(x, box, i, j, k, theta0, stiffness, f, sums, slot, virial, scale, error):
    """Harmonic angle at j: V = k/2 (theta - theta0)^2, through its derivative by cos(theta)."""
    c, s, a, b, la, lb = angle_at(x, box, i, j, k)
    theta = math.acos(c)
    add_energy(sums, slot, 0.5 * stiffness * (theta - theta0) ** 2, scale)
    if s < 1e-12:
        return  # a straight angle: the force along the bend is undefined, and zero in the mean
    bend(f, i, j, k, stiffness * (theta - theta0) / s, c, a, b, la, lb, sums, virial, scale, error)


@njit(nogil=True, error_model="numpy", cache=True)
def harmonic_angles(x, box, rows, index, parameters, f, sums, slot, virial, scale, error):
    """V = k/2 (theta - theta0)^2; parameters theta0, k [kJ/mol/rad^2]."""
    for t in range(rows.shape[0]):
        p = parameters[index[t]]
        _bend(x, box, rows[t, 0], rows[t, 1], rows[t, 2], p[0], p[1], f, sums, slot, virial, scale, error)


@njit(nogil=True, error_model="numpy", cache=True)
def urey_bradley_angles(x, box, rows, index, parameters, f, sums, slot, virial, scale, error):
    """Harmonic angle and 1-3 distance; parameters theta0, k_theta, r13, k_ub."""
    for t in range(rows.shape[0]):
        p = parameters[index[t]]
        i, j, k = rows[t, 0], rows[t, 1], rows[t, 2]
        _bend(x, box, i, j, k, p[0], p[1], f, sums, slot, virial, scale, error)
        _stretch(x, box, i, k, p[2], p[3], f, sums, slot, virial, scale, error)


@njit(nogil=True, error_model="numpy", cache=True)
def dihedral_angle(x, box, i, j, k, m):
    """Dihedral angle i-j-k-m in (-pi, pi], 0 in the cis conformation, with the vectors its forces need.

    Returns phi, r_ij, r_kj, r_km, and the normals m = r_ij x r_kj, n = r_kj x r_km.
    """
    rij, rkj, rkl = difference(x, i, j, box), difference(x, k, j, box), difference(x, k, m, box)
    p, q = cross(rij, rkj), cross(rkj, rkl)
    sine = math.sqrt(dot(rkj, rkj)) * dot(rij, q)
    return math.atan2(sine, dot(p, q)), rij, rkj, rkl, p, q


@njit(nogil=True, error_model="numpy", cache=True)
def twist(f, i, j, k, m, slope, rij, rkj, rkl, p, q, sums, virial, scale, error):
    """Add the forces of a dihedral whose energy has derivative `slope` by its angle."""
    pp, qq, kk = dot(p, p), dot(q, q), dot(rkj, rkj)
    if not (pp > 1e-24 and qq > 1e-24):
        return  # three atoms in a line: the angle and its forces are undefined
    length = math.sqrt(kk)
    gi, gm = -slope * length / pp, slope * length / qq
    fi = (gi * p[0], gi * p[1], gi * p[2])
    fm = (gm * q[0], gm * q[1], gm * q[2])
    u, w = dot(rij, rkj) / kk, dot(rkl, rkj) / kk
    sv = (u * fi[0] - w * fm[0], u * fi[1] - w * fm[1], u * fi[2] - w * fm[2])
    # force on j: -(f_i - sv), on k: -(f_m + sv); written as pairs so that the four sum to zero exactly
    add_pair(f, i, j, fi, scale, error)
    add_pair(f, m, k, fm, scale, error)
    add_pair(f, j, k, sv, scale, error)
    add_virial(sums, virial, rij, fi, scale)
    add_virial(sums, virial, (-rkl[0], -rkl[1], -rkl[2]), fm, scale)
    add_virial(sums, virial, (-rkj[0], -rkj[1], -rkj[2]), sv, scale)


@njit(nogil=True, error_model="numpy", cache=True)
def proper_dihedrals(x, box, rows, index, parameters, f, sums, slot, virial, scale, error):
    """V = k (1 + cos(n phi - phi0)); parameters phi0, k, n."""
    for t in range(rows.shape[0]):
        p = parameters[index[t]]
        i, j, k, m = rows[t, 0], rows[t, 1], rows[t, 2], rows[t, 3]
        phi, rij, rkj, rkl, a, b = dihedral_angle(x, box, i, j, k, m)
        argument = p[2] * phi - p[0]
        add_energy(sums, slot, p[1] * (1.0 + math.cos(argument)), scale)
        twist(
            f, i, j, k, m, -p[1] * p[2] * math.sin(argument), rij, rkj, rkl, a, b, sums, virial, scale, error
        )


@njit(nogil=True, error_model="numpy", cache=True)
def harmonic_impropers(x, box, rows, index, parameters, f, sums, slot, virial, scale, error):
    """V = k/2 (xi - xi0)^2 with the difference in [-pi, pi]; parameters xi0, k [kJ/mol/rad^2]."""
    for t in range(rows.shape[0]):
        p = parameters[index[t]]
        i, j, k, m = rows[t, 0], rows[t, 1], rows[t, 2], rows[t, 3]
        phi, rij, rkj, rkl, a, b = dihedral_angle(x, box, i, j, k, m)
        away = phi - p[0]
        away -= 2.0 * math.pi * np.rint(away / (2.0 * math.pi))
        add_energy(sums, slot, 0.5 * p[1] * away * away, scale)
        twist(f, i, j, k, m, p[1] * away, rij, rkj, rkl, a, b, sums, virial, scale, error)


@njit(nogil=True, error_model="numpy", cache=True)
def ryckaert_bellemans(x, box, rows, index, parameters, f, sums, slot, virial, scale, error):
    """V = sum_n C_n cos^n(psi), psi = phi - pi; parameters C_0 ... C_5."""
    for t in range(rows.shape[0]):
        p = parameters[index[t]]
        i, j, k, m = rows[t, 0], rows[t, 1], rows[t, 2], rows[t, 3]
        phi, rij, rkj, rkl, a, b = dihedral_angle(x, box, i, j, k, m)
        c = -math.cos(phi)
        energy, slope = p[5], 0.0
        for n in range(4, -1, -1):
            slope = slope * c + energy
            energy = energy * c + p[n]
        add_energy(sums, slot, energy, scale)
        # dV/dphi = dV/dc * dc/dphi with dc/dphi = sin(phi)
        twist(f, i, j, k, m, slope * math.sin(phi), rij, rkj, rkl, a, b, sums, virial, scale, error)


@njit(nogil=True, error_model="numpy", cache=True)
def pairs14(x, box, rows, index, parameters, f, sums, slot, virial, scale, error):
    """1-4 pairs: V = c12/r^12 - c6/r^6 (slot) and qq/r (slot + 1); parameters c6, c12, qq [kJ/mol nm]."""
    for t in range(rows.shape[0]):
        p = parameters[index[t]]
        i, j = rows[t, 0], rows[t, 1]
        r = difference(x, i, j, box)
        inverse2 = 1.0 / dot(r, r)
        inverse6 = inverse2 * inverse2 * inverse2
        coulomb = p[2] * math.sqrt(inverse2)
        g = ((12.0 * p[1] * inverse6 - 6.0 * p[0]) * inverse6 + coulomb) * inverse2
        force = (g * r[0], g * r[1], g * r[2])
        add_pair(f, i, j, force, scale, error)
        add_energy(sums, slot, (p[1] * inverse6 - p[0]) * inverse6, scale)
        add_energy(sums, slot + 1, coulomb, scale)
        add_virial(sums, virial, r, force, scale)
