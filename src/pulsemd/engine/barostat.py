"""Barostats that scale the cell: stochastic cell rescaling and Berendsen's weak coupling.

Positions are fractions of the box, so a scaled box scales all of them, inside molecules too; constraints are met again
by the next step. What scaling changes is therefore the virial of all forces, those of constraints included.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pulsemd.base.errors import InputError
from pulsemd.base.units import BAR, BOLTZMANN
from pulsemd.forcefield.dispersion import DispersionCorrection
from pulsemd.forcefield.settings import RunSettings
from pulsemd.kernels.update.philox import STREAM_BAROSTAT, normals
from pulsemd.topology.records import Topology

SHRINKAGE = 0.005
"""Share of its length by which a box may shrink in one list lifetime: list cut-offs are longer by it."""

GROWTH = 0.02
"""The same of growth; more means that the coupling is out of hand."""

UNDONE = 3
"""Steps after which a scaled box has no trace in the forces of constraints: one brings bonds back to their length, the
next takes away the velocity that did it."""

AXES = {"isotropic": (0, 0, 0), "semiisotropic": (0, 0, 1), "anisotropic": (0, 1, 2)}
"""Which of the values of compressibility and ref_p is that of x, y and z; axes of the same scale alike."""

NOISE = {
    "isotropic": (1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0),
    "semiisotropic": (math.sqrt(2.0 / 3.0) / 2.0, math.sqrt(2.0 / 3.0) / 2.0, math.sqrt(1.0 / 3.0)),
    "anisotropic": (math.sqrt(1.0 / 3.0), math.sqrt(1.0 / 3.0), math.sqrt(1.0 / 3.0)),
}
"""Share that lengths along x, y and z have of the noise of a volume."""

Float64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Stress:
    """What the pressure follows from.

    Parameters
    ----------
    kinetic : (3,) float64, kJ/mol
        Sum of m v^2 / 2 along each axis, the mean of two half steps.
    virial : (3,) float64, kJ/mol
        Diagonal of the sum of r (x) f, constraint forces included.
    volume : float, nm^3
    """

    kinetic: Float64
    virial: Float64
    volume: float

    def pressure(self, dispersion: DispersionCorrection | None) -> Float64:
        """Pressure along each axis (3,), bar."""
        beyond = 0.0 if dispersion is None else dispersion.pressure(self.volume)
        return ((2.0 * self.kinetic + self.virial) / self.volume + beyond) * BAR


def of_axes(s: RunSettings, values: Sequence[float]) -> Float64:
    """The values of x, y and z (3,) of those that a setting has."""
    found: Float64 = np.array(values, np.float64)[list(AXES[s.pcoupltype])]
    return found


def over_alike(s: RunSettings, values: Float64, divisors: Float64) -> Float64:
    """Sum of values (3,) over that of divisors, of the axes that scale as x, y and z do, (3,)."""
    axes = np.array(AXES[s.pcoupltype])
    return np.array([values[axes == axis].sum() / divisors[axes == axis].sum() for axis in axes])


def cell_factors(s: RunSettings, pressure: Float64, volume: float, step: int) -> Float64:
    """Factors (3,) on lengths along x, y, z that carry the cell through one coupling interval.

    Parameters
    ----------
    s : RunSettings
    pressure : (3,) float64, bar
    volume : float, nm^3
    step : int
        With the seed, what the random numbers depend on.

    References
    ----------
    M. Bernetti, G. Bussi, J. Chem. Phys. 153, 114107 (2020), in the form of gmx 2022 for semi-isotropic coupling;
    V. del Tatto, P. Raiteri, M. Bernetti, G. Bussi, Appl. Sci. 12, 1139 (2022), of lengths with noise of their own;
    H. J. C. Berendsen et al., J. Chem. Phys. 81, 3684 (1984).
    """
    soft = s.nstpcouple * s.dt / s.tau_p * of_axes(s, s.compressibility)
    strain: Float64 = -soft * (of_axes(s, s.ref_p) - over_alike(s, pressure, np.ones(3))) / 3.0
    if s.pcoupl == "berendsen":
        return 1.0 + strain
    kt = BOLTZMANN * s.baths[0].ref_t * BAR
    noise = normals(s.ld_seed, STREAM_BAROSTAT, step, np.array([0]))[0, list(AXES[s.pcoupltype])]
    factors: Float64 = np.exp(
        strain + np.sqrt(2.0 * kt * soft / volume) * np.array(NOISE[s.pcoupltype]) * noise
    )
    return factors


def scaling_work(
    stress: Stress,
    after: Float64,
    factors: Float64,
    velocities_too: bool,
    dispersion: DispersionCorrection | None,
) -> float:
    """Energy, kJ/mol, that a scaling adds to the atoms: to first order that of the forces, and that of velocities.

    Parameters
    ----------
    after : (3,) float64, kJ/mol, kinetic energy along each axis that is scaled
    velocities_too : bool
        They are divided by the factors.
    """
    work = -float(((factors - 1.0) * stress.virial).sum())
    if velocities_too:
        work += float((after * (factors**-2.0 - 1.0)).sum())
    if dispersion is not None:
        work += dispersion.energy(stress.volume * float(factors.prod())) - dispersion.energy(stress.volume)
    return work


def is_allowed(strain: Float64) -> bool:
    """Whether a cell that is this multiple (3,) of that of the last search is one that its pair list is good for."""
    return bool(np.all(strain > 1.0 / (1.0 + SHRINKAGE)) and np.all(strain < 1.0 + GROWTH))


def strain_message(strain: Float64, step: int) -> str:
    """What is said of a cell that changes too fast."""
    most = 100.0 * float(strain[np.argmax(np.abs(np.nan_to_num(strain, nan=np.inf) - 1.0))] - 1.0)
    return (
        f"step {step}: the barostat changed the box by {most:.3g} % since the last search; the pair list allows "
        f"-{100 * SHRINKAGE:g} to +{100 * GROWTH:g} %; raise tau_p, lower nstlist or nstpcouple, or "
        "equilibrate at constant volume"
    )


def scaling_notes(s: RunSettings, topology: Topology) -> list[str]:
    """What is to be said of scalings so frequent that the pressures between them are those of bonds put right again."""
    if s.pcoupl not in ("c-rescale", "berendsen") or s.nstpcouple >= UNDONE or not topology.n_constraints:
        return []
    return [
        f"nstpcouple = {s.nstpcouple}: constraints need {UNDONE - 1} steps to undo what a scaling does to rigid bonds, "
        f"and the pressure of these steps shows it; take {UNDONE} or more"
    ]


def check_barostat(s: RunSettings, topology: Topology, box: Float64) -> None:
    """Refuse what a barostat cannot do.

    Raises
    ------
    InputError
        If there are position restraints whose reference positions are not to follow the box, or the files'
        `box` (3, 3) is one whose vectors do not keep their directions.
    """
    if s.pcoupl == "parrinello-rahman" and s.pcoupltype == "semiisotropic" and box[2, :2].any():
        raise InputError(
            "pcoupl = parrinello-rahman with pcoupltype = semiisotropic needs a box whose third vector is along z; use "
            "pcoupl = c-rescale"
        )
    if (
        s.pcoupl == "parrinello-rahman"
        and s.pcoupltype == "anisotropic"
        and (box - np.diag(np.diag(box))).any()
    ):
        raise InputError(
            "pcoupl = parrinello-rahman with pcoupltype = anisotropic needs a rectangular box; use pcoupl = c-rescale"
        )
    kinds = {"position_restraint", "flat_bottom"} & {k for k, terms in topology.terms.items() if len(terms)}
    if s.pcoupl != "no" and kinds and s.refcoord_scaling == "no":
        raise InputError(
            f"pcoupl = {s.pcoupl}: refcoord-scaling = no is not supported with position restraints; use com, so "
            "that the centre of the reference positions scales with the box, or all, so that each does"
        )
