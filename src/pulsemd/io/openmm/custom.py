"""Custom forces of OpenMM whose expressions are ones we have: powers of the distance, harmonic terms, restraints."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pulsemd.io.openmm.bonded import torsion_atoms
from pulsemd.io.openmm.document import Force
from pulsemd.io.openmm.draft import SystemDraft
from pulsemd.io.openmm.expression import Node, parse
from pulsemd.io.openmm.powers import NotPowers, Powers, Table, evaluate

log = logging.getLogger(__name__)

Float64 = NDArray[np.float64]

_OPENMM_COULOMB = 138.93545764438198
"""OpenMM's 1/(4 pi eps0), by which forces that its readers make multiply products of charges."""


def parse_energy(force: Force, functions: Mapping[str, int] | None = None) -> Node:
    """The tree of a force's expression.

    Raises
    ------
    TopologyError
        If it cannot be read.
    """
    text = force.element.get("energy", "")
    try:
        return parse(text, functions)
    except ValueError as error:
        raise force.expression_error(f"cannot be read: {error}") from error


def powers_of(force: Force, variable: str, parameters: Mapping[str, Float64]) -> Powers:
    """The energies of all terms of a force as powers of a variable.

    Raises
    ------
    TopologyError
        If its expression is no sum of powers.
    """
    names = {
        name: Powers({0.0: np.asarray(value)}) for name, value in {**force.globals(), **parameters}.items()
    }
    return evaluate_powers(force, parse_energy(force), {**names, variable: Powers({1.0: np.ones(())})})


def evaluate_powers(
    force: Force, tree: Node, names: Mapping[str, Powers], tables: Mapping[str, Table] | None = None
) -> Powers:
    """`evaluate`, with errors that name the force."""
    try:
        return evaluate(tree, names, tables).without_zeros()
    except NotPowers as error:
        raise force.expression_error(f"is not supported: {error}") from error
    except KeyError as error:
        raise force.expression_error(f"uses {error.args[0]!r}, which is no parameter of it") from error


def parameters_of(force: Force, section: str, names: str) -> dict[str, Float64]:
    """Parameters of all rows of a section by name."""
    return dict(zip(force.named(names), force.parameters(section, names).T, strict=True))


def custom_bonds(draft: SystemDraft, force: Force) -> None:
    """Pairs with Lennard-Jones and Coulomb terms, or harmonic springs.

    Raises
    ------
    TopologyError
        For any other expression.
    """
    atoms = force.atoms("Bonds", ("p1", "p2"))
    powers = powers_of(force, "r", parameters_of(force, "Bonds", "PerBondParameters"))
    found = {n: np.broadcast_to(c, len(atoms)) for n, c in powers.coefficients.items()}
    zero = np.zeros(len(atoms))
    if set(found) <= {-12.0, -6.0, -1.0}:
        rows = [-found.get(-6.0, zero), found.get(-12.0, zero), found.get(-1.0, zero) / _OPENMM_COULOMB]
        acting = np.any(rows, axis=0)
        draft.add("charged_pair14", atoms[acting], np.column_stack(rows)[acting])
        return
    centre, k = _harmonic(force, found, len(atoms), "the distance")
    draft.add("harmonic_distance", atoms[k != 0], np.column_stack([centre, k])[k != 0])


def custom_angles(draft: SystemDraft, force: Force) -> None:
    """Harmonic angles; raises TopologyError for any other expression."""
    atoms = force.atoms("Angles", ("p1", "p2", "p3"))
    powers = powers_of(force, "theta", parameters_of(force, "Angles", "PerAngleParameters"))
    found = {n: np.broadcast_to(c, len(atoms)) for n, c in powers.coefficients.items()}
    centre, k = _harmonic(force, found, len(atoms), "the angle")
    draft.add("angle", atoms[k != 0], np.column_stack([np.degrees(centre), k])[k != 0])


