"""One row of energies from the global sums of a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.units import ATOMIC_MASS_PER_NM3, BAR, BOLTZMANN
from pulsemd.forcefield.dispersion import DispersionCorrection

N_PAIR_SUMS = 11
"""lj, coulomb, and the nine elements of the virial of all forces but constraints: what the pair kernels add to."""

BONDED = (
    "bond", "quartic_bond", "morse_bond", "cubic_bond", "fene_bond", "harmonic_distance", "restraint_bond", "angle",
    "cosine_angle", "bond_bond_cross", "bond_angle_cross", "urey_bradley", "quartic_angle", "linear_angle",
    "restricted_angle", "proper", "ryckaert_bellemans", "fourier", "restricted_dihedral", "bending_torsion", "improper",
    "cmap", "lj14", "coulomb14", "position_restraint", "flat_bottom", "distance_restraint", "angle_restraint",
    "angle_restraint_z", "dihedral_restraint",
)  # fmt: skip
"""Energies of listed terms, in the order of the sums after the first eleven."""

SLOTS = {"lj": 0, "coulomb": 1} | {name: N_PAIR_SUMS + k for k, name in enumerate((*BONDED, "coulomb_recip"))}
"""Where each energy is in the sums."""

VIRIAL = 2
"""Where the nine elements of the virial begin in the sums."""

N_SUMS = N_PAIR_SUMS + len(BONDED) + 1
"""Energies and virial of a step; the nine elements of the constraint virial follow in what is summed over ranks."""


@dataclass(frozen=True, eq=False)
class Kinetic:
    """Kinetic energy (g,) [kJ/mol], momentum (g, 3) [amu nm/ps], and kinetic energy along y and z (g, 2), by group."""

    energy: NDArray[np.float64]
    momentum: NDArray[np.float64]
    along: NDArray[np.float64]

    @property
    def diagonal(self) -> NDArray[np.float64]:
        """Kinetic energy along x, y and z (3,), kJ/mol."""
        y, z = self.along.sum(0).tolist()
        return np.array([float(self.energy.sum()) - y - z, y, z])

    def scaled(self, factors: NDArray[np.float64]) -> Kinetic:
        """Where velocities are multiplied by factors (g,); momentum stays that before."""
        square = factors * factors
        return Kinetic(self.energy * square, self.momentum, self.along * square[:, None])

    def without_drift(
        self, mass: NDArray[np.float64], held: NDArray[np.int32]
    ) -> tuple[NDArray[np.float64], Kinetic]:
        """Velocities (g, 3), nm/ps, that stop the centres of mass, and what is left without them.

        Parameters
        ----------
        mass : (g,) float64, amu, of the groups
        held : (g,) int32
            Groups of one number have their centre of mass stopped together; -1: not at all.
        """
        each = np.zeros((len(held), 3))
        for number in np.unique(held[held >= 0]):
            groups = held == number
            each[groups] = self.momentum[groups].sum(0) / mass[groups].sum()
        lost = (self.momentum - 0.5 * mass[:, None] * each) * each
        return each, Kinetic(self.energy - lost.sum(1), self.momentum, self.along - lost[:, 1:])

    def joined(self, into: NDArray[np.int32], n: int) -> Kinetic:
        """The same by other groups: `into` (g,), those that these become parts of, `n` of them."""
        found = np.zeros((n, 6))
        np.add.at(found, into, np.column_stack([self.energy, self.momentum, self.along]))
        return Kinetic(found[:, 0], found[:, 1:4], found[:, 4:])


@dataclass(frozen=True, eq=False)
class StepSums:
    """What the energies of a step follow from, summed over all ranks.

    Parameters
    ----------
    sums : (N_SUMS + 9,) float64, kJ/mol
        Energies and virial by `SLOTS` and `VIRIAL`, then the virial of constraints; virials are sums of r (x) f.
    kinetic : float, kJ/mol, mean of the two half steps, or with velocity Verlet of the full step
    group_kinetic : (g,) float64, kJ/mol
        Of each coupling group, where there are several.
    thermostat_work, barostat_work : float, kJ/mol, given so far
    volume : float, nm^3, of the positions of the step
    """

    sums: NDArray[np.float64]
    kinetic: float = 0.0
    thermostat_work: float = 0.0
    barostat_work: float = 0.0
    volume: float = 1.0
    group_kinetic: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    @property
    def virial(self) -> NDArray[np.float64]:
        """Diagonal (3,) of the virial of all forces."""
        return self.sums[VIRIAL : VIRIAL + 9 : 4] + self.sums[N_SUMS : N_SUMS + 9 : 4]


RUN_NAMES = (
    "potential", "kinetic", "total", "conserved", "temperature", "pressure", "volume", "density",
)  # fmt: skip
"""What a record holds after the energies of the terms."""


DISPERSION = "dispersion_correction"
"""Name of the one energy that follows from the volume alone."""


def energy_names(kinds: Iterable[str], coulombtype: str, dispersion: bool) -> tuple[str, ...]:
    """Energies of a system with these kinds of bonded terms, in the order of the file formats."""
    has = {"periodic_improper": "improper", "charged_pair14": "lj14"}
    present = {has.get(kind, kind) for kind in kinds}
    present |= {"coulomb14"} if "lj14" in present else set()
    more = [("coulomb_recip", coulombtype == "pme"), (DISPERSION, dispersion)]
    last = (name for name, there in more if there)
    return (*(name for name in BONDED if name in present), "lj", "coulomb", *last)


def energy_record(
    found: StepSums,
    names: tuple[str, ...],
    n_dof: float,
    total_mass: float,
    dispersion: DispersionCorrection | None,
    groups: Mapping[str, float],
) -> dict[str, float]:
    """Energies of one step under the names of the file formats.

    Parameters
    ----------
    found : StepSums
    names : tuple of str
        The energies the system has, see `energy_names`.
    n_dof : float
        Degrees of freedom.
    total_mass : float, amu
    dispersion : DispersionCorrection or None
        Adds to the energies and to the pressure.
    groups : mapping
        Degrees of freedom of the coupling groups, where there are several, by the names of their temperatures.

    Notes
    -----
    Pressure is (2 E_kin + tr sum r (x) f) / 3V, and that of the long-range correction.
    """
    sums, kinetic, volume = found.sums, found.kinetic, found.volume
    terms = {name: float(sums[SLOTS[name]]) for name in names if name in SLOTS}
    if dispersion is not None:
        terms[DISPERSION] = dispersion.energy(volume)
    beyond = 0.0 if dispersion is None else dispersion.pressure(volume)
    potential = sum(terms.values())
    trace = float(found.virial.sum())
    return (
        terms
        | {
            "potential": potential,
            "kinetic": kinetic,
            "total": potential + kinetic,
            "conserved": potential + kinetic - found.thermostat_work - found.barostat_work,
            "temperature": _temperature(kinetic, n_dof),
            "pressure": ((2.0 * kinetic + trace) / (3.0 * volume) + beyond) * BAR,
            "volume": volume,
            "density": total_mass / volume * ATOMIC_MASS_PER_NM3,
        }
        | {
            name: _temperature(float(energy), degrees)
            for (name, degrees), energy in zip(groups.items(), found.group_kinetic, strict=True)
        }
    )


def _temperature(kinetic: float, n_dof: float) -> float:
    return 2.0 * kinetic / (n_dof * BOLTZMANN) if n_dof > 0 else 0.0
