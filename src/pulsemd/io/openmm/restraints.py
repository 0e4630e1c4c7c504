"""CustomExternalForce: position restraints, harmonic ones and flat-bottomed ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from pulsemd.io.openmm.custom import evaluate_powers, parameters_of, parse_energy
from pulsemd.io.openmm.document import Force
from pulsemd.io.openmm.draft import SystemDraft
from pulsemd.io.openmm.expression import Node
from pulsemd.io.openmm.flat import UNBOUNDED, flat_bottoms
from pulsemd.io.openmm.powers import Powers

Float64 = NDArray[np.float64]

_ELSEWHERE = ({"x": 0.37, "y": -1.13, "z": 2.71}, {"x": -5.3, "y": 4.9, "z": 0.17})
"""Two places: what acts along one axis must not depend on where the others are."""


def custom_external(draft: SystemDraft, force: Force) -> None:
    """Restraints k_x (x - x0)^2 + k_y (y - y0)^2 + k_z (z - z0)^2, however they are written, or flat-bottomed ones.

    The square of ``periodicdistance(x, y, z, x0, y0, z0)`` is such a sum. Both are taken at the nearest image of the
    reference, which is the same as long as nothing moves by half the box.

    Raises
    ------
    TopologyError
        For any other expression.
    """
    whole = parse_energy(force, {"periodicdistance": 6})
    tree = _without_distances(whole)
    particles = force.atoms("Particles", ("index",))
    parameters = {**force.globals(), **parameters_of(force, "Particles", "PerParticleParameters")}
    names = {name: Powers({0.0: np.asarray(value)}) for name, value in parameters.items()}
    if distance := _find_distance(tree):
        _flat_bottoms(draft, force, whole, distance, particles, names)
        return
    axes = [_along(force, tree, names, axis, len(particles)) for axis in "xyz"]
    k, places = (np.stack(columns, 1) for columns in zip(*axes, strict=True))
    at = {axis: Powers({0.0: places[:, column]}) for column, axis in enumerate("xyz")}
    lowest = evaluate_powers(force, tree, {**names, **at}).coefficients.get(0.0, np.zeros(()))
    if (np.abs(lowest) > 1e-9 * np.maximum((k * places**2).sum(1), 1e-3)).any():
        _refuse(force)
    _refer(draft, force, particles[:, 0], places)
    draft.add("position_restraint", particles, 2.0 * k)


def _refer(draft: SystemDraft, force: Force, particles: NDArray[np.int32], places: Float64) -> None:
    """Set the reference positions (m, 3) of particles (m,), each of which may have one."""
    if draft.reference is None:
        draft.reference = np.full((draft.n_atoms, 3), np.nan)
    listed, times = np.unique(particles, return_counts=True)
    for particle in listed[(times > 1) | ~np.isnan(draft.reference[listed, 0])][:1]:
        raise force.error(
            f"it restrains particle {particle} more than once, or another force does",
            "make one restraint of them",
        )
    draft.reference[particles] = places


def _refuse(force: Force) -> NoReturn:
    raise force.unknown_expression("no restraint of a position")


def _find_distance(node: Node) -> Node | None:
    """A ``periodicdistance`` in a tree."""
    if node.operation == "periodicdistance":
        return node
    return next(filter(None, map(_find_distance, node.arguments)), None)


def _flat_bottoms(
    draft: SystemDraft,
    force: Force,
    tree: Node,
    distance: Node,
    particles: NDArray[np.int32],
    names: Mapping[str, Powers],
) -> None:
    """Wells of the distance from a place, over some of x, y and z."""
    n, counted, places = len(particles), [], []
    for axis, *ends in zip("xyz", distance.arguments[:3], distance.arguments[3:], strict=True):
        others = [end for end in ends if end.text != axis]
        if len(others) == 2:
            _refuse(force)
        counted.append(len(others) == 1)
        at = evaluate_powers(force, others[0], names).constant if others else np.zeros(())
        places.append(np.broadcast_to(np.zeros(()) if at is None else at, n))
    low, up, k = flat_bottoms(force, _with_name(tree, "distance"), names, "distance", n)
    inside = up < UNBOUNDED
    if (inside & (low > 0)).any():
        raise force.unknown_expression("walls on both sides")
    _refer(draft, force, particles[:, 0], np.stack(places, 1))
    axes = np.tile(np.array(counted, np.float64), (n, 1))
    draft.add("flat_bottom", particles, np.column_stack([axes, np.where(inside, up, -low), k]))


def _with_name(node: Node, name: str) -> Node:
    """The tree with a name in place of ``periodicdistance``."""
    if node.operation == "periodicdistance":
        return Node("name", name)
    return Node(node.operation, node.text, tuple(_with_name(argument, name) for argument in node.arguments))


def _along(
    force: Force, tree: Node, names: Mapping[str, Powers], axis: str, n: int
) -> tuple[Float64, Float64]:
    """k and the place (n,) of k (x - place)^2 along an axis; the place is 0 where there is no k."""
    found = []
    for place in _ELSEWHERE:
        others = {name: Powers({0.0: np.array(value)}) for name, value in place.items()}
        variable = {axis: Powers({1.0: np.ones(())})}
        powers = evaluate_powers(force, tree, {**names, **others, **variable}).coefficients
        if not set(powers) <= {0.0, 1.0, 2.0}:
            _refuse(force)
        found.append([np.broadcast_to(powers.get(power, np.zeros(())), n) for power in (2.0, 1.0)])
    (square, linear), others_elsewhere = found
    if not np.allclose(found[0], others_elsewhere, rtol=1e-9, atol=1e-9) or (linear[square == 0] != 0).any():
        _refuse(force)
    with np.errstate(all="ignore"):
        return square, np.where(square != 0, -0.5 * linear / square, 0.0)


def _without_distances(node: Node) -> Node:
    """The tree with squares of ``periodicdistance`` written as sums of squares."""
    inner = node.arguments[0] if node.arguments else node
    squared = node.operation == "square" or (node.operation == "^" and node.arguments[1].text in ("2", "2.0"))
    if squared and inner.operation == "periodicdistance":
        differences = [
            Node("-", arguments=pair) for pair in zip(inner.arguments[:3], inner.arguments[3:], strict=True)
        ]
        a, b, c = (Node("square", arguments=(difference,)) for difference in differences)
        return Node("+", arguments=(Node("+", arguments=(a, b)), c))
    return Node(node.operation, node.text, tuple(_without_distances(argument) for argument in node.arguments))
