"""One row of energies from the global sums of a step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.units import ATOMIC_MASS_PER_NM3, BAR, BOLTZMANN

ENERGY_SCALE = 2.0**20
"""Fixed point of energies and virials in reproducible mode, units per kJ/mol."""

FORCE_SCALE = 2.0**32
"""Fixed point of forces in reproducible mode, units per kJ/mol/nm."""

MOMENTUM_SCALE = 2.0**32
"""Fixed point of momenta in reproducible mode, units per amu nm/ps."""

N_PAIR_SUMS = 11
"""lj, coulomb, and the nine elements of the pair virial."""


@dataclass(frozen=True)
class Kinetic:
    """Kinetic energy [kJ/mol] and momentum (3,) [amu nm/ps] of all atoms."""

    energy: float
    momentum: NDArray[np.float64]


def energy_record(
    sums: NDArray[np.float64],
    kinetic: float,
    thermostat_work: float,
    n_dof: int,
    volume: float,
    total_mass: float,
) -> dict[str, float]:
    """Energies of one step under the names of the file formats.

    Parameters
    ----------
    sums : (20,) float64
        lj, coulomb [kJ/mol], then the virials of pairs and of constraints, sum of r (x) f, (9,) each.
    kinetic : float, mean of the two half steps, kJ/mol
    thermostat_work : float, kJ/mol given by the thermostat so far
    volume : float, nm^3; total_mass : float, amu

    Notes
    -----
    Pressure is (2 E_kin + tr sum r (x) f) / 3V.
    """
    potential = float(sums[0] + sums[1])
    trace = float(sums[2] + sums[6] + sums[10] + sums[11] + sums[15] + sums[19])
    return {
        "lj": float(sums[0]),
        "coulomb": float(sums[1]),
        "potential": potential,
        "kinetic": kinetic,
        "total": potential + kinetic,
        "conserved": potential + kinetic - thermostat_work,
        "temperature": 2.0 * kinetic / (n_dof * BOLTZMANN) if n_dof > 0 else 0.0,
        "pressure": (2.0 * kinetic + trace) / (3.0 * volume) * BAR,
        "volume": volume,
        "density": total_mass / volume * ATOMIC_MASS_PER_NM3,
    }
