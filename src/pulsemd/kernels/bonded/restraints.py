"""Position restraints: V = 1/2 sum_d k_d (x_d - ref_d)^2 with the nearest image of the reference."""

from __future__ import annotations

import numpy as np
from numba import njit

from pulsemd.kernels.bonded.geometry import FORCE_LIMIT, add_energy, add_virial

_LATTICE = 2.0**-32


@njit(nogil=True, error_model="numpy", cache=True)
def position_restraints(x, box, rows, reference, index, parameters, f, sums, slot, virial, scale, error):
    """Add position restraints; arguments as in `pulsemd.kernels.bonded.terms`.

    Parameters
    ----------
    reference : (m, 3) int32, lattice units
        Reference position of each term.
    parameters : (P, 3) float64, force constants kx, ky, kz [kJ/mol/nm^2]
    """
    for t in range(rows.shape[0]):
        i, k = rows[t, 0], parameters[index[t]]
        sx = np.float64(np.int32(x[i, 0] - reference[t, 0])) * _LATTICE
        sy = np.float64(np.int32(x[i, 1] - reference[t, 1])) * _LATTICE
        sz = np.float64(np.int32(x[i, 2] - reference[t, 2])) * _LATTICE
        r = (
            sx * box[0, 0] + sy * box[1, 0] + sz * box[2, 0],
            sx * box[0, 1] + sy * box[1, 1] + sz * box[2, 1],
            sx * box[0, 2] + sy * box[1, 2] + sz * box[2, 2],
        )
        force = (-k[0] * r[0], -k[1] * r[1], -k[2] * r[2])
        for d in range(3):
            if not abs(force[d]) < FORCE_LIMIT:
                error[0] = i + 1
            elif scale > 0.0:
                f[i, d] += np.int64(np.rint(force[d] * scale))
            else:
                f[i, d] += force[d]
        add_energy(sums, slot, 0.5 * (k[0] * r[0] * r[0] + k[1] * r[1] * r[1] + k[2] * r[2] * r[2]), scale)
        add_virial(sums, virial, r, force, scale)
