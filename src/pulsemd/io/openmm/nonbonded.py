"""NonbondedForce: charges and their method, Lennard-Jones of types, exceptions as excluded pairs and pair terms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsemd.io.openmm.document import Force
from pulsemd.io.openmm.draft import PairPart, SystemDraft

Float64 = NDArray[np.float64]

METHODS = ("NoCutoff", "CutoffNonPeriodic", "CutoffPeriodic", "Ewald", "PME", "LJPME")
"""OpenMM's enumeration NonbondedForce.NonbondedMethod."""

_REMEDIES = {
    "NoCutoff": "give the system a box and use PME or CutoffPeriodic",
    "CutoffNonPeriodic": "give the system a box and use PME or CutoffPeriodic",
    "Ewald": "use PME",
    "LJPME": "use PME, with the long-range correction for Lennard-Jones",
}

_ORDER = 5
"""Order of the splines of OpenMM's PME."""


def coulomb_options(force: Force, box: Float64) -> dict[str, Any]:
    """Options of a run for the method of the electrostatics.

    Parameters
    ----------
    force : Force
    box : (3, 3) float64, nm

    Raises
    ------
    TopologyError
        If the method is not supported.

    Notes
    -----
    With PME alpha = sqrt(-ln(2 tolerance)) / cut-off, and ceil(2 alpha L / (3 tolerance^(1/5))) points along an edge
    of length L, at least 6, unless the force gives them: as OpenMM's Reference platform does it. Its other platforms
    may round numbers of points up.
    """
    method = METHODS[int(force.number("method"))]
    if method in _REMEDIES:
        raise force.error(f"the method {method} is not supported", _REMEDIES[method])
    if force.element.get("includeDirectSpace", "1") == "0":
        raise force.error("pairs without direct space are not supported", "setIncludeDirectSpace(True)")
    if method == "CutoffPeriodic":
        return {"coulombtype": "reaction-field", "epsilon_rf": min(force.number("rfDielectric"), 1e30)}
    alpha, points = force.number("alpha"), [int(force.number(f"n{axis}")) for axis in "xyz"]
    if alpha == 0.0:
        tolerance = force.number("ewaldTolerance")
        alpha = math.sqrt(-math.log(2.0 * tolerance)) / force.number("cutoff")
        lengths = [float(box[k, k]) for k in range(3)]
        points = [max(math.ceil(2.0 * alpha * length / (3.0 * tolerance**0.2)), 6) for length in lengths]
    return {
        "coulombtype": "pme",
        "coulomb_modifier": "none",
        "ewald_rtol": math.erfc(alpha * force.number("cutoff")),
        "pme_order": _ORDER,
        **dict(zip(("fourier_nx", "fourier_ny", "fourier_nz"), points, strict=True)),
    }


def check_count(draft: SystemDraft, force: Force, n: int) -> None:
    """Require as many particles as the System has.

    Raises
    ------
    TopologyError
    """
    if n != draft.n_atoms:
        raise force.error(f"it has {n} particles, the System {draft.n_atoms}", "add every particle to it")


def switching_distance(force: Force) -> float | None:
    """Distance from which Lennard-Jones is switched off, nm, or None."""
    return force.number("switchingDistance") if force.flag("useSwitchingFunction") else None


def nonbonded(draft: SystemDraft, force: Force) -> None:
    """Charges and Lennard-Jones parameters of particles, and the exceptions.

    Raises
    ------
    TopologyError
        For a second such force, or parameters that depend on global ones.
    """
    if draft.electrostatics is not None:
        raise force.error(
            f"{draft.electrostatics.name} gives particles charges already", "put both into one NonbondedForce"
        )
    for section in ("ParticleOffsets", "ExceptionOffsets"):
        if len(force.rows(section)):
            raise force.error(
                f"{section.removesuffix('s')} 0 makes parameters depend on a global parameter, which is not supported",
                "build the System with the values wanted",
            )
    particles = force.columns("Particles", ("q", "sig", "eps"))
    check_count(draft, force, len(particles))
    for i in np.flatnonzero((particles[:, 1:] < 0).any(1))[:1]:
        raise force.error(
            f"particle {i} has a negative sigma or epsilon, which OpenMM refuses too", "correct it"
        )
    draft.electrostatics, draft.charge = force, particles[:, 0].copy()
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
