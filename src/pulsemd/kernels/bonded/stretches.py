"""Terms of one distance beyond the common core; arguments as in `pulsemd.kernels.bonded.terms`.

References
----------
GROMACS reference manual 2022, "Bonded interactions" and "Restraints".
"""

from __future__ import annotations

import math

from numba import njit

from pulsemd.kernels.bonded.geometry import add_energy, add_pair, add_virial, difference, dot


@njit(nogil=True, error_model="numpy", cache=True)
def pull(f, i, j, r, g, sums, virial, scale, error):
    """Add the force g r to row i and its negative to row j, with its virial; r is x_i - x_j."""
    force = (g * r[0], g * r[1], g * r[2])
    add_pair(f, i, j, force, scale, error)
    add_virial(sums, virial, r, force, scale)


@njit(nogil=True, error_model="numpy", cache=True)
def quartic_bonds(x, box, rows, index, parameters, f, sums, slot, virial, scale, error):
    """V = k/4 (r^2 - r0^2)^2; parameters r0, k [kJ/mol/nm^4]."""
    for t in range(rows.shape[0]):
        i, j = rows[t, 0], rows[t, 1]
        r0, k = parameters[index[t], 0], parameters[index[t], 1]
        r = difference(x, i, j, box)
        gap = dot(r, r) - r0 * r0
        pull(f, i, j, r, -k * gap, sums, virial, scale, error)
        add_energy(sums, slot, 0.25 * k * gap * gap, scale)


@njit(nogil=True, error_model="numpy", cache=True)
def morse_bonds(x, box, rows, index, parameters, f, sums, slot, virial, scale, error):
    """V = D (1 - exp(-beta (r - r0)))^2; parameters r0, D, beta [1/nm]."""
    for t in range(rows.shape[0]):
        p = parameters[index[t]]
        r = difference(x, rows[t, 0], rows[t, 1], box)
        length = math.sqrt(dot(r, r))
        decay = math.exp(-p[2] * (length - p[0]))
        g = -2.0 * p[1] * p[2] * decay * (1.0 - decay) / length
        pull(f, rows[t, 0], rows[t, 1], r, g, sums, virial, scale, error)
        add_energy(sums, slot, p[1] * (1.0 - decay) ** 2, scale)


@njit(nogil=True, error_model="numpy", cache=True)
def cubic_bonds(x, box, rows, index, parameters, f, sums, slot, virial, scale, error):
    """V = k (r - r0)^2 (1 + c (r - r0)); parameters r0, k [kJ/mol/nm^2], c [1/nm]."""
    for t in range(rows.shape[0]):
        p = parameters[index[t]]
        r = difference(x, rows[t, 0], rows[t, 1], box)
        length = math.sqrt(dot(r, r))
        gap = length - p[0]
        g = -p[1] * gap * (2.0 + 3.0 * p[2] * gap) / length
        pull(f, rows[t, 0], rows[t, 1], r, g, sums, virial, scale, error)
        add_energy(sums, slot, p[1] * gap * gap * (1.0 + p[2] * gap), scale)


@njit(nogil=True, error_model="numpy", cache=True)
def fene_bonds(x, box, rows, index, parameters, f, sums, slot, virial, scale, error):
    """V = -k/2 b^2 ln(1 - r^2/b^2); parameters b, k [kJ/mol/nm^2]. A bond as long as b is an error."""
    for t in range(rows.shape[0]):
        b2, k = parameters[index[t], 0] ** 2, parameters[index[t], 1]
        r = difference(x, rows[t, 0], rows[t, 1], box)
        left = 1.0 - dot(r, r) / b2
        g = -k / left if left > 0.0 else math.nan
        pull(f, rows[t, 0], rows[t, 1], r, g, sums, virial, scale, error)
        add_energy(sums, slot, -0.5 * k * b2 * math.log(left) if left > 0.0 else math.nan, scale)


@njit(nogil=True, error_model="numpy", cache=True)
def distance_restraints(x, box, rows, index, parameters, f, sums, slot, virial, scale, error):
    """Harmonic below `low` and above `up`, linear from `end` on; parameters low, up, end, k [kJ/mol/nm^2]."""
    for t in range(rows.shape[0]):
        p = parameters[index[t]]
        r = difference(x, rows[t, 0], rows[t, 1], box)
        length = math.sqrt(dot(r, r))
        gap = length - p[0] if length < p[0] else max(length - p[1], 0.0)
        far = max(length - p[2], 0.0)
        slope = p[3] * (gap - far)
        g = -slope / length if length > 0.0 else 0.0
        pull(f, rows[t, 0], rows[t, 1], r, g, sums, virial, scale, error)
        add_energy(sums, slot, 0.5 * p[3] * (gap * gap - far * far), scale)
