"""NonbondedForce: charges, Lennard-Jones of types, exceptions as excluded pairs and pair terms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pulsemd.io.openmm.document import Force
from pulsemd.io.openmm.draft import PairPart, SystemDraft

Float64 = NDArray[np.float64]

METHODS = ("NoCutoff", "CutoffNonPeriodic", "CutoffPeriodic", "Ewald", "PME", "LJPME")
"""OpenMM's enumeration NonbondedForce.NonbondedMethod."""

CUTOFF_PERIODIC = METHODS.index("CutoffPeriodic")

_REMEDIES = {
    "NoCutoff": "give the system a box and use CutoffPeriodic",
    "CutoffNonPeriodic": "give the system a box and use CutoffPeriodic",
    "Ewald": "use CutoffPeriodic, a reaction field",
    "PME": "use CutoffPeriodic, a reaction field",
    "LJPME": "use CutoffPeriodic, a reaction field",
}


def check_method(force: Force) -> None:
    """Require a periodic cut-off.

    Raises
    ------
    TopologyError
    """
    method = METHODS[int(force.number("method"))]
    if method in _REMEDIES:
        raise force.error(f"the method {method} is not supported", _REMEDIES[method])


def switching_distance(force: Force) -> float | None:
    """Distance from which Lennard-Jones is switched off, nm, or None."""
    return force.number("switchingDistance") if force.flag("useSwitchingFunction") else None


def nonbonded(draft: SystemDraft, force: Force) -> None:
    """Charges and Lennard-Jones parameters of particles, and the exceptions.

    Raises
    ------
    TopologyError
        For a second such force, another method than CutoffPeriodic, or parameters that depend on global ones.
    """
    if draft.electrostatics is not None:
        raise force.error(
            f"{draft.electrostatics.name} gives particles charges already", "put both into one NonbondedForce"
        )
    check_method(force)
    for section in ("ParticleOffsets", "ExceptionOffsets"):
        if len(force.rows(section)):
            raise force.error(
                f"{section.removesuffix('s')} 0 makes parameters depend on a global parameter, which is not supported",
                "build the System with the values wanted",
            )
    particles = force.columns("Particles", ("q", "sig", "eps"))
    draft.electrostatics, draft.charge = force, particles[:, 0].copy()
    draft.dielectric = force.number("rfDielectric")
    draft.cutoffs.append((force, force.number("cutoff")))
    lj = np.where(particles[:, 2:] != 0, particles[:, 1:], 0.0)  # without depth a diameter means nothing
    corrected = force.flag("dispersionCorrection")
    draft.pair_parts.append(PairPart(force, lj, lorentz_berthelot, switching_distance(force), corrected))
    _exceptions(draft, force)


def lorentz_berthelot(types: Float64) -> tuple[Float64, Float64]:
    """c6 and c12 (T, T) from sigma [nm] and epsilon [kJ/mol] of types (T, 2)."""
    sigma = 0.5 * (types[:, None, 0] + types[None, :, 0])
    depth = 4.0 * np.sqrt(types[:, None, 1] * types[None, :, 1])
    return depth * sigma**6, depth * sigma**12


def _exceptions(draft: SystemDraft, force: Force) -> None:
    """Every exception excludes its pair; one that is not zero acts by a term, at any distance and unswitched."""
    pairs = force.atoms("Exceptions", ("p1", "p2"))
    draft.excluded.append((force, pairs))
    charge, sigma, epsilon = force.columns("Exceptions", ("q", "sig", "eps")).T
    acting = (charge != 0) | (epsilon != 0)
    depth, power = 4.0 * epsilon[acting], sigma[acting] ** 6
    draft.add(
        "charged_pair14",
        pairs[acting],
        np.column_stack([depth * power, depth * power * power, charge[acting]]),
    )