def custom_torsions(draft: SystemDraft, force: Force) -> None:
    """Harmonic impropers: k d^2 with d the periodic distance of two angles, min(|a|, 2 pi - |a|), a = theta - theta0.

    Written as k*(theta-theta0)^2 they jump at 180 degrees. With theta0 = 0 that is the same, and up to 90 degrees it is
    far from where the force holds the angle.

    Raises
    ------
    TopologyError
        For any other expression.
    """
    atoms = torsion_atoms(force)
    parameters = parameters_of(force, "Torsions", "PerTorsionParameters")
    tree, periodic = _without_wrapping(parse_energy(force))
    names = {
        name: Powers({0.0: np.asarray(value)}) for name, value in {**force.globals(), **parameters}.items()
    }
    powers = evaluate_powers(force, tree, {**names, "theta": Powers({1.0: np.ones(())})})
    found = {n: np.broadcast_to(c, len(atoms)) for n, c in powers.coefficients.items()}
    centre, k = _harmonic(force, found, len(atoms), "the dihedral angle")
    if not periodic:
        _check_centres(force, centre[k != 0])
    draft.add("improper", atoms[k != 0], np.column_stack([np.degrees(centre), k])[k != 0])


def _check_centres(force: Force, centre: Float64) -> None:
    """Angles at which an expression that is not periodic may be taken for one that is."""
    farthest = float(np.degrees(np.abs(centre).max(initial=0.0)))
    if farthest > 90.0:
        raise force.expression_error(
            f"is not periodic and has an angle of {farthest:g} degrees, near which it jumps",
            "write k*min(a, 2*pi-a)^2; a=abs(theta-theta0); pi=3.14159265358979, or use PeriodicTorsionForce",
        )
    if farthest > 0.0:
        log.warning("%s: taken as periodic; it is not, where an angle is over 180 degrees away", force.name)


def _without_wrapping(tree: Node) -> tuple[Node, bool]:
    """The tree with min(|a|, 2 pi - |a|) replaced by a, whose square it stands for; and whether there was one."""
    found = False

    def replaced(node: Node) -> Node:
        nonlocal found
        inner = _periodic(node)
        if inner is not None:
            found = True
            return inner
        return Node(node.operation, node.text, tuple(replaced(argument) for argument in node.arguments))

    return replaced(tree), found


def _periodic(node: Node) -> Node | None:
    """a if the node is min(abs(a), c - abs(a)) with c = 2 pi, else None."""
    if node.operation != "min" or node.arguments[0].operation != "abs":
        return None
    distance, rest = node.arguments
    if rest.operation != "-" or not _same(rest.arguments[1], distance):
        return None
    try:
        turn = evaluate(rest.arguments[0], {"pi": Powers({0.0: np.array(np.pi)})}).constant
    except (NotPowers, KeyError):
        return None
    if turn is None or not np.allclose(turn, 2.0 * np.pi, rtol=1e-6):
        return None
    return distance.arguments[0]


def _same(a: Node, b: Node) -> bool:
    if (a.operation, a.text, len(a.arguments)) != (b.operation, b.text, len(b.arguments)):
        return False
    return a is b or all(_same(x, y) for x, y in zip(a.arguments, b.arguments, strict=True))


def _harmonic(force: Force, found: dict[float, Float64], n: int, what: str) -> tuple[Float64, Float64]:
    """Centre and k of k/2 (x - centre)^2 for each term.

    Raises
    ------
    TopologyError
        If the powers are not those of such a square.
    """
    zero = np.zeros(n)
    square, linear, constant = (found.get(power, zero) for power in (2.0, 1.0, 0.0))
    with np.errstate(all="ignore"):
        centre = np.where(square != 0, -0.5 * linear / square, 0.0)
    leftover = np.abs(constant - square * centre**2)
    scale = 1e-9 * np.maximum(np.abs(constant), 1e-12)
    if not set(found) <= {0.0, 1.0, 2.0} or (leftover > scale).any() or ((square == 0) & (linear != 0)).any():
        raise force.expression_error(
            f"is not supported: neither known powers of {what} nor a harmonic term",
            "known are k/2 (x - x0)^2 and, for bonds, the powers -1, -6 and -12",
        )
    return centre, 2.0 * square
