"""Custom forces of OpenMM whose expressions are ones we have: powers of the distance, harmonic terms, restraints."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pulsemd.io.openmm.document import Force
from pulsemd.io.openmm.draft import SystemDraft
from pulsemd.io.openmm.expression import Node, parse
from pulsemd.io.openmm.flat import UNBOUNDED, flat_bottoms
from pulsemd.io.openmm.powers import NotPowers, Powers, Table, evaluate

Float64 = NDArray[np.float64]

_OF_PAIRS = {-12.0, -6.0, -1.0}
"""Powers of the distance in a pair term."""

_DISTANCES = np.geomspace(0.05, 3.0, 100)
"""Distances [nm] at which an expression that changes between them is looked at."""

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


def evaluate_powers(
    force: Force, tree: Node, names: Mapping[str, Powers], tables: Mapping[str, Table] | None = None
) -> Powers:
    """`evaluate`, with errors that name the force."""
    try:
        return evaluate(tree, names, tables).without_zeros()
    except NotPowers as error:
        raise force.unknown_expression(str(error)) from error
    except KeyError as error:
        raise force.expression_error(f"uses {error.args[0]!r}, which is no parameter of it") from error


def parameters_of(force: Force, section: str, names: str) -> dict[str, Float64]:
    """Parameters of all rows of a section by name."""
    return dict(zip(force.named(names), force.parameters(section, names).T, strict=True))


def custom_bonds(draft: SystemDraft, force: Force) -> None:
    """Pairs with Lennard-Jones and Coulomb terms, harmonic springs, or flat-bottomed wells.

    Raises
    ------
    TopologyError
        For any other expression.
    """
    atoms, tree = force.atoms("Bonds", ("p1", "p2")), parse_energy(force)
    parameters = {**force.globals(), **parameters_of(force, "Bonds", "PerBondParameters")}
    names = {name: Powers({0.0: np.asarray(value)}) for name, value in parameters.items()}
    try:
        powers = evaluate(tree, {**names, "r": Powers({1.0: np.ones(())})}).without_zeros()
    except (NotPowers, KeyError):
        if not _switched_pairs(draft, force, tree, names, atoms):
            low, up, k = flat_bottoms(force, tree, names, "r", len(atoms))
            linear_from = np.full(len(atoms), UNBOUNDED)
            draft.add("restraint_bond", atoms[k != 0], np.column_stack([low, up, linear_from, k])[k != 0])
        return
    found = {n: np.broadcast_to(c, len(atoms)) for n, c in powers.coefficients.items()}
    if set(found) <= _OF_PAIRS:
        _pairs(draft, atoms, found)
        return
    if 4.0 in found:
        _quartic_bonds(draft, force, atoms, found)
        return
    centre, k = harmonic(force, found, len(atoms), "the distance")
    draft.add("harmonic_distance", atoms[k != 0], np.column_stack([centre, k])[k != 0])


def _pairs(draft: SystemDraft, atoms: NDArray[np.int32], found: Mapping[float, Float64]) -> None:
    """Pair terms of coefficients (m,) of the powers -12, -6 and -1."""
    zero = np.zeros(len(atoms))
    rows = [-found.get(-6.0, zero), found.get(-12.0, zero), found.get(-1.0, zero) / _OPENMM_COULOMB]
    acting = np.any(rows, axis=0)
    draft.add("charged_pair14", atoms[acting], np.column_stack(rows)[acting])


def _switched_pairs(
    draft: SystemDraft, force: Force, tree: Node, names: Mapping[str, Powers], atoms: NDArray[np.int32]
) -> bool:
    """Pairs whose expression is one of powers and a constant up to some distance, where a switching function begins.

    The 1-4 pairs of CHARMM with a switched force are so; they never come there, which `check_distances` looks at.
    False for any other expression.
    """
    within, first = 0.0, None
    for r in _DISTANCES:
        try:
            at = np.full(len(atoms), r)
            powers = evaluate(tree, {**names, "r": Powers({1.0: np.ones(())})}, at=at).without_zeros()
        except (NotPowers, KeyError):
            return False
        piece = {n: np.broadcast_to(c, len(atoms)) for n, c in powers.coefficients.items()}
        first = piece if first is None else first
        if not set(first) <= {*_OF_PAIRS, 0.0} or not set(first) & _OF_PAIRS:
            return False
        if set(piece) != set(first) or any(not np.allclose(piece[n], c, rtol=1e-9) for n, c in first.items()):
            break
        within = float(r)
    assert first is not None
    draft.constant += float(first.get(0.0, np.zeros(1)).sum())
    draft.within.append((force, atoms, within))
    _pairs(draft, atoms, first)
    return True


def _quartic_bonds(
    draft: SystemDraft, force: Force, atoms: NDArray[np.int32], found: dict[float, Float64]
) -> None:
    """k/4 (r^2 - b^2)^2, the bonds of GROMOS: a harmonic term of r^2."""
    of_square = {0.5 * n: c for n, c in found.items()}
    square, half_k = harmonic(force, of_square, len(atoms), "the distance")
    if (square < 0).any():
        raise force.expression_error("has its minimum at a negative square of the distance")
    kept = half_k != 0
    draft.add("quartic_bond", atoms[kept], np.column_stack([np.sqrt(square), 2.0 * half_k])[kept])


def custom_angles(draft: SystemDraft, force: Force) -> None:
    """k/2 (theta - theta0)^2, or k/2 (cos(theta) - cos(theta0))^2 as in GROMOS.

    Raises
    ------
    TopologyError
        For any other expression.
    """
    atoms = force.atoms("Angles", ("p1", "p2", "p3"))
    parameters = {**force.globals(), **parameters_of(force, "Angles", "PerAngleParameters")}
    names = {name: Powers({0.0: np.asarray(value)}) for name, value in parameters.items()}
    tree = parse_energy(force)
    of_cosine = _with_cosine(tree)
    variable = "theta" if of_cosine is tree else "cosine"
    powers = evaluate_powers(force, of_cosine, {**names, variable: Powers({1.0: np.ones(())})})
    found = {n: np.broadcast_to(c, len(atoms)) for n, c in powers.coefficients.items()}
    centre, k = harmonic(force, found, len(atoms), "the angle")
    if variable == "cosine":
        if (np.abs(centre[k != 0]) > 1.0 + 1e-9).any():
            raise force.expression_error("has its minimum where the cosine is below -1 or above 1")
        draft.add(
            "cosine_angle",
            atoms[k != 0],
            np.column_stack([np.degrees(np.arccos(np.clip(centre, -1.0, 1.0))), k])[k != 0],
        )
    else:
        draft.add("angle", atoms[k != 0], np.column_stack([np.degrees(centre), k])[k != 0])


def _with_cosine(node: Node) -> Node:
    """The tree with ``cosine`` in place of cos(theta); the tree itself where there is none."""
    if node.operation == "cos" and node.arguments[0].text == "theta":
        return Node("name", "cosine")
    arguments = tuple(_with_cosine(argument) for argument in node.arguments)
    same = all(new is old for new, old in zip(arguments, node.arguments, strict=True))
    return node if same else Node(node.operation, node.text, arguments)


def harmonic(force: Force, found: dict[float, Float64], n: int, what: str) -> tuple[Float64, Float64]:
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
        raise force.unknown_expression(f"neither known powers of {what} nor a harmonic term")
    return centre, 2.0 * square
