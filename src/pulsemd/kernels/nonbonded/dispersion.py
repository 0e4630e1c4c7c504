"""The long-range correction of Lennard-Jones for the options of a run, as gmx computes it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import InputError
from pulsemd.forcefield.dispersion import DispersionCorrection
from pulsemd.forcefield.nonbonded import LennardJonesTable
from pulsemd.kernels.nonbonded.settings import PairConstants

_POINTS = 64


def dispersion_correction(
    mode: str,
    constants: PairConstants,
    table: LennardJonesTable,
    type_index: NDArray[np.int32],
    exclusion_offset: NDArray[np.int64],
    exclusion_atoms: NDArray[np.int32],
) -> DispersionCorrection:
    """Correct for V_LJ less the pair potential in use, with a uniform density around every atom.

    E = N/2 <(rho integral of 4 pi r^2 dV(r) dr - dV(0))> and P V = -N/6 <rho integral of 4 pi r^3 dV'(r) dr>, the means
    over all pairs that are not excluded; dV(0), the shift of the potential, is what a uniform density counts of the
    atom itself.

    Parameters
    ----------
    mode : {'ener', 'enerpres', 'allener', 'allenerpres'}
        Energy, or pressure too; 'all' counts repulsion, not dispersion alone.
    constants : PairConstants
    table : LennardJonesTable
    type_index : (n,) int32
    exclusion_offset, exclusion_atoms : (n + 1,) int64, (k,) int32
        Symmetric.

    Raises
    ------
    InputError
        If the potential is switched from a distance of 0 on: the correction is then infinite.

    References
    ----------
    Allen & Tildesley, Computer Simulation of Liquids, 2nd ed. (2017), section 2.8; GROMACS reference manual 2022,
    "Long range Van der Waals interactions".
    """
    if constants.ending == "potential-switch" and constants.r_switch == 0.0:
        raise InputError("DispCorr needs rvdw-switch above 0 with vdw-modifier = potential-switch")
    n = len(type_index)
    energy = force = itself = 0.0
    for power in (6, 12) if mode.startswith("all") else (6,):
        mean = _mean(table.c6 if power == 6 else table.c12, type_index, exclusion_offset, exclusion_atoms)
        of_energy, of_force, shift = _integrals(power, constants)
        energy, force, itself = energy + mean * of_energy, force + mean * of_force, itself + mean * shift
    virial = -n * n / 6.0 * force if mode.endswith("pres") else 0.0
    return DispersionCorrection(-0.5 * n * itself, 0.5 * n * n * energy, virial)


def _mean(
    coefficients: NDArray[np.float64],
    type_index: NDArray[np.int32],
    offset: NDArray[np.int64],
    atoms: NDArray[np.int32],
) -> float:
    """Mean of a coefficient over the pairs that are not excluded; 0 if there are none."""
    count = np.bincount(type_index, minlength=len(coefficients)).astype(np.float64)
    total = 0.5 * float(count @ coefficients @ count - count @ np.diag(coefficients))
    partner = np.repeat(type_index, np.diff(offset))
    total -= 0.5 * float(coefficients[partner, type_index[atoms]].sum())
    n_pairs = 0.5 * len(type_index) * (len(type_index) - 1) - 0.5 * len(atoms)
    return total / n_pairs if n_pairs > 0 else 0.0


def _integrals(power: int, constants: PairConstants) -> tuple[float, float, float]:
    """Integrals of 4 pi r^2 dV and 4 pi r^3 dV' over all r, and dV(0), of a coefficient of 1."""
    sign, cutoff = (-1.0, constants.cutoff) if power == 6 else (1.0, constants.cutoff)
    unit = (1.0, 0.0) if power == 6 else (0.0, 1.0)
    switch = constants.r_switch if constants.ending != "shift" else cutoff
    r, w = np.polynomial.legendre.leggauss(_POINTS)
    r, w = 0.5 * ((cutoff - switch) * r + cutoff + switch), 0.5 * (cutoff - switch) * w
    used, force_over_r = constants.lennard_jones(r, *unit)
    shift = constants.shift6 if power == 6 else constants.shift12
    energy = (w * r**2) @ (sign * r**-power - used) + sign * shift * switch**3 / 3.0
    slope = (w * r**3) @ (-sign * power * r ** (-power - 1) + force_over_r * r)
    beyond = cutoff ** (3 - power) / (power - 3)
    scale = 4.0 * np.pi
    return (
        scale * float(energy + sign * beyond),
        scale * float(slope - sign * power * beyond),
        sign * shift,
    )
