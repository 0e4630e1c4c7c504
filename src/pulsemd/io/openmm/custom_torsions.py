"""CustomTorsionForce: impropers, harmonic or with a flat bottom, and sums of cosines, known by values at angles."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from pulsemd.io.openmm.bonded import torsion_atoms
from pulsemd.io.openmm.custom import evaluate_powers, harmonic, parameters_of, parse_energy
from pulsemd.io.openmm.document import Force
from pulsemd.io.openmm.draft import SystemDraft
from pulsemd.io.openmm.powers import Powers, evaluate

log = logging.getLogger(__name__)

Float64 = NDArray[np.float64]

_N_ANGLES = 48
_ANGLES = 2.0 * np.pi * (np.arange(_N_ANGLES) + 0.5) / _N_ANGLES - np.pi
_HIGHEST = 6
"""Largest multiplicity looked for."""

_TOLERANCE = 1e-9


def custom_torsions(draft: SystemDraft, force: Force) -> None:
    """Impropers k/2 d^2 and k/2 max(0, d - width)^2, d the periodic distance of two angles, or sums of
    k cos(n theta - phase).

    What proper dihedrals do not have of the mean energy is the constant of a Ryckaert-Bellemans term.

    Impropers written as k*(theta-theta0)^2 jump at 180 degrees. With theta0 = 0 that is the same, and up to 90 degrees
    it is far from where the force holds the angle.

    Raises
    ------
    TopologyError
        For any other expression.
    """
    atoms = torsion_atoms(force)
    if len(atoms) == 0:
        return
    energies = _sampled(force, len(atoms))
    scale = _TOLERANCE * np.maximum(np.abs(energies).max(axis=1, keepdims=True), 1e-12)
    centre, k = _improper(energies)
    if (np.abs(0.5 * k[:, None] * _wrapped(_ANGLES - centre[:, None]) ** 2 - energies) <= scale).all():
        draft.add("improper", atoms[k != 0], np.column_stack([np.degrees(centre), k])[k != 0])
        return
    middle, width, k = _well(energies)
    beyond = np.maximum(np.abs(_wrapped(_ANGLES - middle[:, None])) - width[:, None], 0.0)
    if (np.abs(0.5 * k[:, None] * beyond**2 - energies) <= scale).all():
        wells = np.column_stack([np.degrees(middle), np.degrees(width), k])
        draft.add("dihedral_restraint", atoms[k != 0], wells[k != 0])
        return
    k_n, phase = _cosines(energies)
    n = np.arange(1, _HIGHEST + 1)
    series = (k_n[..., None] * (1.0 + np.cos(n[:, None] * _ANGLES - phase[..., None]))).sum(axis=1)
    rest = (energies - series).mean(axis=1)
    if (np.abs(series + rest[:, None] - energies) <= scale).all():
        term, which = np.nonzero(k_n > scale)
        rows = [np.degrees(phase[term, which]), k_n[term, which], n[which]]
        draft.add("proper", atoms[term], np.column_stack(rows))
        constant = np.abs(rest) > scale[:, 0]
        draft.add("ryckaert_bellemans", atoms[constant], rest[constant, None] * np.eye(1, 6))
        return
    centre, k = _of_powers(force, len(atoms))
    draft.add("improper", atoms[k != 0], np.column_stack([np.degrees(centre), k])[k != 0])


def _sampled(force: Force, n: int) -> Float64:
    """(n, angles) kJ/mol: the energies of all terms."""
    parameters = parameters_of(force, "Torsions", "PerTorsionParameters")
    names = {name: Powers({0.0: np.asarray(value)}) for name, value in force.globals().items()}
    names |= {name: Powers({0.0: value[:, None]}) for name, value in parameters.items()}
    try:
        found = evaluate(parse_energy(force), {**names, "theta": Powers({0.0: _ANGLES})}).constant
    except KeyError as error:
        raise force.expression_error(f"uses {error.args[0]!r}, which is no parameter of it") from error
    assert found is not None
    return np.broadcast_to(found, (n, _N_ANGLES))


def _improper(energies: Float64) -> tuple[Float64, Float64]:
    """Centre and k (n,) of the parabola whose second difference most angles have, its middle at the lowest energy."""
    h = 2.0 * np.pi / _N_ANGLES
    up, down = np.roll(energies, -1, axis=1), np.roll(energies, 1, axis=1)
    k = np.median(up - 2.0 * energies + down, axis=1) / h**2
    lowest = np.argmin(energies, axis=1)
    slope = np.take_along_axis(up - down, lowest[:, None], 1)[:, 0] / (2.0 * h)
    with np.errstate(all="ignore"):
        return np.where(k != 0, _wrapped(_ANGLES[lowest] - slope / k), 0.0), k


def _well(energies: Float64) -> tuple[Float64, Float64, Float64]:
    """Middle and half width of a flat bottom, and k of the parabolas beside it, (n,) each.

    On both slopes to the highest energy its root is the distance from an edge of the bottom.
    """
    h = 2.0 * np.pi / _N_ANGLES
    bent = np.roll(energies, -1, axis=1) - 2.0 * energies + np.roll(energies, 1, axis=1)
    k = bent.max(axis=1) / h**2
    highest, edges = np.argmax(energies, axis=1), []
    for side in (-2, 2):
        at = (highest + side) % _N_ANGLES
        root = np.sqrt(np.maximum(2.0 * np.take_along_axis(energies, at[:, None], 1)[:, 0], 0.0))
        edges.append(_ANGLES[at] + np.sign(side) * root / np.sqrt(np.where(k > 0, k, np.inf)))
    width = 0.5 * ((edges[0] - edges[1]) % (2.0 * np.pi))
    return _wrapped(edges[1] + width), width, k


def _wrapped(angle: Float64) -> Float64:
    wrapped: Float64 = angle - 2.0 * np.pi * np.rint(angle / (2.0 * np.pi))
    return wrapped


def _cosines(energies: Float64) -> tuple[Float64, Float64]:
    """k and phase (n, multiplicities) of the waves in the energies."""
    n = np.arange(1, _HIGHEST + 1)[:, None]
    a, b = (2.0 / _N_ANGLES * energies @ wave.T for wave in (np.cos(n * _ANGLES), np.sin(n * _ANGLES)))
    return np.hypot(a, b), np.arctan2(b, a)


def _of_powers(force: Force, n: int) -> tuple[Float64, Float64]:
    """Centre and k of an expression that is not periodic, if it may be taken for one that is."""
    parameters = {**force.globals(), **parameters_of(force, "Torsions", "PerTorsionParameters")}
    names = {name: Powers({0.0: np.asarray(value)}) for name, value in parameters.items()}
    powers = evaluate_powers(force, parse_energy(force), {**names, "theta": Powers({1.0: np.ones(())})})
    found = {power: np.broadcast_to(c, n) for power, c in powers.coefficients.items()}
    centre, k = harmonic(force, found, n, "the dihedral angle")
    farthest = float(np.degrees(np.abs(centre[k != 0]).max(initial=0.0)))
    if farthest > 90.0:
        raise force.expression_error(
            f"is not periodic and has an angle of {farthest:g} degrees, near which it jumps",
            "write k*min(a, 2*pi-a)^2; a=abs(theta-theta0); pi=3.14159265358979, or use PeriodicTorsionForce",
        )
    log.warning("%s: taken as periodic; it is not, where an angle is over 180 degrees away", force.name)
    return centre, k
