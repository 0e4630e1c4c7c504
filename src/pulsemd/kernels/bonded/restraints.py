"""Restraints of single atoms to the nearest image of a reference position."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from pulsemd.kernels.bonded.geometry import FORCE_LIMIT, add_energy, add_virial, difference_of


@njit(nogil=True, error_model="numpy", cache=True)
def position_restraints(
    x, box, rows, reference, rigid, index, parameters, f, sums, slot, virial, scale, error
):
    """V = 1/2 sum_d k_d (x_d - ref_d)^2; arguments as in `pulsemd.kernels.bonded.terms`.

    Parameters
    ----------
    reference, rigid : (m, 3) int32, lattice units, (m, 2, 3) float64
        Reference position of each term, see `pulsemd.topology.restraints.ReferencePositions`.
    parameters : (P, 3) float64, force constants kx, ky, kz [kJ/mol/nm^2]
    """
    for t in range(rows.shape[0]):
        k = parameters[index[t]]
        r = _from_reference(x, rows[t, 0], reference, rigid, t, box)
        force = (-k[0] * r[0], -k[1] * r[1], -k[2] * r[2])
        _add(f, rows[t, 0], r, rigid[t, 1], force, sums, virial, scale, error)
        add_energy(sums, slot, 0.5 * (k[0] * r[0] * r[0] + k[1] * r[1] * r[1] + k[2] * r[2] * r[2]), scale)


@njit(nogil=True, error_model="numpy", cache=True)
def flat_bottoms(x, box, rows, reference, rigid, index, parameters, f, sums, slot, virial, scale, error):
    """V = k/2 (d - R)^2 outside a sphere, cylinder or layer of size R about the reference.

    Parameters
    ----------
    parameters : (P, 5) float64
        For x, y and z 1 if the distance d counts it, else 0; R [nm], negative to keep the atom outside of -R instead;
        k [kJ/mol/nm^2].
    """
    for t in range(rows.shape[0]):
        p = parameters[index[t]]
        r = _from_reference(x, rows[t, 0], reference, rigid, t, box)
        r = (p[0] * r[0], p[1] * r[1], p[2] * r[2])
        distance = math.sqrt(r[0] * r[0] + r[1] * r[1] + r[2] * r[2])
        beyond = distance - abs(p[3])
        if distance == 0.0 or (beyond <= 0.0) == (p[3] >= 0.0):
            continue
        g = -p[4] * beyond / distance
        force = (g * r[0], g * r[1], g * r[2])
        _add(f, rows[t, 0], r, rigid[t, 1], force, sums, virial, scale, error)
        add_energy(sums, slot, 0.5 * p[4] * beyond * beyond, scale)


@njit(nogil=True, error_model="numpy", cache=True)
def _from_reference(x, i, reference, rigid, t, box):
    """Vector in nm from the reference position of term t to row i."""
    r, u, o = difference_of(x, i, reference, t, box), rigid[t, 0], rigid[t, 1]
    return (
        r[0] + (u[0] * box[0, 0] + u[1] * box[1, 0] + u[2] * box[2, 0] - o[0]),
        r[1] + (u[0] * box[0, 1] + u[1] * box[1, 1] + u[2] * box[2, 1] - o[1]),
        r[2] + (u[0] * box[0, 2] + u[1] * box[1, 2] + u[2] * box[2, 2] - o[2]),
    )


@njit(nogil=True, error_model="numpy", cache=True)
def _add(f, i, r, o, force, sums, virial, scale, error):
    """Add a force to row i, and the virial (r + o) (x) force; o is the part of the reference that does not scale."""
    for d in range(3):
        if not abs(force[d]) < FORCE_LIMIT:
            error[0] = i + 1
        elif scale > 0.0:
            f[i, d] += np.int64(np.rint(force[d] * scale))
        else:
            f[i, d] += force[d]
    add_virial(sums, virial, (r[0] + o[0], r[1] + o[1], r[2] + o[2]), force, scale)
