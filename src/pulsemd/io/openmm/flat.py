"""Flat-bottomed wells: expressions that are zero up to a distance, or from one on, and harmonic beyond."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pulsemd.io.openmm.document import Force
from pulsemd.io.openmm.expression import Node
from pulsemd.io.openmm.powers import NotPowers, Powers, evaluate

Float64 = NDArray[np.float64]

UNBOUNDED = 1e4
"""Distance [nm] of a side without a wall."""

_NEAR, _FAR = 1e-4, 1e3
_SAMPLES = np.geomspace(1e-3, 1e2, 101)
_BESIDE = (0.9, 1.0 - 1e-6, 1.0 + 1e-6, 1.1)


def flat_bottoms(
    force: Force, tree: Node, names: Mapping[str, Powers], variable: str, n: int
) -> tuple[Float64, Float64, Float64]:
    """low, up and k of k/2 (r - up)^2 above `up` and k/2 (low - r)^2 below `low`, (n,) each; 0 between them.

    `low` is 0, and `up` is `UNBOUNDED`, where there is no wall.

    Raises
    ------
    TopologyError
        If the expression is anything else, for some term.
    """

    def pieces(r: Float64) -> list[Float64]:
        """Coefficients of r^0, r^1 and r^2 near distances (n,)."""
        found = evaluate(tree, {**names, variable: Powers({1.0: np.ones(())})}, at=r).without_zeros()
        if not set(found.coefficients) <= {0.0, 1.0, 2.0}:
            raise NotPowers("another power than the square")
        return [np.broadcast_to(found.coefficients.get(m, np.zeros(())), n) for m in (0.0, 1.0, 2.0)]

    try:
        (_, below, inner), (_, above, outer) = (pieces(np.full(n, r)) for r in (_NEAR, _FAR))
        with np.errstate(all="ignore"):
            low = np.where(inner != 0, -0.5 * below / inner, 0.0)
            up = np.where(outer != 0, -0.5 * above / outer, UNBOUNDED)
        k = 2.0 * np.where(outer != 0, outer, inner)
        walls = [np.minimum(wall * part, _SAMPLES[-1]) for wall in (low, up) for part in _BESIDE]
        places = [np.full(n, r) for r in _SAMPLES] + walls
        for r in places:
            energy = sum(c * r**m for m, c in enumerate(pieces(r)))
            expected = 0.5 * k * (np.maximum(low - r, 0.0) + np.maximum(r - up, 0.0)) ** 2
            if (np.abs(energy - expected) > 1e-9 * k * (r + low + 1e-3) ** 2).any():
                raise NotPowers("no flat-bottomed well")
    except NotPowers as error:
        raise force.unknown_expression(str(error)) from error
    except KeyError as error:
        raise force.expression_error(f"uses {error.args[0]!r}, which is no parameter of it") from error
    return low, up, k
