"""What excluded pairs, and each charge with itself, have of the long-range part of electrostatics.

The dielectric continuum beyond the cut-off answers every charge inside, excluded partners and the charge
itself included: an excluded pair within the cut-off has the energy qq (k_rf r^2 - c_rf), a charge -c_rf q^2/2.
The lattice sum of PME has the Gaussian clouds of all pairs: an excluded pair at any distance has the energy
-qq erf(beta r)/r, a charge -q^2 beta/sqrt(pi). (As gmx 2022.5 counts them, in the Coulomb energy.)
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from pulsemd.base.fixed_point import ENERGY_SCALE, FORCE_SCALE
from pulsemd.kernels.nonbonded.ewald import correction
from pulsemd.kernels.nonbonded.settings import PairConstants
from pulsemd.kernels.nonbonded.spec import BLOCK, LANES
from pulsemd.kernels.search.search import is_orthorhombic, lattice_scale
from pulsemd.kernels.search.tile_test import count_bits, within_radius

_COULOMB = 1  # element of the energies


def exclusion_forces(
    x: np.ndarray,
    pairs: np.ndarray,
    charge: np.ndarray,
    box: np.ndarray,
    constants: PairConstants,
    forces: np.ndarray,
    energies: np.ndarray | None = None,
) -> None:
    """Add the corrections of excluded pairs.

    Parameters
    ----------
    x : (n_local, 3) int32, lattice units
    pairs : (k, 2) int32, local rows
        Excluded pairs of this rank, each once.
    charge : (n_local,) float64, e
    box : (3, 3) float64, nm
    constants : PairConstants
        `PairForces.constants`.
    forces : (n_local, 3) float32, or int64 fixed point
        OUTPUT, added to. The dtype chooses the arithmetic, as for `PairForces`.
    energies : (11,) float64, or int64 fixed point; optional
        OUTPUT, added to: Coulomb and virial.
    """
    c = constants
    if c.k_rf == 0.0 and c.beta == 0.0 and energies is None:
        return
    fixed = forces.dtype == np.int64
    wanted = energies is not None
    if energies is None:
        energies = np.empty(0, np.int64 if fixed else np.float64)
    kernel = _exclusions_fixed if fixed else _exclusions_float
    options = c.coulomb_factor, c.k_rf, c.c_rf, c.beta, np.inf if c.beta else c.cutoff**2
    kernel(x, pairs, charge, np.asarray(box, np.float64) / 2.0**32, options, forces, wanted, energies)


def self_energy(charge: np.ndarray, constants: PairConstants, energies: np.ndarray) -> None:
    """Add the self energy of the owned charges.

    Parameters
    ----------
    charge : (n_owned,) float64, e
    constants : PairConstants
    energies : (11,) float64, or int64 fixed point
        OUTPUT, added to.
    """
    c = constants
    of_unit_charge = c.beta / math.sqrt(math.pi) if c.beta else 0.5 * c.c_rf
    each = -c.coulomb_factor * of_unit_charge * np.square(charge)
    if energies.dtype == np.int64:
        energies[_COULOMB] += np.rint(each * ENERGY_SCALE).astype(np.int64).sum()
    else:
        energies[_COULOMB] += each.sum()


def count_within(x: np.ndarray, pairs: np.ndarray, box: np.ndarray, radius: float) -> int:
    """Number of pairs within a radius, by the very test that a search makes.

    Parameters
    ----------
    x : (n, 3) int32, lattice units
    pairs : (k, 2) int, rows of ``x``
    box : (3, 3) float64, nm
    radius : float, nm
    """
    return _count_within(x, pairs, lattice_scale(box), is_orthorhombic(box), np.float32(radius**2))


@njit(cache=True, nogil=True)
def _count_within(x, pairs, scale, orthorhombic, radius2):
    # One tile for eight pairs: its rows are at the origin, its lanes at the differences.
    blocks = np.zeros(2 * BLOCK, np.int32)
    count = 0
    for start in range(0, len(pairs), LANES):
        n = min(LANES, len(pairs) - start)
        for lane in range(n):
            i, j = pairs[start + lane, 0], pairs[start + lane, 1]
            for d in range(3):
                blocks[BLOCK + LANES * d + lane] = np.int32(x[i, d] - x[j, d])
        inside = within_radius(blocks, scale, orthorhombic, radius2, 0, 1)
        count += count_bits(np.uint32(inside & ((1 << n) - 1)))
    return count


@njit(cache=True, nogil=True)
def _displacement(x, i, j, scale):
    """x_i - x_j [nm] and its square."""
    u = float(np.int32(x[i, 0] - x[j, 0]))
    v = float(np.int32(x[i, 1] - x[j, 1]))
    w = float(np.int32(x[i, 2] - x[j, 2]))
    d = (
        u * scale[0, 0] + v * scale[1, 0] + w * scale[2, 0],
        u * scale[0, 1] + v * scale[1, 1] + w * scale[2, 1],
        u * scale[0, 2] + v * scale[1, 2] + w * scale[2, 2],
    )
    return d, d[0] * d[0] + d[1] * d[1] + d[2] * d[2]


@njit(cache=True, nogil=True)
def _excluded_pair(qq, r2, k_rf, c_rf, beta):
    """Energy and force over r."""
    if beta != 0.0:
        energy, force = correction(beta * beta * r2)
        return -qq * beta * energy, -qq * (beta * beta * beta) * force
    return qq * (k_rf * r2 - c_rf), -2.0 * k_rf * qq


@njit(cache=True, nogil=True)
def _exclusions_float(x, pairs, charge, scale, options, forces, wanted, energies):
    factor, k_rf, c_rf, beta, cutoff2 = options
    for k in range(len(pairs)):
        i, j = pairs[k, 0], pairs[k, 1]
        d, r2 = _displacement(x, i, j, scale)
        if r2 >= cutoff2:
            continue
        energy, force_over_r = _excluded_pair(factor * (charge[i] * charge[j]), r2, k_rf, c_rf, beta)
        for a in range(3):
            f = np.float32(force_over_r * d[a])
            forces[i, a] += f
            forces[j, a] -= f
        if wanted:
            energies[1] += energy
            for a in range(3):
                for b in range(3):
                    energies[2 + 3 * a + b] += d[a] * force_over_r * d[b]


@njit(cache=True, nogil=True)
def _exclusions_fixed(x, pairs, charge, scale, options, forces, wanted, energies):
    factor, k_rf, c_rf, beta, cutoff2 = options
    for k in range(len(pairs)):
        i, j = pairs[k, 0], pairs[k, 1]
        d, r2 = _displacement(x, i, j, scale)
        if r2 >= cutoff2:
            continue
        energy, force_over_r = _excluded_pair(factor * (charge[i] * charge[j]), r2, k_rf, c_rf, beta)
        for a in range(3):
            f = np.int64(np.rint(force_over_r * d[a] * FORCE_SCALE))
            forces[i, a] += f
            forces[j, a] -= f
        if wanted:
            energies[1] += np.int64(np.rint(energy * ENERGY_SCALE))
            for a in range(3):
                for b in range(3):
                    term = d[a] * force_over_r * d[b]
                    energies[2 + 3 * a + b] += np.int64(np.rint(term * ENERGY_SCALE))
